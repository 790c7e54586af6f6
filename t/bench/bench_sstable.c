/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The speed of one SSTable: build, warm and cold random gets, scan, probes, by
 * codec and block size, in one process and thread (2 threads at the end).
 *   bench_sstable [ENTRIES [VALUE_BYTES [TEXTFILE [CODEC KIB [GETS]]]]]
 * All but the threads by processor time.
 * Values are cut from TEXTFILE (default: this machine's licence texts).
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/sstable/sstable.h"
#include "t/lib/xorshift.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t entries = 300000, gets_n = 500000;
static size_t value_bytes = 1000;
static struct buf text;
static char path[64];
static struct sst *table;

static void die(const char *what, int err)
{
	fprintf(stderr, "bench_sstable: %s: %s\n", what, strerror(-err));
	exit(1);
}

static struct tfs_bytes key_of(uint8_t k[17], uint64_t i)
{
	snprintf((char *)k, 17, "%016llu", (unsigned long long)i * 2);
	return tfs_bytes_of(k, 16);
}

/* Processor time of the process in us. */
static uint64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t build(enum sst_codec codec, uint32_t block_bytes, double *secs)
{
	struct sst_options o = {.codec = codec, .level = 3, .block_bytes = block_bytes, .bloom_bits = 10};
	struct sst_writer *w;
	uint64_t bytes = 0, t0 = cpu_us();
	uint8_t k[17];
	int err = sst_writer_new(path, &o, &w);

	for (uint64_t i = 0; i < entries && !err; i++) {
		struct tfs_bytes key = key_of(k, i);
		size_t at = (size_t)((i * 1009) % (text.n - value_bytes));

		err = sst_writer_probe(w, key);
		if (!err)
			err = sst_writer_add(w, key, tfs_bytes_of(text.p + at, value_bytes), false);
	}
	if (!err)
		err = sst_writer_finish(w, tfs_str("bench"), &bytes);
	if (err)
		die("build", err);
	sst_writer_free(w);
	*secs = (double)(cpu_us() - t0) / 1e6;
	return bytes;
}

static void *gets(void *arg)
{
	uint64_t n = *(uint64_t *)arg, seed = 88172645463325252ull + n;
	uint8_t k[17];

	for (uint64_t i = 0; i < n; i++) {
		struct tfs_bytes key = key_of(k, xorshift(&seed) % entries);
		struct tfs_bytes value;
		struct iter *it;
		int err = sst_iter_new(table, &it);

		if (err)
			die("iterator", err);
		iter_seek(it, key);
		if (!it->valid || !bytes_eq(it->key, key) || iter_value(it, &value) || value.n != value_bytes)
			die("get", -EBADF);
		iter_free(it);
	}
	return NULL;
}

static double timed_gets(uint64_t n)
{
	uint64_t t0 = cpu_us();

	gets(&n);
	return (double)(cpu_us() - t0) / (double)n;
}

/* Cells a microsecond; values: with their values. */
static double scan(bool fill, bool values)
{
	uint64_t t0 = cpu_us(), n = 0;
	struct tfs_bytes value;
	struct iter *it;
	int err = fill ? sst_iter_new(table, &it) : sst_scan_new(table, &it);

	if (err)
		die("scan", err);
	for (iter_seek(it, tfs_bytes_of("", 0)); it->valid; iter_next(it), n++)
		if (values && (iter_value(it, &value) || value.n != value_bytes))
			die("value", -EBADF);
	if (it->err || n != entries)
		die("scan", it->err);
	iter_free(it);
	return (double)n / (double)(cpu_us() - t0);
}

static void one(enum sst_codec codec, uint32_t block_bytes)
{
	struct sst_cache *cache;
	struct sst *s = NULL;
	double build_s, warm, cold, cold_scan, key_scan, warm_scan, miss, two;
	uint64_t bytes, t0, n = gets_n;
	pthread_t th[2];
	uint8_t k[17];
	int err;

	bytes = build(codec, block_bytes, &build_s);
	/* uncached blocks: a cache that holds almost nothing; the page cache is warm */
	err = sst_cache_new(64 << 10, 64 << 20, &cache);
	if (!err)
		err = sst_new(cache, path, false, &table);
	if (err)
		die("open", err);
	cold = timed_gets(20000);
	cold_scan = scan(false, true);
	key_scan = scan(false, false);
	sst_put(table);
	sst_cache_free(cache);

	err = sst_cache_new((size_t)entries * (value_bytes + 40) * 2 + (64 << 20), 64 << 20, &cache);
	if (!err)
		err = sst_new(cache, path, false, &s);
	if (err)
		die("open", err);
	table = s;
	scan(true, true);
	warm = timed_gets(n);
	warm_scan = scan(true, true);
	t0 = monotonic_us();
	for (uint64_t i = 0, yes = 0; i < n; i++) {
		struct tfs_bytes key = key_of(k, i % entries);

		k[15] |= 1; /* odd: absent */
		yes += sst_may_contain(s, key, key, key);
		if (i == n - 1 && yes > n / 20)
			die("false positives", -ERANGE);
	}
	miss = (double)(monotonic_us() - t0) / (double)n;
	t0 = monotonic_us();
	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&th[i], NULL, gets, &n))
			die("thread", -EAGAIN);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	two = 2.0 * (double)n / (double)(monotonic_us() - t0);
	printf("%-9s %7u bytes  size %6.1f MB ratio %5.2f  build %6.0f/s  get %5.2f us (2 threads %5.2f M/s)  uncached %6.1f us"
	       "  scan %5.2f M/s cached %5.2f M/s uncached %5.2f M/s keys  probe miss %4.2f us\n",
		sst_codec_kinds[codec].name, block_bytes, (double)bytes / 1e6,
		(double)entries * (double)(value_bytes + 16) / (double)bytes, (double)entries / build_s, warm, two, cold, warm_scan,
		cold_scan, key_scan, miss);
	fflush(stdout);
	(void)!file_unlink(sst_path(s));
	sst_put(s);
	sst_cache_free(cache);
}

