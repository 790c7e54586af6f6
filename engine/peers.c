/* SPDX-License-Identifier: Apache-2.0 */
/* Channels to the servers of a cluster (peers.h). */
#include "engine/peers.h"

#include "engine/base/clock.h"
#include "engine/base/hashtable.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct peer_server {
	uint64_t incarnation;
	struct channel *channel; /* NULL: it is being made */
	bool ended;
	uint64_t found_us; /* when its address had been found */
	UT_hash_handle hh;
};
struct peers {
	struct peers_options o;
	struct mutex lock; /* RANK_SERVER; guards the table, and is not held while a channel is made */
	struct cond made;
	struct peer_server *servers;
};

static int dial_peer(
	const struct peers_options *o, const char *address, uint64_t incarnation, struct channel_options *co, struct channel **out)
{
	struct store_source at = {0};
	char *text = NULL, *why = NULL;
	int err = asprintf(&text, "%s%s", o->kind == SOURCE_TLS ? "tls://" : "tcp://", address) < 0 ? -ENOMEM : 0;

	if (err)
		return err;
	*co = o->channel;
	co->server = incarnation;
	co->later = true;
	err = store_source_parse(text, &at, &why);
	if (!err)
		err = dial_new(&at, &(struct dial_options){.keys = o->keys, .ssh = ""}, &co->dial, &why);
	if (!err && o->making) {
		err = o->making(o->arg, incarnation, co);
		if (err)
			dial_free(co->dial);
	}
	if (!err)
		err = channel_new(co, out, &why);
	if (err)
		msg_error("server %llu at %s: %s", (unsigned long long)incarnation, address, why ? why : error_text(err));
	store_source_fini(&at);
	free(text);
	free(why);
	return err;
}

int peers_dial(const struct peers_options *o, const char *address, uint64_t incarnation, struct channel **out)
{
	struct channel_options co;

	return dial_peer(o, address, incarnation, &co, out);
}

/* Makes the channel of a server that is in the table.  Returns NULL if there is no such server. */
static struct channel *make(struct peers *p, uint64_t incarnation, struct channel_options *co, uint64_t *found_us)
{
	char address[PEER_ADDRESS_MAX];
	struct channel *c = NULL;

	if (p->o.address(p->o.arg, incarnation, address))
		return NULL;
	*found_us = monotonic_us();
	if (dial_peer(&p->o, address, incarnation, co, &c))
		return NULL;
	if (p->o.made)
		p->o.made(p->o.arg, co, c);
	return c;
}

/*
 * Returns the server, which is added if it is not known, or NULL if there is none.  While a thread
 * makes its channel, other threads wait.
 */
static struct peer_server *find(struct peers *p, uint64_t incarnation)
{
	struct channel_options co = {0};
	struct channel *c = NULL;
	struct peer_server *s;
	uint64_t found_us = 0;

	mutex_lock(&p->lock);
	HASH_FIND(hh, p->servers, &incarnation, sizeof(incarnation), s);
	while (s && !s->channel) {
		cond_wait(&p->made, &p->lock);
		HASH_FIND(hh, p->servers, &incarnation, sizeof(incarnation), s);
	}
	if (s || !(s = calloc(1, sizeof(*s)))) {
		mutex_unlock(&p->lock);
		return s;
	}
	s->incarnation = incarnation;
	HASH_ADD(hh, p->servers, incarnation, sizeof(incarnation), s);
	if (!s->hh.tbl) {
		free(s);
		s = NULL;
	}
	mutex_unlock(&p->lock);
	if (!s)
		return NULL;
	c = make(p, incarnation, &co, &found_us);
	mutex_lock(&p->lock);
	if (c) {
		s->channel = c;
		s->found_us = found_us;
		if (s->ended)
			channel_end(c);
	} else {
		HASH_DEL(p->servers, s);
		free(s);
		s = NULL;
	}
	cond_broadcast(&p->made);
	mutex_unlock(&p->lock);
	return s;
}

static bool has_ended(struct peers *p, const struct peer_server *s)
{
	bool ended;

	mutex_lock(&p->lock);
	ended = s->ended;
	mutex_unlock(&p->lock);
	return ended;
}

struct channel *peers_channel(struct peers *p, uint64_t incarnation)
{
	struct peer_server *s = incarnation == p->o.self && p->o.self ? NULL : find(p, incarnation);

	return s && !has_ended(p, s) ? s->channel : NULL;
}

struct tablet_service *peers_connect(struct peers *p, uint64_t incarnation)
{
	struct channel *c;

	if (p->o.self && incarnation == p->o.self)
		return p->o.own;
	c = peers_channel(p, incarnation);
	return c ? channel_tablets(c) : NULL;
}

void peers_ended(struct peers *p, uint64_t incarnation)
{
	struct peer_server *s;

	mutex_lock(&p->lock);
	HASH_FIND(hh, p->servers, &incarnation, sizeof(incarnation), s);
	if (s && !s->ended) {
		s->ended = true;
		if (s->channel)
			channel_end(s->channel);
	}
	mutex_unlock(&p->lock);
}

void peers_keep(struct peers *p, uint64_t since_us, bool (*alive)(void *arg, uint64_t incarnation), void *arg)
{
	struct peer_server *s, *tmp;

	mutex_lock(&p->lock);
	HASH_ITER(hh, p->servers, s, tmp)
	if (s->channel && s->found_us < since_us && !s->ended && !alive(arg, s->incarnation)) {
		s->ended = true;
		channel_end(s->channel);
	}
	mutex_unlock(&p->lock);
}

int peers_new(const struct peers_options *o, struct peers **out)
{
	struct peers *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->o = *o;
	mutex_init(&p->lock, RANK_SERVER);
	cond_init(&p->made);
	*out = p;
	return 0;
}

void peers_free(struct peers *p)
{
	struct peer_server *s, *tmp;

	if (!p)
		return;
	HASH_ITER(hh, p->servers, s, tmp)
	{
		HASH_DEL(p->servers, s);
		channel_free(s->channel);
		free(s);
	}
	cond_fini(&p->made);
	mutex_fini(&p->lock);
	free(p);
}
