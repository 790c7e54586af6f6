/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master service: changes of tables and schemas.  Clients read them from the
 * lock service (client/schemas.h).  Ownership, errors and threads as
 * in tablet_service.h.  Client data does not pass through it (paper, section 5.2).
 */
#ifndef TFS_RPC_MASTER_SERVICE_H
#define TFS_RPC_MASTER_SERVICE_H

#include "engine/rpc/tablet_service.h"
#include "engine/schema/schema.h"

enum ms_method {
	MS_TABLE_CREATE = 1, /* name, uid, gid, mode -> schema */
	MS_TABLE_DROP,       /* name; -ENOTEMPTY */
	MS_TABLE_RENAME,     /* name, to, noreplace */
	/* These check `user`: -EACCES or -EPERM, as tfs_table_as states (engine/schema/access.c). */
	MS_SCHEMA_SET_TEXT, /* table, text, mtime_us -> schema; why: the reason of an error, or the owners and modes that were ignored */
	MS_SCHEMA_CHANGE,   /* table, edit -> schema */
	MS_SNAPSHOT_CREATE, /* table, to (the snapshot's name), of_all -> schema; -EEXIST */
	MS_SNAPSHOT_DROP,   /* table, to; of_all: -ENOENT unless it was made with of_all */
	MS_TABLE_CLONE,     /* table (a table's or snapshot's id), to (the new table's name) -> schema; -EEXIST */
	MS_TABLE_TRUNCATE,  /* table -> schema; -EPERM, -EBUSY; why */
	MS_COLLECT,         /* a round of the collector: removes the files that compactions have replaced */
	/*
	 * incarnation: this server gets no more tablets, and its tablets move to others.  -EAGAIN: some are left, ask again;
	 * -ENOENT: there is no such server; -EBUSY: no other server can take tablets, and nothing was changed.
	 */
	MS_DRAIN,
	MS_METHODS
};
/* All others change tables, snapshots or schemas. */
static inline bool ms_changes_schemas(enum ms_method m)
{
	return m != MS_COLLECT && m != MS_DRAIN;
}

#define MS_REQUEST(F)                                                                                                              \
	F(VALUE, 1, enum ms_method, method)                                                                                        \
	F(VALUE, 2, const char *, name)                                                                                            \
	F(VALUE, 3, const char *, to)                                                                                              \
	F(VALUE, 4, uint32_t, table)                                                                                               \
	F(VALUE, 5, bool, noreplace)                                                                                               \
	F(VALUE, 6, uid_t, uid)                                                                                                    \
	F(VALUE, 7, gid_t, gid)                                                                                                    \
	F(VALUE, 8, mode_t, mode)                                                                                                  \
	F(VALUE, 10, struct tfs_bytes, text)                                                                                       \
	F(VALUE, 12, int64_t, mtime_us)                                                                                            \
	F(POINTER, 13, tfs_schema_edit, edit)                                                                                      \
	F(VALUE, 14, bool, of_all)                                                                                                 \
	F(VALUE, 15, uint64_t, time_left_us) /* as in tablet_service.h */                                                          \
	F(POINTER, 16, tfs_user, user)       /* the user on whose behalf the client asks, or NULL for the owner of the store */    \
	F(VALUE, 17, uint64_t, client)       /* the id in the client's HELLO: its own change is not reported to it */              \
	F(VALUE, 18, uint64_t, incarnation)                                                                                        \
	F(VALUE, 19, uint64_t, number) /* random, or 0; a repetition has the same number, and gets the first answer */
struct ms_request {
	MS_REQUEST(WIRE_MEMBER)
};

#define MS_ANSWER(F) F(VALUE, 1, int, err)
/* The answer owns the members after the list; master_wire.c (struct payload) carries them. */
struct ms_answer {
	MS_ANSWER(WIRE_MEMBER)
	const struct schema *schema; /* a reference, or NULL */
	char *why;                   /* NULL, or the reason of an -EINVAL, or the parts of a text that were left out */
};
void ms_answer_fini(struct ms_answer *a);

struct master_service;
struct master_service_ops {
	int (*call)(struct master_service *s, const struct ms_request *q, struct ms_answer *a);
};
struct master_service {
	const struct master_service_ops *ops;
	_Atomic uint64_t *refused; /* counts of TS_REFUSALS; NULL: they are not counted */
};
static inline int TFS_MUST ms_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	return s->ops->call(s, q, a);
}
int ms_request_pack(const struct ms_request *q, struct buf *out) TFS_MUST;
/* Borrows from in and arena. */
int ms_request_unpack(struct tfs_bytes in, struct arena *arena, struct ms_request *q) TFS_MUST;
int ms_answer_pack(const struct ms_request *q, const struct ms_answer *a, struct buf *out) TFS_MUST;
int ms_answer_unpack(struct tfs_bytes in, const struct ms_request *q, struct ms_answer *a) TFS_MUST;
/* Serves as ts_serve does. */
int ms_serve(struct master_service *inner, struct tfs_bytes request, struct buf *answer) TFS_MUST;
struct master_service *ms_round_trip_new(struct master_service *inner);

#endif
