/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of open tables is a bound of memory: the count for a table is the memory
 * that malloc allocated for it, for tables of any shape, and the bound holds for
 * a thousand of them.
 */
#include "engine/base/msg.h"
#include "t/unit/dir.h"
#include "t/unit/sstable_lib.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const void *const unused[] __attribute__((unused)) = {(const void *)contents, (const void *)exists};

enum { MANY = 1000, SOME = 300 };
static struct sst_cache *cache;
static struct sst *table[MANY];

static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static struct sst_cache_stats stats(void)
{
	struct sst_cache_stats st;

	sst_cache_get_stats(cache, &st);
	return st;
}

static const char *name(unsigned i)
{
	static char s[32];

	snprintf(s, sizeof(s), "%u.sst", i);
	return s;
}

/* One file under n names: n tables. */
static void tables_new(const char *file, unsigned n)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s", in_dir(file));
	for (unsigned i = 0; i < n; i++) {
		unlink(in_dir(name(i)));
		assert_int_equal(link(path, in_dir(name(i))), 0);
		assert_int_equal(sst_new(cache, in_dir(name(i)), false, &table[i]), 0);
	}
	unlink(path);
}

static void tables_put(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sst_put(table[i]);
}

static void look_into(unsigned i, bool seek)
{
	struct iter *it;

	if (!seek) {
		(void)sst_may_contain(table[i], tfs_str("a"), tfs_str("b"), tfs_str("c"));
		return;
	}
	assert_int_equal(sst_iter_new(table[i], &it), 0);
	iter_seek(it, tfs_bytes_of(NULL, 0));
	assert_true(it->valid);
	iter_free(it);
}

static void weigh(const char *what, const char *file, bool seek)
{
	struct sst_cache_stats before, after;
	size_t real, counted;

	assert_int_equal(sst_cache_new(256 << 20, 1 << 30, &cache), 0);
	tables_new(file, SOME);
	look_into(0, seek); /* memory that a thread has once */
	before = stats();
	real = allocated();
	for (unsigned i = 1; i < SOME; i++)
		look_into(i, seek);
	real = allocated() - real;
	after = stats();
	assert_int_equal(after.tables_open, SOME);
	real -= after.block_bytes - before.block_bytes;
	counted = after.table_bytes - before.table_bytes;
	print_message(
		"# %s%s: %zu bytes a table, %zu counted\n", what, seek ? ", read" : "", real / (SOME - 1), counted / (SOME - 1));
	/* Too little by a tenth at most; too much only by the iterator that it does not have yet. */
	assert_true(real <= counted + counted / 10);
	assert_true(counted <= real + real / 10 + (SOME - 1) * (seek ? 100 : 700));
	tables_put(SOME);
	assert_int_equal(stats().table_bytes, 0);
	sst_cache_free(cache);
}

static bool sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#else
	return false;
#endif
}

static void weights(void **state)
{
	static const struct {
		const char *what;
		struct shape shape;
	} of[] = {
		{"ten keys", {{SST_ZSTD, 1, 64 << 10, 10, false}, 10, 16, 100, 0}},
		{"2,000 keys", {{SST_ZSTD, 1, 64 << 10, 10, false}, 2000, 16, 200, 0}},
		{"small blocks", {{SST_ZSTD, 1, 4096, 10, false}, 2000, 16, 1000, 0}},
		{"no filters", {{SST_ZSTD, 1, 4096, 0, false}, 2000, 16, 1000, 0}},
		{"several partitions", {{SST_ZSTD, 1, 64 << 10, 10, false}, 140000, 16, 4, 0}},
		{"long keys", {{SST_ZSTD, 1, 64 << 10, 10, false}, 300, 4000, 100, 0}},
	};
	uint64_t bytes;

	if (sanitized()) /* its allocator counts otherwise; cmocka's skip is no success to prove */
		return;
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		for (unsigned seek = 0; seek < 2; seek++) {
			assert_int_equal(shape_write(&of[i].shape, in_dir("t"), &bytes), 0);
			weigh(of[i].what, "t", seek);
		}
	}
}

/* Cells that are like one of 64 pages, in small blocks: a dictionary pays. */
static uint64_t write_pages(const char *file, enum sst_codec codec)
{
	struct sst_options o = {codec, 3, 4096, 0, false};
	struct sst_writer *w;
	uint64_t bytes;
	char key[16], page[400];

	assert_int_equal(sst_writer_new(in_dir(file), &o, &w), 0);
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t seed = (i * 2654435761u >> 26) + 1;

		for (unsigned k = 0; k < sizeof(page); k++)
			page[k] = (char)('a' + ((seed = seed * 1664525u + 1013904223u) >> 16) % 26);
		snprintf(page, 16, "%u", i * 7919);
		snprintf(key, sizeof(key), "%08u", i);
		assert_int_equal(sst_writer_add(w, tfs_str(key), tfs_bytes_of(page, sizeof(page)), false), 0);
	}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	return bytes;
}

static void dictionary(void **state)
{
	if (sanitized()) /* its allocator counts otherwise; cmocka's skip is no success to prove */
		return;
	assert_true(write_pages("d", SST_ZSTD_DICT) < write_pages("p", SST_ZSTD) / 2);
	weigh("a dictionary", "d", false);
}

/* A thousand tables through a cache that holds a tenth of them: the bound holds after each, and so does the memory. */
static void a_thousand(void **state)
{
	enum { LIMIT = 2 << 20 };
	static const struct shape shape = {{SST_ZSTD, 1, 4096, 10, false}, 2500, 16, 1000, 0};
	uint64_t bytes, most = 0;
	size_t before;

	assert_int_equal(shape_write(&shape, in_dir("t"), &bytes), 0);
	assert_int_equal(sst_cache_new(1 << 20, LIMIT, &cache), 0);
	tables_new("t", MANY);
	before = allocated();
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			struct sst_cache_stats st;

			look_into(i, round);
			st = stats();
			assert_true(st.table_bytes <= LIMIT);
			most = st.table_bytes > most ? st.table_bytes : most;
		}
	}
	assert_true(most > LIMIT / 2);
	assert_true(stats().tables_open < MANY / 2);
	if (!sanitized()) { /* blocks of the cache's 1 MiB, and the excess of its shards */
		size_t grown = allocated() - before;

		print_message("# grown by %zu KiB with a bound of %u KiB and blocks of %zu KiB\n", grown >> 10, LIMIT >> 10,
			(size_t)stats().block_bytes >> 10);
		assert_true(grown <= LIMIT + LIMIT / 10 + stats().block_bytes + (256 << 10));
	}
	tables_put(MANY);
	sst_cache_free(cache);
}

static int setup(void **state)
{
	msg_to_nowhere();
	return test_dir_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(weights, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(dictionary, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_thousand, setup, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
