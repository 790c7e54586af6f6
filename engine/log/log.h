/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log (paper, sections 5.3 and 6 "Commit-log implementation"):
 * one per tablet server, in segments DIR/NUMBER.log (one DIR per server
 * incarnation), with group commit and two writers.  log_format.h has the
 * format.
 *
 * A writer submits under its own lock, which determines the order, and waits
 * without it:
 *	log_submit   copies the record, assigns the next LSN, does no I/O
 *	log_wait     one of the waiters writes all queued records in one system
 *	             call, syncs once if any waiter wants that, and wakes the
 *	             rest
 *
 * A record stays in memory until an fsync that covers it has succeeded.  On
 * a stall (a write or sync longer than stall_us), a write error or an fsync
 * error the file is abandoned at its last durable LSN, which the next file's
 * header states.  The retained records are written to the next file in LSN
 * order, before any new one, except those whose waiter has received an error.
 * If that fails, too, or without a fence one of its calls takes six times stall_us, the
 * waiters get the error and the log refuses writes with -EROFS.  A second later it tries
 * another fresh file.
 *
 * A log on shared storage has a fence (log_options.fence).  When it is lost, the
 * records of this log may already be read by their next owners.  From then on
 * the log answers every waiter and every call with -FENCE_LOST: the outcome of
 * the records that wait is unknown.
 *
 * Threads: all calls from any thread.
 */
#ifndef TFS_LOG_H
#define TFS_LOG_H

#include <bsd/sys/queue.h>

#include "engine/base/bytes.h"
#include "engine/base/outcome.h"
#include "engine/base/task.h"
#include "engine/cell/op.h"

struct log;
struct log_record {
	uint64_t lsn; /* set by the log; gapless per incarnation, from 1 */
	uint32_t table;
	struct tfs_bytes row_from, row_to; /* the rows it touches, both inclusive; one row: equal */
	struct op_token token;
	struct tfs_bytes result; /* the result of a mutation with a client, opaque here (engine/tablet/tokens_format.h) */
	uint64_t seq;            /* first sequence number of its cells */
	struct tfs_bytes batch;  /* opaque here (engine/cell/batch_format.h) */
};
struct log_options {
	const char *dir; /* exists */
	uint64_t incarnation;
	uint64_t segment_bytes;    /* the size of the first segments */
	uint64_t sync_interval_us; /* unsynced records are synced after this by a task */
	uint64_t stall_us;         /* default 0: 5 s */
	uint64_t retry_us;      /* the pause between attempts to open a fresh file after both writers have failed; default 0: 1 s */
	uint64_t mark_us;       /* the mark of a sync is written after this time; default 0: 100 ms */
	struct task_pool *pool; /* runs the lazy sync and the second writer */
	struct task *rolled;    /* queued each time that a segment is full; may be NULL */
	/*
	 * NULL: no fence.  Called after each sync, before its records are
	 * answered.  Returns 0 if the log is still this process's own,
	 * -FENCE_LOST if it is lost, because the records may be missing from the
	 * seal; another -errno counts as an error of the sync.  Any thread, no
	 * lock.  With a fence each record is synced before it is answered, as if
	 * `sync` was asked for.
	 */
	int (*fence)(void *arg);
	/* Returns true if the fence waits for something other than storage.  No call counts as stalled then.  Any thread; takes no lock. */
	bool (*fence_waits)(void *arg);
	void *fence_arg;
};
int log_new(const struct log_options *o, struct log **out) TFS_MUST;
/* Syncs and closes.  Returns the error of the last sync. */
int log_free(struct log *l);

/* Embedded in the writer; log_submit fills it in. */
struct log_ticket {
	uint64_t lsn;
	bool sync;
	/*
	 * Set after an error of log_wait if an abandoned file may contain the
	 * record.  Replay applies it if the server crashes before the log has a
	 * fresh file, or if the log is lost.  If false, replay never applies it.
	 */
	bool in_doubt;
	bool private_record;
	void *private_;
	_Atomic int private_state;
	int private_error;
	STAILQ_ENTRY(log_ticket) private_next;
};
/*
 * -ENOMEM, -EINVAL (longer than the format allows), -EROFS (refusing),
 * -ENOSPC (refusing because the disk is full), -FENCE_LOST (lost) or -EAGAIN (more than 64 MiB
 * wait for an fsync; call log_wait_memory): nothing was submitted.  Never
 * blocks, because the caller holds a lock.
 */
