/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits: changes of a tablet's file list or redo set.  An edit is one mutation
 * of the tablet's METADATA row, synced before the tablet publishes the change.
 * The root tablet's row is the lock service's file "root"; an edit of it is one
 * compare-and-set.
 *
 * Only the owner of a tablet changes its row.  Every mutation checks that the
 * column tablet:server, which is the owner and its assignment number, has the
 * value that was last read or written.  In an embedded store it may name the owner
 * of an earlier incarnation; then the first mutation sets it to this server, with the
 * next number.  If the check fails, or the root file has another version, the row is
 * read again.  If another server owns the tablet now, the edit returns -TABLET_TAKEN
 * and the tablet stops.
 *
 * An edit that failed may have taken place.  So the row is read again before the
 * next change.  The tablet repeats the same edit, with the same files, until it
 * succeeds; if the edit had taken place, the repetition changes nothing.  If a
 * split failed and the lower part's row may exist, that row is deleted first.
 * If a merge failed and the lower row may have been deleted, the lower row is
 * read first.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdlib.h>

int row_read(struct server *s, enum kind kind, uint32_t table, bool last, struct tfs_bytes end, struct meta_tablet *out,
	uint64_t *version)
{
	struct buf b = {0};
	int err;

	if (kind == KIND_ROOT) {
		err = lock_sync(s->locks);
		if (!err)
			err = lock_get(s->locks, "root", &b, version);
		if (!err)
			err = meta_root_decode(buf_bytes(&b), out);
	} else {
		err = meta_row_key(&b, table, last, end);
		if (!err)
			err = metadata_read(s->metadata, buf_bytes(&b), out);
	}
	buf_fini(&b);
	return err;
}

/* Stores *next as the row, and empties *next. */
static void row_set(struct served_tablet *served, struct meta_tablet *next)
{
	meta_tablet_fini(&served->row);
	served->row = *next;
	*next = (struct meta_tablet){0};
}

/* A failed split may have inserted the lower part's row.  No tablet was made from it, so the row is deleted and the split did not take place. */
static int resolve_split(struct served_tablet *served)
{
	struct buf key = {0};
	int err = meta_row_key(&key, served->table, false, buf_bytes(&served->unknown_split));

	if (!err)
		err = metadata_delete(served->server->metadata, buf_bytes(&key));
	buf_fini(&key);
	if (!err)
		buf_fini(&served->unknown_split);
	return err;
}

int row_exists(struct tablet_service *metadata, uint32_t table, struct tfs_bytes end)
{
	struct meta_tablet now = {0};
	struct buf key = {0};
	int err = meta_row_key(&key, table, false, end);

	if (!err)
		err = metadata_read(metadata, buf_bytes(&key), &now);
	meta_tablet_fini(&now);
	buf_fini(&key);
	return err == 0 ? 1 : err == -ENOENT ? 0 : err;
}

/*
 * A failed merge may have deleted the row of its lower tablet: this tablet
 * (unknown_own) or the tablet below it.  Returns 0 if the row exists.  If not,
 * returns -EIO, because neither row may be changed until retire.c has completed
 * the merge.
 */
static int resolve_merge(struct served_tablet *served)
{
	int exists = row_exists(served->server->metadata, served->table,
		served->unknown_own ? buf_bytes(&served->end) : buf_bytes(&served->row.begin));

	if (exists == 0)
		retire_resolve_after(served->server, 0);
	else if (exists > 0)
		served->unknown_own = served->unknown_below = false;
	return exists < 0 ? exists : exists ? 0 : -EIO;
}

/* Returns true if the row names this server and this assignment. */
static bool served_owns(const struct served_tablet *served, const struct meta_tablet *row)
{
	return row->server == served->server->o.incarnation && row->assignment == served->assignment;
}

/* Reads the row.  -TABLET_TAKEN: another server owns the tablet, or its table was dropped. */
static int row_read_again(struct served_tablet *served)
{
	struct meta_tablet now = {0};
	uint64_t version = served->root_version;
	struct buf begin;
	int err = row_read(served->server, served->kind, served->table, served->last, buf_bytes(&served->end), &now, &version);

	/* If the row has a merge column: ignores it if the lower row exists, else folds the lower row in. */
	if (!err)
		err = meta_tablet_resolve_merge(&now, buf_bytes(&served->row.begin));
	if (err == -ENOENT)
		err = -TABLET_TAKEN; /* the table was dropped */
	else if (!err && !served_owns(served, &now) &&
		(now.server != served->row.server || now.assignment != served->row.assignment))
		err = -TABLET_TAKEN;
	if (!err) {
		begin = now.begin; /* only a hint, because the tablet keeps the begin that it was loaded with */
		now.begin = served->row.begin;
		served->row.begin = begin;
		row_set(served, &now);
		served->root_version = version;
		served->row_unknown = false;
	}
	meta_tablet_fini(&now);
	return err;
}

