/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random mutations: few rows, families, qualifiers and timestamps, so that
 * they meet; every kind of operation; keys in which the key encoding's own
 * bytes (00, 01, FF) stand; values from nothing to several chunks.
 */
#include "t/history/keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

const char *const family_names[FAMILIES] = {"a", "anchor", "b", "contents", "n"};
static unsigned char long_key[TFS_ROW_MAX + 1];
static unsigned char *values;
#define VALUES_BYTES (2u << 20)

static void make_bytes(void)
{
	struct rng r = {7};

	for (size_t i = 0; i < sizeof(long_key); i++)
		long_key[i] = (unsigned char)(i % 251 == 0 ? 0 : i % 251 == 1 ? 0xff : 'k');
	values = malloc(VALUES_BYTES);
	if (!values)
		abort();
	/* Half text, half noise, in turn: some blocks compress and some do not. */
	for (size_t i = 0; i < VALUES_BYTES; i++)
		values[i] = i & 4096 ? (unsigned char)rnd(&r) : (unsigned char)("the quick brown fox "[i % 20] + (i >> 16));
}

static pthread_once_t made = PTHREAD_ONCE_INIT;

#define B(s)                                                                                                                       \
	{                                                                                                                          \
		(const uint8_t *)(s), sizeof(s) - 1                                                                                \
	}

struct tfs_bytes pick_row(struct rng *r, unsigned flags)
{
	static const struct tfs_bytes rows[] = {
		B("a"),
		B("a\0"),
		B("a\0\xff"),
		B("a\0\x01"),
		B("ab"),
		B("\xff\xff"),
		B("\0"),
		B("com.cnn.www"),
	};
	unsigned n = sizeof(rows) / sizeof(*rows);

	pthread_once(&made, make_bytes);
	if (one_in(r, 40))
		return tfs_bytes_of(long_key, 300);
	if ((flags & STEP_LONG) && one_in(r, 100))
		return tfs_bytes_of(long_key, TFS_ROW_MAX);
	if (one_in(r, 200))
		return one_in(r, 2) ? tfs_bytes_of("", 0) : tfs_bytes_of(long_key, TFS_ROW_MAX + 1);
	/* The first few more often, here as below. */
	return rows[below(r, one_in(r, 3) ? n : 3)];
}

struct tfs_bytes pick_qualifier(struct rng *r, unsigned flags)
{
	static const struct tfs_bytes qualifiers[] = {B(""), B("q"), B("q\0"), B("q\0\xff"), B("\xff"), B("\0\x01"), B("q@1")};

	pthread_once(&made, make_bytes);
	if ((flags & STEP_LONG) && one_in(r, 60))
		return tfs_bytes_of(long_key, TFS_QUALIFIER_MAX);
	if (one_in(r, 200))
		return tfs_bytes_of(long_key, TFS_QUALIFIER_MAX + 1);
	return qualifiers[below(r, !one_in(r, 4) ? 2 : sizeof(qualifiers) / sizeof(*qualifiers))];
}

const char *pick_family(struct rng *r)
{
	if (one_in(r, 60))
		return "nosuch";
	return family_names[below(r, !one_in(r, 3) ? 2 : FAMILIES)];
}

int64_t pick_time(struct rng *r)
{
	static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};

	if (one_in(r, 25))
		return ends[below(r, sizeof(ends) / sizeof(*ends))];
	return CLOCK_BASE + (int64_t)below(r, 6);
}

/* Counters, and texts that are almost counters. */
static const char *const numbers[] = {
	"7\n", "-3", " 12 ", "+3\n", "9223372036854775807\n", "9223372036854775808", "-9223372036854775808\n", "1 2", "-", "\n"};

struct tfs_bytes pick_value(struct rng *r, unsigned flags)
{
	size_t n, at;

	pthread_once(&made, make_bytes);
	switch (below(r, 24)) {
	case 0:
		n = 0;
		break;
	case 1:
	case 2:
	case 3:
	case 4:
	case 5:
		n = below(r, 4000);
		break;
	case 6:
		return tfs_str(numbers[below(r, sizeof(numbers) / sizeof(*numbers))]);
	case 7:
		/* Around the chunk's limit, and several chunks. */
		if (flags & STEP_BIG)
			n = one_in(r, 3) ? below(r, 1 << 20) : (size_t)TFS_INLINE_MAX * (1 + below(r, 3)) + below(r, 5) - 2;
		else
			n = below(r, 9000);
		break;
	default:
		n = below(r, 40);
	}
	at = below(r, VALUES_BYTES - n);
	return tfs_bytes_of(values + at, n);
}

static struct tfs_ts pick_place(struct rng *r, unsigned flags)
{
	struct tfs_ts t = tfs_at(pick_time(r));

