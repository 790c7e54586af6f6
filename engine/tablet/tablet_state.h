/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a tablet, which engine/tablet and engine/compact share.  No
 * other directory includes this.
 *
 * engine/compact calls the functions below.  A tablet calls engine/compact
 * only through struct tablet_compactor, and never during a read or write of a
 * cell.
 *
 * Locks, in the order in which they are taken:
 *	stripe    one of STRIPES row locks.  A writer holds it from reading the
 *	          row to publishing the mutation.  Blind writers share it.  It
 *	          is a counter under a mutex of RANK_TABLET.  The stripe is no ranked lock itself, because a METADATA row is written under a user
 *	          tablet's EDIT lock.
 *	edit      called EDIT in comments.  Serialises changes of the file list
 *	          and of the redo set, including the commit callback.
 *	lock      sequence numbers, change of memtable, writers under way, jobs
 *	view_lock the pointers that readers copy
 */
#ifndef TFS_TABLET_STATE_H
#define TFS_TABLET_STATE_H

#include <stdatomic.h>

#include "engine/base/mutex.h"
#include "engine/tablet/tablet.h"
#include "engine/tablet/tokens.h"
#include "engine/tablet/view.h"

#define TABLET_PASSED_LEAST 10000u /* scans that pass fewer expired cells cause no major compaction */
/* The largest clock skew.  Compactions remove a cell this much later than a rule hides it. */
#define TABLET_SKEW_US (5 * INT64_C(1000000))

/* Name, text, and the error that a mutation gets in this state. */
#define TABLET_STATES(X)                                                                                                           \
	X(LOADING, "loading", 0) /* replay: this incarnation has written nothing yet */                                            \
	X(SERVING, "serving", 0)                                                                                                   \
	X(SPLITTING, "splitting", -TABLET_MOVED) /* other tablets will replace it: writers wait */                                 \
	X(GONE, "gone", -TABLET_MOVED)           /* other tablets have replaced it; readers continue in their view */              \
	X(CLOSING, "closing", -TABLET_STOPPED)   /* tablet_free has begun: background work stops */                                \
	X(BROKEN, "broken", -TABLET_TAKEN)       /* the commit callback returned -TABLET_TAKEN: another server has the tablet */
enum tablet_state {
#define X(name, text, error) TABLET_##name,
	TABLET_STATES(X)
#undef X
};

/* For readers of one column with a sequence of at least seq: no version above ts is live (tablet_read.c). */
struct note {
	struct buf column;
	uint64_t seq;        /* 0: there is no note */
	uint64_t changed;    /* the note is valid as long as the stripe's changed_seq has this value */
	uint64_t column_del; /* the largest sequence of the column deletes above ts */
	int64_t ts;
};

enum { STRIPES = 64 };
struct stripe {
	struct mutex m;
	struct cond free;
	int holders;                  /* the number of sharers; -1: held exclusively */
	unsigned waiting;             /* writers that want it exclusively; new sharers wait for them */
	_Atomic int64_t newest_us;    /* at or above every timestamp written under this stripe since the tablet was loaded */
	_Atomic uint64_t changed_seq; /* the sequence of the last mutation that did more than delete single versions */
	struct note note;             /* under m */
};

/* A mutation that has sequence numbers and is not published yet.  It is on the writer's stack. */
struct plan;
struct writer {
	uint64_t last;          /* its largest sequence number */
	bool done;              /* its cells are inserted, or its log record failed */
	_Atomic bool published; /* other threads no longer use the struct */
	struct writer *next;
	/* for another thread that inserts in place of the writer (tablet_write.c) */
	const struct log_ticket *ticket;
	struct plan *plan;
	struct vmem *mem;
	struct token *token; /* may be NULL */
};

struct redo_state {
	struct redo_point p;
	uint64_t next_lsn; /* in a log of an earlier incarnation, above the LSN of every replayed record */
};

/* The functions that engine/compact supplies (env->compactor). */
struct flush_job;
struct compact_job;
struct tablet_compactor {
	/* The tablet's tasks in env->flush_pool and env->compact_pool. */
	void (*flush_task)(struct task *task), (*merge_task)(struct task *task), (*major_task)(struct task *task);
	/*
	 * Minor compaction of everything written so far.  The caller is between
	 * tablet_job_begin and tablet_job_end of `flushing`.
	 */
	int (*flush)(struct tablet *t);
	/*
	 * Repeats the failed edits of merging and major compactions.  The caller has
	 * called tablet_job_begin for both kinds of compaction, and not tablet_job_end.
	 */
	int (*repeat_edits)(struct tablet *t);
	/* Called when the tablet is freed: drops the jobs whose edits failed. */
	void (*drop_jobs)(struct tablet *t);
};

