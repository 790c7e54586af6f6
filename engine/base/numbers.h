/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of numbers as Prometheus text (/.tabletfs/metrics).  The names of
 * counters get the ending _total; a time in microseconds, whose own name ends
 * in _us, is written in seconds.
 */
#ifndef TFS_BASE_NUMBERS_H
#define TFS_BASE_NUMBERS_H

#include "engine/base/bytes.h"

struct number {
	const char *name, *help;
	uint64_t value;
	bool gauge; /* else a counter, which only rises */
};
int numbers_metrics(const struct number *v, unsigned n, struct buf *out) TFS_MUST; /* appends */

#endif
