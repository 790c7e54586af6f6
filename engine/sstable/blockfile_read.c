/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a block file.  Opening reads trailer, map and dictionary.  A block is
 * read by one pread into the thread's scratch memory, checked, and decompressed
 * into the caller's memory.
 *
 * LevelDB's index names a block by its logical offset and length.  If there is
 * no block of exactly this offset and length, the index is damaged.  An open
 * file needs 33 bytes of memory per block: its place, and a flag that its
 * damage has been logged.  Units need none: the entry of a key has the place of its
 * unit.
 *
 * A unit compressed against a base needs that base too.  Neighbours mostly have the same base
 * (versions of one page), so each thread keeps the raw bytes of its last base, identified by
 * the number of the opening and the unit's offset.
 *
 * In a file of two copies the sections of the trailer end at the end of the
 * first copy.  A section or block that is damaged in one copy is read from the
 * second copy.  In a file of one copy most blocks of keys have a second one.
 *
 * Rejected: mmap, because a truncated or failing file would send SIGBUS to the
 * daemon; a cache of all units, because the cell cache has what point reads want and a
 * long scan reads each unit once.
 */
#include "engine/sstable/blockfile.h"
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/codec.h"
#include "engine/sstable/pieces.h"
#include "engine/sstable/table_format.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
	AHEAD_BYTES = 64 << 10, /* bytes of units that are read at once after several units in order */
	AHEAD_BYTES_FIRST = 8 << 10,
	UNIT_LOGGED_BYTES = 64,
};

