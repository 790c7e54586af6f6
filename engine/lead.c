/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A master of a cluster: its election, its term, and its listener (paper, section 5.1).
 *
 * One thread waits for the file "master" of the lock service.  When this process has made it,
 * the thread makes the master, has all tablets assigned, and from then on calls it once a second;
 * a second thread collects files.  If the term ends, the process ends.  It ends, too, if its storage
 * has not answered for GIVE_UP_US while the storage of a server answers: a master of another host
 * can seal the logs of dead servers then.  If the storage hangs for all, the master waits for it.
 *
 * A master that starts before any server has probed the storage alone.  It probes again with the first server
 * that answers.
 *
 * The listener answers requests for the master only.  Servers send them, and pass on the
 * requests of their clients.  While another master leads, the answer is -UNREACHABLE, and the
 * server asks again.
 */
#include "engine/cluster.h"

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/base/numbers.h"
#include "engine/base/socket.h"
#include "engine/base/task.h"
#include "engine/client/route.h"
#include "engine/lock/clocks.h"
#include "engine/lock/marker.h"
#include "engine/lock/term.h"
#include "engine/meta/meta.h"
#include "engine/rpc/listen.h"
#include "engine/rpc/listen_check.h"
#include "engine/self.h"
#include "engine/site.h"
#include "engine/site_probe.h"
#include "master/master.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_US 1000000u
#define AGAIN_US 500000u
#define BALANCE_TICKS 30u
#define GIVE_UP_US 20000000u
#define PROBE_AGAIN_US 10000000u
#define NOTE_US 8000000u
#define NOTE_PAUSE_US 100000u

struct lead {
	struct site site;
	struct lock_follow follow;
	struct clock *clock; /* the clock of the source that the master follows */
	struct router *router;
	struct listener *listener;
	struct keys *keys;
	struct master_service service;
	struct store_service store;
	struct tablet_service tablets;
	struct lock_term term;
	struct task_pool *pool;
	struct task task;
	struct mutex lock; /* RANK_CLIENT: `leads` and the calls of the master by the listener */
	struct master *_Atomic leads;
	struct master *master;
	unsigned ticks;
	char contents[PEER_ADDRESS_MAX + 20];
	struct channel *self;         /* cluster_lead_answers */
	struct task_pool *watch_pool; /* the pool of the three tasks below, because a look-up in storage may take any time */
	struct task look_task, judge_task, probe_task;
	char *marker;
	_Atomic uint64_t looking_us; /* the begin of the look-up that is under way, or 0 */
	_Atomic uint64_t requests, moves, failures, busy_us;
};

/* ---- requests ---- */

struct noting {
	struct ts_request q;
	uint64_t until_us;
	struct ts_sent **sent;
	unsigned count, missed;
};

/* Sends the request.  A server to which there is no connection is connected and asked at once. */
static int note_one(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	struct noting *n = arg;
	struct ts_sent *sent = array_grow(&n->sent, n->count, sizeof(*n->sent)) ? NULL : ts_send(service, &n->q);
	struct ts_answer a = {0};

	if (sent)
		n->sent[n->count++] = sent;
	else if (monotonic_us() >= n->until_us || ts_call(service, &n->q, &a))
		n->missed++;
	ts_answer_fini(&a);
	return 0;
}

/* Asks all servers at a time, and waits for their answers. */
static void note_all(const struct tablet_servers *servers, struct noting *n)
{
	n->missed = n->count = 0;
	if (servers->each(servers->arg, note_one, n))
		n->missed++;
	for (unsigned i = 0; i < n->count; i++) {
		struct ts_answer a = {0};
		int err = -ETIMEDOUT;

		if (monotonic_us() < n->until_us)
			err = ts_receive(n->sent[i], &n->q, &a);
		else
			ts_forget(n->sent[i]);
		n->missed += err != 0;
		ts_answer_fini(&a);
	}
	free(n->sent);
	n->sent = NULL;
}

