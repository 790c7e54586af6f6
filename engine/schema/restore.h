/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a schema from the ids found in a table's data, for tabletctl repair. */
#ifndef TFS_SCHEMA_RESTORE_H
#define TFS_SCHEMA_RESTORE_H

#include "engine/schema/schema.h"

struct restore_family {
	uint16_t id, group;
	const char *name; /* borrowed; if it is NULL the family is named "family-ID" */
};
struct restore_table {
	const char *name;
	uint32_t table;
	uid_t uid;
	gid_t gid;
	uint8_t salt;
	int64_t mtime_us;                      /* the time of .schema */
	const struct restore_family *families; /* in any order */
	unsigned family_count;
};
/*
 * In the schema only the owner has access, families have no GC rules, and
 * groups are named "group-ID" and have default settings.  -EINVAL: too many
 * families; -ENOMEM.
 */
int schema_restore(const struct restore_table *t, struct schema **out) TFS_MUST;

#endif
