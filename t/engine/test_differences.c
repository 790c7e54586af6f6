/* SPDX-License-Identifier: Apache-2.0 */
/* A scan of differences returns exactly the cells that a snapshot has and a second snapshot lacks.  It reads changed files only. */
#include "t/engine/snapshot_lib.h"
#include "t/lib/metric.h"

struct whole {
	struct cell {
		char row[16], family[8], q[16], value[16];
		unsigned family_id;
		long long ts;
	} v[2000];
	unsigned n;
};

/* All cells of the snapshot, by a scan of it alone. */
static void read_whole(struct tfs_table *s, struct whole *w)
{
	struct tfs_scan_spec all = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	int r;

	w->n = 0;
	assert_int_equal(tfs_scan_new(s, &all, &sc), 0);
	while ((r = tfs_scan_next(sc, &c)) > 0) {
		struct cell *v = &w->v[w->n++];

		assert_true(w->n < 2000);
		snprintf(v->row, sizeof(v->row), "%.*s", (int)c.row.n, (const char *)c.row.p);
		snprintf(v->family, sizeof(v->family), "%s", c.family);
		snprintf(v->q, sizeof(v->q), "%.*s", (int)c.qualifier.n, (const char *)c.qualifier.p);
		snprintf(v->value, sizeof(v->value), "%.*s", (int)c.value.n, (const char *)c.value.p);
		v->family_id = c.family_id;
		v->ts = c.ts;
	}
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
}

static bool has_cell(const struct whole *w, const struct cell *c, bool name_only)
{
	for (unsigned i = 0; i < w->n; i++) {
		const struct cell *v = &w->v[i];

		if (!strcmp(v->row, c->row) && v->family_id == c->family_id && !strcmp(v->family, c->family) &&
			!strcmp(v->q, c->q) && v->ts == c->ts)
			return name_only || !strcmp(v->value, c->value);
	}
	return false;
}

static int order(struct tfs_bytes a, const char *b)
{
	size_t n = strlen(b);
	int c = memcmp(a.p, b, a.n < n ? a.n : n);

	return c ? c : (a.n > n) - (a.n < n);
}

static bool within(const struct tfs_scan_spec *p, const struct cell *c)
{
	bool family = !p->family_count;

	for (unsigned i = 0; i < p->family_count; i++)
		family = family || !strcmp(p->families[i], c->family);
	if (p->one_row ? order(p->row_from, c->row) != 0 : p->row_from.p && order(p->row_from, c->row) > -(int)p->row_from_after)
		return false;
	return family && !(p->row_to.p && !p->one_row && order(p->row_to, c->row) <= 0) &&
		!(p->qualifier_from.p && order(p->qualifier_from, c->q) > -(int)p->qualifier_from_after) &&
		!(p->qualifier_to.p && order(p->qualifier_to, c->q) <= 0);
}

static void say_cell(char *out, const struct tfs_scan_spec *p, const struct cell *c)
{
	static const struct cell none;
	const bool cells = p->what == TFS_SCAN_CELLS || p->what == TFS_SCAN_KEYS;
	const struct cell *of = p->what == TFS_SCAN_ROWS ? &none : c, *key = cells ? c : &none;

	sprintf(out, "%s %s %u %s %lld %s\n", c->row, of->family, of->family_id, key->q, key->ts,
		p->what == TFS_SCAN_CELLS ? c->value : "");
}

/* Returns the number of entries. */
static unsigned expect_absent(
	struct tfs_table *a, const struct whole *from, struct tfs_table *b, const struct whole *to, struct tfs_scan_spec spec)
{
	static char expected[1 << 18], got[1 << 18], line[200], last[200];
	size_t en = 0, gn = 0;
	struct tfs_scan *sc;
	struct tfs_cell c;
	unsigned n = 0;
	int r;

