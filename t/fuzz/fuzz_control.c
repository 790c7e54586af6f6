/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines written to .ctl and /.tabletfs/ctl, from any bytes.  The first byte selects
 * the file and the call that fails.  fs/node/admin.c gets a store defined here,
 * which records the calls.  They must equal the result of a second, plain parser
 * of the text: each verb in turn, up to the first line that is not a verb or
 * that fails.
 */
#include "engine/base/msg.h"
#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/permit.h"
#include "fs/node/admin.h"
#include "fs/node/made.h"
#include "engine/base/name.h"
#include "fs/base/reply.h"
#include "fs/file/stage.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)
#define DONE_MAX 64u
static const char *const rows[] = {"", "a", "ab", "abc", "b", "drop-rows", "\377", "\377\377"};
enum { ROWS = sizeof(rows) / sizeof(rows[0]), TABLES = 2 };

/* The requests to the store: f, c, s, / is a split, + a merge, and 0.. the removal of a row. */
static char done[DONE_MAX];
static unsigned done_n, refusals;
static bool flush_fails;

static void note(char what)
{
	if (done_n < DONE_MAX)
		done[done_n++] = what;
}

/* ---- the store and the rest of fs/, as far as verbs need them (t/fuzz.mk leaves what renders undefined) ---- */
struct tfs_table {
	int unused;
};
struct tfs_mutation {
	unsigned row;
};
struct tfs_scan {
	unsigned at;
};
static struct tfs_table the_table;
static const struct caller the_caller; /* root */
static struct tfs_scan the_scan;
static struct tfs_schema the_schema;
static struct tfs_mutation the_mutation;
struct fs fs;

int fs_table_as_caller(const struct caller *caller, struct node *n, struct tfs_table **out)
{
	*out = &the_table;
	return 0;
}

bool fs_owns_table(const struct caller *caller, struct node *n)
{
	return true;
}

void dir_time_raise_table(struct node *table)
{
}

bool fs_is_interrupted(void *unused)
{
	return false;
}

int tfs_flush(struct tfs_table *t)
{
	CHECK(t == &the_table);
	note('f');
	return flush_fails ? -EIO : 0;
}

int tfs_compact(struct tfs_table *t)
{
	CHECK(t == &the_table);
	note('c');
	return 0;
}

int tfs_purge(struct tfs_table *t)
{
	CHECK(t == &the_table);
	note('p');
	return 0;
}

int tfs_split(struct tfs_table *t, struct tfs_bytes row)
{
	CHECK(t == &the_table && row.n);
	note('/');
	return 0;
}

int tfs_merge(struct tfs_table *t, struct tfs_bytes row)
{
	CHECK(t == &the_table); /* an empty row: the first tablet */
	note('+');
	return 0;
}

/* This store has no room for other tables, and is never emptied. */
int tfs_table_clone(struct tfs_table *t, const char *name)
{
	return -EINVAL;
}

int admin_truncate(struct node *n, struct tfs_table *t, struct changes *c)
{
	return -EINVAL;
}

int tfs_clients(struct tfs_store *s, char **text)
{
	return -EINVAL;
}

int tfs_answers(struct tfs_store *s, uint64_t limit_us)
{
	return -ENOTSUP;
}

int tfs_client_refuse(struct tfs_store *s, uint64_t client, bool refuse)
{
	return client == 7 && refuse ? 0 : -ENOENT;
}

int tfs_sync(struct tfs_store *s)
{
	note('s');
	return 0;
}

int tfs_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max)
{
	CHECK(max >= TABLES);
	if (*after)
		return 0;
	strcpy(names[0], "t");
	strcpy(names[1], "u");
	return TABLES;
}

int tfs_table_open(struct tfs_store *s, const char *name, struct tfs_table **out)
{
	*out = &the_table;
	return 0;
}

void tfs_table_close(struct tfs_table *t)
{
	CHECK(t == &the_table);
}

