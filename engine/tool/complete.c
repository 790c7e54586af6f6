/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl complete: the words that can stand at the end of a command line, for
 * the completions of shells (completion/).
 *
 * Subcommands and options come from their own tables, verbs from the mount's
 * .ctl, clauses from its .scan/.help, so that there is one list of each.  Rows are
 * found by scans with a prefix and a limit: a table may have millions.  A shell
 * completes what all candidates have in common, so the last row with the prefix is
 * printed, too.
 */
#include "engine/base/file.h"
#include "engine/base/name.h"
#include "engine/bulk/escape.h"
#include "engine/tool/transfer.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_FILES = 1, ROWS_SHOWN = 40, TABLES_SHOWN = 1000, HELP_BYTES_MAX = 1 << 20 };

/* The words before the last word. */
struct typed {
	const struct command *command;
	const char *operand[4];
	unsigned operands;
	const char *option; /* the last word is the value of this option */
};

static void offer(const char *word, const char *typed)
{
	if (strncmp(word, typed, strlen(typed)) == 0)
		puts(word);
}

static int offer_each(const char *const *words, const char *typed)
{
	for (; *words; words++)
		offer(*words, typed);
	return 0;
}

/* Calls fn for the first word of each line of a file of the daemon. */
static int each_line_of(const char *path, void (*fn)(const char *first, const char *line, const char *typed), const char *typed)
{
	struct buf b = {0};
	int err = file_read_all(given(path), HELP_BYTES_MAX, &b);
	char *line, *rest;

	if (err || buf_u8(&b, 0)) {
		buf_fini(&b);
		return 0;
	}
	for (rest = (char *)b.p; (line = strsep(&rest, "\n")) && *line;)
		fn(text("%.*s", (int)strcspn(line + strspn(line, " "), " "), line + strspn(line, " ")), line, typed);
	buf_fini(&b);
	return 0;
}

/* ---- rows ---- */

/* A row is a name as ls shows it, alone or behind the path of its table, or a key with the escapes of tabletctl. */
struct row_form {
	bool key;
	const char *before, *behind;
};
static const struct row_form as_key = {true, "", ""}, as_name = {false, "", ""};

static unsigned list_rows(const char *view, const struct row_form *form)
{
	struct buf key = {0}, shown = {0};
	const struct dirent *e;
	DIR *d = opendir(view);
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || name_is_part(tfs_str(e->d_name)) || name_decode_row(tfs_str(e->d_name), &key))
			continue;
		buf_reset(&shown);
		if (text_escape(buf_bytes(&key), &shown) || buf_u8(&shown, 0))
			no_memory();
		printf("%s%s%s\n", form->before, form->key ? (const char *)shown.p : e->d_name, form->behind);
		n++;
	}
	if (d)
		closedir(d);
	buf_fini(&key);
	buf_fini(&shown);
	return n;
}

static int offer_rows(const char *table, struct tfs_bytes prefix, const struct row_form *form)
{
	struct buf clause = {0}, path = {0};
	const char *scan;

	if (buf_append(&clause, "prefix=", 7) || buf_append_bytes(&clause, prefix) ||
		name_encode(NAME_ROW, buf_bytes(&clause), 0, &path))
		no_memory();
	scan = text("%s/.scan%s%.*s", table, prefix.n ? "/" : "", prefix.n ? (int)path.n : 0, (const char *)path.p);
	if (list_rows(text("%s/limit=%d/.rows", scan, ROWS_SHOWN), form) == ROWS_SHOWN)
		(void)list_rows(text("%s/reverse=yes/limit=1/.rows", scan), form);
	buf_fini(&clause);
	buf_fini(&path);
	return 0;
}

/* typed has the escapes of tabletctl. */
static int offer_keys(const char *table, const char *typed)
{
	struct buf prefix = {0};

	if (text_unescape(tfs_str(typed), &prefix) == 0)
		(void)offer_rows(table, buf_bytes(&prefix), &as_key);
	buf_fini(&prefix);
	return 0;
}

/* typed begins the name that ls shows. */
static int offer_names(const char *table, const char *typed, const struct row_form *form)
{
	struct buf prefix = {0};

	if (!*typed || name_decode_row(tfs_str(typed), &prefix) == 0)
		(void)offer_rows(table, buf_bytes(&prefix), form);
	buf_fini(&prefix);
	return 0;
}

/* The clause NAME=BYTES as a name. */
static const char *clause_named(const char *name, struct tfs_bytes bytes)
{
	struct buf clause = {0}, path = {0};
	const char *s;

	if (buf_append(&clause, name, strlen(name)) || buf_append_bytes(&clause, bytes) ||
		name_encode(NAME_ROW, buf_bytes(&clause), 0, &path))
		no_memory();
	s = text("%.*s", (int)path.n, (const char *)path.p);
	buf_fini(&clause);
	buf_fini(&path);
	return s;
}

