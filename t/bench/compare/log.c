/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log alone, in groups of 100 records with one sync each, compared
 * with the least work of any log: one write of the same values into a
 * preallocated, zeroed file, and fdatasync.
 *
 * Ours drops durable segments while it runs, as minor compactions let a store
 * do, and its first segments are written before the clock starts, as the bare
 * file is.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/log/log.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <stdlib.h>

#define GROUP 100u
#define GROUPS_MAX 2000u
#define ROUNDS 5u
#define SEGMENT_BYTES (64u << 20) /* at most */
#define SEGMENTS 3u               /* at least, while the clock runs */
#define SEGMENTS_BEFORE 3u        /* written before the clock starts; dropped segments are used again after them */

/* As in a store; less for few cells, or most of them would be written before the clock starts. */
static uint64_t segment_bytes(const struct bench_options *o, unsigned groups)
{
	uint64_t bytes = (uint64_t)groups * GROUP * o->value_bytes / SEGMENTS;

	return bytes > SEGMENT_BYTES ? SEGMENT_BYTES : bytes < 1u << 20 ? 1u << 20 : bytes;
}

static int one_group(const struct bench_options *o, struct log *l, uint64_t segment, uint64_t group)
{
	struct log_ticket tickets[GROUP];
	char key[BENCH_KEY_BYTES + 1];
	unsigned sent = 0;
	int err = 0;

	for (unsigned i = 0; i < GROUP && !err; i++) {
		uint64_t n = group * GROUP + i;
		struct log_record r = {.table = 16, .seq = n + 1, .batch = feed_value(o, n)};

		feed_key(key, n);
		r.row_from = r.row_to = tfs_bytes_of(key, BENCH_KEY_BYTES);
		err = log_submit(l, &r, i == GROUP - 1, &tickets[i]);
		sent += !err;
	}
	for (unsigned i = 0; i < sent; i++) {
		int e = log_wait(l, &tickets[i]);

		err = err ? err : e;
	}
	if (!err && log_bytes(l) > 2 * segment)
		err = log_drop_below(l, log_durable_lsn(l));
	return err;
}

static int run_ours(const struct bench_options *o, const char *dir, unsigned groups, double *seconds)
{
	struct log_options lo = {
		.dir = dir, .incarnation = 1, .segment_bytes = segment_bytes(o, groups), .sync_interval_us = 1000000};
	struct task_pool *pool;
	struct log *l = NULL;
	struct log_stats st = {0};
	uint64_t start, g = 0;
	int err = remove_tree(dir);

	if (!err)
		err = file_mkdir(dir);
	if (!err)
		err = task_pool_new("log", 2, &pool);
	if (err)
		return err;
	lo.pool = pool;
	err = log_new(&lo, &l);
	while (!err && st.bytes < SEGMENTS_BEFORE * lo.segment_bytes) {
		err = one_group(o, l, lo.segment_bytes, g++ % groups);
		log_get_stats(l, &st);
	}
	start = monotonic_us();
	for (g = 0; g < groups && !err; g++)
		err = one_group(o, l, lo.segment_bytes, g);
	*seconds = (double)(monotonic_us() - start) / 1e6;
	if (l) {
		int e = log_free(l);

		err = err ? err : e;
	}
	task_pool_free(pool);
	return err;
}

static int run_bare(const struct bench_options *o, const char *path, unsigned groups, double *seconds)
{
	size_t bytes = GROUP * o->value_bytes;
	uint8_t *p = calloc(1, bytes);
	struct file *f = NULL;
	uint64_t start;
	int err = p ? file_unlink(path) : -ENOMEM;

	if (err == -ENOENT)
		err = 0;
	if (!err)
		err = file_open(path, FILE_CREATE, &f);
	for (unsigned g = 0; g < groups && !err; g++) /* a sync of overwritten blocks is faster */
		err = file_pwrite(f, p, bytes, (uint64_t)g * bytes);
	if (!err)
		err = file_sync(f);
	start = monotonic_us();
	for (unsigned g = 0; g < groups && !err; g++) {
		for (unsigned i = 0; i < GROUP; i++)
			memcpy(p + i * o->value_bytes, feed_value(o, (uint64_t)g * GROUP + i).p, o->value_bytes);
		err = file_pwrite(f, p, bytes, (uint64_t)g * bytes);
		if (!err)
			err = file_sync(f);
	}
	*seconds = (double)(monotonic_us() - start) / 1e6;
	file_close(f);
	free(p);
	return err;
}

int bench_log(const struct bench_options *o, double *ours_s, double *bare_s, uint64_t *records)
{
	uint64_t groups = o->cells / GROUP;
	char *dir = path_join(o->dir, "log"), *path = path_join(o->dir, "bare");
	int err = dir && path ? 0 : -ENOMEM;

	if (groups > GROUPS_MAX)
		groups = GROUPS_MAX;
	if (groups < 10)
		groups = 10;
	/* In turn, because the load of the disk by others changes from second to second. */
	for (unsigned i = 0; i < ROUNDS && !err; i++) {
		double ours, bare;

		err = run_ours(o, dir, (unsigned)groups, &ours);
		if (!err)
			err = run_bare(o, path, (unsigned)groups, &bare);
		if (!err && (i == 0 || ours < *ours_s))
			*ours_s = ours;
		if (!err && (i == 0 || bare < *bare_s))
			*bare_s = bare;
	}
	if (!err) {
		*records = groups * GROUP;
		err = remove_tree(dir);
	}
	if (!err)
		err = file_unlink(path);
	free(dir);
	free(path);
	return err;
}
