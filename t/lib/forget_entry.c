/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode's directory entries.  Each change is made at once and recorded.
 *
 * A record names directories by inode, because a directory may be renamed
 * between the operation and the crash.  A file or directory that an unlink,
 * rmdir or rename removes is moved or linked into root.forget/ until its
 * removal is durable.  fsync of a directory drops the records of its entries,
 * and in all directories the earlier records that those depend on: the
 * creation of a file that a rename moved here, the unlinks inside a directory
 * removed here.  A rename is one record.  An fsync of either directory makes
 * all of it durable.  A directory's own entry needs an fsync of its parent, as
 * POSIX requires and ext4 does not.
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
	/* A directory is removed after its entries. */
	if (later->kind != FORGET_MKDIR && (is_dir_of(later, earlier->a) || is_dir_of(later, earlier->b)))
		return true;
	/* A file moved into a new directory must not disappear with it. */
	return later->kind == FORGET_RENAME && later->a != later->b && earlier->kind == FORGET_MKDIR &&
		is_dir_of(earlier, later->b);
}

/* *dir: the directory of path's last component.  *name: that component, a new string. */
static int split_path(const char *path, struct forget_node **dir, char **name)
{
	size_t end = strlen(path), start;
	char *parent;
	int err;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/';)
		start--;
	if (start == end)
		return -EINVAL;
	parent = start == 0 ? strdup(".") : strndup(path, start);
	if (!parent)
		return -ENOMEM;
	err = forget_node_get(parent, O_RDONLY | O_DIRECTORY, dir);
	free(parent);
	if (err < 0)
		return err;
	*name = strndup(path + start, end - start);
	return *name ? 0 : -ENOMEM; /* the caller's forget_rec_free puts the node */
}

static int entry_rec(enum forget_kind kind, const char *a, const char *b, struct forget_rec **out)
{
	struct forget_rec *r = forget_rec_new(kind);
	int err;

	if (!r)
		return -ENOMEM;
	err = split_path(a, &r->a, &r->a_name);
	if (err == 0 && b)
		err = split_path(b, &r->b, &r->b_name);
	if (err < 0) {
		forget_rec_free(r);
		return err;
	}
	*out = r;
	return 0;
}

int forget_create(const char *path, int flags)
{
	struct forget_rec *r;
	int err = entry_rec(FORGET_CREATE, path, NULL, &r);

	if (err < 0)
		return err;
	do
		err = openat(r->a->fd, r->a_name, flags | O_CLOEXEC, 0600);
	while (err < 0 && errno == EINTR);
	if (err < 0) {
		err = -errno;
		forget_rec_free(r);
		return err;
	}
	forget_rec_add(r);
	return err;
}

