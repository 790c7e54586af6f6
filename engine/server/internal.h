/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the server: the types and functions that its files share.  Nothing
 * outside engine/server includes this.  Each file calls only those before it
 * in local.mk.
 *
 * Locks: server.lock (RANK_SERVER) guards the set of tablets, the tables and
 * the open scans.  It is held for look-ups only, never during I/O or a call
 * into a tablet that can block.  load_begin and load_end make a lock that may
 * be held during I/O: one thread at a time loads tablets and sets their
 * schemas.  So no tablet is loaded twice or keeps an older schema than the
 * server has.
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

/* Requests for user tables since the start: traffic.c */
enum request_kind { REQUEST_OTHER, REQUEST_READ, REQUEST_WRITE, REQUEST_BATCH, REQUEST_SCAN, REQUEST_SYNC, REQUESTS };
#define LATENCY_BUCKETS 25 /* bucket i: at most 2^i us; one more for the longer ones */
struct latency {
	_Atomic uint64_t bucket[LATENCY_BUCKETS + 1], sum_us;
};
enum table_traffic { TABLE_READS, TABLE_WRITES, TABLE_WRITTEN_BYTES, TABLE_SCANNED_CELLS, TABLE_TRAFFIC };

/*
 * A table whose schema this server has.  The server and each of its tablets
 * hold a reference.  Fields other than `table` and the atomic ones are
 * guarded by server.lock.  After the table was dropped, its files are removed
 * with the last reference.
 */
struct user_table {
	uint32_t table;
	unsigned refs;
	char name[TFS_NAME_MAX + 1];
	uint64_t generation;
	struct store_schema *schema;
	const struct schema *access; /* the whole schema, which has owners, modes and ACLs */
	unsigned writers;            /* mutations under way */
	unsigned write_blocks;       /* new mutations wait: the master is about to decide whether the table is empty */
	bool move_deferred;          /* a split or merge ended because writes are blocked */
	bool dropped;
	int read_err; /* the table's schema could not be read, so it may have been dropped; 0: it was read */
	_Atomic uint64_t traffic[TABLE_TRAFFIC];
	_Atomic bool salt_waits; /* until the table is empty (master/salt.c) */
};

/* A tablet that this server serves.  Counted; one reference is the set's. */
struct served_tablet {
	struct server *server;
	struct tablet *tablet;
	struct user_table *user_table; /* NULL: a tablet of METADATA */
	uint32_t table;
	enum kind kind;
	bool last;
	struct buf end; /* unless last */

	/* Guarded by the tablet's EDIT lock. */
	struct meta_tablet row;   /* its METADATA row as last written */
	bool row_unknown;         /* the last change failed and may have taken place: the row must be read first */
	int reported_err;         /* of the last change; the same error is not logged again */
	struct buf unknown_split; /* a split at this row failed, and its METADATA row may exist; n 0: none */
	uint64_t root_version;    /* KIND_ROOT: of the root file */

	/* Step 3 of a merge failed: the row of the tablet below, or this tablet's own row, may have been deleted. */
	_Atomic bool unknown_below, unknown_own;
	_Atomic uint64_t split_after_us; /* monotonic: after a failed split the next is not before; tests set it */
	uint64_t merge_after_us;         /* the same for merges; the moving thread's */
	uint64_t made_us;                /* monotonic: when it was loaded or made */
	_Atomic unsigned refs;
	_Atomic bool dropped; /* with its table */
};

/* The server of a tablet, as its status names it. */
#define SERVER_NAME "local"

struct open_scan {
	uint64_t id;
	struct served_tablet *served;
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
	uint64_t metadata_tablet_bytes, merge_after_us, compaction_rate, major_within_us, logs_flush_age_us;
	size_t replay_part_bytes;
	unsigned merge_read_tries;
	struct task_pool *flush[KINDS], *compact, *misc, *log_pool, *move;
	struct tablet_env env[KINDS];
	_Atomic size_t memory[KINDS];
	struct task flush_task, logs_task, moves_task, files_task, resolve_task, clock_task;
	_Atomic int64_t clock_saved_us; /* the mark as written */
	struct space space;
	struct latency traffic[REQUESTS];
	int64_t started_s;                       /* system time of the start */
	uint64_t resolve_wait_us;                /* moves.c: until an unknown outcome is read again */
	struct file_marks *unreferenced;         /* files.c: files without references in the last round */
	bool files_missing;                      /* files.c: an SSTable that METADATA lists does not exist */
	uint64_t aged_lsn, aged_at_us, log_most; /* logs.c */
	_Atomic uint64_t records_lost;           /* replay.c */
	struct store_schema *meta_schema;

