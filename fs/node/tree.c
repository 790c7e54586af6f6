/* SPDX-License-Identifier: Apache-2.0 */
/* Names to nodes, for nodes of any kind. */
#include "fs/node/tree.h"

#include "engine/base/name.h"
#include "fs/base/dir_time.h"
#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/node/kinds.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/schema/setting.h"

#include <errno.h>

void resolved_fini(struct resolved *r)
{
	buf_fini(&r->key);
	node_put(r->held);
	r->held = NULL;
}

static bool is_reserved(const struct node *dir, const char *name)
{
	const char *const *p = node_ops(dir)->reserved;

	while (p && *p && strcmp(*p, name) != 0)
		p++;
	return p && *p;
}

/* Returns 1 if the name has a meaning of its own in the directory, 0, -errno. */
static int resolve_listed(struct node *dir, const char *name, struct resolved *out)
{
	/* In the view of a scan, a row has no control files. */
	const struct fixed_child *f = node_above(dir, NODE_VIEW) ? NULL : node_ops(dir)->children;
	const struct setting *s = node_ops(dir)->settings;

	out->parent = dir;
	while (f && f->name && strcmp(f->name, name) != 0)
		f++;
	if (f && f->name) {
		out->kind = f->kind;
		return kind_is(f->kind, KIND_NAMED) && buf_set(&out->key, name, strlen(name)) ? -ENOMEM : 1;
	}
	while (s && s->name && !setting_is(s, name))
		s++;
	if (!s || !s->name)
		return 0;
	out->kind = NODE_SETTING;
	return buf_set(&out->key, name, strlen(name)) ? -ENOMEM : 1;
}

int tree_resolve(struct node *dir, const char *name, struct resolved *out)
{
	int r;

	*out = (struct resolved){0};
	if (strlen(name) > NAME_LONGEST)
		return -ENAMETOOLONG;
	if (is_reserved(dir, name))
		return refuse(-EOPNOTSUPP, dir, name, "this name has no meaning yet; a later version will use it");
	if (!node_is_dir(dir))
		return -ENOTDIR;
	r = resolve_listed(dir, name, out);
	if (r)
		return r < 0 ? r : 0;
	return node_ops(dir)->resolve ? node_ops(dir)->resolve(dir, name, out) : -ENOENT;
}

int tree_find_resolved(struct node *dir, struct resolved *r, struct node **out)
{
	const struct node_ops *o = kind_ops(r->kind);
	struct node *n;
	int err;

	/* Names are used as strings. */
	if (buf_reserve(&r->key, 1))
		return -ENOMEM;
	r->key.p[r->key.n] = 0;
	if (o->find)
		return o->find(dir, r, out);
	err = resolved_get(r, &n);
	if (err == 0 && o->exists)
		err = o->exists(n);
	if (err == 0)
		*out = n;
	else
		node_put(n);
	return err;
}

int tree_exists(struct node *dir, struct resolved *r)
{
	struct node *n = NULL;
	int err = tree_find_resolved(dir, r, &n);

	if (err == 0)
		node_put(n);
	return err;
}

int tree_find(struct node *dir, const char *name, struct node **out)
{
	struct resolved r;
	int err = tree_resolve(dir, name, &r);

	if (err == 0)
		err = tree_find_resolved(dir, &r, out);
	resolved_fini(&r);
	return err;
}

int tree_check_writable(struct node *n, const char *name)
{
	if (node_in_scan(n))
		return refuse(-EROFS, n, name, "the results of a scan can only be read");
	return node_is_frozen(n) ? refuse(-EROFS, n, name, "a snapshot cannot be changed") : 0;
}

int tree_resolve_new(struct node *dir, const char *name, struct resolved *out)
{
	const char *names = node_ops(dir)->names;
	int err = tree_check_writable(dir, name);

	*out = (struct resolved){0};
	if (err)
		return err;
	err = tree_resolve(dir, name, out);

	if (err == -ENAMETOOLONG)
		return refuse(err, dir, name, "too long for a name or a key");
	if (err == 0 && kind_is(out->kind, KIND_SCRATCH))
		err = control_name_check(dir, name);
	if (err == 0)
		err = permit_data(dir, name, out->kind, false);
	if (err != -ENOENT)
		return err;
	if (out->forbidden)
		return refuse(-EPERM, dir, name, "no such name can be made here");
	return refuse(-EINVAL, dir, name, "%s", names ? names : "not the canonical name of anything that can be here");
}

void tree_count_entry(struct node *n, struct tfs_bytes name, struct fuse_entry_param *e)
{
	node_lookup(n);
	if (n->kind == NODE_FAMILY && fs_schema_renamed(n, name))
		e->entry_timeout = 0;
}

void tree_changed_if_unknown(struct changes *c, struct node *dir, const char *name, int err)
{
	if (err != -ENOMEM && err != -EIO)
		return;
	changes_listing(c, dir);
	changes_entry(c, dir, tfs_str(name));
}

void tree_dir_attr(const struct node *n, mode_t mode, uid_t uid, gid_t gid, struct stat *st)
{
	const bool latest = node_is(n, KIND_TIMED) && !node_in_scan(n) && node_is_latest(n);
	int64_t us = latest ? dir_time_get(n) : 0;

	memset(st, 0, sizeof(*st));
	st->st_ino = node_number(n);
	st->st_mode = S_IFDIR | (mode & 07777);
	st->st_nlink = 1;
	st->st_uid = uid;
	st->st_gid = gid;
	st->st_blksize = 4096;
	stat_time(&st->st_mtim, us);
	/*
	 * Times end with the mount.  A program that keeps them longer sees by the change
	 * time that it must list the directory again.
	 */
	stat_time(&st->st_ctim, !latest ? 0 : us > fs.started_us ? us : fs.started_us);
}

int tree_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct tfs_schema *s;
	int err;

	if (!node_table(n)) {
		tree_dir_attr(n, 0755, fs.uid, fs.gid, st);
		return 0;
	}
	err = tfs_schema_get(node_store_table(n), &s);
	if (err)
		return err;
	tree_dir_attr(n, s->mode, s->uid, s->gid, st);
	tfs_schema_put(s);
	return 0;
}

int tree_owners_attr(struct node *n, struct stat *st, double *timeout)
{
	int err = tree_attr(n, st, timeout);

	if (err == 0)
		st->st_mode &= ~(mode_t)0022;
	return err;
}
