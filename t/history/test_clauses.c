/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each clause of engine/base/scan.h by itself, over the library and over the reference
 * model.  Both return the same cells, and these are not the cells of a scan without
 * the clause.  So a clause that the library or the model ignores is found, and a
 * clause that has no example here.
 */
#include "engine/base/clock.h"
#include "engine/bulk/clauses.h"
#include "t/history/keys.h"
#include "t/model/model.h"

#include <stdio.h>
#include <stdlib.h>

#define SECOND_US INT64_C(1000000)

/* The values of clauses, for the cells of fill(). */
static const char *const examples[CLAUSE_COUNT] = {
	[CLAUSE_PREFIX] = "b",
	[CLAUSE_FROM] = "b2",
	[CLAUSE_TO] = "b2",
	[CLAUSE_AFTER] = "b1",
	[CLAUSE_STORED_FROM] = "b2",
	[CLAUSE_STORED_TO] = "b2",
	[CLAUSE_ROW] = ".*1",
	[CLAUSE_LUA] = "#r.key > 2",
	[CLAUSE_WHERE] = "anchor:q1=w and not contents:q2",
	[CLAUSE_SAMPLE] = "50%",
	[CLAUSE_REVERSE] = "yes",
	[CLAUSE_LIMIT] = "2",
	[CLAUSE_FAMILY] = "contents",
	[CLAUSE_QUALIFIER] = "q.",
	[CLAUSE_QPREFIX] = "q",
	[CLAUSE_QFROM] = "q1",
	[CLAUSE_QTO] = "q1",
	[CLAUSE_QAFTER] = "p",
	[CLAUSE_QLIMIT] = "1",
	[CLAUSE_SINCE] = "20",
	[CLAUSE_UNTIL] = "20",
	[CLAUSE_VERSIONS] = "1",
	[CLAUSE_AT] = "10",
	[CLAUSE_VALUE] = "v.*",
	[CLAUSE_VALUE_IS] = "v1",
	[CLAUSE_CHANGED] = "5s",
};

static unsigned number;

static bool tell(bool good, const char *what)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++number, what);
	return good;
}

static int put(struct side *s, const char *row, const char *family, const char *qualifier, int64_t ts, const char *value)
{
	struct tfs_mutation *m = s->api->mutation_new(s->table[0], tfs_str(row));
	int err = s->api->mutation_put(m, family, tfs_str(qualifier), tfs_at(ts), tfs_str(value));

	if (!err)
		err = s->api->apply(m, 0, NULL);
	s->api->mutation_free(m);
	return err;
}

/* Half of the rows were committed ten seconds before the rest. */
static int fill(struct side *s, const char *const *rows)
{
	int err = 0;

	for (unsigned i = 0; i < 2 && !err; i++) {
		err = put(s, rows[i], "anchor", "p", 10, "v1");
		if (!err)
			err = put(s, rows[i], "anchor", "q1", 10, "v1");
		if (!err)
			err = put(s, rows[i], "anchor", "q1", 20, "w");
		if (!err)
			err = put(s, rows[i], "contents", "q2", 30, "v2");
	}
	return err;
}

static int make(struct side *s, struct out *o)
{
	static const char *const rows[] = {"a1", "b1", "b2", "c2"};
	int err = 0;

	history_clock = CLOCK_START;
	for (unsigned part = 0; part < 2 && !err; part++)
		err = side_setup_part(s, 0, part, o);
	for (unsigned half = 0; half < 2 && !err; half++) {
		history_clock += 10 * SECOND_US;
		err = fill(s, rows + 2 * half);
	}
	return err;
}

/* What the scan returns: cells, keys, rows and families. */
static void look(struct side *s, const struct clauses *c, struct out *o)
{
	for (enum tfs_scan_what what = TFS_SCAN_CELLS; what <= TFS_SCAN_FAMILIES; what++) {
		struct tfs_scan_spec spec = c->spec;

		spec.what = what;
		say(o, "what %d\n", (int)what);
		say_scan(s, s->table[0], &spec, o);
	}
}

static bool same(const struct out *a, const struct out *b)
{
	return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

static void try_clause(enum clause k, struct side *lib, struct side *ref, const struct out *all)
{
	struct out saw[2] = {{0}, {0}};
	struct clauses c = {0};
	struct buf path = {0};
	const char *why = NULL;
	char title[100];
	bool good = examples[k] != NULL;

	snprintf(title, sizeof(title), "%s has an example", clause_kinds[k].name);
	if (good &&
		(buf_printf(&path, "%s=%s", clause_kinds[k].name, examples[k]) ||
			clauses_parse(buf_bytes(&path), history_clock, &c, &why))) {
		printf("# %s\n", why ? why : "out of memory");
		good = false;
	}
	if (tell(good, title)) {
		look(lib, &c, &saw[0]);
		look(ref, &c, &saw[1]);
		snprintf(title, sizeof(title), "%s=%s: library and model return the same", clause_kinds[k].name, examples[k]);
		if (!tell(same(&saw[0], &saw[1]), title))
			out_differ(&saw[1], "model", &saw[0], "library");
		snprintf(title, sizeof(title), "%s=%s: neither returns everything", clause_kinds[k].name, examples[k]);
		tell(!same(&saw[0], all) && !same(&saw[1], all), title);
	}
	clauses_fini(&c);
	buf_fini(&path);
	out_free(&saw[0]);
	out_free(&saw[1]);
}

int main(void)
{
	char dir[] = "/tmp/tfs-clauses-XXXXXX", command[64];
	struct side lib = {.api = &api_library}, ref = {.api = &api_model};
	struct open_hooks hooks = {.clock = clock_new(history_now, NULL)};
	struct tfs_options options;
	struct out o = {0}, all = {0};
	bool good;

	tfs_options_init(&options);
	options.no_background = true;
	model_set_clock(history_now, NULL);
	history_clock = CLOCK_START;
	good = mkdtemp(dir) && hooks.clock && !tfs_open_hooked(dir, &options, &hooks, &lib.store, NULL) &&
		!model_open(dir, NULL, &ref.store, NULL) && !make(&lib, &o) && !make(&ref, &o);
	if (tell(good, "a table of each side")) {
		look(&lib, &(struct clauses){0}, &all);
		for (enum clause k = 0; k < CLAUSE_COUNT; k++)
			try_clause(k, &lib, &ref, &all);
		side_close_tables(&lib);
		side_close_tables(&ref);
		tell(!tfs_close(lib.store) && !model_close(ref.store), "both are closed");
		clock_free(hooks.clock);
	} else {
		print_messages();
	}
	out_free(&o);
	out_free(&all);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	(void)!system(command);
	printf("1..%u\n", number);
	return 0;
}
