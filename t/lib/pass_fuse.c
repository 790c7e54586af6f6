/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FUSE file system that shows another directory:
 *
 *	pass_fuse DIRECTORY MOUNTPOINT [no-lock|no-sync|no-cache]
 *
 * no-lock: a flock excludes nothing.  no-sync: a directory cannot be synced.  no-cache: the
 * kernel caches no bytes, so that what other processes write to DIRECTORY is read at once.
 * It runs in the foreground.  Tests compile it (t/lib/pass.sh).
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char *top, *fault = "";
#define P(path)                                                                                                                    \
	char path##_[4096];                                                                                                        \
	snprintf(path##_, sizeof(path##_), "%s%s", top, path)
#define R(x) return (x) < 0 ? -errno : 0

static int do_getattr(const char *p, struct stat *s, struct fuse_file_info *f)
{
	P(p);
	R(f ? fstat((int)f->fh, s) : lstat(p_, s));
}
static int do_mkdir(const char *p, mode_t mode)
{
	P(p);
	R(mkdir(p_, mode));
}
static int do_unlink(const char *p)
{
	P(p);
	R(unlink(p_));
}
static int do_rmdir(const char *p)
{
	P(p);
	R(rmdir(p_));
}
static int do_rename(const char *p, const char *q, unsigned flags)
{
	P(p);
	P(q);
	R(renameat2(AT_FDCWD, p_, AT_FDCWD, q_, flags));
}
static int do_link(const char *p, const char *q)
{
	P(p);
	P(q);
	R(link(p_, q_));
}
static int do_chmod(const char *p, mode_t mode, struct fuse_file_info *f)
{
	P(p);
	R(chmod(p_, mode));
}
static int do_truncate(const char *p, off_t n, struct fuse_file_info *f)
{
	P(p);
	R(f ? ftruncate((int)f->fh, n) : truncate(p_, n));
}
static int do_statfs(const char *p, struct statvfs *s)
{
	P(p);
	R(statvfs(p_, s));
}
static int do_open(const char *p, struct fuse_file_info *f)
{
	P(p);
	f->direct_io = strcmp(fault, "no-cache") == 0;
	R((int)(f->fh = (uint64_t)open(p_, f->flags)));
}
static int do_create(const char *p, mode_t m, struct fuse_file_info *f)
{
	P(p);
	f->direct_io = strcmp(fault, "no-cache") == 0;
	R((int)(f->fh = (uint64_t)open(p_, f->flags, m)));
}
static int do_release(const char *p, struct fuse_file_info *f)
{
	R(close((int)f->fh));
}
static int do_fsync(const char *p, int data, struct fuse_file_info *f)
{
	R(fdatasync((int)f->fh));
}
static int do_fsyncdir(const char *p, int data, struct fuse_file_info *f)
{
	return strcmp(fault, "no-sync") ? 0 : -EINVAL;
}
static int do_fallocate(const char *p, int mode, off_t o, off_t n, struct fuse_file_info *f)
{
	R(fallocate((int)f->fh, mode, o, n));
}

static int do_flock(const char *p, struct fuse_file_info *f, int op)
{
	R(strcmp(fault, "no-lock") ? flock((int)f->fh, op) : 0);
}

static int do_read(const char *p, char *b, size_t n, off_t o, struct fuse_file_info *f)
{
	const ssize_t got = pread((int)f->fh, b, n, o);

	return got < 0 ? -errno : (int)got;
}

static int do_write(const char *p, const char *b, size_t n, off_t o, struct fuse_file_info *f)
{
	const ssize_t got = pwrite((int)f->fh, b, n, o);

	return got < 0 ? -errno : (int)got;
}

static int do_readdir(
	const char *p, void *b, fuse_fill_dir_t fill, off_t o, struct fuse_file_info *f, enum fuse_readdir_flags flags)
{
	P(p);
	DIR *d = opendir(p_);

	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d));)
		fill(b, e->d_name, NULL, 0, 0);
	closedir(d);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct fuse_operations ops = {.getattr = do_getattr,
		.mkdir = do_mkdir,
		.unlink = do_unlink,
		.rmdir = do_rmdir,
		.rename = do_rename,
		.link = do_link,
		.chmod = do_chmod,
		.truncate = do_truncate,
		.statfs = do_statfs,
		.open = do_open,
		.create = do_create,
		.release = do_release,
		.read = do_read,
		.write = do_write,
		.fsync = do_fsync,
		.fsyncdir = do_fsyncdir,
		.fallocate = do_fallocate,
		.flock = do_flock,
		.readdir = do_readdir};
	char *args[] = {argv[0], argc > 2 ? argv[2] : "", "-f", "-oattr_timeout=0,entry_timeout=0", NULL};

	if (argc < 3)
		return 2;
	top = argv[1];
	fault = argc > 3 ? argv[3] : "";
	return fuse_main(4, args, &ops, NULL);
}
