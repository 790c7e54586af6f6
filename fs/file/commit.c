/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit is one tfs_write in one mutation.  It states, in this order: the
 * base (nothing, the newest version, or the version itself), cut or extended;
 * the ranges written; the bytes appended; the version that results.  The
 * engine applies it under the row's lock, so that two appenders, or a writer
 * and a remover, do not lose each other's bytes.
 *
 * Later commits of one writer ask to replace the version of the first.  The
 * engine does so while that is still the newest version.
 *
 * In .latest a set time takes precedence over order: the version gets exactly
 * that time, and the versions above it are deleted in the same mutation.
 */
#include "fs/base/extra.h"
#include "fs/file/file.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

/* The bytes are part of the base from now on. */
static void writer_committed(struct writer *w, bool shared, const struct tfs_result *result)
{
	struct slice bytes;

	w->committed = true;
	w->commit_ts = result->ts;
	w->staged = STAGED_NOTHING;
	w->cut = UINT64_MAX;
	w->base_size = result->size;
	if (shared)
		w->holds = IMAGE_LOADED; /* others may write, too */
	if (w->holds == IMAGE_WHOLE)
		return;
	if (w->holds == IMAGE_LOADED && w->tail.size &&
		(stage_bytes(&w->tail, &bytes) || stage_load(&w->image, w->image.size, bytes.p, bytes.n)))
		w->error = -EIO;
	stage_reset(&w->tail);
	if (w->holds == IMAGE_LOADED)
		stage_forget_spans(&w->image);
	else
		stage_reset(&w->image);
}

/* The ranges of the image that were written, malloc'd. */
static int ranges_of(struct writer *w, struct tfs_range **out, unsigned *count)
{
	struct slice bytes;
	int r = stage_bytes(&w->image, &bytes);
	const struct stage_span all = {0, bytes.n}, *spans = w->holds == IMAGE_WHOLE ? &all : w->image.spans;

	*out = NULL;
	*count = w->holds == IMAGE_WHOLE ? bytes.n > 0 : w->image.span_count;
	if (r || *count == 0)
		return r;
	*out = malloc(*count * sizeof(**out));
	for (unsigned i = 0; *out && i < *count; i++)
		(*out)[i] = (struct tfs_range){
			spans[i].begin, tfs_bytes_of(bytes.p + spans[i].begin, (size_t)(spans[i].end - spans[i].begin))};
	return *out ? 0 : -ENOMEM;
}

static int apply_write(struct cell_place *p, const struct tfs_write *w, const int64_t *drop, struct tfs_result *result)
{
	struct tfs_result results[2] = {0};
	struct tfs_mutation *m = tfs_mutation_new(p->table, p->row);
	int r = m ? 0 : -ENOMEM;

	if (r == 0)
		r = tfs_mutation_write(m, w);
	if (r == 0 && drop)
		r = tfs_mutation_delete_version(m, p->family, p->qualifier, *drop);
	if (r == 0)
		r = tfs_apply(m, 0, results);
	tfs_mutation_free(m);
	if (r == 0)
		*result = results[0];
	return r;
}

static void place_write(const struct writer *w, struct tfs_write *out)
{
	if (w->target->kind == NODE_VERSION) {
		out->place = tfs_at(w->target->ts);
	} else if (w->time != TFS_NO_TIME && w->latest) {
		out->place = tfs_at(w->time);
		out->drop_newer = true;
	} else {
		/* A version without bytes has the time at which it was created or cut, as stat has shown it. */
		bool untouched = w->time == TFS_NO_TIME && w->staged == STAGED_CREATION;

		out->place = (struct tfs_ts){TFS_NEWEST, untouched ? w->touched_us : w->time};
		out->replace = w->committed;
		out->replace_ts = w->commit_ts;
	}
}

/* The versions that a commit moves or removes: its own earlier one, and in .latest those above the time that was set. */
struct replaced {
	struct versions column;
	struct kept kept;
};

