/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The iterator of live cells and the scan batches agree with cells_model.h over random
 * histories with every kind of delete, rule and scan.  TFS_SEED=N repeats one
 * history; TFS_ROUNDS=N runs more of them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/msg.h"
#include "t/unit/cells_model.h"

/* ---- failing allocations ---- */
static long fail_at; /* counts down to the allocation that fails; 0 if none does */

static bool fails(void)
{
	return fail_at > 0 && --fail_at == 0;
}

#include "t/unit/wrap_alloc.h"

static void same_value(struct tfs_bytes v, const struct expect *e)
{
	assert_int_equal(v.n, e->size);
	for (size_t i = 0; i < v.n; i++)
		assert_int_equal(v.p[i], byte_at(e->seq, i));
}

static void check_batches(const struct model *md, const struct live_options *o)
{
	static struct expect want[MAX_CELLS];
	const struct scan_spec *s = o->spec;
	int count = expected(md, o, want), at = 0;
	struct scan_batch b = {0};
	struct scan_returned already = {0};
	struct iter *it;
	struct live *l;

	if (s->pub.limit && (uint64_t)count > s->pub.limit)
		count = (int)s->pub.limit;
	assert_int_equal(open_merge(md, &it), 0);
	assert_int_equal(live_new(it, o, &l), 0);
	do {
		scan_batch_reset(&b);
		assert_int_equal(scan_fill(l, s, &already, &b), 0);
		assert_true(b.count > 0 || b.done);
		for (uint32_t i = 0; i < b.count; i++, at++) {
			const struct tfs_cell *c = &b.cells[i];

			assert_true(at < count);
			assert_true(bytes_eq(c->row, rows[want[at].row]));
			if (s->pub.what == TFS_SCAN_ROWS)
				continue;
			assert_int_equal(c->family_id, family_ids[want[at].family]);
			if (s->pub.what == TFS_SCAN_FAMILIES)
				continue;
			assert_true(bytes_eq(c->qualifier, qualifiers[want[at].qualifier]));
			assert_true(c->ts == want[at].ts);
			assert_int_equal(c->size, want[at].size);
			assert_true(c->expires_us == want[at].expires);
			assert_true(c->commit_us == COMMIT_OF(want[at].seq));
			if (s->pub.what == TFS_SCAN_KEYS || want[at].size > TFS_INLINE_MAX) {
				assert_null(c->value.p);
			} else {
				assert_non_null(c->value.p);
				same_value(c->value, &want[at]);
			}
		}
	} while (!b.done);
	assert_int_equal(at, count);
	assert_int_equal(already.cells, count);
	scan_batch_fini(&b);
	live_free(l);
}

/* Cell by cell. */
static void check_walk(const struct model *md, const struct live_options *o)
{
	static struct expect want[MAX_CELLS];
	int count = expected(md, o, want), at = 0;
	struct tfs_bytes value;
	struct live_cell c;
	struct iter *it;
	struct live *l;

	assert_int_equal(open_merge(md, &it), 0);
	assert_int_equal(live_new(it, o, &l), 0);
	for (; live_next(l, &c) == 1; at++) {
		assert_true(at < count);
		assert_true(bytes_eq(c.row, rows[want[at].row]));
		assert_true(bytes_eq(c.qualifier, qualifiers[want[at].qualifier]));
		assert_int_equal(c.family, family_ids[want[at].family]);
		assert_true(c.ts == want[at].ts && c.seq == want[at].seq);
		assert_int_equal(c.size, want[at].size);
		assert_int_equal(live_value(l, 0, (size_t)c.size, &value), 0);
		same_value(value, &want[at]);
	}
	assert_int_equal(at, count);
	assert_int_equal(live_next(l, &c), 0);
	live_free(l);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : otherwise;
}

static void histories_look_as_the_model_says(void **state)
{
	uint64_t seed = number_from("TFS_SEED", 0), rounds = seed ? 1 : number_from("TFS_ROUNDS", 1500);
	static struct model md;
	uint16_t families[4];

	for (uint64_t r = 0; r < rounds; r++) {
		struct live_options o;
		struct scan_spec s;

		rng = (seed ? seed : r + 1) * UINT64_C(0x9E3779B97F4A7C15);
		if (getenv("TFS_VERBOSE"))
			print_message("seed %d\n", (int)(r + 1));
		model_make(&md, r % 20 == 0);
		for (int k = 0; k < 8; k++) {
			random_spec(&s, &o, &md, families);
			check_batches(&md, &o);
			check_walk(&md, &o);
		}
		model_free(&md);
	}
}

