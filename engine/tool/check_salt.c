/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a salted table whose first byte is not their salt: no reader finds
 * them, and a scan passes them over.
 *
 * Such a row in a file or a log by itself says nothing: it may have been
 * deleted, and then the salt changed.  So whoever comes by each row anyway
 * (check_sst.c, check_log.c) only notes the table, and a table that was noted
 * has its tablets read as a server reads them, files and logs merged and
 * deletes applied.  The rules of garbage collection are not, since hidden
 * cells keep a salt from changing as those that are seen do (master.c).
 *
 * Of the logs it takes the misplaced rows only: their memory is bounded by
 * what a mount holds in memtables, and is nothing in most stores.
 */
#include "engine/client/salt.h"
#include "engine/store/merge.h"
#include "engine/tool/check.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define TOLD_MAX 10 /* rows of a tablet, and how many more */

static bool misplaced(const struct look_table *t, struct slice row)
{
	const uint32_t salt = t->store->salt;

	return salt && (row.n < 2 || row.p[0] != salt_byte(slice_of(row.p + 1, row.n - 1), salt));
}

void check_salt_of(struct look_table *t, struct slice row)
{
	if (t && !t->misplaced)
		t->misplaced = misplaced(t, row);
}

static bool wanted(void *arg, struct slice row)
{
	return misplaced(arg, row);
}

static const struct gc_rule *no_rule(const void *arg, uint16_t family, bool *known)
{
	*known = store_schema_family(arg, family) != NULL;
	return NULL;
}

static void tell(struct check *c, const struct look_table *t, const char *who, struct slice row)
{
	struct buf q = {0};

	if (row.n < 2)
		report_problem(&c->r, "%s: row %s is too short for a salted table", who, quoted(&q, row));
	else
		report_problem(&c->r, "%s: row %s is stored with salt byte %u in front, not %u: nobody finds it", who,
			       quoted(&q, slice_of(row.p + 1, row.n - 1)), row.p[0],
			       salt_byte(slice_of(row.p + 1, row.n - 1), t->store->salt));
	buf_fini(&q);
}

static int look_at_rows(struct check *c, const struct look_table *t, const struct meta_tablet *m, struct iter *it)
{
	struct scan_spec spec = {.what = SCAN_ROWS};
	struct live_options o = {
		.rules = {no_rule, t->store},
		.seq = UINT64_MAX,
		.spec = &spec,
		.row_begin = buf_slice(&m->begin),
		.row_end = m->last ? (struct slice){NULL, 0} : buf_slice(&m->end),
	};
	struct live_cell cell;
	struct buf name = {0};
	struct live *live;
	uint64_t bad = 0;
	int err = live_new(it, &o, &live), n = 0;

	if (err)
		return err;
	while ((n = live_next(live, &cell)) > 0)
		if (misplaced(t, cell.row) && bad++ < TOLD_MAX)
			tell(c, t, tablet_name(&name, &c->l, m), cell.row);
	if (bad > TOLD_MAX)
		report_problem(&c->r, "%s: %" PRIu64 " more rows like these", tablet_name(&name, &c->l, m), bad - TOLD_MAX);
	live_free(live);
	buf_fini(&name);
	return n;
}

static int look_at_tablet(struct check *c, struct look_table *t, const struct look_row *row)
{
	struct meta_tablet m = row->m;
	struct look_view v = {.r = &c->r, .l = &c->l, .t = &m, .wanted = wanted, .arg = t};
	struct iter *it;
	int err;

	m.begin = row->begin; /* the true one, borrowed */
	err = look_view_open(&v, &it);
	/* Where a part is damaged, which has been said, deletes may be missing. */
	if (!err && v.part_missing)
		iter_free(it);
	else if (!err)
		err = look_at_rows(c, t, &m, it);
	look_view_close(&v);
	return err == -EBADMSG || err == -EIO ? 0 : err;
}

int check_salts(struct check *c)
{
	int err = 0;

	for (unsigned i = 0; i < c->l.users.count && !err; i++) {
		struct look_table *t = look_table(&c->l, c->l.users.v[i].m.table);

		if (t && t->misplaced)
			err = look_at_tablet(c, t, &c->l.users.v[i]);
	}
	return err;
}
