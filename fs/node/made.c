/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An empty directory is an extra entry of its parent, in the table's own view
 * (node_home_locked); .latest lists and finds it there.  It pins its node, so
 * it stays when the kernel forgets it.
 *
 * Made directories are known to be empty: the first cell that is committed in
 * one drops the entry.  A directory from which a cell was removed may hold
 * others.  To ask the store at each removal would read all tombstones of the
 * row each time, so it is entered as left, and looked at only when LEFT_MAX
 * others have come after it: then it is dropped, or known to be empty.
 * Commits, removals and that look hold the row's lock, so no entry is dropped
 * for a cell that has been removed.
 *
 * A row that holds both cells and an empty family keeps its entry, because
 * its cells may expire or be dropped, which removes no entry.
 *
 * Memory: some 250 bytes and the key for each, MADE_BYTES together, of which
 * at most LEFT_MAX entries are directories that hold cells and nothing else.
 */
#include "fs/node/made.h"

#include "engine/base/msg.h"
#include "fs/file/cell.h"
#include "fs/node/control.h"
#include "fs/node/dir.h"
#include "fs/node/dirtime.h"
#include "fs/file/file.h"
#include "fs/base/name.h"
#include "fs/base/reply.h"

#include <errno.h>

#define LEFT_MAX 1024
/* Directories that hold scratch are passed over; so many of them, at most, by one request. */
#define TRIES 16

/* Has the directory entries of its own, in either view? */
static bool holds_extras_locked(struct node *home)
{
	struct node *twin = node_twin_locked(home);

	return node_extra_any_locked(home) || (twin && node_extra_any_locked(twin));
}

static void drop_locked(struct node *n)
{
	n->refs++;
	node_extra_drop_locked(n);
	node_put_locked(n);
}

/* A directory that holds cells needs no entry, but one that has entries of its own keeps it. */
static void holds_cells_locked(struct node *home)
{
	if (!(home->flags & NODE_EXTRA))
		return;
	if (holds_extras_locked(home))
		node_extra_is_locked(home, EXTRA_HOLDS);
	else
		drop_locked(home);
}

int made_add(struct node *parent, enum node_kind kind, struct slice key, struct node **out)
{
	struct node *home = node_home_get(parent), *n = home ? node_get(home, kind, key, 0) : NULL;
	int r = n ? 0 : -ENOMEM;

	if (r == 0) {
		mutex_lock(tree_mutex());
		r = n->flags & NODE_EXTRA ? -EEXIST : kind == NODE_FAMILY ? node_extra_add_locked(home, EXTRA_LEFT) : 0;
		if (r == 0)
			r = node_extra_add_locked(n, EXTRA_MADE);
		mutex_unlock(tree_mutex());
	}
	if (r == 0) {
		*out = node_get(parent, kind, key, 0);
		if (!*out) {
			made_take_back(n);
			r = -ENOMEM;
		}
	}
	node_put(n);
	node_put(home);
	return r;
}

void made_take_back(struct node *n)
{
	struct node *home;

	mutex_lock(tree_mutex());
	home = node_home_locked(n);
	if (home)
		drop_locked(home);
	mutex_unlock(tree_mutex());
}

bool made_is(struct node *parent, enum node_kind kind, struct slice key)
{
	struct node *home, *n;
	bool is;

	mutex_lock(tree_mutex());
	home = node_home_locked(parent);
	n = home ? node_find_locked(home, kind, key, 0) : NULL;
	is = n && n->flags & NODE_EXTRA;
	mutex_unlock(tree_mutex());
	return is;
}

