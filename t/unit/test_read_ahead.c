/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans of a table and point reads in order return the same pairs with read-ahead:
 * with jumps, damage, several at once, and caches that are too small.
 */
#include "engine/sstable/cache.h"
#include "engine/base/file.h"
#include "t/unit/sstable_lib.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAIRS = 65000, BLOCK = 4 << 10 };

static const struct shape shape = {
	.o = {.codec = SST_ZSTD, .level = 3, .block_bytes = BLOCK, .bloom_bits = 10},
	.n = PAIRS,
	.key_bytes = 20,
	.value_bytes = 63, /* all in the blocks of keys */
};
static char path[64];
static uint64_t raw_bytes, blocks;

static struct sst *table_in(struct sst_cache *c)
{
	struct sst *s;

	assert_int_equal(sst_new(c, path, false, &s), 0);
	return s;
}

static struct sst_cache *cache_of(size_t bytes)
{
	struct sst_cache *c;

	assert_int_equal(sst_cache_new(bytes, 1 << 20, &c), 0);
	return c;
}

static uint64_t cached(struct sst_cache *c)
{
	struct sst_cache_stats st;

	sst_cache_get_stats(c, &st);
	return st.block_bytes;
}

static int set_up(void **state)
{
	struct sst_layout l;
	struct sst_cache *c = cache_of(1 << 20);
	struct sst *s;
	uint64_t bytes;

	snprintf(path, sizeof(path), "/tmp/test_read_ahead.%d", (int)getpid());
	if (shape_write(&shape, path, &bytes))
		return -1;
	s = table_in(c);
	if (sst_layout(s, &l))
		return -1;
	raw_bytes = l.raw_bytes;
	blocks = l.blocks;
	sst_put(s);
	sst_cache_free(c);
	return 0;
}

static int tear_down(void **state)
{
	return unlink(path);
}

static void walk_all(struct iter *it, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		assert_int_equal(shape_at(&shape, it, i), 0);
		iter_next(it);
	}
}

/* Larger than half the cache: all pairs, and hardly a block left in it. */
static void past_the_cache(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes);
	struct sst *s = table_in(c);
	struct sst_cache_stats st;
	struct iter *it;

	for (unsigned round = 0; round < 3; round++) {
		assert_int_equal(sst_walk_new(s, &it), 0);
		iter_seek(it, tfs_str(""));
		walk_all(it, 0, PAIRS);
		assert_false(it->valid);
		assert_int_equal(it->err, 0);
		iter_free(it);
	}
	assert_true(cached(c) < 8 * BLOCK);
	sst_cache_get_stats(c, &st);
	assert_true(st.blocks_read >= 2 * blocks);
	assert_true(st.blocks_read <= 3 * blocks + 3); /* nothing is read for nothing */
	sst_put(s);
	sst_cache_free(c);
}

/* Small relative to the cache: the second walk reads no block. */
static void into_the_cache(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes * 3);
	struct sst *s = table_in(c);
	struct sst_cache_stats before, after;
	struct iter *it;

	assert_int_equal(sst_walk_new(s, &it), 0);
	iter_seek(it, tfs_str(""));
	walk_all(it, 0, PAIRS);
	iter_free(it);
	sst_cache_get_stats(c, &before);
	assert_int_equal(sst_walk_new(s, &it), 0);
	iter_seek(it, tfs_str(""));
	walk_all(it, 0, PAIRS);
	iter_free(it);
	sst_cache_get_stats(c, &after);
	assert_int_equal(before.blocks_read, after.blocks_read);
	sst_put(s);
	sst_cache_free(c);
}

/* A reader that expects to end soon has few blocks read for nothing, and may continue. */
static void expected_end(void **state)
{
	const uint32_t pairs = (uint32_t)(6 * PAIRS / blocks);
	struct sst_cache *c = cache_of((size_t)raw_bytes);
	struct sst *s = table_in(c);
	struct sst_cache_stats st;
	struct iter *it;

	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(sst_walk_new(s, &it), 0);
		sst_iter_expect(it, 6 * raw_bytes / blocks);
		iter_seek(it, shape_key(&shape, 2 * i * (PAIRS / 20)));
		walk_all(it, i * (PAIRS / 20), i * (PAIRS / 20) + pairs);
		iter_free(it);
	}
	sst_cache_get_stats(c, &st);
	assert_true(st.blocks_read <= 20 * (6 + 3) + 3); /* without the expectation up to 8 more for each walk */
	assert_int_equal(sst_walk_new(s, &it), 0);
	sst_iter_expect(it, 6 * raw_bytes / blocks);
	iter_seek(it, tfs_str(""));
	walk_all(it, 0, PAIRS);
	assert_false(it->valid);
	assert_int_equal(it->err, 0);
	iter_free(it);
	sst_put(s);
	sst_cache_free(c);
}

