/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager (notify.h).  The protocol is a datagram of lines
 * VARIABLE=VALUE to the socket in NOTIFY_SOCKET, so libsystemd is not needed.
 */
#include "engine/daemon/notify.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
	struct sockaddr_un address;
	socklen_t address_bytes; /* 0: there is no manager */
	uint64_t watchdog_us;    /* 0: there is no watchdog */
} manager;

/* The journal reads standard error: JOURNAL_STREAM names its device and inode. */
static bool journal_reads(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
		st.st_dev == device && st.st_ino == inode;
}

bool notify_init(void)
{
	const char *path = getenv("NOTIFY_SOCKET"), *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(manager.address.sun_path) || (*path != '/' && *path != '@'))
		return false;
	manager.address.sun_family = AF_UNIX;
	memcpy(manager.address.sun_path, path, n);
	if (*path == '@')
		manager.address.sun_path[0] = 0; /* the abstract namespace */
	manager.address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*path == '/'));
	if (journal_reads())
		msg_with_levels();
	if (period && (!pid || strtol(pid, NULL, 10) == getpid()))
		manager.watchdog_us = strtoull(period, NULL, 10);
	return true;
}

void notify_say(const char *lines)
{
	int fd;

	if (!manager.address_bytes)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
		sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&manager.address, manager.address_bytes) <
			0)
		msg_warning("the service manager cannot be told %s: %s", lines, strerror(errno));
	if (fd >= 0)
		close(fd);
}

bool notify_is_waited_for(void)
{
	return manager.address_bytes != 0;
}

uint64_t notify_watchdog_us(void)
{
	return manager.watchdog_us;
}
