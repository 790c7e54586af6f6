/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on rows are linearizable (t/lin): threads of clients read, write, append,
 * increment, check and scan the same few rows, singly and in batches, while the tablets
 * are flushed, compacted, split and merged.  The history continues over a kill of the
 * process, and over a power cut where every write is synced: operations without an
 * answer may have been applied before, or never.  LINEAR_OPS, LINEAR_SEED.
 */
#include "engine/server/tablets/tablets.h"
#include "t/engine/lib.h"
#include "t/lib/xorshift.h"
#include "t/lin/client.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS 4
#define CLIENTS 8
#define OPS_MOST 100000
#define TEXT_BYTES (64 << 20)

/* The history.  It outlives the processes, which map it at the same address. */
static struct shared {
	_Atomic uint32_t op_count, run, moves;
	_Atomic uint64_t text_used;
	struct lin_op ops[OPS_MOST];
	unsigned char rows[OPS_MOST];
	char texts[TEXT_BYTES];
} * shared;

static uint64_t seed, kill_at;
static uint32_t stop_at, die_at; /* counts of operations */
static bool power;
static _Atomic uint64_t file_ops;
static _Atomic bool stopped;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *text(void *arg, const void *data, size_t size)
{
	uint64_t at = atomic_fetch_add(&shared->text_used, size + 1);

	if (at + size + 1 > TEXT_BYTES)
		abort();
	memcpy(shared->texts + at, data, size);
	return shared->texts + at;
}

/* Returns NULL if the run is over.  The operation is called now, unless it has been called before. */
static struct lin_op *called(const struct lin_op *op, unsigned row)
{
	uint32_t i = atomic_fetch_add(&shared->op_count, 1);

	if (i >= stop_at) {
		atomic_fetch_sub(&shared->op_count, 1);
		return NULL;
	}
	shared->rows[i] = (unsigned char)row;
	shared->ops[i] = *op;
	if (!op->called)
		shared->ops[i].called = now_ns();
	if (i + 1 == die_at)
		raise(SIGKILL);
	return &shared->ops[i];
}

/* Stores the time of the answer last.  If the process is killed before that, the operation has no answer. */
static void answered(struct lin_op *op, const struct lin_op *draft, int64_t at)
{
	*op = *draft;
	op->answered = 0;
	__atomic_store_n(&op->answered, at, __ATOMIC_RELEASE);
}

static struct lin_client client_new(unsigned number)
{
	return (struct lin_client){.number = number,
		.rows = ROWS,
		.x = (seed + shared->run) * 0x9e3779b97f4a7c15u + number + 1,
		.flags = power ? TFS_APPLY_SYNC : 0,
		.families = {"f", "g"},
		.text = text,
		.count = shared->run * 1000000};
}

static void *be_client(void *arg)
{
	struct lin_client c = client_new((unsigned)(uintptr_t)arg);
	struct lin_op draft, *op;

	for (;;) {
		unsigned row = lin_draw(&c, &draft);

		op = called(&draft, row);
		if (!op)
			return NULL;
		lin_run(&c, table, row, &draft);
		draft.called = op->called;
		if (draft.outcome == LIN_DOUBT)
			continue;
		answered(op, &draft, now_ns());
	}
}

/* A scan of the table is a read of each row. */
static int scan_all(struct lin_client *c)
{
	struct lin_op drafts[ROWS], *ops[ROWS];
	int64_t from = now_ns(), to;
	int err;

	for (unsigned i = 0; i < ROWS; i++) {
		drafts[i] = (struct lin_op){.kind = LIN_READ, .columns = 15, .client = c->number, .called = from};
		ops[i] = &drafts[i];
	}
	err = lin_scan(c, table, ops);
	to = now_ns();
	for (unsigned i = 0; i < ROWS && !err; i++) {
		struct lin_op *op = called(&drafts[i], i);

		if (!op)
			return 1;
		answered(op, &drafts[i], to);
	}
	return err;
}

static void *scan_rows(void *arg)
{
	struct lin_client c = client_new(CLIENTS);

	while (!atomic_load(&stopped) && !scan_all(&c))
		;
	return NULL;
}

