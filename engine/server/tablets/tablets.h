/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tablets are loaded, replayed, split, merged and unloaded; changes of their rows in
 * METADATA; the logs of dead servers.  Any thread may call these.
 */
#ifndef TFS_SERVER_TABLETS_H
#define TFS_SERVER_TABLETS_H

#include "engine/log/log_seal.h"
#include "engine/server/tables/set.h"

/* ---- served.c ---- */
/* Makes a tablet from its METADATA row.  On 0 the tablet owns the row's memory and *row is {0}. */
int served_new(
	struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct served_tablet **out) TFS_MUST;
/* Calls set_replace for the tablets of a split or merge, and gives the new ones the table's schema.  Between set_begin and set_end. */
void served_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);

/* TS_LOAD: load.c */
int load_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* TS_LIST: list.c */
int list_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* TS_COPY_TABLE, copy.c: writes the rows of q->to_table, which are copies of the rows of q->table as of one instant, a->ts. */
int copy_table(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* ---- metadata_edits.c ---- */
/*
 * Changes of a tablet's METADATA row.  The caller holds the tablet's EDIT
 * lock, or has stopped its edits for a merge (tablet_merge_stop).  row_exists and
 * row_release_read need neither.
 */
/* Returns 1 if METADATA has a row of the tablet that ends at `end`, 0 if not, -errno. */
int row_exists(struct tablet_service *metadata, uint32_t table, struct tfs_bytes end) TFS_MUST;
/* Mutates the row, with a check that its owner is unchanged.  claim: the mutation also makes this server the owner if it is not. */
int row_mutate(struct served_tablet *served, bool claim, const struct op *ops, unsigned count) TFS_MUST;
/* Sets the server in the row to 0.  The caller has stopped the tablet's edits. */
int row_release(struct served_tablet *served) TFS_MUST;
/* Reads the row of a tablet.  Sets *version for the root tablet's row only. */
int row_read(struct server *s, enum kind kind, uint32_t table, bool last, struct tfs_bytes end, struct meta_tablet *out,
	uint64_t *version) TFS_MUST;
/* Sets the server to 0 in a row that was read, for a tablet that is not in the set. version: the version of the root tablet's row. */
int row_release_read(struct server *s, enum kind kind, const struct meta_tablet *row, uint64_t version) TFS_MUST;
/* Calls row_resolve.  If the tablet was merged and its row still has a merge column, does step 4 of that merge (merge.c). */
int row_fold(struct served_tablet *served) TFS_MUST;
/* The tablets' commit callback; arg: the served tablet. */
int row_commit(void *arg, struct tablet *t, const struct tablet_edit *e) TFS_MUST;

/* ---- seal.c: seals of the logs of dead servers ---- */
/* TS_SEAL */
int seal_make(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * The directory of a dead server's log, and its seal unless it has none (an
 * embedded store).  -EAGAIN: it must have one and has none yet.  -EBADMSG: the
 * seal is damaged.  The caller frees *dir, and *seal by log_seal_fini.
 */
int seal_read(struct server *s, uint64_t incarnation, bool *sealed, struct log_seal *seal, char **dir, char **why) TFS_MUST;

/* ---- sorter.c: sorted segments of these logs ---- */
extern const struct server_part sorter_part;
struct sorter {
	struct mutex lock;       /* guards the next members */
	struct cond ready;       /* a segment has been sorted, or cannot be sorted */
	struct sorted *segments; /* the sorted segments */
	size_t bytes;            /* the memory of the sorted segments */
	struct ts_request
		next; /* incarnation, part and parts name the segment that the task sorts next; parts is 0 if there is none */
	struct task task;
	struct server *s;
	_Atomic uint64_t segments_read; /* segments that this server has read */
};
/* TS_SORT */
int sorter_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* ---- replay.c: replay of the logs of dead incarnations ---- */
extern const struct server_part replays_part;
/* The logs that redo sets name, each with the LSN from which it is needed. */
struct needed_logs {
	struct dead_log *v;
	unsigned count;
};

/* The logs that the LOADs of the start need; replays_end_start frees them. */
struct needed_logs *replays_of_start(struct server *s);
void replays_end_start(struct server *s);
/* Returns how many records could not be replayed. */
uint64_t replays_lost(const struct server *s);
/* Adds the logs that the row's redo set names.  Call it before the tablet is made, because the tablet's background work may change the row. */
int replay_need(struct needed_logs *n, const struct meta_tablet *m) TFS_MUST;
/*
 * Replays the logs that replay_need was given since the last call, into the tablets of this kind.  load: the request
 * with these tablets.  *why is set as server_start sets it.
 */
void replay_level(struct server *s, enum kind kind, const struct ts_request *load, struct needed_logs *n, char **why);
/* The error of a log that the redo set names; 0: none. */
int replay_error(const struct needed_logs *n, const struct redo_point *redo, unsigned count) TFS_MUST;
void replay_needed_fini(struct needed_logs *n);

/* ---- retire.c: splits, merges and unloads ---- */
extern const struct server_part retire_part;
struct retire {
	struct mutex lock; /* guards retiring */
	struct cond ended;
	bool retiring;            /* a split, merge or UNLOAD is under way */
	_Atomic unsigned unloads; /* requests UNLOAD under way */
	struct server *s;
	struct task_pool *pool;
	struct task task;         /* splits large tablets, merges small ones */
	struct task resolve_task; /* resolves merges whose outcome is unknown */
	uint64_t resolve_wait_us; /* pause before it repeats; used by the task only, as the next member */
	unsigned resolve_at;      /* where in the list of tablets it begins */
};
/* Returns true if a request UNLOAD is under way. */
bool retire_unloads(struct server *s);
/* Queues the task that splits and merges tablets by size. */
static inline void retire_soon(struct server *s)
{
	server_queue(s, &s->retire->task);
}
/* Queues the task that resolves merges. */
static inline void retire_resolve_after(struct server *s, uint64_t us)
{
	if (!s->closing)
		task_queue_after(&s->retire->resolve_task, us);
}
/* TS_UNLOAD */
int tablets_unload(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* Splits the tablet that contains row, at row.  Returns 0, WRITES_BLOCKED or -errno; -EEXIST: a tablet begins there. */
int tablets_split(struct server *s, uint32_t table, struct tfs_bytes row) TFS_MUST;
/* Merges the tablet that contains row with the next one.  Returns as tablets_split, and -ENOENT if there is no next one. */
int tablets_merge(struct server *s, uint32_t table, struct tfs_bytes row) TFS_MUST;
/* ts_assigned.merge_bytes and border */
uint64_t merge_bytes_of(struct server *s, struct served_tablet *served, bool *border);

/* ---- split.c, merge.c, unload.c: the durable steps; functions for retire_run (retire.c) ---- */
/* Splits v[0] at a row.  -EEXIST: a tablet begins there. */
int split_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Deletes the row of the lower part of a split that failed, if it may exist. */
int split_resolve(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Merges v[0] with v[1], its upper neighbour. */
int merge_tablets(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Completes a merge after METADATA was found to have no row of v[0]. */
int merge_finish(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Ends the service of v[0]. */
int unload_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Step 2 for a tablet that is not in the set, if its row names this server and this number. */
int unload_row(struct server *s, enum kind kind, const struct ts_assigned *t) TFS_MUST;

#endif
