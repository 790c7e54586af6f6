/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry point of tabletfs.so, and the module.
 *
 * The extension stays in the process after its connection is closed, because libtabletfs has
 * threads and data of threads.
 */
#include "sql/internal.h"

#include <stdlib.h>

SQLITE_EXTENSION_INIT3

enum { NEEDED_VERSION = 3038000 }; /* of SQLite: sqlite3_vtab_in */

static int free_table(sqlite3_vtab *vtab)
{
	struct sql_table *t = (struct sql_table *)vtab;

	transaction_cut(t, 0);
	table_close(t);
	columns_free(t);
	sqlite3_free(t->marks);
	sqlite3_free(t);
	return SQLITE_OK;
}

/* Returns true if a statement returns a row whose first column is this text. */
static bool answers(sqlite3 *db, const char *sql, const char *text)
{
	sqlite3_stmt *s;
	bool same;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL))
		return false;
	same = sqlite3_step(s) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(s, 0), text) == 0;
	(void)sqlite3_finalize(s);
	return same;
}

static int connect_table(
	sqlite3 *db, struct connection *c, int argc, const char *const *argv, bool open, sqlite3_vtab **out, char **why)
{
	struct sql_table *t = sqlite3_malloc64(sizeof(*t));
	char *text = NULL;
	int rc = SQLITE_ERROR;

	if (!t)
		return SQLITE_NOMEM;
	*t = (struct sql_table){.c = c};
	*why = columns_parse(t, argc, argv);
	/* Another encoding has another order of texts. */
	if (!*why && !answers(db, "PRAGMA encoding", "UTF-8"))
		*why = sqlite3_mprintf("tabletfs: the database is UTF-16; begin a new one with PRAGMA encoding = 'UTF-8'");
	if (!*why) {
		text = columns_declare(t);
		rc = text ? sqlite3_declare_vtab(db, text) : SQLITE_NOMEM;
		if (rc)
			*why = sqlite3_mprintf("%s", sqlite3_errmsg(db));
	}
	if (!rc)
		rc = sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
	if (!rc && open) {
		rc = table_use(t);
		*why = rc ? t->base.zErrMsg : NULL;
		t->base.zErrMsg = NULL;
	}
	sqlite3_free(text);
	if (rc)
		(void)free_table(&t->base);
	else
		*out = &t->base;
	return rc;
}

/* Two functions, or SQLite would take the module's name for a table without arguments. */
static int create(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **why)
{
	return connect_table(db, aux, argc, argv, true, out, why);
}

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **why)
{
	return connect_table(db, aux, argc, argv, false, out, why);
}

/* The name of the virtual table is SQLite's alone. */
static int rename_table(sqlite3_vtab *vtab, const char *name)
{
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.iVersion = 2,
	.xCreate = create,
	.xConnect = connect,
	.xBestIndex = plan_best_index,
	.xDisconnect = free_table,
	.xDestroy = free_table,
	.xOpen = cursor_open,
	.xClose = cursor_close,
	.xFilter = cursor_filter,
	.xNext = cursor_next,
	.xEof = cursor_eof,
	.xColumn = cursor_column,
	.xUpdate = change_update,
	.xBegin = transaction_begin,
	.xSync = transaction_sync,
	.xCommit = transaction_end,
	.xRollback = transaction_end,
	.xRename = rename_table,
	.xSavepoint = transaction_savepoint,
	.xRelease = transaction_release,
	.xRollbackTo = transaction_rollback_to,
};

TFS_API int sqlite3_tabletfs_init(sqlite3 *db, char **why, const sqlite3_api_routines *api);
int sqlite3_tabletfs_init(sqlite3 *db, char **why, const sqlite3_api_routines *api)
{
	struct connection *c;
	int rc;

	SQLITE_EXTENSION_INIT2(api);
	if (sqlite3_libversion_number() < NEEDED_VERSION) {
		*why = sqlite3_mprintf("tabletfs needs SQLite 3.38 or later");
		return SQLITE_ERROR;
	}
	if (answers(db, "SELECT name FROM pragma_module_list WHERE name = 'tabletfs'", "tabletfs"))
		return SQLITE_OK_LOAD_PERMANENTLY;
	c = sqlite3_malloc64(sizeof(*c));
	if (!c)
		return SQLITE_NOMEM;
	*c = (struct connection){.db = db};
	rc = sqlite3_create_module_v2(db, "tabletfs", &module, c, sqlite3_free);
	return rc ? rc : SQLITE_OK_LOAD_PERMANENTLY;
}
