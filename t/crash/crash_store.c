/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole store dies at each of its file operations, and the next start must find
 * every acknowledged change (t/crash/store_point.c).
 *
 *	crash_store [--points N] [--seconds S] [--seed S]     power cuts
 *	crash_store --kill [...]                              SIGKILL
 *	crash_store --rare [...]                              power cuts at every operation of every step that changes
 *	                                                      tables, schemas, snapshots or tablets, and at no other
 *	crash_store --twice [...]                             SIGKILL, then a power cut in the next process
 *	crash_store --seed S --at N --way W [--kill | --killed N] [--skip K]   one point, verbose
 *
 * crash_syncs leaves out each fsync in turn.
 */
#include "t/crash/store_point.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STRIDE 31u

static void report(const struct point *p)
{
	tally->failures++;
	printf("# FAILED: crash_store --seed %llu --at %llu --way %u%s", (unsigned long long)p->seed, (unsigned long long)p->at,
		p->way, p->kill ? " --kill" : "");
	if (p->killed)
		printf(" --killed %llu", (unsigned long long)p->killed);
	if (p->skip)
		printf(" --skip %llu", (unsigned long long)p->skip);
	printf("\n");
	point_tell(true);
	(void)!try_point(p, false, false);
	point_tell(false);
}

enum mode { POWER_CUT, BY_KILL, TWICE };
static const char *const mode_names[] = {"power cuts", "deaths by SIGKILL", "power cuts after a SIGKILL"};

static bool rare;

/* How many operations after the second opening: during it, soon after it, or much later. */
static uint64_t second_death(uint64_t seed, uint64_t at)
{
	uint64_t x = (seed * 1000003 + at) * 0x9e3779b97f4a7c15u >> 20;

	return 1 + x % (x / 7 % 3 == 0 ? 30 : x / 7 % 3 == 1 ? 90 : 500);
}

/* Every operation of the steps that are rare. */
static void rare_steps(uint64_t seed, enum mode mode, uint64_t most)
{
	uint64_t starts[STEPS_MOST + 1], made = 0;
	unsigned steps = told->steps;

	memcpy(starts, told->starts, steps * sizeof(*starts));
	starts[steps] = told->operations;
	for (unsigned i = 0; i < steps; i++) {
		if (!step_is_rare(seed, i))
			continue;
		for (uint64_t at = starts[i] + 1; at <= starts[i + 1] && made < most && tally->failures <= 5; at++, made++) {
			struct point p = {.seed = seed, .at = at, .kill = mode == BY_KILL, .way = (unsigned)((at + seed) % 4)};

			if (!try_point(&p, made % 16 == 0, true))
				report(&p);
		}
	}
}

/* Points of one history, every stride-th operation from first on. */
static void one_history(uint64_t seed, enum mode mode, uint64_t first, uint64_t stride, uint64_t most, time_t end)
{
	uint64_t operations, made = 0;

	if (!prepare(seed)) {
		printf("# seed %llu: the history alone fails\n", (unsigned long long)seed);
		tally->failures++;
		return;
	}
	operations = told->operations;
	if (rare) {
		rare_steps(seed, mode, most);
		return;
	}
	for (uint64_t at = first; at <= operations + 1 && made < most && (!end || time(NULL) < end); at += stride, made++) {
		struct point p = {.seed = seed,
			.at = at > operations ? 0 : at,
			.kill = mode == BY_KILL,
			.way = (unsigned)((at / stride + seed) % 4)};

		if (mode == TWICE) {
			p.killed = at;
			p.at = second_death(seed, at);
		}

		if (!try_point(&p, made % 64 == 0, true))
			report(&p);
		if (tally->failures > 5)
			return;
	}
}

static void worker(unsigned job, unsigned jobs, uint64_t seed, enum mode mode, uint64_t points, time_t end)
{
	if (!point_begin(job))
		exit(2);
	/* The first history at each of its operations; of many others a few, from a place of their own. */
	for (uint64_t s = seed + job; tally->points < points && tally->failures <= 5 && (!end || time(NULL) < end); s += jobs)
		one_history(s, mode, s == seed ? 1 : 1 + s % STRIDE, s == seed ? 1 : STRIDE, points - tally->points, end);
	point_end();
}

static void in_workers(unsigned jobs, uint64_t seed, enum mode mode, uint64_t points, time_t end)
{
	for (unsigned job = 0; job < jobs; job++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid < 0)
			exit(2);
		if (pid == 0) {
			worker(job, jobs, seed, mode, points, end);
			fflush(stdout);
			_exit(0);
		}
	}
	for (unsigned job = 0; job < jobs; job++) {
		int status;

		if (wait(&status) < 0 || status)
			tally->failures++;
	}
}

static unsigned single(struct point *p)
{
	bool fine;

	if (!point_begin(0))
		exit(2);
	if (p->skip)
		point_by_hand(); /* crash_syncs does so, too, and may have printed this point */
	if (!prepare_model(p->seed))
		return 1;
	point_tell(true);
	fine = try_point(p, true, false);
	printf("# durable %u answered %u begun %u found %u, at %s\n", told->durable, told->answered, told->begun, told->found,
		told->last_op);
	printf("# the store is left in %s\n", point_store_dir());
	return !fine;
}

int main(int argc, char **argv)
{
	struct point one = {0};
	uint64_t points = 2000, seed = 1;
	unsigned jobs = 1, bad;
	enum mode mode = POWER_CUT;
	bool just_one = false;
	time_t end = 0;

	for (int i = 1; i < argc; i++) {
		uint64_t v = i + 1 < argc ? strtoull(argv[i + 1], NULL, 0) : 0;

		if (strcmp(argv[i], "--kill") == 0) {
			mode = BY_KILL;
			continue;
		}
		if (strcmp(argv[i], "--rare") == 0) {
			rare = true;
			continue;
		}
		if (strcmp(argv[i], "--twice") == 0) {
			mode = TWICE;
			continue;
		}
		if (strcmp(argv[i], "--points") == 0)
			points = v;
		else if (strcmp(argv[i], "--seed") == 0)
			seed = v;
		else if (strcmp(argv[i], "--seconds") == 0)
			end = time(NULL) + (time_t)v;
		else if (strcmp(argv[i], "--jobs") == 0)
			jobs = v ? (unsigned)v : 1;
		else if (strcmp(argv[i], "--at") == 0)
			just_one = true, one.at = v;
		else if (strcmp(argv[i], "--way") == 0)
			one.way = (unsigned)v;
		else if (strcmp(argv[i], "--killed") == 0)
			one.killed = v;
		else if (strcmp(argv[i], "--skip") == 0)
			one.skip = v;
		i++;
	}
	tally = share(sizeof(*tally));
	one.seed = seed;
	one.kill = mode == BY_KILL;
	if (just_one)
		return (int)single(&one);
	in_workers(jobs, seed, mode, points, end);
	bad = tally->failures != 0 || tally->points == 0 || (!end && tally->points < points);
	if (!tally_print() && rare && points >= 400) {
		printf("# of some kind there was none\n");
		bad = 1;
	}
	printf("%s 1 - %llu %s, %llu of them within a history\n1..1\n", bad ? "not ok" : "ok", (unsigned long long)tally->points,
		mode_names[mode], (unsigned long long)tally->crashed);
	return bad != 0;
}
