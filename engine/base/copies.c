/* SPDX-License-Identifier: Apache-2.0 */
/* Files of two copies (copies.h). */
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>

int copies_add(struct buf *out, size_t from)
{
	size_t n = out->n - from, pad = copies_apart(n) - n;

	if (!n)
		return 0;
	if (buf_reserve(out, pad + n))
		return -ENOMEM;
	memset(out->p + out->n, 0, pad);
	memcpy(out->p + out->n + pad, out->p + from, n);
	out->n += pad + n;
	return 0;
}

size_t copies_length(size_t file_bytes)
{
	size_t second = copies_apart((file_bytes + 1) / 2);

	return file_bytes > second && copies_apart(file_bytes - second) == second ? file_bytes - second : 0;
}

struct tfs_bytes copies_get(struct tfs_bytes file, unsigned which, copy_length_fn *length)
{
	for (size_t at = which ? COPIES_APART : 0; at < file.n; at += COPIES_APART) {
		size_t n = length(tfs_bytes_of(file.p + at, file.n - at));

		if (n && (!which || copies_apart(n) == at))
			return tfs_bytes_of(file.p + at, n);
		if (!which)
			break;
	}
	return (struct tfs_bytes){0};
}

/* Reads page by page.  A page that cannot be read is zeros. */
static int read_pages(struct file *f, size_t bytes, struct buf *out, bool *holes)
{
	int err = 0;

	for (size_t at = 0, n; at < bytes && !err; at += n) {
		size_t got = 0;

		n = bytes - at < COPIES_APART ? bytes - at : COPIES_APART;
		err = file_pread(f, out->p + out->n, n, at, &got);
		if (err == -EIO) {
			*holes = true;
			err = 0;
			got = 0;
		}
		memset(out->p + out->n + got, 0, n - got);
		out->n += n;
	}
	return err;
}

int copies_read(const char *path, size_t limit, struct buf *out, bool *holes)
{
	struct file *f = NULL;
	uint64_t bytes = 0;
	size_t got = 0, n;
	int err = file_open(path, FILE_READ, &f);

	*holes = false;
	if (!err)
		err = file_size(f, &bytes);
	n = bytes < limit ? (size_t)bytes : limit;
	if (!err)
		err = buf_reserve(out, n);
	if (!err)
		err = file_pread(f, out->p + out->n, n, 0, &got);
	if (err == -EIO && f)
		err = read_pages(f, n, out, holes);
	else if (!err)
		out->n += got;
	file_close(f);
	return err;
}

bool copies_whole(struct tfs_bytes file, size_t n)
{
	if (n == 0 || file.n != copies_apart(n) + n || memcmp(file.p, file.p + copies_apart(n), n))
		return false;
	for (size_t i = n; i < copies_apart(n); i++)
		if (file.p[i])
			return false;
	return true;
}

void copies_rewrite(const char *path, struct tfs_bytes file)
{
	int err = file_replace(path, file);

	msg_count_damage();
	if (err)
		msg_warning("%s: one of its two copies is damaged and cannot be written again: %s", path, strerror(-err));
	else
		msg_warning("%s: one of its two copies was damaged; written again from the other", path);
}
