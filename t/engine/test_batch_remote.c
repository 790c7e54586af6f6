/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of a store that another process serves has 4 MiB of mutations under way.  No two
 * requests under way have the same row, and the mutations of a row keep their order.
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
	unsigned requests;      /* under way */
	size_t bytes;           /* of their values */
	bool under_way[ROWS];   /* a request has this row */
	unsigned latest[ROWS];  /* the number of its last mutation */
	unsigned met, reversed; /* rows of two requests; mutations that passed another one */
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

static void *add_all(void *batch)
{
	static char value[VALUE_BYTES];

	for (unsigned i = 0; i < MUTATIONS; i++) {
		struct tfs_mutation *m;
		char row[16];

		snprintf(row, sizeof(row), "row%04u", i % ROWS);
		m = tfs_mutation_new(table, tfs_str(row));
		assert_non_null(m);
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1 + (int64_t)i), tfs_bytes_of(value, VALUE_BYTES)), 0);
		assert_int_equal(tfs_batch_add(batch, m), 0);
		tfs_mutation_free(m);
	}
	return NULL;
}

static void megabytes_under_way(void **state)
{
	static const struct tablet_service_ops ops = {.call = line_call};
	struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS};
	struct timespec until;
	struct tfs_batch *b;
	struct tfs_scan *s;
	struct tfs_cell c;
	unsigned cells = 0;
	size_t bytes;
	pthread_t t;

	open_store();
	line.service.ops = &ops;
	line.real = table->store->o.tablets;
	table->store->o.tablets = &line.service;
	table->store->o.remote = true;
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
	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while (tfs_scan_next(s, &c) == 1)
		cells++;
	assert_int_equal(cells, MUTATIONS);
	tfs_scan_free(s);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(megabytes_under_way, setup_options, test_dir_teardown),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
