/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of open files (struct filex), found by their nodes, and the list
 * of all descriptors that have state of their own (struct handle).
 */
#include "fs/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static LIST_HEAD(, handle) all_handles = LIST_HEAD_INITIALIZER(all_handles); /* tree lock */

bool filex_also_locked(struct filex *x, struct node *n)
{
	struct node **more = realloc(x->also, (x->also_count + 1) * sizeof(*more));

	if (!more)
		return false;
	n->refs++;
	n->file = x;
	x->also = more;
	more[x->also_count++] = n;
	return true;
}

struct filex *filex_get(struct node *n)
{
	struct node *home = cell_home(n, true);
	struct filex *fresh = home ? calloc(1, sizeof(*fresh)) : NULL, *x;
	bool done = true;

	if (!fresh) {
		node_put(home);
		return NULL;
	}
	mutex_init(&fresh->lock, RANK_FS_NODE);
	cond_init(&fresh->idle);
	writer_init(&fresh->w);
	fresh->mtime_us = TFS_NO_TIME;
	mutex_lock(tree_mutex());
	x = home->file;
	if (!x) {
		x = home->file = fresh;
		fresh = NULL;
		if (n->kind != NODE_SCRATCH_FILE) {
			home->refs++;
			x->node = home;
		}
		if (n->kind == NODE_VERSION)
			writer_aim_locked(&x->w, home);
	}
	x->refs++;
	if (home != n && !n->file)
		done = filex_also_locked(x, n);
	mutex_unlock(tree_mutex());
	filex_free(fresh);
	node_put(home);
	if (!done)
		filex_put(x);
	return done ? x : NULL;
}

struct filex *filex_find(struct node *n)
{
	struct node *home = n->kind == NODE_PLAIN ? cell_home(n, false) : NULL;
	struct filex *x;

	mutex_lock(tree_mutex());
	x = home ? home->file : n->file;
	if (x)
		x->refs++;
	mutex_unlock(tree_mutex());
	node_put(home);
	return x;
}

void filex_put(struct filex *x)
{
	bool last;

	if (!x)
		return;
	mutex_lock(tree_mutex());
	last = --x->refs == 0;
	if (last && x->node)
		x->node->file = NULL;
	for (unsigned i = 0; last && i < x->also_count; i++)
		x->also[i]->file = NULL;
	mutex_unlock(tree_mutex());
	if (!last)
		return;
	node_put(x->node);
	node_put(x->w.target);
	for (unsigned i = 0; i < x->also_count; i++)
		node_put(x->also[i]);
	filex_free(x);
}

void filex_free(struct filex *x)
{
	if (!x)
		return;
	writer_fini(&x->w);
	cond_fini(&x->idle);
	mutex_fini(&x->lock);
	free(x->also);
	free(x);
}

void filex_drop_locked(struct node *n)
{
	struct filex *x = n->file;

	if (!x)
		return;
	if (!x->node && x->also_count == 0) { /* scratch */
		if (--x->refs == 0)
			filex_free(x);
		return;
	}
	/* An open file counts its nodes, so only the end of the daemon frees them first. */
	if (x->node == n)
		x->node = NULL;
	else
		x->also_count--;
	if (!x->node && x->also_count == 0)
		filex_free(x);
}

void filex_wait(struct filex *x, const struct writer *w)
{
	while (w->busy)
		cond_wait(&x->idle, &x->lock);
}

struct node *filex_target(struct filex *x)
{
	struct node *target;

	mutex_lock(&x->lock);
	target = x->node ? NULL : x->w.target;
	for (struct handle *h = x->node ? x->handles : NULL; h && !target; h = h->next)
		if (h->content->target != x->node && h->content->target && node_lives(h->content->target))
			target = h->content->target;
	if (target)
		node_hold(target);
	mutex_unlock(&x->lock);
	return target;
}

void filex_let_go(struct filex *x)
{
	if (x->node || !x->w.target || x->handles)
		return;
	writer_renew(&x->w);
	x->w.error = -ESTALE;
}

void version_enter(struct node *n)
{
	struct mutex *row = ofile_row_lock(n);
	bool leaving;

	for (;;) {
		mutex_lock(tree_mutex());
		leaving = n->flags & NODE_LEAVING;
		n->opens += !leaving;
		mutex_unlock(tree_mutex());
		if (!leaving)
			return;
		mutex_lock(row);
		mutex_unlock(row);
	}
}

void version_leave(struct node *n)
{
	struct filex *x = NULL;

	mutex_lock(tree_mutex());
	if (n->opens > 0 && --n->opens == 0 && n->flags & NODE_KEEPS) {
		n->flags &= (uint8_t)~NODE_KEEPS;
		x = n->file;
	}
	mutex_unlock(tree_mutex());
	filex_put(x);
}

