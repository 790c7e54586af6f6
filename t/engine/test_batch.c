/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch writer has the same effect as single mutations in the same order within
 * each row.  It reports each row that fails, writes the rest, and its memory is
 * bounded.
 */
#include "engine/client/client.h"
#include "engine/server/internal.h"
#include "t/engine/lib.h"
#include "t/lib/metric.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static struct tfs_table *other;
static unsigned failures;
static int last_err;

static void count_failure(void *arg, struct tfs_bytes row, int err)
{
	assert_true(row.n > 0);
	assert_true(err < 0);
	failures++; /* one call at a time */
	last_err = err;
	if (arg)
		memcpy((char *)arg + 16 * (failures - 1), row.p, row.n);
}

static struct tfs_table *make_other(void)
{
	struct tfs_table *t;

	assert_int_equal(store_table_make(store, "u", "fg", &t), 0);
	return t;
}

/* ---- at random ---- */

static void random_op(struct tfs_mutation *m, unsigned *seed, unsigned number)
{
	static const char *const families[] = {"f", "g"};
	static char qualifier[8], value[300]; /* the mutation borrows these until it has been added */
	static struct tfs_range range;
	static struct tfs_write w;
	const char *family = families[rand_r(seed) % 2];
	struct tfs_bytes q, v;

	snprintf(qualifier, sizeof(qualifier), "q%d", rand_r(seed) % 3);
	memset(value, 'a' + (int)(number % 26), sizeof(value));
	snprintf(value, sizeof(value), "%u", number);
	q = tfs_str(qualifier);
	v = tfs_bytes_of(value, (size_t)rand_r(seed) % sizeof(value));
	range = (struct tfs_range){(uint64_t)rand_r(seed) % 50, v};
	/* Their result depends on their order. */
	switch (rand_r(seed) % 8) {
	case 0:
		assert_int_equal(tfs_mutation_delete_column(m, family, q), 0);
		break;
	case 1:
		assert_int_equal(tfs_mutation_delete_row(m), 0);
		break;
	case 2:
		assert_int_equal(tfs_mutation_delete_version(m, family, q, rand_r(seed) % 20), 0);
		break;
	case 3:
	case 4:
		w = (struct tfs_write){.family = family,
			.qualifier = q,
			.base = TFS_BASE_NEWEST,
			.truncate_to = UINT64_MAX,
			.append = v,
			.place = tfs_at(rand_r(seed) % 20)};
		if (rand_r(seed) % 2) {
			w.ranges = &range;
			w.range_count = 1;
		}
		assert_int_equal(tfs_mutation_write(m, &w), 0);
		break;
	default:
		assert_int_equal(tfs_mutation_put(m, family, q, tfs_at(rand_r(seed) % 20), v), 0);
	}
}

static void one_mutation(struct tfs_table *t, struct tfs_batch *b, unsigned *seed, unsigned number)
{
	struct tfs_mutation *m;
	char row[16];

	snprintf(row, sizeof(row), "row%d", rand_r(seed) % 40);
	m = tfs_mutation_new(t, tfs_str(row));
	assert_non_null(m);
	random_op(m, seed, number);
	if (b)
		assert_int_equal(tfs_batch_add(b, m), 0);
	else
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
	tfs_mutation_free(m);
}

static void same_cells(void)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *a, *b;
	struct tfs_cell x, y;
	unsigned cells = 0;
	int n;

	assert_int_equal(tfs_scan_new(table, &spec, &a), 0);
	assert_int_equal(tfs_scan_new(other, &spec, &b), 0);
	while ((n = tfs_scan_next(a, &x)) > 0) {
		assert_int_equal(tfs_scan_next(b, &y), 1);
		assert_true(x.row.n == y.row.n && memcmp(x.row.p, y.row.p, x.row.n) == 0);
		assert_true(x.qualifier.n == y.qualifier.n && memcmp(x.qualifier.p, y.qualifier.p, x.qualifier.n) == 0);
		assert_string_equal(x.family, y.family);
		assert_int_equal(x.ts, y.ts);
		assert_true(x.size == y.size && memcmp(x.value.p, y.value.p, x.size) == 0);
		cells++;
	}
	assert_int_equal(n, 0);
	assert_int_equal(tfs_scan_next(b, &y), 0);
	assert_true(cells > 20);
	tfs_scan_free(a);
	tfs_scan_free(b);
}

