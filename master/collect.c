/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects files: removes SSTables, directories of dropped tables, and logs and
 * reserves (server/storage/space.c) of dead servers, when nothing refers to them any more.
 *
 * Three things refer to a file: a row of METADATA, also by its merge column; a
 * server, which reads it, lists it, or writes it as an output; a redo set, if the
 * file is a log.  A name that METADATA and all servers have lost is never used
 * again: a server adds a file to a row only if the file is its own output, or is
 * named by another row that it has (split, merge, copy).
 *
 * Candidates.  A server reports a file after an edit has removed it from a tablet
 * and its last reader there has ended (server/files.c).  The master adds the files
 * of the rows that it deletes.  A full round lists sst/ and adds the files that
 * METADATA does not name.  So each candidate was found unreferenced once.  Each
 * round checks its candidates a second time, and then removes them:
 *	1 Read the latest incarnation.  List log/, the reserves and, in a full round, sst/.
 *	2 Ask all live servers for reports, and for the logs that they need.
 *	3 Full round: scan METADATA, and drop the listed files that it names.  Then
 *	  sync all logs.
 *	4 Ask all servers which candidates they use.
 *	5 Scan METADATA, from the root file down.
 *	6 Ask all servers again, also for the logs that they need.
 *	7 Unlink the candidates that 4, 5 and 6 did not find, and remove the
 *	  directories of tables that have no row.
 * If METADATA cannot be read to its end, the round ends without a removal.  It
 * also ends if step 2, 4 or 6 gets no answer from a server that has a file
 * servers/N in the lock service, or that has answered before.  If the server
 * has died since then, its last edit may add a file to a row that was scanned.
 * A crash at any point leaves files that the next full round finds.
 *
 * A scan is not one instant.  It can miss a name that moves from a row that it
 * has not reached to one that it has passed: a split writes the lower row first.
 * The server that splits has the file before and after.  Step 4 and step 6 find it there,
 * unless the tablet moves between them.  If it moves once, one step finds it.
 *
 * A round is unsure if two tablets of one table moved between 4 and 6, or if a row
 * names a dead server.  It removes only candidates that the round before it has left, and
 * leaves the rest to the next round.
 *
 * A file that is created after step 1 is no candidate.  A file that existed then
 * belongs to a server that was registered before, so either it is live and is asked,
 * or it is dead.  A dead server may still run, without a lease, and its last edit may
 * be under way.  That edit succeeds only while the row names the server.  So as long
 * as a row names a dead server, no output and no log of that server is removed. In an
 * embedded store (`sole`) the earlier servers have ended for certain.
 *
 * Step 3 syncs because a change of METADATA that failed may be in a log that still
 * refuses writes, and a start would replay it.  A reported file needs no sync: the
 * edit that removed it is on disk.  So a store whose disk is full gets space.
 *
 * If a file of a dead incarnation is missing although METADATA names it, METADATA
 * may be old, because the end of its log was lost.  The newer data may then be in
 * files that METADATA does not name, and `tabletctl repair` can add them.  So listed
 * files are not removed.  Reported files are removed, because METADATA names the
 * files that replaced them.
 *
 * No file is removed that has no name of an SSTable, or an incarnation later than the latest:
 * the latest may be an old copy.
 *
 * Rounds start soon after a report.  They take at most one part in PACE of the time,
 * unless the disk is full.  A compaction that finds no space waits for a round.  A full round runs soon after the start and once an hour.
 * Without background work a round runs at the end of the start and of each request
 * that may have freed files.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hashtable.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_US UINT64_C(1000000)    /* the time from the start to the first full round */
#define EVERY_US UINT64_C(3600000000) /* the time between two full rounds */
#define AGAIN_US UINT64_C(60000000)   /* the pause after a round that failed or left candidates; in a cluster, after each round */
#define SOON_US UINT64_C(5000)        /* the time from a report to its round, because a compaction reports several files */
#define FINISH_US UINT64_C(5000000)   /* the longest that a clean end waits for its round */
enum { PACE = 20 };

/* A candidate: an SSTable, or (table 0) a server's log (number 0) or reserve.  LISTED: only step 1 has found it.  LEFT: the previous round left it. */
enum { REFERRED = 1, LISTED = 2, LEFT = 4 };
enum { RESERVE = 1 };
struct candidate {
	UT_hash_handle hh;
	struct file_name file;
	unsigned marks;
};

