/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dead log with damage in it.
 *
 * Replay ends at the first LSN that cannot be read.  Behind it every whole
 * record is looked for: at each multiple of 8 of every segment, by the
 * checksums of frame and body.  A record is a whole row mutation and holds
 * resulting cells, never operations, so it may be replayed although records
 * before it are lost.  Where several segments hold an LSN, the last segment
 * that begins at or below it counts, as in replay.
 *
 * The repaired log is the old one and one more segment, numbered above all:
 * it begins at the first LSN that is missing and so cuts every segment before
 * it there.  It holds the records found, and a void record for each LSN that
 * is lost.  Durable steps: 1 the log's old segments get a second name in
 * DATADIR/repair-NNNN (repair_keep), 2 the new segment is written under
 * another name and synced, 3 it is renamed, 4 the directory is synced.  A
 * crash before 3 leaves the damaged log, after it the repaired one.
 */
#include "engine/client/salt.h"
#include "engine/cell/batch_format.h"
#include "engine/tool/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SEGMENT_BYTES_MAX ((size_t)1 << 32)
#define VOIDS_MAX (1u << 24) /* lost records; more is no gap, but a wrong number */

struct found {
	uint64_t lsn, offset;
	unsigned segment, rank;
	struct log_frame f;
	bool broken; /* the frame is whole, its body is not */
};
struct segment {
	uint64_t number;
	char *path;
	struct log_header h;
	bool headed, whole, foreign;
};
struct repair_log {
	struct repair_log *next;
	uint64_t incarnation, from;
	char *dir;
	bool read_to_end; /* `tables` is complete from `from` on */
	bool damaged, missing;
	uint64_t first; /* the first LSN that replay does not reach */
	bool scanned;
	struct segment *seg;
	unsigned seg_count;
	struct found *v; /* by LSN */
	size_t count, cap;
	uint64_t salt, stated;
	bool headed;
	struct repair_log_table *tables;
	unsigned table_count;
};

static struct repair_log *log_of(struct repair *p, uint64_t incarnation)
{
	struct repair_log *g;

	for (g = p->logs; g; g = g->next)
		if (g->incarnation == incarnation)
			return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->incarnation = incarnation;
	g->dir = offline_log_dir(&p->store, incarnation);
	if (!g->dir) {
		free(g);
		return NULL;
	}
	g->next = p->logs;
	p->logs = g;
	return g;
}

/* ---- looking for records ---- */

