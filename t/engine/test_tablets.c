/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tablets split and merge, by hand, automatically, METADATA's own and under traffic,
 * and no reader or writer sees a difference.
 */
#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/server/tablets/tablets.h"
#include "engine/tablet/tablet_impl.h"
#include "t/engine/lib.h"
#include "t/lib/file_faults.h"
#include "t/lib/share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void reopen(void)
{
	close_store();
	check_is_clean();
	open_store();
}

static void set_schema(const char *text)
{
	char *why = NULL;
	int err = tfs_schema_set_text(table, tfs_str(text), TFS_NO_TIME, &why);

	if (err)
		print_error("%s\n", why);
	free(why);
	assert_int_equal(err, 0);
}

static int add_tablet(void *arg, const struct tfs_tablet *t)
{
	char *text = arg;
	size_t n = strlen(text);

	snprintf(text + n, 4000 - n, "%.*s-%.*s ", (int)t->begin.n, (const char *)t->begin.p, (int)t->end.n,
		t->end.n ? (const char *)t->end.p : "");
	return 0;
}

static const char *tablets(void)
{
	static char text[4000];

	text[0] = 0;
	assert_int_equal(tfs_tablets(table, add_tablet, text), 0);
	return text;
}

static int count_one(void *arg, const struct tfs_tablet *t)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned tablet_count(struct tfs_table *t)
{
	unsigned n = 0;

	assert_int_equal(tfs_tablets(t, count_one, &n), 0);
	return n;
}

static void fill(int from, int to, size_t bytes)
{
	char row[32];
	uint8_t *value = malloc(bytes + 1);
	uint32_t x = 12345;

	for (int i = from; i < to; i++) {
		for (size_t k = 0; k < bytes; k++)
			value[k] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(put(row, "q", 1, tfs_bytes_of(value, bytes), false), 0);
	}
	free(value);
}

static void test_by_hand(void **state)
{
	options.no_background = true;
	open_store();
	fill(0, 100, 20);
	assert_string_equal(tablets(), "- ");
	assert_int_equal(tfs_merge(table, tfs_str("x")), -ENOENT);
	assert_int_equal(tfs_split(table, tfs_str("")), -EINVAL);
	assert_int_equal(tfs_split(table, tfs_str("row00050")), 0);
	assert_int_equal(tfs_split(table, tfs_str("row00050")), -EEXIST);
	assert_string_equal(tablets(), "-row00050 row00050- ");
	expect_rows(NULL, 0, 100);
	fill(100, 120, 20);
	assert_int_equal(tfs_split(table, tfs_str("row00110")), 0); /* this tablet shares memtables already */
	assert_int_equal(tfs_split(table, tfs_str("a")), 0);        /* an empty one below all */
	assert_string_equal(tablets(), "-a a-row00050 row00050-row00110 row00110- ");
	expect_rows(NULL, 0, 120);
	assert_int_equal(tfs_flush(table), 0);
	expect_rows(NULL, 0, 120);
	assert_int_equal(tfs_split(table, tfs_str("row00025")), 0); /* shares a file */
	assert_int_equal(tfs_compact(table), 0);
	expect_rows(NULL, 0, 120);
	reopen();
	assert_string_equal(tablets(), "-a a-row00025 row00025-row00050 row00050-row00110 row00110- ");
	expect_rows(NULL, 0, 120);
	assert_int_equal(tfs_merge(table, tfs_str("row00030")), 0);
	assert_int_equal(tfs_merge(table, tfs_str("row00030")), 0);
	assert_string_equal(tablets(), "-a a-row00025 row00025- ");
	assert_int_equal(tfs_merge(table, tfs_str("row00110")), -ENOENT);
	expect_rows(NULL, 0, 120);
	assert_int_equal(tfs_merge(table, tfs_str("")), 0);
	assert_int_equal(tfs_merge(table, tfs_str("")), 0);
	assert_string_equal(tablets(), "- ");
	expect_rows(NULL, 0, 120);
	fill(0, 120, 30);
	reopen();
	expect_rows(NULL, 0, 120);
	assert_int_equal(tfs_compact(table), 0);
	close_store();
	check_is_clean();
}

