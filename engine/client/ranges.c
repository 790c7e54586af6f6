/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan over the ranges of a salted table.
 *
 * A range is the rows with one salt byte.  Each range has its own cursor with
 * the bounds of the scan, after that byte.  The batches of all ranges together
 * are as large as the batch of one scan.  A row is in one range only, so all its
 * cells come from one cursor, one after another.  A heap of ranges, ordered by
 * row, selects the next range.  A returned cell must stay in its batch until
 * the next call, so a cursor advances only then.
 *
 * A row with a wrong salt byte is damage, which tabletctl check reports.  The
 * scan skips it, because a point read does not find it either.
 *
 * Rejected: fetching the next batches of the ranges in threads.  The server
 * already reads blocks ahead and decompresses them in parallel for each cursor
 * (sstable/ahead.c).
 */
#include "engine/client/salt.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH_BYTES (256u << 10) /* the default of a scan */
#define BATCH_LEAST (8u << 10)   /* the least bytes of a batch of one range */

struct range {
	struct row_cursor cursor;
	struct buf from, to;  /* the bounds, with the salt */
	struct tfs_bytes row; /* the row of `cell`, without the salt */
	const struct tfs_cell *cell;
};

void salt_scan_init(struct salt_scan *s, struct tfs_table *t, const struct schema *schema, const struct scan_spec *spec)
{
	*s = (struct salt_scan){
		.svc = t->store->o.tablets,
		.user = table_user(t),
		.table = schema_public(schema)->tablets_id,
		.salt = (uint32_t)schema_public(schema)->salt_in_use,
		.generation = schema_public(schema)->generation,
		.spec = *spec,
	};
}

static void ranges_close(struct salt_scan *s)
{
	for (unsigned i = 0; i < s->range_count; i++) {
		row_cursor_fini(&s->ranges[i].cursor);
		buf_fini(&s->ranges[i].from);
		buf_fini(&s->ranges[i].to);
	}
	free(s->ranges);
	free(s->heap);
	s->ranges = NULL;
	s->heap = NULL;
	s->range_count = s->heap_count = s->ranges_begun = 0;
	s->begun = false;
}

void salt_scan_restart(struct salt_scan *s)
{
	ranges_close(s);
}

void salt_scan_fini(struct salt_scan *s)
{
	buf_fini(&s->row);
	ranges_close(s);
}

/* Returns true if the bounds admit one row only.  That row is in one range. */
static bool within_one_row(const struct scan_spec *spec)
{
	const struct tfs_bytes from = spec->pub.row_from, to = spec->pub.row_to;

	return spec->pub.one_row ||
		(to.p && to.n == from.n + 1 && from.n && to.p[from.n] == 0 && memcmp(to.p, from.p, from.n) == 0);
}

static int salted_key(struct buf *b, unsigned byte, struct tfs_bytes row)
{
	int err = buf_u8(b, (uint8_t)byte);

	return err ? err : buf_append_bytes(b, row);
}

/* Narrows the bounds of a range by stored_from and stored_to of the caller.  All of them are keys as stored. */
static void range_narrow(struct tfs_scan_spec *spec)
{
	if (bytes_cmp(spec->row_from, spec->stored_from) < 0) {
		spec->row_from = spec->stored_from;
		spec->row_from_after = false;
	}
	if (spec->stored_to.p && (!spec->row_to.p || bytes_cmp(spec->stored_to, spec->row_to) < 0))
		spec->row_to = spec->stored_to;
}

int salt_range(const struct salt_scan *s, unsigned byte, struct buf *from, struct buf *to, struct scan_spec *out)
{
	struct scan_spec spec = s->spec;
	int err = 0;

	if (s->salt) {
		spec.row_salted = true;
		err = salted_key(from, byte, spec.pub.row_from);
		if (!err)
			err = spec.pub.row_to.p ? salted_key(to, byte, spec.pub.row_to) : buf_u8(to, (uint8_t)(byte + 1));
		spec.pub.row_from = buf_bytes(from);
		spec.pub.row_to = spec.pub.one_row ? (struct tfs_bytes){NULL, 0} : buf_bytes(to);
	}
	if (!spec.pub.one_row)
		range_narrow(&spec.pub);
	*out = spec;
	return err;
}

/* count: the number of ranges. */
static int range_init(struct salt_scan *s, struct range *r, unsigned byte, unsigned count)
{
	struct scan_spec spec;
	const size_t batch = (s->spec.pub.batch_bytes ? s->spec.pub.batch_bytes : BATCH_BYTES) / count;
	int err = salt_range(s, byte, &r->from, &r->to, &spec);

	if (count > 1)
		spec.pub.batch_bytes = batch < BATCH_LEAST ? BATCH_LEAST : batch;
	row_cursor_init(&r->cursor, s->svc, s->table, s->generation, &spec);
	r->cursor.user = s->user;
	return err;
}

/* Sets *admits to false if the row is outside of the bounds of stored keys. */
static int stored_admits(const struct salt_scan *s, struct tfs_bytes row, bool *admits)
{
	const struct tfs_scan_spec *p = &s->spec.pub;
	struct buf key = {0};
	int err = s->salt ? salted_key(&key, salt_byte(row, s->salt), row) : buf_append_bytes(&key, row);

	*admits = bytes_cmp(buf_bytes(&key), p->stored_from) >= 0 &&
		(!p->stored_to.p || bytes_cmp(buf_bytes(&key), p->stored_to) < 0);
	buf_fini(&key);
	return err;
}

