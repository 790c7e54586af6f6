/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging, clipping, the view of live cells and scan batches, against a
 * naive model: a plain array of entries and visibility by brute force, over
 * random histories with every kind of delete, rule and scan.
 * TFS_SEED=N repeats one history; TFS_ROUNDS=N does more of them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/msg.h"
#include "engine/store/memtable.h"
#include "engine/store/merge.h"

/* ---- failing allocations ---- */
static long fail_at; /* the how-manieth from now; 0: none */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t m);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t m);

static bool fails(void)
{
	return fail_at > 0 && --fail_at == 0;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return fails() ? NULL : __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
void *__wrap_reallocarray(void *p, size_t n, size_t m) { return fails() ? NULL : __real_reallocarray(p, n, m); }

/* ---- chance ---- */
static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng >> 16) % n);
}

/* ---- the model ---- */
enum { ROWS = 7, FAMILIES = 4, QUALIFIERS = 7, MAX_ENTRIES = 260, MAX_CHILDREN = 6, MAX_CELLS = MAX_ENTRIES };
#define LIT(s) {(const uint8_t *)(s), sizeof(s) - 1}
static const struct slice rows[ROWS] = {LIT(""), LIT("a"), LIT("a\0"), LIT("a\0\xff"), LIT("a\x01"), LIT("b\0c"), LIT("\xff\xff")};
static const struct slice qualifiers[QUALIFIERS] = {LIT(""), LIT("\0"), LIT("\0\0"), LIT("\x01"), LIT("q"), LIT("q\0z"), LIT("\xff")};
static const uint16_t family_ids[FAMILIES] = {1, 2, 7, 65535};

struct entry {
	int row, family, qualifier; /* indices */
	enum cell_kind kind;
	int64_t ts;
	uint64_t seq, size;
};
struct model_rule {
	bool known, both;    /* both: `and` of versions and age */
	uint64_t versions;   /* 0: none */
	int64_t age;
	struct gc_rule *rule;
};
struct model {
	struct entry e[MAX_ENTRIES];
	int count;
	struct model_rule rules[FAMILIES];
	struct memtable *m[MAX_CHILDREN];
	int children;
	bool clipped[MAX_CHILDREN];
	int clip_from[MAX_CHILDREN], clip_to[MAX_CHILDREN];
};
struct expect {
	int row, family, qualifier;
	int64_t ts, expires;
	uint64_t size, seq;
	bool large;
};

static uint8_t byte_at(uint64_t seq, uint64_t i)
{
	return (uint8_t)(seq * 31 + i * 7 + (i >> 8) * 3);
}

static void put(struct memtable *m, const struct cellkey *k, struct slice value)
{
	struct buf key = {0};
	struct memnode *n;

	assert_int_equal(cellkey_append(&key, k), 0);
	assert_int_equal(memtable_prepare(m, buf_slice(&key), value, &n), 0);
	memtable_insert(m, n);
	buf_fini(&key);
}

static void store(struct model *md, int child, const struct entry *e)
{
	struct cellkey k = {.row = rows[e->row], .qualifier = qualifiers[e->qualifier], .family = family_ids[e->family],
			    .kind = e->kind, .ts = e->ts, .seq = e->seq};
	static uint8_t bytes[4 * CELL_CHUNK_BYTES];

	for (uint64_t i = 0; i < e->size; i++)
		bytes[i] = byte_at(e->seq, i);
	if (e->kind == CELL_LARGE) {
		uint8_t size[8];

		put_be64(size, e->size);
		put(md->m[child], &k, slice_of(size, 8));
		k.kind = CELL_CHUNK;
		for (uint64_t at = 0; at < e->size; at += CELL_CHUNK_BYTES, k.chunk++)
			put(md->m[child], &k, slice_of(bytes + at, e->size - at < CELL_CHUNK_BYTES ? e->size - at : CELL_CHUNK_BYTES));
	} else {
		put(md->m[child], &k, slice_of(bytes, e->size));
	}
}

/* Whether the child's clip lets the entry through. */
static bool shows(const struct model *md, int child, const struct entry *e)
{
	return !md->clipped[child] || (e->row >= md->clip_from[child] && e->row < md->clip_to[child]);
}

