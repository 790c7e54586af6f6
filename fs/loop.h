/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving requests with several threads at the latency of one.  See loop.c.
 */
#ifndef TFS_FS_LOOP_H
#define TFS_FS_LOOP_H

#include "fs/base/fs.h"

#include <signal.h>

/*
 * Serves fs.session until it is unmounted or ends() returns true for a signal
 * that the process has received, in `signals`, which every thread blocks;
 * SIGTERM is among them.  A later signal has no effect.  All requests that have
 * begun are finished when it returns.
 */
int loop_run(bool single_threaded, const sigset_t *signals, bool (*ends)(int sig)) TFS_MUST;
/* read(2) of the device; may poll for a while before it sleeps. */
ssize_t loop_read(int fd, void *buf, size_t n);

#endif
