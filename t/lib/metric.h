/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one number of a store's metrics. */
#ifndef TFS_T_METRIC_H
#define TFS_T_METRIC_H

#include "engine/tabletfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of tabletfs_NAME, or of tabletfs_NAME_total, truncated to an integer; UINT64_MAX if there is none. */
static inline uint64_t metric_of(struct tfs_store *s, const char *name)
{
	char *text = NULL, line[96];
	uint64_t v = UINT64_MAX;

	if (tfs_metrics(s, &text))
		return v;
	for (unsigned i = 0; i < 2 && v == UINT64_MAX; i++) {
		const char *at;

		snprintf(line, sizeof(line), "\ntabletfs_%s%s ", name, i ? "_total" : "");
		at = strstr(text, line);
		if (at)
			v = strtoull(at + strlen(line), NULL, 10);
	}
	free(text);
	return v;
}

#endif
