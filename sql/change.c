/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSERT, UPDATE and DELETE of one SQL row (xUpdate), as changes of a row mutation.
 *
 * INSERT needs that the cell or the row is absent, unless it is INSERT OR REPLACE.  That is
 * looked up here, so that OR IGNORE works, and it is a check of the mutation, too.
 */
#include "sql/internal.h"

#include <errno.h>
#include <stdlib.h>

SQLITE_EXTENSION_INIT3

/* The columns of xUpdate begin behind the old and the new primary key. */
#define ARGUMENT(column) (argv[2 + (column)])

/* The values of one statement for one SQL row. */
struct update {
	struct sql_table *t;
	sqlite3_value **argv;
	bool replace; /* OR REPLACE */
	struct tfs_bytes row;
	const struct tfs_schema *schema;
};

/* The result without more detail: SQLite compares it for OR IGNORE. */
static int constraint(struct sql_table *t, const char *text)
{
	(void)table_fail(t, 0, "%s", text);
	return SQLITE_CONSTRAINT;
}

static const struct tfs_family *family_of(const struct update *u, const char *name)
{
	return *name == '#' ? NULL : tfs_schema_family(u->schema, name);
}

static int no_family(const struct update *u, const char *name)
{
	return table_fail(u->t, 0, "there is no family %s", name);
}

static int check_row(struct update *u, sqlite3_value *v)
{
	if (sqlite3_value_type(v) == SQLITE_NULL)
		return constraint(u->t, "row is NULL");
	u->row = value_bytes(v);
	return u->row.n && u->row.n <= TFS_ROW_MAX ? SQLITE_OK : constraint(u->t, "a row key has 1 to 65536 bytes");
}

/* The stored bytes of a value.  A counter is its number. */
static int stored(const struct update *u, const char *family, sqlite3_value *v, struct tfs_bytes *out)
{
	const struct tfs_family *f = family_of(u, family);
	struct tfs_bytes bytes = value_bytes(v);
	char text[32];

	if (!f)
		return no_family(u, family);
	if (bytes.n > TFS_VALUE_MAX)
		return table_fail(u->t, -EFBIG, "a value of %s", family);
	if (f->type == TFS_TYPE_COUNTER) {
		if (sqlite3_value_numeric_type(v) != SQLITE_INTEGER)
			return table_fail(u->t, 0, "%s has counters: a value is a whole number", family);
		sqlite3_snprintf(sizeof(text), text, "%lld", sqlite3_value_int64(v));
		bytes = tfs_str(text);
	}
	*out = bytes_copy(bytes);
	return out->p ? SQLITE_OK : SQLITE_NOMEM;
}

static int add(const struct update *u, enum change_kind kind, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts)
{
	return transaction_add(u->t, u->row,
		(struct change){
			.kind = kind, .family = sqlite3_mprintf("%s", family), .qualifier = bytes_copy(qualifier), .ts = ts});
}

static int put(const struct update *u, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts, sqlite3_value *v)
{
	struct change c = {.kind = CHANGE_PUT, .ts = ts};
	int rc = stored(u, family, v, &c.value);

	if (rc)
		return rc;
	c.family = sqlite3_mprintf("%s", family);
	c.qualifier = bytes_copy(qualifier);
	return transaction_add(u->t, u->row, c);
}

/* Requires that the cell is absent, now and when the mutation is applied. */
static int require_absent(const struct update *u, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts)
{
	struct tfs_info info;
	int err;

	if (!family_of(u, family))
		return no_family(u, family);
	err = tfs_stat(u->t->table, u->row, family, qualifier, ts, &info);
	if (!err)
		return constraint(u->t, "the row or the cell exists already");
	if (err != -ENOENT)
		return table_fail(u->t, err, "a look-up in %s", family);
	return add(u, CHANGE_REQUIRE_ABSENT, family, qualifier, ts);
}

/* ---- one SQL row a cell ---- */

static int timestamp_of(struct sql_table *t, sqlite3_value *v, int64_t *out)
{
	if (sqlite3_value_numeric_type(v) != SQLITE_INTEGER)
		return constraint(t, "a timestamp is a whole number of microseconds");
	*out = sqlite3_value_int64(v);
	return SQLITE_OK;
}

