/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher of a tablet server: carries out the requests that arrive over
 * channels, by bounded pools of workers.  Each class of requests has workers and
 * a queue of its own:
 *
 *	CONTROL   requests that are answered from memory: HELLO, LIST, FILES, BURY,
 *	          BLOCK_WRITES, UNBLOCK_WRITES, SCAN_CLOSE
 *	SORT      SORT: each LOAD may wait for SORT requests at other servers
 *	ROOT      requests for the root tablet, its LOAD and UNLOAD; SEAL
 *	METADATA requests for the other tablets of METADATA, their LOAD and UNLOAD TABLETS LOAD
 *	and UNLOAD of user tablets, COPY_TABLE USER requests for user tablets, SYNC
 *
 * A request waits only for requests of classes above its own: a user tablet's LOAD
 * reads METADATA, a METADATA tablet's LOAD reads the root tablet, and the root
 * tablet needs the seal of its dead server's log.  So a request that waits for a stalled disk
 * or for another server never delays a request for which it, or the cluster's recovery, waits.
 *
 * Requests of the same process (embedded stores; a server's own reads of METADATA)
 * call the service directly, on the caller's thread.  The caller is the worker.  Such
 * a request is never in a queue, so it cannot wait for itself.
 *
 * Threads: any; dispatch_free when no call is under way.
 */
#ifndef TFS_RPC_DISPATCH_H
#define TFS_RPC_DISPATCH_H

#include "engine/rpc/tablet_service.h"

enum dispatch_class {
	DISPATCH_CONTROL,
	DISPATCH_SORT,
	DISPATCH_ROOT,
	DISPATCH_METADATA,
	DISPATCH_TABLETS,
	DISPATCH_USER,
	DISPATCH_CLASSES
};
struct dispatch_limits {
	unsigned workers, queue; /* `queue` is the most requests that wait; they have at most DISPATCH_BYTES_MAX bytes */
};
#define DISPATCH_BYTES_MAX ((size_t)64 << 20)

struct dispatcher;
/* limits: DISPATCH_CLASSES elements, or NULL: the defaults.  Borrows service until dispatch_free. */
int dispatch_new(struct tablet_service *service, const struct dispatch_limits *limits, struct dispatcher **out) TFS_MUST;
/* Carries out all requests in the queues first. */
void dispatch_free(struct dispatcher *d);
/*
 * err 0: *answer is the encoded answer; fn may take its memory.  -EBADMSG, -EPROTO:
 * the request is malformed or of another version, and the channel should be closed; -ENOMEM.
 */
typedef void dispatch_answer_fn(void *arg, int err, struct buf *answer);
/*
 * Carries out an encoded request, and calls fn(arg) once: by a worker, or by the
 * caller before this call returns.  Takes *request.
 * The answer is -EAGAIN, and the request has had no effect, if its queue is full, or
 * if its time_left_us passed in the queue.  (POLL: the answer is that the action has
 * not ended.)  A request waits in a queue at most
 * CLIENT_TIME_US if it has a client.
 * A worker calls the service as any thread does.  So the service refuses the request
 * if its client has meanwhile sent HELLO with a later epoch, or if its master's term
 * is over.
 */
void dispatch_request(struct dispatcher *d, struct buf *request, dispatch_answer_fn *fn, void *arg);
/*
 * Checks a request of a peer before it is queued.  It may change *q.  It returns 0, -EBADMSG if the
 * channel should be closed, or another error, which is the answer.  The thread that passes the
 * request calls it, with the peer.
 */
typedef int dispatch_check_fn(void *peer, struct ts_request *q);
void dispatch_request_from(
	struct dispatcher *d, dispatch_check_fn *check, void *peer, struct buf *request, dispatch_answer_fn *fn, void *arg);
/* The class of a request.  Its tablets decide, if it names any, else its table and row. */
enum dispatch_class dispatch_class_of(const struct ts_request *q);

#endif
