/* SPDX-License-Identifier: Apache-2.0 */
/* CREATE, MKNOD, MKDIR, RMDIR, UNLINK and RENAME: the part that all kinds of nodes have in common. */
#include "fs/request/request.h"

#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/node/schema/new_family.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/scratch/scratch.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <linux/fs.h>

/* If other threads remove and make the name at the same time, it may mean something else at each try. */
#define MAKE_TRIES 10

static int entry_make(const struct making *m, struct resolved *what, struct node **out)
{
	const struct node_ops *o = kind_ops(what->kind);
	const char *no_dirs = node_ops(m->dir)->no_dirs;

	if (o->make && (o->traits & KIND_SCRATCH || m->is_dir == !!(o->traits & KIND_DIR)))
		return o->make(m, what, out);
	if (m->is_dir)
		return refuse(-EPERM, m->dir, m->name, "%s", no_dirs ? no_dirs : "a directory cannot be here");
	return refuse(-EPERM, m->dir, m->name, "a file cannot be here: TABLE/ROW/FAMILY/QUALIFIER");
}

/* ---- CREATE and MKNOD ---- */

/* Returns true if a plain name is in no list: its LOOKUP has not found it, and no process here is making it. */
static bool is_absent(const struct resolved *what)
{
	struct node *n;
	bool made;

	if (what->kind != NODE_PLAIN || !fs_is_absent(what->parent, buf_bytes(&what->key)))
		return false;
	n = node_find(what->parent, NODE_PLAIN, buf_bytes(&what->key), 0);
	made = n && n->file;
	node_put(n);
	return !made;
}

/* sed -i TABLE/.schema makes its new file exclusively beside it, and renames it.  The name may be a row's, but no row has it now. */
static int make_of_sed(const struct making *m, int flags, struct resolved *what)
{
	if (!(flags & O_EXCL) || m->dir->kind != NODE_TABLE || what->kind != NODE_ROW || !scratch_is_of_sed(m->name))
		return 0;
	resolved_fini(what);
	*what = (struct resolved){0};
	return scratch_resolve_name(m->dir, m->name, what);
}

/* The node to open, counted.  *exists: it was not made now. */
static int open_or_make(const struct making *m, int flags, struct resolved *what, bool *exists, struct node **out)
{
	int err = is_absent(what) ? -ENOENT : tree_find_resolved(m->dir, what, out);

	*exists = err == 0;
	if (err == 0 && (flags & O_EXCL)) {
		if (!fs_schema_is_unset(*out))
			return -EEXIST;
		*exists = false;
	}
	if (err == 0 && node_is_dir(*out))
		return -EISDIR;
	if (err == 0)
		err = permit_open(*out, flags);
	else if (err == -ENOENT && (err = permit(m->dir, PERMIT_CHANGE_DIR)) == 0 && (err = make_of_sed(m, flags, what)) == 0)
		err = entry_make(m, what, out);
	if (err == 0)
		fs_looked_up_in(*out, m->dir);
	return err;
}

/* Before the reply to CREATE, after which the kernel asks for the directory's time. */
static void raise_time(struct node *dir)
{
	struct changes c = {0};

	dir_time_raise(dir, &c);
	changes_send(&c);
}

void request_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct making m = {.dir = node_of(parent), .name = name, .mode = mode, .ctx = fuse_req_ctx(req)};
	struct resolved what;
	bool exists, answered = false;
	int err;

	err = tree_resolve_new(m.dir, name, &what);
	for (int i = 0; !answered && (err == 0 || err == -ESTALE) && i < MAKE_TRIES; i++) {
		struct node *n = NULL;

		err = open_or_make(&m, fi->flags, &what, &exists, &n);
		if (err == 0 && (fi->flags & O_EXCL) && node_is(n, KIND_CELL))
			new_family_cell_created(n, mode);
		if (err == 0) {
			if (!exists)
				raise_time(m.dir);
			err = ofile_create(req, n, exists, fi);
			answered = err == 0;
		}
		node_put(n);
	}
	if (!answered)
		reply_err(req, refuse_store(err, m.dir, name, "cannot be created"));
	resolved_fini(&what);
}

