/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench ycsb: mixes in the manner of YCSB's core workloads A to F.
 *
 * A record is one cell with one value (YCSB's fieldcount=1); an update writes
 * all of it.  Keys are hashes of record numbers, so that neighbours in number
 * are not neighbours in the table.  Which record is asked for is drawn from a
 * Zipfian distribution with theta 0.99 by the method of Gray et al.
 * ("Quickly generating billion-record synthetic databases", SIGMOD 1994) and
 * scattered over all records; in mix D the most popular record is the last one
 * inserted.  Ours keeps one version of each cell and stamps writes with the
 * clock.
 *
 * One database for each side, filled and compacted (unless --no-compact)
 * once, runs the mixes in the order in which YCSB would have them
 * run: A B C F D, then E; the last two insert.  Before each mix half as many
 * reads, not timed, warm the caches up.
 */
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THETA 0.99
#define SCAN_MAX 100u

struct mix {
	const char *name, *what;
	unsigned read, update, insert, scan; /* of 100; the rest is read-modify-write */
	bool latest;
};
static const struct mix mixes[] = {
	{"A", "50 read, 50 update", .read = 50, .update = 50},
	{"B", "95 read, 5 update", .read = 95, .update = 5},
	{"C", "read", .read = 100},
	{"F", "50 read, 50 read-modify-write", .read = 50},
	{"D", "95 read of the latest, 5 insert", .read = 95, .insert = 5, .latest = true},
	{"E", "95 scan of 1 to 100, 5 insert", .scan = 95, .insert = 5},
};
#define MIXES (sizeof(mixes) / sizeof(*mixes))
static const struct mix load = {.name = "load", .what = "insert", .insert = 100}, warm_up = {.name = "warm", .read = 100};

struct zipf {
	uint64_t n;
	double zeta, alpha, eta, second;
};

/* How far a side's records have got.  A record counts when all before it have been written, too. */
struct records {
	atomic_uint_fast64_t next, whole;
	atomic_uchar *written;
};

struct run {
	const struct bench_options *o;
	struct zipf zipf;
	struct records records[BENCH_SIDES];
	uint64_t most; /* records that there may ever be */
	const struct mix *mix;
	uint64_t ops, seed;
	unsigned threads;
	struct records *at; /* the records of the side whose turn it is */
};

static void zipf_init(struct zipf *z, uint64_t n)
{
	double zeta2 = 1 + pow(0.5, THETA);

	*z = (struct zipf){.n = n, .alpha = 1 / (1 - THETA), .second = zeta2};
	for (uint64_t i = 1; i <= n; i++)
		z->zeta += pow(1 / (double)i, THETA);
	z->eta = n > 2 ? (1 - pow(2 / (double)n, 1 - THETA)) / (1 - zeta2 / z->zeta) : 1;
}

/* 0 the most popular, n - 1 the least. */
static uint64_t zipf_rank(const struct zipf *z, uint64_t *seed)
{
	double u = (double)(feed_random(seed) >> 11) * 0x1p-53, uz = u * z->zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < z->second)
		return z->n > 1;
	rank = (uint64_t)((double)z->n * pow(z->eta * u - z->eta + 1, z->alpha));
	return rank < z->n ? rank : z->n - 1;
}

static uint64_t pick(const struct run *r, uint64_t *seed)
{
	uint64_t rank = zipf_rank(&r->zipf, seed);

	return r->mix->latest ? atomic_load(&r->at->whole) - 1 - rank : feed_hash(rank) % r->zipf.n;
}

static int insert(struct job *j, struct run *r)
{
	uint64_t n = atomic_fetch_add(&r->at->next, 1), whole;
	char key[BENCH_KEY_BYTES + 1];
	int err;

	feed_hashed_key(key, n);
	err = job_put(j, key, n, false);
	if (err)
		return err;
	atomic_store(&r->at->written[n], 1);
	whole = atomic_load(&r->at->whole);
	while (whole < r->most && atomic_load(&r->at->written[whole]))
		if (atomic_compare_exchange_weak(&r->at->whole, &whole, whole + 1))
			whole++;
	return 0;
}

static int scan(struct job *j, const char *key, uint64_t *seed)
{
	uint64_t limit = 1 + feed_random(seed) % SCAN_MAX, cells, since = job_clock(j);
	int err = j->side->scan(j->db, key, NULL, limit, &cells, &j->sum);

	job_count(j, since);
	/* The first key is there; the last keys have fewer keys after them. */
	return err ? err : cells ? 0 : -EBADMSG;
}

