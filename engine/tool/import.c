/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl import: the cells of a file into a table.
 *
 * On a data directory the store is opened.  In a mount each valid record is
 * written to TABLE/.import as a line of TSV, also from an input of another
 * format.  That stream ends at the first line that it refuses, and this program
 * may continue (--max-errors).  So it checks the records itself, and whether
 * the family exists.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/units.h"
#include "engine/bulk/import.h"
#include "engine/bulk/line.h"
#include "engine/cell/gc.h"
#include "engine/tool/packed.h"
#include "engine/tool/progress.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_REFUSED = 1, RULE_BYTES_MAX = 4096 };

struct family {
	char name[TFS_NAME_MAX + 1];
	int64_t max_age_us;
};

struct input {
	struct place place;
	const char *name; /* the name of the file, for messages */
	int fd;
	struct unpacker *unpacker; /* NULL: the file is not compressed */
	bool make;                 /* -p */
	bool is_archive;
	uint64_t refused, max_errors;
	bool reported;                      /* a message names the cause of the error */
	bool mount_failed;                  /* a call of the mount has failed */
	const char *reason;                 /* of the library, or NULL */
	uint64_t cells, rows;               /* into a mount */
	uint64_t stored_cells, stored_rows; /* into a mount: those that are on disk */
	int64_t begun_us;
	uint64_t wrong_units; /* cells of record_is_in_wrong_unit */
	struct buf row;       /* the row of the last cell */

	/* into a mount */
	int stream;           /* TABLE/.import, or -1 */
	struct buf lines;     /* lines that are not yet written */
	struct family *known; /* the families that exist, or that the daemon makes */
	unsigned known_count;
};

static void count_cell(struct input *in, struct tfs_bytes row)
{
	bool again = in->rows && bytes_eq(row, buf_bytes(&in->row));

	in->rows += !again;
	progress_cells(++in->cells, in->rows);
	if (!again && buf_set(&in->row, row.p, row.n))
		no_memory();
}

/* A record is refused.  Returns 0 to continue. */
static int refuse_record(void *arg, uint64_t number, int err, const char *reason)
{
	struct input *in = arg;

	complain("%s: %s %" PRIu64 ": %s%s%s", in->name, in->is_archive ? "entry" : "line", number, reason, err ? ": " : "",
		err ? strerror(-err) : "");
	in->reported = true;
	return ++in->refused > in->max_errors ? -ECANCELED : 0;
}

/* ---- into a data directory ---- */

static int make_family(void *arg, const char *name, const char **why)
{
	struct input *in = arg;
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .uid = getuid(), .gid = getgid(), .mode = 0644};
	const struct tfs_schema *s;
	bool exists, may_make;
	int err = tfs_schema_get(in->place.table, &s);

	if (err)
		return err;
	exists = tfs_schema_family(s, name);
	may_make = in->make || s->mkdir_families;
	tfs_schema_put(s);
	if (exists)
		return 0;
	*why = text("the table has no family %s; -p makes it", name);
	if (!may_make)
		return -ENOENT;
	err = tfs_schema_change(in->place.table, &e, NULL);
	*why = err ? text("the family cannot be made: %s", tfs_error(in->place.store)) : NULL;
	return err == -EEXIST ? 0 : err;
}

static int set_schema(void *arg, struct tfs_bytes schema, int64_t mtime_us, const char **why)
{
	const struct input *in = arg;
	char *reason = NULL;
	int err = tfs_schema_set_text(in->place.table, schema, mtime_us, &reason);

	*why = reason ? text("the schema cannot be set: %s", reason) : "the schema cannot be set";
	free(reason);
	return err;
}

/* Reads from the file.  Returns the number of bytes, 0 at its end, -EINTR if a signal came, -EIO after a message. */
static ssize_t read_file(void *arg, void *p, size_t n)
{
	struct input *in = arg;
	ssize_t got;

	if (!progress_wait_input(in->fd))
		return -EINTR;
	got = read(in->fd, p, n);
	if (got < 0) {
		complain("%s: %s", in->name, strerror(errno));
		in->reported = true;
		return -EIO;
	}
	progress_add((uint64_t)got);
	return got;
}

