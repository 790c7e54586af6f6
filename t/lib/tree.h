/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of files, copied and removed without a process: tests do this at each of
 * thousands of points.
 */
#ifndef T_LIB_TREE_H
#define T_LIB_TREE_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	return remove(path);
}

/* Returns whether nothing is at the path any more. */
static inline bool tree_remove(const char *path)
{
	struct stat st;

	(void)!nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return lstat(path, &st) != 0;
}

/* A hole stays a hole: the files of a log have space behind their ends. */
static inline bool tree_copy_bytes(int in, int out, off_t size)
{
	off_t at = 0, data, hole;

	while (at < size && (data = lseek(in, at, SEEK_DATA)) >= 0) {
		hole = lseek(in, data, SEEK_HOLE);
		if (lseek(out, data, SEEK_SET) < 0)
			return false;
		for (at = data; at < hole;)
			if (sendfile(out, in, &at, (size_t)(hole - at)) <= 0)
				return false;
	}
	return ftruncate(out, size) == 0;
}

static inline bool tree_copy_file(const char *from, const char *to, const struct stat *st)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	bool done = in >= 0 && out >= 0 && tree_copy_bytes(in, out, st->st_size) && futimens(out, times) == 0;

	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return done;
}

/* Copies regular files and directories with modes and times; nothing may be at the path "to". */
static inline bool tree_copy(const char *from, const char *to)
{
	char below[2][1024];
	const struct dirent *e;
	struct stat st;
	bool done;
	DIR *d;

	if (lstat(from, &st))
		return false;
	if (S_ISREG(st.st_mode))
		return tree_copy_file(from, to, &st);
	if (!S_ISDIR(st.st_mode) || mkdir(to, st.st_mode & 0777) || !(d = opendir(from)))
		return false;
	done = true;
	while (done && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		done = snprintf(below[0], sizeof(below[0]), "%s/%s", from, e->d_name) < (int)sizeof(below[0]) &&
			snprintf(below[1], sizeof(below[1]), "%s/%s", to, e->d_name) < (int)sizeof(below[1]) &&
			tree_copy(below[0], below[1]);
	}
	closedir(d);
	return done;
}

#endif