	if (one_in(r, 2))
		return t;
	t.when = TFS_NEWEST;
	if ((flags & STEP_AUTO) && !one_in(r, 3))
		t.us = TFS_NO_TIME;
	else if (t.us == TFS_NO_TIME)
		t.us = 5;
	return t;
}

static struct tfs_ts pick_which(struct rng *r)
{
	struct tfs_ts t = tfs_at(pick_time(r));

	if (one_in(r, 2))
		t.when = TFS_NEWEST;
	return t;
}

#define OPS_MAX 6
struct room {
	struct tfs_write write[OPS_MAX];
	struct tfs_range range[OPS_MAX][3];
};

static const char *const base_names[] = {"empty", "newest", "version"};
static const char *const check_names[] = {"exists", "absent", "newest_is", "value", "match"};

static void say_ts(struct out *o, struct tfs_ts t)
{
	if (t.when == TFS_AT)
		say(o, "@%lld", (long long)t.us);
	else if (t.us == TFS_NO_TIME)
		say(o, "newest");
	else
		say(o, "newest>=%lld", (long long)t.us);
}

static int add_write(const struct api *api, struct tfs_mutation *m, struct rng *r, unsigned flags, const char *family,
	struct tfs_bytes qualifier, struct room *room, unsigned i, struct out *o)
{
	struct tfs_write *w = &room->write[i];
	unsigned n = (unsigned)below(r, 4);

	*w = (struct tfs_write){.family = family, .qualifier = qualifier, .truncate_to = UINT64_MAX, .ranges = room->range[i]};
	w->base = one_in(r, 5) ? TFS_BASE_VERSION : (enum tfs_base)below(r, 2);
	w->base_ts = pick_time(r);
	if (one_in(r, 3))
		w->truncate_to = below(r, one_in(r, 3) ? 20000 : 60);
	for (unsigned k = 0; k < n; k++) {
		room->range[i][k].offset = below(r, (flags & STEP_BIG) && one_in(r, 8) ? 300000 : 100);
		room->range[i][k].data = pick_value(r, flags & ~(unsigned)STEP_BIG);
	}
	w->range_count = n;
	if (one_in(r, 2))
		w->append = pick_value(r, flags & ~(unsigned)STEP_BIG);
	if (one_in(r, 400))
		w->truncate_to = TFS_VALUE_MAX + 1;
	w->place = pick_place(r, flags);
	w->replace = one_in(r, 3);
	w->replace_ts = pick_time(r);
	w->drop_newer = one_in(r, 4);
	say(o, "write base %s %lld truncate %lld", base_names[w->base], (long long)w->base_ts, (long long)w->truncate_to);
	for (unsigned k = 0; k < n; k++) {
		say(o, " [%llu ", (unsigned long long)w->ranges[k].offset);
		say_bytes(o, w->ranges[k].data);
		say(o, "]");
	}
	if (w->append.p) {
		say(o, " append ");
		say_bytes(o, w->append);
	}
	say(o, " place ");
	say_ts(o, w->place);
	if (w->replace)
		say(o, " replace %lld", (long long)w->replace_ts);
	if (w->drop_newer)
		say(o, " drop_newer");
	return api->mutation_write(m, w);
}

/* A check that the family is as it is now or, if `empty`, that it has no cell in the row. */
static int add_check_family(
	const struct api *api, struct tfs_mutation *m, struct tfs_table *t, struct tfs_bytes row, const char *family, bool empty)
{
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_KEYS, .row_from = row, .one_row = true, .families = &family, .family_count = 1};
	struct tfs_scan *scan;
	struct tfs_cell c;
	uint64_t sum = 0;

	if (!empty && api->scan_new(t, &spec, &scan) == 0) {
		while (api->scan_next(scan, &c) > 0)
			sum += api->fingerprint(&c);
		api->scan_free(scan);
	}
	return api->mutation_check_family(m, family, sum);
}

