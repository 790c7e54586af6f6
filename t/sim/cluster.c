/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of a simulated cluster (cluster.h). */
#include "t/sim/cluster.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/session.h"
#include "engine/lock/term.h"
#include "engine/host.h"
#include "engine/server/requests/requests.h"
#include "engine/server/storage/storage.h"
#include "t/sim/plant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SESSION_US 4000000u

struct cluster cluster;

static void check(int err, const char *what)
{
	if (err)
		sim_fail("%s: %s", what, error_text(err));
}

void cluster_new(const char *dir)
{
	static const char *const dirs[] = {NULL, "log", "sst"};
	struct buf line = {0};
	char *format;

	snprintf(cluster.dir, sizeof(cluster.dir), "%s", dir);
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char *path = dirs[i] ? path_join(dir, dirs[i]) : strdup(dir);

		check(file_mkdir(path), path);
		free(path);
	}
	format = path_join(dir, "FORMAT");
	check(store_format_encode(STORE_FORMAT_VERSION, &line), "FORMAT");
	check(file_replace(format, buf_bytes(&line)), format);
	free(format);
	buf_fini(&line);
	cluster.locks = lock_sim_new(proc_world(), cluster.sole);
}

bool node_alive(const struct node *n)
{
	return !n->proc->dead;
}

struct node *node_find(enum role role, unsigned number)
{
	for (unsigned i = cluster.count; i-- > 0;) {
		struct node *n = cluster.nodes[i];

		if (n->role == role && n->number == number && node_alive(n))
			return n;
	}
	return NULL;
}

static void node_ended(struct proc *p)
{
	((struct node *)p->data)->serving = false;
	net_died(p);
}

static struct node *node_new(enum role role, unsigned number)
{
	static const char *const names[] = {"server", "master", "client"};
	struct node *n = calloc(1, sizeof(*n));
	char name[32];

	if (!n || cluster.count == NODES_MOST)
		sim_fail("too many nodes");
	snprintf(name, sizeof(name), "%s%u.%u", names[role], number, cluster.count);
	n->role = role;
	n->number = number;
	n->proc = proc_new(name, n);
	n->proc->ended = node_ended;
	n->ep.proc = n->proc;
	cluster.nodes[cluster.count++] = n;
	return n;
}

/* ---- how the nodes find each other ---- */

static struct tablet_service *cluster_connect(void *arg, uint64_t incarnation)
{
	struct node *from = arg;

	for (unsigned i = cluster.count; i-- > 0;) {
		struct node *n = cluster.nodes[i];

		if (n->role != SERVER || !n->incarnation ||
			(cluster.sole ? !node_alive(n) || !n->server : n->incarnation != incarnation))
			continue;
		return n == from ? server_service(n->server) : net_tablets(from->proc, &n->ep);
	}
	return NULL;
}

struct each {
	struct node *from;
	tablet_server_fn *fn;
	void *fn_arg;
};

/* A file servers/N of the lock service. */
static int each_file(void *arg, const char *name)
{
	struct each *e = arg;
	uint64_t incarnation = strtoull(name, NULL, 10);
	struct tablet_service *s = cluster_connect(e->from, incarnation);

	return s ? e->fn(e->fn_arg, incarnation, s) : 0;
}

static int cluster_each(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	struct each e = {arg, fn, fn_arg};
	struct node *n = arg;

	if (cluster.sole) {
		n = node_find(SERVER, 1);
		return n && n->serving ? fn(fn_arg, n->incarnation, cluster_connect(arg, n->incarnation)) : 0;
	}
	return n->locks->ops->list(n->locks, "servers", each_file, &e);
}

/* The service of the master that leads now. */
static int call_any_master(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	for (unsigned i = cluster.count; i-- > 0;) {
		struct node *n = cluster.nodes[i];

		if (n->ep.master && n->serving)
			return ms_call(net_master(proc_self(), &n->ep), q, a);
	}
	sim_sleep(100000);
	a->err = -UNREACHABLE;
	return a->err;
}

static struct master_service *any_master(void)
{
	static const struct master_service_ops ops = {.call = call_any_master};
	static struct master_service any = {&ops};

	return &any;
}

static void make_router(struct node *n)
{
	struct route_options o = {
		.locks = n->locks,
		.servers = {.connect = cluster_connect, .each = cluster_each, .arg = n},
		.patience_us = n->role == MASTER && !planted(PLANT_PATIENT_MASTER) ? MASTER_PATIENCE_US : cluster.patience_us,
		.brief = n->role == MASTER,
		.client = n->incarnation, /* a server's client id is its incarnation */
	};

	check(route_new(&o, &n->router), "route_new");
}

