/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged METADATA, wrong clocks, busy servers, requests that the master refuses: each stops as little as possible. */
#include "t/unit/assign_lib.h"

/* The METADATA row of a tablet is damaged: this tablet is not served any more, all others are. */
static void damaged_row(void **state)
{
	struct op op = {.kind = OP_WRITE,
		.family = META_TABLET,
		.w.qualifier = tfs_str("server"),
		.w.place = {.when = TFS_NEWEST, .us = TFS_NO_TIME},
		.w.truncate_to = UINT64_MAX,
		.value = tfs_str("nonsense")};
	struct buf key = {0};
	struct ts_assigned t;
	uint64_t passed_us, again_us;

	spread();
	assert_int_equal(owner(tfs_table_id(table), row_name(45), &t), 1);
	assert_int_equal(meta_row_key(&key, t.table, false, t.end), 0);
	assert_int_equal(metadata_mutate(route_service(c.router), buf_bytes(&key), &op, 1), 0);
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(look(table, row_name(i)) == 0, i / 10 != 4);
	/* The next passes, which cannot serve it either, come later and later. */
	passed_us = c.master->passes.passed_us;
	again_us = c.master->passes.again_us;
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(c.master->passes.passed_us, passed_us);
	c.master->passes.passed_us -= again_us;
	assert_int_equal(master_tick(c.master), 0);
	assert_int_not_equal(c.master->passes.passed_us, passed_us);
	assert_int_equal(c.master->passes.again_us, 2 * again_us);
	buf_fini(&key);
}

static void split_metadata(unsigned row, struct buf *key)
{
	struct ts_request q = {.method = TS_SPLIT, .table = META_TABLE};
	struct ts_answer a = {0};

	assert_int_equal(meta_row_key(key, tfs_table_id(table), false, tfs_str(row_name(row))), 0);
	q.row = buf_bytes(key);
	assert_int_equal(call_tablet_service(route_service(c.router), &q, &a), 0);
	ts_answer_fini(&a);
}

/* The tablets 4 and 5 are not served.  Clients do not find 2 and 3, either, which are still served. */
static void pass_is_partial(void)
{
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(look(table, row_name(10 * i + 5)), i >= 2 && i <= 5 ? -EIO : 0);
	assert_int_equal(owner(tfs_table_id(table), "row25", NULL), 2);
	assert_int_equal(owner(tfs_table_id(table), "row35", NULL), 0);
	assert_true(c.master->passes.unassigned);
}

/*
 * Of three METADATA tablets the second needs a seal that is damaged.  All users' tablets are
 * served whose rows are in the two sound METADATA tablets, except the first one after the gap.
 * Nothing that needs all rows believes the part.
 */
static void damaged_metadata(void **state)
{
	const uint64_t dead = c.servers[1].incarnation;
	struct ts_request seal = {.method = TS_SEAL, .incarnation = dead, .term = c.term.number};
	struct ts_answer a = {0};
	struct buf at[3] = {{0}};
	char file[40], note[32], sst[300], *why = NULL;
	unsigned moved;
	uint32_t id;

	assert_int_equal(buf_append_bytes(&at[0], META_ROOT_END), 0);
	split_metadata(30, &at[1]); /* rows of the tablets that end at row30, row40, row50 */
	split_metadata(60, &at[2]);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(
			master_move(c.master, tfs_table_id(table), tfs_str(row_name(10 * i)), c.servers[0].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[0].incarnation), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(master_move(c.master, META_TABLE, buf_bytes(&at[i]), c.servers[i].incarnation), 0);
	spread(); /* of server 1, no tablet but METADATA's needs the log */
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str("row50"), c.servers[1].incarnation), 0);
	assert_int_equal(master_balance(c.master, &moved), 0); /* it knows the servers from now on */
	assert_int_equal(moved, 0);
	cluster_kill(&c, 1);
	snprintf(file, sizeof(file), "seals/%llu", (unsigned long long)dead);
	assert_int_equal(lock_put(c.locks, file, tfs_str("nonsense"), LOCK_ABSENT, NULL), 0);
	assert_int_equal(master_ids_take(c.master, &id), 0);
	snprintf(note, sizeof(note), "dropped/%u", id);
	assert_int_equal(lock_put(c.locks, note, tfs_bytes_of("", 0), LOCK_ABSENT, NULL), 0);
	snprintf(sst, sizeof(sst), "%s/sst/%u/1-999.sst", c.options.data_dir, tfs_table_id(table));
	assert_int_equal(file_replace(sst, tfs_str("of no tablet")), 0);
	assert_int_equal(master_tick(c.master), 0);
	pass_is_partial();
	assert_int_equal(lock_get(c.locks, note, NULL, NULL), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(master_collect(c.master, true), -EIO);
	assert_int_equal(access(sst, F_OK), 0);
	assert_int_equal(master_drain(c.master, c.servers[2].incarnation, true), 0);
	c.master->passes.failure_us = 0;
	assert_int_equal(balance(), 0);
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[2].incarnation), -EAGAIN);
	/* So does the first pass of a new master. */
	master_free(c.master);
	c.master = master_make();
	assert_int_equal(master_start(c.master, &why), 0);
	assert_null(why);
	pass_is_partial();
	/* With the seal, the next pass serves all. */
	assert_int_equal(ts_call(server_service(c.servers[0].server), &seal, &a), 0);
	assert_int_equal(lock_put(c.locks, file, a.log, LOCK_EXISTS, NULL), 0);
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
	assert_false(c.master->passes.unassigned);
	assert_int_equal(lock_get(c.locks, note, NULL, NULL), -ENOENT);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(master_collect(c.master, true), 0);
	assert_int_equal(access(sst, F_OK), -1);
	c.master->passes.failure_us = 0;
	assert_int_equal(master_balance(c.master, &moved), 0);
	assert_true(balance() > 0);
	ts_answer_fini(&a);
	for (unsigned i = 0; i < 3; i++)
		buf_fini(&at[i]);
}

