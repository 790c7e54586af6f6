/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease of a session ends before the service ends the session, also if the process
 * was paused, or heartbeats are lost, late or refused.  The clock is virtual.  The offset
 * of the server's clock is measured.
 */
#include "engine/lock/session.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TIMEOUT_US 8000000
#define START_US INT64_C(1700000000000000)

/* A service with one file, whose messages take virtual time. */
static struct world {
	struct lock_service service; /* first */
	int64_t boot_us;
	int64_t clock_off_us;      /* the server's clock minus the service's */
	int64_t there_us, back_us; /* the time that a request and its answer take */
	bool drop_request, drop_answer, exists, ended;
	int64_t heard_us; /* when the service received the last heartbeat */
	uint64_t version;
	unsigned lost;
	struct {
		int64_t off_us; /* its clock minus the service's */
		int64_t age_us; /* the age of its heartbeat */
	} others[3];
	unsigned other_count;
} w;

static int64_t boottime(void *arg)
{
	assert_ptr_equal(arg, &w);
	return w.boot_us;
}

static int64_t server_time(void *arg)
{
	(void)arg;
	return START_US + w.boot_us + w.clock_off_us;
}

/* The service ends the session when it has not heard from it for the timeout. */
static void service_expire(void)
{
	if (w.boot_us - w.heard_us >= TIMEOUT_US) {
		w.ended = true;
		w.exists = false;
	}
}

static int world_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	assert_ptr_equal(s, &w);
	assert_int_equal(count, 1);
	w.boot_us += w.there_us;
	if (w.drop_request)
		return -UNREACHABLE;
	service_expire();
	if (w.ended)
		return -SESSION_ENDED;
	if (ops->what == LOCK_REMOVE) {
		w.exists = false;
		return 0;
	}
	assert_int_equal(ops->ephemeral, ops->expect == LOCK_ABSENT);
	if (ops->expect == LOCK_EXISTS && !w.exists)
		return -ENOENT;
	if (ops->expect == LOCK_ABSENT && w.exists)
		return -EEXIST;
	w.exists = true;
	w.heard_us = w.boot_us;
	if (stats)
		*stats = (struct lock_stat){++w.version, START_US + w.boot_us};
	w.boot_us += w.back_us;
	return w.drop_answer ? -UNREACHABLE : 0;
}

static int world_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	char name[8];
	int err = 0;

	for (unsigned i = 0; i <= w.other_count && !err; i++) {
		snprintf(name, sizeof(name), "%u", i + 1);
		err = fn(arg, name);
	}
	return err;
}

static int world_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	const unsigned n = (unsigned)atoi(name + strlen("servers/"));
	const int64_t stamp_us = START_US + w.boot_us - w.back_us - (n > 1 ? w.others[n - 2].age_us : 0);

	*stat = (struct lock_stat){1, stamp_us};
	return lock_clocks_encode(tfs_str("other"), stamp_us + (n > 1 ? w.others[n - 2].off_us : w.clock_off_us), contents);
}

static const struct lock_service_ops world_ops = {.multi = world_multi, .list = world_list, .get = world_get};

static void on_lost(void *arg)
{
	assert_ptr_equal(arg, &w);
	w.lost++;
}

static struct clock *server_clock;

static struct lock_session *begin(void)
{
	const struct lock_session_options o = {.locks = &w.service,
		.name = "servers/1",
		.contents = tfs_str("address"),
		.timeout_us = TIMEOUT_US,
		.lost = on_lost,
		.boottime = boottime,
		.arg = &w,
		.clock = server_clock};
	struct lock_session *s = NULL;

	assert_int_equal(lock_session_new(&o, &s), 0);
	assert_true(lock_session_held(s));
	return s;
}

static int setup(void **state)
{
	(void)state;
	w = (struct world){.service = {&world_ops}, .boot_us = 1000000};
	clock_free(server_clock); /* an earlier part of the test may have made it */
	server_clock = clock_new(server_time, NULL);
	return server_clock ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	clock_free(server_clock);
	server_clock = NULL;
	return 0;
}

