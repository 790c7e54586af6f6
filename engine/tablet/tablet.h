/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet: the rows [begin, end) of one table, as one memtable being
 * written, memtables being flushed, and SSTables per locality group (paper,
 * section 5.3).
 *
 * It does not know where its file list is kept: every change of it goes
 * through the commit callback, which writes METADATA durably and returns
 * only then (DESIGN 3.3, 6).
 *
 * Threads: any, but for new/close.  Reads take no lock that a write, a
 * compaction or an fsync holds: they take a counted reference to the current
 * view (memtables and files) and then the published sequence.
 */
#ifndef TFS_STORE_TABLET_H
#define TFS_STORE_TABLET_H

#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/sstable/sstable.h"
#include "engine/cell/gc.h"
#include "engine/log/log.h"
#include "engine/cell/op.h"

/* ---- what a tablet must know of its table's schema; immutable, counted ---- */
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
	uint64_t tablet_bytes;         /* past which a tablet is split; 0: never */
	uint32_t salt;                 /* of the row keys; the tablets themselves do not care */
	struct store_family *families; /* in id order */
	unsigned family_count;
	struct store_group *groups; /* in id order; the first is the default */
	unsigned group_count;
};
struct store_schema *store_schema_get(struct store_schema *s);
void store_schema_put(struct store_schema *s);
const struct store_family *store_schema_family(
	const struct store_schema *s, uint16_t id);                                      /* NULL: dropped, its cells do not exist */
const struct store_group *store_schema_group(const struct store_schema *s, uint16_t id); /* unknown: the default group */

/* ---- an SSTable as a tablet's file list has it (a METADATA column) ---- */
struct tablet_file {
	uint64_t incarnation, number; /* sst/<table>/<incarnation>-<number>.sst */
	uint32_t table;               /* of the directory: a split child or snapshot uses its parent's */
	uint16_t group;
	uint64_t bytes, raw_bytes, cells, tombstones;
	uint64_t row_deletes, family_deletes;
	uint64_t seq_min, seq_max;    /* age: runs are ordered by seq_max */
	int64_t oldest_us, newest_us; /* cell timestamps in it; oldest > newest: none */
	struct buf begin, end;        /* the rows for which this tablet may use it; end.p NULL: no end */
	struct buf first, last;       /* rows it really holds, inclusive */
};
void tablet_file_fini(struct tablet_file *f);
int tablet_file_copy(struct tablet_file *to, const struct tablet_file *from) TFS_MUST;

/* Where recovery must begin in each log that may hold this tablet's data. */
struct redo_point {
	uint64_t incarnation, lsn;
};

/* One durable change of a tablet's METADATA row; everything in it or nothing. */
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
/* Durable on 0.  On error nothing or (I/O errors) in doubt: the tablet then re-reads before its next change (params.reload). */
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
	uint64_t major_within_us; /* what was removed is off the disk within this */
	uint64_t look_us;      /* interval of checks whether a major compaction is due; 0: major_within_us / 16, an hour at most */
	uint64_t scan_view_us; /* how long a scan holds a view; 0: 10 s */
	uint64_t sample_least_bytes; /* compactions of fewer raw bytes take no samples; 0: 8 MiB */
	uint64_t compaction_rate;    /* bytes a second that merging and major compactions in the background may write; 0: any */
	bool unthrottled;            /* root and METADATA: pass by write slow-down */
	bool no_background;
	/* Called, holding no lock, when memory_used passes the bound: the server flushes the largest. */
	void (*over_memory)(void *arg);
	/* Called, holding no lock, before a compaction writes about so many bytes.  Returns true if it may.  NULL: it may if the disk has the space. */
	bool (*space)(void *arg, enum disk_use use, uint64_t bytes);
	const _Atomic bool *disk_full; /* puts are refused; NULL: they never are */
	/*
	 * How many tablets list f; UINT_MAX: not known.  One that none does, after
	 * an edit, is unlinked with its last reader.  NULL: only files that lie
	 * wholly in the tablet's rows are.
	 */
	unsigned (*listed)(void *arg, const struct tablet_file *f);
	/* Called after a compaction, holding no lock: the tablet may have grown past its size, or shrunk. */
	void (*changed)(void *arg, struct tablet *t);
	/* Called after an edit moved the redo point, so that log segments can go. */
	void (*redo_moved)(void *arg);
	void *arg;
	/* Counters for status and metrics. */
	_Atomic uint64_t minor, merging, major, bytes_flushed, bytes_compacted_in, bytes_compacted_out, stalls, stall_us;
	_Atomic uint64_t move_waits, move_wait_us, move_wait_longest_us; /* of writers, for a split or merge of their tablet */
	_Atomic uint64_t paced_us;                                       /* monotonic: what compactions wrote is paid for by then */
	_Atomic uint64_t slowed_us;                                      /* monotonic: a writer was slowed down last */
	_Atomic uint64_t turn_us;      /* monotonic: what writers above the bound wrote is paid for by then */
	_Atomic bool major_under_way;  /* in the background: one at a time, the other workers are for merges */
	_Atomic int flush_error;       /* of the last minor compaction of any tablet; 0: it worked */
	_Atomic size_t flushing_bytes; /* of memory_used: frozen memtables, on their way out */
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

/* No I/O beyond what it must. */
int tablet_new(const struct tablet_params *p, struct tablet **out) TFS_MUST;
/* Stops background work, waits for calls under way; unflushed data stays in the log. */
void tablet_free(struct tablet *t);
/*
 * Recovery, before the first mutate: applies records of one stretch of an
 * earlier incarnation's log.  They may come in any order, quickest in that of
 * log_sort.h; a later call's are of a later stretch.  Those below the redo
 * point of `incarnation` are passed over.  -EBADMSG: the batch of record
 * *bad_lsn is damaged; -ENOMEM.
 */
