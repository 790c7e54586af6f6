/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SETATTR, CREATE, MKDIR, RMDIR, UNLINK.
 *
 * A removal first copies what somebody has open, then removes it in one
 * mutation under a check that it is there, then cuts off its writers and notes
 * what the kernel may hold, and only then enters the directories above as left
 * (made.h): they stay, empty, until they are removed, so rm -r does not find
 * them gone.
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
#include <limits.h>

/* ---- setattr ---- */

static int time_us(const struct timespec *t, int64_t *us)
{
	int64_t v;

	if (__builtin_mul_overflow((int64_t)t->tv_sec, (int64_t)1000000, &v)) {
		/* The first microseconds there are lie in a second that begins before them. */
		if (t->tv_sec != INT64_MIN / 1000000 - 1)
			return -EOVERFLOW;
		v = ((int64_t)t->tv_sec + 1) * 1000000;
		if (__builtin_add_overflow(v, t->tv_nsec / 1000 - 1000000, us))
			return -EOVERFLOW;
		return 0;
	}
	return __builtin_add_overflow(v, (int64_t)(t->tv_nsec / 1000), us) ? -EOVERFLOW : 0;
}

static int set_times(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	int64_t us = fs_now_us();
	int r = 0;

	if (n->kind == NODE_VERSION)
		return 0; /* it has the time in its name */
	if (node_is_dir(n)) {
		if ((to_set & FUSE_SET_ATTR_MTIME_NOW) || time_us(&attr->st_mtim, &us) == 0)
			dirtime_set(n, us);
		return 0;
	}
	if ((to_set & FUSE_SET_ATTR_SIZE) && !(to_set & FUSE_SET_ATTR_MTIME))
		return 0; /* truncate(2)'s own "now" */
	if (!(to_set & FUSE_SET_ATTR_MTIME_NOW)) {
		r = time_us(&attr->st_mtim, &us);
		if (r)
			return refuse(r, n, NULL, "the time does not fit a timestamp");
		if (us == 0)
			us = fs_now_us(); /* rsync marks interrupted files so */
		if (us == TFS_NO_TIME)
			return refuse(-EOVERFLOW, n, NULL, "the time does not fit a timestamp");
	}
	return ofile_set_time(n, us, c);
}

static int set_table(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	struct tfs_schema_edit e = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	int r = 0;

	if (to_set & FUSE_SET_ATTR_MODE) {
		e.op = n->kind == NODE_TABLE ? TFS_SCHEMA_TABLE_MODE : TFS_SCHEMA_FAMILY_MODE;
		e.mode = n->kind == NODE_TABLE ? attr->st_mode & 07777 : attr->st_mode & 0666;
	}
	e.explicit_act = n->kind != NODE_TABLE;
	e.name = e.explicit_act ? node_name(n) : NULL;
	if (to_set & FUSE_SET_ATTR_MODE)
		r = control_change(n, &e, c);
	if (r == 0 && (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))) {
		e.op = n->kind == NODE_TABLE ? TFS_SCHEMA_TABLE_OWNER : TFS_SCHEMA_FAMILY_OWNER;
		if (to_set & FUSE_SET_ATTR_UID)
			e.uid = attr->st_uid;
		if (to_set & FUSE_SET_ATTR_GID)
			e.gid = attr->st_gid;
		r = control_change(n, &e, c);
	}
	return r;
}

/* Has nobody said which families there are?  Then modes and owners come later, too, as in a restore. */
static bool schema_is_open(struct node *n)
{
	const struct tfs_schema *s;
	struct node *table = node_table(n);
	bool open;

	if (!table || tfs_schema_get(node_store_table(n), &s))
		return false;
	open = s->mkdir_families;
	tfs_schema_put(s);
	return open;
}

