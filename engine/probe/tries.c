/* SPDX-License-Identifier: Apache-2.0 */
/* The tries of a probe (probe.c). */
#include "engine/probe/internal.h"

#include <errno.h>

#define MARKER "/marker"

/* The observer sees block n at the end of the file. */
#define HAS_END(n)                                                                                                                 \
	{PROBE_OBSERVER, SIZE_HELD, PROBE_SIZE, "grow", .at = n},                                                                  \
		{PROBE_OBSERVER, SEE_HELD, PROBE_APPEND, "grow", .number = n, .at = n},                                            \
		{PROBE_OBSERVER, SIZE, PROBE_SIZE, "grow", .at = n},                                                               \
		{PROBE_OBSERVER, SEE, PROBE_APPEND, "grow", .number = n, .at = n},
#define APPENDED(n) {PROBE_WRITER, WRITE, PROBE_APPEND, "grow", .number = n, .at = n}, HAS_END(n)
static const struct probe_step growth[] = {
	{PROBE_WRITER, CREATE, PROBE_CREATE, "grow"},
	{PROBE_OBSERVER, OPEN, PROBE_CREATE, "grow"},
	HAS_END(0) APPENDED(1) APPENDED(2) APPENDED(3){0},
};

#define OVERWRITTEN(n, place)                                                                                                      \
	{PROBE_OBSERVER, READ, PROBE_OVERWRITE, "place"},                                                                          \
		{PROBE_WRITER, WRITE, PROBE_OVERWRITE, "place", .number = n, .at = place},                                         \
		{PROBE_OBSERVER, SEE_HELD, PROBE_OVERWRITE, "place", .number = n, .at = place},                                    \
		{PROBE_OBSERVER, SEE, PROBE_OVERWRITE, "place", .number = n, .at = place},
static const struct probe_step overwrite[] = {
	{PROBE_WRITER, CREATE, PROBE_CREATE, "place"},
	{PROBE_WRITER, RESERVE, PROBE_CREATE, "place"},
	{PROBE_OBSERVER, OPEN, PROBE_CREATE, "place"},
	OVERWRITTEN(1, 0) OVERWRITTEN(2, 1) OVERWRITTEN(3, 2) OVERWRITTEN(4, 0) OVERWRITTEN(5, 1) OVERWRITTEN(6, 2){0},
};

/* The observer looks for the name. */
#define FIND(what, name, wanted)                                                                                                   \
	{PROBE_OBSERVER, STAT, what, name, wanted},                                                                                \
	{                                                                                                                          \
		PROBE_OBSERVER, OPEN_TOO, what, name, wanted                                                                       \
	}
static const struct probe_step names[] = {
	FIND(PROBE_CREATE, "name", -ENOENT),
	{PROBE_OBSERVER, LISTED, PROBE_LIST, "name", -ENOENT},
	{PROBE_WRITER, CREATE, PROBE_CREATE, "name"},
	{PROBE_WRITER, CLOSE, PROBE_CREATE, "name"},
	FIND(PROBE_CREATE, "name", 0),
	{PROBE_OBSERVER, LISTED, PROBE_LIST, "name"},
	FIND(PROBE_CREATE, "moved", -ENOENT),
	{PROBE_WRITER, RENAME, PROBE_RENAME, "moved", .from = "name"},
	FIND(PROBE_RENAME, "name", -ENOENT),
	FIND(PROBE_RENAME, "moved", 0),
	{PROBE_WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{PROBE_OBSERVER, SEE, PROBE_REPLACE, "moved"},
	{PROBE_WRITER, REPLACE, PROBE_REPLACE, "moved", .number = 1},
	{PROBE_OBSERVER, SEE, PROBE_REPLACE, "moved", .number = 1},
	{PROBE_WRITER, UNLINK, PROBE_UNLINK, "moved"},
	FIND(PROBE_UNLINK, "moved", -ENOENT),
	{PROBE_OBSERVER, LISTED, PROBE_LIST, "moved", -ENOENT},
	{PROBE_OBSERVER, CREATE, PROBE_UNLINK, "moved"},
	{PROBE_WRITER, CREATE_TOO, PROBE_EXCLUSIVE, "moved", -EEXIST},
	{0},
};

static const struct probe_step directory[] = {
	{PROBE_WRITER, MKDIR, PROBE_CREATE, "log"},
	{PROBE_WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{PROBE_OBSERVER, CREATE, PROBE_CREATE, "log/1"},
	{PROBE_OBSERVER, SYNC_DIR, PROBE_SYNC, "log"},
	{PROBE_OBSERVER, STAT_DIR, PROBE_CREATE, "log"},
	{PROBE_WRITER, RENAME, PROBE_RENAME, "dead", .from = "log"},
	{PROBE_WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{PROBE_OBSERVER, CREATE_TOO, PROBE_DIRECTORY, "log/2", -ENOENT},
	FIND(PROBE_DIRECTORY, "log/1", -ENOENT),
	{PROBE_OBSERVER, STAT_DIR, PROBE_DIRECTORY, "log", -ENOENT},
	{PROBE_WRITER, SEE, PROBE_DIRECTORY, "dead/1"},
	{0},
};

static const struct probe_step lock[] = {
	{PROBE_WRITER, CREATE, PROBE_CREATE, "lock"},
	{PROBE_OBSERVER, OPEN_TO_WRITE, PROBE_CREATE, "lock"},
	{PROBE_WRITER, LOCK, PROBE_LOCK, "lock"},
	{PROBE_OBSERVER, LOCK, PROBE_LOCK, "lock", -EWOULDBLOCK},
	{PROBE_WRITER, UNLOCK, PROBE_LOCK, "lock"},
	{PROBE_OBSERVER, LOCK, PROBE_LOCK, "lock"},
	{0},
};

static const struct probe_step mount[] = {
	{PROBE_WRITER, DEVICE, PROBE_MOUNT, ""},
	{PROBE_WRITER, SEE, PROBE_MOUNT, MARKER},
	{0},
};

static const struct probe_step mark[] = {
	{PROBE_WRITER, CREATE, PROBE_CREATE, MARKER},
	{PROBE_WRITER, SYNC_DIR, PROBE_SYNC, ""},
	{0},
};
static const struct probe_step find[] = {{PROBE_OBSERVER, STAT, PROBE_MOUNT, MARKER}, {0}};

#define RACE(n) {PROBE_OBSERVER, CREATE_TOO, PROBE_EXCLUSIVE, "race" #n},
static const struct probe_step race[] = {
	RACE(0) RACE(1) RACE(2) RACE(3) RACE(4) RACE(5) RACE(6) RACE(7) RACE(8) RACE(9) RACE(10) RACE(11) RACE(12) RACE(13) RACE(14)
		RACE(15){0},
};

const struct probe_step *probe_steps(enum probe_try which)
{
	static const struct probe_step *const all[PROBE_TRY_ALL] = {
		[PROBE_TRY_GROWTH] = growth,
		[PROBE_TRY_OVERWRITE] = overwrite,
		[PROBE_TRY_NAMES] = names,
		[PROBE_TRY_DIRECTORY] = directory,
		[PROBE_TRY_LOCK] = lock,
		[PROBE_TRY_MOUNT] = mount,
		[PROBE_TRY_MARK] = mark,
		[PROBE_TRY_FIND] = find,
		[PROBE_TRY_RACE] = race,
	};

	return all[which];
}

unsigned probe_step_count(enum probe_try which)
{
	const struct probe_step *s = probe_steps(which);
	unsigned n = 0;

	while (s[n].name)
		n++;
	return n;
}