int version_ready(struct filex *x)
{
	struct tfs_info info;
	int r = node_lives(x->node) ? cell_node_stat(x->node, &info) : -ESTALE;

	if (writer_pending(&x->w))
		return r == -ENOENT ? 0 : r;
	if (r)
		return r;
	if (x->w.error) {
		writer_discard(&x->w);
		x->w.holds = IMAGE_RANGES;
	}
	x->w.error = 0;
	x->w.base_size = info.size;
	return 0;
}

int scratch_truncate(struct filex *x, uint64_t size)
{
	filex_wait(x, &x->w);
	x->mtime_us = fs_now_us();
	if (x->w.error && size == 0)
		writer_begin_whole(&x->w);
	return writer_truncate(&x->w, size);
}

struct node *node_again(struct node *n)
{
	bool again = (n->kind == NODE_VERSION || n->kind == NODE_PLAIN) && !node_lives(n) && !(n->flags & NODE_MOVED);

	return again ? node_get(n->parent, (enum node_kind)n->kind, node_key(n), n->ts) : NULL;
}

/* ---- descriptors ---- */

struct handle *handle_new(struct node *n, int flags)
{
	struct handle *h = calloc(1, sizeof(*h));
	struct filex *x = h ? filex_get(n) : NULL;

	if (!x) {
		free(h);
		return NULL;
	}
	writer_init(&h->w);
	h->node = n;
	h->x = x;
	h->content = n->kind == NODE_SCRATCH_FILE || n->kind == NODE_VERSION ? &x->w : &h->w;
	h->readable = (flags & O_ACCMODE) != O_WRONLY;
	h->writable = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	mutex_lock(&x->lock);
	h->w.latest = node_is_latest(n);
	h->w.seen = x->commits;
	mutex_lock(tree_mutex());
	n->refs++;
	if (h->content == &h->w)
		writer_aim_locked(&h->w, x->node);
	h->next = x->handles;
	x->handles = h;
	LIST_INSERT_HEAD(&all_handles, h, all);
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
	return h;
}

/* h no longer shares the file's content.  The file's lock is held, and h is in no list. */
static void handle_unshare(struct handle *h)
{
	struct writer *w = h->content;
	struct handle *g = h->x->handles;

	if (w->writer == h) {
		w->writer = NULL;
		w->committed = false;
		w->time = TFS_NO_TIME;
	}
	while (g && !handle_shares(g))
		g = g->next;
	if (!g)
		writer_renew(w);
}

void handle_free(struct handle *h)
{
	struct filex *x = h->x;
	struct handle **at = &x->handles;

	mutex_lock(&x->lock);
	filex_wait(x, h->content); /* a rename or another descriptor may be committing it */
	mutex_lock(tree_mutex());
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	LIST_REMOVE(h, all);
	mutex_unlock(tree_mutex());
	if (handle_shares(h))
		handle_unshare(h);
	filex_let_go(x);
	mutex_unlock(&x->lock);
	writer_fini(&h->w);
	node_put(h->w.target);
	node_put(h->node);
	free(h);
	filex_put(x);
}

bool handle_are_any(void)
{
	return handle_any() != NULL;
}

struct handle *handle_any(void)
{
	struct handle *h;

	mutex_lock(tree_mutex());
	h = LIST_FIRST(&all_handles);
	mutex_unlock(tree_mutex());
	return h;
}

int handle_files(bool (*matches)(const struct handle *h, const void *arg), const void *arg, struct filex ***out, size_t *count)
{
	struct handle *h;
	size_t found = 0;

	*out = NULL;
	*count = 0;
	mutex_lock(tree_mutex());
	LIST_FOREACH (h, &all_handles, all)
		found += matches(h, arg);
	if (found)
		*out = calloc(found, sizeof(struct filex *));
	LIST_FOREACH (h, &all_handles, all) {
		bool have = !*out || !matches(h, arg);

		for (size_t i = 0; i < *count && !have; i++)
			have = (*out)[i] == h->x;
		if (have)
			continue;
		h->x->refs++;
		(*out)[(*count)++] = h->x;
	}
	mutex_unlock(tree_mutex());
	return found && !*out ? -ENOMEM : 0;
}

static bool leads_to(const struct handle *h, const void *node)
{
	return h->w.target == node || h->x->w.target == node;
}

int handle_files_to(const struct node *n, struct filex ***out, size_t *count)
{
	return handle_files(leads_to, n, out, count);
}
