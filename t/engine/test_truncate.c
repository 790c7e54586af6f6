/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New sets of tablets: truncation during writes, and deaths at each file
 * operation of a truncation and of a schema with splits.
 */
#include "t/engine/deaths.h"

#include <pthread.h>

#define FAMILIES "families = ( { name = \"f\"; }, { name = \"g\"; } );"
#define SPLITS "splits = ( \"b\", \"row00020\" ); " FAMILIES
#define ROWS 40

static void fill(const char *value)
{
	char row[32];

	for (int i = 0; i < ROWS; i++) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(put(row, "q", 1, tfs_str(value), false), 0);
	}
}

static int add_border(void *arg, const struct tfs_tablet *t)
{
	size_t n = strlen(arg);

	sprintf((char *)arg + n, "%.*s ", (int)t->begin.n, t->begin.n ? (const char *)t->begin.p : "");
	return 0;
}

/* The borders of the table's tablets, which are text, each followed by a space. */
static const char *borders(void)
{
	static char text[1000];

	text[0] = 0;
	assert_int_equal(tfs_tablets(table, add_border, text), 0);
	return text;
}

static int set_text(const char *text)
{
	return tfs_schema_set_text(table, tfs_str(text), TFS_NO_TIME, NULL);
}

/* ---- during writes ---- */

#define WRITERS 3
#define TRUNCATIONS 20
#define ROWS_OF_CUT 1000 /* after this many rows a writer waits for the next cut, so a fast writer does not run out of rows */
static atomic_bool over;
static _Atomic uint64_t cuts; /* counts each truncation twice, at its begin and at its end */
static atomic_uint wrong, written[WRITERS];
/* For each row, the value of `cuts` when its write began (upper 32 bits) and when it ended (lower 32 bits). */
static uint64_t written_at[WRITERS][(2 * TRUNCATIONS + 1) * ROWS_OF_CUT];

static int write_one(unsigned w, unsigned i)
{
	char row[32];

	snprintf(row, sizeof(row), "w%u-%06u", w, i);
	return put(row, "q", 1, TFS_S("v"), false);
}

/* Counts an error of a thread, and prints it. */
static void count(const char *what, int err)
{
	if (err) {
		wrong++;
		fprintf(stderr, "%s: %s\n", what, strerror(-err));
	}
}

static void *writer(void *arg)
{
	const unsigned w = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; !over; i++) {
		uint64_t begin;

		while (i >= ((begin = cuts) + 1) * ROWS_OF_CUT && !over)
			sched_yield();
		if (over)
			break;
		count("a put", write_one(w, i));
		written_at[w][i] = begin << 32 | cuts;
		written[w] = i + 1;
	}
	return NULL;
}

static void *batch_writer(void *arg)
{
	for (unsigned i = 0; !over; i++) {
		struct tfs_batch *b;

		if (tfs_batch_new(table, NULL, &b)) {
			wrong++;
			break;
		}
		for (unsigned k = 0; k < 100; k++) {
			char row[32];
			struct tfs_mutation *m;

			snprintf(row, sizeof(row), "batch-%06u", i * 100 + k);
			m = tfs_mutation_new(table, tfs_str(row));
			if (!m || tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), TFS_S("v")) || tfs_batch_add(b, m))
				wrong++;
			tfs_mutation_free(m);
		}
		count("a batch", tfs_batch_close(b));
	}
	return NULL;
}

static void *scanner(void *arg)
{
	while (!over) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .batch_bytes = 1};
		struct tfs_scan *sc;
		struct tfs_cell c;
		char last[64] = "";
		int n;

		if (tfs_scan_new(table, &spec, &sc)) {
			wrong++;
			break;
		}
		while ((n = tfs_scan_next(sc, &c)) > 0) {
			if (c.row.n >= sizeof(last) || (memcmp(last, c.row.p, c.row.n) >= 0 && last[0]))
				wrong++;
			memcpy(last, c.row.p, c.row.n);
			last[c.row.n] = 0;
		}
		count("a scan", n);
		tfs_scan_free(sc);
	}
	return NULL;
}

/* Waits until each writer has written `more` rows, or all rows of this cut. */
static void wait_for(unsigned more)
{
	const unsigned most = (unsigned)(cuts + 1) * ROWS_OF_CUT;

	for (unsigned w = 0; w < WRITERS; w++) {
		const unsigned until = written[w] + more;

		while (written[w] < (until < most ? until : most))
			sched_yield();
	}
}

