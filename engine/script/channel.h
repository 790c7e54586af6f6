/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel between a server and a worker: two rings of bytes in shared memory, and a socket that
 * carries wake-ups of one byte.  The worker's death closes the socket.
 *
 * The server sends messages: an enum channel_message as a byte, then its fields.  Lengths are u64, the
 * sizes of numbers are the machine's.
 *   RUN   struct script_limits, u8 filter, u8 rows_only, name, text, u64 count, arguments; each text has its length before it
 *   ROW   u64 length, key
 *   CELL  struct channel_cell, family, qualifier, value
 *   TAKE  answered by a delta in pieces: {u64 length, bytes} ..., and then the length 0
 *   END   the run is over
 * The two programs are of one version, because they are installed together.  RUN and TAKE are answered; a RUN by one byte.  A failure is no message: the worker writes it to
 * shared.failure and ends.
 *
 * The server believes nothing that the worker has written: it copies a value, then checks the copy.
 */
#ifndef TFS_SCRIPT_CHANNEL_H
#define TFS_SCRIPT_CHANNEL_H

#include "engine/script/script.h"

#include <stdatomic.h>

enum { CHANNEL_FD = 3, CHANNEL_MEMORY_FD = 4, CHANNEL_RING = 1 << 19, CHANNEL_STEP = 1 << 15, CHANNEL_WHY = 480, CHANNEL_ROW = 96 };
enum channel_message { CHANNEL_RUN = 1, CHANNEL_ROW_BEGINS, CHANNEL_CELL, CHANNEL_TAKE, CHANNEL_END };

struct channel_cell {
	int64_t ts;
	uint64_t family, qualifier, value; /* bytes */
};

struct shared_ring {
	_Atomic uint64_t written, read; /* bytes since the start; written - read <= CHANNEL_RING */
	_Atomic uint32_t reader_waits, writer_waits;
	uint8_t bytes[CHANNEL_RING];
};

enum channel_outcome { CHANNEL_RUNS, CHANNEL_FAILED, CHANNEL_AT_LIMIT, CHANNEL_BROKEN };
struct shared_failure {
	uint32_t outcome, why_bytes; /* enum channel_outcome, set last: the script failed, is at a limit, or does not run here */
	char why[CHANNEL_WHY];
};

struct shared {
	uint64_t memory_limit;    /* the memory limit of runs, in bytes */
	_Atomic uint64_t waiting; /* about how many bytes a take would return */
	uint32_t row_bytes;       /* the length of the key of the row that is run; `row` has its first CHANNEL_ROW bytes */
	uint8_t row[CHANNEL_ROW];
	struct shared_failure failure;
	struct shared_ring in, out; /* the ring to the worker, and the ring to the server */
};

/* One end of a ring. */
struct ring_end {
	struct shared_ring *ring;
	uint64_t at;        /* bytes that this end wrote or read */
	uint64_t published; /* at, as the other end knows it */
	int fd;
	/* Waits for a wake-up or a death.  Returns 0, or an error that ends the call. */
	int (*wait)(void *arg);
	void *arg;
};
/* Both wait for space or bytes.  -EBADMSG: the other end's number is impossible; or an error of wait(). */
int ring_write(struct ring_end *e, const void *p, size_t n) TFS_MUST;
int ring_read(struct ring_end *e, void *p, size_t n) TFS_MUST;
/* The other end sees all that was written. */
void ring_flush(struct ring_end *e);

#endif
