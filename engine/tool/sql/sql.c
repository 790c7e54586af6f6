/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl sql: the shell of SQLite, in which each table of a store is a virtual table.
 *
 * The statements that make the virtual tables are in a file in memory, which sqlite3 reads by
 * the name of its descriptor: a command line has no room for thousands of tables.  The store
 * is closed before sqlite3 starts, because the extension opens it by itself.
 */
#include "engine/tool/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXTENSION "tabletfs.so"
enum { TABLES_AT_ONCE = 256 };

/* SQLite's names ignore case, and SQLite has some tables of its own. */
static bool takes(const char *name, char (*taken)[TFS_NAME_MAX + 1], unsigned count)
{
	bool free = strncasecmp(name, "sqlite_", 7) != 0;

	for (unsigned i = 0; i < count && free; i++)
		free = strcasecmp(taken[i], name) != 0;
	return free;
}

static void add_quoted(struct buf *out, const char *text)
{
	if (buf_u8(out, '\''))
		no_memory();
	for (; *text; text++)
		if (buf_u8(out, (uint8_t)*text) || (*text == '\'' && buf_u8(out, '\'')))
			no_memory();
	if (buf_u8(out, '\''))
		no_memory();
}

static void add_table(struct buf *out, const char *source, const char *name)
{
	if (buf_printf(out, "CREATE VIRTUAL TABLE \"%s\" USING tabletfs(", name))
		no_memory();
	add_quoted(out, source);
	if (buf_printf(out, ", '%s');\n", name))
		no_memory();
}

/* Appends a statement for each table.  Returns 0, or EXIT_CANNOT after a message. */
static int list_tables(const char *source, struct tfs_store *s, struct buf *out)
{
	char(*names)[TFS_NAME_MAX + 1] = NULL;
	unsigned count = 0;
	int n;

	do {
		names = reallocarray(names, count + TABLES_AT_ONCE, sizeof(*names));
		if (!names)
			no_memory();
		n = tfs_table_list(s, count ? names[count - 1] : NULL, names + count, TABLES_AT_ONCE);
		for (int i = 0; i < n; i++, count++) {
			if (takes(names[count], names, count))
				add_table(out, source, names[count]);
			else
				complain(
					"%s: SQLite needs another name for it: CREATE VIRTUAL TABLE name USING tabletfs('%s', '%s')",
					names[count], source, names[count]);
		}
	} while (n == TABLES_AT_ONCE);
	free(names);
	if (n < 0)
		complain("%s: %s", source, strerror(-n));
	return n < 0 ? EXIT_CANNOT : 0;
}

static int open_and_list(const char *source, struct buf *out)
{
	struct tfs_store *s;
	char *why = NULL;
	int status, err;

	if (!source_is_served(source) && access(text("%s/FORMAT", source), F_OK) && access(text("%s/.tabletfs", source), F_OK)) {
		complain("%s: neither a data directory nor a mount point", source);
		return EXIT_CANNOT;
	}
	err = tfs_open(source, NULL, &s, &why);
	if (err) {
		complain("%s", why ? why : strerror(-err));
		free(why);
		return EXIT_CANNOT;
	}
	status = list_tables(source, s, out);
	err = tfs_close(s);
	if (err)
		complain("%s: %s", source, strerror(-err));
	return err ? EXIT_CANNOT : status;
}

/* Returns a descriptor that sqlite3 inherits, or -errno. */
static int in_memory(struct tfs_bytes statements)
{
	int fd = memfd_create("tables", 0), err = fd < 0 ? -errno : transfer_write(fd, statements);

	return err ? err : fd;
}

/* Does not return if sqlite3 starts. */
static int start_shell(int fd, char *const *more, int count)
{
	const char *beside = program_beside("sql/" EXTENSION), *extension = *beside == '/' ? beside : LIBDIR "/" EXTENSION;
	const char *fixed[] = {"sqlite3", "-cmd", text(".load '%s'", extension), "-cmd", text(".read /dev/fd/%d", fd), ":memory:"};
	const unsigned n = sizeof(fixed) / sizeof(*fixed);
	char **argv = calloc(n + (unsigned)count + 1, sizeof(*argv));

	if (!argv)
		no_memory();
	for (unsigned i = 0; i < n; i++)
		argv[i] = text("%s", fixed[i]);
	for (int i = 0; i < count; i++)
		argv[n + (unsigned)i] = more[i];
	execvp(argv[0], argv);
	complain("sqlite3: %s%s", strerror(errno), errno == ENOENT ? " (Debian: the package sqlite3)" : "");
	free(argv);
	return EXIT_CANNOT;
}

static int sql_run(const struct arguments *a)
{
	char *const *more = a->operand + 1;
	const char *source = a->operand[0];
	int count = a->operands - 1, status, fd;
	struct buf statements = {0};

	if (count && strcmp(more[0], "--") != 0)
		return bad_usage(&sql_command, "%s: -- must be in front of statements and options of sqlite3", more[0]);
	status = open_and_list(source, &statements);
	if (status == 0) {
		fd = in_memory(buf_bytes(&statements));
		if (fd < 0)
			complain("%s", strerror(-fd));
		status = fd < 0 ? EXIT_CANNOT : start_shell(fd, more + (count > 0), count ? count - 1 : 0);
	}
	buf_fini(&statements);
	return status;
}

const struct command sql_command = {
	.name = "sql",
	.kinds = "f",
	.brief = "query a store by SQL",
	.usage = "usage: tabletctl sql SOURCE [-- ARGUMENT...]\n"
		 "\n"
		 "Runs sqlite3.  Each table of the store is a virtual table of its name, with one\n"
		 "SQL row a cell: row, family, qualifier, timestamp, value; see tabletfs-sql(7).\n"
		 "An ARGUMENT is a statement, or an option of sqlite3.\n"
		 "\n"
		 "Exit status: that of sqlite3, or 2 if the store cannot be read.\n",
	.one_path = true,
	.least = 1,
	.most = 1 << 20,
	.run = sql_run,
};
