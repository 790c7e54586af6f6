/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of tar, read by libarchive, which reads all formats of tar: ustar, pax,
 * GNU.  libarchive asks for bytes, but a reader is given them.  So libarchive is
 * called in a thread of the reader, and record_reader_feed waits until that thread
 * has used all bytes and asks for more.  One of the two threads runs at a time.
 *
 * libarchive never learns that the input has ended.  An archive is whole when its
 * end mark was read, so one that was cut off between two entries is found.
 *
 * Paths of pax are UTF-8.  The thread has a locale of UTF-8, because in any other
 * locale libarchive takes seconds to convert each long name.  libarchive reports
 * names that are not UTF-8 as errors, but still returns their bytes.
 */
#include "engine/bulk/escape.h"
#include "engine/bulk/reader_internal.h"
#include "engine/bulk/tree_path.h"
#include "engine/base/mutex.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCHEMA_TEXT_MAX = 256 << 10, REASON_BYTES = 300, NAME_SHOWN = 60 };

enum turn { OURS, THREADS, ENDED }; /* which thread runs */

struct tar_reader {
	struct record_reader reader;
	pthread_t thread;
	struct mutex lock; /* guards turn, piece, stop */
	struct cond turned;
	enum turn turn;
	struct tfs_bytes piece; /* lent until the turn is OURS again */
	bool stop;              /* the reader is freed */
	bool fed;
	int err; /* valid when the turn is ENDED */

	/* the locale of the thread */
	uint64_t number;
	struct buf value;
	struct tree_path path;
};

/* ---- the turns ---- */

static void give_turn_locked(struct tar_reader *t, enum turn to)
{
	t->turn = to;
	cond_broadcast(&t->turned);
}

/* Called by libarchive: returns the next piece.  -1 ends the reading. */
static la_ssize_t next_piece(struct archive *a, void *arg, const void **bytes)
{
	struct tar_reader *t = arg;
	struct tfs_bytes piece;
	bool stop;

	mutex_lock(&t->lock);
	give_turn_locked(t, OURS);
	while (t->turn == OURS && !t->stop)
		cond_wait(&t->turned, &t->lock);
	piece = t->piece;
	stop = t->stop;
	mutex_unlock(&t->lock);
	if (stop) {
		archive_set_error(a, EINTR, "stopped");
		return -1;
	}
	*bytes = piece.p;
	return (la_ssize_t)piece.n;
}

/* ---- entries ---- */

/* Names and the messages of libarchive may have any bytes, and are escaped. */
static int refuse_entry(struct tar_reader *t, const char *name, const char *reason)
{
	char text[REASON_BYTES];
	struct buf b = {0};
	int err = *reason ? 0 : -ENOMEM;

	if (!err && name)
		err = text_escape(tfs_bytes_of(name, strnlen(name, NAME_SHOWN)), &b);
	if (!err && name)
		err = buf_append(&b, ": ", 2);
	if (!err)
		err = text_escape(tfs_str(reason), &b);
	if (!err)
		snprintf(text, sizeof(text), "%.*s", (int)b.n, (const char *)b.p);
	buf_fini(&b);
	return err ? err : t->reader.sink.refused(t->reader.sink.arg, t->number, text);
}

/* Nothing after this entry can be read. */
static int refuse_archive(struct tar_reader *t, struct archive *a)
{
	const char *reason = archive_error_string(a);
	int err;

	t->number++;
	err = t->stop ? 0 : refuse_entry(t, NULL, reason ? reason : "not an archive of tar");
	return err ? err : -EBADMSG;
}

/* In microseconds; 0 if it is out of range. */
static int64_t entry_mtime_us(struct archive_entry *e)
{
	int64_t us;

	if (__builtin_mul_overflow((int64_t)archive_entry_mtime(e), 1000000, &us) ||
		__builtin_add_overflow(us, archive_entry_mtime_nsec(e) / 1000, &us))
		return 0;
	return us;
}

/* Reads the content of an entry.  1: it was refused. */
static int read_value(struct tar_reader *t, struct archive *a, struct archive_entry *e, const char *name, struct tfs_bytes *value)
{
	int64_t size = archive_entry_size(e);
	la_ssize_t got = 0;
	int err;

	if (size < 0 || size > TFS_VALUE_MAX) {
		err = refuse_entry(t, name, "the value is longer than 64 MiB");
		return err ? err : 1;
	}
	buf_reset(&t->value);
	if (t->value.cap > 1u << 20)
		buf_fini(&t->value);
	err = buf_reserve(&t->value, (size_t)size + 1);
	if (err)
		return err;
	while (t->value.n < (size_t)size && (got = archive_read_data(a, t->value.p + t->value.n, (size_t)size - t->value.n)) > 0)
		t->value.n += (size_t)got;
	if (t->value.n < (size_t)size) {
		err = refuse_entry(t, name, archive_error_string(a) ? archive_error_string(a) : "the archive ends within it");
		return err ? err : -EBADMSG;
	}
	*value = buf_bytes(&t->value);
	return 0;
}

static int read_cell(struct tar_reader *t, struct archive *a, struct archive_entry *e, const char *name)
{
	const char *reason = tree_path_parse(tfs_str(name), &t->path);
	int64_t mtime_us = entry_mtime_us(e);
	struct record r = {.number = t->number};
	int err;

	if (reason)
		return refuse_entry(t, name, reason);
	err = read_value(t, a, e, name, &r.value);
	if (err)
		return err > 0 ? 0 : err;
	r.row = buf_bytes(&t->path.row);
	r.family = t->path.family;
	r.qualifier = buf_bytes(&t->path.qualifier);
	r.ts = t->path.plain ? mtime_us : t->path.ts;
	r.has_ts = !t->path.plain || mtime_us != 0;
	r.is_file = t->path.plain;
	reason = record_fault(&r);
	return reason ? refuse_entry(t, name, reason) : t->reader.sink.cell(t->reader.sink.arg, &r);
}

