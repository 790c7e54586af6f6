/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on shared storage answers nothing without a lease, nor after its session or its
 * log is lost.  Then it tells its program once.
 */
#include "engine/lock/marker.h"
#include "t/unit/server_lib.h"

static struct {
	_Atomic bool gone;           /* the lease */
	_Atomic unsigned lost;       /* calls of the callback */
	char why[256];               /* the reason of the last call */
	_Atomic bool gone_at_op;     /* the lease ends at the file operation `op` */
	_Atomic unsigned op, ops;    /* the log's operations since the hook was set */
	const char *_Atomic missing; /* look-ups of this path fail */
	_Atomic int64_t clock_offset;
} fence;

static bool held(void *arg)
{
	return !fence.gone;
}

static int64_t clock_offset(void *arg)
{
	return fence.clock_offset;
}

static void lost(void *arg, const char *why)
{
	snprintf(fence.why, sizeof(fence.why), "%s", why);
	fence.lost++;
}

static int watch_ops(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const char *missing;

	if (fence.gone_at_op && op == fence.op && strstr(path, "/log/"))
		fence.gone = true;
	missing = fence.missing;
	if (missing && op == FILE_OP_LOOK_UP && strstr(path, missing))
		return -ENOENT;
	return 0;
}

static struct tfs_table *begin(void)
{
	struct tfs_table *t;

	memset(&fence, 0, sizeof(fence));
	set_hook(watch_ops, NULL);
	open_store(); /* makes the store; its only server has no fence yet */
	close_store(true);
	hooks.held = held;
	hooks.lost = lost;
	hooks.clock_offset = clock_offset;
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "row", "f", "one"), 0);
	assert_int_equal(look(t, "row"), 0);
	return t;
}

static void nothing_is_served(struct tfs_table *t, const char *why)
{
	struct tfs_info info;

	assert_int_equal(fence.lost, 1);
	assert_non_null(strstr(fence.why, why));
	fence.gone = false; /* a lease changes nothing any more */
	fence.missing = NULL;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(put(t, "row", "f", "three") < 0);
		assert_true(look(t, "row") < 0);
		assert_true(tfs_stat(t, tfs_str("other"), "f", TFS_S("q"), TFS_AUTO, &info) != -ENOENT);
	}
	assert_int_equal(fence.lost, 1);
	tfs_table_close(t);
	hooks.no_flush = true;
	(void)!tfs_close(store);
}

static void rows_are(const char *value)
{
	struct tfs_table *t;
	char got[16] = "";
	size_t n = 0;

	hooks.held = NULL;
	open_store();
	t = open_table("t");
	assert_int_equal(tfs_read(t, tfs_str("row"), "f", TFS_S("q"), TFS_AUTO, 0, got, sizeof(got) - 1, &n, NULL), 0);
	if (value)
		assert_string_equal(got, value);
	tfs_table_close(t);
	close_store(true);
}

static void test_a_lease_that_ends_is_a_pause(void **state)
{
	struct ts_request read = {.method = TS_EXISTS, .table = 16, .row = tfs_str("row"), .time_left_us = 1000},
			  by_master = {.method = TS_LIST, .term = 1};
	struct tfs_table *t = begin();
	struct ts_answer a = {0};

	fence.gone = true;
	assert_int_equal(look(t, "row"), -EIO);
	assert_int_equal(ts_call(server_service(hooks.server), &read, &a), -TABLET_MOVED);
	ts_answer_fini(&a);
	assert_int_equal(ts_call(server_service(hooks.server), &by_master, &a), -EAGAIN);
	ts_answer_fini(&a);
	for (uint64_t second = 1; second < 200; second++)
		server_watch(hooks.server, second * 1000000);
	assert_int_equal(fence.lost, 0);
	fence.gone = false;
	assert_int_equal(look(t, "row"), 0);
	assert_int_equal(put(t, "row", "f", "two"), 0);
	server_lose(hooks.server, "the session is over");
	nothing_is_served(t, "session");
	rows_are("two");
}

static void *put_two(void *arg)
{
	return (void *)(intptr_t)put(arg, "row", "f", "two");
}

/* The lease ends in the sync of a commit, which then waits: for the next lease, or for the end of the session. */
static void test_a_commit_waits_for_the_next_lease(void **state)
{
	for (unsigned ends = 0; ends < 2; ends++) {
		struct tfs_table *t = begin();
		pthread_t writer;
		void *result;

		fence.op = FILE_OP_SYNC;
		fence.gone_at_op = true;
		assert_int_equal(pthread_create(&writer, NULL, put_two, t), 0);
		while (!fence.gone)
			sched_yield();
		fence.gone_at_op = false;
		if (ends)
			server_lose(hooks.server, "the session is over");
		else
			fence.gone = false;
		assert_int_equal(pthread_join(writer, &result), 0);
		assert_int_equal((intptr_t)result, ends ? -ETIMEDOUT : 0);
		if (ends) {
			nothing_is_served(t, "session");
			rows_are("two"); /* its outcome was unknown */
		} else {
			assert_int_equal(fence.lost, 0);
			tfs_table_close(t);
			close_store(true);
			rows_are("two");
		}
		teardown(state);
		setup(state);
	}
}

