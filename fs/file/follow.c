/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to open descriptors when their name is removed, replaced or
 * renamed.
 *
 * A life of a cell is a node: one that goes, and that anybody knows, is
 * unhashed and marked NODE_GONE, so a cell that is made by the same name later
 * is another node, with pages and locks of its own in the kernel, and nobody
 * who has the first open meets the second.  A writer whose target has gone
 * commits nothing.
 *
 * Removed: for those who have a version open its content is copied before it
 * goes (the store has no notion of an unlinked cell that is still open), and
 * who opens it meanwhile waits (NODE_LEAVING); a plain name's readers have
 * theirs since open.  Only once it has gone are writers cut off.  A removal
 * that fails has changed nothing.
 *
 * Renamed: each descriptor goes along.  A plain name's has a writer of its
 * own, which gets another target.  What a version's descriptors write and
 * read is the version's; so the old node's state leads to the new one's
 * (filex.now, never more than one step: whoever led to the old one is led on).
 * The old node keeps its pages in the kernel; they are invalidated with the
 * new one's (filex.followers).
 *
 * Until the new state is the one that is found, writes go on into the old one.
 * They are committed to the new name on the way; that is why it is done under
 * the old one's lock, after the store has moved the version.
 */
#include "fs/file/file.h"

#include "engine/base/msg.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

struct kept_version {
	struct kept_version *next;
	struct node *n;
	struct filex *x; /* NULL: nobody had it open */
	struct writer copy;
	bool done; /* moved, or ended */
};

/* Versions have one node, in the table itself. */
int kept_add(struct kept *k, struct node *family_node, struct slice qualifier, int64_t ts, bool moves)
{
	struct node *n = cell_home_find(family_node, NODE_VERSION, qualifier, ts);
	struct kept_version *e;
	struct cell_place p;
	struct family_info f;
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
	writer_init(&e->copy);
	e->copy.only_reads = true;
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
	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = writer_load(&e->copy, &p, &info);
	return r == -ENOENT ? 0 : r; /* what keeps it known has not been committed */
}

void kept_fini(struct kept *k)
{
	struct kept_version *next;

	for (struct kept_version *e = k->first; e; e = next) {
		next = e->next;
		mutex_lock(tree_mutex());
		e->n->flags &= (uint8_t)~NODE_LEAVING;
		mutex_unlock(tree_mutex());
		writer_fini(&e->copy);
		filex_put(e->x);
		node_put(e->n);
		free(e);
	}
	k->first = NULL;
}

/* The node stands for nothing any more; its state stays for those who only read it. */
static void end_node_locked(struct kept_version *e, struct changes *c)
{
	struct node *n = e->n;

	n->epoch = 0;
	n->commit_us = fs_now_us(); /* for those who have it open */
	node_end_locked(n);
	changes_inode_locked(c, n);
	if (e->x && !e->x->orphan && (e->x->handles || n->opens > 0)) {
		e->x->orphan = true;
		e->x->refs++;
	}
}

static void end(struct kept_version *e, struct changes *c)
{
	struct filex *x = e->x;
	bool staged;

	e->done = true;
	if (!x) {
		mutex_lock(tree_mutex());
		end_node_locked(e, c);
		mutex_unlock(tree_mutex());
		return;
	}
	mutex_lock(&x->lock);
	staged = writer_pending(&x->w) && x->w.whole;
	if (!staged && e->copy.loaded) {
		/* What a writer had staged goes; the readers see the version as it was. */
		writer_fini(&x->w);
		x->w = e->copy;
		writer_init(&e->copy);
	}
	x->w.dead = x->w.loaded = true;
	x->w.dirty = x->w.fresh = false;
	mutex_lock(tree_mutex());
	end_node_locked(e, c);
	for (struct filex *f = x->followers; f; f = f->next_follower)
		changes_inode_locked(c, f->node);
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
}

void kept_end(struct kept *k, struct changes *c)
{
	for (struct kept_version *e = k->first; e; e = e->next)
		if (!e->done)
			end(e, c);
}

static void lead_locked(struct filex *x, struct filex *now)
{
	x->now = now;
	now->refs++;
	x->next_follower = now->followers;
	now->followers = x;
}

/* Those who have e's version open have `to` open from now on. */
static void pass_on(struct kept_version *e, struct node *to, struct changes *c)
{
	struct filex *x, *now = NULL, *f, *next;
	int r = 0, earlier;

	ofile_forward(e->n, to, to->ts);
	mutex_lock(tree_mutex());
	e->n->flags |= NODE_MOVED;
	mutex_unlock(tree_mutex());
	x = e->x;
	if (!x) {
		end(e, c);
		return;
	}
	e->done = true;
	now = filex_get(to);
	if (now) {
		mutex_lock(&now->lock);
		r = version_ready(now);
		mutex_unlock(&now->lock);
	}
	r = !now ? -ENOMEM : r == -ENOENT ? 0 : r;
	mutex_lock(&x->lock);
	earlier = x->w.error;
	if (r == 0 && writer_pending(&x->w))
		r = writer_commit(&x->w, to, true, x, c);
	writer_fini(&x->w);
	writer_init(&x->w);
	x->w.dead = now != NULL;
	x->w.error = now ? 0 : r;
	mutex_lock(tree_mutex());
	end_node_locked(e, c);
	if (now) {
		lead_locked(x, now);
		for (f = x->followers; f; f = next) {
			next = f->next_follower;
			lead_locked(f, now);
			x->refs--;
		}
		x->followers = NULL;
	}
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
	if ((r || earlier) && now) {
		mutex_lock(&now->lock);
		now->w.error = r ? r : earlier;
		mutex_unlock(&now->lock);
	}
	if (r) /* they hear of it at their next call */
		msg_error("a version was renamed, and what was written to it meanwhile was not stored: %s", strerror(-r));
	filex_put(now);
}

