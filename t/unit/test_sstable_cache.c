/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks and cells share one bound: which entries are evicted for which; point reads
 * that use cached results.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/lru.h"
#include "t/unit/dir.h"
#include "t/unit/sstable_lib.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

static const void *const unused[] __attribute__((unused)) = {(const void *)contents, (const void *)exists};

/* ---- the cache by itself ---- */
enum { BOUND = 8 << 20, BLOCK = 16 << 10, CELL = 1000 };

static _Atomic unsigned dropped;

static void drop(struct tfs_bytes key, void *block, void (*how)(void))
{
	assert_ptr_equal(how, (void (*)(void))drop);
	assert_int_equal(key.n, 8);
	free(block);
	dropped++;
}

static struct lru *cache_new(size_t bytes)
{
	struct lru *c;

	dropped = 0;
	assert_int_equal(lru_new(bytes, drop, &c), 0);
	return c;
}

static struct lru_file *file_new(struct lru *c)
{
	struct lru_file *f;

	assert_int_equal(lru_file_new(c, &f), 0);
	return f;
}

static struct lru_entry *block_add(struct lru *c, uint64_t number)
{
	uint8_t key[8];

	put_be64(key, number);
	return lru_block_add(c, tfs_bytes_of(key, 8), malloc(1), BLOCK, (void (*)(void))drop);
}

static void blocks_pass(struct lru *c, uint64_t from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		lru_release(c, block_add(c, from + i));
}

static bool block_there(struct lru *c, uint64_t number)
{
	struct lru_entry *e;
	uint8_t key[8];

	put_be64(key, number);
	e = lru_block_find(c, tfs_bytes_of(key, 8));
	lru_release(c, e);
	return e != NULL;
}

/* Cell i: a key of a prefix and a suffix, and a value that contains i. */
static void cell_add(struct lru *c, struct lru_file *f, uint32_t i, bool evict)
{
	uint8_t key[12] = "cell", value[CELL];

	put_be32(key + 4, i);
	put_be32(key + 8, ~i);
	memset(value, (int)(i % 251), sizeof(value));
	lru_cell_add(c, f, 8, tfs_bytes_of(key, 12), tfs_bytes_of(value, sizeof(value)), evict);
}

static struct lru_entry *cell_find(struct lru *c, struct lru_file *f, uint32_t i)
{
	uint8_t key[12] = "cell";
	struct lru_entry *e;

	put_be32(key + 4, i);
	put_be32(key + 8, ~i);
	e = lru_cell_find(c, f, tfs_bytes_of(key, 8));
	if (e) {
		assert_true(bytes_eq(lru_cell_key(e), tfs_bytes_of(key, 12)));
		assert_int_equal(lru_cell_value(e).n, CELL);
		assert_int_equal(lru_cell_value(e).p[0], i % 251);
		assert_int_equal(lru_cell_value(e).p[CELL - 1], i % 251);
	}
	return e;
}

static unsigned cells_there(struct lru *c, struct lru_file *f, uint32_t from, uint32_t to)
{
	unsigned n = 0;

	for (uint32_t i = from; i < to; i++) {
		struct lru_entry *e = cell_find(c, f, i);

		n += e != NULL;
		lru_release(c, e);
	}
	return n;
}

static struct lru_stats stats(struct lru *c)
{
	struct lru_stats st;

	lru_get_stats(c, &st);
	assert_true(st.block_bytes + st.cell_bytes <= BOUND);
	return st;
}

static void nothing_but_blocks(void **state)
{
	struct lru *c = cache_new(BOUND);

	assert_false(block_there(c, 1));
	blocks_pass(c, 0, 4000);
	assert_true(stats(c).block_bytes > BOUND / 8 * 7); /* all of the bound is theirs */
	assert_true(block_there(c, 3999));
	assert_false(block_there(c, 0));
	/* one found again and again stays */
	for (uint64_t i = 10000; i < 14000; i++) {
		blocks_pass(c, i, 1);
		assert_true(block_there(c, 3999));
	}
	lru_free(c);
	assert_int_equal(dropped, 8000);
}

static void held_stays(void **state)
{
	struct lru *c = cache_new(BOUND);
	struct lru_file *f = file_new(c);
	struct lru_entry *block = block_add(c, 1), *again, *cell;

	cell_add(c, f, 1, true);
	cell = cell_find(c, f, 1);
	assert_non_null(cell);
	blocks_pass(c, 100, 4000);
	for (uint32_t i = 100; i < 20000; i++)
		cell_add(c, f, i, true);
	assert_true(block_there(c, 1));
	assert_int_equal(cells_there(c, f, 1, 2), 1);
	/* replaced, it lives until its release */
	dropped = 0;
	again = block_add(c, 1);
	assert_int_equal(dropped, 0);
	lru_release(c, block);
	assert_int_equal(dropped, 1);
	assert_non_null(lru_block(again));
	lru_release(c, again);
	lru_release(c, cell);
	lru_release(c, NULL);
	lru_file_free(f);
	lru_free(c);
}

