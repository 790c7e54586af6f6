/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a dead incarnation's log.
 *
 * Segments are read in the order of their numbers.  A file without a valid header of
 * its number was never finished and is ignored (a crash may separate the rename of a
 * recycled file from its header).  A segment cuts all earlier segments just below
 * its first LSN (log_format.h), so every LSN is in one place only: in the last
 * segment that begins at or below it.  Replay from from_lsn therefore begins at the
 * last segment that starts at or below it.  It does not matter whether older
 * segments are missing, or have reappeared after an unsynced unlink.
 *
 * The log ends where the next LSN is missing.  That is either the end that a
 * crash left, or damage.  Headers of segments and all valid frames after that place
 * state a durable LSN (the frames are searched at every multiple of 8, because
 * damage hides lengths).  Such a statement is true wherever it stands, also in cut
 * parts.  If a statement covers the missing record, the result is -EBADMSG and not a
 * shorter log.  If no statement covers it, valid records after that place are
 * counted as lost: a power cut may leave some of an unsynced group, but so may
 * damage to records that no mark (log_mark.c) covers yet.  Both copies of a header
 * lie in one page.  If that page is lost and no other segment has the salt, marks
 * are accepted without it, and records by the checksum of their bodies, which has no
 * salt.
 *
 * A seal (log_seal.h) is what log_scan finds at one time.  It reads every segment up
 * to its last whole record, or to its cut, and every statement.  A mark is not
 * part of a segment's end, because the next record is written over it.  There
 * may be gaps between the segments.  If the first missing record of a gap was
 * stated durable, the gap is damage or older than every redo point; which of the two
 * depends on the LSN that a replay begins with, so the segments after it count.  If
 * not, the log ends at the gap.  log_replay_sealed uses no header and no statement
 * of the files, only the records that the seal lists.
 *
 * Files are read through a window that grows to the largest record.
 */
#include "engine/log/log_format.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/log/log_seal.h"

#include <stdlib.h>

#define WINDOW_BYTES (1u << 20)

struct segment {
	uint64_t number, bytes; /* `number` first, for the sort */
	struct log_header h;
	uint64_t end; /* nothing from this offset on is read */
	bool whole;   /* it has a valid header of its own number */
	uint64_t cut; /* LSNs above belong to later segments */
};

struct replay {
	const char *dir;
	struct segment *seg;
	size_t count;
	uint64_t from, next, stated, salt;
	bool headed; /* the salt has been read */
	bool scan;   /* set for a seal, during which the files may change */
	struct log_end end;
	uint64_t last_lost;
	size_t at; /* the index of the segment where reading stopped, and the offset in it */
	uint64_t at_offset;
	log_replay_fn *fn;
	void *arg;
	int stopped; /* the non-zero result of fn */
	struct buf why;
	/* the open segment and its window */
	struct file *file;
	size_t open;
	uint8_t *window;
	size_t window_cap, window_bytes;
	uint64_t window_at;
};

static int replay_add_segment(void *arg, const char *name, bool is_dir)
{
	struct replay *r = arg;
	uint64_t number;

	if (is_dir || !log_segment_parse(name, &number))
		return 0;
	if (array_grow(&r->seg, r->count, sizeof(*r->seg)))
		return -ENOMEM;
	r->seg[r->count++] = (struct segment){.number = number, .end = UINT64_MAX, .cut = UINT64_MAX};
	return 0;
}

static void replay_explain(struct replay *r, size_t i, uint64_t offset, const char *what)
{
	char name[32];

	log_segment_name(name, r->seg[i].number);
	buf_reset(&r->why);
	(void)!buf_printf(&r->why, "%s/%s: offset %llu: %s", r->dir, name, (unsigned long long)offset, what);
}

static int replay_open_segment(struct replay *r, size_t i)
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
		replay_explain(r, i, 0, error_text(err));
	else if (r->seg[i].bytes > r->seg[i].end)
		r->seg[i].bytes = r->seg[i].end;
	r->open = i;
	return err;
}

