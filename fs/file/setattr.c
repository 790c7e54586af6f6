/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SETATTR of files: truncation and times.
 *
 * The kernel sends a truncation with or without a descriptor.  Without one, the
 * truncation is a commit of its own.
 *
 * The kernel sends futimens without a descriptor.  So the daemon must find the
 * content that is meant: staged bytes first, then the last commit of an open
 * descriptor, if the version that it made is still the newest.  Otherwise the
 * call moves the newest version to the time, atomically, as touch -d does.
 */
#include "fs/file/file.h"

#include "fs/file/counter.h"
#include "fs/file/read.h"
#include "fs/base/access.h"
#include "fs/base/node_ops.h"
#include "fs/base/reply.h"

#include <errno.h>

/* Truncates a plain name in a commit of its own. */
static int plain_truncate(struct open_file *file, struct node *n, uint64_t size, struct changes *c)
{
	struct content once;
	struct family_info f;
	struct tfs_info info = {0};
	int err;

	content_init(&once);
	once.target = file->node;
	err = family_info_get(n->parent, &f);
	if (err == 0)
		err = cell_node_stat(n, &info);
	if (err == -ENOENT && file->descriptors)
		err = 0; /* the cell was created and is not committed */
	if (err == 0 && info.ts == INT64_MAX)
		err = refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
	if (err == 0 && f.counter) {
		err = cell_load(n, false, &once.image, &info);
		once.holds = IMAGE_WHOLE;
	}
	once.base_size = info.size;
	if (err == 0)
		err = content_truncate(&once, size);
	if (err == 0)
		err = content_commit(&once, true, file, c);
	content_fini(&once);
	return err;
}

static int node_truncate(struct node *n, uint64_t size, struct changes *c)
{
	struct open_file *file;
	struct mutex *row;
	int err;

	if (n->kind == NODE_SCHEMA || n->kind == NODE_SCRIPT || n->kind == NODE_SETTING)
		return 0; /* has no effect: only an open with O_TRUNC truncates such a file */
	row = row_lock(n);
	file = open_file_get(n);
	if (file) {
		mutex_lock(&file->lock);
		if (n->kind == NODE_SCRATCH_FILE) {
			err = scratch_truncate(file, size);
		} else if (!node_lives(n)) {
			err = -ESTALE;
		} else if (n->kind == NODE_PLAIN) {
			err = plain_truncate(file, n, size, c);
		} else {
			err = version_prepare_write(file);
			if (err == 0)
				err = content_truncate(&file->shared, size);
			if (err == 0)
				err = content_commit(&file->shared, true, file, c);
		}
		mutex_unlock(&file->lock);
	} else {
		err = -ENOMEM;
	}
	row_unlock(row);
	open_file_put(file);
	return err;
}

int ofile_truncate(struct node *n, struct descriptor *d, uint64_t size, struct changes *c)
{
	int err;

	if (node_ops(n)->sequential)
		return 0; /* a sequential file has no size */
	err = node_is_dir(n) ? -EISDIR : d ? (size ? descriptor_check_room(d) : 0) : node_truncate(n, size, c);
	if (d && err == 0)
		err = content_lock(d, true, c);
	if (d && err == 0) {
		if (n->kind == NODE_SCRATCH_FILE)
			err = scratch_truncate(d->file, size);
		else
			err = (d->content->counter ? counter_truncate : content_truncate)(d->content, size);
		mutex_unlock(&d->file->lock);
	}
	if (err == -EFBIG)
		refuse(err, n, NULL, "a value is at most 64 MiB");
	return err == -ENOENT ? -ESTALE : err;
}

/*
 * Returns a descriptor to whose content a new time applies: one with staged bytes, or
 * else the descriptor opened last whose content is committed; NULL: neither.
 */
static struct descriptor *open_file_timed(struct open_file *file)
{
	struct descriptor *done = NULL;

	for (struct descriptor *d = file->descriptors; d; d = d->next) {
		struct content *content = d->content;

		if (!d->writable || content->error || !content->target || !node_lives(content->target))
			continue;
		if (content_is_staged(content))
			return d;
		if (content->committed && !done)
			done = d;
	}
	return done;
}