/* A directory sst/TABLE. */
struct table_dir {
	UT_hash_handle hh;
	uint32_t table;
	bool has_rows;
};

struct numbers {
	uint64_t *v;
	unsigned n;
};

struct round {
	struct master *m;
	struct candidate *candidates;
	struct table_dir *dirs;
	uint64_t latest;
	/*
	 * Incarnations of the servers that must answer, of the servers that have answered the
	 * present question, and of dead servers that a row names.
	 */
	struct numbers live, asked, dead_owners;
	bool full, look_for_missing;
	bool scanned; /* METADATA was scanned to its end */
	bool missing; /* a file of METADATA does not exist */
	uint64_t until_us;
	uint32_t table; /* the table whose directory is being listed */
	/* Steps 4 and 6. */
	struct ts_file *names;
	struct candidate **named;
	uint32_t count;
};

/* ---- sets ---- */

static bool numbers_have(const struct numbers *s, uint64_t x)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i] == x)
			return true;
	return false;
}

static int numbers_add(struct numbers *s, uint64_t x)
{
	if (numbers_have(s, x))
		return 0;
	if (array_grow(&s->v, s->n, sizeof(*s->v)))
		return -ENOMEM;
	s->v[s->n++] = x;
	return 0;
}

static struct candidate *candidate_find(struct round *r, struct file_name f)
{
	struct candidate *c;

	HASH_FIND(hh, r->candidates, &f, sizeof(f), c);
	return c;
}

static int dir_add(struct round *r, uint32_t table)
{
	struct table_dir *d;

	HASH_FIND(hh, r->dirs, &table, sizeof(table), d);
	if (d)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->table = table;
	HASH_ADD(hh, r->dirs, table, sizeof(d->table), d);
	if (!d->hh.tbl) {
		free(d);
		return -ENOMEM;
	}
	return 0;
}

