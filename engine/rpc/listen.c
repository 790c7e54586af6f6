/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of the connections decodes requests for tablets and passes them to the
 * dispatcher, whose workers answer.  Other requests wait in a queue of their own.  The
 * workers are started with the first connection.
 *
 * Memory.  The bytes of a large request are reserved at its header, first come, first
 * served, and until it is answered, so a request that was admitted can always
 * complete.  Beside its first request a user has at most a quarter of the memory.
 */
#include "engine/rpc/listen_impl.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/rpc/events.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOW_QUEUE 256u
#define ACCEPT_MAX 64u /* connections that are accepted at once */

/* ---- requests of this process and of peers ---- */

static int watched_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct listener *l = (struct listener *)((char *)s - offsetof(struct listener, watched));
	int err = q->limited ? limit_tablets(q->limited, q) : 0;

	if (err)
		return err;
	err = ts_call(l->tablets, q, a);
	if (request_changes(q) && may_be_applied(err))
		listen_note_cells(l, q);
	if (q->method == TS_UNLOAD && may_be_applied(err))
		listen_note_tablets(l, q);
	if (q->method == TS_NOTE_SCHEMAS)
		listen_note_schemas(l, q->incarnation);
	return err;
}

/* ---- memory for large requests ---- */

static bool may_reserve(const struct listener *l, const struct peer *p, size_t bytes)
{
	size_t user = 0;
	const struct peer *other;

	if (l->reserved && l->reserved + bytes > LISTEN_MEMORY)
		return false;
	TAILQ_FOREACH (other, &l->peers, link)
		if (other->rights.peer == p->rights.peer)
			user += other->reserved;
	return !user || user + bytes <= LISTEN_MEMORY / 4;
}

static void reserve(struct peer *p, size_t bytes)
{
	p->reading = bytes;
	p->reserved += bytes;
	p->listener->reserved += bytes;
}

static void release(struct peer *p, size_t bytes)
{
	p->reserved -= bytes;
	p->listener->reserved -= bytes;
}

static void serve_line(struct listener *l)
{
	struct peer *p, *next;

	for (p = TAILQ_FIRST(&l->line); p; p = next) {
		next = TAILQ_NEXT(p, in_line);
		if (!may_reserve(l, p, p->wants))
			continue;
		TAILQ_REMOVE(&l->line, p, in_line);
		reserve(p, p->wants);
		p->wants = 0;
		conn_admit(p->conn);
	}
}

static bool on_admit(struct conn *c, uint32_t bytes)
{
	struct peer *p = conn_owner(c);
	struct listener *l = p->listener;

	if (TAILQ_EMPTY(&l->line) && may_reserve(l, p, bytes)) {
		reserve(p, bytes);
		return true;
	}
	p->wants = bytes;
	TAILQ_INSERT_TAIL(&l->line, p, in_line);
	return false;
}

/* ---- requests ---- */

struct asked {
	struct event_call release;
	STAILQ_ENTRY(asked) link;
	struct peer *peer; /* the request holds a reference to its connection */
	enum frame_service service;
	uint64_t number;
	size_t reserved;
	struct buf request;
};

static void asked_free(struct asked *x)
{
	conn_put(x->peer->conn);
	buf_fini(&x->request);
	free(x);
}

/* On the loop's thread: the memory of a large request is free again. */
static void on_release(struct event_call *call)
{
	struct asked *x = (struct asked *)((char *)call - offsetof(struct asked, release));
	struct listener *l = x->peer->listener;

	release(x->peer, x->reserved);
	serve_line(l);
	asked_free(x);
}

/* A dispatch_answer_fn. */
static void on_answer(void *arg, int err, struct buf *answer)
{
	struct asked *x = arg;
	struct conn *c = x->peer->conn;

	if (!err)
		err = conn_send(c, FRAME_ANSWER, x->service, x->number, answer);
	if (err && err != -UNREACHABLE)
		conn_close(c, err);
	conn_answered(c);
	if (x->reserved) {
		x->release.fn = on_release;
		(void)events_post(&x->release);
	} else {
		asked_free(x);
	}
}

static int on_check(void *peer, struct ts_request *q)
{
	struct peer *p = peer;

	q->limited = p->rights.key && p->rights.key->table_count ? p : NULL;
	return peer_may_ask_tablets(&p->rights, q);
}

