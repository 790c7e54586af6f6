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
	struct mutex lock;      /* RANK_MASTER: one change at a time, and what follows */
	struct task_pool *pool; /* made when a salt first waits */
	struct task look;
	uint32_t *waiting; /* tables whose salt waits until they are empty */
	unsigned waiting_count;
};

#define TABLE_FILE_MAX (sizeof("tables/") + TFS_NAME_MAX)
/* Writes tables/NAME into file (TABLE_FILE_MAX bytes); a name too long for it becomes "tables/-", which is no table. */
void table_file(char *file, const char *name);
/* The schema of a table and the version of its file.  -ENOENT. */
int master_read(struct master *m, const char *name, struct schema **out, uint64_t *version) TFS_MUST;
/* hint: the name the caller knows it by, or NULL; only a renamed table is searched for. */
int master_read_by_id(struct master *m, uint32_t table, const char *hint, struct schema **out, uint64_t *version) TFS_MUST;

/* Writes to the table are held in between: what is seen of it stays so. */
int master_hold(struct master *m, uint32_t table) TFS_MUST;
void master_let_go(struct master *m, uint32_t table);

/* ---- salt.c; the caller has the lock ---- */
/* Does the schema have a salt that is not yet in use? */
bool salt_waits(const struct tfs_schema *p) TFS_MUST;
/* If the table of the schema old holds no cell: replaces *next by one with new tablets, whose salt is in use.  The caller holds writes. */
int salt_use(struct master *m, const struct tfs_schema *old, struct schema **next) TFS_MUST;
/* The master looks from now on whether the table is empty. */
void salt_watch(struct master *m, uint32_t table);

/* One compare-and-set of the table's file; if it names other tablets, the note that old's are dropped with it. */
int write_schema(struct master *m, const struct tfs_schema *old, const struct schema *s, uint64_t version) TFS_MUST;

/* ---- tables.c ---- */
/* The next table id, and the version of its file. */
int ids_read(struct master *m, uint32_t *next, uint64_t *version) TFS_MUST;
#define NOTE_MAX 32
/* Makes a tablet that covers a whole table, under a new id. */
int make_tablets(struct master *m, uint32_t *id) TFS_MUST;
/* The note, for the operation that drops a table's tablets.  name has NOTE_MAX bytes. */
struct lock_op note_of(uint32_t table, char *name);
/* After that operation: the METADATA rows, and the note; what fails here is done at the next start. */
void delete_metadata(struct master *m, uint32_t table);
/* table_has_cells; a table without families holds none, whatever its files are like: it can be dropped when they cannot be read. */
int master_has_cells(struct master *m, const struct tfs_schema *p, uint16_t family, bool *has) TFS_MUST;
int master_table_create(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_rename(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
int master_table_list(struct master *m, const struct ms_request *q, struct ms_answer *a) TFS_MUST;

#endif
