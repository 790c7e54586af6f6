/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe carries out steps.  A step is a change or a look on one side: of the
 * writer, or of the other one, the observer.  A try is a list of steps, and needs
 * nothing of one side on the other but the files.  In each round, each side in turn
 * is the writer of these tries:
 *
 *   growth     the observer reads the file and its size; the writer appends
 *              and syncs; the observer reads again, through the descriptor
 *              that it has and through a fresh one.  Three times
 *   overwrite  the same with writes in place into reserved space, as a commit
 *              log's; twice to each block
 *   names      the observer looks a name up, so that its kernel caches the
 *              answer; the writer creates, renames, replaces or unlinks it
 *   directory  the fence of a dead server's log: the observer is the server,
 *              which creates files by full path; the writer renames the
 *              directory.  After that no path through the old name may work,
 *              and the new one must show all that was synced
 *   lock       the writer holds a flock
 *   mount      the marker file and st_dev stay
 * Then two threads create the same names at once, one on each side.
 *
 * Each try uses new names, so that one wrong answer does not cause further
 * ones.  An answer that only a cache or a missing ability explains is counted.
 * Another error, as EIO, ends the probe, because it proves nothing.
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
#include <sys/vfs.h>
#include <time.h>

enum { BLOCK = 3000 /* of 8-byte words, not of pages */, BLOCKS = 3, RACES = 16, ROUNDS = 200, REMOVE_TRIES = 60, NAMES_MAX = 64 };
#define MARKER "/marker"
#define MOST_US UINT64_C(8000000)
#define FIND_US UINT64_C(3000000) /* for the marker on the observer's side */

struct run {
	struct probe *p;
	uint64_t random, written;
	unsigned number; /* number of the try, in the names */
	dev_t device[2];
	char *top[2];
	struct file *held[2]; /* the file that each side has open */
	char path[PATH_MAX];  /* of the step */
	char answer[100];
	uint8_t bytes[BLOCK], got[BLOCK];
};

/* ---- names and answers ---- */

/*
 * The path of a try's file on one side; of a name that begins with a slash: of the probe's own; of "": the probe's directory.
 * A longer path is cut: make_top refuses those.
 */
static void name_path(const struct run *r, unsigned side, const char *name, char out[PATH_MAX])
{
	if (*name && *name != '/')
		snprintf(out, PATH_MAX, "%s/%u-%s", r->top[side], r->number, name);
	else
		snprintf(out, PATH_MAX, "%s%s", r->top[side], name);
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

/* ---- steps ---- */

enum op {
	/* An error of these ends the probe. */
	WRITE,   /* a block of the held file, and sync it */
	RESERVE, /* space behind the first block of the held file */
	READ,    /* all of the held file, which fills the caches */
	CLOSE,
	/* Changes: a wrong answer ends the try. */
	CREATE, /* with block 0; the file is held from then on */
	OPEN,
	OPEN_TO_WRITE,
	RENAME,
	REPLACE, /* the contents, by a block */
	UNLINK,
	MKDIR,
	LOCK,
	UNLOCK,
	/* Looks: a wrong answer does not matter to the next step. */
	STAT,
	STAT_DIR,
	LISTED,
	OPEN_TOO, /* a file that is not held */
	CREATE_TOO,
	SYNC_DIR,
	DEVICE,
	SIZE, /* of a file that ends behind the block */
	SIZE_HELD,
	SEE, /* a block */
	SEE_HELD,
	CHANGES = CREATE,
	LOOKS = STAT
};

struct step {
	enum { WRITER, OBSERVER } who;
	unsigned op;
	enum probe_property what;
	const char *name; /* as of name_path */
	int wanted;       /* the result */
	const char *from; /* RENAME: the old name */
	uint64_t number;  /* a block */
	unsigned at;      /* its place, in blocks */
};

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
	return err ? err : file_sync(f);
}

