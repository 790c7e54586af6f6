/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the reports of changes by the servers of a cluster to one stream for a client (client_changed).
 *
 * Each server reports the changes that it carries out.  A client needs the
 * streams of the servers that it has reached, because it keeps data that it has
 * read there.  A tablet leaves a server only after the server has reported
 * that, or has died, which ends its stream.  While one of these streams is
 * missing or silent, changes are unknown and nothing is kept.  A server that
 * has ended is not needed any more.
 *
 * Threads: any.
 */
#ifndef TFS_TELLERS_H
#define TFS_TELLERS_H

#include "engine/rpc/channel.h"

struct tfs_store;
struct tellers;
struct teller;
struct tellers_options {
	uint64_t coherence_us; /* a server that was silent for this time counts as not heard */
	/* Asks which servers there are; then has is called.  Called by a thread of this part. */
	int (*ask)(void *arg);
	bool (*has)(void *arg, uint64_t incarnation);
	/* The server has ended: its channel is not used any more. */
	void (*ended)(void *arg, uint64_t incarnation);
	void *arg;
};
int tellers_new(const struct tellers_options *o, struct tellers **out) TFS_MUST;
/* Ends the thread.  The channels must not call tellers_changed any more before the next function frees them. */
void tellers_stop(struct tellers *s);
void tellers_free(struct tellers *s);
/*
 * Adds a server before its first request.  The server that gets the requests without a tablet has
 * the number 0.  Returns NULL if out of memory.
 */
struct teller *tellers_add(struct tellers *s, uint64_t incarnation);
/* Its channel, before the first request.  Borrowed until tellers_stop. */
void tellers_made(struct teller *t, struct channel *c);
/* A function of struct channel_options; arg: a struct teller. */
void tellers_changed(void *teller, const struct tfs_bytes *notice, uint64_t number);
/* From now on changes are reported to the store. */
int tellers_watch(struct tellers *s, struct tfs_store *store) TFS_MUST;
/* The store has dropped everything that the notices up to this number name. */
void tellers_heard(struct tellers *s, uint64_t notice);

#endif
