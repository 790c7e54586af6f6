/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls on files and directories: EINTR is retried, short
 * transfers are completed.
 *
 * A user who may write into a data directory must not choose the files that root's
 * mount or repair reads and changes.  So no call here follows a symbolic link or "..",
 * in any component of a path (openat2 with RESOLVE_NO_SYMLINKS), and only regular files
 * are opened.  Mount points are crossed.  A call on a name opens the directory of the
 * name and uses the name in it.  A file that has a second name (a hard link) is not
 * opened for writing, because the second name may belong to another user or to a copy
 * of the store.  A refusal is logged here, because only this code knows which component
 * is the link.
 *
 * openat2 is called with the whole path and not with a descriptor of the data
 * directory: that descriptor would become stale when shared storage is mounted again.
 * Where openat2 does not exist, or a container forbids it, walk() opens the
 * components in turn.
 */
#include "engine/base/file_ops.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES_MAX = 256 };

static int error_of(int result)
{
	return result < 0 ? -errno : 0;
}

/* ---- paths ---- */

#define LINK "a symbolic link; in a data directory no link is followed, see tabletfs-boot(7)"
#define NOT_REGULAR "neither a file nor a directory"

static void (*tell)(const char *path, const char *why); /* NULL: a message */

void file_tell_refusals(void (*fn)(const char *path, const char *why))
{
	tell = fn;
}

static int refuse(const char *path, const char *why, int err)
{
	if (tell)
		tell(path, why);
	else
		msg_error("%s: %s", path, why);
	return err;
}

/* Returns true if a component of path is a symbolic link; part is then the path up to it. */
static bool find_link(const char *path, char part[PATH_MAX])
{
	struct stat st;

	for (size_t n = 1; n < PATH_MAX && path[n - 1]; n++) {
		part[n - 1] = path[n - 1];
		part[n] = 0;
		if (path[n - 1] != '/' && (path[n] == '/' || !path[n]) && lstat(part, &st) == 0 && S_ISLNK(st.st_mode))
			return true;
	}
	return false;
}

static int refuse_link(const char *path)
{
	char part[PATH_MAX];

	if (find_link(path, part))
		return refuse(part, LINK, -ELOOP);
	return -ELOOP;
}

static bool has_dot_dot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return true;
	return false;
}

static char *real_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char part[PATH_MAX], *real, *parent, *joined = NULL;

	if (!has_dot_dot(path) && !find_link(path, part))
		return strdup(path);
	real = realpath(path, NULL);
	if (real || errno != ENOENT || !slash || slash == path || !slash[1])
		return real ? real : errno == ENOMEM ? NULL : strdup(path);
	parent = strndup(path, (size_t)(slash - path));
	real = parent ? real_of(parent) : NULL;
	if (real && asprintf(&joined, "%s/%s", real, slash + 1) < 0)
		joined = NULL;
	free(real);
	free(parent);
	return joined;
}

char *file_real(const char *path)
{
	size_t n = strlen(path);
	char *without, *real;

	while (n > 1 && path[n - 1] == '/')
		n--;
	without = strndup(path, n);
	real = without ? real_of(without) : NULL;
	free(without);
	return real;
}

/* One component.  A link is ELOOP. */
static int step(int dir, const char *name, int flags)
{
	struct stat st;
	int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600), err = error_of(fd);

	if (fd >= 0 && flags & O_PATH && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
		close(fd);
		return -ELOOP;
	}
	if (err == -ENOTDIR && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return -ELOOP;
	return fd < 0 ? err : fd;
}

/* Opens path without openat2. */
static int walk(const char *path, int flags)
{
	int dir = AT_FDCWD, next = -ENOENT;
	char name[NAME_MAX + 1];

	while (*path) {
		const char *end = strchrnul(path + (*path == '/'), '/');
		size_t n = (size_t)(end - path);

		if (n >= sizeof(name))
			next = -ENAMETOOLONG;
		else {
			memcpy(name, path, n);
			name[n] = 0;
			path = end + strspn(end, "/");
			next = step(dir, name, *path ? O_PATH | O_DIRECTORY : flags);
		}
		if (dir >= 0)
			close(dir);
		if (next < 0)
			return next;
		dir = next;
	}
	return next;
}

