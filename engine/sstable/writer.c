/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing an SSTable: where blocks of keys and filter partitions end.
 *
 * A block of keys ends at 4 KiB, but not before it has 16 keys or 16 times
 * the bytes of its longest key.  So the index, which has about one key per
 * block, is a small part of the file for all keys.  units.c cuts the values.
 *
 * Probes are stored as 8-byte hashes until their partition ends, because a
 * probe may be a row key of 64 KiB and there are two or three for each of
 * 65,536 keys.  The probe of a row is added with each of its cells, between the
 * probes of its columns, so the last few hashes are compared and not repeated.
 *
 * Within a block LevelDB bisects the keys that are stored whole and then steps
 * from key to key.  Each step is a cache miss if entries are large.  So a key
 * is stored whole about every 4 KiB, by the mean of the previous block, and at
 * least every 16 keys.
 *
 * blockfile_write.c describes the durable steps.
 */
#include "engine/sstable/binding.h"
#include "engine/sstable/sstable.h"
#include "engine/sstable/units.h"
#include "engine/sstable/value.h"
#include <errno.h>
#include <stdlib.h>

enum {
	BLOCK_KEYS_MIN = 16, /* a block has this many keys, or this multiple of its longest key */
	BLOCK_BYTES_DEFAULT = 2 << 10,
	KEY_BLOCK_BYTES = 4 << 10,
	VALUES_SHARE = 4, /* a block with this part of values, or more, is compressed as values are */
	PARTITION_KEYS = 65536,
	RECENT = 8, /* must be a power of two */
	RESTART_BYTES = 4096,
	RESTART_KEYS_MAX = 16, /* LevelDB's default */
	PAIR_BYTES_MAX = BFF_RAW_MAX / 2,
};

struct sst_writer {
	struct blockfile_writer *file;
	struct ldb_builder *table;
	struct units units;
	struct sst_options o;
	int err; /* returned by all later calls */
	uint64_t keys;
	struct buf last;
	uint32_t block_keys;
	uint64_t block_bytes, block_values; /* bytes of the block, and of inline values in it */
	uint32_t block_target;
	bool any_block;
	size_t block_key_max; /* longest key */
	/* filters */
	uint64_t partitions; /* ended partitions that have a key */
	struct buf first;    /* the first key of the current partition */
	struct buf parts;    /* the ended partitions, encoded */
	struct buf hashes;   /* uint64_t */
	uint64_t recent[RECENT];
	unsigned recent_n; /* filled, since the partition began */
	unsigned recent_at;
};

static int restart_by(struct sst_writer *w, uint64_t pair_bytes)
{
	uint64_t n = RESTART_BYTES / (pair_bytes + 1);

	return ldb_builder_restart_every(w->table, n < 1 ? 1 : n > RESTART_KEYS_MAX ? RESTART_KEYS_MAX : (int)n);
}

static int end_block(struct sst_writer *w)
{
	int err = restart_by(w, w->block_bytes / w->block_keys);

	if (err)
		return err;
	blockfile_writer_note(w->file, w->block_values * VALUES_SHARE >= w->block_bytes);
	w->block_keys = 0;
	w->block_bytes = w->block_values = 0;
	w->block_key_max = 0;
	return ldb_builder_end_block(w->table);
}

static bool block_full(const struct sst_writer *w)
{
	return w->block_bytes >= w->block_target &&
		(w->block_keys >= BLOCK_KEYS_MIN || w->block_bytes >= (uint64_t)BLOCK_KEYS_MIN * w->block_key_max);
}

/* A units_entry_fn. */
static int add_entry(void *arg, struct tfs_bytes key, struct tfs_bytes entry)
{
	struct sst_writer *w = arg;
	int err = w->any_block ? 0 : restart_by(w, key.n + entry.n);

	w->any_block = true;
	if (!err)
		err = ldb_builder_add(w->table, key, entry);
	if (err)
		return err;
	w->block_keys++;
	w->block_bytes += key.n + entry.n;
	w->block_values += entry.p[0] == VALUE_INLINE ? entry.n - 1 : 0;
	if (key.n > w->block_key_max)
		w->block_key_max = key.n;
	return block_full(w) ? end_block(w) : 0;
}

