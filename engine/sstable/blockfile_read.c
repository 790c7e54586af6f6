/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a block file.  Opening reads trailer, map and dictionary.  A block is
 * read by one pread into the thread's scratch memory, checked, and decompressed
 * into the caller's memory.
 *
 * LevelDB's index names a block by its logical offset and length.  If there is
 * no block of exactly this offset and length, the index is damaged.  An open
 * file needs 17 bytes of memory per block: its place, and a flag that its
 * damage has been logged.
 *
 * A block compressed against a base needs that base too.  Neighbours mostly
 * have the same base (versions of one page), so each thread keeps the raw bytes
 * of its last one, identified by the numbers of the opening and the block.
 *
 * In a file of two copies the sections of the trailer end at the end of the
 * first copy.  A section or block that is damaged in one copy is read from the
 * second copy.
 *
 * Rejected: mmap, because a truncated or failing file would send SIGBUS to the
 * daemon; reading ahead, because the kernel does that for rising preads.
 */
#include "engine/sstable/blockfile.h"
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/codec.h"
#include "engine/sstable/table_format.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct blockfile {
	struct file *file;
	uint64_t file_bytes;    /* the size that it should have */
	uint64_t identity;      /* part of the checksums of blocks */
	uint64_t second;        /* offset of the second copy; 0: there is one copy */
	_Atomic bool fell_back; /* a damaged copy has been logged */
	struct bff_trailer trailer;
	struct bff_map map;
	ZSTD_DDict *dict;
	_Atomic uint8_t *logged; /* per block */
	size_t data_block_max;
	uint64_t opening; /* unique number of this opening */
	struct blockfile_counters *counters;
};

static _Atomic uint64_t openings;

static int read_exactly(struct blockfile *b, void *p, size_t n, uint64_t offset)
{
	size_t got;
	int err = file_pread(b->file, p, n, offset, &got);

	if (err)
		return err;
	if (b->counters)
		__atomic_fetch_add(&b->counters->bytes_read, got, __ATOMIC_RELAXED);
	return got == n ? 0 : -EBADMSG;
}

/*
 * Maps an error to the errors that reads return.  Another errno of the file
 * system (EACCES) would look like an error of the cell.
 */
static int as_read_error(int err)
{
	if (err == -EPROTONOSUPPORT)
		return -EBADMSG;
	if (err == -EMFILE || err == -ENFILE || err == -EINTR || err == -EAGAIN)
		return -ENOMEM; /* the process lacks a resource; the file may be good */
	return err == 0 || err == -EBADMSG || err == -ENOMEM ? err : -EIO;
}

static int log_damaged(struct blockfile *b, int err, uint64_t offset, const char *what)
{
	if (err == -EBADMSG)
		msg_damage("%s: damaged: %s at offset %llu", file_path(b->file), what, (unsigned long long)offset);
	else if (err == -EPROTONOSUPPORT)
		msg_error("%s: %s at offset %llu is of a newer format", file_path(b->file), what, (unsigned long long)offset);
	else
		msg_error(
			"%s: reading %s at offset %llu: %s", file_path(b->file), what, (unsigned long long)offset, strerror(-err));
	return as_read_error(err);
}

/* Reads at offset in the first copy, then in the second, until good() returns 0. */
static int read_copies(
	struct blockfile *b, uint8_t *p, size_t n, uint64_t offset, int (*good)(void *arg, struct tfs_bytes s), void *arg)
{
	int err = read_exactly(b, p, n, offset), first;

	if (!err)
		err = good(arg, tfs_bytes_of(p, n));
	if (!err || err == -ENOMEM || !b->second)
		return err;
	first = err;
	err = read_exactly(b, p, n, b->second + offset);
	if (!err)
		err = good(arg, tfs_bytes_of(p, n));
	if (!err && !atomic_exchange(&b->fell_back, true)) {
		msg_count_damage();
		msg_warning("%s: damaged at offset %llu; the file's second copy is read", file_path(b->file),
			(unsigned long long)offset);
	}
	return err == -EBADMSG
		? first
		: err; /* after an I/O error of one copy, damage of the second copy does not prove that the block is lost */
}

static int section_good(void *arg, struct tfs_bytes s)
{
	return bff_section_good(arg, s) ? 0 : -EBADMSG;
}

