/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At most once in a tablet: random histories of mutations whose copies come again,
 * late, in any order, at the same time, after a kill, and after a flush and a
 * reopening.  A copy gets the first result or an error, and is never applied.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/rpc/tablet_service.h"
#include "engine/tablet/tokens_format.h"
#include "t/lib/file_faults.h"
#include "t/lib/xorshift.h"
#include "t/unit/tablet_lib.h"

static uint64_t seed_state = 0x9e3779b97f4a7c15ull;
static int64_t test_now = 1700000000000000;

static uint32_t rnd(uint32_t below)
{
	return (uint32_t)((xorshift(&seed_state) >> 20) % below);
}

static int64_t now_us(void *arg)
{
	return test_now += 7;
}

/* ---- the format ---- */

static int64_t rnd_i64(void)
{
	static const int64_t edges[] = {0, -1, 1, INT64_MIN, INT64_MAX};

	return rnd(2) ? edges[rnd(5)] : (int64_t)xorshift(&seed_state);
}

static void test_results_survive(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct tfs_result in[5] = {0}, out[5];
		const uint32_t count = rnd(6);
		const int64_t commit = rnd_i64();
		struct buf b = {0};
		uint32_t failed;
		int err = 1;

		for (uint32_t i = 0; i < count; i++)
			in[i] = (struct tfs_result){.ts = rnd_i64(),
				.counter = rnd_i64(),
				.commit_us = commit,
				.size = xorshift(&seed_state),
				.replaced = rnd(2)};
		assert_int_equal(token_result_encode(in, count, &b), 0);
		token_result_set_commit(&b, commit);
		memset(out, 0xaa, sizeof out);
		assert_int_equal(token_result_decode(buf_bytes(&b), &err, &failed, out, count), 0);
		assert_int_equal(err, 0);
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(out[i].ts, in[i].ts);
			assert_int_equal(out[i].counter, in[i].counter);
			assert_int_equal(out[i].commit_us, in[i].commit_us);
			assert_int_equal(out[i].size, in[i].size);
			assert_int_equal(out[i].replaced, in[i].replaced);
		}
		if (count)
			assert_int_equal(token_result_decode(buf_bytes(&b), &err, &failed, out, count - 1), -EBADMSG);
		for (size_t n = 0; n < b.n; n++)
			if (n != 10) /* without operations it is whole */
				assert_int_equal(token_result_decode(tfs_bytes_of(b.p, n), &err, &failed, out, count), -EBADMSG);
		token_result_fail(&b, -ENOENT, count);
		assert_int_equal(token_result_decode(buf_bytes(&b), &err, &failed, out, count), 0);
		assert_int_equal(err, -ENOENT);
		assert_int_equal(failed, count);
		buf_fini(&b);
	}
}

/* ---- a tablet ---- */

enum { CLIENTS = 3, ROWS = 4, UNANSWERED = 6 };

struct sent {
	struct op_token token;
	unsigned row;
	bool append, checks, applied; /* applied is set when the first copy was answered */
	int err;
	struct tfs_result result[2];
};
struct client {
	uint64_t id, next, lowest;
	struct sent unanswered[UNANSWERED]; /* mutations whose answers the client has not received */
	unsigned count;
	struct sent old; /* answered: a late copy may still come */
};
struct world {
	struct lib l;
	struct client clients[CLIENTS];
	int64_t sum[ROWS];
	size_t appended[ROWS];
};

static void start(struct lib *l)
{
	static const char *const rules[] = {"", ""};

	lib_init(l, "/dev/shm");
	clock_free(l->clock);
	l->clock = l->env.clock = clock_new(now_us, NULL);
	l->schema = lib_schema(rules, 2, 2);
	l->schema->families[1].counter = true;
	lib_start(l);
}

static void stop(struct lib *l)
{
	lib_stop(l);
	lib_fini(l);
}

/* As the server does: engine/server/requests/service.c. */
static int call(struct lib *l, const struct op_token *token, const char *row, const struct op *ops, unsigned count, bool sync,
	struct tfs_result *r)
{
	const struct row_mutation m = {tfs_str(row), ops, count, token->number};
	struct tablet_row x = {.m = &m, .results = r};

