/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of two copies (sst_options.twice): compares the copies and writes a
 * file again if one is damaged.  Other files have second copies of some blocks, which a
 * check compares.  Each byte of a copy is covered by a checksum,
 * so an undamaged copy is assembled from the pieces of the two copies.
 */
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/sstable/blockfile.h"
#include "engine/sstable/sstable.h"

#include <errno.h>

int blockfile_copies_agree(struct blockfile *b, bool *agree)
{
	struct buf all = {0};
	bool holes;
	int err = 0;

	*agree = true;
	if (!blockfile_copy_bytes(b))
		return 0;
	err = copies_read(blockfile_path(b), (size_t)blockfile_file_bytes(b) + 1, &all, &holes);
	if (!err)
		*agree = !holes && copies_whole(buf_bytes(&all), (size_t)blockfile_copy_bytes(b));
	buf_fini(&all);
	return err;
}

int blockfile_block_agrees(struct blockfile *b, size_t i, bool *agree)
{
	const struct bff_place *at = &blockfile_map(b)->at[i];
	struct buf copies = {0};
	int err = 0;

	*agree = true;
	if (!at->copy)
		return 0;
	for (unsigned k = 0; k < 2 && !err; k++)
		err = blockfile_bytes(b, at->physical + k * (uint64_t)at->copy, at->stored, &copies);
	*agree = !err && memcmp(copies.p, copies.p + at->stored, at->stored) == 0;
	buf_fini(&copies);
	return err == -EBADMSG || err == -EIO ? 0 : err;
}

/* Assembles both copies from the undamaged pieces. */
static int make_whole(struct blockfile *b, struct buf *out)
{
	uint8_t trailer[BFF_TRAILER_BYTES];
	int err = 0;

	for (size_t i = 0; i < blockfile_map(b)->n && !err; i++)
		err = blockfile_stored(b, i, out);
	for (unsigned id = 0; id < BFF_SECTIONS && !err; id++)
		err = blockfile_section(b, (enum bff_section_id)id, out);
	bff_trailer_encode(trailer, blockfile_trailer(b));
	if (!err)
		err = buf_append(out, trailer, sizeof(trailer));
	if (!err && out->n != blockfile_copy_bytes(b))
		err = -EBADMSG;
	return err ? err : copies_add(out, 0);
}

void sst_mend(const char *path, uint64_t bytes)
{
	struct buf whole = {0};
	struct blockfile *b;
	bool agree;

	if (blockfile_open(path, bytes, NULL, &b))
		return; /* logged; a reader of the file gets the error */
	if (blockfile_copies_agree(b, &agree) == 0 && !agree && make_whole(b, &whole) == 0)
		copies_rewrite(path, buf_bytes(&whole));
	blockfile_close(b);
	buf_fini(&whole);
}
