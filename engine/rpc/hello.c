/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO and NOTICE as bytes. */
#include "engine/rpc/hello.h"

#include <errno.h>
#include <string.h>

static bool hello_valid(const void *m)
{
	const struct hello *h = m;

	return wire_errno_valid(h->err) && (!h->why || strlen(h->why) <= HELLO_TEXT_MAX) &&
		(!h->program || strlen(h->program) <= HELLO_TEXT_MAX);
}

WIRE_MESSAGE(hello, HELLO, hello_valid)
WIRE_MESSAGE(notice_row, NOTICE_ROW, NULL)
WIRE_MESSAGE(notice, NOTICE, NULL)

static int unpack(struct tfs_bytes in, const struct wire_message *m, struct arena *arena, void *to)
{
	struct reader r = reader_of(in);
	int err = wire_unpack(&r, m, arena, to);

	return err ? err : reader_left(&r) ? -EBADMSG : 0;
}

int hello_pack(const struct hello *h, struct buf *out)
{
	return wire_pack(hello_wire(), h, out);
}

int hello_unpack(struct tfs_bytes in, struct arena *arena, struct hello *h)
{
	return unpack(in, hello_wire(), arena, h);
}

int notice_pack(const struct notice *n, struct buf *out)
{
	return wire_pack(notice_wire(), n, out);
}

int notice_unpack(struct tfs_bytes in, struct arena *arena, struct notice *n)
{
	return unpack(in, notice_wire(), arena, n);
}