/* Returns when each live server has reported a change of schemas to its clients.  A server that does not answer ends, or has NOTE_US. */
static void note_schemas(struct lead *l, uint64_t client)
{
	const struct tablet_servers servers = site_servers(&l->site);
	struct noting n = {.until_us = monotonic_us() + NOTE_US,
		.q = {.method = TS_NOTE_SCHEMAS,
			.table = META_FIRST_USER_TABLE,
			.incarnation = client,
			.term = l->term.number,
			.time_left_us = NOTE_US / 4}};

	note_all(&servers, &n);
	while (n.missed && monotonic_us() < n.until_us) {
		(void)usleep(NOTE_PAUSE_US);
		note_all(&servers, &n);
	}
}

static int master_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	struct lead *l = (struct lead *)((char *)s - offsetof(struct lead, service));
	struct master *m = l->leads;

	if (!m)
		return -UNREACHABLE;
	atomic_fetch_add(&l->requests, 1);
	a->err = ms_call(master_service(m), q, a);
	if (ms_changes_schemas(q->method) && a->err != -EAGAIN && may_be_applied(a->err))
		note_schemas(l, q->client);
	return a->err;
}

static int refuse_store(struct store_service *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	return -ENOSYS;
}

static int refuse_tablets(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	return -TABLET_MOVED;
}

static int begin_listener(struct lead *l, char **why)
{
	static const struct master_service_ops master_ops = {.call = master_call};
	static const struct store_service_ops store_ops = {.call = refuse_store};
	static const struct tablet_service_ops tablet_ops = {.call = refuse_tablets};
	const struct listen_options lo = {.master = &l->service,
		.store = &l->store,
		.store_id = tfs_bytes_of(l->site.identity.id, sizeof(l->site.identity.id)),
		.arg = l};
	int fd = -1, err;

	l->service.ops = &master_ops;
	l->store.ops = &store_ops;
	l->tablets.ops = &tablet_ops;
	err = keys_load(l->site.options.keys, &l->keys, NULL, why);
	if (!err)
		err = listen_new(-1, &l->tablets, &l->listener);
	if (!err) {
		err = socket_listen_tcp(l->site.options.listen, &fd);
		if (err)
			why_set(why, "listen: %s: %s", l->site.options.listen, strerror(-err));
	}
	if (!err)
		err = listen_network(l->listener, fd, l->keys);
	return err ? err : listen_start(l->listener, &lo);
}

/* ---- the term ---- */

static int make_master(struct lead *l)
{
	const struct master_options o = {
		.data_dir = l->site.dir,
		.locks = l->site.locks,
		.tablets = route_service(l->router),
		.servers = site_servers(&l->site),
		.clock = l->clock,
		.term = &l->term,
		.session_us = l->site.session_us,
	};
	int err = lock_term_begin(l->site.locks, tfs_str(l->contents), &l->term);

	return err ? err : master_new(&o, &l->master);
}

static void look_at_clocks(struct lead *l)
{
	lock_follow_look(&l->follow, l->site.locks, l->site.session_us / 4, l->clock);
}

/* One step of leading.  Returns the time until the next step. */
static uint64_t step(struct lead *l)
{
	char *why = NULL;
	const uint64_t since_us = monotonic_us();
	unsigned moved = 0;
	int err = 0;

	if (!l->master) {
		look_at_clocks(l);
		err = make_master(l);
		if (err == -EBUSY)
			return TICK_US; /* the watch of "master" may end the wait earlier */
	} else if (!l->leads) {
		err = master_start(l->master, &why);
		if (!err)
			err = master_collect_begin(l->master);
		if (!err) {
			l->leads = l->master;
			msg_notice("the master of the cluster is at %s, in term %llu", l->site.address,
				(unsigned long long)l->term.number);
		}
	} else {
		look_at_clocks(l);
		err = master_tick(l->master);
		if (!err && ++l->ticks % BALANCE_TICKS == 0)
			err = master_balance(l->master, &moved);
		if (moved)
			msg_notice("%u tablet%s moved", moved, moved == 1 ? "" : "s");
	}
	if (err == -SESSION_ENDED)
		site_give_up("the term of this master has ended");
	atomic_fetch_add(&l->moves, moved);
	atomic_fetch_add(&l->failures, err && err != -EAGAIN);
	atomic_fetch_add(&l->busy_us, monotonic_us() - since_us);
	if (err && err != -EAGAIN)
		msg_warning("the master: %s", why ? why : error_text(err));
	free(why);
	return !l->leads ? err ? AGAIN_US : 0 : TICK_US;
}