/* Returns a descriptor or -errno. */
static int open_path(const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_LARGEFILE)),
		.mode = flags & O_CREAT ? 0600 : 0,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	long fd;

	if (has_dot_dot(path))
		return refuse(path, "a path of a data directory has no \"..\"", -EINVAL);
	do
		fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	while (fd < 0 && errno == EINTR);
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		do
			fd = walk(path, flags);
		while (fd == -EINTR);
		errno = fd < 0 ? (int)-fd : 0;
	}
	if (fd < 0)
		return errno == ELOOP ? refuse_link(path) : -errno;
	return (int)fd;
}

/* Opens the directory of path, and sets *name to the name in it. */
static int open_parent(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n >= sizeof(dir))
		return -ENAMETOOLONG;
	memcpy(dir, path, n);
	strcpy(dir + n, n ? "" : slash ? "/" : ".");
	*name = slash ? slash + 1 : path;
	return open_path(dir, O_PATH | O_DIRECTORY);
}

static int stat_path(const char *path, struct stat *st)
{
	int fd = open_path(path, O_PATH), err;

	if (fd < 0)
		return fd;
	err = error_of(fstat(fd, st));
	close(fd);
	return err;
}

/* ---- the table ---- */

static int check_opened(const char *path, int fd, int flags)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return refuse(path, NOT_REGULAR, -ENXIO);
	if ((flags & O_ACCMODE) != O_RDONLY && st.st_nlink > 1)
		return refuse(path, "has another name (a hard link), so it is not written", -EMLINK);
	return 0;
}

static int system_open(const char *path, int flags)
{
	int fd = open_path(path, flags), err;

	if (fd == -ENXIO) /* a socket, or a FIFO */
		return refuse(path, NOT_REGULAR, fd);
	if (fd < 0 || flags & (O_CREAT | O_DIRECTORY))
		return fd;
	err = check_opened(path, fd, flags);
	if (err)
		close(fd);
	return err ? err : fd;
}

static int system_read(const char *path, int fd, void *p, size_t n, uint64_t offset, size_t *got)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = pread(fd, (uint8_t *)p + done, n - done, (off_t)(offset + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	*got = done;
	return 0;
}

/* Writes all of v, which it may change. */
static int write_pieces(int fd, struct iovec *v, unsigned count, uint64_t offset)
{
	while (count > 0) {
		ssize_t r;

		if (v->iov_len == 0) {
			v++;
			count--;
			continue;
		}
		r = pwritev(fd, v, (int)count, (off_t)offset);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -EIO;
		offset += (uint64_t)r;
		while (count > 0 && (size_t)r >= v->iov_len) {
			r -= (ssize_t)v->iov_len;
			v++;
			count--;
		}
		if (count > 0) {
			v->iov_base = (uint8_t *)v->iov_base + r;
			v->iov_len -= (size_t)r;
		}
	}
	return 0;
}

static int system_write(const char *path, int fd, const struct tfs_bytes *v, unsigned count, uint64_t offset)
{
	struct iovec iov[PIECES_MAX];
	int err = 0;

	while (!err && count > 0) {
		unsigned step = count < PIECES_MAX ? count : PIECES_MAX;
		size_t n = 0;

		for (unsigned i = 0; i < step; i++) {
			iov[i] = (struct iovec){(void *)(uintptr_t)v[i].p, v[i].n};
			n += v[i].n;
		}
		err = write_pieces(fd, iov, step, offset);
		v += step;
		count -= step;
		offset += n;
	}
	return err;
}

static int system_size(const char *path, int fd, uint64_t *bytes)
{
	struct stat st;
	int err = fd < 0 ? stat_path(path, &st) : error_of(fstat(fd, &st));

	if (!err)
		*bytes = (uint64_t)st.st_size;
	return err;
}

static int system_sync(const char *path, int fd, const char *place)
{
	return error_of(fdatasync(fd));
}

static int system_truncate(const char *path, int fd, uint64_t bytes)
{
	int err;

	do
		err = error_of(ftruncate(fd, (off_t)bytes));
	while (err == -EINTR);
	return err;
}

/* fallocate, or a longer sparse file if the file system has no fallocate. */
static int system_allocate(const char *path, int fd, uint64_t offset, uint64_t n)
{
	struct stat st;

	while (fallocate(fd, 0, (off_t)offset, (off_t)n) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EOPNOTSUPP)
			return -errno;
		if (fstat(fd, &st) < 0)
			return -errno;
		if ((uint64_t)st.st_size < offset + n && ftruncate(fd, (off_t)(offset + n)) < 0)
			return -errno;
		break;
	}
	return 0;
}

