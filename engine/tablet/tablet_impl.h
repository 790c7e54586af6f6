/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a tablet, shared by tablet*.c, mutate.c, memory.c and
 * compact*.c and by nobody else.
 *
 * Locks, in the order they are taken:
 *	stripe    one of STRIPES row locks, held from reading a row to
 *	          publishing what was made of it; shared by writers that read
 *	          nothing.  Logical: its mutex is held only for an instant, at
 *	          RANK_TABLET, since a METADATA row is written under a user
 *	          tablet's EDIT lock, above RANK_ROW.
 *	edit      one change of the file list or redo set at a time; held over
 *	          the commit callback
 *	lock      sequence allotment, memtable switch, writers under way, jobs
 *	view_lock the pointers that readers take, for an instant
 */
#ifndef TFS_STORE_TABLET_IMPL_H
#define TFS_STORE_TABLET_IMPL_H

#include <stdatomic.h>

#include "engine/base/mutex.h"
#include "engine/tablet/tablet.h"
#include "engine/tablet/view.h"

/* One clock skew: rules hide first, compactions remove this much later (DESIGN 3.1). */
#define TABLET_SKEW_US (5 * INT64_C(1000000))

#define TABLET_STATES(X)                                                                                                           \
	X(LOADING, "loading") /* replay: nothing was written by this incarnation yet */                                            \
	X(SERVING, "serving")                                                                                                      \
	X(SPLITTING, "splitting") /* other tablets are about to take its place: writers wait */                                    \
	X(GONE, "gone")           /* they have: -EREMCHG; who reads it goes on in the view that he has */                          \
	X(CLOSING, "closing")     /* tablet_free has begun: background work stops */                                               \
	X(BROKEN, "broken")       /* the commit callback said that the tablet is not ours (-ESTALE) */
enum tablet_state {
#define X(name, text) TABLET_##name,
	TABLET_STATES(X)
#undef X
};

/* Of one column, for who sees seq (0: no note): nothing above ts lives.  tablet_read.c */
struct note {
	struct buf column;
	uint64_t seq;
	uint64_t changed;    /* it holds while the stripe's changed_seq is this */
	uint64_t column_del; /* the largest of the column deletes above ts */
	int64_t ts;
};

enum { STRIPES = 64 };
struct stripe {
	struct mutex m;
	struct cond free;
	int holders;                  /* shared: their number; exclusive: -1 */
	unsigned waiting;             /* for exclusive: new sharers stand back */
	_Atomic int64_t newest_us;    /* at or above every timestamp written through it since load */
	_Atomic uint64_t changed_seq; /* of the last mutation that did more than delete single versions */
	struct note note;             /* under m */
};

/* A mutation between sequence allotment and publication; on the writer's stack. */
struct plan;
struct writer {
	uint64_t last;    /* its largest sequence number */
	bool done;        /* inserted or failed */
	_Atomic bool out; /* published: nobody but its own thread touches it any more */
	struct writer *next;
	/* for who inserts in its place: tablet_write.c */
	const struct log_ticket *ticket;
	struct plan *plan;
	struct vmem *mem;
};

struct redo_state {
	struct redo_point p;
	uint64_t next_lsn; /* earlier incarnations: above every record replayed */
};

struct flush_job;
struct compact_job;

struct tablet {
	/* constant */
	struct tablet_env *env;
	uint32_t table;
	struct buf begin, end;
	bool has_end;
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
	bool redo_own;                            /* the set names this incarnation at or below all that is unflushed */
	uint64_t redo_maybe;                      /* an edit in doubt may have set this point of ours; 0: none */
	int64_t freeze_us;                        /* of the last freeze */
	_Atomic bool flushing, merging, majoring; /* a job of the kind is under way (job_begin) */
	_Atomic bool split_wanted; /* somebody waits for all three: the background begins no more and gives up what takes long */
	struct flush_job *pending; /* written, its install failed: repeated before anything else; the flusher's */
	struct compact_job *pending_merge, *pending_major; /* likewise, of the kind */

	struct mutex view_lock;
	struct view *view;
	struct store_schema *schema;

	_Atomic unsigned debt;         /* files that wait for a merge: compact_debt */
	_Atomic int64_t major_late_us; /* as of when major_task was queued */

	struct task flush_task, merge_task, major_task;
	uint64_t flush_backoff_us, merge_backoff_us, major_backoff_us;
	uint64_t pressed_pause_us; /* major_task's: after one that a full disk had no room for */
	_Atomic uint64_t
		pressed_after_us; /* monotonic: the next one is not before, unless its time has come, or much more has been removed */
	_Atomic uint64_t tombstones, pressed_tombstones; /* as last looked at for that, and then */
	_Atomic bool flush_wanted;
	_Atomic bool dir_durable; /* the name of the directory of our SSTables */
};

/* A call is under way; tablet_free waits for its leave. */
static inline void tablet_enter(struct tablet *t)
{
	t->calls++;
}
static inline void tablet_leave(struct tablet *t)
{
	t->calls--;
}

/* What a reader holds. The view is taken before the sequence. */
struct snap {
	struct view *view;
	struct store_schema *schema;
	uint64_t seq;
};
void snap_take(struct tablet *t, struct snap *s);
void snap_put(struct snap *s);
/* Publishes v (taken) in place of the current view; the caller holds t->lock. The old one goes back to him to put. */
struct view *view_swap(struct tablet *t, struct view *v) TFS_MUST;
bool tablet_holds_row(const struct tablet *t, struct slice row);

void tablet_fail(struct tablet *t, int err); /* what commit said; -ESTALE makes the tablet BROKEN */

/* What the tablet may see of a memtable, which it may share with a sibling. */
int tablet_mem_iter(struct tablet *t, struct vmem *m, struct iter **out) TFS_MUST;

/* ---- tablet_write.c ---- */
struct stripe *stripe_of(struct tablet *t, struct slice row);
/* Waits until no writer at or below seq is under way. The caller holds t->lock. */
void writers_wait(struct tablet *t, uint64_t seq);
/* Raises the accounted memory of m after inserts; the caller holds t->lock. Returns the bytes accounted for m. */
size_t vmem_account(struct vmem *m);

/* ---- tablet_scan.c ---- */
extern uint64_t tablet_scan_view_us; /* how long a scan holds a view; tests shorten it */

/* ---- memory.c ---- */
enum { FILES_FREE = 12 }; /* of one group waiting for a merge: writers are not slowed down yet */
/* Before a write, holding nothing: waits while too much is unflushed or unmerged.  An error only when flushing fails. */
int memory_slow_down(struct tablet *t, struct slice row, const struct op *ops, unsigned count) TFS_MUST;
/* After a write, holding nothing. */
void memory_after_write(struct tablet *t, size_t active_bytes, size_t used_before);

/* ---- compact_task.c, compact.c, compact_flush.c ---- */
void tablet_flush_task(struct task *task);
void tablet_merge_task(struct task *task);
void tablet_major_task(struct task *task);
void tablet_want_flush(struct tablet *t);
/* Drops a written flush that was never installed. */
void flush_job_free(struct flush_job *j);
void compact_job_free(struct compact_job *j);

#endif