/* A write that ended before a truncation is removed; a write that began after it is there. */
static void each_write_is_before_or_after(void **state)
{
	pthread_t threads[WRITERS + 2];
	unsigned gone = 0, there = 0;

	open_store();
	assert_int_equal(set_text("splits = ( \"w0-000100\", \"w1\" ); " FAMILIES), 0);
	assert_string_equal(borders(), " w0-000100 w1 ");
	for (uintptr_t w = 0; w < WRITERS; w++)
		assert_int_equal(pthread_create(&threads[w], NULL, writer, (void *)w), 0);
	assert_int_equal(pthread_create(&threads[WRITERS], NULL, batch_writer, NULL), 0);
	assert_int_equal(pthread_create(&threads[WRITERS + 1], NULL, scanner, NULL), 0);
	for (unsigned i = 0; i < TRUNCATIONS; i++) {
		wait_for(20);
		if (i % 4 == 0)
			assert_int_equal(tfs_flush(table), 0);
		cuts++;
		assert_int_equal(tfs_table_truncate(table, NULL), 0);
		cuts++;
	}
	wait_for(20);
	over = true;
	for (unsigned i = 0; i < WRITERS + 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(wrong, 0);
	for (unsigned w = 0; w < WRITERS; w++) {
		for (unsigned i = 0; i < written[w]; i++) {
			const uint64_t begin = written_at[w][i] >> 32, end = written_at[w][i] & UINT32_MAX;
			char row[32];
			bool is;

			snprintf(row, sizeof(row), "w%u-%06u", w, i);
			assert_int_equal(tfs_row_exists(table, tfs_str(row), NULL, &is), 0);
			/* The last truncation began at the second last cut and ended at the last cut. */
			if (end < 2 * TRUNCATIONS - 1)
				assert_false(is);
			if (begin == 2 * TRUNCATIONS)
				assert_true(is);
			gone += end < 2 * TRUNCATIONS - 1;
			there += begin == 2 * TRUNCATIONS;
		}
	}
	print_message("# %u rows gone, %u there\n", gone, there);
	assert_true(gone >= 1140 && there >= 57);
	close_store();
	check_is_clean();
}

/* ---- deaths ---- */

static void set_up(unsigned truncates)
{
	open_store();
	if (truncates) {
		fill("old");
		assert_int_equal(set_text(SPLITS), 0); /* kept, without effect */
		assert_int_equal(tfs_split(table, TFS_S("row00007")), 0);
		assert_string_equal(borders(), " row00007 ");
		assert_int_equal(tfs_flush(table), 0);
	}
	close_store();
}

static void prepare(unsigned truncates)
{
	if (truncates)
		fill("newest"); /* in the log and in memory only */
}

/* How far the process came: 1 the change was answered, 2 a later write was. */
static int change(unsigned truncates)
{
	int err = truncates ? tfs_table_truncate(table, NULL) : set_text(SPLITS);

	if (err)
		return err;
	*answered = 1;
	err = put("row00000", "q", 1, TFS_S("after"), false);
	if (err)
		return err;
	*answered = 2;
	return tfs_compact(table); /* and the files that nothing names are removed */
}

static void check_after(unsigned truncates, bool ended)
{
	struct tfs_info info;
	bool empty, done;

	open_store();
	done = strcmp(borders(), " b row00020 ") == 0;
	if (*answered)
		assert_true(done);
	if (!done)
		assert_string_equal(borders(), truncates ? " row00007 " : " ");
	if (!done && truncates) {
		expect_rows("newest", 0, ROWS);
	} else {
		assert_int_equal(tfs_table_empty(table, &empty), 0);
		if (*answered == 2)
			assert_int_equal(tfs_stat(table, TFS_S("row00000"), "f", TFS_S("q"), TFS_AUTO, &info), 0);
		if (!empty)
			expect_rows("after", 0, 1);
	}
	fill("own");
	expect_rows("own", 0, ROWS);
	assert_int_equal(tfs_table_truncate(table, NULL), 0);
	close_store();
}

static const struct death_test truncation = {2, set_up, prepare, change, check_after};

static void kills_leave_all_or_nothing(void **state)
{
	deaths(&truncation, false);
}

static void power_cuts_leave_all_or_nothing(void **state)
{
	deaths(&truncation, true);
}

static void a_protected_table_stays(void **state)
{
	char *why = NULL;

	open_store();
	fill("v");
	assert_int_equal(set_text("protect = true; " FAMILIES), 0);
	assert_int_equal(tfs_table_truncate(table, &why), -EPERM);
	assert_non_null(strstr(why, "protect = false"));
	free(why);
	assert_int_equal(tfs_table_drop(store, "t"), -EPERM);
	assert_int_equal(set_text("families = ( { name = \"f\"; } ); allow_delete = true;"), -EPERM);
	expect_rows("v", 0, ROWS);
	assert_int_equal(set_text(FAMILIES), 0);
	assert_int_equal(tfs_table_truncate(table, &why), 0);
	assert_null(why);
	expect_rows("v", 0, 0);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	assert_int_equal(tfs_table_truncate(table, NULL), -ENOENT);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_write_is_before_or_after, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_protected_table_stays, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(kills_leave_all_or_nothing, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(power_cuts_leave_all_or_nothing, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
