/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RENAME.  Within a row it is one mutation of the engine.  Scratch onto a
 * cell is a commit of its content; scratch onto .schema sets the schema; a
 * directory of scratch becomes a row or family (adopt.c).
 * Whatever else would move data between rows or tables, or in and out of the
 * store, is EXDEV, so that mv copies.
 *
 * Order: commit what the source has pending -> one mutation -> cut off who has
 * the target open -> the source's descriptors become the target's -> notify.
 * A family or group is renamed by an edit of the schema, descriptors or not.
 * A crash leaves it done or not done; a refusal leaves everybody's descriptors
 * as they were.
 */
#include "fs/node/tree.h"

#include "engine/base/msg.h"
#include "fs/node/adopt.h"
#include "fs/node/control.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/base/reply.h"
#include "fs/node/scratch.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>

static bool is_cell(enum node_kind kind)
{
	return kind == NODE_PLAIN || kind == NODE_VERSION;
}

static bool is_scratch(enum node_kind kind)
{
	return kind == NODE_SCRATCH_FILE || kind == NODE_SCRATCH_DIR;
}

static bool same_row(const struct node *family_a, const struct node *family_b)
{
	return node_table((struct node *)family_a) == node_table((struct node *)family_b) &&
		slice_eq(node_key(family_a->parent), node_key(family_b->parent));
}

static struct tfs_ts ts_of(const struct resolved *r)
{
	return r->kind == NODE_VERSION ? tfs_at(r->ts) : TFS_AUTO;
}

static int check_target(struct resolved *to, bool *exists)
{
	struct cell_place p;
	struct tfs_info info;
	int r;

	cell_place_at(to->parent, buf_slice(&to->key), to->kind == NODE_VERSION, to->ts, &p);
	r = tfs_stat(p.table, p.row, p.family, p.qualifier, p.ts, &info);
	*exists = r == 0;
	return r == -ENOENT ? 0 : r;
}

/* The versions that go, of the source, and the one that the target's name has now: not the one that is moved onto itself. */
static int note_source(struct resolved *from, struct versions *all, struct kept *moved)
{
	struct slice key = buf_slice(&from->key);
	int r = 0;

	if (from->kind == NODE_VERSION)
		return kept_add(moved, from->parent, key, from->ts, true);
	r = column_versions(from->parent, key, all);
	for (size_t i = 0; i < all->n && r == 0; i++)
		r = kept_add(moved, from->parent, key, all->ts[i], false);
	return r;
}

static int note_target(struct resolved *to, struct kept *replaced)
{
	return to->kind == NODE_VERSION ? kept_add(replaced, to->parent, buf_slice(&to->key), to->ts, false) : 0;
}

static bool same_column(const struct resolved *a, const struct resolved *b)
{
	return slice_eq(node_key(a->parent), node_key(b->parent)) && slice_eq(buf_slice(&a->key), buf_slice(&b->key));
}

/* The descriptors with a writer of their own.  What was replaced has ended: its name is another node's now. */
static void forward(struct node *source, struct node *target, int64_t ts)
{
	struct node *now = NULL;

	if (!node_lives(target)) {
		now = node_get(target->parent, (enum node_kind)target->kind, node_key(target), target->ts);
		if (!now)
			msg_error("out of memory: writers of a renamed file were cut off");
	}
	ofile_forward(source, now ? now : target, ts);
	node_put(now);
}