/* Files with a later incarnation are ignored. */
static int candidate_add(struct round *r, struct file_name f, unsigned marks)
{
	struct candidate *c = candidate_find(r, f);

	if (f.incarnation > r->latest)
		return 0;
	if (c) {
		c->marks = (c->marks & (marks | REFERRED | LEFT)) | (marks & LEFT);
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->file = f;
	c->marks = marks;
	HASH_ADD(hh, r->candidates, file, sizeof(c->file), c);
	if (!c->hh.tbl) {
		free(c);
		return -ENOMEM;
	}
	return f.table ? dir_add(r, (uint32_t)f.table) : 0;
}

static void candidate_refer(struct round *r, uint32_t table, uint64_t incarnation, uint64_t number)
{
	struct candidate *c = candidate_find(r, (struct file_name){table, incarnation, number});

	if (c) {
		c->marks |= REFERRED;
	} else if (r->look_for_missing && table && incarnation <= r->latest && !numbers_have(&r->live, incarnation) &&
		!r->missing) {
		r->missing = true;
		if (!r->m->collector.missing)
			msg_error(
				"%s/sst/%u/%llu-%llu.sst: missing, though a tablet lists it; files that no tablet lists are not removed: tabletctl repair may need them",
				r->m->o.data_dir, table, (unsigned long long)incarnation, (unsigned long long)number);
	}
}

/* Drops the candidates that are referred to. */
static void candidates_prune(struct round *r)
{
	struct candidate *c, *tmp;

	HASH_ITER(hh, r->candidates, c, tmp)
	{
		if (!(c->marks & REFERRED))
			continue;
		HASH_DEL(r->candidates, c);
		free(c);
	}
}

/* ---- step 1: lists ---- */

/* log/N, or log/N.dead of a server that was sealed. */
static int list_log(void *arg, const char *name, bool is_dir)
{
	struct round *r = arg;
	const char *rest;
	uint64_t n;

	if (!is_dir || !(number_parse(name, 0, &n, NULL) || (number_parse(name, '.', &n, &rest) && strcmp(rest, "dead") == 0)))
		return 0;
	return candidate_add(r, (struct file_name){0, n, 0}, 0);
}

/* The reserve of a server of a cluster. */
static int list_reserve(void *arg, const char *name, bool is_dir)
{
	uint64_t n;

	return !is_dir && meta_reserve_parse(name, &n) ? candidate_add(arg, (struct file_name){0, n, RESERVE}, 0) : 0;
}

static int list_sstable(void *arg, const char *name, bool is_dir)
{
	struct round *r = arg;
	uint64_t incarnation, number;

	if (is_dir || !meta_sstable_parse(name, &incarnation, &number))
		return 0;
	return candidate_add(r, (struct file_name){r->table, incarnation, number}, LISTED);
}

static int list_table(void *arg, const char *name, bool is_dir)
{
	struct round *r = arg;
	uint64_t table;
	char *dir;
	int err;

	if (!is_dir || !number_parse(name, 0, &table, NULL) || !table || table > UINT32_MAX)
		return 0;
	if (asprintf(&dir, "%s/sst/%s", r->m->o.data_dir, name) < 0)
		return -ENOMEM;
	r->table = (uint32_t)table;
	err = dir_add(r, r->table);
	if (!err)
		err = file_list(dir, list_sstable, r);
	free(dir);
	return err == -ENOENT ? 0 : err;
}

/* A file servers/N of the lock service. */
static int list_server(void *arg, const char *name)
{
	struct round *r = arg;
	uint64_t n;

	return number_parse(name, 0, &n, NULL) ? numbers_add(&r->live, n) : 0;
}

static int list_dir(struct round *r, const char *name, int (*fn)(void *arg, const char *name, bool is_dir))
{
	char *dir = path_join(r->m->o.data_dir, name);
	int err = dir ? file_list(dir, fn, r) : -ENOMEM;

	free(dir);
	return err;
}

/* ---- steps 2, 4, 6: questions to the servers ---- */

/* A report in step 6 is kept for the next round. */
static int report_take(struct round *r, const struct ts_file *f)
{
	const struct file_name name = {f->table, f->incarnation, f->number};

	return r->scanned ? collect_add(r->m, name, false) : candidate_add(r, name, 0);
}

static int ask_for_reports(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	struct round *r = arg;
	const struct ts_request q = {.method = TS_FILES, .term = master_term(r->m)};
	bool more = true;
	int err = numbers_add(&r->asked, incarnation);

	candidate_refer(r, 0, incarnation, 0); /* the log of this server */
	candidate_refer(r, 0, incarnation, RESERVE);
	while (!err && more) {
		struct ts_answer a = {0};

		err = ts_call(service, &q, &a);
		for (uint32_t i = 0; !err && i < a.file_count; i++)
			err = report_take(r, &a.files[i]);
		for (uint32_t i = 0; !err && i < a.log_count; i++)
			candidate_refer(r, 0, a.logs[i], 0);
		more = a.file_count;
		ts_answer_fini(&a);
	}
	return err;
}

static int ask_for_use(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	struct round *r = arg;
	int *errs = calloc(TS_FILES_MAX, sizeof(*errs)), err = errs ? numbers_add(&r->asked, incarnation) : -ENOMEM;

	for (uint32_t i = 0; i < r->count && !err; i += TS_FILES_MAX) {
		struct ts_request q = {
			.method = TS_FILES, .files = r->names + i, .file_count = r->count - i, .term = master_term(r->m)};
		struct ts_answer a = {.row_errs = errs};

		if (q.file_count > TS_FILES_MAX)
			q.file_count = TS_FILES_MAX;
		err = ts_call(service, &q, &a);
		for (uint32_t k = 0; k < q.file_count && !err; k++)
			if (errs[k])
				r->named[i + k]->marks |= REFERRED;
		ts_answer_fini(&a);
	}
	free(errs);
	return err;
}

/* Asks each server.  -EAGAIN: a server that must answer was not reached. */
static int ask_servers(struct round *r, tablet_server_fn *fn)
{
	const struct tablet_servers *s = &r->m->o.servers;
	int err = lock_sync(r->m->locks);

	r->asked.n = 0;
	if (!err)
		err = r->m->locks->ops->list(r->m->locks, "servers", list_server, r);
	if (!err)
		err = s->each(s->arg, fn, r);
	for (unsigned i = 0; i < r->live.n && !err; i++)
		err = numbers_have(&r->asked, r->live.v[i]) ? 0 : -EAGAIN;
	for (unsigned i = 0; i < r->asked.n && !err; i++)
		err = numbers_add(&r->live, r->asked.v[i]);
	return err;
}

/* Asks which candidates the servers use. */
static int ask_all(struct round *r)
{
	unsigned n = HASH_COUNT(r->candidates);
	int err = -ENOMEM;

	r->count = 0;
	r->names = calloc(n + 1u, sizeof(*r->names));
	r->named = calloc(n + 1u, sizeof(struct candidate *));
	if (r->names && r->named) {
		for (struct candidate *c = r->candidates; c; c = c->hh.next) {
			if (!c->file.table)
				continue;
			r->names[r->count] = (struct ts_file){(uint32_t)c->file.table, c->file.incarnation, c->file.number};
			r->named[r->count++] = c;
		}
		err = ask_servers(r, ask_for_use);
	}
	free(r->names);
	free(r->named);
	return err;
}

/* ---- steps 3 and 5: METADATA ---- */

static bool is_over(const struct round *r)
{
	return r->m->collector.stop || (r->until_us && monotonic_us() > r->until_us);
}

static int mark_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	struct round *r = arg;
	struct table_dir *d;
	int err = is_over(r) ? -ECANCELED : 0;

	HASH_FIND(hh, r->dirs, &m->table, sizeof(m->table), d);
	if (d)
		d->has_rows = true;
	if (!err && !r->m->o.sole && m->server && !numbers_have(&r->live, m->server))
		err = numbers_add(&r->dead_owners, m->server);
	for (; m && !err; m = m->merge) {
		for (unsigned i = 0; i < m->file_count; i++)
			candidate_refer(r, m->files[i].table, m->files[i].incarnation, m->files[i].number);
		for (unsigned i = 0; i < m->redo_count; i++)
			candidate_refer(r, 0, m->redo[i].incarnation, 0);
	}
	return err;
}

