/* SPDX-License-Identifier: Apache-2.0 */
/* The reference model: tables, schemas, options, and calls from several threads. */
#include "t/unit/test_model.h"

#include <pthread.h>
#include <unistd.h>

static void names(void **state)
{
	char longest[TFS_NAME_MAX + 2];

	memset(longest, 'x', sizeof(longest));
	longest[TFS_NAME_MAX + 1] = '\0';
	assert_false(tfs_name_valid(longest));
	longest[TFS_NAME_MAX] = '\0';
	assert_true(tfs_name_valid(longest));
	assert_true(tfs_name_valid("a.b-c_9"));
	static const char *const bad[] = {"", ".a", "-a", "a/b", "a b", "\xc3\xa4", "a@1"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(tfs_name_valid(bad[i]));
}

static void tables(void **state)
{
	struct world *w = *state;
	struct tfs_table *t;
	char list[4][TFS_NAME_MAX + 1];
	bool empty;

	assert_int_equal(tfs_table_create(w->store, "t", 0, 0, 0755), -EEXIST);
	assert_int_equal(tfs_table_create(w->store, ".t", 0, 0, 0755), -EINVAL);
	assert_int_equal(tfs_table_create(w->store, "b", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_create(w->store, "z", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_list(w->store, "", list, 4), 3);
	assert_string_equal(list[0], "b");
	assert_int_equal(tfs_table_list(w->store, "c", list, 1), 1); /* after a name that is not there */
	assert_string_equal(list[0], "t");
	assert_int_equal(tfs_table_open(w->store, "nope", &t), -ENOENT);

	put(w, "r", "a", "q", 1, "x");
	assert_int_equal(tfs_table_drop(w->store, "t"), -ENOTEMPTY);
	assert_int_equal(tfs_table_rename(w->store, "b", "t", false), -ENOTEMPTY);
	assert_int_equal(tfs_table_rename(w->store, "t", "z", true), -EEXIST);
	assert_int_equal(tfs_table_rename(w->store, "nope", "z", false), -ENOENT);
	assert_int_equal(tfs_table_open(w->store, "z", &t), 0);
	assert_int_equal(tfs_table_rename(w->store, "t", "z", false), 0); /* replaces the empty one */
	assert_int_equal(tfs_table_empty(t, &empty), -ENOENT);
	assert_int_equal(tfs_close(w->store), -EBUSY);
	tfs_table_close(t);
	assert_int_equal(put(w, "r", "a", "q", 2, "x"), 0); /* the handle ends with the table */
	const struct tfs_schema *s;
	assert_int_equal(tfs_schema_get(w->table, &s), 0);
	assert_string_equal(s->name, "z");
	tfs_schema_put(s);
	assert_int_equal(tfs_table_list(w->store, "", list, 4), 2);

	struct tfs_mutation *m = tfs_mutation_new(w->table, TFS_S("r"));
	tfs_mutation_delete_row(m);
	assert_int_equal(done(m, NULL), 0);
	assert_int_equal(tfs_table_drop(w->store, "z"), 0);
	assert_int_equal(put(w, "r", "a", "q", 2, "x"), -ENOENT);
	assert_int_equal(tfs_schema_get(w->table, &s), -ENOENT);
	assert_int_equal(tfs_compact(w->table), -ENOENT);
}

static void refused(struct world *w, const char *text, const char *line, int want)
{
	char *why = NULL;
	int r = tfs_schema_set_text(w->table, tfs_str(text), 5, &why);

	if (r != want || !why || !strstr(why, line))
		print_message("# %s -> %d %s\n", text, r, why ? why : "(no reason)");
	assert_int_equal(r, want);
	assert_non_null(why);
	assert_non_null(strstr(why, line));
	free(why);
}

static void bad_schemas_change_nothing(void **state)
{
	struct world *w = *state;
	const struct tfs_schema *before, *after;

	assert_int_equal(tfs_schema_get(w->table, &before), 0);
	static const char *const bad[] = {
		"\nfoo = 1;",
		"\nmode = 755;",
		"\nmode = \"0999\";",
		"\ntablet_size = 5;",
		"\ntablet_size = \"128X\";",
		"\nfamilies = { };",
		"\nfamilies = ( 1 );",
		"\nfamilies = ( { } );",
		"\nfamilies = ( { name = 3; } );",
		"\nfamilies = ( { name = \"a/b\"; } );",
		"\nfamilies = ( { name = \"x\"; }, { name = \"x\"; } );",
		"\nfamilies = ( { name = \"x\"; gc = \"maxversions=0\"; } );",
		"\nfamilies = ( { name = \"x\"; gc = \"maxage=7\"; } );",
		"\nfamilies = ( { name = \"x\"; gc = 3; } );",
		"\nfamilies = ( { name = \"x\"; gc = \"maxversions=1 or\"; } );",
		"\nfamilies = ( { name = \"x\"; gc = \"(maxversions=1\"; } );",
		"\nfamilies = ( { name = \"x\"; gc = \"maxage=99999999999999999999w\"; } );",
		"\nfamilies = ( { name = \"x\"; group = \"none\"; } );",
		"\nfamilies = ( { name = \"x\"; type = \"int\"; } );",
		"\nfamilies = ( { name = \"x\"; owner = \"no such user\"; } );",
		"\nfamilies = ( { name = \"x\"; color = \"red\"; } );",
		"\ngroups = ( { name = \"g\"; level = \"3\"; } );",
		"\ngroups = ( { name = \"g\"; compression = \"gzip\"; } );",
		"\ngroups = ( { name = \"g\"; block_size = \"1\"; } );",
		"\ngroups = ( { name = \"g\"; bloom_bits = 99; } );",
		"\ngroups = ( { name = \"g\"; in_memory = 1; } );",
		"\nallow_delete = 1;",
		"\nsalt = -1;",
		"\nsalt = 1;",
		"\nsalt = 256;",
		"\nfamilies = (",
		"\n @include \"/etc/passwd\"",
		"\nmode = \"0755\"; mode = 5;",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(w, bad[i], "line 2", -EINVAL);
	assert_int_equal(tfs_schema_set_text(w->table, tfs_bytes_of("\0", 1), 5, NULL), -EINVAL);
	put(w, "r", "a", "q", 1, "x");
	refused(w, "families = ( { name = \"b\"; } );", "\"a\" holds cells", -EBUSY);
	assert_int_equal(tfs_schema_get(w->table, &after), 0);
	assert_ptr_equal(before, after);
	tfs_schema_put(before);
	tfs_schema_put(after);
}

static void schema_text(void **state)
{
	struct world *w = *state;
	const struct tfs_schema *s, *again;
	static const char text[] =
		"# a comment is kept\nowner = \"12\"; owner_group = 13; mode = \"0750\"; tablet_size = \"256M\";\n"
		"families = ( { name = \"b\"; gc = \"maxage=2m or maxversions=3\"; group = \"g\"; owner = \"root\"; mode = \"0640\";"
		" acl = \"\"; }, { name = \"zz\"; } );\n"
		"groups = ( { name = \"g\"; compression = \"zstd-dict\"; level = 9; block_size = \"16K\"; bloom_bits = 0;"
		" in_memory = true; } );\n";

	assert_int_equal(tfs_schema_get(w->table, &s), 0);
	uint16_t b = tfs_schema_family(s, "b")->id, last = tfs_schema_family(s, "n")->id;
	uint64_t generation = s->generation;
	tfs_schema_put(s);
	assert_int_equal(tfs_schema_set_text(w->table, TFS_S(text), 77, NULL), 0);
	assert_int_equal(tfs_schema_get(w->table, &s), 0);
	assert_true(s->is_set && !s->is_hidden && s->mtime_us == 77 && s->generation > generation);
	assert_int_equal(s->text_size, sizeof(text) - 1);
	assert_memory_equal(s->text, text, s->text_size);
	assert_true(s->uid == 12 && s->gid == 13 && s->mode == 0750 && s->tablet_size == 256u << 20);
	assert_int_equal(s->family_count, 2);
	const struct tfs_family *f = tfs_schema_family(s, "b");
	assert_true(f->id == b && f->uid == 0 && f->gid == 13 && f->mode == 0640 && f->max_age_us == 120000000);
	assert_string_equal(f->acl, "");
	f = tfs_schema_family(s, "zz");
	assert_true(f->id > last && f->mode == 0644 && f->max_age_us == 0); /* ids are not used again */
	assert_int_equal(s->group_count, 2);                                /* "default" is always there */
	assert_string_equal(s->groups[0].name, "default");
	const struct tfs_group *g = &s->groups[1];
	assert_true(g->level == 9 && g->block_size == 16384 && g->bloom_bits == 0 && g->in_memory);
	assert_null(tfs_schema_family(s, "a"));
	tfs_schema_put(s);

	/* rendered text parses back to the same */
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_MODE, .name = "zz", .mode = 0600};
	assert_int_equal(tfs_schema_change(w->table, &e, NULL), 0);
	assert_int_equal(tfs_schema_get(w->table, &s), 0);
	assert_memory_not_equal(s->text, text, 10);
	assert_int_equal(s->mtime_us, test_clock_us);
	assert_int_equal(tfs_schema_set_text(w->table, tfs_bytes_of(s->text, s->text_size), 1, NULL), 0);
	e.mode = 0601;
	assert_int_equal(tfs_schema_change(w->table, &e, NULL), 0);
	e.mode = 0600;
	assert_int_equal(tfs_schema_change(w->table, &e, NULL), 0);
	assert_int_equal(tfs_schema_get(w->table, &again), 0);
	assert_string_equal(again->text, s->text);
	tfs_schema_put(s);
	tfs_schema_put(again);
}

static void deleted_families(void **state)
{
	struct world *w = *state;
	const struct tfs_schema *s;

	put(w, "r", "a", "q", 1, "x");
	put(w, "r", "b", "q", 1, "x");
	schema(w, "families = ( { name = \"b\"; } ); allow_delete = true;");
	assert_string_equal(show_row(w, "r"), "b:q@1=x");
	assert_int_equal(tfs_schema_get(w->table, &s), 0);
	assert_null(strstr(s->text, "allow_delete"));
	tfs_schema_put(s);
	assert_int_equal(put(w, "r", "a", "q", 1, "x"), -EINVAL);
	schema(w, "families = ( { name = \"b\"; }, { name = \"a\"; } );");
	assert_string_equal(show_row(w, "r"), "b:q@1=x"); /* a new family of the old name */
	/* a looser rule shows versions that are not yet collected, and no collected ones */
	for (int i = 1; i <= 3; i++)
		put(w, "r", "a", "q", i, "x");
	schema(w, "families = ( { name = \"b\"; }, { name = \"a\"; gc = \"maxversions=2\"; } );");
	assert_string_equal(show_row(w, "r"), "b:q@1=x a:q@3=x a:q@2=x");
	schema(w, "families = ( { name = \"b\"; }, { name = \"a\"; gc = \"maxversions=1\"; } );");
	assert_int_equal(tfs_flush(w->table), 0);
	schema(w, "families = ( { name = \"b\"; }, { name = \"a\"; gc = \"maxversions=2\"; } );");
	assert_string_equal(show_row(w, "r"), "b:q@1=x a:q@3=x a:q@2=x");
	assert_int_equal(tfs_compact(w->table), 0);
	schema(w, "families = ( { name = \"b\"; }, { name = \"a\"; } );");
	assert_string_equal(show_row(w, "r"), "b:q@1=x a:q@3=x a:q@2=x");
}

static int change(struct world *w, enum tfs_schema_op op, const char *name, const char *value)
{
	struct tfs_schema_edit e = {.op = op, .name = name, .value = value, .uid = 5, .gid = (gid_t)-1, .mode = 0640};
	char *why = NULL;
	int r = tfs_schema_change(w->table, &e, &why);

	if (r == -EINVAL)
		assert_non_null(why);
	free(why);
	return r;
}

static void edits(void **state)
{
	struct world *w = *state;
	const struct tfs_schema *s;

	put(w, "r", "a", "q", 1, "x");
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_ADD, "a", NULL), -EEXIST);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_ADD, "no/good", NULL), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_ADD, "x", NULL), 0);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_DROP, "a", NULL), -EBUSY);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_DROP, "b", NULL), 0);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_DROP, "b", NULL), -ENOENT);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_GC, "x", "maxversions"), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_GC, "x", "maxversions=3\n"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_TYPE, "x", "counter"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_TYPE, "a", "counter"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_TYPE, "a", "bytes"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_TYPE, "a", "float"), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_GROUP, "x", "g"), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_ADD, "g", NULL), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_ADD, "g", NULL), -EEXIST);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_GROUP, "x", "g"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_DROP, "g", NULL), -EBUSY);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_DROP, "default", NULL), -EBUSY);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_COMPRESSION, "g", "lz4"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_COMPRESSION, "g", "rar"), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_LEVEL, "g", "12"), -EINVAL); /* lz4 has none */
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_COMPRESSION, "g", "zstd"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_LEVEL, "g", "12"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_LEVEL, "g", "1K"), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_BLOCK_SIZE, "g", "8K"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_BLOOM_BITS, "g", "-1"), -EINVAL);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_IN_MEMORY, "g", "true"), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_IN_MEMORY, "nope", "true"), -ENOENT);
	assert_int_equal(change(w, TFS_SCHEMA_TABLE_OWNER, NULL, NULL), 0);
	assert_int_equal(tfs_schema_get(w->table, &s), 0);
	const struct tfs_family *f = tfs_schema_family(s, "x");
	assert_true(f->type == TFS_TYPE_COUNTER && f->uid == 5 && f->mode == 0640);
	assert_string_equal(f->gc, "maxversions=3");
	assert_string_equal(f->group, "g");
	assert_true(s->uid == 5 && s->gid == 8);
	const struct tfs_group *g = &s->groups[s->group_count - 1];
	assert_string_equal(g->compression, "zstd");
	assert_true(g->level == 12 && g->block_size == 8192 && g->in_memory);
	tfs_schema_put(s);
	assert_int_equal(change(w, TFS_SCHEMA_FAMILY_DROP, "x", NULL), 0);
	assert_int_equal(change(w, TFS_SCHEMA_GROUP_DROP, "g", NULL), 0);
}

