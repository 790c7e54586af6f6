/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the composition root shows to others than the library's callers; not
 * in its exported names.
 *
 * tfs_open for tests: the same store, with a clock that the test sets, a log
 * that calls a stall early, and a close that leaves everything to the log.
 */
#ifndef TFS_OPEN_H
#define TFS_OPEN_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

/* FORMAT: two copies (base/copies.h) of one line (HACKING 4.1), for callers that look at a data directory without opening it. */
#define STORE_FORMAT_VERSION 2u
int store_format_encode(unsigned version, struct buf *out) TFS_MUST; /* appends */
/* *whole: both copies are good.  -EBADMSG.  The line of format 1, which had no checksum, is whole. */
int store_format_decode(struct slice file, unsigned *version, bool *whole) TFS_MUST;
/*
 * Reads FORMAT at path.  -EBADMSG damaged; -EPROTO of another format; other
 * errors of reading.  *why: one line that says so with the path; free() it.
 */
int store_format_check(const char *path, bool *whole, char **why) TFS_MUST;

struct clock;
struct server;
struct open_hooks {
	struct clock *clock;   /* the caller's, for longer than the store; NULL: the store's own */
	uint64_t log_stall_us; /* 0: the log's default */
	/* 0: the server's defaults (struct server_options) */
	uint64_t metadata_tablet_bytes, merge_after_us, logs_flush_age_us, look_us, scan_view_us;
	size_t replay_part_bytes;
	unsigned merge_read_tries;
	bool no_flush;         /* read at tfs_close: memtables are not written out, the next start replays */
	struct server *server; /* set by tfs_open_hooked: the store's server, until tfs_close */
};
/* As tfs_open; hooks live until tfs_close has returned. */
int tfs_open_hooked(
	const char *source, const struct tfs_options *o, struct open_hooks *hooks, struct tfs_store **out, char **why) TFS_CHECKED;

#endif
