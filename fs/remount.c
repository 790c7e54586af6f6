/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount -o remount,OPTIONS.  mount(8) finds the helper mount.fuse3, which starts this program
 * with all options that the mount has or that fstab gives it, `remount', and the new ones.
 * The running daemon is not asked: the kernel changes its own flags of the mount, and no
 * daemon is told of that.
 *
 * So the flags of the kernel can change.  Other options are accepted if they change
 * nothing: if the mount table has them, or the command line of the daemon.  Each other one
 * is refused in one line, and nothing is changed.  A mount that began with `ro' is not made
 * writable, because its daemon answers no writes.
 */
#include "fs/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

/* Flags of the kernel. */
static const struct flag {
	const char *name;
	unsigned long set, clear;
} flags[] = {
	{"ro", MS_RDONLY, 0},
	{"rw", 0, MS_RDONLY},
	{"noatime", MS_NOATIME, MS_RELATIME | MS_STRICTATIME},
	{"atime", 0, MS_NOATIME},
	{"nodiratime", MS_NODIRATIME, 0},
	{"diratime", 0, MS_NODIRATIME},
	{"relatime", MS_RELATIME, MS_NOATIME | MS_STRICTATIME},
	{"strictatime", MS_STRICTATIME, MS_NOATIME | MS_RELATIME},
	{"noexec", MS_NOEXEC, 0},
	{"exec", 0, MS_NOEXEC},
	{"nosuid", MS_NOSUID, 0},
	{"suid", 0, MS_NOSUID},
	{"nodev", MS_NODEV, 0},
	{"dev", 0, MS_NODEV},
};
enum { FLAGS = sizeof(flags) / sizeof(*flags) };

/* Options for mount(8) and systemd, which mean nothing here. */
static bool is_for_others(const char *option)
{
	static const char *const names[] = {
		"remount", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "_netdev", "nofail"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(option, names[i]) == 0)
			return true;
	return strncmp(option, "x-", 2) == 0 || strncmp(option, "X-", 2) == 0 || strncmp(option, "comment=", 8) == 0 ||
		strncmp(option, "fsname=", 7) == 0 || strncmp(option, "subtype=", 8) == 0;
}

/* Returns true if the list, separated by commas, has the option. */
static bool list_has(const char *list, const char *option)
{
	const size_t n = strlen(option);

	for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, option, n) == 0 && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

/* Appends an argument that has options: "OPTIONS", "-oOPTIONS". */
static void list_add(char *list, size_t room, const char *options)
{
	const size_t n = strlen(list);

	snprintf(list + n, room - n, "%s%s", n ? "," : "", options);
}

/* Reads options and operands of a command line.  next returns NULL at the end. */
static void read_arguments(const char *(*next)(void *arg), void *arg, char *options, size_t room, const char *operands[2])
{
	const char *a;
	unsigned n = 0;

	while ((a = next(arg))) {
		if (strcmp(a, "-o") == 0) {
			if ((a = next(arg)))
				list_add(options, room, a);
		} else if (strncmp(a, "-o", 2) == 0) {
			list_add(options, room, a + 2);
		} else if (*a != '-' && n < 2) {
			operands[n++] = a;
		}
	}
}

/* ---- the running daemon ---- */

struct text {
	const char *at, *end;
};

static const char *next_of_text(void *arg)
{
	struct text *t = arg;
	const char *s = t->at;

	if (s >= t->end)
		return NULL;
	t->at += strlen(s) + 1;
	return s;
}

/* Appends the options of the process to `options' if it is the daemon of the mount. */
static void read_process(const char *pid, const char *mountpoint, char *options, size_t room)
{
	char path[300], text[16384], own[8192] = "", real[PATH_MAX];
	const char *operands[2] = {NULL}, *slash;
	struct text t = {text, text};
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	t.end = text + fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[t.end - text] = 0;
	if (!next_of_text(&t))
		return;
	slash = strrchr(text, '/');
	if (strcmp(slash ? slash + 1 : text, "tabletfs") != 0)
		return;
	read_arguments(next_of_text, &t, own, sizeof(own), operands);
	/* realpath would ask a mount; the daemon's argument has been a directory that was none. */
	snprintf(real, sizeof(real), "%s", operands[1] ? operands[1] : "");
	for (size_t n = strlen(real); n > 1 && real[n - 1] == '/'; n--)
		real[n - 1] = 0;
	if (strcmp(real, mountpoint) == 0 && !list_has(own, "remount"))
		list_add(options, room, own);
}

