/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl check: verifies every checksum of a data directory and the
 * invariants between its parts.  It writes nothing.
 *
 * The order is the same as when a store is opened: FORMAT, the lock service,
 * the root tablet and METADATA (offline_*.c), then the tablets of each table,
 * their SSTables and logs, and the salt of rows.  Last come files that nothing
 * refers to.  If part of METADATA cannot be read, the checks that need all of
 * it are left out: missing tablets and unreferenced files would hide the cause.
 */
#include "engine/base/hashtable.h"
#include "engine/base/socket.h"
#include "engine/lock/marker.h"
#include "engine/meta/meta.h"
#include "engine/rpc/channel.h"
#include "engine/server/server.h"
#include "engine/tool/store/check.h"
#include "engine/tool/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- SSTables: tablets may share a file, which is checked once ---- */

struct checked {
	UT_hash_handle hh;
	uint64_t id[3];           /* table, incarnation, number */
	struct tablet_file first; /* the file as its first tablet lists it, without rows */
};

static struct checked *checked_find(struct checked *set, uint32_t table, uint64_t incarnation, uint64_t number)
{
	const uint64_t id[] = {table, incarnation, number};
	struct checked *s;

	HASH_FIND(hh, set, id, sizeof(id), s);
	return s;
}

/* Adds the file, unless it is in the set: then *is_new is false. */
static struct checked *checked_add(struct checked **set, const struct tablet_file *f, bool *is_new)
{
	struct checked *s = checked_find(*set, f->table, f->incarnation, f->number);

	*is_new = !s;
	if (s)
		return s;
	s = malloc(sizeof(*s));
	if (!s)
		no_memory();
	*s = (struct checked){.id = {f->table, f->incarnation, f->number}, .first = *f};
	s->first.begin = s->first.end = s->first.first = s->first.last = (struct buf){0};
	HASH_ADD(hh, *set, id, sizeof(s->id), s);
	if (!s->hh.tbl)
		no_memory();
	return s;
}

/* All tablets that share a file list the same contents.  The first list is compared with the file itself. */
static bool same_contents(const struct tablet_file *a, const struct tablet_file *b)
{
	return a->group == b->group && a->bytes == b->bytes && a->raw_bytes == b->raw_bytes && a->cells == b->cells &&
		a->tombstones == b->tombstones && a->row_deletes == b->row_deletes && a->family_deletes == b->family_deletes &&
		a->seq_min == b->seq_min && a->seq_max == b->seq_max && a->oldest_us == b->oldest_us &&
		a->newest_us == b->newest_us;
}

static int check_file(struct check *c, struct checked **set, const struct offline_row *row, const struct tablet_file *f)
{
	const char *path = offline_sst_path(&c->store, f), *who = offline_tablet_name(&c->store, &row->m);
	uint64_t bytes;
	bool is_new;
	struct checked *s = checked_add(set, f, &is_new);
	int err;

	if (f->seq_max > row->m.seq_mark)
		report_problem(&c->r, "%s: %s holds sequence numbers up to %" PRIu64 ", above the tablet's mark %" PRIu64, who,
			path, f->seq_max, row->m.seq_mark);
	if (f->end.p && bytes_cmp(buf_bytes(&f->begin), buf_bytes(&f->end)) >= 0)
		report_problem(&c->r, "%s: its range of rows in %s ends before it begins", who, path);
	if (bytes_cmp(buf_bytes(&f->first), buf_bytes(&f->last)) > 0)
		report_problem(&c->r, "%s: METADATA says that the last row of %s is before the first", who, path);
	if (!is_new) {
		if (!same_contents(&s->first, f))
			report_problem(&c->r, "%s: METADATA lists %s with other contents for another tablet", who, path);
		return 0;
	}
	c->files++;
	err = file_stat_size(path, &bytes);
	if (err == -ENOENT) {
		report_problem(&c->r, "%s: missing; %s needs it", path, who);
		return 0;
	}
	if (err) {
		complain("%s: %s", path, strerror(-err));
		return err;
	}
	c->file_bytes += bytes;
	if (bytes != f->bytes)
		report_problem(&c->r, "%s: has %" PRIu64 " bytes, METADATA says %" PRIu64, path, bytes, f->bytes);
	return c->data ? check_sst(c, f, path) : 0;
}

/* ---- tablets ---- */

