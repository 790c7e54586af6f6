/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the damaged log of a dead process.
 *
 * log_replay stops at the first LSN that it cannot read.  Beyond that LSN this
 * file finds every whole record: at each multiple of 8 in every segment it
 * looks for a frame and a body with the right checksums.  Each record is a
 * whole row mutation and holds resulting cells, never operations, so it can be
 * replayed although records before it are lost.  If several segments hold the
 * same LSN, the last segment that begins at or below it counts, as in
 * log_replay.
 *
 * Of a sealed log only the parts that the seal lists are read.  A zombie may have written more
 * records, but no client got an answer for them.  If the seal is lost, all whole records count.
 *
 * The damaged log itself is not changed.  repair_write.c copies the records that
 * tablets still need into the log of this repair.
 */
#include "engine/base/msg.h"
#include "engine/tool/progress.h"
#include "engine/tool/store/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SEGMENT_BYTES_MAX ((size_t)1 << 32)

struct found {
	uint64_t lsn, offset;
	unsigned segment, rank; /* among several records of one LSN the highest rank counts */
	struct log_frame f;
	bool broken; /* the frame is whole, its body is not */
};
struct segment {
	uint64_t number; /* first */
	const char *path;
	struct log_header h;
	bool whole;   /* h is valid, and of this log and number; or the seal lists the segment */
	bool foreign; /* no part of it is read, because h is valid and belongs to another log, or because the seal does not list it */
	uint64_t last_lsn, end; /* the last LSN and the end of a sealed log, or 0 */
};
struct log_scan {
	struct segment *segments;
	unsigned segment_count;
	struct found *v; /* in the order of LSNs; one for each LSN */
	size_t count;
	uint64_t stated; /* the highest LSN that a header or record states as durable */
	uint64_t salt;   /* the salt of the frames' checksums; unknown if no header is valid */
	bool has_salt;
};

struct repair_log *repair_log_get(struct repair *p, uint64_t incarnation)
{
	struct repair_log *g;
	char *why;
	int err;

	for (g = p->logs; g; g = g->next)
		if (g->incarnation == incarnation)
			return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		no_memory();
	g->incarnation = incarnation;
	g->dir = offline_log_dir(&p->store, incarnation);
	err = offline_seal(&p->store, incarnation, &g->seal, &why);
	g->sealed = err > 0;
	g->unsealed = err < 0;
	free(why);
	g->next = p->logs;
	p->logs = g;
	return g;
}

/* ---- records, by their checksums ---- */

static int add_segment(void *arg, const char *name, bool is_dir)
{
	const struct repair_log *g = arg;
	struct log_scan *scan = g->scan;
	uint64_t number;

	if (is_dir || !log_segment_parse(name, &number))
		return 0;
	tool_grow(scan->segments, scan->segment_count);
	scan->segments[scan->segment_count++] = (struct segment){.number = number, .path = text("%s/%s", g->dir, name)};
	return 0;
}

/* Reads the seal in the place of the headers, because a zombie cannot change the seal. */
static void read_seal(const struct repair_log *g, struct segment *s)
{
	const struct log_seal_segment *x = g->seal.segments, *end = x + g->seal.count;

	while (x < end && x->number != s->number)
		x++;
	s->foreign = x == end;
	if (s->foreign)
		return;
	s->whole = true;
	s->h.first_lsn = x->first_lsn;
	s->last_lsn = x->last_lsn;
	s->end = x->end;
}

static int read_header(const struct repair_log *g, struct log_scan *scan, struct segment *s)
{
	uint8_t bytes[LOG_HEADER_BYTES];
	struct file *f = NULL;
	size_t got = 0;
	int err = file_open(s->path, FILE_READ, &f);

	if (!err)
		err = file_pread(f, bytes, sizeof(bytes), 0, &got);
	file_close(f);
	if (err || log_header_decode(tfs_bytes_of(bytes, got), &s->h))
		return err;
	s->foreign = s->h.incarnation != g->incarnation;
	if (s->foreign)
		return 0;
	s->whole = s->h.number == s->number;
	scan->salt = s->h.salt;
	scan->has_salt = true;
	if (s->h.durable_lsn > scan->stated)
		scan->stated = s->h.durable_lsn;
	return 0;
}

/* Returns true if s begins with a frame. *body is set if its body is whole, too. */
static bool frame_decode(const struct log_scan *scan, struct tfs_bytes s, struct log_frame *f, bool *body)
{
	struct log_record rec;
	size_t total;

	if (s.n < LOG_FRAME_BYTES || load_be32(s.p + 4) != LOG_MAGIC)
		return false;
	if (!(scan->has_salt ? log_frame_decode(s, scan->salt, f) : log_frame_decode_unsalted(s, f)))
		return false;
	total = log_frame_total(f);
	*body = f->kind != LOG_DATA ||
		(s.n >= total && log_body_decode(f, tfs_bytes_of(s.p + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES), &rec));
	/* Without the salt a frame alone proves nothing. */
	return scan->has_salt || (f->kind == LOG_DATA && *body);
}