/* A node that cannot continue ends, as its program would. */
static void give_up(const char *what, int err, const char *why)
{
	sim_trace("gives up: %s: %s %s", what, error_text(err), why ? why : "");
	proc_kill(proc_self());
}

/* ---- masters ---- */

static void collect_main(void *arg)
{
	struct node *n = arg;

	/* More often than in background, so that faults meet it. */
	for (bool full = false;; full = !full) {
		int err = master_collect(n->master, full);

		if (err)
			sim_trace("master_collect: %s", error_text(err));
		sim_sleep(500000 + sim_random(1000000));
	}
}

/* All masters must read the same id and secret. */
static void check_identity(struct node *n)
{
	struct lock_identity identity;
	int err;

	while ((err = identity_make(n->locks, &identity))) {
		if (err == -SESSION_ENDED)
			give_up("the identity", err, NULL);
		sim_sleep(200000);
	}
	if (cluster.has_identity && memcmp(&identity, &cluster.identity, sizeof(identity)))
		sim_fail("a master has another id or secret than the one before it");
	cluster.identity = identity;
	cluster.has_identity = true;
}

/* Makes the master and has all tablets assigned.  The caller's process is the only master. */
static void lead(struct node *n)
{
	struct master_options o = {
		.data_dir = cluster.dir,
		.locks = n->locks,
		.tablets = route_service(n->router),
		.servers = {cluster_connect, cluster_each, n},
		.clock = n->clock,
		.term = cluster.sole ? NULL : &n->term,
		.sole = cluster.sole,
		.session_us = SESSION_US,
	};
	char *why = NULL;
	int err;

	check_identity(n);
	err = master_new(&o, &n->master);

	if (err)
		give_up("master_new", err, NULL);
	while ((err = master_start(n->master, &why))) {
		sim_trace("master_start: %s: %s", error_text(err), why ? why : "");
		if (err == -EBADMSG)
			sim_fail("the master finds damage: %s", why ? why : "");
		if (cluster.sole || err == -SESSION_ENDED)
			give_up("master_start", err, why);
		free(why);
		why = NULL;
		sim_sleep(500000);
	}
	n->ep.master = master_service(n->master);
	err = master_collect_begin(n->master);
	if (err)
		give_up("master_collect_begin", err, NULL);
	sim_spawn(n->proc, 0, collect_main, n);
	sim_trace("leads");
}

/* ---- tablet servers ---- */

static int take_incarnation(struct lock_service *locks, uint64_t *out)
{
	struct buf b = {0};
	uint64_t version = LOCK_ABSENT, n = 0;
	uint8_t bytes[8];
	int err = lock_get(locks, "incarnation", &b, &version);

	if (err == -ENOENT)
		err = 0;
	else if (!err)
		n = load_be64(b.p);
	buf_fini(&b);
	put_be64(bytes, n + 1);
	if (!err)
		err = lock_put(locks, "incarnation", tfs_bytes_of(bytes, sizeof(bytes)), version, NULL);
	if (!err)
		*out = n + 1;
	return err;
}

/* The program exits. */
static void session_lost(void *arg)
{
	struct node *n = arg;
	char note[40];

	if (planted(PLANT_TWO_OWNERS))
		return;
	snprintf(note, sizeof(note), "removed/%llu", (unsigned long long)n->incarnation);
	if (!lock_sim_expired(n->locks) && !n->unreachable && lock_get(n->locks, note, NULL, NULL) == -ENOENT)
		sim_fail("%s ends, although its session lives", n->proc->name);
	if (n->server)
		server_lose(n->server, "the session in the lock service has ended");
	proc_kill(n->proc);
}

static void server_lost(void *arg, const char *why)
{
	sim_trace("exits: %s", why);
	proc_kill(((struct node *)arg)->proc);
}

/* ---- fences ---- */

static _Thread_local unsigned mutating; /* a mutation or the commit of one asks for the lease */

int __real_fence_begin(struct fence *f, const struct ts_request *q);
int __wrap_fence_begin(struct fence *f, const struct ts_request *q);
int __wrap_fence_begin(struct fence *f, const struct ts_request *q)
{
	int err;

	if (plant_fence(q))
		return 0;
	mutating += q->method == TS_MUTATE;
	err = __real_fence_begin(f, q);
	mutating -= q->method == TS_MUTATE;
	return err;
}

