/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and functions that the files of engine/server share.  Only they and
 * tests include this.  Each file calls only those before it in local.mk.
 *
 * Locks: server.lock (RANK_SERVER) guards the set of tablets, the tables and
 * the open scans.  A thread holds it for look-ups only, never during I/O or a
 * call into a tablet that can block.
 * Between load_begin and load_end a thread loads tablets of one kind, and other threads
 * that want to load some of this kind wait.  I/O is permitted there.  So no tablet is
 * loaded twice.
 * set_begin and set_end are the same for making tablets and setting their schemas, so
 * no tablet keeps an older schema than its server.  A thread calls load_begin first.
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
/* Requests so far, at a time. */
struct traffic_sample {
	uint64_t at_us, count[REQUESTS], failed;
};
/* A reader of the status. */
enum { WATCHERS = 8 };
struct watcher {
	uint64_t id;
	struct traffic_sample last[2]; /* at its last two readings, the older first */
};
enum table_traffic { TABLE_READS, TABLE_WRITES, TABLE_WRITTEN_BYTES, TABLE_SCANNED_CELLS, TABLE_TRAFFIC };

/*
 * A table whose schema this server has.  The server and each tablet of the
 * table hold a reference.  server.lock guards all fields except `table` and the
 * atomic ones.
 */
struct user_table {
	uint32_t table;
	unsigned refs;
	char name[TFS_NAME_MAX + 1];
	char file[SCHEMA_FILE_MAX]; /* of the lock service, with the schema */
	bool frozen;                /* a snapshot, which shows the instant frozen_us; constant */
	int64_t frozen_us;
	uint64_t generation;
	_Atomic uint64_t tablets_generation; /* of the schema that all its tablets here have */
	struct store_schema *schema;
	const struct schema *access; /* the whole schema, which has owners, modes and ACLs */
	/*
	 * In a snapshot: the schema with the stricter of its former and its present
	 * access, and the table's schema from which it was made.
	 */
	const struct schema *restricted, *restricted_by;
	unsigned writers;      /* mutations, splits and merges under way */
	unsigned write_blocks; /* holds; while there is one, new mutations are refused */
	bool blocked;          /* the master has one of the holds, in the term block_term */
	bool writes_refused;   /* mutations were refused since the first hold began */
	unsigned turns;        /* number of requests for the next block that are refused */
	uint64_t block_term;
	bool move_deferred; /* a split or merge did nothing, because writes were blocked */
	bool dropped;
	int read_err; /* of the last attempt to read the schema: the table may have been dropped; 0: it was read */
	_Atomic uint64_t traffic[TABLE_TRAFFIC];
	_Atomic bool salt_waits; /* the schema's new salt takes effect when the table is empty (master/change.c) */
};

/*
 * The counters of a name that no table has any more.  A metric is labelled with the name
 * of its table, and must not fall when the table is truncated, or when another table gets
 * the name.  The oldest entry is reused; tables that many others have followed begin at 0.
 */
enum { NAMES_LEFT = 256 };
struct name_left {
	char name[TFS_NAME_MAX + 1]; /* "": free */
	uint64_t traffic[TABLE_TRAFFIC];
};

/* A tablet that this server serves.  Counted; one reference is the set's. */
struct served_tablet {
	struct server *server;
	struct tablet *tablet;
	struct user_table *user_table; /* NULL: a tablet of METADATA */
	uint32_t table;
	enum kind kind;
	bool last;
	struct buf end;         /* unless last */
	uint64_t assignment;    /* the number of this assignment */
	_Atomic bool unclaimed; /* the row names the owner before, with the number before (embedded stores) */
	_Atomic bool loading;   /* its logs are being replayed: it is in the set, but not served yet */

