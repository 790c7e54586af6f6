/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A split or merge that a crash interrupted between two steps is completed, also if
 * its tablets are split, merged or compacted before.  The finished steps are
 * written into METADATA by hand.  A waiting split or merge blocks certain calls only.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/tablets/tablets.h"
#include "engine/tablet/tablet_impl.h"
#include "t/engine/lib.h"
#include "t/lib/file_faults.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void reopen(void)
{
	hooks.no_flush = true;
	close_store();
	open_store();
}

static void fill(const char *word, int from, int to)
{
	char row[32];

	for (int i = from; i < to; i++) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(put(row, "q", 1, tfs_str(word), false), 0);
	}
}

static void row_key(struct buf *key, const char *end)
{
	assert_int_equal(meta_row_key(key, tfs_table_id(table), !end, end ? tfs_str(end) : tfs_bytes_of(NULL, 0)), 0);
}

static void read_row(const char *end, struct meta_tablet *m)
{
	struct buf key = {0};

	row_key(&key, end);
	assert_int_equal(metadata_read(server_service(hooks.server), buf_bytes(&key), m), 0);
	buf_fini(&key);
}

static void mutate_row(const char *end, const struct op *ops, unsigned count)
{
	struct buf key = {0};

	row_key(&key, end);
	assert_int_equal(metadata_mutate(server_service(hooks.server), buf_bytes(&key), ops, count), 0);
	buf_fini(&key);
}

/* Step 1 of a split of the tablet that ends at `end` (NULL: the table). */
static void begin_split(const char *end, const char *at)
{
	struct meta_tablet m = {0}, lower = {0};
	struct arena arena = {0};
	struct op *ops;
	unsigned count;

	read_row(end, &m);
	assert_int_equal(meta_tablet_lower(&m, tfs_str(at), &lower), 0);
	assert_int_equal(meta_ops_split(&lower, "by hand", &arena, &ops, &count), 0);
	mutate_row(at, ops, count);
	meta_tablet_fini(&m);
	meta_tablet_fini(&lower);
	arena_fini(&arena);
}

/* Steps 2 and, unless it is cut short before, 3 of a merge of the tablets that end at `middle` and `end`. */
static void begin_merge(const char *begin, const char *middle, const char *end, bool third)
{
	const struct op gone = {.kind = OP_DELETE_ROW, .w.truncate_to = UINT64_MAX};
	struct meta_tablet lower = {0};
	struct arena arena = {0};
	struct op *ops;
	unsigned count;

	read_row(middle, &lower);
	assert_int_equal(lower.redo_count, 0);
	assert_int_equal(buf_set(&lower.begin, begin, strlen(begin)), 0);
	assert_int_equal(meta_ops_merge(&lower, &arena, &ops, &count), 0);
	mutate_row(end, ops, count);
	if (third)
		mutate_row(middle, &gone, 1);
	meta_tablet_fini(&lower);
	arena_fini(&arena);
}

static void compact_at(const char *row)
{
	struct served_tablet *h;

	assert_int_equal(served_find(hooks.server, tfs_table_id(table), tfs_str(row), &h), 0);
	assert_int_equal(tablet_compact(h->tablet), 0);
	served_put(h);
}

static unsigned count_files(const char *row)
{
	struct tablet_stats st;
	struct served_tablet *h;

	assert_int_equal(served_find(hooks.server, tfs_table_id(table), tfs_str(row), &h), 0);
	tablet_get_stats(h->tablet, &st);
	served_put(h);
	return st.files;
}

/* Three tablets, each with a file of its own; the upper two are then merged up to step 3. */
static void make_merged(void)
{
	options.no_background = true;
	open_store();
	fill("v", 0, 90);
	assert_int_equal(tfs_split(table, tfs_str("row00030")), 0);
	assert_int_equal(tfs_split(table, tfs_str("row00060")), 0);
	assert_int_equal(tfs_compact(table), 0);
	begin_merge("row00030", "row00060", NULL, true);
	reopen();
	expect_rows("v", 0, 90);
	assert_int_equal(count_files("row00050"), 2);
}

