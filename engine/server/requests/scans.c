/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans that are not finished with their first answer.  Each has a number, by which the
 * client continues it, and a tablet's scan.  Most scans end with their first answer and never get a number.
 *
 * Numbers are random, and a scan belongs to the client that opened it, in its
 * present epoch.  So a request that arrives late, or that names a scan of an
 * earlier server, does not move another scan.  An open scan keeps memtables and
 * files, so it is freed when it was idle for a minute, or when its client has a
 * later epoch.  A client whose scan was freed gets -SCAN_UNKNOWN and opens the rest of
 * the scan (client/cursor.c).
 *
 * A request for the next batch has the number of the batches that the client has received.  A
 * second copy of a request does not skip a batch.
 *
 * A client asks for the next batch before it needs it, so it may close a scan whose
 * batch is being read.  Then the request that reads the batch frees the scan.
 */
#include "engine/server/requests/requests.h"
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/scan.h"

#include <errno.h>
#include <stdlib.h>

#define SCAN_IDLE_US UINT64_C(60000000)

int number_draw(uint64_t *number)
{
	do {
		int err = random_bytes(number, sizeof(*number));

		if (err)
			return err;
		*number &= (UINT64_C(1) << NUMBER_BITS) - 1;
	} while (!*number);
	return 0;
}

/* Returns where the open scan with this number is linked, or the end of the list. */
static struct open_scan **scan_place_locked(struct server *s, uint64_t id)
{
	struct open_scan **p = &s->scans->open[id % SCAN_BUCKETS];

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	return p;
}

/*
 * Returns the scan and makes it busy, so that no second request uses it.  NULL: it is not open,
 * or busy.  A busy scan that is to be closed becomes unused.
 */
static struct open_scan *scan_take(struct server *s, const struct ts_request *q)
{
	struct open_scan *o;

	mutex_lock(&s->scans->lock);
	o = *scan_place_locked(s, q->scan);
	if (o && (o->served->table != q->table || o->client != q->token.client || o->epoch != q->epoch))
		o = NULL;
	if (o && o->busy) {
		o->unused = o->unused || q->method == TS_SCAN_CLOSE;
		o = NULL;
	}
	if (o && q->method == TS_SCAN_NEXT && q->offset && q->offset != o->batches)
		o = NULL; /* a second copy of an earlier request */
	if (o)
		o->busy = true;
	mutex_unlock(&s->scans->lock);
	return o;
}

/* Gives the new scan a number that no open scan has, and adds it to the open ones. */
static int scan_number(struct server *s, struct open_scan *o)
{
	bool taken = true;
	int err = 0;

	while (taken && !err) {
		uint64_t id;

		err = number_draw(&id);
		if (err)
			break;
		mutex_lock(&s->scans->lock);
		taken = *scan_place_locked(s, id) != NULL;
		if (!taken) {
			o->id = id;
			o->next = s->scans->open[id % SCAN_BUCKETS];
			s->scans->open[id % SCAN_BUCKETS] = o;
		}
		mutex_unlock(&s->scans->lock);
	}
	return err;
}

static void scan_free(struct open_scan *o)
{
	tablet_scan_free(o->scan);
	scripts_free(o);
	served_put(o->served);
	free(o);
}

/* Ends a busy scan. */
static void scan_end(struct server *s, struct open_scan *o)
{
	if (o->id) {
		mutex_lock(&s->scans->lock);
		*scan_place_locked(s, o->id) = o->next;
		mutex_unlock(&s->scans->lock);
	}
	scan_free(o);
}

/* The scan is not busy any more.  From then on another thread may free it.  Returns false if it was closed meanwhile. */
static bool scan_keep(struct server *s, struct open_scan *o)
{
	bool armed, unused;

	o->idle_since_us = monotonic_us();
	mutex_lock(&s->scans->lock);
	unused = o->unused;
	o->busy = unused;
	armed = s->scans->armed;
	s->scans->armed = armed || !unused;
	mutex_unlock(&s->scans->lock);
	if (unused)
		scan_end(s, o);
	else if (!armed && !s->closing && !s->o.no_background)
		task_queue_after(&s->scans->task, s->scans->idle_us / 4);
	return !unused;
}

