/* SPDX-License-Identifier: Apache-2.0 */
/* TABLE/.families and TABLE/.groups, the directories in them, and their control files. */
#include "fs/base/reply.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

/* ---- control files ---- */

/* Defines NAME_render(), which prints a field of the family or group that n's directory stands for. */
#define RENDER(of, name, ...)                                                                                                      \
	static int name##_render(struct node *n, struct buf *out)                                                                  \
	{                                                                                                                          \
		const struct tfs_##of *of;                                                                                         \
		const struct tfs_schema *s;                                                                                        \
		int err = tfs_schema_get(node_store_table(n), &s);                                                                 \
                                                                                                                                   \
		if (err)                                                                                                           \
			return err;                                                                                                \
		of = tfs_schema_##of(s, node_name(n->parent));                                                                     \
		err = of ? buf_printf(out, __VA_ARGS__) : -ENOENT;                                                                 \
		tfs_schema_put(s);                                                                                                 \
		return err;                                                                                                        \
	}

RENDER(family, gc, "%s\n", family->gc)
RENDER(family, group, "%s\n", family->group)
RENDER(family, type, "%s\n", family->type == TFS_TYPE_COUNTER ? "counter" : "bytes")
RENDER(group, compression, "%s\n", group->compression)
RENDER(group, level, "%d\n", group->level)
RENDER(group, bloom_bits, "%d\n", group->bloom_bits)
RENDER(group, in_memory, "%s\n", group->in_memory ? "true" : "false")
RENDER(group, block_size, group->block_size % 1024 == 0 ? "%uK\n" : "%u\n",
	group->block_size % 1024 == 0 ? group->block_size / 1024 : group->block_size)

static int usage_render(struct node *n, struct buf *out)
{
	struct tfs_usage u;
	int err = tfs_usage(node_store_table(n), node_name(n->parent), &u);

	if (err)
		return err == -EINVAL ? -ENOENT : err;
	return buf_printf(out, "name value\ndisk_bytes %llu\nraw_bytes %llu\nmemory_bytes %llu\ncells %llu\ntombstones %llu\n",
		(unsigned long long)u.disk_bytes, (unsigned long long)u.raw_bytes, (unsigned long long)u.memory_bytes,
		(unsigned long long)u.cells, (unsigned long long)u.tombstones);
}

/* The text as a string without the white space around it. */
static int one_line(struct tfs_bytes text, char **out)
{
	while (text.n && memchr("\n \t\r", text.p[text.n - 1], 4))
		text.n--;
	while (text.n && (*text.p == ' ' || *text.p == '\t'))
		text = tfs_bytes_of(text.p + 1, text.n - 1);
	if (text.n && memchr(text.p, 0, text.n))
		return -EINVAL;
	*out = malloc(text.n + 1);
	if (!*out)
		return -ENOMEM;
	if (text.n)
		memcpy(*out, text.p, text.n);
	(*out)[text.n] = 0;
	return 0;
}

static int apply_to_schema(struct node *n, struct tfs_bytes text, const struct caller *caller, struct changes *c)
{
	struct tfs_schema_edit e = {.op = setting_of(n)->op, .explicit_act = true, .name = node_name(n->parent)};
	char *value = NULL;
	int err = one_line(text, &value);

	if (err)
		return refuse(err, n, NULL, "not one line of text");
	e.value = value;
	err = fs_schema_edit_as(n, &e, caller, c);
	free(value);
	return err;
}

#define SCHEMA_SETTING(text, schema_op)                                                                                            \
	{                                                                                                                          \
		.name = #text, .mode = 0644, .render = text##_render, .apply = apply_to_schema, .op = schema_op                    \
	}

static const struct setting family_settings[] = {
	SCHEMA_SETTING(gc, TFS_SCHEMA_FAMILY_GC),
	SCHEMA_SETTING(group, TFS_SCHEMA_FAMILY_GROUP),
	SCHEMA_SETTING(type, TFS_SCHEMA_FAMILY_TYPE),
	{.name = "usage", .mode = 0400, .render = usage_render}, /* it shows families that other users may not list */
	{0},
};
static const struct setting group_settings[] = {
	SCHEMA_SETTING(block_size, TFS_SCHEMA_GROUP_BLOCK_SIZE),
	SCHEMA_SETTING(bloom_bits, TFS_SCHEMA_GROUP_BLOOM_BITS),
	SCHEMA_SETTING(compression, TFS_SCHEMA_GROUP_COMPRESSION),
	SCHEMA_SETTING(in_memory, TFS_SCHEMA_GROUP_IN_MEMORY),
	SCHEMA_SETTING(level, TFS_SCHEMA_GROUP_LEVEL),
	{0},
};

