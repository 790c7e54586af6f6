/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading tablets: a tablet is made from its METADATA row and added to the set.
 * The start loads all tablets.  The tablets of a table that was made since the
 * start are loaded by the first request to it.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int served_new(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct served_tablet **out)
{
	static const enum rank ranks[KINDS] = {RANK_TABLET_EDIT_ROOT, RANK_TABLET_EDIT_META, RANK_TABLET_EDIT_USER};
	struct tablet_params p = {0};
	struct store_schema *schema = NULL;
	struct served_tablet *served = calloc(1, sizeof(*served));
	int err;

	if (!served)
		return -ENOMEM;
	served->server = s;
	served->table = row->table;
	served->kind = kind;
	served->last = row->last;
	served->root_version = root_version;
	served->made_us = monotonic_us();
	atomic_init(&served->refs, 1);
	if (!row->last) {
		err = buf_set(&served->end, row->end.p, row->end.n);
		if (err)
			goto fail;
	}
	if (kind == KIND_USER) {
		err = user_table_get(s, row->table, &served->user_table);
		if (err)
			goto fail;
		schema = user_table_schema(s, served->user_table);
		p.frozen = served->user_table->frozen;
		p.frozen_us = served->user_table->frozen_us;
	} else {
		schema = store_schema_get(s->meta_schema);
	}
	/* This comes before tablet_new, because the tablet's background work may change the row at once. */
	served->row = *row;
	p = (struct tablet_params){
		.env = &s->env[kind],
		.table = row->table,
		.begin = buf_slice(&row->begin),
		.end = row->last ? (struct slice){NULL, 0} : buf_slice(&row->end),
		.schema = schema,
		.files = row->files,
		.file_count = row->file_count,
		.redo = row->redo,
		.redo_count = row->redo_count,
		.tokens = row->tokens,
		.token_count = row->token_count,
		.seq_mark = row->seq_mark,
		.major_us = row->major_us,
		.rank_edit = (int)ranks[kind],
		.commit = row_commit,
		.commit_arg = served,
		.frozen = p.frozen,
		.frozen_us = p.frozen_us,
	};
	err = tablet_new(&p, &served->tablet);
	store_schema_put(schema);
	if (err)
		goto fail;
	*row = (struct meta_tablet){0};
	file_refs_add(s, &served->row);
	*out = served;
	return 0;
fail:
	user_table_put(s, served->user_table);
	buf_fini(&served->end);
	free(served);
	return err;
}

/* Repairs the row's SSTables of which one of two copies is damaged (sst_mend), before they are used. */
static void mend_files(const struct server *s, const struct meta_tablet *row)
{
	for (unsigned i = 0; i < row->file_count; i++) {
		const struct tablet_file *f = &row->files[i];
		char *path = tablet_file_path(s->data_dir, f->table, f->incarnation, f->number);

		if (path)
			sst_mend(path);
		free(path);
	}
}

int served_load(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version)
{
	struct served_tablet *served;
	int err;

	if (kind != KIND_USER)
		mend_files(s, row);
	err = served_new(s, row, kind, root_version, &served);
	if (err)
		return err;
	err = set_insert(s, served);
	if (err)
		served_discard(served);
	return err;
}

int load_check_past(const struct server *s, const struct meta_tablet *m, char **why)
{
	uint64_t latest = meta_tablet_latest(m);

	if (latest < s->incarnation)
		return 0;
	why_set(why, "%s/lock/incarnation: an old one: METADATA names incarnation %llu", s->data_dir, (unsigned long long)latest);
	return -EBADMSG;
}

/* Checks that lock/ids is above the id of a refused table, so that no new table gets it.  The master checks the ids of the others. */
static int check_next_id(struct server *s, uint32_t table, char **why)
{
	struct buf b = {0};
	int err = lock_get(s->locks, "ids", &b, NULL);

	if (err == -ENOENT || (!err && (b.n != 4 || load_be32(b.p) <= table)))
		err = -EBADMSG;
	if (err && why)
		why_set(why, "%s/lock/ids: missing or an old one: METADATA names table id %u", s->data_dir, table);
	buf_fini(&b);
	return err;
}

/*
 * At the start, for a row of a table without a schema.  If the table was partly
 * made, the row has no data.  If the table was dropped, the master has written
 * dropped/ID (master/tables.c).  In both cases the row is added to l->orphans.
 * Any other row is damage, unless tables are refused: it may belong to one of
 * them.
 */