/* A cell that was found stays though blocks of twenty times the bound pass, and the newest blocks have their third. */
static void cells_before_blocks(void **state)
{
	struct lru *c = cache_new(BOUND);
	struct lru_file *f = file_new(c);
	uint32_t cells = BOUND / 2 / (CELL + 120);

	for (uint32_t i = 0; i < cells; i++) {
		blocks_pass(c, i, 1);
		cell_add(c, f, i, true);
	}
	blocks_pass(c, 100000, 20 * BOUND / BLOCK);
	assert_int_equal(cells_there(c, f, 0, cells), cells);
	assert_true(stats(c).block_bytes > BOUND / 3 - BLOCK * 16);
	assert_true(block_there(c, 100000 + 20 * BOUND / BLOCK - 1));
	/* more cells than the bound: the newest are there, and the blocks' third */
	for (uint32_t i = cells; i < 4 * cells; i++) {
		blocks_pass(c, 200000 + i, 1);
		cell_add(c, f, i, true);
	}
	assert_int_equal(cells_there(c, f, 4 * cells - cells / 2, 4 * cells), cells / 2);
	assert_int_equal(cells_there(c, f, 0, cells / 4), 0);
	assert_true(stats(c).block_bytes > BOUND / 3 - BLOCK * 16);
	lru_file_free(f);
	lru_free(c);
}

/* Cells that are not found expire in the end, those that are found do not. */
static void cells_have_their_time(void **state)
{
	struct lru *c = cache_new(BOUND);
	struct lru_file *f = file_new(c);
	uint32_t cells = BOUND / 2 / (CELL + 120);

	for (uint32_t i = 0; i < cells; i++)
		cell_add(c, f, i, true);
	for (unsigned round = 0; round < 100; round++) {
		blocks_pass(c, round * 10000, BOUND / BLOCK);
		assert_int_equal(cells_there(c, f, 0, 100), 100);
	}
	assert_int_equal(cells_there(c, f, 100, cells), 0);
	assert_true(stats(c).block_bytes > BOUND / 8 * 6);
	lru_file_free(f);
	lru_free(c);
}

static void cells_of_a_file_that_has_gone(void **state)
{
	struct lru *c = cache_new(BOUND);
	struct lru_file *f = file_new(c), *g = file_new(c);
	uint32_t cells = BOUND / 8 * 5 / (CELL + 120);
	struct lru_stats st;

	for (uint32_t i = 0; i < cells; i++)
		cell_add(c, f, i, true);
	assert_int_equal(cells_there(c, g, 0, cells), 0); /* another file's of the same keys are others */
	lru_file_free(f);
	blocks_pass(c, 0, 2 * BOUND / BLOCK);
	st = stats(c);
	assert_int_equal(st.cell_bytes, 0);
	assert_true(st.block_bytes > BOUND / 8 * 7);
	lru_file_free(g);
	lru_free(c);
}

static void room_only(void **state)
{
	struct lru *c = cache_new(BOUND);
	struct lru_file *f = file_new(c);
	struct lru_stats st;
	static uint8_t big[LRU_CELL_MAX + 1];

	for (uint32_t i = 0; i < 4 * BOUND / CELL; i++)
		cell_add(c, f, i, false);
	assert_int_equal(cells_there(c, f, 0, 1000), 1000); /* the first ones: none had to be evicted */
	cell_add(c, f, 5, true);                            /* is there: nothing happens */
	lru_cell_add(c, f, 0, tfs_bytes_of(big, 0), tfs_bytes_of(big, sizeof(big)), true);
	lru_cell_add(c, f, 0, tfs_bytes_of(big, sizeof(big)), tfs_bytes_of(big, 0), true);
	assert_null(lru_cell_find(c, f, tfs_bytes_of(big, 0)));
	st = stats(c);
	assert_int_equal(st.cell_hits, 1000);
	lru_file_free(f);
	lru_free(c);
}

/* Blocks larger than a shard: held while in use, and over the bound no longer than that. */
static void too_large(void **state)
{
	struct lru *c = cache_new(64 << 10);
	struct lru_entry *e[4];
	struct lru_stats st;

	for (unsigned i = 0; i < 4; i++)
		e[i] = block_add(c, i);
	for (unsigned i = 0; i < 4; i++)
		lru_release(c, e[i]);
	blocks_pass(c, 10, 100);
	lru_get_stats(c, &st);
	assert_true(st.block_bytes <= 16 * (BLOCK + 200));
	lru_free(c);
	assert_int_equal(dropped, 104);
}

