/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks: a mark states that the records of the last sync are durable.
 *
 * A frame states the durable LSN of the time when it was submitted, so no
 * frame covers the records that were synced last.  A mark does.  It is written
 * mark_us after a sync, after the last record.  Replay then distinguishes
 * damage before the mark from the end of the log (log_replay.c).
 *
 *   1 records are written    2 they are synced    3 the mark is written
 *
 * The mark has no sync of its own.  Between 2 and 3, and after a power cut
 * until the kernel has written the mark, the last sync is unprotected:
 * damage to its records looks like the end of the log.  No mark detects the
 * loss of the sector or the segment that contains the mark itself.
 *
 * The next record is written over the mark.  It was submitted after the sync
 * that the mark states, so it states that sync, too, unless it was submitted
 * while the mark waited; then its own sync is followed by a mark.
 *
 * A thread that writes the mark has the writer's role: a call that does not
 * return is replaced like any other write.  An error is ignored, since the
 * next record's write meets it again.
 *
 * Rejected: a mark as part of each synced commit (one more system call
 * for each), and marks that stay (the log of a lone writer grows by 40 bytes a
 * record).
 */
#include "engine/log/log_internal.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"

#include <stddef.h>

void log_mark_soon_locked(struct log *l)
{
	if (l->mark_armed)
		return;
	l->mark_armed = true;
	task_queue_after(&l->mark_task, l->mark_us);
}

/* Unlocks meanwhile.  Does nothing if another thread writes or switches, because that thread's sync arms the task again. */
static void log_mark_locked(struct log *l)
{
	struct log_segment *s = l->active;
	struct log_frame f = {.lsn = l->durable_lsn, .durable = l->durable_lsn, .kind = LOG_MARK};
	uint8_t mark[LOG_FRAME_BYTES];
	struct tfs_bytes v[2] = {tfs_bytes_of(mark, sizeof mark)};
	uint64_t gen = l->gen, end = s->bytes + sizeof mark;
	int err;

	if (l->writing || l->switching || l->refusing || l->marked_lsn >= f.durable)
		return;
	l->writing = true;
	l->write_since_us = monotonic_us();
	log_io_begin(l, s);
	log_frame_encode(mark, &f, l->salt);
	if (end <= s->allocated)
		v[1] = log_segment_pad(l, s, end);
	err = file_pwritev(s->file, v, 2, end - sizeof mark);
	log_io_end(l, s);
	if (gen != l->gen) {
		l->reap = true;
		return;
	}
	if (!err) {
		log_segment_wrote(s, s->bytes, sizeof mark + v[1].n);
		l->marked_lsn = f.durable;
	}
	l->writing = false;
	log_wake_next_locked(l);
}

void log_mark_run(struct task *task)
{
	struct log *l = (struct log *)(void *)((char *)task - offsetof(struct log, mark_task));

	mutex_lock(&l->mu);
	l->mark_armed = false;
	log_mark_locked(l);
	if (l->reap)
		log_reap_locked(l);
	mutex_unlock(&l->mu);
}

void log_mark_end(struct log *l)
{
	struct log_segment *s = l->active;
	int err = 0;

	mutex_lock(&l->mu);
	log_mark_locked(l);
	mutex_unlock(&l->mu);
	if (s->allocated > s->bytes + LOG_FRAME_BYTES)
		err = file_truncate(s->file, s->bytes + LOG_FRAME_BYTES);
	if (err)
		msg_warning("%s: cutting off the zeros at the end: %s", file_path(s->file), error_text(err));
}
