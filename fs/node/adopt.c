/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of scratch that is renamed to a row or family, as unison and
 * other tools do with a temporary directory that they have filled.
 *
 *   1 each file in it is resolved to a cell, and its writer is marked busy
 *   2 one mutation of the row stores all cells
 *   3 the scratch is removed
 *
 * A crash before the end of 2 leaves nothing, because scratch ends with the
 * mount; after 2 the row is complete.  Files are busy from 1 to 3, so a write
 * that comes meanwhile waits, and then writes to a removed file.
 *
 * The target is looked up before 2, without the row's lock.  If the library
 * writes the row between the two, the mutation adds its cells to the row's.
 */
#include "fs/node/adopt.h"

#include "fs/base/extra.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/base/reply.h"
#include "fs/node/family.h"
#include "fs/node/rename.h"
#include "fs/node/schema_edit.h"
#include "fs/node/scratch.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

struct adopted {
	struct node *file, *family; /* counted */
	struct open_file *x;        /* counted, and busy */
	struct resolved cell;
};
struct adoption {
	struct adopted *files;
	size_t count, cap;
	struct node **dirs;     /* of scratch, counted; the outer one first */
	struct node **families; /* counted */
	size_t dir_count, family_count;
	fuse_req_t req;
	struct changes *c;
};

