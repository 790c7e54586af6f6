/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames of cells, which are one mutation of a row, and of scratch files to
 * cells.  Between rows the answer is EXDEV, so that mv copies.
 *
 *   1 commit the bytes staged in the source
 *   2 the mutation
 *   3 end the writers of the target
 *   4 the descriptors of the source become the target's
 *   5 notify the kernel
 *
 * After a crash the rename is done or not done.  A refusal changes no
 * descriptor.
 */
#include "fs/node/kinds.h"

#include "engine/base/msg.h"
#include "fs/base/extra.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/scratch/scratch.h"

#include <errno.h>
#include <stdlib.h>

static bool same_row(const struct node *family_a, const struct node *family_b)
{
	return node_table((struct node *)family_a) == node_table((struct node *)family_b) &&
		bytes_eq(node_key(family_a->parent), node_key(family_b->parent));
}

static struct tfs_ts ts_of(const struct resolved *r)
{
	return r->kind == NODE_VERSION ? tfs_at(r->ts) : TFS_AUTO;
}

/* *ts: of the version, or TFS_NO_TIME if the cell does not exist. */
static int check_target(struct resolved *to, int64_t *ts)
{
	struct cell_place p;
	struct tfs_info info;
	int err;

	cell_place_at(to->parent, buf_bytes(&to->key), to->kind == NODE_VERSION, to->ts, &p);
	err = cell_stat(&p, &info);
	*ts = err ? TFS_NO_TIME : info.ts;
	return err == -ENOENT ? 0 : err;
}

int cell_displace(const struct resolved *from, bool moves, struct versions *all, struct displaced *displaced)
{
	struct tfs_bytes key = buf_bytes(&from->key);
	int err = 0;

	if (from->kind == NODE_PLAIN) {
		err = column_versions(from->parent, key, all);
	} else if ((all->ts = malloc(sizeof(*all->ts)))) {
		all->ts[0] = from->ts;
		all->n = 1;
	} else {
		err = -ENOMEM;
	}
	for (size_t i = 0; i < all->n && err == 0; i++)
		err = displaced_add(displaced, from->parent, key, all->ts[i], moves);
	return err;
}

static int note_target(struct resolved *to, struct node *target, int64_t ts, struct displaced *replaced)
{
	if (to->kind == NODE_VERSION)
		return displaced_add(replaced, to->parent, buf_bytes(&to->key), to->ts, false);
	displaced_add_name(replaced, target, ts);
	return 0;
}

static bool same_column(const struct resolved *a, const struct resolved *b)
{
	return bytes_eq(node_key(a->parent), node_key(b->parent)) && bytes_eq(buf_bytes(&a->key), buf_bytes(&b->key));
}

/* Writers of the source write to the target from now on.  If the target's node was ended, its name gets a new node. */
static void descriptors_forward(struct node *source, struct node *target, int64_t ts)
{
	struct node *now = NULL;

	if (!node_lives(target)) {
		now = node_get(target->parent, (enum node_kind)target->kind, node_key(target),
			target->kind == NODE_VERSION ? target->ts : 0);
		if (!now)
			msg_error("out of memory: writers of a renamed file were cut off");
	}
	ofile_retarget(source, now ? now : target, ts);
	node_put(now);
}

/* The store has renamed the cells: moves the descriptors of the source, and ends the target's descriptors. */
static void descriptors_follow(struct resolved *from, const struct versions *all, struct node *source, bool onto,
	struct node *target, int64_t to_ts, struct displaced *moved, struct displaced *replaced, struct changes *c)
{
	bool column = from->kind == NODE_PLAIN && target->kind == NODE_PLAIN && !onto;

	displaced_end(replaced, c);
	if (from->kind == NODE_PLAIN && target->kind == NODE_PLAIN)
		node_renumber(target, source);
	if (column)
		displaced_moved(moved, NULL, target, 0, c);
	else if (all->n)
		displaced_moved(moved, &all->ts[0], target, to_ts, c);
	displaced_end(moved, c);
	if (from->kind == NODE_PLAIN) {
		descriptors_forward(source, target, to_ts);
		mutex_lock(tree_mutex());
		source->flags |= NODE_MOVED;
		mutex_unlock(tree_mutex());
		ofile_end_column(from->parent, buf_bytes(&from->key), true, c);
	}
}

