/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a family in a row, and the directories that a long cell name is split into. */
#include "fs/node/kinds.h"

#include "engine/base/name.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/list.h"
#include "fs/node/made.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/scratch/scratch.h"
#include "fs/node/source.h"
#include "fs/node/tree.h"

#include <errno.h>

#define NO_DIRS "a family holds cells only: a path can be a row, or a cell's name with %2F for each /"

/* A user who may read a family's files may search its directory. */
static mode_t dir_mode(mode_t mode)
{
	return mode | (mode & 0444) >> 2;
}

int family_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct node *family = node_is(n, KIND_PART) ? n->parent : n;
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	f = tfs_schema_family(s, node_name(family));
	if (f)
		tree_dir_attr(n, dir_mode(f->mode & 0777), f->uid, f->gid, st);
	tfs_schema_put(s);
	return f ? 0 : -ESTALE;
}

static int family_find(struct node *row, struct resolved *r, struct node **out)
{
	bool exists = false;
	int err = fs_schema_bind(r);

	if (err == 0 && !(exists = made_is(row, NODE_FAMILY, buf_bytes(&r->key))))
		err = source_has(row, node_key(row), (const char *)r->key.p, &exists);
	if (err == -EINVAL || (err == 0 && !exists))
		err = -ENOENT;
	return err ? err : resolved_get(r, out);
}

int family_add(struct node *row, const char *name, const struct fuse_ctx *ctx, mode_t mode, struct changes *c)
{
	struct tfs_schema_edit e = {
		.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .uid = ctx->uid, .gid = ctx->gid, .mode = new_family_mode(mode)};
	char key[FAMILY_KEY_BYTES];
	const struct tfs_schema *s;
	const struct tfs_family *f;
	bool exists, open;
	int err = tfs_schema_get(node_store_table(row), &s);

	if (err)
		return err;
	exists = tfs_schema_family(s, name) != NULL;
	open = s->mkdir_families;
	tfs_schema_put(s);
	if (exists)
		return 0;
	if (!open)
		return refuse(-EPERM, row, name, "the table has no such family: mkdir TABLE/.families/%s makes it", name);
	err = fs_schema_edit(row, &e, c);
	if (err == 0 && tfs_schema_get(node_store_table(row), &s) == 0) {
		f = tfs_schema_family(s, name);
		if (f) {
			fs_schema_family_key(f->id, key);
			new_family_made(node_table(row), key);
		}
		tfs_schema_put(s);
	}
	return err == -EEXIST ? 0 : err;
}

static int family_make(const struct making *m, struct resolved *r, struct node **out)
{
	int err = family_add(m->dir, m->name, m->ctx, m->mode, m->c);

	if (err == 0)
		err = fs_schema_bind(r);
	return err ? err : made_mkdir(m, r, out);
}

static int family_has_cells(struct node *n, bool *has)
{
	return tfs_row_exists(node_store_table(n), node_key(n->parent), node_name(n), has);
}

/* A file that was created and not committed yet is not in the store. */
static int family_rmdir(struct node *n, const char *name, struct changes *c)
{
	return ofile_pending_below(n) ? -ENOTEMPTY : made_rmdir(n, name, c);
}

static bool family_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	const struct tfs_family *f = tfs_schema_family(a->schema, node_name(n));

	if (f)
		tree_dir_attr(n, dir_mode(f->mode & 0777), f->uid, f->gid, &p->attr);
	return f != NULL;
}

const struct node_ops family_ops = {
	.traits = KIND_DIR | KIND_IN_VIEW | KIND_KEYED | KIND_TIMED | KIND_FAMILY,
	.name = fs_schema_name,
	.attr = family_attr,
	.set_owner = new_family_set_owner,
	.no_dirs = NO_DIRS,
	.resolve = cell_resolve_name,
	.list = (const list_phase_fn[]){list_extras, list_made_parts, list_keys, NULL},
	.rmdir = family_rmdir,
	.has_cells = family_has_cells,
	.find = family_find,
	.make = family_make,
	.list_attr = family_list_attr,
};

/* ---- a part of a split name ---- */

static bool cell_part_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	tree_dir_attr(n, dir_mode(a->family.mode), a->family.uid, a->family.gid, &p->attr);
	return true;
}

const struct node_ops cell_part_ops = {
	.traits = KIND_DIR | KIND_IN_VIEW | KIND_TIMED | KIND_PART,
	.attr = family_attr,
	.no_dirs = NO_DIRS,
	.resolve = cell_resolve_name,
	.list = (const list_phase_fn[]){list_extras, list_made_parts, list_keys, list_keys_behind, NULL},
	.rmdir = family_rmdir,
	.has_cells = part_has_cells,
	.find = part_find,
	.make = made_mkdir,
	.list_attr = cell_part_list_attr,
};