/* Undone and redone as the creation of a file. */
int forget_link(const char *from, const char *to)
{
	struct forget_rec *r;
	int err = entry_rec(FORGET_CREATE, to, NULL, &r);

	if (err < 0)
		return err;
	if (linkat(AT_FDCWD, from, r->a->fd, r->a_name, 0) < 0) {
		err = -errno;
		forget_rec_free(r);
		return err;
	}
	forget_rec_add(r);
	return 0;
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
	int err = entry_rec(FORGET_MKDIR, path, NULL, &r);

	if (err < 0)
		return err;
	if (mkdirat(r->a->fd, r->a_name, 0700) < 0 || fstatat(r->a->fd, r->a_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		err = -errno;
		forget_rec_free(r);
		return err;
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
	int err = entry_rec(FORGET_UNLINK, path, NULL, &r);

	if (err < 0)
		return err;
	forget_side_name(kept, 'k', r);
	if (fstatat(r->a->fd, r->a_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		err = -errno;
	else if (S_ISDIR(st.st_mode))
		err = -EISDIR;
	else if (renameat(r->a->fd, r->a_name, forget.side_fd, kept) < 0)
		err = -errno;
	if (err < 0) {
		forget_rec_free(r);
		return err;
	}
	r->kept = true;
	forget_rec_add(r);
	return 0;
}

/* Returns 0, -ENOTEMPTY, or the error of opening. */
static int check_empty(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *e;
	int err = 0;
	DIR *d;

	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (err == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			err = -ENOTEMPTY;
	closedir(d);
	return err;
}

int forget_rmdir(const char *path)
{
	struct forget_rec *r;
	struct stat st;
	char kept[32];
	int err = entry_rec(FORGET_RMDIR, path, NULL, &r);

	if (err < 0)
		return err;
	forget_side_name(kept, 'k', r);
	err = check_empty(r->a->fd, r->a_name);
	if (err == 0 &&
		(fstatat(r->a->fd, r->a_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			renameat(r->a->fd, r->a_name, forget.side_fd, kept) < 0))
		err = -errno;
	if (err < 0) {
		forget_rec_free(r);
		return err;
	}
	note_dir(r, &st);
	r->kept = true;
	forget_rec_add(r);
	return 0;
}

/* Saves the rename's target in the side directory: a file by a link, so that it never disappears; a directory by a move. */
static int keep_target(struct forget_rec *r, const struct stat *from, const struct stat *to, const char *kept)
{
	int err;

	if (S_ISDIR(from->st_mode) && !S_ISDIR(to->st_mode))
		return -ENOTDIR;
	if (!S_ISDIR(from->st_mode) && S_ISDIR(to->st_mode))
		return -EISDIR;
	if (S_ISDIR(to->st_mode)) {
		err = check_empty(r->b->fd, r->b_name);
		if (err == 0)
			err = renameat(r->b->fd, r->b_name, forget.side_fd, kept) < 0 ? -errno : 0;
		if (err == 0)
			note_dir(r, to);
	} else {
		err = linkat(r->b->fd, r->b_name, forget.side_fd, kept, 0) < 0 ? -errno : 0;
	}
	r->kept = err == 0;
	return err;
}

int forget_rename(const char *from, const char *to)
{
	struct forget_rec *r;
	struct stat a, b;
	char kept[32];
	int err = entry_rec(FORGET_RENAME, from, to, &r);

	if (err < 0)
		return err;
	forget_side_name(kept, 'k', r);
	if (fstatat(r->a->fd, r->a_name, &a, AT_SYMLINK_NOFOLLOW) < 0) {
		err = -errno;
		goto out;
	}
	if (fstatat(r->b->fd, r->b_name, &b, AT_SYMLINK_NOFOLLOW) == 0) {
		if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			goto out; /* rename does nothing if both names are one file */
		err = keep_target(r, &a, &b, kept);
		if (err < 0)
			goto out;
	}
	if (renameat(r->a->fd, r->a_name, r->b->fd, r->b_name) == 0) {
		forget_rec_add(r);
		return 0;
	}
	err = -errno;
	if (r->kept && r->dir_ino)
		(void)!renameat(forget.side_fd, kept, r->b->fd, r->b_name);
	else if (r->kept)
		unlinkat(forget.side_fd, kept, 0);
out:
	forget_rec_free(r);
	return err;
}

int forget_sync_dir(const char *path)
{
	struct forget_node *n;
	struct stat st;
	int entered, err = 1;
	bool counts;

	if (!forget_on())
		return 0;
	entered = forget_enter(path, NULL);
	if (entered < 0)
		return entered;
	if (entered == 0)
		pthread_mutex_lock(&forget.lock); /* the root's parent has records too */
	if (stat(path, &st) < 0)
		err = -errno;
	else if (!S_ISDIR(st.st_mode))
		err = -ENOTDIR;
	if (err < 0)
		goto out;
	n = forget_node_find(st.st_dev, st.st_ino);
	/* All directories count, as they do for the hook. */
	counts = forget.state == FORGET_ON && forget_sync_counts();
	if (entered == 0 && (!n || forget.state != FORGET_ON)) {
		err = 0;
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
	return err;
}
