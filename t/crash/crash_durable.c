/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process dies at each durable step of a split, a merge, a change of tables,
 * schemas and snapshots, a round of the collector and of changes of METADATA's own tablets.  Histories in
 * which such changes are frequent run once, and each file operation in such a
 * change gets a name (durable.c).  Then the process dies at each name that has
 * not been tested yet, by SIGKILL and by power cuts, before the operation takes
 * place.  A death at the first operation of a step is therefore a death between the previous step and
 * this step.  "after" a call names the first operation that follows it.
 *
 * With TEST_SHARE=N (t/lib/share.h) one name in N dies in these three ways.  Each further name is tried
 * only until its step has had a death.
 *
 * The required steps are listed here.  A step without a death is an error.  A change of METADATA or of a
 * file for which durable.c has no name is an error, too.
 *
 *	crash_durable [--seed S] [--all]                   --all: prints all names
 *	crash_durable --seed S --at N --way W [--kill]     one point, verbose
 */
#include "t/crash/durable.h"
#include "t/crash/store_point.h"
#include "t/lib/share.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERATIONS_MAX 16384u
#define NAMES_MAX 2048u
#define HISTORIES_LEAST 8u
#define HISTORIES_MAX 100u
#define CUTS 2u

static const char *const required[] = {
	"table made: lock/ids",
	"table made: first row",
	"table made: lock/tables",
	"after table made",
	"table dropped: lock/journal",
	"table dropped: lock/dropped",
	"table dropped: lock/tables",
	"table dropped: row deleted",
	"after table dropped",
	"table renamed: lock/journal",
	"table renamed: lock/dropped",
	"table renamed: lock/tables",
	"table renamed: row deleted",
	"after table renamed",
	"table truncated: lock/journal",
	"table truncated: first row",
	"table truncated: lock/tables",
	"table truncated: lock/dropped",
	"table truncated: row deleted",
	"after table truncated",
	"table cloned: lock/ids",
	"table cloned: lock/dropped",
	"table cloned: minor compaction",
	"table cloned: split 1",
	"table cloned: lock/journal",
	"table cloned: lock/tables",
	"after table cloned",
	"snapshot made: lock/ids",
	"snapshot made: lock/dropped",
	"snapshot made: minor compaction",
	"snapshot made: split 1",
	"snapshot made: lock/journal",
	"snapshot made: lock/snapshots",
	"after snapshot made",
	"snapshot dropped: lock/journal",
	"snapshot dropped: lock/dropped",
	"snapshot dropped: lock/snapshots",
	"snapshot dropped: row deleted",
	"snapshot dropped: sst",
	"after snapshot dropped",
	"schema text: lock/tables",
	"schema text: lock/dropped",
	"after schema text",
	"split: split 1",
	"split: split 2",
	"after split",
	"merge: minor compaction",
	"merge: sst",
	"merge: merge 2",
	"merge: merge 3",
	"merge: merge 4",
	"after merge",
	"METADATA: minor compaction",
	"METADATA: sst",
	"METADATA: lock/root",
	"METADATA: split 1",
	"METADATA: split 2",
	"METADATA: merge 2",
	"METADATA: merge 3",
	"METADATA: merge 4",
	"after METADATA",
	"collect: log",
	"collect: sst",
	"after collect",
	"reopening: sst",
	"reopening: lock/tables",
	"after reopening",
};

/* ---- the reports of the processes that die ---- */
static struct seen {
	char name[DURABLE_BYTES];
	const char *over;
} * seen;

static void operation(enum file_op op, const char *path, uint64_t number)
{
	struct seen *s = number < OPERATIONS_MAX ? &seen[number] : NULL;

	if (s && durable_name(s->name, op, path))
		s->over = durable_over();
}

/* ---- names, and the deaths there were ---- */
static struct counted {
	char name[DURABLE_BYTES];
	unsigned kills, cuts;
} names[NAMES_MAX], steps[NAMES_MAX];
static unsigned name_count, step_count, points;
static bool failed;

static struct counted *find(struct counted *v, unsigned *count, const char *name)
{
	unsigned i = 0;

	while (i < *count && strcmp(v[i].name, name) != 0)
		i++;
	if (i == NAMES_MAX)
		exit(2);
	if (i == *count)
		snprintf(v[(*count)++].name, DURABLE_BYTES, "%s", name);
	return &v[i];
}

/* An operation's step is its name without the operation. */
static struct counted *step_of(const char *name)
{
	char text[DURABLE_BYTES];
	const char *colon = strstr(name, ": "), *comma = strchr(name, ',');

	if (!colon || comma)
		snprintf(text, sizeof(text), "%.*s", (int)(comma ? comma - name : (long)strlen(name)), name);
	else /* by its place alone: after the operation's word */
		snprintf(text, sizeof(text), "%.*s: %.*s", (int)(colon - name), name, (int)strcspn(strchr(colon + 2, ' ') + 1, " "),
			strchr(colon + 2, ' ') + 1);
	return find(steps, &step_count, text);
}

static void count(const char *name, bool kill)
{
	struct counted *of[2] = {find(names, &name_count, name), step_of(name)};

	for (unsigned i = 0; i < 2; i++) {
		of[i]->kills += kill;
		of[i]->cuts += !kill;
	}
}

