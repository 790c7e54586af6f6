/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and decoding of segment headers and records (log_format.h has the
 * layout).  Frame and body have a checksum each.  The body's can be computed
 * before the LSN is assigned (of large bodies, outside the log's lock).  After
 * damage a frame without its body still states a durable LSN.
 */
#include "engine/log/log_format.h"

#include <errno.h>
#include <stdio.h>

static const uint8_t magic[8] = "TFSLOG\r\n";

static uint32_t salt32(uint64_t salt)
{
	return (uint32_t)(salt ^ (salt >> 32));
}

void log_header_encode(uint8_t out[LOG_HEADER_BYTES], const struct log_header *h)
{
	memset(out, 0, LOG_HEADER_BYTES);
	memcpy(out, magic, 8);
	put_be32(out + 8, LOG_VERSION);
	put_be64(out + 16, h->incarnation);
	put_be64(out + 24, h->number);
	put_be64(out + 32, h->first_lsn);
	put_be64(out + 40, h->durable_lsn);
	put_be64(out + 48, h->salt);
	put_be32(out + 60, crc32c(0, out, 60));
	memcpy(out + LOG_HEADER_BYTES / 2, out, 64);
}

static int header_copy(const uint8_t *p, struct log_header *h)
{
	if (memcmp(p, magic, 8) || load_be32(p + 60) != crc32c(0, p, 60))
		return -EBADMSG;
	if (load_be32(p + 8) != LOG_VERSION)
		return -ENOTSUP;
	struct log_header d = {
		.incarnation = load_be64(p + 16),
		.number = load_be64(p + 24),
		.first_lsn = load_be64(p + 32),
		.durable_lsn = load_be64(p + 40),
		.salt = load_be64(p + 48),
	};
	if (load_be32(p + 12) || load_be32(p + 56) || d.first_lsn == 0 || d.durable_lsn >= d.first_lsn)
		return -EBADMSG;
	*h = d;
	return 0;
}

int log_header_decode(struct tfs_bytes s, struct log_header *h)
{
	int err = -EBADMSG;

	if (s.n >= 64)
		err = header_copy(s.p, h);
	if (err == -EBADMSG && s.n >= LOG_HEADER_BYTES / 2 + 64)
		err = header_copy(s.p + LOG_HEADER_BYTES / 2, h);
	return err;
}

static size_t varint_bytes(uint64_t v)
{
	size_t n = 1;

	while (v >= 0x80) {
		v >>= 7;
		n++;
	}
	return n;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static uint8_t *put_bytes(uint8_t *p, struct tfs_bytes s)
{
	if (s.n)
		memcpy(p, s.p, s.n);
	return p + s.n;
}

static bool one_row(const struct log_record *r)
{
	return bytes_eq(r->row_from, r->row_to);
}

bool log_body_bytes(const struct log_record *r, uint32_t *bytes)
{
	const size_t max = LOG_MAX_BODY_BYTES;
	size_t n;

	if (r->row_from.n > max || r->row_to.n > max || r->batch.n > max || r->result.n > max)
		return false;
	n = varint_bytes(r->token.client) + varint_bytes(r->token.number) + varint_bytes(r->token.lowest_unanswered) +
		varint_bytes(r->seq) + varint_bytes(r->row_from.n) + r->row_from.n + 1 + r->batch.n;
	if (!one_row(r))
		n += varint_bytes(r->row_to.n) + r->row_to.n;
	if (r->token.client)
		n += varint_bytes(r->result.n) + r->result.n;
	if (n > max)
		return false;
	*bytes = (uint32_t)n;
	return true;
}

uint32_t log_body_encode(uint8_t *p, uint32_t bytes, const struct log_record *r)
{
	uint8_t *q = p;
	bool one = one_row(r);
	size_t pad = (8 - bytes % 8) % 8;

	q = put_varint(q, r->token.client);
	q = put_varint(q, r->token.number);
	q = put_varint(q, r->token.lowest_unanswered);
	if (r->token.client) {
		q = put_varint(q, r->result.n);
		q = put_bytes(q, r->result);
	}
	q = put_varint(q, r->seq);
	q = put_varint(q, r->row_from.n);
	q = put_bytes(q, r->row_from);
	*q++ = one;
	if (!one) {
		q = put_varint(q, r->row_to.n);
		q = put_bytes(q, r->row_to);
	}
	q = put_bytes(q, r->batch);
	memset(q, 0, pad);
	return crc32c(0, p, bytes + pad);
}

void log_frame_encode(uint8_t p[LOG_FRAME_BYTES], const struct log_frame *f, uint64_t salt)
{
	put_be32(p + 4, LOG_MAGIC);
	put_be64(p + 8, f->lsn);
	put_be64(p + 16, f->durable);
	put_be32(p + 24, f->body_bytes);
	put_be32(p + 28, f->body_crc);
	put_be32(p + 32, (uint32_t)f->kind);
	put_be32(p + 36, f->table);
	put_be32(p, crc32c(salt32(salt), p + 4, LOG_FRAME_BYTES - 4));
}

bool log_frame_decode(struct tfs_bytes s, uint64_t salt, struct log_frame *f)
{
	const uint8_t *p = s.p;
	uint32_t kind;

	if (s.n < LOG_FRAME_BYTES || load_be32(p + 4) != LOG_MAGIC ||
		load_be32(p) != crc32c(salt32(salt), p + 4, LOG_FRAME_BYTES - 4))
		return false;
	kind = load_be32(p + 32);
	if (kind < LOG_DATA || kind > LOG_MARK)
		return false;
	struct log_frame d = {
		.lsn = load_be64(p + 8),
		.durable = load_be64(p + 16),
		.body_bytes = load_be32(p + 24),
		.body_crc = load_be32(p + 28),
		.kind = (enum log_kind)kind,
		.table = load_be32(p + 36),
	};
	if (d.kind == LOG_DATA ? d.body_bytes == 0 || d.body_bytes > LOG_MAX_BODY_BYTES : d.body_bytes != 0)
		return false;
	if (d.kind == LOG_MARK ? d.durable != d.lsn : d.durable >= d.lsn)
		return false;
	*f = d;
	return true;
}

bool log_frame_decode_unsalted(struct tfs_bytes s, struct log_frame *f)
{
	uint32_t crc;

	if (s.n < LOG_FRAME_BYTES || load_be32(s.p + 4) != LOG_MAGIC)
		return false;
	crc = ~load_be32(s.p);
	for (unsigned at = LOG_FRAME_BYTES; at-- > 4;) { /* CRC-32C run backwards, bit by bit */
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 31 ? (crc ^ 0x82f63b78u) << 1 | 1 : crc << 1;
		crc ^= s.p[at];
	}
	return log_frame_decode(s, (uint32_t)~crc, f);
}

void log_frame_peek(const uint8_t *p, uint64_t *lsn, size_t *total_bytes)
{
	struct log_frame f = {.body_bytes = load_be32(p + 24)};

	*lsn = load_be64(p + 8);
	*total_bytes = log_frame_total(&f);
}

bool log_body_decode(const struct log_frame *f, struct tfs_bytes body, struct log_record *r)
{
	size_t padded = log_frame_total(f) - LOG_FRAME_BYTES;
	struct log_record d = {.lsn = f->lsn, .table = f->table};
	uint8_t one = 0;

	if (f->kind != LOG_DATA || body.n < padded || crc32c(0, body.p, padded) != f->body_crc)
		return false;
	struct reader in = reader_of(tfs_bytes_of(body.p, f->body_bytes));

	get_varint(&in, &d.token.client);
	get_varint(&in, &d.token.number);
	get_varint(&in, &d.token.lowest_unanswered);
	if (d.token.client)
		get_lstr(&in, &d.result);
	get_varint(&in, &d.seq);
	get_lstr(&in, &d.row_from);
	get_u8(&in, &one);
	if (one == 1)
		d.row_to = d.row_from;
	else
		get_lstr(&in, &d.row_to);
	get_bytes(&in, reader_left(&in), &d.batch);
	if (in.bad || one > 1)
		return false;
	*r = d;
	return true;
}

void log_segment_name(char dst[32], uint64_t number)
{
	snprintf(dst, 32, "%010llu.log", (unsigned long long)number);
}

bool log_segment_parse(const char *name, uint64_t *number)
{
	uint64_t v = 0;
	char again[32];
	const char *p = name;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	log_segment_name(again, v);
	if (strcmp(name, again))
		return false;
	*number = v;
	return true;
}
