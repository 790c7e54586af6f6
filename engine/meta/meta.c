/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA rows: their keys, the decoded row and what an edit makes of it,
 * and the operations that write it.
 *
 * A column is written as the newest version (maxversions=1 hides the one
 * before), a list's element that goes is a deleted column; so one mutation
 * is one edit, and reading the row back gives what meta_tablet_apply gives.
 * Lists are kept in the order of their columns.
 *
 * Columns that this version does not write: tablet:tokens is passed over
 * (retries of mutations come with the cluster), tablet:merge is refused with
 * -EPROTO, for a row that carries it has more files than its own columns say.
 */
#include "engine/meta/meta.h"
#include "engine/meta/meta_format.h"

#include <errno.h>
#include <stdlib.h>

#define KEY_END 1u
#define KEY_LAST 2u
#define NO_TIME INT64_MIN /* TFS_NO_TIME: the server's clock */

int meta_store_schema(struct store_schema **out)
{
	static const char *const rules[] = {"maxversions=1", "maxversions=1", "maxversions=1", "maxversions=20"};
	struct store_schema *s = calloc(1, sizeof *s);
	const char *why;
	int rc = -ENOMEM;

	if (!s)
		return rc;
	s->refs = 1;
	s->generation = 1;
	s->families = calloc(META_EVENT, sizeof *s->families);
	s->groups = calloc(1, sizeof *s->groups);
	if (!s->families || !s->groups)
		goto fail;
	s->groups[0].sst = (struct sst_options){.codec = SST_ZSTD, .level = 3, .block_bytes = 16 * 1024, .bloom_bits = 10};
	s->group_count = 1;
	for (unsigned i = 0; i < META_EVENT; i++) {
		s->families[i].id = (uint16_t)(i + 1);
		rc = gc_parse(rules[i], &s->families[i].rule, &why);
		if (rc)
			goto fail;
		s->family_count++;
	}
	*out = s;
	return 0;
fail:
	store_schema_put(s);
	return rc;
}

/* ---- row keys ---- */

int meta_row_key(struct buf *out, uint32_t table, bool last, struct slice end)
{
	size_t from = out->n;

	if (buf_be32(out, table) || buf_u8(out, last ? KEY_LAST : KEY_END) || (!last && buf_append_slice(out, end))) {
		out->n = from;
		return -ENOMEM;
	}
	return 0;
}

int meta_seek_key(struct buf *out, uint32_t table, struct slice row)
{
	size_t from = out->n;

	/* row and a zero byte: the smallest row above it */
	if (meta_row_key(out, table, false, row) || buf_u8(out, 0)) {
		out->n = from;
		return -ENOMEM;
	}
	return 0;
}

int meta_table_begin(struct buf *out, uint32_t table)
{
	return buf_be32(out, table);
}

int meta_root_end(struct buf *out)
{
	return meta_table_begin(out, META_TABLE + 1);
}

bool meta_parse_row_key(struct slice key, uint32_t *table, bool *last, struct slice *end)
{
	struct reader r = reader_of(key);
	uint32_t t;
	uint8_t kind;

	/* a tablet that ends before the empty row would hold nothing */
	if (!get_be32(&r, &t) || !get_u8(&r, &kind) || (kind == KEY_LAST) != (reader_left(&r) == 0) || (kind != KEY_LAST && kind != KEY_END))
		return false;
	*table = t;
	*last = kind == KEY_LAST;
	*end = *last ? (struct slice){0} : slice_of(r.p, reader_left(&r));
	return true;
}

/* ---- the decoded row ---- */

void meta_tablet_fini(struct meta_tablet *m)
{
	for (unsigned i = 0; i < m->file_count; i++)
		tablet_file_fini(&m->files[i]);
	free(m->files);
	free(m->redo);
	buf_fini(&m->begin);
	buf_fini(&m->end);
	*m = (struct meta_tablet){0};
}

