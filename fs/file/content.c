/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a content's bytes in the daemon (content.h): writes, appends, cuts.
 * commit.c stores them.
 */
#include "fs/file/content.h"

#include <errno.h>
#include <stdlib.h>

void content_init(struct content *content)
{
	*content = (struct content){.cut = UINT64_MAX, .time = TFS_NO_TIME};
	stage_init(&content->image);
	stage_init(&content->tail);
}

void content_fini(struct content *content)
{
	stage_fini(&content->image);
	stage_fini(&content->tail);
	free(content->caller);
	content->caller = NULL;
}

void content_set_target(struct content *content, struct node *target)
{
	mutex_lock(tree_mutex());
	content_set_target_locked(content, target);
	mutex_unlock(tree_mutex());
}

void content_renew(struct content *content)
{
	content_fini(content);
	mutex_lock(tree_mutex());
	content_set_target_locked(content, NULL);
	content_init(content);
	mutex_unlock(tree_mutex());
}

void content_begin_whole(struct content *content)
{
	content_discard(content);
	content->holds = IMAGE_WHOLE;
	content->staged = STAGED_CREATION;
	content->error = 0;
	content->touched_us = fs_now_us();
}

uint64_t content_size(const struct content *content)
{
	uint64_t size = content->cut != UINT64_MAX ? content->cut : content->base_size;

	if (content->holds != IMAGE_RANGES || content->image.size > size)
		size = content->image.size;
	return size + content->tail.size;
}

void content_discard(struct content *content)
{
	stage_reset(&content->image);
	stage_reset(&content->tail);
	content->staged = STAGED_NOTHING;
	content->has_room = false;
	content->cut = UINT64_MAX;
}

int content_failed(struct content *content, int err)
{
	content->error = err;
	stage_reset(&content->image);
	stage_reset(&content->tail);
	return err;
}

/*
 * Writes to a content with appended bytes.  The part above the append's offset
 * changes the tail, because a commit may append the tail at another offset.
 */
static int write_around_tail(struct content *content, uint64_t offset, const uint8_t *p, size_t n)
{
	uint64_t at = content_size(content) - content->tail.size;
	size_t below = offset >= at ? 0 : n < at - offset ? n : (size_t)(at - offset);
	int err = 0;

	if (offset > TFS_VALUE_MAX || n > TFS_VALUE_MAX - offset)
		return -EFBIG;
	if (below)
		err = stage_write(&content->image, offset, p, below);
	if (err == 0 && n > below)
		err = stage_write(&content->tail, offset + below - at, p + below, n - below);
	return err;
}

int content_write(struct content *content, uint64_t offset, const void *p, size_t n, bool append)
{
	int err;

	if (content->error)
		return content->error;
	if (n == 0)
		return 0;
	if (content->holds == IMAGE_WHOLE) /* needs no span, because a commit writes the whole image */
		err = stage_load(&content->image, append ? content->image.size : offset, p, n);
	else if (append)
		err = content_size(content) + n > TFS_VALUE_MAX ? -EFBIG : stage_write(&content->tail, content->tail.size, p, n);
	else if (content->tail.size)
		err = write_around_tail(content, offset, p, n);
	else
		err = stage_write(&content->image, offset, p, n);
	if (err)
		return content_failed(content, err);
	content->staged = STAGED_BYTES;
	content->touched_us = fs_now_us();
	return 0;
}

int content_truncate(struct content *content, uint64_t size)
{
	static const uint8_t zero;
	int err = 0;

	if (content->error)
		return content->error;
	if (size > TFS_VALUE_MAX)
		return content_failed(content, -EFBIG);
	if (content->tail.size) {
		uint64_t at = content_size(content) - content->tail.size;

		if (size > at)
			err = stage_truncate(&content->tail, size - at);
		else
			stage_reset(&content->tail);
		if (err || size >= at)
			goto out;
	}
	if (content->holds != IMAGE_RANGES || size < content->image.size)
		err = stage_truncate(&content->image, size);
	if (content->holds == IMAGE_WHOLE || err)
		goto out;
	if (content->cut == UINT64_MAX || size <= content->cut) {
		content->cut = size;
	} else if (size > 0 && (content->image.span_count == 0 || content->image.spans[content->image.span_count - 1].end < size)) {
		/*
		 * An extension after a cut.  `cut` keeps the smaller size, so a
		 * zero byte at the end extends the file.
		 */
		err = stage_write(&content->image, size - 1, &zero, 1);
	}
out:
	if (err)
		return content_failed(content, err);
	content->staged = STAGED_BYTES;
	content->touched_us = fs_now_us();
	return 0;
}

int content_read(struct content *content, uint64_t offset, void *p, size_t n, size_t *got)
{
	size_t a = 0, b = 0;
	int err;

	err = stage_read(&content->image, offset, p, n, &a);
	if (err == 0 && a < n && content->tail.size && offset + a >= content->image.size)
		err = stage_read(&content->tail, offset + a - content->image.size, (uint8_t *)p + a, n - a, &b);
	if (err == 0)
		*got = a + b;
	return err;
}

void content_set_target_locked(struct content *content, struct node *target)
{
	struct node *old = content->target;

	if (target)
		target->refs++;
	content->target = target;
	if (old)
		node_put_locked(old);
}
