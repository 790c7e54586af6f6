/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads.
 *
 * One column is read straight out of the sources that may hold it
 * (tablet_column.c).  The newest version is the first live one; a version at
 * a timestamp is sought directly where the rules count no versions, else the
 * column is walked down to it.  Bytes
 * of a large value are read chunk by chunk from the one that holds the
 * offset.
 */
#include "engine/store/tablet_impl.h"

#include <errno.h>

#include "engine/store/merge.h"
#include "engine/store/tablet_column.h"

static int
find(struct colread *c, const struct gc_rule *rule, int64_t now, struct op_time ts, struct colver *ver)
{
	int err;

	/* Hidden at the same time however many are above it: the rules do not count here. */
	if (!ts.newest && (!rule || gc_expires(rule, 0, ts.us) == gc_expires(rule, UINT64_MAX, ts.us)) &&
	    (err = colread_skip_to(c, ts.us)))
		return err;
	while ((err = colread_next(c, ver)) > 0) {
		if (gc_hides(rule, ver->index, ver->ts, now))
			return -ENOENT;
		if (ts.newest || ver->ts == ts.us)
			return 0;
		if (ver->ts < ts.us)
			return -ENOENT;
	}
	return err ? err : -ENOENT;
}

int
tablet_read(struct tablet *t, struct slice row, uint16_t family, struct slice qualifier, struct op_time ts, uint64_t offset,
	    void *p, size_t n, size_t *got, struct cell_info *info)
{
	const struct store_family *f;
	struct colread c;
	struct colver ver;
	struct snap snap;
	size_t done = 0;
	int err;

	tablet_enter(t);
	snap_take(t, &snap);
	f = store_schema_family(snap.schema, family);
	if (!f) {
		err = -EINVAL;
		goto out;
	}
	err = colread_open(&c, snap.view, snap.seq, row, family, qualifier);
	if (err)
		goto out;
	err = find(&c, f->rule, f->rule && gc_has_age(f->rule) ? clock_now(t->env->clock) : 0, ts, &ver);
	if (!err && n)
		err = colread_bytes(&c, &ver, offset, p, n, &done);
	colread_close(&c);
	if (err)
		goto out;
	if (got)
		*got = done;
	if (info)
		*info = (struct cell_info){ver.ts, gc_expires(f->rule, ver.index, ver.ts), ver.size};
out:
	snap_put(&snap);
	tablet_leave(t);
	return err;
}

int
tablet_row_exists(struct tablet *t, struct slice row, uint16_t family, bool *exists)
{
	struct scan_spec spec = {.what = SCAN_ROWS, .row_from = row, .one_row = true, .limit = 1};
	struct scan_batch b = {0};
	struct tablet_scan *s;
	int err;

	if (family) {
		spec.families = &family;
		spec.family_count = 1;
	}
	err = tablet_scan_new(t, &spec, &s);
	if (err)
		return err;
	err = tablet_scan_fill(s, &b);
	if (!err)
		*exists = b.count > 0;
	scan_batch_fini(&b);
	tablet_scan_free(s);
	return err;
}
