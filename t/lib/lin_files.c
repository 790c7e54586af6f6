/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin_files MOUNT MOUNT DATADIR SECONDS SEED: two writers through each of two mounts of a store, and
 * two through the library, use the same rows of the table t while servers and mounts die
 * and stop.  Prints the number of operations, and why a row's history has no order (t/lin).
 * The status is 0 if all have.
 */
#include "t/lin/client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROWS 8
#define WRITERS 6

static struct lin_record *history;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t end_ns;
static const char *const *arguments;
static _Atomic unsigned done, failed;

struct writer {
	struct lin_client client;
	const char *mount; /* NULL to use the library */
	pthread_t thread;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *text(void *arg, const void *data, size_t size)
{
	const char *p;

	pthread_mutex_lock(&lock);
	p = lin_text(history, data, size);
	pthread_mutex_unlock(&lock);
	return p;
}

/* ---- files ---- */

/* Returns the outcome of a failed change: nothing happened if the mount was dead before. */
static enum lin_outcome outcome_of(int err)
{
	return err == ENOTCONN ? LIN_NONE : LIN_DOUBT;
}

static void found(struct writer *w, struct lin_op *op, unsigned column, const char *p, size_t n)
{
	if (n && column >= 2 && p[n - 1] == '\n')
		n--;
	op->found[column] = p ? text(NULL, p, n) : NULL;
	op->seen = op->columns;
	op->outcome = LIN_OK;
}

static void read_file(struct writer *w, int dir, const char *path, unsigned column, struct lin_op *op)
{
	char b[4096];
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, b, sizeof(b));

	op->outcome = LIN_NONE;
	/* No value is empty, but a file is visible from its creation on, before its first commit (tabletfs(7), WRITING). */
	if (n > 0)
		found(w, op, column, b, (size_t)n);
	else if (errno == ENOENT && fd < 0)
		found(w, op, column, NULL, 0);
	if (fd >= 0)
		close(fd);
}

static void write_file(int dir, const char *path, const char *value, struct lin_op *op)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, 0644);
	const size_t n = strlen(value);
	bool good;

	op->outcome = LIN_NONE;
	if (fd < 0) {
		/* O_TRUNC and O_CREAT may have been carried out at the release of a descriptor that open did not return. */
		if (errno != ENOTCONN && errno != ENOENT)
			op->outcome = LIN_DOUBT;
		return;
	}
	good = write(fd, value, n) == (ssize_t)n;
	good = close(fd) == 0 && good;
	op->outcome = good ? LIN_OK : LIN_DOUBT;
}

static void run_file(struct writer *w, unsigned row, struct lin_op *op)
{
	const unsigned column = op->columns & 1 ? 0 : 2;
	char path[4096], value[32], name[16];
	int dir;

	lin_row(name, row);
	/* Without the mount its directory would be empty, and each file absent. */
	snprintf(path, sizeof(path), "%s/t", w->mount);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		op->outcome = LIN_NONE;
		return;
	}
	snprintf(path, sizeof(path), "%s/%s%s", name, op->kind == LIN_INCREMENT ? ".mutate" : "f/",
		op->kind == LIN_INCREMENT ? "" : lin_columns[column]);
	if (op->kind == LIN_READ) {
		read_file(w, dir, path, column, op);
	} else if (op->kind == LIN_PUT) {
		write_file(dir, path, op->value, op);
	} else if (op->kind == LIN_INCREMENT) {
		snprintf(value, sizeof(value), "add f:n\t%lld\ncommit\n", (long long)op->by);
		write_file(dir, path, value, op);
	} else if (unlinkat(dir, path, 0) == 0) {
		op->outcome = LIN_OK;
	} else if (errno == ENOENT) {
		op->kind = LIN_READ;
		found(w, op, column, NULL, 0);
	} else {
		op->outcome = outcome_of(errno);
	}
	close(dir);
}

/* Draws an operation that files can do, on column a or n. */
static unsigned draw_file(struct writer *w, struct lin_op *op)
{
	unsigned row;

	do
		row = lin_draw(&w->client, op);
	while (op->kind == LIN_APPEND);
	op->check = 0;
	op->columns = op->kind == LIN_PUT ? 1 : op->kind == LIN_INCREMENT ? 4 : op->columns & 1 ? 1 : 4;
	return row;
}

/* ---- both ---- */

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct tfs_options o = {.timeout_us = 60000000};
	struct tfs_store *s = NULL;
	struct tfs_table *t = NULL;
	struct lin_op drawn, *op;
	char name[16];
	unsigned row;

	if (!w->mount && (tfs_open(arguments[3], &o, &s, NULL) || tfs_table_open(s, "t", &t))) {
		fprintf(stderr, "the library cannot open the store\n");
		exit(1);
	}
	while (now_ns() < end_ns) {
		row = w->mount ? draw_file(w, &drawn) : lin_draw(&w->client, &drawn);
		lin_row(name, row);
		pthread_mutex_lock(&lock);
		op = lin_called(history, name, &drawn, now_ns());
		pthread_mutex_unlock(&lock);
		drawn = *op;
		if (w->mount)
			run_file(w, row, &drawn);
		else
			(void)!lin_run(&w->client, t, row, &drawn);
		/* A request that a dead mount has sent is carried out soon or never. */
		if (drawn.outcome != LIN_DOUBT || w->mount)
			drawn.answered = now_ns() + (drawn.outcome == LIN_DOUBT ? 5 * INT64_C(1000000000) : 0);
		pthread_mutex_lock(&lock);
		*op = drawn;
		pthread_mutex_unlock(&lock);
		done++;
		failed += drawn.outcome == LIN_DOUBT || drawn.outcome == LIN_NONE;
		if (drawn.outcome == LIN_DOUBT || drawn.outcome == LIN_NONE)
			usleep(200000); /* a mount is dead; the fewer operations in doubt, the fewer orders */
		usleep(10000);
	}
	if (t)
		tfs_table_close(t);
	return s && tfs_close(s) ? arg : NULL;
}

int main(int argc, char **argv)
{
	static struct writer writers[WRITERS];
	struct lin_totals totals;
	size_t bad;

	if (argc != 6)
		return 2;
	arguments = (const char *const *)argv;
	history = lin_record_new();
	lin_record_limit(history, 1000000);
	end_ns = now_ns() + atoi(argv[4]) * INT64_C(1000000000);
	for (unsigned i = 0; i < WRITERS; i++) {
		struct writer *w = &writers[i];

		w->client = (struct lin_client){.number = i + 1,
			.rows = ROWS,
			.x = (uint64_t)atoi(argv[5]) * 1000 + i + 1,
			.families = {"f", "g"},
			.text = text};
		w->mount = i < 4 ? argv[1 + i % 2] : NULL;
		if (pthread_create(&w->thread, NULL, writer_main, w))
			return 2;
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	bad = lin_record_check(history, lin_columns, stdout, &totals);
	printf("%zu operations on %zu rows, %zu in doubt, %u without effect or in doubt; %zu rows bad, %zu undecided\n", totals.ops,
		totals.rows, totals.doubts, (unsigned)failed, totals.bad, totals.undecided);
	lin_record_free(history);
	/* If kills leave too many operations in doubt, their orders cannot all be tried in time. */
	return bad ? 1 : 0;
}
