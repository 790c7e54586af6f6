/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl compact, ctl, config and status: the control files of a mount.
 *
 * To compact a mounted table, a child process writes the verb into TABLE/.ctl,
 * because the kernel does not end a process whose request the daemon has begun.  So
 * this program can be interrupted; the daemon continues.
 *
 * The progress is an estimate.  A compaction reads all SSTables of the table, and
 * the store counts the bytes that it reads, for this and for all else.
 */
#include "engine/base/file.h"
#include "engine/tool/progress.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 1 << 26, EXIT_FAILED = 3 };

/* ---- compact ---- */

struct work {
	const struct place *place;
	const char *metrics;  /* the file of a mount */
	uint64_t read_before; /* bytes that the store had read at the start */
};

/* Bytes of SSTables that the store has read; 0 if the user may not read the metrics. */
static uint64_t bytes_read(const struct work *w)
{
	static const char name[] = "\ntabletfs_bytes_read_total ";
	struct buf b = {0};
	char *metrics = NULL;
	const char *line = NULL;
	uint64_t n;

	if (w->place->store && tfs_metrics(w->place->store, &metrics) == 0)
		line = strstr(metrics, name);
	else if (!w->place->store && file_read_all(given(w->metrics), FILE_BYTES_MAX, &b) == 0 && buf_u8(&b, 0) == 0)
		line = strstr((const char *)b.p, name);
	n = line ? strtoull(line + sizeof(name) - 1, NULL, 10) : 0;
	free(metrics);
	buf_fini(&b);
	return n;
}

static void refresh(void *arg)
{
	const struct work *w = arg;
	uint64_t now = bytes_read(w);

	now = now > w->read_before ? now - w->read_before : 0;
	progress_set(now, now);
}

