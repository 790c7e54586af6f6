/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: the server's end of a worker's channel.
 *
 * The server writes cells ahead of the worker.  So an error that a call returns may belong to an earlier row;
 * the worker keeps its row in the shared memory.  While the server waits it looks at the processor time
 * of the worker, and kills a worker that is past its limit.  A worker ends itself there before, if it can.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/outcome.h"
#include "engine/base/stop.h"
#include "engine/script/pool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct script_run {
	struct script_pool *pool;
	struct worker_process *w; /* NULL: it has ended */
	struct script_limits limits;
	bool answered; /* the worker has nothing to do */
	struct buf row, name;
	bool has_row;
	uint64_t worked_us;            /* of the worker before this run */
	uint64_t waited_us, looked_us; /* this run waited for the worker; when the worker's time was read */
	int err;                       /* the run has ended */
	struct buf why;
};

enum { SLACK_US = 200000, ANSWER_US = 10000000 };

/* ---- the end of a run by an error ---- */

/* Ends the run with a text, to which the row is added. */
static int say(struct script_run *r, int err, const char *text)
{
	uint8_t key[CHANNEL_ROW];
	const uint32_t n = r->w->shared->row_bytes;

	memcpy(key, r->w->shared->row, sizeof(key));
	buf_reset(&r->why);
	r->err = buf_append_bytes(&r->why, tfs_str(text)) ||
			(n && buf_printf(&r->why, ", row %s", Q(tfs_bytes_of(key, n < sizeof(key) ? n : sizeof(key)))))
		? -ENOMEM
		: err;
	return r->err;
}

static int end_worker(struct script_run *r)
{
	const int sig = process_end(r->w);

	r->w = NULL;
	return sig;
}

static int worker_died(struct script_run *r)
{
	struct shared_failure f;
	char text[CHANNEL_WHY + 128];
	int err, sig;

	memcpy(&f, &r->w->shared->failure, sizeof(f));
	if (f.outcome != CHANNEL_RUNS) {
		snprintf(text, sizeof(text), "%.*s", (int)(f.why_bytes < CHANNEL_WHY ? f.why_bytes : CHANNEL_WHY), f.why);
		text_hide_controls(text);
		err = say(r,
			f.outcome == CHANNEL_FAILED             ? -EINVAL
				: f.outcome == CHANNEL_AT_LIMIT ? -SCRIPT_LIMIT
								: -SCRIPT_DIED,
			text);
		(void)end_worker(r);
		return err;
	}
	snprintf(text, sizeof(text), "%.200s: the process that ran the script died", (const char *)r->name.p);
	text_hide_controls(text);
	err = say(r, -SCRIPT_DIED, text);
	sig = end_worker(r);
	if (err == -SCRIPT_DIED && sig && buf_printf(&r->why, " (signal %d)", sig))
		err = r->err = -ENOMEM;
	return err;
}

/* Ends the run after an error of the channel. */
static int fail(struct script_run *r, int err)
{
	char text[400];

	if (r->err)
		return r->err;
	switch (-err) {
	case SCRIPT_DIED:
		return worker_died(r);
	case SCRIPT_LIMIT:
		snprintf(text, sizeof(text), "%.200s: the limit of a run's processor time (%llu ms) was exceeded",
			(const char *)r->name.p, (unsigned long long)(r->limits.time_us / 1000));
		break;
	case EBADMSG:
		snprintf(text, sizeof(text), "%.200s: the process that ran the script sent nonsense", (const char *)r->name.p);
		err = -SCRIPT_DIED;
		break;
	case ETIME:
		snprintf(text, sizeof(text), "%.200s: the process that ran the script did not answer", (const char *)r->name.p);
		err = -SCRIPT_DIED;
		break;
	default:
		snprintf(text, sizeof(text), "%.200s: the run was ended: %s", (const char *)r->name.p, error_text(err));
		break;
	}
	text_hide_controls(text);
	err = say(r, err, text);
	(void)end_worker(r);
	return err;
}

