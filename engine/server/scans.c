/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open scans: each has an id, by which the client continues it, and a tablet's
 * scan.  Most scans end with their first answer and never get an id.
 */
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

/* Removes the scan from the open ones while a request uses it, so no second request can.  Returns NULL if it is not open. */
static struct open_scan *scan_take(struct server *s, uint32_t table, uint64_t id)
{
	struct open_scan **p, *o;

	mutex_lock(&s->lock);
	for (p = &s->scans[id % SCAN_BUCKETS]; *p && (*p)->id != id; p = &(*p)->next)
		;
	o = *p;
	if (o && o->served->table != table)
		o = NULL;
	if (o)
		*p = o->next;
	mutex_unlock(&s->lock);
	return o;
}

/* Adds the scan to the open ones. */
static void scan_keep(struct server *s, struct open_scan *o)
{
	mutex_lock(&s->lock);
	if (!o->id)
		o->id = ++s->next_scan;
	o->next = s->scans[o->id % SCAN_BUCKETS];
	s->scans[o->id % SCAN_BUCKETS] = o;
	mutex_unlock(&s->lock);
}

static void scan_end(struct open_scan *o)
{
	tablet_scan_free(o->scan);
	served_put(o->served);
	free(o);
}

/* Fills the next batch.  Ends the scan after its last batch and after an error. */
static int scan_more(struct server *s, struct open_scan *o, struct ts_answer *a)
{
	/* A dropped table has no cells, although its tablet could still be read. */
	const bool dropped = o->served->user_table && user_table_dropped(s, o->served->user_table);
	int err = dropped ? -EIDRM : 0;
	struct slice row;

	if (!err)
		err = tablet_scan_fill(o->scan, &a->batch);
	if (!err)
		traffic_tablet(o->served, TABLE_SCANNED_CELLS, a->batch.count);
	a->scan = 0;
	/* The tablet was split or merged: other tablets serve the rest of the scan, from this row on. */
	if (!err && a->batch.done && tablet_scan_moved(o->scan, &row) && !arena_dup(&a->arena, row, &a->tablet_end))
		err = -ENOMEM;
	if (err || a->batch.done) {
		scan_end(o);
		return err;
	}
	scan_keep(s, o);
	a->scan = o->id;
	return 0;
}

static int scan_open(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct slice rest = {NULL, 0}; /* where the client continues in the next tablet */
	struct scan_spec spec;
	uint16_t *ids = NULL;
	struct open_scan *o;
	bool none = false;
	int err;

	/* Iterators of one row, and those that skip damage, move forward only. */
	if (!q->spec || (q->spec->reverse && (q->spec->one_row || q->spec->past_damage)))
		return -EINVAL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	err = served_find(s, q->table, q->row, &o->served);
	if (err) {
		free(o);
		return err;
	}
	arena_reset(&a->arena);
	a->tablet_end = (struct slice){NULL, 0};
	if (q->spec->reverse)
		rest = tablet_begin(o->served->tablet);
	else if (!o->served->last && !q->spec->one_row)
		rest = buf_slice(&o->served->end);
	if (!arena_dup(&a->arena, rest, &a->tablet_end))
		err = -ENOMEM;
	if (!err)
		spec = *q->spec;
	if (!err && q->user) {
		err = access_readable(o->served, q, spec.families, spec.family_count, &ids, &spec.family_count);
		spec.families = ids;
		none = !err && spec.family_count == 0;
	}
	if (!err && !none)
		err = tablet_scan_new(o->served->tablet, &spec, &o->scan);
	free(ids);
	if (none) {
		/* The user may read no family: there are no cells. */
		scan_batch_reset(&a->batch);
		a->batch.done = true;
	}
	if (err || none) {
		served_put(o->served);
		free(o);
		return err;
	}
	return scan_more(s, o, a);
}

int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct open_scan *o;

	if (q->method == TS_SCAN_OPEN)
		return scan_open(s, q, a);
	o = scan_take(s, q->table, q->scan);
	if (!o)
		return -ESTALE;
	if (q->method == TS_SCAN_NEXT)
		return scan_more(s, o, a);
	scan_end(o);
	return 0;
}

void scans_free(struct server *s)
{
	for (unsigned i = 0; i < SCAN_BUCKETS; i++) {
		while (s->scans[i]) {
			struct open_scan *o = s->scans[i];

			s->scans[i] = o->next;
			scan_end(o);
		}
	}
}
