/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server serves the tablets that were assigned to it, and nothing else: three
 * servers with a table of nine tablets.
 */
#include "engine/tablet/tablet_state.h"
#include "t/unit/assign_lib.h"

/* A lock service that reports no change: watches of another service than a directory's may be late. */
static struct lock_service *reports;

static int silent_watch(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg)
{
	return 0;
}

static void silent_unwatch(struct lock_service *s, lock_watch_fn *fn, void *arg)
{
}

static int silent_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	return reports->ops->get(reports, name, contents, stat);
}

static int silent_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	return reports->ops->multi(reports, ops, count, stats);
}

static int silent_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	return reports->ops->list(reports, dir, fn, arg);
}

static int silent_sync(struct lock_service *s)
{
	return 0;
}

static void silent_free(struct lock_service *s)
{
	lock_service_free(reports);
	reports = NULL;
}

static void make_silent(struct lock_service **locks)
{
	static const struct lock_service_ops ops = {.get = silent_get,
		.multi = silent_multi,
		.list = silent_list,
		.sync = silent_sync,
		.watch = silent_watch,
		.unwatch = silent_unwatch,
		.free = silent_free};
	static struct lock_service silent = {&ops};

	reports = *locks;
	*locks = &silent;
}

static int cluster_setup_silent(void **state)
{
	return cluster_make(state, make_silent);
}

static unsigned cells_of(const char *row)
{
	const struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = tfs_str(row), .row_to = tfs_str("row46")};
	struct tfs_cell cell;
	struct tfs_scan *s;
	unsigned n = 0;

	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while (tfs_scan_next(s, &cell) > 0)
		n++;
	tfs_scan_free(s);
	return n;
}

static uint64_t ask_assignment;

static int ask(unsigned server, enum ts_method method, unsigned row)
{
	const struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.batch_bytes = 1000};
	const struct op op = {.kind = OP_DELETE_ROW};
	const struct row_mutation mutation = {tfs_str(row_name(row)), &op, 1};
	struct ts_request q = {.method = method,
		.table = tfs_table_id(table),
		.row = mutation.row,
		.family = 1,
		.qualifier = tfs_str("q"),
		.ts = {.when = TFS_NEWEST},
		.rows = &mutation,
		.row_count = 1,
		.assignment = ask_assignment,
		.spec = &spec};
	struct ts_answer a = {0};
	int err = ts_call(server_service(c.servers[server].server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* A tablet is on one server, its neighbours on others: no request is answered by a server that does not serve it. */
static void others_refuse(void **state)
{
	static const enum ts_method methods[] = {
		TS_READ, TS_EXISTS, TS_SCAN_OPEN, TS_MUTATE, TS_FLUSH, TS_COMPACT, TS_PURGE, TS_TABLET_INFO, TS_MERGE};

	spread();
	for (unsigned i = 0; i < 9; i++)
		for (unsigned s = 0; s < 3; s++)
			for (unsigned k = 0; k < sizeof(methods) / sizeof(methods[0]) && s != i % 3; k++)
				assert_int_equal(ask(s, methods[k], i * 10 + 5), -TABLET_MOVED);
	read_all();
	/* The neighbour is on another server. */
	assert_int_equal(ask(0, TS_MERGE, 5), -TABLET_MOVED);
	read_all();
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(put(table, row_name(i), "f", "second"), 0);
	read_all();
	assert_int_equal(tfs_compact(table), 0);
	read_all();
}

/* Each tablet moves many times, with writes before and after. */
static void moves(void **state)
{
	uint64_t seed = 1;

	for (unsigned i = 0; i < 60; i++) {
		const unsigned to = (unsigned)(seed >> 33) % 3, row = (unsigned)(seed >> 20) % ROWS;
		struct ts_assigned before, after;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		assert_int_equal(put(table, row_name(row), "f", "before"), 0);
		(void)owner(tfs_table_id(table), row_name(row), &before);
		assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(row)), c.servers[to].incarnation), 0);
		assert_int_equal(owner(tfs_table_id(table), row_name(row), &after), to);
		assert_true(before.server == after.server ? after.assignment == before.assignment
							  : after.assignment > before.assignment);
		assert_int_equal(put(table, row_name(row), "f", "after"), 0);
	}
	read_all();
	/* METADATA's tablet and the root tablet move, too. */
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(master_move(c.master, META_TABLE, tfs_bytes_of("", 0), c.servers[i % 3].incarnation), 0);
		assert_int_equal(master_move(c.master, META_TABLE, tfs_str("\x80"), c.servers[(i + 1) % 3].incarnation), 0);
		assert_int_equal(put(table, row_name(i), "f", "moved"), 0);
		assert_int_equal(tfs_flush(table), 0);
	}
	read_all();
}

