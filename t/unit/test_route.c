/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router over a simulated cluster: the number of steps of each look-up, and the
 * correction of stale locations.
 */
#include "t/unit/route_lib.h"

#include "engine/base/clock.h"
#include "engine/client/client.h"

static void cold_then_known(void **state)
{
	struct route_stats st;

	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(seen[LOCK_READ], 1);
	assert_int_equal(seen[AT_ROOT], 1);
	assert_int_equal(seen[AT_META], 1);
	assert_int_equal(seen[AT_USER], 1);
	assert_int_equal(total(), 4);
	/* Its whole range, and the tablets after it, were learnt by that. */
	forget_seen();
	assert_int_equal(ask(16, "000"), 0);
	assert_int_equal(ask(16, ""), 0);
	assert_int_equal(ask(16, "009zzz"), 0);
	for (unsigned i = 1; i < ROUTE_PREFETCH; i++) {
		char row[8];

		snprintf(row, sizeof(row), "%02u3", i);
		assert_int_equal(ask(16, row), 0);
	}
	assert_int_equal(seen[AT_USER], 3 + ROUTE_PREFETCH - 1);
	assert_int_equal(total(), seen[AT_USER]);
	/* The next one is not; the levels above it are known. */
	forget_seen();
	assert_int_equal(ask(16, "160"), 0);
	assert_int_equal(seen[AT_META], 1);
	assert_int_equal(seen[AT_USER], 1);
	assert_int_equal(total(), 2);
	route_get_stats(router, &st);
	assert_int_equal(st.stale, 0);
	assert_int_equal(st.prefetched, 2 * (ROUTE_PREFETCH - 1) + 1); /* 1: METADATA's other tablet */
	assert_int_equal(st.reads, 4);                                 /* root file, root tablet, METADATA twice */
	assert_int_equal(st.entries, 2 * ROUTE_PREFETCH + 2);
	assert_true(st.bytes > 0);
	/* METADATA's other tablet, known by the first reading of the root tablet. */
	forget_seen();
	assert_int_equal(ask(17, "x"), 0);
	assert_int_equal(total(), 2);
}

static void batches_of_metadata(void **state)
{
	for (batch_rows = 1; batch_rows < 20; batch_rows += 3) {
		assert_int_equal(ask(16, "200"), 0);
		forget_seen();
		assert_int_equal(ask(16, "350"), 0);
		assert_int_equal(total(), 1); /* 15 tablets on: prefetched */
		forget_seen();
		assert_int_equal(ask(16, "360"), 0);
		assert_int_equal(seen[AT_USER], 1);
		route_free(router);
		router_new(20000, 0);
	}
}

static void stale_on_each_level(void **state)
{
	struct route_stats st;

	assert_int_equal(ask(16, "005"), 0);
	/* The tablet has moved: it refuses, METADATA is asked. */
	forget_seen();
	move(tablet_of_row(16, "005"));
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(seen[REFUSED], 1);
	assert_int_equal(seen[AT_META], 1);
	assert_int_equal(seen[AT_USER], 1);
	assert_int_equal(total(), 3);
	/* METADATA's tablet has moved, too, and so has the root. */
	forget_seen();
	move(tablet_of_row(16, "005"));
	move(&tablets[0]);
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(seen[REFUSED], 2);
	assert_int_equal(seen[AT_ROOT], 1);
	assert_int_equal(seen[AT_META], 1);
	assert_int_equal(seen[LOCK_READ], 0);
	assert_int_equal(total(), 5);
	/* The location of the root tablet is wrong, too: the paper's six steps, and then the request. */
	forget_seen();
	move(tablet_of_row(16, "005"));
	move(&tablets[0]);
	root_serves = root_said = 3;
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(seen[REFUSED], 3);
	assert_int_equal(seen[LOCK_READ], 1);
	assert_int_equal(seen[AT_ROOT], 1);
	assert_int_equal(seen[AT_META], 1);
	assert_int_equal(total(), 6 + 1);
	route_get_stats(router, &st);
	assert_int_equal(st.stale, 1 + 2 + 3);
	forget_seen();
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(total(), 1);
	/* A METADATA change by a server or the master takes the same way. */
	forget_seen();
	root_serves = root_said = 2;
	{
		struct buf key = {0};
		struct ts_request q = {.method = TS_SCAN_OPEN, .table = META_TABLE};
		struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS};
		struct ts_answer a = {0};

		q.spec = &spec;
		assert_int_equal(meta_row_key(&key, META_TABLE, true, (struct tfs_bytes){NULL, 0}), 0);
		q.row = spec.pub.row_from = buf_bytes(&key);
		assert_int_equal(ts_call(service, &q, &a), 0);
		assert_int_equal(a.batch.count, 4); /* the row of METADATA's last tablet */
		ts_answer_fini(&a);
		buf_fini(&key);
	}
	assert_int_equal(seen[REFUSED], 1);
	assert_int_equal(seen[LOCK_READ], 1);
	assert_int_equal(seen[AT_ROOT], 1);
	assert_int_equal(total(), 3);
}

