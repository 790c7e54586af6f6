/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What t/bench/mount.sh times with a program of its own, so that the shell
 * and find cost nothing:
 *
 *	walk stat DIR               lstat of everything below DIR
 *	walk randread DIR COUNT SEED  open, read, close of COUNT files below DIR in random order
 *	walk create DIR ROWS CELLS BYTES TEXT FROM  ROWS directories ROW/f with CELLS files of
 *	            BYTES each, cut from the file TEXT; row numbers begin at FROM
 *
 * randread reads its list of names from standard input (find DIR -type f),
 * so that listing them is not part of what is measured.  Each prints the
 * seconds it took and how many things it did.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t things, bytes;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "walk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *f)
{
	if (type == FTW_NS || type == FTW_DNR)
		die(path);
	things++;
	bytes += (uint64_t)st->st_size;
	return 0;
}

static void read_names(char ***names, size_t *count)
{
	char *line = NULL;
	size_t cap = 0, n = 0, size = 0;
	char **v = NULL;
	ssize_t got;

	while ((got = getline(&line, &size, stdin)) > 0) {
		line[got - 1] = 0;
		if (n == cap) {
			cap = cap ? cap * 2 : 1024;
			v = realloc(v, cap * sizeof(*v));
			if (!v)
				die("memory");
		}
		v[n] = strdup(line);
		if (!v[n++])
			die("memory");
	}
	free(line);
	*names = v;
	*count = n;
}

static double randread(unsigned long count, unsigned long seed)
{
	char buffer[65536], **names;
	size_t n;
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	double start;

	read_names(&names, &n);
	if (!n) {
		errno = ENOENT;
		die("no names on standard input");
	}
	start = now();
	for (unsigned long i = 0; i < count; i++) {
		ssize_t got;
		int fd;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		fd = open(names[x % n], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			die(names[x % n]);
		while ((got = read(fd, buffer, sizeof(buffer))) > 0)
			bytes += (uint64_t)got;
		if (got < 0)
			die(names[x % n]);
		close(fd);
		things++;
	}
	return now() - start;
}

static double create(
	const char *dir, unsigned long rows, unsigned long cells, size_t size, const char *text_path, unsigned long from)
{
	char path[4096], *text;
	struct stat st;
	double start;
	int in = open(text_path, O_RDONLY | O_CLOEXEC);

	if (in < 0 || fstat(in, &st))
		die(text_path);
	if ((size_t)st.st_size <= size) {
		errno = ENODATA;
		die(text_path);
	}
	text = malloc((size_t)st.st_size);
	if (!text || read(in, text, (size_t)st.st_size) != st.st_size)
		die(text_path);
	close(in);
	start = now();
	for (unsigned long r = from; r < from + rows; r++) {
		snprintf(path, sizeof(path), "%s/row%06lu", dir, r);
		if (mkdir(path, 0755))
			die(path);
		snprintf(path, sizeof(path), "%s/row%06lu/f", dir, r);
		if (mkdir(path, 0755) && errno != EEXIST)
			die(path);
		for (unsigned long c = 0; c < cells; c++, things++) {
			size_t at = (r * cells + c) * size % ((size_t)st.st_size - size);
			int fd;

			snprintf(path, sizeof(path), "%s/row%06lu/f/q%lu@%lu", dir, r, c, 1000000000 + c);
			fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
			if (fd < 0 || write(fd, text + at, size) != (ssize_t)size || close(fd))
				die(path);
		}
	}
	free(text);
	return now() - start;
}

int main(int argc, char **argv)
{
	double seconds;

	if (argc == 3 && strcmp(argv[1], "stat") == 0) {
		double start = now();

		if (nftw(argv[2], visit, 64, FTW_PHYS))
			die(argv[2]);
		seconds = now() - start;
	} else if (argc == 5 && strcmp(argv[1], "randread") == 0) {
		seconds = randread(strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	} else if (argc == 8 && strcmp(argv[1], "create") == 0) {
		seconds = create(argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10),
			argv[6], strtoul(argv[7], NULL, 10));
	} else {
		fprintf(stderr, "usage: walk stat DIR | randread DIR COUNT SEED | create DIR ROWS CELLS BYTES TEXT FROM\n");
		return 2;
	}
	printf("%.3f %llu\n", seconds, (unsigned long long)things);
	return 0;
}
