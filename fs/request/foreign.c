/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel keeps names, attributes, listings and pages until the daemon invalidates
 * them.  A change by another user of the store does not pass through this mount, so
 * tfs_watch reports the row and the family, and this file invalidates the kernel's
 * copies of them, and again a little later: an answer with the old state may be on
 * its way to the kernel.
 *
 * The pages of a version stay, unless the next open finds another size or time of commit.
 *
 * While changes are not reported, nothing is kept (fs.may_keep).
 */
#include "fs/request/foreign.h"

#include "engine/base/task.h"
#include "fs/base/dir_time.h"
#include "fs/base/notify.h"
#include "fs/base/permit.h"
#include "fs/file/cell.h"
#include "fs/file/file.h"
#include "fs/node/kinds.h"
#include "fs/node/schema/schema_edit.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_US 200000u
#define AGAIN_MOST 256u

static struct {
	struct task task; /* first */
	struct task_pool *pool;
	struct mutex lock; /* guards the next members */
	struct tfs_change changes[AGAIN_MOST];
	unsigned count;
	bool all; /* anything may have changed, or there were more changes than AGAIN_MOST */
} again;

/* ---- everything ---- */

static void note_node(void *arg, struct node *n)
{
	if (node_is_dir(n))
		n->epoch++;
	if (n->dir && node_is(n, KIND_DIR) && n->dir->table)
		table_new_epoch(n);
	changes_inode_locked(arg, n);
}

/* Notes the nodes of tables and snapshots, but not the nodes in them. */
static void note_table_node(void *arg, struct node *n)
{
	if (node_is(n, KIND_IN_VIEW | KIND_CELL | KIND_SCRATCH))
		return;
	if (node_is_dir(n))
		n->epoch++;
	changes_inode_locked(arg, n);
}

static void note_schema(struct node *table, const struct tfs_schema *before, struct changes *c)
{
	const struct tfs_schema *now;
	bool renamed = true;

	fs_schema_changed(table, before, c);
	if (tfs_schema_get(node_store_table(table), &now) == 0) {
		renamed = strcmp(now->name, before->name) != 0;
		tfs_schema_put(now);
	}
	if (renamed)
		changes_entry(c, node_root(), tfs_str(before->name));
}

static void note_table(struct node *table, struct changes *c)
{
	const struct tfs_schema *now;
	bool names = false;

	if (tfs_schema_get(node_store_table(table), &now) == 0) {
		names = permit_search_lost(NULL, now);
		tfs_schema_put(now);
	}
	table_new_epoch(table);
	dir_time_raise_table(table);
	changes_access(c, table, names);
}

/* ---- rows and families ---- */

/* Directories that were changed, counted: rows and families. */
struct touched {
	struct node **v;
	unsigned count;
	struct changes *c;
};

static void touch_locked(struct touched *t, struct node *n)
{
	if (n) {
		n->refs++;
		t->v[t->count++] = n;
	}
}

static void note_below(void *arg, struct node *n)
{
	struct changes *c = arg;

	if (node_is_dir(n)) {
		n->epoch++;
		changes_inode_locked(c, n);
	} else if (n->kind == NODE_VERSION) {
		n->epoch = 0;
		changes_attributes_locked(c, n);
	} else if (n->kind == NODE_PLAIN) {
		plain_changed_locked(c, n);
	}
}

/* Takes up to two places of t->v for each of the two views. */
static void touch_view_locked(struct touched *t, struct node *view, const struct tfs_change *x)
{
	char key[FAMILY_KEY_BYTES];
	struct node *row, *family = NULL;

	row_changed_locked(t->c, view, x->row);
	row = node_find_locked(view, NODE_ROW, x->row, 0);
	if (!row)
		return;
	changes_inode_locked(t->c, row);
	row->epoch++;
	touch_locked(t, row);
	fs_schema_family_key(x->family, key);
	if (x->family)
		family = node_find_locked(row, NODE_FAMILY, tfs_str(key), 0);
	touch_locked(t, family);
	if (family || !x->family)
		node_each_below_locked(family ? family : row, note_below, t->c);
}

static void note_row(struct touched *t, struct node *table, const struct tfs_change *x)
{
	struct node *other;

	mutex_lock(tree_mutex());
	touch_view_locked(t, table, x);
	other = node_in_other_view_locked(table);
	if (other)
		touch_view_locked(t, other, x);
	mutex_unlock(tree_mutex());
	dir_time_raise(table, t->c);
}

