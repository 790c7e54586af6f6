/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a dead incarnation's log.
 *
 * Segments are taken in order of their numbers.  One without a whole header
 * of its number was never finished and is passed over (a crash may separate
 * the rename of a file used again from its header).  A later segment cuts all
 * earlier ones just below its first LSN (log_format.h), so every LSN is found
 * in one place only: in the last segment that begins at or below it.  Replay
 * from from_lsn therefore begins at the last segment that starts there or
 * lower; whether older ones are missing, or have come back after an unsynced
 * unlink, makes no difference.
 *
 * The log ends where the next LSN is not to be had.  Whether that is the
 * end that a crash left, or damage, is told by what is stated to have been
 * durable: by headers of segments, and by any whole frame found behind the
 * place (looked for at every multiple of 8, since damage hides lengths).
 * Statements are true wherever they stand, in cut parts too.  If one covers
 * a record that is missing, the answer is EBADMSG and not a shorter log.
 * If nothing states it, whole records behind the place are counted: a power
 * cut may leave some of a group that was not synced, but so does damage to
 * records that no mark (log_mark.c) covered yet.
 * Both copies of a header lie in one page.  If that is lost and no other
 * segment has the salt, marks are believed without it, and records by the
 * checksum of their bodies, which has no salt.
 *
 * Reads through a window that grows to the largest record met.
 */
#include "engine/log/log_format.h"

#include "engine/base/file.h"

#include <errno.h>
#include <stdlib.h>

#define WINDOW_BYTES (1u << 20)

struct segment {
	uint64_t number, bytes;
	struct log_header h;
	bool whole;   /* its header is, and is its own */
	uint64_t cut; /* LSNs above belong to later segments */
};

struct replay {
	const char *dir;
	struct segment *seg;
	size_t count, cap;
	uint64_t from, next, stated, salt;
	bool headed; /* the salt is known */
	struct log_end end;
	uint64_t last_lost;
	size_t at; /* segment and offset where reading stopped */
	uint64_t at_offset;
	log_replay_fn *fn;
	void *arg;
	int stopped; /* fn's non-zero answer */
	struct buf why;
	/* the open segment and its window */
	struct file *file;
	size_t open;
	uint8_t *window;
	size_t window_cap, window_bytes;
	uint64_t window_at;
};

static int collect(void *arg, const char *name, bool is_dir)
{
	struct replay *r = arg;
	uint64_t number;

	if (is_dir || !log_segment_parse(name, &number))
		return 0;
	if (r->count == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		struct segment *s = realloc(r->seg, cap * sizeof *s);

		if (!s)
			return -ENOMEM;
		r->seg = s;
		r->cap = cap;
	}
	r->seg[r->count++] = (struct segment){.number = number, .cut = UINT64_MAX};
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = ((const struct segment *)a)->number, y = ((const struct segment *)b)->number;

	return (x > y) - (x < y);
}

static void say(struct replay *r, size_t i, uint64_t offset, const char *what)
{
	char name[32];

	log_segment_name(name, r->seg[i].number);
	buf_reset(&r->why);
	if (buf_printf(&r->why, "%s/%s: offset %llu: %s", r->dir, name, (unsigned long long)offset, what))
		buf_reset(&r->why);
}

static int open_segment(struct replay *r, size_t i)
{
	char name[32], *path;
	int err = -ENOMEM;

	if (r->file && r->open == i)
		return 0;
	file_close(r->file);
	r->file = NULL;
	r->window_bytes = 0;
	log_segment_name(name, r->seg[i].number);
	path = path_join(r->dir, name);
	if (path)
		err = file_open(path, FILE_READ, &r->file);
	free(path);
	if (!err)
		err = file_size(r->file, &r->seg[i].bytes);
	if (err)
		say(r, i, 0, strerror(-err));
	r->open = i;
	return err;
}

