/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the server of a row, by the paper's three levels:
 *
 *	the lock service's file "root"   names the root tablet's server
 *	the root tablet                  has the rows of METADATA's tablets
 *	METADATA's tablets               have the rows of all others
 *
 * A row's tablet is the first of its table in METADATA that ends above the
 * row.  Each reading of METADATA goes on for a few tablets, whose locations
 * will be wanted next; what it finds is remembered (locations.c).
 *
 * Reading METADATA is itself a request to a tablet, so it comes through here
 * again, one level up, until the root's location comes out of the file.  All
 * that serves one caller's request shares one struct trip: the patience.
 *
 * A location may be stale.  A server that does not serve the row says
 * -EREMCHG; then the entry is forgotten and METADATA read, past the cache, and
 * so on each level.  In the worst case, with everything stale, that makes six
 * steps: the tablet, METADATA and the root say no; the root file, the root
 * and METADATA are read.  When what was just read is refused, too, the tablet
 * is on its way from one server to another, or METADATA was read between two
 * steps of a change: a pause, and again.
 *
 * Nothing is cached of what is not there.  A table without rows in METADATA
 * has gone (they are written before its schema and deleted after it): -EIDRM,
 * as its server would say.
 */
#include "engine/client/route.h"
#include "engine/base/mutex.h"
#include "engine/client/locations.h"
#include "engine/client/metadata.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_FIRST_US 1000u
#define PAUSE_MOST_US 64000u
/* A scan's id here: which of the servers, and its number there. */
#define SCAN_SERVER_SHIFT 48
#define SCAN_NUMBER_MASK ((UINT64_C(1) << SCAN_SERVER_SHIFT) - 1)
#define SERVERS_MOST (1u << 16)

struct router {
	struct tablet_service service; /* first */
	struct route_options o;
	struct buf root_end; /* METADATA's rows below it are in the root tablet */
	struct locations *locations;
	_Atomic(struct tablet_service *) root; /* who serves the root tablet; NULL: not known */
	_Atomic uint64_t root_hits, reads, stale, prefetched;
	struct mutex lock;               /* RANK_LOCATIONS; guards servers */
	struct tablet_service **servers; /* all that scans may be open at; only grows */
	size_t server_count;
};

/* One caller's request and all that is read for it. */
struct trip {
	uint64_t left_us, pause_us;
};

static int route(struct router *r, struct trip *t, const struct ts_request *q, struct ts_answer *a);

static bool pause_for_change(struct trip *t)
{
	uint64_t us = t->pause_us < t->left_us ? t->pause_us : t->left_us;

	if (!us)
		return false;
	(void)usleep((useconds_t)us);
	t->left_us -= us;
	t->pause_us = t->pause_us * 2 < PAUSE_MOST_US ? t->pause_us * 2 : PAUSE_MOST_US;
	return true;
}

/* ---- servers, for scans that go on ---- */

/* -ENOMEM; -EREMCHG: no server has that incarnation. */
static int server_of(struct router *r, uint64_t incarnation, struct tablet_service **out)
{
	struct tablet_service *s = r->o.connect(r->o.arg, incarnation), **v;
	int err = 0;
	size_t i;

	if (!s)
		return -EREMCHG;
	mutex_lock(&r->lock);
	for (i = 0; i < r->server_count && r->servers[i] != s; i++)
		;
	if (i == r->server_count) {
		v = i < SERVERS_MOST ? realloc(r->servers, (i + 1) * sizeof(struct tablet_service *)) : NULL;
		if (v) {
			r->servers = v;
			v[r->server_count++] = s;
		} else {
			err = -ENOMEM;
		}
	}
	mutex_unlock(&r->lock);
	if (!err)
		*out = s;
	return err;
}

static uint64_t server_number(struct router *r, const struct tablet_service *s)
{
	uint64_t i;

	mutex_lock(&r->lock);
	for (i = 0; r->servers[i] != s; i++)
		;
	mutex_unlock(&r->lock);
	return i;
}

