/* SPDX-License-Identifier: Apache-2.0 */
/* Seals of the logs of dead servers, and their sorted segments.  Any thread may call these. */
#ifndef TFS_SERVER_SORTER_H
#define TFS_SERVER_SORTER_H

#include "engine/log/log_seal.h"
#include "engine/server/internal.h"

extern const struct server_part sorter_part;
/* ---- seal.c ---- */
/* TS_SEAL */
int seal_make(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * The directory of a dead server's log, and its seal unless it has none (an
 * embedded store).  -EAGAIN: it must have one and has none yet.  -EBADMSG: the
 * seal is damaged.  The caller frees *dir, and *seal by log_seal_fini.
 */
int seal_read(struct server *s, uint64_t incarnation, bool *sealed, struct log_seal *seal, char **dir, char **why) TFS_MUST;

/* ---- sorter.c ---- */
struct sorter {
	struct mutex lock;       /* guards the next members */
	struct cond ready;       /* a segment has been sorted, or cannot be sorted */
	struct sorted *segments; /* those that are sorted */
	size_t bytes;            /* memory of them */
	struct ts_request next;  /* incarnation, part, parts: what the task sorts next; parts 0: nothing */
	struct task task;
	struct server *s;
	_Atomic uint64_t segments_read; /* by this server */
};
/* TS_SORT */
int sorter_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

#endif
