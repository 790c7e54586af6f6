/* SPDX-License-Identifier: Apache-2.0 */
/* The row that a worker reads, and the object `r` of scripts. */
#ifndef TFS_SCRIPT_WORKER_ROW_H
#define TFS_SCRIPT_WORKER_ROW_H

#include "engine/script/worker.h"

/* Read the messages from the channel, after CHANNEL_ROW_BEGINS and after CHANNEL_CELL. */
void row_read_key(struct worker *w);
void row_read_cell(struct worker *w);
/* Adds a cell to the row (copies it). */
void row_add(struct worker *w, const struct script_cell *c);
void row_clear(struct worker *w);
/* Pushes the object of the row, which is the same for all rows. */
void row_push_object(lua_State *l);
/* Returns true if the argument is that object. */
bool row_is_object(lua_State *l, int arg);
/* Splits "family:qualifier", an argument; raises an error of the script. */
void row_column(lua_State *l, int arg, struct tfs_bytes *family, struct tfs_bytes *qualifier);

#endif
