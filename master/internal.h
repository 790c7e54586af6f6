/* SPDX-License-Identifier: Apache-2.0 */
/* Internal header of the master. */
#ifndef TFS_MASTER_INTERNAL_H
#define TFS_MASTER_INTERNAL_H

#include "engine/client/schemas.h"
#include "master/assign.h"
#include "master/collect.h"
#include "master/master.h"

/* A request that was carried out: a copy of it that arrives later gets the same answer. */
struct answered {
	uint64_t number; /* the number of its struct ms_request, or 0 */
	int err;
	const struct schema *schema; /* a reference, or NULL */
};
enum { ANSWERED_MOST = 64 };

/* Servers that cannot be reached (reach.c). */
struct reach {
	struct task_pool *pool;
	struct task task;
	struct reach_server *servers; /* the servers of the last round; used by the task */
	unsigned count;
	struct reach_note {
		uint64_t incarnation, seen_us; /* monotonic time at which this master first saw the note removed/N */
	} * noted;                             /* guarded by the master's lock */
	unsigned noted_count;
};

struct master {
	struct master_service service; /* first */
	_Atomic uint64_t requests_refused[TS_REFUSALS];
	struct master_options o;
	struct lock_service *locks;     /* o.locks */
	struct tablet_service *tablets; /* o.tablets */
	struct clock *clock;            /* o.clock */
	struct mutex lock;              /* RANK_MASTER: one request at a time; guards the next members */
	struct cond passed;             /* no pass is due any more */
	_Atomic unsigned passes_due;    /* how many threads wait for the lock to make a pass */
	_Atomic bool in_doubt;          /* this request may have changed the lock service */
	struct task_pool *pool;         /* created for the first task */
	bool ending;                    /* no task is queued any more */
	struct task salt_check, age_check;
	struct passes passes;
	uint32_t *pending; /* ids of tables with a pending salt */
	unsigned pending_count;
	uint32_t *blocked; /* tables whose writes a server may still block: a pass unblocks them */
	unsigned blocked_count;
	struct answered answered[ANSWERED_MOST]; /* the latest answered requests */
	unsigned answered_count;                 /* how many requests were answered in all */
	struct collector collector;
	struct reach reach;
};

/* ---- reach.c ---- */

/* Called by a cluster's master.  Begins to remove servers that cannot be reached. It begins before the master's start, because such a server may make the start fail. */
int reach_begin(struct master *m) TFS_MUST;
/*
 * Returns true if a server whose file servers/N does not exist may still have a lease, because a master has removed the
 * file a short time ago.  The caller has the master's lock, and has called lock_sync.
 */
bool reach_may_have_lease(struct master *m, uint64_t incarnation);
void reach_end(struct master *m);

/* ---- term.c ---- */

/*
 * Change the lock service as lock_multi, lock_put and lock_remove do.  They change nothing and
 * return -SESSION_ENDED if this master's term has ended.
 */
int master_multi(struct master *m, const struct lock_op *ops, unsigned count) TFS_MUST;
int master_put(struct master *m, const char *name, struct tfs_bytes contents, uint64_t expect) TFS_MUST;
int master_remove(struct master *m, const char *name) TFS_MUST;
/* The number of this master's term, for its requests to servers; 0: an embedded store. */
uint64_t master_term(const struct master *m);

/* ---- steps.c ---- */

#define TABLE_FILE_MAX (sizeof("tables/") + TFS_NAME_MAX)
/* Writes tables/NAME into file (TABLE_FILE_MAX bytes).  The name is valid. */
void table_file_name(char *file, const char *name);
/* -EBUSY, with a reason, if the table has snapshots: then it must not lose its rows as a whole. */
int master_has_snapshots(struct master *m, const struct tfs_schema *p, char **why) TFS_MUST;
/* Returns -EROFS if the table is readonly, -EPERM if it is protected, with *why: neither it nor a family of it is dropped (change.c). */
int master_may_remove(const struct tfs_schema *p, char **why) TFS_MUST;
/*
 * Replaces the table's file if its version is still `version`.  If s names other tablets than
 * `old`, the same multi-operation makes the note that the tablets of `old` are dropped.
 */
