/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a live iterator.  The scan's bounds are encoded as keys once, so that
 * the iteration only compares bytes.
 */
#include "engine/cell/live_internal.h"

#include <errno.h>
#include <stdlib.h>

/* Lowers the end to the encoded row, or to the row after it. */
static int live_lower_end(struct live *l, struct tfs_bytes row, bool behind)
{
	struct buf *b = &l->target;
	int err;

	buf_reset(b);
	err = behind ? cellkey_row_after(b, row) : cellkey_row_prefix(b, row);
	if (err || (l->end.n && bytes_cmp(buf_bytes(&l->end), buf_bytes(b)) <= 0))
		return err;
	return buf_set(&l->end, b->p, b->n);
}

static int live_set_bounds(struct live *l)
{
	const struct scan_spec *s = l->o.spec;
	struct buf *b = &l->target;
	int err;

	err = s->pub.row_from_after && !s->pub.one_row ? cellkey_row_after(&l->start, s->pub.row_from)
						       : cellkey_row_prefix(&l->start, s->pub.row_from);
	if (err)
		return err;
	err = cellkey_row_prefix(b, l->o.row_begin);
	if (!err && bytes_cmp(buf_bytes(&l->start), buf_bytes(b)) < 0)
		err = buf_set(&l->start, b->p, b->n);
	if (!err && s->pub.row_to.p)
		err = live_lower_end(l, s->pub.row_to, false);
	if (!err && l->o.row_end.p)
		err = live_lower_end(l, l->o.row_end, false);
	if (!err && s->pub.one_row)
		err = live_lower_end(l, s->pub.row_from, true);
	if (!err && s->pub.qualifier_from_after)
		err = cellkey_row_after(&l->qfrom, s->pub.qualifier_from);
	else if (!err && (s->pub.qualifier_from.n || s->pub.after_cell))
		err = cellkey_row_prefix(&l->qfrom, s->pub.qualifier_from);
	if (!err && s->pub.qualifier_to.p)
		err = cellkey_row_prefix(&l->qto, s->pub.qualifier_to);
	if (!err && s->done_row.p)
		err = cellkey_row_prefix(&l->done_row, s->done_row);
	if (!err && s->done_row.p && s->done_in_family)
		err = cellkey_row_prefix(&l->done_qualifier, s->done_qualifier);
	if (s->pub.reverse) {
		l->upper = l->end; /* `end` becomes the end of each row in turn */
		l->end = (struct buf){0};
	}
	return err;
}

int live_new(struct iter *merged, const struct live_options *o, struct live **out)
{
	struct live *l = calloc(1, sizeof(*l));
	int err;

	if (!l) {
		iter_free(merged);
		return -ENOMEM;
	}
	l->it = merged;
	l->o = *o;
	l->pending = o->spec->pub.reverse ? MOVE_TO_ROW_BEFORE : MOVE_TO_START;
	err = live_set_bounds(l);
	if (err)
		live_free(l);
	else
		*out = l;
	return err;
}

void live_free(struct live *l)
{
	if (!l)
		return;
	iter_free(l->it);
	buf_fini(&l->start);
	buf_fini(&l->end);
	buf_fini(&l->upper);
	buf_fini(&l->qfrom);
	buf_fini(&l->qto);
	buf_fini(&l->done_row);
	buf_fini(&l->done_qualifier);
	buf_fini(&l->row_raw);
	buf_fini(&l->row);
	buf_fini(&l->column);
	buf_fini(&l->qualifier_raw);
	buf_fini(&l->target);
	free(l);
}
