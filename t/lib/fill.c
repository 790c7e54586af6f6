/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes stores for tests that need data without a mount:
 *
 *	fill DATADIR [VERB...]
 *
 * Verbs, in order; the tables are "one" and "two" with families "a" and "b":
 *	write N      N more rows in each table, every mutation synced
 *	delete N     of the first N rows: versions, columns, families, rows in turn
 *	large        a cell of 1 MiB
 *	versions     zstd-dict for table "two", and in it text that makes a
 *	             dictionary, and three versions of a large cell
 *	long         in table "one", ten SSTables whose rows have 60,000 bytes
 *	clear        deletes all rows that write wrote
 *	salt N       for the two tables, which must be empty
 *	stray N      N rows of table "one" under a salt byte that is not theirs
 *	snapshot     a script of table "one"; snapshots "snap" of table "one" and "all" of both; a clone of table "one", "clone"
 *	empty        truncates table "one"
 *	flush, compact
 *	close        ends cleanly and opens again
 *	crash        ends at once, without closing
 *	hold         prints "ready" and waits for the end of standard input
 *	seal         (alone) seals the log of the last process, and stores the seal in the lock service
 *	cells        (alone) prints each live cell of each table, snapshot and clone: id of its tablets, row in hex, id of
 *	             the family, qualifier in hex, timestamp, size, hash of the value
 *	meta WHAT    after the end of all else: changes METADATA behind the
 *	             store's back: hint, seq, bytes, cells, redo, first, split, share, gap, lose
 * At the end the store is closed cleanly.  There is no background work, so
 * only the verbs make files.
 */
#include "engine/base/file.h"
#include "engine/client/client.h"
#include "engine/client/metadata.h"
#include "engine/client/salt.h"
#include "engine/lock/lock.h"
#include "engine/log/log_seal.h"
#include "engine/server/server.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const table_names[] = {"one", "two"};
static struct tfs_store *store;
static struct tfs_table *tables[2];
static uint64_t written;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "fill: %s: %s\n", what, strerror(-err));
	exit(3);
}

static void open_store(const char *dir)
{
	struct tfs_schema_edit a = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "a", .mode = 0644};
	struct tfs_schema_edit b = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "b", .mode = 0600};
	struct tfs_options o;
	char *why = NULL;
	int err;

	tfs_options_init(&o);
	o.no_background = true;
	o.log_segment_bytes = 1 << 20;
	err = tfs_open(dir, &o, &store, &why);
	if (err)
		fprintf(stderr, "fill: %s\n", why ? why : "");
	must(err, "open");
	for (int i = 0; i < 2; i++) {
		err = tfs_table_create(store, table_names[i], 0, 0, 0755);
		must(err == -EEXIST ? 0 : err, "create");
		must(tfs_table_open(store, table_names[i], &tables[i]), "open table");
		err = tfs_schema_change(tables[i], &a, NULL);
		must(err == -EEXIST ? 0 : err, "family");
		err = tfs_schema_change(tables[i], &b, NULL);
		must(err == -EEXIST ? 0 : err, "family");
	}
}

static void close_store(void)
{
	if (!store)
		return;
	for (int i = 0; i < 2; i++)
		if (tables[i])
			tfs_table_close(tables[i]);
	must(tfs_close(store), "close");
	store = NULL;
}

static void row_name(char row[32], uint64_t i)
{
	/* A zero byte inside, so that escapes are met. */
	snprintf(row, 32, "row%06" PRIu64 ".tail", i);
	row[9] = 0;
}
#define ROW_BYTES 14

