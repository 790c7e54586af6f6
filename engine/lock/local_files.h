/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the local lock service and the durable steps by which they
 * change (local_files.c).  top is the service's directory.
 *
 * Threads: one call at a time.
 * Errors: these functions log them, except -ENOENT, -ENOMEM and, when a file is
 * read, -EBADMSG.  Callers may read a damaged file often, and log it once.
 */
#ifndef TFS_LOCK_LOCAL_FILES_H
#define TFS_LOCK_LOCAL_FILES_H

#include "engine/lock/lock_format.h"

#define LOCK_HELD "held"
#define LOCK_JOURNAL "journal"

/* Returns true for a valid name that is not one of the service's own files. */
bool lock_name_allowed(const char *name);
bool lock_ends_in_tmp(const char *s);
/* Splits a name into its directory ("": none) and its last component. */
void lock_name_split(const char *name, char dir[LOCK_COMPONENT_MAX + 1], const char **last);
/*
 * Returns the path of a directory in top (component "": top itself); the caller
 * frees it.  A directory's name is escaped like a file's, so that the directory
 * of "a.tmp/b" does not look like a temporary file.  NULL: out of memory.
 */
char *lock_dir_path(const char *top, const char *component);
/* Returns the path of the file of that name, as lock_dir_path does. */
char *lock_name_path(const char *top, const char *name);

/* Replaces contents, which may be NULL.  -ENOENT; -EBADMSG: damaged; -EPROTO: a later format; -EIO. */
int lock_files_read(const char *top, const char *name, struct buf *contents, uint64_t *version) TFS_MUST;
/*
 * Carries out all steps or none.  Sets *unknown if the outcome is unknown; the caller must then call lock_files_recover.  Never
 * clears *unknown.  -ENOSPC, -EDQUOT: nothing was changed; if the disk was full after that, the error is -EIO.
 */
int lock_files_change(const char *top, const struct lock_step *steps, unsigned count, bool *unknown) TFS_MUST;
/* Completes or undoes an interrupted change.  Call it at opening, and before any other call after *unknown was set. */
int lock_files_recover(const char *top) TFS_MUST;

#endif
