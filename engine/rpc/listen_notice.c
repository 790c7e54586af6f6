/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports changes to the watchers, which keep what they have read: clients that asked for it
 * (NOTICE), and this process.
 *
 * The thread that makes a change adds it to a queue of each watcher, and sends the queues
 * itself.  While one thread sends, the changes of other threads gather.  A client whose
 * connection takes no more bytes gets the report later.  The change is answered without
 * it after SENT_US, and for LATE_US nothing waits for this client.  A full queue names
 * tables instead of rows.
 *
 * A change of a schema, which may take permissions away, is answered when every peer that may
 * act for other users has dropped what it keeps.  A client that has not done so after HEARD_US
 * is disconnected; then it drops everything.  If it has a key, nothing waits for clients with
 * this key for KEY_LATE_US, because a hostile host could otherwise delay each change of a
 * schema.  They are disconnected after LATE_US.
 */
#include "engine/rpc/listen_impl.h"

#include "engine/base/clock.h"
#include "engine/meta/meta.h"
#include "engine/rpc/events.h"

#include <errno.h>
#include <stdlib.h>

#define SENT_US 100000u
#define LATE_US 10000000u
#define HEARD_US 1000000u
#define KEY_LATE_US 60000000u
#define BEAT_S .25
#define UNSENT_MAX ((size_t)256 << 10) /* bytes before a notice in its connection */
#define UNHEARD 64u                    /* notices */
#define KNOWN 16u
#define RESTRICTED_MOST 8u /* watchers of one user that get no rows */

/* Its peer, or the listener, owns it. */
struct watcher {
	struct peer *peer;         /* NULL: this process */
	TAILQ_ENTRY(watcher) link; /* listener.lock guards the rest, too */
	struct notices queue;
	uint64_t oldest;   /* the number of the oldest change in the queue; 0: it is empty */
	uint64_t sending;  /* the number of the notice that a thread sends */
	uint64_t schemas;  /* the last change of schemas in the queue, or sent */
	uint64_t since_us; /* if `schemas` was not heard: when the peer has last answered, or should have begun to */
	uint64_t heard;    /* the peer has dropped the changes up to this number */
	uint64_t notice;   /* the number of the last notice */
	uint64_t late_us;  /* nothing waits for it until this time */
	uint64_t known_at; /* the change of schemas after which `known` was learned */
	struct {
		uint64_t change; /* the last change that the notice covers */
	} sent[UNHEARD];         /* one for each of the last notices */
	/* The thread that sends: tables that the user of the peer may read. */
	struct {
		uint32_t table;
		bool may;
	} known[KNOWN];
	unsigned known_count;
};

static uint64_t client_of(const struct watcher *w)
{
	return w->peer ? w->peer->rights.client : 0;
}

static bool is_unsent(const struct watcher *w, uint64_t change)
{
	return (w->oldest && w->oldest <= change) || (w->sending && w->sending <= change);
}

static bool may_send(const struct watcher *w)
{
	return w->oldest && !w->sending && (!w->peer || conn_unsent(w->peer->conn) < UNSENT_MAX);
}

/* ---- queues ---- */

static void add_op(struct notices *l, struct notice_row *row, const struct op *op)
{
	row->family = op->kind == OP_DELETE_ROW ? 0 : op->family;
	if (op->kind == OP_CHECK)
		return;
	notices_add(l, row);
	if (op->kind == OP_MOVE && op->to_family != op->family) {
		row->family = op->to_family;
		notices_add(l, row);
	}
}

static void add_rows(struct notices *l, const struct ts_request *q)
{
	struct notice_row row = {.table = q->table};

	if (q->row_count > NOTICE_ROWS) {
		notices_add(l, &row);
		return;
	}
	for (uint32_t i = 0; i < q->row_count; i++) {
		row.row = q->rows[i].row;
		for (uint32_t k = 0; k < q->rows[i].op_count; k++)
			add_op(l, &row, &q->rows[i].ops[k]);
	}
}

