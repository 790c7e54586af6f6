/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files whose name is removed, replaced or renamed.
 *
 * When a cell is removed, its node is unhashed and marked NODE_GONE.  A cell
 * that is created later by the same name has another node, and so pages and
 * locks of its own in the kernel.  Commits to a node that is marked are
 * discarded.  If the cell was removed in another way than by its name
 * (NODE_DROPPED), they return ESTALE, because no other file system would drop the
 * bytes.
 *
 * Removal: the bytes of an open version are copied before the store removes
 * it, because the store has no unlinked cells.  Until the removal has ended,
 * an OPEN of the version waits (NODE_LEAVING).  A descriptor of a plain name
 * has loaded its bytes at open.  The node is marked after the store has
 * removed the cell, so a removal that fails changes nothing.
 *
 * Replacement of a plain name: between the commit of the new version and the end of
 * the node, OPEN and GETATTR of the node could find the new version.  They wait, too.
 * A descriptor of a node has only versions that were the newest while the node was
 * the name's.  An OPEN that comes later, through a handle or because the name was
 * looked up before, opens the node's last version.
 *
 * Rename: contents get another target.  The state of an open version becomes
 * the state of the node with the new name.  The old node remains one of its
 * nodes, because the kernel may have pages of it.  They are invalidated with
 * the pages of the new node.
 */
#include "fs/file/file.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

struct displaced_version {
	struct displaced_version *next;
	struct node *n;
	struct open_file *file; /* NULL: it was not open */
	struct stage copy;
	bool copied;
	bool done; /* moved, or ended */
};

/* The node is made, so that another thread cannot open the version unseen. */
int displaced_add(struct displaced *k, struct node *family, struct tfs_bytes qualifier, int64_t ts, bool moves)
{
	struct node *n = node_get(family, NODE_VERSION, qualifier, ts);
	struct displaced_version *e = calloc(1, sizeof(*e));
	struct tfs_info info;
	bool open;
	int err = 0;

	if (!n || !e) {
		free(e);
		node_put(n);
		return -ENOMEM;
	}
	e->n = n;
	stage_init(&e->copy);
	e->next = k->first;
	k->first = e;
	mutex_lock(tree_mutex());
	n->flags |= NODE_LEAVING;
	open = n->opens > 0 || n->file;
	mutex_unlock(tree_mutex());
	if (!open)
		return 0;
	e->file = open_file_get(n);
	if (!e->file)
		return -ENOMEM;
	if (moves)
		return 0;
	err = cell_load(n, true, &e->copy, &info);
	e->copied = err == 0;
	return err == -ENOENT ? 0 : err; /* the cell was created, and is not committed */
}

void displaced_add_name(struct displaced *k, struct node *name, int64_t ts)
{
	mutex_lock(tree_mutex());
	name->refs++;
	name->flags |= NODE_LEAVING;
	mutex_unlock(tree_mutex());
	k->name = name;
	k->name_ts = ts;
}

static void displaced_put_name_locked(struct displaced *k)
{
	k->name->flags &= (uint16_t)~NODE_LEAVING;
	node_put_locked(k->name);
	k->name = NULL;
}

void displaced_fini(struct displaced *k)
{
	struct displaced_version *next;

	if (k->name) {
		mutex_lock(tree_mutex());
		displaced_put_name_locked(k);
		mutex_unlock(tree_mutex());
	}

	for (struct displaced_version *e = k->first; e; e = next) {
		next = e->next;
		mutex_lock(tree_mutex());
		e->n->flags &= (uint16_t)~NODE_LEAVING;
		mutex_unlock(tree_mutex());
		stage_fini(&e->copy);
		open_file_put(e->file);
		node_put(e->n);
		free(e);
	}
	k->first = NULL;
}

/*
 * The name no longer finds n.  ts: of the version that a plain name was, or TFS_NO_TIME.
 * Descriptors for reading only of a version count the state.  c: NULL if the caller
 * invalidates the kernel's inodes.
 */
static void end_locked(struct node *n, struct open_file *file, int64_t ts, bool by_name, struct changes *c)
{
	if (!by_name)
		n->flags |= NODE_DROPPED;
	n->epoch = 0;
	n->commit_us = fs_now_us(); /* the ctime that its descriptors see */
	if (n->kind == NODE_PLAIN)
		n->ts = ts;
	node_end_locked(n);
	if (file && n->opens > 0 && !(n->flags & NODE_KEEPS)) {
		n->flags |= NODE_KEEPS;
		file->refs++;
	}
	if (c)
		changes_inode_locked(c, n);
}

static void displaced_end_one(struct displaced_version *e, bool by_name, struct changes *c)
{
	struct open_file *file = e->file;

	e->done = true;
	if (file) {
		mutex_lock(&file->lock);
		if (e->copied && !(content_is_staged(&file->shared) && file->shared.holds == IMAGE_WHOLE)) {
			/* Descriptors read the version as it was stored.  Staged bytes are discarded. */
			content_discard(&file->shared);
			stage_fini(&file->shared.image);
			file->shared.image = e->copy;
			stage_init(&e->copy);
		}
		file->shared.staged = STAGED_NOTHING;
		file->shared.holds = IMAGE_LOADED;
	}
	mutex_lock(tree_mutex());
	end_locked(e->n, file, TFS_NO_TIME, by_name, c);
	for (unsigned i = 0; file && i < file->also_count; i++)
		changes_inode_locked(c, file->also[i]);
	mutex_unlock(tree_mutex());
	if (file)
		mutex_unlock(&file->lock);
}

