/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Salted tables give the same answers to each call as a plain table with the same rows.
 * A salt that changes under writers and readers loses no row, and tablets of different
 * ranges are not merged.
 */
#include "engine/client/call.h"
#include "engine/client/salt.h"
#include "engine/server/tablets/tablets.h"
#include "engine/tablet/tablet_impl.h"
#include "t/engine/lib.h"
#include "t/lib/file_faults.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define FAMILIES "families = ( { name = \"f\"; }, { name = \"g\"; } );"
#define TWINS 4
static const char *const salts[TWINS] = {"", "salt = 2;", "salt = 16;", "salt = 255;"};
static struct tfs_table *twins[TWINS]; /* tables with equal rows, each with its own salt */

static char long_row[TFS_ROW_MAX + 1];

static void open_twins(void)
{
	open_store();
	for (unsigned i = 0; i < TWINS; i++) {
		char name[8], text[200];

		snprintf(name, sizeof(name), "t%u", i);
		snprintf(text, sizeof(text), "%s %s", salts[i], FAMILIES);
		if (tfs_table_open(store, name, &twins[i]) == 0)
			continue;
		assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
		assert_int_equal(tfs_table_open(store, name, &twins[i]), 0);
		assert_int_equal(tfs_schema_set_text(twins[i], tfs_str(text), TFS_NO_TIME, NULL), 0);
	}
}

static void close_twins(void)
{
	for (unsigned i = 0; i < TWINS; i++)
		tfs_table_close(twins[i]);
	close_store();
}

static void put_at(struct tfs_table *t, struct tfs_bytes row, const char *family, const char *qualifier, int64_t ts)
{
	assert_int_equal(store_put(t, row, family, tfs_str(qualifier), tfs_at(ts), tfs_str(qualifier), 0), 0);
}

/* Rows of all lengths, some that begin with bytes that are salts, in three families' worth of cells. */
static struct tfs_bytes some_row(unsigned i, char *p)
{
	unsigned seed = i;
	size_t n = i % 97 == 0 ? TFS_ROW_MAX - i % 3 : 1 + (size_t)rand_r(&seed) % 12;

	if (i % 97 == 0) {
		memcpy(p, long_row, n);
		snprintf(p, 10, "%u", i);
		return tfs_bytes_of(p, n);
	}
	for (size_t k = 0; k < n; k++)
		p[k] = (char)(rand_r(&seed) % (i % 2 ? 4 : 256));
	return tfs_bytes_of(p, n);
}

static void fill_twins(unsigned from, unsigned to)
{
	static char p[TFS_ROW_MAX];

	for (unsigned t = 0; t < TWINS; t++) {
		struct tfs_batch *b;

		assert_int_equal(tfs_batch_new(twins[t], NULL, &b), 0);
		for (unsigned i = from; i < to; i++) {
			struct tfs_bytes row = some_row(i, p);
			struct tfs_mutation *m = tfs_mutation_new(twins[t], row);

			assert_non_null(m);
			for (unsigned k = 0; k <= i % 3; k++)
				assert_int_equal(tfs_mutation_put(m, k == 2 ? "g" : "f", tfs_str(k ? "q" : ""), tfs_at((int64_t)i),
							 TFS_S("value")),
					0);
			if (i % 4)
				assert_int_equal(tfs_batch_add(b, m), 0);
			else
				assert_int_equal(tfs_apply(m, 0, NULL), 0);
			tfs_mutation_free(m);
		}
		assert_int_equal(tfs_batch_close(b), 0);
	}
}

/* All of a scan in one number, and how many. */
static uint64_t scan_sum(struct tfs_table *t, const struct tfs_scan_spec *spec, unsigned *count)
{
	struct tfs_scan *sc;
	struct tfs_cell c;
	uint64_t sum = 0;
	int n;

	*count = 0;
	assert_int_equal(tfs_scan_new(t, spec, &sc), 0);
	while ((n = tfs_scan_next(sc, &c)) > 0) {
		sum = sum * 31 + hash64(c.row, (uint64_t)c.ts);
		sum = sum * 31 + hash64(c.qualifier, c.family_id + c.size);
		if (c.value.p)
			sum = sum * 31 + hash64(c.value, 1);
		(*count)++;
	}
	assert_int_equal(n, 0);
	tfs_scan_free(sc);
	return sum;
}

