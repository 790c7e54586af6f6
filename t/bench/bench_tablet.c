/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tablet costs above its parts: unsynced random writes of 1000 bytes,
 * warm point reads of a compacted tablet beside the bare seek of its
 * SSTable's iterator, scans compacted and out of several files and the
 * memtable.  Arguments: cells (default 300000), directory (default /tmp).
 */
#include "t/unit/tablet_lib.h"

#include <time.h>

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t state = 88172645463325252u;
static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint8_t text[1 << 20];

static struct slice key(char *p, uint64_t i)
{
	return slice_of(p, (size_t)snprintf(p, 32, "%016llu", (unsigned long long)i));
}

static void line(const char *what, unsigned n, double s)
{
	printf("%-44s %10.0f/s %8.3f us\n", what, n / s, s / n * 1e6);
	fflush(stdout);
}

static void write_all(struct lib *l, unsigned n, bool newest)
{
	char k[32];

	for (unsigned i = 0; i < n; i++) {
		struct op o = {.kind = OP_WRITE,
			.family = 1,
			.qualifier = {(const uint8_t *)"q", 1},
			.ts = {newest, newest ? INT64_MIN : 5},
			.value = slice_of(text + rnd() % (sizeof text - 1000), 1000),
			.truncate_to = UINT64_MAX};

		LIB(tablet_mutate(l->t, key(k, rnd() % n), &o, 1, (struct op_token){0}, false, NULL));
	}
}

static void read_all(struct lib *l, unsigned n, unsigned rounds, const char *what)
{
	uint8_t value[1000];
	unsigned found = 0;
	double s = now_s();
	char k[32];

	for (unsigned i = 0; i < rounds; i++) {
		size_t got;
		int err = tablet_read(
			l->t, key(k, rnd() % n), 1, slice_of("q", 1), (struct op_time){true, 0}, 0, value, 1000, &got, NULL);

		if (err != -ENOENT)
			LIB(err);
		found += !err;
	}
	line(what, rounds, now_s() - s);
	printf("    (%u of %u found)\n", found, rounds);
}

static void scan_all(struct lib *l, const char *what)
{
	struct scan_spec spec = {.what = SCAN_CELLS};
	struct scan_batch b = {0};
	struct tablet_scan *sc;
	unsigned n = 0;
	double s = now_s();

	LIB(tablet_scan_new(l->t, &spec, &sc));
	do {
		LIB(tablet_scan_fill(sc, &b));
		n += b.count;
	} while (!b.done);
	line(what, n, now_s() - s);
	scan_batch_fini(&b);
	tablet_scan_free(sc);
}

static void bare_seeks(struct lib *l, unsigned n, unsigned rounds)
{
	struct snap snap;
	struct buf prefix = {0};
	struct iter *it;
	uint64_t sum = 0;
	double s;
	char k[32];

	snap_take(l->t, &snap);
	s = now_s();
	for (unsigned i = 0; i < rounds; i++) {
		buf_reset(&prefix);
		LIB(cellkey_column_prefix(&prefix, key(k, rnd() % n), 1, slice_of("q", 1)));
		LIB(sst_iter_new(snap.view->files[0]->sst, &it));
		iter_seek(it, buf_slice(&prefix));
		sum += it->valid ? it->value.n : 0;
		iter_free(it);
	}
	line("bare seek of the SSTable", rounds, now_s() - s);
	buf_fini(&prefix);
	snap_put(&snap);
	if (!sum)
		abort();
}

int main(int argc, char **argv)
{
	static const char *const rule[] = {""};
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 300000;
	static struct lib l;
	double s;

	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (uint8_t)("etaoin shrdlu cmfwyp vbgkjq xz"[rnd() % (rnd() % 4 ? 12 : 30)]);
	lib_init(&l, argc > 2 ? argv[2] : "/tmp");
	l.schema = lib_schema(rule, 1, 1);
	l.schema->groups[0].sst = (struct sst_options){.codec = SST_ZSTD, .level = 3, .block_bytes = 65536, .bloom_bits = 10};
	l.memtable_bytes = 1u << 30;
	l.cache_bytes = (size_t)1 << 30;
	lib_start(&l);
	s = now_s();
	write_all(&l, n, false);
	line("random write, time given, no flush", n, now_s() - s);
	read_all(&l, n, n, "point read, memtable");
	s = now_s();
	LIB(tablet_flush(l.t));
	line("flush", n, now_s() - s);
	s = now_s();
	write_all(&l, n, true);
	line("random write, newest, no flush", n, now_s() - s);
	LIB(tablet_flush(l.t));
	read_all(&l, n, n, "point read, 2 files");
	scan_all(&l, "scan, 2 files");
	s = now_s();
	LIB(tablet_compact(l.t));
	line("major compaction", 2 * n, now_s() - s);
	read_all(&l, n, n, "point read, compacted, cold cache");
	read_all(&l, 50000, n, "point read, compacted, warm");
	bare_seeks(&l, 50000, n);
	bare_seeks(&l, 50000, n);
	scan_all(&l, "scan, compacted");
	lib_stop(&l);
	l.background = true;
	l.memtable_bytes = 64u << 20;
	lib_start(&l);
	s = now_s();
	write_all(&l, n, true);
	line("random write, newest, background, 64 MiB", n, now_s() - s);
	printf("    %llu minor, %llu merging, %llu stalls of %.3f s\n", (unsigned long long)l.env.minor,
		(unsigned long long)l.env.merging, (unsigned long long)l.env.stalls, (double)l.env.stall_us / 1e6);
	lib_stop(&l);
	lib_fini(&l);
	return 0;
}
