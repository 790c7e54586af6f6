/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and decoding of METADATA's columns and of the root file; the
 * tables are in the header.
 */
#include "engine/meta/meta_format.h"
#include "engine/base/envelope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT 1u
#define ROOT_MAGIC 0x54465254u /* TFRT */
#define HAS_END 1u
#define FIRST_IS_BEGIN 2u
#define HAS_COMMIT 4u
#define ENTRY_MAX (250 * 1024) /* bytes of the four rows in a file's entry */
#define FIRST_CUT 1024
#define COUNT_MAX 1000000u

/* ---- small values ---- */

static int open_value(struct tfs_bytes in, struct reader *r)
{
	uint8_t format;

	*r = reader_of(in);
	if (!get_u8(r, &format))
		return -EBADMSG;
	return format == FORMAT ? 0 : -EPROTO;
}

int meta_u64_encode(uint64_t v, struct buf *out)
{
	return buf_u8(out, FORMAT) || buf_be64(out, v) ? -ENOMEM : 0;
}

int meta_u64_decode(struct tfs_bytes in, uint64_t *v)
{
	struct reader r;
	uint64_t x;
	int err = open_value(in, &r);

	if (err)
		return err;
	if (!get_be64(&r, &x) || reader_left(&r))
		return -EBADMSG;
	*v = x;
	return 0;
}

int meta_server_encode(uint64_t server, uint64_t assignment, struct buf *out)
{
	return buf_u8(out, FORMAT) || buf_be64(out, server) || buf_be64(out, assignment) ? -ENOMEM : 0;
}

int meta_server_decode(struct tfs_bytes in, uint64_t *server, uint64_t *assignment)
{
	struct reader r;
	uint64_t s, a;
	int err = open_value(in, &r);

	if (err)
		return err;
	if (!get_be64(&r, &s) || !get_be64(&r, &a) || reader_left(&r))
		return -EBADMSG;
	*server = s;
	*assignment = a;
	return 0;
}

int meta_bytes_encode(struct tfs_bytes v, struct buf *out)
{
	return buf_u8(out, FORMAT) || buf_append_bytes(out, v) ? -ENOMEM : 0;
}

int meta_bytes_decode(struct tfs_bytes in, struct tfs_bytes *v)
{
	struct reader r;
	int err = open_value(in, &r);

	if (!err)
		*v = tfs_bytes_of(r.p, reader_left(&r));
	return err;
}

/* ---- tokens ---- */

static int encode_tokens(const struct tablet_token *v, unsigned count, struct buf *out)
{
	for (unsigned i = 0; i < count; i++)
		if (buf_be64(out, v[i].client) || buf_be64(out, v[i].number) || buf_lstr(out, buf_bytes(&v[i].result)))
			return -ENOMEM;
	return 0;
}

/* Accepts tokens in ascending order only, as they are written. */
static int decode_tokens(struct reader r, struct meta_tablet *m)
{
	uint64_t client, number, last_client = 0, last_number = 0;
	struct tfs_bytes result;
	int err = 0;

	for (bool first = true; reader_left(&r) && !err; first = false) {
		if (!get_be64(&r, &client) || !get_be64(&r, &number) || !get_lstr(&r, &result) ||
			(!first && (client < last_client || (client == last_client && number <= last_number))))
			return -EBADMSG;
		err = meta_token_add(m, client, number, result);
		last_client = client;
		last_number = number;
	}
	return err;
}

int meta_tokens_encode(const struct tablet_token *v, unsigned count, struct buf *out)
{
	return buf_u8(out, FORMAT) ? -ENOMEM : encode_tokens(v, count, out);
}

int meta_tokens_decode(struct tfs_bytes in, struct meta_tablet *m)
{
	struct reader r;
	int err = open_value(in, &r);

	if (err)
		return err;
	return reader_left(&r) ? decode_tokens(r, m) : -EBADMSG;
}

/* ---- files ---- */

void meta_sst_key_put(uint8_t key[META_SST_KEY_BYTES], const struct tablet_file *f)
{
	put_be32(key, f->table);
	put_be64(key + 4, f->incarnation);
	put_be64(key + 12, f->number);
	put_be16(key + 20, f->group);
}

bool meta_sst_key_get(struct tfs_bytes key, struct tablet_file *f)
{
	if (key.n != META_SST_KEY_BYTES)
		return false;
	f->table = load_be32(key.p);
	f->incarnation = load_be64(key.p + 4);
	f->number = load_be64(key.p + 12);
	f->group = load_be16(key.p + 20);
	return true;
}

void meta_file_normalise(struct tablet_file *f)
{
	if (f->begin.n + f->end.n + f->first.n + f->last.n <= ENTRY_MAX)
		return;
	if (bytes_cmp(buf_bytes(&f->first), buf_bytes(&f->begin)) < 0) {
		if (f->first.n > FIRST_CUT)
			f->first.n = FIRST_CUT;
	} else if (buf_set(&f->first, f->begin.p, f->begin.n)) {
		/* Out of memory: the empty row is a lower bound too. */
		f->first.n = 0;
	}
}

