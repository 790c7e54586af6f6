/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compressors under one interface.
 *
 * A coder belongs to one writer and its thread.  Any thread may decode.  Each
 * thread has a ZSTD_DCtx and buffers of its own, freed when the thread ends.
 */
#ifndef TFS_SSTABLE_CODEC_H
#define TFS_SSTABLE_CODEC_H

#include "engine/base/bytes.h"
#include "engine/sstable/sstable.h"

#include <zstd.h>

struct coder;
int coder_new(enum sst_codec codec, int level, struct coder **out) TFS_MUST;
void coder_free(struct coder *c);
/*
 * Trains a zstd dictionary on units of a table (their concatenation in raw, n
 * lengths) and uses it from then on.  expect: the approximate raw bytes of the
 * whole table.  Sets *dict to the dictionary to store in the file, borrowed
 * from the coder, or to an empty one if the training failed or did not pay.
 * -ENOMEM only.  For coders of SST_ZSTD_DICT.
 */
int coder_train(
	struct coder *c, struct tfs_bytes raw, const uint32_t *lengths, size_t n, uint64_t expect, struct tfs_bytes *dict) TFS_MUST;
/*
 * Compresses raw with the codec of coder_new, or with a codec that has no level.  *out is
 * borrowed until the next call.  If raw did not shrink, *out is raw and *used is SST_NONE.
 */
int coder_encode(struct coder *c, enum sst_codec codec, struct tfs_bytes raw, enum sst_codec *used, struct tfs_bytes *out) TFS_MUST;
/*
 * Compresses raw into a zstd frame that refers to base; codec_decode_against
 * decodes it.  *out is borrowed until the next call of this function.  For
 * coders of SST_ZSTD and SST_ZSTD_DICT.
 */
int coder_encode_against(struct coder *c, struct tfs_bytes raw, struct tfs_bytes base, struct tfs_bytes *out) TFS_MUST;

/*
 * Makes a dictionary for decoding from a zstd frame of it.  Threads may share it;
 * the caller frees it (ZSTD_freeDDict).  -EBADMSG, -ENOMEM.
 */
int codec_load_dict(struct tfs_bytes dict, ZSTD_DDict **out) TFS_MUST;
/* Returns the length of the zstd frame that s begins with; 0 if there is none. */
size_t codec_frame_bytes(struct tfs_bytes s);
/* Decodes payload into dst.  -EBADMSG also if the result has not raw_bytes; -ENOMEM. */
int codec_decode(enum sst_codec codec, struct tfs_bytes payload, const ZSTD_DDict *dict, void *dst, size_t raw_bytes) TFS_MUST;
int codec_decode_against(struct tfs_bytes payload, struct tfs_bytes base, void *dst, size_t raw_bytes) TFS_MUST;
/* A thread's buffers: a stored block, a stored base, and the raw bytes of that base. */
enum codec_scratch { SCRATCH_STORED, SCRATCH_BASE_STORED, SCRATCH_BASE, SCRATCHES };
/* Returns n bytes, valid until the thread's next call for the same kind; NULL if out of memory. */
uint8_t *codec_scratch(enum codec_scratch kind, size_t n);
/* Identifies the contents of SCRATCH_BASE by numbers of the caller.  codec_scratch sets it to zero. */
struct scratch_base {
	uint64_t file, unit;
	const uint8_t *p;
	size_t bytes;
};
struct scratch_base *codec_scratch_base(void); /* NULL if out of memory */

#endif
