/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a block file.
 *
 * A value unit is compressed in the calling thread and added to `pending`, which is
 * written to the file in pieces of about 512 KiB.  Blocks of keys collect in `run`, and
 * a run of a MiB is added to `pending` as a whole, so that a listing finds the keys of
 * many units in one place.  A run is written twice if it is small beside the units to
 * which it refers, because a block of keys has the names of about 100 values.
 *
 * Bases are the raw bytes of units that later units may resemble, at most
 * 8 MiB.  A base is not compressed against another base, so a read needs at most
 * two units.  Compression against a base takes a second attempt, and a read
 * twice the time, so it is used only if it halves the unit.
 *
 * Durable steps, all in finish:
 *   1 write the last run, sections and trailer, and the second copy if any
 *   2 fdatasync
 * After a crash before 2 no METADATA row lists the file.  free unlinks the file
 * after a failure.
 *
 * After an error every call returns it, because LevelDB's builder continues to
 * append and a later success must not hide a missing block.
 */
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/blockfile.h"
#include "engine/sstable/codec.h"
#include <errno.h>
#include <stdlib.h>

enum {
	WRITE_OUT_BYTES = 1 << 20,
	WRITE_BYTES = 512 << 10,
	RUN_BYTES = 1 << 20,
	COPY_SHARE = 4, /* a run below this part of its units is written twice */
	BASES_BYTES = 8 << 20,
	AGAINST_GAIN = 2,
};

struct base {
	struct buf raw;
	struct blockfile_unit unit;
	bool set;
};

struct blockfile_writer {
	struct file *file;
	struct coder *coder;
	int err;
	bool finished, twice;
	enum sst_codec codec, key_codec;
	uint64_t identity;                          /* the identity of the file */
	uint64_t logical;                           /* the logical size of the ended blocks */
	uint64_t physical;                          /* the bytes of stored units and ended runs, including pending ones */
	uint64_t written;                           /* bytes that are in the file */
	uint64_t out;                               /* how many bytes of the file have been passed to file_write_out */
	uint64_t before;                            /* stored bytes of the ended blocks and their units */
	uint64_t units, unit_bytes, new_unit_bytes; /* new_unit_bytes: bytes of units stored since the last block ended */
	uint32_t max_raw;
	struct buf block, run, pending, against;
	bool block_has_values; /* describes the block that is being built */
	struct base *bases;
	uint32_t bases_n;
	size_t bases_bytes;
	struct buf places;     /* struct bff_place of each block; in the run, physical counts from its beginning */
	size_t run_first;      /* the first block of the run */
	uint64_t run_units;    /* stored bytes of the units to which its blocks refer */
	struct tfs_bytes dict; /* the dictionary, which the coder owns */
};

int blockfile_writer_new(const char *path, const struct sst_options *o, struct blockfile_writer **out)
{
	struct blockfile_writer *w = calloc(1, sizeof(*w));
	const struct sst_sample *s = o->sample;
	int err;

	if (!w)
		return -ENOMEM;
	w->identity = bff_identity(path);
	w->codec = o->codec;
	w->key_codec = o->codec == SST_NONE || o->codec == SST_SNAPPY ? o->codec : SST_LZ4;
	w->twice = o->twice;
	err = coder_new(o->codec, o->level, &w->coder);
	if (!err && !o->no_dictionary && o->codec == SST_ZSTD_DICT && s)
		err = blockfile_writer_train(w, buf_bytes(&s->raw), (const uint32_t *)(const void *)s->lengths.p,
			s->lengths.n / sizeof(uint32_t), s->of_bytes);
	if (err)
		goto out;
	err = file_open(path, FILE_CREATE, &w->file);
	if (err) {
		msg_error("%s: cannot create: %s", path, strerror(-err));
		goto out;
	}
	*out = w;
	return 0;
out:
	blockfile_writer_free(w);
	return err;
}

