/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet: the rows [begin, end) of one table, as one memtable being
 * written, memtables being flushed, and SSTables per locality group (paper,
 * section 5.3).
 *
 * The commit callback stores the tablet's file list: it writes each change to
 * METADATA durably before it returns.
 *
 * Threads: any, except tablet_new and tablet_free.  Reads take no lock that is
 * held during a write, a compaction or an fsync.  They take a reference to the
 * current view (memtables and files), and then the published sequence.
 */
#ifndef TFS_TABLET_H
#define TFS_TABLET_H

#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/sstable/sstable.h"
#include "engine/cell/gc.h"
#include "engine/log/log.h"
#include "engine/cell/op.h"

/* ---- the part of a table's schema that tablets use; immutable, counted ---- */
struct store_family {
	uint16_t id, group;
	char *name; /* owned by the store_schema; NULL: has none */
	bool counter;
	struct gc_rule *rule; /* owned by the store_schema */
};
struct store_group {
	uint16_t id;
	struct sst_options sst;
};
struct store_schema {
	uint32_t refs; /* atomic */
	uint64_t generation;
	uint64_t tablet_bytes;         /* a larger tablet is split; 0: never */
	uint32_t salt;                 /* of the row keys; tablets ignore it */
	struct store_family *families; /* in id order */
	unsigned family_count;
	struct store_group *groups; /* in id order; the first is the default */
	unsigned group_count;
};
struct store_schema *store_schema_get(struct store_schema *s);
void store_schema_put(struct store_schema *s);
const struct store_family *store_schema_family(
	const struct store_schema *s, uint16_t id); /* NULL: the family was dropped, its cells do not exist */
const struct store_group *store_schema_group(const struct store_schema *s, uint16_t id); /* unknown: the default group */

/* ---- an SSTable in a tablet's file list (a METADATA column) ---- */
struct tablet_file {
	uint64_t incarnation, number; /* sst/<table>/<incarnation>-<number>.sst */
	uint32_t table;               /* of the directory: a split child or snapshot uses its parent's */
	uint16_t group;
	uint64_t bytes, raw_bytes, cells, tombstones;
	uint64_t row_deletes, family_deletes;
	uint64_t seq_min, seq_max;    /* age: runs are ordered by seq_max */
	int64_t oldest_us, newest_us; /* cell timestamps in it; oldest > newest: none */
	struct buf begin, end;        /* the tablet uses the file for these rows; end.p NULL: no end */
	struct buf first, last;       /* first and last row in the file */
};
void tablet_file_fini(struct tablet_file *f);
int tablet_file_copy(struct tablet_file *to, const struct tablet_file *from) TFS_MUST;
/* Copies the end of a range of rows to an empty buf.  An empty end is a row, too; only p NULL means no end. */
int tablet_end_copy(struct buf *to, struct slice end) TFS_MUST;

/* Where recovery must begin in each log that may have records of this tablet. */
struct redo_point {
	uint64_t incarnation, lsn;
};

/* One atomic, durable change of a tablet's METADATA row. */
struct tablet_edit {
	const struct tablet_file *added;
	unsigned added_count;
	const struct tablet_file *removed; /* incarnation, number, group count */
	unsigned removed_count;
	bool set_redo; /* replaces the whole set */
	const struct redo_point *redo;
	unsigned redo_count;
	uint64_t seq_mark;  /* 0: unchanged.  All sequence numbers used in files are <= it */
	int64_t clock_mark; /* 0: unchanged */
	int64_t major_us;   /* 0: unchanged; time of the last major compaction */
	const char *event;  /* one line for the tablet's event log */
};

struct tablet;
/* On 0 the edit is durable.  After an error it may have been written: the tablet repeats it. */
typedef int tablet_commit_fn(void *arg, struct tablet *t, const struct tablet_edit *e);

/* Uses of the disk.  On a full disk the last of them stops first (server/space.c). */
enum disk_use {
	DISK_METADATA, /* records and files of METADATA and of the root tablet; the lock service */
	DISK_FREES,    /* minor compactions, which free the log; compactions that free more than they take */
	DISK_REMOVE,   /* log records that only remove */
	DISK_PUT,      /* other log records; major compactions that free nothing */
	DISK_MERGE     /* merging compactions, and major ones that can wait */
};

