/* SPDX-License-Identifier: Apache-2.0 */
/* Random snapshots and clones, reads of snapshots and their differences. */
#include "t/history/keys.h"

#include <errno.h>
#include <stdio.h>

static const char *const snapshot_names[] = {"night", "s.1", "s.2"};

static const char *pick_name(struct rng *r)
{
	return one_in(r, 20) ? ".bad" : snapshot_names[below(r, 3)];
}

/*
 * A snapshot, and its clone, have the stricter of the rights of then and now.  The
 * model does not have this (t/engine/test_access does).  So snapshots are made, and
 * cloned, while the table has the rights that a schema's text gives by default.
 */
static bool has_default_rights(struct side *s, struct tfs_table *t, struct out *o)
{
	const struct tfs_schema *c;
	bool has;

	if (s->api->schema_get(t, &c))
		return true;
	has = c->uid == 0 && c->gid == 0 && c->mode == 0755;
	for (unsigned i = 0; i < c->family_count && has; i++) {
		const struct tfs_family *f = &c->families[i];

		has = f->uid == 0 && f->gid == 0 && f->mode == 0644 && !*f->acl;
	}
	s->api->schema_put(c);
	if (!has)
		say(o, "other rights\n");
	return has;
}

static bool all_have_default_rights(struct side *s, struct out *o)
{
	for (unsigned i = 0; i < TABLES; i++)
		if (s->table[i] && !has_default_rights(s, s->table[i], o))
			return false;
	return true;
}

static int clone_table(struct side *s, struct tfs_table *of, struct rng *r, struct out *o)
{
	unsigned k = (unsigned)below(r, TABLES);
	int err = s->api->table_clone(of, table_names[k]);

	say(o, "clone as %s: %s\n", table_names[k], strerror(-err));
	if (err)
		return err;
	err = s->api->table_open(s->store, table_names[k], &s->table[k]);
	if (err) {
		s->table[k] = NULL;
		return err;
	}
	say_schema(s, s->table[k], true, o);
	return 0;
}

/* A handle of the snapshot remains, and every call with it reports that the snapshot was dropped. */
static int drop(struct side *s, struct tfs_table *t, const char *name, struct out *o)
{
	struct tfs_table *snapshot = NULL;
	bool b = false;
	int had = s->api->snapshot_open(t, name, &snapshot), err = s->api->snapshot_drop(t, name);

	say(o, "drop snapshot %s: %s\n", name, strerror(-err));
	if (had)
		return err;
	say(o, "  gone: %s\n", strerror(-s->api->table_empty(snapshot, &b)));
	s->api->table_close(snapshot);
	return err;
}

/* The cells of snapshot `of` that `from` has not, sometimes within bounds. */
static void say_difference(
	struct side *s, struct tfs_table *t, const char *from, const char *of, struct rng *r, unsigned flags, struct out *o)
{
	const char *families[2] = {pick_family(r), pick_family(r)};
	struct tfs_scan_spec spec = {.what = (enum tfs_scan_what)below(r, 4), .absent_names = one_in(r, 2)};
	struct tfs_table *a = NULL, *b = NULL;
	int err = s->api->snapshot_open(t, from, &a);

	if (one_in(r, 3)) {
		spec.row_from = pick_row(r, flags);
		spec.row_from_after = one_in(r, 2);
		spec.one_row = one_in(r, 2);
	}
	if (one_in(r, 4))
		spec.row_to = pick_row(r, flags);
	if (one_in(r, 3)) {
		spec.families = families;
		spec.family_count = 1 + (unsigned)below(r, 2);
	}
	if (one_in(r, 4)) {
		spec.qualifier_from = pick_qualifier(r, flags);
		spec.qualifier_from_after = one_in(r, 2);
	}
	if (one_in(r, 4))
		spec.qualifier_to = pick_qualifier(r, flags);
	if (one_in(r, 2))
		spec.batch_bytes = 1 + below(r, 3000);
	if (one_in(r, 20))
		spec.limit = 1;
	if (!err)
		err = s->api->snapshot_open(t, of, &b);
	spec.absent_from = a;
	say(o, "difference of %s and %s: kind %d%s: %s\n", from, of, spec.what, spec.absent_names ? ", of names" : "",
		strerror(-err));
	if (!err)
		say_scan(s, b, &spec, o);
	if (a)
		s->api->table_close(a);
	if (b)
		s->api->table_close(b);
}

