/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FUSE session: its operations and capabilities. A read-write mount commits
 * at close, so it needs OPEN, and it needs OPENDIR, or listings would lose
 * their place (fs/request/stream.c).  A read-only mount answers both with
 * ENOSYS, which saves two requests each.  The kernel's own checks for stale
 * pages are off, because every change is notified; they are on for a read-only
 * mount, where control files change without a notification and cells never
 * change.
 *
 * libfuse 3.14 does not inform the kernel of two flags, so the reply to INIT is
 * patched when it is sent.  Directory operations may run in parallel.  And the daemon
 * removes the setuid and setgid bits of a file: no file has any.  Otherwise the kernel
 * would ask for the mode of a file before each chown.
 */
#include "fs/session.h"

#include "engine/base/msg.h"
#include "fs/base/notify.h"
#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/base/sender.h"
#include "fs/file/file.h"
#include "fs/daemon.h"
#include "fs/request/request.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#define INIT_FLAGS (FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV)
#define INIT_FLAGS_AT 12 /* the offset of the flags in struct fuse_init_out */

static atomic_bool init_answered;

static ssize_t session_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *header = iov[0].iov_base;

	/* The first reply of a connection answers INIT.  A notification, which has no request's number, may come before it. */
	if (!atomic_load(&init_answered) && header->unique && !atomic_exchange(&init_answered, true) && count >= 2 &&
		iov[1].iov_len >= INIT_FLAGS_AT + 4) {
		uint32_t flags;

		memcpy(&flags, (char *)iov[1].iov_base + INIT_FLAGS_AT, 4);
		flags |= INIT_FLAGS;
		memcpy((char *)iov[1].iov_base + INIT_FLAGS_AT, &flags, 4);
	}
	return writev(fd, iov, count);
}

static ssize_t session_read(int fd, void *buf, size_t n, void *userdata)
{
	return loop_read(fd, buf, n);
}

static void conn_want(struct fuse_conn_info *conn, unsigned cap, bool yes)
{
	if (yes && (conn->capable & cap))
		conn->want |= cap;
	else
		conn->want &= ~cap;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	conn_want(conn, FUSE_CAP_ATOMIC_O_TRUNC, true);
	conn_want(conn, FUSE_CAP_ASYNC_READ, true);
	conn_want(conn, FUSE_CAP_READDIRPLUS, true);
	/* readdir.c decides how many entries have attributes.  With the kernel's heuristic, each entry after the first answer costs a LOOKUP. */
	conn_want(conn, FUSE_CAP_READDIRPLUS_AUTO, false);
	conn_want(conn, FUSE_CAP_AUTO_INVAL_DATA, fs.read_only && !fs.shared);
	conn_want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA, !fs.read_only || fs.shared);
	conn_want(conn, FUSE_CAP_WRITEBACK_CACHE, false);
	/* With this capability the kernel sends one more request for each file, also for ls -l.  In a directory of 10,000 files, ls -l then takes a quarter of a second instead of an eighth. */
	conn_want(conn, FUSE_CAP_POSIX_ACL, fs.many_users);
	conn_want(
		conn, FUSE_CAP_EXPORT_SUPPORT, false); /* the kernel would look up nodes by ids of nodes that were freed (node.h) */
	conn_want(conn, FUSE_CAP_SPLICE_READ, false);
	conn_want(conn, FUSE_CAP_SPLICE_WRITE, false);
	conn_want(conn, FUSE_CAP_SPLICE_MOVE, false);
	fs.no_open = fs.read_only && !fs.shared && (conn->capable & FUSE_CAP_NO_OPEN_SUPPORT);
	/* Where nothing changes, listings need no handles (fs/request/stream.c). */
	fs.no_opendir = fs.read_only && !fs.shared && !dir_any_expires();
	conn->time_gran = 1;
	if (fs.max_read)
		conn->max_read = fs.max_read; /* libfuse needs the value here, too */
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	if (ino != FUSE_ROOT_ID)
		node_forget(node_of(ino), count);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *v)
{
	for (size_t i = 0; i < count; i++)
		if (v[i].ino != FUSE_ROOT_ID)
			node_forget(node_of(v[i].ino), v[i].nlookup);
	fuse_reply_none(req);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	reply_err(req, tfs_sync(fs.store));
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs v = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255};
	struct node *n = node_of(ino);
	struct tfs_usage u;
	const struct tfs_schema *s = NULL;
	uint64_t total, available, used;
	int err = tfs_space(fs.store, &total, &available);

	/* In a table: the space that the table uses, and the space that is free, or its quota. */
	if (err == 0 && node_table(n)) {
		err = tfs_usage(node_store_table(n), NULL, &u);
		if (err == 0)
			err = tfs_schema_get(node_store_table(n), &s);
	}
	if (err == 0 && s) {
		used = u.disk_bytes + u.memory_bytes + u.changes_bytes;
		if (s->quota && !s->snapshot_of && available > (used < s->quota ? s->quota - used : 0))
			available = used < s->quota ? s->quota - used : 0;
		total = available + used;
		tfs_schema_put(s);
	}
	err = stale_answer(req, n, err == -ENOENT ? -ESTALE : err);
	if (err) {
		reply_err(req, refuse_store(err, n, NULL, "its free space cannot be read"));
		return;
	}
	v.f_bfree = v.f_bavail = available / 4096;
	v.f_blocks = v.f_bfree + (total - available + 4095) / 4096;
	/* Cells need no inodes, but some tools require free ones. */
	v.f_files = v.f_ffree = v.f_favail = UINT32_MAX;
	fuse_reply_statfs(req, &v);
}