	struct mutex lock;
	struct cond changed;        /* a change of loading, moving, write_blocks, writers, a dropped table, space.reclaiming */
	bool loading;               /* load_begin */
	bool moving;                /* a split or merge is under way */
	struct file_ref *file_refs; /* file_refs.c */
	bool file_refs_lost;
	struct served_tablet **set;             /* by table, then end */
	unsigned set_count, set_cap, set_spare; /* set_spare: places of set_reserve */
	struct user_table **tables;             /* by table */
	unsigned table_count;
	char (*refused)[TFS_NAME_MAX + 1]; /* tables whose schema is damaged; constant after the start */
	unsigned refused_count;
	struct open_scan *scans[SCAN_BUCKETS];
	uint64_t next_scan;
	_Atomic bool recovering;
	_Atomic bool closing; /* no background work begins */
};

/* ---- file_refs.c: how many METADATA rows list each SSTable ---- */
void file_refs_add(struct server *s, const struct meta_tablet *m);
void file_refs_remove(struct server *s, const struct meta_tablet *m);
unsigned file_refs_count(struct server *s, const struct tablet_file *f); /* UINT_MAX: unknown, because memory was short */
/* Calls fn for each file, with its key only.  Returns the first non-zero result of fn, or 0. */
typedef int file_ref_fn(void *arg, const struct tablet_file *f);
int file_refs_each(struct server *s, file_ref_fn *fn, void *arg) TFS_MUST;
void file_refs_free(struct server *s);

