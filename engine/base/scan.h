/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of tfs_scan_spec, the clauses of TABLE/.scan, and the streams below them,
 * each as one list.  Every part that copies, encodes, parses, prints or checks scans reads
 * these lists.  A member or clause that is in its list needs only the code that applies it (engine/cell for filters and
 * counts, engine/tablet for bounds), and for some clauses the code that stores their values.
 */
#ifndef TFS_BASE_SCAN_H
#define TFS_BASE_SCAN_H

#include "engine/base/bytes.h"

/* The stage of a scan at which a member has its effect, in the order of the stages. */
enum scan_stage {
	SCAN_RESULT = 1,   /* the kind of the results, and their form */
	SCAN_BOUND = 2,    /* bounds of rows and qualifiers */
	SCAN_ORDER = 4,    /* the order, and the place in it at which the scan begins */
	SCAN_KEY = 8,      /* filters of rows and columns by their keys */
	SCAN_VERSION = 16, /* versions of a column, by their timestamps and their number */
	SCAN_VALUE = 32,   /* filters of the versions that are left */
	SCAN_COLUMN = 64,  /* counts the columns that are left, from the first one on */
	SCAN_COUNT = 128,  /* counts the results */
	SCAN_OPERAND = 256 /* has an effect only together with another member */
};

/*
 * F(VALUE, number in messages, type, member, stage).  A member that is 0, or whose
 * bytes are NULL, has no effect.  tablet_wire.c does not compile if tfs_scan_spec has
 * a member that is neither here nor in its own list of members that are not sent.
 */
#define SCAN_MEMBERS(F)                                                                                                            \
	F(VALUE, 1, enum tfs_scan_what, what, RESULT)                                                                              \
	F(VALUE, 2, struct tfs_bytes, row_from, BOUND)                                                                             \
	F(VALUE, 3, bool, row_from_after, OPERAND)                                                                                 \
	F(VALUE, 4, struct tfs_bytes, row_to, BOUND)                                                                               \
	F(VALUE, 5, bool, reverse, ORDER)                                                                                          \
	F(VALUE, 6, bool, one_row, BOUND)                                                                                          \
	F(VALUE, 7, struct tfs_bytes, qualifier_from, BOUND)                                                                       \
	F(VALUE, 8, bool, qualifier_from_after, OPERAND)                                                                           \
	F(VALUE, 9, struct tfs_bytes, qualifier_to, BOUND)                                                                         \
	F(VALUE, 10, bool, after_cell, ORDER)                                                                                      \
	F(VALUE, 11, int64_t, after_ts, OPERAND)                                                                                   \
	F(VALUE, 12, bool, has_times, VERSION)                                                                                     \
	F(VALUE, 13, int64_t, since, OPERAND)                                                                                      \
	F(VALUE, 14, int64_t, until, OPERAND)                                                                                      \
	F(VALUE, 15, uint32_t, versions, VERSION)                                                                                  \
	F(VALUE, 16, struct tfs_bytes, row_regex, KEY)                                                                             \
	F(VALUE, 17, struct tfs_bytes, qualifier_regex, KEY)                                                                       \
	F(VALUE, 18, struct tfs_bytes, value_regex, VALUE)                                                                         \
	F(VALUE, 19, struct tfs_bytes, value_is, VALUE)                                                                            \
	F(VALUE, 20, bool, has_changed, VALUE)                                                                                     \
	F(VALUE, 21, int64_t, changed_since, OPERAND)                                                                              \
	F(VALUE, 22, uint32_t, column_limit, COLUMN)                                                                               \
	F(VALUE, 23, uint64_t, row_limit, COUNT)                                                                                   \
	F(VALUE, 24, uint64_t, limit, COUNT)                                                                                       \
	F(VALUE, 25, size_t, batch_bytes, RESULT)                                                                                  \
	F(VALUE, 26, bool, past_damage, RESULT)                                                                                    \
	F(VALUE, 27, struct tfs_bytes, stored_from, BOUND)                                                                         \
	F(VALUE, 28, struct tfs_bytes, stored_to, BOUND)                                                                           \
	F(VALUE, 29, struct tfs_bytes, row_script, KEY)                                                                            \
	F(VALUE, 30, struct tfs_bytes, row_where, KEY)                                                                             \
	F(VALUE, 31, uint32_t, row_sample, KEY)

#define SCAN_WHAT_LAST TFS_SCAN_HASHES /* the last value of enum tfs_scan_what */
/* Returns true if a member of one of these stages has an effect.  Families are not looked at. */
bool scan_has(const struct tfs_scan_spec *s, unsigned stages);
/* Returns true if each entry of the scan ends a row.  Then it continues after a row, and each entry can be used at once. */
static inline bool scan_is_by_row(const struct tfs_scan_spec *s)
{
	return s->what == TFS_SCAN_ROWS || s->what == TFS_SCAN_STORED_ROWS || s->what == TFS_SCAN_HASHES;
}
/* Returns false if the scan is one for hashes and has a member that such a scan does not have (tfs_scan_what). */
static inline bool scan_hashes_valid(const struct tfs_scan_spec *s)
{
	return s->what != TFS_SCAN_HASHES || !(s->reverse || s->past_damage || s->row_limit || s->limit);
}
/* Copies the bytes of all members into the arena.  -ENOMEM. */
int scan_own_bytes(struct tfs_scan_spec *s, struct arena *arena) TFS_MUST;

