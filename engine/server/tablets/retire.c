/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits and merges of tablets: when they take place, and the steps around
 * their durable steps (split.c, merge.c).
 *
 * One split or merge, a change of the set of tablets, runs at a time, in the thread of
 * a request or in the task.  First it stops the compactions of its tablets.  Then it
 * counts as a write to the table, so that the table is not dropped during it.  If the
 * master has blocked the table's writes, the split or merge returns, so that
 * compactions can run.  It is repeated after the end of the block.
 *
 * An unload (unload.c) is such a change, too.  A compaction can last for minutes, so
 * an unload ends the compactions of its tablet, including users' compactions, whose
 * requests continue at the next server.  If another change is under way for a second,
 * the master gets -EAGAIN and tries again.
 *
 * The task splits a tablet larger than the table's tablet_size.  It merges two
 * neighbours that together have less than a quarter of tablet_size, so the
 * merged tablet is not split again soon.  It does not merge a tablet within an
 * hour after the tablet was split or loaded, because a user may have split it
 * before writing many rows.  A merged tablet is as old as its younger part.
 *
 * If step 3 of a merge fails, the lower row may have been deleted.
 * Another task reads the row until METADATA answers.  Then it completes
 * the merge, or logs that the tablets were not merged.
 */
#include "engine/server/tablets/tablets.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define REPEAT_US UINT64_C(60000000) /* the pause after a split or merge that failed, and between two runs of the task */
#define UNLOAD_WAIT_US UINT64_C(1000000)
#define RESOLVE_LEAST_US UINT64_C(500000) /* the pause between two runs of the task; it doubles */
#define RESOLVE_MOST_US UINT64_C(30000000)

static void retire_begin(struct server *s)
{
	mutex_lock(&s->retire->lock);
	while (s->retire->retiring)
		cond_wait(&s->retire->ended, &s->retire->lock);
	s->retire->retiring = true;
	mutex_unlock(&s->retire->lock);
}

/* Returns false if another split, merge or unload has not ended within UNLOAD_WAIT_US. */
static bool retire_begin_soon(struct server *s)
{
	const uint64_t until = monotonic_us() + UNLOAD_WAIT_US;
	uint64_t now;
	bool began;

	mutex_lock(&s->retire->lock);
	while (s->retire->retiring && (now = monotonic_us()) < until)
		(void)cond_wait_us(&s->retire->ended, &s->retire->lock, until - now);
	began = !s->retire->retiring;
	s->retire->retiring = true;
	mutex_unlock(&s->retire->lock);
	return began;
}

static void retire_end(struct server *s)
{
	mutex_lock(&s->retire->lock);
	s->retire->retiring = false;
	cond_broadcast(&s->retire->ended);
	mutex_unlock(&s->retire->lock);
}

/* The steps of a split (of v[0], at a row) or of a merge (of v[0] and v[1]). */
typedef int retire_fn(struct server *s, struct served_tablet *const *v, struct tfs_bytes at);

/* Runs fn while the tablets are not compacted and the table's writes are not blocked.  Returns 0, WRITES_BLOCKED or -errno. */
static int retire_run(struct server *s, struct served_tablet *const *v, unsigned count, retire_fn *fn, struct tfs_bytes at)
{
	const bool leaves = fn == unload_tablet;
	struct store_schema *schema = NULL;
	unsigned stopped = 0;
	int err = 0;

	/*
	 * Compactions stop before this counts as a write.  Otherwise a block of
	 * writes would wait for it, while it waits for a long compaction,
	 * and all other writers would wait for the block.
	 */
	while (stopped < count && !(err = tablet_retire_prepare(v[stopped]->tablet, leaves)))
		stopped++;
	if (!err && v[0]->user_table)
		err = user_table_write_begin(s, v[0]->user_table, 0, ON_BLOCK_RETURN, &schema);
	if (!err) {
		store_schema_put(schema);
		err = fn(s, v, at);
		if (v[0]->user_table)
			user_table_write_end(s, v[0]->user_table);
	}
	while (stopped > 0)
		tablet_retire_done(v[--stopped]->tablet);
	return err;
}