static void against_one_by_one(void **state)
{
	open_store();
	other = make_other();
	for (unsigned round = 0; round < 12; round++) {
		struct tfs_batch_options o = {.threads = round % 5,
			.max_bytes = round % 3 ? (size_t)4096 << (round % 4) : 0,
			.sync = round % 4 == 1,
			.failed = count_failure};
		unsigned seed = round + 1, seed2 = round + 1;
		struct tfs_batch *b;

		failures = 0;
		assert_int_equal(tfs_batch_new(table, &o, &b), 0);
		for (unsigned i = 0; i < 1500; i++) {
			one_mutation(table, b, &seed, i);
			one_mutation(other, NULL, &seed2, i);
			if (i % 500 == 250) {
				assert_int_equal(tfs_batch_flush(b), 0);
				same_cells();
			}
		}
		assert_int_equal(tfs_batch_close(b), 0);
		assert_int_equal(failures, 0);
		same_cells();
	}
	tfs_table_close(other);
	close_store();
}

/* ---- failures ---- */

static int add_put(struct tfs_batch *b, struct tfs_table *t, const char *row, const char *family, int64_t ts)
{
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(row));
	int err = tfs_mutation_put(m, family, TFS_S("q"), tfs_at(ts), TFS_S("v"));

	if (!err)
		err = tfs_batch_add(b, m);
	tfs_mutation_free(m);
	return err;
}

static int look(const char *row)
{
	struct tfs_info info;

	return tfs_stat(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info);
}

static void rows_that_fail(void **state)
{
	static char names[100][16];
	struct tfs_batch_options o = {.failed = count_failure, .arg = names};
	struct tfs_batch *b;
	char row[16];

	open_store();
	other = make_other();
	failures = 0;
	memset(names, 0, sizeof(names));
	assert_int_equal(tfs_batch_new(table, &(struct tfs_batch_options){.threads = 65}, &b), -EINVAL);
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	/* A mutation that fails at once is not added. */
	assert_int_equal(add_put(b, table, "row", "no such", 1), -EINVAL);
	assert_int_equal(add_put(b, table, "", "f", 1), -EINVAL);
	assert_int_equal(add_put(b, other, "row", "f", 1), -EINVAL);
	assert_int_equal(tfs_batch_flush(b), 0);
	assert_int_equal(look("row"), -ENOENT);
	/* A check that fails, among others that do not. */
	for (unsigned i = 0; i < 100; i++) {
		struct tfs_mutation *m;

		snprintf(row, sizeof(row), "row%02u", i);
		m = tfs_mutation_new(table, tfs_str(row));
		if (i % 10 == 3)
			assert_int_equal(tfs_mutation_check(m, TFS_CHECK_EXISTS, "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 0);
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), TFS_S("v")), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_batch_flush(b), -ECANCELED);
	assert_int_equal(failures, 10);
	for (unsigned i = 0; i < 100; i++) {
		bool told = false;

		snprintf(row, sizeof(row), "row%02u", i);
		for (unsigned k = 0; k < failures; k++)
			told |= strcmp(names[k], row) == 0;
		assert_int_equal(told, i % 10 == 3);
		assert_int_equal(look(row), i % 10 == 3 ? -ENOENT : 0);
	}
	/* An error is returned once. */
	assert_int_equal(tfs_batch_flush(b), 0);
	assert_int_equal(tfs_close(store), -EBUSY); /* the batch holds the table */
	assert_int_equal(tfs_batch_close(b), 0);
	tfs_table_close(other);
	close_store();
}

