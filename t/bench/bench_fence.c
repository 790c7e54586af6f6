/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the fence's look-up: synced records of 1 and of 32 writers, without a
 * fence and with the look-up of the log's directory, by turns.
 *
 * usage: bench_fence DIR [SECONDS [ROUNDS]]     DIR is on the disk to be measured
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/task.h"
#include "engine/log/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITERS_MOST = 32, ROUNDS_MOST = 64 };

static struct {
	struct log *log;
	char dir[512];
	uint64_t id;
	_Atomic bool stop;
	_Atomic uint64_t records, looks;
} b;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_fence: %s: %s\n", what, strerror(-err));
	exit(1);
}

static int look(void *arg)
{
	uint64_t id;

	(void)arg;
	b.looks++;
	return file_look_up(b.dir, &id) || id != b.id ? -FENCE_LOST : 0;
}

static void *write_on(void *arg)
{
	static const uint8_t batch[200];
	const struct log_record r = {.table = 1,
		.row_from = tfs_str("com.cnn.www"),
		.row_to = tfs_str("com.cnn.www"),
		.seq = 1,
		.batch = {batch, sizeof(batch)}};
	struct log_ticket t;

	(void)arg;
	while (!b.stop) {
		must(log_submit(b.log, &r, true, &t), "submit");
		must(log_wait(b.log, &t), "wait");
		b.records++;
	}
	return NULL;
}

static int unlink_one(void *arg, const char *name, bool is_dir)
{
	char *path = path_join(arg, name);
	int err = is_dir ? 0 : file_unlink(path);

	free(path);
	return err;
}

/* Returns records a second. */
static double run(struct task_pool *pool, unsigned writers, bool fence, double seconds)
{
	struct log_options o = {.dir = b.dir,
		.incarnation = 1,
		.segment_bytes = 64u << 20,
		.sync_interval_us = 1000000,
		.pool = pool,
		.fence = fence ? look : NULL};
	pthread_t thread[WRITERS_MOST];
	uint64_t from;
	double rate;

	must(file_mkdir(b.dir), "mkdir");
	must(file_look_up(b.dir, &b.id), "look up");
	must(log_new(&o, &b.log), "log");
	b.stop = false;
	b.records = 0;
	from = monotonic_us();
	for (unsigned i = 0; i < writers; i++)
		must(-pthread_create(&thread[i], NULL, write_on, NULL), "thread");
	usleep((useconds_t)(seconds * 1e6));
	b.stop = true;
	for (unsigned i = 0; i < writers; i++)
		pthread_join(thread[i], NULL);
	rate = (double)b.records * 1e6 / (double)(monotonic_us() - from);
	must(log_free(b.log), "free");
	must(file_list(b.dir, unlink_one, b.dir), "remove");
	must(file_rmdir(b.dir), "rmdir");
	return rate;
}

static int by_value(const void *a, const void *c)
{
	const double x = *(const double *)a, y = *(const double *)c;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;
	const unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 9;
	static const unsigned writers[] = {1, WRITERS_MOST};
	double rate[2][ROUNDS_MOST], ratio[ROUNDS_MOST];
	struct task_pool *pool;

	if (argc < 2 || rounds > ROUNDS_MOST || rounds == 0) {
		fprintf(stderr, "usage: bench_fence DIR [SECONDS [ROUNDS]]\n");
		return 2;
	}
	snprintf(b.dir, sizeof(b.dir), "%s/bench-fence", argv[1]);
	must(task_pool_new("log", 2, &pool), "pool");
	for (unsigned w = 0; w < 2; w++) {
		for (unsigned i = 0; i < rounds; i++) {
			for (unsigned k = 0; k < 2; k++)
				rate[(k + i) % 2][i] = run(pool, writers[w], (k + i) % 2, seconds);
			ratio[i] = rate[0][i] / rate[1][i];
		}
		qsort(rate[0], rounds, sizeof(double), by_value);
		qsort(rate[1], rounds, sizeof(double), by_value);
		qsort(ratio, rounds, sizeof(double), by_value);
		printf("%2u writers: %.0f records/s without, %.0f with the look-up; time with / without: median %.3f (%.3f to %.3f)\n",
			writers[w], rate[0][rounds / 2], rate[1][rounds / 2], ratio[rounds / 2], ratio[0], ratio[rounds - 1]);
	}
	task_pool_free(pool);
	return 0;
}
