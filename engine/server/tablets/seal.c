/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals of the logs of dead servers (engine/log/log_seal.h): this server makes one at
 * the master's request, and reads those that the master has stored.
 *
 * A server on shared storage replays no log without a seal, because the log's
 * server may be a zombie.  In an embedded store the lock of the store proves that
 * the predecessor is dead, so its log needs none.
 *
 * Sorted segments (paper, section 6 "Speeding up tablet recovery"): a log is needed by
 * many servers, each of which gets some of the tablets.  Each segment is read by one
 * server, which sorts it and keeps it (TS_SORT).  The owners ask for their parts, at
 * each level.  While they apply them, sort_task sorts the server's next segments.
 *
 * A segment that was not used for SORTED_IDLE_US is freed.  If it is asked for again, or
 * if its server has died and another one is asked, it is read and sorted again.  The
 * result is the same, because a seal never changes.  So neither a term nor the end of a
 * recovery needs to be reported to the servers.  Up to server_options.sorted_bytes are
 * in memory.  The others are in local files without names.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/log/log_seal.h"
#include "engine/log/log_sorted.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int seal_make(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct log_seal seal = {0};
	struct buf b = {0};
	char *logs = path_join(s->data_dir, "log"), *marker = path_join(s->data_dir, "FORMAT"), *why = NULL;
	uint64_t id;
	int err = !logs || !marker ? -ENOMEM : q->incarnation == s->incarnation ? -EINVAL : file_look_up(marker, &id);

	if (err == -ENOENT)
		err = -UNREACHABLE; /* the storage is not mounted: this is not the answer that there is no log */
	if (!err) {
		err = log_seal_make(logs, q->incarnation, &seal, &why);
		if (err && err != -ENOENT)
			msg_error("%s/%llu: cannot be sealed: %s", logs, (unsigned long long)q->incarnation,
				why ? why : error_text(err));
	}
	if (!err)
		err = log_seal_encode(&seal, &b);
	if (!err && !arena_dup(&a->arena, buf_bytes(&b), &a->log))
		err = -ENOMEM;
	log_seal_fini(&seal);
	buf_fini(&b);
	free(why);
	free(logs);
	free(marker);
	return err;
}

int seal_read(struct server *s, uint64_t incarnation, bool *sealed, struct log_seal *seal, char **dir, char **why)
{
	char *logs = path_join(s->data_dir, "log"), name[32];
	struct buf b = {0};
	int err;

	snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)incarnation);
	err = logs ? lock_sync(s->locks) : -ENOMEM; /* the master has just written it */
	if (!err)
		err = lock_get(s->locks, name, &b, NULL);
	*sealed = err != -ENOENT;
	*seal = (struct log_seal){0};
	if (!err)
		err = log_seal_decode(buf_bytes(&b), seal);
	if (!err && seal->incarnation != incarnation) {
		log_seal_fini(seal);
		err = -EBADMSG;
	}
	if (err == -ENOENT && !s->fence)
		err = 0;
	else if (err == -ENOENT)
		err = -EAGAIN;
	if (err)
		why_set(why, "lock/%s: %s", name, *sealed ? error_text(err) : "this log is not sealed yet");
	if (!err) {
		if (*sealed)
			*dir = log_sealed_dir(logs, incarnation);
		else if (asprintf(dir, "%s/%llu", logs, (unsigned long long)incarnation) < 0)
			*dir = NULL;
		err = *dir ? 0 : -ENOMEM;
	}
	if (err)
		log_seal_fini(seal);
	buf_fini(&b);
	free(logs);
	return err;
}

/* ---- sorted segments ---- */
#define SORTED_IDLE_US UINT64_C(10000000)

/* Guarded by server.lock, except the records. */
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
		mutex_lock(&s->lock);
		full = s->sorted_bytes + seal.segments[x->part].end > s->sorted_bytes_most;
		mutex_unlock(&s->lock);
		err = log_sort_segment(dir, &seal, x->part, s->replay_part_bytes, full ? s->tmp_dir : NULL, &x->records, why);
		atomic_fetch_add(&s->segments_read, 1);
	}
	log_seal_fini(&seal);
	free(dir);
	return err;
}

static void sorted_put(struct server *s, struct sorted *x)
{
	mutex_lock(&s->lock);
	x->users--;
	x->used_us = monotonic_us();
	mutex_unlock(&s->lock);
}

/* Returns a sorted segment, which sorted_put ends the use of.  -ENOENT: the log has no such segment. */
static int sorted_get(struct server *s, uint64_t incarnation, uint32_t part, struct sorted **out, char **why)
{
	struct sorted *mine = calloc(1, sizeof(*mine)), *x, **p;
	int err;

	if (!mine)
		return -ENOMEM;
	*mine = (struct sorted){.incarnation = incarnation, .part = part, .users = 1};
	mutex_lock(&s->lock);
	for (;;) {
		for (x = s->sorted; x && (x->incarnation != incarnation || x->part != part); x = x->next)
			;
		if (!x || x->ready)
			break;
		cond_wait(&s->changed, &s->lock);
	}
	if (x) {
		x->users++;
	} else {
		mine->next = s->sorted;
		s->sorted = mine;
	}
	mutex_unlock(&s->lock);
	if (x) {
		free(mine);
		*out = x;
		return 0;
	}
	err = sorted_make(s, mine, why);
	mutex_lock(&s->lock);
	mine->ready = true;
	if (err) {
		for (p = &s->sorted; *p != mine; p = &(*p)->next)
			;
		*p = mine->next;
	} else {
		s->sorted_bytes += log_sorted_memory(mine->records);
	}
	cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
	if (err)
		free(mine);
	else
		*out = mine;
	return err;
}

/* Frees the segments that were not used for so long.  Returns true if there are others. */
static bool sorted_free_idle(struct server *s, uint64_t idle_us)
{
	struct sorted *idle = NULL, *x;
	bool others;

	mutex_lock(&s->lock);
	for (struct sorted **p = &s->sorted; (x = *p) != NULL;) {
		if (!x->ready || x->users || monotonic_us() - x->used_us < idle_us) {
			p = &x->next;
			continue;
		}
		*p = x->next;
		x->next = idle;
		idle = x;
		s->sorted_bytes -= log_sorted_memory(x->records);
	}
	others = s->sorted != NULL;
	mutex_unlock(&s->lock);
	while ((x = idle)) {
		idle = x->next;
		log_sorted_free(x->records);
		free(x);
	}
	return others;
}

void seal_sorted_free(struct server *s)
{
	(void)sorted_free_idle(s, 0);
}

static void sort_later(struct server *s, uint64_t incarnation, uint64_t part, uint32_t parts)
{
	mutex_lock(&s->lock);
	s->sort_next =
		(struct ts_request){.incarnation = incarnation, .part = (uint32_t)part, .parts = part > UINT32_MAX ? 0 : parts};
	mutex_unlock(&s->lock);
	server_queue(s, &s->sort_task);
}

void seal_sort_task(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, sort_task));
	struct ts_request next;
	struct sorted *x;
	char *why = NULL;
	int err;

	mutex_lock(&s->lock);
	next = s->sort_next;
	s->sort_next.parts = 0;
	mutex_unlock(&s->lock);
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

int seal_sort(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	char *why = NULL;
	int err = q->parts ? 0 : -EINVAL;

	if (s->no_background)
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
