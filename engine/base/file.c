/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: the calls of file.h over the system calls in file_ops.
 *
 * file_replace, durable steps:
 *   1 write path.tmp       crash: path is unchanged; path.tmp remains
 *   2 fdatasync path.tmp   crash: the same
 *   3 rename over path     crash: path is the old or the new file, each complete
 *   4 fsync the directory  crash: path is the new file
 * The next file_replace removes a path.tmp that remained.  Writing in place
 * was rejected because no write is atomic.
 *
 * file_list reads a directory to its end and sorts the entries before the
 * first callback.  Callbacks may then create and remove entries, and the
 * order of operations is the same in each run.
 */
#include "engine/base/file.h"

#include "engine/base/file_ops.h"
#include "engine/base/file_pool.h"
#include "engine/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_STEP_BYTES = 64 * 1024 };

/* Returns true if the storage could not be reached, or the handle belongs to an earlier mount of it. */
static bool is_unreachable(int err)
{
	return err == -ESTALE || err == -ENOTCONN || err == -ECONNABORTED || err == -ECONNRESET || err == -ETIMEDOUT ||
		err == -ESHUTDOWN || err == -EHOSTDOWN || err == -EHOSTUNREACH || err == -EREMCHG;
}

static __thread bool was_stale;

bool file_was_stale(void)
{
	return was_stale;
}

static int as_file_error(int err)
{
	was_stale = err == -ESTALE;
	return is_unreachable(err) ? -EIO : err;
}

/* Returns true, once, if a call on a path that changes nothing must be repeated. */
static bool repeats(int err, bool *again)
{
	const bool was = *again;

	*again = true;
	return is_unreachable(err) && !was;
}

/*
 * After *err of a read: puts another open file under the descriptor fd, so that the
 * read can be repeated.  Other threads may read from fd at the same time.
 */
static bool opened_again(const struct file *f, int fd, int *err)
{
	int fresh;

	if (!is_unreachable(*err) || !f->only_read)
		return false;
	fresh = pool_open(f->path, O_RDONLY | O_NONBLOCK);
	if (fresh < 0) {
		*err = fresh == -ENOENT ? -EIO : fresh;
		return false;
	}
	if (dup3(fresh, fd, O_CLOEXEC) < 0)
		*err = -errno;
	close(fresh);
	return is_unreachable(*err);
}

int file_open(const char *path, enum file_mode mode, struct file **out)
{
	/* NONBLOCK: opening a FIFO fails; it does not wait for a writer. */
	static const int flags[] = {
		[FILE_READ] = O_RDONLY | O_NONBLOCK,
		[FILE_CREATE] = O_RDWR | O_CREAT | O_EXCL,
		[FILE_READWRITE] = O_RDWR | O_NONBLOCK,
		[FILE_POOLED] = O_RDONLY | O_NONBLOCK,
	};
	size_t n = strlen(path) + 1;
	struct file *f = calloc(1, sizeof(*f) + n);
	int err, fd;

	if (!f)
		return -ENOMEM;
	memcpy(f->path, path, n);
	f->pooled = mode == FILE_POOLED;
	f->only_read = mode == FILE_READ || mode == FILE_POOLED;
	f->fd = -1;
	if (f->pooled) {
		err = pool_get(f, &fd);
		if (!err)
			pool_put(f);
	} else {
		bool again = mode == FILE_CREATE;

		do
			fd = pool_open(path, flags[mode]);
		while (repeats(fd, &again));
		err = fd < 0 ? fd : 0;
		f->fd = fd;
	}
	if (err) {
		free(f);
		return as_file_error(err);
	}
	*out = f;
	return 0;
}

void file_close(struct file *f)
{
	if (!f)
		return;
	if (f->pooled)
		pool_remove(f);
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
	int fd = f->fd, err = f->pooled ? pool_get(f, &fd) : 0;

	if (err)
		return as_file_error(err);
	err = file_ops->read(f->path, fd, p, n, offset, got);
	if (err && opened_again(f, fd, &err))
		err = file_ops->read(f->path, fd, p, n, offset, got);
	if (f->pooled)
		pool_put(f);
	return as_file_error(err);
}

int file_pwritev(struct file *f, const struct tfs_bytes *v, unsigned count, uint64_t offset)
{
	return as_file_error(file_ops->write(f->path, f->fd, v, count, offset));
}

int file_pwrite(struct file *f, const void *p, size_t n, uint64_t offset)
{
	struct tfs_bytes s = tfs_bytes_of(p, n);

	return file_pwritev(f, &s, 1, offset);
}

int file_sync_at(struct file *f, const char *place)
{
	return as_file_error(file_ops->sync(f->path, f->fd, place));
}

