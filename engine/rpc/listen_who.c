/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a peer.  The kernel names the user of a Unix socket.  At TCP the key names the
 * peer.
 *
 * A peer of TCP is a stranger until the handshake of TLS is over and its HELLO has come.
 * There are at most STRANGERS_MAX strangers, and STRANGERS_OF_ADDRESS of one address.
 * One more stranger replaces the oldest one: honest peers need a moment only, so
 * half-open connections do not keep them out.
 */
#include "engine/rpc/listen_impl.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>

#define STRANGERS_MAX 256u
#define STRANGERS_OF_ADDRESS 16u
#define LOG_EVERY_US 60000000u
#define ROOT_PEER UINT64_C(1) /* the number of root's connections, and of the cluster's processes, which are trusted as root is */
enum { OF_USER, OF_KEY, OF_ADDRESS }; /* kinds of numbers of peers */

/* Numbers of users are below 2^33. */
static uint64_t number_of(unsigned kind, struct tfs_bytes name)
{
	return UINT64_C(1) << 63 | hash_private(kind, name);
}

static int unix_connects(struct peer *p, int fd)
{
	int err = socket_get_peer(fd, &p->cred);

	if (err)
		return err;
	p->place = (uint64_t)p->cred.pid;
	snprintf(p->name, sizeof(p->name), "user %u", (unsigned)p->cred.uid);
	snprintf(p->address, sizeof(p->address), "unix");
	p->rights.owner = p->cred.uid == 0 || p->cred.uid == p->listener->owner;
	p->rights.user = (struct tfs_user){
		.uid = p->cred.uid, .gid = p->cred.gid, .groups = p->cred.groups, .group_count = p->cred.group_count};
	p->rights.peer = 1 + (uint64_t)p->cred.uid;
	return 0;
}

/* Returns the part of an address that a host cannot choose: a whole IPv4 address, the network of an IPv6 address. */
static struct tfs_bytes host_of(const struct sockaddr_storage *a)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->ss_family == AF_INET)
		return tfs_bytes_of(&((const struct sockaddr_in *)a)->sin_addr, 4);
	return IN6_IS_ADDR_V4MAPPED(six) ? tfs_bytes_of(six->s6_addr + 12, 4) : tfs_bytes_of(six->s6_addr, 8);
}

static int network_connects(struct peer *p, int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	char host[INET6_ADDRSTRLEN + IFNAMSIZ], port[8];

	if (getpeername(fd, (struct sockaddr *)&a, &n))
		return -errno;
	if (getnameinfo((struct sockaddr *)&a, n, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return -EINVAL;
	snprintf(p->name, sizeof(p->name), "no key");
	snprintf(p->address, sizeof(p->address), a.ss_family == AF_INET ? "%s:%s" : "[%s]:%s", host, port);
	socket_tune_tcp(fd);
	p->place = hash_private(OF_ADDRESS, host_of(&a));
	p->rights.peer = number_of(OF_ADDRESS, host_of(&a));
	return 0;
}

int who_connects(struct peer *p, int fd)
{
	p->rights.store_owner = p->listener->owner;
	return p->network ? network_connects(p, fd) : unix_connects(p, fd);
}

int who_greets(struct peer *p)
{
	/* Any local user can connect in clear text. */
	static const struct key nobody = {.squash = SQUASH_ALL, .anon_uid = KEY_NOBODY, .anon_gid = KEY_NOBODY};
	const struct listener *l = p->listener;
	const struct key *k = !l->tls ? &nobody : keys_find(l->keys, conn_key(p->conn));

	if (!p->network)
		return 0;
	if (!k)
		return -EKEYREJECTED; /* it was removed meanwhile */
	if (l->tls)
		p->keys = keys_get(l->keys);
	p->rights.key = k;
	p->rights.owner = k->role == KEY_CLUSTER;
	p->rights.user = (struct tfs_user){.uid = k->anon_uid, .gid = k->anon_gid};
	p->rights.peer = p->rights.owner ? ROOT_PEER : number_of(OF_KEY, tfs_str(k->name));
	if (l->tls)
		snprintf(p->name, sizeof(p->name), "key %s", k->name);
	return 0;
}

void who_fini(struct peer *p)
{
	socket_peer_fini(&p->cred);
	keys_put(p->keys);
}

static bool is_stranger(const struct peer *p)
{
	return p->network && !p->greeted;
}

bool who_fits(struct listener *l, const struct peer *p)
{
	struct peer *other, *oldest = NULL, *neighbour = NULL;
	unsigned known = 0, same = 0, strangers = 0, neighbours = 0;

	mutex_lock(&l->lock);
	TAILQ_FOREACH (other, &l->peers, link) {
		if (other == p || other->leaves)
			continue;
		if (!is_stranger(other)) {
			known++;
			same += other->rights.peer == p->rights.peer;
			continue;
		}
		oldest = oldest ? oldest : other;
		strangers++;
		if (other->place == p->place) {
			neighbour = neighbour ? neighbour : other;
			neighbours++;
		}
	}
	if (is_stranger(p) && neighbours >= STRANGERS_OF_ADDRESS)
		oldest = neighbour;
	else if (!is_stranger(p) || strangers < STRANGERS_MAX)
		oldest = NULL;
	if (oldest) {
		oldest->leaves = true;
		conn_close(oldest->conn, -EMFILE);
	}
	mutex_unlock(&l->lock);
	return is_stranger(p) || (known < LISTEN_PEERS_MAX - (p->rights.owner ? 0 : LISTEN_USER_MAX) && same < LISTEN_USER_MAX);
}

void who_log(struct listener *l, const struct peer *p, const char *fmt, ...)
{
	const uint64_t now = monotonic_us();
	unsigned i = 0;
	char reason[256];
	va_list ap;

	while (i < LOGGED_USERS && !(l->logged[i].at_us && l->logged[i].peer == p->rights.peer))
		i++;
	if (i == LOGGED_USERS)
		i = l->logged_next++ % LOGGED_USERS;
	/* All places have lines of the last minute, so this line is not logged. */
	if (l->logged[i].at_us && now - l->logged[i].at_us < LOG_EVERY_US)
		return;
	l->logged[i].peer = p->rights.peer;
	l->logged[i].at_us = now;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	if (p->network)
		msg_warning("a client (%s, address %s) was disconnected: %s", p->name, p->address, reason);
	else
		msg_warning("a client (%s, process %d) was disconnected: %s", p->name, (int)p->cred.pid, reason);
}
