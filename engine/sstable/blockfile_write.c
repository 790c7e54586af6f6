/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a block file.
 *
 * Appends collect in `unit`.  blockfile_writer_end_unit compresses it in the calling thread and
 * adds the stored block to `pending`, which is written to the file in pieces of
 * about 512 KiB.  If a dictionary must be trained and there is no sample, the
 * first units, up to 4 MiB, stay uncompressed in memory until it is trained on
 * them.
 *
 * Bases are the raw bytes of units that later units may resemble, at most
 * 8 MiB.  A base is not compressed against another, so a read needs at most
 * two blocks.  Compression against a base takes a second attempt, and a read
 * twice the time, so it is used only if it halves the unit.
 *
 * Durable steps, all in finish:
 *   1 write the last blocks, sections and trailer, and the second copy if any
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
	TRAIN_BYTES = 4 << 20,
	BASES_BYTES = 8 << 20,
	UNTRAINED_SHARE = 8, /* a table larger than the untrained units is estimated as this multiple of their size */
	AGAINST_GAIN = 2,
};

struct note {
	uint32_t length;
	uint32_t keep, against;
};

struct base {
	struct buf raw;
	size_t unit;
	bool set;
};

struct blockfile_writer {
	struct file *file;
	struct coder *coder;
	int err;
	bool finished, twice;
	enum sst_codec codec;
	uint64_t identity; /* the identity of the file */
	uint64_t logical;  /* ended units */
	uint64_t physical; /* stored blocks, pending included */
	uint64_t written;  /* in the file */
	uint64_t out;      /* how much of it has been passed to file_write_out */
	uint32_t max_raw;
	struct buf unit, pending, against;
	struct note note; /* describes the unit that is being built */
	struct base *bases;
	uint32_t bases_n;
	size_t bases_bytes;
	struct buf ends; /* the end of each unit, as struct bff_place */
	/* While training: */
	bool training;
	struct buf untrained, untrained_notes; /* notes: struct note of each unit */
	struct tfs_bytes dict;                 /* the coder's */
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
	w->twice = o->twice;
	w->training = !o->no_dictionary && o->codec == SST_ZSTD_DICT;
	w->note = (struct note){.keep = BLOCKFILE_NO_BASE, .against = BLOCKFILE_NO_BASE};
	err = coder_new(o->codec, o->level, &w->coder);
	if (!err && w->training && s) {
		w->training = false;
		err = coder_train(w->coder, buf_bytes(&s->raw), (const uint32_t *)(const void *)s->lengths.p,
			s->lengths.n / sizeof(uint32_t), s->of_bytes, &w->dict);
	}
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

static size_t units_ended(const struct blockfile_writer *w)
{
	return w->ends.n / sizeof(struct bff_place);
}

int blockfile_writer_append(struct blockfile_writer *w, const void *p, size_t n)
{
	if (!w->err && n > (size_t)BFF_RAW_MAX - w->unit.n)
		w->err = -EFBIG;
	if (!w->err)
		w->err = buf_append(&w->unit, p, n);
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

void blockfile_writer_note(struct blockfile_writer *w, uint32_t keep, uint32_t against)
{
	w->note.keep = keep;
	w->note.against = against;
}

static void forget_bases(struct blockfile_writer *w)
{
	for (uint32_t i = 0; i < w->bases_n; i++)
		w->bases[i].set = false;
	w->bases_bytes = 0;
}

/* Makes the next unit base number `number`, if there is space. */
static int keep_base(struct blockfile_writer *w, uint32_t number, struct tfs_bytes raw)
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
	b->unit = units_ended(w);
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
	err = bff_block_back(&w->against, units_ended(w) - b->unit);
	if (!err)
		err = buf_append_bytes(&w->against, frame);
	if (err)
		return err;
	*codec = BFF_CODEC_AGAINST;
	*payload = buf_bytes(&w->against);
	return 0;
}

/* Compresses one unit and adds it to pending and the map. */
static int unit_store(struct blockfile_writer *w, struct tfs_bytes raw, const struct note *note)
{
	uint8_t header[BFF_BLOCK_HEADER_BYTES], codec;
	enum sst_codec used;
	struct tfs_bytes payload;
	struct bff_place end;
	int err = coder_encode(w->coder, raw, &used, &payload);

	codec = (uint8_t)used;
	if (!err && w->codec == SST_ZSTD_DICT && note->keep != BLOCKFILE_NO_BASE)
		err = keep_base(w, note->keep, raw);
	else if (!err && w->codec == SST_ZSTD_DICT)
		err = try_against(w, note->against, raw, &codec, &payload);
	if (err)
		return err;
	bff_block_header(header, w->identity + w->logical, codec, (uint32_t)raw.n, payload);
	if (buf_append(&w->pending, header, sizeof(header)) || buf_append_bytes(&w->pending, payload))
		return -ENOMEM;
	w->logical += raw.n;
	w->physical += sizeof(header) + payload.n;
	if (raw.n > w->max_raw)
		w->max_raw = (uint32_t)raw.n;
	end = (struct bff_place){w->logical, w->physical};
	err = buf_append(&w->ends, &end, sizeof(end));
	return err ? err : write_pending(w, WRITE_BYTES);
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

static int hold_back(struct blockfile_writer *w)
{
	int err = buf_append_bytes(&w->untrained, buf_bytes(&w->unit));

	w->note.length = (uint32_t)w->unit.n;
	return err ? err : buf_append(&w->untrained_notes, &w->note, sizeof(w->note));
}

static int end_training(struct blockfile_writer *w, uint64_t expect)
{
	const struct note *notes = (const struct note *)(const void *)w->untrained_notes.p;
	size_t n = w->untrained_notes.n / sizeof(*notes), at = 0;
	uint32_t *lengths = calloc(n + 1, sizeof(*lengths));
	int err = lengths ? 0 : -ENOMEM;

	w->training = false;
	for (size_t i = 0; i < n && !err; i++)
		lengths[i] = notes[i].length;
	if (!err)
		err = coder_train(w->coder, buf_bytes(&w->untrained), lengths, n, expect, &w->dict);
	for (size_t i = 0; i < n && !err; at += notes[i].length, i++)
		err = unit_store(w, tfs_bytes_of(w->untrained.p + at, notes[i].length), &notes[i]);
	buf_fini(&w->untrained);
	buf_fini(&w->untrained_notes);
	free(lengths);
	return err;
}

int blockfile_writer_end_unit(struct blockfile_writer *w)
{
	if (w->err || w->unit.n == 0)
		return w->err;
	if (!w->training) {
		w->err = unit_store(w, buf_bytes(&w->unit), &w->note);
	} else {
		w->err = hold_back(w);
		if (!w->err && w->untrained.n >= TRAIN_BYTES)
			w->err = end_training(w, UNTRAINED_SHARE * (uint64_t)w->untrained.n);
	}
	blockfile_writer_note(w, BLOCKFILE_NO_BASE, BLOCKFILE_NO_BASE);
	buf_reset(&w->unit);
	return w->err;
}

uint64_t blockfile_writer_bytes(const struct blockfile_writer *w)
{
	return w->physical + w->untrained.n + w->unit.n;
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
	struct bff_trailer t = {.version = w->codec == SST_ZSTD_DICT ? BFF_VERSION : BFF_VERSION_PLAIN,
		.codec = w->codec,
		.keys = keys,
		.partitions = partitions};
	uint8_t trailer[BFF_TRAILER_BYTES];
	struct buf map = {0};
	int err;

	err = blockfile_writer_end_unit(w);
	if (!err && w->training)
		err = end_training(w, w->untrained.n);
	if (err)
		goto out;
	t.blocks = units_ended(w);
	t.raw_bytes = w->logical;
	t.max_raw_block = w->max_raw;
	t.identity = w->identity;
	err = bff_map_encode((const struct bff_place *)(const void *)w->ends.p, units_ended(w), &map);
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
	buf_fini(&w->ends);
	buf_fini(&w->unit);
	buf_fini(&w->pending);
	buf_fini(&w->against);
	for (uint32_t i = 0; i < w->bases_n; i++)
		buf_fini(&w->bases[i].raw);
	free(w->bases);
	buf_fini(&w->untrained);
	buf_fini(&w->untrained_notes);
	free(w);
}
