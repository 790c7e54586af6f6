/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader of a tablet reads: a list of memtables and SSTables that does
 * not change while he holds it.
 *
 * A view is counted and immutable once published; installing a flush, a
 * compaction or a fresh memtable publishes a new one.  Readers take the view
 * first and the tablet's published sequence second: whatever that sequence
 * covers was inserted into a memtable of this view or of a later one, and
 * compactions in this view have only dropped what no such reader could see.
 */
#ifndef TFS_STORE_VIEW_H
#define TFS_STORE_VIEW_H

#include <errno.h>

#include "engine/cell/cellkey.h"
#include "engine/cell/memtable.h"
#include "engine/tablet/tablet.h"
#include "engine/tablet/usage.h"

enum { VIEW_MEMS = 8 }; /* the active memtable and those being flushed */

/* A memtable with what readers and the flush want to know of it. */
struct vmem {
	_Atomic uint32_t refs;
	struct memtable *m;
	_Atomic uint64_t row_deletes, family_deletes; /* entries; raised before the insert */
	_Atomic uint64_t tombstones, column_deletes;
	_Atomic size_t *memory_used; /* what accounted was added to */
	size_t accounted, fresh;     /* under the tablet's lock; what an empty one holds */
	uint64_t seq_max;            /* under the tablet's lock */
	_Atomic size_t *frozen_sum;  /* what frozen was added to; NULL: not frozen */
	size_t frozen;
	_Atomic uint32_t tablets; /* that have yet to flush it: 1, or more once their parent was split */
	struct mem_usage usage;   /* counted under the tablet's lock */
	_Atomic bool shared;      /* since a split: not all of it is one tablet's; nothing is written to it any more */
};
int vmem_new(_Atomic size_t *memory_used, struct vmem **out) TFS_MUST;
struct vmem *vmem_get(struct vmem *m);
void vmem_put(struct vmem *m);
/* It holds more than a fresh one (and, the caller knows, not for any entry). The caller holds the tablet's lock. */
bool vmem_has_unused_memory(const struct vmem *m);
/* One tablet has flushed it.  With the last: what readers still pin no longer slows writers down, or an idle scan could stop them. */
void vmem_flushed(struct vmem *m);
/* Raises the accounted memory of m after inserts; the caller holds the tablet's lock.  Returns the bytes accounted for m. */
size_t vmem_account(struct vmem *m);
/* No more is written to it: what is accounted counts as on its way out from now on.  The caller holds the tablet's lock. */
void vmem_freeze(struct vmem *m, _Atomic size_t *sum);

/* A file of the list; immutable but for refs. */
struct vfile {
	_Atomic uint32_t refs;
	struct tablet_file meta;
	struct sst *sst;
	struct buf from, to;              /* encoded keys that the file may be used for; to.n 0: no end */
	bool clip;                        /* it holds rows beyond them */
	struct buf first, after;          /* encoded: at or below its first key; above its last one */
	bool owned;                       /* no other tablet can refer to it: unlinked when compacted away */
	bool busy;                        /* under the tablet's lock: a compaction has it as input */
	struct file_usage *_Atomic usage; /* made when first asked for */
	/* A compaction could not read it: until then (monotonic) none takes it, but a major one asked for.  UINT64_MAX: it is damaged. */
	_Atomic uint64_t excluded_until_us;
	_Atomic uint64_t
		looked; /* 1 + the generation of the schema under which it was looked through, and nothing in it was to go; 0: never */
	/* As of when, and under which rules, its newest data was frozen; NULL: not known (loaded from METADATA). */
	struct store_schema *schema;
	int64_t freeze_us;
};
/* Takes no I/O; copies meta. */
int vfile_new(
	const struct tablet_env *env, uint32_t table, const struct tablet_file *meta, bool in_memory, struct vfile **out) TFS_MUST;
struct vfile *vfile_get(struct vfile *f);
void vfile_put(struct vfile *f);

struct file_set {
	struct vfile **v;
	unsigned n;
};
int file_set_add(struct file_set *s, struct vfile *f) TFS_MUST; /* takes a reference */
bool file_set_has(const struct file_set *s, const struct vfile *f);
/* Lets the files go; doom: unlinks those that are ours alone. */
void file_set_put(struct file_set *s, bool doom);

struct view {
	_Atomic uint32_t refs;
	unsigned mem_count, file_count, file_cap;
	bool mixed;                                 /* the files are of more than one group: not each concerns each family */
	struct vmem *mems[VIEW_MEMS];               /* newest first; [0] is being written */
	struct mem_usage *_Atomic parts[VIEW_MEMS]; /* of those that are shared, what is the tablet's; made when first asked for */
	struct vfile *files[];                      /* by seq_max, newest first */
};
/* Empty, with room for `files` of them. NULL: out of memory. */
struct view *view_new(unsigned files);
/* v's files less `without`, and `with`; no memtables.  NULL: out of memory. */
struct view *view_change(const struct view *v, const struct file_set *without, const struct file_set *with);
/* v's memtables behind those that n has, but the `count` in `without`. */
void view_take_mems(struct view *n, const struct view *v, struct vmem *const *without, unsigned count);
struct view *view_get(struct view *v);
void view_put(struct view *v);
/* The most files of one group that wait for a merge.  The caller holds the tablet's lock. */
unsigned view_debt(const struct view *v);
/* Adds a reference to f in its place by age; there must be room. */
void view_add_file(struct view *v, struct vfile *f);

/* None of its rows are ours (it lies wholly in the other part of a split, whose file it now is): never opened. */
bool vfile_empty(const struct vfile *f);
/* An iterator over what the tablet may use of f; make: sst_iter_new, sst_walk_new or sst_scan_new. */
typedef int vfile_iter_fn(struct sst *s, struct iter **out);
int vfile_iter(struct vfile *f, vfile_iter_fn *make, int *passed, struct iter **out) TFS_MUST; /* passed: as of view_iter */
bool vfile_excluded(const struct vfile *f);
/* The errors of a file that cannot be read, rather than of the reader. */
static inline bool is_damage(int err)
{
	return err == -EBADMSG || err == -EIO;
}
/* An iterator that goes on behind blocks of sst that cannot be read; *passed is then why.  Takes the child (also on failure); borrows the rest. */
int skip_damage_iter_new(struct iter *child, struct sst *sst, int *passed, struct iter **out) TFS_MUST;
/* One merged iterator over the view; only sources that may hold rows in [from, to) (encoded bounds; to.n 0: no end)
 * and may concern the families (NULL: all).
 * row_probe.n: skip files whose filter says this probe is absent.  passed: NULL, or goes on behind what cannot be read, and says so there. */
int view_iter(struct view *v, const uint16_t *families, unsigned family_count, struct slice from, struct slice to,
	struct slice row_probe, int *passed, struct iter **out) TFS_MUST;

#endif
