/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that was paused past the end of its session still serves clients that
 * know its location, and believes in its lease.  The master seals its log and has
 * its tablets served elsewhere.  Every write that it has acknowledged is there.
 */
#include "t/unit/server_lib.h"

#include "engine/log/log_seal.h"
#include "master/internal.h"
#include "t/lib/cluster.h"

#define ROWS 40u
#define WRITERS 4u

static struct cluster c;
static struct tfs_table *table;
static _Atomic unsigned lost_calls, acked, tries;
static _Atomic bool stop;
static _Atomic unsigned last_acked[ROWS]; /* the last acknowledged number of the row's only writer */

static bool held(void *arg)
{
	(void)arg;
	return true;
}

static void lost(void *arg, const char *why)
{
	(void)arg, (void)why;
	lost_calls++;
}

static const char *row_name(char name[16], unsigned i)
{
	snprintf(name, 16, "row%02u", i);
	return name;
}

/* Variants: segments in memory or in files, of one run or of several. */
static void begin(unsigned variant)
{
	struct server_options o = cluster_options(in_dir("d"));
	char name[16];

	o.replay_part_bytes = variant & 1 ? 4000 : 0;
	o.sorted_bytes = variant & 2 ? 1 : 0;
	o.tmp_dir = "/dev/shm";
	o.log_segment_bytes = 64u << 10;
	o.held = held;
	o.lost = lost;
	memset(last_acked, 0, sizeof(last_acked));
	lost_calls = acked = tries = 0;
	stop = false;
	assert_int_equal(cluster_open(&c, &o, 3), 0);
	assert_int_equal(store_table_make(c.store, "t", "f", &table), 0);
	for (unsigned i = 10; i < ROWS; i += 10)
		assert_int_equal(tfs_split(table, tfs_str(row_name(name, i))), 0);
}

static void end(void)
{
	tfs_table_close(table);
	cluster_free(&c);
}

/* Moves half of the table to one server, METADATA to another. */
static unsigned victim(void)
{
	const unsigned who = 1;
	char name[16];

	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[0].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("\0\0\0\2", 4), c.servers[0].incarnation), 0);
	for (unsigned i = 0; i < ROWS; i += 10)
		assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(name, i)),
					 c.servers[i % 20 ? 2 : who].incarnation),
			0);
	return who;
}

static void *write_rows(void *arg)
{
	const unsigned id = (unsigned)(uintptr_t)arg;
	char name[16], value[16];

	for (unsigned n = 1; !stop; n++)
		for (unsigned i = id; i < ROWS && !stop; i += WRITERS) {
			snprintf(value, sizeof(value), "%u", n);
			if (!put(table, row_name(name, i), "f", value)) {
				last_acked[i] = n;
				acked++;
			}
			tries++;
		}
	return NULL;
}

static unsigned missing(void)
{
	unsigned n = 0;
	char name[16];

	for (unsigned i = 0; i < ROWS; i++) {
		char value[16] = "";
		size_t got = 0;
		int err = tfs_read(
			table, tfs_str(row_name(name, i)), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);

		assert_true(!err || err == -ENOENT);
		n += (unsigned)atoi(value) < last_acked[i];
	}
	return n;
}

/* Returns how many segments of sealed logs all live servers have read. */
static uint64_t segments_read(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < c.count; i++)
		n += c.servers[i].server ? atomic_load(&c.servers[i].server->sorter->segments_read) : 0;
	return n;
}

static uint64_t segments_sealed(unsigned who)
{
	struct log_seal seal;
	struct buf b = {0};
	char name[40];
	uint64_t n;

	snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)c.servers[who].incarnation);
	assert_int_equal(lock_get(c.locks, name, &b, NULL), 0);
	assert_int_equal(log_seal_decode(buf_bytes(&b), &seal), 0);
	n = seal.count;
	log_seal_fini(&seal);
	buf_fini(&b);
	return n;
}

static void one_round(unsigned seed)
{
	pthread_t thread[WRITERS];
	unsigned who, now;
	char dead[64];

	begin(seed);
	who = victim();
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_rows, (void *)(uintptr_t)i), 0);
	/* The client knows the location of each row. */
	for (unsigned i = 0; i < ROWS; i++)
		while (!last_acked[i])
			sched_yield();
	for (now = acked; acked < now + seed * 37 % 300;)
		sched_yield();
	c.servers[who].away = true;
	snprintf(dead, sizeof(dead), "d/log/%llu.dead", (unsigned long long)c.servers[who].incarnation);
	do /* while requests of the zombie are under way at METADATA's server, a pass does nothing */
		(void)!master_tick(c.master);
	while (!exists(dead));
	for (now = tries; tries < now + 200;) /* most of them reach the zombie */
		sched_yield();
	stop = true;
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(lost_calls, 1);
	cluster_kill(&c, who); /* clients look its rows up again */
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(missing(), 0);
	assert_int_equal(segments_read(), segments_sealed(who));
	assert_true(exists(dead));
	end();
}

