/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of open files, apart from the calls on them: what is staged, and
 * what stat shows while something is.
 */
#include "fs/file/file.h"

#include "fs/node/control.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct mutex *ofile_row_lock(struct node *n)
{
	for (; n; n = n->parent)
		if (n->kind == NODE_ROW)
			return fs_row_lock(n);
	return NULL;
}

static bool is_pending(const struct handle *h, const struct filex *x)
{
	if (h->target != x->node || !node_lives(h->target) || !writer_pending(&h->w))
		return false;
	/* A truncation that nothing was written after is over once another has committed. */
	return h->w.dirty || h->seen == x->commits;
}

/* A writer that has something staged; the file's lock is held. */
static const struct writer *pending_of(const struct filex *x)
{
	if (!x->node)
		return NULL; /* scratch is what it is */
	if (x->node->kind == NODE_VERSION)
		return writer_pending(&x->w) ? &x->w : NULL;
	for (struct handle *h = x->handles; h; h = h->next)
		if (is_pending(h, x))
			return &h->w;
	return NULL;
}

static struct staged staged_of(const struct writer *w)
{
	return (struct staged){writer_size(w), w->time_set ? w->time : w->touched_us, w->touched_us};
}

static bool look(struct filex *x, struct staged *s)
{
	const struct writer *w;

	mutex_lock(&x->lock);
	w = pending_of(x);
	if (w)
		*s = staged_of(w);
	mutex_unlock(&x->lock);
	return w != NULL;
}

bool ofile_pending(struct node *n, struct staged *s)
{
	struct filex *x = filex_find(n);
	bool pending = x && look(x, s);

	filex_put(x);
	return pending;
}

static _Thread_local pid_t asker;

void ofile_asked_by(pid_t pid)
{
	asker = pid;
}

/* GETATTR says which thread asks, and not through which descriptor. */
static bool is_askers(const struct handle *h)
{
	char path[64];

	if (h->pid == asker)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)h->pid, (int)asker);
	return access(path, F_OK) == 0;
}

/* Those that share a file see what any of them has staged. */
static bool shows_to_asker(const struct handle *h, const struct filex *x)
{
	if (is_askers(h))
		return true;
	for (const struct handle *g = h->w.shares ? x->handles : NULL; g; g = g->next)
		if (g != h && g->w.shares && is_askers(g))
			return true;
	return false;
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
		if (!is_pending(h, x))
			continue;
		*own = shows_to_asker(h, x);
		if (*own || !w)
			w = &h->w;
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
	/* What is committed is in the store before it stops being pending: who finds neither has to look there once more. */
	*pending = ofile_pending(n, &s);
	return *pending ? r : cell_stat(p, info);
}

bool ofile_is_open(struct node *n, uint64_t *size)
{
	struct filex *x = n->kind == NODE_VERSION ? version_find(n) : filex_find(n);
	bool open;

	*size = 0;
	if (!x) {
		mutex_lock(tree_mutex());
		open = n->opens > 0;
		mutex_unlock(tree_mutex());
		*size = n->size;
		return open;
	}
	mutex_lock(&x->lock);
	open = x->handles || x->orphan || x->followers;
	if (x->handles && n->kind == NODE_PLAIN)
		*size = writer_size(&x->handles->w);
	else
		*size = writer_size(&x->w);
	mutex_unlock(&x->lock);
	filex_put(x);
	return open;
}