/* The store has done it: descriptors go along, or are cut off. */
static void follow(struct resolved *from, const struct versions *all, struct node *source, bool onto, struct node *target,
	int64_t to_ts, struct kept *moved, struct kept *replaced, struct changes *c)
{
	struct slice key = buf_slice(&from->key);
	bool column = from->kind == NODE_PLAIN && target->kind == NODE_PLAIN && !onto;

	kept_end(replaced, c);
	if (target->kind == NODE_PLAIN)
		ofile_end_plain(target->parent, node_key(target), c);
	if (from->kind == NODE_VERSION)
		kept_moved(moved, from->parent, key, from->ts, target, to_ts, c);
	if (column)
		kept_column_moved(moved, from->parent, key, target, c);
	else if (all->n)
		kept_moved(moved, from->parent, key, all->ts[0], target, to_ts, c);
	kept_end(moved, c);
	if (from->kind == NODE_PLAIN) {
		forward(source, target, to_ts);
		mutex_lock(tree_mutex());
		source->flags |= NODE_MOVED;
		mutex_unlock(tree_mutex());
		ofile_end_plain(from->parent, key, c);
	}
}

static int move_locked(
	struct resolved *from, struct node *source, struct resolved *to, struct node *target, bool noreplace, struct changes *c)
{
	struct slice from_key = buf_slice(&from->key), to_key = buf_slice(&to->key);
	struct versions all = {0};
	struct kept moved = {0}, replaced = {0};
	struct tfs_result result[1] = {{0}};
	struct tfs_mutation *m = NULL;
	struct cell_place p, q;
	bool exists;
	int64_t ts;
	int r;

	r = ofile_settle(source, c);
	if (r == 0)
		r = check_target(to, &exists);
	if (r == 0 && exists && noreplace)
		r = -EEXIST;
	if (r == 0)
		r = note_source(from, &all, &moved);
	if (r == 0 && !(same_column(from, to) && all.n && all.ts[0] == to->ts))
		r = note_target(to, &replaced);
	if (r)
		goto out;
	cell_place_at(from->parent, from_key, from->kind == NODE_VERSION, from->ts, &p);
	cell_place_at(to->parent, to_key, to->kind == NODE_VERSION, to->ts, &q);
	m = tfs_mutation_new(p.table, p.row);
	r = m ? tfs_mutation_move(m, p.family, p.qualifier, ts_of(from), q.family, q.qualifier, ts_of(to), noreplace) : -ENOMEM;
	if (r == 0)
		r = tfs_apply(m, 0, result);
	tfs_mutation_free(m);
	if (r)
		goto out;
	ts = to->kind == NODE_VERSION ? to->ts : result[0].ts;
	if (from->kind == NODE_PLAIN) {
		versions_changed(c, from->parent, from_key, &all, true);
		if (!exists && to->kind == NODE_PLAIN)
			versions_changed(c, to->parent, to_key, &all, false);
	} else {
		cell_changed(c, from->parent, from_key, from->ts, true, NULL);
	}
	cell_changed(c, to->parent, to_key, ts, false, NULL);
	follow(from, &all, source, exists, target, ts, &moved, &replaced, c);
	made_cell_left(from->parent, from_key, from->kind == NODE_VERSION, from->ts);
	made_cell_arrived(to->parent);
out:
	kept_fini(&moved);
	kept_fini(&replaced);
	versions_fini(&all);
	return r;
}

static int move_cell(struct resolved *from, struct node *source, struct resolved *to, bool noreplace, struct changes *c)
{
	struct family_info a, b;
	struct node *target;
	struct mutex *row;
	int r;

	if (!same_row(from->parent, to->parent))
		return -EXDEV;
	/* The table's two views are two names of one cell. */
	if (from->kind == to->kind && slice_eq(node_key(from->parent), node_key(to->parent)) && from->ts == to->ts &&
		slice_eq(buf_slice(&from->key), buf_slice(&to->key)))
		return noreplace ? -EEXIST : 0;
	r = family_info_get(from->parent, &a);
	if (r == 0)
		r = family_info_get(to->parent, &b);
	if (r)
		return r;
	if (a.counter != b.counter)
		return -EXDEV; /* mv copies: the text of one becomes that of the other, or is refused */
	target = node_get(to->parent, to->kind, buf_slice(&to->key), to->ts);
	if (!target)
		return -ENOMEM;
	row = ofile_row_lock(from->parent);
	mutex_lock(row);
	r = move_locked(from, source, to, target, noreplace, c);
	mutex_unlock(row);
	made_settle(c);
	node_put(target);
	return r;
}

