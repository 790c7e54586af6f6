/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the commit logs.
 *
 * A log that redo sets name must contain every record from the least of its
 * redo points up to the last LSN that it states as durable, and no whole record
 * after its end.  Each record must be decodable and of a table that exists or
 * existed.  A clean end and a recovery leave logs that no redo set names.  The
 * next mount removes them, so damage in them is a note only.
 */
#include "engine/cell/batch_format.h"
#include "engine/server/server.h"
#include "engine/log/log_format.h"
#include "engine/tool/store/check.h"
#include "engine/tool/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct log_check {
	struct check *c;
	const char *dir;
	bool needed;
	uint64_t records, bad;
};

static int report_record(struct log_check *k, const struct log_record *r, const char *what)
{
	if (k->bad++ < 10 && k->needed)
		report_problem(&k->c->r, "%s: record %" PRIu64 " (table %u): %s", k->dir, r->lsn, r->table, what);
	return 0;
}

static int check_record(void *arg, const struct log_record *r)
{
	struct log_check *k = arg;
	const struct offline *store = &k->c->store;
	struct batch_reader b;
	struct batch_cell cell;
	uint64_t cells = 0;
	int n;

	k->records++;
	if (bytes_cmp(r->row_from, r->row_to) > 0)
		return report_record(k, r, "the last row of its range is before the first");
	if (batch_open(&b, r->batch))
		return report_record(k, r, "its batch cannot be decoded");
	if (bytes_cmp(b.row, r->row_from) < 0 || bytes_cmp(b.row, r->row_to) > 0)
		return report_record(k, r, "its cells are of a row outside the record's row range");
	while ((n = batch_next(&b, &cell)) > 0)
		cells++;
	if (n < 0)
		return report_record(k, r, "its batch cannot be decoded");
	if (r->seq == 0 || r->seq + cells < r->seq)
		return report_record(k, r, "its sequence numbers are out of range");
	if (r->table != META_TABLE && !offline_table(store, r->table) &&
		(r->table < META_FIRST_USER_TABLE || (store->next_table && r->table >= store->next_table)))
		return report_record(k, r, "no table ever had this id");
	if (k->needed)
		check_salt_of(k->c, offline_table(store, r->table), b.row);
	return 0;
}

/* Sets *lsn to the least redo point of all tablets in the log.  Returns false if there is none. */
static bool least_redo(const struct offline *store, uint64_t incarnation, uint64_t *lsn)
{
	const struct offline_row *row;
	bool found = false;

	for (unsigned i = 0; (row = offline_row_at(store, i)); i++)
		for (unsigned k = 0; k < row->m.redo_count; k++) {
			if (row->m.redo[k].incarnation != incarnation)
				continue;
			if (!found || row->m.redo[k].lsn < *lsn)
				*lsn = row->m.redo[k].lsn;
			found = true;
		}
	return found;
}

static int note_stray_segment(void *arg, const char *name, bool is_dir)
{
	struct log_check *k = arg;
	uint64_t number;

	if (is_dir || !log_segment_parse(name, &number))
		report_note(&k->c->r, "%s/%s: not a log segment", k->dir, name);
	return 0;
}

static int check_one_log(struct check *c, uint64_t incarnation)
{
	struct log_check k = {.c = c};
	uint64_t from = 0;
	struct log_end end = {0};
	const char *dir = offline_log_dir(&c->store, incarnation);
	char *why = NULL;
	int err;

	k.dir = dir;
	k.needed = least_redo(&c->store, incarnation, &from);
	err = file_list(dir, note_stray_segment, &k);
	if (!err)
		err = offline_replay(&c->store, incarnation, from, check_record, &k, &end, &why);
	if (err == -EBADMSG || err == -ENOTSUP || (!err && end.lost)) {
		if (k.needed)
			report_problem(&c->r, "%s", why ? why : dir);
		else
			report_note(&c->r, "%s (but no redo set names this log)", why ? why : dir);
		err = 0;
	} else if (err) {
		complain("%s: %s", why ? why : dir, strerror(-err));
	} else if (!k.needed && incarnation != c->store.incarnation) { /* a clean end leaves the last log without redo points */
		report_note(&c->r, "%s: no redo set names this log; the next mount removes it", dir);
	}
	if (k.bad > 10 && k.needed)
		report_problem(&c->r, "%s: %" PRIu64 " more records like these", dir, k.bad - 10);
	c->records += k.records;
	progress_add(offline_bytes(dir));
	free(why);
	return err;
}

struct dirs {
	struct check *c;
	const char *path;
	uint64_t *v;
	unsigned count;
};

static int add_log(void *arg, const char *name, bool is_dir)
{
	struct dirs *d = arg;
	char *end;
	uint64_t n = strtoull(name, &end, 10);

	if (!is_dir || end == name || (*end && strcmp(end, ".dead") != 0)) {
		report_note(&d->c->r, "%s/%s: not a log", d->path, name);
		return 0;
	}
	tool_grow(d->v, d->count);
	d->v[d->count++] = n;
	return 0;
}

static void check_redo_points(struct check *c, const struct dirs *d, const struct offline_row *row)
{
	for (unsigned i = 0; i < row->m.redo_count; i++) {
		bool there = false;

		for (unsigned k = 0; k < d->count && !there; k++)
			there = d->v[k] == row->m.redo[i].incarnation;
		if (!there)
			report_problem(&c->r, "%s: its redo set names %s/%" PRIu64 ", which is missing",
				offline_tablet_name(&c->store, &row->m), d->path, row->m.redo[i].incarnation);
	}
}

int check_logs(struct check *c)
{
	struct dirs d = {.c = c, .path = text("%s/log", c->store.dir)};
	const struct offline_row *row;
	uint64_t latest = 0;
	int err = file_list(d.path, add_log, &d);

	if (err == -ENOENT || err == -ENOTDIR) {
		report_problem(&c->r, "%s: the logs' directory is missing", d.path);
		err = 0;
	}
	if (d.count)
		qsort(d.v, d.count, sizeof(*d.v), number_order);
	for (unsigned i = 0; (row = offline_row_at(&c->store, i)); i++)
		check_redo_points(c, &d, row);
	if (!err && (err = server_latest_log(c->store.dir, &latest)) == -ENOENT)
		err = 0;
	if (!err && latest > c->store.incarnation)
		report_problem(&c->r, "%s/lock/incarnation: %s, but there is a log of incarnation %" PRIu64, c->store.dir,
			c->store.incarnation ? "an old one" : "missing", latest);
	for (unsigned i = 0; i < d.count && !err; i++)
		err = check_one_log(c, d.v[i]);
	free(d.v);
	return err;
}
