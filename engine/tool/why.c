/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl why, and the reasons that all subcommands print: what a mount has refused.
 *
 * A mount has its newest refusals in /.tabletfs/refused, each with the thread that made the
 * call.  A subcommand that a mount refuses finds its own line there, because a system call
 * returns no more than a number.
 */
#include "engine/base/file.h"
#include "engine/base/units.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REFUSED_BYTES_MAX ((size_t)1 << 20)
enum { UP_MOST = 64, SHOWN = 10 }; /* directories above a path that are looked at; lines that `why` prints */
enum { EXIT_NONE = 1 };

enum { TIME_BYTES = 32 };
static char program_began[TIME_BYTES]; /* a line that is older is of another process with the same number */

/* Makes a time as in /.tabletfs/refused. */
static void time_text(time_t seconds, long us, char *out)
{
	char text[24] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		(void)!strftime(text, sizeof(text), "%FT%T", &tm);
	snprintf(out, TIME_BYTES, "%s.%06ldZ", text, us);
}

void refusals_begin(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	time_text(now.tv_sec, now.tv_nsec / 1000, program_began);
}

/* Returns the path of /.tabletfs/refused of the mount that has `path`; NULL: there is none. */
static const char *refused_file(const char *path)
{
	const char *slash, *dir = path;

	while (access(dir, F_OK) && errno == ENOENT) {
		slash = strrchr(dir, '/');
		dir = slash && slash > dir ? text("%.*s", (int)(slash - dir), dir) : slash ? "/" : ".";
	}
	for (unsigned up = 0; up < UP_MOST; up++, dir = text("%s/..", dir)) {
		const char *file = text("%s/.tabletfs/refused", dir);

		if (access(file, R_OK) == 0)
			return file;
	}
	return NULL;
}

const char *refusal(const char *path, pid_t process)
{
	const char *file = refused_file(path), *own = text("\t%d\t", (int)process), *found = NULL, *at;
	const size_t time_n = strlen(program_began);
	struct tfs_bytes rest, line;
	struct buf b = {0};

	if (file && file_read_all(given(file), REFUSED_BYTES_MAX, &b) == 0)
		for (rest = buf_bytes(&b); bytes_line(&rest, &line);) {
			at = memmem(line.p, line.n, own, strlen(own));
			if (at && line.n > time_n && memcmp(line.p, program_began, time_n) >= 0)
				found = text("%.*s", (int)((const char *)line.p + line.n - at - strlen(own)), at + strlen(own));
		}
	buf_fini(&b);
	return found;
}

void complain_refused(const char *path, const char *about, int err)
{
	const char *reason = refusal(path, getpid());

	if (reason)
		complain("%s", reason);
	else if (err == -EACCES)
		complain("%s: %s: its owner, mode and ACL do not let user %u in", about, strerror(-err), (unsigned)geteuid());
	else
		complain("%s: %s", about, strerror(-err));
}

/* ---- why ---- */

/* The columns of /.tabletfs/refused.  `text` is the path and the reason. */
struct refused {
	struct tfs_bytes time, user, text;
};

static bool column(struct tfs_bytes *line, struct tfs_bytes *out)
{
	const uint8_t *tab = line->n ? memchr(line->p, '\t', line->n) : NULL;

	if (!tab)
		return false;
	*out = tfs_bytes_of(line->p, (size_t)(tab - line->p));
	*line = tfs_bytes_of(tab + 1, line->n - out->n - 1);
	return true;
}

/* Sets *count to the number of the refusals from `since` on, in the form of their times. */
static struct refused *refusals_since(struct tfs_bytes file, const char *since, unsigned *count)
{
	struct tfs_bytes line, thread;
	struct refused *v = NULL;

	*count = 0;
	(void)bytes_line(&file, &line); /* the header */
	while (bytes_line(&file, &line)) {
		struct refused r;

		if (!column(&line, &r.time) || !column(&line, &r.user) || !column(&line, &thread) ||
			bytes_cmp(r.time, tfs_str(since)) < 0)
			continue;
		r.text = line;
		tool_grow(v, *count);
		v[(*count)++] = r;
	}
	return v;
}

static void print_refusal(const struct refused *r)
{
	const char *uid = text("%.*s", (int)r->user.n, (const char *)r->user.p);
	const struct passwd *user = getpwuid((uid_t)strtoul(uid, NULL, 10));
	char *line = text("%.*s  %s  %.*s", (int)r->time.n, (const char *)r->time.p, user ? user->pw_name : uid, (int)r->text.n,
		(const char *)r->text.p);

	text_hide_controls(line);
	puts(line);
}

/* Seconds since 1970 with at most six decimals, as $EPOCHREALTIME has them. */
static bool since_text(const char *since, char *out)
{
	uint64_t seconds, us = 0;
	size_t digits;

	if (!units_number(&since, &seconds) || seconds > UINT32_MAX)
		return false;
	if (*since == '.' || *since == ',') {
		digits = strspn(++since, "0123456789");
		for (size_t i = 0; i < 6; i++)
			us = us * 10 + (i < digits ? (uint64_t)(since[i] - '0') : 0);
		since += digits;
	}
	time_text((time_t)seconds, (long)us, out);
	return !*since;
}

static int why_run(const struct arguments *a)
{
	const char *path = a->operands ? a->operand[0] : ".", *file = refused_file(path), *n = a->option['n'],
		   *since = a->option['s'];
	uint64_t most = SHOWN;
	char from[TIME_BYTES] = "";
	struct refused *v;
	struct buf b = {0};
	unsigned count;
	int err;

	if (n && (!units_number(&n, &most) || *n || !most))
		return bad_usage(&why_command, "-n: not a number above 0: %s", a->option['n']);
	if (since && !since_text(since, from))
		return bad_usage(&why_command, "--since: not a number of seconds since 1970: %s", a->option['s']);
	if (!file) {
		complain("%s: not in a mount of tabletfs", path);
		return EXIT_CANNOT;
	}
	err = file_read_all(given(file), REFUSED_BYTES_MAX, &b);
	if (err) {
		complain("%s: %s", file, strerror(-err));
		buf_fini(&b);
		return EXIT_CANNOT;
	}
	v = refusals_since(buf_bytes(&b), from, &count);
	for (unsigned i = count > most ? count - (unsigned)most : 0; i < count; i++)
		print_refusal(&v[i]);
	free(v);
	buf_fini(&b);
	return count ? 0 : EXIT_NONE;
}

static const struct option why_options[] = {{"since", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {0}};
const struct command why_command = {
	.name = "why",
	.kinds = "f",
	.brief = "print what a mount has refused, and why",
	.usage = "usage: tabletctl why [-n N] [--since SECONDS] [PATH]\n"
		 "\n"
		 "Prints the newest calls that the mount has refused, the newest last: time, user,\n"
		 "path and reason.  PATH is in the mount; without it, the working directory is.\n"
		 "Root and the user who mounted see the refusals of all, other users their own.\n"
		 "\n"
		 "  -n N             at most N of them (10)\n"
		 "  --since SECONDS  from this time on, in seconds since 1970\n"
		 "\n"
		 "Exit status: 0; 1 there are none; 2 any error.\n",
	.letters = ":n:h",
	.options = why_options,
	.least = 0,
	.most = 1,
	.run = why_run,
};
