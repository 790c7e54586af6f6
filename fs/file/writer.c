/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a content: loaded, written, cut and appended.
 */
#include "fs/file/writer.h"

#include <errno.h>
#include <stdlib.h>

void writer_init(struct writer *w)
{
	*w = (struct writer){.cut = UINT64_MAX, .time = TFS_NO_TIME};
	stage_init(&w->image);
	stage_init(&w->tail);
}

void writer_fini(struct writer *w)
{
	stage_fini(&w->image);
	stage_fini(&w->tail);
	free(w->caller);
	w->caller = NULL;
}

void writer_aim(struct writer *w, struct node *target)
{
	mutex_lock(tree_mutex());
	writer_aim_locked(w, target);
	mutex_unlock(tree_mutex());
}

void writer_renew(struct writer *w)
{
	writer_fini(w);
	mutex_lock(tree_mutex());
	writer_aim_locked(w, NULL);
	writer_init(w);
	mutex_unlock(tree_mutex());
}

void writer_begin_whole(struct writer *w)
{
	stage_reset(&w->image);
	stage_reset(&w->tail);
	w->holds = IMAGE_WHOLE;
	w->staged = STAGED_CREATION;
	w->error = 0;
	w->cut = UINT64_MAX;
	w->touched_us = fs_now_us();
}

uint64_t writer_size(const struct writer *w)
{
	uint64_t size = w->base_size;

	if (w->holds != IMAGE_RANGES)
		return w->image.size + w->tail.size;
	if (w->cut != UINT64_MAX)
		size = w->cut;
	if (w->image.size > size)
		size = w->image.size;
	return size + w->tail.size;
}

void writer_discard(struct writer *w)
{
	stage_reset(&w->image);
	stage_reset(&w->tail);
	w->staged = STAGED_NOTHING;
	w->cut = UINT64_MAX;
}

int writer_failed(struct writer *w, int r)
{
	w->error = r;
	stage_reset(&w->image);
	stage_reset(&w->tail);
	return r;
}

/* Bytes in the range that was appended belong to the tail, because a commit may append at another offset. */
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
	if (w->holds == IMAGE_WHOLE)
		r = stage_load(&w->image, append ? w->image.size : offset, p, n); /* a commit writes all of it: no spans */
	else if (append)
		r = writer_size(w) + n > TFS_VALUE_MAX ? -EFBIG : stage_write(&w->tail, w->tail.size, p, n);
	else if (w->tail.size)
		r = write_around_tail(w, offset, p, n);
	else
		r = stage_write(&w->image, offset, p, n);
	if (r)
		return writer_failed(w, r);
	w->staged = STAGED_BYTES;
	w->touched_us = fs_now_us();
	return 0;
}

int writer_truncate(struct writer *w, uint64_t size)
{
	static const uint8_t zero;
	int r = 0;

	if (w->error)
		return w->error;
	if (size > TFS_VALUE_MAX)
		return writer_failed(w, -EFBIG);
	if (w->tail.size) {
		uint64_t at = writer_size(w) - w->tail.size;

		if (size > at)
			r = stage_truncate(&w->tail, size - at);
		else
			stage_reset(&w->tail);
		if (r || size >= at)
			goto out;
	}
	if (w->holds != IMAGE_RANGES || size < w->image.size)
		r = stage_truncate(&w->image, size);
	if (w->holds == IMAGE_WHOLE || r)
		goto out;
	if (w->cut == UINT64_MAX || size <= w->cut) {
		w->cut = size;
	} else if (size > 0 && (w->image.span_count == 0 || w->image.spans[w->image.span_count - 1].end < size)) {
		/* Cut, and extended again: a zero at the end states the size. */
		r = stage_write(&w->image, size - 1, &zero, 1);
	}
out:
	if (r)
		return writer_failed(w, r);
	w->staged = STAGED_BYTES;
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

void writer_aim_locked(struct writer *w, struct node *target)
{
	struct node *old = w->target;

	if (target)
		target->refs++;
	w->target = target;
	if (old)
		node_put_locked(old);
}