static void run(struct task *t)
{
	struct lead *l = (struct lead *)((char *)t - offsetof(struct lead, task));

	task_queue_after(t, step(l));
}

/* Another master has ended. */
static void on_master(void *arg, const char *name)
{
	struct lead *l = arg;

	if (!l->leads)
		task_queue(&l->task);
}

/* ---- the storage ---- */

static void look(struct task *t)
{
	struct lead *l = (struct lead *)((char *)t - offsetof(struct lead, look_task));
	int err;

	l->looking_us = monotonic_us();
	err = marker_look(l->marker, l->site.cluster);
	l->looking_us = 0;
	if (err == -ENOENT || err == -ENODEV || err == -EXDEV)
		site_give_up("the directory is not the cluster's any more");
	task_queue_after(t, TICK_US);
}

static void judge(struct task *t)
{
	struct lead *l = (struct lead *)((char *)t - offsetof(struct lead, judge_task));
	const struct tablet_servers servers = site_servers(&l->site);
	const uint64_t since_us = l->looking_us;

	if (since_us && monotonic_us() - since_us >= GIVE_UP_US && ts_one_is_well(&servers))
		site_give_up("the storage did not answer for 20 seconds, and that of a server does");
	task_queue_after(t, TICK_US);
}

static void probe(struct task *t)
{
	struct lead *l = (struct lead *)((char *)t - offsetof(struct lead, probe_task));
	char *why = NULL;
	int err = site_try_again(&l->site, 0, 0, &why);

	if (err && err != -ENOENT && err != -UNREACHABLE)
		msg_warning("%s", why ? why : error_text(err)); /* memory is short, for example */
	if (err)
		task_queue_after(t, err == -ENOENT || err == -UNREACHABLE ? TICK_US : PROBE_AGAIN_US);
	free(why);
}

static int begin_watch(struct lead *l, bool alone)
{
	int err;

	l->marker = path_join(l->site.dir, MARKER_FILE);
	err = l->marker ? task_pool_new("storage", 3, &l->watch_pool) : -ENOMEM;
	if (err)
		return err;
	task_init(&l->look_task, l->watch_pool, look);
	task_init(&l->judge_task, l->watch_pool, judge);
	task_init(&l->probe_task, l->watch_pool, probe);
	task_queue(&l->look_task);
	task_queue(&l->judge_task);
	if (alone)
		task_queue(&l->probe_task);
	return 0;
}

static void end_watch(struct lead *l)
{
	if (l->watch_pool) {
		task_cancel(&l->look_task);
		task_cancel(&l->judge_task);
		task_cancel(&l->probe_task);
		task_pool_free(l->watch_pool);
	}
	free(l->marker);
}

/* ---- of the process ---- */

static int count_one(void *arg, uint64_t incarnation, const char *address)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned count_servers(struct lead *l)
{
	unsigned n = 0;

	return site_each_address(&l->site, count_one, &n) ? 0 : n;
}

int cluster_lead_status(struct lead *l, struct buf *out)
{
	return buf_printf(out,
		"state        %s\naddress      %s\nterm         %llu\nservers      %u\nwork         %llu requests, %llu tablets moved\n"
		"attention    %s\n",
		l->leads ? "leads" : "waits until the leading master ends", l->site.address,
		(unsigned long long)(l->leads ? l->term.number : 0), count_servers(l),
		(unsigned long long)atomic_load(&l->requests), (unsigned long long)atomic_load(&l->moves),
		msg_error_count() ? "errors since the start, see the log" : "none");
}