/* A LOAD that arrives late, or twice, or at another server, or with another number, makes no second owner. */
static void late_loads(void **state)
{
	struct ts_assigned t, other;
	unsigned from, to;

	from = owner(tfs_table_id(table), row_name(45), &t);
	to = (from + 1) % 3;
	assert_int_equal(control(from, TS_LOAD, &t), 0);
	other = t;
	other.server = c.servers[to].incarnation;
	assert_int_equal(control(to, TS_LOAD, &other), -TABLET_TAKEN);
	assert_int_equal(control(to, TS_LOAD, &t), -TABLET_TAKEN);
	other = t;
	other.assignment++;
	assert_int_equal(control(from, TS_LOAD, &other), -EBUSY);
	assert_int_equal(control(from, TS_UNLOAD, &other), -TABLET_TAKEN);
	assert_int_equal(control(to, TS_UNLOAD, &t), -TABLET_TAKEN);
	/* Between UNLOAD and the next assignment. */
	assert_int_equal(control(from, TS_UNLOAD, &t), 0);
	assert_int_equal(control(from, TS_UNLOAD, &t), 0);
	assert_int_equal(control(from, TS_LOAD, &t), -TABLET_TAKEN);
	assert_int_equal(look(table, row_name(45)), -EIO);
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
	(void)owner(tfs_table_id(table), row_name(45), &other);
	assert_true(other.assignment > t.assignment);
	assert_int_equal(
		control(from, TS_LOAD, &t), from == owner(tfs_table_id(table), row_name(45), NULL) ? -EBUSY : -TABLET_TAKEN);
	read_all();
}

/* The row of the root tablet is the file "root".  A server that read it in METADATA would wait for the root tablet, and refuse its LOAD. */
static void unloads_of_the_root_tablet(void **state)
{
	struct ts_assigned t;
	const unsigned from = owner(META_TABLE, "", &t), to = (from + 1) % 3;

	t.end = META_ROOT_END;
	assert_int_equal(control(to, TS_UNLOAD, &t), -TABLET_TAKEN);
	assert_int_equal(control(from, TS_UNLOAD, &t), 0);
	assert_int_equal(control(from, TS_UNLOAD, &t), 0);
	assert_int_equal(control(to, TS_UNLOAD, &t), 0); /* nobody has it */
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
}

/* An UNLOAD that takes long has no answer in time.  The master serves others, and the next pass has the tablet served. */
static uint64_t unload_time_us;
static int slow_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	int err = cluster_call(service, q, a);

	if (q->method != TS_UNLOAD)
		return err;
	unload_time_us = q->time_left_us;
	return a->err = -ETIMEDOUT;
}

static void unload_takes_long(void **state)
{
	static const struct tablet_service_ops slow_ops = {.call = slow_call};
	const unsigned from = owner(tfs_table_id(table), row_name(45), NULL), to = (from + 1) % 3;
	const struct tablet_service_ops *ops = c.servers[from].service.ops;

	c.servers[from].service.ops = &slow_ops;
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(45)), c.servers[to].incarnation), -EAGAIN);
	assert_true(unload_time_us > 0);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
	c.servers[from].service.ops = ops;
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(45)), c.servers[to].incarnation), 0);
	assert_int_equal(owner(tfs_table_id(table), row_name(45), NULL), to);
	read_all();
}

/* While a server replays a log for long, it splits and merges its other tablets, and its tables get families. */
static void changes_during_a_load(void **state)
{
	for (unsigned i = 0; i < 3; i++)
		load_begin(c.servers[i].server, KIND_USER);
	assert_int_equal(tfs_split(table, tfs_str("row45")), 0);
	assert_int_equal(tfs_merge(table, tfs_str("row40")), 0);
	assert_int_equal(add_family(table, "g"), 0);
	assert_int_equal(put(table, "row45", "f", "row45"), 0);
	/* METADATA, which that LOAD may be reading, moves at the same time. */
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(master_move(c.master, META_TABLE, i % 2 ? tfs_str("\x80") : tfs_bytes_of("", 0),
					 c.servers[i / 2].incarnation),
			0);
	for (unsigned i = 0; i < 3; i++)
		load_end(c.servers[i].server, KIND_USER);
	read_all();
}

