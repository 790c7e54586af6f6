/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keyed hashes, and random bytes (hash.h).  The key is drawn at the first use,
 * not at the start of the process, so that the simulation (t/sim) can set its
 * seed before.
 */
#include "engine/base/hash.h"

#include "engine/base/siphash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

int random_bytes(void *p, size_t n)
{
	uint8_t *at = p;

	while (n) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		}
	}
	return 0;
}

static struct siphash_key private_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_private_key(void)
{
	if (random_bytes(&private_key, sizeof(private_key)))
		abort(); /* a kernel without getrandom(2) */
}

uint64_t hash_private(uint64_t with, struct tfs_bytes s)
{
	pthread_once(&once, make_private_key);
	return siphash(&private_key, &with, 1, s);
}
