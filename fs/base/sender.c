/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that sends the notifications of directories to the kernel
 * (sender.h).  The sender process has the device of the mount and one end of
 * the socket, and nothing else of the daemon: it is forked before the store is
 * opened.  Each of its threads reads an order and carries it out.  Before a
 * thread carries an order out, another thread waits for orders.  If there are
 * THREADS threads already, the last free thread only reads.
 *
 * Orders of one directory are carried out in sequence.  So a directory that hangs
 * occupies one thread, and is skipped until it answers.  The changes of one user
 * occupy SHARE threads at most, because a user may make many directories hang.
 *
 * The orders of a directory that wait are bounded (ORDERS_OF_DIRECTORY, ORDERS).
 * Orders beyond this are dropped.  When the directory answers, its listing is
 * dropped, and on kernels that can do so (6.16), all cached names of the mount become
 * out of date.  A name that is not dropped does little harm: the inode was invalidated
 * in time, so its use asks the daemon, which answers ESTALE, and the kernel looks the
 * name up again.
 *
 * The end: the daemon closes its end of the socket, or dies.  If a thread waits in the
 * kernel, it keeps the device open, so the kernel does not notice the end of the
 * daemon.  Then the process aborts the connection through /sys/fs/fuse, and by umount
 * with force, which only root may do.  Calls on the mount return ENOTCONN after that.
 *
 * The process is not a child of the daemon.  Nothing waits for its end.
 */
#include "fs/base/sender.h"

#include "engine/base/tree.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 16u
#define SHARE 4u
#define ORDERS_OF_DIRECTORY 1000u /* twice as many if replies wait for them */
#define ORDERS 100000u
#define NOTIFY_INC_EPOCH 8 /* FUSE_NOTIFY_INC_EPOCH, which older headers lack */

/* The first message: the number of the connection, and the mount point. */
struct hello {
	unsigned connection;
	char mountpoint[4096];
};
struct order_head {
	uint64_t number, dir;
	uint32_t uid, name_n;
};
struct order {
	STAILQ_ENTRY(order) next;
	struct order_head head;
	char name[256];
};
/* A directory that has orders, or is being notified. */
struct directory {
	RB_ENTRY(directory) by_id;
	TAILQ_ENTRY(directory) ready; /* if it has orders and is not busy */
	uint64_t id;
	STAILQ_HEAD(, order) orders;
	unsigned count;
	bool busy, lost; /* lost: orders were dropped */
};
RB_HEAD(directories, directory);

static int daemon_end = -1; /* the daemon's end of the socket */

/* ---- the process ---- */

static struct {
	int sock, device;
	struct hello hello;
	pthread_mutex_t lock;
	struct directories all;
	TAILQ_HEAD(, directory) ready;
	unsigned count; /* orders of all directories */
	unsigned threads, reading;
	struct {
		bool busy;
		uint32_t uid;
	} thread[THREADS];
} p = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int directory_cmp(struct directory *a, struct directory *b)
{
	return (a->id > b->id) - (a->id < b->id);
}

RB_PROTOTYPE_STATIC(directories, directory, by_id, directory_cmp);
RB_GENERATE_STATIC(directories, directory, by_id, directory_cmp);

static void notify(int code, const void *body, size_t body_n, const char *name, size_t name_n)
{
	struct fuse_out_header h = {.len = (uint32_t)(sizeof(h) + body_n + name_n), .error = code};
	const struct iovec v[] = {{&h, sizeof(h)}, {(void *)(uintptr_t)body, body_n}, {(void *)(uintptr_t)name, name_n}};

	(void)!writev(p.device, v, 3); /* ENOENT if the kernel does not have it */
}

static void notify_listing(uint64_t dir)
{
	const struct fuse_notify_inval_inode_out body = {.ino = dir};

	notify(FUSE_NOTIFY_INVAL_INODE, &body, sizeof(body), NULL, 0);
}

static void carry_out(const struct order *o)
{
	const struct fuse_notify_inval_entry_out body = {.parent = o->head.dir, .namelen = o->head.name_n};

	if (o->head.name_n)
		notify(FUSE_NOTIFY_INVAL_ENTRY, &body, sizeof(body), o->name, o->head.name_n + 1);
	else
		notify_listing(o->head.dir);
}