static int change(struct run *r, unsigned side, const struct step *s)
{
	struct file **held = &r->held[side];
	char from[PATH_MAX];
	size_t got;
	int err = 0;

	switch (s->op) {
	case WRITE:
		return write_block(r, *held, s->number, s->at * BLOCK);
	case RESERVE:
		err = file_preallocate(*held, BLOCK, (BLOCKS - 1) * BLOCK, false);
		return err ? err : file_sync(*held);
	case READ:
		for (uint64_t i = 0; i < BLOCKS && !err; i++)
			err = file_pread(*held, r->got, BLOCK, i * BLOCK, &got);
		return err;
	case RENAME:
		name_path(r, side, s->from, from);
		return file_rename(from, r->path);
	case REPLACE:
		return file_replace(r->path, block(r, s->number));
	case UNLINK:
		return file_unlink(r->path);
	case MKDIR:
		return file_mkdir(r->path);
	case LOCK:
	case UNLOCK:
		return flock(file_fd(*held), (s->op == LOCK ? LOCK_EX : LOCK_UN) | LOCK_NB) < 0 ? -errno : 0;
	default:
		file_close(*held);
		*held = NULL;
		if (s->op == CLOSE)
			return 0;
		err = file_open(r->path, s->op == CREATE ? FILE_CREATE : s->op == OPEN ? FILE_READ : FILE_READWRITE, held);
		return err || s->op != CREATE ? err : write_block(r, *held, 0, 0);
	}
}

static int is_name(void *arg, const char *name, bool is_dir)
{
	return strcmp(name, arg) == 0;
}

static int device_of(const char *path, dev_t *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	*out = st.st_dev;
	return 0;
}

/* The answer is wrong, although no call failed.  Returns 1. */
static int wrong(struct run *r, const char *answer)
{
	snprintf(r->answer, sizeof(r->answer), "%s", answer);
	return 1;
}

static int see_block(struct run *r, struct file *f, const struct step *s)
{
	struct tfs_bytes wanted = block(r, s->number);
	size_t got = 0;
	int err = file_pread(f, r->got, BLOCK, s->at * BLOCK, &got);

	if (err || bytes_eq(wanted, tfs_bytes_of(r->got, got)))
		return err;
	return wrong(r, got < BLOCK ? "fewer bytes" : "other bytes than were written");
}

static int see_size(struct run *r, struct file *f, const struct step *s)
{
	uint64_t n = 0, bytes = (s->at + 1) * BLOCK;
	int err = f ? file_size(f, &n) : file_stat_size(r->path, &n);

	if (err || n == bytes)
		return err;
	snprintf(r->answer, sizeof(r->answer), "%" PRIu64 " bytes, not %" PRIu64, n, bytes);
	return 1;
}

/* Returns 0, -errno, or 1 with r->answer. */
static int look(struct run *r, unsigned side, const struct step *s)
{
	struct file *f = NULL;
	dev_t device;
	uint64_t n;
	int err;

	switch (s->op) {
	case STAT:
		return file_stat_size(r->path, &n);
	case STAT_DIR:
		return file_look_up(r->path, &n);
	case LISTED:
		err = file_list(r->top[side], is_name, strrchr(r->path, '/') + 1);
		return err < 0 ? err : err == !s->wanted ? s->wanted : wrong(r, err ? "it is listed" : "it is not listed");
	case SYNC_DIR:
		return file_sync_dir(r->path);
	case DEVICE:
		err = device_of(r->path, &device);
		return err || device == r->device[side] ? err : wrong(r, "another device");
	case SIZE:
		return see_size(r, NULL, s);
	case SIZE_HELD:
		return see_size(r, r->held[side], s);
	case SEE_HELD:
		return see_block(r, r->held[side], s);
	default: /* OPEN_TOO, CREATE_TOO, SEE */
		err = file_open(r->path, s->op == CREATE_TOO ? FILE_CREATE : FILE_READ, &f);
		if (!err && s->op == SEE)
			err = see_block(r, f, s);
		file_close(f);
		return err;
	}
}

/* Returns 0, 1 to end the try, or -errno. */
static int carry_out(struct run *r, unsigned side, const struct step *s)
{
	int err;

	name_path(r, side, s->name, r->path);
	err = s->op < LOOKS ? change(r, side, s) : look(r, side, s);
	if (err < 0 && err != s->wanted && (s->op < CHANGES || !is_wrong(err)))
		return failed(r, r->path, err);
	if (s->op < CHANGES)
		return 0;
	err = count(r, s->what, r->path, err == s->wanted, err > 0 ? r->answer : err ? strerror(-err) : "it succeeds");
	return s->op < LOOKS ? err : 0;
}

