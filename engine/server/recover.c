/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting: load the root tablet, then METADATA, then all tablets, each level
 * with the records of dead incarnations' logs that its redo sets name (paper,
 * section 5.1 and 5.3).  Each embedded mount is a new incarnation; its
 * predecessor is a dead server to recover from.
 *
 * A new store is made in these steps: 1 the lock service's file "root" with
 * the root tablet's row (it covers METADATA's own rows and has no files);
 * 2 METADATA's row for its one other tablet, in the root tablet, synced.  A
 * crash between the two leaves a root tablet without that row, and step 2 is
 * done at the next start.
 *
 * Nothing is written to METADATA before the replay that concerns it is over.
 * Replayed data stays in memtables and in the old logs until a minor
 * compaction, which is queued at once: then no redo set names the old
 * incarnations and their logs go, at the next start or when the last has
 * been flushed.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int make_root(struct server *s, struct meta_tablet *root, uint64_t *version)
{
	struct buf b = {0};
	int err;

	*root = (struct meta_tablet){.table = META_TABLE, .server = s->incarnation};
	err = meta_root_end(&root->end);
	if (!err)
		err = meta_root_encode(root, &b);
	if (!err)
		err = lock_put(s->locks, "root", buf_slice(&b), LOCK_ABSENT, version);
	buf_fini(&b);
	return err;
}

static int load_root(struct server *s, char **why)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	uint64_t version = 0;
	int err = lock_get(s->locks, "root", &b, &version);

	if (!err)
		err = meta_root_decode(buf_slice(&b), &root);
	else if (err == -ENOENT)
		err = make_root(s, &root, &version);
	if (err)
		*why = NULL;
	if (err && asprintf(why, "%s/lock: the root tablet's row: %s", s->data_dir, strerror(-err)) < 0)
		*why = NULL;
	if (!err)
		err = held_load(s, &root, KIND_ROOT, version);
	meta_tablet_fini(&root);
	buf_fini(&b);
	return err;
}

/* ---- replay ---- */
struct replay {
	struct server *s;
	enum kind kind;
	uint64_t incarnation;
	uint64_t records;
};

static int replay_one(void *arg, const struct log_record *r)
{
	struct replay *p = arg;
	struct held *h;
	int err;

	if ((r->table == META_TABLE) != (p->kind != KIND_USER))
		return 0;
	err = held_find(p->s, r->table, r->row_from, &h);
	if (err)
		return err == -EREMCHG ? 0 : err; /* its table has been dropped */
	if (h->kind == p->kind) {
		err = tablet_replay(h->tablet, p->incarnation, r);
		p->records++;
	}
	held_put(h);
	return err;
}

struct needed {
	struct redo_point *v;
	unsigned count, cap;
};

