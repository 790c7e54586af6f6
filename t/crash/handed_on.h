/* SPDX-License-Identifier: Apache-2.0 */
/* Unsynced data of a killed process that the next process reads (handed_on.c). */
#ifndef T_CRASH_HANDED_ON_H
#define T_CRASH_HANDED_ON_H

#include <stdbool.h>
#include <stdint.h>

enum handed { HANDED_KEPT, HANDED_LOST, HANDED_FAILED };
struct handed_plan {
	uint64_t killed; /* the operation at which the first process dies; past its last one: when it is done */
	uint64_t skip;   /* the sync left out, or 0 */
	bool writes;     /* the second process changes something as well */
};

/* One run, in point_store_dir.  Leaves the syncs in `told`, and in rose_at the operation at which the second process began. */
enum handed handed_on(const struct handed_plan *p);

#endif