int blockfile_section(struct blockfile *b, enum bff_section_id id, struct buf *out)
{
	static const char *const names[BFF_SECTIONS] = {"dictionary", "filters", "properties", "block map"};
	struct bff_section *sec = &b->trailer.section[id];
	size_t before = out->n;
	int err;

	if (sec->bytes == 0)
		return 0;
	err = buf_reserve(out, sec->bytes);
	if (err)
		return err;
	err = read_copies(b, out->p + before, sec->bytes, sec->offset, section_good, sec);
	if (err)
		return log_damaged(b, err, sec->offset, names[id]);
	out->n = before + sec->bytes;
	return 0;
}

struct trailer_of {
	struct bff_trailer *trailer;
	uint64_t bytes; /* of the copy */
};

static int trailer_good(void *arg, struct tfs_bytes s)
{
	const struct trailer_of *t = arg;

	return bff_trailer_decode(s, t->bytes, t->trailer);
}

/*
 * Reads the trailer of the file or, if that is damaged, of its first copy, whose end follows
 * from the file's size.  -EBADMSG if the trailer names another file than `as`.
 */
static int read_trailer(struct blockfile *b, const char *as, uint64_t expect)
{
	struct trailer_of t = {.trailer = &b->trailer};
	uint64_t is = bff_identity(as);
	uint8_t bytes[BFF_TRAILER_BYTES];
	int first, err = file_size(b->file, &b->file_bytes);

	if (err)
		return log_damaged(b, err, 0, "size");
	if (expect)
		b->file_bytes = expect;
	if (b->file_bytes < BFF_TRAILER_BYTES)
		return log_damaged(b, -EBADMSG, b->file_bytes, "file too short, end");
	t.bytes = b->file_bytes;
	err = read_copies(b, bytes, sizeof(bytes), b->file_bytes - sizeof(bytes), trailer_good, &t);
	first = err;
	t.bytes = copies_length(b->file_bytes);
	if ((err == -EBADMSG || err == -EIO) && t.bytes >= sizeof(bytes)) {
		b->second = b->file_bytes - t.bytes;
		err = read_copies(b, bytes, sizeof(bytes), t.bytes - sizeof(bytes), trailer_good, &t);
		if (err == -EBADMSG)
			err = first;
	}
	if (err)
		return log_damaged(b, err, b->file_bytes - sizeof(bytes), "trailer");
	b->identity = b->trailer.identity;
	return is && is != b->identity ? log_damaged(b, -EBADMSG, b->file_bytes - sizeof(bytes), "another file: trailer") : 0;
}

/* Returns the size of the largest block, and stores the size of the largest data block in b. */
static uint64_t find_largest(struct blockfile *b)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < b->map.n; i++) {
		size_t n = bff_map_raw(&b->map, i);

		largest = n > largest ? n : largest;
		if (i < blockfile_data_blocks(b))
			b->data_block_max = (size_t)largest;
	}
	return largest;
}

/* Opens the file and reads its trailer. */
static int open_trailer(const char *path, uint64_t bytes, struct blockfile_counters *counters, struct blockfile **out)
{
	struct blockfile *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	b->counters = counters;
	b->opening = ++openings;
	err = file_open(path, FILE_POOLED, &b->file);
	if (err) {
		msg_error("%s: cannot open: %s", path, strerror(-err));
		if (err != -ENOENT)
			err = as_read_error(err);
	} else {
		err = read_trailer(b, path, bytes);
	}
	if (err)
		blockfile_close(b);
	else
		*out = b;
	return err;
}

int blockfile_peek(const char *path, uint64_t bytes, struct blockfile_counters *counters, enum bff_section_id id, struct buf *out)
{
	struct blockfile *b;
	int err = open_trailer(path, bytes, counters, &b);

	if (err)
		return err;
	err = blockfile_section(b, id, out);
	blockfile_close(b);
	return err;
}

static int read_map(struct blockfile *b)
{
	struct buf section = {0};
	int err = blockfile_section(b, BFF_MAP, &section);

	if (!err) {
		err = bff_map_decode(buf_bytes(&section), b->trailer.blocks, b->trailer.raw_bytes,
			b->trailer.section[BFF_DICTIONARY].offset, &b->map);
		if (!err && find_largest(b) != b->trailer.max_raw_block)
			err = -EBADMSG;
		if (err)
			err = log_damaged(b, err, b->trailer.section[BFF_MAP].offset, "block map");
	}
	buf_fini(&section);
	return err;
}

