/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA rows: their keys, the decoded row and what an edit, a split or a
 * merge makes of it.  meta_ops.c has the operations that write it.
 *
 * Lists are kept in the order of their columns.
 */
#include "engine/meta/meta.h"
#include "engine/meta/meta_format.h"

#include <errno.h>
#include <stdlib.h>

#define KEY_END 1u
#define KEY_LAST 2u

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
	s->groups[0].sst =
		(struct sst_options){.codec = SST_ZSTD, .level = 3, .block_bytes = 16 * 1024, .bloom_bits = 10, .twice = true};
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
	if (!get_be32(&r, &t) || !get_u8(&r, &kind) || (kind == KEY_LAST) != (reader_left(&r) == 0) ||
		(kind != KEY_LAST && kind != KEY_END))
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
	for (unsigned i = 0; i < m->token_count; i++)
		buf_fini(&m->tokens[i].result);
	free(m->tokens);
	buf_fini(&m->begin);
	buf_fini(&m->end);
	if (m->merge) {
		meta_tablet_fini(m->merge);
		free(m->merge);
	}
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

int meta_token_add(struct meta_tablet *m, uint64_t client, uint64_t number, struct slice result)
{
	struct meta_token t = {.client = client, .number = number};
	unsigned i = m->token_count;

	while (i && (m->tokens[i - 1].client > client || (m->tokens[i - 1].client == client && m->tokens[i - 1].number > number)))
		i--;
	if (i && m->tokens[i - 1].client == client && m->tokens[i - 1].number == number)
		return 0;
	if (buf_append_slice(&t.result, result) || open_gap(&m->tokens, m->token_count, i, sizeof t)) {
		buf_fini(&t.result);
		return -ENOMEM;
	}
	m->tokens[i] = t;
	m->token_count++;
	return 0;
}

/* ---- cells ---- */

const char *const meta_column_names[COLUMNS] = {"begin", "server", "seq", "clock", "major", "tokens", "merge"};

static int merge_cell(struct meta_tablet *m, struct slice value)
{
	struct meta_tablet *lower;
	struct slice bytes;
	int rc = meta_bytes_decode(value, &bytes);

	if (rc || m->merge) /* versions come newest first */
		return rc;
	lower = calloc(1, sizeof *lower);
	if (!lower)
		return -ENOMEM;
	rc = meta_root_decode(bytes, lower);
	if (!rc && lower->last)
		rc = -EBADMSG;
	if (rc) {
		meta_tablet_fini(lower);
		free(lower);
		return rc;
	}
	m->merge = lower;
	return 0;
}

static int tablet_cell(struct meta_tablet *m, const struct scan_cell *c)
{
	struct slice begin;
	uint64_t v;
	int col = 0, rc;

	while (col < COLUMNS && !slice_eq(c->qualifier, slice_str(meta_column_names[col])))
		col++;
	if (col == C_TOKENS)
		return m->token_count ? 0 : meta_tokens_decode(c->value, m); /* versions come newest first */
	if (col == C_SERVER)
		return meta_server_decode(c->value, &m->server, &m->assignment);
	if (col == COLUMNS)
		return -EPROTO;
	if (col == C_MERGE)
		return merge_cell(m, c->value);
	if (col == C_BEGIN) {
		rc = meta_bytes_decode(c->value, &begin);
		return rc ? rc : buf_set(&m->begin, begin.p, begin.n);
	}
	rc = meta_u64_decode(c->value, &v);
	if (rc)
		return rc;
	if (col == C_SEQ)
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
	uint64_t assignment;

	if (c->family != META_TABLET)
		return 0;
	if (slice_eq(c->qualifier, slice_str(meta_column_names[C_BEGIN])))
		return meta_bytes_decode(c->value, begin);
	if (slice_eq(c->qualifier, slice_str(meta_column_names[C_SERVER])))
		return meta_server_decode(c->value, server, &assignment);
	return 0;
}

/* ---- edits ---- */

