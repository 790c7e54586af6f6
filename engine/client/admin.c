/* SPDX-License-Identifier: Apache-2.0 */
/* Administration of a table: its tablets, usage, flush, compaction, split, merge. */
#include "engine/client/salt.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define DRAIN_PAUSE_US 100000u
#define CHANGES_MOST 100 /* splits and merges during one listing of a table's tablets */

/* Sends a request of this method to every tablet of the table, in order.  number: the same in all of them. */
static int tablets_call(struct tfs_table *t, enum ts_method method, uint64_t number)
{
	struct buf row = {0};
	int err = 0;

	for (;;) {
		struct ts_request q = {.method = method, .row = buf_bytes(&row), .offset = number};
		struct ts_answer a = {0};
		bool more = false;

		err = table_call_stored_row(t, &q, &a);
		/*
		 * The answer has the end of the tablet that executed the
		 * request.  The tablets may have changed since then.
		 */
		if (!err && a.tablet_end.p) {
			more = true;
			err = buf_set(&row, a.tablet_end.p, a.tablet_end.n);
		}
		ts_answer_fini(&a);
		if (err || !more)
			break;
	}
	buf_fini(&row);
	return err == -ECANCELED ? table_why(t, err, "the store is being closed") : table_failed(t, err);
}

/* Answers of TS_TABLET_INFO in order: each tablet begins at the end of the tablet before. */
struct tablets {
	struct ts_answer *v;
	unsigned n;
};

static void tablets_fini(struct tablets *all)
{
	while (all->n)
		ts_answer_fini(&all->v[--all->n]);
	free(all->v);
}

/* Returns the end of the last answer, which is the begin of the next tablet to ask. */
static struct tfs_bytes tablets_end(const struct tablets *all)
{
	return all->n ? all->v[all->n - 1].tablet.end : tfs_bytes_of("", 0);
}

/* Asks the tablet that follows the answers so far. */
static int tablet_info_call(struct tfs_table *t, uint16_t family, uint64_t sample, struct tablets *all, struct ts_answer *a)
{
	struct ts_request q = {.method = TS_TABLET_INFO, .row = tablets_end(all), .family = family, .offset = sample};

	return array_grow(&all->v, all->n, sizeof(*all->v)) ? -ENOMEM : table_call_stored_row(t, &q, a);
}

/*
 * Collects the answers of all tablets.  If tablets that have answered are merged
 * later, the merged tablet's answer replaces theirs.  If an answer begins inside
 * an earlier answer, the earlier answer is dropped, and the tablets there are
 * asked again.  sample: the bytes for each sample, or 0.
 */
static int tablets_gather(struct tfs_table *t, uint16_t family, uint64_t sample, struct tablets *all)
{
	unsigned changes = 0;
	bool more = true;
	int err = 0;

	while (more) {
		struct ts_answer a = {0};

		err = tablet_info_call(t, family, sample, all, &a);
		if (err) {
			(void)table_failed(t, err);
			ts_answer_fini(&a);
			break;
		}
		while (all->n && bytes_cmp(tablets_end(all), a.tablet.begin) > 0)
			ts_answer_fini(&all->v[--all->n]);
		if (bytes_eq(tablets_end(all), a.tablet.begin) || ++changes >= CHANGES_MOST) {
			more = a.tablet.end.p != NULL;
			all->v[all->n++] = a;
		} else {
			ts_answer_fini(&a);
		}
	}
	return err;
}

static void usage_add(struct tfs_usage *u, const struct ts_tablet *t)
{
	u->disk_bytes += t->disk_bytes;
	u->raw_bytes += t->raw_bytes;
	u->memory_bytes += t->memory_bytes;
	u->cells += t->cells;
	u->tombstones += t->tombstones;
	u->changes_bytes += t->changes_bytes;
}