void request_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct changes c = {0};
	struct making m = {.dir = node_of(parent), .name = name, .mode = mode, .ctx = fuse_req_ctx(req), .c = &c};
	struct node *n = NULL;
	struct fuse_entry_param e;
	struct resolved what;
	bool exists;
	int err;

	err = permit(m.dir, PERMIT_CHANGE_DIR);
	if (err) {
		reply_err(req, err);
		return;
	}
	if (!S_ISREG(mode)) {
		reply_err(req, refuse(-EPERM, m.dir, name, "there are no devices, pipes or sockets in a table"));
		return;
	}
	err = tree_resolve_new(m.dir, name, &what);
	if (err == 0)
		err = open_or_make(&m, O_EXCL, &what, &exists, &n);
	if (err == 0 && node_is(n, KIND_CELL))
		new_family_cell_created(n, mode);
	if (err == 0)
		err = ofile_make(n, &c);
	if (err == 0)
		err = node_entry(n, &e);
	if (err) {
		changes_reply_err(&c, req, refuse_store(err, m.dir, name, "cannot be created"));
	} else {
		changes_listing(&c, m.dir);
		dir_time_raise(m.dir, &c);
		node_lookup(n);
		changes_reply_entry(&c, req, n, &e);
	}
	node_put(n);
	resolved_fini(&what);
}

/* ---- MKDIR and RMDIR ---- */

static int make_dir(const struct making *m, struct node **out)
{
	struct resolved what;
	int err;

	err = tree_resolve_new(m->dir, m->name, &what);
	if (err == 0 && (err = tree_exists(m->dir, &what)) == 0)
		err = -EEXIST;
	if (err == -ENOENT)
		err = entry_make(m, &what, out);
	resolved_fini(&what);
	return err;
}

/* Called for the directory in both views. */
static void listings_changed(struct changes *c, struct node *dir)
{
	struct node *other;

	mutex_lock(tree_mutex());
	changes_listing_locked(c, dir);
	other = node_in_other_view_locked(dir);
	if (other)
		changes_listing_locked(c, other);
	mutex_unlock(tree_mutex());
	dir_time_raise(dir, c);
}

void request_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct changes c = {0};
	struct making m = {.dir = node_of(parent), .name = name, .is_dir = true, .mode = mode, .ctx = fuse_req_ctx(req), .c = &c};
	struct node *n = NULL;
	struct fuse_entry_param e;
	int err = permit(m.dir, PERMIT_CHANGE_DIR);

	if (err) {
		reply_err(req, err);
		return;
	}
	err = -ESTALE;
	for (int i = 0; err == -ESTALE && i < MAKE_TRIES; i++)
		err = make_dir(&m, &n);
	if (err == 0) {
		listings_changed(&c, m.dir);
		dir_time_raise(n, &c);
		made_trim(&c);
		err = node_entry(n, &e);
	}
	if (err) {
		tree_changed_if_unknown(&c, m.dir, name, err);
		changes_reply_err(&c, req, refuse_store(err, m.dir, name, "cannot be made"));
	} else {
		tree_count_entry(n, tfs_str(name), &e);
		changes_reply_entry(&c, req, n, &e);
	}
	node_put(n);
}

static int remove_dir(struct node *n, const char *name, struct changes *c)
{
	if (!node_is_dir(n))
		return -ENOTDIR;
	if (made_has_entries(n))
		return made_has_scratch_elsewhere(n) ? refuse(-ENOTEMPTY, n, NULL, "the table's other view has scratch in it")
						     : -ENOTEMPTY;
	return node_ops(n)->rmdir ? node_ops(n)->rmdir(n, name, c) : -EPERM;
}

void request_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct changes c = {0};
	int err = permit(dir, PERMIT_CHANGE_DIR);

	if (err) {
		reply_err(req, err);
		return;
	}
	err = tree_check_writable(dir, name);
	if (err == 0)
		err = tree_find(dir, name, &n);
	if (err == 0)
		err = permit_sticky(dir, n);
	if (err == 0)
		err = permit_data(dir, name, n->kind, true);
	if (err == 0)
		err = remove_dir(n, name, &c);
	if (err == 0)
		listings_changed(&c, dir);
	else
		tree_changed_if_unknown(&c, dir, name, err);
	node_put(n);
	changes_reply_err(&c, req, refuse_store(err, dir, name, "cannot be removed"));
}

