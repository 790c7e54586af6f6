/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which values share a unit, for the writer of an SSTable.
 *
 * Threads: one.
 */
#ifndef TFS_SSTABLE_UNITS_H
#define TFS_SSTABLE_UNITS_H

#include "engine/sstable/blockfile.h"

/* Adds a key with its entry to the blocks of keys. */
typedef int units_entry_fn(void *arg, struct tfs_bytes key, struct tfs_bytes entry);

struct units {
	struct blockfile_writer *file;
	units_entry_fn *fn;
	void *arg;
	uint32_t target;      /* bytes of a unit */
	bool apart, versions; /* apart: there are units; versions: units are compressed against each other */
	bool training;        /* all units wait for the dictionary */
	struct buf raw,
		ended;  /* the bytes of the units that are not written, the open unit last; a struct ended for each ended unit */
	size_t open_at; /* where in raw the open unit begins */
	size_t open_counted;   /* how many of its bytes count for its size */
	bool open_again;       /* the open unit began with an older version */
	struct buf keys, held; /* keys whose unit is not written, and struct held of each */
	struct buf written;    /* struct blockfile_unit, from the first one that a held key needs */
	struct buf entry, stored_each;
};
void units_init(struct units *u, struct blockfile_writer *file, const struct sst_options *o, units_entry_fn *fn, void *arg);
void units_fini(struct units *u);
/* Adds an entry, as sst_writer_add_from does. */
int units_add(struct units *u, struct iter *it, bool again) TFS_MUST;
/* Writes the waiting units and keys. */
int units_finish(struct units *u) TFS_MUST;
/* Returns the number of bytes that wait. */
uint64_t units_waiting(const struct units *u);

#endif