struct worker {
	struct lru *c;
	struct lru_file *f;
	unsigned seed;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint32_t seed = w->seed;

	for (unsigned i = 0; i < 20000; i++) {
		uint32_t n;
		struct lru_entry *e;

		seed = seed * 1664525u + 1013904223u;
		n = (seed >> 8) % 3000;
		if (seed & 0x80) {
			e = cell_find(w->c, w->f, n);
			if (!e)
				cell_add(w->c, w->f, n, seed & 0x40);
			lru_release(w->c, e);
		} else if (!block_there(w->c, n)) {
			lru_release(w->c, block_add(w->c, n));
		}
	}
	return NULL;
}

static void many_threads(void **state)
{
	struct lru *c = cache_new(1 << 20);
	struct lru_file *f = file_new(c);
	struct worker w[4];

	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.c = c, .f = f, .seed = i + 1};
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
	lru_file_free(f);
	lru_free(c);
}

/* ---- point reads ---- */
static const struct shape shape = {{SST_ZSTD, 1, 4096, 10, false}, 3000, 16, 500, 0};
static struct sst_cache *cache;
static struct sst *table;

static int table_setup(void **state)
{
	uint64_t bytes;

	msg_to_nowhere();
	return test_dir_setup(state) || shape_write(&shape, in_dir("t.sst"), &bytes) || sst_cache_new(4 << 20, 1 << 20, &cache) ||
		sst_new(cache, in_dir("t.sst"), false, &table);
}

static int table_teardown(void **state)
{
	sst_put(table);
	sst_cache_free(cache);
	return test_dir_teardown(state);
}

static struct iter *find(struct sst *s, struct tfs_bytes prefix)
{
	uint8_t to[32];
	struct iter *it = (struct iter *)1;

	memcpy(to, prefix.p, prefix.n);
	memset(to + prefix.n, 0xff, 8);
	assert_int_equal(sst_find(s, prefix, tfs_bytes_of(to, prefix.n + 8), prefix, &it), 0);
	return it;
}

static struct sst_cache_stats table_stats(void)
{
	struct sst_cache_stats st;

	sst_cache_get_stats(cache, &st);
	return st;
}

static void found_and_remembered(void **state)
{
	struct sst_cache_stats before, after;
	struct iter *it;

	for (unsigned round = 0; round < 3; round++) {
		before = table_stats();
		for (uint32_t k = 0, i = 7; k < 300; k++, i = (i * 31 + 11) % shape.n) {
			it = find(table, shape_key(&shape, 2 * i));
			assert_non_null(it);
			assert_int_equal(shape_at(&shape, it, i), 0);
			iter_free(it);
			assert_null(find(table, shape_key(&shape, 2 * i + 1)));
		}
		after = table_stats();
		if (round == 0)
			continue;
		/* neither filter nor block; for absent ones the filter, and the block for its few false matches */
		assert_int_equal(after.probes - before.probes, 300);
		assert_int_equal(after.cell_hits - before.cell_hits, 300);
		assert_int_equal(after.blocks_read, before.blocks_read);
	}
}

/* A point read of the value, after which the cell is remembered. */
static void find_value(struct sst *s, struct tfs_bytes prefix)
{
	struct iter *it = find(s, prefix);

	assert_true(value_of(it).n != SIZE_MAX);
	iter_free(it);
}

/* From a remembered cell on it is the table's iterator like any other. */
static void remembered_and_moved(void **state)
{
	struct iter *it;

	find_value(table, shape_key(&shape, 2 * 100));
	for (unsigned round = 0; round < 2; round++) {
		it = find(table, shape_key(&shape, 2 * 100));
		assert_true(table_stats().cell_hits > round);
		for (uint32_t i = 100; i < 140; i++, iter_next(it))
			assert_int_equal(shape_at(&shape, it, i), 0);
		iter_seek(it, shape_key(&shape, 2 * 5 + 1));
		assert_int_equal(shape_at(&shape, it, 6), 0);
		iter_free(it);
		it = find(table, shape_key(&shape, 2 * 100));
		iter_seek(it, shape_key(&shape, 2 * 2000));
		assert_int_equal(shape_at(&shape, it, 2000), 0);
		iter_next(it);
		assert_int_equal(shape_at(&shape, it, 2001), 0);
		iter_free(it);
		it = find(table, shape_key(&shape, 2 * 100));
		iter_seek(it, tfs_str("s"));
		assert_false(it->valid);
		assert_int_equal(it->err, 0);
		iter_free(it);
	}
	find_value(table, shape_key(&shape, 2 * (shape.n - 1))); /* the last one */
	it = find(table, shape_key(&shape, 2 * (shape.n - 1)));
	iter_next(it);
	assert_false(it->valid);
	assert_int_equal(it->err, 0);
	iter_free(it);
}