static int serve_master(struct peer *p, struct tfs_bytes request, struct buf *answer)
{
	struct listener *l = p->listener;
	struct arena arena = {0};
	struct ms_answer a = {0};
	struct ms_request q;
	unsigned tries = 0;
	int err = ms_request_unpack(request, &arena, &q);

	if (!err) {
		a.err = peer_may_ask_master(&p->rights, &q);
		/* A server passes on the request of its client. */
		if (!(p->rights.key && p->rights.key->role == KEY_CLUSTER))
			q.client = p->rights.client;
		if (!a.err)
			a.err = limit_master(p, &q);
		if (!a.err) {
			a.err = ms_call(l->o.master, &q, &a);
			if (ms_changes_schemas(q.method) && may_be_applied(a.err))
				listen_note_schemas(l, p->rights.client);
		}
		do
			err = ms_answer_pack(&q, &a, answer);
		while (wire_again(err, &tries));
	}
	ms_answer_fini(&a);
	arena_fini(&arena);
	return err;
}

static void serve_slow(struct asked *x)
{
	struct listener *l = x->peer->listener;
	struct buf answer = {0};
	int err = x->service == FRAME_MASTER ? serve_master(x->peer, buf_bytes(&x->request), &answer)
					     : ss_serve(l->o.store, &x->peer->asks, buf_bytes(&x->request), &answer);

	on_answer(x, err, &answer);
	buf_fini(&answer);
}

static bool is_of_client(const struct asked *x)
{
	return !(x->peer->rights.key && x->peer->rights.key->role == KEY_CLUSTER);
}

/*
 * Half of the workers serve the store's requests only: a request for the master may wait until others have read schemas.
 * One worker serves processes of the cluster only.  To answer a client, a server asks the other
 * servers for their load; without that worker, two servers could wait for each other.
 */
static struct asked *next_slow(struct listener *l)
{
	struct asked *x;

	STAILQ_FOREACH (x, &l->queue, link)
		if ((x->service != FRAME_MASTER || l->master_workers < SLOW_WORKERS / 2) &&
			(!is_of_client(x) || l->client_workers < SLOW_WORKERS - 1))
			return x;
	return NULL;
}

static void on_slow(struct task *t)
{
	struct slow_worker *w = (struct slow_worker *)t;
	struct listener *l = w->listener;
	struct asked *x;

	mutex_lock(&l->lock);
	while ((x = next_slow(l)) != NULL) {
		const bool master = x->service == FRAME_MASTER, client = is_of_client(x);

		STAILQ_REMOVE(&l->queue, x, asked, link);
		l->queued--;
		l->master_workers += master;
		l->client_workers += client;
		mutex_unlock(&l->lock);
		serve_slow(x);
		mutex_lock(&l->lock);
		l->master_workers -= master;
		l->client_workers -= client;
	}
	w->idle = true;
	mutex_unlock(&l->lock);
}

/* Returns false if too many requests wait. */
static bool queue_slow(struct listener *l, struct asked *x)
{
	struct slow_worker *w = NULL;
	bool full;

	mutex_lock(&l->lock);
	full = l->queued >= SLOW_QUEUE;
	if (!full) {
		STAILQ_INSERT_TAIL(&l->queue, x, link);
		l->queued++;
		for (unsigned i = 0; i < SLOW_WORKERS && !w; i++)
			if (l->workers[i].idle)
				w = &l->workers[i];
		if (w)
			w->idle = false;
	}
	mutex_unlock(&l->lock);
	if (w)
		task_queue(&w->task);
	return !full;
}

static int serve_request(struct peer *p, struct frame *f)
{
	struct listener *l = p->listener;
	struct asked *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->peer = p;
	x->service = f->service;
	x->number = f->number;
	x->reserved = p->reading;
	p->reading = 0;
	atomic_fetch_add(&p->requests, 1);
	conn_get(p->conn);
	if (f->service == FRAME_TABLETS) {
		dispatch_request_from(l->dispatcher, on_check, p, &f->body, on_answer, x);
		return 0;
	}
	x->request = f->body;
	f->body = (struct buf){0};
	if (queue_slow(l, x))
		return 0;
	conn_answered(p->conn);
	release(p, x->reserved);
	asked_free(x);
	return -EBUSY;
}

/* ---- HELLO ---- */

