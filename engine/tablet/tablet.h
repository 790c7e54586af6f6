/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet: the rows [begin, end) of one table (paper, section 5.3).  It has
 * one memtable that is being written, memtables that are being flushed, and
 * SSTables of each locality group.
 *
 * The commit callback stores the tablet's file list.  It writes each change to
 * METADATA durably before it returns.
 *
 * Threads: any thread may call any function, but no call may begin after
 * tablet_free has begun.  Readers take no lock that is held during a write, a
 * compaction or an fsync.  A reader takes a reference to the current view
 * (memtables and files), and then reads the published sequence number.
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
	char *name; /* owned by the store_schema; may be NULL */
	bool counter;
	struct gc_rule *rule; /* owned by the store_schema */
};
/* The group of the files that have changes, and no cells.  No group of a schema has this id. */
#define TABLET_GROUP_CHANGES UINT16_MAX
struct store_group {
	uint16_t id;
	struct sst_options sst;
};
struct store_schema {
	uint32_t refs; /* atomic */
	uint64_t generation;
	uint64_t tablet_bytes;     /* a larger tablet is split; if it is 0, no tablet is split */
	uint32_t salt;             /* the salt of the row keys; tablets ignore it */
	int64_t changes_us;        /* changes are kept for so long; 0: they are not */
	bool keeps_data, readonly; /* mutations that delete, or all, are refused; tablets ignore it */
	uint64_t quota;            /* the server refuses puts of a larger table, unless it is 0; tablets ignore it */
	struct buf *splits; /* two tablets that meet at one of these rows are not merged automatically; tablets ignore them */
	unsigned split_count;
	struct store_family *families; /* in id order */
	unsigned family_count;
	struct store_group *groups; /* in id order; the first is the default */
	unsigned group_count;
};
struct store_schema *store_schema_get(struct store_schema *s);
void store_schema_put(struct store_schema *s);
const struct store_family *store_schema_family(
	const struct store_schema *s, uint16_t id); /* NULL if the family was dropped; then readers ignore its cells */
/* family_rules.rule (engine/cell/merge.h) of a struct store_schema. */
const struct gc_rule *store_schema_rule(const void *schema, uint16_t family, bool *known);
const struct store_group *store_schema_group(
	const struct store_schema *s, uint16_t id); /* returns the default group if the id is unknown */

/* ---- an SSTable in a tablet's file list (a METADATA column) ---- */
struct tablet_file {
	uint64_t incarnation, number; /* sst/<table>/<incarnation>-<number>.sst */
	uint32_t table;               /* the id of the table that wrote the file, also in a snapshot or clone */
	uint16_t group;
	uint64_t bytes, raw_bytes, cells, tombstones;
	uint64_t row_deletes, family_deletes;
	uint64_t seq_min, seq_max;    /* the sequence numbers of its entries.  The file with the larger seq_max is the newer one */
	int64_t oldest_us, newest_us; /* smallest and largest cell timestamp; oldest_us > newest_us if there is no cell */
	int64_t commit_us;            /* no cell has a later time of commit; 0: there is no cell */
	struct buf begin, end;        /* the tablet uses the file for these rows; end.p is NULL if there is no end */
	struct buf first, last;       /* first and last row in the file */
};
void tablet_file_fini(struct tablet_file *f);
int tablet_file_copy(struct tablet_file *to, const struct tablet_file *from) TFS_MUST;
/*
 * Replaces *to by the end of a range of rows.  p NULL means that the range has no
 * end; *to must be empty then.  n 0 with another p is an end.
 */
int tablet_end_copy(struct buf *to, struct tfs_bytes end) TFS_MUST;

/* Recovery must replay the log of this incarnation from this LSN. */
struct redo_point {
	uint64_t incarnation, lsn;
};

/* The result of a client's mutation, stored for as long as the client may repeat it (tokens.h). */
struct tablet_token {
	uint64_t client, number;
	struct buf result; /* owned */
};
void tablet_tokens_free(struct tablet_token *v, unsigned count);

