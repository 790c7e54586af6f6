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

#include <stdatomic.h>

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
	uint64_t metadata_tablet_bytes, merge_after_us, compaction_rate, major_within_us;
	struct task_pool *flush[KINDS], *compact, *misc, *log_pool, *move;
	struct tablet_env env[KINDS];
	_Atomic size_t memory[KINDS];
	struct task flush_largest, retire, split, sweep, doubt, clock_task;
	_Atomic int64_t clock_saved_us; /* the mark as written */
	struct space space;
	struct latency traffic[REQUESTS];
	int64_t started_s;                       /* system time of the start */
	uint64_t doubt_wait_us;                  /* merge.c's, the moving thread's */
	struct named *suspects;                  /* sweep.c's, of the last round */
	bool files_missing;                      /* sweep.c's: a listed SSTable does not exist */
	uint64_t aged_lsn, aged_at_us, log_most; /* retire.c's */
	_Atomic uint64_t records_lost;           /* replay.c's */
	struct store_schema *meta_schema;

	struct mutex lock;
	struct cond changed; /* loading, moving, holds, writers, tables gone */
	bool loading;
	bool moving;           /* a split or merge is under way */
	struct listed *listed; /* listed.c */
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

/* ---- tablets.c: the set ---- */
/* A reference to the tablet that holds (table, row); -EREMCHG when none does.  _loaded: among those in the set. */
int held_find_loaded(struct server *s, uint32_t table, struct slice row, struct held **out) TFS_MUST;
int held_find(struct server *s, uint32_t table, struct slice row, struct held **out) TFS_MUST;
/* References to all tablets of a table (0: all of all), in order; put each, free the array. */
int held_list(struct server *s, uint32_t table, struct held ***out, unsigned *count) TFS_MUST;
void held_put(struct held *h);
/* Makes a tablet from its METADATA row (taken apart: *row is left {0}). */
int held_new(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct held **out) TFS_MUST;
/* One that never came into the set.  NULL is allowed. */
void held_abandon(struct held *h);
/* Room in the set for so many more. */
int set_reserve(struct server *s, unsigned more) TFS_MUST;
/* At one instant `with` take the place of those of `old` that are still there; if none is, the table has been dropped. */
void set_replace(struct server *s, struct held *const *old, unsigned old_count, struct held *const *with, unsigned count);
/* The same, and adds it to the set. */
int held_load(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version) TFS_MUST; /* load_begin */
/* Takes the table's tablets out of the set; their files go when the last reader has. */
void held_drop_table(struct server *s, uint32_t table);
void held_drop_all(struct server *s);

/* ---- recover.c ---- */
/* One line for whoever opens the store, instead of the one that is there. */
void why_say(char **why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Loads the tablets of a table made since the start; those that are there stay. */
int held_load_table(struct server *s, uint32_t table) TFS_MUST;

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
extern size_t replay_stretch_bytes; /* sorted at a time, and there are two; tests make it small */

/* Around loading tablets and handing schemas out. */
void load_begin(struct server *s);
void load_end(struct server *s);

/* ---- schemas.c ---- */
/* *why as server_recover's. */
int schemas_load(struct server *s, char **why) TFS_MUST;
/* A reference to what is known of the table; -EIDRM. */
int known_get(struct server *s, uint32_t table, struct known **out) TFS_MUST;
void known_put(struct server *s, struct known *k);
struct store_schema *known_schema(struct server *s, struct known *k);
bool known_gone(struct server *s, struct known *k);
/* The same; first reads the schemas again if the table is not known and one could not be read. */
int known_find(struct server *s, uint32_t table, struct known **out) TFS_MUST;
/* A read named a family that is unknown here: true when the schema was older than generation and has been looked at again. */
bool known_look_again(struct server *s, struct known *k, uint64_t generation);
/*
 * Around a mutation of the table: waits while writes are held, gives the
 * schema (a reference) that stays the table's until the end, refreshed when
 * older than generation.  -EIDRM: the table has gone.  HOLD_LEAVE: 1, and
 * nothing begun, while writes are held; who has let go asks for splits and merges again.
 */
enum when_held { HOLD_WAIT, HOLD_LEAVE };
int known_write_begin(
	struct server *s, struct known *k, uint64_t generation, enum when_held held, struct store_schema **schema) TFS_MUST;
void known_write_end(struct server *s, struct known *k);
/* From the return of hold to as many let_go, no mutation of the table is under way. -ENOENT. */
int schemas_hold(struct server *s, uint32_t table) TFS_MUST;
void schemas_let_go(struct server *s, uint32_t table);
/* Until nobody holds the table's writes, or the table has gone. */
void schemas_wait(struct server *s, uint32_t table);
void schemas_free(struct server *s);

/* ---- listed.c: which files METADATA's rows list ---- */
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

/* ---- split.c ---- */
/* One split or merge at a time, and nothing else of either. */
void moving_begin(struct server *s);
void moving_end(struct server *s);
/* Splits the tablet that holds row, at row.  -EEXIST: a tablet begins there. */
int split_at(struct server *s, uint32_t table, struct slice row) TFS_MUST;
uint64_t split_size(struct server *s, struct held *h); /* past so many bytes it is split */
/* ---- merge.c ---- */
/* Makes one of the tablet that holds row and the next.  -ENOENT: there is none. */
int merge_at(struct server *s, uint32_t table, struct slice row) TFS_MUST;
/* The same for two that are neighbours; between moving_begin and moving_end.  1: the table's writes are held. */
int merge_held(struct server *s, struct held *lower, struct held *upper) TFS_MUST;
extern unsigned merge_ask_times; /* how often it asks what became of its third step before it lets go; tests ask less */
/* Merges in doubt are asked for again, and ended. */
void merge_doubt_run(struct task *t);
void merge_doubt_soon(struct server *s); /* an answer is to be had */
void split_run(struct task *t);

/* ---- edit.c: the commit callbacks ---- */
/* What is in doubt of the tablet's row is settled.  The caller has EDIT. */
int edit_settle(struct held *h) TFS_MUST;
/* Is there a row of the tablet that ends at `end`?  1 or 0; what keeps us from knowing. */
int edit_is_there(struct server *s, uint32_t table, struct slice end) TFS_MUST;
/* And the row says by itself what is the tablet's: another split or merge would lose what its merge column still has. */
int edit_fold(struct held *h) TFS_MUST;
int edit_commit(void *arg, struct tablet *t, const struct tablet_edit *e) TFS_MUST;

/* ---- retire.c: log segments that nobody needs ---- */
/* A decimal number as we write it, "0" and up, all of the text or up to `end`: what looks otherwise is nobody's file of ours. */
bool number_parse(const char *text, char end, uint64_t *n, const char **rest);
void retire_run(struct task *t);
extern uint64_t retire_age_us; /* what is older is flushed; tests make it short */
/* Of all SSTables that tablets use. */
int server_tables_bytes(struct server *s, uint64_t *bytes) TFS_MUST;
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

/* ---- sweep.c ---- */
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
