/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An hour of numbers for the status page.  Every minute a task reads the metrics, and keeps
 * the differences to the minute before: 60 minutes of 40 bytes.  It also lists the snapshots
 * with the bytes that they pin, because that list reads METADATA as a whole, which a page
 * that is read every 3 seconds must not do.
 *
 * The numbers are lost when the daemon ends.  Prometheus keeps longer ones.
 */
#include "fs/http/history.h"

#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "fs/base/fs.h"
#include "fs/node/admin.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MINUTE_US 60000000u
#define BUCKETS 40u
#define SNAPSHOTS_MOST 200u

struct reading {
	uint64_t requests, compacted, store_bytes, bucket[BUCKETS];
	double bound[BUCKETS];
};

static struct {
	struct mutex lock; /* guards the next members; nothing is called under it */
	struct history_minute v[HISTORY_MINUTES];
	unsigned count;
	struct history_snapshot *snapshots;
	unsigned snapshot_count;
	/* only the task uses these */
	struct reading last;
	bool any;
	struct task task;
	struct task_pool *pool;
	_Atomic bool ends;
} history = {.lock = MUTEX_INITIALIZER(RANK_FS_NOTIFY)};

static bool is_metric(struct tfs_bytes line, const char *name)
{
	const size_t n = strlen(name);

	return line.n > n && memcmp(line.p, name, n) == 0 && (line.p[n] == ' ' || line.p[n] == '{');
}

static void read_line(struct reading *r, struct tfs_bytes line, unsigned *bucket)
{
	const char *space = memrchr(line.p, ' ', line.n), *le;
	char text[200];
	uint64_t value;

	if (!space || line.n >= sizeof(text))
		return;
	memcpy(text, line.p, line.n);
	text[line.n] = 0;
	value = strtoull(text + (space - (const char *)line.p) + 1, NULL, 10);
	if (is_metric(line, "tabletfs_request_seconds_count"))
		r->requests += value;
	else if (is_metric(line, "tabletfs_flushed_bytes_total") || is_metric(line, "tabletfs_compacted_bytes_out_total"))
		r->compacted += value;
	else if (is_metric(line, "tabletfs_store_bytes"))
		r->store_bytes += value;
	if (!is_metric(line, "tabletfs_request_seconds_bucket") || !(le = strstr(text, "le=\""))) {
		*bucket = 0;
		return;
	}
	if (*bucket < BUCKETS) {
		r->bucket[*bucket] += value;
		r->bound[*bucket] = le[4] == '+' ? INFINITY : strtod(le + 4, NULL);
	}
	*bucket = le[4] == '+' ? 0 : *bucket + 1;
}

static int read_metrics(struct reading *r)
{
	struct buf text = {0};
	struct tfs_bytes rest, line;
	unsigned bucket = 0;
	int err = admin_render_metrics(NULL, &text);

	*r = (struct reading){0};
	rest = buf_bytes(&text);
	while (!err && bytes_line(&rest, &line))
		read_line(r, line, &bucket);
	buf_fini(&text);
	return err;
}

/* A counter that is smaller than before began anew. */
static double a_second(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) / (MINUTE_US / 1e6) : 0;
}

static double within(const struct reading *now, const struct reading *before)
{
	const uint64_t all = now->requests - before->requests;

	if (now->requests <= before->requests)
		return 0;
	for (unsigned i = 0; i < BUCKETS; i++)
		if (isfinite(now->bound[i]) && now->bucket[i] - before->bucket[i] >= all - all / 100)
			return now->bound[i];
	return 0;
}

static void add_minute(const struct reading *now)
{
	struct history_minute m = {.time = (int64_t)time(NULL), .store_bytes = now->store_bytes};

	if (history.any) {
		m.requests = a_second(now->requests, history.last.requests);
		m.compacted = a_second(now->compacted, history.last.compacted);
		m.seconds_99 = within(now, &history.last);
	}
	history.last = *now;
	history.any = true;
	mutex_lock(&history.lock);
	if (history.count == HISTORY_MINUTES)
		memmove(history.v, history.v + 1, (HISTORY_MINUTES - 1) * sizeof(*history.v));
	else
		history.count++;
	history.v[history.count - 1] = m;
	mutex_unlock(&history.lock);
}

/* ---- snapshots ---- */

struct listing {
	const char *table;
	struct history_snapshot *v;
	unsigned count;
};

static int add_snapshot(void *arg, const struct tfs_snapshot *s)
{
	struct listing *l = arg;
	struct history_snapshot *to;

	if (l->count == SNAPSHOTS_MOST)
		return 1;
	to = &l->v[l->count++];
	*to = (struct history_snapshot){.time_us = s->time_us, .bytes = s->bytes, .pinned_bytes = s->pinned_bytes};
	snprintf(to->table, sizeof(to->table), "%s", l->table);
	snprintf(to->name, sizeof(to->name), "%s", s->name);
	return 0;
}

static void list_snapshots(void)
{
	char name[1][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	struct listing l = {.v = calloc(SNAPSHOTS_MOST, sizeof(*l.v))};
	struct history_snapshot *old;
	struct tfs_table *t;

	while (l.v && !history.ends && tfs_table_list(fs.store, after, name, 1) == 1) {
		memcpy(after, name[0], sizeof(after));
		if (tfs_table_open(fs.store, after, &t))
			continue;
		l.table = after;
		(void)!tfs_snapshot_list(t, true, add_snapshot, &l);
		tfs_table_close(t);
	}
	if (!l.v)
		return;
	mutex_lock(&history.lock);
	old = history.snapshots;
	history.snapshots = l.v;
	history.snapshot_count = l.count;
	mutex_unlock(&history.lock);
	free(old);
}

static void minute(struct task *t)
{
	struct reading now;

	if (history.ends)
		return;
	if (read_metrics(&now) == 0)
		add_minute(&now);
	list_snapshots();
	if (!history.ends)
		task_queue_after(t, MINUTE_US);
}

int history_start(void)
{
	int err = task_pool_new("history", 1, &history.pool);

	if (err)
		return err;
	task_init(&history.task, history.pool, minute);
	task_queue(&history.task);
	return 0;
}

void history_stop(void)
{
	if (!history.pool)
		return;
	history.ends = true;
	task_cancel(&history.task);
	task_pool_free(history.pool);
	history.pool = NULL;
}

unsigned history_minutes(struct history_minute out[HISTORY_MINUTES])
{
	unsigned n;

	mutex_lock(&history.lock);
	n = history.count;
	memcpy(out, history.v, n * sizeof(*out));
	mutex_unlock(&history.lock);
	return n;
}

struct history_snapshot *history_snapshots(unsigned *count)
{
	struct history_snapshot *copy = NULL;

	mutex_lock(&history.lock);
	*count = history.snapshot_count;
	if (*count && (copy = malloc(*count * sizeof(*copy))))
		memcpy(copy, history.snapshots, *count * sizeof(*copy));
	mutex_unlock(&history.lock);
	if (!copy)
		*count = 0;
	return copy;
}
