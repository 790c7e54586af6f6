/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranked mutexes.  A thread takes locks in strictly rising rank; debug
 * builds (TFS_DEBUG) keep the ranks held by a thread and abort, naming both,
 * on an acquire that is not above all of them.  Two locks of the same rank
 * are never held together.  The ranks are all here and nowhere else;
 * doc/locking explains them.
 */
#ifndef TFS_BASE_MUTEX_H
#define TFS_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum rank {
	RANK_NONE = 0,
	/* fs: taken before any call into libtabletfs */
	RANK_FS_ROW,    /* one directory's or cell's multi-step operation */
	RANK_FS_NODE,   /* one node: staging, handles */
	RANK_FS_SCHEMA, /* one change of a schema, and what the kernel is to forget of it */
	RANK_FS_TREE,   /* node table, scratch tree, directory streams */
	RANK_FS_NOTIFY, /* the notifier's queue */
	/* client */
	RANK_CLIENT, /* table handles; a batch */
	/* master */
	RANK_MASTER, /* schema changes, one at a time */
	/* server: a change of a tablet's file list is written to METADATA under its
	 * EDIT lock, by a look-up in the server's set and a mutation of the next
	 * tablet up, whose own EDIT lock its first write takes. */
	RANK_TABLET_EDIT_USER, /* split, merge, install and move of one user tablet */
	RANK_TABLET_EDIT_META, /* the same, METADATA tablet */
	RANK_TABLET_EDIT_ROOT, /* the same, root tablet */
	/* client: below it are those that write METADATA, and so look for its tablets */
	RANK_LOCATIONS,   /* the cache of tablet locations: a leaf */
	RANK_SERVER,      /* the set of tablets, known schemas, open scans: look-ups only */
	RANK_SPACE,       /* the reserve for full disks */
	RANK_LOCKSVC,     /* lock service */
	RANK_TABLET,      /* sequence allotment and memtable switch of one tablet */
	RANK_LOG,         /* commit log queue */
	RANK_LOG_FILE,    /* commit log file being written or abandoned */
	RANK_TABLET_VIEW, /* a tablet's current view pointer */
	RANK_TABLE_CACHE, /* open SSTables */
	RANK_SSTABLE,     /* one SSTable's opening; a shard of the cache of blocks and cells */
	RANK_TIMERS,      /* the list of worker pools */
	RANK_TASK,        /* worker queue */
	RANK_CLOCK,
	RANK_FILE_POOL, /* the ring of pooled descriptors */
	RANK_MSG,
};

struct mutex {
	pthread_mutex_t m;
	enum rank rank;
};

void mutex_init(struct mutex *m, enum rank rank);
void mutex_fini(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);
/* Debug builds abort unless the calling thread holds m. */
void mutex_assert_held(const struct mutex *m);
/* Debug builds abort if the calling thread holds a ranked lock. */
void mutex_assert_none_held(void);

struct cond {
	pthread_cond_t c;
};
void cond_init(struct cond *c); /* CLOCK_MONOTONIC */
void cond_fini(struct cond *c);
void cond_wait(struct cond *c, struct mutex *m);
/* Returns false after timeout_us. */
bool cond_wait_us(struct cond *c, struct mutex *m, uint64_t timeout_us);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);

/*
 * A thread waits for an event until another thread sets its number, which
 * rises from 0.  An event has no mutex, so a woken thread waits for none.
 *
 * Setting and waking are two calls: a woken thread may take the processor
 * from its waker, so the waker should hold no mutex then.  event_wake does
 * not read the event.  The event may have been freed already, because its
 * waiter sees the number whether it is woken or not.
 */
struct event {
	uint32_t number; /* atomic */
};
void event_set(struct event *e, uint32_t number);
void event_wake(struct event *e);     /* one waiter */
void event_wake_all(struct event *e); /* of an event that outlives its waiters */
/* Waits until the number differs from seen.  Returns the number, or seen after timeout_us. */
uint32_t event_wait_us(struct event *e, uint32_t seen, uint64_t timeout_us);

#endif
