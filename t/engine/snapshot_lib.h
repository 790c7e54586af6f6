/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of snapshots: ROWS rows with one cell each. */
#ifndef T_ENGINE_SNAPSHOT_LIB_H
#define T_ENGINE_SNAPSHOT_LIB_H

#include "t/engine/lib.h"

#define ROWS 40

static inline void row_name(char *row, unsigned i)
{
	snprintf(row, 32, "row%05u", i);
}

static inline void fill(struct tfs_table *t, const char *value)
{
	char row[32];

	for (unsigned i = 0; i < ROWS; i++) {
		row_name(row, i);
		assert_int_equal(store_put(t, tfs_str(row), "f", TFS_S("q"), tfs_at(1), tfs_str(value), 0), 0);
	}
}

/* t has the ROWS rows, each with one cell of this value. */
static inline void expect(struct tfs_table *t, const char *value)
{
	struct tfs_table *own = table;

	table = t;
	expect_rows(value, 0, ROWS);
	table = own;
}

#endif
