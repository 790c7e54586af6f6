/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fence of a server on shared storage.  When the server's session in the lock
 * service has ended, a master may give its tablets to other servers, which read
 * its log.  The server may still run without knowing it.  Three checks keep it from
 * answering then:
 *
 *	a request   after it was carried out: the lease is held
 *	a commit    after the fdatasync of the log: the path of the log's directory
 *	            leads to the directory that this server made, and then: the
 *	            lease is held
 *	once a second: the marker of the store is there (DIR/cluster has the
 *	            cluster's id; without a cluster's id, FORMAT exists), and the
 *	            log was not unwritable for GIVE_UP_US
 *
 * A master makes the seal of a log after it has renamed the directory.  So if a
 * commit finds the directory, the seal covers its records.  This needs no clock.
 * A check of the lease alone would need a clock, and a thread may pause between
 * it and the fdatasync for any time.
 *
 * The inode number is compared, not the device: the file system may have been mounted
 * again.
 *
 * A lease that has ended is a pause (engine/lock/session.h).  A commit waits in its
 * check for the next lease, or for the loss of the fence: its record is durable, and
 * an error would be reported for a change that takes place.  Other requests wait for
 * at most WAIT_US before they are carried out and again before they are answered.  Then
 * the client looks for the tablet elsewhere, because the session may have ended.  The
 * log's time without a sync does not count meanwhile.
 *
 * When another check fails, or the session has ended (server_lose), the fence is lost
 * for ever, and server_options.lost is called, once.  The program exits then.  Until it has, requests get the errors that they
 * would get from the channel to a dead server: requests under way -ANSWER_LOST (the
 * outcome is unknown), later requests -UNREACHABLE (not carried out).
 *
 * A server whose clock is too far off the cluster's would hide and collect live
 * cells, and give later cells earlier timestamps.  It does not start.  If the clock
 * becomes wrong later, it refuses requests until its clock is right, as if its tablets
 * were elsewhere.  It carries out the master's requests.
 *
 * A server that cannot write its log, or whose clock is wrong, holds its tablets
 * although it does not serve them, and its heartbeats still succeed.  Therefore it
 * exits after GIVE_UP_US, and other servers get its tablets.  It does not if no other
 * server could serve them: a full disk is full for every server; and as long as the
 * clock of no other server agrees with the cluster's, that clock may be the wrong one.
 *
 * Storage that does not answer ends the server, too: the look-up of the marker or a
 * write of the log has not returned for GIVE_UP_US, and another server says that its
 * storage answers (TS_STORAGE).  If the storage hangs for every server, as while a NAS
 * restarts, all wait for it, and continue.
 *
 * The periodic checks are three tasks with a thread each, because a look-up in storage
 * or a request to another server may take any time.  The check of the log does no I/O.
 */
#include "engine/server/storage/storage.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/marker.h"
#include "engine/lock/session.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define GIVE_UP_US UINT64_C(20000000)
#define RECENT_US UINT64_C(10000000) /* a look-up that succeeded within this time shows that the storage answers */
#define WATCH_US 1000000u
#define WAIT_US UINT64_C(1000000) /* how long a request waits for a lease */
#define POLL_US 10000u

struct fence {
	struct server *s;
	bool (*held)(void *arg);
	int64_t (*clock_offset)(void *arg);
	void (*lost)(void *arg, const char *why);
	void *arg;
	char *dir, *marker;
	uint64_t dir_id, cluster_id;
	_Atomic bool is_lost;
	struct task_pool *pool; /* NULL: server_watch is called by the program */
	struct task log_task, marker_task, others_task;
	_Atomic uint64_t looking_us,
		looked_us;  /* the begin of the look-up that is under way, or 0, and of the last successful look-up */
	_Atomic bool stuck; /* the log has been stuck for GIVE_UP_US */
	/* the check of the log and the check of the clock; each is used by one thread at a time */
	uint64_t good_us, durable_lsn, right_us;
};

static void fence_lose(struct fence *f, const char *why)
{
	if (atomic_exchange(&f->is_lost, true))
		return;
	msg_error("%s: %s; this server stops", f->dir, why);
	if (f->lost)
		f->lost(f->arg, why);
}

