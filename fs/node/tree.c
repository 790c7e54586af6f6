/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolving names, attributes, LOOKUP and GETATTR.
 *
 * A directory exists when the store has a cell in it, or when it is an extra
 * entry (made by mkdir, or emptied: made.h).  What the kernel is
 * told holds long for directories and versions, because every change passes
 * here and is notified; plain names, scratch and control names are asked for
 * each time.
 *
 * An answer computed while a commit happened may be stale before the kernel
 * has it: fs.changes is read before and after, and an answer that saw it move
 * is given with no lifetime.
 */
#include "fs/node/tree.h"

#include "fs/node/control.h"
#include "fs/node/dir.h"
#include "fs/node/dirtime.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/base/name.h"
#include "fs/base/reply.h"
#include "fs/node/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void resolved_fini(struct resolved *r)
{
	buf_fini(&r->key);
}

static int resolve_as(struct resolved *out, enum node_kind kind, struct node *parent, struct slice key)
{
	out->kind = kind;
	out->parent = parent;
	out->ts = 0;
	return buf_set(&out->key, key.p, key.n);
}

static int resolve_dot(struct node *dir, const char *name, struct resolved *out)
{
	static const struct {
		const char *name;
		enum node_kind kind;
	} table_names[] = {
		{".schema", NODE_SCHEMA},
		{".families", NODE_FAMILIES},
		{".groups", NODE_GROUPS},
		{".tablets", NODE_SETTING},
		{".ctl", NODE_SETTING},
		{".latest", NODE_LATEST},
	};
	struct slice key = slice_str(name);

	if (dir->kind == NODE_TABLE) {
		for (size_t i = 0; i < sizeof(table_names) / sizeof(table_names[0]); i++) {
			if (strcmp(name, table_names[i].name) != 0)
				continue;
			return resolve_as(
				out, table_names[i].kind, dir, table_names[i].kind == NODE_SETTING ? key : slice_of(NULL, 0));
		}
	}
	return resolve_as(out, NODE_SCRATCH_FILE, dir, key);
}

/* The key path of a name below a table, a family, or the parts of their split names. */
static int path_below(struct node *dir, const char *name, struct node **base, struct buf *path)
{
	int r = 0;

	*base = dir;
	if (dir->kind == NODE_ROW_PART || dir->kind == NODE_CELL_PART) {
		*base = dir->parent;
		r = buf_append_slice(path, node_key(dir));
		if (r == 0)
			r = buf_u8(path, '/');
	}
	return r ? r : buf_append(path, name, strlen(name));
}

/* A directory of a split name: there must be room for a key behind its parts, or directories could be made ever deeper. */
static int resolve_part(struct resolved *out, enum node_kind kind, struct node *base, struct slice path, size_t raw_max)
{
	size_t raw_n;

	if (!name_parts_valid(path, &raw_n))
		return -ENOENT;
	return raw_n < raw_max ? resolve_as(out, kind, base, path) : -ENAMETOOLONG;
}

static int resolve_row(struct node *dir, const char *name, struct resolved *out)
{
	struct buf path = {0};
	struct node *base;
	int r;

	r = path_below(dir, name, &base, &path);
	if (r == 0 && name_is_part(slice_str(name))) {
		r = resolve_part(out, NODE_ROW_PART, base, buf_slice(&path), TFS_ROW_MAX);
	} else if (r == 0) {
		out->kind = NODE_ROW;
		out->parent = base;
		r = name_decode_row(buf_slice(&path), &out->key);
		if (r == 0 && out->key.n > TFS_ROW_MAX)
			r = -ENAMETOOLONG;
	}
	buf_fini(&path);
	return r;
}

