/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the server of a row, by the paper's three levels (section 5.1):
 *
 *	the lock service's file "root"   names the root tablet's server
 *	the root tablet                  has the rows of METADATA's tablets
 *	METADATA's tablets               have the rows of all other tablets
 *
 * The tablet of a row is the first tablet of the table in METADATA whose end is above the row.
 * The scan of METADATA also reads the locations of the next few tablets, because requests often
 * follow for them.  It caches all of them (locations.c).
 *
 * A read of METADATA is itself a request to a tablet.  So the router calls
 * itself, one level up.  The recursion ends at the root tablet, whose location
 * is in the file.  All requests on behalf of one caller share one time limit, struct patience.
 *
 * A cached location may be stale.  A server that does not serve the row returns -TABLET_MOVED.  Then the router drops
 * the entry and reads METADATA.  This may happen on each level.  If all locations are stale, a request takes six steps:
 * three refusals and three reads.
 *
 * A server may refuse a location that was just read.  Then the tablet is moving, or the router
 * read METADATA between two steps of a change.  The router pauses and tries again.
 *
 * A channel may lose a request or its answer.  A server in another process gets an
 * envelope with each request: the client, its epoch, the numbers of mutations
 * (numbers.h) and the time that is left.  A server in this process gets none of
 * them, so they cost nothing there.
 *
 * The absence of a tablet is not cached.  A table's rows in METADATA are written before its schema
 * and deleted after it.  So a table without rows has been dropped, and the router returns -TABLE_DROPPED,
 * as a server would.  If a server returns -TABLE_DROPPED, the router does so only if there is a note
 * dropped/ID in the lock service, or no such row.  Otherwise the server has not read the table's
 * schema yet, and the router tries again.
 */
#include "engine/client/route.h"
#include "engine/base/clock.h"
#include "engine/base/process.h"
#include "engine/base/stop.h"
#include "engine/client/locations.h"
#include "engine/client/metadata.h"
#include "engine/client/numbers.h"
#include "engine/client/server_list.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_FIRST_US 1000u
#define PAUSE_MOST_US 64000u
#define GOODBYE_US 1000000u
/* A scan id of the router: the index of the server, and the server's own scan id. */
#define SCAN_SERVER_SHIFT 48
#define SCAN_NUMBER_MASK ((UINT64_C(1) << SCAN_SERVER_SHIFT) - 1)

struct router {
	struct tablet_service service; /* first */
	struct route_options o;
	uint32_t forks; /* process_forks() of the process that uses it */
	struct locations *locations;
	_Atomic(struct tablet_service *) root; /* cached location of the root tablet; NULL: not cached */
	_Atomic uint64_t root_assignment;      /* root's assignment number, or a later number, which root's server refuses */
	_Atomic uint64_t root_hits, reads, stale, prefetched, repeated;
	struct numbers numbers;
	struct server_list servers; /* their numbers are part of scan ids */
	_Atomic uint64_t end_us;    /* no request waits beyond it; 0: not set */
};

/* The state of one caller's request, including all reads on its behalf. */
struct patience {
	uint64_t left_us, pause_us; /* the time that it may still pause, or wait for lost answers and locations */
	uint64_t held_us;           /* the time that it may still pause for a server that is busy (-EAGAIN) */
	struct numbered numbered;   /* its mutations, if they were sent to another process */
	uint32_t rows, answered;    /* the number of its mutations, and of the first mutations that have been answered */
	uint64_t epoch;             /* the epoch of the last sending */
	bool unknown;               /* a sending of the mutations had no answer */
};

static int route_request(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a);

static uint64_t router_now(const struct router *r)
{
	return r->o.now_us ? r->o.now_us(r->o.pause_arg) : monotonic_us();
}

/* Returns us, or the time to route_end_by's instant if that is less. */
static uint64_t time_left(const struct router *r, uint64_t us)
{
	const uint64_t end_us = atomic_load(&r->end_us), now = end_us ? router_now(r) : 0;

	return !end_us || now + us <= end_us ? us : now < end_us ? end_us - now : 0;
}

