/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe works in rounds.  In each round, each side in turn is the writer:
 *
 *   grow       the other side reads the file and its size; the writer appends
 *              and syncs; the other side reads again, through the descriptor
 *              that it has and through a fresh one.  Three times
 *   overwrite  the same with writes in place into reserved space, as a commit
 *              log's; twice to each block
 *   names      the other side looks a name up, so that its kernel caches the
 *              answer; the writer creates, renames, replaces or unlinks it
 *   directory  the fence of a dead server's log: the other side is the server,
 *              which creates files by full path; the writer renames the
 *              directory.  After that no path through the old name may work,
 *              and the new one must show all that was synced
 *   lock       the writer holds a flock
 * Then two threads create the same names at once, one on each side.
 *
 * Each try uses new names, so that one wrong answer does not cause others.  An
 * answer that only a cache or a missing ability explains is counted.  Another
 * error, as EIO, ends the probe, because it proves nothing.
 */
#include "engine/base/probe.h"

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>

enum {
	BLOCK = 3000 /* of 8-byte words, not of pages */,
	BLOCKS = 3,
	RACES = 16,
	ROUNDS = 200,
	MOUNTINFO_MAX = 4 << 20,
	REMOVE_TRIES = 60,
	NAMES_MAX = 64
};
#define MOST_US UINT64_C(8000000)
#define FIND_US UINT64_C(3000000) /* for the marker on the other side */

struct run {
	struct probe *p;
	uint64_t random, written;
	unsigned number; /* of the try, in the names */
	dev_t device[2];
	char *top[2];
	char paths[8][PATH_MAX];
	unsigned next_path;
	uint8_t bytes[BLOCK], got[BLOCK];
};

/* ---- names and answers ---- */

static const char *path_of(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Valid for the next seven calls. */
static const char *path_of(struct run *r, const char *fmt, ...)
{
	char *s = r->paths[r->next_path++ % 8];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, PATH_MAX, fmt, ap); /* of a longer path the rest is missing: make_top refuses those */
	va_end(ap);
	return s;
}

/* The path of a try's file on one side. */
static const char *at(struct run *r, unsigned side, const char *name)
{
	return path_of(r, "%s/%u-%s", r->top[side], r->number, name);
}

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

/* The same for the result of a call, which must be `wanted`.  -errno: an error that proves nothing. */
static int judge(struct run *r, enum probe_property what, const char *path, int err, int wanted)
{
	if (err != wanted && !is_wrong(err))
		return failed(r, path, err);
	return count(r, what, path, err == wanted, err ? strerror(-err) : "it succeeds");
}

/* Of an observer, whose next look does not need this one. */
static int look(int judged)
{
	return judged < 0 ? judged : 0;
}

/* ---- bytes, sizes, names ---- */

/* Each block of a probe differs from all others. */
static struct tfs_bytes block(struct run *r, uint64_t number)
{
	for (size_t i = 0; i < BLOCK; i += 8)
		put_be64(r->bytes + i, (r->random ^ number * UINT64_C(0x9e3779b97f4a7c15)) + i);
	return tfs_bytes_of(r->bytes, BLOCK);
}

static int write_block(struct run *r, struct file *f, uint64_t number, uint64_t offset)
{
	struct tfs_bytes s = block(r, number);
	int err = file_pwrite(f, s.p, s.n, offset);

	r->written += s.n;
	if (!err)
		err = file_sync(f);
	return failed(r, file_path(f), err);
}

/* f: an open descriptor, or NULL to open the path. */
static int see_block(struct run *r, enum probe_property what, const char *path, struct file *f, uint64_t number, uint64_t offset)
{
	struct tfs_bytes s = block(r, number);
	struct file *fresh = NULL;
	size_t got = 0;
	int err = f ? 0 : file_open(path, FILE_READ, &fresh);

	if (!err)
		err = file_pread(f ? f : fresh, r->got, s.n, offset, &got);
	file_close(fresh);
	if (err)
		return look(judge(r, what, path, err, 0));
	return look(count(r, what, path, bytes_eq(s, tfs_bytes_of(r->got, got)),
		got < s.n ? "fewer bytes" : "other bytes than were written"));
}

