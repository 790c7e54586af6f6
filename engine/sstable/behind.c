/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Past a block that cannot be read: where does the next one begin?
 *
 * LevelDB's index tells which block would hold a key; those after it are the
 * next ones in the block file, up to its own last three (LevelDB's directory
 * of blocks, its index, the footer).  The first entry of a block shares
 * nothing with one before it, so its key stands there whole: three varints
 * (bytes shared, key bytes, value bytes), then the key.
 */
#include "engine/sstable/cache.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/sstable/blockfile.h"

static int first_key(struct slice block, struct buf *out)
{
	struct reader r = reader_of(block);
	uint64_t shared, key_n, value_n;
	struct slice key;

	if (!get_varint(&r, &shared) || !get_varint(&r, &key_n) || !get_varint(&r, &value_n) || shared || key_n > reader_left(&r) ||
	    !get_bytes(&r, (size_t)key_n, &key))
		return -EBADMSG;
	return buf_set(out, key.p, key.n);
}

int sst_key_behind(struct sst *s, struct slice key, struct buf *out)
{
	const struct bff_map *map;
	struct open_table *t;
	struct blockfile *b;
	int64_t i;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	b = ldb_table_file(t->ldb);
	map = blockfile_map(b);
	i = bff_map_find(map, ldb_table_offset_of(t->ldb, key));
	err = -ENOENT;
	while (err != -ENOMEM && err != 0 && i >= 0 && ++i < (int64_t)blockfile_data_blocks(b)) {
		size_t n = (size_t)(map->at[i + 1].logical - map->at[i].logical);
		uint8_t *p = malloc(n);

		err = p ? blockfile_read(b, map->at[i].logical, n, p) : -ENOMEM;
		if (!err)
			err = first_key(slice_of(p, n), out);
		free(p);
	}
	sst_unpin(s);
	return err == 0 || err == -ENOMEM ? err : -ENOENT;
}
