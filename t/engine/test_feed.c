/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a table, in random histories: applied to an empty map they give the table's cells,
 * each put is listed once and in the order of commits, and each token continues behind its change, whatever
 * splits, merges, flushes, compactions and openings come between.
 */
#include "engine/server/tablets/tablets.h"
#include "engine/tablet/tablet_state.h"
#include "t/engine/lib.h"
#include "t/lib/file_faults.h"
#include "t/lib/share.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 12, QUALIFIERS = 3, TIMES = 4, STEPS = 400, TOKENS = 4096 };

/* The state of the cells of families f and g, which the changes make: the number of the put that wrote it, or 0. */
static unsigned cells[ROWS][2][QUALIFIERS][TIMES];
static unsigned made, listed; /* puts so far, and the number of the last one listed */
static char tokens[TOKENS][TFS_TOKEN_MAX + 1];
static unsigned token_count;
static uint64_t seed;

static unsigned draw(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static void set_schema(void)
{
	char *why = NULL;

	assert_int_equal(
		tfs_schema_set_text(table,
			TFS_S("changes = \"7d\"; tablet_size = \"64K\"; families = ({ name = \"f\"; }, { name = \"g\"; });"),
			TFS_NO_TIME, &why),
		0);
	free(why);
}

static const char *row_name(unsigned r)
{
	static char name[32];

	snprintf(name, sizeof(name), "row%c%02u", r % 5 == 0 ? 1 : 'x', r); /* some have a byte that is escaped */
	if (r % 5 == 0)
		name[3] = '\n';
	return name;
}

static unsigned number_in(struct tfs_bytes s, size_t at)
{
	char text[16] = "";

	assert_true(s.n > at && s.n - at < sizeof(text));
	memcpy(text, s.p + at, s.n - at);
	return (unsigned)atoi(text);
}

/* ---- writing ---- */

enum { OPS = 4 };
/* A mutation borrows these. */
static char qualifiers[OPS][8], values[OPS][16];

static int add_op(struct tfs_mutation *m, char *qualifier, char *value)
{
	const char *family = draw(2) ? "f" : "g";
	const unsigned op = draw(20), ts = draw(TIMES);

	snprintf(qualifier, sizeof(qualifiers[0]), "%u", draw(QUALIFIERS));
	if (op < 14) {
		snprintf(value, sizeof(values[0]), "%u", ++made);
		return tfs_mutation_put(m, family, tfs_str(qualifier), tfs_at((int64_t)ts + 1), tfs_str(value));
	}
	if (op < 16)
		return tfs_mutation_delete_version(m, family, tfs_str(qualifier), (int64_t)ts + 1);
	if (op < 18)
		return tfs_mutation_delete_column(m, family, tfs_str(qualifier));
	return op < 19 ? tfs_mutation_delete_family(m, family) : tfs_mutation_delete_row(m);
}

static void write_row(void)
{
	struct tfs_mutation *m = tfs_mutation_new(table, tfs_str(row_name(draw(ROWS))));
	const unsigned before = made;
	int err = 0;

	assert_non_null(m);
	for (unsigned n = draw(OPS) + 1; n > 0 && !err; n--)
		err = add_op(m, qualifiers[n - 1], values[n - 1]);
	assert_int_equal(err, 0);
	err = tfs_apply(m, 0, NULL);
	if (err)
		made = before;
	assert_int_equal(err, 0);
	tfs_mutation_free(m);
}

static void disturb(void)
{
	const struct tfs_bytes row = tfs_str(row_name(draw(ROWS)));
	int err = 0;

	switch (draw(12)) {
	case 0:
	case 1:
		err = tfs_split(table, row);
		break;
	case 2:
		err = tfs_merge(table, row);
		break;
	case 3:
	case 4:
	case 5:
		err = tfs_flush(table);
		break;
	case 6:
		err = tfs_compact(table);
		break;
	case 7:
		close_store();
		check_is_clean();
		open_store();
		break;
	default:
		break;
	}
	if (err != -EEXIST && err != -ENOENT && err != -EBUSY)
		assert_int_equal(err, 0);
}

/* ---- reading ---- */

static void clear(unsigned r, unsigned f, unsigned q, int64_t upto)
{
	for (unsigned t = 0; t < TIMES; t++)
		if ((int64_t)t + 1 <= upto)
			cells[r][f][q][t] = 0;
}

static void take(const struct tfs_feed_change *c)
{
	const unsigned r = number_in(c->row, 4), f = c->family && *c->family == 'g';
	const unsigned q = c->qualifier.n ? number_in(c->qualifier, 0) : 0;

	assert_true(r < ROWS && q < QUALIFIERS);
	assert_int_equal(c->row.n, strlen(row_name(r)));
	assert_memory_equal(c->row.p, row_name(r), c->row.n);
	switch (c->kind) {
	case TFS_FEED_SET:
		assert_true(number_in(c->value, 0) > listed);
		listed = number_in(c->value, 0);
		cells[r][f][q][c->ts - 1] = listed;
		break;
	case TFS_FEED_DELETE_CELL:
		cells[r][f][q][c->ts - 1] = 0;
		break;
	case TFS_FEED_DELETE_COLUMN:
		clear(r, f, q, c->ts);
		break;
	case TFS_FEED_DELETE_FAMILY:
	case TFS_FEED_DELETE_ROW:
		for (unsigned i = 0; i < QUALIFIERS; i++) {
			clear(r, f, i, INT64_MAX);
			if (c->kind == TFS_FEED_DELETE_ROW)
				clear(r, 1, i, INT64_MAX);
		}
		break;
	case TFS_FEED_TRUNCATE:
	case TFS_FEED_DROP:
		fail_msg("a change of the table");
	}
}

static struct tfs_feed *open_feed(const char *token)
{
	struct tfs_feed *f;

	assert_int_equal(tfs_feed_open(table, token, TFS_FEED_START, &f), 0);
	return f;
}

/* Takes all that is there. */
static void take_all(struct tfs_feed *f)
{
	struct tfs_feed_change c;
	int r;

	while ((r = tfs_feed_next(f, &c)) > 0) {
		take(&c);
		assert_true(token_count < TOKENS);
		strcpy(tokens[token_count++], c.token);
	}
	assert_int_equal(r, 0);
}

static void expect_cells(void)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	unsigned found = 0, wanted = 0;
	int r;

	assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
	while ((r = tfs_scan_next(sc, &c)) > 0) {
		found++;
		assert_int_equal(
			cells[number_in(c.row, 4)][*c.family == 'g'][number_in(c.qualifier, 0)][c.ts - 1], number_in(c.value, 0));
	}
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
	for (unsigned i = 0; i < sizeof(cells) / sizeof(unsigned); i++)
		wanted += ((const unsigned *)cells)[i] != 0;
	assert_int_equal(found, wanted);
}

