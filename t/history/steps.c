/* SPDX-License-Identifier: Apache-2.0 */
/* What a step is, from its seed and number, and running it on one side. */
#include "t/history/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *const step_kind_names[STEP_KINDS] = {
	"mutation",
	"scan",
	"point read",
	"table",
	"schema edit",
	"schema text",
	"flush",
	"compact",
	"sync",
	"reopening",
	"merging compaction",
	"look",
	"split",
	"merge",
	"collect",
	"METADATA",
	"snapshot",
};

struct choice {
	struct rng r;
	enum step_kind kind;
	unsigned table;
	bool sync;
	int64_t clock;
};

static struct choice choose(const struct step *st)
{
	struct choice c = {.r = {st->seed * 0x2545f4914f6cdd1du + st->number}};
	uint64_t n;

	for (unsigned i = 0; i < 3; i++)
		rnd(&c.r);
	n = below(&c.r, 200);
	if ((st->flags & STEP_CHANGES) && n < 80)
		n = n < 64 ? 184 + n % 16 : 170 + n % 4 / 2 * 9;
	c.kind = n < 118  ? STEP_MUTATE
		: n < 138 ? STEP_SCAN
		: n < 156 ? STEP_POINT
		: n < 164 ? STEP_FLUSH
		: n < 168 ? STEP_COMPACT
		: n < 170 ? STEP_SYNCS
		: n < 172 ? STEP_COLLECT
		: n < 176 ? STEP_REOPEN
		: n < 179 ? STEP_MERGE
		: n < 180 ? STEP_METADATA
		: n < 184 ? STEP_ALL
		: n < 191 ? STEP_EDIT
		: n < 195 ? STEP_RULES
			  : STEP_TABLE;
	if ((c.kind == STEP_TABLE && !(st->flags & STEP_TABLES)) ||
		((c.kind == STEP_EDIT || c.kind == STEP_RULES) && !(st->flags & STEP_SCHEMA)))
		c.kind = STEP_MUTATE;
	if (c.kind == STEP_MUTATE && (st->flags & STEP_TABLETS) && one_in(&c.r, st->flags & STEP_CHANGES ? 3 : 12))
		c.kind = one_in(&c.r, 3) && !(st->flags & STEP_LONG) ? STEP_JOIN : STEP_SPLIT; /* long rows: see BORDER_MOST */
	if ((st->flags & STEP_SNAPSHOTS) && (c.kind == STEP_MUTATE || c.kind == STEP_TABLE) &&
		one_in(&c.r, st->flags & STEP_CHANGES ? 3 : 8))
		c.kind = STEP_SNAPSHOT;
	/* Most of it in one table, so that things meet. */
	c.table = one_in(&c.r, 4) ? (unsigned)below(&c.r, TABLES) : 0;
	c.sync = one_in(&c.r, 6) && (st->flags & STEP_SYNC) && c.kind == STEP_MUTATE;
	n = below(&c.r, 100);
	/* More than the unique times that a step can draw; now and then far. */
	c.clock = 1000 *
		(int64_t)(1 +
			(n < 80                  ? below(&c.r, 5)
					: n < 95 ? below(&c.r, 1000)
					: n < 99 ? below(&c.r, 600000)
						 : 7200000));
	return c;
}

enum step_kind step_kind(const struct step *st)
{
	return choose(st).kind;
}

bool step_is_sync(const struct step *st)
{
	return choose(st).sync;
}

int64_t step_clock(const struct step *st)
{
	return choose(st).clock;
}

static int step_all(struct side *s, struct tfs_table *t, struct out *o)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	bool empty = false;
	int err = s->api->table_empty(t, &empty);

	say(o, "all: empty %s %d\n", strerror(-err), empty);
	for (int k = 0; k < 4; k++) {
		spec.what = (enum tfs_scan_what)k;
		say_scan(s, t, &spec, o);
	}
	return 0;
}

static int look_at_tablet(void *arg, const struct tfs_tablet *tablet)
{
	struct out *o = arg;

	say(o, "tablet ");
	say_bytes(o, tablet->begin.n ? tablet->begin : TFS_S(""));
	if (tablet->end.p) {
		say(o, " ");
		say_bytes(o, tablet->end);
	}
	say(o, "\n");
	return tablet->state ? 0 : -EINVAL;
}

#define BORDER_MOST 20000 /* longer ones, several to a tablet, make a METADATA row that is too long to merge */
/* A row, or one as a salted table stores it. */
static struct tfs_bytes pick_border(struct rng *r, unsigned flags)
{
	static char key[TFS_ROW_MAX + 100];
	struct tfs_bytes row = pick_row(r, flags);

	if (row.n > BORDER_MOST && row.n <= TFS_ROW_MAX)
		row.n = BORDER_MOST;
	if (!(flags & STEP_SALTED) || one_in(r, 8))
		return row;
	key[0] = (char)below(r, 4);
	if (one_in(r, 4))
		row.n = 0; /* where a range begins */
	if (row.n)
		memcpy(key + 1, row.p, row.n);
	return tfs_bytes_of(key, row.n + 1);
}

