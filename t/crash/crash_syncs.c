/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each fsync of a store's histories left out in turn: who notices?
 *
 * A place that syncs is a line of the engine that asks for it (FILE_PLACE).
 * A single sync may be without effect where it happens to stand, because
 * what it covers has been covered already; so of each place calls are left
 * out one after another until enough of them have been noticed: some power
 * cut after it left a store that the next start could not make right.  What
 * an opening syncs is what a killed process left undone; so of places that
 * this does not show, syncs are left out in a second process, after a SIGKILL.
 *
 * The histories are those of a fixed list of seeds, and no thread in them acts
 * by time; there is no other limit.  So a run repeats itself.
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
#define OPENING_MOST 60u /* operations of an opening, about */

static uint64_t points;
static unsigned tried_twice[PLACES_MAX];

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
static bool noticed(const struct point *p, uint64_t operations, struct point *by)
{
	uint64_t near = p->at + 8;
	struct point q = *p;

	for (q.way = 0; q.way < 6; q.way++)
		for (q.at = p->at + 1; q.at <= operations && q.at < near; q.at++)
			if (noticed_by(q, true, by))
				return true;
	for (q.way = 0; q.way < 2; q.way++) {
		uint64_t step = 1;

		for (q.at = near; q.at <= operations; q.at += step, step += q.way ? step : step / 3 + 1)
			if (noticed_by(q, false, by))
				return true;
		q.at = p->killed ? UINT64_MAX : 0;
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
	if (by->killed)
		snprintf(p->by + strlen(p->by), sizeof(p->by) - strlen(p->by), " --killed %llu", (unsigned long long)by->killed);
	snprintf(p->by + strlen(p->by), sizeof(p->by) - strlen(p->by), " (%s)", s->of);
}

/* 0: done; 1: it does something by a thread of its own, so that its operations have no fixed numbers; -1: it failed. */
static int skip_history(uint64_t seed, bool each)
{
	static struct told_sync sync[SYNCS_MAX];
	uint64_t operations, syncs;

	if (!prepare(seed))
		return -1;
	if (told->zeroed)
		return 1;
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

		if (!each && (p->seen >= ENOUGH || p->tried >= TRIES_MOST + p->seen))
			continue;
		p->tried++;
		if (noticed(&here, operations, &by))
			note(p, &sync[k - 1], &by);
		else if (each)
			printf("# nobody misses sync %llu: %s of %s (operation %llu of %llu, seed %llu)\n", (unsigned long long)k,
			       sync[k - 1].place, sync[k - 1].of, (unsigned long long)sync[k - 1].at, (unsigned long long)operations,
			       (unsigned long long)seed);
	}
	return 0;
}

/* Are there places that only the second process' death may show?  A sync of an opening covers what the first left. */
static bool wanted(const struct place *p)
{
	return !p->seen && tried_twice[p - places] < TRIES_MOST;
}

/* The first process dies at `killed`; then each sync of the second is left out that nothing has noticed yet. */
static bool skip_twice(uint64_t seed, uint64_t killed)
{
	static struct told_sync sync[SYNCS_MAX];
	const struct point dry = {.seed = seed, .killed = killed, .at = UINT64_MAX, .way = 1};
	bool tried_here[PLACES_MAX] = {false};
	uint64_t operations, syncs, rose_at;

	if (!try_point(&dry, false, true))
		return false;
	operations = told->operations;
	syncs = told->syncs < SYNCS_MAX ? told->syncs : SYNCS_MAX;
	rose_at = told->rose_at;
	memcpy(sync, told->sync, sizeof(sync));
	/* Of each place the last call in the opening: the newest of the files that the dead process wrote. */
	for (uint64_t k = rose_at ? syncs : 0; k > 0; k--) {
		struct place *p = place_of(sync[k - 1].place);
		const struct point here = {.seed = seed, .killed = killed, .at = sync[k - 1].at - rose_at, .skip = k};
		struct point by;

		if (sync[k - 1].at <= rose_at || sync[k - 1].at > rose_at + OPENING_MOST || !wanted(p) || tried_here[p - places])
			continue;
		tried_here[p - places] = true;
		p->tried++;
		tried_twice[p - places]++;
		if (noticed(&here, operations - rose_at, &by))
			note(p, &sync[k - 1], &by);
	}
	return true;
}

static bool any_wanted(void)
{
	for (unsigned k = 0; k < place_count; k++)
		if (wanted(&places[k]))
			return true;
	return false;
}

/*
 * Kills at syncs, when most is unsynced: at each while the store is made, and
 * then at those of the log, which leave records that the next process finds.
 */
static bool history_twice(uint64_t seed)
{
	static struct told_sync sync[SYNCS_MAX];
	uint64_t n;

	if (!prepare(seed))
		return false;
	n = told->syncs < SYNCS_MAX ? told->syncs : SYNCS_MAX;
	memcpy(sync, told->sync, sizeof(sync));
	for (unsigned part = 0; part < 2; part++) {
		memset(tried_twice, 0, sizeof(tried_twice));
		for (uint64_t i = part ? n / 3 : 0; i < (part ? n : 12) && any_wanted(); i++)
			if ((!part || strstr(sync[i].place, "/log.c:")) && !skip_twice(seed, sync[i].at))
				return false;
	}
	return true;
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
		else if (strcmp(argv[i], "--histories") == 0 && i + 1 < argc)
			histories = (unsigned)strtoul(argv[++i], NULL, 0);
		else
			return 2;
	}
	tally = share(sizeof(*tally));
	if (!point_begin(0))
		return 2;
	point_by_hand();
	for (unsigned i = 0; i < histories && fine; seed++) {
		int r = history_is_plain(seed) ? skip_history(seed, each) : 1;

		if (r == 0 && !history_twice(seed))
			r = -1;
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
