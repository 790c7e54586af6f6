/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service as a client in another process sees it: it reads the files of schemas
 * and dropped tables through a server.  Nothing can be changed (-EROFS), and there are no
 * watches (-EOPNOTSUPP): the server's notices replace them.  Each read is the server's
 * newest, so lock_sync has nothing to do.
 */
#ifndef TFS_RPC_REMOTE_LOCK_H
#define TFS_RPC_REMOTE_LOCK_H

#include "engine/lock/lock.h"
#include "engine/rpc/channel.h"

/* Borrows the channel until lock_service_free. */
int remote_lock_new(struct channel *c, struct lock_service **out) TFS_MUST;

#endif