static int refuse_hello(struct peer *p, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse_hello(struct peer *p, int err, const char *fmt, ...)
{
	struct hello h = {.version = HELLO_VERSION, .err = err};
	struct buf b = {0};
	char why[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	h.why = why;
	if (hello_pack(&h, &b) == 0)
		(void)!conn_send(p->conn, FRAME_HELLO, 0, 0, &b);
	buf_fini(&b);
	who_log(p->listener, p, "%s", why);
	return err;
}

static int check_hello(struct peer *p, const struct hello *h)
{
	const struct listener *l = p->listener;
	struct peer *other;
	bool taken = false;

	if (h->version != HELLO_VERSION)
		return refuse_hello(
			p, -EPROTO, "it speaks version %u of the protocol, this server version %u", h->version, HELLO_VERSION);
	if (h->store.n && !bytes_eq(h->store, l->o.store_id))
		return refuse_hello(p, -EXDEV, "it wants another store than the one of this directory");
	if (h->server && h->server != l->o.server)
		return refuse_hello(p, -EXDEV, "it wants server %llu, and this is server %llu", (unsigned long long)h->server,
			(unsigned long long)l->o.server);
	if (!(h->client & TS_CLIENT_RANDOM) && !(p->rights.key && p->rights.key->role == KEY_CLUSTER))
		return refuse_hello(p, -EPERM, "its id %llu is one of a server", (unsigned long long)h->client);
	TAILQ_FOREACH (other, &l->peers, link)
		taken = taken || (other->rights.client == h->client && other->rights.peer != p->rights.peer);
	return taken ? refuse_hello(p, -EPERM, "another user's client has its id") : 0;
}

/* A peer of TCP is known now. */
static int admit_network(struct peer *p)
{
	int err = who_greets(p);

	if (!err && !who_fits(p->listener, p))
		err = -EMFILE;
	p->asks = (struct ss_peer){.name = p->name, .owner = p->rights.owner, .key = p->rights.key};
	return err;
}

static int on_hello(struct peer *p, struct tfs_bytes body)
{
	struct listener *l = p->listener;
	struct hello mine = {.version = HELLO_VERSION, .store = l->o.store_id, .server = l->o.server};
	struct arena arena = {0};
	struct hello h = {0};
	struct buf b = {0};
	int err = hello_unpack(body, &arena, &h);

	if (!err && p->network)
		err = admit_network(p);
	if (!err && listen_refuses(l, p))
		err = refuse_hello(p, -EPERM, "the owner of the store has disconnected it");
	mutex_lock(&l->lock);
	if (!err)
		err = check_hello(p, &h);
	if (!err) {
		if (h.large || h.single)
			conn_enlarge(p->conn);
		p->rights.client = h.client;
		p->large = h.large;
		snprintf(p->program, sizeof(p->program), "%s", h.program ? h.program : "");
		text_hide_controls(p->program);
		p->greeted = true;
	}
	mutex_unlock(&l->lock);
	arena_fini(&arena);
	mine.uid = p->cred.uid;
	mine.gid = p->cred.gid;
	mine.is_user = !p->network;
	mine.for_others = p->network || p->rights.owner;
	mine.squash_root = p->rights.key && p->rights.key->squash == SQUASH_ROOT;
	if (!err)
		err = hello_pack(&mine, &b);
	if (!err)
		err = conn_send(p->conn, FRAME_HELLO, 0, 0, &b);
	if (!err)
		conn_greeted(p->conn);
	buf_fini(&b);
	return err;
}

static int on_frame(struct conn *c, struct frame *f)
{
	struct peer *p = conn_owner(c);

	if (f->kind == FRAME_HELLO)
		return on_hello(p, buf_bytes(&f->body));
	if (f->kind == FRAME_NOTICE)
		return notice_received(p, f);
	return f->kind == FRAME_REQUEST ? serve_request(p, f) : -EBADMSG;
}

/* ---- connections ---- */

static void log_end(const struct peer *p, int why)
{
	struct listener *l = p->listener;

	if (why == -EBADMSG)
		who_log(l, p, "it sent what is not a frame of this protocol");
	else if (why == -EMSGSIZE)
		who_log(l, p, "a frame is too long");
	else if (why == -ENOBUFS)
		who_log(l, p, "too many answers wait for their clients");
	else if (why == -ETIMEDOUT)
		who_log(l, p,
			p->greeted ? "it has not sent or taken a byte of a frame for 10 s" : "it has not sent its HELLO for 10 s");
	else if (why == -ETIME)
		who_log(l, p, "it keeps permissions that have changed");
	else if (why == -EMFILE)
		who_log(l, p, "it has too many connections");
	else if (why == -EKEYREJECTED)
		who_log(l, p, "it has no valid key (%s)", conn_reason(p->conn) ? conn_reason(p->conn) : "none was used");
	else if (why == -EKEYREVOKED)
		who_log(l, p, "its key was changed or removed");
	else if (why == -EPERM || why == -EBUSY || why == -ENOMEM)
		who_log(l, p, "%s", strerror(-why));
}

static void on_closed(struct conn *c, int why)
{
	struct peer *p = conn_owner(c);
	struct listener *l = p->listener;

	if (p->wants) {
		TAILQ_REMOVE(&l->line, p, in_line);
		p->wants = 0;
	}
	release(p, p->reading);
	p->reading = 0;
	serve_line(l);
	log_end(p, why);
	notice_closed(p);
}

static void on_sent(struct conn *c)
{
	notice_sent(conn_owner(c));
}

static void peer_free(void *owner)
{
	struct peer *p = owner;
	struct listener *l = p->listener;

	mutex_lock(&l->lock);
	TAILQ_REMOVE(&l->peers, p, link);
	l->peer_count--;
	cond_broadcast(&l->gone);
	mutex_unlock(&l->lock);
	who_fini(p);
	watcher_free(p->watcher);
	free(p);
}

static const struct conn_ops conn_ops = {
	.frame = on_frame, .admit = on_admit, .sent = on_sent, .closed = on_closed, .free = peer_free};

static int start_workers(struct listener *l)
{
	static const struct dispatch_limits limits[DISPATCH_CLASSES] = {[DISPATCH_CONTROL] = {2, 256},
		[DISPATCH_SORT] = {1, 16},
		[DISPATCH_ROOT] = {2, 256},
		[DISPATCH_METADATA] = {4, 1024},
		[DISPATCH_TABLETS] = {1, 64},
		[DISPATCH_USER] = {32, 1024}};
	int err = l->dispatcher ? 0 : dispatch_new(&l->watched, limits, &l->dispatcher);

	if (err || l->slow)
		return err;
	err = task_pool_new("rpc-master", SLOW_WORKERS, &l->slow);
	if (!err)
		task_init(&l->restricted, l->slow, notice_task);
	for (unsigned i = 0; i < SLOW_WORKERS && !err; i++) {
		l->workers[i].listener = l;
		l->workers[i].idle = true;
		task_init(&l->workers[i].task, l->slow, on_slow);
	}
	return err;
}

/* Takes fd. */
static void accept_peer(struct door *d, int fd)
{
	struct listener *l = d->listener;
	struct peer *p = calloc(1, sizeof(*p));
	int err = !p ? -ENOMEM : l->paused ? -EAGAIN : 0;

	if (!err) {
		p->listener = l;
		p->network = d->network;
		err = who_connects(p, fd);
	}
	if (!err && !who_fits(l, p)) {
		who_log(l, p, "it has too many connections");
		err = -EMFILE;
	}
	if (!err)
		err = start_workers(l);
	if (!err)
		err = conn_new(fd, d->network ? l->tls : NULL, &conn_ops, p, &p->conn);
	if (err) {
		socket_abort(fd);
		if (p)
			who_fini(p);
		free(p);
		return;
	}
	conn_bound(p->conn, &l->unsent);
	p->number = ++l->numbers;
	p->since_us = monotonic_us();
	p->asks = (struct ss_peer){.name = p->name, .owner = p->rights.owner, .key = p->rights.key};
	mutex_lock(&l->lock);
	TAILQ_INSERT_TAIL(&l->peers, p, link);
	l->peer_count++;
	mutex_unlock(&l->lock);
	conn_begin(p->conn);
	conn_put(p->conn); /* the loop has one until it is closed */
}

static void on_acceptable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct door *d = w->data;
	int fd, err = 0;

	for (unsigned i = 0; i < ACCEPT_MAX && (err = socket_accept(d->fd, &fd)) == 0; i++)
		accept_peer(d, fd);
	if (err && err != -EAGAIN) { /* no descriptors, for example */
		ev_io_stop(loop, w);
		ev_timer_set(&d->listener->again, 1., 0.);
		ev_timer_start(loop, &d->listener->again);
	}
}

static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct listener *l = w->data;

	for (unsigned i = 0; i < DOORS; i++)
		if (l->doors[i].fd >= 0)
			ev_io_start(loop, &l->doors[i].acceptable);
}

