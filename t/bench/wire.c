/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire DIRECTORY: reads of a small cell through a server, one at a time and 32 in flight, over
 * its Unix socket, TLS and clear text; and, as what is possible, an echo of frames of the same sizes over
 * the same connections.  Prints calls a second, and the processor time of a call at both ends
 * together, which other processes hardly change.
 */
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/socket.h"
#include "engine/rpc/conn.h"
#include "engine/rpc/events.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLIGHT 32
#define CALLS 20000u
#define REQUEST_BYTES 70 /* the bytes of a read request */
#define ANSWER_BYTES 190
#define VALUE_BYTES 100

static const char *keys;
static struct buf padding;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "wire: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

/* ---- measurements ---- */

typedef void call_fn(void *arg);
struct flight {
	call_fn *call;
	void *arg;
	unsigned calls;
};

static void *fly(void *arg)
{
	const struct flight *f = arg;

	for (unsigned i = 0; i < f->calls; i++)
		f->call(f->arg);
	return NULL;
}

/* Processor time of this process and of its server, which is its child or (pid 0) itself. */
static double cpu_s(pid_t server)
{
	char path[64];
	unsigned long user = 0, system = 0;
	struct rusage u;
	FILE *f;

	getrusage(RUSAGE_SELF, &u);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)server);
	f = server ? fopen(path, "re") : NULL;
	if (f && fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		user = system = 0;
	if (f)
		fclose(f);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6 +
		(double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void measure(const char *name, pid_t server, call_fn *call, void *arg)
{
	printf("%-24s", name);
	for (unsigned threads = 1; threads <= FLIGHT; threads *= FLIGHT) {
		struct flight f = {call, arg, CALLS * (threads > 1 ? 4 : 1) / threads};
		pthread_t t[FLIGHT];
		uint64_t begun;
		double cpu;

		for (unsigned i = 0; i < 100; i++)
			call(arg);
		begun = monotonic_us();
		cpu = cpu_s(server);
		for (unsigned i = 0; i < threads; i++)
			must(pthread_create(&t[i], NULL, fly, &f), "thread");
		for (unsigned i = 0; i < threads; i++)
			pthread_join(t[i], NULL);
		printf("  %2u in flight: %7.0f/s, %5.1f us", threads, f.calls * threads * 1e6 / (double)(monotonic_us() - begun),
			(cpu_s(server) - cpu) * 1e6 / (f.calls * threads));
	}
	printf("\n");
	fflush(stdout);
}

/* ---- echo ---- */

struct echo {
	struct conn *conn;
	struct mutex lock;
	struct event *waits[FLIGHT];
};

static int serve_frame(struct conn *c, struct frame *f)
{
	struct buf b = {0};
	int err;

	if (f->kind == FRAME_HELLO) {
		conn_greeted(c);
		return conn_send(c, FRAME_HELLO, 0, 0, NULL);
	}
	must(buf_append(&b, padding.p, ANSWER_BYTES), "memory");
	err = conn_send(c, FRAME_ANSWER, FRAME_TABLETS, f->number, &b);
	buf_fini(&b);
	conn_answered(c);
	return err;
}

static int receive_frame(struct conn *c, struct frame *f)
{
	struct echo *e = conn_owner(c);
	struct event *w;

	if (f->kind == FRAME_HELLO) {
		conn_greeted(c);
		return 0;
	}
	mutex_lock(&e->lock);
	w = e->waits[f->number];
	e->waits[f->number] = NULL;
	mutex_unlock(&e->lock);
	event_set(w, 1);
	event_wake(w);
	return 0;
}

static void closed(struct conn *c, int why)
{
	if (conn_reason(c))
		fprintf(stderr, "wire: %s\n", conn_reason(c));
}

static void echo_call(void *arg)
{
	struct echo *e = arg;
	struct event done = {0};
	struct buf b = {0};
	unsigned i = 0;

	must(buf_append(&b, padding.p, REQUEST_BYTES), "memory");
	mutex_lock(&e->lock);
	while (e->waits[i])
		i++;
	e->waits[i] = &done;
	mutex_unlock(&e->lock);
	must(conn_send(e->conn, FRAME_REQUEST, FRAME_TABLETS, i, &b), "echo");
	buf_fini(&b);
	while (!event_wait_us(&done, 0, 60000000))
		;
}

static void begin(void *c)
{
	conn_begin(c);
}

static void connect_pair(bool tcp, int fd[2])
{
	const char *address = "127.0.0.1:29190";
	int listener;

	if (!tcp) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) ? errno : 0, "socketpair");
		return;
	}
	must(socket_listen_tcp(address, &listener), address);
	must(socket_connect_tcp("127.0.0.1", "29190", 1000000, &fd[1]), address);
	while (socket_accept(listener, &fd[0]) == -EAGAIN)
		;
	socket_tune_tcp(fd[0]);
	close(listener);
}