struct tablet {
	/* constant */
	struct tablet_env *env;
	uint32_t table;
	struct buf begin, end; /* end.p is NULL if there is no end */
	tablet_commit_fn *commit;
	void *commit_arg;
	bool frozen; /* as in tablet_params */
	int64_t frozen_us;
	int64_t loaded_newest_us; /* at or above every timestamp in the loaded files */

	struct stripe stripes[STRIPES];
	_Atomic unsigned calls; /* calls under way; tablet_free waits for 0 */
	_Atomic uint64_t published;

	struct mutex edit; /* these are changed under edit and lock, and read under either: */
	uint64_t seq_mark;
	int64_t major_us;
	bool major_unset;                 /* METADATA has no major_us yet */
	int64_t changes_low_us;           /* tablet_params.changes_low_us (tablet_changes.c) */
	_Atomic int64_t newest_commit_us; /* at or above the time of commit of each change that is kept */

	struct mutex lock;   /* guards the members up to `pending`, except atomic ones: */
	struct cond changed; /* signalled when writers are published, a job ends, or the state changes */
	_Atomic int state;   /* enum tablet_state */
	uint64_t next_seq;
	struct writer *writers, **writers_tail;
	struct redo_state *redo; /* the redo set, as committed */
	unsigned redo_count;
	bool redo_own;                            /* the set has a point of this incarnation, not above any unflushed record */
	uint64_t redo_maybe;                      /* a failed edit may have set this LSN of this incarnation; else 0 */
	int64_t freeze_us;                        /* the largest time of a freeze so far */
	_Atomic bool flushing, merging, majoring; /* a job of this kind is under way */
	_Atomic bool split_wanted;                /* set for a split or merge: background major compactions end, and none begins */
	_Atomic bool leaves;                      /* set for an unload: all merging and major compactions end */
	struct tokens tokens;
	bool tokens_stored; /* METADATA has tokens, or may have tokens */
	/* Jobs whose edits failed.  Only the running job of the same kind uses them. */
	struct flush_job *pending; /* its files are written, but its edit failed; the next flush repeats it first */
	struct compact_job *pending_merge, *pending_major; /* the pending jobs of merging and of major compactions */

	struct mutex view_lock;      /* held with `lock` to change these, so that readers need only one of the two: */
	struct view *view;           /* the current view */
	struct store_schema *schema; /* the newest schema */

	_Atomic unsigned debt;         /* view_debt of the current view */
	_Atomic uint64_t passed;       /* expired cells that scans have passed since the last major compaction */
	_Atomic int64_t major_late_us; /* by how much the major compaction was overdue when major_task was queued */

	struct task flush_task, merge_task, major_task;
	uint64_t flush_backoff_us, merge_backoff_us, major_backoff_us;
	/*
	 * Monotonic.  If the disk had no space for the last major compaction, the next major
	 * compaction waits until this time; otherwise 0.
	 */
	_Atomic uint64_t major_after_us;
	_Atomic bool major_unfinished; /* there is a pending_major: major_task repeats its edit */
	_Atomic bool merge_no_space;   /* the disk had no space for the last merging compaction */
	_Atomic bool flush_wanted;
	_Atomic bool dir_durable; /* the directory of the SSTables has a durable name */
};

static inline bool tablet_disk_full(const struct tablet *t)
{
	return t->env->disk_full && *t->env->disk_full;
}

/* Returns the time at which a reader applies the GC rules. */
static inline int64_t tablet_now(const struct tablet *t)
{
	return t->frozen ? t->frozen_us : clock_now(t->env->clock);
}

static inline bool tablet_stopping(const struct tablet *t)
{
	return t->state == TABLET_CLOSING || t->state == TABLET_BROKEN || t->state == TABLET_GONE;
}

/* Each public call is between these two.  tablet_free waits until all calls have left. */
static inline void tablet_enter(struct tablet *t)
{
	t->calls++;
}
static inline void tablet_leave(struct tablet *t)
{
	t->calls--;
}

/* A reader's snapshot.  snap_take takes the view before the sequence (view.h has the reason). */
struct snap {
	struct view *view;
	struct store_schema *schema;
	uint64_t seq;
};
void snap_take(struct tablet *t, struct snap *s);
void snap_put(struct snap *s);

