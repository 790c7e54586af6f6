/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No request waits without end.  Held mutations are refused and sent again, and no
 * writer starves.  The block of a master ends with its term.  Long actions are
 * started and polled.
 */
#include "engine/client/client.h"
#include "engine/server/requests/requests.h"
#include "t/engine/lib.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Polls an action that does not end at once. */
static int call(struct tablet_service *to, enum ts_method method, uint64_t term)
{
	struct ts_request q = {.method = method, .table = store_tablets_id(table), .row = tfs_str("m"), .term = term};
	int err;

	do {
		struct ts_answer a = {0};

		err = ts_call(to, &q, &a);
		q.scan = a.scan;
		q.method = TS_POLL;
		ts_answer_fini(&a);
	} while (!err && q.scan);
	return err;
}

/* To the server itself. */
static int ask(enum ts_method method, uint64_t term)
{
	return call(server_service(hooks.server), method, term);
}

static int mutate(void)
{
	struct op op = {.kind = OP_WRITE, .family = store_family_id(table, "f"), .w.place = {.us = 1}, .w.truncate_to = UINT64_MAX};
	const struct row_mutation row = {tfs_str("m"), &op, 1};
	struct ts_request q = {.method = TS_MUTATE, .table = store_tablets_id(table), .rows = &row, .row_count = 1};
	struct ts_answer a = {0};
	int err = ts_call(server_service(hooks.server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* ---- writers ---- */

enum { WRITERS = 12 };
static _Atomic unsigned begun, written;

static void *write_some(void *arg)
{
	char row[16];

	begun++;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(row, sizeof(row), "%u.%u", (unsigned)(uintptr_t)arg, i);
		assert_int_equal(put(row, "q", 1, TFS_S("v"), false), 0);
		written++;
	}
	return NULL;
}

static void *batch_some(void *arg)
{
	struct tfs_batch *b;
	char row[16];

	assert_int_equal(tfs_batch_new(table, NULL, &b), 0);
	begun++;
	for (unsigned i = 0; i < 600; i++) {
		struct tfs_mutation *m;

		snprintf(row, sizeof(row), "batch%u", i % 400);
		m = tfs_mutation_new(table, tfs_str(row));
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(i), TFS_S("v")), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_batch_close(b), 0);
	return NULL;
}

static void blocked_writers(void **state)
{
	pthread_t threads[WRITERS + 1];
	struct tfs_info info;

	open_store();
	begun = written = 0;
	assert_int_equal(ask(TS_BLOCK_WRITES, 0), 0);
	assert_int_equal(ask(TS_BLOCK_WRITES, 0), 0); /* the same block again */
	assert_int_equal(mutate(), -EAGAIN);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, (void *)i), 0);
	assert_int_equal(pthread_create(&threads[WRITERS], NULL, batch_some, NULL), 0);
	while (begun < WRITERS + 1)
		(void)sched_yield();
	for (unsigned i = 0; i < 100; i++) { /* reads are answered during the block */
		assert_int_equal(tfs_stat(table, TFS_S("0.0"), "f", TFS_S("q"), TFS_AUTO, &info), -ENOENT);
		assert_int_equal(mutate(), -EAGAIN);
	}
	assert_int_equal(written, 0);
	assert_int_equal(ask(TS_SPLIT, 0), -EAGAIN);
	assert_int_equal(ask(TS_UNBLOCK_WRITES, 0), 0);
	for (unsigned i = 0; i < WRITERS + 1; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(written, WRITERS * 20);
	for (unsigned i = 0; i < 600; i += 7) {
		char row[16];

		snprintf(row, sizeof(row), "batch%u", i % 400);
		assert_int_equal(tfs_stat(table, tfs_str(row), "f", TFS_S("q"), tfs_at(i), &info), 0);
	}
	assert_int_equal(mutate(), 0);
	close_store();
}

/* The master blocks again as soon as it may.  All writers come to their end. */
static void no_writer_starves(void **state)
{
	pthread_t threads[WRITERS];

	open_store();
	begun = written = 0;
	assert_int_equal(call(table->store->o.tablets, TS_BLOCK_WRITES, 0), 0);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, (void *)i), 0);
	while (written < WRITERS * 20) {
		assert_int_equal(call(table->store->o.tablets, TS_UNBLOCK_WRITES, 0), 0);
		assert_int_equal(call(table->store->o.tablets, TS_BLOCK_WRITES, 0), 0);
	}
	assert_int_equal(call(table->store->o.tablets, TS_UNBLOCK_WRITES, 0), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	close_store();
}

/* ---- terms ---- */

