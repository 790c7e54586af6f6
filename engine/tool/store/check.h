/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `tabletctl check`. */
#ifndef TFS_TOOL_CHECK_H
#define TFS_TOOL_CHECK_H

#include "engine/tool/store/offline.h"

struct check {
	struct report r;
	struct offline store;
	bool data; /* false: SSTables are not read */
	uint64_t tablets, files, file_bytes, cells, records;
};

/* Each returns 0 also if it reported damage, or -errno, which ends the check. */

/* ---- check_sst.c ---- */
/* Checks one SSTable, and compares it with its entry in METADATA. */
int check_sst(struct check *c, const struct tablet_file *f, const char *path) TFS_MUST;
/* Checks the salt byte of a stored row.  Reports the first wrong byte of each table.  t may be NULL. */
void check_salt_of(struct check *c, struct offline_table *t, struct tfs_bytes row);
/* ---- check_log.c ---- */
/* Checks every log.  A log that redo sets name is checked from its least redo point on, any other log as a whole. */
int check_logs(struct check *c) TFS_MUST;

#endif
