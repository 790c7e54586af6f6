/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master of an embedded store: tables and schemas (paper, section 5).
 * Client data does not pass through it.
 *
 * Threads: the service from any; it handles one request at a time.
 */
#ifndef TFS_MASTER_MASTER_H
#define TFS_MASTER_MASTER_H

#include "engine/base/clock.h"
#include "engine/lock/lock.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"

struct master;
/*
 * tablets: the service of METADATA and of all other tables.  Borrows all
 * pointers.  no_background: pending salts are checked on requests only.
 */
int master_new(struct lock_service *locks, struct tablet_service *tablets, struct clock *clock, bool no_background,
	struct master **out) TFS_MUST;
/* Call it once, before the store serves requests.  An error sets *why to one line; the caller frees it. */
int master_start(struct master *m, char **why) TFS_MUST;
void master_free(struct master *m); /* no call may be running */
struct master_service *master_service(struct master *m);

#endif