/* Up to n bytes of the open segment; *s is shorter at the end of the file only. */
static int get(struct replay *r, uint64_t offset, size_t n, struct slice *s)
{
	uint64_t left = r->seg[r->open].bytes > offset ? r->seg[r->open].bytes - offset : 0;
	size_t want;
	int err;

	if (n > left)
		n = (size_t)left;
	if (offset < r->window_at || offset + n > r->window_at + r->window_bytes) {
		want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
		if (want > left)
			want = (size_t)left;
		if (want > r->window_cap) {
			uint8_t *w = realloc(r->window, want);

			if (!w)
				return -ENOMEM;
			r->window = w;
			r->window_cap = want;
		}
		r->window_at = offset;
		r->window_bytes = 0;
		err = want ? file_pread(r->file, r->window, want, offset, &r->window_bytes) : 0;
		if (err) {
			say(r, r->open, offset, strerror(-err));
			return err;
		}
		if (n > r->window_bytes)
			n = r->window_bytes;
	}
	*s = n ? slice_of(r->window + (offset - r->window_at), n) : slice_of(NULL, 0);
	return 0;
}

static int read_headers(struct replay *r)
{
	const struct log_header *first = NULL;
	struct slice s;
	int err;

	for (size_t i = 0; i < r->count; i++) {
		struct segment *g = &r->seg[i];

		err = open_segment(r, i);
		if (!err)
			err = get(r, 0, LOG_HEADER_BYTES, &s);
		if (err)
			return err;
		err = log_header_decode(s, &g->h);
		if (err == -ENOTSUP) {
			say(r, i, 8, "written by another format version");
			return err;
		}
		if (err)
			continue;
		if (first && (first->salt != g->h.salt || first->incarnation != g->h.incarnation)) {
			say(r, i, 0, "segment of another log");
			return -EBADMSG;
		}
		if (!first)
			first = &g->h;
		g->whole = g->h.number == g->number;
		r->salt = g->h.salt;
		r->headed = true;
		if (g->h.durable_lsn > r->stated)
			r->stated = g->h.durable_lsn;
	}
	uint64_t cut = 0;

	for (size_t i = r->count; i-- > 0;) {
		struct segment *g = &r->seg[i];

		if (cut)
			g->cut = cut - 1;
		if (g->whole && (!cut || g->h.first_lsn < cut))
			cut = g->h.first_lsn;
	}
	return 0;
}

/* One record at the offset.  1: taken, 0: there is none, else an error. */
static int take(struct replay *r, const struct segment *g, uint64_t *offset)
{
	struct log_frame f;
	struct log_record rec;
	struct slice s;
	size_t total;
	int err = get(r, *offset, LOG_FRAME_BYTES, &s);

	if (err)
		return err;
	if (!log_frame_decode(s, r->salt, &f))
		return 0;
	total = log_frame_total(&f);
	if (f.durable > r->stated)
		r->stated = f.durable;
	if (f.kind == LOG_MARK) {
		*offset += total;
		return 1;
	}
	if (f.lsn != r->next || g->bytes - *offset < total)
		return 0;
	if (f.kind == LOG_DATA && f.lsn >= r->from) {
		err = get(r, *offset + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES, &s);
		if (err)
			return err;
		if (!log_body_decode(&f, s, &rec))
			return 0;
		r->stopped = r->fn(r->arg, &rec);
		if (r->stopped)
			return -ECANCELED;
	}
	r->next++;
	*offset += total;
	return 1;
}

/* Looks from the offset on for frames that state a record at or above lsn durable, and counts whole records from lsn on. */
static int search(struct replay *r, size_t i, uint64_t offset, uint64_t lsn)
{
	int err = open_segment(r, i);

	while (!err && r->stated < lsn && offset + LOG_FRAME_BYTES <= r->seg[i].bytes) {
		struct log_record rec;
		struct log_frame f;
		struct slice s;
		bool whole;

		err = get(r, offset, LOG_FRAME_BYTES, &s);
		if (err || !(r->headed ? log_frame_decode(s, r->salt, &f) : log_frame_decode_unsalted(s, &f)) || f.lsn < lsn) {
			offset += 8;
			continue;
		}
		err = get(r, offset + LOG_FRAME_BYTES, log_frame_total(&f) - LOG_FRAME_BYTES, &s);
		whole = !err && log_body_decode(&f, s, &rec);
		if ((r->headed || whole || f.kind == LOG_MARK) && f.durable > r->stated)
			r->stated = f.durable;
		if (whole && f.lsn > r->last_lost) { /* an abandoned segment and the next one both hold it */
			r->end.lost++;
			r->last_lost = f.lsn;
		}
		offset += whole ? log_frame_total(&f) : 8;
	}
	return err;
}

