/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of METADATA, read and changed through the tablet service. */
#include "engine/client/metadata.h"

#include <errno.h>

int metadata_scan(struct tablet_service *svc, struct slice from, struct slice to, metadata_fn *fn, void *arg)
{
	/* Only the column of events has older versions, and readers of rows do not need them. */
	struct scan_spec spec = {.what = SCAN_CELLS, .row_from = from, .row_to = to, .versions = 1};
	struct meta_tablet m = {0};
	const struct scan_cell *cell;
	struct buf row = {0};
	struct row_cursor c;
	bool have = false;
	int err = 0, n;

	row_cursor_init(&c, svc, META_TABLE, 0, &spec);
	for (;;) {
		n = row_cursor_next(&c, &cell);
		if (n < 0) {
			err = n;
			goto out;
		}
		if (have && (n == 0 || !slice_eq(cell->row, buf_slice(&row)))) {
			err = fn(arg, buf_slice(&row), &m);
			meta_tablet_fini(&m);
			m = (struct meta_tablet){0};
			have = false;
			if (err)
				goto out;
		}
		if (n == 0)
			break;
		if (!have) {
			err = buf_set(&row, cell->row.p, cell->row.n);
			if (!err)
				err = meta_tablet_row(&m, cell->row);
			if (err)
				goto out;
			have = true;
		}
		err = meta_tablet_cell(&m, cell);
		if (err)
			goto out;
	}
out:
	row_cursor_fini(&c);
	meta_tablet_fini(&m);
	buf_fini(&row);
	return err;
}

int metadata_scan_table(struct tablet_service *svc, uint32_t table, metadata_fn *fn, void *arg)
{
	struct buf from = {0}, to = {0};
	int err = meta_table_begin(&from, table);

	if (!err)
		err = meta_table_begin(&to, table + 1);
	if (!err)
		err = metadata_scan(svc, buf_slice(&from), buf_slice(&to), fn, arg);
	buf_fini(&from);
	buf_fini(&to);
	return err;
}

static int metadata_read_row(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct meta_tablet *out = arg;

	meta_tablet_fini(out);
	*out = *m;
	*m = (struct meta_tablet){0};
	return 1;
}

int metadata_read(struct tablet_service *svc, struct slice row_key, struct meta_tablet *out)
{
	struct buf to = {0};
	int err = buf_append_slice(&to, row_key);

	if (!err)
		err = buf_u8(&to, 0);
	if (!err)
		err = metadata_scan(svc, row_key, buf_slice(&to), metadata_read_row, out);
	buf_fini(&to);
	return err == 0 ? -ENOENT : err > 0 ? 0 : err;
}

int metadata_mutate(struct tablet_service *svc, struct slice row_key, const struct op *ops, unsigned count)
{
	struct ts_request q = {
		.method = TS_MUTATE, .table = META_TABLE, .row = row_key, .ops = ops, .op_count = count, .sync = true};
	struct ts_answer a = {0};
	int err = call_tablet_service(svc, &q, &a);

	ts_answer_fini(&a);
	return err;
}

int metadata_delete(struct tablet_service *svc, struct slice row_key)
{
	struct op op = {.kind = OP_DELETE_ROW};

	return metadata_mutate(svc, row_key, &op, 1);
}
