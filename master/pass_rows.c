/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 1 of a pass (assign.c): reads the rows of METADATA, and checks them.  A
 * tablet begins where the previous one of its table ends.
 */
#include "engine/base/msg.h"
#include "master/pass.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool pass_is_strict(const struct pass *p)
{
	return p->m->o.sole && p->start;
}

/* Damage: names it, and returns -EBADMSG or, if the pass continues, 0. */
__attribute__((format(printf, 2, 3))) static int damaged(struct pass *p, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (pass_is_strict(p)) {
		why_set(p->why, "%s", text);
		return -EBADMSG;
	}
	msg_damage("%s", text);
	p->failed++;
	return 0;
}

int pass_add(struct pass *p, const struct meta_tablet *row)
{
	struct place *l;
	int err;

	if (array_grow(&p->v, p->count, sizeof(*p->v)))
		return -ENOMEM;
	if (p->m->passes.assigned < row->assignment)
		p->m->passes.assigned = row->assignment;
	l = &p->v[p->count++];
	*l = (struct place){.at = {.table = row->table, .assignment = row->assignment, .server = row->server}};
	for (unsigned i = 0; i < row->file_count; i++)
		l->bytes += row->files[i].bytes;
	err = buf_set(&l->begin, p->begin.p, p->begin.n);
	return err || row->last ? err : buf_set(&l->end, row->end.p, row->end.n);
}

int pass_check_past(struct pass *p, const struct meta_tablet *row)
{
	const uint64_t latest = meta_tablet_latest(row);
	uint64_t now = 0;

	if (!p->start || latest <= p->start->latest_incarnation)
		return 0;
	if (!p->m->o.sole) { /* a server may have started since */
		int err = master_incarnation(p->m, &now);

		if (err || latest <= now)
			return err;
	}
	return damaged(p, "lock/incarnation: an old one: METADATA names incarnation %llu", (unsigned long long)latest);
}

/* *skip is set if the tablet cannot be served. */
static int check_gap(struct pass *p, const struct meta_tablet *row, bool *skip)
{
	const char *what = NULL;
	int err;

	*skip = true;
	if (bytes_cmp(buf_bytes(&row->begin), buf_bytes(&p->begin)) > 0) {
		what = "no tablet of it holds the rows from there on";
		*skip = false;
	} else if (!row->last && bytes_cmp(buf_bytes(&row->end), buf_bytes(&p->begin)) <= 0) {
		what = "a tablet that should begin there ends before";
	} else if (p->level == LEVEL_META && row->table != META_TABLE) {
		what = "it is in the root tablet";
	}
	if (!what) {
		*skip = false;
		return 0;
	}
	err = damaged(p, "METADATA: table id %u, row %s: %s", row->table, Q(buf_bytes(&p->begin)), what);
	return err || *skip ? err : buf_set(&p->begin, row->begin.p, row->begin.n);
}

/*
 * A row of a table that has neither a schema nor a note.  If the table was partly
 * made, the row has no data and is deleted later.  Any other row is damage, unless
 * tables are refused: it may belong to a refused table.
 */
static int check_orphan(struct pass *p, struct tfs_bytes row_key, const struct meta_tablet *row)
{
	if (p->start->refused)
		return row->table < p->start->next_id
			? 0
			: damaged(p, "lock/ids: missing or an old one: METADATA names table id %u", row->table);
	if (row->file_count || row->redo_count)
		return damaged(p, "lock/tables: METADATA has data of table id %u, but no file here has its schema", row->table);
	if (!p->m->o.sole && row->table >= p->start->next_id)
		return 0; /* a later master makes it */
	if (array_grow(&p->orphans, p->orphan_count, sizeof(*p->orphans)))
		return -ENOMEM;
	p->orphans[p->orphan_count] = (struct buf){0};
	return buf_append_bytes(&p->orphans[p->orphan_count++], row_key);
}

/* Checks that the tables with ids below `table` have had their last tablet, if all rows up to here were read. */
static int check_tables(struct pass *p, uint32_t table)
{
	int err = 0;

	while (!err && p->start && p->level == LEVEL_USER && !p->partial && p->known < p->start->table_count &&
		p->start->tables[p->known].id < table) {
		const struct known_table *t = &p->start->tables[p->known++];

		if (p->table == t->id && p->last_seen)
			continue;
		err = damaged(p, "METADATA: no tablet of table %s (id %u) holds its last rows", t->name, t->id);
	}
	return err;
}

