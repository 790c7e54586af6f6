/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranked mutexes.  A thread acquires locks in strictly rising rank, so it never
 * holds two locks of one rank.  Debug builds (TFS_DEBUG) record the locks of
 * each thread and abort at an acquisition in the wrong order, with the names of
 * both ranks.  This list of ranks is the only one; doc/locking explains it.
 */
#ifndef TFS_BASE_MUTEX_H
#define TFS_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* From the lowest to the highest. */
#define RANKS(X)                                                                                                                   \
	X(NONE)                                                                                                                    \
	/* fs: taken before any call into libtabletfs */                                                                           \
	X(FS_SEQUENTIAL) /* one descriptor of a sequential file */                                                                 \
	X(FS_ROW)        /* one directory's or cell's multi-step operation */                                                      \
	X(FS_NODE)       /* one node: staging, handles */                                                                          \
	X(FS_SCHEMA)     /* one change of a schema, and the kernel's copies that it makes invalid */                               \
	X(FS_TREE)       /* node table, scratch tree, directory streams */                                                         \
	X(FS_NOTIFY)     /* the notifier's queue */                                                                                \
	X(BULK)          /* the turns of the two threads of a reader of tar; a leaf */                                             \
	X(DISPATCH)      /* a queue of requests of other processes; a leaf */                                                      \
	X(TELLERS)       /* reports of changes to a client of a cluster, one at a time */                                          \
	/* client */                                                                                                               \
	X(CLIENT) /* table handles; a batch */                                                                                     \
	/* master */                                                                                                               \
	X(MASTER)  /* schema changes, one at a time */                                                                             \
	X(COLLECT) /* rounds of the collector, one at a time */                                                                    \
	/* server: a change of a tablet's file list is written to METADATA under its */                                            \
	/* EDIT lock, by a look-up in the server's set and a mutation of the METADATA */                                           \
	/* or root tablet, whose own EDIT lock its first write takes */                                                            \
	X(TABLET_EDIT_USER) /* split, merge, install and move of one user tablet */                                                \
	X(TABLET_EDIT_META) /* an edit of a METADATA tablet */                                                                     \
	X(TABLET_EDIT_ROOT) /* an edit of the root tablet */                                                                       \
	/* client again: writers of METADATA look for its tablets */                                                               \
	X(LOCATIONS)   /* the cache of tablet locations: a leaf */                                                                 \
	X(SERVER)      /* a part of a server: look-ups only, one part at a time */                                                 \
	X(SPACE)       /* the reserve for full disks */                                                                            \
	X(LOCKSVC)     /* lock service */                                                                                          \
	X(TABLET)      /* sequence allotment and memtable switch of one tablet */                                                  \
	X(LOG)         /* commit log queue */                                                                                      \
	X(LOG_FILE)    /* commit log file being written or abandoned */                                                            \
	X(TABLET_VIEW) /* a tablet's current view pointer */                                                                       \
	X(TABLE_CACHE) /* open SSTables */                                                                                         \
	X(SSTABLE)     /* one SSTable's opening; a shard of the cache of blocks and cells */                                       \
	X(FILES)       /* lists of files: SSTables for the collector, schemas that have changed */                                 \
	X(WIRE)        /* connections of a listener; a channel's waiting calls; changes that are reported to mounts */             \
	X(CONN)        /* the frames that one connection sends */                                                                  \
	X(EVENTS)      /* calls for the thread of the connections */                                                               \
	X(TIMERS)      /* the list of worker pools */                                                                              \
	X(SCRIPT)      /* the list of free workers of scripts: a leaf */                                                           \
	X(TASK)        /* worker queue */                                                                                          \
	X(CLOCK)                                                                                                                   \
	X(FILE_POOL) /* the ring of pooled descriptors */                                                                          \
	X(MSG)

enum rank {
#define RANK(name) RANK_##name,
	RANKS(RANK)
#undef RANK
};

struct mutex {
	pthread_mutex_t m;
	enum rank rank;
};

/*
 * Threads hold a mutex for an instant, often as many threads as there are processors, so a
 * waiting thread spins before it sleeps.
 */
#define MUTEX_INITIALIZER(rank)                                                                                                    \
	{                                                                                                                          \
		PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, (rank)                                                                      \
	}
void mutex_init(struct mutex *m, enum rank rank);
void mutex_fini(struct mutex *m);
void mutex_lock(struct mutex *m);
/* Returns false if another thread holds m. */
bool mutex_trylock(struct mutex *m);
/* Waits at most timeout_us.  Returns false if another thread holds m all that time. */
bool mutex_lock_us(struct mutex *m, uint64_t timeout_us);
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
void event_wake_all(struct event *e); /* the event must outlive its waiters */
/* Waits until the number differs from seen.  Returns the number, or seen after timeout_us. */
uint32_t event_wait_us(struct event *e, uint32_t seen, uint64_t timeout_us);

#endif
