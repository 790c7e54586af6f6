/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector removes no file that any of several servers uses or may still
 * name: three servers over one data directory.
 */
#include "t/unit/server_lib.h"

#include "master/internal.h"
#include "t/lib/cluster.h"

#define ROWS 40u

static struct cluster c;
static struct tfs_table *table;
static char sst[64]; /* the table's directory */

static const char *row_name(unsigned i)
{
	static char name[8][16];
	static unsigned next;
	char *s = name[next++ % 8];

	snprintf(s, sizeof(name[0]), "row%02u", i);
	return s;
}

static void move(unsigned row, unsigned server)
{
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(row)), c.servers[server].incarnation), 0);
}

/* Sends a request for the row's tablet to a server.  a: NULL, or the caller calls ts_answer_fini. */
static int ask(unsigned server, enum ts_method method, unsigned row, struct ts_answer *a)
{
	const struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.batch_bytes = 1};
	const struct ts_request q = {.method = method, .table = tfs_table_id(table), .row = tfs_str(row_name(row)), .spec = &spec};
	struct ts_answer own = {0};
	int err = ts_call(server_service(c.servers[server].server), &q, a ? a : &own);

	ts_answer_fini(&own);
	return err;
}

static void read_all(void)
{
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(look(table, row_name(i)), 0);
}

static void rounds(unsigned n, bool full)
{
	while (n--)
		assert_int_equal(master_collect(c.master, full), 0);
}

/* Table with one SSTable, which two tablets share: rows below 20 on server 0, the rest on server 1. */
static int cluster_setup(void **state)
{
	struct server_options o;
	char dir[300];

	if (test_dir_setup(state))
		return -1;
	snprintf(dir, sizeof(dir), "%s/d", test_dir);
	o = cluster_options(dir);
	o.sync = true;
	assert_int_equal(cluster_open(&c, &o, 3), 0);
	assert_int_equal(store_table_make(c.store, "t", "f", &table), 0);
	snprintf(sst, sizeof(sst), "d/sst/%u", tfs_table_id(table));
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(put(table, row_name(i), "f", row_name(i)), 0);
	assert_int_equal(tfs_flush(table), 0);
	assert_int_equal(tfs_split(table, tfs_str(row_name(20))), 0);
	move(0, 0);
	move(20, 1);
	assert_int_equal(files_in(sst), 1);
	return 0;
}

static int cluster_teardown(void **state)
{
	set_hook(NULL, NULL);
	tfs_table_close(table);
	cluster_free(&c);
	return test_dir_teardown(state);
}

/* A copy of an SSTable as an output of that incarnation, which nothing names. */
static void plant(unsigned incarnation, unsigned number)
{
	char cmd[300];

	snprintf(cmd, sizeof(cmd), "cp $(ls %s/*.sst | head -1) %s/%u-%u.sst", sst, sst, incarnation, number);
	shell(cmd);
}

static bool planted(unsigned incarnation, unsigned number)
{
	char name[120];

	snprintf(name, sizeof(name), "%s/%u-%u.sst", sst, incarnation, number);
	return exists(name);
}

/* One server replaces the shared file by a compaction; the other one still uses it. */
static void shared_with_a_sibling(void **state)
{
	assert_int_equal(ask(0, TS_COMPACT, 0, NULL), 0);
	assert_int_equal(files_in(sst), 2);
	rounds(2, false);
	rounds(2, true);
	assert_int_equal(files_in(sst), 2);
	read_all();
	assert_int_equal(ask(1, TS_COMPACT, 20, NULL), 0);
	assert_int_equal(files_in(sst), 3);
	rounds(1, false);
	assert_int_equal(files_in(sst), 2);
	read_all();
}

/* A scan on the server that had the tablet before reads the file after the new server has replaced it. */
static void read_where_the_tablet_was(void **state)
{
	struct tablet_files_user {
		struct sst *sst;
	} reader;
	struct served_tablet *served;
	struct tablet_file *files;
	unsigned count;
	char *path;

	assert_int_equal(ask(0, TS_COMPACT, 0, NULL), 0);
	rounds(1, false);
	assert_int_equal(served_find_loaded(c.servers[1].server, tfs_table_id(table), tfs_str(row_name(20)), &served), 0);
	assert_int_equal(tablet_files(served->tablet, &files, &count), 0);
	assert_int_equal(count, 1);
	path = tablet_file_path(c.options.data_dir, files[0].table, files[0].incarnation, files[0].number);
	assert_int_equal(sst_new(c.servers[1].server->cache, path, false, &reader.sst), 0);
	tablet_file_fini(&files[0]);
	free(files);
	served_put(served);
	move(20, 2);
	assert_int_equal(ask(2, TS_COMPACT, 20, NULL), 0);
	rounds(1, false);
	rounds(1, true);
	assert_int_equal(file_stat_size(path, &(uint64_t){0}), 0);
	sst_put(reader.sst);
	rounds(1, true);
	assert_int_equal(file_stat_size(path, &(uint64_t){0}), -ENOENT);
	free(path);
	read_all();
}

