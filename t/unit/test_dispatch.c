/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher of requests that come over channels: a flood of user requests that
 * are stuck delays no other class; queues are bounded; a request is never carried out
 * late; refusals are counted by cause; a user has a share of the clients that a server, and a
 * tablet, remembers, and a client that leaves is forgotten.
 */
#include "t/unit/server_lib.h"

#include "engine/client/client.h"
#include "engine/rpc/dispatch.h"
#include "engine/tablet/tokens.h"

#define HANG_S 60u /* the test ends with a signal if a request is not answered */

struct sent {
	struct ts_request q;
	int err; /* the error of the request, or of the channel */
	uint64_t scan;
	_Atomic bool answered;
};

static void on_answer(void *arg, int err, struct buf *answer)
{
	struct sent *x = arg;
	struct tfs_result results[4];
	int row_errs[4];
	struct ts_answer a = {.results = results, .row_errs = row_errs};

	x->err = err ? err : ts_answer_unpack(buf_bytes(answer), &x->q, &a);
	if (!x->err) {
		x->err = a.err;
		x->scan = a.scan;
	}
	a.row_errs = NULL;
	ts_answer_fini(&a);
	x->answered = true;
}

static void send_to(struct dispatcher *d, struct sent *x)
{
	struct buf bytes = {0};

	x->answered = false;
	assert_int_equal(ts_request_pack(&x->q, &bytes), 0);
	dispatch_request(d, &bytes, on_answer, x);
	assert_null(bytes.p);
}

static int answer_of(struct sent *x)
{
	while (!x->answered)
		(void)sched_yield();
	return x->err;
}

static int call(struct dispatcher *d, const struct ts_request *q)
{
	struct sent x = {.q = *q};

	send_to(d, &x);
	return answer_of(&x);
}

/* ---- a server whose log is stuck ---- */

static _Atomic bool stuck, blocked;

static int block_log(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	while (stuck && strstr(path, "/log/")) {
		blocked = true;
		(void)sched_yield();
	}
	return 0;
}

static uint64_t counted(const char *cause)
{
	struct buf text = {0};
	char line[100];
	const char *at;
	uint64_t n;

	snprintf(line, sizeof(line), "tabletfs_requests_refused_total{cause=\"%s\"} ", cause);
	assert_int_equal(server_metrics(hooks.server, &text), 0);
	assert_int_equal(buf_u8(&text, 0), 0);
	at = strstr((const char *)text.p, line);
	assert_non_null(at);
	n = strtoull(at + strlen(line), NULL, 10);
	buf_fini(&text);
	return n;
}

