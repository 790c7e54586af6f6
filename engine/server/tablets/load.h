/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tablets; the master's requests about them.  Any thread may call these. */
#ifndef TFS_SERVER_LOAD_H
#define TFS_SERVER_LOAD_H

#include "engine/server/tables/set.h"

/* ---- served.c ---- */
/* Makes a tablet from its METADATA row.  On 0 the tablet owns the row's memory and *row is {0}. */
int served_new(
	struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct served_tablet **out) TFS_MUST;
/* Calls set_replace for the tablets of a split or merge, and gives the new ones the table's schema.  Between set_begin and set_end. */
void served_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);

/* TS_LOAD: load.c */
int load_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* TS_LIST: list.c */
int list_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* TS_COPY_TABLE, copy.c: writes the rows of q->to_table, which are those of q->table as of one instant: a->ts. */
int copy_table(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

#endif
