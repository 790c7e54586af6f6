/* SPDX-License-Identifier: Apache-2.0 */
/* The root: .tabletfs and the tables. */
#include "fs/node/list.h"
#include "fs/node/kinds.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static int root_attr(struct node *n, struct stat *st, double *timeout)
{
	tree_dir_attr(n, 0755, fs.uid, fs.gid, st);
	return 0;
}

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

/* The next table's name, into the cursor: 1, 0 at the end, -errno. */
static int next_table(struct lister *l)
{
	struct tables *t = l->memory;
	const char *name;

	if (!t && !(t = l->memory = calloc(1, sizeof(*t))))
		return -ENOMEM;
	if (t->at == t->count) {
		char after[TFS_NAME_MAX + 1] = "";

		if (l->at.key.n)
			memcpy(after, l->at.key.p, l->at.key.n);
		t->at = 0;
		t->count = tfs_table_list(fs.store, after, t->names, BATCH);
		if (t->count <= 0) {
			int err = t->count;

			t->count = 0;
			return err;
		}
	}
	name = t->names[t->at++];
	return buf_set(&l->at.key, name, strlen(name)) ? -ENOMEM : 1;
}

static int list_tables(struct lister *l, struct list_entry *e)
{
	uint8_t key[TABLE_KEY_BYTES];
	struct tfs_table *t;
	const char *name;
	int r;

	do {
		r = next_table(l);
		if (r <= 0)
			return r;
		name = ((const struct tables *)l->memory)->names[((const struct tables *)l->memory)->at - 1];
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

static const char *const root_reserved[] = {".snap", NULL};
static const struct fixed_child root_children[] = {{".tabletfs", NODE_SYSTEM}, {0}};

const struct node_ops root_ops = {
	.traits = KIND_DIR | KIND_TIMED,
	.attr = root_attr,
	.reserved = root_reserved,
	.children = root_children,
	.names = TABLE_NAMES,
	.resolve = root_resolve,
	.list = (const list_phase_fn[]){list_tables, NULL},
};