static void test_stuck_user_requests_delay_no_other_class(void **state)
{
	enum { WRITES = 40 };
	static struct sent writes[WRITES];
	static struct row_mutation rows[WRITES];
	struct op op = {.kind = OP_WRITE, .w.place = {.us = 1}, .w.truncate_to = UINT64_MAX};
	struct buf user_key = {0}, meta_key = {0};
	struct sent read, expiring;
	struct ts_request hello;
	struct dispatcher *d;
	struct tfs_table *t;
	unsigned done = 0, aborted = 0, early = 0;
	bool expired;

	open_store();
	set_hook(block_log, NULL);
	t = make_table("t");
	op.family = store_family_id(t, "f");
	assert_int_equal(meta_row_key(&user_key, tfs_table_id(t), true, tfs_bytes_of(NULL, 0)), 0);
	assert_int_equal(meta_row_key(&meta_key, META_TABLE, true, tfs_bytes_of(NULL, 0)), 0);
	assert_int_equal(dispatch_new(server_service(hooks.server), NULL, &d), 0);
	hello = (struct ts_request){.method = TS_HELLO, .table = tfs_table_id(t), .token = {.client = 77}, .epoch = 2};
	read = (struct sent){.q = {.method = TS_EXISTS, .table = tfs_table_id(t), .row = tfs_str("r"), .token = {.client = 78}}};
	expiring = read;
	expiring.q.time_left_us = 1000;
	alarm(HANG_S);

	stuck = true;
	for (unsigned i = 0; i < WRITES; i++) {
		rows[i] = (struct row_mutation){tfs_str("r"), &op, 1, .number = i + 1};
		writes[i].q = (struct ts_request){.method = TS_MUTATE,
			.table = tfs_table_id(t),
			.rows = &rows[i],
			.row_count = 1,
			.sync = true,
			.token = {.client = 77, .lowest_unanswered = 1},
			.epoch = 1};
		send_to(d, &writes[i]);
	}
	send_to(d, &read); /* after more writes than there are workers */
	send_to(d, &expiring);
	while (!blocked)
		(void)sched_yield();
	for (unsigned i = 0; i < 100; i++) {
		const uint32_t n = tfs_table_id(t);

		/* METADATA, the root tablet, control */
		assert_int_equal(
			call(d, &(struct ts_request){.method = TS_EXISTS, .table = META_TABLE, .row = buf_bytes(&user_key)}), 0);
		assert_int_equal(
			call(d, &(struct ts_request){.method = TS_EXISTS, .table = META_TABLE, .row = buf_bytes(&meta_key)}), 0);
		assert_int_equal(call(d, &(struct ts_request){.method = TS_LIST}), 0);
		assert_int_equal(call(d, &(struct ts_request){.method = TS_FILES}), 0);
		assert_int_equal(call(d, &(struct ts_request){.method = TS_UNBLOCK_WRITES, .table = n}), 0);
		assert_int_equal(
			call(d, &(struct ts_request){.method = TS_COPY_TABLE, .table = 999, .to_table = 998}), -TABLE_DROPPED);
		/* HELLO ends the writes in the queue, but writes in the log are still under way. */
		assert_int_equal(call(d, &hello), -EAGAIN);
	}
	/* HELLO may come before a worker has taken its write: the write is refused, and the worker takes the next request. */
	for (unsigned i = 0; i < WRITES; i++) {
		if (writes[i].answered) {
			assert_int_equal(writes[i].err, -EPOCH_ENDED);
			early++;
		}
	}
	assert_true(early < WRITES);
	if (early == 0)
		assert_false(read.answered);

	stuck = false;
	for (unsigned i = 0; i < WRITES; i++) {
		const int err = answer_of(&writes[i]);

		assert_true(!err || err == -EPOCH_ENDED);
		done += !err;
		aborted += err != 0;
	}
	assert_true(done > 0 && done <= 32 && aborted >= 8);
	assert_int_equal(answer_of(&read), 0);
	/* The worker of an early write may have taken this request within its time. */
	expired = answer_of(&expiring) == -EAGAIN;
	assert_true(expired || (early && !expiring.err));
	assert_int_equal(call(d, &hello), 0);
	assert_int_equal(call(d, &writes[0].q), -EPOCH_ENDED);
	assert_int_equal(counted("late"), aborted + expired + 1); /* with the last one */
	assert_true(counted("busy") >= 100);
	alarm(0);
	dispatch_free(d);
	buf_fini(&user_key);
	buf_fini(&meta_key);
	tfs_table_close(t);
	close_store(true);
}

static int wait_while_stuck(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	blocked = true;
	while (stuck)
		(void)sched_yield();
	return 0;
}

/* So a server is reached although its workers wait for storage that hangs. */
static void test_reach_is_answered_without_a_worker(void **state)
{
	static const struct tablet_service_ops ops = {.call = wait_while_stuck};
	struct tablet_service service = {.ops = &ops};
	struct sent list[4], reach = {.q = {.method = TS_REACH}};
	struct dispatcher *d;

	assert_int_equal(dispatch_new(&service, NULL, &d), 0);
	stuck = true;
	blocked = false;
	for (unsigned i = 0; i < 4; i++) { /* more than there are workers for them */
		list[i] = (struct sent){.q = {.method = TS_LIST}};
		send_to(d, &list[i]);
	}
	while (!blocked)
		(void)sched_yield();
	send_to(d, &reach);
	assert_true(reach.answered);
	assert_int_equal(reach.err, 0);
	stuck = false;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(answer_of(&list[i]), 0);
	dispatch_free(d);
}

