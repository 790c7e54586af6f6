/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of modes and owners that the kernel leaves to the daemon.
 *
 * With the mount option default_permissions the kernel checks every access by the
 * attributes that the daemon has returned.  It then asks for the attributes of a
 * directory after each change in it.  That costs two requests for each new file.  So
 * a read-write mount that only its user can enter has no default_permissions
 * (fs.own_checks), and the functions here return the errors that the kernel would.
 * On other mounts they return 0.
 *
 * The kernel passes each access on, with one exception: it walks through names that it
 * holds without asking whether their directory may be searched.  The daemon checks that
 * at LOOKUP, and drops the names when a mode takes the search away (changes_access).
 * The kernel holds the lock of a directory during its chmod, so the names in a table
 * are dropped just after chmod of the table has returned.  In a listing of a directory
 * that may not be searched, the kernel gets no names.
 *
 * root is permitted everything, also without capabilities.
 *
 * Only processes of one user enter such a mount, and this user can read the store.
 * If another process serves the store, it checks each request by itself.  So these
 * checks guard against mistakes.
 *
 * Threads: any; the functions call the engine, so the caller may not hold the tree
 * lock.
 */
#ifndef TFS_FS_BASE_PERMIT_H
#define TFS_FS_BASE_PERMIT_H

#include "fs/base/fs.h"

enum { PERMIT_EXECUTE = 1, PERMIT_SEARCH = 1, PERMIT_WRITE = 2, PERMIT_READ = 4, PERMIT_CHANGE_DIR = 3 };

/* bits: PERMIT_*.  -EACCES. */
int permit(struct node *n, unsigned bits) TFS_MUST;
/* flags: of open(2).  -EACCES. */
int permit_open(struct node *n, int flags) TFS_MUST;
/* Returns -EPERM unless the user is the owner. */
int permit_owner(struct node *n) TFS_MUST;
/* chmod, chown, utimes and truncate, as in a SETATTR.  by_handle: the truncation is through a descriptor.  -EACCES, -EPERM. */
int permit_setattr(struct node *n, const struct stat *attr, int to_set, bool by_handle) TFS_MUST;
/* Returns true if only the owners of dir and of an entry may remove the entry. */
bool permit_is_sticky(struct node *dir);
/* Returns -EPERM if the directory is sticky and the user may not remove its entry n. */
int permit_sticky(struct node *dir, struct node *n) TFS_MUST;
/*
 * Checks the schema of n's table before a change of n, or of an entry `name` of n that has this kind.  removes: the entry is
 * removed.  -EPERM, logged: the data of the table is protected; -EROFS, logged: the table is readonly.  The server checks again.
 */
int permit_data(struct node *n, const char *name, enum node_kind kind, bool removes) TFS_MUST;
/* Returns true if cells of n's table are not deleted. */
bool permit_keeps_data(struct node *n);
/* Returns true if the user of the mount has lost the permission to search a directory.  before NULL: unknown. */
bool permit_search_lost(const struct tfs_schema *before, const struct tfs_schema *now);

#endif
