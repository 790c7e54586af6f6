/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of small tablets, METADATA's too, keeps every acknowledged write when the
 * process is killed or the power fails at any file operation, while writers run
 * and tablets split, merge, and are compacted and flushed.  A scan during this, in
 * one call or in pages, returns each row once and in order, in a state between the
 * scan's start and end.  KILLED_ROUNDS, KILLED_SEED.
 */
#include "engine/server/tablets/tablets.h"
#include "t/engine/lib.h"
#include "t/lib/file_faults.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS 120
#define WRITERS 3
#define DELETE_EVERY 5 /* each fifth change of a row deletes it */

/*
 * Each row has the number of its last change that was tried, and of its last acknowledged change;
 * two further numbers are for the raises of its counter.
 */
static struct shared {
	_Atomic uint64_t tried[ROWS], told[ROWS], raising[ROWS], raised[ROWS];
	_Atomic uint64_t moves, metadata, scans;
} * shared;

static uint64_t kill_at;
static uint32_t seed;
static bool power;
static _Atomic uint64_t ops_done;

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525 + 1013904223;
	return *x >> 8;
}

static void row_name(char *row, unsigned i)
{
	snprintf(row, 32, "row%05u", i);
}

/* ---- the process that dies ---- */

static unsigned survives(void *arg, unsigned index, unsigned ways)
{
	return next_random(arg) % ways;
}

static int die_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint32_t x = seed;

	if (atomic_fetch_add(&ops_done, 1) + 1 != kill_at)
		return 0;
	if (power)
		(void)!file_forget_crash(survives, &x);
	_exit(0);
}

static int apply(struct tfs_mutation *m, int err)
{
	if (!err)
		err = tfs_apply(m, power ? TFS_APPLY_SYNC : 0, NULL);
	tfs_mutation_free(m);
	return err;
}

/* Each writer has rows of its own, so that their order is known. */
static void *write_rows(void *arg)
{
	const unsigned who = (unsigned)(uintptr_t)arg;
	uint32_t x = seed * 31 + who;
	char row[32], value[600];

	for (;;) {
		unsigned i = next_random(&x) % (ROWS / WRITERS) * WRITERS + who;
		uint64_t n = shared->told[i] + 1;
		struct tfs_mutation *m;
		int err;

		row_name(row, i);
		shared->tried[i] = n;
		m = tfs_mutation_new(table, tfs_str(row));
		snprintf(value, sizeof(value), "%llu %0500u", (unsigned long long)n, next_random(&x));
		err = n % DELETE_EVERY ? tfs_mutation_put(m, "f", TFS_S("q"), tfs_at((int64_t)n), tfs_str(value))
				       : tfs_mutation_delete_family(m, "f");
		if (apply(m, err))
			_exit(3);
		shared->told[i] = n;
	}
	return NULL;
}

static void *count_up(void *arg)
{
	uint32_t x = seed * 77;
	char row[32];

	for (;;) {
		unsigned i = next_random(&x) % ROWS;
		struct tfs_mutation *m;

		row_name(row, i);
		shared->raising[i]++;
		m = tfs_mutation_new(table, tfs_str(row));
		if (apply(m, tfs_mutation_increment(m, "g", TFS_S("n"), 1)))
			_exit(4);
		shared->raised[i]++;
	}
	return NULL;
}

/* Was the row deleted by one of the changes from `least` to `most`, or not yet there? */
static bool may_be_gone(uint64_t least, uint64_t most)
{
	return most / DELETE_EVERY * DELETE_EVERY >= least;
}

/* Checks that no row between two that a scan returned should exist.  above: -1 before the first. */
static void expect_absent(int above, int below, const uint64_t *told)
{
	for (int i = above + 1; i < below; i++)
		if (!may_be_gone(told[i], shared->tried[i]))
			_exit(7);
}

/* Continues after row `last` for as many as `limit` (0: all).  Returns the last one found, ROWS at the end. */
static int scan_page(int last, uint64_t limit, const uint64_t *told)
{
	struct tfs_scan_spec spec = {.families = (const char *const[]){"f"},
		.family_count = 1,
		.versions = 1,
		.limit = limit,
		.row_from_after = last >= 0,
		.batch_bytes = limit ? 0 : 2000};
	struct tfs_scan *scan;
	struct tfs_cell c;
	char row[32];
	int n;

	row_name(row, (unsigned)last);
	if (last >= 0)
		spec.row_from = tfs_str(row);
	if (tfs_scan_new(table, &spec, &scan))
		_exit(8);
	while ((n = tfs_scan_next(scan, &c)) > 0) {
		uint64_t change = strtoull((const char *)c.value.p, NULL, 10);
		int i;

		memcpy(row, c.row.p, c.row.n < sizeof(row) ? c.row.n : 0);
		row[c.row.n < sizeof(row) ? c.row.n : 0] = '\0';
		i = atoi(row + 3);
		if (i <= last || i >= ROWS || change < told[i] || change > shared->tried[i] || change % DELETE_EVERY == 0)
			_exit(7);
		expect_absent(last, i, told);
		last = i;
		if (limit && --limit == 0)
			break;
	}
	tfs_scan_free(scan);
	if (n < 0)
		_exit(8);
	if (n == 0)
		expect_absent(last, ROWS, told);
	return n ? last : ROWS;
}

static void *scan_rows(void *arg)
{
	uint32_t x = seed * 53;

	for (;;) {
		uint64_t told[ROWS], limit = next_random(&x) % 3 ? 1 + next_random(&x) % 40 : 0;

		for (unsigned i = 0; i < ROWS; i++)
			told[i] = shared->told[i];
		for (int last = -1; last < ROWS;)
			last = scan_page(last, limit, told);
		shared->scans++;
	}
	return NULL;
}

