/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that were read ahead (ahead.h).
 *
 * A row that is asked for is read whole, by one scan.  If each of the last rows that had to be
 * read was above the row before it, a program walks through the table.  Then the scan also
 * reads the next rows: four times as many bytes as the scan before it, at most
 * WALK_BYTES_MAX.  The scan has a limit of rows, so one batch is the whole scan, and the
 * server keeps nothing open between two calls.
 *
 * A row that is larger than a batch is not kept.  After such a row the next SKIP_ROWS rows of the
 * table are not tried, because closing the scan is a second round trip.
 *
 * A cache of ROWS_BYTES finds rows by table, view and key.  The oldest rows are removed first.
 *
 * Rejected: a scan that stays open from one batch to the next.  It saves no round trip, and
 * servers limit the number of open scans.
 */
#include "fs/base/ahead.h"

#include "engine/base/hashtable.h"
#include "engine/base/mutex.h"
#include "engine/base/stop.h"

#include <errno.h>
#include <stdlib.h>

#define ROWS_BYTES ((size_t)8 << 20)
#define ROW_BYTES_MAX (64u << 10)
#define BATCH_BYTES (256u << 10)
#define WALK_BYTES_MIN (8u << 10)
#define WALK_BYTES_MAX (128u << 10) /* half a batch, because rows differ */
#define WALK_ROWS_MAX 4096u
#define TABLES 8u
#define SKIP_ROWS 64u
#define ASCENDING_SURE 4u /* then reads go through the table */
#define ARENA_BYTES 1024u /* the first block; each further block doubles */
#define VIEW_BYTES 5u     /* a table's id, and whether it is .latest */

struct read_row {
	struct ahead_row row; /* first */
	UT_hash_handle hh;
	unsigned refs;  /* the cache has a reference, and each user */
	uint64_t stamp; /* fs_changes() before it was read */
	int64_t expires_us;
	bool values;
	size_t bytes, key_n; /* bytes is an estimate of its memory */
	struct ahead_cell *cells;
	unsigned cap;
	struct arena arena; /* the memory of the cells' bytes */
	uint8_t key[];
};

/* The order in which the rows of a table are asked for. */
struct walk {
	uint64_t used; /* 0: free */
	uint8_t view[VIEW_BYTES];
	bool values;
	struct buf last;    /* the last row that was not known */
	unsigned ascending; /* how many rows before it were in rising order */
	unsigned skip;      /* the number of rows that are not tried */
	size_t row_bytes;   /* the size of an average row */
};

static struct {
	struct mutex lock;
	struct read_row *rows; /* uthash lists them in the order of age */
	size_t bytes;
	struct walk walks[TABLES];
	uint64_t uses;
} ahead;

void ahead_init(void)
{
	mutex_init(&ahead.lock, RANK_FS_NOTIFY);
}

static void row_free(struct read_row *r)
{
	arena_fini(&r->arena);
	free(r->cells);
	free(r);
}

static void put_locked(struct read_row *r)
{
	if (--r->refs == 0)
		row_free(r);
}

static void remove_locked(struct read_row *r)
{
	HASH_DELETE(hh, ahead.rows, r);
	ahead.bytes -= r->bytes;
	put_locked(r);
}

void ahead_fini(void)
{
	while (ahead.rows)
		remove_locked(ahead.rows);
	for (unsigned i = 0; i < TABLES; i++)
		buf_fini(&ahead.walks[i].last);
	mutex_fini(&ahead.lock);
}

void ahead_put(struct ahead_row *row)
{
	if (!row)
		return;
	mutex_lock(&ahead.lock);
	put_locked((struct read_row *)row);
	mutex_unlock(&ahead.lock);
}

/* ---- the cache ---- */

static int view_key(struct node *dir, bool latest, struct buf *out)
{
	const struct node *t = node_table(dir);
	const int err = buf_append_bytes(out, node_key(t));

	return err ? err : buf_u8(out, latest);
}

static struct read_row *find_locked(const struct buf *key, bool values)
{
	struct read_row *r;