int meta_sst_value_encode(const struct tablet_file *f, struct buf *out)
{
	bool same = f->first.n > 0 && bytes_eq(buf_bytes(&f->first), buf_bytes(&f->begin));
	uint8_t flags = (uint8_t)((f->end.p ? HAS_END : 0) | (same ? FIRST_IS_BEGIN : 0) | (f->commit_us ? HAS_COMMIT : 0));

	if (buf_u8(out, FORMAT) || buf_varint(out, f->bytes) || buf_varint(out, f->raw_bytes) || buf_varint(out, f->cells) ||
		buf_varint(out, f->tombstones) || buf_varint(out, f->row_deletes) || buf_varint(out, f->family_deletes) ||
		buf_varint(out, f->seq_min) || buf_varint(out, f->seq_max) || buf_be64(out, (uint64_t)f->oldest_us) ||
		buf_be64(out, (uint64_t)f->newest_us) || buf_u8(out, flags) || buf_lstr(out, buf_bytes(&f->begin)))
		return -ENOMEM;
	if (f->end.p && buf_lstr(out, buf_bytes(&f->end)))
		return -ENOMEM;
	if (!same && buf_lstr(out, buf_bytes(&f->first)))
		return -ENOMEM;
	if (buf_lstr(out, buf_bytes(&f->last)))
		return -ENOMEM;
	return f->commit_us ? buf_be64(out, (uint64_t)f->commit_us) : 0;
}

/* Returns false for values that no encoder writes.  With an empty range, for example, a tablet would ignore the file. */
static bool file_is_plausible(const struct tablet_file *f, const struct tfs_bytes *begin, const struct tfs_bytes *end,
	const struct tfs_bytes *first, const struct tfs_bytes *last)
{
	bool no_puts = f->oldest_us == INT64_MAX && f->newest_us == INT64_MIN;

	return bytes_cmp(*first, *last) <= 0 && (!end || bytes_cmp(*begin, *end) < 0) && f->seq_min <= f->seq_max &&
		f->seq_max < UINT64_MAX && (f->oldest_us <= f->newest_us || no_puts);
}

int meta_sst_value_decode(struct tfs_bytes in, struct tablet_file *f)
{
	struct tablet_file x = {.table = f->table, .incarnation = f->incarnation, .number = f->number, .group = f->group};
	struct tfs_bytes begin, end = {0}, first, last;
	uint64_t oldest, newest, commit = 0;
	struct reader r;
	uint8_t flags;
	int err = open_value(in, &r);

	if (err)
		return err;
	if (!get_varint(&r, &x.bytes) || !get_varint(&r, &x.raw_bytes) || !get_varint(&r, &x.cells) ||
		!get_varint(&r, &x.tombstones) || !get_varint(&r, &x.row_deletes) || !get_varint(&r, &x.family_deletes) ||
		!get_varint(&r, &x.seq_min) || !get_varint(&r, &x.seq_max) || !get_be64(&r, &oldest) || !get_be64(&r, &newest) ||
		!get_u8(&r, &flags) || !get_lstr(&r, &begin))
		return -EBADMSG;
	first = begin;
	if ((flags & ~(HAS_END | FIRST_IS_BEGIN | HAS_COMMIT)) || (flags & HAS_END && !get_lstr(&r, &end)) ||
		(!(flags & FIRST_IS_BEGIN) && !get_lstr(&r, &first)) || !get_lstr(&r, &last) ||
		(flags & HAS_COMMIT && !get_be64(&r, &commit)) || reader_left(&r))
		return -EBADMSG;
	if (!(flags & FIRST_IS_BEGIN) != (first.n == 0 || !bytes_eq(first, begin)) || !(flags & HAS_COMMIT) != !commit)
		return -EBADMSG; /* the encoder would not have written this form */
	x.oldest_us = (int64_t)oldest;
	x.newest_us = (int64_t)newest;
	x.commit_us = (int64_t)commit;
	if (!file_is_plausible(&x, &begin, flags & HAS_END ? &end : NULL, &first, &last))
		return -EBADMSG;
	if (buf_set(&x.begin, begin.p, begin.n) || tablet_end_copy(&x.end, end) || buf_set(&x.first, first.p, first.n) ||
		buf_set(&x.last, last.p, last.n)) {
		tablet_file_fini(&x);
		return -ENOMEM;
	}
	*f = x;
	return 0;
}

/* ---- the root file ---- */

static int encode_files(const struct meta_tablet *m, struct buf *out)
{
	uint8_t key[META_SST_KEY_BYTES];
	struct buf value = {0};
	int err = buf_be32(out, m->file_count);

	for (unsigned i = 0; i < m->file_count && !err; i++) {
		meta_sst_key_put(key, &m->files[i]);
		buf_reset(&value);
		err = meta_sst_value_encode(&m->files[i], &value);
		if (!err)
			err = buf_append(out, key, sizeof key);
		if (!err)
			err = buf_lstr(out, buf_bytes(&value));
	}
	buf_fini(&value);
	return err;
}

