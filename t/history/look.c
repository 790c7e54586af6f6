/* SPDX-License-Identifier: Apache-2.0 */
/* Scans of every kind and point reads, and what they saw as text. */
#include "engine/base/scan.h"
#include "t/history/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The clock stands still within a step, where each commit of the library is a microsecond later than the previous commit. */
#define COMMIT_MS(x) (history_set_back ? 0 : (long long)((x).commit_us / 1000))

#define ONE(...) +1
_Static_assert(SCAN_MEMBERS(ONE) == 31, "step_scan() and pick_filters() have a value for each member of tfs_scan_spec");
#undef ONE

void say_scan(struct side *s, struct tfs_table *t, const struct tfs_scan_spec *spec, struct out *o)
{
	struct tfs_scan *sc;
	struct tfs_cell c;
	int err = s->api->scan_new(t, spec, &sc);

	if (err) {
		say(o, "  scan: %s\n", strerror(-err));
		return;
	}
	while ((err = s->api->scan_next(sc, &c)) > 0) {
		say(o, "  ");
		say_bytes(o, c.row);
		if (spec->what == TFS_SCAN_ROWS) {
			say(o, "\n");
			continue;
		}
		say(o, " %s(%u)", c.family, c.family_id);
		if (spec->what == TFS_SCAN_FAMILIES) {
			say(o, "\n");
			continue;
		}
		say(o, ":");
		say_bytes(o, c.qualifier);
		say(o, " @%lld expires %lld committed %lld size %llu ", (long long)c.ts, (long long)c.expires_us, COMMIT_MS(c),
			(unsigned long long)c.size);
		say_bytes(o, c.value);
		say(o, "\n");
	}
	if (err)
		say(o, "  scan ends: %s\n", strerror(-err));
	s->api->scan_free(sc);
}

void say_row(struct side *s, struct tfs_table *t, struct tfs_bytes row, struct out *o)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = row, .one_row = true};

	say_scan(s, t, &spec, o);
}

/* A pattern that matches keys like this key: its beginning, its end or all of it. */
static struct tfs_bytes pick_pattern(struct rng *r, struct tfs_bytes like, char *out, size_t size)
{
	const char *p = (const char *)like.p;
	size_t n = 0, from = like.n ? below(r, like.n) : 0, to = from + below(r, 4);

	if (from && one_in(r, 2))
		from = 0;
	if (from) {
		out[n++] = '.';
		out[n++] = '*';
	}
	for (size_t i = from; i < like.n && i < to + 1 && n + 4 < size; i++) {
		if (one_in(r, 4)) {
			out[n++] = '.';
			continue;
		}
		if (p[i] && strchr("\\^$.[|()?*+{", p[i]))
			out[n++] = '\\';
		out[n++] = p[i];
	}
	if (one_in(r, 2)) {
		out[n++] = '.';
		out[n++] = '*';
	}
	return tfs_bytes_of(out, n);
}

/* A column, with an operator and a value or without, that is seldom valid only in its use of quotes. */
static void add_column(struct out *o, struct rng *r, unsigned flags)
{
	static const char *const operators[] = {"=", "!=", "<", "<=", ">", ">="};
	static const char *const numbers[] = {"0", "-1", "+007", "12.50", "-0.0", "9999999999999999999999", "1e5", "5"};
	const struct tfs_bytes qualifier = pick_qualifier(r, flags), value = pick_value(r, flags);

	say(o, "%s:\"", pick_family(r));
	for (size_t i = 0; i < qualifier.n; i++)
		say(o, qualifier.p[i] == '"' ? "\"\"" : "%c", qualifier.p[i]);
	say(o, "\"");
	if (one_in(r, 4))
		return;
	say(o, "%s", operators[below(r, 6)]);
	if (one_in(r, 3)) {
		say(o, "%s", numbers[below(r, 8)]);
		return;
	}
	say(o, "\"");
	for (size_t i = 0; i < value.n && i < 100; i++)
		say(o, value.p[i] == '"' ? "\"\"" : "%c", value.p[i]);
	say(o, "\"");
}

static void pick_where(struct tfs_scan_spec *spec, struct rng *r, unsigned flags)
{
	static struct out text;
	const unsigned columns = 1 + (unsigned)below(r, 4);
	unsigned open = 0;

	out_free(&text);
	for (unsigned i = 0; i < columns; i++) {
		if (i)
			say(&text, one_in(r, 2) ? " and " : " or ");
		if (one_in(r, 4))
			say(&text, "not ");
		if (one_in(r, 4) && ++open)
			say(&text, "(");
		add_column(&text, r, flags);
		if (open && one_in(r, 2) && open--)
			say(&text, ")");
	}
	for (; open; open--)
		say(&text, one_in(r, 20) ? " " : ")");
	spec->row_where = tfs_bytes_of(text.p, text.n);
}