/* The kernel is to ask again for the directory and the listing that it is in. */
static void forget_entry(struct node *n, struct changes *c)
{
	char family[TFS_NAME_MAX + 1];
	struct buf path = {0};
	struct slice name = {0};
	struct node *dir = n->parent;
	const uint8_t *slash;

	if (n->kind == NODE_FAMILY) {
		if (control_name(n, family))
			name = slice_str(family);
	} else if (n->kind == NODE_ROW) {
		if (name_encode(NAME_ROW, node_key(n), 0, &path) == 0)
			name = buf_slice(&path);
	} else {
		name = node_key(n);
	}
	slash = name.n ? memrchr(name.p, '/', name.n) : NULL;
	mutex_lock(tree_mutex());
	if (slash) {
		dir = node_find_locked(dir, n->kind == NODE_CELL_PART ? NODE_CELL_PART : NODE_ROW_PART,
			slice_of(name.p, (size_t)(slash - name.p)), 0);
		name = slice_of(slash + 1, name.n - (size_t)(slash - name.p) - 1);
	}
	if (dir && name.n) {
		changes_entry_locked(c, dir, name);
		changes_listing_locked(c, dir);
	}
	mutex_unlock(tree_mutex());
	buf_fini(&path);
}

int made_removed(struct node *n, struct changes *c)
{
	struct node *home, *twin;
	int r = 0;

	mutex_lock(tree_mutex());
	twin = node_twin_locked(n);
	if (node_extra_any_locked(n) || (twin && node_extra_any_locked(twin))) {
		twin = NULL;
		r = -ENOTEMPTY;
	} else {
		if (twin)
			twin->refs++;
		home = node_home_locked(n);
		if (home)
			drop_locked(home);
		node_end_locked(n);
	}
	mutex_unlock(tree_mutex());
	if (twin) {
		dirtime_forget(twin);
		forget_entry(twin, c);
	}
	node_put(twin);
	return r;
}

static void drop_row_locked(struct node *row)
{
	struct node *family = node_extra_next_locked(row, 1, NULL), *next;

	row->refs++;
	for (; family; family = next) {
		struct slice key = node_key(family);

		next = node_extra_next_locked(row, 1, &key);
		if (!holds_extras_locked(family))
			drop_locked(family);
	}
	if (!holds_extras_locked(row))
		node_extra_drop_locked(row);
	node_put_locked(row);
}

void made_drop_rows(struct node *table, struct slice prefix, struct changes *c)
{
	struct node *row = NULL, *twin;
	struct buf at = {0};
	struct slice key = prefix;
	int r = 0;

	for (bool first = true; r == 0; first = false) {
		mutex_lock(tree_mutex());
		row = first ? node_extra_find_locked(table, 1, key) : NULL;
		row = row ? row : node_extra_next_locked(table, 1, &key);
		if (row && !slice_has_prefix(node_key(row), prefix))
			row = NULL;
		if (row) {
			row->refs++;
			r = buf_set(&at, row->key, row->key_n);
			key = buf_slice(&at);
			drop_row_locked(row);
		}
		twin = row ? node_twin_locked(row) : NULL;
		if (twin)
			twin->refs++;
		mutex_unlock(tree_mutex());
		if (!row)
			break;
		forget_entry(row, c);
		if (twin)
			forget_entry(twin, c);
		node_put(twin);
		node_put(row);
	}
	buf_fini(&at);
}

void made_cell_arrived(struct node *family_node)
{
	struct node *home, *row;

	mutex_lock(tree_mutex());
	home = node_home_locked(family_node);
	row = home ? home->parent : node_home_locked(family_node->parent);
	if (row)
		row->refs++;
	if (home)
		drop_locked(home);
	if (row) {
		holds_cells_locked(row);
		node_put_locked(row);
	}
	mutex_unlock(tree_mutex());
}

/* The directories of a split name. */
static void parts_left(struct node *base, enum node_kind kind, struct slice path)
{
	for (size_t i = 1; i < path.n; i++) {
		struct node *part = path.p[i] == '/' ? node_get(base, kind, slice_of(path.p, i), 0) : NULL;

		if (!part)
			continue;
		mutex_lock(tree_mutex());
		(void)!node_extra_add_locked(part, EXTRA_LEFT);
		mutex_unlock(tree_mutex());
		node_put(part);
	}
}

int made_has_scratch_locked(struct node *home)
{
	int r = node_extra_add_locked(home, EXTRA_LEFT);

	return r || home->kind != NODE_FAMILY ? r : node_extra_add_locked(home->parent, EXTRA_LEFT);
}