/* Nothing reaches the service any more: the lease ends first, then the session. */
static void test_lease_ends_before_the_session(void **state)
{
	static const int64_t delays[] = {0, 100, 1000000, 2000000};

	for (unsigned i = 0; i < sizeof(delays) / sizeof(*delays); i++) {
		struct lock_session *s;

		setup(state);
		w.there_us = w.back_us = delays[i] / 2;
		s = begin();
		for (int k = 0; k < 5; k++) {
			assert_int_equal(lock_session_beat(s), TIMEOUT_US / 8);
			w.boot_us += 1000;
		}
		w.drop_request = true;
		while (lock_session_held(s)) {
			service_expire();
			assert_false(w.ended);
			(void)lock_session_beat(s);
			w.boot_us += 10000;
		}
		service_expire();
		assert_false(w.ended); /* there is time left to stop */
		assert_true(w.heard_us + TIMEOUT_US - w.boot_us >= TIMEOUT_US / 10 * 3);
		/* the service hears from it again in time, so the next lease begins */
		w.drop_request = false;
		w.there_us = w.back_us = 0;
		(void)lock_session_beat(s);
		assert_true(lock_session_held(s));
		assert_int_equal(w.lost, 0);
		/* not in time, so the session is lost for ever */
		w.boot_us += TIMEOUT_US;
		assert_false(lock_session_held(s));
		assert_int_equal(w.lost, 0);
		(void)lock_session_beat(s);
		assert_int_equal(w.lost, 1);
		w.ended = false;
		w.exists = true;
		(void)lock_session_beat(s);
		assert_false(lock_session_held(s));
		assert_int_equal(w.lost, 1);
		lock_session_free(s);
		teardown(state);
	}
	setup(state);
}

/* The lease counts from the sending: an answer that took long extends it by less. */
static void test_slow_answers(void **state)
{
	struct lock_session *s;
	int64_t sent_us;

	(void)state;
	s = begin();
	w.boot_us += 1000000;
	sent_us = w.boot_us;
	w.back_us = 2000000;
	(void)lock_session_beat(s);
	w.boot_us = sent_us + TIMEOUT_US / 10 * 6 - 1;
	assert_true(lock_session_held(s));
	w.boot_us++;
	assert_false(lock_session_held(s));
	assert_int_equal(w.lost, 0);
	lock_session_free(s);
}

/* Heartbeats that arrive and whose answers are lost keep the session, but not the lease. */
static void test_lost_answers(void **state)
{
	struct lock_session *s = begin();
	uint64_t version = w.version;

	(void)state;
	w.drop_answer = true;
	w.boot_us += 1000000;
	(void)lock_session_beat(s);
	assert_int_equal(w.version, version + 1);
	/* the next heartbeat is accepted, although the session has not seen this version */
	w.drop_answer = false;
	w.boot_us += 1000000;
	(void)lock_session_beat(s);
	w.boot_us += TIMEOUT_US / 10 * 6 - 1;
	assert_true(lock_session_held(s));
	lock_session_free(s);
	assert_false(w.exists); /* a session that is held removes its file */
	assert_int_equal(w.lost, 0);
}

/* A process that was stopped has no lease until its next heartbeat. */
static void test_paused_process(void **state)
{
	struct lock_session *s = begin();

	(void)state;
	(void)lock_session_beat(s);
	w.boot_us += TIMEOUT_US / 10 * 6;
	assert_false(lock_session_held(s));
	(void)lock_session_beat(s);
	assert_true(lock_session_held(s));
	/* paused while a heartbeat is under way; the lease counts from the sending */
	w.back_us = TIMEOUT_US / 10 * 7;
	(void)lock_session_beat(s);
	assert_false(lock_session_held(s));
	w.back_us = 0;
	(void)lock_session_beat(s);
	assert_true(lock_session_held(s));
	/* for longer than the session lasts */
	w.boot_us += TIMEOUT_US;
	assert_false(lock_session_held(s));
	assert_int_equal(w.lost, 0);
	(void)lock_session_beat(s);
	assert_int_equal(w.lost, 1);
	assert_false(lock_session_held(s));
	lock_session_free(s);
}

static void test_refused(void **state)
{
	/* the service has ended the session */
	struct lock_session *s = begin();

	w.ended = true;
	(void)lock_session_beat(s);
	assert_int_equal(w.lost, 1);
	assert_false(lock_session_held(s));
	lock_session_free(s);
	teardown(state);
	/* an operator or master has removed the file, and the heartbeat does not make it again */
	setup(state);
	s = begin();
	w.exists = false;
	(void)lock_session_beat(s);
	assert_false(w.exists);
	assert_int_equal(w.lost, 1);
	assert_false(lock_session_held(s));
	lock_session_free(s);
}

