/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table's schema as the tree uses it, and its changes (schema_edit.h).  A
 * change of the schema may change the mode, the owner and the visibility of
 * every cell of the table.  Therefore the kernel's attributes of all nodes of
 * the table are invalidated, and remembered sizes become unknown.  A family
 * that is renamed changes its name in every row: its nodes stay, with all open
 * files below them, and the directory entries with the old name are dropped.
 */
#include "fs/node/schema/schema_edit.h"

#include "engine/base/msg.h"
#include "fs/base/access.h"
#include "fs/base/extra.h"
#include "fs/base/permit.h"
#include "fs/base/dir_time.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

void fs_schema_family_key(uint16_t id, char key[FAMILY_KEY_BYTES])
{
	snprintf(key, FAMILY_KEY_BYTES, "#%u", id);
}

/* Finds the family (for NODE_GROUP_DIR: the group) by name or "#ID".  Returns its name, or NULL. */
static const char *schema_find_named(const struct tfs_schema *s, enum node_kind kind, const char *name, uint16_t *id)
{
	const struct tfs_family *f = kind == NODE_GROUP_DIR ? NULL : tfs_schema_family(s, name);
	const struct tfs_group *g = kind == NODE_GROUP_DIR ? tfs_schema_group(s, name) : NULL;

	*id = f ? f->id : g ? g->id : 0;
	return f ? f->name : g ? g->name : NULL;
}

int fs_schema_bind(struct resolved *r)
{
	const char *name = r->key.p ? (const char *)r->key.p : "";
	const struct tfs_schema *s;
	char key[FAMILY_KEY_BYTES];
	uint16_t id;
	int err;

	if (name[0] == '#')
		return 0;
	err = tfs_schema_get(node_store_table(r->parent), &s);
	if (err)
		return err;
	name = schema_find_named(s, r->kind, name, &id);
	tfs_schema_put(s);
	if (!name)
		return -ENOENT;
	fs_schema_family_key(id, key);
	err = buf_set(&r->key, key, strlen(key) + 1);
	if (err == 0)
		r->key.n--;
	return err;
}

int fs_schema_name(struct node *n, struct buf *out)
{
	const char *name = NULL;
	const struct tfs_schema *s;
	uint16_t id;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err == 0) {
		name = schema_find_named(s, (enum node_kind)n->kind, node_name(n), &id);
		err = name ? buf_append(out, name, strlen(name)) : -ENOENT;
		tfs_schema_put(s);
	}
	if (!name)
		(void)!buf_printf(out, "(%s %s, dropped)", n->kind == NODE_GROUP_DIR ? "group" : "family", node_name(n));
	return name || err ? err : -ENOENT;
}

bool fs_schema_renamed(struct node *family, struct tfs_bytes name)
{
	struct buf now = {0};
	bool renamed = fs_schema_name(family, &now) || !bytes_eq(buf_bytes(&now), name);

	buf_fini(&now);
	return renamed;
}

bool fs_schema_is_open(struct node *n)
{
	const struct tfs_schema *s;
	bool open;

	if (!node_table(n) || tfs_schema_get(node_store_table(n), &s))
		return false;
	open = s->mkdir_families;
	tfs_schema_put(s);
	return open;
}

bool fs_schema_is_unset(struct node *n)
{
	const struct tfs_schema *s;
	bool unset;

	if (n->kind != NODE_SCHEMA || tfs_schema_get(node_store_table(n), &s))
		return false;
	unset = !s->is_set;
	tfs_schema_put(s);
	return unset;
}

int fs_schema_keep_owner(struct node *n)
{
	if (fs.quiet || fs_schema_is_open(n))
		return 0;
	return refuse(
		-EPERM, n, NULL, "mode, owner and ACL are the family's (.families) or the table's: see the mount option quiet");
}

/* ---- changes ---- */

#define ONLY_OWNER "only the owner of the table may change its schema and scripts"

struct orphans {
	struct node *table;
	const struct tfs_schema *schema;
};

/* Returns true if n is, or is below, a family that the schema does not have. */
static bool is_orphan(void *arg, const struct node *n)
{
	const struct orphans *o = arg;
	struct node *family = node_above(n, NODE_FAMILY);

	return family && node_table(family) == o->table && !tfs_schema_family(o->schema, node_name(family));
}

static void drop_orphans(struct node *table)
{
	struct orphans o = {.table = table};

	if (tfs_schema_get(node_store_table(table), &o.schema))
		return;
	extra_end_each(is_orphan, &o);
	ofile_end_table(table, is_orphan, &o);
	tfs_schema_put(o.schema);
}

bool fs_schema_family_dropped(struct node *n)
{
	struct buf name = {0};
	bool dropped;

	n = node_above(n, NODE_FAMILY);
	dropped = n && fs_schema_name(n, &name) == -ENOENT; /* a lack of memory does not mean that it was dropped */
	buf_fini(&name);
	if (dropped)
		drop_orphans(node_table(n));
	return dropped;
}

struct schema_diff {
	const struct tfs_schema *before, *after;
	struct changes *c;
};

static void drop_old_name(void *arg, struct node *n)
{
	const struct schema_diff *d = arg;
	const struct tfs_family *before, *after;

	if (n->kind != NODE_FAMILY)
		return;
	before = tfs_schema_family(d->before, node_name(n));
	after = tfs_schema_family(d->after, node_name(n));
	if (before && (!after || strcmp(before->name, after->name) != 0))
		changes_entry_locked(d->c, n->parent, tfs_str(before->name));
}