	/* Guarded by the tablet's EDIT lock. */
	struct meta_tablet row;   /* its METADATA row as last written */
	bool row_unknown;         /* the last change failed and may have taken place: the next one reads the row first */
	int reported_err;         /* of the last change; the same error is not logged again */
	struct buf unknown_split; /* a split at this row failed, and the lower part's METADATA row may exist; n 0: none */
	uint64_t root_version;    /* KIND_ROOT: the version of the root file */

	/* Step 3 of a merge failed, so a METADATA row may have been deleted: that of the tablet below, or this tablet's own. */
	_Atomic bool unknown_below, unknown_own;
	/* Monotonic times.  After a failed split or merge the task does not try another one before them. */
	_Atomic uint64_t split_not_before_us;
	uint64_t merge_not_before_us;   /* used by the task only */
	uint64_t made_us;               /* monotonic: when it was loaded or made; of a merged tablet, that of its younger part */
	_Atomic uint64_t reads, writes; /* since then: cells and rows read, row mutations */
	struct tablet_rate {
		uint64_t at_us, reads, writes;        /* the counts at a time */
		uint64_t reads_second, writes_second; /* averages up to then */
	} rate;                                       /* guarded by server.lock */
	struct buf events;                            /* lines "SECONDS TEXT", the newest last; guarded by server.lock */
	_Atomic unsigned refs;
	_Atomic bool dropped; /* its table was dropped, and it was removed from the set */
};

/* The logs that redo sets name, each with the LSN from which it is needed. */
struct needed_logs {
	struct dead_log *v;
	unsigned count;
};

/* The server of a tablet, as its status names it. */
#define SERVER_NAME "local"

/* For answers: the generation of the schema that the table's tablets here have; 0: a tablet of METADATA. */
static inline uint64_t served_generation(const struct served_tablet *served)
{
	return served->user_table ? atomic_load_explicit(&served->user_table->tablets_generation, memory_order_acquire) : 0;
}

struct open_scan {
	uint64_t id;
	uint64_t client, epoch; /* of the request that opened it; others cannot use it */
	uint64_t idle_since_us; /* monotonic */
	struct served_tablet *served;
	struct tablet_scan *scan;
	struct open_scan *next;
};
#define SCAN_BUCKETS 64
#define SCAN_IDLE_US UINT64_C(60000000)

/* Disk space: space.c */
struct space {
	struct mutex lock;        /* held while the reserve file and the fields below change */
	struct task task;         /* restores the reserve and frees space while the disk is full */
	_Atomic uint64_t reserve; /* size that the reserve file should have; 0: there is no reserve */
	_Atomic uint64_t bytes;   /* size that it has */
	_Atomic bool full;        /* puts are refused */
	_Atomic int64_t credit;   /* bytes that mutations may log before the next call of statvfs */
	_Atomic uint64_t unfreed; /* bytes of log and memtables that the last space_reclaim left */
	bool reclaiming;          /* a thread is in space_reclaim; guarded by server.lock */
};

/* Files of schemas that a watch has reported and that were not read yet: schemas.c */
enum { CHANGED_FILES = 16 };
struct changed_files {
	char files[CHANGED_FILES][SCHEMA_FILE_MAX];
	unsigned count;
	bool all;         /* there were more than CHANGED_FILES: any file may have changed */
	uint64_t reports; /* so far */
};

