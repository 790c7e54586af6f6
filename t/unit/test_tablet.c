/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet agrees with the reference model: seeded random histories of mutations on few
 * rows and columns, so that all kinds of mutations meet, with flushes, merging and
 * major compactions and reopenings.  Each result, and each cell after each of
 * these, is the model's.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t/model/model.h"
#include "t/unit/tablet_lib.h"
#include "t/lib/xorshift.h"

enum { ROWS = 5, QUALIFIERS = 3, FAMILIES = 5, OPS_MAX = 4, BIG = 300 * 1024 };

enum { STRICTER = 3 };
/* Each rule, and the stricter one that it becomes (the effect of a looser one depends on the versions already collected). */
static const char *const rules[STRICTER][FAMILIES] = {
	{"", "maxversions=2", "maxage=100s", "maxversions=1 and maxage=50s", "maxversions=3 or maxage=200s"},
	{"maxversions=3", "maxversions=2 or maxage=90s", "maxage=60s", "maxversions=1 and maxage=20s",
		"maxversions=2 or maxage=100s"},
	{"maxversions=1", "maxversions=1 or maxage=90s", "maxage=30s", "maxversions=1", "maxversions=2 or maxage=50s"},
};
static const char *const names[FAMILIES] = {"f1", "f2", "f3", "f4", "f5"};
static int64_t test_now;
static uint64_t seed_state;
static uint8_t big[BIG * 2];

static int64_t now_us(void *arg)
{
	return test_now;
}

static uint32_t rnd(uint32_t below)
{
	return (uint32_t)((xorshift(&seed_state) >> 20) % below);
}

struct pair {
	struct lib l;
	unsigned strict;
	struct tfs_store *store;
	struct tfs_table *table;
};

static void set_rules(struct pair *p);

static void pair_init(struct pair *p)
{
	memset(p, 0, sizeof *p);
	test_now = 1700000000000000;
	lib_init(&p->l, "/dev/shm");
	clock_free(p->l.clock);
	p->l.clock = p->l.env.clock = clock_new(now_us, NULL);
	model_set_clock(now_us, NULL);
	p->l.schema = lib_schema(rules[0], FAMILIES, 2);
	lib_start(&p->l);
	LIB(model_open("model", NULL, &p->store, NULL));
	LIB(model_table_create(p->store, "t", 0, 0, 0755));
	LIB(model_table_open(p->store, "t", &p->table));
	for (unsigned i = 0; i < FAMILIES; i++) {
		struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = names[i], .mode = 0644};

		LIB(model_schema_change(p->table, &e, NULL));
	}
	set_rules(p);
}

static void set_rules(struct pair *p)
{
	for (unsigned i = 0; i < FAMILIES; i++) {
		struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC, .name = names[i], .value = rules[p->strict][i]};

		LIB(model_schema_change(p->table, &e, NULL));
	}
}

static void stricter(struct pair *p)
{
	if (p->strict + 1 == STRICTER)
		return;
	p->strict++;
	set_rules(p);
	store_schema_put(p->l.schema);
	p->l.schema = lib_schema(rules[p->strict], FAMILIES, 2);
	tablet_set_schema(p->l.t, p->l.schema);
}

static void pair_fini(struct pair *p)
{
	lib_stop(&p->l);
	lib_fini(&p->l);
	model_table_close(p->table);
	LIB(model_close(p->store));
}

static struct tfs_bytes b_of(struct tfs_bytes s)
{
	return s;
}

static struct tfs_ts ts_of(struct tfs_ts t)
{
	return t;
}

static int64_t some_ts(void)
{
	switch (rnd(8)) {
	case 0:
		return test_now + rnd(100);
	case 1:
		return test_now - (int64_t)rnd(300) * 1000000;
	case 2:
		return rnd(40) ? (int64_t)rnd(4) : INT64_MAX - (int64_t)rnd(2);
	default:
		return 1700000000000000 - 20000000 + (int64_t)rnd(12) * 10000000;
	}
}

static struct tfs_ts some_time(void)
{
	if (rnd(2))
		return (struct tfs_ts){TFS_NEWEST, rnd(3) ? INT64_MIN : some_ts()};
	return (struct tfs_ts){TFS_AT, some_ts()};
}

