/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits: writes the staged bytes of an open file to the store.  A commit is
 * one tfs_write in one mutation.  It states, in this order: the base (nothing,
 * the newest version, or the version itself), cut or extended; the ranges
 * written; the bytes appended; the version that results.  The engine applies it
 * under the row's lock, so that two appenders do not lose each other's bytes.
 *
 * Later commits of one open ask to replace the version of the first.  The
 * engine does so while that is still the newest version.
 *
 * Lines +=N and -=N of a counter are one increment instead (counter.c).
 *
 * In .latest a set time takes precedence over order: the version gets exactly
 * that time, and the versions above it are deleted in the same mutation.
 */
#include "fs/base/permit.h"
#include "fs/base/access.h"
#include "fs/base/extra.h"
#include "fs/file/counter.h"
#include "fs/file/file.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

/* After a commit the bytes are part of the base. */
static void content_committed(struct content *content, bool shared, const struct tfs_result *result)
{
	struct tfs_bytes bytes;

	content->committed = content->early = true;
	content->has_room = false;
	if (content->writer)
		content->writer->has_version = content->writer->early = true;
	content->commit_ts = result->ts;
	content->staged = STAGED_NOTHING;
	content->cut = UINT64_MAX;
	content->base_size = result->size;
	if (shared)
		content->holds = IMAGE_LOADED; /* others may write, too */
	if (content->holds == IMAGE_WHOLE)
		return;
	if (content->holds == IMAGE_LOADED && content->tail.size &&
		(stage_bytes(&content->tail, &bytes) || stage_load(&content->image, content->image.size, bytes.p, bytes.n)))
		content->error = -EIO;
	stage_reset(&content->tail);
	if (content->holds == IMAGE_LOADED)
		content->image.span_count = 0;
	else
		stage_reset(&content->image);
}

/* *out is the ranges of the image that were written, malloc'd. */
static int ranges_of(struct content *content, struct tfs_range **out, unsigned *count)
{
	struct tfs_bytes bytes;
	int err = stage_bytes(&content->image, &bytes);
	const struct stage_span all = {0, bytes.n}, *spans = content->holds == IMAGE_WHOLE ? &all : content->image.spans;

	*out = NULL;
	*count = content->holds == IMAGE_WHOLE ? bytes.n > 0 : content->image.span_count;
	if (err || *count == 0)
		return err;
	*out = malloc(*count * sizeof(**out));
	for (unsigned i = 0; *out && i < *count; i++)
		(*out)[i] = (struct tfs_range){
			spans[i].begin, tfs_bytes_of(bytes.p + spans[i].begin, (size_t)(spans[i].end - spans[i].begin))};
	return *out ? 0 : -ENOMEM;
}

static void commit_place(const struct content *content, struct tfs_write *out)
{
	if (content->target->kind == NODE_VERSION) {
		out->place = tfs_at(content->target->ts);
	} else if (content->time != TFS_NO_TIME && content->latest) {
		out->place = tfs_at(content->time);
		out->drop_newer = true;
	} else {
		/* A version without bytes has the time at which it was created or cut, as stat has shown it. */
		bool untouched = content->time == TFS_NO_TIME && content->staged == STAGED_CREATION;

		out->place = (struct tfs_ts){TFS_NEWEST, untouched ? content->touched_us : content->time};
		out->replace = content->committed;
		out->replace_ts = content->commit_ts;
	}
}

/*
 * The versions that a commit moves or removes: the version of an earlier commit, and in
 * .latest the versions above the time that was set.
 */
struct replaced {
	struct versions column;
	struct displaced displaced;
};

static int replaced_add(const struct content *content, const struct tfs_write *out, struct replaced *g)
{
	struct node *family = content->target->parent;
	struct tfs_bytes key = node_key(content->target);
	int err = 0;

	if (content->target->kind != NODE_PLAIN)
		return 0;
	if (content->committed)
		err = displaced_add(&g->displaced, family, key, content->commit_ts, true);
	if (err == 0 && out->drop_newer)
		err = column_versions(family, key, &g->column);
	for (size_t i = 0; i < g->column.n && err == 0; i++)
		if (g->column.ts[i] > out->place.us && !(content->committed && g->column.ts[i] == content->commit_ts))
			err = displaced_add(&g->displaced, family, key, g->column.ts[i], false);
	return err;
}

/* Notes the version that was committed, and the versions that were moved or removed. */
static void replaced_note(
	struct content *content, const struct tfs_result *result, bool dropped, struct replaced *g, struct changes *c)
{
	bool moved = content->committed && content->commit_ts != result->ts && (result->replaced || dropped), own;
	struct node *target = content->target, *family = target->parent;
	struct tfs_bytes key = node_key(target);

