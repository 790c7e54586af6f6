/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: system calls made whole (EINTR retried, short transfers completed),
 * each passing the fault hook first.  The composed calls (file_read_all,
 * file_replace) are made of the others and so pass it at each of their
 * steps.  In forget mode the disk's part of a call runs between forget_enter
 * and forget_leave and leaves its record (forget.c); the hook runs before
 * that, under no lock, so it may stall, or crash the store and exit.
 *
 * file_replace, durable steps:
 *   1 write path.tmp       crash: path as it was; a path.tmp is left over
 *   2 fdatasync path.tmp   crash: the same
 *   3 rename over path     crash: path old or new, each whole
 *   4 fsync the directory  crash: path new
 * A path.tmp left over is removed by the next file_replace.  Writing in
 * place was decided against: no write is atomic.
 *
 * Listings are read whole and sorted before the first callback: callbacks
 * may then create and remove entries, and runs repeat exactly, which tests
 * that count operations rely on.
 */
#include "engine/base/file.h"

#include "engine/base/file_pool.h"
#include "engine/base/forget.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES_MOST = 256, ZERO_BYTES = 1 << 20, READ_STEP_BYTES = 64 * 1024 };

const char *const file_op_names[FILE_OPS] = {
	[FILE_OP_OPEN] = "open",
	[FILE_OP_CREATE] = "create",
	[FILE_OP_READ] = "read",
	[FILE_OP_WRITE] = "write",
	[FILE_OP_SYNC] = "sync",
	[FILE_OP_TRUNCATE] = "truncate",
	[FILE_OP_ALLOCATE] = "allocate",
	[FILE_OP_UNLINK] = "unlink",
	[FILE_OP_RENAME] = "rename",
	[FILE_OP_MKDIR] = "mkdir",
	[FILE_OP_RMDIR] = "rmdir",
	[FILE_OP_SYNCDIR] = "syncdir",
	[FILE_OP_LIST] = "list",
};

/* Set while no I/O is under way, so plain; the number is shared. */
static file_hook_fn *hook;
static void *hook_arg;
static atomic_uint_least64_t hook_number;

void file_set_hook(file_hook_fn *fn, void *arg)
{
	hook = fn;
	hook_arg = arg;
	atomic_store(&hook_number, 0);
}

static file_room_fn *room_fn;
static void *room_arg;

void file_set_room(file_room_fn *fn, void *arg)
{
	room_fn = fn;
	room_arg = arg;
}

static __thread const char *sync_place;

const char *file_sync_place(void)
{
	return sync_place;
}

static int fault(enum file_op op, const char *path, uint64_t offset, size_t n)
{
	if (!hook)
		return 0;
	return hook(hook_arg, op, path, offset, n, atomic_fetch_add(&hook_number, 1) + 1);
}

