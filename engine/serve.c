/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store service of a process that has opened a store, and the socket in front of all
 * its services.  The store service answers by the same functions of tabletfs.h that the
 * process itself calls, and by the lock service.
 *
 * Steps: 1 the process has the store's lock, so a socket that is there is a dead process's;
 * remove it and listen  2 clients connect and wait  3 the store is open: answer them.  At
 * the end: 1 close the connections; requests under way end  2 remove the socket  3 close
 * the store.
 */
#include "engine/serve.h"

#include "engine/base/msg.h"
#include "engine/base/socket.h"
#include "engine/client/client.h"
#include "engine/client/key_tables.h"
#include "engine/lock/lock.h"
#include "engine/probe/probe.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/listen.h"
#include "engine/rpc/listen_check.h"
#include "engine/self.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct noting_master {
	struct master_service base; /* first */
	struct master_service *inner;
	struct serving *serving;
};

struct serving {
	struct store_service base; /* first */
	const char *dir;
	char *keys; /* the path of the keys, or NULL without TLS */
	char listen[sizeof(((struct tfs_options *)0)->listen)];
	_Atomic bool paused;
	struct channel *self; /* NULL: it was not asked yet */
	struct listener *listener;
	struct noting_master master;
	struct serve_options o;
	uint8_t id[LOCK_ID_BYTES];
};

/* ---- the store service ---- */

/* Clients read the files of schemas, and the notes of dropped tables.  They do not read other files: one has the secret of the store. */
static bool is_readable(const char *name)
{
	static const char *const dirs[] = {"tables", "snapshots", "dropped"};

	for (unsigned i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		const size_t n = strlen(dirs[i]);

		if (strncmp(name, dirs[i], n) == 0 && (!name[n] || name[n] == '/'))
			return true;
	}
	return false;
}

/* Sets the bytes of an answer to a copy of b, unless err is an error.  Frees b. */
static int give(struct ss_answer *a, int err, struct buf *b)
{
	if (!err && !arena_dup(&a->arena, buf_bytes(b), &a->bytes))
		err = -ENOMEM;
	buf_fini(b);
	return err;
}

/* Returns true if the peer is a key that names its tables. */
static bool is_limited(const struct ss_peer *peer)
{
	return peer->key && peer->key->table_count;
}

/* Returns true if the peer may see everything that the owner of the store sees: it is the owner, or a host that the owner trusts with all tables and users. */
static bool sees_all(const struct ss_peer *peer)
{
	return peer->owner || (peer->key && !peer->key->table_count && peer->key->squash == SQUASH_NONE);
}

static int serve_lock_get(struct serving *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	struct lock_stat stat = {0};
	struct buf b = {0};
	int err = q->name && is_readable(q->name) ? 0 : -EINVAL;

	/* A note that a table is dropped has no contents. */
	if (!err && is_limited(peer) && strncmp(q->name, "dropped/", 8) != 0 && !key_has_file(s->o.locks, peer->key, q->name))
		err = -ENOENT;
	if (!err)
		err = s->o.locks->ops->get(s->o.locks, q->name, &b, &stat);
	a->version = stat.version;
	a->mtime_us = stat.mtime_us;
	return give(a, err, &b);
}

struct names {
	struct serving *serving;
	const struct ss_peer *peer;
	const char *dir;
	struct ss_answer *a;
	struct ss_name *v;
	uint32_t count;
};

static int add_name(void *arg, const char *name)
{
	struct names *n = arg;
	char file[SCHEMA_FILE_MAX];

	snprintf(file, sizeof(file), "%s/%s", n->dir, name);
	if (is_limited(n->peer) && !key_has_file(n->serving->o.locks, n->peer->key, file))
		return 0;
	if (array_grow(&n->v, n->count, sizeof(*n->v)))
		return -ENOMEM;
	n->v[n->count].name = arena_text(&n->a->arena, name);
	return n->v[n->count++].name ? 0 : -ENOMEM;
}

