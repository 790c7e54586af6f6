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

/* Of n bytes the second copy begins at a multiple of 4 KiB, and is shorter than that by less than 4 KiB. */
struct slice copies_get(struct slice file, unsigned which)
{
	size_t second = copies_apart((file.n + 1) / 2);

	if (file.n <= second || copies_apart(file.n - second) != second)
		return (struct slice){0};
	return which ? slice_of(file.p + second, file.n - second) : slice_of(file.p, file.n - second);
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

	if (err)
		msg_warning("%s: one of its two copies is damaged and cannot be written again: %s", path, strerror(-err));
	else
		msg_warning("%s: one of its two copies was damaged; written again from the other", path);
}
