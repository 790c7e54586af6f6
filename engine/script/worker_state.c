/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a run, and the end of the process at a limit. */
#include "engine/base/outcome.h"
#include "engine/script/worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct worker the_worker;

struct worker *worker_get(void)
{
	return &the_worker;
}

void worker_fail(enum channel_outcome outcome, const char *fmt, ...)
{
	struct shared_failure *f = &the_worker.shared->failure;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(f->why, sizeof(f->why), fmt, args);
	va_end(args);
	f->why_bytes = n < 0 ? 0 : n < CHANNEL_WHY ? (uint32_t)n : CHANNEL_WHY - 1;
	atomic_thread_fence(memory_order_seq_cst);
	f->outcome = outcome;
	_exit(1);
}

void worker_limit(const char *limit, uint64_t value, const char *unit)
{
	worker_fail(CHANNEL_AT_LIMIT, "%.200s: the limit of %s (%llu%s) was exceeded", the_worker.name, limit,
		(unsigned long long)value, unit);
}

void worker_charge(uint64_t n)
{
	struct worker *w = &the_worker;

	w->used = n > UINT64_MAX - w->used ? UINT64_MAX : w->used + n;
	if (w->used > w->limits.instructions)
		worker_limit("a row's instructions", w->limits.instructions, "");
}

void worker_check(int err)
{
	if (err == -SCRIPT_LIMIT || err == -ENOMEM)
		worker_limit("a run's memory", the_worker.limits.memory, " bytes");
	if (err)
		worker_fail(CHANNEL_BROKEN, "%.200s: the process that ran the script failed: %s", the_worker.name, error_text(err));
}

uint64_t worker_time_us(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A large allocation is work, too: its bytes are written. */
static void worked(size_t bytes)
{
	worker_charge(bytes / 64);
}

/* Frees what Lua does not need any more. */
static void collect(void)
{
	if (the_worker.lua)
		lua_gc(the_worker.lua, LUA_GCCOLLECT, 0);
}

/*
 * At the limit Lua frees what it does not need and repeats the call, so the
 * first refusal is NULL.  If the repeated call is refused, too, the process
 * ends.  Lua's buffers of texts do not repeat a call but raise an error; then
 * the next call or the hook ends the process.
 */
static struct {
	bool open;
	void *p;
	size_t before, n;
} refusal;

void worker_check_refusal(void)
{
	if (refusal.open)
		worker_check(-SCRIPT_LIMIT);
}

static bool is_over(const struct worker *w, size_t before, size_t n)
{
	return n > before && (w->budget.used > w->limits.memory || n - before > w->limits.memory - w->budget.used);
}

void *worker_lua_alloc(void *arg, void *p, size_t before, size_t n)
{
	struct worker *w = &the_worker;

	if (!p)
		before = 0;
	if (n > before && refusal.open && (p != refusal.p || before != refusal.before || n != refusal.n))
		worker_check_refusal();
	if (is_over(w, before, n)) {
		worker_check_refusal();
		refusal.open = true;
		refusal.p = p;
		refusal.before = before;
		refusal.n = n;
		return NULL;
	}
	worker_check(budget_resize(&w->budget, &p, before, n));
	if (n > before)
		refusal.open = false;
	return p;
}

/* Collects early, because buffers of texts are not repeated at the limit. */
void worker_collect_early(void)
{
	struct worker *w = &the_worker;

	worker_check_refusal();
	if (w->budget.used < w->limits.memory / 2 || w->budget.used < w->collected + w->limits.memory / 8)
		return;
	collect();
	w->collected = w->budget.used;
}

void worker_begin(const struct script_limits *l)
{
	struct worker *w = &the_worker;

	w->limits = *l;
	w->budget.limit = l->memory;
	w->budget.make_room = collect;
	w->budget.worked = worked;
	w->used = 0;
	w->collected = 0;
	refusal.open = false;
	w->time_end_us = worker_time_us() + l->time_us;
}