/* chmod, chown and utimensat on a restored tree must leave the restored .schema alone. */
static void edits_that_change_nothing(void **state)
{
	struct world *w = *state;
	const struct tfs_schema *before, *after;
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_TABLE_MODE, .mode = 0755, .explicit_act = true};

	schema(w, "# mine\nmode = \"0755\"; families = ( { name = \"a\"; } );");
	assert_int_equal(tfs_schema_get(w->table, &before), 0);
	test_clock_us += 1000;
	assert_int_equal(tfs_schema_change(w->table, &e, NULL), 0);
	assert_int_equal(tfs_schema_get(w->table, &after), 0);
	assert_ptr_equal(before, after);
	tfs_schema_put(after);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_TIME, .mtime_us = 99};
	assert_int_equal(tfs_schema_change(w->table, &e, NULL), 0);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_HIDE, .flag = true};
	assert_int_equal(tfs_schema_change(w->table, &e, NULL), 0);
	assert_int_equal(tfs_schema_get(w->table, &after), 0);
	assert_string_equal(after->text, before->text);
	assert_true(after->mtime_us == 99 && after->is_hidden && after->is_set);
	tfs_schema_put(before);
	tfs_schema_put(after);

	assert_int_equal(tfs_table_create(w->store, "fresh", 1, 2, 0711), 0);
	struct tfs_table *t;
	assert_int_equal(tfs_table_open(w->store, "fresh", &t), 0);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .uid = 3, .gid = 4, .mode = 0644};
	assert_int_equal(tfs_schema_change(t, &e, NULL), 0);
	assert_int_equal(tfs_schema_get(t, &after), 0);
	assert_true(!after->is_set && after->mode == 0711 && after->family_count == 1);
	tfs_schema_put(after);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = "f", .mode = 0644, .explicit_act = true};
	assert_int_equal(tfs_schema_change(t, &e, NULL), 0);
	assert_int_equal(tfs_schema_get(t, &after), 0);
	assert_true(after->is_set);
	tfs_schema_put(after);
	tfs_table_close(t);
}