	HASH_FIND(hh, ahead.rows, key->p, key->n, r);
	if (!r)
		return NULL;
	if (r->stamp == fs_changes() && r->expires_us > fs_now_us())
		return r->values || !values ? r : NULL;
	remove_locked(r);
	return NULL;
}

static void keep(struct read_row *r)
{
	struct read_row *old;

	r->row.cells = r->cells;
	r->bytes = sizeof(*r) + r->key_n + r->cap * sizeof(*r->cells) + ARENA_BYTES + 2 * r->bytes;
	mutex_lock(&ahead.lock);
	HASH_FIND(hh, ahead.rows, r->key, r->key_n, old);
	if (old)
		remove_locked(old);
	HASH_ADD_KEYPTR(hh, ahead.rows, r->key, r->key_n, r);
	if (r->hh.tbl) {
		r->refs++;
		ahead.bytes += r->bytes;
	}
	while (ahead.bytes > ROWS_BYTES)
		remove_locked(ahead.rows);
	mutex_unlock(&ahead.lock);
}

/* ---- reading ---- */

static struct read_row *row_new(const struct buf *view, struct tfs_bytes key, bool values, uint64_t stamp)
{
	struct read_row *r = calloc(1, sizeof(*r) + view->n + key.n);

	if (!r)
		return NULL;
	*r = (struct read_row){.refs = 1, .stamp = stamp, .expires_us = INT64_MAX, .values = values, .key_n = view->n + key.n};
	memcpy(r->key, view->p, view->n);
	memcpy(r->key + view->n, key.p, key.n);
	return r;
}

static int row_add(struct read_row *r, const struct tfs_cell *c)
{
	struct ahead_cell *to;

	if (r->row.count == r->cap) {
		to = reallocarray(r->cells, r->cap ? 2 * r->cap : 8, sizeof(*to));
		if (!to)
			return -ENOMEM;
		r->cells = to;
		r->cap = r->cap ? 2 * r->cap : 8;
	}
	to = &r->cells[r->row.count];
	*to = (struct ahead_cell){.family = c->family_id, .info = {c->ts, c->size, c->expires_us, c->commit_us}};
	if (!arena_dup(&r->arena, c->qualifier, &to->qualifier))
		return -ENOMEM;
	to->value = c->value;
	if (bytes_own(&to->value, &r->arena))
		return -ENOMEM;
	r->bytes += c->qualifier.n + c->value.n;
	if (c->expires_us < r->expires_us)
		r->expires_us = c->expires_us;
	r->row.count++;
	return 0;
}

static size_t cell_bytes(const struct tfs_cell *c)
{
	return sizeof(*c) + c->row.n + c->qualifier.n + c->value.n;
}

/*
 * Keeps each whole row of the scan, and adds their number to *count.  Sets *out to the
 * requested row if it is whole; it may have no cells.  Returns the bytes of the cells, or
 * -errno.
 */
static ssize_t read_rows(struct tfs_scan *scan, const struct buf *view, size_t bytes_max, struct read_row *first,
	struct read_row **out, unsigned *count)
{
	struct read_row *r = first;
	const size_t at = view->n;
	struct tfs_cell c;
	size_t bytes = 0;
	int n = 0;

	*count = 0;
	while (r && bytes < bytes_max && (n = tfs_scan_next(scan, &c)) > 0) {
		if (c.unsure)
			n = -EIO;
		if (n > 0 && !bytes_eq(c.row, tfs_bytes_of(r->key + at, r->key_n - at))) {
			struct read_row *next = row_new(view, c.row, r->values, r->stamp);

			++*count;
			keep(r);
			if (r == first)
				*out = first;
			else
				ahead_put(&r->row);
			r = next;
		}
		bytes += cell_bytes(&c);
		if (n > 0 && r)
			n = row_add(r, &c) ? -ENOMEM : n;
		if (n < 0)
			break;
	}
	if (r && n == 0) {
		++*count;
		keep(r);
		if (r == first)
			*out = first;
	}
	if (r && *out != r)
		ahead_put(&r->row);
	return n < 0 || !r ? -EIO : (ssize_t)bytes;
}

