/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the blocks of a block file that has lost its map.
 *
 * Threads: one.
 */
#ifndef TFS_SSTABLE_PIECES_H
#define TFS_SSTABLE_PIECES_H

#include "engine/sstable/blockfile_format.h"

struct pieces {
	/* Reads *n bytes, or the bytes before the first sector that cannot be read.  Sets *n to their number. */
	int (*read)(void *arg, uint8_t *p, size_t *n, uint64_t at);
	void *arg;
	uint64_t file_bytes, identity;
};
/*
 * *out: the map, owned by the caller after an error too.  Its last block is LevelDB's footer
 * if *whole.  Goes from piece to piece, and past damaged bytes to the next piece.  If a
 * block is damaged, the blocks after it are found by the length in its header, if that is
 * right, or in their second copies.
 */
int pieces_find(const struct pieces *p, struct bff_map *out, bool *whole) TFS_MUST;

#endif
