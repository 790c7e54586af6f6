/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of readers (reader.h): one table of operations for each format. */
#ifndef TFS_BULK_READER_INTERNAL_H
#define TFS_BULK_READER_INTERNAL_H

#include "engine/bulk/reader.h"
#include "engine/tabletfs.h"

struct record_reader;
struct line_reader;
struct record_reader_ops {
	size_t bytes; /* the size of the reader, which begins with a struct record_reader or line_reader */
	/* For formats of lines. */
	void (*begin)(struct line_reader *l);                                    /* a line */
	int (*take)(struct line_reader *l, const uint8_t *p, const uint8_t *to); /* bytes of the line, without a newline */
	const char *(*parse)(
		struct line_reader *l, struct record *r); /* the line has ended.  Returns NULL, or the reason why it is no cell */
	/* For archives, whose take is NULL. */
	int (*init)(struct record_reader *r);
	int (*feed)(struct record_reader *r, const uint8_t *p, size_t n);
	int (*end)(struct record_reader *r);
	void (*fini)(struct record_reader *r);
};
struct record_reader {
	const struct record_reader_ops *ops;
	struct record_sink sink;
	int err;
};
struct line_reader {
	struct record_reader reader;
	uint64_t number;    /* how many lines have ended */
	struct buf line;    /* the decoded fields */
	bool begun;         /* the line has a byte */
	const char *reason; /* the line is refused; the rest of it is skipped */
};

extern const struct record_reader_ops tsv_reader_ops, json_reader_ops, tar_reader_ops;

/* More bytes than any valid cell of a line has, decoded. */
#define RECORD_BYTES_MAX (TFS_ROW_MAX + TFS_NAME_MAX + TFS_QUALIFIER_MAX + TFS_VALUE_MAX + 4096)

#endif
