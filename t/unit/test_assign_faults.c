/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged METADATA, wrong clocks, busy servers, requests that the master refuses: each stops as little as possible. */
#include "t/unit/assign_lib.h"

/* The METADATA row of a tablet is damaged: this tablet is not served any more, all others are. */
static void damaged_row(void **state)
{
	struct op op = {.kind = OP_WRITE,
		.family = META_TABLET,
		.qualifier = slice_str("server"),
		.ts = {.newest = true, .us = TFS_NO_TIME},
		.truncate_to = UINT64_MAX,
		.value = slice_str("nonsense")};
	struct buf key = {0};
	struct ts_assigned t;
	uint64_t passed_us, again_us;

	spread();
	assert_int_equal(owner(tfs_table_id(table), row_name(45), &t), 1);
	assert_int_equal(meta_row_key(&key, t.table, false, t.end), 0);
	assert_int_equal(metadata_mutate(route_service(c.router), buf_slice(&key), &op, 1), 0);
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(look(table, row_name(i)) == 0, i / 10 != 4);
	/* The next passes, which cannot serve it either, come later and later. */
	passed_us = c.master->passed_us;
	again_us = c.master->again_us;
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(c.master->passed_us, passed_us);
	c.master->passed_us -= again_us;
	assert_int_equal(master_tick(c.master), 0);
	assert_int_not_equal(c.master->passed_us, passed_us);
	assert_int_equal(c.master->again_us, 2 * again_us);
	buf_fini(&key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		C(damaged_row),
	};

	return RUN(tests);
}
