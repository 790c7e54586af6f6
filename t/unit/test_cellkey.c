/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cell keys: order, round trips, strictness and prefixes, over random bytes in which
 * 00, 01 and FF are frequent.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/cell/cellkey.h"
#include "t/lib/xorshift.h"

static long fail_at;

static bool fails(void)
{
	return fail_at > 0 && --fail_at == 0;
}

#include "t/unit/wrap_alloc.h"

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((xorshift(&rng) >> 16) % n);
}

static struct tfs_bytes random_bytes(uint8_t *p, size_t max)
{
	static const uint8_t hot[] = {0x00, 0x01, 0x02, 0xFE, 0xFF};
	size_t n = rnd((uint32_t)max + 1);

	for (size_t i = 0; i < n; i++)
		p[i] = rnd(4) ? hot[rnd(5)] : (uint8_t)rnd(256);
	return tfs_bytes_of(p, n);
}

struct sample {
	uint8_t row[8], qualifier[8];
	struct cellkey k;
};

static void random_key(struct sample *s)
{
	static const int64_t odd[] = {INT64_MIN, INT64_MAX, -1, 0, 1};

	s->k = (struct cellkey){.row = random_bytes(s->row, 5), .qualifier = random_bytes(s->qualifier, 4)};
	s->k.kind = (enum cell_kind)(1 + rnd(CELL_VALUE));
	s->k.family = (uint16_t)(1 + rnd(rnd(2) ? 3 : 65535));
	s->k.ts = rnd(2) ? odd[rnd(5)] : (int64_t)rnd(5);
	s->k.seq = rnd(6) ? rnd(4) : UINT64_MAX - rnd(3);
	if (s->k.kind == CELL_VALUE) /* keys that differ in nothing else do not exist */
		s->k.commit = s->k.seq % 3 ? odd[s->k.seq % 5] : s->k.ts;
	if (s->k.kind == CELL_DELETE_ROW)
		s->k.family = 0;
	if (s->k.kind <= CELL_DELETE_FAMILY) {
		s->k.qualifier.n = 0;
		s->k.ts = INT64_MAX;
	}
}

/* The order of the design, spelt out field by field. */
static int order(const struct cellkey *a, const struct cellkey *b)
{
	bool am = a->kind <= CELL_DELETE_FAMILY, bm = b->kind <= CELL_DELETE_FAMILY;
	int c = bytes_cmp(a->row, b->row);

	if (c)
		return c;
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (am != bm)
		return am ? -1 : 1;
	c = bytes_cmp(a->qualifier, b->qualifier);
	if (c)
		return c;
	if (a->ts != b->ts)
		return a->ts > b->ts ? -1 : 1;
	if (a->seq != b->seq)
		return a->seq > b->seq ? -1 : 1;
	return (a->kind > b->kind) - (a->kind < b->kind);
}

static int sign(int v)
{
	return (v > 0) - (v < 0);
}

static void order_is_kept_and_keys_round_trip(void **state)
{
	struct buf ea = {0}, eb = {0}, scratch = {0};
	struct sample a, b;
	struct cellkey back;

	for (int i = 0; i < 200000; i++) {
		random_key(&a);
		random_key(&b);
		if (rnd(2)) { /* near each other */
			memcpy(b.row, a.row, sizeof(a.row));
			b.k.row = tfs_bytes_of(b.row, a.k.row.n);
			if (a.k.family && b.k.family)
				b.k.family = a.k.family;
		}
		buf_reset(&ea);
		buf_reset(&eb);
		assert_int_equal(cellkey_append(&ea, &a.k), 0);
		assert_int_equal(cellkey_append(&eb, &b.k), 0);
		assert_int_equal(sign(bytes_cmp(buf_bytes(&ea), buf_bytes(&eb))), sign(order(&a.k, &b.k)));
		assert_int_equal(cellkey_decode(buf_bytes(&ea), &back, &scratch), 0);
		assert_int_equal(order(&back, &a.k), 0);
		assert_true(back.commit == a.k.commit);
		assert_true(bytes_eq(back.row, a.k.row) && bytes_eq(back.qualifier, a.k.qualifier));
	}
	buf_fini(&ea);
	buf_fini(&eb);
	buf_fini(&scratch);
}

