/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of CREATE VIRTUAL TABLE ... USING tabletfs(SOURCE, TABLE, COLUMN...):
 *
 *	TABLE    NAME, or NAME/.snap/SNAPSHOT
 *	COLUMN   NAME=FAMILY:QUALIFIER, or with a blank and a type behind it
 *
 * An argument is a text between quotes, as in SQL, or without.  In QUALIFIER \t, \n, \r, \\ and
 * \xHH stand for a byte, as in other texts of tabletfs, and a blank is \x20.
 */
#include "sql/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

SQLITE_EXTENSION_INIT3

static const char *const types[] = {
	[VALUE_ANY] = "", [VALUE_TEXT] = "TEXT", [VALUE_BLOB] = "BLOB", [VALUE_INTEGER] = "INTEGER", [VALUE_REAL] = "REAL"};
#define TYPES (sizeof(types) / sizeof(*types))
enum { COLUMNS_MAX = 1000 };

/* Returns the argument without quotes, for sqlite3_free.  NULL: out of memory. */
static char *unquoted(const char *text)
{
	const char quote = *text;
	const size_t n = strlen(text);
	char *out = sqlite3_mprintf("%s", text), *to = out;

	if (!out || n < 2 || (quote != '\'' && quote != '"') || text[n - 1] != quote)
		return out;
	for (const char *p = text + 1; p < text + n - 1; p++) {
		*to++ = *p;
		p += *p == quote && p[1] == quote;
	}
	*to = 0;
	return out;
}

static int hex(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Replaces escapes.  Returns false if one is not valid. */
static bool unescape(char *text, size_t *length)
{
	static const char letters[] = "tnr\\", bytes[] = "\t\n\r\\";
	char *to = text;

	for (const char *p = text; *p; p++) {
		const char *letter;

		if (*p != '\\') {
			*to++ = *p;
			continue;
		}
		p++;
		letter = *p ? strchr(letters, *p) : NULL;
		if (letter) {
			*to++ = bytes[letter - letters];
		} else if (*p == 'x' && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
			*to++ = (char)(hex(p[1]) * 16 + hex(p[2]));
			p += 2;
		} else {
			return false;
		}
	}
	*length = (size_t)(to - text);
	return true;
}

/* Cuts the type off the end.  Returns false if it is none. */
static bool parse_type(char *definition, enum value_type *out)
{
	char *type = strchr(definition, ' ');

	*out = VALUE_ANY;
	if (!type)
		return true;
	*type++ = 0;
	type += strspn(type, " ");
	for (unsigned i = 0; i < TYPES; i++) {
		if (strcasecmp(type, types[i]) == 0) {
			*out = (enum value_type)i;
			return true;
		}
	}
	return false;
}

static char *parse_column(char *text, struct sql_column *out)
{
	char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
	size_t length;

	if (!colon || equals == text)
		return sqlite3_mprintf("%s: not NAME=FAMILY:QUALIFIER", text);
	*equals = *colon = 0;
	if (!tfs_name_valid(equals + 1))
		return sqlite3_mprintf("%s: not the name of a family", equals + 1);
	if (!parse_type(colon + 1, &out->type))
		return sqlite3_mprintf("%s: its type is none of INTEGER, REAL, TEXT, BLOB; a blank in a qualifier is \\x20", text);
	if (!unescape(colon + 1, &length) || length > TFS_QUALIFIER_MAX)
		return sqlite3_mprintf("%s: not a qualifier: a backslash begins one of \\t \\n \\r \\\\ \\xHH", text);
	out->name = sqlite3_mprintf("%s", text);
	out->family = sqlite3_mprintf("%s", equals + 1);
	out->qualifier = bytes_copy(tfs_bytes_of(colon + 1, length));
	return out->name && out->family && out->qualifier.p ? NULL : sqlite3_mprintf("out of memory");
}

static char *add_column(struct sql_table *t, const char *argument)
{
	char *text = unquoted(argument), *why;
	struct sql_column *c = &t->columns[t->column_count];

	if (!text)
		return sqlite3_mprintf("out of memory");
	why = parse_column(text, c);
	if (!why && columns_find(t, c->family, c->qualifier) < t->column_count)
		why = sqlite3_mprintf("%s: another column has the same family and qualifier", c->name);
	t->column_count++;
	sqlite3_free(text);
	return why;
}

static char *parse_table(struct sql_table *t)
{
	static const char snapshots[] = "/.snap/";
	char *slash = strstr(t->name, snapshots);

	if (slash) {
		t->snapshot = sqlite3_mprintf("%s", slash + sizeof(snapshots) - 1);
		if (!t->snapshot)
			return sqlite3_mprintf("out of memory");
		*slash = 0;
	}
	if (tfs_name_valid(t->name) && (!t->snapshot || tfs_name_valid(t->snapshot)))
		return NULL;
	return sqlite3_mprintf("%s: not the name of a table or of a snapshot, TABLE/.snap/NAME", t->name);
}

char *columns_parse(struct sql_table *t, int argc, const char *const *argv)
{
	char *why;

	/* The first three are the module, the database and the virtual table. */
	if (argc < 5 || argc - 5 > COLUMNS_MAX)
		return sqlite3_mprintf("tabletfs(SOURCE, TABLE) or tabletfs(SOURCE, TABLE, 'NAME=FAMILY:QUALIFIER', ...)");
	t->source = unquoted(argv[3]);
	t->name = unquoted(argv[4]);
	if (argc > 5)
		t->columns = sqlite3_malloc64((size_t)(argc - 5) * sizeof(*t->columns));
	if (!t->source || !t->name || (argc > 5 && !t->columns))
		return sqlite3_mprintf("out of memory");
	if (t->columns)
		memset(t->columns, 0, (size_t)(argc - 5) * sizeof(*t->columns));
	why = parse_table(t);
	for (int i = 5; i < argc && !why; i++)
		why = add_column(t, argv[i]);
	return why;
}

void columns_free(struct sql_table *t)
{
	for (unsigned i = 0; i < t->column_count; i++) {
		sqlite3_free(t->columns[i].name);
		sqlite3_free(t->columns[i].family);
		bytes_free(&t->columns[i].qualifier);
	}
	sqlite3_free(t->columns);
	sqlite3_free(t->source);
	sqlite3_free(t->name);
	sqlite3_free(t->snapshot);
}

char *columns_declare(const struct sql_table *t)
{
	sqlite3_str *s = sqlite3_str_new(NULL);

	if (table_has_cells(t)) {
		sqlite3_str_appendall(s,
			"CREATE TABLE t(\"row\" TEXT, family TEXT, qualifier TEXT, timestamp INTEGER, value, "
			"cell HIDDEN BLOB PRIMARY KEY NOT NULL) WITHOUT ROWID");
		return sqlite3_str_finish(s);
	}
	sqlite3_str_appendall(s, "CREATE TABLE t(\"row\" TEXT PRIMARY KEY NOT NULL");
	for (unsigned i = 0; i < t->column_count; i++)
		sqlite3_str_appendf(s, ", \"%w\" %s", t->columns[i].name, types[t->columns[i].type]);
	sqlite3_str_appendall(s, ") WITHOUT ROWID");
	return sqlite3_str_finish(s);
}

unsigned columns_find(const struct sql_table *t, const char *family, struct tfs_bytes qualifier)
{
	unsigned i = 0;

	while (i < t->column_count &&
		(strcmp(t->columns[i].family, family) != 0 || bytes_compare(t->columns[i].qualifier, qualifier) != 0))
		i++;
	return i;
}
