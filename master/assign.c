/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns tablets to tablet servers (paper, sections 5.1 and 5.2).
 *
 * A pass does level by level, because each level is read from the level above: the root tablet
 * (lock service), METADATA's tablets (root tablet), users' tablets (METADATA).  These are
 * the steps for a level:
 *	0 BURY: send the servers the list of live servers.  Requests of dead servers cannot
 *	  change METADATA after the next step
 *	1 read the rows, and check that each table's tablets have no gap
 *	2 LIST: ask each live server which tablets it serves
 *	3 for each tablet whose server is dead, or that has none: write another server to the
 *	row, with the next assignment number, by check-and-set
 *	4 LOAD: ask the owners to serve what they do not serve yet A crash between two steps
 *	leaves rows that name an owner which does not serve the tablet.  The next pass, of this
 *	master or the next one, sends LOAD again.  Step 2 follows step 1, so the owner of a row
 *	that LIST does not show has the tablet as a part of a larger one that it is splitting
 *	(it then refuses LOAD with -EBUSY), or not at all.
 *
 * If a tablet of METADATA is not served, the pass continues with the other tablets.  It changes
 * nothing about a user's tablet whose row it cannot read, nor about the first tablet after each
 * gap, because its begin is unknown.  Such a pass finishes no drop.  No tablet is moved until a
 * pass has read all rows.  Without the root tablet a pass ends.
 *
 * A server is dead when its file servers/N in the lock service no longer exists, and
 * BURY of this pass has not named it as alive.  A server that has the file and cannot
 * be reached keeps its tablets: it may serve them to others.  Before step 3 for the
 * tablets of a dead server N:
 *	a a live server renames and reads N's log (TS_SEAL, engine/log/log_seal.c)
 *	b the seal becomes the file seals/N, unless a former master has made it
 * Then the new owners replay what the seal lists, and nothing that the dead server
 * may still write.  LOAD names the servers that sort the segments for them.
 *
 * In an embedded store (`sole`) the only server holds the lock of the store.  So a
 * row may continue to name the server of an earlier incarnation, and step 3 is
 * left to the server's first change of the row: opening a store writes nothing for
 * tablets that are only read.
 *
 * A pass finishes drops (drop.c).  The first pass of a master also deletes the rows
 * of tables that were partly made.  It ends with an error, and names the missing thing, in
 * these cases:
 *	- there are tables or SSTables, but no root file
 *	- a tablet has data, but its table has no schema and was not dropped
 *	- a table has no last tablet, or there is a gap between two tablets
 *	- METADATA names an incarnation that was never given out, so
 *	  lock/incarnation is an old copy
 *	- tables are refused, and lock/ids is not above all their ids Otherwise files that
 *	METADATA does not name would be removed, or names and ids used twice.
 *
 * A new store is made in two steps:
 *	1 create the lock service's file "root" with the root tablet's row; the root
 *	  tablet covers METADATA's own rows and has no files
 *	2 write the row of METADATA's one other tablet to the root tablet, synced
 * A crash between them leaves a root tablet without that row, and the next start
 * does step 2.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "engine/client/metadata.h"
#include "master/balance.h"
#include "master/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PASS_US UINT64_C(60000000)
#define ASSIGN_ROWS 256u /* rows that share one sync */

/* ---- steps 3 and 4 ---- */

void pass_point(struct pass *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		struct place *l = &p->v[i];

		l->at.begin = buf_bytes(&l->begin);
		l->at.end = l->end.p ? buf_bytes(&l->end) : (struct tfs_bytes){NULL, 0};
	}
}