struct server {
	struct tablet_service service;   /* first */
	struct tablet_service *metadata; /* server_set_metadata */
	struct lock_service *locks;
	char *data_dir, *tmp_dir;
	struct tablet_servers servers; /* the others */
	uint64_t incarnation;
	_Atomic bool sync;
	bool no_background;
	uint64_t log_segment_bytes;      /* at most */
	struct clock *clock, *own_clock; /* own_clock NULL: the caller's */
	struct sst_cache *cache;
	struct log *log;
	struct fence *fence; /* NULL: an embedded store */
	uint64_t metadata_tablet_bytes, merge_after_us, major_within_us, logs_flush_age_us;
	size_t replay_part_bytes;
	unsigned merge_read_tries;
	struct task_pool *flush[KINDS], *compact, *misc, *log_pool, *move;
	struct tablet_env env[KINDS];
	_Atomic size_t memory[KINDS];
	struct task flush_task, logs_task, moves_task, resolve_task, clock_task, scans_task, sort_task, schemas_task;
	_Atomic int64_t clock_saved_us; /* the mark that the lock service has */
	struct space space;
	struct latency traffic[REQUESTS];
	_Atomic uint64_t requests_failed, requests_refused[TS_REFUSALS];
	struct watcher watchers[WATCHERS]; /* under lock */
	int64_t started_s;                 /* system time of the start */
	uint64_t resolve_wait_us;          /* moves.c: pause before moves_resolve_task repeats */
	_Atomic bool dead_logs;            /* logs.c: a tablet may need the log of a dead incarnation */
	uint64_t aged_lsn;                 /* logs.c: the log's next LSN when its age was last checked */
	uint64_t aged_at_us;               /* logs.c: monotonic time of that check */
	uint64_t log_most;                 /* logs.c: size in bytes above which tablets are flushed so that the log shrinks */
	_Atomic uint64_t records_lost;     /* replay.c */
	_Atomic uint64_t segments_read;    /* of sealed logs, by this server */
	struct store_schema *meta_schema;

	struct mutex files_lock; /* files.c: guards the next members */
	struct ts_file *freed;   /* for the collector */
	unsigned freed_count;
	uint64_t retired, collected;       /* files so far; those before the last call of collector.now */
	struct server_collector collector; /* server_set_collector */
	unsigned collecting;               /* calls of collector.now under way */
	struct cond collected_now;         /* one has ended */

	struct mutex changed_files_lock; /* RANK_FILES; guards changed_files.  A watch acquires it */
	struct changed_files changed_files;
	_Atomic bool schemas_changed; /* changed_files is not empty */

	struct mutex lock;
	struct cond changed; /* a change of loading, setting, moving, write_blocks, writers, a dropped table, space.reclaiming */
	bool loading[KINDS]; /* a thread is between load_begin and load_end */
	bool setting;        /* a thread is between set_begin and set_end */
	bool moving;         /* a split, merge or UNLOAD is under way */
	const struct ts_assigned *unloading;    /* set_unloading */
	struct served_tablet **set;             /* by table, then end */
	unsigned set_count, set_cap, set_spare; /* set_spare: places that set_reserve has reserved */
	struct user_table **tables;             /* by table */
	unsigned table_count;
	struct name_left names_left[NAMES_LEFT]; /* tables.c */
	unsigned next_left;
	uint64_t copy_wait_longest_us;    /* copy.c: longest time that a snapshot or clone held back mutations */
	char (*refused)[SCHEMA_FILE_MAX]; /* files of schemas that are damaged; constant after the start */
	unsigned refused_count;
	struct open_scan *scans[SCAN_BUCKETS];
	struct mutex clients_lock;    /* RANK_SERVER; guards clients */
	uint64_t buried_below, *live; /* clients.c: servers up to buried_below that are not in `live` are dead */
	uint32_t live_count;
	uint32_t made_below;          /* clients.c: no rows are made for tables below it */
	unsigned making;              /* requests under way that make rows of tables */
	struct client_state *clients; /* clients.c, by id */
	uint64_t term;                /* the latest term of a master whose request has arrived */
	struct action *actions;       /* scans.c */
	bool scans_armed;             /* scans_task is queued */
	struct sorted *sorted;        /* seal.c: sorted segments of dead servers' logs */
	size_t sorted_bytes;          /* memory of them */
	struct ts_request sort_next;  /* incarnation, part, parts: what sort_task sorts next; parts 0: nothing */
	size_t sorted_bytes_most;     /* constant */
	uint64_t scan_idle_us;        /* a scan that is idle for so long is freed */
	_Atomic bool recovering;      /* until server_ready */
	bool schemas_loading;         /* schemas_load: no file may name a table that another one names */
	struct needed_logs needed;    /* between the LOADs of the start */
	_Atomic bool closing;         /* no background work begins */
	_Atomic bool will_close;      /* server_will_close */
};

