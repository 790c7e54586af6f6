/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of METADATA, read and changed through the tablet service. */
#include "engine/client/metadata.h"

#include "engine/base/process.h"

#include <errno.h>

void metadata_cursor_init(struct metadata_cursor *c, struct tablet_service *svc, struct tfs_bytes from, struct tfs_bytes to)
{
	/* Only the column of events has older versions, and readers of rows do not need them. */
	const struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.row_from = from, .pub.row_to = to, .pub.versions = 1};

	*c = (struct metadata_cursor){0};
	row_cursor_init(&c->cells, svc, META_TABLE, 0, &spec);
}

int metadata_next(struct metadata_cursor *c)
{
	int n = c->cell ? 1 : row_cursor_next(&c->cells, &c->cell), err;

	meta_tablet_fini(&c->tablet);
	c->tablet = (struct meta_tablet){0};
	if (n <= 0)
		return n;
	err = buf_set(&c->row, c->cell->row.p, c->cell->row.n);
	if (!err)
		err = meta_tablet_row(&c->tablet, c->cell->row);
	c->bad = err && err != -ENOMEM;
	while (!err && n > 0 && bytes_eq(c->cell->row, buf_bytes(&c->row))) {
		err = meta_tablet_cell(&c->tablet, c->cell);
		c->bad = err && err != -ENOMEM;
		n = err ? err : row_cursor_next(&c->cells, &c->cell);
	}
	if (n <= 0)
		c->cell = NULL;
	/* If the next tablet of METADATA cannot be read, the last row of the present tablet is whole.  The next call returns the error. */
	return err ? err : n < 0 && !c->cells.between ? n : 1;
}

void metadata_cursor_fini(struct metadata_cursor *c)
{
	row_cursor_fini(&c->cells);
	meta_tablet_fini(&c->tablet);
	buf_fini(&c->row);
}

int metadata_scan(struct tablet_service *svc, struct tfs_bytes from, struct tfs_bytes to, metadata_fn *fn, void *arg)
{
	struct metadata_cursor c;
	int r;

	metadata_cursor_init(&c, svc, from, to);
	while ((r = metadata_next(&c)) > 0 && !(r = fn(arg, buf_bytes(&c.row), &c.tablet)))
		;
	metadata_cursor_fini(&c);
	return r;
}

int metadata_scan_past_damage(struct tablet_service *svc, struct tfs_bytes from, struct tfs_bytes to, metadata_fn *fn, void *arg)
{
	struct buf at = {0};
	struct metadata_cursor c;
	int r = buf_append_bytes(&at, from);
	bool again = !r;

	while (again) {
		again = false;
		metadata_cursor_init(&c, svc, buf_bytes(&at), to);
		while ((r = metadata_next(&c)) > 0 && !(r = fn(arg, buf_bytes(&c.row), &c.tablet)))
			;
		if (r < 0 && c.bad) {
			r = buf_set(&at, c.row.p, c.row.n);
			if (!r)
				r = buf_u8(&at, 0);
			if (!r)
				r = fn(arg, buf_bytes(&c.row), NULL);
			again = !r;
		}
		metadata_cursor_fini(&c);
	}
	buf_fini(&at);
	return r;
}

int metadata_scan_table(struct tablet_service *svc, uint32_t table, metadata_fn *fn, void *arg)
{
	struct buf from = {0}, to = {0};
	int err = meta_table_begin(&from, table);

	if (!err)
		err = meta_table_begin(&to, table + 1);
	if (!err)
		err = metadata_scan(svc, buf_bytes(&from), buf_bytes(&to), fn, arg);
	buf_fini(&from);
	buf_fini(&to);
	return err;
}

static int metadata_read_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	struct meta_tablet *out = arg;

	meta_tablet_fini(out);
	*out = *m;
	*m = (struct meta_tablet){0};
	return 1;
}

int metadata_read(struct tablet_service *svc, struct tfs_bytes row_key, struct meta_tablet *out)
{
	struct buf to = {0};
	int err = buf_append_bytes(&to, row_key);

	if (!err)
		err = buf_u8(&to, 0);
	if (!err)
		err = metadata_scan(svc, row_key, buf_bytes(&to), metadata_read_row, out);
	buf_fini(&to);
	return err == 0 ? -ENOENT : err > 0 ? 0 : err;
}

int metadata_make(
	struct tablet_service *svc, uint32_t table, bool split, struct tfs_bytes row_key, const struct op *ops, unsigned count)
{
	const struct row_mutation row = {.row = row_key, .ops = ops, .op_count = count};
	const struct ts_request q = {.method = TS_MUTATE,
		.table = META_TABLE,
		.to_table = table,
		.split = split,
		.rows = &row,
		.row_count = 1,
		.sync = true};
	struct ts_answer a = {0};
	int err;

	die_step(DIE_BEFORE_ROW);
	err = call_tablet_service(svc, &q, &a);
	die_step(DIE_AFTER_ROW);
	ts_answer_fini(&a);
	return err;
}

int metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count)
{
	return metadata_make(svc, 0, false, row_key, ops, count);
}

int metadata_delete(struct tablet_service *svc, struct tfs_bytes row_key)
{
	struct op op = {.kind = OP_DELETE_ROW};

	return metadata_mutate(svc, row_key, &op, 1);
}