/* ---- tables.c: user tables, and blocks of their writes ---- */
/* Returns a reference, or -EIDRM. */
int user_table_get(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
void user_table_put(struct server *s, struct user_table *u);
struct store_schema *user_table_schema(struct server *s, struct user_table *u); /* a reference */
bool user_table_dropped(struct server *s, struct user_table *u);
/* The index of the table in server.tables, or where it would be inserted.  The caller of any _locked holds server.lock. */
unsigned user_table_at_locked(const struct server *s, uint32_t table);
struct user_table *user_table_find_locked(const struct server *s, uint32_t table); /* NULL: none */
int user_table_add_locked(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
/* After it returns no mutation of the table is under way until as many releases.  -ENOENT. */
int user_table_block_writes(struct server *s, uint32_t table) TFS_MUST;
void user_table_unblock_writes(struct server *s, uint32_t table);
/* Waits until the table's writes are not blocked, or the table was dropped. */
void user_table_wait_for_unblock(struct server *s, uint32_t table);
void user_table_write_end(struct server *s, struct user_table *u);

/* ---- access.c: users, whom the owner of the store lets read and write parts of a table ---- */
/*
 * Each returns 0 if the user of the request may do it, -EACCES; -EINVAL: there
 * is no such family.  They are called for requests with a user only, and tablets of user tables.
 */
int access_family(struct served_tablet *served, const struct ts_request *q, uint16_t family, unsigned may) TFS_MUST;
int access_ops(struct served_tablet *served, const struct ts_request *q,
	struct op_result *results) TFS_MUST; /* marks the operation that is the cause */
/* The user is the owner of the table, or root. */
int access_owner(struct served_tablet *served, const struct ts_request *q) TFS_MUST;
/*
 * *ids: the families that the user may read, of those in `families` (count 0:
 * of all), in their order; freed with free().  -EACCES: `families` has others.
 */
int access_readable(struct served_tablet *served, const struct ts_request *q, const uint16_t *families, uint32_t count,
	uint16_t **ids, uint32_t *id_count) TFS_MUST;

/* ---- set.c: the set of tablets ---- */
/* A reference to the tablet of the set that holds (table, row); -EREMCHG when none does. */
int served_find_loaded(struct server *s, uint32_t table, struct slice row, struct served_tablet **out) TFS_MUST;
/* References to all tablets of a table (0: of all tables), in order.  served_list_put drops them and frees the array. */
int served_list(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count) TFS_MUST;
void served_list_put(struct served_tablet **list, unsigned count);
void served_put(struct served_tablet *served);
/* Frees a tablet that was never in the set.  NULL is allowed. */
void served_discard(struct served_tablet *served);
/* Allocates places for so many more tablets. */
int set_reserve(struct server *s, unsigned more) TFS_MUST;
/* -EEXIST, -EIDRM: the table was dropped. */
int set_insert(struct server *s, struct served_tablet *served) TFS_MUST;
/* At one instant `with` replace those of `old` that are in the set; if none is, the table has been dropped. */
void set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);
/* Takes the table's tablets out of the set; their files are removed after the last reader ended. */
void served_drop_table(struct server *s, uint32_t table);
void served_drop_all(struct server *s);
/* Around loading tablets and setting their schemas. */
void load_begin(struct server *s);
void load_end(struct server *s);
/* Sums over all tablets. */
struct served_sums {
	uint64_t disk_bytes, memory_bytes, user_files;
	unsigned tablets, user_tablets;
};
int served_sum(struct server *s, struct served_sums *out) TFS_MUST;

/* Queues the task, unless no background work may begin now. */
static inline void server_queue(struct server *s, struct task *t)
{
	if (!s->no_background && !s->recovering && !s->closing)
		task_queue(t);
}

/* ---- replay.c: the logs of dead incarnations ---- */
struct needed_logs { /* each with the LSN from which it is needed */
	struct dead_log *v;
	unsigned count;
};
/* Adds the logs that the row's redo set names.  Before the tablet is made, because its background work may change the row. */
int replay_need(struct needed_logs *n, const struct meta_tablet *m) TFS_MUST;
/* Replays the logs added since the last level into the tablets of this kind.  *why as server_recover's. */
int replay_level(struct server *s, enum kind kind, struct needed_logs *n, char **why) TFS_MUST;
void replay_needed_fini(struct needed_logs *n);

/* ---- load.c ---- */
/* A reference to the tablet that holds (table, row); loads the tablets of a table made since the start.  -EREMCHG, -EIDRM. */
int served_find(struct server *s, uint32_t table, struct slice row, struct served_tablet **out) TFS_MUST;
/* Makes a tablet from its METADATA row, which it takes: *row is {0} on 0. */
int served_new(
	struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct served_tablet **out) TFS_MUST;
/* The same, and adds it to the set.  Between load_begin and load_end. */
int served_load(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version) TFS_MUST;
/* set_replace of the tablets of a split or merge.  Between load_begin and load_end. */
void served_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);
/* Loading the tablets of METADATA, or those of users. */
struct load_level {
	struct server *s;
	enum kind kind;
	struct buf begin; /* where the next tablet of `table` begins */
	uint32_t table;
	unsigned loaded;
	struct needed_logs *needed; /* at the start: of all levels */
	struct buf *orphans;        /* at the start: METADATA rows of tables partly made or partly dropped */
	unsigned orphan_count;
	char **why; /* at the start */
};
/* Loads the tablets whose METADATA rows are in [from, to). */
int load_rows(struct load_level *l, struct slice from, struct slice to) TFS_MUST;
/* Checks that the row, which earlier incarnations wrote, names only those.  -EBADMSG and *why. */
int load_check_past(const struct server *s, const struct meta_tablet *m, char **why) TFS_MUST;

