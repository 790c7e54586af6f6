/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of a salted table look for a row behind its salt byte, so a row
 * that is stored with another first byte is never found.  All rows of a
 * table's files and logs have the same salt, because a change of the salt
 * takes a new table id.
 */
#include "engine/client/salt.h"
#include "engine/tool/check.h"

void check_salt_of(struct check *c, struct offline_table *t, struct slice row)
{
	const uint32_t salt = t ? t->store->salt : 0;
	const struct slice plain = row.n > 1 ? slice_of(row.p + 1, row.n - 1) : slice_of("", 0);

	if (!salt || t->misplaced || (row.n > 1 && row.p[0] == salt_byte(plain, salt)))
		return;
	t->misplaced = true;
	if (row.n < 2)
		report_problem(&c->r, "table %s: row %s is too short for a salted table", t->p->name, quoted(row));
	else
		report_problem(&c->r, "table %s: row %s is stored with salt byte %u in front, not %u: no reader finds it",
			t->p->name, quoted(plain), row.p[0], salt_byte(plain, salt));
}
