/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memtable: order, seeks, sizes, failed allocations, and readers during writes
 * and preparing threads.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/cell/memtable.h"
#include "t/lib/xorshift.h"

static _Atomic long fail_at;

static bool fails(void)
{
	return atomic_load(&fail_at) > 0 && atomic_fetch_sub(&fail_at, 1) == 1;
}

#include "t/unit/wrap_alloc.h"

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((xorshift(&rng) >> 16) % n);
}

static struct tfs_bytes key_of(uint8_t k[8], uint64_t i)
{
	put_be64(k, i);
	return tfs_bytes_of(k, 8);
}

static void insert(struct memtable *m, uint64_t i, size_t value_bytes)
{
	uint8_t k[8], v[3000];
	struct memnode *n;

	memset(v, (int)(i & 255), sizeof(v));
	assert_int_equal(memtable_prepare(m, key_of(k, i), tfs_bytes_of(v, value_bytes), &n), 0);
	memtable_insert(m, n, false);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Inserts in several patterns, always checked against a sorted array. */
static void any_order_of_inserts_comes_out_sorted(void **state)
{
	enum { N = 3000 };
	static uint64_t keys[N];

	for (int pattern = 0; pattern < 6; pattern++) {
		struct memtable *m;
		struct iter *it;
		uint8_t k[8];
		int n = 0;

		assert_int_equal(memtable_new(&m), 0);
		for (uint64_t i = 0; i < N; i++) {
			uint64_t key = 0;

			switch (pattern) {
			case 0:
				key = i;
				break; /* rising */
			case 1:
				key = N - i;
				break; /* falling */
			case 2:
				key = (i * 7919) % N;
				break; /* scattered */
			case 3:
				key = (i % 3) * 10000 + i;
				break; /* three streams */
			case 4:
				key = (i / 10) * 7919 % N * 10 + i % 10;
				break; /* scattered rows, rising columns */
			case 5:
				key = i % 2 ? i : 100000 - i;
				break;
			}
			if (pattern == 2 && i % 2)
				continue;
			keys[n++] = key;
			insert(m, key, i % 50);
		}
		qsort(keys, (size_t)n, sizeof(keys[0]), by_value);
		assert_int_equal(memtable_count(m), n);
		assert_int_equal(memtable_iter_new(m, &it), 0);
		memtable_put(m);
		assert_false(it->valid);
		iter_seek(it, (struct tfs_bytes){0});
		for (int i = 0; i < n; i++, iter_next(it)) {
			assert_true(it->valid);
			assert_true(bytes_eq(it->key, key_of(k, keys[i])));
			for (size_t j = 0; j < it->size; j++)
				assert_int_equal(it->value[j], keys[i] & 255);
		}
		assert_false(it->valid);
		assert_int_equal(it->err, 0);
		for (int i = 0; i < 2000; i++) {
			uint64_t target = rnd(120000);
			int at = 0;

			while (at < n && keys[at] < target)
				at++;
			iter_seek(it, key_of(k, target));
			assert_int_equal(it->valid, at < n);
			if (it->valid)
				assert_true(bytes_eq(it->key, key_of(k, keys[at])));
			if (i % 16)
				i += 7;
		}
		iter_free(it);
	}
}

static void an_empty_one_is_small(void **state)
{
	struct memtable *m;
	struct iter *it;

	assert_int_equal(memtable_new(&m), 0);
	assert_true(memtable_bytes(m) < 6000);
	assert_int_equal(memtable_count(m), 0);
	assert_int_equal(memtable_iter_new(m, &it), 0);
	iter_seek(it, (struct tfs_bytes){0});
	assert_false(it->valid);
	insert(m, 1, 100);
	assert_true(memtable_bytes(m) < 12000);
	iter_seek(it, (struct tfs_bytes){0});
	assert_true(it->valid);
	iter_free(it);
	memtable_put(m);
}

static void memory_held_follows_what_is_put_in(void **state)
{
	uint8_t *big = calloc(1, 5 << 20), k[8];
	struct memnode *n, *unused;
	struct memtable *m;
	struct iter *it;
	size_t before;

	assert_int_equal(memtable_new(&m), 0);
	for (uint64_t i = 0; i < 20000; i++)
		insert(m, i, 1000);
	assert_in_range(memtable_bytes(m), 20000u * 1040, 20000u * 1250);
	before = memtable_bytes(m);
	assert_int_equal(memtable_prepare(m, key_of(k, 1u << 30), tfs_bytes_of(big, 5 << 20), &n), 0);
	assert_int_equal(memtable_prepare(m, key_of(k, 1u << 30), tfs_bytes_of(big, 0), &unused), 0);
	assert_in_range(memtable_bytes(m) - before, 5u << 20, (5u << 20) + (2u << 20));
	memtable_insert(m, n, false);
	insert(m, 30000, 10);
	assert_int_equal(memtable_iter_new(m, &it), 0);
	iter_seek(it, key_of(k, 1u << 30));
	assert_true(it->valid && it->size == 5u << 20);
	iter_seek(it, key_of(k, 29999));
	assert_true(it->valid && it->size == 10);
	iter_free(it);
	memtable_put(m);
	free(big);
}

static void long_keys_and_prefixes_of_each_other(void **state)
{
	uint8_t *key = malloc(70000);
	struct memtable *m;
	struct memnode *n;
	struct iter *it;
	size_t i = 0;

	memset(key, 'x', 70000);
	assert_int_equal(memtable_new(&m), 0);
	for (size_t len = 70000;; len = len * 2 / 3) {
		assert_int_equal(memtable_prepare(m, tfs_bytes_of(key, len), tfs_str("v"), &n), 0);
		memtable_insert(m, n, false);
		if (len == 0)
			break;
	}
	assert_int_equal(memtable_iter_new(m, &it), 0);
	for (iter_seek(it, (struct tfs_bytes){0}); it->valid; iter_next(it)) {
		assert_true(it->key.n == 0 ? i == 0 : it->key.n > i);
		i = it->key.n;
	}
	assert_int_equal(i, 70000);
	iter_free(it);
	memtable_put(m);
	free(key);
}

static void all_that_fails_is_before_the_insert(void **state)
{
	struct memtable *m = NULL;
	struct iter *it;
	uint64_t inserted = 0;
	uint8_t k[8], v[2000] = {0};

	for (long i = 1; i <= 2; i++) {
		atomic_store(&fail_at, i);
		assert_int_equal(memtable_new(&m), -ENOMEM);
		assert_null(m);
	}
	atomic_store(&fail_at, 0);
	assert_int_equal(memtable_new(&m), 0);
	for (uint64_t i = 0; i < 4000; i++) {
		struct memnode *n = NULL;
		int err;

		atomic_store(&fail_at, 1); /* every request for a new block */
		err = memtable_prepare(m, key_of(k, i), tfs_bytes_of(v, i % sizeof(v)), &n);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_null(n);
			atomic_store(&fail_at, 2);
			err = memtable_prepare(m, key_of(k, i), tfs_bytes_of(v, i % sizeof(v)), &n);
		}
		atomic_store(&fail_at, 0);
		if (err)
			continue;
		memtable_insert(m, n, false);
		inserted++;
	}
	assert_true(inserted > 3500 && inserted <= 4000);
	assert_int_equal(memtable_count(m), inserted);
	atomic_store(&fail_at, 1);
	assert_int_equal(memtable_iter_new(m, &it), -ENOMEM);
	atomic_store(&fail_at, 0);
	memtable_put(m);
}