static int resolve_cell(struct node *dir, const char *name, struct resolved *out)
{
	enum name_kind what;
	struct buf path = {0};
	struct node *base;
	int r;

	r = path_below(dir, name, &base, &path);
	if (r == 0 && name_is_part(slice_str(name))) {
		r = resolve_part(
			out, NODE_CELL_PART, base, buf_slice(&path), TFS_QUALIFIER_MAX + sizeof("@-9223372036854775808") - 1);
	} else if (r == 0) {
		out->parent = base;
		r = name_decode_cell(buf_slice(&path), &out->key, &what, &out->ts);
		out->kind = what == NAME_VERSION ? NODE_VERSION : NODE_PLAIN;
		if (r == 0 && out->kind == NODE_VERSION && node_is_latest(base))
			r = -ENOENT;
		if (r == 0 && out->key.n > TFS_QUALIFIER_MAX)
			r = -ENAMETOOLONG;
	}
	buf_fini(&path);
	return r;
}

static int resolve_setting(struct node *dir, const char *name, struct resolved *out)
{
	for (const char *const *p = control_names(dir->kind); *p; p++)
		if (strcmp(*p, name) == 0)
			return resolve_as(out, NODE_SETTING, dir, slice_str(name));
	return -ENOENT;
}

int tree_resolve(struct node *dir, const char *name, struct resolved *out, bool *forbidden)
{
	bool dot = name[0] == '.';

	*out = (struct resolved){0};
	*forbidden = false;
	if (strlen(name) > NAME_LONGEST)
		return -ENAMETOOLONG;
	if (dot && control_reserved(dir, name))
		return refuse(-EOPNOTSUPP, dir, name, "this name has no meaning yet; a later version will use it");
	switch ((enum node_kind)dir->kind) {
	case NODE_ROOT:
		if (strcmp(name, ".tabletfs") == 0)
			return resolve_as(out, NODE_SYSTEM, dir, slice_of(NULL, 0));
		*forbidden = dot;
		return !dot && tfs_name_valid(name) ? resolve_as(out, NODE_TABLE, dir, slice_str(name)) : -ENOENT;
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_ROW_PART:
		return dot ? resolve_dot(dir, name, out) : resolve_row(dir, name, out);
	case NODE_ROW:
		if (dot)
			return resolve_dot(dir, name, out);
		return tfs_name_valid(name) ? resolve_as(out, NODE_FAMILY, dir, slice_str(name)) : -ENOENT;
	case NODE_FAMILY:
	case NODE_CELL_PART:
		return dot ? resolve_dot(dir, name, out) : resolve_cell(dir, name, out);
	case NODE_SCRATCH_DIR:
		return resolve_as(out, NODE_SCRATCH_FILE, dir, slice_str(name));
	case NODE_FAMILIES:
		return tfs_name_valid(name) ? resolve_as(out, NODE_FAMILY_DIR, dir, slice_str(name)) : -ENOENT;
	case NODE_GROUPS:
		return tfs_name_valid(name) ? resolve_as(out, NODE_GROUP_DIR, dir, slice_str(name)) : -ENOENT;
	case NODE_FAMILY_DIR:
	case NODE_GROUP_DIR:
	case NODE_SYSTEM:
		*forbidden = true;
		return resolve_setting(dir, name, out);
	case NODE_VERSION:
	case NODE_PLAIN:
	case NODE_SCRATCH_FILE:
	case NODE_SCHEMA:
	case NODE_SETTING:
		break;
	}
	return -ENOTDIR;
}

void tree_table_key(const struct tfs_table *t, uint8_t key[TABLE_KEY_BYTES])
{
	put_be32(key, tfs_table_id(t));
}

