/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a probe, and the side that carries them out. */
#ifndef TFS_PROBE_INTERNAL_H
#define TFS_PROBE_INTERNAL_H

#include "engine/base/file.h"
#include "engine/probe/probe.h"

#include <limits.h>
#include <sys/types.h>

enum { PROBE_BLOCK = 3000 /* bytes of a block: 8-byte words, but not whole pages */, PROBE_BLOCKS = 3 };

enum probe_op {
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
	SIZE, /* the size of a file that ends behind the block */
	SIZE_HELD,
	SEE, /* a block */
	SEE_HELD,
	CHANGES = CREATE,
	LOOKS = STAT
};

struct probe_step {
	enum { PROBE_WRITER, PROBE_OBSERVER } who;
	unsigned op;
	enum probe_property what;
	const char *name; /* a name as for probe_name_path */
	int wanted;       /* the result */
	const char *from; /* the old name of a RENAME */
	uint64_t number;  /* a block */
	unsigned at;      /* its place, in blocks */
};

/* Lists of steps, each with an end whose name is NULL. */
enum probe_try {
	PROBE_TRY_GROWTH,
	PROBE_TRY_OVERWRITE,
	PROBE_TRY_NAMES,
	PROBE_TRY_DIRECTORY,
	PROBE_TRY_LOCK,
	PROBE_TRY_MOUNT,
	PROBE_TRIES,                  /* the lists from here on are not part of each side's turn */
	PROBE_TRY_MARK = PROBE_TRIES, /* makes the marker */
	PROBE_TRY_FIND,               /* one step: looks for it */
	PROBE_TRY_RACE,               /* each step is carried out by both sides at once */
	PROBE_TRY_ALL
};
const struct probe_step *probe_steps(enum probe_try which);
/* The number of steps. */
unsigned probe_step_count(enum probe_try which);

struct probe_side {
	uint64_t random; /* the probe's number, which names its directory */
	unsigned number; /* the try's number, which is part of its names */
	dev_t device;
	char *top;                     /* the probe's directory on this side */
	struct file *held;             /* the file that the side has open */
	char path[PATH_MAX];           /* the last step's file */
	char answer[PROBE_ANSWER_MAX]; /* the wrong answer, after the result 1 */
	uint64_t written;
	uint8_t bytes[PROBE_BLOCK], got[PROBE_BLOCK];
};
int probe_side_init(struct probe_side *d, const char *dir, uint64_t random) TFS_MUST;
void probe_side_fini(struct probe_side *d);
/* Closes the file of the try, and begins the next one. */
void probe_side_begin(struct probe_side *d, unsigned number);
/* Returns 0, -errno, or 1 with d->answer. */
int probe_side_do(struct probe_side *d, const struct probe_step *s) TFS_MUST;
/*
 * Writes the path of a try's file on one side.  A name that begins with a slash is a file of the whole probe, and "" is the
 * probe's directory.  A path that is too long is cut, because probe_side_init() has refused such a directory.
 */
void probe_name_path(const struct probe_side *d, const char *name, char out[PATH_MAX]);

#endif
