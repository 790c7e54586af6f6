/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tablet's file list is changed durably: one mutation of its METADATA
 * row, synced before it is published; for the root tablet one
 * compare-and-set of the lock service's file "root" (DESIGN 3.2, 3.3).
 *
 * Only the owner changes a row: every mutation checks that tablet:server is
 * what we last knew, and the first one of this incarnation writes our number
 * there.  A check that fails, or a root file of another version, means that
 * the row is read again: if it is not ours any more the answer is -ESTALE,
 * which stops the tablet.
 *
 * A change that fails leaves the row as it was or, if the failure was one of
 * the disk, in doubt; then too the row is read again before the next change.
 * What a later edit adds holds the same cells under the same sequence numbers
 * as what may have been added already, and the tablet leaves the files of a
 * failed edit lying for the sweep.  A split whose insertion of a row is in
 * doubt is undone first; a merge of which that is not known is asked for.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

static int read_row(struct served_tablet *served, struct meta_tablet *out, uint64_t *version)
{
	struct buf b = {0};
	int err;

	if (served->kind == KIND_ROOT) {
		err = lock_get(served->server->locks, "root", &b, version);
		if (!err)
			err = meta_root_decode(buf_slice(&b), out);
	} else {
		err = meta_row_key(&b, served->table, served->last, buf_slice(&served->end));
		if (!err)
			err = metadata_read(served->server->metadata, buf_slice(&b), out);
	}
	buf_fini(&b);
	return err;
}

/* Takes next. */
static void row_becomes(struct served_tablet *served, struct meta_tablet *next)
{
	file_refs_add(served->server, next);
	file_refs_remove(served->server, &served->row);
	meta_tablet_fini(&served->row);
	served->row = *next;
	*next = (struct meta_tablet){0};
}

/* A split that failed may have inserted its row.  Nobody has seen it: it is deleted, and has not been. */
static int undo_split(struct served_tablet *served)
{
	struct buf key = {0};
	int err = meta_row_key(&key, served->table, false, buf_slice(&served->unknown_split));

	if (!err)
		err = metadata_delete(served->server->metadata, buf_slice(&key));
	buf_fini(&key);
	if (!err)
		buf_fini(&served->unknown_split);
	return err;
}

int row_exists(struct server *s, uint32_t table, struct slice end)
{
	struct meta_tablet now = {0};
	struct buf key = {0};
	int err = meta_row_key(&key, table, false, end);

	if (!err)
		err = metadata_read(s->metadata, buf_slice(&key), &now);
	meta_tablet_fini(&now);
	buf_fini(&key);
	return err == 0 ? 1 : err == -ENOENT ? 0 : err;
}

/*
 * A merge that failed may have deleted the row of its lower tablet, which is
 * this one or the one below.  Then the two are one, though not here: no edit
 * is possible until merge.c has made them so.
 */
static int ask_merge(struct served_tablet *served)
{
	int there = row_exists(
		served->server, served->table, served->unknown_own ? buf_slice(&served->end) : buf_slice(&served->row.begin));

	if (there == 0 && !served->server->closing)
		task_queue(&served->server->resolve_task);
	else if (there > 0)
		served->unknown_own = served->unknown_below = false;
	return there < 0 ? there : there ? 0 : -EIO;
}

/* The row as it is now; -ESTALE unless it is still ours to change. */
static int reload(struct served_tablet *served)
{
	struct meta_tablet now = {0};
	uint64_t version = served->root_version;
	struct buf begin;
	int err = read_row(served, &now, &version);

	/* Of the tablet below: folded in here already, or with a row of its own. */
	if (!err)
		err = meta_tablet_resolve_merge(&now, buf_slice(&served->row.begin));
	if (err == -ENOENT)
		err = -ESTALE; /* the table has been dropped */
	else if (!err && now.server != served->server->incarnation && now.server != served->row.server)
		err = -ESTALE;
	if (!err) {
		begin = now.begin; /* in METADATA a hint; ours is true */
		now.begin = served->row.begin;
		served->row.begin = begin;
		row_becomes(served, &now);
		served->root_version = version;
		served->row_unknown = false;
	}
	meta_tablet_fini(&now);
	return err;
}

