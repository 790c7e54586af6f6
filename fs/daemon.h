/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the daemon that its main calls. */
#ifndef TFS_FS_DAEMON_H
#define TFS_FS_DAEMON_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"
#include "fs/base/fs.h"

#include <signal.h>

/* ---- loop.c: requests, served by several threads at the latency of one ---- */
/*
 * Serves fs.session until it is unmounted or ends() returns true for a signal
 * that the process has received, in `signals`, which every thread blocks;
 * SIGTERM is among them.  A later signal has no effect.  All requests that have
 * begun are finished when it returns.  From timeout_us after that signal on, no thread of the process waits for a server of
 * the store that is silent.
 */
int loop_run(bool single_threaded, uint64_t timeout_us, const sigset_t *signals, bool (*ends)(int sig)) TFS_MUST;
/* read(2) of the device; may poll for a while before it sleeps. */
ssize_t loop_read(int fd, void *buf, size_t n);

/* ---- server.c: the daemon without a mount ---- */
/*
 * Returns when ends() returns true for a signal that the process has received, in
 * `signals`, which every thread blocks.  while_used: also when the store's last client has
 * left, or none has come for 10 s; it calls ends(SIGTERM) then.
 */
void server_run(bool while_used, const sigset_t *signals, bool (*ends)(int sig));

/* ---- mountpoint.c: checks before the store is opened ---- */
/*
 * Unmounts mounts of tabletfs at the mount point whose daemons have died.
 * Sets *path to the absolute path of the mount point; the caller frees it.
 * dir is the data directory; NULL: it is not on this host.  Returns 0, or -errno and sets
 * *why to one line that names the mount point, the cause and, where there is
 * one, the remedy; the caller frees it; NULL if memory is exhausted.
 */
int mountpoint_check(const char *mountpoint, const char *dir, char **path, char **why) TFS_MUST;

/* Returns true if the topmost mount at the absolute path is one of tabletfs, and then copies its options in the mount table; options may be NULL. */
bool mountpoint_is_ours(const char *path, char *options, size_t options_bytes);

/* ---- remount.c ---- */
/*
 * If the arguments have the option remount, carries it out, sets *status to the exit status of the program, and returns
 * true.  *why is one line for standard error, which the caller frees, or NULL.
 */
bool remount_asked(int argc, char **argv, int *status, char **why);

/* ---- memory.c: the memory that is configured ---- */
/* Warns if the control group of the process may use less memory than the caches and memtables. */
void memory_warn(const struct tfs_options *o);

/* ---- service.c: READY and the watchdog of the service manager that started the daemon, if there is one ---- */
/*
 * Starts threads that send READY=1 when the mount has answered and, if the
 * manager has a watchdog, WATCHDOG=1 as long as it answers.  mountpoint NULL: there is no
 * mount, and the server's listener is asked.  The signals of the process are
 * blocked.  Does nothing without a manager.
 */
int service_start(const char *mountpoint) TFS_MUST;
/* Ends the threads.  The connection to the kernel must have ended, because a request may wait for an answer. */
void service_stop(void);

#endif