static int read_dictionary(struct blockfile *b)
{
	struct buf section = {0};
	int err = blockfile_section(b, BFF_DICTIONARY, &section);

	if (!err && section.n) {
		err = codec_load_dict(buf_bytes(&section), &b->dict);
		if (err)
			err = log_damaged(b, err, b->trailer.section[BFF_DICTIONARY].offset, "dictionary");
	}
	buf_fini(&section);
	return err;
}

static int make_logged(struct blockfile *b)
{
	b->logged = calloc(b->map.n + 1, sizeof(*b->logged));
	return b->logged ? 0 : -ENOMEM;
}

int blockfile_open(const char *path, uint64_t bytes, struct blockfile_counters *counters, struct blockfile **out)
{
	struct blockfile *b;
	int err = open_trailer(path, bytes, counters, &b);

	if (err)
		return err;
	err = read_map(b);
	if (!err)
		err = read_dictionary(b);
	if (!err)
		err = make_logged(b);
	if (err)
		blockfile_close(b);
	else
		*out = b;
	return err;
}

/* ---- a damaged file ---- */

#define SECTOR_BYTES 512u

/* Reads n bytes, or those before the first sector that cannot be read; *n: how many. */
static int read_readable(struct blockfile *b, uint8_t *p, size_t *n, uint64_t at)
{
	int err = read_exactly(b, p, *n, at);
	size_t done = 0;

	if (err != -EIO)
		return err;
	for (size_t step; done < *n; done += step) {
		step = SECTOR_BYTES - (at + done) % SECTOR_BYTES;
		step = step < *n - done ? step : *n - done;
		err = read_exactly(b, p + done, step, at + done);
		if (err)
			break;
	}
	*n = done;
	return err == -EIO ? 0 : err;
}

/*
 * Returns the length of the stored block at `at`, which is the first length
 * with a right checksum, or 0 if the block is damaged.  A checksum that is
 * right by chance is detected if the bytes can be decompressed without
 * dictionary and base.
 */
static int stored_length(struct blockfile *b, const struct bff_place *at, struct buf *bytes, struct buf *raw, size_t *length)
{
	uint64_t left = b->file_bytes - at->physical;
	struct bff_block block;
	uint8_t where[8];
	uint32_t crc;
	size_t n;
	int err;

	*length = 0;
	buf_reset(bytes);
	err = buf_reserve(bytes, BFF_BLOCK_HEADER_BYTES);
	if (err || left <= BFF_BLOCK_HEADER_BYTES)
		return err;
	n = BFF_BLOCK_HEADER_BYTES;
	err = read_readable(b, bytes->p, &n, at->physical);
	if (err || n < BFF_BLOCK_HEADER_BYTES)
		return err;
	n = load_be32(bytes->p + 8);
	if (n == 0 || n > BFF_RAW_MAX)
		return 0;
	n += BFF_BLOCK_HEADER_BYTES + 16; /* no payload is longer than the raw bytes, except for the distance of a base */
	n = n < left ? n : (size_t)left;
	err = buf_reserve(bytes, n);
	if (!err)
		err = read_readable(b, bytes->p, &n, at->physical);
	if (err || n < BFF_BLOCK_HEADER_BYTES)
		return err;
	put_be64(where, b->identity + at->logical);
	crc = crc32c(crc32c(0, where, sizeof(where)), bytes->p + 4, BFF_BLOCK_HEADER_BYTES - 4);
	for (size_t i = BFF_BLOCK_HEADER_BYTES; i < n; i++) {
		crc = crc32c(crc, bytes->p + i, 1);
		if (crc != load_be32(bytes->p) ||
			bff_block_decode(tfs_bytes_of(bytes->p, i + 1), b->identity + at->logical, &block))
			continue;
		buf_reset(raw);
		err = buf_reserve(raw, block.raw_bytes);
		if (err)
			return err;
		if (block.codec != SST_ZSTD_DICT && !block.back &&
			codec_decode(block.codec, block.payload, NULL, raw->p, block.raw_bytes))
			continue;
		*length = i + 1;
		return 0;
	}
	return 0;
}

