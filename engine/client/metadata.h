/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA by the tablet service: how a server or the master reads and
 * changes rows of METADATA wherever they are served (paper, section 5.1).
 *
 * Threads: any; a struct metadata is only a pointer to the service.
 * Errors: those of the tablet service; -EBADMSG, -EPROTO of the decoding.
 */
#ifndef TFS_CLIENT_METADATA_H
#define TFS_CLIENT_METADATA_H

#include "engine/client/cursor.h"
#include "engine/meta/meta.h"

/* -ENOENT: no such row.  *out is {0} or an earlier value, replaced on success. */
int metadata_read(struct tablet_service *svc, struct slice row_key, struct meta_tablet *out) TFS_MUST;
/* One mutation of one row, on disk before it returns. */
int metadata_mutate(struct tablet_service *svc, struct slice row_key, const struct op *ops, unsigned count) TFS_MUST;
/* Deletes the row; success when there is none. */
int metadata_delete(struct tablet_service *svc, struct slice row_key) TFS_MUST;
/* fn for each row in [from, to) (to.p NULL: to the end), decoded; non-zero stops and is passed on. fn may take *m apart. */
typedef int metadata_fn(void *arg, struct slice row_key, struct meta_tablet *m);
int metadata_scan(struct tablet_service *svc, struct slice from, struct slice to, metadata_fn *fn, void *arg) TFS_MUST;

#endif
