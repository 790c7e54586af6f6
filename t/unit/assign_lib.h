/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of assignment: three servers and a master, with a table of nine tablets. */
#ifndef T_UNIT_ASSIGN_LIB_H
#define T_UNIT_ASSIGN_LIB_H

#include "t/unit/server_lib.h"

#include "engine/client/metadata.h"
#include "master/internal.h"
#include "t/lib/cluster.h"

#define ROWS 90u

static struct cluster c;
static struct tfs_table *table;

static inline const char *row_name(unsigned i)
{
	static char name[8][16];
	static unsigned next;
	char *s = name[next++ % 8];

	snprintf(s, sizeof(name[0]), "row%02u", i);
	return s;
}

static inline bool held(void *arg)
{
	(void)arg;
	return true;
}

static int64_t clock_offsets[CLUSTER_SERVERS];

static inline int64_t clock_offset(void *arg)
{
	return clock_offsets[(struct cluster_server *)arg - c.servers];
}

static unsigned lost_calls;

static inline void lost(void *arg, const char *why)
{
	(void)arg, (void)why;
	lost_calls++;
}

static inline int cluster_make(void **state, void (*wrap)(struct lock_service **locks))
{
	struct server_options o;
	char dir[300];

	if (test_dir_setup(state))
		return -1;
	snprintf(dir, sizeof(dir), "%s/d", test_dir);
	o = cluster_options(dir);
	o.sync = true;
	o.held = held;
	o.lost = lost;
	o.clock_offset = clock_offset;
	assert_int_equal(cluster_new(&c, &o), 0);
	if (wrap)
		wrap(&c.locks);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(cluster_add(&c), 0);
	assert_int_equal(cluster_start(&c), 0);
	assert_int_equal(store_table_make(c.store, "t", "f", &table), 0);
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(put(table, row_name(i), "f", row_name(i)), 0);
	for (unsigned i = 10; i < ROWS; i += 10)
		assert_int_equal(tfs_split(table, tfs_str(row_name(i))), 0);
	return 0;
}

static inline int cluster_setup(void **state)
{
	return cluster_make(state, NULL);
}

static inline int cluster_teardown(void **state)
{
	tfs_table_close(table);
	cluster_free(&c);
	return test_dir_teardown(state);
}

/* Each row is there once, forwards and backwards, and by a read. */
static inline void read_all(void)
{
	struct tfs_cell cell;

	for (unsigned reverse = 0; reverse < 2; reverse++) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .reverse = reverse, .versions = 1};
		struct tfs_scan *s;
		unsigned n = 0;
		int err;

		assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
		while ((err = tfs_scan_next(s, &cell)) > 0) {
			const char *want = row_name(reverse ? ROWS - 1 - n : n);

			assert_int_equal(cell.row.n, strlen(want));
			assert_memory_equal(cell.row.p, want, cell.row.n);
			n++;
		}
		assert_int_equal(err, 0);
		assert_int_equal(n, ROWS);
		tfs_scan_free(s);
	}
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(look(table, row_name(i)), 0);
	assert_int_equal(look(table, "row895"), -ENOENT);
}

/* The tablets that a server lists; the caller calls ts_answer_fini. */
static inline void list(unsigned server, struct ts_answer *a)
{
	const struct ts_request q = {.method = TS_LIST};

	*a = (struct ts_answer){0};
	assert_int_equal(ts_call(server_service(c.servers[server].server), &q, a), 0);
}

/* The server of the row's tablet; fails unless it is exactly one. */
static inline unsigned owner(uint32_t id, const char *row, struct ts_assigned *out)
{
	unsigned found = CLUSTER_SERVERS;

	for (unsigned i = 0; i < c.count; i++) {
		struct ts_answer a;

		if (!c.servers[i].server)
			continue;
		list(i, &a);
		for (uint32_t k = 0; k < a.tablet_count; k++) {
			const struct ts_assigned *t = &a.tablets[k];

			if (t->table != id || bytes_cmp(tfs_str(row), t->begin) < 0 ||
				(t->end.p && bytes_cmp(tfs_str(row), t->end) >= 0))
				continue;
			assert_int_equal(found, CLUSTER_SERVERS);
			found = i;
			if (out) {
				static char ends[8][2][32]; /* the texts of the last 8 calls */
				static unsigned calls;
				char(*at)[32] = ends[calls++ % 8];

				*out = *t;
				snprintf(at[0], 32, "%.*s", (int)t->begin.n, (const char *)t->begin.p);
				snprintf(at[1], 32, "%.*s", (int)t->end.n, (const char *)t->end.p);
				out->begin = tfs_str(at[0]);
				out->end = t->end.p ? tfs_str(at[1]) : (struct tfs_bytes){NULL, 0};
			}
		}
		ts_answer_fini(&a);
	}
	assert_true(found < CLUSTER_SERVERS);
	return found;
}

static inline void spread(void)
{
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(
			master_move(c.master, tfs_table_id(table), tfs_str(row_name(i * 10)), c.servers[i % 3].incarnation), 0);
}

static inline void move_one_to(unsigned server)
{
	assert_int_equal(master_move(c.master, tfs_table_id(table), tfs_str(row_name(45)), c.servers[server].incarnation), 0);
}

static inline struct master *master_make(void)
{
	const struct master_options mo = {.data_dir = c.options.data_dir,
		.locks = c.locks,
		.tablets = route_service(c.router),
		.servers = {.connect = cluster_connect, .each = cluster_each, .arg = &c},
		.clock = c.clock,
		.term = &c.term,
		.no_background = true};
	struct master *m;

	assert_int_equal(master_new(&mo, &m), 0);
	return m;
}

static inline unsigned listed(unsigned server)
{
	struct ts_answer a;
	unsigned n;

	list(server, &a);
	n = a.tablet_count;
	ts_answer_fini(&a);
	return n;
}

/* All moves that balance wants, until it wants none.  The servers are not new to the master. */
static inline unsigned balance(void)
{
	unsigned moved, all = 0;

	do {
		for (unsigned i = 0; i < c.master->passes.seen_count; i++)
			c.master->passes.seen[i].since_us = 1;
		assert_int_equal(master_balance(c.master, &moved), 0);
		all += moved;
	} while (moved);
	return all;
}

#define C(f) cmocka_unit_test_setup_teardown(f, cluster_setup, cluster_teardown)

static inline int control(unsigned server, enum ts_method method, const struct ts_assigned *t)
{
	int one = 1, err;
	struct ts_request q = {.method = method, .tablets = t, .tablet_count = 1, .term = c.term.number};
	struct ts_answer a = {.row_errs = &one};

	err = ts_call(server_service(c.servers[server].server), &q, &a);
	a.row_errs = NULL;
	ts_answer_fini(&a);
	return err ? err : one;
}

#endif
