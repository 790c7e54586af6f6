/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a cluster find each other (site.h). */
#include "engine/site.h"

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/base/stop.h"
#include "engine/base/task.h"
#include "engine/host.h"
#include "engine/lock/marker.h"
#include "engine/lock/zookeeper.h"
#include "engine/rpc/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SESSION_US 4000000u
#define MASTER_TRY_US 1000000u /* how long one address is tried before the file "master" is read again */
#define LOOK_AGAIN_US 500000u
#define MASTER_PAUSE_US 50000u
#define MASTER_FILE_MAX (PEER_ADDRESS_MAX + 20)
#define DIGEST_MAX 64u

struct site_master {
	struct master_service base; /* first */
	struct site *site;
	struct peers_options dial;
	struct task_pool *pool;
	struct task look;               /* looks which servers have ended, and whether another master leads */
	struct task end;                /* the end of a drain's time */
	struct mutex lock;              /* RANK_SERVER; guards the next members */
	char contents[MASTER_FILE_MAX]; /* the contents of the file "master" */
	struct channel *channel;        /* the channel to the address in `contents` */
	struct channel **old;           /* the channels to former masters, because calls may be running */
	unsigned old_count;
};

void site_give_up(const char *why)
{
	msg_error("%s: this process ends", why);
	_exit(3);
}

static void on_expired(void *arg)
{
	site_give_up("the lock service has ended the session");
}

/* ---- opening ---- */

/* The first key of the file is the cluster's. */
static int read_key(const struct tfs_options *o, char digest[DIGEST_MAX], char **why)
{
	struct lock_identity identity = {0};
	uint8_t word[SIPHASH_KEY_BYTES];
	struct keys *keys = NULL;
	const struct key *k;
	int n, err = *o->keys ? keys_load(o->keys, &keys, NULL, why) : -EINVAL;

	if (err) {
		why_set(why, "keys: a server or master of a cluster needs the file of its keys");
		return err;
	}
	k = keys_count(keys) ? keys_at(keys, 0) : NULL;
	if (!k || k->role != KEY_CLUSTER) {
		why_set(why, "%s: its first key is not one of role cluster", o->keys);
		keys_put(keys);
		return -EINVAL;
	}
	memcpy(identity.secret, k->secret, sizeof(identity.secret));
	keys_put(keys);
	identity_key(&identity, "zookeeper", word);
	n = snprintf(digest, DIGEST_MAX, "tabletfs:");
	for (unsigned i = 0; i < sizeof(word); i++)
		n += snprintf(digest + n, DIGEST_MAX - (size_t)n, "%02x", word[i]);
	return 0;
}

static int check_options(const struct tfs_options *o, char **why)
{
	if (!*o->listen || strncmp(o->listen, "0.0.0.0:", 8) == 0 || strncmp(o->listen, "[::]:", 5) == 0 || *o->listen == ':') {
		why_set(why, "listen: must be the ADDR:PORT at which the other processes and the mounts reach this one");
		return -EINVAL;
	}
	if (o->insecure_tcp) {
		why_set(why, "insecure_tcp: the processes of a cluster have keys");
		return -EINVAL;
	}
	return 0;
}

int site_open(const struct store_source *at, const struct tfs_options *o, struct site *s, char **why)
{
	char digest[DIGEST_MAX], *hosts = NULL;
	struct lock_zookeeper_options lo = {.chroot = at->host,
		.digest = digest,
		.timeout_us = SESSION_US,
		.patience_us = o->timeout_us,
		.expired = on_expired};
	int err = check_options(o, why);

	*s = (struct site){.options = *o};
	snprintf(s->address, sizeof(s->address), "%s", o->listen);
	if (!err)
		err = read_key(o, digest, why);
	if (!err && access(at->dir, F_OK)) {
		err = -errno;
		why_set(why, "%s: %s", at->dir, strerror(errno));
	}
	if (!err) {
		s->dir = file_real(at->dir);
		lo.hosts = hosts = store_source_hosts(at);
		err = s->dir && hosts ? lock_zookeeper_open(&lo, &s->locks, why) : -ENOMEM;
	}
	if (!err)
		s->session_us = lock_zookeeper_timeout_us(s->locks);
	free(hosts);
	if (err)
		site_close(s);
	return err;
}