static void test_name_in_use(void **state)
{
	const struct lock_session_options o = {.locks = &w.service,
		.name = "servers/1",
		.timeout_us = TIMEOUT_US,
		.boottime = boottime,
		.arg = &w,
		.clock = server_clock};
	struct lock_session *s = NULL;

	(void)state;
	w.exists = true;
	w.heard_us = w.boot_us;
	assert_int_equal(lock_session_new(&o, &s), -EEXIST);
	assert_null(s);
}

static void test_clock(void **state)
{
	struct lock_session *s;
	static const struct {
		int64_t off_us, there_us, back_us, want_us;
	} cases[] = {
		{0, 0, 0, 0},
		{0, 50000, 900000, 0},
		{2500000, 0, 0, -2500000},
		{-2500000, 0, 0, 2500000},
		{2500000, 100000, 400000, -2400000}, /* what the delay of the request explains is not proven */
		{-2500000, 100000, 400000, 2100000},
		{1000000, 2000, 2000, -998000},
	};

	(void)state;
	w.other_count = 1; /* its clock is the service's */
	s = begin();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		w.clock_off_us = cases[i].off_us;
		w.there_us = cases[i].there_us;
		w.back_us = cases[i].back_us;
		(void)lock_session_beat(s);
		assert_int_equal(lock_session_clock_offset(s), cases[i].want_us);
		assert_true(lock_session_held(s)); /* a wrong clock ends no session */
	}
	lock_session_free(s);
}

#define HOUR INT64_C(3600000000)

/* One clock, or several, of the service and the servers are wrong. */
static void test_one_clock_is_wrong(void **state)
{
	static const struct {
		int64_t off_us;
		unsigned others;
		int64_t others_us[3], age_us[3];
		int64_t want_us;  /* the common clock minus this server's */
		int64_t limit_us; /* the limit of its clock minus the service's, without LOCK_CLOCK_OFF_US */
	} cases[] = {
		{HOUR, 0, {0}, {0}, 0, HOUR},    /* alone */
		{HOUR, 1, {0}, {0}, -HOUR, 0},   /* the server under test is wrong, of two */
		{HOUR, 1, {HOUR}, {0}, 0, HOUR}, /* the service */
		{-HOUR, 1, {-HOUR}, {0}, 0, -HOUR},
		{HOUR, 2, {0, 0}, {0}, -HOUR, 0},
		{HOUR, 2, {HOUR, HOUR + 900000}, {0}, 0, HOUR},
		{HOUR, 2, {0, HOUR}, {0}, 0, HOUR}, /* the service's and a second server's */
		{HOUR, 3, {0, 100, HOUR}, {0}, -HOUR, 0},
		{HOUR, 1, {0}, {5000000}, 0, HOUR}, /* an old heartbeat does not count, so the last result stays */
		{0, 1, {HOUR}, {0}, 0, 0},
		{HOUR, 2, {HOUR, 0}, {0, 5000000}, 0, HOUR},
	};
	struct lock_session *s;

	(void)state;
	s = begin();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		w.clock_off_us = cases[i].off_us;
		w.other_count = cases[i].others;
		for (unsigned k = 0; k < 3; k++) {
			w.others[k].off_us = cases[i].others_us[k];
			w.others[k].age_us = cases[i].age_us[k];
		}
		if (i == 8) { /* the last result is of this moment */
			w.others[0].age_us = 0;
			w.others[0].off_us = HOUR;
			(void)lock_session_beat(s);
			w.others[0].age_us = 5000000;
		}
		(void)lock_session_beat(s);
		assert_int_equal(lock_session_clock_offset(s), cases[i].want_us);
		w.clock_off_us = 10 * HOUR;
		assert_int_equal(clock_limited(server_clock), START_US + w.boot_us + cases[i].limit_us + LOCK_CLOCK_OFF_US);
	}
	lock_session_free(s);
}

