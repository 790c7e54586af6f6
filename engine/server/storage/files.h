/* SPDX-License-Identifier: Apache-2.0 */
/* The list of SSTables for the collector.  Any thread may call these. */
#ifndef TFS_SERVER_FILES_H
#define TFS_SERVER_FILES_H

#include "engine/server/tables/set.h"

extern const struct server_part files_part;
/* TS_FILES */
int files_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* A sst_retired_fn; arg: the server. */
void files_retired(void *arg, const char *path);
/* Tells the collector that there may be something to remove. */
void files_notify(struct server *s);
/* Runs a round if files were added to the list since the last call.  Returns false if none were. */
bool files_collect(struct server *s);
/* Returns the smallest incarnation above `above` whose log one of the tablets needs, and that is not this server's; 0: none. */
uint64_t logs_needed_next(struct served_tablet *const *list, unsigned count, uint64_t above);

#endif
