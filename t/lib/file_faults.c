/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of file operations for tests: each operation passes the hook,
 * then runs between forget_enter and forget_leave if forget mode records it
 * (forget.c), else as the plain system call.  The hook runs first, under no
 * lock, so it may stall, or crash the store and exit.
 */
#include "t/lib/file_faults.h"

#include "engine/base/file_ops.h"
#include "t/lib/forget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>

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
	[FILE_OP_LOOK_UP] = "look up",
};

/* Set while no I/O is under way, and unset at any time.  The number is shared. */
static file_hook_fn *_Atomic hook;
static void *hook_arg;
static atomic_uint_least64_t hook_number;
static file_room_fn *room_fn;
static void *room_arg;
static __thread const char *sync_place;

void file_set_hook(file_hook_fn *fn, void *arg)
{
	if (fn) {
		hook_arg = arg;
		atomic_store(&hook_number, 0);
	}
	atomic_store(&hook, fn);
}

void file_set_room(file_room_fn *fn, void *arg)
{
	room_fn = fn;
	room_arg = arg;
}

const char *file_sync_place(void)
{
	return sync_place;
}

static int call_hook(enum file_op op, const char *path, uint64_t offset, size_t n)
{
	file_hook_fn *const fn = atomic_load(&hook);

	if (!fn)
		return 0;
	return fn(hook_arg, op, path, offset, n, atomic_fetch_add(&hook_number, 1) + 1);
}

/* Returns 1 if forget mode records the operation (forget_leave ends it), 0 if not, -errno to fail it. */
static int operation_begin(enum file_op op, const char *path, const char *also, uint64_t offset, size_t n)
{
	int err = call_hook(op, path, offset, n);

	return err ? err : forget_enter(path, also);
}

static int faulty_open(const char *path, int flags)
{
	int fd, entered = operation_begin(flags & O_CREAT ? FILE_OP_CREATE : FILE_OP_OPEN, path, NULL, 0, 0);

	if (entered < 0)
		return entered;
	fd = entered && flags & O_CREAT ? forget_create(path, flags) : file_system.open(path, flags);
	if (entered)
		forget_leave();
	return fd;
}

static int faulty_read(const char *path, int fd, void *p, size_t n, uint64_t offset, size_t *got)
{
	int err, entered = operation_begin(FILE_OP_READ, path, NULL, offset, n);

	if (entered < 0)
		return entered;
	err = file_system.read(path, fd, p, n, offset, got);
	if (entered)
		forget_leave();
	return err;
}

static int faulty_write(const char *path, int fd, const struct tfs_bytes *v, unsigned count, uint64_t offset)
{
	size_t total = 0;
	int err, entered;

	for (unsigned i = 0; i < count; i++)
		total += v[i].n;
	entered = operation_begin(FILE_OP_WRITE, path, NULL, offset, total);
	if (entered < 0)
		return entered;
	err = entered ? forget_note_write(fd, offset, total) : 0;
	if (!err)
		err = file_system.write(path, fd, v, count, offset);
	if (entered)
		forget_leave();
	return err;
}

static int faulty_sync(const char *path, int fd, const char *place)
{
	int err, entered;

	sync_place = place;
	entered = operation_begin(FILE_OP_SYNC, path, NULL, 0, 0);
	if (entered <= 0)
		return entered ? entered : file_system.sync(path, fd, place);
	err = forget_sync(fd);
	forget_leave();
	return err;
}

static int faulty_truncate(const char *path, int fd, uint64_t bytes)
{
	int err, entered = operation_begin(FILE_OP_TRUNCATE, path, NULL, bytes, 0);

	if (entered < 0)
		return entered;
	err = entered ? forget_note_truncate(fd, bytes) : 0;
	if (!err)
		err = file_system.truncate(path, fd, bytes);
	if (entered)
		forget_leave();
	return err;
}

static int faulty_allocate(const char *path, int fd, uint64_t offset, uint64_t n)
{
	int err, entered = operation_begin(FILE_OP_ALLOCATE, path, NULL, offset, (size_t)n);

	if (entered <= 0)
		return entered ? entered : file_system.allocate(path, fd, offset, n);
	err = forget_note_allocate(fd);
	if (!err)
		err = file_system.allocate(path, fd, offset, n);
	forget_leave();
	return err;
}

static int faulty_unlink(const char *path)
{
	int err, entered = operation_begin(FILE_OP_UNLINK, path, NULL, 0, 0);

	if (entered <= 0)
		return entered ? entered : file_system.unlink(path);
	err = forget_unlink(path);
	forget_leave();
	return err;
}

static int faulty_rename(const char *from, const char *to)
{
	int err, entered = operation_begin(FILE_OP_RENAME, from, to, 0, 0);

	if (entered <= 0)
		return entered ? entered : file_system.rename(from, to);
	err = forget_rename(from, to);
	forget_leave();
	return err;
}

/* No hook: a size is not an operation on the disk. */
static int faulty_size(const char *path, int fd, uint64_t *bytes)
{
	return file_system.size(path, fd, bytes);
}

static int faulty_link(const char *from, const char *to)
{
	int err, entered = operation_begin(FILE_OP_CREATE, to, from, 0, 0);

	if (entered <= 0)
		return entered ? entered : file_system.link(from, to);
	err = forget_link(from, to);
	forget_leave();
	return err;
}

static int faulty_mkdir(const char *path)
{
	int err, entered = operation_begin(FILE_OP_MKDIR, path, NULL, 0, 0);

	if (entered <= 0)
		return entered ? entered : file_system.mkdir(path);
	err = forget_mkdir(path);
	forget_leave();
	return err;
}

static int faulty_rmdir(const char *path)
{
	int err, entered = operation_begin(FILE_OP_RMDIR, path, NULL, 0, 0);

	if (entered <= 0)
		return entered ? entered : file_system.rmdir(path);
	err = forget_rmdir(path);
	forget_leave();
	return err;
}

static int faulty_sync_dir(const char *path, const char *place)
{
	int err;

	sync_place = place;
	err = call_hook(FILE_OP_SYNCDIR, path, 0, 0);
	if (err)
		return err;
	err = forget_sync_dir(path);
	if (err)
		return err < 0 ? err : 0;
	return file_system.sync_dir(path, place);
}

static int faulty_list(const char *dir, struct buf *entries, struct buf *names)
{
	int err, entered = operation_begin(FILE_OP_LIST, dir, NULL, 0, 0);

	if (entered < 0)
		return entered;
	err = file_system.list(dir, entries, names);
	if (entered)
		forget_leave();
	return err;
}

static int faulty_free_bytes(const char *path, uint64_t *bytes)
{
	return room_fn ? room_fn(room_arg, path, bytes) : file_system.free_bytes(path, bytes);
}

static int faulty_look_up(const char *path, uint64_t *id)
{
	int err = call_hook(FILE_OP_LOOK_UP, path, 0, 0);

	return err ? err : file_system.look_up(path, id);
}

const struct file_ops file_faulty = {
	.open = faulty_open,
	.read = faulty_read,
	.write = faulty_write,
	.size = faulty_size,
	.sync = faulty_sync,
	.truncate = faulty_truncate,
	.allocate = faulty_allocate,
	.unlink = faulty_unlink,
	.rename = faulty_rename,
	.link = faulty_link,
	.mkdir = faulty_mkdir,
	.rmdir = faulty_rmdir,
	.sync_dir = faulty_sync_dir,
	.list = faulty_list,
	.free_bytes = faulty_free_bytes,
	.look_up = faulty_look_up,
};
const struct file_ops *const file_ops = &file_faulty;
