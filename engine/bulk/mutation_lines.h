/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mutation of one row as lines of text (tabletfs-scan(7), ATOMIC ROWS):
 *
 *	set F:Q[@TS]<tab>VALUE
 *	append F:Q<tab>VALUE
 *	increment F:Q<tab>N
 *	delete F:Q[@TS]		a version, or a column
 *	delete F:		a family
 *	delete row
 *	check F:Q<tab>VALUE
 *	check-absent F:Q
 *	check-match F:Q<tab>REGEX
 *	commit
 *
 * Qualifiers and values have the escapes of escape.h.  A qualifier that ends in
 * an @ and a number, or in an @, has that @ escaped.  F:@ is the column with the
 * empty qualifier.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_MUTATION_LINES_H
#define TFS_BULK_MUTATION_LINES_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

/* The bytes of one mutation: its text, and 512 for each line. */
#define MUTATION_LINES_MAX (UINT64_C(128) << 20)
#define MUTATION_LINE_COUNT_MAX 65536u

enum mutation_verb {
	MUTATION_SET,
	MUTATION_APPEND,
	MUTATION_INCREMENT,
	MUTATION_DELETE,
	MUTATION_CHECK,
	MUTATION_CHECK_ABSENT,
	MUTATION_CHECK_MATCH,
	MUTATION_VERBS,
	MUTATION_CHECK_FAMILY /* not from text: `by` is the family's fingerprint */
};
struct mutation_line {
	enum mutation_verb verb;
	const char *family;         /* NULL to delete the whole row */
	bool all;                   /* set to delete the whole family */
	struct tfs_bytes name;      /* F:Q as it was written, without the timestamp; or "row" */
	struct tfs_bytes qualifier; /* the qualifier of a column */
	bool has_ts;
	int64_t ts;
	struct tfs_bytes value;
	int64_t by;
};

struct mutation_lines {
	struct mutation_line *lines; /* one for each line but `commit` */
	struct tfs_result *results;  /* after tfs_apply: one for each line, freed by mutation_lines_fini; else NULL */
	unsigned count;
	bool complete;     /* `commit` has been read */
	bool unended;      /* `commit` had no newline yet */
	struct buf rest;   /* the beginning of a line */
	struct buf answer; /* the text of mutation_lines_answer, or of the refusal */
	struct arena arena;
	uint64_t bytes; /* added so far, of MUTATION_LINES_MAX */
};

void mutation_lines_fini(struct mutation_lines *l); /* leaves {0} */
/*
 * Adds text, in which lines may end anywhere.  The families must be families of t.  If t is NULL, only
 * the form of the lines is checked.  -EINVAL: a line is malformed, names no family of t, or follows
 * `commit`; -EFBIG; -E2BIG: too many lines; -ENOMEM.  After an error the answer is the reason, and
 * nothing can be added or applied.
 */
int mutation_lines_add(struct mutation_lines *l, struct tfs_table *t, struct tfs_bytes text) TFS_MUST;
/* Adds a line that is not text. */
int mutation_lines_push(struct mutation_lines *l, const struct mutation_line *line) TFS_MUST;
/* Replaces *value, which is set for a counter, by its number as the plain name stores it.  -EINVAL: it is no number. */
int mutation_counter_value(struct arena *arena, struct tfs_bytes *value) TFS_MUST;
/* Returns true if the line makes a version. */
static inline bool mutation_line_writes(const struct mutation_line *line)
{
	return line->verb == MUTATION_SET || line->verb == MUTATION_APPEND || line->verb == MUTATION_INCREMENT;
}
/* A new mutation of the row by the lines.  l must outlive it.  One operation for each line, in their order. */
int mutation_lines_make(
	const struct mutation_lines *l, struct tfs_table *t, struct tfs_bytes row, struct tfs_mutation **out) TFS_MUST;
/*
 * Sets the answer after the mutation was applied with l->results (`err` is 0) or
 * was refused.  It has a line for each line that was read:
 *
 *	set F:Q@TS		the timestamp of the version
 *	append F:Q@TS<tab>SIZE	the size of the value
 *	increment F:Q@TS<tab>N	the value
 *	delete F:Q, check F:Q	and others: as they were written
 *	committed TIME		in microseconds
 *
 * or one line "refused<tab>line N: VERB F:Q: reason".  Returns err or -ENOMEM.
 */
int mutation_lines_answer(struct mutation_lines *l, int err) TFS_MUST;
/* The reason in the answer of a refusal, without the newline.  Empty if there is none. */
struct tfs_bytes mutation_lines_reason(const struct mutation_lines *l);

#endif
