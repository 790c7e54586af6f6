/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls over a channel, and its connections.
 *
 * A caller sends its request itself, and sleeps until the thread of the connections has
 * received the answer, or the connection is lost.  A caller that has heard nothing for
 * PING_US asks for a sign of life, and gives the connection up after SILENT_US.
 *
 * A call without a connection makes one, and the other calls wait for that.
 *
 * Callers keep the addresses of services, so a channel stays until channel_free.  But a cluster's servers start again under
 * other numbers, and a process that runs for years has a channel to each.  So when the server has ended, and the last call has
 * returned, most of the memory is freed.
 */
#include "engine/rpc/channel_impl.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/stop.h"
#include "engine/base/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PING_US 2500000u
#define STUCK_US 1000000u /* mounts get a notice four times a second */
#define SILENT_US 5000000u
#define CONNECT_LEAST_US 300000u
#define WAIT_MOST_US (UINT64_C(1) << 50)
#define STREAM_SHIFT 40

/* One connection.  The conn owns it. */
struct link {
	struct channel *channel;
	struct conn *conn;
	bool large;
	uint64_t stream;  /* the number of this connection among the small connections; the upper bits of the numbers of notices */
	uint64_t notices; /* the number of notices that have come */
	struct event greeted; /* set to 1 when the HELLO of the server has come, or the connection is lost */
	int err;              /* then */
	char *why;
};

/* ---- the thread of the connections ---- */

static int on_hello(struct link *l, struct tfs_bytes body)
{
	struct channel *c = l->channel;
	struct arena arena = {0};
	struct hello h = {0};
	int err = hello_unpack(body, &arena, &h);

	if (!err && h.err) {
		l->err = h.err;
		l->why = h.why ? strdup(h.why) : NULL;
		err = h.err;
	} else if (!err && h.version != HELLO_VERSION) {
		err = -EPROTO;
	}
	mutex_lock(&c->lock);
	if (!err && h.store.n > sizeof(c->store))
		err = -EBADMSG;
	if (!err && c->store_n && !bytes_eq(h.store, tfs_bytes_of(c->store, c->store_n)))
		err = -EXDEV; /* the directory has another store now */
	if (!err && h.store.n) {
		memcpy(c->store, h.store.p, h.store.n);
		c->store_n = h.store.n;
	}
	if (!err)
		c->login = (struct tfs_login){h.is_user ? h.uid : geteuid(), h.is_user ? h.gid : getegid(), h.for_others};
	mutex_unlock(&c->lock);
	arena_fini(&arena);
	if (err) {
		l->err = err;
		return err;
	}
	c->squash_root = h.squash_root;
	if (h.squash_root)
		asker_want();
	conn_greeted(l->conn);
	conn_enlarge(l->conn); /* the answer to a mutation has a result for each of up to 65,536 lines */
	event_set(&l->greeted, 1);
	event_wake(&l->greeted);
	return 0;
}

static int on_answer(struct channel *c, struct frame *f)
{
	struct waiting *w;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->waiting, &f->number, sizeof(f->number), w);
	if (w) {
		HASH_DEL(c->waiting, w);
		w->answer = f->body;
		f->body = (struct buf){0};
		event_set(&w->done, 1);
	}
	mutex_unlock(&c->lock);
	if (w)
		event_wake(&w->done);
	return 0; /* the request's caller may not wait any more */
}

static int on_notice(struct link *l, const struct frame *f)
{
	struct channel *c = l->channel;
	const struct tfs_bytes body = buf_bytes(&f->body);

	if (l->large || f->number != ++l->notices)
		return -EBADMSG;
	if (c->o.changed)
		c->o.changed(c->o.arg, &body, l->stream << STREAM_SHIFT | f->number);
	return 0;
}

static int on_frame(struct conn *conn, struct frame *f)
{
	struct link *l = conn_owner(conn);

	if (f->kind == FRAME_HELLO)
		return on_hello(l, buf_bytes(&f->body));
	if (f->kind == FRAME_ANSWER)
		return on_answer(l->channel, f);
	if (f->kind == FRAME_NOTICE)
		return on_notice(l, f);
	return -EBADMSG;
}