static int open_once(const char *path, int flags)
{
	int fd = forget_enter(path, NULL);

	if (fd < 0)
		return fd;
	if (fd > 0) {
		if (flags & O_CREAT)
			fd = forget_create(path, flags);
		else if ((fd = open(path, flags | O_CLOEXEC)) < 0)
			fd = -errno;
		forget_leave();
		return fd;
	}
	do
		fd = open(path, flags | O_CLOEXEC, 0600);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

static bool no_descriptor(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

static int open_fd(const char *path, int flags)
{
	int fd;

	do
		fd = open_once(path, flags);
	while (no_descriptor(fd) && pool_close_idle());
	return fd;
}

int file_open_again(const char *path)
{
	int err = fault(FILE_OP_OPEN, path, 0, 0);

	return err < 0 ? err : open_fd(path, O_RDONLY | O_NONBLOCK);
}

int file_open(const char *path, enum file_mode mode, struct file **out)
{
	/* NONBLOCK: a FIFO in the place of a file is an error, not a wait for somebody to write it. */
	static const int flags[] = {
		[FILE_READ] = O_RDONLY | O_NONBLOCK,
		[FILE_CREATE] = O_RDWR | O_CREAT | O_EXCL,
		[FILE_READWRITE] = O_RDWR | O_NONBLOCK,
		[FILE_POOLED] = O_RDONLY | O_NONBLOCK,
	};
	size_t n = strlen(path) + 1;
	struct file *f;
	int rc, fd;

	f = calloc(1, sizeof(*f) + n);
	if (!f)
		return -ENOMEM;
	memcpy(f->path, path, n);
	f->pooled = mode == FILE_POOLED;
	f->fd = -1;
	if (f->pooled) {
		rc = pool_get(f, &fd);
		if (!rc)
			pool_put(f);
	} else {
		rc = fault(mode == FILE_CREATE ? FILE_OP_CREATE : FILE_OP_OPEN, path, 0, 0);
		if (!rc)
			rc = open_fd(path, flags[mode]);
		if (rc >= 0)
			f->fd = rc;
	}
	if (rc < 0) {
		free(f);
		return rc;
	}
	*out = f;
	return 0;
}

void file_close(struct file *f)
{
	if (!f)
		return;
	if (f->pooled)
		pool_forget(f);
	else
		close(f->fd);
	free(f);
}

const char *file_path(const struct file *f)
{
	return f->path;
}

int file_fd(const struct file *f)
{
	return f->fd;
}

int file_pread(struct file *f, void *p, size_t n, uint64_t offset, size_t *got)
{
	size_t done = 0;
	int entered, rc = fault(FILE_OP_READ, f->path, offset, n), fd = f->fd;

	if (rc < 0)
		return rc;
	if (f->pooled && (rc = pool_get(f, &fd)))
		return rc;
	entered = forget_enter(f->path, NULL);
	if (entered < 0) {
		if (f->pooled)
			pool_put(f);
		return entered;
	}
	while (done < n) {
		ssize_t r = pread(fd, (uint8_t *)p + done, n - done, (off_t)(offset + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			rc = -errno;
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	if (entered)
		forget_leave();
	if (f->pooled)
		pool_put(f);
	if (rc == 0)
		*got = done;
	return rc;
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

int file_pwritev(struct file *f, const struct slice *v, unsigned count, uint64_t offset)
{
	struct iovec iov[PIECES_MOST];
	size_t total = 0;
	int rc, entered;

	for (unsigned i = 0; i < count; i++)
		total += v[i].n;
	rc = fault(FILE_OP_WRITE, f->path, offset, total);
	if (rc < 0)
		return rc;
	entered = forget_enter(f->path, NULL);
	if (entered < 0)
		return entered;
	if (entered)
		rc = forget_note_write(f->fd, offset, total);
	while (rc == 0 && count > 0) {
		unsigned step = count < PIECES_MOST ? count : PIECES_MOST;
		size_t n = 0;

		for (unsigned i = 0; i < step; i++) {
			iov[i] = (struct iovec){(void *)(uintptr_t)v[i].p, v[i].n};
			n += v[i].n;
		}
		rc = write_pieces(f->fd, iov, step, offset);
		v += step;
		count -= step;
		offset += n;
	}
	if (entered)
		forget_leave();
	return rc;
}

int file_pwrite(struct file *f, const void *p, size_t n, uint64_t offset)
{
	struct slice s = slice_of(p, n);

	return file_pwritev(f, &s, 1, offset);
}

int file_sync_at(struct file *f, const char *place)
{
	int entered, rc;

	sync_place = place;
	rc = fault(FILE_OP_SYNC, f->path, 0, 0);
	if (rc < 0)
		return rc;
	entered = forget_enter(f->path, NULL);
	if (entered < 0)
		return entered;
	if (entered) {
		rc = forget_sync(f->fd);
		forget_leave();
		return rc;
	}
	return fdatasync(f->fd) < 0 ? -errno : 0;
}

void file_write_out(struct file *f, uint64_t offset, uint64_t n)
{
	(void)!sync_file_range(f->fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

int file_size(struct file *f, uint64_t *bytes)
{
	int fd = f->fd, rc = f->pooled ? pool_get(f, &fd) : 0;
	struct stat st;

	if (rc)
		return rc;
	rc = fstat(fd, &st) < 0 ? -errno : 0;
	if (f->pooled)
		pool_put(f);
	if (!rc)
		*bytes = (uint64_t)st.st_size;
	return rc;
}

int file_truncate(struct file *f, uint64_t bytes)
{
	int entered, rc = fault(FILE_OP_TRUNCATE, f->path, bytes, 0);

	if (rc < 0)
		return rc;
	entered = forget_enter(f->path, NULL);
	if (entered < 0)
		return entered;
	if (entered)
		rc = forget_note_truncate(f->fd, bytes);
	while (rc == 0 && ftruncate(f->fd, (off_t)bytes) < 0) {
		if (errno != EINTR)
			rc = -errno;
	}
	if (entered)
		forget_leave();
	return rc;
}

/* fallocate, or where the file system has none a longer sparse file. */
static int allocate(int fd, uint64_t offset, uint64_t n)
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

static int write_zeros(int fd, uint64_t offset, uint64_t n, bool noted)
{
	uint8_t *zeros = calloc(1, ZERO_BYTES);
	int rc = zeros ? 0 : -ENOMEM;

	while (rc == 0 && n > 0) {
		struct iovec v = {zeros, n < ZERO_BYTES ? (size_t)n : ZERO_BYTES};
		size_t step = v.iov_len;

		if (noted)
			rc = forget_note_write(fd, offset, step);
		if (rc == 0)
			rc = write_pieces(fd, &v, 1, offset);
		offset += step;
		n -= step;
	}
	free(zeros);
	return rc;
}

int file_preallocate(struct file *f, uint64_t offset, uint64_t n, bool zeroed)
{
	int entered, rc = fault(FILE_OP_ALLOCATE, f->path, offset, (size_t)n);

	if (rc < 0 || n == 0)
		return rc;
	entered = forget_enter(f->path, NULL);
	if (entered < 0)
		return entered;
	if (entered)
		rc = forget_note_allocate(f->fd);
	if (rc == 0)
		rc = allocate(f->fd, offset, n);
	if (rc == 0 && zeroed)
		rc = write_zeros(f->fd, offset, n, entered);
	if (entered)
		forget_leave();
	return rc;
}

int file_unlink(const char *path)
{
	int entered, rc = fault(FILE_OP_UNLINK, path, 0, 0);

	if (rc < 0)
		return rc;
	entered = forget_enter(path, NULL);
	if (entered < 0)
		return entered;
	if (!entered)
		return unlink(path) < 0 ? -errno : 0;
	rc = forget_unlink(path);
	forget_leave();
	return rc;
}

int file_rename(const char *from, const char *to)
{
	int entered, rc = fault(FILE_OP_RENAME, from, 0, 0);

	if (rc < 0)
		return rc;
	entered = forget_enter(from, to);
	if (entered < 0)
		return entered;
	if (!entered)
		return rename(from, to) < 0 ? -errno : 0;
	rc = forget_rename(from, to);
	forget_leave();
	return rc;
}

int file_link(const char *from, const char *to)
{
	int rc = fault(FILE_OP_CREATE, to, 0, 0);

	if (rc < 0)
		return rc;
	return link(from, to) < 0 ? -errno : 0;
}

int file_mkdir(const char *path)
{
	int entered, rc = fault(FILE_OP_MKDIR, path, 0, 0);

	if (rc < 0)
		return rc;
	entered = forget_enter(path, NULL);
	if (entered < 0)
		return entered;
	if (!entered)
		return mkdir(path, 0700) < 0 ? -errno : 0;
	rc = forget_mkdir(path);
	forget_leave();
	return rc;
}

int file_rmdir(const char *path)
{
	int entered, rc = fault(FILE_OP_RMDIR, path, 0, 0);

	if (rc < 0)
		return rc;
	entered = forget_enter(path, NULL);
	if (entered < 0)
		return entered;
	if (!entered)
		return rmdir(path) < 0 ? -errno : 0;
	rc = forget_rmdir(path);
	forget_leave();
	return rc;
}

int file_sync_dir_at(const char *path, const char *place)
{
	int fd, rc;

	sync_place = place;
	rc = fault(FILE_OP_SYNCDIR, path, 0, 0);
	if (rc < 0)
		return rc;
	rc = forget_sync_dir(path);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	fd = open_fd(path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	rc = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

int file_stat_size(const char *path, uint64_t *bytes)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	*bytes = (uint64_t)st.st_size;
	return 0;
}

struct entry {
	size_t at; /* offset of the name in the buffer of names */
	const char *name;
	bool is_dir;
};

static int entry_cmp(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool is_dir_entry(int fd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* The entries in readdir's order: structs in entries, names in names. */
static int read_dir(const char *dir, struct buf *entries, struct buf *names)
{
	const struct dirent *e;
	int rc = 0;
	DIR *d;

	while (!(d = opendir(dir)))
		if (!no_descriptor(-errno) || !pool_close_idle())
			return -errno;
	while (rc == 0) {
		struct entry x = {.at = names->n};

		errno = 0;
		e = readdir(d);
		if (!e) {
			rc = -errno;
			break;
		}
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		x.is_dir = is_dir_entry(dirfd(d), e);
		rc = buf_append(names, e->d_name, strlen(e->d_name) + 1);
		if (rc == 0)
			rc = buf_append(entries, &x, sizeof(x));
	}
	closedir(d);
	return rc;
}

int file_list(const char *dir, int (*fn)(void *arg, const char *name, bool is_dir), void *arg)
{
	struct buf entries = {0}, names = {0};
	struct entry *v;
	size_t count;
	int entered, rc = fault(FILE_OP_LIST, dir, 0, 0);

	if (rc < 0)
		return rc;
	entered = forget_enter(dir, NULL);
	if (entered < 0)
		return entered;
	rc = read_dir(dir, &entries, &names);
	if (entered)
		forget_leave();
	if (rc < 0 || entries.n == 0)
		goto out;
	v = (struct entry *)(void *)entries.p;
	count = entries.n / sizeof(*v);
	for (size_t i = 0; i < count; i++)
		v[i].name = (const char *)names.p + v[i].at;
	qsort(v, count, sizeof(*v), entry_cmp);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = fn(arg, v[i].name, v[i].is_dir);
out:
	buf_fini(&entries);
	buf_fini(&names);
	return rc;
}

int file_read_all(const char *path, size_t limit, struct buf *out)
{
	struct file *f = NULL;
	struct buf b = {0};
	size_t got = 1;
	int rc = file_open(path, FILE_READ, &f);

	if (rc < 0)
		return rc;
	while (got > 0) {
		rc = buf_reserve(&b, READ_STEP_BYTES);
		if (rc == 0)
			rc = file_pread(f, b.p + b.n, READ_STEP_BYTES, b.n, &got);
		if (rc < 0)
			goto out;
		b.n += got;
		if (b.n > limit) {
			rc = -EFBIG;
			goto out;
		}
		if (got < READ_STEP_BYTES)
			break;
	}
	rc = buf_set(out, b.p, b.n);
out:
	buf_fini(&b);
	file_close(f);
	return rc;
}

static char *suffixed(const char *path, const char *suffix)
{
	size_t n = strlen(path) + strlen(suffix) + 1;
	char *s = malloc(n);

	if (s)
		snprintf(s, n, "%s%s", path, suffix);
	return s;
}

/* The directory that holds path, as a fresh string. */
static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int file_replace_at(const char *path, struct slice contents, const char *place)
{
	char *tmp = suffixed(path, ".tmp"), *dir = parent_of(path);
	struct file *f = NULL;
	bool made = false;
	int rc = -ENOMEM;

	if (!tmp || !dir)
		goto out;
	rc = file_open(tmp, FILE_CREATE, &f);
	if (rc == -EEXIST) {
		rc = file_unlink(tmp);
		if (rc == 0)
			rc = file_open(tmp, FILE_CREATE, &f);
	}
	if (rc < 0)
		goto out;
	made = true;
	rc = file_pwrite(f, contents.p, contents.n, 0);
	if (rc == 0)
		rc = file_sync_at(f, place);
	if (rc == 0)
		rc = file_rename(tmp, path);
	if (rc < 0)
		goto out;
	made = false;
	rc = file_sync_dir_at(dir, place);
out:
	file_close(f);
	if (made && file_unlink(tmp) < 0)
		rc = rc < 0 ? rc : -EIO; /* left for the next file_replace */
	free(tmp);
	free(dir);
	return rc;
}

char *path_join(const char *dir, const char *name)
{
	size_t d = strlen(dir), n = d + strlen(name) + 2;
	char *s = malloc(n);

	if (s)
		snprintf(s, n, "%s%s%s", dir, d > 0 && dir[d - 1] == '/' ? "" : "/", name);
	return s;
}

int file_free_bytes(const char *path, uint64_t *bytes)
{
	struct statvfs v;

	if (room_fn)
		return room_fn(room_arg, path, bytes);
	if (statvfs(path, &v) < 0)
		return -errno;
	*bytes = (uint64_t)v.f_bavail * (uint64_t)v.f_frsize;
	return 0;
}
