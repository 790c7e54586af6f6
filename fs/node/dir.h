/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing directories.  A lister steps through the entries of one directory
 * in a fixed order from any cursor; streams (dir.c) turn cursors into the
 * offsets that the kernel hands back.
 * Threads: a lister is one thread's; engine calls are made.
 */
#ifndef TFS_FS_DIR_H
#define TFS_FS_DIR_H

#include "fs/file/cell.h"
#include "fs/base/fs.h"

/* Does a split name's directory have a key below it?  base: table, latest or family node.  0, -ENOENT. */
int dir_part_exists(struct node *base, struct slice path) TFS_MUST;

/* A place between two entries: what was last given. */
struct cursor {
	uint8_t phase;  /* enum list_phase */
	int64_t number; /* version's timestamp, or index */
	struct buf key;
};

struct list_entry {
	struct slice name; /* borrowed until the next call */
	enum node_kind kind;
	struct node *parent; /* of its node */
	struct slice key;
	int64_t ts;
	struct tfs_info info;   /* cells */
	struct tfs_bytes value; /* data NULL: not at hand */
	bool sized;
	bool unsure; /* what could not be read may have hidden it: nothing but its name is known */
};

struct lister;
/* values: cells' values are wanted as well. */
int lister_new(struct node *dir, const struct cursor *from, bool values, struct lister **out) TFS_MUST;
/* 1 and an entry; 0 at the end; -errno.  "." and ".." are not entries. */
int lister_next(struct lister *l, struct list_entry *e) TFS_MUST;
/* The place after the entry last given, borrowed. */
const struct cursor *lister_cursor(const struct lister *l);
/* Has it passed over what cannot be read? */
bool lister_damaged(const struct lister *l);
void lister_free(struct lister *l);

int dir_init(void) TFS_MUST;
void dir_fini(void);
/* Has any table a family whose cells expire? */
bool dir_any_expires(void);
void dir_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);

#endif
