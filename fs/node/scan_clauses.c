/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clauses of scans, streams and views, checked with the store.
 *
 * limit=N of a view.  The rows up to the N-th are found by one scan.  Its last row
 * is kept until something is committed, and is a bound of every later scan of the
 * same user.
 */
#include "fs/node/view.h"

#include "fs/base/access.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

#define SCAN_PATH_MAX (4 * TFS_ROW_MAX)

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

/* Returns why the store refuses the clauses. */
static const char *refused_because(struct node *n, const struct clauses *c)
{
	const char *why = "the regular expression is not valid, or too long";
	const struct tfs_schema *s;

	if (tfs_schema_get(node_store_table(n), &s))
		return why;
	for (unsigned i = 0; i < c->spec.family_count; i++)
		if (!tfs_schema_family(s, c->spec.families[i]))
			why = "there is no such family";
	tfs_schema_put(s);
	return why;
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
	if (err == 0 &&
		(out->given >> CLAUSE_FAMILY & 1 || out->spec.row_regex.p || out->spec.qualifier_regex.p ||
			out->spec.value_regex.p)) {
		err = check_with_store(n, out);
		if (err == -EINVAL)
			err = refuse(err, n, name, "%s", refused_because(n, out));
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
	spec.row_limit = c->limit;
	r = fs_scan_as_asker(view, &spec, &scan);
	if (r)
		return r;
	while ((r = tfs_scan_next(scan, &cell)) > 0)
		if (++count == c->limit && buf_set(&c->row_last, cell.row.p, cell.row.n)) {
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
	uint64_t changes = atomic_load(&fs.changes), stamp;
	int err;

	if (!c->limit)
		return 0;
	err = last_row_of(view, c, &key);
	if (err == 0 && (!cache_get(&fs.view_ends, view, buf_bytes(&key), &stamp, &c->row_last) || stamp != changes)) {
		buf_reset(&c->row_last);
		err = last_row(view, c);
		if (err == 0)
			cache_put(&fs.view_ends, view, buf_bytes(&key), changes, c->row_last.p, c->row_last.n);
	}
	buf_fini(&key);
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

int view_clauses(struct node *n, struct clauses *out)
{
	struct node *view = node_above(n, NODE_VIEW);
	const char *why;
	int err = parse_path(view->parent, NULL, view->dir->entered_us, out, &why);

	if (view->parent->kind == NODE_SINCE)
		out->spec.absent_from = view->parent->dir->table;
	return err ? err : apply_limit(view, out);
}