static void write_rows(uint64_t n)
{
	char row[32], value[400];

	for (uint64_t i = written; i < written + n; i++)
		for (int t = 0; t < 2; t++) {
			struct tfs_mutation *m;
			int len = snprintf(value, sizeof(value), "value %" PRIu64 " of table %d: ", i, t);

			for (int k = len; k < (int)sizeof(value); k++)
				value[k] = (char)('a' + (i * 7 + (uint64_t)k * (i % 13 + 1)) % 26);
			row_name(row, i);
			m = tfs_mutation_new(tables[t], tfs_bytes_of(row, ROW_BYTES));
			must(m ? 0 : -ENOMEM, "mutation");
			must(tfs_mutation_put(m, "a", TFS_S("q\"\n"), tfs_at((int64_t)i + 1), tfs_bytes_of(value, sizeof(value))),
				"put");
			must(tfs_mutation_put(m, "a", TFS_S("q\"\n"), tfs_at((int64_t)i + 2), tfs_bytes_of(value, 100)), "put");
			must(tfs_mutation_put(m, "b", TFS_S(""), tfs_at(-5), tfs_bytes_of(value, (size_t)(i % 50))), "put");
			must(tfs_apply(m, TFS_APPLY_SYNC, NULL), "apply");
			tfs_mutation_free(m);
		}
	written += n;
}

static void delete_rows(uint64_t n)
{
	char row[32];

	for (uint64_t i = 0; i < n; i++) {
		struct tfs_mutation *m;

		row_name(row, i);
		m = tfs_mutation_new(tables[0], tfs_bytes_of(row, ROW_BYTES));
		must(m ? 0 : -ENOMEM, "mutation");
		switch (i % 4) {
		case 0:
			must(tfs_mutation_delete_row(m), "delete");
			break;
		case 1:
			must(tfs_mutation_delete_family(m, "a"), "delete");
			break;
		case 2:
			must(tfs_mutation_delete_column(m, "a", TFS_S("q\"\n")), "delete");
			break;
		default:
			must(tfs_mutation_delete_version(m, "b", TFS_S(""), -5), "delete");
		}
		must(tfs_apply(m, TFS_APPLY_SYNC, NULL), "apply");
		tfs_mutation_free(m);
	}
}

static void write_long(void)
{
	static char row[60000];

	memset(row, 'l', sizeof(row));
	for (int i = 0; i < 10; i++) {
		struct tfs_mutation *m;

		row[sizeof(row) - 1] = (char)('0' + i);
		m = tfs_mutation_new(tables[0], tfs_bytes_of(row, sizeof(row)));
		must(m ? 0 : -ENOMEM, "mutation");
		must(tfs_mutation_put(m, "a", TFS_S("q"), tfs_at(7), TFS_S("long")), "put");
		must(tfs_apply(m, 0, NULL), "apply");
		tfs_mutation_free(m);
		must(tfs_flush(tables[0]), "flush");
	}
}

static void clear_rows(void)
{
	char row[32];

	for (uint64_t i = 0; i < written; i++)
		for (int t = 0; t < 2; t++) {
			struct tfs_mutation *m;

			row_name(row, i);
			m = tfs_mutation_new(tables[t], tfs_bytes_of(row, ROW_BYTES));
			must(m ? 0 : -ENOMEM, "mutation");
			must(tfs_mutation_delete_row(m), "delete");
			must(tfs_apply(m, 0, NULL), "apply");
			tfs_mutation_free(m);
		}
}

static void set_salt(const char *salt)
{
	char text[200], *why = NULL;

	snprintf(text, sizeof(text), "salt = %s; families = ( { name = \"a\"; }, { name = \"b\"; } );", salt);
	for (int t = 0; t < 2; t++) {
		int err = tfs_schema_set_text(tables[t], tfs_str(text), TFS_NO_TIME, &why);

		if (err)
			fprintf(stderr, "fill: %s\n", why ? why : "");
		must(err, "salt");
	}
}

/* Past the client's salting, as nothing but a mistake could. */
static void stray_rows(uint64_t n)
{
	struct op op = {
		.kind = OP_WRITE, .family = 1, .w.place = {.us = 5}, .w.truncate_to = UINT64_MAX, .value = tfs_str("stray")};

	const struct tfs_schema *s;

	must(tfs_schema_get(tables[0], &s), "schema");
	for (uint64_t i = 0; i < n; i++) {
		const uint32_t salt = (uint32_t)s->salt_in_use;
		struct row_mutation row = {.ops = &op, .op_count = 1};
		struct ts_request q = {.method = TS_MUTATE, .table = s->tablets_id, .rows = &row, .row_count = 1};
		struct ts_answer a = {0};
		char key[32];

		snprintf(key + 1, sizeof(key) - 1, "stray%06" PRIu64, i);
		key[0] = (char)((salt_byte(tfs_bytes_of(key + 1, 11), salt) + 1) % salt);
		row.row = tfs_bytes_of(key, 12);
		must(call_tablet_service(tables[0]->store->o.tablets, &q, &a), "stray row");
		ts_answer_fini(&a);
	}
	tfs_schema_put(s);
}