/* A file that its two users have for rows with others between: one is compacted, then they merge. */
static void test_merge_of_parts(void **state)
{
	options.no_background = true;
	open_store();
	fill(0, 90, 20);
	assert_int_equal(tfs_flush(table), 0);
	assert_int_equal(tfs_split(table, tfs_str("row00030")), 0);
	assert_int_equal(tfs_split(table, tfs_str("row00060")), 0);
	{
		struct served_tablet *h;

		/* The middle tablet leaves the file that the first and the last share. */
		assert_int_equal(served_find(hooks.server, tfs_table_id(table), tfs_str("row00040"), &h), 0);
		assert_int_equal(tablet_compact(h->tablet), 0);
		served_put(h);
	}
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	assert_string_equal(tablets(), "- ");
	expect_rows(NULL, 0, 90);
	reopen();
	expect_rows(NULL, 0, 90);
	close_store();
}

/* ---- killed at each file operation of a split and of a merge ---- */

static unsigned kill_at, ops_done;

static int kill_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (++ops_done == kill_at)
		_exit(0);
	return 0;
}

/* The operation, and the number of its file operations; 0: it was killed before. */
static unsigned killed_at(unsigned at, int (*move)(struct tfs_table *t, struct tfs_bytes row), const char *row)
{
	int status, fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		open_store();
		kill_at = at;
		file_set_hook(kill_hook, NULL);
		if (move(table, tfs_str(row)))
			_exit(1);
		(void)!write(fds[1], &ops_done, sizeof(ops_done));
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	status = 0;
	(void)!read(fds[0], &status, sizeof(status));
	close(fds[0]);
	return (unsigned)status;
}

static void test_killed(void **state)
{
	unsigned done, kept = 0, undone = 0;

	options.no_background = true;
	hooks.no_flush = true;
	open_store();
	fill(0, 60, 20);
	assert_int_equal(tfs_flush(table), 0);
	fill(60, 90, 20);
	close_store();
	for (int merging = 0; merging < 2; merging++) {
		kept = undone = 0;
		unsigned tried = 0;

		for (unsigned at = (unsigned)share_first();; at += (unsigned)share_step(), tried++) {
			unsigned before, after;

			open_store();
			before = tablet_count(table);
			/* The two tablets that merge share memtables, or share files, or have files of their own. */
			if (merging && before == 1) {
				assert_int_equal(tfs_split(table, tfs_str(tried % 2 ? "row00070" : "row00040")), 0);
				if (tried % 3 == 2)
					assert_int_equal(tfs_compact(table), 0);
			} else if (!merging && before == 2) {
				assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
				fill(80, 90, 20);
			}
			before = tablet_count(table);
			close_store();
			done = killed_at(at, merging ? tfs_merge : tfs_split, merging ? "row00000" : "row00040");
			check_is_clean();
			open_store();
			expect_rows(NULL, 0, 90);
			after = tablet_count(table);
			assert_true(after == before || after == (merging ? 1 : 2));
			kept += after == before;
			undone += after != before;
			close_store();
			if (done)
				break;
		}
		/* Cut short before, and after, the step that counts. */
		assert_true(kept > 0 && undone > 0);
	}
	hooks.no_flush = false;
}

/* ---- by themselves ---- */

#define WAIT_MS 20000

/* Asks until the background's result is there; no sleep. */
static void wait_until(bool (*is)(void))
{
	uint64_t end = monotonic_us() + WAIT_MS * UINT64_C(1000);

	while (!is()) {
		if (monotonic_us() >= end)
			print_error("%s\n", tablets());
		assert_true(monotonic_us() < end);
		retire_soon(hooks.server);
		(void)sched_yield();
	}
}

static bool four_or_more(void)
{
	return tablet_count(table) >= 4;
}

static bool one_left(void)
{
	return tablet_count(table) == 1;
}

static int look_for_giant(void *arg, const struct tfs_tablet *t)
{
	*(bool *)arg |= t->usage.disk_bytes >= (400 << 10) && !(t->begin.n == 8 && memcmp(t->begin.p, "row00100", 8) == 0);
	return 0;
}

/* A tablet may be split between two reads, so one large tablet is no proof, but a lasting one is. */
static bool no_giant(void)
{
	bool giant = false;

	assert_int_equal(tfs_tablets(table, look_for_giant, &giant), 0);
	return !giant;
}