/* chmod and chown of what only mirrors the schema. */
static int set_mirrored(struct node *n, const struct stat *attr, int to_set)
{
	struct stat now;
	double timeout;
	int r;

	if (schema_is_open(n) || n->kind == NODE_SCHEMA)
		return 0;
	r = tree_attr(n, &now, &timeout);
	if (r)
		return r;
	if ((!(to_set & FUSE_SET_ATTR_MODE) || (attr->st_mode & 07777) == (now.st_mode & 07777)) &&
		(!(to_set & FUSE_SET_ATTR_UID) || attr->st_uid == now.st_uid) &&
		(!(to_set & FUSE_SET_ATTR_GID) || attr->st_gid == now.st_gid))
		return 0;
	if (fs.quiet)
		return 0;
	return refuse(-EPERM, n, NULL, "mode and owner are the family's (.families) or the table's: see the mount option quiet");
}

static int set_mode(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	switch ((enum node_kind)n->kind) {
	case NODE_TABLE:
	case NODE_FAMILY_DIR:
		return set_table(n, attr, to_set, c);
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR:
		scratch_set(n, to_set & FUSE_SET_ATTR_MODE ? attr->st_mode & 07777 : (mode_t)-1,
			to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
			to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1);
		return 0;
	case NODE_ROOT:
	case NODE_LATEST:
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_FAMILY:
	case NODE_CELL_PART:
	case NODE_VERSION:
	case NODE_PLAIN:
	case NODE_SCHEMA:
	case NODE_FAMILIES:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
	case NODE_SETTING:
	case NODE_SYSTEM:
		break;
	}
	return set_mirrored(n, attr, to_set);
}

void tree_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct handle *h = fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
	struct changes c = {0};
	struct stat st;
	double timeout = 0;
	int r = 0;

	if (to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		r = set_mode(n, attr, to_set, &c);
	if (r == 0 && (to_set & FUSE_SET_ATTR_SIZE))
		r = attr->st_size < 0 ? -EINVAL : ofile_truncate(n, h, (uint64_t)attr->st_size, &c);
	if (r == 0 && (to_set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)))
		r = set_times(n, attr, to_set, &c);
	if (r == 0)
		r = tree_attr(n, &st, &timeout);
	r = stale_answer(req, n, r);
	if (r)
		changes_reply_err(&c, req, refuse_store(r, n, NULL, "not changed"));
	else
		changes_reply_attr(&c, req, &st, timeout);
}

/* ---- create ---- */

const char *tree_name_reason(const struct node *dir)
{
	return dir->kind == NODE_ROOT || dir->kind == NODE_FAMILIES || dir->kind == NODE_GROUPS
		? "names of tables, families and groups match [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
		: "not the canonical name of anything that can be here";
}

/* What creating an impossible name gives. */
static int cannot_create(int r, struct node *dir, const char *name, bool forbidden)
{
	if (r == -ENAMETOOLONG)
		return refuse(r, dir, name, "too long for a name or a key");
	if (r != -ENOENT)
		return r;
	if (forbidden)
		return refuse(-EPERM, dir, name, "no such name can be made here");
	return refuse(-EINVAL, dir, name, "%s", tree_name_reason(dir));
}

static bool may_be_file(enum node_kind kind)
{
	return kind == NODE_VERSION || kind == NODE_PLAIN || kind == NODE_SCRATCH_FILE || kind == NODE_SCHEMA;
}

/* The node to be opened, counted; *exists: it was there. */
static int create_node(fuse_req_t req, struct node *dir, const char *name, mode_t mode, int flags, struct resolved *what,
	bool *exists, struct node **out)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int r = tree_check(dir, what, out);

	*exists = r == 0;
	if (r == 0 && (flags & O_EXCL))
		r = -EEXIST;
	else if (r == 0 && node_is_dir(*out))
		r = -EISDIR;
	if (r != -ENOENT)
		return r;
	if (!may_be_file(what->kind))
		return refuse(-EPERM, dir, name, "a file cannot be here: TABLE/ROW/FAMILY/QUALIFIER");
	if (what->kind == NODE_SCRATCH_FILE)
		return scratch_make(dir, buf_slice(&what->key), false, mode & 07777, ctx->uid, ctx->gid, out);
	*out = node_get(what->parent, what->kind, buf_slice(&what->key), what->ts);
	return *out ? 0 : -ENOMEM;
}

