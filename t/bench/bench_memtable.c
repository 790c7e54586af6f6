/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast cells go into and out of a memtable: single-threaded inserts in
 * random and in rising order, point seeks, and a scan of the live cells as a
 * tablet server does it (merge, live, batch).  The memory is touched and kept
 * beforehand: a virtual machine's first touch of a page costs more than an
 * insert does.
 *
 *	bench_memtable [COUNT [VALUE_BYTES]]
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/cell/cellkey.h"
#include "engine/cell/memtable.h"
#include "engine/cell/merge.h"

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int err, const char *what)
{
	if (err < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-err));
		exit(1);
	}
}

static void report(const char *what, uint64_t n, double seconds)
{
	printf("%-28s %10" PRIu64 " in %7.3f s  %10.0f/s\n", what, n, seconds, (double)n / seconds);
	fflush(stdout);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x9E3779B97F4A7C15);
	return x ^ (x >> 29);
}

static void row_name(char row[17], uint64_t i, bool random)
{
	uint64_t v = random ? mix(i) : i;

	for (int k = 15; k >= 0; k--, v /= 10)
		row[k] = (char)('0' + v % 10);
	row[16] = 0;
}

/* Into `tables` memtables in turn. */
static double load(struct memtable **m, unsigned tables, uint64_t n, size_t value_bytes, bool random)
{
	uint8_t *value = calloc(1, value_bytes + 1);
	struct buf key = {0};
	double start, spent = 0;

	if (!value)
		exit(1);
	for (uint64_t i = 0; i < n;) {
		/* names are made outside the measured time */
		enum { GROUP = 512 };
		static char rows[GROUP][17];
		uint64_t k;

		for (k = 0; k < GROUP && i + k < n; k++)
			row_name(rows[k], i + k, random);
		start = now_s();
		for (uint64_t j = 0; j < k; j++) {
			struct cellkey ck = {.row = tfs_bytes_of(rows[j], 16),
				.qualifier = tfs_str("q"),
				.family = 1,
				.kind = CELL_VALUE,
				.ts = 1,
				.seq = i + j + 1};
			struct memnode *node;

			buf_reset(&key);
			must(cellkey_append(&key, &ck), "key");
			struct memtable *to = m[(i + j) % tables];

			must(memtable_prepare(to, buf_bytes(&key), tfs_bytes_of(value, value_bytes), &node), "prepare");
			memtable_insert(to, node, false);
		}
		spent += now_s() - start;
		i += k;
	}
	buf_fini(&key);
	free(value);
	return spent;
}

static const struct gc_rule *no_rule(const void *arg, uint16_t family, bool *known)
{
	*known = family != 0;
	return NULL;
}

static void scan(struct memtable **m, unsigned children, enum tfs_scan_what what, const char *name)
{
	struct scan_spec spec = {.pub.what = what};
	struct live_options o = {.rules = {.rule = no_rule}, .seq = UINT64_MAX, .spec = &spec};
	struct scan_batch batch = {0};
	struct iter *its[8], *it;
	struct live *l;
	struct scan_returned already = {0};
	double start = now_s();

	for (unsigned i = 0; i < children; i++)
		must(memtable_iter_new(m[i], &its[i]), "iterator");
	must(merge_iter_new(its, children, 0, &it), "merge");
	must(live_new(it, &o, &l), "live");
	do {
		scan_batch_reset(&batch);
		must(scan_fill(l, &spec, &already, &batch), "scan");
	} while (!batch.done);
	report(name, already.cells, now_s() - start);
	scan_batch_fini(&batch);
	live_free(l);
}

static void gets(struct memtable *m, uint64_t n, uint64_t rounds)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.one_row = true, .pub.versions = 1, .pub.limit = 1};
	struct live_options o = {.rules = {.rule = no_rule}, .seq = UINT64_MAX, .spec = &spec};
	struct scan_batch batch = {0};
	double start = now_s();
	char row[17];

	for (uint64_t i = 0; i < rounds; i++) {
		struct iter *it;
		struct live *l;
		struct scan_returned already = {0};

		row_name(row, mix(i * 7) % n, true);
		spec.pub.row_from = tfs_bytes_of(row, 16);
		must(memtable_iter_new(m, &it), "iterator");
		must(live_new(it, &o, &l), "live");
		scan_batch_reset(&batch);
		must(scan_fill(l, &spec, &already, &batch), "get");
		if (already.cells != 1)
			abort();
		live_free(l);
	}
	report("point read (new view each)", rounds, now_s() - start);
	scan_batch_fini(&batch);
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	size_t value_bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000;
	struct memtable *m, *four[4];

	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	for (int i = 0; i < 2; i++) {
		must(memtable_new(&m), "memtable");
		(void)load(&m, 1, n, value_bytes, false);
		memtable_put(m);
	}
	must(memtable_new(&m), "memtable");
	report("insert, rising", n, load(&m, 1, n, value_bytes, false));
	scan(&m, 1, TFS_SCAN_CELLS, "scan cells");
	memtable_put(m);
	must(memtable_new(&m), "memtable");
	report("insert, random", n, load(&m, 1, n, value_bytes, true));
	printf("memory: %.1f bytes a cell\n", (double)memtable_bytes(m) / (double)n);
	scan(&m, 1, TFS_SCAN_CELLS, "scan cells");
	scan(&m, 1, TFS_SCAN_KEYS, "scan keys");
	scan(&m, 1, TFS_SCAN_ROWS, "scan rows");
	gets(m, n, n / 2);
	memtable_put(m);
	for (int i = 0; i < 4; i++)
		must(memtable_new(&four[i]), "memtable");
	(void)load(four, 4, n, value_bytes, true);
	scan(four, 4, TFS_SCAN_CELLS, "scan cells, 4 interleaved");
	scan(four, 2, TFS_SCAN_CELLS, "scan cells, 2 interleaved");
	for (int i = 0; i < 4; i++)
		memtable_put(four[i]);
	return 0;
}
