/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan whose server forgets it between any two batches returns the same cells
 * as a scan that is not disturbed: within a long row, forwards and backwards, with
 * limits, over tablets that split, and over a salted table.  So does a scan that asks for
 * each batch before the batch in front of it is used.  It asks for no batch that a limit
 * makes unneeded, and for larger ones as it goes on.  The ranges of a salted table are
 * opened at once.  A row that fits a batch is of one instant.  Scans belong to a client, have
 * random numbers, and are freed when they are idle, or when they are closed while a batch
 * is read.
 */
#include "engine/client/client.h"
#include "engine/server/requests/requests.h"
#include "t/engine/lib.h"

#include <pthread.h>
#include <sched.h>

/* ---- a line to the server, over which requests are sent ahead ---- */

struct line {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	unsigned opens, nexts, sent, received, forgotten; /* opens: that were sent ahead; nexts: that were not sent ahead */
	unsigned received_at_open;                        /* `received` at the last of the opens */
	bool more;                                        /* the last answer has not ended the scan */
	size_t lengths[8];                                /* the lengths of the first requests that were sent */
	int lose_every;                                   /* how many answers come for each lost answer; 0 if none is lost */
};
struct on_line {
	struct ts_sent base; /* first */
	struct buf answer;
};

static int line_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct line *l = (struct line *)service;
	int err = ts_call(l->real, q, a);

	l->nexts += q->method == TS_SCAN_NEXT;
	if (q->method == TS_SCAN_OPEN || q->method == TS_SCAN_NEXT)
		l->more = !err && a->scan;
	return err;
}

/* The server reads the batch at once. */
static struct ts_sent *line_send(struct tablet_service *service, const struct ts_request *q)
{
	struct line *l = (struct line *)service;
	struct on_line *x = calloc(1, sizeof(*x));
	struct ts_answer a = {0};

	assert_non_null(x);
	assert_true(q->method == TS_SCAN_NEXT || q->method == TS_SCAN_OPEN);
	if (q->method == TS_SCAN_OPEN) {
		l->opens++;
		l->received_at_open = l->received;
	}
	x->base.service = service;
	a.err = ts_call(l->real, q, &a);
	assert_int_equal(ts_answer_pack(q, &a, &x->answer), 0);
	ts_answer_fini(&a);
	if (l->sent < 8)
		l->lengths[l->sent] = q->length;
	l->sent++;
	return &x->base;
}

static int line_receive(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a)
{
	struct line *l = (struct line *)sent->service;
	struct on_line *x = (struct on_line *)sent;
	int err = -ANSWER_LOST;

	l->received++;
	if (!l->lose_every || l->received % (unsigned)l->lose_every) {
		assert_int_equal(ts_answer_unpack(buf_bytes(&x->answer), q, a), 0);
		err = a->err;
	}
	l->more = !err && a->scan;
	buf_fini(&x->answer);
	free(x);
	return err;
}

static void line_forget(struct ts_sent *sent)
{
	struct on_line *x = (struct on_line *)sent;

	((struct line *)sent->service)->forgotten++;
	buf_fini(&x->answer);
	free(x);
}

static struct line line;

/* From now on the store's client asks over the line. */
static void use_line(void)
{
	static const struct tablet_service_ops ops = {line_call, line_send, line_receive, line_forget};

	line = (struct line){.service.ops = &ops, .real = table->store->o.tablets};
	table->store->o.tablets = &line.service;
}

/* ---- the same cells ---- */

/* A text with a line for each cell.  The server forgets the scan after `every` cells, or never if it is 0. */
static char *scan_text(const struct tfs_scan_spec *spec, unsigned every, const char *split_at)
{
	struct tfs_scan *scan;
	struct tfs_cell c;
	size_t bytes;
	char *text;
	FILE *f = open_memstream(&text, &bytes);
	unsigned cells = 0;
	int n;

	assert_non_null(f);
	assert_int_equal(tfs_scan_new(table, spec, &scan), 0);
	while ((n = tfs_scan_next(scan, &c)) > 0) {
		fprintf(f, "%.*s %s %.*s %lld %zu\n", (int)c.row.n, (const char *)c.row.p, c.family ? c.family : "-",
			(int)c.qualifier.n, (const char *)c.qualifier.p, (long long)c.ts, c.value.n);
		cells++;
		if (every && cells % every == 0)
			assert_false(scans_free_idle(hooks.server));
		if (split_at && cells == 100)
			assert_int_equal(tfs_split(table, tfs_str(split_at)), 0);
	}
	assert_int_equal(n, 0);
	tfs_scan_free(scan);
	fclose(f);
	return text;
}

