/* SPDX-License-Identifier: Apache-2.0 */
/* The groups are read from /proc.  Without them (the process has ended) the caller has only the rights of his user id. */
#include "fs/base/caller.h"

#include <stdlib.h>

struct caller *caller_new(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int count = ctx->uid ? fuse_req_getgroups(req, 0, NULL) : 0;
	struct caller *caller;

	if (count < 0)
		count = 0;
	caller = malloc(sizeof(*caller) + (size_t)count * sizeof(gid_t));
	if (!caller)
		return NULL;
	if (count && fuse_req_getgroups(req, count, caller->groups) != count)
		count = 0;
	caller->user =
		(struct tfs_user){.uid = ctx->uid, .gid = ctx->gid, .groups = caller->groups, .group_count = (unsigned)count};
	return caller;
}
