/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All file I/O of the engine goes through here: the one place to count,
 * delay, fail or forget unsynced writes in tests (DESIGN 3.3).
 *
 * Errors: -errno of the system call.  A short write is completed or fails;
 * a short read at end of file returns what there is.  EINTR is retried.
 * Messages name the path; the callers log.
 *
 * Faults (tests): every call that touches the disk passes file_hook first
 * when one is set, with a running operation number (from 1 again at each
 * file_set_hook); the hook, called under no lock of this layer, may return a
 * -errno to fail the call, block to stall it, or end the process.  In
 * addition "forget mode" (file_forget_*) records, per file, the writes not
 * yet covered by an fsync of that file, and per directory the creations,
 * renames and unlinks not yet covered by an fsync of that directory, so that
 * a crash test can undo or tear a chosen subset of them in the real files
 * and so show what power loss may leave.
 */
#ifndef TFS_BASE_FILE_H
#define TFS_BASE_FILE_H

#include "engine/base/bytes.h"
#include <sys/types.h>

struct file; /* an open file; knows its path */

/* Where a sync is asked for, "FILE.c:LINE": tests leave out the syncs of each such place and must notice (t/32-each-sync-is-needed.t). */
#define FILE_LINE_TEXT(line) #line
#define FILE_LINE(line) FILE_LINE_TEXT(line)
#define FILE_PLACE __FILE__ ":" FILE_LINE(__LINE__)

enum file_mode {
	FILE_READ,      /* O_RDONLY */
	FILE_CREATE,    /* O_RDWR|O_CREAT|O_EXCL, 0600 & ~umask -> private to the owner */
	FILE_READWRITE, /* O_RDWR, must exist */
	FILE_POOLED, /* as FILE_READ, of an immutable file that keeps its path; for pread and size.  Its descriptor is one of a bounded pool */
};

/* Without a free descriptor idle ones of the pool are closed first.  -EMFILE or -ENFILE: there were none. */
int file_open(const char *path, enum file_mode mode, struct file **out) TFS_MUST;
/* For a program's start: as many descriptors as the hard limit allows. */
void file_raise_limit(void);
/* Close does not sync.  Never fails visibly; NULL is allowed. */
void file_close(struct file *f);
const char *file_path(const struct file *f);
/* The descriptor, for mmap and flock only. */
int file_fd(const struct file *f);
/* Reads up to n bytes at offset; *got < n only at end of file. */
int file_pread(struct file *f, void *p, size_t n, uint64_t offset, size_t *got) TFS_MUST;
int file_pwrite(struct file *f, const void *p, size_t n, uint64_t offset) TFS_MUST;
/* One system call for several pieces. */
int file_pwritev(struct file *f, const struct slice *v, unsigned count, uint64_t offset) TFS_MUST;
#define file_sync(f) file_sync_at((f), FILE_PLACE) /* fdatasync */
int file_sync_at(struct file *f, const char *place) TFS_MUST;
int file_size(struct file *f, uint64_t *bytes) TFS_MUST;
int file_truncate(struct file *f, uint64_t bytes) TFS_MUST;
/* A hint, no sync: these bytes are to go on their way to the disk now, rather than all at once at the file's sync. */
void file_write_out(struct file *f, uint64_t offset, uint64_t n);
/*
 * Reserves [offset, offset+n), extending the size.  zeroed: really writes
 * zeros (FACTS: preallocated, zeroed logs sync faster), over whatever is
 * there: the caller knows that nothing is, nor is being written meanwhile.
 */
int file_preallocate(struct file *f, uint64_t offset, uint64_t n, bool zeroed) TFS_MUST;

