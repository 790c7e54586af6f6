/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and frees the server's parts: worker pools, caches, the log of this
 * incarnation, and the environments (tablet_env) of the root tablet, METADATA's
 * tablets and user tablets.
 *
 * The root tablet and METADATA's tablets have workers and a memtable bound of
 * their own, and their writes are not throttled.  Otherwise the flush of a user
 * tablet, which writes METADATA, could wait for itself.
 */
#include "engine/server/server.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define META_MEMTABLE_BYTES (4u << 20)
#define METADATA_TABLET_BYTES (UINT64_C(16) << 20)
#define MERGE_AFTER_US UINT64_C(3600000000)
#define MERGE_READ_TRIES 100
#define LOGS_FLUSH_AGE_US UINT64_C(3600000000)
#define REPLAY_PART_BYTES (16u << 20)
#define SORTED_BYTES (256u << 20)
/*
 * Nice values added to threads of background work.  Beside a busy thread, a compaction
 * then gets about a quarter of a processor, and a flush a third.  A flush begins long
 * before writers need its memory.  If it is late, they sleep and leave it the processor.
 * The pools of METADATA add none.
 */
#define COMPACT_NICER 5
#define FLUSH_NICER 3

/* The task after tablet_env.over_memory: flushes the user tablet with the largest memtables. */
static void flush_largest(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, flush_task));
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
		if (st.memory_bytes > most) {
			most = st.memory_bytes;
			largest = list[i];
		}
	}
	/* The tablet has logged an error.  The next write above the bound queues the task again. */
	if (largest)
		(void)!tablet_flush(largest->tablet);
	served_list_put(list, count);
}

/* Enlarges the reserve of a store that has grown, then runs logs_task. */
static void grow_and_drop_logs(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, logs_task));
	struct served_sums sums;

	if (!s->recovering && !s->closing && !served_sum(s, &sums))
		space_grow(s, sums.disk_bytes + log_bytes(s->log));
	logs_task(t);
}

static void over_memory(void *arg)
{
	struct server *s = arg;

	server_queue(s, &s->flush_task);
}

static void redo_moved(void *arg)
{
	struct server *s = arg;

	server_queue(s, &s->logs_task);
	space_check_soon(s);
}

static void tablet_changed(void *arg, struct tablet *t)
{
	struct server *s = arg;

	server_queue(s, &s->moves_task);
	space_check_soon(s);
}

static bool space_for_user(void *arg, enum disk_use use, uint64_t bytes)
{
	return space_get(arg, use, bytes);
}

/* METADATA's compactions may use the whole reserve: they are small, and removals need them. */
static bool space_for_metadata(void *arg, enum disk_use use, uint64_t bytes)
{
	return space_get(arg, DISK_METADATA, bytes);
}

static int make_log(struct server *s, const struct server_options *o)
{
	struct log_options lo = {
		.incarnation = s->incarnation,
		.segment_bytes = logs_first_segment_bytes(o->log_segment_bytes),
		.sync_interval_us = o->sync_interval_us,
		.stall_us = o->log_stall_us,
		.pool = s->log_pool,
		.rolled = o->no_background ? NULL : &s->logs_task,
	};
	char *logs = path_join(s->data_dir, "log"), *dir;
	int err;

	if (!logs || asprintf(&dir, "%s/%llu", logs, (unsigned long long)s->incarnation) < 0) {
		free(logs);
		return -ENOMEM;
	}
	err = file_mkdir(dir);
	if (!err)
		err = file_sync_dir(logs);
	lo.dir = dir;
	if (!err && o->held) {
		err = fence_new(s, o, dir, &s->fence);
		lo.fence = fence_check;
		lo.fence_arg = s->fence;
	}
	if (!err)
		err = log_new(&lo, &s->log);
	if (!err && s->fence && !o->no_background)
		fence_watch(s->fence);
	free(logs);
	free(dir);
	return err;
}

static int make_pools(struct server *s, const struct server_options *o)
{
	static const char *const names[KINDS] = {"flush-root", "flush-meta", "flush"};
	int err = task_pool_new("misc", 2, &s->misc);

	/* The log has a pool of its own, because tasks of misc may wait for a flush longer than the interval of a lazy sync. */
	if (!err)
		err = task_pool_new("log", 2, &s->log_pool);
	if (!err)
		err = task_pool_new("split", 1, &s->move);
	for (unsigned k = 0; k < KINDS && !err; k++)
		err = task_pool_new(names[k], 1, &s->flush[k]);
	if (!err)
		err = task_pool_new("compact", o->compaction_threads ? o->compaction_threads : 1, &s->compact);
	if (!err) {
		task_pool_order(s->compact, compact_urgency);
		task_pool_yield(s->compact, COMPACT_NICER);
		task_pool_yield(s->flush[KIND_USER], FLUSH_NICER);
		task_pool_yield(s->misc, FLUSH_NICER); /* flush_task and logs_task flush tablets */
	}
	return err;
}

