/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of the shared directory with another server as its other side (site_probe.h).
 *
 * A server that has died stays registered until its session ends, and a server that has just
 * registered answers only when it serves.  So all registered servers are asked in turn, with
 * more patience in each turn.  A server at this process's own address has died.
 */
#include "engine/site_probe.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/base/outcome.h"
#include "engine/probe/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_US 1000000u /* how long to wait for the first answer of a server */
#define PAUSE_US 100000u
#define BUSY_US 1000u
#define ROUNDS 3u
#define MOST_US 2000000u

struct other {
	struct other *next;
	uint64_t incarnation;
	char address[PEER_ADDRESS_MAX];
};
struct others {
	struct site *site;
	uint64_t self;
	struct other *head;
};

static int add_other(void *arg, uint64_t incarnation, const char *address)
{
	struct others *x = arg;
	struct other *o;

	if (incarnation == x->self || strcmp(address, x->site->address) == 0)
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->incarnation = incarnation;
	snprintf(o->address, sizeof(o->address), "%s", address);
	o->next = x->head;
	x->head = o;
	return 0;
}

static void others_fini(struct others *x)
{
	struct other *o;

	while ((o = x->head) != NULL) {
		x->head = o->next;
		free(o);
	}
}

/* Asks the other server for a step; it carries out one step at a time. */
static int ask_step(void *arg, const struct probe_order *order, struct probe_reply *reply)
{
	const struct ss_request q = {.method = SS_PROBE, .probe = {order->probe, order->number, order->which, order->step}};
	const uint64_t until = monotonic_us() + SITE_TRY_US;
	struct ss_answer a;
	int err;

	do {
		a = (struct ss_answer){0};
		err = channel_store(arg, &q, &a);
		if (!err) {
			reply->err = a.probe_err;
			snprintf(reply->answer, sizeof(reply->answer), "%s", a.why ? a.why : "");
		}
		ss_answer_fini(&a);
		if (err == -EAGAIN || err == -EBUSY)
			(void)usleep(BUSY_US);
	} while ((err == -EAGAIN || err == -EBUSY) && monotonic_us() < until);
	return err ? -UNREACHABLE : 0;
}

/* Returns -UNREACHABLE if it does not answer. */
static int probe_with(struct site *s, const struct other *o, uint64_t patience_us, char **why)
{
	struct peers_options po = {.kind = SOURCE_TLS,
		.keys = s->options.keys,
		.channel = {.program = program_invocation_short_name, .timeout_us = patience_us}};
	struct probe *p = calloc(1, sizeof(*p));
	struct channel *c = NULL;
	char *name = NULL;
	int err = p && asprintf(&name, "%s:%s", o->address, s->dir) >= 0 ? 0 : -ENOMEM;

	if (!err)
		err = random_bytes(&po.channel.client, sizeof(po.channel.client));
	po.channel.client |= TS_CLIENT_RANDOM;
	if (!err)
		err = peers_dial(&po, o->address, o->incarnation, &c);
	if (!err) {
		*p = (struct probe){.dir = {s->dir, name}, .far = ask_step, .far_arg = c, .rounds = ROUNDS, .most_us = MOST_US};
		err = probe_run(p);
		if (err != -UNREACHABLE)
			err = probe_verdict(p, err, why);
		if (!err)
			msg_notice("%s: safe; the other side of the probe was the server at %s", s->dir, o->address);
	}
	channel_free(c);
	free(name);
	free(p);
	return err;
}

/* Returns 0 with *found false if no other server is registered. */
static int probe_any(struct site *s, uint64_t self, uint64_t most_us, bool *found, char **why)
{
	const uint64_t until = monotonic_us() + most_us;
	uint64_t patience_us = FIRST_US;
	struct others x;
	int err;

	do {
		x = (struct others){.site = s, .self = self};
		err = lock_sync(s->locks);
		if (!err)
			err = site_each_address(s, add_other, &x);
		*found = !err && x.head;
		if (*found)
			err = -UNREACHABLE;
		for (const struct other *o = x.head; o && err == -UNREACHABLE; o = o->next)
			err = probe_with(s, o, patience_us, why);
		others_fini(&x);
		if (err == -UNREACHABLE) {
			patience_us *= 2;
			(void)usleep(PAUSE_US);
		}
	} while (err == -UNREACHABLE && monotonic_us() < until);
	if (err == -UNREACHABLE)
		why_set(why, "%s: no registered server answers as the other side of the probe", s->dir);
	return err;
}

int site_try_storage(struct site *s, bool *alone, char **why)
{
	bool found = false;
	int err = probe_mount_options(s->dir, why);

	if (!err)
		err = probe_any(s, 0, SITE_TRY_US, &found, why);
	if (!err && !found)
		err = probe_at_start(s->dir, why);
	*alone = !found;
	return err;
}

int site_try_again(struct site *s, uint64_t self, uint64_t most_us, char **why)
{
	bool found;
	int err = probe_any(s, self, most_us, &found, why);

	if (err == -EOPNOTSUPP)
		site_give_up(*why ? *why : error_text(err));
	return !err && !found ? -ENOENT : err;
}
