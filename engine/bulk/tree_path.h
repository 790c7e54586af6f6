/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of cells below the directory of their table: ROW/FAMILY/NAME, where
 * row and name may be several components (engine/base/name.h).
 * Pure functions; threads: any.
 */
#ifndef TFS_BULK_TREE_PATH_H
#define TFS_BULK_TREE_PATH_H

#include "engine/base/bytes.h"

struct tree_path {
	struct buf row, qualifier;
	struct tfs_bytes family; /* borrowed from the path */
	bool plain;              /* the name has no timestamp */
	int64_t ts;
};

/* Parses a canonical path without a leading "./".  Returns NULL, the reason why the path is not one, or "" if out of memory.  out: {0}, or used before. */
const char *tree_path_parse(struct tfs_bytes path, struct tree_path *out) TFS_MUST;
void tree_path_fini(struct tree_path *p);
/* Appends the path of a version.  Sets *row_end to the index in out of the '/' after the row. */
int tree_path_append(struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, int64_t ts, struct buf *out,
	size_t *row_end) TFS_MUST;

#endif
