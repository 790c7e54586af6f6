/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies with errors.  A refusal logs one line with its reason, to the message
 * ring (/.tabletfs/log) and to standard error or syslog.
 */
#ifndef TFS_FS_BASE_REPLY_H
#define TFS_FS_BASE_REPLY_H

#include "fs/base/fs.h"

void reply_err(fuse_req_t req, int r); /* r: 0 or -errno */
/* Called before a thread takes a request. */
void refuse_begin(void);
/* Reasons of the schema of a table. */
#define TABLE_PROTECTED "the table is protected: first write protect = false into its .schema"
#define TABLE_KEEPS_DATA "the data of the table is protected: first write protect = true or false into its .schema"
#define TABLE_READONLY "the table is readonly: first write readonly = false into its .schema"
/* Logs "PATH: reason: text of errno" and returns r.  Only the first call in a request logs, because it knows the reason best.  name: a child of n, or NULL. */
int refuse(int r, struct node *n, const char *name, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Appends a header and the newest refusals, the oldest first.  root and the mounting user see all, other users their own. */
int refusals_render(struct node *n, struct buf *out);
/* Refuses as refuse() does, for an error of the store, with the reason of tfs_error if there is one.  ENOENT and other ordinary results are not logged. */
int refuse_store(int r, struct node *n, const char *name, const char *doing);
/*
 * After ESTALE the kernel looks the name up again and repeats the call, but only
 * once.  If names are created and removed quickly, the second call may fail too.
 * Then ENOENT is right: the file is absent.  stale_found notes that a look-up
 * found n.  stale_answer returns the error of a call on n: ENOENT instead of
 * ESTALE if n is what the same thread has found last by name since an ESTALE.
 */
void stale_found(fuse_req_t req, const struct node *n);
int stale_answer(fuse_req_t req, const struct node *n, int r);
/*
 * A call of the file system may be several requests: the kernel looks up each name of a path that it does not know any
 * more, repeats the look-up of a name that it knew, and repeats a READ that was to fill pages; rm(1) asks for the name
 * again after that.  So if a request of the thread has waited in vain for the server, for the timeout, its next requests
 * are only tried for as long.  Called after stop_wait_begin(); reply_err() notes how a request ended.  thread 0: unknown.
 */
void repeats_begin(pid_t thread);
/* The path of the node below the mount point, for messages; bounded. */
const char *node_describe(struct node *n, const char *name, char *dst, size_t dst_bytes);

#endif
