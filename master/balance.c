/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the servers of tablets (balance.h).  The weight of a tablet is the
 * sum of its shares of all requests (one half), of all bytes and of the number
 * of tablets (one quarter each).  A server's weight is the weight of its
 * tablets.  The measure of balance is the sum of the squares of the servers'
 * weights.
 *
 * A move of weight w from a server of weight a to one of weight b reduces the
 * measure if a - b > w.  It is made only if a - b > w + slack, where slack is a
 * tenth of the mean weight of a server.  Before the tablet moves back, b must
 * exceed a by w + slack, so the weights must change by more than twice the slack
 * between the two moves.  Small totals are rounded up (IDLE_*), or a few requests
 * in an idle cluster would move tablets.
 *
 * Two small neighbours form a pair.  A tablet is in one pair at most, so a long
 * run of small tablets is not collected on one server.  When both are old enough,
 * one moves to the server of the second, which makes it young.  From then on
 * neither moves for load, so the pair stays together until it has been merged.
 * If both are young, they are new parts of a split, which a user may have made
 * before writing many rows, so they are spread as all others.
 *
 * Rejected: an optimal assignment, because it moves many tablets for a small
 * change.
 */
#include "master/balance.h"

#include <errno.h>
#include <stdlib.h>

#define IDLE_REQUESTS 200.0            /* a second, per server */
#define IDLE_BYTES (64.0 * (1u << 20)) /* per server */
#define NONE UINT32_MAX

struct host {
	double weight;
	unsigned special; /* root and METADATA tablets */
	unsigned moves;   /* moves under way, and new moves */
};
struct part {
	double weight;
	unsigned host; /* NONE: not assigned */
	unsigned pair; /* the second tablet of its pair, or NONE */
};
struct plan {
	const struct balance_state *s;
	struct host *hosts;
	struct part *parts;
	double slack;
	struct balance_move *moves;
	unsigned count;
};

static bool is_special(const struct plan *p, unsigned tablet)
{
	return p->s->tablets[tablet].kind != BALANCE_USER;
}

static unsigned host_of(const struct balance_state *s, uint64_t server)
{
	for (unsigned i = 0; server && i < s->server_count; i++)
		if (s->servers[i].id == server)
			return i;
	return NONE;
}

static double max_of(double a, double b)
{
	return a > b ? a : b;
}

static void plan_fini(struct plan *p)
{
	free(p->hosts);
	free(p->parts);
}

static int plan_init(struct plan *p, const struct balance_state *s)
{
	double requests = 0, bytes = 0, servers = s->server_count, sum = 0;

	*p = (struct plan){.s = s};
	p->hosts = calloc(s->server_count + 1u, sizeof(*p->hosts));
	p->parts = calloc(s->tablet_count + 1u, sizeof(*p->parts));
	if (!p->hosts || !p->parts) {
		plan_fini(p);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < s->server_count; i++)
		p->hosts[i].moves = s->servers[i].moving;
	for (unsigned i = 0; i < s->tablet_count; i++) {
		requests += (double)s->tablets[i].reads + (double)s->tablets[i].writes;
		bytes += (double)s->tablets[i].bytes;
	}
	requests = max_of(requests, IDLE_REQUESTS * max_of(servers, 1));
	bytes = max_of(bytes, IDLE_BYTES * max_of(servers, 1));
	for (unsigned i = 0; i < s->tablet_count; i++) {
		const struct balance_tablet *t = &s->tablets[i];
		struct part *part = &p->parts[i];

		part->weight = ((double)t->reads + (double)t->writes) / requests / 2 + (double)t->bytes / bytes / 4 +
			1.0 / (double)s->tablet_count / 4;
		sum += part->weight;
		part->host = host_of(s, t->server);
		part->pair = NONE;
		if (i > 0 && t->small && !is_special(p, i) && !is_special(p, i - 1) && p->parts[i - 1].pair == NONE) {
			part->pair = i - 1;
			p->parts[i - 1].pair = i;
		}
		if (part->host != NONE) {
			p->hosts[part->host].weight += part->weight;
			p->hosts[part->host].special += is_special(p, i);
		}
	}
	p->slack = sum / max_of(servers, 1) / 10;
	return 0;
}

static void put_on(struct plan *p, unsigned tablet, unsigned host)
{
	struct part *part = &p->parts[tablet];

	if (part->host != NONE) {
		p->hosts[part->host].weight -= part->weight;
		p->hosts[part->host].special -= is_special(p, tablet);
	}
	part->host = host;
	p->hosts[host].weight += part->weight;
	p->hosts[host].special += is_special(p, tablet);
}

