/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.snap/B/.since/A: the difference of two snapshots as two streams of
 * names.  .changed has the cells that B has and A has not, .deleted those that A
 * had and B has not.  A line is the path of a version below the table, as the
 * tree has it, so rsync --files-from and xargs take the lines as they are.
 */
#include "engine/base/name.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

/* The table of the snapshot in which n is; -ENOENT: below /.snap there is none. */
static int since_base(struct node *n, struct tfs_table **table)
{
	struct node *snapshot = node_table(n);

	if (snapshot->parent->kind != NODE_SNAPS)
		return -ENOENT;
	*table = node_store_table(snapshot->parent);
	return 0;
}

/* ---- .since ---- */

static int since_all_resolve(struct node *dir, const char *name, struct resolved *out)
{
	if (!tfs_name_valid(name))
		return -ENOENT;
	out->kind = NODE_SINCE;
	out->parent = dir;
	return buf_set(&out->key, name, strlen(name));
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

static int since_exists(struct node *n)
{
	struct tfs_table *table, *from;
	int err = since_base(n, &table);

	if (!err)
		err = tfs_snapshot_open(table, node_name(n), &from);
	if (!err)
		tfs_table_close(from);
	return err;
}

static int since_resolve(struct node *dir, const char *name, struct resolved *out)
{
	if (strcmp(name, ".changed") != 0 && strcmp(name, ".deleted") != 0)
		return -ENOENT;
	out->kind = NODE_SINCE_STREAM;
	out->parent = dir;
	return buf_set(&out->key, name, strlen(name));
}

const struct node_ops since_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.attr = tree_attr,
	.resolve = since_resolve,
	.list = (const list_phase_fn[]){NULL},
	.exists = since_exists,
	.rename = setting_rename,
};

/* ---- the streams ---- */

struct since_state {
	struct tfs_table *from, *to; /* on behalf of the user */
	struct tfs_diff *diff;
	struct buf text;
	size_t at; /* bytes of text that were read */
	bool deleted, ended;
};

static void since_close(struct sequential *s, struct changes *c)
{
	struct since_state *st = s->state;

	tfs_diff_free(st->diff);
	tfs_table_close(st->from);
	tfs_table_close(st->to);
	buf_fini(&st->text);
	free(st);
}

static int since_open(struct sequential *s, int flags)
{
	struct since_state *st = calloc(1, sizeof(*st));
	struct caller *caller = caller_new(s->req);
	struct tfs_table *table, *from = NULL;
	int err = st && caller ? since_base(s->node, &table) : -ENOMEM;

	if (!err)
		err = tfs_snapshot_open(table, node_name(s->node->parent), &from);
	if (!err)
		err = tfs_table_as(from, &caller->user, &st->from);
	if (!err)
		err = fs_table_as_caller(caller, s->node, &st->to);
	if (!err)
		err = tfs_diff_new(st->from, st->to, &st->diff);
	if (!err)
		st->deleted = strcmp(node_name(s->node), ".deleted") == 0;
	tfs_table_close(from);
	free(caller);
	s->state = st;
	if (err && st)
		since_close(s, NULL);
	return err;
}

static int since_rewind(struct sequential *s)
{
	struct since_state *st = s->state;

	tfs_diff_free(st->diff);
	st->diff = NULL;
	buf_reset(&st->text);
	st->at = 0;
	st->ended = false;
	return tfs_diff_new(st->from, st->to, &st->diff);
}

static int add_name(struct buf *text, const struct tfs_cell *cell)
{
	int err = name_encode(NAME_ROW, slice_from(cell->row), 0, text);

	if (!err)
		err = buf_printf(text, "/%s/", cell->family);
	if (!err)
		err = name_encode(NAME_VERSION, slice_from(cell->qualifier), cell->ts, text);
	return err ? err : buf_u8(text, '\n');
}

static int since_fill(struct since_state *st, const struct sequential *s, size_t enough)
{
	while (!st->ended && st->text.n < enough) {
		struct tfs_cell cell;
		bool deleted;
		int r = tfs_diff_next(st->diff, &deleted, &cell);

		st->ended = r == 0;
		if (r > 0 && deleted == st->deleted)
			r = add_name(&st->text, &cell);
		if (r < 0)
			return r;
		if (s->req && fuse_req_interrupted(s->req))
			return -EINTR;
	}
	return 0;
}

static int since_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct since_state *st = s->state;
	size_t left;
	int err;

	if (st->at == st->text.n) {
		buf_reset(&st->text);
		st->at = 0;
	}
	err = since_fill(st, s, st->at + n);
	left = st->text.n - st->at;
	if (err && left == 0)
		return err;
	*got = left < n ? left : n;
	memcpy(buf, st->text.p + st->at, *got);
	st->at += *got;
	return 0;
}

static const struct sequential_ops since_stream_sequential = {
	.open = since_open,
	.read = since_read,
	.rewind = since_rewind,
	.close = since_close,
};

static int since_stream_attr(struct node *n, struct stat *st, double *timeout)
{
	struct family_info owner = {.mode = 0444};
	const struct tfs_schema *s;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	owner.mode = s->mode & 0444;
	owner.uid = s->uid;
	owner.gid = s->gid;
	cell_attr(n, &owner, s->snapshot_us, s->snapshot_us, 0, st);
	tfs_schema_put(s);
	return 0;
}

const struct node_ops since_stream_ops = {
	.traits = KIND_UNCACHED,
	.attr = since_stream_attr,
	.sequential = &since_stream_sequential,
};