/* The type of a clause's value. */
enum clause_type {
	CLAUSE_TYPE_PREFIX, /* bytes that bound rows or qualifiers, as those of the next three types do */
	CLAUSE_TYPE_FROM,
	CLAUSE_TYPE_TO,
	CLAUSE_TYPE_AFTER,
	CLAUSE_TYPE_BYTES, /* bytes that become the member */
	CLAUSE_TYPE_REGEX, /* bytes that the store checks, as a pattern or an expression of Lua */
	CLAUSE_TYPE_WHERE, /* conditions (where.h), whose families the store checks.  It may be given several times */
	CLAUSE_TYPE_COUNT, /* a number, at least 1.  From here on the values are text */
	CLAUSE_TYPE_SHARE, /* a share of all rows, as 1% or 0.01 */
	CLAUSE_TYPE_TIME,
	CLAUSE_TYPE_FLAG, /* yes or no */
	CLAUSE_TYPE_NAMES /* names of families; the store checks that they exist */
};

/*
 * X(enumerator, name, type, member of tfs_scan_spec, argument, help), a list for each
 * line of the usage of tabletctl.  engine/bulk/clauses.c stores the values.  For TIME, NAMES and bounds it has code for each
 * clause.  It also sets the members that say that another member has a value, for example has_changed.
 */
#define ROW_CLAUSES(X)                                                                                                             \
	X(PREFIX, "prefix", PREFIX, row_from, "=KEY", "rows that begin with KEY; of several, with any")                            \
	X(FROM, "from", FROM, row_from, "=KEY", "rows from KEY on")                                                                \
	X(TO, "to", TO, row_to, "=KEY", "rows before KEY")                                                                         \
	X(AFTER, "after", AFTER, row_from, "=KEY", "rows behind KEY; with reverse=yes, rows before KEY")                           \
	X(STORED_FROM, "stored-from", FROM, stored_from, "=KEY", "rows from the stored KEY on, which begins with a salt")          \
	X(STORED_TO, "stored-to", TO, stored_to, "=KEY", "rows before the stored KEY")                                             \
	X(ROW, "row", REGEX, row_regex, "=REGEX", "rows whose whole key matches")                                                  \
	X(LUA, "lua", REGEX, row_script, "=EXPR", "rows for which the Lua expression on the row r is true")                        \
	X(WHERE, "where", WHERE, row_where, "=CONDITION", "rows whose columns meet it: F:Q=VALUE, F:Q; and, or, not, ( )")         \
	X(SAMPLE, "sample", SHARE, row_sample, "=SHARE", "1% or 0.01 of all rows, chosen by a hash of their keys")                 \
	X(LIMIT, "limit", COUNT, row_limit, "=N", "the first N rows that match all clauses")                                       \
	X(REVERSE, "reverse", FLAG, reverse, "", "rows in descending order")
#define COLUMN_CLAUSES(X)                                                                                                          \
	X(FAMILY, "family", NAMES, families, "=F,G", "cells of these families")                                                    \
	X(QUALIFIER, "qualifier", REGEX, qualifier_regex, "=REGEX", "cells whose whole qualifier matches")                         \
	X(QPREFIX, "qprefix", PREFIX, qualifier_from, "=Q", "qualifiers that begin with Q")                                        \
	X(QFROM, "qfrom", FROM, qualifier_from, "=Q", "qualifiers from Q on")                                                      \
	X(QTO, "qto", TO, qualifier_to, "=Q", "qualifiers before Q")                                                               \
	X(QAFTER, "qafter", AFTER, qualifier_from, "=Q", "qualifiers behind Q")                                                    \
	X(QLIMIT, "qlimit", COUNT, column_limit, "=N", "the first N columns of each row and family")
#define VERSION_CLAUSES(X)                                                                                                         \
	X(SINCE, "since", TIME, since, "=TIME", "timestamps from TIME on")                                                         \
	X(UNTIL, "until", TIME, until, "=TIME", "timestamps before TIME")                                                          \
	X(VERSIONS, "versions", COUNT, versions, "=N", "the N newest versions of each column")                                     \
	X(AT, "at", TIME, until, "=TIME", "each column as it was at TIME: its newest version up to TIME")
#define VALUE_CLAUSES(X)                                                                                                           \
	X(VALUE, "value", REGEX, value_regex, "=REGEX", "cells whose whole value matches")                                         \
	X(VALUE_IS, "value-is", BYTES, value_is, "=TEXT", "cells with this value")                                                 \
	X(CHANGED, "changed", TIME, changed_since, "=TIME", "cells that were committed at TIME or later")
#define CLAUSES(X) ROW_CLAUSES(X) COLUMN_CLAUSES(X) VERSION_CLAUSES(X) VALUE_CLAUSES(X)

#define CLAUSE_ENUMERATOR(upper, ...) CLAUSE_##upper,
enum clause { CLAUSES(CLAUSE_ENUMERATOR) CLAUSE_COUNT };

/* X(enumerator, name, kind of the results, help): files below a scan.  fs/stream/scan_stream.c makes their bytes. */
#define SCAN_STREAMS(X)                                                                                                            \
	X(TSV, ".tsv", CELLS, "row, family:qualifier, timestamp and value, separated by tabs")                                     \
	X(JSONL, ".jsonl", CELLS, "one JSON object a cell")                                                                        \
	X(CSV, ".csv", CELLS, "a header, and one line a row: key, and the newest value of each column")                            \
	X(WIDE_TSV, ".wide.tsv", CELLS, "the same with tabs")                                                                      \
	X(TAR, ".tar", CELLS, "the tree of .rows as an archive")                                                                   \
	X(NAMES, ".names", KEYS, "the same lines as .tsv without the value")                                                       \
	X(KEYS, ".keys", ROWS, "row keys")                                                                                         \
	X(COUNT, ".count", KEYS, "the number of rows and of cells")

#endif
