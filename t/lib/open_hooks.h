/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a store with a clock that the test sets, a log that reports a stall
 * early, and a close that leaves all memtables to the log and collects no files.  The program is
 * linked with $(hooked_libs) and $(hooked_flags), which put open_hooks.c
 * between open.c and the server.
 */
#ifndef TFS_T_LIB_OPEN_HOOKS_H
#define TFS_T_LIB_OPEN_HOOKS_H

#include "engine/base/bytes.h"
#include "engine/lock/term.h"
#include "engine/tabletfs.h"

struct clock;
struct server;
struct master;
struct open_hooks {
	struct clock *clock;   /* borrowed until after tfs_close; NULL for the store's own */
	uint64_t log_stall_us; /* 0 for the log's default */
	/* 0 for the server's defaults (struct server_options) */
	uint64_t metadata_tablet_bytes, merge_after_us, logs_flush_age_us, look_us, scan_view_us;
	size_t replay_part_bytes;
	unsigned merge_read_tries;
	/* The fence of a server on shared storage (struct server_options); NULL: none. */
	struct lock_term term; /* the master's term, if the server has a fence */
	bool (*held)(void *arg);
	int64_t (*clock_offset)(void *arg);
	void (*lost)(void *arg, const char *why);
	void *fence_arg;
	bool no_flush;         /* read at tfs_close: memtables are not written, the next start replays the log */
	struct server *server; /* the store's server, set by tfs_open_hooked, valid until tfs_close */
	struct master *master; /* the store's master, as server */
};
/* Opens a store as tfs_open does.  hooks must live until tfs_close has returned. */
int tfs_open_hooked(
	const char *source, const struct tfs_options *o, struct open_hooks *hooks, struct tfs_store **out, char **why) TFS_CHECKED;

#endif
