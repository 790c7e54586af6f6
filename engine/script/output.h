/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One output of a script.  A worker collects the additions of the script and sends them as a
 * part of a delta; a client merges the deltas.
 *
 * Merges give the same result in any order, with two exceptions: the last digits of sums of
 * floats, and `top`.  Each count of `top` is too low by at most 1/1000 of all counts.  The
 * sketches:
 *   top        the counts of at most 2 * C keys (C: 10 * n, at least 1000).  If there are more, the (C+1)-th largest
 *              count is subtracted from all, and keys without a count are dropped (Misra and Gries)
 *   unique     HyperLogLog with 16,384 registers: a standard error of 0.81 %
 *   quantiles  a count for each sign, exponent and 8 bits of mantissa, with the least number in it: at most 0.4 % below
 *   sample     the values with the n lowest hashes of row and number
 */
#ifndef TFS_SCRIPT_OUTPUT_H
#define TFS_SCRIPT_OUTPUT_H

#include "engine/script/map.h"

#define OUTPUT_KINDS(X)                                                                                                            \
	X(COUNT, "count")                                                                                                          \
	X(SUM, "sum")                                                                                                              \
	X(MIN, "min")                                                                                                              \
	X(MAX, "max")                                                                                                              \
	X(MEAN, "mean")                                                                                                            \
	X(COUNT_BY, "count_by")                                                                                                    \
	X(SUM_BY, "sum_by")                                                                                                        \
	X(TOP, "top")                                                                                                              \
	X(UNIQUE, "unique")                                                                                                        \
	X(SAMPLE, "sample")                                                                                                        \
	X(QUANTILES, "quantiles")                                                                                                  \
	X(HISTOGRAM, "histogram")                                                                                                  \
	X(LINES, "lines")

enum output_kind {
#define X(name, text) OUTPUT_##name,
	OUTPUT_KINDS(X)
#undef X
		OUTPUT_KINDS_END
};
extern const char *const output_kind_names[OUTPUT_KINDS_END];

enum {
	OUTPUTS_MAX = 256,
	OUTPUT_PARAMS_MAX = 1000,
	OUTPUT_NAME_MAX = 255,
	OUTPUT_TOP_MAX = 100000, /* n of top and sample */
	OUTPUT_REGISTERS = 1 << 14
};

struct output_sample {
	uint64_t hash;
	size_t n;
	uint8_t *p;
};

struct output {
	enum output_kind kind;
	char name[OUTPUT_NAME_MAX + 1];
	struct script_number *params;
	unsigned param_count;
	/* The state of the additions since the output was made or cleared. */
	bool any;                   /* something was added */
	struct total total;         /* count, sum, mean */
	uint64_t added;             /* mean, quantiles: how many numbers */
	struct script_number edge;  /* min, max; quantiles: the greatest number */
	struct map map;             /* count_by, sum_by, top, quantiles */
	uint8_t *registers;         /* unique: OUTPUT_REGISTERS, or NULL */
	struct output_sample *heap; /* sample: the greatest hash first */
	size_t heap_count, heap_cap;
	uint64_t *buckets; /* histogram: param_count + 1, or NULL */
};

/* Checks the kind's parameters.  Returns NULL, or the text of an error. */
const char *output_check(enum output_kind kind, const struct script_number *params, unsigned count);
void output_clear(struct output *o, struct budget *b); /* forgets all additions */
void output_free(struct output *o, struct budget *b);
/* Returns about how many bytes the output's part of a delta has. */
size_t output_bytes(const struct output *o);

/*
 * These add; the caller has chosen the function by the kind.  -ERANGE: a number is too large, -SCRIPT_LIMIT, -ENOMEM.
 * A number must not be NaN.
 */
int output_add_number(
	struct output *o, struct budget *b, struct script_number n) TFS_MUST; /* count sum min max mean quantiles histogram */
int output_add_key(
	struct output *o, struct budget *b, struct tfs_bytes key, struct script_number n) TFS_MUST; /* count_by sum_by top unique */
int output_add_sample(struct output *o, struct budget *b, uint64_t hash, struct tfs_bytes value) TFS_MUST; /* sample */

/* For encoding and merging (delta.c). */
int output_top_prune(struct output *o, struct budget *b) TFS_MUST; /* top: after entries were added */
int output_bucket_add(struct output *o, struct budget *b, uint32_t bucket, uint64_t count, double least) TFS_MUST; /* quantiles */
int output_register_raise(struct output *o, struct budget *b, uint32_t index, uint8_t rank) TFS_MUST;              /* unique */
uint32_t output_bucket_of(double d);

#endif