static int retire_split(struct server *s, struct served_tablet *served, struct tfs_bytes at)
{
	return retire_run(s, &served, 1, split_tablet, at);
}

static int retire_merge(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct served_tablet *v[2] = {lower, upper};
	int err = retire_run(s, v, 2, merge_tablets, tfs_bytes_of(NULL, 0));

	/* Both tablets use one file, with other rows between their parts of it.  A compaction gives the lower tablet files of its own. */
	if (err == -EBUSY && tablet_compact(lower->tablet) == 0)
		err = retire_run(s, v, 2, merge_tablets, tfs_bytes_of(NULL, 0));
	return err;
}

/* ---- requests ---- */

typedef int request_fn(struct server *s, struct served_tablet *served, struct tfs_bytes row);

static int split_request(struct server *s, struct served_tablet *served, struct tfs_bytes row)
{
	return bytes_eq(row, tablet_begin(served->tablet)) ? -EEXIST : retire_split(s, served, row);
}

static int merge_request(struct server *s, struct served_tablet *served, struct tfs_bytes row)
{
	struct served_tablet *upper;
	int err = served->last ? -ENOENT : served_find(s, served->table, buf_bytes(&served->end), &upper);

	if (err)
		return err;
	err = retire_merge(s, served, upper);
	served_put(upper);
	return err;
}

static int retire_request(struct server *s, uint32_t table, struct tfs_bytes row, request_fn *fn)
{
	struct served_tablet *served;
	int err;

	retire_begin(s);
	err = served_find(s, table, row, &served);
	if (!err) {
		err = served->kind == KIND_ROOT                            ? -EINVAL
			: served->user_table && served->user_table->frozen ? -EROFS
									   : fn(s, served, row);
		served_put(served);
	}
	retire_end(s);
	return err;
}

int tablets_split(struct server *s, uint32_t table, struct tfs_bytes row)
{
	return retire_request(s, table, row, split_request);
}

int tablets_merge(struct server *s, uint32_t table, struct tfs_bytes row)
{
	return retire_request(s, table, row, merge_request);
}

/* Ends the service of the tablet, which must still begin where the master believes. */
static int unload_served(struct server *s, struct served_tablet *served, const struct ts_assigned *t)
{
	int err = served->assignment != t->assignment || !bytes_eq(tablet_begin(served->tablet), t->begin)
		? -TABLET_TAKEN
		: retire_run(s, &served, 1, unload_tablet, tfs_bytes_of(NULL, 0));

	return err == WRITES_BLOCKED ? -EAGAIN : err;
}

static int unload_one(struct server *s, const struct ts_assigned *t)
{
	const enum kind kind = t->table != META_TABLE ? KIND_USER : t->begin.n ? KIND_META : KIND_ROOT;
	struct served_tablet *served;
	int err;

	set_unloading(s, t);
	load_begin(s, kind); /* a LOAD of the tablet that is under way ends first */
	err = served_find_end(s, t->table, t->end, &served);
	load_end(s, kind);
	if (!err) {
		err = unload_served(s, served, t);
		served_put(served);
	} else {
		err = unload_row(s, kind, t);
	}
	load_begin(s, kind); /* a LOAD that has read the row before ends first, too */
	set_unloading(s, NULL);
	load_end(s, kind);
	return err;
}

bool retire_unloads(struct server *s)
{
	return s->retire->unloads;
}

int tablets_unload(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	if (q->tablet_count && !a->row_errs)
		return -EINVAL;
	s->retire->unloads++;
	for (uint32_t i = 0; i < q->tablet_count; i++) {
		if (!retire_begin_soon(s)) {
			a->row_errs[i] = -EAGAIN;
			continue;
		}
		a->row_errs[i] = unload_one(s, &q->tablets[i]);
		retire_end(s);
	}
	s->retire->unloads--;
	return 0;
}

/* ---- by size ---- */

