/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store service answers all requests of clients in other processes that are
 * neither for tablets nor for the master.  It reads schemas and locations through
 * it, so that it needs the address of any server and nothing else.  Any server of a
 * store answers it.  Ownership, errors and threads as in tablet_service.h.
 */
#ifndef TFS_RPC_STORE_SERVICE_H
#define TFS_RPC_STORE_SERVICE_H

#include "engine/rpc/keys.h"
#include "engine/rpc/wire.h"

enum ss_method {
	/* Reads of the lock service (engine/lock/lock.h), for the files of schemas and dropped tables. */
	SS_LOCK_GET = 1, /* name -> bytes, version, mtime_us */
	SS_LOCK_LIST,    /* name (a directory's) -> names */
	SS_LOCATE, /* table, row -> tablets: the row's tablet, and perhaps the next ones; -TABLE_DROPPED: the table has none; -TABLET_MOVED */
	SS_SPACE,  /* -> total_bytes, available_bytes */
	SS_STATUS, /* watcher -> bytes, a text */
	SS_METRICS,
	SS_SERVERS,       /* -> servers */
	SS_KEY,           /* name (the purpose) -> bytes */
	SS_CONFIRM_CLOCK, /* only the store's owner may send this */
	SS_CONFIG,        /* -> bytes, a text */
	SS_CONFIG_CHANGE, /* text -> why; only the store's owner may send this */
	SS_CLIENTS,       /* -> bytes, a text of all clients, or of the user's own clients */
	SS_DISCONNECT,    /* number (a client's); only the store's owner may send this */
	SS_ALLOW,         /* number */
	SS_LOAD,          /* -> servers (the asked server of a cluster); only the store's owner may send this */
	SS_PROBE,         /* probe: a step of another process's probe of the storage -> probe_err, why; by the cluster */
	SS_METHODS
};

#define SS_STEP(F)                                                                                                                 \
	F(VALUE, 1, uint64_t, probe)                                                                                               \
	F(VALUE, 2, uint32_t, number)                                                                                              \
	F(VALUE, 3, uint32_t, which)                                                                                               \
	F(VALUE, 4, uint32_t, step)
struct ss_step { /* as struct probe_order (engine/probe/probe.h) */
	SS_STEP(WIRE_MEMBER)
};
#define SS_REQUEST(F)                                                                                                              \
	F(VALUE, 1, enum ss_method, method)                                                                                        \
	F(VALUE, 2, const char *, name)                                                                                            \
	F(VALUE, 3, uint32_t, table)                                                                                               \
	F(VALUE, 4, struct tfs_bytes, row)                                                                                         \
	F(VALUE, 5, uint64_t, watcher)                                                                                             \
	F(VALUE, 6, struct tfs_bytes, text)                                                                                        \
	F(VALUE, 7, uint64_t, number)                                                                                              \
	F(STRUCT, 8, ss_step, probe)
struct ss_request {
	SS_REQUEST(WIRE_MEMBER)
};

#define SS_NAME(F) F(VALUE, 1, const char *, name)
struct ss_name {
	SS_NAME(WIRE_MEMBER)
};
#define SS_LOCATION(F)                                                                                                             \
	F(VALUE, 1, struct tfs_bytes, begin)                                                                                       \
	F(VALUE, 2, struct tfs_bytes, end) /* p is NULL at the table's end */                                                      \
	F(VALUE, 3, uint64_t, server)      /* its incarnation */                                                                   \
	F(VALUE, 4, uint64_t, assignment)
struct ss_location {
	SS_LOCATION(WIRE_MEMBER)
};
#define SS_LOCATIONS_MAX 16u
#define SS_SERVER(F)                                                                                                               \
	F(VALUE, 1, const char *, name)                                                                                            \
	F(VALUE, 2, const char *, state)                                                                                           \
	F(VALUE, 3, uint64_t, incarnation)                                                                                         \
	F(VALUE, 4, uint32_t, tablets)                                                                                             \
	F(VALUE, 5, uint64_t, bytes)
struct ss_server {
	SS_SERVER(WIRE_MEMBER)
};

#define SS_ANSWER(F)                                                                                                               \
	F(VALUE, 1, int, err)                                                                                                      \
	F(VALUE, 2, struct tfs_bytes, bytes)                                                                                       \
	F(VALUE, 3, uint64_t, version)                                                                                             \
	F(VALUE, 4, int64_t, mtime_us)                                                                                             \
	F(ARRAY, 5, ss_name, names, name_count)                                                                                    \
	F(ARRAY, 6, ss_location, tablets, tablet_count)                                                                            \
	F(VALUE, 7, uint64_t, total_bytes)                                                                                         \
	F(VALUE, 8, uint64_t, available_bytes)                                                                                     \
	F(ARRAY, 9, ss_server, servers, server_count)                                                                              \
	F(VALUE, 10, const char *, why)                                                                                            \
	F(VALUE, 11, int, probe_err)
struct ss_answer {
	SS_ANSWER(WIRE_MEMBER)
	struct arena arena; /* the memory of the whole answer; the caller of a channel also keeps `in`, from which it borrows */
	struct buf in;
};
void ss_answer_fini(struct ss_answer *a);

struct store_service;
/* On whose behalf a connection asks. */
struct ss_peer {
	const char *name;      /* "user 1000", "key laptop" */
	bool owner;            /* the peer may do everything */
	const struct key *key; /* NULL: a user */
};
struct store_service_ops {
	int (*call)(struct store_service *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a);
};
struct store_service {
	const struct store_service_ops *ops;
};
static inline int TFS_MUST ss_call(
	struct store_service *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	return s->ops->call(s, peer, q, a);
}
int ss_request_pack(const struct ss_request *q, struct buf *out) TFS_MUST;
/* Borrows from in and arena. */
int ss_request_unpack(struct tfs_bytes in, struct arena *arena, struct ss_request *q) TFS_MUST;
int ss_answer_pack(const struct ss_answer *a, struct buf *out) TFS_MUST;
/* Takes *in. */
int ss_answer_unpack(struct buf *in, struct ss_answer *a) TFS_MUST;
int ss_serve(struct store_service *s, const struct ss_peer *peer, struct tfs_bytes request, struct buf *answer) TFS_MUST;

#endif
