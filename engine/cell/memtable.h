/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memtable (paper, section 5.3): a skip list of cell keys and values, held in
 * an arena that starts small and grows.
 *
 * One memtable per tablet holds the cells of all locality groups; a minor
 * compaction writes one SSTable per group from it.  So a row mutation becomes
 * visible as a whole.
 *
 * Threads: any number of readers, which take no lock, and one inserter at a
 * time.  Several threads may call memtable_prepare at once.
 * Everything that can fail is in memtable_prepare, so that a record in the
 * log can always be inserted.
 */
#ifndef TFS_CELL_MEMTABLE_H
#define TFS_CELL_MEMTABLE_H

#include "engine/base/iter.h"

struct memtable;
struct memnode;
int memtable_new(struct memtable **out) TFS_MUST;
void memtable_put(struct memtable *m);
/* Copies key and value.  The node may be left unused (its memory is freed with the memtable). */
int memtable_prepare(struct memtable *m, struct tfs_bytes key, struct tfs_bytes value, struct memnode **out) TFS_MUST;
/*
 * The caller serialises inserts.  An equal key must not be there (sequence
 * numbers make keys unique).  near: the search is faster if the key is slightly
 * above the last inserted key.
 */
void memtable_insert(struct memtable *m, struct memnode *n, bool near);
size_t memtable_bytes(const struct memtable *m); /* memory held */
uint64_t memtable_count(const struct memtable *m);
/* Holds a reference on m. Sees at least all inserts that finished before the seek. */
int memtable_iter_new(struct memtable *m, struct iter **out) TFS_MUST;
/* An iterator in the caller's memory.  It holds no reference: m must outlive it.  iter_free is allowed and does nothing. */
struct mem_iter {
	struct iter it; /* first */
	struct memtable *m;
	struct memnode *at;
};
void memtable_iter_init(struct mem_iter *mi, struct memtable *m);

#endif