static void test_a_renamed_log_ends_the_write(void **state)
{
	struct tfs_table *t = begin();

	assert_int_equal(rename(in_dir("d/log/2"), in_dir("d/log/2.dead")), 0);
	assert_int_equal(look(t, "row"), 0); /* the lease allows reads */
	assert_int_equal(put(t, "row", "f", "two"), -ETIMEDOUT);
	assert_int_equal(rename(in_dir("d/log/2.dead"), in_dir("d/log/2")), 0);
	nothing_is_served(t, "log away");
	rows_are(NULL);
}

static void test_another_directory_of_the_name_is_not_the_log(void **state)
{
	struct tfs_table *t = begin();

	assert_int_equal(rename(in_dir("d/log/2"), in_dir("d/log/2.dead")), 0);
	assert_int_equal(mkdir(in_dir("d/log/2"), 0700), 0);
	assert_int_equal(put(t, "row", "f", "two"), -ETIMEDOUT);
	assert_int_equal(rmdir(in_dir("d/log/2")), 0);
	assert_int_equal(rename(in_dir("d/log/2.dead"), in_dir("d/log/2")), 0);
	nothing_is_served(t, "log away");
	rows_are(NULL);
}

static void test_a_missing_marker_ends_the_server(void **state)
{
	struct tfs_table *t = begin();

	server_watch(hooks.server, 1000);
	fence.missing = "/FORMAT";
	server_watch(hooks.server, 2000);
	nothing_is_served(t, "marker is missing");
	rows_are("one");
}

/* Makes the store a cluster's. */
static void make_cluster(void)
{
	struct lock_service *locks;
	char *why = NULL;
	uint64_t id;

	open_store();
	close_store(true);
	assert_int_equal(lock_local_open(in_dir("d/lock"), &locks), 0);
	assert_int_equal(marker_make(locks, in_dir("d"), &id, &why), 0);
	lock_service_free(locks);
}

static void test_the_marker_of_a_cluster(void **state)
{
	struct lock_service *others;
	char *why = NULL, path[600];
	struct tfs_table *t;
	uint64_t id;

	make_cluster();
	t = begin();
	server_watch(hooks.server, 1000);
	assert_int_equal(fence.lost, 0);
	assert_int_equal(rename(in_dir("d/cluster"), in_dir("cluster")), 0);
	server_watch(hooks.server, 2000);
	nothing_is_served(t, "marker is missing");
	assert_int_equal(tfs_open(in_dir("d"), &options, &store, &why), -ENODEV);
	assert_non_null(strstr(why, "not mounted"));
	free(why);

	assert_int_equal(mkdir(in_dir("others"), 0700), 0);
	snprintf(path, sizeof(path), "%s", in_dir("others"));
	assert_int_equal(lock_local_open(path, &others), 0);
	assert_int_equal(marker_make(others, in_dir("d"), &id, &why), 0);
	lock_service_free(others);
	assert_int_equal(tfs_open(in_dir("d"), &options, &store, &why), -EXDEV);
	assert_non_null(strstr(why, "belongs to the cluster"));
	free(why);
	assert_int_equal(rename(in_dir("cluster"), in_dir("d/cluster")), 0);
	rows_are("one");
}

static void test_another_clusters_marker_ends_the_server(void **state)
{
	struct lock_service *others;
	char *why = NULL;
	struct tfs_table *t;
	uint64_t id;

	make_cluster();
	t = begin();
	assert_int_equal(rename(in_dir("d/cluster"), in_dir("cluster")), 0);
	assert_int_equal(mkdir(in_dir("others"), 0700), 0);
	assert_int_equal(lock_local_open(in_dir("others"), &others), 0);
	assert_int_equal(marker_make(others, in_dir("d"), &id, &why), 0);
	lock_service_free(others);
	server_watch(hooks.server, 1000);
	nothing_is_served(t, "another cluster");
	assert_int_equal(rename(in_dir("cluster"), in_dir("d/cluster")), 0);
	rows_are("one");
}

static int fail_syncs(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return op == FILE_OP_SYNC && strstr(path, "/log/") ? *(int *)arg : 0;
}

static void test_an_unwritable_log_ends_the_server(void **state)
{
	const uint64_t second = 1000000;
	struct tfs_table *t = begin();
	int err = -EIO;

	server_watch(hooks.server, 1 * second);
	set_hook(fail_syncs, &err);
	assert_true(put(t, "row", "f", "two") < 0);
	server_watch(hooks.server, 20 * second);
	assert_int_equal(fence.lost, 0);
	server_watch(hooks.server, 21 * second);
	set_hook(NULL, NULL);
	nothing_is_served(t, "20 seconds");
	rows_are(NULL);
}

