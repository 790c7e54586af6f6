/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server and the master under the public API, where calls meet: drops and
 * writers, first requests, schemas in use.
 */
#include "engine/client/client.h"
#include "t/lib/file_faults.h"
#include "master/master.h"
#include "t/unit/server_lib.h"

struct writer {
	pthread_t thread;
	struct tfs_table *table;
	_Atomic bool go, stop;
	_Atomic unsigned acked;
	int last;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;
	char row[16];

	while (!w->go)
		;
	for (unsigned i = 0; !w->stop && i < 40; i++) {
		snprintf(row, sizeof(row), "r%u", i);
		w->last = put(w->table, row, "f", "v");
		if (w->last)
			break;
		w->acked++;
	}
	return NULL;
}

enum victim { TABLE, FAMILY, REPLACED, TYPE, VICTIMS };

static int take_away(enum victim v, struct tfs_table *t)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_TYPE, .name = "f", .value = "counter"};

	switch (v) {
	case TABLE:
		return tfs_table_drop(store, "t");
	case FAMILY:
		return drop_family(t, "f");
	case REPLACED:
		return tfs_table_rename(store, "other", "t", false);
	case TYPE:
		return tfs_schema_change(t, &e, NULL);
	case VICTIMS:
		break;
	}
	return -EINVAL;
}

/*
 * Before the operation that removes the table or family, after all checks, a
 * writer starts and has every chance to be acknowledged.
 */
static int let_loose(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct writer *w = arg;

	if ((op != FILE_OP_UNLINK && op != FILE_OP_RENAME) || w->go || !strstr(path, "/lock/"))
		return 0;
	w->go = true;
	for (unsigned i = 0; i < 3000 && !w->acked; i++)
		sched_yield();
	return 0;
}

/* A mutation acknowledged before its tablet was removed as empty would be lost: there must be none. */
static void drop_and_writers(void **state)
{
	static const int refusals[VICTIMS] = {-ENOTEMPTY, -EBUSY, -ENOTEMPTY, -EBUSY};
	static const int after[VICTIMS] = {-ENOENT, -EINVAL, -ENOENT, 0};
	unsigned taken[VICTIMS] = {0};

	open_store();
	for (unsigned i = 0; i < 240; i++) {
		enum victim v = i % VICTIMS;
		struct tfs_table *t = make_table("t"), *other = v == REPLACED ? make_table("other") : NULL;
		static struct writer w;
		int err;

		w.table = t;
		w.go = w.stop = false;
		w.acked = 0;
		w.last = 0;
		assert_int_equal(pthread_create(&w.thread, NULL, write_on, &w), 0);
		if (i < 40) {
			set_hook(let_loose, &w);
		} else {
			w.go = true;
			for (volatile unsigned k = (i * 7919) % 900000; k; k--)
				;
		}
		err = take_away(v, t);
		w.stop = w.go = true;
		pthread_join(w.thread, NULL);
		set_hook(NULL, NULL);
		if (err) {
			assert_int_equal(err, refusals[v]);
			assert_true(w.acked > 0);
			assert_int_equal(w.last, 0);
			assert_int_equal(look(t, "r0"), 0);
		} else {
			taken[v]++;
			if (v == TYPE) /* the column remains, as another type: writes continue */
				assert_int_equal(w.last, 0);
			else
				assert_int_equal(w.acked, 0);
			if (v != TYPE && w.last)
				assert_int_equal(w.last, after[v]);
		}
		tfs_table_close(t);
		if (other)
			tfs_table_close(other);
		for (unsigned k = 0; k < 2; k++) {
			const char *name = k ? "other" : "t";

			if (tfs_table_open(store, name, &t))
				continue;
			for (unsigned r = 0; r < 40; r++) {
				char row[16];

				snprintf(row, sizeof(row), "r%u", r);
				assert_int_equal(delete_row(t, row), 0);
			}
			tfs_table_close(t);
			assert_int_equal(tfs_table_drop(store, name), 0);
		}
	}
	for (unsigned v = 0; v < VICTIMS; v++)
		print_message("taken away %u of 60\n", taken[v]);
	close_store(true);
}

