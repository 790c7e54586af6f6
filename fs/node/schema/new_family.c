/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families that mkdir makes, and the modes that users ask for in them, by chmod of
 * cells and of the families' directories in rows.
 *
 * Cells have the mode of their family.  So a chmod that asks for less than the
 * family's mode gives to group and others is refused: success without effect would
 * leave bytes readable that the user believes to be private.  But tar, cp and rsync
 * restore a tree by mkdir, creations and chmods, and the modes are known only by
 * these calls.  So a family that mkdir of ROW/FAMILY has made takes its mode from
 * them, as long as no other row has cells of it, and for the user who made it and for
 * root:
 *
 *	mkdir            the mode of the mkdir
 *	chmod of the     that mode, less what a cell has refused.  tar makes the
 *	directory        directory with 0700, and sets its mode at the end
 *	chmod of a cell  the mode loses the bits that the cell's mode lacks.  rsync renames
 *	                 a scratch file that has the mode: this counts as a chmod
 *	creation with    counts against a later chmod of the directory only, and until
 *	O_EXCL           the cell's next chmod, because cp and tar create with 0600 and
 *	                 set the mode at the end, or not if it is 0600
 *
 * Only the bits of group and others count: the owner's are not taken, because a
 * restore writes the next row.  The modes that cells have refused are kept in
 * memory.  After a remount a family is not new.
 *
 * Rejected: to ask the store only whether other rows have cells, without this memory.
 * A second rsync after a remount would set the mode of the directory again, and so
 * make cells readable that were restored with 0600.
 */
#include "fs/node/schema/new_family.h"

#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/node/schema/schema_edit.h"

#include <errno.h>
#include <stdio.h>

#define SHARED 0066 /* the bits of group and others, which a chmod can remove */
#define NEW_MOST 1000

struct new_family {
	uint32_t table;
	char family[FAMILY_KEY_BYTES];
	uid_t uid;           /* the user who made it */
	mode_t allowed;      /* the bits that all cells so far allow */
	mode_t allowed_else; /* the bits that all cells except last_cell allow */
	uint64_t last_cell;  /* inode number of the last cell, or scratch file, that asked */
};

static struct {
	struct new_family v[NEW_MOST]; /* the oldest first; under the tree lock */
	_Atomic unsigned count;
} families;

mode_t new_family_mode(mode_t mode)
{
	return 0600 | (mode & SHARED);
}

/* The index of the family, or `count`. */
static unsigned find_locked(struct node *table, const char *family)
{
	unsigned i = 0;

	while (i < families.count && (families.v[i].table != load_be32(table->key) || strcmp(families.v[i].family, family) != 0))
		i++;
	return i;
}

static void forget(struct node *table, const char *family)
{
	unsigned i;

	mutex_lock(tree_mutex());
	i = find_locked(table, family);
	if (i < families.count) {
		memmove(&families.v[i], &families.v[i + 1], (families.count - i - 1) * sizeof(*families.v));
		families.count--;
	}
	mutex_unlock(tree_mutex());
}

void new_family_made(struct node *table, const char *family)
{
	struct new_family *x;

	mutex_lock(tree_mutex());
	if (families.count == NEW_MOST) {
		memmove(&families.v[0], &families.v[1], (NEW_MOST - 1) * sizeof(*families.v));
		families.count--;
	}
	x = &families.v[families.count++];
	*x = (struct new_family){.table = load_be32(table->key), .uid = fs_asker_uid(), .allowed = SHARED, .allowed_else = SHARED};
	snprintf(x->family, sizeof(x->family), "%s", family);
	mutex_unlock(tree_mutex());
}

/*
 * Notes that a cell asks for a mode (cell 0: none does).  Sets *allowed to the bits that all
 * cells allow.  Returns false if the family is not new, or if another user has made it.
 */