/* ---- threads ---- */
enum { THREADS_KEYS = 20000, READERS = 2, PREPARERS = 3 };
struct shared {
	struct memtable *m;
	_Atomic uint64_t done; /* keys inserted so far, in the order of order[] */
	uint64_t order[THREADS_KEYS];
};

static void *reader(void *arg)
{
	struct shared *s = arg;
	struct iter *it;
	uint64_t seen_before = 0, done;
	uint8_t k[8];

	if (memtable_iter_new(s->m, &it))
		return (void *)(uintptr_t) "no iterator";
	do {
		uint64_t seen = 0, last = 0;

		done = atomic_load(&s->done);
		/* entries from before the seek are found */
		if (done) {
			uint64_t key = s->order[done - 1];

			iter_seek(it, key_of(k, key));
			if (!it->valid || !bytes_eq(it->key, tfs_bytes_of(k, 8)))
				return (void *)(uintptr_t) "an insert is not seen";
		}
		for (iter_seek(it, (struct tfs_bytes){0}); it->valid; iter_next(it), seen++) {
			uint64_t key = load_be64(it->key.p);

			if (seen && key <= last)
				return (void *)(uintptr_t) "out of order";
			last = key;
			if (it->size != key % 200)
				return (void *)(uintptr_t) "a value's length";
			for (size_t i = 0; i < it->size; i++) {
				if (it->value[i] != (uint8_t)key)
					return (void *)(uintptr_t) "a value's bytes";
			}
		}
		if (seen < done || seen < seen_before)
			return (void *)(uintptr_t) "inserts were lost";
		seen_before = seen;
	} while (done < THREADS_KEYS);
	iter_free(it);
	return NULL;
}