static struct tablet_service *server_by_number(struct router *r, uint64_t i)
{
	struct tablet_service *s;

	mutex_lock(&r->lock);
	s = i < r->server_count ? r->servers[i] : NULL;
	mutex_unlock(&r->lock);
	return s;
}

static void scan_close(struct tablet_service *s, uint32_t table, uint64_t scan)
{
	struct ts_request q = {.method = TS_SCAN_CLOSE, .table = table, .scan = scan};
	struct ts_answer a = {0};

	(void)!ts_call(s, &q, &a);
	ts_answer_fini(&a);
}

/* The number of a scan that goes on becomes one of ours. */
static int scan_number(struct router *r, struct tablet_service *s, uint32_t table, struct ts_answer *a)
{
	if (!a->scan)
		return 0;
	if (a->scan & ~SCAN_NUMBER_MASK) {
		scan_close(s, table, a->scan);
		a->scan = 0;
		return -EBADMSG;
	}
	a->scan |= server_number(r, s) << SCAN_SERVER_SHIFT;
	return 0;
}

static int route_scan(struct router *r, const struct ts_request *q, struct ts_answer *a)
{
	struct tablet_service *s = server_by_number(r, q->scan >> SCAN_SERVER_SHIFT);
	struct ts_request there = *q;
	int err;

	if (!s)
		return -ESTALE;
	there.scan = q->scan & SCAN_NUMBER_MASK;
	err = ts_call(s, &there, a);
	return err || q->method == TS_SCAN_CLOSE ? err : scan_number(r, s, q->table, a);
}

/* ---- the three levels ---- */

static bool is_root(const struct router *r, uint32_t table, struct slice row)
{
	return table == META_TABLE && slice_cmp(row, buf_slice(&r->root_end)) < 0;
}

static int read_root(struct router *r, struct tablet_service **out)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	int err = lock_get(r->o.locks, "root", &b, NULL);

	if (!err)
		err = meta_root_decode(buf_slice(&b), &root);
	else if (err == -ENOENT)
		err = -EREMCHG; /* a store that is being made */
	if (!err)
		err = server_of(r, root.server, out);
	if (!err)
		atomic_store(&r->root, *out);
	meta_tablet_fini(&root);
	buf_fini(&b);
	return err;
}

/* What a reading of METADATA has come to: rows of one table in their order. */
struct reading {
	struct router *r;
	uint32_t table;
	struct slice row; /* looked for */
	unsigned rows;    /* taken in */
	struct tablet_service *found;
	struct buf key, begin; /* of the row whose cells are coming; begin: the hint, or the end of the tablet before */
	bool have;
	uint64_t server;
};

static int take_cell(struct reading *d, const struct scan_cell *c)
{
	struct slice begin = {NULL, 0};
	int err = 0;

	if (!d->have) {
		err = buf_set(&d->key, c->row.p, c->row.n);
		d->have = true;
		d->server = 0;
	}
	if (!err)
		err = meta_location_cell(c, &begin, &d->server);
	if (!err && begin.p && d->rows == 0)
		err = buf_set(&d->begin, begin.p, begin.n);
	return err;
}

/* A whole row has been seen. */
static int take_row(struct reading *d)
{
	struct tablet_service *s = NULL;
	struct slice end;
	uint32_t table;
	bool last;
	int err;

	if (!meta_parse_row_key(buf_slice(&d->key), &table, &last, &end))
		return -EBADMSG;
	err = server_of(d->r, d->server, &s);
	if (d->rows == 0) {
		/* METADATA says that nobody has the row: it was read between two steps of a change. */
		if (!err && slice_cmp(d->row, buf_slice(&d->begin)) < 0)
			err = -EREMCHG;
		if (err)
			return err;
		d->found = s;
	} else if (err == -EREMCHG) {
		err = 0;
	} else if (!err) {
		atomic_fetch_add_explicit(&d->r->prefetched, 1, memory_order_relaxed);
	}
	if (s)
		locations_put(d->r->locations, d->table, buf_slice(&d->begin), end, s);
	d->rows++;
	d->have = false;
	return err || last ? err : buf_set(&d->begin, end.p, end.n);
}

