/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts: directories in the path of a row or cell with a long name.  A part
 * exists if a key or a made directory is below it.
 */
#include "fs/node/kinds.h"

#include "fs/base/extra.h"
#include "engine/base/name.h"
#include "fs/node/list.h"
#include "fs/node/made.h"

#include <errno.h>

int part_path(struct node *dir, const char *name, struct node **base, struct buf *path)
{
	int err = 0;

	*base = dir;
	if (node_is(dir, KIND_PART)) {
		*base = dir->parent;
		err = buf_append_bytes(path, node_key(dir));
		if (err == 0)
			err = buf_u8(path, '/');
	}
	return err ? err : buf_append(path, name, strlen(name));
}

int part_resolve(struct tfs_bytes path, size_t key_max, struct resolved *out)
{
	size_t raw_bytes;

	if (!name_parts_valid(path, &raw_bytes))
		return -ENOENT;
	return raw_bytes < key_max ? buf_append_bytes(&out->key, path) : -ENAMETOOLONG;
}

/* 0 or -ENOENT. */
static int part_exists(struct node *base, struct tfs_bytes path)
{
	struct node *n, *own;
	bool below;

	mutex_lock(tree_mutex());
	own = node_in_table_locked(base);
	n = own ? extra_next_locked(own, 0, &path) : NULL;
	below = n && n->key_n > path.n && memcmp(n->key, path.p, path.n) == 0 && n->key[path.n] == '/';
	mutex_unlock(tree_mutex());
	return below ? 0 : keys_below_part(base, path);
}

int part_find(struct node *dir, struct resolved *r, struct node **out)
{
	int err = made_is(r->parent, r->kind, buf_bytes(&r->key)) ? 0 : part_exists(r->parent, buf_bytes(&r->key));

	return err ? err : resolved_get(r, out);
}

int part_has_cells(struct node *n, bool *has)
{
	int err = part_exists(n->parent, node_key(n));

	*has = err == 0;
	return err == -ENOENT ? 0 : err;
}