/* Pauses.  held: for a busy server.  Returns false if no time is left. */
static bool patience_pause(const struct router *r, struct patience *t, bool held)
{
	uint64_t *left_us = held ? &t->held_us : &t->left_us;
	uint64_t us = time_left(r, t->pause_us < *left_us ? t->pause_us : *left_us);

	if (held)
		stop_wait_ended(-EAGAIN);
	if (!us || stop_asked_waiting(!held))
		return false;
	if (r->o.pause)
		r->o.pause(r->o.pause_arg, us);
	else
		(void)usleep((useconds_t)us);
	*left_us -= us;
	t->pause_us = t->pause_us * 2 < PAUSE_MOST_US ? t->pause_us * 2 : PAUSE_MOST_US;
	return true;
}

/* ---- one sending of a request ---- */

static bool is_unknown(int err)
{
	return err == -ANSWER_LOST || err == -ETIMEDOUT;
}

static bool is_mutation(const struct ts_request *q)
{
	return q->method == TS_MUTATE;
}

/* Adds the envelope.  rows: memory for q->row_count rows. */
static void envelope_add(struct router *r, struct patience *t, struct ts_request *q, struct row_mutation *rows)
{
	if (is_mutation(q) && !t->numbered.first)
		numbers_begin(&r->numbers, &t->numbered, t->rows);
	t->epoch = r->numbers.epoch;
	q->epoch = t->epoch;
	q->token.client = r->numbers.client;
	if (is_mutation(q))
		q->token.lowest_unanswered = numbers_lowest(&r->numbers);
	for (uint32_t i = 0; i < q->row_count; i++) {
		rows[i] = q->rows[i];
		rows[i].number = t->numbered.first + t->answered + i;
	}
	if (q->row_count)
		q->rows = rows;
	q->time_left_us = time_left(r, t->left_us / 2) + 1; /* the second half is for repetitions */
}

static int call_elsewhere(struct router *r, struct patience *t, struct tablet_service *s, uint64_t assignment,
	const struct ts_request *q, struct ts_answer *a)
{
	struct row_mutation one, *rows = q->row_count > 1 ? malloc(q->row_count * sizeof(one)) : &one;
	uint64_t since_us, us;
	int err;

	if (!rows)
		return -ENOMEM;
	do {
		struct ts_request own = *q;

		envelope_add(r, t, &own, rows);
		own.assignment = assignment;
		since_us = router_now(r);
		err = ts_call(s, &own, a);
		us = router_now(r) - since_us;
	} while (err == -EPOCH_ENDED && t->epoch != r->numbers.epoch); /* another thread has begun the next epoch */
	if (rows != &one)
		free(rows);
	if (is_unknown(err))
		t->left_us -= us < t->left_us ? us : t->left_us;
	if (is_mutation(q) && (is_unknown(err) || err == -WAIT_INTERRUPTED || err == -MUTATION_ANSWERED))
		t->unknown = true;
	return err;
}

/* `assignment` is the tablet's, as METADATA has it, or 0 if the request is not for a tablet or its number is not known. */
static int call_server(struct router *r, struct patience *t, struct tablet_service *s, uint64_t assignment,
	const struct ts_request *q, struct ts_answer *a)
{
	return s->local && !t->numbered.first ? ts_call(s, q, a) : call_elsewhere(r, t, s, assignment, q, a);
}

/* Returns true if the request has the same effect when it is sent again after an unknown outcome. */
static bool may_repeat(const struct patience *t, const struct ts_request *q)
{
	return (is_mutation(q) && t->numbered.first) || q->method == TS_READ || q->method == TS_EXISTS ||
		q->method == TS_SCAN_OPEN || q->method == TS_FLUSH || q->method == TS_COMPACT || q->method == TS_PURGE ||
		q->method == TS_TABLET_INFO || q->method == TS_CHANGES || q->method == TS_HELLO;
}

/* ---- servers and scan ids ---- */

/* Finds the service of an incarnation.  -TABLET_MOVED if there is no such server; -ENOMEM. */
static int server_of(struct router *r, uint64_t incarnation, struct tablet_service **out)
{
	struct tablet_service *s = r->o.servers.connect(r->o.servers.arg, incarnation);
	int err = s ? server_list_add(&r->servers, s) : -TABLET_MOVED;

	if (!err)
		*out = s;
	return err;
}

static struct tablet_service *server_of_scan(struct router *r, uint64_t scan)
{
	return server_list_at(&r->servers, scan >> SCAN_SERVER_SHIFT);
}