static int report(const struct script_run *r, struct buf *why)
{
	return r->err && buf_set(why, r->why.p, r->why.n) ? -ENOMEM : r->err;
}

/* ---- waiting ---- */

static int look(struct script_run *r)
{
	const uint64_t now = monotonic_us();

	if (now - r->looked_us < STOP_CHECK_US)
		return 0;
	r->looked_us = now;
	if (stop_asked())
		return -EINTR;
	if (process_worked_us(r->w) > r->worked_us + r->limits.time_us + SLACK_US)
		return -SCRIPT_LIMIT;
	return r->waited_us > 10 * r->limits.time_us + ANSWER_US ? -ETIME : 0;
}

/* Waits for the worker for a while. */
static int wait_worker(void *arg)
{
	struct script_run *r = arg;
	struct pollfd fd = {.fd = r->w->fd, .events = POLLIN};
	const uint64_t start = monotonic_us();
	uint8_t bytes[64];
	ssize_t n = 1;

	if (poll(&fd, 1, STOP_CHECK_US / 1000) > 0) {
		n = recv(r->w->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 1;
	}
	r->waited_us += monotonic_us() - start;
	return n <= 0 ? -SCRIPT_DIED : look(r);
}

/* ---- messages ---- */

static int put(struct script_run *r, const void *p, size_t n)
{
	return ring_write(&r->w->to, p, n);
}

static int put_u8(struct script_run *r, uint8_t v)
{
	return put(r, &v, 1);
}

static int put_u64(struct script_run *r, uint64_t v)
{
	return put(r, &v, sizeof(v));
}

static int put_text(struct script_run *r, struct tfs_bytes s)
{
	int err = put_u64(r, s.n);

	return err ? err : put(r, s.p, s.n);
}

static int put_run(struct script_run *r, const struct script_text *t)
{
	int err = put_u8(r, CHANNEL_RUN);

	if (!err)
		err = put(r, &r->limits, sizeof(r->limits));
	if (!err)
		err = put_u8(r, t->filter);
	if (!err)
		err = put_u8(r, t->rows_only);
	if (!err)
		err = put_text(r, t->name);
	if (!err)
		err = put_text(r, t->text);
	if (!err)
		err = put_u64(r, t->arg_count);
	for (unsigned i = 0; i < t->arg_count && !err; i++)
		err = put_text(r, t->args[i]);
	return err;
}

static int get_started(struct script_run *r)
{
	uint8_t answer;

	ring_flush(&r->w->to);
	return ring_read(&r->w->from, &answer, 1);
}

/* Appends to *delta the pieces of an answer.  No length is believed before its bytes have come. */
static int get_delta(struct script_run *r, struct buf *delta)
{
	const uint64_t most = 2 * r->limits.memory + (1 << 20);
	uint64_t n;
	int err;

	ring_flush(&r->w->to);
	for (;;) {
		err = ring_read(&r->w->from, &n, sizeof(n));
		if (err || !n)
			return err;
		if (n > most || delta->n > most - n)
			return -EBADMSG;
		while (n && !err) {
			const size_t k = n < CHANNEL_RING ? (size_t)n : CHANNEL_RING;

			err = buf_reserve(delta, k);
			if (!err)
				err = ring_read(&r->w->from, delta->p + delta->n, k);
			if (!err)
				delta->n += k;
			n -= k;
		}
		if (err)
			return err;
	}
}

/* ---- the run ---- */

static int begin(struct script_run *r, const struct script_text *t)
{
	int err = 0;

	r->w->to.wait = r->w->from.wait = wait_worker;
	r->w->to.arg = r->w->from.arg = r;
	r->w->shared->row_bytes = 0;
	r->w->shared->failure.outcome = CHANNEL_RUNS;
	atomic_store(&r->w->shared->waiting, 0);
	r->worked_us = process_worked_us(r->w);
	r->looked_us = monotonic_us();
	err = put_run(r, t);
	if (!err)
		err = get_started(r);
	if (err)
		return fail(r, err);
	r->answered = true;
	return 0;
}

int script_run_new(struct script_pool *p, uint32_t uid, const struct script_text *t, struct script_run **out, struct buf *why)
{
	struct script_run *r;
	bool was_idle = false;
	int err;

	if (t->text.n > SCRIPT_TEXT_MAX) {
		buf_reset(why);
		return buf_printf(why, "the script has more than %d bytes", SCRIPT_TEXT_MAX) ? -ENOMEM : -EINVAL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	err = buf_append_bytes(&r->name, t->name);
	if (!err)
		err = buf_u8(&r->name, 0);
	if (!err)
		err = pool_take_worker(p, uid, &r->limits, &r->w, &was_idle, why);
	if (err) {
		script_run_free(r);
		return err;
	}
	r->pool = p;
	err = begin(r, t);
	if (err == -SCRIPT_DIED && was_idle) {
		/* It was killed while it waited for a run. */
		r->err = 0;
		err = process_start(r->limits.memory, uid, &r->w, &r->why);
		err = err ? (r->err = err) : begin(r, t);
	}
	if (err) {
		err = report(r, why);
		script_run_free(r);
		return err;
	}
	*out = r;
	return 0;
}

static int put_row(struct script_run *r, struct tfs_bytes row)
{
	int err;

	if (r->has_row && bytes_eq(buf_bytes(&r->row), row))
		return 0;
	r->has_row = true;
	err = buf_set(&r->row, row.p, row.n);
	if (!err)
		err = put_u8(r, CHANNEL_ROW_BEGINS);
	return err ? err : put_text(r, row);
}

static int put_cell(struct script_run *r, const struct script_cell *c)
{
	const struct channel_cell head = {.ts = c->ts, .family = c->family.n, .qualifier = c->qualifier.n, .value = c->value.n};
	int err = put_row(r, c->row);

	if (!err)
		err = put_u8(r, CHANNEL_CELL);
	if (!err)
		err = put(r, &head, sizeof(head));
	if (!err)
		err = put(r, c->family.p, c->family.n);
	if (!err)
		err = put(r, c->qualifier.p, c->qualifier.n);
	return err ? err : put(r, c->value.p, c->value.n);
}

bool script_reads_cells(struct tfs_bytes text)
{
	return text.n && (memmem(text.p, text.n, "get", 3) || memmem(text.p, text.n, "cells", 5));
}

/* The answer to a message that was put with this error. */
static int answer_put(struct script_run *r, int err, struct buf *why)
{
	if (!err)
		return 0;
	(void)fail(r, err);
	return report(r, why);
}

int script_run_row(struct script_run *r, struct tfs_bytes row, struct buf *why)
{
	if (r->err)
		return report(r, why);
	r->answered = false;
	return answer_put(r, put_row(r, row), why);
}

int script_run_cell(struct script_run *r, const struct script_cell *c, struct buf *why)
{
	if (r->err)
		return report(r, why);
	r->answered = false;
	return answer_put(r, put_cell(r, c), why);
}

int script_run_take(struct script_run *r, struct buf *delta, struct buf *why)
{
	int err;

	if (r->err)
		return report(r, why);
	r->answered = r->has_row = false;
	buf_reset(delta);
	err = put_u8(r, CHANNEL_TAKE);
	if (!err)
		err = get_delta(r, delta);
	if (err) {
		buf_reset(delta);
		(void)fail(r, err);
		return report(r, why);
	}
	r->answered = true;
	return 0;
}

size_t script_run_waiting(const struct script_run *r)
{
	return r->w ? (size_t)atomic_load(&r->w->shared->waiting) : 0;
}

void script_run_free(struct script_run *r)
{
	if (!r)
		return;
	if (r->w && r->answered && !put_u8(r, CHANNEL_END)) {
		ring_flush(&r->w->to);
		pool_return_worker(r->pool, r->w);
	} else if (r->w) {
		(void)end_worker(r);
	}
	buf_fini(&r->row);
	buf_fini(&r->name);
	buf_fini(&r->why);
	free(r);
}