static void test_split_of_merged(void **state)
{
	make_merged();
	assert_int_equal(tfs_split(table, tfs_str("row00045")), 0);
	expect_rows("v", 0, 90);
	reopen();
	expect_rows("v", 0, 90);
	close_store();
}

/* Rows wholly below are still in the upper tablet when both are merged again. */
static void test_merge_of_split(void **state)
{
	options.no_background = true;
	open_store();
	fill("old", 0, 30);
	assert_int_equal(tfs_flush(table), 0);
	fill("old", 30, 60);
	assert_int_equal(tfs_flush(table), 0);
	hooks.no_flush = true;
	begin_split(NULL, "row00030");
	reopen();
	expect_rows("old", 0, 60);
	fill("old", 30, 60);
	for (int i = 0; i < 30; i++) {
		char row[32];

		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(store_delete_row(table, tfs_str(row)), 0);
	}
	compact_at("row00000"); /* no tombstone stays */
	expect_rows("old", 30, 60);
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	expect_rows("old", 30, 60);
	reopen();
	expect_rows("old", 30, 60);
	close_store();
}

/* ---- a merge, killed at each of its file operations ---- */

static _Atomic unsigned kill_at, ops_done; /* kill_at 0: not yet */

static int kill_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (kill_at && ++ops_done == kill_at)
		_exit(0);
	return 0;
}

/* True when it was done before the kill. */
static bool merge_killed_at(unsigned at)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		file_set_hook(kill_hook, NULL);
		open_store();
		kill_at = at;
		_exit(tfs_merge(table, tfs_str("row00000")) ? 2 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 1;
}

/* A merge with the tablet below it: its step 2 must not overwrite the first merge's result. */
static void test_merge_of_merged(void **state)
{
	bool done = false;

	make_merged();
	close_store();
	assert_true(put_back("store", "saved"));
	for (unsigned at = 1; !done; at++) {
		assert_true(put_back("saved", "store"));
		done = merge_killed_at(at);
		open_store();
		expect_rows("v", 0, 90);
		close_store();
	}
}

/* ---- a disk that fails for a while ---- */

enum { BAD_ROWS = 60 };
static _Atomic unsigned fail_from, fail_to; /* fail_to is 0 if none fails */

static int fail_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	unsigned done;

	if (!fail_to || op == FILE_OP_READ || op == FILE_OP_OPEN)
		return 0;
	done = ++ops_done;
	return done >= fail_from && done < fail_to ? -EIO : 0;
}

/* Each row has its last value if that was acknowledged, else its last or its previous value. */
static void expect_written(const bool *told)
{
	char row[32], value[8];

	for (int i = 0; i < BAD_ROWS; i++) {
		size_t got = 0;

		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value), &got, NULL), 0);
		assert_int_equal(got, 1);
		assert_true(value[0] == 'w' || (value[0] == 'v' && !told[i]));
	}
}

/* True when there was nothing left to fail. */
static bool fails_at(unsigned at, unsigned times, bool merging, unsigned *refused)
{
	bool told[BAD_ROWS], over;
	char row[32];

	ops_done = 0;
	fail_from = at;
	fail_to = 0;
	file_set_hook(fail_hook, NULL);
	open_store();
	fail_to = at + times;
	*refused += (merging ? tfs_merge : tfs_split)(table, tfs_str(merging ? "row00000" : "row00040")) != 0;
	over = ops_done < at;
	fail_to = 0;
	for (int i = 0; i < BAD_ROWS; i++) {
		snprintf(row, sizeof(row), "row%05d", i);
		told[i] = put(row, "q", 2, tfs_str("w"), false) == 0;
	}
	expect_written(told);
	/* Once more, completed by the background. */
	(void)!tfs_flush(table);
	(void)!(merging ? tfs_split : tfs_merge)(table, tfs_str(merging ? "row00010" : "row00000"));
	expect_written(told);
	(void)!tfs_compact(table);
	expect_written(told);
	hooks.no_flush = true;
	close_store();
	file_set_hook(NULL, NULL);
	open_store();
	expect_written(told);
	for (int i = 0; i < BAD_ROWS; i++) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(put(row, "q", 3, tfs_str("w"), false), 0);
	}
	close_store();
	return over;
}