/* One operation, added and said. */
static int add_op(const struct api *api, struct tfs_mutation *m, struct tfs_table *t, struct tfs_bytes row, struct rng *r,
	unsigned flags, struct room *room, unsigned i, bool surely, struct out *o)
{
	const char *family = pick_family(r), *to_family;
	struct tfs_bytes qualifier = pick_qualifier(r, flags), to_qualifier, value;
	struct tfs_ts ts, to;
	int64_t us;
	bool noreplace;
	unsigned kind = (unsigned)below(r, surely ? 19 : 43); /* with `surely`, no operation that fails on an absent cell */
	int err;

	say(o, "  op ");
	if (kind != 18) {
		say(o, "%s:", family);
		say_bytes(o, qualifier);
		say(o, " ");
	}
	switch (kind) {
	default: /* the most */
		value = pick_value(r, flags);
		ts = pick_place(r, flags);
		say(o, "put ");
		say_ts(o, ts);
		say(o, " ");
		say_bytes(o, value);
		err = api->mutation_put(m, family, qualifier, ts, value);
		break;
	case 9:
	case 10:
	case 11:
	case 12:
	case 13:
	case 14:
		err = add_write(api, m, r, flags, family, qualifier, room, i, o);
		break;
	case 15:
	case 16:
		us = pick_time(r);
		say(o, "delete_version %lld", (long long)us);
		err = api->mutation_delete_version(m, family, qualifier, us);
		break;
	case 17:
		say(o, "delete_column");
		err = api->mutation_delete_column(m, family, qualifier);
		break;
	case 18:
		if (!one_in(r, 3)) {
			say(o, "%s: delete_family", family);
			err = api->mutation_delete_family(m, family);
		} else {
			say(o, "delete_row");
			err = api->mutation_delete_row(m);
		}
		break;
	case 19:
	case 20:
	case 21:
		us = pick_time(r);
		say(o, "set_time %lld", (long long)us);
		err = api->mutation_set_time(m, family, qualifier, us);
		break;
	case 22:
	case 23:
	case 24:
	case 25:
	case 26:
		ts = pick_which(r);
		to = pick_which(r);
		to_family = pick_family(r);
		to_qualifier = pick_qualifier(r, flags);
		noreplace = one_in(r, 4);
		say(o, "move ");
		say_ts(o, ts);
		say(o, " to %s:", to_family);
		say_bytes(o, to_qualifier);
		say(o, " ");
		say_ts(o, to);
		if (noreplace)
			say(o, " noreplace");
		err = api->mutation_move(m, family, qualifier, ts, to_family, to_qualifier, to, noreplace);
		break;
	case 27:
	case 28:
		if (flags & STEP_AUTO) {
			us = one_in(r, 10) ? (one_in(r, 2) ? INT64_MAX : INT64_MIN) : (int64_t)below(r, 100) - 50;
			say(o, "increment %lld", (long long)us);
			err = api->mutation_increment(m, family, qualifier, us);
		} else {
			say(o, "delete_column");
			err = api->mutation_delete_column(m, family, qualifier);
		}
		break;
	case 29: {
		enum tfs_check check = (enum tfs_check)below(r, 5);
		static const char *const patterns[] = {"", ".*", ".", "7.*", "..*"};

		ts = pick_which(r);
		value = pick_value(r, flags);
		if (one_in(r, 2))
			value.n = 0;
		if (check == TFS_CHECK_MATCH)
			value = tfs_str(patterns[below(r, sizeof(patterns) / sizeof(*patterns))]);
		say(o, "check %s ", check_names[check]);
		say_ts(o, ts);
		err = api->mutation_check(m, check, family, qualifier, ts, value);
		break;
	}
	case 30:
		say(o, "check_family");
		err = add_check_family(api, m, t, row, family, one_in(r, 3));
		break;
	}
	say(o, "%s\n", err ? " (not added)" : "");
	return err;
}

static unsigned op_count(struct rng *r)
{
	return one_in(r, 30) ? 0 : !one_in(r, 3) ? 1 : 1 + (unsigned)below(r, OPS_MAX);
}

static bool is_readonly(struct side *s, struct tfs_table *t)
{
	const struct tfs_schema *c;
	bool readonly;

	if (s->api->schema_get(t, &c))
		return false;
	readonly = c->readonly;
	s->api->schema_put(c);
	return readonly;
}

int step_mutate(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, bool sync, struct out *o, struct tfs_bytes *row)
{
	struct tfs_result results[OPS_MAX];
	struct room room;
	struct tfs_mutation *m;
	unsigned n;
	bool surely;
	int err = 0;

	*row = pick_row(r, flags);
	n = op_count(r);
	surely = n > 1 && !one_in(r, 3);
	say(o, "mutate ");
	say_bytes(o, *row);
	say(o, "%s\n", sync ? " sync" : "");
	m = s->api->mutation_new(t, *row);
	if (!m)
		return -ENOMEM;
	for (unsigned i = 0; i < n && !err; i++)
		err = add_op(s->api, m, t, *row, r, flags, &room, i, surely, o);
	memset(results, 0, sizeof(results));
	if (!err)
		err = s->api->apply(m, sync ? TFS_APPLY_SYNC : 0, results);
	if (err == -EFBIG && n > 1)
		err = -EINVAL; /* which wrong argument is named first is open */
	if ((err == -EINVAL || err == -EFBIG || !n) && is_readonly(s, t))
		err = -EROFS; /* so is if the table is named before the arguments */
	say(o, "  = %s\n", err ? strerror(-err) : "done");
	for (unsigned i = 0; i < n && !err; i++)
		say(o, "  result ts %lld size %llu counter %lld%s\n", (long long)results[i].ts, (unsigned long long)results[i].size,
			(long long)results[i].counter, results[i].replaced ? " replaced" : "");
	for (unsigned i = 0; i < n && err == -ECANCELED; i++)
		if (results[i].failed)
			say(o, "  check %u failed\n", i);
	s->api->mutation_free(m);
	return err;
}
