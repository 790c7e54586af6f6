/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench writers: many threads write at once, with and without sync, and
 * while tablets split.  Tablets split when memtables were flushed, which hold
 * at most a sixteenth of the cells there.
 *
 * Synced writes wait for the disk; the gain of 16 threads over one shows how
 * well the log's leader gathers a group.  Gains are relative to the first
 * number of threads.  Every write is timed: the longest shows the cost of a
 * full memtable, a split or a rival's stall for its caller.  Two numbers show
 * the split's part: the longest wait for a split, as the store counts it, and
 * the longest write of the same workload in one tablet (line whole), with
 * memtables as small and as many compaction threads.
 */
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <stdio.h>

#define TABLET_LEAST (UINT64_C(1) << 20)
#define MEMTABLE_LEAST ((size_t)4 << 20)

struct line {
	const char *name, *what;
	bool sync, small; /* memtables are */
	bool splits;
	unsigned threads;
};

static const struct line lines[] = {
	{.name = "write", .what = "random write"},
	{.name = "sync", .what = "synced random write", .sync = true},
	{.name = "split", .what = "random write, ours splits its tablets", .small = true, .splits = true},
	{.name = "whole", .what = "the same, and nothing splits", .small = true},
};

static int run_job(struct job *j)
{
	const struct line *l = j->line;
	char key[BENCH_KEY_BYTES + 1];
	int err = 0;

	for (uint64_t i = j->from; i < j->to && !err; i++) {
		feed_key(key, j->o->order[i]);
		err = job_put(j, key, j->o->order[i], l->sync);
	}
	return err;
}

static int one_side(const struct bench_options *o, unsigned side, void *line, struct took *took)
{
	struct line *l = line;
	struct side_options so = side_options(o, side);
	uint64_t ops = l->sync ? o->synced * (l->threads > 8 ? 8 : l->threads) : o->cells;
	void *db;
	int err;

	so.fresh = true;
	so.memtable_bytes = o->memtable_bytes;
	/* Tablets split by their files' size: there must be some long before the last write. */
	if (l->small && so.memtable_bytes > o->cells * o->value_bytes / 16)
		so.memtable_bytes =
			o->cells * o->value_bytes / 16 > MEMTABLE_LEAST ? o->cells * o->value_bytes / 16 : MEMTABLE_LEAST;
	if (l->small && !l->splits)
		so.tablet_bytes = UINT64_C(1) << 40;
	else if (l->splits && !o->tablet_bytes) /* a few dozen */
		so.tablet_bytes = o->cells * o->value_bytes / 32 > TABLET_LEAST ? o->cells * o->value_bytes / 32 : TABLET_LEAST;
	db = o->sides[side]->open(&so);
	if (!db)
		return -EIO;
	err = run_jobs(o, o->sides[side], db, run_job, l, ops < o->cells ? ops : o->cells, l->threads, true, took);
	if (!err && l->splits && o->sides[side]->tablets) {
		took->tablets = o->sides[side]->tablets(db);
		took->split_wait_us = o->sides[side]->split_wait(db);
	}
	o->sides[side]->close(db);
	return err;
}

static double rate(const struct took *t)
{
	return (double)t->ops / t->wall;
}

static void print_gains(
	const struct bench_options *o, unsigned threads, unsigned than, const struct took *took, const struct took *one)
{
	printf("  %u threads to %u:", threads, than);
	for (unsigned i = 0; i < o->side_count; i++)
		printf("%s %s %.2f times", i ? "," : "", o->sides[i]->name, rate(&took[i]) / rate(&one[i]));
	printf("\n");
	fflush(stdout);
}

static int run(const struct bench_options *o)
{
	int err = 0;

	print_heading(o);
	for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct took one[BENCH_SIDES], took[BENCH_SIDES];

		for (unsigned t = 0; t < o->thread_counts && !err && line_wanted(o, lines[i].name); t++) {
			struct line l = lines[i];

			l.threads = o->threads[t];
			err = take_turns(o, one_side, &l, took);
			if (err)
				break;
			print_line(o, l.name, l.what, l.threads, took);
			print_latencies(o, took);
			if (t)
				print_gains(o, l.threads, o->threads[0], took, one);
			else
				memcpy(one, took, sizeof(one));
		}
	}
	return err;
}

const struct bench_kind bench_writers = {.name = "writers", .lines = " write sync split whole ", .run = run};
