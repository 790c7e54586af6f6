/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root of a client in another process: channel, router, the lock
 * service's reads, and the public API over them.  The router finds tablets by the server's
 * answers to LOCATE.
 */
#include "engine/join.h"

#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/client/client.h"
#include "engine/lock/lock.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/remote_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUPS_MOST 1024

struct joined {
	struct channel *channel;
	struct lock_service *locks;
	struct router *router;
	struct tfs_user self; /* of this process */
	gid_t groups[GROUPS_MOST];
	struct tfs_store *_Atomic store; /* NULL: not open yet */
};

static int joined_free(struct joined *j)
{
	if (!j)
		return 0;
	channel_free(j->channel);
	route_free(j->router);
	lock_service_free(j->locks);
	free(j);
	return 0;
}

/* ---- servers ---- */

/* One server has all tablets, whatever its incarnation was when METADATA was written. */
static struct tablet_service *joined_connect(void *arg, uint64_t incarnation)
{
	return channel_tablets(((struct joined *)arg)->channel);
}

static int joined_each(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	return fn(fn_arg, 0, channel_tablets(((struct joined *)arg)->channel));
}

static int joined_locate(void *arg, uint32_t table, struct tfs_bytes row, struct ss_answer *a)
{
	const struct ss_request q = {.method = SS_LOCATE, .table = table, .row = row};

	return channel_store(((struct joined *)arg)->channel, &q, a);
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

static int joined_metrics(void *arg, struct buf *out)
{
	return ask(arg, &(struct ss_request){.method = SS_METRICS}, out);
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

static void joined_will_close(void *arg)
{
}

/* The server has the settings. */
static void joined_change(void *arg, const struct tfs_options *o)
{
}

static int joined_close(void *arg)
{
	struct joined *j = arg;

	tfs_unwatch(j->store);
	route_goodbye(j->router);
	return joined_free(j);
}

/* ---- opening ---- */

static void on_changed(void *arg, const struct tfs_bytes *notice, uint64_t number)
{
	struct tfs_store *s = ((struct joined *)arg)->store;

	if (s)
		client_changed(s, notice, number);
}

static int joined_watch(void *arg)
{
	return channel_watch(((struct joined *)arg)->channel);
}

static void joined_heard(void *arg, uint64_t notice)
{
	channel_heard(((struct joined *)arg)->channel, notice);
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
static int open_parts(struct joined *j, struct dial *dial, const struct tfs_options *o, char **why)
{
	struct channel_options co = {.dial = dial,
		.program = *o->mountpoint ? o->mountpoint : program_invocation_short_name,
		.sync = o->sync,
		.timeout_us = o->timeout_us,
		.user = dial_needs_user(dial) ? &j->self : NULL,
		.changed = on_changed,
		.arg = j};
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
	err = channel_new(&co, &j->channel, why);
	if (!err)
		err = remote_lock_new(j->channel, &j->locks);
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
		.will_close = joined_will_close,
		.change = joined_change,
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
	read_self(j);
	err = dial_new(at, &(struct dial_options){.keys = o->keys, .ssh = o->ssh}, &dial, why);
	if (!err)
		err = open_parts(j, dial, o, why);
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
