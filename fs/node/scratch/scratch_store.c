/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores a directory of scratch that is renamed to a row or family, as unison
 * and other tools do with a temporary directory that they have filled.
 *
 *   1 each file in it is resolved to a cell, and its writer is marked busy
 *   2 one mutation of the row stores all cells
 *   3 the scratch is removed
 *
 * A crash before the end of 2 leaves nothing, because scratch ends with the
 * mount; after 2 the row is complete.  Files are busy from 1 to 3, so a write
 * that comes then waits, and then writes to a removed file.
 *
 * The target is looked up before 2, without the row's lock.  If another client
 * writes the row at the same time, the mutation adds its cells to that row.
 */
#include "fs/node/kinds.h"

#include "fs/base/access.h"
#include "fs/base/extra.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/scratch/scratch.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

struct item {
	struct node *node;    /* a file or directory of scratch; counted */
	struct node *family;  /* the directory becomes this family, or the row if it is NULL; a file becomes its cell; counted */
	struct open_file *x;  /* the open file of a file, counted and busy.  NULL: a directory */
	struct resolved cell; /* the cell that the file becomes */
};
struct storing {
	struct item *items; /* each directory before its entries */
	size_t count, files;
	fuse_req_t req;
	const struct caller *caller;
	struct changes *c;
};

static int storing_add(struct storing *s, const struct item *item)
{
	if (array_grow(&s->items, s->count, sizeof(*s->items)))
		return -ENOMEM;
	node_hold(item->node);
	if (item->family)
		node_hold(item->family);
	s->items[s->count++] = *item;
	s->files += item->x != NULL;
	return 0;
}

/* The entry of a directory of scratch after `last` (NULL: the first), counted.  Puts last. */
static struct node *next_entry(struct node *dir, struct node *last)
{
	struct tfs_bytes above = last ? node_key(last) : tfs_bytes_of(NULL, 0);
	struct node *n;

	mutex_lock(tree_mutex());
	n = extra_next_locked(dir, 0, last ? &above : NULL);
	if (n)
		n->refs++;
	mutex_unlock(tree_mutex());
	node_put(last);
	return n;
}

static int make_busy(struct open_file *x, const struct caller *caller)
{
	int err = 0;

	mutex_lock(&x->lock);
	open_file_wait(x, &x->shared);
	err = scratch_check_read(x, caller);
	if (!err && (x->descriptors || x->shared.error))
		err = -EXDEV;
	if (!err)
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

static int storing_add_file(struct storing *s, struct node *file, struct node *family, bool counter)
{
	struct item f = {.node = file, .family = family};
	int err = file->kind == NODE_SCRATCH_FILE ? tree_resolve(family, node_name(file), &f.cell) : -EXDEV;

	if (err == 0 && !kind_is(f.cell.kind, KIND_CELL))
		err = -EXDEV;
	if (err == 0 && counter && f.cell.kind == NODE_PLAIN)
		err = -EXDEV; /* the text must be a number, which only the commit of the file checks */
	f.x = err ? NULL : open_file_find(file);
	if (err == 0)
		err = f.x ? make_busy(f.x, s->caller) : -EXDEV;
	if (err == 0) {
		err = storing_add(s, &f);
		if (err)
			make_idle(f.x);
	}
	if (err) {
		open_file_put(f.x);
		resolved_fini(&f.cell);
	}
	return err == 0 || err == -ENOMEM || err == -EACCES ? err : -EXDEV;
}

/* Checks that the caller may list a directory of scratch and read in it. */
static int check_dir(const struct storing *s, struct node *dir)
{
	bool may;

	mutex_lock(tree_mutex());
	may = dir->dir && fs_mode_allows(s->caller, dir->dir->uid, dir->dir->gid, dir->dir->mode, 5);
	mutex_unlock(tree_mutex());
	return may ? 0 : -EACCES;
}

static int storing_add_family(struct storing *s, struct node *dir, struct node *family)
{
	struct node *n = NULL;
	struct family_info info;
	int err = family_info_get(family, &info);

	/* The kernel does not check it, because it may not know the family. */
	if (err == 0 && (err = fs_may_write(s->caller, family, node_name(family))) == -EACCES)
		refuse(err, family, NULL, "the caller may not write to this family");
	if (err == 0)
		err = storing_add(s, &(struct item){.node = dir, .family = family});
	while (err == 0 && (n = next_entry(dir, n)))
		err = storing_add_file(s, n, family, info.counter);
	for (size_t i = s->count; i-- > 0 && err == 0 && s->items[i].x;)
		err = new_family_scratch(family, s->items[i].node, s->items[i].x->mode, s->c);
	node_put(n);
	return err;
}

/* The family's node in row, counted.  If the caller may read dir, the family is added to the schema as by a mkdir with the mode of dir. */
static int family_of(struct storing *s, struct node *dir, struct node *row, const char *name, struct node **out)
{
	struct resolved f = {0};
	int err = check_dir(s, dir);

	if (err == 0)
		err = tree_resolve(row, name, &f);
	if (err == 0)
		err = f.kind != NODE_FAMILY ? -EXDEV : tree_exists(row, &f);
	if (err == 0 || err == -ENOENT)
		err = family_add(row, name, fuse_req_ctx(s->req), dir->dir ? dir->dir->mode : 0, s->c);
	if (err == 0)
		err = fs_schema_bind(&f);
	*out = err ? NULL : node_get(row, NODE_FAMILY, buf_bytes(&f.key), 0);
	if (err == 0 && !*out)
		err = -ENOMEM;
	resolved_fini(&f);
	return err;
}

static int add_row(struct storing *s, struct node *dir, struct node *row)
{
	struct node *n = NULL, *family;
	int err = check_dir(s, dir);

	if (err == 0)
		err = storing_add(s, &(struct item){.node = dir});
	while (err == 0 && (n = next_entry(dir, n))) {
		err = n->kind == NODE_SCRATCH_DIR ? family_of(s, n, row, node_name(n), &family) : -EXDEV;
		if (err == 0) {
			err = storing_add_family(s, n, family);
			node_put(family);
		}
	}
	node_put(n);
	return err;
}

/* Step 2.  Sets *results to one result for each file, for free(). */
static int storing_apply(struct storing *s, struct node *row, struct tfs_result **results)
{
	struct tfs_mutation *m = tfs_mutation_new(node_store_table(row), node_key(row));
	int err = m && (*results = calloc(s->files, sizeof(**results))) ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->count && err == 0; i++) {
		struct item *f = &s->items[i];
		struct cell_place p;
		struct tfs_bytes value;

		if (!f->x)
			continue;
		cell_place_at(f->family, buf_bytes(&f->cell.key), f->cell.kind == NODE_VERSION, f->cell.ts, &p);
		err = stage_bytes(&f->x->shared.image, &value);
		if (err == 0)
			err = tfs_mutation_put(m, p.family, p.qualifier,
				f->cell.kind == NODE_VERSION || f->x->shared.time == TFS_NO_TIME ? p.ts : tfs_at(f->x->shared.time),
				value);
	}
	if (err == 0)
		err = cells_apply(row, m, 0, *results, s->c);
	tfs_mutation_free(m);
	return err;
}

