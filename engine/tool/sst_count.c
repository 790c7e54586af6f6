/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tool/sst_count.h"

#include <errno.h>

void sst_count_init(struct sst_count *n)
{
	*n = (struct sst_count){
		.p = {.seq_min = UINT64_MAX, .oldest_us = INT64_MAX, .newest_us = INT64_MIN}, .commit_us = INT64_MIN};
}

void sst_count_fini(struct sst_count *n)
{
	props_fini(&n->p);
	buf_fini(&n->column);
	buf_fini(&n->scratch);
}

static int count_kind(struct props *p, const struct cellkey *k, uint64_t bytes)
{
	struct props_family *f = props_family(p, k->family);

	if (!f)
		return -ENOMEM;
	p->raw_bytes += bytes;
	f->raw_bytes += bytes;
	p->seq_min = k->seq < p->seq_min ? k->seq : p->seq_min;
	p->seq_max = k->seq > p->seq_max ? k->seq : p->seq_max;
	if (k->kind == CELL_VALUE || k->kind == CELL_LARGE) {
		p->cells++;
		f->cells++;
		p->oldest_us = k->ts < p->oldest_us ? k->ts : p->oldest_us;
		p->newest_us = k->ts > p->newest_us ? k->ts : p->newest_us;
	} else if (k->kind != CELL_CHUNK) {
		p->tombstones++;
		f->tombstones++;
		p->row_deletes += k->kind == CELL_DELETE_ROW;
		p->family_deletes += k->kind == CELL_DELETE_FAMILY;
	}
	return 0;
}

int sst_count_add(struct sst_count *n, struct slice key, struct slice value)
{
	size_t row_bytes, column_bytes;
	int err = cellkey_decode(key, &n->k, &n->scratch);

	if (err)
		return err;
	row_bytes = cellkey_row_len(key);
	column_bytes = cellkey_column_len(key);
	n->new_row = !n->any || n->row_bytes != row_bytes || memcmp(n->column.p, key.p, row_bytes) != 0;
	n->new_column = n->new_row || n->column.n != column_bytes || memcmp(n->column.p, key.p, column_bytes) != 0;
	if (!n->any)
		err = buf_set(&n->p.first, n->k.row.p, n->k.row.n);
	if (!err && n->new_row)
		err = buf_set(&n->p.last, n->k.row.p, n->k.row.n);
	if (!err && n->new_column)
		err = buf_set(&n->column, key.p, column_bytes);
	n->row_bytes = row_bytes;
	n->any = true;
	if ((n->k.kind == CELL_VALUE || n->k.kind == CELL_LARGE) && n->k.commit > n->commit_us)
		n->commit_us = n->k.commit;
	return err ? err : count_kind(&n->p, &n->k, key.n + value.n);
}

void sst_count_probes(const struct sst_count *n, bool again, char tags[5])
{
	if (again || n->new_row)
		*tags++ = 'r';
	if (n->k.kind == CELL_DELETE_ROW)
		*tags++ = 'R';
	else if (n->k.kind == CELL_DELETE_FAMILY)
		*tags++ = 'F';
	else if (again || n->new_column)
		*tags++ = 'c';
	if (n->k.kind == CELL_DELETE_COLUMN)
		*tags++ = 'C';
	*tags = 0;
}