static int found_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	return 1;
}

/* METADATA does not answer some mutations. */
static struct {
	struct tablet_service service; /* first */
	enum { ANSWERS, LOSES_REQUESTS, LOSES_ANSWERS } how;
	struct buf split; /* the last split's insert of a row */
} metadata;

static int metadata_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	int err = q->method == TS_MUTATE && metadata.how == LOSES_REQUESTS ? 0 : ts_call(route_service(c.router), q, a);

	(void)service;
	if (q->split) {
		buf_reset(&metadata.split);
		assert_int_equal(ts_request_pack(q, &metadata.split), 0);
	}
	return a->err = q->method == TS_MUTATE && metadata.how != ANSWERS ? -ETIMEDOUT : err;
}

/* UNLOAD of a tablet whose last edit has an unknown outcome: first the edit is resolved, and until then the tablet stays. */
static void unload_after_an_unknown_edit(void **state)
{
	static const struct tablet_service_ops ops = {.call = metadata_call};
	struct ts_request q = {.method = TS_SPLIT, .table = tfs_table_id(table), .row = tfs_str("row45")};
	struct ts_assigned t, other;
	struct ts_answer a = {0};
	unsigned from = owner(tfs_table_id(table), row_name(45), &t), to = (from + 1) % 3;

	metadata.service.ops = &ops;
	assert_int_equal(tfs_flush(table), 0);
	server_set_metadata(c.servers[from].server, &metadata.service);
	metadata.how = LOSES_ANSWERS;
	assert_int_equal(ts_call(server_service(c.servers[from].server), &q, &a), -ETIMEDOUT);
	ts_answer_fini(&a);
	metadata.how = LOSES_REQUESTS;
	assert_int_equal(master_move(c.master, t.table, t.begin, c.servers[to].incarnation), -ETIMEDOUT);
	assert_int_equal(owner(tfs_table_id(table), row_name(45), NULL), from);
	metadata.how = ANSWERS;
	read_all();
	assert_int_equal(master_move(c.master, t.table, t.begin, c.servers[to].incarnation), 0);
	assert_int_equal(owner(tfs_table_id(table), row_name(45), &other), to);
	assert_true(bytes_eq(other.begin, tfs_str("row40")) && bytes_eq(other.end, tfs_str("row50"))); /* it was not split */
	read_all();
	/* The answer to UNLOAD itself is lost: the next pass has the tablet served. */
	server_set_metadata(c.servers[to].server, &metadata.service);
	metadata.how = LOSES_ANSWERS;
	assert_int_equal(master_move(c.master, t.table, t.begin, c.servers[from].incarnation), -ETIMEDOUT);
	metadata.how = ANSWERS;
	assert_int_equal(master_tick(c.master), 0);
	read_all();
}

/* A table is dropped while the outcome of a split is unknown.  The late request inserts no row. */
static void late_split(void **state)
{
	static const struct tablet_service_ops ops = {.call = metadata_call};
	struct ts_request q = {.method = TS_SPLIT, .row = tfs_str("m")};
	struct arena arena = {0};
	struct ts_answer a = {0};
	struct tfs_table *t;
	unsigned server;

	for (unsigned i = 0; i < 2; i++) { /* the insert arrives before the drop, and after it */
		assert_int_equal(store_table_make(c.store, "n", "f", &t), 0);
		q.table = tfs_table_id(t);
		server = owner(q.table, "m", NULL);
		metadata.service.ops = &ops;
		server_set_metadata(c.servers[server].server, &metadata.service);
		metadata.how = LOSES_REQUESTS;
		assert_int_equal(ts_call(server_service(c.servers[server].server), &q, &a), -ETIMEDOUT);
		metadata.how = ANSWERS;
		assert_int_equal(ts_request_unpack(buf_bytes(&metadata.split), &arena, &q), 0);
		if (i)
			assert_int_equal(tfs_table_drop(c.store, "n"), 0);
		assert_int_equal(ts_call(route_service(c.router), &q, &a), i ? -ECANCELED : 0);
		if (!i)
			assert_int_equal(tfs_table_drop(c.store, "n"), 0);
		assert_int_equal(metadata_scan_table(route_service(c.router), q.to_table, found_row, NULL), 0);
		q = (struct ts_request){.method = TS_SPLIT, .row = tfs_str("m")};
		tfs_table_close(t);
		ts_answer_fini(&a);
		arena_fini(&arena);
	}
	buf_fini(&metadata.split);
	metadata.split = (struct buf){0};
}

