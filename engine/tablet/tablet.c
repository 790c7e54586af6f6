/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet: opening, views for readers, background jobs, closing.
 *
 * Opening does no I/O: files are opened when they are first read.  Sequence
 * numbers start above the mark in METADATA and above every file's seq_max.
 * Replay raises them above the numbers of every record.
 *
 * Closing waits for calls and background work.  Unflushed data stays in the
 * log, from the redo points in METADATA on.
 */
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/hash.h"
#include "engine/cell/merge.h"

enum { CLOSE_POLL_US = 1000 };

void snap_take(struct tablet *t, struct snap *s)
{
	mutex_lock(&t->view_lock);
	s->view = view_get(t->view);
	s->schema = store_schema_get(t->schema);
	mutex_unlock(&t->view_lock);
	s->seq = t->published;
}

void snap_put(struct snap *s)
{
	view_put(s->view);
	store_schema_put(s->schema);
	s->view = NULL;
	s->schema = NULL;
}

struct view *view_swap(struct tablet *t, struct view *v)
{
	struct view *old;

	t->debt = view_debt(v);
	mutex_lock(&t->view_lock);
	old = t->view;
	t->view = v;
	mutex_unlock(&t->view_lock);
	return old;
}

bool tablet_contains_row(const struct tablet *t, struct tfs_bytes row)
{
	return bytes_cmp(row, buf_bytes(&t->begin)) >= 0 && (!t->end.p || bytes_cmp(row, buf_bytes(&t->end)) < 0);
}

int tablet_mem_iter(struct tablet *t, struct vmem *m, struct iter **out)
{
	struct buf from = {0}, to = {0};
	struct iter *it;
	int err = cellkey_row_prefix(&from, buf_bytes(&t->begin));

	if (!err && t->end.p)
		err = cellkey_row_prefix(&to, buf_bytes(&t->end));
	if (!err)
		err = memtable_iter_new(m->m, &it);
	if (!err && (t->begin.n || t->end.p))
		err = clip_iter_new(it, buf_bytes(&from), buf_bytes(&to), &it);
	buf_fini(&from);
	buf_fini(&to);
	if (!err)
		*out = it;
	return err;
}

struct stripe *stripe_of(struct tablet *t, struct tfs_bytes row)
{
	return &t->stripes[hash_private(0, row) % STRIPES];
}

int tablet_state_error(const struct tablet *t)
{
	static const int errors[] = {
#define X(name, text, error) error,
		TABLET_STATES(X)
#undef X
	};

	return errors[t->state];
}

int tablet_job_begin(struct tablet *t, _Atomic bool *busy)
{
	int err;

	mutex_lock(&t->lock);
	while (*busy && t->state != TABLET_CLOSING && t->state != TABLET_GONE)
		cond_wait(&t->changed, &t->lock);
	err = t->state == TABLET_SPLITTING ? 0 : tablet_state_error(t);
	if (!err)
		*busy = true;
	mutex_unlock(&t->lock);
	return err;
}

void tablet_job_end(struct tablet *t, _Atomic bool *busy)
{
	mutex_lock(&t->lock);
	*busy = false;
	cond_broadcast(&t->changed);
	mutex_unlock(&t->lock);
}

void tablet_want_flush(struct tablet *t)
{
	if (t->env->no_background || t->frozen || t->state != TABLET_SERVING)
		return;
	if (!atomic_exchange_explicit(&t->flush_wanted, true, memory_order_acq_rel))
		task_queue(&t->flush_task);
}

void tablet_want_merge(struct tablet *t)
{
	if (!t->env->no_background && !t->frozen && t->state == TABLET_SERVING)
		task_queue(&t->merge_task);
}

static void tablet_destroy(struct tablet *t)
{
	t->env->compactor->drop_jobs(t);
	view_put(t->view);
	store_schema_put(t->schema);
	for (unsigned i = 0; i < STRIPES; i++) {
		mutex_fini(&t->stripes[i].m);
		cond_fini(&t->stripes[i].free);
		buf_fini(&t->stripes[i].note.column);
	}
	mutex_fini(&t->edit);
	mutex_fini(&t->lock);
	mutex_fini(&t->view_lock);
	cond_fini(&t->changed);
	buf_fini(&t->begin);
	buf_fini(&t->end);
	free(t->redo);
	tokens_fini(&t->tokens);
	free(t);
}

