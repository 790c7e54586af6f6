/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports to the service manager that started the daemon (daemon.h, engine/daemon/notify.h).
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
 * The prober of a server without a mount sends a request to the server's own listener, which one of the
 * workers for users' requests must take.  So a server whose workers are all stuck is ended, too.
 *
 * The prober names the mount point relative to its parent directory, which may
 * be renamed.  It does not hold the root open, because a file that is open in the
 * mount makes umount(8) fail.  If another file system is at the name, such as after
 * umount -l, the mount cannot be asked and counts as answering.
 */
#include "fs/daemon.h"

#include "engine/base/clock.h"
#include "engine/daemon/notify.h"
#include "fs/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_US 1000000u

static struct {
	uint64_t watchdog_us; /* 0: there is no watchdog */
	int parent;           /* directory of the mount point */
	char *name;           /* NULL: there is no mount */
	struct mutex lock;    /* RANK_FS_NOTIFY: nothing is called under it.  Guards the members below */
	struct cond ask, wake;
	bool asked, answered, stop;
	bool started, timer_runs, prober_runs;
	pthread_t timer, prober;
} service = {.parent = -1};

/* ---- the mount, and the server without a mount ---- */

/* Returns true if the mount has answered, or cannot be asked.  *device is the device of the mount; 0: not known yet. */
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
		answered = service.name ? probe_mount(&device) : tfs_answers(fs.store, ANSWER_US) == 0;
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
	notify_say(lines);
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

	if (!notify_is_waited_for())
		return 0;
	service.started = true;
	service.watchdog_us = notify_watchdog_us();
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
