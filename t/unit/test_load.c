/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LOAD beside the rows of METADATA that it finds: a hint that is too low, the rows of a later split or merge, a damaged row, a
 * tablet of METADATA that is not served.
 */
#include "t/unit/assign_lib.h"

#include "engine/base/clock.h"
#include "engine/meta/meta_format.h"

/* The table's tablets are on server 0, METADATA's too; then the user's tablets with rows "row40" to "row59" are on server 1. */
static void place(void)
{
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[0].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, META_ROOT_END, c.servers[0].incarnation), 0);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(10 * i)),
					 c.servers[i == 4 || i == 5].incarnation),
			0);
}

/* Sets the column of the METADATA row of the tablet that ends there. */
static void set_column(uint32_t id, bool last, struct tfs_bytes end, const char *column, struct tfs_bytes value)
{
	const struct op op = {.kind = OP_WRITE,
		.family = META_TABLET,
		.w.qualifier = tfs_str(column),
		.w.place = {.when = TFS_NEWEST, .us = TFS_NO_TIME},
		.w.truncate_to = UINT64_MAX,
		.value = value};
	struct buf key = {0};

	assert_int_equal(meta_row_key(&key, id, last, end), 0);
	assert_int_equal(metadata_mutate(route_service(c.router), buf_bytes(&key), &op, 1), 0);
	buf_fini(&key);
}

static void set_hint(uint32_t id, bool last, struct tfs_bytes end, struct tfs_bytes begin)
{
	struct buf v = {0};

	assert_int_equal(meta_bytes_encode(begin, &v), 0);
	set_column(id, last, end, "begin", buf_bytes(&v));
	buf_fini(&v);
}

static void split_metadata(const char *row, struct buf *key)
{
	struct ts_request q = {.method = TS_SPLIT, .table = META_TABLE};
	struct ts_answer a = {0};

	assert_int_equal(meta_row_key(key, tfs_table_id(table), false, tfs_str(row)), 0);
	q.row = buf_bytes(key);
	assert_int_equal(call_tablet_service(route_service(c.router), &q, &a), 0);
	ts_answer_fini(&a);
}

/* A split sets the upper part's hint by an edit of its own.  Without it the tablet is loaded, and its rows below are another's. */
static void hint_too_low(void **state)
{
	place();
	set_hint(tfs_table_id(table), false, tfs_str("row60"), tfs_str("row30"));
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
}

/* So it is if the row below is damaged, whose key still shows the border. */
static void hint_above_a_damaged_row(void **state)
{
	place();
	set_hint(tfs_table_id(table), false, tfs_str("row60"), tfs_str("row30"));
	set_column(tfs_table_id(table), false, tfs_str("row50"), "server", tfs_str("nonsense"));
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(look(table, row_name(i)) == 0, i / 10 != 4);
}

/* The same for tablets of METADATA. */
static void hint_of_metadata(void **state)
{
	struct buf key = {0};

	place();
	split_metadata("row40", &key);
	assert_int_equal(master_move(c.master, META_TABLE, buf_bytes(&key), c.servers[1].incarnation), 0);
	set_hint(META_TABLE, true, (struct tfs_bytes){NULL, 0}, META_ROOT_END);
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
	buf_fini(&key);
}

/* ---- late requests ---- */

static bool loses_mutations, loses_answers;
static const char *_Atomic unreadable; /* rows of METADATA with this text cannot be read */

static int metadata_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	const char *text = unreadable;
	const struct tfs_bytes row = ts_request_row(q);
	int err;

	(void)service;
	if (loses_mutations && q->method == TS_MUTATE)
		return a->err = -ETIMEDOUT;
	if (text && memmem(row.p, row.n, text, strlen(text)))
		return a->err = -EIO;
	err = ts_call(route_service(c.router), q, a);
	return a->err = loses_answers && q->method == TS_MUTATE ? -ETIMEDOUT : err;
}

static const struct tablet_service_ops metadata_ops = {.call = metadata_call};
static struct tablet_service metadata = {.ops = &metadata_ops};

/* The server's release of the tablet does not arrive: it serves the tablet no more, and its row names it. */
static void unload_in_doubt(unsigned server, const struct ts_assigned *t)
{
	server_set_metadata(c.servers[server].server, &metadata);
	loses_mutations = true;
	assert_int_equal(control(server, TS_UNLOAD, t), -ETIMEDOUT);
	loses_mutations = false;
}

/* A LOAD from before a split would serve the lower part, too, which another server has. */
static void late_load_after_a_split(void **state)
{
	struct ts_assigned before, upper;

	place();
	assert_int_equal(owner(tfs_table_id(table), "row45", &before), 1);
	assert_int_equal(tfs_split(table, tfs_str("row45")), 0);
	assert_int_equal(owner(tfs_table_id(table), "row45", &upper), 1);
	assert_int_equal(tfs_flush(table), 0);
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str("row40"), c.servers[2].incarnation), 0);
	set_hint(tfs_table_id(table), false, tfs_str("row50"), tfs_str("row40")); /* the split's edit of it failed */
	unload_in_doubt(1, &upper);
	assert_int_equal(control(1, TS_LOAD, &before), -TABLET_TAKEN);
	assert_int_equal(control(1, TS_LOAD, &upper), 0);
	read_all();
}

