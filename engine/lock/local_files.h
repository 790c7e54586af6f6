/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the local lock service and the durable steps by which they
 * change (local_files.c).  top is the service's directory.  The caller makes
 * one call at a time.  These functions log errors, except -ENOENT, -ENOMEM and
 * a damaged file: callers read that often and log it once.
 */
#ifndef TFS_LOCK_LOCAL_FILES_H
#define TFS_LOCK_LOCAL_FILES_H

#include "engine/lock/lock_format.h"

#define LOCK_HELD "held"
#define LOCK_JOURNAL "journal"

bool lock_name_allowed(const char *name);
bool lock_ends_in_tmp(const char *s);
/* Splits a name into its directory ("": none) and its last component. */
void lock_name_split(const char *name, char dir[LOCK_COMPONENT_MAX + 1], const char **last);
/*
 * Returns top, or top/component; the caller frees it.  A directory's name is
 * escaped like a file's, so that the directory of "a.tmp/b" does not look like
 * a temporary file.
 */
char *lock_dir_path(const char *top, const char *component);
char *lock_name_path(const char *top, const char *name);

/* contents may be NULL.  -ENOENT; -EBADMSG, -EPROTO. */
int lock_files_read(const char *top, const char *name, struct buf *contents, uint64_t *version) TFS_MUST;
/* Carries out all steps or none.  Sets *unknown, and never clears it, if the outcome is unknown; then recover. */
int lock_files_change(const char *top, const struct lock_step *steps, unsigned count, bool *unknown) TFS_MUST;
/* Completes or undoes an interrupted change: at opening, and before any other call after *unknown. */
int lock_files_recover(const char *top) TFS_MUST;

#endif
