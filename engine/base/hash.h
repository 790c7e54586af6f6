/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes for tables in memory, and random bytes.  A table over keys that users choose
 * must use hash_private, or users choose keys with one hash and so make long chains.
 * hash64 (bytes.h) is for what is stored or compared between processes.
 * Threads: any.
 */
#ifndef TFS_BASE_HASH_H
#define TFS_BASE_HASH_H

#include "engine/base/bytes.h"

/* Fills p with n random bytes.  Returns 0 or -errno. */
int random_bytes(void *p, size_t n) TFS_MUST;
/* The hash of `with` and s by a random key of this process (siphash.h).  Must not be stored or sent. */
uint64_t hash_private(uint64_t with, struct tfs_bytes s);

#endif
