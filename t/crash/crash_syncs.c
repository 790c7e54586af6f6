/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each fsync of a store's histories is left out in turn, and a power cut must show
 * that it is missing.
 *
 * A place is a line of the engine that calls for a sync (FILE_PLACE).  A single
 * sync may have no effect, because an earlier sync has covered the same bytes.
 * Calls of each place are therefore left out one after another until enough of them
 * have been noticed: after a power cut the next start found a store that it could
 * not recover.  The syncs of an opening cover the unsynced writes of a killed
 * process; they have their own history, which runs first (handed_on.c).
 *
 * A fixed list of seeds makes the other histories.  No thread in them acts by time and
 * there is no other limit, so each run is the same.
 *
 *	crash_syncs [--each] [--seed S] [--histories N] [--seen PLACE]...
 *
 * prints for each place "# place PLACE: left out N, noticed M, ..." and the point
 * that noticed it first, for crash_store --skip.  --each leaves out every sync and
 * prints those whose absence no point notices.  PLACE, as another program prints it,
 * is not tried.
 */
#include "t/crash/handed_on.h"
#include "t/crash/places.h"
#include "t/crash/store_point.h"

#include <stdatomic.h>

#define ENOUGH 1u       /* noticed so often a place is proved */
#define HANDED_MOST 60u /* tries of a place in what is handed on */
#define TRIES_MOST 4u   /* tries at a place that nothing has noticed yet */
#define WAYS 6u         /* ways of a power cut that are tried at each try */
#define WAYS_MOST 40u   /* the ways at a place that nothing has noticed until then */

static uint64_t points;

static bool noticed_by(struct point p, bool thorough, struct point *by)
{
	points++;
	if (try_point(&p, thorough, true))
		return false;
	*by = p;
	return true;
}

/*
 * Does p, with the sync in its `at` left out, show it?  Soon after it, in
 * every way and by two random choices; then ever further away; then when idle.
 */
#define NEAR 8

static bool noticed_soon(const struct point *p, uint64_t operations, unsigned ways, unsigned most, struct point *by)
{
	struct point q = *p;

	for (q.way = ways; q.way < most; q.way++)
		for (q.at = p->at + 1; q.at <= operations && q.at < p->at + NEAR; q.at++)
			if (noticed_by(q, true, by))
				return true;
	return false;
}

static bool noticed(const struct point *p, uint64_t operations, struct point *by)
{
	uint64_t near = p->at + NEAR;
	struct point q = *p;

	if (noticed_soon(p, operations, 0, WAYS, by))
		return true;
	for (q.way = 0; q.way < 2; q.way++) {
		uint64_t step = 1;

		for (q.at = near; q.at <= operations; q.at += step, step += q.way ? step : step / 3 + 1)
			if (noticed_by(q, false, by))
				return true;
		q.at = 0;
		if (noticed_by(q, true, by))
			return true;
	}
	return false;
}

static void note(struct place *p, const struct told_sync *s, const struct point *by)
{
	if (p->seen++)
		return;
	snprintf(p->by, sizeof(p->by), "crash_store --seed %llu --at %llu --way %u --skip %llu", (unsigned long long)by->seed,
		(unsigned long long)by->at, by->way, (unsigned long long)by->skip);
	snprintf(p->by + strlen(p->by), sizeof(p->by) - strlen(p->by), " (%s)", s->of);
}

static bool kept(const struct handed_plan *p)
{
	bool fine = handed_on(p) == HANDED_KEPT;

	if (!fine)
		printf("# killed at operation %llu: what the next process saw is not there\n", (unsigned long long)p->killed);
	return fine;
}

/* Each sync of the second process is left out in turn.  False: it fails without that. */
static bool skip_in_second(struct handed_plan p, bool each)
{
	static struct told_sync sync[SYNCS_MAX];
	uint64_t syncs, rose_at;

	if (!kept(&p))
		return false;
	rose_at = told->rose_at;
	syncs = told->syncs < SYNCS_MAX ? told->syncs : SYNCS_MAX;
	memcpy(sync, told->sync, sizeof(sync));
	for (p.skip = 1; p.skip <= syncs; p.skip++) {
		const struct told_sync *s = &sync[p.skip - 1];
		struct place *l = place_of(s->place);

		if (s->at <= rose_at || (!each && (l->seen >= ENOUGH || l->tried >= HANDED_MOST)))
			continue;
		points++;
		l->tried++;
		if (handed_on(&p) == HANDED_LOST && !l->seen++)
			snprintf(l->by, sizeof(l->by), "what was handed on at operation %llu (%s)", (unsigned long long)p.killed,
				s->of);
	}
	return true;
}

