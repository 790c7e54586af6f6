/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master's request LOAD (paper, section 5.2).  A server
 * serves the tablets that the master has assigned to it, and no others.
 *
 * LOAD makes tablets from their METADATA rows and replays the logs that their redo
 * sets name.  Requests to a tablet are refused until its replay has ended.  A row
 * must name the owner and the number that the request has; so a late copy of a
 * LOAD loads nothing.  The tablets of one request are all of one kind: the root
 * tablet, METADATA's, or users'.  One request with many tablets reads each log once.
 *
 * If METADATA's server dies at this moment, only the master's next pass has METADATA served again, and the present
 * pass waits for LOAD.  So LOAD waits METADATA_US for METADATA, and fails then.
 */
#include "engine/server/tablets/tablets.h"
#include "engine/server/storage/storage.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define METADATA_US UINT64_C(3000000)

/* Repairs the row's SSTables that have one damaged copy of two (sst_mend), before they are used. */
static void mend_files(const struct server *s, const struct meta_tablet *row)
{
	for (unsigned i = 0; i < row->file_count; i++) {
		const struct tablet_file *f = &row->files[i];
		char *path = tablet_file_path(s->o.data_dir, f->table, f->incarnation, f->number);

		if (path)
			sst_mend(path, f->bytes);
		free(path);
	}
}

/* ---- LOAD ---- */

struct made {
	struct served_tablet *served; /* NULL: not made by this request */
	struct redo_point *redo;      /* the redo set of the row as it was read; a flush may change it later */
	unsigned redo_count;
};

struct load {
	struct server *s;
	const struct ts_request *q;
	enum kind kind;
	int *errs;
	char **why;
	struct made *made; /* one for each tablet of the request */
	struct needed_logs *needed;
	uint32_t next;         /* the first tablet of the request whose row has not been read */
	struct buf key, below; /* the keys of that row, and of the row of the tablet below it */
	bool has_below;        /* METADATA has that row */
	bool is_split;         /* METADATA has a row between the two */
};

static bool is_last(const struct ts_assigned *t)
{
	return !t->end.p;
}

/*
 * Refuses a late request, from before a split or a merge.  After a split the row's begin may be too low (split.c), but not
 * too high; then METADATA has the row of the tablet below, and none between the two.
 */
static int check_begin(const struct load *l, const struct ts_assigned *t, struct tfs_bytes begin)
{
	const int c = bytes_cmp(begin, t->begin);

	return c > 0 || l->is_split || (c < 0 && !l->has_below) ? -TABLET_TAKEN : 0;
}

/* Makes the tablet from its row, and adds it to the set. */
static int load_row(struct load *l, const struct ts_assigned *t, struct meta_tablet *m, uint64_t root_version)
{
	struct made *made = &l->made[l->next];
	struct served_tablet *served;
	int err;

	if (m->server != t->server || m->assignment != t->assignment)
		return -TABLET_TAKEN;
	err = meta_tablet_resolve_merge(m, t->begin);
	if (err == -EBADMSG)
		why_set(l->why, "%s: METADATA: table id %u, row %s: its merge column does not have the tablet below it",
			l->s->o.data_dir, m->table, Q(t->begin));
	if (!err)
		err = check_begin(l, t, buf_bytes(&m->begin));
	if (!err)
		err = buf_set(&m->begin, t->begin.p, t->begin.n);
	if (!err)
		err = replay_need(l->needed, m);
	if (!err && m->redo_count) {
		made->redo = malloc(m->redo_count * sizeof(*made->redo));
		if (!made->redo)
			return -ENOMEM;
		memcpy(made->redo, m->redo, m->redo_count * sizeof(*made->redo));
		made->redo_count = m->redo_count;
	}
	if (err)
		return err;
	clock_raise_mark(l->s->o.clock, m->clock_mark);
	if (l->kind != KIND_USER)
		mend_files(l->s, m);
	set_begin(l->s);
	err = served_new(l->s, m, l->kind, root_version, &served);
	if (!err) {
		atomic_store(&served->loading, true);
		atomic_fetch_add(&served->refs, 1); /* the set's */
		made->served = served;
		err = set_insert(l->s, served);
	}
	set_end(l->s);
	if (err && made->served) {
		made->served = NULL;
		served_put(served);
		served_put(served);
	}
	return err;
}