/* The qualifiers of a row, as F:Q with the escapes of tabletctl; both row and typed have them. */
static int offer_qualifiers(const char *table, const char *row, const char *typed)
{
	const int family = (int)strcspn(typed, ":");
	struct buf key = {0}, prefix = {0}, shown = {0};
	const struct dirent *e;
	DIR *d = NULL;

	if (text_unescape(tfs_str(row), &key) == 0 && text_unescape(tfs_str(typed + family + 1), &prefix) == 0)
		d = opendir(text("%s/.scan/%s/limit=1/family=%.*s/%s/qlimit=%d/.latest/%s/%.*s", table,
			clause_named("from=", buf_bytes(&key)), family, typed, clause_named("qprefix=", buf_bytes(&prefix)),
			ROWS_SHOWN, clause_named("", buf_bytes(&key)), family, typed));
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || name_is_part(tfs_str(e->d_name)) || name_decode_text(tfs_str(e->d_name), &key))
			continue;
		buf_reset(&shown);
		if (text_escape(buf_bytes(&key), &shown) || buf_u8(&shown, 0))
			no_memory();
		offer(text("%.*s:%s", family, typed, (const char *)shown.p), typed);
	}
	if (d)
		closedir(d);
	buf_fini(&key);
	buf_fini(&prefix);
	buf_fini(&shown);
	return 0;
}

/* *key: the first row from `from` on that begins with the prefix.  Returns false if there is none. */
static bool first_row(const char *table, struct tfs_bytes prefix, struct tfs_bytes from, struct buf *key)
{
	struct buf line = {0};
	bool found = false;

	buf_reset(key);
	if (file_read_all(given(text("%s/.scan/%s%s%s/limit=1/.keys", table, prefix.n ? clause_named("prefix=", prefix) : "",
				  prefix.n ? "/" : "", clause_named("from=", from))),
		    HELP_BYTES_MAX, &line) == 0 &&
		line.n)
		found = text_unescape(tfs_bytes_of(line.p, line.n - 1), key) == 0;
	buf_fini(&line);
	return found;
}

/* The keys of rows up to the next byte that is no letter or digit: one scan of one row finds each. */
static void offer_prefixes(const char *table, const char *before, const char *typed)
{
	struct buf prefix = {0}, key = {0}, from = {0};

	if ((*typed && name_decode_text(tfs_str(typed), &prefix)) || buf_append_bytes(&from, buf_bytes(&prefix)))
		goto out;
	for (int i = 0; i < ROWS_SHOWN && first_row(table, buf_bytes(&prefix), buf_bytes(&from), &key); i++) {
		size_t n = prefix.n;

		while (n < key.n &&
			(key.p[n] >= 0x80 || key.p[n] == '_' || (key.p[n] >= '0' && key.p[n] <= '9') ||
				((key.p[n] | 0x20) >= 'a' && (key.p[n] | 0x20) <= 'z')))
			n++;
		n += n < key.n;
		offer(text("%s%s", before, clause_named("prefix=", tfs_bytes_of(key.p, n))), text("%sprefix=%s", before, typed));
		if (buf_set(&from, key.p, n))
			no_memory();
		while (from.n && from.p[from.n - 1] == 0xff)
			from.n--;
		if (!from.n)
			break;
		from.p[from.n - 1]++;
	}
out:
	buf_fini(&prefix);
	buf_fini(&key);
	buf_fini(&from);
}

/* ---- paths ---- */

/* The names that a directory lists. */
static int offer_entries(const char *dir, const char *before, const char *typed, const char *behind)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			offer(text("%s%s%s", before, e->d_name, behind), text("%s%s", before, typed));
	if (d)
		closedir(d);
	return 0;
}