static int add_segment(void *arg, const char *name, bool is_dir)
{
	struct repair_log *g = arg;
	struct segment *v;
	uint64_t number;

	if (is_dir || !log_segment_parse(name, &number))
		return 0;
	v = realloc(g->seg, (g->seg_count + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	g->seg = v;
	v[g->seg_count] = (struct segment){.number = number, .path = path_join(g->dir, name)};
	return v[g->seg_count].path ? (g->seg_count++, 0) : -ENOMEM;
}

static int by_number(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static int read_header(struct repair_log *g, struct segment *s)
{
	struct buf b = {0};
	struct file *f = NULL;
	size_t got = 0;
	int err = buf_reserve(&b, LOG_HEADER_BYTES);

	if (!err)
		err = file_open(s->path, FILE_READ, &f);
	if (!err)
		err = file_pread(f, b.p, LOG_HEADER_BYTES, 0, &got);
	file_close(f);
	s->headed = !err && log_header_decode(slice_of(b.p, got), &s->h) == 0;
	buf_fini(&b);
	s->foreign = s->headed && s->h.incarnation != g->incarnation;
	s->whole = s->headed && !s->foreign && s->h.number == s->number;
	if (s->headed && !s->foreign) {
		g->salt = s->h.salt;
		g->headed = true;
		if (s->h.durable_lsn > g->stated)
			g->stated = s->h.durable_lsn;
	}
	return err;
}

static int add_found(struct repair_log *g, const struct found *f)
{
	if (g->count == g->cap) {
		size_t cap = g->cap ? g->cap * 2 : 64;
		struct found *v = realloc(g->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		g->v = v;
		g->cap = cap;
	}
	g->v[g->count++] = *f;
	return 0;
}

/* The frame at `at`, with its body if it is whole. */
static bool frame_at(const struct repair_log *g, struct slice s, struct log_frame *f, bool *body)
{
	struct log_record rec;
	size_t total;

	if (s.n < LOG_FRAME_BYTES || load_be32(s.p + 4) != LOG_MAGIC)
		return false;
	if (!(g->headed ? log_frame_decode(s, g->salt, f) : log_frame_decode_unsalted(s, f)))
		return false;
	total = log_frame_total(f);
	*body = f->kind != LOG_DATA ||
		(s.n >= total && log_body_decode(f, slice_of(s.p + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES), &rec));
	/* Without the salt a frame alone proves nothing. */
	return g->headed || (f->kind == LOG_DATA && *body);
}

static int scan_segment(struct repair_log *g, unsigned i)
{
	const struct segment *s = &g->seg[i];
	struct buf b = {0};
	size_t at = LOG_HEADER_BYTES;
	int err = file_read_all(s->path, SEGMENT_BYTES_MAX, &b);

	while (!err && at + LOG_FRAME_BYTES <= b.n) {
		struct found x = {.segment = i, .offset = at};
		bool body;

		if (!frame_at(g, slice_of(b.p + at, b.n - at), &x.f, &body)) {
			at += 8;
			continue;
		}
		x.lsn = x.f.lsn;
		x.broken = !body;
		x.rank = s->whole && x.lsn >= s->h.first_lsn ? i + 1 : 0;
		if (x.f.durable > g->stated)
			g->stated = x.f.durable;
		if (x.f.kind == LOG_DATA || x.f.kind == LOG_VOID)
			err = add_found(g, &x);
		at += body ? log_frame_total(&x.f) : 8;
	}
	buf_fini(&b);
	return err;
}

static int by_lsn(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->lsn != y->lsn)
		return x->lsn > y->lsn ? 1 : -1;
	if (x->broken != y->broken)
		return x->broken ? 1 : -1;
	return (x->rank < y->rank) - (x->rank > y->rank);
}

static int scan(struct repair_log *g)
{
	size_t n = 0;
	int err;

	if (g->scanned)
		return 0;
	g->scanned = true;
	err = file_list(g->dir, add_segment, g);
	if (err == -ENOENT || err == -ENOTDIR) {
		g->missing = true;
		return 0;
	}
	if (g->seg_count)
		qsort(g->seg, g->seg_count, sizeof(*g->seg), by_number);
	for (unsigned i = 0; i < g->seg_count && !err; i++)
		err = read_header(g, &g->seg[i]);
	for (unsigned i = 0; i < g->seg_count && !err; i++)
		if (!g->seg[i].foreign)
			err = scan_segment(g, i);
	if (g->count)
		qsort(g->v, g->count, sizeof(*g->v), by_lsn);
	for (size_t i = 0; i < g->count; i++)
		if (!n || g->v[n - 1].lsn != g->v[i].lsn)
			g->v[n++] = g->v[i];
	g->count = n;
	return err;
}

/* The body of a record found, in *b. */
static int read_found(const struct repair_log *g, const struct found *x, struct buf *b, struct slice *body)
{
	size_t total = log_frame_total(&x->f), got = 0;
	struct file *f = NULL;
	int err;

	buf_reset(b);
	err = buf_reserve(b, total);
	if (!err)
		err = file_open(g->seg[x->segment].path, FILE_READ, &f);
	if (!err)
		err = file_pread(f, b->p, total, x->offset, &got);
	file_close(f);
	if (!err && got != total)
		err = -EIO;
	*body = slice_of(b->p + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES);
	return err;
}

/* ---- replay past damage ---- */

struct pass {
	log_replay_fn *fn;
	void *arg;
	uint64_t next; /* behind the last record handed out */
	int stopped;
};

static int pass_on(void *arg, const struct log_record *r)
{
	struct pass *s = arg;

	s->next = r->lsn + 1;
	return s->stopped = s->fn(s->arg, r);
}

/* Where the log begins if nothing says from where it is needed. */
static uint64_t beginning(const struct repair_log *g)
{
	uint64_t lsn = 0;

	for (unsigned i = 0; i < g->seg_count; i++)
		if (g->seg[i].whole && (!lsn || g->seg[i].h.first_lsn < lsn))
			lsn = g->seg[i].h.first_lsn;
	/* A segment in front of it whose header is damaged holds the records just below; one that was dropped does not. */
	for (size_t i = g->count; i-- > 0;)
		if (!lsn || g->v[i].lsn + 1 == lsn)
			lsn = g->v[i].lsn;
	return lsn ? lsn : 1;
}

static int replay(struct repair_log *g, uint64_t from, log_replay_fn *fn, void *arg, struct log_end *end, char **why)
{
	struct pass s = {.fn = fn, .arg = arg};
	struct buf b = {0};
	int err = log_replay(g->dir, from, pass_on, &s, end, why);

	if (s.stopped || (!err && !end->lost) || (err && err != -EBADMSG && err != -ENOENT))
		return err;
	err = scan(g);
	if (err)
		return err;
	if (!s.next)
		s.next = from ? from : beginning(g);
	if (!g->damaged || s.next < g->first)
		g->first = s.next;
	g->damaged = true;
	for (size_t i = 0; i < g->count && !err; i++) {
		struct log_record rec;
		struct slice body;

		if (g->v[i].lsn < s.next || g->v[i].broken || g->v[i].f.kind != LOG_DATA)
			continue;
		err = read_found(g, &g->v[i], &b, &body);
		if (!err && !log_body_decode(&g->v[i].f, body, &rec))
			err = -EIO;
		if (!err)
			err = fn(arg, &rec);
	}
	*end = (struct log_end){.last_lsn = g->count ? g->v[g->count - 1].lsn : 0};
	buf_fini(&b);
	return err;
}

int repair_log_replay(void *arg, const char *dir, uint64_t from, log_replay_fn *fn, void *fn_arg, struct log_end *end, char **why)
{
	const char *name = strrchr(dir, '/');
	struct repair_log *g = log_of(arg, strtoull(name ? name + 1 : dir, NULL, 10));

	return g ? replay(g, from, fn, fn_arg, end, why) : -ENOMEM;
}

/* ---- what a log holds of each table ---- */

static int note_family(struct repair_log_table *t, uint16_t family)
{
	uint16_t *v;

	for (unsigned i = 0; i < t->family_count; i++)
		if (t->families[i] == family)
			return 0;
	v = realloc(t->families, (t->family_count + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	t->families = v;
	v[t->family_count++] = family;
	return 0;
}

static int note_record(void *arg, const struct log_record *r)
{
	struct repair_log *g = arg;
	struct repair_log_table *t = NULL;
	struct batch_reader b;
	struct batch_cell c;
	uint64_t cells = 0;
	int err = 0, n;

	for (unsigned i = 0; i < g->table_count && !t; i++)
		if (g->tables[i].table == r->table)
			t = &g->tables[i];
	if (!t) {
		t = realloc(g->tables, (g->table_count + 1) * sizeof(*t));
		if (!t)
			return -ENOMEM;
		g->tables = t;
		t += g->table_count++;
		*t = (struct repair_log_table){.table = r->table, .first_lsn = r->lsn};
	}
	t->records++;
	repair_salt_note(t->no_salt, r->row_from);
	n = batch_open(&b, r->batch);
	while (!n && !err && (n = batch_next(&b, &c)) > 0) {
		cells++;
		err = c.family ? note_family(t, c.family) : 0;
		n = 0;
	}
	if (r->seq + cells > t->seq_max)
		t->seq_max = r->seq + cells;
	return err;
}

void repair_salt_note(uint8_t no_salt[256], struct slice row)
{
	for (unsigned n = 2; n < 256; n++)
		if (!row.n || row.p[0] >= n || salt_byte(slice_of(row.p + 1, row.n - 1), n) != row.p[0])
			no_salt[n] = 1;
}

void repair_log_tables(const struct repair *p, uint32_t table, void (*fn)(void *arg, const struct repair_log_table *t), void *arg)
{
	for (const struct repair_log *g = p->logs; g; g = g->next)
		for (unsigned i = 0; i < g->table_count; i++)
			if (g->tables[i].table == table)
				fn(arg, &g->tables[i]);
}

/* The lost LSNs, and what is known of them. */
static void count_lost(struct repair *p, const struct repair_log *g, bool *meta)
{
	struct buf name = {0};
	uint64_t next = g->first, lost = 0, last = g->stated;

	if (g->missing) {
		repair_loses(p, "%s: this log is missing; how many records it had is not known", g->dir);
		*meta = true;
		return;
	}
	for (size_t i = 0; i < g->count; i++) {
		const struct found *x = &g->v[i];

		if (x->lsn < g->first)
			continue;
		lost += x->lsn - next;
		next = x->lsn + 1;
		if (!x->broken)
			continue;
		repair_loses(p, "%s: record %" PRIu64 ", of %s", g->dir, x->lsn, repair_table_name(&name, p, x->f.table));
		*meta |= x->f.table == META_TABLE;
	}
	if (last >= next)
		lost += last - next + 1;
	if (lost) {
		repair_loses(
			p, "%s: %" PRIu64 " records from %" PRIu64 " on, of tables that are not known", g->dir, lost, g->first);
		*meta = true;
	}
	buf_fini(&name);
}

int repair_log_look(
	struct repair *p, uint64_t incarnation, uint64_t from, bool *lost, const struct repair_log_table **tables, unsigned *count)
{
	struct repair_log *g = log_of(p, incarnation);
	struct log_end end;
	char *why = NULL;
	int err = g ? 0 : -ENOMEM;

	if (err)
		return err;
	for (unsigned i = 0; i < g->table_count; i++)
		free(g->tables[i].families);
	g->table_count = 0;
	g->from = from;
	g->damaged = false;
	err = replay(g, from, note_record, g, &end, &why);
	if (err) {
		complain("%s: %s", why ? why : g->dir, strerror(-err));
	} else if (g->damaged) {
		size_t kept = 0;

		report_problem(&p->r, "%s", why ? why : g->dir);
		for (size_t i = 0; i < g->count; i++)
			kept += g->v[i].lsn >= g->first && !g->v[i].broken && g->v[i].f.kind == LOG_DATA;
		repair_does(p, "%s: gets one more segment, with the %zu whole records from record %" PRIu64 " on", g->dir, kept,
			g->first);
		*lost = false;
		count_lost(p, g, lost);
	}
	free(why);
	*tables = g->tables;
	*count = g->table_count;
	return err;
}

/* ---- writing ---- */

struct out {
	struct file *f;
	uint64_t at, salt;
	uint64_t durable;
};

static int put_record(struct out *o, const struct log_frame *f, struct slice body)
{
	uint8_t frame[LOG_FRAME_BYTES];
	struct slice v[2] = {slice_of(frame, sizeof(frame)), body};
	int err;

	log_frame_encode(frame, f, o->salt);
	err = file_pwritev(o->f, v, body.n ? 2 : 1, o->at);
	o->at += log_frame_total(f);
	return err;
}

/* Creates DIR/NUMBER.log.new with its header. */
static int begin_segment(const char *dir, struct log_header *h, struct out *o, char **path, char **final)
{
	uint8_t head[LOG_HEADER_BYTES];
	char name[32];
	int err;

	log_segment_name(name, h->number);
	*final = path_join(dir, name);
	*path = NULL;
	if (!*final || asprintf(path, "%s.new", *final) < 0)
		return -ENOMEM;
	err = file_unlink(*path); /* of a repair that died */
	if (!err || err == -ENOENT)
		err = file_open(*path, FILE_CREATE, &o->f);
	log_header_encode(head, h);
	o->at = sizeof(head);
	o->salt = h->salt;
	o->durable = h->durable_lsn;
	return err ? err : file_pwrite(o->f, head, sizeof(head), 0);
}

/* The statement that all up to lsn is on disk, sync, rename. */
static int end_segment(const char *dir, struct out *o, uint64_t lsn, const char *path, const char *final)
{
	struct log_frame mark = {.lsn = lsn, .durable = lsn, .kind = LOG_MARK};
	int err = lsn ? put_record(o, &mark, slice_of(NULL, 0)) : 0;

	if (!err)
		err = file_sync(o->f);
	if (!err)
		err = file_rename(path, final);
	return err ? err : file_sync_dir(dir);
}

static int write_records(const struct repair_log *g, struct out *o, uint64_t end)
{
	struct buf b = {0};
	uint64_t next = g->first;
	int err = 0;

	for (size_t i = 0; next <= end && !err; next++) {
		struct log_frame f = {.lsn = next, .durable = o->durable, .kind = LOG_VOID};
		struct slice body = slice_of(NULL, 0);

		while (i < g->count && g->v[i].lsn < next)
			i++;
		if (i < g->count && g->v[i].lsn == next && !g->v[i].broken) {
			f = g->v[i].f;
			f.durable = o->durable;
			if (f.kind == LOG_DATA)
				err = read_found(g, &g->v[i], &b, &body);
		}
		if (!err)
			err = put_record(o, &f, body);
	}
	buf_fini(&b);
	return err;
}

static int write_log(struct repair *p, struct repair_log *g)
{
	struct log_header h = {.incarnation = g->incarnation, .first_lsn = g->first, .durable_lsn = g->first - 1};
	struct out o = {0};
	char *path = NULL, *final = NULL;
	uint64_t end = g->count && g->v[g->count - 1].lsn > g->stated ? g->v[g->count - 1].lsn : g->stated;
	int err = 0;

	if (g->missing)
		err = file_mkdir(g->dir);
	for (unsigned i = 0; i < g->seg_count && !err; i++) {
		h.number = g->seg[i].number;
		err = repair_keep(p, g->seg[i].path);
		if (!err && g->seg[i].foreign)
			err = file_unlink(g->seg[i].path);
	}
	h.number++;
	h.salt = g->headed ? g->salt : hash64(slice_of(&h, sizeof(h)), p->incarnation);
	if (!err && end >= g->first && end - g->first > VOIDS_MAX + g->count)
		err = -EFBIG;
	if (!err)
		err = begin_segment(g->dir, &h, &o, &path, &final);
	if (!err)
		err = write_records(g, &o, end);
	if (!err)
		err = end_segment(g->dir, &o, end >= g->first ? end : g->first - 1, path, final);
	if (!err && g->missing) {
		char *logs = path_join(p->dir, "log");

		err = logs ? file_sync_dir(logs) : -ENOMEM;
		free(logs);
	}
	file_close(o.f);
	if (err)
		complain("%s: %s", final ? final : g->dir, strerror(-err));
	free(path);
	free(final);
	return err;
}

int repair_log_write_all(struct repair *p)
{
	int err = 0;

	for (struct repair_log *g = p->logs; g && !err; g = g->next)
		if (g->damaged)
			err = write_log(p, g);
	return err;
}

int repair_log_new(struct repair *p, uint64_t incarnation, struct log_record *v, unsigned count)
{
	struct log_header h = {.incarnation = incarnation, .number = 1, .first_lsn = 1};
	struct out o = {0};
	char *logs = path_join(p->dir, "log"), *dir = offline_log_dir(&p->store, incarnation), *path = NULL, *final = NULL;
	struct buf b = {0};
	int err = logs && dir ? file_mkdir(dir) : -ENOMEM;

	h.salt = hash64(slice_of(&h, sizeof(h)), incarnation);
	if (!err)
		err = begin_segment(dir, &h, &o, &path, &final);
	for (unsigned i = 0; i < count && !err; i++) {
		struct log_frame f = {.lsn = i + 1, .kind = LOG_DATA, .table = v[i].table};

		buf_reset(&b);
		v[i].lsn = f.lsn;
		err = log_body_bytes(&v[i], &f.body_bytes) ? buf_reserve(&b, (size_t)f.body_bytes + 8) : -E2BIG;
		if (err)
			break;
		f.body_crc = log_body_encode(b.p, f.body_bytes, &v[i]);
		err = put_record(&o, &f, slice_of(b.p, log_frame_total(&f) - LOG_FRAME_BYTES));
	}
	if (!err)
		err = end_segment(dir, &o, count, path, final);
	if (!err)
		err = file_sync_dir(logs);
	file_close(o.f);
	if (err)
		complain("%s: %s", final ? final : p->dir, strerror(-err));
	buf_fini(&b);
	free(logs);
	free(dir);
	free(path);
	free(final);
	return err;
}

void repair_logs_fini(struct repair *p)
{
	while (p->logs) {
		struct repair_log *g = p->logs;

		p->logs = g->next;
		for (unsigned i = 0; i < g->table_count; i++)
			free(g->tables[i].families);
		for (unsigned i = 0; i < g->seg_count; i++)
			free(g->seg[i].path);
		free(g->tables);
		free(g->seg);
		free(g->v);
		free(g->dir);
		free(g);
	}
}
