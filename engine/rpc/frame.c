/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of frames are written and read, and bodies and answers in pieces collected (frame.h). */
#include "engine/rpc/frame.h"

#include <errno.h>
#include <stdlib.h>

void frame_header(uint8_t h[FRAME_HEADER], enum frame_kind kind, enum frame_service service, uint64_t number, uint32_t length)
{
	put_be32(h, length);
	h[4] = (uint8_t)(kind | service << 4);
	put_be64(h + 5, number);
}

/* Takes the body of an answer whose first pieces have arrived. */
static int part_continue(struct frame_reader *r)
{
	struct frame *f = &r->frame;
	struct frame_part *p;
	bool same;

	if (f->length > FRAME_PIECE && !r->joins)
		return -EBADMSG;
	LIST_FOREACH (p, &r->parts, link)
		if (p->frame.number == f->number)
			break;
	if (!p)
		return 0;
	same = p->frame.service == f->service && p->frame.length == f->length;
	if (!same)
		return -EBADMSG;
	f->body = p->frame.body;
	LIST_REMOVE(p, link);
	free(p);
	return 0;
}

/* Keeps the pieces of an answer until the next one comes. */
static int part_keep(struct frame_reader *r)
{
	struct frame_part *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->frame = r->frame;
	p->frame.length -= FRAME_PIECE;
	LIST_INSERT_HEAD(&r->parts, p, link);
	r->frame.body = (struct buf){0};
	return 0;
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
	if (kind == FRAME_ANSWER) {
		int err = part_continue(r);

		if (err)
			return err;
	}
	r->end = f->body.n + frame_piece(f->kind, f->length);
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

/* Reads one frame as frame_read() does.  Returns 1 if it is whole. */
static int read_one(struct frame_reader *r, struct tfs_bytes *in)
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
		if (err) {
			r->have = 0; /* no body follows such a header */
			return err;
		}
	}
	part = take(in, r->end - r->frame.body.n);
	err = part.n ? buf_append_bytes(&r->frame.body, part) : 0;
	if (err)
		return err;
	if (r->frame.body.n < r->end)
		return frame_piece(r->frame.kind, r->frame.length) > FRAME_SMALL_MAX && !r->admitted ? 2 : 0;
	r->admitted = false;
	return 1;
}

int frame_read(struct frame_reader *r, struct tfs_bytes *in)
{
	int got = read_one(r, in), err;

	while (got == 1 && frame_piece(r->frame.kind, r->frame.length) < r->frame.length) {
		err = part_keep(r);
		if (err)
			return err;
		r->have = 0;
		got = read_one(r, in);
	}
	if (got != 1)
		return got;
	r->frame.length = (uint32_t)r->frame.body.n;
	r->have = 0;
	return 1;
}

void frame_reader_fini(struct frame_reader *r)
{
	struct frame_part *p;

	if (r->have == FRAME_HEADER)
		buf_fini(&r->frame.body);
	r->have = 0;
	while ((p = LIST_FIRST(&r->parts)) != NULL) {
		LIST_REMOVE(p, link);
		buf_fini(&p->frame.body);
		free(p);
	}
}