static void check_range(struct check *c, const struct offline_row *row)
{
	const char *who = offline_tablet_name(&c->store, &row->m);

	if (bytes_cmp(buf_bytes(&row->m.begin), buf_bytes(&row->begin)) > 0)
		report_problem(&c->r, "%s: begins at %s, where the tablet before it ends, but its begin hint is %s: a gap", who,
			quoted(buf_bytes(&row->begin)), quoted(buf_bytes(&row->m.begin)));
	if (!row->m.last && bytes_cmp(buf_bytes(&row->begin), buf_bytes(&row->m.end)) >= 0)
		report_problem(&c->r, "%s: ends before it begins at %s", who, quoted(buf_bytes(&row->begin)));
}

static int check_tablet(struct check *c, struct checked **set, const struct offline_row *row)
{
	int err = 0;

	c->tablets++;
	check_range(c, row);
	if (meta_tablet_latest(&row->m) > c->store.incarnation)
		report_problem(&c->r, "%s/lock/incarnation: %s, but METADATA names incarnation %" PRIu64, c->store.dir,
			c->store.incarnation ? "an old one" : "missing", meta_tablet_latest(&row->m));
	for (unsigned i = 0; i < row->m.file_count && !err; i++)
		err = check_file(c, set, row, &row->m.files[i]);
	return err;
}

/* The rows are sorted, so a table has no gap if its last tablet exists and the begin hints fit. */
static int check_level(struct check *c, struct checked **set, const struct offline_rows *rows)
{
	int err = 0;

	for (unsigned i = 0; i < rows->count && !err; i++) {
		const struct offline_row *row = &rows->v[i], *next = i + 1 < rows->count ? row + 1 : NULL;

		if (rows == &c->store.meta && row->m.table != META_TABLE) {
			report_problem(&c->r, "METADATA: table id %u: a tablet of it is in the root tablet", row->m.table);
			continue;
		}
		if (row->m.table != META_TABLE && !offline_table(&c->store, row->m.table)) {
			if (offline_is_dropped(&c->store, row->m.table) || (!row->m.file_count && !row->m.redo_count))
				report_note(&c->r,
					"METADATA: table id %u: a tablet of a table that is half created or half dropped; the "
					"next mount removes it",
					row->m.table);
			else if (!c->store.incomplete)
				report_problem(&c->r,
					"%s/lock/tables: METADATA has data of table id %u, but no file here has its schema",
					c->store.dir, row->m.table);
			continue;
		}
		err = check_tablet(c, set, row);
		if (!err && !row->m.last && rows != &c->store.root && (!next || next->m.table != row->m.table) &&
			!c->store.incomplete)
			report_problem(&c->r, "%s: no tablet holds the rows after it", offline_tablet_name(&c->store, &row->m));
	}
	return err;
}

/* ---- unreferenced files ---- */

struct stray {
	struct check *c;
	struct checked *set;
};

static int check_stray_file(void *arg, uint32_t table, uint64_t incarnation, uint64_t number)
{
	const struct stray *w = arg;
	const struct tablet_file f = {.table = table, .incarnation = incarnation, .number = number};

	if (!checked_find(w->set, table, incarnation, number))
		report_note(&w->c->r, "%s: no tablet refers to it; the next mount removes it", offline_sst_path(&w->c->store, &f));
	return 0;
}

static int check_stray_entry(void *arg, const char *name, bool is_dir)
{
	static const char *const parts[] = {"FORMAT", "lock", "log", "sst", MARKER_FILE, RESERVE_FILE, SOCKET_NAME, "lost+found"};
	struct check *c = arg;
	uint64_t incarnation;

	if (!is_dir && meta_reserve_parse(name, &incarnation))
		return 0;
	if (is_dir && strncmp(name, "repair-", 7) == 0) {
		report_note(&c->r, "%s/%s: files that a repair replaced; no mount removes it", c->store.dir, name);
		return 0;
	}
	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strcmp(name, parts[i]) == 0)
			return 0;
	report_note(&c->r, "%s/%s: not a part of the store; no mount removes it", c->store.dir, name);
	return 0;
}

static int check_strays(struct check *c, struct checked *set)
{
	struct stray w = {.c = c, .set = set};
	int err = file_list(c->store.dir, check_stray_entry, c);

	if (!err && !c->store.incomplete)
		err = offline_list_ssts(&c->store, &c->r, check_stray_file, &w);
	if (err == -ENOENT || err == -ENOTDIR) {
		report_problem(&c->r, "%s/sst: the SSTables' directory is missing", c->store.dir);
		err = 0;
	}
	return err;
}

