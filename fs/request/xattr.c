/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes: the parts of a cell's key, and ACLs (acl.c).
 *
 * ls -l asks for security.* of every file: EOPNOTSUPP makes it stop after the
 * first, ENODATA does not.
 */
#include "fs/request/request.h"

#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdio.h>

static bool xattr_is_unsupported(const char *name)
{
	return strncmp(name, "security.", 9) == 0 || strncmp(name, "system.", 7) == 0 || strncmp(name, "trusted.", 8) == 0;
}

static int value_of(struct node *n, const char *name, struct tfs_bytes *out, char *number, size_t number_bytes)
{
	struct node *row = node_above(n, NODE_ROW);
	bool cell = node_is(n, KIND_CELL);

	if (xattr_is_unsupported(name))
		return -EOPNOTSUPP;
	if (strncmp(name, "user.tabletfs.", 14) != 0)
		return -ENODATA;
	name += 14;
	if (strcmp(name, "row") == 0 && row) {
		*out = node_key(row);
	} else if (strcmp(name, "qualifier") == 0 && cell) {
		*out = node_key(n);
	} else if (strcmp(name, "timestamp") == 0 && cell) {
		int64_t ts = n->ts;

		if (n->kind == NODE_PLAIN) {
			struct tfs_info info;
			int err = cell_node_stat(n, &info);

			if (err)
				return err == -ENOENT ? -ENODATA : err;
			ts = info.ts;
		}
		*out = tfs_bytes_of(number, (size_t)snprintf(number, number_bytes, "%lld", (long long)ts));
	} else {
		return -ENODATA;
	}
	return 0;
}

static void reply_value(fuse_req_t req, struct tfs_bytes value, size_t size)
{
	if (size == 0)
		fuse_reply_xattr(req, value.n);
	else if (size < value.n)
		reply_err(req, -ERANGE);
	else
		fuse_reply_buf(req, (const char *)value.p, value.n);
}

void xattr_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct buf acl = {0};
	struct tfs_bytes value;
	char number[24];
	int err = strncmp(name, "user.", 5) == 0 ? permit(node_of(ino), PERMIT_READ) : 0;

	if (err) {
		/* refused */
	} else if (acl_is_name(name)) {
		err = acl_get(node_of(ino), name, &acl);
		value = buf_bytes(&acl);
	} else {
		err = value_of(node_of(ino), name, &value, number, sizeof(number));
	}
	if (err)
		reply_err(req, err);
	else
		reply_value(req, value, size);
	buf_fini(&acl);
}

/* 0 if the xattr may be changed. */
static int check_change(struct node *n, const char *name)
{
	int err = 0;

	if (acl_is_name(name))
		err = permit_owner(n);
	else if (strncmp(name, "user.", 5) == 0)
		err = permit(n, PERMIT_WRITE);
	return err ? err : tree_check_writable(n, NULL);
}

void xattr_set(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	struct changes c = {0};
	const int err = check_change(node_of(ino), name);

	if (err)
		reply_err(req, err);
	else if (acl_is_name(name))
		changes_reply_err(&c, req, acl_set(node_of(ino), name, tfs_bytes_of(value, size), &c));
	else if (strncmp(name, "user.tabletfs.", 14) == 0)
		reply_err(req, refuse(-EPERM, node_of(ino), NULL, "a key cannot be changed by its attribute"));
	else
		reply_err(req, -EOPNOTSUPP);
}

/* The attributes with parts of the key are not listed, because tools would copy them. */
void xattr_list(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	static const char name[] = "system.posix_acl_access";
	struct buf acl = {0};
	int err = acl_get(node_of(ino), name, &acl);

	buf_fini(&acl);
	if (err && err != -ENODATA && err != -EOPNOTSUPP)
		reply_err(req, err);
	else
		reply_value(req, tfs_bytes_of(name, err ? 0 : sizeof(name)), size);
}

void xattr_remove(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct changes c = {0};
	const int err = check_change(node_of(ino), name);

	if (err)
		reply_err(req, err);
	else if (acl_is_name(name))
		changes_reply_err(&c, req, acl_remove(node_of(ino), name, &c));
	else
		reply_err(req, xattr_is_unsupported(name) ? -EOPNOTSUPP : -ENODATA);
}
