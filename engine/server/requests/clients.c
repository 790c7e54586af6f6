/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of other processes, and their epochs.  A client that does not know the
 * outcome of a request begins its next epoch.  From the first request of an epoch on
 * (often TS_HELLO), requests of earlier epochs are refused.  Requests of the new epoch get
 * -EAGAIN until the requests that were under way have ended.  So after the first other answer
 * no copy of an earlier request has an effect.  A request that waits in a queue of the
 * dispatcher (engine/rpc/dispatch.h) is not under way: it is refused when its turn comes.
 *
 * A server forgets a client 2 * CLIENT_TIME_US after its last request, because no
 * copy of a request is under way for so long.  Each user has a share of the clients that it
 * remembers, and a share is kept for root, the user of this process, and callers in it.  A server that was started again has
 * another incarnation, and requests to its former incarnation do not reach it.
 *
 * A client that leaves begins its last epoch (TS_EPOCH_LAST), so copies of its requests are refused
 * until it is forgotten.
 *
 * A client that is a server is dead when its session has ended.  The master sends all servers
 * the list of live servers (TS_BURY) before it reads METADATA and assigns the tablets of dead
 * servers.  So neither a zombie nor the network can insert the row of a split, or delete the
 * row of a merge, after that read.  A dead server stays dead.
 *
 * While a table is made (a new one, a snapshot, a clone), servers and the master write
 * rows that do not exist yet.  If that fails, or the master dies, late requests could write
 * rows after the rows of the failed table were deleted.  So BURY also names the next table
 * id: no rows are made for earlier tables after it, except by requests under way, which the
 * answer counts.  A split inserts a row of a table that exists.  So a server that has had
 * such a BURY inserts it only if the lock service still has the table.
 *
 * A client's requests at other servers need no epoch there: they name the
 * assignment of their tablet, so none is carried out after the tablet has moved.
 */
#include "engine/server/requests/requests.h"
#include "engine/base/clock.h"
#include "engine/base/hashtable.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#define CLIENTS_MOST 65536u
#define CLIENTS_SHARE (CLIENTS_MOST / 4)
#define CLIENTS_LOOK 1024u       /* with this many clients, expired clients are removed */
#define EXPIRE_EVERY_US 1000000u /* the least time between two removals, because each looks at all clients */

/* A peer (struct ts_request), with the number of its clients. */
struct client_user {
	uint64_t peer;
	unsigned clients;
	UT_hash_handle hh;
};
struct client_state {
	uint64_t id, epoch;
	struct client_user *user;  /* the user of the client's id */
	unsigned running, earlier; /* requests under way of this epoch, and of earlier epochs */
	uint64_t last_us;          /* monotonic */
	UT_hash_handle hh;
};

struct clients {
	struct mutex lock;            /* guards the next members */
	struct client_state *states;  /* by id */
	struct client_user *users;    /* by peer */
	uint64_t expired_us;          /* when expired clients were removed */
	uint64_t buried_below, *live; /* servers up to buried_below that are not in `live` are dead */
	uint32_t live_count;
	uint32_t made_below; /* no rows are made for tables below it */
	unsigned making;     /* requests under way that make rows of tables */
};

static void user_put(struct clients *x, struct client_user *u)
{
	if (u->clients)
		return;
	HASH_DEL(x->users, u);
	free(u);
}

static void client_remove(struct clients *x, struct client_state *c)
{
	HASH_DEL(x->states, c);
	c->user->clients--;
	user_put(x, c->user);
	free(c);
}

static void clients_expire(struct clients *x, uint64_t now_us)
{
	struct client_state *c, *tmp;

	x->expired_us = now_us;
	HASH_ITER(hh, x->states, c, tmp)
	if (!c->running && !c->earlier && now_us - c->last_us > 2 * CLIENT_TIME_US)
		client_remove(x, c);
}

bool client_is_owner(uint64_t peer)
{
	return peer <= 1 || peer == 1 + (uint64_t)geteuid();
}

static struct client_user *user_get(struct clients *x, uint64_t peer)
{
	struct client_user *u;

	HASH_FIND(hh, x->users, &peer, sizeof peer, u);
	if (u)
		return u;
	u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	u->peer = peer;
	HASH_ADD(hh, x->users, peer, sizeof u->peer, u);
	if (u->hh.tbl)
		return u;
	free(u);
	return NULL;
}

static int client_new(struct clients *x, uint64_t id, uint64_t peer, struct client_state **out)
{
	const bool owner = client_is_owner(peer);
	struct client_user *u = user_get(x, peer);
	struct client_state *c = NULL;
	int err = u ? 0 : -ENOMEM;

	if (!err && HASH_COUNT(x->states) >= CLIENTS_MOST - (owner ? 0 : CLIENTS_SHARE))
		err = -EAGAIN;
	if (!err && !owner && u->clients >= CLIENTS_SHARE)
		err = -EAGAIN;
	if (!err) {
		c = calloc(1, sizeof *c);
		err = c ? 0 : -ENOMEM;
	}
	if (!err) {
		c->id = id;
		c->user = u;
		HASH_ADD(hh, x->states, id, sizeof c->id, c);
		err = c->hh.tbl ? 0 : -ENOMEM;
	}
	if (err) {
		free(c);
		if (u)
			user_put(x, u);
		return err;
	}
	u->clients++;
	*out = c;
	return 0;
}