int file_unlink(const char *path) TFS_MUST;
int file_rename(const char *from, const char *to) TFS_MUST;
/* A second name of a file.  -EEXIST.  Not for stores under test: forget mode does not record it. */
int file_link(const char *from, const char *to) TFS_MUST;
int file_mkdir(const char *path) TFS_MUST; /* 0700; -EEXIST */
int file_rmdir(const char *path) TFS_MUST;
#define file_sync_dir(path) file_sync_dir_at((path), FILE_PLACE)
int file_sync_dir_at(const char *path, const char *place) TFS_MUST;
int file_stat_size(const char *path, uint64_t *bytes) TFS_MUST; /* -ENOENT; also "does it exist" */
/* Calls fn for every entry but . and .. ; stops at a non-zero return and passes it on. */
int file_list(const char *dir, int (*fn)(void *arg, const char *name, bool is_dir), void *arg) TFS_MUST;
/* Whole small file; at most limit bytes, else -EFBIG. */
int file_read_all(const char *path, size_t limit, struct buf *out) TFS_MUST;
/*
 * Replaces path by new contents, durably and atomically.  Steps: 1 write
 * path.tmp, 2 fdatasync it, 3 rename over path, 4 fsync the directory.
 */
#define file_replace(path, contents) file_replace_at((path), (contents), FILE_PLACE)
int file_replace_at(const char *path, struct slice contents, const char *place) TFS_MUST;
/* dir/name into a fresh string, NULL when out of memory; free() it. */
char *path_join(const char *dir, const char *name);
int file_free_bytes(const char *path, uint64_t *bytes) TFS_MUST; /* statvfs f_bavail */

/* ---- faults, for tests ---- */
enum file_op {
	FILE_OP_OPEN,
	FILE_OP_CREATE,
	FILE_OP_READ,
	FILE_OP_WRITE,
	FILE_OP_SYNC,
	FILE_OP_TRUNCATE,
	FILE_OP_ALLOCATE,
	FILE_OP_UNLINK,
	FILE_OP_RENAME,
	FILE_OP_MKDIR,
	FILE_OP_RMDIR,
	FILE_OP_SYNCDIR,
	FILE_OP_LIST,
	FILE_OPS
};
extern const char *const file_op_names[FILE_OPS];
/* Called before the operation takes place; number counts all hooked operations from 1. */
typedef int file_hook_fn(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number);
void file_set_hook(file_hook_fn *fn, void *arg); /* NULL: none.  Not while I/O is under way. */
/* In place of statvfs, for a disk that is made up.  NULL: none. */
typedef int file_room_fn(void *arg, const char *path, uint64_t *bytes);
void file_set_room(file_room_fn *fn, void *arg);
/* In the hook, at a SYNC or SYNCDIR: the place that asks for it; of file_replace's it is its caller's. */
const char *file_sync_place(void);

/*
 * Forget mode.  While on, file_sync and file_sync_dir do not reach the disk
 * (fast) but do mark things durable in the records.  file_forget_crash
 * undoes on the real files what was not durable: for every unsynced write
 * and directory change, in order, choose(arg, i, n) says how much survives
 * (0 nothing, 1 whole, 2 torn: a prefix of whole 512-byte sectors, chosen by
 * the same function).  i counts the records, n is the number of ways: 2 for
 * a directory change, a truncation or an allocation, 2 or 3 for a write; for
 * a torn one choose is asked again, same i, how many sectors survive and, if
 * the write grew the file, whether the size does (1: zeros for the data).
 * An answer of n or more is taken modulo n.  Writes of one file may survive in any subset;
 * directory entries likewise.  A file that was created but whose entry was
 * forgotten disappears; an unlinked or renamed-over one comes back.  Data in
 * pages that no fsync covered may come back as zeros where the file grew.
 * file_forget_skip(n) makes the n-th sync (of a file below root_dir, or of any
 * directory, counted from 1) a no-op in the records: "taking out any one fsync
 * makes a test fail".
 * After the crash the process must touch no file of the store again (it
 * _exits): calls under root_dir fail with -EIO in the thread that crashed and
 * never return in others, until file_forget_stop.  An entry's change does
 * not survive without an earlier, lost one of the same name.  Only paths that
 * begin with root_dir (as given, or resolved) are recorded; root_dir.forget/
 * is used meanwhile.
 */
int file_forget_start(const char *root_dir) TFS_MUST;
void file_forget_stop(void);
typedef unsigned file_forget_choose_fn(void *arg, unsigned index, unsigned ways);
int file_forget_crash(file_forget_choose_fn *choose, void *arg) TFS_MUST;
void file_forget_skip(uint64_t nth_sync);
uint64_t file_forget_sync_count(void);

#endif