int sst_writer_new(const char *path, const struct sst_options *o, struct sst_writer **out)
{
	struct sst_writer *w;
	int err;

	if (!sst_is_codec((uint32_t)o->codec) || o->bloom_bits < 0 || o->bloom_bits > 64)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->o = *o;
	if (w->o.block_bytes == 0)
		w->o.block_bytes = BLOCK_BYTES_DEFAULT;
	w->block_target = o->twice ? w->o.block_bytes : KEY_BLOCK_BYTES;
	err = blockfile_writer_new(path, o, &w->file);
	units_init(&w->units, w->file, &w->o, add_entry, w);
	w->o.sample = NULL;
	if (!err)
		err = ldb_builder_new(w->file, &w->table);
	if (err) {
		sst_writer_free(w);
		return err;
	}
	*out = w;
	return 0;
}

static int end_partition(struct sst_writer *w)
{
	struct buf filter = {0};
	int err = ldb_filter_create(
		(const uint64_t *)(const void *)w->hashes.p, w->hashes.n / sizeof(uint64_t), w->o.bloom_bits, &filter);

	if (!err)
		err = bff_filters_add(&w->parts, buf_bytes(&w->first), buf_bytes(&filter));
	if (!err) {
		w->partitions++;
		buf_reset(&w->hashes);
		w->recent_n = w->recent_at = 0;
	}
	buf_fini(&filter);
	return err;
}

static int writer_add_key(struct sst_writer *w, struct iter *it, bool again)
{
	const struct tfs_bytes key = it->key;
	int err;

	if (w->o.bloom_bits && w->keys % PARTITION_KEYS == 0) {
		err = buf_set(&w->first, key.p, key.n);
		if (err)
			return err;
	}
	err = buf_set(&w->last, key.p, key.n);
	if (!err)
		err = units_add(&w->units, it, again);
	if (err)
		return err;
	w->keys++;
	return w->o.bloom_bits && w->keys % PARTITION_KEYS == 0 ? end_partition(w) : 0;
}

int sst_writer_add_from(struct sst_writer *w, struct iter *it, bool again)
{
	if (w->err)
		return w->err;
	if (w->keys && bytes_cmp(it->key, buf_bytes(&w->last)) <= 0)
		return -EINVAL;
	if (it->key.n > PAIR_BYTES_MAX || it->size > PAIR_BYTES_MAX - it->key.n)
		return -EINVAL;
	w->err = writer_add_key(w, it, again);
	return w->err;
}

int sst_writer_add(struct sst_writer *w, struct tfs_bytes key, struct tfs_bytes value, bool again)
{
	struct iter it = {.key = key, .size = value.n, .value = value.p};

	return sst_writer_add_from(w, &it, again);
}

int sst_writer_probe(struct sst_writer *w, struct tfs_bytes probe)
{
	uint64_t h;

	if (w->err || w->o.bloom_bits == 0)
		return w->err;
	h = hash64(probe, 0);
	for (unsigned i = 0; i < w->recent_n; i++)
		if (w->recent[i] == h)
			return 0;
	w->err = buf_append(&w->hashes, &h, sizeof(h));
	if (w->err)
		return w->err;
	w->recent[w->recent_at++ % RECENT] = h;
	if (w->recent_n < RECENT)
		w->recent_n++;
	return 0;
}

unsigned sst_writer_partition(const struct sst_writer *w)
{
	return (unsigned)(w->keys / PARTITION_KEYS);
}

uint64_t sst_writer_bytes(const struct sst_writer *w)
{
	return blockfile_writer_bytes(w->file) + units_waiting(&w->units) + w->block_bytes + w->parts.n;
}

int sst_writer_finish(struct sst_writer *w, struct tfs_bytes properties, uint64_t *bytes)
{
	struct buf filters = {0};
	int err = w->err;

	if (err)
		return err;
	if (properties.n > BFF_PROPERTIES_MAX)
		return -EINVAL;
	err = units_finish(&w->units);
	if (!err && w->block_keys)
		err = end_block(w);
	if (!err)
		err = ldb_builder_finish(w->table);
	if (!err && w->o.bloom_bits) {
		if (w->keys % PARTITION_KEYS)
			err = end_partition(w);
		if (!err)
			err = bff_filters_encode(&filters, w->partitions, buf_bytes(&w->parts), buf_bytes(&w->last));
	}
	if (!err)
		err = blockfile_writer_finish(w->file, w->keys, w->partitions, buf_bytes(&filters), properties, bytes);
	w->err = err ? err : -EINVAL; /* all later calls return an error */
	buf_fini(&filters);
	return err;
}

void sst_writer_free(struct sst_writer *w)
{
	if (!w)
		return;
	ldb_builder_free(w->table);
	blockfile_writer_free(w->file);
	units_fini(&w->units);
	buf_fini(&w->last);
	buf_fini(&w->first);
	buf_fini(&w->parts);
	buf_fini(&w->hashes);
	free(w);
}
