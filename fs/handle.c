/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has what open: a node's shared state (struct filex), and the list of
 * all descriptors that have state of their own.
 */
#include "fs/file.h"

#include "fs/name.h"
#include "fs/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct handle *all_handles; /* tree lock */

struct filex *filex_get(struct node *n)
{
	struct filex *fresh = calloc(1, sizeof(*fresh)), *x;

	if (!fresh)
		return NULL;
	mutex_init(&fresh->lock, RANK_FS_NODE);
	writer_init(&fresh->w);
	fresh->mtime_us = TFS_NO_TIME;
	mutex_lock(tree_mutex());
	if (!n->file) {
		n->file = fresh;
		fresh = NULL;
	}
	x = n->file;
	x->refs++;
	mutex_unlock(tree_mutex());
	filex_free(fresh);
	return x;
}

struct filex *filex_find(struct node *n)
{
	struct filex *x;

	mutex_lock(tree_mutex());
	x = n->file;
	if (x)
		x->refs++;
	mutex_unlock(tree_mutex());
	return x;
}

void filex_put(struct node *n, struct filex *x)
{
	bool last;

	if (!x)
		return;
	mutex_lock(tree_mutex());
	last = --x->refs == 0;
	if (last && n->file == x)
		n->file = NULL;
	mutex_unlock(tree_mutex());
	if (last)
		filex_free(x);
}

void filex_free(struct filex *x)
{
	if (!x)
		return;
	writer_fini(&x->w);
	mutex_fini(&x->lock);
	free(x);
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
	if (x && (x->refs <= 1 || --x->refs == 0))
		filex_free(x);
}

void filex_wait(struct filex *x, struct node *n, const struct writer *w)
{
	while (w->busy) {
		struct node *at = n->kind == NODE_SCRATCH_FILE && x->forward ? x->forward : n;
		struct mutex *row = ofile_row_lock(at);

		node_hold(at);
		mutex_unlock(&x->lock);
		mutex_lock(row);
		mutex_unlock(row);
		node_put(at);
		mutex_lock(&x->lock);
	}
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
	h->node = h->target = n;
	h->readable = (flags & O_ACCMODE) != O_WRONLY;
	h->writable = (flags & O_ACCMODE) != O_RDONLY;
	node_hold(n);
	node_hold(n);
	mutex_lock(&x->lock);
	h->life = x->life;
	h->w.life = n->kind == NODE_PLAIN ? n->epoch : 0;
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
	struct node *n = h->node, *forward = NULL;
	struct filex *x = n->file, *orphan = NULL, *forward_file = NULL;

	mutex_lock(&x->lock);
	filex_wait(x, n, &h->w); /* a rename, or a reader, may be committing it */
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
	if (!x->handles && x->orphan && n->opens == 0) {
		x->orphan = false;
		orphan = x;
	}
	if (!x->handles) {
		forward = x->forward;
		x->forward = NULL;
	}
	mutex_unlock(tree_mutex());
	if (!x->handles) {
		forward_file = x->forward_file;
		x->forward_file = NULL;
		filex_let_go(x);
	}
	mutex_unlock(&x->lock);
	filex_put(forward, forward_file);
	node_put(forward);
	share_close(h);
	writer_fini(&h->w);
	filex_put(n, orphan);
	filex_put(n, x);
	node_put(h->target);
	free(h);
	node_put(n);
}

int handle_commit(struct handle *h, bool last, struct changes *c)
{
	struct filex *x = h->node->file;
	uint32_t before = x->commits;
	int r;

	if (h->target == x->forward && x->forward_file && x->forward_file->life != x->forward_life)
		h->w.dead = true; /* renamed to a version, which was removed or replaced */
	r = writer_commit(&h->w, h->target, last, &x->lock, c);
	/* What it wrote itself it has. */
	if (h->seen == before)
		h->seen = x->commits;
	return r;
}

struct handle *handle_any(void)
{
	struct handle *h;

	mutex_lock(tree_mutex());
	h = all_handles;
	mutex_unlock(tree_mutex());
	return h;
}

static bool leads_to(const struct handle *h, const struct node *n, const struct node *twin)
{
	const struct node *at = h->target;

	if (at->kind == NODE_SCRATCH_FILE)
		at = h->node->file->forward;
	return at && (at == n || at == twin);
}

int handle_nodes(struct node *n, struct node *twin, struct node ***out, size_t *count)
{
	size_t found = 0;
	int r = 0;

	*out = NULL;
	*count = 0;
	mutex_lock(tree_mutex());
	for (struct handle *h = all_handles; h; h = h->all_next)
		found += leads_to(h, n, twin);
	if (found)
		*out = calloc(found, sizeof(struct node *));
	if (found && !*out)
		r = -ENOMEM;
	for (struct handle *h = *out ? all_handles : NULL; h; h = h->all_next) {
		bool have = !leads_to(h, n, twin);

		for (size_t i = 0; i < *count && !have; i++)
			have = (*out)[i] == h->node;
		if (have)
			continue;
		h->node->refs++;
		(*out)[(*count)++] = h->node;
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
	struct node *base = dir->kind == NODE_CELL_PART ? dir->parent : dir, **some = NULL;
	size_t count = 0, n = 0;
	bool pending = false;
	uint64_t size;
	int64_t when;

	mutex_lock(tree_mutex());
	for (struct handle *h = all_handles; h; h = h->all_next)
		count += h->writable && h->target->parent == base;
	some = count ? malloc(count * sizeof(*some)) : NULL;
	pending = count && !some;
	for (struct handle *h = some ? all_handles : NULL; h; h = h->all_next) {
		if (!h->writable || h->target->parent != base)
			continue;
		h->target->refs++;
		some[n++] = h->target;
	}
	mutex_unlock(tree_mutex());
	for (size_t i = 0; i < n; i++) {
		pending = pending || (lies_in(dir, some[i]) && ofile_pending(some[i], &size, &when));
		node_put(some[i]);
	}
	free(some);
	return pending;
}
