/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts segments of dead servers' logs (paper, section 6 "Speeding up tablet recovery").  A
 * log is needed by
 * many servers, each of which gets some of the tablets.  Each segment is read by one
 * server, which sorts it and keeps it (TS_SORT).  The owners ask for their parts, at
 * each level.  While they apply them, the task sorts the server's next segments.
 *
 * A segment that was not used for SORTED_IDLE_US is freed.  If it is asked for again, or if
 * its server has died and another server is asked, it is read and sorted again.  The result
 * is the same, because a seal never changes.  So neither a term nor the end of a recovery
 * needs to be reported to the servers.  Up to server_options.sorted_bytes are in memory.
 * Further segments are in local files without names.
 */
#include "engine/server/tablets/tablets.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/log/log_sorted.h"

#include <errno.h>
#include <stdlib.h>

#define SORTED_IDLE_US UINT64_C(10000000)

/* Guarded by the sorter's lock, except the records. */
struct sorted {
	struct sorted *next;
	uint64_t incarnation;
	uint32_t part; /* the segment's index in the seal */
	unsigned users;
	bool ready; /* its reader has ended */
	uint64_t used_us;
	struct log_sorted *records;
};

/* Reads and sorts a segment. */
static int sorted_make(struct server *s, struct sorted *x, char **why)
{
	struct log_seal seal;
	bool sealed, full;
	char *dir = NULL;
	int err = seal_read(s, x->incarnation, &sealed, &seal, &dir, why);

	if (err)
		return err;
	err = sealed && x->part < seal.count ? 0 : -ENOENT;
	if (!err) {
		mutex_lock(&s->sorter->lock);
		full = s->sorter->bytes + seal.segments[x->part].end > s->o.sorted_bytes;
		mutex_unlock(&s->sorter->lock);
		err = log_sort_segment(dir, &seal, x->part, s->o.replay_part_bytes, full ? s->o.tmp_dir : NULL, &x->records, why);
		atomic_fetch_add(&s->sorter->segments_read, 1);
	}
	log_seal_fini(&seal);
	free(dir);
	return err;
}

static void sorted_put(struct server *s, struct sorted *x)
{
	mutex_lock(&s->sorter->lock);
	x->users--;
	x->used_us = monotonic_us();
	mutex_unlock(&s->sorter->lock);
}

/* Returns a sorted segment. sorted_put ends its use.  -ENOENT: the log has no such segment. */
static int sorted_get(struct server *s, uint64_t incarnation, uint32_t part, struct sorted **out, char **why)
{
	struct sorted *mine = calloc(1, sizeof(*mine)), *x, **p;
	int err;

	if (!mine)
		return -ENOMEM;
	*mine = (struct sorted){.incarnation = incarnation, .part = part, .users = 1};
	mutex_lock(&s->sorter->lock);
	for (;;) {
		for (x = s->sorter->segments; x && (x->incarnation != incarnation || x->part != part); x = x->next)
			;
		if (!x || x->ready)
			break;
		cond_wait(&s->sorter->ready, &s->sorter->lock);
	}
	if (x) {
		x->users++;
	} else {
		mine->next = s->sorter->segments;
		s->sorter->segments = mine;
	}
	mutex_unlock(&s->sorter->lock);
	if (x) {
		free(mine);
		*out = x;
		return 0;
	}
	err = sorted_make(s, mine, why);
	mutex_lock(&s->sorter->lock);
	mine->ready = true;
	if (err) {
		for (p = &s->sorter->segments; *p != mine; p = &(*p)->next)
			;
		*p = mine->next;
	} else {
		s->sorter->bytes += log_sorted_memory(mine->records);
	}
	cond_broadcast(&s->sorter->ready);
	mutex_unlock(&s->sorter->lock);
	if (err)
		free(mine);
	else
		*out = mine;
	return err;
}

/* Frees the segments that were idle for idle_us.  Returns true if others are left. */
static bool sorted_free_idle(struct server *s, uint64_t idle_us)
{
	struct sorted *idle = NULL, *x;
	bool others;

	mutex_lock(&s->sorter->lock);
	for (struct sorted **p = &s->sorter->segments; (x = *p) != NULL;) {
		if (!x->ready || x->users || monotonic_us() - x->used_us < idle_us) {
			p = &x->next;
			continue;
		}
		*p = x->next;
		x->next = idle;
		idle = x;
		s->sorter->bytes -= log_sorted_memory(x->records);
	}
	others = s->sorter->segments != NULL;
	mutex_unlock(&s->sorter->lock);
	while ((x = idle)) {
		idle = x->next;
		log_sorted_free(x->records);
		free(x);
	}
	return others;
}