/* A batch with a put of two columns in each row.  Returns 0, or 1 if the run is over. */
static int put_all(struct lin_client *c)
{
	const struct tfs_batch_options o = {.threads = 2, .sync = power};
	struct lin_op drafts[ROWS], *ops[ROWS];
	struct tfs_batch *b;
	unsigned n = 0;
	int err;

	if (tfs_batch_new(table, &o, &b))
		abort();
	for (; n < ROWS; n++) {
		struct tfs_mutation *m;
		char name[16];

		drafts[n] = (struct lin_op){.kind = LIN_PUT, .columns = 3, .client = c->number};
		snprintf(name, sizeof(name), "%u.%u;", c->number, ++c->count);
		drafts[n].value = text(NULL, name, strlen(name));
		ops[n] = called(&drafts[n], n);
		if (!ops[n])
			break;
		drafts[n].called = ops[n]->called;
		lin_row(name, n);
		m = tfs_mutation_new(table, tfs_str(name));
		for (unsigned i = 0; i < 2; i++)
			if (!m || tfs_mutation_put(m, c->families[i], tfs_str(lin_columns[i]), TFS_AUTO, tfs_str(drafts[n].value)))
				abort();
		if (tfs_batch_add(b, m))
			abort();
		tfs_mutation_free(m);
	}
	err = tfs_batch_close(b);
	for (unsigned i = 0; i < n && !err; i++) {
		drafts[i].outcome = LIN_OK;
		answered(ops[i], &drafts[i], now_ns());
	}
	return n < ROWS;
}

static void *put_batches(void *arg)
{
	struct lin_client c = client_new(CLIENTS + 1);

	while (!put_all(&c))
		;
	return NULL;
}

static void *move_tablets(void *arg)
{
	uint64_t x = (seed + shared->run) * 131 + 7;
	char row[16];

	for (unsigned i = 0; i < 30 || !atomic_load(&stopped); i++) {
		unsigned what = (unsigned)(xorshift(&x) >> 11) % 16;
		int err;

		lin_row(row, (unsigned)(xorshift(&x) >> 11) % ROWS);
		if (what < 2)
			err = tfs_compact(table);
		else if (what < 6)
			err = tfs_flush(table);
		else if (what < 11)
			err = tfs_merge(table, tfs_str(row));
		else
			err = tfs_split(table, tfs_str(row));
		atomic_fetch_add(&shared->moves, !err);
		if (err && err != -ENOENT && err != -EEXIST && err != -EBUSY)
			_exit(5);
		retire_soon(hooks.server);
	}
	return NULL;
}

static void run_clients(void)
{
	pthread_t clients[CLIENTS], others[3];

	atomic_store(&stopped, false);
	for (uintptr_t i = 0; i < CLIENTS; i++)
		if (pthread_create(&clients[i], NULL, be_client, (void *)i))
			abort();
	if (pthread_create(&others[0], NULL, move_tablets, NULL) || pthread_create(&others[1], NULL, scan_rows, NULL) ||
		pthread_create(&others[2], NULL, put_batches, NULL))
		abort();
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	atomic_store(&stopped, true);
	pthread_join(others[0], NULL);
	pthread_join(others[1], NULL);
	pthread_join(others[2], NULL);
}

static void history_new(void)
{
	char *why = NULL;

	seed = getenv("LINEAR_SEED") ? strtoull(getenv("LINEAR_SEED"), NULL, 10) : 1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(shared != MAP_FAILED);
	options.memtable_bytes = 128 << 10;
	options.log_segment_bytes = 256 << 10;
	hooks.merge_after_us = 1;
	open_store();
	assert_int_equal(tfs_schema_set_text(table,
				 tfs_str("families = ( { name = \"f\"; gc = \"maxversions=2\"; },"
					 " { name = \"g\"; gc = \"maxversions=1\"; group = \"other\"; } );"
					 "groups = ( { name = \"other\"; } );"),
				 TFS_NO_TIME, &why),
		0);
}

/* Every row has an order. */
static void check(void)
{
	struct lin_op *ops = calloc(OPS_MOST, sizeof(*ops));
	uint64_t steps = 0, doubts = 0, failed = 0;
	int64_t start = now_ns();

	for (unsigned row = 0; row < ROWS; row++) {
		struct lin_verdict v;
		size_t n = 0;

		for (uint32_t i = 0; i < shared->op_count; i++)
			if (shared->rows[i] == row)
				ops[n++] = shared->ops[i];
		for (size_t i = 0; i < n; i++) {
			doubts += ops[i].outcome == LIN_DOUBT;
			failed += ops[i].outcome == LIN_FAILED;
		}
		v = lin_check(ops, n, 0);
		steps += v.steps;
		if (v.result == LIN_BAD) {
			fprintf(stderr, "row %u: ", row);
			lin_explain(stderr, ops, n, lin_columns);
		}
		assert_int_equal(v.result, LIN_GOOD);
	}
	print_message("# %u operations, %llu in doubt, %llu failed checks, %u splits, merges and others; %llu steps, %lld ms\n",
		shared->op_count, (unsigned long long)doubts, (unsigned long long)failed, shared->moves, (unsigned long long)steps,
		(long long)(now_ns() - start) / 1000000);
	assert_true(failed > 0);
	free(ops);
	munmap(shared, sizeof(*shared));
}

