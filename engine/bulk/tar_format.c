/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of an archive of tar, as bytes (tar_format.h).  A header is a block
 * of 512 bytes.  A header of type 'x' comes before it if a time has a fraction
 * of a second, a path is longer than 100 bytes, or a number does not fit into
 * its field.
 *
 * Rejected: libarchive.  100,000 entries with such times take it 0.8 s, twice the
 * time in which a whole export must be done.
 */
#include "engine/bulk/tar_format.h"

#include <errno.h>
#include <stdio.h>

enum { BLOCK = 512, RECORD = 10240, NAME_BYTES = 100 };

/* The fields of a header, and their bytes. */
enum { NAME = 0, MODE = 100, UID = 108, GID = 116, SIZE = 124, MTIME = 136, CHECKSUM = 148, TYPE = 156, MAGIC = 257 };

/* Writes v as octal digits and a NUL into a field.  Returns false if it does not fit. */
static bool put_octal(uint8_t *field, size_t bytes, uint64_t v)
{
	for (size_t i = bytes - 1; i-- > 0; v >>= 3)
		field[i] = (uint8_t)('0' + (v & 7));
	return v == 0;
}

static void put_checksum(uint8_t *h)
{
	unsigned sum = 0;

	memset(h + CHECKSUM, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += h[i];
	(void)put_octal(h + CHECKSUM, 7, sum);
}

/* Appends "LENGTH KEY=VALUE\n"; the length counts its own digits. */
static int append_pax(struct buf *out, const char *key, struct tfs_bytes value)
{
	size_t rest = 1 + strlen(key) + 1 + value.n + 1, n = rest + 1, undo = out->n;
	int err;

	while (n != rest + (size_t)snprintf(NULL, 0, "%zu", n))
		n = rest + (size_t)snprintf(NULL, 0, "%zu", n);
	err = buf_printf(out, "%zu %s=", n, key);
	if (!err)
		err = buf_append_bytes(out, value);
	if (!err)
		err = buf_u8(out, '\n');
	if (err)
		out->n = undo;
	return err;
}

/* "SECONDS[.FRACTION]" */
static struct tfs_bytes time_text(int64_t us, char *text, size_t bytes)
{
	uint64_t v = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
	unsigned fraction = (unsigned)(v % 1000000);
	int n = fraction ? snprintf(text, bytes, "%s%llu.%06u", us < 0 ? "-" : "", (unsigned long long)(v / 1000000), fraction)
			 : snprintf(text, bytes, "%s%llu", us < 0 ? "-" : "", (unsigned long long)(v / 1000000));

	return tfs_bytes_of(text, (size_t)n);
}

/* Appends a header block that is zero. */
static int append_block(struct buf *out)
{
	int err = buf_reserve(out, BLOCK);

	if (err)
		return err;
	memset(out->p + out->n, 0, BLOCK);
	out->n += BLOCK;
	return 0;
}

/* Appends the extended header with these attributes. */
static int append_extended(struct buf *out, struct tfs_bytes attributes)
{
	static const char name[] = "././@PaxHeader";
	uint8_t *h;
	int err = append_block(out);

	if (err)
		return err;
	h = out->p + out->n - BLOCK;
	memcpy(h + NAME, name, sizeof(name));
	(void)put_octal(h + MODE, 8, 0644);
	(void)put_octal(h + UID, 8, 0);
	(void)put_octal(h + GID, 8, 0);
	(void)put_octal(h + SIZE, 12, attributes.n);
	(void)put_octal(h + MTIME, 12, 0);
	h[TYPE] = 'x';
	memcpy(h + MAGIC, "ustar\00000", 8);
	put_checksum(h);
	err = buf_append_bytes(out, attributes);
	return err ? err : tar_append_padding(out, attributes.n);
}

/* Fills a header of an entry, and appends the attributes that do not fit to pax. */
static int fill_header(uint8_t *h, const struct tar_entry *e, struct buf *pax)
{
	int64_t seconds = e->mtime_us / 1000000;
	char text[40];
	int err = 0;

	memcpy(h + NAME, e->path.p, e->path.n < NAME_BYTES ? e->path.n : NAME_BYTES);
	if (e->path.n > NAME_BYTES)
		err = append_pax(pax, "path", e->path);
	(void)put_octal(h + MODE, 8, e->mode & 07777);
	if (!put_octal(h + UID, 8, e->uid) && !err)
		err = append_pax(pax, "uid", tfs_bytes_of(text, (size_t)snprintf(text, sizeof(text), "%u", e->uid)));
	if (!put_octal(h + GID, 8, e->gid) && !err)
		err = append_pax(pax, "gid", tfs_bytes_of(text, (size_t)snprintf(text, sizeof(text), "%u", e->gid)));
	(void)put_octal(h + SIZE, 12, e->size);
	if ((!put_octal(h + MTIME, 12, e->mtime_us < 0 ? 0 : (uint64_t)seconds) || e->mtime_us < 0 || e->mtime_us % 1000000) &&
		!err)
		err = append_pax(pax, "mtime", time_text(e->mtime_us, text, sizeof(text)));
	h[TYPE] = e->is_dir ? '5' : '0';
	memcpy(h + MAGIC, "ustar\00000", 8);
	return err;
}

int tar_append_header(struct buf *out, const struct tar_entry *e)
{
	uint8_t h[BLOCK] = {0};
	struct buf pax = {0};
	size_t undo = out->n;
	int err = fill_header(h, e, &pax);

	if (!err && pax.n)
		err = append_extended(out, buf_bytes(&pax));
	buf_fini(&pax);
	put_checksum(h);
	if (!err)
		err = buf_append(out, h, sizeof(h));
	if (err)
		out->n = undo;
	return err;
}

static int append_zeros(struct buf *out, size_t n)
{
	int err = buf_reserve(out, n);

	if (err)
		return err;
	memset(out->p + out->n, 0, n);
	out->n += n;
	return 0;
}

int tar_append_padding(struct buf *out, uint64_t size)
{
	return append_zeros(out, (size_t)(-size & (BLOCK - 1)));
}

int tar_append_end(struct buf *out, uint64_t bytes)
{
	uint64_t end = bytes + 2 * BLOCK;

	return append_zeros(out, (size_t)((end + RECORD - 1) / RECORD * RECORD - bytes));
}