static void *look_once(void *arg)
{
	struct writer *w = arg;

	while (!w->go)
		;
	w->last = look(w->table, "r");
	return NULL;
}

/* Many first requests of one new table: one tablet. */
static void first_requests(void **state)
{
	open_store();
	for (unsigned i = 0; i < 20; i++) {
		struct tfs_table *t;
		struct writer w[4];
		struct served_tablet **list;
		unsigned count;

		assert_int_equal(tfs_table_create(store, "t", 0, 0, 0755), 0);
		t = open_table("t");
		/* A family makes the server read more than a name, but loads nothing. */
		assert_int_equal(add_family(t, "f"), 0);
		for (unsigned k = 0; k < 4; k++) {
			w[k] = (struct writer){.table = t};
			assert_int_equal(pthread_create(&w[k].thread, NULL, look_once, &w[k]), 0);
		}
		for (unsigned k = 0; k < 4; k++)
			w[k].go = true;
		for (unsigned k = 0; k < 4; k++) {
			pthread_join(w[k].thread, NULL);
			assert_int_equal(w[k].last, -ENOENT);
		}
		assert_int_equal(served_list(hooks.server, tfs_table_id(t), &list, &count), 0);
		assert_int_equal(count, 1);
		served_put(list[0]);
		free(list);
		tfs_table_close(t);
		assert_int_equal(tfs_table_drop(store, "t"), 0);
	}
	close_store(true);
}

/* An error by which a service names itself, and which no router can mend, is -EIO; the caller gets all others. */
static int says;

static int say(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	return says;
}

static void errors_of_services(void **state)
{
	static const struct tablet_service_ops ops = {.call = say};
	static const int answers[][2] = {{0, 0}, {-TABLET_MOVED, -EIO}, {-SCAN_UNKNOWN, -EIO}, {-SESSION_ENDED, -SESSION_ENDED},
		{-ENOENT, -ENOENT}, {-ENOSPC, -ENOSPC}};
	struct tablet_service s = {&ops};
	const struct ts_request q = {.method = TS_EXISTS, .table = 16, .row = tfs_str("r")};

	for (unsigned i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct ts_answer a = {0};

		says = answers[i][0];
		assert_int_equal(call_tablet_service(&s, &q, &a), answers[i][1]);
		ts_answer_fini(&a);
	}
}

/* ---- tables without a master ---- */

static int no_master(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	return -UNREACHABLE;
}

static int count_snapshots(void *arg, const struct tfs_snapshot *snapshot)
{
	strcat(arg, snapshot->name);
	return 0;
}

/* While there is no master, clients open, list, read and write tables and snapshots. */
static void no_master_is_needed(void **state)
{
	static const struct master_service_ops ops = {.call = no_master};
	struct master_service none = {&ops}, *was;
	struct tfs_table *t, *again, *snapshot;
	char names[4][TFS_NAME_MAX + 1], seen[64] = "";

	open_store();
	t = make_table("t");
	tfs_table_close(make_table("u"));
	assert_int_equal(put(t, "row", "f", "one"), 0);
	assert_int_equal(tfs_snapshot_create(t, "b"), 0);
	assert_int_equal(tfs_snapshot_create(t, "a"), 0);
	assert_int_equal(tfs_snapshot_create_all(store, "a2"), 0);
	tfs_table_close(t);
	was = store->o.master;
	store->o.master = &none;
	assert_int_equal(tfs_table_drop(store, "u"), -EIO);
	assert_int_equal(tfs_table_list(store, NULL, names, 4), 2);
	assert_string_equal(names[0], "t");
	assert_string_equal(names[1], "u");
	assert_int_equal(tfs_table_list(store, "t", names, 4), 1);
	assert_string_equal(names[0], "u");
	assert_int_equal(tfs_table_list(store, NULL, names, 1), 1);
	assert_int_equal(tfs_table_open(store, "t", &t), 0);
	assert_int_equal(tfs_table_open(store, "t", &again), 0);
	assert_ptr_equal(t, again);
	assert_int_equal(tfs_table_open(store, "none", &again), -ENOENT);
	assert_int_equal(put(t, "row", "f", "two"), 0);
	assert_int_equal(look(t, "row"), 0);
	assert_int_equal(tfs_snapshot_open(t, "b", &snapshot), 0);
	assert_int_equal(look(snapshot, "row"), 0);
	tfs_table_close(snapshot);
	assert_int_equal(tfs_snapshot_open(t, "none", &snapshot), -ENOENT);
	assert_int_equal(tfs_snapshot_list(t, true, count_snapshots, seen), 0);
	assert_string_equal(seen, "aa2b");
	*seen = 0;
	assert_int_equal(tfs_snapshot_list_all(store, count_snapshots, seen), 0);
	assert_string_equal(seen, "a2");
	tfs_table_close(again);
	tfs_table_close(t);
	store->o.master = was;
	close_store(true);
}

