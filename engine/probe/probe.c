/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe carries out steps.  A step is a change or a look on one of two sides, the
 * writer's or the observer's.  A try is a list of steps.  The two sides of a try share
 * nothing but the files.  In each round, each side in turn is the writer of these tries:
 *
 *   growth     the observer reads the file and its size; the writer appends
 *              and syncs; the observer reads again, through its old descriptor and through a fresh one.  Three times
 *   overwrite  the same with writes in place into reserved space, as a commit
 *              log's; twice to each block
 *   names      the observer looks a name up, so that its kernel caches the
 *              answer; the writer creates, renames, replaces or unlinks it
 *   directory  the fence of a dead server's log.  The observer acts as that server, which
 *              creates files by full path; the writer renames the directory.  After that
 *              no path through the old name may work, and the new one must show all that
 *              was synced
 *   lock       the writer holds a flock
 *   mount      the marker file and st_dev stay
 * Then two threads create the same names at once, one on each side.  The steps
 * are in tries.c, and side.c carries them out.
 *
 * Each try uses new names, so that a wrong answer does not cause further ones.  An answer
 * that only a cache or a missing ability explains is counted.  Another error, for example
 * EIO, ends the probe, because it proves nothing.
 */
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/outcome.h"
#include "engine/probe/internal.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <time.h>

enum { RACES_MAX = 16, ROUNDS = 200, REMOVE_TRIES = 60 };
#define MOST_US UINT64_C(8000000)
#define FIND_US UINT64_C(3000000) /* how long the observer's side looks for the marker */

struct run {
	struct probe *p;
	unsigned number;           /* the number of the try */
	struct probe_side side[2]; /* the second side has names only if it is another process */
};

/* ---- answers ---- */

static void clip(char *out, size_t room, const char *s)
{
	snprintf(out, room, "%.*s", (int)room - 1, s);
}

static int failed(struct run *r, const char *path, int err)
{
	if (err < 0 && !r->p->failed[0])
		clip(r->p->failed, sizeof(r->p->failed), path);
	return err;
}

/* Returns true if a stale cache or a missing ability explains the answer. */
static bool is_wrong(int err)
{
	static const int answers[] = {0, ENOENT, EEXIST, ESTALE, EWOULDBLOCK, ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL};

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		if (-err == answers[i])
			return true;
	return false;
}

/* Counts an answer.  Returns 0 if it is good, 1 if it is wrong. */
static int count(struct run *r, enum probe_property what, const char *path, bool good, const char *answer)
{
	struct probe *p = r->p;

	p->tries[what]++;
	if (good)
		return 0;
	if (p->wrong[what]++ == 0)
		snprintf(p->first[what], sizeof(p->first[what]), "%.400s: %.100s", path, answer);
	return 1;
}

/* ---- steps ---- */

/* Lets the other process carry out a step.  Returns what probe_side_do returns. */
static int ask(const struct run *r, unsigned which, unsigned step, char answer[PROBE_ANSWER_MAX])
{
	const struct probe_order order = {r->side[1].random, r->number, which, step};
	struct probe_reply reply = {0};
	int err = r->p->far(r->p->far_arg, &order, &reply);

	if (err)
		return err;
	if (reply.err == -EBADF)
		return -UNREACHABLE; /* the other process has ended since the last step, or forgotten the probe */
	memcpy(answer, reply.answer, PROBE_ANSWER_MAX);
	return reply.err > 0 ? 1 : reply.err;
}

static int do_step(struct run *r, unsigned side, unsigned which, unsigned step)
{
	const struct probe_step *s = &probe_steps(which)[step];
	struct probe_side *d = &r->side[side];

	if (!side || !r->p->far)
		return probe_side_do(d, s);
	probe_name_path(d, s->name, d->path);
	return ask(r, which, step, d->answer);
}

