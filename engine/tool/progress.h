/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of a long command, on standard error, and the signals that
 * interrupt it.  A program has one progress.
 *
 * On a terminal one line is written again each second.  Otherwise a line is added
 * each minute.  A thread prints them, so a command that waits for a disk or a mount
 * shows them too.
 *
 * The thread also waits for SIGINT, SIGTERM and SIGHUP, unless they are ignored.
 * Then it prints a message and ends the program with 128 plus the signal's number,
 * which is sound at each instant, because each command can be killed.  A command
 * that polls ends itself; a second signal kills it.
 *
 * Threads: any thread may set the counters; the rest is for the main thread.
 */
#ifndef TFS_TOOL_PROGRESS_H
#define TFS_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress_options {
	const char *command;     /* "import" */
	const char *done;        /* "imported" */
	const char *interrupted; /* the state that an interruption leaves, for the message */
	bool quiet;              /* only the signals */
	bool polls;
	bool summary;               /* the last line is printed also if no line was printed before */
	void (*refresh)(void *arg); /* called by the thread before it prints, and not after progress_end; may be NULL */
	void *arg;
};

/* Call it before the first thread is made, because threads inherit the blocked signals. */
void progress_begin(const struct progress_options *o);
void progress_end(void);
/* The bytes were read, but not all of them are done: the last line says so, and the number of cells also if it is 0. */
void progress_failed(void);
/* The time left is estimated from `done` of `total` parts of the work.  about: total is an estimate.  0: unknown. */
void progress_total(uint64_t total, bool about);
void progress_add(uint64_t bytes); /* bytes are also parts of the work (progress_total) */
void progress_set(uint64_t bytes, uint64_t done);
/* Each is printed if it is not 0. */
void progress_cells(uint64_t cells, uint64_t rows);
/* Removes the line from the terminal, before a message. */
void progress_clear(void);

/* Returns the number of the signal, or 0, for a command that polls. */
int progress_signal(void);
/* Waits until fd can be read.  Returns false if a signal came. */
bool progress_wait_input(int fd);

#endif