/* The kernel would try once more what went as it was opened. */
#define CREATE_TRIES 10

void tree_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct node *dir = node_of(parent);
	struct resolved what;
	bool forbidden, exists, answered = false;
	int r;

	r = tree_resolve(dir, name, &what, &forbidden);
	if (r)
		r = cannot_create(r, dir, name, forbidden);
	for (int i = 0; !answered && (r == 0 || r == -ESTALE) && i < CREATE_TRIES; i++) {
		struct node *n = NULL;

		r = create_node(req, dir, name, mode, fi->flags, &what, &exists, &n);
		if (r == 0) {
			r = ofile_create(req, n, exists, fi);
			answered = r == 0;
		}
		node_put(n);
	}
	if (!answered)
		reply_err(req, refuse_store(r, dir, name, "cannot be created"));
	resolved_fini(&what);
}

void tree_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct fuse_entry_param e;
	struct changes c = {0};
	struct resolved what;
	bool forbidden, exists;
	int r;

	(void)rdev;
	if (!S_ISREG(mode)) {
		reply_err(req, refuse(-EPERM, dir, name, "there are no devices, pipes or sockets in a table"));
		return;
	}
	r = tree_resolve(dir, name, &what, &forbidden);
	if (r)
		r = cannot_create(r, dir, name, forbidden);
	if (r == 0)
		r = create_node(req, dir, name, mode, O_EXCL, &what, &exists, &n);
	if (r == 0)
		r = ofile_make(n, &c);
	if (r == 0)
		r = tree_entry(n, &e);
	if (r) {
		changes_reply_err(&c, req, refuse_store(r, dir, name, "cannot be created"));
	} else {
		changes_listing(&c, dir);
		node_lookup(n);
		changes_reply_entry(&c, req, n, &e);
	}
	node_put(n);
	resolved_fini(&what);
}

void tree_in_doubt(struct changes *c, struct node *dir, const char *name, int r)
{
	if (r != -ENOMEM && r != -EIO)
		return;
	changes_listing(c, dir);
	changes_entry(c, dir, slice_str(name));
}

/* ---- mkdir ---- */

int tree_make_family(struct node *row, const char *name, const struct fuse_ctx *ctx, struct changes *c)
{
	struct tfs_schema_edit e = {
		.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .uid = ctx->uid, .gid = ctx->gid, .mode = 0644, .mtime_us = TFS_NO_TIME};
	const struct tfs_schema *s;
	bool known, open;
	int r;

	r = tfs_schema_get(node_store_table(row), &s);
	if (r)
		return r;
	known = tfs_schema_family(s, name) != NULL;
	open = s->mkdir_families;
	tfs_schema_put(s);
	if (known)
		return 0;
	if (!open)
		return refuse(-EPERM, row, name, "the table has no such family: mkdir TABLE/.families/%s makes it", name);
	r = control_change(row, &e, c);
	return r == -EEXIST ? 0 : r;
}

/* An empty directory that stays until rmdir.  -ESTALE: the name is no longer what it was resolved to. */
static int make_extra(struct resolved *what, const char *name, struct node **out)
{
	int r = tree_bind(what);

	if (r == 0)
		r = made_add(what->parent, what->kind, buf_slice(&what->key), out);
	if (r)
		return r;
	/* Who has dropped or renamed the family may not have seen it. */
	if (control_dropped(*out)) {
		r = -ESTALE;
	} else if (tree_renamed(*out, slice_str(name))) {
		made_take_back(*out);
		r = -ESTALE;
	}
	if (r) {
		node_put(*out);
		*out = NULL; /* the caller tries again, and puts the node of its last try */
	}
	return r;
}