/* Errors of a tablet or table that no longer exists, or of a server that is closing. */
static bool is_expected(int err)
{
	return err == -TABLE_DROPPED || err == -TABLET_MOVED || err == -TABLET_STOPPED || err == -SESSION_ENDED;
}

/* Returns the size above which the tablet is split; 0: it is not split. */
static uint64_t split_bytes_of(struct server *s, struct served_tablet *served)
{
	struct store_schema *schema;
	uint64_t size;

	if (served->kind != KIND_USER)
		return s->o.metadata_tablet_bytes;
	schema = user_table_schema(s, served->user_table);
	size = schema->tablet_bytes;
	store_schema_put(schema);
	return size;
}

static void split_if_large(struct server *s, struct served_tablet *served)
{
	struct buf at = {0};
	struct tablet_stats st;
	uint64_t size;
	int err;

	if (served->kind == KIND_ROOT || (served->user_table && served->user_table->frozen) ||
		monotonic_us() < served->split_not_before_us)
		return;
	size = split_bytes_of(s, served);
	tablet_get_stats(served->tablet, &st);
	if (!size || st.disk_bytes <= size)
		return;
	err = tablet_split_key(served->tablet, &at);
	if (!err) {
		retire_begin(s);
		err = retire_split(s, served, buf_bytes(&at));
		retire_end(s);
	}
	if (err < 0) {
		served->split_not_before_us = monotonic_us() + REPEAT_US;
		if (err != -ENOENT && !is_expected(err)) /* ENOENT if the tablet has only one row */
			msg_error("table %u: the tablet ending at %s cannot be split: %s", served->table,
				served->last ? "the end" : Q(buf_bytes(&served->end)), error_text(err));
	}
	buf_fini(&at);
}

/* Tablets do not merge where a salt range begins (one byte, a value of the salt), nor at the schema's splits. */
static bool is_border(const struct store_schema *schema, struct tfs_bytes row)
{
	bool border = row.n == 1 && row.p[0] < schema->salt;

	for (unsigned i = 0; i < schema->split_count && !border; i++)
		border = bytes_eq(buf_bytes(&schema->splits[i]), row);
	return border;
}

uint64_t merge_bytes_of(struct server *s, struct served_tablet *served, bool *border)
{
	struct store_schema *schema;

	*border = false;
	if (served->user_table) {
		schema = user_table_schema(s, served->user_table);
		*border = is_border(schema, tablet_begin(served->tablet));
		store_schema_put(schema);
	}
	if (served->kind == KIND_ROOT || (served->user_table && served->user_table->frozen) ||
		monotonic_us() - served->made_us < s->o.merge_after_us)
		return 0;
	return split_bytes_of(s, served) / 4;
}

/* Returns true if the neighbours are small, are old enough, and may be merged. */
static bool merge_is_due(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct tablet_stats a, b;
	uint64_t most;
	bool border;

	if (lower->table != upper->table || lower->kind != upper->kind ||
		!bytes_eq(buf_bytes(&lower->end), tablet_begin(upper->tablet)) || monotonic_us() < upper->merge_not_before_us ||
		!merge_bytes_of(s, lower, &border))
		return false;
	most = merge_bytes_of(s, upper, &border);
	if (!most || border)
		return false;
	tablet_get_stats(lower->tablet, &a);
	tablet_get_stats(upper->tablet, &b);
	return a.disk_bytes + a.memory_bytes + b.disk_bytes + b.memory_bytes < most;
}

/* Returns true if it has merged the two. */
static bool merge_if_small(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	int err;

	if (!merge_is_due(s, lower, upper))
		return false;
	retire_begin(s);
	err = retire_merge(s, lower, upper);
	retire_end(s);
	if (err < 0) {
		upper->merge_not_before_us = monotonic_us() + REPEAT_US;
		if (!is_expected(err))
			msg_error("table %u: the tablets that meet at %s cannot be merged: %s", lower->table,
				Q(buf_bytes(&lower->end)), error_text(err));
	}
	return !err;
}

