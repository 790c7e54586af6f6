/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the changes of the library's tables through a history (feed.h).
 *
 * After each step the changes behind the last token are read.  Each belongs to a mutation of this step that was acknowledged, by row and
 * time of commit, and each such mutation has changes.  The lines are kept.  Later all changes are read again, from the first: after
 * flushes, compactions, splits, merges and openings they are the same lines, without those of families that were dropped
 * since.  Applied to an empty table of the model they give the table's cells.
 */
#include "t/history/feed.h"
#include "t/history/keys.h"
#include "t/model/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { FOLLOWED = 64, ACKS = 4096 };

struct line {
	uint16_t family; /* 0: of the row */
	char *text;
};
struct followed {
	uint32_t id;
	bool whole; /* the table has kept all of its changes */
	char first[TFS_TOKEN_MAX + 1], token[TFS_TOKEN_MAX + 1];
	struct line *v;
	size_t n, room;
};
static struct followed followed[FOLLOWED];
static unsigned followed_count;

/* Mutations of the step. */
static struct ack {
	uint32_t table;
	int64_t commit_us;
	struct out row;
	bool seen;
} acks[ACKS];
static unsigned ack_count;

/* ---- the library, with a note of each mutation ---- */

static struct tfs_table *noted_table;
static struct tfs_bytes noted_row;

static struct tfs_mutation *note_new(struct tfs_table *t, struct tfs_bytes row)
{
	noted_table = t;
	noted_row = row;
	return tfs_mutation_new(t, row);
}

static int note_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results)
{
	struct tfs_result own[16] = {0}, *r = results ? results : own;
	int err = tfs_apply(m, flags, r);

	if (err || !r->commit_us)
		return err;
	if (ack_count == ACKS)
		abort();
	acks[ack_count].table = tfs_table_id(noted_table);
	acks[ack_count].commit_us = r->commit_us;
	acks[ack_count].seen = false;
	out_reset(&acks[ack_count].row);
	say_bytes(&acks[ack_count++].row, noted_row);
	return 0;
}

const struct api *feed_api(void)
{
	static struct api api;

	api = api_library;
	api.mutation_new = note_new;
	api.apply = note_apply;
	return &api;
}

/* ---- lines ---- */

static uint16_t family_id(struct tfs_table *t, const char *name)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	uint16_t id = 0;

	if (!name || tfs_schema_get(t, &s))
		return 0;
	f = tfs_schema_family(s, name);
	id = f ? (uint16_t)f->id : 0;
	tfs_schema_put(s);
	return id;
}

static bool has_family(struct tfs_table *t, uint16_t id)
{
	char name[16];

	snprintf(name, sizeof(name), "#%u", id);
	return !id || family_id(t, name);
}

static void say_change(struct out *o, const struct tfs_feed_change *c, uint16_t family)
{
	out_reset(o);
	say(o, "%lld %d ", (long long)c->commit_us, (int)c->kind);
	say_bytes(o, c->row);
	say(o, " #%u:", family);
	say_bytes(o, c->qualifier);
	say(o, " @%lld ", (long long)c->ts);
	say_bytes(o, c->value);
}

static void forget(struct followed *f)
{
	while (f->n)
		free(f->v[--f->n].text);
}

static void add_line(struct followed *f, const struct out *o, uint16_t family)
{
	if (f->n == f->room) {
		f->room = f->room * 2 + 64;
		f->v = realloc(f->v, f->room * sizeof(*f->v));
	}
	if (!f->v)
		abort();
	f->v[f->n].family = family;
	f->v[f->n].text = strndup(o->p, o->n);
	if (!f->v[f->n++].text)
		abort();
}

/* ---- after a step ---- */

static bool take_ack(uint32_t table, const struct tfs_feed_change *c)
{
	struct out row = {0};
	bool found = false;

	say_bytes(&row, c->row);
	for (unsigned i = 0; i < ack_count && !found; i++) {
		found = acks[i].table == table && acks[i].commit_us == c->commit_us && acks[i].row.n == row.n &&
			memcmp(acks[i].row.p, row.p, row.n) == 0;
		acks[i].seen |= found;
	}
	out_free(&row);
	return found;
}

