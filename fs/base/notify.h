/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the kernel what changed (DESIGN 4).  A request that changed
 * something collects what the kernel may hold of it in a struct changes and
 * hands its reply over with it: the notifier invalidates inodes, then
 * replies, and only then are directory entries dropped.  Where the kernel
 * holds nothing, the reply goes out at once.
 *
 * Two threads, not one.  Dropping an entry takes the parent directory's lock
 * in the kernel, and a process that waits in UNLINK for a reply holds just
 * that lock; were both done by one thread, an entry notification of an
 * earlier request would wait for a reply queued behind itself.  So: the
 * notifier (inodes and replies, which never wait for a directory), and a
 * second thread for entries, for which nobody waits.  Entries need no haste:
 * an invalidated inode's next use asks the daemon, which answers ESTALE, and
 * the kernel looks the name up again.
 *
 * But a name may come to mean nothing while what it named lives on: the
 * directories of a family that is renamed.  Then the reply waits for the
 * entries too (entries_first), so that whoever has renamed it meets the old
 * name nowhere.  It waits for a tenth of a second at most: the directory of
 * an entry may be locked by a rename(2) between two directories that waits for
 * one that this request has locked.
 *
 * Threads: a struct changes is one request's; the rest any thread, no locks
 * but the tree lock may be held by callers of changes_* that end in _locked.
 */
#ifndef TFS_FS_BASE_NOTIFY_H
#define TFS_FS_BASE_NOTIFY_H

#include "fs/base/fs.h"

struct change_entry {
	fuse_ino_t parent;
	char *name;
};
struct changes {
	struct node **listings; /* directories, counted */
	unsigned listing_count, listing_cap;
	fuse_ino_t *inodes;
	unsigned inode_count, inode_cap;
	struct change_entry *entries;
	unsigned entry_count, entry_cap;
	bool entries_first; /* the reply waits for the entries */
};

int notify_start(void) TFS_MUST;
/* Sends everything queued, then ends the threads; requests must be served meanwhile.  From then on replies go out at once, and nothing else. */
void notify_stop(void);

void changes_fini(struct changes *c);
/* The kernel's copy of n, attributes and pages, is out of date.  Nothing happens if it has none. */
void changes_inode_locked(struct changes *c, struct node *n);
void changes_inode(struct changes *c, struct node *n);
/* The kernel's cached listing of the directory is out of date. */
void changes_listing_locked(struct changes *c, struct node *dir);
void changes_listing(struct changes *c, struct node *dir);
/* The name below dir no longer means what it did.  name is copied. */
void changes_entry_locked(struct changes *c, const struct node *dir, struct slice name);
void changes_entry(struct changes *c, struct node *dir, struct slice name);
/* Attributes of every node of the table that the kernel knows. */
void changes_table(struct changes *c, struct node *table);

/* Replies (r: 0 or -errno) after the notifications, and empties c. */
void changes_reply_err(struct changes *c, fuse_req_t req, int r);
void changes_reply_attr(struct changes *c, fuse_req_t req, const struct stat *st, double timeout);
void changes_reply_write(struct changes *c, fuse_req_t req, size_t n);
/* n, which was made, has been counted for the kernel (tree_entry_given); the caller keeps his own count. */
void changes_reply_entry(struct changes *c, fuse_req_t req, struct node *n, const struct fuse_entry_param *e);
/* The empty answer that ends a listing. */
void changes_reply_end(struct changes *c, fuse_req_t req);
/* No reply waits for these. */
void changes_send(struct changes *c);
/* Invalidates dir's listing and attributes in a second. */
void notify_later(struct node *dir);
/*
 * Invalidates the attributes of all that the kernel knows of the table, in a
 * second.  For an answer that shows a file or directory to the kernel for the
 * first time, and was made before its owner or mode changed, the kernel has
 * nothing to be invalidated until it has taken it in.
 */
void notify_table_later(struct node *table);

#endif
