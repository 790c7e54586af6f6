/* SPDX-License-Identifier: Apache-2.0 */
/* A table's directory, and its view .latest. */
#include "fs/node/kinds.h"

#include "fs/base/dir_time.h"
#include "fs/base/extra.h"
#include "fs/base/reply.h"
#include "fs/node/admin.h"
#include "fs/node/list.h"
#include "fs/node/made.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/scratch/scratch.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include <errno.h>

void table_key(const struct tfs_table *t, uint8_t key[TABLE_KEY_BYTES])
{
	put_be32(key, tfs_table_id(t));
}

static int table_name(struct node *n, struct buf *out)
{
	const struct tfs_schema *s;
	int err;

	if (n->dir && n->dir->table && tfs_schema_get(n->dir->table, &s) == 0) {
		err = buf_append(out, s->name, strlen(s->name));
		tfs_schema_put(s);
		return err;
	}
	(void)!buf_printf(out, "(table %u, dropped)", load_be32(n->key));
	return -ENOENT;
}

int table_bind(struct node *parent, enum node_kind kind, struct tfs_table *t, struct node **out)
{
	uint8_t key[TABLE_KEY_BYTES];
	const struct tfs_schema *s;
	uint32_t of;
	struct dirx *d;
	struct node *n;
	int err = tfs_schema_get(t, &s);

	if (err) {
		tfs_table_close(t);
		return err;
	}
	of = s->snapshot_of;
	tfs_schema_put(s);
	table_key(t, key);
	n = node_get(parent, kind, tfs_bytes_of(key, sizeof(key)), 0);
	if (!n) {
		tfs_table_close(t);
		return -ENOMEM;
	}
	mutex_lock(tree_mutex());
	d = node_dirx_locked(n);
	if (d && !d->table) {
		d->table = t;
		d->snapshot_of = of;
		d->epoch = 1;
		t = NULL;
	}
	mutex_unlock(tree_mutex());
	if (t)
		tfs_table_close(t);
	if (!d) {
		node_put(n);
		return -ENOMEM;
	}
	*out = n;
	return 0;
}

static int table_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct tfs_table *t;
	int err = tfs_table_open(fs.store, (const char *)r->key.p, &t);

	return err ? err : table_bind(node_root(), NODE_TABLE, t, out);
}

static int table_make(const struct making *m, struct resolved *r, struct node **out)
{
	int err = tfs_table_create(fs.store, m->name, m->ctx->uid, m->ctx->gid, m->mode & 07777);

	if (!err)
		err = table_find(m->dir, r, out);
	if (!err)
		(*out)->dir->made_by = m->ctx->pid;
	return err;
}

static bool is_below(void *arg, const struct node *n)
{
	for (n = n->parent; n; n = n->parent)
		if (n == arg)
			return true;
	return false;
}

/* The table does not exist any more. */
static void table_end(struct node *n)
{
	node_end(n);
	/* .latest may have scratch. */
	extra_end_each(is_below, n);
}

#define HAS_SNAPSHOTS "the table has snapshots: rmdir those in .snap first"

static int table_rmdir(struct node *n, const char *name, struct changes *c)
{
	int err = tfs_table_drop(fs.store, name);

	if (err == 0)
		table_end(n);
	if (err == -EBUSY)
		return refuse(err, n, NULL, HAS_SNAPSHOTS);
	if (err == -EROFS)
		return refuse(err, n, NULL, TABLE_READONLY);
	return err == -EPERM ? refuse(err, n, NULL, TABLE_PROTECTED) : err;
}

