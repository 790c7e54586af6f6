/* SPDX-License-Identifier: Apache-2.0 */
/* What the tablets of a server share: workers, memory, environments.  Any thread may call these. */
#ifndef TFS_SERVER_ENVIRONMENT_H
#define TFS_SERVER_ENVIRONMENT_H

#include "engine/server/internal.h"

extern const struct server_part env_part;
void environment_fill(struct server *s);                /* fills the environments; the cache and the log exist */
struct task_pool *environment_misc(struct server *s);   /* the workers of the server's tasks; they may wait for a flush */
struct task_pool *environment_of_log(struct server *s); /* the workers of the log */
struct tablet_env *environment_of(struct server *s, enum kind kind);
/* Changes options of users' tablets. */
void environment_change(struct server *s, size_t memtable_bytes, uint64_t compaction_rate);
/* Compactions that users started end with -ECANCELED from now on. */
void environment_will_close(struct server *s);
/* Returns the memory that all memtables use. */
uint64_t memtables_bytes(const struct server *s);

#endif