/* An UNLOAD that was sent before a split or a merge ends the service of no tablet, and no row loses its server. */
static void late_unloads(void **state)
{
	static const struct tablet_service_ops ops = {.call = metadata_call};
	struct ts_assigned before, upper;
	unsigned from = owner(tfs_table_id(table), row_name(45), &before);

	assert_int_equal(tfs_split(table, tfs_str(row_name(45))), 0);
	assert_int_equal(owner(tfs_table_id(table), row_name(45), &upper), from);
	assert_int_equal(upper.assignment, before.assignment);
	assert_int_equal(control(from, TS_UNLOAD, &before), -TABLET_TAKEN);
	/* No tablet of the server has the first row. */
	assert_int_equal(master_move(c.master, before.table, tfs_str(row_name(40)), c.servers[(from + 1) % 3].incarnation), 0);
	assert_int_equal(control(from, TS_UNLOAD, &before), -TABLET_TAKEN);
	read_all();
	/* The upper part has the row of the tablet before the split.  A late LOAD of that tablet is refused. */
	metadata.service.ops = &ops;
	server_set_metadata(c.servers[from].server, &metadata.service);
	assert_int_equal(tfs_flush(table), 0);
	metadata.how = LOSES_REQUESTS; /* its release does not arrive */
	assert_int_equal(control(from, TS_UNLOAD, &upper), -ETIMEDOUT);
	metadata.how = ANSWERS;
	assert_int_equal(control(from, TS_LOAD, &before), -TABLET_TAKEN);
	assert_int_equal(control(from, TS_LOAD, &upper), 0);
	assert_int_equal(owner(tfs_table_id(table), row_name(45), &upper), from);
	read_all();
	assert_int_equal(master_move(c.master, before.table, tfs_str(row_name(40)), c.servers[from].incarnation), 0);
	assert_int_equal(tfs_merge(table, tfs_str(row_name(40))), 0);
	assert_int_equal(control(from, TS_UNLOAD, &upper), -TABLET_TAKEN);
	read_all();
}

/* A request that was sent to an earlier assignment of a tablet is refused, even where the tablet is served again. */
static void late_requests(void **state)
{
	static const enum ts_method methods[] = {TS_READ, TS_EXISTS, TS_SCAN_OPEN, TS_MUTATE};
	struct ts_assigned t, again;
	unsigned from, to;

	from = owner(tfs_table_id(table), row_name(45), &t);
	to = (from + 1) % 3;
	assert_int_equal(master_move(c.master, t.table, tfs_str(row_name(45)), c.servers[to].incarnation), 0);
	assert_int_equal(master_move(c.master, t.table, tfs_str(row_name(45)), c.servers[from].incarnation), 0);
	assert_int_equal(owner(tfs_table_id(table), row_name(45), &again), from);
	for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		ask_assignment = t.assignment;
		assert_int_equal(ask(from, methods[i], 45), -TABLET_MOVED);
		ask_assignment = again.assignment;
		assert_int_equal(ask(from, methods[i], 45), 0);
	}
	ask_assignment = 0;
}

/* A server dies: the remaining servers serve its tablets, with all acknowledged changes.  All die but one, which is new. */
static void deaths(void **state)
{
	spread();
	for (unsigned i = 0; i < ROWS; i += 3)
		assert_int_equal(put(table, row_name(i), "f", "late"), 0);
	for (unsigned i = 0; i < 3; i++) {
		cluster_kill(&c, i);
		assert_int_equal(cluster_add(&c), 0);
		assert_int_equal(master_tick(c.master), 0);
		read_all();
		assert_int_equal(put(table, row_name(i), "f", "later"), 0);
	}
	for (unsigned i = 3; i < 5; i++) {
		cluster_kill(&c, i);
		assert_int_equal(master_tick(c.master), 0);
		read_all();
	}
}

static struct {
	uint64_t live[CLUSTER_SERVERS], incarnation;
	uint32_t count;
	unsigned seals;
	const struct tablet_service *broken; /* its SEAL fails */
	const char *session;                 /* ends after the servers were told that it lives */
} told;

