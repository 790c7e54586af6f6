/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balance of tablets among servers: properties of random clusters, and examples.
 * The measures here are written a second time, from the comments of
 * master/balance.c.
 */
#include "master/balance.h"
#include "t/lib/xorshift.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SERVERS_MAX = 12, TABLETS_MAX = 200, CLUSTERS = 400, ROUND_S = 60, NOISY_ROUNDS = 100 };
#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)

struct cluster {
	struct balance_server servers[SERVERS_MAX];
	struct balance_tablet tablets[TABLETS_MAX];
	struct balance_state s;
};

static struct balance_state *cluster(struct cluster *c, unsigned servers, unsigned tablets)
{
	*c = (struct cluster){.s = {c->servers, servers, c->tablets, tablets, 10000 * SECOND, 0}};
	for (unsigned i = 0; i < servers; i++)
		c->servers[i].id = 100 + i;
	for (unsigned i = 0; i < tablets; i++)
		c->tablets[i] = (struct balance_tablet){.kind = BALANCE_USER, .server = 100};
	return &c->s;
}

static void random_cluster(struct cluster *c, uint64_t *rnd, bool pairs)
{
	unsigned servers = 1 + (unsigned)(xorshift(rnd) % SERVERS_MAX), tablets = (unsigned)(xorshift(rnd) % TABLETS_MAX);
	unsigned crowd = 1 + (unsigned)(xorshift(rnd) % servers), heat = (unsigned)(xorshift(rnd) % 12);

	cluster(c, servers, tablets);
	for (unsigned i = 1; i < servers; i++)
		c->servers[i].draining = xorshift(rnd) % 5 == 0;
	for (unsigned i = 0; i < tablets; i++) {
		struct balance_tablet *t = &c->tablets[i];

		t->kind = i == 0 ? BALANCE_ROOT : i < tablets / 20 + 1 ? BALANCE_METADATA : BALANCE_USER;
		t->server = 100 + xorshift(rnd) % crowd;
		t->bytes = xorshift(rnd) % (UINT64_C(1) << (xorshift(rnd) % 35));
		t->reads = xorshift(rnd) % (UINT64_C(1) << heat);
		t->writes = xorshift(rnd) % (UINT64_C(1) << heat);
		t->small = pairs && i > 0 && xorshift(rnd) % 4 == 0;
		t->since_us = c->s.now_us - xorshift(rnd) % (2 * HOUR);
	}
}

/* ---- the measures ---- */

struct measure {
	unsigned draining, special, apart;
	double load;
};

static unsigned index_of(const struct cluster *c, uint64_t server)
{
	unsigned i = 0;

	while (i < c->s.server_count && c->servers[i].id != server)
		i++;
	assert_true(i < c->s.server_count);
	return i;
}

static double at_least(double a, double b)
{
	return a > b ? a : b;
}

static double weight_of(const struct cluster *c, unsigned tablet)
{
	const struct balance_tablet *t = &c->tablets[tablet];
	double requests = 0, bytes = 0;

	for (unsigned i = 0; i < c->s.tablet_count; i++) {
		requests += (double)(c->tablets[i].reads + c->tablets[i].writes);
		bytes += (double)c->tablets[i].bytes;
	}
	requests = at_least(requests, 200.0 * c->s.server_count);
	bytes = at_least(bytes, 64.0 * 1048576 * c->s.server_count);
	return 0.5 * (double)(t->reads + t->writes) / requests + 0.25 * (double)t->bytes / bytes + 0.25 / c->s.tablet_count;
}

static void partners(const struct cluster *c, int partner[TABLETS_MAX])
{
	for (unsigned i = 0; i < c->s.tablet_count; i++) {
		partner[i] = -1;
		if (c->tablets[i].small && c->tablets[i].kind == BALANCE_USER && c->tablets[i - 1].kind == BALANCE_USER &&
			partner[i - 1] < 0) {
			partner[i] = (int)i - 1;
			partner[i - 1] = (int)i;
		}
	}
}