static int make_schema_dir(struct resolved *what, const struct fuse_ctx *ctx, mode_t mode, struct changes *c, struct node **out)
{
	struct tfs_schema_edit e = {.explicit_act = true, .uid = ctx->uid, .gid = ctx->gid, .mode = 0644, .mtime_us = TFS_NO_TIME};
	int r;

	(void)mode;
	e.op = what->kind == NODE_FAMILY_DIR ? TFS_SCHEMA_FAMILY_ADD : TFS_SCHEMA_GROUP_ADD;
	e.name = (const char *)what->key.p;
	r = control_change(what->parent, &e, c);
	if (r == 0)
		r = tree_bind(what);
	if (r)
		return r;
	*out = node_get(what->parent, what->kind, buf_slice(&what->key), 0);
	return *out ? 0 : -ENOMEM;
}

static int make_dir(
	struct node *dir, const char *name, mode_t mode, const struct fuse_ctx *ctx, struct changes *c, struct node **out)
{
	struct resolved what;
	bool forbidden;
	int r;

	r = tree_resolve(dir, name, &what, &forbidden);
	if (r) {
		r = cannot_create(r, dir, name, forbidden);
		goto out;
	}
	r = tree_check(dir, &what, NULL);
	if (r == 0)
		r = -EEXIST;
	if (r != -ENOENT)
		goto out;
	switch (what.kind) {
	case NODE_TABLE:
		r = tfs_table_create(fs.store, name, ctx->uid, ctx->gid, mode & 07777);
		if (r == 0)
			r = tree_check(dir, &what, out);
		break;
	case NODE_FAMILY:
		r = tree_make_family(dir, name, ctx, c);
		if (r == 0)
			r = make_extra(&what, name, out);
		break;
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_CELL_PART:
		r = make_extra(&what, name, out);
		break;
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR:
		r = scratch_make(dir, buf_slice(&what.key), true, mode & 07777, ctx->uid, ctx->gid, out);
		break;
	case NODE_FAMILY_DIR:
	case NODE_GROUP_DIR:
		r = make_schema_dir(&what, ctx, mode, c, out);
		break;
	case NODE_ROOT:
	case NODE_LATEST:
	case NODE_VERSION:
	case NODE_PLAIN:
	case NODE_SCHEMA:
	case NODE_FAMILIES:
	case NODE_GROUPS:
	case NODE_SETTING:
	case NODE_SYSTEM:
		r = refuse(-EPERM, dir, name,
			dir->kind == NODE_FAMILY || dir->kind == NODE_CELL_PART
				? "a family holds cells only: a path can be a row, or a cell's name with %%2F for each /"
				: "a directory cannot be here");
		break;
	}
out:
	resolved_fini(&what);
	return r;
}

/* Of the directory in both views. */
static void listings_changed(struct changes *c, struct node *dir)
{
	struct node *twin;

	mutex_lock(tree_mutex());
	changes_listing_locked(c, dir);
	twin = node_twin_locked(dir);
	if (twin)
		changes_listing_locked(c, twin);
	mutex_unlock(tree_mutex());
}

void tree_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct fuse_entry_param e;
	struct changes c = {0};
	int r = -ESTALE;

	for (int i = 0; r == -ESTALE && i < CREATE_TRIES; i++)
		r = make_dir(dir, name, mode, fuse_req_ctx(req), &c, &n);
	if (r == 0) {
		listings_changed(&c, dir);
		made_settle(&c);
		r = tree_entry(n, &e);
	}
	if (r) {
		tree_in_doubt(&c, dir, name, r);
		changes_reply_err(&c, req, refuse_store(r, dir, name, "cannot be made"));
	} else {
		tree_entry_given(n, slice_str(name), &e);
		changes_reply_entry(&c, req, n, &e);
	}
	node_put(n);
}

/* ---- rmdir ---- */

static bool lies_below(void *arg, const struct node *n)
{
	for (n = n->parent; n; n = n->parent)
		if (n == arg)
			return true;
	return false;
}

