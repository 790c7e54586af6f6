/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletfs-script: a process that runs scripts for a tablet server, one at a time.  The server
 * starts it with its channel (channel.h) and nothing else.  It reads messages until the socket is closed.
 */
#include "engine/base/hash.h"
#include "engine/script/worker_lua.h"
#include "engine/script/worker_row.h"
#include "engine/script/worker_sandbox.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int wait_server(void *arg)
{
	uint8_t bytes[64];

	if (recv(CHANNEL_FD, bytes, sizeof(bytes), 0) <= 0)
		_exit(0);
	return 0;
}

static void get(struct worker *w, void *p, size_t n)
{
	worker_check(ring_read(&w->in, p, n));
}

static struct tfs_bytes get_text(struct worker *w)
{
	uint64_t n;
	uint8_t *p;
	int err;

	get(w, &n, sizeof(n));
	worker_check(n > w->limits.memory ? -ENOMEM : 0);
	p = budget_alloc(&w->budget, n + 1, &err);
	worker_check(err);
	get(w, p, n);
	return tfs_bytes_of(p, n);
}

static void free_text(struct worker *w, struct tfs_bytes s)
{
	budget_free(&w->budget, (void *)(uintptr_t)s.p, s.n + 1);
}

static void begin_run(struct worker *w)
{
	struct script_limits limits;
	struct tfs_bytes name, text, *args;
	uint64_t count;
	uint8_t filter, rows_only;
	int err;

	get(w, &limits, sizeof(limits));
	worker_begin(&limits);
	get(w, &filter, 1);
	get(w, &rows_only, 1);
	w->filter = filter;
	w->rows_only = rows_only;
	name = get_text(w);
	memset(w->name, 0, sizeof(w->name));
	memcpy(w->name, name.p, name.n < OUTPUT_NAME_MAX ? name.n : OUTPUT_NAME_MAX);
	free_text(w, name);
	text = get_text(w);
	get(w, &count, sizeof(count));
	worker_check(count > w->limits.memory / sizeof(*args) ? -ENOMEM : 0);
	args = budget_alloc(&w->budget, (count + 1) * sizeof(*args), &err);
	worker_check(err);
	for (uint64_t i = 0; i < count; i++)
		args[i] = get_text(w);
	lua_begin(w, text, args, (unsigned)count);
	for (uint64_t i = 0; i < count; i++)
		free_text(w, args[i]);
	budget_free(&w->budget, args, (count + 1) * sizeof(*args));
	free_text(w, text);
	worker_check(ring_write(&w->out, "", 1));
	ring_flush(&w->out);
}

static int write_piece(void *arg, struct tfs_bytes piece)
{
	struct worker *w = arg;
	const uint64_t n = piece.n;
	int err = ring_write(&w->out, &n, sizeof(n));

	return err ? err : ring_write(&w->out, piece.p, piece.n);
}

static void take(struct worker *w)
{
	const uint64_t end = 0;
	int err = lua_take(w, write_piece, w);

	worker_check(err ? err : ring_write(&w->out, &end, sizeof(end)));
	ring_flush(&w->out);
}

static void end_run(struct worker *w)
{
	lua_end(w);
	/* Memory that a run does not free would be missing from the limit of the next run. */
	if (w->budget.used)
		worker_fail(CHANNEL_BROKEN, "the process that runs scripts has lost memory");
	w->shared->row_bytes = 0;
}

static void run_messages(struct worker *w)
{
	bool row = false;

	for (;;) {
		uint8_t message;

		get(w, &message, 1);
		if (row && message != CHANNEL_CELL) {
			lua_row(w);
			row = false;
		}
		switch (message) {
		case CHANNEL_RUN:
			begin_run(w);
			break;
		case CHANNEL_ROW_BEGINS:
			row_read_key(w);
			row = true;
			break;
		case CHANNEL_CELL:
			row_read_cell(w);
			break;
		case CHANNEL_TAKE:
			take(w);
			break;
		case CHANNEL_END:
			end_run(w);
			break;
		default:
			worker_fail(CHANNEL_BROKEN, "the process that runs scripts got an unknown message");
		}
	}
}

/* The first calls of some functions ask the kernel for random bytes or for its memory; later the process may not. */
static void prepare(void)
{
	uint64_t numbers[512] = {0};
	void *volatile first = malloc(1);

	free(first);
	(void)hash_private(0, tfs_bytes_of("", 0));
	qsort(numbers, sizeof(numbers) / sizeof(*numbers), sizeof(*numbers), number_order);
}

int main(void)
{
	struct worker *w = worker_get();

	w->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, CHANNEL_MEMORY_FD, 0);
	if (w->shared == MAP_FAILED)
		return EXIT_FAILURE;
	close(CHANNEL_MEMORY_FD);
	w->in = (struct ring_end){.ring = &w->shared->in, .fd = CHANNEL_FD, .wait = wait_server};
	w->out = (struct ring_end){.ring = &w->shared->out, .fd = CHANNEL_FD, .wait = wait_server};
	prepare();
	sandbox_enter();
	run_messages(w);
}
