/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl create, ls, describe, drop and alter: tables by the commands that users of other
 * stores type first.  Each prints the line of shell that does the same in a mount, on standard
 * error behind a '#'.  In a mount the commands use the file system; elsewhere the library.
 */
#include "engine/base/file.h"
#include "engine/tool/transfer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_FAILED = 3, SCHEMA_BYTES_MAX = 1 << 20, NAMES_AT_ONCE = 64 };

/* A table that a command works on, or the store that has it. */
struct subject {
	const char *path;   /* as given */
	const char *source; /* the store, and the table's name in it; NULL: it is in a mount */
	const char *name;
	const char *shown; /* the table's path in the line of shell */
	struct tfs_store *store;
	struct tfs_table *table;
};

static bool is_mounted(const char *path)
{
	return access(text("%s/.tabletfs/version", path), F_OK) == 0;
}

static bool is_source(const char *path)
{
	return source_is_served(path) || access(text("%s/FORMAT", path), F_OK) == 0;
}

/* A word of the shell. */
static const char *word(const char *s)
{
	struct buf out = {0};
	const char *w;

	if (*s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-")] == 0)
		return s;
	for (const char *p = s; *p; p++)
		if (*p == '\'' ? buf_append(&out, "'\\''", 4) : buf_u8(&out, (uint8_t)*p))
			no_memory();
	w = text("'%.*s'", (int)out.n, out.p ? (const char *)out.p : "");
	buf_fini(&out);
	return w;
}

#define shell(...) fprintf(stderr, "# " __VA_ARGS__)

/* Complains about a failed step.  Returns EXIT_FAILED. */
static int failed(const struct subject *s, const char *about, int err, char *why)
{
	if (s->source || why)
		complain("%s: %s", about, why ? why : strerror(-err));
	else
		complain_refused(s->path, about, err);
	free(why);
	return EXIT_FAILED;
}

static int subject_close(struct subject *s, int status)
{
	int err = 0;

	if (s->table)
		tfs_table_close(s->table);
	if (s->store)
		err = tfs_close(s->store);
	if (err)
		complain("%s: the store: an error when it was closed: %s", s->path, strerror(-err));
	return err && !status ? EXIT_CANNOT : status;
}

/* Finds the table's store; opened: the table must exist.  Returns 0, or the exit status after a message. */
static int subject_open(struct subject *s, const char *path, bool opened)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *parent;
	char *why = NULL;
	int err;

	parent = !slash ? "." : slash == path ? "/" : text("%.*s", (int)(slash - path), path);
	*s = (struct subject){.path = path, .name = name, .shown = word(path)};
	if (!source_is_served(parent) && is_mounted(parent)) {
		if (!opened || access(text("%s/.families", path), F_OK) == 0)
			return 0;
		return failed(s, path, -errno, NULL);
	}
	if (!is_source(parent)) {
		complain("%s: neither a table in a mount (MOUNTPOINT/TABLE) nor one in a store (SOURCE/TABLE)", path);
		return EXIT_CANNOT;
	}
	s->source = parent;
	s->shown = word(text("MOUNT/%s", name));
	if (!tfs_name_valid(name)) {
		complain("%s: not the name of a table", path);
		return EXIT_CANNOT;
	}
	err = tfs_open(s->source, NULL, &s->store, &why);
	if (err) {
		complain("%s", why ? why : strerror(-err));
		free(why);
		return EXIT_CANNOT;
	}
	err = opened ? tfs_table_open(s->store, name, &s->table) : 0;
	if (!err)
		return 0;
	complain("%s: %s", path, err == -ENOENT ? "there is no such table" : strerror(-err));
	return subject_close(s, EXIT_CANNOT);
}

static int write_to(const char *file, int flags, const char *line)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC | flags), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, line, strlen(line)) < 0)
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* ---- steps ---- */

/* Makes the family unless it exists, and sets its rule unless that is NULL. */
static int set_family(struct subject *s, const char *family, const char *rule)
{
	const char *dir = text("%s/.families/%s", s->path, family);
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .explicit_act = true, .name = family, .mode = 0644};
	struct tfs_login login;
	char *why = NULL;
	int err;

	shell("mkdir -p %s/.families/%s\n", s->shown, word(family));
	if (s->source) {
		tfs_login(s->store, &login);
		e.uid = login.uid;
		e.gid = login.gid;
		err = tfs_schema_change(s->table, &e, &why);
	} else {
		err = mkdir(dir, 0777) ? -errno : 0;
	}
	if (err && err != -EEXIST)
		return failed(s, dir, err, why);
	free(why);
	why = NULL;
	if (!rule)
		return 0;
	shell("echo %s > %s/.families/%s/gc\n", word(rule), s->shown, word(family));
	e.op = TFS_SCHEMA_FAMILY_GC;
	e.value = rule;
	err = s->source ? tfs_schema_change(s->table, &e, &why) : write_to(text("%s/gc", dir), 0, text("%s\n", rule));
	return err ? failed(s, text("%s/gc", dir), err, why) : 0;
}

