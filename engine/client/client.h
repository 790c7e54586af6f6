/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the client library: its connections to the services,
 * table handles, and common functions.  The library calls tablet servers and
 * the master only as services.
 */
#ifndef TFS_CLIENT_CLIENT_H
#define TFS_CLIENT_CLIENT_H

#include "engine/base/hashtable.h"
#include "engine/base/mutex.h"
#include "engine/base/process.h"
#include "engine/base/reason.h"
#include "engine/client/metadata.h"
#include "engine/client/route.h"
#include "engine/client/schemas.h"
#include "engine/client/window.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"
#include "engine/tabletfs.h"

struct client_options {
	struct lock_service *locks; /* the service that has the schemas */
	struct tablet_service *tablets;
	struct master_service *master;
	struct router *router; /* for metrics; may be NULL */
	/* Functions of the part that opened the store (engine/open.c). */
	int (*space)(void *arg, uint64_t *total_bytes, uint64_t *available_bytes);
	int (*status)(void *arg, uint64_t watcher, struct buf *out);
	int (*metrics)(void *arg, struct buf *out);
	int (*clients)(void *arg, struct buf *out); /* appends the lines of tfs_clients */
	int (*client_refuse)(void *arg, uint64_t client, bool refuse);
	int (*answers)(void *arg, uint64_t limit_us); /* does tfs_answers; NULL: this process does not serve the store */
	int (*servers)(void *arg, int (*fn)(void *fn_arg, const struct tfs_server *server), void *fn_arg);
	int (*confirm_clock)(void *arg);
	int (*key)(void *arg, const char *purpose, uint8_t *key); /* TFS_KEY_BYTES */
	/* Both NULL: another process serves the store, and has the settings. */
	void (*will_close)(void *arg);
	void (*change)(void *arg, const struct tfs_options *o); /* applies the settings that can change */
	/*
	 * Both are NULL if no other process uses the store.  After watch() client_changed is
	 * called.  heard() confirms that all has been dropped that the notices up to this number
	 * name.
	 */
	int (*watch)(void *arg);
	void (*heard)(void *arg, uint64_t notice);
	bool remote; /* if client_changed is not called four times a second, changes may be missing */
	/* Set if another process serves the store, and so has the settings; else NULL. */
	int (*config)(void *arg, struct buf *out);
	int (*config_change)(void *arg, struct tfs_bytes text, char **why);
	void (*login)(void *arg, struct tfs_login *out);
	int (*close)(void *arg); /* called last; closes all services */
	void *arg;
	struct tfs_options options; /* the options in use; a 0 here does not stand for a default */
};
/* The rows of a table, by the id of its tablets, may have changed; 0: of any.  Wakes the readers of their changes. */
void waiters_wake(struct tfs_store *s, uint32_t tablets);
struct waiter;
/* From now on waiters_wake finds w.  Call it before the changes are read. */
void waiter_add(struct tfs_store *s, struct waiter *w);
void waiter_remove(struct tfs_store *s, struct waiter *w);
/* The caller holds the store's lock.  Its fn is called, if it has one. */
void waiter_wake(struct tfs_store *s, struct waiter *w);
int client_new(const struct client_options *o, struct tfs_store **out) TFS_MUST;
/*
 * Other processes have changed the store.  notice: a packed NOTICE (rpc/hello.h), and its number.  told: all
 * changes are reported to the store.  If told is false, notice may be NULL, and only the
 * notice's schemas are read again: nothing else is kept, until a notice says that anything may
 * have changed.  Only queues work for the thread of tfs_watch.
 */
void client_changed(struct tfs_store *s, const struct tfs_bytes *notice, uint64_t number, bool told);

struct tfs_table {
	struct tfs_store *store;
	uint32_t id;
	unsigned refs;               /* guarded by the store's lock, as the next members */
	const struct schema *schema; /* as last received */
	bool gone;                   /* dropped, or replaced by a rename, through this store */
	/*
	 * In a snapshot: `schema` with the access rules of tfs_schema_get, and the table's
	 * schema from which these were made.
	 */
	const struct schema *restricted, *restricted_by;
	UT_hash_handle hh;
	struct window window; /* the window of the batches; only in the registered handle */
	struct tfs_table *of; /* in a snapshot, a reference to the registered handle of its table; else NULL */
	/*
	 * In a handle for one user: the table's registered handle, which has `schema`
	 * and `gone`.  NULL: this is the registered handle.
	 */
	struct tfs_table *base;
	struct tfs_user user; /* the memory of `groups` follows the struct */
};
struct task_pool;
struct watch;
/*
 * A reader of changes.  While it has read all of them it is in the list of its table's tablets (WAITER_LISTS), so that
 * a mutation finds the readers of its table alone, and looks at no list if its table has none.  Guarded by the store's lock.
 */