static void sort_later(struct server *s, uint64_t incarnation, uint64_t part, uint32_t parts)
{
	mutex_lock(&s->sorter->lock);
	s->sorter->next =
		(struct ts_request){.incarnation = incarnation, .part = (uint32_t)part, .parts = part > UINT32_MAX ? 0 : parts};
	mutex_unlock(&s->sorter->lock);
	server_queue(s, &s->sorter->task);
}

static void task_run(struct task *t)
{
	struct server *s = ((struct sorter *)(void *)((char *)t - offsetof(struct sorter, task)))->s;
	struct ts_request next;
	struct sorted *x;
	char *why = NULL;
	int err;

	mutex_lock(&s->sorter->lock);
	next = s->sorter->next;
	s->sorter->next.parts = 0;
	mutex_unlock(&s->sorter->lock);
	err = next.parts && !s->closing ? sorted_get(s, next.incarnation, next.part, &x, &why) : -ENOENT;
	free(why); /* the server that asks for the segment logs it */
	if (!err) {
		sorted_put(s, x);
		sort_later(s, next.incarnation, (uint64_t)next.part + next.parts, next.parts);
	} else if (sorted_free_idle(s, SORTED_IDLE_US) && !s->closing) {
		task_queue_after(t, SORTED_IDLE_US);
	}
}

/* Returns the index of the first tablet of the request whose end is above the row. */
static uint32_t tablet_above(const struct ts_request *q, uint32_t table, struct tfs_bytes row)
{
	uint32_t lo = 0, hi = q->tablet_count;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;
		const struct ts_assigned *t = &q->tablets[mid];

		if (t->table < table || (t->table == table && t->end.p && bytes_cmp(t->end, row) <= 0))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool wants_rows(void *arg, uint32_t table, struct tfs_bytes row, uint32_t to_table, struct tfs_bytes to_row)
{
	const struct ts_request *q = arg;
	const uint32_t i = tablet_above(q, table, row);
	const struct ts_assigned *t = &q->tablets[i];

	return i < q->tablet_count &&
		(t->table < to_table || (t->table == to_table && (!to_row.p || bytes_cmp(t->begin, to_row) <= 0)));
}

static int sorted_answer(struct server *s, const struct ts_request *q, struct ts_answer *a, char **why)
{
	struct buf b = {0};
	struct sorted *x;
	int err = sorted_get(s, q->incarnation, q->part, &x, why);

	if (err)
		return err;
	a->scan = q->scan;
	err = log_sorted_read(x->records, TS_READ_BYTES_MAX, wants_rows, (void *)q, &a->scan, &a->batch.done, &b);
	if (!err && !arena_dup(&a->arena, buf_bytes(&b), &a->log))
		err = -ENOMEM;
	sorted_put(s, x);
	buf_fini(&b);
	return err;
}

int sorter_call(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	char *why = NULL;
	int err = q->parts ? 0 : -EINVAL;

	if (s->o.no_background)
		(void)sorted_free_idle(s, SORTED_IDLE_US); /* nothing else does */
	if (!err && q->tablet_count)
		err = sorted_answer(s, q, a, &why);
	if (!err && !q->scan)
		sort_later(s, q->incarnation, (uint64_t)q->part + (q->tablet_count ? q->parts : 0), q->parts);
	if (err)
		msg_warning("log %llu: a segment cannot be sorted: %s", (unsigned long long)q->incarnation,
			why ? why : error_text(err));
	if (why && !arena_dup(&a->arena, tfs_str(why), &a->why))
		a->why = (struct tfs_bytes){NULL, 0};
	free(why);
	return err;
}

static int begin(struct server *s, struct task_pool *pool)
{
	s->sorter->s = s;
	mutex_init(&s->sorter->lock, RANK_SERVER);
	cond_init(&s->sorter->ready);
	task_init(&s->sorter->task, pool, task_run);
	return 0;
}

static void stop(struct server *s)
{
	task_cancel(&s->sorter->task);
	(void)sorted_free_idle(s, 0);
}

static void end(struct server *s)
{
	cond_fini(&s->sorter->ready);
	mutex_fini(&s->sorter->lock);
}

const struct server_part sorter_part = {offsetof(struct server, sorter), sizeof(struct sorter), begin, stop, end};
