/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller sends its request itself, and sleeps until the thread of the connections has
 * received the answer, or the connection is lost.  A caller that has heard nothing for
 * PING_US asks for a sign of life, and gives the connection up after SILENT_US.
 *
 * A call connects if there is no connection.  Other calls wait for it meanwhile.
 */
#include "engine/rpc/channel.h"

#include "engine/base/clock.h"
#include "engine/base/hashtable.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/base/socket.h"
#include "engine/base/stop.h"
#include "engine/rpc/conn.h"
#include "engine/rpc/events.h"
#include "engine/rpc/listen_check.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PING_US 2500000u
#define STUCK_US 1000000u /* mounts get a notice four times a second */
#define SILENT_US 5000000u
#define STREAM_SHIFT 40
#define PAUSE_FIRST_US 2000u
#define PAUSE_MOST_US 100000u
#define SCAN_BATCH_MAX ((size_t)512 << 10) /* the largest cell fits behind it into a small frame */

/* One connection.  The conn owns it. */
struct link {
	struct channel *channel;
	struct conn *conn;
	bool large;
	uint64_t stream;      /* its number among the small connections, in the upper bits of the numbers of notices */
	uint64_t notices;     /* that have come */
	struct event greeted; /* 1: the HELLO of the server has come, or the connection is lost */
	int err;              /* then */
	char *why;
};

struct waiting {
	uint64_t number;
	const struct conn *conn;
	struct event done;
	int err;
	struct buf answer;
	UT_hash_handle hh;
};

struct tablet_channel {
	struct tablet_service base;
	struct channel *channel;
};
struct master_channel {
	struct master_service base;
	struct channel *channel;
};

struct channel {
	struct channel_options o;
	char *program;
	pid_t pid;
	struct tablet_channel tablets;
	struct master_channel master;

