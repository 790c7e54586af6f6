/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile user who holds a directory in the kernel:
 *
 *	hold_directory MOUNTPOINT DIRECTORY
 *
 * Mounts a file system with one file whose reads are never answered, and reads the
 * directory into a page of that file.  The kernel holds the directory's lock, or the
 * page of its cached listing, until the process ends.  Prints "held" then.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *f)
{
	*st = (struct stat){.st_mode = path[1] ? S_IFREG | 0600 : S_IFDIR | 0700, .st_nlink = 1, .st_size = 1 << 20};
	return path[1] && strcmp(path, "/page") ? -ENOENT : 0;
}

static int do_read(const char *path, char *b, size_t n, off_t o, struct fuse_file_info *f)
{
	printf("held\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void hold(const char *mountpoint, const char *directory)
{
	char path[4096];
	int page, dir;
	void *p;

	snprintf(path, sizeof(path), "%s/page", mountpoint);
	while ((page = open(path, O_RDWR)) < 0)
		usleep(10000);
	dir = open(directory, O_RDONLY | O_DIRECTORY);
	p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, page, 0);
	if (dir < 0 || p == MAP_FAILED)
		perror("hold_directory");
	else
		syscall(SYS_getdents64, dir, p, 1 << 20);
	_exit(1);
}

int main(int argc, char **argv)
{
	static const struct fuse_operations ops = {.getattr = do_getattr, .read = do_read};
	char *args[] = {argv[0], argc > 1 ? argv[1] : "", "-f", NULL};

	if (argc != 3)
		return 2;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold(argv[1], argv[2]);
	}
	return fuse_main(3, args, &ops, NULL);
}