/* Reads and clones of one snapshot; nothing changes it. */
static int of_one(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, unsigned what, struct out *o)
{
	struct tfs_table *snapshot;
	struct tfs_mutation *m;
	const char *name = pick_name(r);
	int err = s->api->snapshot_open(t, name, &snapshot);

	say(o, "snapshot %s: %s\n", name, strerror(-err));
	if (err)
		return 0;
	if (what == 0) {
		err = has_default_rights(s, t, o) ? clone_table(s, snapshot, r, o) : 0;
	} else if (what == 1) {
		err = step_scan(s, snapshot, r, flags, o);
	} else if (what == 2) {
		err = step_point(s, snapshot, r, flags, o);
	} else {
		m = s->api->mutation_new(snapshot, pick_row(r, flags & ~(unsigned)STEP_LONG));
		err = m ? s->api->mutation_delete_row(m) : -ENOMEM;
		if (!err)
			err = s->api->apply(m, 0, NULL);
		say(o, "  changes: %s, ", strerror(-err));
		s->api->mutation_free(m);
		err = s->api->compact(snapshot);
		say(o, "%s, ", strerror(-err));
		err = s->api->table_truncate(snapshot, NULL);
		say(o, "%s\n", strerror(-err));
		err = 0;
	}
	s->api->table_close(snapshot);
	return err;
}

int step_snapshot(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o)
{
	unsigned what = (unsigned)below(r, 14);
	const char *name = pick_name(r);
	int err;

	if (what >= 12 && flags & STEP_SINGLE) /* these are a change of each table */
		what -= 12;
	switch (what) {
	case 0:
	case 1:
	case 2:
		if (!has_default_rights(s, t, o))
			return 0;
		err = s->api->snapshot_create(t, name);
		say(o, "snapshot %s made: %s\n", name, strerror(-err));
		return err;
	case 3:
	case 4:
		return drop(s, t, name, o);
	case 5:
		return clone_table(s, t, r, o);
	case 6:
	case 7:
	case 8:
	case 9:
	case 10:
		return of_one(s, t, r, flags, (what - 6) / 2 ? what - 7 : 0, o);
	case 11:
		say_difference(s, t, name, snapshot_names[below(r, 3)], r, flags, o);
		return 0;
	case 12:
		if (!all_have_default_rights(s, o))
			return 0;
		err = s->api->snapshot_create_all(s->store, name);
		say(o, "snapshots %s of all made: %s\n", name, strerror(-err));
		return err;
	default:
		err = s->api->snapshot_drop_all(s->store, name);
		say(o, "snapshots %s of all dropped: %s\n", name, strerror(-err));
		return err;
	}
}

struct said {
	struct side *s;
	struct tfs_table *t;
	struct out *o;
};

static int say_one(void *arg, const struct tfs_snapshot *info)
{
	const struct said *w = arg;
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_table *snapshot;
	int err = w->s->api->snapshot_open(w->t, info->name, &snapshot);

	say(w->o, "snapshot %s of %lld%s: %s\n", info->name, history_set_back ? 0 : (long long)(info->time_us / 1000),
		info->of_all ? ", of all" : "", strerror(-err));
	if (err)
		return 0;
	/* Rights are left out, because a snapshot's depend on today's, too. */
	say_schema(w->s, snapshot, false, w->o);
	say_scan(w->s, snapshot, &spec, w->o);
	w->s->api->table_close(snapshot);
	return 0;
}

void say_snapshots(struct side *s, struct tfs_table *t, struct out *o)
{
	struct said w = {s, t, o};
	int err = s->api->snapshot_list(t, false, say_one, &w);

	if (err)
		say(o, "snapshots: %s\n", strerror(-err));
}