int site_check(struct site *s, char **why)
{
	char *format = path_join(s->dir, "FORMAT");
	bool whole;
	int err = format ? marker_check(s->locks, s->dir, &s->cluster, why) : -ENOMEM;

	if (!err && !s->cluster) {
		err = -ENODEV;
		why_set(why, "%s: no directory of a cluster; 'tabletctl init' makes one", s->dir);
	}
	if (!err)
		err = store_format_check(format, &whole, why);
	if (!err) {
		err = identity_read(s->locks, &s->identity);
		if (err)
			why_set(why, "the lock service's file " IDENTITY_FILE ": %s", error_text(err));
	}
	free(format);
	return err;
}

/* ---- other servers ---- */

static void server_file(uint64_t incarnation, char name[40])
{
	snprintf(name, 40, "servers/%llu", (unsigned long long)incarnation);
}

/* Reads a file of one line whose first word is an address. */
static int read_line(struct lock_service *locks, const char *name, char line[MASTER_FILE_MAX], char address[PEER_ADDRESS_MAX])
{
	struct buf b = {0};
	int err = lock_get(locks, name, &b, NULL);
	size_t n = 0;

	if (!err) {
		while (n < b.n && b.p[n] != ' ')
			n++;
		err = n && n < PEER_ADDRESS_MAX && b.n < MASTER_FILE_MAX ? 0 : -EBADMSG;
	}
	if (!err) {
		memcpy(address, b.p, n);
		address[n] = 0;
		memcpy(line, b.p, b.n);
		line[b.n] = 0;
	}
	buf_fini(&b);
	return err;
}

static int read_address(struct lock_service *locks, const char *name, char address[PEER_ADDRESS_MAX])
{
	char line[MASTER_FILE_MAX];

	return read_line(locks, name, line, address);
}

static int server_address(void *arg, uint64_t incarnation, char address[PEER_ADDRESS_MAX])
{
	char name[40];

	server_file(incarnation, name);
	return read_address(((struct site *)arg)->locks, name, address);
}

static struct tablet_service *servers_connect(void *arg, uint64_t incarnation)
{
	return peers_connect(((struct site *)arg)->peers, incarnation);
}

struct incarnations {
	uint64_t *v;
	unsigned count;
};

static int add_incarnation(void *arg, const char *name)
{
	struct incarnations *x = arg;

	if (array_grow(&x->v, x->count, sizeof(*x->v)))
		return -ENOMEM;
	x->v[x->count++] = strtoull(name, NULL, 10);
	return 0;
}

static int list_servers(struct site *s, struct incarnations *x)
{
	int err = s->locks->ops->list(s->locks, "servers", add_incarnation, x);

	return err == -ENOENT ? 0 : err;
}

static int servers_each(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	struct site *s = arg;
	struct incarnations x = {0};
	int err = list_servers(s, &x);

	for (unsigned i = 0; i < x.count && !err; i++) {
		struct tablet_service *service = servers_connect(s, x.v[i]);

		err = service ? fn(fn_arg, x.v[i], service) : 0;
	}
	free(x.v);
	return err;
}

struct tablet_servers site_servers(struct site *s)
{
	return (struct tablet_servers){.connect = servers_connect, .each = servers_each, .arg = s};
}

int site_each_address(struct site *s, int (*fn)(void *arg, uint64_t incarnation, const char *address), void *arg)
{
	char address[PEER_ADDRESS_MAX];
	struct incarnations x = {0};
	int err = list_servers(s, &x);

	for (unsigned i = 0; i < x.count && !err; i++) {
		err = server_address(s, x.v[i], address);
		if (!err)
			err = fn(arg, x.v[i], address);
		else if (err == -ENOENT || err == -EBADMSG)
			err = 0; /* other processes take a server that is not in the list for ended */
	}
	free(x.v);
	return err;
}