static void put_version(const char *row, const char *family, const char *qualifier, int64_t ts)
{
	static const char value[200];

	assert_int_equal(store_put(table, tfs_str(row), family, tfs_str(qualifier), tfs_at(ts),
				 tfs_bytes_of(value, (size_t)(ts * 37 % 200)), 0),
		0);
}

/* 40 short rows; among them one with columns of many versions in both families. */
static void fill(void)
{
	char row[16], qualifier[16];

	for (unsigned i = 0; i < 40; i++) {
		snprintf(row, sizeof(row), "row%02u", i);
		put_version(row, i % 3 ? "f" : "g", "a", 1 + i);
		if (i % 4 == 0)
			put_version(row, "f", "b", 2);
	}
	for (unsigned i = 0; i < 120; i++) {
		snprintf(qualifier, sizeof(qualifier), "q%03u", i / 6);
		put_version("row20", i % 2 ? "f" : "g", qualifier, i);
		put_version("row20", i % 2 ? "f" : "g", qualifier, 1000 + i);
	}
}

static void same_cells(const char *split_at)
{
	static const char *const both[] = {"f", "g"};
	unsigned variants = 0;

	for (unsigned i = 0; i < 4 * 2 * 2 * 3 * 2 * 2; i++) {
		struct tfs_scan_spec spec = {
			.what = (enum tfs_scan_what)(i % 4),
			.reverse = i / 4 % 2,
			.batch_bytes = i / 8 % 2 ? 1 : 700,
			.versions = i / 16 % 3 == 1 ? 2 : 0,
			.column_limit = i / 16 % 3 == 2 ? 7 : 0,
			.row_limit = i / 48 % 2 ? 23 : 0,
			.limit = i / 96 % 2 ? 77 : 0,
			.families = i % 5 ? NULL : both + 1,
			.family_count = i % 5 ? 0 : 1,
			.row_from = i % 7 ? TFS_S("") : TFS_S("row03"),
			.row_to = i % 11 ? (struct tfs_bytes){NULL, 0} : TFS_S("row33"),
		};
		char *whole = scan_text(&spec, 0, NULL), *parts;

		for (unsigned every = 1; every < 12; every += 5) {
			parts = scan_text(&spec, every, split_at);
			split_at = NULL;
			if (strcmp(whole, parts))
				print_message("# variant %u, every %u\n", i, every);
			assert_string_equal(parts, whole);
			free(parts);
			variants++;
		}
		free(whole);
	}
	/* The long row alone, from the middle of a column. */
	for (unsigned i = 0; i < 2; i++) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS, .row_from = TFS_S("row20"), .one_row = true, .batch_bytes = 1};
		char *whole, *parts;

		if (i) {
			spec.families = both;
			spec.family_count = 1;
			spec.after_cell = true;
			spec.qualifier_from = TFS_S("q003");
			spec.after_ts = 21;
		}
		whole = scan_text(&spec, 0, NULL);
		parts = scan_text(&spec, 1, NULL);
		assert_true(strlen(whole) > 500);
		assert_string_equal(parts, whole);
		free(whole);
		free(parts);
	}
	assert_true(variants > 100);
}

static void forgotten_scans(void **state)
{
	options.no_background = true;
	open_store();
	fill();
	hooks.server->scans->idle_us = 0;
	same_cells(NULL);
	assert_int_equal(tfs_split(table, TFS_S("row20")), 0); /* the long row is the first of its tablet, or the last */
	same_cells("row33");
	assert_int_equal(tfs_split(table, TFS_S("row21")), 0);
	same_cells("row10");
	close_store();
}

/* Scans over the line; the last part also loses answers. */
static void scans_ahead(void **state)
{
	options.no_background = true;
	open_store();
	use_line();
	fill();
	hooks.server->scans->idle_us = 0;
	same_cells(NULL);
	same_cells("row20");
	line.lose_every = 7;
	same_cells("row10");
	line.lose_every = 0;
	assert_true(line.sent > 1000);
	assert_int_equal(line.sent, line.received);
	assert_int_equal(line.forgotten, 0);
	close_store();
}

/* The scans of all ranges are opened before the first answer is wanted. */
static void opened_at_once(void)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS};
	struct tfs_scan *s;
	struct tfs_cell c;

	line.opens = line.received_at_open = 0;
	line.received = 0;
	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	assert_int_equal(tfs_scan_next(s, &c), 1);
	tfs_scan_free(s);
	assert_int_equal(line.opens, 3);
	assert_int_equal(line.received_at_open, 0);
}

