/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated lock service passes the tests that every lock service must pass. */
#include "engine/lock/term.h"
#include "t/lib/lock_conformance.h"
#include "t/sim/lock_sim.h"

#include <errno.h>
#include <stdlib.h>

static struct lock_sim *service;

static void begin(void)
{
	service = lock_sim_new(proc_world(), false);
}

static struct lock_service *session(void)
{
	return lock_sim_connect(service, proc_world(), 4000000);
}

static void expire(struct lock_service *s)
{
	lock_sim_cut(s, 10000000);
	while (!lock_sim_expired(s))
		sim_sleep(100000);
	lock_sim_cut(s, 0);
}

static void deliver(void)
{
	sim_sleep(1000000);
}

/* An answer that is lost leaves the session the master, without its knowledge.  The next call finds out. */
static void elected_without_answer(void **state)
{
	struct lock_service *s;
	const struct lock_op put = {.name = "tables/a", .contents = tfs_str("a"), .expect = LOCK_ABSENT};
	struct lock_term t;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		int err;

		begin();
		lock_sim_set_faults(service, &(struct lock_sim_faults){.lose = 2, .delay_us = 1000});
		s = session();
		while ((err = lock_term_begin(s, tfs_str("me"), &t)))
			assert_int_equal(err, -UNREACHABLE);
		lock_sim_set_faults(service, &(struct lock_sim_faults){.delay_us = 1000});
		assert_int_equal(lock_term_multi(&t, &put, 1), 0);
	}
}

static const struct lock_kind kind = {.begin = begin, .session = session, .expire = expire, .deliver = deliver};
static const struct lock_kind *const lock_conformance_kind = &kind;

static void run(void *arg)
{
	const struct CMUnitTest tests[] = {LOCK_CONFORMANCE LOCK_CONFORMANCE_SESSIONS cmocka_unit_test(elected_without_answer)};

	(void)arg;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	exit(cmocka_run_group_tests(tests, NULL, NULL));
}

int main(void)
{
	sim_run(1, run, NULL);
}
