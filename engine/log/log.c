/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log's writing and syncing, done by the waiting writers.
 *
 * Submitting encodes the record into memory (log_mem.c) and appends the
 * ticket to a queue.  A waiting writer that finds a role free takes it:
 *
 *	writing  one pwritev for all queued records; unsynced tickets are
 *	         answered, synced ones move to the second queue
 *	syncing  fdatasync of every segment that has undurable records, oldest
 *	         first, then of the directory if a segment's name is new; then
 *	         the durable LSN rises, the tickets of the second queue are
 *	         answered and the memory is freed
 *
 * Both may run at once, so an unsynced commit never waits for the lazy sync.
 * A writer that wants a sync does not write while a sync is under way: its
 * record could not be durable before the next sync, and so a group gathers.
 * After a sync the next one waits shortly for the writers that were just
 * answered (struct log_gather).  The last of them does the sync, so no other
 * thread must be woken for it.
 *
 * A crash:
 *   after the pwritev, before the sync   any of the group's pages may be
 *       lost; replay ends at the first incomplete record
 *   between two segments' syncs, or before the directory's   the same, and
 *       no ticket was answered
 *
 * With a fence, the durable LSN rises and the tickets are answered only if it
 * still holds after the sync.  The seal of a dead server's log is made after its
 * directory was renamed.  The fence looks the directory up by its path.  If it
 * finds it, the rename comes later, and with it the reading for the seal, which
 * therefore reads every record of this sync.  No clock is needed for that.
 *
 * A write that finds no space first syncs the records written before it.
 * Otherwise the second writer would have to write them again, without space.
 *
 * A sleeper waits until the system call of the thread that it waits for counts
 * as stalled, then replaces that thread (log_switch.c).  A stalled thread for
 * which no other thread waits is not replaced.
 *
 * Rejected: a thread of its own for the log (one more wake-up in the
 * path of every commit), and one condition for all (every group would wake
 * every waiter).
 */
#include "engine/log/log_internal.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define CONTAINER(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

static void log_written_locked(struct log *l, uint64_t lsn, struct log_wakeups *w)
{
	struct log_ticket *t;

	l->written_lsn = lsn;
	while ((t = STAILQ_FIRST(&l->queued)) && t->lsn <= lsn) {
		if (!t->sync) {
			log_finish_later_locked(l, &l->queued, w);
			continue;
		}
		STAILQ_REMOVE_HEAD(&l->queued, private_next);
		STAILQ_INSERT_TAIL(&l->written, t, private_next);
		t->private_state = TICKET_WRITTEN;
	}
	if (!l->sync_armed) {
		l->sync_armed = true;
		task_queue_after(&l->sync_task, l->sync_interval_us);
	}
	if (l->retained_bytes > LOG_SOFT_BYTES && !l->sync_urgent) {
		l->sync_urgent = true;
		task_queue(&l->sync_task);
	}
}

/* Without space for the zeros the group is written alone.  *pad: the zeros written. */
static int log_write_group_locked(struct log *l, struct log_segment *s, struct log_group *g, struct tfs_bytes *pad)
{
	uint64_t at = s->bytes;
	bool ahead = true;
	int err;

	g->v[g->count] = *pad;
	log_io_begin(l, s);
	err = file_pwritev(s->file, g->v, g->count + (pad->n != 0), at);
	if (is_no_space(err) && pad->n) {
		ahead = false;
		pad->n = 0;
		err = file_pwritev(s->file, g->v, g->count, at);
	}
	log_io_end(l, s);
	s->no_ahead |= !ahead;
	return err;
}