static int read_schema(struct tar_reader *t, struct archive *a, struct archive_entry *e, const char *name)
{
	struct tfs_bytes text = {0};
	int err;

	if (archive_entry_size(e) > SCHEMA_TEXT_MAX)
		return refuse_entry(t, name, "a schema is at most 256 KiB");
	err = read_value(t, a, e, name, &text);
	if (err)
		return err > 0 ? 0 : err;
	return t->reader.sink.schema(t->reader.sink.arg, t->number, text, entry_mtime_us(e));
}

/* Returns true for DIRECTORY/.schema: the archive was made outside of the table. */
static bool is_schema_below(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && strcmp(slash, "/.schema") == 0;
}

static int read_entry(struct tar_reader *t, struct archive *a, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e);
	mode_t type = archive_entry_filetype(e);

	t->number++;
	if (!name)
		return refuse_entry(t, NULL, "it has no name");
	while (strncmp(name, "./", 2) == 0)
		for (name += 2; *name == '/'; name++)
			;
	if (type == AE_IFDIR && !archive_entry_hardlink(e))
		return 0;
	if (archive_entry_hardlink(e))
		return refuse_entry(t, name, "a hard link: tar --hard-dereference writes the file in its place");
	if (type == AE_IFLNK)
		return refuse_entry(t, name, "a symbolic link: tar -h writes the file in its place");
	if (type != AE_IFREG)
		return refuse_entry(t, name, "neither a regular file nor a directory");
	if (is_schema_below(name))
		return refuse_entry(t, name, "it has a leading directory: tar -C TABLE -c . has none");
	return strcmp(name, ".schema") == 0 ? read_schema(t, a, e, name) : read_cell(t, a, e, name);
}

static int read_entries(struct tar_reader *t, struct archive *a)
{
	struct archive_entry *e;
	int r, err = 0;

	while (!err) {
		r = archive_read_next_header(a, &e);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN)
			return refuse_archive(t, a);
		err = read_entry(t, a, e);
	}
	return err;
}

static void *thread_main(void *arg)
{
	struct tar_reader *t = arg;
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	struct archive *a;
	int err = -ENOMEM;

	if (utf8)
		uselocale(utf8);
	a = archive_read_new();
	if (a && archive_read_support_format_tar(a) == ARCHIVE_OK) {
		if (archive_read_open(a, t, NULL, next_piece, NULL) == ARCHIVE_OK)
			err = read_entries(t, a);
		else
			err = refuse_archive(t, a);
	}
	if (a)
		archive_read_free(a);
	uselocale(LC_GLOBAL_LOCALE);
	if (utf8)
		freelocale(utf8);
	mutex_lock(&t->lock);
	t->err = err;
	give_turn_locked(t, ENDED);
	mutex_unlock(&t->lock);
	return NULL;
}

/* ---- the reader ---- */

static int tar_init(struct record_reader *r)
{
	struct tar_reader *t = (struct tar_reader *)r;
	int err;

	mutex_init(&t->lock, RANK_BULK);
	cond_init(&t->turned);
	t->turn = THREADS;
	err = -pthread_create(&t->thread, NULL, thread_main, t);
	if (!err)
		return 0;
	cond_fini(&t->turned);
	mutex_fini(&t->lock);
	return err;
}

/* Waits until the thread asks for bytes or has ended.  Returns its error. */
static int wait_for_turn_locked(struct tar_reader *t)
{
	while (t->turn == THREADS)
		cond_wait(&t->turned, &t->lock);
	return t->turn == ENDED ? t->err : 0;
}

static int tar_feed(struct record_reader *r, const uint8_t *p, size_t n)
{
	struct tar_reader *t = (struct tar_reader *)r;
	int err;

	mutex_lock(&t->lock);
	t->fed = true;
	err = wait_for_turn_locked(t);
	if (t->turn == OURS) {
		t->piece = tfs_bytes_of(p, n);
		give_turn_locked(t, THREADS);
		err = wait_for_turn_locked(t);
	}
	mutex_unlock(&t->lock);
	return err;
}

static int tar_end(struct record_reader *r)
{
	struct tar_reader *t = (struct tar_reader *)r;
	bool whole;
	int err;

	mutex_lock(&t->lock);
	err = wait_for_turn_locked(t);
	whole = t->turn == ENDED || !t->fed;
	mutex_unlock(&t->lock);
	if (err || whole)
		return err;
	(void)r->sink.refused(r->sink.arg, t->number + 1, "the archive has no end mark: it is cut off");
	return -EBADMSG;
}

static void tar_fini(struct record_reader *r)
{
	struct tar_reader *t = (struct tar_reader *)r;

	mutex_lock(&t->lock);
	(void)wait_for_turn_locked(t);
	t->stop = true;
	cond_broadcast(&t->turned);
	mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	cond_fini(&t->turned);
	mutex_fini(&t->lock);
	buf_fini(&t->value);
	tree_path_fini(&t->path);
}

const struct record_reader_ops tar_reader_ops = {
	.bytes = sizeof(struct tar_reader), .init = tar_init, .feed = tar_feed, .end = tar_end, .fini = tar_fini};
