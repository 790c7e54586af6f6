/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers' streams of notices as one (tellers.h).
 *
 * The store gets notices with numbers of its own.  A notice of schemas must be confirmed to its server when the store has
 * dropped what it names.  While a stream is missing, the store keeps nothing but schemas, and only
 * changes of schemas are reported to it.  When the last stream comes, the store gets the report
 * that anything may have changed.
 *
 * `turn` is held during the calls of the store, so that the calls are in the order of the
 * states.  The store calls tellers_heard, also from such a call; that takes `lock` only, which
 * is not held during calls.
 *
 * The task runs while a stream is missing.  It asks which servers there are, forgets servers that have ended, and
 * connects lost streams again.
 */
#include "engine/tellers.h"

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/client/client.h"
#include "engine/rpc/hello.h"

#include <errno.h>
#include <stdlib.h>

#define BEAT_US 250000u /* the period of the servers' beats */

struct teller {
	struct tellers *all;
	struct teller *next;
	uint64_t incarnation;
	struct channel *channel; /* all->lock guards the next members */
	bool told, ended;        /* told is set when the server reports all its changes */
	uint64_t heard_us;
	uint64_t seq, number; /* the unconfirmed last notice of schemas: the store's number, or 0, and the server's */
};
struct tellers {
	struct tellers_options o;
	struct mutex turn; /* RANK_TELLERS */
	struct mutex lock; /* RANK_SERVER; guards the next members */
	struct teller *head;
	struct tfs_store *store; /* NULL: it does not watch */
	bool telling;            /* the store knows that all changes are reported to it */
	uint64_t seq;
	struct task_pool *pool;
	struct task task;
};

/* The next functions are called with the lock. */
static bool all_tell(const struct tellers *s)
{
	for (const struct teller *t = s->head; t; t = t->next)
		if (!t->told && !t->ended)
			return false;
	return true;
}

/* Drops silent servers, when the beat of a server has come. */
static void drop_silent(struct tellers *s, uint64_t now)
{
	const uint64_t most = s->o.coherence_us > 2 * BEAT_US ? s->o.coherence_us - BEAT_US : s->o.coherence_us;

	for (struct teller *t = s->head; t; t = t->next)
		if (now - t->heard_us > most)
			t->told = false;
}

/* Reports to the store that anything may have changed, and that from now on all changes are reported. */
static void tell_all(struct tfs_store *store, uint64_t number)
{
	const struct notice n = {.schemas = true, .all = true};
	struct buf b = {0};
	struct tfs_bytes packed;

	if (notice_pack(&n, &b) == 0) {
		packed = buf_bytes(&b);
		client_changed(store, &packed, number, true);
	}
	buf_fini(&b);
}

/* Reports a change of the state to the store. t: the stream of the notice (NULL: none) with this number.  The caller has the turn. */
static void tell(struct tellers *s, struct teller *t, const struct tfs_bytes *notice, uint64_t number, bool schemas)
{
	struct tfs_store *store;
	struct channel *confirm = NULL;
	uint64_t seq;
	bool was, is;

	mutex_lock(&s->lock);
	store = s->store;
	was = s->telling;
	is = all_tell(s);
	s->telling = is && store;
	if (!is && store)
		task_queue_after(&s->task, BEAT_US);
	seq = ++s->seq;
	if (schemas && store) {
		t->seq = seq;
		t->number = number;
	} else if (schemas) {
		confirm = t->channel;
	}
	mutex_unlock(&s->lock);
	if (is && store && !was)
		tell_all(store, seq);
	else if (store && (is ? notice != NULL : schemas))
		client_changed(store, notice, seq, is);
	else if (was && !is)
		client_changed(store, NULL, 0, false);
	if (confirm)
		channel_heard(confirm, number);
}