/* A file that is removed under a cached cell is an error when more than the cell is read. */
static void moved_into_damage(void **state)
{
	struct sst_cache *c;
	struct sst *s;
	struct iter *it;

	assert_int_equal(sst_cache_new(1 << 20, 1, &c), 0); /* closes a table as soon as it is not pinned */
	assert_int_equal(sst_new(c, in_dir("t.sst"), false, &s), 0);
	find_value(s, shape_key(&shape, 2 * 100));
	assert_int_equal(truncate(in_dir("t.sst"), 50), 0);
	it = find(s, shape_key(&shape, 2 * 100));
	assert_int_equal(shape_at(&shape, it, 100), 0);
	iter_next(it);
	assert_false(it->valid);
	assert_int_equal(it->err, -EBADMSG);
	iter_seek(it, shape_key(&shape, 2 * 100));
	assert_false(it->valid);
	assert_int_equal(it->err, -EBADMSG);
	iter_free(it);
	sst_put(s);
	sst_cache_free(c);
}

/* A reader in key order adds no cells. */
static void in_order(void **state)
{
	for (uint32_t i = 0; i < shape.n; i++) {
		struct iter *it = find(table, shape_key(&shape, 2 * i));

		assert_int_equal(shape_at(&shape, it, i), 0);
		iter_free(it);
	}
	assert_true(table_stats().cell_bytes < 64 * 700);
}

/* A prefix of several keys is its first key; a longer or shorter one is another question. */
static void prefixes(void **state)
{
	struct tfs_bytes key = shape_key(&shape, 2 * 110);
	struct iter *it;

	for (unsigned round = 0; round < 2; round++)
		for (unsigned n = 1; n <= key.n; n++) {
			struct tfs_bytes all = tfs_str("every row");
			uint8_t to[32];

			memcpy(to, key.p, n);
			memset(to + n, 0xff, 8);
			assert_int_equal(sst_find(table, tfs_bytes_of(key.p, n), tfs_bytes_of(to, n + 8), all, &it), 0);
			assert_non_null(it);
			assert_true(bytes_has_prefix(it->key, tfs_bytes_of(key.p, n)));
			assert_int_equal(shape_at(&shape, it,
						 n < key.n - 2            ? 0
							 : n == key.n - 2 ? 100
							 : n == key.n - 1 ? 110
									  : 110),
				0);
			key = shape_key(&shape, 2 * 110);
			iter_free(it);
		}
}

/* Idle iterators pin blocks, which cannot make room: they are kept by few tables, or few of each. */
static void idle_within_the_bound(void **state)
{
	enum { TABLES = 120, EACH = 4, BYTES = 1 << 20 };
	static const struct shape s = {{SST_ZSTD, 1, 16 << 10, 0, false}, 300, 16, 63, 0};
	struct sst_cache *c;
	struct sst *t[TABLES];
	struct sst_cache_stats st;
	uint64_t bytes;

	assert_int_equal(sst_cache_new(BYTES, 8 << 20, &c), 0);
	for (unsigned i = 0; i < TABLES; i++) {
		struct iter *it[EACH];
		char name[16];

		snprintf(name, sizeof(name), "%u.sst", i);
		assert_int_equal(shape_write(&s, in_dir(name), &bytes), 0);
		assert_int_equal(sst_new(c, in_dir(name), false, &t[i]), 0);
		for (unsigned k = 0; k < EACH; k++) {
			assert_int_equal(sst_iter_new(t[i], &it[k]), 0);
			iter_seek(it[k], shape_key(&s, 2 * k * 70));
			assert_int_equal(shape_at(&s, it[k], k * 70), 0);
		}
		for (unsigned k = 0; k < EACH; k++)
			iter_free(it[k]);
	}
	sst_cache_get_stats(c, &st);
	assert_int_equal(st.tables_open, TABLES);
	assert_true(st.block_bytes > BYTES / 4 && st.block_bytes <= BYTES + BYTES / 16);
	for (unsigned i = 0; i < TABLES; i++)
		sst_put(t[i]);
	sst_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_but_blocks),
		cmocka_unit_test(held_stays),
		cmocka_unit_test(cells_before_blocks),
		cmocka_unit_test(cells_have_their_time),
		cmocka_unit_test(cells_of_a_file_that_has_gone),
		cmocka_unit_test(room_only),
		cmocka_unit_test(too_large),
		cmocka_unit_test(many_threads),
		cmocka_unit_test_setup_teardown(found_and_remembered, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(remembered_and_moved, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(moved_into_damage, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(in_order, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(prefixes, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(idle_within_the_bound, table_setup, table_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