/* ---- files.c: the list of SSTables for the collector ---- */
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

/* ---- tables.c: user tables, and blocks of their writes ---- */
/* Returns a reference.  -TABLE_DROPPED: there is no such table. */
int user_table_get(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
void user_table_put(struct server *s, struct user_table *u);
struct store_schema *user_table_schema(struct server *s, struct user_table *u); /* a reference */
bool user_table_dropped(struct server *s, struct user_table *u);
/* The error of the last attempt to read its schema; 0: none. */
int user_table_error(struct server *s, struct user_table *u) TFS_MUST;
/* The index of the table in server.tables, or where it would be inserted.  The caller of any _locked holds server.lock. */
unsigned user_table_at_locked(const struct server *s, uint32_t table);
struct user_table *user_table_find_locked(const struct server *s, uint32_t table); /* NULL: none */
int user_table_add_locked(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
/* The table, which is no snapshot, has got its name; it loses its name, or is dropped. */
void user_table_named_locked(struct server *s, struct user_table *u);
void user_table_leaves_name_locked(struct server *s, const struct user_table *u);
/*
 * Blocks the table's writes for the master of this term; again has no further
 * effect.  On 0 no mutation of the table is under way, and none begins until
 * user_table_unblock_writes or a later term.  -EAGAIN: some are under way, or
 * others have their turn first; call it again.  -ENOENT: there is no such table.
 */
int user_table_block_writes(struct server *s, uint32_t table, uint64_t term) TFS_MUST;
void user_table_unblock_writes(struct server *s, uint32_t table);
/* New mutations are refused until as many calls of user_table_release_writes.  Those that are under way continue.  -TABLE_DROPPED. */
int user_table_hold_writes(struct server *s, uint32_t table) TFS_MUST;
void user_table_release_writes(struct server *s, uint32_t table);
/* For each request of a master.  A later term ends the blocks of earlier ones.  -SESSION_ENDED: the term is an earlier one. */
int server_see_term(struct server *s, uint64_t term) TFS_MUST;
void user_table_write_end(struct server *s, struct user_table *u); /* ends user_table_write_begin (schemas.c) */

/* ---- access.c: the permissions of the user of a request ---- */
/*
 * Each returns 0 if the user may do it, else -EACCES.  -EINVAL: there is no such
 * family.  They are called only for requests with a user.  served: a tablet of a
 * user table.  may: TFS_MAY_* flags.
 */
int access_family(struct served_tablet *served, const struct ts_request *q, uint16_t family, unsigned may) TFS_MUST;
int access_ops(struct served_tablet *served, const struct ts_request *q,
	struct tfs_result *results) TFS_MUST; /* sets `failed` of the operation that is not permitted; may be NULL */
/* Sets the size of each written value to UINT64_MAX if the user may not read its family: an append would show the size of a value. */
void access_hide_sizes(struct served_tablet *served, const struct ts_request *q, struct tfs_result *results);
/* Returns 0 if the user owns the table or is root. */
int access_owner(struct served_tablet *served, const struct ts_request *q) TFS_MUST;
/*
 * Sets *ids to the families that the user may read, in the order of `families`
 * (count 0: of the schema's families); the caller frees it.  -EACCES: the user may
 * not read one of `families`.
 */
int access_readable(struct served_tablet *served, const struct ts_request *q, const uint16_t *families, uint32_t count,
	uint16_t **ids, uint32_t *id_count) TFS_MUST;

/* ---- set.c: the set of tablets ---- */
/* Returns a reference to the tablet of the set that contains (table, row).  -TABLET_MOVED: the set has none. */
int served_find_loaded(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* The same, also for a tablet whose logs are being replayed. */
int served_find_any(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* Returns a reference to the tablet of the set with this end (p NULL: the table's end), also while its logs are being replayed.  -TABLET_MOVED: the set has none. */
int served_find_end(struct server *s, uint32_t table, struct tfs_bytes end, struct served_tablet **out) TFS_MUST;
/* Returns references to all tablets that are served, of a table (0: of all tables), in the set's order.  served_list_put drops them and frees the array. */
int served_list(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count) TFS_MUST;
/* The same, with those whose replay has not ended. */
int served_list_any(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count) TFS_MUST;
void served_list_put(struct served_tablet **list, unsigned count);
void served_put(struct served_tablet *served); /* NULL is allowed */
/* Adds a line to the tablet's events and drops old ones.  Without memory it adds none. */
void served_event(struct served_tablet *served, const char *text);
/* Allocates places for `more` tablets, so that the next set_replace cannot fail. */
int set_reserve(struct server *s, unsigned more) TFS_MUST;
/* Adds a tablet; the set takes the caller's reference on 0.  -EEXIST: the set has one of its rows; -TABLE_DROPPED: the table was dropped; -EAGAIN: set_unloading. */
int set_insert(struct server *s, struct served_tablet *served) TFS_MUST;
/* Until the next call, set_insert refuses tablets with this table and end.  NULL: none.  t must exist until then. */
void set_unloading(struct server *s, const struct ts_assigned *t);
/*
 * Replaces the tablets `old` by `with`; other threads see both changes at once.
 * The set takes references of its own.  If the set has none of `old`, the table
 * was dropped, and `with` are marked as dropped instead.
 */
void set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);
/* Removes the table's tablets from the set.  Their files are reported to the collector when the last reader has ended. */
void served_drop_table(struct server *s, uint32_t table);
void served_drop_users(struct server *s);
void served_drop_all(struct server *s);
/* Each thread that loads tablets of a kind does so between these two.  load_begin waits for other threads. */
void load_begin(struct server *s, enum kind kind);
void load_end(struct server *s, enum kind kind);
/* The same for a thread that sets a schema, or makes tablets and adds them to the set. */
void set_begin(struct server *s);
void set_end(struct server *s);
/* Sums over all tablets.  A file that several tablets use counts once in disk_bytes; user_*: without snapshots. */
struct served_sums {
	uint64_t disk_bytes, memory_bytes, user_files;
	unsigned tablets, user_tablets;
	unsigned behind; /* of user_tablets: writers are slowed down, because too many files wait for a compaction */
};
int served_sum(struct server *s, struct served_sums *out) TFS_MUST;

/* Queues the task, unless no background work may begin now. */
static inline void server_queue(struct server *s, struct task *t)
{
	if (!s->no_background && !s->recovering && !s->closing)
		task_queue(t);
}

/* ---- seal.c: seals of the logs of dead servers ---- */
struct log_seal;
int seal_make(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* TS_SORT.  After an error a->why may name the damage. */
int seal_sort(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
void seal_sort_task(struct task *t);
void seal_sorted_free(struct server *s); /* no request is under way */
/*
 * The directory of a dead server's log, and its seal unless it has none (an
 * embedded store).  -EAGAIN: it must have one and has none yet.  -EBADMSG: the
 * seal is damaged.  The caller frees *dir, and *seal by log_seal_fini.
 */
int seal_read(struct server *s, uint64_t incarnation, bool *sealed, struct log_seal *seal, char **dir, char **why) TFS_MUST;

/* ---- replay.c: the logs of dead incarnations ---- */
/* Adds the logs that the row's redo set names.  Call it before the tablet is made, because the tablet's background work may change the row. */
int replay_need(struct needed_logs *n, const struct meta_tablet *m) TFS_MUST;
/*
 * Replays the logs that replay_need was given since the last call, into the tablets of this kind.  load: the request
 * with these tablets.  *why: NULL, or a line that names the damage; the caller frees it.
 */
void replay_level(struct server *s, enum kind kind, const struct ts_request *load, struct needed_logs *n, char **why);
/* The error of a log that the redo set names; 0: none. */
int replay_error(const struct needed_logs *n, const struct redo_point *redo, unsigned count) TFS_MUST;
void replay_needed_fini(struct needed_logs *n);

/* ---- load.c ---- */
/*
 * Returns a reference to the tablet that contains (table, row).  -TABLET_MOVED: this
 * server does not serve it; -TABLE_DROPPED: the table was dropped.
 */
int served_find(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* The same for a request.  -TABLET_MOVED: also if the request names another assignment of the tablet, because it comes late. */
int served_find_for(struct server *s, const struct ts_request *q, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* Makes a tablet from its METADATA row.  On 0 the tablet owns the row's memory and *row is {0}. */
int served_new(
	struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct served_tablet **out) TFS_MUST;
/* TS_LOAD */
int load_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* Calls set_replace for the tablets of a split or merge, and gives the new ones the table's schema.  Between set_begin and set_end. */
void served_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);

/* ---- schemas.c ---- */
/* Reads the schemas of all tables, and watches them.  *why as in replay_level. */
int schemas_load(struct server *s, char **why) TFS_MUST;
/* As user_table_get.  If the table is unknown and the schema of some table could not be read, reads all schemas again first. */
int user_table_find(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
/* Reads all schemas if the table is unknown: the master's request may come before the report of the watch. */
void user_table_learn(struct server *s, uint32_t table);
/* Reads the schemas of the tables of a LOAD.  The error is not that of one table (user_table_error). */
int user_tables_read(struct server *s, const struct ts_assigned *v, uint32_t count) TFS_MUST;
/* Reads the table's schema again.  After an error the table's mutations are refused until it has been read. */
void user_table_refresh(struct server *s, uint32_t table);
/* If the table's schema is older than generation, or could not be read, reads it again.  Returns true if it has done so. */
bool user_table_read_again(struct server *s, struct user_table *u, uint64_t generation);
/*
 * Begins a mutation of the table; user_table_write_end ends it.  Returns 0,
 * -TABLE_DROPPED (the table was dropped) or -errno.  If writes are held, it begins nothing:
 * ON_BLOCK_REFUSE returns -EAGAIN.  ON_BLOCK_RETURN returns WRITES_BLOCKED; the end
 * of the hold then queues moves_task.
 * *schema is a reference to the table's schema.  If the server's schema is older
 * than generation, the server reads it again first.
 */
enum on_block { ON_BLOCK_REFUSE, ON_BLOCK_RETURN };
enum { WRITES_BLOCKED = 1 };
int user_table_write_begin(
	struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, struct store_schema **schema) TFS_MUST;
/* Reads the schemas that a watch has reported, and again those that could not be read. */
void schemas_task_run(struct task *t);
/* Reads the schemas that a watch has reported.  The caller is not between set_begin and set_end. */
void schemas_catch_up(struct server *s);
/* In an embedded store: on return the server has every schema that was stored before the call. */
static inline void schemas_current(struct server *s)
{
	if (!s->fence && atomic_load(&s->schemas_changed))
		schemas_catch_up(s);
}
/* Returns 0 if the lock service has a schema of the table; -ECANCELED: it has none; -errno. */
int table_exists(struct server *s, uint32_t table) TFS_MUST;
void schemas_free(struct server *s);

/* ---- copy.c: the METADATA rows of snapshots and clones ---- */
/* Writes the rows of q->to_table, which are those of q->table as of one instant: a->ts. */
int copy_table(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* ---- traffic.c ---- */
/* Called before and after a request.  traffic_begin returns the time, or 0 if the request is not timed. */
uint64_t traffic_begin(const struct ts_request *q);
void traffic_end(struct server *s, const struct ts_request *q, int err, uint64_t since_us);
void traffic_refused(struct server *s, const struct ts_request *q, int err);            /* counts an error that is a refusal */
void traffic_tablet(struct served_tablet *served, enum table_traffic what, uint64_t n); /* counts for tablet and table */
void traffic_tablet_read(struct served_tablet *served);                                 /* counts one read, by sampling */
int traffic_status(struct server *s, enum request_kind kind, struct buf *out) TFS_MUST; /* appends "12, 50 % within 16 us, ..." */
int traffic_metrics(struct server *s, struct buf *out) TFS_MUST;
/*
 * Appends "12 reads/s, ... in the last 2 s": since this watcher's reading before.
 * A new watcher begins where the latest one is, or at the start of the server.
 */
int traffic_rates(struct server *s, uint64_t watcher, struct buf *out) TFS_MUST;

/* ---- split.c, merge.c, unload.c: the durable steps; functions for move_run (moves.c) ---- */
/* Splits v[0] at a row.  -EEXIST: a tablet begins there. */
int split_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Merges v[0] with v[1], its upper neighbour. */
int merge_tablets(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Completes a merge after METADATA was found to have no row of v[0]. */
int merge_finish(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;

/* Ends the service of v[0]. */
int unload_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* For a tablet that is not in the set: step 2, if its row names this server and this number. */
int unload_row(struct server *s, const struct ts_assigned *t) TFS_MUST;

/* ---- moves.c ---- */
/* TS_UNLOAD */
int moves_unload(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* Splits the tablet that contains row, at row.  Returns 0, WRITES_BLOCKED or -errno; -EEXIST: a tablet begins there. */
int moves_split(struct server *s, uint32_t table, struct tfs_bytes row) TFS_MUST;
/* Merges the tablet that contains row with the next one.  The same; -ENOENT: there is none. */
int moves_merge(struct server *s, uint32_t table, struct tfs_bytes row) TFS_MUST;
/* ts_assigned.merge_bytes and border */
uint64_t moves_merge_bytes(struct server *s, struct served_tablet *served, bool *border);
void moves_task(struct task *t);         /* splits large tablets, merges small ones */
void moves_resolve_task(struct task *t); /* resolves merges whose outcome is unknown */

/* ---- list.c ---- */
/* TS_LIST */
int list_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/*
 * ---- metadata_edits.c: changes of a tablet's METADATA row ----
 * The caller holds the tablet's EDIT lock, or has stopped its edits for a merge
 * (tablet_merge_stop).  row_exists needs neither.
 */
/* Returns 1 if METADATA has a row of the tablet that ends at `end`, 0 if not, -errno. */
int row_exists(struct server *s, uint32_t table, struct tfs_bytes end) TFS_MUST;
/* Mutates the row, with a check that its owner is unchanged.  claim: the mutation also makes this server the owner if it is not. */
int row_mutate(struct served_tablet *served, bool claim, const struct op *ops, unsigned count) TFS_MUST;
/* Makes 0 the server of the row.  The caller has stopped its edits. */
int row_release(struct served_tablet *served) TFS_MUST;
/* The same for a row that was read, of a tablet that is not in the set. */
int row_release_unserved(struct server *s, const struct meta_tablet *row) TFS_MUST;
/* Calls row_resolve.  If the tablet was merged and its row still has a merge column, does step 4 of that merge (merge.c). */
int row_fold(struct served_tablet *served) TFS_MUST;
/* The tablets' commit callback; arg: the served tablet. */
int row_commit(void *arg, struct tablet *t, const struct tablet_edit *e) TFS_MUST;

/* ---- clients.c: the epochs of clients of other processes ---- */
void clients_init(struct server *s);
void server_service_init(struct server *s); /* service.c: the service of server_service() */
void clients_fini(struct server *s);        /* no request is under way */
/* Before and after a request that makes rows of this table in METADATA.  Returns true if the making of the table has ended. */
bool making_begin(struct server *s, uint32_t table) TFS_MUST;
void making_end(struct server *s);
/* TS_BURY */
int clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * Before a request with a client.  -EPOCH_ENDED: the client has begun a later
 * epoch; -EAGAIN: requests of earlier epochs are still under way; -SESSION_ENDED: it is
 * a dead server; -ENOMEM.
 */
int client_begin(struct server *s, const struct ts_request *q) TFS_MUST;
void client_end(struct server *s, const struct ts_request *q); /* after it, if client_begin returned 0 */

/* ---- fence.c: a server on shared storage stops when its session or its log is lost ---- */
struct fence;
/* log_dir: this server's.  -ENOENT: the store's FORMAT is missing. */
int fence_new(struct server *s, const struct server_options *o, const char *log_dir, struct fence **out) TFS_MUST;
void fence_watch(struct fence *f); /* starts the periodic checks; the log exists */
void fence_stop(struct fence *f);  /* ends them; NULL is allowed */
void fence_free(struct fence *f);
/* log_options.fence; arg: the fence. */
int fence_check(void *arg) TFS_MUST;
/* Before a request is carried out.  -UNREACHABLE: the fence is lost.  -TABLET_MOVED: the server's clock is too far off. */
int fence_begin(const struct fence *f, const struct ts_request *q) TFS_MUST;
/* Returns the offset of the server's clock (server_options.clock_offset), or 0 if the server serves with it. */
int64_t fence_clock_offset(const struct fence *f);
/* After it.  Returns the error of the answer: err, or -ANSWER_LOST if the fence is lost. */
int fence_answer(struct fence *f, int err) TFS_MUST;
/* Another server takes this one for dead.  NULL is allowed. */
void fence_buried(struct fence *f);

/* ---- logs.c: removal of this server's log segments ---- */
void logs_task(struct task *t);
/* Returns the size of the log's first segment; largest: the bound of all segments. */
uint64_t logs_first_segment_bytes(uint64_t largest);
/* Flushes all tablets for which there is space, and drops the segments that are then not needed. */
void logs_drop_all(struct server *s);

/* ---- clock.c ---- */
/* Reads the mark, and begins to save it.  Call it before tablets are loaded.  gap_us 0: the default. */
void server_clock_start(struct server *s, int64_t gap_us);
void clock_task_run(struct task *t);
/* Appends a clause, with "; " at its end, to the status line "attention" if the clock is not trusted. */
int server_clock_attention(struct server *s, struct buf *out) TFS_MUST;

/* ---- scans.c ---- */
int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
void scans_task(struct task *t);
/* Frees the idle scans.  Returns true if others are open. */
bool scans_free_idle(struct server *s);
/* Frees the client's scans of epochs below `epoch`: the client does not use them any more. */
void scans_free_client(struct server *s, uint64_t client, uint64_t epoch);
void scans_free(struct server *s);

/* Actions: flushes, compactions, splits, merges. */
typedef int action_fn(struct server *s, const struct ts_request *q, struct ts_answer *a);
/* Starts fn for the request, without its user.  Sets a->scan to the action's number, or to 0 if it has ended. */
int action_begin(struct server *s, const struct ts_request *q, struct ts_answer *a, action_fn *fn) TFS_MUST;
/* TS_POLL.  -SCAN_UNKNOWN: the server has no such action of this client. */
int action_poll(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
void actions_free(struct server *s); /* waits for those under way */

/* ---- space.c ---- */
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
/* Implements tablet_env.space: returns true if the use may write a file of `bytes` bytes. */
bool space_get(struct server *s, enum disk_use use, uint64_t bytes);
/* Releases more than `bytes` bytes of the reserve, as far as the use may take them.  Returns false if it released none. */
bool space_release(struct server *s, enum disk_use use, uint64_t bytes);
/* Restores the reserve if there is space, and decides again whether the disk is full. */
void space_check(struct server *s);
/* If the disk is full, queues the task that does so. */
void space_check_soon(struct server *s);
/* Returns the memory that all memtables use. */
uint64_t memtables_bytes(const struct server *s);

#endif