static void echo(const char *name, bool tcp, bool secure)
{
	static const struct conn_ops server_ops = {.frame = serve_frame, .closed = closed},
				     client_ops = {.frame = receive_frame, .closed = closed, .patient = true};
	struct echo e = {0};
	struct keys *k = NULL;
	struct tls *tls = NULL;
	struct conn *c;
	char *why;
	pid_t server;
	int fd[2];

	connect_pair(tcp, fd);
	must(keys_load(keys, &k, NULL, &why), keys);
	server = fork();
	if (secure)
		must(server ? tls_client_new(k, &tls) : tls_server_new(k, &tls), "tls");
	must(events_start(), "events");
	close(fd[server ? 0 : 1]);
	must(conn_new(fd[server ? 1 : 0], tls, server ? &client_ops : &server_ops, &e, &c), "conn");
	events_run(begin, c);
	if (!server)
		for (;;)
			pause();
	mutex_init(&e.lock, RANK_WIRE);
	e.conn = c;
	must(conn_send(c, FRAME_HELLO, 0, 0, NULL), "hello");
	measure(name, server, echo_call, &e);
	conn_close(c, 0);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	conn_put(c);
	events_stop();
	keys_put(k);
}

/* ---- a store ---- */

static void read_call(void *arg)
{
	char b[VALUE_BYTES];
	size_t got;

	must(tfs_read(arg, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, 0, b, sizeof(b), &got, NULL), "read");
}

static void fill(const char *dir)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0777};
	struct tfs_store *s;
	struct tfs_table *t;
	struct tfs_mutation *m;

	must(tfs_open(dir, NULL, &s, NULL), dir);
	if (tfs_table_create(s, "t", geteuid(), getegid(), 0777) == 0) {
		must(tfs_table_open(s, "t", &t), "t");
		must(tfs_schema_change(t, &e, NULL), "f");
		m = tfs_mutation_new(t, TFS_S("row"));
		must(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(padding.p, VALUE_BYTES)), "put");
		must(tfs_apply(m, 0, NULL), "put");
		tfs_mutation_free(m);
		tfs_table_close(t);
	}
	must(tfs_close(s), dir);
}

static pid_t serve(const char *dir, const char *address, bool secure)
{
	struct tfs_options o;
	struct tfs_store *s;
	int ready[2];
	char *why, c;
	pid_t child;

	must(pipe(ready) ? errno : 0, "pipe");
	child = fork();
	if (child) {
		close(ready[1]);
		must(read(ready[0], &c, 1) == 1 ? 0 : EIO, "server");
		close(ready[0]);
		return child;
	}
	tfs_options_init(&o);
	o.serve = true;
	o.insecure_tcp = !secure;
	snprintf(o.listen, sizeof(o.listen), "%s", address);
	snprintf(o.keys, sizeof(o.keys), "%s", secure ? keys : "");
	must(tfs_open(dir, &o, &s, &why), dir);
	must(write(ready[1], "r", 1) == 1 ? 0 : EIO, "server");
	for (;;)
		pause();
}

static void reads(const char *name, const char *source, pid_t server)
{
	struct tfs_options o;
	struct tfs_store *s;
	struct tfs_table *t;
	char *why = NULL;
	int err;

	tfs_options_init(&o);
	snprintf(o.keys, sizeof(o.keys), "%s", keys);
	err = tfs_open(source, &o, &s, &why);
	must(err, why ? why : source);
	must(tfs_table_open(s, "t", &t), "t");
	measure(name, server, read_call, t);
	tfs_table_close(t);
	must(tfs_close(s), source);
}

int main(int argc, char **argv)
{
	static char path[4096], unix_source[4096];
	struct buf line = {0};
	pid_t server;
	FILE *f;

	if (argc != 2) {
		fprintf(stderr, "usage: wire DIRECTORY\n");
		return 2;
	}
	for (unsigned i = 0; i < 1024; i++)
		must(buf_u8(&padding, (uint8_t)i), "memory");
	snprintf(path, sizeof(path), "%s.keys", argv[1]);
	snprintf(unix_source, sizeof(unix_source), "unix:%s", argv[1]);
	keys = path;
	must(keys_new_line("bench", "mount", "", &line), "keys");
	umask(077);
	f = fopen(path, "we");
	if (!f || fwrite(line.p, 1, line.n, f) != line.n || fclose(f))
		must(errno, path);
	echo("echo, Unix socket", false, false);
	echo("echo, TCP", true, false);
	echo("echo, TLS", true, true);
	fill(argv[1]);
	server = serve(argv[1], "127.0.0.1:29191", true);
	reads("read, Unix socket", unix_source, server);
	reads("read, TLS", "tls://127.0.0.1:29191", server);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	server = serve(argv[1], "127.0.0.1:29192", false);
	reads("read, TCP", "tcp://127.0.0.1:29192", server);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	unlink(path);
	return 0;
}