/* ---- the tries ---- */

/* The observer sees block n at the end of the file. */
#define HAS_END(n)                                                                                                                 \
	{OBSERVER, SIZE_HELD, PROBE_SIZE, "grow", .at = n}, {OBSERVER, SEE_HELD, PROBE_APPEND, "grow", .number = n, .at = n},      \
		{OBSERVER, SIZE, PROBE_SIZE, "grow", .at = n}, {OBSERVER, SEE, PROBE_APPEND, "grow", .number = n, .at = n},
#define APPENDED(n) {WRITER, WRITE, PROBE_APPEND, "grow", .number = n, .at = n}, HAS_END(n)
static const struct step growth[] = {
	{WRITER, CREATE, PROBE_CREATE, "grow"},
	{OBSERVER, OPEN, PROBE_CREATE, "grow"},
	HAS_END(0) APPENDED(1) APPENDED(2) APPENDED(3){0},
};

#define OVERWRITTEN(n, place)                                                                                                      \
	{OBSERVER, READ, PROBE_OVERWRITE, "place"}, {WRITER, WRITE, PROBE_OVERWRITE, "place", .number = n, .at = place},           \
		{OBSERVER, SEE_HELD, PROBE_OVERWRITE, "place", .number = n, .at = place},                                          \
		{OBSERVER, SEE, PROBE_OVERWRITE, "place", .number = n, .at = place},
static const struct step overwrite[] = {
	{WRITER, CREATE, PROBE_CREATE, "place"},
	{WRITER, RESERVE, PROBE_CREATE, "place"},
	{OBSERVER, OPEN, PROBE_CREATE, "place"},
	OVERWRITTEN(1, 0) OVERWRITTEN(2, 1) OVERWRITTEN(3, 2) OVERWRITTEN(4, 0) OVERWRITTEN(5, 1) OVERWRITTEN(6, 2){0},
};

/* The observer looks for the name. */
#define FIND(what, name, wanted)                                                                                                   \
	{OBSERVER, STAT, what, name, wanted},                                                                                      \
	{                                                                                                                          \
		OBSERVER, OPEN_TOO, what, name, wanted                                                                             \
	}