static int scan(struct round *r)
{
	struct meta_tablet m = {0};
	struct buf b = {0};
	int err = lock_get(r->m->locks, "root", &b, NULL);

	if (!err)
		err = meta_root_decode(buf_bytes(&b), &m);
	if (!err)
		err = mark_row(r, (struct tfs_bytes){NULL, 0}, &m);
	meta_tablet_fini(&m);
	buf_fini(&b);
	if (!err)
		err = metadata_scan(
			r->m->tablets, (struct tfs_bytes){(const uint8_t *)"", 0}, (struct tfs_bytes){NULL, 0}, mark_row, r);
	r->scanned |= !err;
	return err;
}

static int sync_logs(struct round *r)
{
	const struct ts_request q = {.method = TS_SYNC};
	struct ts_answer a = {0};
	int err = ts_call(r->m->tablets, &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* Step 3. */
static int check_listed(struct round *r)
{
	int err;

	r->look_for_missing = true;
	err = scan(r);
	r->look_for_missing = false;
	if (!err)
		r->m->collector.missing = r->missing;
	candidates_prune(r);
	return !err && r->candidates ? sync_logs(r) : err;
}

/* ---- step 7 ---- */

static int unlink_segment(void *arg, const char *name, bool is_dir)
{
	char *path = is_dir ? NULL : path_join(arg, name);
	int err = path ? file_unlink(path) : is_dir ? 0 : -ENOMEM;

	free(path);
	return err;
}

/* Removes the log under both of its names, then the server's files in the lock service. */
static int remove_log(struct round *r, uint64_t incarnation)
{
	static const char *const notes[] = {"seals", "draining", "removed"};
	int err = 0;

	for (unsigned i = 0; i < 2 && !err; i++) {
		char *dir;

		if (asprintf(&dir, "%s/log/%llu%s", r->m->o.data_dir, (unsigned long long)incarnation, i ? ".dead" : "") < 0)
			return -ENOMEM;
		err = file_list(dir, unlink_segment, dir);
		if (!err)
			err = file_rmdir(dir);
		if (err == -ENOENT)
			err = 0;
		else if (err)
			msg_warning("%s: this old log cannot be removed: %s", dir, error_text(err));
		free(dir);
	}
	for (unsigned i = 0; i < sizeof(notes) / sizeof(*notes) && !err; i++) {
		char note[40];

		snprintf(note, sizeof(note), "%s/%llu", notes[i], (unsigned long long)incarnation);
		if (lock_get(r->m->locks, note, NULL, NULL) != -ENOENT)
			err = master_remove(r->m, note);
	}
	return err;
}

static int remove_reserve(struct round *r, uint64_t incarnation)
{
	char *path;
	int err;

	if (asprintf(&path, "%s/" RESERVE_FILE ".%llu", r->m->o.data_dir, (unsigned long long)incarnation) < 0)
		return -ENOMEM;
	err = file_unlink(path);
	free(path);
	return err == -ENOENT ? 0 : err;
}

static int remove_sstable(struct round *r, const struct candidate *c)
{
	const struct file_name *f = &c->file;
	char *path;
	int err;

	if (asprintf(&path, "%s/sst/%u/%llu-%llu.sst", r->m->o.data_dir, (unsigned)f->table, (unsigned long long)f->incarnation,
		    (unsigned long long)f->number) < 0)
		return -ENOMEM;
	err = file_unlink(path);
	if (!err && c->marks & LISTED)
		msg_info("%s: removed, no tablet refers to it", path);
	else if (err == -ENOENT)
		err = 0;
	else if (err)
		msg_warning("%s: cannot be removed: %s", path, error_text(err));
	free(path);
	return err;
}

/* Removes the candidate, or leaves it for the next round. */
static int remove_candidate(struct round *r, const struct candidate *c, bool unsure)
{
	const struct file_name *f = &c->file;

	if (c->marks & LISTED && r->m->collector.missing)
		return 0;
	if (is_over(r) || numbers_have(&r->dead_owners, f->incarnation) || (unsure && !(c->marks & LEFT)) ||
		(f->table                   ? remove_sstable(r, c)
				: f->number ? remove_reserve(r, f->incarnation)
					    : remove_log(r, f->incarnation)))
		return collect_add(r->m, *f, true);
	return 0;
}

static int remove_all(struct round *r)
{
	struct collector *l = &r->m->collector;
	bool unsure = r->dead_owners.n;
	int err = 0;

	mutex_lock(&l->lock);
	unsure |= l->moved_twice;
	mutex_unlock(&l->lock);
	for (struct candidate *c = r->candidates; c; c = c->hh.next)
		if (remove_candidate(r, c, unsure))
			err = -ENOMEM;
	for (struct table_dir *d = r->scanned ? r->dirs : NULL; d; d = d->hh.next) {
		char *dir;

		if (d->has_rows || asprintf(&dir, "%s/sst/%u", r->m->o.data_dir, d->table) < 0)
			continue;
		(void)!file_rmdir(dir); /* it may have other files, or not exist */
		free(dir);
	}
	return err;
}

/* ---- rounds ---- */

/* Moves the candidates of the master's list to the round. */
static int take_candidates(struct round *r)
{
	struct collector *c = &r->m->collector;
	struct collect_name *list;
	unsigned count;
	int err = 0;

	mutex_lock(&c->lock);
	list = c->list;
	count = c->count;
	c->list = NULL;
	c->count = 0;
	mutex_unlock(&c->lock);
	for (unsigned i = 0; i < count && !err; i++)
		err = candidate_add(r, list[i].file, list[i].left ? LEFT : 0);
	free(list);
	return err;
}

static int round_run(struct round *r)
{
	int err = master_incarnation(r->m, &r->latest);

	if (!err)
		err = take_candidates(r);
	if (!err)
		err = list_dir(r, "log", list_log);
	if (!err)
		err = list_dir(r, "", list_reserve);
	if (!err && r->full)
		err = list_dir(r, "sst", list_table);
	if (!err)
		err = ask_servers(r, ask_for_reports);
	candidates_prune(r);
	if (!err && r->full)
		err = check_listed(r);
	collect_forget_moves(&r->m->collector);
	if (!err && r->candidates)
		err = ask_all(r);
	candidates_prune(r);
	if (!err && r->candidates)
		err = scan(r);
	candidates_prune(r);
	if (!err && r->candidates)
		err = ask_all(r);
	if (!err && r->candidates)
		err = ask_servers(r, ask_for_reports);
	return err;
}

static int collect_round(struct master *m, bool full, uint64_t until_us)
{
	struct collector *c = &m->collector;
	struct round r = {.m = m, .full = full, .until_us = until_us};
	struct candidate *x, *tmp;
	struct table_dir *d, *next;
	int err;

	mutex_lock(&c->rounds);
	err = round_run(&r);
	if (!err) {
		candidates_prune(&r);
		err = remove_all(&r);
	} else {
		for (x = r.candidates; x; x = x->hh.next)
			if (!(x->marks & (LISTED | REFERRED)) && x->file.table)
				(void)!collect_add(m, x->file, x->marks & LEFT);
	}
	if (!err && full)
		c->full_due_us = monotonic_us() + EVERY_US;
	mutex_unlock(&c->rounds);
	HASH_ITER(hh, r.candidates, x, tmp)
	{
		HASH_DEL(r.candidates, x);
		free(x);
	}
	HASH_ITER(hh, r.dirs, d, next)
	{
		HASH_DEL(r.dirs, d);
		free(d);
	}
	free(r.live.v);
	free(r.asked.v);
	free(r.dead_owners.v);
	return err;
}

/* ---- when rounds run ---- */

int master_collect(struct master *m, bool full)
{
	uint64_t from_us = monotonic_us(), now_us;
	int err = collect_round(m, full, 0);

	now_us = monotonic_us();
	m->collector.not_before_us = now_us + PACE * (now_us - from_us);
	return err;
}

static bool has_candidates(struct collector *c)
{
	bool any;

	mutex_lock(&c->lock);
	any = c->count;
	mutex_unlock(&c->lock);
	return any;
}

static void collect_task(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, collector.task));
	struct collector *c = &m->collector;
	uint64_t now_us = monotonic_us(), after_us;
	int err = master_collect(m, now_us >= c->full_due_us);

	if (c->stop)
		return;
	if (err && err != c->reported_err)
		msg_warning("%s: the collection of files failed: %s", m->o.data_dir, error_text(err));
	c->reported_err = err;
	c->again_us = !err ? AGAIN_US : c->again_us * 2 < EVERY_US ? c->again_us * 2 : EVERY_US;
	now_us = monotonic_us();
	after_us = c->full_due_us > now_us ? c->full_due_us - now_us : 0;
	/* The servers of a cluster are asked for reports from time to time. */
	if (err || ((has_candidates(c) || !m->o.sole) && after_us > c->again_us))
		after_us = c->again_us;
	task_queue_after(t, after_us);
}

