/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb `truncate`.  The store gives the table new tablets, which takes the
 * same time whatever the size.  The tree then loses the cells:
 *	1 the node of each cell ends, so that the name finds another node, bytes that
 *	  are staged through open descriptors are discarded, and a read of a version
 *	  returns ESTALE.  A removal copies the bytes of an open version; here that
 *	  may be all bytes of the table
 *	2 made directories are removed, except those that hold scratch
 *	3 the kernel drops the names of rows, and its attributes and pages
 * So the time of a truncation grows with what the kernel has cached of the table.
 *
 * A cell that another thread stores between the truncation and step 1 stays stored,
 * and is found by name.
 */
#include "fs/node/admin.h"

#include "fs/base/dir_time.h"
#include "fs/base/extra.h"
#include "engine/base/name.h"
#include "fs/base/node_ops.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"

#include <errno.h>
#include <stdlib.h>

/* Returns true if n is a made directory below the table (arg), and has no entries of its own. */
static bool is_made(void *arg, const struct node *n)
{
	return !node_is(n, KIND_SCRATCH) && n != arg && node_above(n, NODE_TABLE) == arg &&
		!extra_any_view_locked((struct node *)(uintptr_t)n);
}

/* Parts of cells' names, then their families, then rows. */
static void drop_made(struct node *table)
{
	for (unsigned depth = 0; depth < 3; depth++)
		extra_end_each(is_made, table);
}

/* Drops the kernel's entry of a row, or of the first part of a row's name.  Everything below it is dropped with it. */
static void drop_row_entry(void *arg, struct node *n)
{
	struct changes *c = arg;
	struct buf name = {0};

	if (n->kind == NODE_ROW_PART && !memchr(n->key, '/', n->key_n))
		changes_entry_locked(c, n->parent, node_key(n));
	if (n->kind == NODE_ROW && name_encode(NAME_ROW, node_key(n), 0, &name) == 0 && !memchr(name.p, '/', name.n))
		changes_entry_locked(c, n->parent, buf_bytes(&name));
	if (n->kind == NODE_TABLE || n->kind == NODE_LATEST)
		changes_listing_locked(c, n);
	buf_fini(&name);
}

int admin_truncate(struct node *n, struct tfs_table *t, struct changes *c)
{
	struct node *table = node_table(n);
	char *why = NULL;
	int err = tfs_table_truncate(t, &why);

	if (err && why)
		refuse(err, n, NULL, "%s", why);
	free(why);
	if (err == -EPERM || err == -EROFS || err == -EACCES || err == -EBUSY || err == -ENOENT)
		return err;
	/* After another error it is unknown whether the store has truncated the table. */
	atomic_fetch_add(&fs.changes, 1);
	table_new_epoch(table);
	ofile_end_table(table, NULL, NULL);
	drop_made(table);
	node_each_of_table(table, false, drop_row_entry, c);
	c->entries_first = true; /* no process holds a directory's lock during a verb */
	dir_time_raise_table(table);
	changes_table(c, table);
	return err;
}
