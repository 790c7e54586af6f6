/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans within one tablet.
 *
 * A scan holds a view, and the memtables and files of a view cannot be freed.
 * So a scan takes a new view when its view is ten seconds old.  It changes the
 * view between two rows: the last row is removed from the batch, and the next
 * batch begins with that row in the new view.
 *
 * Before a scan of one row reads a file, it asks the file's filter for the row.
 *
 * A scan of some files only (scan_spec.files) has a view of these files.  It is for tablets of
 * snapshots, whose METADATA rows name their files.
 *
 * Rejected: changing the view within a row.  The scan would have to read the
 * row again from its start, because a row is returned as of one instant.
 */
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/scan.h"
#include "engine/cell/merge.h"
#include "engine/cell/row_where.h"
#include "engine/cell/scan_filter.h"

#define SCAN_VIEW_US (UINT64_C(10) * 1000000)

struct tablet_scan {
	struct tablet *t;
	struct scan_spec spec; /* the whole scan */
	struct scan_spec rest; /* the part for the present view and later views */
	struct arena bytes;    /* memory of the spec's bytes */
	struct buf row;        /* the bound of `rest` that has changed: row_from; reverse: row_to.  Empty in the first view */
	struct snap snap;
	uint64_t taken_us;            /* when the view was taken */
	struct scan_returned already; /* returned in all batches so far */
	struct scan_hash *hash;       /* NULL: the scan returns cells */
	struct scan_filter *filter;
	struct row_check check; /* of the caller; its fn may be NULL */
	struct row_check own_check;
	struct row_where *where; /* NULL: none */
	struct live *live;
	int skipped; /* the error of unreadable blocks that were skipped */
	bool done;
	bool replaced; /* done, because other tablets have replaced the tablet; the caller continues there at `row` */
};

/* Returns false if counts and filters show that no memtable and no file has a delete of this column. */
static bool scan_column_deletes(const void *arg, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier)
{
	const struct view *v = arg;
	struct buf to = {0}, probe = {0};
	struct tfs_bytes from = {0};
	bool may = false;

	for (unsigned i = 0; i < v->mem_count && !may; i++)
		may = atomic_load(&v->mems[i]->column_deletes) > 0;
	if (may)
		return true;
	may = cellkey_probe(&probe, 'C', row, family, qualifier) != 0;
	if (!may) {
		from = tfs_bytes_of(probe.p + 1, probe.n - 1); /* the probe without its tag */
		may = buf_append_bytes(&to, from) || buf_be64(&to, UINT64_MAX) || buf_be64(&to, UINT64_MAX) || buf_u8(&to, 0xff);
	}
	for (unsigned i = 0; i < v->file_count && !may; i++) {
		struct vfile *f = v->files[i];

		may = f->meta.tombstones > f->meta.row_deletes + f->meta.family_deletes && !vfile_empty(f) &&
			(!v->mixed || vfile_may_have_families(f, &family, 1)) && bytes_cmp(from, buf_bytes(&f->first)) >= 0 &&
			bytes_cmp(from, buf_bytes(&f->after)) < 0 &&
			sst_may_contain(f->sst, from, buf_bytes(&to), buf_bytes(&probe));
	}
	buf_fini(&to);
	buf_fini(&probe);
	return may;
}

/* Returns the time before which the rules of all families that the scan reads hide every cell; INT64_MIN: there is none. */
static int64_t all_expired_before(const struct store_schema *schema, const struct scan_spec *spec, int64_t now)
{
	int64_t longest = 0, before;

	for (unsigned i = 0; i < schema->family_count; i++) {
		const struct store_family *f = &schema->families[i];
		bool reads = !spec->family_ids;
		int64_t age = gc_max_age(f->rule);

		for (uint32_t k = 0; k < spec->pub.family_count && !reads; k++)
			reads = spec->family_ids[k] == f->id;
		if (reads && !age)
			return INT64_MIN;
		if (reads && age > longest)
			longest = age;
	}
	return !longest || spec->pub.what == TFS_SCAN_STORED_ROWS || __builtin_sub_overflow(now, longest, &before) ? INT64_MIN
														   : before;
}

/*
 * The times that files are selected by.  A file with expired cells only is not read: it
 * stays until a major compaction, and a scan would pass its cells each time.  An older
 * cell never hides a newer cell.  But if a GC rule counts versions, a newer cell hides
 * older cells, and then `until` is no bound.
 */
static struct view_times scan_times(const struct store_schema *schema, const struct scan_spec *spec, int64_t now)
{
	const int64_t expired = all_expired_before(schema, spec, now);

