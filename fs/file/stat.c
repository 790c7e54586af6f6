/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat of open files.
 *
 * Uncommitted bytes are visible only to the process that wrote them.  git,
 * nginx and every program that reads as many bytes as fstat reports would
 * otherwise read that many bytes of the version before.  Therefore, if a
 * process has not read all of the version that it opened, stat shows it the
 * size and times of that version, although a newer version exists.
 *
 * GETATTR states the calling thread, but no descriptor.  So stat looks in /proc
 * whether that thread is one of the process that opened or used a descriptor.  It
 * does so only while bytes are staged, or a reader is on a version that is not
 * the newest.  If a process has several such descriptors, the descriptor that was
 * opened last counts: a program asks for the size after it has opened a file.
 * All processes in other pid namespaces have the number 0 here, and count as one.
 */
#include "fs/file/file.h"

#include "engine/base/name.h"
#include "fs/base/access.h"

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

bool descriptor_is_of_caller(const struct descriptor *d)
{
	const pid_t thread = fs_asker_thread();
	char path[64];

	if (d->pid == thread)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)d->pid, (int)thread);
	return access(path, F_OK) == 0;
}

/*
 * Like descriptor_is_of_caller.  *other: the thread for which the last negative answer was
 * given, or -1.  It saves look-ups, because one reader has most descriptors of a file.
 */
static bool is_of_caller(const struct descriptor *d, pid_t *other)
{
	if (d->pid == *other)
		return false;
	if (descriptor_is_of_caller(d))
		return true;
	*other = d->pid;
	return false;
}

/* Returns a content with staged bytes, or NULL.  The file's lock is held. */
static const struct content *pending_of(const struct open_file *file)
{
	const struct descriptor *d = file->descriptors;

	while (d && !is_pending(d->content, file))
		d = d->next;
	return d ? d->content : NULL;
}

static struct staged_attr staged_attr_of(const struct content *content)
{
	return (struct staged_attr){
		content_size(content), content->time != TFS_NO_TIME ? content->time : content->touched_us, content->touched_us};
}

bool ofile_pending(struct node *n, struct staged_attr *s)
{
	struct open_file *file = open_file_find(n);
	const struct content *content;

	if (!file)
		return false;
	mutex_lock(&file->lock);
	content = pending_of(file);
	if (content)
		*s = staged_attr_of(content);
	mutex_unlock(&file->lock);
	open_file_put(file);
	return content != NULL;
}

/* Returns true if d only reads, and its version is not the newest.  A family that becomes one of counters changes the size only. */
static bool reader_differs(const struct descriptor *d, const struct tfs_info *newest)
{
	return newest && descriptor_only_reads(d) &&
		(d->own.base_ts != newest->ts || d->own.base_ctime != newest->commit_us || d->own.base_size != newest->size);
}

bool ofile_own_attr(struct open_file *file, const struct tfs_info *newest, struct staged_attr *s)
{
	const struct descriptor *own = NULL;
	pid_t other = -1;

	if (!file)
		return false;
	mutex_lock(&file->lock);
	for (struct descriptor *d = file->descriptors; d && !own; d = d->next) {
		const bool stays = d->ended == READER_WITHIN && reader_differs(d, newest);

		if ((stays || is_pending(d->content, file)) && is_of_caller(d, &other))
			own = d;
	}
	if (own && descriptor_only_reads(own))
		*s = (struct staged_attr){content_size(&own->own), own->own.base_ts, own->own.base_ctime};
	else if (own)
		*s = staged_attr_of(own->content);
	for (struct descriptor *d = file->descriptors; d && !own; d = d->next)
		if (d->ended == READER_ALL && reader_differs(d, newest) && is_of_caller(d, &other))
			d->ended = READER_TOLD;
	mutex_unlock(&file->lock);
	return own != NULL;
}

static int cell_ask(const struct cell_place *p, struct cell_first *first, struct tfs_info *info)
{
	return first ? cell_read_first(p, first, info) : cell_stat(p, info);
}

int ofile_read_first(struct node *n, const struct cell_place *p, struct cell_first *first, struct tfs_info *info, bool *pending)
{
	struct staged_attr s;
	const bool was_pending = n && ofile_pending(n, &s);
	int err = cell_ask(p, first, info);

	*pending = err == -ENOENT && n && ofile_pending(n, &s);
	/* If its commit has ended since, the store has the cell now. */
	return err == -ENOENT && was_pending && !*pending ? cell_ask(p, first, info) : err;
}

int ofile_stat(struct node *n, const struct cell_place *p, struct tfs_info *info, bool *pending)
{
	return ofile_read_first(n, p, NULL, info, pending);
}

/*
 * A descriptor of the plain name's file whose size stat shows: the calling process's, or else the first one.  An OPEN that has
 * not loaded its bytes yet has no size.
 */
static const struct descriptor *shown_descriptor(const struct open_file *file)
{
	const struct descriptor *first = NULL;

	for (const struct descriptor *d = file->descriptors; d; d = d->next) {
		if (descriptor_only_reads(d) && d->own.holds != IMAGE_LOADED)
			continue;
		if (descriptor_is_of_caller(d))
			return d;
		if (!first)
			first = d;
	}
	return first;
}

bool ofile_is_open(struct node *n, uint64_t *size, int64_t *ts)
{
	struct open_file *file = open_file_find(n);
	const struct descriptor *d;

	*size = n->size;
	*ts = TFS_NO_TIME;
	if (!file)
		return n->opens > 0;
	mutex_lock(&file->lock);
	d = n->kind == NODE_PLAIN ? shown_descriptor(file) : NULL;
	if (d || n->kind != NODE_PLAIN)
		*size = content_size(d ? d->content : &file->shared);
	if (d && descriptor_only_reads(d))
		*ts = d->own.base_ts;
	mutex_unlock(&file->lock);
	open_file_put(file);
	return true;
}

static bool lies_in(const struct node *dir, const struct node *cell)
{
	struct tfs_bytes component;
	struct buf path = {0};
	bool last, in;

	if (dir->kind != NODE_CELL_PART)
		return true;
	in = name_encode(cell->kind == NODE_PLAIN ? NAME_NEWEST : NAME_VERSION, node_key(cell), cell->ts, &path) == 0 &&
		name_component(buf_bytes(&path), node_key(dir), &component, &last);
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
		content = pending_of(files[i]);
		pending = pending || (content && lies_in(dir, content->target));
		mutex_unlock(&files[i]->lock);
		open_file_put(files[i]);
	}
	free(files);
	node_put(family);
	return pending;
}
