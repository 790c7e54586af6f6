/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At most once, end to end: clients and servers whose channels lose requests and
 * answers, and deliver copies twice, late and in another order.  Each counter is
 * the sum of its increments, and each append is there once.  A client follows the
 * schema that a server's answer names.
 */
#include "t/unit/server_lib.h"

#include "t/lib/cluster.h"
#include "t/lib/xorshift.h"

#define WRITERS 8u
#define COUNTERS 6u
#define ADDS 400u
#define LATE_MOST 64u

static struct cluster c;
static struct tfs_table *table;

/* ---- the channels ---- */

struct late {
	struct buf request;
	unsigned server;
};
static struct late late[LATE_MOST];
static unsigned late_count;
static struct mutex channels; /* guards the above and the seed */
static uint64_t channel_seed;
static _Atomic unsigned loss; /* of 100 requests; 100: all mutations */
static unsigned sent;         /* mutations, since then_err or locate_err was set */
static int then_err;          /* after the first lost mutation the others get this error; 0: none */
static int locate_err;        /* after two lost mutations METADATA cannot be read; 0: it can */
static _Atomic uint64_t lost_requests, lost_answers, late_copies;

static uint32_t rnd_locked(uint32_t below)
{
	return (uint32_t)((xorshift(&channel_seed) >> 20) % below);
}

/* A copy of the request arrives, and its answer is dropped. */
static void deliver(struct late *l)
{
	struct server *s = c.servers[l->server].server;
	struct buf answer = {0};

	late_copies++;
	if (s)
		assert_int_equal(ts_serve(server_service(s), buf_bytes(&l->request), &answer), 0);
	buf_fini(&answer);
	buf_fini(&l->request);
}

static void keep_copy_locked(const struct ts_request *q, unsigned server)
{
	struct late *l = &late[late_count < LATE_MOST ? late_count++ : rnd_locked(LATE_MOST)];

	buf_fini(&l->request);
	*l = (struct late){.server = server};
	assert_int_equal(ts_request_pack(q, &l->request), 0);
}

/* Takes some copy; false: none. */
static bool take_copy(struct late *out)
{
	bool any;

	mutex_lock(&channels);
	any = late_count && rnd_locked(2);
	if (any) {
		unsigned i = rnd_locked(late_count);

		*out = late[i];
		late[i] = late[--late_count];
		late[late_count] = (struct late){0};
	}
	mutex_unlock(&channels);
	return any;
}

static bool is_lossy(const struct ts_request *q)
{
	return q->method == TS_MUTATE || q->method == TS_READ || q->method == TS_EXISTS || q->method == TS_SCAN_OPEN ||
		q->method == TS_HELLO;
}

static int lossy_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct cluster_server *s = (struct cluster_server *)service;
	const bool changes = q->method == TS_MUTATE;
	const bool may_deliver = loss && q->table != META_TABLE; /* a request for METADATA is sent under locks of the tablet's */
	bool lose_request, lose_answer;
	struct late copy;

	if (!s->server)
		return a->err = -UNREACHABLE;
	mutex_lock(&channels);
	lose_request = (loss < 100 ? is_lossy(q) : changes) && rnd_locked(100) < loss;
	lose_answer = is_lossy(q) && rnd_locked(100) < loss;
	if (changes && loss && (loss == 100 || rnd_locked(3) == 0))
		keep_copy_locked(q, (unsigned)(s - c.servers));
	sent += changes;
	mutex_unlock(&channels);
	if (locate_err && sent > 1 && q->table == META_TABLE)
		return a->err = locate_err;
	if (lose_request && then_err && sent > 1)
		return a->err = then_err;
	if (lose_request) {
		lost_requests++;
		return a->err = -ANSWER_LOST;
	}
	if (may_deliver && take_copy(&copy))
		deliver(&copy);
	a->err = ts_call(server_service(s->server), q, a);
	if (may_deliver && take_copy(&copy))
		deliver(&copy);
	if (lose_answer) {
		lost_answers++;
		scan_batch_reset(&a->batch);
		a->scan = 0; /* it stays open at the server */
		return a->err = -ANSWER_LOST;
	}
	return a->err;
}

