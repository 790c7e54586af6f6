/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays the logs of dead incarnations (paper, section 5.3, and section 6
 * "Speeding up tablet recovery").
 *
 * The level of the root tablet reads each log that it needs, and keeps the few
 * records of METADATA in memory for the level of METADATA's tablets.  The level
 * of user tablets reads the logs again, because user tablets can only be found
 * through METADATA.  It works in stretches of the log (log_sort.h).  A stretch is
 * read and sorted by (table, row, LSN), so that the records of one tablet are
 * adjacent.  Worker threads apply them tablet by tablet while the next stretch
 * is read.  At most two stretches are in memory, so a log of any length needs
 * bounded memory.  A stretch is applied only after the previous one, so a tablet
 * gets the stretches in order.
 *
 * Replayed data that a reader has seen must not be lost.  The dead process may
 * have been killed before it synced its last records, and a sync of this
 * server's log does not cover them.  So a log is synced at the first level that
 * replays a record of it, before the server writes anything that depends on it.
 * No process writes to that log any more.
 *
 * On shared storage a zombie may still write to it.  So the log has a seal
 * (seal.c), which was made after such a sync, and only the records that it
 * lists are replayed.
 *
 * Each segment of a sealed log is read by one server.  It sorts the segment, and the
 * owners of tablets get the parts with their rows from it, at each level (TS_SORT, sorter.c).
 * The owner asks for the parts in the order of the log, and applies one run while it
 * gets the next.
 *
 * If a log or its seal is damaged, the tablets whose redo sets name it fail, and all other
 * tablets are loaded.
 */
#include "engine/server/tablets/tablets.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/log/log_sort.h"
#include "engine/log/log_sorted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT_BYTES                                                                                                                 \
	(8u << 20) /* the most bytes of METADATA's records that are kept; if there are more, the log is read again for METADATA's tablets */
#define WORKERS_MOST 16

struct dead_log {
	struct redo_point from; /* where the replay of this level begins */
	char *dir;              /* NULL: not looked for yet */
	bool sealed;
	struct log_seal seal;
	int err;     /* the result of the last replay */
	bool wanted; /* a row of this level names the log */
	bool synced;
	uint64_t lost;            /* whole records after the log's end, which cannot be replayed */
	struct log_stretch *kept; /* METADATA's records with LSNs from kept_from on; NULL: not read, or too many */
	uint64_t kept_from;
};

struct replays {
	struct needed_logs of_start;
	_Atomic uint64_t lost; /* records */
};

struct needed_logs *replays_of_start(struct server *s)
{
	return &s->replays->of_start;
}

void replays_end_start(struct server *s)
{
	replay_needed_fini(&s->replays->of_start);
	s->replays->of_start = (struct needed_logs){0};
}

uint64_t replays_lost(const struct server *s)
{
	return atomic_load(&s->replays->lost);
}

int replay_need(struct needed_logs *n, const struct meta_tablet *m)
{
	for (unsigned k = 0; k < m->redo_count; k++) {
		const struct redo_point *p = &m->redo[k];
		unsigned i = 0;

		while (i < n->count && n->v[i].from.incarnation != p->incarnation)
			i++;
		if (i == n->count) {
			if (array_grow(&n->v, n->count, sizeof(*n->v)))
				return -ENOMEM;
			n->v[n->count++] = (struct dead_log){0};
		}
		if (!n->v[i].wanted || p->lsn < n->v[i].from.lsn)
			n->v[i].from = *p;
		n->v[i].wanted = true;
	}
	return 0;
}

static int sync_segment(void *arg, const char *name, bool is_dir)
{
	char *path = path_join(arg, name);
	struct file *f = NULL;
	int err = path ? 0 : -ENOMEM;

	if (!err && !is_dir)
		err = file_open(path, FILE_READ, &f);
	if (f)
		err = file_sync(f);
	file_close(f);
	free(path);
	return err;
}

static int sync_log(char *dir)
{
	int err = file_list(dir, sync_segment, dir);

	return err ? err : file_sync_dir(dir);
}

/* ---- one log for one level ---- */
struct replay {
	struct server *s;
	enum kind kind;
	uint64_t incarnation;
	uint64_t records; /* replayed, of tablets of this level */
	uint64_t bad_lsn; /* the LSN of the record with a damaged batch, or 0 */
	struct log_end end;
	struct log_stretch *keep; /* used for KIND_ROOT: METADATA's records that have been read; NULL if there were too many */
	struct crew *crew;        /* used for user tablets, and for a sealed log */
	const struct ts_request *load;
};

