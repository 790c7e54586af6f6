/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that start together, clocks, a histogram of latencies, turns of the sides, and the printed rows. */
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- clocks ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static unsigned bucket_of(uint64_t ns)
{
	unsigned top;

	if (ns < 16)
		return (unsigned)ns;
	top = 63 - (unsigned)__builtin_clzll(ns);
	return (top - 3) * 16 + (unsigned)(ns >> (top - 4) & 15);
}

/* The greatest time that is counted in the bucket. */
static uint64_t bucket_end(unsigned b)
{
	unsigned shift = b < 16 ? 0 : b / 16 - 1;

	return b < 16 ? b : ((UINT64_C(17) + b % 16) << shift) - 1;
}

double latency_us(const struct latency *l, double share)
{
	uint64_t left = (uint64_t)((double)l->count * share);
	unsigned b = 0;

	if (share >= 1)
		return (double)l->max_ns / 1e3;
	for (; b < LATENCY_BUCKETS - 1 && left >= l->buckets[b]; b++)
		left -= l->buckets[b];
	return (double)(bucket_end(b) < l->max_ns ? bucket_end(b) : l->max_ns) / 1e3;
}

static void latency_add(struct latency *to, const struct latency *from)
{
	to->count += from->count;
	to->max_ns = to->max_ns > from->max_ns ? to->max_ns : from->max_ns;
	for (unsigned b = 0; b < LATENCY_BUCKETS; b++)
		to->buckets[b] += from->buckets[b];
}

/* ---- jobs ---- */

uint64_t job_clock(const struct job *j)
{
	return j->latency ? now_ns() : 0;
}

void job_count(struct job *j, uint64_t since)
{
	uint64_t ns;

	if (!j->latency)
		return;
	ns = now_ns() - since;
	j->latency->count++;
	j->latency->buckets[bucket_of(ns)]++;
	if (ns > j->latency->max_ns)
		j->latency->max_ns = ns;
}

int job_put(struct job *j, const char *key, uint64_t number, bool sync)
{
	uint64_t since = job_clock(j);
	int err = j->side->put(j->db, key, number, feed_value(j->o, number), sync);

	job_count(j, since);
	return err;
}

int job_get(struct job *j, const char *key)
{
	uint64_t since = job_clock(j);
	long got = j->side->get(j->db, key, j->p, j->o->value_bytes, &j->sum);

	job_count(j, since);
	if (got < 0)
		return (int)got;
	return (size_t)got == j->o->value_bytes ? 0 : -EBADMSG;
}

struct thread {
	struct job job;
	job_fn fn;
	pthread_barrier_t *start;
	pthread_t id;
	uint64_t began, ended;
	int err;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	pthread_barrier_wait(t->start);
	t->began = now_ns();
	t->err = t->job.p ? t->fn(&t->job) : -ENOMEM;
	t->ended = now_ns();
	return NULL;
}

static int thread_start(struct thread *t, bool latencies)
{
	t->job.p = malloc(t->job.o->value_bytes);
	t->job.latency = latencies ? calloc(1, sizeof(*t->job.latency)) : NULL;
	if (latencies && !t->job.latency)
		return ENOMEM;
	return pthread_create(&t->id, NULL, thread_main, t);
}

