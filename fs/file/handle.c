/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has what open: a node's shared state (struct filex), and the list of
 * all descriptors that have state of their own.
 */
#include "fs/file/file.h"

#include "fs/base/name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct handle *all_handles; /* tree lock */

struct filex *filex_get(struct node *n)
{
	struct node *home = n->kind == NODE_SCRATCH_FILE ? NULL : cell_home(n, true), *owner = home ? home : n;
	struct filex *fresh = home || n->kind == NODE_SCRATCH_FILE ? calloc(1, sizeof(*fresh)) : NULL, *x;

	if (!fresh) {
		node_put(home);
		return NULL;
	}
	mutex_init(&fresh->lock, RANK_FS_NODE);
	cond_init(&fresh->idle);
	writer_init(&fresh->w);
	fresh->mtime_us = TFS_NO_TIME;
	mutex_lock(tree_mutex());
	if (!owner->file) {
		fresh->node = home;
		owner->file = fresh;
		fresh = NULL;
		home = NULL;
	}
	x = owner->file;
	x->refs++;
	if (owner != n && !x->latest) {
		n->refs++;
		n->file = x;
		x->latest = n;
	}
	mutex_unlock(tree_mutex());
	filex_free(fresh);
	node_put(home);
	return x;
}

struct filex *filex_find(struct node *n)
{
	struct node *home = n->kind == NODE_PLAIN ? cell_home(n, false) : NULL, *owner = home ? home : n;
	struct filex *x;

	mutex_lock(tree_mutex());
	x = owner->file;
	if (x)
		x->refs++;
	mutex_unlock(tree_mutex());
	node_put(home);
	return x;
}

static void leave_now_locked(struct filex *x)
{
	struct filex **at = &x->now->followers;

	while (*at != x)
		at = &(*at)->next_follower;
	*at = x->next_follower;
}

void filex_put(struct filex *x)
{
	struct node *node = NULL, *latest = NULL, *forward = NULL;
	struct filex *now = NULL;
	bool last;

	if (!x)
		return;
	mutex_lock(tree_mutex());
	last = --x->refs == 0;
	if (last) {
		node = x->node;
		forward = x->forward;
		now = x->now;
		latest = x->latest;
		if (node)
			node->file = NULL;
		if (latest)
			latest->file = NULL;
		if (now)
			leave_now_locked(x);
	}
	mutex_unlock(tree_mutex());
	if (!last)
		return;
	filex_free(x);
	node_put(forward);
	node_put(latest);
	node_put(node);
	filex_put(now);
}

void filex_free(struct filex *x)
{
	if (!x)
		return;
	writer_fini(&x->w);
	cond_fini(&x->idle);
	mutex_fini(&x->lock);
	free(x);
}

void filex_wait(struct filex *x, const struct writer *w)
{
	while (w->busy)
		cond_wait(&x->idle, &x->lock);
}

struct filex *version_find(struct node *n)
{
	struct filex *x;

	mutex_lock(tree_mutex());
	x = n->file;
	if (x && x->now)
		x = x->now;
	if (x)
		x->refs++;
	mutex_unlock(tree_mutex());
	return x;
}

struct filex *version_lock(struct node *n)
{
	struct filex *x, *again;

	while ((x = version_find(n)) != NULL) {
		mutex_lock(&x->lock);
		filex_wait(x, &x->w);
		again = version_find(n);
		filex_put(again);
		if (again == x)
			break;
		version_unlock(x); /* renamed just now */
	}
	return x;
}

void version_unlock(struct filex *x)
{
	mutex_unlock(&x->lock);
	filex_put(x);
}

void filex_let_go(struct filex *x)
{
	if (!x->given || x->handles)
		return;
	writer_fini(&x->w);
	writer_init(&x->w);
}

void filex_drop_locked(struct filex *x)
{
	/* Who holds a node keeps it from ending, so of others than scratch only the end of the daemon comes here. */
	if (x && x->latest && x->node)
		x->node = NULL; /* the other of the two is still to come */
	else if (x && (x->node || x->latest || x->refs <= 1 || --x->refs == 0))
		filex_free(x);
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
	struct filex *orphan = NULL;

	mutex_lock(tree_mutex());
	if (n->opens > 0)
		n->opens--;
	if (n->opens == 0 && n->file && n->file->orphan && !n->file->handles) {
		orphan = n->file;
		orphan->orphan = false;
	}
	mutex_unlock(tree_mutex());
	filex_put(orphan);
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
	h->target = x->node ? x->node : n;
	h->readable = (flags & O_ACCMODE) != O_WRONLY;
	h->writable = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	node_hold(h->node);
	node_hold(h->target);
	mutex_lock(&x->lock);
	h->w.latest = node_is_latest(n);
	h->seen = x->commits;
	mutex_lock(tree_mutex());
	h->next = x->handles;
	x->handles = h;
	h->all_next = all_handles;
	h->all_link = &all_handles;
	if (all_handles)
		all_handles->all_link = &h->all_next;
	all_handles = h;
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
	return h;
}