/* A server whose clock stays wrong ends, unless the clocks of all are wrong.  None starts with a wrong clock. */
static void wrong_clocks(void **state)
{
	const uint64_t second = 1000000;
	struct server *s = c.servers[1].server;

	spread();
	assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[1].incarnation), 0);
	assert_int_equal(master_move(c.master, META_TABLE, tfs_str("\x80"), c.servers[1].incarnation), 0);
	lost_calls = 0;
	server_watch(s, second);
	clock_offsets[1] = -3 * (int64_t)second;
	server_watch(s, 20 * second);
	assert_int_equal(lost_calls, 0);
	clock_offsets[0] = clock_offsets[2] = clock_offsets[1];
	server_watch(s, 100 * second);
	assert_int_equal(lost_calls, 0);
	assert_int_equal(look(table, "row15"), -EIO);
	clock_offsets[2] = 0;
	server_watch(s, 101 * second);
	assert_int_equal(lost_calls, 1);
	clock_offsets[0] = 0;
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
	clock_offsets[3] = 3 * (int64_t)second;
	assert_int_equal(cluster_add(&c), -CLOCK_OFF);
	memset(clock_offsets, 0, sizeof(clock_offsets));
}

static unsigned busy;

static int busy_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method != TS_UNLOAD || !busy)
		return cluster_call(service, q, a);
	busy--;
	a->row_errs[0] = -EAGAIN;
	return a->err = 0;
}

/* A server that has another split under way is asked again. */
static void busy_unloads(void **state)
{
	static const struct tablet_service_ops ops = {.call = busy_call};
	const unsigned from = owner(tfs_table_id(table), "row45", NULL), to = (from + 1) % 3;

	c.servers[from].service.ops = &ops;
	busy = 2;
	move_one_to(to);
	assert_int_equal(owner(tfs_table_id(table), "row45", NULL), to);
	assert_int_equal(busy, 0);
}

static int ask_master(struct tfs_bytes request)
{
	struct buf answer = {0};
	int err = ms_serve(master_service(c.master), request, &answer);

	buf_fini(&answer);
	return err;
}

/* The master counts the requests that it refuses, by cause. */
static void refusals_of_the_master(void **state)
{
	const struct ms_request invalid = {.method = MS_TABLE_DROP, .name = "a/b"},
				create = {.method = MS_TABLE_CREATE, .name = "new"};
	const _Atomic uint64_t *refused = master_service(c.master)->refused;
	const struct lock_term ended = {.locks = c.locks, .number = 1, .version = 99};
	struct ms_answer a = {0};
	struct buf b = {0};

	assert_int_equal(ms_request_pack(&invalid, &b), 0);
	assert_int_equal(ask_master(buf_bytes(&b)), 0);
	assert_int_equal(refused[TS_REFUSED_INVALID], 1);
	assert_int_equal(ask_master(tfs_bytes_of(b.p, b.n - 1)), -EBADMSG);
	assert_int_equal(refused[TS_REFUSED_MALFORMED], 1);
	b.p[0]++;
	assert_int_equal(ask_master(buf_bytes(&b)), -EPROTO);
	assert_int_equal(refused[TS_REFUSED_VERSION], 1);
	buf_fini(&b);
	assert_int_equal(lock_put(c.locks, "term", tfs_str("another master's"), LOCK_ANY, NULL), 0);
	c.master->o.term = &ended;
	assert_int_equal(ms_call(master_service(c.master), &create, &a), -SESSION_ENDED);
	ms_answer_fini(&a);
	assert_int_equal(refused[TS_REFUSED_FOREIGN], 1);
	c.master->o.term = &c.term;
}

static uint64_t paused_us;