static void on_closed(struct conn *conn, int why)
{
	struct link *l = conn_owner(conn);
	struct channel *c = l->channel;
	struct waiting *w, *tmp;

	mutex_lock(&c->lock);
	if (c->conn[l->large] == conn) {
		c->conn[l->large] = NULL;
		conn_put(conn);
	}
	HASH_ITER(hh, c->waiting, w, tmp)
	if (w->conn == conn) {
		HASH_DEL(c->waiting, w);
		w->err = why == -ETIMEDOUT ? -ETIMEDOUT : -ANSWER_LOST;
		event_set(&w->done, 1);
		event_wake(&w->done);
	}
	if (!l->err)
		l->err = why ? why : -ANSWER_LOST;
	mutex_unlock(&c->lock);
	event_set(&l->greeted, 1);
	event_wake(&l->greeted);
	if (c->o.changed && !l->large)
		c->o.changed(c->o.arg, NULL, 0);
}

static void link_free(void *owner)
{
	struct link *l = owner;

	free(l->why);
	free(l);
}

static const struct conn_ops conn_ops = {.frame = on_frame, .closed = on_closed, .free = link_free, .patient = true};

static void begin(void *conn)
{
	conn_begin(conn);
}

/* ---- users ---- */

/* The connections have been closed, because that was planned before. */
void channel_empty(struct event_call *call)
{
	struct channel *c = (struct channel *)((char *)call - offsetof(struct channel, empty));

	dial_free(c->o.dial);
	free(c->program);
	c->o.dial = NULL;
	c->program = NULL;
}

int channel_enter(struct channel *c)
{
	int err;

	mutex_lock(&c->lock);
	err = c->ended ? -UNREACHABLE : 0;
	c->users += !err;
	mutex_unlock(&c->lock);
	return err;
}

void channel_leave(struct channel *c)
{
	bool last;

	mutex_lock(&c->lock);
	last = --c->users == 0 && c->ended;
	mutex_unlock(&c->lock);
	if (last)
		(void)events_post(&c->empty);
}

/* ---- connecting ---- */

static int say_hello(struct channel *c, struct link *l, char **why)
{
	struct hello h = {.version = HELLO_VERSION,
		.server = c->o.server,
		.client = c->o.client,
		.large = l->large,
		.single = dial_is_single(c->o.dial),
		.program = c->program};
	struct buf b = {0};
	const uint64_t until = monotonic_us() + stop_wait_left(dial_patience_us(c->o.dial, c->o.timeout_us));
	uint64_t now;
	int err;

	mutex_lock(&c->lock);
	h.store = tfs_bytes_of(c->store, c->store_n);
	err = hello_pack(&h, &b);
	mutex_unlock(&c->lock);
	if (!err)
		err = conn_send(l->conn, FRAME_HELLO, 0, 0, &b);
	buf_fini(&b);
	if (err == -UNREACHABLE)
		err = 0; /* l->err will have the reason */
	/* A server that is starting does not answer before it has replayed its log. */
	while (!err && !event_wait_us(&l->greeted, 0, STOP_CHECK_US)) {
		now = monotonic_us();
		err = now >= until ? -ETIMEDOUT : stop_asked_waiting(true) ? -WAIT_INTERRUPTED : 0;
	}
	if (!err) {
		mutex_lock(&c->lock);
		err = l->err;
		mutex_unlock(&c->lock);
	}
	if (err && l->why)
		why_set(why, "%s", l->why);
	return err;
}

