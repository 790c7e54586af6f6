/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of lock.h that need no service, shared by its implementations. */
#ifndef TFS_LOCK_OPS_H
#define TFS_LOCK_OPS_H

#include "engine/lock/lock.h"

/* Returns true if the names are equal, or one name is the directory of the second. */
bool lock_names_clash(const char *a, const char *b);
/* Returns -EINVAL or -EFBIG if lock.h does not allow this multi-operation, whatever the files are. */
int lock_ops_check(const struct lock_op *ops, unsigned count) TFS_MUST;
/*
 * Calls fn for each name, in byte order.  names: each with a NUL at its end.  A non-zero value of fn ends the calls and
 * is returned.
 */
int lock_names_report(struct tfs_bytes names, int (*fn)(void *arg, const char *name), void *arg) TFS_MUST;

#endif
