/* SPDX-License-Identifier: Apache-2.0 */
/* The reference model's own tests: set-up and main. */
#include "t/unit/test_model.h"

#include <unistd.h>

int64_t test_clock_us;

static int64_t test_now(void *arg)
{
	return *(int64_t *)arg;
}

static const char test_schema[] = "families = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"v2\"; gc = \"maxversions=2\"; },\n"
				  " { name = \"old\"; gc = \"maxage=10s\"; }, { name = \"n\"; type = \"counter\"; } );\n";

void schema(struct world *w, const char *text)
{
	char *why = NULL;
	int r = tfs_schema_set_text(w->table, tfs_str(text), TFS_NO_TIME, &why);

	if (r < 0)
		print_message("# %s\n", why ? why : "?");
	free(why);
	assert_int_equal(r, 0);
}

int world_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	strcpy(w->dir, "/tmp/test_model.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	test_clock_us = 1000000000;
	model_set_clock(test_now, &test_clock_us);
	assert_int_equal(tfs_open(w->dir, NULL, &w->store, NULL), 0);
	assert_int_equal(tfs_table_create(w->store, "t", 7, 8, 0755), 0);
	assert_int_equal(tfs_table_open(w->store, "t", &w->table), 0);
	schema(w, test_schema);
	*state = w;
	return 0;
}

int world_down(void **state)
{
	struct world *w = *state;

	tfs_table_close(w->table);
	assert_int_equal(tfs_close(w->store), 0);
	rmdir(w->dir);
	free(w);
	show(NULL, NULL);
	return 0;
}

int done(struct tfs_mutation *m, struct tfs_result *results)
{
	int r = tfs_apply(m, 0, results);

	tfs_mutation_free(m);
	return r;
}

int put(struct world *w, const char *row, const char *family, const char *q, int64_t ts, const char *value)
{
	struct tfs_mutation *m = tfs_mutation_new(w->table, tfs_str(row));

	assert_int_equal(tfs_mutation_put(m, family, tfs_str(q), tfs_at(ts), tfs_str(value)), 0);
	return done(m, NULL);
}

int put_auto(struct world *w, const char *row, const char *family, const char *q, const char *value, int64_t *ts)
{
	struct tfs_mutation *m = tfs_mutation_new(w->table, tfs_str(row));
	struct tfs_result res = {0};

	assert_int_equal(tfs_mutation_put(m, family, tfs_str(q), TFS_AUTO, tfs_str(value)), 0);
	int r = done(m, &res);
	*ts = res.ts;
	return r;
}

int delete_version(struct world *w, const char *row, const char *family, const char *q, int64_t ts)
{
	struct tfs_mutation *m = tfs_mutation_new(w->table, tfs_str(row));

	assert_int_equal(tfs_mutation_delete_version(m, family, tfs_str(q), ts), 0);
	return done(m, NULL);
}

const char *show(struct world *w, const struct tfs_scan_spec *spec)
{
	static char *text;
	struct tfs_scan *sc;
	struct tfs_cell c;
	size_t n;
	int r;

	free(text);
	text = NULL;
	if (!w)
		return NULL;
	FILE *f = open_memstream(&text, &n);
	assert_int_equal(tfs_scan_new(w->table, spec, &sc), 0);
	const char *space = "";
	while ((r = tfs_scan_next(sc, &c)) > 0) {
		if (!spec->one_row)
			fprintf(f, "%s%.*s", space, (int)c.row.n, (const char *)c.row.p);
		else
			fputs(space, f);
		if (c.family)
			fprintf(f, "%s%s", spec->one_row ? "" : "/", c.family);
		if (c.qualifier.p)
			fprintf(f, ":%.*s@%lld", (int)c.qualifier.n, (const char *)c.qualifier.p, (long long)c.ts);
		if (c.value.p)
			fprintf(f, "=%.*s", (int)c.value.n, (const char *)c.value.p);
		space = " ";
	}
	tfs_scan_free(sc);
	fclose(f);
	assert_int_equal(r, 0);
	return text;
}

const char *show_row(struct world *w, const char *row)
{
	struct tfs_scan_spec spec = {.row_from = tfs_str(row), .one_row = true};

	return show(w, &spec);
}

int main(void)
{
	struct CMUnitTest all[64];
	size_t n = 0;

	assert_true(row_test_count + table_test_count <= 64);
	for (size_t i = 0; i < row_test_count; i++)
		all[n++] = row_tests[i];
	for (size_t i = 0; i < table_test_count; i++)
		all[n++] = table_tests[i];
	for (size_t i = 0; i < n; i++) {
		all[i].setup_func = world_up;
		all[i].teardown_func = world_down;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("model", all, n, NULL, NULL);
}
