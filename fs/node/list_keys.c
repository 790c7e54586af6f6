/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a directory, in key order: rows, merged with made rows; and cells.
 *
 * The keys below a part are not always neighbours in key order (a shorter name
 * may be between them), so a part is listed at its first key.  A scan finds the
 * first key of a part.  That costs a seek for each change of part.  In return
 * the cursor is one key.
 */
#include "fs/node/list.h"

#include "fs/base/ahead.h"
#include "fs/base/extra.h"

#include <errno.h>

/* An answer to READDIR has space for some 200 entries.  The next answer begins a new scan, unless another process serves the store. */
static size_t batch_bytes(void)
{
	return fs.shared ? 128u << 10 : 32u << 10;
}

/* ---- rows ---- */

static int rows_scan(struct lister *l)
{
	struct tfs_scan_spec spec = l->source.clauses.spec;
	int r = 0;

	spec.what = TFS_SCAN_ROWS;
	spec.batch_bytes = batch_bytes();
	spec.past_damage = l->damaged;
	if (l->path.n) {
		bound_from(&spec.row_from, &spec.row_from_after, buf_bytes(&l->prefix.raw), false);
		r = key_after_prefix(buf_bytes(&l->prefix.raw), &l->to);
		if (l->to.n)
			bound_to(&spec.row_to, buf_bytes(&l->to));
	}
	if (l->phase_begun && spec.reverse)
		bound_to(&spec.row_to, buf_bytes(&l->at.key));
	else if (l->phase_begun)
		bound_from(&spec.row_from, &spec.row_from_after, buf_bytes(&l->at.key), true);
	if (spec.reverse && spec.past_damage)
		r = -EIO;
	return r ? r : lister_scan(l, &spec);
}

/* The next cell of l->row in the family.  Returns 1, or 0 at the end. */
static int ahead_next(struct lister *l)
{
	const struct tfs_family *f = tfs_schema_family(l->schema, node_name(l->base));

	while (f && l->row_at < l->row->count) {
		const struct ahead_cell *c = &l->row->cells[l->row_at++];

		if (c->family != f->id)
			continue;
		l->cell = (struct tfs_cell){.qualifier = c->qualifier,
			.ts = c->info.ts,
			.size = c->info.size,
			.value = c->value,
			.expires_us = c->info.expires_us,
			.commit_us = c->info.commit_us};
		return 1;
	}
	return 0;
}

/* Uses a row that was read before, if it has cells of the family behind the cursor. */
static bool cells_ahead(struct lister *l)
{
	const struct tfs_family *f;

	if (l->source.is_view || l->path.n || l->damaged || !l->schema)
		return false;
	f = tfs_schema_family(l->schema, node_name(l->base));
	l->row = f ? ahead_get(l->base, node_key(l->base->parent), AHEAD_KNOWN) : NULL;
	for (l->row_at = 0; l->row && l->row_at < l->row->count; l->row_at++) {
		const struct ahead_cell *c = &l->row->cells[l->row_at];
		const int order = l->phase_begun ? bytes_cmp(c->qualifier, buf_bytes(&l->at.key)) : 1;

		if (c->family == f->id && (order > 0 || (order == 0 && !l->source.latest && c->info.ts < l->at.number)))
			return true;
	}
	ahead_put(l->row);
	l->row = NULL;
	return false;
}

/* Makes l->cell the scan's next entry, if there is one (l->peeked). */
static int lister_peek(struct lister *l, int (*open_scan)(struct lister *l))
{
	int r = 0;

	if (l->peeked || l->scan_done)
		return 0;
	for (;;) {
		if (!l->scan && !l->row)
			r = open_scan(l);
		if (r == 0 && l->row)
			r = ahead_next(l);
		else if (r == 0 && l->scan)
			r = tfs_scan_next(l->scan, &l->cell);
		if (!lister_is_damage(r) || l->damaged)
			break;
		l->damaged = true;
		lister_end_scan(l);
		r = 0;
	}
	if (lister_is_damage(r))
		r = 0; /* the scan's end, with past_damage, reports the damage */
	if (r < 0)
		return r;
	l->peeked = r > 0;
	l->scan_done = r == 0;
	return 0;
}