int meta_tablet_row(struct meta_tablet *m, struct slice row_key)
{
	struct slice end;
	uint32_t table;
	bool last;
	int rc;

	if (!meta_parse_row_key(row_key, &table, &last, &end))
		return -EBADMSG;
	rc = buf_set(&m->end, end.p, end.n);
	if (rc)
		return rc;
	m->table = table;
	m->last = last;
	return 0;
}

uint64_t meta_tablet_latest(const struct meta_tablet *m)
{
	uint64_t latest = m->server;

	for (unsigned i = 0; i < m->file_count; i++)
		latest = m->files[i].incarnation > latest ? m->files[i].incarnation : latest;
	for (unsigned i = 0; i < m->redo_count; i++)
		latest = m->redo[i].incarnation > latest ? m->redo[i].incarnation : latest;
	return latest;
}

/* Room for one more at `at`.  Both lists grow by single elements: they are short and change rarely. */
static int open_gap(void *array, unsigned count, unsigned at, size_t size)
{
	uint8_t *p, *more;

	memcpy(&p, array, sizeof p);
	more = realloc(p, (count + 1) * size);
	if (!more)
		return -ENOMEM;
	memmove(more + (at + 1) * size, more + at * size, (count - at) * size);
	memcpy(array, &more, sizeof more);
	return 0;
}

int meta_files_add(struct meta_tablet *m, struct tablet_file *f, bool replace)
{
	unsigned lo = 0, hi = m->file_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (meta_file_order(&m->files[mid], f) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < m->file_count && meta_file_order(&m->files[lo], f) == 0) {
		tablet_file_fini(replace ? &m->files[lo] : f);
		if (replace)
			m->files[lo] = *f;
		return 0;
	}
	if (open_gap(&m->files, m->file_count, lo, sizeof *f))
		return -ENOMEM;
	m->files[lo] = *f;
	m->file_count++;
	return 0;
}

int meta_redo_add(struct meta_tablet *m, struct redo_point p, bool replace)
{
	unsigned i = m->redo_count;

	while (i && m->redo[i - 1].incarnation > p.incarnation)
		i--;
	if (i && m->redo[i - 1].incarnation == p.incarnation) {
		if (replace)
			m->redo[i - 1] = p;
		return 0;
	}
	if (open_gap(&m->redo, m->redo_count, i, sizeof p))
		return -ENOMEM;
	m->redo[i] = p;
	m->redo_count++;
	return 0;
}

/* ---- cells ---- */

enum column { C_BEGIN, C_SERVER, C_SEQ, C_CLOCK, C_MAJOR, C_TOKENS, C_MERGE, COLUMNS };
static const char *const column_names[COLUMNS] = {"begin", "server", "seq", "clock", "major", "tokens", "merge"};

static int tablet_cell(struct meta_tablet *m, const struct scan_cell *c)
{
	struct slice begin;
	uint64_t v;
	int col = 0, rc;

	while (col < COLUMNS && !slice_eq(c->qualifier, slice_str(column_names[col])))
		col++;
	if (col == C_TOKENS)
		return 0;
	if (col == COLUMNS || col == C_MERGE)
		return -EPROTO;
	if (col == C_BEGIN) {
		rc = meta_bytes_decode(c->value, &begin);
		return rc ? rc : buf_set(&m->begin, begin.p, begin.n);
	}
	rc = meta_u64_decode(c->value, &v);
	if (rc)
		return rc;
	if (col == C_SERVER)
		m->server = v;
	else if (col == C_SEQ)
		m->seq_mark = v;
	else if (col == C_CLOCK)
		m->clock_mark = (int64_t)v;
	else
		m->major_us = (int64_t)v;
	return 0;
}

static int sst_cell(struct meta_tablet *m, const struct scan_cell *c)
{
	struct tablet_file f = {0};
	int rc;

	if (!meta_sst_key_get(c->qualifier, &f))
		return -EBADMSG;
	rc = meta_sst_value_decode(c->value, &f);
	if (rc)
		return rc;
	rc = meta_files_add(m, &f, false); /* versions come newest first */
	if (rc)
		tablet_file_fini(&f);
	return rc;
}

