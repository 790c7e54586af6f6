/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .rows and .latest below a scan: the tree of the matching cells.  Each kind
 * of node from ROW to PLAIN has a counterpart here that can only be read.
 * .snap/B/.since/A/.rows is such a view without clauses: its scans leave out the
 * cells that the snapshot A has.
 *
 * A name exists if a scan with the clauses of the view, of that row, family or
 * column only, finds a cell.  The kernel caches nothing, because any commit may
 * change what a view shows.  A file is bound to one version.
 *
 * Ages count back from the moment at which the view was entered: a look-up of
 * its name while nothing in it is open.
 *
 * The scans are on behalf of the user who asks.  Otherwise a user could find
 * out values and qualifiers of a family without permission, by the rows that a
 * view with such clauses has.
 */
#include "fs/node/view.h"

#include "engine/base/name.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema_edit.h"
#include "fs/node/tree.h"

#include <errno.h>

_Static_assert(
	NODE_PLAIN - NODE_ROW == NODE_VIEW_PLAIN - NODE_VIEW_ROW && NODE_FAMILY - NODE_ROW == NODE_VIEW_FAMILY - NODE_VIEW_ROW,
	"the kinds below a view have the order of those below a table");

/* ---- the view ---- */

static int view_name(struct node *n, struct buf *out)
{
	return buf_append_bytes(out, node_key(n));
}

/* node_ops.find of .rows and .latest.  The clauses are checked. */
static int view_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct clauses c;
	struct node *n = NULL;
	int err;

	err = scan_clauses(dir, NULL, fs_now_us(), &c);
	if (err == 0 && c.partial)
		err = -ENOENT;
	clauses_fini(&c);
	if (err == 0)
		err = resolved_get(r, &n);
	if (err)
		return err;
	mutex_lock(tree_mutex());
	if (!node_dirx_locked(n)) {
		err = -ENOMEM;
	} else if (n->dir->opens == 0) {
		n->dir->entered_us = fs_now_us();
	}
	mutex_unlock(tree_mutex());
	if (err) {
		node_put(n);
		return err;
	}
	*out = n;
	return 0;
}

static void view_opened(struct node *n, bool open)
{
	struct node *view = node_above(n, NODE_VIEW);

	if (open)
		view->dir->opens++;
	else
		view->dir->opens--;
}

/* ---- names ---- */

static int in_view(int err, struct resolved *out)
{
	if (err == 0)
		out->kind = view_kind(out->kind);
	return err;
}

static int resolve_row(struct node *dir, const char *name, struct resolved *out)
{
	return name[0] == '.' ? -ENOENT : in_view(row_resolve_name(dir, name, out), out);
}

static int resolve_family(struct node *dir, const char *name, struct resolved *out)
{
	out->parent = dir;
	return name[0] == '.' ? -ENOENT : in_view(row_resolve_child(dir, name, out), out);
}

static int resolve_cell(struct node *dir, const char *name, struct resolved *out)
{
	int err = name[0] == '.' ? -ENOENT : cell_resolve_name(dir, name, out);

	if (err == 0 && out->kind == NODE_PLAIN && !node_is_latest(out->parent))
		return -ENOENT;
	return in_view(err, out);
}

static int row_name(struct node *n, struct buf *out)
{
	return name_encode(NAME_ROW, node_key(n), 0, out);
}

static int cell_name(struct node *n, struct buf *out)
{
	return name_encode(n->kind == NODE_VIEW_PLAIN ? NAME_NEWEST : NAME_VERSION, node_key(n), n->ts, out);
}

/* ---- existence ---- */

/* Sets spec to a scan of one row in the view of n.  -ENOENT: the row is not between the bounds. */
static int one_row(struct node *n, struct tfs_bytes row, struct clauses *c, struct tfs_scan_spec *spec)
{
	int err = view_clauses(n, c);

	if (err == 0 && (row.n == 0 || !clauses_admit_row(c, row)))
		err = -ENOENT;
	*spec = c->spec;
	spec->what = TFS_SCAN_ROWS;
	spec->row_from = row;
	spec->row_from_after = spec->reverse = false;
	spec->one_row = true;
	return err;
}

/* The same, of one family.  *family is its key, and lives as long as spec. */
static int one_family(struct node *row, const char *const *family, struct clauses *c, struct tfs_scan_spec *spec)
{
	bool found = false;
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err = one_row(row, node_key(row), c, spec);

	if (err == 0)
		err = tfs_schema_get(node_store_table(row), &s);
	if (err)
		return err;
	f = tfs_schema_family(s, *family);
	for (unsigned i = 0; f && i < spec->family_count && !found; i++)
		found = strcmp(spec->families[i], f->name) == 0;
	if (!f || (spec->family_count && !found))
		err = -ENOENT;
	tfs_schema_put(s);
	spec->families = family;
	spec->family_count = 1;
	return err;
}

/* 0, or -ENOENT if the scan finds nothing. */
static int scan_finds(struct node *n, const struct tfs_scan_spec *spec)
{
	struct tfs_scan *scan;
	struct tfs_cell cell;
	int r = fs_scan_as_asker(n, spec, &scan);

	if (r)
		return r == -EINVAL ? -ENOENT : r;
	r = tfs_scan_next(scan, &cell);
	tfs_scan_free(scan);
	return r < 0 ? r : r ? 0 : -ENOENT;
}

