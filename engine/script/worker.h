/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a worker process (the program tabletfs-script).  One thread.
 *
 * A run that exceeds a limit ends the process at once.  So no Lua code can catch it.
 */
#ifndef TFS_SCRIPT_WORKER_H
#define TFS_SCRIPT_WORKER_H

#include "engine/script/channel.h"
#include "engine/script/output.h"

#include <errno.h>
#include <lua.h>

struct row_cell {
	struct tfs_bytes family, qualifier, value;
	int64_t ts;
};

struct worker {
	struct shared *shared;
	struct ring_end in, out;
	struct script_limits limits; /* the limits of the run */
	struct budget budget;        /* all memory of the run */
	uint64_t collected;          /* bytes in use after the last early collection */
	uint64_t used;               /* instructions of this row */
	uint64_t time_end_us;        /* the processor time at which the run must have ended; 0: no run is open */
	lua_State *lua;              /* the state of the run, or NULL */
	bool filter, rows_only;      /* of struct script_text */
	bool begun;                  /* the declarations are over */
	bool in_row;
	char name[OUTPUT_NAME_MAX + 1];
	/* The row */
	struct budget_bytes key;
	struct budget_bytes cells; /* an array of struct row_cell, whose bytes are in the blocks */
	size_t cell_count, found;  /* found: the cell that the last look-up found */
	void *blocks;              /* the memory of the cells' bytes (worker_row.c) */
	uint64_t adds;             /* additions to samples in this row */
	/* The outputs since the last take */
	struct output outputs[OUTPUTS_MAX];
	unsigned output_count;
	struct budget_bytes streamed; /* lines and cells; if the script is a filter, its answers */
};

/* The worker of this process. */
struct worker *worker_get(void);
/* Writes the reason for the end of the run, and ends the process. */
_Noreturn void worker_fail(enum channel_outcome outcome, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void worker_limit(const char *limit, uint64_t value, const char *unit);
/* Counts n instructions more of this row. */
void worker_charge(uint64_t n);
/* Ends the process after an error of the budget. */
void worker_check(int err);
/* The processor time of this process. */
uint64_t worker_time_us(void);
/* The allocator of Lua, and of the budget's other users. */
void *worker_lua_alloc(void *arg, void *p, size_t before, size_t n);
/* Ends the process if Lua was refused memory and has continued. */
void worker_check_refusal(void);
/* Called every HOOK_EVERY instructions: frees what Lua does not need if much of the memory is in use. */
void worker_collect_early(void);
/* Sets the limits of a new run. */
void worker_begin(const struct script_limits *l);

#endif