/* Appends the cells of the batch to the list, with bytes of their own. */
static void list_add(struct scan_batch *list, const struct scan_batch *b)
{
	list->cells = realloc(list->cells, (list->count + b->count + 1) * sizeof(*list->cells));
	assert_non_null(list->cells);
	for (uint32_t i = 0; i < b->count; i++) {
		struct tfs_cell *c = &list->cells[list->count++];

		*c = b->cells[i];
		assert_true(arena_dup(&list->arena, c->row, &c->row) && arena_dup(&list->arena, c->qualifier, &c->qualifier));
	}
}

/* All cells of the scan.  place: noted after each batch, up to one at random; NULL: none. */
static void list_all(const struct model *md, const struct live_options *o, struct scan_place *place, struct scan_batch *list)
{
	struct scan_returned already = {0};
	struct scan_batch b = {0};
	struct iter *it;
	struct live *l;

	assert_int_equal(open_merge(md, &it), 0);
	assert_int_equal(live_new(it, o, &l), 0);
	while (!b.done) {
		scan_batch_reset(&b);
		assert_int_equal(scan_fill(l, o->spec, &already, &b), 0);
		list_add(list, &b);
		if (place) {
			assert_int_equal(scan_place_note(place, o->spec, &b), 0);
			if (rnd(3) == 0)
				break;
		}
	}
	scan_batch_fini(&b);
	live_free(l);
}

/* A scan that is lost between two batches, again and again, returns each cell once. */
static void lost_scans_are_continued(void **state)
{
	static struct model md;
	uint16_t families[4];
	unsigned continued = 0;

	for (uint64_t r = 0; r < 1500; r++) {
		rng = (r + 5) * UINT64_C(0x9E3779B97F4A7C15);
		model_make(&md, r % 20 == 0);
		for (int k = 0; k < 8; k++) {
			struct scan_batch all = {0}, parts = {0};
			struct scan_place place = {0};
			struct live_options o;
			struct scan_spec s;
			int more = 1;

			random_spec(&s, &o, &md, families);
			s.pub.limit = 0; /* the client's concern */
			s.pub.batch_bytes = 1 + rnd(200);
			s.pub.column_limit = rnd(3) ? 0 : 1 + (uint32_t)rnd(3);
			s.pub.reverse = !s.pub.one_row && rnd(3) == 0;
			list_all(&md, &o, NULL, &all);
			while (more && parts.count < all.count) {
				const uint32_t before = parts.count;

				list_all(&md, &o, &place, &parts);
				assert_true(parts.count > before);
				more = scan_place_continue(&place, &s);
				continued += more;
			}
			assert_int_equal(parts.count, all.count);
			for (uint32_t i = 0; i < all.count; i++) {
				const struct tfs_cell *a = &all.cells[i], *b = &parts.cells[i];

				assert_true(bytes_eq(a->row, b->row) && a->family_id == b->family_id);
				if (s.pub.what == TFS_SCAN_CELLS || s.pub.what == TFS_SCAN_KEYS)
					assert_true(bytes_eq(a->qualifier, b->qualifier) && a->ts == b->ts &&
						a->sequence == b->sequence);
			}
			if (more) { /* and then nothing */
				list_all(&md, &o, NULL, &parts);
				assert_int_equal(parts.count, all.count);
			}
			scan_place_fini(&place);
			scan_batch_fini(&all);
			scan_batch_fini(&parts);
		}
		model_free(&md);
	}
	assert_true(continued > 2000);
}