void tellers_changed(void *teller, const struct tfs_bytes *notice, uint64_t number)
{
	struct teller *t = teller;
	struct tellers *s = t->all;
	const uint64_t now = monotonic_us();
	struct arena arena = {0};
	struct notice n = {0};

	if (notice && notice_unpack(*notice, &arena, &n))
		n.all = true;
	mutex_lock(&s->turn);
	mutex_lock(&s->lock);
	t->told = notice != NULL;
	t->heard_us = now;
	if (notice)
		drop_silent(s, now);
	mutex_unlock(&s->lock);
	tell(s, t, notice, number, n.schemas || n.all);
	mutex_unlock(&s->turn);
	arena_fini(&arena);
}

void tellers_heard(struct tellers *s, uint64_t notice)
{
	for (;;) {
		struct channel *c = NULL;
		struct teller *t;
		uint64_t number = 0;

		mutex_lock(&s->lock);
		for (t = s->head; t && !c; t = t->next)
			if (t->seq && t->seq <= notice) {
				t->seq = 0;
				number = t->number;
				c = t->channel;
			}
		mutex_unlock(&s->lock);
		if (!c)
			return;
		channel_heard(c, number);
	}
}

/* ---- missing streams ---- */

static void reconnect(struct task *task)
{
	struct tellers *s = (struct tellers *)((char *)task - offsetof(struct tellers, task));
	struct teller *head, *t;
	bool asked;

	mutex_lock(&s->lock);
	head = s->store ? s->head : NULL;
	mutex_unlock(&s->lock);
	asked = head && s->o.ask(s->o.arg) == 0;
	for (t = head; t; t = t->next) { /* none is removed */
		const bool has = !asked || !t->incarnation || s->o.has(s->o.arg, t->incarnation);
		struct channel *c;
		bool missing, ends;

		mutex_lock(&s->lock);
		missing = !t->told && !t->ended;
		ends = missing && !has;
		t->ended = t->ended || ends;
		c = t->channel;
		mutex_unlock(&s->lock);
		if (ends)
			s->o.ended(s->o.arg, t->incarnation);
		else if (missing && c)
			(void)!channel_watch(c);
	}
	mutex_lock(&s->turn);
	tell(s, NULL, NULL, 0, false);
	mutex_unlock(&s->turn);
}

struct teller *tellers_add(struct tellers *s, uint64_t incarnation)
{
	struct teller *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->all = s;
	t->incarnation = incarnation;
	mutex_lock(&s->turn);
	mutex_lock(&s->lock);
	t->next = s->head;
	s->head = t;
	mutex_unlock(&s->lock);
	tell(s, NULL, NULL, 0, false);
	mutex_unlock(&s->turn);
	return t;
}

void tellers_made(struct teller *t, struct channel *c)
{
	mutex_lock(&t->all->lock);
	t->channel = c;
	mutex_unlock(&t->all->lock);
}

int tellers_watch(struct tellers *s, struct tfs_store *store)
{
	mutex_lock(&s->lock);
	s->store = store;
	mutex_unlock(&s->lock);
	task_queue(&s->task);
	return 0;
}

/* ---- lifetime ---- */

int tellers_new(const struct tellers_options *o, struct tellers **out)
{
	struct tellers *s = calloc(1, sizeof(*s));
	int err = s ? task_pool_new("tellers", 1, &s->pool) : -ENOMEM;

	if (err) {
		free(s);
		return err;
	}
	s->o = *o;
	task_init(&s->task, s->pool, reconnect);
	mutex_init(&s->turn, RANK_TELLERS);
	mutex_init(&s->lock, RANK_SERVER);
	*out = s;
	return 0;
}

void tellers_stop(struct tellers *s)
{
	if (!s || !s->pool)
		return;
	mutex_lock(&s->lock);
	s->store = NULL;
	s->telling = false;
	mutex_unlock(&s->lock);
	task_cancel(&s->task);
}

void tellers_free(struct tellers *s)
{
	struct teller *t, *next;

	if (!s)
		return;
	task_pool_free(s->pool);
	for (t = s->head; t; t = next) {
		next = t->next;
		free(t);
	}
	mutex_fini(&s->turn);
	mutex_fini(&s->lock);
	free(s);
}
