/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows in which two snapshots of a table may differ (changed_rows.h).
 * METADATA lists the SSTables of the two snapshots, and the rows for which each
 * tablet uses them.  The tablets of the two snapshots are read side by side.
 * An interval is the rows between two neighbouring ends of tablets: in it each
 * snapshot has one tablet, and one list of files.  A file is shared if both use
 * it for the same rows of the interval.
 *
 * A row without an entry in a file that is not shared has the same entries in
 * both snapshots.  Such entries may be anywhere between the first and the last row
 * of these files.  If these files are large compared with all files there, all
 * rows of this range are returned as one.  If they are small, as after a few
 * changes in a large table, their keys are read and the rows are returned one by
 * one, because a read of one row costs more than a row in a scan, but much less
 * than a scan of the range.
 */
#include "engine/client/changed_rows.h"

#include <errno.h>

#define KEYS_BYTES (16u << 10) /* a listing of a directory uses some hundred of the keys, and begins a new scan */
#define FEW 8                  /* the files that are not shared are small if they have less than 1/FEW of the bytes */

int changed_rows_init(
	struct changed_rows *c, struct tablet_service *svc, const uint32_t tables[2], struct tfs_bytes from, struct tfs_bytes to)
{
	int err;

	*c = (struct changed_rows){.svc = svc, .tables = {tables[0], tables[1]}};
	err = buf_append_bytes(&c->begin, from);
	if (!err)
		err = buf_append_bytes(&c->until, from); /* the first interval begins here */
	if (!err && to.p)
		err = tablet_end_copy(&c->end, to);
	for (unsigned i = 0; i < 2 && !err; i++) {
		err = meta_seek_key(&c->keys[2 * i], tables[i], from);
		if (!err)
			err = meta_table_begin(&c->keys[2 * i + 1], tables[i] + 1);
		if (!err)
			metadata_cursor_init(&c->tablets[i], svc, buf_bytes(&c->keys[2 * i]), buf_bytes(&c->keys[2 * i + 1]));
	}
	if (err)
		changed_rows_fini(c);
	return err;
}

static void cursors_end(struct changed_rows *c)
{
	for (unsigned i = 0; i < 2; i++) {
		row_cursor_fini(&c->cursors[i]);
		c->cursors[i] = (struct row_cursor){0};
		c->cells[i] = NULL;
	}
	c->by_row = false;
}