/* Refused where METADATA says: a pause, and again, for so long. */
static void patience(void **state)
{
	uint64_t from;

	refuse_next = 3;
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(seen[REFUSED], 3);
	assert_int_equal(seen[AT_META], 4);
	forget_seen();
	refuse_next = 1000;
	from = monotonic_us();
	assert_int_equal(ask(16, "005"), -TABLET_MOVED);
	assert_true(monotonic_us() - from >= 20000);
	/* 1 + 2 + 4 + 8 + 5 ms: five pauses after the known location, and after each the location is read anew. */
	assert_int_equal(seen[REFUSED], 7);
	assert_int_equal(seen[AT_META], 6);
	refuse_next = 0;
	assert_int_equal(ask(16, "005"), 0);
	/* METADATA's tablet is served nowhere: a look-up waits no longer than that, though two levels wait. */
	forget_seen();
	tablets[0].serves = SERVERS;
	assert_int_equal(ask(16, "005"), 0); /* is known */
	move(tablet_of_row(16, "005"));
	assert_int_equal(ask(16, "005"), -TABLET_MOVED);
	assert_true(total() < 40);
	/* No server is known to have it, and then one is. */
	tablets[0].serves = 1;
	tablet_of_row(16, "005")->said = SERVERS + 5;
	assert_int_equal(ask(16, "005"), -TABLET_MOVED);
	tablet_of_row(16, "005")->said = tablet_of_row(16, "005")->serves;
	assert_int_equal(ask(16, "005"), 0);
	/* A store that is being made has no root file yet. */
	route_free(router);
	router_new(5000, 0);
	root_said = SERVERS + 1;
	assert_int_equal(ask(16, "005"), -TABLET_MOVED);
	root_said = root_serves;
	assert_int_equal(ask(16, "005"), 0);
}

static void split_and_merge(void **state)
{
	struct tablet_of *t;

	assert_int_equal(ask(17, "m"), 0);
	assert_int_equal(ask(17, "c"), 0);
	/* 17 splits at "k", the lower half moves.  METADATA's begin column of the upper stays the hint that it was. */
	t = &tablets[tablet_count - 1];
	assert_int_equal(t->table, 17);
	tablets[tablet_count++] = *t;
	snprintf(t->end, sizeof(t->end), "k");
	t->serves = t->said = 0;
	forget_seen();
	assert_int_equal(ask(17, "m"), 0);
	assert_int_equal(total(), 1);
	/* serve_row believes begin, so the upper tablet serves its rows only */
	snprintf(t[1].begin, sizeof(t[1].begin), "k");
	assert_int_equal(ask(17, "c"), 0);
	assert_int_equal(seen[REFUSED], 1);
	forget_seen();
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(ask(17, "c"), 0);
		assert_int_equal(ask(17, "m"), 0);
		assert_int_equal(ask(17, "j"), 0);
		assert_int_equal(ask(17, "k"), 0);
	}
	assert_int_equal(total(), 40);
	/* Merged, at a third server; read while METADATA has no row that covers "c": no server has it, so again. */
	snprintf(t[0].end, sizeof(t[0].end), "%s", "");
	t[0].serves = 2;
	t[0].said = 2;
	tablet_count--;
	forget_seen();
	assert_int_equal(ask(17, "c"), 0);
	assert_int_equal(ask(17, "m"), 0);
	assert_int_equal(seen[REFUSED], 1); /* the location found for "c" replaced the location cached for "m" */
	snprintf(t[0].begin, sizeof(t[0].begin), "k");
	route_free(router);
	router_new(5000, 0);
	assert_int_equal(ask(17, "c"), -TABLET_MOVED);
	assert_int_equal(ask(17, "m"), 0);
	t[0].begin[0] = 0;
	assert_int_equal(ask(17, "c"), 0);
}