static int redo_cell(struct meta_tablet *m, const struct scan_cell *c)
{
	struct redo_point p;
	int rc;

	if (c->qualifier.n != META_REDO_KEY_BYTES)
		return -EBADMSG;
	p.incarnation = load_be64(c->qualifier.p);
	rc = meta_u64_decode(c->value, &p.lsn);
	return rc ? rc : meta_redo_add(m, p, false);
}

int meta_tablet_cell(struct meta_tablet *m, const struct scan_cell *c)
{
	struct slice text;

	switch (c->family) {
	case META_TABLET:
		return tablet_cell(m, c);
	case META_SST:
		return sst_cell(m, c);
	case META_REDO:
		return redo_cell(m, c);
	case META_EVENT:
		return meta_bytes_decode(c->value, &text);
	default:
		return -EPROTO;
	}
}

int meta_location_cell(const struct scan_cell *c, struct slice *begin, uint64_t *server)
{
	if (c->family != META_TABLET)
		return 0;
	if (slice_eq(c->qualifier, slice_str(column_names[C_BEGIN])))
		return meta_bytes_decode(c->value, begin);
	if (slice_eq(c->qualifier, slice_str(column_names[C_SERVER])))
		return meta_u64_decode(c->value, server);
	return 0;
}

/* ---- edits ---- */

static struct tablet_file *find_file(const struct meta_tablet *m, const struct tablet_file *f)
{
	/* A removed file is named by incarnation, number and group; those are unique in a store. */
	for (unsigned i = 0; i < m->file_count; i++) {
		struct tablet_file *g = &m->files[i];

		if (g->incarnation == f->incarnation && g->number == f->number && g->group == f->group)
			return g;
	}
	return NULL;
}

static bool redo_has(const struct redo_point *v, unsigned count, uint64_t incarnation)
{
	for (unsigned i = 0; i < count; i++)
		if (v[i].incarnation == incarnation)
			return true;
	return false;
}

static void drop_file(struct meta_tablet *m, struct tablet_file *f)
{
	size_t after = (size_t)(&m->files[m->file_count] - f) - 1;

	tablet_file_fini(f);
	memmove(f, f + 1, after * sizeof *f);
	m->file_count--;
}

/* What may fail is made first, so that nothing is changed on -ENOMEM. */
int meta_tablet_apply(struct meta_tablet *m, const struct tablet_edit *e)
{
	struct meta_tablet fresh = {0};
	struct tablet_file *f, *room;
	int rc = 0;

	for (unsigned i = 0; i < e->added_count && !rc; i++) {
		struct tablet_file copy = {0};

		rc = tablet_file_copy(&copy, &e->added[i]);
		if (rc)
			break;
		meta_file_normalise(&copy);
		rc = meta_files_add(&fresh, &copy, true);
		if (rc)
			tablet_file_fini(&copy);
	}
	for (unsigned i = 0; e->set_redo && i < e->redo_count && !rc; i++)
		rc = meta_redo_add(&fresh, e->redo[i], true);
	if (!rc && fresh.file_count) {
		room = realloc(m->files, (m->file_count + fresh.file_count) * sizeof *room);
		if (room)
			m->files = room;
		else
			rc = -ENOMEM;
	}
	if (rc) {
		meta_tablet_fini(&fresh);
		return rc;
	}
	for (unsigned i = 0; i < e->removed_count; i++)
		if ((f = find_file(m, &e->removed[i])))
			drop_file(m, f);
	/* two sorted lists, merged from their ends into the room made above; equal ones: the new */
	for (unsigned i = 0; i < fresh.file_count; i++)
		for (unsigned j = 0; j < m->file_count; j++)
			if (meta_file_order(&m->files[j], &fresh.files[i]) == 0)
				drop_file(m, &m->files[j--]);
	for (unsigned to = m->file_count + fresh.file_count, a = m->file_count, b = fresh.file_count; b > 0;) {
		bool from_a = a > 0 && meta_file_order(&m->files[a - 1], &fresh.files[b - 1]) > 0;

		m->files[--to] = from_a ? m->files[--a] : fresh.files[--b];
	}
	m->file_count += fresh.file_count;
	fresh.file_count = 0;
	if (e->set_redo) {
		free(m->redo);
		m->redo = fresh.redo;
		m->redo_count = fresh.redo_count;
		fresh.redo = NULL;
	}
	m->seq_mark = e->seq_mark ? e->seq_mark : m->seq_mark;
	m->clock_mark = e->clock_mark ? e->clock_mark : m->clock_mark;
	m->major_us = e->major_us ? e->major_us : m->major_us;
	meta_tablet_fini(&fresh);
	return 0;
}