static int drop_family(struct subject *s, const char *family)
{
	const char *dir = text("%s/.families/%s", s->path, family);
	char *why = NULL;
	int err;

	shell("rmdir %s/.families/%s\n", s->shown, word(family));
	if (s->source)
		err = tfs_schema_change(s->table,
			&(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .explicit_act = true, .name = family}, &why);
	else
		err = rmdir(dir) ? -errno : 0;
	return err ? failed(s, dir, err, why) : 0;
}

/* Appends the line to the text of the schema. */
static int set_key(struct subject *s, const char *line)
{
	const char *whole = text("%s\n", line);
	const struct tfs_schema_edit e = {.op = TFS_SCHEMA_TEXT_APPEND, .text = tfs_str(whole), .mtime_us = TFS_NO_TIME};
	char *why = NULL;
	int err;

	shell("echo %s >> %s/.schema\n", word(line), s->shown);
	err = s->source ? tfs_schema_change(s->table, &e, &why) : write_to(text("%s/.schema", s->path), O_APPEND, whole);
	return err ? failed(s, text("%s/.schema", s->path), err, why) : 0;
}

/* FAMILY or FAMILY:RULE. */
static int set_family_word(struct subject *s, const char *given)
{
	const char *colon = strchr(given, ':');

	return colon ? set_family(s, text("%.*s", (int)(colon - given), given), colon + 1) : set_family(s, given, NULL);
}

/* ---- the commands ---- */

static int create_run(const struct arguments *a)
{
	struct tfs_login login;
	struct subject s;
	int status = subject_open(&s, a->operand[0], false), err;

	if (status)
		return status;
	shell("mkdir %s\n", s.shown);
	if (s.source) {
		tfs_login(s.store, &login);
		err = tfs_table_create(s.store, s.name, login.uid, login.gid, 0755);
		err = err ? err : tfs_table_open(s.store, s.name, &s.table);
	} else {
		err = mkdir(s.path, 0777) ? -errno : 0;
	}
	if (err)
		status = failed(&s, s.path, err, NULL);
	for (int i = 1; i < a->operands && !status; i++)
		status = set_family_word(&s, a->operand[i]);
	return subject_close(&s, status);
}