static bool settled(void)
{
	const struct tfs_schema *schema;
	struct served_tablet **list;
	unsigned n;
	bool large = false;

	assert_int_equal(tfs_schema_get(table, &schema), 0);
	assert_int_equal(served_list(hooks.server, tfs_table_id(table), &list, &n), 0);
	for (unsigned i = 0; i < n; i++) {
		struct buf at = {0};
		struct tablet_stats st;

		tablet_get_stats(list[i]->tablet, &st);
		large |= st.disk_bytes > schema->tablet_size && tablet_split_key(list[i]->tablet, &at) == 0;
		buf_fini(&at);
		served_put(list[i]);
	}
	tfs_schema_put(schema);
	free(list);
	return !large;
}

static void test_by_themselves(void **state)
{
	uint8_t *big = calloc(1, 3 << 20);
	uint32_t x = 1;

	for (size_t i = 0; i < 3 << 20; i++)
		big[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
	options.memtable_bytes = 1 << 20;
	open_store();
	set_schema("tablet_size = \"256K\"; families = ( { name = \"f\"; }, { name = \"g\"; } );");
	fill(0, 400, 5000);
	assert_int_equal(tfs_flush(table), 0);
	wait_until(four_or_more);
	/* A row larger than a tablet: it gets one of its own, and that never splits. */
	assert_int_equal(put("row00100", "big", 1, tfs_bytes_of(big, 3 << 20), false), 0);
	assert_int_equal(tfs_flush(table), 0);
	wait_until(settled);
	wait_until(no_giant);
	expect_rows(NULL, 0, 400);
	reopen();
	expect_rows(NULL, 0, 400);
	close_store();
	check_is_clean();

	/* After nearly all has been deleted the rest is one tablet again. */
	hooks.merge_after_us = 1;
	open_store();
	for (int i = 1; i < 400; i++) {
		struct tfs_mutation *m;
		char row[32];

		snprintf(row, sizeof(row), "row%05d", i);
		m = tfs_mutation_new(table, tfs_str(row));
		assert_int_equal(tfs_mutation_delete_row(m), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_compact(table), 0);
	wait_until(one_left);
	expect_rows(NULL, 0, 1);
	close_store();
	check_is_clean();
	free(big);
}

/* Small neighbours that have been there for their hour: all of them become one, not half of them each hour. */
static void test_small_for_an_hour(void **state)
{
	struct served_tablet **list;
	char row[32];
	unsigned n;

	open_store();
	set_schema("families = ( { name = \"f\"; } );");
	fill(0, 64, 100);
	for (int i = 4; i < 64; i += 4) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(tfs_split(table, tfs_str(row)), 0);
	}
	assert_int_equal(tablet_count(table), 16);
	assert_int_equal(served_list(hooks.server, tfs_table_id(table), &list, &n), 0);
	for (unsigned i = 0; i < n; i++) {
		list[i]->made_us -= UINT64_C(3700000000);
		served_put(list[i]);
	}
	free(list);
	retire_soon(hooks.server);
	wait_until(one_left);
	expect_rows(NULL, 0, 64);
	close_store();
	check_is_clean();
}

/* Tablets as small as a block.  Two tablets that share a block seem as large as the block; they are not split row by row. */
static void test_small_as_a_block(void **state)
{
	open_store();
	set_schema("tablet_size = \"64K\"; families = ( { name = \"f\"; } );"
		   "groups = ( { name = \"default\"; compression = \"none\"; block_size = \"64K\"; } );");
	fill(0, 400, 2000);
	assert_int_equal(tfs_flush(table), 0);
	wait_until(four_or_more);
	wait_until(settled);
	assert_in_range(tablet_count(table), 4, 26); /* there are 13 blocks */
	expect_rows(NULL, 0, 400);
	close_store();
	check_is_clean();
}

/* ---- METADATA ---- */

static unsigned metadata_tablets(void)
{
	struct served_tablet **list;
	unsigned n;

	assert_int_equal(served_list(hooks.server, META_TABLE, &list, &n), 0);
	for (unsigned i = 0; i < n; i++) {
		(void)!tablet_compact(list[i]->tablet); /* so small, it is split once more when it has a block of its own */
		list[i]->split_not_before_us = 0;
		served_put(list[i]);
	}
	free(list);
	return n;
}

static bool metadata_has_split(void)
{
	return metadata_tablets() >= 4; /* the root tablet, too */
}

static void test_metadata(void **state)
{
	char row[32];

	hooks.metadata_tablet_bytes = 2000;
	open_store();
	fill(0, 200, 10);
	for (int i = 5; i < 200; i += 5) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(tfs_split(table, tfs_str(row)), 0);
	}
	wait_until(metadata_has_split);
	expect_rows(NULL, 0, 200);
	for (int i = 3; i < 200; i += 5) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(tfs_split(table, tfs_str(row)), 0);
	}
	expect_rows(NULL, 0, 200);
	assert_int_equal(tablet_count(table), 80);
	reopen();
	assert_int_equal(tablet_count(table), 80);
	assert_true(metadata_tablets() >= 4);
	expect_rows(NULL, 0, 200);
	for (int i = 0; i < 79; i++)
		assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	assert_string_equal(tablets(), "- ");
	reopen();
	expect_rows(NULL, 0, 200);
	close_store();
	check_is_clean();
}

