/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of numbers as Prometheus text (/.tabletfs/metrics).  "_total" is
 * appended to the names of counters.  A number whose name ends in _us is a
 * time in microseconds and is written in seconds.
 */
#ifndef TFS_BASE_NUMBERS_H
#define TFS_BASE_NUMBERS_H

#include "engine/base/bytes.h"

struct number {
	const char *name, *help;
	uint64_t value;
	bool gauge; /* if not set, the number is a counter, which never falls */
};
int numbers_metrics(const struct number *v, unsigned n, struct buf *out) TFS_MUST; /* appends */

#endif
