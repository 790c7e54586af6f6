/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of open files, found by their nodes, and the list of all
 * descriptors.
 */
#include "fs/file/file.h"

#include "fs/base/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static LIST_HEAD(, descriptor) all_descriptors = LIST_HEAD_INITIALIZER(all_descriptors); /* tree lock */

bool open_file_add_node_locked(struct open_file *file, struct node *n)
{
	/* Each commit of an open may rename the version.  A former node is removed once the kernel and all others have forgotten it. */
	for (unsigned i = 0; i < file->also_count; i++) {
		struct node *old = file->also[i];

		if (old->refs > 1 || old->lookups > 0 || old->opens > 0)
			continue;
		old->file = NULL;
		file->also[i--] = file->also[--file->also_count];
		node_put_locked(old);
	}
	if (array_grow(&file->also, file->also_count, sizeof(struct node *)))
		return false;
	n->refs++;
	n->file = file;
	file->also[file->also_count++] = n;
	return true;
}

struct open_file *open_file_get(struct node *n)
{
	struct open_file *fresh = calloc(1, sizeof(*fresh)), *file;

	if (!fresh)
		return NULL;
	mutex_init(&fresh->lock, RANK_FS_NODE);
	cond_init(&fresh->idle);
	content_init(&fresh->shared);
	fresh->mtime_us = TFS_NO_TIME;
	mutex_lock(tree_mutex());
	file = n->file;
	if (!file) {
		file = n->file = fresh;
		fresh = NULL;
		if (n->kind != NODE_SCRATCH_FILE) {
			n->refs++;
			file->node = n;
		}
		if (n->kind == NODE_VERSION)
			content_set_target_locked(&file->shared, n);
	}
	file->refs++;
	mutex_unlock(tree_mutex());
	open_file_free(fresh);
	return file;
}

struct open_file *open_file_find(struct node *n)
{
	struct open_file *file;

	mutex_lock(tree_mutex());
	file = n->file;
	if (file)
		file->refs++;
	mutex_unlock(tree_mutex());
	return file;
}

void open_file_put(struct open_file *file)
{
	bool last;

	if (!file)
		return;
	mutex_lock(tree_mutex());
	last = --file->refs == 0;
	if (last && file->node)
		file->node->file = NULL;
	for (unsigned i = 0; last && i < file->also_count; i++)
		file->also[i]->file = NULL;
	mutex_unlock(tree_mutex());
	if (!last)
		return;
	node_put(file->node);
	node_put(file->shared.target);
	for (unsigned i = 0; i < file->also_count; i++)
		node_put(file->also[i]);
	open_file_free(file);
}

void open_file_free(struct open_file *file)
{
	if (!file)
		return;
	content_fini(&file->shared);
	cond_fini(&file->idle);
	mutex_fini(&file->lock);
	free(file->also);
	free(file);
}

void open_file_drop_locked(struct node *n)
{
	struct open_file *file = n->file;

	if (!file)
		return;
	if (!file->node && file->also_count == 0) { /* scratch */
		if (--file->refs == 0)
			open_file_free(file);
		return;
	}
	/* An open file counts its nodes, so only the end of the daemon frees them first. */
	if (file->node == n)
		file->node = NULL;
	else
		file->also_count--;
	if (!file->node && file->also_count == 0)
		open_file_free(file);
}

void open_file_wait(struct open_file *file, const struct content *content)
{
	while (content->busy)
		cond_wait(&file->idle, &file->lock);
}

struct node *open_file_target(struct open_file *file)
{
	struct node *target;

	mutex_lock(&file->lock);
	target = file->node ? NULL : file->shared.target;
	for (struct descriptor *d = file->node ? file->descriptors : NULL; d && !target; d = d->next)
		if (d->content->target != file->node && d->content->target && node_lives(d->content->target))
			target = d->content->target;
	if (target)
		node_hold(target);
	mutex_unlock(&file->lock);
	return target;
}

void open_file_free_scratch(struct open_file *file)
{
	if (file->node || !file->shared.target || file->descriptors)
		return;
	content_renew(&file->shared);
	file->shared.error = -ESTALE;
}

void version_count_open(struct node *n)
{
	bool leaving;

	for (;;) {
		mutex_lock(tree_mutex());
		leaving = n->flags & NODE_LEAVING;
		n->opens += !leaving;
		mutex_unlock(tree_mutex());
		if (!leaving)
			return;
		row_unlock(row_lock(n));
	}
}

void version_count_close(struct node *n)
{
	struct open_file *file = NULL;

	mutex_lock(tree_mutex());
	if (n->opens > 0 && --n->opens == 0 && n->flags & NODE_KEEPS) {
		n->flags &= (uint16_t)~NODE_KEEPS;
		file = n->file;
	}
	mutex_unlock(tree_mutex());
	open_file_put(file);
}