/* Replaces the server's scan id in the answer by the router's. */
static int scan_id_replace(struct router *r, struct tablet_service *s, uint32_t table, struct ts_answer *a)
{
	if (!a->scan)
		return 0;
	if (a->scan & ~SCAN_NUMBER_MASK) {
		close_scan(s, table, a->scan);
		a->scan = 0;
		return -EBADMSG;
	}
	a->scan |= server_list_number(&r->servers, s) << SCAN_SERVER_SHIFT;
	return 0;
}

static int route_scan(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a)
{
	struct tablet_service *s = server_of_scan(r, q->scan);
	struct ts_request there = *q;
	int err;

	if (!s)
		return -SCAN_UNKNOWN;
	there.scan = q->scan & SCAN_NUMBER_MASK;
	do
		err = call_server(r, t, s, 0, &there, a);
	while (err == -EAGAIN && q->method != TS_POLL && patience_pause(r, t, true));
	if (!err && q->method == TS_POLL && a->scan)
		(void)patience_pause(r, t, true); /* a server whose queue is full answers at once */
	return err || q->method == TS_SCAN_CLOSE ? err : scan_id_replace(r, s, q->table, a);
}

/* ---- the three levels ---- */

static bool is_root(const struct router *r, uint32_t table, struct tfs_bytes row)
{
	return table == META_TABLE && bytes_cmp(row, META_ROOT_END) < 0;
}

static int location_read_root(struct router *r, struct tablet_service **out, uint64_t *assignment)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	int err = lock_sync(r->o.locks);

	if (!err)
		err = lock_get(r->o.locks, "root", &b, NULL);
	if (!err)
		err = meta_root_decode(buf_bytes(&b), &root);
	else if (err == -ENOENT)
		err = -TABLET_MOVED; /* the store is being created */
	if (!err)
		err = server_of(r, root.server, out);
	if (!err) {
		*assignment = root.assignment;
		atomic_store(&r->root_assignment, root.assignment);
		atomic_store(&r->root, *out);
	}
	meta_tablet_fini(&root);
	buf_fini(&b);
	return err;
}

/* Decodes a scan of METADATA's rows of one table, cell by cell. */
struct location_scan {
	struct router *r;
	uint32_t table;
	struct tfs_bytes row;         /* the user's row whose tablet is wanted */
	unsigned rows;                /* METADATA rows read so far */
	struct tablet_service *found; /* the server of the wanted tablet, which the first row names */
	uint64_t found_assignment;
	bool have;             /* key, begin and server belong to a current METADATA row */
	struct buf key, begin; /* `begin` is the hint stored in the first row, later the end of the tablet before */
	uint64_t server, assignment;
};

static int location_scan_cell(struct location_scan *d, const struct tfs_cell *c)
{
	struct tfs_bytes begin = {NULL, 0};
	int err = 0;

	if (!d->have) {
		err = buf_set(&d->key, c->row.p, c->row.n);
		d->have = true;
		d->server = 0;
	}
	if (!err)
		err = meta_location_cell(c, &begin, &d->server, &d->assignment);
	if (!err && begin.p && d->rows == 0)
		err = buf_set(&d->begin, begin.p, begin.n);
	return err;
}

/* Caches the location in the current row, all of whose cells have been read. */
static int location_scan_row(struct location_scan *d)
{
	struct tablet_service *s = NULL;
	struct tfs_bytes end;
	uint32_t table;
	bool last;
	int err;

	if (!meta_parse_row_key(buf_bytes(&d->key), &table, &last, &end))
		return -EBADMSG;
	err = server_of(d->r, d->server, &s);
	if (d->rows == 0) {
		/* If no tablet contains the row, METADATA was read between two steps of a change. */
		if (!err && bytes_cmp(d->row, buf_bytes(&d->begin)) < 0)
			err = -TABLET_MOVED;
		if (err)
			return err;
		d->found = s;
		d->found_assignment = d->assignment;
	} else if (err == -TABLET_MOVED) {
		err = 0;
	} else if (!err) {
		atomic_fetch_add_explicit(&d->r->prefetched, 1, memory_order_relaxed);
	}
	if (s)
		locations_put(d->r->locations, d->table, buf_bytes(&d->begin), end, s, d->assignment);
	d->rows++;
	d->have = false;
	return err || last ? err : buf_set(&d->begin, end.p, end.n);
}