static void test_writes_to_a_zombie_are_kept_or_refused(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 30; seed++) {
		one_round(seed);
		assert_true(tree_remove(in_dir("d")));
	}
}

/* A damaged seal stops the tablets that need it.  The servers and METADATA go on. */
static void test_a_damaged_seal_stops_its_tablets(void **state)
{
	char name[64], row[16];
	struct log_seal seal;
	struct buf b = {0};
	unsigned who;
	char *why;

	(void)state;
	begin(0);
	who = victim();
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(put(table, row_name(row, i), "f", "1"), 0);
	snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)c.servers[who].incarnation);
	cluster_kill(&c, who);
	assert_int_equal(log_seal_make(in_dir("d/log"), c.servers[who].incarnation, &seal, &why), 0);
	assert_int_equal(log_seal_encode(&seal, &b), 0);
	log_seal_fini(&seal);
	assert_int_equal(lock_put(c.locks, name, tfs_bytes_of(b.p, b.n - 1), LOCK_ABSENT, NULL), 0);
	(void)!master_tick(c.master);
	assert_true(put(table, "row00", "f", "2") < 0);
	assert_int_equal(put(table, "row10", "f", "2"), 0);
	{
		struct tfs_table *other;

		assert_int_equal(store_table_make(c.store, "u", "f", &other), 0);
		assert_int_equal(put(other, "row", "f", "1"), 0);
		tfs_table_close(other);
	}
	assert_int_equal(lock_put(c.locks, name, buf_bytes(&b), LOCK_ANY, NULL), 0);
	buf_fini(&b);
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
	memset(last_acked, 0, sizeof(last_acked));
	for (unsigned i = 0; i < ROWS; i++)
		last_acked[i] = 1;
	assert_int_equal(missing(), 0);
	end();
}

/* ---- servers that do not answer ---- */
static enum ts_method deaf_to;
static unsigned deaf;      /* this server does not answer such requests */
static bool only_later;    /* it answers the first request for each segment */
static unsigned not_heard; /* requests */

static int deaf_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	if (service == &c.servers[deaf].service && q->method == deaf_to && (q->scan || !only_later)) {
		not_heard++;
		return a->err = -ANSWER_LOST;
	}
	return cluster_call(service, q, a);
}

static unsigned kill_one(void)
{
	static const struct tablet_service_ops ops = {.call = deaf_call};
	char row[16], value[4000];
	unsigned who;

	begin(1);
	who = victim();
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	for (unsigned n = 0; n < 3; n++)
		for (unsigned i = 0; i < ROWS; i++) {
			assert_int_equal(put(table, row_name(row, i), "f", n < 2 ? value : "7"), 0);
			last_acked[i] = 7;
		}
	for (unsigned i = 0; i < c.count; i++)
		c.servers[i].service.ops = &ops;
	not_heard = 0;
	cluster_kill(&c, who);
	return who;
}

/* If a server does not answer, another server sorts its segments, in the same recovery. */
static void test_another_server_sorts(void **state)
{
	unsigned who;

	(void)state;
	only_later = false;
	deaf_to = TS_SORT;
	deaf = 2; /* server 0 gets the tablets, because it has fewer */
	who = kill_one();
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(missing(), 0);
	assert_true(not_heard > 0);
	assert_true(segments_sealed(who) > 1);
	assert_int_equal(segments_read(), segments_sealed(who));
	end();
}

/* If a server does not answer, another server seals the log, in the same recovery. */
static void test_another_server_seals(void **state)
{
	(void)state;
	only_later = false;
	deaf_to = TS_SEAL;
	deaf = 0;
	(void)kill_one();
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(not_heard, 1);
	assert_int_equal(missing(), 0);
	end();
}

/* A server that dies within a segment: the tablets are loaded again. */
static void test_a_sorter_dies_within_a_segment(void **state)
{
	struct tfs_info info;

	(void)state;
	only_later = true;
	deaf_to = TS_SORT;
	deaf = 2;
	(void)kill_one();
	(void)!master_tick(c.master);
	assert_true(not_heard > 0);
	assert_int_not_equal(tfs_stat(table, TFS_S("row00"), "f", TFS_S("q"), TFS_AUTO, &info), 0);
	deaf = c.count;
	assign_soon(c.master); /* a second later the next tick makes a pass by itself */
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(missing(), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_writes_to_a_zombie_are_kept_or_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_damaged_seal_stops_its_tablets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_server_sorts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_server_seals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_sorter_dies_within_a_segment, setup, teardown),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