/* Files first, the directory last: both are needed for durability. */
static int log_sync_files_locked(struct log *l, struct log_segment *last, uint64_t gen)
{
	bool entries = false;
	struct log_segment *s;
	int err = 0;

	for (s = l->segments; s; s = s->next) {
		if (s->retired || (s != last && s->entry_durable && s->last_lsn <= l->durable_lsn))
			continue;
		entries |= !s->entry_durable;
		l->sync_since_us = monotonic_us();
		log_io_begin(l, s);
		err = file_sync(s->file);
		log_io_end(l, s);
		s->syncs++;
		if (err || gen != l->gen || s == last)
			break;
	}
	if (!err && gen == l->gen && entries) {
		l->sync_since_us = monotonic_us();
		log_io_begin(l, NULL);
		err = file_sync_dir(l->dir);
		log_io_end(l, NULL);
	}
	return err;
}

/* After a sync.  Unlocks meanwhile. */
static int log_check_fence_locked(struct log *l)
{
	int err;

	l->sync_since_us = monotonic_us();
	log_io_begin(l, NULL);
	err = l->fence(l->fence_arg);
	log_io_end(l, NULL);
	return err;
}

/* Syncer's role: all records written so far. */
static void log_sync_locked(struct log *l, struct log_wakeups *w)
{
	uint64_t gen = l->gen, target = l->written_lsn, began = monotonic_us(), now;
	struct log_segment *last = l->active, *s;
	unsigned syncers;
	struct log_ticket *t;
	int err;

	l->syncing = true;
	l->round++;
	l->sync_target = target;
	l->gather.until_us = 0;
	err = log_sync_files_locked(l, last, gen);
	if (!err && l->fence && gen == l->gen)
		err = log_check_fence_locked(l);
	if (gen != l->gen) {
		l->reap = true;
		return;
	}
	if (err == -FENCE_LOST) {
		log_lose_locked(l);
		return;
	}
	if (err) {
		log_switch_locked(l, err, "sync");
		return;
	}
	for (s = l->segments; s != last; s = s->next)
		if (!s->retired) {
			s->entry_durable = s->retired = true;
			l->reap = true;
		}
	last->entry_durable = true;
	l->durable_lsn = target;
	l->stats.syncs++;
	l->syncing = false;
	syncers = l->syncers;
	while ((t = STAILQ_FIRST(&l->written)) && t->lsn <= target)
		log_finish_later_locked(l, &l->written, w);
	now = monotonic_us();
	log_gather_begin_locked(l, syncers - l->syncers, now, now - began);
	log_mem_trim_locked(l);
	log_mark_soon_locked(l);
	log_wake_next_locked(l);
}

/*
 * There is no space for a group.  Cuts off the part of it that was written and
 * syncs the records before it, so that they need not be written again to the
 * next file.  Returns false if this thread no longer has the writer's role, or
 * has returned the role because another thread syncs.
 */
static bool log_write_no_space_locked(struct log *l, struct log_segment *s, struct log_wakeups *w)
{
	uint64_t gen = l->gen, bytes = s->bytes;

	if (!l->fence) { /* a seal may list a whole record of this part */
		l->write_since_us = monotonic_us();
		log_io_begin(l, s);
		(void)!file_truncate(s->file, bytes);
		log_io_end(l, s);
	}
	if (gen == l->gen && l->syncing) {
		s->allocated = s->touched = s->reused = 0;
		l->no_space = true;
		l->writing = false;
		return false;
	}
	l->write_since_us = monotonic_us();
	if (gen == l->gen && l->written_lsn > l->durable_lsn)
		log_sync_locked(l, w);
	if (gen != l->gen)
		l->reap = true;
	return gen == l->gen;
}

/* Writer's role: one group. */
static void log_write_locked(struct log *l, struct log_wakeups *w)
{
	struct log_group g;
	struct log_segment *s;
	struct tfs_bytes pad = {0};
	uint64_t gen = l->gen;
	int err = 0;

	l->writing = true;
	l->no_space = false;
	l->write_since_us = monotonic_us();
	if (l->active->bytes >= l->segment_bytes)
		err = log_roll_locked(l, gen);
	s = l->active;
	if (!err) {
		log_group_take_locked(l, s->bytes, &g);
		l->attempted_lsn = g.last_lsn > l->attempted_lsn ? g.last_lsn : l->attempted_lsn;
		pad = log_segment_pad(l, s, s->bytes + g.bytes);
		err = log_write_group_locked(l, s, &g, &pad);
		log_group_put_locked(l, &g);
	}
	if (gen != l->gen) {
		l->reap = true;
		return;
	}
	if (err) {
		if (!is_no_space(err) || log_write_no_space_locked(l, s, w))
			log_switch_locked(l, err, "write");
		return;
	}
	log_segment_wrote(s, s->bytes + g.bytes, pad.n);
	l->wchunk = g.chunk[g.count - 1];
	l->woff = g.end;
	l->stats.groups++;
	l->writing = false;
	log_written_locked(l, g.last_lsn, w);
	log_wake_next_locked(l);
}

