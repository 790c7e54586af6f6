/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the daemon that all of fs/ shares.  fs calls engine/tabletfs.h
 * and engine/base only, and does not depend on whether the store is in this
 * process.
 *
 * Locks, in the order in which they are taken: a row lock (fs_row_lock) or a
 * directory stream's (the same rank, never both), a file's lock (struct open_file), the
 * tree lock, the notifier's.  No engine call is made under the tree lock.
 */
#ifndef TFS_FS_BASE_FS_H
#define TFS_FS_BASE_FS_H

#define FUSE_USE_VERSION 312

#include "engine/base/bytes.h"
#include "engine/base/mutex.h"
#include "engine/tabletfs.h"
#include "fs/base/cache.h"
#include "fs/base/node.h"

#include <fuse3/fuse_lowlevel.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct fs {
	struct tfs_store *store;
	struct fuse_session *session;
	const char *source, *mountpoint; /* as in the messages */
	bool read_only, quiet, latest;
	bool shared; /* the store is another process's, so cells change without this mount */
	/* Set while the server of a shared store reports changes.  Otherwise nothing is kept, here or in the kernel. */
	_Atomic bool may_keep;
	bool many_users;   /* allow_other */
	bool own_checks;   /* modes and owners are checked here (fs/base/permit.h), not by the kernel */
	bool no_open;      /* the mount is read-only, and the kernel accepts ENOSYS for OPEN */
	bool no_opendir;   /* OPENDIR returns ENOSYS, because the mount is read-only and no cell expires */
	unsigned max_read; /* libfuse's option, 0: not given */
	uid_t uid;         /* the id of the mounting user in the store; owner of the root */
	gid_t gid;
	uid_t here_uid; /* the id of the mounting user at this host */
	gid_t here_gid;
	int64_t started_us;       /* the time of the mount */
	_Atomic uint64_t changes; /* counts commits, also the commits of others (fs_changes) */
	_Atomic unsigned verbs;   /* control files that are being applied, which may last for minutes */
	struct mutex schema_lock; /* RANK_FS_SCHEMA; held while a schema changes and the kernel's entries are collected */
	struct cache values;      /* small values that a listing has scanned, for the READs that follow; the stamp is `changes` */
	_Atomic unsigned unread_values; /* how many listings have read since the last READ of a version (FS_UNREAD_VALUES_MAX) */
	struct cache control_texts; /* texts of a read-only mount (fs/node/schema/setting.c); the stamp is the time of the text */
	/*
	 * Times that users set on directories of .latest; the stamp is the time.
	 * A table stores no times of directories, so these last as long as the
	 * mount: with them, a second rsync of a tree of plain names finds nothing
	 * to do.
	 */
	struct cache dir_times;
	struct cache view_ends; /* the last rows of views with a limit (fs/node/source.c); the stamp is `changes` */
};
extern struct fs fs;

/* An answer may be kept if this number has not changed since before the store was asked.  If nothing may be kept, each call returns another number. */
static inline uint64_t fs_changes(void)
{
	return fs.may_keep ? atomic_load(&fs.changes) : atomic_fetch_add(&fs.changes, 1) + 1;
}

#define FS_FOREVER 86400.0
#define FS_CACHED_VALUE_MAX 8192
#define FS_UNREAD_VALUES_MAX 256u /* then a listing reads no values, because programs list files and do not read them */

/* The node of an id that the kernel has sent. */
static inline struct node *node_of(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? node_root() : (struct node *)(uintptr_t)ino;
}
static inline fuse_ino_t id_of(const struct node *n)
{
	return n->kind == NODE_ROOT ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)n;
}
/* The lock of a row, one of a fixed set.  An operation of several steps on one row holds it. */
struct mutex *fs_row_lock(const struct node *row);
/* A thread that serves a request calls this before it waits for another request's lock.  It calls the function that was set, if there is one. */
void fs_before_waiting(void);
void fs_set_before_waiting(void (*fn)(void));
/* Notes that too many requests wait for the store's server: the reply to the thread's request is EAGAIN in the place of EINTR. */
void fs_set_crowded(bool crowded);
bool fs_is_crowded(void);
/* Makes the locks and caches. */
void fs_init(void);
void fs_fini(void);
int64_t fs_now_us(void);
/*
 * A store at another host may know the mounting user by another id.  Then the two ids are
 * exchanged, in both directions; all other ids are the same.  Requests and replies of the
 * kernel have the ids of this host, everything else in fs uses the ids of the store.
 */
uid_t fs_uid_across(uid_t id);
gid_t fs_gid_across(gid_t id);
/* Changes the owner in a reply to the ids of this host. */
void fs_owner_here(struct stat *st);

/* Returns true if the directory is in a view that shows plain names only. */
bool node_is_latest(const struct node *dir);
/* A descriptor of n was opened or closed.  Counts it if n is in the view of a scan. */
void node_opened(struct node *n, bool open);
/* The open table that n is in. */
struct tfs_table *node_store_table(struct node *n);
/* Makes all remembered sizes of the table unknown. */
void table_new_epoch(struct node *table);
uint32_t table_epoch(struct node *n);

#endif
