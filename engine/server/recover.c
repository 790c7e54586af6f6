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

/* ---- where replay must begin ---- */
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

/* Taken before the tablet is made, whose background work may change its row. */
static int need_all(struct needed *n, const struct meta_tablet *m)
{
	int err = 0;

	for (unsigned i = 0; i < m->redo_count && !err; i++)
		err = need(n, &m->redo[i]);
	return err;
}

static int load_root(struct server *s, struct needed *needed, char **why)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	uint64_t version = 0;
	int err = lock_get(s->locks, "root", &b, &version);

	if (!err)
		err = meta_root_decode(buf_slice(&b), &root);
	else if (err == -ENOENT)
		err = make_root(s, &root, &version);
	if (err && asprintf(why, "%s/lock/root: the root tablet's row: %s", s->data_dir, strerror(-err)) < 0)
		*why = NULL;
	if (!err)
		err = need_all(needed, &root);
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

static int by_incarnation(const void *a, const void *b)
{
	const struct redo_point *x = a, *y = b;

	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

static int replay_kind(struct server *s, enum kind kind, struct needed *n, char **why)
{
	int err = 0;

	if (n->count)
		qsort(n->v, n->count, sizeof(*n->v), by_incarnation);
	/* Oldest incarnation first; order does not matter for the cells, whose sequence numbers decide. */
	for (unsigned i = 0; i < n->count && !err; i++) {
		struct replay p = {.s = s, .kind = kind, .incarnation = n->v[i].incarnation};
		char *dir = NULL;
		uint64_t last;

		if (asprintf(&dir, "%s/log/%llu", s->data_dir, (unsigned long long)n->v[i].incarnation) < 0) {
			err = -ENOMEM;
			break;
		}
		free(*why);
		*why = NULL;
		err = log_replay(dir, n->v[i].lsn, replay_one, &p, &last, why);
		if (err && !*why && asprintf(why, "%s: %s", dir, err == -ENOENT ? "this log is missing" : strerror(-err)) < 0)
			*why = NULL;
		if (err == -ENOENT)
			err = -EBADMSG;
		if (!err && p.records)
			msg_info("replayed %llu records of the log of incarnation %llu", (unsigned long long)p.records,
				 (unsigned long long)n->v[i].incarnation);
		free(dir);
	}
	n->count = 0;
	return err;
}

/* ---- loading the levels ---- */
struct level {
	struct server *s;
	enum kind kind;
	struct buf begin;         /* where the next tablet of `table` begins */
	uint32_t table;
	unsigned loaded;
	struct needed *needed;    /* at start: of all levels */
	struct buf *orphans;      /* METADATA rows whose table has no schema */
	unsigned orphan_count;
};

static int load_tablet(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct level *l = arg;
	struct known *k = NULL;
	int err = 0;

	if (l->kind == KIND_USER) {
		err = known_get(l->s, m->table, &k);
		known_put(l->s, k);
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
	if (!err && l->needed)
		err = need_all(l->needed, m);
	if (!err)
		err = held_load(l->s, m, l->kind, 0);
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

static int load_metadata(struct server *s, struct needed *needed)
{
	struct level l = {.s = s, .kind = KIND_META, .needed = needed};
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

static int load_users(struct server *s, struct needed *needed)
{
	struct level l = {.s = s, .kind = KIND_USER, .needed = needed};
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

/* A damaged SSTable of METADATA ends the start: names it.  Other errors have no file to name. */
static void name_damaged(struct server *s, char **why)
{
	struct held **list;
	unsigned count;

	if (held_list(s, META_TABLE, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++) {
		struct tablet_file *files = NULL;
		unsigned n = 0;

		if (tablet_files(list[i]->tablet, &files, &n))
			n = 0;
		for (unsigned k = 0; k < n; k++) {
			char *path = tablet_file_path(s->data_dir, files[k].table, files[k].incarnation, files[k].number);
			char *reason = NULL;
			uint64_t keys;
			int err = path && !*why ? sst_verify(path, &keys, &reason) : 0;

			if (err && asprintf(why, "%s: this file of METADATA is damaged: %s", path,
					    reason ? reason : strerror(-err)) < 0)
				*why = NULL;
			free(reason);
			free(path);
			tablet_file_fini(&files[k]);
		}
		free(files);
		held_put(list[i]);
	}
	free(list);
}

/* Replay is over for all: compactions may drop what it could still have added to.  Tells of tables without a tablet. */
static int loaded_all(struct server *s)
{
	struct held **list;
	unsigned count, i, k = 0;
	int err = held_list(s, 0, &list, &count);

	if (err)
		return err;
	for (i = 0; i < count; i++)
		tablet_replay_done(list[i]->tablet);
	mutex_lock(&s->lock);
	for (i = 0; i < s->known_count; i++) {
		while (k < count && list[k]->table < s->known[i]->table)
			k++;
		if (k == count || list[k]->table != s->known[i]->table)
			msg_error("table %s (%u): METADATA has no tablet of it", s->known[i]->name, s->known[i]->table);
	}
	mutex_unlock(&s->lock);
	for (i = 0; i < count; i++)
		held_put(list[i]);
	free(list);
	return 0;
}

int server_recover(struct server *s, char **why)
{
	struct needed needed = {0};
	int err;

	*why = NULL;
	err = load_root(s, &needed, why);
	if (!err)
		err = replay_kind(s, KIND_ROOT, &needed, why);
	if (!err)
		err = load_metadata(s, &needed);
	if (!err)
		err = replay_kind(s, KIND_META, &needed, why);
	if (!err)
		err = schemas_load(s, why);
	if (!err)
		err = load_users(s, &needed);
	if (!err)
		err = replay_kind(s, KIND_USER, &needed, why);
	if (!err)
		err = loaded_all(s);
	if (!err)
		err = sweep_at_start(s, why);
	free(needed.v);
	if (err) {
		if (!*why && (err == -EBADMSG || err == -EIO || err == -ENOENT))
			name_damaged(s, why);
		if (!*why && asprintf(why, "%s: cannot be recovered: %s", s->data_dir, strerror(-err)) < 0)
			*why = NULL;
		return err == -ENOENT ? -EBADMSG : err;
	}
	s->recovering = false;
	ballast_start(s);
	if (!s->no_background)
		task_queue(&s->retire);
	return 0;
}
