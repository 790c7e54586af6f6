/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of entries by family: in each memtable as they are inserted, in each
 * SSTable from its properties.
 *
 * A file that the tablet uses in part (after a split) counts in part, by the
 * offsets of the tablet's range in it.  The parts of all tablets add up to the
 * whole.
 */
#ifndef TFS_TABLET_USAGE_H
#define TFS_TABLET_USAGE_H

#include <stdatomic.h>

#include "engine/tablet/props_format.h"

/* Entries of one family in one memtable.  One thread at a time counts, any may read. */
struct mem_family {
	uint16_t id; /* 0: row deletes */
	_Atomic uint64_t cells, tombstones, bytes;
	struct mem_family *_Atomic next;
};
struct mem_usage {
	struct mem_family *_Atomic of[16]; /* lists, by id */
};
/* Returns the family's counts, made if new; NULL: out of memory.  The caller serialises. */
struct mem_family *mem_usage_family(struct mem_usage *u, uint16_t id);
void mem_usage_fini(struct mem_usage *u);
void mem_usage_free(struct mem_usage *u); /* NULL is allowed */

uint64_t mem_usage_bytes(const struct mem_usage *u);
#define MEM_USAGE_EACH(f, u)                                                                                                       \
	for (unsigned k_ = 0; k_ < sizeof(u)->of / sizeof(u)->of[0]; k_++)                                                         \
		for (const struct mem_family *f = (u)->of[k_]; f; f = f->next)

/* Returns x * part / whole. */
static inline uint64_t usage_below(uint64_t x, uint64_t part, uint64_t whole)
{
	return part >= whole ? x : (uint64_t)((double)x * ((double)part / (double)whole));
}

struct vfile;
struct store_schema;
/* The families of a file, from its properties, and the tablet's part of the file once computed. */
struct file_usage {
	uint64_t raw_bytes;
	_Atomic uint64_t from, to, whole; /* bytes [from, to) of `whole`; whole 0: not computed yet */
	unsigned count;
	struct props_family families[]; /* by id; of the whole file */
};
/* For a file that was just written: saves reading its properties.  Does nothing if out of memory. */
void vfile_set_usage(struct vfile *f, const struct props *p);

int vfile_usage(struct vfile *f, struct file_usage **out) TFS_MUST;
/* The tablet's part of a file: from `from` to `to` of `whole`. */
struct file_part {
	uint64_t from, to, whole;
};
/* Returns the part's share of x. */
uint64_t file_part_share(const struct file_part *p, uint64_t x);
int vfile_part(struct vfile *f, struct file_usage *u, struct file_part *p) TFS_MUST;
struct file_part vfile_part_or_whole(struct vfile *f);

/*
 * Returns false if the file contains no entries of these families and no row
 * deletes; true if it may, or if families is NULL.  So one locality group is
 * read without the files of the others.
 */
bool vfile_may_have_families(struct vfile *f, const uint16_t *families, unsigned n);
/* Estimates the tablet's share of the file's entries.  Reads the index of a file used in part, the first time. */
void vfile_entries(struct vfile *f, uint64_t *cells, uint64_t *tombstones);
/* Returns true if the file contains families that are dropped or in another group now; false if it cannot be read. */
bool vfile_misplaced(struct vfile *f, const struct store_schema *s);

#endif
