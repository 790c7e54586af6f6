/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the commit log: a log in its own directory, records whose
 * fields are all computed from a number, and their replay.
 */
#ifndef TFS_T_LOG_LIB_H
#define TFS_T_LOG_LIB_H

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/task.h"
#include "engine/log/log_format.h"
#include "t/lib/file_faults.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define MAX_LSN 4096

struct env {
	char dir[64];
	struct task_pool *pool;
	struct log *log;
};

static __attribute__((unused)) int unlink_one(void *arg, const char *name, bool is_dir)
{
	char *p = path_join(arg, name);

	assert_int_equal(file_unlink(p), 0);
	free(p);
	return 0;
}

static __attribute__((unused)) void empty_dir(const char *dir)
{
	assert_int_equal(file_list(dir, unlink_one, (void *)(uintptr_t)dir), 0);
}

static __attribute__((unused)) int setup(void **state)
{
	struct env *e = calloc(1, sizeof *e);

	strcpy(e->dir, "/dev/shm/tfs-log-XXXXXX");
	assert_non_null(mkdtemp(e->dir));
	assert_int_equal(task_pool_new("log", 2, &e->pool), 0);
	msg_to_nowhere();
	*state = e;
	return 0;
}

static __attribute__((unused)) int teardown(void **state)
{
	struct env *e = *state;

	file_set_hook(NULL, NULL);
	task_pool_free(e->pool);
	empty_dir(e->dir);
	assert_int_equal(file_rmdir(e->dir), 0);
	free(e);
	return 0;
}

static __attribute__((unused)) void start_trying(struct env *e, uint64_t segment_bytes, uint64_t stall_us, uint64_t retry_us)
{
	struct log_options o = {
		.dir = e->dir,
		.incarnation = 7,
		.segment_bytes = segment_bytes,
		.sync_interval_us = 3600000000u, /* only when asked for */
		.stall_us = stall_us,
		.retry_us = retry_us,
		.mark_us = 3600000000u,
		.pool = e->pool,
	};

	assert_int_equal(log_new(&o, &e->log), 0);
}

static __attribute__((unused)) void start(struct env *e, uint64_t segment_bytes, uint64_t stall_us)
{
	start_trying(e, segment_bytes, stall_us, 0);
}

/* A record whose every field follows from n; the batch is n bytes of a pattern after the tag. */
static __attribute__((unused)) void fill(struct log_record *r, uint8_t *batch, uint64_t tag, size_t n)
{
	static const char *const rows[] = {"", "com.cnn.www", "\xff\x00z", "a-much-longer-row-key-than-the-others"};

	put_be64(batch, tag);
	for (size_t i = 8; i < n; i++)
		batch[i] = (uint8_t)(tag * 31 + i * 7);
	*r = (struct log_record){
		.table = (uint32_t)(tag * 3),
		.row_from = tfs_str(rows[tag % 4]),
		.row_to = tfs_str(rows[tag % 3]),
		.token = {tag * 1000003, tag, tag / 2},
		.result = tag ? tfs_str(rows[(tag + 1) % 4]) : (struct tfs_bytes){0}, /* only clients have results */
		.seq = tag << 20,
		.batch = tfs_bytes_of(batch, n),
	};
}

static __attribute__((unused)) int put(struct env *e, uint64_t tag, size_t n, bool sync, struct log_ticket *t)
{
	uint8_t *batch = malloc(n + 8);
	struct log_record r;
	int err;

	fill(&r, batch, tag, n < 8 ? 8 : n);
	while ((err = log_submit(e->log, &r, sync, t)) == -EAGAIN)
		if ((err = log_wait_memory(e->log)))
			break;
	memset(batch, 0xee, n); /* it has been copied */
	free(batch);
	return err ? err : log_wait(e->log, t);
}

static __attribute__((unused)) void must_put(struct env *e, uint64_t tag, size_t n, bool sync)
{
	struct log_ticket t;

	assert_int_equal(put(e, tag, n, sync, &t), 0);
}

struct seen {
	uint64_t count, tag[MAX_LSN], lsn[MAX_LSN], last;
	bool whole;
	uint64_t stop_at;
	struct log_end end;
};

