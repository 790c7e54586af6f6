/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open descriptors whose name is removed, replaced or renamed.
 *
 * A life of a cell is a node.  When the cell is removed, its node is unhashed
 * and marked NODE_GONE.  A cell that is made later by the same name has
 * another node, with pages and locks of its own in the kernel.  A writer whose
 * target is gone commits nothing.
 *
 * Removed: the content of an open version is copied before the store removes
 * it, because the store has no unlinked cells.  Openers of the version wait
 * meanwhile (NODE_LEAVING).  Readers of a plain name have loaded theirs at
 * open.  Writers are cut off after the removal has succeeded.  A removal that
 * fails has changed nothing.
 *
 * Renamed: each writer gets another target.  The state of an open version
 * becomes the state of the node with the new name, too.  The old node remains
 * one of its nodes, because the kernel has pages of it, which are invalidated
 * with those of the new one.
 */
#include "fs/file/file.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

struct kept_version {
	struct kept_version *next;
	struct node *n;
	struct filex *x; /* NULL: it was not open */
	struct stage copy;
	bool copied;
	bool done; /* moved, or ended */
};

/* Versions have one node, in the table itself. */
int kept_add(struct kept *k, struct node *family_node, struct slice qualifier, int64_t ts, bool moves)
{
	struct node *n = cell_home_find(family_node, NODE_VERSION, qualifier, ts);
	struct kept_version *e;
	struct tfs_info info;
	bool open;
	int r = 0;

	if (!n)
		return 0;
	e = calloc(1, sizeof(*e));
	if (!e) {
		node_put(n);
		return -ENOMEM;
	}
	e->n = n;
	stage_init(&e->copy);
	e->next = k->first;
	k->first = e;
	mutex_lock(tree_mutex());
	n->flags |= NODE_LEAVING;
	open = n->opens > 0 || n->file;
	mutex_unlock(tree_mutex());
	if (!open)
		return 0;
	e->x = filex_get(n);
	if (!e->x)
		return -ENOMEM;
	if (moves)
		return 0;
	r = cell_load(n, true, &e->copy, &info);
	e->copied = r == 0;
	return r == -ENOENT ? 0 : r; /* created, and not committed */
}

void kept_fini(struct kept *k)
{
	struct kept_version *next;

	for (struct kept_version *e = k->first; e; e = next) {
		next = e->next;
		mutex_lock(tree_mutex());
		e->n->flags &= (uint8_t)~NODE_LEAVING;
		mutex_unlock(tree_mutex());
		stage_fini(&e->copy);
		filex_put(e->x);
		node_put(e->n);
		free(e);
	}
	k->first = NULL;
}

/* The name is no longer n's.  Descriptors for reading keep x. */
static void end_node_locked(struct node *n, struct filex *x, struct changes *c)
{
	n->epoch = 0;
	n->commit_us = fs_now_us(); /* for those who have it open */
	node_end_locked(n);
	changes_inode_locked(c, n);
	if (x && n->opens > 0 && !(n->flags & NODE_KEEPS)) {
		n->flags |= NODE_KEEPS;
		x->refs++;
	}
}

static void kept_end_one(struct kept_version *e, struct changes *c)
{
	struct filex *x = e->x;

	e->done = true;
	if (x) {
		mutex_lock(&x->lock);
		if (e->copied && !(writer_pending(&x->w) && x->w.holds == IMAGE_WHOLE)) {
			/* Descriptors see the version as it was, without what was staged. */
			writer_discard(&x->w);
			stage_fini(&x->w.image);
			x->w.image = e->copy;
			stage_init(&e->copy);
		}
		x->w.staged = STAGED_NOTHING;
		x->w.holds = IMAGE_LOADED;
	}
	mutex_lock(tree_mutex());
	end_node_locked(e->n, x, c);
	for (unsigned i = 0; x && i < x->also_count; i++)
		changes_inode_locked(c, x->also[i]);
	mutex_unlock(tree_mutex());
	if (x)
		mutex_unlock(&x->lock);
}

void kept_end(struct kept *k, struct changes *c)
{
	for (struct kept_version *e = k->first; e; e = e->next)
		if (!e->done)
			kept_end_one(e, c);
}

/* The node `to` gets the state of e's.  False: out of memory. */
static bool kept_attach(struct kept_version *e, struct node *to, struct changes *c)
{
	struct filex *x = e->x;
	bool done = true;

	mutex_lock(&x->lock);
	mutex_lock(tree_mutex());
	done = filex_also_locked(x, e->n);
	if (done) {
		end_node_locked(e->n, x, c);
		node_put_locked(x->node);
		to->refs++;
		to->file = x;
		x->node = to;
		writer_aim_locked(&x->w, to);
	}
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
	return done;
}

