/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope of tablet.proto: a message and its tail of byte strings.
 * Packing: fill a message, collecting byte strings with tail_put in the
 * order of its fields, then wire_close.  Unpacking: wire_open, then tail_get
 * in the same order, then tail_done.
 */
#ifndef TFS_RPC_WIRE_H
#define TFS_RPC_WIRE_H

#include "engine/base/bytes.h"

#include <protobuf-c/protobuf-c.h>

/* Byte strings are borrowed until wire_close. */
struct tail {
	struct slice *v;
	size_t count, cap;
	bool no_memory;
};
uint64_t tail_put(struct tail *t, struct slice s); /* the *_size: 0 for NULL */
/* Appends the envelope; frees t's memory, on failure too. */
int wire_close(struct tail *t, const ProtobufCMessage *m, struct buf *out) TFS_MUST;

/*
 * Decodes the message, everything in the arena; -EBADMSG, -ENOMEM.  Unknown
 * fields anywhere are malformed.  *tail: what follows it, borrowed.
 */
int wire_open(struct slice in, const ProtobufCMessageDescriptor *d, struct arena *arena, ProtobufCMessage **m,
	struct reader *tail) TFS_MUST;
/* The byte string that size tells of, borrowed from the input. */
bool tail_get(struct reader *tail, uint64_t size, struct slice *v);
/* The same as a C string in the arena (NULL for none); a NUL inside is malformed.  -EBADMSG, -ENOMEM. */
int tail_get_string(struct reader *tail, uint64_t size, struct arena *arena, const char **s) TFS_MUST;
/* All of the tail was used and nothing was wrong. */
static inline bool tail_done(const struct reader *tail)
{
	return !tail->bad && reader_left(tail) == 0;
}

/*
 * For the round trips of debug builds: what has been done must not be
 * answered with an error because its answer found no memory.  True: rc says
 * so, and after a short wait it may be tried again.
 */
bool wire_again(int rc, unsigned *tries);

#endif
