/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root of a client in another process: channel, router, the lock
 * service's reads, and the public API over them.  The router finds tablets by the server's
 * answers to LOCATE.
 *
 * If the server names itself and others by addresses (SS_SERVERS), they are the
 * servers of a cluster, and requests for tablets go to the server that has
 * them.  All other requests are sent to one server.  If it does not answer,
 * they are sent to another address of the source.
 */
#include "engine/join.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/client/client.h"
#include "engine/labelled.h"
#include "engine/lock/lock.h"
#include "engine/peers.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/remote_lock.h"
#include "engine/tellers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUPS_MOST 1024
#define ASK_US 100000u
#define GREETING_US 2000000u /* a server of a cluster that has not greeted by then is stopped, and others may have its tablets */

struct server_place {
	uint64_t incarnation;
	char address[PEER_ADDRESS_MAX];
};
struct joined {
	struct channel *channel;
	struct peers *peers; /* the servers of a cluster; NULL if one server has all tablets */
	struct tellers *tellers;
	struct mutex lock; /* RANK_CLIENT; guards the next members */
	struct server_place *places;
	unsigned place_count;
	uint64_t asked_us;    /* when they were asked for */
	uint64_t answered_us; /* when they were answered */
	struct lock_service *locks;
	struct router *router;
	struct tfs_options options;
	struct tfs_user self; /* the user of this process */
	gid_t groups[GROUPS_MOST];
	struct tfs_store *_Atomic store; /* NULL: not open yet */
};

static int joined_free(struct joined *j)
{
	if (!j)
		return 0;
	tellers_stop(j->tellers);
	peers_free(j->peers);
	channel_free(j->channel);
	tellers_free(j->tellers);
	route_free(j->router);
	lock_service_free(j->locks);
	free(j->places);
	mutex_fini(&j->lock);
	free(j);
	return 0;
}

/* ---- servers ---- */

/*
 * Asks a server for the places of all servers, and replaces the list.  An answer to a question
 * that was sent before the last answer came may be older.  It could lack a server that has
 * begun meanwhile, and this server would then count as ended.
 */
static int ask_places(struct joined *j)
{
	const uint64_t since = monotonic_us();
	struct ss_answer a = {0};
	struct server_place *v = NULL, *old;
	unsigned n = 0;
	int err = channel_store(j->channel, &(struct ss_request){.method = SS_SERVERS}, &a);

	if (!err && a.server_count) {
		v = calloc(a.server_count, sizeof(*v));
		err = v ? 0 : -ENOMEM;
	}
	for (uint32_t i = 0; i < a.server_count && !err; i++)
		if (a.servers[i].incarnation && strchr(a.servers[i].name, ':')) {
			v[n].incarnation = a.servers[i].incarnation;
			snprintf(v[n++].address, PEER_ADDRESS_MAX, "%s", a.servers[i].name);
		}
	ss_answer_fini(&a);
	if (err)
		return err;
	mutex_lock(&j->lock);
	old = v;
	if (since >= j->answered_us) {
		old = j->places;
		j->places = v;
		j->place_count = n;
		j->answered_us = j->asked_us = monotonic_us();
	}
	mutex_unlock(&j->lock);
	free(old);
	return 0;
}

static bool find_place(struct joined *j, uint64_t incarnation, char address[PEER_ADDRESS_MAX])
{
	bool found = false;

	mutex_lock(&j->lock);
	for (unsigned i = 0; i < j->place_count && !found; i++)
		if (j->places[i].incarnation == incarnation) {
			memcpy(address, j->places[i].address, PEER_ADDRESS_MAX);
			found = true;
		}
	mutex_unlock(&j->lock);
	return found;
}

/* A server that has no place yet is asked for, but not more often than every ASK_US. */
static int place_of(void *arg, uint64_t incarnation, char address[PEER_ADDRESS_MAX])
{
	struct joined *j = arg;
	bool ask;

	if (find_place(j, incarnation, address))
		return 0;
	mutex_lock(&j->lock);
	ask = monotonic_us() - j->asked_us >= ASK_US;
	if (ask)
		j->asked_us = monotonic_us();
	mutex_unlock(&j->lock);
	return ask && ask_places(j) == 0 && find_place(j, incarnation, address) ? 0 : -ENOENT;
}

/* One server has all tablets, also if it had another incarnation when METADATA was written. */
static struct tablet_service *joined_connect(void *arg, uint64_t incarnation)
{
	struct joined *j = arg;

	return j->peers ? peers_connect(j->peers, incarnation) : channel_tablets(j->channel);
}

static int joined_each(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	struct joined *j = arg;
	uint64_t *v;
	unsigned n = 0;
	int err = 0;

	if (!j->peers)
		return fn(fn_arg, 0, channel_tablets(j->channel));
	err = ask_places(j);
	if (err)
		return err;
	mutex_lock(&j->lock);
	v = calloc(j->place_count + 1u, sizeof(*v));
	for (; v && n < j->place_count; n++)
		v[n] = j->places[n].incarnation;
	mutex_unlock(&j->lock);
	err = v ? 0 : -ENOMEM;
	for (unsigned i = 0; i < n && !err; i++) {
		struct tablet_service *s = peers_connect(j->peers, v[i]);

		err = s ? fn(fn_arg, v[i], s) : 0;
	}
	free(v);
	return err;
}