static int see_size(struct run *r, const char *path, struct file *f, uint64_t bytes)
{
	char answer[100];
	uint64_t n = 0;
	int err = f ? file_size(f, &n) : file_stat_size(path, &n);

	if (err)
		return look(judge(r, PROBE_SIZE, path, err, 0));
	snprintf(answer, sizeof(answer), "%" PRIu64 " bytes, not %" PRIu64, n, bytes);
	return look(count(r, PROBE_SIZE, path, n == bytes, answer));
}

/* Looks for a name by stat and by open. */
static int see_name(struct run *r, enum probe_property what, const char *path, int wanted)
{
	struct file *f = NULL;
	uint64_t n;
	int err = look(judge(r, what, path, file_stat_size(path, &n), wanted));

	if (err)
		return err;
	err = look(judge(r, what, path, file_open(path, FILE_READ, &f), wanted));
	file_close(f);
	return err;
}

static int is_name(void *arg, const char *name, bool is_dir)
{
	return strcmp(name, arg) == 0;
}

static int see_listed(struct run *r, unsigned side, const char *path, bool listed)
{
	char name[NAME_MAX + 1];
	int found;

	clip(name, sizeof(name), strrchr(path, '/') + 1);
	found = file_list(r->top[side], is_name, name);
	if (found < 0)
		return look(judge(r, PROBE_LIST, r->top[side], found, 0));
	return look(count(r, PROBE_LIST, path, found == listed, found ? "it is listed" : "it is not listed"));
}

static int sync_dir(struct run *r, const char *dir)
{
	return look(judge(r, PROBE_SYNC, dir, file_sync_dir(dir), 0));
}

/* Creates a file with one block. */
static int make_file(struct run *r, enum probe_property what, const char *path, uint64_t number, struct file **out)
{
	int err = judge(r, what, path, file_open(path, FILE_CREATE, out), 0);

	return err ? err : write_block(r, *out, number, 0);
}

/* ---- the properties: w is the writer's side, o the other one.  0, 1 (the try ended early), -errno ---- */

static int try_growth(struct run *r, unsigned w)
{
	unsigned o = !w;
	struct file *mine = NULL, *theirs = NULL;
	int err = make_file(r, PROBE_CREATE, at(r, w, "grow"), 0, &mine);

	if (!err)
		err = judge(r, PROBE_CREATE, at(r, o, "grow"), file_open(at(r, o, "grow"), FILE_READ, &theirs), 0);
	for (uint64_t i = 0; i <= BLOCKS && !err; i++) {
		const char *path = at(r, o, "grow");

		if (i)
			err = write_block(r, mine, i, i * BLOCK);
		for (unsigned fresh = 0; fresh < 2 && !err; fresh++) {
			err = see_size(r, path, fresh ? NULL : theirs, (i + 1) * BLOCK);
			if (!err)
				err = see_block(r, PROBE_APPEND, path, fresh ? NULL : theirs, i, i * BLOCK);
		}
	}
	file_close(mine);
	file_close(theirs);
	return err;
}

static int try_overwrite(struct run *r, unsigned w)
{
	unsigned o = !w;
	struct file *mine = NULL, *theirs = NULL;
	int err = make_file(r, PROBE_CREATE, at(r, w, "place"), 0, &mine);

	if (!err)
		err = failed(r, file_path(mine), file_preallocate(mine, BLOCK, (BLOCKS - 1) * BLOCK, false));
	if (!err)
		err = failed(r, file_path(mine), file_sync(mine));
	if (!err)
		err = judge(r, PROBE_CREATE, at(r, o, "place"), file_open(at(r, o, "place"), FILE_READ, &theirs), 0);
	for (uint64_t i = 0; i < 2 * BLOCKS && !err; i++) {
		uint64_t offset = i % BLOCKS * BLOCK;
		const char *path = at(r, o, "place");
		size_t got;

		/* The read fills the caches of the other side. */
		for (uint64_t j = 0; j < BLOCKS && !err; j++)
			err = failed(r, path, file_pread(theirs, r->got, BLOCK, j * BLOCK, &got));
		if (!err)
			err = write_block(r, mine, i + 1, offset);
		if (!err)
			err = see_block(r, PROBE_OVERWRITE, path, theirs, i + 1, offset);
		if (!err)
			err = see_block(r, PROBE_OVERWRITE, path, NULL, i + 1, offset);
	}
	file_close(mine);
	file_close(theirs);
	return err;
}

