/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts cells and rows in the bytes of an export, for a report of progress.
 * It reads what bulk_stream writes, and checks nothing.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_STREAM_COUNT_H
#define TFS_BULK_STREAM_COUNT_H

#include "engine/base/bytes.h"
#include "engine/bulk/reader.h"

struct stream_count {
	enum bulk_format format;
	uint64_t cells, rows;
	/* The rest is the state between two calls. */
	struct buf head; /* the line up to the end of its row, or an archive's header */
	struct buf row;  /* the head of the line before */
	unsigned quotes; /* set inside a string of JSON in head */
	bool escaped;    /* set if the byte before, in JSON, was a backslash */
	bool counted;    /* the line's row has been read; CSV: the header has been read */
	bool keyed;      /* CSV: the field is not the first of its line */
	bool filled;     /* CSV: the field has a byte */
	uint64_t skip;   /* tar: bytes up to the next header */
	bool extended;   /* tar: they are attributes, and are collected */
	struct buf attributes;
};

/* Adds the next bytes of the stream. */
int stream_count_add(struct stream_count *c, struct tfs_bytes s) TFS_MUST;
void stream_count_fini(struct stream_count *c);

#endif
