/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit is one tfs_write in one mutation.  In order of what it says: the
 * base (nothing; the newest version; the version itself), cut or extended;
 * ranges; appended bytes; where the result goes.  The engine judges it under
 * the row's lock, so two appenders, or a writer and a remover, cannot lose
 * each other's bytes here.
 *
 * Later commits of one writer ask to replace the version of the first, which
 * the engine grants while that is still the newest.
 *
 * In .latest a set time wins over order: the version goes exactly there and
 * those above it are deleted in the same mutation.
 */
#include "fs/file/writer.h"

#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

#define READ_AT_ONCE (1u << 20)

void writer_init(struct writer *w)
{
	*w = (struct writer){.cut = UINT64_MAX};
	stage_init(&w->image);
	stage_init(&w->tail);
}

void writer_fini(struct writer *w)
{
	stage_fini(&w->image);
	stage_fini(&w->tail);
	free(w->who);
	w->who = NULL;
}

void writer_begin_whole(struct writer *w)
{
	stage_reset(&w->image);
	stage_reset(&w->tail);
	w->whole = w->fresh = true;
	w->dirty = w->dead = false;
	w->error = 0;
	w->cut = UINT64_MAX;
	w->touched_us = fs_now_us();
}

uint64_t writer_size(const struct writer *w)
{
	uint64_t size = w->base_size;

	if (w->whole || w->loaded)
		return w->image.size + w->tail.size;
	if (w->cut != UINT64_MAX)
		size = w->cut;
	if (w->image.size > size)
		size = w->image.size;
	return size + w->tail.size;
}

static int failed(struct writer *w, int r)
{
	w->error = r;
	stage_reset(&w->image);
	stage_reset(&w->tail);
	return r;
}

/* What lies where bytes were appended goes there: they may land elsewhere. */
static int write_around_tail(struct writer *w, uint64_t offset, const uint8_t *p, size_t n)
{
	uint64_t at = writer_size(w) - w->tail.size;
	size_t below = offset >= at ? 0 : n < at - offset ? n : (size_t)(at - offset);
	int r = 0;

	if (offset > TFS_VALUE_MAX || n > TFS_VALUE_MAX - offset)
		return -EFBIG;
	if (below)
		r = stage_write(&w->image, offset, p, below);
	if (r == 0 && n > below)
		r = stage_write(&w->tail, offset + below - at, p + below, n - below);
	return r;
}

int writer_write(struct writer *w, uint64_t offset, const void *p, size_t n, bool append)
{
	int r;

	if (w->error)
		return w->error;
	if (n == 0)
		return 0;
	if (w->whole)
		r = stage_load(&w->image, append ? w->image.size : offset, p, n); /* all of it is written: no spans */
	else if (append)
		r = writer_size(w) + n > TFS_VALUE_MAX ? -EFBIG : stage_write(&w->tail, w->tail.size, p, n);
	else if (w->tail.size)
		r = write_around_tail(w, offset, p, n);
	else
		r = stage_write(&w->image, offset, p, n);
	if (r)
		return failed(w, r);
	w->dirty = true;
	w->touched_us = fs_now_us();
	return 0;
}

int writer_truncate(struct writer *w, uint64_t size)
{
	static const uint8_t zero;
	int r = 0;

	if (w->error && w->keeps && size == 0)
		writer_begin_whole(w); /* scratch: what could not be written is given up */
	if (w->error)
		return w->error;
	if (size > TFS_VALUE_MAX)
		return failed(w, -EFBIG);
	if (w->tail.size) {
		uint64_t at = writer_size(w) - w->tail.size;

		if (size > at)
			r = stage_truncate(&w->tail, size - at);
		else
			stage_reset(&w->tail);
		if (r || size >= at)
			goto out;
	}
	if (w->whole || w->loaded || size < w->image.size)
		r = stage_truncate(&w->image, size);
	if (w->whole || r)
		goto out;
	if (w->cut == UINT64_MAX || size <= w->cut) {
		w->cut = size;
	} else if (size > 0 && (w->image.span_count == 0 || w->image.spans[w->image.span_count - 1].end < size)) {
		/* Cut, then longer again: the last byte says how long. */
		r = stage_write(&w->image, size - 1, &zero, 1);
	}
out:
	if (r)
		return failed(w, r);
	w->dirty = true;
	w->touched_us = fs_now_us();
	return 0;
}