/* The same for a file that may be compressed. */
static ssize_t read_piece(struct input *in, void *p, size_t n)
{
	const char *why = NULL;
	ssize_t got = in->unpacker ? unpacker_read(in->unpacker, p, n, &why) : read_file(in, p, n);

	if (!why)
		return got;
	complain("%s: %s", in->name, why);
	in->reported = true;
	return -EIO;
}

/* Returns 0 at the end of the input, -EINTR if a signal came, -EIO after a message, or the error of feed. */
static int read_input(struct input *in, int (*feed)(void *arg, const void *p, size_t n), void *arg)
{
	uint8_t *piece = malloc(TRANSFER_BYTES);
	ssize_t n = 1;
	int err = 0;

	if (!piece)
		no_memory();
	while (!err && n > 0) {
		n = read_piece(in, piece, TRANSFER_BYTES);
		err = n > 0 ? feed(arg, piece, (size_t)n) : (int)n;
	}
	free(piece);
	return err;
}

struct storing {
	struct input *in;
	struct import *import;
};

static int feed_store(void *arg, const void *p, size_t n)
{
	struct storing *s = arg;
	int err = import_feed(s->import, p, n);
	struct import_counts counts = import_counts(s->import);

	progress_cells(counts.cells, counts.rows);
	return err;
}

static int import_stored(struct input *in, enum bulk_format format)
{
	struct storing s = {.in = in};
	struct import_counts counts;
	int err = import_new(format,
		&(struct import_options){
			.table = in->place.table, .arg = in, .family = make_family, .schema = set_schema, .refused = refuse_record},
		&s.import);
	int ended;

	if (err)
		return err;
	err = read_input(in, feed_store, &s);
	ended = err ? import_stop(s.import) : import_end(s.import);
	if (err || ended)
		in->reason = text("%s", tfs_error(in->place.store));
	counts = import_counts(s.import);
	in->wrong_units = counts.wrong_units;
	progress_cells(counts.cells, counts.rows);
	import_free(s.import);
	return err ? err : ended;
}

/* ---- into a mount ---- */

/* Adds the number of cells that the mount states in its reason. */
static void count_stored(struct input *in, const char *reason)
{
	const char *end = reason ? strstr(reason, IMPORT_STORED) : NULL, *number = end;

	while (number && number > reason && number[-1] >= '0' && number[-1] <= '9')
		number--;
	if (number != end) {
		in->stored_cells += strtoull(number, NULL, 10);
		in->stored_rows = 0; /* unknown */
	}
}

/* Returns err, or -EIO if that has a meaning here. */
static int mount_failed(struct input *in, int err)
{
	const char *path = in->place.path;

	if (err == -ENOENT && faccessat(in->place.dir, ".families", F_OK, 0) == 0)
		complain("%s: a snapshot cannot be changed", path);
	else
		complain_refused(path, text("%s/.import", path), err);
	count_stored(in, refusal(path, getpid()));
	in->reported = in->mount_failed = true;
	return err == -EINTR || err == -ECANCELED || err == -EBADMSG ? -EIO : err;
}

static int write_lines(struct input *in)
{
	int err = transfer_write(in->stream, buf_bytes(&in->lines));

	buf_reset(&in->lines);
	return err ? mount_failed(in, err) : 0;
}

static int open_stream(struct input *in)
{
	in->stream = openat(in->place.dir, ".import", O_WRONLY | O_CLOEXEC);
	return in->stream < 0 ? mount_failed(in, -errno) : 0;
}

/* Ends the stream.  On 0 all written lines are stored and on disk. */
static int close_stream(struct input *in)
{
	int err = in->stream >= 0 && in->lines.n ? write_lines(in) : 0;

	if (in->stream < 0)
		return 0;
	if (!err && fsync(in->stream))
		err = mount_failed(in, -errno);
	if (close(in->stream) && !err)
		err = mount_failed(in, -errno);
	in->stream = -1;
	if (!in->mount_failed) {
		in->stored_cells = in->cells;
		in->stored_rows = in->rows;
	}
	return err;
}