static int scratch_to_cell(struct node *source, struct resolved *to, bool noreplace, struct changes *c)
{
	struct node *target = node_get(to->parent, to->kind, buf_slice(&to->key), to->ts);
	struct node *home = target ? cell_home(target, true) : NULL;
	struct mutex *row = ofile_row_lock(to->parent);
	struct filex *x = filex_find(source);
	struct kept replaced = {0};
	bool exists = false;
	int64_t ts = 0;
	int r;

	if (!home || !x) {
		r = -ENOMEM;
		goto out;
	}
	mutex_lock(row);
	r = check_target(to, &exists);
	if (r == 0 && exists && noreplace)
		r = -EEXIST;
	if (r == 0)
		r = note_target(to, &replaced);
	if (r == 0)
		r = scratch_commit(x, home, node_is_latest(to->parent), &ts, c);
	if (r == 0) {
		kept_end(&replaced, c);
		if (to->kind == NODE_PLAIN)
			ofile_end_plain(to->parent, buf_slice(&to->key), c);
		forward(source, target, ts);
		r = scratch_remove(source);
	}
	mutex_unlock(row);
	kept_fini(&replaced);
out:
	filex_put(x);
	node_put(home);
	node_put(target);
	return r;
}

static int scratch_to_schema(fuse_req_t req, struct node *source, struct resolved *to, bool noreplace, struct changes *c)
{
	struct node *target = node_get(to->parent, NODE_SCHEMA, slice_of(NULL, 0), 0);
	struct filex *x = filex_find(source);
	int r;

	if (!target || !x) {
		r = -ENOMEM;
		goto out;
	}
	r = noreplace && control_exists(target) == 0 ? -EEXIST : 0;
	if (r)
		goto out;
	mutex_lock(&x->lock);
	filex_wait(x, &x->w);
	free(x->w.who);
	x->w.who = control_who(req);
	r = control_apply_scratch(target, &x->w, c);
	mutex_unlock(&x->lock);
	if (r == 0) {
		/* Who had it open writes nothing more. */
		mutex_lock(tree_mutex());
		node_end_locked(target);
		mutex_unlock(tree_mutex());
		node_put(target);
		target = node_get(to->parent, NODE_SCHEMA, slice_of(NULL, 0), 0);
		if (!target)
			msg_error("out of memory: writers of a renamed file were cut off");
		else
			ofile_forward(source, target, 0);
		r = scratch_remove(source);
	}
out:
	filex_put(x);
	node_put(target);
	return r;
}

/* The table stays the node it is (its key is its id), so nothing the kernel holds of it or below it is wrong. */
static int rename_table(
	struct node *source, struct resolved *to, const char *name, const char *newname, bool noreplace, struct changes *c)
{
	struct node *old = NULL;
	int r = tree_check(node_root(), to, &old);

	if (r == -ENOENT || old == source)
		r = 0;
	if (r == 0 && old && old != source && !noreplace && tree_has_extras(old))
		r = -ENOTEMPTY;
	if (r == 0)
		r = tfs_table_rename(fs.store, name, newname, noreplace);
	tree_in_doubt(c, node_root(), name, r);
	tree_in_doubt(c, node_root(), newname, r);
	if (r == 0 && old && old != source)
		(void)!tree_dir_gone(old, c); /* 0: a table */
	node_put(old);
	return r;
}

/* Of a family or a group: an edit of the schema.  Its nodes are bound to its id, so all that is open goes on under the new name. */
static int rename_in_schema(struct node *source, struct node *newdir, const char *newname, struct changes *c)
{
	struct tfs_schema_edit e = {
		.explicit_act = true, .name = node_name(source), .value = newname, .uid = (uid_t)-1, .gid = (gid_t)-1};

	if (newdir != source->parent)
		return refuse(-EPERM, newdir, newname, "families and groups stay in their table");
	e.op = source->kind == NODE_FAMILY_DIR ? TFS_SCHEMA_FAMILY_RENAME : TFS_SCHEMA_GROUP_RENAME;
	c->entries_first = true;
	return control_change(source, &e, c);
}