static const struct tablet_service_ops lossy = {.call = lossy_call};

static int cluster_setup(void **state)
{
	struct server_options o;
	char dir[300];

	if (test_dir_setup(state))
		return -1;
	snprintf(dir, sizeof(dir), "%s/d", test_dir);
	o = cluster_options(dir);
	mutex_init(&channels, RANK_MSG);
	channel_seed = 0x9e3779b97f4a7c15ull;
	loss = 0;
	lost_requests = lost_answers = late_copies = 0;
	assert_int_equal(cluster_new(&c, &o), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(cluster_add(&c), 0);
		c.servers[i].service.ops = &lossy;
	}
	assert_int_equal(cluster_start(&c), 0);
	assert_int_equal(store_table_make(c.store, "t", "fn", &table), 0);
	assert_int_equal(store_put(table, tfs_str("row5"), "f", TFS_S("q"), TFS_AUTO, tfs_str("v"), 0), 0);
	return 0;
}

static int cluster_teardown(void **state)
{
	for (unsigned i = 0; i < late_count; i++)
		buf_fini(&late[i].request);
	late_count = 0;
	tfs_table_close(table);
	cluster_free(&c);
	mutex_fini(&channels);
	return test_dir_teardown(state);
}

/* ---- counters ---- */

static _Atomic unsigned writing;
static int64_t sums[WRITERS][COUNTERS];
static unsigned appended[WRITERS];
/* The effect of mutations that got no answer.  They may have happened.  A starved machine causes some. */
static int64_t perhaps[COUNTERS];
static unsigned perhaps_appended[WRITERS];
static struct mutex perhaps_lock = MUTEX_INITIALIZER(RANK_MSG);

static int add(unsigned counter, int64_t by, struct tfs_result *r)
{
	struct tfs_mutation *m;
	char row[16];
	int err;

	snprintf(row, sizeof row, "row%u", counter);
	m = tfs_mutation_new(table, tfs_str(row));
	err = tfs_mutation_increment(m, "n", TFS_S("c"), by);
	if (!err)
		err = tfs_apply(m, 0, r);
	tfs_mutation_free(m);
	return err;
}

static int append(unsigned writer)
{
	const struct tfs_write w = {.family = "f",
		.qualifier = TFS_S("log"),
		.place = TFS_AUTO,
		.base = TFS_BASE_NEWEST,
		.truncate_to = UINT64_MAX,
		.append = TFS_S("x")};
	struct tfs_mutation *m;
	char row[16];
	int err;

	snprintf(row, sizeof row, "row%u.w", writer);
	m = tfs_mutation_new(table, tfs_str(row));
	err = tfs_mutation_write(m, &w);
	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err;
}

static void *write_some(void *arg)
{
	const unsigned me = (unsigned)(uintptr_t)arg;
	uint64_t seed = 1 + me * 77777;

	for (unsigned i = 0; i < ADDS; i++) {
		const unsigned counter = (unsigned)(xorshift(&seed) >> 20) % COUNTERS;
		struct tfs_result r;
		int err = i % 4 ? add(counter, 1 + i % 3, &r) : append(me);

		if (err) {
			print_message("# writer %u, mutation %u: %s\n", me, i, strerror(-err));
			if (err != -ETIMEDOUT)
				break;
			mutex_lock(&perhaps_lock);
			perhaps[counter] += i % 4 ? 1 + i % 3 : 0;
			perhaps_appended[me] += i % 4 == 0;
			mutex_unlock(&perhaps_lock);
			continue;
		}
		if (i % 4)
			sums[me][counter] += 1 + i % 3;
		else
			appended[me]++;
	}
	writing--;
	return NULL;
}

static void check_counters(void)
{
	for (unsigned i = 0; i < COUNTERS; i++) {
		struct tfs_result r;
		int64_t sum = 0;

		for (unsigned w = 0; w < WRITERS; w++)
			sum += sums[w][i];
		assert_int_equal(add(i, 0, &r), 0);
		assert_in_range(r.counter, sum, sum + perhaps[i]);
	}
	for (unsigned w = 0; w < WRITERS; w++) {
		struct tfs_info info;
		char row[16];

		assert_int_equal(appended[w] + perhaps_appended[w], ADDS / 4);
		snprintf(row, sizeof row, "row%u.w", w);
		assert_int_equal(tfs_stat(table, tfs_str(row), "f", TFS_S("log"), TFS_AUTO, &info), 0);
		assert_in_range(info.size, appended[w], appended[w] + perhaps_appended[w]);
	}
}

