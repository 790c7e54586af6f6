/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log stays bounded by its size, although tablets with few writes need its
 * beginning, and by its age, although no write arrives.
 */
#include "engine/base/clock.h"
#include "engine/log/log.h"
#include "t/lib/metric.h"
#include "t/unit/server_lib.h"

enum { SEGMENT = 64 << 10, IDLE = 80 };
#define MOST (6u * SEGMENT) /* logs.c's */

static void make_idle(struct tfs_table **t)
{
	char name[16];

	for (unsigned i = 0; i < IDLE; i++) {
		snprintf(name, sizeof(name), "idle%u", i);
		t[i] = make_table(name);
	}
}

static void put_bytes(struct tfs_table *t, unsigned row, const char *value, size_t n)
{
	struct tfs_mutation *m;
	char key[16];

	snprintf(key, sizeof(key), "r%u", row);
	m = tfs_mutation_new(t, tfs_str(key));
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(value, n)), 0);
	assert_int_equal(tfs_apply(m, 0, NULL), 0);
	tfs_mutation_free(m);
}

/* Whoever brings it about is at work; a minute is for ever. */
static void go_on_waiting(uint64_t since_us)
{
	assert_true(monotonic_us() < since_us + 60000000);
	sched_yield();
}

static void nothing_needs_our_log(void)
{
	uint64_t since = monotonic_us();
	struct served_tablet **list;
	unsigned count;
	bool needed;

	do {
		needed = false;
		assert_int_equal(served_list(hooks.server, 0, &list, &count), 0);
		for (unsigned i = 0; i < count; i++) {
			needed |= tablet_redo_lsn(list[i]->tablet, hooks.server->o.incarnation) != UINT64_MAX;
			served_put(list[i]);
		}
		free(list);
		go_on_waiting(since);
	} while (needed);
}

/*
 * One tablet is written on and on, and many have a few cells; with memtables
 * that are flushed for their own size, and with such as never are.
 */
static void bounded(size_t memtable_bytes)
{
	static char value[1000];
	struct tfs_table *idle[IDLE], *busy;
	uint64_t written = 0, largest = 0;

	options.no_background = false;
	options.log_segment_bytes = SEGMENT;
	options.memtable_bytes = memtable_bytes;
	open_store();
	make_idle(idle);
	busy = make_table("busy");
	for (unsigned round = 0; round < 60; round++) {
		uint64_t bytes, since;

		if (round % 20 == 0)
			for (unsigned i = 0; i < IDLE; i++)
				put_bytes(idle[i], round, value, 10);
		for (unsigned i = 0; i < 200; i++, written += sizeof(value))
			put_bytes(busy, i, value, sizeof(value));
		since = monotonic_us();
		while ((bytes = metric_of(store, "log_size_bytes")) >= MOST + SEGMENT)
			go_on_waiting(since);
		if (bytes > largest)
			largest = bytes;
	}
	print_message("# %llu KiB written, beside %d idle tablets: the log has had at most %llu KiB\n",
		(unsigned long long)written >> 10, IDLE, (unsigned long long)largest >> 10);
	assert_true(written > 20 * MOST);
	for (unsigned i = 0; i < IDLE; i++)
		tfs_table_close(idle[i]);
	tfs_table_close(busy);
	close_store(false);
	/* mutations flushed from the log are there */
	options.no_background = true;
	open_store();
	for (unsigned i = 0; i < IDLE; i++) {
		char name[16];

		snprintf(name, sizeof(name), "idle%u", i);
		idle[i] = open_table(name);
		for (unsigned round = 0; round < 60; round += 20) {
			snprintf(name, sizeof(name), "r%u", round);
			assert_int_equal(look(idle[i], name), 0);
		}
		tfs_table_close(idle[i]);
	}
	close_store(false);
}

static void beside_a_busy_tablet(void **state)
{
	bounded(4 << 20);
}

static void memory_for_more_than_the_log(void **state)
{
	bounded(1u << 30);
}

/* Written once and left alone: in the end nothing needs the log, and the store opens without it. */
static void of_a_resting_store(void **state)
{
	struct tfs_table *t, *u;
	char command[100];

	hooks.logs_flush_age_us = 20000;
	options.no_background = false;
	open_store();
	t = make_table("t");
	u = make_table("u");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(put(u, "r", "f", "v"), 0);
	nothing_needs_our_log();
	assert_int_equal(put(t, "r2", "f", "v"), 0); /* it is not the first time only */
	nothing_needs_our_log();
	snprintf(command, sizeof(command), "rm -r d/log/%llu", (unsigned long long)hooks.server->o.incarnation);
	tfs_table_close(t);
	tfs_table_close(u);
	close_store(false);
	shell(command);
	hooks.logs_flush_age_us = 0;
	open_store();
	t = open_table("t");
	u = open_table("u");
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(look(t, "r2"), 0);
	assert_int_equal(look(u, "r"), 0);
	tfs_table_close(t);
	tfs_table_close(u);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {T(beside_a_busy_tablet), T(memory_for_more_than_the_log), T(of_a_resting_store)};

	return RUN(tests);
}
