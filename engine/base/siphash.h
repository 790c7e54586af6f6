/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson, Bernstein): a keyed hash with 64 bits.  Without the key a user
 * cannot choose inputs with equal hashes, even after many hashes were seen.  Threads: any.
 */
#ifndef TFS_BASE_SIPHASH_H
#define TFS_BASE_SIPHASH_H

#include "engine/base/bytes.h"

#define SIPHASH_KEY_BYTES 16u
struct siphash_key {
	uint64_t k[2];
};
/* The key of these SIPHASH_KEY_BYTES bytes. */
struct siphash_key siphash_key_of(const uint8_t *bytes);
/* The hash of the words, as 8 little-endian bytes each, followed by s. */
uint64_t siphash(const struct siphash_key *key, const uint64_t *words, unsigned count, struct tfs_bytes s);

#endif
