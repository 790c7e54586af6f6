/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the requests for user tables.  Each table has a number of requests of
 * each sort, and each kind of request has a histogram of its times.  A bucket of
 * the histogram ends at a power of two of microseconds.  The counters are atomic;
 * no lock is acquired.
 *
 * A thread counts and times one of READ_SAMPLE reads, as if it were READ_SAMPLE
 * reads.  The reason: a read from memory takes less than a microsecond, and
 * counting and timing it takes a fifth of that.
 */
#include "engine/server/requests/requests.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define READ_SAMPLE 16u
#define LATENCY_BUCKETS 25 /* bucket i counts times of at most 2^i us; the last one counts longer times */

struct latency {
	_Atomic uint64_t bucket[LATENCY_BUCKETS + 1], sum_us;
};
/* The number of requests up to a time. */
struct traffic_sample {
	uint64_t at_us, count[REQUESTS], failed;
};
/* A reader of the status. */
enum { WATCHERS = 8 };
struct watcher {
	uint64_t id;
	struct traffic_sample last[2]; /* at its last two readings, the older first */
};
struct traffic {
	struct latency times[REQUESTS];
	_Atomic uint64_t failed, refused[TS_REFUSALS];
	time_t since;      /* constant */
	struct mutex lock; /* guards the next members */
	struct watcher watchers[WATCHERS];
	char *cause;                   /* the last causes of `attention', and when they were last seen */
	time_t cause_seen, error_seen; /* when the number of errors was last seen to rise */
	unsigned errors;
};

time_t traffic_error_time(struct traffic *t)
{
	const unsigned errors = msg_error_count();
	time_t seen;

	mutex_lock(&t->lock);
	if (errors > t->errors)
		t->error_seen = time(NULL);
	t->errors = errors;
	seen = t->error_seen;
	mutex_unlock(&t->lock);
	return seen;
}

void traffic_set_cause(struct traffic *t, struct tfs_bytes text)
{
	char *copy = strndup((const char *)text.p, text.n), *old = copy;

	mutex_lock(&t->lock);
	if (copy) {
		old = t->cause;
		t->cause = copy;
		t->cause_seen = time(NULL);
	}
	mutex_unlock(&t->lock);
	free(old);
}

int traffic_cause(struct traffic *t, struct buf *out, time_t *seen)
{
	int err;

	mutex_lock(&t->lock);
	err = t->cause ? buf_append(out, t->cause, strlen(t->cause)) : 0;
	*seen = t->cause_seen;
	mutex_unlock(&t->lock);
	return err;
}

_Atomic uint64_t *traffic_refusals(struct traffic *t)
{
	return t->refused;
}

uint64_t traffic_failures(const struct traffic *t)
{
	return atomic_load(&t->failed);
}

time_t traffic_since(const struct traffic *t)
{
	return t->since;
}

static const char *const kind_names[REQUESTS] = {NULL, "read", "write", "batch", "scan", "sync"};

static enum request_kind kind_of(const struct ts_request *q)
{
	static const enum request_kind kinds[TS_METHODS] = {
		[TS_READ] = REQUEST_READ,
		[TS_EXISTS] = REQUEST_READ,
		[TS_MUTATE] = REQUEST_WRITE,
		[TS_SCAN_OPEN] = REQUEST_SCAN,
		[TS_SCAN_NEXT] = REQUEST_SCAN,
		[TS_SYNC] = REQUEST_SYNC,
	};

	if (q->table == META_TABLE || q->method >= TS_METHODS)
		return REQUEST_OTHER;
	return q->row_count > 1 ? REQUEST_BATCH : kinds[q->method];
}

static void count_add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

/* Returns the smallest i such that us <= 2^i, at most LATENCY_BUCKETS. */
static unsigned bucket_of(uint64_t us)
{
	unsigned i = us > 1 ? 64 - (unsigned)__builtin_clzll(us - 1) : 0;

	return i < LATENCY_BUCKETS ? i : LATENCY_BUCKETS;
}

void traffic_tablet(struct served_tablet *served, enum table_traffic what, uint64_t n)
{
	if (!served->user_table)
		return;
	count_add(&served->user_table->traffic[what], n);
	if (what == TABLE_WRITES)
		count_add(&served->writes, n);
	else if (what != TABLE_WRITTEN_BYTES)
		count_add(&served->reads, n);
}

void traffic_tablet_read(struct served_tablet *served)
{
	static _Thread_local unsigned reads;

	if (reads++ % READ_SAMPLE == 0)
		traffic_tablet(served, TABLE_READS, READ_SAMPLE);
}

