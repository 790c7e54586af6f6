/* SPDX-License-Identifier: Apache-2.0 */
/* By inode number, which is a hash of the directory's key, because the kernel may forget the node. */
#include "fs/node/dirtime.h"

#include "fs/base/cache.h"

#define TIMES_BYTES (64u << 20)

static struct cache times; /* the stamp is the time */

void dirtime_init(void)
{
	cache_init(&times, TIMES_BYTES);
}

void dirtime_fini(void)
{
	cache_fini(&times);
}

void dirtime_set(const struct node *dir, int64_t us)
{
	if (node_is(dir, KIND_TIMED) && node_is_latest(dir))
		cache_put(&times, dir->ino, (uint64_t)us, NULL, 0);
}

int64_t dirtime_get(const struct node *dir)
{
	uint64_t us = 0;

	(void)cache_get(&times, dir->ino, &us, NULL);
	return (int64_t)us;
}

void dirtime_forget(const struct node *dir)
{
	cache_remove(&times, dir->ino);
}