/* ---- the root tablet and METADATA: record by record ---- */
static int apply_meta(struct replay *p, const struct log_record *r)
{
	struct served_tablet *served;
	int err = served_find_any(p->s, r->table, r->row_from, &served);

	if (err)
		return err == -TABLET_MOVED ? 0 : err; /* the record's tablet belongs to a level that is not loaded yet */
	if (served->kind == p->kind && atomic_load(&served->loading)) {
		err = tablet_replay(served->tablet, p->incarnation, &r, 1, &p->bad_lsn);
		p->records++;
	}
	served_put(served);
	return err;
}

static int meta_record(void *arg, const struct log_record *r)
{
	struct replay *p = arg;
	int err = 0;

	if (r->table != META_TABLE)
		return 0;
	if (p->keep)
		err = log_stretch_add(p->keep, r);
	if (err == -ENOSPC) { /* too many records, so the next level reads the log again */
		log_stretch_free(p->keep);
		p->keep = NULL;
		err = 0;
	}
	return err ? err : apply_meta(p, r);
}

static int replay_meta(struct replay *p, struct dead_log *d, char **why)
{
	int err = 0;

	if (p->kind == KIND_META && d->kept && d->kept_from <= d->from.lsn) {
		size_t count;
		const struct log_record *const *v = log_stretch_records(d->kept, &count);

		for (size_t i = 0; i < count && !err; i++)
			err = apply_meta(p, v[i]);
		return err;
	}
	if (p->kind == KIND_ROOT)
		err = log_stretch_new(KEPT_BYTES, &p->keep);
	if (!err)
		err = log_replay(d->dir, d->from.lsn, meta_record, p, &p->end, why);
	log_stretch_free(d->kept); /* records that begin above the redo point of this level */
	d->kept = p->keep;
	d->kept_from = d->from.lsn;
	return err;
}

/* ---- user tablets, and sealed logs: sorted, by several threads ---- */
/* The records of one tablet in a stretch. */
struct tablet_records {
	struct served_tablet *served;
	const struct log_record *const *v;
	size_t n;
	int err;
	uint64_t bad_lsn;
};

struct worker {
	struct task task;
	struct crew *crew;
};

/* The worker threads, and the two stretches. */
struct crew {
	struct server *s;
	struct task_pool *pool;
	struct log_stretch *fill;    /* being read */
	struct log_stretch *applied; /* being applied, tablet by tablet */
	uint64_t incarnation;
	struct tablet_records *tablets;
	unsigned tablet_count;
	_Atomic unsigned next; /* index of the first tablet that no worker has taken */
	unsigned worker_count;
	struct worker workers[WORKERS_MOST];
};

static void worker_run(struct task *t)
{
	struct crew *c = ((struct worker *)(void *)((char *)t - offsetof(struct worker, task)))->crew;
	unsigned i;

	while ((i = atomic_fetch_add(&c->next, 1)) < c->tablet_count) {
		struct tablet_records *p = &c->tablets[i];

		p->err = tablet_replay(p->served->tablet, c->incarnation, p->v, p->n, &p->bad_lsn);
	}
}

static void crew_free(struct crew *c)
{
	if (!c)
		return;
	task_pool_free(c->pool);
	log_stretch_free(c->fill);
	log_stretch_free(c->applied);
	free(c->tablets);
	free(c);
}

static int crew_new(struct server *s, struct crew **out)
{
	struct crew *c = calloc(1, sizeof(*c));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int err;

	if (!c)
		return -ENOMEM;
	c->s = s;
	c->worker_count = cpus < 1 ? 1 : cpus > WORKERS_MOST ? WORKERS_MOST : (unsigned)cpus;
	err = task_pool_new("replay", c->worker_count, &c->pool);
	if (!err)
		err = log_stretch_new(s->o.replay_part_bytes, &c->fill);
	if (!err)
		err = log_stretch_new(s->o.replay_part_bytes, &c->applied);
	if (err) {
		crew_free(c);
		return err;
	}
	for (unsigned i = 0; i < c->worker_count; i++) {
		c->workers[i].crew = c;
		task_init(&c->workers[i].task, c->pool, worker_run);
	}
	*out = c;
	return 0;
}

/* Waits until the workers have applied their stretch.  Returns the error of its first damaged record, and its LSN in *bad_lsn. */
static int crew_wait(struct crew *c, uint64_t *bad_lsn)
{
	int err = 0;

	task_pool_drain(c->pool);
	for (unsigned i = 0; i < c->tablet_count; i++) {
		struct tablet_records *p = &c->tablets[i];

		if (p->err && (!err || p->bad_lsn < *bad_lsn)) {
			err = p->err;
			*bad_lsn = p->bad_lsn;
		}
		served_put(p->served);
	}
	c->tablet_count = 0;
	return err;
}