int log_submit(struct log *l, const struct log_record *r, bool sync, struct log_ticket *t) TFS_MUST;
/* Syncs until no more than 64 MiB wait for an fsync. */
int log_wait_memory(struct log *l) TFS_MUST;
/* Must be called once for each submitted ticket.  0: written (and synced if asked). */
int log_wait(struct log *l, struct log_ticket *t) TFS_MUST;
/*
 * Waits as log_wait, but the writers that its last step answered sleep until
 * log_wake, which the caller must call soon.  Before that the caller can finish
 * their work for them, so that they need not do it one after another.
 */
struct log_wakeups {
	struct event *rounds; /* the events of the log, or NULL if no writer is to be woken */
	bool round[2];
	struct event *v[16];
	unsigned n;
};
int log_wait_deferred(struct log *l, struct log_ticket *t, struct log_wakeups *wakeups) TFS_MUST;
void log_wake(struct log_wakeups *wakeups);
/*
 * Returns true if t is answered, so that log_wait returns *err.  The thread of t
 * may still be inside log_wait: stuck in a system call, and replaced by another
 * thread.
 */
bool log_poll(struct log *l, const struct log_ticket *t, int *err);
/* The result of log_poll.  It takes no lock, and a stuck thread is not replaced. */
bool log_ticket_done(const struct log_ticket *t, int *err);
/* Changes log_options.sync_interval_us, also for records that wait already if it is shorter. */
void log_set_sync_interval(struct log *l, uint64_t us);
/* Everything submitted so far is durable on return. */
int log_sync(struct log *l) TFS_MUST;
uint64_t log_next_lsn(struct log *l);    /* the LSN of the next record */
uint64_t log_durable_lsn(struct log *l); /* all records up to this are on disk */
uint64_t log_bytes(struct log *l);       /* size of all segments */
/*
 * Returns the first LSN of the newest segments that together have at most `bytes`, or
 * of the active segment if it alone has more.
 */
uint64_t log_tail_lsn(struct log *l, uint64_t bytes);
/* Raises the size of new segments. */
void log_grow_segments(struct log *l, uint64_t bytes);
/* Removes the segments all of whose records are below lsn; recycles a few of them. */
int log_drop_below(struct log *l, uint64_t lsn) TFS_MUST;
/* Begins a new segment if the active one has records below lsn, so that the old one can be removed, too. */
int log_roll_below(struct log *l, uint64_t lsn) TFS_MUST;
/* Removes recycled segments.  The log does this itself when a write finds no space. */
void log_discard_recycled(struct log *l);
/* Removes recycled segments, and recycles none until the end.  So bytes of dropped segments leave the disk. */
void log_erase_begin(struct log *l);
void log_erase_end(struct log *l);
/* If the log refuses records, tries a fresh file at once.  Returns 0 if it accepts records, the error if not, -EAGAIN if another thread is trying. */
int log_try_again(struct log *l) TFS_MUST;

struct log_stats {
	uint64_t records, bytes, groups, syncs, switches, retained_bytes;
	int refusing; /* the error with which records are refused, because neither writer can write; else 0 */
	bool waiting; /* a writer waits */
	uint64_t durable_lsn;
};
void log_get_stats(struct log *l, struct log_stats *s);

/*
 * Reads a dead incarnation's segments in order: fn for each record once, in
 * LSN order.  Stops at the first LSN gap, the log's end.  Damage below a
 * durable LSN that is stated later is -EBADMSG, above it the end of the log.
 * Valid records after that end are counted (lost).  After a kill the log may be
 * in the page cache only: the caller must sync it.
 * from_lsn: fn is not called for records below, and segments wholly below may
 * be missing.  A non-zero return of fn ends the replay and is returned.
 * If why is not NULL, sets *why to the place and cause of an error or of lost
 * records, or to NULL.  The caller frees it.
 */
struct log_end {
	uint64_t last_lsn; /* the LSN of the last record, or 0 */
	uint64_t lost;     /* valid records after it, which cannot be replayed because one before them is missing */
};
typedef int log_replay_fn(void *arg, const struct log_record *r);
int log_replay(const char *dir, uint64_t from_lsn, log_replay_fn *fn, void *arg, struct log_end *end, char **why) TFS_MUST;

#endif