/* The changes behind a token are those that were listed behind it. */
static void expect_tail(unsigned from)
{
	struct tfs_feed *f = open_feed(tokens[from]);
	struct tfs_feed_change c;
	int r;

	for (unsigned i = from + 1; (r = tfs_feed_next(f, &c)) > 0; i++) {
		assert_true(i < token_count);
		assert_string_equal(c.token, tokens[i]);
		from = i;
	}
	assert_int_equal(r, 0);
	assert_int_equal(from + 1, token_count);
	tfs_feed_free(f);
}

static void run_history(uint64_t with)
{
	seed = with * 2 + 1;
	memset(cells, 0, sizeof(cells));
	made = listed = token_count = 0;
	open_store();
	set_schema();
	for (unsigned step = 0; step < STEPS; step++) {
		if (draw(8))
			write_row();
		else
			disturb();
		if (draw(20) == 0) {
			struct tfs_feed *f = open_feed(token_count ? tokens[token_count - 1] : NULL);

			take_all(f);
			tfs_feed_free(f);
			expect_cells();
			if (token_count)
				expect_tail(draw(token_count));
		}
	}
	close_store();
}

static void test_histories(void **state)
{
	const unsigned count = (unsigned)(24 / share_step());

	for (unsigned i = 0; i < count; i++) {
		print_message("# history %u\n", i);
		run_history(i);
		assert_int_equal(test_dir_teardown(state), 0);
		assert_int_equal(setup_options(state), 0);
	}
}

/* ---- a follower beside writers ---- */

enum { WRITERS = 3, WRITES = 1500 };
static atomic_uint ended;

static void *writer(void *arg)
{
	const unsigned w = (unsigned)(uintptr_t)arg;
	char row[32], value[32];

	for (unsigned i = 1; i <= WRITES; i++) {
		snprintf(row, sizeof(row), "%u-%u", (i * 7 + w) % 10, w);
		snprintf(value, sizeof(value), "%u", i);
		if (store_put(table, tfs_str(row), "f", TFS_S("q"), tfs_at((int64_t)i), tfs_str(value), 0))
			break;
	}
	ended++;
	return NULL;
}

static void *disturber(void *arg)
{
	char row[8];

	for (unsigned i = 0; ended < WRITERS; i++) {
		snprintf(row, sizeof(row), "%u", i * 3 % 10);
		(void)!(i % 3 == 0           ? tfs_split(table, tfs_str(row))
				: i % 3 == 1 ? tfs_merge(table, tfs_str(row))
					     : tfs_flush(table));
	}
	return NULL;
}