unsigned listen_peers(struct listener *l)
{
	unsigned n;

	mutex_lock(&l->lock);
	n = l->peer_count;
	mutex_unlock(&l->lock);
	return n;
}

/* ---- lifetime ---- */

static void begin(void *arg)
{
	struct listener *l = arg;

	ev_timer_init(&l->again, on_again, 0., 0.);
	l->again.data = l;
	for (unsigned i = 0; i < DOORS; i++) {
		struct door *d = &l->doors[i];

		ev_io_init(&d->acceptable, on_acceptable, d->fd, EV_READ);
		d->acceptable.data = d;
		if (d->fd >= 0)
			ev_io_start(events_loop(), &d->acceptable);
	}
	notice_begin(l);
}

static void close_peers(struct listener *l)
{
	struct peer *p;

	mutex_lock(&l->lock);
	TAILQ_FOREACH (p, &l->peers, link)
		conn_close(p->conn, 0);
	mutex_unlock(&l->lock);
}

static void pause_door(void *arg)
{
	struct listener *l = arg;

	l->paused = true;
	close_peers(l);
}

static void open_door(void *arg)
{
	((struct listener *)arg)->paused = false;
}

void listen_pause(struct listener *l, bool pause)
{
	if (l->started)
		events_run(pause ? pause_door : open_door, l);
}

