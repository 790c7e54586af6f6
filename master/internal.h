/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the master; nothing outside master/ includes this. */
#ifndef TFS_MASTER_INTERNAL_H
#define TFS_MASTER_INTERNAL_H

#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "master/master.h"

struct master {
	struct master_service service; /* first */
	struct lock_service *locks;
	struct tablet_service *tablets;
	struct clock *clock;
	bool no_background;
	struct mutex lock; /* RANK_MASTER: one change at a time, and what follows */
	struct task_pool *pool;    /* made when a conversion first fails; NULL: none has */
	struct task retry;
	uint64_t retry_us;         /* until it is tried again */
	int retry_told;            /* the error that the log has last; 0: none */
	uint32_t *refused;         /* tables that nobody reads or writes because of one */
	unsigned refused_count;
};

#define TABLE_FILE_MAX (sizeof("tables/") + TFS_NAME_MAX)
/* Writes tables/NAME into file (TABLE_FILE_MAX bytes); a name too long for it becomes "tables/-", which is no table. */
void table_file(char *file, const char *name);
/* The schema of a table and the version of its file.  -ENOENT. */
int master_read(struct master *m, const char *name, struct schema **out, uint64_t *version) TFS_MUST;
/* hint: the name the caller knows it by, or NULL; only a renamed table is searched for. */
int master_read_by_id(struct master *m, uint32_t table, const char *hint, struct schema **out, uint64_t *version) TFS_MUST;

/*
 * Writes to the table are held in between: what is seen of it stays so.
 * refuse: of the request of that name; such a table is among those refused.
 */
int master_hold(struct master *m, uint32_t table) TFS_MUST;
void master_let_go(struct master *m, uint32_t table, int refuse);
/* Is it among them?  Best effort.  The caller has the lock. */
void master_note_refused(struct master *m, uint32_t table, bool refused);

/* ---- convert.c ---- */
/* Families whose texts become counters, and rows that get a salt. {0} is none. */
struct conversion {
	uint16_t *families;
	unsigned count;
	bool salt;
	struct buf twins, contents;
	char file[32];
};
static inline bool conversion_is(const struct conversion *c) { return c->count || c->salt; }
void conversion_fini(struct conversion *c);
/* Adds the family if every value of it is a decimal number; -EBUSY.  The caller holds writes. */
int convert_judge(struct master *m, const struct tfs_schema *old, uint16_t family, struct conversion *c) TFS_MUST;
/* Rows are salted if no key of one could be taken for a salted one; -EBUSY.  The caller holds writes. */
int convert_judge_salt(struct master *m, const struct tfs_schema *old, int salt, struct conversion *c) TFS_MUST;
/* The operation that goes with the schema's change; what it points to is c's. */
int convert_step(struct conversion *c, uint32_t table, struct lock_op *op) TFS_MUST;
/* Steps 3 to 5, p being the schema written in 2; -ENOENT when there is nothing to convert. */
int convert_run(struct master *m, const struct tfs_schema *p) TFS_MUST;
/* 0: an earlier one was not finished.  -ENOENT: none was begun.  Else it is not known. */
int convert_pending(struct master *m, uint32_t table) TFS_MUST;
/*
 * At the start, before anybody is served: all that were not finished.  What
 * keeps cells from being converted refuses their table only.  *why as
 * master_start's.
 */
int convert_finish_all(struct master *m, char **why) TFS_MUST;
/* The operation that ends one that has nothing left to convert; what it points to is c's. */
void convert_end_step(struct conversion *c, uint32_t table, struct lock_op *op);
/* Says why one failed, unless it was said last time.  The caller has the lock. */
void convert_tell(struct master *m, const struct tfs_schema *p, int err);
/* One has failed, and is tried again in a while.  The caller has the lock. */
void convert_later(struct master *m);

/* One compare-and-set of the table's file, and in the same step what else changes (name NULL: nothing). */
int write_schema(struct master *m, const struct schema *s, uint64_t version, struct lock_op more) TFS_MUST;

/* ---- tables.c ---- */
/* The next table id, and the version of its file. */
int ids_read(struct master *m, uint32_t *next, uint64_t *version) TFS_MUST;
/* table_has_cells; a table without families holds none, whatever its files are like: it can be dropped when they cannot be read. */
int master_has_cells(struct master *m, const struct tfs_schema *p, uint16_t family, bool hidden, bool *has) TFS_MUST;
int master_table_create(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_rename(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_list(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;

#endif
