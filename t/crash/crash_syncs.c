/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each fsync of a store's histories left out in turn: who notices?
 *
 * A place that syncs is a line of the engine that asks for it (FILE_PLACE).
 * A single sync may be without effect where it happens to stand, because
 * what it covers has been covered already; so of each place calls are left
 * out one after another, over the histories of a fixed list of seeds, until
 * enough of them have been noticed: until some power cut after it left a
 * store that the next start could not make right.  The histories have no
 * thread that acts by time, and there is no limit but the list, so a run
 * repeats exactly.
 *
 *	crash_syncs [--each] [--seed S] [--histories N]
 *
 * prints for each place "# place PLACE: left out N, noticed M, ..." and the
 * point that noticed it first, for crash_store --skip.  --each leaves out every
 * sync and tells which of them nobody misses.
 */
#include "t/crash/places.h"
#include "t/crash/store_point.h"

#include <stdatomic.h>

#define ENOUGH 2u     /* noticed so often a place is proved */
#define TRIES_MOST 4u /* of a place that nothing has noticed yet */

static uint64_t points;

static bool noticed_by(struct point p, bool thorough, struct point *by)
{
	points++;
	if (try_point(&p, thorough, true))
		return false;
	*by = p;
	return true;
}

/* Soon after it, in every way and by two random choices; then ever further away; then when idle. */
static bool noticed(uint64_t seed, uint64_t k, uint64_t sync_at, uint64_t operations, struct point *by)
{
	uint64_t near = sync_at + 8;

	for (unsigned way = 0; way < 6; way++)
		for (uint64_t at = sync_at + 1; at <= operations && at < near; at++)
			if (noticed_by((struct point){.seed = seed, .at = at, .skip = k, .way = way}, true, by))
				return true;
	for (unsigned way = 0; way < 2; way++) {
		uint64_t step = 1;

		for (uint64_t at = near; at <= operations; at += step, step += way ? step : step / 3 + 1)
			if (noticed_by((struct point){.seed = seed, .at = at, .skip = k, .way = way}, false, by))
				return true;
		if (noticed_by((struct point){.seed = seed, .skip = k, .way = way}, true, by))
			return true;
	}
	return false;
}

static bool skip_history(uint64_t seed, bool each)
{
	static struct told_sync sync[SYNCS_MAX];
	uint64_t operations, syncs;

	if (!prepare(seed))
		return false;
	operations = told->operations;
	syncs = told->syncs < SYNCS_MAX ? told->syncs : SYNCS_MAX;
	memcpy(sync, told->sync, sizeof(sync));
	if (!prepare(seed) || operations != told->operations || memcmp(sync, told->sync, sizeof(sync)) != 0) {
		printf("# seed %llu: another run of it does other things\n", (unsigned long long)seed);
		return false;
	}
	for (uint64_t k = 1; k <= syncs; k++) {
		struct place *p = place_of(sync[k - 1].place);
		struct point by;

		if (!each && (p->seen >= ENOUGH || p->tried >= TRIES_MOST + p->seen))
			continue;
		p->tried++;
		if (noticed(seed, k, sync[k - 1].at, operations, &by)) {
			if (!p->seen++)
				snprintf(p->by, sizeof(p->by), "crash_store --seed %llu --at %llu --way %u --skip %llu (%s)",
					 (unsigned long long)by.seed, (unsigned long long)by.at, by.way, (unsigned long long)by.skip,
					 sync[k - 1].of);
		} else if (each) {
			printf("# nobody misses sync %llu: %s of %s (operation %llu of %llu, seed %llu)\n", (unsigned long long)k,
			       sync[k - 1].place, sync[k - 1].of, (unsigned long long)sync[k - 1].at, (unsigned long long)operations,
			       (unsigned long long)seed);
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	unsigned tried = 0, seen = 0, histories = 3;
	uint64_t seed = 1;
	bool each = false, fine = true;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--each") == 0)
			each = true;
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--histories") == 0 && i + 1 < argc)
			histories = (unsigned)strtoul(argv[++i], NULL, 0);
		else
			return 2;
	}
	tally = share(sizeof(*tally));
	if (!point_begin(0))
		return 2;
	point_by_hand();
	for (unsigned i = 0; i < histories && fine; i++, seed++) {
		while (!history_is_plain(seed))
			seed++;
		fine = skip_history(seed, each);
		if (!fine)
			printf("# seed %llu: the history alone fails\n", (unsigned long long)seed);
	}
	for (unsigned i = 0; i < place_count; i++) {
		tried += places[i].tried;
		seen += places[i].seen != 0;
	}
	places_print();
	point_end();
	printf("%sok 1 - %u syncs left out in %llu power cuts: %u of %u places noticed\n1..1\n", fine ? "" : "not ", tried,
	       (unsigned long long)points, seen, place_count);
	return !fine;
}
