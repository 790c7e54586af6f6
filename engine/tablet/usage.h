/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tablet holds, counted as it comes: entries by family, in each
 * memtable as they are inserted, in each SSTable by its properties.
 *
 * A file that is used in part (after a split) counts in part: by where the
 * range begins and ends in it, so that the parts come to the whole.
 */
#ifndef TFS_STORE_USAGE_H
#define TFS_STORE_USAGE_H

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
/* The family's counts, made if need be; NULL: out of memory.  The caller serialises. */
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
/* What one file's properties say of its families; and, once asked for, which part of the file is the tablet's. */
struct file_usage {
	uint64_t raw_bytes;
	_Atomic uint64_t from, to, whole; /* [from, to) of so many bytes; whole 0: not known yet */
	unsigned count;
	struct props_family families[]; /* by id; of the whole file */
};
/* The file was just written, with these properties: saves reading them.  Best effort. */
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
 * May the file hold anything that counts in these families (NULL: in any): their entries, or deletes of rows?  In doubt
 * yes.  So what is stored in one locality group is read without the files of the others.
 */
bool vfile_concerns(struct vfile *f, const uint16_t *families, unsigned n);
/* What of the file's entries is the tablet's, about.  May read of one that is used in part; not quick the first time. */
void vfile_entries(struct vfile *f, uint64_t *cells, uint64_t *tombstones);
/* Does it hold families that are in another group now, or have gone?  In doubt no. */
bool vfile_misplaced(struct vfile *f, const struct store_schema *s);

#endif