/* ---- under traffic ---- */

#define ROWS 300
#define WRITERS 3
static _Atomic uint64_t told[ROWS]; /* the newest acknowledged value of each row */
static _Atomic int64_t counted;
static _Atomic bool over;
static _Atomic uint64_t scans, reads, writes, increments, moves;

/* Waits while there were too many operations for the splits and merges so far, which they slow down. */
static void pace(const _Atomic uint64_t *done, unsigned for_each_move)
{
	while (!over && *done >= (moves + 1) * for_each_move)
		(void)usleep(100);
}

static void row_name(char *row, unsigned i)
{
	snprintf(row, 32, "row%05u", i);
}

static void *write_rows(void *arg)
{
	unsigned who = (unsigned)(uintptr_t)arg, x = who + 1;
	char row[32], value[400];

	for (uint64_t n = 1; !over; n++) {
		unsigned i;
		uint64_t was;

		pace(&writes, 2000);
		x = x * 1103515245 + 12345;
		i = (x >> 8) % (ROWS / WRITERS) * WRITERS + who; /* each its own rows, so that order is known */
		row_name(row, i);
		was = told[i];
		snprintf(value, sizeof(value), "%llu %0300d", (unsigned long long)was + 1, 7);
		assert_int_equal(put(row, "q", (int64_t)was + 1, tfs_str(value), n % 64 == 0), 0);
		told[i] = was + 1;
		writes++;
	}
	return NULL;
}

static void *count_up(void *arg)
{
	char row[32];

	for (unsigned n = 0; !over; n++) {
		struct tfs_mutation *m;
		int err;

		pace(&increments, 1000);
		increments++;
		row_name(row, n * 7 % ROWS);
		m = tfs_mutation_new(table, tfs_str(row));
		err = tfs_mutation_increment(m, "g", TFS_S("n"), 1);
		if (!err)
			err = tfs_apply(m, 0, NULL);
		assert_int_equal(err, 0);
		tfs_mutation_free(m);
		counted++;
	}
	return NULL;
}

static void *read_rows(void *arg)
{
	unsigned x = 77;
	char row[32], value[500];

	while (!over) {
		size_t got = 0;
		uint64_t least;
		unsigned i;
		int err;

		pace(&reads, 10000);
		x = x * 1103515245 + 12345;
		i = (x >> 8) % ROWS;
		row_name(row, i);
		least = told[i];
		err = tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);
		assert_true(!err || (err == -ENOENT && !least));
		value[got] = 0;
		assert_true(err || strtoull(value, NULL, 10) >= least);
		reads++;
	}
	return NULL;
}

static void *scan_rows(void *arg)
{
	while (!over) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .versions = 1, .batch_bytes = 2000};
		char before[32] = "";
		struct tfs_scan *sc;
		struct tfs_cell c;
		unsigned n = 0;
		int err;

		assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
		while ((err = tfs_scan_next(sc, &c)) > 0) {
			if (strcmp(c.family, "f"))
				continue;
			assert_true(c.row.n == 8 && memcmp(before, c.row.p, 8) < 0);
			memcpy(before, c.row.p, 8);
			n++;
		}
		assert_int_equal(err, 0);
		assert_int_equal(n, ROWS);
		tfs_scan_free(sc);
		scans++;
	}
	return NULL;
}