static void options(void **state)
{
	struct tfs_options o;
	char path[] = "/tmp/test_model_conf.XXXXXX", *why = NULL;
	static const char *const text[] = {"memtable = \"8M\";\nsync = true; sync_interval = \"250ms\"; log_level = \"info\";",
		"memtable = \"1M\";\nnope = 1;", "\nmemtable = 8;", "\nsync = ;"};

	tfs_options_init(&o);
	assert_true(o.memtable_bytes == 128u << 20 && o.sync_interval_us == 1000000 && o.compaction_threads == 2);
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, text[i], strlen(text[i]), 0), strlen(text[i]));
		int r = tfs_options_load(&o, path, &why);
		assert_int_equal(r, i ? -EINVAL : 0);
		if (i)
			assert_non_null(strstr(why, ":2: "));
		free(why);
		assert_true(o.memtable_bytes == 8u << 20 && o.sync && o.sync_interval_us == 250000 && o.log_level == 3);
	}
	close(fd);
	unlink(path);
	assert_int_equal(tfs_options_load(&o, path, NULL), -ENOENT);
}

static int keep_server(void *arg, const struct tfs_server *server)
{
	*(uint64_t *)arg = server->tablets;
	return 43;
}

static int keep_tablet(void *arg, const struct tfs_tablet *tablet)
{
	assert_int_equal(tablet->begin.n, 0);
	assert_null(tablet->end.p);
	*(uint64_t *)arg = tablet->bytes;
	return 42;
}