	expected[0] = got[0] = last[0] = 0;
	for (unsigned i = 0; i < to->n; i++) {
		if (!within(&spec, &to->v[i]) || has_cell(from, &to->v[i], spec.absent_names))
			continue;
		say_cell(line, &spec, &to->v[i]);
		if (strcmp(line, last) != 0)
			en += (size_t)sprintf(expected + en, "%s", line);
		strcpy(last, line);
	}
	spec.absent_from = a;
	assert_int_equal(tfs_scan_new(b, &spec, &sc), 0);
	while ((r = tfs_scan_next(sc, &c)) > 0) {
		struct cell v = {.family_id = c.family_id, .ts = c.ts};

		snprintf(v.row, sizeof(v.row), "%.*s", (int)c.row.n, (const char *)c.row.p);
		snprintf(v.family, sizeof(v.family), "%s", c.family ? c.family : "");
		snprintf(v.q, sizeof(v.q), "%.*s", (int)c.qualifier.n, (const char *)c.qualifier.p);
		snprintf(v.value, sizeof(v.value), "%.*s", (int)c.value.n, (const char *)c.value.p);
		say_cell(got + gn, &spec, &v);
		gn += strlen(got + gn);
		n++;
	}
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
	assert_string_equal(got, expected);
	return n;
}

/* Both directions, whole and with some bounds. */
static unsigned expect_diff(const char *from, const char *to, unsigned *x)
{
	static struct whole w[2];
	const char *families[2], *names[2] = {from, to};
	struct tfs_table *t[2];
	char row[2][16], q[2][16];
	unsigned n = 0;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(tfs_snapshot_open(table, names[i], &t[i]), 0);
		read_whole(t[i], &w[i]);
	}
	for (unsigned i = 0; i < 10; i++) {
		struct tfs_scan_spec spec = {
			.what = i < 2 ? TFS_SCAN_CELLS : (enum tfs_scan_what)((*x >> 7) % 4), .absent_names = i & 1};

		for (unsigned k = 0; k < 2; k++) {
			*x = *x * 1103515245 + 12345;
			snprintf(row[k], sizeof(row[k]), "r%02u", (*x >> 8) % 60);
			snprintf(q[k], sizeof(q[k]), "q%u", (*x >> 16) % 4);
			families[k] = (*x >> 22) % 2 ? "f" : "g";
		}
		if (i >= 2) {
			spec.row_from = (*x >> 8) % 3 ? tfs_str(row[0]) : TFS_S("");
			spec.one_row = spec.row_from.n && (*x >> 11) % 3 == 0;
			spec.row_from_after = (*x >> 9) % 2 && !spec.one_row;
			if ((*x >> 12) % 2)
				spec.row_to = tfs_str(row[1]);
			if ((*x >> 13) % 4 == 0)
				spec.qualifier_from = tfs_str(q[0]);
			spec.qualifier_from_after = spec.qualifier_from.p && (*x >> 15) % 2;
			if ((*x >> 17) % 4 == 0)
				spec.qualifier_to = tfs_str(q[1]);
			if ((*x >> 19) % 2) {
				spec.families = families;
				spec.family_count = 1 + (*x >> 21) % 2;
			}
			if ((*x >> 24) % 2)
				spec.batch_bytes = 1 + (*x >> 25) % 64;
		}
		n += expect_absent(t[0], &w[0], t[1], &w[1], spec);
		n += expect_absent(t[1], &w[1], t[0], &w[0], spec);
	}
	tfs_table_close(t[0]);
	tfs_table_close(t[1]);
	return n;
}

