/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service on ZooKeeper, with real servers: the tests of all implementations on
 * one server, and on three whose leader is killed and then stopped; keys, short sessions,
 * lost answers, and watches across a reconnection and with short memory.
 *
 * On three servers a change may return -UNREACHABLE.  A session of this test then reads the
 * files again, and repeats the change if it was not carried out.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/lock/lock_format.h"
#include "engine/lock/zookeeper.h"
#include "t/lib/lock_conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#define SECOND_US UINT64_C(1000000)

/* ---- servers (t/lib/zookeeper.sh) ---- */

struct servers {
	pid_t pid;
	FILE *to, *from;
	char dir[32], hosts[128];
};
static struct servers one, three;

static void servers_begin(struct servers *v, const char *count)
{
	char cmd[1024];
	int in[2], out[2];

	strcpy(v->dir, "/tmp/test_zookeeper.XXXXXX");
	snprintf(cmd, sizeof(cmd), "%s/t/lib/zookeeper.sh", getenv("SRC") ? getenv("SRC") : ".");
	if (!mkdtemp(v->dir) || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || (v->pid = fork()) < 0)
		abort();
	if (v->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(cmd, cmd, v->dir, count, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	v->to = fdopen(in[1], "w");
	v->from = fdopen(out[0], "r");
}

/* Reads a line without its end.  Returns false if the servers' script has ended. */
static bool servers_line(struct servers *v, char *line, int bytes)
{
	bool ok = fgets(line, bytes, v->from);

	line[ok ? strcspn(line, "\n") : 0] = 0;
	return ok;
}

/* Gives the script a command, and returns its answer, a number or 0. */
static int servers_do(struct servers *v, const char *command)
{
	char line[64];

	fprintf(v->to, "%s\n", command);
	fflush(v->to);
	assert_true(servers_line(v, line, sizeof(line)));
	return atoi(line);
}

static void servers_signal(struct servers *v, int server, const char *signal)
{
	char command[64];

	snprintf(command, sizeof(command), "signal %d %s", server, signal);
	servers_do(v, command);
}

static int servers_leader(struct servers *v)
{
	int leader;

	do
		leader = servers_do(v, "leader");
	while (!leader);
	return leader;
}

/* Sets hosts to the addresses of all servers but one. */
static void servers_without(const struct servers *v, int server, char *out)
{
	char all[128], *rest = all;

	strcpy(all, v->hosts);
	*out = 0;
	for (int i = 1; rest; i++) {
		const char *host = strsep(&rest, ",");

		if (i != server)
			strcat(strcat(out, *out ? "," : ""), host);
	}
}

static void servers_end(struct servers *v)
{
	char cmd[64];
	int status;

	fclose(v->to);
	waitpid(v->pid, &status, 0);
	fclose(v->from);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", v->dir);
	if (system(cmd))
		abort();
}

/* ---- the library, between the product and its sockets ---- */

zhandle_t *__real_zookeeper_init(const char *host, watcher_fn fn, int timeout, const clientid_t *id, void *context, int flags);
zhandle_t *__wrap_zookeeper_init(const char *host, watcher_fn fn, int timeout, const clientid_t *id, void *context, int flags);
int __real_zoo_amulti(
	zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t fn, const void *arg);
int __wrap_zoo_amulti(
	zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t fn, const void *arg);

static _Thread_local zhandle_t *newest; /* of this thread */
static atomic_uint multis, lose;        /* multi-operations so far; answers to lose */

zhandle_t *__wrap_zookeeper_init(const char *host, watcher_fn fn, int timeout, const clientid_t *id, void *context, int flags)
{
	newest = __real_zookeeper_init(host, fn, timeout, id, context, flags);
	return newest;
}

struct lost {
	void_completion_t fn;
	const void *arg;
};

static void answer_lost(int rc, const void *arg)
{
	struct lost *l = (struct lost *)(uintptr_t)arg;

	(void)rc;
	l->fn(ZCONNECTIONLOSS, l->arg);
	free(l);
}

int __wrap_zoo_amulti(
	zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t fn, const void *arg)
{
	struct lost *l;

	multis++;
	if (!lose)
		return __real_zoo_amulti(zh, count, ops, results, fn, arg);
	lose--;
	l = malloc(sizeof(*l));
	assert_non_null(l);
	*l = (struct lost){fn, arg};
	return __real_zoo_amulti(zh, count, ops, results, answer_lost, l);
}

/* Questions and allocations of the library's thread that fail, because memory is short. */
static atomic_uint no_questions, no_memory;
static pthread_t main_thread;

int __real_zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *context, stat_completion_t fn, const void *arg);
int __wrap_zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *context, stat_completion_t fn, const void *arg);
int __real_zoo_awget_children(
	zhandle_t *zh, const char *path, watcher_fn watcher, void *context, strings_completion_t fn, const void *arg);