static int table_find(const char *name, struct node **out)
{
	uint8_t key[TABLE_KEY_BYTES];
	struct tfs_table *t;
	struct dirx *d;
	struct node *n;
	int r;

	r = tfs_table_open(fs.store, name, &t);
	if (r)
		return r;
	tree_table_key(t, key);
	n = node_get(node_root(), NODE_TABLE, slice_of(key, sizeof(key)), 0);
	if (!n) {
		tfs_table_close(t);
		return -ENOMEM;
	}
	mutex_lock(tree_mutex());
	d = node_dirx_locked(n);
	if (d && !d->table) {
		d->table = t;
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

int tree_bind(struct resolved *r)
{
	const char *name = r->key.p ? (const char *)r->key.p : "";
	const struct tfs_family *f;
	const struct tfs_group *g;
	const struct tfs_schema *s;
	char key[FAMILY_KEY_BYTES];
	int e, id = -1;

	if ((r->kind != NODE_FAMILY && r->kind != NODE_FAMILY_DIR && r->kind != NODE_GROUP_DIR) || name[0] == '#')
		return 0;
	e = tfs_schema_get(node_store_table(r->parent), &s);
	if (e)
		return e;
	if (r->kind == NODE_GROUP_DIR)
		id = (g = tfs_schema_group(s, name)) ? g->id : -1;
	else
		id = (f = tfs_schema_family(s, name)) ? f->id : -1;
	tfs_schema_put(s);
	if (id < 0)
		return -ENOENT;
	tree_family_key((uint16_t)id, key);
	e = buf_set(&r->key, key, strlen(key) + 1);
	if (e == 0)
		r->key.n--;
	return e;
}

void tree_family_key(uint16_t id, char key[FAMILY_KEY_BYTES])
{
	snprintf(key, FAMILY_KEY_BYTES, "#%u", id);
}

bool tree_renamed(struct node *n, struct slice name)
{
	char now[TFS_NAME_MAX + 1];

	return n->kind == NODE_FAMILY && (!control_name(n, now) || !slice_eq(slice_str(now), name));
}

void tree_entry_given(struct node *n, struct slice name, struct fuse_entry_param *e)
{
	node_lookup(n);
	if (tree_renamed(n, name))
		e->entry_timeout = 0;
}

static int check_family(struct resolved *r)
{
	const char *name = (const char *)r->key.p;
	struct node *row = r->parent;
	bool exists = false;
	int e;

	if (made_is(row, NODE_FAMILY, buf_slice(&r->key)))
		return 0;
	e = tfs_row_exists(node_store_table(row), bytes_of(node_key(row)), name, &exists);
	if (e == -EINVAL)
		e = -ENOENT;
	return e ? e : exists ? 0 : -ENOENT;
}

static int check_row(struct resolved *r)
{
	bool exists = false;
	int e;

	if (made_is(r->parent, NODE_ROW, buf_slice(&r->key)))
		return 0;
	e = tfs_row_exists(node_store_table(r->parent), bytes_of(buf_slice(&r->key)), NULL, &exists);
	return e ? e : exists ? 0 : -ENOENT;
}

/*
 * A commit counts itself in fs.changes, then makes what the node remembers unknown
 * under the tree lock, and remembers its own afterwards.  So looking and
 * remembering are one step under that lock: in two, the older size could be
 * put in the place of the commit's and be believed.
 */
bool tree_learnt(struct node *version, const struct tfs_info *info, uint64_t changes)
{
	bool current;

	if (version->epoch != 0 && version->epoch == table_epoch(version) && version->size == info->size &&
		version->commit_us == info->commit_us)
		return changes == atomic_load(&fs.changes);
	mutex_lock(tree_mutex());
	current = changes == atomic_load(&fs.changes);
	if (current) {
		version->size = info->size;
		version->commit_us = info->commit_us;
		version->epoch = table_epoch(version);
	}
	mutex_unlock(tree_mutex());
	return current;
}

static int check_cell(struct resolved *r, struct node **out)
{
	bool version = r->kind == NODE_VERSION;
	uint64_t changes = atomic_load(&fs.changes);
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	struct node *n = NULL;
	bool pending = false;
	int e;

	cell_place_at(r->parent, buf_slice(&r->key), version, r->ts, &p);
	e = family_info_get(r->parent, &f);
	if (e)
		return e;
	e = cell_stat(&p, &info);
	if (e == -EINVAL)
		return -ENOENT; /* the family went just now */
	if (e == -ENOENT) {
		/* Created, and not yet committed, or just now? */
		n = cell_home_find(r->parent, r->kind, buf_slice(&r->key), r->ts);
		if (n)
			e = ofile_stat(n, &p, &info, &pending);
		node_put(n);
	}
	if (e && !pending)
		return e;
	if (!out)
		return 0;
	n = node_get(r->parent, r->kind, buf_slice(&r->key), r->ts);
	if (!n)
		return -ENOMEM;
	if (version && !pending)
		(void)tree_learnt(n, &info, changes);
	*out = n;
	return 0;
}

int tree_check(struct node *dir, struct resolved *r, struct node **out)
{
	struct slice key = buf_slice(&r->key);
	int e = 0;

	/* Names are used as strings where they are names. */
	if (buf_reserve(&r->key, 1))
		return -ENOMEM;
	r->key.p[r->key.n] = 0;
	e = tree_bind(r);
	if (e)
		return e;
	key = buf_slice(&r->key);
	switch (r->kind) {
	case NODE_TABLE: {
		struct node *n;

		e = table_find((const char *)key.p, &n);
		if (e == 0 && out)
			*out = n;
		else if (e == 0)
			node_put(n);
		return e;
	}
	case NODE_ROW:
		e = check_row(r);
		break;
	case NODE_FAMILY:
		e = check_family(r);
		break;
	case NODE_ROW_PART:
	case NODE_CELL_PART:
		e = made_is(r->parent, r->kind, key) ? 0 : dir_part_exists(r->parent, key);
		break;
	case NODE_VERSION:
	case NODE_PLAIN:
		return check_cell(r, out);
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR: {
		struct node *n = scratch_find(dir, key);

		if (!n)
			return -ENOENT;
		if (out)
			*out = n;
		else
			node_put(n);
		return 0;
	}
	case NODE_LATEST:
		e = fs.latest ? -ENOENT : 0;
		break;
	case NODE_SCHEMA:
	case NODE_FAMILY_DIR:
	case NODE_GROUP_DIR:
	case NODE_SETTING: {
		struct node *n = node_get(r->parent, r->kind, key, 0);

		e = n ? control_exists(n) : -ENOMEM;
		if (e == 0 && out)
			*out = n;
		else
			node_put(n);
		return e;
	}
	case NODE_ROOT:
	case NODE_FAMILIES:
	case NODE_GROUPS:
	case NODE_SYSTEM:
		break;
	}
	if (e || !out)
		return e;
	*out = node_get(r->parent, r->kind, key, 0);
	return *out ? 0 : -ENOMEM;
}

int tree_find(struct node *dir, const char *name, struct node **out)
{
	struct resolved r;
	bool forbidden;
	int e;

	e = tree_resolve(dir, name, &r, &forbidden);
	if (e == 0)
		e = tree_check(dir, &r, out);
	resolved_fini(&r);
	return e;
}

/* ---- attributes ---- */

void tree_dir_attr(const struct node *n, mode_t mode, uid_t uid, gid_t gid, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = n->ino;
	st->st_mode = S_IFDIR | (mode & 07777);
	st->st_nlink = 1;
	st->st_uid = uid;
	st->st_gid = gid;
	st->st_blksize = 4096;
	stat_time(&st->st_mtim, dirtime_get(n));
}

double tree_entry_timeout(const struct node *n)
{
	switch ((enum node_kind)n->kind) {
	case NODE_PLAIN:
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR:
	case NODE_SCHEMA:
	case NODE_FAMILIES:
	case NODE_FAMILY_DIR:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
	case NODE_SETTING:
	case NODE_SYSTEM:
		return fs.read_only && (n->kind == NODE_PLAIN || n->kind == NODE_SCHEMA) ? FS_FOREVER : 0;
	case NODE_ROOT:
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_FAMILY:
	case NODE_CELL_PART:
	case NODE_VERSION:
		break;
	}
	return FS_FOREVER;
}

static mode_t with_x(mode_t mode)
{
	return mode | (mode & 0444) >> 2;
}

static int dir_attr(struct node *n, struct stat *st)
{
	const struct tfs_schema *s;
	const struct tfs_family *f = NULL;
	int r;

	r = tfs_schema_get(node_store_table(n), &s);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	if (n->kind == NODE_CELL_PART)
		f = tfs_schema_family(s, node_name(n->parent));
	else if (n->kind == NODE_FAMILY || n->kind == NODE_FAMILY_DIR)
		f = tfs_schema_family(s, node_name(n));
	if (f)
		tree_dir_attr(n, with_x(f->mode & 0777), f->uid, f->gid, st);
	else if (n->kind == NODE_FAMILY || n->kind == NODE_FAMILY_DIR)
		r = -ESTALE;
	else
		tree_dir_attr(n, s->mode, s->uid, s->gid, st);
	tfs_schema_put(s);
	return r;
}

static int version_attr(struct node *n, struct stat *st, double *timeout);

/* Removed, replaced or renamed: for those who have it open. */
static int gone_attr(struct node *n, struct stat *st, double *timeout)
{
	struct filex *x = filex_find(n);
	struct family_info f;
	int r;

	if (!x)
		return -ENOENT;
	if (!node_lives(x->node)) {
		r = family_info_get(n->parent, &f);
		if (r == 0) {
			mutex_lock(&x->lock);
			cell_attr(n, &f, n->ts, n->commit_us, writer_size(&x->w), st);
			mutex_unlock(&x->lock);
			st->st_nlink = 0;
		}
	} else {
		r = version_attr(x->node, st, timeout);
	}
	*timeout = 0;
	filex_put(x);
	return r;
}

static int version_attr(struct node *n, struct stat *st, double *timeout)
{
	uint64_t changes = atomic_load(&fs.changes), size;
	struct tfs_info info = {.expires_us = INT64_MAX};
	struct family_info f;
	struct cell_place p;
	struct staged s;
	int r;

	if (!node_lives(n))
		return gone_attr(n, st, timeout);
	r = family_info_get(n->parent, &f);
	if (r)
		return r;
	if (n->file && ofile_pending(n, &s)) {
		cell_attr(n, &f, n->ts, s.touched_us, s.size, st);
		*timeout = 0; /* the commit will have a later time, and the kernel is not told of it */
		return 0;
	}
	if (n->epoch != 0 && n->epoch == table_epoch(n) && f.max_age_us == 0 && !f.counted_versions) {
		cell_attr(n, &f, n->ts, n->commit_us, n->size, st);
		*timeout = FS_FOREVER;
		return 0;
	}
	cell_place_of(n, &p);
	r = cell_stat(&p, &info);
	if (r == -ENOENT && ofile_is_open(n, &size)) {
		cell_attr(n, &f, n->ts, n->commit_us, size, st);
		st->st_nlink = 0;
		*timeout = 0;
		return 0;
	}
	if (r)
		return r;
	cell_attr(n, &f, n->ts, info.commit_us, info.size, st);
	*timeout = tree_learnt(n, &info, changes) ? version_timeout(&f, info.expires_us) : 0;
	return 0;
}

/* What a plain name shows: what is pending, else what the store has. */
static int named_attr(struct node *n, const struct family_info *f, struct stat *st)
{
	struct tfs_info info;
	struct cell_place p;
	struct staged s;
	bool own, staged = ofile_staged(n, &own, &s);
	int r = -ENOENT;

	if (!staged || !own) {
		cell_place_of(n, &p);
		r = cell_stat(&p, &info);
	}
	if (r == 0) {
		cell_attr(n, f, info.ts, info.commit_us, info.size, st);
	} else if (r == -ENOENT && staged) {
		cell_attr(n, f, s.time_us, s.touched_us, own ? s.size : 0, st);
		r = 0;
	}
	return r;
}

/* What the file was renamed to while open, counted, or NULL. */
static struct node *forward_of(struct node *n)
{
	struct filex *x = filex_find(n);
	struct node *target = x ? filex_target(x) : NULL;

	filex_put(x);
	return target;
}

static int plain_attr(struct node *n, struct stat *st)
{
	struct node *at;
	struct family_info f, g;
	double timeout;
	uint64_t size;
	int64_t now;
	int r;

	r = family_info_get(n->parent, &f);
	if (r)
		return r;
	r = node_lives(n) ? named_attr(n, &f, st) : -ENOENT;
	if (r != -ENOENT)
		return r;
	at = forward_of(n);
	if (at && at->kind != NODE_PLAIN)
		r = tree_attr(at, st, &timeout);
	else if (at && node_lives(at) && (r = family_info_get(at->parent, &g)) == 0)
		r = named_attr(at, &g, st);
	node_put(at);
	if (r != -ENOENT && r != -ESTALE)
		return r;
	if (!ofile_is_open(n, &size))
		return -ENOENT;
	now = fs_now_us();
	cell_attr(n, &f, now, now, size, st);
	st->st_nlink = 0;
	return 0;
}

int tree_attr(struct node *n, struct stat *st, double *timeout)
{
	int r = 0;

	*timeout = tree_entry_timeout(n);
	switch ((enum node_kind)n->kind) {
	case NODE_ROOT:
	case NODE_SYSTEM:
		tree_dir_attr(n, 0755, fs.uid, fs.gid, st);
		break;
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_FAMILY:
	case NODE_CELL_PART:
	case NODE_FAMILIES:
	case NODE_FAMILY_DIR:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
		r = dir_attr(n, st);
		break;
	case NODE_VERSION:
		r = version_attr(n, st, timeout);
		break;
	case NODE_PLAIN:
		r = plain_attr(n, st);
		break;
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR:
		r = scratch_attr(n, st);
		break;
	case NODE_SCHEMA:
	case NODE_SETTING:
		r = control_attr(n, st);
		break;
	}
	return r == -ENOENT ? -ESTALE : r;
}

int tree_entry(struct node *n, struct fuse_entry_param *e)
{
	int r;

	memset(e, 0, sizeof(*e));
	e->ino = id_of(n);
	r = tree_attr(n, &e->attr, &e->attr_timeout);
	e->entry_timeout = tree_entry_timeout(n);
	if (n->kind == NODE_VERSION && e->attr_timeout < e->entry_timeout)
		e->entry_timeout = e->attr_timeout;
	return r;
}

void tree_entry_version(struct node *n, const struct family_info *f, const struct tfs_info *info, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof(*e));
	e->ino = id_of(n);
	cell_attr(n, f, n->ts, info->commit_us, info->size, &e->attr);
	e->attr_timeout = e->entry_timeout = version_timeout(f, info->expires_us);
}

void tree_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct fuse_entry_param e;
	int r;

	r = tree_find(dir, name, &n);
	if (r == 0) {
		control_looked_up(n);
		r = tree_entry(n, &e);
	}
	if (r == -ESTALE)
		r = -ENOENT; /* it went between the two */
	if (r) {
		reply_err(req, refuse_store(r, dir, name, "cannot be looked up"));
	} else {
		tree_entry_given(n, slice_str(name), &e);
		stale_found(req, n);
		if (fuse_reply_entry(req, &e) != 0)
			node_forget(n, 1);
	}
	node_put(n);
}

void tree_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino), *other;
	struct family_info f;
	struct stat st;
	double timeout;
	int r;

	r = tree_attr(n, &st, &timeout);
	other = r == -ESTALE ? node_again(n) : NULL;
	if (other)
		r = tree_attr(other, &st, &timeout);
	node_put(other);
	r = stale_answer(req, n, r);
	if (r == 0 && n->kind == NODE_PLAIN && fi && fi->fh)
		st.st_size = (off_t)ofile_end(fi); /* lseek: the end of what this descriptor reads */
	if (r == -ENOENT && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION) && family_info_get(n->parent, &f) == 0) {
		/* Gone since it was looked up: a file without a name.  If it is to be opened, OPEN decides. */
		cell_attr(n, &f, n->kind == NODE_VERSION ? n->ts : fs_now_us(), fs_now_us(), 0, &st);
		st.st_nlink = 0;
		timeout = 0;
		r = 0;
	}
	if (r)
		reply_err(req, refuse_store(r, n, NULL, "its attributes cannot be read"));
	else
		fuse_reply_attr(req, &st, timeout);
}
