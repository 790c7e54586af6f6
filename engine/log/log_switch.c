/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second writer: abandoning a file that stalls or fails.
 *
 * After a failed write or fsync the content of the file above the durable LSN
 * is unknown (the kernel may have dropped the pages and reported that only
 * once), so the file is not synced again and not trusted.  All records above
 * the durable LSN are still in memory.  Steps:
 *   1 raise the generation: threads inside the old file are replaced
 *   2 create the next segment
 *   3 write the records again, in LSN order; a record whose writer received
 *     an error becomes a void one of the same LSN
 *   4 write the header: first LSN = durable + 1, which cuts every earlier
 *     segment there
 *   5 fdatasync the file   6 fsync the directory
 *   7 check the fence, if there is one
 *   8 it is the active segment; answer the writers of all its records
 * A crash (or kill) before 4 leaves a file without a header, which replay
 * ignores: the old file counts to its end.  The header is written after the
 * records, so that a kill in between cannot cut off unsynced records of the
 * old file.  Between 4 and 7 either file may count; either contains all
 * durable records, and no writer has been answered yet.
 *
 * A disk that is slow for both files is slow, not stuck: a call of the second
 * writer may take LOG_PATIENCE times as long as the first writer's.  With a fence it may take
 * any time: the server ends if another server's storage answers, and waits if none does
 * (engine/server/storage/fence.c).
 *
 * Step 2 makes the file by its full path, so it fails after a master has renamed
 * the directory.  After any error the fence is checked, too.  If it is lost, the
 * log makes no further attempt.
 *
 * If a step fails or stalls, the file is unlinked (with a fence: only before
 * step 4, because a seal may list it later; the next file cuts it), every waiter gets the
 * error, and the log refuses writes until a later attempt succeeds.  The records of these
 * waiters are void from then on: every later attempt omits them.  If the server crashes
 * before an attempt succeeds, replay reads the old file, which may contain such a record.
 * The ticket's in_doubt states that.
 *
 * A replaced thread may wake at any time and still write to, sync or unlink
 * its file.  That does no harm: the file's number is below the number of the
 * file that replaced and cuts it, and the thread checks the generation before
 * it touches the log.
 */
#include "engine/log/log_internal.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

struct piece {
	struct log_chunk *chunk;
	size_t from, to;
	uint64_t last_lsn;
};

struct rewrite {
	uint64_t gen, number, durable, last;
	struct piece *pieces;
	size_t count;
	uint64_t *voids;
	size_t void_count;
};

static int switch_note_voids_locked(struct log *l, struct ticket_list *list, int error)
{
	struct log_ticket *t;
	int n = 0;

	while ((t = STAILQ_FIRST(list))) {
		if (t->private_record) {
			l->voids[l->void_count++] = t->lsn;
			t->in_doubt = t->lsn <= l->attempted_lsn;
			n++;
		}
		log_finish_locked(l, list, error);
	}
	return n;
}

void log_lose_locked(struct log *l)
{
	int n;

	l->gen++;
	l->writing = l->syncing = l->switching = false;
	l->gather.until_us = 0;
	l->lost = l->reap = true;
	l->refusing = -FENCE_LOST;
	n = switch_note_voids_locked(l, &l->written, -FENCE_LOST);
	n += switch_note_voids_locked(l, &l->queued, -FENCE_LOST);
	msg_error("commit log %s: lost; the outcome of %d records is unknown, durable up to %llu of %llu", l->dir, n,
		(unsigned long long)l->durable_lsn, (unsigned long long)l->last_lsn);
}

/* Both writers have failed.  The written tickets' LSNs are below the queued ones', so voids stay in order. */
static void switch_fail_locked(struct log *l, int error)
{
	/* Other numbers would mean something else to the writer, for example that the row is not served here. */
	const int answer = is_no_space(error) || error == -ENOMEM ? error : -EIO;
	int n = switch_note_voids_locked(l, &l->written, answer);

	n += switch_note_voids_locked(l, &l->queued, answer);
	l->failures++;
	l->refusing = is_no_space(error) ? -ENOSPC : -EROFS;
	l->retry_at_us = monotonic_us() + l->retry_us;
	task_queue_after(&l->retry_task, l->retry_us);
	if (n ||
		(l->failures & (l->failures - 1)) ==
			0) /* logs only failures 1, 2, 4, 8 ..., because a disk may stay full for days */
		msg_error("commit log %s: no fresh file (attempt %u): %s; %d records refused, durable up to %llu of %llu", l->dir,
			l->failures, error_text(error), n, (unsigned long long)l->durable_lsn, (unsigned long long)l->last_lsn);
}

