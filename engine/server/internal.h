/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the server: what its files share.  Nothing outside engine/server
 * includes this.
 *
 * Locks: server.lock (RANK_SERVER) guards the set of tablets, the known
 * schemas and the open scans; it is held for look-ups only, never over I/O
 * or a call into a tablet that can block.  server.loading is a lock too, one
 * that may be held over I/O: tablets are loaded, and schemas handed to them,
 * by one thread at a time, so that no tablet is loaded twice nor left with an
 * older schema than the server knows.
 */
#ifndef TFS_SERVER_INTERNAL_H
#define TFS_SERVER_INTERNAL_H

#include "engine/compact/compact.h"
#include "engine/meta/meta.h"
#include "engine/schema/schema.h"
#include "engine/server/server.h"
#include "engine/tablet/tablet.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum kind { KIND_ROOT, KIND_META, KIND_USER, KINDS };

/*
 * A table whose schema this server knows, counted: by the server, by each of
 * its tablets.  All fields but the first are guarded by server.lock.  Its
 * files go with the last reference once the table has gone.
 */
/* Requests for user tables since the start: traffic.c */
enum request_kind { REQUEST_READ, REQUEST_WRITE, REQUEST_BATCH, REQUEST_SCAN, REQUEST_SYNC, REQUESTS };
#define LATENCY_BUCKETS 25 /* bucket i: at most 2^i us; one more for the longer ones */
struct latency {
	_Atomic uint64_t bucket[LATENCY_BUCKETS + 1], sum_us;
};
enum table_traffic { TABLE_READS, TABLE_WRITES, TABLE_WRITTEN_BYTES, TABLE_SCANNED_CELLS, TABLE_TRAFFIC };

struct known {
	uint32_t table;
	unsigned refs;
	char name[TFS_NAME_MAX + 1];
	uint64_t generation;
	struct store_schema *schema;
	unsigned writers; /* mutations under way */
	unsigned holds;   /* new ones wait: the master is about to judge what the table holds */
	bool left_off;    /* a split or merge has, since */
	bool gone;
	int doubt; /* the error of reading whether the table is still there, else 0 */
	_Atomic uint64_t traffic[TABLE_TRAFFIC];
	_Atomic bool salt_waits; /* until the table is empty (master/salt.c) */
};

/* A tablet that this server serves, counted. */
struct held {
	struct server *server;
	struct tablet *tablet;
	struct known *known; /* KIND_USER */
	uint32_t table;
	enum kind kind;
	bool last;
	struct buf end;                      /* unless last */
	struct meta_tablet row;              /* its METADATA row as last written; guarded by the tablet's EDIT lock, as is */
	bool in_doubt;                       /* a change failed that may have taken place: read the row again first */
	int told;                            /* the error of the last change, if it failed: said once; EDIT's too */
	struct buf split_doubt;              /* under EDIT: a split at this row failed, and its row may be there; n 0: none */
	_Atomic bool doubt_below, doubt_own; /* a merge's step 3 failed: the row of the tablet below, or our own, may have gone */
	_Atomic uint64_t split_after_us;     /* it is not to be tried before; tests are impatient */
	uint64_t merge_after_us;             /* the same, and the splitting thread's */
	uint64_t made_us;                    /* when it was loaded or made, monotonic */
	uint64_t root_version;               /* KIND_ROOT: of the root file */
	_Atomic unsigned refs;               /* one is the set's */
	_Atomic bool dropped;                /* the table has gone */
};

/* What tablets say of who serves them. */
#define SERVER_NAME "local"

struct open_scan {
	uint64_t id;
	struct held *held;
	struct tablet_scan *scan;
	struct open_scan *next;
};
#define SCAN_BUCKETS 64

/* Disk space: space.c */
struct space {
	struct mutex lock;        /* held while the reserve file and the fields below change */
	struct task task;         /* restores the reserve and frees space while the disk is full */
	_Atomic uint64_t reserve; /* size of the whole reserve; 0: there is none */
	_Atomic uint64_t bytes;   /* its size now */
	_Atomic bool full;        /* puts are refused */
	_Atomic int64_t credit;   /* bytes that mutations may log before the next look at the disk */
	_Atomic uint64_t unfreed; /* bytes of log and memtables that the last attempt to free them left */
	bool reclaiming;          /* an attempt is under way; guarded by server.lock */
};

