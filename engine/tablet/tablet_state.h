/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a tablet, and the functions by which engine/tablet and
 * engine/compact work on it together.  No other directory includes this.
 *
 * engine/compact calls the functions below.  A tablet calls engine/compact
 * through struct tablet_compactor alone, never on the path of a cell.
 *
 * Locks, in the order they are taken:
 *	stripe    one of STRIPES row locks, from reading a row to publishing
 *	          the mutation; shared by blind writers.  It is a counter
 *	          under a mutex of RANK_TABLET, because a METADATA row is
 *	          written under a user tablet's EDIT lock.
 *	edit      one change of the file list or redo set at a time, including
 *	          the commit callback
 *	lock      sequence numbers, change of memtable, writers under way, jobs
 *	view_lock the pointers that readers copy
 */
#ifndef TFS_TABLET_STATE_H
#define TFS_TABLET_STATE_H

#include <stdatomic.h>

#include "engine/base/mutex.h"
#include "engine/tablet/tablet.h"
#include "engine/tablet/view.h"

/* The largest clock skew: compactions remove cells so much later than rules hide them. */
#define TABLET_SKEW_US (5 * INT64_C(1000000))

/* Name, text, the error of a mutation in this state. */
#define TABLET_STATES(X)                                                                                                           \
	X(LOADING, "loading", 0) /* replay: this incarnation has written nothing yet */                                            \
	X(SERVING, "serving", 0)                                                                                                   \
	X(SPLITTING, "splitting", -EREMCHG) /* other tablets will replace it: writers wait */                                      \
	X(GONE, "gone", -EREMCHG)           /* other tablets have replaced it; readers continue in their view */                   \
	X(CLOSING, "closing", -ESHUTDOWN)   /* tablet_free has begun: background work stops */                                     \
	X(BROKEN, "broken", -ESTALE)        /* the commit callback returned -ESTALE: another server has the tablet */
enum tablet_state {
#define X(name, text, error) TABLET_##name,
	TABLET_STATES(X)
#undef X
};

/* For readers that see seq (0: no note): in one column no version above ts is live.  tablet_read.c */
struct note {
	struct buf column;
	uint64_t seq;
	uint64_t changed;    /* valid while the stripe's changed_seq is this */
	uint64_t column_del; /* the largest of the column deletes above ts */
	int64_t ts;
};

enum { STRIPES = 64 };
struct stripe {
	struct mutex m;
	struct cond free;
	int holders;                  /* shared: their number; exclusive: -1 */
	unsigned waiting;             /* for exclusive: new sharers wait, too */
	_Atomic int64_t newest_us;    /* at or above every timestamp written through it since load */
	_Atomic uint64_t changed_seq; /* of the last mutation that did more than delete single versions */
	struct note note;             /* under m */
};

/* A mutation that has sequence numbers and is not published; on the writer's stack. */
struct plan;
struct writer {
	uint64_t last;    /* its largest sequence number */
	bool done;        /* inserted or failed */
	_Atomic bool out; /* published: other threads no longer use it */
	struct writer *next;
	/* for a thread that inserts in its place: tablet_write.c */
	const struct log_ticket *ticket;
	struct plan *plan;
	struct vmem *mem;
};

struct redo_state {
	struct redo_point p;
	uint64_t next_lsn; /* earlier incarnations: above every record replayed */
};

/* The functions that engine/compact supplies (env->compactor). */
struct flush_job;
struct compact_job;
struct tablet_compactor {
	/* The tablet's tasks in env->flush_pool and env->compact_pool. */
	void (*flush_task)(struct task *task), (*merge_task)(struct task *task), (*major_task)(struct task *task);
	/* Minor compaction of everything written so far.  Between tablet_job_begin and tablet_job_end of `flushing`. */
	int (*flush)(struct tablet *t);
	/* Repeats the edits of merging and major compactions that failed.  Between tablet_job_begin and tablet_job_end of both. */
	int (*repeat_edits)(struct tablet *t);
	/* The tablet is freed: drops the jobs whose edits failed. */
	void (*drop_jobs)(struct tablet *t);
};

struct tablet {
	/* constant */
	struct tablet_env *env;
	uint32_t table;
	struct buf begin, end; /* end.p NULL: no end */
	tablet_commit_fn *commit;
	void *commit_arg;
	int64_t loaded_newest_us; /* at or above every timestamp in the files loaded */

	struct stripe stripes[STRIPES];
	_Atomic unsigned calls; /* under way; tablet_free waits for 0 */
	_Atomic uint64_t published;

	struct mutex edit;
	uint64_t seq_mark;
	int64_t clock_mark, major_us;
	bool major_unset; /* METADATA has no major_us yet */