void handle_free(struct handle *h)
{
	struct filex *x = h->x, *orphan = NULL;
	struct node *forward = NULL;

	mutex_lock(&x->lock);
	filex_wait(x, &h->w); /* a rename, or a reader, may be committing it */
	mutex_lock(tree_mutex());
	for (struct handle **at = &x->handles; *at; at = &(*at)->next) {
		if (*at == h) {
			*at = h->next;
			break;
		}
	}
	*h->all_link = h->all_next;
	if (h->all_next)
		h->all_next->all_link = h->all_link;
	if (!x->handles && x->orphan && x->node->opens == 0) {
		x->orphan = false;
		orphan = x;
	}
	if (!x->handles) {
		forward = x->forward;
		x->forward = NULL;
	}
	mutex_unlock(tree_mutex());
	filex_let_go(x);
	mutex_unlock(&x->lock);
	writer_fini(&h->w);
	node_put(forward);
	filex_put(orphan);
	node_put(h->target);
	node_put(h->node);
	free(h);
	filex_put(x);
}

int handle_commit(struct handle *h, bool last, struct changes *c)
{
	struct filex *x = h->x;
	uint32_t before = x->commits;
	int r;

	r = writer_commit(&h->w, h->target, last, x, c);
	/* What it wrote itself it has. */
	if (h->seen == before)
		h->seen = x->commits;
	return r;
}

bool handle_are_any(void)
{
	bool any;

	mutex_lock(tree_mutex());
	any = all_handles != NULL;
	mutex_unlock(tree_mutex());
	return any;
}

struct handle *handle_any(void)
{
	struct handle *h;

	mutex_lock(tree_mutex());
	h = all_handles;
	mutex_unlock(tree_mutex());
	return h;
}

/* Those of a version commit through its filex. */
static bool leads_to(const struct handle *h, const struct node *n)
{
	switch (file_kind(h->node)) {
	case FILE_PLAIN:
		return h->target == n;
	case FILE_SCRATCH:
		return h->x->forward == n;
	case FILE_NONE:
	case FILE_VERSION:
	case FILE_SCHEMA:
	case FILE_SETTING:
		break;
	}
	return false;
}

int handle_files(struct node *n, struct filex ***out, size_t *count)
{
	size_t found = 0;
	int r = 0;

	*out = NULL;
	*count = 0;
	mutex_lock(tree_mutex());
	for (struct handle *h = all_handles; h; h = h->all_next)
		found += leads_to(h, n);
	if (found)
		*out = calloc(found, sizeof(struct filex *));
	if (found && !*out)
		r = -ENOMEM;
	for (struct handle *h = *out ? all_handles : NULL; h; h = h->all_next) {
		bool have = !leads_to(h, n);

		for (size_t i = 0; i < *count && !have; i++)
			have = (*out)[i] == h->x;
		if (have)
			continue;
		h->x->refs++;
		(*out)[(*count)++] = h->x;
	}
	mutex_unlock(tree_mutex());
	return r;
}

static bool lies_in(const struct node *dir, const struct node *cell)
{
	struct slice component;
	struct buf path = {0};
	bool last, in;

	if (dir->kind != NODE_CELL_PART)
		return true;
	in = name_encode(cell->kind == NODE_PLAIN ? NAME_NEWEST : NAME_VERSION, node_key(cell), cell->ts, &path) == 0 &&
		name_component(buf_slice(&path), node_key(dir), &component, &last);
	buf_fini(&path);
	return in;
}

/* The open files are few, the nodes of a directory are not: so it is they that are looked at. */
bool ofile_pending_below(struct node *dir)
{
	struct node *family = dir->kind == NODE_CELL_PART ? dir->parent : dir, *twin = family_twin(family), **some = NULL;
	size_t count = 0, n = 0;
	struct staged s;
	bool pending = false;

	mutex_lock(tree_mutex());
	for (struct handle *h = all_handles; h; h = h->all_next)
		count += h->writable && (h->target->parent == family || h->target->parent == twin);
	some = count ? malloc(count * sizeof(*some)) : NULL;
	pending = count && !some;
	for (struct handle *h = some ? all_handles : NULL; h; h = h->all_next) {
		if (!h->writable || (h->target->parent != family && h->target->parent != twin))
			continue;
		h->target->refs++;
		some[n++] = h->target;
	}
	mutex_unlock(tree_mutex());
	for (size_t i = 0; i < n; i++) {
		pending = pending || (lies_in(dir, some[i]) && ofile_pending(some[i], &s));
		node_put(some[i]);
	}
	free(some);
	node_put(twin);
	return pending;
}