static int create_and_rename(struct run *r, unsigned w)
{
	unsigned o = !w;
	struct file *mine = NULL;
	int err = see_name(r, PROBE_CREATE, at(r, o, "name"), -ENOENT);

	if (!err)
		err = see_listed(r, o, at(r, o, "name"), false);
	if (!err)
		err = make_file(r, PROBE_CREATE, at(r, w, "name"), 0, &mine);
	file_close(mine);
	if (!err)
		err = see_name(r, PROBE_CREATE, at(r, o, "name"), 0);
	if (!err)
		err = see_listed(r, o, at(r, o, "name"), true);
	if (!err)
		err = see_name(r, PROBE_CREATE, at(r, o, "moved"), -ENOENT);
	if (!err)
		err = judge(r, PROBE_RENAME, at(r, w, "moved"), file_rename(at(r, w, "name"), at(r, w, "moved")), 0);
	if (!err)
		err = see_name(r, PROBE_RENAME, at(r, o, "name"), -ENOENT);
	return err ? err : see_name(r, PROBE_RENAME, at(r, o, "moved"), 0);
}

static int replace_and_unlink(struct run *r, unsigned w)
{
	unsigned o = !w;
	struct file *mine = NULL, *theirs = NULL;
	const char *path = at(r, w, "moved");
	int err = see_block(r, PROBE_REPLACE, at(r, o, "moved"), NULL, 0, 0);

	if (!err)
		err = judge(r, PROBE_REPLACE, path, file_replace(path, block(r, 1)), 0);
	if (!err)
		err = see_block(r, PROBE_REPLACE, at(r, o, "moved"), NULL, 1, 0);
	if (!err)
		err = judge(r, PROBE_UNLINK, at(r, w, "moved"), file_unlink(at(r, w, "moved")), 0);
	if (!err)
		err = see_name(r, PROBE_UNLINK, at(r, o, "moved"), -ENOENT);
	if (!err)
		err = see_listed(r, o, at(r, o, "moved"), false);
	if (!err)
		err = judge(r, PROBE_UNLINK, at(r, o, "moved"), file_open(at(r, o, "moved"), FILE_CREATE, &theirs), 0);
	if (!err)
		err = judge(r, PROBE_EXCLUSIVE, at(r, w, "moved"), file_open(at(r, w, "moved"), FILE_CREATE, &mine), -EEXIST);
	file_close(mine);
	file_close(theirs);
	return err;
}

static int try_names(struct run *r, unsigned w)
{
	int err = create_and_rename(r, w);

	if (!err)
		err = sync_dir(r, r->top[w]);
	return err ? err : replace_and_unlink(r, w);
}

static int try_directory(struct run *r, unsigned w)
{
	unsigned o = !w;
	struct file *theirs = NULL, *more = NULL;
	uint64_t n;
	int err = judge(r, PROBE_CREATE, at(r, w, "log"), file_mkdir(at(r, w, "log")), 0);

	if (!err)
		err = sync_dir(r, r->top[w]);
	if (!err)
		err = make_file(r, PROBE_CREATE, at(r, o, "log/1"), 0, &theirs);
	if (!err)
		err = sync_dir(r, at(r, o, "log"));
	if (!err)
		err = judge(r, PROBE_CREATE, at(r, o, "log"), file_look_up(at(r, o, "log"), &n), 0);
	if (!err)
		err = judge(r, PROBE_RENAME, at(r, w, "dead"), file_rename(at(r, w, "log"), at(r, w, "dead")), 0);
	if (!err)
		err = sync_dir(r, r->top[w]);
	if (!err)
		err = look(judge(r, PROBE_DIRECTORY, at(r, o, "log/2"), file_open(at(r, o, "log/2"), FILE_CREATE, &more), -ENOENT));
	if (!err)
		err = see_name(r, PROBE_DIRECTORY, at(r, o, "log/1"), -ENOENT);
	if (!err)
		err = look(judge(r, PROBE_DIRECTORY, at(r, o, "log"), file_look_up(at(r, o, "log"), &n), -ENOENT));
	if (!err)
		err = see_block(r, PROBE_DIRECTORY, at(r, w, "dead/1"), NULL, 0, 0);
	file_close(theirs);
	file_close(more);
	return err;
}

