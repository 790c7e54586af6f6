/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded list of changes that will be reported to a watcher.  If there are
 * too many, the list has their tables instead of their rows, and in the end
 * "anything".
 *
 * Threads: the caller locks.
 */
#ifndef TFS_RPC_NOTICES_H
#define TFS_RPC_NOTICES_H

#include "engine/rpc/hello.h"

#define NOTICE_ROWS 256u
#define NOTICE_BYTES ((size_t)64 << 10) /* the most bytes of the row keys of a list */

struct notices {
	struct notice n; /* its rows are `rows` */
	struct notice_row rows[NOTICE_ROWS];
	size_t bytes;
	struct arena keys;
};
/* {0} is an empty list. */
void notices_fini(struct notices *l);
void notices_reset(struct notices *l);
/* Copies the row. */
void notices_add(struct notices *l, const struct notice_row *row);
/* Adds everything that the notice names. */
void notices_add_notice(struct notices *l, const struct notice *n);
static inline bool notice_is_empty(const struct notice *n)
{
	return !n->row_count && !n->schemas && !n->all;
}

#endif