int blockfile_writer_train(struct blockfile_writer *w, struct tfs_bytes raw, const uint32_t *lengths, size_t n, uint64_t expect)
{
	if (!w->err)
		w->err = coder_train(w->coder, raw, lengths, n, expect, &w->dict);
	return w->err;
}

static struct bff_place *places(const struct blockfile_writer *w)
{
	return (struct bff_place *)(void *)w->places.p;
}

static size_t blocks_ended(const struct blockfile_writer *w)
{
	return w->places.n / sizeof(struct bff_place);
}

int blockfile_writer_append(struct blockfile_writer *w, const void *p, size_t n)
{
	if (!w->err && n > (size_t)BFF_RAW_MAX - w->block.n)
		w->err = -EFBIG;
	if (!w->err)
		w->err = buf_append(&w->block, p, n);
	return w->err;
}

static int write_pending(struct blockfile_writer *w, size_t at_least)
{
	int err;

	if (w->pending.n < at_least || w->pending.n == 0)
		return 0;
	err = file_pwrite(w->file, w->pending.p, w->pending.n, w->written);
	if (err) {
		msg_error("%s: write at %llu: %s", file_path(w->file), (unsigned long long)w->written, strerror(-err));
		return err;
	}
	w->written += w->pending.n;
	if (w->written - w->out >= WRITE_OUT_BYTES) {
		file_write_out(w->file, w->out, w->written - w->out);
		w->out = w->written;
	}
	buf_reset(&w->pending);
	return 0;
}

void blockfile_writer_note(struct blockfile_writer *w, bool has_values)
{
	w->block_has_values = has_values;
}

static void forget_bases(struct blockfile_writer *w)
{
	for (uint32_t i = 0; i < w->bases_n; i++)
		w->bases[i].set = false;
	w->bases_bytes = 0;
}

/* Makes this unit base number `number`, if there is space. */
static int keep_base(struct blockfile_writer *w, uint32_t number, struct tfs_bytes raw, const struct blockfile_unit *unit)
{
	struct base *b;

	if (number == 0)
		forget_bases(w);
	if (raw.n > BASES_BYTES - w->bases_bytes || number > w->bases_n)
		return 0;
	if (number == w->bases_n) {
		b = realloc(w->bases, (number + 1u) * sizeof(*b));
		if (!b)
			return -ENOMEM;
		b[number] = (struct base){0};
		w->bases = b;
		w->bases_n++;
	}
	b = &w->bases[number];
	if (buf_set(&b->raw, raw.p, raw.n))
		return -ENOMEM;
	b->unit = *unit;
	b->set = true;
	w->bases_bytes += raw.n;
	return 0;
}

/* Replaces *payload and *codec by raw compressed against a base, if that halves the payload. */
static int try_against(struct blockfile_writer *w, uint32_t number, struct tfs_bytes raw, uint8_t *codec, struct tfs_bytes *payload)
{
	const struct base *b = number < w->bases_n ? &w->bases[number] : NULL;
	struct tfs_bytes frame;
	int err;

	if (!b || !b->set)
		return 0;
	err = coder_encode_against(w->coder, raw, buf_bytes(&b->raw), &frame);
	if (err || frame.n * AGAINST_GAIN > payload->n)
		return err;
	buf_reset(&w->against);
	err = bff_block_back(&w->against, w->physical - b->unit.offset, b->unit.stored);
	if (!err)
		err = buf_append_bytes(&w->against, frame);
	if (err)
		return err;
	*codec = BFF_CODEC_AGAINST;
	*payload = buf_bytes(&w->against);
	return 0;
}

/* Appends header and payload to out. */
static int piece_append(
	struct buf *out, uint64_t place, uint8_t codec, size_t raw_bytes, struct tfs_bytes payload, uint32_t *stored)
{
	uint8_t header[BFF_BLOCK_HEADER_BYTES];

