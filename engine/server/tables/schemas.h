/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of user tables, as the lock service has them.  Any thread may call these. */
#ifndef TFS_SERVER_SCHEMAS_H
#define TFS_SERVER_SCHEMAS_H

#include "engine/server/tables/tables.h"

extern const struct server_part schemas_part;
/* Files of schemas that a watch has reported and that were not read yet. */
enum { CHANGED_FILES = 16 };
struct changed_files {
	char files[CHANGED_FILES][SCHEMA_FILE_MAX];
	unsigned count;
	bool all;         /* there were more than CHANGED_FILES: any file may have changed */
	uint64_t reports; /* so far */
};

struct schemas {
	struct server *s;
	struct task task;
	struct mutex lock; /* RANK_FILES; guards changed.  A watch acquires it */
	struct changed_files changed;
	_Atomic bool has_changed;         /* changed is not empty */
	bool loading;                     /* schemas_load: no two files may name one table */
	char (*refused)[SCHEMA_FILE_MAX]; /* files of schemas that are damaged; constant after the start */
	unsigned refused_count;
};
/* Reads the schemas of all tables, and watches them.  *why is set as server_start sets it. */
int schemas_load(struct server *s, char **why) TFS_MUST;
/* Queues the task. */
void schemas_soon(struct server *s);
/* In an embedded store: on return the server has every schema that was stored before the call. */
void schemas_current(struct server *s);
/* The i-th file of a damaged schema, whose table or snapshot is refused; NULL: there are no more. */
const char *schemas_refused(const struct server *s, unsigned i);
/* As user_table_get.  If the table is unknown and the schema of some table could not be read, reads all schemas again first. */
int user_table_find(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
/* Reads all schemas if the table is unknown: the master's request may come before the report of the watch. */
void user_table_learn(struct server *s, uint32_t table);
/*
 * Reads the schemas of the tables of a LOAD, also those that could not be read before.
 * The error does not belong to one table (user_table_error).
 */
int user_tables_read(struct server *s, const struct ts_assigned *v, uint32_t count) TFS_MUST;
/* Reads the table's schema again.  After an error the table's mutations are refused until it has been read. */
void user_table_refresh(struct server *s, uint32_t table);
/* If the table's schema is older than generation, or could not be read, reads it again.  Returns true if it has done so. */
bool user_table_read_again(struct server *s, struct user_table *u, uint64_t generation);
/*
 * Begins a mutation of the table; user_table_write_end ends it.  Returns 0,
 * -TABLE_DROPPED (the table was dropped) or -errno.  If writes are held, it begins nothing:
 * ON_BLOCK_REFUSE returns -EAGAIN.  ON_BLOCK_RETURN returns WRITES_BLOCKED; the end
 * of the hold then calls for retire_soon.
 * *schema is a reference to the table's schema.  If the server's schema is older
 * than generation, the server reads it again first.
 */
int user_table_write_begin(
	struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, struct store_schema **schema) TFS_MUST;
/* Returns 0 if the lock service has a schema of the table; -ECANCELED: it has none; -errno. */
int table_exists(struct server *s, uint32_t table) TFS_MUST;

#endif