/* Whoever writes on is told so; kept_end does the rest. */
static void cannot_follow(struct kept_version *e)
{
	msg_error("out of memory: descriptors of a renamed version were cut off");
	if (!e->x)
		return;
	mutex_lock(&e->x->lock);
	e->x->w.error = -ENOMEM;
	mutex_unlock(&e->x->lock);
}

static void move(struct kept_version *e, struct node *family, struct slice key, int64_t to_ts, struct changes *c)
{
	struct node *to = family ? node_get(family, NODE_VERSION, key, to_ts) : NULL;

	if (!to)
		cannot_follow(e);
	else if (to == e->n)
		e->done = true;
	else
		pass_on(e, to, c);
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
			move(e, family, node_key(target), to_ts, c);
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
			move(e, family, node_key(target), e->n->ts, c);
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

/* ---- renames ---- */

static int settle_through(struct filex *x, struct node *n, struct changes *c)
{
	int r = 0;

	mutex_lock(&x->lock);
	if (!x->node && x->forward == n)
		r = writer_commit(&x->w, n, true, x, c);
	for (struct handle *h = x->node ? x->handles : NULL; h && r == 0; h = h->next)
		if (h->target == n && writer_pending(&h->w))
			r = handle_commit(h, true, c);
	mutex_unlock(&x->lock);
	return r;
}

int ofile_settle(struct node *n, struct changes *c)
{
	struct node *home = cell_home(n, false);
	struct filex **files, *x;
	size_t count;
	int r;

	if (!home)
		return 0;
	r = handle_files(home, &files, &count);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = settle_through(files[i], home, c);
		filex_put(files[i]);
	}
	free(files);
	x = r == 0 && home->kind == NODE_VERSION ? filex_find(home) : NULL;
	if (x) {
		mutex_lock(&x->lock);
		r = writer_pending(&x->w) ? writer_commit(&x->w, home, true, x, c) : 0;
		mutex_unlock(&x->lock);
		filex_put(x);
	}
	node_put(home);
	return r;
}

/* Where a writer's commits go from now on. */
struct aim {
	struct node *target; /* a home, or .schema */
	int64_t commit_ts;
	bool latest;
};

static void aim_at(struct writer *w, const struct aim *a)
{
	w->latest = a->latest;
	if (w->committed)
		w->commit_ts = a->commit_ts;
}

/* The file's lock is held.  What had been there is to be put when it no longer is. */
static struct node *set_forward(struct filex *x, struct node *target)
{
	struct node *old = NULL;

	if (!x->handles)
		return NULL;
	node_hold(target);
	mutex_lock(tree_mutex());
	old = x->forward;
	x->forward = target;
	mutex_unlock(tree_mutex());
	return old;
}

/* The descriptors of x that are n's are the target's from now on. */
static void forward_through(struct filex *x, struct node *n, const struct aim *a)
{
	struct node *old = NULL;
	bool any = false;

	mutex_lock(&x->lock);
	for (struct handle *h = x->node ? x->handles : NULL; h; h = h->next) {
		if (h->target != n || !node_lives(n))
			continue;
		any = true;
		aim_at(&h->w, a);
		node_hold(a->target);
		mutex_lock(tree_mutex());
		h->target = a->target;
		node_put_locked(n);
		mutex_unlock(tree_mutex());
	}
	if (!x->node && x->forward == n && node_lives(n)) {
		any = true;
		aim_at(&x->w, a);
	}
	if (any)
		old = set_forward(x, a->target);
	mutex_unlock(&x->lock);
	node_put(old);
}

/* The content of a scratch file is the target's from now on. */
static void give(struct filex *x, const struct aim *a)
{
	struct node *old;

	mutex_lock(&x->lock);
	x->w.committed = true;
	aim_at(&x->w, a);
	x->w.dirty = x->w.fresh = false;
	x->given = true;
	filex_let_go(x);
	old = set_forward(x, a->target);
	mutex_unlock(&x->lock);
	node_put(old);
}

void ofile_forward(struct node *n, struct node *target, int64_t commit_ts)
{
	struct node *from = cell_home(n, false);
	struct aim a = {.target = cell_home(target, true), .commit_ts = commit_ts, .latest = node_is_latest(target)};
	struct filex **files = NULL, *x;
	size_t count = 0;

	/* The node that the descriptors had counts until it is over. */
	if (from && (!a.target || handle_files(from, &files, &count)))
		msg_error("out of memory: writers of a renamed file were cut off");
	for (size_t i = 0; i < count; i++) {
		forward_through(files[i], from, &a);
		filex_put(files[i]);
	}
	free(files);
	if (n->kind == NODE_SCRATCH_FILE && a.target && (x = filex_find(n)) != NULL) {
		give(x, &a);
		filex_put(x);
	}
	node_put(a.target);
	node_put(from);
}