static struct tfs_bytes some_value(void)
{
	if (rnd(60) == 0)
		return tfs_bytes_of(big + rnd(1000), BIG + rnd(BIG / 2));
	return tfs_bytes_of(big + rnd(1000), rnd(4) ? rnd(20) : 8);
}

static const char *const row_names[ROWS] = {"a", "b", "b1", "c", "zz"};
static const struct tfs_bytes qualifiers[QUALIFIERS] = {
	{(const uint8_t *)"", 0}, {(const uint8_t *)"q\0x", 3}, {(const uint8_t *)"q", 1}};

struct both {
	struct op ops[OPS_MAX];
	struct tfs_range ranges[OPS_MAX][2];
	struct tfs_range model_ranges[OPS_MAX][2];
	struct tfs_write writes[OPS_MAX];
};

/* The newest timestamp of a column, so that replace and friends hit. */
static void aim(struct pair *p, const char *row, struct op *o)
{
	struct tfs_info info;

	if (!o->w.replace && o->w.base != TFS_BASE_VERSION)
		return;
	if (tablet_read(p->l.t, tfs_str(row), o->family, o->w.qualifier, (struct tfs_ts){TFS_NEWEST, 0}, 0, NULL, 0, NULL, &info))
		return;
	o->w.replace_ts = info.ts;
	o->w.base_ts = info.ts;
}

static void add_op(struct pair *p, const char *row, struct both *b, unsigned i, struct tfs_mutation *m)
{
	struct op *o = &b->ops[i];
	const char *family, *to_family;

	*o = (struct op){.kind = (enum op_kind)(1 + rnd(OP_KINDS - 1)),
		.family = (uint16_t)(1 + rnd(FAMILIES)),
		.to_family = (uint16_t)(1 + rnd(FAMILIES)),
		.w.qualifier = qualifiers[rnd(QUALIFIERS)],
		.to_qualifier = qualifiers[rnd(QUALIFIERS)],
		.w.truncate_to = UINT64_MAX};
	if (rnd(3) == 0)
		o->kind = OP_WRITE;
	if (o->kind == OP_CHECK && rnd(2))
		o->kind = OP_WRITE;
	if (o->kind == OP_DELETE_ROW && rnd(3))
		o->kind = OP_WRITE;
	family = names[o->family - 1];
	to_family = names[o->to_family - 1];
	o->w.place = some_time();
	o->to = some_time();
	switch (o->kind) {
	case OP_WRITE:
		if (rnd(2)) {
			o->value = some_value();
			LIB(model_mutation_put(m, family, b_of(o->w.qualifier), ts_of(o->w.place), b_of(o->value)));
			break;
		}
		o->w.base = (enum tfs_base)rnd(3);
		o->w.base_ts = some_ts();
		o->w.truncate_to = rnd(2) ? UINT64_MAX : rnd(30);
		o->w.range_count = rnd(3);
		for (unsigned k = 0; k < o->w.range_count; k++) {
			b->ranges[i][k] = (struct tfs_range){rnd(30), some_value()};
			b->model_ranges[i][k] = (struct tfs_range){b->ranges[i][k].offset, b_of(b->ranges[i][k].data)};
		}
		o->w.ranges = b->ranges[i];
		o->w.append = rnd(2) ? some_value() : tfs_bytes_of(NULL, 0);
		o->w.replace = rnd(3) == 0;
		o->w.replace_ts = some_ts();
		o->w.drop_newer = rnd(4) == 0;
		if (rnd(2))
			aim(p, row, o);
		b->writes[i] = (struct tfs_write){.family = family,
			.qualifier = b_of(o->w.qualifier),
			.base = (enum tfs_base)o->w.base,
			.base_ts = o->w.base_ts,
			.truncate_to = o->w.truncate_to,
			.ranges = b->model_ranges[i],
			.range_count = o->w.range_count,
			.append = b_of(o->w.append),
			.place = ts_of(o->w.place),
			.replace = o->w.replace,
			.replace_ts = o->w.replace_ts,
			.drop_newer = o->w.drop_newer};
		LIB(model_mutation_write(m, &b->writes[i]));
		break;
	case OP_DELETE_VERSION:
		LIB(model_mutation_delete_version(m, family, b_of(o->w.qualifier), o->w.place.us));
		break;
	case OP_DELETE_COLUMN:
		LIB(model_mutation_delete_column(m, family, b_of(o->w.qualifier)));
		break;
	case OP_DELETE_FAMILY:
		LIB(model_mutation_delete_family(m, family));
		break;
	case OP_DELETE_ROW:
		LIB(model_mutation_delete_row(m));
		break;
	case OP_SET_TIME:
		LIB(model_mutation_set_time(m, family, b_of(o->w.qualifier), o->w.place.us));
		break;
	case OP_MOVE:
		o->noreplace = rnd(4) == 0;
		LIB(model_mutation_move(m, family, b_of(o->w.qualifier), ts_of(o->w.place), to_family, b_of(o->to_qualifier),
			ts_of(o->to), o->noreplace));
		break;
	case OP_INCREMENT:
		o->by = rnd(5);
		LIB(model_mutation_increment(m, family, b_of(o->w.qualifier), o->by));
		break;
	case OP_CHECK:
		o->check = (enum tfs_check)rnd(4);
		o->value = some_value();
		LIB(model_mutation_check(
			m, (enum tfs_check)o->check, family, b_of(o->w.qualifier), ts_of(o->w.place), b_of(o->value)));
		break;
	}
}