static void expect_same(const struct tfs_scan_spec *spec)
{
	unsigned want, got;
	uint64_t sum = scan_sum(twins[0], spec, &want);

	for (unsigned t = 1; t < TWINS; t++) {
		uint64_t other = scan_sum(twins[t], spec, &got);

		if (got != want || other != sum)
			print_message("# %s: %u entries instead of %u: what %u limit %llu batch %zu\n", salts[t], got, want,
				spec->what, (unsigned long long)spec->limit, spec->batch_bytes);
		assert_int_equal(got, want);
		assert_true(other == sum);
	}
}

static void expect_same_scans(unsigned seed, unsigned times)
{
	static char from[TFS_ROW_MAX], to[TFS_ROW_MAX + 1];
	const char *families[] = {"g"};

	for (unsigned i = 0; i < times; i++) {
		struct tfs_scan_spec spec = {.what = (enum tfs_scan_what)(rand_r(&seed) % 4)};
		unsigned which = (unsigned)rand_r(&seed);

		if (which & 1)
			spec.row_from = some_row((unsigned)rand_r(&seed) % 1200, from);
		if (which & 2)
			spec.row_to = some_row((unsigned)rand_r(&seed) % 1200, to);
		if ((which & 31) == 1) { /* bounds that leave one row */
			memcpy(to, from, spec.row_from.n);
			to[spec.row_from.n] = 0;
			spec.row_to = tfs_bytes_of(to, spec.row_from.n + 1);
		}
		spec.row_from_after = which & 4;
		spec.one_row = (which & 1) && !(which & 0x60);
		spec.limit = which & 0x80 ? (uint64_t)rand_r(&seed) % 300 : 0;
		spec.batch_bytes = which & 0x100 ? 1 + (size_t)rand_r(&seed) % 5000 : 0;
		if (which & 0x200) {
			spec.families = families;
			spec.family_count = 1;
		}
		expect_same(&spec);
	}
}

static void expect_same_points(void)
{
	static char p[TFS_ROW_MAX];

	for (unsigned i = 0; i < 1400; i++) {
		struct tfs_bytes row = some_row(i, p);
		bool want_row = false, want_g = false;
		struct tfs_info want = {0};
		int err = 0;

		for (unsigned t = 0; t < TWINS; t++) {
			bool has, g;
			struct tfs_info info = {0};
			int e = tfs_stat(twins[t], row, "f", TFS_S("q"), TFS_AUTO, &info);

			assert_int_equal(tfs_row_exists(twins[t], row, NULL, &has), 0);
			assert_int_equal(tfs_row_exists(twins[t], row, "g", &g), 0);
			if (!t) {
				want = info;
				want_row = has;
				want_g = g;
				err = e;
			}
			assert_int_equal(e, err);
			assert_int_equal(info.ts, want.ts);
			assert_int_equal(has, want_row);
			assert_int_equal(g, want_g);
		}
	}
}

static void test_twins(void **state)
{
	static const char too_long[TFS_ROW_MAX + 1];
	struct tfs_mutation *m;

	memset(long_row, 'x', sizeof(long_row));
	open_twins();
	expect_same_scans(1, 20); /* of nothing */
	fill_twins(0, 700);
	expect_same_scans(2, 150);
	for (unsigned t = 0; t < TWINS; t++)
		assert_int_equal(tfs_flush(twins[t]), 0);
	fill_twins(500, 1200);
	for (unsigned t = 1; t < TWINS; t++) { /* in the middle of ranges */
		assert_int_equal(tfs_split(twins[t], TFS_S("\1\2")), 0);
		assert_int_equal(tfs_split(twins[t], tfs_bytes_of("\0\2", 2)), 0);
	}
	expect_same_scans(3, 150);
	expect_same_points();
	/* A byte more than a row may have, though a salted key may. */
	for (unsigned t = 0; t < TWINS; t++) {
		m = tfs_mutation_new(twins[t], tfs_bytes_of(too_long, sizeof(too_long)));
		assert_int_equal(tfs_mutation_delete_row(m), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), -EINVAL);
		tfs_mutation_free(m);
	}
	for (unsigned t = 0; t < TWINS; t++)
		assert_int_equal(tfs_compact(twins[t]), 0);
	close_twins();
	open_twins();
	expect_same_scans(4, 100);
	expect_same_points();
	close_twins();
}

/* ---- a salt that changes ---- */

static atomic_bool stop;