/* METADATA's, which would otherwise be too small to be flushed. */
static int flush_metadata(void)
{
	struct served_tablet **list;
	unsigned n;
	int err = served_list(hooks.server, META_TABLE, &list, &n), e;

	for (unsigned i = n; !err && i-- > 0;) {
		e = tablet_flush(list[i]->tablet);
		if (e && e != -TABLET_MOVED)
			_exit(6);
		served_put(list[i]);
	}
	if (n > shared->metadata)
		shared->metadata = n;
	free(list);
	return err;
}

static void *move_tablets(void *arg)
{
	uint32_t x = seed * 131;
	char row[32];

	for (;;) {
		unsigned what = next_random(&x) % 16;
		int err;

		row_name(row, next_random(&x) % ROWS);
		if (what == 0)
			err = tfs_compact(table);
		else if (what == 1)
			err = tfs_flush(table);
		else if (what == 2)
			err = flush_metadata();
		else if (what < 9)
			err = tfs_merge(table, tfs_str(row));
		else
			err = tfs_split(table, tfs_str(row));
		if (err && err != -ENOENT && err != -EEXIST)
			_exit(5);
		shared->moves += what >= 3 && !err;
		retire_soon(hooks.server);
	}
	return NULL;
}

static void live_and_die(void)
{
	pthread_t t;

	if (power && file_forget_start(in_dir("store")))
		_exit(2);
	file_set_hook(die_hook, NULL);
	open_store();
	for (unsigned i = 0; i < WRITERS; i++)
		if (pthread_create(&t, NULL, write_rows, (void *)(uintptr_t)i))
			_exit(2);
	if (pthread_create(&t, NULL, count_up, NULL) || pthread_create(&t, NULL, scan_rows, NULL) ||
		pthread_create(&t, NULL, move_tablets, NULL))
		_exit(2);
	pthread_join(t, NULL);
}

/* ---- the state afterwards ---- */

static void look(void)
{
	char row[32], value[700];

	for (unsigned i = 0; i < ROWS; i++) {
		uint64_t n, least = shared->told[i], most = shared->tried[i];
		char c[24] = "";
		size_t got = 0;
		int err;

		row_name(row, i);
		err = tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);
		value[got] = 0;
		n = err ? 0 : strtoull(value, NULL, 10);
		if (err == -ENOENT) /* deleted by one of those, or never there */
			n = least % DELETE_EVERY == 0 ? least : most % DELETE_EVERY == 0 ? most : UINT64_MAX;
		else
			assert_int_equal(err, 0);
		if (n < least || n > most)
			print_error("%s: change %lld, of %llu told and %llu tried\n", row, (long long)n, (unsigned long long)least,
				(unsigned long long)most);
		assert_true(n >= least && n <= most);
		shared->told[i] = shared->tried[i] = n;
		err = tfs_read(table, tfs_str(row), "g", TFS_S("n"), TFS_AUTO, 0, c, sizeof(c) - 1, &got, NULL);
		assert_true(!err || err == -ENOENT);
		c[err ? 0 : got] = 0;
		n = err ? 0 : strtoull(c, NULL, 10);
		if (n < shared->raised[i] || n > shared->raising[i])
			print_error("%s: raised %llu times, of %llu told and %llu tried\n", row, (unsigned long long)n,
				(unsigned long long)shared->raised[i], (unsigned long long)shared->raising[i]);
		assert_true(n >= shared->raised[i] && n <= shared->raising[i]);
		shared->raised[i] = shared->raising[i] = n;
	}
}

static void rounds(unsigned count)
{
	uint32_t x = getenv("KILLED_SEED") ? (uint32_t)atoi(getenv("KILLED_SEED")) : 1;
	char *why = NULL;

	options.memtable_bytes = 128 << 10;
	options.log_segment_bytes = 256 << 10;
	hooks.metadata_tablet_bytes = 4000;
	hooks.merge_after_us = 1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	open_store();
	assert_int_equal(tfs_schema_set_text(table,
				 tfs_str("tablet_size = \"64K\"; families = ( { name = \"f\"; gc = \"maxversions=2\"; },"
					 " { name = \"g\"; type = \"counter\"; group = \"n\"; } );"
					 "groups = ( { name = \"n\"; } );"),
				 TFS_NO_TIME, &why),
		0);
	close_store();
	for (unsigned i = 0; i < count; i++) {
		int status;
		pid_t pid;

		seed = next_random(&x);
		kill_at = 1 + next_random(&x) % (i % 3 ? 4000 : 400);
		fflush(stdout);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			live_and_die();
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			print_error("round %u: %x\n", i, (unsigned)status);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		check_is_clean();
		hooks.no_flush = i % 2;
		open_store();
		look();
		close_store();
	}
	print_message("# %llu splits and merges by hand, up to %llu tablets of METADATA, %llu scans\n",
		(unsigned long long)shared->moves, (unsigned long long)shared->metadata, (unsigned long long)shared->scans);
	munmap(shared, sizeof(*shared));
}

static unsigned round_count(unsigned usual)
{
	const char *text = getenv("KILLED_ROUNDS");

	return text ? (unsigned)atoi(text) : usual;
}

static void test_killed(void **state)
{
	power = false;
	rounds(round_count(15));
}

static void test_power_cut(void **state)
{
	power = true;
	rounds(round_count(15));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_killed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_power_cut, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
