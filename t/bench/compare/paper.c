/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench engine: the workload of the paper's section 7.
 *
 * Each line is run on one side and then at once on the next, so that all
 * meet the same machine.  Write lines begin with an empty database.  Read
 * lines use one filled in random order and then compacted on all sides
 * (unless --no-compact).
 */
#include "engine/base/file.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum work { WORK_WRITE_SEQ, WORK_WRITE_RANDOM, WORK_WRITE_SYNC, WORK_READ_RANDOM, WORK_READ_SEQ, WORK_SCAN };

struct line {
	const char *name, *what;
	enum work work;
	bool holds_all;    /* the cache does */
	bool rival_memory; /* the rivals' write buffers as large as our memtables */
	enum stamps stamps;
	bool cold, warm;
	bool others; /* the timed cells differ from the cells that warmed the cache */
	/* the threads of a run */
	unsigned threads;
	uint64_t shift; /* random reads: where in the order they begin */
};

static const struct line lines[] = {
	{.name = "seqwrite", .what = "sequential write", .work = WORK_WRITE_SEQ},
	{.name = "randwrite", .what = "random write", .work = WORK_WRITE_RANDOM},
	{.name = "randwrite-mem", .what = "random write, rivals' buffers as ours", .work = WORK_WRITE_RANDOM, .rival_memory = true},
	{.name = "randwrite-auto", .what = "random write, ours with TFS_AUTO", .work = WORK_WRITE_RANDOM, .stamps = STAMP_AUTO},
	{.name = "syncwrite", .what = "synced random write", .work = WORK_WRITE_SYNC},
	{.name = "randread-cold", .what = "random read, caches dropped, reopened", .work = WORK_READ_RANDOM, .cold = true},
	{.name = "randread-warm",
		.what = "random read (mem), the cache holds all",
		.work = WORK_READ_RANDOM,
		.warm = true,
		.holds_all = true},
	{.name = "randread-small", .what = "random read, warm, cache of --cache", .work = WORK_READ_RANDOM, .warm = true},
	{.name = "randread-new",
		.what = "random read, cache of --cache, other cells",
		.work = WORK_READ_RANDOM,
		.warm = true,
		.others = true},
	{.name = "seqread", .what = "sequential read (point reads in order)", .work = WORK_READ_SEQ},
	{.name = "scan-cold", .what = "scan of the table, caches dropped", .work = WORK_SCAN, .cold = true},
	{.name = "scan", .what = "scan of the table, rivals: their iterator", .work = WORK_SCAN, .warm = true},
};
#define LINES (sizeof(lines) / sizeof(*lines))

static bool writes(const struct line *l)
{
	return l->work == WORK_WRITE_SEQ || l->work == WORK_WRITE_RANDOM || l->work == WORK_WRITE_SYNC;
}

static int do_scan(struct job *j)
{
	char from[BENCH_KEY_BYTES + 1], to[BENCH_KEY_BYTES + 1];
	uint64_t cells;
	int err;

	feed_key(from, j->from);
	feed_key(to, j->to);
	err = j->side->scan(j->db, from, j->to == j->o->cells ? NULL : to, 0, &cells, &j->sum);
	return err ? err : cells == j->to - j->from ? 0 : -EBADMSG;
}

static int run_job(struct job *j)
{
	const struct line *l = j->line;
	char key[BENCH_KEY_BYTES + 1];
	int err = 0;

	if (l->work == WORK_SCAN)
		return do_scan(j);
	for (uint64_t i = j->from; i < j->to && !err; i++) {
		uint64_t n = i;

		if (l->work != WORK_WRITE_SEQ && l->work != WORK_READ_SEQ)
			n = j->o->order[(i + l->shift) % j->o->cells];
		feed_key(key, n);
		err = writes(l) ? job_put(j, key, n, l->work == WORK_WRITE_SYNC) : job_get(j, key);
	}
	return err;
}

static uint64_t ops_of(const struct bench_options *o, const struct line *l)
{
	if (l->work == WORK_WRITE_SYNC)
		return o->synced;
	if (l->work == WORK_READ_RANDOM)
		return l->cold ? o->cold_reads : o->reads;
	return o->cells;
}

