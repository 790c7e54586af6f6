/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random histories over a store: what the history test and the crash test
 * share.  A step is chosen by (seed, number) alone, never by what the store
 * says, so that any step can be left out and the rest stay what they are.  A
 * step is run on one side (the library or the reference model) and writes all
 * that it saw, errors included, as text: two sides agree when the texts are
 * equal.
 */
#ifndef T_HISTORY_H
#define T_HISTORY_H

#include "t/lib/open_hooks.h"
#include "engine/tabletfs.h"

/* ---- the two implementations of tabletfs.h, with one interface ---- */
/* clang-format off */
#define API_FUNCTIONS(X)                                                                                              \
	X(close) X(sync) X(table_create) X(table_drop) X(table_rename) X(table_list) X(table_open) X(table_close)     \
	X(table_truncate) X(table_empty) X(schema_get) X(schema_put) X(schema_set_text) X(schema_change) X(mutation_new)                \
	X(mutation_free) X(mutation_put) X(mutation_write) X(mutation_delete_version) X(mutation_delete_column)       \
	X(mutation_delete_family) X(mutation_delete_row) X(mutation_set_time) X(mutation_move) X(mutation_increment)  \
	X(mutation_check) X(mutation_check_family) X(fingerprint) X(apply) X(scan_new) X(scan_next) X(scan_free)      \
	X(stat) X(read) X(row_exists) X(usage)                                                                        \
	X(tablets) X(split) X(merge) X(flush) X(compact) X(status) X(metrics)                                         \
	X(snapshot_create) X(snapshot_drop) X(snapshot_open) X(snapshot_list) X(snapshot_create_all)                  \
	X(snapshot_drop_all) X(table_clone)
/* clang-format on */
struct api {
#define API_FIELD(f) __typeof__(&tfs_##f) f;
	API_FUNCTIONS(API_FIELD)
#undef API_FIELD
};
extern const struct api api_library, api_model;

/* ---- text ---- */
struct out {
	char *p;
	size_t n, room;
};
void say(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say_bytes(struct out *o, struct tfs_bytes b); /* quoted; long ones as length and hash */
void out_reset(struct out *o);
void out_free(struct out *o);
uint64_t out_hash(const struct out *o);
/* Prints the first line in which they differ, with some before it. */
void out_differ(const struct out *a, const char *a_name, const struct out *b, const char *b_name);

/* What the library has logged, on standard output. */
void print_messages(void);

struct rng {
	uint64_t s;
};
uint64_t rnd(struct rng *r);
uint64_t below(struct rng *r, uint64_t n);
bool one_in(struct rng *r, unsigned n);

/* ---- one side ---- */
#define TABLES 3
struct side {
	const struct api *api;
	struct tfs_store *store;
	struct tfs_table *table[TABLES]; /* open handles by name number; NULL if there is no such table */
};
/* Opens the handles of all tables that are there. */
void side_open_tables(struct side *s);
void side_close_tables(struct side *s);

enum {
	STEP_AUTO = 1,         /* timestamps by the store's clock */
	STEP_TABLES = 2,       /* tables made, dropped, renamed */
	STEP_SCHEMA = 4,       /* families, groups, owners */
	STEP_BIG = 8,          /* values beyond a chunk */
	STEP_SYNC = 16,        /* some mutations with TFS_APPLY_SYNC */
	STEP_LONG = 32,        /* keys of the greatest length, and longer */
	STEP_AGES = 64,        /* cells that expire */
	STEP_TABLETS = 256,    /* tablets split and merged */
	STEP_SALTED = 512,     /* the first table is salted, and schemas salt others */
	STEP_SINGLE = 128,     /* every step is at most one durable change of what the store holds */
	STEP_SNAPSHOTS = 2048, /* snapshots and clones */
	STEP_KEEPS = 4096,     /* schemas have `changes` */
	STEP_CHANGES = 1024,   /* more of the steps that are rare: changes of tables, schemas and tablets */
};
struct step {
	uint64_t seed, number;
	unsigned flags;
};
enum step_kind {
	STEP_MUTATE,
	STEP_SCAN,
	STEP_POINT,
	STEP_TABLE,
	STEP_EDIT,
	STEP_RULES,
	STEP_FLUSH,
	STEP_COMPACT,
	STEP_SYNCS,
	STEP_REOPEN,
	STEP_MERGE,
	STEP_ALL,
	STEP_SPLIT,
	STEP_JOIN,
	STEP_COLLECT,
	STEP_METADATA,
	STEP_SNAPSHOT
};
#define STEP_KINDS (STEP_SNAPSHOT + 1)
extern const char *const step_kind_names[STEP_KINDS];
extern const char *const schema_op_names[TFS_SCHEMA_TEXT_APPEND + 1];
enum step_kind step_kind(const struct step *st);
/* Whether the step is a mutation that asks for TFS_APPLY_SYNC. */
bool step_is_sync(const struct step *st);
/* Returns by how much the clock moves before the step. */
int64_t step_clock(const struct step *st);
/*
 * Runs the step.  The caller itself runs REOPEN and the steps of server_step.  Returns the
 * library's return value of its main call.
 */
int step_run(struct side *s, const struct step *st, struct out *o);

/*
 * server.c: what the library's callers cannot ask for, and what changes
 * nothing that they see.  MERGE, a merging compaction of every tablet where
 * the policy wants one; COLLECT, SSTables that nothing refers to, gone after
 * a round; METADATA, its tablets flushed, split or merged.  0, or -errno, said.
 */
bool step_is_server(enum step_kind kind);
struct server;
struct master;
int server_step(struct server *s, struct master *m, const char *store_dir, const struct step *st, struct out *o);
/* SSTables that nothing refers to, of an earlier process. */
int server_leave(const char *store_dir);
/* Returns 0, or prints and returns -EEXIST if files of server_leave are still there. */
int server_leftovers(const char *store_dir, struct out *o);

/* The first two tables with families and groups; the start of every history.  In parts, each of one durable change. */
#define SETUP_PARTS 4
int side_setup_part(struct side *s, unsigned flags, unsigned part, struct out *o);
/* Everything there is: tables, snapshots, schemas, cells. */
void side_dump(struct side *s, struct out *o);
/* The library's side: all changes of tables that have kept all, in their order, without tokens and times of commit. */
void side_changes(struct side *s, struct out *o);
/* As RULES changes a rule: is there a cell of the side that expires in [from, to)? */
bool side_expires_within(struct side *s, int64_t from, int64_t to);

/* The histories' clock, for both. */
#define CLOCK_BASE INT64_C(1600000000000000)
/*
 * Where a history's clock begins; it moves by milliseconds.  Cells have times a few
 * microseconds after CLOCK_BASE, and rules ages of whole seconds: so none expires just where
 * the clock stands, where times that only the library draws would make it expire on one side.
 */
#define CLOCK_START (CLOCK_BASE + 10000500)
extern _Atomic int64_t history_clock;
/* The clock was set back while the library was open, whose times of commit do not follow: they are no longer compared. */
extern bool history_set_back;
int64_t history_now(void *arg);

#endif