/* A server that does not know the table: it has not read the schema yet, unless the table was dropped. */
static void table_unknown_to_a_server(void **state)
{
	refuse_err = -TABLE_DROPPED;
	refuse_next = 3;
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(seen[REFUSED], 3);
	refuse_next = 1; /* a cached location is refused, too */
	assert_int_equal(ask(16, "005"), 0);
	refuse_next = 1000;
	assert_int_equal(ask(16, "005"), -TABLE_DROPPED);
	forget_seen();
	refuse_next = 1;
	dropped = 16;
	assert_int_equal(ask(16, "005"), -TABLE_DROPPED);
	assert_int_equal(refuse_next, 0);
	assert_int_equal(ask(16, "005"), 0);
}

static void tables_come_and_go(void **state)
{
	assert_int_equal(ask(15, "a"), -TABLE_DROPPED);
	assert_int_equal(ask(4711, "a"), -TABLE_DROPPED);
	assert_int_equal(ask(UINT32_MAX, "a"), -TABLE_DROPPED);
	add_tablet(4711, "", "", 1);
	assert_int_equal(ask(4711, "a"), 0);
	/* Dropped: the cached location is tried, and then METADATA has no such tablet. */
	tablet_count--;
	forget_seen();
	assert_int_equal(ask(4711, "a"), -TABLE_DROPPED);
	assert_int_equal(seen[REFUSED], 1);
	assert_int_equal(seen[AT_META], 1);
	/* A METADATA tablet that has no row of the table, though it holds where it would stand: on to the next. */
	tablets[0].end[0] = tablets[1].begin[0] = 0;
	snprintf(tablets[0].end, sizeof(tablets[0].end), "16");
	snprintf(tablets[1].begin, sizeof(tablets[1].begin), "16");
	route_free(router);
	router_new(5000, 0);
	assert_int_equal(ask(16, "005"), 0);
	assert_int_equal(ask(15, "005"), -TABLE_DROPPED);
}

static void scans_go_home(void **state)
{
	struct ts_request q = {.method = TS_SCAN_OPEN, .table = 16};
	struct scan_spec spec = {.pub.what = TFS_SCAN_ROWS};
	uint64_t ids[3];

	q.spec = &spec;
	for (unsigned i = 0; i < 3; i++) {
		char row[8];
		struct ts_answer a = {0};

		snprintf(row, sizeof(row), "%02u5", i + 1);
		q.row = spec.pub.row_from = tfs_str(row);
		assert_int_equal(ts_call(service, &q, &a), 0);
		ids[i] = a.scan;
		ts_answer_fini(&a);
	}
	/* The tablets move; their scans do not. */
	for (unsigned i = 0; i < 3; i++) {
		char row[8];

		snprintf(row, sizeof(row), "%02u5", i + 1);
		move(tablet_of_row(16, row));
	}
	for (unsigned i = 0; i < 3; i++) {
		struct ts_request next = {.method = TS_SCAN_NEXT, .table = 16, .scan = ids[i]};
		struct ts_answer a = {0};

		assert_int_equal(ts_call(service, &next, &a), 0);
		assert_int_equal(a.scan, ids[i]);
		assert_int_equal(servers[(i + 1) % SERVERS].nexts, 1);
		next.method = TS_SCAN_CLOSE;
		assert_int_equal(ts_call(service, &next, &a), 0);
		ts_answer_fini(&a);
	}
	assert_int_equal(seen[CLOSED], 3);
	/* An id that no tablet has. */
	{
		struct ts_request next = {.method = TS_SCAN_NEXT, .table = 16, .scan = UINT64_MAX};
		struct ts_answer a = {0};

		assert_int_equal(ts_call(service, &next, &a), -SCAN_UNKNOWN);
		ts_answer_fini(&a);
	}
	/* A server whose numbers leave no room for ours: its scan is closed. */
	{
		struct ts_answer a = {0};

		forget_seen();
		scan_number = UINT64_C(1) << 48;
		q.row = spec.pub.row_from = tfs_str("005");
		assert_int_equal(ts_call(service, &q, &a), -EBADMSG);
		scan_number = 7;
		assert_int_equal(a.scan, 0);
		assert_int_equal(seen[CLOSED], 1);
		ts_answer_fini(&a);
	}
}

