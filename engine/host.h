/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the composition root that an embedded store and a server of a cluster share: the data directory,
 * incarnations, and the settings of a server.  Tools and tests call them, too; libtabletfs does not export them.
 *
 * *why: one line after an error, or unchanged; the caller frees it.
 */
#ifndef TFS_HOST_H
#define TFS_HOST_H

#include "engine/base/bytes.h"
#include "engine/client/client.h"
#include "engine/lock/identity.h"
#include "engine/server/server.h"
#include "engine/tabletfs.h"

/* FORMAT: two copies (base/copies.h) of one line (doc/formats), for programs that read a data directory without opening it. */
#define STORE_FORMAT_VERSION 4u
int store_format_encode(unsigned version, struct buf *out) TFS_MUST; /* appends */
/* *whole is set if both copies are good, and for format 1, which had one line without checksum.  -EBADMSG. */
int store_format_decode(struct tfs_bytes file, unsigned *version, bool *whole) TFS_MUST;
/*
 * Reads FORMAT at path.  -EBADMSG damaged; -EPROTO another format; other errors
 * of reading.  An error sets *why to one line with the path; the caller frees it.
 */
int store_format_check(const char *path, bool *whole, char **why) TFS_MUST;

/* Makes the directory and its parts if it is absent or empty.  *whole is false if a copy of FORMAT is damaged. */
int host_prepare(const char *dir, bool create, bool *whole, char **why) TFS_MUST;
int host_rewrite_format(const char *dir) TFS_MUST;

/*
 * An incarnation must not be used twice.  Reads the last one that was given out (0: none) and the version of the file
 * "incarnation" (LOCK_ABSENT: there is none).  -EBADMSG: a log of a later incarnation shows that the file is missing or old.
 */
int host_last_incarnation(const char *dir, struct lock_service *locks, uint64_t *last, uint64_t *version, char **why) TFS_MUST;
/* Takes the next incarnation.  -VERSION_CHANGED: another server has taken it. */
int host_take_incarnation(
	const char *dir, struct lock_service *locks, uint64_t last, uint64_t version, uint64_t *incarnation, char **why) TFS_MUST;
/* The server's options, as the user's options state them. */
struct server_options host_server_options(const char *dir, const struct tfs_options *o);

/* A server in this process, and the part of it that serves other processes. */
struct serving;
struct host {
	char *dir;
	struct server *server;
	struct serving *serving; /* NULL if no other process can use the store */
	struct lock_identity identity;
	uint64_t incarnation;
};
/* The functions of a client of the store in the same process, except `servers` and `close`.  Their arg begins with a struct host. */
struct client_options host_client_options(const struct tfs_options *o);

#endif