/* The service that the cursor over METADATA calls: this router, with the patience of the caller's request.  Its errors end that request. */
struct level_above {
	struct tablet_service service; /* first */
	struct router *r;
	struct patience *t;
};

static int call_level_above(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct level_above *l = (struct level_above *)s;

	return route_request(l->r, l->t, q, a);
}

static int location_scan_run(struct router *r, struct patience *t, uint32_t table, struct tfs_bytes row,
	struct tablet_service **out, uint64_t *assignment)
{
	static const struct tablet_service_ops ops = {.call = call_level_above};
	static const uint16_t family = META_TABLET;
	struct level_above above = {.service = {.ops = &ops, .brief = true}, .r = r, .t = t};
	struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS,
		.family_ids = &family,
		.pub.family_count = 1,
		.pub.versions = 1,
		.pub.batch_bytes = 16 << 10};
	struct location_scan d = {.r = r, .table = table, .row = row};
	const struct tfs_cell *cell;
	struct buf from = {0}, to = {0};
	struct row_cursor c;
	int err = meta_seek_key(&from, table, row), n;

	if (!err && table < UINT32_MAX) {
		err = meta_table_begin(&to, table + 1);
		spec.pub.row_to = buf_bytes(&to);
	}
	if (err)
		goto out;
	spec.pub.row_from = buf_bytes(&from);
	row_cursor_init(&c, &above.service, META_TABLE, 0, &spec);
	do {
		n = row_cursor_next(&c, &cell);
		err = n < 0 ? n : 0;
		/* This is done before an error, too, because the next tablet of METADATA may not be served. */
		if (d.have && (n <= 0 || !bytes_eq(cell->row, buf_bytes(&d.key))))
			err = location_scan_row(&d);
		if (!err && n > 0 && d.rows < ROUTE_PREFETCH)
			err = location_scan_cell(&d, cell);
	} while (!err && n > 0 && d.rows < ROUTE_PREFETCH);
	row_cursor_fini(&c);
	/* Once the wanted tablet is found, an error of the prefetch is ignored. */
	if (d.found)
		err = 0;
	else if (!err)
		err = table == META_TABLE ? -TABLET_MOVED : -TABLE_DROPPED; /* METADATA lacks one while the store is created */
	if (!err) {
		*out = d.found;
		*assignment = d.found_assignment;
	}
out:
	buf_fini(&from);
	buf_fini(&to);
	buf_fini(&d.key);
	buf_fini(&d.begin);
	return err;
}

/* Asks a server, which reads METADATA for this client. */
static int location_ask(struct router *r, uint64_t *left_us, uint32_t table, struct tfs_bytes row, struct tablet_service **out,
	uint64_t *assignment)
{
	struct ss_answer a = {0};
	struct tablet_service *s;
	int err = r->o.locate(r->o.servers.arg, table, row, left_us, &a);

	if (!err && !a.tablet_count)
		err = -TABLET_MOVED;
	for (uint32_t i = 0; i < a.tablet_count && !err; i++) {
		const struct ss_location *t = &a.tablets[i];

		err = server_of(r, t->server, &s);
		if (err)
			break;
		locations_put(r->locations, table, t->begin, t->end, s, t->assignment);
		if (i == 0) {
			*out = s;
			*assignment = t->assignment;
		}
	}
	ss_answer_fini(&a);
	return err;
}

static struct tablet_service *location_cached(struct router *r, uint32_t table, struct tfs_bytes row, uint64_t *assignment)
{
	struct tablet_service *s;

	if (!is_root(r, table, row) || r->o.locate)
		return locations_find(r->locations, table, row, assignment);
	s = atomic_load(&r->root);
	*assignment = atomic_load(&r->root_assignment);
	if (s)
		atomic_fetch_add_explicit(&r->root_hits, 1, memory_order_relaxed);
	return s;
}

static int location_read(struct router *r, struct patience *t, uint32_t table, struct tfs_bytes row, struct tablet_service **out,
	uint64_t *assignment)
{
	atomic_fetch_add_explicit(&r->reads, 1, memory_order_relaxed);
	if (r->o.locate)
		return location_ask(r, &t->left_us, table, row, out, assignment);
	return is_root(r, table, row) ? location_read_root(r, out, assignment)
				      : location_scan_run(r, t, table, row, out, assignment);
}

