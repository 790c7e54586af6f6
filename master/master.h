/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master's part in an embedded store: tables and schemas (DESIGN 5).
 * Client data never passes through it.
 *
 * Threads: the service from any; changes are made one at a time.
 */
#ifndef TFS_MASTER_MASTER_H
#define TFS_MASTER_MASTER_H

#include "engine/base/clock.h"
#include "engine/lock/lock.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"

struct master;
/* tablets: where METADATA and user tables are served.  All are borrowed.  no_background: what an error ended is not taken up again by itself. */
int master_new(struct lock_service *locks, struct tablet_service *tablets, struct clock *clock, bool no_background,
	struct master **out) TFS_MUST;
/* Finishes what an earlier process began; before anybody is served.  *why (free it): one line naming what is wrong. */
int master_start(struct master *m, char **why) TFS_MUST;
void master_free(struct master *m); /* nobody calls the service any more */
struct master_service *master_service(struct master *m);

#endif