/* The state that a killed process hands on: at its end, and then at each operation before it. */
static bool skip_handed_on(bool each)
{
	struct handed_plan p = {.killed = UINT64_MAX};
	bool fine = kept(&p);
	const uint64_t last = told->rose_at;

	p.killed = last;
	fine = fine && skip_in_second(p, each);
	for (p.killed = 1; fine && p.killed < last; p.killed++) {
		p.writes = false;
		fine = skip_in_second(p, each);
		p.writes = true;
		fine = fine && skip_in_second(p, each);
	}
	return fine;
}

/* 0: done; 1: it does something by a thread of its own, so that its operations have no fixed numbers; -1: it failed. */
static int skip_history(uint64_t seed, bool each)
{
	static struct told_sync sync[SYNCS_MAX];
	static unsigned tried[PLACES_MAX], again[PLACES_MAX];
	uint64_t operations, syncs;

	if (!prepare(seed))
		return -1;
	operations = told->operations;
	syncs = told->syncs < SYNCS_MAX ? told->syncs : SYNCS_MAX;
	memcpy(sync, told->sync, sizeof(sync));
	/* Old logs are removed in a task, so an operation's number may be off by one or two; which syncs there are must be sure. */
	if (!prepare(seed) || syncs != told->syncs) {
		printf("# seed %llu: another run of it has other syncs\n", (unsigned long long)seed);
		return 1;
	}
	for (uint64_t k = 0; k < syncs; k++)
		if (strcmp(sync[k].place, told->sync[k].place) != 0)
			return 1;
	for (uint64_t k = 1; k <= syncs; k++) {
		struct place *p = place_of(sync[k - 1].place);
		const struct point here = {.seed = seed, .at = sync[k - 1].at, .skip = k};
		struct point by;

		if (!each && (p->seen >= ENOUGH || tried[p - places] >= TRIES_MOST))
			continue;
		tried[p - places]++;
		p->tried++;
		if (noticed(&here, operations, &by))
			note(p, &sync[k - 1], &by);
		else if (each)
			printf("# nobody misses sync %llu: %s of %s (operation %llu of %llu, seed %llu)\n", (unsigned long long)k,
				sync[k - 1].place, sync[k - 1].of, (unsigned long long)sync[k - 1].at,
				(unsigned long long)operations, (unsigned long long)seed);
	}
	/* A sync that matters for one operation only, as a sync of the first opening does, needs more tries. */
	for (uint64_t k = 1; k <= syncs; k++) {
		struct place *p = place_of(sync[k - 1].place);
		const struct point here = {.seed = seed, .at = sync[k - 1].at, .skip = k};
		struct point by;

		if (p->seen || again[p - places]++ >= TRIES_MOST)
			continue;
		if (noticed_soon(&here, operations, WAYS, WAYS_MOST, &by))
			note(p, &sync[k - 1], &by);
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned tried = 0, seen = 0, histories = 1;
	uint64_t seed = 1;
	bool each = false, fine = true;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--each") == 0)
			each = true;
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--seen") == 0 && i + 1 < argc)
			place_of(argv[++i])->seen = ENOUGH;
		else if (strcmp(argv[i], "--histories") == 0 && i + 1 < argc)
			histories = (unsigned)strtoul(argv[++i], NULL, 0);
		else
			return 2;
	}
	tally = share(sizeof(*tally));
	if (!point_begin(0))
		return 2;
	point_by_hand();
	fine = skip_handed_on(each);
	for (unsigned i = 0; i < histories && fine; seed++) {
		int r = history_is_plain(seed) ? skip_history(seed, each) : 1;

		fine = r >= 0;
		i += r == 0;
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