/* Returns the offset of the first record above lsn in the chunk. */
static size_t chunk_skip_to(const struct log_chunk *c, uint64_t lsn)
{
	size_t off = 0, total;
	uint64_t at;

	while (off < c->used) {
		log_frame_peek(c->data + off, &at, &total);
		if (at > lsn)
			break;
		off += total;
	}
	return off;
}

static void rewrite_end_locked(struct log *l, struct rewrite *j)
{
	for (size_t i = 0; i < j->count; i++)
		log_chunk_put_locked(l, j->pieces[i].chunk);
	free(j->pieces);
	free(j->voids);
}

/* Collects all records above the durable LSN, and all void records. */
static int rewrite_begin_locked(struct log *l, struct rewrite *j)
{
	struct log_chunk *c;
	size_t n = 0;

	*j = (struct rewrite){.gen = l->gen, .number = l->next_number++, .durable = l->durable_lsn, .last = l->last_lsn};
	for (c = l->head; c; c = c->next)
		n++;
	j->pieces = calloc(n + 1, sizeof *j->pieces);
	j->voids = malloc((l->void_count + 1) * sizeof *j->voids);
	if (!j->pieces || !j->voids)
		return -ENOMEM;
	j->void_count = l->void_count;
	if (l->void_count)
		memcpy(j->voids, l->voids, l->void_count * sizeof *j->voids);
	for (c = l->head; c; c = c->next) {
		size_t from = c->last_lsn > j->durable ? chunk_skip_to(c, j->durable) : c->used;

		if (from == c->used)
			continue;
		j->pieces[j->count++] = (struct piece){c, from, c->used, c->last_lsn};
		c->refs++;
	}
	return 0;
}

/* Between two system calls: returns false if this thread was replaced.  Restarts the stall clock. */
static bool rewrite_still_ours(struct log *l, const struct rewrite *j)
{
	bool ours;

	mutex_lock(&l->mu);
	ours = l->gen == j->gen;
	if (ours)
		l->switch_since_us = monotonic_us();
	mutex_unlock(&l->mu);
	return ours;
}

/* Writes a copy of the piece with void records in place of the omitted ones; it is never longer than the piece. */
static int rewrite_with_voids(struct log *l, const struct rewrite *j, const struct piece *p, size_t vi, struct log_segment *s)
{
	uint8_t *copy = malloc(p->to - p->from);
	size_t n = 0, total;
	int err;

	if (!copy)
		return -ENOMEM;
	for (size_t off = p->from; off < p->to; off += total) {
		const uint8_t *rec = p->chunk->data + off;
		uint64_t lsn;

		log_frame_peek(rec, &lsn, &total);
		while (vi < j->void_count && j->voids[vi] < lsn)
			vi++;
		if (vi < j->void_count && j->voids[vi] == lsn) {
			struct log_frame f = {.lsn = lsn, .durable = j->durable, .kind = LOG_VOID};

			log_frame_encode(copy + n, &f, l->salt);
			n += LOG_FRAME_BYTES;
		} else {
			memcpy(copy + n, rec, total);
			n += total;
		}
	}
	err = file_pwrite(s->file, copy, n, s->bytes);
	free(copy);
	if (!err)
		s->bytes += n;
	return err;
}

static int rewrite_plain(struct log_segment *s, const struct piece *p, size_t count)
{
	struct tfs_bytes v[LOG_GROUP_PIECES];
	size_t n = 0;
	int err;

	for (size_t i = 0; i < count; i++) {
		v[i] = tfs_bytes_of(p[i].chunk->data + p[i].from, p[i].to - p[i].from);
		n += v[i].n;
	}
	err = file_pwritev(s->file, v, (unsigned)count, s->bytes);
	if (!err)
		s->bytes += n;
	return err;
}

/* Step 3. */
static int rewrite_all(struct log *l, const struct rewrite *j, struct log_segment *s)
{
	size_t vi = 0; /* the first void that may lie in the next piece */
	int err = 0;

	for (size_t i = 0, n; !err && i < j->count; i += n) {
		size_t total;
		uint64_t first;

		log_frame_peek(j->pieces[i].chunk->data + j->pieces[i].from, &first, &total);
		while (vi < j->void_count && j->voids[vi] < first)
			vi++;
		n = 1;
		if (!rewrite_still_ours(l, j))
			return -ECANCELED;
		if (vi < j->void_count && j->voids[vi] <= j->pieces[i].last_lsn) {
			err = rewrite_with_voids(l, j, &j->pieces[i], vi, s);
			continue;
		}
		total = j->pieces[i].to - j->pieces[i].from;
		while (i + n < j->count && n < LOG_GROUP_PIECES && total < LOG_GROUP_BYTES &&
			(vi == j->void_count || j->voids[vi] > j->pieces[i + n].last_lsn)) {
			total += j->pieces[i + n].to - j->pieces[i + n].from;
			n++;
		}
		err = rewrite_plain(s, &j->pieces[i], n);
	}
	return err;
}

