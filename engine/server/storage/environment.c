/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the tablets of a server share: worker pools, the bound of
 * memtables, and the environments (tablet_env) of the root tablet, METADATA's
 * tablets and user tablets.
 *
 * The root tablet and METADATA's tablets have workers and a memtable bound of
 * their own, and their writes are not throttled.  Otherwise the flush of a user
 * tablet, which writes METADATA, could wait for itself.
 */
#include "engine/server/storage/storage.h"

#include <errno.h>
#include <stdlib.h>

#define META_MEMTABLE_BYTES (4u << 20)
/*
 * Nice values added to threads of background work.  Beside a busy thread, a compaction
 * then gets about a quarter of a processor, and a flush a third.  A flush begins long
 * before writers need its memory.  If it is late, they sleep and leave it the processor.
 * The pools of METADATA add none.
 */
#define COMPACT_NICER 5
#define FLUSH_NICER 3

struct environment {
	struct server *s;
	struct task_pool *flush[KINDS], *compact, *misc, *of_log;
	struct tablet_env env[KINDS];
	_Atomic size_t memory[KINDS];
	struct task flush_task;
	_Atomic bool will_close; /* server_will_close */
};

/* The task after tablet_env.over_memory: flushes the user tablet with the largest memtables. */
static void flush_largest(struct task *t)
{
	struct server *s = ((struct environment *)(void *)((char *)t - offsetof(struct environment, flush_task)))->s;
	struct served_tablet **list, *largest = NULL;
	uint64_t most = 0;
	unsigned count;

	if (s->closing || served_list(s, 0, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++) {
		struct tablet_stats st;

		if (list[i]->kind != KIND_USER)
			continue;
		tablet_get_stats(list[i]->tablet, &st);
		if (st.memory_bytes + st.changes_memory_bytes > most) {
			most = st.memory_bytes + st.changes_memory_bytes;
			largest = list[i];
		}
	}
	/* The tablet has logged an error.  The next write above the bound queues the task again. */
	if (largest)
		(void)!tablet_flush(largest->tablet);
	served_list_put(list, count);
}

static void over_memory(void *arg)
{
	struct server *s = arg;

	server_queue(s, &s->env->flush_task);
}

static int make_pools(struct environment *x)
{
	static const char *const names[KINDS] = {"flush-root", "flush-meta", "flush"};
	const unsigned threads = x->s->o.compaction_threads;
	int err = task_pool_new("misc", 2, &x->misc);

	/* The log has a pool of its own, because tasks of misc may wait for a flush longer than the interval of a lazy sync. */
	if (!err)
		err = task_pool_new("log", 2, &x->of_log);
	for (unsigned k = 0; k < KINDS && !err; k++)
		err = task_pool_new(names[k], 1, &x->flush[k]);
	if (!err)
		err = task_pool_new("compact", threads ? threads : 1, &x->compact);
	if (!err) {
		task_pool_order(x->compact, compact_urgency);
		task_pool_yield(x->compact, COMPACT_NICER);
		task_pool_yield(x->flush[KIND_USER], FLUSH_NICER);
		task_pool_yield(x->misc, FLUSH_NICER); /* flush_task and the log's task flush tablets */
	}
	return err;
}

static void fill_env(struct server *s, enum kind k)
{
	const struct server_options *o = &s->o;
	struct environment *x = s->env;
	struct tablet_env *e = &x->env[k];

	e->compactor = &compact_functions;
	e->data_dir = o->data_dir;
	e->incarnation = o->incarnation;
	/* File numbers are unique in an incarnation.  So the counters of the three kinds begin far apart. */
	atomic_init(&e->next_file, ((uint64_t)k << 48) + 1);
	e->cache = s->cache;
	e->log = s->log;
	e->clock = o->clock;
	e->flush_pool = x->flush[k];
	/* METADATA's compactions must not wait for compactions of user tablets. */
	e->compact_pool = k == KIND_USER ? x->compact : x->flush[k];
	e->memtable_bytes = k == KIND_USER ? o->memtable_bytes : META_MEMTABLE_BYTES;
	atomic_init(&x->memory[k], 0);
	e->memory_used = &x->memory[k];
	e->major_within_us = o->major_within_us;
	e->look_us = o->look_us;
	e->scan_view_us = o->scan_view_us;
	e->compaction_rate = k == KIND_USER ? o->compaction_rate : 0;
	e->unthrottled = k != KIND_USER;
	e->no_background = o->no_background;
	if (k == KIND_USER) {
		e->over_memory = over_memory;
		e->will_close = &x->will_close;
	}
	e->arg = s;
}

void environment_fill(struct server *s)
{
	for (unsigned k = 0; k < KINDS; k++)
		fill_env(s, k);
}

struct task_pool *environment_misc(struct server *s)
{
	return s->env->misc;
}

struct task_pool *environment_of_log(struct server *s)
{
	return s->env->of_log;
}

struct tablet_env *environment_of(struct server *s, enum kind kind)
{
	return &s->env->env[kind];
}

void environment_change(struct server *s, size_t memtable_bytes, uint64_t compaction_rate)
{
	struct tablet_env *e = &s->env->env[KIND_USER];

	e->memtable_bytes = memtable_bytes;
	if (e->compaction_rate != compaction_rate) {
		e->compaction_rate = compaction_rate;
		e->paced_us = 0; /* the old rate delays no later write */
	}
	if (s->env->memory[KIND_USER] > memtable_bytes)
		over_memory(s);
}

void server_will_close(struct server *s)
{
	s->env->will_close = true;
}

uint64_t memtables_bytes(const struct server *s)
{
	uint64_t bytes = 0;

	for (unsigned k = 0; k < KINDS; k++)
		bytes += s->env->memory[k];
	return bytes;
}

static void end(struct server *s)
{
	struct environment *x = s->env;

	for (unsigned k = KINDS; k-- > 0;)
		task_pool_free(x->flush[k]);
	task_pool_free(x->compact);
	task_pool_free(x->of_log);
	task_pool_free(x->misc);
}

static int begin(struct server *s, struct task_pool *pool)
{
	struct environment *x = s->env;
	int err;

	x->s = s;
	err = make_pools(x);
	if (err)
		end(s);
	else
		task_init(&x->flush_task, x->misc, flush_largest);
	return err;
}

static void stop(struct server *s)
{
	task_cancel(&s->env->flush_task);
}

const struct server_part env_part = {offsetof(struct server, env), sizeof(struct environment), begin, stop, end};
