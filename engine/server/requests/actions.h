/* SPDX-License-Identifier: Apache-2.0 */
/* Actions: flushes, compactions, splits, merges.  Any thread may call these. */
#ifndef TFS_SERVER_ACTIONS_H
#define TFS_SERVER_ACTIONS_H

#include "engine/server/internal.h"

extern const struct server_part actions_part;
struct actions {
	struct mutex lock; /* RANK_SERVER; guards the list and the fields of its members */
	struct cond ended; /* an action has ended */
	struct action *first;
	uint64_t kept_us; /* the result of an action is kept for so long */
};
typedef int action_fn(struct server *s, const struct ts_request *q, struct ts_answer *a);
/* Starts fn for the request, without its user.  Sets a->scan to the action's number, or to 0 if it has ended. */
int action_begin(struct server *s, const struct ts_request *q, struct ts_answer *a, action_fn *fn) TFS_MUST;
/* TS_POLL.  -SCAN_UNKNOWN: the server has no such action of this client. */
int action_poll(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

#endif