struct server {
	struct tablet_service service; /* first */
	struct tablet_service *metadata;
	struct lock_service *locks;
	char *data_dir;
	uint64_t incarnation;
	bool sync, no_background;
	size_t memtable_bytes;
	uint64_t log_segment_bytes; /* at most */
	struct clock *clock, *own_clock;
	struct sst_cache *cache;
	struct log *log;
	void (*table_dropped)(struct server *s, uint32_t table); /* its last tablet was freed: files.c */
	uint64_t metadata_tablet_bytes, merge_after_us, compaction_rate, major_within_us, retire_age_us;
	size_t replay_stretch_bytes;
	unsigned merge_ask_times;
	struct task_pool *flush[KINDS], *compact, *misc, *log_pool, *move;
	struct tablet_env env[KINDS];
	_Atomic size_t memory[KINDS];
	struct task flush_largest, retire, split, sweep, doubt, clock_task;
	_Atomic int64_t clock_saved_us; /* the mark as written */
	struct space space;
	struct latency traffic[REQUESTS];
	int64_t started_s;                       /* system time of the start */
	uint64_t doubt_wait_us;                  /* merge.c's, the moving thread's */
	struct named *suspects;                  /* files.c's, of the last round */
	bool files_missing;                      /* files.c's: a listed SSTable does not exist */
	uint64_t aged_lsn, aged_at_us, log_most; /* logs.c's */
	_Atomic uint64_t records_lost;           /* replay.c's */
	struct store_schema *meta_schema;

	struct mutex lock;
	struct cond changed; /* loading, moving, holds, writers, tables gone */
	bool loading;
	bool moving;           /* a split or merge is under way */
	struct listed *listed; /* file_refs.c */
	bool listed_lost;
	struct held **set;                      /* by table, then end */
	unsigned set_count, set_cap, set_spare; /* spare: kept for whoever must not fail */
	struct known **known;                   /* by table */
	unsigned known_count, known_cap;
	char (*refused)[TFS_NAME_MAX + 1]; /* tables whose schema is damaged; not changed after the start */
	unsigned refused_count;
	struct open_scan *scans[SCAN_BUCKETS];
	uint64_t next_scan;
	_Atomic bool recovering;
	_Atomic bool closing; /* no background work is begun any more */
};

/* ---- set.c: the set of tablets ---- */
/* A reference to the tablet of the set that holds (table, row); -EREMCHG when none does. */
int held_find_loaded(struct server *s, uint32_t table, struct slice row, struct held **out) TFS_MUST;
/* References to all tablets of a table (0: of all tables), in order; put each, free the array. */
int held_list(struct server *s, uint32_t table, struct held ***out, unsigned *count) TFS_MUST;
void held_put(struct held *h);
/* Frees a tablet that was never in the set.  NULL is allowed. */
void held_abandon(struct held *h);
/* Allocates places for so many more tablets. */
int set_reserve(struct server *s, unsigned more) TFS_MUST;
/* -EEXIST, -EIDRM: the table was dropped. */
int set_insert(struct server *s, struct held *h) TFS_MUST;
/* At one instant `with` replace those of `old` that are in the set; if none is, the table has been dropped. */
void set_replace(struct server *s, struct held *const *old, unsigned old_count, struct held *const *with, unsigned count);
/* Takes the table's tablets out of the set; their files are removed after the last reader ended. */
void held_drop_table(struct server *s, uint32_t table);
void held_drop_all(struct server *s);
/* Around loading tablets and setting their schemas. */
void load_begin(struct server *s);
void load_end(struct server *s);
/* Bytes of all SSTables that tablets use. */
int server_tables_bytes(struct server *s, uint64_t *bytes) TFS_MUST;

/* Replaces *why, one line for whoever opens the store. */
__attribute__((format(printf, 2, 3))) static inline void why_say(char **why, const char *fmt, ...)
{
	va_list ap;

	free(*why);
	va_start(ap, fmt);
	if (vasprintf(why, fmt, ap) < 0)
		*why = NULL;
	va_end(ap);
}

/* ---- replay.c: the logs of dead incarnations ---- */
struct needed { /* which of them, each from where on */
	struct dead_log *v;
	unsigned count, cap;
};
/* What the redo set of a row of the level that is being loaded names.  Before the tablet is made, whose background work may change its row. */
int replay_need(struct needed *n, const struct meta_tablet *m) TFS_MUST;
/* The tablets of this kind take in what was needed since the last level. *why as server_recover's. */
int replay_level(struct server *s, enum kind kind, struct needed *n, char **why) TFS_MUST;
void replay_needed_fini(struct needed *n);

