/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's control files: .tablets and .ctl of a table,
 * /.tabletfs/{metrics,servers,status,ctl}. Threads: any; engine calls are made,
 * some of them long (flush, compact).
 */
#ifndef TFS_FS_ADMIN_H
#define TFS_FS_ADMIN_H

#include "fs/base/notify.h"

struct caller;

/* Calls fn for each table, until it does not return 0; returns that, or an error.  Skips tables whose schema is damaged. */
int admin_each_table(int (*fn)(struct tfs_table *t)) TFS_MUST;
int admin_render_metrics(struct node *n, struct buf *out) TFS_MUST;
int admin_render_clients(struct node *n, struct buf *out) TFS_MUST;
int admin_render_servers(struct node *n, struct buf *out) TFS_MUST;
int admin_render_config(struct node *n, struct buf *out) TFS_MUST;
int admin_apply_config(struct node *n, struct tfs_bytes text, const struct caller *caller, struct changes *c);
int admin_render_status(struct node *n, struct buf *out) TFS_MUST;
int admin_render_tablets(struct node *n, struct buf *out) TFS_MUST;
/* .splits: a line for each tablet.  .splits.N: for N ranges of about equal bytes. */
#define ADMIN_SPLITS_MOST 4096
int admin_render_splits(struct node *n, struct buf *out) TFS_MUST;
/* Truncates the table that n is in, by the handle t (truncate.c).  Logs why it is refused. */
int admin_truncate(struct node *n, struct tfs_table *t, struct changes *c) TFS_MUST;
/* Appends the verbs of a control file, one a line, each with its effect. */
int admin_render_verbs(struct node *n, struct buf *out) TFS_MUST;
/* Lines of verbs.  -EINVAL, logged, at the first wrong line; the lines before it have been carried out. */
int admin_apply_verbs(struct node *n, struct tfs_bytes text, const struct caller *caller, struct changes *c) TFS_MUST;

#endif