static int joined_locate(void *arg, uint32_t table, struct tfs_bytes row, uint64_t *left_us, struct ss_answer *a)
{
	const struct ss_request q = {.method = SS_LOCATE, .table = table, .row = row};
	const uint64_t since_us = monotonic_us();
	const int err = channel_store_within(((struct joined *)arg)->channel, *left_us, &q, a);
	const uint64_t us = err ? monotonic_us() - since_us : 0;

	*left_us -= us < *left_us ? us : *left_us;
	return err;
}

/* ---- calls of the client (struct client_options) ---- */

/* A request whose answer is bytes, which are appended to out. */
static int ask(struct joined *j, const struct ss_request *q, struct buf *out)
{
	struct ss_answer a = {0};
	int err = channel_store(j->channel, q, &a);

	if (!err && out)
		err = buf_append_bytes(out, a.bytes);
	ss_answer_fini(&a);
	return user_errno(err);
}

static int joined_space(void *arg, uint64_t *total_bytes, uint64_t *available_bytes)
{
	struct ss_answer a = {0};
	int err = channel_store(((struct joined *)arg)->channel, &(struct ss_request){.method = SS_SPACE}, &a);

	if (!err) {
		*total_bytes = a.total_bytes;
		*available_bytes = a.available_bytes;
	}
	ss_answer_fini(&a);
	return user_errno(err);
}

static int joined_status(void *arg, uint64_t watcher, struct buf *out)
{
	return ask(arg, &(struct ss_request){.method = SS_STATUS, .watcher = watcher}, out);
}

/* Appends the metrics of the server, or of each server of a cluster. */
static int joined_metrics(void *arg, struct buf *out)
{
	struct joined *j = arg;
	struct labelled all = {0};
	int err = j->peers ? ask_places(j) : 0;

	if (err || !j->peers)
		return err ? user_errno(err) : ask(j, &(struct ss_request){.method = SS_METRICS}, out);
	for (unsigned i = 0; !err; i++) {
		struct ss_answer a = {0};
		uint64_t incarnation = 0;
		struct channel *c;

		mutex_lock(&j->lock);
		if (i < j->place_count)
			incarnation = j->places[i].incarnation;
		mutex_unlock(&j->lock);
		if (!incarnation)
			break;
		c = peers_channel(j->peers, incarnation);
		if (c && channel_store(c, &(struct ss_request){.method = SS_METRICS}, &a) == 0)
			err = labelled_add(&all, incarnation, a.bytes);
		ss_answer_fini(&a);
	}
	if (!err)
		err = labelled_put(&all, out);
	labelled_fini(&all);
	return err;
}

static int joined_servers(void *arg, int (*fn)(void *fn_arg, const struct tfs_server *server), void *fn_arg)
{
	struct ss_answer a = {0};
	int err = channel_store(((struct joined *)arg)->channel, &(struct ss_request){.method = SS_SERVERS}, &a);

	for (uint32_t i = 0; i < a.server_count && !err; i++) {
		const struct ss_server *v = &a.servers[i];
		const struct tfs_server one = {v->name, v->state, v->incarnation, v->tablets, v->bytes};

		err = fn(fn_arg, &one);
	}
	ss_answer_fini(&a);
	return user_errno(err);
}

static int joined_clients(void *arg, struct buf *out)
{
	return ask(arg, &(struct ss_request){.method = SS_CLIENTS}, out);
}

static int joined_client_refuse(void *arg, uint64_t client, bool refuse)
{
	return ask(arg, &(struct ss_request){.method = refuse ? SS_DISCONNECT : SS_ALLOW, .number = client}, NULL);
}

static int joined_confirm_clock(void *arg)
{
	return ask(arg, &(struct ss_request){.method = SS_CONFIRM_CLOCK}, NULL);
}

static int joined_key(void *arg, const char *purpose, uint8_t *key)
{
	struct buf b = {0};
	int err = ask(arg, &(struct ss_request){.method = SS_KEY, .name = purpose}, &b);

	if (!err && b.n != TFS_KEY_BYTES)
		err = -EIO;
	if (!err)
		memcpy(key, b.p, TFS_KEY_BYTES);
	buf_fini(&b);
	return err;
}

static int joined_config(void *arg, struct buf *out)
{
	return ask(arg, &(struct ss_request){.method = SS_CONFIG}, out);
}

static int joined_config_change(void *arg, struct tfs_bytes text, char **why)
{
	struct ss_answer a = {0};
	int err =
		channel_store(((struct joined *)arg)->channel, &(struct ss_request){.method = SS_CONFIG_CHANGE, .text = text}, &a);

	if (why && a.why)
		*why = strdup(a.why);
	ss_answer_fini(&a);
	return user_errno(err);
}

static void joined_login(void *arg, struct tfs_login *out)
{
	channel_login(((struct joined *)arg)->channel, out);
}

