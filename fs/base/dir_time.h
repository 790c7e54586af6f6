/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modification times of directories in .latest.  A table stores none.  The daemon
 * keeps two kinds of times until the mount ends: times that users set, and times at
 * which the entries of a directory changed.  Many programs list a directory again when
 * its time has changed.
 *
 * Times never fall, unless a user sets one.  An entry for each directory is in a bounded
 * cache.  A change of many directories raises the time of the table instead; when the
 * cache is full, a change raises the time of all directories.
 *
 * Threads: any.  Callers hold no locks.
 */
#ifndef TFS_FS_BASE_DIR_TIME_H
#define TFS_FS_BASE_DIR_TIME_H

#include "fs/base/notify.h"

/* Called when a program uses .latest.  Before that, no time is kept. */
void dir_time_watch(void);
/* Returns the time in us; 0: nothing has been changed in this mount. */
int64_t dir_time_get(const struct node *dir);
/* Notes the time that a user has set. */
void dir_time_set(const struct node *dir, int64_t us);
void dir_time_forget(const struct node *dir);
/* An entry of the directory, in either view, was made or removed. */
void dir_time_raise(struct node *dir, struct changes *c);
/* Like dir_time_raise, for any directories of the table; the caller notes the kernel's attributes (changes_table). */
void dir_time_raise_table(struct node *table);

#endif