/* ---- shared by the tablets of one server ---- */
struct tablet_compactor;
struct tablet_env {
	const struct tablet_compactor *compactor; /* compact_functions (engine/compact/compact.h) */
	const char *data_dir;
	uint64_t incarnation;
	_Atomic uint64_t next_file; /* file numbers of this incarnation */
	struct sst_cache *cache;
	struct log *log;
	struct clock *clock;
	struct task_pool *flush_pool; /* minor compactions of this kind of tablet (root, METADATA, user: one pool each) */
	struct task_pool *compact_pool;
	size_t memtable_bytes; /* all memtables of the tablets that share memory_used */
	_Atomic size_t *memory_used;
	uint64_t major_within_us; /* removed cells are off the disk within this time */
	uint64_t look_us;      /* interval of checks whether a major compaction is due; 0: major_within_us / 16, an hour at most */
	uint64_t scan_view_us; /* longest time that a scan uses a view; 0: 10 s */
	uint64_t sample_least_bytes; /* compactions of fewer raw bytes take no samples; 0: 8 MiB */
	uint64_t compaction_rate;    /* bytes a second that merging and major compactions in the background may write; 0: any */
	bool unthrottled;            /* root and METADATA: writers are not slowed down */
	bool no_background;
	/* Called, holding no lock, when memory_used passes the bound: the server flushes the largest. */
	void (*over_memory)(void *arg);
	/* Called, holding no lock, before a compaction writes about so many bytes.  Returns true if it may.  NULL: it may if the disk has the space. */
	bool (*space)(void *arg, enum disk_use use, uint64_t bytes);
	const _Atomic bool *disk_full; /* puts are refused; NULL: they never are */
	/*
	 * Returns how many tablets list f; UINT_MAX: unknown.  After an edit a file
	 * that no tablet lists is unlinked after its last reader.  NULL: only files
	 * that lie wholly in the tablet's rows are.
	 */
	unsigned (*listed)(void *arg, const struct tablet_file *f);
	/* Called after a compaction, holding no lock: the tablet may have grown past its size, or shrunk. */
	void (*changed)(void *arg, struct tablet *t);
	/* Called after an edit moved the redo point: log segments may be removed. */
	void (*redo_moved)(void *arg);
	void *arg;
	/* Counters for status and metrics. */
	_Atomic uint64_t minor, merging, major, bytes_flushed, bytes_compacted_in, bytes_compacted_out, stalls, stall_us;
	_Atomic uint64_t move_waits, move_wait_us, move_wait_longest_us; /* of writers, for a split or merge of their tablet */
	_Atomic uint64_t paced_us;     /* monotonic: until then the bytes that compactions wrote use up the rate */
	_Atomic uint64_t slowed_us;    /* monotonic: when a writer was last slowed down */
	_Atomic uint64_t turn_us;      /* monotonic: until then the bytes that writers above the bound wrote use up their rate */
	_Atomic bool major_under_way;  /* in the background: one at a time, the other workers are for merges */
	_Atomic int flush_error;       /* of the last minor compaction of any tablet; 0: it worked */
	_Atomic size_t flushing_bytes; /* of memory_used: memtables being flushed */
};

struct tablet_params {
	struct tablet_env *env;
	uint32_t table;
	struct slice begin, end;     /* end.p NULL: no end.  Copied */
	struct store_schema *schema; /* a reference is taken */
	const struct tablet_file *files;
	unsigned file_count; /* copied */
	const struct redo_point *redo;
	unsigned redo_count;
	uint64_t seq_mark;
	int64_t clock_mark, major_us;
	int rank_edit; /* RANK_TABLET_EDIT_* */
	tablet_commit_fn *commit;
	void *commit_arg;
};

/* Does no I/O. */
int tablet_new(const struct tablet_params *p, struct tablet **out) TFS_MUST;
/* Stops background work, waits for calls under way; unflushed data stays in the log. */
void tablet_free(struct tablet *t);
/*
 * Recovery, before the first mutation: applies records of one stretch of an
 * earlier incarnation's log, in any order (fastest in that of log_sort.h).  The
 * next call's records are of a later stretch.  Records below the redo point of
 * `incarnation` are ignored.  -EBADMSG: the batch of record *bad_lsn is
 * damaged; -ENOMEM.
 */
int tablet_replay(struct tablet *t, uint64_t incarnation, const struct log_record *const *v, size_t n, uint64_t *bad_lsn) TFS_MUST;
/*
 * Recovery is over: tablet_replay has received every record of earlier
 * incarnations.  The first mutation, tablet_flush and tablet_compact call this,
 * too.  From then on a minor compaction drops the redo points of earlier
 * incarnations, and a major one drops tombstones.  Until then no background
 * work runs.
 */
void tablet_replay_done(struct tablet *t);
void tablet_set_schema(struct tablet *t, struct store_schema *s);
/* The background checks now whether the tablet needs a merging or major compaction. */
void tablet_want_merge(struct tablet *t);
struct slice tablet_begin(const struct tablet *t);
struct slice tablet_end(const struct tablet *t);
/*
 * Applies one row mutation (tablet_write.c has the steps).  On 0 it is in the
 * log (sync: on the disk) and visible.
 * results: as many as ops.
 * -EREMCHG: not a row of this tablet, or other tablets have replaced it.
 * -ESTALE: another server has the tablet.  -ESHUTDOWN: it is being closed.
 * -ENOSPC and other errors of a flush: memory is full and flushing fails.
 */
int tablet_mutate(struct tablet *t, struct slice row, const struct op *ops, unsigned count, struct op_token token, bool sync,
	struct op_result *results) TFS_MUST;

struct cell_info {
	int64_t ts, expires_us;
	uint64_t size;
	int64_t commit_us;
};
/* Point read; n 0 and p NULL: stat only.  -ENOENT. */
int tablet_read(struct tablet *t, struct slice row, uint16_t family, struct slice qualifier, struct op_time ts, uint64_t offset,
	void *p, size_t n, size_t *got, struct cell_info *info) TFS_MUST;