static void pick_filters(struct tfs_scan_spec *spec, struct rng *r, unsigned flags)
{
	static char row[64], qualifier[64], value[64], script[32];

	if (one_in(r, 16)) {
		/* The one expression that the model knows. */
		snprintf(script, sizeof(script), "#r.key > %u", (unsigned)below(r, 20));
		spec->row_script = tfs_str(script);
	}
	if (one_in(r, 4))
		pick_where(spec, r, flags);
	if (one_in(r, 6))
		spec->row_sample = 1 + (uint32_t)below(r, 1000000);
	if (one_in(r, 3))
		spec->row_regex = pick_pattern(r, pick_row(r, flags), row, sizeof(row));
	if (one_in(r, 3))
		spec->qualifier_regex = pick_pattern(r, pick_qualifier(r, flags), qualifier, sizeof(qualifier));
	if (one_in(r, 3))
		spec->value_regex = pick_pattern(r, pick_value(r, flags), value, sizeof(value));
	else if (one_in(r, 3))
		spec->value_is = pick_value(r, flags);
	if (one_in(r, 4)) {
		/* On a millisecond of the clock: the times of commit of one step differ only below it. */
		spec->changed_since = history_clock - 1000 * (int64_t)below(r, 1ull << below(r, 24));
		spec->has_changed = !history_set_back;
	}
	if (one_in(r, 4))
		spec->column_limit = 1 + (uint32_t)below(r, 3);
	if (one_in(r, 4))
		spec->row_limit = 1 + below(r, 4);
	if (!spec->after_cell && one_in(r, 3))
		spec->qualifier_from_after = true;
	spec->reverse = one_in(r, 2);
}

int step_scan(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o)
{
	static const char *const kinds[] = {"cells", "keys", "rows", "families"};
	const char *families[3];
	struct tfs_key keys[4];
	struct tfs_scan_spec spec = {.what = (enum tfs_scan_what)below(r, 4)};

	if (one_in(r, 3)) {
		spec.row_from = pick_row(r, flags);
		spec.row_from_after = one_in(r, 2);
		spec.one_row = one_in(r, 2);
	}
	if (one_in(r, 3))
		spec.row_to = pick_row(r, flags);
	if (one_in(r, 5))
		spec.stored_from = pick_row(r, flags);
	if (one_in(r, 5))
		spec.stored_to = pick_row(r, flags);
	if (one_in(r, 3)) {
		spec.family_count = 1 + (unsigned)below(r, 3);
		for (unsigned i = 0; i < spec.family_count; i++)
			families[i] = pick_family(r);
		spec.families = families;
	}
	if (one_in(r, 3))
		spec.qualifier_from = pick_qualifier(r, flags);
	if (one_in(r, 3))
		spec.qualifier_to = pick_qualifier(r, flags);
	if (one_in(r, 4)) {
		spec.after_cell = true;
		spec.after_ts = pick_time(r);
		spec.row_from = pick_row(r, flags);
		spec.row_from_after = false;
		spec.one_row = true;
		if (spec.family_count != 1) {
			spec.family_count = 1;
			families[0] = pick_family(r);
			spec.families = families;
		}
	}
	if (one_in(r, 3)) {
		spec.has_times = true;
		spec.since = pick_time(r);
		spec.until = pick_time(r);
	}
	if (one_in(r, 2))
		spec.versions = (uint32_t)below(r, 4);
	if (one_in(r, 4))
		spec.limit = 1 + below(r, 10);
	if (one_in(r, 4)) {
		spec.keys = keys;
		spec.key_count = (unsigned)below(r, 5);
		for (unsigned i = 0; i < spec.key_count; i++) {
			keys[i] = (struct tfs_key){pick_row(r, flags), one_in(r, 2)};
			if (keys[i].is_prefix && keys[i].key.n)
				keys[i].key.n = below(r, keys[i].key.n);
		}
	}
	if (one_in(r, 2))
		spec.batch_bytes = 1 + below(r, 3000);
	if (one_in(r, 2))
		pick_filters(&spec, r, flags);
	say(o, "scan %s [", kinds[spec.what]);
	say_bytes(o, spec.row_from);
	say(o, "%s ", spec.row_from_after ? " after" : "");
	say_bytes(o, spec.row_to);
	say(o, ")%s stored [", spec.one_row ? " one row" : "");
	say_bytes(o, spec.stored_from);
	say(o, " ");
	say_bytes(o, spec.stored_to);
	say(o, ")");
	if (spec.keys)
		say(o, " keys");
	for (unsigned i = 0; i < spec.key_count; i++) {
		say(o, keys[i].is_prefix ? " prefix " : " ");
		say_bytes(o, keys[i].key);
	}
	for (unsigned i = 0; i < spec.family_count; i++)
		say(o, " %s", families[i]);
	say(o, " [");
	say_bytes(o, spec.qualifier_from);
	say(o, " ");
	say_bytes(o, spec.qualifier_to);
	say(o, ")");
	if (spec.row_regex.p || spec.qualifier_regex.p || spec.value_regex.p || spec.value_is.p) {
		const struct tfs_bytes filters[] = {spec.row_regex, spec.qualifier_regex, spec.value_regex, spec.value_is};

		say(o, " filters");
		for (unsigned i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
			say(o, " ");
			say_bytes(o, filters[i]);
		}
	}
	if (spec.row_script.p) {
		say(o, " lua ");
		say_bytes(o, spec.row_script);
	}
	if (spec.row_sample)
		say(o, " sample %u", spec.row_sample);
	if (spec.row_where.p) {
		say(o, " where ");
		say_bytes(o, spec.row_where);
	}
	if (spec.has_changed)
		say(o, " changed %lld", (long long)spec.changed_since);
	say(o, "%s%s rows %llu columns %u", spec.reverse ? " reverse" : "", spec.qualifier_from_after ? " qualifier after" : "",
		(unsigned long long)spec.row_limit, spec.column_limit);
	if (spec.after_cell)
		say(o, " after %lld", (long long)spec.after_ts);
	if (spec.has_times)
		say(o, " times %lld %lld", (long long)spec.since, (long long)spec.until);
	say(o, " versions %u limit %llu batch %zu\n", spec.versions, (unsigned long long)spec.limit, spec.batch_bytes);
	say_scan(s, t, &spec, o);
	return 0;
}