/* The next row key, of the store or of a made row, into at.key.  Returns 1, 0 at the end, -errno. */
static int rows_next(struct lister *l)
{
	struct tfs_bytes row = {0}, *above = NULL, key = buf_bytes(&l->at.key), prefix = buf_bytes(&l->prefix.raw);
	struct node *extra;
	int r;

	r = lister_peek(l, rows_scan);
	if (r)
		return r;
	if (l->peeked)
		row = l->cell.row;
	if (l->phase_begun)
		above = &key;
	else if (l->path.n)
		above = &prefix;
	mutex_lock(tree_mutex());
	extra = l->own ? extra_next_locked(l->own, 1, above) : NULL;
	if (extra && l->path.n && !bytes_has_prefix(node_key(extra), prefix))
		extra = NULL;
	if (extra && l->peeked) {
		int c = bytes_cmp(node_key(extra), row);

		if (c == 0)
			l->peeked = false;
		else if (c > 0)
			extra = NULL;
	}
	if (extra)
		r = buf_set(&l->at.key, extra->key, extra->key_n);
	mutex_unlock(tree_mutex());
	if (r)
		return r;
	if (!extra) {
		if (!l->peeked)
			return 0;
		l->peeked = false;
		r = buf_set(&l->at.key, row.p, row.n);
		if (r)
			return r;
	}
	l->phase_begun = true;
	return 1;
}

/* ---- cells ---- */

/* l->from and l->to: the qualifiers below the directory's path. */
static int cells_range(struct lister *l)
{
	const struct buf *first = l->behind ? &l->prefix.raw : &l->prefix.qualifier;
	int r = buf_set(&l->from, first->p, first->n);

	if (r == 0 && l->behind)
		return key_after_prefix(buf_bytes(&l->prefix.raw), &l->to);
	/* the versions of one qualifier */
	if (r == 0)
		r = buf_set(&l->to, first->p, first->n);
	return r ? r : buf_u8(&l->to, 0);
}

static int cells_scan(struct lister *l)
{
	const char *family = node_name(l->base);
	struct tfs_scan_spec spec = l->source.clauses.spec;
	bool counts = scan_has(&spec, SCAN_COLUMN); /* then the scan begins at the first column, and is_before_cursor() skips */
	int r = 0;

	if (cells_ahead(l))
		return 0;
	spec.what = l->values ? TFS_SCAN_CELLS : TFS_SCAN_KEYS;
	spec.row_from = node_key(l->base->parent);
	spec.row_from_after = spec.reverse = false;
	spec.one_row = true;
	spec.families = &family;
	spec.family_count = 1;
	spec.batch_bytes = batch_bytes();
	spec.past_damage = l->damaged;
	/* These filters select among versions: then is_before_cursor() skips all versions except the first that matches. */
	if (l->source.latest && !scan_has(&spec, SCAN_VALUE))
		spec.versions = 1;
	if (l->path.n) {
		r = cells_range(l);
		if (!counts)
			bound_from(&spec.qualifier_from, &spec.qualifier_from_after, buf_bytes(&l->from), false);
		if (l->to.n)
			bound_to(&spec.qualifier_to, buf_bytes(&l->to));
	}
	if (l->phase_begun && !counts) {
		bound_from(&spec.qualifier_from, &spec.qualifier_from_after, buf_bytes(&l->at.key), l->source.latest);
		spec.after_cell = !l->source.latest && !l->source.is_view;
		spec.after_ts = l->at.number;
	}
	if (r)
		return r;
	r = lister_scan(l, &spec);
	if (r == -EINVAL) { /* the family was dropped */
		l->scan_done = true;
		r = 0;
	}
	return r;
}

/* In a view, which may count versions or columns, a scan begins with cells that precede the cursor. */
static bool is_before_cursor(const struct lister *l)
{
	struct tfs_bytes qualifier = l->cell.qualifier;
	int order;

	if (!l->source.is_view)
		return false;
	if (l->path.n && bytes_cmp(qualifier, buf_bytes(&l->from)) < 0)
		return true;
	if (!l->phase_begun)
		return false;
	order = bytes_cmp(qualifier, buf_bytes(&l->at.key));
	return order < 0 || (order == 0 && (l->source.latest || l->cell.ts >= l->at.number));
}

static int cells_next(struct lister *l)
{
	int r;

	do {
		r = lister_peek(l, cells_scan);
		if (r || !l->peeked)
			return r;
		l->peeked = false;
	} while (is_before_cursor(l));
	l->at.number = l->cell.ts;
	r = buf_set(&l->at.key, l->cell.qualifier.p, l->cell.qualifier.n);
	if (r)
		return r;
	l->phase_begun = true;
	return 1;
}

/* Returns 1 and a key in at.key whose path, in l->name, is below l->path; 0 at the end; -errno. */
static int keys_next(struct lister *l)
{
	bool rows = !node_is(l->base, KIND_FAMILY);

	for (;;) {
		enum name_kind kind = rows ? NAME_ROW : l->source.latest ? NAME_NEWEST : NAME_VERSION;
		struct tfs_bytes component;
		bool last;
		int r = rows ? rows_next(l) : cells_next(l);

		if (r <= 0)
			return r;
		buf_reset(&l->name);
		r = name_encode(kind, buf_bytes(&l->at.key), l->at.number, &l->name);
		if (r == -EINVAL)
			continue; /* the empty row has no name */
		if (r)
			return r;
		if (l->name.n >= l->path.n && name_component(buf_bytes(&l->name), l->path, &component, &last))
			return 1;
	}
}