int cluster_lead_metrics(struct lead *l, struct buf *out)
{
	const struct number v[] = {
		{"master_leads", "1 if this master leads", l->leads != NULL, true},
		{"master_term", "the number of its term", l->leads ? l->term.number : 0, true},
		{"master_servers", "servers with a session", count_servers(l), true},
		{"master_requests", "requests to change tables, to collect files and to drain servers", atomic_load(&l->requests),
			false},
		{"master_moves", "tablets moved to even out the load", atomic_load(&l->moves), false},
		{"master_failures", "steps that failed", atomic_load(&l->failures), false},
		{"master_busy_us", "time of its steps", atomic_load(&l->busy_us), false},
		{"master_errors", "errors in the log", msg_error_count(), false},
	};

	return numbers_metrics(v, sizeof(v) / sizeof(*v), out);
}

int cluster_lead_answers(struct lead *l, uint64_t limit_us)
{
	char *source;
	int err = 0;

	if (!l->self) {
		err = asprintf(&source, "tls://%s", l->site.address) < 0 ? -ENOMEM : 0;
		if (!err) {
			err = self_channel(source, l->site.options.keys, &l->self);
			free(source);
		}
	}
	return err ? err : channel_answers(l->self, limit_us);
}

int cluster_lead_read_keys(struct lead *l, char **why)
{
	struct keys *keys;
	int err = keys_load(l->site.options.keys, &keys, NULL, why);

	if (!err) {
		listen_set_keys(l->listener, keys);
		keys_put(keys);
	}
	return err;
}

/* ---- begin and end ---- */

void cluster_lead_end(struct lead *l)
{
	if (!l)
		return;
	end_watch(l);
	if (l->pool) {
		l->site.locks->ops->unwatch(l->site.locks, on_master, l);
		task_cancel(&l->task);
		task_pool_free(l->pool);
	}
	channel_free(l->self);
	listen_free(l->listener);
	if (l->leads)
		master_finish(l->master);
	if (l->term.locks)
		lock_term_end(&l->term);
	master_free(l->master);
	route_free(l->router);
	keys_put(l->keys);
	site_close(&l->site);
	clock_free(l->clock);
	free(l);
}

static int begin(struct lead *l, bool alone, char **why)
{
	struct route_options ro = {.patience_us = MASTER_PATIENCE_US, .brief = true};
	uint64_t word;
	int err = random_bytes(&word, sizeof(word));

	snprintf(l->contents, sizeof(l->contents), "%s %016llx", l->site.address, (unsigned long long)word);
	l->clock = clock_new(lock_follow_time, &l->follow);
	if (!err && !l->clock)
		err = -ENOMEM;
	if (!err)
		err = begin_listener(l, why);
	ro.client = word | TS_CLIENT_RANDOM;
	ro.locks = l->site.locks;
	ro.servers = site_servers(&l->site);
	if (!err)
		err = site_connect(&l->site, 0, ro.client, NULL);
	if (!err)
		err = route_new(&ro, &l->router);
	if (!err)
		err = begin_watch(l, alone);
	if (!err)
		err = task_pool_new("master", 1, &l->pool);
	if (err)
		return err;
	task_init(&l->task, l->pool, run);
	err = l->site.locks->ops->watch(l->site.locks, "master", on_master, l);
	if (!err)
		task_queue(&l->task);
	return err;
}

int cluster_lead(const struct store_source *at, const struct tfs_options *o, struct lead **out, char **why)
{
	struct lead *l = calloc(1, sizeof(*l));
	bool alone;
	int err = l ? site_open(at, o, &l->site, why) : -ENOMEM;

	if (!err)
		err = site_check(&l->site, why);
	if (!err)
		err = site_try_storage(&l->site, &alone, why);
	if (!err)
		err = begin(l, alone, why);
	if (err)
		cluster_lead_end(l);
	else
		*out = l;
	return err;
}
