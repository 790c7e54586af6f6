/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made directories: rows, families and parts that hold no cell (made.h).  A
 * made directory is an extra entry of its parent, in the table's own view.
 * Listings and look-ups in .latest use the same entry.  The entry pins the
 * node, so it stays when the kernel forgets it.
 *
 * A directory from mkdir is empty until a cell is committed in it, which
 * removes the entry.  A directory from which a cell was removed may contain other
 * cells.  A query of the store at each removal would read all tombstones of the
 * row each time.  Therefore such an entry is EXTRA_UNCHECKED at first, and the
 * store is asked when UNCHECKED_MAX later entries exist.  If the directory has
 * cells, the entry is removed; otherwise it becomes EXTRA_EMPTY.  Commits,
 * removals and that check hold the row's lock, so the check does not see a cell
 * that another thread is removing.
 *
 * A row that contains both cells and an empty family keeps its entry.  If its
 * cells expired or were dropped, nothing would add the entry again.
 *
 * An entry takes about 250 bytes and its key; all entries together take at most
 * MADE_BYTES.  At most UNCHECKED_MAX of them are directories that contain only
 * cells.
 */
#include "fs/node/made.h"

#include "engine/base/msg.h"
#include "fs/base/dir_time.h"
#include "fs/base/extra.h"
#include "engine/base/name.h"
#include "fs/base/node_ops.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/file/file.h"
#include "fs/node/schema/schema_edit.h"

#include <errno.h>

#define UNCHECKED_MAX 1024
/* oldest_made_locked skips at most this many directories that have entries. */
#define TRIES 16

/* Undoes made_add. */
static void made_undo(struct node *n)
{
	struct node *own;

	mutex_lock(tree_mutex());
	own = node_in_table_locked(n);
	if (own)
		extra_drop_locked(own);
	mutex_unlock(tree_mutex());
}

int made_add(struct node *parent, enum node_kind kind, struct tfs_bytes key, struct node **out)
{
	struct node *own = node_in_table_get(parent), *n = own ? node_get(own, kind, key, 0) : NULL;
	int err = n ? 0 : -ENOMEM;

	if (err == 0) {
		mutex_lock(tree_mutex());
		err = n->flags & NODE_EXTRA ? -EEXIST : kind == NODE_FAMILY ? extra_add_locked(own, EXTRA_UNCHECKED) : 0;
		if (err == 0)
			err = extra_add_locked(n, EXTRA_EMPTY);
		mutex_unlock(tree_mutex());
	}
	if (err == 0) {
		*out = node_get(parent, kind, key, 0);
		if (!*out) {
			made_undo(n);
			err = -ENOMEM;
		}
	}
	node_put(n);
	node_put(own);
	return err;
}

bool made_is(struct node *parent, enum node_kind kind, struct tfs_bytes key)
{
	struct node *own, *n;
	bool is;

	mutex_lock(tree_mutex());
	own = node_in_table_locked(parent);
	n = own ? node_find_locked(own, kind, key, 0) : NULL;
	is = n && n->flags & NODE_EXTRA;
	mutex_unlock(tree_mutex());
	return is;
}

/* Makes the kernel drop the directory's entry in one view, and the listing that contains it. */
static void drop_kernel_entry(struct node *n, bool in_other_view, struct changes *c)
{
	struct buf path = {0};
	struct tfs_bytes name = {0};
	struct node *dir = n->parent;
	const uint8_t *slash;

	if (node_append_name(n, &path) == 0)
		name = buf_bytes(&path);
	slash = name.n ? memrchr(name.p, '/', name.n) : NULL;
	mutex_lock(tree_mutex());
	if (in_other_view)
		dir = node_in_other_view_locked(dir);
	if (dir && slash) {
		dir = node_find_locked(dir, n->kind == NODE_CELL_PART ? NODE_CELL_PART : NODE_ROW_PART,
			tfs_bytes_of(name.p, (size_t)(slash - name.p)), 0);
		name = tfs_bytes_of(slash + 1, name.n - (size_t)(slash - name.p) - 1);
	}
	if (dir && name.n) {
		changes_entry_locked(c, dir, name);
		changes_listing_locked(c, dir);
	}
	mutex_unlock(tree_mutex());
	buf_fini(&path);
}

static void drop_kernel_entries(struct node *n, struct changes *c)
{
	drop_kernel_entry(n, false, c);
	drop_kernel_entry(n, true, c);
}