static int one_side(const struct bench_options *o, unsigned side, void *line, struct took *took)
{
	struct line l = *(struct line *)line;
	struct side_options so = side_options(o, side);
	uint64_t ops = ops_of(o, &l);
	void *db;
	int err = 0;

	so.fresh = writes(&l);
	so.stamps = l.stamps;
	if (l.rival_memory)
		so.memtable_bytes = o->memtable_bytes;
	if (l.holds_all) /* with headroom, because the cache has shards with hard limits */
		so.cache_bytes = (size_t)(o->cells * (o->value_bytes + 64) * 3 / 2) + (64u << 20);
	if (l.cold && drop_caches())
		complain("the kernel's caches cannot be dropped (root is needed): cold is not cold");
	db = o->sides[side]->open(&so);
	if (!db)
		return -EIO;
	if (l.warm)
		err = run_jobs(o, o->sides[side], db, run_job, &l, ops, l.threads, false, took);
	if (l.others)
		l.shift = ops;
	if (!err)
		err = run_jobs(o, o->sides[side], db, run_job, &l, ops, l.threads, false, took);
	o->sides[side]->close(db);
	return err;
}

/* Fills a database in random order for the read lines, and compacts it. */
static int prepare(const struct bench_options *o, unsigned side)
{
	struct side_options so = side_options(o, side);
	struct line l = {.work = WORK_WRITE_RANDOM};
	struct took t;
	void *db;
	int err;

	so.fresh = true;
	db = o->sides[side]->open(&so);
	if (!db)
		return -EIO;
	err = run_jobs(o, o->sides[side], db, run_job, &l, o->cells, 1, false, &t);
	if (!err && !o->no_compact)
		err = o->sides[side]->compact(db);
	o->sides[side]->close(db);
	return err;
}

static int prepare_all(const struct bench_options *o)
{
	uint64_t bytes;
	int err = 0;

	for (unsigned i = 0; i < o->side_count && !err; i++)
		if (!o->reuse || file_stat_size(o->dirs[i], &bytes))
			err = prepare(o, i);
	return err;
}

static int print_sizes(const struct bench_options *o)
{
	uint64_t raw = o->cells * (o->value_bytes + BENCH_KEY_BYTES), ours = 0;
	int err = 0;

	printf("%-15s bytes of SSTables%s, of %" PRIu64 " of keys and values:", "size", o->no_compact ? "" : " after compaction",
		raw);
	for (unsigned i = 0; i < o->side_count && !err; i++) {
		uint64_t bytes;

		err = o->sides[i]->size(o->dirs[i], &bytes);
		if (err)
			break;
		if (i == 0)
			ours = bytes;
		printf(i ? " | %s %" PRIu64 ": ratio %.2f" : " %s %" PRIu64, o->sides[i]->name, bytes,
			ours ? (double)bytes / (double)ours : 0);
	}
	printf("\n");
	return err;
}

static int run_log(const struct bench_options *o)
{
	struct took t[BENCH_SIDES] = {0};
	struct bench_options two = *o;
	uint64_t records;
	int err;

	two.side_count = 2;
	err = bench_log(o, &t[0].wall, &t[1].wall, &records);
	t[0].ops = t[1].ops = records;
	if (!err)
		print_line(&two, "log", "log in groups of 100; rival: bare loop", 1, t);
	else
		complain("commit log: %s", strerror(-err));
	return err;
}

static int run(const struct bench_options *o)
{
	bool prepared = false;
	int err = 0;

	print_heading(o);
	for (unsigned i = 0; i < LINES && !err; i++) {
		if (!line_wanted(o, lines[i].name))
			continue;
		if (!writes(&lines[i]) && !prepared) {
			err = prepare_all(o);
			prepared = true;
		}
		for (unsigned t = 0; t < o->thread_counts && !err; t++) {
			struct took took[BENCH_SIDES];
			struct line l = lines[i];

			l.threads = o->threads[t];
			err = take_turns(o, one_side, &l, took);
			if (!err)
				print_line(o, l.name, l.what, l.threads, took);
		}
	}
	if (!err && line_wanted(o, "size")) {
		if (!prepared)
			err = prepare_all(o);
		if (!err)
			err = print_sizes(o);
	}
	if (!err && line_wanted(o, "log"))
		err = run_log(o);
	return err;
}

const struct bench_kind bench_paper = {
	.name = "engine",
	.lines = " seqwrite randwrite randwrite-mem randwrite-auto syncwrite randread-cold randread-warm randread-small "
		 "randread-new seqread scan-cold scan size log ",
	.run = run,
};