static int offer_families(const char *table, const char *before, const char *typed, const char *behind)
{
	return offer_entries(text("%s/.families", table), before, typed, behind);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The path that the shell would pass to the program. */
static const char *expanded(const char *typed)
{
	const char *home = getenv("HOME");

	return strncmp(typed, "~/", 2) == 0 && home ? text("%s%s", home, typed + 1) : typed;
}

/* The clauses, and the names that end a path, are indented in the help. */
static void offer_clause(const char *first, const char *line, const char *typed)
{
	static const char *const times[] = {"now", "today", "yesterday", NULL}, *const flags[] = {"yes", NULL},
				 *const none[] = {NULL};
	const char *base = strrchr(typed, '/') + 1, *equals = strchr(first, '='), *const * word;
	const int before = (int)(base - typed), name = equals ? (int)(equals + 1 - first) : (int)strlen(first);

	if (line[0] != ' ')
		return;
	if (!equals || strncmp(first, base, (size_t)name) != 0) {
		if (strncmp(first, base, strlen(base)) == 0)
			printf("%.*s%.*s\n", before, typed, name, first);
		return;
	}
	word = strcmp(equals + 1, "TIME") == 0 ? times : strcmp(equals + 1, "yes") == 0 ? flags : none;
	for (; *word; word++)
		offer(text("%.*s%.*s%s", before, typed, name, first, *word), typed);
}

/* The values of prefix= and family= come from the table. */
static void offer_clause_value(const char *table, const char *before, const char *typed)
{
	const char *last;

	if (strncmp(typed, "prefix=", 7) == 0)
		offer_prefixes(table, before, typed + 7);
	if (strncmp(typed, "family=", 7) != 0)
		return;
	last = strrchr(typed, ',');
	last = last ? last + 1 : typed + 7;
	offer_families(table, text("%s%.*s", before, (int)(last - typed), typed), last, "");
}

/* The control names of a table, which ls does not list. */
static int offer_controls(const char *before, const char *typed)
{
	static const char *const names[] = {".ctl", ".export.tar", ".families/", ".groups/", ".import", ".import.csv",
		".import.jsonl", ".import.tar", ".import.tsv", ".import.wide.tsv", ".latest/", ".scan/", ".schema", ".scripts/",
		".snap/", ".splits", ".tablets", NULL};

	for (const char *const *name = names; *name; name++)
		offer(text("%s%s", before, *name), typed);
	return 0;
}

/* The tables of a store that another process serves.  ssh must not ask the user, and must not wait long. */
static int offer_tables(const char *source, const char *typed)
{
	const char *ssh = getenv("TABLETFS_SSH");
	char names[TABLES_SHOWN][TFS_NAME_MAX + 1], *why = NULL;
	struct tfs_options o;
	struct tfs_store *s;
	int n;

	tfs_options_init(&o);
	o.timeout_us = 3000000;
	snprintf(o.ssh, sizeof(o.ssh), "%s -oBatchMode=yes -oConnectTimeout=3", ssh && *ssh ? ssh : "ssh");
	n = tfs_open(source, &o, &s, &why);
	free(why);
	if (n)
		return EXIT_FILES;
	n = tfs_table_list(s, NULL, names, TABLES_SHOWN);
	for (int i = 0; i < n; i++)
		offer(text("%s/%s", source, names[i]), typed);
	(void)!tfs_close(s);
	return 0;
}

/* A path below a mount, or SOURCE/TABLE.  All else is left to the shell. */
static int offer_path(const char *typed)
{
	const char *slash = strrchr(typed, '/'), *dir, *before;

	if (!slash)
		return EXIT_FILES;
	dir = text("%.*s", (int)(slash - typed), typed);
	if (source_is_served(dir))
		return offer_tables(dir, typed);
	dir = expanded(text("%.*s", (int)(slash - typed), typed));
	before = text("%.*s/", (int)(slash - typed), typed);
	if (strcmp(base_name(dir), ".snap") == 0 && access(text("%s/.help", dir), F_OK) == 0)
		return offer_entries(dir, before, slash + 1, "/"); /* the shells find no names below a name that is not listed */
	if (access(text("%s/.scan/.help", dir), F_OK) == 0)
		return slash[1] == '.' ? offer_controls(before, typed)
				       : offer_names(dir, slash + 1, &(struct row_form){false, before, "/"});
	if (access(text("%s/.help", dir), F_OK) == 0 && access(text("%s/.count", dir), F_OK) == 0) {
		const char *scan = strstr(dir, "/.scan");

		if (scan)
			offer_clause_value(text("%.*s", (int)(scan - dir), dir), before, slash + 1);
		return each_line_of(text("%s/.help", dir), offer_clause, typed);
	}
	return EXIT_FILES;
}

/* ---- families, verbs ---- */

static void offer_first(const char *first, const char *line, const char *typed)
{
	offer(first, typed);
}

/* Settings that cannot change are comments. */
static void offer_setting(const char *first, const char *line, const char *typed)
{
	if (*first != '#')
		offer(text("%s=", first), typed);
}

/* The file with the verbs of a mount, a table or a snapshot. */
static const char *verbs_of(const char *path)
{
	const char *of_mount = text("%s/.tabletfs/ctl", path);

	return access(of_mount, F_OK) == 0 ? of_mount : text("%s/.ctl", path);
}

static bool verb_takes_row;

static void note_verb(const char *first, const char *line, const char *typed)
{
	const char *argument = line + strlen(first);

	if (strcmp(first, typed) == 0)
		verb_takes_row = strncmp(argument, " ROW ", 5) == 0 || strncmp(argument, " PREFIX ", 8) == 0;
}

static int offer_argument(const char *path, const char *verb, const char *typed)
{
	(void)each_line_of(verbs_of(path), note_verb, verb);
	return verb_takes_row ? offer_names(path, typed, &as_name) : 0;
}

/* ---- the command line ---- */

static int offer_commands(const struct command *const *commands, const char *typed)
{
	for (; *commands; commands++)
		offer((*commands)->name, typed);
	offer("help", typed);
	return 0;
}

static int offer_options(const struct command *c, const char *typed)
{
	if (!c->options)
		return offer_each((const char *const[]){"--help", "-h", NULL}, typed);
	for (const struct option *o = c->options; o->name; o++)
		offer(text("--%s", o->name), typed);
	for (const char *letter = c->letters ? c->letters : "h"; *letter; letter++)
		if (*letter != ':' && *letter != '+')
			offer(text("-%c", *letter), typed);
	return 0;
}

static const struct option *option_named(const struct command *c, const char *name)
{
	const struct option *o = c->options;

	while (o && o->name && strcmp(o->name, name) != 0)
		o++;
	return o && o->name ? o : NULL;
}

static void read_words(struct typed *t, char *const *words, int n)
{
	for (int i = 0; i < n; i++) {
		const struct option *o = strncmp(words[i], "--", 2) == 0 ? option_named(t->command, words[i] + 2) : NULL;
		const char *letter =
			t->command->letters && words[i][0] == '-' && words[i][1] ? strchr(t->command->letters, words[i][1]) : NULL;

		if (words[i][0] == '-' && words[i][1]) {
			if (o && o->has_arg == required_argument && ++i == n)
				t->option = o->name;
			else if (letter && letter[1] == ':' && !words[i][2] && ++i == n)
				t->option = letter;
		} else if (t->operands < sizeof(t->operand) / sizeof(*t->operand)) {
			t->operand[t->operands++] = expanded(words[i]);
		}
	}
}

static int offer_value(const struct typed *t, const char *typed)
{
	static const char *const formats[] = {"tsv", "jsonl", "csv", "wide.tsv", "tar", NULL};
	static const char *const of_scan[] = {"tsv", "jsonl", "csv", "wide.tsv", "names", "keys", NULL},
				 *const of_run[] = {"tsv", "jsonl", NULL};

	if (strcmp(t->option, "format") == 0)
		return offer_each(t->command == &scan_command ? of_scan : t->command == &run_command ? of_run : formats, typed);
	if (strcmp(t->option, "where") == 0 && t->operands)
		return offer_families(t->operand[0], "", typed, ":");
	if (strcmp(t->option, "rows") == 0)
		return EXIT_FILES;
	return strcmp(t->option, "family") == 0 && t->operands ? offer_families(t->operand[0], "", typed, "") : 0;
}

static int offer_operand(const struct typed *t, const char *typed)
{
	static const char *const dumped[] = {"log", "sst", "meta", "schema", NULL};
	const char *kinds = t->command->kinds;

	switch (t->operands < strlen(kinds) ? kinds[t->operands] : 0) {
	case 'p':
		return offer_path(typed);
	case 'r':
		return offer_keys(t->operand[0], typed);
	case 'c':
		return strchr(typed, ':') ? offer_qualifiers(t->operand[0], t->operand[1], typed)
					  : offer_families(t->operand[0], "", typed, ":");
	case 'v':
		return each_line_of(verbs_of(t->operand[0]), offer_first, typed);
	case 'a':
		return offer_argument(t->operand[0], t->operand[1], typed);
	case 's':
		return each_line_of(text("%s/.tabletfs/config", t->operand[0]), offer_setting, typed);
	case 'd':
		return offer_each(dumped, typed);
	case 'f':
		return EXIT_FILES;
	default:
		return 0;
	}
}

static int complete_run(const struct arguments *a)
{
	const char *last = a->operand[a->operands - 1];
	const struct command *const *c = a->commands;
	struct typed t = {0};

	if (a->operands == 1 || (a->operands == 2 && strcmp(a->operand[0], "help") == 0))
		return offer_commands(a->commands, last);
	while (*c && strcmp((*c)->name, a->operand[0]) != 0)
		c++;
	if (!*c)
		return 0;
	t.command = *c;
	read_words(&t, a->operand + 1, a->operands - 2);
	if (t.option)
		return offer_value(&t, last);
	return last[0] == '-' && last[1] ? offer_options(t.command, last) : offer_operand(&t, last);
}

const struct command complete_command = {
	.name = "complete",
	.brief = "print completions of a command line",
	.usage = "usage: tabletctl complete -- WORD...\n"
		 "\n"
		 "Prints the words that can stand in place of the last WORD of a command line of\n"
		 "tabletctl, one a line, for the completions of shells.\n"
		 "\n"
		 "Exit status: 0; 1 the word is the name of a file.\n",
	.kinds = "",
	.one_path = true,
	.least = 1,
	.most = 1 << 20,
	.run = complete_run,
};