/* A caller with little time leaves it to others, because an attempt that it gives up is a failure of the server. */
static int connect_new(struct channel *c, bool large, struct conn **out, char **why)
{
	struct link *l = calloc(1, sizeof(*l));
	struct conn *conn = NULL;
	struct dialled to = {.fd = -1};
	int err = !l ? -ENOMEM : stop_wait_left(CONNECT_LEAST_US) < CONNECT_LEAST_US ? -ETIMEDOUT : 0;

	if (!err)
		err = dial_connect(c->o.dial, &to, why);
	if (!err)
		err = conn_new(to.fd, to.tls, &conn_ops, l, &conn);
	if (err) {
		if (to.fd >= 0)
			socket_abort(to.fd);
		free(l);
		return err;
	}
	*l = (struct link){.channel = c, .conn = conn, .large = large};
	if (!large)
		l->stream = ++c->streams;
	events_run(begin, conn);
	err = say_hello(c, l, why);
	if (err) {
		conn_close(conn, err);
		conn_put(conn);
		dial_failed(c->o.dial, err, why);
		return err;
	}
	dial_greeted(c->o.dial);
	*out = conn;
	return 0;
}

int channel_connection(struct channel *c, bool large, struct conn **out, char **why)
{
	const uint64_t until = monotonic_us() + stop_wait_left(WAIT_MOST_US);
	struct conn *made = NULL;
	int err = 0;

	mutex_lock(&c->lock);
	while (!c->conn[large] && c->connecting[large] && !err)
		if (!cond_wait_us(&c->connected, &c->lock, STOP_CHECK_US)) {
			mutex_unlock(&c->lock);
			err = monotonic_us() >= until ? -ETIMEDOUT : stop_asked_waiting(true) ? -WAIT_INTERRUPTED : 0;
			mutex_lock(&c->lock);
		}
	if (c->ended && !err)
		err = -UNREACHABLE;
	if (!c->conn[large] && !err) {
		c->connecting[large] = true;
		mutex_unlock(&c->lock);
		err = connect_new(c, large, &made, why);
		mutex_lock(&c->lock);
		c->connecting[large] = false;
		c->conn[large] = made;
		cond_broadcast(&c->connected);
		if (made && c->ended) { /* meanwhile */
			conn_close(made, 0);
			err = -UNREACHABLE;
		}
	}
	if (!err && made && !large && c->watches)
		(void)!conn_send(made, FRAME_NOTICE, 0, 0, NULL); /* a failure closes it */
	if (!err) {
		*out = c->conn[large];
		conn_get(*out);
	}
	mutex_unlock(&c->lock);
	return err;
}

int channel_watch(struct channel *c)
{
	struct conn *conn;
	bool connected, watches;
	char *why = NULL;
	int err = channel_enter(c);

	if (err)
		return err;
	mutex_lock(&c->lock);
	connected = c->conn[0] != NULL;
	watches = c->watches;
	c->watches = true;
	conn = c->conn[0];
	if (connected)
		conn_get(conn);
	mutex_unlock(&c->lock);
	if (!connected) {
		err = channel_connection(c, false, &conn, &why);
		free(why);
	} else if (!watches) {
		(void)!conn_send(conn, FRAME_NOTICE, 0, 0, NULL);
	}
	if (!err)
		conn_put(conn);
	channel_leave(c);
	return err;
}

void channel_heard(struct channel *c, uint64_t notice)
{
	struct conn *conn;

	mutex_lock(&c->lock);
	conn = c->conn[0];
	if (conn && ((struct link *)conn_owner(conn))->stream == notice >> STREAM_SHIFT)
		(void)!conn_send(conn, FRAME_NOTICE, 0, notice & ((UINT64_C(1) << STREAM_SHIFT) - 1), NULL);
	mutex_unlock(&c->lock);
}

/* ---- calls ---- */

/* Drops a connection that was closed.  The next call connects again. */
static void drop(struct channel *c, struct conn *conn)
{
	bool found = false;

	mutex_lock(&c->lock);
	for (unsigned i = 0; i < 2; i++)
		if (c->conn[i] == conn) {
			c->conn[i] = NULL;
			found = true;
		}
	mutex_unlock(&c->lock);
	if (found)
		conn_put(conn);
}