static void model_make(struct model *md, bool with_large)
{
	int n = 1 + (int)rnd(rnd(4) ? 60 : MAX_ENTRIES);
	static const int64_t odd_ts[] = {INT64_MIN, INT64_MAX, -1, 0};

	memset(md, 0, sizeof(*md));
	md->children = 1 + (int)rnd(MAX_CHILDREN);
	for (int i = 0; i < md->children; i++) {
		assert_int_equal(memtable_new(&md->m[i]), 0);
		md->clipped[i] = rnd(4) == 0;
		md->clip_from[i] = (int)rnd(ROWS);
		md->clip_to[i] = md->clip_from[i] + (int)rnd(ROWS + 1 - (uint32_t)md->clip_from[i]);
	}
	for (int i = 0; i < FAMILIES; i++) {
		struct model_rule *r = &md->rules[i];
		char text[80];

		r->known = rnd(8) != 0;
		r->versions = rnd(2) ? 1 + rnd(4) : 0;
		r->age = rnd(3) == 0 ? 1 + (int)rnd(10) : 0;
		r->both = r->versions && r->age && rnd(2);
		if (r->versions && r->age)
			snprintf(text, sizeof(text), "maxversions=%d %s maxage=%dus", (int)r->versions, r->both ? "and" : "or", (int)r->age);
		else if (r->versions)
			snprintf(text, sizeof(text), "maxversions=%d", (int)r->versions);
		else if (r->age)
			snprintf(text, sizeof(text), "maxage=%dus", (int)r->age);
		else
			text[0] = 0;
		assert_int_equal(gc_parse(text, &r->rule, NULL), 0);
	}
	/* few places are hot, so that versions and deletes meet */
	for (int i = 0; i < n; i++) {
		struct entry e = {.row = (int)rnd(rnd(2) ? 2 : ROWS), .family = (int)rnd(rnd(2) ? 2 : FAMILIES),
				  .qualifier = (int)rnd(rnd(2) ? 2 : QUALIFIERS), .seq = (uint64_t)i + 1};
		uint32_t dice = rnd(100);
		int child = (int)rnd((uint32_t)md->children);
		bool seen;

		e.ts = rnd(12) ? 1 + (int64_t)rnd(12) : odd_ts[rnd(4)];
		if (dice < 3)
			e.kind = CELL_DELETE_ROW;
		else if (dice < 7)
			e.kind = CELL_DELETE_FAMILY;
		else if (dice < 17)
			e.kind = CELL_DELETE_COLUMN;
		else if (dice < 27)
			e.kind = CELL_DELETE_VERSION;
		else if (dice < 30 && with_large)
			e.kind = CELL_LARGE;
		else
			e.kind = CELL_VALUE;
		if (e.kind == CELL_VALUE)
			e.size = rnd(4) ? rnd(40) : rnd(rnd(8) ? 500 : 6000);
		if (e.kind == CELL_LARGE)
			e.size = CELL_CHUNK_BYTES + 1 + rnd(2 * CELL_CHUNK_BYTES);
		if (e.kind == CELL_LARGE && rnd(4) == 0)
			e.size = 2 * CELL_CHUNK_BYTES;
		seen = shows(md, child, &e);
		store(md, child, &e);
		/* a delete of a row is written to several groups */
		for (int c = 0; e.kind == CELL_DELETE_ROW && c < md->children; c++) {
			if (c != child && rnd(2)) {
				store(md, c, &e);
				seen |= shows(md, c, &e);
			}
		}
		if (seen)
			md->e[md->count++] = e;
	}
}

static void model_free(struct model *md)
{
	for (int i = 0; i < md->children; i++)
		memtable_put(md->m[i]);
	for (int i = 0; i < FAMILIES; i++)
		gc_free(md->rules[i].rule);
}

static const struct gc_rule *model_rule(const void *arg, uint16_t family, bool *known)
{
	const struct model *md = arg;

	for (int i = 0; i < FAMILIES; i++) {
		if (family_ids[i] == family) {
			*known = md->rules[i].known;
			return *known ? md->rules[i].rule : NULL;
		}
	}
	*known = false;
	return NULL;
}

static bool cell_kind(enum cell_kind k)
{
	return k == CELL_VALUE || k == CELL_LARGE;
}