static int need(struct needed *n, const struct redo_point *p)
{
	for (unsigned i = 0; i < n->count; i++) {
		if (n->v[i].incarnation == p->incarnation) {
			if (p->lsn < n->v[i].lsn)
				n->v[i].lsn = p->lsn;
			return 0;
		}
	}
	if (n->count == n->cap) {
		unsigned cap = n->cap ? n->cap * 2 : 8;
		struct redo_point *v = realloc(n->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		n->v = v;
		n->cap = cap;
	}
	n->v[n->count++] = *p;
	return 0;
}

static int by_incarnation(const void *a, const void *b)
{
	const struct redo_point *x = a, *y = b;

	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

/* The redo points of all tablets of a kind, the least of each incarnation. */
static int collect_needed(struct server *s, enum kind kind, bool all_kinds, struct needed *n)
{
	struct held **list;
	unsigned count;
	int err = held_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++) {
		if (list[i]->kind == kind || all_kinds)
			for (unsigned k = 0; k < list[i]->row.redo_count && !err; k++)
				err = need(n, &list[i]->row.redo[k]);
		held_put(list[i]);
	}
	free(list);
	if (n->count)
		qsort(n->v, n->count, sizeof(*n->v), by_incarnation);
	return err;
}

static int replay_kind(struct server *s, enum kind kind, char **why)
{
	struct needed n = {0};
	int err = collect_needed(s, kind, false, &n);

	/* Oldest incarnation first; order does not matter for the cells, whose sequence numbers decide. */
	for (unsigned i = 0; i < n.count && !err; i++) {
		struct replay p = {.s = s, .kind = kind, .incarnation = n.v[i].incarnation};
		char dir[4096];
		uint64_t last;

		snprintf(dir, sizeof(dir), "%s/log/%llu", s->data_dir, (unsigned long long)n.v[i].incarnation);
		free(*why);
		*why = NULL;
		err = log_replay(dir, n.v[i].lsn, replay_one, &p, &last, why);
		if (err && !*why && asprintf(why, "%s: %s", dir, err == -ENOENT ? "this log is missing" : strerror(-err)) < 0)
			*why = NULL;
		if (err == -ENOENT)
			err = -EBADMSG;
		if (!err && p.records)
			msg_info("replayed %llu records of the log of incarnation %llu", (unsigned long long)p.records,
				 (unsigned long long)n.v[i].incarnation);
	}
	free(n.v);
	return err;
}

/* ---- loading the levels ---- */
struct level {
	struct server *s;
	enum kind kind;
	struct buf begin;         /* where the next tablet of `table` begins */
	uint32_t table;
	unsigned loaded;
	struct buf *orphans;      /* METADATA rows whose table has no schema */
	unsigned orphan_count;
};

static int load_tablet(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct level *l = arg;
	struct store_schema *schema = NULL;
	int err = 0;

	if (l->kind == KIND_USER) {
		err = schemas_get(l->s, m->table, 0, &schema);
		store_schema_put(schema);
		if (err == -ENOENT) {
			struct buf *o = realloc(l->orphans, (l->orphan_count + 1) * sizeof(*o));

			if (!o)
				return -ENOMEM;
			l->orphans = o;
			o[l->orphan_count] = (struct buf){0};
			l->orphan_count++;
			return buf_append_slice(&o[l->orphan_count - 1], row_key);
		}
		if (err)
			return err;
	}
	/* A tablet begins where the previous one of its table ends; the begin column is only a hint. */
	if (l->table != m->table) {
		l->table = m->table;
		buf_reset(&l->begin);
		if (l->kind == KIND_META)
			err = meta_root_end(&l->begin);
	}
	if (!err)
		err = buf_set(&m->begin, l->begin.p, l->begin.n);
	if (!err && !m->last)
		err = buf_set(&l->begin, m->end.p, m->end.n);
	if (!err)
		err = held_load(l->s, m, l->kind, 0);
	if (err == -EEXIST && !l->s->recovering)
		err = 0; /* another caller was first */
	l->loaded++;
	return err;
}

static int make_metadata_tablet(struct server *s)
{
	struct meta_tablet m = {.table = META_TABLE, .last = true, .server = s->incarnation};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_root_end(&m.begin);

	if (!err)
		err = meta_row_key(&key, META_TABLE, true, (struct slice){NULL, 0});
	if (!err)
		err = meta_ops_new(&m, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(s->metadata, buf_slice(&key), ops, count);
	if (!err)
		err = held_load(s, &m, KIND_META, 0);
	meta_tablet_fini(&m);
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

static int load_metadata(struct server *s)
{
	struct level l = {.s = s, .kind = KIND_META};
	struct buf end = {0};
	int err = meta_root_end(&end);

	if (!err)
		err = metadata_scan(s->metadata, (struct slice){(const uint8_t *)"", 0}, buf_slice(&end), load_tablet, &l);
	if (!err && l.loaded == 0)
		err = make_metadata_tablet(s);
	buf_fini(&l.begin);
	buf_fini(&end);
	return err;
}

static int load_users(struct server *s)
{
	struct level l = {.s = s, .kind = KIND_USER};
	struct buf from = {0};
	int err = meta_root_end(&from);

	if (!err)
		err = metadata_scan(s->metadata, buf_slice(&from), (struct slice){NULL, 0}, load_tablet, &l);
	/* A table half made or half dropped when the process died. */
	for (unsigned i = 0; i < l.orphan_count; i++) {
		if (!err)
			err = metadata_delete(s->metadata, buf_slice(&l.orphans[i]));
		buf_fini(&l.orphans[i]);
	}
	free(l.orphans);
	buf_fini(&l.begin);
	buf_fini(&from);
	return err;
}

int held_load_table(struct server *s, uint32_t table)
{
	struct level l = {.s = s, .kind = KIND_USER};
	struct buf from = {0}, to = {0};
	int err = meta_table_begin(&from, table);

	if (!err)
		err = meta_table_begin(&to, table + 1);
	if (!err)
		err = metadata_scan(s->metadata, buf_slice(&from), buf_slice(&to), load_tablet, &l);
	for (unsigned i = 0; i < l.orphan_count; i++)
		buf_fini(&l.orphans[i]);
	free(l.orphans);
	buf_fini(&l.begin);
	buf_fini(&from);
	buf_fini(&to);
	return err;
}

int server_recover(struct server *s, char **why)
{
	int err;

	*why = NULL;
	err = load_root(s, why);
	if (!err)
		err = replay_kind(s, KIND_ROOT, why);
	if (!err)
		err = load_metadata(s);
	if (!err)
		err = replay_kind(s, KIND_META, why);
	if (!err)
		err = schemas_load(s);
	if (!err)
		err = load_users(s);
	if (!err)
		err = replay_kind(s, KIND_USER, why);
	if (!err)
		err = sweep_at_start(s);
	if (err) {
		if (!*why && asprintf(why, "%s: cannot be recovered: %s", s->data_dir, strerror(-err)) < 0)
			*why = NULL;
		return err;
	}
	s->recovering = false;
	ballast_start(s);
	if (!s->no_background)
		task_queue(&s->retire);
	return 0;
}
