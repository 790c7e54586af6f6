/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers of this server to the collector (master/collect.c), which removes
 * SSTables and dead logs.  The server itself unlinks segments of its own log
 * only, and outputs that it could not finish, whose names nothing else knows.
 *
 * A file is in use if it has an object in the table cache.  An output has a pin
 * from before its creation until it is installed or abandoned.  Each file of a
 * tablet's row has a pin, and each file with a reader.  So a file whose object
 * ceases to exist after an edit removed it from a tablet is probably free.  Its
 * name is added to a list for the collector, which checks it.
 *
 * A thread that finds no space on the disk runs a round itself (files_collect).
 *
 * The list is in memory only.  Without memory for a name, or after a crash, the
 * collector finds the file when it lists the directories.
 */
#include "engine/server/storage/storage.h"
#include "engine/base/units.h"

#include <errno.h>
#include <stdlib.h>

struct files {
	struct mutex lock; /* RANK_FILES; guards the next members */
	struct ts_file *freed;
	unsigned freed_count;
	uint64_t retired,
		collected; /* the number of files retired so far; of files retired before the last call of collector.now */
	struct server_collector collector; /* server_set_collector */
	unsigned collecting;               /* calls of collector.now under way */
	struct cond collected_now;         /* a call of collector.now has ended */
};

void files_notify(struct server *s)
{
	mutex_lock(&s->files->lock);
	if (s->files->collector.soon)
		s->files->collector.soon(s->files->collector.arg, space_is_full(s));
	mutex_unlock(&s->files->lock);
}

bool files_collect(struct server *s)
{
	struct server_collector c;
	bool any;

	mutex_lock(&s->files->lock);
	c = s->files->collector;
	any = c.now && s->files->retired != s->files->collected;
	s->files->collected = s->files->retired;
	s->files->collecting += any;
	mutex_unlock(&s->files->lock);
	if (!any)
		return false;
	c.now(c.arg);
	mutex_lock(&s->files->lock);
	s->files->collecting--;
	cond_broadcast(&s->files->collected_now);
	mutex_unlock(&s->files->lock);
	return true;
}

void files_retired(void *arg, const char *path)
{
	struct server *s = arg;
	const char *name = path + strlen(s->o.data_dir) + strlen("/sst/");
	struct ts_file f;
	uint64_t table;

	if (!number_parse(name, '/', &table, &name) || !meta_sstable_parse(name, &f.incarnation, &f.number))
		return;
	f.table = (uint32_t)table;
	mutex_lock(&s->files->lock);
	if (array_grow(&s->files->freed, s->files->freed_count, sizeof(*s->files->freed)) == 0)
		s->files->freed[s->files->freed_count++] = f;
	s->files->retired++;
	mutex_unlock(&s->files->lock);
	files_notify(s);
}

void server_set_collector(struct server *s, const struct server_collector *c)
{
	mutex_lock(&s->files->lock);
	s->files->collector = c ? *c : (struct server_collector){0};
	while (s->files->collecting)
		cond_wait(&s->files->collected_now, &s->files->lock);
	mutex_unlock(&s->files->lock);
}

/* Moves names of the list to the answer. */
static int take_freed(struct server *s, struct ts_answer *a)
{
	mutex_lock(&s->files->lock);
	a->file_count = s->files->freed_count < TS_FILES_MAX ? s->files->freed_count : TS_FILES_MAX;
	a->files = arena_alloc(&a->arena, (a->file_count + 1u) * sizeof(*a->files));
	if (a->files && a->file_count) {
		s->files->freed_count -= a->file_count;
		memcpy(a->files, s->files->freed + s->files->freed_count, a->file_count * sizeof(*a->files));
	}
	mutex_unlock(&s->files->lock);
	return a->files ? 0 : -ENOMEM;
}

uint64_t logs_needed_next(struct served_tablet *const *list, unsigned count, uint64_t above)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < count; i++) {
		uint64_t n = tablet_redo_next(list[i]->tablet, above);

		if (n && (!next || n < next))
			next = n;
	}
	return next;
}

static int list_logs(struct server *s, struct ts_answer *a)
{
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	for (uint64_t n = 0; !err && (n = logs_needed_next(list, count, n));) {
		uint64_t *more = arena_alloc(&a->arena, (a->log_count + 1u) * sizeof(*more)); /* there are few */

		err = more ? 0 : -ENOMEM;
		if (err)
			break;
		if (a->log_count)
			memcpy(more, a->logs, a->log_count * sizeof(*more));
		more[a->log_count++] = n;
		a->logs = more;
	}
	served_list_put(list, count);
	return err;
}

int files_call(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = 0;

	if (!q->file_count) {
		err = list_logs(s, a);
		return err ? err : take_freed(s, a);
	}
	if (!a->row_errs)
		return -EINVAL;
	for (uint32_t i = 0; i < q->file_count; i++) {
		const struct ts_file *f = &q->files[i];
		char *path = tablet_file_path(s->o.data_dir, f->table, f->incarnation, f->number);

		if (!path)
			return -ENOMEM;
		a->row_errs[i] = sst_in_use(s->cache, path) ? -EBUSY : 0;
		free(path);
	}
	return err;
}

static int begin(struct server *s, struct task_pool *pool)
{
	mutex_init(&s->files->lock, RANK_FILES);
	cond_init(&s->files->collected_now);
	return 0;
}

static void end(struct server *s)
{
	free(s->files->freed);
	cond_fini(&s->files->collected_now);
	mutex_fini(&s->files->lock);
}

const struct server_part files_part = {offsetof(struct server, files), sizeof(struct files), begin, NULL, end};