int salt_ranges(const struct salt_scan *s, unsigned *first, unsigned *end)
{
	const struct tfs_scan_spec *p = &s->spec.pub;
	bool admits = true;
	int err = 0;

	*first = 0;
	*end = s->salt ? s->salt : 1;
	if (within_one_row(&s->spec)) {
		err = stored_admits(s, p->row_from, &admits);
		*first = s->salt ? salt_byte(p->row_from, s->salt) : 0;
		*end = *first + admits;
	} else if (s->salt) {
		if (p->stored_from.n)
			*first = p->stored_from.p[0];
		if (p->stored_to.p && p->stored_to.n && p->stored_to.p[0] < *end)
			*end = p->stored_to.p[0] + (p->stored_to.n > 1);
	}
	return err;
}

static int ranges_open(struct salt_scan *s)
{
	unsigned first, end, n;
	int err = salt_ranges(s, &first, &end);

	if (err)
		return err;
	n = end > first ? end - first : 0;
	s->ranges = calloc(n + 1u, sizeof(*s->ranges));
	s->heap = calloc(n + 1u, sizeof(struct range *));
	if (!s->ranges || !s->heap)
		return -ENOMEM;
	for (; s->range_count < n && !err; s->range_count++)
		err = range_init(s, &s->ranges[s->range_count], first + s->range_count, n);
	return err;
}

/* ---- the heap ---- */

/* Returns true if the next row of a is returned before the next row of b. */
static bool range_before(const struct salt_scan *s, const struct range *a, const struct range *b)
{
	const int order = bytes_cmp(a->row, b->row);

	return s->spec.pub.reverse ? order > 0 : order < 0;
}

static void heap_sift_down(struct salt_scan *s, unsigned i)
{
	struct range *r = s->heap[i];

	for (;;) {
		unsigned child = 2 * i + 1;

		if (child >= s->heap_count)
			break;
		if (child + 1 < s->heap_count && range_before(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (!range_before(s, s->heap[child], r))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = r;
}

/* Returns 1 if the range has a next cell, 0 at its end, -errno. */
static int range_next(struct salt_scan *s, struct range *r)
{
	for (;;) {
		int n;

		n = row_cursor_next(&r->cursor, &r->cell);
		if (n <= 0)
			return n;
		if (!s->salt) {
			r->row = r->cell->row;
			return 1;
		}
		if (r->cell->row.n < 2)
			continue;
		r->row = tfs_bytes_of(r->cell->row.p + 1, r->cell->row.n - 1);
		if (salt_byte(r->row, s->salt) == r->cell->row.p[0])
			return 1;
	}
}

/* Reads the first cell of each range.  Their scans are opened together. */
static int ranges_begin(struct salt_scan *s)
{
	const bool first = !s->ranges;
	int err = first ? ranges_open(s) : 0;

	for (unsigned i = 0; first && i < s->range_count && !err && s->range_count > 1; i++)
		row_cursor_begin(&s->ranges[i].cursor);
	for (; s->ranges_begun < s->range_count && !err; s->ranges_begun += !err) {
		struct range *r = &s->ranges[s->ranges_begun];
		int n = range_next(s, r);

		if (n > 0)
			s->heap[s->heap_count++] = r;
		err = n < 0 ? n : 0;
	}
	if (err)
		return err;
	for (unsigned i = s->heap_count / 2; i-- > 0;)
		heap_sift_down(s, i);
	s->begun = true;
	return 0;
}

uint64_t salt_scan_generation(const struct salt_scan *s)
{
	uint64_t latest = 0;

	for (unsigned i = 0; i < s->range_count; i++)
		if (s->ranges[i].cursor.answer.schema_generation > latest)
			latest = s->ranges[i].cursor.answer.schema_generation;
	return latest;
}

bool salt_scan_damaged(const struct salt_scan *s)
{
	for (unsigned i = 0; i < s->range_count; i++)
		if (s->ranges[i].cursor.damaged)
			return true;
	return false;
}

/*
 * Counts the row for row_limit, which the server applies to each tablet alone.
 * Returns 1, 0 if the limit is reached, -errno.
 */
static int salt_scan_count_row(struct salt_scan *s, struct tfs_bytes row)
{
	if (s->rows && bytes_eq(buf_bytes(&s->row), row))
		return 1;
	if (s->rows == s->spec.pub.row_limit)
		return 0;
	s->rows++;
	return buf_set(&s->row, row.p, row.n) ? -ENOMEM : 1;
}

int salt_scan_next(struct salt_scan *s, const struct tfs_cell **cell, struct tfs_bytes *row, bool *unsure)
{
	struct range *r;
	int n = 1;

	if (s->failed)
		return s->failed;
	if (!s->begun) {
		n = ranges_begin(s);
	} else if (s->heap_count && !(s->spec.pub.limit && s->returned >= s->spec.pub.limit)) {
		n = range_next(s, s->heap[0]);
		if (n == 0)
			s->heap[0] = s->heap[--s->heap_count];
		if (n >= 0 && s->heap_count)
			heap_sift_down(s, 0);
	}
	if (n < 0) {
		s->failed = n == -EINTR ? 0 : n;
		return n;
	}
	if (!s->heap_count || (s->spec.pub.limit && s->returned >= s->spec.pub.limit))
		return 0;
	r = s->heap[0];
	s->returned++;
	*cell = r->cell;
	*row = r->row;
	*unsure = r->cursor.damaged;
	return s->spec.pub.row_limit ? salt_scan_count_row(s, r->row) : 1;
}

void salt_scan_again(struct salt_scan *s, const struct schema *schema)
{
	const bool over = s->begun;

	ranges_close(s);
	s->failed = 0;
	/*
	 * The table was empty when it got the new tablets, so all rows in them are
	 * younger than the scan.  A scan that has begun therefore ends: it is `begun`
	 * and has no ranges.
	 */
	s->begun = over;
	s->table = schema_public(schema)->tablets_id;
	s->salt = (uint32_t)schema_public(schema)->salt_in_use;
	s->generation = schema_public(schema)->generation;
}