uint64_t traffic_begin(const struct ts_request *q)
{
	static _Thread_local unsigned reads;

	if ((q->method == TS_READ || q->method == TS_EXISTS) && reads++ % READ_SAMPLE != 0)
		return 0;
	return monotonic_us();
}

/* Returns true for a failure of the store.  Other errors are the caller's: a check that failed, a family that is absent. */
static bool is_failure(int err)
{
	return err == -EIO || err == -EBADMSG || err == -ENOSPC || err == -EDQUOT || err == -ENOMEM || err == -EROFS;
}

static enum ts_refusal refusal_of(const struct ts_request *q, int err)
{
	switch (err) {
	case -EINVAL:
		return TS_REFUSED_INVALID;
	case -MUTATION_ANSWERED:
		return TS_REFUSED_REPEATED;
	case -EPOCH_ENDED:
	case -TABLET_TAKEN:
	case -VERSION_CHANGED: /* the root file's */
		return TS_REFUSED_LATE;
	case -TABLET_MOVED:
	case -SCAN_UNKNOWN:
		return TS_REFUSED_FOREIGN;
	case -SESSION_ENDED:
		return q->term ? TS_REFUSED_LATE : TS_REFUSED_FOREIGN;
	case -EAGAIN:
		return TS_REFUSED_BUSY;
	default:
		return TS_REFUSALS;
	}
}

void traffic_refused(struct server *s, const struct ts_request *q, int err)
{
	ts_refused(s->traffic->refused, refusal_of(q, err));
}

void traffic_end(struct server *s, const struct ts_request *q, int err, uint64_t since_us)
{
	enum request_kind kind = since_us ? kind_of(q) : REQUEST_OTHER;
	uint64_t us, n = kind == REQUEST_READ ? READ_SAMPLE : 1;

	if (err)
		traffic_refused(s, q, err);
	if (is_failure(err) && q->table != META_TABLE)
		count_add(&s->traffic->failed, 1);
	if (kind == REQUEST_OTHER)
		return;
	us = monotonic_us() - since_us;
	count_add(&s->traffic->times[kind].bucket[bucket_of(us)], n);
	count_add(&s->traffic->times[kind].sum_us, us * n);
}

static uint64_t request_count(const struct latency *l)
{
	uint64_t n = 0;

	for (unsigned i = 0; i <= LATENCY_BUCKETS; i++)
		n += atomic_load(&l->bucket[i]);
	return n;
}

/* Returns a time in microseconds, the end of a bucket, within which `percent` % of the requests ended; 0: longer than all buckets. */
static uint64_t latency_quantile(const struct latency *l, unsigned percent)
{
	uint64_t all = request_count(l), n = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		n += atomic_load(&l->bucket[i]);
		if (n * 100 >= all * percent)
			return 1ull << i;
	}
	return 0;
}

static int put_duration(struct buf *out, uint64_t us)
{
	if (!us)
		return buf_printf(out, "more than %llu s", (1ull << (LATENCY_BUCKETS - 1)) / 1000000);
	if (us < 1000)
		return buf_printf(out, "%llu us", (unsigned long long)us);
	return us < 1000000 ? buf_printf(out, "%llu ms", (unsigned long long)us / 1000)
			    : buf_printf(out, "%llu s", (unsigned long long)us / 1000000);
}

int traffic_status(struct server *s, enum request_kind kind, struct buf *out)
{
	const struct latency *l = &s->traffic->times[kind];
	uint64_t n = request_count(l);
	int err = buf_printf(out, "%llu", (unsigned long long)n);

	if (err || !n)
		return err;
	err = buf_printf(out, ", 50 %% within ");
	if (!err)
		err = put_duration(out, latency_quantile(l, 50));
	if (!err)
		err = buf_printf(out, ", 99 %% within ");
	return err ? err : put_duration(out, latency_quantile(l, 99));
}

/* ---- rates ---- */

enum { SAMPLE_US = 1000000 }; /* readings within this time count as one, because a reader also asks for the size */

static struct traffic_sample sample(const struct server *s)
{
	struct traffic_sample now = {.at_us = monotonic_us(), .failed = atomic_load(&s->traffic->failed)};

	for (unsigned k = REQUEST_READ; k < REQUESTS; k++)
		now.count[k] = request_count(&s->traffic->times[k]);
	return now;
}

static int put_rate(struct buf *out, uint64_t n, double seconds, const char *what)
{
	double rate = (double)n / seconds;

	return buf_printf(out, "%.*f %s/s, ", n && rate < 10, rate, what);
}