static void bytes_without_zero_are_borrowed(void **state)
{
	struct cellkey k = {.row = tfs_str("row"), .qualifier = tfs_str("q"), .family = 3, .kind = CELL_VALUE}, back;
	struct buf e = {0}, scratch = {0};

	assert_int_equal(cellkey_append(&e, &k), 0);
	assert_int_equal(cellkey_decode(buf_bytes(&e), &back, &scratch), 0);
	assert_ptr_equal(back.row.p, e.p);
	assert_ptr_equal(back.qualifier.p, e.p + 3 + 2 + 2);
	assert_null(scratch.p);
	buf_fini(&e);
}

static void only_canonical_keys_parse(void **state)
{
	struct buf e = {0}, again = {0}, scratch = {0}, exact = {0};
	struct cellkey k;
	struct sample s;
	int accepted = 0, refused = 0;

	for (int i = 0; i < 100000; i++) {
		bool ok;

		random_key(&s);
		buf_reset(&e);
		assert_int_equal(cellkey_append(&e, &s.k), 0);
		if (rnd(3) == 0)
			e.n -= 1 + rnd((uint32_t)e.n);
		else if (rnd(3) == 0)
			assert_int_equal(buf_u8(&e, (uint8_t)rnd(9)), 0);
		else
			e.p[rnd((uint32_t)e.n)] = rnd(2) ? (uint8_t)rnd(3) : 0xFF;
		/* memory of just this size, for the sanitizer */
		buf_fini(&exact);
		exact.p = malloc(e.n + !e.n);
		memcpy(exact.p, e.p, e.n);
		exact.n = exact.cap = e.n;
		ok = cellkey_decode(buf_bytes(&exact), &k, &scratch) == 0;
		if (ok) {
			buf_reset(&again);
			assert_int_equal(cellkey_append(&again, &k), 0);
			assert_true(bytes_eq(buf_bytes(&again), buf_bytes(&exact)));
			accepted++;
		} else {
			assert_int_equal(cellkey_decode(buf_bytes(&exact), &k, &scratch), -EBADMSG);
			refused++;
		}
		(void)cellkey_row_len(buf_bytes(&exact));
		(void)cellkey_column_len(buf_bytes(&exact));
	}
	assert_true(accepted > 1000 && refused > 1000);
	assert_int_not_equal(cellkey_decode((struct tfs_bytes){0}, &k, &scratch), 0);
	buf_fini(&e);
	buf_fini(&again);
	buf_fini(&exact);
	buf_fini(&scratch);
}

static void impossible_keys_are_refused(void **state)
{
	struct cellkey k = {.row = tfs_str("r"), .qualifier = tfs_str("q"), .family = 1};
	struct buf e = {0};

	assert_int_equal(cellkey_append(&e, &k), -EINVAL);
	k.kind = (enum cell_kind)(CELL_VALUE + 1);
	assert_int_equal(cellkey_append(&e, &k), -EINVAL);
	k.kind = CELL_VALUE;
	k.family = 0;
	assert_int_equal(cellkey_append(&e, &k), -EINVAL);
	assert_int_equal(e.n, 0);
	buf_fini(&e);
}

static void prefixes_bound_what_they_name(void **state)
{
	struct buf key = {0}, p = {0};
	struct sample a, b;

	for (int i = 0; i < 100000; i++) {
		const struct cellkey *k = &a.k, *o = &b.k;
		bool marker, other_marker;

		random_key(&a);
		random_key(&b);
		marker = k->kind <= CELL_DELETE_FAMILY;
		other_marker = o->kind <= CELL_DELETE_FAMILY;
		buf_reset(&key);
		assert_int_equal(cellkey_append(&key, k), 0);
#define BOUND(call, first)                                                                                                         \
	do {                                                                                                                       \
		buf_reset(&p);                                                                                                     \
		assert_int_equal(call, 0);                                                                                         \
		assert_int_equal(bytes_cmp(buf_bytes(&key), buf_bytes(&p)) >= 0, (first));                                         \
	} while (0)
		BOUND(cellkey_row_prefix(&p, o->row), bytes_cmp(k->row, o->row) >= 0);
		BOUND(cellkey_row_after(&p, o->row), bytes_cmp(k->row, o->row) > 0);
		if (other_marker)
			continue;
		BOUND(cellkey_column_prefix(&p, o->row, o->family, o->qualifier),
			bytes_cmp(k->row, o->row) > 0 ||
				(bytes_eq(k->row, o->row) &&
					(k->family > o->family ||
						(k->family == o->family && !marker &&
							bytes_cmp(k->qualifier, o->qualifier) >= 0))));
	}
	buf_fini(&key);
	buf_fini(&p);
}