/* Returns 0, or -errno after a message. */
static int compact_mounted(const struct place *p)
{
	const char *file = text("%s/.ctl", p->path), *reason;
	int status, err = 0;
	pid_t child = fork();

	if (child < 0) {
		err = -errno;
		complain("%s: %s", file, strerror(-err));
		return err;
	}
	if (child == 0) {
		int fd = openat(p->dir, ".ctl", O_WRONLY | O_CLOEXEC);

		for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
			close(i);
		_exit(fd < 0 || write(fd, "compact\n", 8) < 0 ? errno : 0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		err = WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
	reason = err ? refusal(p->path, child) : NULL;
	if (reason)
		complain("%s", reason);
	else if (err)
		complain_refused(p->path, file, err);
	return err;
}

static int compact_run(const struct arguments *a)
{
	struct place p = {0};
	struct work w = {.place = &p, .metrics = text("%s/../.tabletfs/metrics", a->operand[0])};
	struct tfs_usage usage;
	int status, err;

	if (snapshot_in(a->operand[0])) {
		complain("%s: a snapshot stays as it was made: compact its table, with which it shares SSTables", a->operand[0]);
		return EXIT_CANNOT;
	}
	progress_begin(&(struct progress_options){.command = "compact",
		.done = "compacted",
		.interrupted = "a mount continues the compaction; in a data directory, the next one begins anew",
		.refresh = refresh,
		.arg = &w});
	status = place_open(&p, a->operand[0], false);
	if (status)
		return status;
	w.read_before = bytes_read(&w);
	if (place_usage(&p, &usage) == 0)
		progress_total(usage.disk_bytes, true);
	err = p.store ? tfs_compact(p.table) : compact_mounted(&p);
	if (err && p.store)
		place_complain(&p, err);
	refresh(&w);
	progress_end();
	return place_close(&p, err ? EXIT_CANNOT : 0);
}

const struct command compact_command = {
	.name = "compact",
	.kinds = "p",
	.brief = "compact a table",
	.usage = "usage: tabletctl compact TABLE_PATH\n"
		 "\n"
		 "Rewrites the SSTables of a table without deleted and expired cells, and waits\n"
		 "for it.  TABLE_PATH is a table's directory in a mount, or DATADIR/TABLE if the\n"
		 "store is not in use.\n",
	.least = 1,
	.most = 1,
	.run = compact_run,
};

/* ---- ctl ---- */

static int print_file(const char *path)
{
	struct buf b = {0};
	int err = file_read_all(given(path), FILE_BYTES_MAX, &b);

	if (!err)
		fwrite(b.p, 1, b.n, stdout);
	buf_fini(&b);
	return err;
}

static int write_line(const char *file, const char *line)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Prints the file, or writes the line into it.  Returns the exit status.  absent: the message if there is no such file. */
static int use_control(const char *path, const char *file, const char *line, const char *absent)
{
	int err = line ? write_line(file, line) : print_file(file);

	if (err == -ENOENT || err == -ENOTDIR)
		complain("%s: %s", path, absent);
	else if (err)
		complain_refused(path, file, err);
	return err ? EXIT_FAILED : 0;
}

static int ctl_run(const struct arguments *a)
{
	const char *path = a->operand[0], *file = text("%s/.tabletfs/ctl", path), *line = NULL;

	if (access(file, F_OK))
		file = text("%s/.ctl", path);
	if (a->operands > 1)
		line = a->operands > 2 ? text("%s %s\n", a->operand[1], a->operand[2]) : text("%s\n", a->operand[1]);
	return use_control(path, file, line, "not a mount, nor a table or a snapshot in one");
}

const struct command ctl_command = {
	.name = "ctl",
	.brief = "carry out a verb on a mount, a table or a snapshot",
	.usage = "usage: tabletctl ctl PATH [VERB [ARGUMENT]]\n"
		 "\n"
		 "Writes the verb into PATH/.tabletfs/ctl of a mount, or into PATH/.ctl of a table\n"
		 "or a snapshot, and waits until it is done.  Without VERB, prints the verbs that\n"
		 "there are.\n"
		 "\n"
		 "Exit status: 0 done, 2 bad usage, 3 refused or any other error.\n",
	.kinds = "pva",
	.one_path = true,
	.least = 1,
	.most = 3,
	.run = ctl_run,
};

/* ---- config ---- */

/* A setting in the syntax of the file: texts have quotes there.  NULL: it is none. */
static const char *setting_of(const char *given)
{
	const char *equals = strchr(given, '='), *value;
	bool plain;

	if (!equals || equals == given)
		return NULL;
	value = equals + 1;
	plain = *value == '"' || strcmp(value, "true") == 0 || strcmp(value, "false") == 0 ||
		(*value && value[strspn(value, "0123456789")] == 0);
	return text(plain ? "%.*s = %s;" : "%.*s = \"%s\";", (int)(equals - given), given, value);
}

static int config_run(const struct arguments *a)
{
	const char *path = a->operand[0], *line = "", *setting;

	for (int i = 1; i < a->operands; i++) {
		setting = setting_of(a->operand[i]);
		if (!setting)
			return bad_usage(&config_command, "%s: not NAME=VALUE", a->operand[i]);
		line = text("%s%s%s", line, setting, i + 1 < a->operands ? " " : "\n");
	}
	return use_control(path, text("%s/.tabletfs/config", path), *line ? line : NULL, "not a mount");
}

const struct command config_command = {
	.name = "config",
	.brief = "print or change the settings of a mount",
	.usage = "usage: tabletctl config MOUNTPOINT [NAME=VALUE...]\n"
		 "\n"
		 "Prints the settings that are in use, which is MOUNTPOINT/.tabletfs/config, or\n"
		 "changes some of them, all or none, until the mount ends; see tabletfs.conf(5).\n"
		 "\n"
		 "Exit status: 0 done, 2 bad usage, 3 refused or any other error.\n",
	.kinds = "fssssssss",
	.one_path = true,
	.least = 1,
	.most = 9,
	.run = config_run,
};

/* ---- status ---- */

/* Prints the last line of the log that is an error or a warning.  The log may name rows, and is readable by its owner only. */
static void print_warning(const struct buf *log)
{
	struct tfs_bytes last = {NULL, 0}, rest = buf_bytes(log), line;

	while (bytes_line(&rest, &line))
		if (memmem(line.p, line.n, " warning: ", 10) || memmem(line.p, line.n, " error: ", 8))
			last = line;
	printf("warning      %.*s\n", (int)(last.n ? last.n : 4), last.n ? (const char *)last.p : "none");
}

/* Prints the status that the process that serves the source returns. */
static int print_status_of(const char *source)
{
	struct tfs_store *s = NULL;
	char *why = NULL, *status = NULL;
	int err = tfs_open(source, NULL, &s, &why);

	if (!err)
		err = tfs_status(s, &status);
	if (err)
		complain("%s", why ? why : text("%s: %s", source, strerror(-err)));
	else
		fputs(status, stdout);
	free(status);
	free(why);
	if (s)
		(void)!tfs_close(s);
	return err ? EXIT_CANNOT : 0;
}

static int status_run(const struct arguments *a)
{
	const char *mountpoint = a->operand[0];
	struct buf log = {0};
	int err;

	if (source_is_served(mountpoint))
		return print_status_of(mountpoint);
	err = print_file(text("%s/.tabletfs/status", mountpoint));

	if (err == -ENOENT || err == -ENOTDIR)
		complain("%s: %s", mountpoint, access(mountpoint, F_OK) ? "no such directory" : "tabletfs is not mounted there");
	else if (err)
		complain("%s: %s", mountpoint, strerror(-err));
	else if (file_read_all(given(text("%s/.tabletfs/log", mountpoint)), FILE_BYTES_MAX, &log) == 0)
		print_warning(&log);
	buf_fini(&log);
	return err ? EXIT_CANNOT : 0;
}

const struct command status_command = {
	.name = "status",
	.kinds = "f",
	.brief = "print the state of a mounted store",
	.usage = "usage: tabletctl status MOUNTPOINT|SOURCE\n"
		 "\n"
		 "Prints the state of the store that is mounted there in ten lines, out of\n"
		 "MOUNTPOINT/.tabletfs/status and log.  The rates are those since the call before,\n"
		 "so `watch tabletctl status MOUNTPOINT' shows the present ones.  Of a SOURCE, such as\n"
		 "tls://HOST:PORT, the server that answers prints its own state.\n"
		 "\n"
		 "Exit status: 0, or 2 when no store is mounted there.\n",
	.least = 1,
	.most = 1,
	.run = status_run,
};