static bool note(struct node *table, const char *family, uint64_t cell, mode_t mode, mode_t *allowed)
{
	struct new_family *x;
	bool found;
	unsigned i;

	if (!families.count)
		return false;
	mutex_lock(tree_mutex());
	i = find_locked(table, family);
	x = &families.v[i];
	found = i < families.count && (fs_asker_uid() == 0 || fs_asker_uid() == x->uid);
	if (found && cell) {
		if (cell != x->last_cell)
			x->allowed_else = x->allowed;
		x->last_cell = cell;
		x->allowed = x->allowed_else & mode;
	}
	if (found)
		*allowed = x->allowed;
	mutex_unlock(tree_mutex());
	return found;
}

/*
 * Returns 1 if another row than the row of the family's directory has cells of the family,
 * else 0, or -errno.  The scan may read the whole table.
 */
static int other_row_has_cells(struct node *family)
{
	const char *name = node_name(family);
	const struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS, .families = &name, .family_count = 1, .stop = fs_is_interrupted};
	struct tfs_scan *scan;
	struct tfs_cell cell;
	bool other = false;
	int r = tfs_scan_new(node_store_table(family), &spec, &scan);

	if (r)
		return r;
	while (!other && (r = tfs_scan_next(scan, &cell)) > 0)
		other = !bytes_eq(cell.row, node_key(family->parent));
	tfs_scan_free(scan);
	return other ? 1 : r;
}

/*
 * Reads the family's attributes.  If the family is new, its cell (cell not 0) or directory
 * asks for a mode.  Returns 1 if the family has it or gets it, or it asks for more; 0 if
 * the family is not new; -errno.
 */
static int ask(struct node *family, uint64_t cell, mode_t mode, struct family_info *now, struct changes *c)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_MODE, .name = node_name(family), .while_open = true};
	const bool open = fs_schema_is_open(family);
	mode_t allowed;
	int r = family_info_get(family, now);

	if (r || !note(node_table(family), node_name(family), cell, mode, &allowed) || !open)
		return r;
	e.mode = cell ? now->mode & (mode | ~(mode_t)SHARED) : (now->mode & ~(mode_t)SHARED) | (mode & allowed & SHARED);
	if (e.mode == now->mode)
		return 1;
	r = other_row_has_cells(family);
	if (r == 0)
		r = fs_schema_edit(family, &e, c);
	else if (r > 0)
		forget(node_table(family), node_name(family));
	if (r == -ECANCELED) /* .schema has just been written, as a restore does */
		return family_info_get(family, now);
	return r == 0 ? 1 : r > 0 ? 0 : r;
}

void new_family_cell_created(struct node *cell, mode_t mode)
{
	mode_t unused;

	(void)note(node_table(cell), node_name(cell->parent), cell->ino, mode, &unused);
}

int new_family_scratch(struct node *family, const struct node *scratch, mode_t mode, struct changes *c)
{
	struct family_info now;
	int r = families.count ? ask(family, scratch->ino, mode, &now, c) : 0;

	return r < 0 && r != -ENOENT ? r : 0;
}

int new_family_ask(struct node *n, mode_t mode, struct changes *c)
{
	struct family_info unused;

	return node_is(n, KIND_FAMILY) ? ask(n, 0, mode, &unused, c) : ask(n->parent, n->ino, mode, &unused, c);
}

int new_family_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	struct node *family = node_is(n, KIND_FAMILY) ? n : n->parent;
	struct family_info now;
	bool same;
	int r = to_set & FUSE_SET_ATTR_MODE ? ask(family, n == family ? 0 : n->ino, attr->st_mode, &now, c)
					    : family_info_get(family, &now);

	if (r < 0)
		return r;
	same = (!(to_set & FUSE_SET_ATTR_UID) || attr->st_uid == now.uid) &&
		(!(to_set & FUSE_SET_ATTR_GID) || attr->st_gid == now.gid);
	if (to_set & FUSE_SET_ATTR_MODE) {
		const mode_t x = n == family ? (now.mode & 0444) >> 2 : 0;

		if (r == 0 && (now.mode & ~attr->st_mode & SHARED) && !fs.quiet)
			return refuse(-EPERM, n, NULL,
				"the mode is the family's, which gives more: chmod TABLE/.families/FAMILY, or see the mount option quiet");
		same = same && (r > 0 || (attr->st_mode & 07777) == (now.mode | x));
	}
	return same ? 0 : fs_schema_keep_owner(n);
}
