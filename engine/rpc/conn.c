/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: its frames are sent by any thread and read by the thread of the connections. */
#include "engine/rpc/conn.h"

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/outcome.h"
#include "engine/rpc/events.h"

#include <errno.h>
#include <ev.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#define READ_BYTES (64u << 10)
#define SEND_BYTES (256u << 10) /* bytes that are sent at once; then other threads may queue frames */
#define TICK_S 1.

/* A frame, or an answer in pieces, that is being sent. */
struct unsent {
	STAILQ_ENTRY(unsent) link;
	enum frame_kind kind;
	enum frame_service service;
	uint64_t number;
	struct buf body;
	uint8_t header[FRAME_HEADER]; /* the header of the present piece */
	size_t at;                    /* where the piece begins in the body */
	size_t sent;                  /* bytes of the header and the piece */
};

struct conn {
	const struct conn_ops *ops;
	void *owner;
	_Atomic unsigned refs;
	_Atomic unsigned requests; /* requests that were read and are not answered */
	_Atomic uint64_t received_us;

	struct mutex lock;    /* RANK_CONN; guards the next members */
	struct stream stream; /* the loop's thread reads it without the lock if it is in clear text */
	STAILQ_HEAD(, unsent) queue;
	size_t unsent;            /* bytes that are left to send */
	size_t held;              /* memory of the queue: an answer is freed when its last piece was sent */
	uint64_t accepted_us;     /* when the kernel last took a byte of the queue, or the queue began */
	_Atomic size_t *all_held; /* the sum of all connections that share a bound, or NULL */
	int why;                  /* why the connection was closed */
	bool closing;
	struct event_call wake; /* to write the queue, to read again, or to close */

	/* The loop's thread only. */
	ev_io readable, writable;
	ev_timer tick;
	struct frame_reader reader;
	uint64_t begun_us;            /* when the connection began; once it is greeted, when a frame last made progress */
	bool started, greeted, waits; /* waits is set while a long frame needs admission */
};

static void on_call(struct event_call *call);

int conn_new(int fd, struct tls *tls, const struct conn_ops *ops, void *owner, struct conn **out)
{
	struct conn *c = calloc(1, sizeof(*c));
	int err = c ? stream_init(&c->stream, fd, tls, !ops->patient) : -ENOMEM;

	if (err) {
		free(c);
		return err;
	}
	mutex_init(&c->lock, RANK_CONN);
	c->ops = ops;
	c->owner = owner;
	c->refs = 1;
	c->wake.fn = on_call;
	c->reader.most = FRAME_HELLO_MAX;
	c->reader.joins = ops->patient;
	c->begun_us = c->accepted_us = monotonic_us();
	atomic_store(&c->received_us, c->begun_us);
	STAILQ_INIT(&c->queue);
	*out = c;
	return 0;
}

void *conn_owner(const struct conn *c)
{
	return c->owner;
}

void conn_bound(struct conn *c, _Atomic size_t *all_held)
{
	c->all_held = all_held;
}

void conn_enlarge(struct conn *c)
{
	c->reader.most = FRAME_LARGE_MAX;
}

void conn_get(struct conn *c)
{
	atomic_fetch_add(&c->refs, 1);
}

static size_t memory_of(const struct unsent *u)
{
	return sizeof(*u) + u->body.n;
}

static void count_held(struct conn *c, size_t added, size_t freed)
{
	c->held += added - freed;
	if (c->all_held)
		atomic_fetch_add(c->all_held, added - freed);
}

static void drop_first(struct conn *c)
{
	struct unsent *u = STAILQ_FIRST(&c->queue);

	count_held(c, 0, memory_of(u));
	STAILQ_REMOVE_HEAD(&c->queue, link);
	buf_fini(&u->body);
	free(u);
}

static void drop_queue(struct conn *c)
{
	c->unsent = 0;
	while (!STAILQ_EMPTY(&c->queue))
		drop_first(c);
}

void conn_put(struct conn *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	stream_fini(&c->stream);
	drop_queue(c);
	frame_reader_fini(&c->reader);
	/* Until now another thread may have found the owner in a list, to close the connection. */
	if (c->ops->free)
		c->ops->free(c->owner);
	mutex_fini(&c->lock);
	free(c);
}