	versions_changed(c, family, key, &g->column, true);
	extra_cell_added(family);
	if (target->kind == NODE_PLAIN && moved)
		cell_changed(c, family, key, content->commit_ts, true, NULL);
	/* The kernel knows the size and bytes of a version that was written through it, unless other pages of it exist. */
	own = target->file && content == &target->file->shared && !(target->flags & NODE_PAGED) && !target->file->also_count;
	cell_changed(c, family, key, result->ts, false, own ? target : NULL);
	if (target->kind != NODE_PLAIN)
		return;
	if (content->committed)
		displaced_moved(&g->displaced, &content->commit_ts, target, moved ? result->ts : content->commit_ts, c);
	displaced_end(&g->displaced, c);
}

/* Applies a write, and notes the versions that it displaces.  No file's lock is held. */
static int replaced_apply(
	struct content *content, struct cell_place *p, const struct tfs_write *out, struct tfs_result *result, struct changes *c)
{
	bool drop =
		out->drop_newer && content->committed && content->commit_ts != content->time && !permit_keeps_data(content->target);
	struct tfs_result results[2] = {0};
	struct replaced g = {0};
	int err = replaced_add(content, out, &g);
	struct tfs_mutation *m = err ? NULL : tfs_mutation_new(p->table, p->row);

	if (err == 0)
		err = m ? tfs_mutation_write(m, out) : -ENOMEM;
	if (err == 0 && drop)
		err = tfs_mutation_delete_version(m, p->family, p->qualifier, content->commit_ts);
	if (err == 0)
		err = cells_apply(content->target, m, 0, results, c);
	tfs_mutation_free(m);
	if (err == 0) {
		*result = results[0];
		replaced_note(content, result, drop, &g, c);
	}
	versions_fini(&g.column);
	displaced_fini(&g.displaced);
	return err;
}

/* Returns 1 if only a truncation is staged and another descriptor has committed since, 0, or -errno. */
static int truncation_is_over(const struct content *content, const struct cell_place *p)
{
	struct tfs_info info;
	int err;

	if (content->staged == STAGED_BYTES || content->target->kind != NODE_PLAIN)
		return 0;
	err = cell_stat(p, &info);
	if (err)
		return err == -ENOENT ? 0 : err;
	return info.ts != content->base_ts;
}

/* Adds to a counter.  No file's lock is held. */
static int counter_apply(struct content *content, struct cell_place *p, int64_t by, struct tfs_result *result, struct changes *c)
{
	struct tfs_mutation *m = tfs_mutation_new(p->table, p->row);
	int err = m ? tfs_mutation_increment(m, p->family, p->qualifier, by) : -ENOMEM;

	if (err == 0)
		err = cells_apply(content->target, m, 0, result, c);
	tfs_mutation_free(m);
	if (err == 0) {
		extra_cell_added(p->family_node);
		cell_changed(c, p->family_node, node_key(content->target), result->ts, false, NULL);
	}
	return err;
}

static int content_store(struct content *content, bool last, struct open_file *file, struct changes *c)
{
	bool whole = content->holds == IMAGE_WHOLE, version = content->target->kind == NODE_VERSION;
	struct tfs_write out = {.truncate_to = whole ? UINT64_MAX : content->cut,
		.base = whole     ? TFS_BASE_EMPTY
			: version ? TFS_BASE_VERSION
				  : TFS_BASE_NEWEST,
		.base_ts = content->target->ts};
	struct counter_change counter = {.sets = true};
	struct tfs_range *ranges = NULL, counter_range;
	char number[COUNTER_TEXT_MAX];
	struct tfs_result result;
	struct family_info f;
	struct cell_place p;
	struct tfs_bytes tail;
	int err;

	cell_place_of(content->target, &p);
	if (family_info_get(p.family_node, &f))
		return refuse(-ESTALE, content->target, NULL, "the family was dropped");
	err = truncation_is_over(content, &p);
	if (err < 0)
		return refuse_store(err, content->target, NULL, "not stored");
	if (err) {
		content->staged = STAGED_NOTHING;
		if (content == &file->shared)
			content->holds = IMAGE_RANGES; /* the empty image is not the file's */
		return 0;
	}
	out.family = p.family;
	out.qualifier = p.qualifier;
	commit_place(content, &out);
	err = ranges_of(content, &ranges, &out.range_count);
	if (err == 0)
		err = stage_bytes(&content->tail, &tail);
	if (err)
		goto out;
	out.ranges = ranges;
	out.append = tail;
	if (f.counter && !version) {
		err = counter_staged(content, last, &counter);
		counter_range = (struct tfs_range){0, tfs_bytes_of(number, counter_text(counter.value, number))};
		out.ranges = &counter_range;
		out.range_count = 1;
	}
	if (err)
		goto out;
	content->busy = true;
	mutex_unlock(&file->lock);
	err = counter.sets ? replaced_apply(content, &p, &out, &result, c) : counter_apply(content, &p, counter.value, &result, c);
	mutex_lock(&file->lock);
	content->busy = false;
	cond_broadcast(&file->idle);
	if (err == -ENOENT && version && !whole) {
		content_discard(content);
		err = refuse(-ESTALE, content->target, NULL,
			"the version does not exist any more"); /* it has expired, or a verb has removed it */
	} else if (err == -EINVAL && !counter.sets) {
		err = refuse(err, content->target, NULL, "its newest version is not a decimal number, so nothing is added");
	} else if (err) {
		err = refuse_store(err, content->target, NULL, "not stored");
	} else if (!counter.sets) {
		counter_added(content);
	} else {
		if (!version)
			result.size = plain_file_size(&f, result.size);
		content_committed(content, content == &file->shared && !version && file->node, &result);
		if (version) {
			content->target->size = result.size;
			content->target->commit_us = result.commit_us;
			content->target->epoch = table_epoch(content->target);
		}
	}
out:
	free(ranges);
	return err > 0 ? 0 : err;
}

