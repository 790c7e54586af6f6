/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compressors under one interface.
 *
 * A coder belongs to one writer (one thread).  Decoding is a function of
 * any thread; what it needs (a ZSTD_DCtx, a buffer for stored blocks) is
 * kept per thread and freed when the thread ends.
 */
#ifndef TFS_SSTABLE_CODEC_H
#define TFS_SSTABLE_CODEC_H

#include "engine/base/bytes.h"
#include "engine/sstable/sstable.h"

struct coder;
int coder_new(enum sst_codec codec, int level, struct coder **out) TFS_MUST;
void coder_free(struct coder *c);
/*
 * Trains a zstd dictionary on units of a table (their concatenation in raw, n
 * lengths), and from then on compresses with it.  expect: the raw bytes the
 * whole table will have, about.  *dict is what a file keeps of it, borrowed
 * from the coder; empty when training failed or did not pay.  -ENOMEM only.
 */
int coder_train(struct coder *c, struct slice raw, const uint32_t *lengths, size_t n, uint64_t expect, struct slice *dict) TFS_MUST;
/*
 * Compresses raw; *out is borrowed until the next call, or raw itself when
 * it did not shrink, with *used = SST_NONE.
 */
int coder_encode(struct coder *c, struct slice raw, enum sst_codec *used, struct slice *out) TFS_MUST;
/*
 * A zstd frame of raw that says what base has already by reference to it;
 * decoded by codec_decode_against.  *out is borrowed until the next call of
 * this function.  For coders of SST_ZSTD and SST_ZSTD_DICT.
 */
int coder_encode_against(struct coder *c, struct slice raw, struct slice base, struct slice *out) TFS_MUST;

/* A digested dictionary for decoding, shared by threads. */
struct decode_dict;
/* packed: a zstd frame that holds the dictionary, else the dictionary itself.  -EBADMSG, -ENOMEM. */
int decode_dict_new(struct slice dict, bool packed, struct decode_dict **out) TFS_MUST;
/* The length of the zstd frame that s begins with; 0: there is none. */
size_t codec_frame_bytes(struct slice s);
void decode_dict_free(struct decode_dict *d);
size_t decode_dict_bytes(const struct decode_dict *d);
/* Exactly raw_bytes must come out into dst.  -EBADMSG, -ENOMEM. */
int codec_decode(enum sst_codec codec, struct slice payload, const struct decode_dict *dict, void *dst, size_t raw_bytes) TFS_MUST;
int codec_decode_against(struct slice payload, struct slice base, void *dst, size_t raw_bytes) TFS_MUST;
/* Room that a thread has: for a block as stored, for the base of one as stored, and for that base's raw bytes. */
enum codec_scratch { SCRATCH_STORED, SCRATCH_BASE_STORED, SCRATCH_BASE, SCRATCHES };
/* n bytes, valid until this thread's next call for the same kind; NULL when out of memory. */
uint8_t *codec_scratch(enum codec_scratch kind, size_t n);
/* Whose bytes lie in SCRATCH_BASE: the caller's numbers, made 0 by codec_scratch. */
struct scratch_base {
	uint64_t file, block;
	const uint8_t *p;
};
struct scratch_base *codec_scratch_base(void); /* NULL when out of memory */

#endif
