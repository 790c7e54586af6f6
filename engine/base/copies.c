/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>

int copies_add(struct buf *out, size_t from)
{
	size_t n = out->n - from, pad = copies_apart(n) - n;

	if (buf_reserve(out, pad + n))
		return -ENOMEM;
	memset(out->p + out->n, 0, pad);
	memcpy(out->p + out->n + pad, out->p + from, n);
	out->n += pad + n;
	return 0;
}

/* The second copy begins at a multiple of 4 KiB, and that offset exceeds its length by less than 4 KiB. */
struct slice copies_get(struct slice file, unsigned which)
{
	size_t second = copies_apart((file.n + 1) / 2);

	if (file.n <= second || copies_apart(file.n - second) != second)
		return (struct slice){0};
	return which ? slice_of(file.p + second, file.n - second) : slice_of(file.p, file.n - second);
}

int copies_read(const char *path, size_t limit, struct buf *out, bool *holes)
{
	struct file *f = NULL;
	uint64_t bytes = 0;
	int err = file_read_all(path, limit, out);

	*holes = false;
	if (err != -EIO || file_open(path, FILE_READ, &f))
		return err;
	err = file_size(f, &bytes);
	if (!err && bytes > limit)
		err = -EFBIG;
	if (!err)
		err = buf_reserve(out, (size_t)bytes);
	for (uint64_t at = 0, n; at < bytes && !err; at += n) {
		size_t got = 0;

		n = bytes - at < COPIES_APART ? bytes - at : COPIES_APART;
		err = file_pread(f, out->p + out->n, (size_t)n, at, &got);
		if (err == -EIO) {
			*holes = true;
			err = 0;
			got = 0;
		}
		memset(out->p + out->n + got, 0, (size_t)n - got);
		out->n += (size_t)n;
	}
	file_close(f);
	return err;
}

bool copies_whole(struct slice file, size_t n)
{
	if (n == 0 || file.n != copies_apart(n) + n || memcmp(file.p, file.p + copies_apart(n), n))
		return false;
	for (size_t i = n; i < copies_apart(n); i++)
		if (file.p[i])
			return false;
	return true;
}

void copies_rewrite(const char *path, struct slice file)
{
	int err = file_replace(path, file);

	msg_count_damage();
	if (err)
		msg_warning("%s: one of its two copies is damaged and cannot be written again: %s", path, strerror(-err));
	else
		msg_warning("%s: one of its two copies was damaged; written again from the other", path);
}