/* A lock service in which tables are renamed while another session searches. */
static struct renaming {
	struct lock_service base; /* first */
	struct lock_service *to;
	unsigned gets, at;
} renaming;

static int renaming_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	if (++renaming.gets == renaming.at)
		assert_int_equal(tfs_table_rename(store, "zz", "aa", false), 0);
	return renaming.to->ops->get(renaming.to, name, contents, stat);
}

static int renaming_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	return renaming.to->ops->list(renaming.to, dir, fn, arg);
}

static void a_renamed_table_is_found_by_its_id(void **state)
{
	static const struct lock_service_ops ops = {.get = renaming_get, .list = renaming_list};
	struct tfs_table *t;
	uint32_t id;

	open_store();
	for (unsigned at = 1; at < 5; at++) {
		struct schema *found = NULL;

		tfs_table_close(make_table("mm"));
		t = make_table("zz");
		id = tfs_table_id(t);
		tfs_table_close(t);
		renaming = (struct renaming){{&ops}, store->o.locks, 0, at};
		assert_int_equal(schemas_table_by_id(&renaming.base, id, "other", &found, NULL), 0);
		assert_int_equal(schema_public(found)->table_id, id);
		schema_put(found);
		assert_int_equal(schemas_table_by_id(&renaming.base, id + 1000, "other", &found, NULL), -ENOENT);
		assert_int_equal(tfs_table_drop(store, "mm"), 0);
		assert_int_equal(tfs_table_drop(store, renaming.gets >= at ? "aa" : "zz"), 0);
	}
	close_store(true);
}

