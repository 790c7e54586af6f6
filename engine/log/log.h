/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log (paper, sections 5.3 and 6 "Commit-log implementation"):
 * one per tablet server, in segments DIR/NUMBER.log (DIR is one server
 * incarnation's), with group commit and two writers.  Formats in
 * log_format.h; the rules in DESIGN 3.2.
 *
 * A writer submits under its own lock, which fixes the order, and waits
 * outside it:
 *	log_submit   copies the record, gives it the next LSN, does no I/O
 *	log_wait     one of the waiters, the leader, writes what has queued in
 *	             one system call, syncs once if any of them wants that, and
 *	             wakes the others
 *
 * A record stays in memory until an fsync that covers it has succeeded.  On
 * a stall (a write or sync longer than stall_us), a write error or an fsync
 * error the file is abandoned at its last durable LSN, which the next file's
 * header states, and the retained records are appended there again in LSN
 * order before any new one; a record whose waiter was already told of an
 * error is not.  If that fails too, or one of its calls takes six times what
 * counts as a stall, the waiters get the error, writes are refused with
 * -EROFS, and a fresh file is tried again after a second.
 *
 * Threads: all calls from any thread.
 */
#ifndef TFS_STORE_LOG_H
#define TFS_STORE_LOG_H

#include "engine/base/bytes.h"
#include "engine/base/task.h"
#include "engine/cell/op.h"

struct log;
struct log_record {
	uint64_t lsn; /* set by the log; gapless per incarnation, from 1 */
	uint32_t table;
	struct slice row_from, row_to; /* the rows it touches, both inclusive; one row: equal */
	struct op_token token;
	uint64_t seq;       /* first sequence number of its cells */
	struct slice batch; /* opaque here (store/batch.h) */
};
struct log_options {
	const char *dir; /* exists */
	uint64_t incarnation;
	uint64_t segment_bytes;    /* at first */
	uint64_t sync_interval_us; /* unsynced records are synced after this by a task */
	uint64_t stall_us;         /* default 0: 5 s */
	uint64_t retry_us;         /* between tries to open a fresh file, when both writers have failed; default 0: 1 s */
	uint64_t mark_us;          /* after a sync its mark is written; default 0: 100 ms */
	struct task_pool *pool;    /* for the lazy sync and the second writer */
	struct task *rolled;       /* queued each time that a segment is full; NULL: none */
};
int log_new(const struct log_options *o, struct log **out) TFS_MUST;
/* Syncs and closes.  Returns the error of the last sync. */
int log_free(struct log *l);

/* Embedded in the writer; log_submit fills it in. */
struct log_ticket {
	uint64_t lsn;
	bool sync;
	/*
	 * After an error of log_wait: the record's bytes were handed to a file
	 * that could not be cut below them, so a crash before a fresh file is
	 * opened may still bring the record back.  False: it never will.
	 */
	bool in_doubt;
	bool private_record;
	void *private_;
	_Atomic int private_state;
	int private_error;
	struct log_ticket *private_next;
};
/*
 * -ENOMEM, -EINVAL (longer than the format allows), -EROFS (refusing),
 * -ENOSPC (refusing because the disk is full) or -EAGAIN (more than 64 MiB
 * wait for an fsync: log_wait_room): nothing was submitted.  Never blocks,
 * since the caller's lock is one that many others need.
 */
int log_submit(struct log *l, const struct log_record *r, bool sync, struct log_ticket *t) TFS_MUST;
/* Syncs until no more than 64 MiB wait for an fsync. */
int log_wait_room(struct log *l) TFS_MUST;
/* Must be called once for each submitted ticket.  0: written (and synced if asked). */
int log_wait(struct log *l, struct log_ticket *t) TFS_MUST;
/*
 * The same, but those whom its last step answered sleep on until log_wake,
 * which the caller owes them soon: what it does for all of them before, they
 * need not wake up to do, one after another.
 */
struct log_told {
	struct bell *rounds; /* of the log; NULL: none to be woken */
	bool round[2];
	struct bell *v[16];
	unsigned n;
};
int log_wait_telling(struct log *l, struct log_ticket *t, struct log_told *told) TFS_MUST;
void log_wake(struct log_told *told);
/*
 * Has t been settled, so that log_wait's answer is *err?  Its thread may still
 * be inside log_wait: in the system call that another thread has replaced.
 */
bool log_settled(struct log *l, const struct log_ticket *t, int *err);
/* The same by a look at the ticket alone: takes no lock, and replaces no thread. */
bool log_answered(const struct log_ticket *t, int *err);
/* Everything submitted so far is durable on return. */
int log_sync(struct log *l) TFS_MUST;
uint64_t log_next_lsn(struct log *l);    /* that the next submit will get */
uint64_t log_durable_lsn(struct log *l); /* all records up to this are on disk */
uint64_t log_bytes(struct log *l);       /* size of all segments */
/* Where the last `bytes` of it begin, in whole segments, or the active one: dropping below leaves no more. */
uint64_t log_tail_lsn(struct log *l, uint64_t bytes);
/* Segments are as large as this from now on, if that is more than before. */
void log_grow_segments(struct log *l, uint64_t bytes);
/* Removes segments whose every record is below lsn, or keeps a few of them to write over. */
int log_drop_below(struct log *l, uint64_t lsn) TFS_MUST;
/* Ends the active segment if it has records below lsn, though it is not full: so that it, too, can go. */
int log_roll_below(struct log *l, uint64_t lsn) TFS_MUST;
/* Gives back the disk space of those kept; done by itself when a write finds none. */
void log_give_up_room(struct log *l);
/* If it refuses records it tries a fresh file at once, as room has been made: 0, or why it still does.  -EAGAIN: another thread is trying. */
int log_try_again(struct log *l) TFS_MUST;

struct log_stats {
	uint64_t records, bytes, groups, syncs, switches, retained_bytes;
};
void log_get_stats(struct log *l, struct log_stats *s);

/*
 * Reads a dead incarnation's segments in order: fn for each record once, in
 * LSN order.  Stops at the first LSN gap (the log's end).  Damage below a
 * later-stated durable LSN is -EBADMSG, above it the end of the log.  Whole
 * records behind that end are counted (lost).  After a kill the log may be in
 * the page cache only: the caller must sync it.
 * from_lsn: records below are not handed out and segments wholly below may
 * be missing.  A non-zero return of fn stops and is passed on.
 * why, if not NULL: the place and cause of an error, or of lost records; NULL
 * if there are none.  The caller frees it.
 */
struct log_end {
	uint64_t last_lsn; /* of the last record that counts; 0: none */
	uint64_t lost;     /* whole records behind it that cannot be taken, since one before them is missing */
};
typedef int log_replay_fn(void *arg, const struct log_record *r);
int log_replay(const char *dir, uint64_t from_lsn, log_replay_fn *fn, void *arg, struct log_end *end, char **why) TFS_MUST;

#endif
