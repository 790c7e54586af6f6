/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the commit log: log_mem.c (records in memory),
 * log_file.c (segments), log_queue.c (waiting writers), log_mark.c (marks),
 * log_switch.c (second writer), log.c (writing and syncing).  No other
 * directory includes this.  Each file calls only those named before it.
 *
 * One mutex (RANK_LOG) protects everything below; no I/O is done under it.
 * I/O is done in one of three roles, each taken by at most one thread:
 *
 *	writing    writes queued records, rolls segments over
 *	syncing    makes written records durable
 *	switching  replaces both while it opens a fresh file
 *
 * A thread notes the generation when it takes a role.  A switch raises the
 * generation.  A thread that returns from I/O in another generation has been
 * replaced: it drops its references and touches nothing else.
 */
#ifndef TFS_LOG_INTERNAL_H
#define TFS_LOG_INTERNAL_H

#include "engine/base/file.h"
#include "engine/base/task.h"
#include "engine/log/log_format.h"

#define LOG_CHUNK_BYTES (256u << 10) /* size of a chunk of small records */
#define LOG_LARGE_BYTES (64u << 10)  /* a record of this size has a chunk of its own */
#define LOG_SPARES 16u               /* chunks kept for reuse */
#define LOG_SOFT_BYTES (16u << 20)   /* retained: an early sync is queued */
#define LOG_HARD_BYTES (64u << 20)   /* retained: nothing is submitted */
#define LOG_GROUP_BYTES (4u << 20)
#define LOG_GROUP_PIECES 64u
#define LOG_RECYCLED_MOST 2u /* dropped segments that wait for reuse */
#define LOG_PAGE_BYTES 4096u
#define LOG_RETRY_US 1000000u
#define LOG_MARK_US 100000u
#define LOG_PATIENCE 6u   /* a call of the second writer may take this many times stall_us */
#define LOG_STUCK_MOST 2u /* above this number of replaced threads inside I/O, retries pause */

/* Encoded records, in LSN order.  The list holds one reference, and each write under way one. */
struct log_chunk {
	struct log_chunk *next;
	size_t used, cap;
	uint64_t last_lsn;
	unsigned refs;
	uint8_t data[];
};

struct log_segment {
	struct log_segment *next;
	uint64_t number, first_lsn;
	uint64_t last_lsn;  /* the last LSN of the valid records; grows while active */
	uint64_t bytes;     /* offset of the next record */
	uint64_t allocated; /* the file's end: zeros ahead, or bytes of the recycled segment */
	uint64_t reused;    /* bytes of the recycled segment; 0: a fresh file */
	uint64_t touched;   /* reused: whole pages have been written up to here */
	uint64_t syncs;
	struct file *file;  /* NULL once durable or abandoned */
	unsigned io;        /* threads using file */
	bool entry_durable; /* its name in the directory is durable */
	bool retired;       /* needs no further I/O */
	bool no_ahead;      /* there was no space for zeros once */
	bool abandoned;     /* a switch has abandoned it: its content above last_lsn is unknown */
	bool headed;        /* a header of this use may be in the file */
};

enum ticket_state { TICKET_QUEUED = 1, TICKET_WRITTEN, TICKET_DONE };
STAILQ_HEAD(ticket_list, log_ticket);

/*
 * A sync wakes the writers that it answers, and most of them soon submit
 * another record.  The next sync waits until as many have come back as did
 * before, but at most as long as a sync takes.  Otherwise the writers split
 * into two halves that wait for each other's syncs.  A single writer does not
 * wait.
 */
struct log_gather {
	uint64_t until_us;   /* the end of the wait under way, or 0 */
	unsigned want;       /* the wait ends earlier if this many syncers wait */
	unsigned left;       /* syncers that waited already when the wait began */
	bool timed;          /* a sleeper will wake up at until_us */
	uint64_t sync_us;    /* duration of a sync: mean of the last few */
	unsigned cap;        /* syncers that came back during the last wait that ran out of time */
	unsigned cap_rounds; /* further rounds in which no more than cap are waited for */
	unsigned cap_next;   /* cap_rounds after the next wait that runs out of time */
};

struct log {
	struct mutex mu;
	/* constant */
	char *dir;
	uint64_t incarnation, salt, stall_us, retry_us, mark_us;
	int (*fence)(void *arg); /* may be NULL */
	bool (*fence_waits)(void *arg);
	void *fence_arg;
	_Atomic uint64_t sync_interval_us;
	_Atomic uint64_t segment_bytes; /* rises */

	/* records in memory: durable_lsn < ... <= last_lsn, and a few older ones */
	struct log_chunk *head, *tail, *spare;
	struct log_chunk *wchunk; /* the next byte to write is wchunk->data[woff] */
	size_t woff;
	unsigned spares;
	_Atomic uint64_t retained_bytes;
	uint64_t last_lsn;      /* submitted */
	uint64_t attempted_lsn; /* passed to a write */
	uint64_t written_lsn, durable_lsn;
	uint64_t marked_lsn; /* stated by the last mark */

	/* LSNs answered with an error and not yet durably void; rising */
	uint64_t *voids;
	size_t void_count, void_cap;

	/* tickets in LSN order: not yet written; written but waiting for a sync */
	struct ticket_list queued, written;
	size_t outstanding;
	unsigned syncers; /* records of the group that must be synced */
	/*
	 * Writers that wait for a sync sleep on one of these events.  At the sync's
	 * end one call wakes all.  Syncs use the events by turns, by their numbers.
	 */
	struct event rounds[2];
	unsigned round;       /* number of the last sync that was begun */
	uint64_t sync_target; /* the LSN up to which that sync makes records durable */
	struct log_gather gather;