int __real_fence_answer(struct fence *f, const struct ts_request *q, int err);
int __wrap_fence_answer(struct fence *f, const struct ts_request *q, int err);
int __wrap_fence_answer(struct fence *f, const struct ts_request *q, int err)
{
	if (plant_fence(q)) {
		const struct node *n = proc_self()->data;

		if (n->session && !lock_session_held(n->session))
			sim_trace("planted: method %d on table %u without a lease, err %d%s", (int)q->method, q->table, err,
				lock_sim_expired(n->locks) ? ", session over" : "");
		return err;
	}
	mutating += q->method == TS_MUTATE;
	err = __real_fence_answer(f, q, err);
	mutating -= q->method == TS_MUTATE;
	return err;
}

int __real_fence_check(void *arg);
int __wrap_fence_check(void *arg);
int __wrap_fence_check(void *arg)
{
	int err;

	mutating++;
	err = __real_fence_check(arg);
	mutating--;
	return err;
}

bool fence_of_mutation(void)
{
	return mutating;
}

static bool lease_held(void *arg)
{
	struct node *n = arg;
	const bool held = planted(PLANT_TWO_OWNERS) || (cluster.blind && mutating) || lock_session_held(n->session);

	if (!held && planted(PLANT_LAPSE_ENDS))
		session_lost(n);
	return held;
}

static int64_t boottime(void *arg)
{
	return clock_boottime(NULL);
}

static int64_t clock_offset(void *arg)
{
	return lock_session_clock_offset(((struct node *)arg)->session);
}

/* A request that makes rows is under way for long.  Meanwhile a master dies. */
bool __real_making_begin(struct server *s, uint32_t table);
bool __wrap_making_begin(struct server *s, uint32_t table);
bool __wrap_making_begin(struct server *s, uint32_t table)
{
	bool ended = __real_making_begin(s, table);

	if (cluster.late_edits && sim_chance(cluster.late_edits)) {
		for (unsigned i = 1; i <= 2 && sim_chance(2); i++)
			if (node_find(MASTER, i))
				proc_kill(node_find(MASTER, i)->proc);
		sim_sleep(sim_random(10000000));
	}
	return ended;
}

/* The ephemeral file servers/N, and heartbeats. */
static int hold_session(struct node *n)
{
	char name[40];
	struct lock_session_options o = {
		.locks = n->locks,
		.name = name,
		.contents = tfs_str(n->proc->name),
		.timeout_us = SESSION_US,
		.lost = session_lost,
		.boottime = boottime,
		.arg = n,
		.clock = n->clock,
	};
	int err;

	snprintf(name, sizeof(name), "servers/%llu", (unsigned long long)n->incarnation);
	err = lock_session_new(&o, &n->session);
	return err ? err : lock_session_run(n->session);
}

static void server_main(void *arg)
{
	struct node *n = arg;
	struct server_options o = {
		.data_dir = cluster.dir,
		.block_cache_bytes = 1 << 20,
		.table_cache_bytes = 1 << 20,
		.memtable_bytes = cluster.memtable_bytes,
		.log_segment_bytes = 64 << 10,
		.replay_part_bytes = 8 << 10,
		.sync_interval_us = 1000000,
		.compaction_threads = 1,
		.major_within_us = 600000000,
		.sync = true,
	};
	char *why = NULL;
	int err;

	n->clock = o.clock = clock_new(NULL, NULL);
	n->locks = lock_sim_connect(cluster.locks, n->proc, SESSION_US);
	while ((err = take_incarnation(n->locks, &n->incarnation))) {
		if (err == -SESSION_ENDED)
			give_up("the incarnation", err, NULL);
		sim_sleep(10000);
	}
	o.incarnation = n->incarnation;
	sim_trace("incarnation %llu", (unsigned long long)n->incarnation);
	if (!cluster.sole) {
		o.held = lease_held;
		o.lost = server_lost;
		o.clock_offset = clock_offset;
		o.fence_arg = n;
		o.servers = (struct tablet_servers){cluster_connect, cluster_each, n};
		err = hold_session(n);
	}
	if (!err)
		err = server_new(&o, n->locks, &n->server);
	if (err)
		give_up("server_new", err, NULL);
	make_router(n);
	server_set_metadata(n->server, route_service(n->router));
	err = server_start(n->server, &why);
	if (err)
		give_up("server_start", err, why);
	check(dispatch_new(server_service(n->server), cluster.limits, &n->ep.tablets), "dispatch_new");
	n->serving = true;
	if (cluster.sole) {
		lead(n);
		server_set_collector(n->server, &(struct server_collector){master_collect_soon, master_collect_now, n->master});
	}
	server_ready(n->server);
	sim_trace("serves");
}

struct node *server_node(unsigned number)
{
	struct node *n = node_new(SERVER, number);

	sim_spawn(n->proc, 0, server_main, n);
	return n;
}