int __wrap_zoo_awget_children(
	zhandle_t *zh, const char *path, watcher_fn watcher, void *context, strings_completion_t fn, const void *arg);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static bool one_less(atomic_uint *left)
{
	const bool some = *left;

	*left -= some;
	return some;
}

int __wrap_zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *context, stat_completion_t fn, const void *arg)
{
	return one_less(&no_questions) ? ZSYSTEMERROR : __real_zoo_awexists(zh, path, watcher, context, fn, arg);
}

int __wrap_zoo_awget_children(
	zhandle_t *zh, const char *path, watcher_fn watcher, void *context, strings_completion_t fn, const void *arg)
{
	return one_less(&no_questions) ? ZSYSTEMERROR : __real_zoo_awget_children(zh, path, watcher, context, fn, arg);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory && !pthread_equal(pthread_self(), main_thread) && one_less(&no_memory) ? NULL : __real_calloc(n, size);
}

/* ---- trouble for the leader of three ---- */

static atomic_uint changes; /* on three servers */

/* The leader that was killed or stopped; 0: none. */
static int killed, stopped;

static void leader_back(void)
{
	char command[32];

	if (killed) {
		snprintf(command, sizeof(command), "server %d", killed);
		servers_do(&three, command);
	}
	if (stopped)
		servers_signal(&three, stopped, "CONT");
	killed = stopped = 0;
}

/* Called before each change on three servers. */
static void trouble(void)
{
	switch (changes++) {
	case 10:
		killed = servers_leader(&three);
		servers_signal(&three, killed, "KILL");
		break;
	case 70:
		stopped = servers_leader(&three);
		servers_signal(&three, stopped, "STOP");
		break;
	case 20:
	case 85:
		leader_back();
		break;
	default:
		break;
	}
}

/* ---- sessions ---- */

struct session {
	struct lock_service base; /* first */
	struct lock_service *inner;
	zhandle_t *zh;
	struct session *next;
	atomic_uint expired; /* calls */
};
static struct session *sessions;
static struct servers *servers; /* the servers of the running test */
static char hosts[128];         /* the hosts of its sessions */
static char cluster[32];

static struct session *session_of(struct lock_service *s)
{
	return (struct session *)s;
}

/* On three servers a read may find none of them for a while, too. */
static int get(struct lock_service *inner, const char *name, struct buf *contents, struct lock_stat *stat)
{
	int err;

	do
		err = inner->ops->get(inner, name, contents, stat);
	while (err == -UNREACHABLE && servers == &three);
	return err;
}

static int session_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	return get(session_of(s)->inner, name, contents, stat);
}

/* The versions of the files; 0: there is none. */
static int versions(struct lock_service *s, const struct lock_op *ops, unsigned count, uint64_t *v)
{
	struct lock_stat stat;
	int err = 0;

	for (unsigned i = 0; i < count && !err; i++) {
		err = get(s, ops[i].name, NULL, &stat);
		v[i] = err ? 0 : stat.version;
		err = err == -ENOENT || err == -EINVAL ? 0 : err;
	}
	return err;
}