/* ---- UNLINK ---- */

/* Returns -EPERM if the entry exists and may not be removed, because its directory is sticky. */
static int check_sticky(struct node *dir, struct resolved *what)
{
	struct node *n = NULL;
	int err;

	if (!permit_is_sticky(dir))
		return 0;
	err = tree_find_resolved(dir, what, &n);
	if (err == 0)
		err = permit_owner(n);
	node_put(n);
	return err == -ENOENT ? 0 : err;
}

void request_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_of(parent);
	struct changes c = {0};
	struct resolved what = {0};
	int err = permit(dir, PERMIT_CHANGE_DIR);

	if (err) {
		reply_err(req, err);
		return;
	}
	err = tree_check_writable(dir, name);
	if (err == 0)
		err = tree_resolve(dir, name, &what);
	if (err == 0)
		err = check_sticky(dir, &what);
	if (err == 0)
		err = permit_data(dir, name, what.kind, true);
	if (err)
		goto out;
	if (kind_ops(what.kind)->unlink)
		err = kind_ops(what.kind)->unlink(dir, &what, &c);
	else if ((err = tree_exists(dir, &what)) == 0)
		err = -EISDIR;
	if (err == 0) {
		changes_listing(&c, dir);
		dir_time_raise(dir, &c);
	} else {
		tree_changed_if_unknown(&c, dir, name, err);
	}
out:
	resolved_fini(&what);
	changes_reply_err(&c, req, refuse_store(err, dir, name, "cannot be removed"));
}

/* ---- RENAME ---- */

static int rename_any(struct renaming *m)
{
	int err = tree_check_writable(m->dir, m->name);

	if (err == 0)
		err = tree_resolve(m->dir, m->name, &m->from);
	if (err == 0)
		err = tree_find_resolved(m->dir, &m->from, &m->source);
	if (err == 0)
		err = permit_sticky(m->dir, m->source);
	if (err == 0)
		err = permit_data(m->dir, m->name, m->from.kind, m->from.kind == NODE_SCHEMA);
	if (err == 0 && m->newdir != m->dir && node_is_dir(m->source))
		err = permit(m->source, PERMIT_WRITE); /* the entry `..` of the directory changes */
	if (err)
		return err;
	err = tree_resolve_new(m->newdir, m->newname, &m->to);
	if (err == 0)
		err = check_sticky(m->newdir, &m->to);
	if (err)
		return err;
	return node_ops(m->source)->rename ? node_ops(m->source)->rename(m) : -EXDEV;
}

void request_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags)
{
	struct changes c = {0};
	struct renaming m = {.req = req,
		.dir = node_of(parent),
		.newdir = node_of(newparent),
		.name = name,
		.newname = newname,
		.noreplace = flags & RENAME_NOREPLACE,
		.c = &c};
	int err = permit(m.dir, PERMIT_CHANGE_DIR);

	if (err == 0)
		err = permit(m.newdir, PERMIT_CHANGE_DIR);
	if (err) {
		reply_err(req, err);
		return;
	}
	fs_serve(req);
	if (flags & ~(unsigned)RENAME_NOREPLACE)
		err = refuse(-EINVAL, m.dir, name, "of rename's flags only NOREPLACE is understood");
	else if ((err = rename_any(&m)) == -EINVAL)
		err = -EPERM; /* mv would report EINVAL as a move into a subdirectory of the source itself */
	fs_serve(NULL);
	resolved_fini(&m.from);
	resolved_fini(&m.to);
	node_put(m.source);
	if (err == 0) {
		changes_listing(&c, m.dir);
		changes_listing(&c, m.newdir);
		dir_time_raise(m.dir, &c);
		if (m.newdir != m.dir)
			dir_time_raise(m.newdir, &c);
	}
	changes_reply_err(&c, req, refuse_store(err, m.newdir, newname, "cannot be renamed to this"));
}
