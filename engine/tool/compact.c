/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl compact: a major compaction of each tablet of a table.
 *
 * On a mount a child process writes the verb into TABLE/.ctl, because the kernel
 * does not end a process whose request the daemon has begun.  So this program can
 * be interrupted; the daemon continues.
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

enum { METRICS_BYTES_MAX = 1 << 26 };

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
	else if (!w->place->store && file_read_all(w->metrics, METRICS_BYTES_MAX, &b) == 0 && buf_u8(&b, 0) == 0)
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

/* Returns 0 or -errno. */
static int compact_mounted(const struct place *p)
{
	int status, err = 0;
	pid_t child = fork();

	if (child < 0)
		return -errno;
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
	return err;
}

static int compact_run(const struct arguments *a)
{
	struct place p = {0};
	struct work w = {.place = &p, .metrics = text("%s/../.tabletfs/metrics", a->operand[0])};
	struct tfs_usage usage;
	int status, err;

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
	if (err)
		complain("%s: %s", p.path, strerror(-err));
	refresh(&w);
	progress_end();
	return place_close(&p, err ? EXIT_CANNOT : 0);
}

const struct command compact_command = {
	.name = "compact",
	.brief = "compact a table",
	.usage = "usage: tabletctl compact TABLE_PATH\n"
		 "\n"
		 "Rewrites the SSTables of a table without deleted and expired cells, and waits\n"
		 "for it.  TABLE_PATH is a table's directory in a mount, or DATADIR/TABLE if the\n"
		 "store is not in use.\n",
	.letters = ":h",
	.options = (const struct option[]){{"help", no_argument, NULL, 'h'}, {0}},
	.least = 1,
	.most = 1,
	.operands = "one TABLE_PATH is",
	.run = compact_run,
};