/* Finds or chooses the server of each tablet. */
static int places_choose(struct pass *p)
{
	static const enum balance_kind kinds[] = {BALANCE_ROOT, BALANCE_METADATA, BALANCE_USER};
	struct balance_server *servers = calloc(p->server_count, sizeof(*servers));
	struct balance_tablet *tablets = calloc(p->count + 1u, sizeof(*tablets));
	uint64_t *to = calloc(p->count + 1u, sizeof(*to));
	const struct balance_state state = {
		.servers = servers, .server_count = p->server_count, .tablets = tablets, .tablet_count = p->count};
	int err = servers && tablets && to ? 0 : -ENOMEM;

	for (unsigned i = 0; i < p->server_count && !err; i++)
		servers[i] = (struct balance_server){.id = p->servers[i].incarnation, .draining = p->servers[i].draining};
	for (unsigned i = 0; i < p->count && !err; i++)
		tablets[i] = (struct balance_tablet){.kind = kinds[p->level], .server = p->v[i].at.server, .bytes = p->v[i].bytes};
	if (!err)
		err = balance_place(&state, to);
	for (unsigned i = 0; i < p->count && !err; i++) {
		struct place *l = &p->v[i];
		const struct live_server *s = pass_server(p, l->at.server);

		l->to = to[i];
		l->served = s && pass_serves(s, &l->at);
		l->assign = !s && !p->m->o.sole;
		if (!s && !pass_is_dead(p, l->at.server)) {
			l->to = 0;
			p->failed++;
		}
	}
	free(servers);
	free(tablets);
	free(to);
	return err;
}

/*
 * The next assignment number is above the numbers of all tablets.  A merged tablet has the
 * number of its upper part.  If the next number were only one higher, rows of the lower part
 * could get a number again that they had at the same server before, and late requests name this
 * number.
 */
static uint64_t next_assignment(struct pass *p, uint64_t now)
{
	uint64_t *last = &p->m->passes.assigned;

	*last = (*last > now ? *last : now) + 1;
	return *last;
}

/* Step 3 for the root tablet. */
static int assign_root(struct pass *p)
{
	struct place *l = &p->v[0];
	struct meta_tablet row = {0};
	struct buf b = {0};
	uint64_t version;
	int err = lock_get(p->m->locks, "root", &b, &version);

	if (!err)
		err = meta_root_decode(buf_bytes(&b), &row);
	if (!err && (row.server != l->at.server || row.assignment != l->at.assignment))
		err = -VERSION_CHANGED;
	row.server = l->to;
	row.assignment = next_assignment(p, row.assignment);
	buf_reset(&b);
	if (!err)
		err = meta_root_encode(&row, &b);
	if (!err)
		err = master_put(p->m, "root", buf_bytes(&b), version);
	if (!err) {
		l->at.server = row.server;
		l->at.assignment = row.assignment;
	}
	meta_tablet_fini(&row);
	buf_fini(&b);
	return err;
}

/* The mutations of a batch of rows. */
struct batch {
	struct arena arena;
	struct place *places[ASSIGN_ROWS];
	struct row_mutation rows[ASSIGN_ROWS];
	int errs[ASSIGN_ROWS];
	uint64_t assignments[ASSIGN_ROWS];
	unsigned count;
};

static int batch_add(struct pass *p, struct batch *b, struct place *l)
{
	const struct meta_tablet old = {.server = l->at.server, .assignment = l->at.assignment};
	struct row_mutation *row = &b->rows[b->count];
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, l->at.table, !l->at.end.p, l->at.end);

	if (!err && !arena_dup(&b->arena, buf_bytes(&key), &row->row))
		err = -ENOMEM;
	b->assignments[b->count] = next_assignment(p, old.assignment);
	if (!err)
		err = meta_ops_owner(&old, l->to, b->assignments[b->count], &b->arena, &ops, &count);
	if (!err) {
		row->ops = ops;
		row->op_count = count;
		b->places[b->count++] = l;
	}
	buf_fini(&key);
	return err;
}

/* Writes the rows.  They may belong to several tablets of METADATA. */
static int batch_write(struct pass *p, struct batch *b)
{
	const struct ts_request q = {
		.method = TS_MUTATE, .table = META_TABLE, .rows = b->rows, .row_count = b->count, .sync = true};
	struct ts_answer a = {.row_errs = b->errs};
	int err = b->count ? ts_call(p->m->tablets, &q, &a) : 0;

	if (err == -ECANCELED)
		err = 0; /* the error belongs to the only row, so b->errs has it */
	ts_answer_fini(&a);
	for (unsigned n = 0; n < b->count && !err; n++) {
		struct ts_assigned *t = &b->places[n]->at;

		if (b->errs[n] == -TABLET_MOVED)
			err = -TABLET_MOVED;
		if (b->errs[n]) {
			b->places[n]->to = 0; /* -ECANCELED: the row has changed.  The next pass reads it again */
			p->failed++;
			continue;
		}
		t->server = b->places[n]->to;
		t->assignment = b->assignments[n];
	}
	arena_fini(&b->arena);
	b->count = 0;
	return err;
}