static void salted_scans(bool ahead)
{
	options.no_background = true;
	open_store();
	if (ahead)
		use_line();
	assert_int_equal(tfs_schema_set_text(
				 table, TFS_S("salt = 3; families = ({ name = \"f\"; }, { name = \"g\"; });"), TFS_NO_TIME, NULL),
		0);
	fill();
	hooks.server->scans->idle_us = 0;
	same_cells(NULL);
	if (ahead) {
		assert_int_equal(line.sent, line.received + line.forgotten);
		opened_at_once();
	}
	close_store();
}

static void forgotten_salted_scans(void **state)
{
	salted_scans(false);
}

static void salted_scans_ahead(void **state)
{
	salted_scans(true);
}

/* ---- each row of one instant ---- */

/* Writes n into four columns of each row, a row at once. */
static void put_rows(unsigned n)
{
	static const char *const columns[] = {"a", "b", "c", "d"};
	char row[16], value[16];

	snprintf(value, sizeof(value), "%u", n);
	for (unsigned i = 0; i < 12; i++) {
		struct tfs_mutation *m;

		snprintf(row, sizeof(row), "row%02u", i);
		m = tfs_mutation_new(table, tfs_str(row));
		assert_non_null(m);
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(tfs_mutation_put(m, "f", tfs_str(columns[k]), TFS_AUTO, tfs_str(value)), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
	}
}

/* The server forgets the scan after each cell, and then all rows are changed.  A row fits a batch, but mostly begins in one and ends in the next. */
static void small_rows_are_of_one_instant(void **state)
{
	options.no_background = true;
	open_store();
	hooks.server->scans->idle_us = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct tfs_scan_spec spec = {.batch_bytes = 700, .versions = 1, .reverse = i};
		struct tfs_scan *scan;
		struct tfs_cell c;
		unsigned n = 1, of_row = 0, cells = 0;

		put_rows(n);
		assert_int_equal(tfs_scan_new(table, &spec, &scan), 0);
		while (tfs_scan_next(scan, &c) == 1) {
			char text[16];
			unsigned value;

			snprintf(text, sizeof(text), "%.*s", (int)c.value.n, (const char *)c.value.p);
			value = (unsigned)strtoul(text, NULL, 10);
			if (cells++ % 4 == 0)
				of_row = value;
			assert_int_equal(value, of_row);
			assert_false(scans_free_idle(hooks.server));
			put_rows(++n);
		}
		assert_int_equal(cells, 48);
		assert_true(of_row > 1); /* the scan was lost */
		tfs_scan_free(scan);
	}
	close_store();
}

/* ---- one batch ahead ---- */

static unsigned open_scans(void)
{
	unsigned n = 0;

	mutex_lock(&hooks.server->scans->lock);
	for (unsigned i = 0; i < SCAN_BUCKETS; i++)
		for (const struct open_scan *o = hooks.server->scans->open[i]; o; o = o->next)
			n++;
	mutex_unlock(&hooks.server->scans->lock);
	return n;
}

/* A batch is asked for before the caller gets a cell of the batch in front of it, and only one. */
static void one_batch_ahead(void **state)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_KEYS, .pub.batch_bytes = 700};
	const struct tfs_cell *cell;
	struct row_cursor c;
	unsigned cells = 0;
	int n;

	options.no_background = true;
	open_store();
	use_line();
	fill();
	row_cursor_init(&c, &line.service, store_tablets_id(table), 0, &spec);
	while ((n = row_cursor_next(&c, &cell)) > 0) {
		assert_int_equal(line.sent, line.received + line.more);
		assert_int_equal(line.nexts, 0);
		cells++;
	}
	assert_int_equal(n, 0);
	assert_true(cells > 250 && line.received > 10);
	assert_int_equal(line.sent, line.received);
	row_cursor_fini(&c);
	/* A scan is closed while its next batch is under way. */
	row_cursor_init(&c, &line.service, store_tablets_id(table), 0, &spec);
	assert_int_equal(row_cursor_next(&c, &cell), 1);
	assert_int_equal(open_scans(), 1);
	assert_int_equal(line.sent, line.received + 1);
	row_cursor_fini(&c);
	assert_int_equal(line.forgotten, 1);
	assert_int_equal(open_scans(), 0);
	close_store();
}