static void test_follower(void **state)
{
	pthread_t threads[WRITERS + 1];
	unsigned next[WRITERS], missing = WRITERS * WRITES;
	struct tfs_feed_change c;
	struct tfs_feed *f;
	int64_t last_us = 0;
	int r;

	open_store();
	set_schema();
	f = open_feed(NULL);
	for (unsigned i = 0; i < WRITERS; i++) {
		next[i] = 1;
		assert_int_equal(pthread_create(&threads[i], NULL, writer, (void *)(uintptr_t)i), 0);
	}
	assert_int_equal(pthread_create(&threads[WRITERS], NULL, disturber, NULL), 0);
	while (missing) {
		unsigned w;

		r = tfs_feed_next(f, &c);
		if (r == 0) {
			assert_int_equal(tfs_feed_wait(f, NULL, NULL), 0);
			continue;
		}
		assert_int_equal(r, 1);
		assert_int_equal(c.kind, TFS_FEED_SET);
		assert_true(c.commit_us >= last_us);
		last_us = c.commit_us;
		w = number_in(c.row, 2);
		assert_true(w < WRITERS);
		assert_int_equal(number_in(c.value, 0), next[w]);
		next[w]++;
		missing--;
		if (missing % 500 == 0) { /* another reader continues */
			char token[TFS_TOKEN_MAX + 1];

			strcpy(token, c.token);
			tfs_feed_free(f);
			f = open_feed(token);
		}
	}
	for (unsigned i = 0; i <= WRITERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(tfs_feed_next(f, &c), 0);
	tfs_feed_free(f);
	close_store();
	check_is_clean();
}

/* ---- memory ---- */

enum { PARTS = 128, PART_BYTES = 256 << 10, BLOB_BYTES = 16 << 10, HELD_MOST = 20 << 20 };

/* A feed holds a bounded part of the changes, whatever the number of tablets. */
static void test_memory(void **state)
{
	static uint8_t blob[BLOB_BYTES];
	struct tfs_feed_change c;
	struct tfs_feed *f;
	unsigned listed_parts = 0;
	size_t before;
	char row[8];
	int r;

	open_store();
	set_schema();
	for (unsigned i = 0; i < PARTS; i++) {
		snprintf(row, sizeof(row), "%03u", i);
		if (i)
			assert_int_equal(tfs_split(table, tfs_str(row)), 0);
		for (unsigned k = 0; k < PART_BYTES / BLOB_BYTES; k++)
			assert_int_equal(store_put(table, tfs_str(row), "f", TFS_S("q"), tfs_at((int64_t)k + 1),
						 tfs_bytes_of(blob, sizeof(blob)), 0),
				0);
	}
	assert_int_equal(tfs_flush(table), 0);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	f = open_feed(NULL);
	assert_true(mallinfo2().uordblks + mallinfo2().hblkhd < before + HELD_MOST);
	while ((r = tfs_feed_next(f, &c)) > 0)
		listed_parts++;
	assert_int_equal(r, 0);
	assert_int_equal(listed_parts, PARTS * (PART_BYTES / BLOB_BYTES));
	tfs_feed_free(f);
	close_store();
}

/* A truncation in the middle of a value is a change, and not the end. */
static void test_truncation(void **state)
{
	static uint8_t blob[1 << 20];
	struct tfs_feed_change c;
	struct tfs_feed *f;

	open_store();
	set_schema();
	assert_int_equal(store_put(table, TFS_S("row"), "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(blob, sizeof(blob)), 0), 0);
	f = open_feed(NULL); /* it has the beginning of the value */
	assert_int_equal(tfs_table_truncate(table, NULL), 0);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_int_equal(c.kind, TFS_FEED_TRUNCATE);
	assert_int_equal(tfs_feed_next(f, &c), 0);
	assert_int_equal(store_put(table, TFS_S("row"), "f", TFS_S("q"), tfs_at(2), TFS_S("x"), 0), 0);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_int_equal(c.kind, TFS_FEED_SET);
	assert_int_equal(c.ts, 2);
	tfs_feed_free(f);
	close_store();
}

/* ---- readers that wait ---- */

static void count_call(void *arg)
{
	++*(unsigned *)arg;
}

/* Reads what there is, and waits. */
static void wait_for_more(struct tfs_feed *f, unsigned *calls)
{
	struct tfs_feed_change c;

	while (tfs_feed_next(f, &c) > 0)
		;
	assert_false(tfs_feed_at_hand(f));
	tfs_feed_notify(f, count_call, calls);
}

/* A mutation calls the readers of its table that wait, once, and no other. */
static void test_waiters(void **state)
{
	struct tfs_table *first, *other;
	struct tfs_feed *f, *g, *of_other;
	unsigned f_calls = 0, g_calls = 0, other_calls = 0;
	struct tfs_feed_change c;

	open_store();
	set_schema();
	first = table;
	assert_int_equal(tfs_table_create(store, "other", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_open(store, "other", &other), 0);
	table = other;
	set_schema();
	of_other = open_feed(NULL);
	table = first;
	f = open_feed(NULL);
	g = open_feed(NULL);
	wait_for_more(f, &f_calls);
	wait_for_more(g, &g_calls);
	wait_for_more(of_other, &other_calls);
	for (int i = 1; i <= 2; i++)
		assert_int_equal(store_put(first, TFS_S("row"), "f", TFS_S("q"), tfs_at(i), TFS_S("x"), 0), 0);
	assert_true(f_calls == 1 && g_calls == 1 && other_calls == 0);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_true(tfs_feed_at_hand(f));
	wait_for_more(f, &f_calls);
	assert_int_equal(store_put(other, TFS_S("row"), "f", TFS_S("q"), tfs_at(1), TFS_S("x"), 0), 0);
	assert_true(f_calls == 1 && other_calls == 1);
	assert_int_equal(tfs_table_truncate(first, NULL), 0); /* new tablets */
	assert_int_equal(f_calls, 2);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_int_equal(c.kind, TFS_FEED_TRUNCATE);
	wait_for_more(f, &f_calls);
	assert_int_equal(store_put(first, TFS_S("row"), "f", TFS_S("q"), tfs_at(1), TFS_S("x"), 0), 0);
	assert_int_equal(f_calls, 3);
	assert_int_equal(tfs_feed_wait(f, NULL, NULL), 0);
	tfs_feed_free(g);
	tfs_feed_free(f);
	tfs_feed_free(of_other);
	tfs_table_close(other);
	close_store();
}

/* ---- a tablet that nobody writes to ---- */

static bool keeps_changes(const char *row)
{
	struct served_tablet *h;
	bool keeps;

	assert_int_equal(served_find(hooks.server, tfs_table_id(table), tfs_str(row), &h), 0);
	keeps = tablet_changes_low(h->tablet) > 1; /* 1: it has never had a commit */
	served_put(h);
	return keeps;
}

/* The tablet begins to keep changes soon after the schema has changed, and not when the first reader comes. */
static void test_quiet_tablet(void **state)
{
	struct tfs_feed_change c;
	struct tfs_feed *f;

	options.no_background = false;
	open_store();
	for (char row[] = "a"; *row <= 'b'; ++*row)
		assert_int_equal(store_put(table, tfs_str(row), "f", TFS_S("q"), tfs_at(1), TFS_S("old"), 0), 0);
	assert_int_equal(tfs_split(table, tfs_str("b")), 0);
	set_schema();
	while (!keeps_changes("a") || !keeps_changes("b"))
		sched_yield();
	assert_int_equal(store_put(table, TFS_S("a"), "f", TFS_S("q"), tfs_at(2), TFS_S("new"), 0), 0);
	f = open_feed(NULL);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_int_equal(c.ts, 2);
	assert_int_equal(tfs_feed_next(f, &c), 0);
	tfs_feed_free(f);
	close_store();
}

/* ---- a full disk ---- */

static _Atomic int64_t now_us = INT64_C(1700000000000000);

static int64_t test_clock(void *arg)
{
	return now_us;
}

static _Atomic unsigned refused;

static int no_promises(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const bool writes = op == FILE_OP_WRITE && strstr(path, "/lock/") != NULL;

	refused += writes;
	return writes ? -ENOSPC : 0;
}

/* The time up to which changes are complete cannot be promised anew, so only changes up to the last promise are listed. */
static void test_full_disk(void **state)
{
	struct tfs_feed_change c;
	struct tfs_feed *f;

	hooks.clock = clock_new(test_clock, NULL);
	open_store();
	set_schema();
	assert_int_equal(store_put(table, TFS_S("row"), "f", TFS_S("q"), tfs_at(1), TFS_S("old"), 0), 0);
	tfs_feed_free(open_feed(NULL)); /* promises a second more than it must */
	now_us += 60 * INT64_C(1000000);
	assert_int_equal(store_put(table, TFS_S("row"), "f", TFS_S("q"), tfs_at(2), TFS_S("new"), 0), 0);
	file_set_hook(no_promises, NULL);
	f = open_feed(NULL);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_int_equal(c.ts, 1);
	assert_int_equal(tfs_feed_next(f, &c), 0);
	assert_true(refused > 0);
	file_set_hook(NULL, NULL);
	assert_int_equal(tfs_feed_next(f, &c), 1);
	assert_int_equal(c.ts, 2);
	assert_int_equal(tfs_feed_next(f, &c), 0);
	tfs_feed_free(f);
	close_store();
	clock_free(hooks.clock);
	hooks.clock = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_truncation, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_waiters, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_quiet_tablet, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_full_disk, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_memory, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_histories, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_follower, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