/* Reads what is new.  any: the changes may be older than the step. */
static bool read_new(struct tfs_table *t, struct followed *f, struct tfs_feed *feed, bool any)
{
	struct tfs_feed_change c;
	struct out o = {0};
	bool fine = true;
	int r = 0;

	while (fine && (r = tfs_feed_next(feed, &c)) > 0) {
		const uint16_t family = family_id(t, c.family);

		snprintf(f->token, sizeof(f->token), "%s", c.token);
		if (c.kind == TFS_FEED_TRUNCATE) {
			forget(f);
			f->whole = true;
			snprintf(f->first, sizeof(f->first), "%s", c.token);
			continue;
		}
		say_change(&o, &c, family);
		fine = take_ack(f->id, &c) || any;
		if (!fine)
			printf("# a change that no mutation of this step has made: %.*s\n", (int)o.n, o.p);
		add_line(f, &o, family);
	}
	if (r < 0)
		printf("# the changes of a step end: %s\n", strerror(-r));
	out_free(&o);
	return fine && r == 0;
}

/* A table that had cells before it kept changes, such as a clone, begins with its first reader or writer: it is ESTALE here. */
#define SINCE_EVER 2

static bool follow(struct tfs_table *t, bool dropped)
{
	const uint32_t id = tfs_table_id(t);
	struct followed *f = followed;
	struct tfs_feed *feed = NULL;
	bool begins, fine;
	int r;

	while (f < followed + followed_count && f->id != id)
		f++;
	begins = f == followed + followed_count;
	if (begins && followed_count == FOLLOWED)
		abort();
	r = tfs_feed_open(t, begins ? NULL : f->token, SINCE_EVER, &feed);
	if (begins) {
		f->whole = r == 0;
		if (r == -ESTALE)
			r = tfs_feed_open(t, NULL, TFS_FEED_START, &feed);
	}
	for (unsigned i = 0; i < ack_count; i++)
		acks[i].seen |= acks[i].table == id && (dropped || (begins && (r || !f->whole)));
	if (r) {
		if (r == -EOPNOTSUPP && begins)
			return true;
		printf("# the changes of table %u: %s\n", id, strerror(-r));
		return false;
	}
	if (begins) {
		followed_count++;
		f->id = id;
		snprintf(f->first, sizeof(f->first), "%s", tfs_feed_token(feed));
		snprintf(f->token, sizeof(f->token), "%s", tfs_feed_token(feed));
	}
	fine = read_new(t, f, feed, begins && !f->whole);
	tfs_feed_free(feed);
	for (unsigned i = 0; i < ack_count && fine; i++)
		if (acks[i].table == id && !acks[i].seen) {
			printf("# table %u: the changes lack the mutation of row %.*s at %lld\n", id, (int)acks[i].row.n,
				acks[i].row.p, (long long)acks[i].commit_us);
			fine = false;
		}
	return fine;
}

bool feed_follow(struct side *s, bool dropped)
{
	bool fine = true;

	for (unsigned k = 0; k < TABLES && fine; k++)
		fine = !s->table[k] || follow(s->table[k], dropped);
	ack_count = 0;
	return fine;
}

/* ---- the cells that changes make ---- */

/* Deletes the versions up to c->ts of the column, one by one. */
static void delete_versions(struct tfs_table *t, const struct tfs_feed_change *c, struct tfs_mutation *m)
{
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_KEYS, .row_from = c->row, .one_row = true, .families = &c->family, .family_count = 1};
	struct tfs_scan *sc;
	struct tfs_cell cell;

	if (model_scan_new(t, &spec, &sc))
		abort();
	while (model_scan_next(sc, &cell) > 0)
		if (bytes_eq(cell.qualifier, c->qualifier) && cell.ts <= c->ts &&
			model_mutation_delete_version(m, c->family, c->qualifier, cell.ts))
			abort();
	model_scan_free(sc);
}

static void apply_change(struct tfs_table *t, const struct tfs_feed_change *c)
{
	struct tfs_mutation *m = model_mutation_new(t, c->row);
	int err = m ? 0 : -ENOMEM;

	switch (c->kind) {
	case TFS_FEED_SET:
		err = model_mutation_put(m, c->family, c->qualifier, tfs_at(c->ts), c->value);
		break;
	case TFS_FEED_DELETE_CELL:
		err = model_mutation_delete_version(m, c->family, c->qualifier, c->ts);
		break;
	case TFS_FEED_DELETE_COLUMN:
		if (c->ts == INT64_MAX)
			err = model_mutation_delete_column(m, c->family, c->qualifier);
		else
			delete_versions(t, c, m);
		break;
	case TFS_FEED_DELETE_FAMILY:
		err = model_mutation_delete_family(m, c->family);
		break;
	case TFS_FEED_DELETE_ROW:
		err = model_mutation_delete_row(m);
		break;
	case TFS_FEED_TRUNCATE:
	case TFS_FEED_DROP:
		break;
	}
	if (!err)
		err = model_apply(m, 0, NULL);
	if (err)
		printf("# a change cannot be applied: %s\n", strerror(-err)); /* then the cells differ */
	model_mutation_free(m);
}

