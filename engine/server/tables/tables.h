/* SPDX-License-Identifier: Apache-2.0 */
/* User tables, their schemas, and holds of their writes.  Any thread may call these. */
#ifndef TFS_SERVER_TABLES_H
#define TFS_SERVER_TABLES_H

#include "engine/schema/schema.h"
#include "engine/server/internal.h"

extern const struct server_part tables_part;
enum table_traffic { TABLE_READS, TABLE_WRITES, TABLE_WRITTEN_BYTES, TABLE_SCANNED_CELLS, TABLE_TRAFFIC };

/*
 * A table whose schema this server has.  The server and each tablet of the
 * table hold a reference.  tables.lock guards the fields, except constant and atomic
 * ones.
 */
struct user_table {
	uint32_t table;    /* constant */
	bool frozen;       /* a snapshot, which shows the instant frozen_us; constant */
	int64_t frozen_us; /* constant */
	unsigned refs;
	char name[TFS_NAME_MAX + 1];
	char file[SCHEMA_FILE_MAX]; /* the file of the lock service that has the schema */
	uint64_t generation;
	_Atomic uint64_t tablets_generation; /* the generation of the schema that all its tablets here have */
	struct store_schema *schema;
	const struct schema *access; /* the whole schema, which has owners, modes and ACLs */
	/*
	 * In a snapshot: the schema with the stricter of its former and its present
	 * access, and the table's schema from which it was made.
	 */
	const struct schema *restricted, *restricted_by;
	unsigned writers;      /* mutations, splits and merges under way */
	unsigned write_blocks; /* holds; while there is one, new mutations are refused */
	bool blocked;          /* the master has one of the holds, in its present term */
	bool writes_refused;   /* mutations were refused since the first hold began */
	unsigned turns;        /* number of requests for the next block that are refused */
	bool retire_deferred;  /* a split or merge did nothing, because writes were blocked */
	_Atomic bool dropped;
	int read_err; /* the error of the last attempt to read the schema (the table may have been dropped), or 0 */
	_Atomic uint64_t traffic[TABLE_TRAFFIC];
	/* Of quota.c: the size that all servers had for the table, and the bytes that this server has accepted since. */
	_Atomic uint64_t used_bytes, since_bytes;
	_Atomic bool over_quota;
	_Atomic bool is_ahead;   /* of storage/ahead.c: the log has said it */
	_Atomic bool salt_waits; /* the schema's new salt takes effect when the table is empty (master/change.c) */
};

/*
 * The counters of a name that no table has any more.  A metric is labelled with the name
 * of its table, and must not fall when the table is truncated, or when another table gets
 * the name.  The oldest entry is reused; tables that many others have followed begin at 0.
 */
enum { NAMES_LEFT = 256 };
struct name_left {
	char name[TFS_NAME_MAX + 1]; /* "": free */
	uint64_t traffic[TABLE_TRAFFIC];
};

struct tables {
	struct mutex lock;     /* guards the next members */
	struct cond drained;   /* no mutation of a table with a block is under way */
	struct user_table **v; /* by id */
	unsigned count;
	uint64_t term; /* the latest term of a master whose request has arrived */
	struct name_left names_left[NAMES_LEFT];
	unsigned next_left;
	uint64_t held_longest_us;      /* the longest hold of a snapshot or clone */
	struct store_schema *metadata; /* METADATA's; constant */
	struct quotas *quotas;         /* of quota.c */
};

struct store_schema *tables_metadata(struct server *s); /* a reference to METADATA's schema */