static int serve_lock_list(struct serving *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	struct names n = {.serving = s, .peer = peer, .dir = q->name, .a = a};
	int err = q->name && is_readable(q->name) ? s->o.locks->ops->list(s->o.locks, q->name, add_name, &n) : -EINVAL;
	struct tfs_bytes copy = {0};

	if (!err && n.count && !arena_dup(&a->arena, tfs_bytes_of(n.v, n.count * sizeof(*n.v)), &copy))
		err = -ENOMEM;
	if (!err) {
		a->names = (const struct ss_name *)(const void *)copy.p;
		a->name_count = n.count;
	}
	free(n.v);
	return err;
}

static int locate_root(struct serving *s, struct meta_tablet *m)
{
	struct buf b = {0};
	int err = lock_get(s->o.locks, "root", &b, NULL);

	if (!err)
		err = meta_root_decode(buf_bytes(&b), m);
	buf_fini(&b);
	return err == -ENOENT ? -TABLET_MOVED : err;
}

static int add_location(struct ss_answer *a, struct ss_location *to, const struct meta_tablet *m)
{
	*to = (struct ss_location){.server = m->server, .assignment = m->assignment};
	if (!arena_dup(&a->arena, buf_bytes(&m->begin), &to->begin) ||
		(!m->last && !arena_dup(&a->arena, buf_bytes(&m->end), &to->end)))
		return -ENOMEM;
	if (m->last)
		to->end = (struct tfs_bytes){0};
	a->tablet_count++;
	return 0;
}

/* Reads METADATA from the row's tablet on. */
static int locate_in_metadata(struct serving *s, const struct ss_request *q, struct ss_answer *a, struct ss_location *to)
{
	struct buf from = {0}, end = {0};
	struct metadata_cursor c;
	int err = meta_seek_key(&from, q->table, q->row), n = 1;

	if (!err)
		err = q->table < UINT32_MAX ? meta_table_begin(&end, q->table + 1) : -EINVAL;
	if (!err) {
		metadata_cursor_init(&c, s->o.tablets, buf_bytes(&from), buf_bytes(&end));
		while (!err && a->tablet_count < SS_LOCATIONS_MAX && (n = metadata_next(&c)) > 0) {
			/* METADATA was read between two steps of a change. */
			if (!a->tablet_count && bytes_cmp(q->row, buf_bytes(&c.tablet.begin)) < 0)
				err = -TABLET_MOVED;
			else
				err = add_location(a, &to[a->tablet_count], &c.tablet);
		}
		metadata_cursor_fini(&c);
	}
	if (!err && n < 0 && !a->tablet_count)
		err = n;
	if (!err && !a->tablet_count)
		err = q->table == META_TABLE ? -TABLET_MOVED : -TABLE_DROPPED;
	buf_fini(&from);
	buf_fini(&end);
	return err;
}

static int serve_locate(struct serving *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	struct ss_location *to = wire_zalloc(&a->arena, SS_LOCATIONS_MAX * sizeof(*to));
	struct meta_tablet root = {0};
	int err = !to ? -ENOMEM : q->table == META_TABLE && !peer->owner ? -EPERM : 0;

	if (!err && is_limited(peer) && !key_has_id(s->o.locks, peer->key, q->table))
		err = -EACCES;

	a->tablets = to;
	if (!err && q->table == META_TABLE && bytes_cmp(q->row, META_ROOT_END) < 0) {
		err = locate_root(s, &root);
		if (!err)
			err = add_location(a, to, &root);
	} else if (!err) {
		err = locate_in_metadata(s, q, a, to);
	}
	if (err)
		a->tablet_count = 0;
	meta_tablet_fini(&root);
	return err;
}

/* Sets the answer to a text of tabletfs.h, unless its function failed.  Frees the text. */
static int give_text(struct ss_answer *a, int err, char *text)
{
	if (err)
		return err;
	err = arena_dup(&a->arena, tfs_str(text), &a->bytes) ? 0 : -ENOMEM;
	free(text);
	return err;
}

/* Sums over the tables of a key. */
struct key_sums {
	unsigned tables, tablets, snapshots;
	uint64_t sstables, bytes;
};

static int add_tablet(void *arg, const struct tfs_tablet *t)
{
	struct key_sums *x = arg;

	x->tablets++;
	x->sstables += t->sstables;
	x->bytes += t->bytes;
	return 0;
}

static int add_snapshot(void *arg, const struct tfs_snapshot *snapshot)
{
	((struct key_sums *)arg)->snapshots++;
	return 0;
}