	if (tablet_token_begin(l->t, token, 0, &x) == 0) {
		tablet_mutate(l->t, &x, 1, sync);
		tablet_token_end(l->t, &x);
	}
	memset(r, 0, x.err ? count * sizeof *r : 0);
	if (x.failed_op)
		r[x.failed_op - 1].failed = true;
	return x.err;
}

static void row_name(char name[8], unsigned row)
{
	snprintf(name, 8, "r%u", row);
}

/* An increment, an append, or a check with an increment. */
static int send_copy(struct world *w, const struct sent *s, struct tfs_result r[2])
{
	struct op ops[2] = {{.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1}};
	unsigned count = 1;
	char row[8];

	row_name(row, s->row);
	if (s->append)
		ops[0] = (struct op){.kind = OP_WRITE,
			.family = 1,
			.w.qualifier = tfs_str("a"),
			.w.place = {true, INT64_MIN},
			.w.base = TFS_BASE_NEWEST,
			.w.truncate_to = UINT64_MAX,
			.w.append = tfs_str("x")};
	if (s->checks)
		ops[count++] = (struct op){.kind = OP_CHECK,
			.check = TFS_CHECK_EXISTS,
			.family = 2,
			.w.qualifier = tfs_str("n"),
			.w.place = {true, 0}};
	return call(&w->l, &s->token, row, ops, count, rnd(4) == 0, r);
}

static void same_result(const struct sent *s, int err, const struct tfs_result r[2])
{
	assert_int_equal(err, s->err);
	for (unsigned i = 0; i < 1u + s->checks && !err; i++) {
		assert_int_equal(r[i].ts, s->result[i].ts);
		assert_int_equal(r[i].counter, s->result[i].counter);
		assert_int_equal(r[i].commit_us, s->result[i].commit_us);
		assert_int_equal(r[i].size, s->result[i].size);
		assert_int_equal(r[i].failed, s->result[i].failed);
	}
}

/* Sends the first copy or a further copy. */
static void send(struct world *w, struct sent *s, bool restarted)
{
	struct tfs_result r[2] = {0};
	int err = send_copy(w, s, r);

	if (s->applied) {
		/* After a restart the failure of a check is not known any more; it has had no effect. */
		if (s->err && restarted && !err) {
			w->sum[s->row]++;
			assert_int_equal(r[0].counter, w->sum[s->row]);
			s->err = 0;
			memcpy(s->result, r, sizeof r);
		}
		same_result(s, err, r);
		return;
	}
	s->applied = true;
	s->err = err;
	memcpy(s->result, r, sizeof r);
	if (err) {
		assert_true(s->checks && w->sum[s->row] == 0);
		return;
	}
	if (s->append)
		assert_int_equal(r[0].size, ++w->appended[s->row]);
	else
		assert_int_equal(r[0].counter, ++w->sum[s->row]);
}

static void client_answer(struct client *c, unsigned i)
{
	c->old = c->unanswered[i];
	c->unanswered[i] = c->unanswered[--c->count];
	c->lowest = c->next;
	for (unsigned k = 0; k < c->count; k++)
		if (c->unanswered[k].token.number < c->lowest)
			c->lowest = c->unanswered[k].token.number;
}

static void client_step(struct world *w, struct client *c, bool restarted)
{
	unsigned i = c->count ? rnd(c->count) : 0;

	switch (rnd(4)) {
	case 0:
	case 1:
		if (c->count == UNANSWERED)
			break;
		c->unanswered[c->count] = (struct sent){.row = rnd(ROWS), .append = rnd(3) == 0};
		c->unanswered[c->count].checks = !c->unanswered[c->count].append && rnd(2);
		c->unanswered[c->count++].token = (struct op_token){c->id, c->next++, c->lowest};
		break;
	case 2:
		if (c->count)
			send(w, &c->unanswered[i], restarted);
		break;
	default:
		if (c->count && c->unanswered[i].applied)
			client_answer(c, i);
		break;
	}
	/* A late copy of an answered one: its result, or nothing. */
	if (c->old.applied && rnd(8) == 0) {
		struct tfs_result r[2] = {0};
		int err = c->old.err && restarted ? -MUTATION_ANSWERED : send_copy(w, &c->old, r);

		if (err != -MUTATION_ANSWERED)
			same_result(&c->old, err, r);
	}
}