static void task_run(struct task *t)
{
	struct server *s = ((struct retire *)(void *)((char *)t - offsetof(struct retire, task)))->s;
	struct served_tablet **list;
	unsigned count;
	bool again = false;

	if (s->closing || served_list(s, 0, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++)
		if (!s->closing)
			split_if_large(s, list[i]);
	for (unsigned i = 0; i + 1 < count; i++) {
		if (s->closing || !merge_if_small(s, list[i], list[i + 1]))
			continue;
		again = true;
		i++; /* list[i + 1] was merged, too */
	}
	served_list_put(list, count);
	if (!s->closing)
		task_queue_after(t, again ? 0 : REPEAT_US);
}

/* ---- a split or merge whose outcome is unknown ---- */

static int retire_resolve(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct served_tablet *v[2] = {lower, upper};
	int exists = row_exists(s->metadata, lower->table, buf_bytes(&lower->end));

	if (exists < 0)
		return exists;
	if (exists) {
		lower->unknown_own = upper->unknown_below = false;
		msg_notice("table %u: the tablets that meet at %s have not been merged", lower->table, Q(buf_bytes(&lower->end)));
		return 0;
	}
	return retire_run(s, v, 2, merge_finish, tfs_bytes_of(NULL, 0));
}

/* Resolves what is unknown about list[i] and its upper neighbour.  The outcome of a table that was dropped does not matter. */
static int resolve_one(struct server *s, struct served_tablet *const *list, unsigned count, unsigned i)
{
	int err = 0;

	if (list[i]->unknown_lower) {
		err = retire_run(s, &list[i], 1, split_resolve, tfs_bytes_of(NULL, 0));
		err = err == -TABLE_DROPPED || err == -TABLET_MOVED || err == -TABLET_STOPPED || err == -TABLET_TAKEN ? 0 : err;
		list[i]->unknown_lower = err != 0;
	}
	if (!err && i + 1 < count && list[i]->unknown_own && list[i + 1]->unknown_below)
		err = retire_resolve(s, list[i], list[i + 1]);
	return err == -TABLE_DROPPED || err == -TABLET_MOVED ? 0 : err;
}

/*
 * Ends at the first error, because each may take a router's patience.  The next run begins with the tablet behind it: a
 * tablet of METADATA that is damaged must not keep the outcomes of others unknown.
 */
static void resolve_run(struct task *t)
{
	struct server *s = ((struct retire *)(void *)((char *)t - offsetof(struct retire, resolve_task)))->s;
	struct served_tablet **list = NULL;
	unsigned count = 0;
	int err;

	if (s->closing)
		return;
	retire_begin(s);
	err = served_list(s, 0, &list, &count);
	for (unsigned i = 0; !err && i < count && !s->closing; i++)
		err = resolve_one(s, list, count, s->retire->resolve_at++ % count);
	served_list_put(list, count);
	s->retire->resolve_wait_us = !err ? 0 : !s->retire->resolve_wait_us ? RESOLVE_LEAST_US : 2 * s->retire->resolve_wait_us;
	if (s->retire->resolve_wait_us > RESOLVE_MOST_US)
		s->retire->resolve_wait_us = RESOLVE_MOST_US;
	if (err && !s->closing)
		task_queue_after(t, s->retire->resolve_wait_us);
	retire_end(s);
}

static int begin(struct server *s, struct task_pool *pool)
{
	struct retire *x = s->retire;
	int err = task_pool_new("split", 1, &x->pool);

	if (err)
		return err;
	x->s = s;
	mutex_init(&x->lock, RANK_SERVER);
	cond_init(&x->ended);
	task_init(&x->task, x->pool, task_run);
	task_init(&x->resolve_task, x->pool, resolve_run);
	return 0;
}

static void stop(struct server *s)
{
	task_cancel(&s->retire->task);
	task_cancel(&s->retire->resolve_task);
}

static void end(struct server *s)
{
	task_pool_free(s->retire->pool);
	cond_fini(&s->retire->ended);
	mutex_fini(&s->retire->lock);
}

const struct server_part retire_part = {offsetof(struct server, retire), sizeof(struct retire), begin, stop, end};
