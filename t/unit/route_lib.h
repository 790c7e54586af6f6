/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated cluster for tests of the router: servers that serve the tablets listed
 * in `truth` and refuse others, a METADATA whose contents the tests set, and a
 * root file.  The tests change both, so that a location becomes stale on any
 * level.
 */
#ifndef T_UNIT_ROUTE_LIB_H
#define T_UNIT_ROUTE_LIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/client/locations.h"
#include "engine/client/metadata.h"
#include "engine/client/route.h"
#include "engine/meta/meta_format.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVERS 4u
#define TABLETS_MOST 256u

struct tablet_of {
	uint32_t table;
	char begin[24], end[24]; /* end is "" at the end; METADATA's tablets have a table id, in decimal */
	unsigned serves, said;   /* the server that has it, and the server that METADATA names */
};
/* In order of table and end.  Table META_TABLE: METADATA's own, whose ends are table ids. */
static struct tablet_of tablets[TABLETS_MOST];
static unsigned tablet_count;
static unsigned root_serves, root_said;
static struct mutex world; /* guards the above */

enum what { AT_ROOT, AT_META, AT_USER, REFUSED, LOCK_READ, CLOSED, WHATS };
static _Atomic unsigned seen[WHATS];
static _Atomic int refuse_next;  /* how many requests of users are refused, wherever they come */
static int refuse_err;           /* with this error */
static uint32_t dropped;         /* the lock service has the note that this table is dropped */
static uint64_t scan_number = 7; /* the server's number of a scan, plus the number of the server */
static unsigned batch_rows;      /* 0: all of METADATA in one batch */

struct fake_server {
	struct tablet_service service;
	unsigned number;
	int sync_err, hold_err;
	unsigned no_memory; /* the next TS_UNBLOCK_WRITES return -ENOMEM, this many */
	int holds;
	unsigned syncs, nexts;
	unsigned busy, served_rows; /* how many requests are refused; requests with many rows from which row on */
	bool silent;                /* a request whose first row is refused has no error, against the rules */
};
static struct fake_server servers[SERVERS];

static inline unsigned total(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WHATS; i++)
		n += seen[i];
	return n;
}

static inline void forget_seen(void)
{
	for (unsigned i = 0; i < WHATS; i++)
		seen[i] = 0;
}

/* ---- METADATA ---- */

/* A bound of a METADATA tablet: the first row of a table. */
static inline void meta_bound(struct buf *out, const char *id)
{
	buf_reset(out);
	if (*id)
		assert_int_equal(meta_table_begin(out, (uint32_t)atoi(id)), 0);
}

static inline bool within(struct tfs_bytes row, struct tfs_bytes begin, struct tfs_bytes end)
{
	return bytes_cmp(row, begin) >= 0 && (!end.n || bytes_cmp(row, end) < 0);
}

static inline void add_cell(struct scan_batch *b, struct tfs_bytes row, const char *qualifier, struct tfs_bytes value)
{
	struct tfs_cell *c;

	if (b->count == b->cap) {
		struct tfs_cell *more = realloc(b->cells, (b->cap + 64) * sizeof(*more));

		if (!more)
			abort();
		b->cells = more;
		b->cap += 64;
	}
	c = &b->cells[b->count++];
	*c = (struct tfs_cell){.family_id = META_TABLET, .ts = 1, .size = value.n};
	if (!arena_dup(&b->arena, row, &c->row) || !arena_dup(&b->arena, tfs_str(qualifier), &c->qualifier) ||
		!arena_dup(&b->arena, value, &c->value))
		abort();
}

static inline void add_row(struct scan_batch *b, const struct tablet_of *t, struct tfs_bytes key)
{
	struct buf v = {0}, begin = {0};

	if (t->table == META_TABLE)
		meta_bound(&begin, t->begin);
	else if (buf_set(&begin, t->begin, strlen(t->begin)))
		abort();
	if (meta_bytes_encode(buf_bytes(&begin), &v))
		abort();
	add_cell(b, key, "begin", buf_bytes(&v));
	buf_reset(&v);
	if (meta_u64_encode(12345, &v))
		abort();
	add_cell(b, key, "clock", buf_bytes(&v));
	add_cell(b, key, "merge", tfs_str("what this test knows nothing of"));
	buf_reset(&v);
	if (meta_server_encode(t->said, 0, &v))
		abort();
	add_cell(b, key, "server", buf_bytes(&v));
	buf_fini(&begin);
	buf_fini(&v);
}

