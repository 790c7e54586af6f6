/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: plain names in a family of type counter (counter.h).  A commit adds
 * the lines that are staged, and then drops them from the image, so that each
 * line is added once, however often the descriptor is flushed.  `origin` is the
 * offset in the file at which the image begins.  A write below it begins a new
 * text, so a program may keep a descriptor and write each line at offset 0.  A
 * number counts at offset 0 only: after lines that have been added it would be
 * a part of a line that was flushed before its end.
 *
 * The image of a descriptor that was opened without O_TRUNC is the file: the stored
 * number and a newline (plain_file_size).
 * Lines that are written then, appended or not, replace that image, because they
 * are no part of the number.
 *
 * At a flush a last line without a newline is added if it is complete.  A
 * beginning of a line stays staged until release.
 */
#include "fs/file/counter.h"

#include "fs/base/reply.h"

#include <errno.h>

#define CHECKED_BYTES 4096 /* a longer text is checked at its commit */

static const char refusal[] = "a counter is written as one decimal number, or as lines +=N or -=N";

static int text_parse(struct content *content, struct counter_change *out)
{
	struct tfs_bytes text;
	int err = stage_bytes(&content->image, &text);

	if (err)
		return err;
	if (text.n == 0) {
		*out = (struct counter_change){.sets = content->origin == 0};
		return 0;
	}
	err = counter_change_parse(text, out);
	return err == 0 && out->sets && content->origin > 0 ? -EINVAL : err;
}

int counter_write(struct content *content, uint64_t offset, struct tfs_bytes bytes, bool append)
{
	const bool adds = bytes.n && (bytes.p[0] == '+' || (bytes.n > 1 && bytes.p[0] == '-' && bytes.p[1] == '='));
	const bool written = content->staged == STAGED_BYTES;
	struct counter_change change;
	int err;

	if (content->error)
		return content->error;
	if (!append && offset < content->origin && written)
		return content_failed(content, refuse(-EINVAL, content->target, NULL, "written out of order"));
	if ((adds && !written) || (!append && offset < content->origin)) {
		stage_reset(&content->image);
		content->origin = offset;
	}
	err = content_write(content, append ? offset : offset - content->origin, bytes.p, bytes.n, append);
	if (err || content->image.size > CHECKED_BYTES)
		return err;
	err = text_parse(content, &change);
	if (err < 0)
		return content_failed(content, refuse(err, content->target, NULL, "%s", refusal));
	return 0;
}

int counter_truncate(struct content *content, uint64_t size)
{
	if (size >= content->origin && content->origin)
		return content_truncate(content, size - content->origin);
	content->origin = 0;
	return content_truncate(content, size);
}

int counter_staged(struct content *content, bool last, struct counter_change *out)
{
	int err = text_parse(content, out);

	if (err > 0 && !last)
		return 1;
	return err ? refuse(err > 0 ? -EINVAL : err, content->target, NULL, "%s", refusal) : 0;
}

void counter_added(struct content *content)
{
	content->origin += content->image.size;
	stage_reset(&content->image);
	content->staged = STAGED_NOTHING;
	content->committed = false;
}
