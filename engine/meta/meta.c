/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of METADATA: their keys, and cells decoded into a struct meta_tablet. */
#include "engine/meta/meta.h"
#include "engine/base/units.h"
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
	int err = -ENOMEM;

	if (!s)
		return err;
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
		err = gc_parse(rules[i], &s->families[i].rule, &why);
		if (err)
			goto fail;
		s->family_count++;
	}
	*out = s;
	return 0;
fail:
	store_schema_put(s);
	return err;
}

/* ---- row keys ---- */

int meta_row_key(struct buf *out, uint32_t table, bool last, struct tfs_bytes end)
{
	size_t from = out->n;

	if (buf_be32(out, table) || buf_u8(out, last ? KEY_LAST : KEY_END) || (!last && buf_append_bytes(out, end))) {
		out->n = from;
		return -ENOMEM;
	}
	return 0;
}

int meta_seek_key(struct buf *out, uint32_t table, struct tfs_bytes row)
{
	size_t from = out->n;

	/* row and a zero byte, the smallest row above row */
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

bool meta_parse_row_key(struct tfs_bytes key, uint32_t *table, bool *last, struct tfs_bytes *end)
{
	struct reader r = reader_of(key);
	uint32_t t;
	uint8_t kind;

	/* a tablet that ends at the empty row would have no rows */
	if (!get_be32(&r, &t) || !get_u8(&r, &kind) || (kind == KEY_LAST) != (reader_left(&r) == 0) ||
		(kind != KEY_LAST && kind != KEY_END))
		return false;
	*table = t;
	*last = kind == KEY_LAST;
	*end = *last ? (struct tfs_bytes){0} : tfs_bytes_of(r.p, reader_left(&r));
	return true;
}

/* ---- the decoded row ---- */

int meta_tablet_row(struct meta_tablet *m, struct tfs_bytes row_key)
{
	struct tfs_bytes end;
	uint32_t table;
	bool last;
	int err;

	if (!meta_parse_row_key(row_key, &table, &last, &end))
		return -EBADMSG;
	err = buf_set(&m->end, end.p, end.n);
	if (err)
		return err;
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

/* ---- cells ---- */

const char *const meta_column_names[COLUMNS] = {"begin", "server", "seq", "clock", "major", "changes", "tokens", "merge"};

static int merge_cell(struct meta_tablet *m, struct tfs_bytes value)
{
	struct meta_tablet *lower;
	struct tfs_bytes bytes;
	int err = meta_bytes_decode(value, &bytes);

	if (err || m->merge) /* the newest version comes first */
		return err;
	lower = calloc(1, sizeof *lower);
	if (!lower)
		return -ENOMEM;
	err = meta_root_decode(bytes, lower);
	if (!err && lower->last)
		err = -EBADMSG;
	if (err) {
		meta_tablet_fini(lower);
		free(lower);
		return err;
	}
	m->merge = lower;
	return 0;
}

static int tablet_cell(struct meta_tablet *m, const struct tfs_cell *c)
{
	struct tfs_bytes begin;
	uint64_t v;
	int col = 0, err;

	while (col < COLUMNS && !bytes_eq(c->qualifier, tfs_str(meta_column_names[col])))
		col++;
	if (col == C_TOKENS)
		return m->token_count ? 0 : meta_tokens_decode(c->value, m); /* the newest version comes first */
	if (col == C_SERVER)
		return meta_server_decode(c->value, &m->server, &m->assignment);
	if (col == COLUMNS)
		return -EPROTO;
	if (col == C_MERGE)
		return merge_cell(m, c->value);
	if (col == C_BEGIN) {
		err = meta_bytes_decode(c->value, &begin);
		return err ? err : buf_set(&m->begin, begin.p, begin.n);
	}
	err = meta_u64_decode(c->value, &v);
	if (err)
		return err;
	if (col == C_SEQ)
		m->seq_mark = v;
	else if (col == C_CLOCK)
		m->clock_mark = (int64_t)v;
	else if (col == C_MAJOR)
		m->major_us = (int64_t)v;
	else
		m->changes_low_us = (int64_t)v;
	return 0;
}

static int sst_cell(struct meta_tablet *m, const struct tfs_cell *c)
{
	struct tablet_file f = {0};
	int err;

	if (!meta_sst_key_get(c->qualifier, &f))
		return -EBADMSG;
	err = meta_sst_value_decode(c->value, &f);
	if (err)
		return err;
	return meta_files_add(m, &f, false); /* the newest version comes first */
}

static int redo_cell(struct meta_tablet *m, const struct tfs_cell *c)
{
	struct redo_point p;
	int err;

	if (c->qualifier.n != META_REDO_KEY_BYTES)
		return -EBADMSG;
	p.incarnation = load_be64(c->qualifier.p);
	err = meta_u64_decode(c->value, &p.lsn);
	return err ? err : meta_redo_add(m, p, false);
}

int meta_tablet_cell(struct meta_tablet *m, const struct tfs_cell *c)
{
	struct tfs_bytes text;

	switch (c->family_id) {
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

int meta_location_cell(const struct tfs_cell *c, struct tfs_bytes *begin, uint64_t *server, uint64_t *assignment)
{
	if (c->family_id != META_TABLET)
		return 0;
	if (bytes_eq(c->qualifier, tfs_str(meta_column_names[C_BEGIN])))
		return meta_bytes_decode(c->value, begin);
	if (bytes_eq(c->qualifier, tfs_str(meta_column_names[C_SERVER])))
		return meta_server_decode(c->value, server, assignment);
	return 0;
}

bool meta_sstable_parse(const char *name, uint64_t *incarnation, uint64_t *number)
{
	return number_parse(name, '-', incarnation, &name) && number_parse(name, '.', number, &name) && strcmp(name, "sst") == 0;
}

bool meta_reserve_parse(const char *name, uint64_t *incarnation)
{
	return strncmp(name, RESERVE_FILE ".", sizeof(RESERVE_FILE)) == 0 &&
		number_parse(name + sizeof(RESERVE_FILE), 0, incarnation, NULL);
}