/*
 * The cells of a part have two ranges: if the text after its last '@' may begin
 * a timestamp, first the versions of the qualifier before the '@'; then the
 * qualifiers that begin with the part.  Returns false if the range is empty, or
 * if the two ranges are equal.
 */
static bool has_range(const struct lister *l, bool behind)
{
	if (!node_is(l->base, KIND_FAMILY) || !l->path.n)
		return !behind;
	return behind || (l->prefix.split_version && !bytes_eq(buf_bytes(&l->prefix.qualifier), buf_bytes(&l->prefix.raw)));
}

/* The first key below a part, into *key and *ts.  Returns 1, 0 if there is none, -errno. */
static int part_first(struct node *base, struct tfs_bytes path, struct buf *key, int64_t *ts)
{
	struct lister l = {.base = base};
	int r = lister_init(&l, base, path);

	for (int behind = 0; r == 0 && behind <= 1; behind++) {
		if (!has_range(&l, behind))
			continue;
		lister_end_scan(&l);
		l.behind = behind;
		l.phase_begun = false;
		l.at.number = 0;
		buf_reset(&l.at.key);
		r = keys_next(&l);
	}
	if (r == 0 && l.damaged)
		r = -EBADMSG;
	if (r > 0) {
		*ts = l.at.number;
		if (buf_set(key, l.at.key.p, l.at.key.n))
			r = -ENOMEM;
	}
	lister_fini(&l);
	return r;
}

int keys_below_part(struct node *base, struct tfs_bytes path)
{
	struct buf key = {0};
	int64_t ts;
	int r = part_first(base, path, &key, &ts);

	buf_fini(&key);
	return r < 0 ? r : r > 0 ? 0 : -ENOENT;
}

/* Returns 1 if the part is listed at the current key, which is the first of its keys; 0, -errno. */
static int part_is_due(struct lister *l, struct tfs_bytes part)
{
	struct buf first = {0};
	int64_t ts = 0;
	bool extra;
	int r;

	if (bytes_eq(buf_bytes(&l->last_part), part))
		return 0;
	mutex_lock(tree_mutex());
	extra = l->own && extra_find_locked(l->own, 0, part);
	mutex_unlock(tree_mutex());
	r = buf_set(&l->last_part, part.p, part.n);
	if (r || extra)
		return r;
	r = part_first(l->base, part, &first, &ts);
	if (lister_is_damage(r)) {
		l->damaged = true;
		r = 1; /* its first key may be unreadable.  Otherwise the part would not be listed at all. */
	} else if (r > 0)
		r = bytes_eq(buf_bytes(&first), buf_bytes(&l->at.key)) && ts == l->at.number;
	buf_fini(&first);
	return r;
}

static int next_key(struct lister *l, struct list_entry *e)
{
	int r;

	while ((r = keys_next(l)) > 0) {
		struct tfs_bytes component;
		bool last;

		if (!name_component(buf_bytes(&l->name), l->path, &component, &last))
			continue;
		e->name = component;
		e->parent = l->base;
		e->unsure = l->cell.unsure;
		if (last) {
			e->key = buf_bytes(&l->at.key);
			e->kind = NODE_ROW;
			if (node_is(l->base, KIND_FAMILY)) {
				e->parent = l->own;
				e->kind = l->source.is_view ? NODE_FOUND : l->source.latest ? NODE_PLAIN : NODE_VERSION;
				e->ts = l->source.latest && !l->source.is_view ? 0 : l->at.number;
				e->info = (struct tfs_info){l->cell.ts, l->cell.size, l->cell.expires_us, l->cell.commit_us};
				e->value = l->cell.value;
			}
			return 1;
		}
		e->key = tfs_bytes_of(l->name.p, (size_t)(component.p + component.n - l->name.p));
		e->kind = node_is(l->base, KIND_FAMILY) ? NODE_CELL_PART : NODE_ROW_PART;
		r = part_is_due(l, e->key);
		if (r)
			return r;
	}
	return r;
}

int list_keys(struct lister *l, struct list_entry *e)
{
	return has_range(l, false) ? next_key(l, e) : 0;
}

int list_keys_behind(struct lister *l, struct list_entry *e)
{
	l->behind = true;
	return next_key(l, e);
}