static bool is_listed(void *arg, uint64_t incarnation)
{
	const struct incarnations *x = arg;
	unsigned i = 0;

	while (i < x->count && x->v[i] != incarnation)
		i++;
	return i < x->count;
}

/*
 * Ends the channel to a master that does not lead any more: its calls would wait for a process that may be stopped.  The caller has
 * the lock.  The channel stays, because calls may be running.
 */
static int retire_channel(struct site_master *m)
{
	channel_end(m->channel);
	if (array_grow(&m->old, m->old_count, sizeof(struct channel *)))
		return -ENOMEM;
	m->old[m->old_count++] = m->channel;
	m->channel = NULL;
	return 0;
}

/* Ends the channel if another master leads, or none. */
static int look_at_master(struct site_master *m)
{
	char line[MASTER_FILE_MAX] = "", address[PEER_ADDRESS_MAX];
	int err = read_line(m->site->locks, "master", line, address);

	if (err && err != -ENOENT)
		return err;
	mutex_lock(&m->lock);
	if (m->channel && strcmp(line, m->contents) != 0)
		(void)!retire_channel(m);
	mutex_unlock(&m->lock);
	return 0;
}

/* Ends the channels of servers whose files do not exist any more.  If the lock service does not answer, it looks again later. */
static void look(struct task *t)
{
	struct site_master *m = (struct site_master *)((char *)t - offsetof(struct site_master, look));
	const uint64_t since = monotonic_us();
	struct incarnations x = {0};
	int err = list_servers(m->site, &x);

	if (!err)
		peers_keep(m->site->peers, since, is_listed, &x);
	free(x.v);
	if (look_at_master(m) || err)
		task_queue_after(t, LOOK_AGAIN_US);
}

/* Servers have appeared or ended, or the file "master" has changed. */
static void on_others(void *arg, const char *name)
{
	task_queue(&((struct site_master *)arg)->look);
}

/* ---- the master ---- */

int site_master_address(struct site *s, char address[PEER_ADDRESS_MAX])
{
	return read_address(s->locks, "master", address);
}

/* The channel to the master with this line in its file, or NULL. */
static struct channel *known_channel(struct site_master *m, const char *line)
{
	struct channel *c;

	mutex_lock(&m->lock);
	c = m->channel && strcmp(line, m->contents) == 0 ? m->channel : NULL;
	mutex_unlock(&m->lock);
	return c;
}

/*
 * Returns the channel to the leading master.  -ENOENT: none leads.  A new channel is made without the lock, because its keys
 * are read from a file.  If several threads make one, the first one is used.
 */
static int master_channel(struct site_master *m, struct channel **out)
{
	char line[MASTER_FILE_MAX], address[PEER_ADDRESS_MAX];
	struct channel *c, *made = NULL;
	int err = read_line(m->site->locks, "master", line, address);

	if (err)
		return err;
	c = known_channel(m, line);
	if (!c) {
		err = peers_dial(&m->dial, address, 0, &made);
		if (err)
			return err;
		mutex_lock(&m->lock);
		if (m->channel && strcmp(line, m->contents) != 0)
			err = retire_channel(m);
		if (!err && !m->channel) {
			m->channel = made;
			memcpy(m->contents, line, sizeof(line));
			made = NULL;
		}
		c = m->channel;
		mutex_unlock(&m->lock);
		channel_free(made);
	}
	if (!err)
		*out = c;
	return err;
}

/*
 * Until `timeout` a request that was not sent is sent again, also to the next master.  The
 * master's answer -EAGAIN (a tablet of METADATA is not served) is the caller's matter.
 */