static int read_modify_write(struct job *j, const char *key, uint64_t number)
{
	uint64_t since = job_clock(j);
	long got = j->side->get(j->db, key, j->p, j->o->value_bytes, &j->sum);
	int err = got < 0 ? (int)got : (size_t)got == j->o->value_bytes ? 0 : -EBADMSG;

	if (!err)
		err = j->side->put(j->db, key, number, feed_value(j->o, number), false);
	job_count(j, since);
	return err;
}

static int run_job(struct job *j)
{
	struct run *r = j->line;
	const struct mix *m = r->mix;
	uint64_t seed = feed_hash(r->seed + j->number);
	char key[BENCH_KEY_BYTES + 1];
	int err = 0;

	for (uint64_t i = j->from; i < j->to && !err; i++) {
		unsigned dice = (unsigned)(feed_random(&seed) % 100);
		uint64_t n;

		if (dice < m->insert) {
			err = insert(j, r);
			continue;
		}
		dice -= m->insert;
		n = pick(r, &seed);
		feed_hashed_key(key, n);
		if (dice < m->read)
			err = job_get(j, key);
		else if (dice < m->read + m->update)
			err = job_put(j, key, n + i, false);
		else if (dice < m->read + m->update + m->scan)
			err = scan(j, key, &seed);
		else
			err = read_modify_write(j, key, n + i);
	}
	return err;
}

static int one_side(const struct bench_options *o, unsigned side, void *line, struct took *took)
{
	struct run r = *(struct run *)line;
	struct side_options so = side_options(o, side);
	const struct mix *mix = r.mix;
	int err = 0;
	void *db;

	/* A copy of the run, which shares the number of records. */
	r.at = &((struct run *)line)->records[side];
	so.fresh = mix == &load;
	so.one_version = true;
	so.stamps = STAMP_CLOCK;
	db = o->sides[side]->open(&so);
	if (!db)
		return -EIO;
	if (mix != &load) {
		r.mix = &warm_up;
		r.seed = feed_hash(r.seed);
		err = run_jobs(o, o->sides[side], db, run_job, &r, r.ops / 2, r.threads, false, took);
		r.mix = mix;
		r.seed = ((struct run *)line)->seed;
	}
	if (!err)
		err = run_jobs(o, o->sides[side], db, run_job, &r, r.ops, r.threads, mix != &load, took);
	if (!err && mix == &load && !o->no_compact)
		err = o->sides[side]->compact(db);
	o->sides[side]->close(db);
	return err;
}

static int run_mix(struct run *r, const struct mix *mix, uint64_t ops, unsigned threads)
{
	struct bench_options once = *r->o;
	struct took took[BENCH_SIDES];
	int err;

	r->mix = mix;
	r->ops = ops;
	r->threads = threads;
	r->seed++;
	if (mix == &load)
		once.repeat = 1;
	err = take_turns(&once, one_side, r, took);
	if (err)
		return err;
	print_line(r->o, mix->name, mix->what, threads, took);
	if (mix != &load)
		print_latencies(r->o, took);
	return 0;
}

static int run_mixes(struct run *r)
{
	const struct bench_options *o = r->o;
	int err = run_mix(r, &load, o->cells, 1);

	for (unsigned i = 0; i < MIXES; i++)
		for (unsigned t = 0; t < o->thread_counts && !err && line_wanted(o, mixes[i].name); t++)
			err = run_mix(r, &mixes[i], mixes[i].scan ? (o->ops + 9) / 10 : o->ops, o->threads[t]);
	return err;
}

static int run(const struct bench_options *o)
{
	struct run r = {.o = o, .seed = o->seed, .most = o->cells + o->thread_counts * o->repeat * (o->ops + o->ops / 10 + 1)};
	int err = 0;

	zipf_init(&r.zipf, o->cells);
	for (unsigned i = 0; i < o->side_count; i++) {
		r.records[i].written = calloc(r.most + 1, 1);
		if (!r.records[i].written)
			err = -ENOMEM;
	}
	print_heading(o);
	if (!err)
		err = run_mixes(&r);
	for (unsigned i = 0; i < o->side_count; i++)
		free(r.records[i].written);
	return err;
}

const struct bench_kind bench_ycsb = {.name = "ycsb", .lines = " A B C D E F ", .run = run};
