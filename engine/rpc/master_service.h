/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master service: tables and schemas (DESIGN 5).  Same rules as the
 * tablet service.  Client data never passes through it.
 */
#ifndef TFS_RPC_MASTER_SERVICE_H
#define TFS_RPC_MASTER_SERVICE_H

#include "engine/schema/schema.h"

enum ms_method {
	MS_TABLE_CREATE = 1, /* name, uid, gid, mode -> schema */
	MS_TABLE_DROP,       /* name; -ENOTEMPTY */
	MS_TABLE_RENAME,     /* name, to, noreplace */
	MS_TABLE_LIST,       /* name: strictly after, count -> names */
	MS_SCHEMA_BY_NAME,   /* name -> schema */
	MS_SCHEMA_BY_ID,     /* table -> schema */
	MS_SCHEMA_SET_TEXT,  /* table, text, mtime_us, uid, gid, groups -> schema; why, though err is 0: what of it was left out */
	MS_SCHEMA_CHANGE,    /* table, edit -> schema */
	MS_METHODS
};
struct ms_request {
	enum ms_method method;
	const char *name, *to;
	uint32_t table;
	bool noreplace;
	uid_t uid;
	gid_t gid;
	mode_t mode;
	uint32_t count;
	struct slice text;
	struct slice groups; /* gid_t, supplementary to gid */
	int64_t mtime_us;
	const struct tfs_schema_edit *edit;
};
struct ms_answer {
	int err;
	const struct schema *schema; /* a reference, or NULL */
	char *why;                   /* of an -EINVAL, mostly; or NULL */
	char (*names)[TFS_NAME_MAX + 1];
	uint32_t name_count;
};
void ms_answer_fini(struct ms_answer *a);

struct master_service;
struct master_service_ops {
	int (*call)(struct master_service *s, const struct ms_request *q, struct ms_answer *a);
};
struct master_service {
	const struct master_service_ops *ops;
};
static inline int TFS_MUST ms_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	return s->ops->call(s, q, a);
}
int ms_request_pack(const struct ms_request *q, struct buf *out) TFS_MUST;
/* edit, name, to, text: in the arena */
int ms_request_unpack(struct slice in, struct arena *arena, struct ms_request *q) TFS_MUST;
int ms_answer_pack(const struct ms_request *q, const struct ms_answer *a, struct buf *out) TFS_MUST;
int ms_answer_unpack(struct slice in, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
struct master_service *ms_round_trip_new(struct master_service *inner);

#endif