int writer_read(struct writer *w, uint64_t offset, void *p, size_t n, size_t *got)
{
	size_t a = 0, b = 0;
	int r;

	r = stage_read(&w->image, offset, p, n, &a);
	if (r == 0 && a < n && w->tail.size && offset + a >= w->image.size)
		r = stage_read(&w->tail, offset + a - w->image.size, (uint8_t *)p + a, n - a, &b);
	if (r == 0)
		*got = a + b;
	return r;
}

int writer_load(struct writer *w, struct cell_place *p, struct tfs_info *info)
{
	struct tfs_info first, again;
	struct cell_place at = *p;
	uint64_t offset = 0;
	uint8_t *buf;
	size_t n, got;
	int r;

	r = cell_stat(p, &first);
	if (r)
		return r;
	/* One call reads small values whole; the caller holds the row's lock for the others. */
	at.ts = tfs_at(first.ts);
	n = first.size < READ_AT_ONCE ? (size_t)first.size + 1 : READ_AT_ONCE;
	w->image.only_read = w->only_reads ? first.size : 0;
	buf = malloc(n);
	if (!buf)
		return -ENOMEM;
	do {
		r = cell_read(&at, offset, buf, n, &got, &again);
		if (r == -ENOENT && offset == 0 && p->ts.when == TFS_NEWEST) {
			at.ts = p->ts;
			r = cell_read(&at, 0, buf, n, &got, &again);
			if (r == 0)
				at.ts = tfs_at(again.ts);
			first = again;
		}
		if (r == 0)
			r = stage_load(&w->image, offset, buf, got);
		offset += got;
	} while (r == 0 && got > 0 && offset < again.size);
	free(buf);
	if (r)
		return r;
	w->loaded = true;
	w->base_size = again.size;
	*info = again;
	info->ts = at.ts.us;
	return 0;
}

static void settled(struct writer *w, const struct tfs_result *result)
{
	w->committed = true;
	w->commit_ts = result->ts;
	w->dirty = w->fresh = false;
	w->cut = UINT64_MAX;
	w->base_size = result->size;
	if (w->shares) {
		/* From now on only what is written more is its own: others may write too. */
		w->whole = false;
		w->loaded = true;
	}
	if (w->whole)
		return;
	if (w->loaded && w->tail.size) {
		struct slice bytes;
		/* What was appended is now part of the content that this handle reads. */
		if (stage_bytes(&w->tail, &bytes) || stage_load(&w->image, w->image.size, bytes.p, bytes.n))
			w->error = -EIO;
	}
	stage_reset(&w->tail);
	if (w->loaded)
		stage_forget_spans(&w->image);
	else
		stage_reset(&w->image);
}

