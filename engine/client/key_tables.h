/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that a key names (engine/rpc/keys.h): their ids and their files in the lock
 * service.  A snapshot belongs to its table.  A key without tables has all.
 * Threads: any.
 */
#ifndef TFS_CLIENT_KEY_TABLES_H
#define TFS_CLIENT_KEY_TABLES_H

#include "engine/lock/lock.h"
#include "engine/rpc/keys.h"

/* Returns true if id is the id or the tablets id of one of the key's tables, or of a snapshot of such a table.  Returns false if this cannot be read. */
bool key_has_id(struct lock_service *locks, const struct key *k, uint32_t id);
/*
 * Returns true if a file of the lock service, tables/NAME or snapshots/ID.NAME, belongs to the
 * key's tables.  Returns false if this cannot be read.
 */
bool key_has_file(struct lock_service *locks, const struct key *k, const char *file);

#endif
