/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clauses of a scan: components of a path below TABLE/.scan, as a
 * tfs_scan_spec.  Pure functions (tabletfs-scan(7)).
 */
#ifndef TFS_BULK_CLAUSES_H
#define TFS_BULK_CLAUSES_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

#define CLAUSES(X)                                                                                                                 \
	X(PREFIX, "prefix", "KEY      rows that begin with KEY")                                                                   \
	X(FROM, "from", "KEY      rows from KEY on")                                                                               \
	X(TO, "to", "KEY      rows before KEY")                                                                                    \
	X(AFTER, "after", "KEY      rows behind KEY; with reverse=yes, rows before KEY")                                           \
	X(ROW, "row", "REGEX    rows whose whole key matches")                                                                     \
	X(REVERSE, "reverse", "yes      rows in descending order")                                                                 \
	X(LIMIT, "limit", "N        the first N rows that match all clauses")                                                      \
	X(FAMILY, "family", "F,G      cells of these families")                                                                    \
	X(QUALIFIER, "qualifier", "REGEX    cells whose whole qualifier matches")                                                  \
	X(QPREFIX, "qprefix", "Q        qualifiers that begin with Q")                                                             \
	X(QFROM, "qfrom", "Q        qualifiers from Q on")                                                                         \
	X(QTO, "qto", "Q        qualifiers before Q")                                                                              \
	X(QAFTER, "qafter", "Q        qualifiers behind Q")                                                                        \
	X(QLIMIT, "qlimit", "N        the first N columns of each row and family")                                                 \
	X(SINCE, "since", "TIME     timestamps from TIME on")                                                                      \
	X(UNTIL, "until", "TIME     timestamps before TIME")                                                                       \
	X(VERSIONS, "versions", "N        the N newest versions of each column")                                                   \
	X(AT, "at", "TIME     each column as it was at TIME: its newest version up to TIME")                                       \
	X(VALUE, "value", "REGEX    cells whose whole value matches")                                                              \
	X(VALUE_IS, "value-is", "TEXT     cells with this value")                                                                  \
	X(CHANGED, "changed", "TIME     cells that were committed at TIME or later")

#define CLAUSE_ENUMERATOR(upper, name, help) CLAUSE_##upper,
enum clause { CLAUSES(CLAUSE_ENUMERATOR) CLAUSE_COUNT };

struct clauses {
	struct tfs_scan_spec spec; /* of all clauses but limit; its bytes are in this struct */
	uint64_t limit;            /* 0: none */
	bool has_age;              /* a time depends on now */
	bool partial;              /* the path ends within a clause, in a part of a split name */
	uint32_t given;            /* bits, by enum clause */
	struct buf value[CLAUSE_COUNT];
	struct buf row_to, qualifier_to; /* ends of prefixes */
	struct buf row_last;             /* for the caller: of limit */
	const char **families;
};

/*
 * Parses clauses joined by '/', escaped and split as names are (name_decode_text in engine/base/name.h).
 * Ages count back from now_us.  -EINVAL with *why, a static text.  Families and
 * patterns are not checked.  The caller calls clauses_fini in any case.
 */
int clauses_parse(struct tfs_bytes path, int64_t now_us, struct clauses *out, const char **why) TFS_MUST;
void clauses_fini(struct clauses *c);
/* Returns true if the row is between the bounds of the rows. */
bool clauses_admit_row(const struct clauses *c, struct tfs_bytes row);
/* Narrows the bounds of the rows or of the qualifiers.  NULL is no bound; borrowed. */
void bound_from(struct tfs_bytes *from, bool *after, struct tfs_bytes with, bool with_after);
void bound_to(struct tfs_bytes *to, struct tfs_bytes with);
/* Appends the clauses, one a line. */
int clauses_help(struct buf *out) TFS_MUST;

#endif