/* Rows that are too large are reported, and the rows around them are stored. */
static void rows_too_large(void **state)
{
	static char names[2][16];
	const struct tfs_batch_options o = {.failed = count_failure, .arg = names};
	const size_t bytes = TFS_VALUE_MAX + 1, cells = (1u << 17) + 1;
	uint8_t *value = calloc(1, bytes);
	struct tfs_mutation *m;
	struct tfs_batch *b;

	open_store();
	failures = 0;
	assert_non_null(value);
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	assert_int_equal(add_put(b, table, "a", "f", 1), 0);
	m = tfs_mutation_new(table, TFS_S("large value"));
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(value, bytes)), 0);
	assert_int_equal(tfs_batch_add(b, m), 0);
	tfs_mutation_free(m);
	assert_int_equal(add_put(b, table, "b", "f", 1), 0);
	assert_int_equal(tfs_batch_flush(b), -EFBIG);
	assert_int_equal(failures, 1);
	assert_string_equal(names[0], "large value");
	m = tfs_mutation_new(table, TFS_S("many cells"));
	for (size_t i = 0; i < cells; i++)
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at((int64_t)i), TFS_S("")), 0);
	assert_int_equal(tfs_batch_add(b, m), 0);
	tfs_mutation_free(m);
	assert_int_equal(add_put(b, table, "c", "f", 1), 0);
	assert_int_equal(tfs_batch_close(b), -E2BIG);
	assert_int_equal(failures, 2);
	assert_string_equal(names[1], "many cells");
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(look(&"a\0b\0c"[2 * i]), 0);
	assert_int_equal(look("large value"), -ENOENT);
	assert_int_equal(look("many cells"), -ENOENT);
	free(value);
	close_store();
}

/* Mutations of one row that only write are one record of the log.  If a mutation fails, the rest does not. */
static void writes_of_a_row(void **state)
{
	static char names[100][16];
	struct tfs_batch_options o = {.threads = 1, .failed = count_failure, .arg = names};
	struct tfs_ts end = {TFS_NEWEST, INT64_MAX};
	struct tfs_mutation *m;
	struct tfs_batch *b;
	uint64_t records;
	char row[16];

	open_store();
	failures = 0;
	memset(names, 0, sizeof(names));
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	assert_int_equal(add_put(b, table, "before", "f", 1), 0);
	assert_int_equal(tfs_batch_flush(b), 0);
	records = metric_of(store, "log_records_total");
	for (unsigned i = 0; i < 200; i++) {
		snprintf(row, sizeof(row), "row%u", i % 20);
		assert_int_equal(add_put(b, table, row, "f", i), 0);
	}
	assert_int_equal(tfs_batch_flush(b), 0);
	records = metric_of(store, "log_records_total") - records;
	assert_in_range(records, 20, 100); /* background work may add some */
	assert_int_equal(put("row5", "q", INT64_MAX, TFS_S("v"), false), 0);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(row, sizeof(row), "row%u", i % 10);
		m = tfs_mutation_new(table, tfs_str(row));
		/* Nothing is newer than the newest time. */
		assert_int_equal(
			tfs_mutation_put(m, "f", i / 10 == 1 ? TFS_S("q") : TFS_S("r"), i / 10 == 1 ? end : tfs_at(i), TFS_S("v")),
			0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_batch_close(b), -EOVERFLOW);
	assert_int_equal(failures, 1);
	assert_string_equal(names[0], "row5");
	for (unsigned i = 0; i < 10; i++) {
		struct tfs_info info;

		snprintf(row, sizeof(row), "row%u", i);
		assert_int_equal(tfs_stat(table, tfs_str(row), "f", TFS_S("r"), tfs_at(i), &info), 0);
		assert_int_equal(tfs_stat(table, tfs_str(row), "f", TFS_S("r"), tfs_at(i + 20), &info), 0);
	}
	close_store();
}

