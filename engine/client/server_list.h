/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet servers that a router has found.  None is removed, so a server keeps its
 * number.
 *
 * Threads: any.  No other lock is acquired under the internal lock (RANK_LOCATIONS).
 */
#ifndef TFS_CLIENT_SERVER_LIST_H
#define TFS_CLIENT_SERVER_LIST_H

#include "engine/base/mutex.h"
#include "engine/rpc/tablet_service.h"

#include <stdatomic.h>

#define SERVERS_MOST (1u << 16)

struct server_list {
	_Atomic bool sends; /* a server sends requests (ts_send) */
	struct mutex lock;  /* guards the rest */
	struct tablet_service **v;
	size_t count; /* at most SERVERS_MOST */
};
void server_list_init(struct server_list *l);
void server_list_fini(struct server_list *l);
/* Adds the server, unless the list has it.  -ENOMEM: there is no memory, or there are too many. */
int server_list_add(struct server_list *l, struct tablet_service *s) TFS_MUST;
/* Returns the number of a server that was added. */
uint64_t server_list_number(struct server_list *l, const struct tablet_service *s);
/* Returns NULL if no server has the number. */
struct tablet_service *server_list_at(struct server_list *l, uint64_t number);

#endif