static void every_failing_allocation_is_reported(void **state)
{
	static struct model md;
	uint16_t families[4];
	long failures = 0;

	for (uint64_t r = 0; r < 12; r++) {
		struct live_options o;
		struct scan_spec s;

		rng = (r + 99) * UINT64_C(0x9E3779B97F4A7C15);
		model_make(&md, false);
		random_spec(&s, &o, &md, families);
		s.pub.limit = 0;
		for (long n = 1; n < 4000; n++) {
			static struct expect want[MAX_CELLS];
			int count = expected(&md, &o, want), at = 0;
			struct scan_batch b = {0};
			struct scan_returned already = {0};
			struct iter *it;
			struct live *l = NULL;
			bool failed;
			int err;

			fail_at = n;
			err = open_merge(&md, &it);
			if (!err)
				err = live_new(it, &o, &l);
			while (!err && !b.done) {
				scan_batch_reset(&b);
				err = scan_fill(l, &s, &already, &b);
				at += err ? 0 : (int)b.count;
			}
			failed = fail_at == 0;
			fail_at = 0;
			scan_batch_fini(&b);
			if (!err || l)
				live_free(l);
			assert_int_equal(err, failed ? -ENOMEM : 0);
			if (!failed) {
				assert_int_equal(at, count);
				break;
			}
			failures++;
		}
		model_free(&md);
	}
	assert_true(failures > 100);
}

/* After -ENOMEM in live_next alone, the next call continues where it was. */
static void live_next_can_be_asked_again(void **state)
{
	static struct model md;
	uint16_t families[4];

	for (uint64_t r = 0; r < 100; r++) {
		static struct expect want[MAX_CELLS];
		struct live_options o;
		struct scan_spec s;
		struct live_cell c;
		struct iter *it;
		struct live *l;
		int count, at = 0, got;

		rng = (r + 7) * UINT64_C(0x9E3779B97F4A7C15);
		model_make(&md, false);
		while (md.children > 1)
			memtable_put(md.m[--md.children]); /* a merge does not survive its own failure */
		md.clipped[0] = false;
		/* the contents of the child, by a raw scan */
		random_spec(&s, &o, &md, families);
		o.row_begin = o.row_end = s.pub.row_from = s.pub.row_to = (struct tfs_bytes){0};
		s.pub.one_row = s.pub.row_from_after = false;
		assert_int_equal(open_merge(&md, &it), 0);
		assert_int_equal(live_new(it, &o, &l), 0);
		for (count = 0; live_next(l, &c) == 1; count++)
			want[count] = (struct expect){.family = c.family, .ts = c.ts, .seq = c.seq};
		live_free(l);
		assert_int_equal(open_merge(&md, &it), 0);
		assert_int_equal(live_new(it, &o, &l), 0);
		for (;;) {
			fail_at = 1 + (long)rnd(2);
			got = live_next(l, &c);
			fail_at = 0;
			if (got == -ENOMEM)
				continue;
			assert_int_equal(got, at < count);
			if (!got)
				break;
			assert_true(c.family == want[at].family && c.ts == want[at].ts && c.seq == want[at].seq);
			at++;
		}
		live_free(l);
		model_free(&md);
	}
}

/* ---- skipping ---- */
struct spy {
	struct iter it;
	struct iter *child;
	int loads, seeks, steps;
};
static struct spy spy;

static void spy_show(void)
{
	spy.it.valid = spy.child->valid;
	spy.it.key = spy.child->key;
	spy.it.size = spy.child->size;
}

static void spy_seek(struct iter *it, struct tfs_bytes target)
{
	iter_seek(spy.child, target);
	spy.seeks++;
	spy_show();
}

static void spy_next(struct iter *it)
{
	iter_next(spy.child);
	spy.steps++;
	spy_show();
}

static void spy_free(struct iter *it)
{
	iter_free(spy.child);
}

static int spy_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	spy.loads++;
	return iter_load(spy.child, offset, n, out);
}

static const struct iter_ops spy_ops = {spy_seek, spy_next, spy_free, NULL, spy_load};

static int count_live(struct memtable *m, const struct model *md, const struct scan_spec *s, uint64_t seq)
{
	struct live_options o = {.rules = {model_rule, md}, .seq = seq, .spec = s};
	struct live_cell c;
	struct live *l;
	int n = 0;

	spy = (struct spy){.it = {.ops = &spy_ops}};
	assert_int_equal(memtable_iter_new(m, &spy.child), 0);
	assert_int_equal(live_new(&spy.it, &o, &l), 0);
	while (live_next(l, &c) == 1)
		n++;
	live_free(l);
	return n;
}

