/* SPDX-License-Identifier: Apache-2.0 */
/* The services of a channel, and its begin and end (channel.h).  channel_call.c has the calls and channel_watch. */
#include "engine/rpc/channel_impl.h"

#include "engine/base/clock.h"
#include "engine/base/stop.h"
#include "engine/rpc/listen_check.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_FIRST_US 2000u
#define PAUSE_MOST_US 100000u
#define SCAN_BATCH_MAX ((size_t)512 << 10) /* a batch of this size and the largest cell fit into a small frame */

/* Returns false if the time is over, or if the caller's wait ends before; then *err is set. */
static bool pause_until(uint64_t until, uint64_t *pause_us, int *err)
{
	const bool ends = stop_asked_waiting(true);

	if (ends)
		*err = -WAIT_INTERRUPTED;
	if (ends || monotonic_us() + *pause_us >= until)
		return false;
	(void)usleep((useconds_t)*pause_us);
	*pause_us = *pause_us * 2 < PAUSE_MOST_US ? *pause_us * 2 : PAUSE_MOST_US;
	return true;
}

static bool is_connected(struct channel *c)
{
	bool is;

	mutex_lock(&c->lock);
	is = c->conn[0] != NULL;
	mutex_unlock(&c->lock);
	return is;
}

/*
 * The user of a request.  If the server squashes root, a mount asks for names without a user,
 * and for cells on behalf of the user of the call that its thread serves.
 */
static const struct tfs_user *user_of(const struct channel *c, const struct ts_request *q)
{
	const struct tfs_user *asker;

	if (q->user || !c->o.user || !c->squash_root || !asker_is_set())
		return q->user ? q->user : c->o.user;
	if (request_asks_names(q))
		return NULL;
	asker = asker_get();
	return asker ? asker : c->o.user;
}

static int tablets_pack(const struct channel *c, const struct ts_request *q, struct buf *request)
{
	struct ts_request own = *q;
	struct scan_spec spec;

	own.sync = q->sync || c->o.sync;
	own.user = user_of(c, q);
	if (q->spec && q->spec->pub.batch_bytes > SCAN_BATCH_MAX) {
		spec = *q->spec;
		spec.pub.batch_bytes = SCAN_BATCH_MAX;
		own.spec = &spec;
	}
	return ts_request_pack(&own, request);
}

/* Frees *answer. */
static int tablets_unpack(struct buf *answer, const struct ts_request *q, struct ts_answer *a)
{
	unsigned tries = 0;
	int err;

	do
		err = ts_answer_unpack(buf_bytes(answer), q, a);
	while (wire_again(err, &tries));
	buf_fini(answer);
	return err == -EBADMSG ? -ANSWER_LOST : err ? err : a->err;
}

static int tablets_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct channel *c = ((struct tablet_channel *)s)->channel;
	struct buf request = {0}, answer = {0};
	int err;

	/* A server that was started meanwhile does not know the client or the scan, and drops them in any case. */
	if ((q->epoch == TS_EPOCH_LAST || q->method == TS_SCAN_CLOSE) && !is_connected(c))
		return -UNREACHABLE;
	err = tablets_pack(c, q, &request);
	if (!err)
		err = channel_call(c, FRAME_TABLETS, &request, q->time_left_us, &answer);
	buf_fini(&request);
	return err ? err : tablets_unpack(&answer, q, a);
}

/* The request is late when a worker takes it, so the worker refuses it at once, also while the server waits for its lease. */
int channel_answers(struct channel *c, uint64_t limit_us)
{
	const struct ts_request q = {.method = TS_EXISTS,
		.table = UINT32_MAX,
		.row = tfs_str("-"),
		.epoch = 1,
		.token = {.client = c->o.client},
		.time_left_us = 1};
	struct buf request = {0}, answer = {0};
	int err = tablets_pack(c, &q, &request);

	if (!err)
		err = channel_call(c, FRAME_TABLETS, &request, limit_us, &answer);
	buf_fini(&request);
	buf_fini(&answer);
	return err;
}

struct sent {
	struct ts_sent base; /* first */
	struct conn *conn;
	uint64_t limit_us; /* how long the caller of receive waits */
	struct waiting w;
};

/* Sends over the connection for small frames if there is one. */
static struct ts_sent *tablets_send(struct tablet_service *s, const struct ts_request *q)
{
	struct channel *c = ((struct tablet_channel *)s)->channel;
	struct sent *x = getpid() == c->pid ? calloc(1, sizeof(*x)) : NULL;
	struct buf request = {0};
	int err = x ? channel_enter(c) : -ENOMEM;
	const bool entered = !err;

	if (!err)
		err = tablets_pack(c, q, &request);
	if (!err) {
		mutex_lock(&c->lock);
		x->conn = request.n <= FRAME_PIECE ? c->conn[0] : NULL;
		if (x->conn)
			conn_get(x->conn);
		mutex_unlock(&c->lock);
		err = x->conn ? channel_send(c, x->conn, FRAME_TABLETS, &request, &x->w) : -UNREACHABLE;
	}
	buf_fini(&request);
	if (!err) {
		x->base.service = s;
		x->limit_us = q->time_left_us;
		return &x->base;
	}
	if (x && x->conn)
		conn_put(x->conn);
	if (entered)
		channel_leave(c);
	free(x);
	return NULL;
}