/* ---- load.c ---- */
/* A reference to the tablet that holds (table, row); loads the tablets of a table made since the start.  -EREMCHG, -EIDRM. */
int held_find(struct server *s, uint32_t table, struct slice row, struct held **out) TFS_MUST;
/* Makes a tablet from its METADATA row, which it takes: *row is {0} on 0. */
int held_new(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct held **out) TFS_MUST;
/* The same, and adds it to the set.  Between load_begin and load_end. */
int held_load(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version) TFS_MUST;
/* set_replace of the tablets of a split or merge.  Between load_begin and load_end. */
void held_replace(struct server *s, struct held *const *old, unsigned old_count, struct held *const *with, unsigned count);
/* Loading the tablets of METADATA, or those of users. */
struct load_level {
	struct server *s;
	enum kind kind;
	struct buf begin; /* where the next tablet of `table` begins */
	uint32_t table;
	unsigned loaded;
	struct needed *needed; /* at the start: of all levels */
	struct buf *orphans;   /* METADATA rows of tables partly made or partly dropped */
	unsigned orphan_count;
	char **why; /* at the start */
};
/* Loads the tablets whose METADATA rows are in [from, to). */
int load_rows(struct load_level *l, struct slice from, struct slice to) TFS_MUST;
/* Does the row, written by earlier incarnations, name only those?  -EBADMSG and *why. */
int load_check_past(const struct server *s, const struct meta_tablet *m, char **why) TFS_MUST;

/* ---- tables.c ---- */
/* A reference to the table; -EIDRM. */
int known_get(struct server *s, uint32_t table, struct known **out) TFS_MUST;
void known_put(struct server *s, struct known *k);
struct store_schema *known_schema(struct server *s, struct known *k); /* a reference */
bool known_gone(struct server *s, struct known *k);
/* Where the table is in server.known, or would be inserted.  The caller holds server.lock, as of all _locked. */
unsigned known_at_locked(const struct server *s, uint32_t table);
struct known *known_find_locked(const struct server *s, uint32_t table); /* NULL: none */
int known_add_locked(struct server *s, uint32_t table, struct known **out) TFS_MUST;
/* From the return of schemas_hold to as many schemas_let_go no mutation of the table is under way.  -ENOENT. */
int schemas_hold(struct server *s, uint32_t table) TFS_MUST;
void schemas_let_go(struct server *s, uint32_t table);
/* Waits until the table's writes are not held, or the table was dropped. */
void schemas_wait(struct server *s, uint32_t table);
void known_write_end(struct server *s, struct known *k);

/* ---- schemas.c ---- */
/* *why as server_recover's. */
int schemas_load(struct server *s, char **why) TFS_MUST;
/* known_get; first reads the schemas again if the table is not there and one could not be read. */
int known_find(struct server *s, uint32_t table, struct known **out) TFS_MUST;
/* A read named a family that is not in the schema.  Returns true if the schema was older than generation and has been read again. */
bool known_look_again(struct server *s, struct known *k, uint64_t generation);
/*
 * Begins a mutation of the table, to be ended with known_write_end.  Waits
 * while writes are held.  *schema (a reference) stays the table's until the
 * end; it is read again if it is older than generation.  -EIDRM: the table
 * was dropped.  HOLD_LEAVE: returns 1, and nothing is begun, while writes are
 * held; the end of the hold queues splits and merges again.
 */
enum when_held { HOLD_WAIT, HOLD_LEAVE };
int known_write_begin(
	struct server *s, struct known *k, uint64_t generation, enum when_held held, struct store_schema **schema) TFS_MUST;
void schemas_free(struct server *s);

/* ---- file_refs.c: which files METADATA's rows list ---- */
void listed_add(struct server *s, const struct meta_tablet *m);
void listed_remove(struct server *s, const struct meta_tablet *m);
unsigned listed_rows(struct server *s, const struct tablet_file *f); /* how many do; UINT_MAX: not known */
/* fn for each of them, of whose key alone is set; non-zero stops and is passed on. */
typedef int listed_fn(void *arg, const struct tablet_file *f);
int listed_each(struct server *s, listed_fn *fn, void *arg) TFS_MUST;
void listed_free(struct server *s);

/* ---- traffic.c ---- */
/* Around a request: begin returns the time, or 0 if the request is not timed. */
uint64_t traffic_begin(const struct ts_request *q);
void traffic_end(struct server *s, const struct ts_request *q, uint64_t since_us);
void traffic_table(struct known *k, enum table_traffic what, uint64_t n); /* k may be NULL: METADATA's */
void traffic_table_read(struct known *k);
int traffic_status(struct server *s, enum request_kind kind, struct buf *out) TFS_MUST; /* "12, 50 % within 16 us, ..." */
int traffic_metrics(struct server *s, struct buf *out) TFS_MUST;