static __attribute__((unused)) int see(void *arg, const struct log_record *r)
{
	struct seen *s = arg;
	uint64_t tag = r->batch.n >= 8 ? load_be64(r->batch.p) : 0;
	uint8_t *batch = malloc(r->batch.n + 8);
	struct log_record want;

	fill(&want, batch, tag, r->batch.n);
	s->whole &= want.table == r->table && bytes_eq(want.row_from, r->row_from) && bytes_eq(want.row_to, r->row_to) &&
		want.token.client == r->token.client && want.token.number == r->token.number &&
		want.token.lowest_unanswered == r->token.lowest_unanswered && bytes_eq(want.result, r->result) &&
		want.seq == r->seq && bytes_eq(want.batch, r->batch);
	free(batch);
	s->whole &= s->count == 0 || s->lsn[s->count - 1] < r->lsn;
	assert_true(s->count < MAX_LSN);
	s->tag[s->count] = tag;
	s->lsn[s->count++] = r->lsn;
	return s->stop_at == r->lsn ? 42 : 0;
}

static __attribute__((unused)) int replay_from(const char *dir, uint64_t from, struct seen *s)
{
	char *why = NULL;
	int err;

	memset(s, 0, sizeof *s);
	s->whole = true;
	err = log_replay(dir, from, see, s, &s->end, &why);
	s->last = s->end.last_lsn;
	assert_true(s->whole);
	free(why);
	return err;
}

static __attribute__((unused)) int replay(struct env *e, struct seen *s)
{
	return replay_from(e->dir, 1, s);
}

/* Exactly the tags from..to, at rising LSNs. */
static __attribute__((unused)) void holds(const struct seen *s, uint64_t from, uint64_t to)
{
	assert_int_equal(s->count, to - from + 1);
	for (uint64_t i = 0; i < s->count; i++)
		assert_int_equal(s->tag[i], from + i);
}

static __attribute__((unused)) bool has(const struct seen *s, uint64_t tag)
{
	for (uint64_t i = 0; i < s->count; i++)
		if (s->tag[i] == tag)
			return true;
	return false;
}

static __attribute__((unused)) void write_image(const char *path, const uint8_t *p, size_t n)
{
	struct file *f;

	assert_int_equal(file_unlink(path), 0);
	assert_int_equal(file_open(path, FILE_CREATE, &f), 0);
	assert_int_equal(n ? file_pwrite(f, p, n, 0) : 0, 0);
	file_close(f);
}

/* ---- threads ---- */
struct worker {
	struct env *e;
	pthread_t thread;
	unsigned id, count;
	struct {
		uint64_t tag, lsn;
		int err;
		bool sync, in_doubt;
	} did[600];
};

static __attribute__((unused)) void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < w->count; i++) {
		struct log_ticket t = {0};
		uint64_t tag = ((uint64_t)w->id << 32) + i + 1;
		bool sync = i % 7 == 0;

		w->did[i].err = put(w->e, tag, 8 + (i * 37 + w->id) % 900, sync, &t);
		w->did[i].tag = tag;
		w->did[i].lsn = t.lsn;
		w->did[i].sync = sync;
		w->did[i].in_doubt = t.in_doubt;
		if (w->did[i].err && !w->did[i].lsn)
			sched_yield(); /* refused */
	}
	return NULL;
}

static __attribute__((unused)) void run_workers(struct worker *w, unsigned n, struct env *e, unsigned count)
{
	for (unsigned i = 0; i < n; i++) {
		w[i].e = e;
		w[i].id = i + 1;
		w[i].count = count;
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
}

/* Every acknowledged record is there under its LSN, no failed one is; a thread's records are in its order. */
static __attribute__((unused)) void check_workers(const struct worker *w, unsigned n, const struct seen *s)
{
	uint64_t *at = calloc(MAX_LSN, sizeof *at);

	for (uint64_t i = 0; i < s->count; i++)
		at[s->lsn[i]] = s->tag[i];
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < w[i].count; k++) {
			if (!w[i].did[k].err)
				assert_int_equal(at[w[i].did[k].lsn], w[i].did[k].tag);
			else
				assert_false(has(s, w[i].did[k].tag));
		}
	free(at);
}

static __attribute__((unused)) int count_name(void *arg, const char *name, bool is_dir)
{
	++*(unsigned *)arg;
	return 0;
}

/* In the log's directory. */
static __attribute__((unused)) unsigned files(struct env *e)
{
	unsigned n = 0;

	assert_int_equal(file_list(e->dir, count_name, &n), 0);
	return n;
}

#endif