static void check_rows(struct world *w)
{
	for (unsigned row = 0; row < ROWS; row++) {
		struct tfs_info info = {0};
		char name[8], text[32] = "", want[32];
		size_t got;
		int err;

		row_name(name, row);
		err = tablet_read(w->l.t, tfs_str(name), 1, tfs_str("a"), (struct tfs_ts){TFS_NEWEST, 0}, 0, NULL, 0, &got, &info);
		assert_int_equal(err, w->appended[row] ? 0 : -ENOENT);
		assert_int_equal(info.size, w->appended[row]);
		err = tablet_read(w->l.t, tfs_str(name), 2, tfs_str("n"), (struct tfs_ts){TFS_NEWEST, 0}, 0, text, sizeof text - 1,
			&got, NULL);
		assert_int_equal(err, w->sum[row] ? 0 : -ENOENT);
		snprintf(want, sizeof want, "%lld", (long long)w->sum[row]);
		if (!err)
			assert_string_equal(text, want);
	}
}

static void test_histories(void **state)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		static struct world w;
		bool restarted = false;

		seed_state = seed * 0x9e3779b97f4a7c15ull;
		w = (struct world){0};
		start(&w.l);
		for (unsigned i = 0; i < CLIENTS; i++)
			w.clients[i] = (struct client){.id = 100 + i, .next = 1, .lowest = 1};
		for (unsigned step = 0; step < 600; step++) {
			client_step(&w, &w.clients[rnd(CLIENTS)], restarted);
			if (rnd(50) == 0)
				LIB(tablet_flush(w.l.t));
			if (rnd(60) == 0) { /* without a flush, as after a kill */
				lib_stop(&w.l);
				lib_start(&w.l);
				restarted = true;
			}
		}
		check_rows(&w);
		stop(&w.l);
	}
}

/* A number below the lowest unanswered one is not applied, also after a flush and a reopening. */
static void test_forgotten_numbers_fail(void **state)
{
	const struct op op = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};
	struct tfs_result r;
	struct lib l;

	start(&l);
	assert_int_equal(call(&l, &(struct op_token){5, 1, 1}, "r", &op, 1, false, &r), 0);
	assert_int_equal(call(&l, &(struct op_token){5, 4, 3}, "r", &op, 1, false, &r), 0);
	assert_int_equal(call(&l, &(struct op_token){5, 1, 1}, "r", &op, 1, false, &r), -MUTATION_ANSWERED);
	assert_int_equal(call(&l, &(struct op_token){5, 2, 1}, "r", &op, 1, false, &r), -MUTATION_ANSWERED);
	for (unsigned reopened = 0; reopened < 3; reopened++) {
		assert_int_equal(call(&l, &(struct op_token){5, 2, 2}, "r", &op, 1, false, &r), -MUTATION_ANSWERED);
		assert_int_equal(call(&l, &(struct op_token){5, 4, 3}, "r", &op, 1, false, &r), 0);
		assert_int_equal(r.counter, 2);
		if (reopened)
			LIB(tablet_flush(l.t));
		lib_stop(&l);
		lib_start(&l);
	}
	assert_int_equal(l.token_count, 2); /* the number 2 as forgotten, and the result of 4 */
	assert_int_equal(call(&l, &(struct op_token){5, 3, 3}, "r", &op, 1, false, &r), 0);
	assert_int_equal(r.counter, 3);
	assert_int_equal(call(&l, &(struct op_token){5, 0, 0}, "r", &op, 1, false, &r), -EINVAL);
	assert_int_equal(call(&l, &(struct op_token){5, 6, 7}, "r", &op, 1, false, &r), -EINVAL);
	stop(&l);
}

/* A failure is the answer of a late copy, too: otherwise the copy could be applied after the client was told. */
static void test_failures_are_repeated(void **state)
{
	const struct op ops[] = {{.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1},
		{.kind = OP_CHECK, .check = TFS_CHECK_EXISTS, .family = 2, .w.qualifier = tfs_str("n"), .w.place = {true, 0}}};
	struct tfs_result r[2];
	struct lib l;
	int err;

	start(&l);
	err = call(&l, &(struct op_token){5, 1, 1}, "r", ops, 2, false, r);
	assert_true(err < 0 && r[1].failed);
	assert_int_equal(call(&l, &(struct op_token){5, 2, 1}, "r", ops, 1, false, r), 0);
	memset(r, 0, sizeof r);
	assert_int_equal(call(&l, &(struct op_token){5, 1, 1}, "r", ops, 2, false, r), err);
	assert_true(!r[0].failed && r[1].failed);
	assert_int_equal(call(&l, &(struct op_token){5, 3, 3}, "r", ops, 1, false, r), 0);
	assert_int_equal(r[0].counter, 2);
	stop(&l);
}

