/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode, as file_faults.c and its own parts see it.  Its interface for
 * test programs is in file_faults.h.
 *
 * file_faults.c calls forget_enter before and forget_leave after every disk
 * operation.  Between them the records' one lock is held: while forget mode
 * is on, operations under the root run one at a time, each with its record,
 * and none runs beside a crash.
 */
#ifndef TFS_T_LIB_FORGET_H
#define TFS_T_LIB_FORGET_H

#include "engine/base/bytes.h"
#include "engine/base/file_ops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/*
 * Returns 1 if path or also (may be NULL) is under the root: the lock is held
 * until forget_leave.  Returns 0 if the operation is not recorded, -EIO if this
 * thread has crashed the store.  Another thread waits after the crash, as if
 * the machine were off, until file_forget_stop.
 */
int forget_enter(const char *path, const char *also) TFS_MUST;
void forget_leave(void);

/* Called between the two: */

/* Before a write of [offset, offset+n) through fd. */
int forget_note_write(int fd, uint64_t offset, uint64_t n) TFS_MUST;
/* Before the size is cut to new_size. */
int forget_note_truncate(int fd, uint64_t new_size) TFS_MUST;
/* Before an allocation that may make the file larger. */
int forget_note_allocate(int fd) TFS_MUST;
/* In place of fdatasync. */
int forget_sync(int fd) TFS_MUST;

/* In place of the system calls; the result of open is a descriptor. */
int forget_create(const char *path, int flags) TFS_MUST;
int forget_link(const char *from, const char *to) TFS_MUST;
int forget_mkdir(const char *path) TFS_MUST;
int forget_unlink(const char *path) TFS_MUST;
int forget_rmdir(const char *path) TFS_MUST;
int forget_rename(const char *from, const char *to) TFS_MUST;
/* Locks by itself.  Returns 1 if done, 0 for a directory outside the root without records. */
int forget_sync_dir(const char *path) TFS_MUST;

extern const struct file_ops file_faulty; /* file_faults.c's table */

/* ---- shared by forget.c, forget_entry.c and forget_crash.c ---- */

/* A file or directory that records refer to; it may have been renamed. */
struct forget_node {
	dev_t dev;
	ino_t ino;
	int fd; /* an open description of its own, so that the inode stays, and no flock is shared */
	unsigned refs;
	struct forget_node *next;
};

enum forget_kind {
	FORGET_WRITE,
	FORGET_TRUNCATE,
	FORGET_ALLOCATE,
	FORGET_CREATE,
	FORGET_MKDIR,
	FORGET_UNLINK,
	FORGET_RMDIR,
	FORGET_RENAME
};

struct forget_rec {
	enum forget_kind kind;
	uint64_t id; /* names the side directory's objects */

	/* data: a is the file */
	struct forget_node *a, *b;
	uint64_t offset, n, old_size;
	uint8_t *old; /* the bytes of the range below old_size */
	size_t old_n;

	/* a/a_name is the entry, or a rename's source, whose target is b/b_name */
	char *a_name, *b_name;
	bool kept; /* side/k<id> is the file that the operation removed */
	/* The directory made (MKDIR) or removed (RMDIR, RENAME over a directory), or 0 */
	dev_t dir_dev;
	ino_t dir_ino;

	/* crash */
	bool durable;    /* mark while records are being dropped */
	unsigned fate;   /* 0 lost, 1 whole, 2 torn */
	uint64_t torn_n; /* bytes that survive of a torn write */
	bool torn_grows; /* the size survives of a torn write, zeros for data */
	uint64_t new_size;
	uint8_t *now; /* the bytes of the range as the crash found them */
	size_t now_n;
};

enum forget_state { FORGET_OFF, FORGET_ON, FORGET_DEAD };

struct forget {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t revived;
	enum forget_state state;
	pthread_t crasher;
	char *root, *real_root; /* the path as given, and resolved, or NULL if it is the same */
	char *side;             /* root.forget */
	int side_fd;
	struct forget_rec **rec; /* the operations that are not durable, in order */
	size_t recs, cap;
	struct forget_node *nodes;
	uint64_t last_id, syncs, skip;
};
extern struct forget forget;

bool forget_on(void);

/* *Finds the node of path, or makes it and opens it with flags.  The caller gets a reference. */
int forget_node_get(const char *path, int flags, struct forget_node **out) TFS_MUST;
struct forget_node *forget_node_find(dev_t dev, ino_t ino); /* no reference */

/* Returns a record and reserves its place in the list, so that adding it cannot fail; NULL if out of memory. */
struct forget_rec *forget_rec_new(enum forget_kind kind);
void forget_rec_add(struct forget_rec *r);
void forget_rec_free(struct forget_rec *r);
/* The name in the side directory: kind k, a file that the operation removed; u, one that it created and the crash undid. */
void forget_side_name(char dst[32], char kind, const struct forget_rec *r);

/* Counts a sync.  Returns false if it is left out. */
bool forget_sync_counts(void);
/* Drops the records marked durable and the files saved for them. */
void forget_drop_durable(void);

bool forget_rec_is_data(const struct forget_rec *r);
/* Returns true if later cannot be durable without earlier (entries only). */
bool forget_rec_needs(const struct forget_rec *later, const struct forget_rec *earlier);
/* Frees all records, nodes and the side directory. */
void forget_clear_locked(void);

#endif