static const struct step names[] = {
	FIND(PROBE_CREATE, "name", -ENOENT),
	{OBSERVER, LISTED, PROBE_LIST, "name", -ENOENT},
	{WRITER, CREATE, PROBE_CREATE, "name"},
	{WRITER, CLOSE, PROBE_CREATE, "name"},
	FIND(PROBE_CREATE, "name", 0),
	{OBSERVER, LISTED, PROBE_LIST, "name"},
	FIND(PROBE_CREATE, "moved", -ENOENT),
	{WRITER, RENAME, PROBE_RENAME, "moved", .from = "name"},
	FIND(PROBE_RENAME, "name", -ENOENT),
	FIND(PROBE_RENAME, "moved", 0),
	{WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{OBSERVER, SEE, PROBE_REPLACE, "moved"},
	{WRITER, REPLACE, PROBE_REPLACE, "moved", .number = 1},
	{OBSERVER, SEE, PROBE_REPLACE, "moved", .number = 1},
	{WRITER, UNLINK, PROBE_UNLINK, "moved"},
	FIND(PROBE_UNLINK, "moved", -ENOENT),
	{OBSERVER, LISTED, PROBE_LIST, "moved", -ENOENT},
	{OBSERVER, CREATE, PROBE_UNLINK, "moved"},
	{WRITER, CREATE_TOO, PROBE_EXCLUSIVE, "moved", -EEXIST},
	{0},
};

static const struct step directory[] = {
	{WRITER, MKDIR, PROBE_CREATE, "log"},
	{WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{OBSERVER, CREATE, PROBE_CREATE, "log/1"},
	{OBSERVER, SYNC_DIR, PROBE_SYNC, "log"},
	{OBSERVER, STAT_DIR, PROBE_CREATE, "log"},
	{WRITER, RENAME, PROBE_RENAME, "dead", .from = "log"},
	{WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{OBSERVER, CREATE_TOO, PROBE_DIRECTORY, "log/2", -ENOENT},
	FIND(PROBE_DIRECTORY, "log/1", -ENOENT),
	{OBSERVER, STAT_DIR, PROBE_DIRECTORY, "log", -ENOENT},
	{WRITER, SEE, PROBE_DIRECTORY, "dead/1"},
	{0},
};

static const struct step lock[] = {
	{WRITER, CREATE, PROBE_CREATE, "lock"},
	{OBSERVER, OPEN_TO_WRITE, PROBE_CREATE, "lock"},
	{WRITER, LOCK, PROBE_LOCK, "lock"},
	{OBSERVER, LOCK, PROBE_LOCK, "lock", -EWOULDBLOCK},
	{WRITER, UNLOCK, PROBE_LOCK, "lock"},
	{OBSERVER, LOCK, PROBE_LOCK, "lock"},
	{0},
};

static const struct step mount[] = {
	{WRITER, DEVICE, PROBE_MOUNT, ""},
	{WRITER, SEE, PROBE_MOUNT, MARKER},
	{0},
};

static const struct step *const trials[] = {growth, overwrite, names, directory, lock, mount};

/* w: the writer's side. */
static int try_steps(struct run *r, const struct step *s, unsigned w)
{
	int err = 0;

	for (; s->name && !err; s++)
		err = carry_out(r, s->who == WRITER ? w : !w, s);
	for (unsigned side = 0; side < 2; side++) {
		file_close(r->held[side]);
		r->held[side] = NULL;
	}
	return err;
}

/* ---- exclusive creates on both sides at once ---- */

struct racer {
	const struct run *run;
	unsigned side;
	_Atomic unsigned *arrived; /* how often a racer arrived at its start: both racers, all races so far */
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

	name_path(r, 1, MARKER, r->path);
	while ((err = file_stat_size(r->path, &n)) == -ENOENT && monotonic_us() < until)
		nap();
	return failed(r, r->p->dir[1], err == -ENOENT ? -EXDEV : err);
}

static int make_top(struct run *r)
{
	static const struct step mark[] = {{WRITER, CREATE, PROBE_CREATE, MARKER}, {WRITER, SYNC_DIR, PROBE_SYNC, ""}, {0}};
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
		err = try_steps(r, mark, 0);
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
	int err = 0;

	for (unsigned i = 0; i < sizeof(trials) / sizeof(*trials); i++)
		for (unsigned w = 0; w < 2 && err >= 0; w++) {
			r->number++;
			err = r->p->stop && r->p->stop(r->p->arg) ? failed(r, "stopped", -ECANCELED) : try_steps(r, trials[i], w);
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

/* As of statfs; 0: unknown. */
static uint32_t type_of(const char *dir)
{
	struct statfs s;

	return statfs(dir, &s) ? 0 : (uint32_t)s.f_type;
}

static enum probe_kind kind_of(const char *dir)
{
	uint32_t type = type_of(dir);

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
	p->kind = kind_of(p->dir[1]);
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

/* By measurement (doc/decisions). */
#define GLUSTER                                                                                                                    \
	"; GlusterFS: gluster volume set VOLUME group db-workload; gluster volume set VOLUME performance.open-behind off; "        \
	"mount it with --attribute-timeout=0 --entry-timeout=0 --negative-timeout=0"
#define NFS_MOUNT "mount it with noac,lookupcache=none"
#define OTHER_MOUNT "mount it without caches of attributes, names and contents"
#define UNFIT "this storage cannot be used"

int probe_line(const struct probe *p, enum probe_property what, struct buf *out)
{
	static const char *const stale[PROBE_KINDS] = {OTHER_MOUNT, OTHER_MOUNT GLUSTER, NFS_MOUNT};
	static const char *const in_place[PROBE_KINDS] = {OTHER_MOUNT, OTHER_MOUNT GLUSTER " --auto-invalidation=on", NFS_MOUNT};
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
	uint32_t type = type_of(dir);

	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (type == types[i])
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