/* The server tries a mutation again when the disk had no space: with the same token, which has no result yet. */
static int no_space(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return strstr(path, ".log") && (op == FILE_OP_WRITE || op == FILE_OP_CREATE || op == FILE_OP_ALLOCATE) ? -ENOSPC : 0;
}

/*
 * A failed mutation whose tablet begins to split, merge or unload before the failure is noted is refused: the tablets that
 * replace it would not know the failure, and a copy of the request could succeed there.
 */
static void test_failure_at_the_end_of_a_tablet(void **state)
{
	const struct op op = {
		.kind = OP_CHECK, .check = TFS_CHECK_EXISTS, .family = 2, .w.qualifier = tfs_str("n"), .w.place = {true, 0}};
	const struct op_token token = {5, 1, 1};
	const struct row_mutation m = {tfs_str("r"), &op, 1, token.number};
	struct tfs_result r;
	struct tablet_row x = {.m = &m, .results = &r};
	struct lib l;

	start(&l);
	assert_int_equal(tablet_token_begin(l.t, &token, 0, &x), 0);
	tablet_mutate(l.t, &x, 1, true);
	assert_int_equal(x.err, -ECANCELED);
	LIB(tablet_merge_begin(l.t));
	LIB(tablet_merge_stop(l.t));
	tablet_token_end(l.t, &x);
	assert_int_equal(x.err, -TABLET_MOVED);
	tablet_merge_end(l.t, false);
	assert_int_equal(call(&l, &token, "r", &op, 1, true, &r), -ECANCELED); /* it was not noted, so the check is made again */
	stop(&l);
}

static void test_no_space(void **state)
{
	const struct op op = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};
	const struct row_mutation m = {tfs_str("r"), &op, 1, 2};
	struct tfs_result r;
	struct tablet_row x = {.m = &m, .results = &r}, copy = x;
	struct lib l;

	start(&l);
	assert_int_equal(call(&l, &(struct op_token){5, 1, 1}, "r", &op, 1, true, &r), 0);
	assert_int_equal(tablet_token_begin(l.t, &(struct op_token){5, 0, 2}, 0, &x), 0);
	file_set_hook(no_space, NULL);
	tablet_mutate(l.t, &x, 1, true);
	assert_true(x.err < 0);
	assert_int_equal(tablet_token_begin(l.t, &(struct op_token){5, 0, 2}, 0, &copy), -EAGAIN);
	file_set_hook(NULL, NULL);
	(void)!log_try_again(l.env.log);
	x.done = false;
	tablet_mutate(l.t, &x, 1, true);
	assert_int_equal(x.err, 0);
	assert_int_equal(r.counter, 2);
	tablet_token_end(l.t, &x);
	assert_int_equal(call(&l, &(struct op_token){5, 2, 2}, "r", &op, 1, true, &r), 0);
	assert_int_equal(r.counter, 2);
	stop(&l);
}