int tablet_replay(struct tablet *t, uint64_t incarnation, const struct log_record *const *v, size_t n, uint64_t *bad_lsn) TFS_MUST;
/*
 * Recovery is over: every record of earlier incarnations has been through
 * tablet_replay.  The first mutate says so too, and so do tablet_flush and
 * tablet_compact (not the background ones).  From then on a minor compaction
 * drops the redo points of earlier incarnations, and a major one tombstones.
 * Until then nothing runs in the background.
 */
void tablet_replay_done(struct tablet *t);
void tablet_set_schema(struct tablet *t, struct store_schema *s);
uint32_t tablet_table(const struct tablet *t);
struct slice tablet_begin(const struct tablet *t);
struct slice tablet_end(const struct tablet *t);
/* Seen by the commit callback and by METADATA writers. */
void *tablet_commit_arg(const struct tablet *t);

/*
 * Applies one row mutation (DESIGN 3.1, 3.3).  Steps: 1 lock the row's
 * stripe (read-modify-writes only keep it to the end), 2 resolve the
 * operations to cells, 3 under the tablet's lock allot sequences, prepare
 * memtable nodes, submit to the log, 4 wait for the log (and its sync), 5
 * insert, 6 publish in order, 7 answer.
 * results: as many as ops.
 * -EREMCHG: not a row of this tablet, or other tablets have taken its place.
 * -ESTALE: it is not ours any more.
 * -ESHUTDOWN: it is being closed.  -ENOSPC and the like from the background:
 * memory is full and flushing fails.
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
/* family 0: any.  What a damaged file should hold, and cannot show, is there. */
int tablet_row_exists(struct tablet *t, struct slice row, uint16_t family, bool *exists) TFS_MUST;

/*
 * A scan within the tablet.  Every row is as of one instant; the view is
 * taken anew at a row boundary once it is 10 s old.
 */
struct tablet_scan;
int tablet_scan_new(struct tablet *t, const struct scan_spec *spec, struct tablet_scan **out) TFS_MUST; /* copies the spec */
int tablet_scan_fill(struct tablet_scan *s, struct scan_batch *b) TFS_MUST;                             /* resets b */
/* After a batch that was the last: did the scan end because the tablet is gone?  Then *row (until the scan is freed) is where to go on. */
bool tablet_scan_moved(const struct tablet_scan *s, struct slice *row);
void tablet_scan_free(struct tablet_scan *s);

/*
 * ---- splitting and merging: engine/tablet/tablet_split.c has the order ----
 * A row at which to split, such that either side has about half of the
 * files' bytes, and a row.  -ENOENT: there is none (a single row, or a part
 * of a single block).
 */
int tablet_split_key(struct tablet *t, struct buf *row) TFS_MUST;
/*
 * Around a split or merge: from 0 on to tablet_move_done no merging or major
 * compaction is under way.  It waits for one that somebody asked for, so the
 * caller is to hold up nobody.  -ESTALE, -ESHUTDOWN, -EREMCHG as mutate.
 */
int tablet_move_prepare(struct tablet *t) TFS_MUST;
void tablet_move_done(struct tablet *t);
/* From 0 on to tablet_split_end the list of files stands still and the calling thread has EDIT.  -ESTALE, -ESHUTDOWN, -EREMCHG as mutate. */
int tablet_split_begin(struct tablet *t) TFS_MUST;
/* child: made by tablet_new from its METADATA row, known to nobody. */
int tablet_split_adopt(struct tablet *parent, struct tablet *child) TFS_MUST;
/* Writers under way end, new ones wait for tablet_split_end. */
void tablet_split_drain(struct tablet *t);
void tablet_split_inherit(struct tablet *parent, struct tablet *child);
/* done: the tablet is gone, its callers are answered -EREMCHG; else it goes on as before. */
void tablet_split_end(struct tablet *t, bool done);
/* For a merge: no flush is under way, to tablet_merge_end, and little is left to be flushed. */
int tablet_merge_begin(struct tablet *t) TFS_MUST;
/*
 * Then: all is flushed, the redo set is empty, writers wait.  What the
 * tablet's METADATA row says stands still.  -EBUSY: it cannot be brought to
 * that now; after an error, too, tablet_merge_end.
 */
int tablet_merge_stop(struct tablet *t) TFS_MUST;
/*
 * Instead of both, for a tablet that a merge in doubt left and whose edits
 * have all failed since: writers wait.  What was compacted meanwhile, and is
 * in no METADATA row, is the sweep's.
 */
int tablet_merge_again(struct tablet *t) TFS_MUST;
void tablet_merge_end(struct tablet *t, bool done); /* done: as of tablet_split_end */
/* What a parent knows of the files that the child has, too. */
void tablet_inherit_files(struct tablet *parent, struct tablet *child);
/* The child's background work may begin. */
void tablet_split_start(struct tablet *child);
/* Takes files off the list of which no row is the tablet's. */
int tablet_split_tidy(struct tablet *t, const char *event) TFS_MUST;

struct tablet_stats {
	uint64_t disk_bytes, raw_bytes, memory_bytes, cells, tombstones, seq;
	unsigned files, memtables;
	const char *state;
};
/* Of a file that the tablet uses in part, its part; cells and tombstones: entries stored, whatever masks them. */
void tablet_get_stats(struct tablet *t, struct tablet_stats *s);
/* The shares of the families that have any, dropped ones not yet collected included, in id order; 0: row deletes, which are no family's. */
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
