/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of locations gives the same results as a linear search of a list, stays
 * within its bound, and is safe for threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/client/locations.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct tablet_service services[4];

struct known {
	uint32_t table;
	char begin[16], end[16]; /* end "": to the end */
	struct tablet_service *service;
	bool there;
};
#define KNOWN 64
static struct known model[KNOWN];

static struct tfs_bytes end_of(const struct known *k)
{
	return *k->end ? tfs_str(k->end) : (struct tfs_bytes){NULL, 0};
}

/* Returns the table's location that ends first above row, if it begins at or below row. */
static struct known *model_find(uint32_t table, const char *row)
{
	struct known *best = NULL;

	for (unsigned i = 0; i < KNOWN; i++) {
		struct known *k = &model[i];

		if (!k->there || k->table != table || (*k->end && strcmp(k->end, row) <= 0))
			continue;
		if (!best || (*k->end && (!*best->end || strcmp(k->end, best->end) < 0)))
			best = k;
	}
	return best && strcmp(best->begin, row) <= 0 ? best : NULL;
}

static void model_put(const struct known *n)
{
	struct known *to = NULL;

	for (unsigned i = 0; i < KNOWN; i++)
		if (model[i].there && model[i].table == n->table && strcmp(model[i].end, n->end) == 0)
			to = &model[i];
	for (unsigned i = 0; i < KNOWN && !to; i++)
		if (!model[i].there)
			to = &model[i];
	assert_non_null(to);
	if (to) /* gcc does not see that the line before does not return */
		*to = *n;
}

static void random_key(unsigned *seed, char key[16], unsigned least)
{
	unsigned n = least + (unsigned)rand_r(seed) % 3;

	for (unsigned i = 0; i < n; i++)
		key[i] = (char)('a' + rand_r(seed) % 3);
	key[n] = 0;
}

static void against_model(void **state)
{
	struct locations *l;
	struct locations_stats st;
	unsigned seed = 1, entries;
	uint64_t hits = 0;

	memset(model, 0, sizeof(model));
	assert_int_equal(locations_new(1 << 20, &l), 0);
	for (unsigned i = 0; i < 200000; i++) {
		uint32_t table = 16 + (uint32_t)rand_r(&seed) % 3;
		struct known n = {.table = table, .service = &services[rand_r(&seed) % 4], .there = true}, *k;
		struct tablet_service *s;
		struct buf end = {0};
		bool last = false;
		char row[16];
		int err;

		random_key(&seed, row, 0);
		k = model_find(table, row);
		switch (rand_r(&seed) % 16) {
		case 0:
			random_key(&seed, n.begin, 0);
			if (rand_r(&seed) % 8)
				random_key(&seed, n.end, 1);
			if (*n.end && strcmp(n.begin, n.end) >= 0)
				break;
			entries = 0;
			for (unsigned e = 0; e < KNOWN; e++)
				entries += model[e].there;
			if (entries == KNOWN)
				break;
			locations_put(l, table, tfs_str(n.begin), end_of(&n), n.service, 7);
			model_put(&n);
			break;
		case 1:
			locations_forget(l, table, tfs_str(row), n.service);
			if (k && k->service == n.service)
				k->there = false;
			break;
		case 2:
			err = locations_end(l, table, tfs_str(row), &end, &last);
			assert_int_equal(err, k ? 0 : -ENOENT);
			if (k)
				assert_true(last == !*k->end && bytes_eq(buf_bytes(&end), tfs_str(k->end)));
			buf_fini(&end);
			break;
		default:
			s = locations_find(l, table, tfs_str(row), NULL);
			assert_ptr_equal(s, k ? k->service : NULL);
			hits += k != NULL;
		}
	}
	locations_get_stats(l, &st);
	entries = 0;
	for (unsigned e = 0; e < KNOWN; e++)
		entries += model[e].there;
	assert_int_equal(st.entries, entries);
	assert_int_equal(st.hits, hits);
	locations_free(l);
}