void made_cell_left(struct node *family_node, struct slice qualifier, bool version, int64_t ts)
{
	struct buf cell = {0}, name = {0};
	struct node *home;

	/* A directory that was removed meanwhile stays removed. */
	home = node_lives(family_node) && node_lives(family_node->parent) ? family_home(family_node, true) : NULL;
	if (!home)
		return;
	mutex_lock(tree_mutex());
	if (node_lives(home) && node_lives(home->parent))
		(void)!made_has_scratch_locked(home);
	mutex_unlock(tree_mutex());
	if (name_encode(version ? NAME_VERSION : NAME_NEWEST, qualifier, ts, &cell) == 0 &&
		name_encode(NAME_ROW, node_key(home->parent), 0, &name) == 0) {
		parts_left(home->parent->parent, NODE_ROW_PART, buf_slice(&name));
		parts_left(home, NODE_CELL_PART, buf_slice(&cell));
	}
	(void)control_dropped(home);
	node_put(home);
	buf_fini(&cell);
	buf_fini(&name);
}

/* What the store has of a directory that cells have left. */
static bool holds_cells(struct node *n)
{
	bool exists = false;

	if (n->kind == NODE_ROW)
		return tfs_row_exists(node_store_table(n), bytes_of(node_key(n)), NULL, &exists) == 0 && exists;
	if (n->kind == NODE_FAMILY)
		return tfs_row_exists(node_store_table(n), bytes_of(node_key(n->parent)), node_name(n), &exists) == 0 && exists;
	return dir_part_exists(n->parent, node_key(n)) == 0;
}

/* The oldest empty directory that holds no entries; those that do become the youngest. */
static struct node *oldest_made_locked(void)
{
	struct node *n;

	for (int i = 0; i < TRIES && (n = node_extra_oldest_locked(EXTRA_MADE)) != NULL; i++) {
		if (!holds_extras_locked(n))
			return n;
		node_extra_is_locked(n, EXTRA_MADE);
	}
	return NULL;
}

static void look_at(struct node *n)
{
	struct mutex *row = n->kind == NODE_ROW || n->kind == NODE_FAMILY ? ofile_row_lock(n) : NULL;
	bool holds;

	if (row)
		mutex_lock(row);
	holds = holds_cells(n);
	mutex_lock(tree_mutex());
	if (n->flags & NODE_EXTRA) {
		if (holds)
			holds_cells_locked(n);
		else
			node_extra_is_locked(n, EXTRA_MADE);
	}
	mutex_unlock(tree_mutex());
	if (row)
		mutex_unlock(row);
}

static void drop_oldest(struct node *n, struct changes *c)
{
	char path[512];

	if (made_removed(n, c) != 0)
		return;
	forget_entry(n, c);
	msg_notice("%s: empty directory dropped: more than %u MiB of them", node_describe(n, NULL, path, sizeof(path)),
		MADE_BYTES >> 20);
}

void made_settle(struct changes *c)
{
	struct node *row;

	/* One whose entries are gone may hold cells only. */
	mutex_lock(tree_mutex());
	row = node_extra_oldest_locked(EXTRA_HOLDS);
	if (row)
		node_extra_is_locked(row, holds_extras_locked(row) ? EXTRA_HOLDS : EXTRA_LEFT);
	mutex_unlock(tree_mutex());
	/* A call adds a row and a family at most, so twice as many are looked at or dropped. */
	for (int i = 0; i < 4; i++) {
		bool left;
		struct node *n = NULL;

		mutex_lock(tree_mutex());
		left = node_extra_count_locked(EXTRA_LEFT) > LEFT_MAX;
		if (left)
			n = node_extra_oldest_locked(EXTRA_LEFT);
		else if (node_extra_bytes_locked() > MADE_BYTES)
			n = oldest_made_locked();
		if (n)
			n->refs++;
		mutex_unlock(tree_mutex());
		if (!n)
			break;
		if (left)
			look_at(n);
		else
			drop_oldest(n, c);
		node_put(n);
	}
}
