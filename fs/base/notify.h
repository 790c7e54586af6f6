/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of the kernel.  A request that changes something collects in a
 * struct changes everything that the kernel may have cached of it, and passes this
 * to the notifier with the reply.  The notifier invalidates inodes, then replies,
 * and only then drops directory entries.  If the kernel has nothing, the reply is
 * sent at once.
 *
 * The notifications of directories may wait in the kernel: for a process that waits
 * in UNLINK for a reply, and holds the directory's lock, or for ever.  Another process
 * sends them (fs/base/sender.h).  So the notifier invalidates inodes, which never
 * waits for a directory, and gives orders to that process.  A reply waits for the
 * listings that its request has changed, but not longer than half a second.
 *
 * Entries are not urgent: the next use of an invalidated inode asks the daemon, which
 * answers ESTALE, and the kernel looks the name up again.
 *
 * A name may become meaningless while its node stays: the directory of a family
 * that is renamed.  Then the reply waits for the entries too (entries_first),
 * so that the process that renamed the family does not find the old name.  It
 * waits for half a second at most, because the directory of an entry may
 * be locked by a rename(2) that waits for a directory locked by this request.
 *
 * Threads: a struct changes belongs to one request; other functions any.
 * Callers hold no locks, except the tree lock for changes_* that end in
 * _locked.
 */
#ifndef TFS_FS_BASE_NOTIFY_H
#define TFS_FS_BASE_NOTIFY_H

#include "fs/base/fs.h"

struct change_entry {
	fuse_ino_t parent;
	char *name;
};
struct change_inode {
	fuse_ino_t ino;
	bool attributes_only; /* also set for a directory, because its listing is in `listings` */
};
struct changes {
	struct node **listings; /* directories, counted */
	unsigned listing_count;
	struct change_inode *inodes;
	unsigned inode_count;
	struct change_entry *entries;
	unsigned entry_count;
	bool entries_first; /* the reply waits for the entries */
};

int notify_start(void) TFS_MUST;
/*
 * Sends the queued notifications, then ends the threads.  Requests must be served
 * during the call.  Later replies are sent without any.
 */
void notify_stop(void);
/* After the end of the mount: ends the process that sends notifications. */
void notify_end(void);

void changes_fini(struct changes *c);
/* Invalidates n, attributes and pages or listing, if the kernel holds it. */
void changes_inode_locked(struct changes *c, struct node *n);
void changes_inode(struct changes *c, struct node *n);
/* Invalidates the attributes of n only. */
void changes_attributes_locked(struct changes *c, struct node *n);
/* The kernel's cached listing of the directory is out of date. */
void changes_listing_locked(struct changes *c, struct node *dir);
void changes_listing(struct changes *c, struct node *dir);
/* Drops the name below dir.  name is copied. */
void changes_entry_locked(struct changes *c, const struct node *dir, struct tfs_bytes name);
void changes_entry(struct changes *c, struct node *dir, struct tfs_bytes name);
/* Invalidates the attributes of every node of the table that the kernel holds. */
void changes_table(struct changes *c, struct node *table);
/*
 * The access rules of the table have changed: invalidates the table's nodes like
 * changes_table, and every node in its snapshots.  names: also drops the names that the
 * kernel holds (permit_search_lost).
 */
void changes_access(struct changes *c, struct node *table, bool names);

/* Replies (r: 0 or -errno) after the notifications, and empties c. */
void changes_reply_err(struct changes *c, fuse_req_t req, int r);
void changes_reply_attr(struct changes *c, fuse_req_t req, const struct stat *st, double timeout);
void changes_reply_write(struct changes *c, fuse_req_t req, size_t n);
/* n was made, and is counted for the kernel (tree_count_entry).  The caller keeps its own count. */
void changes_reply_entry(struct changes *c, fuse_req_t req, struct node *n, const struct fuse_entry_param *e);
/* The empty answer that ends a listing. */
void changes_reply_end(struct changes *c, fuse_req_t req);
/* Queues the notifications without a reply. */
void changes_send(struct changes *c);
/* Sends the notifications without a reply.  The inodes were invalidated when it returns. */
void changes_send_now(struct changes *c);
/* Invalidates dir's listing and attributes in a second. */
void notify_later(struct node *dir);
/*
 * Does the same as changes_access, in a second.  An answer
 * with the old owner or mode may still be on its way to the kernel.  If it is the
 * first answer for a node, an immediate notification would not find that node.
 */
void notify_table_later(struct node *table, bool names);

#endif