	struct view_times times = {.since = spec->pub.has_times ? spec->pub.since : INT64_MIN,
		.until = spec->pub.has_times ? spec->pub.until : INT64_MAX,
		.changed = spec->pub.has_changed ? spec->pub.changed_since : INT64_MIN,
		.counts = spec->pub.versions};

	for (unsigned i = 0; i < schema->family_count; i++) {
		if (gc_has_versions(schema->families[i].rule)) {
			times.until = INT64_MAX;
			times.counts = true;
		}
	}
	if (expired > times.since)
		times.since = expired;
	return times;
}

static struct vfile *view_file(const struct view *v, const uint8_t *id)
{
	for (unsigned i = 0; i < v->file_count; i++) {
		const struct tablet_file *f = &v->files[i]->meta;

		if (f->table == load_be32(id) && f->incarnation == load_be64(id + 4) && f->number == load_be64(id + 12))
			return v->files[i];
	}
	return NULL;
}

/* *out: a view of the files whose ids are given.  -EIO if the tablet lacks a file. */
static int view_of_files(const struct view *v, struct tfs_bytes ids, struct view **out)
{
	struct view *some = ids.n % FILE_ID_BYTES ? NULL : view_new((unsigned)(ids.n / FILE_ID_BYTES));

	if (!some)
		return ids.n % FILE_ID_BYTES ? -EINVAL : -ENOMEM;
	for (size_t at = 0; at < ids.n; at += FILE_ID_BYTES) {
		struct vfile *f = view_file(v, ids.p + at);

		if (!f) {
			view_put(some);
			return -EIO;
		}
		view_add_file(some, f);
	}
	*out = some;
	return 0;
}

/* Opens the live cells of the spec in a snapshot.  now: for GC rules, in us.  skipped: as in view_iter. */
static int live_open(struct tablet *t, const struct snap *snap, const struct scan_spec *spec, int64_t now,
	struct scan_filter *filter, const struct row_check *check, int *skipped, struct live **out)
{
	struct live_options o = {.rules = {store_schema_rule, snap->schema},
		.seq = snap->seq,
		.now = now,
		.collect = clock_collect(t->env->clock) - TABLET_SKEW_US,
		.spec = spec,
		.column_deletes = scan_column_deletes,
		.deletes_arg = snap->view,
		.row_begin = tablet_begin(t),
		.row_end = tablet_end(t),
		.filter = filter,
		.check = check};
	const struct view_times times = scan_times(snap->schema, spec, now);
	struct tfs_bytes row_to = spec->pub.row_to, end = tablet_end(t), from_row = spec->pub.row_from;
	struct buf from = {0}, to = {0}, probe = {0};
	struct view *some = NULL; /* may be freed before the iterators: snap's view holds the same files */
	struct iter *merged;
	int err;

	if (bytes_cmp(from_row, buf_bytes(&t->begin)) < 0)
		from_row = buf_bytes(&t->begin);
	if (!row_to.p || (end.p && bytes_cmp(end, row_to) < 0))
		row_to = end;
	if ((err = cellkey_row_prefix(&from, from_row)))
		goto out;
	if (spec->pub.one_row)
		err = cellkey_row_after(&to, spec->pub.row_from);
	else if (row_to.p)
		err = cellkey_row_prefix(&to, row_to);
	if (!err && spec->pub.one_row)
		err = cellkey_probe(&probe, 'r', spec->pub.row_from, 0, tfs_bytes_of(NULL, 0));
	if (!err && spec->files.p)
		err = view_of_files(snap->view, spec->files, &some);
	if (!err)
		err = view_iter(some ? some : snap->view, &times, spec->family_ids, spec->pub.family_count, buf_bytes(&from),
			buf_bytes(&to), buf_bytes(&probe), spec->pub.what == TFS_SCAN_CELLS ? spec->pub.limit : 0, skipped,
			&merged);
	if (!err)
		err = live_new(merged, &o, out);
out:
	view_put(some);
	buf_fini(&from);
	buf_fini(&to);
	buf_fini(&probe);
	return err;
}

/* Decides if the scan returns the row (struct row_check). */
static int scan_check_row(void *arg, struct tfs_bytes row)
{
	struct tablet_scan *s = arg;
	int n = s->where ? row_where_admits(s->where, row) : 1;

	return n > 0 && s->check.fn ? s->check.fn(s->check.arg, row) : n;
}

