/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite extension tabletfs.so (tabletfs-sql(7)): the parts of its one virtual table module.
 * It uses the store through engine/tabletfs.h only.
 *
 * Functions return a result code of SQLite, and outputs are written on success only.  SQLite
 * holds the connection's mutex during each call, so nothing here has a lock.
 */
#ifndef TFS_SQL_INTERNAL_H
#define TFS_SQL_INTERNAL_H

#include "engine/tabletfs.h"

#include <sqlite3ext.h>

/* ---- connections and tables (table.c) ---- */

/* A store that a connection has open, shared by its virtual tables. */
struct sql_store {
	struct sql_store *next;
	char *source;
	struct tfs_store *store;
	unsigned users; /* virtual tables that have opened a table of it */
};

/* An operation of the row mutation that a transaction collects. */
enum change_kind { CHANGE_PUT, CHANGE_DELETE_COLUMN, CHANGE_DELETE_VERSION, CHANGE_MOVE, CHANGE_REQUIRE_ABSENT };
struct change {
	enum change_kind kind;
	bool noreplace; /* MOVE */
	char *family, *to_family;
	struct tfs_bytes qualifier, value, to_qualifier; /* owned */
	struct tfs_ts ts, to_ts;
};

/* A connection of SQLite.  One transaction changes one row of one table. */
struct connection {
	sqlite3 *db;
	struct sql_store *stores;
	struct sql_table *changed; /* the table of the changes; NULL: there are none */
	struct tfs_bytes row;      /* owned */
	struct change *changes;
	unsigned change_count;
};

enum value_type { VALUE_ANY, VALUE_TEXT, VALUE_BLOB, VALUE_INTEGER, VALUE_REAL };

/* A declared column of a virtual table with one SQL row a row key. */
struct sql_column {
	char *name, *family;
	struct tfs_bytes qualifier; /* owned */
	enum value_type type;
};

struct sql_table {
	sqlite3_vtab base; /* first: SQLite's pointer to it is the table's */
	struct connection *c;
	char *source, *name, *snapshot; /* snapshot: NULL if it is the table itself */
	struct sql_column *columns;     /* NULL: one SQL row a cell */
	unsigned column_count;
	struct sql_store *store;     /* of `table` */
	struct tfs_table *table;     /* NULL until the first use */
	unsigned *marks, mark_count; /* by the number of a savepoint: the changes of this table before it */
};

/* The columns of both forms, and then those of a table of cells.  The first declared column has the number COLUMN_FAMILY. */
enum { COLUMN_ROW, COLUMN_FAMILY, COLUMN_QUALIFIER, COLUMN_TIMESTAMP, COLUMN_VALUE, COLUMN_CELL };
static inline bool table_has_cells(const struct sql_table *t)
{
	return t->columns == NULL;
}