/* Removes the directory, if it has no extra entry.  ends: its node ends, too. */
static int made_remove(struct node *n, bool ends, struct changes *c)
{
	struct node *own, *other = NULL;
	int err = 0;

	mutex_lock(tree_mutex());
	if (extra_any_view_locked(n)) {
		err = -ENOTEMPTY;
	} else {
		other = ends ? node_in_other_view_locked(n) : NULL;
		if (other)
			other->refs++;
		own = node_in_table_locked(n);
		if (own)
			extra_drop_locked(own);
		if (ends)
			node_end_locked(n);
	}
	mutex_unlock(tree_mutex());
	if (other)
		dir_time_forget(other);
	node_put(other);
	if (err == 0)
		drop_kernel_entry(n, true, c);
	return err;
}

int made_rmdir(struct node *n, const char *name, struct changes *c)
{
	bool has = false;
	int err = node_ops(n)->has_cells(n, &has);

	if (err || has)
		return err ? err : -ENOTEMPTY;
	err = made_remove(n, true, c);
	if (err == 0)
		dir_time_forget(n);
	return err;
}

/* A row without cells that the kernel still has, because they have expired or another client has removed them, exists again. */
static void row_is_back(struct node *row, struct changes *c)
{
	struct node *other;

	mutex_lock(tree_mutex());
	row_changed_locked(c, row->parent, node_key(row));
	other = node_in_other_view_locked(row->parent);
	if (other)
		row_changed_locked(c, other, node_key(row));
	mutex_unlock(tree_mutex());
}

int made_mkdir(const struct making *m, struct resolved *r, struct node **out)
{
	int err = made_add(r->parent, r->kind, buf_bytes(&r->key), out);

	if (err)
		return err;
	/* A thread that drops or renames the family may not have seen the new entry. */
	if (fs_schema_family_dropped(*out)) {
		err = -ESTALE;
	} else if ((*out)->kind == NODE_FAMILY && fs_schema_renamed(*out, tfs_str(m->name))) {
		made_undo(*out);
		err = -ESTALE;
	}
	if (err) {
		node_put(*out);
		*out = NULL;
	} else if ((*out)->kind == NODE_FAMILY) {
		row_is_back(r->parent, m->c);
	}
	return err;
}

bool made_has_entries(struct node *dir)
{
	bool any;

	mutex_lock(tree_mutex());
	any = dir->kind == NODE_TABLE ? extra_any_locked(dir) : extra_any_view_locked(dir);
	mutex_unlock(tree_mutex());
	return any;
}

bool made_has_scratch_elsewhere(struct node *dir)
{
	struct node *other, *first;
	bool is;

	mutex_lock(tree_mutex());
	other = node_in_other_view_locked(dir);
	first = other ? extra_next_locked(other, 0, NULL) : NULL;
	is = first && node_is(first, KIND_SCRATCH) && !extra_any_locked(dir);
	mutex_unlock(tree_mutex());
	return is;
}

static void drop_row_locked(struct node *row)
{
	struct node *family = extra_next_locked(row, 1, NULL), *next;

	row->refs++;
	for (; family; family = next) {
		struct tfs_bytes key = node_key(family);

		next = extra_next_locked(row, 1, &key);
		if (!extra_any_view_locked(family))
			extra_drop_locked(family);
	}
	if (!extra_any_view_locked(row))
		extra_remove_locked(row);
	node_put_locked(row);
}

/*
 * Removes the made directory of a part, if it is empty now.  Its node remains, as
 * the row's node does.  If the part got another node, and the kernel still had
 * the row under the old one, a look-up of the row would move it: the kernel then
 * returns ESTALE to the caller while any process renames between directories.
 */
static void drop_part(struct node *part, struct changes *c)
{
	bool has = true;

	if (node_ops(part)->has_cells(part, &has) == 0 && !has && made_remove(part, false, c) == 0)
		drop_kernel_entry(part, false, c);
}

/* Removes the made directories of a row's split name that are empty now. */
static void drop_parts(struct node *row, struct changes *c)
{
	struct buf path = {0};

	if (node_append_name(row, &path) == 0)
		for (size_t i = path.n; i-- > 0;) {
			struct node *part =
				path.p[i] == '/' ? node_find(row->parent, NODE_ROW_PART, tfs_bytes_of(path.p, i), 0) : NULL;

			if (part)
				drop_part(part, c);
			node_put(part);
		}
	buf_fini(&path);
}

void made_drop_row(struct node *row, struct changes *c)
{
	struct node *own;

	mutex_lock(tree_mutex());
	own = node_in_table_locked(row);
	if (own)
		drop_row_locked(own);
	mutex_unlock(tree_mutex());
	drop_kernel_entries(row, c);
	drop_parts(row, c);
}

