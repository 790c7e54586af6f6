/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the master; nothing outside master/ includes this. */
#ifndef TFS_MASTER_INTERNAL_H
#define TFS_MASTER_INTERNAL_H

#include "engine/base/mutex.h"
#include "master/master.h"

struct master {
	struct master_service service; /* first */
	struct lock_service *locks;
	struct tablet_service *tablets;
	struct clock *clock;
	struct mutex lock; /* RANK_MASTER: one change at a time */
};

#define TABLE_FILE_MAX (sizeof("tables/") + TFS_NAME_MAX)
/* Writes tables/NAME into file (TABLE_FILE_MAX bytes); a name too long for it becomes "tables/-", which is no table. */
void table_file(char *file, const char *name);
/* The schema of a table and the version of its file.  -ENOENT. */
int master_read(struct master *m, const char *name, struct schema **out, uint64_t *version) TFS_MUST;

/* Writes to the table are held in between: what is seen of it stays so. */
int master_hold(struct master *m, uint32_t table) TFS_MUST;
void master_let_go(struct master *m, uint32_t table);

/* ---- convert.c ---- */
#define CONVERT_FILE_MAX 32
/* 0 if every value of the family is a decimal number; -EBUSY.  The caller holds writes. */
int convert_judge(struct master *m, const struct tfs_schema *old, uint16_t family) TFS_MUST;
/* The file that goes with the schema's change: its name (CONVERT_FILE_MAX bytes) and contents (appended). */
int convert_begin(const struct tfs_schema *old, const uint16_t *families, unsigned count, struct buf *contents,
		  char *file) TFS_MUST;
/* Steps 3 and 4; -ENOENT when there is nothing to convert. */
int convert_run(struct master *m, uint32_t table, uint64_t generation) TFS_MUST;

int master_table_create(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_rename(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_list(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;

#endif