void server_lose(struct server *s, const char *why)
{
	if (s->fence)
		fence_lose(s->fence, why);
}

/* Waits for a lease, for at most most_us.  Returns false if there is none, or if the fence is lost. */
static bool lease_wait(struct fence *f, uint64_t most_us)
{
	const uint64_t since_us = monotonic_us();

	while (!f->is_lost && !f->held(f->arg)) {
		if (f->s->closing || monotonic_us() - since_us >= most_us)
			return false;
		(void)usleep(POLL_US);
	}
	return !f->is_lost;
}

bool fence_waits(void *arg)
{
	struct fence *f = arg;

	return !f->held(f->arg);
}

int fence_check(void *arg)
{
	struct fence *f = arg;
	uint64_t id;
	int err = file_look_up(f->dir, &id);

	if (err == -ENOENT || err == -ENOTDIR || (!err && id != f->dir_id))
		fence_lose(f, "a master has taken the log away");
	if (f->is_lost)
		return -FENCE_LOST;
	return err ? err : lease_wait(f, UINT64_MAX) ? 0 : -FENCE_LOST;
}

int64_t fence_clock_offset(const struct fence *f)
{
	const int64_t us = f->clock_offset ? f->clock_offset(f->arg) : 0;

	return llabs(us) > LOCK_CLOCK_OFF_US ? us : 0;
}

/* How long the request may wait for a lease. */
static uint64_t wait_us(const struct ts_request *q)
{
	return q->time_left_us && q->time_left_us < WAIT_US ? q->time_left_us : WAIT_US;
}

int fence_begin(struct fence *f, const struct ts_request *q)
{
	if (!lease_wait(f, q->term ? 0 : wait_us(q)))
		return f->is_lost ? -UNREACHABLE : q->term || q->method == TS_SYNC ? -EAGAIN : -TABLET_MOVED;
	if (fence_clock_offset(f) && !q->term && q->method != TS_SYNC && q->method != TS_SCAN_CLOSE)
		return -TABLET_MOVED;
	return 0;
}

int fence_answer(struct fence *f, const struct ts_request *q, int err)
{
	return lease_wait(f, wait_us(q)) ? err : -ANSWER_LOST;
}

void fence_buried(struct fence *f)
{
	if (f)
		fence_lose(f, "the other servers take it for dead");
}

/* ---- periodic checks ---- */

/* The time from since_us to now_us.  Another thread may have begun after this thread has read the time. */
static uint64_t passed_us(uint64_t since_us, uint64_t now_us)
{
	return now_us > since_us ? now_us - since_us : 0;
}

static void watch_log(struct fence *f, uint64_t now)
{
	struct log_stats st;

	log_get_stats(f->s->log, &st);
	if (!f->good_us || (!st.refusing && (!st.waiting || st.durable_lsn != f->durable_lsn)) || is_no_space(st.refusing) ||
		!f->held(f->arg))
		f->good_us = now;
	f->durable_lsn = st.durable_lsn;
	f->stuck = now - f->good_us >= GIVE_UP_US;
	/* After a write that hung, the log refuses all other writes, too. */
	if (f->stuck && st.refusing && passed_us(f->looked_us, now) < RECENT_US)
		fence_lose(f, "the log could not be written for 20 seconds");
}

static void watch_marker(struct fence *f, uint64_t now)
{
	uint64_t id;
	int err;

	f->looking_us = now;
	err = f->cluster_id ? marker_look(f->marker, f->cluster_id) : file_look_up(f->marker, &id);
	f->looking_us = 0;
	if (!err)
		f->looked_us = now;
	if (err == -ENOENT || err == -ENODEV)
		fence_lose(f, "the store's marker is missing: its file system is not mounted");
	else if (err == -EXDEV)
		fence_lose(f, "the store's marker is another cluster's");
}

bool fence_storage_answers(const struct fence *f, uint64_t now_us)
{
	return !f->stuck && passed_us(f->looked_us, now_us) < RECENT_US;
}