/* Walks of all lengths from anywhere, forward and back, ended anywhere. */
static void jumps(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes);
	struct sst *s = table_in(c);
	uint32_t seed = 4711;
	struct iter *it = NULL;

	for (unsigned round = 0; round < 600; round++) {
		uint32_t from, n;

		seed = seed * 1664525u + 1013904223u;
		from = (seed >> 8) % PAIRS;
		seed = seed * 1664525u + 1013904223u;
		n = (seed >> 8) % (round % 3 ? 300 : 3);
		n = n > PAIRS - from ? PAIRS - from : n;
		if (!it)
			assert_int_equal(sst_walk_new(s, &it), 0);
		iter_seek(it, shape_key(&shape, 2 * from));
		walk_all(it, from, from + n);
		if (seed & 0x10000) {
			iter_free(it);
			it = NULL;
		}
	}
	iter_free(it);
	sst_put(s);
	sst_cache_free(c);
}

/* No room for a ring: the same pairs. */
static void no_room(void **state)
{
	struct sst_cache *c = cache_of(64 << 10);
	struct sst *s = table_in(c);
	struct iter *it[3];

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(sst_walk_new(s, &it[i]), 0);
		iter_seek(it[i], tfs_str(""));
	}
	for (unsigned i = 0; i < 3; i++)
		walk_all(it[i], 0, PAIRS);
	for (unsigned i = 0; i < 3; i++)
		iter_free(it[i]);
	sst_put(s);
	sst_cache_free(c);
}

/* A damaged block is reported where it lies, not where it was read ahead; after it the walk continues. */
static void damage(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes);
	struct sst *s = table_in(c);
	uint64_t offset;
	uint32_t i = 0;
	struct iter *it;
	uint8_t byte;
	int fd;

	assert_int_equal(sst_offset_of(s, shape_key(&shape, PAIRS), &offset), 0);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	offset += 100;
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 0x55;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);

	assert_int_equal(sst_walk_new(s, &it), 0);
	iter_seek(it, tfs_str(""));
	for (; it->valid; i++, iter_next(it))
		assert_int_equal(shape_at(&shape, it, i), 0);
	assert_int_equal(it->err, -EBADMSG);
	assert_true(i > PAIRS / 2 - 100 && i <= PAIRS / 2);
	for (i += 1; i < PAIRS; i++) { /* the first pair that can be read again */
		iter_seek(it, shape_key(&shape, 2 * i));
		if (it->valid)
			break;
		assert_int_equal(it->err, -EBADMSG);
	}
	assert_true(i < PAIRS / 2 + 100);
	walk_all(it, i, PAIRS);
	iter_free(it);

	byte ^= 0x55;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
	sst_put(s);
	sst_cache_free(c);
}

struct walker {
	struct sst *s;
	pthread_t thread;
	unsigned slow;
	uint64_t pairs, sum;
	int err;
};

static void *walker_run(void *arg)
{
	struct walker *w = arg;
	struct iter *it;

	w->err = sst_walk_new(w->s, &it);
	if (w->err)
		return NULL;
	for (iter_seek(it, tfs_str("")); it->valid; iter_next(it)) {
		w->pairs++;
		w->sum += hash64(it->key, 0) ^ hash64(value_of(it), 1);
		for (unsigned i = 0; i < w->slow; i++) /* a slow reader follows the worker, a fast reader is ahead of it */
			w->sum += hash64(value_of(it), i) & 0;
	}
	w->err = it->err;
	iter_free(it);
	return NULL;
}

static void many(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes);
	struct sst *s = table_in(c);
	struct walker w[6] = {0};

	for (unsigned i = 0; i < 6; i++) {
		w[i].s = s;
		w[i].slow = i % 3 * 20;
		assert_int_equal(pthread_create(&w[i].thread, NULL, walker_run, &w[i]), 0);
	}
	for (unsigned i = 0; i < 6; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].err, 0);
		assert_int_equal(w[i].pairs, PAIRS);
		assert_int_equal(w[i].sum, w[0].sum);
	}
	sst_put(s);
	sst_cache_free(c);
}

/* The pair by a point read. */
static void find(struct sst *s, uint32_t i)
{
	uint8_t bytes[KEY_BUF], to[KEY_BUF + 8];
	struct tfs_bytes key = shape_key_in(&shape, 2 * i, bytes);
	struct iter *it;

	memcpy(to, key.p, key.n);
	memset(to + key.n, 0xff, 8);
	assert_int_equal(sst_find(s, key, tfs_bytes_of(to, key.n + 8), key, &it), 0);
	assert_non_null(it);
	assert_true(bytes_eq(it->key, key));
	iter_free(it);
}

static size_t ahead_of(struct sst_cache *c)
{
	size_t n;

	mutex_lock(&c->ahead.lock);
	n = c->ahead.bytes;
	mutex_unlock(&c->ahead.lock);
	return n;
}