static void *writer(void *arg)
{
	struct shared *s = arg;
	uint8_t k[8], v[200];

	for (uint64_t i = 0; i < THREADS_KEYS; i++) {
		struct memnode *n;
		uint64_t key = s->order[i];

		memset(v, (int)(key & 255), sizeof(v));
		if (memtable_prepare(s->m, key_of(k, key), tfs_bytes_of(v, key % 200), &n))
			return (void *)(uintptr_t) "out of memory";
		memtable_insert(s->m, n, false);
		atomic_store(&s->done, i + 1);
	}
	return NULL;
}

/* Allocates memory at the same time and checks that no other thread got it. */
static void *preparer(void *arg)
{
	struct shared *s = arg;
	uint8_t k[8], v[200] = {0};

	for (uint64_t i = 0; i < THREADS_KEYS / 2; i++) {
		struct memnode *n;

		if (memtable_prepare(s->m, key_of(k, i), tfs_bytes_of(v, i % 200), &n))
			return (void *)(uintptr_t) "out of memory";
	}
	return NULL;
}

static void readers_take_no_lock_beside_a_writer(void **state)
{
	struct shared *s = calloc(1, sizeof(*s));
	pthread_t t[READERS + PREPARERS + 1];
	size_t n = 0;
	void *why;

	assert_int_equal(memtable_new(&s->m), 0);
	for (uint64_t i = 0; i < THREADS_KEYS; i++)
		s->order[i] = i;
	for (uint32_t i = THREADS_KEYS - 1; i > 0; i--) {
		uint32_t j = i / 64 * 64 + rnd(64) % (i % 64 + 1); /* partly rising */
		uint64_t x = s->order[i];

		if (i % 4 == 0)
			j = rnd(i + 1);
		s->order[i] = s->order[j];
		s->order[j] = x;
	}
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&t[n++], NULL, reader, s), 0);
	for (int i = 0; i < PREPARERS; i++)
		assert_int_equal(pthread_create(&t[n++], NULL, preparer, s), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, writer, s), 0);
	while (n-- > 0) {
		assert_int_equal(pthread_join(t[n], &why), 0);
		if (why)
			fail_msg("%s", (const char *)why);
	}
	assert_int_equal(memtable_count(s->m), THREADS_KEYS);
	memtable_put(s->m);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_order_of_inserts_comes_out_sorted),
		cmocka_unit_test(an_empty_one_is_small),
		cmocka_unit_test(memory_held_follows_what_is_put_in),
		cmocka_unit_test(long_keys_and_prefixes_of_each_other),
		cmocka_unit_test(all_that_fails_is_before_the_insert),
		cmocka_unit_test(readers_take_no_lock_beside_a_writer),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
