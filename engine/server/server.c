/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and frees a server: its parts, its caches, and the log of this incarnation.
 */
#include "engine/server/server.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/server/requests/requests.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define METADATA_TABLET_BYTES (UINT64_C(16) << 20)
#define MERGE_AFTER_US UINT64_C(3600000000)
#define MERGE_READ_TRIES 100
#define LOGS_FLUSH_AGE_US UINT64_C(3600000000)
#define REPLAY_PART_BYTES (16u << 20)
#define SORTED_BYTES (256u << 20)

/* ---- what tablets report ---- */

static void redo_moved(void *arg)
{
	logs_soon(arg);
	space_check_soon(arg);
}

static void tablet_changed(void *arg, struct tablet *t)
{
	(void)t;
	retire_soon(arg);
	space_check_soon(arg);
}

static void fill_environments(struct server *s)
{
	environment_fill(s);
	for (unsigned k = 0; k < KINDS; k++) {
		struct tablet_env *e = environment_of(s, k);

		e->redo_moved = redo_moved;
		e->changed = tablet_changed;
	}
}

static int make_log(struct server *s)
{
	const struct server_options *o = &s->o;
	struct log_options lo = {
		.incarnation = o->incarnation,
		.segment_bytes = logs_first_segment_bytes(o->log_segment_bytes),
		.sync_interval_us = o->sync_interval_us,
		.stall_us = o->log_stall_us,
		.pool = environment_of_log(s),
		.rolled = o->no_background ? NULL : logs_task(s),
	};
	char *logs = path_join(o->data_dir, "log"), *dir;
	int err;

	if (!logs || asprintf(&dir, "%s/%llu", logs, (unsigned long long)o->incarnation) < 0) {
		free(logs);
		return -ENOMEM;
	}
	err = file_mkdir(dir);
	if (!err)
		err = file_sync_dir(logs);
	lo.dir = dir;
	if (!err && o->held) {
		err = fence_new(s, dir, &s->fence);
		lo.fence = fence_check;
		lo.fence_waits = fence_waits;
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

/* Copies the options, with their defaults. */
static int set_options(struct server *s, const struct server_options *options)
{
	struct server_options *o = &s->o;

	*o = *options;
	o->merge_after_us = o->merge_after_us ? o->merge_after_us : MERGE_AFTER_US;
	o->metadata_tablet_bytes = o->metadata_tablet_bytes ? o->metadata_tablet_bytes : METADATA_TABLET_BYTES;
	o->logs_flush_age_us = o->logs_flush_age_us ? o->logs_flush_age_us : LOGS_FLUSH_AGE_US;
	o->replay_part_bytes = o->replay_part_bytes ? o->replay_part_bytes : REPLAY_PART_BYTES;
	o->name = o->name ? o->name : "local";
	o->sorted_bytes = o->sorted_bytes ? o->sorted_bytes : SORTED_BYTES;
	o->merge_read_tries = o->merge_read_tries ? o->merge_read_tries : MERGE_READ_TRIES;
	o->data_dir = strdup(o->data_dir);
	o->tmp_dir = strdup(o->tmp_dir ? o->tmp_dir : "/var/tmp");
	return o->data_dir && o->tmp_dir ? 0 : -ENOMEM;
}

/* In this order they are made.  In reverse order they are stopped and freed. */
static const struct server_part *const parts[] = {&clients_part, &traffic_part, &tables_part, &set_part, &env_part, &mark_part,
	&files_part, &space_part, &logs_part, &replays_part, &schemas_part, &sorter_part, &retire_part, &scans_part, &actions_part};
enum { PARTS = sizeof(parts) / sizeof(*parts) };

/* The pointer to the part's struct. */
static void **part_at(struct server *s, const struct server_part *p)
{
	return (void **)(void *)((char *)s + p->at);
}

static int make_parts(struct server *s)
{
	int err = 0;

	for (unsigned i = 0; i < PARTS && !err; i++) {
		void **at = part_at(s, parts[i]);

		*at = calloc(1, parts[i]->size);
		err = !*at ? -ENOMEM : parts[i]->begin ? parts[i]->begin(s, s->env ? environment_misc(s) : NULL) : 0;
		if (err) {
			free(*at);
			*at = NULL;
		}
	}
	return err;
}

static void stop_parts(struct server *s)
{
	for (unsigned i = PARTS; i-- > 0;)
		if (parts[i]->stop && *part_at(s, parts[i]))
			parts[i]->stop(s);
}

static void free_parts(struct server *s)
{
	for (unsigned i = PARTS; i-- > 0;) {
		void **at = part_at(s, parts[i]);

		if (parts[i]->end && *at)
			parts[i]->end(s);
		free(*at);
		*at = NULL;
	}
}

int server_new(const struct server_options *o, struct lock_service *locks, struct server **out)
{
	struct server *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->recovering = true;
	s->locks = locks;
	s->sync = o->sync || o->held;
	err = set_options(s, o);
	if (!err)
		err = make_parts(s);
	if (!err) {
		logs_on_growth(s, space_grow);
		err = sst_cache_new(o->block_cache_bytes, o->table_cache_bytes, &s->cache);
	}
	if (!err) {
		sst_cache_on_retired(s->cache, files_retired, s);
		err = make_log(s);
	}
	if (err) {
		(void)!server_free(s, false);
		return err;
	}
	server_service_init(s);
	s->metadata = server_service(s);
	fill_environments(s);
	clock_mark_start(s);
	*out = s;
	return 0;
}

void server_set_metadata(struct server *s, struct tablet_service *svc)
{
	s->metadata = svc;
}

void server_change(struct server *s, const struct server_settings *to)
{
	s->sync = to->sync || s->fence;
	environment_change(s, to->memtable_bytes, to->compaction_rate);
	scans_change(s, &to->scripts);
	log_set_sync_interval(s->log, to->sync_interval_us);
	sst_cache_resize(s->cache, to->block_cache_bytes, to->table_cache_bytes);
}

struct clock *server_clock(struct server *s)
{
	return s->o.clock;
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

/*
 * No task may run while the set of tablets is emptied: the log's task would remove
 * the segments of tablets that are not in the set any more.  Queued tasks are
 * cancelled here.  A task that is queued later checks closing first and does
 * nothing.
 */
static void stop(struct server *s)
{
	s->closing = true;
	fence_stop(s->fence);
	if (s->tables)
		quotas_end(s);
	stop_parts(s);
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
	if (s->set)
		served_drop_all(s);
	if (s->log)
		err = log_free(s->log);
	stop_parts(s); /* the last work of the tablets and of the log may have queued tasks */
	fence_free(s->fence);
	if (s->cache)
		sst_cache_free(s->cache);
	free_parts(s);
	free((char *)s->o.data_dir);
	free((char *)s->o.tmp_dir);
	free(s);
	return err;
}
