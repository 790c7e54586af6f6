/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode's directory entries: done at once, recorded with what takes
 * them back.
 *
 * A record names directories by inode, not by path, since a directory may
 * be renamed between the operation and the crash.  What an unlink, rmdir
 * or rename removes is moved or linked into root.forget/ and stays there
 * until its removal is durable.  fsync of a directory drops the
 * records of its entries, and with them, wherever they are, the earlier
 * records that they could not have reached the disk without (the creation of
 * what a rename moved here; the unlinks inside a directory removed here).  A
 * rename is one record, durable or lost as a whole, through either of its
 * directories.  A directory's own entry needs an fsync of its parent, more
 * than ext4 asks and no more than POSIX does.
 */
#include "t/lib/forget.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_entry_of(const struct forget_rec *r, const struct forget_node *dir, const char *name)
{
	if (!dir || !name)
		return false;
	return (r->a == dir && strcmp(r->a_name, name) == 0) || (r->b == dir && r->b_name && strcmp(r->b_name, name) == 0);
}

static bool is_dir_of(const struct forget_rec *r, const struct forget_node *n)
{
	return n && r->dir_ino != 0 && n->ino == r->dir_ino && n->dev == r->dir_dev;
}

bool forget_rec_needs(const struct forget_rec *later, const struct forget_rec *earlier)
{
	if (forget_rec_is_data(later) || forget_rec_is_data(earlier))
		return false;
	if (is_entry_of(earlier, later->a, later->a_name) || is_entry_of(earlier, later->b, later->b_name))
		return true;
	/* A directory is removed after all in it. */
	if (later->kind != FORGET_MKDIR && (is_dir_of(later, earlier->a) || is_dir_of(later, earlier->b)))
		return true;
	/* What moves into a new directory must not vanish with it. */
	return later->kind == FORGET_RENAME && later->a != later->b && earlier->kind == FORGET_MKDIR &&
		is_dir_of(earlier, later->b);
}

/* The directory of path's last component, and that component as a fresh string. */
static int split_path(const char *path, struct forget_node **dir, char **name)
{
	size_t end = strlen(path), start;
	char *parent;
	int rc;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/';)
		start--;
	if (start == end)
		return -EINVAL;
	parent = start == 0 ? strdup(".") : strndup(path, start);
	if (!parent)
		return -ENOMEM;
	rc = forget_node_get(parent, O_RDONLY | O_DIRECTORY, dir);
	free(parent);
	if (rc < 0)
		return rc;
	*name = strndup(path + start, end - start);
	return *name ? 0 : -ENOMEM; /* the caller's forget_rec_free puts the node */
}