void channel_forget(struct channel *c, struct waiting *w)
{
	struct waiting *found;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->waiting, &w->number, sizeof(w->number), found);
	if (found)
		HASH_DEL(c->waiting, w);
	mutex_unlock(&c->lock);
}

/* Waits for the answer.  limit_us 0: without end, unless the server is silent until the time of the thread's request is over. */
static int await(struct channel *c, struct conn *conn, struct waiting *w, uint64_t limit_us)
{
	const uint64_t since = monotonic_us(), most_us = stop_wait_left(limit_us ? limit_us : WAIT_MOST_US);
	uint64_t pinged = 0;

	while (!event_wait_us(&w->done, 0, limit_us && most_us < STOP_CHECK_US ? most_us : STOP_CHECK_US)) {
		const uint64_t silent = conn_silent_us(conn), waited = monotonic_us() - since;
		const bool stuck = silent >= STUCK_US && waited >= STUCK_US;
		const bool late = waited >= most_us && (limit_us || silent >= STUCK_US);
		const int err = late ? -ETIMEDOUT : stop_asked_waiting(stuck) ? -WAIT_INTERRUPTED : 0;

		if (err) {
			channel_forget(c, w);
			if (!w->done.number)
				return err;
			break;
		}
		if (silent >= SILENT_US && waited >= SILENT_US) {
			conn_close(conn, -ETIMEDOUT);
		} else if (silent >= PING_US && waited >= pinged + PING_US) {
			pinged = waited;
			(void)!conn_send(conn, FRAME_PING, 0, 0, NULL);
		}
	}
	return w->err;
}

int channel_send(struct channel *c, struct conn *conn, enum frame_service service, struct buf *request, struct waiting *w)
{
	int err;

	*w = (struct waiting){.conn = conn};
	mutex_lock(&c->lock);
	c->unreachable = false;
	w->number = ++c->number;
	HASH_ADD(hh, c->waiting, number, sizeof(w->number), w);
	err = w->hh.tbl ? 0 : -ENOMEM;
	mutex_unlock(&c->lock);
	if (err)
		return err;
	err = conn_send(conn, FRAME_REQUEST, service, w->number, request);
	if (err)
		channel_forget(c, w);
	if (err == -UNREACHABLE)
		drop(c, conn);
	return err;
}

int channel_receive(struct channel *c, struct conn *conn, struct waiting *w, uint64_t limit_us, struct buf *answer)
{
	int err = await(c, conn, w, limit_us);

	if (err)
		buf_fini(&w->answer);
	else
		*answer = w->answer;
	return err;
}

static int call_entered(struct channel *c, enum frame_service service, struct buf *request, uint64_t limit_us, struct buf *answer)
{
	struct waiting w;
	struct conn *conn;
	char *why = NULL;
	int err;

	err = channel_connection(c, request->n > FRAME_PIECE && !dial_is_single(c->o.dial), &conn, &why);
	if (err) {
		mutex_lock(&c->lock);
		if (!c->unreachable && !c->ended && err != -WAIT_INTERRUPTED)
			msg_warning("%s: %s", why ? why : dial_name(c->o.dial), why ? "no connection" : error_text(err));
		c->unreachable = c->unreachable || err != -WAIT_INTERRUPTED;
		mutex_unlock(&c->lock);
		free(why);
		return err == -ENOMEM || err == -WAIT_INTERRUPTED ? err : -UNREACHABLE;
	}
	err = channel_send(c, conn, service, request, &w);
	if (!err)
		err = channel_receive(c, conn, &w, limit_us, answer);
	conn_put(conn);
	return err;
}

int channel_call(struct channel *c, enum frame_service service, struct buf *request, uint64_t limit_us, struct buf *answer)
{
	int err = getpid() != c->pid ? -EPERM : request->n > FRAME_LARGE_MAX ? -E2BIG : channel_enter(c);

	if (err)
		return err;
	err = call_entered(c, service, request, limit_us, answer);
	channel_leave(c);
	return err;
}