/* Step 7, or after an error of an earlier step. */
static int rewrite_check_fence(struct log *l, const struct rewrite *j, int err)
{
	int lost;

	if (err == -ECANCELED || !l->fence)
		return err;
	if (!rewrite_still_ours(l, j))
		return -ECANCELED;
	lost = l->fence(l->fence_arg);
	return lost == -FENCE_LOST || !err ? lost : err;
}

/* Steps 2 to 7, without the lock.  -FENCE_LOST: the fence is lost. */
static int rewrite_run(struct log *l, const struct rewrite *j, struct log_segment **out)
{
	struct log_segment *s;
	int err = log_segment_new(l, j->number, j->durable + 1, NULL, &s);

	if (err)
		return rewrite_check_fence(l, j, err);
	err = rewrite_all(l, j, s);
	if (!err)
		err = rewrite_still_ours(l, j) ? log_segment_header(l, s, j->durable) : -ECANCELED;
	if (!err)
		err = rewrite_still_ours(l, j) ? file_sync(s->file) : -ECANCELED;
	if (!err)
		err = rewrite_still_ours(l, j) ? file_sync_dir(l->dir) : -ECANCELED;
	err = rewrite_check_fence(l, j, err);
	if (err) {
		log_segment_discard(l, s);
		return err;
	}
	s->entry_durable = true;
	*out = s;
	return 0;
}

/* Step 8. */
static void switch_install_locked(struct log *l, const struct rewrite *j, struct log_segment *s)
{
	struct log_segment *old;

	for (old = l->segments; old; old = old->next) {
		if (old == l->active || old->last_lsn > j->durable)
			old->last_lsn = j->durable;
		old->abandoned |= !old->retired;
		old->retired = true;
	}
	l->reap = true;
	s->last_lsn = j->last;
	log_segment_append_locked(l, s);
	l->written_lsn = l->durable_lsn = j->last;
	if (l->attempted_lsn < j->last)
		l->attempted_lsn = j->last;
	l->void_count = 0;
	l->refusing = 0;
	if (l->failures)
		msg_notice("commit log %s: continues with a fresh file, after %u attempts", l->dir, l->failures);
	l->failures = 0;
	if (j->count) {
		l->wchunk = j->pieces[j->count - 1].chunk;
		l->woff = j->pieces[j->count - 1].to;
	}
	log_mark_soon_locked(l);
	while (!STAILQ_EMPTY(&l->written))
		log_finish_locked(l, &l->written, 0);
	while (!STAILQ_EMPTY(&l->queued) && STAILQ_FIRST(&l->queued)->lsn <= j->last)
		log_finish_locked(l, &l->queued, 0);
}

void log_switch_locked(struct log *l, int error, const char *why)
{
	struct log_segment *s = NULL;
	struct rewrite j;
	int err;

	if (error)
		msg_error("commit log %s: %s of segment %llu: %s; abandoned at LSN %llu", l->dir, why,
			(unsigned long long)l->active->number, error_text(error), (unsigned long long)l->durable_lsn);
	l->gen++;
	l->writing = l->syncing = false;
	l->gather.until_us = 0;
	l->switching = true;
	l->switch_since_us = monotonic_us();
	l->stats.switches++;
	err = rewrite_begin_locked(l, &j);
	if (!err) {
		if (l->attempted_lsn < j.last)
			l->attempted_lsn = j.last;
		log_io_begin(l, NULL);
		if (is_no_space(error))
			log_discard_recycled(l);
		err = rewrite_run(l, &j, &s);
		log_io_end(l, NULL);
	}
	if (l->gen == j.gen) {
		l->switching = false;
		if (err == -FENCE_LOST)
			log_lose_locked(l);
		else if (err)
			switch_fail_locked(l, err);
		else
			switch_install_locked(l, &j, s);
		s = NULL;
	}
	rewrite_end_locked(l, &j);
	if (s) { /* replaced after its last step */
		log_io_begin(l, NULL);
		log_segment_discard(l, s);
		log_io_end(l, NULL);
	}
	log_mem_trim_locked(l);
	log_wake_next_locked(l);
}

int log_try_again(struct log *l)
{
	bool busy;
	int err;

	mutex_lock(&l->mu);
	busy = !l->lost && (l->switching || (l->refusing && l->inflight > LOG_STUCK_MOST));
	if (l->refusing && !busy && !l->lost)
		log_switch_locked(l, 0, "retry");
	err = busy ? -EAGAIN : l->refusing;
	mutex_unlock(&l->mu);
	return err;
}

void log_takeover_locked(struct log *l)
{
	if (!l->switching) {
		log_switch_locked(l, -ETIMEDOUT, "stall");
		return;
	}
	l->gen++;
	l->switching = false;
	switch_fail_locked(l, -EIO);
}
