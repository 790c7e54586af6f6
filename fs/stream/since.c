/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.snap/B/.since/A: the difference of two snapshots of a table.  .rows is
 * the tree of the cells that B has and A lacks (fs/node/view.c).  Two streams
 * have names of cells: .changed lists the same cells, .deleted the cells that A
 * had and B lacks.  A line is the path of a version below the table, as the
 * tree has it.  No name has a newline.
 */
#include "fs/stream/stream.h"

#include "engine/base/name.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

/* ---- .since ---- */

static int since_all_resolve(struct node *dir, const char *name, struct resolved *out)
{
	return snapshot_resolve_name(name, NODE_SINCE, out);
}

const struct node_ops since_all_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.fixed_name = ".since",
	.attr = tree_attr,
	.resolve = since_all_resolve,
	.list = (const list_phase_fn[]){NULL},
	.rename = setting_rename,
};

/* ---- .since/A ---- */

/* The node holds the open snapshot A. */
static int since_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct tfs_table *from;
	int err = tfs_snapshot_open(node_store_table(dir), (const char *)r->key.p, &from);

	return err ? err : table_bind(dir, NODE_SINCE, from, out);
}

static int since_name(struct node *n, struct buf *out)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(n->dir->table, &s);

	if (err) {
		(void)!buf_printf(out, "(snapshot %u, dropped)", load_be32(n->key));
		return err;
	}
	err = buf_append(out, s->name, strlen(s->name));
	tfs_schema_put(s);
	return err;
}

static const struct fixed_child since_children[] = {
	{".rows", NODE_VIEW}, {".changed", NODE_SINCE_STREAM}, {".deleted", NODE_SINCE_STREAM}, {0}};

const struct node_ops since_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.name = since_name,
	.attr = tree_attr,
	.children = since_children,
	.list = (const list_phase_fn[]){NULL},
	.find = since_find,
	.rename = setting_rename,
};

/* ---- the streams ---- */

struct since_state {
	struct tfs_table *of, *absent_from; /* the stream names cells of `of` that absent_from lacks; both on behalf of the user */
	struct tfs_scan *scan;
	struct unread out;
	bool deleted, ended;
};

static void since_close(struct sequential *s, struct changes *c)
{
	struct since_state *st = s->state;

	tfs_scan_free(st->scan);
	tfs_table_close(st->of);
	buf_fini(&st->out.text);
	free(st);
}

static int since_begin(struct sequential *s)
{
	struct since_state *st = s->state;
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_KEYS, .absent_from = st->absent_from, .absent_names = st->deleted, .stop = fs_is_interrupted};

	tfs_scan_free(st->scan);
	st->scan = NULL;
	unread_reset(&st->out);
	st->ended = false;
	return tfs_scan_new(st->of, &spec, &st->scan);
}

static int since_seek(struct sequential *s, uint64_t at)
{
	struct since_state *st = s->state;

	return !at ? since_begin(s) : unread_seek(&st->out, at) ? 0 : -ESPIPE;
}

static int since_open(struct sequential *s, int flags)
{
	struct since_state *st = calloc(1, sizeof(*st));
	struct caller *caller = caller_new();
	struct tfs_table *from = s->node->parent->dir->table, *to = node_store_table(s->node);
	int err = st && caller ? 0 : -ENOMEM;

	if (!err) {
		st->deleted = strcmp(node_name(s->node), ".deleted") == 0;
		st->absent_from = st->deleted ? to : from;
		err = tfs_table_as(st->deleted ? from : to, &caller->user, &st->of);
	}
	free(caller);
	s->state = st;
	if (!err)
		err = since_begin(s);
	if (err && st)
		since_close(s, NULL);
	return err;
}

static int add_name(struct buf *text, const struct tfs_cell *cell)
{
	int err = name_encode(NAME_ROW, cell->row, 0, text);

	if (!err)
		err = buf_printf(text, "/%s/", cell->family);
	if (!err)
		err = name_encode(NAME_VERSION, cell->qualifier, cell->ts, text);
	return err ? err : buf_u8(text, '\n');
}

static int since_fill(struct since_state *st, size_t enough)
{
	while (!st->ended && st->out.text.n < enough) {
		struct tfs_cell cell;
		int r = tfs_scan_next(st->scan, &cell);

		st->ended = r == 0;
		if (r > 0)
			r = add_name(&st->out.text, &cell);
		if (r < 0)
			return r;
	}
	return 0;
}

static int since_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct since_state *st = s->state;
	int err;

	unread_trim(&st->out, n);
	err = since_fill(st, st->out.at + n);
	*got = unread_take(&st->out, buf, n);
	return *got == 0 ? err : 0;
}

static const struct sequential_ops since_stream_sequential = {
	.open = since_open,
	.read = since_read,
	.seek = since_seek,
	.close = since_close,
};

static int since_stream_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct tfs_schema *s;
	int64_t us;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	us = s->snapshot_us;
	tfs_schema_put(s);
	return stream_attr(n, 0444, us, st);
}

const struct node_ops since_stream_ops = {
	.traits = KIND_UNCACHED | KIND_NAMED,
	.attr = since_stream_attr,
	.exists = stream_exists,
	.sequential = &since_stream_sequential,
};