static int all(enum ts_method method)
{
	struct ts_request q = {.method = method, .table = 16};
	struct ts_answer a = {0};
	int err = ts_call(service, &q, &a);

	ts_answer_fini(&a);
	return err;
}

static void what_goes_to_all(void **state)
{
	assert_int_equal(all(TS_SYNC), 0);
	servers[1].sync_err = -EIO;
	servers[2].sync_err = -ENOSPC;
	assert_int_equal(all(TS_SYNC), -EIO);
	for (unsigned i = 0; i < SERVERS; i++)
		assert_int_equal(servers[i].syncs, 2);
	assert_int_equal(all(TS_BLOCK_WRITES), 0);
	servers[1].no_memory = 3;
	assert_int_equal(all(TS_UNBLOCK_WRITES), 0);
	for (unsigned i = 0; i < SERVERS; i++)
		assert_int_equal(servers[i].holds, 0);
	servers[2].hold_err = -ENOENT;
	assert_int_equal(all(TS_BLOCK_WRITES), -ENOENT);
	for (unsigned i = 0; i < SERVERS; i++)
		assert_int_equal(servers[i].holds, 0);
}

/* ---- busy servers ---- */

static void what_is_sent_again(void **state)
{
	enum { MANY = 10 };
	struct op op = {.kind = OP_WRITE, .w.place = {.us = 1}};
	const struct row_mutation row = {tfs_str("5"), &op, 1};
	struct ts_request q = {.method = TS_MUTATE, .table = 16, .rows = &row, .row_count = 1};
	struct row_mutation rows[MANY];
	struct op ops[MANY];
	int errs[MANY];
	struct ts_answer a = {0};

	for (unsigned i = 0; i < SERVERS; i++)
		servers[i].busy = 4;
	applied[5] = latest[5] = 0;
	assert_int_equal(ts_call(service, &q, &a), 0);
	assert_int_equal(applied[5], 1);
	/* If some of many rows were refused, only these are sent again, in order. */
	for (unsigned i = 0; i < SERVERS; i++) {
		servers[i].busy = 3;
		servers[i].served_rows = 3;
	}
	out_of_order = 0;
	q.rows = rows;
	q.row_count = MANY;
	a.row_errs = errs;
	for (unsigned i = 0; i < MANY; i++) {
		ops[i] = (struct op){.kind = OP_WRITE, .w.place = {.us = 2 + i}};
		rows[i] = (struct row_mutation){tfs_str("5"), &ops[i], 1};
		errs[i] = 1;
	}
	assert_int_equal(ts_call(service, &q, &a), 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(errs[i], 0);
	assert_int_equal(applied[5], 1 + MANY);
	assert_int_equal(out_of_order, 0);
	assert_true(a.row_errs == errs);
	/* A refusal of the first row is the error of the request.  A server that says so of the row only is wrong, and not asked again. */
	for (unsigned i = 0; i < SERVERS; i++)
		servers[i] = (struct fake_server){.service = servers[i].service, .number = i, .silent = true, .busy = 1};
	assert_int_equal(ts_call(service, &q, &a), 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(errs[i], -EBADMSG);
	assert_int_equal(applied[5], 1 + MANY);
	for (unsigned i = 0; i < SERVERS; i++)
		servers[i].silent = false;
	ts_answer_fini(&a);
	/* Each server on its own. */
	servers[1].busy = 2;
	assert_int_equal(all(TS_BLOCK_WRITES), 0);
	assert_int_equal(all(TS_UNBLOCK_WRITES), 0);
	for (unsigned i = 0; i < SERVERS; i++) {
		assert_int_equal(servers[i].holds, 0);
		servers[i].busy = 0;
	}
}

/* ---- many at once ---- */

static _Atomic bool stop;
static _Atomic unsigned wrong;

static bool met_a_move(void)
{
	struct route_stats st;

	route_get_stats(router, &st);
	return st.stale > 0;
}

static void *asker(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	/* On a busy machine all of them may be done before anything has moved. */
	for (unsigned i = 0; i < 3000 || !met_a_move(); i++) {
		char row[8];

		snprintf(row, sizeof(row), "%03u", (unsigned)rand_r(&seed) % 400);
		if (ask(rand_r(&seed) % 8 ? 16 : 17, row))
			wrong++;
	}
	return NULL;
}

static void *mover(void *arg)
{
	unsigned seed = 4711;

	while (!stop) {
		unsigned i = (unsigned)rand_r(&seed) % (tablet_count + 1);

		if (i == tablet_count) {
			mutex_lock(&world);
			root_serves = root_said = (root_serves + 1) % SERVERS;
			mutex_unlock(&world);
		} else {
			move(&tablets[i]);
		}
		sched_yield();
	}
	return NULL;
}

static void many_at_once(void **state)
{
	pthread_t threads[4], m;
	struct route_stats st;

	route_free(router);
	router_new(10000000, 4096); /* so small that entries are evicted and read again */
	stop = false;
	assert_int_equal(pthread_create(&m, NULL, mover, NULL), 0);
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, asker, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	stop = true;
	pthread_join(m, NULL);
	assert_int_equal(wrong, 0);
	route_get_stats(router, &st);
	assert_true(st.stale > 0);
	assert_true(st.bytes <= 4096);
}

/* ---- a batch while tablets move ---- */

static void note_failure(void *arg, struct tfs_bytes row, int err)
{
	wrong++;
	if (arg)
		*(int *)arg = err;
}

/* A table of the store of this service. */
static struct tfs_store batch_store;
static struct tfs_table batch_table;
static struct schema *first, *schema;

static void batch_begin(struct tablet_service *s, const struct tfs_batch_options *o, struct tfs_batch **b)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};

	batch_store = (struct tfs_store){.o = {.tablets = s, .router = router}};
	batch_table = (struct tfs_table){.store = &batch_store, .id = 16, .refs = 1};
	mutex_init(&batch_store.lock, RANK_CLIENT);
	assert_int_equal(schema_new("t", 16, 0, 0, 0755, 1, &first), 0);
	assert_int_equal(schema_edit(first, &add, 1, &schema, NULL), 0);
	batch_table.schema = schema;
	memset(latest, 0, sizeof(latest));
	memset(applied, 0, sizeof(applied));
	out_of_order = wrong = 0;
	HASH_ADD(hh, batch_store.tables, id, sizeof(batch_table.id), (&batch_table));
	assert_int_equal(tfs_batch_new(&batch_table, o, b), 0);
}