static bool is_old(const struct cluster *c, int tablet)
{
	return c->s.now_us - c->tablets[tablet].since_us >= HOUR;
}

static struct measure measure_of(const struct cluster *c, double weights[SERVERS_MAX])
{
	unsigned special[SERVERS_MAX] = {0};
	int partner[TABLETS_MAX];
	struct measure m = {0};

	partners(c, partner);
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		weights[i] = 0;
	for (unsigned i = 0; i < c->s.tablet_count; i++) {
		unsigned server = index_of(c, c->tablets[i].server);

		weights[server] += weight_of(c, i);
		m.draining += c->servers[server].draining;
		special[server] += c->tablets[i].kind != BALANCE_USER;
		m.apart += partner[i] > (int)i && c->tablets[partner[i]].server != c->tablets[i].server && is_old(c, (int)i) &&
			is_old(c, partner[i]);
	}
	for (unsigned i = 0; i < c->s.server_count; i++) {
		m.special += special[i] * special[i];
		m.load += weights[i] * weights[i];
	}
	return m;
}

static bool is_better(struct measure a, struct measure b)
{
	if (a.draining != b.draining)
		return a.draining < b.draining;
	if (a.special != b.special)
		return a.special < b.special;
	if (a.apart != b.apart)
		return a.apart < b.apart;
	return a.load < b.load;
}

/* ---- rounds ---- */

/* Makes the moves of one round and checks each.  Returns their number. */
static unsigned one_round(struct cluster *c)
{
	unsigned count, moved[SERVERS_MAX] = {0};
	struct balance_move *moves;
	double weights[SERVERS_MAX];
	struct measure m = measure_of(c, weights);

	assert_int_equal(balance_moves(&c->s, &moves, &count), 0);
	for (unsigned i = 0; i < count; i++) {
		struct balance_tablet *t = &c->tablets[moves[i].tablet];
		unsigned from = index_of(c, t->server), to = index_of(c, moves[i].to);
		struct measure after;

		assert_int_not_equal(from, to);
		assert_false(c->servers[to].draining);
		assert_true(++moved[from] <= BALANCE_MOVES);
		assert_true(++moved[to] <= BALANCE_MOVES);
		t->server = moves[i].to;
		t->since_us = c->s.now_us;
		after = measure_of(c, weights);
		if (!is_better(after, m))
			fail_msg("move %u, reason %d: %u %u %u %.9f, then %u %u %u %.9f", i, (int)moves[i].reason, m.draining,
				m.special, m.apart, m.load, after.draining, after.special, after.apart, after.load);
		m = after;
	}
	free(moves);
	c->s.now_us += ROUND_S * SECOND;
	return count;
}

static unsigned live_servers(const struct cluster *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->s.server_count; i++)
		n += !c->servers[i].draining;
	return n;
}

/* The state after the last move. */
static void assert_balanced(const struct cluster *c)
{
	double weights[SERVERS_MAX], mean = 0, lightest = 1e9;
	struct measure m = measure_of(c, weights);
	unsigned special[SERVERS_MAX] = {0}, least = UINT32_MAX, most = 0;
	int partner[TABLETS_MAX];

	assert_int_equal(m.draining, 0);
	assert_int_equal(m.apart, 0);
	partners(c, partner);
	for (unsigned i = 0; i < c->s.tablet_count; i++)
		special[index_of(c, c->tablets[i].server)] += c->tablets[i].kind != BALANCE_USER;
	for (unsigned i = 0; i < c->s.server_count; i++) {
		mean += weights[i] / c->s.server_count;
		if (c->servers[i].draining)
			continue;
		least = special[i] < least ? special[i] : least;
		most = special[i] > most ? special[i] : most;
		lightest = weights[i] < lightest ? weights[i] : lightest;
	}
	assert_true(most - least <= 1);
	for (unsigned i = 0; i < c->s.tablet_count; i++) {
		double gap = weights[index_of(c, c->tablets[i].server)] - lightest;

		if (c->tablets[i].kind == BALANCE_USER && partner[i] < 0)
			assert_true(gap <= weight_of(c, i) + mean / 10 + 1e-9);
	}
}

