/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat of open files.
 *
 * Uncommitted bytes are visible only to the process that wrote them.  git,
 * nginx and every program that reads as many bytes as fstat reports would
 * otherwise read that many bytes of the version before.  GETATTR states the
 * calling thread, but no descriptor.  So stat looks in /proc whether that
 * thread is one of the process that wrote.  It does so only while bytes are
 * staged.
 */
#include "fs/file/file.h"

#include "engine/base/name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_pending(const struct content *content, const struct open_file *file)
{
	if (content->target != file->node || !content_is_staged(content))
		return false;
	/* A truncation without a write after it is discarded if another descriptor has committed since. */
	return content->staged == STAGED_BYTES || content->target->kind != NODE_PLAIN || content->seen == file->commits;
}

static _Thread_local pid_t caller_thread;

void ofile_asked_by(pid_t pid)
{
	caller_thread = pid;
}

/* Returns true if the calling process opened d, or wrote through it last. */
static bool descriptor_is_of_caller(const struct descriptor *d)
{
	char path[64];

	if (d->pid == caller_thread)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)d->pid, (int)caller_thread);
	return access(path, F_OK) == 0;
}

/* Returns a content with staged bytes, if possible of the calling process (*own), or NULL.  The file's lock is held. */
static const struct content *pending_of(const struct open_file *file, bool *own)
{
	const struct content *content = NULL;

	for (struct descriptor *d = file->descriptors; d; d = d->next) {
		if (!is_pending(d->content, file))
			continue;
		if (!content)
			content = d->content;
		if (own && descriptor_is_of_caller(d)) {
			*own = true;
			return d->content;
		}
	}
	return content;
}

bool ofile_pending(struct node *n, bool *own, struct staged_attr *s)
{
	struct open_file *file = open_file_find(n);
	const struct content *content;

	if (own)
		*own = false;
	if (!file)
		return false;
	mutex_lock(&file->lock);
	content = pending_of(file, own);
	if (content)
		*s = (struct staged_attr){content_size(content), content->time != TFS_NO_TIME ? content->time : content->touched_us,
			content->touched_us};
	mutex_unlock(&file->lock);
	open_file_put(file);
	return content != NULL;
}

int ofile_stat(struct node *n, const struct cell_place *p, struct tfs_info *info, bool *pending)
{
	struct staged_attr s;
	int err = cell_stat(p, info);

	*pending = false;
	if (err != -ENOENT || !n)
		return err;
	/* If a commit ended between the two checks, the store has the cell now. */
	*pending = ofile_pending(n, NULL, &s);
	return *pending ? err : cell_stat(p, info);
}

bool ofile_is_open(struct node *n, uint64_t *size)
{
	struct open_file *file = open_file_find(n);

	*size = n->size;
	if (!file)
		return n->opens > 0;
	mutex_lock(&file->lock);
	*size = content_size(file->descriptors && n->kind == NODE_PLAIN ? file->descriptors->content : &file->shared);
	mutex_unlock(&file->lock);
	open_file_put(file);
	return true;
}

static bool lies_in(const struct node *dir, const struct node *cell)
{
	struct slice component;
	struct buf path = {0};
	bool last, in;

	if (dir->kind != NODE_CELL_PART)
		return true;
	in = name_encode(cell->kind == NODE_PLAIN ? NAME_NEWEST : NAME_VERSION, node_key(cell), cell->ts, &path) == 0 &&
		name_component(buf_slice(&path), node_key(dir), &component, &last);
	buf_fini(&path);
	return in;
}

static bool commits_below(const struct descriptor *d, const void *family)
{
	const struct node *target = d->own.target ? d->own.target : d->file->shared.target;

	return target && target->parent == family;
}

/* Walks the open files, because a directory may have many more nodes. */
bool ofile_pending_below(struct node *dir)
{
	struct node *family = node_in_table_get(dir->kind == NODE_CELL_PART ? dir->parent : dir);
	struct open_file **files;
	size_t count;
	bool pending = open_files_with(commits_below, family, &files, &count) != 0;

	for (size_t i = 0; i < count; i++) {
		const struct content *content;

		mutex_lock(&files[i]->lock);
		content = pending_of(files[i], NULL);
		pending = pending || (content && lies_in(dir, content->target));
		mutex_unlock(&files[i]->lock);
		open_file_put(files[i]);
	}
	free(files);
	node_put(family);
	return pending;
}
