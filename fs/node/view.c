/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .rows and .latest below a scan: the tree of the matching cells, which can only be
 * read.  Its directories have the same kinds as in a table, with another source
 * (source.h).  Its files are bound to one version each. .snap/B/.since/A/.rows is
 * such a view without clauses: its scans leave out the cells that the snapshot A
 * has.
 *
 * The kernel caches nothing, because any commit may change what a view shows.
 *
 * Ages count back from the moment at which the view was entered: a look-up of
 * its name while nothing in it is open.
 */
#include "engine/base/name.h"
#include "fs/file/cell.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/source.h"
#include "fs/node/tree.h"

#include <errno.h>

/* ---- the view ---- */

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

const struct node_ops view_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN | KIND_NAMED,
	.attr = tree_attr,
	.resolve = row_resolve_name,
	.list = (const list_phase_fn[]){list_keys, NULL},
	.find = view_find,
};

/* ---- a cell ---- */

static int found_name(struct node *n, struct buf *out)
{
	return name_encode(node_is_latest(n) ? NAME_NEWEST : NAME_VERSION, node_key(n), n->ts, out);
}

static int found_find(struct node *dir, struct resolved *r, struct node **out)
{
	int err = source_find_version(r->parent, buf_bytes(&r->key), &r->ts);

	return err ? err : resolved_get(r, out);
}

static int found_attr(struct node *n, struct stat *st, double *timeout)
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

static bool found_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	const uint64_t size = node_is_latest(n) ? plain_file_size(&a->family, e->info.size) : e->info.size;

	cell_attr(n, &a->family, n->ts, e->info.commit_us, size, &p->attr);
	return true;
}

const struct node_ops found_ops = {
	.traits = KIND_UNCACHED | KIND_SCAN,
	.name = found_name,
	.attr = found_attr,
	.find = found_find,
	.list_attr = found_list_attr,
};