static int master_call(struct master_service *base, const struct ms_request *q, struct ms_answer *a)
{
	struct site_master *m = (struct site_master *)base;
	const uint64_t until = monotonic_us() + m->site->options.timeout_us;
	struct channel *c;
	int err;

	for (;;) {
		err = master_channel(m, &c);
		if (err == -ENOENT)
			err = -UNREACHABLE; /* none leads */
		if (!err)
			err = ms_call(channel_master(c), q, a);
		if (err != -UNREACHABLE)
			break;
		if (stop_asked_waiting(true))
			return -WAIT_INTERRUPTED;
		if (monotonic_us() + MASTER_PAUSE_US > until)
			return -UNREACHABLE;
		(void)usleep(MASTER_PAUSE_US);
	}
	/* The next reads of this process must see the master's change. */
	if (ms_changes_schemas(q->method))
		(void)!lock_sync(m->site->locks);
	return err;
}

struct master_service *site_master(struct site *s)
{
	return &s->master->base;
}

/* The time of a drain is over: its call returns. */
static void end_calls(struct task *t)
{
	struct site_master *m = (struct site_master *)((char *)t - offsetof(struct site_master, end));

	mutex_lock(&m->lock);
	if (m->channel)
		channel_end(m->channel);
	mutex_unlock(&m->lock);
}

void site_drain(struct site *s, uint64_t incarnation, uint64_t timeout_us)
{
	const uint64_t until = monotonic_us() + timeout_us;
	struct ms_request q = {.method = MS_DRAIN, .incarnation = incarnation};
	struct channel *c;
	bool again;
	int err;

	task_queue_after(&s->master->end, timeout_us);
	do {
		struct ms_answer a = {0};

		err = master_channel(s->master, &c);
		if (!err)
			err = ms_call(channel_master(c), &q, &a);
		ms_answer_fini(&a);
		again = err == -EAGAIN || err == -UNREACHABLE || err == -ANSWER_LOST;
		if (again)
			(void)usleep(MASTER_PAUSE_US);
	} while (again && monotonic_us() < until);
	task_cancel(&s->master->end);
	if (!err)
		msg_notice("server %llu has no tablets any more", (unsigned long long)incarnation);
	else if (err != -ENOENT && err != -EBUSY)
		msg_warning(
			"the tablets of server %llu were not all moved away: %s", (unsigned long long)incarnation, error_text(err));
}

/* ---- begin and end ---- */

int site_connect(struct site *s, uint64_t self, uint64_t client, struct tablet_service *own)
{
	static const struct master_service_ops ops = {.call = master_call};
	struct peers_options po = {.address = server_address,
		.arg = s,
		.kind = SOURCE_TLS,
		.keys = s->options.keys,
		.channel = {.client = client, .program = program_invocation_short_name, .sync = true, .timeout_us = MASTER_TRY_US},
		.self = self,
		.own = own};
	struct site_master *m = calloc(1, sizeof(*m));
	int err = m ? peers_new(&po, &s->peers) : -ENOMEM;

	if (err) {
		free(m);
		return err;
	}
	s->master = m;
	m->base.ops = &ops;
	m->site = s;
	m->dial = po;
	mutex_init(&m->lock, RANK_SERVER);
	err = task_pool_new("site", 1, &m->pool);
	if (!err) {
		task_init(&m->look, m->pool, look);
		task_init(&m->end, m->pool, end_calls);
		err = s->locks->ops->watch(s->locks, "servers/", on_others, m);
		if (!err)
			err = s->locks->ops->watch(s->locks, "master", on_others, m);
	}
	return err;
}

void site_close(struct site *s)
{
	struct site_master *m = s->master;

	if (m) {
		s->locks->ops->unwatch(s->locks, on_others, m);
		if (m->pool) {
			task_cancel(&m->look);
			task_pool_free(m->pool);
		}
		channel_free(m->channel);
		for (unsigned i = 0; i < m->old_count; i++)
			channel_free(m->old[i]);
		free(m->old);
		mutex_fini(&m->lock);
		free(m);
	}
	peers_free(s->peers);
	lock_service_free(s->locks);
	free(s->dir);
	*s = (struct site){0};
}