/* ---- the directory of a family or group ---- */

static int schema_dir_find(struct node *dir, struct resolved *r, struct node **out)
{
	int err = fs_schema_bind(r);

	return err ? err : resolved_get(r, out);
}

static int schema_dir_make(const struct making *m, struct resolved *r, struct node **out)
{
	struct tfs_schema_edit e = {.explicit_act = true, .uid = m->ctx->uid, .gid = m->ctx->gid, .mode = new_family_mode(m->mode)};
	int err;

	e.op = r->kind == NODE_FAMILY_DIR ? TFS_SCHEMA_FAMILY_ADD : TFS_SCHEMA_GROUP_ADD;
	e.name = (const char *)r->key.p;
	err = fs_schema_edit(m->dir, &e, m->c);
	return err ? err : schema_dir_find(m->dir, r, out);
}

static int schema_dir_rmdir(struct node *n, const char *name, struct changes *c)
{
	struct tfs_schema_edit e = {.explicit_act = true, .name = node_name(n)};
	int err;

	e.op = n->kind == NODE_FAMILY_DIR ? TFS_SCHEMA_FAMILY_DROP : TFS_SCHEMA_GROUP_DROP;
	err = fs_schema_edit(n, &e, c);
	if (err == 0)
		node_end(n);
	return err;
}

/* Nodes are bound to the id, so open files of the family stay open under the new name. */
static int schema_dir_rename(struct renaming *m)
{
	struct tfs_schema_edit e = {.explicit_act = true, .name = node_name(m->source), .value = m->newname};

	if (m->newdir != m->source->parent)
		return refuse(-EPERM, m->newdir, m->newname, "families and groups stay in their table");
	e.op = m->source->kind == NODE_FAMILY_DIR ? TFS_SCHEMA_FAMILY_RENAME : TFS_SCHEMA_GROUP_RENAME;
	return fs_schema_edit(m->source, &e, m->c);
}

#define SCHEMA_DIR                                                                                                                 \
	.traits = KIND_DIR | KIND_UNCACHED, .name = fs_schema_name, .resolve = setting_resolve,                                    \
	.list = (const list_phase_fn[]){setting_list, NULL}, .rmdir = schema_dir_rmdir, .find = schema_dir_find,                   \
	.make = schema_dir_make, .rename = schema_dir_rename
const struct node_ops family_dir_ops = {
	SCHEMA_DIR, .attr = family_attr, .set_owner = fs_schema_set_owner, .settings = family_settings};
const struct node_ops group_dir_ops = {SCHEMA_DIR, .attr = tree_attr, .settings = group_settings};

/* ---- .families and .groups ---- */

static int resolve_in_families(struct node *dir, const char *name, struct resolved *out)
{
	out->kind = dir->kind == NODE_FAMILIES ? NODE_FAMILY_DIR : NODE_GROUP_DIR;
	return tfs_name_valid(name) ? buf_set(&out->key, name, strlen(name)) : -ENOENT;
}

/* Lists in the order of ids.  The cursor is one above the last id, so additions and removals do not move it. */
static int list_families(struct lister *l, struct list_entry *e)
{
	bool families = l->dir->kind == NODE_FAMILIES;
	unsigned count = families ? l->schema->family_count : l->schema->group_count;

	for (unsigned i = 0; i < count; i++) {
		uint16_t id = families ? l->schema->families[i].id : l->schema->groups[i].id;

		if (id < l->at.number)
			continue;
		l->at.number = id + 1;
		fs_schema_family_key(id, l->family_key);
		*e = (struct list_entry){.name = tfs_str(families ? l->schema->families[i].name : l->schema->groups[i].name),
			.kind = families ? NODE_FAMILY_DIR : NODE_GROUP_DIR,
			.parent = l->dir,
			.key = tfs_str(l->family_key)};
		return 1;
	}
	return 0;
}

#define SCHEMA_LIST                                                                                                                \
	.traits = KIND_DIR | KIND_UNCACHED, .attr = tree_owners_attr, .names = TABLE_NAMES, .resolve = resolve_in_families,        \
	.list = (const list_phase_fn[])                                                                                            \
	{                                                                                                                          \
		list_families, NULL                                                                                                \
	}
const struct node_ops families_ops = {SCHEMA_LIST, .fixed_name = ".families"};
const struct node_ops groups_ops = {SCHEMA_LIST, .fixed_name = ".groups"};