int tree_dir_gone(struct node *dir, struct changes *c)
{
	if (dir->kind != NODE_TABLE) {
		int r = made_removed(dir, c);

		if (r)
			return r;
	} else {
		mutex_lock(tree_mutex());
		node_end_locked(dir);
		mutex_unlock(tree_mutex());
		/* Its other view may have some left. */
		scratch_end(lies_below, dir);
	}
	dirtime_forget(dir);
	return 0;
}

bool tree_has_extras(struct node *dir)
{
	struct node *twin;
	bool any;

	mutex_lock(tree_mutex());
	twin = node_is_dir(dir) && dir->kind != NODE_TABLE ? node_twin_locked(dir) : NULL;
	any = node_extra_any_locked(dir) || (twin && node_extra_any_locked(twin));
	mutex_unlock(tree_mutex());
	return any;
}

/* Has it nothing that its own view lists, but scratch in the other? */
static bool scratch_elsewhere(struct node *dir)
{
	struct node *twin, *first;
	bool is;

	mutex_lock(tree_mutex());
	twin = node_twin_locked(dir);
	first = twin ? node_extra_next_locked(twin, 0, NULL) : NULL;
	is = first && (first->kind == NODE_SCRATCH_FILE || first->kind == NODE_SCRATCH_DIR) && !node_extra_any_locked(dir);
	mutex_unlock(tree_mutex());
	return is;
}

static int remove_dir(struct node *n, const char *name, struct changes *c)
{
	struct tfs_schema_edit e = {
		.explicit_act = true, .name = node_name(n), .uid = (uid_t)-1, .gid = (gid_t)-1, .mtime_us = TFS_NO_TIME};
	bool exists = false;
	int r = 0;

	if (tree_has_extras(n))
		return scratch_elsewhere(n) ? refuse(-ENOTEMPTY, n, NULL, "the table's other view has scratch in it") : -ENOTEMPTY;
	/* A file that was created, and is not committed yet, is in no store. */
	if ((n->kind == NODE_FAMILY || n->kind == NODE_CELL_PART) && ofile_pending_below(n))
		return -ENOTEMPTY;
	switch ((enum node_kind)n->kind) {
	case NODE_TABLE:
		r = tfs_table_drop(fs.store, name);
		break;
	case NODE_ROW:
		r = tfs_row_exists(node_store_table(n), bytes_of(node_key(n)), NULL, &exists);
		break;
	case NODE_FAMILY:
		r = tfs_row_exists(node_store_table(n), bytes_of(node_key(n->parent)), node_name(n), &exists);
		break;
	case NODE_ROW_PART:
	case NODE_CELL_PART:
		r = dir_part_exists(n->parent, node_key(n));
		exists = r == 0;
		if (r == -ENOENT)
			r = 0;
		break;
	case NODE_SCRATCH_DIR:
		return scratch_remove(n);
	case NODE_FAMILY_DIR:
		e.op = TFS_SCHEMA_FAMILY_DROP;
		r = control_change(n, &e, c);
		break;
	case NODE_GROUP_DIR:
		e.op = TFS_SCHEMA_GROUP_DROP;
		r = control_change(n, &e, c);
		break;
	case NODE_ROOT:
	case NODE_LATEST:
	case NODE_FAMILIES:
	case NODE_GROUPS:
	case NODE_SYSTEM:
		return -EPERM;
	case NODE_VERSION:
	case NODE_PLAIN:
	case NODE_SCRATCH_FILE:
	case NODE_SCHEMA:
	case NODE_SETTING:
		return -ENOTDIR;
	}
	if (r == 0 && exists)
		r = -ENOTEMPTY;
	return r ? r : tree_dir_gone(n, c);
}

void tree_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct changes c = {0};
	int r;

	r = tree_find(dir, name, &n);
	if (r == 0)
		r = remove_dir(n, name, &c);
	if (r == 0)
		listings_changed(&c, dir);
	else
		tree_in_doubt(&c, dir, name, r);
	node_put(n);
	changes_reply_err(&c, req, refuse_store(r, dir, name, "cannot be removed"));
}