/* Opens the table if it is not open.  After an error the table has a message. */
int table_use(struct sql_table *t);
void table_close(struct sql_table *t);
/* Sets the message of the table.  err: -errno of the library, or 0.  Returns the result code for err, SQLITE_ERROR for 0. */
int table_fail(struct sql_table *t, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- arguments of CREATE VIRTUAL TABLE (columns.c) ---- */

/* Fills in source, name, snapshot and the columns.  Returns NULL or the reason of an error, for sqlite3_free. */
char *columns_parse(struct sql_table *t, int argc, const char *const *argv);
void columns_free(struct sql_table *t);
/* Returns the text for sqlite3_declare_vtab, for sqlite3_free.  NULL: out of memory. */
char *columns_declare(const struct sql_table *t);
/* Returns the column with these names, or column_count. */
unsigned columns_find(const struct sql_table *t, const char *family, struct tfs_bytes qualifier);

/* ---- values (value.c) ---- */

/* Returns a copy, with a NUL behind it; p is NULL if there is no memory.  bytes_free(NULL bytes) does nothing. */
struct tfs_bytes bytes_copy(struct tfs_bytes b);
void bytes_free(struct tfs_bytes *b);
int bytes_compare(struct tfs_bytes a, struct tfs_bytes b);
/* Returns true if bytes are TEXT in SQLite: UTF-8 without NUL.  VALUE_TEXT_PATTERN matches the same keys, in a scan. */
bool value_is_text(struct tfs_bytes b);
extern const char value_text_pattern[], value_blob_pattern[];
/* The bytes of a TEXT, a BLOB, or a number as text.  They live as long as the value. */
struct tfs_bytes value_bytes(sqlite3_value *v);
/* Sets the result of a column: numeric text as SQLite's affinity converts it, else TEXT or BLOB. */
void value_result(sqlite3_context *ctx, struct tfs_bytes b, enum value_type type);

/* ---- plans (plan.c) ---- */

enum plan_op { PLAN_EQ, PLAN_IN, PLAN_LT, PLAN_LE, PLAN_GT, PLAN_GE, PLAN_GLOB, PLAN_LIKE, PLAN_OPS };
struct plan_condition {
	int column;
	enum plan_op op;
	bool literal; /* the value is a text in the statement */
};
enum { PLAN_CONDITIONS_MAX = 32 };
/* A plan is a text, idxStr, which EXPLAIN QUERY PLAN prints.  The arguments of xFilter are those of the conditions, then limit and offset. */
struct plan {
	struct plan_condition condition[PLAN_CONDITIONS_MAX];
	unsigned count;
	bool limit, offset;
	bool keys;                /* no value is used */
	bool ordered, descending; /* by row, as SQLite orders TEXT and BLOB */
};
int plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
void plan_parse(const char *text, struct plan *out);

/* ---- ranges of keys (range.c) ---- */

/* The keys of one type, TEXT or BLOB, that conditions leave. */
struct span {
	struct tfs_bytes from, to; /* owned; to.p NULL: no end */
	bool after, empty;         /* from is exclusive */
};
struct range {
	struct span text, blob;
	struct tfs_bytes *points; /* the keys of an IN, owned, in SQLite's order; NULL: no IN */
	unsigned point_count;
	bool inexact; /* it has keys that the conditions exclude */
	bool no_memory;
};
/* Narrows the range.  It never excludes a key that fulfils the condition. */
void range_add(struct range *r, const struct plan_condition *c, sqlite3_value *v);
/* One span for keys of both types.  Its bytes are the range's. */
struct span range_hull(const struct range *r);
/* Returns true if the conditions permit the key, which is TEXT. */
bool range_contains_text(const struct range *r, struct tfs_bytes key);
void range_free(struct range *r);
/* Returns true if no condition has narrowed the range. */
bool range_is_all(const struct range *r);
/* Returns true if the span is exactly one key, from. */
bool span_is_point(const struct span *s);

struct times {
	int64_t since, until; /* until is exclusive */
	bool bounded, empty, inexact;
};
void times_add(struct times *t, const struct plan_condition *c, sqlite3_value *v);

/* ---- reading (cursor.c) ---- */

int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out);
int cursor_close(sqlite3_vtab_cursor *base);
int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc, sqlite3_value **argv);
int cursor_next(sqlite3_vtab_cursor *base);
int cursor_eof(sqlite3_vtab_cursor *base);
int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column);

/* ---- the hidden key of a cell, by which SQLite names it in UPDATE and DELETE (cell_id.c) ---- */

struct cell_id {
	struct tfs_bytes row, qualifier;
	const char *family;
	int64_t ts;
};
/* Returns owned bytes, p NULL if there is no memory. */
struct tfs_bytes cell_id_make(const struct tfs_cell *cell);
/* The parts of *out point into b.  Returns false if b is not the key of a cell. */
bool cell_id_parse(struct tfs_bytes b, struct cell_id *out);

/* ---- changes (change.c, transaction.c) ---- */

int change_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid);

/* Adds a change of the row to the transaction.  Takes the copies in c, which is freed after an error. */
int transaction_add(struct sql_table *t, struct tfs_bytes row, struct change c);
/* Drops the changes of table t, beginning with number n. */
void transaction_cut(struct sql_table *t, unsigned n);
int transaction_begin(sqlite3_vtab *vtab);
int transaction_sync(sqlite3_vtab *vtab);
int transaction_end(sqlite3_vtab *vtab);
int transaction_savepoint(sqlite3_vtab *vtab, int n);
int transaction_release(sqlite3_vtab *vtab, int n);
int transaction_rollback_to(sqlite3_vtab *vtab, int n);

#endif
