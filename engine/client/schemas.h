/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schemas of tables and snapshots in the lock service.  A table exists if there
 * is a file tables/NAME with its schema, a snapshot if there is a file
 * snapshots/TABLE.NAME.  Only the master writes them (master/tables.c).
 *
 * `version` is the file's; it may be NULL.  The caller frees *out.  Errors:
 * lock_get's.  -ENOENT also means that the name is not valid. Threads: any.
 */
#ifndef TFS_CLIENT_SCHEMAS_H
#define TFS_CLIENT_SCHEMAS_H

#include "engine/lock/lock.h"
#include "engine/schema/schema.h"

int schemas_table(struct lock_service *locks, const char *name, struct schema **out, uint64_t *version) TFS_MUST;
/* The table with this id.  hint: a name that the table may have, or NULL. If the table has another name, all tables are read. */
int schemas_table_by_id(struct lock_service *locks, uint32_t id, const char *hint, struct schema **out, uint64_t *version) TFS_MUST;
int schemas_snapshot(struct lock_service *locks, uint32_t table, const char *name, struct schema **out, uint64_t *version) TFS_MUST;
/* The table or snapshot with this id. */
int schemas_by_id(struct lock_service *locks, uint32_t id, const char *hint, struct schema **out) TFS_MUST;
/* Calls fn for each snapshot of the table (0: of all tables), in the order of their files' names.  A non-zero value ends the calls and is returned. */
typedef int schemas_snapshot_fn(void *arg, uint32_t table, const char *name);
int schemas_each_snapshot(struct lock_service *locks, uint32_t table, schemas_snapshot_fn *fn, void *arg) TFS_MUST;

#endif