static int tablet_records_add(struct crew *c, struct served_tablet *served, const struct log_record *const *v, size_t n)
{
	if (array_grow(&c->tablets, c->tablet_count, sizeof(*c->tablets)))
		return -ENOMEM;
	c->tablets[c->tablet_count++] = (struct tablet_records){.served = served, .v = v, .n = n};
	return 0;
}

/* Returns how many of the sorted records, from the first on, belong to the first one's table and to the tablet's rows. */
static size_t tablet_records_count(const struct served_tablet *served, const struct log_record *const *v, size_t count)
{
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		bool in =
			v[mid]->table == v[0]->table && (served->last || bytes_cmp(v[mid]->row_from, buf_bytes(&served->end)) < 0);

		if (in)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Passes sorted records to the workers, which have nothing to do. */
static int hand_out(struct replay *p, const struct log_record *const *v, size_t count)
{
	struct crew *c = p->crew;
	int err;

	c->incarnation = p->incarnation;
	atomic_store(&c->next, 0);
	for (size_t i = 0, n; i < count; i += n) {
		struct served_tablet *served = NULL;

		err = served_find_any(p->s, v[i]->table, v[i]->row_from, &served);
		if (err && err != -TABLET_MOVED)
			return err;
		n = 1;
		if (err)
			continue; /* the table was dropped, or another server has the row */
		n = tablet_records_count(served, v + i, count - i);
		if (served->kind != p->kind ||
			!atomic_load(&served->loading)) { /* the tablet was loaded before, and has these records */
			served_put(served);
			continue;
		}
		err = tablet_records_add(c, served, v + i, n);
		if (err) {
			served_put(served);
			return err;
		}
		p->records += n;
	}
	for (unsigned i = 0; i < c->worker_count && i < c->tablet_count; i++)
		task_queue(&c->workers[i].task);
	return 0;
}

/* Sorts the stretch that was read, waits for the workers, and passes it to them. */
static int hand_over(struct replay *p)
{
	struct crew *c = p->crew;
	const struct log_record *const *v;
	struct log_stretch *s = c->fill;
	size_t count;
	int err;

	log_stretch_sort(s);
	err = crew_wait(c, &p->bad_lsn);
	if (err)
		return err;
	c->fill = c->applied;
	c->applied = s;
	log_stretch_clear(c->fill);
	v = log_stretch_records(s, &count);
	return hand_out(p, v, count);
}

static int user_record(void *arg, const struct log_record *r)
{
	struct replay *p = arg;
	int err;

	if (r->table == META_TABLE)
		return 0;
	err = log_stretch_add(p->crew->fill, r);
	if (err == -ENOSPC) {
		err = hand_over(p);
		if (!err)
			err = log_stretch_add(p->crew->fill, r);
	}
	return err;
}

/* ---- sealed logs: each owner gets the parts with its rows from the servers that sort the segments ---- */
/* Sends the request to the k-th of the servers that may be asked for the segment.  The last one is this server. */
static int sort_call(struct replay *p, const struct ts_request *q, uint32_t k, struct ts_answer *a)
{
	const struct tablet_servers *servers = &p->s->o.servers;
	const uint32_t count = p->load->live_count;
	const uint64_t to = k < count ? p->load->live[(q->part + k) % count] : p->s->o.incarnation;
	struct tablet_service *other;

	if (to == p->s->o.incarnation)
		return sorter_call(p->s, q, a);
	other = servers->connect ? servers->connect(servers->arg, to) : NULL;
	return other ? ts_call(other, q, a) : -UNREACHABLE;
}

static int sorted_record(void *arg, const struct log_record *r)
{
	struct replay *p = arg;
	int err = log_stretch_add(p->crew->fill, r);

	return err == -ENOSPC ? -EFBIG : err; /* the runs of the server that was asked are larger */
}

/* If the server that should have sorted the segment does not answer, the next one sorts it. */
static int replay_segment(struct replay *p, const struct dead_log *d, struct ts_request *q, char **why)
{
	uint32_t k = 0;
	int err;

	q->scan = 0;
	do {
		struct ts_answer a = {0};

		while ((err = sort_call(p, q, k, &a)) && err != -SESSION_ENDED && !q->scan && k < p->load->live_count) {
			ts_answer_fini(&a);
			a = (struct ts_answer){0};
			k++;
		}
		if (err && a.why.n)
			why_set(why, "%.*s", (int)a.why.n, (const char *)a.why.p);
		if (err == -EBADMSG && q->scan)
			err = -EIO;
		if (!err)
			err = log_sorted_decode(&d->seal, q->part, a.log, sorted_record, p);
		q->scan = a.scan;
		if (!err && a.batch.done)
			err = hand_over(p);
		ts_answer_fini(&a);
	} while (!err && q->scan);
	return err;
}

static int replay_sealed(struct replay *p, const struct dead_log *d, char **why)
{
	struct ts_request q = {.method = TS_SORT,
		.incarnation = p->incarnation,
		.parts = p->load->live_count + !p->load->live_count,
		.term = p->load->term};
	size_t first, count;
	int err = log_seal_range(&d->seal, d->from.lsn, d->dir, &first, &count, why);

	for (size_t i = 0; !err && i < count && i < q.parts; i++) { /* so that all servers begin to sort */
		struct ts_answer a = {0};

		q.part = (uint32_t)(first + i);
		(void)!sort_call(p, &q, 0, &a);
		ts_answer_fini(&a);
	}
	q.tablets = p->load->tablets;
	q.tablet_count = p->load->tablet_count;
	for (size_t i = 0; !err && i < count; i++) {
		q.part = (uint32_t)(first + i);
		err = replay_segment(p, d, &q, why);
	}
	return err;
}

static int replay_sorted(struct replay *p, const struct dead_log *d, char **why)
{
	uint64_t lsn;
	int err = d->sealed ? replay_sealed(p, d, why) : log_replay(d->dir, d->from.lsn, user_record, p, &p->end, why), e;

	if (!err)
		err = hand_over(p);
	e = crew_wait(p->crew, err ? &lsn : &p->bad_lsn); /* an earlier error is reported instead of a damaged record */
	log_stretch_clear(p->crew->fill);
	return err ? err : e;
}

/* ---- levels ---- */
static int replay_log(struct replay *p, struct dead_log *d, char **why)
{
	int err = d->dir ? 0 : seal_read(p->s, p->incarnation, &d->sealed, &d->seal, &d->dir, why);

	if (err)
		return err;
	if (p->kind != KIND_USER && !d->sealed) {
		err = replay_meta(p, d, why);
	} else {
		if (!p->crew)
			err = crew_new(p->s, &p->crew);
		if (!err)
			err = replay_sorted(p, d, why);
	}
	if (err == -EBADMSG && p->bad_lsn)
		why_set(why, "%s: record %llu: the batch is damaged", d->dir, (unsigned long long)p->bad_lsn);
	else if (err && !*why)
		why_set(why, "%s: %s", d->dir, err == -ENOENT ? "this log is missing" : error_text(err));
	if (!err && p->records && !d->synced && !d->sealed) {
		err = sync_log(d->dir);
		if (err)
			why_set(why, "%s: %s", d->dir, error_text(err));
	}
	d->synced |= !err && p->records;
	return err == -ENOENT ? -EBADMSG : err;
}

void replay_level(struct server *s, enum kind kind, const struct ts_request *load, struct needed_logs *n, char **why)
{
	struct crew *crew = NULL;

	if (n->count)
		qsort(n->v, n->count, sizeof(*n->v), number_order);
	/* Oldest incarnation first.  The result does not depend on this order, because sequence numbers order the cells. */
	for (unsigned i = 0; i < n->count; i++) {
		struct dead_log *d = &n->v[i];
		struct replay p = {.s = s, .kind = kind, .incarnation = d->from.incarnation, .crew = crew, .load = load};
		const uint64_t begun = monotonic_us();
		char *what = NULL;

		if (!d->wanted)
			continue;
		d->wanted = false;
		d->err = replay_log(&p, d, &what);
		crew = p.crew;
		if (d->err) {
			if (!*why) {
				*why = what;
				what = NULL;
			}
		} else if (p.end.lost > d->lost) {
			msg_warning("%s", what ? what : d->dir);
			s->replays->lost += p.end.lost - d->lost;
			d->lost = p.end.lost;
		}
		free(what); /* lost records are not a cause of later errors */
		/*
		 * After a clean end there are no records to replay.  So an operator
		 * learns from this line that the process was killed.
		 */
		if (!d->err && p.records)
			msg_log(kind == KIND_USER ? MSG_NOTICE : MSG_INFO, "%s: %llu records replayed in %.2f s", d->dir,
				(unsigned long long)p.records, (double)(monotonic_us() - begun) / 1e6);
	}
	crew_free(crew);
}

int replay_error(const struct needed_logs *n, const struct redo_point *redo, unsigned count)
{
	for (unsigned i = 0; i < n->count; i++)
		for (unsigned k = 0; n->v[i].err && k < count; k++)
			if (redo[k].incarnation == n->v[i].from.incarnation)
				return n->v[i].err;
	return 0;
}

void replay_needed_fini(struct needed_logs *n)
{
	for (unsigned i = 0; i < n->count; i++) {
		log_stretch_free(n->v[i].kept);
		log_seal_fini(&n->v[i].seal);
		free(n->v[i].dir);
	}
	free(n->v);
}

static void end(struct server *s)
{
	replay_needed_fini(&s->replays->of_start);
}

const struct server_part replays_part = {offsetof(struct server, replays), sizeof(struct replays), NULL, NULL, end};