/* Step 3. */
int pass_assign(struct pass *p)
{
	struct batch *b = p->m->o.sole ? NULL : calloc(1, sizeof(*b));
	int err = p->m->o.sole ? 0 : b ? 0 : -ENOMEM;

	for (unsigned i = 0; i < p->count && !err; i++) {
		if (!p->v[i].assign || !p->v[i].to)
			continue;
		if (p->level == LEVEL_ROOT) {
			err = assign_root(p);
			continue;
		}
		err = batch_add(p, b, &p->v[i]);
		if (!err && b->count == ASSIGN_ROWS)
			err = batch_write(p, b);
	}
	if (b && !err)
		err = batch_write(p, b);
	if (b)
		arena_fini(&b->arena);
	free(b);
	return err;
}

static bool must_load(const struct place *l, const struct live_server *s)
{
	return l->to == s->incarnation && !l->served;
}

/* The result of step 4 for one server. */
struct load_job {
	struct task task;
	struct pass *p;
	struct live_server *server;
	unsigned failed;
	int err; /* the error of the request, or the first error of a tablet */
	char *why;
};

static void load_job_run(struct load_job *j)
{
	struct pass *p = j->p;
	struct ts_request q = {.method = TS_LOAD, .term = master_term(p->m)};
	struct ts_assigned *v = calloc(p->count + 1u, sizeof(*v));
	uint64_t *live = calloc(p->server_count, sizeof(*live));
	struct ts_answer a = {.row_errs = calloc(p->count + 1u, sizeof(int))};
	int err = v && live && a.row_errs ? 0 : -ENOMEM, *errs = a.row_errs;

	for (unsigned i = 0; i < p->count && !err; i++)
		if (must_load(&p->v[i], j->server))
			v[q.tablet_count++] = p->v[i].at;
	for (unsigned i = 0; i < p->server_count && !err; i++)
		live[q.live_count++] = p->servers[i].incarnation;
	q.tablets = v;
	q.live = live;
	if (!err && q.tablet_count)
		err = ts_call(j->server->service, &q, &a);
	j->err = err;
	for (uint32_t i = 0, k = 0; k < q.tablet_count; i++) {
		int e;

		if (!must_load(&p->v[i], j->server))
			continue;
		e = err ? err : errs[k];
		k++;
		p->v[i].served = !e || e == -EBUSY;
		j->failed += e != 0;
		/* -EBUSY: it is being split; -TABLE_DROPPED: its table was dropped */
		if (!j->err && (p->start || (e != -EBUSY && e != -TABLE_DROPPED)))
			j->err = e;
	}
	if (a.why.n)
		why_set(&j->why, "%.*s", (int)a.why.n, (const char *)a.why.p);
	ts_answer_fini(&a);
	free(errs);
	free(live);
	free(v);
}

static int load_job_end(struct load_job *j)
{
	struct pass *p = j->p;

	p->failed += j->failed;
	if (j->why && pass_is_strict(p) && !*p->why)
		why_set(p->why, "%s", j->why);
	else if (j->why)
		msg_damage("%s", j->why);
	free(j->why);
	return j->err;
}

int pass_load(struct pass *p, struct live_server *s)
{
	struct load_job j = {.p = p, .server = s};

	load_job_run(&j);
	return load_job_end(&j);
}

static void load_task(struct task *t)
{
	load_job_run((struct load_job *)(void *)((char *)t - offsetof(struct load_job, task)));
}

/* Step 4 for all servers at once, because each may have a log to replay.  Returns the first error. */
static int load_all(struct pass *p)
{
	struct load_job *jobs = calloc(p->server_count, sizeof(*jobs));
	struct task_pool *pool = NULL;
	int err = jobs ? task_pool_new("load", p->server_count, &pool) : -ENOMEM, e;

	for (unsigned i = 0; i < p->server_count && !err; i++) {
		jobs[i] = (struct load_job){.p = p, .server = &p->servers[i]};
		task_init(&jobs[i].task, pool, load_task);
		task_queue(&jobs[i].task);
	}
	if (pool)
		task_pool_free(pool);
	for (unsigned i = 0; i < p->server_count && jobs && jobs[i].p; i++) {
		e = load_job_end(&jobs[i]);
		err = err ? err : e;
	}
	free(jobs);
	return err;
}