static int keep(struct node ***list, size_t *count, struct node *n)
{
	struct node **more = realloc(*list, (*count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	node_hold(n);
	*list = more;
	more[(*count)++] = n;
	return 0;
}

/* The first entry of a directory of scratch above key (NULL: the first), counted. */
static struct node *next_entry(struct node *dir, const struct slice *above)
{
	struct node *n;

	mutex_lock(tree_mutex());
	n = extra_next_locked(dir, 0, above);
	if (n)
		n->refs++;
	mutex_unlock(tree_mutex());
	return n;
}

/* Is the caller allowed to write to the family?  The kernel has not checked the families that it does not know. */
static bool may_write(fuse_req_t req, const struct family_info *f)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	gid_t groups[64];
	int n;

	if (ctx->uid == 0)
		return true;
	if (ctx->uid == f->uid)
		return f->mode & 0200;
	n = fuse_req_getgroups(req, 64, groups);
	for (int i = 0; i < n && i < 64; i++)
		if (groups[i] == f->gid)
			return f->mode & 0020;
	return f->mode & (ctx->gid == f->gid ? 0020 : 0002);
}

static int make_busy(struct open_file *x)
{
	int err = 0;

	mutex_lock(&x->lock);
	open_file_wait(x, &x->shared);
	if (x->descriptors || x->shared.error)
		err = -EXDEV;
	else
		x->shared.busy = true;
	mutex_unlock(&x->lock);
	return err;
}

static void make_idle(struct open_file *x)
{
	mutex_lock(&x->lock);
	x->shared.busy = false;
	cond_broadcast(&x->idle);
	mutex_unlock(&x->lock);
}

static int add_file(struct adoption *a, struct node *file, struct node *family, bool counter)
{
	struct adopted f = {0};
	int err;

	if (file->kind != NODE_SCRATCH_FILE)
		return -EXDEV;
	err = tree_resolve(family, node_name(file), &f.cell);
	if (err == 0 && !kind_is(f.cell.kind, KIND_CELL))
		err = -EXDEV;
	if (err == 0 && counter && f.cell.kind == NODE_PLAIN)
		err = -EXDEV; /* the text must be a number, which only the commit of the file checks */
	if (err == 0 && a->count == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 16;
		struct adopted *more = realloc(a->files, cap * sizeof(*more));

		err = more ? 0 : -ENOMEM;
		if (more) {
			a->files = more;
			a->cap = cap;
		}
	}
	f.x = err ? NULL : open_file_find(file);
	if (err == 0)
		err = f.x ? make_busy(f.x) : -EXDEV;
	if (err) {
		open_file_put(f.x);
		resolved_fini(&f.cell);
		return err == -ENOMEM ? err : -EXDEV;
	}
	node_hold(file);
	node_hold(family);
	f.file = file;
	f.family = family;
	a->files[a->count++] = f;
	return 0;
}

static int add_family(struct adoption *a, struct node *dir, struct node *family)
{
	struct node *n, *last = NULL;
	struct family_info info;
	int err = family_info_get(family, &info);

	if (err == 0 && !may_write(a->req, &info))
		err = refuse(-EACCES, family, NULL, "who renames a directory to a row must be allowed to write to its families");
	if (err == 0)
		err = keep(&a->dirs, &a->dir_count, dir);
	if (err == 0)
		err = keep(&a->families, &a->family_count, family);
	while (err == 0) {
		struct slice above = last ? node_key(last) : slice_of(NULL, 0);

		n = next_entry(dir, last ? &above : NULL);
		node_put(last);
		last = n;
		if (!n)
			break;
		err = add_file(a, n, family, info.counter);
	}
	node_put(last);
	return err;
}

/* The family's node in row, counted; the family is added to the schema as by mkdir. */
static int family_of(struct adoption *a, struct node *row, const char *name, struct node **out)
{
	struct resolved f = {0};
	int err = tree_resolve(row, name, &f);

	if (err == 0)
		err = f.kind != NODE_FAMILY ? -EXDEV : tree_exists(row, &f);
	if (err == 0 || err == -ENOENT)
		err = family_add(row, name, fuse_req_ctx(a->req), a->c);
	if (err == 0)
		err = fs_schema_bind(&f);
	*out = err ? NULL : node_get(row, NODE_FAMILY, buf_slice(&f.key), 0);
	if (err == 0 && !*out)
		err = -ENOMEM;
	resolved_fini(&f);
	return err;
}

static int add_row(struct adoption *a, struct node *dir, struct node *row)
{
	struct node *n, *last = NULL, *family = NULL;
	int err = keep(&a->dirs, &a->dir_count, dir);

	while (err == 0) {
		struct slice above = last ? node_key(last) : slice_of(NULL, 0);

		n = next_entry(dir, last ? &above : NULL);
		node_put(last);
		last = n;
		if (!n)
			break;
		err = n->kind == NODE_SCRATCH_DIR ? family_of(a, row, node_name(n), &family) : -EXDEV;
		if (err == 0)
			err = add_family(a, n, family);
		node_put(family);
		family = NULL;
	}
	node_put(last);
	return err;
}

/* Step 2.  *results: of each cell; for free(). */
static int apply(struct adoption *a, struct node *row, struct tfs_result **results)
{
	struct tfs_mutation *m = tfs_mutation_new(node_store_table(row), bytes_of(node_key(row)));
	int err = m && (*results = calloc(a->count, sizeof(**results))) ? 0 : -ENOMEM;

	for (size_t i = 0; i < a->count && err == 0; i++) {
		struct adopted *f = &a->files[i];
		struct cell_place p;
		struct slice value;

		cell_place_at(f->family, buf_slice(&f->cell.key), f->cell.kind == NODE_VERSION, f->cell.ts, &p);
		err = stage_bytes(&f->x->shared.image, &value);
		if (err == 0)
			err = tfs_mutation_put(m, p.family, p.qualifier,
				f->cell.kind == NODE_VERSION || f->x->shared.time == TFS_NO_TIME ? p.ts : tfs_at(f->x->shared.time),
				bytes_of(value));
	}
	if (err == 0)
		err = tfs_apply(m, 0, *results);
	tfs_mutation_free(m);
	return err;
}

/* Step 3. */
static void remove_scratch(struct adoption *a, const struct tfs_result *results)
{
	for (size_t i = 0; i < a->count; i++) {
		struct adopted *f = &a->files[i];

		cell_changed(a->c, f->family, buf_slice(&f->cell.key), results[i].ts, false, NULL);
		extra_cell_added(f->family);
		(void)!scratch_remove(f->file);
	}
	for (size_t i = a->dir_count; i-- > 0;)
		(void)!scratch_remove(
			a->dirs[i]); /* a directory in which an entry was made meanwhile stays, as scratch without a name */
}

static void fini(struct adoption *a)
{
	for (size_t i = 0; i < a->count; i++) {
		make_idle(a->files[i].x);
		open_file_put(a->files[i].x);
		node_put(a->files[i].file);
		node_put(a->files[i].family);
		resolved_fini(&a->files[i].cell);
	}
	for (size_t i = 0; i < a->dir_count; i++)
		node_put(a->dirs[i]);
	for (size_t i = 0; i < a->family_count; i++)
		node_put(a->families[i]);
	free(a->files);
	free(a->dirs);
	free(a->families);
}

/* Makes the directories that have no files. */
static int make_empty(struct adoption *a, struct node *row)
{
	struct node *made = NULL;
	int err = 0;

	for (size_t i = 0; i < a->family_count && err == 0; i++) {
		bool filled = false;

		for (size_t k = 0; k < a->count; k++)
			filled = filled || a->files[k].family == a->families[i];
		if (!filled)
			err = made_add(row, NODE_FAMILY, node_key(a->families[i]), &made);
		node_put(made);
		made = NULL;
	}
	if (err == 0 && !a->family_count)
		err = made_add(row->parent, NODE_ROW, node_key(row), &made);
	node_put(made);
	return err == -EEXIST ? 0 : err;
}

int adopt_dir(struct renaming *m)
{
	struct adoption a = {.req = m->req, .c = m->c};
	struct resolved *to = &m->to;
	struct node *row = NULL, *family = NULL;
	struct tfs_result *results = NULL;
	int err = -EXDEV;

	if (to->kind == NODE_ROW || to->kind == NODE_FAMILY)
		err = tree_exists(m->newdir, to);
	if (err == 0)
		return m->noreplace ? -EEXIST : -ENOTEMPTY;
	if (err != -ENOENT)
		return err;
	if (to->kind == NODE_ROW) {
		row = node_get(to->parent, NODE_ROW, buf_slice(&to->key), 0);
		err = row ? add_row(&a, m->source, row) : -ENOMEM;
	} else {
		row = to->parent;
		node_hold(row);
		err = family_of(&a, row, m->newname, &family);
		if (err == 0)
			err = add_family(&a, m->source, family);
	}
	if (err == 0) {
		struct mutex *lock = ofile_row_lock(row);

		mutex_lock(lock);
		if (a.count)
			err = apply(&a, row, &results);
		if (err == 0) {
			err = make_empty(&a, row);
			if (a.count)
				err = 0; /* its cells are stored; only a directory without cells may be missing */
		}
		if (err == 0)
			remove_scratch(&a, results);
		mutex_unlock(lock);
	}
	fini(&a);
	made_trim(m->c);
	free(results);
	node_put(family);
	node_put(row);
	if (err == -EXDEV)
		refuse(err, m->newdir, m->newname,
			"something in this directory of scratch cannot be a cell, or is open: mv copies it");
	return err;
}