/* One atomic, durable change of a tablet's METADATA row. */
struct tablet_edit {
	const struct tablet_file *added;
	unsigned added_count;
	const struct tablet_file *removed; /* identified by incarnation, number and group */
	unsigned removed_count;
	bool set_redo; /* redo[] replaces the whole redo set */
	const struct redo_point *redo;
	unsigned redo_count;
	bool set_tokens; /* tokens[] replaces all tokens */
	const struct tablet_token *tokens;
	unsigned token_count;
	uint64_t seq_mark; /* 0: unchanged.  No entry of the tablet's files has a larger sequence number */
	int64_t major_us;  /* 0: unchanged; time of the last major compaction */
	bool set_changes;
	int64_t changes_low_us; /* tablet_params.changes_low_us */
	const char *event;      /* one line for the tablet's event log */
};

struct tablet;
/* On 0 the edit is durable.  After an error METADATA may or may not have the edit, so the tablet repeats it. */
typedef int tablet_commit_fn(void *arg, struct tablet *t, const struct tablet_edit *e);

/* Uses of the disk.  When a disk becomes full, the last use in this list is refused first (server/space.c). */
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
	_Atomic size_t memtable_bytes; /* the bound of memory_used */
	_Atomic size_t *memory_used;   /* bytes of all memtables of the tablets that share it */
	uint64_t major_within_us;      /* removed cells are erased from the disk within this time */
	uint64_t look_us;      /* interval of checks whether a major compaction is due; 0: major_within_us / 16, at most an hour */
	uint64_t scan_view_us; /* longest time that a scan uses a view; 0: 10 s */
	uint64_t sample_least_bytes;      /* compactions of fewer raw bytes take no samples; 0: 8 MiB */
	_Atomic uint64_t compaction_rate; /* bytes a second that background merging and major compactions may write, or 0 */
	bool unthrottled;                 /* root and METADATA: writers are not slowed down */
	bool no_background; /* flushes and compactions run only when they are called, and writers are not slowed down */
	/* The caller of these functions holds no lock. */
	/* Called when memory_used passes the bound.  The server then flushes the tablet that uses the most memory. */
	void (*over_memory)(void *arg);
	/*
	 * Called before a compaction writes about `bytes`.  Returns true if it
	 * may.  NULL: it may if the disk has the space.
	 */
	bool (*space)(void *arg, enum disk_use use, uint64_t bytes);
	const _Atomic bool *disk_full;  /* true while puts are refused; NULL: puts are always accepted */
	const _Atomic bool *will_close; /* true: compactions that users started end with -ECANCELED; NULL: they do not */
	/* Called after a compaction, because the tablet's size may have changed enough for a split or a merge. */
	void (*changed)(void *arg, struct tablet *t);
	/* Called after a minor compaction moved the redo point, because log segments may be removed then. */
	void (*redo_moved)(void *arg);
	void *arg;
	/* Counters for status and metrics. */
	_Atomic uint64_t minor, merging, major; /* compactions */
	_Atomic uint64_t bytes_flushed, bytes_compacted_in, bytes_compacted_out;
	_Atomic uint64_t stalls, stall_us; /* writes that were slowed down */
	/* Writes that waited for a split or merge of their tablet. */
	_Atomic uint64_t retire_waits, retire_wait_us, retire_wait_longest_us;
	/* State that the tablets share.  Times are monotonic. */
	_Atomic uint64_t paced_us; /* the time at which the bytes that compactions have written will have used up compaction_rate */
	_Atomic uint64_t slowed_us; /* the last time that a writer was slowed down */
	_Atomic uint64_t turn_us; /* the time at which the bytes of the writers so far will have used up their rate (throttle.c) */
	_Atomic bool major_under_way;  /* at most one background major compaction runs, so that workers are free for merges */
	_Atomic int flush_error;       /* the error of the last minor compaction of any tablet, or 0 */
	_Atomic size_t flushing_bytes; /* the part of memory_used that is in memtables being flushed */
};

struct tablet_params {
	struct tablet_env *env;
	uint32_t table;
	struct tfs_bytes begin, end;     /* copied; end.p is NULL if there is no end */
	struct store_schema *schema;     /* a reference is taken */
	const struct tablet_file *files; /* copied */
	unsigned file_count;
	const struct redo_point *redo;
	unsigned redo_count;
	const struct tablet_token *tokens; /* copied */
	unsigned token_count;
	uint64_t seq_mark;
	int64_t major_us;       /* time of the last major compaction, or 0 if none is stored */
	int64_t changes_low_us; /* all changes with a later time of commit are kept, 0: none are (tablet_changes.c) */
	/*
	 * Set for a tablet of a snapshot.  Readers apply the GC rules as of
	 * frozen_us.  Mutations are refused, and its files are not compacted.
	 */
	bool frozen;
	int64_t frozen_us;
	int rank_edit; /* RANK_TABLET_EDIT_* */
	tablet_commit_fn *commit;
	void *commit_arg;
};