static void test_counters_are_exact(void **state)
{
	pthread_t threads[WRITERS];
	unsigned splits = 0, merges = 0;

	memset(sums, 0, sizeof sums);
	memset(appended, 0, sizeof appended);
	memset(perhaps, 0, sizeof perhaps);
	memset(perhaps_appended, 0, sizeof perhaps_appended);
	loss = 8;
	writing = WRITERS;
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, (void *)(uintptr_t)i), 0);
	/* Meanwhile tablets are split, flushed and merged. */
	for (unsigned i = 0; writing; i++) {
		char row[16];

		snprintf(row, sizeof row, "row%u", 1 + i % 5);
		splits += tfs_split(table, tfs_str(row)) == 0;
		if (i % 3 == 0)
			(void)!tfs_flush(table);
		merges += tfs_merge(table, tfs_str("row0")) == 0;
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	while (late_count) {
		struct late copy;

		if (take_copy(&copy))
			deliver(&copy);
	}
	loss = 0;
	check_counters();
	print_message("# %u requests and %u answers lost, %u late copies, %u splits, %u merges\n", (unsigned)lost_requests,
		(unsigned)lost_answers, (unsigned)late_copies, splits, merges);
	assert_true(lost_requests > 100 && lost_answers > 100 && late_copies > 100 && splits && merges);
}

/* ---- rows of a batch ---- */

static void batch_failed(void *arg, struct tfs_bytes row, int err)
{
	++*(_Atomic unsigned *)arg;
	print_message("# row %.*s: %s\n", (int)row.n, (const char *)row.p, strerror(-err));
}