/* A table's node has the table's id as its key, so it stays, and the kernel's entries below it remain valid. */
static int table_rename(struct renaming *m)
{
	struct node *root = node_root(), *old = NULL;
	bool replaces;
	int err;

	if (m->to.kind != NODE_TABLE)
		return -EXDEV;
	err = tree_find_resolved(root, &m->to, &old);
	if (err == -ENOENT)
		err = 0;
	replaces = old && old != m->source;
	if (err == 0 && replaces && !m->noreplace && made_has_entries(old))
		err = -ENOTEMPTY;
	if (err == 0)
		err = tfs_table_rename(fs.store, m->name, m->newname, m->noreplace);
	if ((err == -EPERM || err == -EROFS) && replaces)
		refuse(err, old, NULL, err == -EROFS ? TABLE_READONLY : TABLE_PROTECTED);
	if (err == -EBUSY)
		refuse(err, root, m->newname, HAS_SNAPSHOTS);
	tree_changed_if_unknown(m->c, root, m->name, err);
	tree_changed_if_unknown(m->c, root, m->newname, err);
	if (err == 0 && replaces) {
		table_end(old);
		dir_time_forget(old);
	}
	node_put(old);
	return err;
}

/* .schema is listed first: copies restore it before the rows. */
int list_schema(struct lister *l, struct list_entry *e)
{
	if (l->at.number || !l->schema->is_set || l->schema->is_hidden)
		return 0;
	l->at.number = 1;
	*e = (struct list_entry){.name = tfs_str(".schema"), .kind = NODE_SCHEMA, .parent = l->dir};
	return 1;
}

int list_scripts(struct lister *l, struct list_entry *e)
{
	if (l->at.number || !l->schema->script_count)
		return 0;
	l->at.number = 1;
	*e = (struct list_entry){.name = tfs_str(".scripts"), .kind = NODE_SCRIPTS, .parent = l->dir};
	return 1;
}

static const char *const table_reserved[] = {".export", ".run", NULL};
static const struct fixed_child table_children[] = {{".schema", NODE_SCHEMA}, {".families", NODE_FAMILIES},
	{".groups", NODE_GROUPS}, {".scripts", NODE_SCRIPTS}, {".latest", NODE_LATEST}, {".scan", NODE_SCAN}, {".snap", NODE_SNAPS},
	{".import", NODE_IMPORT}, {".import.tsv", NODE_IMPORT}, {".import.jsonl", NODE_IMPORT}, {".import.csv", NODE_IMPORT},
	{".import.wide.tsv", NODE_IMPORT}, {".import.tar", NODE_IMPORT}, {".export.tar", NODE_EXPORT}, {".changes", NODE_CHANGES},
	{0}};
static const struct setting table_settings[] = {
	{.name = ".tablets", .mode = 0400, .render = admin_render_tablets}, /* it has names of rows */
	{.name = ".splits", .mode = 0400, .render = admin_render_splits},
	{.name = ".splits", .mode = 0400, .render = admin_render_splits, .most = ADMIN_SPLITS_MOST},
	{.name = ".ctl", .mode = 0600, .render = admin_render_verbs, .apply = admin_apply_verbs},
	{0},
};

const struct node_ops table_ops = {
	.traits = KIND_DIR | KIND_TIMED,
	.name = table_name,
	.attr = tree_attr,
	.set_owner = fs_schema_set_owner,
	.reserved = table_reserved,
	.children = table_children,
	.settings = table_settings,
	.resolve = row_resolve_name,
	.list = (const list_phase_fn[]){list_schema, list_scripts, list_extras, list_keys, NULL},
	.rmdir = table_rmdir,
	.find = table_find,
	.make = table_make,
	.rename = table_rename,
};

static int latest_find(struct node *dir, struct resolved *r, struct node **out)
{
	dir_time_watch();
	return fs.latest ? -ENOENT : resolved_get(r, out);
}

const struct node_ops latest_ops = {
	.traits = KIND_DIR | KIND_TIMED,
	.fixed_name = ".latest",
	.attr = tree_attr,
	.resolve = row_resolve_name,
	.list = (const list_phase_fn[]){list_extras, list_made_parts, list_keys, NULL},
	.find = latest_find,
};