struct tablet_file *meta_find_file(const struct meta_tablet *m, const struct tablet_file *f)
{
	/* A removed file is named by incarnation, number and group; those are unique in a store. */
	for (unsigned i = 0; i < m->file_count; i++) {
		struct tablet_file *g = &m->files[i];

		if (g->incarnation == f->incarnation && g->number == f->number && g->group == f->group)
			return g;
	}
	return NULL;
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
		if ((f = meta_find_file(m, &e->removed[i])))
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

int meta_tablet_copy(const struct meta_tablet *from, struct meta_tablet *to)
{
	struct buf b = {0};
	int rc = meta_root_encode(from, &b);

	if (!rc)
		rc = meta_root_decode(buf_slice(&b), to);
	buf_fini(&b);
	return rc;
}

/* An end of no bytes is a row, too: only p NULL means none. */
static int set_end(struct buf *b, struct slice end)
{
	int rc = buf_reserve(b, end.n + 1);

	return rc ? rc : buf_set(b, end.p, end.n);
}

int meta_tablet_lower(const struct meta_tablet *m, struct slice at, struct meta_tablet *lower)
{
	struct meta_tablet l = {0};
	int rc = meta_tablet_copy(m, &l);

	l.last = false;
	if (!rc)
		rc = set_end(&l.end, at);
	for (unsigned i = 0; i < l.file_count && !rc;) {
		struct tablet_file *f = &l.files[i];

		if (slice_cmp(buf_slice(&f->begin), at) >= 0 || slice_cmp(buf_slice(&f->first), at) >= 0) {
			drop_file(&l, f);
			continue;
		}
		if (!f->end.p || slice_cmp(buf_slice(&f->end), at) > 0)
			rc = set_end(&f->end, at);
		i++;
	}
	if (rc) {
		meta_tablet_fini(&l);
		return rc;
	}
	*lower = l;
	return 0;
}

/* f for no rows outside [begin, end) (end.p NULL: none). *empty: then it holds none. */
static int clip_file(struct tablet_file *f, struct slice begin, struct slice end, bool *empty)
{
	int rc = 0;

	if (slice_cmp(buf_slice(&f->begin), begin) < 0)
		rc = buf_set(&f->begin, begin.p, begin.n);
	if (!rc && end.p && (!f->end.p || slice_cmp(buf_slice(&f->end), end) > 0))
		rc = set_end(&f->end, end);
	*empty = slice_cmp(buf_slice(&f->last), buf_slice(&f->begin)) < 0 ||
		(f->end.p &&
			(slice_cmp(buf_slice(&f->first), buf_slice(&f->end)) >= 0 ||
				slice_cmp(buf_slice(&f->begin), buf_slice(&f->end)) >= 0));
	return rc;
}

static int clip_files(struct meta_tablet *m, struct slice begin, struct slice end)
{
	for (unsigned i = 0; i < m->file_count;) {
		bool empty;
		int rc = clip_file(&m->files[i], begin, end, &empty);

		if (rc)
			return rc;
		if (empty)
			drop_file(m, &m->files[i]);
		else
			i++;
	}
	return 0;
}

static int fold_file(struct meta_tablet *both, const struct tablet_file *f)
{
	struct tablet_file copy = {0}, *g = NULL;
	int rc;

	for (unsigned i = 0; i < both->file_count && !g; i++)
		if (meta_file_order(&both->files[i], f) == 0)
			g = &both->files[i];
	if (g) {
		if (!f->end.p || !slice_eq(buf_slice(&f->end), buf_slice(&g->begin)))
			return -EBUSY;
		return buf_set(&g->begin, f->begin.p, f->begin.n);
	}
	rc = tablet_file_copy(&copy, f);
	if (!rc) {
		rc = meta_files_add(both, &copy, false);
		if (rc)
			tablet_file_fini(&copy);
	}
	return rc;
}

int meta_tablet_fold(const struct meta_tablet *lower, const struct meta_tablet *upper, struct meta_tablet *both)
{
	const struct slice middle = buf_slice(&lower->end), end = upper->last ? (struct slice){NULL, 0} : buf_slice(&upper->end);
	struct meta_tablet l = {0}, m = {0};
	int rc = meta_tablet_copy(lower, &l);

	if (!rc)
		rc = meta_tablet_copy(upper, &m);
	if (!rc)
		rc = clip_files(&l, buf_slice(&lower->begin), middle);
	if (!rc)
		rc = clip_files(&m, middle, end);
	for (unsigned i = 0; i < l.file_count && !rc; i++)
		rc = fold_file(&m, &l.files[i]);
	for (unsigned i = 0; i < l.redo_count && !rc; i++) {
		for (unsigned k = 0; k < m.redo_count; k++)
			if (m.redo[k].incarnation == l.redo[i].incarnation && m.redo[k].lsn > l.redo[i].lsn)
				m.redo[k].lsn = l.redo[i].lsn;
		rc = meta_redo_add(&m, l.redo[i], false);
	}
	for (unsigned i = 0; i < l.token_count && !rc; i++)
		rc = meta_token_add(&m, l.tokens[i].client, l.tokens[i].number, buf_slice(&l.tokens[i].result));
	if (!rc)
		rc = buf_set(&m.begin, lower->begin.p, lower->begin.n);
	m.seq_mark = l.seq_mark > m.seq_mark ? l.seq_mark : m.seq_mark;
	m.clock_mark = l.clock_mark > m.clock_mark ? l.clock_mark : m.clock_mark;
	m.major_us = l.major_us < m.major_us ? l.major_us : m.major_us; /* the promise of whichever waits longer */
	m.unfolded = true;
	meta_tablet_fini(&l);
	if (rc) {
		meta_tablet_fini(&m);
		return rc;
	}
	*both = m;
	return 0;
}

int meta_tablet_settle(struct meta_tablet *m, struct slice before)
{
	struct meta_tablet *lower = m->merge, both = {0};
	int rc = 0;

	if (!lower)
		return 0;
	if (lower->table != m->table || slice_cmp(buf_slice(&lower->begin), buf_slice(&lower->end)) >= 0)
		rc = -EBADMSG;
	else if (slice_eq(before, buf_slice(&lower->begin)))
		rc = meta_tablet_fold(lower, m, &both);
	else /* its row is there, or m was split since; m's begin has moved down by no merge, which would have written another */
		m->stale_merge = true;
	m->merge = NULL;
	meta_tablet_fini(lower);
	free(lower);
	if (!rc && both.unfolded) {
		meta_tablet_fini(m);
		*m = both;
	}
	return rc == -EBUSY ? -EBADMSG : rc;
}
