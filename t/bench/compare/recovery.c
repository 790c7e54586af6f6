/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench recovery: opening after kill -9.
 *
 * A process for each side opens a database whose write buffer has space for all cells,
 * puts --cells in random order, and kills itself.  All cells are then in the log, in the
 * kernel's pages, and in no other file.  The time lasts from the opening until the last
 * cell has been read.  The rate is in bytes of the log, which is in the page cache.
 *
 * The processes are forked before the parent opens a database, because a fork
 * does not copy a library's threads.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_job(struct job *j)
{
	char key[BENCH_KEY_BYTES + 1];
	int err = 0;

	for (uint64_t i = j->from; i < j->to && !err; i++) {
		feed_key(key, j->o->order[i]);
		err = job_put(j, key, j->o->order[i], false);
	}
	return err;
}

static struct side_options with_room(const struct bench_options *o, unsigned side)
{
	struct side_options so = side_options(o, side);

	so.memtable_bytes = (size_t)(o->cells * (o->value_bytes + 512) * 2 + (64u << 20));
	return so;
}

static _Noreturn void fill_and_die(const struct bench_options *o, unsigned side)
{
	struct side_options so = with_room(o, side);
	struct took t;
	void *db;

	so.fresh = true;
	db = o->sides[side]->open(&so);
	if (!db || run_jobs(o, o->sides[side], db, run_job, NULL, o->cells, 1, false, &t))
		_exit(EXIT_CANNOT);
	raise(SIGKILL);
	_exit(EXIT_CANNOT);
}

static int fill(const struct bench_options *o, unsigned side)
{
	pid_t parent = getpid(), pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_CANNOT);
		fill_and_die(o, side);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : -EIO;
}

static int one_side(const struct bench_options *o, unsigned side, void *line, struct took *took)
{
	struct side_options so = with_room(o, side);
	char key[BENCH_KEY_BYTES + 1];
	uint8_t *p = malloc(o->value_bytes);
	uint64_t from, sum = 0;
	double cpu = cpu_seconds();
	long got = -ENOMEM;
	void *db;

	feed_key(key, o->order[o->cells - 1]);
	from = monotonic_us();
	db = o->sides[side]->open(&so);
	if (db && p)
		got = o->sides[side]->get(db, key, p, o->value_bytes, &sum);
	took->wall = (double)(monotonic_us() - from) / 1e6;
	took->cpu = cpu_seconds() - cpu;
	took->ops = o->cells;
	if (db)
		o->sides[side]->close(db);
	free(p);
	if (got != (long)o->value_bytes)
		return got < 0 ? (int)got : -EBADMSG;
	return 0;
}

static int run(const struct bench_options *o)
{
	struct bench_options once = *o;
	struct took took[BENCH_SIDES] = {0};
	double bytes = (double)(o->cells * (o->value_bytes + BENCH_KEY_BYTES));
	int err = 0;

	once.repeat = 1; /* a log is recovered once */
	for (unsigned i = 0; i < o->side_count && !err; i++)
		err = fill(o, i);
	if (!err)
		print_heading(o);
	if (!err)
		err = take_turns(&once, one_side, NULL, took);
	if (err) {
		complain("recovery: %s", strerror(-err));
		return err;
	}
	print_line(o, "recovery", "cells recovered, after kill -9", 1, took);
	printf("  seconds, MB of log a second:");
	for (unsigned i = 0; i < o->side_count; i++)
		printf("%s %s %.2f, %.0f", i ? ";" : "", o->sides[i]->name, took[i].wall, bytes / 1e6 / took[i].wall);
	printf("\n");
	return 0;
}

const struct bench_kind bench_recovery = {.name = "recovery", .lines = " ", .run = run};
