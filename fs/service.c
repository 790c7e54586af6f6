/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager that started the daemon (daemon.h).  The
 * protocol is a datagram of lines VARIABLE=VALUE to the socket in
 * NOTIFY_SOCKET, so libsystemd is not needed.
 *
 * The watchdog must find a daemon whose threads live while the mount hangs.  So
 * the prober asks the mount itself, through the kernel, for the attributes of its
 * root.  This call can hang, therefore another thread, the timer, sends
 * WATCHDOG=1: four times in the manager's period, if the mount has answered since
 * the last time.
 *
 * A daemon that is only busy must not be killed.  A long request does not delay
 * the probe (fs/loop.c), unless all threads of the loop are in long requests.  Only
 * the verbs of control files last for minutes; while one is running, the timer
 * sends WATCHDOG=1 without an answer.
 *
 * The watchdog of a server without a mount asks it by its socket: the prober connects, and
 * waits for the server's HELLO.
 *
 * The prober names the mount point relative to its parent directory, which may
 * be renamed.  It does not hold the root open, because a file that is open in the
 * mount makes umount(8) fail.  If another file system is at the name, such as after
 * umount -l, the mount cannot be asked and counts as answering.
 */
#include "fs/daemon.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "fs/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
	struct sockaddr_un address;
	socklen_t address_bytes; /* 0: there is no manager */
	uint64_t watchdog_us;    /* 0: there is no watchdog */
	int parent;              /* directory of the mount point */
	char *name;              /* NULL: there is no mount */
	struct mutex lock;       /* RANK_FS_NOTIFY: nothing is called under it.  Guards the members below */
	struct cond ask, wake;
	bool asked, answered, stop;
	bool started, timer_runs, prober_runs;
	pthread_t timer, prober;
} service = {.parent = -1};

/* ---- messages ---- */

/* The journal reads standard error: JOURNAL_STREAM names its device and inode. */
static bool journal_reads(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
		st.st_dev == device && st.st_ino == inode;
}

bool service_init(void)
{
	const char *path = getenv("NOTIFY_SOCKET"), *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(service.address.sun_path) || (*path != '/' && *path != '@'))
		return false;
	service.address.sun_family = AF_UNIX;
	memcpy(service.address.sun_path, path, n);
	if (*path == '@')
		service.address.sun_path[0] = 0; /* the abstract namespace */
	service.address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*path == '/'));
	if (journal_reads())
		msg_with_levels();
	if (period && (!pid || strtol(pid, NULL, 10) == getpid()))
		service.watchdog_us = strtoull(period, NULL, 10);
	return true;
}

void service_say(const char *lines)
{
	int fd;

	if (!service.address_bytes)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
		sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&service.address, service.address_bytes) <
			0)
		msg_warning("the service manager cannot be told %s: %s", lines, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* ---- the mount, and the server without a mount ---- */

/* Returns true if the server has answered. */
static bool probe_server(void)
{
	const struct tfs_options o = {.timeout_us = 1000000};
	struct tfs_store *s = NULL;
	char *source;
	int err;

	if (asprintf(&source, "unix:%s", fs.source) < 0)
		return false;
	err = tfs_open(source, &o, &s, NULL);
	free(source);
	return !err && tfs_close(s) == 0;
}

/* Returns true if the mount has answered, or cannot be asked.  *device: of the mount, 0: not known yet. */
static bool probe_mount(uint64_t *device)
{
	struct statx st;
	uint64_t at;

	if (statx(service.parent, service.name, AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MODE, &st) != 0)
		return *device && errno != ENOTCONN && errno != ECONNABORTED;
	at = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	if (!*device)
		*device = at;
	return true;
}

static void *prober_main(void *arg)
{
	uint64_t device = 0;
	bool answered;

	mutex_lock(&service.lock);
	while (!service.stop) {
		if (!service.asked) {
			cond_wait(&service.ask, &service.lock);
			continue;
		}
		mutex_unlock(&service.lock);
		answered = service.name ? probe_mount(&device) : probe_server();
		mutex_lock(&service.lock);
		service.asked = false;
		service.answered = service.answered || answered;
		cond_signal(&service.wake);
	}
	mutex_unlock(&service.lock);
	return NULL;
}

static void ask_locked(void)
{
	service.asked = true;
	cond_signal(&service.ask);
}

static void say_unlocked(const char *lines)
{
	mutex_unlock(&service.lock);
	service_say(lines);
	mutex_lock(&service.lock);
}

static void *timer_main(void *arg)
{
	mutex_lock(&service.lock);
	ask_locked();
	while (!service.stop && !service.answered)
		cond_wait(&service.wake, &service.lock);
	if (!service.stop)
		say_unlocked("READY=1");
	while (!service.stop && service.watchdog_us) {
		uint64_t end = monotonic_us() + service.watchdog_us / 4, now;

		service.answered = false;
		ask_locked();
		while (!service.stop && (now = monotonic_us()) < end)
			(void)!cond_wait_us(&service.wake, &service.lock, end - now);
		if (!service.stop && (service.answered || fs.verbs))
			say_unlocked("WATCHDOG=1");
	}
	mutex_unlock(&service.lock);
	return NULL;
}

/* Opens the parent directory of the mount point.  Returns an errno. */
static int open_parent(const char *mountpoint)
{
	const char *slash = strrchr(mountpoint, '/');
	char *parent = strndup(mountpoint, slash == mountpoint ? 1 : (size_t)(slash - mountpoint));
	int r;

	service.name = strdup(slash + 1);
	service.parent = parent ? open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	r = service.name && service.parent >= 0 ? 0 : parent && service.name ? errno : ENOMEM;
	free(parent);
	return r;
}

int service_start(const char *mountpoint)
{
	int r;

	if (!service.address_bytes)
		return 0;
	service.started = true;
	r = mountpoint ? open_parent(mountpoint) : 0;
	mutex_init(&service.lock, RANK_FS_NOTIFY);
	cond_init(&service.ask);
	cond_init(&service.wake);
	if (r == 0)
		r = pthread_create(&service.prober, NULL, prober_main, NULL);
	service.prober_runs = r == 0;
	if (r == 0)
		r = pthread_create(&service.timer, NULL, timer_main, NULL);
	service.timer_runs = r == 0;
	return -r;
}

void service_stop(void)
{
	if (!service.started)
		return;
	service.started = false;
	mutex_lock(&service.lock);
	service.stop = true;
	cond_signal(&service.ask);
	cond_signal(&service.wake);
	mutex_unlock(&service.lock);
	if (service.prober_runs)
		pthread_join(service.prober, NULL);
	if (service.timer_runs)
		pthread_join(service.timer, NULL);
	cond_fini(&service.ask);
	cond_fini(&service.wake);
	mutex_fini(&service.lock);
	if (service.parent >= 0)
		close(service.parent);
	free(service.name);
	service.name = NULL;
}