static bool entry_live(const struct model *md, const struct entry *e, uint64_t seq)
{
	if (!cell_kind(e->kind) || e->seq > seq || !md->rules[e->family].known)
		return false;
	for (int i = 0; i < md->count; i++) {
		const struct entry *d = &md->e[i];
		bool column = d->family == e->family && d->qualifier == e->qualifier;

		if (d->row != e->row || d->seq > seq || d->seq <= e->seq)
			continue;
		if (d->kind == CELL_DELETE_ROW || (d->kind == CELL_DELETE_FAMILY && d->family == e->family))
			return false;
		if (column && d->kind == CELL_DELETE_COLUMN && d->ts >= e->ts)
			return false;
		if (column && d->ts == e->ts && (d->kind == CELL_DELETE_VERSION || cell_kind(d->kind)))
			return false;
	}
	return true;
}

static int by_key(const void *pa, const void *pb)
{
	const struct expect *a = pa, *b = pb;

	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->qualifier != b->qualifier)
		return a->qualifier < b->qualifier ? -1 : 1;
	return (a->ts < b->ts) - (a->ts > b->ts);
}

static bool age_hides(const struct model_rule *r, int64_t ts, int64_t now)
{
	return r->age && ts <= INT64_MAX - r->age && ts + r->age <= now;
}

static int expected(const struct model *md, const struct live_options *o, struct expect *out)
{
	static struct expect live[MAX_CELLS];
	const struct scan_spec *s = o->spec;
	int n = 0, count = 0;
	uint64_t index = 0, shown = 0;

	for (int i = 0; i < md->count; i++) {
		const struct entry *e = &md->e[i];

		if (entry_live(md, e, o->seq))
			live[n++] = (struct expect){.row = e->row, .family = e->family, .qualifier = e->qualifier, .ts = e->ts,
						    .size = e->size, .seq = e->seq, .large = e->kind == CELL_LARGE};
	}
	qsort(live, (size_t)n, sizeof(*live), by_key);
	for (int i = 0; i < n; i++) {
		struct expect *e = &live[i];
		const struct model_rule *r = &md->rules[e->family];
		struct slice row = rows[e->row], q = qualifiers[e->qualifier];
		bool by_versions, by_age, in = s->families == NULL;

		if (i == 0 || e->row != e[-1].row || e->family != e[-1].family || e->qualifier != e[-1].qualifier)
			index = shown = 0;
		by_versions = r->versions && index >= r->versions;
		by_age = age_hides(r, e->ts, o->now);
		index++;
		if (r->both ? by_versions && by_age : by_versions || by_age)
			continue;
		e->expires = r->age && e->ts <= INT64_MAX - r->age ? e->ts + r->age : INT64_MAX;
		if (r->both && !by_versions)
			e->expires = INT64_MAX;
		for (uint32_t f = 0; s->families && f < s->family_count; f++)
			in |= s->families[f] == family_ids[e->family];
		if (!in || slice_cmp(row, o->row_begin) < 0 || (o->row_end.p && slice_cmp(row, o->row_end) >= 0))
			continue;
		if (s->one_row ? !slice_eq(row, s->row_from)
			       : (slice_cmp(row, s->row_from) < 0 || (s->row_from_after && slice_eq(row, s->row_from))))
			continue;
		if (s->row_to.p && slice_cmp(row, s->row_to) >= 0)
			continue;
		if (slice_cmp(q, s->qualifier_from) < 0 || (s->qualifier_to.p && slice_cmp(q, s->qualifier_to) >= 0))
			continue;
		if (s->has_times && (e->ts < s->since || e->ts >= s->until))
			continue;
		if (s->versions && shown >= s->versions)
			continue;
		shown++;
		if (s->after_cell && slice_eq(q, s->qualifier_from) && e->ts >= s->after_ts)
			continue;
		if (count && s->what == SCAN_ROWS && out[count - 1].row == e->row)
			continue;
		if (count && s->what == SCAN_FAMILIES && out[count - 1].row == e->row && out[count - 1].family == e->family)
			continue;
		out[count++] = *e;
	}
	return count;
}

