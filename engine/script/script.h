/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts: Lua programs over the rows of a scan (tabletfs-script(7)).
 *
 * A tablet server has a pool of worker processes (the program tabletfs-script), which run scripts
 * without files, network or privileges.  A run sends cells to a worker and takes deltas: encoded
 * partial outputs.  The client merges the deltas of all tablets, in any order.
 *
 * A worker is trusted with nothing: the server checks all that comes from it, and the client
 * checks each delta.  An error of a script ends its run and its worker; the next run gets another
 * worker.
 *
 * Errors, beside -ENOMEM and those of system calls:
 *   -EINVAL        the script is wrong, or it raised an error
 *   -SCRIPT_LIMIT  the script exceeded a limit (engine/base/outcome.h)
 *   -SCRIPT_DIED   the worker could not be started, died, or sent nonsense
 *   -EINTR         stop_asked(): the thread's work is not wanted any more
 *   -EAGAIN        no place was free in time
 * With each of them but -EINTR and -ENOMEM, *why is one line without a newline: the reason, the
 * limit and its value, the line of the script and the row, as far as they are known.
 *
 * Threads: a pool by any; a run and outputs by one thread at a time.
 */
#ifndef TFS_SCRIPT_SCRIPT_H
#define TFS_SCRIPT_SCRIPT_H

#include "engine/base/bytes.h"

enum { SCRIPT_TEXT_MAX = 1 << 20 }; /* bytes of a script */

/* 0: the default. */
struct script_limits {
	uint64_t instructions; /* of Lua for one row; other work counts as instructions, too */
	uint64_t memory;       /* bytes of a run, in its worker: the row, the script's data, outputs that nothing took */
	uint64_t time_us;      /* processor time of a run, in its worker */
};
#define SCRIPT_INSTRUCTIONS UINT64_C(100000000)
#define SCRIPT_MEMORY (UINT64_C(64) << 20)
#define SCRIPT_TIME_US UINT64_C(60000000)

struct script_text {
	bool filter;                  /* text is an expression on the row `r`; else a script */
	bool rows_only;               /* script_run_row adds the rows, and r:get and r:cells are errors */
	struct tfs_bytes name, text;  /* the name is for messages */
	const struct tfs_bytes *args; /* each "KEY=VALUE": `arg` of the script */
	unsigned arg_count;
};

struct script_cell {
	struct tfs_bytes row, family, qualifier, value;
	int64_t ts;
};

struct script_pool;
struct script_run;
struct script_outputs;

/* workers: how many runs can be open at once.  Starts no process. */
int script_pool_new(const struct script_limits *l, unsigned workers, struct script_pool **out) TFS_MUST;
/* Ends the workers.  No run is open.  NULL is allowed. */
void script_pool_free(struct script_pool *p);
/* New runs have these limits; the pool keeps its number of workers. */
void script_pool_set_limits(struct script_pool *p, const struct script_limits *l);

/*
 * Takes places for runs of the user, all or none.  A user has at most `share` places, but may always take `count`.  Threads get
 * places in the order in which they came.  Waits for wait_us at most, and for less if many threads wait.  -EAGAIN: no place in time.
 */
int script_pool_take(struct script_pool *p, uint32_t uid, unsigned count, unsigned share, uint64_t wait_us) TFS_MUST;
void script_pool_give(struct script_pool *p, uint32_t uid, unsigned count);
/*
 * Uses a place that the caller has taken for the user.  Compiles the text and runs the script as far as its declarations.
 * The run borrows the pool, and copies the text.
 */
int script_run_new(
	struct script_pool *p, uint32_t uid, const struct script_text *t, struct script_run **out, struct buf *why) TFS_MUST;
/*
 * Returns true if the text may read cells.  One that has neither the word get nor the word cells, comments included, has
 * no way to do so but one that builds the word.
 */
bool script_reads_cells(struct tfs_bytes text);
/* Adds a row without cells.  Errors: those of script_run_cell. */
int script_run_row(struct script_run *r, struct tfs_bytes row, struct buf *why) TFS_MUST;
/*
 * Adds a cell.  The cells of a row follow each other; those of a column are newest first.
 * A row ends when a cell of another row comes, and at a take.  The cell is copied.
 * Returns an error if the run has ended; the error may belong to an earlier row.
 */
int script_run_cell(struct script_run *r, const struct script_cell *c, struct buf *why) TFS_MUST;
/*
 * Ends the row and waits until the worker has run all rows.  Replaces *delta.  A script: its outputs
 * since the last take, which the worker then forgets.  A filter: one byte, 0 or 1, for each row since the last take.
 */
int script_run_take(struct script_run *r, struct buf *delta, struct buf *why) TFS_MUST;
/* About how many bytes a take would return, as the worker last told.  A script whose outputs nothing takes meets its limit of memory. */
size_t script_run_waiting(const struct script_run *r);
/* The worker becomes free; it is killed if it is still busy.  NULL is allowed. */
void script_run_free(struct script_run *r);

/* ---- the client's side ---- */

enum script_record_kind { SCRIPT_RESULT, SCRIPT_LINE, SCRIPT_CELL };
struct script_record {
	enum script_record_kind kind;
	struct tfs_bytes output, key, value; /* RESULT: all; LINE: output and value */
	struct script_cell cell;             /* CELL */
};
/* memory: the most bytes that the merged outputs may have. */
int script_outputs_new(uint64_t memory, struct script_outputs **out) TFS_MUST;
/*
 * Merges a delta, which script_outputs_streamed borrows until the next call.  -EBADMSG: it is no delta, or
 * one of another script; -SCRIPT_LIMIT: the outputs are too large.  After an error the outputs can only be freed.
 */
int script_outputs_add(struct script_outputs *o, struct tfs_bytes delta, struct buf *why) TFS_MUST;
/* Returns 1 and the next line or cell of the last delta, or 0.  The record borrows the delta. */
int script_outputs_streamed(struct script_outputs *o, struct script_record *r) TFS_MUST;
/*
 * After the last delta: returns 1 and the next result, 0 at the end, -EINVAL (a sum does not fit; *why is set), -ENOMEM.  Results are in the order of
 * the declarations, then of their keys; the results of a `top` output are in the order of their counts.  The record is valid until the next call.
 */
int script_outputs_result(struct script_outputs *o, struct script_record *r, struct buf *why) TFS_MUST;
void script_outputs_free(struct script_outputs *o); /* NULL is allowed */

#endif