static int system_unlink(const char *path)
{
	const char *name;
	int dir = open_parent(path, &name), err = dir < 0 ? dir : error_of(unlinkat(dir, name, 0));

	if (dir >= 0)
		close(dir);
	return err;
}

/* rename or link */
static int change_name(const char *from, const char *to, bool moves)
{
	const char *was, *is;
	int a = open_parent(from, &was), b = a < 0 ? -1 : open_parent(to, &is), err = a < 0 ? a : b < 0 ? b : 0;

	if (!err)
		err = error_of(moves ? renameat(a, was, b, is) : linkat(a, was, b, is, 0));
	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
	return err;
}

static int system_rename(const char *from, const char *to)
{
	return change_name(from, to, true);
}

static int system_link(const char *from, const char *to)
{
	return change_name(from, to, false);
}

static int system_mkdir(const char *path)
{
	const char *name;
	int dir = open_parent(path, &name), err = dir < 0 ? dir : error_of(mkdirat(dir, name, 0700));

	if (dir >= 0)
		close(dir);
	return err;
}

static int system_rmdir(const char *path)
{
	const char *name;
	int dir = open_parent(path, &name), err = dir < 0 ? dir : error_of(unlinkat(dir, name, AT_REMOVEDIR));

	if (dir >= 0)
		close(dir);
	return err;
}

static int system_sync_dir(const char *path, const char *place)
{
	int err, fd = system_open(path, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return fd;
	err = error_of(fsync(fd));
	close(fd);
	return err;
}

/* A type of <dirent.h>. */
static int type_of_entry(int fd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type;
	return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (int)IFTODT(st.st_mode) : DT_UNKNOWN;
}

static int list_entry(const char *dir, int fd, const struct dirent *e, struct buf *entries, struct buf *names)
{
	struct file_entry x = {.name_at = names->n};
	int type = type_of_entry(fd, e), err;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
	if (type == DT_LNK)
		return refuse(path, LINK, -ELOOP);
	if (type == DT_FIFO || type == DT_CHR || type == DT_BLK)
		return refuse(path, NOT_REGULAR, -ENXIO);
	x.is_dir = type == DT_DIR;
	err = buf_append(names, e->d_name, strlen(e->d_name) + 1);
	return err ? err : buf_append(entries, &x, sizeof(x));
}

static int system_list(const char *dir, struct buf *entries, struct buf *names)
{
	int fd = system_open(dir, O_RDONLY | O_DIRECTORY), err = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		err = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err) {
		const struct dirent *e;

		errno = 0;
		e = readdir(d);
		if (!e) {
			err = -errno;
			break;
		}
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			err = list_entry(dir, fd, e, entries, names);
	}
	closedir(d);
	return err;
}

static int system_free_bytes(const char *path, uint64_t *bytes)
{
	struct statvfs v;
	int fd = open_path(path, O_PATH), err = fd < 0 ? fd : error_of(fstatvfs(fd, &v));

	if (fd >= 0)
		close(fd);
	if (!err)
		*bytes = (uint64_t)v.f_bavail * (uint64_t)v.f_frsize;
	return err;
}

static int system_look_up(const char *path, uint64_t *id)
{
	struct stat st;
	int err = stat_path(path, &st);

	if (!err)
		*id = (uint64_t)st.st_ino;
	return err;
}

const struct file_ops file_system = {
	.open = system_open,
	.read = system_read,
	.write = system_write,
	.size = system_size,
	.sync = system_sync,
	.truncate = system_truncate,
	.allocate = system_allocate,
	.unlink = system_unlink,
	.rename = system_rename,
	.link = system_link,
	.mkdir = system_mkdir,
	.rmdir = system_rmdir,
	.sync_dir = system_sync_dir,
	.list = system_list,
	.free_bytes = system_free_bytes,
	.look_up = system_look_up,
};

int file_read_secret(const char *path, size_t limit, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = fd < 0 ? -errno : 0;
	struct stat st;
	ssize_t n = 1;

	if (!err && fstat(fd, &st))
		err = -errno;
	if (!err && !S_ISREG(st.st_mode))
		err = -EINVAL;
	if (!err && (st.st_uid != geteuid() || (st.st_mode & 077)))
		err = -EACCES;
	if (!err)
		err = buf_reserve(out, limit + 1);
	while (!err && n > 0 && out->n <= limit) {
		n = read(fd, out->p + out->n, limit + 1 - out->n);
		if (n < 0)
			err = -errno;
		else
			out->n += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	return err ? err : out->n > limit ? -EFBIG : 0;
}