static int level_finish(struct pass *p)
{
	int err;

	pass_point(p);
	if (!p->one_table) /* the tablets of a new table are not served yet */
		pass_list(p);
	err = places_choose(p);
	if (!err)
		err = pass_assign(p);
	for (unsigned i = 0; i < p->count && p->level != LEVEL_USER && !err; i++)
		if (!p->v[i].to)
			err = pass_unread(p, -EAGAIN); /* a server that was left out could change the next level later */
	if (!err) {
		err = p->server_count > 1 ? load_all(p) : pass_load(p, &p->servers[0]);
		err = err && p->level == LEVEL_META ? pass_unread(p, err) : err;
	}
	/* Damage stops its tablets; in an embedded store it stops the start. */
	if ((err == -EBADMSG || err == -EPROTO) && !pass_is_strict(p))
		err = 0;
	if (p->level == LEVEL_META) {
		p->metadata = p->v;
		p->metadata_count = p->count;
		p->v = NULL;
		p->count = 0;
	}
	pass_clear(p);
	return err;
}

/* ---- the levels ---- */

/* found_one and found_file end a listing at the first entry. */
static int found_one(void *arg, const char *name)
{
	(void)arg, (void)name;
	return 1;
}

static int found_file(void *arg, const char *name, bool is_dir)
{
	(void)is_dir;
	return found_one(arg, name);
}

/* Returns 1 if the store has or had tables or SSTables, so it must have had a root tablet; 0 if not; -errno. */
static int is_used(struct master *m)
{
	char *sst = path_join(m->o.data_dir, "sst");
	struct buf ids = {0};
	int err = sst ? file_list(sst, found_file, NULL) : -ENOMEM;

	if (!err)
		err = m->locks->ops->list(m->locks, "tables", found_one, NULL);
	if (!err) {
		err = lock_get(m->locks, "ids", &ids, NULL);
		err = err == -ENOENT ? 0 : err ? err : 1;
	}
	buf_fini(&ids);
	free(sst);
	return err;
}

static int make_root(struct pass *p, struct meta_tablet *root)
{
	struct buf b = {0};
	int err;

	*root = (struct meta_tablet){.table = META_TABLE, .server = p->servers[0].incarnation, .assignment = 1};
	err = buf_append_bytes(&root->end, META_ROOT_END);
	if (!err)
		err = meta_root_encode(root, &b);
	if (!err)
		err = master_put(p->m, "root", buf_bytes(&b), LOCK_ABSENT);
	buf_fini(&b);
	return err;
}

/* Checks that the root tablet covers exactly METADATA's own rows. */
static int check_root(struct pass *p, const struct meta_tablet *row)
{
	if (row->table != META_TABLE || row->last || row->begin.n || !bytes_eq(buf_bytes(&row->end), META_ROOT_END))
		return -EBADMSG;
	return pass_check_past(p, row);
}

static int root_level(struct pass *p)
{
	struct meta_tablet row = {0};
	struct buf b = {0};
	int err = lock_get(p->m->locks, "root", &b, NULL), used;

	p->level = LEVEL_ROOT;
	if (!err) {
		err = meta_root_decode(buf_bytes(&b), &row);
		if (!err)
			err = check_root(p, &row);
	} else if (err == -ENOENT && p->start) {
		used = is_used(p->m);
		err = used > 0 ? -EBADMSG : used ? used : make_root(p, &row);
		if (used > 0)
			why_set(p->why, "lock/root: missing, though the store has been used");
	}
	if (err && p->why && !*p->why)
		why_set(p->why, "lock/root: the root tablet's row: %s", error_text(err));
	if (!err)
		err = pass_add(p, &row);
	if (!err)
		err = level_finish(p);
	meta_tablet_fini(&row);
	buf_fini(&b);
	return err;
}

