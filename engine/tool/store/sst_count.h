/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of an SSTable's keys, made as a compaction makes the file's properties (check_sst.c). */
#ifndef TFS_TOOL_SST_COUNT_H
#define TFS_TOOL_SST_COUNT_H

#include "engine/cell/cellkey.h"
#include "engine/tablet/props_format.h"

struct sst_count {
	struct props p;    /* the caller sets group before the first key, and table */
	int64_t commit_us; /* the latest time of commit so far, or INT64_MIN */
	struct cellkey k;  /* the last key, decoded; borrows from that key and from scratch */
	bool any, new_row, new_column;
	struct buf column, scratch;
	size_t row_bytes;
};
void sst_count_init(struct sst_count *n);
void sst_count_fini(struct sst_count *n);
/* Decodes the next key in order, and counts it.  In a file of changes, k.row is the row of the change.  -EBADMSG: not such a key. */
int sst_count_add(struct sst_count *n, struct tfs_bytes key, uint64_t value_bytes) TFS_MUST;
/* Writes the tags of the last key's filter probes, as a string.  again: also the probes of its row and column. */
void sst_count_probes(const struct sst_count *n, bool again, char tags[5]);

#endif