/* ---- scans that are no longer used ---- */

typedef bool unused_fn(const struct open_scan *o, uint64_t a, uint64_t b);

/* Frees the scans for which fn returns true, unless they are busy.  Returns true if other scans are open. */
static bool scans_free_unused(struct server *s, unused_fn *fn, uint64_t a, uint64_t b)
{
	struct open_scan *unused = NULL, *o;
	bool others = false;

	mutex_lock(&s->scans->lock);
	for (unsigned i = 0; i < SCAN_BUCKETS; i++)
		for (struct open_scan **p = &s->scans->open[i]; (o = *p) != NULL;) {
			if (o->busy || !fn(o, a, b)) {
				others = true;
				p = &o->next;
				continue;
			}
			*p = o->next;
			o->next = unused;
			unused = o;
		}
	mutex_unlock(&s->scans->lock);
	while ((o = unused)) {
		unused = o->next;
		scan_free(o);
	}
	return others;
}

static bool is_idle(const struct open_scan *o, uint64_t since_us, uint64_t unused)
{
	return o->idle_since_us <= since_us;
}

static bool is_of_client(const struct open_scan *o, uint64_t client, uint64_t epoch)
{
	return o->client == client && o->epoch < epoch;
}

static bool is_any(const struct open_scan *o, uint64_t unused, uint64_t unused2)
{
	return true;
}

bool scans_free_idle(struct server *s)
{
	const uint64_t now = monotonic_us();

	return scans_free_unused(s, is_idle, now > s->scans->idle_us ? now - s->scans->idle_us : 0, 0);
}

void scans_free_client(struct server *s, uint64_t client, uint64_t epoch)
{
	(void)scans_free_unused(s, is_of_client, client, epoch);
}

static void task_run(struct task *t)
{
	struct server *s = ((struct scans *)(void *)((char *)t - offsetof(struct scans, task)))->s;
	bool armed;

	mutex_lock(&s->scans->lock);
	s->scans->armed =
		false; /* set before the look at the scans, so that a scan that is added meanwhile queues the task again */
	mutex_unlock(&s->scans->lock);
	if (!scans_free_idle(s) || s->closing)
		return;
	mutex_lock(&s->scans->lock);
	armed = s->scans->armed;
	s->scans->armed = true;
	mutex_unlock(&s->scans->lock);
	if (!armed)
		task_queue_after(t, s->scans->idle_us / 4);
}

/* ---- requests ---- */

/* Fills the next batch.  Ends the scan after its last batch and after an error. */
static int scan_more(struct server *s, struct open_scan *o, struct ts_answer *a)
{
	/* A dropped table has no cells, although its tablet could still be read. */
	const bool dropped = o->served->user_table && user_table_dropped(o->served->user_table);
	int err = dropped ? -TABLE_DROPPED : 0;
	struct tfs_bytes row;

	if (!err)
		err = o->script ? scripts_fill(s->scans->scripts, s, o, &a->batch) : tablet_scan_fill(o->scan, &a->batch);
	if (!err)
		traffic_tablet(o->served, TABLE_SCANNED_CELLS, a->batch.count);
	a->schema_generation = served_generation(o->served);
	a->scan = 0;
	/* The tablet was split or merged: other tablets serve the rest of the scan, from this row on. */
	if (!err && a->batch.done && tablet_scan_replaced(o->scan, &row) && !arena_dup(&a->arena, row, &a->tablet_end))
		err = -ENOMEM;
	if (!err && !a->batch.done && !o->id)
		err = scan_number(s, o);
	if (err || a->batch.done) {
		scan_end(s, o);
		return err;
	}
	a->scan = o->id;
	o->batches++;
	return scan_keep(s, o) ? 0 : -SCAN_UNKNOWN;
}