uint64_t conn_silent_us(struct conn *c)
{
	const uint64_t now = monotonic_us();
	uint64_t at = atomic_load(&c->received_us);

	mutex_lock(&c->lock);
	if (c->accepted_us > at)
		at = c->accepted_us;
	mutex_unlock(&c->lock);
	return now > at ? now - at : 0;
}

size_t conn_unsent(struct conn *c)
{
	size_t n;

	mutex_lock(&c->lock);
	n = c->unsent;
	mutex_unlock(&c->lock);
	return n;
}

/* Plans on_call.  The call has a reference. */
static void post(struct conn *c)
{
	conn_get(c);
	if (!events_post(&c->wake))
		conn_put(c);
}

/* ---- sending ---- */

static size_t piece_bytes(const struct unsent *u)
{
	return frame_piece(u->kind, (uint32_t)(u->body.n - u->at));
}

static void piece_begin(struct unsent *u)
{
	u->sent = 0;
	frame_header(u->header, u->kind, u->service, u->number, (uint32_t)(u->body.n - u->at));
}

/* The number of bytes that are left, with the headers of all pieces. */
static size_t unsent_bytes(const struct unsent *u)
{
	const size_t left = u->body.n - u->at, piece = piece_bytes(u);
	const size_t pieces = piece < left ? (left + FRAME_PIECE - 1) / FRAME_PIECE : 1;

	return left + pieces * FRAME_HEADER - u->sent;
}

/*
 * Sends the rest of the present piece, as far as the socket takes it.  Returns the number of
 * bytes or -errno.  *whole: the piece was sent, and the next one has begun if there is one.
 */
static int64_t piece_send(struct conn *c, struct unsent *u, bool *whole)
{
	const size_t piece = piece_bytes(u), of_header = u->sent < FRAME_HEADER ? FRAME_HEADER - u->sent : 0;
	const size_t of_body = FRAME_HEADER + piece - u->sent - of_header;
	const struct tfs_bytes parts[2] = {
		{u->header + FRAME_HEADER - of_header, of_header}, {u->body.p + u->at + piece - of_body, of_body}};
	const int64_t n = stream_send(&c->stream, parts, 2);

	if (n > 0)
		u->sent += (size_t)n;
	*whole = u->sent == FRAME_HEADER + piece;
	if (*whole && u->at + piece < u->body.n) {
		u->at += piece;
		piece_begin(u);
	}
	return n;
}

/* Sends what the socket takes, a piece of each answer in turn.  Returns the error of a connection that has failed. */
static int send_queue_locked(struct conn *c)
{
	struct unsent *u;
	size_t total = 0;
	bool whole;

	while ((u = STAILQ_FIRST(&c->queue)) != NULL && total < SEND_BYTES) {
		const uint64_t before = c->stream.sent;
		const int64_t n = piece_send(c, u, &whole);

		if (c->stream.sent != before)
			c->accepted_us = monotonic_us();
		if (n < 0)
			return n == -EAGAIN ? 0 : n == -EKEYREJECTED ? -EKEYREJECTED : -ANSWER_LOST;
		c->unsent -= (size_t)n;
		total += (size_t)n;
		if (!whole)
			return 0;
		if (u->sent) {
			drop_first(c);
		} else if (STAILQ_NEXT(u, link)) {
			STAILQ_REMOVE_HEAD(&c->queue, link);
			STAILQ_INSERT_TAIL(&c->queue, u, link);
		}
	}
	return 0;
}

/* Queues the rest of a frame, and takes its body. */
static int queue_locked(struct conn *c, const struct unsent *rest, struct buf *body)
{
	struct unsent *u;

	if (c->unsent && c->all_held && atomic_load(c->all_held) + memory_of(rest) > CONN_UNSENT_ALL)
		return -ENOBUFS;
	u = malloc(sizeof(*u));
	if (!u)
		return -ENOMEM;
	*u = *rest;
	*body = (struct buf){0};
	if (!c->unsent)
		c->accepted_us = monotonic_us();
	c->unsent += unsent_bytes(u);
	count_held(c, memory_of(u), 0);
	STAILQ_INSERT_TAIL(&c->queue, u, link);
	return 0;
}

