/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan over the tablets of a table, as a client of the tablet service.
 *
 * The cursor opens one scan of the service for each tablet.  The first answer
 * has the tablet's end in tablet_end, and the next scan begins there.  If the tablet
 * is split during the scan, its scan may end earlier; then the last answer has that
 * earlier end.  In a reverse scan tablet_end is the tablet's begin.
 *
 * A server forgets a scan that was idle for a minute, and all scans when it ends.
 * Then the cursor opens the rest of the scan, on the server that has the tablet by
 * then, after the last whole row.  A row is returned when its last cell has been read,
 * so all its cells are of one instant.  This costs a copy of the row at each end of
 * a batch.  The first cells of a row larger than a batch are returned before, and then
 * the scan continues after the last cell: the rest of the row is of a later instant.
 *
 * The cursor sends the request for the next batch when a batch has come, unless a limit
 * makes it unneeded.  So the server and the network work while the caller uses the batch.  At
 * most one batch waits.  Unless the caller has set the size of batches, each batch that is
 * requested in this way is twice as large as the previous batch, up to TS_SCAN_BATCH_MAX: a long
 * scan has fewer round trips, and a short one transfers little that is not used.  A service in the
 * same process sends nothing (ts_send), because the caller's thread would do the work in any case.
 */
#include "engine/client/cursor.h"
#include "engine/base/msg.h"
#include "engine/base/scan.h"

#include <errno.h>
#include <stdlib.h>

void row_cursor_init(
	struct row_cursor *c, struct tablet_service *svc, uint32_t table, uint64_t generation, const struct scan_spec *spec)
{
	*c = (struct row_cursor){.svc = svc, .table = table, .schema_generation = generation, .spec = *spec};
}

/* Sets *out to the largest possible row key below `to`, or to the largest of all keys if to.p is NULL. */
static int row_before(struct tfs_bytes to, struct buf *out)
{
	const size_t max = ROW_BYTES_MAX + 1;             /* the longest key, with a salt */
	const bool is_next = to.n && to.p[to.n - 1] == 0; /* then the key below is `to` without its last byte */

	buf_reset(out);
	if (to.n > max) /* longer than any key */
		return buf_append(out, to.p, max);
	if (to.n && buf_append(out, to.p, to.n - is_next))
		return -ENOMEM;
	if ((to.p && to.n == 0) || is_next)
		return 0;
	if (out->n)
		out->p[out->n - 1]--;
	if (buf_reserve(out, max - out->n))
		return -ENOMEM;
	memset(out->p + out->n, 0xff, max - out->n);
	out->n = max;
	return 0;
}

/* ---- rows whose end has not been read ---- */

#define BATCH_BYTES 262144u /* the size of a batch whose spec does not state it */

static uint64_t cell_bytes(const struct tfs_cell *c)
{
	return sizeof(*c) + c->qualifier.n + c->value.n;
}

static bool is_held_row(const struct row_cursor *c, struct tfs_bytes row)
{
	return c->held.count && bytes_eq(c->held.cells[0].row, row);
}

static bool held_is_left(const struct row_cursor *c)
{
	return c->held_ready && c->held_at < c->held.count;
}

static void held_reset(struct row_cursor *c)
{
	scan_batch_reset(&c->held);
	c->held_at = 0;
	c->held_bytes = 0;
	c->held_ready = false;
}

static bool held_copy(struct row_cursor *c, struct tfs_bytes s, struct tfs_bytes *out)
{
	*out = tfs_bytes_of(s.p ? "" : NULL, 0);
	return !s.n || arena_dup(&c->held.arena, s, out);
}

/* Copies the cells of the batch that may not be returned yet, before the next batch. */
static int held_add(struct row_cursor *c)
{
	const struct scan_batch *b = &c->answer.batch;
	struct scan_batch *h = &c->held;

	for (uint32_t i = c->ready; i < b->count; i++) {
		struct tfs_cell *to;

		if (array_grow(&h->cells, h->count, sizeof(*to)))
			return -ENOMEM;
		to = &h->cells[h->count];
		*to = b->cells[i];
		if (h->count)
			to->row = h->cells[0].row;
		else if (!held_copy(c, b->cells[i].row, &to->row))
			return -ENOMEM;
		if (!held_copy(c, b->cells[i].qualifier, &to->qualifier) || !held_copy(c, b->cells[i].value, &to->value))
			return -ENOMEM;
		c->held_bytes += cell_bytes(to);
		h->count++;
	}
	c->at = c->ready = b->count;
	return 0;
}