/* Unlocks l->mu.  The caller must wake the tickets that the last step answered (*w).  The tickets of earlier steps have been woken. */
static int log_wait_unlock(struct log *l, struct log_ticket *t, struct log_wakeups *w)
{
	while (t->private_state != TICKET_DONE) {
		bool may_sync = !l->syncing && !(t->private_record && log_gathering_locked(l, monotonic_us()));

		if (w->n || w->rounds) {
			mutex_unlock(&l->mu);
			log_wake(w);
			mutex_lock(&l->mu);
		} else if (!l->switching && !l->writing && !(l->no_space && l->syncing) && t->private_state == TICKET_QUEUED &&
			(may_sync || !t->sync))
			log_write_locked(l, w);
		else if (!l->switching && may_sync && t->private_state == TICKET_WRITTEN)
			log_sync_locked(l, w);
		else if (monotonic_us() > log_stall_time_locked(l))
			log_takeover_locked(l);
		else if (log_sleep_locked(l, t))
			return t->private_error;
	}
	if (l->reap)
		log_reap_locked(l);
	mutex_unlock(&l->mu);
	return t->private_error;
}

int log_wait_deferred(struct log *l, struct log_ticket *t, struct log_wakeups *wakeups)
{
	*wakeups = (struct log_wakeups){.n = 0};
	mutex_lock(&l->mu);
	return log_wait_unlock(l, t, wakeups);
}

int log_wait(struct log *l, struct log_ticket *t)
{
	struct log_wakeups wakeups;
	int err = log_wait_deferred(l, t, &wakeups);

	log_wake(&wakeups);
	return err;
}

bool log_poll(struct log *l, const struct log_ticket *t, int *err)
{
	bool done;

	mutex_lock(&l->mu);
	done = log_ticket_done(t, err);
	if (!done && monotonic_us() > log_stall_time_locked(l))
		task_queue(&l->sync_task); /* the caller does not sleep here, because the task replaces the thread */
	mutex_unlock(&l->mu);
	return done;
}

/* Waits until all records submitted so far are durable, with a synced ticket without a record. */
static int log_flush_locked(struct log *l)
{
	struct log_ticket t = {.lsn = l->last_lsn, .sync = true};
	struct log_wakeups wakeups = {.n = 0};
	int err;

	if (l->refusing)
		return l->refusing;
	if (l->last_lsn <= l->durable_lsn)
		return 0;
	l->outstanding++;
	if (l->last_lsn > l->written_lsn) {
		t.private_state = TICKET_QUEUED;
		STAILQ_INSERT_TAIL(&l->queued, &t, private_next);
	} else {
		t.private_state = TICKET_WRITTEN;
		STAILQ_INSERT_TAIL(&l->written, &t, private_next);
	}
	err = log_wait_unlock(l, &t, &wakeups);
	log_wake(&wakeups);
	mutex_lock(&l->mu);
	return err;
}

void log_set_sync_interval(struct log *l, uint64_t us)
{
	mutex_lock(&l->mu);
	l->sync_interval_us = us;
	if (l->sync_armed)
		task_queue_after(&l->sync_task, us);
	mutex_unlock(&l->mu);
}

int log_sync(struct log *l)
{
	int err;

	mutex_lock(&l->mu);
	if (l->refusing && !l->lost && !l->switching && monotonic_us() >= l->retry_at_us && l->inflight <= LOG_STUCK_MOST)
		log_switch_locked(l, 0, "retry");
	err = log_flush_locked(l);
	mutex_unlock(&l->mu);
	return err;
}