/* Two writes that take their times from the server are two versions, as they are without a batch. */
static void times_of_the_server(void **state)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_batch_options o = {.threads = 1};
	struct tfs_mutation *m;
	struct tfs_scan *scan;
	struct tfs_batch *b;
	struct tfs_cell c;
	const char values[] = "210";

	open_store();
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	assert_int_equal(add_put(b, table, "a", "f", 1), 0);
	for (unsigned i = 0; i < 3; i++) {
		char v[] = {(char)('0' + i), 0};

		m = tfs_mutation_new(table, tfs_str("r"));
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_str(v)), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_batch_close(b), 0);
	spec.row_from = TFS_S("r");
	assert_int_equal(tfs_scan_new(table, &spec, &scan), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(tfs_scan_next(scan, &c), 1);
		assert_int_equal(c.value.n, 1);
		assert_int_equal(*(const char *)c.value.p, values[i]);
	}
	assert_int_equal(tfs_scan_next(scan, &c), 0);
	tfs_scan_free(scan);
	close_store();
}

/* ---- one sync ---- */

enum { MANY = 256 };
struct request {
	struct ts_request q;
	struct row_mutation rows[MANY];
	struct op ops[MANY];
	char names[MANY][16];
	int errs[MANY];
};

/* Rows of a request: name and op of each. */
static void request_init(struct request *r, unsigned count, enum op_kind kind)
{
	*r = (struct request){.q = {.method = TS_MUTATE, .rows = r->rows, .row_count = count, .sync = true}};
	r->q.table = store_tablets_id(table);
	for (unsigned i = 0; i < count; i++) {
		snprintf(r->names[i], sizeof(r->names[i]), "row%05u", i);
		r->ops[i] = (struct op){.kind = kind,
			.family = store_family_id(table, "f"),
			.w.qualifier = tfs_str("q"),
			.w.place = {true, INT64_MIN},
			.by = 1,
			.value = tfs_str("v"),
			.w.truncate_to = UINT64_MAX};
		r->rows[i] = (struct row_mutation){tfs_str(r->names[i]), &r->ops[i], 1};
	}
}

/* Sends it, and returns the number of syncs that it took. */
static uint64_t request_send(struct request *r)
{
	struct ts_answer a = {.row_errs = r->errs};
	uint64_t before = metric_of(store, "log_syncs");

	assert_int_equal(ts_call(server_service(hooks.server), &r->q, &a), 0);
	ts_answer_fini(&a);
	return metric_of(store, "log_syncs") - before;
}

static void one_sync(void **state)
{
	static struct request r;

	options.sync_interval_us = 3600 * 1000000ull; /* no lazy sync is counted */
	options.no_background = true;
	open_store();
	assert_int_equal(put("a", "q", 1, TFS_S("v"), true), 0); /* the redo point */
	request_init(&r, MANY, OP_WRITE);
	assert_int_equal(request_send(&r), 1);
	/* Mutations that read share stripes of rows within a request. */
	request_init(&r, MANY, OP_INCREMENT);
	assert_int_equal(request_send(&r), 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(r.errs[i], -EINVAL); /* "v" is no number */
	for (unsigned i = 0; i < MANY; i++)
		r.ops[i].w.qualifier = tfs_str("n");
	assert_int_equal(request_send(&r), 1);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(r.errs[i], 0);
	/* With the server's own setting. */
	request_init(&r, MANY, OP_WRITE);
	r.q.sync = false;
	assert_int_equal(request_send(&r), 0);
	hooks.server->sync = true;
	assert_int_equal(request_send(&r), 1);
	hooks.server->sync = false;
	close_store();
}

/* Each mutation of a row sees those before it, whatever is between them; a refused one changes nothing. */
static void order_within_a_row(void **state)
{
	static struct request r;
	static const char *const expected[] = {"13", "v5xx"};
	char value[16];
	size_t got;

	open_store();
	request_init(&r, 40, OP_INCREMENT);
	for (unsigned i = 0; i < 40; i++) {
		static const struct op append = {.kind = OP_WRITE, .w.base = TFS_BASE_NEWEST, .w.truncate_to = UINT64_MAX};
		static char values[40][8];

		if (i % 3 == 0) { /* 0, 3, 6, ...: an append, or a new value */
			const uint16_t family = r.ops[i].family;

			snprintf(values[i], sizeof(values[i]), "v%u", i / 6);
			if (i == 30) {
				r.ops[i].kind = OP_WRITE;
				r.ops[i].value = tfs_str(values[i]);
			} else {
				r.ops[i] = append;
				r.ops[i].w.append = tfs_str(i > 30 && i < 37 ? "x" : "");
			}
			r.ops[i].family = family;
			r.ops[i].w.qualifier = tfs_str("w");
			r.ops[i].w.place = TFS_AUTO;
		}
		r.rows[i].row = tfs_str(i % 3 == 2 ? r.names[i] : "same");
	}
	r.rows[20].op_count = 0;
	request_send(&r);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(r.errs[i], i == 20 ? -EINVAL : 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(tfs_read(table, TFS_S("same"), "f", i ? TFS_S("w") : TFS_S("q"), TFS_AUTO, 0, value, sizeof(value),
					 &got, NULL),
			0);
		assert_int_equal(got, strlen(expected[i]));
		assert_memory_equal(value, expected[i], got);
	}
	assert_int_equal(look("row00020"), -ENOENT);
	assert_int_equal(look("row00023"), 0);
	close_store();
}

static void table_dropped(void **state)
{
	struct tfs_batch_options o = {.failed = count_failure};
	struct tfs_batch *b;
	char row[16];

	open_store();
	failures = 0;
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(row, sizeof(row), "row%02u", i);
		assert_int_equal(add_put(b, table, row, "f", 1), 0);
	}
	assert_int_equal(tfs_batch_close(b), -ENOENT);
	assert_int_equal(failures, 50);
	assert_int_equal(last_err, -ENOENT);
	close_store();
}

