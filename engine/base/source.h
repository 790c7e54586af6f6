/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOURCE: the words by which users name a store (tabletfs(1), tabletctl(1), libtabletfs(3)).
 *
 *	DATADIR                         a data directory
 *	unix:DATADIR                    the process that serves the directory
 *	[USER@]HOST:DATADIR             the process that serves it at another host, over ssh
 *	tls://HOST:PORT[,HOST:PORT]     servers, over TLS
 *	tcp://HOST:PORT[,HOST:PORT]     servers, over TCP without protection
 *	zk://HOST:PORT[,HOST:PORT]/CLUSTER/DIR
 *	                                a cluster: ZooKeeper's servers, the cluster's name there, and
 *	                                its directory, as its own programs name it
 *
 * A text with a slash before its first colon is a directory.  A numeric IPv6 address has
 * brackets.  Neither USER nor HOST begins with "-", or has characters that mean something to
 * a shell: ssh passes both to commands of its settings.  The mount point of a tabletfs stands
 * for the source of the mount.
 *
 * Threads: any.
 */
#ifndef TFS_BASE_SOURCE_H
#define TFS_BASE_SOURCE_H

#include "engine/base/bytes.h"

#define SOURCE_MAX 4095u                                         /* bytes of a text */
#define SOURCE_ADDRESSES_MAX 16u                                 /* the most addresses of a tls:, tcp: or zk: source */
#define SOURCE_CLUSTER_FORM "zk://HOST:PORT[,HOST:PORT]/CLUSTER" /* the form of a cluster's text in usages, without the directory */

enum source_kind { SOURCE_DIR, SOURCE_UNIX, SOURCE_SSH, SOURCE_TLS, SOURCE_TCP, SOURCE_CLUSTER };

struct source_address {
	char *host, *port; /* the host's name or numeric address, without brackets, and a port from 1 to 65535 */
};
struct store_source {
	enum source_kind kind;
	char *dir;  /* the data directory of DIR, UNIX, CLUSTER and, at the host, SSH, where "." is the home; else NULL */
	char *host; /* SSH: [USER@]HOST, as ssh takes it; CLUSTER: its name; else NULL */
	struct source_address *addresses; /* TLS, TCP, CLUSTER */
	unsigned address_count;
};
/* Returns true for the text of a cluster, with or without its directory. */
bool store_source_is_cluster(const char *text);
/* -EINVAL: the text names no source.  After an error *why is one line, or NULL; the caller frees it. */
int store_source_parse(const char *text, struct store_source *out, char **why) TFS_MUST;
/*
 * Parses a source, as store_source_parse does.  If the text is the mount point of a tabletfs,
 * *out is the source of the mount, which is never a DIR.  The source is read from the mount
 * table, where any user can write it.  So the mount must be root's or the caller's, and over ssh
 * the caller's: -EPERM.
 */
int store_source_find(const char *text, struct store_source *out, char **why) TFS_MUST;
void store_source_fini(struct store_source *s);
/* The text of s, with the absolute path of a directory of this host.  The caller frees it.  NULL: out of memory. */
char *store_source_text(const struct store_source *s);
/* HOST:PORT[,HOST:PORT].  The caller frees it.  NULL: out of memory. */
char *store_source_hosts(const struct store_source *s);
/* Copies s, with the absolute path of a directory of this host. */
int store_source_copy(const struct store_source *s, struct store_source *out) TFS_MUST;
/* Returns true if another process serves the source: it is never opened by the caller itself. */
static inline bool store_source_is_served(const struct store_source *s)
{
	return s->kind != SOURCE_DIR;
}
/* The data directory of this host, NULL if there is none. */
static inline const char *store_source_directory(const struct store_source *s)
{
	return s->kind == SOURCE_DIR || s->kind == SOURCE_UNIX ? s->dir : NULL;
}

#endif