int log_roll_below(struct log *l, uint64_t lsn)
{
	struct log_wakeups wakeups = {.n = 0};
	uint64_t gen;
	int err;

	mutex_lock(&l->mu);
	err = log_flush_locked(l);
	if (err || l->writing || l->syncing || l->switching || l->active->first_lsn >= lsn || l->written_lsn < l->active->first_lsn)
		goto out; /* busy, so the next call does it */
	gen = l->gen;
	l->writing = true;
	l->write_since_us = monotonic_us();
	err = log_roll_locked(l, gen);
	if (gen != l->gen) {
		l->reap = true;
	} else if (err) {
		log_switch_locked(l, err, "write");
	} else {
		l->writing = false;
		log_wake_next_locked(l);
		if (!l->syncing && !l->switching)
			log_sync_locked(l, &wakeups); /* the old segment */
	}
out:
	mutex_unlock(&l->mu);
	log_wake(&wakeups);
	return err;
}

int log_wait_memory(struct log *l)
{
	int err = 0;

	if (l->retained_bytes <= LOG_HARD_BYTES) /* log_submit checks again, with the lock */
		return 0;
	mutex_lock(&l->mu);
	while (!err && l->retained_bytes > LOG_HARD_BYTES)
		err = log_flush_locked(l);
	mutex_unlock(&l->mu);
	return err;
}

/* Space to note every outstanding ticket as void, so that noting an error cannot fail. */
static int log_reserve_voids_locked(struct log *l)
{
	size_t need = l->void_count + l->outstanding + 1;
	uint64_t *v;

	if (need <= l->void_cap)
		return 0;
	need = need < 64 ? 64 : need * 2;
	v = realloc(l->voids, need * sizeof *v);
	if (!v)
		return -ENOMEM;
	l->voids = v;
	l->void_cap = need;
	return 0;
}

int log_submit(struct log *l, const struct log_record *r, bool sync, struct log_ticket *t)
{
	struct log_chunk *large = NULL;
	uint32_t body_bytes, crc = 0;
	int err = 0;

	sync |= l->fence != NULL;
	if (!log_body_bytes(r, &body_bytes))
		return -EINVAL;
	if (body_bytes >= LOG_LARGE_BYTES) {
		struct log_frame f = {.body_bytes = body_bytes};

		large = log_chunk_new(log_frame_total(&f));
		if (!large)
			return -ENOMEM;
		crc = log_body_encode(large->data + LOG_FRAME_BYTES, body_bytes, r);
	}
	mutex_lock(&l->mu);
	if (l->refusing)
		err = l->refusing;
	else if (l->retained_bytes > LOG_HARD_BYTES)
		err = -EAGAIN;
	if (!err)
		err = log_reserve_voids_locked(l);
	if (!err)
		err = log_mem_add_locked(l, r, body_bytes, large, crc);
	if (!err) {
		*t = (struct log_ticket){.lsn = l->last_lsn, .sync = sync, .private_record = true, .private_state = TICKET_QUEUED};
		STAILQ_INSERT_TAIL(&l->queued, t, private_next);
		l->outstanding++;
		l->syncers += sync;
		large = NULL;
	}
	mutex_unlock(&l->mu);
	free(large);
	return err;
}

uint64_t log_next_lsn(struct log *l)
{
	uint64_t lsn;

	mutex_lock(&l->mu);
	lsn = l->last_lsn + 1;
	mutex_unlock(&l->mu);
	return lsn;
}

uint64_t log_durable_lsn(struct log *l)
{
	uint64_t lsn;

	mutex_lock(&l->mu);
	lsn = l->durable_lsn;
	mutex_unlock(&l->mu);
	return lsn;
}