int master_schema_write(struct master *m, const struct tfs_schema *old, const struct schema *s, uint64_t version) TFS_MUST;

/*
 * Looks whether a file of a schema exists that a request would make.  Returns 0 if not, 1 if
 * this request was sent before and has made it, so that *a is the answer, else -EEXIST.
 */
int master_is_repetition(struct master *m, const char *file, const struct ms_request *q, struct ms_answer *a) TFS_MUST;

/* From the return of block to unblock no mutation of the table is carried out. */
int master_block_writes(struct master *m, uint32_t table) TFS_MUST;
void master_unblock_writes(struct master *m, uint32_t table);
/* Unblocks the writes of the tables for which that failed before. */
void master_unblock_again(struct master *m);

/* The next table id, and the version of its file. */
int master_ids_read(struct master *m, uint32_t *next, uint64_t *version) TFS_MUST;
/* The latest incarnation that was given out. */
int master_incarnation(struct master *m, uint64_t *latest) TFS_MUST;
/* Takes the next table id, durably. */
int master_ids_take(struct master *m, uint32_t *id) TFS_MUST;
/* Creates the tablets of a whole table, under a new id, split at the `splits` of p (NULL: one tablet). */
int master_tablets_create(struct master *m, const struct tfs_schema *p, uint32_t *id) TFS_MUST;
/* **one is set if METADATA has exactly one tablet of this id. */
int master_has_one_tablet(struct master *m, uint32_t table, bool *one) TFS_MUST;
#define ROWS_NAME_MAX 48 /* the room for the name of a file of struct meta_rows */
#define DROP_NOTE_MAX 32
/* The note dropped/ID, for the multi-operation that drops a table's tablets.  name has DROP_NOTE_MAX bytes. */
struct lock_op drop_note(uint32_t table, char *name);
/*
 * **has is set if the table holds a cell of this family (0: of any family).  A table without
 * families holds no cell.  Its files are not read, so it can be dropped if they are damaged.
 */
int master_has_cells(struct master *m, const struct tfs_schema *p, uint16_t family, bool *has) TFS_MUST;

/* Runs fn after us, unless there is no background work or the task waits already. */
void master_later(struct master *m, struct task *t, task_fn *fn, uint64_t us);
/* Acquires the lock when no pass is due. */
void master_lock_for_request(struct master *m);
/* Acquires the lock for a pass, before the next request. */
void master_lock_for_pass(struct master *m);
void master_unlock_after_pass(struct master *m);
/* Ends the tasks, and lets none begin. */
void master_end_tasks(struct master *m);

/* ---- drop.c ---- */
/* Called after the note dropped/ID was made.  Deletes the METADATA rows, then the note.  After an error a later pass does this. */
void master_tablets_delete(struct master *m, uint32_t table);

/* ---- change.c; the caller has the master's lock ---- */

/* Returns true if the schema has a salt that is not yet in use. */
bool salt_is_pending(const struct tfs_schema *p) TFS_MUST;
/* The master checks from now on from time to time if the table is empty. */
void salt_watch(struct master *m, uint32_t table);

/* ---- expiry.c; the caller has the master's lock ---- */
/* Drops the snapshot with this schema, if its file still has this version. */
int snapshot_drop_one(struct master *m, const struct tfs_schema *p, uint64_t version) TFS_MUST;
/* Called when a table has a snapshot_maxage, or when a snapshot was made.  The master then checks soon, and later from time to time, which snapshots are too old. */
void snapshots_watch(struct master *m, const struct tfs_schema *p);

/* ---- requests: change.c, tables.c, snapshots.c ---- */

int master_snapshot_create(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_snapshot_drop(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_clone(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;

int master_schema_set_text(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_schema_change(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_truncate(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_create(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_rename(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;

#endif
