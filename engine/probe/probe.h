/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage probe.  Servers on several hosts share one directory.  Each
 * machine must see each change of another machine at once: after a sync, no
 * read, size or name may come from a cache.  The probe makes such changes
 * through one mount of the directory, looks at them through another, and counts
 * wrong answers.
 *
 * With one directory twice it finds storage that fails on one host: exclusive
 * creates, syncs of directories, locks.  Only two mounts find stale caches, and
 * only two hosts find the stale caches of a host: two NFS mounts of one host
 * share state. So the other side can be another process (struct probe.far),
 * which carries out the steps of that side one by one (struct probe_sides).
 */
#ifndef TFS_PROBE_PROBE_H
#define TFS_PROBE_PROBE_H

#include "engine/base/bytes.h"

enum probe_property {
	PROBE_SIZE,      /* the size of a file that grows */
	PROBE_APPEND,    /* bytes after the old end of a file */
	PROBE_OVERWRITE, /* bytes in place */
	PROBE_CREATE,    /* a new name, which was looked up before it existed */
	PROBE_UNLINK,    /* a removed name */
	PROBE_RENAME,    /* both names of a rename */
	PROBE_REPLACE,   /* the contents of a name that a rename replaced */
	PROBE_LIST,      /* the names of a directory */
	PROBE_EXCLUSIVE, /* O_EXCL, on both sides at once too */
	PROBE_DIRECTORY, /* paths through the old name of a renamed directory */
	PROBE_LOCK,      /* flock */
	PROBE_SYNC,      /* fsync of a directory */
	PROBE_MOUNT,     /* a marker file and st_dev, which show that the mount stays */
	PROBE_PROPERTIES
};
enum probe_kind { PROBE_OTHER, PROBE_FUSE, PROBE_NFS, PROBE_KINDS };

/* A step that the other side carries out. */
struct probe_order {
	uint64_t probe;  /* a random number, which names the probe's directory */
	uint32_t number; /* the number of the try; a new number closes the files of the try before */
	uint32_t which, step;
};
#define PROBE_ANSWER_MAX 100u
struct probe_reply {
	int err;                       /* 0, -errno, 1: wrong */
	char answer[PROBE_ANSWER_MAX]; /* if err is 1: the wrong answer */
};
/* Returns 0 with *reply, or -errno if the other side does not answer. */
typedef int probe_far_fn(void *arg, const struct probe_order *order, struct probe_reply *reply);

struct probe {
	const char *dir[2]; /* two mounts of one directory, or the same path twice; as of file_real() */
	/* The other side is another process: dir[1] is its name in messages.  NULL: it is this process. */
	probe_far_fn *far;
	void *far_arg;
	/* The probe ends after this many rounds or this time, but not before one round.  The defaults for 0 are 200 rounds and 8 s. */
	unsigned rounds;
	uint64_t most_us;
	bool (*stop)(void *arg); /* called between tries, and ends the probe if it returns true; may be NULL */
	void (*round)(void *arg, unsigned done, unsigned rounds, uint64_t bytes_written); /* called after each round; may be NULL */
	void *arg;

	/* Results. */
	enum probe_kind kind; /* the kind of the file system of dir[1] */
	unsigned done;        /* rounds */
	unsigned tries[PROBE_PROPERTIES], wrong[PROBE_PROPERTIES];
	char first[PROBE_PROPERTIES][512]; /* the first wrong answer */
	char failed[512];                  /* the path at which probe_run failed */
};

/*
 * Returns 0 if every property was tried: the storage is safe if probe_wrong is 0.  Else -errno: -EXDEV if dir[1] does not
 * show what is made in dir[0], -ECANCELED after stop, -UNREACHABLE if the other side does not answer, or has ended
 * meanwhile.  In each case the files of the probe, in a directory
 * "probe-<random>", are removed.  A probe that is killed leaves them.
 */
int probe_run(struct probe *p) TFS_MUST;
/* The number of properties that the storage lacks. */
unsigned probe_wrong(const struct probe *p);
/* Appends a line without its end: a property that is wrong, and the setting that may mend it. */
int probe_line(const struct probe *p, enum probe_property what, struct buf *out) TFS_MUST;
/*
 * Returns the result of a probe at the start of a program: err of probe_run, or -EOPNOTSUPP if the storage lacks a property, with
 * *why as one line; the caller frees it.  A full disk is not an error.
 */
int probe_verdict(const struct probe *p, int err, char **why) TFS_MUST;
/*
 * Called when a program starts: probes dir for one round if it is on a network file system or
 * on FUSE.  A local disk is not probed.  Returns as probe_verdict.
 */
int probe_at_start(const char *dir, char **why) TFS_MUST;
/*
 * Refuses an NFS mount that caches attributes or names: its options show that before a probe.  Returns 0, -EOPNOTSUPP with *why,
 * -errno.
 */
int probe_mount_options(const char *dir, char **why) TFS_MUST;
/* Returns true if `mountinfo`, a text as of /proc/self/mountinfo, has the device as such a mount. */
bool probe_mount_caches(const char *mountinfo, unsigned major, unsigned minor);

/*
 * The other side of probes of other processes, in one directory.  An order names one of the
 * steps above, so it can reach only files in probe-<random>.  Files that a probe has left open
 * are closed when further probes come.  Threads: any.
 */
struct probe_sides;
int probe_sides_new(const char *dir, struct probe_sides **out) TFS_MUST;
void probe_sides_free(struct probe_sides *p);
/*
 * Carries out an order, and sets *reply.  If the last order of a probe comes again, it gets the
 * same answer, and is not carried out again.  Returns -EINVAL if there is no such step, -EAGAIN if
 * another order is under way.
 */
int probe_sides_do(struct probe_sides *p, const struct probe_order *order, struct probe_reply *reply) TFS_MUST;

#endif