static int scan_segment(struct log_scan *scan, unsigned i)
{
	const struct segment *s = &scan->segments[i];
	struct buf b = {0};
	size_t at = LOG_HEADER_BYTES;
	int err = file_read_all(s->path, SEGMENT_BYTES_MAX, &b);

	if (s->end && b.n > s->end)
		b.n = s->end;
	while (!err && at + LOG_FRAME_BYTES <= b.n) {
		struct found x = {.segment = i, .offset = at};
		bool body;

		if (!frame_decode(scan, tfs_bytes_of(b.p + at, b.n - at), &x.f, &body)) {
			at += 8;
			continue;
		}
		x.lsn = x.f.lsn;
		x.broken = !body;
		x.rank = s->whole && x.lsn >= s->h.first_lsn ? i + 1 : 0;
		if (x.f.durable > scan->stated && !s->end)
			scan->stated = x.f.durable;
		if (s->end && (x.lsn < s->h.first_lsn || x.lsn > s->last_lsn))
			; /* bytes of an earlier segment that had this file */
		else if (x.f.kind == LOG_DATA || x.f.kind == LOG_VOID) {
			tool_grow(scan->v, scan->count);
			scan->v[scan->count++] = x;
		}
		at += body ? log_frame_total(&x.f) : 8;
	}
	buf_fini(&b);
	return err;
}

/* Sorts by LSN; at one LSN a whole record is first, then the record of the later segment. */
static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->lsn != y->lsn)
		return x->lsn > y->lsn ? 1 : -1;
	if (x->broken != y->broken)
		return x->broken ? 1 : -1;
	return (x->rank < y->rank) - (x->rank > y->rank);
}

static void scan_free(struct repair_log *g)
{
	if (g->scan) {
		free(g->scan->segments);
		free(g->scan->v);
	}
	free(g->scan);
	g->scan = NULL;
}

/* Fills g->scan, once.  After an error there is no scan, so the next call reads the log again. */
static int scan_log(struct repair_log *g)
{
	struct log_scan *scan;
	size_t n = 0;
	int err;

	if (g->scan)
		return 0;
	g->scan = scan = calloc(1, sizeof(*scan));
	if (!scan)
		no_memory();
	err = file_list(g->dir, add_segment, g);
	if (err == -ENOENT || err == -ENOTDIR) {
		g->missing = true;
		return 0;
	}
	if (scan->segment_count)
		qsort(scan->segments, scan->segment_count, sizeof(*scan->segments), number_order);
	if (g->sealed) {
		scan->salt = g->seal.salt;
		scan->has_salt = true;
		scan->stated = g->seal.count ? g->seal.segments[g->seal.count - 1].last_lsn : 0;
		if (scan->stated < g->seal.stated)
			scan->stated = g->seal.stated;
	}
	for (unsigned i = 0; i < scan->segment_count && !err; i++) {
		if (g->sealed)
			read_seal(g, &scan->segments[i]);
		else
			err = read_header(g, scan, &scan->segments[i]);
	}
	for (unsigned i = 0; i < scan->segment_count && !err; i++)
		if (!scan->segments[i].foreign)
			err = scan_segment(scan, i);
	if (err) {
		scan_free(g);
		return err;
	}
	if (scan->count)
		qsort(scan->v, scan->count, sizeof(*scan->v), compare_found);
	for (size_t i = 0; i < scan->count; i++)
		if (!n || scan->v[n - 1].lsn != scan->v[i].lsn)
			scan->v[n++] = scan->v[i];
	scan->count = n;
	return 0;
}

/* Reads the record, which borrows from *b. */
static int read_found(const struct log_scan *scan, const struct found *x, struct buf *b, struct log_record *rec)
{
	size_t total = log_frame_total(&x->f), got = 0;
	struct file *f = NULL;
	int err;

	buf_reset(b);
	err = buf_reserve(b, total);
	if (!err)
		err = file_open(scan->segments[x->segment].path, FILE_READ, &f);
	if (!err)
		err = file_pread(f, b->p, total, x->offset, &got);
	file_close(f);
	if (!err && (got != total || !log_body_decode(&x->f, tfs_bytes_of(b->p + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES), rec)))
		err = -EIO;
	return err;
}

/* ---- replay past damage ---- */

/* The records that log_replay could read. */
struct pass {
	log_replay_fn *fn;
	void *arg;
	uint64_t next; /* the LSN after the last record that fn got, or 0 */
	int stopped;   /* the result of fn, if that ended the replay */
};

static int pass_on(void *arg, const struct log_record *r)
{
	struct pass *s = arg;

	s->next = r->lsn + 1;
	return s->stopped = s->fn(s->arg, r);
}

/* Returns the LSN at which the log begins. */
static uint64_t first_lsn(const struct log_scan *scan)
{
	uint64_t lsn = 0;

	for (unsigned i = 0; i < scan->segment_count; i++)
		if (scan->segments[i].whole && (!lsn || scan->segments[i].h.first_lsn < lsn))
			lsn = scan->segments[i].h.first_lsn;
	/* Records just below are of a segment whose header is damaged; others are of removed segments. */
	for (size_t i = scan->count; i-- > 0;)
		if (!lsn || scan->v[i].lsn + 1 == lsn)
			lsn = scan->v[i].lsn;
	return lsn ? lsn : 1;
}