static void location_forget(struct router *r, uint32_t table, struct tfs_bytes row, struct tablet_service *s)
{
	if (is_root(r, table, row) && !r->o.locate)
		(void)atomic_compare_exchange_strong(&r->root, &s, NULL);
	else
		locations_forget(r->locations, table, row, s);
}

/*
 * A server that has no schema of the table returns -TABLE_DROPPED.  The table may be new to
 * it, so the lock service and METADATA decide whether it was dropped.
 */
static bool may_be_new(struct router *r, uint32_t table)
{
	char note[32];

	snprintf(note, sizeof(note), "dropped/%u", table);
	return lock_get(r->o.locks, note, NULL, NULL) != 0;
}

/* Returns true if the request should be sent again. */
static bool should_repeat(struct router *r, const struct patience *t, const struct ts_request *q, int err)
{
	return err &&
		(err == -TABLET_MOVED || err == -UNREACHABLE || err == -EAGAIN || (is_unknown(err) && may_repeat(t, q)) ||
			(err == -TABLE_DROPPED && may_be_new(r, q->table)));
}

static int route_to_row(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a)
{
	const struct tfs_bytes row = ts_request_row(q);
	uint64_t assignment = 0;
	struct tablet_service *s = location_cached(r, q->table, row, &assignment);
	bool cached = s != NULL;
	unsigned silent = 0; /* unknown outcomes in a row; after two, the tablet may have another server */
	int err;

	for (;;) {
		bool pause = true;

		err = s ? 0 : location_read(r, t, q->table, row, &s, &assignment);
		if (err == -TABLE_DROPPED)
			break;
		if (!err)
			err = call_server(r, t, s, assignment, q, a);
		if (!err || !should_repeat(r, t, q, err))
			break;
		silent = s && is_unknown(err) ? silent + 1 : 0;
		if (silent && is_mutation(q))
			atomic_fetch_add_explicit(&r->repeated, 1, memory_order_relaxed);
		if (s && err != -EAGAIN && silent != 1) {
			location_forget(r, q->table, row, s);
			s = NULL;
			pause = !cached || (err != -TABLET_MOVED && err != -TABLE_DROPPED);
			if (!pause)
				atomic_fetch_add_explicit(&r->stale, 1, memory_order_relaxed);
			silent = 0;
		}
		cached = false;
		if (pause && !patience_pause(r, t, err == -EAGAIN))
			break;
	}
	if (err && !s && t->unknown && err != -TABLE_DROPPED)
		return -ETIMEDOUT; /* METADATA's error is no answer to a mutation that was sent before */
	return err || !a->scan ? err : scan_id_replace(r, s, q->table, a);
}

/*
 * Sends the rows tablet by tablet, in order, because rows may be equal.  A server that
 * refuses a row refuses all that follow.  These are sent again.
 */
static int route_rows(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a)
{
	struct ts_request part = *q;
	bool stop = false;
	int err = 0;

	if (!a->row_errs)
		return -EINVAL;
	while (t->answered < q->row_count && !stop) {
		int *errs = a->row_errs + t->answered;
		struct ts_answer answer = {.row_errs = errs};
		uint32_t n = 0;

		part.rows = q->rows + t->answered;
		part.row_count = locations_rows(r->locations, q->table, part.rows, q->row_count - t->answered);
		t->left_us = stop_wait_left(r->o.patience_us); /* each part has as much as a request of its own */
		t->pause_us = PAUSE_FIRST_US;
		err = route_to_row(r, t, &part, &answer);
		stop_wait_ended(err);
		a->schema_generation = answer.schema_generation;
		ts_answer_fini(&answer);
		for (; n < part.row_count && !err && !ts_is_refusal(errs[n]); n++)
			t->unknown |= errs[n] == -MUTATION_ANSWERED && t->numbered.first;
		if (!err && !n)
			err = -EBADMSG; /* a refusal of the first row is an error of the request */
		stop = err == -TABLE_DROPPED || should_repeat(r, t, &part, err); /* the table was dropped, or no time is left */
		if (stop && !t->answered)
			return err;
		for (; n < (stop ? q->row_count - t->answered : part.row_count) && err; n++)
			errs[n] = err;
		t->answered += n;
	}
	return 0;
}