	bff_block_header(header, place, codec, (uint32_t)raw_bytes, payload);
	*stored = (uint32_t)(sizeof(header) + payload.n);
	return buf_append(out, header, sizeof(header)) || buf_append_bytes(out, payload) ? -ENOMEM : 0;
}

static int unit_store(
	struct blockfile_writer *w, struct tfs_bytes raw, uint32_t keep, uint32_t against, struct blockfile_unit *unit)
{
	struct tfs_bytes payload;
	enum sst_codec used;
	uint8_t codec;
	int err = coder_encode(w->coder, w->codec, raw, &used, &payload);

	codec = (uint8_t)used;
	if (!err && w->codec == SST_ZSTD_DICT && keep == BLOCKFILE_NO_BASE)
		err = try_against(w, against, raw, &codec, &payload);
	unit->offset = w->physical;
	if (!err)
		err = piece_append(&w->pending, w->identity + BFF_UNIT_PLACE + w->physical, codec, raw.n, payload, &unit->stored);
	if (!err && w->codec == SST_ZSTD_DICT && keep != BLOCKFILE_NO_BASE)
		err = keep_base(w, keep, raw, unit);
	if (err)
		return err;
	w->physical += unit->stored;
	w->new_unit_bytes += unit->stored;
	w->units++;
	w->unit_bytes += raw.n;
	return write_pending(w, WRITE_BYTES);
}

int blockfile_writer_unit(
	struct blockfile_writer *w, struct tfs_bytes raw, uint32_t keep, uint32_t against, struct blockfile_unit *unit)
{
	if (!w->err && raw.n > BFF_UNIT_MAX)
		w->err = -EFBIG;
	if (!w->err)
		w->err = unit_store(w, raw, keep, against, unit);
	return w->err;
}

static int end_run(struct blockfile_writer *w)
{
	const bool twice = w->run.n < w->run_units / COPY_SHARE;

	for (size_t i = w->run_first; i < blocks_ended(w); i++) {
		places(w)[i].physical += w->physical;
		places(w)[i].copy = twice ? (uint32_t)w->run.n : 0;
	}
	w->run_first = blocks_ended(w);
	w->run_units = 0;
	for (unsigned i = 0; i < (twice ? 2 : 1); i++) {
		w->physical += w->run.n;
		if (buf_append_bytes(&w->pending, buf_bytes(&w->run)))
			return -ENOMEM;
	}
	buf_reset(&w->run);
	return write_pending(w, WRITE_BYTES);
}

static int block_store(struct blockfile_writer *w)
{
	struct bff_place at = {.logical = w->logical, .physical = w->run.n, .before = w->before};
	struct tfs_bytes raw = buf_bytes(&w->block), payload;
	enum sst_codec used;
	int err = coder_encode(w->coder, w->block_has_values ? w->codec : w->key_codec, raw, &used, &payload);

	if (!err)
		err = piece_append(&w->run, w->identity + w->logical, (uint8_t)used, raw.n, payload, &at.stored);
	if (!err)
		err = buf_append(&w->places, &at, sizeof(at));
	if (err)
		return err;
	w->logical += raw.n;
	w->before += at.stored + w->new_unit_bytes;
	w->run_units += w->new_unit_bytes;
	w->new_unit_bytes = 0;
	if (raw.n > w->max_raw)
		w->max_raw = (uint32_t)raw.n;
	return w->run.n >= RUN_BYTES ? end_run(w) : 0;
}

int blockfile_writer_end_block(struct blockfile_writer *w)
{
	if (w->err || w->block.n == 0)
		return w->err;
	w->err = block_store(w);
	w->block_has_values = false;
	buf_reset(&w->block);
	return w->err;
}

uint64_t blockfile_writer_bytes(const struct blockfile_writer *w)
{
	return w->physical + w->run.n + w->block.n;
}