static ssize_t fetch(struct node *dir, const struct buf *view, struct tfs_bytes row, bool values, unsigned rows,
	struct read_row **out, unsigned *count)
{
	struct tfs_scan_spec spec = {.what = values ? TFS_SCAN_CELLS : TFS_SCAN_KEYS,
		.row_from = row,
		.one_row = rows == 1,
		.row_limit = rows == 1 ? 0 : rows,
		.versions = view->p[VIEW_BYTES - 1],
		.batch_bytes = rows == 1 ? ROW_BYTES_MAX : BATCH_BYTES};
	struct read_row *first = row_new(view, row, values, fs_changes());
	struct tfs_scan *scan;
	ssize_t n;

	if (!first || tfs_scan_new(node_store_table(dir), &spec, &scan)) {
		ahead_put(first ? &first->row : NULL);
		return -EIO;
	}
	n = read_rows(scan, view, spec.batch_bytes, first, out, count);
	tfs_scan_free(scan);
	return n;
}

/* ---- walks ---- */

static struct walk *walk_of_locked(const struct buf *view, bool values)
{
	struct walk *w = &ahead.walks[0];

	for (unsigned i = 0; i < TABLES; i++) {
		if (ahead.walks[i].used && ahead.walks[i].values == values && memcmp(ahead.walks[i].view, view->p, view->n) == 0) {
			w = &ahead.walks[i];
			w->used = ++ahead.uses;
			return w;
		}
		if (ahead.walks[i].used < w->used)
			w = &ahead.walks[i];
	}
	buf_fini(&w->last);
	*w = (struct walk){.used = ++ahead.uses, .values = values, .row_bytes = 1024};
	memcpy(w->view, view->p, view->n);
	return w;
}

static void walk_pass(struct walk *w, struct tfs_bytes row)
{
	const int order = w->last.n ? bytes_cmp(row, buf_bytes(&w->last)) : -1;

	w->ascending = order < 0 ? 0 : w->ascending + (order > 0);
	if (order && buf_set(&w->last, row.p, row.n))
		w->last.n = 0;
}

/* Returns true if a program lists the rows and reads their values: since the last row that was listed, values were read. */
static bool reads_follow_locked(const struct buf *view, const struct walk *keys, struct tfs_bytes row)
{
	struct walk *values = walk_of_locked(view, true);

	if (keys->last.n == 0 || bytes_cmp(row, buf_bytes(&keys->last)) <= 0)
		values->ascending = 0; /* another walk begins */
	return values->ascending >= ASCENDING_SURE && bytes_cmp(buf_bytes(&values->last), buf_bytes(&keys->last)) >= 0;
}

/* Returns the number of rows to read, beginning with `row`; 0: the store is asked.  row_bytes: the size of an average row. */
static unsigned plan_locked(struct walk *w, struct tfs_bytes row, enum ahead_use use, size_t row_bytes)
{
	const bool same = w->last.n && bytes_eq(row, buf_bytes(&w->last));
	size_t bytes = WALK_BYTES_MIN;

	if (w->skip) {
		w->skip--;
		return 0;
	}
	if (use == AHEAD_ROW)
		return 1;
	walk_pass(w, row);
	if (use == AHEAD_VALUES && !same && w->ascending < ASCENDING_SURE)
		return 0;
	if (w->ascending == 0)
		return 1;
	for (unsigned i = 1; i < w->ascending && bytes < WALK_BYTES_MAX; i++)
		bytes *= 4;
	if (bytes > WALK_BYTES_MAX)
		bytes = WALK_BYTES_MAX;
	bytes /= row_bytes + 1;
	return bytes < 2 ? 2 : bytes > WALK_ROWS_MAX ? WALK_ROWS_MAX : (unsigned)bytes;
}

/* A scan of a salted table is one of each range, so a few rows cost less one by one. */
static unsigned salted(struct node *dir, unsigned rows)
{
	const struct tfs_schema *s;

	if (rows > 1 && tfs_schema_get(node_store_table(dir), &s) == 0) {
		if (rows < 4u * (unsigned)s->salt_in_use)
			rows = 1;
		tfs_schema_put(s);
	}
	return rows;
}