static int make_metadata_tablet(struct pass *p)
{
	struct meta_tablet row = {.table = META_TABLE, .last = true, .server = p->servers[0].incarnation, .assignment = 1};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = buf_append_bytes(&row.begin, META_ROOT_END);

	if (!err)
		err = meta_row_key(&key, META_TABLE, true, (struct tfs_bytes){NULL, 0});
	if (!err)
		err = meta_ops_new(&row, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(p->m->tablets, buf_bytes(&key), ops, count);
	if (!err)
		err = buf_set(&p->begin, row.begin.p, row.begin.n);
	if (!err)
		err = pass_add(p, &row);
	meta_tablet_fini(&row);
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

static int meta_level(struct pass *p)
{
	int err;

	p->level = LEVEL_META;
	err = pass_read_metadata(p);
	if (!err && !p->count && p->start)
		err = make_metadata_tablet(p);
	return err ? err : level_finish(p);
}

static int user_level(struct pass *p)
{
	int err = pass_notes(p);

	p->level = LEVEL_USER;
	if (!err)
		err = pass_read_users(p);
	if (!err)
		p->m->passes.partial = p->partial;
	for (unsigned i = 0; i < p->orphan_count && !err; i++)
		err = metadata_delete(p->m->tablets, buf_bytes(&p->orphans[i]));
	if (!err && !p->partial)
		pass_drop(p);
	return err ? err : level_finish(p);
}

/* ---- passes ---- */

#define AGAIN_US UINT64_C(1000000)

static int pass_run(struct master *m, const struct start *start, char **why)
{
	struct pass p = {.m = m, .start = start, .why = why};
	int err = pass_servers(&p);

	m->passes.partial = true;
	if (!err)
		err = root_level(&p);
	if (!err)
		err = meta_level(&p);
	if (!err)
		err = user_level(&p);
	err = err ? err : p.unread;
	master_unblock_again(m);
	m->passes.unassigned = err || p.failed || p.left_out || p.partial || m->blocked_count;
	/* A tablet that stays unserved may be a damaged one, and each pass reads METADATA. */
	m->passes.again_us = !m->passes.unassigned || !m->passes.again_us || p.sum != m->passes.passed_servers ? AGAIN_US
		: 2 * m->passes.again_us < PASS_US ? 2 * m->passes.again_us
						   : PASS_US;
	m->passes.passed_us = monotonic_us();
	m->passes.passed_servers = p.sum;
	pass_fini(&p);
	return err;
}

int assign_first(struct master *m, const struct start *start, char **why)
{
	return pass_run(m, start, why);
}

int master_tick(struct master *m)
{
	struct pass p = {.m = m};
	int err = 0;

	master_lock_for_pass(m);
	if (monotonic_us() - m->passes.passed_us >= (m->passes.unassigned ? m->passes.again_us : PASS_US) || pass_find(&p) ||
		servers_sum(&p) != m->passes.passed_servers)
		err = pass_run(m, NULL, NULL);
	pass_fini(&p);
	master_unlock_after_pass(m);
	return err;
}

static void assign_again(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, passes.task));

	master_lock_for_pass(m);
	if (m->passes.unassigned)
		(void)!pass_run(m, NULL, NULL);
	if (m->passes.unassigned && !m->ending)
		task_queue_after(t, m->passes.again_us);
	master_unlock_after_pass(m);
}

void assign_soon(struct master *m)
{
	m->passes.unassigned = true;
	m->passes.passed_us = 0; /* the next tick makes a pass, too */
	master_later(m, &m->passes.task, assign_again, AGAIN_US);
}

static int assign_table_once(struct master *m, uint32_t table)
{
	struct pass p = {.m = m, .level = LEVEL_USER, .one_table = true};
	int err = pass_servers(&p);

	if (!err)
		err = pass_read_table(&p, table);
	if (!err && !p.last_seen)
		err = -TABLET_MOVED; /* a row is missing */
	if (!err)
		err = level_finish(&p);
	if (!err && p.failed)
		err = -EAGAIN;
	pass_fini(&p);
	return err;
}

int assign_table(struct master *m, uint32_t table)
{
	enum { TRIES = 3 }; /* a shortage of memory is often short */
	int err = -EAGAIN;

	for (unsigned i = 0; i < TRIES && err; i++)
		err = assign_table_once(m, table);
	if (err)
		assign_soon(m);
	return err;
}
