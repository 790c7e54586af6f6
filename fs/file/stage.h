/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage: bytes of one open file that the daemon holds outside the store.  It
 * has an image of the file, with bytes at their offsets, and a list of the spans
 * that were written.
 *
 * A small image is in memory.  It moves to the spill file, which is unlinked,
 * when it has more than STAGE_MEMORY bytes, or when all images together would
 * have more than STAGE_MEMORY_ALL.  All images share the spill file, so that
 * many images do not need many descriptors.
 *
 * On a full disk, a write to an image returns -ENOSPC.  But an image that is
 * only read moves to memory instead; all such images together may use
 * STAGE_MEMORY_FULL.
 *
 * Threads: one at a time for each stage.  Errors: -errno; -EFBIG past
 * TFS_VALUE_MAX, or for more than STAGE_SPANS_MAX spans.
 */
#ifndef TFS_FS_STAGE_H
#define TFS_FS_STAGE_H

#include "engine/base/bytes.h"

/* in bytes */
#define STAGE_MEMORY (256 * 1024)
#define STAGE_MEMORY_ALL (32 * 1024 * 1024)
#define STAGE_MEMORY_FULL (128 * 1024 * 1024)
#define STAGE_SPANS_MAX 65536

struct stage_span {
	uint64_t begin, end; /* offsets [begin, end) */
};
struct stage {
	uint64_t size; /* the size of the image */
	uint8_t *memory;
	size_t memory_bytes; /* allocated */
	int fd;              /* the shared spill file, or a file of its own, or -1 if the image is in memory */
	uint64_t base;       /* offset of the image in the file */
	uint64_t only_read;  /* set by the owner if the image is only read: its final size.  0: it is written */
	uint64_t spared;     /* bytes counted for it against STAGE_MEMORY_FULL */
	void *map;           /* the image in its file, mapped by stage_bytes; NULL: not mapped */
	size_t map_bytes;
	struct stage_span *spans; /* the written spans; sorted, with gaps between them */
	unsigned span_count;
};

/*
 * Sets the directory of spill files.  If no file can be made there, TMPDIR is
 * tried, then /tmp.  Called before any stage is used.
 */
void stage_set_directory(const char *path);
uint64_t stage_memory_used(void); /* the bytes of all images in memory */

void stage_init(struct stage *s);
void stage_fini(struct stage *s);
/* Writes to the image and adds a span. */
int stage_write(struct stage *s, uint64_t offset, const void *p, size_t n) TFS_MUST;
/* Writes to the image without a span, for bytes that the store already has or that a commit writes anyway. */
int stage_load(struct stage *s, uint64_t offset, const void *p, size_t n) TFS_MUST;
/* Cuts the image and its spans, or extends the image with zeros.  An extension adds no span. */
int stage_truncate(struct stage *s, uint64_t size) TFS_MUST;
int stage_read(struct stage *s, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
/* Sets *out to the whole image, in memory or mapped.  It is valid until the next call on s. */
int stage_bytes(struct stage *s, struct tfs_bytes *out) TFS_MUST;
/* Empties the image and frees its memory or its place in a file. */
void stage_reset(struct stage *s);

#endif