/* Does no I/O. */
int tablet_new(const struct tablet_params *p, struct tablet **out) TFS_MUST;
/* Stops background work and waits until the calls under way have returned.  Unflushed data stays in the log. */
void tablet_free(struct tablet *t);
/*
 * Recovery, before the first mutation.  Applies n records of one part of an
 * earlier incarnation's log.  They may have any order within the part; the
 * order of log_sort.h is the fastest.  The next call must pass a later part.
 * Records below the redo point of `incarnation` are ignored.  Returns -ENOMEM,
 * or -EBADMSG if the batch of record *bad_lsn is damaged.
 */
int tablet_replay(struct tablet *t, uint64_t incarnation, const struct log_record *const *v, size_t n, uint64_t *bad_lsn) TFS_MUST;
/*
 * Ends recovery.  The caller has passed every record of earlier incarnations
 * to tablet_replay.  The first mutation, tablet_flush and tablet_compact also
 * call this.  Before it no background work runs.  After it a minor compaction
 * drops the redo points of earlier incarnations, and a major compaction drops
 * tombstones.
 */
void tablet_replay_done(struct tablet *t);
void tablet_set_schema(struct tablet *t, struct store_schema *s); /* takes a reference */
/* Queues the task that checks whether the tablet needs a merging or major compaction, and runs it. */
void tablet_want_merge(struct tablet *t);
/* Between these two, only the calling thread may change the tablet's METADATA row.  They lock and unlock EDIT. */
void tablet_edit_begin(struct tablet *t);
void tablet_edit_end(struct tablet *t);
struct tfs_bytes tablet_begin(const struct tablet *t);
struct tfs_bytes tablet_end(const struct tablet *t);
/* A row mutation with its outcome. */
struct token;
struct tablet_row {
	const struct row_mutation *m;
	struct tfs_result *results; /* m->op_count of them, or NULL */
	struct token *token;        /* the token of tablet_token_begin, or NULL */
	bool done;                  /* the mutation has ended, with the outcome in the next members */
	int err;
	unsigned failed_op; /* the operation that caused the error, from 1, or 0 */
};
/*
 * Called before and after the mutation of a client, so that a mutation that was carried out before
 * is not applied again.  Returns 1 if it was, with its outcome in r; 0 and r->token, which
 * tablet_token_end ends; or an error of tokens_begin, which is the outcome.  The mutation's number
 * is r->m->number, and not token->number.  peer: see tokens_begin.
 */
int tablet_token_begin(struct tablet *t, const struct op_token *token, uint64_t peer, struct tablet_row *r) TFS_MUST;
/*
 * The client gets the outcome again if it repeats the mutation, unless the error says that it should.  If a split, merge or
 * unload of the tablet has begun, and the mutation has written nothing, r->err becomes such an error.
 */
void tablet_token_end(struct tablet *t, struct tablet_row *r);
void tablet_tokens_forget(struct tablet *t, uint64_t client); /* see tokens_forget */
/*
 * Applies row mutations in order (tablet_write.c has the steps).  It skips a row whose
 * `done` is set.  All of them wait for the log once.  With err 0 a mutation is visible
 * and in the log; if sync is set, it is on the disk.
 * -TABLET_MOVED: the row is not in this tablet, or other tablets have replaced it.
 * -EROFS: it is a tablet of a snapshot.
 * -TABLET_TAKEN: another server has the tablet.  -TABLET_STOPPED: it is being closed.
 * -ENOSPC and other errors of a flush: memory is full and flushing fails.
 */
void tablet_mutate(struct tablet *t, struct tablet_row *rows, unsigned count, bool sync);

/*
 * Reads n bytes from `offset` of one version of a cell; n 0 reads its
 * attributes only.  got and info may be NULL.  -ENOENT: no such version.
 */
