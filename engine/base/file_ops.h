/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of the file layer, as one table.  file.c and file_pool.c
 * reach the disk through file_ops alone.
 *
 * The library defines file_ops in file_ops.c, as the table file_system.  A
 * test program that fails, counts or undoes operations defines file_ops
 * itself (t/lib/file_faults.c); the linker then leaves file_ops.c out.
 *
 * All calls: any thread, no lock held.  They return 0 (open: a descriptor) or
 * -errno, retry EINTR, and transfer all bytes or fail.  path names the file
 * that fd is open on.
 */
#ifndef TFS_BASE_FILE_OPS_H
#define TFS_BASE_FILE_OPS_H

#include "engine/base/bytes.h"

/* One entry of a directory, as list appends it. */
struct file_entry {
	size_t name_at; /* offset of the name in names */
	const char *name;
	bool is_dir;
};

struct file_ops {
	int (*open)(const char *path, int flags); /* as of open(2); O_CLOEXEC is added */
	/* *got < n only at the end of the file. */
	int (*read)(const char *path, int fd, void *p, size_t n, uint64_t offset, size_t *got);
	int (*write)(const char *path, int fd, const struct tfs_bytes *v, unsigned count, uint64_t offset);
	int (*size)(const char *path, int fd, uint64_t *bytes); /* with fd -1, the size of the file at path */
	int (*sync)(const char *path, int fd, const char *place);
	int (*truncate)(const char *path, int fd, uint64_t bytes);
	/* Reserves [offset, offset+n). */
	int (*allocate)(const char *path, int fd, uint64_t offset, uint64_t n);
	int (*unlink)(const char *path);
	int (*rename)(const char *from, const char *to);
	int (*link)(const char *from, const char *to);
	int (*mkdir)(const char *path);
	int (*rmdir)(const char *path);
	int (*sync_dir)(const char *path, const char *place);
	/* Appends struct file_entry to entries and the names to names, in no order. */
	int (*list)(const char *dir, struct buf *entries, struct buf *names);
	int (*free_bytes)(const char *path, uint64_t *bytes);
	int (*look_up)(const char *path, uint64_t *id); /* sets *id to the inode number */
};

extern const struct file_ops *const file_ops; /* the table in use */
extern const struct file_ops file_system;     /* the system calls */

#endif