/* METADATA's column has a bound.  Results without a place there are forgotten: their mutations are not applied again. */
static void test_stored_results_are_bounded(void **state)
{
	enum { MANY = 3000 };
	const struct op op = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};
	unsigned exact = 0, forgotten = 0;
	struct tfs_result r;
	size_t bytes = 0;
	struct lib l;

	start(&l);
	for (unsigned i = 1; i <= MANY; i++)
		assert_int_equal(call(&l, &(struct op_token){7, i, 1}, "r", &op, 1, false, &r), 0);
	LIB(tablet_flush(l.t));
	for (unsigned i = 0; i < l.token_count; i++)
		bytes += 20 + l.tokens[i].result.n;
	assert_true(l.token_count > 1000 && bytes <= TOKENS_STORED);
	lib_stop(&l);
	lib_start(&l);
	for (unsigned i = 1; i <= MANY; i++) {
		int err = call(&l, &(struct op_token){7, i, 1}, "r", &op, 1, false, &r);

		if (!err)
			assert_int_equal(r.counter, i);
		exact += !err;
		forgotten += err == -MUTATION_ANSWERED;
	}
	assert_int_equal(exact + forgotten, MANY);
	assert_int_equal(exact, l.token_count - 1);
	assert_int_equal(call(&l, &(struct op_token){7, MANY + 1, MANY + 1}, "r", &op, 1, false, &r), 0);
	assert_int_equal(r.counter, MANY + 1);
	/* In memory, too. */
	for (unsigned i = MANY + 2; i < MANY + 36000; i++)
		assert_int_equal(call(&l, &(struct op_token){8, i, 1}, "r", &op, 1, false, &r), 0);
	assert_true(l.t->tokens.bytes <= TOKENS_BYTES);
	assert_int_equal(call(&l, &(struct op_token){8, MANY + 2, 1}, "r", &op, 1, false, &r), -MUTATION_ANSWERED);
	assert_int_equal(call(&l, &(struct op_token){8, MANY + 35999, 1}, "r", &op, 1, false, &r), 0);
	stop(&l);
}

static void test_clients_expire(void **state)
{
	const struct op op = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};
	struct tfs_result r;
	struct lib l;

	start(&l);
	for (unsigned i = 0; i < TOKENS_CLIENTS; i++)
		assert_int_equal(call(&l, &(struct op_token){100 + i, 1, 1}, "r", &op, 1, false, &r), 0);
	assert_int_equal(call(&l, &(struct op_token){1, 1, 1}, "r", &op, 1, false, &r), -EAGAIN);
	assert_int_equal(call(&l, &(struct op_token){100, 1, 1}, "r", &op, 1, false, &r), 0);
	assert_int_equal(r.counter, 1);
	LIB(tablet_flush(l.t));
	clock_set_limit(l.clock, test_now);
	test_now += 3 * CLIENT_TIME_US; /* the clock is set forward, and no heartbeat has shown it yet */
	assert_int_equal(call(&l, &(struct op_token){1, 1, 1}, "r", &op, 1, false, &r), -EAGAIN);
	assert_int_equal(call(&l, &(struct op_token){100, 1, 1}, "r", &op, 1, false, &r), 0);
	assert_int_equal(r.counter, 1);
	clock_set_limit(l.clock, INT64_MAX);
	test_now -= 3 * CLIENT_TIME_US;
	assert_int_equal(l.token_count, TOKENS_CLIENTS); /* a result or, for lack of space, the number as forgotten */
	test_now += 3 * CLIENT_TIME_US;
	assert_int_equal(call(&l, &(struct op_token){1, 1, 1}, "r", &op, 1, false, &r), 0);
	assert_int_equal(r.counter, TOKENS_CLIENTS + 1);
	LIB(tablet_flush(l.t));
	assert_int_equal(l.token_count, 1);
	test_now += 3 * CLIENT_TIME_US;
	LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
	LIB(tablet_flush(l.t));
	assert_int_equal(l.token_count, 0);
	assert_false(l.t->tokens_stored);
	stop(&l);
}

/* METADATA gets the results of the mutations that the flush wrote: a later result could be lost with the log. */
static int write_during_flush(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const struct op add = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};
	struct lib *l = arg;
	struct tfs_result r;

	if (!strstr(path, ".sst"))
		return 0;
	file_set_hook(NULL, NULL);
	assert_int_equal(call(l, &(struct op_token){9, 2, 1}, "s", &add, 1, false, &r), 0);
	return 0;
}

static void test_store_what_is_flushed(void **state)
{
	const struct op add = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};
	struct tfs_result r;
	struct lib l;

	start(&l);
	assert_int_equal(call(&l, &(struct op_token){9, 1, 1}, "r", &add, 1, false, &r), 0);
	file_set_hook(write_during_flush, &l);
	LIB(tablet_flush(l.t));
	assert_int_equal(l.token_count, 1);
	assert_int_equal(l.tokens[0].number, 1);
	/* An edit that fails and takes place is repeated by the next one. */
	l.edit_doubt = 1;
	assert_true(tablet_flush(l.t) < 0);
	LIB(tablet_flush(l.t));
	assert_int_equal(l.token_count, 2);
	assert_int_equal(call(&l, &(struct op_token){9, 2, 1}, "s", &add, 1, false, &r), 0);
	assert_int_equal(r.counter, 1);
	stop(&l);
}