/* Returns 0 if the tablet is in the set already, -EBUSY if a part of it is, or if it has another number there, -ENOENT if it is not. */
static int load_served(struct load *l, const struct ts_assigned *t)
{
	struct served_tablet *served;
	int err = served_find_any(l->s, t->table, t->begin, &served);

	if (err == -TABLET_MOVED)
		return -ENOENT;
	if (err)
		return err;
	if (bytes_eq(tablet_begin(served->tablet), t->begin) && served->last == is_last(t) &&
		(served->last || bytes_eq(buf_bytes(&served->end), t->end)))
		err = served->assignment == (t->server == l->s->o.incarnation ? t->assignment : t->assignment + 1) ? 0 : -EBUSY;
	else
		err = -EBUSY;
	served_put(served);
	return err;
}

/* Sets the keys for l->next.  The scan has not reached the row below. */
static int load_next_key(struct load *l)
{
	const struct ts_assigned *t = &l->q->tablets[l->next];
	int err;

	l->has_below = l->is_split = false;
	buf_reset(&l->key);
	buf_reset(&l->below);
	err = meta_row_key(&l->key, t->table, is_last(t), t->end);
	return err ? err : meta_row_key(&l->below, t->table, false, t->begin);
}

/* The row of the next tablet of the request was read, or has an error. */
static int load_advance(struct load *l, int err)
{
	l->errs[l->next++] = err;
	return l->next < l->q->tablet_count ? load_next_key(l) : 0;
}

/* Handles a row of METADATA: if it belongs to a tablet of the request, loads the tablet. */
static int load_scanned(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	struct load *l = arg;
	int err = 0, c = -1;

	while (!err && l->next < l->q->tablet_count && (c = bytes_cmp(buf_bytes(&l->key), row_key)) < 0)
		err = load_advance(l, -TABLET_TAKEN); /* METADATA has no row of this tablet */
	if (err || l->next == l->q->tablet_count)
		return err;
	if (c == 0) {
		err = m ? load_served(l, &l->q->tablets[l->next]) : -EBADMSG;
		if (!m)
			why_set(l->why, "%s: METADATA: the row of a tablet of table id %u is damaged", l->s->o.data_dir,
				l->q->tablets[l->next].table);
		err = load_advance(l, err == -ENOENT ? load_row(l, &l->q->tablets[l->next], m, 0) : err);
	}
	if (err || l->next == l->q->tablet_count)
		return err;
	c = bytes_cmp(row_key, buf_bytes(&l->below));
	l->has_below |= c == 0;
	l->is_split |= c > 0;
	return 0;
}

static int load_root(struct load *l)
{
	struct meta_tablet m = {0};
	struct buf b = {0};
	uint64_t version = 0;
	int err = load_served(l, l->q->tablets);

	if (err == -ENOENT) {
		err = lock_sync(l->s->locks); /* the master has just written it */
		if (!err)
			err = lock_get(l->s->locks, "root", &b, &version);
		if (!err)
			err = meta_root_decode(buf_bytes(&b), &m);
		if (!err)
			err = load_row(l, l->q->tablets, &m, version);
	}
	l->errs[0] = err;
	meta_tablet_fini(&m);
	buf_fini(&b);
	return err;
}

struct brief_service {
	struct tablet_service service; /* first */
	struct tablet_service *metadata;
};

static int brief_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct ts_request own = *q;

	own.time_left_us = METADATA_US;
	return ts_call(((struct brief_service *)service)->metadata, &own, a);
}

