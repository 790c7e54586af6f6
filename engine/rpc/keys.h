/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a network (doc/formats), which decide who may use a store over
 * TCP.  A file of keys has a line for each key:
 *
 *	NAME ROLE SECRET [squash=root|all] [anon_uid=N] [anon_gid=N] [tables=A,B]
 *
 * A server accepts all keys of its file, a client uses the first one of its own.  A secret
 * has 32 random bytes, so it cannot be guessed from what was sent.
 *
 * A set of keys is counted and does not change.  Threads: any.
 */
#ifndef TFS_RPC_KEYS_H
#define TFS_RPC_KEYS_H

#include "engine/base/bytes.h"

#define KEY_NAME_MAX 64u
#define KEY_SECRET 32u
#define KEY_TABLES_MAX 64u
#define KEYS_MAX 4096u
#define KEYS_FILE_MAX (1u << 20)
#define KEY_NOBODY 65534u /* the default of anon_uid and anon_gid */

enum key_role {
	KEY_MOUNT,  /* a host that vouches for its users */
	KEY_CLUSTER /* another process of the store; may do everything */
};
enum key_squash { SQUASH_NONE, SQUASH_ROOT, SQUASH_ALL };
struct key {
	char name[KEY_NAME_MAX + 1];
	enum key_role role;
	uint8_t secret[KEY_SECRET];
	enum key_squash squash; /* the users whose requests count as the anonymous user's */
	uint32_t anon_uid, anon_gid;
	char (*tables)[TFS_NAME_MAX + 1]; /* the only tables that it may use */
	unsigned table_count;             /* 0: all tables */
};
/* Returns true if both keys give the same rights to the same peers. */
bool key_same(const struct key *a, const struct key *b);

/* Returns true if the key names the table, or names none. */
bool key_has_table(const struct key *k, const char *table);

struct keys;
/* Parses the text of a file.  -EINVAL with *line and a static *reason. */
int keys_parse(struct tfs_bytes text, struct keys **out, unsigned *line, const char **reason) TFS_MUST;
/*
 * Reads a file that belongs to this user and that nobody else may read or write.  It may have no key.  *ends, if not NULL,
 * is set if the last line is whole.  Returns -EACCES if others may read the file or it belongs to another user, -EINVAL if
 * it is not a file of keys.  After an error *why is one line, which the caller frees.
 */
int keys_load(const char *path, struct keys **out, bool *ends, char **why) TFS_MUST;
struct keys *keys_get(struct keys *k);
void keys_put(struct keys *k); /* NULL is allowed */
unsigned keys_count(const struct keys *k);
/* In the order of the file. */
const struct key *keys_at(const struct keys *k, unsigned i);
/* NULL: none has this name. */
const struct key *keys_find(const struct keys *k, struct tfs_bytes name);

/* Appends the line of a key with a new random secret.  options: "" or its options. */
int keys_new_line(const char *name, const char *role, const char *options, struct buf *out) TFS_MUST;
/*
 * Writes a new file of keys, which a crash leaves whole or not at all.  One that exists stays.  *why: one line; the caller
 * frees it.  Steps: 1 write path.new, 2 sync it, 3 link it to path, 4 unlink path.new, 5 sync the directory.
 */
int keys_write_new(const char *path, struct tfs_bytes text, char **why) TFS_MUST;

#endif