static void numbers(void **state)
{
	struct world *w = *state;
	struct tfs_usage u;
	uint64_t a, b;
	char *text;

	put(w, "r", "a", "q", 1, "x");
	put(w, "r", "b", "q", 1, "x");
	assert_int_equal(tfs_usage(w->table, "a", &u), 0);
	assert_int_equal(u.cells, 1);
	assert_int_equal(tfs_usage(w->table, NULL, &u), 0);
	assert_int_equal(u.cells, 2);
	assert_int_equal(tfs_usage(w->table, "nope", &u), -EINVAL);
	assert_int_equal(tfs_tablets(w->table, keep_tablet, &a), 42);
	assert_true(a > 0);
	assert_int_equal(tfs_servers(w->store, keep_server, &a), 43);
	assert_int_equal(a, 1);
	assert_int_equal(tfs_space(w->store, &a, &b), 0);
	assert_true(a >= b);
	assert_int_equal(tfs_status(w->store, &text), 0);
	assert_non_null(strstr(text, "cells 2\n"));
	free(text);
	assert_int_equal(tfs_metrics(w->store, &text), 0);
	assert_non_null(strstr(text, "tabletfs_cells 2\n"));
	free(text);
	assert_int_equal(tfs_sync(w->store), 0);
	struct tfs_store *s;
	char *why;
	assert_int_equal(tfs_open("/dev/null", NULL, &s, &why), -ENOTDIR);
	assert_non_null(strstr(why, "/dev/null"));
	free(why);
}