static int view_row_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct tfs_scan_spec spec;
	struct clauses c;
	int err = one_row(r->parent, buf_bytes(&r->key), &c, &spec);

	if (err == 0)
		err = scan_finds(dir, &spec);
	clauses_fini(&c);
	return err ? err : resolved_get(r, out);
}

static int view_family_find(struct node *row, struct resolved *r, struct node **out)
{
	struct tfs_scan_spec spec;
	struct clauses c = {0};
	const char *key;
	int err = fs_schema_bind(r);

	if (err)
		return err;
	key = (const char *)r->key.p;
	err = one_family(row, &key, &c, &spec);
	if (err == 0)
		err = scan_finds(row, &spec);
	clauses_fini(&c);
	return err ? err : resolved_get(r, out);
}

/* Finds the version; of a plain name the newest that matches, into r->ts. */
static int find_version(struct node *family, struct resolved *r, const struct tfs_scan_spec *spec)
{
	struct tfs_scan *scan;
	struct tfs_cell cell;
	bool found = false;
	int n = fs_scan_as_asker(family, spec, &scan);

	if (n)
		return n == -EINVAL ? -ENOENT : n;
	while (!found && (n = tfs_scan_next(scan, &cell)) > 0)
		found = bytes_eq(cell.qualifier, buf_bytes(&r->key)) && (r->kind == NODE_VIEW_PLAIN || cell.ts == r->ts);
	if (found)
		r->ts = cell.ts;
	tfs_scan_free(scan);
	return found ? 0 : n ? n : -ENOENT;
}

static int view_cell_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct node *family = r->parent;
	const char *key = node_name(family);
	struct tfs_scan_spec spec;
	struct buf behind = {0};
	struct clauses c;
	int err = one_family(family->parent, &key, &c, &spec);

	if (err == 0)
		err = buf_set(&behind, r->key.p, r->key.n);
	if (err == 0)
		err = buf_u8(&behind, 0);
	if (err == 0) {
		spec.what = TFS_SCAN_KEYS;
		if (!spec.column_limit) /* which counts from the first column on */
			bound_from(&spec.qualifier_from, &spec.qualifier_from_after, buf_bytes(&r->key), false);
		bound_to(&spec.qualifier_to, buf_bytes(&behind));
		err = find_version(family, r, &spec);
	}
	buf_fini(&behind);
	clauses_fini(&c);
	return err ? err : resolved_get(r, out);
}

/* ---- attributes ---- */

static int view_cell_attr(struct node *n, struct stat *st, double *timeout)
{
	struct family_info f;
	struct tfs_info info;
	int err = family_info_get(n->parent, &f);

	if (err == 0)
		err = cell_node_stat(n, &info);
	if (err == 0)
		cell_attr(n, &f, n->ts, info.commit_us, info.size, st);
	return err;
}

static bool view_cell_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	cell_attr(n, &a->family, n->ts, e->info.commit_us, e->info.size, &p->attr);
	return true;
}

const struct node_ops view_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN,
	.name = view_name,
	.attr = tree_attr,
	.opened = view_opened,
	.resolve = resolve_row,
	.list = (const list_phase_fn[]){list_keys, NULL},
	.find = view_find,
};

const struct node_ops view_row_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN,
	.name = row_name,
	.attr = tree_attr,
	.opened = view_opened,
	.resolve = resolve_family,
	.list = (const list_phase_fn[]){row_list_families, NULL},
	.find = view_row_find,
	.list_attr = row_list_attr,
};

const struct node_ops view_row_part_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN | KIND_PART,
	.attr = tree_attr,
	.opened = view_opened,
	.resolve = resolve_row,
	.list = (const list_phase_fn[]){list_keys, NULL},
	.find = part_find,
	.list_attr = row_list_attr,
};

const struct node_ops view_family_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN | KIND_FAMILY,
	.name = fs_schema_name,
	.attr = family_attr,
	.opened = view_opened,
	.resolve = resolve_cell,
	.list = (const list_phase_fn[]){list_keys, NULL},
	.find = view_family_find,
	.list_attr = family_list_attr,
};

const struct node_ops view_cell_part_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN | KIND_PART,
	.attr = family_attr,
	.opened = view_opened,
	.resolve = resolve_cell,
	.list = (const list_phase_fn[]){list_keys, list_keys_behind, NULL},
	.find = part_find,
	.list_attr = cell_part_list_attr,
};

const struct node_ops view_version_ops = {
	.traits = KIND_UNCACHED | KIND_SCAN,
	.name = cell_name,
	.attr = view_cell_attr,
	.opened = view_opened,
	.find = view_cell_find,
	.list_attr = view_cell_list_attr,
};

const struct node_ops view_plain_ops = {
	.traits = KIND_UNCACHED | KIND_SCAN,
	.name = cell_name,
	.attr = view_cell_attr,
	.opened = view_opened,
	.find = view_cell_find,
	.list_attr = view_cell_list_attr,
};