/* ---- operations ---- */

struct writer {
	struct arena *arena;
	struct op *ops;
	unsigned count;
	struct buf scratch;
};

static int writer_init(struct writer *w, struct arena *a, size_t most)
{
	*w = (struct writer){.arena = a};
	w->ops = arena_alloc(a, (most ? most : 1) * sizeof *w->ops);
	return w->ops ? 0 : -ENOMEM;
}

/* Takes what stands in scratch as the value. */
static int write_column(struct writer *w, enum meta_family family, struct slice qualifier)
{
	struct op *op = &w->ops[w->count];

	*op = (struct op){.kind = OP_WRITE, .family = (uint16_t)family, .ts = {.newest = true, .us = NO_TIME}, .truncate_to = UINT64_MAX};
	if (!arena_dup(w->arena, qualifier, &op->qualifier) || !arena_dup(w->arena, buf_slice(&w->scratch), &op->value))
		return -ENOMEM;
	buf_reset(&w->scratch);
	w->count++;
	return 0;
}

static int delete_column(struct writer *w, enum meta_family family, struct slice qualifier)
{
	struct op *op = &w->ops[w->count];

	*op = (struct op){.kind = OP_DELETE_COLUMN, .family = (uint16_t)family, .truncate_to = UINT64_MAX};
	if (!arena_dup(w->arena, qualifier, &op->qualifier))
		return -ENOMEM;
	w->count++;
	return 0;
}

static int write_u64(struct writer *w, enum column c, uint64_t v)
{
	int rc = meta_u64_encode(v, &w->scratch);

	return rc ? rc : write_column(w, META_TABLET, slice_str(column_names[c]));
}

static int write_bytes(struct writer *w, enum meta_family family, const char *qualifier, struct slice v)
{
	int rc = meta_bytes_encode(v, &w->scratch);

	return rc ? rc : write_column(w, family, slice_str(qualifier));
}

static int write_file(struct writer *w, const struct tablet_file *f)
{
	uint8_t key[META_SST_KEY_BYTES];
	struct tablet_file copy = {0};
	int rc = tablet_file_copy(&copy, f);

	if (rc)
		return rc;
	meta_file_normalise(&copy);
	meta_sst_key_put(key, &copy);
	rc = meta_sst_value_encode(&copy, &w->scratch);
	tablet_file_fini(&copy);
	return rc ? rc : write_column(w, META_SST, slice_of(key, sizeof key));
}

static int write_redo(struct writer *w, const struct redo_point *p)
{
	uint8_t key[META_REDO_KEY_BYTES];
	int rc = meta_u64_encode(p->lsn, &w->scratch);

	put_be64(key, p->incarnation);
	return rc ? rc : write_column(w, META_REDO, slice_of(key, sizeof key));
}

