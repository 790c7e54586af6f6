/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One death of a store and the state that the next start finds, for crash_store and
 * crash_syncs.  A process runs one history at a time; workers are forked.
 */
#ifndef T_CRASH_STORE_POINT_H
#define T_CRASH_STORE_POINT_H

#include "t/history/history.h"
#include "t/lib/file_faults.h"

#include <stdbool.h>
#include <stdint.h>

#define SYNCS_MAX 4096
#define PLACES_OF_DEATH 9
#define STEPS_MOST 256

struct point {
	uint64_t seed, at, skip; /* if `at` is 0, no crash but at the end; `skip` is the sync left out, or 0 */
	unsigned way;            /* how unsynced bytes survive */
	bool kill;
	/*
	 * Not 0: at this operation the process is as if killed (from there on all
	 * operations fail, and the store is opened again in the same forget
	 * mode), and `at` counts from the second opening.
	 */
	uint64_t killed;
};

/* Written by the child that runs the history, shared with us. */
struct told {
	_Atomic unsigned begun, answered, durable;
	_Atomic uint64_t operations;
	_Atomic uint64_t syncs;
	uint64_t starts[STEPS_MOST]; /* operations before each step, setup's parts included */
	unsigned steps;
	bool doubt;       /* the changes after the first death may be those of an earlier state than the cells are */
	uint64_t rose_at; /* operation number of the second opening, 0: there is none */
	struct told_sync {
		uint64_t at;     /* its operation's number */
		char place[160]; /* its caller, "FILE:LINE sync" or "... syncdir" */
		char of[48];     /* the synced file or directory, below the store */
	} sync[SYNCS_MAX];
	unsigned found; /* the state that the child saw that reopened the store */
	char last_op[200];
};
extern struct told *told;
/* A hook calls this at a sync. */
void told_sync(enum file_op op, const char *path, uint64_t number);

/* Shared by all workers. */
struct tally {
	_Atomic uint64_t points, failures, crashed;
	_Atomic uint64_t within[STEP_KINDS + 1]; /* counts the deaths for each call; the last counts deaths in the setup */
	_Atomic uint64_t at[PLACES_OF_DEATH];    /* and by the file concerned */
};
extern struct tally *tally;
/* One line: how many deaths were where.  False: in some kind of rare step, or at some kind of file, there was none. */
bool tally_print(void);

void *share(unsigned long n);
/* A directory of this worker's own, and memory that its children share.  False: it cannot be made. */
bool point_begin(unsigned job);
void point_end(void);
/* Clears the counts and removes the store. */
void point_clear(void);
const char *point_store_dir(void);

/* Failing points print their findings; called before prepare. */
void point_tell(bool on);
/* No thread but the caller's does anything by time: the same seed gives the same operations. */
void point_by_hand(void);
/* Has the history neither background work nor a sync at each commit? */
bool history_is_plain(uint64_t seed);
/* Called in the dying process, to record its current call. */
struct point_watch {
	const struct api *library;      /* instead of api_library */
	void (*call)(const char *name); /* something else begins; NULL: it is over */
	void (*operation)(enum file_op op, const char *path, uint64_t number);
};
void point_watch(const struct point_watch *w);
/* From now on histories have more of the steps that are rare. */
void point_changes(void);
/* The model's states, and a run without a crash: told->operations, told->syncs.  False: that failed. */
bool prepare(uint64_t seed);
/* The model's states, and the changes after each step. */
bool prepare_model(uint64_t seed);
/* After prepare: does the step change tables, schemas or tablets? */
bool step_is_rare(uint64_t seed, unsigned step);
/* True when the point holds. */
bool try_point(const struct point *p, bool thorough, bool quiet);

#endif
