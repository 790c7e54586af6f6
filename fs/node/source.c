/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clauses of scans, checked with the store, and the cells that the directories of a
 * tree show.
 *
 * In a view, a name exists if a scan with its clauses, of that row, family or column
 * only, finds a cell.  The scans are on behalf of the user who asks.  Otherwise a
 * user without permission could find out values and qualifiers of a family, by the
 * rows that views with such clauses show.
 *
 * limit=N of a view.  The rows up to the N-th are found by one scan.  Its last row
 * is kept until something is committed, and is a bound of every later scan of the
 * same user.
 */
#include "fs/node/source.h"

#include "fs/base/access.h"
#include "fs/base/ahead.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

#define SCAN_PATH_MAX (4 * TFS_ROW_MAX)

/* ---- clauses ---- */

/* Returns 0, or -EINVAL if a family does not exist or a pattern is not valid: the store compiles it in the user's scan of a row that seldom has cells. */
static int check_with_store(struct node *n, const struct clauses *c)
{
	struct tfs_scan_spec spec = c->spec;
	struct tfs_scan *scan;
	struct tfs_cell cell;
	int err;

	spec.row_from = TFS_S("\0");
	spec.row_from_after = spec.reverse = false;
	spec.one_row = true;
	err = fs_scan_as_asker(n, &spec, &scan);
	if (err)
		return err;
	err = tfs_scan_next(scan, &cell);
	tfs_scan_free(scan);
	return err < 0 && err != -EACCES ? err : 0; /* the scan itself will return EACCES */
}

/* Sets *out, which is empty, to the clauses of n joined by '/'.  Only a directory of clauses has any. */
static int scan_path(const struct node *n, struct buf *out)
{
	size_t bytes = 0, at;

	for (const struct node *p = n; p->kind == NODE_SCAN && p->key_n; p = p->parent)
		bytes += p->key_n + 1;
	if (!bytes)
		return 0;
	if (buf_reserve(out, bytes))
		return -ENOMEM;
	out->n = at = bytes - 1;
	for (const struct node *p = n; p->kind == NODE_SCAN && p->key_n; p = p->parent) {
		at -= p->key_n;
		memcpy(out->p + at, p->key, p->key_n);
		if (at)
			out->p[--at] = '/';
	}
	return 0;
}

/* Parses the clauses of n and of name below it.  *why: NULL, or the reason of -EINVAL. */
static int parse_path(const struct node *n, const char *name, int64_t now_us, struct clauses *out, const char **why)
{
	struct buf path = {0};
	int err = scan_path(n, &path);

	*out = (struct clauses){0};
	*why = NULL;
	if (!err && name && path.n)
		err = buf_u8(&path, '/');
	if (!err && name)
		err = buf_append(&path, name, strlen(name));
	if (!err)
		err = path.n > SCAN_PATH_MAX ? -ENAMETOOLONG : clauses_parse(buf_bytes(&path), now_us, out, why);
	buf_fini(&path);
	return err;
}

int scan_clauses(struct node *n, const char *name, int64_t now_us, struct clauses *out)
{
	const char *why;
	int err = parse_path(n, name, now_us, out, &why);

	if (why)
		return refuse(err, n, name, "%s", why);
	if (err == 0 && clauses_need_store(out)) {
		err = check_with_store(n, out);
		if (err == -EINVAL)
			err = refuse_store(err, n, name, "the store refuses this clause");
	}
	return err;
}

/* Finds the last row within the limit, into c->row_last; it is empty if there are fewer rows. */
static int last_row(struct node *view, struct clauses *c)
{
	struct tfs_scan_spec spec = c->spec;
	struct tfs_scan *scan;
	struct tfs_cell cell;
	uint64_t count = 0;
	int r;

	spec.what = TFS_SCAN_ROWS;
	r = fs_scan_as_asker(view, &spec, &scan);
	if (r)
		return r;
	while ((r = tfs_scan_next(scan, &cell)) > 0)
		if (++count == spec.row_limit && buf_set(&c->row_last, cell.row.p, cell.row.n)) {
			r = -ENOMEM;
			break;
		}
	tfs_scan_free(scan);
	return r;
}

/* The last row depends on the families that the user may read, and on the time from which ages count. */
static int last_row_of(const struct node *view, const struct clauses *c, struct buf *key)
{
	struct caller *caller = caller_new();
	int err = caller ? 0 : -ENOMEM;

	if (!err)
		err = buf_be64(key, c->has_age ? (uint64_t)view->dir->entered_us : 0);
	if (!err)
		err = buf_printf(key, "%u %u %d", caller->user.uid, caller->user.gid, caller->user.groups_unknown);
	for (unsigned i = 0; !err && i < caller->user.group_count; i++)
		err = buf_be32(key, caller->user.groups[i]);
	free(caller);
	return err;
}

static int apply_limit(struct node *view, struct clauses *c)
{
	struct buf key = {0};
	uint64_t changes = fs_changes(), stamp;
	int err;

	if (!c->spec.row_limit)
		return 0;
	err = last_row_of(view, c, &key);
	if (err == 0 && (!cache_get(&fs.view_ends, view, buf_bytes(&key), &stamp, &c->row_last) || stamp != changes)) {
		buf_reset(&c->row_last);
		err = last_row(view, c);
		if (err == 0)
			cache_put(&fs.view_ends, view, buf_bytes(&key), changes, c->row_last.p, c->row_last.n);
	}
	buf_fini(&key);
	c->spec.row_limit = 0;
	if (err || c->row_last.n == 0)
		return err;
	if (c->spec.reverse) {
		bound_from(&c->spec.row_from, &c->spec.row_from_after, buf_bytes(&c->row_last), false);
		return 0;
	}
	err = buf_u8(&c->row_last, 0);
	if (err == 0)
		bound_to(&c->spec.row_to, buf_bytes(&c->row_last));
	return err;
}