/* q NULL: a change of schemas.  Returns the number of the change. */
static uint64_t add_change(struct listener *l, const struct ts_request *q, uint64_t client)
{
	const uint64_t change = ++l->changes;
	struct watcher *w;

	if (!q)
		l->schemas = change;
	TAILQ_FOREACH (w, &l->watchers, link) {
		if (client_of(w) == client)
			continue;
		if (q) {
			add_rows(&w->queue, q);
		} else {
			w->queue.n.schemas = true;
			if (w->schemas <= w->heard)
				w->since_us = monotonic_us();
			w->schemas = change;
		}
		if (!w->oldest)
			w->oldest = change;
	}
	return change;
}

/* ---- sending ---- */

static bool gets_rows(const struct peer_rights *p)
{
	return peer_acts_for_others(p) && !(p->key && p->key->table_count);
}

/* Returns true if the user has too many watchers that get no rows: each of them costs reads of schemas. */
static bool has_too_many(struct listener *l, const struct peer *p)
{
	const struct watcher *w;
	unsigned n = 0;

	if (gets_rows(&p->rights))
		return false;
	TAILQ_FOREACH (w, &l->watchers, link)
		n += w->peer && w->peer->rights.peer == p->rights.peer;
	return n >= RESTRICTED_MOST;
}

static bool may_read(struct watcher *w, uint32_t table)
{
	const struct listen_options *o = &w->peer->listener->o;
	unsigned i = 0;

	while (i < w->known_count && w->known[i].table != table)
		i++;
	if (i == w->known_count) {
		i = w->known_count < KNOWN ? w->known_count++ : 0;
		w->known[i].table = table;
		w->known[i].may = o->may_read && o->may_read(o->arg, &w->peer->rights, table);
	}
	return w->known[i].may;
}

/* Replaces a notice by one with the tables that the peer may read, without rows. */
static int hide_rows(struct watcher *w, struct buf *b)
{
	struct notices tables = {0};
	struct arena arena = {0};
	struct notice n = {0};
	int err = notice_unpack(buf_bytes(b), &arena, &n);

	tables.n.all = n.all;
	tables.n.schemas = n.schemas;
	for (uint32_t i = 0; i < n.row_count && !err; i++)
		if (may_read(w, n.rows[i].table))
			notices_add(&tables, &(struct notice_row){.table = n.rows[i].table});
	buf_reset(b);
	if (!err)
		err = notice_pack(&tables.n, b);
	notices_fini(&tables);
	arena_fini(&arena);
	return err;
}

/* Sends the queue of w.  The lock is held, but not while it sends. */
static void send_queue(struct listener *l, struct watcher *w)
{
	struct conn *c = w->peer ? w->peer->conn : NULL;
	const uint64_t number = ++w->notice;
	struct buf b = {0};
	int err = notice_pack(&w->queue.n, &b);

	w->sent[number % UNHEARD].change = l->changes;
	w->sending = w->oldest;
	w->oldest = 0;
	notices_reset(&w->queue);
	if (w->known_at != l->schemas)
		w->known_count = 0;
	w->known_at = l->schemas;
	if (c)
		conn_get(c);
	mutex_unlock(&l->lock);
	if (!err && c && !gets_rows(&w->peer->rights))
		err = hide_rows(w, &b);
	if (!err && c)
		err = conn_send(c, FRAME_NOTICE, 0, number, &b);
	else if (!err)
		l->o.changed(l->o.arg, buf_bytes(&b), number);
	if (err && c)
		conn_close(c, err); /* the client then drops everything */
	buf_fini(&b);
	mutex_lock(&l->lock);
	w->sending = 0;
	cond_broadcast(&l->told);
	if (c) {
		mutex_unlock(&l->lock);
		conn_put(c);
		mutex_lock(&l->lock);
	}
}

/* hide_rows reads schemas for it. */
static bool is_restricted(const struct watcher *w)
{
	return w->peer && !gets_rows(&w->peer->rights);
}

static struct watcher *next_to_send(struct listener *l, bool restricted)
{
	struct watcher *w;

	TAILQ_FOREACH (w, &l->watchers, link)
		if (may_send(w) && (restricted || !is_restricted(w)))
			return w;
	return NULL;
}

/* Returns false if there is no more to send. */
static bool send_next(struct listener *l)
{
	struct watcher *w = next_to_send(l, true);

	if (w)
		send_queue(l, w);
	return w;
}