static void *move_tablets(void *arg)
{
	unsigned x = 4242;
	char row[32];

	while (!over) {
		int err;

		x = x * 1103515245 + 12345;
		row_name(row, (x >> 8) % ROWS);
		if ((x >> 4) % 16 == 0)
			err = tfs_compact(table);
		else if ((x >> 4) % 16 < 8)
			err = tfs_merge(table, tfs_str(row));
		else
			err = tfs_split(table, tfs_str(row));
		assert_true(err == 0 || err == -ENOENT || err == -EEXIST);
		moves += !err;
	}
	return NULL;
}

static void test_traffic(void **state)
{
	pthread_t t[WRITERS + 5];
	unsigned n = 0;
	int64_t sum = 0;
	char row[32], value[500];
	uint64_t end;

	options.memtable_bytes = 1 << 20;
	hooks.scan_view_us = 1000; /* views are left often */
	open_store();
	set_schema("families = ( { name = \"f\"; gc = \"maxversions=3\"; }, { name = \"g\"; type = \"counter\"; group = \"n\"; } );"
		   "groups = ( { name = \"n\"; } );");
	for (unsigned i = 0; i < ROWS; i++) {
		row_name(row, i);
		assert_int_equal(put(row, "q", 1, tfs_str("1"), false), 0);
		told[i] = 1;
	}
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&t[n++], NULL, write_rows, (void *)(uintptr_t)i), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, count_up, NULL), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, read_rows, NULL), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, scan_rows, NULL), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, move_tablets, NULL), 0);
	end = monotonic_us() + 300000000; /* a machine under load reaches that, too */
	while ((moves < 150 || scans < 20 || writes < 3000) && monotonic_us() < end)
		(void)usleep(1000);
	over = true;
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	print_message("# %llu writes, %llu reads, %llu scans, %llu splits and merges, %u tablets\n", (unsigned long long)writes,
		(unsigned long long)reads, (unsigned long long)scans, (unsigned long long)moves, tablet_count(table));
	assert_true(moves >= 150 && scans >= 20 && writes >= 3000);
	for (int again = 0; again < 2; again++) {
		sum = 0;
		for (unsigned i = 0; i < ROWS; i++) {
			size_t got = 0;
			char c[24] = "";

			row_name(row, i);
			assert_int_equal(
				tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL),
				0);
			value[got] = 0;
			assert_int_equal(strtoull(value, NULL, 10), told[i]);
			if (tfs_read(table, tfs_str(row), "g", TFS_S("n"), TFS_AUTO, 0, c, sizeof(c) - 1, &got, NULL) == 0)
				sum += strtoll(c, NULL, 10);
		}
		assert_int_equal(sum, counted);
		hooks.no_flush = true;
		if (!again)
			reopen();
	}
	close_store();
	check_is_clean();
}

/* No row has such a key, but a scan may end there. */
static void test_reverse_from_a_long_key(void **state)
{
	static char to[TFS_ROW_MAX + 100];
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .reverse = true, .row_to = tfs_bytes_of(to, sizeof(to))};

	(void)state;
	memset(to, 'n', sizeof(to));
	open_store();
	assert_int_equal(put("a", "q", 1, TFS_S("x"), false), 0);
	assert_int_equal(put("n", "q", 1, TFS_S("x"), false), 0);
	assert_int_equal(put("z", "q", 1, TFS_S("x"), false), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct tfs_scan *sc;
		struct tfs_cell c;

		assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
		assert_int_equal(tfs_scan_next(sc, &c), 1);
		assert_memory_equal(c.row.p, "n", 1);
		assert_int_equal(tfs_scan_next(sc, &c), 1);
		assert_memory_equal(c.row.p, "a", 1);
		assert_int_equal(tfs_scan_next(sc, &c), 0);
		tfs_scan_free(sc);
		if (!i)
			assert_int_equal(tfs_split(table, TFS_S("m")), 0);
	}
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_by_hand, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_of_parts, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_by_themselves, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_small_for_an_hour, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_small_as_a_block, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_metadata, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_reverse_from_a_long_key, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_traffic, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
