/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file layer for tests.  A program that links t/lib/libfaults.la before the
 * engine gets its file_ops (engine/base/file_ops.h): every operation passes
 * the hook first, if one is set, and forget mode then, if it is on.
 *
 * The hook gets a running operation number (from 1 again at each
 * file_set_hook).  It is called under no lock of this layer.  It may return
 * a -errno to fail the operation, block to stall it, or end the process.
 *
 * Forget mode records, per file, the writes not yet covered by an fsync of
 * that file, and per directory the creations, renames and unlinks not yet
 * covered by an fsync of that directory.  A crash test then undoes or tears
 * a chosen subset of them in the real files, as a power loss may do.
 */
#ifndef TFS_T_LIB_FILE_FAULTS_H
#define TFS_T_LIB_FILE_FAULTS_H

#include "engine/base/file.h"

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
	FILE_OP_LOOK_UP,
	FILE_OPS
};
extern const char *const file_op_names[FILE_OPS];
/* Called before the operation takes place; number counts all hooked operations from 1. */
typedef int file_hook_fn(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number);
void file_set_hook(file_hook_fn *fn, void *arg); /* NULL: none.  Not while I/O is under way. */
/* In place of statvfs, for a disk that is made up.  NULL: none. */
typedef int file_room_fn(void *arg, const char *path, uint64_t *bytes);
void file_set_room(file_room_fn *fn, void *arg);
/* Returns the place that asks for a SYNC or SYNCDIR, when the hook calls it.  The place of file_replace is its caller's. */
const char *file_sync_place(void);

/*
 * Forget mode.  While it is on, syncs do not reach the disk, but drop records.
 * file_forget_crash undoes the operations that are not durable on the real
 * files.  In order, it calls choose(arg, i, n) for each operation, which returns how much
 * of it survives: 0 nothing, 1 all, 2 a prefix of whole 512-byte sectors (torn).  i is
 * the number of the record.  n is the number of permitted results: 2 for a directory
 * change, a truncation or an allocation, 2 or 3 for a write.  After a torn write choose
 * is called again with the same i for the number of sectors and, if the write extended
 * the file, for the size (1: it survives, with zeros for the data).  A result is taken
 * modulo n.  Any subset of the writes of a file, and of the changes of directories, may
 * survive.  A created file whose entry is lost disappears; an unlinked or replaced one
 * reappears.  file_forget_skip(n) makes the n-th sync (of a file below root_dir, or of
 * any directory, counted from 1) a no-op in the records: "taking out any one fsync makes
 * a test fail".  After the crash the process must touch no file of the store again (it
 * _exits): calls under root_dir fail with -EIO in the thread that crashed and never
 * return in others, until file_forget_stop.  An entry's change does not survive without
 * an earlier, lost one of the same name.  Only paths that begin with root_dir (as given,
 * or resolved) are recorded; root_dir.forget/ is used during this.
 */
int file_forget_start(const char *root_dir) TFS_MUST;
void file_forget_stop(void);
typedef unsigned file_forget_choose_fn(void *arg, unsigned index, unsigned ways);
int file_forget_crash(file_forget_choose_fn *choose, void *arg) TFS_MUST;
void file_forget_skip(uint64_t nth_sync);
uint64_t file_forget_sync_count(void);

#endif