static void mutate_both(struct pair *p)
{
	const char *row = row_names[rnd(ROWS)];
	struct tfs_mutation *m = model_mutation_new(p->table, tfs_str(row));
	unsigned count = rnd(3) ? 1 : 1 + rnd(OPS_MAX);
	struct tfs_result r[OPS_MAX];
	struct tfs_result mr[OPS_MAX];
	struct both b;
	int err, model_err;

	test_now += 1000 + (rnd(10) ? rnd(1000) : rnd(20000000));
	for (unsigned i = 0; i < count; i++) {
		add_op(p, row, &b, i, m);
	}
	err = lib_mutate(&p->l, row, b.ops, count, false, r);
	model_err = model_apply(m, 0, mr);
	if (err != model_err)
		for (unsigned i = 0; i < count; i++)
			fprintf(stderr, "# op %u kind %d\n", i, b.ops[i].kind);
	assert_int_equal(err, model_err);
	for (unsigned i = 0; i < count && !err; i++) {
		assert_int_equal(r[i].ts, mr[i].ts);
		assert_int_equal(r[i].size, mr[i].size);
		assert_int_equal(r[i].counter, mr[i].counter);
		assert_int_equal(r[i].replaced, mr[i].replaced);
	}
	model_mutation_free(m);
}

static void read_cell(struct pair *p, const struct tfs_cell *c)
{
	static uint8_t got_bytes[BIG * 6], want_bytes[BIG * 6];
	size_t got, want, offset = c->size > 10 && rnd(2) ? rnd((uint32_t)c->size) : 0;
	struct tfs_info info;
	struct tfs_info mi;

	assert_int_equal(model_read(p->table, c->row, c->family, c->qualifier, tfs_at(c->ts), offset, want_bytes, sizeof want_bytes,
				 &want, &mi),
		0);
	assert_int_equal(tablet_read(p->l.t, c->row, c->family_id, c->qualifier, (struct tfs_ts){TFS_AT, c->ts}, offset, got_bytes,
				 sizeof got_bytes, &got, &info),
		0);
	assert_int_equal(got, want);
	assert_memory_equal(got_bytes, want_bytes, got);
	assert_int_equal(info.size, mi.size);
	assert_int_equal(info.expires_us, mi.expires_us);
	assert_int_equal(model_stat(p->table, c->row, c->family, c->qualifier, TFS_AUTO, &mi), 0);
	assert_int_equal(
		tablet_read(p->l.t, c->row, c->family_id, c->qualifier, (struct tfs_ts){TFS_NEWEST, 0}, 0, NULL, 0, NULL, &info),
		0);
	assert_int_equal(info.ts, mi.ts);
}