static void test_disk_fails(void **state)
{
	static const unsigned times[] = {1, 2, 5, 1000};

	options.no_background = true;
	assert_int_equal(mkdir(in_dir("none"), 0755), 0);
	for (int merging = 0; merging < 2; merging++) {
		open_store();
		fill("v", 0, BAD_ROWS);
		if (merging)
			assert_int_equal(tfs_split(table, tfs_str("row00030")), 0);
		assert_int_equal(tfs_compact(table), 0);
		fill("v", 10, 50);
		hooks.no_flush = true;
		close_store();
		assert_true(put_back("store", "saved"));
		for (unsigned t = 0; t < sizeof(times) / sizeof(times[0]); t++) {
			unsigned refused = 0, at = 0;
			bool over = false;

			while (!over) {
				assert_true(put_back("saved", "store"));
				over = fails_at(++at, times[t], merging, &refused);
			}
			print_message("# %s, %u failures at each of %u operations: %u refused\n", merging ? "merges" : "splits",
				times[t], at - 1, refused);
		}
		assert_true(put_back("none", "store")); /* the next one begins with an empty one */
	}
}

/* ---- METADATA that answers with errors ---- */

static struct faulty {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	bool lose_deletes, refuse_deletes, then_no_reads;
	_Atomic bool no_reads;
} faulty;

static bool deletes_row(const struct ts_request *q)
{
	const struct row_mutation *m = q->rows;

	return q->method == TS_MUTATE && m->op_count && m->ops[m->op_count - 1].kind == OP_DELETE_ROW;
}

static int faulty_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct faulty *f = (struct faulty *)s;
	bool lost = f->lose_deletes && deletes_row(q);
	int err;

	if (f->no_reads && q->method == TS_SCAN_OPEN)
		return a->err = -EIO;
	if (f->refuse_deletes && deletes_row(q)) {
		f->no_reads = f->then_no_reads;
		return a->err = -EIO;
	}
	err = ts_call(f->real, q, a);
	if (lost) {
		f->no_reads = f->then_no_reads;
		a->err = err = -EIO;
	}
	return err;
}

static void answer_with_errors(const struct faulty *f)
{
	static const struct tablet_service_ops ops = {.call = faulty_call};

	faulty = *f;
	faulty.service.ops = &ops;
	faulty.real = hooks.server->metadata;
	hooks.server->metadata = &faulty.service;
}

/*
 * The third step did not take place: the two continue as they were, and the next
 * change of the upper one's row abandons the merge.
 */
static void test_merge_refused(void **state)
{
	struct meta_tablet upper = {0};

	options.no_background = true;
	open_store();
	fill("v", 0, 60);
	assert_int_equal(tfs_split(table, tfs_str("row00030")), 0);
	assert_int_equal(tfs_compact(table), 0);
	answer_with_errors(&(struct faulty){.refuse_deletes = true});
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), -EIO);
	read_row(NULL, &upper);
	assert_non_null(upper.merge);
	meta_tablet_fini(&upper);
	fill("w", 0, 60);
	read_row(NULL, &upper);
	assert_null(upper.merge);
	meta_tablet_fini(&upper);
	assert_int_equal(tfs_compact(table), 0);
	reopen();
	expect_rows("w", 0, 60);
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	expect_rows("w", 0, 60);
	close_store();
}