/* Batches grow if the caller has not set their size. */
static void growing_batches(void **state)
{
	static const char value[60000];
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *s;
	struct tfs_cell c;
	char row[16];
	unsigned cells = 0;

	options.no_background = true;
	open_store();
	use_line();
	for (unsigned i = 0; i < 80; i++) {
		snprintf(row, sizeof(row), "row%02u", i);
		assert_int_equal(put(row, "q", 1, tfs_bytes_of(value, sizeof(value)), false), 0);
	}
	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while (tfs_scan_next(s, &c) == 1)
		cells++;
	tfs_scan_free(s);
	assert_int_equal(cells, 80);
	/* 256 KiB are 5 values, then 9, 18, 18 and so on. */
	assert_int_equal(line.lengths[0], 512 << 10);
	assert_int_equal(line.lengths[1], 1 << 20);
	assert_int_equal(line.lengths[2], 1 << 20);
	assert_in_range(line.sent, 5, 6);
	close_store();
}

/* ---- a server that loses every scan ---- */

struct loser {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	unsigned nexts;
	int err;
};

static int lose(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct loser *l = (struct loser *)service;
	int err;

	if (q->method == TS_SCAN_NEXT) {
		l->nexts++;
		return l->err;
	}
	err = ts_call(l->real, q, a);
	if (q->method == TS_SCAN_OPEN)
		a->batch.count = 0; /* as if filters rejected all cells */
	return err;
}

/* A scan that never moves ends with an error. */
static void lost_for_ever(void **state)
{
	static const struct tablet_service_ops ops = {.call = lose};
	static const int errs[] = {
		-SCAN_UNKNOWN, -ANSWER_LOST, -UNREACHABLE, -ETIMEDOUT, -TABLET_MOVED, -EPOCH_ENDED, -TABLE_DROPPED};
	struct scan_spec spec = {.pub.what = TFS_SCAN_KEYS, .pub.batch_bytes = 1};
	struct loser l;

	options.no_background = true;
	open_store();
	fill();
	l = (struct loser){.service = {.ops = &ops}, .real = table->store->o.tablets};
	for (unsigned i = 0; i < sizeof(errs) / sizeof(*errs); i++) {
		const struct tfs_cell *cell;
		struct row_cursor c;

		l.nexts = 0;
		l.err = errs[i];
		row_cursor_init(&c, &l.service, store_tablets_id(table), 0, &spec);
		assert_int_equal(row_cursor_next(&c, &cell), errs[i] == -TABLE_DROPPED ? -TABLE_DROPPED : -EIO);
		assert_true(errs[i] == -TABLE_DROPPED ? l.nexts == 1 : l.nexts > 1 && l.nexts < 20);
		row_cursor_fini(&c);
	}
	close_store();
}

/* ---- numbers, clients, time ---- */

static int scan_call(enum ts_method method, uint64_t client, uint64_t epoch, uint64_t scan, struct ts_answer *a)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.batch_bytes = 1};
	struct ts_request q = {.method = method,
		.table = store_tablets_id(table),
		.spec = method == TS_SCAN_OPEN ? &spec : NULL,
		.scan = scan,
		.token = {.client = client},
		.epoch = epoch};

	return ts_call(server_service(hooks.server), &q, a);
}

static void scans_of_clients(void **state)
{
	struct ts_answer a = {0}, b = {0}, c = {0};
	uint64_t first;

	options.no_background = true;
	open_store();
	fill();
	assert_int_equal(scan_call(TS_SCAN_OPEN, 7, 2, 0, &a), 0);
	assert_int_equal(scan_call(TS_SCAN_OPEN, 8, 2, 0, &b), 0);
	first = a.scan;
	assert_true(first && b.scan && first >> 48 == 0);
	assert_true(first > 4096 || b.scan > 4096);
	assert_true(first != b.scan && first + 1 != b.scan);
	/* A wrong client, a wrong epoch, a wrong number of a scan. */
	assert_int_equal(scan_call(TS_SCAN_NEXT, 8, 2, first, &c), -SCAN_UNKNOWN);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 1, first, &c), -EPOCH_ENDED);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 2, first ^ 64, &c), -SCAN_UNKNOWN);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 2, first, &a), 0);
	/* A later epoch of one client. */
	scans_free_client(hooks.server, 7, 2);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 2, first, &a), 0);
	assert_int_equal(open_scans(), 2);
	assert_int_equal(scan_call(TS_HELLO, 7, 3, 0, &c), 0);
	assert_int_equal(open_scans(), 1);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 2, first, &a), -EPOCH_ENDED);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 3, first, &a), -SCAN_UNKNOWN);
	assert_int_equal(scan_call(TS_SCAN_NEXT, 8, 2, b.scan, &b), 0);
	/* Idle for a minute, or not. */
	assert_true(scans_free_idle(hooks.server));
	hooks.server->scans->idle_us = 0;
	assert_false(scans_free_idle(hooks.server));
	assert_int_equal(scan_call(TS_SCAN_NEXT, 8, 2, b.scan, &b), -SCAN_UNKNOWN);
	ts_answer_fini(&a);
	ts_answer_fini(&b);
	ts_answer_fini(&c);
	close_store();
}