/* The row after the edit. */
static int next_row(struct served_tablet *served, const struct tablet_edit *e, struct meta_tablet *next)
{
	int err = meta_tablet_copy(&served->row, next);

	if (!err)
		err = meta_tablet_apply(next, e);
	next->server = served->server->incarnation;
	return err;
}

static int write_root(struct served_tablet *served, const struct meta_tablet *next, uint64_t *version)
{
	struct buf b = {0};
	int err = meta_root_encode(next, &b);

	if (!err)
		err = lock_put(served->server->locks, "root", buf_slice(&b), served->root_version, version);
	buf_fini(&b);
	return err;
}

static int write_row(struct served_tablet *served, const struct tablet_edit *e)
{
	struct op *owner = NULL, *fold = NULL, *edit = NULL, *ops = NULL;
	unsigned owner_count = 0, fold_count = 0, edit_count = 0;
	struct arena arena = {0};
	struct buf key = {0};
	int err = meta_row_key(&key, served->table, served->last, buf_slice(&served->end));

	if (!err)
		err = meta_ops_owner(&served->row, served->server->incarnation, &arena, &owner, &owner_count);
	if (!err && served->row.unfolded)
		err = meta_ops_fold(&served->row, &arena, &fold, &fold_count);
	if (!err)
		err = meta_ops_edit(&served->row, e, &arena, &edit, &edit_count);
	if (!err) {
		ops = arena_alloc(&arena, (owner_count + fold_count + edit_count) * sizeof(*ops));
		err = ops ? 0 : -ENOMEM;
	}
	if (!err) {
		memcpy(ops, owner, owner_count * sizeof(*ops));
		if (fold_count)
			memcpy(ops + owner_count, fold, fold_count * sizeof(*ops));
		memcpy(ops + owner_count + fold_count, edit, edit_count * sizeof(*ops));
		err = metadata_mutate(served->server->metadata, buf_slice(&key), ops, owner_count + fold_count + edit_count);
	}
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

static bool not_as_known(int err)
{
	return err == -ECANCELED || err == -ESTALE || err == -EEXIST || err == -ENOENT;
}

int row_resolve(struct served_tablet *served)
{
	int err = 0;

	if (served->unknown_split.n)
		err = undo_split(served);
	if (!err && (served->unknown_own || served->unknown_below))
		err = ask_merge(served);
	return !err && served->row_unknown ? reload(served) : err;
}

static int change(struct served_tablet *served, const struct tablet_edit *e)
{
	struct meta_tablet next = {0};
	uint64_t version = served->root_version;
	int err = 0;

	for (int pass = 0; pass < 2; pass++) {
		err = row_resolve(served);
		if (err)
			return err;
		err = next_row(served, e, &next);
		if (!err) {
			err = served->kind == KIND_ROOT ? write_root(served, &next, &version) : write_row(served, e);
			served->row_unknown = err != 0;
			if (err)
				files_sweep_soon(served->server);
		}
		if (!err) {
			row_becomes(served, &next);
			served->root_version = version;
			return 0;
		}
		meta_tablet_fini(&next);
		if (!not_as_known(err))
			return err;
	}
	return -EIO; /* what we read is not what is there */
}

int row_fold(struct served_tablet *served)
{
	static const struct tablet_edit none = {.event = "merged"};
	int err = row_resolve(served);

	return !err && served->row.unfolded ? change(served, &none) : err;
}

int row_commit(void *arg, struct tablet *t, const struct tablet_edit *e)
{
	struct served_tablet *served = arg;
	int err = change(served, e);

	(void)t;
	/* It is tried again until it succeeds. */
	if (err && err != served->reported_err && (!served->user_table || !user_table_dropped(served->server, served->user_table)))
		msg_error("table %u, tablet ending at %s: its METADATA row cannot be changed: %s", served->table,
			served->last ? "the end" : Q(buf_slice(&served->end)), strerror(-err));
	served->reported_err = err;
	return err;
}
