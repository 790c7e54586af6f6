/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the commit log share: log.c (leaders), log_queue.c (waiting writers), log_mem.c
 * (records held in memory), log_file.c (segments), log_mark.c (marks),
 * log_switch.c (second writer).  Nobody else includes this.
 *
 * One mutex (RANK_LOG) guards everything below; no I/O is done under it.
 * I/O is done in one of three roles, each held by at most one thread:
 *
 *	writing    takes what has queued, rolls segments over
 *	syncing    makes what has been written durable
 *	switching  replaces both while it opens a fresh file
 *
 * Every role remembers the generation it began in.  A switch raises the
 * generation; a thread that comes back from I/O and finds another one has
 * been replaced: it gives back what it holds and touches nothing else.
 */
#ifndef TFS_STORE_LOG_INTERNAL_H
#define TFS_STORE_LOG_INTERNAL_H

#include "engine/base/file.h"
#include "engine/base/task.h"
#include "engine/log/log_format.h"

#define LOG_CHUNK_BYTES (256u << 10) /* memory unit of small records */
#define LOG_LARGE_BYTES (64u << 10)  /* from here on a record has a chunk of its own */
#define LOG_SPARES 16u               /* chunks kept for reuse */
#define LOG_SOFT_BYTES (16u << 20)   /* retained: an early sync is queued */
#define LOG_HARD_BYTES (64u << 20)   /* retained: nothing is submitted */
#define LOG_GROUP_BYTES (4u << 20)
#define LOG_GROUP_PIECES 64u
#define LOG_SPENT_MOST 2u /* dropped segments kept for reuse */
#define LOG_PAGE_BYTES 4096u
#define LOG_RETRY_US 1000000u
#define LOG_MARK_US 100000u
#define LOG_PATIENCE 6u   /* stall times that a call of the second writer may take */
#define LOG_MAX_GHOSTS 2u /* replaced threads still inside I/O before retries pause */

/* Encoded records, in LSN order.  One reference is the list's, one each those of writes under way. */
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
	uint64_t last_lsn;  /* of the records that count; grows while active */
	uint64_t bytes;     /* where the next record goes */
	uint64_t allocated; /* the file's end: zeroed ahead, or what an earlier life left */
	uint64_t reused;    /* bytes of an earlier life; 0: a fresh file */
	uint64_t touched;   /* reused: whole pages have been written up to here */
	uint64_t syncs;
	struct file *file;  /* NULL once durable or abandoned */
	unsigned io;        /* threads using file */
	bool entry_durable; /* its name in the directory */
	bool retired;       /* needs no further I/O */
	bool no_ahead;      /* there was no room for zeros once */
	bool abandoned;     /* by a switch: what it holds above last_lsn is unknown */
};

enum ticket_state { TICKET_QUEUED = 1, TICKET_WRITTEN, TICKET_DONE };
struct ticket_list {
	struct log_ticket *head, **tail;
};

/*
 * A sync wakes those it answers, and most of them have another record in a
 * moment.  The next sync waits for as many as came back in time before, at
 * most as long as a sync takes, or the writers fall into two halves, of which
 * one waits while the other's sync is under way.  Who is alone waits for nobody.
 */
struct log_gather {
	uint64_t until_us;             /* the wait under way ends, or 0 */
	unsigned want;                 /* or as soon as so many wait */
	unsigned left;                 /* who waited already when it began */
	bool timed;                    /* a sleeper wakes up at until_us */
	uint64_t sync_us;              /* what a sync takes: mean of the last few */
	unsigned cap;                  /* so many came back in time when not all did */
	unsigned cap_rounds, cap_next; /* as long as this, and the next one, counts */
};

struct log {
	struct mutex mu;
	/* constant */
	char *dir;
	uint64_t incarnation, salt, sync_interval_us, stall_us, retry_us, mark_us;
	_Atomic uint64_t segment_bytes; /* rises */

	/* records in memory: durable_lsn < ... <= last_lsn, and a few before */
	struct log_chunk *head, *tail, *spare;
	struct log_chunk *wchunk; /* the next byte to write is wchunk->data[woff] */
	size_t woff;
	unsigned spares;
	_Atomic uint64_t retained_bytes;
	uint64_t last_lsn;      /* submitted */
	uint64_t attempted_lsn; /* handed to a write */
	uint64_t written_lsn, durable_lsn;
	uint64_t marked_lsn; /* that the last mark states */

	/* LSNs answered with an error and not yet durably void; rising */
	uint64_t *voids;
	size_t void_count, void_cap;

	/* tickets in LSN order: not yet written; written but waiting for a sync */
	struct ticket_list queued, written;
	size_t outstanding;
	unsigned syncers; /* of them, records to be synced */
	/*
	 * What waits for a sync sleeps on one of these, told at that sync's end: one
	 * call wakes all, before the first of them takes the processor.  Syncs take
	 * them by turns, by their numbers.
	 */
	struct bell rounds[2];
	unsigned round;       /* number of the last sync that was begun */
	uint64_t sync_target; /* the LSN that it is for */
	struct log_gather gather;