int step_run(struct side *s, const struct step *st, struct out *o)
{
	struct choice c = choose(st);
	struct tfs_table *t = s->table[c.table];
	struct tfs_bytes row;
	struct tfs_usage usage;
	int err;

	say(o, "step %llu %s ", (unsigned long long)st->number, table_names[c.table]);
	if (c.kind == STEP_TABLE)
		return step_table(s, &c.r, st->flags, o);
	if (c.kind == STEP_SYNCS) {
		err = s->api->sync(s->store);
		say(o, "sync: %s\n", strerror(-err));
		return err;
	}
	if (!t) {
		say(o, "no such table\n");
		return -ENOENT;
	}
	switch (c.kind) {
	case STEP_MUTATE:
		err = step_mutate(s, t, &c.r, st->flags, c.sync, o, &row);
		say_row(s, t, row, o);
		return err;
	case STEP_SCAN:
		return step_scan(s, t, &c.r, st->flags, o);
	case STEP_POINT:
		return step_point(s, t, &c.r, st->flags, o);
	case STEP_EDIT:
		return step_edit(s, t, &c.r, st->flags, o);
	case STEP_RULES:
		return step_rules(s, t, &c.r, st->flags, o);
	case STEP_SNAPSHOT:
		return step_snapshot(s, t, &c.r, st->flags, o);
	case STEP_FLUSH:
		err = s->api->flush(t);
		say(o, "flush: %s\n", strerror(-err));
		return err;
	case STEP_COMPACT:
		err = s->api->compact(t);
		say(o, "compact: %s\n", strerror(-err));
		return err;
	case STEP_SPLIT:
	case STEP_JOIN:
		row = pick_border(&c.r, st->flags);
		err = (c.kind == STEP_SPLIT ? s->api->split : s->api->merge)(t, row);
		say(o, "%s ", c.kind == STEP_SPLIT ? "split" : "join");
		say_bytes(o, row);
		say(o, ": %s\n", strerror(-err));
		return err;
	case STEP_ALL:
		err = s->api->usage(t, NULL, &usage);
		if (!err)
			err = s->api->tablets(t, look_at_tablet, o);
		say(o, "usage: %s\n", strerror(-err));
		return err ? err : step_all(s, t, o);
	case STEP_TABLE:
	case STEP_SYNCS:
	case STEP_REOPEN:
	case STEP_MERGE:
	case STEP_COLLECT:
	case STEP_METADATA:
		break;
	}
	say(o, "\n");
	return 0;
}

void side_open_tables(struct side *s)
{
	for (unsigned k = 0; k < TABLES; k++)
		if (s->api->table_open(s->store, table_names[k], &s->table[k]))
			s->table[k] = NULL;
}

void side_close_tables(struct side *s)
{
	for (unsigned k = 0; k < TABLES; k++) {
		if (s->table[k])
			s->api->table_close(s->table[k]);
		s->table[k] = NULL;
	}
}

int side_setup_part(struct side *s, unsigned flags, unsigned part, struct out *o)
{
	static const char text[] =
		"families = ( { name = \"a\"; gc = \"maxversions=2\"; }, { name = \"anchor\"; group = \"g1\"; },\n"
		" { name = \"b\"; gc = \"maxage=1h or maxversions=3\"; group = \"g1\"; }, { name = \"contents\"; },\n"
		" { name = \"n\"; type = \"counter\"; } );\n"
		"groups = ( { name = \"g1\"; compression = \"lz4\"; block_size = \"4K\"; } );\n";
	static const char plain[] =
		"families = ( { name = \"a\"; gc = \"maxversions=2\"; }, { name = \"anchor\"; group = \"g1\"; },\n"
		" { name = \"b\"; group = \"g1\"; }, { name = \"contents\"; }, { name = \"n\"; type = \"counter\"; } );\n"
		"groups = ( { name = \"g1\"; compression = \"lz4\"; block_size = \"4K\"; } );\n";
	const char *families = flags & STEP_AGES ? text : plain;
	char schema[sizeof(text) + sizeof(KEEPS_CHANGES) + 20];

	unsigned k = part / 2;
	int err;

	snprintf(schema, sizeof(schema), "%s%s%s", flags & STEP_KEEPS ? KEEPS_CHANGES : "",
		k == 0 && flags & STEP_SALTED ? "salt = 3;\n" : "", families);
	if (part % 2 == 0) {
		err = s->api->table_create(s->store, table_names[k], 0, 0, 0755);
		if (!err)
			err = s->api->table_open(s->store, table_names[k], &s->table[k]);
	} else {
		err = s->table[k] ? s->api->schema_set_text(s->table[k], tfs_str(schema), TFS_NO_TIME, NULL) : -ENOENT;
	}
	say(o, "setup %s: %s\n", table_names[k], strerror(-err));
	return err;
}

void side_dump(struct side *s, struct out *o)
{
	char names[TABLES + 2][TFS_NAME_MAX + 1];
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	int n = s->api->table_list(s->store, "", names, TABLES + 2);

	say(o, "%d tables\n", n);
	for (int i = 0; i < n; i++) {
		struct tfs_table *t;
		int err = s->api->table_open(s->store, names[i], &t);

		say(o, "table %s: %s\n", names[i], strerror(-err));
		if (err)
			continue;
		say_schema(s, t, true, o);
		(void)!s->api->tablets(t, look_at_tablet, o);
		say_scan(s, t, &spec, o);
		say_snapshots(s, t, o);
		s->api->table_close(t);
	}
}

bool side_expires_within(struct side *s, int64_t from, int64_t to)
{
	bool found = false;

	for (unsigned k = 0; k < TABLES; k++) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS};
		struct tfs_scan *sc;
		struct tfs_cell c;

		if (!s->table[k] || s->api->scan_new(s->table[k], &spec, &sc))
			continue;
		while (s->api->scan_next(sc, &c) > 0)
			found |= c.expires_us >= from && c.expires_us < to;
		s->api->scan_free(sc);
	}
	return found;
}