static int list_mount(const char *path)
{
	const bool table = access(text("%s/.families", path), F_OK) == 0;
	struct dirent **names;
	int n = scandir(table ? text("%s/.families", path) : path, &names, NULL, alphasort);

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			puts(names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return 0;
}

static int list_families(struct subject *s)
{
	const struct tfs_schema *schema;
	int err = tfs_schema_get(s->table, &schema);

	if (err)
		return err;
	for (unsigned i = 0; i < schema->family_count; i++)
		puts(schema->families[i].name);
	tfs_schema_put(schema);
	return 0;
}

static int list_tables(struct subject *s)
{
	char names[NAMES_AT_ONCE][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	int n;

	while ((n = tfs_table_list(s->store, after, names, NAMES_AT_ONCE)) > 0) {
		for (int i = 0; i < n; i++)
			puts(names[i]);
		strcpy(after, names[n - 1]);
	}
	return n;
}

static int ls_run(const struct arguments *a)
{
	const char *path = a->operand[0];
	struct subject s = {.path = path, .source = path, .name = ""};
	int status, err;

	if (!source_is_served(path) && is_mounted(path)) {
		s.source = NULL;
		shell("ls %s\n", word(path));
		err = list_mount(path);
		return err ? failed(&s, path, err, NULL) : 0;
	}
	/* unix:DATADIR and unix:DATADIR/TABLE have one form. */
	if (is_source(path) && tfs_open(path, NULL, &s.store, NULL) == 0) {
		shell("ls MOUNT\n");
		err = list_tables(&s);
	} else {
		status = subject_open(&s, path, true);
		if (status)
			return status;
		shell("ls %s/.families\n", s.shown);
		err = s.source ? list_families(&s) : list_mount(path);
	}
	return subject_close(&s, err ? failed(&s, path, err, NULL) : 0);
}

static int describe_run(const struct arguments *a)
{
	const struct tfs_schema *schema;
	struct buf b = {0};
	struct subject s;
	int status = subject_open(&s, a->operand[0], true), err;

	if (status)
		return status;
	shell("cat %s/.schema\n", s.shown);
	if (!s.source) {
		err = file_read_all(given(text("%s/.schema", s.path)), SCHEMA_BYTES_MAX, &b);
	} else if ((err = tfs_schema_get(s.table, &schema)) == 0) {
		err = buf_append(&b, schema->text, schema->text_size);
		tfs_schema_put(schema);
	}
	if (!err)
		fwrite(b.p, 1, b.n, stdout);
	buf_fini(&b);
	return subject_close(&s, err ? failed(&s, s.path, err, NULL) : 0);
}

static int drop_run(const struct arguments *a)
{
	struct subject s;
	char *why = NULL;
	int status = subject_open(&s, a->operand[0], true), err = 0;

	if (status)
		return status;
	if (a->option['r']) {
		shell("echo truncate > %s/.ctl\n", s.shown);
		err = s.source ? tfs_table_truncate(s.table, &why) : write_to(text("%s/.ctl", s.path), 0, "truncate\n");
	}
	if (!err) {
		shell("rmdir %s\n", s.shown);
		err = s.source ? tfs_table_drop(s.store, s.name) : rmdir(s.path) ? -errno : 0;
	}
	if (err == -ENOTEMPTY && !why)
		why = strdup("the table has rows: drop it with --rows");
	return subject_close(&s, err ? failed(&s, s.path, err, why) : 0);
}

static int alter_run(const struct arguments *a)
{
	struct subject s;
	int status = subject_open(&s, a->operand[0], true);

	if (status)
		return status;
	for (int i = 1; i < a->operands && !status; i++) {
		const char *x = a->operand[i], *equals = strchr(x, '='), *colon = strchr(x, ':');

		if (a->option['d'])
			status = drop_family(&s, x);
		else if (equals && (!colon || colon > equals))
			status = set_key(&s, text("%s%s", x, x[strlen(x) - 1] == ';' ? "" : ";"));
		else
			status = set_family_word(&s, x);
	}
	return subject_close(&s, status);
}

static const struct option drop_options[] = {{"rows", no_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {0}};
static const struct option alter_options[] = {{"delete", no_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'}, {0}};

#define PATHS                                                                                                                      \
	"TABLE_PATH is a table's directory in a mount, or SOURCE/TABLE: a data directory,\n"                                       \
	"unix:DATADIR, ssh://HOST/DATADIR or cluster:HOSTS.  The line of shell that does the\n"                                    \
	"same in a mount is printed on standard error behind a '#'.\n"
#define STATUS "\nExit status: 0 done, 2 bad usage or no such table, 3 refused or any other error.\n"

const struct command create_command = {
	.name = "create",
	.kinds = "p",
	.brief = "create a table, with families",
	.usage = "usage: tabletctl create TABLE_PATH [FAMILY[:RULE]]...\n"
		 "\n"
		 "Creates a table.  RULE says which versions of a family exist, such as\n"
		 "maxversions=3 or 'maxversions=3 or maxage=7d'.\n"
		 "\n" PATHS STATUS,
	.least = 1,
	.most = 1000,
	.one_path = true,
	.run = create_run,
};

const struct command ls_command = {
	.name = "ls",
	.kinds = "p",
	.brief = "list the tables of a store, or the families of a table",
	.usage = "usage: tabletctl ls MOUNT|SOURCE|TABLE_PATH\n"
		 "\n"
		 "Prints the names of all tables, or of a table's families, one a line.\n"
		 "\n" PATHS STATUS,
	.least = 1,
	.most = 1,
	.run = ls_run,
};

const struct command describe_command = {
	.name = "describe",
	.kinds = "p",
	.brief = "print the schema of a table",
	.usage = "usage: tabletctl describe TABLE_PATH\n"
		 "\n"
		 "Prints the schema: families, locality groups and settings of the table.\n"
		 "\n" PATHS STATUS,
	.least = 1,
	.most = 1,
	.run = describe_run,
};

const struct command drop_command = {
	.name = "drop",
	.kinds = "p",
	.brief = "drop a table",
	.usage = "usage: tabletctl drop [--rows] TABLE_PATH\n"
		 "\n"
		 "Drops a table without rows, with its schema.\n"
		 "\n"
		 "  -r, --rows  remove its rows first\n"
		 "\n" PATHS STATUS,
	.letters = ":hr",
	.options = drop_options,
	.least = 1,
	.most = 1,
	.run = drop_run,
};

const struct command alter_command = {
	.name = "alter",
	.kinds = "p",
	.brief = "change families and settings of a table",
	.usage = "usage: tabletctl alter [--delete] TABLE_PATH FAMILY[:RULE]|KEY=VALUE...\n"
		 "\n"
		 "FAMILY makes a family, FAMILY:RULE also sets which of its versions exist, and\n"
		 "'KEY = VALUE' sets a key of the schema, such as 'protect = true'.\n"
		 "\n"
		 "  -d, --delete  delete the families instead; they must have no cells\n"
		 "\n" PATHS STATUS,
	.letters = ":hd",
	.options = alter_options,
	.one_path = true,
	.least = 2,
	.most = 1000,
	.run = alter_run,
};