/* Each cause of a refusal is counted. */
static void test_refusals_are_counted(void **state)
{
	static const char *const causes[] = {"malformed", "version", "invalid", "repeated", "late", "foreign", "busy"};
	struct op op = {.kind = OP_WRITE, .w.place = {.us = 1}, .w.truncate_to = UINT64_MAX};
	struct ts_assigned elsewhere = {.table = 900, .begin = tfs_str(""), .assignment = 1, .server = 99};
	struct row_mutation row = {tfs_str("r"), &op, 1, .number = 1}, other = row;
	struct ts_request write, bad;
	struct dispatcher *d;
	struct tfs_table *t;
	struct buf bytes = {0};
	struct sent x = {0};

	open_store();
	t = make_table("t");
	op.family = store_family_id(t, "f");
	assert_int_equal(dispatch_new(server_service(hooks.server), NULL, &d), 0);
	write = (struct ts_request){.method = TS_MUTATE,
		.table = tfs_table_id(t),
		.rows = &row,
		.row_count = 1,
		.token = {.client = 77, .lowest_unanswered = 1},
		.epoch = 5};
	assert_int_equal(call(d, &write), 0);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(counted(causes[i]), 0);

	assert_int_equal(buf_append(&bytes, "\x01\xff\xff", 3), 0);
	dispatch_request(d, &bytes, on_answer, &x);
	assert_int_equal(answer_of(&x), -EBADMSG);
	assert_int_equal(counted("malformed"), 1);

	assert_int_equal(ts_request_pack(&write, &bytes), 0);
	bytes.p[0] = RPC_VERSION + 1;
	dispatch_request(d, &bytes, on_answer, &x);
	assert_int_equal(answer_of(&x), -EPROTO);
	assert_int_equal(counted("version"), 1);

	bad = write;
	bad.rows = &other;
	other.row = tfs_str("");
	other.number = 2;
	assert_int_equal(call(d, &bad), -EINVAL);
	assert_int_equal(counted("invalid"), 1);

	assert_int_equal(call(d, &write), 0); /* the answer of the first copy */
	assert_int_equal(counted("repeated"), 1);
	other.row = row.row;
	other.number = 9;
	bad.token.lowest_unanswered = 9;
	assert_int_equal(call(d, &bad), 0);
	assert_int_equal(call(d, &write), -MUTATION_ANSWERED);
	assert_int_equal(counted("repeated"), 2);

	bad = write;
	bad.epoch = 4;
	assert_int_equal(call(d, &bad), -EPOCH_ENDED);
	assert_int_equal(
		call(d, &(struct ts_request){.method = TS_UNBLOCK_WRITES, .table = tfs_table_id(t), .term = UINT32_MAX}), 0);
	assert_int_equal(call(d, &(struct ts_request){.method = TS_LIST, .term = 1}), -SESSION_ENDED);
	assert_int_equal(call(d, &(struct ts_request){.method = TS_UNLOAD, .tablets = &elsewhere, .tablet_count = 1}), 0);
	assert_int_equal(counted("late"), 2);

	bad = write;
	bad.assignment = 99;
	bad.rows = &other;
	other.number = 10;
	assert_int_equal(call(d, &bad), -TABLET_MOVED);
	assert_int_equal(call(d, &(struct ts_request){.method = TS_SCAN_NEXT, .table = tfs_table_id(t), .scan = 5}), -SCAN_UNKNOWN);
	assert_int_equal(counted("foreign"), 2);

	assert_int_equal(call(d, &(struct ts_request){.method = TS_BLOCK_WRITES, .table = tfs_table_id(t), .term = UINT32_MAX}), 0);
	bad = write;
	bad.rows = &other;
	other.number = 11;
	assert_int_equal(call(d, &bad), -EAGAIN);
	assert_int_equal(counted("busy"), 1);
	assert_int_equal(
		call(d, &(struct ts_request){.method = TS_UNBLOCK_WRITES, .table = tfs_table_id(t), .term = UINT32_MAX}), 0);
	dispatch_free(d);
	tfs_table_close(t);
	close_store(true);
}

/* ---- bounds ---- */

static _Atomic unsigned entered;
static _Atomic bool hold;

static int slow_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	entered++;
	while (hold && q->method != TS_LIST)
		(void)sched_yield();
	return a->err = 0;
}