static int sum_tables(struct serving *s, const struct key *key, struct key_sums *x)
{
	int err = 0;

	*x = (struct key_sums){0};
	for (unsigned i = 0; i < key->table_count && !err; i++) {
		struct tfs_table *t;

		err = tfs_table_open(s->o.store, key->tables[i], &t);
		if (!err) {
			x->tables++;
			err = tfs_tablets(t, add_tablet, x);
			if (!err)
				err = tfs_snapshot_list(t, false, add_snapshot, x);
			tfs_table_close(t);
		}
		err = err == -ENOENT ? 0 : err;
	}
	return err;
}

/* Appends the lines of a status that are not about other tables. */
static int put_limited_status(const struct key_sums *x, char *status, struct buf *out)
{
	char *line;
	int err = 0;

	while (!err && (line = strsep(&status, "\n")) != NULL) {
		if (strncmp(line, "state ", 6) == 0 || strncmp(line, "disk ", 5) == 0)
			err = buf_printf(out, "%s\n", line);
		else if (strncmp(line, "tables ", 7) == 0)
			err = buf_printf(out, "tables       %u, in %u tablets and %llu SSTables; %u snapshots\n", x->tables,
				x->tablets, (unsigned long long)x->sstables, x->snapshots);
	}
	return err;
}

static int serve_status(struct serving *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	struct key_sums sums;
	struct buf b = {0};
	char *text = NULL;
	int err = tfs_status_for(s->o.store, q->watcher, &text);

	if (err || !is_limited(peer))
		return give_text(a, err, text);
	err = sum_tables(s, peer->key, &sums);
	if (!err)
		err = put_limited_status(&sums, text, &b);
	free(text);
	return give(a, err, &b);
}

struct servers {
	struct ss_answer *a;
	struct ss_server *v;
	const struct key_sums *limited; /* the peer's tables; NULL: it may see all */
};

enum { SERVERS_MOST = 1024 }; /* a mount takes servers that are not in the list for ended ones */
static int add_server(void *arg, const struct tfs_server *one)
{
	struct servers *x = arg;
	const char *name, *state;

	if (x->a->server_count == SERVERS_MOST)
		return 1;
	name = arena_text(&x->a->arena, one->name);
	state = arena_text(&x->a->arena, one->state);
	if (!name || !state)
		return -ENOMEM;
	x->v[x->a->server_count++] = (struct ss_server){name, state, one->incarnation,
		x->limited ? x->limited->tablets : one->tablets, x->limited ? x->limited->bytes : one->bytes};
	return 0;
}

/* A key that names its tables sees the tablets of these.  This server has them all. */
static int serve_servers(struct serving *s, const struct ss_peer *peer, struct ss_answer *a)
{
	struct servers x = {.a = a, .v = wire_zalloc(&a->arena, SERVERS_MOST * sizeof(*x.v))};
	struct key_sums sums;
	int err = x.v ? 0 : -ENOMEM;

	if (!err && is_limited(peer)) {
		err = sum_tables(s, peer->key, &sums);
		x.limited = &sums;
	}
	if (!err)
		err = tfs_servers(s->o.store, add_server, &x);
	a->servers = x.v;
	if (err < 0)
		a->server_count = 0;
	return err < 0 ? err : 0;
}

/* Answers with the load of this server only, for another server of the cluster. */
static int serve_load(struct serving *s, struct ss_answer *a)
{
	struct servers x = {.a = a, .v = wire_zalloc(&a->arena, sizeof(*x.v))};
	struct tfs_server one;
	int err = !s->o.load ? -ENOSYS : !x.v ? -ENOMEM : s->o.load(s->o.load_arg, &one);

	a->servers = x.v;
	return err ? err : add_server(&x, &one);
}

/* A step on this server's side of another process's probe. */
static int serve_probe(struct serving *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	const struct probe_order order = {q->probe.probe, q->probe.number, q->probe.which, q->probe.step};
	struct probe_reply reply = {0};
	int err = !peer->key || peer->key->role != KEY_CLUSTER ? -EPERM
		: !s->o.probes                                 ? -ENOSYS
							       : probe_sides_do(s->o.probes, &order, &reply);

	if (err)
		return err;
	a->probe_err = reply.err;
	a->why = arena_text(&a->arena, reply.answer);
	return a->why ? 0 : -ENOMEM;
}