/* 1: the salt waits until the table is empty. */
static int salt_waits_on(void)
{
	const struct tfs_schema *s;
	int waits;

	assert_int_equal(tfs_schema_get(table, &s), 0);
	waits = s->salt != s->salt_in_use;
	tfs_schema_put(s);
	return waits;
}

static int set_salt(unsigned salt)
{
	char text[200], *why = NULL;
	int err;

	snprintf(text, sizeof(text), "salt = %u; %s", salt, FAMILIES);
	err = tfs_schema_set_text(table, tfs_str(text), TFS_NO_TIME, &why);
	if (err)
		assert_non_null(why);
	free(why);
	return err ? err : salt_waits_on();
}

/* In threads nothing is asserted, but counted. */
static atomic_uint wrong, rounds;
#define MUST(true_)                                                                                                                \
	do {                                                                                                                       \
		if (!(true_)) {                                                                                                    \
			atomic_fetch_add(&wrong, 1);                                                                               \
			print_message("# line %d: %s\n", __LINE__, #true_);                                                        \
		}                                                                                                                  \
	} while (0)

static int change_row(const char *row, bool gone)
{
	return gone ? store_delete_row(table, tfs_str(row))
		    : store_put(table, tfs_str(row), "f", TFS_S("q"), tfs_at(5), TFS_S("v"), 0);
}

/* Rows appear and disappear, so that at times there is none; a written row is found until it is deleted. */
static void *come_and_go(void *arg)
{
	char row[32] = "";

	for (unsigned i = 0; !stop; i++) {
		struct tfs_info info;

		snprintf(row, sizeof(row), "row-%u-%u", (unsigned)(uintptr_t)arg, i);
		MUST(change_row(row, false) == 0);
		MUST(tfs_stat(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info) == 0);
		MUST(change_row(row, true) == 0);
		MUST(tfs_stat(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info) == -ENOENT);
		atomic_fetch_add(&rounds, 1);
		if (i % 8 == 0) /* a pause, in which the salt may take effect; all threads pause */
			usleep(500);
	}
	MUST(change_row(row, false) == 0); /* one to stay */
	return NULL;
}

static void *watch_rows(void *arg)
{
	while (!stop) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .batch_bytes = 1};
		struct tfs_scan *sc;
		struct tfs_cell c;
		int n;

		MUST(tfs_scan_new(table, &spec, &sc) == 0);
		while ((n = tfs_scan_next(sc, &c)) > 0)
			MUST(c.row.n > 4 && memcmp(c.row.p, "row-", 4) == 0);
		MUST(n == 0);
		tfs_scan_free(sc);
	}
	return NULL;
}

static void *batches(void *arg)
{
	unsigned i = 0;

	while (!stop) {
		struct tfs_batch *b;

		MUST(tfs_batch_new(table, NULL, &b) == 0);
		/* A row is written, deleted, written, deleted, in this order through whatever salt. */
		for (unsigned k = 0; k < 40; k++) {
			char row[32];
			struct tfs_mutation *m;

			snprintf(row, sizeof(row), "row-2-%u", i + k / 4);
			m = tfs_mutation_new(table, tfs_str(row));
			MUST((k % 2 ? tfs_mutation_delete_row(m) : tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(k), TFS_S("v"))) ==
				0);
			MUST(tfs_batch_add(b, m) == 0);
			tfs_mutation_free(m);
		}
		i += 10;
		MUST(tfs_batch_close(b) == 0);
		usleep(500); /* as above */
	}
	return NULL;
}

static void test_change(void **state)
{
	static const unsigned values[] = {16, 0, 3, 255, 2};
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
	pthread_t thread[4];
	unsigned rows, busy = 0, changes = 0;

	open_store();
	stop = false;
	wrong = 0;
	rounds = 0;
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, (void *)i), 0);
	assert_int_equal(pthread_create(&thread[2], NULL, batches, NULL), 0);
	assert_int_equal(pthread_create(&thread[3], NULL, watch_rows, NULL), 0);
	for (unsigned i = 0; changes < 60; i++) {
		const unsigned seen = rounds;
		int err = set_salt(values[i % 5]);

		assert_true(err == 0 || err == 1);
		changes += err == 0;
		busy += err != 0;
		while (!err && rounds < seen + 5) /* under the new salt, too */
			sched_yield();
	}
	stop = true;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(wrong, 0);
	(void)scan_sum(table, &spec, &rows);
	assert_int_equal(rows, 2); /* no row was deleted under another key than it was written under */
	print_message("# %u changes, %u times the table held cells\n", changes, busy);
	assert_int_equal(set_salt(7), 1);
	close_store();
	open_store();
	(void)scan_sum(table, &spec, &rows);
	assert_int_equal(rows, 2);
	close_store();
}

