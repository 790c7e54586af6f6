/* SPDX-License-Identifier: Apache-2.0 */
/* Replay of the logs of dead incarnations. */
#ifndef TFS_SERVER_REPLAY_H
#define TFS_SERVER_REPLAY_H

#include "engine/server/tables/set.h"

extern const struct server_part replays_part;
/* The logs that redo sets name, each with the LSN from which it is needed. */
struct needed_logs {
	struct dead_log *v;
	unsigned count;
};

/* The logs that the LOADs of the start need; replays_end_start frees them. */
struct needed_logs *replays_of_start(struct server *s);
void replays_end_start(struct server *s);
/* How many records could not be replayed. */
uint64_t replays_lost(const struct server *s);
/* Adds the logs that the row's redo set names.  Call it before the tablet is made, because the tablet's background work may change the row. */
int replay_need(struct needed_logs *n, const struct meta_tablet *m) TFS_MUST;
/*
 * Replays the logs that replay_need was given since the last call, into the tablets of this kind.  load: the request
 * with these tablets.  *why is set as server_start sets it.
 */
void replay_level(struct server *s, enum kind kind, const struct ts_request *load, struct needed_logs *n, char **why);
/* The error of a log that the redo set names; 0: none. */
int replay_error(const struct needed_logs *n, const struct redo_point *redo, unsigned count) TFS_MUST;
void replay_needed_fini(struct needed_logs *n);

#endif