enum { INCREMENTS = 500 };

static void *incrementer(void *arg)
{
	struct world *w = arg;

	for (int i = 0; i < INCREMENTS; i++) {
		struct tfs_mutation *m = tfs_mutation_new(w->table, TFS_S("r"));
		tfs_mutation_increment(m, "n", TFS_S("c"), 1);
		tfs_mutation_increment(m, "n", TFS_S("d"), 1);
		assert_int_equal(done(m, NULL), 0);
	}
	return NULL;
}

static void several_threads(void **state)
{
	struct world *w = *state;
	struct tfs_scan_spec spec = {.one_row = true, .row_from = TFS_S("r"), .versions = 1};
	struct tfs_scan *sc;
	struct tfs_cell c, d;
	pthread_t thread[3];
	char last[24];

	schema(w, "families = ( { name = \"n\"; gc = \"maxversions=1\"; } ); allow_delete = true;");
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, incrementer, w), 0);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(tfs_scan_new(w->table, &spec, &sc), 0);
		if (tfs_scan_next(sc, &c) > 0) {
			size_t n = c.value.n;

			assert_true(n > 0 && n < sizeof(last));
			memcpy(last, c.value.p, n);
			assert_int_equal(tfs_scan_next(sc, &d), 1);
			assert_int_equal(d.value.n, n);
			assert_memory_equal(d.value.p, last, n); /* whole mutations only */
		}
		tfs_scan_free(sc);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	struct tfs_mutation *m = tfs_mutation_new(w->table, TFS_S("r"));
	struct tfs_result res;
	tfs_mutation_increment(m, "n", TFS_S("c"), 0);
	assert_int_equal(done(m, &res), 0);
	assert_int_equal(res.counter, 3 * INCREMENTS);
}

const struct CMUnitTest table_tests[] = {
	cmocka_unit_test(names),
	cmocka_unit_test(tables),
	cmocka_unit_test(bad_schemas_change_nothing),
	cmocka_unit_test(schema_text),
	cmocka_unit_test(deleted_families),
	cmocka_unit_test(edits),
	cmocka_unit_test(edits_that_change_nothing),
	cmocka_unit_test(options),
	cmocka_unit_test(numbers),
	cmocka_unit_test(several_threads),
};
const size_t table_test_count = sizeof(table_tests) / sizeof(table_tests[0]);
