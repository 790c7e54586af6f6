/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stat shows of open files.
 *
 * Uncommitted bytes are visible only to the process that wrote them.  git,
 * nginx and every program that reads as many bytes as fstat reports would
 * otherwise read that many bytes of the version before.  GETATTR states the
 * calling thread, but no descriptor.  So /proc tells whether that thread is
 * one of the process that wrote.  It is read only while something is staged.
 */
#include "fs/file/file.h"

#include "fs/base/name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_pending(const struct writer *w, const struct filex *x)
{
	if (w->target != x->node || !writer_pending(w))
		return false;
	/* A truncation without a write after it is discarded if another descriptor has committed since. */
	return w->staged == STAGED_BYTES || w->target->kind != NODE_PLAIN || w->seen == x->commits;
}

/* Returns a content with staged bytes, or NULL.  The file's lock is held. */
static const struct writer *pending_of(const struct filex *x)
{
	if (!x->node)
		return NULL; /* scratch is not committed */
	if (is_pending(&x->w, x))
		return &x->w;
	for (struct handle *h = x->handles; h; h = h->next)
		if (is_pending(&h->w, x))
			return &h->w;
	return NULL;
}

static struct staged staged_of(const struct writer *w)
{
	return (struct staged){writer_size(w), w->time != TFS_NO_TIME ? w->time : w->touched_us, w->touched_us};
}

bool ofile_pending(struct node *n, struct staged *s)
{
	struct filex *x = filex_find(n);
	const struct writer *w;

	if (!x)
		return false;
	mutex_lock(&x->lock);
	w = pending_of(x);
	if (w)
		*s = staged_of(w);
	mutex_unlock(&x->lock);
	filex_put(x);
	return w != NULL;
}

static _Thread_local pid_t asker;

void ofile_asked_by(pid_t pid)
{
	asker = pid;
}

/* Did the process that calls open h, or write through it? */
static bool is_askers(const struct handle *h)
{
	char path[64];

	if (h->pid == asker)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)h->pid, (int)asker);
	return access(path, F_OK) == 0;
}

bool ofile_staged(struct node *n, bool *own, struct staged *s)
{
	struct filex *x = filex_find(n);
	const struct writer *w = NULL;

	*own = false;
	if (!x)
		return false;
	mutex_lock(&x->lock);
	for (struct handle *h = x->handles; h && !*own; h = h->next) {
		if (!is_pending(h->content, x))
			continue;
		*own = is_askers(h);
		if (*own || !w)
			w = h->content;
	}
	if (w)
		*s = staged_of(w);
	mutex_unlock(&x->lock);
	filex_put(x);
	return w != NULL;
}

int ofile_stat(struct node *n, const struct cell_place *p, struct tfs_info *info, bool *pending)
{
	struct staged s;
	int r = cell_stat(p, info);

	*pending = false;
	if (r != -ENOENT || !n)
		return r;
	/* A commit stores before it unstages.  If it did both between the two checks, the store has it now. */
	*pending = ofile_pending(n, &s);
	return *pending ? r : cell_stat(p, info);
}

bool ofile_is_open(struct node *n, uint64_t *size)
{
	struct filex *x = filex_find(n);

	*size = n->size;
	if (!x) {
		bool open;

		mutex_lock(tree_mutex());
		open = n->opens > 0;
		mutex_unlock(tree_mutex());
		return open;
	}
	mutex_lock(&x->lock);
	*size = writer_size(x->handles && n->kind == NODE_PLAIN ? x->handles->content : &x->w);
	mutex_unlock(&x->lock);
	filex_put(x);
	return true;
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

/* The nodes of a family in both views. */
struct family_views {
	struct node *node, *twin;
};

static bool commits_below(const struct handle *h, const void *arg)
{
	const struct node *target = h->w.target ? h->w.target : h->x->w.target;
	const struct family_views *f = arg;

	return target && (target->parent == f->node || target->parent == f->twin);
}

/* Walks the open files, because a directory may have many more nodes. */
bool ofile_pending_below(struct node *dir)
{
	struct node *family = dir->kind == NODE_CELL_PART ? dir->parent : dir;
	struct family_views views = {family, family_twin(family)};
	struct filex **files;
	size_t count;
	bool pending = handle_files(commits_below, &views, &files, &count) != 0;

	for (size_t i = 0; i < count; i++) {
		const struct writer *w;

		mutex_lock(&files[i]->lock);
		w = pending_of(files[i]);
		pending = pending || (w && lies_in(dir, w->target));
		mutex_unlock(&files[i]->lock);
		filex_put(files[i]);
	}
	free(files);
	node_put(views.twin);
	return pending;
}