static void read_daemon(const char *mountpoint, char *options, size_t room)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	*options = 0;
	while (d && (e = readdir(d)))
		if (*e->d_name >= '1' && *e->d_name <= '9')
			read_process(e->d_name, mountpoint, options, room);
	if (d)
		closedir(d);
}

/* ---- the change ---- */

static void __attribute__((format(printf, 2, 3))) say(char **why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(why, fmt, ap) < 0)
		*why = NULL;
	va_end(ap);
}

/* Sets *to to the flags that the options ask for.  Returns 1 after a line about an option that cannot change. */
static int flags_of(char *options, const char *mountpoint, const char *table, const char *daemon, unsigned long *to, char **why)
{
	char *save = NULL;

	for (char *o = strtok_r(options, ",", &save); o; o = strtok_r(NULL, ",", &save)) {
		unsigned i = 0;

		while (i < FLAGS && strcmp(flags[i].name, o) != 0)
			i++;
		if (i < FLAGS) {
			*to = (*to & ~flags[i].clear) | flags[i].set;
		} else if (!is_for_others(o) && !list_has(table, o) && !list_has(daemon, o)) {
			say(why,
				"tabletfs: remount: %s cannot change while %s is mounted: only ro, rw, atime, noatime, diratime, nodiratime, "
				"relatime, strictatime, exec, noexec, suid, nosuid, dev and nodev can; settings can through %s/.tabletfs/config",
				o, mountpoint, mountpoint);
			return 1;
		}
	}
	if (*to & MS_RDONLY || !list_has(daemon, "ro"))
		return 0;
	say(why, "tabletfs: remount: %s began with ro, and becomes rw only when it is unmounted and mounted again", mountpoint);
	return 1;
}

static int change(const char *mountpoint, char *options, char **why)
{
	char table[4096], daemon[8192];
	unsigned long to = 0;

	if (!mountpoint_is_ours(mountpoint, table, sizeof(table))) {
		say(why, "tabletfs: remount: %s is not a mount of tabletfs", mountpoint);
		return 1;
	}
	read_daemon(mountpoint, daemon, sizeof(daemon));
	for (unsigned i = 0; i < FLAGS; i++)
		if (flags[i].set && list_has(table, flags[i].name))
			to |= flags[i].set;
	if (flags_of(options, mountpoint, table, daemon, &to, why))
		return 1;
	if (mount(NULL, mountpoint, NULL, MS_REMOUNT | to, NULL) == 0)
		return 0;
	say(why, "tabletfs: remount: %s: %s%s", mountpoint, strerror(errno),
		errno == EPERM           ? "; only root can change the options of a mount"
			: errno == EBUSY ? "; a file is open for writing"
					 : "");
	return 1;
}

struct vector {
	char **v;
	int n, at;
};

static const char *next_of_vector(void *arg)
{
	struct vector *a = arg;

	return a->at < a->n ? a->v[a->at++] : NULL;
}

bool remount_asked(int argc, char **argv, int *status, char **why)
{
	struct vector a = {argv, argc, 1};
	const char *operands[2] = {NULL};
	char options[8192] = "", real[PATH_MAX];

	read_arguments(next_of_vector, &a, options, sizeof(options), operands);
	if (!list_has(options, "remount"))
		return false;
	*status = 1;
	*why = NULL;
	if (!operands[1])
		say(why, "usage: tabletfs SOURCE MOUNTPOINT -o remount,OPTIONS");
	else if (!realpath(operands[1], real))
		say(why, "tabletfs: remount: %s: %s", operands[1], strerror(errno));
	else
		*status = change(real, options, why);
	return true;
}