/* A value of an SSTable is decompressed when it is loaded. */
static void scans_load_no_value_and_step_over_little(void **state)
{
	static struct model md;
	struct scan_spec s = {0};
	struct memtable *m;
	uint16_t families[] = {7};
	uint64_t seq = 0;

	assert_int_equal(memtable_new(&m), 0);
	md.m[0] = m;
	for (int i = 0; i < FAMILIES; i++)
		md.rules[i].known = true;
	for (int row = 1; row < 4; row++) {
		for (int family = 0; family < 3; family++) {
			for (int q = 0; q < 3; q++) {
				for (int ts = 0; ts < 3; ts++)
					store(&md, 0,
						&(struct entry){.row = row,
							.family = family,
							.qualifier = q,
							.ts = ts,
							.seq = ++seq,
							.kind = CELL_VALUE,
							.size = 100});
			}
		}
	}
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 81);
	assert_int_equal(spy.loads, 0);
	assert_int_equal(count_live(m, &md, &s, 40), 40);
	assert_int_equal(spy.loads, 0);
	s.pub.versions = 1;
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 27);
	assert_int_equal(spy.loads, 0);
	s.pub.what = TFS_SCAN_FAMILIES;
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 9);
	assert_int_equal(spy.loads, 0);
	assert_in_range(spy.seeks, 9, 12);
	s.pub.what = TFS_SCAN_ROWS;
	s.pub.versions = 0;
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 3);
	assert_int_equal(spy.loads, 0);
	assert_in_range(spy.seeks, 3, 6);
	s.pub.what = TFS_SCAN_KEYS;
	s.family_ids = families;
	s.pub.family_count = 1;
	s.pub.qualifier_from = qualifiers[2];
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 9);
	assert_int_equal(spy.loads, 0);
	assert_true(spy.steps < 60);
	memtable_put(m);

	/* a column of 1000 versions is not walked for its newest */
	assert_int_equal(memtable_new(&m), 0);
	md.m[0] = m;
	for (int ts = 0; ts < 1000; ts++)
		store(&md, 0, &(struct entry){.row = 1, .family = 0, .qualifier = 0, .ts = ts, .seq = ++seq, .kind = CELL_VALUE});
	store(&md, 0, &(struct entry){.row = 1, .family = 0, .qualifier = 1, .ts = 0, .seq = ++seq, .kind = CELL_VALUE});
	s = (struct scan_spec){.pub.versions = 1};
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 2);
	assert_in_range(spy.steps, 1, 30);
	memtable_put(m);
}

/* ---- damage ---- */
static void malformed_entries_are_damage(void **state)
{
	static const struct tfs_bytes bad[] = {LIT(""), LIT("row"), LIT("r\0\1\0\1q\0\1"), LIT("r\0\1\0\0q\0\1AAAAAAAABBBBBBBB\5"),
		LIT("r\0\1\0\1q\0\1\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x09"),
		LIT("r\0\1\0\1q\0\1\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x06")};
	static struct model md;

	md.rules[0].known = true;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct scan_spec s = {0};
		struct live_options o = {.rules = {model_rule, &md}, .seq = UINT64_MAX, .spec = &s};
		struct memtable *m;
		struct memnode *n;
		struct live_cell c;
		struct iter *it;
		struct live *l;

		assert_int_equal(memtable_new(&m), 0);
		assert_int_equal(memtable_prepare(m, bad[i], tfs_str("seven b"), &n), 0);
		memtable_insert(m, n, false);
		assert_int_equal(memtable_iter_new(m, &it), 0);
		memtable_put(m);
		/* a raw start, because the empty key sorts before any prefix */
		assert_int_equal(live_new(it, &o, &l), 0);
		assert_int_equal(live_next(l, &c), bad[i].n ? -EBADMSG : 0);
		live_free(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histories_look_as_the_model_says),
		cmocka_unit_test(lost_scans_are_continued),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(live_next_can_be_asked_again),
		cmocka_unit_test(scans_load_no_value_and_step_over_little),
		cmocka_unit_test(malformed_entries_are_damage),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_to_nowhere();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