	struct mutex lock;
	struct cond changed; /* writers published, jobs ended, state changed */
	_Atomic int state;   /* enum tablet_state */
	uint64_t next_seq;
	struct writer *writers, **writers_tail;
	struct redo_state *redo; /* as committed */
	unsigned redo_count;
	bool redo_own;                            /* the set names this incarnation, at or below all unflushed records */
	uint64_t redo_maybe;                      /* an edit that failed may have set this point of this incarnation; 0: none */
	int64_t freeze_us;                        /* of the last freeze */
	_Atomic bool flushing, merging, majoring; /* a job of the kind is under way */
	_Atomic bool split_wanted; /* a split or merge waits for all three: no background job begins, long ones end */
	struct flush_job *pending; /* written, its edit failed: repeated before another flush */
	struct compact_job *pending_merge, *pending_major; /* the same, of the kind */

	struct mutex view_lock;
	struct view *view;
	struct store_schema *schema;

	_Atomic unsigned debt;         /* files that wait for a merge: view_debt */
	_Atomic int64_t major_late_us; /* at the time when major_task was queued */

	struct task flush_task, merge_task, major_task;
	uint64_t flush_backoff_us, merge_backoff_us, major_backoff_us;
	_Atomic uint64_t
		major_after_us; /* monotonic: if the disk had no space for the last major compaction, the next one begins later than this */
	_Atomic bool merge_no_space; /* the disk had no space for the last merging compaction */
	_Atomic bool flush_wanted;
	_Atomic bool dir_durable; /* the directory of the SSTables has a durable name */
};

static inline bool tablet_disk_full(const struct tablet *t)
{
	return t->env->disk_full && *t->env->disk_full;
}

static inline bool tablet_stopping(const struct tablet *t)
{
	return t->state == TABLET_CLOSING || t->state == TABLET_BROKEN || t->state == TABLET_GONE;
}

/* Around each call; tablet_free waits for all of them. */
static inline void tablet_enter(struct tablet *t)
{
	t->calls++;
}
static inline void tablet_leave(struct tablet *t)
{
	t->calls--;
}

/* A reader's snapshot.  The view is taken before the sequence. */
struct snap {
	struct view *view;
	struct store_schema *schema;
	uint64_t seq;
};
void snap_take(struct tablet *t, struct snap *s);
void snap_put(struct snap *s);

/* An iterator over the tablet's rows in a memtable, which it may share with a sibling. */
int tablet_mem_iter(struct tablet *t, struct vmem *m, struct iter **out) TFS_MUST;

/* ---- background jobs ---- */
enum { FILES_FREE = 12 }; /* of one group waiting for a merge: writers are not slowed down yet */
/* Jobs of one kind (tablet.flushing, merging, majoring) run one at a time: waits while *busy, sets it.
 * -ESHUTDOWN, -EREMCHG, -ESTALE. */
int tablet_job_begin(struct tablet *t, _Atomic bool *busy) TFS_MUST;
void tablet_job_end(struct tablet *t, _Atomic bool *busy);
void tablet_want_flush(struct tablet *t);

/* ---- durable changes (tablet_change.c) ---- */
/*
 * One change of the tablet's METADATA row and of its view.  After an error
 * METADATA may have the change, so the caller repeats it until it succeeds.
 */
struct tablet_change {
	struct tablet_edit edit;                /* event, seq_mark, clock_mark, major_us; the rest is filled in */
	const struct file_set *removed, *added; /* NULL: none */
	struct vmem *const *flushed;            /* memtables that are in `added` */
	unsigned flushed_count;
	/* edit.set_redo: the redo set, on the heap, taken; redo_own: the tablet's new value */
	struct redo_state *redo;
	unsigned redo_count;
	bool redo_own;
	/* Called under EDIT and the tablet's lock before all else; may fill in the above.  An error, or *needless, ends the change. */
	int (*prepare)(struct tablet *t, struct tablet_change *c, bool *needless);
	void *arg;
};
int tablet_change(struct tablet *t, struct tablet_change *c) TFS_MUST;
/* Drops the references.  removed: the files left the tablet's list durably; those that no tablet lists are unlinked with their last reader. */
void tablet_drop_files(struct tablet *t, struct file_set *s, bool removed);

/* ---- freezing memtables (tablet_freeze.c) ---- */
struct tablet_freeze {
	struct vmem *mems[VIEW_MEMS];
	unsigned mem_count;
	struct store_schema *schema; /* a reference */
	int64_t us;                  /* cells that expired by then may be collected */
	int64_t at_us;               /* the clock at that instant */
	bool counts; /* all older mutations are in mems or in files (none to be replayed, or not frozen): the rules may be applied completely */
	bool froze; /* the active memtable is among mems, or was empty */
	/* private */
	uint64_t seq, lsn;
	struct redo_state *dead; /* redo points of earlier incarnations that stay */
	unsigned dead_count;
};
/* Replaces the active memtable and waits for its writers.  tablet_freeze_fini in any case. */
int tablet_freeze(struct tablet *t, struct tablet_freeze *f) TFS_MUST;
void tablet_freeze_fini(struct tablet_freeze *f);
/* Nothing is frozen, but the redo set in METADATA names more log than the tablet needs. */
bool tablet_redo_is_stale(struct tablet *t, const struct tablet_freeze *f);
/* The memtables are in these files: enters them and the redo set that remains. */
int tablet_install_flush(struct tablet *t, const struct tablet_freeze *f, const struct file_set *files) TFS_MUST;

#endif
