/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan as wide CSV (csv_stream.h).  The first scan collects the columns.  They are sorted in
 * the order in which the second scan returns the cells of a row, so the line of a row is
 * written while its cells arrive, and a row needs no memory.
 *
 * Rejected: a header that the caller must give.  A shell user does not know the columns
 * before he has the file.  Rejected: rows as of one instant with their header.  A snapshot
 * does that.
 */
#include "engine/bulk/csv_stream.h"

#include "engine/base/hashtable.h"
#include "engine/base/scan.h"
#include "engine/bulk/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STOP_CELLS = 1024 }; /* cells that are read between two calls of spec.stop */

struct column {
	UT_hash_handle hh;
	uint16_t family_id;
	size_t n;     /* bytes of the title */
	size_t key_n; /* bytes of the key, which begins `bytes`: the family's id, and the qualifier */
	char family[TFS_NAME_MAX + 1];
	uint8_t bytes[];
};

struct csv_stream {
	struct tfs_table *table;
	struct tfs_scan_spec spec;
	struct tfs_scan *scan;
	char separator;
	bool counting; /* the first scan is under way */
	struct column *columns;
	size_t column_count, header_bytes;
	uint64_t counted;    /* cells of the first scan */
	struct column *next; /* the next column of the row */
	struct buf row;      /* the row whose line is being written */
	bool in_row;
	struct tfs_cell cell;
	struct value value; /* the value of `cell`, while within is set */
	bool within;
	uint64_t at;
	struct buf key; /* of a column, for its search */
	int result;     /* as of struct line_stream */
};

/* ---- fields ---- */

static bool needs_quotes(struct tfs_bytes s)
{
	if (s.n == 0 || s.p[0] == ' ' || s.p[s.n - 1] == ' ')
		return true;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ',' || s.p[i] == ';' || s.p[i] == '\t' || s.p[i] == '"' || s.p[i] == '\n' || s.p[i] == '\r')
			return true;
	return false;
}

/* Appends bytes within quotes. */
static int put_quoted(struct tfs_bytes s, struct buf *out)
{
	while (s.n) {
		const uint8_t *quote = memchr(s.p, '"', s.n);
		const size_t n = quote ? (size_t)(quote - s.p) + 1 : s.n;
		int err = buf_append(out, s.p, n);

		if (!err && quote)
			err = buf_u8(out, '"');
		if (err)
			return err;
		s = tfs_bytes_of(s.p + n, s.n - n);
	}
	return 0;
}

static int put_field(struct tfs_bytes s, struct buf *out)
{
	if (!needs_quotes(s))
		return buf_append_bytes(out, s);
	return buf_u8(out, '"') || put_quoted(s, out) || buf_u8(out, '"') ? -ENOMEM : 0;
}

/* ---- columns ---- */

static int column_key(struct csv_stream *s, const struct tfs_cell *c)
{
	buf_reset(&s->key);
	return buf_be16(&s->key, c->family_id) || buf_append_bytes(&s->key, c->qualifier) ? -ENOMEM : 0;
}

static int compare_columns(const struct column *a, const struct column *b)
{
	return bytes_cmp(tfs_bytes_of(a->bytes, a->key_n), tfs_bytes_of(b->bytes, b->key_n));
}

static int add_column(struct csv_stream *s, const struct tfs_cell *c)
{
	struct column *k;
	int err = column_key(s, c);

	if (err)
		return err;
	HASH_FIND(hh, s->columns, s->key.p, s->key.n, k);
	if (k)
		return 0;
	s->header_bytes += s->key.n + strlen(c->family);
	if (s->column_count == CSV_COLUMNS_MAX || s->header_bytes > CSV_HEADER_BYTES_MAX)
		return -E2BIG;
	k = calloc(1, sizeof(*k) + s->key.n);
	if (!k)
		return -ENOMEM;
	k->key_n = s->key.n;
	snprintf(k->family, sizeof(k->family), "%s", c->family);
	memcpy(k->bytes, s->key.p, s->key.n);
	HASH_ADD_KEYPTR(hh, s->columns, k->bytes, k->key_n, k);
	if (!k->hh.tbl) {
		free(k);
		return -ENOMEM;
	}
	s->column_count++;
	return 0;
}

static int put_header(struct csv_stream *s, struct buf *out)
{
	struct buf title = {0};
	int err = buf_append(out, "key", 3);

	for (struct column *k = s->columns; k && !err; k = k->hh.next) {
		buf_reset(&title);
		err = buf_printf(&title, "%s:", k->family);
		if (!err)
			err = buf_append(&title, k->bytes + 2, k->key_n - 2);
		if (!err)
			err = buf_u8(out, (uint8_t)s->separator);
		if (!err)
			err = put_field(buf_bytes(&title), out);
	}
	buf_fini(&title);
	return err ? err : buf_u8(out, '\n');
}

