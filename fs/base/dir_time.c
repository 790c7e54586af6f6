/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modification times of directories in .latest (dir_time.h).  The entry of
 * a directory belongs to its node in .latest.  Its stamp is the time, and its
 * bytes are the moment at which it was noted: a time that a user set holds
 * until a later change of the table.
 */
#include "fs/base/dir_time.h"

#include "fs/base/node_ops.h"

/* Keys of the cache, with the node: the time of one directory, and the time of all directories of a table. */
#define OF_DIR tfs_bytes_of(NULL, 0)
#define OF_TABLE tfs_bytes_of("*", 1)

static atomic_bool watched;
static _Atomic int64_t raised_all_us; /* the cache was full */

void dir_time_watch(void)
{
	if (!watched)
		watched = true;
}

static bool is_full(void)
{
	return fs.dir_times.bytes + 4096 > fs.dir_times.bytes_max;
}

/* The moment at which the entry was noted. */
static int64_t noted_at(const struct node *dir)
{
	struct buf bytes = {0};
	uint64_t unused;
	int64_t us = 0;

	if (cache_get(&fs.dir_times, dir, OF_DIR, &unused, &bytes) && bytes.n == sizeof(us))
		memcpy(&us, bytes.p, sizeof(us));
	buf_fini(&bytes);
	return us;
}

static void note(const struct node *dir, int64_t us, int64_t now_us)
{
	if (is_full())
		raised_all_us = now_us;
	cache_put(&fs.dir_times, dir, OF_DIR, (uint64_t)us, &now_us, sizeof(now_us));
}

/* The time at which something in the whole table was changed; 0: never. */
static int64_t table_time(const struct node *dir)
{
	struct node *table = node_above(dir, NODE_TABLE);
	uint64_t us = 0;

	if (table)
		(void)cache_get(&fs.dir_times, table, OF_TABLE, &us, NULL);
	return (int64_t)us > raised_all_us ? (int64_t)us : raised_all_us;
}

int64_t dir_time_get(const struct node *dir)
{
	int64_t all = table_time(dir);
	uint64_t us = 0;

	if (!cache_get(&fs.dir_times, dir, OF_DIR, &us, NULL) || ((int64_t)us < all && noted_at(dir) < all))
		return all;
	return (int64_t)us;
}

void dir_time_set(const struct node *dir, int64_t us)
{
	note(dir, us, fs_now_us());
}

void dir_time_forget(const struct node *dir)
{
	cache_remove(&fs.dir_times, dir);
}

/* The directory in .latest, counted.  NULL: it is in neither view, or memory is short. */
static struct node *in_latest(struct node *dir)
{
	struct node *parent, *n;

	if (fs.latest || dir->kind == NODE_LATEST || (node_is(dir, KIND_IN_VIEW) && node_is_latest(dir))) {
		node_hold(dir);
		return dir;
	}
	if (dir->kind == NODE_TABLE)
		return node_get(dir, NODE_LATEST, tfs_bytes_of(NULL, 0), 0);
	parent = node_is(dir, KIND_IN_VIEW) ? in_latest(dir->parent) : NULL;
	n = parent ? node_get(parent, (enum node_kind)dir->kind, node_key(dir), 0) : NULL;
	node_put(parent);
	return n;
}

void dir_time_raise(struct node *dir, struct changes *c)
{
	const int64_t now_us = fs_now_us();
	struct node *n;
	int64_t before;

	if ((!watched && !fs.latest) || !node_is(dir, KIND_TIMED))
		return;
	n = in_latest(dir);
	if (!n)
		return;
	before = dir_time_get(n);
	note(n, before < now_us ? now_us : before + 1, now_us);
	changes_inode(c, n);
	node_put(n);
}

void dir_time_raise_table(struct node *table)
{
	if (watched || fs.latest)
		cache_put(&fs.dir_times, table, OF_TABLE, (uint64_t)fs_now_us(), NULL, 0);
}