	/* roles */
	bool writing, syncing, switching;
	bool no_room; /* there was none for the last write: the next one waits for the sync under way, if there is one */
	uint64_t write_since_us, sync_since_us, switch_since_us; /* start of the system call under way */
	uint64_t gen;
	unsigned inflight; /* threads inside I/O of any generation */

	/* segments, oldest first; the last is active */
	struct log_segment *segments, *active;
	struct log_segment *spent; /* dropped, oldest first: to be used again */
	unsigned spent_count;
	uint64_t next_number;
	bool dropping, reap;

	int refusing; /* 0 or what submit answers */
	uint64_t retry_at_us;
	unsigned failures; /* since the last fresh file */

	bool sync_armed, sync_urgent, mark_armed;
	struct task sync_task, retry_task, mark_task, *rolled;
	struct log_stats stats;
};

/* log_queue.c */
void log_list_init(struct ticket_list *q);
void log_list_push(struct ticket_list *q, struct log_ticket *t);
struct log_ticket *log_list_pop(struct ticket_list *q);
/* Set while the next sync waits for more writers. */
bool log_gathering_locked(struct log *l, uint64_t now_us);
/* A sync that took sync_us has answered so many records that were to be synced. */
void log_gather_begin_locked(struct log *l, unsigned answered, uint64_t now_us, uint64_t sync_us);
void log_finish_locked(struct log *l, struct ticket_list *list, int error); /* removes the head, answers it and wakes it */
void log_finish_later_locked(struct log *l, struct ticket_list *list, struct log_told *w); /* the caller wakes it by log_wake */
void log_kick_locked(struct log *l); /* wakes a sleeper who can take a free role */
/* Sleeps until t is answered, a role is free or a system call counts as stalled.  Returns true if t is answered; the lock is then not held. */
bool log_sleep_locked(struct log *l, struct log_ticket *t);

/* log_mem.c */
/* A chunk with a large record, all but its LSN; the frame is finished by log_mem_add_locked. */
struct log_chunk *log_chunk_new(size_t cap);
/* Gives r the next LSN and keeps its encoding.  large: a chunk whose body is encoded, or NULL. */
int log_mem_add_locked(
	struct log *l, const struct log_record *r, uint32_t body_bytes, struct log_chunk *large, uint32_t large_crc) TFS_MUST;
void log_chunk_put_locked(struct log *l, struct log_chunk *c);
void log_mem_trim_locked(struct log *l); /* gives up what is durable */
void log_mem_fini(struct log *l);
/*
 * What a write starting at segment offset `bytes` takes: at most
 * LOG_GROUP_PIECES pieces, up to the first record past segment_bytes.
 * References each chunk.  Returns the number of pieces.
 */
struct log_group {
	struct slice v[LOG_GROUP_PIECES + 1]; /* room for the padding of a page */
	struct log_chunk *chunk[LOG_GROUP_PIECES];
	unsigned count;
	size_t bytes, end; /* end: offset in the last chunk */
	uint64_t last_lsn;
};
void log_group_take_locked(struct log *l, uint64_t bytes, struct log_group *g);
void log_group_put_locked(struct log *l, struct log_group *g);

/* log_file.c */
/* Makes the file, without a header: of the spent one, if not NULL, which it takes; else empty.  No lock. */
int log_segment_new(
	struct log *l, uint64_t number, uint64_t first_lsn, struct log_segment *spent, struct log_segment **out) TFS_MUST;
int log_segment_header(struct log *l, struct log_segment *s, uint64_t durable_lsn) TFS_MUST;
void log_segment_discard(struct log *l, struct log_segment *s);       /* unlinks, closes, frees; no lock */
void log_segment_append_locked(struct log *l, struct log_segment *s); /* it becomes the active one */
/*
 * Zeros to write behind end: to the end of its page in a reused segment, where
 * that would be read else; and ahead where syncs are frequent and small.
 */
struct slice log_segment_pad(const struct log *l, const struct log_segment *s, uint64_t end);
void log_segment_wrote(struct log_segment *s, uint64_t end, size_t pad); /* moves bytes on */
struct log_segment *log_spent_take_all_locked(struct log *l) TFS_MUST;
void log_spent_discard(struct log *l, struct log_segment *list); /* unlinks and frees them; no lock */
/* Writer's role: a fresh active segment.  Unlocks meanwhile; -ECANCELED when replaced. */
int log_roll_locked(struct log *l, uint64_t gen) TFS_MUST;
void log_reap_locked(struct log *l); /* closes files no longer needed; unlocks meanwhile */

/* log_mark.c */
void log_mark_soon_locked(struct log *l); /* the durable LSN has risen */
void log_mark_run(struct task *t);
/* The clean end: everything is durable, and the zeros ahead are cut off.  The mark and the cut need no sync. */
void log_mark_end(struct log *l);

/* log_switch.c */
/* Raises the generation and tries a fresh file; unlocks meanwhile.  why: for the message. */
void log_switch_locked(struct log *l, int error, const char *why);
bool log_stalled_locked(const struct log *l, uint64_t now_us);
/* A role holder has not come back for stall_us: replaces it. */
void log_takeover_locked(struct log *l);

#endif
