/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library's inside: what the composition root gives it, and what
 * its files share.  It knows tablet servers and the master only as services.
 */
#ifndef TFS_CLIENT_CLIENT_H
#define TFS_CLIENT_CLIENT_H

#include "engine/base/mutex.h"
#include "engine/client/metadata.h"
#include "engine/client/route.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"
#include "engine/tabletfs.h"

/* Or it would end the process when memory does: an element that could not be added has no hh.tbl. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct client_options {
	struct tablet_service *tablets;
	struct master_service *master;
	struct router *router; /* for its numbers; NULL: none */
	/* What only the side that put the parts together can answer. */
	int (*space)(void *arg, uint64_t *total_bytes, uint64_t *available_bytes);
	int (*status)(void *arg, struct buf *out);
	int (*metrics)(void *arg, struct buf *out);
	int (*servers)(void *arg, int (*fn)(void *fn_arg, const struct tfs_server *server), void *fn_arg);
	void (*confirm_clock)(void *arg);
	int (*close)(void *arg); /* last: ends everything behind the services */
	void *arg;
};
int client_new(const struct client_options *o, struct tfs_store **out) TFS_MUST;

struct tfs_table {
	struct tfs_store *store;
	uint32_t id;
	unsigned refs; /* guarded by the store's lock, as are the next three */
	const struct schema *schema;
	bool gone; /* dropped, or replaced by a rename, through this store */
	UT_hash_handle hh;
};
struct tfs_store {
	struct client_options o;
	struct mutex lock;        /* RANK_CLIENT; never held over a call of a service */
	struct tfs_table *tables; /* by id; guarded by lock, as is */
	unsigned handles;         /* references to them: tfs_close is -EBUSY while there are any */
};
/* A reference for what works on the table: a mutation, a scan.  Goes back through tfs_table_close. */
void table_get(struct tfs_table *t);

/*
 * The request that applies the mutation, which lends it everything, its row
 * yet to be salted; or why it cannot be: -EINVAL, -ENOENT the table has gone.
 */
int mutation_request(const struct tfs_mutation *m, struct ts_request *q) TFS_MUST;
/* Is it a mutation of this table? */
bool mutation_is_of(const struct tfs_mutation *m, const struct tfs_table *t);

/* Dropped, or replaced by a rename, through this store? */
bool table_gone(struct tfs_table *t);
/* A reference to the schema as last seen. */
const struct schema *table_schema(struct tfs_table *t);
/* Takes in a newer schema. */
void table_learn(struct tfs_store *s, const struct schema *schema);
/* A table of that name other than `but` is no more. */
void table_forget(struct tfs_store *s, const char *name, uint32_t but);
/* Why a family of the schema as last seen is unknown: -EINVAL, or -ENOENT since the table has gone. */
int table_no_family(struct tfs_table *t) TFS_MUST;
/* -errno and the reason of a master's call; why may be NULL. */
int master_call(struct tfs_store *s, const struct ms_request *q, struct ms_answer *a, char **why) TFS_MUST;

static inline struct slice slice_of_bytes(struct tfs_bytes b)
{
	return slice_of(b.data, b.size);
}
static inline struct tfs_bytes bytes_of_slice(struct slice s)
{
	return tfs_bytes_of(s.p, s.n);
}
static inline struct op_time time_of(struct tfs_ts t)
{
	return (struct op_time){t.when == TFS_NEWEST, t.us};
}

#endif