static void differences_are_exact(void **state)
{
	static char large[60000];
	unsigned x = 1, found = 0;
	char name[2][32], row[32], q[32], value[32];

	options.no_background = true;
	open_store();
	assert_int_equal(store_no_dictionary(table), 0);
	/* A cell that never changes.  Its file is large; the files of a few mutations are small. */
	for (unsigned i = 0; i < sizeof(large); i++) {
		x = x * 1103515245 + 12345;
		large[i] = (char)(x >> 16);
	}
	assert_int_equal(store_put(table, TFS_S("r29x"), "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(large, sizeof(large)), 0), 0);
	for (unsigned n = 0; n < 24; n++) {
		for (unsigned i = 0; i < (n % 5 ? 4 : 30); i++) {
			struct tfs_mutation *m;

			x = x * 1103515245 + 12345;
			snprintf(row, sizeof(row), "r%02u", n % 3 ? (x >> 8) % 60 : n + (x >> 8) % 6);
			m = tfs_mutation_new(table, tfs_str(row));
			snprintf(q, sizeof(q), "q%u", (x >> 16) % 3);
			snprintf(value, sizeof(value), "v%u", (x >> 20) % 3);
			switch ((x >> 12) % 8) {
			case 0:
				assert_int_equal(tfs_mutation_delete_row(m), 0);
				break;
			case 1:
				assert_int_equal(tfs_mutation_delete_column(m, "f", tfs_str(q)), 0);
				break;
			default:
				assert_int_equal(tfs_mutation_put(m, (x >> 22) % 4 ? "f" : "g", tfs_str(q), tfs_at((x >> 18) % 4),
							 tfs_str(value)),
					0);
			}
			assert_int_equal(tfs_apply(m, 0, NULL), 0);
			tfs_mutation_free(m);
		}
		if (n == 12)
			assert_int_equal(tfs_schema_change(table,
						 &(struct tfs_schema_edit){
							 .op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = "maxversions=2"},
						 NULL),
				0);
		snprintf(name[0], sizeof(name[0]), "s%u", n);
		assert_int_equal(tfs_snapshot_create(table, name[0]), 0);
		snprintf(row, sizeof(row), "r%02u", (x >> 9) % 60);
		if (n % 4 == 1)
			(void)!tfs_split(table, tfs_str(row));
		if (n % 4 == 2)
			assert_int_equal(tfs_compact(table), 0);
		if (n % 8 == 7)
			(void)!tfs_merge(table, TFS_S("r"));
		for (unsigned i = 0; i <= n; i += 1 + i / 3) {
			snprintf(name[1], sizeof(name[1]), "s%u", i);
			found += expect_diff(name[1], name[0], &x);
		}
		assert_int_equal(expect_diff(name[0], name[0], &x), 0);
	}
	print_message("# %u differences\n", found);
	close_store();
	check_is_clean();
}

/*
 * Reads the cells that `of` has and `from` has not, with cold caches.  Returns the bytes read, in
 * percent of the bytes that a read of a snapshot needs.
 */
static unsigned difference_reads(const char *from, const char *of, unsigned *cells)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_snapshot whole;
	struct tfs_table *a, *b;
	struct tfs_scan *sc;
	struct tfs_cell c;
	uint64_t before;
	int r;

	close_store();
	open_store();
	assert_int_equal(tfs_snapshot_open(table, from, &a), 0);
	assert_int_equal(tfs_snapshot_open(table, of, &b), 0);
	assert_int_equal(tfs_snapshot_usage(b, &whole), 0);
	spec.absent_from = a;
	before = metric_of(store, "bytes_read");
	assert_int_equal(tfs_scan_new(b, &spec, &sc), 0);
	for (*cells = 0; (r = tfs_scan_next(sc, &c)) > 0; ++*cells)
		;
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
	tfs_table_close(a);
	tfs_table_close(b);
	return (unsigned)((metric_of(store, "bytes_read") - before) * 100 / whole.bytes);
}

/* 50 of 5000 rows change: neighbours, or every hundredth row. */
static void differences_read_what_changed(void **state)
{
	static const char *const names[] = {"start", "new", "neighbours", "scattered", "compacted"};
	unsigned x = 1, percent[5] = {0}, cells[5] = {0};
	char row[32], value[1000];

	options.no_background = true;
	open_store();
	assert_int_equal(store_no_dictionary(table), 0);
	for (unsigned n = 0; n < 5; n++) {
		for (unsigned i = 0; i < (n ? 50 : 5000); i++) {
			row_name(row, n == 1 ? 6000 + i : n == 2 ? 2000 + i : n == 3 ? i * 100 : n == 4 ? i * 100 + 50 : i);
			for (unsigned k = 0; k < sizeof(value); k++) {
				x = x * 1103515245 + 12345;
				value[k] = (char)(x >> 16);
			}
			assert_int_equal(
				store_put(table, tfs_str(row), "f", TFS_S("q"), tfs_at(n), tfs_bytes_of(value, sizeof(value)), 0),
				0);
		}
		if (n == 0 || n == 4)
			assert_int_equal(tfs_compact(table), 0);
		assert_int_equal(tfs_snapshot_create(table, names[n]), 0);
	}
	for (unsigned n = 1; n < 5; n++) {
		percent[n] = difference_reads(names[n - 1], names[n], &cells[n]);
		print_message("# %s: %u cells, %u percent of a snapshot read\n", names[n], cells[n], percent[n]);
		assert_int_equal(cells[n], 50);
	}
	assert_true(percent[1] <= 3 && percent[2] <= 5 && percent[3] <= 25 && percent[4] <= 210);
	close_store();
	check_is_clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(differences_are_exact, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(differences_read_what_changed, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