/* The log ends here: rightly? */
static int judge(struct replay *r)
{
	uint64_t lsn = r->next > r->from ? r->next : r->from ? r->from : 1;
	bool last = r->at + 1 >= r->count;
	int err = 0;

	/* Those in front of r->at that are whole have been read, or lie below what was asked for. */
	for (size_t i = 0; !err && r->stated < lsn && i < r->count; i++)
		if (i >= r->at || !r->seg[i].whole)
			err = search(r, i, i == r->at ? r->at_offset : LOG_HEADER_BYTES, lsn);
	if (err || (r->stated < lsn && !r->end.lost))
		return err;
	if (r->seg[r->at].whole)
		say(r, r->at, r->at_offset, "");
	else
		say(r, r->at, 0, "no header of this segment; ");
	if (buf_printf(&r->why, "record %llu is missing (the segment is damaged%s), ", (unsigned long long)lsn,
		    last ? "" : ", or a later one is damaged or missing"))
		buf_reset(&r->why);
	if (r->stated < lsn) {
		if (buf_printf(&r->why, "and %llu whole records behind it are lost", (unsigned long long)r->end.lost))
			buf_reset(&r->why);
		return 0;
	}
	if (buf_printf(&r->why, "but all up to %llu had been synced; put the file back from a backup, or run tabletctl repair",
		    (unsigned long long)r->stated))
		buf_reset(&r->why);
	return -EBADMSG;
}

static int run(struct replay *r)
{
	size_t i, start = r->count;
	int err = 0;

	for (i = 0; i < r->count; i++)
		if (r->seg[i].whole && (r->seg[i].h.first_lsn <= r->from || (r->from == 0 && start == r->count)))
			start = i;
	if (start == r->count) { /* what is asked for has no beginning */
		r->at = 0;
		r->at_offset = LOG_HEADER_BYTES;
		return judge(r);
	}
	r->next = r->seg[start].h.first_lsn;
	for (i = start; i < r->count; i++) {
		const struct segment *g = &r->seg[i];
		uint64_t offset = LOG_HEADER_BYTES;
		int more = 1;

		if (!g->whole || g->h.first_lsn > g->cut)
			continue;
		if (g->h.first_lsn != r->next)
			break;
		err = open_segment(r, i);
		if (err)
			return err;
		while (more == 1 && r->next <= g->cut)
			more = take(r, g, &offset);
		if (more != 1 && more != 0)
			return more;
		r->at = i;
		r->at_offset = offset;
	}
	return judge(r);
}

int log_replay(const char *dir, uint64_t from_lsn, log_replay_fn *fn, void *arg, struct log_end *end, char **why)
{
	struct replay r = {.dir = dir, .from = from_lsn, .fn = fn, .arg = arg};
	int err = file_list(dir, collect, &r);

	if (err && buf_printf(&r.why, "%s: %s", dir, strerror(-err)))
		buf_reset(&r.why);
	if (!err && r.count) {
		qsort(r.seg, r.count, sizeof *r.seg, by_number);
		err = read_headers(&r);
		if (!err)
			err = run(&r);
	}
	if (r.stopped)
		err = r.stopped;
	if (!err) {
		*end = r.end;
		end->last_lsn = r.next ? r.next - 1 : 0;
	}
	if (why)
		*why = r.why.n ? strndup((const char *)r.why.p, r.why.n) : NULL;
	file_close(r.file);
	free(r.window);
	free(r.seg);
	buf_fini(&r.why);
	return err;
}
