/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log's fence: after it is lost no record is acknowledged, no file is
 * made, and a later success of the fence changes nothing.
 */
#include "t/unit/log_lib.h"

static struct {
	_Atomic int result;     /* the result of the fence */
	_Atomic unsigned calls; /* the calls of the fence */
	_Atomic unsigned from;  /* the result is returned from this call on */
	_Atomic unsigned fail;  /* this file operation fails, or none if it is FILE_OPS */
} fence;

static int look(void *arg)
{
	return ++fence.calls >= fence.from ? fence.result : 0;
}

static int fail_ops(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return (unsigned)op == fence.fail ? -EIO : 0;
}

static void start_fenced(struct env *e, unsigned from, int result)
{
	struct log_options o = {
		.dir = e->dir,
		.incarnation = 7,
		.segment_bytes = 4096,
		.sync_interval_us = 3600000000u,
		.retry_us = 1000,
		.mark_us = 3600000000u,
		.pool = e->pool,
		.fence = look,
	};

	fence.result = result;
	fence.calls = 0;
	fence.from = from;
	fence.fail = FILE_OPS;
	file_set_hook(fail_ops, NULL);
	assert_int_equal(log_new(&o, &e->log), 0);
}

static void is_lost(struct env *e)
{
	struct log_record r = {.table = 1, .row_from = tfs_str("row"), .row_to = tfs_str("row"), .batch = tfs_str("x")};
	struct log_ticket t;
	struct log_stats st;
	unsigned before = files(e);

	fence.result = 0;
	assert_int_equal(log_submit(e->log, &r, true, &t), -FENCE_LOST);
	assert_int_equal(log_sync(e->log), -FENCE_LOST);
	assert_int_equal(log_try_again(e->log), -FENCE_LOST);
	log_get_stats(e->log, &st);
	assert_int_equal(st.refusing, -FENCE_LOST);
	assert_int_equal(log_free(e->log), -FENCE_LOST);
	assert_int_equal(files(e), before);
}

static void test_each_record_is_answered_after_a_look(void **state)
{
	struct env *e = *state;
	struct log_stats st;

	start_fenced(e, UINT32_MAX, 0);
	for (unsigned i = 1; i <= 10; i++) {
		must_put(e, i, 100, false); /* synced all the same */
		assert_int_equal(fence.calls, i);
		log_get_stats(e->log, &st);
		assert_int_equal(st.durable_lsn, i);
	}
	assert_int_equal(log_free(e->log), 0);
}

static void test_a_lost_log_answers_nothing(void **state)
{
	struct env *e = *state;
	struct log_ticket t;

	start_fenced(e, 4, -FENCE_LOST);
	for (unsigned i = 1; i <= 3; i++)
		must_put(e, i, 100, true);
	assert_int_equal(put(e, 4, 100, true, &t), -FENCE_LOST);
	assert_true(t.in_doubt);
	assert_int_equal(log_durable_lsn(e->log), 3);
	is_lost(e);
}

static void test_many_writers_are_all_told(void **state)
{
	struct env *e = *state;
	struct worker *w = calloc(8, sizeof *w);
	unsigned bad = 0;
	struct seen s;

	start_fenced(e, 30, -FENCE_LOST);
	run_workers(w, 8, e, 300);
	assert_int_equal(replay(e, &s), 0);
	for (unsigned i = 0; i < 8; i++)
		for (unsigned k = 0; k < 300; k++) {
			if (w[i].did[k].err)
				assert_int_equal(w[i].did[k].err, -FENCE_LOST);
			else
				assert_true(has(&s, w[i].did[k].tag));
			bad += w[i].did[k].err != 0;
		}
	assert_true(bad > 0);
	is_lost(e);
	free(w);
}

/* The second writer makes its file by the path, so it meets the rename even if its fence is not asked before. */
static void test_the_second_writer_loses_the_log(void **state)
{
	struct env *e = *state;
	char away[80];
	struct log_ticket t;

	start_fenced(e, 1, -FENCE_LOST);
	fence.from = UINT32_MAX;
	must_put(e, 1, 100, true);
	snprintf(away, sizeof away, "%s.dead", e->dir);
	assert_int_equal(file_rename(e->dir, away), 0);
	fence.from = 1;
	fence.fail = FILE_OP_SYNC;
	assert_int_equal(put(e, 2, 100, true, &t), -FENCE_LOST);
	assert_true(t.in_doubt);
	assert_int_equal(file_rename(away, e->dir), 0);
	is_lost(e);
}

/* The second writer has written everything when its look-up fails: its file stays, because a seal may list it. */
static void test_the_second_writers_file_stays(void **state)
{
	struct env *e = *state;
	struct log_ticket t;

	start_fenced(e, 2, -FENCE_LOST);
	must_put(e, 1, 100, true);
	file_set_hook(NULL, NULL);
	fence.result = -EIO;
	fence.from = 2; /* the first writer's look fails, and then the second one's */
	assert_int_equal(put(e, 2, 100, true, &t), -EIO);
	assert_true(t.in_doubt);
	assert_int_equal(files(e), 2);
	fence.result = 0;
	assert_int_equal(log_try_again(e->log), 0);
	must_put(e, 3, 100, true);
	assert_int_equal(log_free(e->log), 0);
}

static void test_an_error_of_the_look_is_one_of_the_sync(void **state)
{
	struct env *e = *state;
	struct log_stats st;
	struct seen s;

	start_fenced(e, 2, -EIO);
	must_put(e, 1, 100, true);
	fence.from = UINT32_MAX;
	must_put(e, 2, 100, true);
	fence.from = fence.calls + 1;
	fence.result = -ENOTCONN;
	file_set_hook(NULL, NULL);
	{
		struct log_ticket t;

		assert_int_equal(put(e, 3, 100, true, &t), -EIO);
		fence.from = UINT32_MAX;
		assert_int_equal(log_try_again(e->log), 0);
	}
	must_put(e, 4, 100, true);
	log_get_stats(e->log, &st);
	assert_int_equal(st.refusing, 0);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	assert_true(has(&s, 1) && has(&s, 2) && !has(&s, 3) && has(&s, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_record_is_answered_after_a_look, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_lost_log_answers_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_writers_are_all_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_second_writer_loses_the_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_second_writers_file_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_error_of_the_look_is_one_of_the_sync, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
