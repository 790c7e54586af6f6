/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tfs_open for tests: the same store, with a clock that the test sets, a log
 * that calls a stall early, and a close that leaves everything to the log.
 * Not in the library's exported names; only tests include this.
 */
#ifndef TFS_OPEN_H
#define TFS_OPEN_H

#include "engine/tabletfs.h"

struct clock;
struct server;
struct open_hooks {
	struct clock *clock;     /* the caller's, for longer than the store; NULL: the store's own */
	uint64_t log_stall_us;   /* 0: the log's default */
	bool no_flush;           /* read at tfs_close: memtables are not written out, the next start replays */
	struct server *server;   /* set by tfs_open_hooked: the store's server, until tfs_close */
};
/* As tfs_open; hooks live until tfs_close has returned. */
int tfs_open_hooked(const char *source, const struct tfs_options *o, struct open_hooks *hooks, struct tfs_store **out,
		    char **why) TFS_CHECKED;

#endif