static int name_of(struct sql_table *t, sqlite3_value *v, const char **out)
{
	const struct tfs_bytes name = value_bytes(v);

	*out = (const char *)name.p;
	return sqlite3_value_type(v) == SQLITE_TEXT && strlen(*out) == name.n ? SQLITE_OK
									      : constraint(t, "family is not the name of a family");
}

static int qualifier_of(struct sql_table *t, sqlite3_value *v, struct tfs_bytes *out)
{
	if (sqlite3_value_type(v) == SQLITE_NULL)
		return constraint(t, "qualifier is NULL");
	*out = value_bytes(v);
	return out->n <= TFS_QUALIFIER_MAX ? SQLITE_OK : constraint(t, "a qualifier has at most 16384 bytes");
}

static int insert_cell(struct update *u)
{
	sqlite3_value **argv = u->argv;
	struct tfs_bytes qualifier = {0};
	struct tfs_ts ts = TFS_AUTO;
	const char *family = NULL;
	int64_t us = 0;
	int rc = check_row(u, ARGUMENT(COLUMN_ROW));

	if (!rc)
		rc = name_of(u->t, ARGUMENT(COLUMN_FAMILY), &family);
	if (!rc)
		rc = qualifier_of(u->t, ARGUMENT(COLUMN_QUALIFIER), &qualifier);
	if (!rc && sqlite3_value_type(ARGUMENT(COLUMN_VALUE)) == SQLITE_NULL)
		rc = constraint(u->t, "value is NULL");
	if (!rc && sqlite3_value_type(ARGUMENT(COLUMN_TIMESTAMP)) != SQLITE_NULL) {
		rc = timestamp_of(u->t, ARGUMENT(COLUMN_TIMESTAMP), &us);
		if (!rc) {
			ts = tfs_at(us);
			rc = u->replace ? SQLITE_OK : require_absent(u, family, qualifier, ts);
		}
	}
	return rc ? rc : put(u, family, qualifier, ts, ARGUMENT(COLUMN_VALUE));
}

static int find_cell(struct update *u, struct cell_id *id)
{
	if (sqlite3_value_type(u->argv[0]) != SQLITE_BLOB || !cell_id_parse(value_bytes(u->argv[0]), id))
		return table_fail(u->t, 0, "not the key of a cell");
	u->row = id->row;
	return SQLITE_OK;
}

static int delete_cell(struct update *u)
{
	struct cell_id id;
	int rc = find_cell(u, &id);

	return rc ? rc : add(u, CHANGE_DELETE_VERSION, id.family, id.qualifier, tfs_at(id.ts));
}

/* Moves the cell to another column or timestamp of its row. */
static int move_cell(struct update *u, const struct cell_id *from, const struct cell_id *to)
{
	if (!family_of(u, to->family))
		return no_family(u, to->family);
	return transaction_add(u->t, u->row,
		(struct change){.kind = CHANGE_MOVE,
			.noreplace = !u->replace,
			.family = sqlite3_mprintf("%s", from->family),
			.qualifier = bytes_copy(from->qualifier),
			.ts = tfs_at(from->ts),
			.to_family = sqlite3_mprintf("%s", to->family),
			.to_qualifier = bytes_copy(to->qualifier),
			.to_ts = tfs_at(to->ts)});
}

static int update_cell(struct update *u)
{
	sqlite3_value **argv = u->argv, *value = ARGUMENT(COLUMN_VALUE);
	struct cell_id from, to;
	int rc = find_cell(u, &from);

	if (rc)
		return rc;
	to = from;
	if (!sqlite3_value_nochange(ARGUMENT(COLUMN_ROW)) && bytes_compare(value_bytes(ARGUMENT(COLUMN_ROW)), from.row) != 0)
		return table_fail(u->t, 0, "UPDATE cannot change row: that would change two rows");
	if (!sqlite3_value_nochange(ARGUMENT(COLUMN_FAMILY)))
		rc = name_of(u->t, ARGUMENT(COLUMN_FAMILY), &to.family);
	if (!rc && !sqlite3_value_nochange(ARGUMENT(COLUMN_QUALIFIER)))
		rc = qualifier_of(u->t, ARGUMENT(COLUMN_QUALIFIER), &to.qualifier);
	if (!rc && !sqlite3_value_nochange(ARGUMENT(COLUMN_TIMESTAMP)))
		rc = timestamp_of(u->t, ARGUMENT(COLUMN_TIMESTAMP), &to.ts);
	if (!rc && !sqlite3_value_nochange(value) && sqlite3_value_type(value) == SQLITE_NULL)
		return add(u, CHANGE_DELETE_VERSION, from.family, from.qualifier, tfs_at(from.ts));
	if (!rc && (strcmp(from.family, to.family) != 0 || bytes_compare(from.qualifier, to.qualifier) != 0 || from.ts != to.ts))
		rc = move_cell(u, &from, &to);
	return rc || sqlite3_value_nochange(value) ? rc : put(u, to.family, to.qualifier, tfs_at(to.ts), value);
}