void file_write_out(struct file *f, uint64_t offset, uint64_t n)
{
	(void)!sync_file_range(f->fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

int file_size(struct file *f, uint64_t *bytes)
{
	int fd = f->fd, err = f->pooled ? pool_get(f, &fd) : 0;

	if (err)
		return as_file_error(err);
	err = file_ops->size(f->path, fd, bytes);
	if (err && opened_again(f, fd, &err))
		err = file_ops->size(f->path, fd, bytes);
	if (f->pooled)
		pool_put(f);
	return as_file_error(err);
}

int file_truncate(struct file *f, uint64_t bytes)
{
	return as_file_error(file_ops->truncate(f->path, f->fd, bytes));
}

int file_preallocate(struct file *f, uint64_t offset, uint64_t n)
{
	return n ? as_file_error(file_ops->allocate(f->path, f->fd, offset, n)) : 0;
}

int file_unlink(const char *path)
{
	int err;

	die_step(DIE_BEFORE_FILE);
	err = file_ops->unlink(path);
	die_step(DIE_AFTER_FILE);
	return as_file_error(err);
}

int file_rename(const char *from, const char *to)
{
	int err;

	die_step(DIE_BEFORE_FILE);
	err = file_ops->rename(from, to);
	die_step(DIE_AFTER_FILE);
	return as_file_error(err);
}

int file_link(const char *from, const char *to)
{
	return as_file_error(file_ops->link(from, to));
}

int file_mkdir(const char *path)
{
	return as_file_error(file_ops->mkdir(path));
}

int file_rmdir(const char *path)
{
	return as_file_error(file_ops->rmdir(path));
}

int file_sync_dir_at(const char *path, const char *place)
{
	bool again = false;
	int err;

	do
		err = file_ops->sync_dir(path, place);
	while (pool_can_retry(err) || repeats(err, &again));
	return as_file_error(err);
}

int file_stat_size(const char *path, uint64_t *bytes)
{
	bool again = false;
	int err;

	do
		err = file_ops->size(path, -1, bytes);
	while (repeats(err, &again));
	return as_file_error(err);
}

int file_look_up(const char *path, uint64_t *id)
{
	bool again = false;
	int err;

	do
		err = file_ops->look_up(path, id);
	while (repeats(err, &again));
	return as_file_error(err);
}

static int entry_cmp(const void *a, const void *b)
{
	return strcmp(((const struct file_entry *)a)->name, ((const struct file_entry *)b)->name);
}

int file_list(const char *dir, int (*fn)(void *arg, const char *name, bool is_dir), void *arg)
{
	struct buf entries = {0}, names = {0};
	struct file_entry *v;
	bool again = false;
	size_t count;
	int err;

	do {
		entries.n = names.n = 0;
		err = file_ops->list(dir, &entries, &names);
	} while (pool_can_retry(err) || repeats(err, &again));
	err = as_file_error(err);
	if (err || entries.n == 0)
		goto out;
	v = (struct file_entry *)(void *)entries.p;
	count = entries.n / sizeof(*v);
	for (size_t i = 0; i < count; i++)
		v[i].name = (const char *)names.p + v[i].name_at;
	qsort(v, count, sizeof(*v), entry_cmp);
	for (size_t i = 0; i < count && err == 0; i++)
		err = fn(arg, v[i].name, v[i].is_dir);
out:
	buf_fini(&entries);
	buf_fini(&names);
	return err;
}

int file_read_all(const char *path, size_t limit, struct buf *out)
{
	struct file *f = NULL;
	struct buf b = {0};
	size_t got = 1;
	int err = file_open(path, FILE_READ, &f);

	if (err)
		return err;
	while (got > 0) {
		err = buf_reserve(&b, READ_STEP_BYTES);
		if (!err)
			err = file_pread(f, b.p + b.n, READ_STEP_BYTES, b.n, &got);
		if (err)
			goto out;
		b.n += got;
		if (b.n > limit) {
			err = -EFBIG;
			goto out;
		}
		if (got < READ_STEP_BYTES)
			break;
	}
	err = buf_set(out, b.p, b.n);
out:
	buf_fini(&b);
	file_close(f);
	return err;
}

/* Returns the directory of path in a new string. */
static char *parent_of(const char *path)
{
	size_t n = strlen(path);

	while (n && path[n - 1] == '/')
		n--;
	while (n && path[n - 1] != '/')
		n--;
	while (n > 1 && path[n - 1] == '/')
		n--;
	return n ? strndup(path, n) : strdup(".");
}

int file_sync_parent_at(const char *path, const char *place)
{
	char *dir = parent_of(path);
	int err = dir ? file_sync_dir_at(dir, place) : -ENOMEM;

	free(dir);
	return err;
}

int file_write_new_at(const char *path, struct tfs_bytes contents, const char *place)
{
	struct file *f = NULL;
	int err = file_open(path, FILE_CREATE, &f);

	if (err == -EEXIST) {
		err = file_unlink(path);
		if (!err)
			err = file_open(path, FILE_CREATE, &f);
	}
	if (!err)
		err = file_pwrite(f, contents.p, contents.n, 0);
	if (!err)
		err = file_sync_at(f, place);
	file_close(f);
	return err;
}

int file_replace_at(const char *path, struct tfs_bytes contents, const char *place)
{
	char *tmp = NULL, *dir = parent_of(path);
	int err = !dir || asprintf(&tmp, "%s.tmp", path) < 0 ? -ENOMEM : file_write_new_at(tmp, contents, place);

	if (!err)
		err = file_rename(tmp, path);
	if (err && tmp)
		(void)!file_unlink(tmp); /* if this fails, the next file_replace removes it */
	if (!err)
		err = file_sync_dir_at(dir, place);
	free(tmp);
	free(dir);
	return err;
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
	bool again = false;
	int err;

	do
		err = file_ops->free_bytes(path, bytes);
	while (repeats(err, &again));
	return as_file_error(err);
}