/* family 0: any.  Sets *exists also if the row may be in an unreadable block. */
int tablet_row_exists(struct tablet *t, struct slice row, uint16_t family, bool *exists) TFS_MUST;

/*
 * A scan within the tablet.  Every row is as of one instant; at a row boundary
 * a view older than 10 s is replaced by a new one.
 */
struct tablet_scan;
int tablet_scan_new(struct tablet *t, const struct scan_spec *spec, struct tablet_scan **out) TFS_MUST; /* copies the spec */
int tablet_scan_fill(struct tablet_scan *s, struct scan_batch *b) TFS_MUST;                             /* resets b */
/* After the last batch: returns true if the scan ended because other tablets have replaced this one.  It continues at *row (valid until tablet_scan_free). */
bool tablet_scan_moved(const struct tablet_scan *s, struct slice *row);
void tablet_scan_free(struct tablet_scan *s);

/*
 * ---- splitting and merging: engine/tablet/tablet_split.c has the order ----
 * A row at which to split, so that both sides have rows and about half of the
 * files' bytes.  -ENOENT: there is none (a single row, or a part of a single
 * block).
 */
int tablet_split_key(struct tablet *t, struct buf *row) TFS_MUST;
/*
 * Around a split or merge: after 0, until tablet_move_done, no merging or major
 * compaction is under way.  Waits for one that a user asked for, so the caller
 * must not block other work.  -ESTALE, -ESHUTDOWN, -EREMCHG as tablet_mutate.
 */
int tablet_move_prepare(struct tablet *t) TFS_MUST;
void tablet_move_done(struct tablet *t);
/* After 0, until tablet_split_end, the list of files does not change and the calling thread has EDIT.  -ESTALE, -ESHUTDOWN, -EREMCHG as tablet_mutate. */
int tablet_split_begin(struct tablet *t) TFS_MUST;
/* child: made by tablet_new from its METADATA row, not used yet. */
int tablet_split_adopt(struct tablet *parent, struct tablet *child) TFS_MUST;
/* Waits for the writers under way; new ones wait for tablet_split_end. */
void tablet_split_drain(struct tablet *t);
void tablet_split_inherit(struct tablet *parent, struct tablet *child);
/* done: other tablets have replaced this one, its callers get -EREMCHG; else it continues as before. */
void tablet_split_end(struct tablet *t, bool done);
/* For a merge: until tablet_merge_end no flush is under way, and little is unflushed. */
int tablet_merge_begin(struct tablet *t) TFS_MUST;
/*
 * Then: all is flushed, the redo set is empty, writers wait, and the METADATA
 * row does not change.  -EBUSY: not possible now.  Also after an error
 * tablet_merge_end.
 */
int tablet_merge_stop(struct tablet *t) TFS_MUST;
/*
 * Replaces tablet_merge_begin and tablet_merge_stop for a tablet whose merge had
 * an unknown outcome and whose edits have all failed since.  Writers wait.  Files
 * that were written meanwhile are in no METADATA row, so file collection removes
 * them.
 */
int tablet_merge_again(struct tablet *t) TFS_MUST;
void tablet_merge_end(struct tablet *t, bool done); /* done: as of tablet_split_end */
/* Copies a parent's state of files (excluded, freeze) that the child has, too. */
void tablet_inherit_files(struct tablet *parent, struct tablet *child);
/* Starts the child's background work. */
void tablet_split_start(struct tablet *child);
/* Drops files that contain no row of this tablet. */
int tablet_split_tidy(struct tablet *t, const char *event) TFS_MUST;

struct tablet_stats {
	uint64_t disk_bytes, raw_bytes, memory_bytes, cells, tombstones, seq;
	unsigned files, memtables;
	const char *state;
};
/* A file that the tablet uses in part counts in part.  cells and tombstones: entries, masked ones included. */
void tablet_get_stats(struct tablet *t, struct tablet_stats *s);
/* The families that have entries, in id order, also dropped ones that are not collected yet; id 0: row deletes. */
struct tablet_family {
	uint16_t id;
	unsigned files;
	uint64_t disk_bytes, raw_bytes, memory_bytes, cells, tombstones;
};
int tablet_families(struct tablet *t, struct tablet_family **out, unsigned *count) TFS_MUST; /* free it */
int tablet_family_stats(struct tablet *t, uint16_t family, struct tablet_stats *s) TFS_MUST; /* of one of them */
/* The smallest LSN of env's own incarnation that this tablet still needs; UINT64_MAX: none. */
uint64_t tablet_redo_lsn(struct tablet *t, uint64_t incarnation);
/* Copies of the list as of now. */
int tablet_files(struct tablet *t, struct tablet_file **files, unsigned *count) TFS_MUST; /* fini each, free the array */

/* data_dir/sst/<table>/<incarnation>-<number>.sst ; free it */
char *tablet_file_path(const char *data_dir, uint32_t table, uint64_t incarnation, uint64_t number);

#endif