/* The ranges of the image that were written. */
static int ranges_of(struct writer *w, struct tfs_range **out, unsigned *count)
{
	struct slice bytes;
	struct tfs_range *v;
	int r;

	*out = NULL;
	*count = 0;
	r = stage_bytes(&w->image, &bytes);
	if (r)
		return r;
	if (w->whole) {
		if (bytes.n == 0)
			return 0;
		v = malloc(sizeof(*v));
		if (!v)
			return -ENOMEM;
		v[0] = (struct tfs_range){0, bytes_of(bytes)};
		*count = 1;
	} else {
		if (w->image.span_count == 0)
			return 0;
		v = malloc(w->image.span_count * sizeof(*v));
		if (!v)
			return -ENOMEM;
		for (unsigned i = 0; i < w->image.span_count; i++) {
			struct stage_span s = w->image.spans[i];

			v[i] = (struct tfs_range){s.begin, tfs_bytes_of(bytes.p + s.begin, (size_t)(s.end - s.begin))};
		}
		*count = w->image.span_count;
	}
	*out = v;
	return 0;
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

static void place_write(const struct writer *w, const struct node *target, struct tfs_write *out)
{
	if (target->kind == NODE_VERSION) {
		out->place = tfs_at(target->ts);
	} else if (w->time_set && w->latest) {
		out->place = tfs_at(w->time);
		out->drop_newer = true;
	} else {
		/* What was never written has the time at which it was created or cut, as stat has shown it. */
		int64_t us = w->time_set ? w->time : w->dirty ? TFS_NO_TIME : w->touched_us;

		out->place = (struct tfs_ts){TFS_NEWEST, us};
		out->replace = w->committed;
		out->replace_ts = w->commit_ts;
	}
}

/* After a commit: the listings, the version now there, and the one that moved away. */
static void note_commit(struct writer *w, struct node *target, int64_t ts, bool replaced, struct changes *c)
{
	bool own;

	made_cell_arrived(target->parent);
	if (target->kind == NODE_PLAIN && w->committed && w->commit_ts != ts && replaced)
		cell_changed(c, target->parent, node_key(target), w->commit_ts, true, NULL);
	/*
	 * A version's own writes the kernel knows, size and all, unless it may
	 * also hold pages that they went past.
	 */
	own = target->file && w == &target->file->w && !(target->flags & NODE_PAGED) && !target->file->followers;
	cell_changed(c, target->parent, node_key(target), ts, false, own ? target : NULL);
}

/* The versions that a commit moves or removes: its own earlier one, and in .latest those above the time that was set. */
struct replaced {
	struct versions column;
	struct kept kept;
};

static int replaced_find(const struct writer *w, struct node *target, const struct tfs_write *out, struct replaced *g)
{
	struct slice key = node_key(target);
	int r = 0;

	if (target->kind != NODE_PLAIN)
		return 0;
	if (w->committed)
		r = kept_add(&g->kept, target->parent, key, w->commit_ts, true);
	if (r == 0 && out->drop_newer)
		r = column_versions(target->parent, key, &g->column);
	for (size_t i = 0; i < g->column.n && r == 0; i++)
		if (g->column.ts[i] > out->place.us && !(w->committed && g->column.ts[i] == w->commit_ts))
			r = kept_add(&g->kept, target->parent, key, g->column.ts[i], false);
	return r;
}

/* No file's lock is held. */
static void replaced_note(
	struct writer *w, struct node *target, const struct tfs_result *result, bool dropped, struct replaced *g, struct changes *c)
{
	bool moved = w->committed && w->commit_ts != result->ts && (result->replaced || dropped);

	versions_changed(c, target->parent, node_key(target), &g->column, true);
	note_commit(w, target, result->ts, result->replaced || dropped, c);
	if (target->kind != NODE_PLAIN)
		return;
	if (w->committed)
		kept_moved(&g->kept, target->parent, node_key(target), w->commit_ts, target, moved ? result->ts : w->commit_ts, c);
	kept_end(&g->kept, c);
}

static void replaced_fini(struct replaced *g)
{
	versions_fini(&g->column);
	kept_fini(&g->kept);
}

/* Nothing but a truncation, and another has committed since: 1, else 0, -errno. */
static int truncation_is_over(const struct writer *w, const struct node *target, const struct cell_place *p)
{
	struct tfs_info info;
	int r;

	if (w->dirty || target->kind != NODE_PLAIN)
		return 0;
	r = tfs_stat(p->table, p->row, p->family, p->qualifier, p->ts, &info);
	return r == -ENOENT ? 0 : r ? r : info.ts != w->base_ts;
}

int writer_commit(struct writer *w, struct node *target, bool last, struct filex *x, struct changes *c)
{
	struct cell_place p;
	struct family_info f;
	struct tfs_write out = {.truncate_to = UINT64_MAX};
	struct tfs_range *ranges = NULL, counter_range;
	struct tfs_result result;
	struct replaced gone = {0};
	struct slice tail;
	char number[COUNTER_TEXT_MAX];
	bool drop;
	int r;

	if (w->error)
		return w->error;
	if (w->dead || !node_lives(target)) {
		w->dirty = w->fresh = false;
		w->dead = true;
		return 0;
	}
	if (!w->dirty && !(last && w->fresh))
		return 0;
	cell_place_of(target, &p);
	r = family_info_get(p.family_node, &f);
	if (r) {
		r = refuse(-ESTALE, target, NULL, "the family is gone");
		goto out;
	}
	r = truncation_is_over(w, target, &p);
	if (r > 0) {
		w->fresh = false;
		r = 0;
		goto out;
	}
	if (r) {
		r = refuse_store(r, target, NULL, "not stored");
		goto out;
	}
	out.family = p.family;
	out.qualifier = p.qualifier;
	out.base = w->whole ? TFS_BASE_EMPTY : target->kind == NODE_VERSION ? TFS_BASE_VERSION : TFS_BASE_NEWEST;
	out.base_ts = target->ts;
	out.truncate_to = w->whole ? UINT64_MAX : w->cut;
	place_write(w, target, &out);
	r = ranges_of(w, &ranges, &out.range_count);
	if (r == 0)
		r = stage_bytes(&w->tail, &tail);
	if (r)
		goto out;
	out.ranges = ranges;
	out.append = bytes_of(tail);
	if (f.counter && target->kind == NODE_PLAIN) {
		struct slice text = out.range_count ? slice_from(ranges[0].data) : slice_of(NULL, 0);
		int64_t value = 0;

		if (text.n && counter_parse(text, &value)) {
			r = refuse(-EINVAL, target, NULL, "a counter is written as one decimal number");
			goto out;
		}
		counter_range = (struct tfs_range){0, tfs_bytes_of(number, counter_text(value, number))};
		out.ranges = &counter_range;
		out.range_count = 1;
	}
	drop = out.drop_newer && w->committed && w->commit_ts != w->time;
	w->busy = true;
	mutex_unlock(&x->lock);
	r = replaced_find(w, target, &out, &gone);
	if (r == 0)
		r = apply_write(&p, &out, drop ? &w->commit_ts : NULL, &result);
	if (r == 0)
		replaced_note(w, target, &result, drop, &gone, c);
	mutex_lock(&x->lock);
	w->busy = false;
	cond_broadcast(&x->idle);
	if (r == -ENOENT && target->kind == NODE_VERSION && !w->whole) {
		w->dead = true; /* removed by another */
		w->dirty = false;
		r = 0;
		goto out;
	}
	if (r) {
		r = refuse_store(r, target, NULL, "not stored");
		goto out;
	}
	settled(w, &result);
	if (target->kind == NODE_VERSION) {
		target->size = result.size;
		target->commit_us = result.commit_us;
		target->epoch = table_epoch(target);
	}
out:
	free(ranges);
	replaced_fini(&gone);
	if (r && !w->keeps)
		failed(w, r);
	return r;
}

int writer_retime(struct writer *w, struct node *target, struct changes *c)
{
	struct cell_place p;
	struct tfs_write out = {.truncate_to = UINT64_MAX, .base = TFS_BASE_VERSION, .base_ts = w->commit_ts};
	struct replaced gone = {0};
	struct tfs_result result;
	struct tfs_info newest;
	bool drop;
	int r;

	if (target->kind == NODE_VERSION)
		return 0; /* the name has the time */
	cell_place_of(target, &p);
	r = tfs_stat(p.table, p.row, p.family, p.qualifier, p.ts, &newest);
	if (r)
		return r == -ENOENT ? 0 : refuse_store(r, target, NULL, "its time was not set");
	if (newest.ts != w->commit_ts)
		return 1;
	out.family = p.family;
	out.qualifier = p.qualifier;
	place_write(w, target, &out);
	drop = out.drop_newer && w->commit_ts != w->time;
	if (out.drop_newer && !drop)
		return 0;
	r = replaced_find(w, target, &out, &gone);
	if (r == 0)
		r = apply_write(&p, &out, drop ? &w->commit_ts : NULL, &result);
	if (r == 0)
		replaced_note(w, target, &result, drop, &gone, c);
	replaced_fini(&gone);
	if (r)
		return r == -ENOENT ? 0 : refuse_store(r, target, NULL, "its time was not set");
	w->commit_ts = result.ts;
	return 0;
}
