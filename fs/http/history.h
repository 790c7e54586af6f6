/* SPDX-License-Identifier: Apache-2.0 */
/* An hour of numbers for the status page, and the snapshots with the bytes that they pin; kept in memory. */
#ifndef TFS_FS_HTTP_HISTORY_H
#define TFS_FS_HTTP_HISTORY_H

#include "engine/base/bytes.h"

enum { HISTORY_MINUTES = 60 };
struct history_minute {
	int64_t time;               /* its end, in seconds since 1970 */
	double requests, compacted; /* requests, and bytes that compactions wrote, a second */
	double seconds_99;          /* 99 % of the requests were answered within this time; 0: there was none */
	uint64_t store_bytes;
};
struct history_snapshot {
	char table[65], name[65];
	int64_t time_us;
	uint64_t bytes, pinned_bytes;
};
/* Starts a thread that reads the metrics every minute.  Call it once. */
int history_start(void) TFS_MUST;
void history_stop(void);
/* Copies the minutes, the oldest first.  Returns the number. */
unsigned history_minutes(struct history_minute out[HISTORY_MINUTES]);
/* Returns a copy of the list as it was read last, which the caller frees; NULL: there is none. */
struct history_snapshot *history_snapshots(unsigned *count);

#endif