static int flock_of(struct file *f, int operation)
{
	return flock(file_fd(f), operation | LOCK_NB) < 0 ? -errno : 0;
}

static int try_lock(struct run *r, unsigned w)
{
	unsigned o = !w;
	struct file *mine = NULL, *theirs = NULL;
	const char *path = at(r, o, "lock");
	int err = make_file(r, PROBE_CREATE, at(r, w, "lock"), 0, &mine);

	if (!err)
		err = judge(r, PROBE_CREATE, path, file_open(path, FILE_READWRITE, &theirs), 0);
	if (!err)
		err = judge(r, PROBE_LOCK, file_path(mine), flock_of(mine, LOCK_EX), 0);
	if (!err)
		err = judge(r, PROBE_LOCK, path, flock_of(theirs, LOCK_EX), -EWOULDBLOCK);
	if (!err)
		err = judge(r, PROBE_LOCK, file_path(mine), flock_of(mine, LOCK_UN), 0);
	if (!err)
		err = judge(r, PROBE_LOCK, path, flock_of(theirs, LOCK_EX), 0);
	file_close(mine);
	file_close(theirs);
	return err;
}

/* ---- exclusive creates on both sides at once ---- */

struct racer {
	const struct run *run;
	unsigned side;
	_Atomic unsigned *arrived; /* of both, in all races so far */
	int result[RACES];
	char path[PATH_MAX];
};

static void race_name(const struct run *r, unsigned side, unsigned race, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%u-race%u", r->top[side], r->number, race);
}

static void *race(void *arg)
{
	struct racer *me = arg;

	for (unsigned i = 0; i < RACES; i++) {
		struct file *f = NULL;

		race_name(me->run, me->side, i, me->path);
		++*me->arrived;
		while (*me->arrived < 2 * (i + 1))
			sched_yield();
		me->result[i] = file_open(me->path, FILE_CREATE, &f);
		file_close(f);
	}
	return NULL;
}

static int try_races(struct run *r)
{
	_Atomic unsigned arrived = 0;
	struct racer racers[2] = {{.run = r, .side = 0, .arrived = &arrived}, {.run = r, .side = 1, .arrived = &arrived}};
	pthread_t thread;
	int err = -pthread_create(&thread, NULL, race, &racers[1]);

	if (err)
		return failed(r, "a thread", err);
	race(&racers[0]);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < RACES; i++) {
		int one = racers[0].result[i], other = racers[1].result[i];

		race_name(r, 1, i, racers[1].path);
		if (!is_wrong(one) || !is_wrong(other))
			return failed(r, racers[1].path, is_wrong(one) ? other : one);
		(void)count(r, PROBE_EXCLUSIVE, racers[1].path, (one == 0) != (other == 0) && (one == -EEXIST || other == -EEXIST),
			one && other ? "both creates fail" : "both creates succeed");
	}
	return 0;
}

/* ---- the probe's directory ---- */

static int device_of(const char *path, dev_t *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	*out = st.st_dev;
	return 0;
}

static const char *marker(struct run *r, unsigned side)
{
	return path_of(r, "%s/marker", r->top[side]);
}

static int try_mount(struct run *r, unsigned side)
{
	dev_t device = r->device[side];
	int err = look(judge(r, PROBE_MOUNT, r->top[side], device_of(r->top[side], &device), 0));

	if (!err)
		err = look(count(r, PROBE_MOUNT, r->top[side], device == r->device[side], "another device"));
	return err ? err : see_block(r, PROBE_MOUNT, marker(r, side), NULL, UINT64_MAX, 0);
}

static void nap(void)
{
	const struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
}