int run_jobs(const struct bench_options *o, const struct side_ops *side, void *db, job_fn fn, void *line, uint64_t ops,
	unsigned threads, bool latencies, struct took *took)
{
	struct thread all[BENCH_THREADS] = {0};
	pthread_barrier_t start;
	uint64_t began, ended;
	double cpu;
	int err = 0;

	*took = (struct took){0};
	pthread_barrier_init(&start, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		struct thread *t = &all[i];

		*t = (struct thread){.job = {.o = o, .side = side, .db = db, .line = line, .number = i}, .fn = fn, .start = &start};
		t->job.from = ops * i / threads;
		t->job.to = ops * (i + 1) / threads;
		err = thread_start(t, latencies);
		if (err) { /* all other threads wait at the barrier for ever */
			complain("threads: %s", strerror(err));
			exit(EXIT_CANNOT);
		}
	}
	cpu = cpu_seconds();
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(all[i].id, NULL);
	took->cpu = cpu_seconds() - cpu;
	/* The threads have read the clock themselves, because this thread may wake up after they are done. */
	began = all[0].began;
	ended = all[0].ended;
	for (unsigned i = 1; i < threads; i++) {
		began = all[i].began < began ? all[i].began : began;
		ended = all[i].ended > ended ? all[i].ended : ended;
	}
	took->wall = (double)(ended - began) / 1e9;
	took->ops = ops;
	for (unsigned i = 0; i < threads; i++) {
		struct job *j = &all[i].job;

		err = err ? err : all[i].err;
		if (j->latency)
			latency_add(&took->latency, j->latency);
		free(j->latency);
		free(j->p);
	}
	pthread_barrier_destroy(&start);
	if (err)
		complain("%s: %s", side->name, strerror(-err));
	return err;
}

/* ---- turns ---- */

struct side_options side_options(const struct bench_options *o, unsigned side)
{
	return (struct side_options){
		.dir = o->dirs[side],
		.cache_bytes = o->cache_bytes,
		.memtable_bytes = side == 0 ? o->memtable_bytes : 0,
		.plain = o->plain,
		.tablet_bytes = o->tablet_bytes,
		.group = o->group,
	};
}

int take_turns(const struct bench_options *o, turn_fn fn, void *line, struct took best[BENCH_SIDES])
{
	int err = 0;

	for (unsigned r = 0; r < o->repeat && !err; r++)
		for (unsigned i = 0; i < o->side_count && !err; i++) {
			struct took t = {0};

			/* Pages dirtied before must not be written while this side's clock runs. */
			sync();
			err = fn(o, i, line, &t);
			if (!err && (r == 0 || t.wall < best[i].wall))
				best[i] = t;
		}
	return err;
}

/* ---- rows ---- */

bool line_wanted(const struct bench_options *o, const char *name)
{
	size_t n = strlen(name);

	if (!*o->only)
		return true;
	for (const char *p = o->only; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
			return true;
	return false;
}

void print_heading(const struct bench_options *o)
{
	for (unsigned i = 0; i < o->side_count; i++)
		printf("%s: %s\n", o->sides[i]->name, o->sides[i]->what);
	printf("%-15s %-41s %3s %10s %8s", "line", "", "thr", "ours op/s", "CPU us");
	for (unsigned i = 1; i < o->side_count; i++)
		printf(" | %12s %6s %6s", o->sides[i]->name, "ratio", "CPU");
	printf("\n");
	fflush(stdout);
}

void print_line(
	const struct bench_options *o, const char *name, const char *what, unsigned threads, const struct took took[BENCH_SIDES])
{
	const struct took *ours = &took[0];

	printf("%-15s %-41s %3u %10.0f %8.2f", name, what, threads, (double)ours->ops / ours->wall,
		ours->cpu * 1e6 / (double)ours->ops);
	for (unsigned i = 1; i < o->side_count; i++) {
		const struct took *t = &took[i];

		printf(" | %12.0f %6.2f %6.2f", (double)t->ops / t->wall, t->wall / ours->wall,
			ours->cpu > 0 ? t->cpu / ours->cpu : 0);
	}
	printf("\n");
	fflush(stdout);
}

void print_latencies(const struct bench_options *o, const struct took took[BENCH_SIDES])
{
	printf("  us, half/99%%/99.9%%/longest:");
	for (unsigned i = 0; i < o->side_count; i++) {
		const struct latency *l = &took[i].latency;

		printf("%s %s %.0f/%.0f/%.0f/%.0f", i ? "," : "", o->sides[i]->name, latency_us(l, 0.5), latency_us(l, 0.99),
			latency_us(l, 0.999), latency_us(l, 1));
		if (took[i].tablets)
			printf(" (%u tablet%s; longest wait for a split %llu)", took[i].tablets, took[i].tablets == 1 ? "" : "s",
				(unsigned long long)took[i].split_wait_us);
	}
	printf("\n");
	fflush(stdout);
}
