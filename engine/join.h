/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a store that another process serves. */
#ifndef TFS_JOIN_H
#define TFS_JOIN_H

#include "engine/base/bytes.h"
#include "engine/base/source.h"
#include "engine/tabletfs.h"

#include <errno.h>

/*
 * Opens the store through the process that serves it.
 * join_finds_nobody of the error: no process does.  Other errors: *why is one line, or NULL; the caller frees it.
 */
int join_open(const struct store_source *at, const struct tfs_options *o, struct tfs_store **out, char **why) TFS_MUST;
static inline bool join_finds_nobody(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ECONNREFUSED || err == -ELOOP || err == -EPROTOTYPE;
}
/*
 * Sets *why to the reason of a failed connection: no process serves the directory here.  It may be
 * in use at another host, or by a program that does not serve it.
 */
void join_explain_nobody(const char *dir, char **why);

#endif