static void load_text(const char *name)
{
	static const char *const some[] = {
		"/usr/share/common-licenses/GPL-3",
		"/usr/share/common-licenses/GPL-2",
		"/usr/share/common-licenses/LGPL-2.1",
		"/usr/share/common-licenses/Apache-2.0",
		"/usr/share/common-licenses/GFDL-1.3",
		"/usr/share/perl/5.36/perl5db.pl",
		"/usr/share/common-licenses/MPL-2.0",
		"/usr/share/perl/5.36/CPAN.pm",
		"/etc/services",
		"/usr/share/dict/words",
	};
	size_t n = name ? 1 : sizeof(some) / sizeof(some[0]);

	for (size_t i = 0; i < n; i++) {
		struct buf one_text = {0};

		if (file_read_all(name ? name : some[i], 64 << 20, &one_text) == 0 && buf_append_bytes(&text, buf_bytes(&one_text)))
			die("text", -ENOMEM);
		buf_fini(&one_text);
	}
	if (text.n < 2 * value_bytes)
		die("no text to cut values from", -ENOENT);
}

int main(int argc, char **argv)
{
	static const struct {
		enum sst_codec codec;
		uint32_t kib;
	} runs[] = {{SST_NONE, 64}, {SST_SNAPPY, 4}, {SST_SNAPPY, 64}, {SST_LZ4, 1}, {SST_LZ4, 4}, {SST_LZ4, 64}, {SST_ZSTD, 16},
		{SST_ZSTD, 64}, {SST_ZSTD_DICT, 1}, {SST_ZSTD_DICT, 2}, {SST_ZSTD_DICT, 4}, {SST_ZSTD_DICT, 16},
		{SST_ZSTD_DICT, 64}, {SST_ZSTD, 1024}};

	if (argc > 1)
		entries = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		value_bytes = strtoull(argv[2], NULL, 10);
	if (argc > 6)
		gets_n = strtoull(argv[6], NULL, 10);
	snprintf(path, sizeof(path), "/tmp/bench_sstable.%ld.sst", (long)getpid());
	load_text(argc > 3 && *argv[3] ? argv[3] : NULL);
	printf("%llu entries of 16 + %zu bytes, text of %zu bytes\n", (unsigned long long)entries, value_bytes, text.n);
	for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		if (argc > 5 &&
			(strcmp(argv[4], sst_codec_kinds[runs[i].codec].name) != 0 || strtoul(argv[5], NULL, 10) != runs[i].kib))
			continue;
		one(runs[i].codec, runs[i].kib << 10);
	}
	buf_fini(&text);
	return 0;
}
