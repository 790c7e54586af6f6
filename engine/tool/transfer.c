/* SPDX-License-Identifier: Apache-2.0 */
/* What import and export share. */
#include "engine/tool/transfer.h"

#include "engine/base/clock.h"
#include "engine/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TERMINAL_US = 1000000, FILE_US = 60000000 };

/* ---- the table ---- */

static bool exists_in(const char *dir, const char *name)
{
	return access(text("%s/%s", dir, name), F_OK) == 0;
}

static int cannot_open(struct place *p, const char *why)
{
	complain("%s: %s", p->path, why);
	(void)!place_close(p, 0);
	return EXIT_CANNOT;
}

static int open_mounted(struct place *p, bool make)
{
	if (make && mkdir(p->path, 0777) && errno != EEXIST)
		return cannot_open(p, strerror(errno));
	p->dir = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return p->dir < 0 ? cannot_open(p, errno == ENOENT ? "there is no such table" : strerror(errno)) : 0;
}

static int open_stored(struct place *p, const char *datadir, const char *name, bool make)
{
	char *why = NULL;
	int err = tfs_open(datadir, NULL, &p->store, &why);

	if (err) {
		complain("%s", why ? why : strerror(-err));
		free(why);
		return EXIT_CANNOT;
	}
	if (make) {
		err = tfs_table_create(p->store, name, getuid(), getgid(), 0755);
		err = err == -EEXIST ? 0 : err;
	}
	if (!err)
		err = tfs_table_open(p->store, name, &p->table);
	if (err)
		return cannot_open(p,
			err == -ENOENT           ? "there is no such table"
				: err == -EINVAL ? "not the name of a table"
						 : strerror(-err));
	return 0;
}

int place_open(struct place *p, const char *path, bool make)
{
	const char *slash = strrchr(path, '/');
	const char *parent = slash ? slash == path ? "/" : text("%.*s", (int)(slash - path), path) : ".";

	*p = (struct place){.path = path, .dir = -1};
	if (exists_in(path, ".families") || exists_in(parent, ".tabletfs/version"))
		return open_mounted(p, make && !exists_in(path, ".families"));
	if (exists_in(parent, "FORMAT"))
		return open_stored(p, parent, slash ? slash + 1 : path, make);
	complain("%s: neither a table in a mount (MOUNTPOINT/TABLE) nor one in a data directory (DATADIR/TABLE)", path);
	return EXIT_CANNOT;
}

int place_close(struct place *p, int status)
{
	int err = 0;

	if (p->table)
		tfs_table_close(p->table);
	if (p->store)
		err = tfs_close(p->store);
	if (p->dir >= 0)
		close(p->dir);
	p->table = NULL;
	p->store = NULL;
	p->dir = -1;
	if (err)
		complain("%s: the store: an error when it was closed: %s", p->path, strerror(-err));
	return err ? EXIT_CANNOT : status;
}

/* ---- formats ---- */

bool transfer_format(const struct command *c, const char *option, const char *file, enum bulk_format *out)
{
	static const char *const names[] = {[BULK_TSV] = "tsv", [BULK_JSONL] = "jsonl", [BULK_TAR] = "tar"};
	const char *dot = file ? strrchr(file, '.') : NULL, *name = option ? option : dot ? dot + 1 : "";

	for (enum bulk_format f = BULK_TSV; f <= BULK_TAR; f++) {
		if (strcmp(names[f], name) == 0) {
			*out = f;
			return true;
		}
	}
	*out = BULK_TSV;
	if (option)
		(void)bad_usage(c, "--format: tsv, jsonl or tar, not %s", option);
	return !option;
}

/* ---- progress ---- */

void progress_begin(struct progress *p, const char *done)
{
	p->done = done;
	p->began_us = p->shown_us = monotonic_us();
	p->terminal = isatty(STDERR_FILENO);
}

static void print_progress(const struct progress *p, bool at_end)
{
	double seconds = (double)(monotonic_us() - p->began_us + 1) / 1e6, rate = (double)p->bytes / seconds;
	char bytes[UNITS_SIZE_TEXT], each[UNITS_SIZE_TEXT];

	fprintf(stderr, "%s%s %s", p->terminal ? "\r\033[K" : "", p->done, units_size_text(p->bytes, bytes));
	if (p->cells)
		fprintf(stderr, ", %" PRIu64 " cells", p->cells);
	if (p->rows)
		fprintf(stderr, ", %" PRIu64 " rows", p->rows);
	fprintf(stderr, ", %s/s", units_size_text((uint64_t)rate, each));
	if (at_end)
		fprintf(stderr, ", %.1f s", seconds);
	else if (p->total_bytes > p->bytes && rate > 0)
		fprintf(stderr, ", %.0f s left", (double)(p->total_bytes - p->bytes) / rate);
	if (at_end || !p->terminal)
		fputc('\n', stderr);
	fflush(stderr);
}

void progress_show(struct progress *p)
{
	uint64_t now = monotonic_us();

	if (now - p->shown_us < (p->terminal ? TERMINAL_US : FILE_US))
		return;
	p->shown_us = now;
	print_progress(p, false);
}

void progress_end(struct progress *p)
{
	print_progress(p, true);
}

void progress_interrupt(struct progress *p)
{
	if (p->terminal && p->shown_us != p->began_us)
		fputs("\r\033[K", stderr);
}

int transfer_write(int fd, struct slice s)
{
	while (s.n) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			s = slice_of(s.p + n, s.n - (size_t)n);
	}
	return 0;
}