static int telling_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_MUTATE || q->method == TS_SCAN_OPEN)
		assert_int_not_equal(q->assignment, 0); /* the root tablet has one, too */
	if (q->method == TS_BURY) {
		told.count = q->live_count;
		told.incarnation = q->incarnation;
		memcpy(told.live, q->live, q->live_count * sizeof(*q->live));
	}
	if (q->method == TS_LIST && told.session) {
		assert_int_equal(lock_remove(c.locks, told.session, LOCK_EXISTS), 0);
		told.session = NULL;
	}
	if (q->method == TS_SEAL) {
		told.seals++;
		assert_true(q->incarnation <= told.incarnation);
		for (uint32_t i = 0; i < told.count; i++)
			assert_int_not_equal(q->incarnation, told.live[i]);
		if (service == told.broken)
			return a->err = -EIO;
	}
	return cluster_call(service, q, a);
}

static void tick(unsigned seals)
{
	told.seals = 0;
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(told.seals, seals);
}

/* Before METADATA is read to give a dead server's tablets away, all others were told that it is dead. */
static void burials(void **state)
{
	static const struct tablet_service_ops ops = {.call = telling_call};

	memset(&told, 0, sizeof(told));
	spread();
	for (unsigned i = 0; i < 3; i++)
		c.servers[i].service.ops = &ops;
	/* Its session ends in the pass, after it did not answer. */
	assert_int_equal(lock_put(c.locks, "servers/2", tfs_str("host2"), LOCK_ABSENT, NULL), 0);
	c.servers[1].away = true;
	told.session = "servers/2";
	tick(0);
	assert_null(told.session);
	tick(1);
	cluster_kill(&c, 1);
	read_all();
	/* The latest server dies, and the storage of a second server fails. */
	assert_int_equal(cluster_add(&c), 0);
	tick(0);
	move_one_to(3);
	cluster_kill(&c, 3);
	told.broken = &c.servers[0].service;
	tick(2);
	told.broken = NULL;
	read_all();
	/* Now a new master has not seen the server fail.  It learns of it by the first of two tablets. */
	assert_int_equal(cluster_add(&c), 0);
	tick(0);
	move_one_to(4);
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(65)), c.servers[4].incarnation), 0);
	cluster_kill(&c, 4);
	c.master->passes.latest = 0;
	tick(0);
	tick(1);
	read_all();
}

/* A server that is dead for all other servers stops at its next change of METADATA. */
static void buried_alive(void **state)
{
	const uint64_t me = c.servers[1].incarnation, live[] = {c.servers[0].incarnation, c.servers[2].incarnation};
	const struct route_options ro = {
		.locks = c.locks, .servers = {.connect = cluster_connect, .each = cluster_each, .arg = &c}, .client = me};
	const struct ts_request q = {
		.method = TS_BURY, .incarnation = live[1], .live = (uint64_t *)live, .live_count = 2, .term = c.term.number};
	struct ts_answer a = {0};
	struct router *r;

	spread();
	assert_int_equal(master_move(c.master, META_TABLE, tfs_str("\x80"), c.servers[0].incarnation), 0);
	assert_int_equal(route_new(&ro, &r), 0);
	server_set_metadata(c.servers[1].server, route_service(r));
	assert_int_equal(ts_call(server_service(c.servers[0].server), &q, &a), 0);
	ts_answer_fini(&a);
	lost_calls = 0;
	assert_int_not_equal(ask(1, TS_MUTATE, 15), 0); /* its redo set was empty */
	assert_int_equal(lost_calls, 1);
	cluster_kill(&c, 1);
	assert_int_equal(master_tick(c.master), 0);
	read_all();
	route_free(r);
}

/* No snapshot or clone lacks the rows of a tablet that nobody serves. */
static void snapshots_are_whole(void **state)
{
	struct tfs_table *clone;

	spread();
	assert_int_equal(tfs_snapshot_create(table, "whole"), 0);
	cluster_kill(&c, 1);
	assert_int_not_equal(tfs_snapshot_create(table, "part"), 0);
	assert_int_not_equal(tfs_table_clone(table, "part"), 0);
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(tfs_table_open(c.store, "part", &clone), -ENOENT);
	assert_int_equal(tfs_snapshot_create(table, "part"), 0);
	assert_int_equal(tfs_table_clone(table, "clone"), 0);
	read_all();
	tfs_table_close(table);
	assert_int_equal(tfs_table_open(c.store, "clone", &table), 0);
	read_all();
}