/* Returns NULL if the family exists and can be written, or if the daemon makes it: it does so as long as the schema is not set. */
static const char *make_mounted_family(struct input *in, const char *name)
{
	const char *reason, *refused;
	char path[TFS_NAME_MAX + 16];

	snprintf(path, sizeof(path), ".families/%s", name);
	if (faccessat(in->place.dir, path, W_OK, AT_EACCESS) && errno == EACCES)
		return "the user may not write to this family";
	if (faccessat(in->place.dir, path, F_OK, 0) == 0 || (!in->make && faccessat(in->place.dir, ".schema", F_OK, 0)))
		return NULL;
	if (in->make && (mkdirat(in->place.dir, path, 0777) == 0 || errno == EEXIST))
		return NULL;
	if (!in->make)
		return text("the table has no family %s; -p makes it", name);
	reason = text("%s", strerror(errno));
	refused = refusal(in->place.path, getpid());
	return refused ? refused : reason;
}

/* The age of the family's rule.  0: there is none, or it is not known. */
static int64_t mounted_max_age(const struct input *in, const char *name)
{
	struct buf rule = {0};
	struct gc_rule *gc = NULL;
	int64_t us = 0;

	if (file_read_all(given(text("%s/.families/%s/gc", in->place.path, name)), RULE_BYTES_MAX, &rule) == 0 &&
		buf_u8(&rule, 0) == 0 && gc_parse((const char *)rule.p, &gc, NULL) == 0)
		us = gc_max_age(gc);
	gc_free(gc);
	buf_fini(&rule);
	return us;
}

/* Returns NULL if the record's family is known.  *out is the family. */
static const char *find_family(struct input *in, const struct record *r, const struct family **out)
{
	struct family f = {0};
	const char *reason;

	for (unsigned i = 0; i < in->known_count; i++) {
		*out = &in->known[i];
		if (bytes_eq(r->family, tfs_str(in->known[i].name)))
			return NULL;
	}
	memcpy(f.name, r->family.p, r->family.n);
	reason = make_mounted_family(in, f.name);
	if (reason)
		return reason;
	f.max_age_us = mounted_max_age(in, f.name);
	tool_grow(in->known, in->known_count);
	in->known[in->known_count] = f;
	*out = &in->known[in->known_count++];
	return NULL;
}

static int put_cell(void *arg, const struct record *r)
{
	struct input *in = arg;
	const struct family *f;
	const char *reason = find_family(in, r, &f);

	if (reason)
		return refuse_record(in, r->number, 0, reason);
	if (line_append_record(r, &in->lines))
		no_memory();
	in->wrong_units += record_is_in_wrong_unit(r, f->max_age_us, in->begun_us);
	count_cell(in, r->row);
	return in->lines.n >= TRANSFER_BYTES ? write_lines(in) : 0;
}