int tablet_read(struct tablet *t, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info) TFS_MUST;
/* Reads as tablet_read into memory from the arena, at most `most` bytes. */
int tablet_read_most(struct tablet *t, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, size_t most, struct arena *arena, struct tfs_bytes *bytes, struct tfs_info *info) TFS_MUST;
/* family 0: any family.  Sets *exists to true also if an unreadable block may contain the row. */
int tablet_row_exists(struct tablet *t, struct tfs_bytes row, uint16_t family, bool *exists) TFS_MUST;

/* ---- changes: tablet_changes.c ---- */
struct tablet_changes {
	struct tfs_bytes from; /* the least position (change_format.h); n 0: none are returned */
	struct tfs_bytes row;  /* the least row: a reader may have the rows before it from a tablet that was merged into this one */
	/* Up to this time of commit, which clock_commit has returned before the call.  So the tablet's later commits are later. */
	int64_t until_us;
	const uint16_t *families; /* changes of other families are returned as hidden; NULL: of all */
	unsigned family_count;
	uint64_t offset; /* not 0: returns the first change alone, with its value from here on */
	size_t bytes;    /* returns about so many, but always one change, or a part of it */
	/* Returned. */
	int64_t low_us; /* the tablet has all changes with a later time of commit, and may return no other */
	bool more;
};
/*
 * Appends changes in the order of their positions, in the form of sent_change_append.
 * -EOPNOTSUPP: the table keeps no changes.  -CHANGES_REMOVED: changes from `from` on were removed; low_us is set.
 * -TABLET_MOVED, -TABLET_TAKEN, -TABLET_STOPPED as tablet_mutate.
 */
int tablet_changes(struct tablet *t, struct tablet_changes *c, struct buf *out) TFS_MUST;
/* At or above the time of commit of each change that is kept; 0: none are kept. */
int64_t tablet_newest_commit(struct tablet *t);

/*
 * A scan within the tablet.  It returns each row as of one instant.  If its
 * view is older than 10 s, the scan takes a new view at the next row.
 */
struct tablet_scan;
int tablet_scan_new(struct tablet *t, const struct scan_spec *spec, struct tablet_scan **out) TFS_MUST; /* copies the spec */
int tablet_scan_fill(struct tablet_scan *s, struct scan_batch *b) TFS_MUST;                             /* resets b */
/*
 * From the next batch on, fn decides which rows the scan returns, after the pattern on row keys: it returns 1 for a
 * row that is returned, 0 for another one, ROW_CHECK_PAUSE, or -errno.  The row is as stored, with its salt.
 */
void tablet_scan_check_rows(struct tablet_scan *s, int (*fn)(void *arg, struct tfs_bytes row), void *arg);
void tablet_scan_set_batch(struct tablet_scan *s, size_t bytes); /* sets the size of the next batches, which replaces batch_bytes */
/*
 * After the last batch: returns true if the scan ended early because other
 * tablets have replaced the tablet.  *row is then the first row that the new
 * tablets must scan or, with spec.reverse, their row_to.  It is valid until
 * tablet_scan_free.
 */
bool tablet_scan_replaced(const struct tablet_scan *s, struct tfs_bytes *row);
void tablet_scan_free(struct tablet_scan *s);

/*
 * ---- splitting and merging: engine/tablet/tablet_split.c has the order ----
 * Chooses a row at which to split, so that each side has rows and about half
 * of the files' bytes.  -ENOENT: no such row (the tablet has a single row, or a
 * part of a single block).
 */
int tablet_split_key(struct tablet *t, struct buf *row) TFS_MUST;
/*
 * Samples rows of the tablet, in order: one for each `bytes` bytes of its SSTables, but at most
 * 16,384.  A row longer than 500 bytes is cut to its first bytes.  Rows of memtables are not
 * counted.  The memory is the arena's.
 */
int tablet_samples(struct tablet *t, uint64_t bytes, struct arena *arena, struct tfs_bytes **rows, uint32_t *count) TFS_MUST;
/*
 * Brackets a split or merge: from the return of 0 until tablet_retire_done, no
 * merging or major compaction is under way.  leaves: the tablet is unloaded, and
 * all of them end before they are complete.  Otherwise this call waits for a
 * merging compaction, and for a compaction that a user asked for, so the caller
 * must not hold up other work.
 * -TABLET_TAKEN, -TABLET_STOPPED and -TABLET_MOVED as in tablet_mutate.
 */
