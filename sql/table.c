/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens stores and tables for virtual tables.
 *
 * A connection has each store open once.  It is opened at the first use of a virtual table, not
 * when SQLite reads the schema of a database: then a table whose store cannot be reached can be
 * dropped.  The store is closed with the last of its virtual tables.
 */
#include "sql/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

static int code_of(int err)
{
	switch (-err) {
	case ENOMEM:
		return SQLITE_NOMEM;
	case EACCES:
	case EPERM:
		return SQLITE_PERM;
	case EROFS:
		return SQLITE_READONLY;
	case EBUSY:
		return SQLITE_BUSY;
	case EIO:
	case ETIMEDOUT:
		return SQLITE_IOERR;
	case EBADMSG:
		return SQLITE_CORRUPT;
	case ENOSPC:
		return SQLITE_FULL;
	case EFBIG:
	case E2BIG:
		return SQLITE_TOOBIG;
	default:
		return SQLITE_ERROR;
	}
}

int table_fail(struct sql_table *t, int err, const char *fmt, ...)
{
	va_list args;
	char *what;

	va_start(args, fmt);
	what = sqlite3_vmprintf(fmt, args);
	va_end(args);
	sqlite3_free(t->base.zErrMsg);
	t->base.zErrMsg =
		sqlite3_mprintf("tabletfs: %s: %s%s%s", t->name, what ? what : "", err ? ": " : "", err ? strerror(-err) : "");
	sqlite3_free(what);
	return code_of(err);
}

static int store_get(struct sql_table *t, struct sql_store **out)
{
	struct connection *c = t->c;
	struct sql_store *s;
	char *why = NULL;
	int err, rc;

	for (s = c->stores; s && strcmp(s->source, t->source) != 0;)
		s = s->next;
	if (!s) {
		s = sqlite3_malloc64(sizeof(*s));
		if (!s)
			return SQLITE_NOMEM;
		*s = (struct sql_store){.source = sqlite3_mprintf("%s", t->source)};
		/* 0 is the level of errors: the lines of the log are no part of the answer.  No store is created: that would hide a wrong path. */
		err = s->source ? tfs_open(t->source, &(struct tfs_options){.log_level = 0, .existing = true}, &s->store, &why)
				: -ENOMEM;
		if (err) {
			rc = table_fail(t, why ? 0 : err, "%s", why ? why : t->source);
			rc = why ? code_of(err) : rc;
			free(why);
			sqlite3_free(s->source);
			sqlite3_free(s);
			return rc;
		}
		s->next = c->stores;
		c->stores = s;
	}
	s->users++;
	*out = s;
	return SQLITE_OK;
}

static void store_put(struct connection *c, struct sql_store *s)
{
	struct sql_store **at = &c->stores;

	if (--s->users)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	/* Nothing else of it is open.  SQLite has no way to report an error of a close; the log has its cause. */
	(void)!tfs_close(s->store);
	sqlite3_free(s->source);
	sqlite3_free(s);
}

int table_use(struct sql_table *t)
{
	struct tfs_table *table, *snapshot;
	struct sql_store *s;
	int rc, err;

	if (t->table)
		return SQLITE_OK;
	rc = store_get(t, &s);
	if (rc)
		return rc;
	err = tfs_table_open(s->store, t->name, &table);
	if (!err && t->snapshot) {
		err = tfs_snapshot_open(table, t->snapshot, &snapshot);
		tfs_table_close(table);
		table = snapshot;
	}
	if (err) {
		store_put(t->c, s);
		return err == -ENOENT ? table_fail(t, 0, "%s: there is no such %s", t->source, t->snapshot ? "snapshot" : "table")
				      : table_fail(t, err, "%s", t->source);
	}
	t->table = table;
	t->store = s;
	return SQLITE_OK;
}

void table_close(struct sql_table *t)
{
	if (!t->table)
		return;
	tfs_table_close(t->table);
	t->table = NULL;
	store_put(t->c, t->store);
}