static void write_large(void)
{
	struct tfs_mutation *m = tfs_mutation_new(tables[0], TFS_S("large"));
	char *p = calloc(1, 1 << 20);

	must(m && p ? 0 : -ENOMEM, "mutation");
	must(tfs_mutation_put(m, "b", TFS_S("big"), tfs_at(7), tfs_bytes_of(p, 1 << 20)), "put");
	must(tfs_apply(m, TFS_APPLY_SYNC, NULL), "apply");
	tfs_mutation_free(m);
	free(p);
}

static void put_text(const char *row, char *p, size_t n, int64_t ts, uint32_t seed)
{
	struct tfs_mutation *m = tfs_mutation_new(tables[1], tfs_bytes_of(row, strlen(row)));

	for (size_t at = 0; at < n; at += 8) {
		char word[16];

		seed = seed * 1664525u + 1013904223u;
		snprintf(word, sizeof(word), "%07x ", (seed >> 20) * 40503u);
		memcpy(p + at, word, 8);
	}
	p[n / 2] = (char)('0' + ts); /* all that differs between versions */
	must(m ? 0 : -ENOMEM, "mutation");
	must(tfs_mutation_put(m, "a", TFS_S("text"), tfs_at(ts), tfs_bytes_of(p, n)), "put");
	must(tfs_apply(m, TFS_APPLY_SYNC, NULL), "apply");
	tfs_mutation_free(m);
}

static void write_versions(void)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_GROUP_COMPRESSION, .name = "default", .value = "zstd-dict"};
	char *p = calloc(1, 600 << 10), row[32];

	must(p ? 0 : -ENOMEM, "versions");
	must(tfs_schema_change(tables[1], &e, NULL), "schema");
	for (uint32_t i = 0; i < 200; i++) {
		snprintf(row, sizeof(row), "text%u", i);
		put_text(row, p, 4096, 1, i);
	}
	for (int64_t ts = 1; ts <= 3; ts++)
		put_text("versions", p, 600 << 10, ts, 7);
	free(p);
}

/* ---- the contents of a store ---- */

static void print_hex(struct tfs_bytes b)
{
	for (size_t i = 0; i < b.n; i++)
		printf("%02x", ((const uint8_t *)b.p)[i]);
	putchar(b.n ? ' ' : '-');
	if (!b.n)
		putchar(' ');
}

static void print_cell(struct tfs_table *t, uint32_t tablets, const struct tfs_cell *c)
{
	char *value = malloc(c->size + 1);
	size_t got = c->size;

	must(value ? 0 : -ENOMEM, "value");
	if (c->value.p && c->size)
		memcpy(value, c->value.p, c->size);
	else if (c->size)
		must(tfs_read(t, c->row, c->family, c->qualifier, tfs_at(c->ts), 0, value, c->size, &got, NULL), "read");
	must(got == c->size ? 0 : -EIO, "size");
	printf("%u ", tablets);
	print_hex(c->row);
	printf("%u ", c->family_id);
	print_hex(c->qualifier);
	printf("%" PRId64 " %" PRIu64 " %016" PRIx64 "\n", c->ts, c->size, hash64(tfs_bytes_of(value, c->size), 0));
	free(value);
}

static void print_table(struct tfs_table *t)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	const struct tfs_schema *schema;
	struct tfs_scan *s;
	struct tfs_cell c;
	int err;

	must(tfs_schema_get(t, &schema), "schema");
	must(tfs_scan_new(t, &spec, &s), "scan");
	while ((err = tfs_scan_next(s, &c)) > 0)
		print_cell(t, schema->tablets_id, &c);
	must(err, "scan");
	tfs_scan_free(s);
	tfs_schema_put(schema);
	tfs_table_close(t);
}

