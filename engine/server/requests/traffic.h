/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of requests, and their times.  Any thread may call these. */
#ifndef TFS_SERVER_TRAFFIC_H
#define TFS_SERVER_TRAFFIC_H

#include "engine/server/tables/set.h"

#include <time.h>

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
time_t traffic_since(const struct traffic *t);                                          /* the start of the counts */
int traffic_status(struct server *s, enum request_kind kind, struct buf *out) TFS_MUST; /* appends "12, 50 % within 16 us, ..." */
int traffic_metrics(struct server *s, struct buf *out) TFS_MUST;
/*
 * Appends "12 reads/s, ... in the last 2 s": since this watcher's reading before.
 * A new watcher begins where the latest one is, or at the start of the server.
 */
int traffic_rates(struct server *s, uint64_t watcher, struct buf *out) TFS_MUST;

#endif