/* ---- the real thing ---- */
static int open_merge(const struct model *md, struct iter **out)
{
	struct iter *its[MAX_CHILDREN];
	int err;

	for (int i = 0; i < md->children; i++) {
		err = memtable_iter_new(md->m[i], &its[i]);
		if (!err && md->clipped[i]) {
			struct buf from = {0}, to = {0};

			err = cellkey_row_prefix(&from, rows[md->clip_from[i]]);
			if (!err && md->clip_to[i] < ROWS)
				err = cellkey_row_prefix(&to, rows[md->clip_to[i]]);
			if (!err)
				err = clip_iter_new(its[i], buf_slice(&from), buf_slice(&to), &its[i]);
			else
				iter_free(its[i]);
			buf_fini(&from);
			buf_fini(&to);
		}
		if (err) {
			while (i-- > 0)
				iter_free(its[i]);
			return err;
		}
	}
	return merge_iter_new(its, (unsigned)md->children, out);
}

static void random_spec(struct scan_spec *s, struct live_options *o, const struct model *md, uint16_t *families)
{
	*s = (struct scan_spec){.what = (enum scan_what)rnd(4)};
	*o = (struct live_options){.rules = {model_rule, md}, .seq = rnd(2) ? UINT64_MAX : rnd(MAX_ENTRIES), .now = rnd(20), .spec = s};
	if (rnd(4) == 0)
		o->row_begin = rows[rnd(ROWS)];
	if (rnd(4) == 0)
		o->row_end = rows[rnd(ROWS)];
	if (rnd(2))
		s->row_from = rows[rnd(ROWS)];
	if (s->row_from.n && rnd(3) == 0)
		s->one_row = true;
	else
		s->row_from_after = rnd(3) == 0;
	if (rnd(4) == 0)
		s->row_to = rows[rnd(ROWS)];
	if (rnd(2)) {
		s->families = families;
		s->family_count = rnd(3);
		for (uint32_t i = 0; i < s->family_count; i++)
			families[i] = rnd(10) ? family_ids[rnd(FAMILIES)] : (uint16_t)rnd(9);
	}
	if (rnd(3) == 0)
		s->qualifier_from = qualifiers[rnd(QUALIFIERS)];
	if (rnd(3) == 0)
		s->qualifier_to = qualifiers[rnd(QUALIFIERS)];
	if (rnd(4) == 0) { /* on with a column at a version, as a directory listing goes on */
		s->one_row = true;
		s->row_from_after = false;
		s->row_from = rows[rnd(2)];
		s->families = families;
		s->family_count = 1;
		families[0] = family_ids[rnd(2)];
		s->qualifier_from = qualifiers[rnd(2)];
		s->after_cell = true;
		s->after_ts = (int64_t)rnd(14);
	}
	if (rnd(4) == 0) {
		s->has_times = true;
		s->since = (int64_t)rnd(10) - 1;
		s->until = s->since + (int64_t)rnd(8);
	}
	s->versions = rnd(2) ? rnd(4) : 0;
	s->limit = rnd(3) ? 0 : rnd(20);
	s->batch_bytes = rnd(2) ? 1 + rnd(2000) : 0;
}

static void same_value(struct slice v, const struct expect *e)
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
	uint64_t already = 0;
	struct iter *it;
	struct live *l;

	if (s->limit && (uint64_t)count > s->limit)
		count = (int)s->limit;
	assert_int_equal(open_merge(md, &it), 0);
	assert_int_equal(live_new(it, o, &l), 0);
	do {
		scan_batch_reset(&b);
		assert_int_equal(scan_fill(l, s, &already, &b), 0);
		assert_true(b.count > 0 || b.done);
		for (uint32_t i = 0; i < b.count; i++, at++) {
			const struct scan_cell *c = &b.cells[i];

			assert_true(at < count);
			assert_true(slice_eq(c->row, rows[want[at].row]));
			if (s->what == SCAN_ROWS)
				continue;
			assert_int_equal(c->family, family_ids[want[at].family]);
			if (s->what == SCAN_FAMILIES)
				continue;
			assert_true(slice_eq(c->qualifier, qualifiers[want[at].qualifier]));
			assert_true(c->ts == want[at].ts);
			assert_int_equal(c->size, want[at].size);
			assert_true(c->expires_us == want[at].expires);
			if (s->what == SCAN_KEYS || want[at].large) {
				assert_null(c->value.p);
			} else {
				assert_non_null(c->value.p);
				same_value(c->value, &want[at]);
			}
		}
	} while (!b.done);
	assert_int_equal(at, count);
	assert_int_equal(already, count);
	scan_batch_fini(&b);
	live_free(l);
}

