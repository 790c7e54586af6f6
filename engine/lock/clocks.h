/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of a cluster's servers, by their heartbeats.
 *
 * A heartbeat is the contents of a file servers/N: the server's address, a blank, and
 * the server's time when it sent the heartbeat, in us since 1970.  The service's time
 * stamp of the file is the time of the same moment by the service's clock.  So the
 * difference is the offset of the server's clock from the service's.
 */
#ifndef TFS_LOCK_CLOCKS_H
#define TFS_LOCK_CLOCKS_H

#include "engine/base/clock.h"
#include "engine/lock/lock.h"

#define LOCK_CLOCK_OFF_US INT64_C(2000000)

struct lock_clocks {
	int64_t median_us; /* the median offset of the servers' clocks from the service's clock */
	int64_t newest_us; /* the latest time stamp of a heartbeat, by the service's clock */
	unsigned count;    /* how many other servers' heartbeats count */
	bool others;       /* there are other servers, also if their heartbeats do not count */
};
/* Appends a heartbeat. */
int lock_clocks_encode(struct tfs_bytes address, int64_t now_us, struct buf *out) TFS_MUST;
/*
 * Reads all heartbeats.  A heartbeat does not count if its time stamp is more than late_us from now_us by the service's
 * clock (0: from the newest).  self is the caller's file, whose offset is own_us, or NULL if the caller is no server.
 * The caller does not count if it makes the number even: of two servers, the median is the clock that is not the
 * caller's.
 */
int lock_clocks_read(struct lock_service *locks, const char *self, int64_t own_us, int64_t now_us, uint64_t late_us,
	struct lock_clocks *out) TFS_MUST;

/*
 * The clock of a process without heartbeats, which is a master: its own, unless that is more than LOCK_CLOCK_OFF_US off the
 * servers'.
 */
struct lock_follow {
	_Atomic int64_t add_us; /* is added to the process's own clock */
	int64_t newest_us;      /* the newest_us of the last look */
};
/* Compares the clocks, and limits `clock`, whose source is lock_follow_time.  Called once a second by one thread. */
void lock_follow_look(struct lock_follow *f, struct lock_service *locks, uint64_t late_us, struct clock *clock);
/* A clock_source; arg: the struct lock_follow. */
int64_t lock_follow_time(void *arg);

#endif
