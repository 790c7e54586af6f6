/* SPDX-License-Identifier: Apache-2.0 */
/* The service manager that started the daemon, if there is one: messages of sd_notify(3), and its watchdog. */
#ifndef TFS_FS_SERVICE_H
#define TFS_FS_SERVICE_H

#include "engine/base/bytes.h"

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.  Returns true if a manager
 * waits for messages.  If its journal reads standard error, messages have their
 * level from now on.
 */
bool service_init(void);
/* Sends lines VARIABLE=VALUE, if a manager waits for them. */
void service_say(const char *lines);
/*
 * Starts threads that send READY=1 when the mount has answered and, if the
 * manager has a watchdog, WATCHDOG=1 as long as it answers.  The signals of the
 * process are blocked.  Does nothing without a manager.
 */
int service_start(const char *mountpoint) TFS_MUST;
/* Ends the threads.  The connection to the kernel must have ended, because a request may wait for an answer. */
void service_stop(void);

#endif
