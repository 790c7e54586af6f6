/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that several kinds of streams share. */
#include "fs/stream/stream.h"

#include "fs/base/reply.h"
#include "fs/file/cell.h"

#include <errno.h>

void unread_trim(struct unread *u, size_t n)
{
	size_t left = u->text.n - u->at;

	if (left >= n)
		return;
	if (left)
		memmove(u->text.p, u->text.p + u->at, left);
	u->text.n = left;
	u->begin += u->at;
	u->at = 0;
}

void unread_reset(struct unread *u)
{
	buf_reset(&u->text);
	u->at = 0;
	u->begin = 0;
}

bool unread_seek(struct unread *u, uint64_t offset)
{
	if (offset < u->begin || offset - u->begin > u->at)
		return false;
	u->at = (size_t)(offset - u->begin);
	return true;
}

size_t unread_take(struct unread *u, void *to, size_t n)
{
	size_t left = u->text.n - u->at;

	if (n > left)
		n = left;
	if (n)
		memcpy(to, u->text.p + u->at, n);
	u->at += n;
	return n;
}

int stream_attr(struct node *n, mode_t mode, int64_t us, struct stat *st)
{
	struct family_info owner = {.mode = mode};
	const struct tfs_schema *s;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	if (mode & 0444)
		owner.mode &= s->mode;
	owner.uid = s->uid;
	owner.gid = s->gid;
	tfs_schema_put(s);
	cell_attr(n, &owner, us, us, 0, st);
	return 0;
}

int stream_exists(struct node *n)
{
	if (!fs.no_open)
		return 0;
	return refuse(-EOPNOTSUPP, n, NULL,
		"a read-only mount has no streams: read .rows of the scan, or unmount and use tabletctl export");
}

int stream_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	if (buf_u8(&r->key, 0)) /* the name becomes a string */
		return -ENOMEM;
	return refuse(-EPERM, dir, (const char *)r->key.p, "control files cannot be removed");
}