	/* roles */
	bool writing, syncing, switching;
	bool no_space; /* the last write found no space, so the next write waits for the sync under way */
	uint64_t write_since_us, sync_since_us, switch_since_us; /* start of the system call under way */
	uint64_t gen;
	unsigned inflight; /* threads inside I/O of any generation */

	/* segments, oldest first; the last is active */
	struct log_segment *segments, *active;
	struct log_segment *recycled; /* dropped, oldest first: wait for reuse */
	unsigned erasers;             /* while it is not 0, no segment is recycled (log_erase_begin) */
	unsigned recycled_count;
	uint64_t next_number;
	bool dropping, reap;

	int refusing; /* 0, or the error that log_submit returns */
	bool lost;    /* the fence is lost: refusing for ever */
	uint64_t retry_at_us;
	unsigned failures; /* failed attempts since the last fresh file */

	bool sync_armed, sync_urgent, mark_armed;
	struct task sync_task, retry_task, mark_task, *rolled;
	struct log_stats stats;
};

/* Around a system call: begin unlocks l->mu, end locks it.  s: the segment whose file is used, or NULL. */
static inline void log_io_begin(struct log *l, struct log_segment *s)
{
	if (s)
		s->io++;
	l->inflight++;
	mutex_unlock(&l->mu);
}
static inline void log_io_end(struct log *l, struct log_segment *s)
{
	mutex_lock(&l->mu);
	l->inflight--;
	if (s)
		s->io--;
}

/* log_queue.c */
/* Returns true while the next sync waits for more writers. */
bool log_gathering_locked(struct log *l, uint64_t now_us);
/* Called after a sync that took sync_us and answered this many records. */
void log_gather_begin_locked(struct log *l, unsigned answered, uint64_t now_us, uint64_t sync_us);
void log_finish_locked(struct log *l, struct ticket_list *list, int error); /* removes the head, answers it and wakes it */
void log_finish_later_locked(struct log *l, struct ticket_list *list, struct log_wakeups *w); /* the caller wakes it by log_wake */
void log_wake_next_locked(struct log *l); /* wakes a sleeper that can take a free role */
/* Returns the time after which a system call under way counts as stalled; UINT64_MAX: none is under way. */
uint64_t log_stall_time_locked(const struct log *l);
/* Sleeps until t is answered, a role is free or a system call counts as stalled.  Returns true if t is answered; the lock is then not held. */
bool log_sleep_locked(struct log *l, struct log_ticket *t);

/* log_mem.c */
/* Returns an empty chunk; NULL if out of memory. */
struct log_chunk *log_chunk_new(size_t cap);
/* Assigns the next LSN to r and encodes it.  large: a chunk that contains the encoded body already, or NULL. */
int log_mem_add_locked(
	struct log *l, const struct log_record *r, uint32_t body_bytes, struct log_chunk *large, uint32_t large_crc) TFS_MUST;
void log_chunk_put_locked(struct log *l, struct log_chunk *c);
void log_mem_trim_locked(struct log *l); /* frees durable records */
void log_mem_fini(struct log *l);
/*
 * The records of one write at segment offset `bytes`: at most
 * LOG_GROUP_PIECES pieces, up to the first record past segment_bytes.
 * References each chunk.
 */
struct log_group {
	struct tfs_bytes v[LOG_GROUP_PIECES + 1]; /* one more for the zeros */
	struct log_chunk *chunk[LOG_GROUP_PIECES];
	unsigned count;
	size_t bytes, end; /* end: the end of the group in the last chunk */
	uint64_t last_lsn;
};
void log_group_take_locked(struct log *l, uint64_t bytes, struct log_group *g);
void log_group_put_locked(struct log *l, struct log_group *g);

/* log_file.c */
/* Makes the file, without a header, from `recycled`, which it takes, or as an empty file if `recycled` is NULL. The caller holds no lock. */
int log_segment_new(
	struct log *l, uint64_t number, uint64_t first_lsn, struct log_segment *recycled, struct log_segment **out) TFS_MUST;
int log_segment_header(struct log *l, struct log_segment *s, uint64_t durable_lsn) TFS_MUST;
void log_segment_discard(struct log *l, struct log_segment *s); /* unlinks unless a seal may list it, closes, frees; no lock */
void log_segment_append_locked(struct log *l, struct log_segment *s); /* makes it the active segment */
/*
 * Zeros to write after `end`: to the end of the page in a recycled segment, and
 * further ahead if syncs are frequent and small.
 */
struct tfs_bytes log_segment_pad(const struct log *l, const struct log_segment *s, uint64_t end);
void log_segment_wrote(struct log_segment *s, uint64_t end, size_t pad); /* raises s->bytes */
/* Writer's role: a fresh active segment.  Unlocks meanwhile.  -ECANCELED: replaced. */
int log_roll_locked(struct log *l, uint64_t gen) TFS_MUST;
void log_reap_locked(struct log *l); /* closes files no longer needed; unlocks meanwhile */

/* log_mark.c */
void log_mark_soon_locked(struct log *l); /* the durable LSN has risen */
void log_mark_run(struct task *t);
/* At a clean end, when everything is durable: writes the mark and cuts off the zeros ahead, without a sync. */
void log_mark_end(struct log *l);

/* log_switch.c */
/* The fence is lost: answers every waiter with -FENCE_LOST, and replaces the threads inside I/O. */
void log_lose_locked(struct log *l);
/* Raises the generation and tries a fresh file; unlocks meanwhile.  why: for the message. */
void log_switch_locked(struct log *l, int error, const char *why);
/* Replaces a thread whose system call has taken longer than stall_us. */
void log_takeover_locked(struct log *l);

#endif