void log_get_stats(struct log *l, struct log_stats *s)
{
	mutex_lock(&l->mu);
	*s = l->stats;
	s->retained_bytes = l->retained_bytes;
	s->refusing = l->refusing;
	s->waiting = l->outstanding > 0;
	s->durable_lsn = l->durable_lsn;
	mutex_unlock(&l->mu);
}

static void log_lazy_sync_run(struct task *task)
{
	struct log *l = CONTAINER(task, struct log, sync_task);

	mutex_lock(&l->mu);
	l->sync_armed = l->sync_urgent = false;
	(void)!log_flush_locked(l); /* reported and retried by the second writer */
	mutex_unlock(&l->mu);
}

static void log_retry_run(struct task *task)
{
	struct log *l = CONTAINER(task, struct log, retry_task);

	mutex_lock(&l->mu);
	if (l->refusing && !l->lost && !l->switching) {
		if (l->inflight <= LOG_STUCK_MOST)
			log_switch_locked(l, 0, "retry");
		else
			task_queue_after(&l->retry_task, l->retry_us);
	}
	if (l->reap)
		log_reap_locked(l);
	mutex_unlock(&l->mu);
}

static int log_first_segment(struct log *l)
{
	struct log_segment *s;
	int err = log_segment_new(l, 1, 1, NULL, &s);

	if (!err) {
		err = log_segment_header(l, s, 0);
		if (err)
			log_segment_discard(l, s);
	}
	if (err) {
		msg_error("commit log %s: the first segment: %s", l->dir, error_text(err));
		return err;
	}
	l->next_number = 2;
	log_segment_append_locked(l, s);
	return 0;
}

int log_new(const struct log_options *o, struct log **out)
{
	struct log *l;
	int err = -ENOMEM;

	if (!o->dir || !o->pool || o->segment_bytes == 0)
		return -EINVAL;
	l = calloc(1, sizeof *l);
	if (!l)
		return -ENOMEM;
	mutex_init(&l->mu, RANK_LOG);
	STAILQ_INIT(&l->queued);
	STAILQ_INIT(&l->written);
	l->incarnation = o->incarnation;
	l->segment_bytes = o->segment_bytes;
	l->sync_interval_us = o->sync_interval_us ? o->sync_interval_us : 1000000;
	l->stall_us = o->stall_us ? o->stall_us : 5000000;
	l->retry_us = o->retry_us ? o->retry_us : LOG_RETRY_US;
	l->mark_us = o->mark_us ? o->mark_us : LOG_MARK_US;
	l->fence = o->fence;
	l->fence_waits = o->fence_waits;
	l->fence_arg = o->fence_arg;
	l->gather.cap_next = 1;
	task_init(&l->sync_task, o->pool, log_lazy_sync_run);
	task_init(&l->retry_task, o->pool, log_retry_run);
	task_init(&l->mark_task, o->pool, log_mark_run);
	l->rolled = o->rolled;
	l->dir = strdup(o->dir);
	if (!l->dir)
		goto out;
	err = random_bytes(&l->salt, sizeof l->salt);
	if (!err)
		err = log_first_segment(l);
out:
	if (err) {
		mutex_fini(&l->mu);
		free(l->dir);
		free(l);
		return err;
	}
	*out = l;
	return 0;
}

int log_free(struct log *l)
{
	struct log_segment *s, *next;
	int err;

	if (!l)
		return 0;
	task_cancel(&l->sync_task);
	task_cancel(&l->retry_task);
	mutex_lock(&l->mu);
	if (l->refusing && !l->lost)
		log_switch_locked(l, 0, "close");
	err = log_flush_locked(l);
	mutex_unlock(&l->mu);
	/* The last write and switch may have armed them again. */
	task_cancel(&l->sync_task);
	task_cancel(&l->retry_task);
	task_cancel(&l->mark_task);
	if (!err)
		log_mark_end(l);
	for (s = l->segments; s; s = next) {
		next = s->next;
		file_close(s->file);
		free(s);
	}
	log_discard_recycled(l);
	log_mem_fini(l);
	free(l->voids);
	free(l->dir);
	mutex_fini(&l->mu);
	free(l);
	return err;
}