static void count_pause(void *arg, uint64_t us)
{
	paused_us += us;
}

/* METADATA's server dies while another server loads a tablet.  Only the pass that waits for LOAD can have METADATA served again. */
static void load_without_metadata(void **state)
{
	const struct route_options o = {.locks = c.locks,
		.servers = {.connect = cluster_connect, .each = cluster_each, .arg = &c},
		.patience_us = 60000000,
		.pause = count_pause};
	struct router *patient;
	struct ts_assigned t;
	unsigned metadata, to;

	spread();
	metadata = owner(META_TABLE, "", NULL);
	to = (metadata + 1) % 3;
	(void)owner(tfs_table_id(table), row_name(45), &t);
	assert_int_equal(route_new(&o, &patient), 0);
	server_set_metadata(c.servers[to].server, route_service(patient));
	cluster_kill(&c, metadata);
	t.server = c.servers[to].incarnation;
	t.assignment++;
	paused_us = 0;
	assert_true(control(to, TS_LOAD, &t) < 0);
	assert_in_range(paused_us, 1, 10000000);
	server_set_metadata(c.servers[to].server, route_service(c.router));
	route_free(patient);
}

/* ---- a change whose outcome is unknown ---- */

/* The master's session: it loses the connection after it has sent a drop, which takes place when the session is connected again. */
static struct lock_service *real;
static struct lock_op left[3];
static char left_names[3][32];
static unsigned left_count;
static int sync_err;

static int doubt_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	(void)s;
	if (count != 3 || ops[1].what != LOCK_REMOVE)
		return real->ops->multi(real, ops, count, stats);
	for (left_count = 0; left_count < count; left_count++) {
		left[left_count] = ops[left_count];
		snprintf(left_names[left_count], sizeof(left_names[0]), "%s", ops[left_count].name);
		left[left_count].name = left_names[left_count];
	}
	return -UNREACHABLE;
}

static int doubt_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	(void)s;
	return real->ops->get(real, name, contents, stat);
}

static int doubt_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	(void)s;
	return real->ops->list(real, dir, fn, arg);
}

static int doubt_sync(struct lock_service *s)
{
	const unsigned count = left_count;

	(void)s;
	if (sync_err)
		return sync_err;
	left_count = 0;
	return count ? real->ops->multi(real, left, count, NULL) : 0;
}

static int put_at_server(unsigned server, struct tfs_table *t)
{
	const struct op op = {.kind = OP_WRITE,
		.family = 1,
		.w.qualifier = TFS_S("q"),
		.w.place = {.when = TFS_NEWEST, .us = TFS_NO_TIME},
		.w.truncate_to = UINT64_MAX,
		.value = TFS_S("v")};
	const struct row_mutation m = {TFS_S("r"), &op, 1};
	const struct ts_request q = {.method = TS_MUTATE, .table = tfs_table_id(t), .rows = &m, .row_count = 1};
	struct ts_answer a = {0};
	int err = ts_call(server_service(c.servers[server].server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* No write is acknowledged between the check that the table is empty and the moment at which the drop is decided. */
static void drop_in_doubt(void **state)
{
	static const struct lock_service_ops ops = {.get = doubt_get, .multi = doubt_multi, .list = doubt_list, .sync = doubt_sync};
	static struct lock_service doubt = {&ops};
	static const char *const names[] = {"m", "n", "o"};
	struct tfs_table *t[3];
	char *why = NULL;

	real = c.locks;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(store_table_make(c.store, names[i], "f", &t[i]), 0);
	master_free(c.master);
	c.locks = c.term.locks = &doubt;
	c.master = master_make();
	assert_int_equal(master_start(c.master, &why), 0);
	for (unsigned i = 0; i < 3; i++) {
		const struct ms_request drop = {.method = MS_TABLE_DROP, .name = names[i]};
		const unsigned server = owner(tfs_table_id(t[i]), "r", NULL);
		struct ms_answer a = {0};

		sync_err = i ? -UNREACHABLE : 0;
		assert_int_equal(ms_call(master_service(c.master), &drop, &a), -ETIMEDOUT);
		assert_int_equal(put_at_server(server, t[i]), i ? -EAGAIN : -TABLE_DROPPED);
		sync_err = 0;
		left_count = i == 2 ? 0 : left_count; /* it was never sent */
		assign_soon(c.master);
		assert_int_equal(master_tick(c.master), 0);
		assert_int_equal(put_at_server(server, t[i]), i == 2 ? 0 : -TABLE_DROPPED);
		tfs_table_close(t[i]);
		ms_answer_fini(&a);
	}
	c.locks = c.term.locks = real;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		C(damaged_row),
		C(damaged_metadata),
		C(wrong_clocks),
		C(busy_unloads),
		C(refusals_of_the_master),
		C(load_without_metadata),
		C(drop_in_doubt),
	};

	return RUN(tests);
}