/* Returns true if host a should rather get the tablet than host b. */
static bool is_better(const struct plan *p, unsigned tablet, unsigned a, unsigned b)
{
	const struct host *x = &p->hosts[a], *y = &p->hosts[b];

	if (is_special(p, tablet) && x->special != y->special)
		return x->special < y->special;
	return x->weight < y->weight;
}

/* ---- moves ---- */

static bool can_move(const struct plan *p, unsigned host)
{
	return p->hosts[host].moves < BALANCE_MOVES;
}

/* Returns true if moved tablets may come to the host. */
static bool is_target(const struct plan *p, unsigned host)
{
	const struct balance_server *server = &p->s->servers[host];

	return !server->draining && can_move(p, host) && p->s->now_us - server->since_us >= BALANCE_SETTLE_US;
}

/* The best target for the tablet, NONE if there is none. */
static unsigned target_of(const struct plan *p, unsigned tablet)
{
	unsigned best = NONE;

	for (unsigned i = 0; i < p->s->server_count; i++)
		if (is_target(p, i) && i != p->parts[tablet].host && (best == NONE || is_better(p, tablet, i, best)))
			best = i;
	return best;
}

static bool is_movable(const struct plan *p, unsigned tablet)
{
	unsigned host = p->parts[tablet].host;

	return host != NONE && !p->s->tablets[tablet].moving && can_move(p, host);
}

static int move(struct plan *p, unsigned tablet, unsigned to, enum balance_reason reason)
{
	if (array_grow(&p->moves, p->count, sizeof(*p->moves)))
		return -ENOMEM;
	p->moves[p->count++] = (struct balance_move){tablet, p->s->servers[to].id, reason};
	p->hosts[p->parts[tablet].host].moves++;
	p->hosts[to].moves++;
	put_on(p, tablet, to);
	return 0;
}

/* Root first, then METADATA, because all other tablets are found through them. */
static int drain(struct plan *p)
{
	int err = 0;

	for (enum balance_kind kind = BALANCE_ROOT; kind <= BALANCE_USER; kind++)
		for (unsigned i = 0; i < p->s->tablet_count && !err; i++) {
			unsigned pair = p->parts[i].pair, to;

			if (p->s->tablets[i].kind != kind || !is_movable(p, i) || !p->s->servers[p->parts[i].host].draining)
				continue;
			to = pair != NONE && p->parts[pair].host != NONE && is_target(p, p->parts[pair].host) ? p->parts[pair].host
													      : target_of(p, i);
			if (to != NONE)
				err = move(p, i, to, BALANCE_DRAIN);
		}
	return err;
}

/* Root stays if METADATA can move. */
static int spread(struct plan *p)
{
	int err = 0;

	for (enum balance_kind kind = BALANCE_METADATA;; kind = BALANCE_ROOT) {
		for (unsigned i = 0; i < p->s->tablet_count && !err; i++) {
			unsigned from = p->parts[i].host, to;

			if (p->s->tablets[i].kind != kind || !is_movable(p, i) || p->s->servers[from].draining)
				continue;
			to = target_of(p, i);
			if (to != NONE && p->hosts[from].special > p->hosts[to].special + 1)
				err = move(p, i, to, BALANCE_SPREAD);
		}
		if (err || kind == BALANCE_ROOT)
			return err;
	}
}

static bool is_young(const struct plan *p, unsigned tablet)
{
	return p->s->now_us - p->s->tablets[tablet].since_us < BALANCE_JOIN_US;
}

/* Returns true if the tablet is in a pair that should be on one server. */
static bool is_bound(const struct plan *p, unsigned tablet)
{
	const unsigned pair = p->parts[tablet].pair;

	if (pair == NONE)
		return false;
	if (p->parts[tablet].host == p->parts[pair].host)
		return !is_young(p, tablet) || !is_young(p, pair);
	return !is_young(p, tablet) && !is_young(p, pair);
}

/* The lighter tablet of a pair moves, if it can. */
static int join(struct plan *p)
{
	int err = 0;

	for (unsigned i = 0; i < p->s->tablet_count && !err; i++) {
		unsigned other = p->parts[i].pair, tablet = i;

		if (other == NONE || other < i || p->parts[i].host == p->parts[other].host || !is_bound(p, i))
			continue;
		for (unsigned turn = 0; turn < 2; turn++) {
			bool lighter = (p->parts[i].weight <= p->parts[other].weight) == (turn == 0);
			unsigned to;

			tablet = lighter ? i : other;
			to = p->parts[lighter ? other : i].host;
			if (to != NONE && is_movable(p, tablet) && is_target(p, to) && !p->s->tablets[lighter ? other : i].moving) {
				err = move(p, tablet, to, BALANCE_JOIN);
				break;
			}
		}
	}
	return err;
}

