/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of the users of the mount to the data of a table.
 *
 * In the tree the kernel decides, by the attributes and ACLs that the daemon
 * returns for a family's directories and cells (default_permissions), or the
 * daemon decides by the same rules (permit.h).  Every other path to the data
 * (streams, whole rows, imports, exports, verbs) is one file for many families,
 * so the daemon decides.  There are two ways to check, with one rule (tfs_may
 * in tabletfs.h):
 *
 *	struct tfs_table *t;
 *	err = fs_table_as_asker(n, &t);  reads, scans, mutations and changes of the
 *	...                              schema through t are the user's: the server
 *	tfs_table_close(t);              refuses, or omits families
 *
 *	err = fs_may_write(caller, n, family);
 *
 * A descriptor that stays open has the permissions of the moment at which it
 * was opened, if the handle lives as long as the descriptor: the user is asked
 * for once.  The schema is newer: a chmod takes effect at the next request.
 *
 * The user is the sender of the request that the thread serves.  The kernel states
 * user and group, and the daemon reads the supplementary groups from /proc.  They
 * are unknown if the process is not in the daemon's PID namespace, is hidden there
 * or has ended, or if /proc has another user for it.  Then the stricter answer
 * holds where the answer depends on groups.
 *
 * Threads: any.  The functions call the engine, so the caller may not hold the
 * tree lock.
 */
#ifndef TFS_FS_BASE_ACCESS_H
#define TFS_FS_BASE_ACCESS_H

#include "fs/base/fs.h"

/* A user, for checks that the kernel does not make. */
struct caller {
	struct tfs_user user;
	gid_t groups[];
};
/* The user whose request this thread serves.  Freed with free().  NULL: out of memory. */
struct caller *caller_new(void);
/* Opens the table that n is in on behalf of the user whose request this thread serves.  tfs_table_close ends it. */
int fs_table_as_asker(struct node *n, struct tfs_table **out) TFS_MUST;
/* Like fs_table_as_asker, for a caller that was noted before.  NULL: -EACCES. */
int fs_table_as_caller(const struct caller *caller, struct node *n, struct tfs_table **out) TFS_MUST;
int fs_scan_as_asker(struct node *n, const struct tfs_scan_spec *spec, struct tfs_scan **out) TFS_MUST;
/* Notes the request that this thread serves, so that its scans return -EINTR when the request is interrupted.  NULL: none. */
void fs_serve(fuse_req_t req);
/* tfs_scan_spec.stop: returns true if that request was interrupted, or the daemon ends. */
bool fs_is_interrupted(void *unused);
/* All requests are interrupted from now on. */
void fs_interrupt_all(void);
uid_t fs_asker_uid(void);
/* The thread that sent the request; 0: it is not in the daemon's PID namespace. */
pid_t fs_asker_thread(void);
/*
 * FUSE states no path for an OPEN or a SETATTR, and a plain name has one node in TABLE
 * and in .latest.  So each look-up is noted for the thread that made it: the kernel
 * asks for plain names at each use.  The path is unknown if another name or thread has
 * replaced the note, or if the thread made no look-up, as through /proc/self/fd.
 */
enum fs_path { PATH_UNKNOWN, PATH_IN_TABLE, PATH_IN_LATEST };
/* The thread has looked n up, or made it, in dir. */
void fs_looked_up_in(const struct node *n, const struct node *dir);
/* Returns the path by which the thread has found n, a plain name. */
enum fs_path fs_path_of(const struct node *n);
/*
 * A LOOKUP of this thread has found no such plain name.  fs_is_absent returns true to its CREATE, which follows at
 * once, so that a store of another process is asked once.  changes: fs_changes() before the store was asked.
 */
void fs_looked_up_absent(const struct node *family, struct tfs_bytes qualifier, uint64_t changes);
bool fs_is_absent(const struct node *family, struct tfs_bytes qualifier);
/* The session, as of a terminal or a service, of the process whose request this thread serves; 0: there is none. */
uint64_t fs_asker_session(void);
/* The user of the request that this thread serves (engine/base/stop.h); NULL: the kernel itself has sent it, or there is no request. */
const struct tfs_user *fs_asker_user(void);
/* From now on the thread asks the store on behalf of `user`, or of the request's user if it is NULL. Returns the previous user. */
const struct tfs_user *fs_ask_as(const struct tfs_user *user);
/* Notes the user of the request that this thread has read. */
void fs_asked_by(uid_t uid, gid_t gid, pid_t pid);
/* Returns 0 if the caller may write the family, -EACCES, or -ENOENT if the table that n is in has no such family ("#ID" or name). */
int fs_may_write(const struct caller *caller, struct node *n, const char *family) TFS_MUST;
/* Returns true if the caller may do all of `bits` (4 read, 2 write, 1 execute) with something of this owner and mode. */
bool fs_mode_allows(const struct caller *caller, uid_t uid, gid_t gid, mode_t mode, unsigned bits);
/* Returns true if the caller is root or the owner of the table that n is in, who may see sizes, tablets and names of rows. */
bool fs_owns_table(const struct caller *caller, struct node *n);

#endif