/* ---- one SQL row a row key ---- */

static int insert_row(struct update *u)
{
	sqlite3_value **argv = u->argv;
	const struct sql_table *t = u->t;
	bool any = false;
	int rc = check_row(u, ARGUMENT(COLUMN_ROW));

	for (unsigned i = 0; i < t->column_count; i++)
		any |= sqlite3_value_type(ARGUMENT(COLUMN_FAMILY + (int)i)) != SQLITE_NULL;
	if (!rc && !any)
		rc = constraint(u->t, "all columns are NULL: a row has a cell");
	for (unsigned i = 0; i < t->column_count && !rc && !u->replace; i++)
		rc = require_absent(u, t->columns[i].family, t->columns[i].qualifier, TFS_AUTO);
	for (unsigned i = 0; i < t->column_count && !rc; i++) {
		sqlite3_value *v = ARGUMENT(COLUMN_FAMILY + (int)i);

		if (sqlite3_value_type(v) != SQLITE_NULL)
			rc = put(u, t->columns[i].family, t->columns[i].qualifier, TFS_AUTO, v);
		else if (u->replace)
			rc = add(u, CHANGE_DELETE_COLUMN, t->columns[i].family, t->columns[i].qualifier, TFS_AUTO);
	}
	return rc;
}

static int delete_row(struct update *u)
{
	const struct sql_table *t = u->t;
	int rc = SQLITE_OK;

	u->row = value_bytes(u->argv[0]);
	for (unsigned i = 0; i < t->column_count && !rc; i++)
		if (family_of(u, t->columns[i].family))
			rc = add(u, CHANGE_DELETE_COLUMN, t->columns[i].family, t->columns[i].qualifier, TFS_AUTO);
	return rc;
}

static int update_row(struct update *u)
{
	sqlite3_value **argv = u->argv;
	const struct sql_table *t = u->t;
	int rc = SQLITE_OK;

	u->row = value_bytes(argv[0]);
	if (sqlite3_value_type(argv[1]) != sqlite3_value_type(argv[0]) || bytes_compare(value_bytes(argv[1]), u->row) != 0)
		return table_fail(u->t, 0, "UPDATE cannot change row: that would change two rows");
	for (unsigned i = 0; i < t->column_count && !rc; i++) {
		sqlite3_value *v = ARGUMENT(COLUMN_FAMILY + (int)i);

		if (sqlite3_value_nochange(v))
			continue;
		rc = sqlite3_value_type(v) == SQLITE_NULL
			? add(u, CHANGE_DELETE_COLUMN, t->columns[i].family, t->columns[i].qualifier, TFS_AUTO)
			: put(u, t->columns[i].family, t->columns[i].qualifier, TFS_AUTO, v);
	}
	return rc;
}

int change_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv, sqlite3_int64 *rowid)
{
	struct sql_table *t = (struct sql_table *)vtab;
	struct update u = {.t = t, .argv = argv, .replace = sqlite3_vtab_on_conflict(t->c->db) == SQLITE_REPLACE};
	const bool cells = table_has_cells(t);
	/* A statement that fails here adds nothing.  SQLite has no savepoint in a statement that is a transaction of its own. */
	const unsigned before = t->c->changed == t ? t->c->change_count : 0;
	int rc = table_use(t), err;

	if (rc)
		return rc;
	err = tfs_schema_get(t->table, &u.schema);
	if (err)
		return table_fail(t, err, "the schema cannot be read");
	if (argc == 1)
		rc = cells ? delete_cell(&u) : delete_row(&u);
	else if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
		rc = cells ? insert_cell(&u) : insert_row(&u);
	else
		rc = cells ? update_cell(&u) : update_row(&u);
	tfs_schema_put(u.schema);
	if (rc)
		transaction_cut(t, before);
	return rc;
}