void changed_rows_fini(struct changed_rows *c)
{
	struct buf *const bufs[] = {&c->begin, &c->end, &c->keys[0], &c->keys[1], &c->keys[2], &c->keys[3], &c->at, &c->until,
		&c->files[0], &c->files[1], &c->from, &c->to, &c->behind, &c->row};

	cursors_end(c);
	for (unsigned i = 0; i < 2; i++)
		metadata_cursor_fini(&c->tablets[i]);
	for (unsigned i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
		buf_fini(bufs[i]);
}

/* ---- intervals ---- */

/* The end of a range; p NULL: none. */
static struct tfs_bytes end_of(const struct buf *end)
{
	return end->p ? buf_bytes(end) : (struct tfs_bytes){NULL, 0};
}

static struct tfs_bytes least_end(struct tfs_bytes a, struct tfs_bytes b)
{
	return b.p && (!a.p || bytes_cmp(b, a) < 0) ? b : a;
}

static struct tfs_bytes larger(struct tfs_bytes a, struct tfs_bytes b)
{
	return bytes_cmp(a, b) < 0 ? b : a;
}

static struct tfs_bytes tablet_until(const struct meta_tablet *m)
{
	return m->last ? (struct tfs_bytes){NULL, 0} : tfs_bytes_of(m->end.n ? m->end.p : (const uint8_t *)"", m->end.n);
}

/* Makes the tablet that has the row `at` the current one. */
static int tablet_at(struct changed_rows *c, unsigned i)
{
	const struct meta_tablet *m = &c->tablets[i].tablet;

	while (!c->have[i] || (!m->last && bytes_cmp(buf_bytes(&m->end), buf_bytes(&c->at)) <= 0)) {
		int r = metadata_next(&c->tablets[i]);

		if (r <= 0)
			return r < 0 ? r : -ENOENT;
		c->have[i] = true;
	}
	return 0;
}

/* Returns 1, 0 after the last interval, -errno. */
static int interval_next(struct changed_rows *c)
{
	struct tfs_bytes until;
	int err;

	if (c->is_last || (c->end.p && bytes_cmp(buf_bytes(&c->until), buf_bytes(&c->end)) >= 0))
		return 0;
	err = buf_set(&c->at, c->until.p, c->until.n);
	for (unsigned i = 0; i < 2 && !err; i++)
		err = tablet_at(c, i);
	if (err)
		return err;
	until = least_end(tablet_until(&c->tablets[0].tablet), tablet_until(&c->tablets[1].tablet));
	c->is_last = !until.p;
	err = buf_set(&c->until, until.p, until.n);
	return err ? err : 1;
}

/* ---- files ---- */

/* The rows of the interval for which a tablet uses the file, and which may be in it. */
struct file_rows {
	struct tfs_bytes from, to; /* as METADATA has them; to.p is NULL if there is no end */
};

static struct file_rows file_rows(const struct changed_rows *c, const struct tablet_file *f)
{
	const struct tfs_bytes until = c->is_last ? (struct tfs_bytes){NULL, 0} : buf_bytes(&c->until);

	return (struct file_rows){larger(buf_bytes(&f->begin), buf_bytes(&c->at)), least_end(until, end_of(&f->end))};
}

static bool is_shared(const struct changed_rows *c, const struct tablet_file *f, const struct meta_tablet *other)
{
	const struct file_rows rows = file_rows(c, f);

	for (unsigned i = 0; i < other->file_count; i++) {
		const struct tablet_file *g = &other->files[i];
		const struct file_rows same = file_rows(c, g);

		if (f->number == g->number && f->incarnation == g->incarnation && f->table == g->table &&
			bytes_eq(rows.from, same.from) && !rows.to.p == !same.to.p && bytes_eq(rows.to, same.to))
			return true;
	}
	return false;
}

/* Adds the file to the files that only side i uses, and its rows to the range, unless it has none in the interval. */
static int add_file(struct changed_rows *c, unsigned i, const struct tablet_file *f)
{
	struct file_rows rows = file_rows(c, f);
	const bool first = c->files[0].n + c->files[1].n == 0;
	int err = buf_set(&c->behind, f->last.p, f->last.n);

	if (!err)
		err = buf_u8(&c->behind, 0);
	if (err)
		return err;
	rows.from = larger(larger(rows.from, buf_bytes(&f->first)), buf_bytes(&c->begin));
	rows.to = least_end(least_end(rows.to, buf_bytes(&c->behind)), end_of(&c->end));
	if (bytes_cmp(rows.from, rows.to) >= 0)
		return 0;
	err = buf_be32(&c->files[i], f->table);
	if (!err)
		err = buf_be64(&c->files[i], f->incarnation);
	if (!err)
		err = buf_be64(&c->files[i], f->number);
	if (!err && (first || bytes_cmp(rows.from, buf_bytes(&c->from)) < 0))
		err = buf_set(&c->from, rows.from.p, rows.from.n);
	if (!err && (first || bytes_cmp(rows.to, buf_bytes(&c->to)) > 0))
		err = buf_set(&c->to, rows.to.p, rows.to.n);
	return err;
}

/* Returns true if few bytes of the files that have rows in the range are in files that are not shared. */
static bool are_few(const struct changed_rows *c)
{
	uint64_t all = 0, own = 0;

	for (unsigned i = 0; i < 2; i++) {
		const struct meta_tablet *m = &c->tablets[i].tablet;

		for (unsigned k = 0; k < m->file_count; k++) {
			const struct tablet_file *f = &m->files[k];

			if (bytes_cmp(buf_bytes(&f->first), buf_bytes(&c->to)) >= 0 ||
				bytes_cmp(buf_bytes(&f->last), buf_bytes(&c->from)) < 0)
				continue;
			all += f->bytes;
			own += is_shared(c, f, &c->tablets[!i].tablet) ? 0 : f->bytes;
		}
	}
	return own < all / FEW;
}

/* Finds the files of the interval that are not shared, and the range of their rows.  Returns 1, 0 if there are none, -errno. */
static int compare_files(struct changed_rows *c)
{
	int err = 0;

	buf_reset(&c->files[0]);
	buf_reset(&c->files[1]);
	for (unsigned i = 0; i < 2; i++) {
		const struct meta_tablet *m = &c->tablets[i].tablet;

		for (unsigned k = 0; k < m->file_count && !err; k++)
			if (!is_shared(c, &m->files[k], &c->tablets[!i].tablet))
				err = add_file(c, i, &m->files[k]);
	}
	return err ? err : c->files[0].n + c->files[1].n != 0;
}

/* ---- rows of the files ---- */

static void cursors_begin(struct changed_rows *c)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct scan_spec spec = {.pub.what = TFS_SCAN_STORED_ROWS,
			.pub.row_from = buf_bytes(&c->from),
			.pub.row_to = buf_bytes(&c->to),
			.pub.batch_bytes = KEYS_BYTES,
			.pub.stop = c->stop,
			.pub.stop_arg = c->stop_arg,
			.files = buf_bytes(&c->files[i])};

		if (!c->files[i].n)
			continue;
		row_cursor_init(&c->cursors[i], c->svc, c->tables[i], 0, &spec);
	}
	c->by_row = true;
}

/* Returns 1 and the next row of the two lists in c->row; 0 at the end, -errno. */
static int row_next(struct changed_rows *c)
{
	const struct tfs_cell *least = NULL;
	int err;

	for (unsigned i = 0; i < 2; i++) {
		int r = c->files[i].n && !c->cells[i] ? row_cursor_next(&c->cursors[i], &c->cells[i]) : 1;

		if (r < 0)
			return r;
		if (r == 0)
			c->cells[i] = NULL;
		if (c->cells[i] && (!least || bytes_cmp(c->cells[i]->row, least->row) < 0))
			least = c->cells[i];
	}
	if (!least)
		return 0;
	err = buf_set(&c->row, least->row.p, least->row.n);
	for (unsigned i = 0; i < 2; i++)
		if (c->cells[i] && bytes_eq(c->cells[i]->row, buf_bytes(&c->row)))
			c->cells[i] = NULL;
	return err ? err : 1;
}

int changed_rows_next(struct changed_rows *c, struct row_range *out)
{
	for (;;) {
		int r = c->by_row ? row_next(c) : 0;

		if (r > 0)
			*out = (struct row_range){.from = buf_bytes(&c->row), .one = true};
		if (r)
			return r;
		cursors_end(c);
		r = interval_next(c);
		if (r <= 0)
			return r;
		r = compare_files(c);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (!are_few(c)) {
			*out = (struct row_range){.from = buf_bytes(&c->from), .to = buf_bytes(&c->to)};
			return 1;
		}
		cursors_begin(c);
	}
}