/*
 * Makes an iterator over the tablet's rows in a memtable.  After a split the
 * memtable may also have rows of a sibling.
 */
int tablet_mem_iter(struct tablet *t, struct vmem *m, struct iter **out) TFS_MUST;

/* ---- background jobs ---- */
enum { FILES_FREE = 12 }; /* the most files of one group that may wait for a merge before writers are slowed down */
/*
 * Jobs of one kind run one at a time.  busy: tablet.flushing, merging or
 * majoring.  Waits while *busy is set, then sets it.  -TABLET_STOPPED, -TABLET_MOVED,
 * -TABLET_TAKEN.
 */
int tablet_job_begin(struct tablet *t, _Atomic bool *busy) TFS_MUST;
void tablet_job_end(struct tablet *t, _Atomic bool *busy);
void tablet_want_flush(struct tablet *t);

/* ---- durable changes (tablet_change.c) ---- */
/*
 * One change of the tablet's METADATA row and of its view.  After an error
 * METADATA may have the change, so the caller repeats it until it succeeds.
 */
struct tablet_change {
	/* The caller sets event, set_redo, seq_mark and major_us; tablet_change fills in the rest. */
	struct tablet_edit edit;
	const struct file_set *removed, *added; /* may be NULL */
	struct vmem *const *flushed;            /* memtables whose entries are in the files `added` */
	unsigned flushed_count;
	/*
	 * If edit.set_redo is set, the new redo set, on the heap, owned by
	 * tablet_change, and the new tablet.redo_own.
	 */
	struct redo_state *redo;
	unsigned redo_count;
	bool redo_own;
	struct tablet_token *tokens; /* if edit.set_tokens is set; owned by tablet_change */
	unsigned token_count;
	/*
	 * Called first, under EDIT and the tablet's lock.  May fill in the
	 * fields above.  On an error or *needless nothing is changed.
	 */
	int (*prepare)(struct tablet *t, struct tablet_change *c, bool *needless);
	void *arg;
};
int tablet_change(struct tablet *t, struct tablet_change *c) TFS_MUST;
/*
 * Drops the references in s.  removed: the tablet's list no longer has the
 * files, durably.  They are reported after their last reader has ended (sst_retire).
 */
void tablet_drop_files(struct file_set *s, bool removed);

/* ---- changes (tablet_changes.c) ---- */
int64_t tablet_changes_low(struct tablet *t); /* tablet_params.changes_low_us */
/* The tablet has a change with this time of commit, so later ones of all tablets are later. */
void tablet_raise_commit(struct tablet *t, int64_t us);
/* Begins or ends to keep changes, durably, as the schema wants it. */
int tablet_ensure_changes(struct tablet *t) TFS_MUST;
/* Returns true if the tablet has this row. */
bool tablet_contains_row(const struct tablet *t, struct tfs_bytes row);

/* ---- freezing memtables (tablet_freeze.c) ---- */
struct tablet_freeze {
	struct vmem *mems[VIEW_MEMS];
	unsigned mem_count;
	struct store_schema *schema; /* a reference */
	int64_t us;                  /* the flush may collect cells that expired by then (clock_collect) */
	int64_t at_us;               /* the clock at the freeze */
	/*
	 * The flush may apply rules that count versions, because all older mutations
	 * are in mems or in files.  False if some are still to be replayed, or are in
	 * the active memtable because it was not frozen.
	 */
	bool counts;
	bool froze; /* the active memtable is among mems, or it was empty */
	/* private */
	uint64_t seq, lsn;
	struct redo_state *dead; /* redo points of earlier incarnations that stay */
	unsigned dead_count;
};
/* Replaces the active memtable and waits for its writers.  Call tablet_freeze_fini also after an error. */
int tablet_freeze(struct tablet *t, struct tablet_freeze *f) TFS_MUST;
void tablet_freeze_fini(struct tablet_freeze *f);
/* If nothing was frozen: returns true if the redo set in METADATA keeps more of the log than the tablet needs. */
bool tablet_redo_is_stale(struct tablet *t, const struct tablet_freeze *f);
/* Commits the edit of a flush: adds `files`, which contain f's memtables, and sets the remaining redo points. */
int tablet_install_flush(struct tablet *t, const struct tablet_freeze *f, const struct file_set *files) TFS_MUST;

#endif