/* ---- servers that do not answer ---- */

static unsigned answers; /* how many more requests FILES are answered */

static int silent_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_FILES && answers-- == 0) {
		answers = 0;
		return a->err = -ETIMEDOUT;
	}
	return cluster_call(service, q, a);
}

/* Whichever request a server leaves without an answer, the round removes nothing. */
static void silent(void **state)
{
	static const struct tablet_service_ops silent_ops = {.call = silent_call};
	const struct tablet_service_ops *ops = c.servers[2].service.ops;
	unsigned good = 0;
	int err;

	plant(1, 12345);
	assert_int_equal(ask(0, TS_COMPACT, 0, NULL), 0);
	assert_int_equal(ask(1, TS_COMPACT, 20, NULL), 0);
	assert_int_equal(files_in(sst), 4);
	c.servers[2].service.ops = &silent_ops;
	do {
		answers = good++;
		err = master_collect(c.master, true);
		assert_int_equal(files_in(sst), err ? 4 : 2);
	} while (err == -ETIMEDOUT);
	assert_int_equal(err, 0);
	assert_int_equal(good, 5); /* reports, use, use, reports */
	c.servers[2].service.ops = ops;
	read_all();
}

static unsigned until_death;

static int dying_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	int err = cluster_call(service, q, a);

	if (q->method == TS_FILES && --until_death == 0)
		c.servers[1].away = true;
	return err;
}

/* A server dies in the round, with an output under way.  Its edit may still arrive, so the output stays. */
static void dies_in_the_round(void **state)
{
	static const struct tablet_service_ops ops = {.call = dying_call};
	struct sst *output;
	char path[300];

	snprintf(path, sizeof(path), "%s/sst/%u/%u-12345.sst", c.options.data_dir, tfs_table_id(table),
		(unsigned)c.servers[1].incarnation);
	plant((unsigned)c.servers[1].incarnation, 12345);
	assert_int_equal(sst_new(c.servers[1].server->cache, path, false, &output), 0);
	c.servers[2].service.ops = &ops;
	for (unsigned at = 1; at <= 2; at++) { /* after the question for reports, or for use */
		until_death = at;
		assert_int_equal(master_collect(c.master, true), at == 1 ? -EAGAIN : 0);
		assert_true(planted((unsigned)c.servers[1].incarnation, 12345));
		c.servers[1].away = false;
	}
	sst_put(output);
	rounds(1, true);
	assert_false(planted((unsigned)c.servers[1].incarnation, 12345));
	read_all();
}

/* A server has a session, and the master cannot reach it. */
static void not_reached(void **state)
{
	plant(1, 12345);
	assert_int_equal(lock_put(c.locks, "servers/2", tfs_str("host2"), LOCK_ABSENT, NULL), 0);
	rounds(1, false);
	assert_int_equal(lock_put(c.locks, "servers/99", tfs_str("host9"), LOCK_ABSENT, NULL), 0);
	assert_int_equal(master_collect(c.master, true), -EAGAIN);
	assert_true(planted(1, 12345));
	assert_int_equal(lock_remove(c.locks, "servers/99", LOCK_ANY), 0);
	rounds(1, true);
	assert_false(planted(1, 12345));
}

/* ---- a scan of METADATA is not one instant ---- */

static struct {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	struct scan_spec spec;
	unsigned calls, at; /* the action comes before call `at` */
	void (*action)(void);
} stepwise;

static _Thread_local bool acts; /* the action itself reads METADATA as usual */

static void *run_action(void *arg)
{
	acts = true;
	(*(void (**)(void))arg)();
	return NULL;
}

/* Runs the action in a thread of its own, because a round holds a lock. */
static void meanwhile(void (*action)(void))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run_action, &action), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Reads METADATA cell by cell. */
static int stepwise_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct ts_request one = *q;

	(void)service;
	if (acts)
		return ts_call(stepwise.real, q, a);
	if (q->method == TS_SCAN_OPEN) {
		stepwise.spec = *q->spec;
		stepwise.spec.pub.batch_bytes = 1;
		one.spec = &stepwise.spec;
	}
	if ((q->method == TS_SCAN_OPEN || q->method == TS_SCAN_NEXT) && ++stepwise.calls == stepwise.at)
		meanwhile(stepwise.action);
	return ts_call(stepwise.real, &one, a);
}

