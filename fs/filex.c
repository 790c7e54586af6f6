/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of open files, apart from the calls on them: who has a node
 * open, what stat shows while something is pending, and what happens to open
 * descriptors when their name is removed, replaced or renamed.
 *
 * Removal: for those who have a version open its content is copied before it
 * goes (the store has no notion of an unlinked cell that is still open); a
 * plain name's readers have theirs since open.  Once it has gone, and only
 * then, writers are cut off by a new life: plain nodes count theirs in
 * node->epoch, versions in filex.life, and a writer of an older life commits
 * nothing.  A removal that fails has changed nothing.
 */
#include "fs/file.h"

#include "engine/base/msg.h"
#include "fs/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct mutex *ofile_row_lock(struct node *n)
{
	for (; n; n = n->parent)
		if (n->kind == NODE_ROW)
			return fs_row_lock(n);
	return NULL;
}

static bool is_pending(const struct handle *h, const struct node *n)
{
	return h->target == n && h->w.life == n->epoch && writer_pending(&h->w);
}

/* A writer that has something staged; the file's lock is held. */
static const struct writer *pending_of(struct node *n, struct filex *x)
{
	if (n->kind == NODE_VERSION)
		return writer_pending(&x->w) ? &x->w : NULL;
	for (struct handle *h = x->handles; h; h = h->next)
		if (is_pending(h, n))
			return &h->w;
	return NULL;
}

bool ofile_pending(struct node *n, uint64_t *size, int64_t *time_us)
{
	struct filex *x = filex_find(n);
	const struct writer *w;

	if (!x)
		return false;
	mutex_lock(&x->lock);
	w = pending_of(n, x);
	if (w) {
		*size = writer_size(w);
		*time_us = w->time_set ? w->time : w->touched_us;
	}
	mutex_unlock(&x->lock);
	filex_put(n, x);
	return w != NULL;
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

bool ofile_staged(struct node *n, bool *own, uint64_t *size, int64_t *time_us)
{
	struct filex *x = filex_find(n);
	const struct writer *w = NULL;

	*own = false;
	if (!x)
		return false;
	mutex_lock(&x->lock);
	for (struct handle *h = x->handles; h && !*own; h = h->next) {
		if (!is_pending(h, n))
			continue;
		*own = shows_to_asker(h, x);
		if (*own || !w)
			w = &h->w;
	}
	if (w) {
		*size = writer_size(w);
		*time_us = w->time_set ? w->time : w->touched_us;
	}
	mutex_unlock(&x->lock);
	filex_put(n, x);
	return w != NULL;
}

int ofile_stat(struct node *n, const struct cell_place *p, const struct family_info *f, struct tfs_info *info, bool *pending)
{
	uint64_t size;
	int64_t when;
	int r = cell_stat(p, f, info);

	*pending = false;
	if (r != -ENOENT || !n)
		return r;
	/* What is committed is in the store before it stops being pending: who finds neither has to look there once more. */
	*pending = ofile_pending(n, &size, &when);
	return *pending ? r : cell_stat(p, f, info);
}

bool ofile_is_open(struct node *n, uint64_t *size)
{
	struct filex *x = filex_find(n);
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
	open = x->handles != NULL || x->orphan;
	if (x->handles && n->kind == NODE_PLAIN)
		*size = writer_size(&x->handles->w);
	else
		*size = writer_size(&x->w);
	mutex_unlock(&x->lock);
	filex_put(n, x);
	return open;
}

/* ---- removal ---- */

struct kept_version {
	struct kept_version *next;
	struct node *n;
	struct filex *x;
	struct writer copy;
};

int ofile_keep_version(struct node *family_node, struct slice qualifier, int64_t ts, struct kept *k)
{
	struct node *family = node_is_latest(family_node) ? family_twin(family_node) : family_node, *n = NULL;
	struct kept_version *e = NULL;
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	bool wanted = false;
	int r = 0;

	if (family)
		n = node_find(family, NODE_VERSION, qualifier, ts);
	if (n) {
		mutex_lock(tree_mutex());
		wanted = n->opens > 0 || n->file;
		mutex_unlock(tree_mutex());
	}
	if (!wanted)
		goto out;
	e = calloc(1, sizeof(*e));
	if (e)
		e->x = filex_get(n);
	if (!e || !e->x) {
		free(e);
		r = -ENOMEM;
		goto out;
	}
	writer_init(&e->copy);
	e->copy.only_reads = true;
	cell_place_of(n, &p);
	r = family_info_get(family, &f);
	if (r == 0)
		r = writer_load(&e->copy, &p, &f, &info);
	e->n = n;
	n = NULL;
	e->next = k->first;
	k->first = e;
	if (r == -ENOENT)
		r = 0; /* what keeps it known has not been committed */
out:
	node_put(n);
	if (family && family != family_node)
		node_put(family);
	return r;
}

int ofile_keep_versions(struct node *family_node, struct slice qualifier, const struct versions *v, struct kept *k)
{
	int r = 0;

	for (size_t i = 0; i < v->n && r == 0; i++)
		r = ofile_keep_version(family_node, qualifier, v->ts[i], k);
	return r;
}

static void cut_off(struct kept_version *e)
{
	struct filex *x = e->x;
	bool staged, stays;

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
	x->life++;
	mutex_lock(tree_mutex());
	e->n->epoch = 0;
	stays = !x->orphan && (x->handles || e->n->opens > 0);
	if (stays)
		x->orphan = true; /* with the count taken above, until nobody has it open */
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
	if (stays)
		e->x = NULL;
}

void kept_cut_off(struct kept *k)
{
	for (struct kept_version *e = k->first; e; e = e->next)
		cut_off(e);
}

void kept_fini(struct kept *k)
{
	struct kept_version *next;

	for (struct kept_version *e = k->first; e; e = next) {
		next = e->next;
		writer_fini(&e->copy);
		filex_put(e->n, e->x);
		node_put(e->n);
		free(e);
	}
	k->first = NULL;
}

/* The plain name's node in the table's other view, counted, or NULL. */
static struct node *plain_twin(struct node *n)
{
	struct node *family = family_twin(n->parent), *twin = family ? node_find(family, NODE_PLAIN, node_key(n), 0) : NULL;

	node_put(family);
	return twin;
}

static void new_life(struct node *family_node, struct slice qualifier)
{
	struct node *n = node_find(family_node, NODE_PLAIN, qualifier, 0);

	if (n)
		n->epoch++;
	node_put(n);
}

void ofile_cut_off_plain(struct node *family_node, struct slice qualifier)
{
	struct node *twin = family_twin(family_node);

	new_life(family_node, qualifier);
	if (twin)
		new_life(twin, qualifier);
	node_put(twin);
}

/* ---- renames ---- */

/* One of the nodes through which a plain name is open, its file's lock held: what of it goes to n or twin? */
static bool goes_to(const struct node *at, const struct node *n, const struct node *twin)
{
	return at && (at == n || at == twin);
}

static int settle_through(struct node *m, struct node *n, struct node *twin, struct changes *c)
{
	struct filex *x = filex_find(m);
	int r = 0;

	if (!x)
		return 0;
	mutex_lock(&x->lock);
	if (m->kind == NODE_SCRATCH_FILE) {
		if (goes_to(x->forward, n, twin))
			r = writer_commit(&x->w, x->forward, true, &x->lock, c);
	} else {
		for (struct handle *h = x->handles; h && r == 0; h = h->next)
			if (goes_to(h->target, n, twin) && writer_pending(&h->w))
				r = handle_commit(h, true, c);
	}
	mutex_unlock(&x->lock);
	filex_put(m, x);
	return r;
}

int ofile_settle(struct node *n, struct changes *c)
{
	struct node *twin, **through;
	struct filex *x;
	size_t count;
	int r;

	if (n->kind != NODE_PLAIN) {
		x = n->kind == NODE_VERSION ? filex_find(n) : NULL;
		if (!x)
			return 0;
		mutex_lock(&x->lock);
		r = writer_commit(&x->w, n, true, &x->lock, c);
		mutex_unlock(&x->lock);
		filex_put(n, x);
		return r;
	}
	twin = plain_twin(n);
	r = handle_nodes(n, twin, &through, &count);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = settle_through(through[i], n, twin, c);
		node_put(through[i]);
	}
	free(through);
	node_put(twin);
	return r;
}

