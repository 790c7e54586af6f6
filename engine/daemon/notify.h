/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a daemon to the service manager that started it, if there is one: sd_notify(3).  Threads: any after notify_init. */
#ifndef TFS_DAEMON_NOTIFY_H
#define TFS_DAEMON_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.  Returns true if a manager
 * waits for messages.  If its journal reads standard error, messages have their
 * level from now on.
 */
bool notify_init(void);
bool notify_is_waited_for(void);
/* Sends lines VARIABLE=VALUE, if a manager waits for them. */
void notify_say(const char *lines);
/* The period in which the manager wants WATCHDOG=1; 0: it has no watchdog. */
uint64_t notify_watchdog_us(void);

#endif