static int replaced_find(const struct writer *w, const struct tfs_write *out, struct replaced *g)
{
	struct node *family = w->target->parent;
	struct slice key = node_key(w->target);
	int r = 0;

	if (w->target->kind != NODE_PLAIN)
		return 0;
	if (w->committed)
		r = kept_add(&g->kept, family, key, w->commit_ts, true);
	if (r == 0 && out->drop_newer)
		r = column_versions(family, key, &g->column);
	for (size_t i = 0; i < g->column.n && r == 0; i++)
		if (g->column.ts[i] > out->place.us && !(w->committed && g->column.ts[i] == w->commit_ts))
			r = kept_add(&g->kept, family, key, g->column.ts[i], false);
	return r;
}

/* After a commit: the listings, the version now there, and those that were moved or removed. */
static void replaced_note(struct writer *w, const struct tfs_result *result, bool dropped, struct replaced *g, struct changes *c)
{
	bool moved = w->committed && w->commit_ts != result->ts && (result->replaced || dropped), own;
	struct node *target = w->target, *family = target->parent;
	struct slice key = node_key(target);

	versions_changed(c, family, key, &g->column, true);
	extra_cell_added(family);
	if (target->kind == NODE_PLAIN && moved)
		cell_changed(c, family, key, w->commit_ts, true, NULL);
	/* The kernel has seen a version's own writes.  It may also have pages that they do not pass through. */
	own = target->file && w == &target->file->w && !(target->flags & NODE_PAGED) && !target->file->also_count;
	cell_changed(c, family, key, result->ts, false, own ? target : NULL);
	if (target->kind != NODE_PLAIN)
		return;
	if (w->committed)
		kept_moved(&g->kept, family, key, w->commit_ts, target, moved ? result->ts : w->commit_ts, c);
	kept_end(&g->kept, c);
}

/* Finds what out replaces, applies it, and notes what changed.  No file's lock is held. */
static int replaced_apply(
	struct writer *w, struct cell_place *p, const struct tfs_write *out, struct tfs_result *result, struct changes *c)
{
	bool drop = out->drop_newer && w->committed && w->commit_ts != w->time;
	struct replaced g = {0};
	int r = replaced_find(w, out, &g);

	if (r == 0)
		r = apply_write(p, out, drop ? &w->commit_ts : NULL, result);
	if (r == 0)
		replaced_note(w, result, drop, &g, c);
	versions_fini(&g.column);
	kept_fini(&g.kept);
	return r;
}

/* Is it a truncation alone, and has another committed since?  Returns 1, 0 or -errno. */
static int truncation_is_over(const struct writer *w, const struct cell_place *p)
{
	struct tfs_info info;
	int r;

	if (w->staged == STAGED_BYTES || w->target->kind != NODE_PLAIN)
		return 0;
	r = cell_stat(p, &info);
	return r == -ENOENT ? 0 : r ? r : info.ts != w->base_ts;
}

/* The store keeps a counter as the decimal number that its text states. */
static int counter_value(struct writer *w, char number[COUNTER_TEXT_MAX], struct tfs_range *range, struct tfs_write *out)
{
	struct slice text = out->range_count ? slice_from(out->ranges[0].data) : slice_of(NULL, 0);
	int64_t value = 0;

	if (text.n && counter_parse(text, &value))
		return refuse(-EINVAL, w->target, NULL, "a counter is written as one decimal number");
	*range = (struct tfs_range){0, tfs_bytes_of(number, counter_text(value, number))};
	out->ranges = range;
	out->range_count = 1;
	return 0;
}