int content_commit(struct content *content, bool last, struct open_file *file, struct changes *c)
{
	const struct tfs_user *before_user;
	uint32_t before = file->commits;
	int err;

	if (content->error)
		return content->error;
	if (content_is_dropped(content))
		return -ESTALE;
	if (!content->target || !node_lives(content->target))
		content->staged = STAGED_NOTHING;
	if (content->staged == STAGED_NOTHING || (content->staged == STAGED_CREATION && !last))
		return 0;
	before_user = fs_ask_as(content->caller ? &content->caller->user : NULL);
	err = content_store(content, last, file, c);
	(void)fs_ask_as(before_user);
	/* A refused commit leaves scratch as it is. */
	if (err && file->node)
		return content_failed(content, err);
	if (content->seen == before)
		content->seen = file->commits; /* its image has its own bytes */
	return err;
}

int scratch_check_read(struct open_file *file, const struct caller *caller)
{
	return fs_mode_allows(caller, file->uid, file->gid, file->mode, 4) ? 0 : -EACCES;
}

int scratch_commit(
	struct open_file *file, struct node *target, const struct caller *caller, bool latest, int64_t *ts, struct changes *c)
{
	struct content *content = &file->shared;
	int err;

	mutex_lock(&file->lock);
	open_file_wait(file, content);
	err = scratch_check_read(file, caller);
	if (err)
		goto out;
	content->latest = latest;
	content->staged = STAGED_BYTES;
	content->committed = false;
	content_set_target(content, target);
	err = content_commit(content, true, file, c);
	*ts = content->commit_ts;
	if (err)
		content_set_target(content, NULL);
out:
	mutex_unlock(&file->lock);
	return err;
}

int content_move_to_time(struct content *content, bool *newest, struct changes *c)
{
	struct tfs_write out = {.truncate_to = UINT64_MAX, .base = TFS_BASE_VERSION, .base_ts = content->commit_ts};
	struct tfs_result result;
	struct tfs_info info;
	struct cell_place p;
	int err;

	*newest = true;
	if (content->target->kind == NODE_VERSION)
		return 0; /* the name states the time */
	cell_place_of(content->target, &p);
	err = cell_stat(&p, &info);
	*newest = err || info.ts == content->commit_ts;
	if (!*newest)
		return 0;
	out.family = p.family;
	out.qualifier = p.qualifier;
	commit_place(content, &out);
	if (err == 0 && out.drop_newer && content->commit_ts == content->time)
		return 0;
	if (err == 0)
		err = replaced_apply(content, &p, &out, &result, c);
	if (err)
		return err == -ENOENT ? 0 : refuse_store(err, content->target, NULL, "its time was not set");
	content->commit_ts = result.ts;
	return 0;
}

int ofile_commit_staged(struct node *n, struct changes *c)
{
	struct open_file **files;
	size_t count;
	int err = open_files_to(n, &files, &count);

	for (size_t i = 0; i < count; i++) {
		struct open_file *file = files[i];

		mutex_lock(&file->lock);
		if (err == 0 && file->shared.target == n && content_is_staged(&file->shared))
			err = content_commit(&file->shared, true, file, c);
		for (struct descriptor *d = file->descriptors; d && err == 0; d = d->next)
			if (d->own.target == n && content_is_staged(&d->own))
				err = content_commit(&d->own, true, file, c);
		mutex_unlock(&file->lock);
		open_file_put(file);
	}
	free(files);
	return err;
}