static void batch_put(struct tfs_batch *b, const char *row, int64_t ts)
{
	struct tfs_mutation *m = tfs_mutation_new(&batch_table, tfs_str(row));

	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(ts), TFS_S("v")), 0);
	assert_int_equal(tfs_batch_add(b, m), 0);
	tfs_mutation_free(m);
}

static int batch_finish(struct tfs_batch *b)
{
	int err = tfs_batch_close(b);

	HASH_DEL(batch_store.tables, &batch_table);
	schema_put(first);
	schema_put(schema);
	mutex_fini(&batch_store.lock);
	return err;
}

static void batch_over_moves(void **state)
{
	const struct tfs_batch_options o = {.failed = note_failure, .max_bytes = 40000};
	struct tfs_batch *b;
	struct route_stats st;
	unsigned seed = 1;
	pthread_t m;

	route_free(router);
	router_new(10000000, 0);
	stop = false;
	batch_begin(service, &o, &b);
	assert_int_equal(pthread_create(&m, NULL, mover, NULL), 0);
	for (unsigned i = 0; i < 8000; i++) {
		char row[8];

		/* often a row again, so that a request has it twice */
		snprintf(row, sizeof(row), "%03u", (unsigned)rand_r(&seed) % 400 / (1 + i % 7));
		batch_put(b, row, i + 1);
		/* The other thread may get no processor. */
		for (unsigned k = 0; k < tablet_count && i % 1000 == 999; k++)
			move(&tablets[k]);
	}
	assert_int_equal(batch_finish(b), 0);
	stop = true;
	pthread_join(m, NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(out_of_order, 0);
	for (unsigned i = 0, n = 0; i < 1000; i++) {
		n += applied[i];
		if (i == 999)
			assert_int_equal(n, 8000);
	}
	route_get_stats(router, &st);
	assert_true(st.stale > 0);
}

/* The outcome of each mutation is this, although it was applied. */
static int answered_with;

static int call_unanswered(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = ts_call(service, q, a);

	assert_int_equal(err, 0);
	for (uint32_t i = 0; i < q->row_count && a->row_errs; i++)
		a->row_errs[i] = answered_with;
	return a->err = q->row_count > 1 ? 0 : answered_with;
}

/* Two writes of one row become one.  If this was refused, each is sent alone; if it may have been applied, none is sent again. */
static void batch_of_unknown_outcome(void **state)
{
	static const struct tablet_service_ops ops = {.call = call_unanswered};
	struct tablet_service unanswered = {&ops};
	int told = 0;
	const struct tfs_batch_options o = {.failed = note_failure, .arg = &told};
	struct tfs_batch *b;

	for (unsigned i = 0; i < 2; i++) {
		answered_with = i ? -EFBIG : -ETIMEDOUT;
		batch_begin(&unanswered, &o, &b);
		batch_put(b, "005", 1);
		batch_put(b, "005", 2);
		batch_put(b, "006", 3);
		assert_true(batch_finish(b) < 0);
		assert_int_equal(wrong, 3);
		assert_int_equal(told, i ? -EFBIG : user_errno(-ETIMEDOUT));
		assert_int_equal(applied[5], i ? 4 : 2);
		assert_int_equal(applied[6], 1);
	}
}

/* ---- no memory ---- */

static __thread unsigned countdown;
static __thread bool in_fake;

static bool fails(void)
{
	return countdown && !in_fake && --countdown == 0;
}

#include "t/unit/wrap_alloc.h"

static int call_with_memory(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	int err;

	in_fake = true;
	err = fake_call(s, q, a);
	in_fake = false;
	return err;
}

static void no_memory(void **state)
{
	static const struct tablet_service_ops ops = {.call = call_with_memory};
	unsigned failures = 0;

	for (unsigned i = 0; i < SERVERS; i++)
		servers[i].service.ops = &ops;
	for (unsigned n = 1;; n++) {
		struct route_options o = {
			.locks = &fake_locks, .servers = {.connect = fake_connect, .each = fake_servers}, .patience_us = 1000};
		unsigned left;
		int err;

		route_free(router);
		router = NULL;
		countdown = n;
		err = route_new(&o, &router);
		if (!err) {
			service = route_service(router);
			err = ask(16, "105");
		}
		left = countdown;
		countdown = 0;
		if (err)
			assert_int_equal(err, -ENOMEM);
		failures += err != 0;
		if (router) {
			assert_int_equal(ask(16, "105"), 0);
			assert_int_equal(ask(16, "205"), 0);
		}
		if (left)
			break;
	}
	assert_true(failures > 5);
}

#define R(f) cmocka_unit_test_setup_teardown(f, cluster, cluster_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		R(cold_then_known),
		R(batches_of_metadata),
		R(stale_on_each_level),
		R(patience),
		R(split_and_merge),
		R(table_unknown_to_a_server),
		R(tables_come_and_go),
		R(scans_go_home),
		R(what_goes_to_all),
		R(what_is_sent_again),
		R(many_at_once),
		R(batch_over_moves),
		R(batch_of_unknown_outcome),
		R(no_memory),
	};

	msg_to_nowhere();
	mutex_init(&world, RANK_SERVER);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