/* Rows [from, to) of the tablet that ends at `end`; the scan continues at the server until all are returned. */
static inline void fill(struct ts_answer *a, const struct ts_request *q, struct tfs_bytes end, unsigned number)
{
	struct tfs_bytes from = q->method == TS_SCAN_OPEN ? q->spec->pub.row_from : q->row;
	unsigned rows = 0;

	scan_batch_reset(&a->batch);
	a->batch.done = true;
	a->scan = 0;
	for (unsigned i = 0; i < tablet_count; i++) {
		const struct tablet_of *t = &tablets[i];
		struct buf key = {0}, e = {0};

		if (t->table == META_TABLE)
			meta_bound(&e, t->end);
		else if (buf_set(&e, t->end, strlen(t->end)))
			abort();
		if (meta_row_key(&key, t->table, !*t->end, buf_bytes(&e)))
			abort();
		if (bytes_cmp(buf_bytes(&key), from) >= 0 && (!end.n || bytes_cmp(buf_bytes(&key), end) < 0) &&
			(!q->spec || !q->spec->pub.row_to.p || bytes_cmp(buf_bytes(&key), q->spec->pub.row_to) < 0)) {
			if (batch_rows && rows == batch_rows) {
				a->scan = scan_number + number;
				a->batch.done = false;
			} else {
				add_row(&a->batch, t, buf_bytes(&key));
				rows++;
			}
		}
		buf_fini(&e);
		buf_fini(&key);
		if (a->scan)
			break;
	}
}

/* One scan of METADATA at a time is continued, in tests of one thread. */
static struct {
	struct buf at, end, row_to;
	bool bounded;
} open_scan;

static inline int serve_meta(struct fake_server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct buf begin = {0}, end = {0};
	int err = -TABLET_MOVED;

	arena_reset(&a->arena);
	if (bytes_cmp(q->row, META_ROOT_END) < 0) {
		if (s->number == root_serves) {
			seen[AT_ROOT]++;
			fill(a, q, META_ROOT_END, s->number);
			err = arena_dup(&a->arena, META_ROOT_END, &a->tablet_end) ? 0 : -ENOMEM;
		}
	} else {
		for (unsigned i = 0; i < tablet_count && tablets[i].table == META_TABLE; i++) {
			meta_bound(&begin, tablets[i].begin);
			meta_bound(&end, tablets[i].end);
			if (!within(q->row, buf_bytes(&begin), buf_bytes(&end)) || tablets[i].serves != s->number)
				continue;
			seen[AT_META]++;
			fill(a, q, buf_bytes(&end), s->number);
			a->tablet_end = (struct tfs_bytes){NULL, 0};
			err = !end.n || arena_dup(&a->arena, buf_bytes(&end), &a->tablet_end) ? 0 : -ENOMEM;
			break;
		}
	}
	if (err)
		seen[REFUSED]++;
	if (!err && a->scan) {
		const struct tfs_cell *last = &a->batch.cells[a->batch.count - 1];

		open_scan.bounded = q->spec->pub.row_to.p != NULL;
		if (buf_set(&open_scan.at, last->row.p, last->row.n) || buf_u8(&open_scan.at, 0) ||
			buf_set(&open_scan.end, end.p, end.n) ||
			buf_set(&open_scan.row_to, q->spec->pub.row_to.p, q->spec->pub.row_to.n))
			abort();
	}
	buf_fini(&begin);
	buf_fini(&end);
	return err;
}

/* ---- servers ---- */

static inline int serve_row(struct fake_server *s, const struct ts_request *q, struct ts_answer *a)
{
	if (refuse_next > 0) {
		refuse_next--;
		seen[REFUSED]++;
		return refuse_err;
	}
	for (unsigned i = 0; i < tablet_count; i++) {
		const struct tablet_of *t = &tablets[i];

		if (t->table != q->table || !within(q->row, tfs_str(t->begin), tfs_str(t->end)) || t->serves != s->number)
			continue;
		seen[AT_USER]++;
		a->scan = q->method == TS_SCAN_OPEN ? scan_number + s->number : 0;
		return 0;
	}
	seen[REFUSED]++;
	return -TABLET_MOVED;
}