static uint32_t tablets_of(struct tfs_table *t)
{
	const struct tfs_schema *s;
	uint32_t id;

	assert_int_equal(tfs_schema_get(t, &s), 0);
	id = s->tablets_id;
	tfs_schema_put(s);
	return id;
}

/* A scan of a table that becomes empty and gets another salt returns rows in order, each at most once, and ends. */
static void test_scan_ends(void **state)
{
	static const char value[200000]; /* one is a batch */
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .batch_bytes = 1};
	struct tfs_scan *sc;
	struct tfs_cell c;

	hooks.scan_view_us = 1;
	open_store();
	for (unsigned i = 0; i < 3; i++) {
		static const char *const before[] = {"b", "d", "f"}, *const after[] = {"a", "b", "c", "d", "e", "x", "y"};
		static const unsigned salt[] = {3, 0, 16};
		const uint32_t tablets = tablets_of(table);
		char last = 'b';
		int n;

		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(put(before[k], "q", 5, tfs_bytes_of(value, sizeof(value)), false), 0);
		assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
		assert_int_equal(tfs_scan_next(sc, &c), 1);
		assert_memory_equal(c.row.p, "b", c.row.n);
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(change_row(before[k], true), 0);
		assert_int_equal(set_salt(salt[i]), 0);
		assert_int_not_equal(tablets_of(table), tablets);
		for (unsigned k = 0; k < 7; k++)
			assert_int_equal(change_row(after[k], false), 0);
		/* Rows that a batch contained already may be returned, too. */
		while ((n = tfs_scan_next(sc, &c)) > 0) {
			assert_int_equal(c.row.n, 1);
			assert_true(*(const char *)c.row.p > last);
			last = *(const char *)c.row.p;
		}
		assert_int_equal(n, 0);
		assert_int_equal(tfs_scan_next(sc, &c), 0);
		tfs_scan_free(sc);
		for (unsigned k = 0; k < 7; k++)
			assert_int_equal(change_row(after[k], true), 0);
	}
	close_store();
}

/* No request finds the old tablets of a table. */
static void test_old_tablets(void **state)
{
	static const struct op op = {.kind = OP_DELETE_ROW, .w.truncate_to = UINT64_MAX};
	static const struct scan_spec spec = {.pub.what = TFS_SCAN_ROWS};
	const struct row_mutation row = {tfs_str("row"), &op, 1}, rows[] = {row, row};
	static const enum ts_method methods[] = {
		TS_MUTATE, TS_READ, TS_EXISTS, TS_SCAN_OPEN, TS_MUTATE, TS_FLUSH, TS_COMPACT, TS_TABLET_INFO};
	uint32_t tablets;

	open_store();
	tablets = tablets_of(table);
	for (unsigned salted = 0; salted < 2; salted++) {
		if (salted)
			assert_int_equal(set_salt(7), 0);
		for (unsigned k = 0; k < sizeof(methods) / sizeof(*methods); k++) {
			int errs[2] = {0}, err;
			struct ts_request q = {
				.method = methods[k], .table = tablets, .row = row.row, .family = 1, .ts = {.when = TFS_NEWEST}};
			struct ts_answer a = {.row_errs = errs};

			if (q.method == TS_MUTATE) {
				q.rows = rows;
				q.row_count = k ? 2 : 1;
			} else if (q.method == TS_SCAN_OPEN) {
				q.spec = &spec;
			}
			err = call_tablet_service(
				server_service(hooks.server), &q, &a); /* polls until a flush or compaction has ended */
			err = err ? err : errs[1];
			assert_int_equal(err, salted ? -TABLE_DROPPED : q.method == TS_READ ? -ENOENT : 0);
			ts_answer_fini(&a);
		}
	}
	close_store();
}

static int apply_to(struct tfs_table *t, bool gone)
{
	return gone ? store_delete_row(t, TFS_S("row")) : store_put(t, TFS_S("row"), "f", TFS_S("q"), tfs_at(5), TFS_S("v"), 0);
}

