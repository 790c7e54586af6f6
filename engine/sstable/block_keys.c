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

/* A walk over the entries of a block, each with the bytes of its key and value. */
struct key_walk {
	struct buf key;      /* the key of the entry */
	uint64_t passed;     /* bytes of the entries before it */
	uint64_t bytes;      /* the walk stops before it has passed more bytes */
	struct tfs_bytes to; /* stops at this key; if p is NULL, at the end */
	int err;
};

static bool pass_entry(void *arg, uint32_t shared, struct tfs_bytes unshared, struct tfs_bytes value)
{
	struct key_walk *w = arg;
	struct value_ref v;

	w->key.n = shared;
	w->err = buf_append_bytes(&w->key, unshared);
	if (!w->err && !value_decode(value, &v))
		w->err = -EBADMSG;
	if (w->err || (w->to.p && bytes_cmp(buf_bytes(&w->key), w->to) >= 0) || unshared.n + v.size > w->bytes - w->passed)
		return false;
	w->passed += unshared.n + v.size;
	return true;
}

/* Passes the entries of the block, until `to` or `fraction` of its bytes. */
static int walk_block(struct tfs_bytes block, double fraction, struct tfs_bytes to, struct key_walk *w, uint64_t *all)
{
	*w = (struct key_walk){.bytes = UINT64_MAX};
	if (!table_block_good(block))
		return -EBADMSG;
	(void)table_block_each(block, pass_entry, w);
	*all = w->passed;
	w->passed = w->key.n = 0;
	if (fraction < 1)
		w->bytes = (uint64_t)((double)*all * fraction);
	w->to = to;
	if (!w->err)
		(void)table_block_each(block, pass_entry, w);
	return w->err;
}

/* *out: the key of the entry at about this fraction of the block. */
static int key_within(struct tfs_bytes block, double fraction, struct buf *out)
{
	struct key_walk w;
	uint64_t all;
	int err = walk_block(block, fraction, tfs_bytes_of(NULL, 0), &w, &all);

	if (!err)
		err = w.key.n ? buf_set(out, w.key.p, w.key.n) : -EBADMSG;
	buf_fini(&w.key);
	return err;
}

/* Returns the part of block i that is before the key; 0 if it cannot be read. */
static double fraction_before(struct blockfile *b, int64_t i, struct tfs_bytes key)
{
	const struct bff_map *map = blockfile_map(b);
	size_t n = bff_map_raw(map, (size_t)i);
	uint8_t *p = malloc(n);
	struct key_walk w = {.err = -ENOMEM};
	uint64_t all = 0;

	if (p && !blockfile_read(b, map->at[i].logical, n, p))
		w.err = walk_block(tfs_bytes_of(p, n), 1, key, &w, &all);
	buf_fini(&w.key);
	free(p);
	return w.err || !all ? 0 : (double)w.passed / (double)all;
}

int sst_offset_of(struct sst *s, struct tfs_bytes key, uint64_t *offset)
{
	struct open_table *t;
	const struct bff_place *at;
	struct blockfile *b;
	uint64_t logical;
	int64_t i;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	b = ldb_table_file(t->ldb);
	logical = ldb_table_offset_of(t->ldb, key);
	i = bff_map_find(blockfile_map(b), logical);
	*offset = blockfile_before(b, logical);
	if (i >= 0 && i < (int64_t)blockfile_data_blocks(b)) {
		at = &blockfile_map(b)->at[i];
		*offset += (uint64_t)((double)(at[1].before - at[0].before) * fraction_before(b, i, key));
	}
	sst_unpin(s);
	return 0;
}

/* *out: the first key of block i, or the key at about this fraction of the block. */
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