static int scan_open(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct tfs_bytes rest = {NULL, 0}; /* where the client continues in the next tablet */
	struct scan_spec spec;
	uint16_t *ids = NULL;
	struct open_scan *o;
	bool none = false;
	int err;

	/* Iterators of one row, and iterators that skip damage, move forward only. */
	if (!q->spec || (q->spec->pub.reverse && (q->spec->pub.one_row || q->spec->pub.past_damage)) ||
		!scan_hashes_valid(&q->spec->pub))
		return -EINVAL;
	if (s->o.no_background)
		(void)scans_free_idle(s); /* nothing else does */
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	err = served_find_for(s, q, q->row, &o->served);
	if (err) {
		free(o);
		return err;
	}
	o->client = q->token.client;
	o->epoch = q->epoch;
	o->busy = true;
	arena_reset(&a->arena);
	a->tablet_end = (struct tfs_bytes){NULL, 0};
	if (q->spec->pub.reverse)
		rest = tablet_begin(o->served->tablet);
	else if (!o->served->last && !q->spec->pub.one_row)
		rest = buf_bytes(&o->served->end);
	if (!arena_dup(&a->arena, rest, &a->tablet_end))
		err = -ENOMEM;
	if (!err) {
		spec = *q->spec;
		/* Memory is allocated for a batch at once.  Hashes need none for the size of their parts. */
		if (spec.pub.batch_bytes > TS_SCAN_BATCH_MAX && spec.pub.what != TFS_SCAN_HASHES)
			spec.pub.batch_bytes = TS_SCAN_BATCH_MAX;
	}
	if (!err && q->user) {
		err = access_readable(o->served, q, spec.family_ids, spec.pub.family_count, &ids, &spec.pub.family_count);
		spec.family_ids = ids;
		if (!err && spec.pub.row_where.p) { /* named, as those are whose cells the scan returns */
			uint16_t *named = NULL;
			uint32_t count;

			err = access_readable(o->served, q, spec.where_ids, spec.where_count, &named, &count);
			free(named);
		}
		/* A script is compiled, and has its outputs, also if it gets no cells. */
		none = !err && spec.pub.family_count == 0 && !spec.script.p;
	}
	if (!err)
		err = scripts_new(q, o);
	if (!err && q->spec->script.p)
		spec.pub.what = scripts_what(o);
	if (!err && !none)
		err = tablet_scan_new(o->served->tablet, &spec, &o->scan);
	free(ids);
	if (none) {
		/* The user may read no family: there are no cells. */
		scan_batch_reset(&a->batch);
		a->batch.done = true;
	}
	if (err || none) {
		scan_free(o);
		return err;
	}
	return scan_more(s, o, a);
}

int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct open_scan *o;

	if (q->method == TS_SCAN_OPEN)
		return scan_open(s, q, a);
	o = scan_take(s, q);
	if (!o)
		return -SCAN_UNKNOWN;
	if (q->method == TS_SCAN_NEXT && q->length) {
		const size_t bytes = q->length < TS_SCAN_BATCH_MAX ? q->length : TS_SCAN_BATCH_MAX;

		tablet_scan_set_batch(o->scan, bytes);
		if (o->script)
			scripts_set_batch(o, bytes);
	}
	if (q->method == TS_SCAN_NEXT)
		return scan_more(s, o, a);
	scan_end(s, o);
	return 0;
}

static int begin(struct server *s, struct task_pool *pool)
{
	s->scans->s = s;
	s->scans->idle_us = SCAN_IDLE_US;
	mutex_init(&s->scans->lock, RANK_SERVER);
	task_init(&s->scans->task, pool, task_run);
	return scripts_begin(&s->o.scripts, &s->scans->scripts);
}

void scans_change(struct server *s, const struct script_settings *to)
{
	scripts_change(s->scans->scripts, to);
}

static void stop(struct server *s)
{
	task_cancel(&s->scans->task);
	(void)scans_free_unused(s, is_any, 0, 0);
}

static void end(struct server *s)
{
	scripts_end(s->scans->scripts);
	mutex_fini(&s->scans->lock);
}

const struct server_part scans_part = {offsetof(struct server, scans), sizeof(struct scans), begin, stop, end};