/*
 * Makes the vfile of f, clipped to the tablet's rows.  A split writes only the
 * row of the lower child, so the entries in the upper child's row still have
 * the range of the parent.
 */
static int tablet_clip_file(const struct tablet_params *p, const struct tablet_file *f, struct vfile **out)
{
	bool in_memory = f->group != TABLET_GROUP_CHANGES && store_schema_group(p->schema, f->group)->sst.in_memory;
	struct tablet_file c;
	int err = tablet_file_copy(&c, f);

	if (err)
		return err;
	if (bytes_cmp(buf_bytes(&c.begin), p->begin) < 0)
		err = buf_set(&c.begin, p->begin.p, p->begin.n);
	if (!err && p->end.p && (!c.end.p || bytes_cmp(buf_bytes(&c.end), p->end) > 0))
		err = buf_set(&c.end, p->end.p, p->end.n);
	if (!err)
		err = vfile_new(p->env, p->table, &c, in_memory, out);
	tablet_file_fini(&c);
	return err;
}

static int tablet_first_view(struct tablet *t, const struct tablet_params *p)
{
	struct view *v = view_new(p->file_count);
	int err;

	if (!v)
		return -ENOMEM;
	err = vmem_new(p->env->memory_used, &v->mems[0]);
	v->mem_count = !err;
	for (unsigned i = 0; i < p->file_count && !err; i++) {
		const struct tablet_file *f = &p->files[i];
		struct vfile *vf;

		err = tablet_clip_file(p, f, &vf);
		if (err)
			break;
		view_add_file(v, vf);
		vfile_put(vf);
		if (f->seq_max >= t->next_seq)
			t->next_seq = f->seq_max + 1;
		if (f->group == TABLET_GROUP_CHANGES) /* later changes of a row must have later times */
			tablet_raise_commit(t, f->newest_us);
		else if (f->newest_us >= f->oldest_us && f->newest_us > t->loaded_newest_us)
			t->loaded_newest_us = f->newest_us;
	}
	if (err) {
		view_put(v);
		return err;
	}
	(void)!view_swap(t, v); /* there was no old view */
	return 0;
}

/* The caller holds t->lock, unless no other thread uses t yet. */
void tablet_raise_commit(struct tablet *t, int64_t us)
{
	if (us > t->newest_commit_us)
		t->newest_commit_us = us;
	clock_raise_commit(t->env->clock, us);
}

int tablet_new(const struct tablet_params *p, struct tablet **out)
{
	struct tablet *t = calloc(1, sizeof *t);
	int err;

	if (!t)
		return -ENOMEM;
	t->env = p->env;
	t->table = p->table;
	t->frozen = p->frozen;
	t->frozen_us = p->frozen_us;
	t->commit = p->commit;
	t->commit_arg = p->commit_arg;
	t->schema = store_schema_get(p->schema);
	t->seq_mark = p->seq_mark;
	t->major_us = p->major_us ? p->major_us : clock_now(p->env->clock);
	t->major_unset = !p->major_us;
	t->changes_low_us = p->changes_low_us;
	tablet_raise_commit(t, p->changes_low_us);
	t->next_seq = p->seq_mark + 1;
	t->loaded_newest_us = INT64_MIN;
	t->writers_tail = &t->writers;
	mutex_init(&t->edit, (enum rank)p->rank_edit);
	mutex_init(&t->lock, RANK_TABLET);
	mutex_init(&t->view_lock, RANK_TABLET_VIEW);
	cond_init(&t->changed);
	for (unsigned i = 0; i < STRIPES; i++) {
		mutex_init(&t->stripes[i].m, RANK_TABLET);
		cond_init(&t->stripes[i].free);
		t->stripes[i].newest_us = INT64_MIN;
	}
	task_init(&t->flush_task, p->env->flush_pool, p->env->compactor->flush_task);
	task_init(&t->merge_task, p->env->compact_pool, p->env->compactor->merge_task);
	task_init(&t->major_task, p->env->compact_pool, p->env->compactor->major_task);
	t->redo = calloc(p->redo_count + 1u, sizeof *t->redo);
	tokens_init(&t->tokens);
	t->tokens_stored = p->token_count > 0;
	if (!t->redo)
		err = -ENOMEM;
	else if (!(err = tokens_load(&t->tokens, p->tokens, p->token_count, clock_limited(p->env->clock))) &&
		!(err = buf_append(&t->begin, p->begin.p, p->begin.n)) && !(err = tablet_end_copy(&t->end, p->end)))
		err = tablet_first_view(t, p);
	if (err) {
		tablet_destroy(t);
		return err;
	}
	for (unsigned i = 0; i < p->redo_count; i++)
		t->redo[i] = (struct redo_state){p->redo[i], p->redo[i].lsn};
	t->redo_count = p->redo_count;
	t->published = t->next_seq - 1;
	*out = t;
	return 0;
}

