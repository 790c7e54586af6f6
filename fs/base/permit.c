/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that the kernel makes with default_permissions (permit.h). */
#include "fs/base/permit.h"

#include "fs/base/access.h"
#include "fs/base/node_ops.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define EXEC_FLAG 040 /* the kernel's flag of an OPEN by execve(2) */

/*
 * Owner and mode, as the kernel has them.  A cell has the owner and mode of its family, so
 * the store is not asked for the cell.  The parent is read without the tree lock, because
 * it does not change and is held by the node (node.h).
 */
static int attributes(struct node *n, struct stat *st)
{
	double timeout;
	int err = node_attr(node_is(n, KIND_CELL) ? n->parent : n, st, &timeout);

	if (err == 0 && node_is(n, KIND_CELL))
		st->st_mode = S_IFREG | (st->st_mode & 0666);
	return err;
}

/* A removed node is not a question of access: the request itself will fail. */
static int absent_passes(int err)
{
	return err == -ENOENT || err == -ESTALE ? 0 : err;
}

static bool allows(const struct stat *st, unsigned bits)
{
	const struct tfs_family f = {.uid = st->st_uid, .gid = st->st_gid, .mode = st->st_mode & 0777, .acl = ""};
	const mode_t group = f.mode >> 3 & 7, other = f.mode & 7;
	const struct tfs_user *u;

	if (fs_asker_uid() == st->st_uid)
		return (f.mode >> 6 & bits) == bits;
	if (group == other)
		return (other & bits) == bits;
	u = fs_asker_user(); /* its groups are read from /proc */
	return u && tfs_may(&(struct tfs_schema){.mode = 0111}, &f, u, bits);
}

int permit(struct node *n, unsigned bits)
{
	const bool root = fs_asker_uid() == 0;
	struct stat st;
	int err;

	if (!fs.own_checks || bits == 0 || (root && (node_is_dir(n) || !(bits & PERMIT_EXECUTE))))
		return 0;
	err = attributes(n, &st);
	if (err)
		return absent_passes(err);
	if (root)
		return st.st_mode & 0111 ? 0 : -EACCES;
	return allows(&st, bits) ? 0 : -EACCES;
}

int permit_open(struct node *n, int flags)
{
	const int how = flags & O_ACCMODE;
	unsigned bits = how == O_RDONLY ? PERMIT_READ : how == O_WRONLY ? PERMIT_WRITE : PERMIT_READ | PERMIT_WRITE;

	if (flags & O_TRUNC)
		bits |= PERMIT_WRITE;
	return permit(n, flags & EXEC_FLAG ? PERMIT_EXECUTE : bits);
}

/* Returns 1 and the attributes if the user must be checked, 0 if the request passes, -errno. */
static int is_checked(struct node *n, struct stat *st)
{
	int err;

	if (!fs.own_checks || fs_asker_uid() == 0)
		return 0;
	err = attributes(n, st);
	return err ? absent_passes(err) : 1;
}

int permit_owner(struct node *n)
{
	struct stat st;
	int r = is_checked(n, &st);

	if (r <= 0)
		return r;
	return fs_asker_uid() == st.st_uid ? 0 : -EPERM;
}

static bool may_set(const struct stat *st, const struct stat *attr, int to_set)
{
	const struct tfs_user *u;

	if (fs_asker_uid() != st->st_uid || ((to_set & FUSE_SET_ATTR_UID) && attr->st_uid != st->st_uid))
		return false;
	if (!(to_set & FUSE_SET_ATTR_GID) || attr->st_gid == st->st_gid)
		return true;
	u = fs_asker_user();
	for (unsigned i = 0; u && i < u->group_count; i++)
		if (u->groups[i] == attr->st_gid)
			return true;
	return u && u->gid == attr->st_gid;
}

int permit_setattr(struct node *n, const struct stat *attr, int to_set, bool by_handle)
{
	const int owners = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;
	const int now = FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW, times = now | FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME;
	const bool size = to_set & FUSE_SET_ATTR_SIZE;
	struct stat st;
	int r = is_checked(n, &st);

	if (r <= 0)
		return r;
	if ((to_set & owners) && !may_set(&st, attr, to_set))
		return -EPERM;
	/* A truncation sets the time, too. */
	if (!size && (to_set & times) && fs_asker_uid() != st.st_uid) {
		if ((to_set & now) != now)
			return -EPERM;
		return allows(&st, PERMIT_WRITE) ? 0 : -EACCES;
	}
	return !size || by_handle || allows(&st, PERMIT_WRITE) ? 0 : -EACCES;
}

bool permit_is_sticky(struct node *dir)
{
	struct stat st;

	return is_checked(dir, &st) > 0 && st.st_mode & S_ISVTX && st.st_uid != fs_asker_uid();
}

int permit_sticky(struct node *dir, struct node *n)
{
	return permit_is_sticky(dir) ? permit_owner(n) : 0;
}

/* Returns true for cells, the directories above them, and the files that change cells. */
static bool is_data(enum node_kind kind)
{
	return kind == NODE_ROW || kind == NODE_ROW_PART || kind == NODE_FAMILY || kind == NODE_CELL_PART || kind == NODE_VERSION ||
		kind == NODE_PLAIN || kind == NODE_MUTATE || kind == NODE_ROW_JSON || kind == NODE_ROW_FLAT || kind == NODE_IMPORT;
}

int permit_data(struct node *n, const char *name, enum node_kind kind, bool removes)
{
	const struct tfs_schema *s;
	bool readonly, keeps;

	if (!is_data(kind) && !(removes && kind == NODE_SCHEMA))
		return 0;
	if (!node_table(n) || tfs_schema_get(node_store_table(n), &s))
		return 0; /* the call itself fails */
	readonly = s->readonly && !s->snapshot_of;
	keeps = s->protect == TFS_PROTECT_DATA && !s->snapshot_of;
	tfs_schema_put(s);
	if (readonly)
		return refuse(-EROFS, n, name, TABLE_READONLY);
	return keeps && removes ? refuse(-EPERM, n, name, TABLE_KEEPS_DATA) : 0;
}

bool permit_keeps_data(struct node *n)
{
	const struct tfs_schema *s;
	bool keeps;

	if (tfs_schema_get(node_store_table(n), &s))
		return false;
	keeps = s->protect == TFS_PROTECT_DATA;
	tfs_schema_put(s);
	return keeps;
}

/* Returns true if the mounter may search the table and, unless f is NULL, the family. */
static bool mounter_searches(const struct tfs_schema *s, const struct tfs_family *f)
{
	const struct tfs_user user = {.uid = fs.uid, .gid = fs.gid, .groups_unknown = true};

	return tfs_may(s, f, &user, TFS_MAY_READ); /* a directory has x where it has r */
}

bool permit_search_lost(const struct tfs_schema *before, const struct tfs_schema *now)
{
	bool lost;

	if (!fs.own_checks || fs.uid == 0)
		return false;
	lost = (!before || mounter_searches(before, NULL)) && !mounter_searches(now, NULL);
	for (unsigned i = 0; !lost && i < now->family_count; i++) {
		const struct tfs_family *f = &now->families[i], *was = before ? tfs_schema_family(before, f->name) : NULL;

		lost = (!was || mounter_searches(before, was)) && !mounter_searches(now, f);
	}
	return lost;
}