/* Up to n bytes of the open segment; *s is shorter only at the end of the file. */
static int replay_read(struct replay *r, uint64_t offset, size_t n, struct tfs_bytes *s)
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
			replay_explain(r, r->open, offset, error_text(err));
			return err;
		}
		if (n > r->window_bytes)
			n = r->window_bytes;
	}
	*s = n ? tfs_bytes_of(r->window + (offset - r->window_at), n) : tfs_bytes_of(NULL, 0);
	return 0;
}

static int replay_headers(struct replay *r)
{
	const struct log_header *first = NULL;
	struct tfs_bytes s;
	int err;

	for (size_t i = 0; i < r->count; i++) {
		struct segment *g = &r->seg[i];

		err = replay_open_segment(r, i);
		if (!err)
			err = replay_read(r, 0, LOG_HEADER_BYTES, &s);
		if (err == -ENOENT && r->scan)
			continue; /* the zombie has just dropped it */
		if (err)
			return err;
		err = log_header_decode(s, &g->h);
		if (err == -ENOTSUP) {
			replay_explain(r, i, 8, "written by another format version");
			return err;
		}
		if (err)
			continue;
		if (first && (first->salt != g->h.salt || first->incarnation != g->h.incarnation)) {
			replay_explain(r, i, 0, "segment of another log");
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

/* Replays the record at the offset.  Returns 1 if there is one, 0 if not, -errno. */
static int replay_record(struct replay *r, const struct segment *g, uint64_t *offset)
{
	struct log_frame f;
	struct log_record rec;
	struct tfs_bytes s;
	size_t total;
	int err = replay_read(r, *offset, LOG_FRAME_BYTES, &s);

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
		err = replay_read(r, *offset + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES, &s);
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

/*
 * Searches from the offset on for frames of LSNs from lsn on, until one states
 * that `until` is durable.  Counts valid records from lsn on.
 */
static int replay_search(struct replay *r, size_t i, uint64_t offset, uint64_t lsn, uint64_t until)
{
	int err = replay_open_segment(r, i);

	while (!err && r->stated < until && offset + LOG_FRAME_BYTES <= r->seg[i].bytes) {
		struct log_record rec;
		struct log_frame f;
		struct tfs_bytes s;
		bool whole;

		err = replay_read(r, offset, LOG_FRAME_BYTES, &s);
		if (err || !(r->headed ? log_frame_decode(s, r->salt, &f) : log_frame_decode_unsalted(s, &f)) || f.lsn < lsn) {
			offset += 8;
			continue;
		}
		err = replay_read(r, offset + LOG_FRAME_BYTES, log_frame_total(&f) - LOG_FRAME_BYTES, &s);
		whole = !err && log_body_decode(&f, s, &rec);
		if ((r->headed || whole || f.kind == LOG_MARK) && f.durable > r->stated)
			r->stated = f.durable;
		if (whole && f.lsn > r->last_lost) { /* an abandoned segment and the next one both contain it */
			r->end.lost++;
			r->last_lost = f.lsn;
		}
		offset += whole ? log_frame_total(&f) : 8;
	}
	return err;
}

/* The log ends here.  Returns -EBADMSG if records are missing that were durable. */
static int replay_check_end(struct replay *r)
{
	uint64_t lsn = r->next > r->from ? r->next : r->from ? r->from : 1;
	bool last = r->at + 1 >= r->count;
	int err = 0;

	/* Valid segments before r->at have been read, or lie below r->from. */
	for (size_t i = 0; !err && r->stated < lsn && i < r->count; i++)
		if (i >= r->at || !r->seg[i].whole)
			err = replay_search(r, i, i == r->at ? r->at_offset : LOG_HEADER_BYTES, lsn, lsn);
	if (err || (r->stated < lsn && !r->end.lost))
		return err;
	if (r->seg[r->at].whole)
		replay_explain(r, r->at, r->at_offset, "");
	else
		replay_explain(r, r->at, 0, "no header of this segment; ");
	(void)!buf_printf(&r->why, "record %llu is missing (the segment is damaged%s), ", (unsigned long long)lsn,
		last ? "" : ", or a later one is damaged or missing");
	if (r->stated < lsn) {
		(void)!buf_printf(&r->why, "and %llu whole records behind it are lost", (unsigned long long)r->end.lost);
		return 0;
	}
	(void)!buf_printf(&r->why, "but all up to %llu had been synced; put the file back from a backup, or run tabletctl repair",
		(unsigned long long)r->stated);
	return -EBADMSG;
}

static int replay_segments(struct replay *r)
{
	size_t i, start = r->count;
	int err = 0;

	for (i = 0; i < r->count; i++)
		if (r->seg[i].whole && (r->seg[i].h.first_lsn <= r->from || (r->from == 0 && start == r->count)))
			start = i;
	if (start == r->count) { /* no segment contains r->from */
		r->at = 0;
		r->at_offset = LOG_HEADER_BYTES;
		return replay_check_end(r);
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
		err = replay_open_segment(r, i);
		if (err)
			return err;
		while (more == 1 && r->next <= g->cut)
			more = replay_record(r, g, &offset);
		if (more != 1 && more != 0)
			return more;
		r->at = i;
		r->at_offset = offset;
	}
	return replay_check_end(r);
}

/* Lists dir and reads the headers. */
static int replay_begin(struct replay *r)
{
	int err = file_list(r->dir, replay_add_segment, r);

	if (err)
		(void)!buf_printf(&r->why, "%s: %s", r->dir, error_text(err));
	if (!err && r->count) {
		qsort(r->seg, r->count, sizeof *r->seg, number_order);
		err = replay_headers(r);
	}
	return err;
}

static void replay_fini(struct replay *r, char **why)
{
	if (why)
		*why = r->why.n ? strndup((const char *)r->why.p, r->why.n) : NULL;
	file_close(r->file);
	free(r->window);
	free(r->seg);
	buf_fini(&r->why);
}

static int replay_end(struct replay *r, int err, struct log_end *end, char **why)
{
	if (r->stopped)
		err = r->stopped;
	if (!err) {
		*end = r->end;
		end->last_lsn = r->next ? r->next - 1 : 0;
	}
	replay_fini(r, why);
	return err;
}

int log_replay(const char *dir, uint64_t from_lsn, log_replay_fn *fn, void *arg, struct log_end *end, char **why)
{
	struct replay r = {.dir = dir, .from = from_lsn, .fn = fn, .arg = arg};
	int err = replay_begin(&r);

	if (!err && r.count)
		err = replay_segments(&r);
	return replay_end(&r, err, end, why);
}

/* ---- by a seal ---- */

static int sealed_segment(struct replay *r, size_t i, uint64_t last)
{
	uint64_t offset = LOG_HEADER_BYTES;
	int err = replay_open_segment(r, i), more = 1;

	if (err)
		return err == -ENOENT ? -EBADMSG : err;
	while (more == 1 && r->next <= last)
		more = replay_record(r, &r->seg[i], &offset);
	if (more != 1 && more != 0)
		return more;
	if (r->next == last + 1)
		return 0;
	replay_explain(r, i, offset, "");
	(void)!buf_printf(&r->why, "record %llu is damaged, which the log's seal lists", (unsigned long long)r->next);
	return -EBADMSG;
}

int log_seal_range(const struct log_seal *seal, uint64_t from_lsn, const char *dir, size_t *first, size_t *count, char **why)
{
	uint64_t missing = from_lsn ? from_lsn : 1, next;
	size_t start = seal->count, n = 0;

	for (size_t i = 0; i < seal->count; i++)
		if (seal->segments[i].first_lsn <= from_lsn || (from_lsn == 0 && i == 0))
			start = i;
	next = start < seal->count ? seal->segments[start].first_lsn : 0;
	for (; start + n < seal->count && seal->segments[start + n].first_lsn == next; n++)
		next = seal->segments[start + n].last_lsn + 1;
	if (next > missing)
		missing = next;
	if (missing <= seal->stated) {
		why_set(why, "%s: record %llu is missing, but all up to %llu had been synced when the log was sealed", dir,
			(unsigned long long)missing, (unsigned long long)seal->stated);
		return -EBADMSG;
	}
	*first = start;
	*count = n;
	return 0;
}

int log_replay_sealed(const char *dir, const struct log_seal *seal, uint64_t from_lsn, log_replay_fn *fn, void *arg,
	struct log_end *end, char **why)
{
	struct replay r = {.dir = dir, .from = from_lsn, .fn = fn, .arg = arg, .salt = seal->salt, .headed = true};
	char *missing = NULL;
	size_t first = 0;
	int err = log_seal_range(seal, from_lsn, dir, &first, &r.count, &missing);

	r.seg = err ? NULL : calloc(r.count + 1, sizeof *r.seg);
	if (!err && !r.seg)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < r.count; i++) {
		const struct log_seal_segment *g = &seal->segments[first + i];

		r.seg[i] = (struct segment){.number = g->number, .end = g->end, .whole = true};
		r.next = g->first_lsn;
		if (from_lsn > g->last_lsn)
			r.next = g->last_lsn + 1; /* none of its records is needed */
		else
			err = sealed_segment(&r, i, g->last_lsn);
	}
	if (missing)
		(void)!buf_printf(&r.why, "%s", missing);
	free(missing);
	return replay_end(&r, err, end, why);
}

/* ---- making a seal ---- */

static int scan_record(void *arg, const struct log_record *r)
{
	return 0;
}

/* Reads a segment's records up to the last whole one or the cut, and all statements after them. */
static int scan_segment(struct replay *r, size_t i, struct log_seal_segment *out)
{
	struct segment *g = &r->seg[i];
	uint64_t offset = LOG_HEADER_BYTES;
	int err = replay_open_segment(r, i), more = 1;

	*out = (struct log_seal_segment){.number = g->number, .first_lsn = g->whole ? g->h.first_lsn : 1, .end = LOG_HEADER_BYTES};
	r->next = out->first_lsn;
	r->end.lost = r->last_lost = 0;
	while (!err && g->whole && more == 1 && r->next <= g->cut) {
		const uint64_t next = r->next;

		more = replay_record(r, g, &offset);
		if (r->next > next)
			out->end = offset;
		err = more < 0 ? more : 0;
	}
	out->last_lsn = r->next - 1;
	if (!err && r->next <= g->cut)
		err = replay_search(r, i, out->end, r->next, UINT64_MAX);
	return err;
}

/* Leaves out the segments after the end of the log. */
static void scan_end(struct replay *r, struct log_seal *s)
{
	size_t i = 0, kept = 0;

	while (i < s->count) {
		const struct log_seal_segment *g = &s->segments[i];
		const uint64_t next = kept ? s->segments[kept - 1].last_lsn + 1 : g->first_lsn;

		if (g->first_lsn != next && next > s->stated)
			break;
		s->segments[kept++] = s->segments[i++];
	}
	for (; i < s->count; i++)
		s->lost += s->segments[i].last_lsn - s->segments[i].first_lsn + 1;
	s->count = kept;
}

int log_scan(const char *dir, struct log_seal *out, char **why)
{
	struct replay r = {.dir = dir, .from = 1, .fn = scan_record, .scan = true};
	struct log_seal s = {0};
	int err = replay_begin(&r);

	s.segments = calloc(r.count + 1, sizeof *s.segments);
	if (!err && !s.segments)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < r.count; i++) {
		struct segment *g = &r.seg[i];

		if (g->whole && g->h.first_lsn > g->cut)
			continue; /* a later segment has all its records */
		err = scan_segment(&r, i, &s.segments[s.count]);
		if (err == -ENOENT) { /* dropped, so it lies below every redo point */
			err = 0;
			continue;
		}
		if (g->whole)
			s.lost += r.end.lost;
		s.count += s.segments[s.count].last_lsn >= s.segments[s.count].first_lsn;
	}
	s.salt = r.salt;
	s.stated = r.stated;
	if (!err)
		scan_end(&r, &s);
	if (!err) {
		*out = s;
		buf_reset(&r.why); /* the reason comes from a segment that was dropped meanwhile */
	} else {
		log_seal_fini(&s);
	}
	replay_fini(&r, why);
	return err;
}