/* Point reads in key order are read ahead of, and past the cache; elsewhere, and at the table's end, that is over. */
static void in_order(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes);
	struct sst *s = table_in(c);
	struct sst_cache_stats st;

	for (uint32_t i = 0; i < 5; i++) /* blocks read here and there are not */
		find(s, i * 1000);
	assert_int_equal(ahead_of(c), 0);
	for (uint32_t i = 0; i < PAIRS / 2; i++)
		find(s, i);
	assert_true(ahead_of(c) > 0);
	assert_true(cached(c) < blocks / 8 * BLOCK);
	find(s, PAIRS - 500);
	assert_int_equal(ahead_of(c), 0);
	sst_cache_get_stats(c, &st);
	assert_true(st.blocks_read < blocks / 2 + 40);
	for (uint32_t i = PAIRS / 2; i < PAIRS; i++)
		find(s, i);
	assert_int_equal(ahead_of(c), 0);
	for (uint32_t i = 0; i < PAIRS / 2; i++)
		find(s, i);
	assert_true(ahead_of(c) > 0); /* removed with the table */
	sst_put(s);
	assert_int_equal(ahead_of(c), 0);
	sst_cache_free(c);
}

/*
 * Point reads in order through more tables than there is room for: idle
 * rings take half of it and no more, so that a scan gets one, and a table
 * that is closed gives its own to another.
 */
static void many_idle(void **state)
{
	enum { TABLES = 12 };
	struct sst *s[TABLES];
	struct sst_cache *c;
	struct iter *it;
	size_t ring, full;
	unsigned resting = 0;

	assert_int_equal(sst_cache_new((size_t)raw_bytes, 64 << 20, &c), 0);
	for (unsigned t = 0; t < TABLES; t++) { /* a name of its own, or it would be one and the same table */
		char name[80];

		snprintf(name, sizeof(name), "%s.%u", path, t);
		assert_int_equal(link(path, name), 0);
		assert_int_equal(sst_new(c, name, false, &s[t]), 0);
		find(s[t], 0);
		assert_int_equal(unlink(name), 0);
	}
	for (uint32_t i = 1; i < 400; i++)
		find(s[0], i);
	ring = ahead_of(c);
	assert_true(ring > 0);
	assert_true(ring * TABLES > c->ahead.bytes_max); /* or the bound would not be met */
	for (unsigned t = 0; t < TABLES; t++) {
		size_t before = ahead_of(c);

		for (uint32_t i = t ? 1 : 400; i < 800; i++) {
			find(s[t], i);
			assert_true(ahead_of(c) <= c->ahead.bytes_max / 2 + ring);
		}
		resting += ahead_of(c) > before;
	}
	full = ahead_of(c);
	assert_true(full > c->ahead.bytes_max / 2 - ring && full <= c->ahead.bytes_max / 2);
	assert_true(resting > 2 && resting + 1 < TABLES);
	assert_int_equal(sst_walk_new(s[TABLES - 1], &it), 0);
	iter_seek(it, tfs_bytes_of("", 0));
	walk_all(it, 0, 2000);
	assert_int_equal(ahead_of(c), full + ring);
	iter_free(it);
	assert_int_equal(ahead_of(c), full);
	sst_put(s[0]);
	assert_int_equal(ahead_of(c), full - ring);
	for (uint32_t i = 800; i < 1200; i++)
		find(s[TABLES - 1], i);
	assert_int_equal(ahead_of(c), full);
	for (unsigned t = 1; t < TABLES; t++)
		sst_put(s[t]);
	assert_int_equal(ahead_of(c), 0);
	sst_cache_free(c);
	print_message("# of %d tables %u have an idle ring\n", TABLES, resting + 1);
}

static void *finder_run(void *arg)
{
	struct walker *w = arg;

	for (uint32_t i = 0; i < PAIRS; i++) {
		find(w->s, i);
		if (w->slow && i % 1000 == 0)
			find(w->s, (i * 7919) % PAIRS);
	}
	return NULL;
}

static void many_in_order(void **state)
{
	struct sst_cache *c = cache_of((size_t)raw_bytes / 4);
	struct sst *s = table_in(c);
	struct walker w[6] = {0};

	for (unsigned i = 0; i < 6; i++) {
		w[i].s = s;
		w[i].slow = i % 2;
		assert_int_equal(pthread_create(&w[i].thread, NULL, finder_run, &w[i]), 0);
	}
	for (unsigned i = 0; i < 6; i++)
		pthread_join(w[i].thread, NULL);
	sst_put(s);
	assert_int_equal(ahead_of(c), 0);
	sst_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(past_the_cache),
		cmocka_unit_test(into_the_cache),
		cmocka_unit_test(expected_end),
		cmocka_unit_test(jumps),
		cmocka_unit_test(no_room),
		cmocka_unit_test(damage),
		cmocka_unit_test(many),
		cmocka_unit_test(in_order),
		cmocka_unit_test(many_in_order),
		cmocka_unit_test(many_idle),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
