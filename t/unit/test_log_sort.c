/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting a part of the log gives the same result as a simple sort, also at its
 * bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/log/log_sort.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t state;
static uint64_t rnd(uint64_t below)
{
	return xorshift(&state) % below;
}

struct model {
	uint32_t table;
	uint64_t lsn;
	uint8_t row[40], to[8], batch[64];
	size_t row_n, to_n, batch_n;
};

static int by_place(const void *a, const void *b)
{
	const struct model *x = a, *y = b;
	int c;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	c = bytes_cmp(tfs_bytes_of(x->row, x->row_n), tfs_bytes_of(y->row, y->row_n));
	return c ? c : (x->lsn > y->lsn) - (x->lsn < y->lsn);
}

/* Rows that begin alike, that are the beginning of others, with zeros at their ends, empty; few tables. */
static void make(struct model *m, uint64_t lsn, unsigned kind)
{
	static const char host[] = "com.example.www/";
	size_t common = kind % 3 == 0 ? 0 : kind % 3 == 1 ? 16 : 5;

	*m = (struct model){.table = 16 + (uint32_t)rnd(kind % 2 ? 1 : 5), .lsn = lsn};
	memcpy(m->row, host, common);
	m->row_n = common + rnd(24);
	for (size_t i = common; i < m->row_n; i++)
		m->row[i] = (uint8_t)(rnd(4) ? 'a' + rnd(kind % 5 ? 3 : 26) : rnd(3) ? 0 : 255);
	if (rnd(5) == 0) {
		m->to_n = 1 + rnd(7);
		memset(m->to, 255, m->to_n);
	}
	m->batch_n = rnd(sizeof(m->batch));
	memset(m->batch, (int)rnd(256), m->batch_n);
}

static struct log_record record(const struct model *m)
{
	struct log_record r = {.table = m->table, .lsn = m->lsn, .seq = m->lsn * 3, .token = {m->lsn, 2, 1}};

	r.row_from = tfs_bytes_of(m->row, m->row_n);
	r.row_to = m->to_n ? tfs_bytes_of(m->to, m->to_n) : r.row_from;
	r.batch = tfs_bytes_of(m->batch, m->batch_n);
	r.result = tfs_bytes_of(m->batch, m->batch_n / 2);
	return r;
}

static void same(const struct log_record *r, const struct model *m)
{
	struct log_record want = record(m);

	assert_int_equal(r->lsn, want.lsn);
	assert_int_equal(r->table, want.table);
	assert_int_equal(r->seq, want.seq);
	assert_memory_equal(&r->token, &want.token, sizeof(want.token));
	assert_true(bytes_eq(r->row_from, want.row_from) && bytes_eq(r->row_to, want.row_to) && bytes_eq(r->batch, want.batch) &&
		bytes_eq(r->result, want.result));
}

static void sorts_like_the_model(void **arg)
{
	struct model *m = calloc(3000, sizeof(*m));
	struct log_stretch *s;

	state = 88172645463325252u;
	assert_int_equal(log_stretch_new(1 << 20, &s), 0);
	for (unsigned round = 0; round < 300; round++) {
		size_t n = round < 60 ? round : rnd(round % 50 ? 200 : 3000), count;
		const struct log_record *const *v;
		uint64_t lsn = rnd(1000);

		for (size_t i = 0; i < n; i++) {
			lsn += 1 + rnd(3);
			make(&m[i], lsn, round);
		}
		if (round % 7 == 0) { /* written in the order of rows, or against it */
			qsort(m, n, sizeof(*m), by_place);
			for (size_t i = 0; i < n / 2 && round % 2; i++) {
				struct model t = m[i];

				m[i] = m[n - 1 - i];
				m[n - 1 - i] = t;
			}
			for (size_t i = 0; i < n; i++)
				m[i].lsn = i + 1;
		}
		for (size_t i = 0; i < n; i++) {
			struct log_record r = record(&m[i]);

			assert_int_equal(log_stretch_add(s, &r), 0);
		}
		v = log_stretch_records(s, &count);
		assert_int_equal(count, n);
		for (size_t i = 0; i < n; i++)
			same(v[i], &m[i]);
		log_stretch_sort(s);
		qsort(m, n, sizeof(*m), by_place);
		v = log_stretch_records(s, &count);
		assert_int_equal(count, n);
		for (size_t i = 0; i < n; i++)
			same(v[i], &m[i]);
		log_stretch_clear(s);
	}
	log_stretch_free(s);
	free(m);
}

/* Full is full, and changes nothing; a record larger than all of it is there alone. */
static void holds_what_it_was_made_for(void **arg)
{
	uint8_t *large = calloc(1, 1 << 20);
	struct log_record r = {.table = 16, .row_from = {(const uint8_t *)"r", 1}, .row_to = {(const uint8_t *)"r", 1}};
	struct log_stretch *s;
	size_t count, filled;
	int err;

	assert_int_equal(log_stretch_new(64 << 10, &s), 0);
	for (unsigned round = 0; round < 3; round++) {
		r.batch = tfs_bytes_of(large, 1000);
		while ((err = log_stretch_add(s, &r)) == 0)
			r.lsn++;
		assert_int_equal(err, -ENOSPC);
		(void)log_stretch_records(s, &filled);
		assert_in_range(filled, 50, 64);
		r.batch = tfs_bytes_of(large, 1 << 20);
		assert_int_equal(log_stretch_add(s, &r), -ENOSPC);
		assert_int_equal(log_stretch_records(s, &count)[0]->batch.n, 1000);
		assert_int_equal(count, filled);
		log_stretch_sort(s);
		log_stretch_clear(s);
		assert_int_equal(log_stretch_add(s, &r), 0);
		assert_int_equal(log_stretch_add(s, &r), -ENOSPC);
		assert_int_equal(log_stretch_records(s, &count)[0]->batch.n, 1 << 20);
		assert_int_equal(count, 1);
		log_stretch_sort(s);
		log_stretch_clear(s);
	}
	log_stretch_sort(s);
	(void)log_stretch_records(s, &count);
	assert_int_equal(count, 0);
	log_stretch_free(s);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sorts_like_the_model), cmocka_unit_test(holds_what_it_was_made_for)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