static int rename_scratch(fuse_req_t req, struct node *source, struct node *newdir, struct resolved *to, const char *newname,
	bool noreplace, struct changes *c)
{
	int r;

	if (is_scratch(to->kind))
		return scratch_rename(source, newdir, buf_slice(&to->key), noreplace);
	if (source->kind == NODE_SCRATCH_DIR)
		r = adopt_dir(source, newdir, newname, to, noreplace, req, c);
	else if (is_cell(to->kind))
		r = scratch_to_cell(source, to, noreplace, c);
	else if (to->kind == NODE_SCHEMA)
		r = scratch_to_schema(req, source, to, noreplace, c);
	else
		return refuse(-EPERM, newdir, newname, "a file cannot be here");
	/* The kernel has moved the scratch file's inode to the new name: let it go, one by one they would add up. */
	if (r == 0)
		changes_entry(c, newdir, slice_str(newname));
	return r;
}

static int rename_any(fuse_req_t req, struct node *dir, const char *name, struct node *newdir, const char *newname, bool noreplace,
	struct changes *c)
{
	struct resolved from = {0}, to = {0};
	struct node *source = NULL;
	bool forbidden;
	int r;

	r = tree_resolve(dir, name, &from, &forbidden);
	if (r == 0)
		r = tree_check(dir, &from, &source);
	if (r)
		goto out;
	r = tree_resolve(newdir, newname, &to, &forbidden);
	if (r == -ENOENT)
		r = refuse(forbidden ? -EPERM : -EINVAL, newdir, newname, "%s", tree_name_reason(newdir));
	if (r)
		goto out;
	if (is_scratch(source->kind)) {
		r = rename_scratch(req, source, newdir, &to, newname, noreplace, c);
	} else if (is_cell(from.kind) && is_cell(to.kind)) {
		r = move_cell(&from, source, &to, noreplace, c);
		/* The kernel has moved the version's inode to the new name. */
		if (r == 0 && from.kind == NODE_VERSION)
			changes_entry(c, newdir, slice_str(newname));
	} else if (from.kind == NODE_TABLE && to.kind == NODE_TABLE) {
		r = rename_table(source, &to, name, newname, noreplace, c);
	} else if (is_cell(from.kind) && !is_scratch(to.kind)) {
		r = refuse(-EPERM, newdir, newname, "a cell cannot be here");
	} else if (from.kind == NODE_FAMILY_DIR || from.kind == NODE_GROUP_DIR) {
		r = rename_in_schema(source, newdir, newname, c);
	} else if (from.kind == NODE_SETTING || from.kind == NODE_SYSTEM) {
		r = refuse(-EPERM, dir, name, "control names cannot be renamed");
	} else {
		r = -EXDEV;
	}
out:
	resolved_fini(&from);
	resolved_fini(&to);
	node_put(source);
	return r;
}

void tree_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags)
{
	struct node *dir = node_of(parent), *newdir = node_of(newparent);
	struct changes c = {0};
	int r;

	if (flags & ~(unsigned)RENAME_NOREPLACE)
		r = refuse(-EINVAL, dir, name, "of rename's flags only NOREPLACE is understood");
	else if ((r = rename_any(req, dir, name, newdir, newname, (flags & RENAME_NOREPLACE) != 0, &c)) == -EINVAL)
		r = -EPERM; /* mv reports EINVAL as a move into a subdirectory of the source itself */
	if (r == 0) {
		changes_listing(&c, dir);
		changes_listing(&c, newdir);
	}
	changes_reply_err(&c, req, refuse_store(r, newdir, newname, "cannot be renamed to this"));
}
