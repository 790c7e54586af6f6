/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clauses of a scan: components of a path below TABLE/.scan, as a
 * tfs_scan_spec.  Pure functions (tabletfs-scan(7)).
 */
#ifndef TFS_BULK_CLAUSES_H
#define TFS_BULK_CLAUSES_H

#include "engine/base/scan.h"

struct clause_kind {
	const char *name, *argument, *help;
	enum clause_type type;
	size_t at, size; /* where the member of tfs_scan_spec is */
};
extern const struct clause_kind clause_kinds[CLAUSE_COUNT];

struct clauses {
	struct tfs_scan_spec spec; /* its bytes are in this struct */
	bool has_age;              /* a time depends on now */
	bool partial;              /* the path ends within a clause, in a part of a split name */
	uint32_t given;            /* bits, by enum clause */
	bool where_joined;         /* the value of where has several conditions, joined by and */
	struct buf value[CLAUSE_COUNT];
	struct buf row_to, qualifier_to; /* ends of prefixes */
	struct buf row_last;             /* the last row of `limit`, for the caller */
	const char **families;
	struct tfs_key *keys; /* several prefixes */
	struct arena arena;   /* their bytes */
};

/*
 * Parses clauses joined by '/', escaped and split as names are (name_decode_text in engine/base/name.h).
 * from, to, stored-from and stored-to with the value '-', which .tablets shows for an open end, are open; the key '-' is %2D there.
 * Ages count back from now_us.  -EINVAL with *why, a static text.  Families and
 * patterns are not checked.  The caller calls clauses_fini in any case.
 */
int clauses_parse(struct tfs_bytes path, int64_t now_us, struct clauses *out, const char **why) TFS_MUST;
void clauses_fini(struct clauses *c);
/* Sets *us to the time that the text of a clause names; *is_age: it depends on now_us.  Returns false if it names none. */
bool clauses_time(const char *text, int64_t now_us, int64_t *us, bool *is_age);
/* Returns true if the store must check the value of a clause: a pattern, or names of families. */
bool clauses_need_store(const struct clauses *c);
/* Returns true if the row is between the bounds of the rows. */
bool clauses_admit_row(const struct clauses *c, struct tfs_bytes row);
/* Narrows the bounds of the rows or of the qualifiers.  NULL is no bound; borrowed. */
void bound_from(struct tfs_bytes *from, bool *after, struct tfs_bytes with, bool with_after);
void bound_to(struct tfs_bytes *to, struct tfs_bytes with);
/* Appends the description of one clause. */
int clause_help(enum clause clause, struct buf *out) TFS_MUST;
/* Appends the clauses, one a line. */
int clauses_help(struct buf *out) TFS_MUST;

#endif