/* The clauses of the view that n is in; limit as a bound of the rows.  The caller calls clauses_fini in any case. */
static int view_clauses(struct node *n, struct clauses *out)
{
	struct node *view = node_above(n, NODE_VIEW);
	const char *why;
	int err = parse_path(view->parent, NULL, view->dir->entered_us, out, &why);

	if (view->parent->kind == NODE_SINCE)
		out->spec.absent_from = view->parent->dir->table;
	return err ? err : apply_limit(view, out);
}

/* ---- sources ---- */

int source_init(struct source *s, struct node *n)
{
	*s = (struct source){.node = n, .is_view = node_above(n, NODE_VIEW) != NULL, .latest = node_is_latest(n)};
	return s->is_view ? view_clauses(n, &s->clauses) : 0;
}

void source_fini(struct source *s)
{
	clauses_fini(&s->clauses);
}

int source_scan(const struct source *s, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	return s->is_view ? fs_scan_as_asker(s->node, spec, out) : tfs_scan_new(node_store_table(s->node), spec, out);
}

/* Narrows spec, of a view, to one family.  -ENOENT: the table does not have it, or the clauses exclude it. */
static int one_family(struct node *n, const char *const *family, struct tfs_scan_spec *spec)
{
	bool found = spec->family_count == 0;
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	f = tfs_schema_family(s, *family);
	for (unsigned i = 0; f && i < spec->family_count && !found; i++)
		found = strcmp(spec->families[i], f->name) == 0;
	tfs_schema_put(s);
	spec->families = family;
	spec->family_count = 1;
	return f && found ? 0 : -ENOENT;
}

/*
 * Sets *spec to the clauses of a view, narrowed to one row and, unless *family is NULL,
 * one family.  -ENOENT: the clauses exclude it.
 */
static int one_row(const struct source *s, struct tfs_bytes row, const char *const *family, struct tfs_scan_spec *spec)
{
	*spec = s->clauses.spec;
	if (row.n == 0 || !clauses_admit_row(&s->clauses, row))
		return -ENOENT;
	spec->what = TFS_SCAN_ROWS;
	spec->row_from = row;
	spec->row_from_after = spec->reverse = false;
	spec->one_row = true;
	return *family ? one_family(s->node, family, spec) : 0;
}

/* Begins a scan to look for a name.  -ENOENT: a family of the clauses was dropped. */
static int search_begin(const struct source *s, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	int err = source_scan(s, spec, out);

	return err == -EINVAL ? -ENOENT : err;
}

/* Returns true if a row that was read, or is read now, has the answer. */
static bool has_ahead(struct node *n, struct tfs_bytes row, const char *family, bool *has)
{
	struct ahead_row *r = ahead_get(n, row, AHEAD_KNOWN);
	const uint16_t id = family ? (uint16_t)strtoul(family + 1, NULL, 10) : 0;
	bool known = false;

	/* Names that are absent are asked for: another client may have closed a file there just now. */
	for (unsigned i = 0; r && !known && i < r->count; i++)
		*has = known = !family || r->cells[i].family == id;
	ahead_put(r);
	if (known || r || family)
		return known;
	r = ahead_get(n, row, AHEAD_ROW);
	if (r)
		*has = r->count > 0;
	ahead_put(r);
	return r != NULL;
}

int source_has(struct node *n, struct tfs_bytes row, const char *family, bool *has)
{
	struct tfs_scan_spec spec;
	struct tfs_cell cell;
	struct source s;
	struct tfs_scan *scan;
	int r;

	if (!node_in_scan(n) && has_ahead(n, row, family, has))
		return 0;
	if (!node_in_scan(n))
		return tfs_row_exists(node_store_table(n), row, family, has);
	r = source_init(&s, n);
	if (r == 0)
		r = one_row(&s, row, &family, &spec);
	if (r == 0)
		r = search_begin(&s, &spec, &scan);
	if (r == 0) {
		r = tfs_scan_next(scan, &cell);
		tfs_scan_free(scan);
	}
	source_fini(&s);
	if (r < 0 && r != -ENOENT)
		return r;
	*has = r > 0;
	return 0;
}

int source_find_version(struct node *family, struct tfs_bytes qualifier, int64_t *ts)
{
	const char *key = node_name(family);
	struct tfs_scan_spec spec;
	struct buf behind = {0};
	struct tfs_cell cell;
	struct source s;
	struct tfs_scan *scan;
	bool found = false;
	int r = source_init(&s, family);

	if (r == 0)
		r = one_row(&s, node_key(family->parent), &key, &spec);
	if (r == 0)
		r = buf_set(&behind, qualifier.p, qualifier.n);
	if (r == 0)
		r = buf_u8(&behind, 0);
	if (r)
		goto out;
	spec.what = TFS_SCAN_KEYS;
	if (!scan_has(&spec, SCAN_COLUMN)) /* such a member counts from the first column on */
		bound_from(&spec.qualifier_from, &spec.qualifier_from_after, qualifier, false);
	bound_to(&spec.qualifier_to, buf_bytes(&behind));
	r = search_begin(&s, &spec, &scan);
	if (r)
		goto out;
	while (!found && (r = tfs_scan_next(scan, &cell)) > 0)
		found = bytes_eq(cell.qualifier, qualifier) && (s.latest || cell.ts == *ts);
	if (found)
		*ts = cell.ts;
	tfs_scan_free(scan);
	r = found ? 0 : r ? r : -ENOENT;
out:
	buf_fini(&behind);
	source_fini(&s);
	return r;
}