int tfs_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out)
{
	CHECK(t == &the_table);
	the_scan.at = 0;
	while (the_scan.at < ROWS && bytes_cmp(tfs_str(rows[the_scan.at]), spec->row_from) < 0)
		the_scan.at++;
	*out = &the_scan;
	return 0;
}

int tfs_scan_next(struct tfs_scan *s, struct tfs_cell *cell)
{
	if (s->at == ROWS)
		return 0;
	*cell = (struct tfs_cell){.row = tfs_str(rows[s->at++])};
	return 1;
}

void tfs_scan_free(struct tfs_scan *s)
{
	CHECK(s == &the_scan);
}

struct tfs_mutation *tfs_mutation_new(struct tfs_table *t, struct tfs_bytes row)
{
	CHECK(t == &the_table);
	for (the_mutation.row = 0; !bytes_eq(row, tfs_str(rows[the_mutation.row])); the_mutation.row++)
		;
	return &the_mutation;
}

int tfs_mutation_delete_row(struct tfs_mutation *m)
{
	note((char)('0' + m->row));
	return 0;
}

int tfs_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results)
{
	CHECK(m == &the_mutation);
	return 0;
}

void tfs_mutation_free(struct tfs_mutation *m)
{
	CHECK(m == &the_mutation);
}

int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out)
{
	CHECK(t == &the_table);
	*out = &the_schema;
	return 0;
}

void tfs_schema_put(const struct tfs_schema *s)
{
	CHECK(s == &the_schema);
}

struct node *node_table(struct node *n)
{
	return n->parent->kind == NODE_TABLE ? n->parent : NULL;
}

struct tfs_table *node_store_table(struct node *n)
{
	return &the_table;
}

/* The kernel knows no node but the table. */
struct node *node_find(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	return NULL;
}

void node_hold(struct node *n)
{
	CHECK(n);
}

void node_put(struct node *n)
{
}

void table_new_epoch(struct node *table)
{
}

int permit_data(struct node *n, const char *name, enum node_kind kind, bool removes)
{
	return 0;
}

const char *tfs_error(struct tfs_store *s)
{
	return "";
}

int tfs_confirm_clock(struct tfs_store *store)
{
	return 0;
}

void made_drop_rows(struct node *table, struct tfs_bytes prefix, struct changes *c)
{
}

void changes_table(struct changes *c, struct node *table)
{
}

int refuse(int r, struct node *n, const char *name, const char *fmt, ...)
{
	refusals++;
	return r;
}

/* ---- the second reading ---- */
static bool is(struct tfs_bytes line, const char *verb)
{
	size_t n = strlen(verb);

	return bytes_eq(line, tfs_str(verb)) || (line.n == n + 1 && bytes_has_prefix(line, tfs_str(verb)) && line.p[n] == ' ');
}

static int expect_rows(struct tfs_bytes prefix, char *want, unsigned *n)
{
	for (unsigned i = 0; i < ROWS; i++)
		if (bytes_has_prefix(tfs_str(rows[i]), prefix) && *n < DONE_MAX)
			want[(*n)++] = (char)('0' + i);
	return 0;
}

static void expect_tables(char what, bool all, char *want, unsigned *n)
{
	for (unsigned i = 0; i < (all ? TABLES : 1) && *n < DONE_MAX; i++) {
		want[(*n)++] = what;
		if (what == 'f' && flush_fails)
			return;
	}
}

/* A verb about a row that there is, by the name that ls would show. */
static int expect_row(struct tfs_bytes line, char *want, unsigned *n)
{
	static const char *const verbs[] = {"drop-rows ", "split ", "merge "};
	struct buf row = {0};
	int r = -EINVAL;

	for (unsigned i = 0; i < 3; i++) {
		size_t skip = strlen(verbs[i]);

		if (line.n <= skip || !bytes_has_prefix(line, tfs_str(verbs[i])))
			continue;
		r = name_decode_row(tfs_bytes_of(line.p + skip, line.n - skip), &row) ? -EINVAL : 0;
		if (r == 0 && i == 0)
			(void)expect_rows(buf_bytes(&row), want, n);
		else if (r == 0 && i == 1 && the_schema.salt_in_use && row.p[0] >= the_schema.salt_in_use)
			r = -EINVAL;
		else if (r == 0 && *n < DONE_MAX)
			want[(*n)++] = i == 1 ? '/' : '+';
	}
	buf_fini(&row);
	return r;
}

