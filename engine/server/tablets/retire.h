/* SPDX-License-Identifier: Apache-2.0 */
/* Splits, merges and unloads.  Any thread may call these. */
#ifndef TFS_SERVER_RETIRE_H
#define TFS_SERVER_RETIRE_H

#include "engine/server/tables/set.h"

extern const struct server_part retire_part;
struct retire {
	struct mutex lock; /* guards retiring */
	struct cond ended;
	bool retiring; /* a split, merge or UNLOAD is under way */
	struct server *s;
	struct task_pool *pool;
	struct task task;         /* splits large tablets, merges small ones */
	struct task resolve_task; /* resolves merges whose outcome is unknown */
	uint64_t resolve_wait_us; /* pause before it repeats; used by the task only */
};
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
/* Merges v[0] with v[1], its upper neighbour. */
int merge_tablets(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Completes a merge after METADATA was found to have no row of v[0]. */
int merge_finish(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Ends the service of v[0]. */
int unload_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at) TFS_MUST;
/* Step 2 for a tablet that is not in the set, if its row names this server and this number. */
int unload_row(struct server *s, const struct ts_assigned *t) TFS_MUST;

#endif