static void compare(struct pair *p)
{
	struct tfs_scan_spec ms = {.what = TFS_SCAN_CELLS};
	struct scan_spec ts = {.pub.what = TFS_SCAN_CELLS, .pub.batch_bytes = rnd(2) ? 0 : 200};
	struct tfs_scan *msc;
	struct tablet_scan *tsc;
	struct scan_batch b = {0};
	struct tfs_cell c;
	unsigned i = 0;
	int more;

	LIB(model_scan_new(p->table, &ms, &msc));
	LIB(tablet_scan_new(p->l.t, &ts, &tsc));
	LIB(tablet_scan_fill(tsc, &b));
	while ((more = model_scan_next(msc, &c)) > 0) {
		const struct tfs_cell *s;

		while (i == b.count && !b.done) {
			LIB(tablet_scan_fill(tsc, &b));
			i = 0;
		}
		assert_true(i < b.count);
		s = &b.cells[i++];
		assert_true(bytes_eq(s->row, c.row));
		assert_int_equal(s->family_id, c.family_id);
		assert_true(bytes_eq(s->qualifier, c.qualifier));
		assert_int_equal(s->ts, c.ts);
		assert_int_equal(s->size, c.size);
		assert_int_equal(s->expires_us, c.expires_us);
		if (c.size <= TFS_INLINE_MAX)
			assert_true(bytes_eq(s->value, c.value));
		if (rnd(4) == 0)
			read_cell(p, &c);
	}
	assert_int_equal(more, 0);
	while (i == b.count && !b.done) {
		LIB(tablet_scan_fill(tsc, &b));
		i = 0;
	}
	assert_true(i == b.count && b.done);
	scan_batch_fini(&b);
	tablet_scan_free(tsc);
	model_scan_free(msc);
	for (unsigned r = 0; r < ROWS; r++) {
		bool mine, theirs;
		uint16_t f = (uint16_t)rnd(FAMILIES + 1);

		LIB(model_row_exists(p->table, tfs_str(row_names[r]), f ? names[f - 1] : NULL, &theirs));
		LIB(tablet_row_exists(p->l.t, tfs_str(row_names[r]), f, &mine));
		assert_int_equal(mine, theirs);
	}
}

static void disturb(struct pair *p)
{
	bool did;

	switch (rnd(8)) {
	case 0:
		lib_stop(&p->l);
		lib_start(&p->l);
		break;
	case 1:
		LIB(tablet_compact(p->l.t));
		break;
	case 2:
	case 3:
		LIB(tablet_compact_step(p->l.t, &did));
		break;
	default:
		LIB(tablet_flush(p->l.t));
		break;
	}
}

static void history(uint64_t seed, unsigned steps)
{
	static struct pair p;

	seed_state = seed * 0x9E3779B97F4A7C15u + 1;
	pair_init(&p);
	for (unsigned i = 0; i < steps; i++) {
		mutate_both(&p);
		if (rnd(12) == 0) {
			compare(&p);
			disturb(&p);
			compare(&p);
			if (rnd(8) == 0)
				stricter(&p);
			compare(&p);
		}
	}
	LIB(tablet_compact(p.l.t));
	compare(&p);
	pair_fini(&p);
}

static void test_histories(void **state)
{
	const char *from = getenv("TFS_SEED"), *count = getenv("TFS_HISTORIES");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : 40;

	for (uint64_t s = first; s < first + n; s++) {
		print_message("# seed %llu\n", (unsigned long long)s);
		history(s, 250);
	}
}

static void use_rules(struct lib *l, const char *const *texts)
{
	store_schema_put(l->schema);
	l->schema = lib_schema(texts, 2, 1);
	tablet_set_schema(l->t, l->schema);
}

static int there(struct lib *l, int64_t us)
{
	struct tfs_info info;
	size_t got;

	return tablet_read(l->t, tfs_str("r"), 1, tfs_str("q"), (struct tfs_ts){TFS_AT, us}, 0, NULL, 0, &got, &info);
}

/*
 * A seek to a version passes over deletes of the column above it: at the
 * top, in the middle, in memtables and in files, of this column or not.
 */