static int expect_line(struct tfs_bytes line, bool system, char *want, unsigned *n)
{
	int64_t client;

	if (line.n == 0)
		return 0;
	if (is(line, "flush")) {
		expect_tables('f', system, want, n);
		return flush_fails ? -EIO : 0;
	}
	if (is(line, "compact")) {
		expect_tables('c', system, want, n);
		return 0;
	}
	if (!system && is(line, "purge")) {
		expect_tables('p', false, want, n);
		return 0;
	}
	if (system && is(line, "sync")) {
		if (*n < DONE_MAX)
			want[(*n)++] = 's';
		return 0;
	}
	if (system && is(line, "confirm-clock"))
		return 0;
	/* This store has the client 7, whose process is not refused. */
	if (system && bytes_has_prefix(line, tfs_str("disconnect ")) &&
		bytes_int64(tfs_bytes_of(line.p + 11, line.n - 11), &client) && client == 7)
		return 0;
	return system ? -EINVAL : expect_row(line, want, n);
}

static int expect(struct tfs_bytes text, bool system, char *want, unsigned *n)
{
	int r = 0;

	for (size_t at = 0, end; at < text.n && !r; at = end + 1) {
		for (end = at; end < text.n && text.p[end] != '\n'; end++)
			;
		r = expect_line(tfs_bytes_of(text.p + at, end - at), system, want, n);
	}
	return r;
}

/* Verbs also take a row with escaped control characters, as .tablets shows it.  t/67 has these; expect_row() has not. */
static bool has_escaped_byte(struct tfs_bytes text)
{
	for (size_t i = 0; i + 1 < text.n; i++)
		if (text.p[i] == '%' && text.p[i + 1] >= '8')
			return true;
	return false;
}

static void try(struct tfs_bytes text, bool system)
{
	const char *name = system ? "ctl" : ".ctl";
	static struct node root, table = {.kind = NODE_TABLE};
	struct node *n = calloc(1, sizeof(*n) + 8);
	struct changes c = {0};
	char want[DONE_MAX];
	unsigned want_n = 0;
	int wanted, got;

	CHECK(n);
	the_schema.salt_in_use = text.n % 2 ? 'k' : 0; /* a row above is in no range: split refuses it */
	memcpy(n->key, name, strlen(name) + 1);
	done_n = refusals = 0;
	wanted = expect(text, system, want, &want_n);
	n->parent = system ? &root : &table;
	got = admin_apply_verbs(n, text, &the_caller, &c);
	CHECK((refusals == 1) == (got != 0));
	CHECK(has_escaped_byte(text) || got == wanted);
	CHECK(has_escaped_byte(text) || bytes_eq(tfs_bytes_of(done, done_n), tfs_bytes_of(want, want_n)));
	free(n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	flush_fails = data[0] & 2;
	try(tfs_bytes_of(data + 1, size - 1), data[0] & 1);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const texts[] = {
		"0flush\ncompact\npurge\n\ndrop-rows a\nflush \n",
		"0drop-rows \377\ndrop-rows drop-rows\nflush x\ncompact",
		"1flush\nsync\ncompact\n",
		"2compact\nflush\ncompact\n",
		"3compact\nflush\nsync\n",
		"0split a\nmerge b%0A\nsplit \ndrop-rows %61\n",
	};

	if (i >= sizeof(texts) / sizeof(texts[0]))
		return 0;
	*data = (const uint8_t *)texts[i];
	return strlen(texts[i]);
}