static unsigned count_tablets(void)
{
	struct served_tablet **list;
	unsigned n;

	assert_int_equal(served_list(hooks.server, tfs_table_id(table), &list, &n), 0);
	for (unsigned i = 0; i < n; i++)
		served_put(list[i]);
	free(list);
	return n;
}

/* Three tablets, and the outcome of the upper two's merge is unknown; `took`: its third step has taken place. */
static void make_doubt(bool took)
{
	options.no_background = true;
	hooks.merge_read_tries = 2;
	open_store();
	fill("v", 0, 90);
	assert_int_equal(tfs_split(table, tfs_str("row00030")), 0);
	assert_int_equal(tfs_split(table, tfs_str("row00060")), 0);
	assert_int_equal(tfs_compact(table), 0);
	answer_with_errors(&(struct faulty){.lose_deletes = took, .refuse_deletes = !took, .then_no_reads = true});
	assert_int_equal(tfs_merge(table, tfs_str("row00030")), -EIO);
	hooks.server->o.merge_read_tries = 100;
	expect_rows("v", 0, 90);
	assert_int_not_equal(put("row00070", "q", 2, tfs_str("v"), true), 0); /* the outcome is not known yet */
	assert_int_not_equal(put("row00050", "q", 2, tfs_str("v"), true), 0);
	assert_int_not_equal(tfs_split(table, tfs_str("row00070")), 0);
	(void)!tfs_compact(table);
	expect_rows("v", 0, 90);
	assert_int_equal(count_tablets(), 3);
}

static void written_again(unsigned tablets)
{
	assert_int_equal(count_tablets(), tablets);
	expect_rows("v", 0, 90);
	fill("w", 0, 90);
	expect_rows("w", 0, 90);
	reopen();
	assert_int_equal(count_tablets(), tablets);
	expect_rows("w", 0, 90);
	assert_int_equal(tfs_compact(table), 0);
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	reopen();
	expect_rows("w", 0, 90);
	close_store();
}

/* The third step took place, and its caller got no answer: once METADATA answers again the two become one without a call. */
static void test_merge_in_doubt(void **state)
{
	make_doubt(true);
	alarm(30);
	faulty.no_reads = false;
	while (count_tablets() != 2)
		(void)sched_yield();
	alarm(0);
	written_again(2);
}

/* It did not. */
static void test_merge_that_was_not(void **state)
{
	make_doubt(false);
	faulty.no_reads = faulty.refuse_deletes = false;
	hooks.server->retire->resolve_task.run(&hooks.server->retire->resolve_task);
	written_again(3);
}

/*
 * No caller asks for the merge again before the next start.  Later writes must not make the
 * start take the merge for one that did not happen.
 */
static void test_merge_in_doubt_to_the_end(void **state)
{
	make_doubt(true);
	assert_int_equal(put("row00010", "q", 1, tfs_str("v"), true), 0);
	reopen();
	written_again(2);
}

/* ---- a long compaction ---- */

enum { HANG_S = 30 };

static void *merge_first(void *arg)
{
	assert_int_equal(tfs_merge(table, tfs_str("row00000")), 0);
	return NULL;
}

static void *split_last(void *arg)
{
	assert_int_equal(tfs_split(table, tfs_str("row00070")), 0);
	return NULL;
}