/* Returns 0, 1 to end the try, or -errno. */
static int carry_out(struct run *r, unsigned side, unsigned which, unsigned step)
{
	const struct probe_step *s = &probe_steps(which)[step];
	struct probe_side *d = &r->side[side];
	int err = do_step(r, side, which, step);

	if (err < 0 && err != s->wanted && (s->op < CHANGES || !is_wrong(err)))
		return failed(r, d->path, err);
	if (s->op < CHANGES)
		return 0;
	err = count(r, s->what, d->path, err == s->wanted, err > 0 ? d->answer : err ? strerror(-err) : "it succeeds");
	return s->op < LOOKS ? err : 0;
}

static void begin_try(struct run *r)
{
	r->number++;
	for (unsigned i = 0; i < 2; i++)
		probe_side_begin(&r->side[i], r->number);
}

/* w: the writer's side. */
static int try_steps(struct run *r, unsigned which, unsigned w)
{
	const struct probe_step *s = probe_steps(which);
	int err = 0;

	begin_try(r);
	for (unsigned i = 0; s[i].name && !err; i++)
		err = carry_out(r, s[i].who == PROBE_WRITER ? w : !w, which, i);
	return err;
}

/* ---- exclusive creates on both sides at once ---- */

struct racer {
	struct run *run;
	unsigned side;
	_Atomic unsigned *arrived; /* counts the arrivals of the two racers at the starts of all races so far */
	int result[RACES_MAX];
};

static void *race(void *arg)
{
	struct racer *me = arg;

	for (unsigned i = 0; i < probe_step_count(PROBE_TRY_RACE); i++) {
		++*me->arrived;
		while (*me->arrived < 2 * (i + 1))
			sched_yield();
		me->result[i] = do_step(me->run, me->side, PROBE_TRY_RACE, i);
	}
	return NULL;
}

static int try_races(struct run *r)
{
	_Atomic unsigned arrived = 0;
	struct racer racers[2] = {{.run = r, .side = 0, .arrived = &arrived}, {.run = r, .side = 1, .arrived = &arrived}};
	char *path = r->side[1].path;
	pthread_t thread;
	int err;

	begin_try(r);
	err = -pthread_create(&thread, NULL, race, &racers[1]);
	if (err)
		return failed(r, "a thread", err);
	race(&racers[0]);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < probe_step_count(PROBE_TRY_RACE); i++) {
		int one = racers[0].result[i], other = racers[1].result[i];

		probe_name_path(&r->side[1], probe_steps(PROBE_TRY_RACE)[i].name, path);
		if (!is_wrong(one) || !is_wrong(other))
			return failed(r, path, is_wrong(one) ? other : one);
		(void)count(r, PROBE_EXCLUSIVE, path, (one == 0) != (other == 0) && (one == -EEXIST || other == -EEXIST),
			one && other ? "both creates fail" : "both creates succeed");
	}
	return 0;
}

/* ---- the probe's directory ---- */

static void nap(void)
{
	const struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
}

/* Waits for the marker, because storage with stale caches may show it late. */
static int find_marker(struct run *r)
{
	uint64_t until = monotonic_us() + FIND_US;
	int err;

	do {
		begin_try(r);
		err = do_step(r, 1, PROBE_TRY_FIND, 0);
		if (err == -ENOENT)
			nap();
	} while (err == -ENOENT && monotonic_us() < until);
	return failed(r, r->p->dir[1], err == -ENOENT ? -EXDEV : err);
}

/* Makes the names of the side that another process carries out. */
static int init_far(struct run *r, uint64_t random)
{
	struct probe_side *d = &r->side[1];

	d->random = random;
	if (asprintf(&d->top, "%s/probe-%016" PRIx64, r->p->dir[1], random) >= 0)
		return 0;
	d->top = NULL;
	return -ENOMEM;
}

