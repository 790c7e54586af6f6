/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of frames are written and read, and bodies collected (frame.h). */
#include "engine/rpc/frame.h"

#include <errno.h>

void frame_header(uint8_t h[FRAME_HEADER], enum frame_kind kind, enum frame_service service, uint64_t number, uint32_t length)
{
	put_be32(h, length);
	h[4] = (uint8_t)(kind | service << 4);
	put_be64(h + 5, number);
}

static int header_decode(struct frame_reader *r)
{
	struct frame *f = &r->frame;
	const uint8_t kind = r->header[4] & 15, service = r->header[4] >> 4;
	const bool carries = kind == FRAME_REQUEST || kind == FRAME_ANSWER;

	if (!kind || kind >= FRAME_KINDS || service >= FRAME_SERVICES || carries != (service != 0))
		return -EBADMSG;
	f->length = load_be32(r->header);
	if (f->length > r->most)
		return -EMSGSIZE;
	f->kind = (enum frame_kind)kind;
	f->service = (enum frame_service)service;
	f->number = load_be64(r->header + 5);
	f->body = (struct buf){0};
	return 0;
}

/* Takes at most n bytes of *in. */
static struct tfs_bytes take(struct tfs_bytes *in, size_t n)
{
	struct tfs_bytes part = {in->p, in->n < n ? in->n : n};

	in->p += part.n;
	in->n -= part.n;
	return part;
}

int frame_read(struct frame_reader *r, struct tfs_bytes *in)
{
	struct tfs_bytes part;
	int err;

	if (r->have < FRAME_HEADER) {
		part = take(in, FRAME_HEADER - r->have);
		if (part.n)
			memcpy(r->header + r->have, part.p, part.n);
		r->have += (uint32_t)part.n;
		if (r->have < FRAME_HEADER)
			return 0;
		err = header_decode(r);
		if (err)
			return err;
	}
	part = take(in, r->frame.length - r->frame.body.n);
	err = part.n ? buf_append_bytes(&r->frame.body, part) : 0;
	if (err)
		return err;
	if (r->frame.body.n < r->frame.length)
		return r->frame.length > FRAME_SMALL_MAX && !r->admitted ? 2 : 0;
	r->have = 0;
	r->admitted = false;
	return 1;
}

void frame_reader_fini(struct frame_reader *r)
{
	if (r->have == FRAME_HEADER)
		buf_fini(&r->frame.body);
	r->have = 0;
}