int tfs_usage(struct tfs_table *t, const char *family, struct tfs_usage *u)
{
	reason_clear();
	const struct schema *s = table_schema(t);
	const struct tfs_family *f = family ? tfs_schema_family(schema_public(s), family) : NULL;
	struct tfs_usage sum = {0};
	struct tablets all = {0};
	int err = family && !f ? table_no_family(t, family) : tablets_gather(t, f ? f->id : 0, 0, &all);

	schema_put(s);
	for (unsigned i = 0; i < all.n; i++)
		usage_add(&sum, &all.v[i].tablet);
	tablets_fini(&all);
	if (!err)
		*u = sum;
	return err;
}

static char *string_of(struct tfs_bytes s)
{
	char *p = malloc(s.n + 1);

	if (p) {
		if (s.n)
			memcpy(p, s.p, s.n);
		p[s.n] = 0;
	}
	return p;
}

static int tablet_report(int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg, const struct ts_tablet *t)
{
	char *server = string_of(t->server), *state = string_of(t->state), *events = string_of(t->events);
	struct tfs_tablet out = {
		.begin = t->begin,
		.end = t->end,
		.server = server,
		.state = state,
		.bytes = t->disk_bytes + t->memory_bytes + t->changes_bytes,
		.sstables = t->files,
		.usage = {t->disk_bytes, t->raw_bytes, t->memory_bytes, t->cells, t->tombstones, t->changes_bytes},
		.reads = t->reads,
		.writes = t->writes,
		.compactions = t->compactions,
		.events = events,
	};
	int err = server && state && events ? fn(arg, &out) : -ENOMEM;

	free(server);
	free(state);
	free(events);
	return err;
}

int tfs_tablets(struct tfs_table *t, int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg)
{
	reason_clear();
	struct tablets all = {0};
	int err = tablets_gather(t, 0, 0, &all);

	for (unsigned i = 0; i < all.n && !err; i++)
		err = tablet_report(fn, arg, &all.v[i].tablet);
	tablets_fini(&all);
	return err;
}

/* ---- ranges of about equal bytes ---- */

enum { SPLITS_MOST = 4096, SAMPLES_OF_RANGE = 4 };

static uint64_t bytes_of(const struct ts_tablet *t)
{
	return t->disk_bytes + t->memory_bytes;
}

/* The ranges so far. */
struct ranges {
	int (*fn)(void *arg, const struct tfs_tablet *range);
	void *arg;
	uint64_t total, before;        /* bytes of the table, and before the place that was reached */
	uint64_t done;                 /* bytes of the ranges that were reported */
	unsigned n, count;             /* how many are wanted, and were reported */
	struct tfs_bytes begin;        /* the begin of the next range */
	const struct ts_tablet *first; /* the tablet in which it begins */
};

static int range_report(struct ranges *r, struct tfs_bytes end)
{
	char *server = string_of(r->first->server);
	const struct tfs_tablet out = {
		.begin = r->begin, .end = end, .server = server, .state = "", .events = "", .bytes = r->before - r->done};
	int err = server ? r->fn(r->arg, &out) : -ENOMEM;

	free(server);
	r->begin = end;
	r->done = r->before;
	r->count++;
	r->first = NULL;
	return err;
}

/* Ends a range at a border if it has its share of the bytes that are left; the last one ends with the table. */
static int range_border(struct ranges *r, struct tfs_bytes border)
{
	const unsigned left = r->n - r->count;
	const bool full = left > 1 && r->before - r->done >= (r->total - r->done) / left;

	return full && bytes_cmp(border, r->begin) > 0 ? range_report(r, border) : 0;
}

/* A tablet's samples divide it into parts of equal bytes. */
static int ranges_of_tablet(struct ranges *r, const struct ts_tablet *t)
{
	const uint64_t bytes = bytes_of(t), before = r->before, parts = t->sample_count + UINT64_C(1);
	int err = 0;

	for (uint32_t i = 0; i < t->sample_count && !err; i++) {
		r->first = r->first ? r->first : t;
		r->before = before + bytes / parts * (i + 1);
		err = range_border(r, t->samples[i].row);
	}
	r->first = r->first ? r->first : t;
	r->before = before + bytes;
	if (!err)
		err = t->end.p ? range_border(r, t->end) : range_report(r, t->end);
	return err;
}

