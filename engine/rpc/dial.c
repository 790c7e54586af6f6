/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the server of a source, by its kind (dial.h). */
#include "engine/rpc/dial.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/socket.h"
#include "engine/base/stop.h"
#include "engine/rpc/ssh.h"

#include <errno.h>
#include <stdlib.h>

#define CONNECT_US 5000000u  /* the time for one address */
#define GREETING_US 5000000u /* the time for a server's HELLO, if there is another address */

struct dial {
	struct store_source source;
	char *name;
	char *dir;             /* DIR, UNIX: its path without links */
	struct tls *tls;       /* TLS */
	struct ssh *ssh;       /* SSH */
	_Atomic unsigned next; /* the address that is tried first, with TLS and TCP */
};

/* The other end must be root or the owner of the store's file FORMAT. */
static int check_listener(const struct dial *d, int fd, char **why)
{
	struct socket_peer p = {0};
	uid_t owner;
	int err = socket_get_peer(fd, &p);

	if (!err)
		err = socket_file_owner(d->dir, "FORMAT", &owner);
	if (!err && p.uid != 0 && p.uid != owner) {
		err = -EPERM;
		why_set(why, "%s/" SOCKET_NAME ": user %u listens there, who is neither root nor the owner of FORMAT", d->dir,
			(unsigned)p.uid);
	}
	socket_peer_fini(&p);
	return err;
}

static int connect_here(struct dial *d, struct dialled *out, char **why)
{
	int fd, err = socket_connect(d->dir, &fd);

	if (err)
		return err;
	err = check_listener(d, fd, why);
	if (err)
		socket_abort(fd);
	else
		out->fd = fd;
	return err;
}

static int connect_network(struct dial *d, struct dialled *out, char **why)
{
	const unsigned first = d->next;
	int err = -EHOSTUNREACH;

	for (unsigned i = 0; i < d->source.address_count && err; i++) {
		const struct source_address *a = &d->source.addresses[(first + i) % d->source.address_count];

		err = socket_connect_tcp(a->host, a->port, stop_wait_left(CONNECT_US), &out->fd);
		if (err)
			why_set(why, "%s: %s:%s: %s", d->name, a->host, a->port, strerror(-err));
	}
	if (!err) { /* after an address that failed */
		free(*why);
		*why = NULL;
	}
	out->tls = d->tls;
	return err;
}

/* Reads the key. */
static int new_tls(struct dial *d, const char *given, char **why)
{
	const char *path = *given ? given : secure_getenv("TABLETFS_KEYS");
	struct keys *keys;
	int err;

	if (!path || !*path) {
		why_set(why, "%s: a key is needed: keys=FILE of tabletfs(1), or the environment variable TABLETFS_KEYS", d->name);
		return -EINVAL;
	}
	err = keys_load(path, &keys, NULL, why);
	if (err)
		return err;
	if (keys_count(keys)) {
		err = tls_client_new(keys, &d->tls);
	} else {
		why_set(why, "%s: it has no key", path);
		err = -EINVAL;
	}
	keys_put(keys);
	return err;
}

int dial_connect(struct dial *d, struct dialled *out, char **why)
{
	switch (d->source.kind) {
	case SOURCE_DIR:
	case SOURCE_UNIX:
		return connect_here(d, out, why);
	case SOURCE_SSH:
		return ssh_connect(d->ssh, &out->fd, why);
	case SOURCE_TLS:
	case SOURCE_TCP:
		return connect_network(d, out, why);
	case SOURCE_CLUSTER:
		break;
	}
	return -EINVAL;
}

bool dial_needs_user(const struct dial *d)
{
	return d->source.kind == SOURCE_TLS || d->source.kind == SOURCE_TCP;
}

bool dial_is_single(const struct dial *d)
{
	return d->ssh != NULL;
}

uint64_t dial_patience_us(const struct dial *d, uint64_t timeout_us)
{
	if (d->source.address_count > 1 && timeout_us > GREETING_US)
		return GREETING_US;
	return d->ssh ? ssh_patience_us(d->ssh, timeout_us) : timeout_us;
}

void dial_greeted(struct dial *d)
{
	if (d->ssh)
		ssh_greeted(d->ssh);
}

void dial_failed(struct dial *d, int err, char **why)
{
	d->next++;
	if (!d->ssh)
		return;
	ssh_failed(d->ssh, why);
	if (err == -EBADMSG || err == -EMSGSIZE)
		why_set(why, "%s: what answers is not tabletctl serve; do the start files of the login print something?", d->name);
}

const char *dial_name(const struct dial *d)
{
	return d->name;
}

void dial_free(struct dial *d)
{
	if (!d)
		return;
	store_source_fini(&d->source);
	tls_free(d->tls);
	ssh_free(d->ssh);
	free(d->name);
	free(d->dir);
	free(d);
}

static const char *ssh_command(const struct dial_options *o)
{
	const char *command = *o->ssh ? o->ssh : secure_getenv("TABLETFS_SSH");

	return command && *command ? command : "ssh";
}

int dial_new(const struct store_source *s, const struct dial_options *o, struct dial **out, char **why)
{
	struct dial *d = calloc(1, sizeof(*d));
	const bool here = store_source_directory(s);
	int err = d ? store_source_copy(s, &d->source) : -ENOMEM;

	if (!err && here) {
		d->dir = file_real(d->source.dir);
		err = d->dir ? 0 : -ENOMEM;
	}
	if (!err && s->kind == SOURCE_SSH)
		err = ssh_new(ssh_command(o), d->source.host, d->source.dir, &d->ssh, why);
	if (!err) {
		d->name = here ? strdup(d->dir) : store_source_text(&d->source);
		err = d->name ? 0 : -ENOMEM;
	}
	if (!err && s->kind == SOURCE_TLS)
		err = new_tls(d, o->keys, why);
	if (err)
		dial_free(d);
	else
		*out = d;
	return err;
}
