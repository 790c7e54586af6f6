/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that a connection itself needs: HELLO of both sides, and NOTICE.
 */
#ifndef TFS_RPC_HELLO_H
#define TFS_RPC_HELLO_H

#include "engine/rpc/wire.h"

#define HELLO_VERSION 1u
#define HELLO_TEXT_MAX 1024u
#define HELLO_PROGRAM_MAX 256u /* a server keeps this many bytes of "program", with a NUL */

/*
 * In a client's HELLO, store and server are the store and the server that it wants; empty and 0
 * stand for any.  In a server's HELLO they are its own.  A server that refuses sets err and
 * why, and closes the connection.
 */
#define HELLO(F)                                                                                                                   \
	F(VALUE, 1, uint32_t, version)       /* HELLO_VERSION */                                                                   \
	F(VALUE, 2, struct tfs_bytes, store) /* the id of the store (lock/identity.h) */                                           \
	F(VALUE, 3, uint64_t, server)        /* the server's incarnation */                                                        \
	F(VALUE, 4, uint64_t, client)        /* the client's id, which its requests name */                                        \
	F(VALUE, 5, bool, large)             /* the connection is for frames with large bodies */                                  \
	F(VALUE, 7, const char *, program)   /* the client's program, for lists of clients */                                      \
	F(VALUE, 8, int, err)                                                                                                      \
	F(VALUE, 9, const char *, why)                                                                                             \
	F(VALUE, 10, bool, single)  /* the client has no other connection, so this is for all frames */                            \
	F(VALUE, 11, uint32_t, uid) /* if is_user: the user and group that the server takes the client for */                      \
	F(VALUE, 12, uint32_t, gid)                                                                                                \
	F(VALUE, 13, bool, is_user)     /* if not set, the client has a key, and states its users itself */                        \
	F(VALUE, 14, bool, for_others)  /* the server lets the client ask on behalf of other users */                              \
	F(VALUE, 15, bool, squash_root) /* the server treats root as the anonymous user */
struct hello {
	HELLO(WIRE_MEMBER)
};
int hello_pack(const struct hello *h, struct buf *out) TFS_MUST;
/* Borrows from in and arena.  -EBADMSG: malformed, or a text is longer than HELLO_TEXT_MAX. */
int hello_unpack(struct tfs_bytes in, struct arena *arena, struct hello *h) TFS_MUST;

/*
 * The changes of others since the last NOTICE. An empty notice is a beat, which shows that the
 * stream is alive.  The number of its frame is its number in the stream, from 1 on.  The first
 * notice has `all` set.  A peer that may act for other users gets rows, any other peer gets
 * tables. A client sends NOTICE without a body.  With the number 0 it asks for the stream.  With
 * the number of a notice, it confirms that it has dropped all that the notices up to this number
 * name.
 */
#define NOTICE_ROW(F)                                                                                                              \
	F(VALUE, 1, uint32_t, table)       /* the id of a set of tablets, as in requests */                                        \
	F(VALUE, 2, struct tfs_bytes, row) /* the row key as stored; n is 0 for any row */                                         \
	F(VALUE, 3, uint16_t, family)      /* 0: any */
struct notice_row {
	NOTICE_ROW(WIRE_MEMBER)
};
#define NOTICE(F)                                                                                                                  \
	F(ARRAY, 1, notice_row, rows, row_count)                                                                                   \
	F(VALUE, 2, bool, schemas) /* tables and snapshots, or their schemas */                                                    \
	F(VALUE, 3, bool, all)     /* anything */
struct notice {
	NOTICE(WIRE_MEMBER)
};
int notice_pack(const struct notice *n, struct buf *out) TFS_MUST;
int notice_unpack(struct tfs_bytes in, struct arena *arena, struct notice *n) TFS_MUST;

#endif
