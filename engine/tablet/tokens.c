/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mutations that clients may repeat, with their results (tokens.h).
 *
 * A result becomes durable with its mutation: it is in the same log record.  A
 * minor compaction stores the results of all mutations whose cells it makes
 * durable, in the same edit that moves the redo point (tablet_freeze.c).  The log
 * from the redo point has the tokens of all further mutations, and replay adds
 * them.
 *
 * A mutation that failed, or changed nothing, has no log record.  Its result is
 * kept in memory only, against copies of its request that arrive at the same
 * server.  A server that loads the tablet later refuses such copies, because they
 * name the assignment before.
 *
 * A mutation is not known as decided before its cells are in the memtable and its
 * record is written.  So METADATA never has a result whose cells may get lost.
 */
#include "engine/tablet/tokens.h"
#include "engine/base/hashtable.h"
#include "engine/tablet/tokens_format.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define EXPIRE_US (2 * CLIENT_TIME_US)
#define STORED_BYTES 20 /* bytes of a stored token without its result: client, number, length */

struct token_client {
	uint64_t id, lowest; /* numbers below `lowest` are forgotten */
	int64_t last_us;     /* the time of its last mutation */
	bool counts;         /* it began here, as a client of `peer`, so it counts for the bounds */
	uint64_t peer;
	struct token_list list; /* in the order of numbers */
	UT_hash_handle hh;
};

static size_t token_bytes(const struct token *x)
{
	return sizeof *x + x->result.cap;
}

static void token_forget(struct tokens *t, struct token *x)
{
	TAILQ_REMOVE(&x->c->list, x, of_client);
	if (x->decided) {
		TAILQ_REMOVE(&t->oldest, x, of_all);
		t->bytes -= token_bytes(x);
	}
	buf_fini(&x->result);
	free(x);
}

/* Forgets the numbers of c below `lowest`. */
static void client_raise(struct tokens *t, struct token_client *c, uint64_t lowest)
{
	struct token *x, *next;

	if (lowest <= c->lowest)
		return;
	c->lowest = lowest;
	for (x = TAILQ_FIRST(&c->list); x && x->id.number < lowest; x = next) {
		next = TAILQ_NEXT(x, of_client);
		if (!x->running)
			token_forget(t, x);
	}
}

static void client_free(struct tokens *t, struct token_client *c)
{
	struct token *x;

	while ((x = TAILQ_FIRST(&c->list)))
		token_forget(t, x);
	HASH_DEL(t->clients, c);
	free(c);
}

static bool client_running(const struct token_client *c)
{
	const struct token *x;

	TAILQ_FOREACH (x, &c->list, of_client)
		if (x->running)
			return true;
	return false;
}

static void clients_expire(struct tokens *t, int64_t now_us)
{
	struct token_client *c, *tmp;

	t->expired_us = now_us;
	HASH_ITER(hh, t->clients, c, tmp)
	if (now_us - c->last_us > EXPIRE_US && !client_running(c))
		client_free(t, c);
}

/* Returns true if one more client of the peer may begin mutations. */
static bool client_fits(const struct tokens *t, uint64_t peer)
{
	const struct token_client *c;
	unsigned own = 0, others = 0; /* others counts the clients of all users except the owner */

	for (c = t->clients; c; c = c->hh.next) {
		own += c->counts && c->peer == peer;
		others += c->counts && c->peer;
	}
	return peer ? own < TOKENS_SHARE && others < TOKENS_CLIENTS : own < TOKENS_CLIENTS;
}

/* Finds or adds the client. */
static int client_get(struct tokens *t, uint64_t id, int64_t now_us, struct token_client **out)
{
	struct token_client *c;

	HASH_FIND(hh, t->clients, &id, sizeof id, c);
	if (!c) {
		c = calloc(1, sizeof *c);
		if (!c)
			return -ENOMEM;
		c->id = id;
		TAILQ_INIT(&c->list);
		HASH_ADD(hh, t->clients, id, sizeof c->id, c);
		if (!c->hh.tbl) {
			free(c);
			return -ENOMEM;
		}
	}
	if (now_us > c->last_us)
		c->last_us = now_us;
	*out = c;
	return 0;
}

