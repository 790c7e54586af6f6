/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of rows in which two tables, of any stores, differ, by hashes that their servers compute (TFS_SCAN_HASHES).
 *
 * Threads: one.
 */
#ifndef TFS_TOOL_MIRROR_RANGES_H
#define TFS_TOOL_MIRROR_RANGES_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

struct ranges_table {
	struct tfs_table *t;
	const struct tfs_schema *schema;
	const uint16_t *rank; /* by the id of a family: its index in `names` */
};
struct ranges_options {
	struct ranges_table table[2];
	const char *const *names; /* of the families that either table has */
	unsigned count;
	bool (*stop)(void *arg); /* as in tfs_scan_spec */
	void *arg;
};
/* Rows from `from` on and before `to`; to.n 0: to the last one. */
struct ranges_part {
	bool differs;          /* the cells of the two may differ; else they are equal */
	uint64_t cells, bytes; /* equal cells of the first table */
	struct tfs_bytes from, to;
};

struct ranges;
/* Borrows all pointers. */
int ranges_new(const struct ranges_options *o, struct ranges **out) TFS_MUST;
/*
 * Returns 1 and the next part, whose bytes are valid until the next call; 0 at the end; -errno of a scan.  The parts are in the
 * order of rows, and have all rows.
 */
int ranges_next(struct ranges *r, struct ranges_part *out) TFS_MUST;
/* The table whose scan has returned the error: 0 or 1. */
unsigned ranges_failed(const struct ranges *r);
void ranges_free(struct ranges *r); /* NULL allowed */

#endif
