/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of entries by family.  A memtable counts its entries when they are
 * inserted.  An SSTable has the counts in its properties.
 *
 * After a split a tablet may use only a part of a file.  Then it counts a share
 * of the file's entries, by the offsets of its rows in the file.  The shares of
 * all tablets add up to the whole.
 */
#ifndef TFS_TABLET_USAGE_H
#define TFS_TABLET_USAGE_H

#include <stdatomic.h>

#include "engine/tablet/props_format.h"

/* Entries of one family in one memtable.  One thread at a time may count.  Any thread may read. */
struct mem_family {
	uint16_t id; /* 0: row deletes */
	_Atomic uint64_t cells, tombstones, bytes;
	struct mem_family *_Atomic next;
};
struct mem_usage {
	struct mem_family *_Atomic of[16]; /* a hash table of lists, by family id */
};
/* Returns the family's counts, and adds them if they are new.  NULL: out of memory.  One thread at a time. */
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
/* The families of a file, from its properties, and the offsets of the tablet's part of the file. */
struct file_usage {
	uint64_t raw_bytes;
	_Atomic uint64_t from, to, whole; /* as in struct file_part; whole 0: not computed yet */
	unsigned count;
	struct props_family families[]; /* in id order; counts of the whole file */
};
/*
 * Called for a file that was just written, so that its properties need not be
 * read.  Does nothing if out of memory.
 */
void vfile_set_usage(struct vfile *f, const struct props *p);
/* Returns the file's usage, which lives as long as f.  Reads the properties on first use. */
int vfile_usage(struct vfile *f, struct file_usage **out) TFS_MUST;
/* The tablet's part of a file: the bytes [from, to) of `whole`. */
struct file_part {
	uint64_t from, to, whole;
};
/* Returns the part's share of x. */
uint64_t file_part_share(const struct file_part *p, uint64_t x);
/* Computes the tablet's part of f. u is the usage of f.  Opens a clipped file on first use. */
int vfile_part(struct vfile *f, struct file_usage *u, struct file_part *p) TFS_MUST;
/* Computes as vfile_part.  Returns the whole file if it cannot be read. */
struct file_part vfile_part_or_whole(struct vfile *f);

/*
 * Returns false if the file contains no entries of these families and no row
 * deletes.  Returns true if it may contain them, or if families is NULL.  So
 * reads of one locality group skip the files of all other groups.
 */
bool vfile_may_have_families(struct vfile *f, const uint16_t *families, unsigned n);
/* Estimates the tablet's share of the file's entries.  Opens a clipped file on first use. */
void vfile_entries(struct vfile *f, uint64_t *cells, uint64_t *tombstones);
/*
 * Returns true if the file contains families that were dropped or belong to
 * another group now; false if it cannot be read.
 */
bool vfile_misplaced(struct vfile *f, const struct store_schema *s);
/* Returns the codec with which the file was written (enum sst_codec), or -1 if it cannot be read.  Opens the file on first use. */
int vfile_codec(struct vfile *f);

#endif