/* *version: the version of the row that is replaced.  Set to the version of the new row. */
static int root_write(struct server *s, const struct meta_tablet *next, uint64_t *version)
{
	struct buf b = {0};
	int err = meta_root_encode(next, &b);

	if (!err)
		err = lock_put(s->locks, "root", buf_bytes(&b), *version, version);
	buf_fini(&b);
	return err;
}

int row_mutate(struct served_tablet *served, bool claim, const struct op *ops, unsigned count)
{
	struct arena arena = {0};
	struct buf key = {0};
	struct op *owner, *all;
	unsigned n;
	int err = meta_row_key(&key, served->table, served->last, buf_bytes(&served->end));

	if (!err)
		err = meta_ops_owner(&served->row, claim ? served->server->o.incarnation : served->row.server,
			claim ? served->assignment : served->row.assignment, &arena, &owner, &n);
	if (!err) {
		all = arena_alloc(&arena, (n + count) * sizeof(*all));
		err = all ? 0 : -ENOMEM;
	}
	if (!err) {
		memcpy(all, owner, n * sizeof(*all));
		memcpy(all + n, ops, count * sizeof(*all));
		err = metadata_mutate(served->server->metadata, buf_bytes(&key), all, n + count);
	}
	if (err == -SESSION_ENDED)
		fence_buried(served->server->fence);
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

static int row_write(struct served_tablet *served, const struct tablet_edit *e)
{
	struct arena arena = {0};
	struct op *ops;
	unsigned count;
	int err = meta_ops_edit(&served->row, e, &arena, &ops, &count);

	if (!err)
		err = row_mutate(served, true, ops, count);
	arena_fini(&arena);
	return err;
}

static int root_release(struct server *s, const struct meta_tablet *row, uint64_t version)
{
	struct meta_tablet next = {0};
	int err = meta_tablet_copy(row, &next);

	next.server = 0;
	if (!err)
		err = root_write(s, &next, &version);
	meta_tablet_fini(&next);
	return err;
}

int row_release_read(struct server *s, enum kind kind, const struct meta_tablet *row, uint64_t version)
{
	struct arena arena = {0};
	struct buf key = {0};
	struct clock_state clock;
	struct op *ops;
	unsigned count;
	int err;

	if (kind == KIND_ROOT)
		return root_release(s, row, version);
	err = meta_row_key(&key, row->table, row->last, buf_bytes(&row->end));
	clock_get_state(s->o.clock, &clock);
	if (!err)
		err = meta_ops_release(row, clock.mark_us, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(s->metadata, buf_bytes(&key), ops, count);
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

/* Errors of a mutation whose check found another row than this server's. */
static bool is_changed_by_another(int err)
{
	return err == -ECANCELED || err == -VERSION_CHANGED || err == -EEXIST || err == -ENOENT;
}

/* Resolves a change, split or merge whose outcome is unknown, if there is one.  Called before the next change of the row. */
static int row_resolve(struct served_tablet *served)
{
	int err = 0;

	if (served->unknown_split.n)
		err = resolve_split(served);
	if (!err && (served->unknown_own || served->unknown_below))
		err = resolve_merge(served);
	return !err && served->row_unknown ? row_read_again(served) : err;
}

/* Applies the edit to the row, in METADATA and then in memory. */
static int row_change(struct served_tablet *served, const struct tablet_edit *e)
{
	struct meta_tablet next = {0};
	uint64_t version;
	int err = 0;

	for (int pass = 0; pass < 2; pass++) {
		err = row_resolve(served);
		if (err)
			return err;
		version = served->root_version; /* row_resolve may have read another version */
		err = meta_tablet_copy(&served->row, &next);
		if (!err)
			err = meta_tablet_apply(&next, e);
		next.server = served->server->o.incarnation;
		next.assignment = served->assignment;
		if (!err) {
			err = served->kind == KIND_ROOT ? root_write(served->server, &next, &version) : row_write(served, e);
			served->row_unknown = err != 0;
		}
		if (!err) {
			row_set(served, &next);
			atomic_store(&served->unclaimed, false);
			served->root_version = version;
			served_event(served, e->event);
			return 0;
		}
		meta_tablet_fini(&next);
		if (!is_changed_by_another(err))
			return err;
	}
	return -EIO; /* another server has changed the row twice */
}

int row_fold(struct served_tablet *served)
{
	static const struct tablet_edit none = {.event = "merged"};
	int err = row_resolve(served);

	return !err && served->row.unfolded ? row_change(served, &none) : err;
}

int row_release(struct served_tablet *served)
{
	return row_release_read(served->server, served->kind, &served->row, served->root_version);
}

int row_commit(void *arg, struct tablet *t, const struct tablet_edit *e)
{
	struct served_tablet *served = arg;
	int err = row_change(served, e);

	/* The tablet repeats the edit until it succeeds.  So an error is logged only if it differs from the last one. */
	if (err && err != served->reported_err && (!served->user_table || !user_table_dropped(served->user_table)))
		msg_error("table %u, tablet ending at %s: its METADATA row cannot be changed: %s", served->table,
			served->last ? "the end" : Q(buf_bytes(&served->end)), error_text(err));
	served->reported_err = err;
	return err;
}