int meta_root_encode(const struct meta_tablet *m, struct buf *out)
{
	size_t from = out->n;
	struct buf tokens = {0};
	int err = -ENOMEM;

	if (envelope_begin(out, ROOT_MAGIC) || buf_be32(out, m->table) || buf_u8(out, m->last) ||
		buf_lstr(out, buf_bytes(&m->begin)) || buf_lstr(out, buf_bytes(&m->end)) || buf_be64(out, m->server) ||
		buf_be64(out, m->assignment) || buf_be64(out, m->seq_mark) || buf_be64(out, (uint64_t)m->clock_mark) ||
		buf_be64(out, (uint64_t)m->major_us) || buf_be64(out, (uint64_t)m->changes_low_us))
		goto fail;
	if ((err = encode_files(m, out)) || (err = buf_be32(out, m->redo_count)))
		goto fail;
	for (unsigned i = 0; i < m->redo_count; i++)
		if ((err = buf_be64(out, m->redo[i].incarnation)) || (err = buf_be64(out, m->redo[i].lsn)))
			goto fail;
	err = encode_tokens(m->tokens, m->token_count, &tokens);
	if (!err)
		err = buf_lstr(out, buf_bytes(&tokens));
	if (!err)
		err = envelope_end(out, from);
fail:
	buf_fini(&tokens);
	if (err)
		out->n = from;
	return err;
}

/* Accepts files in ascending order only, as they are written; then adding a file is cheap. */
static int decode_file(struct meta_tablet *m, struct reader *r)
{
	struct tablet_file f = {0};
	struct tfs_bytes key, value;
	int err;

	if (!get_bytes(r, META_SST_KEY_BYTES, &key) || !get_lstr(r, &value) || !meta_sst_key_get(key, &f))
		return -EBADMSG;
	if (m->file_count && meta_file_order(&m->files[m->file_count - 1], &f) >= 0)
		return -EBADMSG;
	err = meta_sst_value_decode(value, &f);
	if (err)
		return err;
	return meta_files_add(m, &f, false);
}

static int decode_lists(struct meta_tablet *m, struct reader *r)
{
	struct redo_point p;
	struct tfs_bytes tokens;
	uint32_t count;
	int err = 0;

	if (!get_be32(r, &count) || count > COUNT_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < count && !err; i++)
		err = decode_file(m, r);
	if (err)
		return err;
	if (!get_be32(r, &count) || count > COUNT_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < count && !err; i++) {
		if (!get_be64(r, &p.incarnation) || !get_be64(r, &p.lsn) ||
			(m->redo_count && m->redo[m->redo_count - 1].incarnation >= p.incarnation))
			return -EBADMSG;
		err = meta_redo_add(m, p, false);
	}
	if (err)
		return err;
	return !get_lstr(r, &tokens) || reader_left(r) ? -EBADMSG : decode_tokens(reader_of(tokens), m);
}

int meta_root_decode(struct tfs_bytes in, struct meta_tablet *m)
{
	struct meta_tablet x = {0};
	struct reader r;
	struct tfs_bytes begin, end;
	uint64_t clock, major, changes;
	uint8_t last;
	int err = envelope_open(in, ROOT_MAGIC, &r);

	if (err)
		return err;
	if (!get_be32(&r, &x.table) || !get_u8(&r, &last) || last > 1 || !get_lstr(&r, &begin) || !get_lstr(&r, &end) ||
		!get_be64(&r, &x.server) || !get_be64(&r, &x.assignment) || !get_be64(&r, &x.seq_mark) || !get_be64(&r, &clock) ||
		!get_be64(&r, &major) || !get_be64(&r, &changes))
		return -EBADMSG;
	x.last = last;
	x.clock_mark = (int64_t)clock;
	x.major_us = (int64_t)major;
	x.changes_low_us = (int64_t)changes;
	err = buf_set(&x.begin, begin.p, begin.n) || tablet_end_copy(&x.end, end) ? -ENOMEM : decode_lists(&x, &r);
	if (err)
		meta_tablet_fini(&x);
	else
		*m = x;
	return err;
}

/* ---- files of rows ---- */

static int write_rows(struct meta_rows *w)
{
	char name[48];
	int err;

	snprintf(name, sizeof(name), META_ROWS_DIR "/%u.%u", w->table, w->written++);
	err = w->write(w->arg, name, buf_bytes(&w->rows));
	buf_reset(&w->rows);
	return err;
}

int meta_rows_add(struct meta_rows *w, const struct meta_tablet *m)
{
	struct buf row = {0};
	int err = meta_root_encode(m, &row);

	if (!err && row.n > META_ROWS_MAX)
		err = -EFBIG;
	if (!err && w->rows.n && w->rows.n + row.n > META_ROWS_MAX / 2)
		err = write_rows(w);
	if (!err)
		err = buf_append_bytes(&w->rows, buf_bytes(&row));
	buf_fini(&row);
	return err;
}

int meta_rows_end(struct meta_rows *w)
{
	int err = w->rows.n ? write_rows(w) : 0;

	buf_fini(&w->rows);
	return err;
}

bool meta_rows_can(const struct meta_tablet *m)
{
	struct meta_rows w = {0};
	int err = meta_rows_add(&w, m);

	buf_fini(&w.rows);
	return err != -EFBIG;
}