/* ---- requests to all servers ---- */

struct to_all {
	struct router *r;
	struct patience *t;
	const struct ts_request *q;
	struct ts_answer *a;
	int err;
};

static int call_one_server(void *arg, uint64_t incarnation, struct tablet_service *s)
{
	struct to_all *w = arg;
	int err;

	do
		err = call_server(w->r, w->t, s, 0, w->q, w->a);
	while ((err == -EAGAIN || (err == -ENOMEM && w->q->method == TS_UNBLOCK_WRITES)) && patience_pause(w->r, w->t, true));
	w->err = w->err ? w->err : err;
	return err && w->q->method == TS_BLOCK_WRITES;
}

static int route_to_all(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a)
{
	struct to_all w = {.r = r, .t = t, .q = q, .a = a};
	struct ts_request undo = {.method = TS_UNBLOCK_WRITES, .table = q->table, .term = q->term};
	struct ts_answer ua = {0};
	int err = r->o.servers.each(r->o.servers.arg, call_one_server, &w);

	if (err < 0 && !w.err)
		w.err = err;
	if (w.err && q->method == TS_BLOCK_WRITES) {
		struct to_all u = {.r = r, .t = t, .q = &undo, .a = &ua};

		(void)r->o.servers.each(r->o.servers.arg, call_one_server, &u);
		ts_answer_fini(&ua);
	}
	return w.err;
}

static int route_request(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_SCAN_NEXT || q->method == TS_SCAN_CLOSE || q->method == TS_POLL)
		return route_scan(r, t, q, a);
	if (q->method == TS_SYNC && r->o.synced)
		return 0;
	if (q->method == TS_SYNC || q->method == TS_BLOCK_WRITES || q->method == TS_UNBLOCK_WRITES || q->method == TS_COPY_TABLE)
		return route_to_all(r, t, q, a);
	if (is_mutation(q) && q->row_count > 1)
		return route_rows(r, t, q, a);
	return route_to_row(r, t, q, a);
}

/* After an unknown outcome these do not say whether the mutation was carried out. */
static bool leaves_unknown(int err)
{
	return is_unknown(err) || err == -TABLET_MOVED || err == -UNREACHABLE || err == -EAGAIN || err == -MUTATION_ANSWERED ||
		err == -EPOCH_ENDED || err == -WAIT_INTERRUPTED || err == -ENOMEM;
}

/* The end of a request whose mutations were sent to another process. */
static int call_end(struct router *r, struct patience *t, const struct ts_request *q, struct ts_answer *a, int err)
{
	bool unknown = err && leaves_unknown(err);

	for (uint32_t i = 0; i < q->row_count && t->unknown && !err && a->row_errs; i++)
		if (leaves_unknown(a->row_errs[i])) {
			a->row_errs[i] = -ETIMEDOUT;
			unknown = true;
		}
	numbers_end(&r->numbers, &t->numbered);
	if (!t->unknown || !unknown)
		return err;
	numbers_next_epoch(&r->numbers, t->epoch);
	return err == -WAIT_INTERRUPTED ? err : err ? -ETIMEDOUT : 0;
}

/* The result of a request whose caller may have stopped waiting. */
static int wait_error(int err)
{
	stop_wait_ended(err);
	return (err == -UNREACHABLE || err == -EAGAIN || is_unknown(err)) && stop_asked_waiting(err != -EAGAIN) ? -WAIT_INTERRUPTED
														: err;
}

static struct patience patience_new(const struct router *r, const struct ts_request *q)
{
	const bool brief = q->time_left_us && q->time_left_us < r->o.patience_us;
	const uint64_t us = stop_wait_left(brief ? q->time_left_us : r->o.patience_us);

	return (struct patience){.left_us = us,
		.pause_us = PAUSE_FIRST_US,
		.held_us = brief || r->o.brief ? us : CLIENT_TIME_US,
		.rows = q->row_count};
}

