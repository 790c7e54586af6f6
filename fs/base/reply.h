/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where errno reaches FUSE, and where a refusal leaves its one line of
 * reason: message ring, so /.tabletfs/log, and standard error or syslog.
 */
#ifndef TFS_FS_BASE_REPLY_H
#define TFS_FS_BASE_REPLY_H

#include "fs/base/fs.h"

/* What the caller sees of r, 0 or -errno: as errno, positive. */
int reply_errno(int r);
void reply_err(fuse_req_t req, int r);
/* A thread is about to take a request: nothing has been refused in it. */
void refuse_begin(void);
/* Logs "PATH: reason: errno's text" and returns r; only the first time in a request, where most is known.  name: a child of n, or NULL. */
int refuse(int r, struct node *n, const char *name, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Like refuse for an error of the store that no room has explained; ENOENT and other ordinary answers are not logged. */
int refuse_store(int r, struct node *n, const char *name, const char *doing);
/*
 * ESTALE makes the kernel look the name up again, but once only; where names
 * come and go quickly the second look-up may find what is gone again at the
 * second OPEN.  stale_found notes a look-up that found n; stale_answer, given
 * the ESTALE of a call on n, gives ENOENT if the same thread had one for n and
 * has just found it by name: then nothing is there, which is the truth.
 */
void stale_found(fuse_req_t req, const struct node *n);
int stale_answer(fuse_req_t req, const struct node *n, int r);
/* What the user calls the node: a path below the mount point, bounded, for messages. */
const char *node_describe(struct node *n, const char *name, char *dst, size_t dst_bytes);

#endif