/* One of the calls, by a client that has the schema of before. */
static void call_behind(unsigned which, struct tfs_mutation *m)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
	struct tfs_usage usage;
	struct tfs_info info;
	struct tfs_batch *b;
	unsigned rows;
	bool yes;

	switch (which) {
	case 0:
		assert_int_equal(tfs_stat(table, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, &info), -ENOENT);
		break;
	case 1:
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		break;
	case 2:
		(void)scan_sum(table, &spec, &rows);
		assert_int_equal(rows, 0);
		break;
	case 3:
		assert_int_equal(tfs_batch_new(table, NULL, &b), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		assert_int_equal(tfs_batch_close(b), 0);
		break;
	case 4:
		assert_int_equal(tfs_row_exists(table, TFS_S("row"), "f", &yes), 0);
		assert_false(yes);
		break;
	case 5:
		assert_int_equal(tfs_table_empty(table, &yes), 0);
		assert_true(yes);
		break;
	case 6:
		assert_int_equal(tfs_compact(table), 0);
		break;
	default:
		assert_int_equal(tfs_usage(table, NULL, &usage), 0);
	}
}

/* The master lets a salt take effect without a call; a client with the old schema finds everything at its new place. */
static void test_waits(void **state)
{
	static const unsigned salt[] = {16, 0};

	open_store();
	for (unsigned i = 0; i < 8; i++) {
		const uint64_t until = monotonic_us() + UINT64_C(600000000);
		const uint32_t id = tfs_table_id(table), tablets = tablets_of(table);
		struct tfs_mutation *m;
		struct user_table *k;
		struct tfs_info info;
		int err = 0;

		assert_int_equal(apply_to(table, false), 0);
		assert_int_equal(set_salt(salt[i % 2]), 1);
		assert_int_equal(tfs_stat(table, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, &info), 0);
		m = tfs_mutation_new(table, TFS_S("row"));
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(6), TFS_S("w")), 0);
		assert_int_equal(apply_to(table, true), 0);
		while (!err) {
			assert_true(monotonic_us() < until);
			err = user_table_get(hooks.server, tablets, &k);
			if (!err)
				user_table_put(hooks.server, k);
			usleep(1000); /* between two polls */
		}
		assert_int_equal(tablets_of(table), tablets); /* the client has the old schema */
		call_behind(i, m);
		assert_int_not_equal(tablets_of(table), tablets);
		assert_int_equal(tfs_table_id(table), id);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
		assert_int_equal(tfs_stat(table, TFS_S("row"), "f", TFS_S("q"), tfs_at(6), &info), 0);
		assert_int_equal(apply_to(table, true), 0);
	}
	close_store();
	check_is_clean();
}

/* ---- a salt that changes between two rows of one batch ---- */

static _Atomic bool armed;
static _Atomic int changed;
static struct user_table *held_of; /* the table's, whose writes are to be blocked */

static void *salt_anew(void *arg)
{
	changed = tfs_schema_set_text(table, TFS_S("salt = 5; " FAMILIES), TFS_NO_TIME, NULL);
	return NULL;
}

/*
 * At the log records of the first rows; they continue when the change waits for them,
 * and the remaining rows wait for the change.
 */
static int change_between(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	bool holds = false;

	if (op != FILE_OP_WRITE || !strstr(path, "/log/") || !atomic_exchange(&armed, false))
		return 0;
	assert_int_equal(pthread_create(arg, NULL, salt_anew, NULL), 0);
	while (!holds) {
		mutex_lock(&hooks.server->tables->lock);
		holds = held_of->write_blocks;
		mutex_unlock(&hooks.server->tables->lock);
		(void)sched_yield();
	}
	return 0;
}