/* The number of moves.  Later, as tablets grow older, there may be more. */
static unsigned rest(struct cluster *c)
{
	unsigned moves, all = 0, rounds = 0;

	while ((moves = one_round(c)) > 0) {
		all += moves;
		assert_true(++rounds <= c->s.tablet_count + 5);
	}
	return all;
}

static unsigned last_rest(struct cluster *c)
{
	unsigned moves, all = rest(c), times = 0;

	do {
		c->s.now_us += 2 * HOUR;
		moves = rest(c);
		all += moves;
		assert_true(++times < 10);
	} while (moves);
	assert_balanced(c);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(one_round(c), 0);
	return all;
}

static void random_clusters_come_to_rest(void **state)
{
	uint64_t rnd = 7;
	unsigned moves = 0;

	for (unsigned n = 0; n < CLUSTERS; n++) {
		struct cluster c;

		random_cluster(&c, &rnd, n % 2);
		moves += last_rest(&c);
	}
	assert_true(moves > CLUSTERS * 10);
}

static void drained_servers_are_empty_and_stay_so(void **state)
{
	uint64_t rnd = 11;

	for (unsigned n = 0; n < 50; n++) {
		struct cluster c;
		unsigned server;

		do
			random_cluster(&c, &rnd, true);
		while (live_servers(&c) < 2);
		(void)last_rest(&c);
		server = (unsigned)(xorshift(&rnd) % c.s.server_count);
		c.servers[server].draining = live_servers(&c) > 1 || c.servers[server].draining;
		(void)rest(&c);
		assert_int_equal(measure_of(&c, (double[SERVERS_MAX]){0}).draining, 0);
		(void)last_rest(&c);
	}
}

static void noise_moves_no_tablet_back(void **state)
{
	uint64_t rnd = 13;
	unsigned noisy = 0, tablets = 0;

	for (unsigned n = 0; n < 40; n++) {
		struct balance_tablet before[TABLETS_MAX];
		uint64_t left[TABLETS_MAX] = {0}, reads[TABLETS_MAX];
		struct cluster c;

		random_cluster(&c, &rnd, true);
		(void)last_rest(&c);
		tablets += c.s.tablet_count;
		for (unsigned i = 0; i < c.s.tablet_count; i++)
			reads[i] = c.tablets[i].reads;
		for (unsigned round = 0; round < NOISY_ROUNDS; round++) {
			memcpy(before, c.tablets, sizeof(before));
			for (unsigned i = 0; i < c.s.tablet_count; i++)
				c.tablets[i].reads = reads[i] * (95 + xorshift(&rnd) % 11) / 100;
			noisy += one_round(&c);
			for (unsigned i = 0; i < c.s.tablet_count; i++) {
				if (before[i].server == c.tablets[i].server)
					continue;
				assert_int_not_equal(left[i], c.tablets[i].server);
				left[i] = before[i].server;
			}
		}
	}
	assert_true(noisy * 20 < tablets); /* in 100 rounds, fewer than one tablet of 20 */
}

/* ---- examples ---- */

static unsigned moves_of(struct cluster *c, struct balance_move out[SERVERS_MAX])
{
	struct balance_move *moves;
	unsigned count;

	assert_int_equal(balance_moves(&c->s, &moves, &count), 0);
	assert_true(count <= SERVERS_MAX);
	for (unsigned i = 0; i < count; i++)
		out[i] = moves[i];
	free(moves);
	return count;
}

static void nothing_moves_after_a_failure(void **state)
{
	struct balance_move moves[SERVERS_MAX];
	struct cluster c;

	cluster(&c, 2, 10);
	c.s.failure_us = c.s.now_us - 59 * SECOND;
	assert_int_equal(moves_of(&c, moves), 0);
	c.servers[0].draining = true;
	assert_int_equal(moves_of(&c, moves), 0);
	c.s.failure_us = c.s.now_us - 60 * SECOND;
	assert_int_equal(moves_of(&c, moves), 2);
	assert_int_equal(moves[0].reason, BALANCE_DRAIN);
}

