/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for people and for machines: the same list as "name value" lines
 * (/.tabletfs/status) and as Prometheus text (/.tabletfs/metrics), where the
 * names of counters end in _total, and times, whose own end in _us, are seconds.
 */
#ifndef TFS_BASE_NUMBERS_H
#define TFS_BASE_NUMBERS_H

#include "engine/base/bytes.h"

struct number {
	const char *name, *help;
	uint64_t value;
	bool gauge; /* else a counter, which only rises */
};
int numbers_status(const struct number *v, unsigned n, struct buf *out) TFS_MUST;  /* appends */
int numbers_metrics(const struct number *v, unsigned n, struct buf *out) TFS_MUST; /* appends */

#endif