int tablet_retire_prepare(struct tablet *t, bool leaves) TFS_MUST;
void tablet_retire_done(struct tablet *t);
/*
 * From the return of 0 until tablet_split_end, the list of files does not
 * change, and the calling thread holds EDIT.  Errors as of tablet_retire_prepare.
 */
int tablet_split_begin(struct tablet *t) TFS_MUST;
/*
 * Lets the child share the parent's memtables.  tablet_new made the child from
 * its METADATA row; no thread uses it yet.
 */
int tablet_split_adopt(struct tablet *parent, struct tablet *child) TFS_MUST;
/* Waits for the writers under way.  New writers wait for tablet_split_end. */
void tablet_split_drain(struct tablet *t);
/* After tablet_split_drain: copies sequence numbers, timestamps and redo state.  Does not fail. */
void tablet_split_inherit(struct tablet *parent, struct tablet *child);
/* If done is true, other tablets have replaced the tablet, and its callers get -TABLET_MOVED.  Otherwise it continues as before. */
void tablet_split_end(struct tablet *t, bool done);
/* Flushes for a merge.  From the return of 0 until tablet_merge_end no other flush is under way. */
int tablet_merge_begin(struct tablet *t) TFS_MUST;
/*
 * After tablet_merge_begin: makes writers wait and flushes the rest.  On 0 the
 * redo set is empty, and the METADATA row does not change.  -EBUSY: something
 * is still unflushed.  Call tablet_merge_end also after an error.
 */
int tablet_merge_stop(struct tablet *t) TFS_MUST;
/*
 * Replaces tablet_merge_begin and tablet_merge_stop for a tablet whose merge had
 * an unknown outcome and whose edits have all failed since.  Writers wait.  Files
 * written since then are in no METADATA row, so file collection removes them.
 */
int tablet_merge_again(struct tablet *t) TFS_MUST;
void tablet_merge_end(struct tablet *t, bool done); /* `done` as in tablet_split_end */
/* Called after a drop of the table.  Its files are reported after their last reader has ended (sst_retire). */
void tablet_retire_files(struct tablet *t);
/* For all files that parent and child share: copies the exclusion, and the time and schema of the freeze. */
void tablet_inherit_files(struct tablet *parent, struct tablet *child);
/* Starts the child's background work. */
void tablet_split_start(struct tablet *child);
/* Drops files that contain no row of this tablet. */
int tablet_split_tidy(struct tablet *t, const char *event) TFS_MUST;

struct tablet_stats {
	uint64_t disk_bytes, raw_bytes, memory_bytes, cells, tombstones, seq;
	uint64_t changes_disk_bytes, changes_memory_bytes; /* of changes; no other number includes them */
	unsigned files, memtables;
	bool behind; /* writers are slowed down because too many files of one group wait for a merging compaction */
	const char *state;
	bool flushing, merging, majoring; /* such a compaction is under way */
};
/* If only some rows of a file are the tablet's, a share of the file is counted.  cells and tombstones include masked entries. */
void tablet_get_stats(struct tablet *t, struct tablet_stats *s);
/* A family that has entries.  A dropped family is included until its cells are collected.  id 0: row deletes. */
struct tablet_family {
	uint16_t id;
	unsigned files;
	uint64_t disk_bytes, raw_bytes, memory_bytes, cells, tombstones;
};
int tablet_families(struct tablet *t, struct tablet_family **out, unsigned *count) TFS_MUST; /* in id order; free *out */
int tablet_family_stats(struct tablet *t, uint16_t family, struct tablet_stats *s) TFS_MUST;
/* Returns the smallest LSN that this tablet still needs in the log of `incarnation`; UINT64_MAX: none. */
uint64_t tablet_redo_lsn(struct tablet *t, uint64_t incarnation);
/* Returns the smallest incarnation above `above`, other than the tablet's own, whose log this tablet needs; 0 if there is none. */
uint64_t tablet_redo_next(struct tablet *t, uint64_t above);
/* Copies the current file list.  tablet_file_fini each, free the array. */
int tablet_files(struct tablet *t, struct tablet_file **files, unsigned *count) TFS_MUST;

/* Returns data_dir/sst/<table>/<incarnation>-<number>.sst, or NULL if out of memory.  Free it. */
char *tablet_file_path(const char *data_dir, uint32_t table, uint64_t incarnation, uint64_t number);

#endif