/* Returns true if a schema has this id of tablets. */
static bool is_known(const struct start *s, uint32_t table)
{
	unsigned lo = 0, hi = s->table_count;

	while (lo < hi) {
		const unsigned mid = lo + (hi - lo) / 2;

		if (s->tables[mid].id < table)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->table_count && s->tables[lo].id == table;
}

/* The first tablet of a table begins at the table's first row, any other tablet where the previous one ends. */
static int begin_table(struct pass *p, uint32_t table)
{
	int err;

	if (p->table == table)
		return 0;
	err = check_tables(p, table);
	p->table = table;
	p->last_seen = false;
	buf_reset(&p->begin);
	return err || p->level != LEVEL_META ? err : buf_append_bytes(&p->begin, META_ROOT_END);
}

static int end_tablet(struct pass *p, bool last, struct tfs_bytes end)
{
	p->last_seen |= last;
	return last ? 0 : buf_set(&p->begin, end.p, end.n);
}

/* A row that cannot be decoded.  Its key still shows where the next tablet begins. */
static int read_damaged_row(struct pass *p, struct tfs_bytes row_key)
{
	struct tfs_bytes end;
	uint32_t table;
	bool last;
	int err = damaged(p, "METADATA: the row %s is damaged", Q(row_key));

	if (err || !meta_parse_row_key(row_key, &table, &last, &end))
		return err;
	err = begin_table(p, table);
	return err ? err : end_tablet(p, last, end);
}

static int read_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *row)
{
	struct pass *p = arg;
	bool skip = false, unsure = p->unsure;
	int err;

	p->unsure = false;
	if (!row)
		return read_damaged_row(p, row_key);
	if (pass_noted(p, row->table))
		return 0;
	if (p->start && p->level == LEVEL_USER && !is_known(p->start, row->table))
		return check_orphan(p, row_key, row);
	err = begin_table(p, row->table);
	if (!err && !unsure)
		err = check_gap(p, row, &skip);
	if (err || skip)
		return err;
	if (!unsure) {
		err = pass_check_past(p, row);
		if (!err)
			err = pass_add(p, row);
	}
	return err ? err : end_tablet(p, row->last, buf_bytes(&row->end));
}

static int read_rows(struct pass *p, struct tfs_bytes from, struct tfs_bytes to)
{
	return pass_is_strict(p) ? metadata_scan(p->m->tablets, from, to, read_row, p)
				 : metadata_scan_past_damage(p->m->tablets, from, to, read_row, p);
}

int pass_read_metadata(struct pass *p)
{
	p->table = 0;
	return read_rows(p, tfs_bytes_of("", 0), META_ROOT_END);
}

int pass_unread(struct pass *p, int err)
{
	if (p->level == LEVEL_ROOT || pass_is_strict(p) || err == -SESSION_ENDED || err == -ENOMEM)
		return err;
	if (!p->unread && err != -EBADMSG && err != -EPROTO)
		p->unread = err;
	return 0;
}

/* Reads the users' rows in one tablet of METADATA. */
static int read_users_in(struct pass *p, const struct place *l)
{
	int err = l->served ? read_rows(p, l->at.begin, l->at.end) : 0;

	if (l->served && !err)
		return 0;
	p->partial = p->unsure = true;
	return err ? pass_unread(p, err) : 0;
}

int pass_read_users(struct pass *p)
{
	struct tfs_bytes to = META_ROOT_END;
	int err = 0;

	p->table = 0;
	for (unsigned i = 0; i < p->metadata_count && !err; i++) {
		const struct place *l = &p->metadata[i];

		if (!to.p || !bytes_eq(l->at.begin, to)) /* a row of the root tablet is missing or damaged */
			p->partial = p->unsure = true;
		err = read_users_in(p, l);
		to = l->at.end;
	}
	if (!err && to.p) {
		p->partial = true;
		err = damaged(p, "METADATA: its last tablet is missing");
	}
	return err ? err : check_tables(p, UINT32_MAX);
}

int pass_read_table(struct pass *p, uint32_t table)
{
	return metadata_scan_table(p->m->tablets, table, read_row, p);
}
