/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the tablet service.  Any thread may call these. */
#ifndef TFS_CLIENT_CALL_H
#define TFS_CLIENT_CALL_H

#include "engine/rpc/tablet_service.h"

enum { LOST_MOST = 8 }; /* how often a lost scan or action is begun again at most */
/*
 * Calls the service, and polls until an action that the request starts (FLUSH,
 * COMPACT, SPLIT, MERGE) has ended.  If a router gives up, because no server serves
 * the row or has answered, this function logs the error.  Returns 0, -TABLE_DROPPED,
 * -SESSION_ENDED (the caller is a server whose session has ended), or the errno of a
 * user: -EIO, or -ETIMEDOUT if the request may have been carried out.  From a brief
 * service (tablet_service.h) it returns each outcome, and logs nothing.
 */
int call_tablet_service(struct tablet_service *svc, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* Receives the answer to a request that was sent and starts no action.  Errors as above. */
int receive_tablet_service(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* Closes a scan of the service.  An error is ignored, because the server drops the scan in any case. */
void close_scan(struct tablet_service *svc, uint32_t table, uint64_t scan);

/* Returns true if the server of an open scan or action, or the channel to it, has lost it. */
bool call_is_lost(int err);

#endif
