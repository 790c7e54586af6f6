/* SPDX-License-Identifier: Apache-2.0 */
/* The set of tablets that the server serves, and the permissions of users.  Any thread may call these. */
#ifndef TFS_SERVER_SET_H
#define TFS_SERVER_SET_H

#include "engine/compact/compact.h"
#include "engine/meta/meta.h"
#include "engine/server/tables/tables.h"

extern const struct server_part set_part;
/* A tablet that this server serves.  Counted; the set has one reference. */
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
	bool row_unknown;         /* the last change failed and may have taken place; the next change reads the row first */
	int reported_err;         /* the error of the last change, which is not logged again */
	struct buf unknown_split; /* a split at this row failed, and the lower tablet's METADATA row may exist; else n is 0 */
	uint64_t root_version;    /* the version of the root file, for KIND_ROOT */

	/* Step 3 of a merge failed, so a METADATA row may have been deleted: the lower tablet's, or this tablet's own. */
	_Atomic bool unknown_below, unknown_own;
	_Atomic bool unknown_lower; /* unknown_split may be set, and no edit may come that resolves it */
	/* Monotonic times.  After a failed split or merge the task tries no further change before them. */
	_Atomic uint64_t split_not_before_us;
	uint64_t merge_not_before_us;   /* used by the task only */
	uint64_t made_us;               /* monotonic: when it was loaded or made; a merged tablet has its younger half's time */
	_Atomic uint64_t reads, writes; /* counts since made_us: cells and rows read, row mutations */
	struct tablet_rate {
		uint64_t at_us, reads, writes;        /* the counts at a time */
		uint64_t reads_second, writes_second; /* averages up to at_us */
	} rate;                                       /* guarded by the set's lock */
	struct buf events;                            /* lines "SECONDS TEXT", the newest last; guarded by the set's lock */
	_Atomic unsigned refs;
	_Atomic bool dropped; /* its table was dropped, and it was removed from the set */
};

/* The generation for answers: the generation of the schema that the table's tablets here have, or 0 for METADATA. */
static inline uint64_t served_generation(const struct served_tablet *served)
{
	return served->user_table ? atomic_load_explicit(&served->user_table->tablets_generation, memory_order_acquire) : 0;
}

/* ---- look-ups; find.c for requests ---- */
/*
 * Returns a reference to the tablet that contains (table, row).  -TABLET_MOVED: this
 * server does not serve it; -TABLE_DROPPED: the table was dropped.
 */
int served_find(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/*
 * Finds the tablet for a request.  Returns -TABLET_MOVED also if the request names another
 * assignment of the tablet, because it comes late.
 */
int served_find_for(struct server *s, const struct ts_request *q, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* Returns a reference to the tablet of the set that contains (table, row).  -TABLET_MOVED: the set has none. */
int served_find_loaded(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* Finds as served_find_loaded, and also a tablet whose logs are being replayed. */
int served_find_any(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out) TFS_MUST;
/* Returns a reference to the tablet of the set with this end (p NULL: the table's end), also while its logs are being replayed.  -TABLET_MOVED: the set has none. */
int served_find_end(struct server *s, uint32_t table, struct tfs_bytes end, struct served_tablet **out) TFS_MUST;
/* Returns references to all tablets that are served, of a table (0: of all tables), in the set's order.  served_list_put drops them and frees the array. */
int served_list(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count) TFS_MUST;
/* Lists as served_list, and also tablets whose replay has not ended. */
int served_list_any(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count) TFS_MUST;
void served_list_put(struct served_tablet **list, unsigned count);
void served_put(struct served_tablet *served); /* NULL is allowed */

/* ---- events and rates of a tablet ---- */
/* Adds a line to the tablet's events and drops old ones.  Without memory it adds none. */
void served_event(struct served_tablet *served, const char *text);
/* Copies the events into the arena. */
bool served_events(struct served_tablet *served, struct arena *a, struct tfs_bytes *out);
/* The averages up to now. */
struct tablet_rate served_rate(struct served_tablet *served);

/* ---- changes of the set ---- */
/* Allocates places for `more` tablets, so that the next set_replace cannot fail. */
int set_reserve(struct server *s, unsigned more) TFS_MUST;
/*
 * Adds a tablet; the set takes the caller's reference on 0.  -EEXIST if the set has one
 * of its rows; -TABLE_DROPPED; -EAGAIN during set_unloading.
 */
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
/*
 * Each thread that loads tablets of a kind does so between load_begin and load_end.
 * load_begin waits for other threads that load tablets of this kind, so no tablet
 * is loaded twice.  I/O is permitted in between.
 */
void load_begin(struct server *s, enum kind kind);
void load_end(struct server *s, enum kind kind);
/*
 * Called by a thread that sets a schema, or makes tablets and adds them to the set.  So
 * no tablet keeps an older schema than its server.  A thread calls load_begin first.
 */
void set_begin(struct server *s);
void set_end(struct server *s);

/* Sums over all tablets.  A file that several tablets use counts once in disk_bytes; user_*: without snapshots. */
struct served_sums {
	uint64_t disk_bytes, memory_bytes, user_files;
	uint64_t
		pinned_bytes; /* of files that only snapshots use, or more: a file that two tablets use counts twice among the others */
	unsigned tablets, user_tablets;
	unsigned
		behind; /* the number of user_tablets whose writers are slowed down, because too many files wait for a compaction */
};
int served_sum(struct server *s, struct served_sums *out) TFS_MUST;

/* ---- access.c ---- */
/*
 * The permissions of the user of a request.  Each function returns 0 if the user may do
 * it, else -EACCES.  -EINVAL: there is no such family.  Call them only for requests with a
 * user.  `served` is a tablet of a user table.
 */
int access_read(struct served_tablet *served, const struct ts_request *q, uint16_t family) TFS_MUST;
/* *failed_op: after an error, the operation that is not permitted, from 1. */
int access_ops(
	struct served_tablet *served, const struct ts_request *q, const struct row_mutation *m, unsigned *failed_op) TFS_MUST;
/* Sets the size of each written value to UINT64_MAX if the user may not read its family: an append would show the size of a value. */
void access_hide_sizes(
	struct served_tablet *served, const struct ts_request *q, const struct row_mutation *m, struct tfs_result *results);
/* Returns 0 if the user owns the table or is root. */
int access_owner(struct served_tablet *served, const struct ts_request *q) TFS_MUST;
/*
 * Sets *ids to the families that the user may read, in the order of `families`, or of the
 * schema's families if count is 0.  The caller frees it.  -EACCES: the user may not read
 * one of `families`.
 */
int access_readable(struct served_tablet *served, const struct ts_request *q, const uint16_t *families, uint32_t count,
	uint16_t **ids, uint32_t *id_count) TFS_MUST;

/* ---- quotas (quota.c) ---- */
/* Begins to add up the sizes of tables that have a quota, every few seconds. */
void quotas_begin(struct server *s, struct task_pool *pool);
void quotas_end(struct server *s);
uint64_t quota_used(
	const struct user_table *u); /* the table's bytes on all servers, as the last look found them, and those accepted since */
/* Returns -EDQUOT if the table has as many bytes as its quota, and logs that once.  0: counts `bytes`, which it will have more. */
int quota_admit(struct user_table *u, uint64_t quota, uint64_t bytes) TFS_MUST;

#endif