static void end(void *arg)
{
	struct listener *l = arg;

	for (unsigned i = 0; i < DOORS; i++) {
		ev_io_stop(events_loop(), &l->doors[i].acceptable);
		if (l->doors[i].fd >= 0)
			close(l->doors[i].fd); /* here, because the loop may still get an event of it */
		l->doors[i].fd = -1;
	}
	ev_timer_stop(events_loop(), &l->again);
	notice_end(l);
	close_peers(l);
}

int listen_new(int fd, struct tablet_service *tablets, struct listener **out)
{
	static const struct tablet_service_ops ops = {.call = watched_call};
	struct listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->doors[0] = (struct door){.listener = l, .fd = fd};
	l->doors[1] = (struct door){.listener = l, .fd = -1, .network = true};
	l->owner = geteuid();
	l->tablets = tablets;
	l->watched = *tablets;
	l->watched.ops = &ops;
	mutex_init(&l->lock, RANK_WIRE);
	cond_init(&l->gone);
	cond_init(&l->told);
	TAILQ_INIT(&l->peers);
	TAILQ_INIT(&l->watchers);
	TAILQ_INIT(&l->line);
	STAILQ_INIT(&l->queue);
	*out = l;
	return 0;
}

int listen_network(struct listener *l, int fd, struct keys *keys)
{
	int err = keys ? tls_server_new(keys, &l->tls) : 0;

	if (err) {
		close(fd);
		return err;
	}
	l->doors[1].fd = fd;
	l->keys = keys ? keys_get(keys) : NULL;
	return 0;
}

struct new_keys {
	struct listener *listener;
	struct keys *keys;
};

static void set_keys(void *arg)
{
	const struct new_keys *n = arg;
	struct listener *l = n->listener;
	const struct key *k;
	struct peer *p;

	tls_set_keys(l->tls, n->keys);
	keys_put(l->keys);
	l->keys = keys_get(n->keys);
	mutex_lock(&l->lock);
	TAILQ_FOREACH (p, &l->peers, link) {
		k = p->keys ? keys_find(n->keys, tfs_str(p->rights.key->name)) : NULL;
		/* A stranger may have shown a secret that is not valid any more. */
		if (p->network && (!p->greeted || !k || !key_same(k, p->rights.key)))
			conn_close(p->conn, -EKEYREVOKED);
	}
	mutex_unlock(&l->lock);
}

void listen_set_keys(struct listener *l, struct keys *keys)
{
	struct new_keys n = {l, keys};

	if (l->tls && l->started)
		events_run(set_keys, &n);
}

struct tablet_service *listen_tablets(struct listener *l)
{
	return &l->watched;
}

int listen_start(struct listener *l, const struct listen_options *o)
{
	int err = o->store_id.n <= sizeof(l->store_id) ? events_start() : -EINVAL;

	if (err)
		return err;
	l->o = *o;
	if (o->store_id.n)
		memcpy(l->store_id, o->store_id.p, o->store_id.n);
	l->o.store_id.p = l->store_id;
	l->started = true;
	events_run(begin, l);
	return 0;
}

void listen_stop(struct listener *l)
{
	if (!l->started)
		return;
	l->started = false;
	events_run(end, l);
	mutex_lock(&l->lock);
	while (l->peer_count)
		cond_wait(&l->gone, &l->lock);
	mutex_unlock(&l->lock);
	dispatch_free(l->dispatcher);
	if (l->slow)
		task_cancel(&l->restricted);
	task_pool_free(l->slow);
	l->dispatcher = NULL;
	l->slow = NULL;
	events_stop();
}

void listen_free(struct listener *l)
{
	if (!l)
		return;
	listen_stop(l);
	for (unsigned i = 0; i < DOORS; i++)
		if (l->doors[i].fd >= 0)
			close(l->doors[i].fd);
	tls_free(l->tls);
	keys_put(l->keys);
	watcher_free(l->local);
	cond_fini(&l->told);
	cond_fini(&l->gone);
	mutex_fini(&l->lock);
	free(l);
}