static void check_large(struct live *l, const struct live_cell *c, const struct expect *e)
{
	for (uint32_t k = rnd(4); k > 0; k--) {
		uint64_t offset = rnd(3) ? rnd((uint32_t)e->size + 10) : (uint64_t)rnd(3) * CELL_CHUNK_BYTES;
		size_t n = rnd(2) ? rnd(100) : rnd((uint32_t)e->size + 10), got = 0, should;
		uint8_t *p = malloc(n + 1);
		int err;

		should = offset >= e->size ? 0 : n < e->size - offset ? n : (size_t)(e->size - offset);
		fail_at = rnd(2);
		err = live_read_large(l, c, offset, p, n, &got);
		fail_at = 0;
		if (err == -ENOMEM)
			err = live_read_large(l, c, offset, p, n, &got);
		assert_int_equal(err, 0);
		assert_int_equal(got, should);
		for (size_t i = 0; i < got; i++)
			assert_int_equal(p[i], byte_at(e->seq, offset + i));
		free(p);
	}
}

/* live_next with skips and reads of large cells at random places. */
static void check_skips(const struct model *md, const struct live_options *o)
{
	static struct expect want[MAX_CELLS];
	int count = expected(md, o, want), at = 0, r;
	struct live_cell c;
	struct iter *it;
	struct live *l;

	assert_int_equal(open_merge(md, &it), 0);
	assert_int_equal(live_new(it, o, &l), 0);
	for (int steps = 0; steps < 1000; steps++) {
		if (rnd(12) == 0) {
			int row = (int)rnd(ROWS);
			bool current = at > 0 && rnd(2);

			if (current)
				row = want[at - 1].row;
			fail_at = rnd(3);
			r = live_skip_row(l, rows[row]);
			fail_at = 0;
			if (r == -ENOMEM)
				r = live_skip_row(l, rows[row]);
			assert_int_equal(r, 0);
			for (at = 0; at < count && want[at].row <= row;)
				at++;
		} else if (rnd(12) == 0 && o->spec->what != SCAN_ROWS) {
			int row = (int)rnd(ROWS), family = (int)rnd(FAMILIES);

			if (at > 0 && rnd(2))
				row = want[at - 1].row;
			if (at > 0 && rnd(2))
				family = want[at - 1].family;
			fail_at = rnd(4);
			r = live_skip_family(l, rows[row], family_ids[family]);
			fail_at = 0;
			if (r == -ENOMEM)
				r = live_skip_family(l, rows[row], family_ids[family]);
			assert_int_equal(r, 0);
			for (at = 0; at < count && (want[at].row < row || (want[at].row == row && want[at].family <= family));)
				at++;
		}
		r = live_next(l, &c);
		assert_true(r >= 0);
		assert_int_equal(r, at < count);
		if (r == 0) {
			assert_int_equal(live_next(l, &c), 0);
			if (rnd(3) == 0)
				break;
			continue;
		}
		assert_true(slice_eq(c.row, rows[want[at].row]));
		assert_true(slice_eq(c.qualifier, qualifiers[want[at].qualifier]));
		assert_int_equal(c.family, family_ids[want[at].family]);
		assert_true(c.ts == want[at].ts && c.seq == want[at].seq);
		assert_int_equal(c.size, want[at].size);
		assert_int_equal(c.large, want[at].large);
		if (!c.large)
			same_value(c.value, &want[at]);
		check_large(l, &c, &want[at]);
		at++;
	}
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

	(void)state;
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
			check_skips(&md, &o);
		}
		model_free(&md);
	}
}