static int copy_to(unsigned server, uint32_t id)
{
	struct ts_request q = {.method = TS_COPY_TABLE, .table = tfs_table_id(table), .to_table = id, .term = c.term.number};
	struct ts_answer a = {0};
	int err = ts_call(server_service(c.servers[server].server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* A copy whose master died, or gave up, leaves no rows; nor does one of its requests that arrives later. */
static void late_copies(void **state)
{
	struct tablet_service *rows = route_service(c.router);
	struct op op = {.kind = OP_WRITE, .family = META_TABLET, .w.qualifier = tfs_str("late"), .value = tfs_str("")};
	struct buf key = {0};
	char note[32], file[40];
	uint32_t id;

	spread();
	assert_int_equal(master_ids_take(c.master, &id), 0);
	snprintf(note, sizeof(note), "dropped/%u", id);
	assert_int_equal(lock_put(c.locks, note, tfs_bytes_of("", 0), LOCK_ABSENT, NULL), 0);
	assert_int_equal(copy_to(0, id), 0);
	assert_int_equal(copy_to(1, id), 0);
	assert_int_equal(metadata_scan_table(rows, id, found_row, NULL), 1);
	/* A live server that cannot be reached may still copy: nothing is deleted. */
	snprintf(file, sizeof(file), "servers/%llu", (unsigned long long)c.servers[2].incarnation);
	assert_int_equal(lock_put(c.locks, file, tfs_bytes_of("", 0), LOCK_ABSENT, NULL), 0);
	c.servers[2].away = true;
	c.master->passes.passed_us = 0;
	(void)!master_tick(c.master);
	assert_int_equal(lock_get(c.locks, note, NULL, NULL), 0);
	c.servers[2].away = false;
	c.master->passes.passed_us = 0;
	assert_int_equal(master_tick(c.master), 0);
	assert_int_equal(lock_get(c.locks, note, NULL, NULL), -ENOENT);
	assert_int_equal(metadata_scan_table(rows, id, found_row, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(copy_to(i, id), -ECANCELED);
	assert_int_equal(meta_row_key(&key, id, true, tfs_bytes_of(NULL, 0)), 0);
	assert_int_equal(metadata_make(rows, id, false, buf_bytes(&key), &op, 1), -ECANCELED);
	assert_int_equal(metadata_scan_table(rows, id, found_row, NULL), 0);
	buf_fini(&key);
	assert_int_equal(tfs_snapshot_create(table, "later"), 0);
	read_all();
}

/* Another client's mutation of the table, with the schema that it has read. */
static int put_as_another(const struct schema *s)
{
	const struct tfs_schema *p = schema_public(s);
	const struct op op = {.kind = OP_WRITE,
		.family = p->families[p->family_count - 1].id,
		.w.qualifier = tfs_str("q"),
		.w.place = {.when = TFS_NEWEST},
		.value = tfs_str("v")};
	const struct row_mutation row = {tfs_str("row"), &op, 1};
	const struct ts_request q = {
		.method = TS_MUTATE, .table = p->tablets_id, .schema_generation = p->generation, .rows = &row, .row_count = 1};
	struct ts_answer a = {0};
	int err = ts_call(route_service(c.router), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* A tablet moves to a server that has an old schema of its table: the cells of a new family are read, and compactions keep them. */
static void late_families(void **state)
{
	const unsigned from = owner(tfs_table_id(table), "row45", NULL), to = (from + 1) % 3;
	struct tfs_table *another;

	for (unsigned i = 0; i < 2; i++) /* both servers know the table */
		assert_int_equal(
			master_move(c.master, tfs_table_id(table), tfs_str("row45"), c.servers[i ? from : to].incarnation), 0);
	assert_int_equal(add_family(table, "g"), 0);
	assert_int_equal(put(table, "row45", "g", "v"), 0);
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str("row45"), c.servers[to].incarnation), 0);
	assert_int_equal(cells_of("row45"), 2);
	assert_int_equal(ask(to, TS_COMPACT, 45), 0);
	assert_int_equal(cells_of("row45"), 2);
	/* A damaged schema does not keep the servers from the schemas after it. */
	assert_int_equal(lock_put(c.locks, "tables/broken", tfs_str("x"), LOCK_ABSENT, NULL), 0);
	assert_int_equal(store_table_make(c.store, "u", "f", &another), 0);
	assert_int_equal(put(another, "row", "f", "v"), 0);
	tfs_table_close(another);
}

/* No server has been told of any change.  Mutations of a dropped family or table are refused, by the server of its tablets and not by the client. */
static void late_reports(void **state)
{
	const struct schema *old;
	struct tfs_table *t;

	assert_int_equal(store_table_make(c.store, "n", "fg", &t), 0);
	old = table_schema(t);
	assert_int_equal(put_as_another(old), 0);
	assert_int_equal(delete_row(t, "row"), 0);
	assert_int_equal(drop_family(t, "g"), 0);
	assert_int_equal(put_as_another(old), -EINVAL);
	schema_put(old);
	old = table_schema(t);
	assert_int_equal(put_as_another(old), 0);
	assert_int_equal(delete_row(t, "row"), 0);
	assert_int_equal(tfs_table_drop(c.store, "n"), 0);
	assert_int_equal(put_as_another(old), -TABLE_DROPPED);
	schema_put(old);
	tfs_table_close(t);
	read_all();
}

/* ---- an unload does not wait for a compaction ---- */

static struct served_tablet *unloaded;
static _Atomic bool reached;

/* The first new SSTable waits until the unload wants compactions to end. */
static int hold_compaction(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op == FILE_OP_CREATE && strstr(path, "/sst/") && !atomic_exchange(&reached, true))
		while (!unloaded->tablet->leaves)
			(void)sched_yield();
	return 0;
}

static void *compact_by_user(void *arg)
{
	const struct ts_request q = {.method = TS_COMPACT, .table = tfs_table_id(table), .row = tfs_str("row45")};
	struct ts_answer a = {0};

	assert_int_equal(call_tablet_service(route_service(c.router), &q, &a), 0);
	ts_answer_fini(&a);
	return NULL;
}

static uint64_t majors(unsigned server)
{
	return atomic_load(&environment_of(c.servers[server].server, KIND_USER)->major);
}

static void unload_ends_compactions(void **state)
{
	struct server *s;
	struct ts_assigned t;
	unsigned from, to;
	pthread_t thread;
	char row[20];

	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "row45.%04u", i);
		assert_int_equal(put(table, row, "f", "v"), 0);
	}
	from = owner(tfs_table_id(table), "row45", &t);
	s = c.servers[from].server;
	assert_int_equal(ask(from, TS_FLUSH, 45), 0);
	assert_int_equal(served_find(s, tfs_table_id(table), tfs_str("row45"), &unloaded), 0);
	reached = false;
	set_hook(hold_compaction, NULL);
	assert_int_equal(pthread_create(&thread, NULL, compact_by_user, NULL), 0);
	while (!reached)
		(void)sched_yield();
	mutex_lock(&s->retire->lock);
	s->retire->retiring = true; /* a split that lasts */
	mutex_unlock(&s->retire->lock);
	assert_int_equal(control(from, TS_UNLOAD, &t), -EAGAIN);
	mutex_lock(&s->retire->lock);
	s->retire->retiring = false;
	mutex_unlock(&s->retire->lock);
	assert_int_equal(control(from, TS_UNLOAD, &t), 0);
	assert_int_equal(majors(from), 0);
	served_put(unloaded);
	c.master->passes.passed_us = 0; /* a pass is due */
	assert_int_equal(master_tick(c.master), 0);
	pthread_join(thread, NULL); /* the compaction was carried out by the next server */
	to = owner(tfs_table_id(table), "row45", &t);
	assert_true(majors(to) > 0);
	assert_int_equal(look(table, "row45.1999"), 0);
	set_hook(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		C(others_refuse),
		C(moves),
		C(late_loads),
		C(unloads_of_the_root_tablet),
		C(unload_takes_long),
		C(changes_during_a_load),
		C(unload_after_an_unknown_edit),
		C(late_split),
		C(late_unloads),
		C(late_requests),
		C(deaths),
		C(burials),
		C(buried_alive),
		C(snapshots_are_whole),
		C(late_copies),
		cmocka_unit_test_setup_teardown(late_reports, cluster_setup_silent, cluster_teardown),
		cmocka_unit_test_setup_teardown(late_families, cluster_setup_silent, cluster_teardown),
		C(unload_ends_compactions),
	};

	return RUN(tests);
}
