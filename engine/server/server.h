/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet server: the set of tablets it serves, their recovery from the
 * logs of dead incarnations, and the tablet service over them (paper,
 * sections 5.2 and 5.3).
 *
 * Lifetime: server_new, server_recover, then the service; server_free last,
 * when no call is under way.
 * Threads: the service from any; new, recover and free from one.
 */
#ifndef TFS_SERVER_SERVER_H
#define TFS_SERVER_SERVER_H

#include "engine/base/clock.h"
#include "engine/lock/lock.h"
#include "engine/rpc/tablet_service.h"

struct server_options {
	const char *data_dir;
	uint64_t incarnation; /* of this process; never used before */
	size_t block_cache_bytes, table_cache_bytes, memtable_bytes, log_segment_bytes;
	uint64_t metadata_tablet_bytes; /* a larger tablet of METADATA is split; 0: the default */
	uint64_t logs_flush_age_us;     /* older log records are flushed; 0: the default */
	size_t replay_part_bytes;       /* records sorted at a time in recovery, in two parts; 0: the default */
	unsigned merge_read_tries;      /* reads of METADATA after an unknown outcome of a merge; 0: the default */
	uint64_t look_us, scan_view_us; /* of tablet_env */
	uint64_t merge_after_us;        /* neighbours younger than this are not merged; 0: the default */
	uint64_t sync_interval_us;
	uint64_t log_stall_us; /* 0: the log's default */
	unsigned compaction_threads;
	uint64_t compaction_rate; /* bytes a second; 0: no limit */
	uint64_t major_within_us; /* removed data is off the disk within this time */
	bool sync;                /* every commit is synced before it is answered */
	bool no_background;
	uint64_t clock_gap_us; /* a clock farther from the mark is not trusted; 0: the default */
	struct clock *clock;   /* the caller's, or NULL: its own */
};

/* The reserve for a full disk (space.c).  The name is on disk in every store. */
#define SERVER_RESERVE_FILE "ballast"

struct server;
int server_new(const struct server_options *o, struct lock_service *locks, struct server **out) TFS_MUST;
/*
 * The calls by which the server changes METADATA: its own service, or (debug
 * builds) a round trip to it.  Before server_recover.
 */
void server_set_metadata(struct server *s, struct tablet_service *svc);
/*
 * Loads the root tablet, METADATA and all tablets, replays the logs of dead
 * incarnations that their redo sets name, and removes files and logs without
 * references.  *why (free it): one line that names the damaged thing.
 */
int server_recover(struct server *s, char **why) TFS_MUST;
struct tablet_service *server_service(struct server *s);
/* Every commit so far is on disk. */
int server_sync(struct server *s) TFS_MUST;
/* flush: flush the memtables first, so that the next start has no log to replay. */
int server_free(struct server *s, bool flush);
struct clock *server_clock(struct server *s);
/* An operator has confirmed the system's clock. */
void server_confirm_clock(struct server *s);
/* Returns true if name, of a file in sst/TABLE, is the name of an SSTable.  Other files are never touched. */
bool server_is_sstable(const char *name, uint64_t *incarnation) TFS_MUST;
/* A change in the lock service found the disk full.  Returns true if a part of the reserve was released for it. */
bool server_release_space(struct server *s);
/* The latest incarnation with a log in the data directory; 0: none. */
int server_latest_log(const char *data_dir, uint64_t *incarnation) TFS_MUST;
/* Appends nine lines for an operator, and a Prometheus text page. */
int server_status(struct server *s, struct buf *out) TFS_MUST;
int server_metrics(struct server *s, struct buf *out) TFS_MUST;
/* Bytes on disk: SSTables, log, reserve. */
int server_disk_bytes(struct server *s, uint64_t *bytes) TFS_MUST;
/* A summary of the server's load. */
struct server_load {
	const char *name, *state; /* static strings */
	uint64_t incarnation, bytes;
	unsigned tablets;
};
int server_get_load(struct server *s, struct server_load *out) TFS_MUST;

#endif
