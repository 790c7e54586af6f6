/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outputs of a run (tfs_run_new) as a stream of text.  As TSV, a result or a line is
 * output, key, value, separated by tabs, each escaped (escape.h); a line has no key.  An emitted
 * cell is a line of line.h.  As JSON, each is an object with members of these names.
 *
 * Threads: values, no sharing.  Errors: -ENOMEM, and the errors of tfs_run_next.
 */
#ifndef TFS_BULK_OUTPUTS_H
#define TFS_BULK_OUTPUTS_H

#include "engine/bulk/line.h"

/*
 * Appends the next lines, until out has at least `enough` bytes or the run ends.  Returns 1, 0 if the run has ended,
 * -errno.  -EINTR: the next call continues.
 */
int outputs_read(struct tfs_run *r, enum line_format format, size_t enough, struct buf *out) TFS_MUST;

#endif