/* ---- copies at the same time ---- */

struct racer {
	struct lib *l;
	_Atomic uint64_t *turn;
};

static void *race(void *arg)
{
	struct racer *c = arg;
	const struct op op = {.kind = OP_INCREMENT, .family = 2, .w.qualifier = tfs_str("n"), .by = 1};

	for (uint64_t number = 1; number <= 500; number++) {
		struct tfs_result r;
		int err;

		while ((err = call(c->l, &(struct op_token){3, number, number > 8 ? number - 8 : 1}, "r", &op, 1, number % 32 == 0,
				&r)) == -EAGAIN)
			;
		if (!err && (uint64_t)r.counter != number)
			return (void *)"another number's result";
		if (err && err != -MUTATION_ANSWERED)
			return (void *)"an error";
		(*c->turn)++;
		while (*c->turn < 3 * (number - (number > 4 ? 4 : number - 1)))
			sched_yield();
	}
	return NULL;
}

static void test_copies_at_the_same_time(void **state)
{
	_Atomic uint64_t turn = 0;
	struct racer c;
	pthread_t threads[3];
	struct lib l;

	start(&l);
	c = (struct racer){&l, &turn};
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race, &c), 0);
	for (unsigned i = 0; i < 3; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		if (wrong)
			fail_msg("%s", (const char *)wrong);
	}
	stop(&l);
}

/*
 * Several clients have as many mutations under way as they may, and the mutations with the lowest
 * numbers come last.  Each is known afterwards, of one client also after the tablet is loaded again.
 */
static void test_all_under_way_are_known(void **state)
{
	enum { BUSY = 12 };
	struct tablet_token *v;
	struct tokens t, loaded;
	struct token *x;
	unsigned count;

	tokens_init(&t);
	tokens_init(&loaded);
	for (unsigned client = 1; client <= BUSY; client++) {
		for (unsigned number = TS_ROWS_UNDER_WAY; number; number--) {
			assert_int_equal(tokens_begin(&t, &(struct op_token){client, number, 1}, 0, test_now, &x), 0);
			LIB(token_result_encode(NULL, 0, &x->result));
			token_result_set_commit(&x->result, test_now);
			x->seq = number;
			tokens_decide(&t, x);
			tokens_end(&t, x);
		}
		if (client > 1)
			continue;
		LIB(tokens_store(&t, TS_ROWS_UNDER_WAY, test_now, &v, &count));
		LIB(tokens_load(&loaded, v, count, test_now));
		tablet_tokens_free(v, count);
	}
	for (unsigned number = 1; number <= TS_ROWS_UNDER_WAY; number++) {
		for (unsigned client = 1; client <= BUSY; client++)
			assert_int_equal(tokens_begin(&t, &(struct op_token){client, number, 1}, 0, test_now, &x), TOKENS_KNOWN);
		assert_int_equal(tokens_begin(&loaded, &(struct op_token){1, number, 1}, 0, test_now, &x), TOKENS_KNOWN);
	}
	tokens_fini(&t);
	tokens_fini(&loaded);
}

/* ---- splits and merges ---- */

static struct token *put(struct tokens *t, uint64_t client, uint64_t number, uint64_t lowest, const char *result)
{
	struct token *x;

	assert_int_equal(tokens_begin(t, &(struct op_token){client, number, lowest}, 0, test_now, &x), 0);
	buf_reset(&x->result);
	LIB(buf_append(&x->result, result, strlen(result)));
	x->seq = number;
	tokens_decide(t, x);
	tokens_end(t, x);
	return x;
}

