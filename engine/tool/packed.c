/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed files (packed.h).  libarchive reads and writes one as a filter around the format
 * "raw", which is one entry that contains all bytes.
 */
#include "engine/tool/packed.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>

enum { PIECE_BYTES = 1 << 16 };

/* ---- reading ---- */

struct unpacker {
	enum packing packing;
	ssize_t (*read)(void *arg, void *p, size_t n);
	void *arg;
	struct archive *archive;
	bool begun, ended; /* ended: read has returned 0 */
	int err;           /* of read */
	uint8_t piece[PIECE_BYTES];
};

static la_ssize_t next_piece(struct archive *a, void *arg, const void **bytes)
{
	struct unpacker *u = arg;
	ssize_t n = u->read(u->arg, u->piece, sizeof(u->piece));

	*bytes = u->piece;
	u->ended = n == 0;
	if (n >= 0)
		return n;
	u->err = (int)n;
	archive_set_error(a, (int)-n, "the input cannot be read");
	return -1;
}

int unpacker_new(enum packing packing, ssize_t (*read)(void *arg, void *p, size_t n), void *arg, struct unpacker **out)
{
	struct unpacker *u = calloc(1, sizeof(*u));
	int r = ARCHIVE_FATAL;

	if (!u)
		return -ENOMEM;
	*u = (struct unpacker){.packing = packing, .read = read, .arg = arg, .archive = archive_read_new()};
	if (u->archive && archive_read_support_format_raw(u->archive) == ARCHIVE_OK)
		r = packing == PACKED_GZ ? archive_read_support_filter_gzip(u->archive)
					 : archive_read_support_filter_zstd(u->archive);
	if (r < ARCHIVE_WARN) {
		unpacker_free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

static int begin(struct unpacker *u, const char **why)
{
	static const int filters[] = {[PACKED_GZ] = ARCHIVE_FILTER_GZIP, [PACKED_ZST] = ARCHIVE_FILTER_ZSTD};
	struct archive_entry *e;
	int r = archive_read_open(u->archive, u, NULL, next_piece, NULL);

	u->begun = true;
	if (r >= ARCHIVE_WARN && archive_filter_code(u->archive, 0) != filters[u->packing]) {
		*why = u->packing == PACKED_GZ ? "not a file of gzip" : "not a file of zstd";
		return -EBADMSG;
	}
	if (r >= ARCHIVE_WARN)
		r = archive_read_next_header(u->archive, &e);
	return r >= ARCHIVE_WARN ? r == ARCHIVE_EOF : -EIO;
}

ssize_t unpacker_read(struct unpacker *u, void *p, size_t n, const char **why)
{
	int r = u->begun ? 0 : begin(u, why);
	la_ssize_t got;

	if (u->err)
		return u->err;
	if (r == -EBADMSG || r == 1)
		return r == 1 ? 0 : r;
	got = r ? -1 : archive_read_data(u->archive, p, n);
	if (got >= 0)
		return got;
	if (u->err)
		return u->err;
	*why = u->ended ? "the compressed data has no end: the file is cut off" : "the compressed data is damaged";
	return -EBADMSG;
}

void unpacker_free(struct unpacker *u)
{
	if (u && u->archive)
		archive_read_free(u->archive);
	free(u);
}

/* ---- writing ---- */

struct packer {
	int (*write)(void *arg, struct tfs_bytes s);
	void *arg;
	struct archive *archive;
	int err; /* of write */
};

static la_ssize_t write_piece(struct archive *a, void *arg, const void *bytes, size_t n)
{
	struct packer *p = arg;

	p->err = p->write(p->arg, tfs_bytes_of(bytes, n));
	if (!p->err)
		return (la_ssize_t)n;
	archive_set_error(a, -p->err, "the output cannot be written");
	return -1;
}

static int open_archive(struct packer *p, enum packing packing)
{
	struct archive_entry *e = archive_entry_new();
	struct archive *a = p->archive;
	bool opened = false;

	if (e && a) {
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_pathname(e, "data");
		opened = archive_write_set_format_raw(a) >= ARCHIVE_WARN &&
			(packing == PACKED_GZ ? archive_write_add_filter_gzip(a) : archive_write_add_filter_zstd(a)) >=
				ARCHIVE_WARN &&
			/* The same cells are the same bytes: no time in the header, and no zeros behind the end. */
			(packing != PACKED_GZ || archive_write_set_filter_option(a, "gzip", "timestamp", NULL) >= ARCHIVE_WARN) &&
			archive_write_set_bytes_in_last_block(a, 1) >= ARCHIVE_WARN &&
			archive_write_open(a, p, NULL, write_piece, NULL) >= ARCHIVE_WARN &&
			archive_write_header(a, e) >= ARCHIVE_WARN;
	}
	archive_entry_free(e);
	return opened ? 0 : p->err ? p->err : -ENOMEM;
}

int packer_new(enum packing packing, int (*write)(void *arg, struct tfs_bytes s), void *arg, struct packer **out)
{
	struct packer *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	*p = (struct packer){.write = write, .arg = arg, .archive = archive_write_new()};
	err = open_archive(p, packing);
	if (err)
		packer_free(p);
	else
		*out = p;
	return err;
}

int packer_write(struct packer *p, struct tfs_bytes s)
{
	while (s.n) {
		la_ssize_t n = archive_write_data(p->archive, s.p, s.n);

		if (n <= 0)
			return p->err ? p->err : -EIO;
		s = tfs_bytes_of(s.p + n, s.n - (size_t)n);
	}
	return 0;
}

int packer_end(struct packer *p)
{
	int r = archive_write_close(p->archive);

	return p->err ? p->err : r < ARCHIVE_WARN ? -EIO : 0;
}

void packer_free(struct packer *p)
{
	if (!p)
		return;
	if (p->archive) {
		(void)archive_write_fail(p->archive);
		archive_write_free(p->archive);
	}
	free(p);
}