static void answer(uint64_t number)
{
	if (number)
		(void)!send(p.sock, &number, sizeof(number), MSG_NOSIGNAL);
}

static unsigned threads_of(uint32_t uid)
{
	unsigned n = 0;

	for (unsigned i = 0; i < THREADS; i++)
		n += p.thread[i].busy && p.thread[i].uid == uid;
	return n;
}

static struct directory *ready_directory(void)
{
	struct directory *d;

	TAILQ_FOREACH (d, &p.ready, ready)
		if (threads_of(STAILQ_FIRST(&d->orders)->head.uid) < SHARE)
			return d;
	return NULL;
}

static void *thread_main(void *arg);

/* Returns true if another thread waits for orders. */
static bool another_reads(void)
{
	pthread_t t;

	if (p.reading)
		return true;
	if (p.threads == THREADS || pthread_create(&t, NULL, thread_main, (void *)(uintptr_t)p.threads) != 0)
		return false;
	p.threads++;
	return true;
}

static void carry_out_first(struct directory *d, unsigned me)
{
	struct order *o = STAILQ_FIRST(&d->orders);

	TAILQ_REMOVE(&p.ready, d, ready);
	STAILQ_REMOVE_HEAD(&d->orders, next);
	d->count--;
	d->busy = true;
	p.count--;
	p.thread[me].busy = true;
	p.thread[me].uid = o->head.uid;
	pthread_mutex_unlock(&p.lock);
	carry_out(o);
	answer(o->head.number);
	free(o);
	pthread_mutex_lock(&p.lock);
	while (d->lost && !d->count) {
		d->lost = false;
		pthread_mutex_unlock(&p.lock);
		notify_listing(d->id);
		notify(NOTIFY_INC_EPOCH, NULL, 0, NULL, 0);
		pthread_mutex_lock(&p.lock);
	}
	p.thread[me].busy = false;
	d->busy = false;
	if (d->count) {
		TAILQ_INSERT_TAIL(&p.ready, d, ready);
	} else {
		RB_REMOVE(directories, &p.all, d);
		free(d);
	}
}

/* Takes o. */
static void add_order(struct order *o)
{
	struct directory key = {.id = o->head.dir}, *d;
	const unsigned share = o->head.number ? 2 : 1;

	d = RB_FIND(directories, &p.all, &key);
	if (!d && (d = calloc(1, sizeof(*d)))) {
		d->id = o->head.dir;
		STAILQ_INIT(&d->orders);
		RB_INSERT(directories, &p.all, d);
	}
	/* Half of the room is for orders that a reply waits for.  A dropped order gets no answer: the next change sends it again. */
	if (!d || d->count >= ORDERS_OF_DIRECTORY * share || (d->count && p.count >= ORDERS / 2 * share)) {
		if (d)
			d->lost = true;
		free(o);
	} else {
		STAILQ_INSERT_TAIL(&d->orders, o, next);
		p.count++;
		if (d->count++ == 0 && !d->busy)
			TAILQ_INSERT_TAIL(&p.ready, d, ready);
	}
}

/* The daemon has ended. */
__attribute__((noreturn)) static void process_end(void)
{
	struct pollfd device = {.fd = p.device};
	bool busy = false;
	char path[64];
	int fd;

	pthread_mutex_lock(&p.lock);
	for (unsigned i = 0; i < p.threads; i++)
		busy = busy || p.thread[i].busy;
	/* After an unmount, another mount may have got the number and the mount point. */
	if (!busy || poll(&device, 1, 0) < 0 || device.revents & POLLERR)
		_exit(0);
	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", p.hello.connection);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		(void)!umount2(p.hello.mountpoint, MNT_FORCE | UMOUNT_NOFOLLOW);
	_exit(0);
}

/* Reads an order, without the lock. */
static struct order *read_order(void)
{
	static const struct timespec pause = {.tv_nsec = 10000000};
	struct order *o;
	struct iovec v[2];
	ssize_t n;