/* Makes the map; its last block is LevelDB's footer if *whole. */
static int find_blocks(struct blockfile *b, bool *whole)
{
	struct buf bytes = {0}, raw = {0};
	struct bff_map m = {.at = calloc(1, sizeof(*m.at))};
	int err = m.at ? 0 : -ENOMEM;

	*whole = false;
	while (!err && !*whole) {
		struct bff_place *at;
		size_t length, n;

		err = stored_length(b, &m.at[m.n], &bytes, &raw, &length);
		if (err || !length)
			break;
		at = realloc(m.at, (m.n + 2) * sizeof(*at));
		if (!at) {
			err = -ENOMEM;
			break;
		}
		m.at = at;
		n = load_be32(bytes.p + 8);
		at[m.n + 1] = (struct bff_place){at[m.n].logical + n, at[m.n].physical + length};
		m.n++;
		*whole = n == TABLE_FOOTER_BYTES && table_footer_good(tfs_bytes_of(raw.p, n), &m);
	}
	buf_fini(&bytes);
	buf_fini(&raw);
	b->map = m;
	return err;
}

/* Finds the dictionary without a trailer: it is the zstd frame after the blocks. */
static int find_dictionary(struct blockfile *b)
{
	uint64_t from = b->map.at[b->map.n].physical;
	size_t n = b->file_bytes - from < 16u << 20 ? (size_t)(b->file_bytes - from) : 16u << 20;
	struct buf bytes = {0};
	int err = buf_reserve(&bytes, n + 1);

	if (!err)
		err = read_readable(b, bytes.p, &n, from);
	if (!err && (n = codec_frame_bytes(tfs_bytes_of(bytes.p, n))) != 0)
		err = codec_load_dict(tfs_bytes_of(bytes.p, n), &b->dict);
	buf_fini(&bytes);
	return err;
}

int blockfile_open_damaged(
	const char *path, const char *as, uint64_t bytes, struct blockfile **out, size_t *data_blocks, bool *whole)
{
	struct blockfile *b = calloc(1, sizeof(*b));
	bool trailer = false;
	int err = b ? file_open(path, FILE_READ, &b->file) : -ENOMEM;

	if (!err) {
		b->opening = ++openings;
		err = read_trailer(b, as, bytes);
		trailer = !err;
		if (!trailer)
			b->identity = bff_identity(as);
	}
	if (!err)
		err = read_map(b);
	*whole = !err;
	if (err == -EBADMSG || (err == -EIO && b->file))
		err = find_blocks(b, whole);
	if (!err)
		err = trailer ? read_dictionary(b) : *whole ? find_dictionary(b) : 0;
	if (!err || err == -EBADMSG || (err == -EIO && b->file))
		err = make_logged(b);
	if (err) {
		blockfile_close(b);
		return err;
	}
	*data_blocks = *whole ? blockfile_data_blocks(b) : b->map.n;
	*out = b;
	return 0;
}

void blockfile_close(struct blockfile *b)
{
	if (!b)
		return;
	file_close(b->file);
	bff_map_fini(&b->map);
	ZSTD_freeDDict(b->dict);
	free((void *)b->logged);
	free(b);
}

const char *blockfile_path(const struct blockfile *b)
{
	return file_path(b->file);
}

const struct bff_trailer *blockfile_trailer(const struct blockfile *b)
{
	return &b->trailer;
}

const struct bff_map *blockfile_map(const struct blockfile *b)
{
	return &b->map;
}

uint64_t blockfile_file_bytes(const struct blockfile *b)
{
	return b->file_bytes;
}

uint64_t blockfile_copy_bytes(const struct blockfile *b)
{
	return b->second ? b->file_bytes - b->second : 0;
}

size_t blockfile_data_blocks(const struct blockfile *b)
{
	return b->map.n > TABLE_UNITS ? b->map.n - TABLE_UNITS : 0;
}

size_t blockfile_data_block_max(const struct blockfile *b)
{
	return b->data_block_max;
}

size_t blockfile_memory(const struct blockfile *b)
{
	return sizeof(*b) + (b->map.n + 1) * (sizeof(*b->map.at) + 1) + ZSTD_sizeof_DDict(b->dict);
}

struct block_at {
	uint64_t identity;
	const struct bff_place *at;
	struct bff_block *block;
};