/* Asks the other servers: this server itself does not answer TS_STORAGE with 0 now. */
static bool another_is_well(const struct fence *f)
{
	return f->s->o.servers.each && ts_one_is_well(&f->s->o.servers);
}

static void watch_clock(struct fence *f, uint64_t now)
{
	if (!f->right_us || !fence_clock_offset(f))
		f->right_us = now;
	if (now - f->right_us >= GIVE_UP_US && another_is_well(f))
		fence_lose(f, "its clock was wrong for 20 seconds, and another server's is right");
}

static void watch_storage(struct fence *f, uint64_t now)
{
	const uint64_t looking_us = f->looking_us;

	if ((f->stuck || (looking_us && passed_us(looking_us, now) >= GIVE_UP_US)) && another_is_well(f))
		fence_lose(f, "its storage did not answer for 20 seconds, and another server's does");
}

void server_watch(struct server *s, uint64_t now_us)
{
	if (!s->fence || s->fence->is_lost)
		return;
	watch_log(s->fence, now_us);
	watch_marker(s->fence, now_us);
	watch_clock(s->fence, now_us);
	watch_storage(s->fence, now_us);
}

static void log_task_run(struct task *t)
{
	struct fence *f = (struct fence *)(void *)((char *)t - offsetof(struct fence, log_task));

	watch_log(f, monotonic_us());
	if (!f->is_lost)
		task_queue_after(t, WATCH_US);
}

static void marker_task_run(struct task *t)
{
	struct fence *f = (struct fence *)(void *)((char *)t - offsetof(struct fence, marker_task));

	watch_marker(f, monotonic_us());
	if (!f->is_lost)
		task_queue_after(t, WATCH_US);
}

static void others_task_run(struct task *t)
{
	struct fence *f = (struct fence *)(void *)((char *)t - offsetof(struct fence, others_task));

	watch_clock(f, monotonic_us());
	watch_storage(f, monotonic_us());
	if (!f->is_lost)
		task_queue_after(t, WATCH_US);
}

void fence_watch(struct fence *f)
{
	task_queue_after(&f->log_task, WATCH_US);
	task_queue_after(&f->marker_task, WATCH_US);
	task_queue_after(&f->others_task, WATCH_US);
}

void fence_stop(struct fence *f)
{
	if (!f)
		return;
	task_cancel(&f->log_task);
	task_cancel(&f->marker_task);
	task_cancel(&f->others_task);
}

/* ---- lifetime ---- */
int fence_new(struct server *s, const char *log_dir, struct fence **out)
{
	const struct server_options *o = &s->o;
	struct fence *f = calloc(1, sizeof(*f));
	char *why = NULL;
	uint64_t id;
	int err;

	if (!f)
		return -ENOMEM;
	*f = (struct fence){.s = s, .held = o->held, .clock_offset = o->clock_offset, .lost = o->lost, .arg = o->fence_arg};
	f->dir = strdup(log_dir);
	err = marker_check(s->locks, o->data_dir, &f->cluster_id, &why);
	if (err)
		msg_error("%s", why ? why : error_text(err));
	free(why);
	if (!err && fence_clock_offset(f)) {
		err = -CLOCK_OFF;
		msg_error("the clock is %lld ms off the cluster's: the server does not start", llabs(fence_clock_offset(f)) / 1000);
	}
	f->marker = path_join(o->data_dir, f->cluster_id ? MARKER_FILE : "FORMAT");
	if (!err)
		err = f->dir && f->marker ? file_look_up(f->marker, &id) : -ENOMEM;
	if (!err)
		err = file_look_up(f->dir, &f->dir_id);
	f->looked_us = monotonic_us();
	if (!err && !o->no_background)
		err = task_pool_new("fence", 3, &f->pool);
	if (err) {
		fence_free(f);
		return err;
	}
	if (f->pool) {
		task_init(&f->log_task, f->pool, log_task_run);
		task_init(&f->marker_task, f->pool, marker_task_run);
		task_init(&f->others_task, f->pool, others_task_run);
	}
	*out = f;
	return 0;
}

void fence_free(struct fence *f)
{
	if (!f)
		return;
	task_pool_free(f->pool);
	free(f->dir);
	free(f->marker);
	free(f);
}