void displaced_end(struct displaced *k, struct changes *c)
{
	for (struct displaced_version *e = k->first; e; e = e->next)
		if (!e->done)
			displaced_end_one(e, k->by_name, c);
	if (k->name) {
		mutex_lock(tree_mutex());
		end_locked(k->name, NULL, k->name_ts, true, c);
		displaced_put_name_locked(k);
		mutex_unlock(tree_mutex());
	}
}

void displaced_keep_stored(struct displaced *k)
{
	struct tfs_info info;

	for (struct displaced_version *e = k->first; e; e = e->next)
		e->done = e->done || cell_node_stat(e->n, &info) != -ENOENT;
}

/* Returns the node of the version that e was renamed to, counted, with the state of e's node.  NULL: out of memory. */
static struct node *displaced_target(
	struct displaced_version *e, struct node *family, struct tfs_bytes key, int64_t to_ts, bool by_name, struct changes *c)
{
	struct node *to;
	bool other;

	do {
		to = node_get(family, NODE_VERSION, key, to_ts);
		if (!to || to == e->n)
			break;
		mutex_lock(tree_mutex());
		other = to->file != NULL;
		if (other) {
			/* The target was created and is not committed.  It is replaced. */
			end_locked(to, to->file, TFS_NO_TIME, by_name, c);
			node_put_locked(to);
		} else {
			to->file = e->file;
		}
		mutex_unlock(tree_mutex());
	} while (other);
	return to;
}

/* The state of e's node becomes the state of `to`.  Returns false if out of memory. */
static bool displaced_attach(struct displaced_version *e, struct node *to, struct changes *c)
{
	struct open_file *file = e->file;
	bool done = true;

	mutex_lock(&file->lock);
	mutex_lock(tree_mutex());
	done = open_file_add_node_locked(file, e->n);
	if (done) {
		end_locked(e->n, file, TFS_NO_TIME, true, c);
		node_put_locked(file->node);
		to->refs++;
		file->node = to;
		content_set_target_locked(&file->shared, to);
	} else {
		to->file = NULL;
	}
	mutex_unlock(tree_mutex());
	mutex_unlock(&file->lock);
	return done;
}

/* Descriptors of e's version are descriptors of the version `to` from now on. */
static void displaced_move(
	struct displaced_version *e, struct node *family, struct tfs_bytes key, int64_t to_ts, bool by_name, struct changes *c)
{
	struct node *to = displaced_target(e, family, key, to_ts, by_name, c);
	bool moved = to != NULL;

	if (to == e->n) {
		e->done = true;
	} else if (to) {
		ofile_retarget(e->n, to, to_ts);
		mutex_lock(tree_mutex());
		e->n->flags |= NODE_MOVED;
		mutex_unlock(tree_mutex());
		moved = !e->file || displaced_attach(e, to, c);
		if (!e->file)
			displaced_end_one(e, true, c);
		e->done = moved;
	}
	if (!moved) {
		msg_error("out of memory: descriptors of a renamed version were cut off");
		if (e->file) {
			mutex_lock(&e->file->lock);
			e->file->shared.error = -ENOMEM;
			mutex_unlock(&e->file->lock);
		}
	}
	node_put(to);
}

void displaced_moved(struct displaced *k, const int64_t *ts, struct node *target, int64_t to_ts, struct changes *c)
{
	for (struct displaced_version *e = k->first; e; e = e->next)
		if (!ts || e->n->ts == *ts)
			displaced_move(e, target->parent, node_key(target), ts ? to_ts : e->n->ts, k->by_name, c);
}

void ofile_end_column(struct node *family, struct tfs_bytes qualifier, bool by_name, struct changes *c)
{
	struct node *n;

	mutex_lock(tree_mutex());
	n = node_find_locked(family, NODE_PLAIN, qualifier, 0);
	if (n)
		end_locked(n, NULL, TFS_NO_TIME, by_name, c);
	mutex_unlock(tree_mutex());
}

struct ending {
	bool (*which)(void *arg, const struct node *n);
	void *arg;
};

static void end_cell(void *arg, struct node *n)
{
	const struct ending *e = arg;

	if (node_is(n, KIND_CELL) && node_lives(n) && (!e->which || e->which(e->arg, n)))
		end_locked(n, n->file, TFS_NO_TIME, false, NULL);
}

void ofile_end_table(struct node *table, bool (*which)(void *arg, const struct node *n), void *arg)
{
	node_each_of_table(table, false, end_cell, &(struct ending){which, arg});
}

/* ---- targets ---- */

/* commit_ts is the timestamp of the content's version in the new target. */
static void content_retarget(struct content *content, const struct node *from, struct node *target, int64_t commit_ts)
{
	if (content->target != from)
		return;
	if (content->committed)
		content->commit_ts = commit_ts;
	content_set_target(content, target);
}

void ofile_retarget(struct node *n, struct node *target, int64_t commit_ts)
{
	struct open_file **files = NULL, *file;
	size_t count = 0;

	if (open_files_to(n, &files, &count))
		msg_error("out of memory: descriptors of a renamed file were cut off");
	for (size_t i = 0; i < count; i++) {
		file = files[i];
		mutex_lock(&file->lock);
		if (node_lives(n)) {
			content_retarget(&file->shared, n, target, commit_ts);
			for (struct descriptor *d = file->descriptors; d; d = d->next)
				content_retarget(&d->own, n, target, commit_ts);
		}
		mutex_unlock(&file->lock);
		open_file_put(file);
	}
	free(files);
	file = n->kind == NODE_SCRATCH_FILE ? open_file_find(n) : NULL;
	if (file) {
		mutex_lock(&file->lock);
		content_retarget(&file->shared, file->shared.target, target, commit_ts);
		open_file_free_scratch(file);
		mutex_unlock(&file->lock);
		open_file_put(file);
	}
}