	/* Without memory the orders stay in the socket: at the end of this process the mount would end, too. */
	while (!(o = calloc(1, sizeof(*o))))
		nanosleep(&pause, NULL);
	v[0] = (struct iovec){&o->head, sizeof(o->head)};
	v[1] = (struct iovec){o->name, sizeof(o->name) - 1};
	do
		n = readv(p.sock, v, 2);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)(sizeof(o->head) + o->head.name_n))
		process_end();
	return o;
}

static void *thread_main(void *arg)
{
	const unsigned me = (unsigned)(uintptr_t)arg;

	pthread_mutex_lock(&p.lock);
	for (;;) {
		struct directory *d = ready_directory();
		struct order *o;

		if (d && another_reads()) {
			carry_out_first(d, me);
			continue;
		}
		p.reading++;
		pthread_mutex_unlock(&p.lock);
		o = read_order();
		pthread_mutex_lock(&p.lock);
		p.reading--;
		add_order(o);
	}
	return NULL;
}

/* Receives the first message with the descriptor of the device. */
static bool receive_hello(void)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec v = {&p.hello, sizeof(p.hello)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c;

	if (recvmsg(p.sock, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(p.hello) || !(c = CMSG_FIRSTHDR(&m)) ||
		c->cmsg_type != SCM_RIGHTS)
		return false;
	memcpy(&p.device, CMSG_DATA(c), sizeof(int));
	return true;
}

__attribute__((noreturn)) static void process_main(int sock)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM};
	const int null = open("/dev/null", O_RDWR);

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	setsid();
	(void)!chdir("/");
	prctl(PR_SET_NAME, "tabletfs-notify");
	if (dup2(sock, 3) != 3) /* first, because sock may be 0, 1 or 2 */
		_exit(1);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	closefrom(4);
	p.sock = 3;
	RB_INIT(&p.all);
	TAILQ_INIT(&p.ready);
	if (!receive_hello())
		_exit(0);
	p.threads = 1;
	(void)!thread_main(NULL);
	_exit(0);
}

/* ---- the daemon ---- */

int sender_start(int argc, char **argv)
{
	int pair[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	child = fork();
	if (child == 0) {
		if (fork() != 0)
			_exit(0);
		for (int i = 1; i < argc; i++)
			memset(argv[i], 0, strlen(argv[i]));
		process_main(pair[1]);
	}
	close(pair[1]);
	if (child < 0) {
		close(pair[0]);
		return -EAGAIN;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	daemon_end = pair[0];
	return 0;
}

/* Returns the minor number of the device that is mounted at the path, which is the number of the connection. */
static unsigned connection_of(const char *mountpoint)
{
	struct statx st;

	/* Without a request: no thread serves any yet. */
	if (statx(AT_FDCWD, mountpoint, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW, 0, &st) != 0)
		return 0;
	return st.stx_dev_minor;
}

int sender_mounted(int fuse_fd, const char *mountpoint)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct hello hello = {.connection = connection_of(mountpoint)};
	struct iovec v = {&hello, sizeof(hello)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	snprintf(hello.mountpoint, sizeof(hello.mountpoint), "%s", mountpoint);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fuse_fd, sizeof(int));
	return sendmsg(daemon_end, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(hello) ? 0 : -errno;
}

bool sender_order(uint64_t dir, struct tfs_bytes name, uint64_t number, uid_t uid)
{
	struct order_head head = {.number = number, .dir = dir, .uid = uid, .name_n = (uint32_t)name.n};
	const struct iovec v[] = {{&head, sizeof(head)}, {(void *)(uintptr_t)name.p, name.n}};
	const struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = 2};
	ssize_t n;

	if (name.n > 255)
		return true; /* no entry has such a name */
	do
		n = sendmsg(daemon_end, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n >= 0;
}

uint64_t sender_answer(void)
{
	uint64_t number = 0;
	ssize_t n;

	do
		n = recv(daemon_end, &number, sizeof(number), 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(number) ? number : 0;
}

void sender_end(void)
{
	if (daemon_end >= 0)
		(void)!shutdown(daemon_end, SHUT_RDWR);
}

void sender_close(void)
{
	if (daemon_end >= 0)
		close(daemon_end);
	daemon_end = -1;
}