int version_prepare_write(struct open_file *file)
{
	struct tfs_info info;
	int err = node_lives(file->node) ? cell_node_stat(file->node, &info) : -ESTALE;

	if (content_is_staged(&file->shared))
		return err == -ENOENT ? 0 : err;
	if (err)
		return err;
	if (file->shared.error) {
		content_discard(&file->shared);
		file->shared.holds = IMAGE_RANGES;
	}
	file->shared.error = 0;
	file->shared.base_size = info.size;
	return 0;
}

int scratch_truncate(struct open_file *file, uint64_t size)
{
	open_file_wait(file, &file->shared);
	file->mtime_us = fs_now_us();
	if (file->shared.error && size == 0)
		content_begin_whole(&file->shared);
	return content_truncate(&file->shared, size);
}

struct node *node_successor(struct node *n)
{
	bool again = (n->kind == NODE_VERSION || n->kind == NODE_PLAIN) && !node_lives(n) && !(n->flags & NODE_MOVED);

	return again ? node_get(n->parent, (enum node_kind)n->kind, node_key(n), n->kind == NODE_VERSION ? n->ts : 0) : NULL;
}

/* ---- descriptors ---- */

struct descriptor *descriptor_new(struct node *n, int flags)
{
	struct descriptor *d = calloc(1, sizeof(*d));
	struct open_file *file = d ? open_file_get(n) : NULL;

	if (!file) {
		free(d);
		return NULL;
	}
	content_init(&d->own);
	d->node = n;
	d->file = file;
	d->content = n->kind == NODE_SCRATCH_FILE || n->kind == NODE_VERSION ? &file->shared : &d->own;
	d->readable = (flags & O_ACCMODE) != O_WRONLY;
	d->writable = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	mutex_lock(&file->lock);
	d->latest = n->kind == NODE_PLAIN && fs_path_of(n) == PATH_IN_LATEST;
	d->own.seen = file->commits;
	if (n->kind == NODE_PLAIN)
		d->own.seen_epoch = table_epoch(n);
	mutex_lock(tree_mutex());
	n->refs++;
	if (d->content == &d->own)
		content_set_target_locked(&d->own, file->node);
	d->next = file->descriptors;
	file->descriptors = d;
	LIST_INSERT_HEAD(&all_descriptors, d, all);
	mutex_unlock(tree_mutex());
	mutex_unlock(&file->lock);
	return d;
}

/* d no longer shares the file's content.  The file's lock is held, and d is in no list. */
static void descriptor_unshare(struct descriptor *d)
{
	struct content *content = d->content;
	struct descriptor *g = d->file->descriptors;

	if (content->writer == d) {
		content->writer = NULL;
		content->committed = false;
		content->time = TFS_NO_TIME;
	}
	while (g && !descriptor_shares(g))
		g = g->next;
	if (!g)
		content_renew(content);
}

void descriptor_free(struct descriptor *d)
{
	struct open_file *file = d->file;
	struct descriptor **at = &file->descriptors;

	mutex_lock(&file->lock);
	open_file_wait(file, d->content); /* a rename or another descriptor may be committing it */
	mutex_lock(tree_mutex());
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	LIST_REMOVE(d, all);
	mutex_unlock(tree_mutex());
	if (descriptor_shares(d))
		descriptor_unshare(d);
	open_file_free_scratch(file);
	mutex_unlock(&file->lock);
	content_fini(&d->own);
	node_put(d->own.target);
	node_put(d->node);
	free(d);
	open_file_put(file);
}

struct descriptor *descriptor_first(void)
{
	struct descriptor *d;

	mutex_lock(tree_mutex());
	d = LIST_FIRST(&all_descriptors);
	mutex_unlock(tree_mutex());
	return d;
}

int open_files_with(
	bool (*matches)(const struct descriptor *d, const void *arg), const void *arg, struct open_file ***out, size_t *count)
{
	struct descriptor *d;
	size_t found = 0;

	*out = NULL;
	*count = 0;
	mutex_lock(tree_mutex());
	LIST_FOREACH (d, &all_descriptors, all)
		found += matches(d, arg);
	if (found)
		*out = calloc(found, sizeof(struct open_file *));
	LIST_FOREACH (d, &all_descriptors, all) {
		bool have = !*out || !matches(d, arg);

		for (size_t i = 0; i < *count && !have; i++)
			have = (*out)[i] == d->file;
		if (have)
			continue;
		d->file->refs++;
		(*out)[(*count)++] = d->file;
	}
	mutex_unlock(tree_mutex());
	return found && !*out ? -ENOMEM : 0;
}

static bool leads_to(const struct descriptor *d, const void *node)
{
	return d->own.target == node || d->file->shared.target == node;
}

int open_files_to(const struct node *n, struct open_file ***out, size_t *count)
{
	return open_files_with(leads_to, n, out, count);
}
