/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: how messages travel over a connection (doc/formats).  A frame is a header of
 * FRAME_HEADER bytes and a body:
 *
 *	u32 length of the body, u8 kind and service, u64 number, body
 *
 * Integers are big-endian.  The low four bits of the fifth byte are the kind, the high
 * four bits the service of a REQUEST or an ANSWER, else 0.
 *
 *	HELLO    the first frame of each side; the message of hello.h
 *	REQUEST  an encoded request of the service
 *	ANSWER   its encoded answer, with the request's number, in pieces if it is long
 *	PING no body; the peer answers PONG with the same number
 *	PONG
 *	NOTICE   from a server: a list of changes; the message of hello.h
 *
 * An answer of more than FRAME_PIECE bytes is several frames with one number.  Each
 * frame's header states the length of the rest of the answer, and the frame has the
 * first FRAME_PIECE bytes of the rest.  So the first frame states the whole length.
 * Frames of other numbers may be between them: a long answer delays a short one by
 * a piece of each long answer that waits.
 *
 * The reader has no I/O and accepts any bytes.
 */
#ifndef TFS_RPC_FRAME_H
#define TFS_RPC_FRAME_H

#include "engine/base/bytes.h"

#include <bsd/sys/queue.h>

#define FRAME_HEADER 13u
#define FRAME_HELLO_MAX (16u << 10)
#define FRAME_SMALL_MAX ((1u << 20) + (64u << 10)) /* the longest body on a connection for small frames */
#define FRAME_LARGE_MAX (129u << 20)
/* A longer answer is sent in pieces.  A longer request goes over the connection for large frames, if there may be two. */
#define FRAME_PIECE (64u << 10)

enum frame_kind { FRAME_HELLO = 1, FRAME_REQUEST, FRAME_ANSWER, FRAME_PING, FRAME_PONG, FRAME_NOTICE, FRAME_KINDS };
enum frame_service { FRAME_TABLETS = 1, FRAME_MASTER, FRAME_STORE, FRAME_SERVICES };

struct frame {
	enum frame_kind kind;
	enum frame_service service; /* of REQUEST and ANSWER; else 0 */
	uint64_t number;
	uint32_t length;
	struct buf body;
};

/* Writes a header.  length: of the body, or of the rest of the answer. */
void frame_header(uint8_t header[FRAME_HEADER], enum frame_kind kind, enum frame_service service, uint64_t number, uint32_t length);
/* Returns the number of bytes of the body that the frame with this header has. */
static inline uint32_t frame_piece(enum frame_kind kind, uint32_t length)
{
	return kind == FRAME_ANSWER && length > FRAME_PIECE ? FRAME_PIECE : length;
}

/* An answer of which some pieces have arrived. */
struct frame_part {
	LIST_ENTRY(frame_part) link;
	struct frame frame; /* its length is the length of the rest */
};

/* A frame of which some bytes have arrived.  {.most = N} is an empty one, for bodies of at most N bytes. */
struct frame_reader {
	uint32_t most;
	bool joins; /* set by a client: answers in pieces may come */
	uint8_t header[FRAME_HEADER];
	uint32_t have; /* bytes of the header */
	bool admitted; /* the caller has reserved memory for this large body */
	struct frame frame;
	size_t end; /* the body's size with this frame */
	LIST_HEAD(, frame_part) parts;
};
void frame_reader_fini(struct frame_reader *r);
/*
 * Moves bytes of *in to the frame.  Returns 1 if the frame, or an answer in pieces, is whole: r->frame has it, the
 * caller takes its body, and the next call begins the next frame.  Returns 0 if all bytes were used, and 2 if the
 * body is also longer than FRAME_SMALL_MAX: then the caller reserves memory and sets r->admitted before it passes
 * more bytes.
 * Memory for the body grows with the bytes that have arrived, so a header alone costs
 * nothing.  Returns -EBADMSG for an unknown kind or service and for a piece that does not continue its answer,
 * -EMSGSIZE if the body is too long, or -ENOMEM.
 */
int frame_read(struct frame_reader *r, struct tfs_bytes *in) TFS_MUST;
/* Returns true if a header is whole and its body is not. */
static inline bool frame_in_body(const struct frame_reader *r)
{
	return r->have == FRAME_HEADER;
}
static inline bool frame_begun(const struct frame_reader *r)
{
	return r->have != 0;
}

#endif