/*
 * Users other than the owner get keys of their own, so that they cannot compute the owner's
 * hashes: with them one can choose names with equal inode numbers.  A mount with the same
 * name has the same key again.
 */
static int serve_key(struct serving *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	uint8_t key[TFS_KEY_BYTES];
	char purpose[128];
	int n = q->name ? peer->owner ? snprintf(purpose, sizeof(purpose), "%s", q->name)
				      : snprintf(purpose, sizeof(purpose), "%s of %s", q->name, peer->name)
			: -1;
	int err = n > 0 && (size_t)n < sizeof(purpose) ? tfs_key(s->o.store, purpose, key) : -EINVAL;

	return err ? err : arena_dup(&a->arena, tfs_bytes_of(key, sizeof(key)), &a->bytes) ? 0 : -ENOMEM;
}

static int serve_config_change(struct serving *s, const struct ss_request *q, struct ss_answer *a)
{
	char *why = NULL;
	int err = tfs_config_change(s->o.store, q->text, &why);

	if (why)
		a->why = arena_text(&a->arena, why);
	free(why);
	return err;
}

/* The owner asks for all clients, another user for its own. */
static int serve_clients(struct serving *s, const struct ss_peer *peer, struct ss_answer *a)
{
	struct buf b = {0};

	return give(a, listen_list(s->listener, peer->owner ? NULL : peer->name, &b), &b);
}

/* Without the numbers of this process's client: the peer has its own. */
static int serve_metrics(struct serving *s, struct ss_answer *a)
{
	struct buf b = {0};

	return give(a, s->o.store->o.metrics(s->o.store->o.arg, &b), &b);
}

/* Serves requests that only the owner may make: metrics name tables, for example. */
static int serve_owner(struct serving *s, const struct ss_request *q, struct ss_answer *a)
{
	char *text = NULL;
	int err;

	switch ((int)q->method) {
	case SS_LOAD:
		return serve_load(s, a);
	case SS_METRICS:
		return serve_metrics(s, a);
	case SS_CONFIRM_CLOCK:
		return tfs_confirm_clock(s->o.store);
	case SS_CONFIG:
		err = tfs_config(s->o.store, &text);
		return give_text(a, err, text);
	case SS_CONFIG_CHANGE:
		return serve_config_change(s, q, a);
	case SS_DISCONNECT:
		return listen_disconnect(s->listener, q->number);
	case SS_ALLOW:
		return listen_allow(s->listener, q->number);
	}
	return -ENOSYS;
}

static int serve_call(struct store_service *base, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	struct serving *s = (struct serving *)base;

	switch (q->method) {
	case SS_LOCK_GET:
		return serve_lock_get(s, peer, q, a);
	case SS_LOCK_LIST:
		return serve_lock_list(s, peer, q, a);
	case SS_LOCATE:
		return serve_locate(s, peer, q, a);
	case SS_SPACE:
		return tfs_space(s->o.store, &a->total_bytes, &a->available_bytes);
	case SS_STATUS:
		return serve_status(s, peer, q, a);
	case SS_SERVERS:
		return serve_servers(s, peer, a);
	case SS_KEY:
		return serve_key(s, peer, q, a);
	case SS_CLIENTS:
		return serve_clients(s, peer, a);
	case SS_PROBE:
		return serve_probe(s, peer, q, a);
	case SS_METRICS:
		return sees_all(peer) ? serve_owner(s, q, a) : -EPERM;
	case SS_LOAD:
	case SS_CONFIRM_CLOCK:
	case SS_CONFIG:
	case SS_CONFIG_CHANGE:
	case SS_DISCONNECT:
	case SS_ALLOW:
		return peer->owner ? serve_owner(s, q, a) : -EPERM;
	case SS_METHODS:
		break;
	}
	return -ENOSYS;
}

/* ---- changes ---- */

static int noting_call(struct master_service *m, const struct ms_request *q, struct ms_answer *a)
{
	struct noting_master *n = (struct noting_master *)m;
	int err = ms_call(n->inner, q, a);

	if (ms_changes_schemas(q->method))
		listen_note_schemas(n->serving->listener, 0);
	return err;
}