/* While the upper tablet is compacted, a split or merge waits for that; writes and changes of the schema do not. */
static void in_the_way(void *(*move)(void *arg), const char *drop)
{
	struct tfs_schema_edit edit = {.op = TFS_SCHEMA_FAMILY_DROP, .name = drop};
	struct served_tablet *h;
	pthread_t t;

	assert_int_equal(served_find(hooks.server, tfs_table_id(table), tfs_str("row00050"), &h), 0);
	mutex_lock(&h->tablet->lock);
	h->tablet->majoring = true;
	mutex_unlock(&h->tablet->lock);
	assert_int_equal(pthread_create(&t, NULL, move, NULL), 0);
	while (!h->tablet->split_wanted)
		(void)sched_yield();
	assert_int_equal(put("row00010", "q", 1, tfs_str("v"), false), 0);
	assert_int_equal(put("row00050", "q", 1, tfs_str("v"), false), 0);
	assert_int_equal(tfs_schema_change(table, &edit, NULL), 0);
	mutex_lock(&h->tablet->lock);
	h->tablet->majoring = false;
	cond_broadcast(&h->tablet->changed);
	mutex_unlock(&h->tablet->lock);
	pthread_join(t, NULL);
	served_put(h);
	expect_rows("v", 0, 90);
}

static void test_compaction_in_the_way(void **state)
{
	options.no_background = true;
	open_store();
	assert_int_equal(store_family_add(table, "h"), 0);
	fill("v", 0, 90);
	assert_int_equal(tfs_split(table, tfs_str("row00030")), 0);
	alarm(HANG_S);
	in_the_way(merge_first, "g");
	in_the_way(split_last, "h");
	alarm(0);
	close_store();
}

/* ---- a table's name that is lost ---- */

/* The table was not dropped: its contents stay, and nothing is written that a start would not find. */
static void test_name_lost(void **state)
{
	struct lock_op op = {.name = "tables/t", .what = LOCK_REMOVE, .expect = LOCK_ANY};
	struct buf was = {0};

	options.no_background = true;
	open_store();
	fill("v", 0, 10);
	assert_int_equal(tfs_flush(table), 0);
	assert_int_equal(lock_get(hooks.server->locks, op.name, &was, NULL), 0);
	assert_int_equal(lock_multi(hooks.server->locks, &op, 1, NULL), 0);
	expect_rows("v", 0, 10);
	assert_int_equal(put("row", "q", 1, TFS_S("v"), false), -EIO);
	op.what = LOCK_PUT;
	op.contents = buf_bytes(&was);
	assert_int_equal(lock_multi(hooks.server->locks, &op, 1, NULL), 0);
	fill("v", 10, 20);
	close_store();
	open_store();
	expect_rows("v", 0, 20);
	close_store();
	buf_fini(&was);
}

/* ---- a change that blocks the table's writes ---- */

static void hold(enum ts_method method)
{
	struct ts_request q = {.method = method, .table = tfs_table_id(table)};
	struct ts_answer a = {0};

	assert_int_equal(ts_call(server_service(hooks.server), &q, &a), 0);
	ts_answer_fini(&a);
}

static bool retire_deferred(void)
{
	bool yes;

	mutex_lock(&hooks.server->tables->lock);
	yes = hooks.server->tables->v[0]->retire_deferred;
	mutex_unlock(&hooks.server->tables->lock);
	return yes;
}

static void *split_meanwhile(void *arg)
{
	*(int *)arg = tfs_split(table, tfs_str("row00050"));
	return NULL;
}

static void *merge_meanwhile(void *arg)
{
	*(int *)arg = tfs_merge(table, tfs_str("row00000"));
	return NULL;
}

/* He may be writing all of the table anew: files are merged while a split or merge waits for him. */
static void test_held(void **state)
{
	void *(*const what[])(void *) = {split_meanwhile, merge_meanwhile};

	options.no_background = true;
	open_store();
	alarm(HANG_S);
	for (unsigned i = 0; i < 2; i++) {
		pthread_t thread;
		int err = -EIO;

		fill("v", 0, 90);
		hold(TS_BLOCK_WRITES);
		assert_int_equal(pthread_create(&thread, NULL, what[i], &err), 0);
		while (!retire_deferred())
			sched_yield();
		assert_int_equal(tfs_compact(table), 0);
		hold(TS_UNBLOCK_WRITES);
		pthread_join(thread, NULL);
		assert_int_equal(err, 0);
		expect_rows("v", 0, 90);
	}
	alarm(0);
	close_store();
	check_is_clean();
}

