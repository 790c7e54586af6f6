/* SPDX-License-Identifier: Apache-2.0 */
/* /.tabletfs and its files. */
#include "fs/node/admin.h"
#include "fs/node/list.h"
#include "fs/node/setting.h"
#include "fs/node/tree.h"

#include "engine/base/msg.h"

#include <errno.h>

/* A read past the end loads the lines logged since.  A read before the image, after a seek back, loads all lines in the ring. */
static int log_read(struct descriptor *h, uint64_t offset, void *buf, size_t n, size_t *got)
{
	struct content *w = &h->own;
	uint64_t end = w->origin + w->image.size;
	bool all = offset < w->origin || end == 0;
	struct buf lines = {0};
	int err = 0;

	if (all || offset >= end)
		err = msg_ring_after(&h->own.seen, all, &lines);
	if (err == 0 && (all || lines.n)) {
		stage_reset(&w->image);
		w->origin = all ? 0 : end;
		err = stage_load(&w->image, 0, lines.p, lines.n);
	}
	buf_fini(&lines);
	return err ? err : content_read(w, offset - w->origin, buf, n, got);
}

/* `tail -f` compares sizes.  For each descriptor that has read the log, the size includes the lines that it has not read. */
static uint64_t log_size(struct node *n, uint64_t size)
{
	struct open_file *x = open_file_find(n);

	if (!x)
		return size;
	mutex_lock(&x->lock);
	for (const struct descriptor *h = x->descriptors; h; h = h->next) {
		uint64_t end = h->own.origin + h->own.image.size;
		uint32_t seen = h->own.seen;
		struct buf lines = {0};

		if (end && msg_ring_after(&seen, false, &lines) == 0 && end + lines.n > size)
			size = end + lines.n;
		buf_fini(&lines);
	}
	mutex_unlock(&x->lock);
	open_file_put(x);
	return size;
}

static int log_render(struct node *n, struct buf *out)
{
	return msg_ring(out);
}

static int version_render(struct node *n, struct buf *out)
{
	return buf_printf(out, "tabletfs %s\n", PACKAGE_VERSION);
}

/* metrics and log name tables and rows that other users may not list. */
static const struct setting system_settings[] = {
	{.name = "config", .mode = 0600, .render = admin_render_config, .apply = admin_apply_config},
	{.name = "ctl", .mode = 0600, .render = admin_render_system_verbs, .apply = admin_apply_system},
	{.name = "log", .mode = 0400, .render = log_render, .read = log_read, .size = log_size},
	{.name = "metrics", .mode = 0400, .render = admin_render_metrics},
	{.name = "servers", .mode = 0444, .render = admin_render_servers},
	{.name = "status", .mode = 0444, .render = admin_render_status},
	{.name = "version", .mode = 0444, .render = version_render},
	{0},
};

const struct node_ops system_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.fixed_name = ".tabletfs",
	.attr = tree_attr,
	.settings = system_settings,
	.resolve = setting_resolve,
	.list = (const list_phase_fn[]){setting_list, NULL},
	.rename = setting_rename,
};
