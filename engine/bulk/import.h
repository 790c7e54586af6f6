/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports into a table: the records of an input, in their order, as row mutations
 * of a batch.  A cell with a timestamp is stored as that version, so an input can
 * be imported again and changes nothing.
 *
 * Threads: one at a time; the callbacks are called during import_feed, import_pause
 * and import_end.
 */
#ifndef TFS_BULK_IMPORT_H
#define TFS_BULK_IMPORT_H

#include "engine/bulk/reader.h"
#include "engine/tabletfs.h"

/* Each may set *why, a static text, when it returns an error. */
struct import_options {
	struct tfs_table *table;
	void *arg;
	/*
	 * Returns 0 if cells may be stored in the family.  Called when the
	 * family is not the family of the record before.  It may make the
	 * family.  -ENOENT if the table has no such family.  Any error refuses
	 * the record.  NULL: every family of the schema.
	 */
	int (*family)(void *arg, const char *name, const char **why);
	/* Applies a schema.  An error refuses it.  NULL: it is refused. */
	int (*schema)(void *arg, struct tfs_bytes text, int64_t mtime_us, const char **why);
	/* Called for a record that is not stored. err is 0 if the record is not valid.  Returns 0 to continue, or -errno, which ends the import. */
	int (*refused)(void *arg, uint64_t number, int err, const char *reason);
	bool sync; /* import_end returns when the cells are on disk */
};

struct import_counts {
	uint64_t wrong_units; /* cells of record_is_in_wrong_unit */
	/*
	 * Bytes of the input.  A row counts again if its cells do not follow each other.  Cells that the store has refused, and
	 * their rows, do not count; after an error import_stop makes the numbers final.
	 */
	uint64_t bytes, cells, rows, refused;
};

/* The end of the reason of a mount that refuses an import, behind a number.  tabletctl reads it. */
#define IMPORT_STORED " cells of this import are stored"

struct import;
int import_new(enum bulk_format format, const struct import_options *o, struct import **out) TFS_MUST;
/* After an error the import has ended, and every call returns the error.  Cells that were read before may be stored or not. */
int import_feed(struct import *im, const void *p, size_t n) TFS_MUST;
/* The input may have ended (record_reader_pause).  When it returns 0, all cells that were not refused are stored. */
int import_pause(struct import *im) TFS_MUST;
/* The input has ended (record_reader_end).  When it returns 0, all cells that were not refused are stored. */
int import_end(struct import *im) TFS_MUST;
/* The input was not read to its end: stores the cells that were read, but no unfinished record. */
int import_stop(struct import *im) TFS_MUST;
struct import_counts import_counts(const struct import *im);
void import_free(struct import *im); /* NULL allowed; waits for the cells that were read */

#endif
