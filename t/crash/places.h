/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places that sync (FILE_PLACE), and how often leaving out a sync of each
 * was noticed.  t/32-each-sync-is-needed.t reads the lines printed here, of all crash
 * programs, and compares them with the places in the sources.
 */
#ifndef T_CRASH_PLACES_H
#define T_CRASH_PLACES_H

#include "t/lib/file_faults.h"

#include <stdio.h>
#include <stdlib.h>

#define PLACE_BYTES 160
#define PLACES_MAX 128u

struct place {
	char name[PLACE_BYTES];
	unsigned tried, seen;
	char by[120]; /* how it was noticed first */
};
static struct place places[PLACES_MAX];
static unsigned place_count;

/* Writes the place's name.  Called by the hook, at a SYNC or SYNCDIR. */
static inline void place_name(char dst[PLACE_BYTES], enum file_op op)
{
	snprintf(dst, PLACE_BYTES, "%s %s", file_sync_place(), file_op_names[op]);
}

static inline struct place *place_of(const char *name)
{
	for (unsigned i = 0; i < place_count; i++)
		if (strcmp(places[i].name, name) == 0)
			return &places[i];
	if (place_count == PLACES_MAX)
		exit(2);
	snprintf(places[place_count].name, PLACE_BYTES, "%s", name);
	return &places[place_count++];
}

static inline void places_print(void)
{
	for (unsigned i = 0; i < place_count; i++) {
		const struct place *p = &places[i];

		printf("# place %s: left out %u, noticed %u%s%s\n", p->name, p->tried, p->seen, *p->by ? ", first by " : "", p->by);
	}
}

/* splitmix64: the next of a sequence of random numbers. */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

#endif