static void test_queues_are_bounded(void **state)
{
	static const struct tablet_service_ops ops = {.call = slow_call};
	static const struct dispatch_limits limits[DISPATCH_CLASSES] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}, {2, 3}};
	_Atomic uint64_t refused[TS_REFUSALS] = {0};
	struct tablet_service slow = {.ops = &ops, .refused = refused};
	struct sent x[10], poll = {.q = {.method = TS_POLL, .table = 9, .scan = 1234}};
	struct dispatcher *d;

	assert_int_equal(dispatch_new(&slow, limits, &d), 0);
	alarm(HANG_S);
	entered = 0;
	hold = true;
	for (unsigned i = 0; i < 10; i++) {
		x[i] = (struct sent){.q = {.method = TS_EXISTS, .table = 9, .row = tfs_str("r")}};
		send_to(d, &x[i]);
		while (entered < (i < 2 ? i + 1 : 2))
			(void)sched_yield();
		/* Two run, three wait. */
		assert_int_equal(x[i].answered, i >= 5);
		if (i >= 5)
			assert_int_equal(x[i].err, -EAGAIN);
	}
	assert_int_equal(refused[TS_REFUSED_BUSY], 5);
	/* A refused POLL says that the action has not ended. */
	send_to(d, &poll);
	assert_int_equal(answer_of(&poll), 0);
	assert_int_equal(poll.scan, 1234);
	assert_int_equal(call(d, &(struct ts_request){.method = TS_LIST}), 0);
	hold = false;
	dispatch_free(d); /* answers all */
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(x[i].answered ? x[i].err : 1, 0);
	assert_int_equal(entered, 6);
	alarm(0);
}

static void test_classes(void **state)
{
	static const struct tablet_service_ops ops = {.call = slow_call};
	struct tablet_service none = {.ops = &ops};
	struct ts_assigned root = {.table = META_TABLE, .begin = tfs_str("")}, meta = {.table = META_TABLE}, user = {.table = 9};
	struct dispatcher *d;

	assert_int_equal(dispatch_new(&none, NULL, &d), 0);
	meta.begin = META_ROOT_END;
#define CLASS(...) dispatch_class_of(&(struct ts_request){__VA_ARGS__})
	assert_int_equal(CLASS(.method = TS_HELLO, .table = 9), DISPATCH_CONTROL);
	assert_int_equal(CLASS(.method = TS_SORT), DISPATCH_SORT);
	assert_int_equal(CLASS(.method = TS_SORT, .tablets = &root, .tablet_count = 1), DISPATCH_SORT);
	assert_int_equal(CLASS(.method = TS_SEAL), DISPATCH_ROOT);
	assert_int_equal(CLASS(.method = TS_READ, .table = META_TABLE, .row = root.begin), DISPATCH_ROOT);
	assert_int_equal(CLASS(.method = TS_READ, .table = META_TABLE, .row = meta.begin), DISPATCH_METADATA);
	assert_int_equal(CLASS(.method = TS_MUTATE, .table = 9, .row = root.begin), DISPATCH_USER);
	assert_int_equal(CLASS(.method = TS_SYNC), DISPATCH_USER);
	assert_int_equal(CLASS(.method = TS_LOAD, .tablets = &root, .tablet_count = 1), DISPATCH_ROOT);
	assert_int_equal(CLASS(.method = TS_UNLOAD, .tablets = &meta, .tablet_count = 1), DISPATCH_METADATA);
	assert_int_equal(CLASS(.method = TS_LOAD, .tablets = &user, .tablet_count = 1), DISPATCH_TABLETS);
	assert_int_equal(CLASS(.method = TS_LOAD), DISPATCH_TABLETS);
	assert_int_equal(CLASS(.method = TS_COPY_TABLE, .table = 9), DISPATCH_TABLETS);
	dispatch_free(d);
}

/* ---- clients ---- */