void made_drop_rows(struct node *table, struct tfs_bytes prefix, struct changes *c)
{
	struct node *row = NULL;
	struct buf at = {0};
	struct tfs_bytes key = prefix;
	int err = 0;

	for (bool first = true; err == 0; first = false) {
		mutex_lock(tree_mutex());
		row = first ? extra_find_locked(table, 1, key) : NULL;
		row = row ? row : extra_next_locked(table, 1, &key);
		if (row && !bytes_has_prefix(node_key(row), prefix))
			row = NULL;
		if (row) {
			row->refs++;
			err = buf_set(&at, row->key, row->key_n);
			key = buf_bytes(&at);
			drop_row_locked(row);
		}
		mutex_unlock(tree_mutex());
		if (!row)
			break;
		drop_kernel_entries(row, c);
		node_put(row);
	}
	buf_fini(&at);
}

/* Adds entries for the directories of a split name. */
static void parts_left(struct node *base, enum node_kind kind, struct tfs_bytes path)
{
	for (size_t i = 1; i < path.n; i++) {
		struct node *part = path.p[i] == '/' ? node_get(base, kind, tfs_bytes_of(path.p, i), 0) : NULL;

		if (!part)
			continue;
		mutex_lock(tree_mutex());
		(void)!extra_add_locked(part, EXTRA_UNCHECKED);
		mutex_unlock(tree_mutex());
		node_put(part);
	}
}

int made_keep_locked(struct node *own)
{
	int err = extra_add_locked(own, EXTRA_UNCHECKED);

	return err || own->kind != NODE_FAMILY ? err : extra_add_locked(own->parent, EXTRA_UNCHECKED);
}

void made_cell_removed(struct node *family_node, struct tfs_bytes qualifier, bool version, int64_t ts)
{
	struct buf cell = {0}, name = {0};
	struct node *own;

	/* A directory that has been removed stays removed. */
	own = node_lives(family_node) && node_lives(family_node->parent) ? node_in_table_get(family_node) : NULL;
	if (!own)
		return;
	mutex_lock(tree_mutex());
	if (node_lives(own) && node_lives(own->parent))
		(void)!made_keep_locked(own);
	mutex_unlock(tree_mutex());
	if (name_encode(version ? NAME_VERSION : NAME_NEWEST, qualifier, ts, &cell) == 0 &&
		name_encode(NAME_ROW, node_key(own->parent), 0, &name) == 0) {
		parts_left(own->parent->parent, NODE_ROW_PART, buf_bytes(&name));
		parts_left(own, NODE_CELL_PART, buf_bytes(&cell));
	}
	(void)fs_schema_family_dropped(own);
	node_put(own);
	buf_fini(&cell);
	buf_fini(&name);
}

/* The oldest empty directory without entries of its own.  Directories that have entries become the youngest. */
static struct node *oldest_made_locked(void)
{
	struct node *n;

	for (int i = 0; i < TRIES && (n = extra_oldest_locked(EXTRA_EMPTY)) != NULL; i++) {
		if (!extra_any_view_locked(n))
			return n;
		extra_set_state_locked(n, EXTRA_EMPTY);
	}
	return NULL;
}

static void check_unchecked(struct node *n)
{
	struct mutex *row = row_lock(node_is(n, KIND_KEYED) ? n : NULL);
	bool has = false;

	if (node_ops(n)->has_cells(n, &has))
		has = false;
	mutex_lock(tree_mutex());
	if (n->flags & NODE_EXTRA) {
		if (has)
			extra_has_cells_locked(n);
		else
			extra_set_state_locked(n, EXTRA_EMPTY);
	}
	mutex_unlock(tree_mutex());
	row_unlock(row);
}

static void drop_oldest(struct node *n, struct changes *c)
{
	char path[512];

	if (made_remove(n, true, c) != 0)
		return;
	drop_kernel_entry(n, false, c);
	msg_notice("%s: empty directory dropped: more than %u MiB of them", node_describe(n, NULL, path, sizeof(path)),
		MADE_BYTES >> 20);
}

void made_trim(struct changes *c)
{
	struct node *row;

	/* A row that lost its extra entries is checked again, because it may contain only cells now. */
	mutex_lock(tree_mutex());
	row = extra_oldest_locked(EXTRA_HAS_CELLS);
	if (row)
		extra_set_state_locked(row, extra_any_view_locked(row) ? EXTRA_HAS_CELLS : EXTRA_UNCHECKED);
	mutex_unlock(tree_mutex());
	/* Most requests add at most two entries, a row and a family.  Up to four are handled, so a backlog shrinks. */
	for (int i = 0; i < 4; i++) {
		bool left;
		struct node *n = NULL;

		mutex_lock(tree_mutex());
		left = extra_count_locked(EXTRA_UNCHECKED) > UNCHECKED_MAX;
		if (left)
			n = extra_oldest_locked(EXTRA_UNCHECKED);
		else if (extra_bytes_locked() > MADE_BYTES)
			n = oldest_made_locked();
		if (n)
			n->refs++;
		mutex_unlock(tree_mutex());
		if (!n)
			break;
		if (left)
			check_unchecked(n);
		else
			drop_oldest(n, c);
		node_put(n);
	}
}