/* The upper tablet is split above all rows of the shared file that it has, so the file's name moves to a lower row of METADATA. */
static void split_upper(void)
{
	assert_int_equal(tfs_split(table, tfs_str("row8")), 0);
}

static void move_to_0(void)
{
	move(20, 0);
}

static void move_to_1(void)
{
	move(20, 1);
}

static unsigned uses; /* questions for use so far, to servers 0, 1, 2, and again */
static bool twice;

/* Each server is asked before the tablet comes, and after it has left. */
static int moving_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_FILES && q->file_count && ++uses == 3)
		meanwhile(move_to_1);
	else if (q->method == TS_FILES && q->file_count && uses == 5 && twice)
		meanwhile(move_to_0);
	return cluster_call(service, q, a);
}

/*
 * A scan of one tablet of METADATA reads each row as a whole, and a split inserts
 * its row just before the one that it divides.  So only the end of a tablet of
 * METADATA can be between the two.
 */
static void split_metadata(void)
{
	struct buf key = {0};
	struct ts_request q = {.method = TS_SPLIT, .table = META_TABLE};
	struct ts_answer a = {0};

	assert_int_equal(meta_row_key(&key, tfs_table_id(table), true, tfs_bytes_of(NULL, 0)), 0);
	q.row = buf_bytes(&key);
	assert_int_equal(ts_call(route_service(c.router), &q, &a), 0);
	ts_answer_fini(&a);
	buf_fini(&key);
}

/*
 * At each step of the round's scan.  Server 0 has reported the shared file.  The
 * tablet moves so that step 4 does not find the file, and in the second pass so
 * that step 6 does not either.
 */
static void split_during_scan(void **state)
{
	static const struct tablet_service_ops ops = {.call = stepwise_call}, moving = {.call = moving_call};

	for (unsigned k = 0; k < 2; k++) {
		twice = k;
		for (unsigned at = 1;; at++) {
			stepwise.service.ops = &ops;
			stepwise.real = c.master->tablets;
			stepwise.calls = uses = 0;
			stepwise.at = at;
			stepwise.action = split_upper;
			split_metadata();
			move(20, 2);
			assert_int_equal(ask(0, TS_COMPACT, 0, NULL), 0);
			assert_int_equal(files_in(sst), 2);
			c.master->tablets = &stepwise.service;
			for (unsigned i = 0; i < 3; i++)
				c.servers[i].service.ops = &moving;
			assert_int_equal(master_collect(c.master, false), 0);
			c.master->tablets = stepwise.real;
			assert_int_equal(files_in(sst), 2);
			rounds(1, false);
			assert_int_equal(files_in(sst), 2);
			read_all();
			if (stepwise.calls < at)
				break;
			(void)cluster_teardown(state);
			assert_int_equal(cluster_setup(state), 0);
		}
		print_message("# %u steps\n", stepwise.calls);
		assert_true(stepwise.calls > 10);
		(void)cluster_teardown(state);
		assert_int_equal(cluster_setup(state), 0);
	}
}

/* ---- dead servers ---- */

static void tick(void)
{
	assign_soon(c.master);
	assert_int_equal(master_tick(c.master), 0);
}

/* A dead server may still run: its last edit may name an output.  After its tablets have other owners it cannot. */
static void output_of_a_dead_server(void **state)
{
	const unsigned dead = (unsigned)c.servers[1].incarnation, other = (unsigned)c.servers[0].incarnation;

	plant(dead, 12345);
	plant(other, 12345);
	cluster_kill(&c, 1);
	rounds(1, true);
	assert_true(planted(dead, 12345) && planted(other, 12345));
	rounds(1, false);
	assert_true(planted(dead, 12345));
	assert_false(planted(other, 12345)); /* two rounds have found it */
	rounds(3, true);
	assert_true(planted(dead, 12345));
	tick();
	read_all();
	rounds(1, true);
	assert_false(planted(dead, 12345));
	read_all();
}

static bool any_log(uint64_t incarnation)
{
	char live[64], dead[64];

	snprintf(live, sizeof(live), "d/log/%llu", (unsigned long long)incarnation);
	snprintf(dead, sizeof(dead), "d/log/%llu.dead", (unsigned long long)incarnation);
	return exists(live) || exists(dead);
}