static void on_changed(void *arg, struct tfs_bytes notice, uint64_t number)
{
	client_changed(((struct serving *)arg)->o.store, &notice, number, true);
}

struct reading {
	const struct peer_rights *peer;
	uint32_t tablets;
	struct lock_service *locks;
};

/* Returns 1 if the name is the wanted table's and the peer may read a family of it, -EACCES if the peer may not, 0 for other tables. */
static int may_read_table(void *arg, const char *name)
{
	const struct reading *r = arg;
	const struct tfs_schema *p;
	struct schema *s;
	int found = 0;

	if (schemas_table(r->locks, name, &s, NULL))
		return 0;
	p = schema_public(s);
	if (p->tablets_id == r->tablets) {
		found = -EACCES;
		for (unsigned i = 0; i < p->family_count && found < 0; i++)
			if (peer_acts_for_others(r->peer) || tfs_may(p, &p->families[i], &r->peer->user, TFS_MAY_READ))
				found = 1;
	}
	schema_put(s);
	return found;
}

static bool may_read_tablets(void *arg, const struct peer_rights *peer, uint32_t tablets)
{
	struct reading r = {.peer = peer, .tablets = tablets, .locks = ((struct serving *)arg)->o.locks};
	int found = 0;

	if (!peer->key || !peer->key->table_count)
		return r.locks->ops->list(r.locks, "tables", may_read_table, &r) == 1;
	for (unsigned i = 0; i < peer->key->table_count && !found;
		i++) /* reads only the key's tables, and not all tables, because a writer waits */
		found = may_read_table(&r, peer->key->tables[i]);
	return found == 1;
}

static bool key_has(void *arg, const struct key *key, uint32_t id)
{
	return key_has_id(((struct serving *)arg)->o.locks, key, id);
}

/* ---- lifetime ---- */

/* Sets *out to the group, (gid_t)-1 for "". */
static int find_group(const char *name, gid_t *out)
{
	char *end, b[4096];
	struct group g, *found = NULL;
	unsigned long number;

	*out = (gid_t)-1;
	if (!*name || (getgrnam_r(name, &g, b, sizeof(b), &found) == 0 && found)) {
		if (found)
			*out = found->gr_gid;
		return 0;
	}
	errno = 0;
	number = strtoul(name, &end, 10);
	if (*end || errno || number >= (gid_t)-1 || *name < '0' || *name > '9')
		return -ESRCH;
	*out = (gid_t)number;
	return 0;
}

/* Listens at o->listen, with TLS and keys unless the clear text is wanted. */
static int begin_network(struct serving *s, const struct tfs_options *o, char **why)
{
	struct keys *keys = NULL;
	int fd, err = 0;

	if (!*o->listen)
		return 0;
	if (!*o->keys == !o->insecure_tcp) {
		why_set(why,
			*o->keys ? "insecure_tcp: there are no keys in clear text; set either this or keys"
				 : "listen: without keys there is no TCP port; 'tabletctl keys' makes a file for the setting keys");
		return -EINVAL;
	}
	if (*o->keys) {
		s->keys = strdup(o->keys);
		err = s->keys ? keys_load(s->keys, &keys, NULL, why) : -ENOMEM;
		if (!err && !keys_count(keys)) {
			why_set(why, "listen: without keys there is no TCP port; %s has none", s->keys);
			err = -EINVAL;
		}
	}
	if (!err) {
		err = socket_listen_tcp(o->listen, &fd);
		if (err)
			why_set(why, "listen: %s: %s", o->listen, strerror(-err));
	}
	if (!err)
		err = listen_network(s->listener, fd, keys);
	if (!err && !keys)
		msg_warning("listen: %s: in clear text; everybody who reaches it is the user nobody", o->listen);
	keys_put(keys);
	return err;
}