/* Returns the tablet whose move between the two hosts reduces the measure most, or NONE. */
static unsigned best_load(const struct plan *p, unsigned from, unsigned to)
{
	double gap = p->hosts[from].weight - p->hosts[to].weight, most = 0;
	unsigned best = NONE;

	for (unsigned i = 0; i < p->s->tablet_count; i++) {
		const struct part *part = &p->parts[i];
		double gain = part->weight * (gap - part->weight);

		if (part->host == from && !is_special(p, i) && !is_bound(p, i) && is_movable(p, i) &&
			p->s->now_us - p->s->tablets[i].since_us >= BALANCE_SETTLE_US && gap > part->weight + p->slack &&
			gain > most) {
			most = gain;
			best = i;
		}
	}
	return best;
}

/*
 * The lightest target, and the heaviest of the hosts that have a tablet for it.  If the
 * lightest target does not help, no heavier one does.
 */
static int level(struct plan *p)
{
	for (;;) {
		unsigned to = NONE, from = NONE, tablet = NONE;
		int err;

		for (unsigned i = 0; i < p->s->server_count; i++)
			if (is_target(p, i) && (to == NONE || p->hosts[i].weight < p->hosts[to].weight))
				to = i;
		for (unsigned i = 0; i < p->s->server_count && to != NONE; i++) {
			unsigned found;

			if (i == to || p->s->servers[i].draining || !can_move(p, i) ||
				(from != NONE && p->hosts[i].weight <= p->hosts[from].weight))
				continue;
			found = best_load(p, i, to);
			if (found != NONE) {
				from = i;
				tablet = found;
			}
		}
		if (tablet == NONE)
			return 0;
		err = move(p, tablet, to, BALANCE_LOAD);
		if (err)
			return err;
	}
}

int balance_moves(const struct balance_state *s, struct balance_move **moves, unsigned *count)
{
	struct plan p;
	int err;

	*moves = NULL;
	*count = 0;
	if (s->failure_us && s->now_us - s->failure_us < BALANCE_CALM_US)
		return 0;
	err = plan_init(&p, s);
	if (err)
		return err;
	err = drain(&p);
	if (!err)
		err = spread(&p);
	if (!err)
		err = join(&p);
	if (!err)
		err = level(&p);
	plan_fini(&p);
	if (err) {
		free(p.moves);
		return err;
	}
	*moves = p.moves;
	*count = p.count;
	return 0;
}

/* ---- places ---- */

struct waiting {
	unsigned tablet;
	enum balance_kind kind;
	double weight;
};

static int by_weight(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->weight > y->weight || x->weight < y->weight)
		return x->weight > y->weight ? -1 : 1;
	return x->tablet < y->tablet ? -1 : 1;
}

static unsigned place_of(const struct plan *p, unsigned tablet)
{
	unsigned pair = p->parts[tablet].pair, best = NONE;

	if (pair != NONE && p->parts[pair].host != NONE && !p->s->servers[p->parts[pair].host].draining)
		return p->parts[pair].host;
	for (unsigned i = 0; i < p->s->server_count; i++) {
		bool draining = p->s->servers[i].draining;

		if (best == NONE ||
			(draining ? p->s->servers[best].draining && is_better(p, tablet, i, best)
				  : p->s->servers[best].draining || is_better(p, tablet, i, best)))
			best = i;
	}
	return best;
}

/* The heaviest first, because the light ones then even out the rest. */
int balance_place(const struct balance_state *s, uint64_t *to)
{
	struct waiting *waiting = calloc(s->tablet_count + 1u, sizeof(*waiting));
	unsigned n = 0;
	struct plan p;

	if (!waiting || plan_init(&p, s)) {
		free(waiting);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < s->tablet_count; i++) {
		to[i] = s->tablets[i].server;
		if (p.parts[i].host == NONE)
			waiting[n++] = (struct waiting){i, s->tablets[i].kind, p.parts[i].weight};
	}
	qsort(waiting, n, sizeof(*waiting), by_weight);
	for (unsigned i = 0; i < n; i++) {
		unsigned host = place_of(&p, waiting[i].tablet);

		to[waiting[i].tablet] = host == NONE ? 0 : s->servers[host].id;
		if (host != NONE)
			put_on(&p, waiting[i].tablet, host);
	}
	plan_fini(&p);
	free(waiting);
	return 0;
}