static int commit_staged(struct writer *w, struct filex *x, struct changes *c)
{
	bool whole = w->holds == IMAGE_WHOLE, version = w->target->kind == NODE_VERSION;
	struct tfs_write out = {.truncate_to = whole ? UINT64_MAX : w->cut,
		.base = whole     ? TFS_BASE_EMPTY
			: version ? TFS_BASE_VERSION
				  : TFS_BASE_NEWEST,
		.base_ts = w->target->ts};
	struct tfs_range *ranges = NULL, counter_range;
	char number[COUNTER_TEXT_MAX];
	struct tfs_result result;
	struct family_info f;
	struct cell_place p;
	struct slice tail;
	int r;

	cell_place_of(w->target, &p);
	if (family_info_get(p.family_node, &f))
		return refuse(-ESTALE, w->target, NULL, "the family is gone");
	r = truncation_is_over(w, &p);
	if (r > 0)
		w->staged = STAGED_NOTHING;
	if (r)
		return r > 0 ? 0 : refuse_store(r, w->target, NULL, "not stored");
	out.family = p.family;
	out.qualifier = p.qualifier;
	place_write(w, &out);
	r = ranges_of(w, &ranges, &out.range_count);
	if (r == 0)
		r = stage_bytes(&w->tail, &tail);
	if (r)
		goto out;
	out.ranges = ranges;
	out.append = bytes_of(tail);
	if (f.counter && !version)
		r = counter_value(w, number, &counter_range, &out);
	if (r)
		goto out;
	w->busy = true;
	mutex_unlock(&x->lock);
	r = replaced_apply(w, &p, &out, &result, c);
	mutex_lock(&x->lock);
	w->busy = false;
	cond_broadcast(&x->idle);
	if (r == -ENOENT && version && !whole) {
		writer_discard(w); /* another process has removed the version */
		r = 0;
	} else if (r) {
		r = refuse_store(r, w->target, NULL, "not stored");
	} else {
		writer_committed(w, w == &x->w && !version && x->node, &result);
		if (version) {
			w->target->size = result.size;
			w->target->commit_us = result.commit_us;
			w->target->epoch = table_epoch(w->target);
		}
	}
out:
	free(ranges);
	return r;
}

int writer_commit(struct writer *w, bool last, struct filex *x, struct changes *c)
{
	uint32_t before = x->commits;
	int r;

	if (w->error)
		return w->error;
	if (!w->target || !node_lives(w->target))
		w->staged = STAGED_NOTHING;
	if (w->staged == STAGED_NOTHING || (w->staged == STAGED_CREATION && !last))
		return 0;
	r = commit_staged(w, x, c);
	/* A refused commit leaves scratch as it is. */
	if (r && x->node)
		return writer_failed(w, r);
	if (w->seen == before)
		w->seen = x->commits; /* it has what it wrote itself */
	return r;
}

int scratch_commit(struct filex *x, struct node *target, bool latest, int64_t *ts, struct changes *c)
{
	struct writer *w = &x->w;
	int r;

	mutex_lock(&x->lock);
	filex_wait(x, w);
	w->latest = latest;
	w->staged = STAGED_BYTES;
	w->committed = false;
	writer_aim(w, target);
	r = writer_commit(w, true, x, c);
	*ts = w->commit_ts;
	if (r)
		writer_aim(w, NULL);
	mutex_unlock(&x->lock);
	return r;
}

int writer_retime(struct writer *w, struct changes *c)
{
	struct tfs_write out = {.truncate_to = UINT64_MAX, .base = TFS_BASE_VERSION, .base_ts = w->commit_ts};
	struct tfs_result result;
	struct tfs_info newest;
	struct cell_place p;
	int r;

	if (w->target->kind == NODE_VERSION)
		return 0; /* the name has the time */
	cell_place_of(w->target, &p);
	r = cell_stat(&p, &newest);
	if (r == 0 && newest.ts != w->commit_ts)
		return 1;
	out.family = p.family;
	out.qualifier = p.qualifier;
	place_write(w, &out);
	if (r == 0 && out.drop_newer && w->commit_ts == w->time)
		return 0;
	if (r == 0)
		r = replaced_apply(w, &p, &out, &result, c);
	if (r)
		return r == -ENOENT ? 0 : refuse_store(r, w->target, NULL, "its time was not set");
	w->commit_ts = result.ts;
	return 0;
}

/* Commits what leads to n through x. */
static int commit_to(struct filex *x, const struct node *n, struct changes *c)
{
	int r = 0;

	mutex_lock(&x->lock);
	if (x->w.target == n && writer_pending(&x->w))
		r = writer_commit(&x->w, true, x, c);
	for (struct handle *h = x->handles; h && r == 0; h = h->next)
		if (h->w.target == n && writer_pending(&h->w))
			r = writer_commit(&h->w, true, x, c);
	mutex_unlock(&x->lock);
	return r;
}

int ofile_settle(struct node *n, struct changes *c)
{
	struct node *home = cell_home(n, false);
	struct filex **files;
	size_t count;
	int r;

	if (!home)
		return 0;
	r = handle_files_to(home, &files, &count);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = commit_to(files[i], home, c);
		filex_put(files[i]);
	}
	free(files);
	node_put(home);
	return r;
}