/* Waits for the marker, because a stale storage may show it late. */
static int find_marker(struct run *r)
{
	uint64_t until = monotonic_us() + FIND_US, n;
	int err;

	while ((err = file_stat_size(marker(r, 1), &n)) == -ENOENT && monotonic_us() < until)
		nap();
	return failed(r, r->p->dir[1], err == -ENOENT ? -EXDEV : err);
}

static int make_top(struct run *r)
{
	struct file *f = NULL;
	int err;

	err = random_bytes(&r->random, sizeof(r->random));
	if (err)
		return failed(r, "getrandom", err);
	for (unsigned i = 0; i < 2 && !err; i++) {
		const char *dir = r->p->dir[i];

		if (asprintf(&r->top[i], "%s/probe-%016" PRIx64, dir, r->random) < 0) {
			r->top[i] = NULL;
			return -ENOMEM;
		}
		err = failed(r, dir, strlen(r->top[i]) + NAMES_MAX > PATH_MAX ? -ENAMETOOLONG : device_of(dir, &r->device[i]));
	}
	if (err)
		return err;
	err = failed(r, r->p->dir[0], file_mkdir(r->top[0]));
	if (!err)
		err = failed(r, r->top[0], file_open(marker(r, 0), FILE_CREATE, &f));
	if (!err)
		err = write_block(r, f, UINT64_MAX, 0);
	file_close(f);
	if (!err)
		err = sync_dir(r, r->top[0]);
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
		struct removal x = {r, r->top[i % 2]};
		uint64_t n;

		if (i >= 4)
			nap();
		err = file_list(x.dir, remove_entry, &x);
		if (!err)
			err = file_rmdir(x.dir);
		if ((!err || err == -ENOENT) && file_stat_size(r->top[0], &n) == -ENOENT)
			return 0;
	}
	return failed(r, r->top[0], err ? err : -ENOTEMPTY);
}

/* ---- the rounds ---- */

static int one_round(struct run *r)
{
	static int (*const tries[])(struct run * r, unsigned w) = {
		try_growth, try_overwrite, try_names, try_directory, try_lock, try_mount};
	int err = 0;

	for (unsigned i = 0; i < sizeof(tries) / sizeof(*tries); i++)
		for (unsigned w = 0; w < 2 && err >= 0; w++) {
			r->number++;
			err = r->p->stop && r->p->stop(r->p->arg) ? failed(r, "stopped", -ECANCELED) : tries[i](r, w);
		}
	r->number++;
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
			p->round(p->arg, p->done, rounds, r->written);
	} while (!err && p->done < rounds && monotonic_us() < until);
	return err;
}

static enum probe_kind kind_of_dir(const char *dir)
{
	struct buf b = {0};
	enum probe_kind kind = PROBE_OTHER;
	char *path = file_real("/proc/self/mountinfo");
	dev_t device;

	if (path && device_of(dir, &device) == 0 && file_read_all(path, MOUNTINFO_MAX, &b) == 0)
		kind = probe_kind_of(buf_bytes(&b), major(device), minor(device));
	free(path);
	buf_fini(&b);
	return kind;
}

