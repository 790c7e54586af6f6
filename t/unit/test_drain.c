/* SPDX-License-Identifier: Apache-2.0 */
/* A new master finds the servers at work, and servers that drain lose their tablets: three servers with a table of nine tablets. */
#include "t/unit/assign_lib.h"

/* A new master finds the servers at work, and changes nothing. */
static void new_master(void **state)
{
	struct ts_assigned before[9], after;
	struct master *m;
	char *why = NULL;

	spread();
	for (unsigned i = 0; i < 9; i++)
		(void)owner(tfs_table_id(table), row_name(10 * i), &before[i]);
	m = master_make();
	assert_int_equal(master_start(m, &why), 0);
	assert_null(why);
	for (unsigned i = 0; i < 9; i++) {
		(void)owner(tfs_table_id(table), row_name(10 * i), &after);
		assert_int_equal(after.server, before[i].server);
		assert_int_equal(after.assignment, before[i].assignment);
	}
	read_all();
	master_free(m);
}

/* A draining server loses all its tablets, the root tablet and METADATA too, and gets none; later it gets some again. */
static void drains(void **state)
{
	struct tfs_table *another;
	unsigned moved;

	spread();
	assert_int_equal(master_balance(c.master, &moved), 0);
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[1].incarnation), 0);
	assert_int_equal(master_drain(c.master, c.servers[1].incarnation, true), 0);
	(void)balance();
	assert_int_equal(listed(1), 0);
	read_all();
	for (unsigned i = 0; i < 3; i++) {
		char name[8];

		snprintf(name, sizeof(name), "new%u", i);
		assert_int_equal(store_table_make(c.store, name, "f", &another), 0);
		tfs_table_close(another);
	}
	assert_int_equal(listed(1), 0);
	assert_int_equal(listed(0) + listed(2), 9 + 2 + 3);
	assert_int_equal(master_drain(c.master, c.servers[1].incarnation, false), 0);
	(void)balance();
	read_all();
	assert_int_equal(listed(0) + listed(1) + listed(2), 9 + 2 + 3);
}

/* Requests empty servers soon after a server was lost; the last server that takes tablets keeps its own. */
static void empties(void **state)
{
	struct ms_request q = {.method = MS_DRAIN};
	struct ms_answer a = {0};
	int err;

	spread();
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[1].incarnation), 0);
	for (unsigned i = 0; i < 2; i++) {
		q.incarnation = c.servers[i].incarnation;
		do {
			err = ms_call(master_service(c.master), &q, &a);
			ms_answer_fini(&a);
		} while (err == -EAGAIN);
		assert_int_equal(err, 0);
		assert_int_equal(listed(i), 0);
		read_all();
	}
	assert_int_equal(listed(2), 9 + 2);
	q.incarnation = c.servers[2].incarnation;
	assert_int_equal(ms_call(master_service(c.master), &q, &a), -EBUSY);
	q.incarnation += 1000;
	assert_int_equal(ms_call(master_service(c.master), &q, &a), -ENOENT);
	assert_int_equal(listed(2), 9 + 2);
	read_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		C(new_master),
		C(drains),
		C(empties),
	};

	return RUN(tests);
}
