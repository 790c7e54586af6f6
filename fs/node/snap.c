/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: TABLE/.snap/NAME is the table's tree as of one instant, and
 * /.snap/NAME has such a tree for each table.  mkdir makes a snapshot, rmdir
 * drops it.
 *
 * A snapshot is a table to the library, and its node stands for a table to all
 * nodes below it (node_table).  fs/request and fs/file refuse changes of nodes in
 * it (tree_check_writable).
 */
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/node/admin.h"
#include "fs/node/help.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

#define SNAPSHOT_NAMES "names of snapshots match [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"

/* ---- lists of names ---- */

struct names {
	char (*v)[TFS_NAME_MAX + 1];
	unsigned count, at;
};

static int name_add(void *arg, const struct tfs_snapshot *s)
{
	struct names *names = arg;

	if (array_grow(&names->v, names->count, sizeof(*names->v)))
		return -ENOMEM;
	strcpy(names->v[names->count++], s->name);
	return 0;
}

/* The memory of a phase is one block, which the lister frees. */
static int names_keep(struct lister *l, struct names *names, int err)
{
	struct names *kept = err ? NULL : malloc(sizeof(*kept) + names->count * sizeof(*names->v));

	if (kept) {
		*kept = *names;
		kept->v = (char(*)[TFS_NAME_MAX + 1])(void *)(kept + 1);
		if (names->count)
			memcpy(kept->v, names->v, names->count * sizeof(*names->v));
		l->memory = kept;
	}
	free(names->v);
	return err ? err : kept ? 0 : -ENOMEM;
}

/* The next name after the cursor, or NULL. */
static const char *names_next(struct lister *l)
{
	struct names *names = l->memory;
	const char *name = NULL;

	while (names->at < names->count && !name) {
		const char *next = names->v[names->at++];

		if (bytes_cmp(tfs_str(next), buf_bytes(&l->at.key)) > 0)
			name = next;
	}
	return name;
}

/* ---- .snap ---- */

static bool is_of_all(const struct node *snaps)
{
	return snaps->parent->kind == NODE_ROOT;
}

int snapshot_resolve_name(const char *name, enum node_kind kind, struct resolved *out)
{
	out->kind = kind;
	return tfs_name_valid(name) ? buf_set(&out->key, name, strlen(name)) : -ENOENT;
}

static int snaps_resolve(struct node *dir, const char *name, struct resolved *out)
{
	return snapshot_resolve_name(name, is_of_all(dir) ? NODE_SNAP_ALL : NODE_SNAPSHOT, out);
}

/* Lists names in order. load reads all names. open opens the table or snapshot of a name; NULL: a name is the key of its node. */
static int list_names(struct lister *l, struct list_entry *e, enum node_kind kind,
	int (*load)(struct node *dir, struct names *names), int (*open)(struct node *dir, const char *name, struct tfs_table **out))
{
	uint8_t key[TABLE_KEY_BYTES];
	struct tfs_table *t;
	const char *name;
	int err;

	if (!l->memory) {
		struct names names = {0};

		err = load(l->dir, &names);
		err = names_keep(l, &names, err);
		if (err)
			return err;
	}
	do {
		name = names_next(l);
		if (!name)
			return 0;
		err = buf_set(&l->at.key, name, strlen(name));
		*e = (struct list_entry){.name = tfs_str(name), .kind = kind, .parent = l->dir, .key = tfs_str(name)};
		if (err || !open)
			return err ? err : 1;
		err = open(l->dir, name, &t);
	} while (err == -ENOENT || (err == -EBADMSG && l->dir->kind == NODE_SNAP_ALL)); /* just dropped, or its table is damaged */
	if (err)
		return err;
	table_key(t, key);
	tfs_table_close(t);
	err = buf_set(&l->name, key, sizeof(key));
	e->key = buf_bytes(&l->name);
	return err ? err : 1;
}

static int load_snapshots(struct node *dir, struct names *names)
{
	return is_of_all(dir) ? tfs_snapshot_list_all(fs.store, name_add, names)
			      : tfs_snapshot_list(node_store_table(dir), false, name_add, names);
}

static int open_snapshot(struct node *dir, const char *name, struct tfs_table **out)
{
	return tfs_snapshot_open(node_store_table(dir), name, out);
}

