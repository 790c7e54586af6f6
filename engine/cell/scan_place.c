/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a scan is, so that it can be continued if the server has lost it: after
 * the last cell returned.  Only the batches are looked at, so a row may have
 * further cells.  The scan therefore begins again with that row, and leaves out the
 * cells that were returned (scan_spec.done_row).  It begins after the row if it
 * returns each row once.
 */
#include "engine/base/scan.h"
#include "engine/cell/op.h"

#include <errno.h>

/* The bytes of an empty row have a pointer, too, because NULL means: no bound. */
static struct tfs_bytes row_bytes(const struct buf *b)
{
	return b->n ? buf_bytes(b) : tfs_bytes_of("", 0);
}

/* Returns the number of columns of the last cell's row and family that were returned. */
static uint32_t columns_returned(const struct scan_place *p, const struct scan_batch *b)
{
	const struct tfs_cell *first = b->cells, *c = &b->cells[b->count - 1];
	uint32_t n = 1;

	for (; c > first && c->family_id == c[-1].family_id && bytes_eq(c->row, c[-1].row); c--)
		n += !bytes_eq(c->qualifier, c[-1].qualifier);
	if (c == first && p->any && p->family == c->family_id && bytes_eq(buf_bytes(&p->row), c->row))
		n += p->columns - bytes_eq(buf_bytes(&p->qualifier), c->qualifier);
	return n;
}

int scan_place_note(struct scan_place *p, const struct scan_spec *s, const struct scan_batch *b)
{
	const struct tfs_cell *last;

	if (!b->count)
		return 0;
	last = &b->cells[b->count - 1];
	p->columns = s->pub.column_limit ? columns_returned(p, b) : 0;
	p->any = false;
	if (buf_set(&p->row, last->row.p, last->row.n) || buf_set(&p->qualifier, last->qualifier.p, last->qualifier.n))
		return -ENOMEM;
	p->family = last->family_id;
	p->ts = last->ts;
	p->any = true;
	return 0;
}

int scan_place_continue(struct scan_place *p, struct scan_spec *s)
{
	const bool by_row = scan_is_by_row(&s->pub);

	if (!p->any)
		return 1;
	if (by_row && s->pub.one_row)
		return 0;
	if (buf_set(&p->bound, p->row.p, p->row.n) || (s->pub.reverse && !by_row && buf_u8(&p->bound, 0)))
		return -ENOMEM;
	if (s->pub.reverse) {
		s->pub.row_to = row_bytes(&p->bound);
	} else if (!s->pub.one_row) {
		s->pub.row_from = row_bytes(&p->bound);
		s->pub.row_from_after = by_row;
	}
	if (by_row)
		return 1;
	if (buf_set(&p->done_row, p->row.p, p->row.n) || buf_set(&p->done_qualifier, p->qualifier.p, p->qualifier.n))
		return -ENOMEM;
	s->done_row = row_bytes(&p->done_row);
	s->done_family = p->family;
	s->done_in_family = s->pub.what != TFS_SCAN_FAMILIES;
	s->done_qualifier = buf_bytes(&p->done_qualifier);
	s->done_ts = p->ts;
	s->done_columns = p->columns;
	return 1;
}

int scan_place_begin(struct scan_place *p, struct scan_spec *s, struct tfs_bytes row)
{
	if (buf_set(&p->bound, row.p, row.n) || (s->pub.reverse && buf_u8(&p->bound, 0)))
		return -ENOMEM;
	if (s->pub.reverse) {
		s->pub.row_to = row_bytes(&p->bound);
	} else if (!s->pub.one_row) {
		s->pub.row_from = row_bytes(&p->bound);
		s->pub.row_from_after = false;
	}
	p->any = false;
	s->done_row = (struct tfs_bytes){NULL, 0};
	return 1;
}

void scan_place_fini(struct scan_place *p)
{
	buf_fini(&p->row);
	buf_fini(&p->qualifier);
	buf_fini(&p->bound);
	buf_fini(&p->done_row);
	buf_fini(&p->done_qualifier);
}
