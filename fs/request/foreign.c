/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel keeps names, attributes, listings and pages until the daemon invalidates
 * them.  A change by another user of the store does not pass through this mount, so
 * everything of its table is invalidated, and again a second later: an answer with the old
 * state may be on its way to the kernel.
 */
#include "fs/request/foreign.h"

#include "fs/base/dir_time.h"
#include "fs/base/notify.h"
#include "fs/node/kinds.h"
#include "fs/node/schema_edit.h"

#include <string.h>

static void note_node(void *arg, struct node *n)
{
	if (node_is_dir(n))
		n->epoch++;
	if (n->dir && node_is(n, KIND_DIR) && n->dir->table)
		table_new_epoch(n);
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

void foreign_changed(void *arg, uint32_t id, const struct tfs_schema *before)
{
	struct changes c = {0};
	uint8_t key[TABLE_KEY_BYTES];
	struct node *table;

	atomic_fetch_add(&fs.changes, 1);
	put_be32(key, id);
	table = id ? node_find(node_root(), NODE_TABLE, tfs_bytes_of(key, sizeof(key)), 0) : NULL;
	if (!id) {
		node_each(note_node, &c);
	} else if (table && before) {
		note_schema(table, before, &c);
	} else if (table) {
		table_new_epoch(table);
		dir_time_raise_table(table);
		changes_table(&c, table);
		notify_table_later(table);
	}
	changes_send(&c);
	node_put(table);
}
