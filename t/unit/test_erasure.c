/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removed data is off the disk within the promised time: no file of the data directory
 * has a byte of it, neither SSTables nor the commit log with its segments for
 * reuse.  (The bytes of unlinked files are the file system's.)
 *
 * The test sets the store's clock.  The periods of background checks use another
 * clock and are shortened.
 */
#include "engine/base/clock.h"
#include "t/unit/server_lib.h"

#define DAY_US INT64_C(86400000000)
#define SECRET "Rosebud-4711-was-the-sledge"

static _Atomic int64_t now;

static int64_t test_clock(void *arg)
{
	return now;
}

static void begin(void)
{
	now = 1700000000 * INT64_C(1000000);
	hooks.clock = clock_new(test_clock, NULL);
	options.no_background = false;
	options.log_segment_bytes = 64 << 10;
	hooks.logs_flush_age_us = hooks.look_us = 20000;
	open_store();
}

static void end(void)
{
	close_store(true);
	clock_free(hooks.clock);
	hooks.logs_flush_age_us = hooks.look_us = 0;
}

/* Does any file of these directories have the secret's bytes? */
static bool on_disk(const char *dirs)
{
	char cmd[1000];
	int status;

	snprintf(cmd, sizeof(cmd), "cd '%s/d' && grep -r -q -a -F -e '%s' %s 2>/dev/null", test_dir, SECRET, dirs);
	status = system(cmd);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 2); /* 2: a file has been removed */
	return WEXITSTATUS(status) == 0;
}

/* The background is at work; a minute is for ever. */
static void until_gone(const char *dirs)
{
	uint64_t since = monotonic_us();

	while (on_disk(dirs)) {
		assert_true(monotonic_us() < since + (uint64_t)60000000);
		sched_yield();
	}
	assert_false(on_disk(dirs));
}

#define GROUPS "groups = ( { name = \"g\"; compression = \"none\"; } );"

static void set_schema(struct tfs_table *t, const char *text)
{
	char *why = NULL;

	if (tfs_schema_set_text(t, tfs_str(text), 0, &why))
		fail_msg("schema: %s", why);
}

static struct tfs_table *plain_table(const char *name)
{
	struct tfs_table *t;

	assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
	t = open_table(name);
	set_schema(t, "families = ( { name = \"f\"; group = \"g\"; }, { name = \"x\"; group = \"g\"; } );" GROUPS);
	return t;
}

static void fill(struct tfs_table *t, const char *value)
{
	char row[16];

	for (unsigned i = 0; i < 50; i++) {
		snprintf(row, sizeof(row), "r%02u", i);
		assert_int_equal(put(t, row, "f", i % 10 == 3 ? value : "of no account"), 0);
	}
}

/* One row of it is deleted; the log has both, segments of it have been dropped and used again. */
static void deleted(void **state)
{
	static char long_value[1500];
	struct tfs_table *t;

	memset(long_value, 'l', sizeof(long_value) - 1);
	begin();
	t = plain_table("t");
	fill(t, "a value of little interest");
	assert_int_equal(put(t, "secret", "f", SECRET), 0);
	assert_int_equal(tfs_flush(t), 0);
	assert_true(on_disk("sst")); /* later compactions may remove it */
	assert_int_equal(delete_row(t, "secret"), 0);
	for (unsigned i = 0; i < 200; i++) /* several segments of it */
		assert_int_equal(put(t, "more", "f", long_value), 0);
	assert_int_equal(tfs_sync(store), 0);
	until_gone("log"); /* the clock does not move: by its age alone */
	/* A tablet takes at most half the time; across an opening, which counts from the same day. */
	now += 3 * DAY_US;
	tfs_table_close(t);
	close_store(true);
	open_store();
	t = open_table("t");
	assert_int_equal(look(t, "secret"), -ENOENT);
	now += DAY_US / 2;
	until_gone("sst");
	until_gone("--exclude=ballast .");
	assert_int_equal(look(t, "r03"), 0);
	tfs_table_close(t);
	end();
}

/* Mounted for moments only, each shorter than any period. */
static void an_hour_a_day(void **state)
{
	struct tfs_table *t;
	unsigned days = 0;

	begin();
	t = plain_table("t");
	fill(t, "a value of little interest");
	assert_int_equal(put(t, "secret", "f", SECRET), 0);
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(delete_row(t, "secret"), 0);
	tfs_table_close(t);
	close_store(true);
	hooks.logs_flush_age_us = hooks.look_us = 0;
	for (; days < 4; days++) {
		assert_true(on_disk("sst"));
		now += DAY_US;
		open_store();
		if (days == 3)
			until_gone(".");
		close_store(true);
	}
	clock_free(hooks.clock);
}

static void table_dropped(void **state)
{
	struct tfs_table *t;

	begin();
	t = plain_table("t");
	fill(t, SECRET);
	assert_int_equal(tfs_flush(t), 0);
	fill(t, SECRET);
	assert_int_equal(tfs_sync(store), 0);
	assert_true(on_disk("sst"));
	assert_int_equal(put(t, "r", "f", SECRET), 0);
	assert_int_equal(delete_row(t, "r"), 0);
	for (unsigned i = 0; i < 50; i++) {
		char row[16];

		snprintf(row, sizeof(row), "r%02u", i);
		assert_int_equal(delete_row(t, row), 0);
	}
	tfs_table_close(t);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	until_gone("sst");
	until_gone("--exclude=ballast .");
	end();
}

static void family_dropped(void **state)
{
	struct tfs_table *t;

	begin();
	t = plain_table("t");
	fill(t, "of no account");
	assert_int_equal(put(t, "r", "x", SECRET), 0);
	assert_int_equal(tfs_flush(t), 0);
	assert_true(on_disk("sst"));
	set_schema(t, "allow_delete = true; families = ( { name = \"f\"; group = \"g\"; } );" GROUPS);
	assert_true(on_disk("sst"));
	now += 7 * DAY_US / 2;
	until_gone("--exclude=ballast .");
	assert_int_equal(look(t, "r03"), 0);
	tfs_table_close(t);
	end();
}

/* A rule became stricter while one file had all of a tablet, and the store was closed: only the file shows that it has more. */
static void rule_stricter(void **state)
{
	struct tfs_table *t;

	begin();
	t = plain_table("t");
	fill(t, "of no account");
	assert_int_equal(put(t, "r", "f", SECRET), 0);
	assert_int_equal(put(t, "r", "f", "newer"), 0);
	assert_int_equal(tfs_flush(t), 0);
	set_schema(t,
		"families = ( { name = \"f\"; group = \"g\"; gc = \"maxversions=1\"; }, { name = \"x\"; group = \"g\"; } );" GROUPS);
	tfs_table_close(t);
	close_store(true);
	open_store();
	t = open_table("t");
	assert_true(on_disk("sst"));
	now += 7 * DAY_US / 2;
	until_gone("--exclude=ballast .");
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {T(rule_stricter), T(deleted), T(an_hour_a_day), T(table_dropped), T(family_dropped)};

	return RUN(tests);
}
