/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of a tablet server or master: its ephemeral file, heartbeats, lease
 * and clock.
 *
 * The server writes its file again every timeout/8 (a heartbeat).  A heartbeat
 * that the service has accepted extends the lease to the time at which it was
 * sent plus 0.6 x timeout, on CLOCK_BOOTTIME.  The service removes the file no
 * earlier than the timeout after it received the last heartbeat.  So the lease
 * ends before another server can learn that this server is dead.
 *
 * A lease that has ended is a pause.  The server answers nothing, and the heartbeats
 * continue.  The file is made once, so a later heartbeat that succeeds proves that
 * the file has existed all the time, and that no other server has taken this server
 * for dead: a new lease begins.  The session is lost only when a heartbeat finds that
 * the session has ended, or that the file does not exist.  Then the server must exit.
 *
 * The service's time stamp of a heartbeat lies between the sending and the answer, so
 * the two readings of this server's clock then bound its offset.  The time stamp is the
 * cluster's common clock, unless this server's clock is certainly more than
 * LOCK_CLOCK_OFF_US off it.  Then one of the two clocks is wrong, and the server reads the
 * times in the other servers' heartbeats (clocks.h): the median of the servers' clocks is
 * the common clock.  A server alone is right.  If no other server's heartbeat counts, as
 * right after the service's clock was set, the last result stays until the next beat.
 *
 * A server whose clock is certainly more than LOCK_CLOCK_OFF_US off the common clock must
 * not serve.  Each heartbeat also limits the clock of the server to the common clock plus
 * LOCK_CLOCK_OFF_US (clock_set_limit), so that a jump of the clock between two heartbeats
 * does not remove cells either.
 *
 * Threads: any.  One thread at a time calls lock_session_beat.
 */
#ifndef TFS_LOCK_SESSION_H
#define TFS_LOCK_SESSION_H

#include "engine/lock/clocks.h"

struct lock_session_options {
	struct lock_service *locks; /* one session of the service; borrowed until lock_session_free */
	const char *name;           /* the name of the ephemeral file "servers/N", which must not exist */
	struct tfs_bytes contents;  /* the server's address, with which the contents of the file begin */
	uint64_t timeout_us;        /* the service ends the session after this time without a heartbeat */
	/*
	 * Called once, by the thread that finds the session lost in
	 * lock_session_beat.  It must only set or queue something.
	 */
	void (*lost)(void *arg);
	clock_source *boottime; /* NULL: clock_boottime */
	void *arg;              /* the argument of the two functions */
	/* This server's; borrowed until lock_session_free.  Make the session before the server, so that it never uses a clock without a limit. */
	struct clock *clock;
};
struct lock_session;
/* Creates the file and begins the lease.  Copies name and contents. */
int lock_session_new(const struct lock_session_options *o, struct lock_session **out) TFS_MUST;
/* Begins to send heartbeats from a thread of its own.  A simulation calls lock_session_beat instead. */
int lock_session_run(struct lock_session *s) TFS_MUST;
/* Sends a heartbeat.  Returns the time in us after which to send the next heartbeat. */
uint64_t lock_session_beat(struct lock_session *s);
/* Returns true while a lease lasts.  Acquires no lock.  Call it after a commit is durable and before it or a read is answered. */
bool lock_session_held(struct lock_session *s);
/* The common clock minus this server's, as far as the last heartbeat proves it; 0 if they may be equal.  Acquires no lock. */
int64_t lock_session_clock_offset(const struct lock_session *s);
/* Stops the heartbeats.  Removes the file, unless the session is lost.  NULL is allowed. */
void lock_session_free(struct lock_session *s);

#endif