void master_collect_soon(void *arg, bool at_once)
{
	struct master *m = arg;
	struct collector *c = &m->collector;
	uint64_t now_us, not_before_us = c->not_before_us;

	c->wanted = true;
	if (!c->pool || c->stop)
		return;
	now_us = monotonic_us();
	task_queue_after(&c->task, at_once || not_before_us < now_us + SOON_US ? SOON_US : not_before_us - now_us);
}

void master_collect_now(void *arg)
{
	(void)!master_collect(arg, false); /* the caller looks at the free space */
}

void collect_wanted(struct master *m)
{
	if (m->o.no_background && atomic_exchange(&m->collector.wanted, false))
		(void)!master_collect(m, false); /* the next round collects the rest */
}

int master_collect_begin(struct master *m)
{
	struct collector *c = &m->collector;

	if (m->o.no_background) {
		(void)!master_collect(m, true);
		return 0;
	}
	if (task_pool_new("collect", 1, &c->pool))
		return -ENOMEM;
	task_init(&c->task, c->pool, collect_task);
	task_queue_after(&c->task, FIRST_US);
	return 0;
}

/* A round may take long.  It ends at its next row of METADATA or file. */
static void collect_stop(struct collector *c)
{
	c->stop = true;
	if (c->pool) {
		task_cancel(&c->task);
		task_pool_free(c->pool);
		c->pool = NULL;
	}
}

void master_finish(struct master *m)
{
	struct collector *c = &m->collector;
	uint64_t until_us = monotonic_us() + FINISH_US;

	master_end_tasks(m); /* the tasks may ask for a round */
	collect_stop(c);
	c->stop = false;
	if (collect_round(m, !c->full_due_us, until_us) == 0 && has_candidates(c))
		(void)!collect_round(m, false, until_us);
}

void collect_init(struct master *m)
{
	mutex_init(&m->collector.rounds, RANK_COLLECT);
	mutex_init(&m->collector.lock, RANK_FILES);
	m->collector.again_us = AGAIN_US;
}

void collect_fini(struct master *m)
{
	struct collector *c = &m->collector;

	collect_stop(c);
	mutex_fini(&c->rounds);
	mutex_fini(&c->lock);
	free(c->list);
	free(c->moved);
}