/* ---- split.c, merge.c: the durable steps; called by moves.c ---- */
/* Splits v[0] at a row.  -EEXIST: a tablet begins there. */
int split_tablet(struct server *s, struct held *const *v, struct slice at) TFS_MUST;
/* Merges v[0] with v[1], its upper neighbour. */
int merge_tablets(struct server *s, struct held *const *v, struct slice at) TFS_MUST;
/* Ends a merge after METADATA was found to have no row of v[0]. */
int merge_finish(struct server *s, struct held *const *v, struct slice at) TFS_MUST;

/* ---- moves.c ---- */
/* Splits the tablet that holds row, at row.  -EEXIST: a tablet begins there. */
int split_at(struct server *s, uint32_t table, struct slice row) TFS_MUST;
/* Merges the tablet that holds row with the next.  -ENOENT: there is none. */
int merge_at(struct server *s, uint32_t table, struct slice row) TFS_MUST;
void split_run(struct task *t);       /* splits large tablets, merges small ones */
void merge_doubt_run(struct task *t); /* resolves merges whose outcome is unknown */

/* ---- metadata_edits.c: the commit callback ---- */
/* What is in doubt of the tablet's row is settled.  The caller has EDIT. */
int edit_settle(struct held *h) TFS_MUST;
/* Is there a row of the tablet that ends at `end`?  1 or 0; what keeps us from knowing. */
int edit_is_there(struct server *s, uint32_t table, struct slice end) TFS_MUST;
/* And the row says by itself what is the tablet's: another split or merge would lose what its merge column still has. */
int edit_fold(struct held *h) TFS_MUST;
int edit_commit(void *arg, struct tablet *t, const struct tablet_edit *e) TFS_MUST;

/* ---- logs.c: log segments that nobody needs ---- */
/* A decimal number as we write it, "0" and up, all of the text or up to `end`: what looks otherwise is nobody's file of ours. */
bool number_parse(const char *text, char end, uint64_t *n, const char **rest);
void retire_run(struct task *t);
/* Of the log's first segment, where none is to be larger than this. */
uint64_t retire_first_segment_bytes(uint64_t largest);
/* Flushes all tablets for which there is space and drops the log. */
void retire_all(struct server *s);
/* Removes the log directories of dead incarnations that no redo set names. */
int retire_dead_logs(struct server *s) TFS_MUST;

/* ---- clock.c ---- */
/* Before tablets are loaded: reads the mark.  gap_us 0: the default. */
void server_clock_start(struct server *s, int64_t gap_us);
void clock_run(struct task *t);
/* For the status while the clock is not believed. */
int server_clock_attention(struct server *s, struct buf *out) TFS_MUST;

/* ---- files.c ---- */
int sweep_at_start(struct server *s, char **why) TFS_MUST; /* *why as server_recover's */
void sweep_table(struct server *s, uint32_t table);
/* One round of mark and sweep; one thread at a time.  What two in a row find unreferenced goes. */
int sweep_round(struct server *s) TFS_MUST;
void sweep_run(struct task *t);
void sweep_soon(struct server *s); /* there may be a file that nothing refers to */
void sweep_free(struct server *s);

/* ---- scans.c ---- */
int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
void scans_free(struct server *s);

/* ---- space.c ---- */
/* After the tablets are loaded: makes the reserve.  Before it nothing is refused. */
void space_start(struct server *s);
/* Enlarges the reserve of a store that has grown to `store` bytes, if there is space for it. */
void space_grow(struct server *s, uint64_t store);
/*
 * Before a mutation of so many bytes is logged.  Returns 0 or, for a put,
 * -ENOSPC.  Other uses are not refused: they may have to release a part of
 * the reserve first.
 */
int space_admit(struct server *s, enum disk_use use, uint64_t bytes) TFS_MUST;
/*
 * After the write of a mutation failed with -ENOSPC for the tries-th time
 * (from 0): releases a part of the reserve and waits until the commit log
 * accepts records.  Returns true if the caller should try again.
 */
bool space_retry(struct server *s, enum disk_use use, unsigned tries);
/* tablet_env.space: may a compaction write so many bytes? */
bool space_get(struct server *s, enum disk_use use, uint64_t bytes);
/* Releases more than so many bytes of the reserve, if the use may take them.  Returns false if it released none. */
bool space_release(struct server *s, enum disk_use use, uint64_t bytes);
/* Restores the reserve if there is space, and decides anew whether the disk is full.  _soon: by the task. */
void space_check(struct server *s);
void space_check_soon(struct server *s);

#endif