/* ---- schemas.c ---- */
/* *why as server_recover's. */
int schemas_load(struct server *s, char **why) TFS_MUST;
/* user_table_get; first reads the schemas again if the table is not there and one could not be read. */
int user_table_find(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
/* A read named a family that is not in the schema.  Returns true if the schema was older than generation and has been read again. */
bool user_table_read_again(struct server *s, struct user_table *u, uint64_t generation);
/*
 * Begins a mutation of the table; user_table_write_end ends it.  Waits while
 * writes are blocked.  *schema (a reference) is the table's until that end; it is
 * read again first if it is older than generation.  ON_BLOCK_RETURN: while
 * writes are blocked it returns WRITES_BLOCKED and begins nothing; the end of
 * the block queues splits and merges.  0, WRITES_BLOCKED, -EIDRM, -errno.
 */
enum on_block { ON_BLOCK_WAIT, ON_BLOCK_RETURN };
enum { WRITES_BLOCKED = 1 };
int user_table_write_begin(
	struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, struct store_schema **schema) TFS_MUST;
/* Returns 0 if the lock service has dropped/ID of the table, else -ENOENT or -errno. */
int table_drop_noted(struct server *s, uint32_t table) TFS_MUST;
void schemas_free(struct server *s);

/* ---- traffic.c ---- */
/* Around a request: begin returns the time, or 0 if the request is not timed. */
uint64_t traffic_begin(const struct ts_request *q);
void traffic_end(struct server *s, const struct ts_request *q, uint64_t since_us);
void traffic_table(struct user_table *u, enum table_traffic what, uint64_t n); /* u may be NULL: METADATA's */
void traffic_table_read(struct user_table *u);
int traffic_status(struct server *s, enum request_kind kind, struct buf *out) TFS_MUST; /* "12, 50 % within 16 us, ..." */
int traffic_metrics(struct server *s, struct buf *out) TFS_MUST;

/* ---- split.c, merge.c: the durable steps; called by moves.c ---- */
/* Splits v[0] at a row.  -EEXIST: a tablet begins there. */
int split_tablet(struct server *s, struct served_tablet *const *v, struct slice at) TFS_MUST;
/* Merges v[0] with v[1], its upper neighbour. */
int merge_tablets(struct server *s, struct served_tablet *const *v, struct slice at) TFS_MUST;
/* Ends a merge after METADATA was found to have no row of v[0]. */
int merge_finish(struct server *s, struct served_tablet *const *v, struct slice at) TFS_MUST;

/* ---- moves.c ---- */
/* Splits the tablet that holds row, at row.  -EEXIST: a tablet begins there. */
int moves_split(struct server *s, uint32_t table, struct slice row) TFS_MUST;
/* Merges the tablet that holds row with the next.  -ENOENT: there is none. */
int moves_merge(struct server *s, uint32_t table, struct slice row) TFS_MUST;
void moves_task(struct task *t);         /* splits large tablets, merges small ones */
void moves_resolve_task(struct task *t); /* resolves merges whose outcome is unknown */

/* ---- metadata_edits.c: changes of a tablet's METADATA row.  The caller holds EDIT ---- */
/* Resolves changes, splits and merges of the row whose outcome is unknown. */
int row_resolve(struct served_tablet *served) TFS_MUST;
/* Returns 1 if METADATA has a row of the tablet that ends at `end`, 0 if not, -errno. */
int row_exists(struct server *s, uint32_t table, struct slice end) TFS_MUST;
/* Mutates the row, with a check that its owner is unchanged.  Writes `own` as the owner if another one is stored. */
int row_mutate(struct served_tablet *served, uint64_t own, const struct op *ops, unsigned count) TFS_MUST;
/* Calls row_resolve.  If the tablet is a merged one whose row still has a merge column, completes step 4 of that merge (merge.c). */
int row_fold(struct served_tablet *served) TFS_MUST;
/* The tablets' commit callback; arg: the served tablet. */
int row_commit(void *arg, struct tablet *t, const struct tablet_edit *e) TFS_MUST;

/* ---- logs.c: removal of log segments and logs ---- */
/* Parses the decimal number of a file name, up to `end`, without leading zeros.  Returns false for other text. */
bool number_parse(const char *text, char end, uint64_t *n, const char **rest);
void logs_task(struct task *t);
/* The size of the log's first segment if none may be larger than this. */
uint64_t logs_first_segment_bytes(uint64_t largest);
/* Flushes all tablets for which there is space and drops the log. */
void logs_drop_all(struct server *s);
/* Removes the logs of dead incarnations that no redo set names. */
int logs_remove_dead(struct server *s) TFS_MUST;

/* ---- clock.c ---- */
/* Before tablets are loaded: reads the mark.  gap_us 0: the default. */
void server_clock_start(struct server *s, int64_t gap_us);
void clock_task_run(struct task *t);
/* Appends a line to the status while the clock is not trusted. */
int server_clock_attention(struct server *s, struct buf *out) TFS_MUST;

/* ---- files.c: removal of SSTables without references ---- */
int files_sweep_at_start(struct server *s, char **why) TFS_MUST; /* *why as server_recover's */
/* Removes the files of a dropped table. */
void files_remove_table(struct server *s, uint32_t table);
/* One round of mark and sweep, by one thread at a time.  A file without references in two rounds is removed. */
int files_sweep(struct server *s) TFS_MUST;
void files_task(struct task *t);
void files_sweep_soon(struct server *s); /* a file may have lost its references */
void files_free(struct server *s);

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
/* tablet_env.space.  Returns true if a file of so many bytes may be written for the use. */
bool space_get(struct server *s, enum disk_use use, uint64_t bytes);
/* Releases more than so many bytes of the reserve, if the use may take them.  Returns false if it released none. */
bool space_release(struct server *s, enum disk_use use, uint64_t bytes);
/* Restores the reserve if there is space, and decides anew whether the disk is full.  _soon: by the task. */
void space_check(struct server *s);
void space_check_soon(struct server *s);
/* Memory of all memtables. */
uint64_t memtables_bytes(const struct server *s);

#endif