int probe_run(struct probe *p)
{
	struct run *r = calloc(1, sizeof(*r));
	uint64_t n;
	int err, removed;

	if (!r)
		return -ENOMEM;
	r->p = p;
	p->kind = kind_of_dir(p->dir[1]);
	err = make_top(r);
	if (!err)
		err = run_rounds(r);
	if (r->top[1] && file_stat_size(r->top[0], &n) == 0) {
		removed = remove_top(r);
		err = err ? err : removed;
	}
	free(r->top[0]);
	free(r->top[1]);
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

/* ---- the lines ---- */

enum probe_kind probe_kind_of(struct tfs_bytes mountinfo, unsigned major, unsigned minor)
{
	enum probe_kind kind = PROBE_OTHER;
	const char *p = (const char *)mountinfo.p, *end = p + mountinfo.n;

	while (p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		char line[8192];
		const char *type;
		unsigned a, b;

		line_end = line_end ? line_end : end;
		snprintf(line, sizeof(line), "%.*s", (int)(line_end - p), p);
		p = line_end + 1;
		type = strstr(line, " - ");
		if (!type || sscanf(line, "%*u %*u %u:%u", &a, &b) != 2 || a != major || b != minor)
			continue;
		type += 3;
		kind = strncmp(type, "fuse.glusterfs ", 15) == 0                          ? PROBE_GLUSTERFS
			: strncmp(type, "nfs ", 4) == 0 || strncmp(type, "nfs4 ", 5) == 0 ? PROBE_NFS
											  : PROBE_OTHER;
	}
	return kind;
}

/* By measurement (doc/decisions). */
#define GLUSTER_VOLUME "gluster volume set VOLUME group db-workload; gluster volume set VOLUME performance.open-behind off"
#define GLUSTER_MOUNT "mount it with --attribute-timeout=0 --entry-timeout=0 --negative-timeout=0"
#define NFS_MOUNT "mount it with noac,lookupcache=none"
#define OTHER_MOUNT "mount it without caches of attributes, names and contents"
#define UNFIT "this storage cannot be used"

int probe_line(const struct probe *p, enum probe_property what, struct buf *out)
{
	static const char *const stale[PROBE_KINDS] = {OTHER_MOUNT, GLUSTER_VOLUME "; " GLUSTER_MOUNT, NFS_MOUNT};
	static const char *const in_place[PROBE_KINDS] = {
		OTHER_MOUNT, GLUSTER_VOLUME "; " GLUSTER_MOUNT " --auto-invalidation=on", NFS_MOUNT};
	static const char *const no_lock[PROBE_KINDS] = {UNFIT, UNFIT, "mount it with local_lock=none"};
	static const char *const unfit[PROBE_KINDS] = {UNFIT, UNFIT, UNFIT};
	static const struct {
		const char *wrong, *const *remedy;
	} texts[PROBE_PROPERTIES] = {
		[PROBE_SIZE] = {"stale sizes", stale},
		[PROBE_APPEND] = {"stale bytes after an append", stale},
		[PROBE_OVERWRITE] = {"stale bytes after a write in place", in_place},
		[PROBE_CREATE] = {"new names are not found", stale},
		[PROBE_UNLINK] = {"removed names are found", stale},
		[PROBE_RENAME] = {"stale names after a rename", stale},
		[PROBE_REPLACE] = {"old contents after a rename over a file", stale},
		[PROBE_LIST] = {"stale listings", stale},
		[PROBE_EXCLUSIVE] = {"an exclusive create does not have one winner", unfit},
		[PROBE_DIRECTORY] = {"a renamed directory is found under its old name", stale},
		[PROBE_LOCK] = {"flock does not exclude the other side", no_lock},
		[PROBE_SYNC] = {"a directory cannot be synced", unfit},
		[PROBE_MOUNT] = {"the mount did not stay", unfit},
	};

	return buf_printf(out, "%s: %u of %u tries, the first at %s: %s", texts[what].wrong, p->wrong[what], p->tries[what],
		p->first[what], texts[what].remedy[p->kind]);
}

/* ---- the start of a program ---- */

static bool is_shared(const char *dir)
{
	static const uint32_t types[] = {FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
		SMB2_SUPER_MAGIC, AFS_FS_MAGIC, CODA_SUPER_MAGIC, V9FS_MAGIC, OCFS2_SUPER_MAGIC, 0x01161970 /* GFS2 */,
		0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */};
	struct statfs s;

	if (statfs(dir, &s))
		return false;
	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if ((uint32_t)s.f_type == types[i])
			return true;
	return false;
}

int probe_at_start(const char *dir, char **why)
{
	struct probe p = {.dir = {dir, dir}, .rounds = 1};
	struct buf line = {0};
	unsigned i = 0;
	int err = is_shared(dir) ? probe_run(&p) : 0;

	if (is_no_space(err))
		return 0;
	if (err) {
		why_set(why, "%s: this storage cannot be tried: %s", p.failed, strerror(-err));
	} else if (probe_wrong(&p)) {
		while (!p.wrong[i])
			i++;
		err = probe_line(&p, i, &line);
		if (!err)
			err = -EOPNOTSUPP;
		why_set(why, "%s: this storage is not safe: %.*s", dir, (int)line.n, (const char *)line.p);
	}
	buf_fini(&line);
	return err;
}
