/* SPDX-License-Identifier: Apache-2.0 */
/* The service of server_service(), and its parts.  Any thread may call these. */
#ifndef TFS_SERVER_REQUESTS_H
#define TFS_SERVER_REQUESTS_H

#include "engine/server/tables/set.h"

#include <time.h>

/* ---- service.c ---- */
/* The server of a tablet, as its status names it. */

void server_service_init(struct server *s);

/* ---- clients.c: clients of other processes, and their epochs ---- */
extern const struct server_part clients_part;
/* Returns true if the peer (struct ts_request) is root, the user of this process, or a caller in it. */
bool client_is_owner(uint64_t peer);
/* Before and after a request that makes rows of this table in METADATA.  Returns true if the making of the table has ended. */
bool making_begin(struct server *s, uint32_t table) TFS_MUST;
void making_end(struct server *s);
/* TS_BURY */
int clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * Before a request with a client.  -EPOCH_ENDED if the client has begun a later epoch;
 * -EAGAIN if requests of earlier epochs are still under way; -SESSION_ENDED if it is a
 * dead server; -ENOMEM.
 */
int client_begin(struct server *s, const struct ts_request *q) TFS_MUST;
void client_end(struct server *s, const struct ts_request *q); /* called after the request, if client_begin returned 0 */

/* ---- traffic.c: counts of requests, and their times ---- */
extern const struct server_part traffic_part;
enum request_kind { REQUEST_OTHER, REQUEST_READ, REQUEST_WRITE, REQUEST_BATCH, REQUEST_SCAN, REQUEST_SYNC, REQUESTS };

/* Called before and after a request.  traffic_begin returns the time, or 0 if the request is not timed. */
uint64_t traffic_begin(const struct ts_request *q);
void traffic_end(struct server *s, const struct ts_request *q, int err, uint64_t since_us);
void traffic_refused(struct server *s, const struct ts_request *q, int err);            /* counts an error that is a refusal */
void traffic_tablet(struct served_tablet *served, enum table_traffic what, uint64_t n); /* counts for tablet and table */
void traffic_tablet_read(struct served_tablet *served);                                 /* counts one read, by sampling */
_Atomic uint64_t *traffic_refusals(struct traffic *t);                                  /* TS_REFUSALS counts */
uint64_t traffic_failures(const struct traffic *t);                                     /* requests for user tables that failed */
/* When the number of errors in the log was last seen to rise; 0: there is none. */
time_t traffic_error_time(struct traffic *t);
/* Notes the causes of `attention', which are seen now.  traffic_cause appends the last ones, if there are any. */
void traffic_set_cause(struct traffic *t, struct tfs_bytes text);
int traffic_cause(struct traffic *t, struct buf *out, time_t *seen) TFS_MUST;
time_t traffic_since(const struct traffic *t);                                          /* the start of the counts */
int traffic_status(struct server *s, enum request_kind kind, struct buf *out) TFS_MUST; /* appends "12, 50 % within 16 us, ..." */
int traffic_metrics(struct server *s, struct buf *out) TFS_MUST;
/*
 * Appends "12 reads/s, ... in the last 2 s": the rates since this watcher's previous reading.
 * A new watcher begins at the latest watcher's reading, or at the start of the server.
 */
int traffic_rates(struct server *s, uint64_t watcher, struct buf *out) TFS_MUST;

/* ---- scans.c: open scans ---- */
extern const struct server_part scans_part;
enum { NUMBER_BITS = 48 }; /* the bits of a number of a scan or action; the client's router uses the rest */

struct open_scan {
	uint64_t id;
	uint64_t client, epoch; /* the client that opened the scan, and its epoch; other clients cannot use the scan */
	uint64_t idle_since_us; /* monotonic */
	uint64_t batches;       /* answered so far */
	struct served_tablet *served;
	struct tablet_scan *scan;
	struct scan_script *script; /* NULL: none */
	/* Guarded by the lock of struct scans once the scan has a number. */
	bool busy, unused; /* a request uses it; it was closed meanwhile */
	struct open_scan *next;
};
#define SCAN_BUCKETS 64
struct scripts;
struct scans {
	struct mutex lock; /* RANK_SERVER; guards the next members */
	struct open_scan *open[SCAN_BUCKETS];
	bool armed; /* the task is queued */
	struct task task;
	struct server *s;
	uint64_t idle_us;        /* a scan that is idle for this time is freed */
	struct scripts *scripts; /* scripts.c */
};
/* The settings of scripts have changed. */
void scans_change(struct server *s, const struct script_settings *to);
/* Sets *number to a random number above 0. */
int number_draw(uint64_t *number) TFS_MUST;
/* TS_SCAN_OPEN, TS_SCAN_NEXT, TS_SCAN_CLOSE */
int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* Frees the idle scans.  Returns true if other scans are open. */
bool scans_free_idle(struct server *s);
/* Frees the client's scans of epochs below `epoch`: the client does not use them any more. */
void scans_free_client(struct server *s, uint64_t client, uint64_t epoch);

/* ---- scripts.c: the scripts of scans, and their workers ---- */
int scripts_begin(const struct script_settings *o, struct scripts **out) TFS_MUST;
void scripts_change(struct scripts *x, const struct script_settings *to);
void scripts_end(struct scripts *x); /* NULL is allowed */
/* Sets o->script if the scan has one.  Whatever it returns, the caller calls scripts_free. */
int scripts_new(const struct ts_request *q, struct open_scan *o) TFS_MUST;
/*
 * Fills the next batch of a scan with scripts, as tablet_scan_fill does.  The batch may be empty and not the last.  A
 * run whose script fails has a last batch with one cell of the family SCAN_SCRIPT_FAILED: ts is -errno, the value the reason.
 */
int scripts_fill(struct scripts *x, struct server *s, struct open_scan *o, struct scan_batch *b) TFS_MUST;
void scripts_set_batch(struct open_scan *o, size_t bytes);  /* does for such a scan what tablet_scan_set_batch does */
enum tfs_scan_what scripts_what(const struct open_scan *o); /* of the scan that feeds the run */
void scripts_free(struct open_scan *o);

/* ---- actions.c: flushes, compactions, splits, merges ---- */
extern const struct server_part actions_part;
struct actions {
	struct mutex lock; /* RANK_SERVER; guards the list and the fields of its members */
	struct cond ended; /* an action has ended */
	struct action *first;
	uint64_t kept_us; /* the result of an action is kept for this time */
};
typedef int action_fn(struct server *s, const struct ts_request *q, struct ts_answer *a);
/* Starts fn for the request, without its user.  Sets a->scan to the action's number, or to 0 if it has ended. */
int action_begin(struct server *s, const struct ts_request *q, struct ts_answer *a, action_fn *fn) TFS_MUST;
/* TS_POLL.  -SCAN_UNKNOWN: the server has no such action of this client. */
int action_poll(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* ---- changes.c ---- */
/* TS_CHANGES */
int changes_serve(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

#endif