int conn_send(struct conn *c, enum frame_kind kind, enum frame_service service, uint64_t number, struct buf *body)
{
	struct buf none = {0};
	struct unsent u;
	bool whole = false;
	int64_t n = 0;
	int err = 0;

	if (!body)
		body = &none;
	if (body->n > FRAME_LARGE_MAX)
		return -EMSGSIZE;
	u = (struct unsent){.kind = kind, .service = service, .number = number, .body = *body};
	piece_begin(&u);
	mutex_lock(&c->lock);
	if (c->stream.fd < 0 || c->closing) {
		err = -UNREACHABLE;
	} else if (!c->unsent) {
		n = piece_send(c, &u, &whole);
		if (n == -EAGAIN)
			n = 0;
		else if (n < 0)
			err = -UNREACHABLE; /* nothing of this frame was sent */
	}
	if (!err && !(whole && u.sent)) {
		err = queue_locked(c, &u, body);
		if (!err)
			post(c);
	}
	mutex_unlock(&c->lock);
	if (err && err != -UNREACHABLE)
		conn_close(c, err);
	else if (err && n < 0)
		conn_close(c, (int)n);
	return err;
}

/* ---- the loop's thread ---- */

static void do_close(struct conn *c)
{
	struct ev_loop *loop = events_loop();
	bool open;
	int why;

	if (c->started) {
		ev_io_stop(loop, &c->readable);
		ev_io_stop(loop, &c->writable);
		ev_timer_stop(loop, &c->tick);
	}
	mutex_lock(&c->lock);
	open = c->stream.fd >= 0;
	why = c->why;
	stream_fini(&c->stream);
	drop_queue(c);
	mutex_unlock(&c->lock);
	if (!open)
		return;
	frame_reader_fini(&c->reader);
	c->ops->closed(c, why);
	if (c->started)
		conn_put(c);
}

void conn_close(struct conn *c, int why)
{
	bool first;

	mutex_lock(&c->lock);
	first = !c->closing;
	if (first) {
		c->closing = true;
		c->why = why;
	}
	mutex_unlock(&c->lock);
	if (first)
		post(c);
}

static bool may_read(const struct conn *c)
{
	return c->ops->patient || (!c->waits && c->held < CONN_UNSENT_MAX && atomic_load(&c->requests) < CONN_REQUESTS_MAX);
}

/* Watches what the state of the connection needs. */
static void watch(struct conn *c)
{
	struct ev_loop *loop = events_loop();
	bool write, read, more;

	mutex_lock(&c->lock);
	write = (c->unsent && !c->stream.send_waits) || c->stream.receive_waits;
	read = may_read(c) || (c->unsent && c->stream.send_waits);
	more = c->stream.more;
	mutex_unlock(&c->lock);
	if (read && more)
		ev_feed_event(loop, &c->readable, EV_READ);
	if (read != (bool)ev_is_active(&c->readable)) {
		if (read)
			ev_io_start(loop, &c->readable);
		else
			ev_io_stop(loop, &c->readable);
		c->begun_us = monotonic_us(); /* while it is not read, a frame cannot progress */
	}
	if (write && !ev_is_active(&c->writable))
		ev_io_start(loop, &c->writable);
	else if (!write)
		ev_io_stop(loop, &c->writable);
}

static void on_call(struct event_call *call)
{
	struct conn *c = (struct conn *)((char *)call - offsetof(struct conn, wake));
	bool closing, waited;
	int err;

	mutex_lock(&c->lock);
	closing = c->closing;
	waited = c->unsent != 0;
	err = !closing && c->stream.fd >= 0 ? send_queue_locked(c) : 0;
	if (err) {
		c->closing = closing = true;
		c->why = err;
	}
	mutex_unlock(&c->lock);
	if (!closing && waited && c->ops->sent)
		c->ops->sent(c);
	if (closing)
		do_close(c);
	else if (c->started)
		watch(c);
	conn_put(c);
}

static int serve_frame(struct conn *c)
{
	struct frame *f = &c->reader.frame;
	int err;

	if (f->kind == FRAME_PING)
		err = f->length ? -EBADMSG : c->greeted ? conn_send(c, FRAME_PONG, 0, f->number, NULL) : -EBADMSG;
	else if (f->kind == FRAME_PONG)
		err = f->length || !c->greeted ? -EBADMSG : 0;
	else {
		if (f->kind == FRAME_REQUEST)
			atomic_fetch_add(&c->requests, 1);
		err = (f->kind == FRAME_HELLO) == c->greeted ? -EBADMSG : c->ops->frame(c, f);
	}
	buf_fini(&f->body);
	return err == -UNREACHABLE ? 0 : err;
}