static void block_of_a_dead_master(void **state)
{
	open_store();
	assert_int_equal(ask(TS_BLOCK_WRITES, 3), 0);
	assert_int_equal(mutate(), -EAGAIN);
	assert_int_equal(ask(TS_LIST, 3), 0);
	assert_int_equal(mutate(), -EAGAIN);
	/* The next master ends it by any request, and the replaced master does nothing any more. */
	assert_int_equal(ask(TS_LIST, 4), 0);
	assert_int_equal(mutate(), 0);
	assert_int_equal(ask(TS_BLOCK_WRITES, 3), -SESSION_ENDED);
	assert_int_equal(ask(TS_LIST, 3), -SESSION_ENDED);
	assert_int_equal(mutate(), 0);
	for (unsigned tries = 0; ask(TS_BLOCK_WRITES, 4); tries++) /* after the turn of the mutations that were refused */
		assert_true(tries < 10);
	assert_int_equal(ask(TS_UNBLOCK_WRITES, 3), -SESSION_ENDED);
	assert_int_equal(mutate(), -EAGAIN);
	assert_int_equal(ask(TS_BLOCK_WRITES, 4), 0);
	assert_int_equal(ask(TS_UNBLOCK_WRITES, 4), 0);
	assert_int_equal(mutate(), 0);
	assert_int_equal(ask(TS_UNBLOCK_WRITES, 4), 0); /* again */
	assert_int_equal(mutate(), 0);
	close_store();
}

/* ---- actions ---- */

static _Atomic bool stalled;

/* SSTables are not written while `stalled` is set. */
static int stall_tables(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	while (op == FILE_OP_WRITE && strstr(path, "/sst/") && stalled)
		(void)sched_yield();
	return 0;
}

static int action(enum ts_method method, uint64_t client, uint64_t *number, struct ts_answer *a)
{
	struct ts_request q = {.method = method,
		.table = store_tablets_id(table),
		.row = tfs_str("m"),
		.scan = *number,
		.token = {.client = client}};
	int err;

	*a = (struct ts_answer){0};
	err = ts_call(server_service(hooks.server), &q, a);
	*number = a->scan;
	return err;
}

static void *compact_all(void *arg)
{
	*(int *)arg = tfs_compact(table);
	return NULL;
}

static void long_compaction(void **state)
{
	uint64_t number = 0, first, other;
	struct ts_answer a;
	pthread_t thread;
	int err = -1;

	file_set_hook(stall_tables, NULL);
	open_store();
	assert_int_equal(put("a", "q", 1, TFS_S("v"), false), 0);
	assert_int_equal(put("z", "q", 1, TFS_S("v"), false), 0);
	assert_int_equal(tfs_split(table, TFS_S("n")), 0);
	stalled = true;
	assert_int_equal(action(TS_COMPACT, 5, &number, &a), 0);
	ts_answer_fini(&a);
	first = number;
	assert_true(first && first >> 48 == 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(action(TS_POLL, 5, &number, &a), 0);
		ts_answer_fini(&a);
		assert_true(number == first);
	}
	other = number;
	assert_int_equal(action(TS_POLL, 6, &other, &a), -SCAN_UNKNOWN);
	ts_answer_fini(&a);
	other = number ^ 1;
	assert_int_equal(action(TS_POLL, 5, &other, &a), -SCAN_UNKNOWN);
	ts_answer_fini(&a);
	/* The public call waits. */
	assert_int_equal(pthread_create(&thread, NULL, compact_all, &err), 0);
	assert_int_equal(mutate(), 0);
	assert_int_equal(err, -1);
	stalled = false;
	do {
		assert_int_equal(action(TS_POLL, 5, &number, &a), 0);
		if (!number)
			assert_true(bytes_eq(a.tablet_end, tfs_str("n")));
		ts_answer_fini(&a);
	} while (number);
	number = first;
	assert_int_equal(action(TS_POLL, 5, &number, &a), -SCAN_UNKNOWN); /* its result was answered */
	ts_answer_fini(&a);
	pthread_join(thread, NULL);
	assert_int_equal(err, 0);
	/* A client that does not poll: the result is dropped by another action, the last one by the end. */
	hooks.server->actions->kept_us = 0;
	stalled = true;
	assert_int_equal(mutate(), 0);
	for (unsigned i = 0; i < 3; i++) {
		number = 0;
		assert_int_equal(action(TS_FLUSH, 5, &number, &a), 0);
		ts_answer_fini(&a);
		assert_true(number);
	}
	stalled = false;
	close_store();
	file_set_hook(NULL, NULL);
}

/* The request of an action returns the action's error. */
static void actions_that_fail(void **state)
{
	open_store();
	assert_int_equal(put("a", "q", 1, TFS_S("v"), false), 0);
	assert_int_equal(tfs_split(table, TFS_S("n")), 0);
	assert_int_equal(tfs_split(table, TFS_S("n")), -EEXIST);
	assert_int_equal(tfs_merge(table, TFS_S("z")), -ENOENT);
	assert_int_equal(tfs_merge(table, TFS_S("a")), 0);
	assert_int_equal(tfs_flush(table), 0);
	close_store();
}

int main(void)
{
#define H(f) cmocka_unit_test_setup_teardown(f, setup_options, test_dir_teardown)
	const struct CMUnitTest tests[] = {
		H(blocked_writers),
		H(no_writer_starves),
		H(block_of_a_dead_master),
		H(long_compaction),
		H(actions_that_fail),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