int serve_begin(const char *dir, const struct tfs_options *o, struct tablet_service *tablets, struct serving **out, char **why)
{
	static const struct store_service_ops ops = {.call = serve_call};
	struct serving *s = calloc(1, sizeof(*s));
	const mode_t mode = *o->socket_mode ? (mode_t)strtoul(o->socket_mode, NULL, 8) : 0600;
	gid_t group;
	int fd = -1, err = find_group(o->socket_group, &group);

	if (err) {
		why_set(why, "socket_group: there is no group %s", o->socket_group);
		free(s);
		return -EINVAL;
	}
	err = s ? 0 : -ENOMEM;
	if (!err && dir)
		err = socket_listen(dir, mode, group, &fd);
	if (!err)
		err = listen_new(fd, tablets, &s->listener);
	if (err) {
		why_set(why, "%s/" SOCKET_NAME ": %s", dir ? dir : "", strerror(-err));
		free(s);
		return err;
	}
	s->base.ops = &ops;
	s->dir = dir;
	memcpy(s->listen, o->listen, sizeof(s->listen));
	err = begin_network(s, o, why);
	if (err) {
		serve_end(s);
		return err;
	}
	*out = s;
	return 0;
}

void serve_read_keys(struct serving *s)
{
	struct keys *keys;
	char *why = NULL;

	if (!s || !s->keys)
		return;
	if (keys_load(s->keys, &keys, NULL, &why)) {
		msg_error("the keys stay as they are: %s", why ? why : s->keys);
	} else {
		listen_set_keys(s->listener, keys);
		msg_info("%s: %u keys", s->keys, keys_count(keys));
		keys_put(keys);
	}
	free(why);
}

struct tablet_service *serve_tablets(struct serving *s)
{
	return listen_tablets(s->listener);
}

struct master_service *serve_master(struct serving *s, struct master_service *master)
{
	static const struct master_service_ops ops = {.call = noting_call};

	s->master = (struct noting_master){.base = *master, .inner = master, .serving = s};
	s->master.base.ops = &ops;
	return &s->master.base;
}

void serve_pause(struct serving *s, bool pause)
{
	if (s->paused == pause)
		return;
	s->paused = pause;
	listen_pause(s->listener, pause);
}

void serve_note_schemas(struct serving *s)
{
	listen_note_schemas(s->listener, 0);
}

int serve_answers(struct serving *s, uint64_t limit_us)
{
	char *source;
	int err = 0;

	if (!s)
		return -ENOTSUP;
	if (s->paused)
		return 0; /* it does not answer because the cluster's program has paused it */
	if (!s->self) {
		err = asprintf(&source, "%s%s", s->dir ? "unix:" : "tls://", s->dir ? s->dir : s->listen) < 0 ? -ENOMEM : 0;
		if (!err) {
			err = self_channel(source, s->keys ? s->keys : "", &s->self);
			free(source);
		}
	}
	return err ? err : channel_answers(s->self, limit_us);
}

int serve_watch(struct serving *s)
{
	return s ? listen_watch(s->listener) : 0;
}

void serve_heard(struct serving *s, uint64_t notice)
{
	if (s)
		listen_heard(s->listener, notice);
}

int serve_list(struct serving *s, struct buf *out)
{
	return s ? listen_list(s->listener, NULL, out) : 0;
}

int serve_refuse(struct serving *s, uint64_t client, bool refuse)
{
	return !s ? -ENOENT : refuse ? listen_disconnect(s->listener, client) : listen_allow(s->listener, client);
}

int serve_start(struct serving *s, const struct serve_options *o)
{
	const struct listen_options lo = {
		.master = s->master.inner,
		.store = &s->base,
		.store_id = tfs_bytes_of(s->id, sizeof(s->id)),
		.server = o->incarnation,
		.changed = on_changed,
		.key_has = key_has,
		.may_read = may_read_tablets,
		.arg = s,
	};

	s->o = *o;
	memcpy(s->id, o->identity->id, sizeof(s->id));
	return listen_start(s->listener, &lo);
}

void serve_stop(struct serving *s)
{
	unsigned peers;

	if (!s)
		return;
	peers = listen_peers(s->listener);
	if (peers && s->dir)
		msg_notice("%s/" SOCKET_NAME ": closed; %u connection%s wait%s for the next server", s->dir, peers,
			peers == 1 ? "" : "s", peers == 1 ? "s" : "");
	if (s->dir)
		socket_remove(s->dir);
	listen_stop(s->listener);
}

void serve_end(struct serving *s)
{
	if (!s)
		return;
	if (s->dir)
		socket_remove(s->dir);
	channel_free(s->self);
	listen_free(s->listener);
	free(s->keys);
	free(s);
}