/* A process without heartbeats follows the servers' clocks, if its own is off them. */
static void test_follow(void **state)
{
	struct lock_follow f = {0};
	struct clock *clock = clock_new(lock_follow_time, &f);
	int64_t now_us;

	(void)state;
	assert_non_null(clock);
	w.other_count = 1;
	for (unsigned i = 0; i < 3; i++) { /* the servers' clocks are right; an hour ahead; right */
		w.boot_us = clock_system(NULL) - START_US;
		w.clock_off_us = w.others[0].off_us = i == 1 ? HOUR : 0;
		lock_follow_look(&f, &w.service, TIMEOUT_US / 4, clock);
		now_us = clock_now(clock) - clock_system(NULL);
		assert_true(llabs(now_us - w.clock_off_us) < HOUR / 2);
		assert_true(clock_limited(clock) <= START_US + w.boot_us + w.clock_off_us + LOCK_CLOCK_OFF_US);
	}
	/* heartbeats that were seen before show nothing */
	w.others[0].off_us = w.clock_off_us = HOUR;
	lock_follow_look(&f, &w.service, TIMEOUT_US / 4, clock);
	assert_int_equal(f.add_us, 0);
	clock_free(clock);
}

/* A clock that jumps ahead collects nothing that the common clock does not permit, and does not move the mark. */
static void test_jump_of_the_clock(void **state)
{
	struct lock_session *s;
	struct clock_state st;
	int64_t common_us;

	(void)state;
	w.other_count = 1;
	s = begin();
	(void)lock_session_beat(s);
	common_us = START_US + w.boot_us;
	assert_true(clock_collect(server_clock) <= common_us);
	w.clock_off_us = 3600 * INT64_C(1000000);
	assert_true(clock_now(server_clock) > common_us + LOCK_CLOCK_OFF_US);
	assert_true(clock_collect(server_clock) <= common_us + LOCK_CLOCK_OFF_US);
	clock_get_state(server_clock, &st);
	assert_true(st.mark_us <= common_us + LOCK_CLOCK_OFF_US);
	clock_confirm(server_clock);
	clock_get_state(server_clock, &st);
	assert_true(st.mark_us <= common_us + LOCK_CLOCK_OFF_US);
	(void)lock_session_beat(s);
	assert_true(lock_session_clock_offset(s) < -LOCK_CLOCK_OFF_US);
	/* the clock is right again, and the mark follows */
	w.clock_off_us = 0;
	w.boot_us += 1000000;
	(void)lock_session_beat(s);
	assert_int_equal(lock_session_clock_offset(s), 0);
	clock_get_state(server_clock, &st);
	assert_true(st.mark_us >= common_us + 1000000);
	/* the mark of another server */
	clock_raise_mark(server_clock, st.mark_us - 5);
	clock_raise_mark(server_clock, st.mark_us + 7000000);
	common_us = st.mark_us;
	clock_get_state(server_clock, &st);
	assert_int_equal(st.mark_us, common_us + 7000000);
	assert_true(clock_collect(server_clock) <= START_US + w.boot_us);
	lock_session_free(s);
}

/* With the real clock and the thread of lock_session_run. */
static void test_run(void **state)
{
	char dir[] = "/tmp/test_lock_session.XXXXXX", cmd[64];
	struct clock *clock = clock_new(NULL, NULL);
	struct lock_session_options o = {.name = "servers/1", .timeout_us = 4000000, .clock = clock};
	struct lock_service *locks = NULL;
	struct lock_session *s = NULL;
	uint64_t version = 0;

	(void)state;
	assert_true(clock && mkdtemp(dir));
	assert_int_equal(lock_local_open(dir, &locks), 0);
	o.locks = locks;
	assert_int_equal(lock_session_new(&o, &s), 0);
	assert_int_equal(lock_session_run(s), 0);
	while (version < 3) /* one heartbeat at once, the next after the period */
		assert_int_equal(lock_get(locks, "servers/1", NULL, &version), 0);
	assert_int_equal(lock_session_clock_offset(s), 0);
	lock_session_free(s);
	lock_service_free(locks);
	clock_free(clock);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	assert_int_equal(system(cmd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lease_ends_before_the_session, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_paused_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_name_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_clock_is_wrong, setup, teardown),
		cmocka_unit_test_setup_teardown(test_follow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_jump_of_the_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_run, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
