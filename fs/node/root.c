/* SPDX-License-Identifier: Apache-2.0 */
/* The root: .tabletfs, .snap and the tables. */
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static int root_resolve(struct node *dir, const char *name, struct resolved *out)
{
	out->forbidden = name[0] == '.';
	if (out->forbidden || !tfs_name_valid(name))
		return -ENOENT;
	out->kind = NODE_TABLE;
	out->parent = dir;
	return buf_set(&out->key, name, strlen(name));
}

/* ---- the listing ---- */

#define BATCH 16

struct tables {
	char names[BATCH][TFS_NAME_MAX + 1];
	int count, at;
};

static int list_tables(struct lister *l, struct list_entry *e)
{
	uint8_t key[TABLE_KEY_BYTES];
	struct tables *names = l->memory;
	struct tfs_table *t;
	const char *name;
	int r;

	if (!names && !(names = l->memory = calloc(1, sizeof(*names))))
		return -ENOMEM;
	do {
		if (names->at == names->count) {
			char after[TFS_NAME_MAX + 1] = "";

			if (l->at.key.n)
				memcpy(after, l->at.key.p, l->at.key.n);
			names->at = names->count = 0;
			r = tfs_table_list(fs.store, after, names->names, BATCH);
			if (r <= 0)
				return r;
			names->count = r;
		}
		name = names->names[names->at++];
		r = buf_set(&l->at.key, name, strlen(name));
		if (r == 0)
			r = tfs_table_open(fs.store, name, &t);
	} while (r == -ENOENT); /* dropped meanwhile */
	*e = (struct list_entry){.name = slice_str(name), .kind = NODE_TABLE, .parent = l->dir, .key = slice_str(name)};
	if (r == -EBADMSG) {
		e->unsure = true; /* its schema is damaged: everything but the name is EIO */
		return 1;
	}
	if (r)
		return r;
	table_key(t, key);
	tfs_table_close(t);
	r = buf_set(&l->name, key, sizeof(key));
	e->key = buf_slice(&l->name);
	return r ? r : 1;
}

static const struct fixed_child root_children[] = {{".tabletfs", NODE_SYSTEM}, {".snap", NODE_SNAPS}, {0}};

const struct node_ops root_ops = {
	.traits = KIND_DIR | KIND_TIMED,
	.attr = tree_attr,
	.children = root_children,
	.names = TABLE_NAMES,
	.resolve = root_resolve,
	.list = (const list_phase_fn[]){list_tables, NULL},
};
