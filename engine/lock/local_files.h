/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the local lock service and the durable steps by which they
 * change (local_files.c).  top is the service's directory; one call at a time.
 * What fails is logged here, but for -ENOENT, -ENOMEM and a damaged file,
 * which the caller names: a table is refused for it once, and asked for often.
 */
#ifndef TFS_LOCK_LOCAL_FILES_H
#define TFS_LOCK_LOCAL_FILES_H

#include "engine/lock/lock_format.h"

#define LOCK_HELD "held"
#define LOCK_JOURNAL "journal"

bool lock_name_allowed(const char *name);
bool lock_ends_in_tmp(const char *s);
/* A name cut in its directory ("" for none) and its last component. */
void lock_name_split(const char *name, char dir[LOCK_COMPONENT_MAX + 1], const char **last);
/*
 * top, or top/component; free() it.  A directory's entry is written like a
 * file's, so that "a.tmp/b" has no directory which looks like a temporary file.
 */
char *lock_dir_path(const char *top, const char *component);
char *lock_name_path(const char *top, const char *name);

/* contents may be NULL.  -ENOENT; -EBADMSG, -EPROTO. */
int lock_files_read(const char *top, const char *name, struct buf *contents, uint64_t *version) TFS_MUST;
/* Carries the steps out, all or none.  *in_doubt is set when it is not known which (never cleared): then settle. */
int lock_files_change(const char *top, const struct lock_step *steps, unsigned count, bool *in_doubt) TFS_MUST;
/* Settles what a death or an error left: at opening, and before anything is answered after in_doubt. */
int lock_files_settle(const char *top) TFS_MUST;

#endif
