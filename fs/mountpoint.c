/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks that a mount point must pass (daemon.h).  libfuse and
 * fusermount3 report most of these causes as "No such device", or mount
 * nevertheless.  A mount point that is the data directory, contains it or is in
 * it must be refused: the daemon would wait for its own answers in system calls
 * that SIGKILL cannot end.  Directories are compared by device and inode
 * number, which covers symbolic links and bind mounts.
 *
 * If the daemon of an earlier mount has died, calls on its mount point fail with
 * ENOTCONN, and nothing can use that mount any more.  So the next daemon unmounts
 * it, lazily because processes may still have files open there.  This is done only
 * if the mount table shows that the mount is one of tabletfs.
 *
 * A daemon that is killed may not end: its notifier waits in the kernel for a
 * directory that a client has locked, and the client waits for the daemon's answer.
 * The process then keeps the lock of the store, and calls on the mount wait forever.
 * A forced unmount ends all requests of the mount, and so both waits.
 */
#include "fs/daemon.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void __attribute__((format(printf, 2, 3))) say(char **why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(why, fmt, ap) < 0)
		*why = NULL;
	va_end(ap);
}

/* Returns true if st is of the directory path, or of a directory that contains it.  Absent components are skipped. */
static bool lies_in(const char *path, const struct stat *st)
{
	char *at = strdup(path);
	bool found = false;
	struct stat other;

	while (at && *at && !found) {
		char *slash = strrchr(at, '/');

		found = stat(at, &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
		if (slash && slash != at)
			*slash = 0;
		else if (slash && at[1])
			at[1] = 0;
		else
			break;
	}
	free(at);
	return found;
}

static int source_check_overlap(const char *mountpoint, const struct stat *st, const char *source, char **why)
{
	char *real = file_real(source);
	struct stat other;
	int err = 0;

	if (!real) {
		err = -ENOMEM;
		say(why, "%s: %s", mountpoint, strerror(-err));
	} else if (lies_in(real, st)) {
		err = -EINVAL;
		say(why, "%s: the mount point is the data directory %s or contains it; choose another directory", mountpoint,
			source);
	} else if (stat(real, &other) == 0 && lies_in(mountpoint, &other)) {
		err = -EINVAL;
		say(why, "%s: the mount point lies in the data directory %s; choose another directory", mountpoint, source);
	}
	free(real);
	return err;
}

static int fuse_device_check(char **why)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), err = fd < 0 ? -errno : 0;

	if (err)
		say(why, "/dev/fuse: %s%s", strerror(-err),
			err == -ENOENT || err == -ENODEV || err == -ENXIO ? "; load the kernel's FUSE: modprobe fuse"
				: err == -EACCES || err == -EPERM         ? "; its mode must let you read and write it"
									  : "");
	else
		close(fd);
	return err;
}

/* ---- dead mounts ---- */

/* The path of a mount that may be dead, as the mount table has it.  NULL: it cannot be found.  The lookup sends no request to the daemon. */
static char *dead_path(const char *mountpoint)
{
	char link[32], path[PATH_MAX];
	int fd = open(mountpoint, O_PATH | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	close(fd);
	return n > 0 && n < (ssize_t)sizeof(path) ? strndup(path, (size_t)n) : NULL;
}

/* Copies the type and, unless it is NULL, the options of the topmost mount at path.  *type is empty if there is none. */
static void mount_find(const char *path, char *type, size_t type_bytes, char *options, size_t options_bytes)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char text[2 * PATH_MAX];
	struct mntent m;

	*type = 0;
	while (f && getmntent_r(f, &m, text, sizeof(text))) {
		if (strcmp(m.mnt_dir, path) != 0)
			continue;
		snprintf(type, type_bytes, "%s", m.mnt_type);
		if (options)
			snprintf(options, options_bytes, "%s", m.mnt_opts);
	}
	if (f)
		endmntent(f);
}

bool mountpoint_is_ours(const char *path, char *options, size_t options_bytes)
{
	char type[64];

	mount_find(path, type, sizeof(type), options, options_bytes);
	return strcmp(type, "fuse.tabletfs") == 0;
}

static bool mount_is_ours(const char *path)
{
	return mountpoint_is_ours(path, NULL, 0);
}

/*
 * A mount would hide what is mounted there already.  An automount is a mount itself.  The
 * mount table is read, because a request to the other mount might wait.
 */
static int mount_check_free(const char *mountpoint, char **why)
{
	char *path = dead_path(mountpoint), type[64] = "";

	if (path)
		mount_find(path, type, sizeof(type), NULL, 0);
	if (*type && strcmp(type, "autofs") != 0)
		say(why,
			"%s: the mount point is in use: a file system of type %s is mounted there; unmount it, or choose another directory",
			path, type);
	free(path);
	return *type && strcmp(type, "autofs") != 0 ? -EBUSY : 0;
}