/* ---- a change that is refused again and again ---- */

static int no_log(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return strstr(path, "/log/") && op != FILE_OP_READ ? -EIO : 0;
}

static unsigned times_told(void)
{
	static const char what[] = "its METADATA row cannot be changed";
	struct buf ring = {0};
	unsigned times = 0;

	assert_int_equal(msg_ring(&ring), 0);
	for (size_t i = 0; i + sizeof(what) <= ring.n; i++)
		times += memcmp(ring.p + i, what, sizeof(what) - 1) == 0;
	buf_fini(&ring);
	return times;
}

static void test_told_once(void **state)
{
	unsigned before;

	options.no_background = true;
	open_store();
	fill("v", 0, 10);
	before = times_told();
	file_set_hook(no_log, NULL);
	for (int i = 0; i < 6; i++)
		assert_true(tfs_flush(table) < 0);
	file_set_hook(NULL, NULL);
	assert_int_equal(times_told() - before, 2); /* the disk's error, and then the log's, which accepts no more records */
	reopen();
	expect_rows("v", 0, 10);
	close_store();
}

/* ---- readers at the same time ---- */

static _Atomic bool asked_enough;
static _Atomic unsigned changes;

static void *split_and_merge(void *arg)
{
	static const char *const at[] = {"row00100", "row00200", "row00300"};
	unsigned seed = 1;

	while (!asked_enough) {
		const char *row = at[rand_r(&seed) % 3];
		int err = rand_r(&seed) % 2 ? tfs_split(table, tfs_str(row)) : tfs_merge(table, tfs_str(row));

		assert_true(err == 0 || err == -EEXIST || err == -ENOENT);
		changes += !err;
	}
	return NULL;
}

struct borders {
	char last[16];
	unsigned count, wrong;
	bool ended;
};

static int note_borders(void *arg, const struct tfs_tablet *t)
{
	struct borders *b = arg;

	b->wrong += b->ended || t->begin.n != strlen(b->last) || (t->begin.n && memcmp(t->begin.p, b->last, t->begin.n) != 0);
	snprintf(b->last, sizeof(b->last), "%.*s", (int)t->end.n, t->end.p ? (const char *)t->end.p : "");
	b->ended = !t->end.p;
	b->count++;
	return 0;
}

/* Each row is in one of the listed tablets, and counted once, during any splits and merges. */
static void test_asked_meanwhile(void **state)
{
	unsigned wrong = 0, other = 0, least = UINT_MAX, most = 0;
	pthread_t thread;

	open_store();
	fill("v", 0, 400);
	assert_int_equal(tfs_flush(table), 0);
	asked_enough = false;
	changes = 0;
	assert_int_equal(pthread_create(&thread, NULL, split_and_merge, NULL), 0);
	while (changes < 300) {
		struct borders b = {0};
		struct tfs_usage u;

		assert_int_equal(tfs_tablets(table, note_borders, &b), 0);
		wrong += b.wrong || !b.ended;
		least = b.count < least ? b.count : least;
		most = b.count > most ? b.count : most;
		assert_int_equal(tfs_usage(table, NULL, &u), 0);
		other += u.cells < 390 || u.cells > 410; /* the cells of a file that is used in part are an estimate by place */
	}
	asked_enough = true;
	pthread_join(thread, NULL);
	print_message("# %u to %u tablets; %u lists and %u counts were wrong\n", least, most, wrong, other);
	assert_true(least < most);
	assert_int_equal(wrong, 0);
	assert_int_equal(other, 0);
	close_store();
	check_is_clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_split_of_merged, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_of_merged, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_disk_fails, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_refused, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_in_doubt, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_that_was_not, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_in_doubt_to_the_end, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_compaction_in_the_way, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_merge_of_split, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_name_lost, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_held, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_told_once, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_asked_meanwhile, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
