/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random parts of a store: its id and its secret.  Both are in the lock service's file
 * `store`, which is made with the store and never changes.  The secret keeps users from
 * computing the store's hashes, for example inode numbers.  It stays with the programs
 * that read the lock service; others get a key that is derived from it for one purpose.
 *
 * Errors: -ENOENT: there is no such file; -EBADMSG, -EPROTO: it cannot be used; -errno.
 */
#ifndef TFS_LOCK_IDENTITY_H
#define TFS_LOCK_IDENTITY_H

#include "engine/base/siphash.h"
#include "engine/lock/lock.h"
#include "engine/lock/lock_format.h"

#define IDENTITY_FILE "store"

/* Draws a new identity.  -errno: there are no random bytes. */
int identity_draw(struct lock_identity *out) TFS_MUST;
int identity_read(struct lock_service *locks, struct lock_identity *out) TFS_MUST;
/* Reads the file, or makes it.  Of several programs that do this at the same time, all get the same. */
int identity_make(struct lock_service *locks, struct lock_identity *out) TFS_MUST;
/* Derives SIPHASH_KEY_BYTES bytes.  The key of one purpose does not show the secret or another key. */
void identity_key(const struct lock_identity *identity, const char *purpose, uint8_t *key);

#endif