/* For rows "NNN": the contents of their latest mutation, and how many there were. */
static int64_t latest[1000];
static unsigned applied[1000];
static _Atomic unsigned out_of_order;

/* Serves the first `most` rows.  If it refuses the first one, the request has that error. */
static inline int serve_rows(struct fake_server *s, const struct ts_request *q, unsigned most, struct ts_answer *a)
{
	int err = 0, first = 0;

	for (uint32_t i = 0; i < q->row_count; i++) {
		const struct ts_request one = {.method = TS_MUTATE, .table = q->table, .row = q->rows[i].row};

		err = err ? err : i < most ? serve_row(s, &one, a) : -EAGAIN;
		first = i ? first : err;
		if (a->row_errs)
			a->row_errs[i] = err;
		if (!err) {
			char name[8];
			unsigned row;

			snprintf(name, sizeof(name), "%.*s", (int)q->rows[i].row.n, (const char *)q->rows[i].row.p);
			row = (unsigned)strtoul(name, NULL, 10) % 1000;
			for (uint32_t k = 0; k < q->rows[i].op_count; k++) {
				out_of_order += q->rows[i].ops[k].w.place.us <= latest[row];
				latest[row] = q->rows[i].ops[k].w.place.us;
				applied[row]++;
			}
		}
	}
	return first;
}

static inline int serve_next(struct fake_server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct scan_spec spec = {.pub.row_from = buf_bytes(&open_scan.at)};
	struct ts_request more = {.method = TS_SCAN_OPEN, .table = q->table, .spec = &spec};

	if (q->scan != scan_number + s->number)
		return -SCAN_UNKNOWN;
	s->nexts++;
	if (q->table != META_TABLE) {
		a->scan = q->scan;
		return 0;
	}
	if (open_scan.bounded)
		spec.pub.row_to = buf_bytes(&open_scan.row_to);
	fill(a, &more, buf_bytes(&open_scan.end), s->number);
	if (a->scan) {
		const struct tfs_cell *last = &a->batch.cells[a->batch.count - 1];

		if (buf_set(&open_scan.at, last->row.p, last->row.n) || buf_u8(&open_scan.at, 0))
			abort();
	}
	return 0;
}

static inline int fake_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct fake_server *s = (struct fake_server *)service;
	int err = 0;

	mutex_assert_none_held(); /* the router holds no lock here */
	mutex_lock(&world);
	if (q->method == TS_SYNC) {
		s->syncs++;
		err = s->sync_err;
	} else if (q->method == TS_BLOCK_WRITES) {
		err = s->busy ? -EAGAIN : s->hold_err;
		s->busy -= s->busy != 0;
		s->holds |= !err;
	} else if (q->method == TS_UNBLOCK_WRITES) {
		err = s->no_memory ? -ENOMEM : 0;
		s->no_memory -= s->no_memory != 0;
		s->holds &= err != 0;
	} else if (q->method == TS_SCAN_NEXT) {
		err = serve_next(s, q, a);
	} else if (q->method == TS_SCAN_CLOSE) {
		seen[CLOSED]++;
		err = q->scan == scan_number + s->number ? 0 : -SCAN_UNKNOWN;
	} else if (q->method == TS_MUTATE) {
		err = serve_rows(s, q, !s->busy ? UINT32_MAX : q->row_count > 1 ? s->served_rows : 0, a);
		err = s->silent ? 0 : err;
		s->busy -= s->busy != 0;
	} else {
		err = q->table == META_TABLE ? serve_meta(s, q, a) : serve_row(s, q, a);
	}
	mutex_unlock(&world);
	return err;
}

/* ---- the root file ---- */

