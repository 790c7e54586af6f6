/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a mutation that a client may repeat, as bytes.  It is in the
 * mutation's log record and in METADATA's column tablet:tokens.
 *
 *	i64 time of commit; varint error (positive) or 0;
 *	varint the operation that is the cause, from 1, or 0;
 *	without an error, for each operation, or for none: zigzag varints timestamp and counter;
 *	varint size; u8 1 if it replaced a version, else 0
 */
#ifndef TFS_TABLET_TOKENS_FORMAT_H
#define TFS_TABLET_TOKENS_FORMAT_H

#include "engine/cell/op.h"

/* The results as encoded have at least this capacity, so that token_result_fail has space. */
#define TOKEN_RESULT_LEAST 16u

/* Replaces the contents of out.  The time of commit is 0. */
int token_result_encode(const struct tfs_result *results, uint32_t count, struct buf *out) TFS_MUST;
void token_result_set_commit(struct buf *b, int64_t commit_us);
/* Replaces the result by an error.  b has the capacity. */
void token_result_fail(struct buf *b, int err, uint32_t failed_op);
/*
 * Returns the mutation's error or 0 in *err, and the operation that is the cause
 * in *failed_op.  Sets `count` results, or none if results is NULL.  Results
 * that were not encoded are zero.  -EBADMSG: damaged, or the number of results
 * is not `count`.
 */
int token_result_decode(struct tfs_bytes in, int *err, uint32_t *failed_op, struct tfs_result *results, uint32_t count) TFS_MUST;

#endif