static struct read_row *read_ahead(struct node *dir, const struct buf *view, struct tfs_bytes row, enum ahead_use use)
{
	bool values = use == AHEAD_VALUES;
	struct read_row *r = NULL;
	unsigned rows, count = 0;
	struct walk *w;
	ssize_t bytes;

	mutex_lock(&ahead.lock);
	w = walk_of_locked(view, values);
	values = values || (use == AHEAD_WALK && reads_follow_locked(view, w, row));
	rows = plan_locked(w, row, use, walk_of_locked(view, values)->row_bytes);
	mutex_unlock(&ahead.lock);
	rows = salted(dir, rows);
	if (!rows)
		return NULL;
	bytes = fetch(dir, view, row, values, rows, &r, &count);
	mutex_lock(&ahead.lock);
	w = walk_of_locked(view, values);
	if (!r || bytes < 0)
		w->skip = SKIP_ROWS;
	else if (count)
		w->row_bytes = (3 * w->row_bytes + (size_t)bytes / count) / 4;
	mutex_unlock(&ahead.lock);
	return r;
}

struct ahead_row *ahead_get(struct node *dir, struct tfs_bytes row, enum ahead_use use)
{
	struct read_row *r = NULL;
	struct buf key = {0};
	size_t view_n;

	if (!fs.shared || !fs.may_keep || node_in_scan(dir) || !row.n || view_key(dir, node_is_latest(dir), &key))
		goto out;
	if (use == AHEAD_VALUES && asker_is_wanted())
		goto out; /* values are then read on behalf of one user, and a row may lack families that others see */
	view_n = key.n;
	if (buf_append_bytes(&key, row))
		goto out;
	mutex_lock(&ahead.lock);
	r = find_locked(&key, use == AHEAD_VALUES);
	if (r)
		r->refs++;
	key.n = view_n;
	if (r && use == AHEAD_VALUES)
		walk_pass(walk_of_locked(&key, true), row);
	mutex_unlock(&ahead.lock);
	if (!r && use != AHEAD_KNOWN)
		r = read_ahead(dir, &key, row, use);
out:
	buf_fini(&key);
	return r ? &r->row : NULL;
}

/* ts: NULL: the newest version. */
static const struct ahead_cell *find_in(
	const struct ahead_row *r, const struct node *family, struct tfs_bytes qualifier, const int64_t *ts)
{
	const uint16_t id = (uint16_t)strtoul(node_name(family) + 1, NULL, 10);

	for (unsigned i = 0; i < r->count; i++) {
		const struct ahead_cell *c = &r->cells[i];

		if (c->family == id && (!ts || c->info.ts == *ts) && bytes_eq(c->qualifier, qualifier))
			return c;
	}
	return NULL;
}

bool ahead_find(struct node *family, struct tfs_bytes qualifier, bool version, int64_t ts, struct tfs_info *info)
{
	const struct ahead_cell *c = NULL;

	if (!fs.shared || !fs.may_keep || node_in_scan(family))
		return false;
	for (int latest = version ? 0 : 1; latest >= 0 && !c; latest--) {
		struct buf key = {0};
		struct read_row *r;

		if (view_key(family, latest, &key) == 0 && buf_append_bytes(&key, node_key(family->parent)) == 0) {
			mutex_lock(&ahead.lock);
			r = find_locked(&key, false);
			c = r ? find_in(&r->row, family, qualifier, version ? &ts : NULL) : NULL;
			if (c)
				*info = c->info;
			mutex_unlock(&ahead.lock);
		}
		buf_fini(&key);
	}
	return c;
}

bool ahead_read(struct node *version, void *p, size_t *n)
{
	struct node *family = version->parent;
	struct ahead_row *row = ahead_get(family, node_key(family->parent), AHEAD_VALUES);
	const struct ahead_cell *c = row ? find_in(row, family, node_key(version), &version->ts) : NULL;
	const bool found = c && c->value.p && c->value.n <= *n;

	if (found) {
		if (c->value.n)
			memcpy(p, c->value.p, c->value.n);
		*n = c->value.n;
	}
	ahead_put(row);
	return found;
}
