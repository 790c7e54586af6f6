/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a seal (doc/formats).  Pure functions; every input may be hostile. */
#include "engine/log/log_seal.h"

#include "engine/base/envelope.h"
#include "engine/log/log_format.h"

#include <errno.h>
#include <stdlib.h>

#define SEAL_MAGIC 0x5446534cu /* "TFSL" */
#define SEGMENT_BYTES 32u

void log_seal_fini(struct log_seal *s)
{
	free(s->segments);
	*s = (struct log_seal){0};
}

int log_seal_encode(const struct log_seal *s, struct buf *out)
{
	const size_t from = out->n;
	int err = -EFBIG;

	if (s->count > LOG_SEAL_SEGMENTS_MOST)
		return err;
	err = envelope_begin(out, SEAL_MAGIC);
	if (!err &&
		(buf_be64(out, s->incarnation) || buf_be64(out, s->salt) || buf_be64(out, s->stated) || buf_be64(out, s->lost) ||
			buf_be32(out, (uint32_t)s->count)))
		err = -ENOMEM;
	for (size_t i = 0; i < s->count && !err; i++) {
		const struct log_seal_segment *g = &s->segments[i];

		if (buf_be64(out, g->number) || buf_be64(out, g->first_lsn) || buf_be64(out, g->last_lsn) || buf_be64(out, g->end))
			err = -ENOMEM;
	}
	if (!err)
		err = envelope_end(out, from);
	if (err)
		out->n = from;
	return err;
}

/* A segment has at least one record, and records of at least a frame each. */
static bool segment_valid(const struct log_seal_segment *g, const struct log_seal_segment *before)
{
	if (!g->first_lsn || g->last_lsn < g->first_lsn || g->end < LOG_HEADER_BYTES || g->end > INT64_MAX || g->end % 8 ||
		(g->end - LOG_HEADER_BYTES) / LOG_FRAME_BYTES <= g->last_lsn - g->first_lsn)
		return false;
	return !before || (g->number > before->number && g->first_lsn > before->last_lsn);
}

int log_seal_decode(struct tfs_bytes in, struct log_seal *out)
{
	struct log_seal s = {0};
	struct reader r;
	uint32_t count = 0;
	int err = envelope_open(in, SEAL_MAGIC, &r);

	if (err)
		return err;
	get_be64(&r, &s.incarnation);
	get_be64(&r, &s.salt);
	get_be64(&r, &s.stated);
	get_be64(&r, &s.lost);
	get_be32(&r, &count);
	if (r.bad || count > LOG_SEAL_SEGMENTS_MOST || reader_left(&r) != (size_t)count * SEGMENT_BYTES)
		return -EBADMSG;
	s.segments = calloc(count ? count : 1, sizeof(*s.segments));
	if (!s.segments)
		return -ENOMEM;
	for (s.count = 0; s.count < count; s.count++) {
		struct log_seal_segment *g = &s.segments[s.count];

		get_be64(&r, &g->number);
		get_be64(&r, &g->first_lsn);
		get_be64(&r, &g->last_lsn);
		get_be64(&r, &g->end);
		if (!segment_valid(g, s.count ? g - 1 : NULL)) {
			log_seal_fini(&s);
			return -EBADMSG;
		}
	}
	*out = s;
	return 0;
}