static int load_orphan(struct load_level *l, struct slice row_key, const struct meta_tablet *m)
{
	int err = 0;

	if (m->file_count || m->redo_count || l->s->refused_count) {
		err = table_drop_noted(l->s, m->table);
		if (err == -EBADMSG)
			err = 0;                             /* the file exists, and its contents do not matter */
		if (err == -ENOENT && l->s->refused_count) { /* the table may be a refused one */
			file_refs_add(l->s, m);
			return check_next_id(l->s, m->table, l->why);
		}
		if (err == -ENOENT && l->why)
			why_set(l->why, "%s/lock/tables: METADATA has data of table id %u, but no file here has its schema",
				l->s->data_dir, m->table);
		if (err)
			return err == -ENOENT ? -EBADMSG : err;
	}
	if (array_grow(&l->orphans, l->orphan_count, sizeof(*l->orphans)))
		return -ENOMEM;
	l->orphans[l->orphan_count] = (struct buf){0};
	return buf_append_slice(&l->orphans[l->orphan_count++], row_key);
}

/*
 * Checks that a tablet begins where the previous one of its table ends
 * (l->begin).  Its begin column is a hint that is never above that row, and its
 * end is above that row.  Also checks that the root tablet has rows of METADATA
 * only, and that the row names no later incarnation.
 */
static int check_place(const struct load_level *l, const struct meta_tablet *m)
{
	const char *what = NULL;

	if (slice_cmp(buf_slice(&m->begin), buf_slice(&l->begin)) > 0)
		what = "no tablet of it holds the rows from there on";
	else if (!m->last && slice_cmp(buf_slice(&m->end), buf_slice(&l->begin)) <= 0)
		what = "a tablet that should begin there ends before";
	else if (l->kind == KIND_META && m->table != META_TABLE)
		what = "it is in the root tablet";
	if (what && l->why)
		why_set(l->why, "%s: METADATA: table id %u, row %s: %s", l->s->data_dir, m->table, Q(buf_slice(&l->begin)), what);
	return what ? -EBADMSG : l->needed ? load_check_past(l->s, m, l->why) : 0;
}

static int load_tablet(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct load_level *l = arg;
	struct user_table *u = NULL;
	int err = 0;

	if (l->kind == KIND_USER) {
		err = user_table_get(l->s, m->table, &u);
		user_table_put(l->s, u);
		if (err == -EIDRM && l->needed)
			return load_orphan(l, row_key, m);
		if (err)
			return err;
	}
	/* The first tablet of a table begins at the table's first row, others where the previous one ends. */
	if (l->table != m->table) {
		l->table = m->table;
		buf_reset(&l->begin);
		if (l->kind == KIND_META)
			err = meta_root_end(&l->begin);
	}
	if (!err) {
		err = meta_tablet_resolve_merge(m, buf_slice(&l->begin));
		if (err == -EBADMSG && l->why)
			why_set(l->why, "%s: METADATA: table id %u, row %s: its merge column does not have the tablet below it",
				l->s->data_dir, m->table, Q(buf_slice(&l->begin)));
	}
	if (!err)
		err = check_place(l, m);
	if (!err)
		err = buf_set(&m->begin, l->begin.p, l->begin.n);
	if (!err && !m->last)
		err = buf_set(&l->begin, m->end.p, m->end.n);
	if (!err && l->needed)
		err = replay_need(l->needed, m);
	if (!err)
		err = served_load(l->s, m, l->kind, 0);
	l->loaded++;
	return err;
}

int load_rows(struct load_level *l, struct slice from, struct slice to)
{
	int err = metadata_scan(l->s->metadata, from, to, load_tablet, l);

	buf_fini(&l->begin);
	return err;
}

/* Loads the tablets of one table.  -EIDRM: the table was dropped meanwhile, and the master deletes its rows. */
static int served_load_table(struct server *s, uint32_t table)
{
	struct load_level l = {.s = s, .kind = KIND_USER};
	int err = metadata_scan_table(s->metadata, table, load_tablet, &l);

	buf_fini(&l.begin);
	return err;
}

int served_find(struct server *s, uint32_t table, struct slice row, struct served_tablet **out)
{
	struct user_table *u;
	int err = served_find_loaded(s, table, row, out);

	if (err != -EREMCHG || s->recovering || table == META_TABLE)
		return err;
	err = user_table_find(s, table, &u);
	if (err)
		return err;
	load_begin(s);
	err = served_find_loaded(s, table, row, out); /* another request may have loaded it */
	if (err == -EREMCHG) {
		err = served_load_table(s, table);
		if (!err)
			err = served_find_loaded(s, table, row, out);
	}
	load_end(s);
	if (err == -EREMCHG && user_table_dropped(s, u))
		err = -EIDRM;
	user_table_put(s, u);
	return err;
}

void served_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count)
{
	for (unsigned i = 0; i < count && with[i]->user_table; i++) {
		struct store_schema *schema = user_table_schema(s, with[i]->user_table);

		tablet_set_schema(with[i]->tablet, schema);
		store_schema_put(schema);
	}
	set_replace(s, old, old_count, with, count);
	for (unsigned i = 0; i < old_count; i++)
		file_refs_remove(s, &old[i]->row); /* served_new has added the rows of the new tablets */
}