struct blockfile {
	struct file *file;
	uint64_t file_bytes;    /* the size that it should have */
	uint64_t identity;      /* part of the checksums of blocks */
	uint64_t second;        /* offset of the second copy; 0: there is one copy */
	_Atomic bool fell_back; /* a damaged copy has been logged */
	struct bff_trailer trailer;
	struct bff_map map;
	ZSTD_DDict *dict;
	_Atomic uint8_t *logged;                        /* per block */
	_Atomic uint8_t unit_logged[UNIT_LOGGED_BYTES]; /* bits, by a hash of the offset */
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

/* Reads at offset, then `apart` bytes later if that is not 0, until good() returns 0. */
static int read_copies(struct blockfile *b, uint8_t *p, size_t n, uint64_t offset, uint64_t apart,
	int (*good)(void *arg, struct tfs_bytes s), void *arg)
{
	int err = read_exactly(b, p, n, offset), first;

	if (!err)
		err = good(arg, tfs_bytes_of(p, n));
	if (!err || err == -ENOMEM || !apart)
		return err;
	first = err;
	err = read_exactly(b, p, n, offset + apart);
	if (!err)
		err = good(arg, tfs_bytes_of(p, n));
	if (!err && !atomic_exchange(&b->fell_back, true)) {
		msg_count_damage();
		msg_warning("%s: damaged at offset %llu; the second copy is read", file_path(b->file), (unsigned long long)offset);
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
	err = read_copies(b, out->p + before, sec->bytes, sec->offset, b->second, section_good, sec);
	if (err)
		return log_damaged(b, err, sec->offset, names[id]);
	out->n = before + sec->bytes;
	return 0;
}

struct trailer_of {
	struct bff_trailer *trailer;
	uint64_t bytes; /* the size of the copy */
};

static int trailer_good(void *arg, struct tfs_bytes s)
{
	const struct trailer_of *t = arg;

	return bff_trailer_decode(s, t->bytes, t->trailer);
}

/*
 * Reads the trailer at the end of the file.  If that is damaged, reads the trailer of the first
 * copy; the file's size shows where that copy ends.  -EBADMSG if the trailer names another file
 * than `as`.
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
	err = read_copies(b, bytes, sizeof(bytes), b->file_bytes - sizeof(bytes), b->second, trailer_good, &t);
	first = err;
	t.bytes = copies_length(b->file_bytes);
	if ((err == -EBADMSG || err == -EIO) && t.bytes >= sizeof(bytes)) {
		b->second = b->file_bytes - t.bytes;
		err = read_copies(b, bytes, sizeof(bytes), t.bytes - sizeof(bytes), b->second, trailer_good, &t);
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

/* Reads *n bytes, or the bytes before the first sector that cannot be read.  Sets *n to their number. */
static int read_readable(void *arg, uint8_t *p, size_t *n, uint64_t at)
{
	struct blockfile *b = arg;
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
		err = pieces_find(&(struct pieces){read_readable, b, b->file_bytes, b->identity}, &b->map, whole);
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

static uint64_t copy_apart(const struct blockfile *b, const struct bff_place *at)
{
	return b->second ? b->second : at->copy;
}

int blockfile_bytes(struct blockfile *b, uint64_t offset, size_t n, struct buf *out)
{
	int err = buf_reserve(out, n);

	if (!err)
		err = read_exactly(b, out->p + out->n, n, offset);
	out->n += err ? 0 : n;
	return err;
}

int blockfile_stored(struct blockfile *b, size_t i, struct buf *out)
{
	struct bff_block block;
	struct block_at of = {b->identity, &b->map.at[i], &block};
	size_t stored = of.at->stored;
	int err = buf_reserve(out, stored);

	if (!err)
		err = read_copies(b, out->p + out->n, stored, of.at->physical, copy_apart(b, of.at), block_good, &of);
	if (!err)
		out->n += stored;
	return err;
}

/* Reads block i as stored into the thread's scratch and checks it. */
static int block_fetch(struct blockfile *b, size_t i, struct bff_block *block)
{
	const struct bff_place *at = &b->map.at[i];
	struct block_at of = {b->identity, at, block};
	size_t stored = at->stored;
	uint8_t *p = codec_scratch(SCRATCH_STORED, stored);
	int err;

	if (!p)
		return -ENOMEM;
	err = read_copies(b, p, stored, at->physical, copy_apart(b, at), block_good, &of);
	if (!err && b->counters && i < blockfile_data_blocks(b))
		__atomic_fetch_add(&b->counters->blocks_read, 1, __ATOMIC_RELAXED);
	return err;
}

static int read_block(struct blockfile *b, size_t i, void *dst)
{
	struct bff_block block;
	int err = block_fetch(b, i, &block);

	if (err)
		return err;
	return block.back ? -EBADMSG : codec_decode(block.codec, block.payload, b->dict, dst, block.raw_bytes);
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

uint64_t blockfile_before(const struct blockfile *b, uint64_t logical)
{
	int64_t i = bff_map_find(&b->map, logical);

	return b->map.at[i < 0 ? b->map.n : (size_t)i].before;
}

/* ---- units ---- */
void blockfile_window_fini(struct blockfile_window *w)
{
	buf_fini(&w->raw);
	buf_fini(&w->ahead);
	*w = (struct blockfile_window){0};
}

/* Returns the end of units and blocks. */
static uint64_t pieces_end(const struct blockfile *b)
{
	return b->map.at[b->map.n].physical;
}

/* *out: the stored bytes, in the window or in the thread's scratch. */
static int unit_stored(struct blockfile *b, struct blockfile_window *w, uint64_t offset, uint32_t stored, struct tfs_bytes *out)
{
	uint64_t end = pieces_end(b), n = stored;
	uint8_t *p;
	int err;

	if (stored < BFF_BLOCK_HEADER_BYTES || offset > end || stored > end - offset)
		return -EBADMSG;
	if (w->ahead.n && offset >= w->ahead_at && offset - w->ahead_at <= w->ahead.n &&
		stored <= w->ahead.n - (offset - w->ahead_at)) {
		*out = tfs_bytes_of(w->ahead.p + (offset - w->ahead_at), stored);
		return 0;
	}
	w->ahead.n = 0;
	if (!w->next || offset != w->next || stored > AHEAD_BYTES / 2) {
		p = codec_scratch(SCRATCH_STORED, stored);
		w->step = 0;
	} else {
		w->step = !w->step ? AHEAD_BYTES_FIRST : w->step < AHEAD_BYTES ? 2 * w->step : AHEAD_BYTES;
		n = w->step < 2 * stored ? 2 * (uint64_t)stored : w->step;
		n = end - offset < n ? end - offset : n;
		p = buf_reserve(&w->ahead, (size_t)n) ? NULL : w->ahead.p;
		w->ahead_at = offset;
	}
	if (!p)
		return -ENOMEM;
	err = read_exactly(b, p, (size_t)n, offset);
	if (err && p == w->ahead.p) { /* a part beyond the unit cannot be read */
		p = codec_scratch(SCRATCH_STORED, stored);
		n = stored;
		err = p ? read_exactly(b, p, stored, offset) : -ENOMEM;
	}
	if (!err && p == w->ahead.p)
		w->ahead.n = (size_t)n;
	*out = tfs_bytes_of(p, stored);
	return err;
}

static int unit_check(struct blockfile *b, uint64_t offset, struct tfs_bytes stored, struct bff_block *unit)
{
	int err = bff_block_decode(stored, b->identity + BFF_UNIT_PLACE + offset, unit);

	if (!err && b->counters)
		__atomic_fetch_add(&b->counters->blocks_read, 1, __ATOMIC_RELAXED);
	return !err && unit->raw_bytes > BFF_UNIT_MAX ? -EBADMSG : err;
}

/* Reads the raw bytes of a unit that is a base into the thread's scratch. */
static int read_base(struct blockfile *b, uint64_t offset, uint32_t stored, struct tfs_bytes *out)
{
	struct scratch_base *base = codec_scratch_base();
	struct bff_block unit;
	uint8_t *p;
	int err;

	if (!base)
		return -ENOMEM;
	if (base->file != b->opening || base->unit != offset) {
		p = codec_scratch(SCRATCH_BASE_STORED, stored);
		err = p ? read_exactly(b, p, stored, offset) : -ENOMEM;
		if (!err)
			err = unit_check(b, offset, tfs_bytes_of(p, stored), &unit);
		if (err)
			return err;
		if (unit.back)
			return -EBADMSG;
		p = codec_scratch(SCRATCH_BASE, unit.raw_bytes);
		err = p ? codec_decode(unit.codec, unit.payload, b->dict, p, unit.raw_bytes) : -ENOMEM;
		if (err)
			return err;
		base->file = b->opening;
		base->unit = offset;
		base->bytes = unit.raw_bytes;
	}
	*out = tfs_bytes_of(base->p, base->bytes);
	return 0;
}

static int read_unit(struct blockfile *b, struct blockfile_window *w, uint64_t offset, uint32_t stored)
{
	struct tfs_bytes bytes, base;
	struct bff_block unit;
	int err = unit_stored(b, w, offset, stored, &bytes);

	if (!err)
		err = unit_check(b, offset, bytes, &unit);
	buf_reset(&w->raw);
	if (!err)
		err = buf_reserve(&w->raw, unit.raw_bytes);
	if (!err && !unit.back) {
		err = codec_decode(unit.codec, unit.payload, b->dict, w->raw.p, unit.raw_bytes);
	} else if (!err) {
		err = unit.back <= offset ? read_base(b, offset - unit.back, unit.base_stored, &base) : -EBADMSG;
		if (!err)
			err = codec_decode_against(unit.payload, base, w->raw.p, unit.raw_bytes);
	}
	if (!err)
		w->raw.n = unit.raw_bytes;
	return err;
}

/* Returns true if damage of the unit has not been logged yet. */
static bool unit_log_once(struct blockfile *b, uint64_t offset)
{
	unsigned bit = (unsigned)(offset * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (UNIT_LOGGED_BYTES * 8);

	return !(atomic_fetch_or(&b->unit_logged[bit / 8], (uint8_t)(1u << bit % 8)) >> bit % 8 & 1);
}

int blockfile_read_unit(struct blockfile *b, struct blockfile_window *w, uint64_t offset, uint32_t stored)
{
	int err;

	if (w->unit == offset + 1)
		return 0;
	w->unit = 0;
	w->asked = offset;
	err = read_unit(b, w, offset, stored);
	if (!err) {
		w->unit = offset + 1;
		w->next = offset + stored;
	} else if (err != -ENOMEM && unit_log_once(b, offset)) {
		log_damaged(b, err, offset, "value unit");
	}
	return as_read_error(err);
}

int blockfile_unit_unsound(struct blockfile *b, uint64_t offset)
{
	if (unit_log_once(b, offset))
		log_damaged(b, -EBADMSG, offset, "value unit");
	return -EBADMSG;
}
