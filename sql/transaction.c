/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions of SQLite as row mutations.
 *
 *	xUpdate      adds changes of one row to the connection's list.  A change of a second row
 *		     fails, so that its statement fails; then nothing of the statement stays.
 *	xSync        SQLite's first step of a commit: applies the list as one mutation.  If this
 *		     fails, SQLite rolls the transaction back, and nothing was changed.
 *	xCommit,     forget the list.
 *	xRollback
 *
 * A statement without BEGIN is a transaction of its own.  So a statement that changes several
 * rows changes none.  Reads in a transaction see the table without its changes.
 *
 * Applying each change at once was rejected: the second row would fail after the first was
 * stored, and no rollback could take it back.
 */
#include "sql/internal.h"

#include <errno.h>
#include <stdlib.h>

SQLITE_EXTENSION_INIT3

static void change_fini(struct change *c)
{
	sqlite3_free(c->family);
	sqlite3_free(c->to_family);
	bytes_free(&c->qualifier);
	bytes_free(&c->to_qualifier);
	bytes_free(&c->value);
}

static unsigned count_of(const struct sql_table *t)
{
	return t->c->changed == t ? t->c->change_count : 0;
}

void transaction_cut(struct sql_table *t, unsigned n)
{
	struct connection *c = t->c;

	if (c->changed != t)
		return;
	while (c->change_count > n)
		change_fini(&c->changes[--c->change_count]);
	if (n)
		return;
	sqlite3_free(c->changes);
	c->changes = NULL;
	bytes_free(&c->row);
	c->changed = NULL;
}

/* Begins the list of a row, or checks that it is the list of this row. */
static int list_for(struct sql_table *t, struct tfs_bytes row)
{
	struct connection *c = t->c;

	if (c->changed && (c->changed != t || bytes_compare(c->row, row) != 0))
		return table_fail(t, 0, "a transaction changes one row of one table, and this one has changed a row of %s already",
			c->changed->name);
	if (!c->changed) {
		c->row = bytes_copy(row);
		if (!c->row.p)
			return SQLITE_NOMEM;
		c->changed = t;
	}
	return SQLITE_OK;
}

int transaction_add(struct sql_table *t, struct tfs_bytes row, struct change change)
{
	struct connection *c = t->c;
	const bool incomplete = !change.family || !change.qualifier.p ||
		(change.kind == CHANGE_MOVE && (!change.to_family || !change.to_qualifier.p)) ||
		(change.kind == CHANGE_PUT && !change.value.p);
	int rc = incomplete ? SQLITE_NOMEM : list_for(t, row);
	struct change *more;

	if (!rc && (c->change_count & (c->change_count - 1)) == 0) { /* twice as large at each power of two */
		more = sqlite3_realloc64(c->changes, (c->change_count + 1) * 2 * sizeof(*more));
		rc = more ? SQLITE_OK : SQLITE_NOMEM;
		c->changes = more ? more : c->changes;
	}
	if (rc)
		change_fini(&change);
	else
		c->changes[c->change_count++] = change;
	return rc;
}

/* ---- applying ---- */

static int add_operation(struct tfs_mutation *m, const struct change *c)
{
	switch (c->kind) {
	case CHANGE_PUT:
		return tfs_mutation_put(m, c->family, c->qualifier, c->ts, c->value);
	case CHANGE_DELETE_COLUMN:
		return tfs_mutation_delete_column(m, c->family, c->qualifier);
	case CHANGE_DELETE_VERSION:
		return tfs_mutation_delete_version(m, c->family, c->qualifier, c->ts.us);
	case CHANGE_MOVE:
		return tfs_mutation_move(m, c->family, c->qualifier, c->ts, c->to_family, c->to_qualifier, c->to_ts, c->noreplace);
	case CHANGE_REQUIRE_ABSENT:
		return tfs_mutation_check(m, TFS_CHECK_ABSENT, c->family, c->qualifier, c->ts, tfs_bytes_of(NULL, 0));
	}
	return -EINVAL;
}

static int explain(struct sql_table *t, int err, const struct tfs_result *results)
{
	const struct connection *c = t->c;
	unsigned i = 0;

	while (results && i < c->change_count && !results[i].failed)
		i++;
	if (err == -ECANCELED || err == -EEXIST) {
		(void)table_fail(t, 0, "the row or the cell exists already, since another process made it");
		return SQLITE_CONSTRAINT;
	}
	if (!results || i == c->change_count)
		return table_fail(t, err, "the change of a row");
	return table_fail(t, err, "the change of a row, at a column of %s", c->changes[i].family);
}

static int apply(struct sql_table *t)
{
	const struct connection *c = t->c;
	struct tfs_mutation *m = tfs_mutation_new(t->table, c->row);
	struct tfs_result *results = sqlite3_malloc64(c->change_count * sizeof(*results));
	int err = m && results ? 0 : -ENOMEM, rc = SQLITE_OK;

	if (results)
		memset(results, 0, c->change_count * sizeof(*results));
	for (unsigned i = 0; i < c->change_count && !err; i++)
		err = add_operation(m, &c->changes[i]);
	if (!err)
		err = tfs_apply(m, 0, results);
	if (err)
		rc = explain(t, err, results);
	tfs_mutation_free(m);
	sqlite3_free(results);
	return rc;
}

/* ---- the calls of SQLite ---- */

int transaction_begin(sqlite3_vtab *vtab)
{
	((struct sql_table *)vtab)->mark_count = 0;
	return SQLITE_OK;
}

int transaction_sync(sqlite3_vtab *vtab)
{
	struct sql_table *t = (struct sql_table *)vtab;
	int rc = count_of(t) ? apply(t) : SQLITE_OK;

	transaction_cut(t, 0);
	return rc;
}

int transaction_end(sqlite3_vtab *vtab)
{
	transaction_cut((struct sql_table *)vtab, 0);
	return SQLITE_OK;
}

/* A savepoint that is older than the table's part in the transaction has the mark 0. */
int transaction_savepoint(sqlite3_vtab *vtab, int n)
{
	struct sql_table *t = (struct sql_table *)vtab;
	unsigned *more;

	if (n < 0)
		return SQLITE_OK;
	more = sqlite3_realloc64(t->marks, ((unsigned)n + 1u) * sizeof(*more));
	if (!more)
		return SQLITE_NOMEM;
	t->marks = more;
	while (t->mark_count < (unsigned)n)
		t->marks[t->mark_count++] = 0;
	t->marks[n] = count_of(t);
	t->mark_count = (unsigned)n + 1;
	return SQLITE_OK;
}

/* SQLite releases a savepoint by its number, and all that are newer. */
int transaction_release(sqlite3_vtab *vtab, int n)
{
	struct sql_table *t = (struct sql_table *)vtab;

	if (n >= 0 && (unsigned)n < t->mark_count)
		t->mark_count = (unsigned)n;
	return SQLITE_OK;
}

int transaction_rollback_to(sqlite3_vtab *vtab, int n)
{
	struct sql_table *t = (struct sql_table *)vtab;

	if (n >= 0)
		transaction_cut(t, (unsigned)n < t->mark_count ? t->marks[n] : 0);
	return SQLITE_OK;
}
