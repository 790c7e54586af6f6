/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets in directories, and TCP (socket.h). */
#include "engine/base/socket.h"

#include "engine/base/address.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 256
#define CONNECT_S 10
#define PIECES_MAX 4u
#define NOT_SENT_BYTES                                                                                                             \
	(128 << 10) /* TCP takes more bytes only while fewer are unsent, so that frames wait where they take turns (rpc/conn.c) */
#define UNACKNOWLEDGED_MS 10000u /* TCP gives a connection up after this */

static int dir_open(const char *dir)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The path leads through the open directory, so it is short. */
static int address_of(int dir, struct sockaddr_un *out)
{
	int n;

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/" SOCKET_NAME, dir);
	return n < 0 || (size_t)n >= sizeof(out->sun_path) ? -ENAMETOOLONG : 0;
}

/* Returns 1 if SOCKET_NAME is a socket, 0 if it does not exist. */
static int is_socket(int dir)
{
	struct stat st;

	if (fstatat(dir, SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -errno;
	return S_ISSOCK(st.st_mode) ? 1 : S_ISLNK(st.st_mode) ? -ELOOP : -EEXIST;
}

/*
 * Sets mode and group of the socket that this process has just made.  Another user who can write in the directory may have put
 * something else under the name: nothing is changed but a socket of this user that has no other name.
 */
static int set_rights(int dir, mode_t mode, gid_t group)
{
	int fd = openat(dir, SOCKET_NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC), err = fd < 0 ? -errno : 0;
	char path[32];
	struct stat st;

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		err = -EEXIST;
	else if ((group != (gid_t)-1 && fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH)) || chmod(path, mode))
		err = -errno;
	close(fd);
	return err;
}

/* Closes the directory, and after an error the socket.  Returns err. */
static int socket_made(int dir, int fd, int err, int *out)
{
	if (dir >= 0)
		close(dir);
	if (err && fd >= 0)
		close(fd);
	else if (!err)
		*out = fd;
	return err;
}

int socket_listen(const char *dir, mode_t mode, gid_t group, int *out)
{
	struct sockaddr_un a;
	int d = dir_open(dir), fd = -1, err = d < 0 ? d : address_of(d, &a);

	if (!err) {
		err = is_socket(d);
		if (err == -ELOOP || err == -EEXIST)
			msg_error("%s/" SOCKET_NAME ": %s", dir,
				err == -ELOOP ? "a symbolic link; none is followed here"
					      : "neither a file nor a directory of the store, nor a socket");
		if (err > 0)
			err = unlinkat(d, SOCKET_NAME, 0) ? -errno : 0;
	}
	if (!err) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		err = fd < 0 ? -errno : 0;
	}
	/* The name gets the mode of fd without the bits of the umask.  Nobody can connect before listen(2). */
	if (!err && (fchmod(fd, mode) || bind(fd, (struct sockaddr *)&a, sizeof(a))))
		err = -errno;
	if (!err && (mode & 077 || group != (gid_t)-1))
		err = set_rights(d, mode, group);
	if (!err && listen(fd, BACKLOG))
		err = -errno;
	return socket_made(d, fd, err, out);
}

int socket_accept(int listener, int *fd)
{
	int r;

	do
		r = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (r < 0 && (errno == EINTR));
	if (r < 0)
		return -errno;
	*fd = r;
	return 0;
}

/* Connects.  Waits while the listener's queue of connections is full. */
static int connect_patiently(int fd, const struct sockaddr_un *a)
{
	const struct timeval most = {.tv_sec = CONNECT_S};
	int flags;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)))
		return -errno;
	while (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		if (errno != EINTR)
			return -errno;
	flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

int socket_connect(const char *dir, int *out)
{
	struct sockaddr_un a;
	int d = dir_open(dir), fd = -1, err = d < 0 ? d : address_of(d, &a);

	if (!err) {
		err = is_socket(d);
		err = err > 0 ? 0 : err == 0 ? -ENOENT : err == -EEXIST ? -EPROTOTYPE : err;
	}
	if (!err) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		err = fd < 0 ? -errno : 0;
	}
	if (!err)
		err = connect_patiently(fd, &a);
	return socket_made(d, fd, err, out);
}