int tfs_splits(struct tfs_table *t, unsigned n, int (*fn)(void *arg, const struct tfs_tablet *range), void *arg)
{
	reason_clear();
	struct ranges r = {.fn = fn, .arg = arg, .n = n, .begin = tfs_bytes_of("", 0)};
	struct tfs_usage usage;
	struct tablets all = {0};
	int err = n && n <= SPLITS_MOST ? tfs_usage(t, NULL, &usage)
					: table_why(t, -EINVAL, "the number of ranges is 1 to %d", SPLITS_MOST);

	if (!err)
		err = tablets_gather(t, 0, usage.disk_bytes / n / SAMPLES_OF_RANGE + 1, &all);
	for (unsigned i = 0; i < all.n; i++)
		r.total += bytes_of(&all.v[i].tablet);
	for (unsigned i = 0; i < all.n && !err; i++)
		err = ranges_of_tablet(&r, &all.v[i].tablet);
	tablets_fini(&all);
	return err;
}

int tfs_flush(struct tfs_table *t)
{
	reason_clear();
	return tablets_call(t, TS_FLUSH, 0);
}

/* Removes the files that no tablet uses any more.  After an error a later round does it. */
static void collect(struct tfs_store *s)
{
	struct ms_request q = {.method = MS_COLLECT};
	struct ms_answer a = {0};

	(void)!call_master(s, &q, &a, NULL);
	ms_answer_fini(&a);
	reason_clear();
}

int tfs_compact(struct tfs_table *t)
{
	reason_clear();
	int err = tablets_call(t, TS_COMPACT, 0);

	if (!err)
		collect(t->store);
	return err;
}

int tfs_purge(struct tfs_table *t)
{
	reason_clear();
	uint64_t number;
	int err = random_bytes(&number, sizeof(number));

	if (!err)
		err = tablets_call(t, TS_PURGE, number | 1);
	if (!err)
		collect(t->store);
	return err;
}

int client_drain(struct tfs_store *s, uint64_t incarnation)
{
	const struct ms_request q = {.method = MS_DRAIN, .incarnation = incarnation};
	bool again;
	int err;

	do {
		struct ms_answer a = {0};

		err = ms_call(s->o.master, &q, &a);
		ms_answer_fini(&a);
		again = err == -EAGAIN || err == -ANSWER_LOST;
		if (again)
			(void)usleep(DRAIN_PAUSE_US);
	} while (again);
	return user_errno(err);
}

/* row: the key as stored. */
static int tablet_call_at(struct tfs_table *t, enum ts_method method, struct tfs_bytes row)
{
	const struct schema *s = table_schema(t);
	const size_t most = TFS_ROW_MAX + (schema_public(s)->salt_in_use ? 1 : 0);
	struct ts_request q = {.method = method, .row = row};
	struct ts_answer a = {0};
	int err = row.n <= most ? table_call_stored_row(t, &q, &a) : table_why(t, -EINVAL, ROW_LIMIT);

	ts_answer_fini(&a);
	schema_put(s);
	if (err == -EEXIST)
		return table_why(t, err, "a tablet begins at row %s already", Q(row));
	if (err == -ENOENT && method == TS_MERGE && !table_gone(t) && !reason_is_set())
		return table_why(t, err, "there is no tablet after that of row %s", Q(row));
	if (err == -E2BIG)
		return table_why(t, err, "the tablets have too many files with long keys: compact the table first");
	return err == -EBUSY ? table_why(t, err, "the tablet is changing: try again") : table_failed(t, err);
}

int tfs_split(struct tfs_table *t, struct tfs_bytes row)
{
	reason_clear();
	return row.n ? tablet_call_at(t, TS_SPLIT, row) : table_why(t, -EINVAL, "no tablet is split at the empty row");
}

int tfs_merge(struct tfs_table *t, struct tfs_bytes row)
{
	reason_clear();
	return tablet_call_at(t, TS_MERGE, row);
}