static void new_servers_and_tablets_settle_first(void **state)
{
	struct balance_move moves[SERVERS_MAX];
	struct cluster c;

	cluster(&c, 2, 10);
	c.servers[1].since_us = c.s.now_us - 29 * SECOND;
	assert_int_equal(moves_of(&c, moves), 0);
	c.servers[1].since_us = c.s.now_us - 30 * SECOND;
	assert_int_equal(moves_of(&c, moves), 2);
	for (unsigned i = 0; i < 9; i++)
		c.tablets[i].since_us = c.s.now_us - 29 * SECOND;
	assert_int_equal(moves_of(&c, moves), 1);
	assert_int_equal(moves[0].tablet, 9);
	assert_int_equal(moves[0].reason, BALANCE_LOAD);
}

static void moves_under_way_count(void **state)
{
	struct balance_move moves[SERVERS_MAX];
	struct cluster c;

	cluster(&c, 3, 12);
	assert_int_equal(moves_of(&c, moves), 2);
	c.servers[0].moving = 1;
	assert_int_equal(moves_of(&c, moves), 1);
	c.servers[1].moving = 2;
	assert_int_equal(moves_of(&c, moves), 1);
	assert_int_equal(moves[0].to, 102);
	c.servers[0].moving = 2;
	assert_int_equal(moves_of(&c, moves), 0);
	c.servers[0].moving = c.servers[1].moving = 0;
	for (unsigned i = 0; i < 12; i++)
		c.tablets[i].moving = true;
	c.servers[0].draining = true;
	assert_int_equal(moves_of(&c, moves), 0);
}

static void root_and_metadata_are_spread(void **state)
{
	struct balance_move moves[SERVERS_MAX];
	struct cluster c;

	cluster(&c, 3, 3);
	c.tablets[0].kind = BALANCE_ROOT;
	c.tablets[1].kind = c.tablets[2].kind = BALANCE_METADATA;
	assert_int_equal(moves_of(&c, moves), 2);
	assert_true(moves[0].tablet == 1 && moves[1].tablet == 2 && moves[0].to != moves[1].to);
	assert_int_equal(moves[0].reason, BALANCE_SPREAD);
}

/* A hot tablet cannot be divided.  The others leave its server. */
static void a_hot_tablet_stays_and_others_leave(void **state)
{
	struct cluster c;

	cluster(&c, 2, 6);
	c.tablets[0].reads = 100000;
	for (unsigned i = 1; i < 6; i++)
		c.tablets[i].reads = 1000;
	(void)last_rest(&c);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(c.tablets[i].server == c.tablets[0].server, i == 0);
}

static void small_neighbours_come_together(void **state)
{
	struct balance_move moves[SERVERS_MAX];
	struct cluster c;

	cluster(&c, 2, 4);
	c.tablets[1].server = c.tablets[3].server = 101;
	assert_int_equal(moves_of(&c, moves), 0);
	c.tablets[1].small = true;
	c.tablets[1].bytes = 10;
	assert_int_equal(moves_of(&c, moves), 2);
	assert_int_equal(moves[0].reason, BALANCE_JOIN);
	assert_int_equal(moves[0].tablet, 0); /* the lighter one */
	assert_int_equal(moves[0].to, 101);
	assert_int_equal(moves[1].reason, BALANCE_LOAD);
	assert_int_equal(moves[1].tablet, 3);
	c.tablets[2].small = true; /* 1 is in a pair already */
	assert_int_equal(moves_of(&c, moves), 2);
	assert_int_equal(moves[1].reason, BALANCE_LOAD);
	c.servers[1].draining = true; /* so 1 moves to 0 */
	assert_int_equal(moves_of(&c, moves), 2);
	assert_true(moves[0].tablet == 1 && moves[0].to == 100 && moves[0].reason == BALANCE_DRAIN);
}

