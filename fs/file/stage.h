/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage: the bytes of one open file that are not (only) in the store.  An
 * image of the file, bytes at their own offsets, and the list of spans that
 * were written into it.  Small images live in memory; one that grows past
 * STAGE_MEMORY, or any when all stages together hold STAGE_MEMORY_ALL, moves
 * to an unlinked file: to a slot of one that it shares with others, so that
 * descriptors do not grow with the number of stages.  On a full disk a stage
 * of somebody who only reads is given memory after all, STAGE_MEMORY_FULL of
 * it for all together: reads go on, a write is told at once.
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
	int fd;              /* the spill file, or -1 */
	bool shared;         /* the file is the one that all stages share, and the image is in this slot */
	uint32_t slot;
	uint64_t base;      /* of the image in the file */
	uint64_t only_read; /* a reader's: the size it will have; 0: it is written */
	uint64_t spared;    /* its part of STAGE_MEMORY_FULL */
	void *map;          /* the spill file, mapped by stage_bytes */
	size_t map_bytes;
	struct stage_span *spans; /* written; sorted, apart from each other */
	unsigned span_count, span_cap;
};

/* Where spill files are made; tried first, then TMPDIR, then /tmp.  Before any stage is used. */
void stage_set_directory(const char *path);
uint64_t stage_memory_used(void);

void stage_init(struct stage *s);
void stage_fini(struct stage *s);
/* Writes and remembers the span. */
int stage_write(struct stage *s, uint64_t offset, const void *p, size_t n) TFS_MUST;
/* Writes what the store has: no span. */
int stage_load(struct stage *s, uint64_t offset, const void *p, size_t n) TFS_MUST;
/* Cuts or zero-extends; spans are clipped.  Extending remembers no span. */
int stage_truncate(struct stage *s, uint64_t size) TFS_MUST;
int stage_read(struct stage *s, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
/* The whole image as one piece of memory, until the next call on s. */
int stage_bytes(struct stage *s, struct slice *out) TFS_MUST;
void stage_forget_spans(struct stage *s);
/* Empties it, memory and file given back. */
void stage_reset(struct stage *s);

#endif