/* The service that the cursor over METADATA calls: this router, on the same trip. */
struct level_above {
	struct tablet_service service; /* first */
	struct router *r;
	struct trip *t;
};

static int call_above(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct level_above *l = (struct level_above *)s;

	return route(l->r, l->t, q, a);
}

static int read_tablets(struct router *r, struct trip *t, uint32_t table, struct slice row, struct tablet_service **out)
{
	static const struct tablet_service_ops ops = {.call = call_above};
	static const uint16_t family = META_TABLET;
	struct level_above above = {.service = {.ops = &ops}, .r = r, .t = t};
	struct scan_spec spec = {
		.what = SCAN_CELLS, .families = &family, .family_count = 1, .versions = 1, .batch_bytes = 16 << 10};
	struct reading d = {.r = r, .table = table, .row = row};
	const struct scan_cell *cell;
	struct buf from = {0}, to = {0};
	struct row_cursor c;
	int err = meta_seek_key(&from, table, row), n;

	if (!err && table < UINT32_MAX) {
		err = meta_table_begin(&to, table + 1);
		spec.row_to = buf_slice(&to);
	}
	if (err)
		goto out;
	spec.row_from = buf_slice(&from);
	row_cursor_init(&c, &above.service, META_TABLE, 0, &spec);
	do {
		n = row_cursor_next(&c, &cell);
		err = n < 0 ? n : 0;
		if (!err && d.have && (n == 0 || !slice_eq(cell->row, buf_slice(&d.key))))
			err = take_row(&d);
		if (!err && n > 0 && d.rows < ROUTE_PREFETCH)
			err = take_cell(&d, cell);
	} while (!err && n > 0 && d.rows < ROUTE_PREFETCH);
	row_cursor_fini(&c);
	/* Behind the row that was looked for nothing matters so much. */
	if (d.found)
		err = 0;
	else if (!err)
		err = table == META_TABLE ? -EREMCHG : -EIDRM; /* a store that is being made */
	if (!err)
		*out = d.found;
out:
	buf_fini(&from);
	buf_fini(&to);
	buf_fini(&d.key);
	buf_fini(&d.begin);
	return err;
}

static struct tablet_service *known(struct router *r, uint32_t table, struct slice row)
{
	struct tablet_service *s;

	if (!is_root(r, table, row))
		return locations_find(r->locations, table, row);
	s = atomic_load(&r->root);
	if (s)
		atomic_fetch_add_explicit(&r->root_hits, 1, memory_order_relaxed);
	return s;
}

static int look_up(struct router *r, struct trip *t, uint32_t table, struct slice row, struct tablet_service **out)
{
	atomic_fetch_add_explicit(&r->reads, 1, memory_order_relaxed);
	return is_root(r, table, row) ? read_root(r, out) : read_tablets(r, t, table, row, out);
}

static void forget(struct router *r, uint32_t table, struct slice row, struct tablet_service *s)
{
	if (is_root(r, table, row))
		(void)atomic_compare_exchange_strong(&r->root, &s, NULL);
	else
		locations_forget(r->locations, table, row, s);
}

static int route_row(struct router *r, struct trip *t, const struct ts_request *q, struct ts_answer *a)
{
	struct tablet_service *s = known(r, q->table, q->row);
	bool stale = false;
	int err;

	if (s) {
		err = ts_call(s, q, a);
		stale = err == -EREMCHG;
		if (!stale)
			goto served;
		forget(r, q->table, q->row, s);
		atomic_fetch_add_explicit(&r->stale, 1, memory_order_relaxed);
	}
	do {
		err = look_up(r, t, q->table, q->row, &s);
		if (!err) {
			err = ts_call(s, q, a);
			if (err != -EREMCHG)
				goto served;
			forget(r, q->table, q->row, s);
		}
	} while (err == -EREMCHG && pause_for_change(t));
	return err;
served:
	return err || q->method != TS_SCAN_OPEN ? err : scan_number(r, s, q->table, a);
}