static int tablets_receive(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a)
{
	struct channel *c = ((struct tablet_channel *)sent->service)->channel;
	struct sent *x = (struct sent *)sent;
	struct buf answer = {0};
	int err;

	if (getpid() != c->pid)
		return -EPERM; /* the parent has sent it, and gets the answer */
	err = channel_receive(c, x->conn, &x->w, x->limit_us, &answer);
	conn_put(x->conn);
	channel_leave(c);
	free(x);
	return err ? err : tablets_unpack(&answer, q, a);
}

static void tablets_forget(struct ts_sent *sent)
{
	struct channel *c = ((struct tablet_channel *)sent->service)->channel;
	struct sent *x = (struct sent *)sent;

	if (getpid() != c->pid)
		return;
	channel_forget(c, &x->w);
	conn_put(x->conn);
	channel_leave(c);
	buf_fini(&x->w.answer);
	free(x);
}

static int master_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	struct channel *c = ((struct master_channel *)s)->channel;
	const uint64_t until = monotonic_us() + stop_wait_left(c->o.timeout_us);
	struct buf request = {0}, answer = {0};
	struct ms_request own = *q;
	uint64_t pause_us = PAUSE_FIRST_US;
	unsigned tries = 0;
	int err;

	own.user = q->user ? q->user : c->o.user;
	own.client = q->client ? q->client : c->o.client;
	err = ms_request_pack(&own, &request);
	if (!err)
		do
			err = channel_call(c, FRAME_MASTER, &request, 0, &answer);
		while (err == -UNREACHABLE && pause_until(until, &pause_us, &err));
	buf_fini(&request);
	if (err)
		return err;
	do
		err = ms_answer_unpack(buf_bytes(&answer), q, a);
	while (wire_again(err, &tries));
	buf_fini(&answer);
	return err == -EBADMSG ? -ANSWER_LOST : err ? err : a->err;
}

/* A server may wait longer for the lock service than this client's user. */
int channel_store_within(struct channel *c, uint64_t us, const struct ss_request *q, struct ss_answer *a)
{
	const uint64_t until = monotonic_us() + stop_wait_left(us < c->o.timeout_us ? us : c->o.timeout_us);
	struct buf request = {0}, answer = {0};
	uint64_t pause_us = PAUSE_FIRST_US;
	int err;

	do {
		const uint64_t now = monotonic_us();

		buf_fini(&request);
		err = ss_request_pack(q, &request);
		if (!err)
			err = channel_call(c, FRAME_STORE, &request, now < until ? until - now : 1, &answer);
	} while ((err == -UNREACHABLE || err == -ANSWER_LOST || err == -ETIMEDOUT) && pause_until(until, &pause_us, &err));
	buf_fini(&request);
	if (err) {
		stop_wait_ended(err);
		return err == -ANSWER_LOST || err == -ETIMEDOUT ? -UNREACHABLE : err;
	}
	err = ss_answer_unpack(&answer, a);
	return err ? err : a->err;
}

int channel_store(struct channel *c, const struct ss_request *q, struct ss_answer *a)
{
	return channel_store_within(c, c->o.timeout_us, q, a);
}

void channel_login(struct channel *c, struct tfs_login *out)
{
	mutex_lock(&c->lock);
	*out = c->login;
	mutex_unlock(&c->lock);
}

struct tablet_service *channel_tablets(struct channel *c)
{
	return &c->tablets.base;
}

struct master_service *channel_master(struct channel *c)
{
	return &c->master.base;
}

/* ---- lifetime ---- */

static void hang_up(struct channel *c)
{
	for (unsigned i = 0; i < 2; i++) {
		struct conn *conn;

		mutex_lock(&c->lock);
		conn = c->conn[i];
		if (conn)
			conn_get(conn);
		mutex_unlock(&c->lock);
		if (conn) {
			conn_close(conn, 0);
			conn_put(conn);
		}
	}
}

static void nothing(void *arg)
{
}

void channel_end(struct channel *c)
{
	if (channel_enter(c))
		return; /* channel_end was called before */
	mutex_lock(&c->lock);
	c->ended = true;
	mutex_unlock(&c->lock);
	hang_up(c);
	channel_leave(c);
}

void channel_free(struct channel *c)
{
	if (!c)
		return;
	/* In a child process the thread does not exist, and the connections belong to the parent. */
	if (getpid() != c->pid)
		return;
	hang_up(c);
	events_run(nothing, NULL); /* the closes were planned before */
	dial_free(c->o.dial);
	events_stop();
	cond_fini(&c->connected);
	mutex_fini(&c->lock);
	free(c->program);
	free(c);
}

int channel_new(const struct channel_options *o, struct channel **out, char **why)
{
	static const struct tablet_service_ops tablet_ops = {
		.call = tablets_call, .send = tablets_send, .receive = tablets_receive, .forget = tablets_forget};
	static const struct master_service_ops master_ops = {.call = master_call};
	struct channel *c = calloc(1, sizeof(*c));
	struct conn *conn = NULL;
	int err = c ? events_start() : -ENOMEM;

	if (err) {
		dial_free(o->dial);
		free(c);
		return err;
	}
	c->o = *o;
	c->program = strdup(o->program);
	c->pid = getpid();
	c->tablets = (struct tablet_channel){.base.ops = &tablet_ops, .channel = c};
	c->master = (struct master_channel){.base.ops = &master_ops, .channel = c};
	c->empty.fn = channel_empty;
	mutex_init(&c->lock, RANK_WIRE);
	cond_init(&c->connected);
	err = !c->program ? -ENOMEM : o->later ? 0 : channel_connection(c, false, &conn, why);
	if (err) {
		channel_free(c);
		return err;
	}
	if (!o->later)
		conn_put(conn);
	*out = c;
	return 0;
}
