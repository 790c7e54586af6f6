/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the local lock service's files and journal; the header has
 * the formats.  The checksum covers everything, also magic and lengths, so a torn
 * or damaged file does not look like a shorter file.
 */
#include "engine/lock/lock_format.h"
#include "engine/base/envelope.h"

#include <errno.h>
#include <stdlib.h>

#define FILE_MAGIC 0x54464c46u     /* TFLF */
#define JOURNAL_MAGIC 0x54464c4au  /* TFLJ */
#define CLUSTER_MAGIC 0x5446434cu  /* TFCL */
#define IDENTITY_MAGIC 0x54464944u /* TFID */
#define STEP_PUT 1u
#define STEP_REMOVE 2u
#define VERSION_MAX ((uint64_t)INT64_MAX) /* below LOCK_ANY; never reached */

static bool name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

static bool component_valid(const char *p, size_t n)
{
	if (n == 0 || n > LOCK_COMPONENT_MAX)
		return false;
	if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!name_byte(p[i]))
			return false;
	return true;
}

bool lock_name_valid(const char *name)
{
	const char *slash = strchr(name, '/');

	if (!slash)
		return component_valid(name, strlen(name));
	return component_valid(name, (size_t)(slash - name)) && component_valid(slash + 1, strlen(slash + 1));
}

int lock_file_encode(struct tfs_bytes contents, uint64_t version, struct buf *out)
{
	size_t from = out->n;

	if (contents.n > LOCK_CONTENTS_MAX)
		return -EFBIG;
	if (buf_reserve(out, 2 * (contents.n + COPIES_APART)) || envelope_begin(out, FILE_MAGIC) || buf_be64(out, version) ||
		buf_append_bytes(out, contents) || envelope_end(out, from) || copies_add(out, from)) {
		out->n = from;
		return -ENOMEM;
	}
	return 0;
}

/* Decodes one copy of a file. */
static int decode_copy(struct tfs_bytes in, struct tfs_bytes *contents, uint64_t *version)
{
	struct reader r;
	struct tfs_bytes c;
	uint64_t v;
	int err = envelope_open(in, FILE_MAGIC, &r);

	if (err)
		return err;
	if (!get_be64(&r, &v) || v == 0 || v > VERSION_MAX || reader_left(&r) > LOCK_CONTENTS_MAX ||
		!get_bytes(&r, reader_left(&r), &c))
		return -EBADMSG;
	*contents = c;
	*version = v;
	return 0;
}

int lock_file_decode(struct tfs_bytes in, struct tfs_bytes *contents, uint64_t *version, bool *whole)
{
	int err = -EBADMSG;

	for (unsigned i = 0; i < 2 && err == -EBADMSG; i++) {
		struct tfs_bytes copy = copies_get(in, i, envelope_length);

		err = decode_copy(copy, contents, version);
		if (!err)
			*whole = copies_whole(in, copy.n);
	}
	return err;
}

static int encode_step(const struct lock_step *s, struct buf *out)
{
	if (buf_u8(out, s->remove ? STEP_REMOVE : STEP_PUT) || buf_lstr(out, tfs_str(s->name)))
		return -ENOMEM;
	if (!s->remove && (buf_be64(out, s->version) || buf_lstr(out, s->contents)))
		return -ENOMEM;
	return 0;
}

int lock_journal_encode(const struct lock_step *steps, unsigned count, struct buf *out)
{
	size_t from = out->n;
	int err = -ENOMEM;

	if (envelope_begin(out, JOURNAL_MAGIC) || buf_be32(out, count))
		goto fail;
	for (unsigned i = 0; i < count; i++)
		if (encode_step(&steps[i], out))
			goto fail;
	err = envelope_end(out, from);
	if (!err)
		err = copies_add(out, from);
	if (!err)
		return 0;
fail:
	out->n = from;
	return err;
}

static bool decode_step(struct reader *r, struct lock_step *s)
{
	struct tfs_bytes name;
	uint8_t kind;

	if (!get_u8(r, &kind) || !get_lstr(r, &name) || name.n > LOCK_NAME_MAX || memchr(name.p, 0, name.n))
		return false;
	if (kind != STEP_PUT && kind != STEP_REMOVE)
		return false;
	memcpy(s->name, name.p, name.n);
	s->name[name.n] = 0;
	if (!lock_name_valid(s->name))
		return false;
	s->remove = kind == STEP_REMOVE;
	s->version = 0;
	s->contents = (struct tfs_bytes){0};
	return s->remove ||
		(get_be64(r, &s->version) && s->version && s->version <= VERSION_MAX && get_lstr(r, &s->contents) &&
			s->contents.n <= LOCK_CONTENTS_MAX);
}

/* Decodes one copy of a journal. */
static int decode_journal_copy(struct tfs_bytes in, struct lock_step **steps, unsigned *count)
{
	struct lock_step *v;
	struct reader r;
	uint32_t n;
	int err = envelope_open(in, JOURNAL_MAGIC, &r);

	if (err)
		return err;
	if (!get_be32(&r, &n) || n == 0 || n > LOCK_STEPS_MAX)
		return -EBADMSG;
	v = calloc(n, sizeof *v);
	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		if (!decode_step(&r, &v[i])) {
			free(v);
			return -EBADMSG;
		}
	}
	if (reader_left(&r)) {
		free(v);
		return -EBADMSG;
	}
	*steps = v;
	*count = n;
	return 0;
}

int lock_journal_decode(struct tfs_bytes in, struct lock_step **steps, unsigned *count)
{
	int err = decode_journal_copy(copies_get(in, 0, envelope_length), steps, count);

	return err == -EBADMSG ? decode_journal_copy(copies_get(in, 1, envelope_length), steps, count) : err;
}

int lock_cluster_encode(uint64_t id, bool complete, struct buf *out)
{
	size_t from = out->n;

	if (envelope_begin(out, CLUSTER_MAGIC) || buf_be64(out, id) || buf_u8(out, complete) || envelope_end(out, from)) {
		out->n = from;
		return -ENOMEM;
	}
	return 0;
}

int lock_cluster_decode(struct tfs_bytes in, uint64_t *id, bool *complete)
{
	struct reader r;
	uint64_t v;
	uint8_t flag;
	int err = envelope_open(in, CLUSTER_MAGIC, &r);

	if (err)
		return err;
	if (!get_be64(&r, &v) || !get_u8(&r, &flag) || v == 0 || flag > 1 || reader_left(&r))
		return -EBADMSG;
	*id = v;
	*complete = flag;
	return 0;
}

int lock_identity_encode(const struct lock_identity *identity, struct buf *out)
{
	size_t from = out->n;

	if (envelope_begin(out, IDENTITY_MAGIC) || buf_append(out, identity->id, LOCK_ID_BYTES) ||
		buf_append(out, identity->secret, LOCK_SECRET_BYTES) || envelope_end(out, from)) {
		out->n = from;
		return -ENOMEM;
	}
	return 0;
}

int lock_identity_decode(struct tfs_bytes in, struct lock_identity *identity)
{
	struct tfs_bytes id, secret;
	struct reader r;
	int err = envelope_open(in, IDENTITY_MAGIC, &r);

	if (err)
		return err;
	if (!get_bytes(&r, LOCK_ID_BYTES, &id) || !get_bytes(&r, LOCK_SECRET_BYTES, &secret) || reader_left(&r))
		return -EBADMSG;
	memcpy(identity->id, id.p, id.n);
	memcpy(identity->secret, secret.p, secret.n);
	return 0;
}