static int entry_rec(enum forget_kind kind, const char *a, const char *b, struct forget_rec **out)
{
	struct forget_rec *r = forget_rec_new(kind);
	int rc;

	if (!r)
		return -ENOMEM;
	rc = split_path(a, &r->a, &r->a_name);
	if (rc == 0 && b)
		rc = split_path(b, &r->b, &r->b_name);
	if (rc < 0) {
		forget_rec_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

int forget_create(const char *path, int flags)
{
	struct forget_rec *r;
	int rc = entry_rec(FORGET_CREATE, path, NULL, &r);

	if (rc < 0)
		return rc;
	do
		rc = openat(r->a->fd, r->a_name, flags | O_CLOEXEC, 0600);
	while (rc < 0 && errno == EINTR);
	if (rc < 0) {
		rc = -errno;
		forget_rec_free(r);
		return rc;
	}
	forget_rec_add(r);
	return rc;
}

static void note_dir(struct forget_rec *r, const struct stat *st)
{
	r->dir_dev = st->st_dev;
	r->dir_ino = st->st_ino;
}

int forget_mkdir(const char *path)
{
	struct forget_rec *r;
	struct stat st;
	int rc = entry_rec(FORGET_MKDIR, path, NULL, &r);

	if (rc < 0)
		return rc;
	if (mkdirat(r->a->fd, r->a_name, 0700) < 0 || fstatat(r->a->fd, r->a_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		rc = -errno;
		forget_rec_free(r);
		return rc;
	}
	note_dir(r, &st);
	forget_rec_add(r);
	return 0;
}

int forget_unlink(const char *path)
{
	struct forget_rec *r;
	struct stat st;
	char kept[32];
	int rc = entry_rec(FORGET_UNLINK, path, NULL, &r);

	if (rc < 0)
		return rc;
	forget_side_name(kept, 'k', r);
	if (fstatat(r->a->fd, r->a_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		rc = -errno;
	else if (S_ISDIR(st.st_mode))
		rc = -EISDIR;
	else if (renameat(r->a->fd, r->a_name, forget.side_fd, kept) < 0)
		rc = -errno;
	if (rc < 0) {
		forget_rec_free(r);
		return rc;
	}
	r->kept = true;
	forget_rec_add(r);
	return 0;
}

/* 0, -ENOTEMPTY, or what opening said. */
static int check_empty(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *e;
	int rc = 0;
	DIR *d;

	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (rc == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = -ENOTEMPTY;
	closedir(d);
	return rc;
}

int forget_rmdir(const char *path)
{
	struct forget_rec *r;
	struct stat st;
	char kept[32];
	int rc = entry_rec(FORGET_RMDIR, path, NULL, &r);

	if (rc < 0)
		return rc;
	forget_side_name(kept, 'k', r);
	rc = check_empty(r->a->fd, r->a_name);
	if (rc == 0 &&
		(fstatat(r->a->fd, r->a_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			renameat(r->a->fd, r->a_name, forget.side_fd, kept) < 0))
		rc = -errno;
	if (rc < 0) {
		forget_rec_free(r);
		return rc;
	}
	note_dir(r, &st);
	r->kept = true;
	forget_rec_add(r);
	return 0;
}

/* Brings the rename's target to the side: a file by a link, so that it is never missing, a directory by a move. */
static int keep_target(struct forget_rec *r, const struct stat *from, const struct stat *to, const char *kept)
{
	int rc;

	if (S_ISDIR(from->st_mode) && !S_ISDIR(to->st_mode))
		return -ENOTDIR;
	if (!S_ISDIR(from->st_mode) && S_ISDIR(to->st_mode))
		return -EISDIR;
	if (S_ISDIR(to->st_mode)) {
		rc = check_empty(r->b->fd, r->b_name);
		if (rc == 0)
			rc = renameat(r->b->fd, r->b_name, forget.side_fd, kept) < 0 ? -errno : 0;
		if (rc == 0)
			note_dir(r, to);
	} else {
		rc = linkat(r->b->fd, r->b_name, forget.side_fd, kept, 0) < 0 ? -errno : 0;
	}
	r->kept = rc == 0;
	return rc;
}

int forget_rename(const char *from, const char *to)
{
	struct forget_rec *r;
	struct stat a, b;
	char kept[32];
	int rc = entry_rec(FORGET_RENAME, from, to, &r);

	if (rc < 0)
		return rc;
	forget_side_name(kept, 'k', r);
	if (fstatat(r->a->fd, r->a_name, &a, AT_SYMLINK_NOFOLLOW) < 0) {
		rc = -errno;
		goto out;
	}
	if (fstatat(r->b->fd, r->b_name, &b, AT_SYMLINK_NOFOLLOW) == 0) {
		if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			goto out; /* the same file: rename does nothing */
		rc = keep_target(r, &a, &b, kept);
		if (rc < 0)
			goto out;
	}
	if (renameat(r->a->fd, r->a_name, r->b->fd, r->b_name) == 0) {
		forget_rec_add(r);
		return 0;
	}
	rc = -errno;
	if (r->kept && r->dir_ino)
		(void)!renameat(forget.side_fd, kept, r->b->fd, r->b_name);
	else if (r->kept)
		unlinkat(forget.side_fd, kept, 0);
out:
	forget_rec_free(r);
	return rc;
}

int forget_sync_dir(const char *path)
{
	struct forget_node *n;
	struct stat st;
	int entered, rc = 1;
	bool counts;

	if (!forget_on())
		return 0;
	entered = forget_enter(path, NULL);
	if (entered < 0)
		return entered;
	if (entered == 0)
		pthread_mutex_lock(&forget.lock); /* the root's parent has records, too */
	if (stat(path, &st) < 0)
		rc = -errno;
	else if (!S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc < 0)
		goto out;
	n = forget_node_find(st.st_dev, st.st_ino);
	/* With records or without, in the root or not: so a hook that sees them all counts alike. */
	counts = forget.state == FORGET_ON && forget_sync_counts();
	if (entered == 0 && (!n || forget.state != FORGET_ON)) {
		rc = 0;
		goto out;
	}
	if (!counts || !n)
		goto out;
	for (size_t i = forget.recs; i-- > 0;) {
		struct forget_rec *r = forget.rec[i];

		r->durable = !forget_rec_is_data(r) && (r->a == n || r->b == n);
		for (size_t j = i + 1; !r->durable && j < forget.recs; j++)
			r->durable = forget.rec[j]->durable && forget_rec_needs(forget.rec[j], r);
	}
	forget_drop_durable();
out:
	pthread_mutex_unlock(&forget.lock);
	return rc;
}