static void lengths_and_suffixes(void **state)
{
	struct buf key = {0}, p = {0}, scratch = {0};
	struct tfs_bytes raw;
	struct sample a;

	for (int i = 0; i < 20000; i++) {
		enum cell_kind kind;
		uint64_t seq;
		int64_t ts;
		size_t n, r;

		random_key(&a);
		buf_reset(&key);
		assert_int_equal(cellkey_append(&key, &a.k), 0);
		buf_reset(&p);
		assert_int_equal(cellkey_row_prefix(&p, a.k.row), 0);
		r = cellkey_row_len(buf_bytes(&key));
		assert_int_equal(r, p.n);
		assert_int_equal(cellkey_unescape(tfs_bytes_of(key.p, r), &scratch, &raw), 0);
		assert_true(bytes_eq(raw, a.k.row));
		assert_int_equal(cellkey_unescape(tfs_bytes_of(key.p, r + 1), &scratch, &raw), -EBADMSG);
		n = cellkey_column_len(buf_bytes(&key));
		assert_true(n > r);
		cellkey_suffix(buf_bytes(&key), n, &ts, &seq, &kind);
		assert_true(ts == a.k.ts && seq == a.k.seq && kind == a.k.kind);
	}
	buf_fini(&key);
	buf_fini(&p);
	buf_fini(&scratch);
}

static void probes_are_tagged_prefixes(void **state)
{
	struct buf p = {0}, q = {0};

	assert_int_equal(cellkey_probe(&p, 'c', tfs_str("r"), 2, tfs_str("q")), 0);
	assert_int_equal(buf_u8(&q, 'c'), 0);
	assert_int_equal(cellkey_column_prefix(&q, tfs_str("r"), 2, tfs_str("q")), 0);
	assert_true(bytes_eq(buf_bytes(&p), buf_bytes(&q)));
	buf_reset(&p);
	assert_int_equal(cellkey_probe(&p, 'F', tfs_str("r"), 2, tfs_str("ignored")), 0);
	assert_int_equal(p.n, 1 + 3 + 2);
	buf_reset(&p);
	assert_int_equal(cellkey_probe(&p, 'r', tfs_str("r"), 2, tfs_str("ignored")), 0);
	assert_int_equal(p.n, 1 + 3);
	assert_int_equal(cellkey_probe(&p, 'x', tfs_str("r"), 2, tfs_str("q")), -EINVAL);
	assert_int_equal(p.n, 1 + 3);
	buf_fini(&p);
	buf_fini(&q);
}

static void out_of_memory_changes_nothing(void **state)
{
	struct cellkey k = {.row = tfs_bytes_of("a\0b", 3), .qualifier = tfs_bytes_of("\0", 1), .family = 1, .kind = CELL_VALUE},
		       back = {0};
	struct buf e = {0}, fresh = {0}, scratch = {0};

	assert_int_equal(cellkey_append(&e, &k), 0);
#define DRY(call)                                                                                                                  \
	do {                                                                                                                       \
		fail_at = 1;                                                                                                       \
		assert_int_equal(call, -ENOMEM);                                                                                   \
		assert_int_equal(fail_at, 0);                                                                                      \
		assert_int_equal(fresh.n, 0);                                                                                      \
	} while (0)
	DRY(cellkey_append(&fresh, &k));
	DRY(cellkey_row_prefix(&fresh, k.row));
	DRY(cellkey_row_after(&fresh, k.row));
	DRY(cellkey_column_prefix(&fresh, k.row, 1, k.qualifier));
	DRY(cellkey_probe(&fresh, 'c', k.row, 1, k.qualifier));
	DRY(cellkey_decode(buf_bytes(&e), &back, &scratch));
	assert_null(back.row.p);
	buf_fini(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_kept_and_keys_round_trip),
		cmocka_unit_test(bytes_without_zero_are_borrowed),
		cmocka_unit_test(only_canonical_keys_parse),
		cmocka_unit_test(impossible_keys_are_refused),
		cmocka_unit_test(prefixes_bound_what_they_name),
		cmocka_unit_test(lengths_and_suffixes),
		cmocka_unit_test(probes_are_tagged_prefixes),
		cmocka_unit_test(out_of_memory_changes_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