/* ---- unlink ---- */

static int remove_cell(struct node *family, struct slice qualifier, bool version, int64_t ts, struct changes *c)
{
	struct mutex *row = ofile_row_lock(family);
	struct tfs_mutation *m = NULL;
	struct versions all = {0};
	struct kept kept = {0};
	struct cell_place p;
	struct node *n = NULL;
	struct staged s;
	bool pending;
	int r = 0;

	cell_place_at(family, qualifier, version, ts, &p);
	mutex_lock(row);
	n = cell_home_find(family, version ? NODE_VERSION : NODE_PLAIN, qualifier, version ? ts : 0);
	pending = n && ofile_pending(n, &s);
	if (version)
		r = kept_add(&kept, family, qualifier, ts, false);
	else
		r = column_versions(family, qualifier, &all);
	for (size_t i = 0; i < all.n && r == 0; i++)
		r = kept_add(&kept, family, qualifier, all.ts[i], false);
	m = r ? NULL : tfs_mutation_new(p.table, p.row);
	if (r == 0 && !m)
		r = -ENOMEM;
	if (r == 0)
		r = tfs_mutation_check(m, TFS_CHECK_EXISTS, p.family, p.qualifier, p.ts, tfs_bytes_of(NULL, 0));
	if (r == 0 && version)
		r = tfs_mutation_delete_version(m, p.family, p.qualifier, ts);
	else if (r == 0)
		r = tfs_mutation_delete_column(m, p.family, p.qualifier);
	if (r == 0)
		r = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	if (r == -ECANCELED)
		r = pending ? 0 : -ENOENT;
	if (r == 0) {
		if (version)
			cell_changed(c, family, qualifier, ts, true, NULL);
		else
			versions_changed(c, family, qualifier, &all, true);
		kept_end(&kept, c);
		if (!version)
			ofile_end_plain(family, qualifier, c);
		made_cell_left(family, qualifier, version, ts);
	}
	mutex_unlock(row);
	kept_fini(&kept);
	versions_fini(&all);
	node_put(n);
	made_settle(c);
	return r;
}

static int hide_schema(struct node *n, struct changes *c)
{
	struct tfs_schema_edit e = {
		.op = TFS_SCHEMA_HIDE, .flag = true, .uid = (uid_t)-1, .gid = (gid_t)-1, .mtime_us = TFS_NO_TIME};
	int r = control_change(n, &e, c);

	if (r == 0) {
		/* Who has it open writes nothing more. */
		mutex_lock(tree_mutex());
		node_end_locked(n);
		mutex_unlock(tree_mutex());
	}
	return r;
}

void tree_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct changes c = {0};
	struct resolved what;
	bool forbidden;
	int r;

	r = tree_resolve(dir, name, &what, &forbidden);
	if (r)
		goto out;
	switch (what.kind) {
	case NODE_VERSION:
	case NODE_PLAIN:
		r = remove_cell(what.parent, buf_slice(&what.key), what.kind == NODE_VERSION, what.ts, &c);
		break;
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR:
	case NODE_SCHEMA:
		r = tree_check(dir, &what, &n);
		if (r == 0 && n->kind == NODE_SCRATCH_DIR)
			r = -EISDIR;
		else if (r == 0)
			r = n->kind == NODE_SCHEMA ? hide_schema(n, &c) : scratch_remove(n);
		break;
	case NODE_SETTING:
		r = refuse(-EPERM, dir, name, "control files cannot be removed");
		break;
	case NODE_ROOT:
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
	case NODE_SYSTEM:
		r = tree_check(dir, &what, NULL);
		if (r == 0)
			r = -EISDIR;
		break;
	}
	if (r == 0)
		changes_listing(&c, dir);
	else
		tree_in_doubt(&c, dir, name, r);
out:
	resolved_fini(&what);
	node_put(n);
	changes_reply_err(&c, req, refuse_store(r, dir, name, "cannot be removed"));
}