int step_point(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o)
{
	unsigned n = 1 + (unsigned)below(r, 8);

	for (unsigned i = 0; i < n; i++) {
		struct tfs_bytes row = pick_row(r, flags), qualifier = pick_qualifier(r, flags);
		const char *family = pick_family(r);
		struct tfs_ts ts = tfs_at(pick_time(r));
		struct tfs_info info = {0};
		bool exists = false;
		int err;

		if (one_in(r, 2))
			ts.when = TFS_NEWEST;
		say(o, "look ");
		say_bytes(o, row);
		say(o, " %s:", family);
		say_bytes(o, qualifier);
		say(o, " %s %lld: ", ts.when == TFS_AT ? "at" : "newest", (long long)ts.us);
		if (one_in(r, 4)) {
			bool whole = one_in(r, 2);

			err = s->api->row_exists(t, row, whole ? NULL : family, &exists);
			say(o, "exists %s: %s %d\n", whole ? "row" : "family", strerror(-err), exists);
		} else if (one_in(r, 3)) {
			err = s->api->stat(t, row, family, qualifier, ts, &info);
			say(o, "stat %s %lld %llu %lld %lld\n", strerror(-err), (long long)info.ts, (unsigned long long)info.size,
				(long long)info.expires_us, COMMIT_MS(info));
		} else {
			uint64_t offset = one_in(r, 3) ? 0 : below(r, one_in(r, 3) ? 1 << 20 : 50);
			size_t want = below(r, one_in(r, 4) ? 600000 : 100), got = 0;
			char *p = malloc(want + 1);

			if (!p)
				abort();
			err = s->api->read(t, row, family, qualifier, ts, offset, p, want, &got, one_in(r, 2) ? &info : NULL);
			say(o, "read %llu+%zu %s %zu ", (unsigned long long)offset, want, strerror(-err), got);
			say_bytes(o, tfs_bytes_of(p, err ? 0 : got));
			say(o, " %lld %llu %lld %lld\n", (long long)info.ts, (unsigned long long)info.size,
				(long long)info.expires_us, COMMIT_MS(info));
			free(p);
		}
	}
	return 0;
}

/* A table that had cells before it kept changes, such as a clone, begins with its first reader or writer: it is ESTALE here. */
#define SINCE_EVER 2

void side_changes(struct side *s, struct out *o)
{
	for (unsigned k = 0; k < TABLES; k++) {
		struct tfs_feed_change c;
		struct tfs_feed *f;
		int r = s->table[k] ? tfs_feed_open(s->table[k], NULL, SINCE_EVER, &f) : -ENOENT;

		say(o, "changes of %s: %s\n", table_names[k], strerror(-r));
		if (r)
			continue;
		while ((r = tfs_feed_next(f, &c)) > 0) {
			say(o, "  %d ", (int)c.kind);
			say_bytes(o, c.row);
			say(o, " %s:", c.family ? c.family : "");
			say_bytes(o, c.qualifier);
			say(o, " @%lld ", (long long)c.ts);
			say_bytes(o, c.value);
			say(o, "\n");
		}
		if (r)
			say(o, "  the changes end: %s\n", strerror(-r));
		tfs_feed_free(f);
	}
}