int socket_listen_tcp(const char *address, int *out)
{
	const int on = 1;
	struct sockaddr_storage a;
	socklen_t n;
	int fd, err = 0;

	if (!address_parse(address, &a, &n))
		return -EINVAL;
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) || bind(fd, (struct sockaddr *)&a, n) || listen(fd, BACKLOG))
		err = -errno;
	return socket_made(-1, fd, err, out);
}

void socket_tune_tcp(int fd)
{
	const int on = 1, idle_s = 30, interval_s = 5, probes = 3;
	const unsigned most_ms = UNACKNOWLEDGED_MS, unsent = NOT_SENT_BYTES;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof(most_ms));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static int wait_connected(int fd, uint64_t timeout_us)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t n = sizeof(int);
	int r, err = 0;

	do
		r = poll(&p, 1, timeout_us < INT32_MAX * 1000ull ? (int)((timeout_us + 999) / 1000) : INT32_MAX);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return -ETIMEDOUT;
	return r < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) ? -errno : -err;
}

int socket_connect_tcp(const char *host, const char *port, uint64_t timeout_us, int *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	int fd = -1, err = -EHOSTUNREACH;

	if (getaddrinfo(host, port, &hints, &found))
		return -EHOSTUNREACH;
	for (const struct addrinfo *a = found; a && err; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		err = fd < 0 ? -errno : connect(fd, a->ai_addr, a->ai_addrlen) ? -errno : 0;
		if (err == -EINPROGRESS)
			err = wait_connected(fd, timeout_us);
		if (err && fd >= 0)
			close(fd);
	}
	freeaddrinfo(found);
	if (!err) {
		socket_tune_tcp(fd);
		*out = fd;
	}
	return err;
}

int socket_get_peer(int fd, struct socket_peer *out)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);
	gid_t *groups = NULL;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return -errno;
	*out = (struct socket_peer){.uid = cred.uid, .gid = cred.gid, .pid = cred.pid};
	n = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &n) == 0 || errno != ERANGE)
		return 0; /* there are none, or the kernel cannot name the groups of a listener */
	groups = malloc(n);
	if (!groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n)) {
		free(groups);
		return -errno;
	}
	out->groups = groups;
	out->group_count = n / (socklen_t)sizeof(gid_t);
	return 0;
}

void socket_peer_fini(struct socket_peer *p)
{
	free(p->groups);
	*p = (struct socket_peer){0};
}

void socket_remove(const char *dir)
{
	int d = dir_open(dir);

	if (d < 0)
		return;
	if (is_socket(d) > 0)
		(void)!unlinkat(d, SOCKET_NAME, 0);
	close(d);
}

int socket_file_owner(const char *dir, const char *name, uid_t *uid)
{
	struct stat st;
	int d = dir_open(dir), err = d < 0 ? d : 0;

	if (!err && fstatat(d, name, &st, AT_SYMLINK_NOFOLLOW))
		err = -errno;
	if (!err && !S_ISREG(st.st_mode))
		err = -EINVAL;
	if (!err)
		*uid = st.st_uid;
	if (d >= 0)
		close(d);
	return err;
}

int64_t socket_send(int fd, const struct tfs_bytes *v, unsigned count)
{
	struct iovec iov[PIECES_MAX];
	struct msghdr m = {.msg_iov = iov};
	ssize_t n;

	for (unsigned i = 0; i < count && m.msg_iovlen < PIECES_MAX; i++)
		if (v[i].n)
			iov[m.msg_iovlen++] = (struct iovec){(void *)(uintptr_t)v[i].p, v[i].n};
	do
		n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int64_t socket_receive(int fd, void *p, size_t n)
{
	ssize_t r;

	do
		r = recv(fd, p, n, MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

void socket_abort(int fd)
{
	const struct linger now = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}