/* As after "split" in .ctl, before many rows are written. */
static void new_parts_of_a_split_are_spread(void **state)
{
	struct balance_move moves[SERVERS_MAX];
	struct cluster c;
	unsigned n = 0;

	cluster(&c, 4, 16);
	for (unsigned i = 0; i < 16; i++) {
		c.tablets[i].since_us = c.s.now_us - 60 * SECOND;
		c.tablets[i].small = i > 0;
	}
	(void)rest(&c);
	for (unsigned i = 0; i < 16; i++)
		n += c.tablets[i].server == 101;
	assert_true(n >= 3 && n <= 5);
	c.s.now_us += 2 * HOUR; /* still empty */
	assert_true(moves_of(&c, moves) > 0);
	assert_int_equal(moves[0].reason, BALANCE_JOIN);
	(void)last_rest(&c);
}

/* ---- places ---- */

static void tablets_of_dead_servers_are_spread(void **state)
{
	uint64_t rnd = 17;

	for (unsigned n = 0; n < CLUSTERS; n++) {
		uint64_t to[TABLETS_MAX], dead;
		double weights[SERVERS_MAX], most = 0, least = 1e9, heaviest = 0;
		struct cluster c;

		random_cluster(&c, &rnd, n % 2);
		dead = n % 4 == 0 ? UINT64_MAX : 100 + xorshift(&rnd) % c.s.server_count; /* or all tablets */
		for (unsigned i = 0; i < c.s.tablet_count; i++)
			if (dead == UINT64_MAX || c.tablets[i].server == dead)
				c.tablets[i].server = xorshift(&rnd) % 2 ? 0 : 99;
		if (n % 4 == 0)
			for (unsigned i = 0; i < c.s.tablet_count; i++)
				c.tablets[i].kind = BALANCE_USER;
		assert_int_equal(balance_place(&c.s, to), 0);
		for (unsigned i = 0; i < c.s.tablet_count; i++) {
			if (c.tablets[i].server < 100)
				assert_false(c.servers[index_of(&c, to[i])].draining);
			else
				assert_int_equal(to[i], c.tablets[i].server);
			c.tablets[i].server = to[i];
			heaviest = at_least(heaviest, weight_of(&c, i));
		}
		measure_of(&c, weights);
		for (unsigned i = 0; i < c.s.server_count; i++)
			if (!c.servers[i].draining) {
				most = at_least(most, weights[i]);
				least = weights[i] < least ? weights[i] : least;
			}
		if (n % 4 == 0) /* no pairs, all were placed */
			assert_true(most - least <= heaviest + 1e-9);
	}
}

static void places_with_no_live_server(void **state)
{
	uint64_t to[2];
	struct cluster c;

	cluster(&c, 1, 2);
	c.tablets[0].server = 0;
	c.servers[0].draining = true;
	assert_int_equal(balance_place(&c.s, to), 0);
	assert_true(to[0] == 100 && to[1] == 100);
	c.s.server_count = 0;
	assert_int_equal(balance_place(&c.s, to), 0);
	assert_int_equal(to[0], 0);
	assert_int_equal(moves_of(&c, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_clusters_come_to_rest),
		cmocka_unit_test(drained_servers_are_empty_and_stay_so),
		cmocka_unit_test(noise_moves_no_tablet_back),
		cmocka_unit_test(nothing_moves_after_a_failure),
		cmocka_unit_test(new_servers_and_tablets_settle_first),
		cmocka_unit_test(moves_under_way_count),
		cmocka_unit_test(root_and_metadata_are_spread),
		cmocka_unit_test(a_hot_tablet_stays_and_others_leave),
		cmocka_unit_test(small_neighbours_come_together),
		cmocka_unit_test(new_parts_of_a_split_are_spread),
		cmocka_unit_test(tablets_of_dead_servers_are_spread),
		cmocka_unit_test(places_with_no_live_server),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
