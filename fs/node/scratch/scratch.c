/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of scratch nodes, and renames.  A scratch file that is renamed to another
 * scratch name has a second node over the same open_file: the kernel continues to
 * use the old node for open descriptors, and finds the new one by name.
 * If a file is renamed to a cell, its content is committed.  If it is renamed to
 * .schema or a script, its content becomes the text of .schema or of the script.
 * A directory becomes a row or family (scratch_store.c).
 */
#include "fs/node/scratch/scratch.h"

#include "engine/base/msg.h"
#include "fs/base/access.h"
#include "fs/base/extra.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static int scratch_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	struct node *n;
	int err = scratch_find(dir, r, &n);

	if (err)
		return err;
	err = node_is_dir(n) ? -EISDIR : scratch_remove(n);
	node_put(n);
	return err;
}

static int scratch_rmdir(struct node *n, const char *name, struct changes *c)
{
	return scratch_remove(n);
}

/* ---- renames ---- */

static int to_scratch(struct renaming *m)
{
	struct node *n = m->source, *old, *fresh;
	struct open_file *x;
	int err = 0;

	if (n->kind == NODE_SCRATCH_DIR)
		return -EXDEV; /* mv copies */
	if (scratch_find(m->newdir, &m->to, &old) == 0) {
		err = m->noreplace ? -EEXIST : node_is_dir(old) ? -EISDIR : 0;
		node_put(old);
		if (err || old == n)
			return err;
	}
	x = open_file_find(n);
	if (!x)
		return -ESTALE;
	err = scratch_place(m->newdir, buf_bytes(&m->to.key), NODE_SCRATCH_FILE, x, &fresh);
	open_file_put(x);
	if (err)
		return err;
	node_put(fresh);
	return scratch_remove(n);
}

/*
 * Text that is written to .schema or a script later is applied on behalf of the caller.  -EXDEV:
 * another user can write it, so mv copies.
 */
static int check_writers(const struct open_file *x, const struct caller *caller)
{
	const struct descriptor *d = x->descriptors;

	while (d && d->uid == caller->user.uid)
		d = d->next;
	return d ? -EXDEV : 0;
}

static int to_text(struct renaming *m)
{
	struct node *target = node_get(m->to.parent, m->to.kind, buf_bytes(&m->to.key), 0);
	struct open_file *x = open_file_find(m->source);
	int err;

	if (!target || !x) {
		err = -ENOMEM;
		goto out;
	}
	err = m->noreplace && tree_exists(m->newdir, &m->to) == 0 ? -EEXIST : 0;
	if (err)
		goto out;
	mutex_lock(&x->lock);
	open_file_wait(x, &x->shared);
	err = scratch_check_read(x, m->caller);
	if (err == 0)
		err = check_writers(x, m->caller);
	if (err == 0) {
		free(x->shared.caller);
		x->shared.caller = caller_new();
		err = node_ops(target)->apply(target, &x->shared, m->c);
	}
	if (err == 0) {
		x->shared.staged = STAGED_NOTHING;
		/* Open descriptors of the target write nothing more. */
		node_end(target);
		node_put(target);
		target = node_get(m->to.parent, m->to.kind, buf_bytes(&m->to.key), 0);
		if (!target)
			msg_error("out of memory: writers of a renamed file were cut off");
		content_set_target(&x->shared, target);
		open_file_free_scratch(x);
	}
	mutex_unlock(&x->lock);
	if (err == 0)
		err = scratch_remove(m->source);
out:
	open_file_put(x);
	node_put(target);
	return err;
}

static int scratch_rename(struct renaming *m)
{
	int err;

	if (kind_is(m->to.kind, KIND_SCRATCH))
		return to_scratch(m);
	m->caller = caller_new();
	if (!m->caller)
		return -ENOMEM;
	if (m->source->kind == NODE_SCRATCH_DIR)
		err = scratch_store_dir(m);
	else if (kind_is(m->to.kind, KIND_CELL))
		err = cell_take_scratch(m);
	else if (kind_ops(m->to.kind)->apply)
		err = to_text(m);
	else if (kind_ops(m->to.kind)->take_scratch)
		err = kind_ops(m->to.kind)->take_scratch(m);
	else
		err = refuse(-EPERM, m->newdir, m->newname, "a file cannot be here");
	free(m->caller);
	m->caller = NULL;
	if (err == -EACCES)
		refuse(err, m->source, NULL, "refused: the user may not read this scratch, or not write to the target");
	/* The kernel has moved the scratch file's inode to the new name.  Its entry is dropped, so that such inodes do not accumulate. */
	if (err == 0)
		changes_entry(m->c, m->newdir, tfs_str(m->newname));
	return err;
}

const struct node_ops scratch_file_ops = {
	.traits = KIND_SCRATCH | KIND_UNCACHED,
	.attr = scratch_file_attr,
	.set_owner = scratch_set_owner,
	.set_time = scratch_set_time,
	.find = scratch_find,
	.make = scratch_make,
	.unlink = scratch_unlink,
	.rename = scratch_rename,
};

const struct node_ops scratch_dir_ops = {
	.traits = KIND_SCRATCH | KIND_DIR | KIND_UNCACHED,
	.attr = scratch_dir_attr,
	.set_owner = scratch_set_owner,
	.resolve = scratch_resolve_name,
	.list = (const list_phase_fn[]){list_extras, NULL},
	.rmdir = scratch_rmdir,
	.find = scratch_find,
	.make = scratch_make,
	.unlink = scratch_unlink,
	.rename = scratch_rename,
};
