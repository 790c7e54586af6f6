/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The permissions of the user of a request.  Each function returns 0 if the user may do
 * it, else -EACCES.  -EINVAL: there is no such family.  Call them only for requests with a
 * user.  served: a tablet of a user table.  may: TFS_MAY_* flags.  Any thread may call these.
 */
#ifndef TFS_SERVER_ACCESS_H
#define TFS_SERVER_ACCESS_H

#include "engine/server/tables/set.h"

int access_family(struct served_tablet *served, const struct ts_request *q, uint16_t family, unsigned may) TFS_MUST;
/* *failed_op: after an error, the operation that is not permitted, from 1. */
int access_ops(
	struct served_tablet *served, const struct ts_request *q, const struct row_mutation *m, unsigned *failed_op) TFS_MUST;
/* Sets the size of each written value to UINT64_MAX if the user may not read its family: an append would show the size of a value. */
void access_hide_sizes(
	struct served_tablet *served, const struct ts_request *q, const struct row_mutation *m, struct tfs_result *results);
/* Returns 0 if the user owns the table or is root. */
int access_owner(struct served_tablet *served, const struct ts_request *q) TFS_MUST;
/*
 * Sets *ids to the families that the user may read, in the order of `families`
 * (count 0: of the schema's families); the caller frees it.  -EACCES: the user may
 * not read one of `families`.
 */
int access_readable(struct served_tablet *served, const struct ts_request *q, const uint16_t *families, uint32_t count,
	uint16_t **ids, uint32_t *id_count) TFS_MUST;

#endif
