/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of blocks.  A reader needs the first key of the next block to
 * skip an unreadable block, and a split needs the key in the middle of a file.
 *
 * LevelDB's index names the block that may contain a key.  The blocks after it
 * follow in the block file, up to the last three units (LevelDB's meta index,
 * its index, the footer).  The first entry of a block shares no bytes with the
 * entry before it, so it contains its whole key: three varints (bytes shared,
 * key bytes, value bytes), then the key.
 */
#include "engine/sstable/cache.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/sstable/blockfile.h"
#include "engine/sstable/table_format.h"

static int first_key(struct tfs_bytes block, struct buf *out)
{
	struct reader r = reader_of(block);
	uint64_t shared, key_n, value_n;
	struct tfs_bytes key;

	if (!get_varint(&r, &shared) || !get_varint(&r, &key_n) || !get_varint(&r, &value_n) || shared || key_n > reader_left(&r) ||
		!get_bytes(&r, (size_t)key_n, &key))
		return -EBADMSG;
	return buf_set(out, key.p, key.n);
}

struct seek_key {
	struct buf key; /* of the entry */
	size_t bytes;   /* of entries still to pass */
	int err;
};

static bool pass_entry(void *arg, uint32_t shared, struct tfs_bytes unshared, struct tfs_bytes value)
{
	struct seek_key *s = arg;
	const size_t n = unshared.n + value.n;

	s->key.n = shared;
	s->err = buf_append_bytes(&s->key, unshared);
	if (s->err || n > s->bytes)
		return false;
	s->bytes -= n;
	return true;
}

/* *out: the key of the entry at about this fraction of the block. */
static int key_within(struct tfs_bytes block, double fraction, struct buf *out)
{
	struct seek_key s = {.bytes = fraction < 1 ? (size_t)((double)block.n * fraction) : block.n};

	if (!table_block_good(block))
		return -EBADMSG;
	(void)table_block_each(block, pass_entry, &s);
	if (!s.err && !s.key.n)
		s.err = -EBADMSG;
	if (!s.err)
		s.err = buf_set(out, s.key.p, s.key.n);
	buf_fini(&s.key);
	return s.err;
}

/* *out: the first key of block i, or the one at about this fraction of it. */
static int key_of_block(struct blockfile *b, int64_t i, double fraction, struct buf *out)
{
	const struct bff_map *map = blockfile_map(b);
	size_t n = bff_map_raw(map, (size_t)i);
	uint8_t *p = malloc(n);
	int err = p ? blockfile_read(b, map->at[i].logical, n, p) : -ENOMEM;

	if (!err)
		err = fraction > 0 ? key_within(tfs_bytes_of(p, n), fraction, out) : first_key(tfs_bytes_of(p, n), out);
	free(p);
	return err;
}

int sst_key_near(struct sst *s, uint64_t offset, struct buf *out)
{
	struct open_table *t;
	struct blockfile *b;
	int64_t lo = 0, hi;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	b = ldb_table_file(t->ldb);
	hi = (int64_t)blockfile_data_blocks(b);
	err = hi ? 0 : -ENOENT;
	while (hi - lo > 1) { /* the last block that begins at or below offset */
		int64_t mid = lo + (hi - lo) / 2;

		if (blockfile_map(b)->at[mid].before <= offset)
			lo = mid;
		else
			hi = mid;
	}
	if (!err) {
		const struct bff_place *at = &blockfile_map(b)->at[lo];

		err = key_of_block(b, lo, (double)(offset - at[0].before) / (double)(at[1].before - at[0].before), out);
	}
	sst_unpin(s);
	return err;
}

int sst_key_behind(struct sst *s, struct tfs_bytes key, struct buf *out)
{
	struct open_table *t;
	struct blockfile *b;
	int64_t i;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	b = ldb_table_file(t->ldb);
	i = bff_map_find(blockfile_map(b), ldb_table_offset_of(t->ldb, key));
	err = -ENOENT;
	while (err != -ENOMEM && err != 0 && i >= 0 && ++i < (int64_t)blockfile_data_blocks(b))
		err = key_of_block(b, i, 0, out);
	sst_unpin(s);
	return err == 0 || err == -ENOMEM ? err : -ENOENT;
}