/* Client n of a user says HELLO. */
static int greet(uint64_t uid, uint64_t n)
{
	const struct ts_request q = {
		.method = TS_HELLO, .token = {.client = TS_CLIENT_RANDOM | uid << 32 | n}, .epoch = 1, .peer = 1 + uid};
	struct ts_answer a = {0};
	int err = ts_call(server_service(hooks.server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

static void test_user_has_a_share_of_the_clients(void **state)
{
	enum { SHARE = 16384 };
	const uint64_t owner = geteuid(), first = owner + 1000;

	open_store();
	for (uint64_t n = 0; n < SHARE; n++)
		assert_int_equal(greet(first, n), 0);
	assert_int_equal(greet(first, SHARE), -EAGAIN); /* no more of this user */
	assert_int_equal(greet(first, 0), 0);           /* but those it has */
	assert_int_equal(greet(first + 1, 0), 0);       /* and another user's */
	for (uint64_t n = 1; n < SHARE; n++)
		assert_int_equal(greet(first + 1, n), 0);
	for (uint64_t n = 0; n < SHARE; n++)
		assert_int_equal(greet(first + 2, n), 0);
	assert_int_equal(greet(first + 3, 0), -EAGAIN); /* the last share is kept */
	for (uint64_t n = 0; n < SHARE; n++)
		assert_int_equal(greet(owner, n), 0); /* the owner has more */
	assert_int_equal(greet(owner, SHARE), -EAGAIN);
	assert_int_equal(greet(first + 1, 7), 0);
	close_store(true);
}

/* Client n of a user writes a cell, with the number 1. */
static int write_as(struct tfs_table *t, uint64_t uid, uint64_t n)
{
	struct op op = {.kind = OP_WRITE, .family = store_family_id(t, "f"), .w.place = {.us = 1}, .w.truncate_to = UINT64_MAX};
	struct row_mutation row = {tfs_str("r"), &op, 1, .number = 1};
	const struct ts_request q = {.method = TS_MUTATE,
		.table = tfs_table_id(t),
		.rows = &row,
		.row_count = 1,
		.token = {.client = TS_CLIENT_RANDOM | uid << 32 | n, .lowest_unanswered = 1},
		.epoch = 1,
		.peer = 1 + uid};
	struct ts_answer a = {0};
	int err = ts_call(server_service(hooks.server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

static int leave(uint64_t uid, uint64_t n)
{
	const struct ts_request q = {
		.method = TS_HELLO, .token = {.client = TS_CLIENT_RANDOM | uid << 32 | n}, .epoch = TS_EPOCH_LAST, .peer = 1 + uid};
	struct ts_answer a = {0};
	int err = ts_call(server_service(hooks.server), &q, &a);

	ts_answer_fini(&a);
	return err;
}

/* A tablet has space for the mutations of 2,048 clients.  Copies of their requests are refused. */
static void test_clients_that_leave_are_forgotten(void **state)
{
	const uint64_t owner = geteuid();
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	for (uint64_t n = 0; n < TOKENS_CLIENTS + 1; n++) {
		assert_int_equal(write_as(t, owner, n), 0);
		assert_int_equal(leave(owner, n), 0);
		assert_int_equal(write_as(t, owner, n), -EPOCH_ENDED);
	}
	tfs_table_close(t);
	close_store(true);
}

static void test_user_has_a_share_of_a_tablets_clients(void **state)
{
	const uint64_t owner = geteuid(), first = owner + 1000;
	struct tfs_table *t;
	uint64_t n;

	open_store();
	t = make_table("t");
	for (n = 0; n < TOKENS_SHARE; n++)
		assert_int_equal(write_as(t, first, n), 0);
	assert_int_equal(write_as(t, first, n), -EAGAIN); /* no more of this user */
	assert_int_equal(write_as(t, first, 0), 0);       /* but those it has */
	for (n = 0; n < TOKENS_SHARE; n++) {
		assert_int_equal(write_as(t, first + 1, n), 0); /* and other users' */
		assert_int_equal(write_as(t, first + 2, n), 0);
		assert_int_equal(write_as(t, first + 3, n), 0);
	}
	assert_int_equal(write_as(t, first + 4, 0), -EAGAIN);
	for (n = 0; n < TOKENS_CLIENTS; n++)
		assert_int_equal(write_as(t, owner, n), 0);
	assert_int_equal(write_as(t, owner, n), -EAGAIN);
	assert_int_equal(leave(first, 5), 0);
	assert_int_equal(write_as(t, first, TOKENS_SHARE), 0); /* in the place of one that has left */
	assert_int_equal(write_as(t, first, TOKENS_SHARE + 1), -EAGAIN);
	tfs_table_close(t);
	close_store(true);
	/* Clients that only METADATA and the log still know do not keep new clients out. */
	open_store();
	assert_int_equal(tfs_table_open(store, "t", &t), 0);
	assert_int_equal(write_as(t, first, TOKENS_SHARE + 1), 0);
	tfs_table_close(t);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stuck_user_requests_delay_no_other_class, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals_are_counted, setup, teardown),
		cmocka_unit_test(test_reach_is_answered_without_a_worker),
		cmocka_unit_test(test_queues_are_bounded),
		cmocka_unit_test(test_classes),
		cmocka_unit_test_setup_teardown(test_user_has_a_share_of_the_clients, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clients_that_leave_are_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(test_user_has_a_share_of_a_tablets_clients, setup, teardown),
	};

	file_set_hook(dispatch, NULL);
	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
