/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that all of fs shares: locks, caches, open tables, the clock.
 */
#include "fs/base/fs.h"

#include "engine/base/hash.h"

#include <time.h>

#define ROW_LOCKS 256

struct fs fs;
static void (*before_waiting)(void);
static struct mutex row_locks[ROW_LOCKS];

void fs_init(void)
{
	cache_init(&fs.values, 8u << 20);
	cache_init(&fs.control_texts, 4u << 20);
	cache_init(&fs.dir_times, 64u << 20);
	cache_init(&fs.view_ends, 1u << 20);
	mutex_init(&fs.schema_lock, RANK_FS_SCHEMA);
	for (int i = 0; i < ROW_LOCKS; i++)
		mutex_init(&row_locks[i], RANK_FS_ROW);
}

void fs_fini(void)
{
	for (int i = 0; i < ROW_LOCKS; i++)
		mutex_fini(&row_locks[i]);
	mutex_fini(&fs.schema_lock);
	cache_fini(&fs.view_ends);
	cache_fini(&fs.dir_times);
	cache_fini(&fs.control_texts);
	cache_fini(&fs.values);
}

struct mutex *fs_row_lock(const struct node *row)
{
	return &row_locks[hash_private(0, node_key(row)) % ROW_LOCKS];
}

static _Thread_local bool is_crowded;

void fs_set_crowded(bool crowded)
{
	is_crowded = crowded;
}

bool fs_is_crowded(void)
{
	return is_crowded;
}

void fs_before_waiting(void)
{
	if (before_waiting)
		before_waiting();
}

void fs_set_before_waiting(void (*fn)(void))
{
	before_waiting = fn;
}

int64_t fs_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

uid_t fs_uid_across(uid_t id)
{
	return id == fs.uid ? fs.here_uid : id == fs.here_uid ? fs.uid : id;
}

gid_t fs_gid_across(gid_t id)
{
	return id == fs.gid ? fs.here_gid : id == fs.here_gid ? fs.gid : id;
}

void fs_owner_here(struct stat *st)
{
	st->st_uid = fs_uid_across(st->st_uid);
	st->st_gid = fs_gid_across(st->st_gid);
}

struct tfs_table *node_store_table(struct node *n)
{
	return node_table(n)->dir->table;
}

void table_new_epoch(struct node *table)
{
	if (atomic_fetch_add(&table->dir->epoch, 1) == UINT32_MAX)
		atomic_fetch_add(&table->dir->epoch, 1);
}

uint32_t table_epoch(struct node *n)
{
	return node_table(n)->dir->epoch;
}

bool node_is_latest(const struct node *dir)
{
	const struct node *view = node_above(dir, NODE_VIEW);

	if (view)
		return view->key[view->key_n - 1] == 't'; /* .latest, not .rows */
	return fs.latest || node_above(dir, NODE_LATEST);
}

void node_opened(struct node *n, bool open)
{
	struct node *view = node_above(n, NODE_VIEW);

	if (view)
		atomic_fetch_add(&view->dir->opens, open ? 1u : UINT32_MAX);
}
