/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by import, export and compact: the table and the format that the user names. */
#ifndef TFS_TOOL_TRANSFER_H
#define TFS_TOOL_TRANSFER_H

#include "engine/bulk/clauses.h"
#include "engine/bulk/line.h"
#include "engine/bulk/mutation_lines.h"
#include "engine/bulk/reader.h"
#include "engine/bulk/stream.h"
#include "engine/tabletfs.h"
#include "engine/tool/packed.h"
#include "engine/tool/tool.h"

enum { TRANSFER_BYTES = 1 << 20 }; /* the bytes of a read or a write */

/* The options of import and export, for struct command. */
#define TRANSFER_OPTIONS                                                                                                           \
	{"format", required_argument, NULL, 'f'},                                                                                  \
	{                                                                                                                          \
		"help", no_argument, NULL, 'h'                                                                                     \
	}

/* A table: PATH is its directory in a mount, or SOURCE/TABLE (engine/base/source.h). */
struct place {
	const char *path;
	int dir;                 /* a descriptor of the mounted table, or -1 */
	struct tfs_store *store; /* the opened store, or NULL */
	struct tfs_table *table; /* a table of `store`, or a snapshot */
	struct tfs_table *of;    /* the table of the snapshot, or NULL */
};
/* Returns the "/.snap/NAME" at the end of the path, or NULL: it names no snapshot. */
const char *snapshot_in(const char *path);
/* Returns true if the text is a source that another process serves, and so no path of this host. */
bool source_is_served(const char *source);
/* Opens the table.  make: makes it, and DATADIR, if they are absent.  Returns 0, or EXIT_CANNOT after a message. */
int place_open(struct place *p, const char *path, bool make) TFS_MUST;
/* Opens the table, or TABLE/.snap/NAME, by the library, also if it is mounted.  make: makes it if it is absent.  Returns 0, or EXIT_CANNOT after a message. */
int place_open_stored(struct place *p, const char *path, bool make) TFS_MUST;
/* Returns status, or EXIT_CANNOT after a message if the store cannot be closed. */
int place_close(struct place *p, int status) TFS_MUST;
/* Complains that a call of the library has failed: its reason (tfs_error), or else the error's text. */
void place_complain(const struct place *p, int err);

/* Sets the table's bytes on disk and number of cells.  On a mount they come from .tablets.  -errno: the user may not read it. */
int place_usage(const struct place *p, struct tfs_usage *out) TFS_MUST;

/* Lines of struct command's usage about the format. */
#define TRANSFER_USAGE                                                                                                             \
	"  --format FORMAT  tsv, jsonl, csv, wide.tsv or tar; else the end of FILE's name says\n"                                  \
	"                   it.  A further .gz or .zst says that FILE is compressed.  Standard\n"                                  \
	"                   input or output, and a name without a dot, are tsv.\n"
/*
 * The format that --format names or, without it, the end of the file's name.  TSV if file is NULL or its name has no dot.  *packing
 * follows the name.  Returns false after a message.
 */
bool transfer_format(const struct command *c, const char *option, const char *file, enum bulk_format *out, enum packing *packing);
/* Returns BULK_FORMATS if there is no such format. */
enum bulk_format transfer_format_named(const char *name);

/* Reads to the end, and appends to out; 0 or -errno. */
int transfer_read(int fd, struct buf *out) TFS_MUST;
/* Writes all; 0 or -errno. */
int transfer_write(int fd, struct tfs_bytes s) TFS_MUST;

/*
 * Rows and scans of a table in a data directory, by the library: through the process that
 * serves the store, or in this process.  Exit codes are as for put, get and scan.
 */
/* Returns true if the path is SOURCE/TABLE, and not a table's directory in a mount. */
bool stored_is(const char *path);
/* Applies the lines, with `commit`, to a row.  *answer is the result or the refusal.  Returns 0 or -errno; -EBUSY: after a message. */
int stored_mutate(const char *path, struct tfs_bytes row, struct tfs_bytes lines, struct buf *answer) TFS_MUST;
/* Prints the cells that match, of this row only unless row.p is NULL.  Sets *bytes, if not NULL, to the number of bytes. */
int stored_scan(const char *path, const struct clauses *c, struct tfs_bytes row, enum bulk_format format, uint64_t *bytes) TFS_MUST;
/* Prints the keys of the rows that match, the names of the cells, or the numbers of both, as .keys, .names and .count do. */
enum stored_list { STORED_KEYS, STORED_NAMES, STORED_COUNT };
int stored_list(const char *path, const struct clauses *c, enum stored_list list) TFS_MUST;
/* Prints the value of the cell that `line` names. */
int stored_get(const char *path, struct tfs_bytes row, const struct mutation_line *line) TFS_MUST;

#endif