static _Atomic unsigned log_writes;

/* From the tenth write of the log on it finds no space. */
static int full_disk(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (!strstr(path, "/log/") || (op != FILE_OP_WRITE && op != FILE_OP_CREATE && op != FILE_OP_ALLOCATE))
		return 0;
	return log_writes++ >= 10 ? -ENOSPC : 0;
}

static void disk_full(void **state)
{
	static char names[2000][16];
	struct tfs_batch_options o = {.failed = count_failure, .arg = names, .max_bytes = 8192};
	static bool told[2000];
	struct tfs_batch *b;
	char row[16];

	options.no_background = true;
	open_store();
	failures = 0;
	memset(names, 0, sizeof(names));
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	assert_int_equal(add_put(b, table, "first", "f", 1), 0);
	assert_int_equal(tfs_batch_flush(b), 0);
	log_writes = 0;
	file_set_hook(full_disk, NULL);
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "row%04u", i);
		assert_int_equal(add_put(b, table, row, "f", 1), 0);
	}
	assert_true(tfs_batch_flush(b) < 0);
	assert_true(failures > 0 && failures < 2000);
	assert_true(last_err == -ENOSPC || last_err == -EROFS || last_err == -EIO);
	for (unsigned k = 0; k < failures; k++)
		told[atoi(names[k] + 3)] = true;
	file_set_hook(NULL, NULL);
	assert_int_equal(tfs_batch_close(b), 0);
	hooks.no_flush = true;
	close_store();
	open_store();
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "row%04u", i);
		if (!told[i])
			assert_int_equal(look(row), 0);
	}
	close_store();
}

/* ---- memory ---- */

static _Atomic unsigned added;
static _Atomic bool blocked, over;

/* The log does not write until as many mutations as fit have been added; no more than that. */
static int hold_log(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op != FILE_OP_WRITE || !strstr(path, "/log/") || !blocked)
		return 0;
	while (added < 15)
		sched_yield();
	for (unsigned i = 0; i < 20000; i++) {
		over |= added > 15;
		sched_yield();
	}
	blocked = false;
	return 0;
}