/* One from before a merge would serve the upper part only. */
static void late_load_after_a_merge(void **state)
{
	struct ts_assigned before, both;

	place();
	assert_int_equal(owner(tfs_table_id(table), "row50", &before), 1);
	assert_int_equal(tfs_merge(table, tfs_str("row40")), 0);
	assert_int_equal(owner(tfs_table_id(table), "row50", &both), 1);
	assert_int_equal(both.assignment, before.assignment);
	assert_int_equal(tfs_flush(table), 0);
	unload_in_doubt(1, &both);
	assert_int_equal(control(1, TS_LOAD, &before), -TABLET_TAKEN);
	assert_int_equal(control(1, TS_LOAD, &both), 0);
	read_all();
}

/* No tablet has an assignment number that its rows had at the same server before, also after a merge with a tablet that was moved less. */
static void numbers_are_not_used_again(void **state)
{
	struct ts_assigned before, now;
	unsigned at;

	place();
	for (unsigned i = 0; i < 6; i++) /* away, and back */
		assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str("row40"), c.servers[i % 2].incarnation), 0);
	assert_int_equal(owner(tfs_table_id(table), "row40", &before), 1);
	assert_int_equal(tfs_merge(table, tfs_str("row40")), 0);
	for (unsigned i = 0; i < 10; i++) {
		at = owner(tfs_table_id(table), "row40", &now);
		assert_false(i && at == 1 && now.assignment == before.assignment);
		assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str("row40"), c.servers[i % 2].incarnation), 0);
	}
}

/* ---- METADATA in part ---- */

/* The server does not know if its two splits took place.  One of them cannot be resolved for long; the other one is. */
static void unknown_beside_unreadable(void **state)
{
	struct ts_request q = {.method = TS_SPLIT, .table = tfs_table_id(table)};
	const uint64_t since = monotonic_us();

	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(
			master_move(c.master, tfs_table_id(table), tfs_str(row_name(10 * i)), c.servers[0].incarnation), 0);
	server_set_metadata(c.servers[0].server, &metadata);
	loses_answers = true;
	for (unsigned i = 15; i < 90; i += 40) {
		struct ts_answer a = {0};

		q.row = tfs_str(row_name(i));
		assert_int_equal(ts_call(server_service(c.servers[0].server), &q, &a), -ETIMEDOUT);
		assert_int_equal(row_exists(route_service(c.router), q.table, q.row), 1);
		ts_answer_fini(&a);
	}
	unreadable = "row1";
	loses_answers = false;
	while (row_exists(route_service(c.router), q.table, tfs_str("row55")))
		assert_true(monotonic_us() < since + 60000000 && sched_yield() == 0);
	assert_int_equal(row_exists(route_service(c.router), q.table, tfs_str("row15")), 1);
	unreadable = NULL;
	while (row_exists(route_service(c.router), q.table, tfs_str("row15")))
		assert_true(monotonic_us() < since + 60000000 && sched_yield() == 0);
	read_all();
}

static int count_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	(void)row_key, (void)m;
	++*(unsigned *)arg;
	return 0;
}

/* A dead server had tablets whose rows are below and above a tablet of METADATA that is not served.  They are served. */
static void metadata_in_part(void **state)
{
	const uint64_t dead = c.servers[2].incarnation;
	struct buf at[2] = {{0}};
	unsigned rows = 0;
	char file[40];

	split_metadata("row30", &at[0]);
	split_metadata("row60", &at[1]);
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[0].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, META_ROOT_END, c.servers[0].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, buf_bytes(&at[1]), c.servers[0].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, buf_bytes(&at[0]), dead), 0);
	for (unsigned i = 0; i < 9; i++) /* the dead server's tablet of METADATA needs its log from now on */
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(10 * i)),
						 c.servers[!k || i == 1 || i == 7].incarnation),
				0);
	snprintf(file, sizeof(file), "seals/%llu", (unsigned long long)dead);
	assert_int_equal(lock_put(c.locks, file, tfs_str("nonsense"), LOCK_ABSENT, NULL), 0);
	cluster_kill(&c, 2);
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(look(table, "row35"), -EIO);
	assert_int_equal(look(table, "row15"), 0);
	assert_int_equal(look(table, "row75"), 0);
	/* A scan returns all rows before the tablet that is not served, for example to clients that ask for a location. */
	assert_true(metadata_scan_table(route_service(c.router), tfs_table_id(table), count_row, &rows) < 0);
	assert_int_equal(rows, 2);
	buf_fini(&at[0]);
	buf_fini(&at[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		C(hint_too_low),
		C(hint_above_a_damaged_row),
		C(hint_of_metadata),
		C(late_load_after_a_split),
		C(late_load_after_a_merge),
		C(numbers_are_not_used_again),
		C(unknown_beside_unreadable),
		C(metadata_in_part),
	};

	return RUN(tests);
}