static int list_snapshots(struct lister *l, struct list_entry *e)
{
	const bool all = is_of_all(l->dir);

	return list_names(l, e, all ? NODE_SNAP_ALL : NODE_SNAPSHOT, load_snapshots, all ? NULL : open_snapshot);
}

static const struct setting snaps_settings[] = {{.name = ".help", .mode = 0444, .render = help_render_snap}, {0}};

const struct node_ops snaps_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.settings = snaps_settings,
	.fixed_name = ".snap",
	.attr = tree_owners_attr,
	.names = SNAPSHOT_NAMES,
	.resolve = snaps_resolve,
	.list = (const list_phase_fn[]){list_snapshots, NULL},
	.rename = setting_rename,
};

/* ---- /.snap/NAME ---- */

struct search {
	const char *name;
	struct tfs_snapshot found;
};

static int search_one(void *arg, const struct tfs_snapshot *s)
{
	struct search *f = arg;

	if (strcmp(s->name, f->name) != 0)
		return 0;
	f->found = *s;
	return 1;
}

static int snap_all_find(struct node *n, struct tfs_snapshot *out)
{
	struct search f = {.name = node_name(n)};
	int r = tfs_snapshot_list_all(fs.store, search_one, &f);

	*out = f.found;
	return r > 0 ? 0 : r < 0 ? r : -ENOENT;
}

static int snap_all_exists(struct node *n)
{
	struct tfs_snapshot found;

	return snap_all_find(n, &found);
}

static int snap_all_attr(struct node *n, struct stat *st, double *timeout)
{
	struct tfs_snapshot found;
	int err = snap_all_find(n, &found);

	if (err)
		return err;
	tree_dir_attr(n, 0755, fs.uid, fs.gid, st);
	stat_time(&st->st_mtim, found.time_us);
	st->st_ctim = st->st_mtim;
	return 0;
}

static int snap_all_make(const struct making *m, struct resolved *r, struct node **out)
{
	int err = tfs_snapshot_create_all(fs.store, m->name);

	return err ? err : resolved_get(r, out);
}

static int snap_all_rmdir(struct node *n, const char *name, struct changes *c)
{
	int err = tfs_snapshot_drop_all(fs.store, name);

	if (err == 0)
		node_end(n);
	return err;
}

static int snap_all_resolve(struct node *dir, const char *name, struct resolved *out)
{
	return snapshot_resolve_name(name, NODE_SNAPSHOT, out);
}

/* The snapshot of a table that belongs to dir, /.snap/NAME. */
static int open_of_all(struct node *dir, const char *table, struct tfs_table **out)
{
	const struct tfs_schema *s;
	struct tfs_table *t, *found = NULL;
	bool wanted = false;
	int err = tfs_table_open(fs.store, table, &t);

	if (err)
		return err;
	err = tfs_snapshot_open(t, node_name(dir), &found);
	tfs_table_close(t);
	if (!err)
		err = tfs_schema_get(found, &s);
	if (!err) {
		wanted = s->snapshot_of_all;
		tfs_schema_put(s);
	}
	if (!err && !wanted)
		err = -ENOENT;
	if (err)
		tfs_table_close(found);
	else
		*out = found;
	return err;
}

static int load_tables(struct node *dir, struct names *names)
{
	char batch[16][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	int n, err = 0;

	while (!err && (n = tfs_table_list(fs.store, after, batch, 16)) != 0) {
		err = n < 0 ? n : 0;
		for (int i = 0; i < n && !err; i++)
			err = name_add(names, &(struct tfs_snapshot){.name = batch[i]});
		if (!err)
			memcpy(after, batch[n - 1], sizeof(after));
	}
	return err;
}

static int list_tables(struct lister *l, struct list_entry *e)
{
	return list_names(l, e, NODE_SNAPSHOT, load_tables, open_of_all);
}

const struct node_ops snap_all_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.attr = snap_all_attr,
	.resolve = snap_all_resolve,
	.list = (const list_phase_fn[]){list_tables, NULL},
	.rmdir = snap_all_rmdir,
	.exists = snap_all_exists,
	.make = snap_all_make,
	.rename = setting_rename,
};