static void test_batches_are_exact(void **state)
{
	_Atomic unsigned failed = 0;
	const struct tfs_batch_options o = {.max_bytes = 64u << 10, .failed = batch_failed, .arg = (void *)&failed};
	struct tfs_batch *b;

	loss = 8;
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	for (unsigned i = 0; i < 3000; i++) {
		struct tfs_mutation *m;
		char row[16];

		snprintf(row, sizeof row, "row%u", i % COUNTERS);
		m = tfs_mutation_new(table, tfs_str(row));
		assert_int_equal(tfs_mutation_increment(m, "n", TFS_S("c"), 1), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
		if (i % 500 == 250)
			(void)!tfs_split(table, tfs_str("row3"));
		if (i % 500 == 499)
			(void)!tfs_merge(table, tfs_str("row0"));
	}
	assert_int_equal(tfs_batch_close(b), 0);
	assert_int_equal(failed, 0);
	loss = 0;
	for (unsigned i = 0; i < COUNTERS; i++) {
		struct tfs_result r;

		assert_int_equal(add(i, 0, &r), 0);
		assert_int_equal(r.counter, 3000 / COUNTERS);
	}
	assert_true(late_copies > 20);
}

/* ---- a client that stops waiting ---- */

static int64_t counter_value(unsigned counter)
{
	char row[16], text[32] = "";
	size_t got;

	snprintf(row, sizeof row, "row%u", counter);
	return tfs_read(table, tfs_str(row), "n", TFS_S("c"), TFS_AUTO, 0, text, sizeof text - 1, &got, NULL) ? 0 : atoll(text);
}

/* The outcome is unknown.  A read decides it: the request's copies that arrive after the read have no effect. */
static void test_read_decides(void **state)
{
	for (unsigned round = 0; round < 3; round++) {
		int64_t value;

		loss = 100;
		assert_int_equal(add(1, 1, NULL), -ETIMEDOUT);
		loss = 0;
		value = counter_value(1);
		assert_true(late_count > 0);
		for (unsigned i = 0; i < late_count; i++)
			deliver(&late[i]);
		late_count = 0;
		assert_int_equal(counter_value(1), value);
	}
	assert_int_equal(counter_value(1), 0);
}

/* Adds to counter 1.  The first request is delayed.  Its copies arrive after the counter has been read. */
static void late_after_error(int expect)
{
	int64_t value;
	int err;

	sent = 0;
	loss = 100;
	err = add(1, 1, NULL);
	loss = 0;
	then_err = locate_err = 0;
	value = counter_value(1);
	assert_true(late_count > 0);
	for (unsigned i = 0; i < late_count; i++)
		deliver(&late[i]);
	late_count = 0;
	assert_int_equal(counter_value(1), value);
	assert_int_equal(err, expect);
}

/* The same if the client stops waiting because of an error that is no answer to the mutation. */
static void test_read_decides_after_error(void **state)
{
	then_err = -ENOMEM;
	late_after_error(-ETIMEDOUT);
	locate_err = -EIO;
	late_after_error(-ETIMEDOUT);
}

/* HELLO does the same without a read. */
static void test_hello(void **state)
{
	struct tfs_result r;
	const struct schema *schema = table_schema(table);
	struct ts_request q = {.method = TS_HELLO, .table = schema_public(schema)->tablets_id, .row = tfs_str("row1")};
	struct ts_answer a = {0};
	unsigned server = 0;

	schema_put(schema);
	while (late_count == 0) {
		channel_seed += 12345;
		loss = 1;
		assert_int_equal(add(1, 1, &r), 0);
	}
	loss = 0;
	server = late[0].server;
	/* A copy of an answered request, whose number is forgotten: a restart of its tablet's memory would apply it. */
	assert_int_equal(ts_call(route_service(c.router), &q, &a), 0);
	for (unsigned i = 0; i < late_count; i++) {
		struct arena arena = {0};
		struct ts_answer answer = {0};
		struct ts_request copy;

		assert_int_equal(ts_request_unpack(buf_bytes(&late[i].request), &arena, &copy), 0);
		assert_int_equal(ts_call(server_service(c.servers[server].server), &copy, &answer), -EPOCH_ENDED);
		ts_answer_fini(&answer);
		arena_fini(&arena);
	}
	ts_answer_fini(&a);
}

/* ---- schemas ---- */

/* A client whose schema lacks a family reads the new one: a backup by a scan would not have the family's cells. */
static void test_scan_has_new_families(void **state)
{
	struct client_options co = {.locks = c.locks,
		.tablets = route_service(c.router),
		.router = c.router,
		.master = master_service(c.master),
		.close = cluster_closed};
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .versions = 1};
	struct tfs_store *other;
	struct tfs_table *t;
	struct tfs_info info;
	struct tfs_cell cell;
	struct tfs_scan *s;
	unsigned cells = 0, x = 0;

	assert_int_equal(client_new(&co, &other), 0);
	assert_int_equal(tfs_table_open(other, "t", &t), 0);
	assert_int_equal(store_family_add(t, "x"), 0);
	assert_int_equal(store_put(t, tfs_str("row5"), "x", TFS_S("q"), TFS_AUTO, tfs_str("v"), 0), 0);
	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while (tfs_scan_next(s, &cell) > 0) {
		cells++;
		x += strcmp(cell.family, "x") == 0;
	}
	tfs_scan_free(s);
	assert_int_equal(cells, 2);
	assert_int_equal(x, 1);
	/* A read names the family. */
	assert_int_equal(store_family_add(t, "y"), 0);
	assert_int_equal(store_put(t, tfs_str("row5"), "y", TFS_S("q"), TFS_AUTO, tfs_str("v"), 0), 0);
	assert_int_equal(tfs_stat(table, tfs_str("row5"), "y", TFS_S("q"), TFS_AUTO, &info), 0);
	assert_int_equal(tfs_stat(table, tfs_str("row5"), "z", TFS_S("q"), TFS_AUTO, &info), -EINVAL);
	tfs_table_close(t);
	assert_int_equal(tfs_close(other), 0);
}

#define C(f) cmocka_unit_test_setup_teardown(f, cluster_setup, cluster_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		C(test_counters_are_exact),
		C(test_batches_are_exact),
		C(test_read_decides),
		C(test_read_decides_after_error),
		C(test_hello),
		C(test_scan_has_new_families),
	};

	return RUN(tests);
}
