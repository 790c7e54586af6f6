/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing many rows: tfs_apply from 1, 2 and 4 threads, and a batch with 1, 2
 * and 4 threads fed by one caller, by turns, each into a fresh store.
 *
 *	bench_batch [DIR [ROWS [VALUE_BYTES [sync]]]]
 *
 * DIR (/tmp/bench_batch) is removed before and after.  Rows in random order.
 */
#include "engine/base/clock.h"
#include "engine/tabletfs.h"
#include "t/bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const char *dir = "/tmp/bench_batch";
static uint64_t rows = 200000;
static size_t value_bytes = 1000;
static bool sync_each;
static struct tfs_store *store;
static struct tfs_table *table;
static struct tfs_batch *batch;
static unsigned threads;
static uint8_t text[1 << 20];

static void add_row(uint64_t i)
{
	uint64_t x = i * 0x9e3779b97f4a7c15u;
	struct tfs_mutation *m;
	char key[17];

	snprintf(key, sizeof(key), "%016llx", (unsigned long long)x);
	m = tfs_mutation_new(table, tfs_bytes_of(key, 16));
	if (!m)
		exit(1);
	OK(tfs_mutation_put(m, "f", TFS_S(""), tfs_at(1), tfs_bytes_of(text + x % (sizeof(text) - value_bytes), value_bytes)));
	if (batch)
		OK(tfs_batch_add(batch, m));
	else
		OK(tfs_apply(m, sync_each ? TFS_APPLY_SYNC : 0, NULL));
	tfs_mutation_free(m);
}

static void *writer(void *arg)
{
	uintptr_t t = (uintptr_t)arg;

	for (uint64_t i = rows * t / threads; i < rows * (t + 1) / threads; i++)
		add_row(i);
	return NULL;
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run(bool batched, unsigned n)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};
	struct tfs_batch_options o = {.threads = n, .sync = sync_each};
	pthread_t id[4];
	double before;
	uint64_t from;

	bench_remove(dir);
	OK(tfs_open(dir, NULL, &store, NULL));
	OK(tfs_table_create(store, "t", 0, 0, 0755));
	OK(tfs_table_open(store, "t", &table));
	OK(tfs_schema_change(table, &add, NULL));
	batch = NULL;
	threads = batched ? 1 : n;
	before = cpu();
	from = monotonic_us();
	if (batched)
		OK(tfs_batch_new(table, &o, &batch));
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&id[i], NULL, writer, (void *)i))
			exit(1);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	if (batched)
		OK(tfs_batch_close(batch));
	from = monotonic_us() - from;
	printf("%-6s %u threads %9.0f rows/s  %6.3f s  %6.3f s CPU\n", batched ? "batch" : "apply", n,
		(double)rows * 1e6 / (double)from, (double)from / 1e6, cpu() - before);
	fflush(stdout);
	tfs_table_close(table);
	OK(tfs_close(store));
	bench_remove(dir);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		dir = argv[1];
	if (argc > 2)
		rows = strtoull(argv[2], NULL, 10);
	if (argc > 3)
		value_bytes = strtoull(argv[3], NULL, 10);
	sync_each = argc > 4;
	if (!rows || value_bytes >= sizeof(text))
		return 2;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 2654435761u >> 13);
	for (unsigned n = 1; n <= 4; n *= 2) {
		run(false, n);
		run(true, n);
	}
	return 0;
}
