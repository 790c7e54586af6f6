/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls on files and directories: EINTR is retried, short
 * transfers are completed.
 */
#include "engine/base/file_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES_MAX = 256, ZERO_BYTES = 1 << 20 };

static int error_of(int result)
{
	return result < 0 ? -errno : 0;
}

static int system_open(const char *path, int flags)
{
	int fd;

	do
		fd = open(path, flags | O_CLOEXEC, 0600);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
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

static int system_write(const char *path, int fd, const struct slice *v, unsigned count, uint64_t offset)
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

	if ((fd < 0 ? stat(path, &st) : fstat(fd, &st)) < 0)
		return -errno;
	*bytes = (uint64_t)st.st_size;
	return 0;
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
static int file_reserve(int fd, uint64_t offset, uint64_t n)
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

static int system_allocate(const char *path, int fd, uint64_t offset, uint64_t n, bool zeroed)
{
	uint8_t *zeros;
	int err = file_reserve(fd, offset, n);

	if (err || !zeroed)
		return err;
	zeros = calloc(1, ZERO_BYTES);
	if (!zeros)
		return -ENOMEM;
	while (!err && n > 0) {
		struct iovec v = {zeros, n < ZERO_BYTES ? (size_t)n : ZERO_BYTES};
		size_t step = v.iov_len;

		err = write_pieces(fd, &v, 1, offset);
		offset += step;
		n -= step;
	}
	free(zeros);
	return err;
}

static int system_unlink(const char *path)
{
	return error_of(unlink(path));
}

static int system_rename(const char *from, const char *to)
{
	return error_of(rename(from, to));
}

static int system_link(const char *from, const char *to)
{
	return error_of(link(from, to));
}

static int system_mkdir(const char *path)
{
	return error_of(mkdir(path, 0700));
}

static int system_rmdir(const char *path)
{
	return error_of(rmdir(path));
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

static bool is_dir_entry(int fd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int system_list(const char *dir, struct buf *entries, struct buf *names)
{
	const struct dirent *e;
	DIR *d = opendir(dir);
	int err = d ? 0 : -errno;

	while (!err) {
		struct file_entry x = {.name_at = names->n};

		errno = 0;
		e = readdir(d);
		if (!e) {
			err = -errno;
			break;
		}
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		x.is_dir = is_dir_entry(dirfd(d), e);
		err = buf_append(names, e->d_name, strlen(e->d_name) + 1);
		if (!err)
			err = buf_append(entries, &x, sizeof(x));
	}
	if (d)
		closedir(d);
	return err;
}

static int system_free_bytes(const char *path, uint64_t *bytes)
{
	struct statvfs v;

	if (statvfs(path, &v) < 0)
		return -errno;
	*bytes = (uint64_t)v.f_bavail * (uint64_t)v.f_frsize;
	return 0;
}

static int system_look_up(const char *path, uint64_t *id)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	*id = (uint64_t)st.st_ino;
	return 0;
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