static inline int fake_get(struct lock_service *l, const char *name, struct buf *contents, struct lock_stat *stat)
{
	struct meta_tablet m = {.table = META_TABLE};
	int err = strcmp(name, "root") ? -ENOENT : buf_append_bytes(&m.end, META_ROOT_END);
	char note[32];

	snprintf(note, sizeof(note), "dropped/%u", dropped);
	if (err == -ENOENT)
		return strcmp(name, note) ? err : 0;
	mutex_lock(&world);
	m.server = root_said;
	seen[LOCK_READ]++;
	mutex_unlock(&world);
	if (!err && m.server == SERVERS + 1)
		err = -ENOENT;
	if (!err)
		err = meta_root_encode(&m, contents);
	if (stat)
		*stat = (struct lock_stat){.version = 1};
	meta_tablet_fini(&m);
	return err;
}

static inline int fake_sync(struct lock_service *l)
{
	return 0;
}

static const struct lock_service_ops fake_lock_ops = {.get = fake_get, .sync = fake_sync};
static struct lock_service fake_locks = {&fake_lock_ops};

static inline struct tablet_service *fake_connect(void *arg, uint64_t incarnation)
{
	return incarnation < SERVERS ? &servers[incarnation].service : NULL;
}

static inline int fake_servers(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	int err = 0;

	for (unsigned i = 0; i < SERVERS && !err; i++)
		err = fn(fn_arg, i, &servers[i].service);
	return err;
}

static const struct tablet_service_ops fake_ops = {.call = fake_call};
static struct router *router;
static struct tablet_service *service;

static inline void router_new(uint64_t patience_us, size_t cache_bytes)
{
	struct route_options o = {
		.locks = &fake_locks,
		.servers = {.connect = fake_connect, .each = fake_servers},
		.patience_us = patience_us,
		.cache_bytes = cache_bytes,
	};

	assert_int_equal(route_new(&o, &router), 0);
	service = route_service(router);
}

static inline void add_tablet(uint32_t table, const char *begin, const char *end, unsigned server)
{
	struct tablet_of *t = &tablets[tablet_count++];

	assert_true(tablet_count <= TABLETS_MOST);
	*t = (struct tablet_of){.table = table, .serves = server, .said = server};
	snprintf(t->begin, sizeof(t->begin), "%s", begin);
	snprintf(t->end, sizeof(t->end), "%s", end);
}

/* Table 16 in tablets of ten rows "000" to "399", table 17 in one, on servers by turns; METADATA in two tablets. */
static inline int cluster(void **state)
{
	for (unsigned i = 0; i < SERVERS; i++)
		servers[i] = (struct fake_server){.service = {&fake_ops}, .number = i};
	tablet_count = 0;
	root_serves = root_said = 0;
	add_tablet(META_TABLE, "2", "17", 1);
	add_tablet(META_TABLE, "17", "", 2);
	for (unsigned i = 0; i < 40; i++) {
		char begin[24], end[24];

		snprintf(begin, sizeof(begin), "%02u0", i);
		snprintf(end, sizeof(end), "%02u0", i + 1);
		add_tablet(16, i ? begin : "", i < 39 ? end : "", i % SERVERS);
	}
	add_tablet(17, "", "", 3);
	batch_rows = 0;
	refuse_next = 0;
	refuse_err = -TABLET_MOVED;
	dropped = 0;
	forget_seen();
	router_new(20000, 0);
	return 0;
}

static inline int cluster_end(void **state)
{
	route_free(router);
	router = NULL;
	buf_fini(&open_scan.at);
	buf_fini(&open_scan.end);
	buf_fini(&open_scan.row_to);
	return 0;
}

static inline int ask(uint32_t table, const char *row)
{
	struct ts_request q = {.method = TS_EXISTS, .table = table, .row = tfs_str(row)};
	struct ts_answer a = {0};
	int err = ts_call(service, &q, &a);

	assert_int_equal(err, a.err);
	ts_answer_fini(&a);
	return err;
}

/* Serves and is said to be served elsewhere from now on. */
static inline struct tablet_of *tablet_of_row(uint32_t table, const char *row)
{
	for (unsigned i = 0; i < tablet_count; i++)
		if (tablets[i].table == table && within(tfs_str(row), tfs_str(tablets[i].begin), tfs_str(tablets[i].end)))
			return &tablets[i];
	abort();
}

static inline void move(struct tablet_of *t)
{
	mutex_lock(&world);
	t->serves = t->said = (t->serves + 1) % SERVERS;
	mutex_unlock(&world);
}

#endif
