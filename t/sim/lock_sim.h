/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service of a simulated cluster: one set of files in memory, and a
 * session for each simulated process.
 *
 * Requests and answers take time.  A request may be lost, or its answer; then the
 * call returns -UNREACHABLE and its outcome is unknown.  Requests of one session arrive in
 * the order in which they were sent.  A session that is not heard of for its
 * timeout expires: its ephemeral files are removed.  The process finds
 * out at its next call (-SESSION_ENDED), unless it cannot reach the service then.
 * A watch runs as a thread of the session's process, some time after the change.
 */
#ifndef T_SIM_LOCK_SIM_H
#define T_SIM_LOCK_SIM_H

#include "engine/lock/lock.h"
#include "t/sim/sched.h"

struct lock_sim;
/* local: the service is in the process that uses it, as in an embedded store, so no request of a dead process is carried out. */
struct lock_sim *lock_sim_new(struct proc *world, bool local);
struct lock_sim_faults {
	unsigned lose;     /* one in `lose` requests or answers is lost; 0 if none is */
	uint64_t delay_us; /* a request takes up to so long */
	uint64_t lag_us;   /* a session may see the changes of others so late; at most 3 s */
};
void lock_sim_set_faults(struct lock_sim *l, const struct lock_sim_faults *f);
/* A session of p.  It lives until it expires, or is freed. */
struct lock_service *lock_sim_connect(struct lock_sim *l, struct proc *p, uint64_t timeout_us);
/* The session's process cannot reach the service for so long. */
void lock_sim_cut(struct lock_service *session, uint64_t us);
/* The service has no leader for so long: it makes no change, and no session expires.  Reads are answered. */
void lock_sim_silence(struct lock_sim *l, uint64_t us);
bool lock_sim_expired(struct lock_service *session);

#endif