void fs_schema_changed(struct node *n, const struct tfs_schema *before, struct changes *c)
{
	struct node *table = node_table(n);
	struct schema_diff d = {.before = before, .c = c};
	bool names = false;

	drop_orphans(table);
	atomic_fetch_add(&fs.changes, 1);
	table_new_epoch(table);
	dir_time_raise_table(table);
	if (tfs_schema_get(node_store_table(table), &d.after) == 0) {
		names = permit_search_lost(before, d.after);
		node_each_of_table(table, false, drop_old_name, &d);
		tfs_schema_put(d.after);
	}
	changes_access(c, table, names);
	notify_table_later(table, names);
	/*
	 * A MKDIR of the old name may be on its way to the kernel, which knows no inode of it yet: only its name can
	 * be dropped.  During chmod the kernel holds the table's lock.
	 */
	if ((names || c->entry_count) && n != table)
		c->entries_first = true;
}

/* A change of a schema: an edit, or else a text. */
struct schema_change {
	const struct tfs_schema_edit *edit;
	struct tfs_bytes text;
	int64_t mtime_us;
};

static int change_schema(struct node *n, const struct schema_change *x, const struct caller *caller, char **why, struct changes *c)
{
	const struct tfs_schema *before;
	struct tfs_table *t;
	int err = fs_table_as_caller(caller, n, &t);

	if (err)
		return err;
	mutex_lock(&fs.schema_lock);
	err = tfs_schema_get(t, &before);
	if (err == 0) {
		err = x->edit ? tfs_schema_change(t, x->edit, why) : tfs_schema_set_text(t, x->text, x->mtime_us, why);
		if (err == 0)
			fs_schema_changed(n, before, c);
		tfs_schema_put(before);
	}
	mutex_unlock(&fs.schema_lock);
	tfs_table_close(t);
	return err;
}

int fs_schema_edit(struct node *n, const struct tfs_schema_edit *e, struct changes *c)
{
	struct caller *caller = caller_new();
	int err = caller ? fs_schema_edit_as(n, e, caller, c) : -ENOMEM;

	free(caller);
	return err;
}

int fs_schema_edit_as(struct node *n, const struct tfs_schema_edit *e, const struct caller *caller, struct changes *c)
{
	char *why = NULL;
	int err = change_schema(n, &(struct schema_change){.edit = e}, caller, &why, c);

	if (err && why)
		refuse(err, n, NULL, "%s", why);
	else if (err == -EACCES)
		refuse(err, n, NULL, ONLY_OWNER);
	else if (err != -ECANCELED) /* -ECANCELED comes from while_open only */
		refuse_store(err, n, NULL, "the schema was not changed");
	free(why);
	return err;
}

int fs_schema_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	const bool table = n->kind == NODE_TABLE;
	struct tfs_schema_edit e = {
		.name = table ? NULL : node_name(n), .explicit_act = !table, .uid = (uid_t)-1, .gid = (gid_t)-1};
	int err = 0;

	if (to_set & FUSE_SET_ATTR_MODE) {
		e.op = table ? TFS_SCHEMA_TABLE_MODE : TFS_SCHEMA_FAMILY_MODE;
		e.mode = attr->st_mode & (table ? 07777 : 0666);
		err = fs_schema_edit(n, &e, c);
	}
	if (err == 0 && (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))) {
		e.op = table ? TFS_SCHEMA_TABLE_OWNER : TFS_SCHEMA_FAMILY_OWNER;
		e.uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : e.uid;
		e.gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : e.gid;
		err = fs_schema_edit(n, &e, c);
	}
	return err;
}

int fs_schema_set_acl(struct node *n, const char *acl, mode_t mode, struct changes *c)
{
	const struct tfs_schema_edit e = {
		.op = TFS_SCHEMA_FAMILY_ACL, .explicit_act = true, .name = node_name(n), .value = acl, .mode = mode};

	return fs_schema_edit(n, &e, c);
}

static int set_text(struct node *n, const struct schema_change *x, const struct caller *caller, struct changes *c)
{
	char path[1024], *why = NULL;
	int err = change_schema(n, x, caller, &why, c);

	if (err)
		refuse(err, n, NULL, "%s",
			why                      ? why
				: err == -EACCES ? ONLY_OWNER
				: err == -EIO    ? "the schema may not be set"
						 : "the schema was not set");
	else if (why)
		msg_warning("%s: %s", node_describe(n, NULL, path, sizeof(path)), why);
	free(why);
	return err;
}

int fs_schema_replace_text(struct node *n, struct tfs_bytes text, int64_t mtime_us, const struct caller *caller, struct changes *c)
{
	return set_text(n, &(struct schema_change){.text = text, .mtime_us = mtime_us}, caller, c);
}

int fs_schema_append_text(struct node *n, struct tfs_bytes lines, int64_t mtime_us, const struct caller *caller, struct changes *c)
{
	const struct tfs_schema_edit e = {.op = TFS_SCHEMA_TEXT_APPEND, .text = lines, .mtime_us = mtime_us};

	return set_text(n, &(struct schema_change){.edit = &e}, caller, c);
}
