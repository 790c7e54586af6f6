/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view: the list of memtables and SSTables that a reader of a tablet reads.
 *
 * A view is reference-counted, and immutable once published.  A flush, a
 * compaction and a fresh memtable each publish a new view.
 *
 * A reader takes the view first and the tablet's published sequence second.
 * So the compactions that wrote this view's files dropped no entry that the
 * reader may see.  In the reverse order, a compaction in between could drop a version
 * that a later write has replaced, and the reader would see neither.  A write between the
 * two may be in a memtable of a later view; the reader does not see it.
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
	struct memtable *_Atomic changes; /* of its cells (change_format.h); NULL: none */
	/* Numbers of entries; raised before the insert. */
	_Atomic uint64_t row_deletes, family_deletes, column_deletes;
	_Atomic uint64_t tombstones; /* deletes of columns and of versions */
	_Atomic int64_t oldest_us;   /* smallest cell timestamp; lowered before the insert */
	_Atomic size_t *memory_used; /* the sum that includes `accounted` */
	/*
	 * Bytes, under the tablet's lock.  fresh: its size when it was empty, which is
	 * not accounted, because a flush does not free it.
	 */
	size_t accounted, fresh;
	uint64_t seq_max;           /* under the tablet's lock */
	_Atomic size_t *frozen_sum; /* the sum that includes `frozen`; NULL: not frozen */
	size_t frozen;              /* bytes */
	_Atomic uint32_t tablets;   /* the number of tablets that have not flushed it yet; more than 1 only after a split */
	struct mem_usage usage;     /* counted under the tablet's lock */
	_Atomic bool shared;        /* set by a split: it has rows of several tablets, and no thread writes to it */
};
int vmem_new(_Atomic size_t *memory_used, struct vmem **out) TFS_MUST;
struct vmem *vmem_get(struct vmem *m);
void vmem_put(struct vmem *m);
/*
 * Called when one tablet has flushed m.  After the last tablet has flushed it,
 * the memory of m is no longer accounted, so it does not slow writers down.
 * Readers may still use m.
 */
void vmem_flushed(struct vmem *m);
/* Raises the accounted memory of m after inserts.  Returns the accounted bytes of m.  The caller holds the tablet's lock. */
size_t vmem_account(struct vmem *m);
/* Called when m receives no more writes.  Adds its memory to *sum.  The caller holds the tablet's lock. */
void vmem_freeze(struct vmem *m, _Atomic size_t *sum);

/* A file of the list. */
struct vfile {
	_Atomic uint32_t refs;
	struct tablet_file meta;
	struct sst *sst;
	struct buf from, to;              /* if clip is set, encoded bounds of the tablet's rows; to.n is 0 if there is no end */
	bool clip;                        /* the file has rows of other tablets */
	struct buf first, after;          /* encoded: at or below the first key of the tablet's rows, and above the last */
	bool busy;                        /* under the tablet's lock: it is input of a compaction */
	struct file_usage *_Atomic usage; /* read on first use */
	_Atomic unsigned codec;           /* 1 + the codec of its blocks; 0: not read yet (vfile_codec) */
	/*
	 * Monotonic.  A background compaction failed to read the file, so later compactions
	 * skip it until this time.  UINT64_MAX: damaged.
	 */
	_Atomic uint64_t excluded_until_us;
	/*
	 * 1 + the generation of the schema under which a compaction read the
	 * file and found nothing to drop; 0: none.
	 */
	_Atomic uint64_t checked_generation;
	/*
	 * The schema and the time at the freeze of its newest data.  schema
	 * NULL: unknown, because it was loaded from METADATA.
	 */
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
	unsigned mem_count, file_count, change_count;
	bool mixed;                                 /* the files belong to more than one group */
	struct vmem *mems[VIEW_MEMS];               /* newest first; [0] is being written */
	struct mem_usage *_Atomic parts[VIEW_MEMS]; /* usage of the tablet's rows in a shared memtable; counted on first use */
	struct vfile
		*files[]; /* file_count of them by seq_max, newest first; then change_count that have changes, in the same order */
};
static inline unsigned view_all_files(const struct view *v)
{
	return v->file_count + v->change_count;
}
/* Makes an empty view with space for this many files.  NULL: out of memory. */
struct view *view_new(unsigned files);
/* Makes a view with v's files, except `without`, plus `with`, and no memtables.  NULL: out of memory. */
struct view *view_change(const struct view *v, const struct file_set *without, const struct file_set *with);
/* Appends v's memtables to n's memtables, except the `count` memtables in `without`. */
void view_take_mems(struct view *n, const struct view *v, struct vmem *const *without, unsigned count);
struct view *view_get(struct view *v);
void view_put(struct view *v);
/* The largest number of files of one group that wait for a merge.  The caller holds the tablet's lock. */
unsigned view_debt(const struct view *v);
/* Adds a reference to f, in the order of seq_max.  The view must have space for it. */
void view_add_file(struct view *v, struct vfile *f);

/* Returns true if no row of the file is in the tablet, as after a split.  Such a file is never opened. */
bool vfile_empty(const struct vfile *f);
/*
 * Makes an iterator over the tablet's part of f.  make is sst_iter_new, sst_walk_new or
 * sst_scan_new.  sst_walk_new has a limit, about how many cells will be read, or 0 for
 * all.  skipped is as in view_iter.
 */
typedef int vfile_iter_fn(struct sst *s, struct iter **out);
int vfile_iter(struct vfile *f, vfile_iter_fn *make, uint64_t limit, int *skipped, struct iter **out) TFS_MUST;
bool vfile_excluded(const struct vfile *f); /* returns true until excluded_until_us */
/* Returns true if err means that the file cannot be read; false for other errors, for example -ENOMEM. */
static inline bool is_damage(int err)
{
	return err == -EBADMSG || err == -EIO;
}
/*
 * Makes an iterator that skips the unreadable blocks of sst.  Each time it
 * stores the error in *skipped.  It owns the child, which is freed also on
 * failure.  sst and skipped must outlive it.
 */
int skip_damage_iter_new(struct iter *child, struct sst *sst, int *skipped, struct iter **out) TFS_MUST;
/*
 * Makes one merged iterator over the memtables of the view and over the files
 * that may have rows in [from, to) and entries of the families.  from, to:
 * encoded bounds; to.n 0: no end.  families NULL: all.  row_probe.n > 0: files
 * whose filter excludes this probe are not read.  If skipped is not NULL,
 * unreadable blocks are skipped, and *skipped is set to the error.  times:
 * files that have only cells outside of these times, and no deletes, are not
 * read. limit: as in vfile_iter.
 */
struct view_times {
	int64_t since, until; /* timestamps in [since, until); INT64_MIN and INT64_MAX mean no bound */
	int64_t changed;      /* times of commit from this time on; INT64_MIN means no bound */
	bool counts;          /* versions are counted, so a later version can hide earlier versions of its column */
};
int view_iter(struct view *v, const struct view_times *times, const uint16_t *families, unsigned family_count,
	struct tfs_bytes from, struct tfs_bytes to, struct tfs_bytes row_probe, uint64_t limit, int *skipped,
	struct iter **out) TFS_MUST;

#endif