/* ---- a snapshot of one table ---- */

static int snapshot_name(struct node *n, struct buf *out)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err == 0 && n->parent->kind == NODE_SNAPS)
		err = buf_append(out, s->name, strlen(s->name));
	else if (err == 0)
		err = buf_printf(out, "(table %u)", s->snapshot_of);
	else
		(void)!buf_printf(out, "(snapshot %u, dropped)", load_be32(n->key));
	if (err == 0)
		tfs_schema_put(s);
	return err;
}

/* The time of a snapshot is the instant that it shows. */
static int snapshot_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	tree_dir_attr(n, s->mode, s->uid, s->gid, st);
	stat_time(&st->st_mtim, s->snapshot_us);
	st->st_ctim = st->st_mtim;
	tfs_schema_put(s);
	return 0;
}

static int snapshot_find(struct node *dir, struct resolved *r, struct node **out)
{
	const char *name = (const char *)r->key.p;
	struct tfs_table *t;
	int err = dir->kind == NODE_SNAP_ALL ? open_of_all(dir, name, &t) : open_snapshot(dir, name, &t);

	return err ? err : table_bind(dir, NODE_SNAPSHOT, t, out);
}

static int snapshot_make(const struct making *m, struct resolved *r, struct node **out)
{
	struct tfs_table *t;
	int err = fs_table_as_asker(m->dir, &t);

	if (err)
		return err;
	err = tfs_snapshot_create(t, m->name);
	tfs_table_close(t);
	return err ? err : snapshot_find(m->dir, r, out);
}

static int snapshot_rmdir(struct node *n, const char *name, struct changes *c)
{
	struct tfs_table *t;
	int err = fs_table_as_asker(n->parent, &t);

	if (err)
		return err;
	err = tfs_snapshot_drop(t, name);
	tfs_table_close(t);
	if (err == 0)
		node_end(n);
	return err;
}

/* `usage` is a control file, unless the snapshot has a row of that name. */
static int snapshot_resolve(struct node *dir, const char *name, struct resolved *out)
{
	bool row = true;
	int err;

	if (strcmp(name, "usage") != 0)
		return row_resolve_name(dir, name, out);
	err = tfs_row_exists(node_store_table(dir), TFS_S("usage"), NULL, &row);
	if (err)
		return err;
	if (row)
		return row_resolve_name(dir, name, out);
	out->kind = NODE_SETTING;
	return buf_set(&out->key, ".usage", strlen(".usage"));
}

static int usage_render(struct node *n, struct buf *out)
{
	struct tfs_snapshot u;
	int err = tfs_snapshot_usage(node_store_table(n), &u);

	return err ? err
		   : buf_printf(out, "name value\nbytes %llu\npinned_bytes %llu\n", (unsigned long long)u.bytes,
			     (unsigned long long)u.pinned_bytes);
}

static const struct fixed_child snapshot_children[] = {{".schema", NODE_SCHEMA}, {".families", NODE_FAMILIES},
	{".groups", NODE_GROUPS}, {".scripts", NODE_SCRIPTS}, {".latest", NODE_LATEST}, {".scan", NODE_SCAN},
	{".since", NODE_SINCE_ALL}, {".export.tar", NODE_EXPORT}, {0}};
static const struct setting snapshot_settings[] = {
	{.name = ".tablets", .mode = 0400, .render = admin_render_tablets},
	{.name = ".splits", .mode = 0400, .render = admin_render_splits},
	{.name = ".splits", .mode = 0400, .render = admin_render_splits, .most = ADMIN_SPLITS_MOST},
	{.name = ".ctl", .mode = 0600, .render = admin_render_verbs, .apply = admin_apply_verbs},
	{.name = ".usage", .mode = 0400, .render = usage_render},
	{0},
};

const struct node_ops snapshot_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.name = snapshot_name,
	.attr = snapshot_attr,
	.children = snapshot_children,
	.settings = snapshot_settings,
	.resolve = snapshot_resolve,
	.list = (const list_phase_fn[]){list_schema, list_scripts, list_keys, NULL},
	.rmdir = snapshot_rmdir,
	.find = snapshot_find,
	.make = snapshot_make,
	.rename = setting_rename,
};
