/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of a store that another process serves has 4 MiB of mutations under way.  No two
 * requests under way have the same row, and the mutations of a row keep their order.  Behind a
 * slow request are no more rows than a tablet keeps results of.
 */
#include "engine/client/client.h"
#include "t/engine/lib.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define ROWS 3000u
#define VALUE_BYTES 2000u
#define MUTATIONS 9000u /* three of each row */

/* ---- a line that answers late ---- */

struct line {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	bool open;
	unsigned requests, rows; /* requests under way; rows of all so far */
	size_t bytes;            /* of their values */
	bool under_way[ROWS];    /* a request has this row */
	unsigned latest[ROWS];   /* the number of its last mutation */
	unsigned met, reversed;  /* rows of two requests; mutations that overtook a mutation */
};
static struct line line = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned row_number(struct tfs_bytes row)
{
	char text[16];

	snprintf(text, sizeof(text), "%.*s", (int)row.n, (const char *)row.p);
	return (unsigned)strtoul(text + 3, NULL, 10) % ROWS;
}

/* Notes that the request begins, or ends. */
static void note(struct line *l, const struct ts_request *q, bool begins)
{
	l->requests += begins ? 1u : -1u;
	for (uint32_t i = 0; i < q->row_count; i++) {
		const unsigned row = row_number(q->rows[i].row);

		l->met += begins && l->under_way[row] && (i == 0 || row != row_number(q->rows[i - 1].row));
		l->under_way[row] = begins;
		for (uint32_t k = 0; k < q->rows[i].op_count; k++) {
			const unsigned number = (unsigned)q->rows[i].ops[k].w.place.us;

			l->bytes += begins ? VALUE_BYTES : -(size_t)VALUE_BYTES;
			l->reversed += begins && number <= l->latest[row];
			l->latest[row] = number;
		}
	}
}

static int line_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct line *l = (struct line *)service;
	int err;

	if (q->method != TS_MUTATE)
		return ts_call(l->real, q, a);
	pthread_mutex_lock(&l->lock);
	note(l, q, true);
	pthread_cond_broadcast(&l->changed);
	while (!l->open)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
	err = ts_call(l->real, q, a);
	pthread_mutex_lock(&l->lock);
	note(l, q, false);
	pthread_mutex_unlock(&l->lock);
	return err;
}

/* From now on the store is one of another process. */
static void use_line(const struct tablet_service_ops *ops)
{
	open_store();
	line.service.ops = ops;
	line.real = table->store->o.tablets;
	line.requests = line.rows = 0;
	line.open = false;
	table->store->o.tablets = &line.service;
	table->store->o.remote = true;
}

static void add(struct tfs_batch *b, unsigned row, unsigned number, size_t value_bytes)
{
	static const char value[VALUE_BYTES];
	struct tfs_mutation *m;
	char name[16];

	snprintf(name, sizeof(name), "row%05u", row);
	m = tfs_mutation_new(table, tfs_str(name));
	assert_non_null(m);
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(number), tfs_bytes_of(value, value_bytes)), 0);
	assert_int_equal(tfs_batch_add(b, m), 0);
	tfs_mutation_free(m);
}

static void *add_all(void *batch)
{
	for (unsigned i = 0; i < MUTATIONS; i++)
		add(batch, i % ROWS, i + 1, VALUE_BYTES);
	return NULL;
}

static void expect_cells(unsigned count)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS};
	struct tfs_scan *s;
	struct tfs_cell c;
	unsigned cells = 0;

	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while (tfs_scan_next(s, &c) == 1)
		cells++;
	assert_int_equal(cells, count);
	tfs_scan_free(s);
}

static void megabytes_under_way(void **state)
{
	static const struct tablet_service_ops ops = {.call = line_call};
	struct timespec until;
	struct tfs_batch *b;
	size_t bytes;
	pthread_t t;

	use_line(&ops);
	assert_int_equal(tfs_batch_new(table, NULL, &b), 0);
	assert_int_equal(pthread_create(&t, NULL, add_all, b), 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&line.lock);
	while (line.requests < 16 && pthread_cond_timedwait(&line.changed, &line.lock, &until) == 0)
		;
	bytes = line.bytes;
	line.open = true;
	pthread_cond_broadcast(&line.changed);
	pthread_mutex_unlock(&line.lock);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(tfs_batch_close(b), 0);
	/* 4 MiB, of which a fifth is not of values. */
	assert_in_range(bytes, (size_t)3 << 20, (size_t)4 << 20);
	assert_int_equal(line.met, 0);
	assert_int_equal(line.reversed, 0);
	expect_cells(MUTATIONS);
	close_store();
}

/* ---- one request is slow ---- */

/* The first request waits. */
static int slow_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct line *l = (struct line *)service;
	bool first;
	int err;

	if (q->method != TS_MUTATE)
		return ts_call(l->real, q, a);
	pthread_mutex_lock(&l->lock);
	l->requests++;
	first = l->rows == 0;
	l->rows += q->row_count;
	while (first && !l->open)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
	err = ts_call(l->real, q, a);
	pthread_mutex_lock(&l->lock);
	l->requests--;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	return err;
}

static void slow_request(void **state)
{
	enum { MANY = 20000 };
	static const struct tablet_service_ops ops = {.call = slow_call};
	struct tfs_batch *b;

	use_line(&ops);
	assert_int_equal(tfs_batch_new(table, NULL, &b), 0);
	for (unsigned i = 0; i < MANY; i++)
		add(b, i, 1, 10);
	/* The others go on as far as they may. */
	pthread_mutex_lock(&line.lock);
	while (line.requests != 1 || line.rows <= TS_ROWS_UNDER_WAY - 128)
		pthread_cond_wait(&line.changed, &line.lock);
	assert_true(line.rows <= TS_ROWS_UNDER_WAY);
	line.open = true;
	pthread_cond_broadcast(&line.changed);
	pthread_mutex_unlock(&line.lock);
	assert_int_equal(tfs_batch_close(b), 0);
	assert_int_equal(line.rows, MANY);
	expect_cells(MANY);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(megabytes_under_way, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(slow_request, setup_options, test_dir_teardown),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