/* Snapshots have the rows that lock/rows states. */
static void check_made(struct check *c)
{
	for (unsigned i = 0; i < c->store.table_count; i++) {
		const struct tfs_schema *s = c->store.tables[i].p;
		const char *name = offline_table_name(&c->store, s->tablets_id);
		unsigned count;
		const struct offline_row *rows = offline_table_rows(&c->store.users, s->tablets_id, &count);
		struct offline_made made = offline_made(&c->store, s->tablets_id);
		bool same = true, none = !made.count;

		for (unsigned k = 0; k < count && same; k++)
			same = offline_is_made(&made, &rows[k].m);
		if (s->snapshot_of && none && (!count || !same))
			report_problem(&c->r, "%s/lock/rows: nothing of %s", c->store.dir, name);
		else if (s->snapshot_of && count && (!same || made.count))
			report_problem(&c->r, "%s/lock/rows: other rows of %s than METADATA has", c->store.dir, name);
	}
}

static int check_all(struct check *c)
{
	struct checked *set = NULL, *s, *tmp;
	int err = check_level(c, &set, &c->store.root);

	if (!err)
		err = check_level(c, &set, &c->store.meta);
	if (!err)
		err = check_level(c, &set, &c->store.users);
	for (unsigned i = 0; i < c->store.table_count && !err && !c->store.incomplete; i++)
		if (!offline_has_tablet(&c->store, c->store.tables[i].p->tablets_id))
			report_problem(&c->r, "table %s: METADATA has no tablet of it", c->store.tables[i].p->name);
	if (!err && !c->store.incomplete)
		check_made(c);
	if (!err)
		err = check_logs(c);
	if (!err)
		err = check_strays(c, set);
	HASH_ITER(hh, set, s, tmp)
	{
		HASH_DEL(set, s);
		free(s);
	}
	return err;
}

static void print_summary(const struct check *c, const char *dir)
{
	unsigned problems = c->r.count[REPORT_PROBLEM], notes = c->r.count[REPORT_NOTE];

	printf("%s: %s: %u tables, %" PRIu64 " tablets, %" PRIu64 " SSTables of %" PRIu64 " bytes", dir,
		problems ? "DAMAGED" : "clean", c->store.table_count, c->tablets, c->files, c->file_bytes);
	if (c->data)
		printf(" with %" PRIu64 " cells", c->cells);
	else
		printf(" (not read)");
	printf(", %" PRIu64 " log records; %u problem%s, %u note%s%s\n", c->records, problems, problems == 1 ? "" : "s", notes,
		notes == 1 ? "" : "s", problems ? "; 'tabletctl repair' prints how to repair it" : "");
}

static int check_run(const struct arguments *a)
{
	struct check c = {.r = {.to = stdout, .no_notes = a->option['q']}, .data = !a->option['n']};
	const char *dir = given(a->operand[0]);
	int err;

	progress_begin(&(struct progress_options){
		.command = "check", .done = "checked", .interrupted = "the rest was not checked", .quiet = c.r.no_notes});
	err = offline_open(dir, &c.r, &c.store);
	if (err)
		goto out;
	progress_total(offline_bytes(text("%s/log", dir)) + (c.data ? offline_bytes(text("%s/sst", dir)) : 0), false);
	err = check_all(&c);
	progress_end();
	if (err == -ENOMEM)
		complain("%s: %s", dir, strerror(ENOMEM));
	else if (!err && (c.r.count[REPORT_PROBLEM] || !c.r.no_notes))
		print_summary(&c, dir);
	offline_close(&c.store);
out:
	report_fini(&c.r);
	return err ? EXIT_CANNOT : c.r.count[REPORT_PROBLEM] ? EXIT_DAMAGED : EXIT_CLEAN;
}

const struct command check_command = {
	.name = "check",
	.kinds = "f",
	.brief = "verify every checksum and invariant of a data directory",
	.usage = "usage: tabletctl check [-q] [--no-data] DATADIR\n"
		 "\n"
		 "Verifies a data directory that is not mounted: the files of the lock service,\n"
		 "METADATA, every SSTable and every log, that tablets leave no gap, and that rows\n"
		 "of salted tables are stored with their salt.  Writes nothing.\n"
		 "\n"
		 "Prints one line \"damaged: FILE: ... offset ...\" for each damage.  A line\n"
		 "\"note: ...\" names a file that the next mount removes or that is not part of the\n"
		 "store.  The last line is a summary.\n"
		 "\n"
		 "  -q, --quiet   prints damage only\n"
		 "  --no-data     does not read the SSTables, and checks only that they exist and\n"
		 "                have the size that METADATA states\n"
		 "\n"
		 "Exit status: 0 clean, 1 damaged, 2 it could not be checked or is in use.\n",
	.letters = ":qh",
	.options = (const struct option[]){{"quiet", no_argument, NULL, 'q'}, {"no-data", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'}, {0}},
	.least = 1,
	.most = 1,
	.run = check_run,
};