static int session_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	struct lock_service *inner = session_of(s)->inner;
	uint64_t before[LOCK_OPS_MAX], after[LOCK_OPS_MAX];
	const bool repeats = servers == &three && count <= LOCK_OPS_MAX;
	int err;

	if (servers == &three)
		trouble();
	do {
		err = repeats ? versions(inner, ops, count, before) : 0;
		if (!err)
			err = lock_multi(inner, ops, count, stats);
		if (!repeats || err != -UNREACHABLE)
			return err;
		err = versions(inner, ops, count, after);
	} while (!err && memcmp(before, after, count * sizeof(*before)) == 0);
	for (unsigned i = 0; !err && stats && i < count; i++)
		err = ops[i].what == LOCK_REMOVE ? 0 : get(inner, ops[i].name, NULL, &stats[i]);
	return err;
}

static int session_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	return session_of(s)->inner->ops->list(session_of(s)->inner, dir, fn, arg);
}

static int session_sync(struct lock_service *s)
{
	return lock_sync(session_of(s)->inner);
}

static int session_watch(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg)
{
	return session_of(s)->inner->ops->watch(session_of(s)->inner, name, fn, arg);
}

static void session_unwatch(struct lock_service *s, lock_watch_fn *fn, void *arg)
{
	session_of(s)->inner->ops->unwatch(session_of(s)->inner, fn, arg);
}

static void session_free(struct lock_service *s)
{
	struct session **at = &sessions;

	while (*at != session_of(s))
		at = &(*at)->next;
	*at = session_of(s)->next;
	lock_service_free(session_of(s)->inner);
	free(s);
}

static const struct lock_service_ops session_ops = {
	.get = session_get,
	.multi = session_multi,
	.list = session_list,
	.sync = session_sync,
	.watch = session_watch,
	.unwatch = session_unwatch,
	.free = session_free,
};

static void on_expired(void *arg)
{
	((struct session *)arg)->expired++;
}

static struct lock_service *session_at(const char *to, const char *digest, uint64_t timeout_us)
{
	struct session *s = calloc(1, sizeof(*s));
	const struct lock_zookeeper_options o = {.hosts = to,
		.chroot = cluster,
		.digest = digest,
		.timeout_us = timeout_us,
		.patience_us = 60 * SECOND_US,
		.expired = on_expired,
		.arg = s};
	char *why = NULL;
	int err;

	assert_non_null(s);
	s->base.ops = &session_ops;
	err = lock_zookeeper_open(&o, &s->inner, &why);
	if (err)
		print_error("%s\n", why);
	assert_int_equal(err, 0);
	assert_true(lock_zookeeper_timeout_us(s->inner) == timeout_us);
	s->zh = newest;
	s->next = sessions;
	sessions = s;
	return &s->base;
}

static struct lock_service *session(void)
{
	return session_at(hosts, "me:secret", 30 * SECOND_US);
}

/*
 * All watches are called for the changes so far.  A session has its events and answers in the order in which the server sent
 * them, so after a lock_sync all earlier events were noticed, and after the next one the answers to the questions that they
 * caused.  A chain of questions has at most four.
 */
static void deliver(void)
{
	for (struct session *s = sessions; s; s = s->next)
		for (unsigned i = 0; i < 6 && !s->expired; i++)
			assert_int_equal(lock_sync(s->inner), 0);
}

static void on_second(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	(void)zh, (void)path;
	if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
		((atomic_bool *)arg)[0] = true;
}

/* Joins the session over a second connection, whose end ends the session. */
static void expire(struct lock_service *service)
{
	struct session *s = session_of(service);

	while (!s->expired) {
		const clientid_t id = *zoo_client_id(s->zh);
		atomic_bool connected = false;
		zhandle_t *second = __real_zookeeper_init(hosts, on_second, 10000, &id, &connected, 0);

		assert_non_null(second);
		while (!connected && !is_unrecoverable(second))
			usleep(1000);
		zookeeper_close(second);
		for (unsigned i = 0; i < 1000 && !s->expired; i++)
			usleep(1000);
	}
	assert_int_equal(s->expired, 1);
}