/* Returns 0 or -errno.  Users other than root need fusermount3. */
static int unmount_lazily(char *path)
{
	char program[] = "fusermount3", options[] = "-uqz", end[] = "--", *argv[] = {program, options, end, path, NULL};
	int status, err;
	pid_t pid;

	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno != EPERM)
		return -errno;
	err = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* stat(2) would show attributes that the kernel has cached. */
static bool mount_is_dead(const char *path)
{
	struct statx st;

	return statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC | AT_NO_AUTOMOUNT, STATX_MODE, &st) != 0 && errno == ENOTCONN;
}

/* Returns true if the process was killed and has not ended. */
static bool is_dying(long pid)
{
	char path[64], line[128] = "";
	const char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (f && !fgets(line, sizeof(line), f))
		*line = 0;
	if (f)
		fclose(f);
	end = strrchr(line, ')'); /* the end of the name; then the state of the first thread */
	return end && strncmp(end, ") Z", 3) == 0;
}

/* Returns the process that has locked the store, or 0. */
static long store_holder(const char *source)
{
	char *held, line[256];
	long holder = 0;
	struct stat st;
	FILE *f = NULL;

	if (asprintf(&held, "%s/lock/held", source) < 0)
		return 0;
	if (lstat(held, &st) == 0)
		f = fopen("/proc/locks", "re");
	free(held);
	while (f && !holder && fgets(line, sizeof(line), f)) {
		unsigned long long inode;
		unsigned major, minor;
		long pid;

		if (sscanf(line, "%*u: FLOCK ADVISORY WRITE %ld %x:%x:%llu", &pid, &major, &minor, &inode) == 4 &&
			inode == st.st_ino && makedev(major, minor) == st.st_dev)
			holder = pid;
	}
	if (f)
		fclose(f);
	return holder;
}

/*
 * Returns true if the process that has locked the store is dying.  A process that was just
 * killed gets some time to end: a store that is in use is refused anyway.
 */
static bool store_holder_is_dying(const char *source)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	bool dying = false;
	long pid;

	for (int i = 0; i < 25 && !dying && (pid = store_holder(source)) > 0; i++) {
		dying = is_dying(pid);
		if (!dying)
			nanosleep(&pause, NULL);
	}
	return dying;
}

/* Ends the requests of a mount of the store whose daemon is dying.  Calls on the mount then fail with ENOTCONN. */
static void end_requests(const char *mountpoint, const char *source)
{
	char *path = store_holder_is_dying(source) ? dead_path(mountpoint) : NULL;

	if (path && mount_is_ours(path)) {
		msg_notice("%s: the daemon of an earlier mount was killed, and waits for it; its requests are ended", path);
		(void)!umount2(path, MNT_FORCE | UMOUNT_NOFOLLOW); /* EBUSY: but the requests have ended */
	}
	free(path);
}

/* Unmounts the mounts at the mount point whose daemons have died. */
static void remove_dead(const char *mountpoint)
{
	char *path = dead_path(mountpoint);

	while (path && mount_is_dead(path) && mount_is_ours(path) && unmount_lazily(path) == 0)
		msg_notice("%s: the daemon of an earlier mount has died; it is unmounted", path);
	free(path);
}

int mountpoint_check(const char *mountpoint, const char *dir, char **path, char **why)
{
	struct stat st;
	char *real;
	int err = 0;

	*why = NULL;
	if (dir)
		end_requests(mountpoint, dir);
	if (mount_is_dead(mountpoint))
		remove_dead(mountpoint);
	err = mount_check_free(mountpoint, why);
	if (err)
		return err;
	real = realpath(mountpoint, NULL);
	if (!real || stat(real, &st) != 0 || mount_is_dead(real)) {
		err = -errno;
		if (err == -ENOTCONN)
			say(why, "%s: the daemon of an earlier mount there has died; unmount it with: fusermount3 -u %s",
				mountpoint, mountpoint);
		else
			say(why, "%s: %s", mountpoint, strerror(-err));
	} else if (!S_ISDIR(st.st_mode)) {
		err = -ENOTDIR;
		say(why, "%s: the mount point is not a directory", mountpoint);
	} else if (access(real, W_OK) != 0) {
		err = -errno;
		say(why, "%s: the mount point is not writable: %s", mountpoint, strerror(-err));
	} else if (dir) {
		err = source_check_overlap(real, &st, dir, why);
	}
	if (!err)
		err = fuse_device_check(why);
	if (err)
		free(real);
	else
		*path = real;
	return err;
}