static int joined_close(void *arg)
{
	struct joined *j = arg;

	tfs_unwatch(j->store);
	route_goodbye(j->router);
	return joined_free(j);
}

/* ---- opening ---- */

static int joined_watch(void *arg)
{
	struct joined *j = arg;

	return tellers_watch(j->tellers, j->store);
}

static void joined_heard(void *arg, uint64_t notice)
{
	tellers_heard(((struct joined *)arg)->tellers, notice);
}

static bool has_place(void *arg, uint64_t incarnation)
{
	char address[PEER_ADDRESS_MAX];

	return find_place(arg, incarnation, address);
}

static int ask_any(void *arg)
{
	struct joined *j = arg;

	return j->peers ? ask_places(j) : 0;
}

static void on_ended(void *arg, uint64_t incarnation)
{
	peers_ended(((struct joined *)arg)->peers, incarnation);
}

static int making(void *arg, uint64_t incarnation, struct channel_options *co)
{
	co->changed = tellers_changed;
	co->arg = tellers_add(((struct joined *)arg)->tellers, incarnation);
	return co->arg ? 0 : -ENOMEM;
}

static void made(void *arg, const struct channel_options *co, struct channel *c)
{
	tellers_made(co->arg, c);
}

static void read_self(struct joined *j)
{
	int n = getgroups(GROUPS_MOST, j->groups);

	j->self = (struct tfs_user){.uid = geteuid(),
		.gid = getegid(),
		.groups = j->groups,
		.group_count = n > 0 ? (uint32_t)n : 0,
		.groups_unknown = n < 0};
}

/* Takes dial. */
static int open_parts(struct joined *j, enum source_kind kind, struct dial *dial, const struct tfs_options *o, char **why)
{
	struct channel_options co = {.dial = dial,
		.program = *o->mountpoint ? j->options.mountpoint : program_invocation_short_name,
		.sync = o->sync,
		.timeout_us = o->timeout_us,
		.user = dial_needs_user(dial) ? &j->self : NULL};
	struct route_options ro = {.servers = {.connect = joined_connect, .each = joined_each, .arg = j},
		.locate = joined_locate,
		.patience_us = o->timeout_us};
	int err = random_bytes(&co.client, sizeof(co.client));

	if (err) {
		dial_free(dial);
		return err;
	}
	co.client |= TS_CLIENT_RANDOM;
	ro.client = co.client;
	err = tellers_new(&(struct tellers_options){o->coherence_us, ask_any, has_place, on_ended, j}, &j->tellers);
	if (!err)
		err = making(j, 0, &co);
	if (err) {
		dial_free(dial);
		return err;
	}
	err = channel_new(&co, &j->channel, why);
	if (!err)
		made(j, &co, j->channel);
	if (!err)
		err = remote_lock_new(j->channel, &j->locks);
	if (!err)
		err = ask_places(j);
	if (!err && j->place_count) {
		struct peers_options po = {.address = place_of,
			.arg = j,
			.kind = kind,
			.keys = j->options.keys,
			.channel = co,
			.making = making,
			.made = made};

		if (po.channel.timeout_us > GREETING_US)
			po.channel.timeout_us = GREETING_US;
		err = peers_new(&po, &j->peers);
		ro.synced = true;
	}
	ro.locks = j->locks;
	return err ? err : route_new(&ro, &j->router);
}

void join_explain_nobody(const char *dir, char **reason)
{
	char holder[LOCK_HOLDER_MAX] = "";
	const bool held = lock_local_is_held(dir);

	if (held)
		lock_local_holder(dir, holder);
	why_set(reason, "%s: no process serves this directory%s%s", dir, held ? " here; it is in use " : "", holder);
}

int join_open(const struct store_source *at, const struct tfs_options *o, struct tfs_store **out, char **why)
{
	struct client_options co = {
		.space = joined_space,
		.status = joined_status,
		.metrics = joined_metrics,
		.servers = joined_servers,
		.clients = joined_clients,
		.client_refuse = joined_client_refuse,
		.confirm_clock = joined_confirm_clock,
		.key = joined_key,
		.login = joined_login,
		.config = joined_config,
		.config_change = joined_config_change,
		.close = joined_close,
		.watch = joined_watch,
		.heard = joined_heard,
		.remote = true,
		.options = *o,
	};
	struct joined *j = calloc(1, sizeof(*j));
	struct tfs_store *s = NULL;
	struct dial *dial;
	int err;

	if (!j)
		return -ENOMEM;
	mutex_init(&j->lock, RANK_CLIENT);
	j->options = *o;
	read_self(j);
	err = dial_new(at, &(struct dial_options){.keys = o->keys, .ssh = o->ssh}, &dial, why);
	if (!err)
		err = open_parts(j, at->kind, dial, o, why);
	if (!err) {
		co.locks = j->locks;
		co.tablets = route_service(j->router);
		co.master = channel_master(j->channel);
		co.router = j->router;
		co.arg = j;
		err = client_new(&co, &s);
	}
	if (err) {
		(void)!joined_free(j);
		return user_errno(err);
	}
	j->store = s;
	*out = s;
	return 0;
}