static void begin(void)
{
	static unsigned number;

	snprintf(cluster, sizeof(cluster), "cluster%u", number++);
}

static void begin_one(void)
{
	servers = &one;
	strcpy(hosts, one.hosts);
	begin();
}

/*
 * Sessions do not connect to the leader that will be stopped: the library would notice that only after 2/3 of the timeout,
 * which is long here, because a busy machine must not end sessions.
 */
static void begin_three(void)
{
	servers = &three;
	if (changes > 20 && changes < 85)
		servers_without(&three, servers_leader(&three), hosts);
	else
		strcpy(hosts, three.hosts);
	begin();
}

static void end(void)
{
	while (sessions)
		session_free(&sessions->base); /* a test that failed has left it */
}

/* ---- tests of this implementation ---- */

static int put(struct lock_service *s, const char *name, const char *text, uint64_t expect)
{
	return lock_put(s, name, tfs_str(text), expect, NULL);
}

static int opened(const struct lock_zookeeper_options *o, const char *why_has)
{
	struct lock_service *s = NULL;
	char *why = NULL;
	int err = lock_zookeeper_open(o, &s, &why);

	if (err && why_has)
		assert_non_null(strstr(why, why_has));
	free(why);
	lock_service_free(s);
	return err;
}

static void refused(void **state)
{
	struct lock_zookeeper_options o = {
		.hosts = one.hosts, .chroot = "c", .timeout_us = 10 * SECOND_US, .patience_us = 60 * SECOND_US};

	(void)state;
	o.timeout_us = SECOND_US;
	assert_int_equal(opened(&o, "1000 ms"), -EINVAL);
	o.timeout_us = 10 * SECOND_US;
	o.chroot = "a/b";
	assert_int_equal(opened(&o, "a/b"), -EINVAL);
	o.chroot = "c";
	o.hosts = "host.invalid:2181";
	assert_int_equal(opened(&o, "host.invalid"), -EINVAL);
	o.hosts = "127.0.0.1:1";
	o.patience_us = SECOND_US / 5;
	assert_int_equal(opened(&o, "127.0.0.1:1"), -UNREACHABLE);
}