/* The reserve of a dead server is removed, also if the server writes it again.  A live server's stays. */
static void reserve_of_a_dead_server(void **state)
{
	const uint64_t live = c.servers[0].incarnation, dead = c.servers[1].incarnation;
	char cmd[200], of_live[40], of_dead[40];

	snprintf(of_live, sizeof(of_live), "d/ballast.%llu", (unsigned long long)live);
	snprintf(of_dead, sizeof(of_dead), "d/ballast.%llu", (unsigned long long)dead);
	snprintf(cmd, sizeof(cmd), "echo x >%s; echo x >%s; echo x >d/ballast.99", of_live, of_dead);
	shell(cmd);
	rounds(1, false);
	assert_true(exists(of_dead));
	cluster_kill(&c, 1);
	tick();
	for (unsigned i = 0; i < 2; i++) {
		rounds(2, false);
		assert_false(exists(of_dead));
		assert_true(exists(of_live));
		assert_true(exists("d/ballast.99")); /* not of this store's incarnations */
		shell(cmd);
	}
}

/* The log of a dead server stays while a redo set names it; then it and its seal are removed. */
static void log_of_a_dead_server(void **state)
{
	const uint64_t dead = c.servers[1].incarnation;
	char seal[40], draining[40];

	snprintf(seal, sizeof(seal), "seals/%llu", (unsigned long long)dead);
	snprintf(draining, sizeof(draining), "draining/%llu", (unsigned long long)dead);
	assert_int_equal(master_drain(c.master, dead, true), 0);
	assert_int_equal(put(table, row_name(30), "f", "late"), 0);
	rounds(2, true);
	cluster_kill(&c, 1);
	rounds(2, true);
	assert_true(any_log(dead));
	tick();
	rounds(2, true);
	assert_true(any_log(dead));
	assert_int_equal(lock_get(c.locks, seal, NULL, NULL), 0);
	read_all();
	assert_int_equal(tfs_flush(table), 0);
	rounds(2, true);
	if (any_log(dead)) { /* tablets of METADATA need it, too */
		for (unsigned i = 0; i < c.count; i++) {
			struct served_tablet **list;
			unsigned n;

			if (!c.servers[i].server)
				continue;
			assert_int_equal(served_list(c.servers[i].server, META_TABLE, &list, &n), 0);
			for (unsigned k = n; k-- > 0;)
				assert_int_equal(tablet_flush(list[k]->tablet), 0);
			served_list_put(list, n);
		}
		rounds(2, true);
	}
	assert_false(any_log(dead));
	assert_int_equal(lock_get(c.locks, seal, NULL, NULL), -ENOENT);
	assert_int_equal(lock_get(c.locks, draining, NULL, NULL), -ENOENT);
	assert_true(any_log(c.servers[0].incarnation) && any_log(c.servers[2].incarnation));
	read_all();
}

/* ---- a round that is cut off ---- */

/* Nothing works from a number of operations on: the round does not get further. */
static int dies(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	unsigned *left = arg;

	if (op != FILE_OP_UNLINK && op != FILE_OP_RMDIR)
		return 0;
	if (*left == 0)
		return -EIO;
	--*left;
	return 0;
}

/* After a round that ended at any of its removals, the next one removes the rest, and nothing else. */
static void cut_off(void **state)
{
	for (unsigned survives = 0; survives < 6; survives++) {
		unsigned left = survives;

		for (unsigned i = 0; i < 4; i++)
			plant(1, 12345 + i);
		shell("mkdir -p d/sst/77 && cp $(ls d/sst/*/*.sst | head -1) d/sst/77/1-1.sst");
		set_hook(dies, &left);
		rounds(1, true);
		set_hook(NULL, NULL);
		assert_int_equal(files_in(sst) + files_in("d/sst/77"), 6 - (survives < 5 ? survives : 5));
		/* Another master, which knows nothing of the first one's round. */
		c.master->collector.count = 0;
		rounds(1, true);
		assert_int_equal(files_in(sst), 1);
		assert_false(exists("d/sst/77"));
		read_all();
	}
}

#define C(f) cmocka_unit_test_setup_teardown(f, cluster_setup, cluster_teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {C(shared_with_a_sibling), C(read_where_the_tablet_was), C(silent), C(dies_in_the_round),
		C(not_reached), C(split_during_scan), C(output_of_a_dead_server), C(log_of_a_dead_server),
		C(reserve_of_a_dead_server), C(cut_off)};

	return RUN(tests);
}