/* Descriptors of e's version are descriptors of the version `to` from now on. */
static void kept_move(struct kept_version *e, struct node *family, struct slice key, int64_t to_ts, struct changes *c)
{
	struct node *to = family ? node_get(family, NODE_VERSION, key, to_ts) : NULL;
	bool moved;

	if (to && to != e->n && to->file) {
		/* It was created, and not committed: it is replaced. */
		mutex_lock(tree_mutex());
		end_node_locked(to, to->file, c);
		mutex_unlock(tree_mutex());
		node_put(to);
		to = node_get(family, NODE_VERSION, key, to_ts);
	}
	moved = to != NULL;
	if (to == e->n) {
		e->done = true;
	} else if (to) {
		ofile_forward(e->n, to, to_ts);
		mutex_lock(tree_mutex());
		e->n->flags |= NODE_MOVED;
		mutex_unlock(tree_mutex());
		moved = !e->x || kept_attach(e, to, c);
		if (!e->x)
			kept_end_one(e, c);
		e->done = moved;
	}
	if (!moved) {
		msg_error("out of memory: descriptors of a renamed version were cut off");
		if (e->x) {
			mutex_lock(&e->x->lock);
			e->x->w.error = -ENOMEM;
			mutex_unlock(&e->x->lock);
		}
	}
	node_put(to);
}

static bool is_of(const struct kept_version *e, const struct node *family_node, struct slice qualifier)
{
	return slice_eq(node_key(e->n), qualifier) && slice_eq(node_key(e->n->parent), node_key(family_node));
}

void kept_moved(struct kept *k, struct node *family_node, struct slice qualifier, int64_t ts, struct node *target, int64_t to_ts,
	struct changes *c)
{
	struct node *family = family_home(target->parent, true);

	for (struct kept_version *e = k->first; e; e = e->next) {
		if (e->n->ts == ts && is_of(e, family_node, qualifier)) {
			kept_move(e, family, node_key(target), to_ts, c);
			break;
		}
	}
	node_put(family);
}

void kept_column_moved(struct kept *k, struct node *family_node, struct slice qualifier, struct node *target, struct changes *c)
{
	struct node *family = family_home(target->parent, true);

	for (struct kept_version *e = k->first; e; e = e->next)
		if (is_of(e, family_node, qualifier))
			kept_move(e, family, node_key(target), e->n->ts, c);
	node_put(family);
}

static void end_in_view(struct node *family_node, struct slice qualifier, struct changes *c)
{
	struct node *n;

	mutex_lock(tree_mutex());
	n = node_find_locked(family_node, NODE_PLAIN, qualifier, 0);
	if (n) {
		node_end_locked(n);
		changes_inode_locked(c, n);
	}
	mutex_unlock(tree_mutex());
}

void ofile_end_plain(struct node *family_node, struct slice qualifier, struct changes *c)
{
	struct node *twin = family_twin(family_node);

	end_in_view(family_node, qualifier, c);
	if (twin)
		end_in_view(twin, qualifier, c);
	node_put(twin);
}

/* ---- the targets of writers ---- */

/* Where a writer's commits go from now on, and the version of it that is there. */
struct aim {
	struct node *target;
	int64_t commit_ts;
	bool latest;
};

static void aim_writer(struct writer *w, const struct node *from, const struct aim *a)
{
	if (w->target != from)
		return;
	w->latest = a->latest;
	if (w->committed)
		w->commit_ts = a->commit_ts;
	writer_aim(w, a->target);
}

/* The writers of x that commit to `from` commit to the target from now on. */
static void aim_file(struct filex *x, const struct node *from, const struct aim *a)
{
	mutex_lock(&x->lock);
	aim_writer(&x->w, from, a);
	for (struct handle *h = x->handles; h; h = h->next)
		aim_writer(&h->w, from, a);
	mutex_unlock(&x->lock);
}

/* The content of a scratch file has become the target's. */
static void aim_scratch(struct filex *x, const struct aim *a)
{
	mutex_lock(&x->lock);
	x->w.committed = true;
	x->w.staged = STAGED_NOTHING;
	aim_writer(&x->w, x->w.target, a);
	filex_let_go(x);
	mutex_unlock(&x->lock);
}

void ofile_forward(struct node *n, struct node *target, int64_t commit_ts)
{
	struct node *from = cell_home(n, false);
	struct aim a = {.target = cell_home(target, true), .commit_ts = commit_ts, .latest = node_is_latest(target)};
	struct filex **files = NULL, *x;
	size_t count = 0;

	if (from && (!a.target || handle_files_to(from, &files, &count)))
		msg_error("out of memory: writers of a renamed file were cut off");
	for (size_t i = 0; i < count; i++) {
		if (node_lives(from))
			aim_file(files[i], from, &a);
		filex_put(files[i]);
	}
	free(files);
	if (n->kind == NODE_SCRATCH_FILE && a.target && (x = filex_find(n)) != NULL) {
		aim_scratch(x, &a);
		filex_put(x);
	}
	node_put(a.target);
	node_put(from);
}