static int repair_replay(struct repair_log *g, uint64_t from, log_replay_fn *fn, void *arg, struct log_end *end, char **why)
{
	struct pass s = {.fn = fn, .arg = arg};
	struct buf b = {0};
	int err = -EBADMSG;

	*why = NULL;
	if (g->unsealed)
		why_set(why, "%s: its seal is missing or damaged", g->dir);
	else if (g->sealed)
		err = log_replay_sealed(g->dir, &g->seal, from, pass_on, &s, end, why);
	else
		err = log_replay(g->dir, from, pass_on, &s, end, why);

	if (s.stopped || (!err && !end->lost) || (err && err != -EBADMSG && err != -ENOENT))
		return err;
	err = scan_log(g);
	if (err) {
		free(*why); /* about the damage, which is not the cause of this error */
		*why = NULL;
		return err;
	}
	if (!s.next)
		s.next = from ? from : first_lsn(g->scan);
	if (!g->damaged || s.next < g->first_missing)
		g->first_missing = s.next;
	g->damaged = true;
	for (size_t i = 0; i < g->scan->count && !err; i++) {
		const struct found *x = &g->scan->v[i];
		struct log_record rec;

		if (x->lsn < s.next || x->broken || x->f.kind != LOG_DATA)
			continue;
		err = read_found(g->scan, x, &b, &rec);
		if (!err)
			err = fn(arg, &rec);
	}
	*end = (struct log_end){.last_lsn = g->scan->count ? g->scan->v[g->scan->count - 1].lsn : 0};
	buf_fini(&b);
	return err;
}

int repair_log_replay(
	void *arg, uint64_t incarnation, uint64_t from, log_replay_fn *fn, void *fn_arg, struct log_end *end, char **why)
{
	return repair_replay(repair_log_get(arg, incarnation), from, fn, fn_arg, end, why);
}

/* ---- examining a log ---- */

static int note_record(void *arg, const struct log_record *r)
{
	struct repair_log *g = arg;
	struct repair_log_table *t = NULL;

	for (unsigned i = 0; i < g->table_count && !t; i++)
		if (g->tables[i].table == r->table)
			t = &g->tables[i];
	if (!t) {
		tool_grow(g->tables, g->table_count);
		t = &g->tables[g->table_count++];
		*t = (struct repair_log_table){.table = r->table, .first_lsn = r->lsn};
	}
	if (r->seq + r->batch.n > t->seq_bound) /* a cell has a byte at least */
		t->seq_bound = r->seq + r->batch.n;
	return 0;
}

/* Prints the lost records.  *meta is set if they may be METADATA's. */
static void print_lost(struct repair *p, const struct repair_log *g, bool *meta)
{
	uint64_t next = g->first_missing, lost = 0, last = g->scan->stated;

	if (g->missing) {
		repair_loss(p, "%s: this log is missing; how many records it had is not known", g->dir);
		*meta = true;
		return;
	}
	for (size_t i = 0; i < g->scan->count; i++) {
		const struct found *x = &g->scan->v[i];

		if (x->lsn < g->first_missing)
			continue;
		lost += x->lsn - next;
		next = x->lsn + 1;
		if (!x->broken)
			continue;
		repair_loss(p, "%s: record %" PRIu64 ", of %s", g->dir, x->lsn, offline_table_name(&p->store, x->f.table));
		*meta |= x->f.table == META_TABLE;
	}
	if (last >= next)
		lost += last - next + 1;
	if (lost) {
		repair_loss(p, "%s: %" PRIu64 " records from %" PRIu64 " on, of tables that are not known", g->dir, lost,
			g->first_missing);
		*meta = true;
	}
}

int repair_log_examine(struct repair *p, struct repair_log *g, bool *lost_meta)
{
	struct log_end end;
	char *why = NULL;
	size_t whole = 0;
	int err;

	*lost_meta = false;
	if (g->examined)
		return 0;
	g->examined = true;
	g->damaged = false;
	progress_add(offline_bytes(g->dir));
	err = repair_replay(g, g->from, note_record, g, &end, &why);
	if (err) {
		complain("%s: %s", why ? why : g->dir, strerror(-err));
	} else if (g->damaged) {
		report_problem(&p->r, "%s", why ? why : g->dir);
		for (size_t i = 0; i < g->scan->count; i++) {
			const struct found *x = &g->scan->v[i];

			whole += x->lsn >= g->first_missing && !x->broken && x->f.kind == LOG_DATA;
		}
		repair_step(p, "%s: replaced by a new log, with the %zu whole records behind the damage at record %" PRIu64, g->dir,
			whole, g->first_missing);
		print_lost(p, g, lost_meta);
	}
	free(why);
	return err;
}

void repair_logs_fini(struct repair *p)
{
	while (p->logs) {
		struct repair_log *g = p->logs;

		p->logs = g->next;
		scan_free(g);
		log_seal_fini(&g->seal);
		free(g->tables);
		free(g);
	}
}
