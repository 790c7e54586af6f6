/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet server (paper, sections 5.2 and 5.3).  It serves the tablets that the
 * master assigns to it (TS_LOAD), through the tablet service.
 *
 * Lifetime: server_new, server_start, then calls of the service; server_ready
 * when the master has assigned what a start needs; server_free when no call is
 * under way.
 * Threads: one thread calls server_new, server_start, server_ready and
 * server_free.  Any thread may call the remaining functions.
 */
#ifndef TFS_SERVER_SERVER_H
#define TFS_SERVER_SERVER_H

#include "engine/base/clock.h"
#include "engine/lock/lock.h"
#include "engine/rpc/tablet_service.h"

/* Limits of scripts (engine/script/script.h); 0 is the default of each. */
struct script_settings {
	uint64_t instructions, memory, time_us;
	unsigned workers_of_user; /* workers that one user has at a time */
};
struct server_options {
	const char *data_dir;
	const char *name;     /* in lists of tablets and servers; NULL: "local" */
	uint64_t incarnation; /* the number of this process; never used before */
	size_t block_cache_bytes, table_cache_bytes, memtable_bytes, log_segment_bytes;
	uint64_t metadata_tablet_bytes; /* a larger tablet of METADATA is split; 0 is the default */
	uint64_t logs_flush_age_us;     /* tablets that need older log records are flushed; 0 is the default */
	size_t replay_part_bytes; /* recovery sorts this many bytes of records at a time; the same for all servers; 0 is the default */
	size_t sorted_bytes;      /* memory for segments of dead servers' logs; more are in files in tmp_dir; 0 is the default */
	const char *tmp_dir;      /* on a local disk; NULL: /var/tmp */
	struct tablet_servers servers;  /* all other servers, which sort segments; {0} if there are none */
	unsigned merge_read_tries;      /* a merge whose step 3 failed reads METADATA this often; 0 is the default */
	uint64_t look_us, scan_view_us; /* as in tablet_env */
	uint64_t merge_after_us;        /* neighbours younger than this are not merged; 0 is the default */
	uint64_t sync_interval_us;      /* unsynced log records are synced after this time */
	uint64_t log_stall_us;          /* 0 is the log's default */
	unsigned compaction_threads;
	uint64_t compaction_rate; /* bytes a second, or 0 without a limit */
	uint64_t major_within_us; /* removed cells leave the disk within this time */
	struct script_settings scripts;
	bool sync; /* every commit is synced before it is answered */
	bool no_background;
	uint64_t clock_gap_us; /* a clock farther from the mark is not trusted; 0 is the default */
	struct clock *clock;   /* the caller's clock; NULL: the server makes its own */
	/*
	 * A server on shared storage: returns true if its lease in the lock
	 * service is held at this moment.  While it is not, the server answers nothing.  Called for each request and commit by
	 * any thread; fast, takes no lock.  NULL: an embedded store.
	 */
	bool (*held)(void *arg);
	/*
	 * The cluster's clock minus this server's (lock_session_clock_offset).  If
	 * they differ by more than LOCK_CLOCK_OFF_US, server_new returns
	 * -CLOCK_OFF; later the server refuses requests as if its tablets were
	 * elsewhere, and ends (`lost`) after 20 s if the clock of one of `servers`
	 * is right.  Called like held.  NULL: 0.
	 */
	int64_t (*clock_offset)(void *arg);
	/* Called once, by any thread, when the server must not answer any more; the program exits. */
	void (*lost)(void *arg, const char *why);
	void *fence_arg;
};

struct server;
/* Copies o, except o->clock.  Borrows locks until server_free. */
int server_new(const struct server_options *o, struct lock_service *locks, struct server **out) TFS_MUST;
/*
 * Sets the service through which the server reads and changes METADATA.
 * Without this call it is the server's own service; an embedded store passes
 * its router's service (engine/open.c).  Call this before server_start.  svc is
 * borrowed until server_free.
 */
void server_set_metadata(struct server *s, struct tablet_service *svc);
/*
 * Reads the schemas.  Tablets can be loaded then.  After an error *why is one line
 * that names the damaged thing, or NULL; the caller frees it.
 */
int server_start(struct server *s, char **why) TFS_MUST;
/* Ends the start: until this call the server does no background work. */
void server_ready(struct server *s);
/* If a damaged SSTable of METADATA can be the cause of err, and *why is NULL, names it in *why. */
void server_name_damage(struct server *s, int err, char **why);
/*
 * A call is carried out by the caller's thread.  Requests of other processes pass
 * through a dispatcher (engine/rpc/dispatch.h), which bounds them.
 */
struct tablet_service *server_service(struct server *s);
/*
 * The session in the lock service has ended, for the reason why (a static string): the server answers
 * nothing any more, and calls server_options.lost.  Any thread; waits for nothing.
 */
void server_lose(struct server *s, const char *why);
/*
 * Checks the store's marker and whether the log can be written.  Background
 * tasks do this once a second; with no_background the caller does it, with its
 * own time.
 */
void server_watch(struct server *s, uint64_t now_us);
/* How the server reaches the collector. */
struct server_collector {
	/*
	 * The collector may have something to remove; at_once: the disk is full.
	 * Called under a lock of rank FILES, so it must not call the server.
	 */
	void (*soon)(void *arg, bool at_once);
	/* Runs a round.  Called by a thread that waits for space, and holds no lock of a rank above COLLECT. */
	void (*now)(void *arg);
	void *arg;
};
/* Copies c, or removes the collector if c is NULL.  On return no thread is in a function of the replaced collector. */
void server_set_collector(struct server *s, const struct server_collector *c);
/*
 * The first part of a clean end: flushes all tablets and ends the service of user
 * tables.  Until server_free METADATA is served, and TS_FILES is answered.
 */
void server_stop(struct server *s);
/*
 * flush: flushes the memtables first, so that the next start has no log to
 * replay.  Returns the error of the log's last sync.
 */
int server_free(struct server *s, bool flush);
struct clock *server_clock(struct server *s);
/* The options that can change while the server runs. */
struct server_settings {
	size_t block_cache_bytes, table_cache_bytes, memtable_bytes;
	uint64_t sync_interval_us, compaction_rate;
	struct script_settings scripts;
	bool sync;
};
void server_change(struct server *s, const struct server_settings *to);
/* Compactions that users started end with -ECANCELED, from now on, so that they do not delay server_free. */
void server_will_close(struct server *s);
/* Trusts the system's clock from now on, because an operator has confirmed it. */
void server_confirm_clock(struct server *s);
/* Releases a part of the reserve for a change in the lock service that found the disk full.  Returns false if it released none. */
bool server_release_space(struct server *s);
/* The latest incarnation with a log in the data directory; 0: none. */
int server_latest_log(const char *data_dir, uint64_t *incarnation) TFS_MUST;
/* Appends eight lines for an operator. */
int server_status(struct server *s, uint64_t watcher, struct buf *out) TFS_MUST;
/* Appends all numbers as Prometheus text. */
int server_metrics(struct server *s, struct buf *out) TFS_MUST;
/* Bytes on disk: SSTables, log, reserve. */
int server_disk_bytes(struct server *s, uint64_t *bytes) TFS_MUST;
/* A summary of the server's load. */
struct server_load {
	const char *name, *state; /* name is the name of the options */
	uint64_t incarnation, bytes;
	unsigned tablets;
};
int server_get_load(struct server *s, struct server_load *out) TFS_MUST;

#endif