/* Requests without any field, as another program's could be. */
static void requests_of_nothing(void **state)
{
	const uint32_t tables[] = {0, 1, 16, 4711};
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	for (unsigned i = MS_TABLE_CREATE; i < MS_METHODS; i++) {
		struct ms_request q = {.method = (enum ms_method)i};
		struct ms_answer a = {0};
		int err = ms_call(store->o.master, &q, &a);

		assert_true(i == MS_COLLECT ? err == 0 : err < 0);
		ms_answer_fini(&a);
	}
	for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (unsigned k = TS_MUTATE; k < TS_METHODS; k++) {
			struct ts_request q = {.method = (enum ts_method)k, .table = tables[i]};
			struct ts_answer a = {0};

			(void)!ts_call(store->o.tablets, &q, &a);
			ts_answer_fini(&a);
		}
	/* These iterators move forward only. */
	for (unsigned i = 0; i < 2; i++) {
		const struct scan_spec backwards = {
			.pub.row_from = tfs_str("r"), .pub.reverse = true, .pub.one_row = i == 0, .pub.past_damage = i == 1};
		struct ts_request q = {.method = TS_SCAN_OPEN, .table = tfs_table_id(t), .row = tfs_str("r"), .spec = &backwards};
		struct ts_answer a = {0};

		assert_int_equal(ts_call(store->o.tablets, &q, &a), -EINVAL);
		ts_answer_fini(&a);
	}
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* The flush of replayed records stops at its first SSTable until the store is being closed. */
static _Atomic bool closing;

static int flush_slowly(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	for (unsigned i = 0; op == FILE_OP_CREATE && strstr(path, ".sst") && (!closing || i < 1000); i++)
		sched_yield();
	return 0;
}

static void close_over_recovery(void **state)
{
	char row[16];
	struct tfs_table *t;

	for (unsigned round = 0; round < 8; round++) {
		open_store();
		t = round ? open_table("t") : make_table("t");
		for (unsigned i = 0; i < 50; i++) {
			snprintf(row, sizeof(row), "r%u-%u", round, i);
			assert_int_equal(put(t, row, "f", "v"), 0);
		}
		tfs_table_close(t);
		close_store(false);
		closing = false;
		set_hook(flush_slowly, NULL);
		options.no_background = false;
		open_store();
		closing = true;
		close_store(round % 2);
		set_hook(NULL, NULL);
		options.no_background = true;
		open_store();
		t = open_table("t");
		for (unsigned i = 0; i < 50; i++) {
			snprintf(row, sizeof(row), "r%u-%u", round, i);
			assert_int_equal(look(t, row), 0);
		}
		tfs_table_close(t);
		close_store(true);
	}
}

struct adder {
	pthread_t thread;
	struct tfs_table *table;
	unsigned number;
	int err;
};

static void *add_and_write(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < 30 && !a->err; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%u_%u", a->number, i);
		a->err = add_family(a->table, name);
		if (!a->err)
			a->err = put(a->table, "r", name, "v");
	}
	return NULL;
}

/* A family that was made is there for the next write, whoever else changes the schema at that time. */
static void schemas_handed_out_in_order(void **state)
{
	struct adder a[4];
	struct tfs_table *t;
	struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	unsigned cells = 0;

	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < 4; i++) {
		a[i] = (struct adder){.table = t, .number = i};
		assert_int_equal(pthread_create(&a[i].thread, NULL, add_and_write, &a[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(a[i].thread, NULL);
		assert_int_equal(a[i].err, 0);
	}
	assert_int_equal(tfs_scan_new(t, &spec, &sc), 0);
	while (tfs_scan_next(sc, &c) > 0)
		cells++;
	tfs_scan_free(sc);
	assert_int_equal(cells, 120);
	tfs_table_close(t);
	close_store(true);
}

/* A scan open over a drop ends in -ENOENT; the files are removed when it is freed, and not before. */
static void scan_over_drop(void **state)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .batch_bytes = 1};
	char row[16], sst[64];
	struct tfs_table *t;
	struct tfs_scan *sc;
	struct tfs_cell c;
	int n;

	open_store();
	t = make_table("t");
	snprintf(sst, sizeof(sst), "d/sst/%u", tfs_table_id(t));
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "r%05u", i);
		assert_int_equal(put(t, row, "f", "some value that makes batches end"), 0);
	}
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(tfs_scan_new(t, &spec, &sc), 0);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "r%05u", i);
		assert_int_equal(delete_row(t, row), 0);
	}
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	assert_true(files_in(sst) > 0);
	do
		n = tfs_scan_next(sc, &c);
	while (n > 0);
	assert_int_equal(n, -ENOENT);
	assert_int_equal(tfs_scan_next(sc, &c), -ENOENT);
	assert_int_equal(look(t, "r00000"), -ENOENT);
	assert_int_equal(put(t, "r", "f", "v"), -ENOENT);
	assert_int_equal(put(t, "r", "unknown", "v"), -ENOENT);
	assert_int_equal(tfs_flush(t), -ENOENT);
	assert_int_equal(master_collect(hooks.master, false), 0);
	assert_false(exists(sst));
	assert_int_equal(tfs_close(store), -EBUSY);
	tfs_scan_free(sc);
	assert_int_equal(tfs_close(store), -EBUSY);
	tfs_table_close(t);
	close_store(true);
}

/* ---- tablets that do not meet ---- */

static struct hole {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	unsigned asked;
} hole;

