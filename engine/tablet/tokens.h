/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mutations that clients may repeat, with their results: so none is applied
 * twice.  One struct tokens belongs to one tablet.
 *
 * A client numbers its mutations.  Each has the lowest number whose answer the
 * client has not received.  A mutation with a known number gets the stored
 * result.  Numbers below the lowest one are forgotten; a mutation with such a
 * number fails.
 *
 * Bounds: TOKENS_CLIENTS clients of the owner of the store, and as many of all other users
 * together, TOKENS_SHARE of each.  The mutation of one more client fails with -EAGAIN until
 * a client leaves or expires.  A merge may exceed this, and clients of replay and METADATA
 * do not count, because a client that was forgotten could repeat a mutation, and it would
 * be applied twice. TOKENS_BYTES bytes; then the oldest results are forgotten, and a
 * repetition of their mutations fails with -MUTATION_ANSWERED.  It also fails if METADATA's
 * column had no space for the result (TOKENS_STORED bytes, and at least one number of each
 * client), after the tablet was loaded again.  A client expires when its last mutation is
 * older than
 * 2 * CLIENT_TIME_US, because no copy of a request is under way for that long.  now_us is of
 * clock_limited: a clock that was set forward must not expire them before a heartbeat shows
 * that it is wrong.
 *
 * Threads: one at a time (the tablet's lock).
 */
#ifndef TFS_TABLET_TOKENS_H
#define TFS_TABLET_TOKENS_H

#include <bsd/sys/queue.h>

#include "engine/tablet/tablet.h"

#define TOKENS_CLIENTS 2048u
#define TOKENS_SHARE (TOKENS_CLIENTS / 4)
#define TOKENS_BYTES (4u << 20) /* the results of TS_ROWS_UNDER_WAY mutations of 12 clients */
#define TOKENS_STORED (64u << 10)

struct token_client;
struct token {
	struct op_token id;
	uint64_t seq;           /* first sequence number of its cells; 0: it has none */
	struct buf result;      /* tokens_format.h */
	bool decided;           /* result is the answer */
	bool running;           /* a thread uses it, so it is not freed */
	bool stored;            /* METADATA has it */
	struct token_client *c; /* not owned */
	TAILQ_ENTRY(token) of_client, of_all;
};
TAILQ_HEAD(token_list, token);
struct tokens {
	struct token_client *clients; /* by id */
	struct token_list oldest;     /* the decided ones, in the order of their decisions */
	size_t bytes;                 /* the bytes of the decided tokens */
	int64_t expired_us;           /* time of the last look for expired clients */
};
void tokens_init(struct tokens *t);
void tokens_fini(struct tokens *t);

/*
 * Begins a mutation. peer: the user whose client this is; 0: the store's owner.  Returns
 * 0 and *out, which the caller must pass to tokens_end; TOKENS_KNOWN and *out: it was
 * decided before, and *out has the result, as long as no other function is called;
 * -MUTATION_ANSWERED: forgotten; -EAGAIN: it is under way, or there are too many clients;
 * -EINVAL; -ENOMEM.
 */
enum { TOKENS_KNOWN = 1 };
int tokens_begin(struct tokens *t, const struct op_token *token, uint64_t peer, int64_t now_us, struct token **out) TFS_MUST;
/* x->result is the answer from now on. */
void tokens_decide(struct tokens *t, struct token *x);
/* Ends the use of x by its thread.  Forgets it if it was not decided. */
void tokens_end(struct tokens *t, struct token *x);
/* The client has left: no copy of its mutations is under way. */
void tokens_forget(struct tokens *t, uint64_t client);
/* Adds a decided mutation of the log.  us: its time of commit. */
int tokens_replay(struct tokens *t, const struct op_token *token, uint64_t seq, struct tfs_bytes result, int64_t us) TFS_MUST;

/*
 * The form in METADATA: struct tablet_token.  A token with an empty result
 * states that the client's numbers up to its own are forgotten.
 */
int tokens_load(struct tokens *t, const struct tablet_token *v, unsigned count, int64_t now_us) TFS_MUST;
/*
 * Sets *out to the tokens that METADATA must have if it has all cells up to
 * seq; the caller calls tablet_tokens_free.  They are in the order of client
 * and number.
 */
int tokens_store(struct tokens *t, uint64_t seq, int64_t now_us, struct tablet_token **out, unsigned *count) TFS_MUST;
/* For splits and merges: adds from's decided mutations and forgotten numbers.  After -ENOMEM it may be repeated. */
int tokens_inherit(struct tokens *t, const struct tokens *from) TFS_MUST;

#endif