/* A hundred thousand tablets in space for ten thousand; tablets in use stay. */
static void bounded(void **state)
{
	const size_t most = 1 << 20;
	static char long_row[70000];
	struct locations *l;
	struct locations_stats st;
	unsigned kept = 0;

	assert_int_equal(locations_new(most, &l), 0);
	for (unsigned i = 0; i < 100000; i++) {
		char begin[16], end[16];

		snprintf(begin, sizeof(begin), "%06u", i);
		snprintf(end, sizeof(end), "%06u", i + 1);
		locations_put(l, 16, tfs_str(begin), tfs_str(end), &services[i % 4], 7);
		assert_ptr_equal(locations_find(l, 16, tfs_str(begin), NULL), &services[i % 4]);
		if (i >= 100 && i % 100 == 0)
			/* not by this thread's copy, whose hits are not counted as uses */
			for (unsigned k = 0; k < 100; k += 7) {
				snprintf(begin, sizeof(begin), "%06u5", k);
				(void)locations_find(l, 16, tfs_str(begin), NULL);
			}
	}
	locations_get_stats(l, &st);
	assert_true(st.bytes <= most);
	assert_true(st.entries > 5000);
	for (unsigned k = 0; k < 100; k += 7) {
		char row[16];

		snprintf(row, sizeof(row), "%06u", k);
		kept += locations_find(l, 16, tfs_str(row), NULL) != NULL;
	}
	assert_int_equal(kept, 15);
	/* Rows as long as they may be: in no thread's copy, and bounded too. */
	memset(long_row, 'x', sizeof(long_row));
	for (unsigned i = 0; i < 100; i++) {
		put_be32((uint8_t *)long_row + 64000, i);
		locations_put(l, 17, tfs_bytes_of(long_row, 64000), tfs_bytes_of(long_row, 64004), &services[1], 7);
		assert_ptr_equal(locations_find(l, 17, tfs_bytes_of(long_row, 64003), NULL), &services[1]);
	}
	locations_get_stats(l, &st);
	assert_true(st.bytes <= most);
	locations_free(l);
}

/* Another cache at the same address does not use this thread's copy of the first one. */
static void caches_apart(void **state)
{
	struct locations *a, *b;

	assert_int_equal(locations_new(1 << 20, &a), 0);
	assert_int_equal(locations_new(1 << 20, &b), 0);
	locations_put(a, 16, tfs_str(""), (struct tfs_bytes){NULL, 0}, &services[0], 7);
	assert_ptr_equal(locations_find(a, 16, tfs_str("x"), NULL), &services[0]);
	assert_null(locations_find(b, 16, tfs_str("x"), NULL));
	for (unsigned i = 0; i < 100; i++) {
		locations_free(a);
		assert_int_equal(locations_new(1 << 20, &a), 0);
		assert_null(locations_find(a, 16, tfs_str("x"), NULL));
		locations_put(a, 16, tfs_str(""), (struct tfs_bytes){NULL, 0}, &services[0], 7);
		assert_ptr_equal(locations_find(a, 16, tfs_str("x"), NULL), &services[0]);
	}
	locations_free(a);
	locations_free(b);
}

/* One tablet moves from server to server; a reader that has seen a later server never sees an earlier server again. */
static struct locations *shared;
static struct tablet_service many[1000];
static _Atomic unsigned backwards;

static void *watch(void *arg)
{
	unsigned last = 0;

	while (last + 1 < 1000) {
		struct tablet_service *s = locations_find(shared, 16, tfs_str("row"), NULL);
		unsigned now = s ? (unsigned)(s - many) : last;

		backwards += now < last;
		last = now > last ? now : last;
	}
	return NULL;
}

static void threads_see_changes(void **state)
{
	pthread_t threads[3];

	assert_int_equal(locations_new(1 << 20, &shared), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, watch, NULL), 0);
	for (unsigned i = 0; i < 1000; i++) {
		locations_put(shared, 16, tfs_str("a"), tfs_str("z"), &many[i], 7);
		assert_ptr_equal(locations_find(shared, 16, tfs_str("row"), NULL), &many[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(backwards, 0);
	locations_free(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(against_model),
		cmocka_unit_test(bounded),
		cmocka_unit_test(caches_apart),
		cmocka_unit_test(threads_see_changes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
