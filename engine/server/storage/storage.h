/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the tablets of a server share, and its storage: workers and memory,
 * the files for the collector, log segments, disk space, the fence, the clock's mark.
 * Any thread may call these.
 */
#ifndef TFS_SERVER_STORAGE_H
#define TFS_SERVER_STORAGE_H

#include "engine/server/tables/set.h"

/* ---- environment.c: what the tablets share: workers, memory, environments ---- */
extern const struct server_part env_part;
void environment_fill(struct server *s);                /* fills the environments; the cache and the log exist */
struct task_pool *environment_misc(struct server *s);   /* the workers of the server's tasks; they may wait for a flush */
struct task_pool *environment_of_log(struct server *s); /* the workers of the log */
struct tablet_env *environment_of(struct server *s, enum kind kind);
/* Changes options of users' tablets. */
void environment_change(struct server *s, size_t memtable_bytes, uint64_t compaction_rate);
/* Returns the memory that all memtables use. */
uint64_t memtables_bytes(const struct server *s);

/* ---- clock.c: the server's clock, and its mark in the lock service ---- */
extern const struct server_part mark_part;
void clock_mark_start(struct server *s); /* reads the mark, and begins to save it.  Call it before tablets are loaded */
/* On 0 no server draws a time of commit up to us for a tablet that it loads later. */
int clock_promise(struct server *s, int64_t us) TFS_MUST;
/* The latest time for which this holds already, which a full disk does not change; 0: there is none. */
int64_t clock_promised(struct server *s);
/* Before tablets are loaded: later times of commit are above all that were promised. */
int clock_keep_promises(struct server *s) TFS_MUST;
/* Appends a clause, with "; " at its end, to the status line "attention" if the clock is not trusted. */
int server_clock_attention(struct server *s, struct buf *out) TFS_MUST;

/* ---- ahead.c: tables whose newest time of commit is far ahead of the clock ---- */
/* Logs a line for the tablet's table, once, if it is. */
void commits_check(struct server *s, struct served_tablet *served);
/* Appends a clause, with "; " at its end, that names the table that is farthest ahead, to the status line "attention". */
int server_commits_attention(struct server *s, struct buf *out) TFS_MUST;

/* ---- files.c: the list of SSTables for the collector ---- */
extern const struct server_part files_part;
/* TS_FILES */
int files_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* A sst_retired_fn; arg: the server. */
void files_retired(void *arg, const char *path);
/* Tells the collector that there may be something to remove. */
void files_notify(struct server *s);
/* Runs a round if files were added to the list since the last call.  Returns false if none were. */
bool files_collect(struct server *s);
/* Returns the smallest incarnation above `above` whose log one of the tablets needs, and that is not this server's; 0: none. */
uint64_t logs_needed_next(struct served_tablet *const *list, unsigned count, uint64_t above);

/* ---- logs.c: removal of this server's log segments ---- */
extern const struct server_part logs_part;
/* Sets fn, which each run of the task calls first, with the size of the store, because it may have grown. */
void logs_on_growth(struct server *s, void (*fn)(struct server *s, uint64_t bytes));
struct task *logs_task(struct server *s); /* for log_options.rolled */
/* Queues the task. */
void logs_soon(struct server *s);
/* Returns the size of the log's first segment; largest: the bound of all segments. */
uint64_t logs_first_segment_bytes(uint64_t largest);
/* Flushes all tablets for which there is space, and drops the segments that are then not needed. */
void logs_drop_all(struct server *s);
/*
 * Flushes all tablets, and removes the log that was written before.  Does nothing if its last call had the same number.
 * -EBUSY: tablets that are split, merged or moved kept a part of it.
 */
int logs_purge(struct server *s, uint64_t number) TFS_MUST;

/* ---- space.c: disk space ---- */
extern const struct server_part space_part;
struct space {
	struct mutex lock;        /* RANK_SPACE; held while the reserve file and the fields below change */
	struct cond reclaimed;    /* space_reclaim has ended */
	struct task task;         /* restores the reserve and frees space while the disk is full */
	struct server *s;         /* constant */
	_Atomic uint64_t reserve; /* size that the reserve file should have; 0: there is no reserve */
	_Atomic uint64_t bytes;   /* size that it has */
	_Atomic bool full;        /* puts are refused */
	_Atomic int64_t credit;   /* bytes that mutations may log before the next call of statvfs */
	uint64_t unfreed;         /* bytes of log and memtables that the last space_reclaim left */
	bool reclaiming;          /* a thread is in space_reclaim */
};

/* Returns true while puts are refused. */
static inline bool space_is_full(const struct server *s)
{
	return atomic_load(&s->space->full);
}
/* Returns true if there is a reserve, and it has its size. */
static inline bool space_is_whole(const struct server *s)
{
	return s->space->reserve && s->space->bytes >= s->space->reserve;
}
/* Makes the reserve.  Call it after the tablets are loaded.  Until then nothing is refused. */
void space_start(struct server *s);
/* Enlarges the reserve if the store has grown to `store` bytes and the disk has space. */
void space_grow(struct server *s, uint64_t store);
/*
 * Call it before a mutation of about `bytes` bytes is logged.  Returns -ENOSPC
 * for a put for which there is no space.  Other uses are never refused; a part
 * of the reserve may be released for them.
 */
int space_admit(struct server *s, enum disk_use use, uint64_t bytes) TFS_MUST;
/*
 * Call it after a mutation failed with -ENOSPC, with the number of earlier such
 * failures as `tries`.  Releases a part of the reserve and waits until the commit
 * log accepts records.  Returns true if the caller should try again.
 */
bool space_retry(struct server *s, enum disk_use use, unsigned tries);
/* Restores the reserve if there is space, and decides again whether the disk is full. */
void space_check(struct server *s);
/* If the disk is full, queues the task that calls space_check. */
void space_check_soon(struct server *s);

/* ---- fence.c: a server on shared storage stops when its session or its log is lost ---- */
/* log_dir: the directory of this server's log.  -ENOENT: the store's FORMAT is missing. */
int fence_new(struct server *s, const char *log_dir, struct fence **out) TFS_MUST;
void fence_watch(struct fence *f); /* starts the periodic checks; the log exists */
/* Returns true if a look-up of the marker has succeeded lately, and the log is not stuck. */
bool fence_storage_answers(const struct fence *f, uint64_t now_us);
void fence_stop(struct fence *f); /* ends the periodic checks; NULL is allowed */
void fence_free(struct fence *f); /* NULL is allowed */
/* log_options.fence and fence_waits; arg: the fence. */
int fence_check(void *arg) TFS_MUST;
bool fence_waits(void *arg);
/*
 * Called before a request is carried out.  -UNREACHABLE: the fence is lost.  -TABLET_MOVED:
 * the server's clock is too far off, or its lease has ended and no new one begins; SYNC and
 * the master's requests get -EAGAIN then.
 */
int fence_begin(struct fence *f, const struct ts_request *q) TFS_MUST;
/* Returns the offset of the server's clock (server_options.clock_offset), or 0 if the server serves with it. */
int64_t fence_clock_offset(const struct fence *f);
/* Called after the request was carried out.  Returns the error of the answer: err, or -ANSWER_LOST if the fence is lost or no new lease begins in time. */
int fence_answer(struct fence *f, const struct ts_request *q, int err) TFS_MUST;
/* Another server takes this server for dead.  NULL is allowed. */
void fence_buried(struct fence *f);

#endif