/* The server frees them by itself, in a second round, too. */
static void idle_scans_are_freed(void **state)
{
	open_store();
	fill();
	hooks.server->scans->idle_us = 1000;
	for (unsigned i = 0; i < 3; i++) {
		struct ts_answer a = {0};

		assert_int_equal(scan_call(TS_SCAN_OPEN, 7, 2, 0, &a), 0);
		assert_true(a.scan);
		ts_answer_fini(&a);
		while (open_scans())
			(void)sched_yield();
	}
	close_store();
}

/* ---- closed while a batch is read ---- */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_shut;
static unsigned at_gate;

static int wait_at_gate(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	pthread_mutex_lock(&gate_lock);
	at_gate += op == FILE_OP_READ;
	pthread_cond_broadcast(&gate_changed);
	while (gate_shut && op == FILE_OP_READ)
		pthread_cond_wait(&gate_changed, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
	return 0;
}

static void *next_batch(void *scan)
{
	struct ts_answer a = {0};
	intptr_t err = scan_call(TS_SCAN_NEXT, 7, 2, *(uint64_t *)scan, &a);

	ts_answer_fini(&a);
	return (void *)err;
}

/* The request that reads the batch frees the scan. */
static void closed_under_way(void **state)
{
	static char value[100000]; /* of bytes that do not compress, so each batch reads the file */
	struct ts_answer a = {0}, b = {0};
	uint32_t seed = 1;
	pthread_t t;
	void *err;

	for (size_t i = 0; i < sizeof(value); i++, seed = seed * 1664525u + 1013904223u)
		value[i] = (char)(seed >> 24);
	options.no_background = true;
	open_store();
	for (char row[] = "a"; *row < 'h'; ++*row)
		assert_int_equal(put(row, "q", 1, tfs_bytes_of(value, sizeof(value)), false), 0);
	assert_int_equal(tfs_flush(table), 0);
	close_store();
	open_store();
	assert_int_equal(scan_call(TS_SCAN_OPEN, 7, 2, 0, &a), 0);
	assert_true(a.scan);
	gate_shut = true;
	file_set_hook(wait_at_gate, NULL);
	assert_int_equal(pthread_create(&t, NULL, next_batch, &a.scan), 0);
	pthread_mutex_lock(&gate_lock);
	while (!at_gate)
		pthread_cond_wait(&gate_changed, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
	assert_int_equal(open_scans(), 1);
	hooks.server->scans->idle_us = 0;
	assert_true(scans_free_idle(hooks.server)); /* it is not idle */
	assert_int_equal(scan_call(TS_SCAN_NEXT, 7, 2, a.scan, &b), -SCAN_UNKNOWN);
	assert_int_equal(scan_call(TS_SCAN_CLOSE, 7, 2, a.scan, &b), -SCAN_UNKNOWN);
	pthread_mutex_lock(&gate_lock);
	gate_shut = false;
	pthread_cond_broadcast(&gate_changed);
	pthread_mutex_unlock(&gate_lock);
	assert_int_equal(pthread_join(t, &err), 0);
	file_set_hook(NULL, NULL);
	assert_int_equal((intptr_t)err, -SCAN_UNKNOWN);
	assert_int_equal(open_scans(), 0);
	ts_answer_fini(&a);
	ts_answer_fini(&b);
	close_store();
}

int main(void)
{
#define L(f) cmocka_unit_test_setup_teardown(f, setup_options, test_dir_teardown)
	const struct CMUnitTest tests[] = {
		L(forgotten_scans),
		L(forgotten_salted_scans),
		L(scans_ahead),
		L(salted_scans_ahead),
		L(small_rows_are_of_one_instant),
		L(one_batch_ahead),
		L(growing_batches),
		L(lost_for_ever),
		L(scans_of_clients),
		L(idle_scans_are_freed),
		L(closed_under_way),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
