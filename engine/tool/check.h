/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of `tabletctl check`. */
#ifndef TFS_TOOL_CHECK_H
#define TFS_TOOL_CHECK_H

#include "engine/tool/offline.h"

struct check {
	struct report r;
	struct offline store;
	bool data; /* read the SSTables too */
	uint64_t tablets, files, file_bytes, cells, records;
};

/* All of these: 0 also when damage was found (it is in the report); else the check cannot go on. */

/* ---- check_sst.c ---- */
/* One SSTable against what its tablet's row says of it. */
int check_sst(struct check *c, const struct tablet_file *f, const char *path) TFS_MUST;
/* ---- check_log.c ---- */
/* Every log: those that redo sets name from their least redo point, and what else lies there. */
int check_logs(struct check *c) TFS_MUST;
/* ---- check_salt.c ---- */
/* A row key that a file or a log has of the table (or NULL).  The first that is misplaced in a table is reported. */
void check_salt_of(struct check *c, struct offline_table *t, struct slice row);

#endif