/* Begins the second scan, and writes the header. */
static int begin_rows(struct csv_stream *s, struct buf *out)
{
	int err;

	tfs_scan_free(s->scan);
	s->scan = NULL;
	HASH_SORT(s->columns, compare_columns);
	s->spec.what = TFS_SCAN_CELLS;
	err = tfs_scan_new(s->table, &s->spec, &s->scan);
	if (err)
		return err;
	s->counting = false;
	return put_header(s, out);
}

static int count_columns(struct csv_stream *s, struct buf *out)
{
	struct tfs_cell c;
	int r;

	/* This scan may read a whole table before the first byte is there, and tfs_scan_next asks only while it finds nothing. */
	if (++s->counted % STOP_CELLS == 0 && s->spec.stop && s->spec.stop(s->spec.stop_arg))
		return -EINTR;
	r = tfs_scan_next(s->scan, &c);
	return r < 0 ? r : r > 0 ? add_column(s, &c) : begin_rows(s, out);
}

/* ---- rows ---- */

/* Writes the rest of the line: the columns that the row does not have. */
static int end_row(struct csv_stream *s, struct buf *out)
{
	int err = 0;

	if (!s->in_row)
		return 0;
	for (; s->next && !err; s->next = s->next->hh.next)
		err = buf_u8(out, (uint8_t)s->separator);
	s->in_row = false;
	return err ? err : buf_u8(out, '\n');
}

static int begin_row(struct csv_stream *s, struct buf *out)
{
	int err = end_row(s, out);

	if (!err)
		err = buf_set(&s->row, s->cell.row.p, s->cell.row.n);
	if (!err)
		err = put_field(s->cell.row, out);
	s->in_row = true;
	s->next = s->columns;
	return err;
}

/* Advances to the column of the cell.  Returns 1 if the line has its separator, 0 if the column is not in the header, or was written. */
static int enter_column(struct csv_stream *s, struct buf *out)
{
	const bool same = s->in_row && bytes_eq(buf_bytes(&s->row), s->cell.row);
	struct column *k;
	int err = column_key(s, &s->cell);

	if (err)
		return err;
	HASH_FIND(hh, s->columns, s->key.p, s->key.n, k);
	if (!k || (same && (!s->next || compare_columns(k, s->next) < 0)))
		return 0;
	if (!same)
		err = begin_row(s, out);
	while (!err && s->next != k) {
		err = buf_u8(out, (uint8_t)s->separator);
		s->next = s->next->hh.next;
	}
	s->next = k->hh.next;
	return err ? err : buf_u8(out, (uint8_t)s->separator) ? -ENOMEM : 1;
}

static int next_cell(struct csv_stream *s, struct buf *out)
{
	int r = tfs_scan_next(s->scan, &s->cell);

	if (r == 0) {
		s->result = 0;
		return end_row(s, out);
	}
	if (r > 0)
		r = enter_column(s, out);
	if (r <= 0)
		return r;
	if (s->cell.value.p || !s->cell.size)
		return put_field(s->cell.value, out);
	r = value_begin(&s->value, s->table, &s->cell);
	if (r)
		return r == -ENOENT ? 0 : r;
	s->within = true;
	s->at = 0;
	return buf_u8(out, '"');
}

static int next_piece(struct csv_stream *s, struct buf *out)
{
	struct tfs_bytes piece;
	int err = value_read(&s->value, s->at, &piece);

	if (!err)
		err = put_quoted(piece, out);
	if (err)
		return err;
	s->at += piece.n;
	if (s->at < s->value.size)
		return 0;
	s->within = false;
	return buf_u8(out, '"');
}

/* ---- the stream ---- */

int csv_stream_new(struct tfs_table *t, const struct tfs_scan_spec *spec, char separator, struct csv_stream **out)
{
	struct csv_stream *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct csv_stream){.table = t, .spec = *spec, .separator = separator, .counting = true, .result = 1};
	/* Only the newest matching version of a column is shown.  A filter of versions may reject the newest one. */
	if (!scan_has(spec, SCAN_VALUE))
		s->spec.versions = 1;
	s->spec.what = TFS_SCAN_KEYS;
	err = tfs_scan_new(t, &s->spec, &s->scan);
	if (err)
		csv_stream_free(s);
	else
		*out = s;
	return err;
}

void csv_stream_free(struct csv_stream *s)
{
	struct column *k, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->columns, k, next)
	{
		HASH_DEL(s->columns, k);
		free(k);
	}
	tfs_scan_free(s->scan);
	value_fini(&s->value);
	buf_fini(&s->row);
	buf_fini(&s->key);
	free(s);
}

int csv_stream_read(struct csv_stream *s, size_t enough, struct buf *out)
{
	while (s->result > 0 && out->n < enough) {
		int err = s->counting ? count_columns(s, out) : s->within ? next_piece(s, out) : next_cell(s, out);

		if (err == -EINTR)
			return err;
		if (err)
			s->result = err;
	}
	return s->result;
}