/* Step 3.  A directory in which an entry has been made is not removed. */
static void remove_scratch(struct storing *s, const struct tfs_result *results)
{
	size_t file = s->files;

	for (size_t i = s->count; i-- > 0;) {
		struct item *f = &s->items[i];

		if (f->x) {
			cell_changed(s->c, f->family, buf_bytes(&f->cell.key), results[--file].ts, false, NULL);
			extra_cell_added(f->family);
		}
		(void)!scratch_remove(f->node);
	}
}

static void storing_fini(struct storing *s)
{
	for (struct item *f = s->items; f < s->items + s->count; f++) {
		if (f->x)
			make_idle(f->x);
		open_file_put(f->x);
		node_put(f->node);
		node_put(f->family);
		resolved_fini(&f->cell);
	}
	free(s->items);
}

/* Makes the directories that have no entries. */
static int make_empty(struct storing *s, struct node *row)
{
	int err = 0;

	for (size_t i = 0; i < s->count && err == 0; i++) {
		const struct item *d = &s->items[i], *next = i + 1 < s->count ? d + 1 : NULL;
		struct node *made = NULL;

		if (d->x || (next && (next->x || !d->family)))
			continue;
		err = d->family ? made_add(row, NODE_FAMILY, node_key(d->family), &made)
				: made_add(row->parent, NODE_ROW, node_key(row), &made);
		node_put(made);
		if (err == -EEXIST)
			err = 0;
	}
	return err;
}

int scratch_store_dir(struct renaming *m)
{
	struct storing s = {.req = m->req, .caller = m->caller, .c = m->c};
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
		row = node_get(to->parent, NODE_ROW, buf_bytes(&to->key), 0);
		err = row ? add_row(&s, m->source, row) : -ENOMEM;
	} else {
		row = to->parent;
		node_hold(row);
		err = family_of(&s, m->source, row, m->newname, &family);
		if (err == 0)
			err = storing_add_family(&s, m->source, family);
	}
	if (err == 0) {
		struct mutex *lock = row_lock(row);

		if (s.files)
			err = storing_apply(&s, row, &results);
		if (err == 0) {
			err = make_empty(&s, row);
			if (s.files)
				err = 0; /* its cells are stored; only a directory without cells may be missing */
		}
		if (err == 0)
			remove_scratch(&s, results);
		row_unlock(lock);
	}
	storing_fini(&s);
	made_trim(m->c);
	free(results);
	node_put(family);
	node_put(row);
	if (err == -EXDEV)
		refuse(err, m->newdir, m->newname,
			"something in this directory of scratch cannot be a cell, or is open: mv copies it");
	return err;
}
