/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deltas: partial outputs of a script, as bytes between processes (doc/formats).
 *
 *   u8 version, declarations, {varint index + 1, the additions to that output} ..., u8 0, streamed records
 */
#ifndef TFS_SCRIPT_DELTA_H
#define TFS_SCRIPT_DELTA_H

#include "engine/script/output.h"
#include "engine/script/script.h"

enum { DELTA_VERSION = 1, DELTA_PIECE = 1 << 16 };

/* Where an encoder writes.  write() gets the buffer when it has DELTA_PIECE bytes or more; it may be NULL. */
struct delta_sink {
	struct buf buf;
	int (*write)(void *arg, struct tfs_bytes piece);
	void *arg;
};
/* Hands the rest of the buffer to write(). */
int delta_flush(struct delta_sink *s) TFS_MUST;

/* Writes the version and the declarations. */
int delta_begin(struct delta_sink *s, const struct output *outputs, unsigned count) TFS_MUST;
/* Writes the additions to the i-th output; writes nothing if there are none. */
int delta_output(struct delta_sink *s, const struct output *o, unsigned i) TFS_MUST;
/* Ends the outputs; streamed records may follow. */
int delta_end(struct delta_sink *s) TFS_MUST;
int delta_line(struct buf *out, unsigned index, struct tfs_bytes line) TFS_MUST;
int delta_cell(struct buf *out, const struct script_cell *c) TFS_MUST;

/*
 * Reads the declarations: replaces *count and outputs, which has OUTPUTS_MAX elements.
 * -EBADMSG, -SCRIPT_LIMIT, -ENOMEM: outputs[0 .. *count - 1] must be freed, too.
 */
int delta_declarations(struct reader *r, struct budget *b, struct output *outputs, unsigned *count) TFS_MUST;
/* Reads the rest up to the streamed records, and adds its additions to the outputs.  -EBADMSG, -SCRIPT_LIMIT, -ENOMEM. */
int delta_merge(struct reader *r, struct budget *b, struct output *outputs, unsigned count) TFS_MUST;
/* Returns 1 and the next streamed record, 0 at the end, -EBADMSG. */
int delta_streamed(struct reader *r, const struct output *outputs, unsigned count, struct script_record *out) TFS_MUST;

#endif
