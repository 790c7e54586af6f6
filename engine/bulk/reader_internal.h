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
	/* For formats in which a line may have newlines and several cells.  Each is NULL for other formats. */
	bool (*within)(struct line_reader *l);                 /* the next newline is a byte of the line */
	int (*record)(struct line_reader *l, uint64_t number); /* in the place of parse: calls the sink.  Returns its error */
	/* For archives, whose take is NULL. */
	int (*init)(struct record_reader *r);
	int (*feed)(struct record_reader *r, const uint8_t *p, size_t n);
	int (*end)(struct record_reader *r);
	void (*fini)(struct record_reader *r); /* a format of lines may have none */
};
enum { MARK_BYTES_MAX = 6 };
struct record_reader {
	const struct record_reader_ops *ops;
	struct record_sink sink;
	int err;
	/* The first bytes of the input, until they differ from each mark (reader.c). */
	uint8_t head[MARK_BYTES_MAX];
	size_t head_n;
	bool begun; /* the input begins with no mark that is not complete */
};
struct line_reader {
	struct record_reader reader;
	uint64_t number;    /* how many lines have ended */
	uint64_t newlines;  /* newlines within the line */
	struct buf line;    /* the decoded fields */
	bool begun;         /* the line has a byte */
	const char *reason; /* the line is refused; the rest of it is skipped */
};

extern const struct record_reader_ops tsv_reader_ops, json_reader_ops, tar_reader_ops, csv_reader_ops;

/* More bytes than any valid cell of a line has, decoded. */
#define RECORD_BYTES_MAX (TFS_ROW_MAX + TFS_NAME_MAX + TFS_QUALIFIER_MAX + TFS_VALUE_MAX + 4096)

#endif