static int move_locked(struct renaming *r, struct node *target)
{
	struct resolved *from = &r->from, *to = &r->to;
	struct node *source = r->source;
	struct changes *c = r->c;
	struct tfs_bytes from_key = buf_bytes(&from->key), to_key = buf_bytes(&to->key);
	struct versions all = {0};
	struct displaced moved = {.by_name = true}, replaced = {.by_name = true};
	struct tfs_result result[1] = {{0}};
	struct tfs_mutation *m = NULL;
	struct cell_place p, q;
	int64_t was = TFS_NO_TIME, ts;
	bool exists;
	int err;

	err = ofile_commit_staged(source, c);
	if (err == 0)
		err = check_target(to, &was);
	exists = was != TFS_NO_TIME;
	if (err == 0 && exists && r->noreplace)
		err = -EEXIST;
	if (err == 0)
		err = cell_displace(from, from->kind == NODE_VERSION, &all, &moved);
	if (err == 0 && !(same_column(from, to) && all.n && all.ts[0] == to->ts))
		err = note_target(to, target, was, &replaced);
	if (err)
		goto out;
	cell_place_at(from->parent, from_key, from->kind == NODE_VERSION, from->ts, &p);
	cell_place_at(to->parent, to_key, to->kind == NODE_VERSION, to->ts, &q);
	m = tfs_mutation_new(p.table, p.row);
	err = m ? tfs_mutation_move(m, p.family, p.qualifier, ts_of(from), q.family, q.qualifier, ts_of(to), r->noreplace)
		: -ENOMEM;
	if (err == 0)
		err = cells_apply(to->parent, m, 0, result, c);
	tfs_mutation_free(m);
	if (err)
		goto out;
	ts = to->kind == NODE_VERSION ? to->ts : result[0].ts;
	made_cell_removed(from->parent, from_key, from->kind == NODE_VERSION, from->ts);
	versions_changed(c, from->parent, from_key, &all, true);
	if (from->kind == NODE_PLAIN && to->kind == NODE_PLAIN && !exists)
		versions_changed(c, to->parent, to_key, &all, false);
	cell_changed(c, to->parent, to_key, ts, false, NULL);
	descriptors_follow(from, &all, source, exists, target, ts, &moved, &replaced, c);
	extra_cell_added(to->parent);
out:
	displaced_fini(&moved);
	displaced_fini(&replaced);
	versions_fini(&all);
	return err;
}

static int move_cell(struct renaming *r)
{
	const struct resolved *from = &r->from, *to = &r->to;
	struct family_info a, b;
	struct node *target;
	struct mutex *row;
	int err;

	if (!same_row(from->parent, to->parent))
		return -EXDEV;
	/* Both views of a table have names for one cell. */
	if (from->kind == to->kind && from->ts == to->ts && same_column(from, to))
		return r->noreplace ? -EEXIST : 0;
	err = family_info_get(from->parent, &a);
	if (err == 0)
		err = family_info_get(to->parent, &b);
	if (err)
		return err;
	if (a.counter != b.counter)
		return -EXDEV; /* mv copies, which checks or converts the text */
	row = row_lock(from->parent);
	target = node_get(to->parent, to->kind, buf_bytes(&to->key), to->ts);
	err = target ? move_locked(r, target) : -ENOMEM;
	row_unlock(row);
	made_trim(r->c);
	node_put(target);
	return err;
}

/* A new family takes the mode of a scratch file that becomes its cell, before the cell can be read. */
static int take_mode(struct open_file *x, struct renaming *m)
{
	mode_t mode;
	int err;

	mutex_lock(&x->lock);
	mode = x->mode;
	err = scratch_check_read(x, m->caller);
	mutex_unlock(&x->lock);
	return err ? err : new_family_scratch(m->to.parent, m->source, mode, m->c);
}

int cell_take_scratch(struct renaming *m)
{
	struct resolved *to = &m->to;
	struct changes *c = m->c;
	bool latest = node_is_latest(m->newdir);
	struct open_file *x = open_file_find(m->source);
	struct node *target;
	struct mutex *row;
	struct displaced replaced = {.by_name = true};
	int64_t was = TFS_NO_TIME, ts = 0;
	int err = x ? take_mode(x, m) : -ENOMEM;

	if (err) {
		open_file_put(x);
		return err;
	}
	row = row_lock(to->parent);
	/* Another thread may have replaced an earlier node of the name in the second view. */
	target = node_get(to->parent, to->kind, buf_bytes(&to->key), to->ts);
	if (!target) {
		err = -ENOMEM;
		goto out;
	}
	err = check_target(to, &was);
	if (err == 0 && was != TFS_NO_TIME && m->noreplace)
		err = -EEXIST;
	if (err == 0)
		err = note_target(to, target, was, &replaced);
	if (err == 0)
		err = scratch_commit(x, target, m->caller, latest, &ts, c);
	if (err == 0) {
		if (ts == was)
			replaced.name_ts = TFS_NO_TIME; /* in .latest the target's version has the new bytes now */
		displaced_end(&replaced, c);
		descriptors_forward(m->source, target, ts);
		err = scratch_remove(m->source);
	}
out:
	displaced_fini(&replaced);
	row_unlock(row);
	open_file_put(x);
	node_put(target);
	return err;
}

int cell_rename(struct renaming *m)
{
	int err;

	if (kind_is(m->to.kind, KIND_CELL)) {
		err = move_cell(m);
		/* The kernel has moved the version's inode to the new name. */
		if (err == 0 && m->from.kind == NODE_VERSION)
			changes_entry(m->c, m->newdir, tfs_str(m->newname));
		return err;
	}
	return kind_is(m->to.kind, KIND_SCRATCH) ? -EXDEV : refuse(-EPERM, m->newdir, m->newname, "a cell cannot be here");
}
