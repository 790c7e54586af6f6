/* SPDX-License-Identifier: Apache-2.0 */
/* The root: .tabletfs with its files, .snap and the tables. */
#include "fs/base/reply.h"
#include "fs/node/admin.h"
#include "fs/node/help.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

static int root_resolve(struct node *dir, const char *name, struct resolved *out)
{
	out->forbidden = name[0] == '.';
	if (out->forbidden || !tfs_name_valid(name))
		return -ENOENT;
	out->kind = NODE_TABLE;
	out->parent = dir;
	return buf_set(&out->key, name, strlen(name));
}

/* ---- the listing ---- */

#define BATCH 16

struct tables {
	char names[BATCH][TFS_NAME_MAX + 1];
	int count, at;
};

static int list_tables(struct lister *l, struct list_entry *e)
{
	uint8_t key[TABLE_KEY_BYTES];
	struct tables *names = l->memory;
	struct tfs_table *t;
	const char *name;
	int r;

	if (!names && !(names = l->memory = calloc(1, sizeof(*names))))
		return -ENOMEM;
	do {
		if (names->at == names->count) {
			char after[TFS_NAME_MAX + 1] = "";

			if (l->at.key.n)
				memcpy(after, l->at.key.p, l->at.key.n);
			names->at = names->count = 0;
			r = tfs_table_list(fs.store, after, names->names, BATCH);
			if (r <= 0)
				return r;
			names->count = r;
		}
		name = names->names[names->at++];
		r = buf_set(&l->at.key, name, strlen(name));
		if (r == 0)
			r = tfs_table_open(fs.store, name, &t);
	} while (r == -ENOENT); /* just dropped */
	*e = (struct list_entry){.name = tfs_str(name), .kind = NODE_TABLE, .parent = l->dir, .key = tfs_str(name)};
	if (r == -EBADMSG) {
		e->unsure = true; /* its schema is damaged: everything but the name is EIO */
		return 1;
	}
	if (r)
		return r;
	table_key(t, key);
	tfs_table_close(t);
	r = buf_set(&l->name, key, sizeof(key));
	e->key = buf_bytes(&l->name);
	return r ? r : 1;
}

static const struct fixed_child root_children[] = {{".tabletfs", NODE_SYSTEM}, {".snap", NODE_SNAPS}, {0}};

const struct node_ops root_ops = {
	.traits = KIND_DIR | KIND_TIMED,
	.attr = tree_attr,
	.children = root_children,
	.names = TABLE_NAMES,
	.resolve = root_resolve,
	.list = (const list_phase_fn[]){list_tables, NULL},
};

/* ---- /.tabletfs ---- */

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

/* `tail -f` compares sizes.  The size includes the lines that a descriptor of the log has not read. */
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

/* The metrics and the log name tables and rows that other users may not list. */
static const struct setting system_settings[] = {
	{.name = "clients", .mode = 0444, .render = admin_render_clients},
	{.name = "config", .mode = 0600, .render = admin_render_config, .apply = admin_apply_config},
	{.name = "ctl", .mode = 0600, .render = admin_render_verbs, .apply = admin_apply_verbs},
	{.name = "help", .mode = 0444, .render = help_render},
	{.name = "log", .mode = 0400, .render = log_render, .read = log_read, .size = log_size},
	{.name = "metrics", .mode = 0400, .render = admin_render_metrics},
	{.name = "refused", .mode = 0444, .render = refusals_render},
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