/* An empty table of the model with the families of t; `rules`: with their rules. */
static void like_table(struct tfs_table *made, struct tfs_table *t, bool rules)
{
	const struct tfs_schema *s;
	struct out text = {0};

	if (tfs_schema_get(t, &s))
		abort();
	say(&text, "families = (");
	for (unsigned i = 0; i < s->family_count; i++)
		say(&text, "%s{ name = \"%s\"; gc = \"%s\"; }", i ? ", " : "", s->families[i].name, rules ? s->families[i].gc : "");
	say(&text, ");");
	tfs_schema_put(s);
	if (model_schema_set_text(made, tfs_bytes_of(text.p, text.n), TFS_NO_TIME, NULL))
		abort();
	out_free(&text);
}

static void say_cells(const struct api *api, struct tfs_table *t, struct out *o)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	int r = api->scan_new(t, &spec, &sc);

	if (r) {
		say(o, "scan: %s\n", strerror(-r));
		return;
	}
	while ((r = api->scan_next(sc, &c)) > 0) {
		say_bytes(o, c.row);
		say(o, " %s:", c.family);
		say_bytes(o, c.qualifier);
		say(o, " @%lld ", (long long)c.ts);
		say_bytes(o, c.value);
		say(o, "\n");
	}
	say(o, "end %d\n", r);
	api->scan_free(sc);
}

/* Reads all changes again.  made: gets them, or NULL. */
static bool read_again(struct tfs_table *t, struct followed *f, struct tfs_table *made)
{
	struct tfs_feed_change c;
	struct tfs_feed *feed;
	struct out o = {0};
	size_t at = 0;
	bool fine = true;
	int r = tfs_feed_open(t, f->whole ? NULL : f->first, SINCE_EVER, &feed);

	if (r) {
		printf("# the changes of table %u, from the first: %s\n", f->id, strerror(-r));
		return false;
	}
	while (fine && (r = tfs_feed_next(feed, &c)) > 0) {
		say_change(&o, &c, family_id(t, c.family));
		while (at < f->n && !has_family(t, f->v[at].family))
			at++;
		fine = at < f->n && strlen(f->v[at].text) == o.n && memcmp(f->v[at].text, o.p, o.n) == 0;
		if (!fine)
			printf("# table %u: the next change was %s\n#   and is %.*s\n", f->id, at < f->n ? f->v[at].text : "none",
				(int)o.n, o.p);
		at++;
		if (made)
			apply_change(made, &c);
	}
	while (at < f->n && !has_family(t, f->v[at].family))
		at++;
	if (fine && (r || at < f->n)) {
		printf("# table %u: the changes end (%s) before %s\n", f->id, strerror(-r), at < f->n ? f->v[at].text : "none");
		fine = false;
	}
	tfs_feed_free(feed);
	out_free(&o);
	return fine;
}

static bool check_table(struct side *s, struct tfs_table *t, struct followed *f, const char *dir)
{
	struct out got = {0}, want = {0};
	struct tfs_store *store;
	struct tfs_table *made;
	bool fine;

	if (!dir || !f->whole)
		return read_again(t, f, NULL);
	if (model_open(dir, NULL, &store, NULL) || model_table_create(store, "t", 0, 0, 0755) ||
		model_table_open(store, "t", &made))
		abort();
	like_table(made, t, false);
	fine = read_again(t, f, made);
	like_table(made, t, true);
	say_cells(&api_model, made, &got);
	say_cells(s->api, t, &want);
	if (fine && (got.n != want.n || memcmp(got.p, want.p, got.n) != 0)) {
		printf("# table %u: its changes make other cells:\n", f->id);
		out_differ(&want, "the table", &got, "changes");
		fine = false;
	}
	model_table_close(made);
	(void)!model_close(store);
	out_free(&got);
	out_free(&want);
	return fine;
}

bool feed_check(struct side *s, const char *dir)
{
	bool fine = true;

	for (unsigned k = 0; k < TABLES && fine; k++)
		for (unsigned i = 0; s->table[k] && i < followed_count && fine; i++)
			if (followed[i].id == tfs_table_id(s->table[k]))
				fine = check_table(s, s->table[k], &followed[i], dir);
	return fine;
}

void feed_end(void)
{
	for (unsigned i = 0; i < followed_count; i++) {
		forget(&followed[i]);
		free(followed[i].v);
	}
	for (unsigned i = 0; i < ACKS; i++)
		out_free(&acks[i].row);
	followed_count = 0;
}
