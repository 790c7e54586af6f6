/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench amplify: bytes written and stored for each byte put, when cells
 * are overwritten at random.
 *
 * A table of --cells is filled in random order.  When nothing more is written,
 * one thread overwrites as many cells, drawn at random.  From the first
 * overwrite until nothing was written for a while, the kernel counts
 * (/proc/self/io) the bytes of write calls and the bytes of dirtied pages that
 * are sent to the disk.  Both are divided by the bytes of keys and values put.
 * Space is the size of the database's files at the end, including its log,
 * divided by the keys and values of the live cells.  Values are real text, so
 * a side that compresses better writes and stores less; --plain compares
 * without compression.
 *
 * The sides run in turn, so that each has the machine to itself.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUIET_US 500000u
#define QUIET_LIMIT_US (600u * UINT64_C(1000000))

struct written {
	uint64_t calls, disk;
};

static int read_written(struct written *w)
{
	struct buf text = {0};
	const char *calls, *disk;
	char path[32];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)getpid()); /* the file layer follows no link */
	err = file_read_all(path, 4096, &text);
	if (!err)
		err = buf_u8(&text, 0);
	if (err)
		goto out;
	calls = strstr((char *)text.p, "wchar: ");
	disk = strstr((char *)text.p, "\nwrite_bytes: ");
	if (!calls || !disk) {
		err = -EPROTO;
		goto out;
	}
	w->calls = strtoull(calls + 7, NULL, 10);
	w->disk = strtoull(disk + 14, NULL, 10);
out:
	buf_fini(&text);
	return err;
}

/* Until the process has written nothing for QUIET_US. */
static int wait_quiet(struct written *w)
{
	uint64_t begin = monotonic_us(), since = begin;
	const struct timespec nap = {.tv_nsec = 50000000};
	struct written now;
	int err = read_written(w);

	while (!err && monotonic_us() - since < QUIET_US && monotonic_us() - begin < QUIET_LIMIT_US) {
		nanosleep(&nap, NULL);
		err = read_written(&now);
		if (!err && (now.calls != w->calls || now.disk != w->disk)) {
			*w = now;
			since = monotonic_us();
		}
	}
	return err;
}

struct work {
	bool again; /* overwriting */
};

static int run_job(struct job *j)
{
	const struct work *w = j->line;
	uint64_t seed = feed_hash(j->o->seed + 1);
	char key[BENCH_KEY_BYTES + 1];
	int err = 0;

	for (uint64_t i = j->from; i < j->to && !err; i++) {
		uint64_t n = w->again ? feed_random(&seed) % j->o->cells : j->o->order[i];

		feed_key(key, n);
		err = job_put(j, key, n + i, false);
	}
	return err;
}

struct amplified {
	struct took took;
	struct written before, after;
	uint64_t space;
	double quiet_s; /* from the last overwrite until nothing more was written */
};

static int one_side(const struct bench_options *o, unsigned side, struct amplified *a)
{
	struct side_options so = side_options(o, side);
	struct work fill = {false}, again = {true};
	uint64_t end;
	int err;
	void *db;

	so.fresh = true;
	so.one_version = true;
	so.stamps = STAMP_CLOCK;
	db = o->sides[side]->open(&so);
	if (!db)
		return -EIO;
	err = run_jobs(o, o->sides[side], db, run_job, &fill, o->cells, 1, false, &a->took);
	if (!err)
		err = wait_quiet(&a->before);
	if (!err)
		err = run_jobs(o, o->sides[side], db, run_job, &again, o->cells, 1, true, &a->took);
	end = monotonic_us();
	if (!err)
		err = wait_quiet(&a->after);
	a->quiet_s = (double)(monotonic_us() - end - QUIET_US) / 1e6;
	if (!err)
		err = disk_usage(o->dirs[side], &a->space);
	o->sides[side]->close(db);
	if (!err && !o->reuse)
		err = remove_tree(o->dirs[side]); /* the disk need not hold all of them at once */
	return err;
}

static int run(const struct bench_options *o)
{
	uint64_t raw = o->cells * (o->value_bytes + BENCH_KEY_BYTES);
	int err = 0;

	for (unsigned i = 0; i < o->side_count; i++)
		printf("%s: %s\n", o->sides[i]->name, o->sides[i]->what);
	printf("%" PRIu64 " bytes of keys and values, and as many overwritten; bytes by write calls, to the disk, and kept, "
	       "to one byte of that\n",
		raw);
	printf("%-13s %12s %8s %8s %8s %9s  %s\n", "overwrite", "op/s", "calls", "disk", "space", "quiet s",
		"us, half/99%/99.9%/longest");
	for (unsigned i = 0; i < o->side_count && !err; i++) {
		struct amplified a = {0};
		const struct latency *l = &a.took.latency;

		err = one_side(o, i, &a);
		if (err)
			break;
		printf("%-13s %12.0f %8.2f %8.2f %8.2f %9.1f  %.0f/%.0f/%.0f/%.0f\n", o->sides[i]->name,
			(double)a.took.ops / a.took.wall, (double)(a.after.calls - a.before.calls) / (double)raw,
			(double)(a.after.disk - a.before.disk) / (double)raw, (double)a.space / (double)raw, a.quiet_s,
			latency_us(l, 0.5), latency_us(l, 0.99), latency_us(l, 0.999), latency_us(l, 1));
		fflush(stdout);
	}
	if (err)
		complain("amplify: %s", strerror(-err));
	return err;
}

const struct bench_kind bench_amplify = {.name = "amplify", .lines = " ", .run = run};