/* Returns a reference.  -TABLE_DROPPED: there is no such table. */
int user_table_get(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
void user_table_put(struct server *s, struct user_table *u);                    /* NULL is allowed */
struct store_schema *user_table_schema(struct server *s, struct user_table *u); /* a reference */
void user_table_name(struct server *s, struct user_table *u, char name[TFS_NAME_MAX + 1]);
/* The error of the last attempt to read its schema; 0: none. */
int user_table_error(struct server *s, struct user_table *u) TFS_MUST;
static inline bool user_table_dropped(const struct user_table *u)
{
	return atomic_load(&u->dropped);
}

/* ---- for quota.c ---- */
struct quotas;
struct quotas *tables_quotas(struct server *s);
void tables_set_quotas(struct server *s, struct quotas *q);
/* Returns references to the tables whose schema has a quota, without snapshots.  The caller frees the array. */
int tables_with_quota(struct server *s, struct user_table ***out, unsigned *count) TFS_MUST;

/* ---- schemas of tables, for schemas.c ---- */
/*
 * Stores the schema, of which `store` is the part for tablets, unless the table has a newer
 * one.  Returns 1 if it has stored the schema, 0 if not, -ENOMEM.  A new table is added.
 */
int user_table_set_schema(struct server *s, const struct schema *schema, struct store_schema *store) TFS_MUST;
/* All tablets of the table have the schema of this generation. */
void user_table_tablets_have(struct server *s, uint32_t table, uint64_t generation);
/*
 * Returns the first table with an id above `after`, except `except`, that this server has with
 * that file, or with any file if it is NULL; 0 if there is none.
 */
uint32_t tables_with_file(struct server *s, const char *file, uint32_t except, uint32_t after);
/* Returns the first table with an id above `after`, and copies its file.  unread: only tables whose schema could not be read.  0: none. */
uint32_t tables_next(struct server *s, uint32_t after, bool unread, char file[SCHEMA_FILE_MAX]);
void user_table_file(struct server *s, const struct user_table *u, char file[SCHEMA_FILE_MAX]);
/* Reading the table's schema has failed.  Its mutations are refused until it has been read. */
void user_table_set_error(struct server *s, uint32_t table, int err);
/* Removes the table.  Mutations of it get -TABLE_DROPPED from then on, and no tablet of it is inserted into the set.  Returns false if there is none. */
bool user_table_remove(struct server *s, uint32_t table);
/* Returns true if the table's schema is older than generation, or could not be read. */
bool user_table_is_behind(struct server *s, struct user_table *u, uint64_t generation);

/* ---- for access.c ---- */
/* A reference to the whole schema; NULL: there is none. */
const struct schema *user_table_access(struct server *s, struct user_table *u);
/*
 * Finds the restriction of a snapshot.  *made becomes a reference to the schema that
 * user_table_restrict has stored for it.  If none is stored, *then becomes a reference to
 * the snapshot's schema and *now one to its table's.  -EACCES: a schema is missing.
 */
int user_table_restriction(struct server *s, struct user_table *u, const struct schema **then, const struct schema **now,
	const struct schema **made) TFS_MUST;
/* Stores the schema that was made for a table's schema `now`.  Takes both references. */
void user_table_restrict(struct server *s, struct user_table *u, const struct schema *made, const struct schema *now);

/* ---- mutations, and blocks of them ---- */
enum on_block { ON_BLOCK_REFUSE, ON_BLOCK_RETURN };
enum { WRITES_BLOCKED = 1, WRITES_UNREAD };
/*
 * One attempt of user_table_write_begin.  Returns WRITES_UNREAD if the schema must be
 * read again first.  `reads` is the number of times that the caller has read it.
 */
int user_table_write_try(struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, unsigned reads,
	struct store_schema **schema) TFS_MUST;
void user_table_write_end(struct server *s, struct user_table *u);
/*
 * Blocks the table's writes for the master of the latest term; again has no further
 * effect.  On 0 no mutation of the table is under way, and none begins until
 * user_table_unblock_writes or a later term.  -EAGAIN: some are under way, or
 * others have their turn first; call it again.  -ENOENT: there is no such table.
 */
int user_table_block_writes(struct server *s, uint32_t table) TFS_MUST;
/*
 * New mutations are refused until user_table_release_writes was called as often.  The mutations
 * that are under way continue.  -TABLE_DROPPED.
 */
int user_table_hold_writes(struct server *s, uint32_t table) TFS_MUST;
/*
 * These end a hold of writes. user_table_release_writes ends the hold of a
 * snapshot or clone, which began at since_us (monotonic).  If they return true,
 * a split or merge was put off during the hold, and the caller calls
 * retire_soon.
 */
bool user_table_unblock_writes(struct server *s, uint32_t table) TFS_MUST;
bool user_table_release_writes(struct server *s, uint32_t table, uint64_t since_us) TFS_MUST;
/*
 * Called for each request of a master.  A later term ends the blocks of earlier terms;
 * *deferred as above.  -SESSION_ENDED if the term has ended.
 */
int tables_see_term(struct server *s, uint64_t term, bool *deferred) TFS_MUST;

/* ---- for the status ---- */
struct table_counts {
	unsigned tables, snapshots, salts_waiting;
	unsigned near_quota;      /* tables with more than nine tenths of their quota */
	uint64_t held_longest_us; /* the longest hold of a snapshot or clone */
};
struct table_counts tables_count(struct server *s);

/* ---- schemas.c: schemas of user tables, as the lock service has them ---- */
extern const struct server_part schemas_part;
/* Files of schemas that a watch has reported and that were not read yet. */
enum { CHANGED_FILES = 16 };
struct changed_files {
	char files[CHANGED_FILES][SCHEMA_FILE_MAX];
	unsigned count;
	bool all;         /* there were more than CHANGED_FILES: any file may have changed */
	uint64_t reports; /* the number of reports so far */
};

struct schemas {
	struct server *s;
	struct task task;
	struct mutex lock; /* RANK_FILES; guards changed.  A watch acquires it */
	struct changed_files changed;
	_Atomic bool has_changed;         /* changed is not empty */
	bool loading;                     /* set by schemas_load, where no two files may name one table */
	char (*refused)[SCHEMA_FILE_MAX]; /* files of schemas that are damaged; constant after the start */
	unsigned refused_count;
};
/* Reads the schemas of all tables, and watches them.  *why is set as server_start sets it. */
int schemas_load(struct server *s, char **why) TFS_MUST;
/* Reads all files of schemas. */
int schemas_read_all(struct server *s) TFS_MUST;
/* Queues the task. */
void schemas_soon(struct server *s);
/* In an embedded store: on return the server has every schema that was stored before the call. */
void schemas_current(struct server *s);
/* The i-th file of a damaged schema, whose table or snapshot is refused; NULL: there are no more. */
const char *schemas_refused(const struct server *s, unsigned i);
/*
 * Finds a table as user_table_get does.  If the table is unknown and the schema of some table
 * could not be read, reads all schemas again first.
 */
int user_table_find(struct server *s, uint32_t table, struct user_table **out) TFS_MUST;
/* Reads all schemas if the table is unknown: the master's request may come before the report of the watch. */
void user_table_learn(struct server *s, uint32_t table);
/*
 * Reads the schemas of the tables of a LOAD, also those that could not be read before.
 * The error does not belong to one table (user_table_error).
 */
int user_tables_read(struct server *s, const struct ts_assigned *v, uint32_t count) TFS_MUST;
/* Reads the table's schema again.  After an error the table's mutations are refused until it has been read. */
void user_table_refresh(struct server *s, uint32_t table);
/* If the table's schema is older than generation, or could not be read, reads it again.  Returns true if it has done so. */
bool user_table_read_again(struct server *s, struct user_table *u, uint64_t generation);
/*
 * Begins a mutation of the table; user_table_write_end ends it.  Returns 0,
 * -TABLE_DROPPED (the table was dropped) or -errno.  If writes are held, it begins nothing:
 * ON_BLOCK_REFUSE returns -EAGAIN.  ON_BLOCK_RETURN returns WRITES_BLOCKED; the end
 * of the hold then calls for retire_soon.
 * *schema is a reference to the table's schema.  If the server's schema is older
 * than generation, the server reads it again first.
 */
int user_table_write_begin(
	struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, struct store_schema **schema) TFS_MUST;
/* Returns 0 if the lock service has a schema of the table; -ECANCELED: it has none; -errno. */
int table_exists(struct server *s, uint32_t table) TFS_MUST;

#endif