static int put_schema(void *arg, uint64_t number, struct tfs_bytes schema, int64_t mtime_us)
{
	struct input *in = arg;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
	int err = close_stream(in), fd;

	if (err)
		return err;
	fd = openat(in->place.dir, ".schema", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	err = fd < 0 ? -errno : transfer_write(fd, schema);
	times[1].tv_sec = mtime_us / 1000000 - (mtime_us % 1000000 < 0);
	times[1].tv_nsec = (mtime_us % 1000000 + (mtime_us % 1000000 < 0 ? 1000000 : 0)) * 1000;
	if (!err)
		(void)!futimens(fd, times);
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	in->known_count = 0;
	if (err) {
		const char *reason = refusal(in->place.path, getpid());

		err = refuse_record(in, number, reason ? 0 : err, reason ? reason : "the schema cannot be set");
		if (err)
			return err;
	}
	return open_stream(in);
}

static int take_refused(void *arg, uint64_t number, const char *reason)
{
	return refuse_record(arg, number, 0, reason);
}

static int feed_reader(void *arg, const void *p, size_t n)
{
	return record_reader_feed(arg, p, n);
}

static int import_mounted(struct input *in, enum bulk_format format)
{
	struct record_reader *reader;
	int err = record_reader_new(format, &(struct record_sink){in, put_cell, put_schema, take_refused}, &reader), closed;

	if (err)
		return err;
	err = open_stream(in);
	if (!err)
		err = read_input(in, feed_reader, reader);
	if (!err)
		err = record_reader_end(reader);
	record_reader_free(reader);
	closed = close_stream(in);
	err = err ? err : closed;
	if (err)
		progress_cells(in->stored_cells, in->stored_rows);
	buf_fini(&in->lines);
	free(in->known);
	return err;
}

/* ---- the command ---- */

/* Returns true if the table takes nothing now, or nothing from this user. */
static bool is_refusal(int err)
{
	return err == -EDQUOT || err == -EROFS || err == -EACCES || err == -EPERM;
}

static int import_file(struct input *in, enum bulk_format format)
{
	struct stat st;
	int err;

	in->is_archive = format == BULK_TAR;
	in->begun_us = clock_system(NULL);
	if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode))
		progress_total((uint64_t)st.st_size, false);
	err = in->place.store ? import_stored(in, format) : import_mounted(in, format);
	buf_fini(&in->row);
	if (err == -EINTR)
		complain("import: interrupted: the cells that were read are stored; the import can be run again from its start");
	else if (err && err != -ECANCELED && !in->reported)
		complain("%s: %s", in->place.path, in->reason && *in->reason ? in->reason : strerror(-err));
	if (in->wrong_units)
		complain("warning: %s: " RECORDS_IN_WRONG_UNIT, in->name, (unsigned long long)in->wrong_units);
	if (err && err != -EINTR)
		progress_failed();
	progress_end();
	if (err == -EINTR)
		return 128 + progress_signal();
	if (is_refusal(err))
		return EXIT_REFUSED;
	return err && err != -ECANCELED && err != -EBADMSG ? EXIT_CANNOT : in->refused ? EXIT_REFUSED : err ? EXIT_CANNOT : 0;
}

static int import_run(const struct arguments *a)
{
	const char *file = a->operands > 1 && strcmp(a->operand[1], "-") != 0 ? a->operand[1] : NULL, *most = a->option['m'];
	struct input in = {.name = file ? file : "standard input", .make = a->option['p'], .stream = -1};
	enum bulk_format format;
	enum packing packing;
	int status;

	if (!transfer_format(&import_command, a->option['f'], file, &format, &packing))
		return EXIT_CANNOT;
	if (most && (!units_number(&most, &in.max_errors) || *most))
		return bad_usage(&import_command, "--max-errors: not a number: %s", a->option['m']);
	if (file)
		in.fd = open(file, O_RDONLY | O_CLOEXEC);
	if (in.fd < 0) {
		complain("%s: %s", file, strerror(errno));
		return EXIT_CANNOT;
	}
	if (packing != PACKED_NOT && unpacker_new(packing, read_file, &in, &in.unpacker))
		no_memory();
	progress_begin(&(struct progress_options){.command = "import", .done = "imported", .polls = true, .summary = true});
	status = place_open(&in.place, a->operand[0], in.make);
	if (!status)
		status = place_close(&in.place, import_file(&in, format));
	unpacker_free(in.unpacker);
	if (file)
		close(in.fd);
	return status;
}

const struct command import_command = {
	.name = "import",
	.kinds = "pf",
	.brief = "store the cells of a file in a table",
	.usage = "usage: tabletctl import [-p] [--format FORMAT] [--max-errors N] TABLE_PATH [FILE]\n"
		 "\n"
		 "Stores the cells of FILE, or of standard input, which is in one of the formats\n"
		 "of tabletfs-formats(5).  TABLE_PATH is a table's directory in a mount, or\n"
		 "SOURCE/TABLE.\n"
		 "\n"
		 "  -p               make DATADIR, the table and its families if they are missing\n" TRANSFER_USAGE
		 "  --max-errors N   end after more than N refused lines or entries (0)\n",
	.letters = ":hp",
	.options = (const struct option[]){TRANSFER_OPTIONS, {"max-errors", required_argument, NULL, 'm'}, {0}},
	.least = 1,
	.most = 2,
	.run = import_run,
};
