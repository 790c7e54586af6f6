/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All file I/O of the engine passes this layer, and this layer passes one
 * table of system calls (file_ops.h).
 *
 * Errors: -errno of the system call.  A short write is completed or fails; a read
 * at the end of the file returns fewer bytes.  EINTR is retried.  An error that
 * says that the storage cannot be reached (ESTALE, ENOTCONN and others of network
 * file systems) is -EIO, because outside of this layer those numbers mean
 * something else.  Before that, a file opened for reading is opened once more by
 * its path, and the call is repeated.  Calls on paths that change nothing are
 * repeated, too.  Calls that change something are not repeated, because their
 * outcome is unknown.  Messages name the path; the callers log.
 *
 * No call follows a symbolic link, and no path may contain "..": -ELOOP and -EINVAL.
 * A file that is not regular is -ENXIO, and one with a second hard link is not opened
 * for writing (-EMLINK).  file_list refuses a directory with an entry that is a link, a
 * FIFO or a device.  The layer logs these refusals.  A path that a user gave passes
 * file_real() first.
 */
#ifndef TFS_BASE_FILE_H
#define TFS_BASE_FILE_H

#include "engine/base/bytes.h"
#include <errno.h>
#include <sys/types.h>

struct file; /* an open file */

/*
 * Returns the path, in a new string, with its links and ".." resolved, or unchanged if it
 * has none.  The last component need not exist.  NULL: out of memory.
 */
char *file_real(const char *path);
/* After -EIO: whether the last call of this thread was answered ESTALE, by a cache that names a file which does not exist any more. */
bool file_was_stale(void);
/* Calls fn for each later refusal, in place of a message.  Must be called at the start of a program. */
void file_tell_refusals(void (*fn)(const char *path, const char *why));

/* The place that calls a sync, "FILE.c:LINE".  It is passed to file_ops; t/32-each-sync-is-needed.t leaves out the syncs of each place. */
#define FILE_LINE_TEXT(line) #line
#define FILE_LINE(line) FILE_LINE_TEXT(line)
#define FILE_PLACE __FILE__ ":" FILE_LINE(__LINE__)

enum file_mode {
	FILE_READ,      /* O_RDONLY */
	FILE_CREATE,    /* O_RDWR|O_CREAT|O_EXCL, 0600 & ~umask -> private to the owner */
	FILE_READWRITE, /* O_RDWR, must exist */
	FILE_POOLED, /* as FILE_READ, for file_pread and file_size of an immutable file that keeps its path; its descriptor is one of a bounded pool */
};

/* If no descriptor is free, idle ones of the pool are closed first.  -EMFILE, -ENFILE: none was idle. */
int file_open(const char *path, enum file_mode mode, struct file **out) TFS_MUST;
/* Raises the limit of descriptors to the hard limit.  At the start of a program. */
void file_raise_limit(void);
/* Does not sync and reports no error.  NULL is allowed. */
void file_close(struct file *f);
const char *file_path(const struct file *f);
/* The descriptor, for mmap and flock only. */
int file_fd(const struct file *f);
/* Reads up to n bytes at offset; *got < n only at end of file. */
int file_pread(struct file *f, void *p, size_t n, uint64_t offset, size_t *got) TFS_MUST;
int file_pwrite(struct file *f, const void *p, size_t n, uint64_t offset) TFS_MUST;
/* One system call for several pieces. */
int file_pwritev(struct file *f, const struct tfs_bytes *v, unsigned count, uint64_t offset) TFS_MUST;
#define file_sync(f) file_sync_at((f), FILE_PLACE) /* fdatasync */
int file_sync_at(struct file *f, const char *place) TFS_MUST;
int file_size(struct file *f, uint64_t *bytes) TFS_MUST;
int file_truncate(struct file *f, uint64_t bytes) TFS_MUST;
/* Asks the kernel to begin writing these bytes to disk, so that the next sync has less to write.  Not a sync. */
void file_write_out(struct file *f, uint64_t offset, uint64_t n);
/* Reserves [offset, offset+n) and extends the size. */
int file_preallocate(struct file *f, uint64_t offset, uint64_t n) TFS_MUST;

int file_unlink(const char *path) TFS_MUST;
int file_rename(const char *from, const char *to) TFS_MUST;
/* Adds a second name of a file.  -EEXIST. */
int file_link(const char *from, const char *to) TFS_MUST;
int file_mkdir(const char *path) TFS_MUST; /* 0700; -EEXIST */
int file_rmdir(const char *path) TFS_MUST;
#define file_sync_dir(path) file_sync_dir_at((path), FILE_PLACE)
int file_sync_dir_at(const char *path, const char *place) TFS_MUST;
/* Syncs the directory that contains path. */
#define file_sync_parent(path) file_sync_parent_at((path), FILE_PLACE)
int file_sync_parent_at(const char *path, const char *place) TFS_MUST;
int file_stat_size(const char *path, uint64_t *bytes) TFS_MUST; /* -ENOENT if there is no file */
/*
 * Looks the path up.  *id names the file or directory (its inode number), so
 * that a new file of the same name is noticed.
 */
int file_look_up(const char *path, uint64_t *id) TFS_MUST;
/* Calls fn for each entry except . and .., sorted by name.  A non-zero return of fn ends the call and is returned. */
int file_list(const char *dir, int (*fn)(void *arg, const char *name, bool is_dir), void *arg) TFS_MUST;
/* Replaces out by the contents of a file of at most limit bytes, else -EFBIG. */
int file_read_all(const char *path, size_t limit, struct buf *out) TFS_MUST;
/*
 * Reads a file with a secret.  -EACCES: it does not belong to this user, or others have some access to it.  -EINVAL: it is no
 * regular file.  The caller clears *out.
 */
int file_read_secret(const char *path, size_t limit, struct buf *out) TFS_MUST;
/*
 * Writes a file that no reader sees yet.  Steps: 1 write path, in the place of a file that an earlier call left, 2 fdatasync path.
 * After an error a part of it may be there.
 */
#define file_write_new(path, contents) file_write_new_at((path), (contents), FILE_PLACE)
int file_write_new_at(const char *path, struct tfs_bytes contents, const char *place) TFS_MUST;
/*
 * Replaces path by new contents, durably and atomically.  Steps: 1 write
 * path.tmp, 2 fdatasync path.tmp, 3 rename it to path, 4 fsync the directory.
 */
#define file_replace(path, contents) file_replace_at((path), (contents), FILE_PLACE)
int file_replace_at(const char *path, struct tfs_bytes contents, const char *place) TFS_MUST;
/* Returns dir/name in a new string, which the caller frees; NULL if out of memory. */
char *path_join(const char *dir, const char *name);
int file_free_bytes(const char *path, uint64_t *bytes) TFS_MUST; /* statvfs f_bavail */
static inline bool is_no_space(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

#endif
