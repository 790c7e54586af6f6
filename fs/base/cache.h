/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small values that a directory listing has just scanned, kept for the READs
 * that tend to follow it.  A value is handed out once: after that the
 * kernel has it in its own cache.  Bounded: the oldest go first.
 * Threads: any; leaf lock (RANK_FS_NOTIFY).
 */
#ifndef TFS_FS_BASE_CACHE_H
#define TFS_FS_BASE_CACHE_H

#include "fs/base/fs.h"

#define CACHE_VALUE_MAX 8192
#define CACHE_BYTES (8u << 20)

int cache_init(void) TFS_MUST;
void cache_fini(void);
/* Copies value, which was read while fs.changes was `changes`. */
void cache_put(const struct node *n, const void *value, size_t size, uint64_t changes);
/* Takes the whole value out into buf (CACHE_VALUE_MAX bytes); false: not here. */
bool cache_take(const struct node *n, void *buf, size_t *size);

#endif
