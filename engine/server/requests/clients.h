/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of other processes, and their epochs.  Any thread may call these. */
#ifndef TFS_SERVER_CLIENTS_H
#define TFS_SERVER_CLIENTS_H

#include "engine/server/internal.h"

extern const struct server_part clients_part;
/* Before and after a request that makes rows of this table in METADATA.  Returns true if the making of the table has ended. */
bool making_begin(struct server *s, uint32_t table) TFS_MUST;
void making_end(struct server *s);
/* TS_BURY */
int clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * Before a request with a client.  -EPOCH_ENDED if the client has begun a later epoch;
 * -EAGAIN if requests of earlier epochs are still under way; -SESSION_ENDED if it is a
 * dead server; -ENOMEM.
 */
int client_begin(struct server *s, const struct ts_request *q) TFS_MUST;
void client_end(struct server *s, const struct ts_request *q); /* after it, if client_begin returned 0 */

#endif