/* Reads the rows from the next tablet's to the last. */
static int load_scan(struct load *l, struct tablet_service *metadata)
{
	const struct ts_assigned *last = &l->q->tablets[l->q->tablet_count - 1];
	struct buf from = {0}, to = {0};
	int err = load_next_key(l);

	if (!err)
		err = buf_append_bytes(&from, buf_bytes(&l->below));
	if (!err)
		err = meta_row_key(&to, last->table, is_last(last), last->end);
	if (!err)
		err = buf_u8(&to, 0);
	if (!err)
		err = metadata_scan_past_damage(metadata, buf_bytes(&from), buf_bytes(&to), load_scanned, l);
	while (!err && l->next < l->q->tablet_count)
		err = load_advance(l, -TABLET_TAKEN);
	buf_fini(&from);
	buf_fini(&to);
	return err;
}

/* If a tablet of METADATA is not served, this still loads the tablets whose rows are before or after it. */
static int load_rows(struct load *l)
{
	static const struct tablet_service_ops ops = {.call = brief_call};
	struct brief_service brief = {.service = {.ops = &ops, .brief = true}, .metadata = l->s->metadata};
	uint32_t before;
	int err;

	do {
		before = l->next;
		err = load_scan(l, &brief.service);
	} while (err && err != -ENOMEM && l->next > before);
	while (l->next < l->q->tablet_count)
		l->errs[l->next++] = err;
	buf_fini(&l->key);
	buf_fini(&l->below);
	return err == -ENOMEM ? err : 0;
}

/* The tablets of the request are of one kind, in METADATA's order.  Only at the start of an embedded store are they an earlier server's. */
static int load_check(const struct server *s, const struct ts_request *q, enum kind *kind)
{
	int err = 0;

	for (uint32_t i = 0; i < q->tablet_count && !err; i++) {
		const struct ts_assigned *t = &q->tablets[i], *before = t - 1;
		enum kind k = t->table != META_TABLE ? KIND_USER : bytes_eq(t->end, META_ROOT_END) ? KIND_ROOT : KIND_META;

		if (i &&
			(k != *kind || k == KIND_ROOT || before->table > t->table ||
				(before->table == t->table &&
					(is_last(before) || (t->end.p && bytes_cmp(before->end, t->end) >= 0)))))
			err = -EINVAL;
		else if (s->fence && !s->recovering && t->server != s->o.incarnation)
			err = -TABLET_TAKEN;
		*kind = k;
	}
	return err;
}

static int load_all(struct load *l)
{
	int err = l->kind == KIND_USER ? user_tables_read(l->s, l->q->tablets, l->q->tablet_count) : 0;

	if (!err && l->kind == KIND_USER)
		err = clock_keep_promises(l->s);
	if (!err)
		err = l->kind == KIND_ROOT ? load_root(l) : load_rows(l);
	if (!err)
		replay_level(l->s, l->kind, l->q, l->needed, l->why);
	for (uint32_t i = 0; i < l->q->tablet_count; i++) {
		struct served_tablet *served = l->made[i].served;
		const int e = err || !served ? err : replay_error(l->needed, l->made[i].redo, l->made[i].redo_count);

		if (e)
			l->errs[i] = e;
		if (!served)
			continue;
		if (e) {
			set_replace(l->s, &served, 1, NULL, 0);
		} else {
			tablet_replay_done(served->tablet);
			atomic_store(&served->loading, false);
			commits_check(l->s, served);
		}
		served_put(served);
	}
	return err;
}

int load_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct needed_logs needed = {0};
	char *why = NULL;
	struct load l = {.s = s, .q = q, .errs = a->row_errs, .why = &why, .needed = s->recovering ? replays_of_start(s) : &needed};
	int err = q->tablet_count && !a->row_errs ? -EINVAL : load_check(s, q, &l.kind);

	if (err || !q->tablet_count)
		return err;
	l.made = calloc(q->tablet_count, sizeof(*l.made));
	if (!l.made)
		return -ENOMEM;
	load_begin(s, l.kind);
	(void)!load_all(&l); /* an error is in the tablets' row_errs */
	load_end(s, l.kind);
	if (why && !arena_dup(&a->arena, tfs_str(why), &a->why))
		a->why = (struct tfs_bytes){NULL, 0};
	free(why);
	for (uint32_t i = 0; i < q->tablet_count; i++)
		free(l.made[i].redo);
	free(l.made);
	replay_needed_fini(&needed);
	return 0;
}