/* Decides which cells may be returned, after a batch was read. */
static void cursor_release(struct row_cursor *c)
{
	const struct scan_batch *b = &c->answer.batch;
	const uint64_t most = c->spec.pub.batch_bytes ? c->spec.pub.batch_bytes : BATCH_BYTES;
	uint32_t first = b->count; /* the first of the last row's cells */
	uint64_t bytes = 0;

	c->ready = b->count;
	c->held_ready = !c->answer.scan || b->count;
	if (!c->answer.scan || scan_is_by_row(&c->spec.pub))
		return;
	while (first > 0 && bytes_eq(b->cells[first - 1].row, b->cells[b->count - 1].row))
		bytes += cell_bytes(&b->cells[--first]);
	if (first == 0 && b->count && is_held_row(c, b->cells[0].row)) {
		bytes += c->held_bytes;
		c->held_ready = bytes >= most;
	} else if (first == 0 && b->count && c->place.any && bytes_eq(b->cells[0].row, buf_bytes(&c->place.row))) {
		return; /* its first cells were returned */
	}
	if (bytes < most)
		c->ready = first;
}

/* Before the next batch: notes the last cell returned, and copies the cells that were not returned. */
static int cursor_note(struct row_cursor *c)
{
	int err = 0;

	if (c->held_ready) {
		err = scan_place_note(&c->place, &c->spec, &c->held);
		held_reset(c);
	}
	if (err)
		return err;
	return c->ready < c->answer.batch.count ? held_add(c) : scan_place_note(&c->place, &c->spec, &c->answer.batch);
}

/* ---- batches ---- */

/* Counts the rows of the batch.  Rows of one batch that are equal are one. */
static int cursor_count_rows(struct row_cursor *c)
{
	const struct scan_batch *b = &c->answer.batch;
	struct tfs_bytes last = buf_bytes(&c->last);

	for (uint32_t i = 0; i < b->count; i++) {
		c->rows += !c->rows || !bytes_eq(last, b->cells[i].row);
		last = b->cells[i].row;
	}
	return b->count ? buf_set(&c->last, last.p, last.n) : 0;
}

static struct ts_request request_of_next(const struct row_cursor *c)
{
	return (struct ts_request){.method = TS_SCAN_NEXT,
		.table = c->table,
		.row = c->spec.pub.row_from,
		.scan = c->answer.scan,
		.offset = c->batches,
		.length = c->batch_bytes};
}

/* Sends the request for the next batch.  The server ends a scan at its limits, but counts the rows of each tablet alone. */
static int cursor_ask_ahead(struct row_cursor *c)
{
	const size_t before = c->batch_bytes, next = 2 * (before ? before : BATCH_BYTES);
	int err = c->spec.pub.row_limit ? cursor_count_rows(c) : 0;
	struct ts_request q;

	if (err || !c->answer.scan || (c->spec.pub.row_limit && c->rows > c->spec.pub.row_limit))
		return err;
	if (!c->spec.pub.batch_bytes)
		c->batch_bytes = next < TS_SCAN_BATCH_MAX ? next : TS_SCAN_BATCH_MAX;
	q = request_of_next(c);
	c->ahead = ts_send(c->svc, &q);
	if (!c->ahead)
		c->batch_bytes = before;
	return 0;
}

/* Reads the next batch. */
static int cursor_ask(struct row_cursor *c)
{
	const struct ts_request q = request_of_next(c);
	struct ts_sent *ahead = c->ahead;

	c->ahead = NULL;
	return ahead ? ts_receive(ahead, &q, &c->answer) : ts_call(c->svc, &q, &c->answer);
}

/* The next call of cursor_fill opens the rest of the scan: from the held row on, or after the last cell. */
static int cursor_lost(struct row_cursor *c)
{
	int n = 1;

	if (c->held.count) {
		n = scan_place_begin(&c->place, &c->spec, c->held.cells[0].row);
		held_reset(c);
	} else {
		n = scan_place_continue(&c->place, &c->spec);
	}
	c->open = false;
	c->answer.scan = 0;
	c->at = c->ready = c->answer.batch.count = 0;
	c->at_end = n == 0 || (c->spec.pub.limit && c->returned >= c->spec.pub.limit);
	return n < 0 ? n : 0;
}

static int request_of_open(struct row_cursor *c, struct ts_request *q)
{
	int err = 0;

	*q = (struct ts_request){
		.method = TS_SCAN_OPEN,
		.table = c->table,
		.schema_generation = c->schema_generation,
		.row = c->spec.pub.row_from,
		.spec = &c->spec,
		.user = c->user,
	};
	if (c->spec.pub.reverse) {
		err = row_before(c->spec.pub.row_to, &c->last_row);
		q->row = buf_bytes(&c->last_row);
	}
	return err;
}

void row_cursor_begin(struct row_cursor *c)
{
	struct ts_request q;

	if (request_of_open(c, &q) == 0)
		c->ahead = ts_send(c->svc, &q);
}