static void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	reply_err(req, permit(node_of(ino), (unsigned)mask & 7));
}

static void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	const int err = permit(node_of(parent), PERMIT_CHANGE_DIR);

	reply_err(req, err ? err : refuse(-EPERM, node_of(parent), name, "there are no symbolic links in a table"));
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct node *n = node_of(ino);
	/* The rule of the kernel, which protects files from links of others: the owner may make a link, and so may a user who may read and write. */
	const bool mine = permit_owner(n) == 0 || permit(n, PERMIT_READ | PERMIT_WRITE) == 0;
	const int err = mine ? permit(node_of(parent), PERMIT_CHANGE_DIR) : 0;

	reply_err(req, err ? err : refuse(-EPERM, node_of(parent), name, "there are no links in a table"));
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init,
	.lookup = scanning_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = request_getattr,
	.setattr = request_setattr,
	.access = op_access,
	.mknod = request_mknod,
	.mkdir = request_mkdir,
	.unlink = request_unlink,
	.rmdir = request_rmdir,
	.symlink = op_symlink,
	.rename = request_rename,
	.link = op_link,
	.open = ofile_open,
	.create = request_create,
	.read = scanning_read,
	.copy_file_range = ofile_copy_range,
	.write = ofile_write,
	.flush = ofile_flush,
	.release = ofile_release,
	.fsync = ofile_fsync,
	.opendir = dir_opendir,
	.releasedir = dir_releasedir,
	.readdir = scanning_readdir,
	.readdirplus = scanning_readdirplus,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = xattr_set,
	.getxattr = xattr_get,
	.listxattr = xattr_list,
	.removexattr = xattr_remove,
};

int session_new(struct fuse_args *args)
{
	struct fuse_lowlevel_ops mine = ops;

	/* There is nothing to commit.  After one ENOSYS the kernel sends no FLUSH (it was the only request of a warm read). */
	if (fs.read_only && !fs.shared)
		mine.flush = NULL;
	fs.session = fuse_session_new(args, &mine, sizeof(mine), NULL);
	return fs.session ? 0 : -EINVAL;
}

int session_start(const char *mountpoint)
{
	static const struct fuse_custom_io io = {.writev = session_writev, .read = session_read};
	int err;

	if (fuse_session_mount(fs.session, mountpoint) != 0)
		return -ENODEV;
	err = fuse_session_custom_io(fs.session, &io, fuse_session_fd(fs.session));
	if (err == 0)
		err = sender_mounted(fuse_session_fd(fs.session), mountpoint);
	if (err == 0)
		err = notify_start();
	return err ? err : scanning_start();
}

/*
 * A notification that waits in the kernel keeps the device open.  Then the kernel does
 * not end the connection when the daemon closes the device, and calls that wait for an
 * answer would wait for ever.  Only root may do this.  For other users the process that
 * sends notifications does it (fs/base/sender.c).
 */
static void connection_abort(void)
{
	struct pollfd device = {.fd = fuse_session_fd(fs.session)};

	/* POLLERR: it was unmounted, and another file system may use the mount point. */
	if (device.fd >= 0 && poll(&device, 1, 0) >= 0 && !(device.revents & POLLERR))
		(void)!umount2(fs.mountpoint, MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW);
}

void session_end(void)
{
	if (!fs.session)
		return;
	/* After this, nothing is written to the device: the number of its descriptor may be another file's. */
	scanning_stop();
	notify_stop();
	connection_abort();
	fuse_session_unmount(fs.session);
	notify_end();
	fuse_session_destroy(fs.session);
	fs.session = NULL;
}