static int client_get(struct clients *x, uint64_t id, uint64_t peer, struct client_state **out)
{
	const uint64_t now_us = monotonic_us();
	struct client_state *c;
	int err = 0;

	HASH_FIND(hh, x->states, &id, sizeof id, c);
	if (!c) {
		if (HASH_COUNT(x->states) >= CLIENTS_LOOK && now_us - x->expired_us > EXPIRE_EVERY_US)
			clients_expire(x, now_us);
		err = client_new(x, id, peer, &c);
	} else if (c->user->peer != peer) {
		err = -EPERM;
	}
	if (err)
		return err;
	c->last_us = now_us;
	*out = c;
	return 0;
}

static bool is_in(const uint64_t *v, uint32_t count, uint64_t id)
{
	uint32_t i = 0;

	while (i < count && v[i] < id)
		i++;
	return i < count && v[i] == id;
}

static bool is_dead(const struct clients *x, uint64_t id)
{
	return id <= x->buried_below && !is_in(x->live, x->live_count, id);
}

/* Writes the servers that live by both lists to out, because a late request may have an earlier list. */
static uint32_t live_in_both(const struct clients *x, const struct ts_request *q, uint64_t *out)
{
	uint32_t a = 0, b = 0, n = 0;

	while (a < x->live_count || b < q->live_count) {
		const uint64_t one = a < x->live_count ? x->live[a] : UINT64_MAX,
			       other = b < q->live_count ? q->live[b] : UINT64_MAX, id = one < other ? one : other;

		if ((one == id || id > x->buried_below) && (other == id || id > q->incarnation))
			out[n++] = id;
		a += one == id;
		b += other == id;
	}
	return n;
}

bool making_begin(struct server *s, uint32_t table)
{
	struct clients *x = s->clients;
	bool ended;

	mutex_lock(&x->lock);
	ended = table < x->made_below;
	x->making++;
	mutex_unlock(&x->lock);
	return ended;
}

void making_end(struct server *s)
{
	struct clients *x = s->clients;
	mutex_lock(&x->lock);
	x->making--;
	mutex_unlock(&x->lock);
}

int clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct clients *x = s->clients;
	uint64_t *live;
	struct client_state *c, *tmp;
	int err = 0;

	for (uint32_t i = 1; i < q->live_count; i++)
		if (q->live[i - 1] >= q->live[i])
			return -EINVAL;
	mutex_lock(&x->lock);
	if (q->to_table > x->made_below)
		x->made_below = q->to_table;
	a->exists = x->making;
	live = calloc(x->live_count + q->live_count + 1u, sizeof(*live));
	if (live) {
		x->live_count = live_in_both(x, q, live);
		free(x->live);
		x->live = live;
		if (q->incarnation > x->buried_below)
			x->buried_below = q->incarnation;
		HASH_ITER(hh, x->states, c, tmp)
		if (is_dead(x, c->id) && (c->running || c->earlier))
			err = -EAGAIN;
	} else {
		err = -ENOMEM;
	}
	mutex_unlock(&x->lock);
	return err;
}

int client_begin(struct server *s, const struct ts_request *q)
{
	struct clients *x = s->clients;
	struct client_state *c;
	int err;

	mutex_lock(&x->lock);
	if (is_dead(x, q->token.client)) {
		mutex_unlock(&x->lock);
		return -SESSION_ENDED;
	}
	err = client_get(x, q->token.client, q->peer, &c);
	if (!err && q->epoch < c->epoch)
		err = -EPOCH_ENDED;
	if (!err && q->epoch > c->epoch) {
		c->epoch = q->epoch;
		c->earlier += c->running;
		c->running = 0;
	}
	if (!err && c->earlier)
		err = -EAGAIN;
	if (!err)
		c->running++;
	mutex_unlock(&x->lock);
	return err;
}

void client_end(struct server *s, const struct ts_request *q)
{
	struct clients *x = s->clients;
	struct client_state *c;

	mutex_lock(&x->lock);
	HASH_FIND(hh, x->states, &q->token.client, sizeof q->token.client, c);
	assert(c); /* its request was under way */
	if (c->epoch == q->epoch)
		c->running--;
	else
		c->earlier--;
	mutex_unlock(&x->lock);
}

static int begin(struct server *s, struct task_pool *pool)
{
	mutex_init(&s->clients->lock, RANK_SERVER);
	return 0;
}

static void end(struct server *s)
{
	struct clients *x = s->clients;
	struct client_state *c, *tmp;

	HASH_ITER(hh, x->states, c, tmp)
	client_remove(x, c);
	free(x->live);
	mutex_fini(&s->clients->lock);
}

const struct server_part clients_part = {offsetof(struct server, clients), sizeof(struct clients), begin, NULL, end};