static void test_seeks_see_column_deletes(void **state)
{
	static const char *const aged[] = {"maxage=1s", ""}, *const none[] = {"", ""};
	enum { N = 300, CUT = 100 };
	struct op one = {.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q")};
	struct op all = {.kind = OP_DELETE_COLUMN, .family = 1, .w.qualifier = tfs_str("other")};

	for (int flushes = 0; flushes < 4; flushes++) {
		static struct lib l;
		int64_t now;

		lib_init(&l, "/dev/shm");
		l.schema = lib_schema(none, 2, 1);
		lib_start(&l);
		now = clock_now(l.env.clock);
		for (int i = 1; i <= N; i++)
			LIB(lib_put(&l, "r", 1, "q", i <= CUT ? i : now + i * INT64_C(1000000), tfs_str("v")));
		LIB(lib_put(&l, "r", 1, "other", 1, tfs_str("v")));
		LIB(lib_op(&l, "r", &all, NULL));
		if (flushes & 1)
			LIB(tablet_flush(l.t));
		/* the rule hides the first CUT; one delete takes them along for ever */
		use_rules(&l, aged);
		one.w.place.us = now + N * INT64_C(1000000);
		LIB(lib_op(&l, "r", &one, NULL));
		use_rules(&l, none);
		if (flushes & 2)
			LIB(tablet_flush(l.t));
		for (int i = 1; i <= N; i++)
			assert_int_equal(there(&l, i <= CUT ? i : now + i * INT64_C(1000000)), i <= CUT || i == N ? -ENOENT : 0);
		/* written again after the delete, and then deleted one by one */
		LIB(lib_put(&l, "r", 1, "q", 7, tfs_str("again")));
		assert_int_equal(there(&l, 7), 0);
		assert_int_equal(there(&l, 6), -ENOENT);
		for (int i = N; i > CUT; i--) {
			struct op pair[2] = {
				{.kind = OP_CHECK, .family = 1, .w.qualifier = tfs_str("q"), .check = TFS_CHECK_EXISTS}, one};

			pair[0].w.place.us = pair[1].w.place.us = now + i * INT64_C(1000000);
			assert_int_equal(lib_mutate(&l, "r", pair, 2, false, NULL), i == N ? -ECANCELED : 0);
			assert_int_equal(there(&l, now + i * INT64_C(1000000)), -ENOENT);
		}
		assert_int_equal(there(&l, 7), 0);
		lib_stop(&l);
		lib_fini(&l);
	}
}

/*
 * The newest version below many deleted ones, which readers keep notes of:
 * whatever happens to the column in between, it is the model's.
 */
static void test_newest_below_deleted(void **state)
{
	static const char *const rules_of[] = {"", "maxversions=100"};
	enum { N = 400, STEPS = 3000 };
	static struct lib l;
	static bool alive[2][N + 1];
	struct op del = {.kind = OP_DELETE_VERSION, .family = 1}, all = {.kind = OP_DELETE_COLUMN, .family = 1},
		  row = {.kind = OP_DELETE_ROW};
	bool did;

	for (unsigned rule = 0; rule < 2; rule++) {
		seed_state = 77 + rule;
		lib_init(&l, "/dev/shm");
		l.schema = lib_schema(&rules_of[rule], 1, 1);
		lib_start(&l);
		memset(alive, 0, sizeof alive);
		for (unsigned i = 0; i < STEPS; i++) {
			unsigned q = rnd(8) == 0, what = rnd(200);
			int64_t ts = N;

			while (ts > 0 && !alive[q][ts])
				ts--;
			del.w.qualifier = all.w.qualifier = tfs_str(q ? "b" : "a");
			if (what == 0 || ts == 0) { /* a column full of versions */
				for (int64_t k = 1; k <= N; k++) {
					LIB(lib_put(&l, "r", 1, q ? "b" : "a", k, tfs_str("v")));
					alive[q][k] = true;
				}
				if (rule) { /* cells that it hides must not come back */
					memset(alive[q], 0, sizeof alive[q]);
					memset(&alive[q][N - 99], 1, 100);
				}
			} else if (what < 4) {
				ts = 1 + rnd(N);
				if (!rule || alive[q][ts]) {
					LIB(lib_put(&l, "r", 1, q ? "b" : "a", ts, tfs_str("again")));
					alive[q][ts] = true;
				}
			} else if (what < 5) {
				bool whole = rnd(2);

				LIB(lib_op(&l, "r", whole ? &row : &all, NULL));
				memset(alive[q], 0, sizeof alive[q]);
				if (whole)
					memset(alive[!q], 0, sizeof alive[q]);
			} else if (what < 10) {
				LIB(tablet_flush(l.t));
			} else if (what < 12) {
				LIB(tablet_compact_step(l.t, &did));
			} else if (what < 13) {
				lib_stop(&l);
				lib_start(&l);
			} else {
				del.w.place.us = rnd(20) ? ts : 1 + (int64_t)rnd(N);
				LIB(lib_op(&l, "r", &del, NULL));
				alive[q][del.w.place.us] = false;
			}
			for (q = 0; q < 2; q++) {
				struct tfs_info info;
				int err = tablet_read(l.t, tfs_str("r"), 1, tfs_str(q ? "b" : "a"), (struct tfs_ts){TFS_NEWEST, 0},
					0, NULL, 0, NULL, &info);

				for (ts = N; ts > 0 && !alive[q][ts];)
					ts--;
				assert_int_equal(err, ts ? 0 : -ENOENT);
				if (ts)
					assert_int_equal(info.ts, ts);
			}
		}
		lib_stop(&l);
		lib_fini(&l);
	}
}

/* Told, not judged: a read of the newest after each of many deletes. */
static void test_newest_after_each_delete(void **state)
{
	enum { N = 5000 };
	static struct lib l;
	static const char *const none[] = {""};
	struct op del = {.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q")};
	struct tfs_info info;
	uint64_t from, spent = 0;

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(none, 1, 1);
	lib_start(&l);
	for (int64_t i = 1; i <= N; i++)
		LIB(lib_put(&l, "r", 1, "q", i, tfs_str("v")));
	for (int64_t i = N; i > 1; i--) {
		del.w.place.us = i;
		LIB(lib_op(&l, "r", &del, NULL));
		from = monotonic_us();
		LIB(tablet_read(l.t, tfs_str("r"), 1, tfs_str("q"), (struct tfs_ts){TFS_NEWEST, 0}, 0, NULL, 0, NULL, &info));
		spent += monotonic_us() - from;
		assert_int_equal(info.ts, i - 1);
	}
	print_message("# %d reads of the newest version, each after it was deleted: %llu us\n", N, (unsigned long long)spent);
	lib_stop(&l);
	lib_fini(&l);
}

static void assert_newest(struct lib *l, int64_t ts)
{
	struct tfs_info info;

	LIB(tablet_read(l->t, tfs_str("r"), 1, tfs_str("q"), (struct tfs_ts){TFS_NEWEST, 0}, 0, NULL, 0, NULL, &info));
	assert_int_equal(info.ts, ts);
}

static void *put_one(void *l)
{
	LIB(lib_put(l, "r", 1, "q", 2, tfs_str("after")));
	return NULL;
}

/* A write that meets a split or merge waits for its end, which is counted. */
static void test_waits_for_a_move(void **state)
{
	static struct lib l;
	static const char *const none[] = {""};
	struct tablet_env *env;
	pthread_t thread;

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(none, 1, 1);
	lib_start(&l);
	env = &l.env;
	LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("before")));
	LIB(tablet_retire_prepare(l.t, false));
	LIB(tablet_merge_begin(l.t));
	LIB(tablet_merge_stop(l.t));
	assert_int_equal(env->retire_waits, 0);
	assert_int_equal(pthread_create(&thread, NULL, put_one, &l), 0);
	while (!env->retire_waits)
		sched_yield();
	assert_newest(&l, 1);
	tablet_merge_end(l.t, false);
	tablet_retire_done(l.t);
	pthread_join(thread, NULL);
	assert_newest(&l, 2);
	assert_int_equal(env->retire_waits, 1);
	assert_true(env->retire_wait_longest_us > 0);
	assert_int_equal(env->retire_wait_us, env->retire_wait_longest_us);
	lib_stop(&l);
	lib_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeks_see_column_deletes),
		cmocka_unit_test(test_newest_below_deleted),
		cmocka_unit_test(test_newest_after_each_delete),
		cmocka_unit_test(test_histories),
		cmocka_unit_test(test_waits_for_a_move),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_to_nowhere();
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (uint8_t)(i * 2654435761u >> 13);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