static int router_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct router *r = (struct router *)s;
	struct patience t = patience_new(r, q);
	int err = -EPERM;

	/* In a child of this process the numbers of mutations would be used twice. */
	if (process_forks() == r->forks) {
		if (q->method == TS_HELLO)
			numbers_next_epoch(&r->numbers, r->numbers.epoch);
		err = t.left_us || q->method == TS_SCAN_CLOSE ? route_request(r, &t, q, a) : -UNREACHABLE;
	}
	err = wait_error(err);
	a->err = t.numbered.first ? call_end(r, &t, q, a, err) : err;
	for (uint32_t i = 0; i < q->row_count && a->err && a->row_errs; i++)
		a->row_errs[i] = a->err;
	return a->err;
}

/* ---- scans whose answer is wanted later ---- */

struct routed {
	struct ts_sent base; /* first */
	struct ts_sent *sent;
	struct tablet_service *server; /* the server to which the request was sent */
};

static struct ts_sent *router_send(struct tablet_service *s, const struct ts_request *q)
{
	struct router *r = (struct router *)s;
	struct patience t = patience_new(r, q);
	struct tablet_service *there = NULL;
	struct ts_request own = *q;
	struct routed *x = NULL;

	if (!atomic_load(&r->servers.sends))
		return NULL;
	if (q->method == TS_SCAN_NEXT)
		there = server_of_scan(r, q->scan);
	else if (q->method == TS_SCAN_OPEN)
		there = location_cached(r, q->table, q->row, &own.assignment);
	if (there && there->ops->send && process_forks() == r->forks)
		x = malloc(sizeof(*x));
	if (!x)
		return NULL;
	own.scan = q->scan & SCAN_NUMBER_MASK;
	envelope_add(r, &t, &own, NULL);
	*x = (struct routed){.base.service = s, .sent = ts_send(there, &own), .server = there};
	if (x->sent)
		return &x->base;
	free(x);
	return NULL;
}

/* If the server was busy, or has not opened the scan, sends the request again. */
static int router_receive(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a)
{
	struct router *r = (struct router *)sent->service;
	struct routed *x = (struct routed *)sent;
	struct tablet_service *server = x->server;
	int err = ts_receive(x->sent, q, a);

	free(x);
	if (err == -EAGAIN || (err && q->method == TS_SCAN_OPEN))
		return router_call(&r->service, q, a);
	if (!err)
		err = scan_id_replace(r, server, q->table, a);
	return a->err = wait_error(err);
}

static void router_forget(struct ts_sent *sent)
{
	ts_forget(((struct routed *)sent)->sent);
	free(sent);
}

void route_end_by(struct router *r, uint64_t end_us)
{
	atomic_store(&r->end_us, end_us);
}

struct tablet_service *route_service(struct router *r)
{
	return &r->service;
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
		.repeated = atomic_load(&r->repeated),
		.entries = l.entries,
		.bytes = l.bytes,
	};
}

int route_new(const struct route_options *o, struct router **out)
{
	static const struct tablet_service_ops ops = {
		.call = router_call, .send = router_send, .receive = router_receive, .forget = router_forget};
	struct router *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	server_list_init(&r->servers);
	r->service.ops = &ops;
	r->service.brief = o->brief;
	r->forks = process_forks();
	r->o = *o;
	if (!r->o.cache_bytes)
		r->o.cache_bytes = ROUTE_CACHE_BYTES;
	if (!r->o.patience_us)
		r->o.patience_us = ROUTE_PATIENCE_US;
	err = numbers_init(&r->numbers, o->client);
	if (!err)
		err = locations_new(r->o.cache_bytes, &r->locations);
	if (err)
		route_free(r);
	else
		*out = r;
	return err;
}

void route_goodbye(struct router *r)
{
	const struct ts_request q = {
		.method = TS_HELLO, .epoch = TS_EPOCH_LAST, .token = {.client = r->numbers.client}, .time_left_us = GOODBYE_US};

	if (r->numbers.next == 1 || process_forks() != r->forks)
		return;
	for (size_t i = 0; i < r->servers.count; i++) {
		struct ts_answer a = {0};

		if (!r->servers.v[i]->local)
			(void)!ts_call(r->servers.v[i], &q, &a);
		ts_answer_fini(&a);
	}
}

void route_free(struct router *r)
{
	if (!r)
		return;
	locations_free(r->locations);
	server_list_fini(&r->servers);
	numbers_fini(&r->numbers);
	free(r);
}
