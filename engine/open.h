/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the composition root for the tools and tests of this source
 * tree.  libtabletfs does not export them.
 *
 * tfs_open_hooked opens a store with a clock that the test sets, a log that
 * reports a stall early, and a close that leaves all memtables to the log.
 */
#ifndef TFS_OPEN_H
#define TFS_OPEN_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

/* FORMAT: two copies (base/copies.h) of one line (doc/formats), for programs that read a data directory without opening it. */
#define STORE_FORMAT_VERSION 2u
int store_format_encode(unsigned version, struct buf *out) TFS_MUST; /* appends */
/* *whole is set if both copies are good, and for format 1, which had one line without checksum.  -EBADMSG. */
int store_format_decode(struct slice file, unsigned *version, bool *whole) TFS_MUST;
/*
 * Reads FORMAT at path.  -EBADMSG damaged; -EPROTO another format; other errors
 * of reading.  An error sets *why to one line with the path; the caller frees it.
 */
int store_format_check(const char *path, bool *whole, char **why) TFS_MUST;

struct clock;
struct server;
struct open_hooks {
	struct clock *clock;   /* borrowed until after tfs_close; NULL: the store's own */
	uint64_t log_stall_us; /* 0: the log's default */
	/* 0: the server's defaults (struct server_options) */
	uint64_t metadata_tablet_bytes, merge_after_us, logs_flush_age_us, look_us, scan_view_us;
	size_t replay_part_bytes;
	unsigned merge_read_tries;
	bool no_flush;         /* read at tfs_close: memtables are not written, the next start replays the log */
	struct server *server; /* set by tfs_open_hooked: the store's server; valid until tfs_close */
};
/* As tfs_open.  hooks must live until tfs_close has returned. */
int tfs_open_hooked(
	const char *source, const struct tfs_options *o, struct open_hooks *hooks, struct tfs_store **out, char **why) TFS_CHECKED;

#endif
