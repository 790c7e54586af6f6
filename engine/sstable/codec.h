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
 * Trains a zstd dictionary on raw units (their concatenation in raw, n
 * lengths), and from then on compresses with it.  *dict is borrowed from the
 * coder, empty when training failed or did not pay.  whole: there will be no
 * other data.  -ENOMEM only.
 */
int coder_train(struct coder *c, struct slice raw, const uint32_t *lengths, size_t n, bool whole,
		struct slice *dict) TFS_MUST;
/*
 * Compresses raw; *out is borrowed until the next call, or raw itself when
 * it did not shrink, with *used = SST_NONE.
 */
int coder_encode(struct coder *c, struct slice raw, enum sst_codec *used, struct slice *out) TFS_MUST;

/* A digested dictionary for decoding, shared by threads. */
struct decode_dict;
int decode_dict_new(struct slice dict, struct decode_dict **out) TFS_MUST; /* -EBADMSG, -ENOMEM */
void decode_dict_free(struct decode_dict *d);
size_t decode_dict_bytes(const struct decode_dict *d);
/* Exactly raw_bytes must come out into dst.  -EBADMSG, -ENOMEM. */
int codec_decode(enum sst_codec codec, struct slice payload, const struct decode_dict *dict, void *dst,
		 size_t raw_bytes) TFS_MUST;
/* n bytes of this thread's scratch, valid until its next call; NULL when out of memory. */
uint8_t *codec_scratch(size_t n);

#endif