/* ---- what goes to all ---- */

struct to_all {
	const struct ts_request *q;
	struct ts_answer *a;
	unsigned told, most; /* most: how many to let go again */
	int err;
};

static int tell(void *arg, struct tablet_service *s)
{
	struct to_all *w = arg;
	int err;

	/* A server that let go twice would let go of what another holds: so the trying again is here, for each. */
	while ((err = ts_call(s, w->q, w->a)) == -ENOMEM && w->q->method == TS_UNBLOCK_WRITES)
		(void)usleep(PAUSE_FIRST_US);
	w->err = w->err ? w->err : err;
	if (err && w->q->method == TS_BLOCK_WRITES)
		return 1;
	w->told++;
	return 0;
}

static int let_go(void *arg, struct tablet_service *s)
{
	struct to_all *w = arg;

	return w->told == w->most ? 1 : tell(w, s);
}

static int route_all(struct router *r, const struct ts_request *q, struct ts_answer *a)
{
	struct to_all w = {.q = q, .a = a};
	struct ts_request undo = {.method = TS_UNBLOCK_WRITES, .table = q->table};
	struct ts_answer ua = {0};
	int err = r->o.servers(r->o.arg, tell, &w);

	if (err < 0 && !w.err)
		w.err = err;
	if (w.err && q->method == TS_BLOCK_WRITES) {
		struct to_all u = {.q = &undo, .a = &ua, .most = w.told};

		(void)r->o.servers(r->o.arg, let_go, &u);
		ts_answer_fini(&ua);
	}
	return w.err;
}

static int route(struct router *r, struct trip *t, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_SCAN_NEXT || q->method == TS_SCAN_CLOSE)
		return route_scan(r, q, a);
	if (q->method == TS_SYNC || q->method == TS_BLOCK_WRITES || q->method == TS_UNBLOCK_WRITES)
		return route_all(r, q, a);
	return route_row(r, t, q, a);
}

static int route_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct router *r = (struct router *)s;
	struct trip t = {.left_us = r->o.patience_us, .pause_us = PAUSE_FIRST_US};

	a->err = route(r, &t, q, a);
	return a->err;
}

struct tablet_service *route_service(struct router *r)
{
	return &r->service;
}

int route_tablet_end(struct router *r, uint32_t table, struct slice row, struct buf *end, bool *last)
{
	return locations_end(r->locations, table, row, end, last);
}

void route_get_stats(struct router *r, struct route_stats *out)
{
	struct locations_stats l;

	locations_get_stats(r->locations, &l);
	*out = (struct route_stats){
		.hits = l.hits + atomic_load(&r->root_hits),
		.reads = atomic_load(&r->reads),
		.stale = atomic_load(&r->stale),
		.prefetched = atomic_load(&r->prefetched),
		.entries = l.entries,
		.bytes = l.bytes,
	};
}

int route_new(const struct route_options *o, struct router **out)
{
	static const struct tablet_service_ops ops = {.call = route_call};
	struct router *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	mutex_init(&r->lock, RANK_LOCATIONS);
	r->service.ops = &ops;
	r->o = *o;
	if (!r->o.cache_bytes)
		r->o.cache_bytes = ROUTE_CACHE_BYTES;
	if (!r->o.patience_us)
		r->o.patience_us = ROUTE_PATIENCE_US;
	err = meta_root_end(&r->root_end);
	if (!err)
		err = locations_new(r->o.cache_bytes, &r->locations);
	if (err)
		route_free(r);
	else
		*out = r;
	return err;
}

void route_free(struct router *r)
{
	if (!r)
		return;
	locations_free(r->locations);
	free(r->servers);
	buf_fini(&r->root_end);
	mutex_fini(&r->lock);
	free(r);
}
