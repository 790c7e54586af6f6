/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that sends the notifications of directories to the kernel.
 *
 * Dropping an entry, or a cached listing, needs a lock of the directory.  A process
 * that reads the directory holds the lock while the kernel copies the entries to its
 * memory.  If that memory is a page of a file system of the user's own, the lock is
 * held until that file system answers, which may be never.  The thread that sends the
 * notification then waits in the kernel, and not even SIGKILL ends it.  A process with
 * such a thread cannot end.  So the daemon must not have it.
 *
 * The daemon sends orders to the process through a socket.  The process answers each
 * order that has a number when the kernel has taken the notification, or when the
 * order was dropped.
 *
 * Threads: sender_start is called before there are threads; sender_order by any;
 * sender_answer by one.
 */
#ifndef TFS_FS_BASE_SENDER_H
#define TFS_FS_BASE_SENDER_H

#include "engine/base/bytes.h"

#include <stdbool.h>
#include <sys/types.h>

/* Starts the process.  argv is main's; its memory shows the name of the process. */
int sender_start(int argc, char **argv) TFS_MUST;
/* Sends the process the device of the mount at mountpoint. */
int sender_mounted(int fuse_fd, const char *mountpoint) TFS_MUST;
/*
 * Orders that the kernel drops the name below the directory; an empty name: the
 * directory's attributes and listing.  number: the number of the answer, 0: there is
 * no answer.  uid: the user who made the change.  Returns false if there is no such
 * process any more.
 */
bool sender_order(uint64_t dir, struct tfs_bytes name, uint64_t number, uid_t uid) TFS_MUST;
/* Waits for an answer.  Returns its number, or 0 if there will be none. */
uint64_t sender_answer(void);
/* Ends the process.  If a thread of it waits in the kernel, the process aborts the connection of the mount.  sender_answer returns 0. */
void sender_end(void);
/* After sender_end, when no thread is in sender_answer any more. */
void sender_close(void);

#endif