/* Each tablet except the first one begins above the end of the tablet before it. */
static int hole_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct hole *h = (struct hole *)s;
	int err = ts_call(h->real, q, a);

	if (!err && q->method == TS_TABLET_INFO) {
		h->asked++;
		if (a->tablet.begin.n)
			a->tablet.begin = tfs_str("bb");
	}
	return err;
}

static int count_tablet(void *arg, const struct tfs_tablet *tablet)
{
	++*(unsigned *)arg;
	return 0;
}

/* ---- reads in pieces ---- */

enum { LARGE = 5 << 19 }; /* two and a half pieces */
struct pieces {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	struct tfs_table *table;
	unsigned reads;
	int64_t put_at; /* after the first piece, a value of the byte 'b' is written at this time, unless it is 0 */
};

static void put_large(struct tfs_table *t, int64_t ts, char byte, size_t n)
{
	char *value = malloc(n);

	assert_non_null(value);
	memset(value, byte, n);
	assert_int_equal(store_put(t, TFS_S("large"), "f", TFS_S("q"), tfs_at(ts), tfs_bytes_of(value, n), 0), 0);
	free(value);
}

static int pieces_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct pieces *p = (struct pieces *)service;
	int err = ts_call(p->real, q, a);

	if (q->method == TS_READ && p->reads++ == 0 && p->put_at)
		put_large(p->table, p->put_at, 'b', LARGE - 1);
	return err;
}

/* A server elsewhere returns a large value in pieces, which are of one value. */
static void large_reads(void **state)
{
	static const struct tablet_service_ops ops = {.call = pieces_call};
	struct ts_request q = {.method = TS_READ, .row = tfs_str("large"), .qualifier = tfs_str("q"), .ts = {.when = TFS_NEWEST}};
	struct ts_request known;
	char *value = malloc(LARGE + 1);
	struct arena arena = {0};
	struct pieces p;
	struct tfs_info info;
	struct buf b = {0}, answer = {0};
	struct ts_answer a = {0};
	size_t got;

	assert_non_null(value);
	open_store();
	p = (struct pieces){.service = {.ops = &ops}, .table = make_table("t")};
	p.real = ts_round_trip_new(server_service(hooks.server));
	assert_non_null(p.real);
	q.table = store_tablets_id(p.table);
	q.family = store_family_id(p.table, "f");
	put_large(p.table, 1, 'a', LARGE);
	p.table->store->o.tablets = &p.service;
	/* Between the pieces nothing is written (0), or the version that is read (1), or a newer version (2). */
	for (int64_t at = 0; at < 3; at++) {
		p.reads = 0;
		p.put_at = at;
		assert_int_equal(tfs_read(p.table, TFS_S("large"), "f", TFS_S("q"), TFS_AUTO, 0, value, LARGE + 1, &got, &info), 0);
		assert_int_equal(p.reads, at == 1 ? 5 : 3);
		assert_int_equal(got, at == 0 ? LARGE : LARGE - 1);
		assert_int_equal(info.size, got);
		assert_int_equal(info.ts, 1);
		for (size_t i = 0; i < got; i++)
			assert_int_equal(value[i], at == 0 ? 'a' : 'b');
	}
	/* From an offset, to the end and past it; and less than there is. */
	p.reads = p.put_at = 0;
	assert_int_equal(tfs_read(p.table, TFS_S("large"), "f", TFS_S("q"), tfs_at(1), LARGE / 2, value, LARGE, &got, &info), 0);
	assert_int_equal(got, LARGE - 1 - LARGE / 2);
	assert_int_equal(p.reads, 2);
	assert_int_equal(tfs_read(p.table, TFS_S("large"), "f", TFS_S("q"), tfs_at(1), LARGE, value, LARGE, &got, &info), 0);
	assert_int_equal(got, 0);
	assert_int_equal(
		tfs_read(p.table, TFS_S("large"), "f", TFS_S("q"), tfs_at(1), 1, value, TS_READ_BYTES_MAX + 1, &got, &info), 0);
	assert_int_equal(got, TS_READ_BYTES_MAX + 1);
	/* A request for more than there is takes no more memory than that. */
	q.ts = (struct tfs_ts){.us = 1};
	q.offset = LARGE - 11;
	q.length = 64 << 20;
	assert_int_equal(ts_request_pack(&q, &b), 0);
	assert_int_equal(ts_request_unpack(buf_bytes(&b), &arena, &known), 0);
	assert_int_equal(ts_call(server_service(hooks.server), &known, &a), 0);
	assert_int_equal(a.got, 10);
	assert_true(a.arena.used_bytes + arena.used_bytes < 65536);
	assert_int_equal(ts_answer_pack(&known, &a, &answer), 0);
	assert_true(answer.n < 100);
	p.table->store->o.tablets = route_service(p.table->store->o.router);
	tfs_table_close(p.table);
	close_store(true);
	ts_answer_fini(&a);
	arena_fini(&arena);
	buf_fini(&b);
	buf_fini(&answer);
	free(p.real);
	free(value);
}