static int print_snapshot(void *arg, const struct tfs_snapshot *snapshot)
{
	struct tfs_table *t;

	must(tfs_snapshot_open(arg, snapshot->name, &t), snapshot->name);
	print_table(t);
	return 0;
}

static void print_cells(const char *dir)
{
	struct tfs_options o = {.no_background = true, .log_level = 0};
	char names[64][TFS_NAME_MAX + 1], *why = NULL;
	int n, err = tfs_open(dir, &o, &store, &why);

	if (err)
		fprintf(stderr, "fill: %s\n", why ? why : "");
	must(err, "open");
	n = tfs_table_list(store, NULL, names, 64);
	must(n, "list");
	for (int i = 0; i < n; i++) {
		struct tfs_table *t;

		must(tfs_table_open(store, names[i], &t), names[i]);
		must(tfs_snapshot_list(t, false, print_snapshot, t), "snapshots");
		print_table(t);
	}
	must(tfs_close(store), "close");
	store = NULL;
}

/* ---- METADATA by hand ---- */

static void put_row(struct tablet_service *s, const struct meta_tablet *m)
{
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;

	must(meta_row_key(&key, m->table, m->last, buf_bytes(&m->end)), "row key");
	must(meta_ops_new(m, &arena, &ops, &count), "operations");
	must(metadata_mutate(s, buf_bytes(&key), ops, count), "METADATA");
	arena_fini(&arena);
	buf_fini(&key);
}

/* Changes of one row; m is the row of table "one", its only tablet. */
static void change_row(struct tablet_service *s, const char *what, struct meta_tablet *m, struct tfs_bytes key)
{
	if (strcmp(what, "hint") == 0) {
		must(buf_set(&m->begin, "row000003", 9), "hint");
	} else if (strcmp(what, "seq") == 0) {
		m->seq_mark = 1;
	} else if (strcmp(what, "redo") == 0) {
		must(m->redo_count ? 0 : -ENOENT, "redo point");
		m->redo[0].incarnation += 1000;
	} else if (strcmp(what, "split") == 0 || strcmp(what, "share") == 0 || strcmp(what, "gap") == 0) {
		struct tfs_bytes middle = tfs_bytes_of("row000050", 9);

		/*
		 * The lower child; "gap" leaves it out, and only the upper one's hint shows that. 
		 * "share": they disagree about a file.
		 */
		if (strcmp(what, "gap") != 0) {
			m->last = false;
			must(buf_set(&m->end, middle.p, middle.n), "end");
			put_row(s, m);
			m->last = true;
			buf_reset(&m->end);
		}
		must(buf_set(&m->begin, middle.p, middle.n), "hint");
		if (strcmp(what, "share") == 0)
			m->files[0].cells++;
	} else if (strcmp(what, "lose") == 0) {
		must(metadata_delete(s, key), "METADATA");
		return;
	} else {
		must(m->file_count ? 0 : -ENOENT, "file");
		if (strcmp(what, "bytes") == 0)
			m->files[0].bytes++;
		else if (strcmp(what, "cells") == 0)
			m->files[0].cells++;
		else if (strcmp(what, "first") == 0)
			must(buf_set(&m->files[0].first, "row000100", 9), "first");
		else
			must(-EINVAL, what);
	}
	put_row(s, m);
}

static void change_meta(const char *dir, const char *what)
{
	struct meta_tablet m = {0};
	struct buf key = {0};
	struct tfs_options o;
	struct tfs_table *t;
	char *why = NULL;
	int err;

	tfs_options_init(&o);
	o.no_background = true;
	err = tfs_open(dir, &o, &store, &why);
	if (err)
		fprintf(stderr, "fill: %s\n", why ? why : "");
	must(err, "open");
	must(tfs_table_open(store, "one", &t), "table");
	must(meta_row_key(&key, tfs_table_id(t), true, (struct tfs_bytes){NULL, 0}), "row key");
	tfs_table_close(t);
	must(metadata_read(store->o.tablets, buf_bytes(&key), &m), "METADATA row");
	change_row(store->o.tablets, what, &m, buf_bytes(&key));
	meta_tablet_fini(&m);
	buf_fini(&key);
	/* A clean end would flush the tablet and write its row again. */
	_exit(0);
}