static void raise_times(struct touched *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		dir_time_raise(t->v[i], t->c);
		node_put(t->v[i]);
	}
	free(t->v);
}

static struct node *table_node(uint32_t id)
{
	uint8_t key[TABLE_KEY_BYTES];

	put_be32(key, id);
	return id ? node_find(node_root(), NODE_TABLE, tfs_bytes_of(key, sizeof(key)), 0) : NULL;
}

static void note_changes(const struct tfs_change *v, unsigned count, struct changes *c)
{
	struct touched t = {.c = c, .v = calloc(4 * (size_t)count, sizeof(struct node *))};
	struct node *table;

	for (unsigned i = 0; i < count; i++) {
		const struct tfs_change *x = &v[i];

		table = table_node(x->table);
		if (x->what == TFS_CHANGED_TABLES)
			node_each(note_table_node, c);
		else if (x->what == TFS_CHANGED_ALL || x->what == TFS_CHANGES_UNKNOWN)
			node_each(note_node, c);
		else if (table && x->what == TFS_CHANGED_SCHEMA && x->before)
			note_schema(table, x->before, c);
		else if (table && x->what == TFS_CHANGED_CELLS && x->row.n && t.v)
			note_row(&t, table, x);
		else if (table)
			note_table(table, c);
		node_put(table);
	}
	raise_times(&t);
}

/* ---- again ---- */

static void plan_again(const struct tfs_change *v, unsigned count)
{
	struct buf row;

	mutex_lock(&again.lock);
	for (unsigned i = 0; i < count && !again.all; i++) {
		struct tfs_change *x = &again.changes[again.count];

		row = (struct buf){0};
		if (v[i].what == TFS_CHANGED_TABLES)
			continue;
		again.all = v[i].what == TFS_CHANGED_ALL || v[i].what == TFS_CHANGES_UNKNOWN || again.count == AGAIN_MOST ||
			buf_append_bytes(&row, v[i].row);
		if (again.all)
			break;
		*x = v[i];
		x->before = NULL;
		x->row = buf_bytes(&row);
		again.count++;
	}
	mutex_unlock(&again.lock);
	task_queue_after(&again.task, AGAIN_US);
}

static void on_again(struct task *task)
{
	static const struct tfs_change anything = {.what = TFS_CHANGED_ALL};
	static struct tfs_change v[AGAIN_MOST];
	struct changes c = {0};
	unsigned count;
	bool all;

	mutex_lock(&again.lock);
	count = again.count;
	memcpy(v, again.changes, count * sizeof(*v));
	all = again.all;
	again.count = 0;
	again.all = false;
	mutex_unlock(&again.lock);
	if (all)
		note_changes(&anything, 1, &c);
	else
		note_changes(v, count, &c);
	changes_send(&c);
	for (unsigned i = 0; i < count; i++)
		free((void *)(uintptr_t)v[i].row.p);
}

/* Called by the thread of tfs_watch. */
static void on_changes(void *arg, const struct tfs_change *v, unsigned count)
{
	struct changes c = {0};

	for (unsigned i = 0; i < count; i++) {
		if (v[i].what == TFS_CHANGES_UNKNOWN)
			fs.may_keep = false;
		if (v[i].what == TFS_CHANGED_ALL)
			fs.may_keep = true;
	}
	atomic_fetch_add(&fs.changes, 1);
	note_changes(v, count, &c);
	changes_send_now(&c);
	plan_again(v, count);
}

int foreign_start(void)
{
	int err = task_pool_new("changes", 1, &again.pool);

	if (err)
		return err;
	mutex_init(&again.lock, RANK_FS_NOTIFY);
	task_init(&again.task, again.pool, on_again);
	err = tfs_watch(fs.store, on_changes, NULL);
	if (err)
		foreign_stop();
	return err;
}

void foreign_stop(void)
{
	if (!again.pool)
		return;
	tfs_unwatch(fs.store);
	task_cancel(&again.task);
	task_pool_free(again.pool);
	mutex_fini(&again.lock);
	again.pool = NULL;
	for (unsigned i = 0; i < again.count; i++)
		free((void *)(uintptr_t)again.changes[i].row.p);
	again.count = 0;
}
