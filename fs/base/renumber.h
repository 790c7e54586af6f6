/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inode numbers of names that were removed or replaced.
 *
 * The inode number of a name is a hash of its key (node.h).  A program that
 * remembers device and number would take a new file for the old one, if the name
 * was replaced.  Therefore a name whose node has ended gets another number, which
 * is remembered here until the mount ends.  All other names cost nothing.
 *
 * At least the RENUMBER_MIN names that were replaced or looked up last are
 * remembered, in at most 32 MiB.  A name that is forgotten here has the number of
 * its key again, as after a remount, when its node is made the next time.
 *
 * Threads: the caller holds the tree lock.
 */
#ifndef TFS_FS_BASE_RENUMBER_H
#define TFS_FS_BASE_RENUMBER_H

#include <stdint.h>

#define RENUMBER_MIN 786432u

/* Returns the number of the name whose key has the hash `ino`, or 0 if it is ino. */
uint64_t renumber_get(uint64_t ino);
/* If there is no memory, the name keeps its number. */
void renumber_put(uint64_t ino, uint64_t number);
void renumber_fini(void);

#endif