static uint32_t op_total(uint32_t usual)
{
	uint32_t n = getenv("LINEAR_OPS") ? (uint32_t)atoi(getenv("LINEAR_OPS")) : usual;

	return n < OPS_MOST ? n : OPS_MOST;
}

static void test_threads(void **state)
{
	power = false;
	history_new();
	stop_at = op_total(30000);
	run_clients();
	close_store();
	check_is_clean();
	assert_true(shared->moves > 0);
	check();
}

static void *put_blindly(void *arg)
{
	for (unsigned i = 0; i < 20000; i++) {
		struct tfs_mutation *m = tfs_mutation_new(table, TFS_S("row"));

		if (!m || tfs_mutation_put(m, "f", TFS_S("a"), TFS_AUTO, TFS_S("v")) ||
			tfs_mutation_put(m, "f", TFS_S("b"), TFS_AUTO, TFS_S("v")) || tfs_apply(m, 0, NULL))
			abort();
		tfs_mutation_free(m);
	}
	return NULL;
}

/* Later writes have later times: else a put of several columns would be the newest in some of them only. */
static void test_times_rise(void **state)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	uint64_t cells = 0, last = 0;
	pthread_t threads[CLIENTS];
	struct tfs_scan *s;
	struct tfs_cell c;

	open_store();
	assert_int_equal(tfs_schema_set_text(table, tfs_str("families = ( { name = \"f\"; } );"), TFS_NO_TIME, NULL), 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_blindly, NULL), 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	for (; tfs_scan_next(s, &c) > 0; last = c.sequence, cells++)
		if (cells % (CLIENTS * 20000) && c.sequence >= last)
			fail_msg("the version at %lld has sequence %llu, the newer one before it %llu", (long long)c.ts,
				(unsigned long long)c.sequence, (unsigned long long)last);
	assert_int_equal(cells, 2 * CLIENTS * 20000);
	tfs_scan_free(s);
	close_store();
}

static unsigned survives(void *arg, unsigned index, unsigned ways)
{
	return (unsigned)(xorshift(arg) >> 11) % ways;
}

static int die_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint64_t x = seed + shared->run;

	if (atomic_fetch_add(&file_ops, 1) + 1 != kill_at)
		return 0;
	(void)!file_forget_crash(survives, &x);
	_exit(0);
}

static void live_and_die(void)
{
	if (power && file_forget_start(in_dir("store")))
		_exit(2);
	if (power)
		file_set_hook(die_hook, NULL);
	open_store();
	run_clients();
	_exit(0);
}

/* What has no answer was applied before this moment, or never will be. */
static void end_doubts(uint32_t from)
{
	int64_t now = now_ns();

	for (uint32_t i = from; i < shared->op_count; i++)
		if (!shared->ops[i].answered) {
			shared->ops[i].outcome = LIN_DOUBT;
			shared->ops[i].answered = now;
		}
}

static void rounds(unsigned count, uint32_t total)
{
	uint64_t x;

	history_new();
	close_store();
	x = seed;
	for (unsigned i = 1; i <= count; i++) {
		uint32_t from = shared->op_count;
		int status;
		pid_t pid;

		shared->run = i;
		stop_at = from + total / count;
		die_at = power ? 0 : from + 1 + (uint32_t)(xorshift(&x) >> 11) % (total / count);
		kill_at = 1 + (xorshift(&x) >> 11) % (i % 3 ? 4000 : 400);
		fflush(stdout);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			live_and_die();
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
			fail_msg("run %u: status %x", i, (unsigned)status);
		end_doubts(from);
	}
	shared->run = count + 1;
	stop_at = OPS_MOST;
	die_at = 0;
	open_store();
	{
		struct lin_client c = client_new(CLIENTS);

		assert_int_equal(scan_all(&c), 0);
	}
	close_store();
	check_is_clean();
	check();
}

static void test_killed(void **state)
{
	power = false;
	rounds(12, op_total(40000));
}

static void test_power_cut(void **state)
{
	power = true;
	rounds(12, op_total(40000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_threads, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_times_rise, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_power_cut, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