int meta_ops_new(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	int rc = writer_init(&w, a, 5u + m->file_count + m->redo_count);

	if (rc)
		return rc;
	rc = write_bytes(&w, META_TABLET, column_names[C_BEGIN], buf_slice(&m->begin));
	if (!rc)
		rc = write_u64(&w, C_SERVER, m->server);
	if (!rc)
		rc = write_u64(&w, C_SEQ, m->seq_mark);
	if (!rc)
		rc = write_u64(&w, C_CLOCK, (uint64_t)m->clock_mark);
	if (!rc)
		rc = write_u64(&w, C_MAJOR, (uint64_t)m->major_us);
	for (unsigned i = 0; i < m->file_count && !rc; i++)
		rc = write_file(&w, &m->files[i]);
	for (unsigned i = 0; i < m->redo_count && !rc; i++)
		rc = write_redo(&w, &m->redo[i]);
	buf_fini(&w.scratch);
	if (rc)
		return rc;
	*ops = w.ops;
	*count = w.count;
	return 0;
}

static int edit_redo(struct writer *w, const struct meta_tablet *old, const struct tablet_edit *e)
{
	uint8_t key[META_REDO_KEY_BYTES];
	int rc = 0;

	for (unsigned i = 0; i < old->redo_count && !rc; i++) {
		if (redo_has(e->redo, e->redo_count, old->redo[i].incarnation))
			continue;
		put_be64(key, old->redo[i].incarnation);
		rc = delete_column(w, META_REDO, slice_of(key, sizeof key));
	}
	for (unsigned i = 0; i < e->redo_count && !rc; i++)
		rc = write_redo(w, &e->redo[i]);
	return rc;
}

static int edit_files(struct writer *w, const struct meta_tablet *old, const struct tablet_edit *e)
{
	uint8_t key[META_SST_KEY_BYTES];
	int rc = 0;

	for (unsigned i = 0; i < e->removed_count && !rc; i++) {
		const struct tablet_file *f = find_file(old, &e->removed[i]);

		meta_sst_key_put(key, f ? f : &e->removed[i]);
		rc = delete_column(w, META_SST, slice_of(key, sizeof key));
	}
	for (unsigned i = 0; i < e->added_count && !rc; i++)
		rc = write_file(w, &e->added[i]);
	return rc;
}

/* The begin hint is rewritten with every edit (DESIGN 3.2). */
int meta_ops_edit(const struct meta_tablet *old, const struct tablet_edit *e, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	size_t most = 5u + e->added_count + e->removed_count + (e->set_redo ? old->redo_count + e->redo_count : 0);
	int rc = writer_init(&w, a, most);

	if (rc)
		return rc;
	rc = write_bytes(&w, META_TABLET, column_names[C_BEGIN], buf_slice(&old->begin));
	if (!rc)
		rc = edit_files(&w, old, e);
	if (!rc && e->set_redo)
		rc = edit_redo(&w, old, e);
	if (!rc && e->seq_mark)
		rc = write_u64(&w, C_SEQ, e->seq_mark);
	if (!rc && e->clock_mark)
		rc = write_u64(&w, C_CLOCK, (uint64_t)e->clock_mark);
	if (!rc && e->major_us)
		rc = write_u64(&w, C_MAJOR, (uint64_t)e->major_us);
	if (!rc && e->event)
		rc = write_bytes(&w, META_EVENT, "", slice_str(e->event));
	buf_fini(&w.scratch);
	if (rc)
		return rc;
	*ops = w.ops;
	*count = w.count;
	return 0;
}

int meta_ops_owner(const struct meta_tablet *old, uint64_t own, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	int rc = writer_init(&w, a, 2);

	if (rc)
		return rc;
	rc = write_u64(&w, C_SERVER, old->server);
	if (!rc) {
		w.ops[0].kind = OP_CHECK;
		w.ops[0].check = OP_CHECK_VALUE;
		if (old->server != own)
			rc = write_u64(&w, C_SERVER, own);
	}
	buf_fini(&w.scratch);
	if (rc)
		return rc;
	*ops = w.ops;
	*count = w.count;
	return 0;
}
