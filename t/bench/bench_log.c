/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log beside a bare loop that appends to a preallocated, zeroed
 * file and calls fdatasync: the same file system, the same bytes, by turns in
 * one run.  Ratios are the bare loop's time divided by ours; above 1: ours is
 * faster.
 *
 * usage: bench_log DIR (on the disk to measure; not a tmpfs)
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/task.h"
#include "engine/log/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUE_BYTES 1000u
#define MAX_GROUP 100u

static const char *dir;
static uint8_t value[VALUE_BYTES];

static void die(const char *what, int err)
{
	if (err) {
		fprintf(stderr, "bench_log: %s: %s\n", what, strerror(-err));
		exit(1);
	}
}

static int unlink_one(void *arg, const char *name, bool is_dir)
{
	char *p = path_join(arg, name);
	int err = is_dir ? 0 : file_unlink(p);

	free(p);
	return err;
}

static double bare(unsigned groups, unsigned group, bool sync)
{
	char *path = path_join(dir, "bare");
	uint64_t total = (uint64_t)groups * group * VALUE_BYTES, began, off = 0;
	uint8_t *bytes = malloc((size_t)group * VALUE_BYTES);
	struct file *f;

	die(path, file_open(path, FILE_CREATE, &f));
	die(path, file_preallocate(f, 0, total, true));
	die(path, file_sync(f));
	began = monotonic_us();
	for (unsigned i = 0; i < groups; i++) {
		for (unsigned k = 0; k < group; k++)
			memcpy(bytes + (size_t)k * VALUE_BYTES, value, VALUE_BYTES);
		die(path, file_pwrite(f, bytes, (size_t)group * VALUE_BYTES, off));
		off += (uint64_t)group * VALUE_BYTES;
		if (sync)
			die(path, file_sync(f));
	}
	began = monotonic_us() - began;
	file_close(f);
	die(path, file_unlink(path));
	free(path);
	free(bytes);
	return (double)began;
}

struct job {
	struct log *log;
	unsigned groups, group;
	bool sync;
};

static void *append(void *arg)
{
	struct job *j = arg;
	struct log_ticket t[MAX_GROUP];

	for (unsigned i = 0; i < j->groups; i++) {
		for (unsigned k = 0; k < j->group; k++) {
			struct log_record r = {
				.table = 5,
				.row_from = slice_str("com.cnn.www/row"),
				.row_to = slice_str("com.cnn.www/row"),
				.seq = i,
				.batch = slice_of(value, VALUE_BYTES - 70), /* frame and rows fill the rest */
			};

			die("log_wait_room", log_wait_room(j->log));
			die("log_submit", log_submit(j->log, &r, j->sync, &t[k]));
		}
		for (unsigned k = 0; k < j->group; k++)
			die("log_wait", log_wait(j->log, &t[k]));
	}
	return NULL;
}

static double ours(struct task_pool *pool, unsigned threads, unsigned groups, unsigned group, bool sync)
{
	char *path = path_join(dir, "log");
	struct log_options o = {
		.dir = path, .incarnation = 1, .segment_bytes = 64 << 20, .sync_interval_us = 1000000, .pool = pool};
	struct job j = {.groups = groups / threads, .group = group, .sync = sync};
	pthread_t t[16];
	struct log_stats st;
	uint64_t began;

	die(path, file_mkdir(path));
	die(path, log_new(&o, &j.log));
	began = monotonic_us();
	for (unsigned i = 1; i < threads; i++)
		die("thread", -pthread_create(&t[i], NULL, append, &j));
	append(&j);
	for (unsigned i = 1; i < threads; i++)
		pthread_join(t[i], NULL);
	began = monotonic_us() - began;
	log_get_stats(j.log, &st);
	printf("#   %" PRIu64 " records, %" PRIu64 " groups, %" PRIu64 " syncs, %" PRIu64 " switches\n", st.records, st.groups,
		st.syncs, st.switches);
	die(path, log_free(j.log));
	die(path, file_list(path, unlink_one, path));
	die(path, file_rmdir(path));
	free(path);
	return (double)began;
}

static void compare(struct task_pool *pool, const char *name, unsigned threads, unsigned groups, unsigned group, bool sync)
{
	double a = bare(groups, group, sync), b = ours(pool, threads, groups, group, sync);
	double records = (double)groups * group;

	printf("%-34s bare %9.0f/s (%7.2f us)  log %9.0f/s (%7.2f us)  ratio %.2f\n", name, records / a * 1e6, a / records,
		records / b * 1e6, b / records, a / b);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct task_pool *pool;

	if (argc != 2) {
		fprintf(stderr, "usage: bench_log DIR\n");
		return 2;
	}
	dir = argv[1];
	for (unsigned i = 0; i < VALUE_BYTES; i++)
		value[i] = (uint8_t)(i * 131);
	die("pool", task_pool_new("log", 2, &pool));
	for (unsigned round = 0; round < 2; round++) {
		compare(pool, "synced, one at a time", 1, 10000, 1, true);
		compare(pool, "synced, groups of 100", 1, 1000, 100, true);
		compare(pool, "synced, 8 threads (bare: one)", 8, 16000, 1, true);
		compare(pool, "unsynced, one at a time", 1, 100000, 1, false);
		compare(pool, "unsynced, groups of 100", 1, 1000, 100, false);
		compare(pool, "unsynced, 2 threads (bare: one)", 2, 100000, 1, false);
	}
	task_pool_free(pool);
	return 0;
}