static void test_inherit(void **state)
{
	struct tokens a, b, both;
	struct token *x;

	tokens_init(&a);
	tokens_init(&b);
	tokens_init(&both);
	put(&a, 1, 5, 3, "five");
	put(&b, 1, 6, 3, "six");
	put(&b, 2, 9, 9, "nine");
	/* A mutation that is under way when the parent stops is sent again to the child. */
	assert_int_equal(tokens_begin(&a, &(struct op_token){1, 7, 3}, 0, test_now, &x), 0);
	LIB(tokens_inherit(&both, &a));
	LIB(tokens_inherit(&both, &b));
	LIB(tokens_inherit(&both, &b));
	tokens_end(&a, x);
	assert_int_equal(tokens_begin(&both, &(struct op_token){1, 5, 3}, 0, test_now, &x), TOKENS_KNOWN);
	assert_true(bytes_eq(buf_bytes(&x->result), tfs_str("five")));
	assert_int_equal(tokens_begin(&both, &(struct op_token){1, 6, 3}, 0, test_now, &x), TOKENS_KNOWN);
	assert_int_equal(tokens_begin(&both, &(struct op_token){2, 9, 9}, 0, test_now, &x), TOKENS_KNOWN);
	assert_int_equal(tokens_begin(&both, &(struct op_token){1, 2, 2}, 0, test_now, &x), -MUTATION_ANSWERED);
	assert_int_equal(tokens_begin(&both, &(struct op_token){2, 8, 8}, 0, test_now, &x), -MUTATION_ANSWERED);
	assert_int_equal(tokens_begin(&both, &(struct op_token){1, 7, 3}, 0, test_now, &x), 0);
	tokens_end(&both, x);
	tokens_fini(&a);
	tokens_fini(&b);
	tokens_fini(&both);
}

/*
 * A copy is not applied, after replay, a merge, and METADATA: with more clients than may begin mutations.
 * begin is the result for a new client, which clients of replay and METADATA do not keep out.
 */
static void expect_known(struct tokens *t, unsigned count, int begin)
{
	struct token *x;
	int err;

	for (unsigned i = 0; i < count; i++) {
		int n = tokens_begin(t, &(struct op_token){100 + i, 5, 5}, 0, test_now, &x);

		assert_true(n == TOKENS_KNOWN || n == -MUTATION_ANSWERED);
	}
	err = tokens_begin(t, &(struct op_token){1, 1, 1}, 0, test_now, &x);
	assert_int_equal(err, begin);
	if (!err)
		tokens_end(t, x);
}

static void test_many_clients_are_not_forgotten(void **state)
{
	enum { MANY = TOKENS_CLIENTS * 2 };
	struct tokens replayed, half[2], merged, loaded;
	struct tablet_token *v;
	struct token *x;
	unsigned count;

	tokens_init(&replayed);
	tokens_init(&half[0]);
	tokens_init(&half[1]);
	tokens_init(&merged);
	tokens_init(&loaded);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(
			tokens_replay(&replayed, &(struct op_token){100 + i, 5, 5}, i + 1, tfs_str("five"), test_now - i), 0);
		put(&half[i % 2], 100 + i, 5, 5, "five");
	}
	expect_known(&replayed, MANY, 0);
	LIB(tokens_inherit(&merged, &half[0]));
	LIB(tokens_inherit(&merged, &half[1]));
	expect_known(&merged, MANY, -EAGAIN);
	LIB(tokens_store(&merged, MANY, test_now, &v, &count));
	assert_int_equal(count, MANY); /* each number as forgotten, because the column has no space for results */
	LIB(tokens_load(&loaded, v, count, test_now));
	tablet_tokens_free(v, count);
	expect_known(&loaded, MANY, 0);
	/* They expire as others do. */
	assert_int_equal(tokens_begin(&replayed, &(struct op_token){1, 1, 1}, 0, test_now + 3 * CLIENT_TIME_US, &x), 0);
	tokens_end(&replayed, x);
	tokens_fini(&replayed);
	tokens_fini(&half[0]);
	tokens_fini(&half[1]);
	tokens_fini(&merged);
	tokens_fini(&loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results_survive),
		cmocka_unit_test(test_histories),
		cmocka_unit_test(test_forgotten_numbers_fail),
		cmocka_unit_test(test_failures_are_repeated),
		cmocka_unit_test(test_failure_at_the_end_of_a_tablet),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_stored_results_are_bounded),
		cmocka_unit_test(test_clients_expire),
		cmocka_unit_test(test_store_what_is_flushed),
		cmocka_unit_test(test_copies_at_the_same_time),
		cmocka_unit_test(test_all_under_way_are_known),
		cmocka_unit_test(test_inherit),
		cmocka_unit_test(test_many_clients_are_not_forgotten),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
