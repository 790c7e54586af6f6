/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage: the bytes of one open file outside the store.  It has an image of
 * the file, with bytes at their offsets, and the list of spans that were
 * written.  Small images are in memory.  An image of more than STAGE_MEMORY
 * bytes, or any image when all together have STAGE_MEMORY_ALL, is moved to an
 * unlinked file.  The images share that file, so that the number of
 * descriptors does not grow with the number of images.
 *
 * On a full disk a write returns ENOSPC.  An image that is only read uses
 * memory then, STAGE_MEMORY_FULL for all together.
 *
 * Threads: the owner serialises.  Errors: -errno; -EFBIG past TFS_VALUE_MAX,
 * or for more than STAGE_SPANS_MAX spans.
 */
#ifndef TFS_FS_STAGE_H
#define TFS_FS_STAGE_H

#include "engine/base/bytes.h"

#define STAGE_MEMORY (256 * 1024)
#define STAGE_MEMORY_ALL (32 * 1024 * 1024)
#define STAGE_MEMORY_FULL (128 * 1024 * 1024)
#define STAGE_SPANS_MAX 65536

struct stage_span {
	uint64_t begin, end;
};
struct stage {
	uint64_t size; /* of the image */
	uint8_t *memory;
	size_t memory_bytes; /* allocated */
	int fd;              /* the spill file, which all images share, or a file of its own; or -1 */
	uint64_t base;       /* of the image in the file */
	uint64_t only_read;  /* the size that an image will have that is only read; 0: it is written */
	uint64_t spared;     /* its share of STAGE_MEMORY_FULL */
	void *map;           /* the spill file, mapped by stage_bytes */
	size_t map_bytes;
	struct stage_span *spans; /* written; sorted, with gaps between them */
	unsigned span_count, span_cap;
};

/* Sets the directory of spill files; if it fails, TMPDIR is tried, then /tmp.  Called before any stage is used. */
void stage_set_directory(const char *path);
uint64_t stage_memory_used(void);

void stage_init(struct stage *s);
void stage_fini(struct stage *s);
/* Writes, and adds the span. */
int stage_write(struct stage *s, uint64_t offset, const void *p, size_t n) TFS_MUST;
/* Writes bytes of the store, without a span. */
int stage_load(struct stage *s, uint64_t offset, const void *p, size_t n) TFS_MUST;
/* Cuts or zero-extends the image, and clips spans.  An extension adds no span. */
int stage_truncate(struct stage *s, uint64_t size) TFS_MUST;
int stage_read(struct stage *s, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
/* *out is the whole image in memory, valid until the next call on s. */
int stage_bytes(struct stage *s, struct slice *out) TFS_MUST;
/* Empties the image, and frees its memory or file. */
void stage_reset(struct stage *s);

#endif