static void key(void **state)
{
	struct lock_zookeeper_options o = {.chroot = cluster, .timeout_us = 10 * SECOND_US, .patience_us = 60 * SECOND_US};
	struct lock_service *s;

	begin_one();
	o.hosts = servers->hosts;
	s = session();
	assert_int_equal(put(s, "root", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(s, "tables/t", "x", LOCK_ABSENT), 0);
	o.digest = "me:other";
	assert_int_equal(opened(&o, cluster), -EACCES);
	o.digest = NULL;
	assert_int_equal(opened(&o, cluster), -EACCES);
	o.digest = "no key";
	assert_int_equal(opened(&o, NULL), -EINVAL);
	o.digest = "me:secret";
	assert_int_equal(opened(&o, NULL), 0);
	lock_service_free(s);
	/* without a key */
	begin_one();
	s = session_at(servers->hosts, NULL, 10 * SECOND_US);
	assert_int_equal(put(s, "tables/t", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(s, "tables/t/u", "x", LOCK_ABSENT), -EINVAL);
	assert_int_equal(put(s, "tables", "x", LOCK_EXISTS), -EINVAL);
	assert_int_equal(put(s, "tables", "x", 1), -EINVAL);
	o.digest = NULL;
	assert_int_equal(opened(&o, NULL), 0);
	lock_service_free(s);
}

/* The outcome of a change whose answer is lost is unknown.  A read then waits for a quorum. */
static void lost_answer(void **state)
{
	struct lock_service *s, *b;
	struct buf got = {0};
	unsigned before;

	begin_one();
	s = session();
	b = session();
	assert_int_equal(put(s, "root", "x", LOCK_ABSENT), 0);
	lose = 1;
	assert_int_equal(put(s, "root", "y", LOCK_EXISTS), -UNREACHABLE);
	before = multis;
	assert_int_equal(lock_get(s, "root", &got, NULL), 0);
	assert_int_equal(multis, before + 1);
	assert_memory_equal(got.p, "y", 1);
	assert_int_equal(lock_get(s, "root", &got, NULL), 0);
	assert_int_equal(lock_get(b, "root", &got, NULL), 0);
	assert_int_equal(multis, before + 1);
	/* lock_sync is repeated */
	lose = 2;
	assert_int_equal(lock_sync(s), 0);
	assert_int_equal(multis, before + 4);
	buf_fini(&got);
	lock_service_free(s);
	lock_service_free(b);
}

struct names {
	pthread_mutex_t mutex;
	char text[512];
};

static void add_name(void *arg, const char *name)
{
	struct names *n = arg;

	pthread_mutex_lock(&n->mutex);
	if (strlen(n->text) + strlen(name) + 2 < sizeof(n->text))
		strcat(strcat(n->text, name), " ");
	pthread_mutex_unlock(&n->mutex);
}

static void clear(struct names *n)
{
	pthread_mutex_lock(&n->mutex);
	*n->text = 0;
	pthread_mutex_unlock(&n->mutex);
}

/* A session whose server dies learns of all changes meanwhile, and lives on with its watches and ephemeral files. */
static void reconnection(void **state)
{
	const struct lock_op master = {.name = "master", .ephemeral = true, .expect = LOCK_ABSENT};
	struct names seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	struct lock_service *a, *b;
	char only[128], command[32], *rest = only, *server = NULL;
	int follower;

	begin_three();
	follower = servers_leader(&three) % 3 + 1;
	servers_without(&three, follower, hosts); /* of b */
	strcpy(only, three.hosts);
	for (int i = 1; i <= follower; i++)
		server = strsep(&rest, ",");
	a = session_at(server, "me:secret", 60 * SECOND_US);
	b = session();
	assert_int_equal(put(b, "tables/a", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(b, "tables/b", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(b, "root", "x", LOCK_ABSENT), 0);
	assert_int_equal(lock_sync(a), 0);
	assert_int_equal(lock_multi(a, &master, 1, NULL), 0);
	assert_int_equal(a->ops->watch(a, "tables/", add_name, &seen), 0);
	assert_int_equal(a->ops->watch(a, "none/", add_name, &seen), 0);
	assert_int_equal(a->ops->watch(a, "root", add_name, &seen), 0);
	assert_int_equal(a->ops->watch(a, "term", add_name, &seen), 0);
	servers_signal(&three, follower, "KILL");
	assert_int_equal(put(b, "tables/a", "y", LOCK_EXISTS), 0);
	assert_int_equal(lock_remove(b, "tables/b", LOCK_EXISTS), 0);
	assert_int_equal(put(b, "tables/c", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(b, "none/n", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(b, "root", "y", LOCK_EXISTS), 0);
	assert_int_equal(put(b, "term", "x", LOCK_ABSENT), 0);
	snprintf(command, sizeof(command), "server %d", follower);
	servers_do(&three, command);
	deliver();
	for (const char *const *name =
			(const char *const[]){"tables/a ", "tables/b ", "tables/c ", "none/n ", "root ", "term ", NULL};
		*name; name++)
		if (!strstr(seen.text, *name))
			fail_msg("%snot reported: %s", *name, seen.text);
	assert_int_equal(session_of(a)->expired, 0);
	assert_int_equal(lock_get(b, "master", NULL, NULL), 0);
	/* and of later events */
	clear(&seen);
	assert_int_equal(put(b, "tables/a", "z", LOCK_EXISTS), 0);
	assert_int_equal(put(b, "none/n", "y", LOCK_EXISTS), 0);
	assert_int_equal(put(b, "root", "z", LOCK_EXISTS), 0);
	assert_int_equal(lock_remove(b, "term", LOCK_EXISTS), 0);
	deliver();
	for (const char *const *name = (const char *const[]){"tables/a ", "none/n ", "root ", "term ", NULL}; *name; name++)
		if (!strstr(seen.text, *name))
			fail_msg("%snot reported later: %s", *name, seen.text);
	a->ops->unwatch(a, add_name, &seen);
	lock_service_free(a);
	assert_int_equal(lock_sync(b), 0);
	assert_int_equal(lock_get(b, "master", NULL, NULL), -ENOENT);
	lock_service_free(b);
}

static void reported(struct names *n, const char *name)
{
	bool found = false;

	for (unsigned i = 0; !found && i < 600; i++) {
		(void)usleep(100000);
		pthread_mutex_lock(&n->mutex);
		found = strstr(n->text, name);
		pthread_mutex_unlock(&n->mutex);
	}
	if (!found)
		fail_msg("%snot reported: %s", name, n->text);
	clear(n);
}

/* A question for which memory was short is asked again, and no change is lost. */
static void short_memory(void **state)
{
	struct names seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	struct lock_service *a, *b;

	begin_one();
	a = session();
	b = session();
	assert_int_equal(put(b, "root", "x", LOCK_ABSENT), 0);
	assert_int_equal(put(b, "tables/a", "x", LOCK_ABSENT), 0);
	no_questions = 1;
	assert_int_equal(a->ops->watch(a, "root", add_name, &seen), 0);
	no_questions = 1;
	assert_int_equal(a->ops->watch(a, "tables/", add_name, &seen), 0);
	assert_int_equal(no_questions, 0);
	no_questions = 2;
	assert_int_equal(put(b, "root", "y", LOCK_EXISTS), 0);
	reported(&seen, "root ");
	assert_int_equal(no_questions, 0);
	no_memory = 2; /* the mark of the new file gets no memory */
	assert_int_equal(put(b, "tables/b", "x", LOCK_ABSENT), 0);
	reported(&seen, "tables/b ");
	assert_int_equal(no_memory, 0);
	assert_int_equal(put(b, "tables/b", "y", LOCK_EXISTS), 0);
	reported(&seen, "tables/b ");
	assert_int_equal(put(b, "root", "z", LOCK_EXISTS), 0);
	reported(&seen, "root ");
	a->ops->unwatch(a, add_name, &seen);
	lock_service_free(a);
	lock_service_free(b);
}

static const struct lock_kind on_one = {.begin = begin_one, .end = end, .session = session, .expire = expire, .deliver = deliver};
static const struct lock_kind on_three = {
	.begin = begin_three, .end = end, .session = session, .expire = expire, .deliver = deliver};

static int teardown(void **state)
{
	(void)state;
	end();
	return 0;
}
#define OWN(test) cmocka_unit_test_teardown(test, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
#define lock_conformance_kind (&on_one)
		LOCK_CONFORMANCE LOCK_CONFORMANCE_SESSIONS
#undef lock_conformance_kind
#define lock_conformance_kind (&on_three)
			LOCK_CONFORMANCE_SESSIONS LOCK_CONFORMANCE_ONE_THREAD(LOCK_CONFORMANCE_ONE)
#undef lock_conformance_kind
				OWN(reconnection),
		OWN(refused), OWN(key), OWN(lost_answer), OWN(short_memory)};
	char line[256];
	int failed;

	main_thread = pthread_self();
	signal(SIGPIPE, SIG_IGN);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_set_level(MSG_ERROR);
	servers_begin(&one, "1");
	servers_begin(&three, "3");
	for (struct servers *v = &one; v; v = v == &one ? &three : NULL) {
		if (!servers_line(v, line, sizeof(line)) || strncmp(line, "missing: ", 9) == 0) {
			const bool ci = getenv("CI") && strcmp(getenv("CI"), "true") == 0;

			printf(ci ? "not ok 1 - %s\n1..1\n" : "1..0 # SKIP %s\n", line);
			return ci;
		}
		snprintf(v->hosts, sizeof(v->hosts), "%s", line);
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	leader_back();
	servers_end(&one);
	servers_end(&three);
	return failed;
}