/* The first rows, which the server applies together, are only deleted, so that the table is empty and its salt may change. */
static void test_batch_between(void **state)
{
	enum { DELETED = 256, ROWS = DELETED + 4 };
	static const struct op gone = {.kind = OP_DELETE_ROW, .w.truncate_to = UINT64_MAX},
			       kept = {.kind = OP_WRITE, .family = 2, .w.place = {.us = 1}, .w.truncate_to = UINT64_MAX};
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
	struct row_mutation rows[ROWS];
	char row[ROWS][12];
	int errs[ROWS];
	struct ts_request q = {.method = TS_MUTATE, .rows = rows, .row_count = ROWS};
	struct ts_answer a = {.row_errs = errs};
	unsigned count;
	pthread_t changer;

	options.no_background = true;
	file_set_hook(change_between, &changer);
	open_store();
	assert_int_equal(tfs_schema_set_text(table, TFS_S("salt = 7; " FAMILIES), TFS_NO_TIME, NULL), 0);
	q.table = tablets_of(table);
	assert_int_equal(user_table_get(hooks.server, q.table, &held_of), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		snprintf(row[i] + 1, sizeof(row[i]) - 1, "row%u", i);
		row[i][0] = (char)salt_byte(tfs_str(row[i] + 1), 7);
		rows[i] = (struct row_mutation){tfs_bytes_of(row[i], 1 + strlen(row[i] + 1)), i < DELETED ? &gone : &kept, 1};
	}
	armed = true;
	assert_int_equal(ts_call(table->store->o.tablets, &q, &a), 0);
	ts_answer_fini(&a);
	assert_false(armed);
	pthread_join(changer, NULL);
	assert_int_equal(changed, 0);
	assert_true(held_of->dropped);
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(errs[i], i < DELETED ? 0 : -TABLE_DROPPED);
	(void)scan_sum(table, &spec, &count);
	assert_int_equal(count, 0);
	for (unsigned i = DELETED; i < ROWS; i++)
		put_at(table, tfs_str(row[i] + 1), "g", "q", 1);
	user_table_put(hooks.server, held_of);
	close_store();
	file_set_hook(NULL, NULL);
	open_store();
	(void)scan_sum(table, &spec, &count);
	assert_int_equal(count, ROWS - DELETED);
	close_store();
}

/* ---- tablets ---- */

struct borders {
	unsigned count;
	uint8_t first[8]; /* bytes of the borders, and how long they are */
	size_t length[8];
};

static int take_border(void *arg, const struct tfs_tablet *t)
{
	struct borders *b = arg;

	if (t->begin.n && b->count < 8) {
		b->first[b->count] = *(const uint8_t *)t->begin.p;
		b->length[b->count++] = t->begin.n;
	}
	return 0;
}

/*
 * The last border is within a range and is removed, because the tablets are
 * small.  The check, in its order, would have removed the borders between ranges and the
 * border of .schema's splits before that.
 */
static void test_borders(void **state)
{
	struct borders b = {0};
	uint64_t until;

	hooks.merge_after_us = UINT64_C(3600000000);
	open_store();
	assert_int_equal(tfs_schema_set_text(table, TFS_S("salt = 3; splits = ( \"%02%03\" ); " FAMILIES), TFS_NO_TIME, NULL), 0);
	for (char i = 0; i < 9; i++)
		put_at(table, tfs_bytes_of(&i, 1), "f", "q", 1);
	assert_int_equal(tfs_split(table, TFS_S("\1")), 0);
	assert_int_equal(tfs_split(table, TFS_S("\2")), 0);
	assert_int_equal(tfs_split(table, TFS_S("\2\4")), 0);
	assert_int_equal(tfs_split(table, TFS_S("\2")), -EEXIST);
	assert_int_equal(tfs_tablets(table, take_border, &b), 0);
	assert_int_equal(b.count, 4);
	close_store();
	hooks.merge_after_us = 1;
	open_store();
	until = monotonic_us() + UINT64_C(600000000);
	while (b.count == 4) {
		assert_true(monotonic_us() < until);
		retire_soon(hooks.server);
		(void)sched_yield();
		b.count = 0;
		assert_int_equal(tfs_tablets(table, take_border, &b), 0);
	}
	assert_int_equal(b.count, 3);
	assert_int_equal(b.first[0], 1);
	assert_int_equal(b.first[1], 2);
	assert_int_equal(b.first[2], 2);
	assert_int_equal(b.length[0] + b.length[1], 2);
	assert_int_equal(b.length[2], 2);
	close_store();
}

static void test_values(void **state)
{
	open_store();
	assert_int_equal(set_salt(1), -EINVAL);
	assert_int_equal(set_salt(256), -EINVAL);
	assert_int_equal(set_salt(255), 0);
	put_at(table, TFS_S("row"), "f", "q", 1);
	assert_int_equal(set_salt(0), 1);
	assert_int_equal(set_salt(16), 1);
	assert_int_equal(set_salt(255), 0);
	assert_int_equal(tfs_schema_set_text(table, TFS_S(FAMILIES), TFS_NO_TIME, NULL), 0); /* as good as salt = 0 */
	assert_int_equal(salt_waits_on(), 1);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_twins, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_change, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_scan_ends, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_old_tablets, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_waits, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_batch_between, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_borders, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_values, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