/* Finds or makes a client that begins a mutation.  -EAGAIN: there are too many. */
static int client_begin(struct tokens *t, uint64_t id, uint64_t peer, int64_t now_us, struct token_client **out)
{
	struct token_client *c;
	int err;

	HASH_FIND(hh, t->clients, &id, sizeof id, c);
	if (!c && HASH_COUNT(t->clients) >= TOKENS_SHARE && !client_fits(t, peer)) {
		clients_expire(t, now_us);
		if (!client_fits(t, peer))
			return -EAGAIN;
	}
	err = client_get(t, id, now_us, out);
	if (!err && !c) {
		(*out)->counts = true;
		(*out)->peer = peer;
	}
	return err;
}

/* Returns the last token of c that is not above number; NULL: none. */
static struct token *client_at(const struct token_client *c, uint64_t number)
{
	struct token *x = TAILQ_LAST(&c->list, token_list);

	while (x && x->id.number > number)
		x = TAILQ_PREV(x, token_list, of_client);
	return x;
}

/* after: client_at(c, number) */
static struct token *token_add(struct token_client *c, struct token *after, const struct op_token *id)
{
	struct token *x = calloc(1, sizeof *x);

	if (!x || buf_reserve(&x->result, TOKEN_RESULT_LEAST)) {
		free(x);
		return NULL;
	}
	x->id = *id;
	x->c = c;
	if (after)
		TAILQ_INSERT_AFTER(&c->list, after, x, of_client);
	else
		TAILQ_INSERT_HEAD(&c->list, x, of_client);
	return x;
}

void tablet_tokens_free(struct tablet_token *v, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		buf_fini(&v[i].result);
	free(v);
}

void tokens_init(struct tokens *t)
{
	*t = (struct tokens){0};
	TAILQ_INIT(&t->oldest);
}

void tokens_fini(struct tokens *t)
{
	struct token_client *c, *tmp;

	HASH_ITER(hh, t->clients, c, tmp)
	client_free(t, c);
}

int tokens_begin(struct tokens *t, const struct op_token *token, uint64_t peer, int64_t now_us, struct token **out)
{
	struct token_client *c;
	struct token *x;
	int err;

	if (!token->number || token->lowest_unanswered > token->number)
		return -EINVAL;
	if (now_us - t->expired_us > EXPIRE_US)
		clients_expire(t, now_us);
	err = client_begin(t, token->client, peer, now_us, &c);
	if (err)
		return err;
	client_raise(t, c, token->lowest_unanswered);
	x = client_at(c, token->number);
	if (x && x->id.number == token->number) {
		*out = x;
		return x->decided ? TOKENS_KNOWN : -EAGAIN;
	}
	if (token->number < c->lowest)
		return -MUTATION_ANSWERED;
	x = token_add(c, x, token);
	if (!x)
		return -ENOMEM;
	x->running = true;
	*out = x;
	return 0;
}

void tokens_decide(struct tokens *t, struct token *x)
{
	struct token *first;

	assert(!x->decided);
	x->decided = true;
	TAILQ_INSERT_TAIL(&t->oldest, x, of_all);
	t->bytes += token_bytes(x);
	while (t->bytes > TOKENS_BYTES && (first = TAILQ_FIRST(&t->oldest)) && !first->running)
		client_raise(t, first->c, first->id.number + 1);
}

void tokens_end(struct tokens *t, struct token *x)
{
	x->running = false;
	if (!x->decided || x->id.number < x->c->lowest)
		token_forget(t, x);
}

void tokens_forget(struct tokens *t, uint64_t client)
{
	struct token_client *c;

	HASH_FIND(hh, t->clients, &client, sizeof client, c);
	if (c && !client_running(c))
		client_free(t, c);
}

/* Adds a decided token, unless it is known. */
static int token_put(struct tokens *t, struct token_client *c, uint64_t number, uint64_t seq, struct tfs_bytes result)
{
	const struct op_token id = {c->id, number, c->lowest};
	struct token *x = client_at(c, number);

	if (number < c->lowest || (x && x->id.number == number))
		return 0;
	x = token_add(c, x, &id);
	if (!x)
		return -ENOMEM;
	if (buf_append_bytes(&x->result, result)) {
		token_forget(t, x);
		return -ENOMEM;
	}
	x->seq = seq;
	tokens_decide(t, x);
	return 0;
}