static void memory_is_bounded(void **state)
{
	static char value[64 << 10];
	struct tfs_batch_options o = {.max_bytes = 1 << 20, .threads = 3};
	struct tfs_batch *b;
	char row[16];

	hooks.log_stall_us = 600 * UINT64_C(1000000);
	open_store();
	assert_int_equal(put("first", "q", 1, TFS_S("v"), true), 0);
	assert_int_equal(tfs_batch_new(table, &o, &b), 0);
	added = 0;
	blocked = true;
	over = false;
	file_set_hook(hold_log, NULL);
	for (unsigned i = 0; i < 100; i++) {
		struct tfs_mutation *m;

		snprintf(row, sizeof(row), "row%04u", i);
		m = tfs_mutation_new(table, tfs_str(row));
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(value, sizeof(value))), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
		added++;
	}
	assert_int_equal(tfs_batch_flush(b), 0);
	file_set_hook(NULL, NULL);
	assert_false(blocked);
	assert_false(over);
	/* Larger than the limit: by itself. */
	{
		struct tfs_mutation *m = tfs_mutation_new(table, TFS_S("large"));
		static char large[2 << 20];

		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(large, sizeof(large))), 0);
		assert_int_equal(add_put(b, table, "small", "f", 1), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(add_put(b, table, "small too", "f", 1), 0);
	assert_int_equal(tfs_batch_close(b), 0);
	assert_int_equal(look("large"), 0);
	assert_int_equal(look("small"), 0);
	assert_int_equal(look("small too"), 0);
	close_store();
}

/* ---- many callers ---- */

static struct tfs_batch *shared;

static _Atomic bool large_is_in;

static void *small_ones(void *arg)
{
	char row[32];

	for (unsigned i = 0; !large_is_in; i++) {
		snprintf(row, sizeof(row), "%d.%03u", (int)(intptr_t)arg, i % 100);
		assert_int_equal(add_put(shared, table, row, "f", i), 0);
		added++;
	}
	return NULL;
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const unsigned *)a - (int)*(const unsigned *)b;
}

/* A mutation that needs the whole limit has its turn, however many small mutations arrive before that. */
static void nobody_is_passed(void **state)
{
	static char large[64 << 10];
	struct tfs_batch_options o = {.max_bytes = sizeof(large)};
	struct tfs_mutation *m;
	pthread_t threads[3];
	unsigned passed[15];

	open_store();
	added = 0;
	large_is_in = false;
	assert_int_equal(tfs_batch_new(table, &o, &shared), 0);
	for (intptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, small_ones, (void *)i), 0);
	m = tfs_mutation_new(table, TFS_S("large"));
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(large, sizeof(large))), 0);
	for (unsigned i = 0; i < 15; i++) {
		passed[i] = added;
		while (added < passed[i] + 1000)
			sched_yield();
		passed[i] = added;
		assert_int_equal(tfs_batch_add(shared, m), 0);
		passed[i] = added - passed[i];
	}
	large_is_in = true;
	/* Before it waits for the lock, and after it has left, others continue: half of the times this is no more than a few. */
	qsort(passed, 15, sizeof(*passed), by_number);
	print_message("# passed by %u, %u, %u\n", passed[0], passed[7], passed[14]);
	assert_true(passed[7] < 150);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	tfs_mutation_free(m);
	assert_int_equal(tfs_batch_close(shared), 0);
	assert_int_equal(look("large"), 0);
	close_store();
}

static void *caller(void *arg)
{
	char row[32];

	for (unsigned i = 0; i < 500; i++) {
		snprintf(row, sizeof(row), "%d.%03u", (int)(intptr_t)arg, i % 100);
		assert_int_equal(add_put(shared, table, row, "f", i), 0);
		if (i % 100 == 99) {
			assert_int_equal(tfs_batch_flush(shared), 0);
			assert_int_equal(look(row), 0); /* whatever other threads add */
		}
	}
	return NULL;
}

static void many_callers(void **state)
{
	pthread_t threads[4];

	open_store();
	assert_int_equal(tfs_batch_new(table, NULL, &shared), 0);
	for (intptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, caller, (void *)i), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(tfs_batch_close(shared), 0);
	close_store();
}

int main(void)
{
#define B(f) cmocka_unit_test_setup_teardown(f, setup_options, test_dir_teardown)
	const struct CMUnitTest tests[] = {
		B(against_one_by_one),
		B(rows_that_fail),
		B(rows_too_large),
		B(writes_of_a_row),
		B(times_of_the_server),
		B(one_sync),
		B(order_within_a_row),
		B(table_dropped),
		B(disk_full),
		B(memory_is_bounded),
		B(many_callers),
		B(nobody_is_passed),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