static void fill_env(struct server *s, enum kind k, const struct server_options *o)
{
	struct tablet_env *e = &s->env[k];

	e->compactor = &compact_functions;
	e->data_dir = s->data_dir;
	e->incarnation = s->incarnation;
	/* File numbers are unique in an incarnation.  So the counters of the three kinds begin far apart. */
	atomic_init(&e->next_file, ((uint64_t)k << 48) + 1);
	e->cache = s->cache;
	e->log = s->log;
	e->clock = s->clock;
	e->flush_pool = s->flush[k];
	/* METADATA's compactions must not wait behind those of user tablets. */
	e->compact_pool = k == KIND_USER ? s->compact : s->flush[k];
	e->memtable_bytes = k == KIND_USER ? o->memtable_bytes : META_MEMTABLE_BYTES;
	atomic_init(&s->memory[k], 0);
	e->memory_used = &s->memory[k];
	e->major_within_us = s->major_within_us;
	e->look_us = o->look_us;
	e->scan_view_us = o->scan_view_us;
	e->compaction_rate = k == KIND_USER ? o->compaction_rate : 0;
	e->unthrottled = k != KIND_USER;
	e->no_background = s->no_background;
	if (k == KIND_USER) {
		e->over_memory = over_memory;
		e->disk_full = &s->space.full;
		e->will_close = &s->will_close;
	}
	e->space = k == KIND_USER ? space_for_user : space_for_metadata;
	e->redo_moved = redo_moved;
	e->changed = tablet_changed;
	e->arg = s;
}

int server_new(const struct server_options *o, struct lock_service *locks, struct server **out)
{
	struct server *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	if (!s)
		return -ENOMEM;
	mutex_init(&s->lock, RANK_SERVER);
	mutex_init(&s->space.lock, RANK_SPACE);
	mutex_init(&s->files_lock, RANK_FILES);
	mutex_init(&s->changed_files_lock, RANK_FILES);
	cond_init(&s->collected_now);
	cond_init(&s->changed);
	clients_init(s);
	server_service_init(s);
	s->recovering = true;
	s->locks = locks;
	s->incarnation = o->incarnation;
	s->started_s = time(NULL);
	s->watchers[0].last[0].at_us = s->watchers[0].last[1].at_us = monotonic_us();
	s->sync = o->sync || o->held;
	s->no_background = o->no_background;
	s->scan_idle_us = SCAN_IDLE_US;
	s->log_segment_bytes = o->log_segment_bytes;
	s->major_within_us = o->major_within_us;
	s->merge_after_us = o->merge_after_us ? o->merge_after_us : MERGE_AFTER_US;
	s->metadata_tablet_bytes = o->metadata_tablet_bytes ? o->metadata_tablet_bytes : METADATA_TABLET_BYTES;
	s->logs_flush_age_us = o->logs_flush_age_us ? o->logs_flush_age_us : LOGS_FLUSH_AGE_US;
	s->replay_part_bytes = o->replay_part_bytes ? o->replay_part_bytes : REPLAY_PART_BYTES;
	s->sorted_bytes_most = o->sorted_bytes ? o->sorted_bytes : SORTED_BYTES;
	s->servers = o->servers;
	s->merge_read_tries = o->merge_read_tries ? o->merge_read_tries : MERGE_READ_TRIES;
	s->metadata = server_service(s);
	s->dead_logs = true;
	s->data_dir = strdup(o->data_dir);
	s->tmp_dir = strdup(o->tmp_dir ? o->tmp_dir : "/var/tmp");
	if (!o->clock)
		s->own_clock = clock_new(NULL, NULL);
	s->clock = o->clock ? o->clock : s->own_clock;
	if (s->data_dir && s->tmp_dir && s->clock)
		err = make_pools(s, o);
	if (!err) {
		/* Before anything else can fail, because server_free cancels the tasks.  If make_pools failed, they are zero, and task_cancel ignores them. */
		task_init(&s->flush_task, s->misc, flush_largest);
		task_init(&s->logs_task, s->misc, grow_and_drop_logs);
		task_init(&s->moves_task, s->move, moves_task);
		task_init(&s->resolve_task, s->move, moves_resolve_task);
		task_init(&s->clock_task, s->misc, clock_task_run);
		task_init(&s->schemas_task, s->misc, schemas_task_run);
		task_init(&s->scans_task, s->misc, scans_task);
		task_init(&s->sort_task, s->misc, seal_sort_task);
		err = sst_cache_new(o->block_cache_bytes, o->table_cache_bytes, &s->cache);
	}
	if (!err) {
		sst_cache_on_retired(s->cache, files_retired, s);
		err = make_log(s, o);
	}
	if (!err)
		err = meta_store_schema(&s->meta_schema);
	if (err) {
		(void)!server_free(s, false);
		return err;
	}
	for (unsigned k = 0; k < KINDS; k++)
		fill_env(s, k, o);
	server_clock_start(s, (int64_t)o->clock_gap_us);
	*out = s;
	return 0;
}