int tokens_replay(struct tokens *t, const struct op_token *token, uint64_t seq, struct tfs_bytes result, int64_t us)
{
	struct token_client *c;
	int err = client_get(t, token->client, us, &c);

	if (err)
		return err;
	client_raise(t, c, token->lowest_unanswered);
	return token_put(t, c, token->number, seq, result);
}

int tokens_load(struct tokens *t, const struct tablet_token *v, unsigned count, int64_t now_us)
{
	struct token_client *c;
	int err = 0;

	for (unsigned i = 0; i < count && !err; i++) {
		err = client_get(t, v[i].client, now_us, &c);
		if (err)
			break;
		if (!v[i].result.n)
			client_raise(t, c, v[i].number + 1);
		else
			err = token_put(t, c, v[i].number, 1, buf_bytes(&v[i].result));
	}
	return err;
}

/* ---- the form in METADATA ---- */

static int by_client(const void *a, const void *b)
{
	const struct tablet_token *x = a, *y = b;

	if (x->client != y->client)
		return x->client < y->client ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Marks the newest results for which the column has space.  bytes: already used by the clients' forgotten numbers. */
static unsigned mark_stored(struct tokens *t, uint64_t seq, size_t bytes)
{
	struct token *x;
	unsigned n = 0;

	TAILQ_FOREACH (x, &t->oldest, of_all)
		x->stored = false;
	TAILQ_FOREACH_REVERSE(x, &t->oldest, token_list, of_all)
	{
		if (!x->seq || x->seq > seq)
			continue;
		bytes += STORED_BYTES + x->result.n;
		if (bytes > TOKENS_STORED)
			break;
		x->stored = true;
		n++;
	}
	return n;
}

/* The largest number of c that METADATA has as forgotten, + 1, including results that were not marked. */
static uint64_t client_lowest_stored(const struct token_client *c, uint64_t seq)
{
	uint64_t lowest = c->lowest;
	const struct token *x;

	TAILQ_FOREACH (x, &c->list, of_client)
		if (x->decided && !x->stored && x->seq && x->seq <= seq && x->id.number >= lowest)
			lowest = x->id.number + 1;
	return lowest;
}

int tokens_store(struct tokens *t, uint64_t seq, int64_t now_us, struct tablet_token **out, unsigned *count)
{
	struct token_client *c, *tmp;
	struct tablet_token *v;
	struct token *x;
	unsigned n = 0;
	int err = 0;

	clients_expire(t, now_us);
	v = calloc(HASH_COUNT(t->clients) + mark_stored(t, seq, HASH_COUNT(t->clients) * (size_t)STORED_BYTES) + 1u, sizeof *v);
	if (!v)
		return -ENOMEM;
	HASH_ITER(hh, t->clients, c, tmp)
	{
		const uint64_t lowest = client_lowest_stored(c, seq);

		if (lowest > 1)
			v[n++] = (struct tablet_token){.client = c->id, .number = lowest - 1};
		TAILQ_FOREACH (x, &c->list, of_client) {
			if (!x->decided || !x->stored || x->id.number < lowest || err)
				continue;
			v[n] = (struct tablet_token){.client = c->id, .number = x->id.number};
			err = buf_append_bytes(&v[n++].result, buf_bytes(&x->result));
		}
	}
	if (err) {
		tablet_tokens_free(v, n);
		return err;
	}
	qsort(v, n, sizeof *v, by_client);
	*out = v;
	*count = n;
	return 0;
}

int tokens_inherit(struct tokens *t, const struct tokens *from)
{
	struct token_client *c, *tmp, *own;
	const struct token *x;
	int err;

	HASH_ITER(hh, from->clients, c, tmp)
	{
		err = client_get(t, c->id, c->last_us, &own);
		if (err)
			return err;
		own->counts |= c->counts;
		own->peer = c->counts ? c->peer : own->peer;
		TAILQ_FOREACH (x, &c->list, of_client)
			if (x->decided && (err = token_put(t, own, x->id.number, x->seq, buf_bytes(&x->result))))
				return err;
		client_raise(t, own, c->lowest);
	}
	return 0;
}
