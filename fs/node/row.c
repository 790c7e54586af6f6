/* SPDX-License-Identifier: Apache-2.0 */
/* A row's directory, and the directories that a long row name is split into. */
#include "fs/node/kinds.h"

#include "fs/base/ahead.h"
#include "fs/base/extra.h"
#include "engine/base/name.h"
#include "fs/node/list.h"
#include "fs/node/made.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/scratch/scratch.h"
#include "fs/node/source.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static int row_name(struct node *n, struct buf *out)
{
	return name_encode(NAME_ROW, node_key(n), 0, out);
}

/* Returns true if sed's new file has the name.  A row of this name, which another client has made since, is not hidden by it. */
static bool is_of_sed(struct node *dir, const char *name)
{
	struct buf key = {0};
	bool exists = false;

	if (!scratch_of_sed_is_there(dir, name))
		return false;
	if (name_decode_row(tfs_str(name), &key) == 0 && key.n && !(exists = made_is(dir, NODE_ROW, buf_bytes(&key))))
		(void)!source_has(dir, buf_bytes(&key), NULL, &exists);
	buf_fini(&key);
	return !exists;
}

int row_resolve_name(struct node *dir, const char *name, struct resolved *out)
{
	struct buf path = {0};
	int err;

	if (name[0] == '.' || is_of_sed(dir, name))
		return scratch_resolve_name(dir, name, out);
	err = part_path(dir, name, &out->parent, &path);
	if (err == 0 && name_is_part(tfs_str(name))) {
		out->kind = NODE_ROW_PART;
		err = part_resolve(buf_bytes(&path), TFS_ROW_MAX, out);
	} else if (err == 0) {
		out->kind = NODE_ROW;
		err = name_decode_row(buf_bytes(&path), &out->key);
		if (err == 0 && out->key.n > TFS_ROW_MAX)
			err = -ENAMETOOLONG;
	}
	buf_fini(&path);
	return err;
}

static int row_resolve_child(struct node *dir, const char *name, struct resolved *out)
{
	if (name[0] == '.')
		return scratch_resolve_name(dir, name, out);
	out->kind = NODE_FAMILY;
	return tfs_name_valid(name) ? buf_set(&out->key, name, strlen(name)) : -ENOENT;
}

static int row_find(struct node *dir, struct resolved *r, struct node **out)
{
	bool exists = made_is(r->parent, NODE_ROW, buf_bytes(&r->key));
	int err = 0;

	if (!exists)
		err = source_has(r->parent, buf_bytes(&r->key), NULL, &exists);
	if (err || !exists)
		return err ? err : -ENOENT;
	return resolved_get(r, out);
}

static int row_has_cells(struct node *n, bool *has)
{
	return tfs_row_exists(node_store_table(n), node_key(n), NULL, has);
}

static bool row_list_attr(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	tree_dir_attr(n, a->schema->mode, a->schema->uid, a->schema->gid, &p->attr);
	return true;
}

/* ---- the families of a row ---- */

/* The families of a row that was read, or is read now with the rows behind it.  Returns false if the store must be asked. */
static bool families_ahead(struct lister *l, uint16_t *ids)
{
	struct ahead_row *row = l->source.is_view ? NULL : ahead_get(l->base, node_key(l->base), AHEAD_WALK);
	unsigned count = 0;

	for (unsigned i = 0; row && i < row->count; i++)
		if ((!count || ids[count - 1] != row->cells[i].family) && count < l->schema->family_count)
			ids[count++] = row->cells[i].family;
	ahead_put(row);
	ids[count] = 0;
	return row != NULL;
}

/* The ids of the families with cells in the row, ended by 0 (no family has that id). */
static int load_families(struct lister *l, uint16_t **out)
{
	struct tfs_scan_spec spec = l->source.clauses.spec;
	uint16_t *ids = calloc(l->schema->family_count + 1, sizeof(*ids));
	struct tfs_cell cell;
	unsigned count;
	int r;

	if (!ids)
		return -ENOMEM;
	*out = ids;
	if (families_ahead(l, ids))
		return 0;
	spec.what = TFS_SCAN_FAMILIES;
	spec.row_from = node_key(l->base);
	spec.row_from_after = spec.reverse = false;
	spec.one_row = true;
	for (;;) {
		count = 0;
		spec.past_damage = l->damaged;
		r = lister_scan(l, &spec);
		while (r == 0 && (r = tfs_scan_next(l->scan, &cell)) > 0) {
			if (count < l->schema->family_count)
				ids[count++] = cell.family_id;
			r = 0;
		}
		lister_end_scan(l);
		if (!lister_is_damage(r) || l->damaged)
			break;
		l->damaged = true;
	}
	ids[count] = 0;
	return lister_is_damage(r) ? 0 : r;
}

static bool row_has_family(const struct lister *l, uint16_t id, struct tfs_bytes key)
{
	bool here = false;

	for (const uint16_t *p = l->memory; *p && !here; p++)
		here = *p == id;
	if (here)
		return true;
	mutex_lock(tree_mutex());
	here = l->own && extra_find_locked(l->own, 1, key);
	mutex_unlock(tree_mutex());
	return here;
}

static int row_list_families(struct lister *l, struct list_entry *e)
{
	if (!l->memory) {
		uint16_t *ids = NULL;
		int err = load_families(l, &ids);

		l->memory = ids;
		if (err)
			return err;
	}
	for (unsigned i = 0; i < l->schema->family_count; i++) {
		const struct tfs_family *f = &l->schema->families[i];

		if (f->id <= l->at.number)
			continue;
		l->at.number = f->id;
		fs_schema_family_key(f->id, l->family_key);
		if (!row_has_family(l, f->id, tfs_str(l->family_key)))
			continue;
		*e = (struct list_entry){
			.name = tfs_str(f->name), .kind = NODE_FAMILY, .parent = l->base, .key = tfs_str(l->family_key)};
		return 1;
	}
	return 0;
}

static const struct fixed_child row_children[] = {
	{".mutate", NODE_MUTATE}, {".row.json", NODE_ROW_JSON}, {".row.flat.json", NODE_ROW_FLAT}, {0}};

const struct node_ops row_ops = {
	.traits = KIND_DIR | KIND_IN_VIEW | KIND_KEYED | KIND_TIMED,
	.name = row_name,
	.attr = tree_attr,
	.children = row_children,
	.resolve = row_resolve_child,
	.list = (const list_phase_fn[]){list_extras, row_list_families, NULL},
	.rmdir = made_rmdir,
	.has_cells = row_has_cells,
	.find = row_find,
	.make = made_mkdir,
	.list_attr = row_list_attr,
};

/* ---- a part of a split name ---- */

const struct node_ops row_part_ops = {
	.traits = KIND_DIR | KIND_IN_VIEW | KIND_TIMED | KIND_PART,
	.attr = tree_attr,
	.resolve = row_resolve_name,
	.list = (const list_phase_fn[]){list_extras, list_made_parts, list_keys, NULL},
	.rmdir = made_rmdir,
	.has_cells = part_has_cells,
	.find = part_find,
	.make = made_mkdir,
	.list_attr = row_list_attr,
};