static void tablet_cancel_tasks(struct tablet *t)
{
	task_cancel(&t->flush_task);
	task_cancel(&t->merge_task);
	task_cancel(&t->major_task);
}

void tablet_free(struct tablet *t)
{
	if (!t)
		return;
	mutex_lock(&t->lock);
	t->state = TABLET_CLOSING;
	cond_broadcast(&t->changed);
	mutex_unlock(&t->lock);
	tablet_cancel_tasks(t);
	mutex_lock(&t->lock);
	while (t->calls)
		(void)cond_wait_us(&t->changed, &t->lock, CLOSE_POLL_US);
	mutex_unlock(&t->lock);
	tablet_cancel_tasks(t); /* a call that has just ended may have queued tasks */
	tablet_destroy(t);
}

void tablet_set_schema(struct tablet *t, struct store_schema *s)
{
	struct store_schema *old;
	bool begins;

	mutex_lock(&t->lock); /* under it a writer finds that its schema is old, and resolves its mutation again */
	mutex_lock(&t->view_lock);
	old = t->schema;
	t->schema = store_schema_get(s);
	begins = s->changes_us && !t->changes_low_us;
	mutex_unlock(&t->view_lock);
	mutex_unlock(&t->lock);
	if (begins)
		tablet_want_merge(t); /* it sets the low mark, though no write may come */
	store_schema_put(old);
}

void tablet_edit_begin(struct tablet *t)
{
	mutex_lock(&t->edit);
}

void tablet_edit_end(struct tablet *t)
{
	mutex_unlock(&t->edit);
}

struct tfs_bytes tablet_begin(const struct tablet *t)
{
	return buf_bytes(&t->begin);
}

struct tfs_bytes tablet_end(const struct tablet *t)
{
	return buf_bytes(&t->end);
}

uint64_t tablet_redo_lsn(struct tablet *t, uint64_t incarnation)
{
	uint64_t lsn = UINT64_MAX;

	mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->redo_count; i++)
		if (t->redo[i].p.incarnation == incarnation)
			lsn = t->redo[i].p.lsn;
	if (incarnation == t->env->incarnation && t->redo_maybe && t->redo_maybe < lsn)
		lsn = t->redo_maybe;
	mutex_unlock(&t->lock);
	return lsn;
}

uint64_t tablet_redo_next(struct tablet *t, uint64_t above)
{
	uint64_t next = 0;

	mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->redo_count; i++) {
		uint64_t n = t->redo[i].p.incarnation;

		if (n > above && n != t->env->incarnation && (!next || n < next))
			next = n;
	}
	mutex_unlock(&t->lock);
	return next;
}

int tablet_files(struct tablet *t, struct tablet_file **files, unsigned *count)
{
	struct snap snap;
	struct tablet_file *list;
	unsigned n = 0;
	int err = 0;

	snap_take(t, &snap);
	list = calloc(snap.view->file_count + 1u, sizeof *list);
	if (!list)
		err = -ENOMEM;
	while (!err && n < snap.view->file_count) {
		err = tablet_file_copy(&list[n], &snap.view->files[n]->meta);
		n += !err;
	}
	snap_put(&snap);
	if (err) {
		while (n)
			tablet_file_fini(&list[--n]);
		free(list);
		return err;
	}
	*files = list;
	*count = n;
	return 0;
}
