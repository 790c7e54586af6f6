/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a table (tfs_feed_open) as lines of text (tabletfs-formats(5)).
 *   TSV   token, time of commit, kind, row, column, timestamp, value, separated by tabs, each escaped (escape.h)
 *   JSON  an object with the members token, commit, kind, row, family, qualifier, timestamp, value; as of line.h
 * A column is FAMILY:QUALIFIER, or FAMILY if all of the family is deleted.  A field or member that a kind does not have is
 * empty or left out.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_FEED_H
#define TFS_BULK_FEED_H

#include "engine/bulk/line.h"

/* Appends the line of a change.  -ENOMEM. */
int feed_line(enum line_format format, const struct tfs_feed_change *c, struct buf *out) TFS_MUST;
/*
 * Opens the changes from a place: "start", "now", a time as in a clause of .scan, or a token.  Errors as of tfs_feed_open; *why is a
 * text that names the cause of -EINVAL, -ESTALE and -EOPNOTSUPP, else NULL.
 */
int feed_open(struct tfs_table *t, const char *from, int64_t now_us, struct tfs_feed **out, const char **why) TFS_MUST;
/* The text of such an error; NULL: it has none. */
const char *feed_why(int err);

#endif