static void every_failing_allocation_is_reported(void **state)
{
	static struct model md;
	uint16_t families[4];
	long failures = 0;

	(void)state;
	for (uint64_t r = 0; r < 12; r++) {
		struct live_options o;
		struct scan_spec s;

		rng = (r + 99) * UINT64_C(0x9E3779B97F4A7C15);
		model_make(&md, false);
		random_spec(&s, &o, &md, families);
		s.limit = 0;
		for (long n = 1; n < 4000; n++) {
			static struct expect want[MAX_CELLS];
			int count = expected(&md, &o, want), at = 0;
			struct scan_batch b = {0};
			uint64_t already = 0;
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

/* After -ENOMEM in live_next alone, asking again goes on where it was. */
static void live_next_can_be_asked_again(void **state)
{
	static struct model md;
	uint16_t families[4];

	(void)state;
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
		/* what the one child holds: scan it raw */
		random_spec(&s, &o, &md, families);
		o.row_begin = o.row_end = s.row_from = s.row_to = (struct slice){0};
		s.one_row = s.row_from_after = false;
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

/* ---- merge ---- */
struct fake {
	struct iter it;
	struct slice keys[16];
	int count, at, fail_at;
	int *seeks, *frees;
};

static void fake_show(struct fake *f)
{
	f->it.valid = f->at < f->count;
	f->it.err = 0;
	if (f->at == f->fail_at) {
		f->it.valid = false;
		f->it.err = -EBADMSG;
	} else if (f->it.valid) {
		f->it.key = f->keys[f->at];
		f->it.value = slice_str("v");
	}
}

static void fake_seek(struct iter *it, struct slice target)
{
	struct fake *f = (struct fake *)it;

	++*f->seeks;
	for (f->at = 0; f->at < f->count && slice_cmp(f->keys[f->at], target) < 0;)
		f->at++;
	fake_show(f);
}

static void fake_next(struct iter *it)
{
	struct fake *f = (struct fake *)it;

	assert_true(it->valid);
	f->at++;
	fake_show(f);
}

static void fake_free(struct iter *it)
{
	struct fake *f = (struct fake *)it;

	++*f->frees;
	free(f);
}

static const struct iter_ops fake_ops = {fake_seek, fake_next, fake_free};
static const char alphabet[] = "abcdefghijklmnop";

static struct iter *fake_new(uint32_t mask, int fail, int *seeks, int *frees)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->it.ops = &fake_ops;
	f->fail_at = fail;
	f->seeks = seeks;
	f->frees = frees;
	for (int i = 0; i < 16; i++) {
		if (mask >> i & 1)
			f->keys[f->count++] = slice_of(alphabet + i, 1);
	}
	return &f->it;
}

static void merge_follows_any_mix_of_seeks_and_steps(void **state)
{
	int seeks = 0, frees = 0, made = 0;

	(void)state;
	rng = 42;
	for (int round = 0; round < 4000; round++) {
		struct iter *children[7], *it;
		uint32_t n = rnd(8), all = 0;
		int at = 16;

		for (uint32_t i = 0; i < n; i++) {
			uint32_t mask = rnd(65536) & rnd(65536);

			all |= mask;
			children[i] = fake_new(mask, -1, &seeks, &frees);
			made++;
		}
		assert_int_equal(merge_iter_new(children, n, &it), 0);
		assert_false(it->valid);
		for (int step = 0; step < 40; step++) {
			if (!it->valid || rnd(4) == 0) {
				at = (int)rnd(16);
				iter_seek(it, slice_of(alphabet + at, 1));
			} else {
				iter_next(it);
				at++;
			}
			while (at < 16 && !(all >> at & 1))
				at++;
			assert_int_equal(it->valid, at < 16);
			assert_int_equal(it->err, 0);
			if (it->valid)
				assert_true(slice_eq(it->key, slice_of(alphabet + at, 1)));
		}
		iter_free(it);
	}
	assert_int_equal(frees, made);
}

static void merge_hands_on_errors_and_recovers(void **state)
{
	int seeks = 0, frees = 0;
	struct iter *children[3], *it;

	(void)state;
	children[0] = fake_new(0x00ff, -1, &seeks, &frees);
	children[1] = fake_new(0x0f10, 2, &seeks, &frees); /* e, i, then broken at j */
	children[2] = fake_new(0x8000, -1, &seeks, &frees);
	assert_int_equal(merge_iter_new(children, 3, &it), 0);
	iter_seek(it, slice_str("a"));
	for (int i = 0; i < 8; i++) {
		assert_true(it->valid);
		iter_next(it);
	}
	assert_true(it->valid && it->key.p[0] == 'i');
	iter_next(it);
	assert_false(it->valid);
	assert_int_equal(it->err, -EBADMSG);
	iter_seek(it, slice_str("j"));
	assert_int_equal(it->err, -EBADMSG);
	iter_seek(it, slice_str("k"));
	assert_true(it->valid && it->err == 0 && it->key.p[0] == 'k');
	iter_free(it);
	assert_int_equal(frees, 3);

	for (int i = 0; i < 3; i++)
		children[i] = fake_new(1, -1, &seeks, &frees);
	fail_at = 1;
	assert_int_equal(merge_iter_new(children, 3, &it), -ENOMEM);
	fail_at = 0;
	assert_int_equal(frees, 6);
	children[0] = fake_new(1, -1, &seeks, &frees);
	fail_at = 1;
	assert_int_equal(clip_iter_new(children[0], slice_str("a"), slice_str("b"), &it), -ENOMEM);
	fail_at = 0;
	assert_int_equal(frees, 7);
}

static void forward_seeks_leave_children_that_are_past_the_target(void **state)
{
	int near = 0, far = 0, frees = 0;
	struct iter *children[2], *it;

	(void)state;
	children[0] = fake_new(0x0fff, -1, &near, &frees);
	children[1] = fake_new(0x8000, -1, &far, &frees);
	assert_int_equal(merge_iter_new(children, 2, &it), 0);
	for (int i = 0; i < 12; i++) {
		iter_seek(it, slice_of(alphabet + i, 1));
		assert_true(it->valid && it->key.p[0] == (uint8_t)alphabet[i]);
	}
	assert_int_equal(far, 1);
	assert_int_equal(near, 12);
	iter_seek(it, slice_str("a"));
	assert_true(it->key.p[0] == 'a');
	iter_free(it);
}

/* ---- skipping ---- */
struct spy {
	struct iter it;
	struct iter *child;
	int chunks, seeks, steps;
};
static struct spy spy;

static void spy_show(void)
{
	struct cellkey k;
	struct buf scratch = {0};

	spy.it.valid = spy.child->valid;
	spy.it.key = spy.child->key;
	spy.it.value = spy.child->value;
	if (spy.it.valid) {
		assert_true(cellkey_parse(spy.it.key, &k, &scratch));
		spy.chunks += k.kind == CELL_CHUNK;
	}
	buf_fini(&scratch);
}

static void spy_seek(struct iter *it, struct slice target)
{
	(void)it;
	iter_seek(spy.child, target);
	spy.seeks++;
	spy_show();
}

static void spy_next(struct iter *it)
{
	(void)it;
	iter_next(spy.child);
	spy.steps++;
	spy_show();
}

static void spy_free(struct iter *it)
{
	(void)it;
	iter_free(spy.child);
}

static const struct iter_ops spy_ops = {spy_seek, spy_next, spy_free};

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

/* Chunks are blocks of their own in SSTables: standing on one would read it. */
static void scans_stand_on_no_chunk_and_step_over_little(void **state)
{
	static struct model md;
	struct scan_spec s = {0};
	struct memtable *m;
	uint16_t families[] = {7};
	uint64_t seq = 0;

	(void)state;
	assert_int_equal(memtable_new(&m), 0);
	md.m[0] = m;
	for (int i = 0; i < FAMILIES; i++)
		md.rules[i].known = true;
	for (int row = 1; row < 4; row++) {
		for (int family = 0; family < 3; family++) {
			for (int q = 0; q < 3; q++) {
				for (int ts = 0; ts < 3; ts++)
					store(&md, 0, &(struct entry){.row = row, .family = family, .qualifier = q, .ts = ts,
								      .seq = ++seq, .kind = CELL_LARGE,
								      .size = CELL_CHUNK_BYTES + 1});
			}
		}
	}
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 81);
	assert_int_equal(spy.chunks, 0);
	assert_int_equal(count_live(m, &md, &s, 40), 40);
	assert_int_equal(spy.chunks, 0);
	s.versions = 1;
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 27);
	assert_int_equal(spy.chunks, 0);
	s.what = SCAN_FAMILIES;
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 9);
	assert_int_equal(spy.chunks, 0);
	assert_in_range(spy.seeks, 9, 12);
	s.what = SCAN_ROWS;
	s.versions = 0;
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 3);
	assert_int_equal(spy.chunks, 0);
	assert_in_range(spy.seeks, 3, 6);
	s.what = SCAN_KEYS;
	s.families = families;
	s.family_count = 1;
	s.qualifier_from = qualifiers[2];
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 9);
	assert_int_equal(spy.chunks, 0);
	assert_true(spy.steps < 20);
	memtable_put(m);

	/* a column of 1000 versions is not walked for its newest */
	assert_int_equal(memtable_new(&m), 0);
	md.m[0] = m;
	for (int ts = 0; ts < 1000; ts++)
		store(&md, 0, &(struct entry){.row = 1, .family = 0, .qualifier = 0, .ts = ts, .seq = ++seq, .kind = CELL_VALUE});
	store(&md, 0, &(struct entry){.row = 1, .family = 0, .qualifier = 1, .ts = 0, .seq = ++seq, .kind = CELL_VALUE});
	s = (struct scan_spec){.versions = 1};
	assert_int_equal(count_live(m, &md, &s, UINT64_MAX), 2);
	assert_in_range(spy.steps, 1, 30);
	memtable_put(m);
}