static int split_metadata(struct node *n, struct tfs_bytes key)
{
	const struct ts_request q = {.method = TS_SPLIT, .table = META_TABLE, .row = key};
	struct ts_answer a = {0};
	int err = call_tablet_service(route_service(n->router), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/*
 * Moves a tablet of METADATA or of the clients' table to some server.  It splits METADATA, too, so
 * that a part of it may be served and a part not.
 */
static void move_some_tablet(struct node *n)
{
	struct buf key = {0};
	uint64_t to = 0;
	char row[16];
	int err;

	for (unsigned i = 0, found = 0; i < cluster.count; i++)
		if (cluster.nodes[i]->role == SERVER && cluster.nodes[i]->serving && sim_chance(++found))
			to = cluster.nodes[i]->incarnation;
	snprintf(row, sizeof(row), "row%02u", (unsigned)sim_random(10));
	check(meta_row_key(&key, META_FIRST_USER_TABLE, false, tfs_str(row)), "meta_row_key");
	if (sim_chance(3 * cluster.moves))
		err = split_metadata(n, buf_bytes(&key));
	else if (sim_chance(3 * cluster.moves)) /* METADATA, or the root tablet */
		err = master_move(n->master, META_TABLE,
			sim_chance(3)           ? tfs_bytes_of("\0", 1)
				: sim_chance(2) ? tfs_bytes_of("\xff", 1)
						: buf_bytes(&key),
			to);
	else
		err = master_move(n->master, META_FIRST_USER_TABLE, tfs_str(row), to);
	sim_trace("move to %llu: %s", (unsigned long long)to, error_text(err));
	buf_fini(&key);
}

/* Balances, or empties a server for a time. */
static void balance(struct node *n)
{
	const struct node *s = node_find(SERVER, 1 + (unsigned)sim_random(4));
	unsigned moved = 0;
	int err = master_balance(n->master, &moved);

	sim_trace("balance: %u moved, %s", moved, error_text(err));
	if (!s || !s->serving || sim_chance(2))
		return;
	err = master_empty(n->master, s->incarnation);
	sim_trace("server %llu is emptied: %s", (unsigned long long)s->incarnation, error_text(err));
	sim_sleep(sim_random(3000000));
	err = master_drain(n->master, s->incarnation, false);
	sim_trace("server %llu takes tablets again: %s", (unsigned long long)s->incarnation, error_text(err));
}

/* The programs of masters. */
static void master_main(void *arg)
{
	struct node *n = arg;
	int err;

	n->clock = clock_new(NULL, NULL);
	n->locks = lock_sim_connect(cluster.locks, n->proc, SESSION_US);
	while ((err = lock_term_begin(n->locks, tfs_str(n->proc->name), &n->term))) {
		if (err == -SESSION_ENDED)
			give_up("the master lock", err, NULL);
		sim_sleep(200000);
	}
	make_router(n);
	lead(n);
	n->serving = true;
	for (;;) {
		for (unsigned i = 0; i < 1 + cluster.moves; i++) {
			sim_sleep(1000000 / (1 + cluster.moves));
			if (i && (cluster.busy || sim_chance(3)))
				move_some_tablet(n);
		}
		if (cluster.moves && sim_chance(4))
			balance(n);
		err = master_tick(n->master);
		if (err)
			sim_trace("master_tick: %s", error_text(err));
		if (err == -SESSION_ENDED)
			give_up("the term", err, NULL);
	}
}

struct node *master_node(unsigned number)
{
	struct node *n = node_new(MASTER, number);

	sim_spawn(n->proc, 0, master_main, n);
	return n;
}

/* ---- clients ---- */

static int no_close(void *arg)
{
	return 0;
}

static void open_client(struct node *n)
{
	struct client_options o = {.master = any_master(), .close = no_close};

	make_router(n);
	o.locks = n->locks;
	o.tablets = route_service(n->router);
	o.router = n->router;
	tfs_options_init(&o.options);
	o.options.timeout_us = 30000000;
	check(client_new(&o, &n->store), "client_new");
}

void client_again(struct node *n)
{
	sim_trace("a client leaves, and comes again");
	check(tfs_close(n->store), "tfs_close");
	route_goodbye(n->router);
	route_free(n->router);
	open_client(n);
}

static void client_main(void *arg)
{
	struct node *n = arg;

	n->locks = lock_sim_connect(cluster.locks, n->proc, SESSION_US);
	open_client(n);
	n->serving = true;
	n->run(n);
	n->serving = false;
	n->done = true;
}

struct node *client_node(unsigned number, void (*run)(struct node *n), void *arg)
{
	struct node *n = node_new(CLIENT, number);

	n->run = run;
	n->arg = arg;
	net_is_client(n->proc);
	sim_spawn(n->proc, 0, client_main, n);
	return n;
}