static void test_a_full_disk_does_not_end_the_server(void **state)
{
	const uint64_t second = 1000000;
	struct tfs_table *t = begin();
	int err = -ENOSPC;

	server_watch(hooks.server, 1 * second);
	set_hook(fail_syncs, &err);
	assert_true(put(t, "row", "f", "two") < 0);
	server_watch(hooks.server, 2 * second);
	server_watch(hooks.server, 200 * second);
	set_hook(NULL, NULL);
	server_watch(hooks.server, 201 * second);
	assert_int_equal(fence.lost, 0);
	assert_int_equal(look(t, "row"), 0);
	tfs_table_close(t);
	close_store(false);
	rows_are(NULL);
}

/* A server whose clock is wrong sends clients elsewhere, says so, and serves again when the clock is right. */
static void test_a_wrong_clock_serves_nothing(void **state)
{
	static const int64_t offsets[] = {-3000000, 2000001};
	struct tfs_table *t = begin();
	struct ts_request sync = {.method = TS_SYNC}, read = {.method = TS_EXISTS, .table = 16, .row = tfs_str("row")},
			  by_master = {.method = TS_TABLET_INFO, .table = 16, .row = tfs_str("row"), .term = 1};
	struct ts_answer a = {0};
	char *text = NULL;

	for (unsigned i = 0; i < 2; i++) {
		fence.clock_offset = offsets[i];
		assert_int_equal(ts_call(server_service(hooks.server), &read, &a), -TABLET_MOVED);
		ts_answer_fini(&a);
		assert_int_equal(put(t, "row", "f", "two"), -EIO);
		assert_int_equal(ts_call(server_service(hooks.server), &sync, &a), 0);
		ts_answer_fini(&a);
		assert_int_equal(ts_call(server_service(hooks.server), &by_master, &a), 0);
		ts_answer_fini(&a);
		assert_int_equal(tfs_status(store, &text), 0);
		assert_non_null(strstr(text, i ? "2 s behind the cluster's" : "3 s ahead of the cluster's"));
		free(text);
	}
	assert_int_equal(fence.lost, 0);
	fence.clock_offset = 2000000;
	assert_int_equal(look(t, "row"), 0);
	assert_int_equal(put(t, "row", "f", "two"), 0);
	tfs_table_close(t);
	close_store(true);
	hooks.clock_offset = NULL;
	rows_are("two");
}

/* ---- the threads ---- */

#define PERIOD_US 1000000u /* the period of each check */

static _Thread_local uint64_t read_us; /* the last time that this thread has read */
static _Atomic uint64_t frozen_us;     /* the time that the threads of the checks read; 0 for the real time */
static _Atomic bool freeze, frozen;

uint64_t __real_monotonic_us(void);
uint64_t __wrap_monotonic_us(void);

uint64_t __wrap_monotonic_us(void)
{
	const uint64_t us = frozen_us;
	char name[16] = "";

	if (us)
		pthread_getname_np(pthread_self(), name, sizeof(name));
	read_us = us && strncmp(name, "fence", 5) == 0 ? us : __real_monotonic_us();
	return read_us;
}

/* While one look-up of the marker is under way, the other checks read a time before its begin. */
static int freeze_before(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op == FILE_OP_LOOK_UP && strstr(path, "/FORMAT") && atomic_exchange(&freeze, false)) {
		frozen_us = read_us - PERIOD_US / 2;
		(void)usleep(2 * PERIOD_US);
		frozen_us = 0;
		frozen = true;
	}
	return 0;
}

static int only_this_server(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	return fn(fn_arg, hooks.server->o.incarnation, server_service(hooks.server));
}

static void test_a_look_up_that_has_just_begun_is_no_hang(void **state)
{
	struct tfs_table *t;

	memset(&fence, 0, sizeof(fence));
	open_store();
	close_store(true);
	options.no_background = false;
	hooks.held = held;
	hooks.lost = lost;
	set_hook(freeze_before, NULL);
	open_store();
	hooks.server->o.servers.each = only_this_server;
	t = make_table("t");
	freeze = true;
	while (!frozen)
		(void)sched_yield();
	assert_int_equal(fence.lost, 0);
	assert_int_equal(put(t, "row", "f", "one"), 0);
	tfs_table_close(t);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_lease_that_ends_is_a_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_commit_waits_for_the_next_lease, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_renamed_log_ends_the_write, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_directory_of_the_name_is_not_the_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_missing_marker_ends_the_server, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_marker_of_a_cluster, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_clusters_marker_ends_the_server, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_unwritable_log_ends_the_server, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_wrong_clock_serves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_full_disk_does_not_end_the_server, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_look_up_that_has_just_begun_is_no_hang, setup, teardown),
	};

	file_set_hook(dispatch, NULL);
	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
