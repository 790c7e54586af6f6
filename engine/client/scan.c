/* SPDX-License-Identifier: Apache-2.0 */
/* The public scans. */
#include "engine/client/cells.h"

#include <errno.h>
#include <stdlib.h>

struct tfs_scan {
	struct cell_scan cells;
	struct absent_scan *absent; /* NULL: the scan is `cells` */
};

int tfs_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	struct tfs_scan *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	if (s)
		err = spec->absent_from ? absent_scan_new(t, spec, &s->absent) : cell_scan_init(&s->cells, t, spec);
	if (err)
		free(s);
	else
		*out = s;
	return err;
}

int tfs_scan_next(struct tfs_scan *s, struct tfs_cell *cell)
{
	return s->absent ? absent_scan_next(s->absent, cell) : cell_scan_next(&s->cells, cell);
}

void tfs_scan_free(struct tfs_scan *s)
{
	if (!s)
		return;
	absent_scan_free(s->absent);
	cell_scan_fini(&s->cells);
	free(s);
}

uint64_t tfs_fingerprint(const struct tfs_cell *c)
{
	return cell_fingerprint(c->family_id, slice_of_bytes(c->qualifier), c->ts, c->sequence);
}
