/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failed allocations that the fault workload (t/engine/faults) does not reach: in the
 * parallel replay of a log, and in a split or merge, above all where it records an
 * unknown outcome.  One allocation after another fails (linked with --wrap), in
 * any thread.  A start that fails returns ENOMEM, and the next one finds all data.
 * A split or merge that fails has happened completely or not at all, and the
 * table takes writes.
 */
#include "t/unit/server_lib.h"

#include <stdatomic.h>

enum { ROWS = 240, TABLETS = 6 };

static _Atomic int countdown; /* if it is 1, the next allocation fails; 0 and below let none fail */
static _Atomic bool failed;

static bool fails(void)
{
	if (countdown <= 0 || atomic_fetch_sub(&countdown, 1) != 1)
		return false;
	failed = true;
	return true;
}

#include "t/unit/wrap_alloc.h"

static void arm(int n)
{
	if (n)
		failed = false;
	countdown = n;
}

static const char *row_of(unsigned i)
{
	static char row[16];

	snprintf(row, sizeof(row), "r%03u", i);
	return row;
}

static void all_is_there(const char *value)
{
	struct tfs_table *t = open_table("t");
	char got[16];

	for (unsigned i = 0; i < ROWS; i++) {
		size_t n = 0;

		assert_int_equal(tfs_read(t, tfs_str(row_of(i)), "f", TFS_S("q"), TFS_AUTO, 0, got, sizeof(got), &n, NULL), 0);
		assert_int_equal(n, strlen(value));
		assert_memory_equal(got, value, n);
	}
	tfs_table_close(t);
}

static void fill(const char *value)
{
	struct tfs_table *t = open_table("t");

	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(put(t, row_of(i * 7 % ROWS), "f", value), 0);
	tfs_table_close(t);
}

/* Not 0 when it failed; then there is no store. */
static int try_open(int at)
{
	char *why = NULL;
	int err;

	arm(at);
	err = tfs_open_hooked(in_dir("d"), &options, &hooks, &store, &why);
	arm(0);
	free(why);
	return err;
}

/* Several tablets and stretches, so that several threads apply them. */
static void in_replay(void **state)
{
	unsigned refused = 0, done = 0;
	struct tfs_table *t;

	hooks.replay_part_bytes = 4000;
	open_store();
	t = make_table("t");
	for (unsigned i = 1; i < TABLETS; i++)
		assert_int_equal(tfs_split(t, tfs_str(row_of(i * ROWS / TABLETS))), 0);
	tfs_table_close(t);
	fill("one");
	close_store(false);
	for (int at = 1;; at += 1 + at / 12) {
		int err = try_open(at);
		bool some = failed;

		if (err) {
			assert_int_equal(err, -ENOMEM);
			refused++;
		} else {
			done++;
			all_is_there("one");
			close_store(false);
		}
		if (!some)
			break;
	}
	print_message("# %u starts refused, %u that did without\n", refused, done - 1);
	assert_true(refused > 20);
	open_store();
	all_is_there("one");
	close_store(true);
}

static unsigned count_tablets(struct tfs_table *t)
{
	struct served_tablet **list;
	unsigned n;

	assert_int_equal(served_list(hooks.server, tfs_table_id(t), &list, &n), 0);
	for (unsigned i = 0; i < n; i++)
		served_put(list[i]);
	free(list);
	return n;
}

/* A split, and a merge of its parts, in which the n-th allocation fails. */
static void in_split_and_merge(void **state)
{
	unsigned refused[2] = {0, 0};
	bool some = true;
	struct tfs_table *made;

	open_store();
	made = make_table("t");
	assert_int_equal(store_no_dictionary(made), 0);
	tfs_table_close(made);
	for (int at = 1; some; at += 1 + at / 12) {
		const char *value = at % 2 ? "one" : "two";
		struct tfs_table *t = open_table("t");

		some = false;
		assert_int_equal(tfs_compact(t), 0); /* or each round would have more files than the round before */
		fill("old");
		for (unsigned merging = 0; merging < 2; merging++) {
			unsigned before = count_tablets(t);
			int err;

			arm(at);
			err = merging ? tfs_merge(t, tfs_str("a")) : tfs_split(t, tfs_str(row_of(100)));
			arm(0);
			some |= failed;
			if (err) {
				assert_true(failed);
				assert_int_equal(err, -ENOMEM);
				assert_int_equal(count_tablets(t), before);
				refused[merging]++;
				all_is_there("old");
				if (merging)
					assert_int_equal(tfs_merge(t, tfs_str("a")), 0);
				else
					assert_int_equal(tfs_split(t, tfs_str(row_of(100))), 0);
			}
			assert_int_equal(count_tablets(t), merging ? 1 : 2);
		}
		fill(value);
		tfs_table_close(t);
		close_store(at % 3 == 0);
		open_store();
		all_is_there(value);
	}
	close_store(true);
	print_message("# %u splits and %u merges refused\n", refused[0], refused[1]);
	assert_true(refused[0] > 10 && refused[1] > 10);
}

/* A split that fails because of memory, and is not tried again: the next edit removes the row that it may have inserted. */
static void split_given_up(void **state)
{
	unsigned refused = 0;
	bool some = true;
	struct tfs_table *made;

	open_store();
	made = make_table("t");
	assert_int_equal(store_no_dictionary(made), 0);
	tfs_table_close(made);
	for (int at = 1; some; at += 1 + at / 12) {
		struct tfs_table *t = open_table("t");
		unsigned before;
		int err;

		assert_int_equal(tfs_compact(t), 0);
		fill("old");
		before = count_tablets(t);
		arm(at);
		err = tfs_split(t, tfs_str(row_of(100)));
		arm(0);
		some = failed;
		refused += err != 0;
		fill("new");
		if (at % 2)
			assert_int_equal(tfs_flush(t), 0); /* or the crash comes before any edit, and it has been one */
		tfs_table_close(t);
		close_store(false);
		open_store();
		all_is_there("new");
		t = open_table("t");
		if (err && at % 2)
			assert_int_equal(count_tablets(t), before);
		if (count_tablets(t) > 1)
			assert_int_equal(tfs_merge(t, tfs_str("a")), 0);
		tfs_table_close(t);
	}
	close_store(true);
	assert_true(refused > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {T(in_replay), T(in_split_and_merge), T(split_given_up)};

	return RUN(tests);
}