static void aim(struct writer *w, const struct node *target, int64_t commit_ts)
{
	w->life = target->epoch;
	if (w->committed)
		w->commit_ts = commit_ts;
}

/* The descriptors of m that are n's, or twin's, are target's from now on. */
static void forward_through(struct node *m, struct node *n, struct node *twin, struct node *target, int64_t commit_ts)
{
	struct filex *x = filex_find(m), *file, *old_file = NULL;
	struct node *old = NULL;
	bool any = m == n;

	if (!x)
		return;
	/* A version counts its lives there; the row's lock keeps it from ending one. */
	file = target->kind == NODE_VERSION ? filex_get(target) : NULL;
	mutex_lock(&x->lock);
	for (struct handle *h = m->kind == NODE_PLAIN ? x->handles : NULL; h; h = h->next) {
		if (!goes_to(h->target, n, twin) || h->w.life != h->target->epoch)
			continue;
		any = true;
		aim(&h->w, target, commit_ts);
		node_hold(target);
		mutex_lock(tree_mutex());
		old = h->target;
		h->target = target;
		node_put_locked(old);
		mutex_unlock(tree_mutex());
	}
	old = NULL;
	if (m->kind == NODE_SCRATCH_FILE && m != n && goes_to(x->forward, n, twin) && x->w.life == x->forward->epoch) {
		any = true;
		aim(&x->w, target, commit_ts);
	} else if (m->kind == NODE_SCRATCH_FILE && m == n) {
		x->w.committed = true;
		aim(&x->w, target, commit_ts);
		x->w.dirty = x->w.fresh = false;
		x->given = true;
		filex_let_go(x);
	}
	if (any && x->handles) {
		node_hold(target);
		mutex_lock(tree_mutex());
		old = x->forward;
		x->forward = target;
		mutex_unlock(tree_mutex());
		old_file = x->forward_file;
		x->forward_file = file;
		x->forward_life = file ? file->life : 0;
		file = NULL;
	}
	mutex_unlock(&x->lock);
	filex_put(target, file);
	filex_put(m, x);
	filex_put(old, old_file);
	node_put(old);
}

void ofile_forward(struct node *n, struct node *target, int64_t commit_ts)
{
	struct node *twin = NULL, **through = NULL;
	size_t count = 0;

	if (n->kind == NODE_PLAIN) {
		twin = plain_twin(n);
		if (handle_nodes(n, twin, &through, &count))
			msg_error("out of memory: writers of a renamed file were cut off");
	}
	for (size_t i = 0; i < count; i++) {
		if (through[i] != n)
			forward_through(through[i], n, twin, target, commit_ts);
		node_put(through[i]);
	}
	free(through);
	forward_through(n, n, twin, target, commit_ts);
	node_put(twin);
}
