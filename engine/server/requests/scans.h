/* SPDX-License-Identifier: Apache-2.0 */
/* Open scans.  Any thread may call these. */
#ifndef TFS_SERVER_SCANS_H
#define TFS_SERVER_SCANS_H

#include "engine/server/internal.h"

extern const struct server_part scans_part;
enum { NUMBER_BITS = 48 }; /* of a scan or action; the client's router uses the other bits */

struct open_scan {
	uint64_t id;
	uint64_t client, epoch; /* whose request opened it; other clients cannot use it */
	uint64_t idle_since_us; /* monotonic */
	struct served_tablet *served;
	struct tablet_scan *scan;
	struct open_scan *next;
};
#define SCAN_BUCKETS 64
struct scans {
	struct mutex lock; /* RANK_SERVER; guards the next members */
	struct open_scan *open[SCAN_BUCKETS];
	bool armed; /* the task is queued */
	struct task task;
	struct server *s;
	uint64_t idle_us; /* a scan that is idle for so long is freed */
};
/* Sets *number to a random number above 0. */
int number_draw(uint64_t *number) TFS_MUST;
/* TS_SCAN_OPEN, TS_SCAN_NEXT, TS_SCAN_CLOSE */
int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* Frees the idle scans.  Returns true if others are open. */
bool scans_free_idle(struct server *s);
/* Frees the client's scans of epochs below `epoch`: the client does not use them any more. */
void scans_free_client(struct server *s, uint64_t client, uint64_t epoch);

#endif
