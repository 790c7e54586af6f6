/* SPDX-License-Identifier: Apache-2.0 */
/* Removal of this server's log segments.  Any thread may call these. */
#ifndef TFS_SERVER_LOGS_H
#define TFS_SERVER_LOGS_H

#include "engine/server/internal.h"

extern const struct server_part logs_part;
/* fn: called first in each run of the task, with the size of the store, which may have grown. */
void logs_on_growth(struct server *s, void (*fn)(struct server *s, uint64_t bytes));
struct task *logs_task(struct server *s); /* for log_options.rolled */
/* Queues the task. */
void logs_soon(struct server *s);
/* Returns the size of the log's first segment; largest: the bound of all segments. */
uint64_t logs_first_segment_bytes(uint64_t largest);
/* Flushes all tablets for which there is space, and drops the segments that are then not needed. */
void logs_drop_all(struct server *s);

#endif