/* ---- damage ---- */
static void malformed_entries_are_damage(void **state)
{
	static const struct slice bad[] = {LIT(""), LIT("row"), LIT("r\0\1\0\1q\0\1"), LIT("r\0\1\0\0q\0\1AAAAAAAABBBBBBBB\5"),
					   LIT("r\0\1\0\1q\0\1\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x09"),
					   LIT("r\0\1\0\1q\0\1\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x06")};
	static struct model md;

	(void)state;
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
		assert_int_equal(memtable_prepare(m, bad[i], slice_str("seven b"), &n), 0);
		memtable_insert(m, n);
		assert_int_equal(memtable_iter_new(m, &it), 0);
		memtable_put(m);
		/* a raw start: the empty key sorts before any prefix */
		assert_int_equal(live_new(it, &o, &l), 0);
		assert_int_equal(live_next(l, &c), bad[i].n ? -EBADMSG : 0);
		live_free(l);
	}
}

static void a_missing_chunk_is_damage(void **state)
{
	static struct model md;
	struct cellkey k = {.row = slice_str("r"), .qualifier = slice_str("q"), .family = 1, .kind = CELL_LARGE, .ts = 5, .seq = 9};
	struct scan_spec s = {0};
	struct live_options o = {.rules = {model_rule, &md}, .seq = UINT64_MAX, .spec = &s};
	uint8_t *bytes = calloc(1, CELL_CHUNK_BYTES), size[8], p[16];
	struct live_cell c;
	struct memtable *m;
	struct iter *it;
	struct live *l;
	size_t got = 77;

	(void)state;
	md.rules[0].known = true;
	assert_int_equal(memtable_new(&m), 0);
	put_be64(size, 3 * CELL_CHUNK_BYTES);
	put(m, &k, slice_of(size, 8));
	k.kind = CELL_CHUNK;
	put(m, &k, slice_of(bytes, CELL_CHUNK_BYTES));
	k.chunk = 2;
	put(m, &k, slice_of(bytes, CELL_CHUNK_BYTES - 1));
	k.kind = CELL_VALUE;
	k.seq = 3;
	k.ts = 4;
	put(m, &k, slice_str("after"));
	assert_int_equal(memtable_iter_new(m, &it), 0);
	memtable_put(m);
	assert_int_equal(live_new(it, &o, &l), 0);
	assert_int_equal(live_next(l, &c), 1);
	assert_true(c.large && c.size == 3 * CELL_CHUNK_BYTES);
	assert_int_equal(live_read_large(l, &c, 0, p, 16, &got), 0);
	assert_int_equal(got, 16);
	got = 77;
	assert_int_equal(live_read_large(l, &c, CELL_CHUNK_BYTES - 8, p, 16, &got), -EBADMSG);
	assert_int_equal(live_read_large(l, &c, 2 * CELL_CHUNK_BYTES, p, 16, &got), -EBADMSG);
	assert_int_equal(got, 77);
	assert_int_equal(live_next(l, &c), 1);
	assert_true(c.ts == 4 && slice_eq(c.value, slice_str("after")));
	assert_int_equal(live_next(l, &c), 0);
	live_free(l);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merge_follows_any_mix_of_seeks_and_steps),
		cmocka_unit_test(merge_hands_on_errors_and_recovers),
		cmocka_unit_test(forward_seeks_leave_children_that_are_past_the_target),
		cmocka_unit_test(histories_look_as_the_model_says),
		cmocka_unit_test(every_failing_allocation_is_reported),
		cmocka_unit_test(live_next_can_be_asked_again),
		cmocka_unit_test(scans_stand_on_no_chunk_and_step_over_little),
		cmocka_unit_test(malformed_entries_are_damage),
		cmocka_unit_test(a_missing_chunk_is_damage),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_to_nowhere();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