struct waiter {
	struct waiter *next;
	uint32_t tablets; /* of the table that it reads */
	bool listed;      /* set until there may be more */
	void (*fn)(void *arg);
	void *arg;
};
enum { WAITER_LISTS = 256 }; /* a reader is in the list of its tablets' id modulo this */
struct tfs_store {
	struct client_options o;
	uint64_t number;           /* of reason_store(), for tfs_error */
	uint32_t forks;            /* process_forks() when it was opened */
	struct mutex lock;         /* RANK_CLIENT; not held during a call of a service */
	struct mutex config_lock;  /* RANK_CLIENT; guards o.options, and is held while they are changed */
	struct tfs_table *tables;  /* by id; guarded by lock */
	struct task_pool *batches; /* the pool of the batches without threads of their own; guarded by lock */
	unsigned batch_count;      /* number of these batches; the pool exists while it is not 0 */
	struct watch *watch;       /* watch.c; guarded by lock */
	struct cond waits;         /* a waiter was taken out of its list */
	unsigned handles;          /* the sum of refs in `tables`; guarded by lock; tfs_close returns -EBUSY unless it is 0 */
	struct waiter *_Atomic waiters[WAITER_LISTS]; /* guarded by lock, but may be compared with NULL without it */
};
/* Returns true in a child of the process that opened the store.  Calls are refused there with -EPERM, and its close does nothing. */
static inline bool store_is_parents(const struct tfs_store *s)
{
	return s->forks != process_forks();
}
/* Returns the registered handle of the same table. */
static inline struct tfs_table *table_base(struct tfs_table *t)
{
	return t->base ? t->base : t;
}
/* Returns the user of the handle's requests; NULL: none was set. */
static inline const struct tfs_user *table_user(const struct tfs_table *t)
{
	return t->base ? &t->user : NULL;
}
#define SNAPSHOT_STAYS "a snapshot cannot be changed"
#define ROW_LIMIT "a row key has 1 to 65,536 bytes"
#define PARENTS "the store was opened by the parent of this process"
/* As tfs_name_valid; if the name is not valid, sets the reason. */
bool name_valid(struct tfs_store *s, const char *name);
/* Adds a reference for a mutation, a scan or a batch.  tfs_table_close drops it. */
void table_get(struct tfs_table *t);

/*
 * Sets *out to the mutation as the service takes it.  *out borrows the mutation's memory,
 * and its row has no salt.  Sets *generation to the generation of the mutation's schema.  -EINVAL: the mutation is
 * invalid or of another table.  -ENOENT: the table was dropped.
 */
int mutation_row(const struct tfs_mutation *m, const struct tfs_table *t, struct row_mutation *out, uint64_t *generation) TFS_MUST;

/*
 * Reasons of errors (tfs_error).  Each sets the reason of err, in the place of an earlier one, and returns err.
 * table_why() begins the text with the name of the table or snapshot, column_why() also with the row and, unless they are NULL,
 * the family and the qualifier.
 */
#define store_why(s, err, ...) reason_set((s)->number, err, __VA_ARGS__)
int table_why(struct tfs_table *t, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int column_why(struct tfs_table *t, int err, struct tfs_bytes row, const char *family, const struct tfs_bytes *qualifier,
	const char *reason);
/* Sets the reason of an error that a call about the whole table has returned, unless there is one, and returns err. */
int table_failed(struct tfs_table *t, int err);
/* Sets the reason why a server has refused a mutation.  failed_op: the number of the operation, counted from 1; 0: unknown. */
int mutation_failed(struct tfs_table *t, const struct row_mutation *m, uint32_t failed_op, int err);

/* Returns true if the table was dropped, or replaced by a rename, through this store. */
bool table_gone(struct tfs_table *t);
bool is_snapshot(struct tfs_table *t);
/*
 * Returns a reference to the newest schema that the store has received.  A snapshot's
 * schema has the access rules of its instant.
 */
const struct schema *table_schema(struct tfs_table *t);
/* Stores the schema in its table's handle, unless the handle has a newer one. */
void table_update_schema(struct tfs_store *s, const struct schema *schema);
/* Sets `gone` in the handle of the table of that name, unless its id is `but`. */
void table_mark_gone(struct tfs_store *s, const char *name, uint32_t but);
/* Sets `gone` in the handle of this snapshot of the table. */
void snapshot_mark_gone(struct tfs_store *s, uint32_t table, const char *name);
/* Opens the table or snapshot with this schema, of which it takes the caller's reference.  of: the registered handle of a snapshot's table. */
int table_open(struct tfs_store *s, const struct schema *schema, struct tfs_table *of, struct tfs_table **out) TFS_MUST;
/*
 * Returns the error for a family that the schema does not have: -ENOENT if the
 * table was dropped, else -EINVAL.  Asks the server, and sets the reason.
 */
int table_no_family(struct tfs_table *t, const char *name) TFS_MUST;
/* ---- options.c ---- */
/* Copies the options (NULL: the defaults).  A size, time or number that is 0 gets its default. */
void options_fill(struct tfs_options *to, const struct tfs_options *from);
/* Appends the settings as text of tabletfs.conf(5).  Those that cannot change while the store is open are comments. */
int options_render(const struct tfs_options *o, struct buf *out) TFS_MUST;
/* Replaces settings of o by the settings in the text.  -EINVAL: a setting is wrong or cannot change; *why as in tfs_options_load. */
int options_change(struct tfs_options *o, struct tfs_bytes text, char **why) TFS_MUST;
/* Appends all settings with their defaults as comments. */
int options_render_example(struct buf *out) TFS_MUST;
/* Copies the settings that can change from `from` to o; appends the names of all further settings that differ to left. */
int options_adopt(struct tfs_options *o, const struct tfs_options *from, struct buf *left) TFS_MUST;

/*
 * Calls the master, and stores the schema of its answer in the table's handle.
 * Sets *why to the answer's reason, or NULL; the caller frees it.  why may be
 * NULL.
 */
int call_master(struct tfs_store *s, const struct ms_request *q, struct ms_answer *a, char **why) TFS_MUST;
/*
 * Has the master move all tablets of this server to others, and waits for that; the server then gets none until it starts
 * again.  -EPERM: only the store's owner may; -ENOENT: there is no such server; -EBUSY: no other server can take them.
 */
int client_drain(struct tfs_store *s, uint64_t incarnation) TFS_MUST;
/* Calls the master about t, and drops the answer.  -ENOENT: t is dropped; -EROFS: a snapshot, which can only be cloned. */
int call_for_table(struct tfs_table *t, struct ms_request *q, char **why) TFS_MUST;

#endif