static int block_good(void *arg, struct tfs_bytes s)
{
	const struct block_at *b = arg;
	int err = bff_block_decode(s, b->identity + b->at->logical, b->block);

	return !err && b->block->raw_bytes != b->at[1].logical - b->at[0].logical ? -EBADMSG : err;
}

int blockfile_stored(struct blockfile *b, size_t i, struct buf *out)
{
	struct bff_block block;
	struct block_at of = {b->identity, &b->map.at[i], &block};
	size_t stored = (size_t)(of.at[1].physical - of.at[0].physical);
	int err = buf_reserve(out, stored);

	if (!err)
		err = read_copies(b, out->p + out->n, stored, of.at->physical, block_good, &of);
	if (!err)
		out->n += stored;
	return err;
}

/* Reads block i as stored into the thread's scratch and checks it. */
static int block_fetch(struct blockfile *b, size_t i, enum codec_scratch where, struct bff_block *block)
{
	const struct bff_place *at = &b->map.at[i];
	struct block_at of = {b->identity, at, block};
	size_t stored = (size_t)(at[1].physical - at[0].physical);
	uint8_t *p = codec_scratch(where, stored);
	int err;

	if (!p)
		return -ENOMEM;
	err = read_copies(b, p, stored, at->physical, block_good, &of);
	if (!err && b->counters && i < blockfile_data_blocks(b))
		__atomic_fetch_add(&b->counters->blocks_read, 1, __ATOMIC_RELAXED);
	return err;
}

/* Reads the raw bytes of block i, a base, into the thread's scratch. */
static int read_base(struct blockfile *b, size_t i, struct tfs_bytes *out)
{
	size_t raw = bff_map_raw(&b->map, i);
	struct scratch_base *base = codec_scratch_base();
	struct bff_block block;
	uint8_t *p;
	int err;

	if (!base)
		return -ENOMEM;
	if (base->file != b->opening || base->block != i) {
		err = block_fetch(b, i, SCRATCH_BASE_STORED, &block);
		if (err)
			return err;
		if (block.back)
			return -EBADMSG;
		p = codec_scratch(SCRATCH_BASE, raw);
		err = p ? codec_decode(block.codec, block.payload, b->dict, p, raw) : -ENOMEM;
		if (err)
			return err;
		base->file = b->opening;
		base->block = i;
	}
	*out = tfs_bytes_of(base->p, raw);
	return 0;
}

static int read_block(struct blockfile *b, size_t i, void *dst)
{
	struct bff_block block;
	struct tfs_bytes base;
	int err = block_fetch(b, i, SCRATCH_STORED, &block);

	if (err || !block.back)
		return err ? err : codec_decode(block.codec, block.payload, b->dict, dst, block.raw_bytes);
	err = block.back <= i ? read_base(b, i - (size_t)block.back, &base) : -EBADMSG;
	return err ? err : codec_decode_against(block.payload, base, dst, block.raw_bytes);
}

int blockfile_read(struct blockfile *b, uint64_t logical, size_t n, void *dst)
{
	int64_t i = bff_map_find(&b->map, logical);
	const struct bff_place *at = i < 0 ? NULL : &b->map.at[i];
	int err;

	if (!at || at[0].logical != logical || at[1].logical - at[0].logical != n)
		return log_damaged(b, -EBADMSG, at ? at->physical : b->file_bytes, "table index: no such block,");
	err = read_block(b, (size_t)i, dst);
	if (err && err != -ENOMEM && !atomic_exchange_explicit(&b->logged[i], 1, memory_order_relaxed))
		log_damaged(b, err, at->physical, "block");
	return as_read_error(err);
}

int blockfile_unsound(struct blockfile *b, uint64_t logical)
{
	int64_t i = bff_map_find(&b->map, logical);

	if (i < 0 || !atomic_exchange_explicit(&b->logged[i], 1, memory_order_relaxed))
		log_damaged(b, -EBADMSG, i < 0 ? 0 : b->map.at[i].physical, "table structure");
	return -EBADMSG;
}

uint64_t blockfile_physical(const struct blockfile *b, uint64_t logical)
{
	int64_t i = bff_map_find(&b->map, logical);

	return i < 0 ? b->map.at[b->map.n].physical : b->map.at[i].physical;
}