static int scan_open_view(struct tablet_scan *s)
{
	struct live *columns;
	int *skipped = s->spec.pub.past_damage ? &s->skipped : NULL;
	int64_t now;
	int err;

	snap_take(s->t, &s->snap);
	s->taken_us = monotonic_us();
	now = s->spec.kept && !s->t->frozen ? clock_collect(s->t->env->clock) : tablet_now(s->t);
	s->own_check = (struct row_check){scan_check_row, s};
	err = live_open(s->t, &s->snap, &s->rest, now, s->filter, &s->own_check, skipped, &s->live);
	if (!err && s->where) {
		err = live_open(s->t, &s->snap, row_where_spec(s->where, &s->rest), now, NULL, NULL, skipped, &columns);
		if (err)
			live_free(s->live);
		else
			row_where_begin(s->where, columns);
	}
	if (err) {
		s->live = NULL;
		snap_put(&s->snap);
	}
	return err;
}

int tablet_fingerprint(struct tablet *t, const struct snap *snap, struct tfs_bytes row, uint16_t family, int64_t now, uint64_t *sum)
{
	const struct scan_spec spec = {
		.pub.what = TFS_SCAN_KEYS, .pub.row_from = row, .pub.one_row = true, .family_ids = &family, .pub.family_count = 1};
	struct live_cell c;
	struct live *live;
	int r = live_open(t, snap, &spec, now, NULL, NULL, NULL, &live);

	if (r)
		return r;
	*sum = 0;
	while ((r = live_next(live, &c)) > 0)
		if (r != LIVE_NONE_YET)
			*sum += cell_fingerprint(c.family, c.qualifier, c.ts, c.seq, c.commit_us);
	live_free(live);
	return r;
}

int tablet_doubtful(struct tablet *t, const struct snap *snap, struct tfs_bytes row, uint16_t family, int64_t now, int64_t kept,
	int (*fn)(void *arg, const struct live_cell *c), void *arg)
{
	const struct scan_spec spec = {.pub.what = TFS_SCAN_KEYS,
		.pub.row_from = row,
		.pub.one_row = true,
		.family_ids = family ? &family : NULL,
		.pub.family_count = family != 0};
	struct live_cell c;
	struct live *live;
	int r = live_open(t, snap, &spec, kept, NULL, NULL, NULL, &live);

	if (r)
		return r;
	while ((r = live_next(live, &c)) > 0) {
		if (r != LIVE_NONE_YET && c.expires_us <= now && (r = fn(arg, &c)) < 0)
			break;
	}
	live_free(live);
	return r;
}

static void scan_close_view(struct tablet_scan *s)
{
	if (!s->live)
		return;
	live_free(s->live);
	s->live = NULL;
	row_where_end(s->where);
	snap_put(&s->snap);
}

/* Copies the bytes to which the spec points into the scan's memory. */
static int scan_copy_spec(struct tablet_scan *s)
{
	struct scan_spec *p = &s->spec;
	struct tfs_bytes *const own[] = {&p->files, &p->done_row, &p->done_qualifier};
	int err = scan_own_bytes(&p->pub, &s->bytes);

	for (size_t i = 0; i < sizeof own / sizeof *own && !err; i++)
		err = bytes_own(own[i], &s->bytes);
	if (err)
		return err;
	if (p->family_ids) {
		uint16_t *families = arena_alloc(&s->bytes, (p->pub.family_count + 1u) * sizeof *families);

		if (!families)
			return -ENOMEM;
		memcpy(families, p->family_ids, p->pub.family_count * sizeof *families);
		p->family_ids = families;
	}
	return 0;
}

int tablet_scan_new(struct tablet *t, const struct scan_spec *spec, struct tablet_scan **out)
{
	struct tablet_scan *s = calloc(1, sizeof *s);
	int err;

	if (!s)
		return -ENOMEM;
	tablet_enter(t);
	s->t = t;
	s->spec = *spec;
	err = scan_copy_spec(s);
	if (!err)
		err = scan_filter_new(&s->spec, &s->filter);
	if (!err)
		err = row_where_new(&s->spec, &s->where);
	if (!err && spec->pub.what == TFS_SCAN_HASHES)
		err = scan_hash_new(&s->hash);
	s->rest = s->spec;
	if (!err)
		err = scan_open_view(s);
	if (err)
		tablet_scan_free(s);
	else
		*out = s;
	return err;
}

/*
 * Closes a view that is too old.  Removes the last row from the batch; the next
 * batch starts with that row in a new view.  Does nothing if the batch has only
 * one row.  If filters have left the batch empty, the next batch starts with
 * the row that they have reached.
 */
