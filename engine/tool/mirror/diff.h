/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences of two tables, in any stores: their cells, merged in the order of keys.  With hashes, ranges of rows that are
 * equal are left out (ranges.h), and the rest is read so.
 *
 * A scan returns the families of a row in the order of their ids, which differ between tables.
 * If the families of both have one order, each table is read once; else once for each family.
 *
 * Threads: one.
 */
#ifndef TFS_TOOL_MIRROR_DIFF_H
#define TFS_TOOL_MIRROR_DIFF_H

#include "engine/base/bytes.h"

struct diff_options {
	struct tfs_table *a, *b;
	bool only_families_of_a;
	bool hashes; /* not with the two members before and behind this one */
	/* Continues a walk behind a row that diff_next returned with this family.  "" and n 0: at the start. */
	const char *after_family;
	struct tfs_bytes after_row;
	bool (*stop)(void *arg); /* as in tfs_scan_spec */
	void *arg;
};
enum diff_kind { DIFF_SAME, DIFF_ONLY_A, DIFF_ONLY_B, DIFF_VALUE, DIFF_EQUAL_RANGE /* a range of rows, with hashes */ };
struct diff_cell {
	enum diff_kind kind;
	uint64_t cells, bytes;        /* of DIFF_EQUAL_RANGE, which has no a and b */
	const struct tfs_cell *a, *b; /* valid until the next call; NULL: there is none */
	const char *pass;             /* diff_options.after_family of a walk that continues here */
};
static inline const struct tfs_cell *diff_any(const struct diff_cell *c)
{
	return c->a ? c->a : c->b;
}

struct diff;
/* Borrows the tables.  -errno of tfs_scan_new. */
int diff_new(const struct diff_options *o, struct diff **out) TFS_MUST;
/* Returns 1 and the next cell of one or both tables, 0 at the end, -errno of tfs_scan_next and tfs_read. */
int diff_next(struct diff *d, struct diff_cell *out) TFS_MUST;
/* The table whose scan or read has returned the error of diff_next: 0 is a, 1 is b. */
unsigned diff_failed(const struct diff *d);
void diff_free(struct diff *d);

#endif
