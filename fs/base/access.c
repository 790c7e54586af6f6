/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/base/access.h"

#include <errno.h>
#include <stdlib.h>

int fs_table_as_caller(const struct caller *caller, struct node *n, struct tfs_table **out)
{
	return caller ? tfs_table_as(node_store_table(n), &caller->user, out) : -EACCES;
}

int fs_table_as(fuse_req_t req, struct node *n, struct tfs_table **out)
{
	struct caller *caller = caller_new(req);
	int err = caller ? fs_table_as_caller(caller, n, out) : -ENOMEM;

	free(caller);
	return err;
}

int fs_may(const struct caller *caller, struct node *n, const char *family, unsigned may)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err;

	if (!caller)
		return -EACCES;
	err = tfs_schema_get(node_store_table(n), &s);
	if (err)
		return err;
	f = tfs_schema_family(s, family);
	err = !f ? -ENOENT : tfs_may(s, f, &caller->user, may) ? 0 : -EACCES;
	tfs_schema_put(s);
	return err;
}

bool fs_owns_table(const struct caller *caller, struct node *n)
{
	const struct tfs_schema *s;
	bool owns;

	if (!caller || caller->user.uid == 0)
		return caller;
	if (tfs_schema_get(node_store_table(n), &s))
		return false;
	owns = caller->user.uid == s->uid;
	tfs_schema_put(s);
	return owns;
}