static int scan_leave_view(struct tablet_scan *s, struct scan_batch *b)
{
	uint32_t keep_count = b->count;
	struct buf row = {0};
	int err;

	if (b->count)
		err = buf_set(&row, b->cells[b->count - 1].row.p, b->cells[b->count - 1].row.n);
	else
		err = live_row(s->live, &row);
	while (!err && keep_count && bytes_eq(b->cells[keep_count - 1].row, buf_bytes(&row)))
		keep_count--;
	if (err || row.n == 0 || (b->count && !keep_count)) {
		buf_fini(&row);
		return err;
	}
	buf_fini(&s->row);
	s->row = row;
	s->already.cells -= b->count - keep_count;
	s->already.rows -= b->count != 0;
	b->count = keep_count;
	scan_close_view(s);
	if (s->spec.pub.reverse) {
		err = buf_u8(&s->row, 0); /* the smallest row above it, because row_to is exclusive */
		s->rest.pub.row_to = buf_bytes(&s->row);
	} else {
		s->rest.pub.row_from = buf_bytes(&s->row);
		s->rest.pub.row_from_after = false;
	}
	return err;
}

/* Closes the view after a part of a scan for hashes; the next part starts behind it in a new view. */
static int scan_leave_part(struct tablet_scan *s, struct scan_batch *b)
{
	if (!b->count)
		return scan_hash_is_empty(s->hash) ? scan_leave_view(s, b) : 0;
	if (buf_set(&s->row, b->cells[0].row.p, b->cells[0].row.n) || buf_u8(&s->row, 0)) /* the smallest row above it */
		return -ENOMEM;
	scan_hash_leave(s->hash);
	scan_close_view(s);
	s->rest.pub.row_from = buf_bytes(&s->row);
	s->rest.pub.row_from_after = false;
	return 0;
}

bool tablet_scan_replaced(const struct tablet_scan *s, struct tfs_bytes *row)
{
	if (s->replaced)
		*row = buf_bytes(&s->row);
	return s->replaced;
}

/* Counts the cells that scans pass until a major compaction removes them.  compact_wants_major() compares the two costs. */
static void note_passed(struct tablet *t, uint64_t n)
{
	uint64_t before;

	if (!n || t->frozen)
		return;
	before = atomic_fetch_add_explicit(&t->passed, n, memory_order_relaxed);
	if (before / TABLET_PASSED_LEAST != (before + n) / TABLET_PASSED_LEAST)
		tablet_want_merge(t); /* looks for a major compaction that is due */
}

void tablet_scan_check_rows(struct tablet_scan *s, int (*fn)(void *arg, struct tfs_bytes row), void *arg)
{
	s->check = (struct row_check){fn, arg};
}

void tablet_scan_set_batch(struct tablet_scan *s, size_t bytes)
{
	s->rest.pub.batch_bytes = bytes;
}

static bool view_is_old(const struct tablet_scan *s)
{
	return !s->spec.pub.one_row &&
		monotonic_us() - s->taken_us > (s->t->env->scan_view_us ? s->t->env->scan_view_us : SCAN_VIEW_US);
}

/* A view that is too old is left at the next row: there the part ends. */
static int scan_fill_hashes(struct tablet_scan *s, struct scan_batch *b)
{
	const bool old = view_is_old(s);
	int err = scan_hash_fill(s->live, &s->rest, old ? 1 : s->rest.pub.batch_bytes, s->hash, b);

	return !err && old && !b->done ? scan_leave_part(s, b) : err;
}

int tablet_scan_fill(struct tablet_scan *s, struct scan_batch *b)
{
	int err = 0;

	scan_batch_reset(b);
	if (!s->done && !s->live) {
		if (s->t->state == TABLET_GONE) /* a new view would lack the writes to the new tablets */
			s->replaced = s->done = true;
		else if ((err = scan_open_view(s)))
			return err;
	}
	b->done = s->done;
	if (!s->done && (err = s->hash ? scan_fill_hashes(s, b) : scan_fill(s->live, &s->rest, &s->already, b)))
		return err;
	if (s->live)
		note_passed(s->t, live_passed(s->live));
	for (uint32_t i = 0; i < b->count && s->t->frozen; i++)
		b->cells[i].expires_us = INT64_MAX;
	s->done = b->done;
	b->damaged = s->skipped != 0;
	if (!b->done && !s->hash && view_is_old(s))
		err = scan_leave_view(s, b);
	return err;
}

void tablet_scan_free(struct tablet_scan *s)
{
	struct tablet *t;

	if (!s)
		return;
	t = s->t;
	scan_close_view(s);
	scan_filter_free(s->filter);
	row_where_free(s->where);
	scan_hash_free(s->hash);
	arena_fini(&s->bytes);
	buf_fini(&s->row);
	free(s);
	tablet_leave(t);
}