static int make_top(struct run *r)
{
	uint64_t random;
	int err = random_bytes(&random, sizeof(random));

	if (err)
		return failed(r, "getrandom", err);
	for (unsigned i = 0; i < 2 && !err; i++)
		err = i && r->p->far ? init_far(r, random)
				     : failed(r, r->p->dir[i], probe_side_init(&r->side[i], r->p->dir[i], random));
	if (err)
		return err;
	err = failed(r, r->p->dir[0], file_mkdir(r->side[0].top));
	if (!err)
		err = try_steps(r, PROBE_TRY_MARK, 0);
	return err ? err : find_marker(r);
}

struct removal {
	struct run *run;
	const char *dir;
};

static int remove_entry(void *arg, const char *name, bool is_dir)
{
	const struct removal *x = arg;
	struct removal below = {x->run, path_join(x->dir, name)};
	int err = below.dir ? 0 : -ENOMEM;

	if (!err && is_dir)
		err = file_list(below.dir, remove_entry, &below);
	if (!err)
		err = is_dir ? file_rmdir(below.dir) : file_unlink(below.dir);
	free((char *)(uintptr_t)below.dir);
	return err == -ENOMEM ? err : 0; /* the rmdir of the parent fails if an entry is left */
}

/* A stale listing hides files, so both sides are tried, several times. */
static int remove_top(struct run *r)
{
	int err = 0;

	for (unsigned i = 0; i < REMOVE_TRIES; i++) {
		struct removal x = {r, r->side[r->p->far ? 0 : i % 2].top};
		uint64_t n;

		if (i >= 4)
			nap();
		err = file_list(x.dir, remove_entry, &x);
		if (!err)
			err = file_rmdir(x.dir);
		if ((!err || err == -ENOENT) && file_stat_size(r->side[0].top, &n) == -ENOENT)
			return 0;
	}
	return failed(r, r->side[0].top, err ? err : -ENOTEMPTY);
}

/* ---- the rounds ---- */

static int one_round(struct run *r)
{
	int err = 0;

	for (unsigned i = 0; i < PROBE_TRIES; i++)
		for (unsigned w = 0; w < 2 && err >= 0; w++)
			err = r->p->stop && r->p->stop(r->p->arg) ? failed(r, "stopped", -ECANCELED) : try_steps(r, i, w);
	return err < 0 ? err : try_races(r);
}

static int run_rounds(struct run *r)
{
	struct probe *p = r->p;
	unsigned rounds = p->rounds ? p->rounds : ROUNDS;
	uint64_t until = monotonic_us() + (p->most_us ? p->most_us : MOST_US);
	int err = 0;

	do {
		err = one_round(r);
		if (!err)
			p->done++;
		if (!err && p->round)
			p->round(p->arg, p->done, rounds, r->side[0].written + r->side[1].written);
	} while (!err && p->done < rounds && monotonic_us() < until);
	return err;
}

static enum probe_kind kind_of(const char *dir)
{
	struct statfs s;
	const uint32_t type = statfs(dir, &s) ? 0 : (uint32_t)s.f_type;

	return type == FUSE_SUPER_MAGIC ? PROBE_FUSE : type == NFS_SUPER_MAGIC ? PROBE_NFS : PROBE_OTHER;
}

int probe_run(struct probe *p)
{
	struct run *r = calloc(1, sizeof(*r));
	uint64_t n;
	int err, removed;

	if (!r)
		return -ENOMEM;
	r->p = p;
	p->kind = kind_of(p->dir[p->far ? 0 : 1]);
	err = make_top(r);
	if (!err)
		err = run_rounds(r);
	if (r->side[0].top && file_stat_size(r->side[0].top, &n) == 0) {
		removed = remove_top(r);
		err = err ? err : removed;
	}
	for (unsigned i = 0; i < 2; i++)
		probe_side_fini(&r->side[i]);
	free(r);
	return err;
}

unsigned probe_wrong(const struct probe *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PROBE_PROPERTIES; i++)
		n += p->wrong[i] > 0;
	return n;
}