	struct mutex lock; /* RANK_WIRE; guards the next members */
	struct cond connected;
	struct conn *conn[2]; /* small, large; NULL: not connected */
	bool connecting[2];
	struct waiting *waiting;
	uint64_t number, streams;
	uint8_t store[16]; /* the store's id, once it is known */
	size_t store_n;
	bool watches, unreachable; /* unreachable: it was logged */
	bool ended;                /* the server has ended (channel_end) */
	_Atomic bool squash_root;  /* as the server's HELLO has it */
	struct tfs_login login;    /* as the server's HELLO has it */
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
	return 0; /* its caller may have given up */
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
	const uint64_t until = monotonic_us() + dial_patience_us(c->o.dial, c->o.timeout_us);
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
	/* A server that starts answers when it has replayed its log. */
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

static int connect_new(struct channel *c, bool large, struct conn **out, char **why)
{
	struct link *l = calloc(1, sizeof(*l));
	struct conn *conn = NULL;
	struct dialled to = {.fd = -1};
	int err = l ? dial_connect(c->o.dial, &to, why) : -ENOMEM;

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

/* Returns a reference to the connection, which is made if there is none. */
static int connection(struct channel *c, bool large, struct conn **out, char **why)
{
	struct conn *made = NULL;
	int err = 0;

	mutex_lock(&c->lock);
	while (!c->conn[large] && c->connecting[large] && !err)
		if (!cond_wait_us(&c->connected, &c->lock, STOP_CHECK_US)) {
			mutex_unlock(&c->lock);
			err = stop_asked_waiting(true) ? -WAIT_INTERRUPTED : 0;
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
	int err;

	mutex_lock(&c->lock);
	connected = c->conn[0] != NULL;
	watches = c->watches;
	c->watches = true;
	conn = c->conn[0];
	if (connected)
		conn_get(conn);
	mutex_unlock(&c->lock);
	if (!connected) {
		err = connection(c, false, &conn, &why);
		free(why);
		if (err)
			return err;
	} else if (!watches) {
		(void)!conn_send(conn, FRAME_NOTICE, 0, 0, NULL);
	}
	conn_put(conn);
	return 0;
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

/* The connection was closed: the next call makes another one. */
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

static void stop_waiting(struct channel *c, struct waiting *w)
{
	struct waiting *found;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->waiting, &w->number, sizeof(w->number), found);
	if (found)
		HASH_DEL(c->waiting, w);
	mutex_unlock(&c->lock);
}

/* Waits for the answer.  limit_us 0: without end. */
static int await(struct channel *c, struct conn *conn, struct waiting *w, uint64_t limit_us)
{
	const uint64_t since = monotonic_us();
	uint64_t pinged = 0;

	while (!event_wait_us(&w->done, 0, limit_us && limit_us < STOP_CHECK_US ? limit_us : STOP_CHECK_US)) {
		const uint64_t silent = conn_silent_us(conn), waited = monotonic_us() - since;
		const bool stuck = silent >= STUCK_US && waited >= STUCK_US;
		const int err = limit_us && waited >= limit_us ? -ETIMEDOUT : stop_asked_waiting(stuck) ? -WAIT_INTERRUPTED : 0;

		if (err) {
			stop_waiting(c, w);
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

/* Sends a request, for whose answer *w waits from then on.  May take *request, but -UNREACHABLE: it was not sent, and not taken. */
static int send_on(struct channel *c, struct conn *conn, enum frame_service service, struct buf *request, struct waiting *w)
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
		stop_waiting(c, w);
	if (err == -UNREACHABLE)
		drop(c, conn);
	return err;
}

/* Waits for the answer, and takes it. */
static int receive_on(struct channel *c, struct conn *conn, struct waiting *w, uint64_t limit_us, struct buf *answer)
{
	int err = await(c, conn, w, limit_us);

	if (err)
		buf_fini(&w->answer);
	else
		*answer = w->answer;
	return err;
}

/* The same as send_on and receive_on. */
static int call(struct channel *c, enum frame_service service, struct buf *request, uint64_t limit_us, struct buf *answer)
{
	struct waiting w;
	struct conn *conn;
	char *why = NULL;
	int err;

	if (getpid() != c->pid)
		return -EPERM;
	if (request->n > FRAME_LARGE_MAX)
		return -E2BIG;
	err = connection(c, request->n > FRAME_PIECE && !dial_is_single(c->o.dial), &conn, &why);
	if (err) {
		mutex_lock(&c->lock);
		if (!c->unreachable && !c->ended && err != -WAIT_INTERRUPTED)
			msg_warning("%s: %s", why ? why : dial_name(c->o.dial), why ? "no connection" : error_text(err));
		c->unreachable = c->unreachable || err != -WAIT_INTERRUPTED;
		mutex_unlock(&c->lock);
		free(why);
		return err == -ENOMEM || err == -WAIT_INTERRUPTED ? err : -UNREACHABLE;
	}
	err = send_on(c, conn, service, request, &w);
	if (!err)
		err = receive_on(c, conn, &w, limit_us, answer);
	conn_put(conn);
	return err;
}

/* Returns false if the time is over; *err is set if the caller's wait ends before. */
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
 * The user of a request.  If the server takes root for nobody, a mount asks for names without a
 * user, and for cells on behalf of the user of the call that its thread serves.
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
		err = call(c, FRAME_TABLETS, &request, q->time_left_us, &answer);
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
		err = call(c, FRAME_TABLETS, &request, limit_us, &answer);
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
	int err = x ? tablets_pack(c, q, &request) : -ENOMEM;

	if (!err) {
		mutex_lock(&c->lock);
		x->conn = request.n <= FRAME_PIECE ? c->conn[0] : NULL;
		if (x->conn)
			conn_get(x->conn);
		mutex_unlock(&c->lock);
		err = x->conn ? send_on(c, x->conn, FRAME_TABLETS, &request, &x->w) : -UNREACHABLE;
	}
	buf_fini(&request);
	if (!err) {
		x->base.service = s;
		x->limit_us = q->time_left_us;
		return &x->base;
	}
	if (x && x->conn)
		conn_put(x->conn);
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
		return -EPERM; /* what was sent is the parent's */
	err = receive_on(c, x->conn, &x->w, x->limit_us, &answer);
	conn_put(x->conn);
	free(x);
	return err ? err : tablets_unpack(&answer, q, a);
}

static void tablets_forget(struct ts_sent *sent)
{
	struct channel *c = ((struct tablet_channel *)sent->service)->channel;
	struct sent *x = (struct sent *)sent;

	if (getpid() != c->pid)
		return;
	stop_waiting(c, &x->w);
	conn_put(x->conn);
	buf_fini(&x->w.answer);
	free(x);
}

static int master_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	struct channel *c = ((struct master_channel *)s)->channel;
	const uint64_t until = monotonic_us() + c->o.timeout_us;
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
			err = call(c, FRAME_MASTER, &request, 0, &answer);
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
int channel_store(struct channel *c, const struct ss_request *q, struct ss_answer *a)
{
	const uint64_t until = monotonic_us() + c->o.timeout_us;
	struct buf request = {0}, answer = {0};
	uint64_t pause_us = PAUSE_FIRST_US;
	int err;

	do {
		const uint64_t now = monotonic_us();

		buf_fini(&request);
		err = ss_request_pack(q, &request);
		if (!err)
			err = call(c, FRAME_STORE, &request, now < until ? until - now : 1, &answer);
	} while ((err == -UNREACHABLE || err == -ANSWER_LOST || err == -ETIMEDOUT) && pause_until(until, &pause_us, &err));
	buf_fini(&request);
	if (err)
		return err == -ANSWER_LOST || err == -ETIMEDOUT ? -UNREACHABLE : err;
	err = ss_answer_unpack(&answer, a);
	return err ? err : a->err;
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
	mutex_lock(&c->lock);
	c->ended = true;
	mutex_unlock(&c->lock);
	hang_up(c);
}

void channel_free(struct channel *c)
{
	if (!c)
		return;
	/* In a child the thread does not exist, and the connections are the parent's. */
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
	mutex_init(&c->lock, RANK_WIRE);
	cond_init(&c->connected);
	err = !c->program ? -ENOMEM : o->later ? 0 : connection(c, false, &conn, why);
	if (err) {
		channel_free(c);
		return err;
	}
	if (!o->later)
		conn_put(conn);
	*out = c;
	return 0;
}