void notice_task(struct task *t)
{
	struct listener *l = (struct listener *)((char *)t - offsetof(struct listener, restricted));

	mutex_lock(&l->lock);
	while (send_next(l))
		;
	mutex_unlock(&l->lock);
}

/* On the loop's thread, which must not wait for reads of schemas. */
static void send_on_loop(struct listener *l)
{
	struct watcher *w;

	while ((w = next_to_send(l, false)) != NULL)
		send_queue(l, w);
	if (next_to_send(l, true))
		task_queue(&l->restricted);
}

static struct watcher *first_unsent(struct listener *l, uint64_t change, uint64_t now_us)
{
	struct watcher *w;

	TAILQ_FOREACH (w, &l->watchers, link)
		if (is_unsent(w, change) && w->late_us <= now_us)
			return w;
	return NULL;
}

/* Waits until the change was sent to all watchers, or SENT_US have passed. */
static void tell(struct listener *l, uint64_t change)
{
	const uint64_t until = monotonic_us() + SENT_US;
	uint64_t now = until - SENT_US;
	struct watcher *w;

	while (first_unsent(l, change, now) && now < until) {
		if (!send_next(l))
			(void)!cond_wait_us(&l->told, &l->lock, until - now);
		now = monotonic_us();
	}
	while ((w = first_unsent(l, change, now)) != NULL)
		w->late_us = now + LATE_US;
}

static bool any_watcher(struct listener *l, uint64_t client)
{
	return atomic_load(&l->remote_watchers) || (client && atomic_load(&l->local_watcher));
}

void listen_note_cells(struct listener *l, const struct ts_request *q)
{
	if (!any_watcher(l, q->token.client))
		return;
	mutex_lock(&l->lock);
	tell(l, add_change(l, q, q->token.client));
	mutex_unlock(&l->lock);
}

void listen_note_tablets(struct listener *l, const struct ts_request *q)
{
	struct notice_row row = {0};
	struct watcher *w;

	if (!atomic_load(&l->remote_watchers))
		return;
	mutex_lock(&l->lock);
	l->changes++;
	TAILQ_FOREACH (w, &l->watchers, link) {
		for (uint32_t i = 0; i < q->tablet_count; i++) {
			row.table = q->tablets[i].table;
			if (row.table >= META_FIRST_USER_TABLE)
				notices_add(&w->queue, &row);
		}
		if (!w->oldest)
			w->oldest = l->changes;
	}
	tell(l, l->changes);
	mutex_unlock(&l->lock);
}

/* Returns true if the watcher must drop what it keeps before permissions change. */
static bool must_hear(const struct watcher *w)
{
	return !w->peer || peer_acts_for_others(&w->peer->rights);
}

static bool key_was_late(const struct listener *l, const struct peer *p, uint64_t now)
{
	for (unsigned i = 0; i < LATE_KEYS; i++)
		if (l->late[i].peer == p->rights.peer && l->late[i].until_us > now)
			return true;
	return false;
}

static struct watcher *first_unheard(struct listener *l, uint64_t change, uint64_t now)
{
	struct watcher *w;

	TAILQ_FOREACH (w, &l->watchers, link)
		if (w->schemas >= change && w->heard < change && must_hear(w) &&
			!(w->peer && w->peer->network && key_was_late(l, w->peer, now)))
			return w;
	return NULL;
}

static void disconnect_late(struct listener *l, struct watcher *w, uint64_t now)
{
	w->heard = w->schemas;
	if (!w->peer)
		return;
	conn_close(w->peer->conn, -ETIME);
	if (w->peer->network) {
		l->late[l->late_next % LATE_KEYS].peer = w->peer->rights.peer;
		l->late[l->late_next++ % LATE_KEYS].until_us = now + KEY_LATE_US;
	}
}

