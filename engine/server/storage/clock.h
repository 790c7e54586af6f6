/* SPDX-License-Identifier: Apache-2.0 */
/* The server's clock, and its mark in the lock service.  Any thread may call these. */
#ifndef TFS_SERVER_CLOCK_H
#define TFS_SERVER_CLOCK_H

#include "engine/server/internal.h"

extern const struct server_part mark_part;
void clock_mark_start(struct server *s); /* reads the mark, and begins to save it.  Call it before tablets are loaded */
/* Appends a clause, with "; " at its end, to the status line "attention" if the clock is not trusted. */
int server_clock_attention(struct server *s, struct buf *out) TFS_MUST;

#endif
