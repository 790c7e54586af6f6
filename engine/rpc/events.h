/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that serves the connections of this process, on one libev loop.  It exists
 * while a connection or a listener does.
 *
 * Threads: any, unless a function says otherwise.
 */
#ifndef TFS_RPC_EVENTS_H
#define TFS_RPC_EVENTS_H

#include "engine/base/bytes.h"

#include <bsd/sys/queue.h>

struct ev_loop;
/* Counted: the first call starts the thread, the last events_stop ends it. */
int events_start(void) TFS_MUST;
void events_stop(void); /* must not be called on the loop's thread */
/* Returns the loop for the caller's own watchers, which it may use on the loop's thread only. */
struct ev_loop *events_loop(void);

/* A call that is planned for the loop's thread.  Embedded in its owner, and zeroed at first. */
struct event_call {
	void (*fn)(struct event_call *c);
	STAILQ_ENTRY(event_call) link;
	bool queued;
};
/* Calls c->fn once, soon.  Returns false if that is planned already. */
bool events_post(struct event_call *c);
/* Calls fn(arg) on the loop's thread, and returns when it has returned. */
void events_run(void (*fn)(void *arg), void *arg);

#endif