void server_set_metadata(struct server *s, struct tablet_service *svc)
{
	s->metadata = svc;
}

void server_change(struct server *s, const struct server_settings *to)
{
	struct tablet_env *e = &s->env[KIND_USER];

	s->sync = to->sync || s->fence;
	e->memtable_bytes = to->memtable_bytes;
	if (e->compaction_rate != to->compaction_rate) {
		e->compaction_rate = to->compaction_rate;
		e->paced_us = 0; /* the old rate delays no later write */
	}
	log_set_sync_interval(s->log, to->sync_interval_us);
	sst_cache_resize(s->cache, to->block_cache_bytes, to->table_cache_bytes);
	if (s->memory[KIND_USER] > to->memtable_bytes)
		server_queue(s, &s->flush_task);
}

void server_will_close(struct server *s)
{
	s->will_close = true;
}

struct clock *server_clock(struct server *s)
{
	return s->clock;
}

/* Flushes user tablets, then METADATA's, then the root tablet, because a flush writes the tablet's row in the next of these three. */
static void flush_all(struct server *s)
{
	struct served_tablet **list;
	unsigned count;

	if (served_list(s, 0, &list, &count))
		return;
	for (unsigned i = count; i-- > 0;) {
		int err = tablet_flush(list[i]->tablet);

		if (err)
			msg_warning("a memtable could not be written out (%s); it will be replayed from the log", error_text(err));
	}
	served_list_put(list, count);
}

static void cancel_tasks(struct server *s)
{
	task_cancel(&s->flush_task);
	task_cancel(&s->logs_task);
	task_cancel(&s->space.task);
	task_cancel(&s->moves_task);
	task_cancel(&s->resolve_task);
	task_cancel(&s->clock_task);
	task_cancel(&s->schemas_task);
	task_cancel(&s->scans_task);
	task_cancel(&s->sort_task);
}

/*
 * No task may run while the set of tablets is emptied: logs_task would remove
 * the segments of tablets that are not in the set any more.  Queued tasks are
 * cancelled here.  A task that is queued later checks closing first and does
 * nothing.
 */
static void stop(struct server *s)
{
	s->closing = true;
	fence_stop(s->fence);
	cancel_tasks(s);
	scans_free(s);
	actions_free(s);
	seal_sorted_free(s);
}

void server_stop(struct server *s)
{
	stop(s);
	flush_all(s);
	served_drop_users(s);
}

int server_free(struct server *s, bool flush)
{
	int err = 0;

	if (!s)
		return 0;
	stop(s);
	if (flush && s->log && !s->recovering) {
		flush_all(s);
		(void)!log_sync(s->log);
	}
	served_drop_all(s);
	cancel_tasks(s); /* the tablets' last work may have queued tasks */
	if (s->tables || s->locks)
		schemas_free(s);
	if (s->log)
		err = log_free(s->log);
	fence_free(s->fence);
	for (unsigned k = KINDS; k-- > 0;)
		task_pool_free(s->flush[k]);
	task_pool_free(s->compact);
	task_pool_free(s->log_pool);
	task_pool_free(s->misc);
	task_pool_free(s->move);
	replay_needed_fini(&s->needed);
	free(s->freed);
	if (s->cache)
		sst_cache_free(s->cache);
	store_schema_put(s->meta_schema);
	if (s->own_clock)
		clock_free(s->own_clock);
	cond_fini(&s->changed);
	clients_fini(s);
	mutex_fini(&s->space.lock);
	mutex_fini(&s->changed_files_lock);
	mutex_fini(&s->files_lock);
	cond_fini(&s->collected_now);
	mutex_fini(&s->lock);
	free(s->data_dir);
	free(s->tmp_dir);
	free(s);
	return err;
}