void listen_note_schemas(struct listener *l, uint64_t client)
{
	uint64_t change, now, until;
	struct watcher *w;

	atomic_fetch_add(&l->schema_changes, 1);
	if (!any_watcher(l, client))
		return;
	mutex_lock(&l->lock);
	change = add_change(l, NULL, client);
	tell(l, change);
	now = monotonic_us();
	until = now + HEARD_US;
	while (first_unheard(l, change, now) && now < until) {
		(void)!cond_wait_us(&l->told, &l->lock, until - now);
		now = monotonic_us();
	}
	while ((w = first_unheard(l, change, now)) != NULL)
		disconnect_late(l, w, now);
	mutex_unlock(&l->lock);
}

/* ---- what clients send ---- */

static void heard(struct listener *l, struct watcher *w, uint64_t notice)
{
	const uint64_t change = w->sent[notice % UNHEARD].change;

	if (notice > w->notice || notice + UNHEARD <= w->notice || change <= w->heard)
		return;
	w->heard = change;
	w->since_us = monotonic_us();
	cond_broadcast(&l->told);
}

static struct watcher *watcher_new(struct listener *l, struct peer *p)
{
	struct watcher *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->peer = p;
	TAILQ_INSERT_TAIL(&l->watchers, w, link);
	return w;
}

static void on_beat(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct listener *l = timer->data;
	struct watcher *w;
	uint64_t now;

	mutex_lock(&l->lock);
	now = monotonic_us(); /* read under the lock, so that it is not earlier than since_us */
	TAILQ_FOREACH (w, &l->watchers, link) {
		if (w->peer && !w->oldest && !w->sending)
			w->oldest = l->changes;
		if (w->peer && w->schemas > w->heard && must_hear(w) && now - w->since_us > LATE_US)
			disconnect_late(l, w, now);
	}
	send_on_loop(l);
	mutex_unlock(&l->lock);
	if (!atomic_load(&l->remote_watchers))
		ev_timer_stop(loop, timer);
}

void notice_begin(struct listener *l)
{
	ev_timer_init(&l->beat, on_beat, BEAT_S, BEAT_S);
	l->beat.data = l;
}

void notice_end(struct listener *l)
{
	ev_timer_stop(events_loop(), &l->beat);
}

int notice_received(struct peer *p, const struct frame *f)
{
	struct listener *l = p->listener;
	int err = 0;

	if (!p->greeted || p->large || f->length)
		return -EBADMSG;
	mutex_lock(&l->lock);
	if (f->number && p->watcher) {
		heard(l, p->watcher, f->number);
	} else if (!f->number && has_too_many(l, p)) {
		err = -EMFILE;
	} else if (!f->number && !p->watcher) {
		p->watcher = watcher_new(l, p);
		if (p->watcher) {
			p->watcher->queue.n.all = true;
			p->watcher->oldest = ++l->changes;
			atomic_fetch_add(&l->remote_watchers, 1);
			send_on_loop(l);
		} else {
			err = -ENOMEM;
		}
	} else {
		err = -EBADMSG;
	}
	mutex_unlock(&l->lock);
	if (!err && !ev_is_active(&l->beat))
		ev_timer_again(events_loop(), &l->beat);
	return err;
}

void notice_sent(struct peer *p)
{
	struct listener *l = p->listener;

	if (!atomic_load(&l->remote_watchers))
		return;
	mutex_lock(&l->lock);
	send_on_loop(l);
	mutex_unlock(&l->lock);
}

void notice_closed(struct peer *p)
{
	struct listener *l = p->listener;

	mutex_lock(&l->lock);
	if (p->watcher) {
		TAILQ_REMOVE(&l->watchers, p->watcher, link);
		atomic_fetch_sub(&l->remote_watchers, 1);
		cond_broadcast(&l->told);
	}
	mutex_unlock(&l->lock);
}

void watcher_free(struct watcher *w)
{
	if (w)
		notices_fini(&w->queue);
	free(w);
}

/* ---- this process ---- */

int listen_watch(struct listener *l)
{
	mutex_lock(&l->lock);
	if (!l->local)
		l->local = watcher_new(l, NULL);
	mutex_unlock(&l->lock);
	atomic_store(&l->local_watcher, l->local != NULL);
	return l->local ? 0 : -ENOMEM;
}

void listen_heard(struct listener *l, uint64_t notice)
{
	mutex_lock(&l->lock);
	if (l->local)
		heard(l, l->local, notice);
	mutex_unlock(&l->lock);
}