/* TLS receives under the lock, because another thread may send meanwhile. */
static int64_t receive(struct conn *c, uint8_t *p, size_t n)
{
	const bool shared = c->stream.ssl != NULL;
	uint64_t before;
	int64_t got;

	if (shared)
		mutex_lock(&c->lock);
	before = c->stream.received;
	got = stream_receive(&c->stream, p, n);
	if (c->stream.received != before) { /* maybe a part of a record of TLS */
		atomic_store(&c->received_us, monotonic_us());
		if (c->greeted)
			c->begun_us = atomic_load(&c->received_us);
	}
	if (shared) {
		if (c->stream.send_waits && c->unsent)
			post(c);
		c->stream.send_waits = false;
		mutex_unlock(&c->lock);
	}
	return got;
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	static uint8_t bytes[READ_BYTES]; /* the loop has one thread */
	struct conn *c = w->data;
	const int64_t n = receive(c, bytes, sizeof(bytes));
	struct tfs_bytes in = {bytes, n > 0 ? (size_t)n : 0};
	int r = 0;

	if (n == -EAGAIN) {
		watch(c);
		return;
	}
	if (n <= 0) {
		conn_close(c, n ? (int)n : frame_begun(&c->reader) ? -ANSWER_LOST : 0);
		return;
	}
	conn_get(c);
	while (in.n && r >= 0) {
		r = frame_read(&c->reader, &in);
		if (r == 1)
			r = serve_frame(c);
		if (r == 2) {
			c->reader.admitted = !c->ops->admit || c->ops->admit(c, c->reader.frame.length);
			c->waits = !c->reader.admitted;
		}
	}
	if (r < 0)
		conn_close(c, r);
	else
		watch(c);
	conn_put(c);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct conn *c = w->data;

	if (c->stream.receive_waits)
		ev_feed_event(loop, &c->readable, EV_READ);
	post(c);
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct conn *c = w->data;
	uint64_t now;
	bool stuck;

	/* While this side does not read, it does not read the peer's PING either. */
	if (c->greeted && c->waits)
		(void)!conn_send(c, FRAME_PONG, 0, 0, NULL);
	mutex_lock(&c->lock);
	now = monotonic_us(); /* read under the lock, so that it is not earlier than the time of a sender */
	stuck = c->unsent && now - c->accepted_us > CONN_STALL_US;
	mutex_unlock(&c->lock);
	if (stuck ||
		((!c->greeted || (frame_begun(&c->reader) && ev_is_active(&c->readable))) && now - c->begun_us > CONN_STALL_US))
		conn_close(c, -ETIMEDOUT);
}

void conn_begin(struct conn *c)
{
	struct ev_loop *loop = events_loop();

	conn_get(c);
	c->started = true;
	ev_io_init(&c->readable, on_readable, c->stream.fd, EV_READ);
	ev_io_init(&c->writable, on_writable, c->stream.fd, EV_WRITE);
	ev_timer_init(&c->tick, on_tick, TICK_S, TICK_S);
	c->readable.data = c->writable.data = c->tick.data = c;
	if (!c->ops->patient)
		ev_timer_start(loop, &c->tick);
	ev_io_start(loop, &c->readable);
	watch(c);
}

void conn_greeted(struct conn *c)
{
	c->greeted = true;
	if (c->reader.most == FRAME_HELLO_MAX)
		c->reader.most = FRAME_SMALL_MAX;
}

struct tfs_bytes conn_key(const struct conn *c)
{
	return stream_key(&c->stream);
}

const char *conn_reason(const struct conn *c)
{
	return c->stream.reason;
}

void conn_admit(struct conn *c)
{
	c->reader.admitted = true;
	c->waits = false;
	if (c->stream.fd >= 0 && c->started)
		watch(c);
}

void conn_answered(struct conn *c)
{
	if (atomic_fetch_sub(&c->requests, 1) == CONN_REQUESTS_MAX)
		post(c);
}