/* Moves the newest version of n to the time.  The caller holds the row's lock, and no file's lock. */
static int plain_touch(struct node *n, int64_t us, bool latest, struct changes *c)
{
	struct tfs_result result[1];
	struct tfs_mutation *m;
	struct displaced displaced = {0};
	struct cell_place p;
	struct tfs_info info;
	int err;

	if (n->kind != NODE_PLAIN || !node_lives(n))
		return 0;
	cell_place_of(n, &p);
	err = cell_stat(&p, &info);
	if (err || info.ts == us)
		return err;
	if (latest) {
		struct content content;
		bool newest;

		content_init(&content);
		content.target = n;
		content.committed = content.latest = true;
		content.commit_ts = info.ts;
		content.time = us;
		err = content_move_to_time(&content, &newest, c);
		content_fini(&content);
		return err;
	}
	err = displaced_add(&displaced, p.family_node, node_key(n), info.ts, true);
	m = err ? NULL : tfs_mutation_new(p.table, p.row);
	if (err == 0)
		err = m ? tfs_mutation_set_time(m, p.family, p.qualifier, us) : -ENOMEM;
	if (err == 0)
		err = cells_apply(n, m, 0, result, c);
	tfs_mutation_free(m);
	if (err == 0) {
		cell_changed(c, p.family_node, node_key(n), info.ts, true, NULL);
		cell_changed(c, p.family_node, node_key(n), us, false, NULL);
		displaced_moved(&displaced, &info.ts, n, us, c);
	}
	displaced_fini(&displaced);
	return err == -EINVAL ? refuse(err, n, NULL, "a time cannot pass another version's") : err;
}

/*
 * Sets the time of the next commit if bytes are staged.  Otherwise moves the
 * version that the content has committed.  The caller holds the row's lock and
 * the file's lock.  The file's lock is released while the store works.
 */
static int content_set_time(struct open_file *file, struct content *content, int64_t us, bool latest, struct changes *c)
{
	const int64_t was = content->time;
	const bool was_latest = content->latest;
	bool newest;
	int err;

	content->time = us;
	content->latest = latest;
	if (content_is_staged(content))
		return 0;
	content->busy = true;
	mutex_unlock(&file->lock);
	err = content_move_to_time(content, &newest, c);
	if (!newest)
		err = plain_touch(content->target, us, latest, c);
	mutex_lock(&file->lock);
	content->busy = false;
	cond_broadcast(&file->idle);
	if (err) {
		content->time = was;
		content->latest = was_latest;
	}
	return err;
}

/*
 * Returns true if the caller sets the time of a plain name in .latest, where that may
 * delete versions.  If the content is the caller's, the caller sets its time.
 * Otherwise the caller's descriptor must have been opened in .latest, and its last
 * look-up must not be in TABLE.  Without a descriptor, its last look-up must be in
 * .latest.  timed is the content's descriptor, descriptors are the file's.  Both may
 * be NULL.
 */
static bool sets_in_latest(const struct node *n, const struct descriptor *timed, const struct descriptor *descriptors)
{
	const enum fs_path path = fs_path_of(n);
	const struct descriptor *d = descriptors;

	if (timed && descriptor_is_of_caller(timed))
		return timed->latest;
	while (d && !descriptor_is_of_caller(d))
		d = d->next;
	return d ? d->latest && path != PATH_IN_TABLE : path == PATH_IN_LATEST;
}

int plain_set_time(struct node *n, int64_t us, struct changes *c)
{
	struct mutex *row = row_lock(n);
	struct node *target = NULL;
	struct descriptor *timed = NULL;
	struct open_file *file;
	bool latest;
	uint64_t size;
	int64_t ts;
	int err = 0;

	file = open_file_find(n);
	if (file) {
		mutex_lock(&file->lock);
		timed = open_file_timed(file);
	}
	latest = sets_in_latest(n, timed, file ? file->descriptors : NULL);
	if (file) {
		if (timed)
			err = content_set_time(file, timed->content, us, latest, c);
		mutex_unlock(&file->lock);
		target = timed ? NULL : open_file_target(file);
		open_file_put(file);
	}
	if (!timed && !target && !node_lives(n))
		err = -ENOENT;
	else if (!timed)
		err = plain_touch(target ? target : n, us, latest, c);
	row_unlock(row);
	node_put(target);
	/* The time of a file that was removed while it was open is not stored, but the call succeeds. */
	if (err == -ENOENT)
		err = ofile_is_open(n, &size, &ts) ? 0 : -ESTALE;
	return err;
}

int scratch_set_time(struct node *n, int64_t us, struct changes *c)
{
	struct open_file *file = open_file_find(n);
	struct node *target = file ? open_file_target(file) : NULL;
	struct mutex *row;
	int err = 0;

	if (!file)
		return -ESTALE;
	row = row_lock(target);
	mutex_lock(&file->lock);
	file->mtime_us = us;
	file->shared.touched_us = fs_now_us();
	open_file_wait(file, &file->shared);
	/* If it was renamed to a cell, the time becomes the cell's, unless bytes were written since. */
	if (row && file->shared.target && node_lives(file->shared.target) && file->shared.target->kind == NODE_PLAIN &&
		file->shared.staged != STAGED_BYTES)
		err = content_set_time(file, &file->shared, us, file->shared.latest, c);
	else
		file->shared.time = us;
	mutex_unlock(&file->lock);
	row_unlock(row);
	node_put(target);
	open_file_put(file);
	return err == -ENOENT ? 0 : err;
}
