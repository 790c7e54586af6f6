/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets in directories, and TCP.  The directory is opened first, and the socket is reached
 * through it, so its path may be longer than the 107 bytes of an address, and a
 * symbolic link is not followed.
 *
 * All descriptors do not block and are closed at an exec.  Errors: -errno.
 * Threads: any.
 */
#ifndef TFS_BASE_SOCKET_H
#define TFS_BASE_SOCKET_H

#include "engine/base/bytes.h"

/* The process at the other end, as the kernel names it when it connected or listened. */
struct socket_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	gid_t *groups; /* supplementary ones; socket_peer_fini frees them */
	uint32_t group_count;
};

#define SOCKET_NAME "socket" /* in a data directory */

/*
 * Removes the socket in a data directory that a dead process has left, and listens at a new
 * socket with this mode, and this group unless it is (gid_t)-1.  Returns -EEXIST if the name is
 * taken by something that is no socket.
 */
int socket_listen(const char *dir, mode_t mode, gid_t group, int *fd) TFS_MUST;
/* Accepts a connection.  -EAGAIN: none waits. */
int socket_accept(int listener, int *fd) TFS_MUST;
/*
 * Connects.  Returns -ENOENT or -ECONNREFUSED if no process listens, -EACCES if the user
 * may not connect, -EAGAIN if too many connections wait, -ELOOP or -EPROTOTYPE if the
 * file is no socket.
 */
int socket_connect(const char *dir, int *fd) TFS_MUST;
/* Listens at an address (base/address.h).  -EADDRINUSE, -EADDRNOTAVAIL, -EACCES. */
int socket_listen_tcp(const char *address, int *fd) TFS_MUST;
/*
 * Connects to a host, a name or an address, by TCP.  Tries its addresses in turn, and waits at most timeout_us for each
 * address.  Returns -EHOSTUNREACH if the name has no address, otherwise the error of the last address.
 */
int socket_connect_tcp(const char *host, const char *port, uint64_t timeout_us, int *fd) TFS_MUST;
/* Sets the options of a TCP connection: small frames leave at once, and the loss of the remote host is noticed. */
void socket_tune_tcp(int fd);
int socket_get_peer(int fd, struct socket_peer *out) TFS_MUST;
void socket_peer_fini(struct socket_peer *p);
/* Removes the name if it is a socket. */
void socket_remove(const char *dir);
/* The owner of a regular file. */
int socket_file_owner(const char *dir, const char *name, uid_t *uid) TFS_MUST;
/* Sends pieces.  Returns the number of bytes that the kernel took, -EAGAIN: none now.  Raises no signal. */
int64_t socket_send(int fd, const struct tfs_bytes *v, unsigned count) TFS_MUST;
/* Returns the number of bytes received, 0 at the end, -EAGAIN: none now. */
int64_t socket_receive(int fd, void *p, size_t n) TFS_MUST;
/* Closes at once, and drops the bytes that were not sent. */
void socket_abort(int fd);

#endif
