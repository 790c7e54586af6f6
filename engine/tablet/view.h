/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view: the list of memtables and SSTables that a reader of a tablet reads.
 *
 * A view is counted and immutable once published; a flush, a compaction or a
 * fresh memtable publishes a new one.  Readers take the view first and the
 * tablet's published sequence second.  Entries up to that sequence are in a
 * memtable of this view or of a later one, and compactions in this view have
 * only dropped entries that no such reader can see.
 */
#ifndef TFS_TABLET_VIEW_H
#define TFS_TABLET_VIEW_H

#include <errno.h>

#include "engine/cell/cellkey.h"
#include "engine/cell/memtable.h"
#include "engine/tablet/tablet.h"
#include "engine/tablet/usage.h"

enum { VIEW_MEMS = 8 }; /* the active memtable and those being flushed */

/* A memtable, with counts for readers and for the flush. */
struct vmem {
	_Atomic uint32_t refs;
	struct memtable *m;
	_Atomic uint64_t row_deletes, family_deletes; /* entries; raised before the insert */
	_Atomic uint64_t tombstones, column_deletes;
	_Atomic size_t *memory_used; /* the sum that includes `accounted` */
	size_t accounted, fresh;     /* under the tablet's lock; fresh: of an empty one */
	uint64_t seq_max;            /* under the tablet's lock */
	_Atomic size_t *frozen_sum;  /* the sum that includes `frozen`; NULL: not frozen */
	size_t frozen;
	_Atomic uint32_t tablets; /* that have not flushed it yet: 1, or more after a split */
	struct mem_usage usage;   /* counted under the tablet's lock */
	_Atomic bool shared;      /* since a split: it has rows of several tablets and is not written to */
};
int vmem_new(_Atomic size_t *memory_used, struct vmem **out) TFS_MUST;
struct vmem *vmem_get(struct vmem *m);
void vmem_put(struct vmem *m);
/* One tablet has flushed it.  After the last one its memory no longer slows writers down, although readers may still use it. */
void vmem_flushed(struct vmem *m);
/* Raises the accounted memory of m after inserts; the caller holds the tablet's lock.  Returns the bytes accounted for m. */
size_t vmem_account(struct vmem *m);
/* No more is written to it: adds its memory to *sum.  The caller holds the tablet's lock. */
void vmem_freeze(struct vmem *m, _Atomic size_t *sum);

/* A file of the list. */
struct vfile {
	_Atomic uint32_t refs;
	struct tablet_file meta;
	struct sst *sst;
	struct buf from, to;              /* encoded bounds within which the tablet uses the file; to.n 0: no end */
	bool clip;                        /* it has rows outside of them */
	struct buf first, after;          /* encoded: at or below its first key; above its last one */
	bool owned;                       /* no other tablet can use it: unlinked after it was compacted */
	bool busy;                        /* under the tablet's lock: it is input of a compaction */
	struct file_usage *_Atomic usage; /* made on first use */
	/* Monotonic: until then background compactions do not read it, because one failed to.  UINT64_MAX: it is damaged. */
	_Atomic uint64_t excluded_until_us;
	/* 1 + the generation of the schema under which a compaction read it and found nothing to drop; 0: none. */
	_Atomic uint64_t checked_generation;
	/* The rules and the time at which its newest data was frozen; NULL: unknown (loaded from METADATA). */
	struct store_schema *schema;
	int64_t freeze_us;
};
/* Does no I/O; copies meta. */
int vfile_new(
	const struct tablet_env *env, uint32_t table, const struct tablet_file *meta, bool in_memory, struct vfile **out) TFS_MUST;
void vfile_put(struct vfile *f);

struct file_set {
	struct vfile **v;
	unsigned n;
};
int file_set_add(struct file_set *s, struct vfile *f) TFS_MUST; /* takes a reference */
void file_set_put(struct file_set *s);                          /* drops the references */

struct view {
	_Atomic uint32_t refs;
	unsigned mem_count, file_count, file_cap;
	bool mixed;                                 /* the files are of more than one group */
	struct vmem *mems[VIEW_MEMS];               /* newest first; [0] is being written */
	struct mem_usage *_Atomic parts[VIEW_MEMS]; /* of shared memtables, the tablet's part; made on first use */
	struct vfile *files[];                      /* by seq_max, newest first */
};
/* An empty view with space for so many files.  NULL: out of memory. */
struct view *view_new(unsigned files);
/* A view with v's files except `without`, and with `with`; no memtables.  NULL: out of memory. */
struct view *view_change(const struct view *v, const struct file_set *without, const struct file_set *with);
/* Appends v's memtables to n's, except the `count` in `without`. */
void view_take_mems(struct view *n, const struct view *v, struct vmem *const *without, unsigned count);
struct view *view_get(struct view *v);
void view_put(struct view *v);
/* The largest number of files of one group that wait for a merge.  The caller holds the tablet's lock. */
unsigned view_debt(const struct view *v);
/* Adds a reference to f at its place by age; there must be space. */
void view_add_file(struct view *v, struct vfile *f);

/* Returns true if no row of the file is in the tablet (after a split): it is never opened. */
bool vfile_empty(const struct vfile *f);
/* An iterator over the tablet's part of f; make: sst_iter_new, sst_walk_new or sst_scan_new. */
typedef int vfile_iter_fn(struct sst *s, struct iter **out);
int vfile_iter(struct vfile *f, vfile_iter_fn *make, int *skipped, struct iter **out) TFS_MUST; /* skipped: as of view_iter */
bool vfile_excluded(const struct vfile *f);
/* Returns true for errors of the file, false for those of the reader. */
static inline bool is_damage(int err)
{
	return err == -EBADMSG || err == -EIO;
}
/* An iterator that skips blocks of sst that cannot be read; *skipped is then the error.  Takes the child (also on failure); borrows the rest. */
int skip_damage_iter_new(struct iter *child, struct sst *sst, int *skipped, struct iter **out) TFS_MUST;
/*
 * One merged iterator over the sources of the view that may have rows in
 * [from, to) (encoded bounds; to.n 0: no end) and entries of the families
 * (NULL: all).  row_probe.n: files whose filter excludes this probe are not
 * read.  skipped: NULL, or unreadable blocks are skipped and *skipped is the
 * error.
 */
int view_iter(struct view *v, const uint16_t *families, unsigned family_count, struct slice from, struct slice to,
	struct slice row_probe, int *skipped, struct iter **out) TFS_MUST;

#endif