static void die(uint64_t seed, uint64_t at, bool kill, unsigned way)
{
	struct point p = {.seed = seed, .at = at, .kill = kill, .way = way};
	char after[DURABLE_BYTES];

	seen[at] = (struct seen){0};
	points++;
	if (!try_point(&p, points % 32 == 0, true)) {
		printf("# FAILED: crash_durable --seed %llu --at %llu --way %u%s\n", (unsigned long long)seed,
			(unsigned long long)at, way, kill ? " --kill" : "");
		failed = true;
		point_tell(true);
		(void)!try_point(&p, false, false);
		point_tell(false);
	}
	if (*seen[at].name)
		count(seen[at].name, kill);
	if (seen[at].over) {
		snprintf(after, sizeof(after), "after %s", seen[at].over);
		count(after, kill);
	}
}

static unsigned deaths_of(const struct counted *c)
{
	return c->kills + c->cuts;
}

/* One of a name's deaths that is wanting: 1 a kill, 2 a power cut. */
static unsigned wanting(const char *name)
{
	const struct counted *c;

	if (!*name)
		return 0;
	c = find(names, &name_count, name);
	if (!in_share((uint64_t)(c - names)))
		return deaths_of(step_of(name)) ? 0 : 1 + (unsigned)(c - names) % 2;
	return c->cuts < CUTS ? 2 : c->kills ? 0 : 1;
}

static bool history(uint64_t seed)
{
	static struct seen had[OPERATIONS_MAX];
	uint64_t operations;

	memset(seen, 0, sizeof(had));
	if (!prepare(seed)) {
		printf("# seed %llu: the history alone fails\n", (unsigned long long)seed);
		return false;
	}
	memcpy(had, seen, sizeof(had));
	operations = told->operations < OPERATIONS_MAX ? told->operations : OPERATIONS_MAX - 1;
	for (uint64_t at = 1; at <= operations && !failed; at++) {
		char after[DURABLE_BYTES] = "";
		unsigned want;

		if (had[at].over)
			snprintf(after, sizeof(after), "after %s", had[at].over);
		for (unsigned n = 0; n <= CUTS && !failed; n++) {
			want = wanting(had[at].name);
			if (!want)
				want = wanting(after);
			if (!want)
				break;
			die(seed, at, want == 1, n * 2 % 4); /* none of it left; then any part, also torn */
		}
	}
	return !failed;
}

/* ---- cells that were absent ---- */
static unsigned missing(const char *name, bool say)
{
	const struct counted *c = find(steps, &step_count, name);

	if (share_step() > 1 ? deaths_of(c) : c->kills && c->cuts >= CUTS)
		return 0;
	if (say)
		printf("# %s: %u kills and %u power cuts are not enough\n", name, c->kills, c->cuts);
	return 1;
}

static unsigned all_missing(bool say)
{
	char name[DURABLE_BYTES];
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof(required) / sizeof(*required); i++)
		n += missing(required[i], say);
	for (unsigned i = 0; i < sizeof(schema_op_names) / sizeof(*schema_op_names); i++) {
		if (i == TFS_SCHEMA_HIDE || i == TFS_SCHEMA_FAMILY_GC)
			continue; /* not durable; changes the result of reads, as schema texts do */
		snprintf(name, sizeof(name), "%s: lock/tables", schema_op_names[i]);
		n += missing(name, say);
		snprintf(name, sizeof(name), "after %s", schema_op_names[i]);
		n += missing(name, say);
	}
	return n;
}

static bool all_named(void)
{
	bool fine = true;

	for (unsigned i = 0; i < step_count; i++) {
		if (!strstr(steps[i].name, DURABLE_UNKNOWN))
			continue;
		printf("# %s: durable.c has no name for it\n", steps[i].name);
		fine = false;
	}
	return fine;
}

static void tell(const struct counted *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		printf("# %s: %u kills, %u power cuts\n", v[i].name, v[i].kills, v[i].cuts);
}

/* One point, with output. */
static bool single(struct point *p)
{
	bool fine;

	point_tell(true);
	fine = prepare_model(p->seed) && try_point(p, true, false);
	printf("# in %s, at %s; the store is left in %s\n", seen[p->at].name, told->last_op, point_store_dir());
	return fine;
}

int main(int argc, char **argv)
{
	static struct api library;
	static const struct point_watch watch = {&library, durable_call, operation};
	struct point one = {.seed = 1};
	unsigned histories = 0;
	bool all = false, fine = true;

	for (int i = 1; i < argc; i++) {
		uint64_t v = i + 1 < argc ? strtoull(argv[i + 1], NULL, 0) : 0;

		if (strcmp(argv[i], "--all") == 0)
			all = true;
		else if (strcmp(argv[i], "--kill") == 0)
			one.kill = true;
		else if (strcmp(argv[i], "--seed") == 0)
			one.seed = v, i++;
		else if (strcmp(argv[i], "--at") == 0)
			one.at = v, i++;
		else if (strcmp(argv[i], "--way") == 0)
			one.way = (unsigned)v, i++;
		else
			return 2;
	}
	library = durable_api();
	tally = share(sizeof(*tally));
	seen = share(OPERATIONS_MAX * sizeof(*seen));
	if (!point_begin(0))
		return 2;
	point_by_hand();
	point_changes();
	point_watch(&watch);
	if (one.at)
		return !single(&one);
	for (uint64_t seed = one.seed; fine && histories < HISTORIES_MAX && (histories < HISTORIES_LEAST || all_missing(false));
		seed++)
		if (history_is_plain(seed)) {
			fine = history(seed);
			histories++;
		}
	point_end();
	tell(steps, step_count);
	if (all)
		tell(names, name_count);
	fine = all_missing(true) == 0 && all_named() && fine;
	printf("%sok 1 - %u durable steps, %u operations by name, each with a kill and %u power cuts (one in %u of them): %u deaths in %u histories\n1..1\n",
		fine ? "" : "not ", step_count, name_count, CUTS, (unsigned)share_step(), points, histories);
	return !fine;
}