/* Opens the scan of the next tablet. */
static int cursor_open(struct row_cursor *c)
{
	struct ts_sent *ahead = c->ahead;
	struct ts_request q;
	int err = request_of_open(c, &q);

	if (err)
		return err;
	c->ahead = NULL;
	if (c->spec.pub.limit)
		c->spec.pub.limit -= c->returned;
	c->returned = 0;
	return ahead ? receive_tablet_service(ahead, &q, &c->answer) : call_tablet_service(c->svc, &q, &c->answer);
}

/* Opens the scan of the next tablet, or continues the open one. */
static int cursor_fill(struct row_cursor *c)
{
	int err = c->open ? cursor_note(c) : 0;

	if (err)
		return err;
	err = c->open ? cursor_ask(c) : cursor_open(c);
	if (c->open && call_is_lost(err)) {
		if (++c->lost <= LOST_MOST)
			return cursor_lost(c);
		if (c->svc->brief)
			return err;
		msg_error("table %u: a scan was lost %u times at one row: %s", c->table, c->lost, error_text(err));
		return -EIO;
	}
	if (err)
		return err;
	c->damaged = c->damaged || c->answer.batch.damaged;
	c->batches = c->open ? c->batches + 1 : 1;
	c->open = true;
	c->between = false;
	c->at = 0;
	cursor_release(c);
	return cursor_ask_ahead(c);
}

/*
 * Moves the scan to the next tablet: row_from becomes the end of the present
 * one; in a reverse scan row_to becomes its begin.  Returns 1, 0 at the end of
 * the scan, -errno.
 */
static int cursor_next_tablet(struct row_cursor *c)
{
	const struct tfs_bytes end = c->answer.tablet_end, from = c->spec.pub.row_from, to = c->spec.pub.row_to;
	const bool reverse = c->spec.pub.reverse;

	if (c->spec.pub.one_row || !end.p)
		return 0;
	if (reverse ? bytes_cmp(end, from) <= 0 : to.p && bytes_cmp(end, to) >= 0)
		return 0;
	if (c->spec.pub.limit && c->returned >= c->spec.pub.limit)
		return 0;
	if (reverse ? to.p && bytes_cmp(end, to) > 0 : bytes_cmp(end, from) < 0)
		return -EBADMSG; /* such an answer would make the scan endless */
	if (buf_set(&c->next_row, end.p, end.n))
		return -ENOMEM;
	c->between = true;
	c->place.any = false;
	if (reverse) {
		c->spec.pub.row_to = buf_bytes(&c->next_row);
		return 1;
	}
	c->spec.pub.row_from = buf_bytes(&c->next_row);
	c->spec.pub.row_from_after = false;
	return 1;
}

static int cursor_next(struct row_cursor *c, const struct tfs_cell **cell)
{
	bool asked = false;

	while (!c->at_end && (!c->open || c->at == c->ready) && !held_is_left(c)) {
		int n;

		if (asked && c->spec.pub.stop && c->spec.pub.stop(c->spec.pub.stop_arg))
			return -EINTR;
		asked = true;
		if (c->open && !c->answer.scan) {
			c->open = false;
			n = cursor_next_tablet(c);
			c->at_end = n == 0;
		} else {
			n = cursor_fill(c);
		}
		if (n < 0)
			return n;
	}
	if (c->at_end)
		return 0;
	c->returned++;
	c->lost = 0;
	if (held_is_left(c)) {
		*cell = &c->held.cells[c->held_at++];
		return 1;
	}
	*cell = &c->answer.batch.cells[c->at++];
	return 1;
}

int row_cursor_next(struct row_cursor *c, const struct tfs_cell **cell)
{
	int n = c->failed ? c->failed : cursor_next(c, cell);

	/* The service closes a scan that fails.  Another call would open a new scan and return cells twice. */
	if (n < 0 && n != -EINTR)
		c->failed = n;
	return n;
}

void row_cursor_fini(struct row_cursor *c)
{
	ts_forget(c->ahead);
	if (c->open && c->answer.scan)
		close_scan(c->svc, c->table, c->answer.scan);
	ts_answer_fini(&c->answer);
	scan_place_fini(&c->place);
	scan_batch_fini(&c->held);
	buf_fini(&c->next_row);
	buf_fini(&c->last_row);
	buf_fini(&c->last);
}

int table_has_cells(struct tablet_service *svc, uint32_t table, uint64_t generation, uint16_t family, bool *has)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_ROWS, .pub.limit = 1, .pub.batch_bytes = 4096, .kept = true};
	const struct tfs_cell *cell;
	struct row_cursor c;
	int n;

	if (family) {
		spec.family_ids = &family;
		spec.pub.family_count = 1;
	}
	row_cursor_init(&c, svc, table, generation, &spec);
	n = row_cursor_next(&c, &cell);
	row_cursor_fini(&c);
	if (n < 0)
		return n;
	*has = n > 0;
	return 0;
}