/* An iteration over a table's tablets asks again where one is missing, but not for ever. */
static void hole_in_tablets(void **state)
{
	static const struct tablet_service_ops ops = {.call = hole_call};
	struct tfs_table *t;
	unsigned tablets = 0;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "a", "f", "v"), 0);
	assert_int_equal(put(t, "c", "f", "v"), 0);
	assert_int_equal(tfs_split(t, TFS_S("b")), 0);
	hole = (struct hole){.service = {.ops = &ops}, .real = t->store->o.tablets};
	t->store->o.tablets = &hole.service;
	assert_int_equal(tfs_tablets(t, count_tablet, &tablets), 0);
	t->store->o.tablets = hole.real;
	assert_int_equal(tablets, 2);
	assert_true(hole.asked > 50 && hole.asked < 200);
	tfs_table_close(t);
	close_store(true);
}

/* The generation of the schema that the server has; 0: it does not have the table. */
static uint64_t servers_generation(uint32_t table)
{
	struct user_table *u;
	uint64_t generation;

	if (user_table_get(hooks.server, table, &u))
		return 0;
	mutex_lock(&hooks.server->tables->lock);
	generation = u->generation;
	mutex_unlock(&hooks.server->tables->lock);
	user_table_put(hooks.server, u);
	return generation;
}

/* A watch reads nothing.  The next request finds all schemas that were stored before it, few or many. */
static void a_watch_only_queues(void **state)
{
	enum { TABLES = CHANGED_FILES + 4 };
	struct tfs_table *t[TABLES];
	uint64_t before[TABLES];
	char name[8];

	open_store();
	for (unsigned i = 0; i < TABLES; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		t[i] = make_table(name);
	}
	for (unsigned many = 1; many <= TABLES; many += TABLES - 1) {
		assert_int_equal(look(t[0], "row"), -ENOENT);
		assert_false(hooks.server->schemas->has_changed);
		for (unsigned i = 0; i < many; i++) {
			const uint32_t id = store_tablets_id(t[i]);

			before[i] = servers_generation(id);
			assert_int_equal(add_family(t[i], many == 1 ? "one" : "many"), 0);
			assert_int_equal(servers_generation(id), before[i]);
		}
		assert_true(hooks.server->schemas->has_changed);
		assert_int_equal(hooks.server->schemas->changed.all, many > CHANGED_FILES);
		assert_int_equal(look(t[0], "row"), -ENOENT);
		for (unsigned i = 0; i < many; i++)
			assert_int_equal(servers_generation(store_tablets_id(t[i])), before[i] + 1);
	}
	for (unsigned i = 0; i < TABLES; i++)
		tfs_table_close(t[i]);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_watch_only_queues),
		T(drop_and_writers),
		T(first_requests),
		T(schemas_handed_out_in_order),
		T(scan_over_drop),
		T(errors_of_services),
		T(requests_of_nothing),
		T(no_master_is_needed),
		T(a_renamed_table_is_found_by_its_id),
		T(close_over_recovery),
		T(large_reads),
		T(hole_in_tablets),
	};

	return RUN(tests);
}