/* Seals the log of the last process, as the master and a server of a cluster do. */
static void seal_log(const char *dir)
{
	char *logs = path_join(dir, "log"), *locks_dir = path_join(dir, "lock"), *why, name[32];
	struct lock_service *locks;
	struct log_seal seal;
	struct buf b = {0};
	uint64_t n;

	must(server_latest_log(dir, &n), "latest log");
	must(log_seal_make(logs, n, &seal, &why), "seal");
	must(log_seal_encode(&seal, &b), "encode");
	must(lock_local_open(locks_dir, &locks), "locks");
	snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)n);
	must(lock_put(locks, name, buf_bytes(&b), LOCK_ABSENT, NULL), "seals");
	lock_service_free(locks);
	log_seal_fini(&seal);
	buf_fini(&b);
	free(logs);
	free(locks_dir);
}

int main(int argc, char **argv)
{
	const char *dir;

	if (argc < 2)
		must(-EINVAL, "usage: fill DATADIR [VERB...]");
	dir = argv[1];
	if (argc == 3 && strcmp(argv[2], "cells") == 0) {
		print_cells(dir);
		return 0;
	}
	if (argc == 3 && strcmp(argv[2], "seal") == 0) {
		seal_log(dir);
		return 0;
	}
	if (argc < 3 || strcmp(argv[2], "meta") != 0)
		open_store(dir);
	for (int i = 2; i < argc; i++) {
		const char *verb = argv[i];

		if (strcmp(verb, "write") == 0 && i + 1 < argc) {
			write_rows(strtoull(argv[++i], NULL, 10));
		} else if (strcmp(verb, "delete") == 0 && i + 1 < argc) {
			delete_rows(strtoull(argv[++i], NULL, 10));
		} else if (strcmp(verb, "meta") == 0 && i + 1 < argc) {
			close_store();
			change_meta(dir, argv[++i]);
		} else if (strcmp(verb, "clear") == 0) {
			clear_rows();
		} else if (strcmp(verb, "salt") == 0 && i + 1 < argc) {
			set_salt(argv[++i]);
		} else if (strcmp(verb, "stray") == 0 && i + 1 < argc) {
			stray_rows(strtoull(argv[++i], NULL, 10));
		} else if (strcmp(verb, "large") == 0) {
			write_large();
		} else if (strcmp(verb, "long") == 0) {
			write_long();
		} else if (strcmp(verb, "versions") == 0) {
			write_versions();
		} else if (strcmp(verb, "flush") == 0) {
			must(tfs_flush(tables[0]), "flush");
			must(tfs_flush(tables[1]), "flush");
		} else if (strcmp(verb, "split") == 0) {
			must(tfs_split(tables[0], TFS_S("row000100")), "split");
			must(tfs_split(tables[0], TFS_S("row000200")), "split");
		} else if (strcmp(verb, "snapshot") == 0) {
			must(tfs_script_set(tables[0], "count", TFS_S("function row(r) end"), NULL), "script");
			must(tfs_snapshot_create(tables[0], "snap"), "snapshot");
			must(tfs_snapshot_create_all(store, "all"), "snapshots");
			must(tfs_table_clone(tables[0], "clone"), "clone");
		} else if (strcmp(verb, "empty") == 0) {
			must(tfs_table_truncate(tables[0], NULL), "truncate");
		} else if (strcmp(verb, "merge") == 0) {
			must(tfs_merge(tables[0], TFS_S("row000100")), "merge");
		} else if (strcmp(verb, "compact") == 0) {
			must(tfs_compact(tables[0]), "compact");
			must(tfs_compact(tables[1]), "compact");
		} else if (strcmp(verb, "close") == 0) {
			close_store();
			open_store(dir);
		} else if (strcmp(verb, "crash") == 0) {
			_exit(0);
		} else if (strcmp(verb, "hold") == 0) {
			puts("ready");
			fflush(stdout);
			while (getchar() != EOF)
				;
		} else {
			must(-EINVAL, verb);
		}
	}
	close_store();
	return 0;
}