/* Writes the second copy at a multiple of 4 KiB.  The gap is a hole and reads as zeros. */
static int write_again(struct blockfile_writer *w)
{
	const uint64_t n = w->written, to = copies_apart(n);
	uint8_t *p = malloc(WRITE_BYTES);
	int err = p ? 0 : -ENOMEM;
	size_t got = 0;

	for (uint64_t at = 0; at < n && !err; at += got) {
		err = file_pread(w->file, p, n - at < WRITE_BYTES ? (size_t)(n - at) : WRITE_BYTES, at, &got);
		if (!err && !got)
			err = -EIO;
		if (!err)
			err = file_pwrite(w->file, p, got, to + at);
	}
	free(p);
	if (err)
		msg_error("%s: writing its second copy: %s", file_path(w->file), strerror(-err));
	w->written = to + n;
	return err;
}

static int add_section(struct blockfile_writer *w, struct bff_trailer *t, enum bff_section_id id, struct tfs_bytes s)
{
	int err;

	if (s.n > UINT32_MAX)
		return -EFBIG;
	t->section[id] = (struct bff_section){w->physical, (uint32_t)s.n, crc32c(0, s.p, s.n)};
	w->physical += s.n;
	err = buf_append_bytes(&w->pending, s);
	return err ? err : write_pending(w, WRITE_BYTES);
}

int blockfile_writer_finish(struct blockfile_writer *w, uint64_t keys, uint64_t partitions, struct tfs_bytes filters,
	struct tfs_bytes properties, uint64_t *bytes)
{
	struct bff_trailer t = {.version = BFF_VERSION, .codec = w->codec, .keys = keys, .partitions = partitions};
	uint8_t trailer[BFF_TRAILER_BYTES];
	struct bff_map m;
	struct buf map = {0};
	int err;

	err = blockfile_writer_end_block(w);
	if (!err)
		err = end_run(w);
	t.blocks = blocks_ended(w);
	t.raw_bytes = w->logical;
	t.max_raw_block = w->max_raw;
	t.identity = w->identity;
	if (!err)
		err = buf_append(&w->places,
			&(struct bff_place){.logical = w->logical, .physical = w->physical, .before = w->before},
			sizeof(struct bff_place));
	m = (struct bff_map){places(w), t.blocks, w->units, w->unit_bytes};
	if (!err)
		err = bff_map_encode(&m, &map);
	if (!err)
		err = add_section(w, &t, BFF_DICTIONARY, w->dict);
	if (!err)
		err = add_section(w, &t, BFF_FILTERS, filters);
	if (!err)
		err = add_section(w, &t, BFF_PROPERTIES, properties);
	if (!err)
		err = add_section(w, &t, BFF_MAP, buf_bytes(&map));
	if (err)
		goto out;
	bff_trailer_encode(trailer, &t);
	err = buf_append(&w->pending, trailer, sizeof(trailer));
	if (!err)
		err = write_pending(w, 0);
	if (!err && w->twice)
		err = write_again(w);
	if (err)
		goto out;
	err = file_sync(w->file);
	if (err) {
		msg_error("%s: sync: %s", file_path(w->file), strerror(-err));
		goto out;
	}
	w->finished = true;
	*bytes = w->written;
out:
	w->err = err ? err : -EINVAL; /* nothing may follow */
	buf_fini(&map);
	return err;
}

void blockfile_writer_free(struct blockfile_writer *w)
{
	if (!w)
		return;
	if (w->file && !w->finished) {
		int err = file_unlink(file_path(w->file));

		if (err)
			msg_warning("%s: cannot remove the unfinished file: %s", file_path(w->file), strerror(-err));
	}
	file_close(w->file);
	coder_free(w->coder);
	buf_fini(&w->places);
	buf_fini(&w->block);
	buf_fini(&w->run);
	buf_fini(&w->pending);
	buf_fini(&w->against);
	for (uint32_t i = 0; i < w->bases_n; i++)
		buf_fini(&w->bases[i].raw);
	free(w->bases);
	free(w);
}