/* A new watcher replaces the watcher that has not read for the longest time.  The caller holds the lock. */
static struct watcher *find_watcher(struct server *s, uint64_t id)
{
	struct watcher *newest = s->traffic->watchers, *oldest = s->traffic->watchers;

	for (struct watcher *w = s->traffic->watchers; w < s->traffic->watchers + WATCHERS; w++) {
		if (w->id == id && w->last[1].at_us)
			return w;
		if (w->last[1].at_us > newest->last[1].at_us)
			newest = w;
		if (w->last[1].at_us < oldest->last[1].at_us)
			oldest = w;
	}
	*oldest = *newest;
	oldest->id = id;
	return oldest;
}

int traffic_rates(struct server *s, uint64_t watcher, struct buf *out)
{
	static const char *const what[REQUESTS] = {
		[REQUEST_READ] = "reads", [REQUEST_WRITE] = "writes", [REQUEST_BATCH] = "batches", [REQUEST_SCAN] = "scan steps"};
	struct traffic_sample now = sample(s), since;
	struct watcher *w;
	double seconds;
	int err = 0;

	mutex_lock(&s->traffic->lock);
	w = find_watcher(s, watcher);
	if (now.at_us - w->last[1].at_us >= SAMPLE_US) {
		w->last[0] = w->last[1];
		w->last[1] = now;
	}
	since = w->last[0];
	mutex_unlock(&s->traffic->lock);
	seconds = (double)(now.at_us - since.at_us + 1) / 1e6;
	for (unsigned k = REQUEST_READ; k < REQUESTS && !err; k++)
		if (what[k])
			err = put_rate(out, now.count[k] - since.count[k], seconds, what[k]);
	if (!err)
		err = put_rate(out, now.failed - since.failed, seconds, "failures");
	out->n -= !err ? 2 : 0; /* ", " */
	return err ? err : buf_printf(out, " in the last %.1f s", seconds);
}

static int refusals_metrics(struct server *s, struct buf *out)
{
	static const char *const causes[TS_REFUSALS] = {"malformed", "version", "invalid", "repeated", "late", "foreign", "busy"};
	int err = buf_printf(out,
		"# HELP tabletfs_requests_refused_total requests that the tablet server refused, by cause\n"
		"# TYPE tabletfs_requests_refused_total counter\n");

	for (unsigned i = 0; i < TS_REFUSALS && !err; i++)
		err = buf_printf(out, "tabletfs_requests_refused_total{cause=\"%s\"} %llu\n", causes[i],
			(unsigned long long)atomic_load(&s->traffic->refused[i]));
	return err;
}

int traffic_metrics(struct server *s, struct buf *out)
{
	int err = buf_printf(out,
		"# HELP tabletfs_request_seconds time that requests for user tables took in the tablet server\n"
		"# TYPE tabletfs_request_seconds histogram\n");

	for (unsigned k = REQUEST_READ; k < REQUESTS && !err; k++) {
		const struct latency *l = &s->traffic->times[k];
		uint64_t sum = atomic_load(&l->sum_us), n = 0;

		for (unsigned i = 0; i < LATENCY_BUCKETS && !err; i++) {
			n += atomic_load(&l->bucket[i]);
			err = buf_printf(out, "tabletfs_request_seconds_bucket{request=\"%s\",le=\"%llu.%06llu\"} %llu\n",
				kind_names[k], (1ull << i) / 1000000, (1ull << i) % 1000000, (unsigned long long)n);
		}
		n += atomic_load(&l->bucket[LATENCY_BUCKETS]);
		if (!err)
			err = buf_printf(out,
				"tabletfs_request_seconds_bucket{request=\"%s\",le=\"+Inf\"} %llu\n"
				"tabletfs_request_seconds_sum{request=\"%s\"} %llu.%06llu\n"
				"tabletfs_request_seconds_count{request=\"%s\"} %llu\n",
				kind_names[k], (unsigned long long)n, kind_names[k], (unsigned long long)sum / 1000000,
				(unsigned long long)sum % 1000000, kind_names[k], (unsigned long long)n);
	}
	return err ? err : refusals_metrics(s, out);
}

static int begin(struct server *s, struct task_pool *pool)
{
	struct traffic *t = s->traffic;

	t->since = time(NULL);
	t->watchers[0].last[0].at_us = t->watchers[0].last[1].at_us = monotonic_us();
	mutex_init(&s->traffic->lock, RANK_SERVER);
	return 0;
}

static void end(struct server *s)
{
	free(s->traffic->cause);
	mutex_fini(&s->traffic->lock);
}

const struct server_part traffic_part = {offsetof(struct server, traffic), sizeof(struct traffic), begin, NULL, end};
