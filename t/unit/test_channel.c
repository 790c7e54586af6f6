/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels over a Unix socket, and a listener.  Requests of all sizes are answered.  Other clients
 * are told of a change before its answer is sent.  A request that was sent ahead is served before its
 * answer is asked for.  A client connects again when its server has ended.  A long answer does not
 * delay a short one.  An address that fails leaves no reason if a further address answers.
 */
#include "engine/rpc/conn.h"
#include "engine/rpc/events.h"
#include "t/unit/wire_lib.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static void clients(void **state)
{
	struct channel *c, *d;
	struct ts_request w = {.method = TS_MUTATE, .table = 100, .token.client = TS_CLIENT_RANDOM | 1};
	const struct op op = {.kind = OP_WRITE, .family = 1, .w.base = TFS_BASE_EMPTY};
	const struct row_mutation change = {.row = tfs_str("r"), .ops = &op, .op_count = 1, .number = 1};
	struct ss_answer sa = {0};
	struct ms_answer ma = {0};
	struct ts_answer ta = {0};

	begin();
	c = channel_open(1);
	d = channel_open(2);
	assert_int_equal(read_row(c, 1, 10), 0);
	assert_int_equal(read_row(d, 2, 1000), 0);
	assert_int_equal(read_row(c, 1, 20u << 20), 0); /* by the connection for large requests */
	assert_int_equal(read_row(c, 1, 100u << 20), 0);
	assert_int_equal(read_row(c, 1, 200u << 20), -E2BIG);
	assert_int_equal(channel_store(c, &(struct ss_request){.method = SS_SPACE}, &sa), 0);
	assert_int_equal(sa.total_bytes, 42);
	ss_answer_fini(&sa);
	assert_int_equal(ms_call(channel_master(c), &(struct ms_request){.method = MS_TABLE_CREATE, .name = "t"}, &ma), -EEXIST);
	ms_answer_fini(&ma);
	changed = 0;
	w.rows = &change;
	w.row_count = 1;
	assert_int_equal(ts_call(channel_tablets(c), &w, &ta), 0);
	assert_int_equal(changed, 1); /* before the answer */
	ts_answer_fini(&ta);
	channel_free(c);
	assert_int_equal(read_row(d, 2, 10), 0);
	/* The server ends and a new server begins.  The client connects again. */
	listen_free(listener);
	assert_true(read_row(d, 2, 10) < 0);
	assert_int_equal(read_row(d, 2, 10), -UNREACHABLE);
	channel_free(d);
	socket_remove(in_dir(""));
}

/* ---- answers that are wanted later ---- */

static void wait_until_asked(unsigned count)
{
	while (asked < count)
		(void)sched_yield();
}

static void later(void **state)
{
	struct ts_request q = {.method = TS_READ,
		.table = 100,
		.token.client = TS_CLIENT_RANDOM | 1,
		.time_left_us = 30000000,
		.row = tfs_str("row")};
	struct ts_sent *sent[3];
	struct ts_answer a = {0};
	unsigned before;
	struct channel *c;

	begin();
	c = channel_open(1);
	before = asked;
	for (unsigned i = 0; i < 3; i++) {
		q.row.n = i;
		sent[i] = ts_send(channel_tablets(c), &q);
		assert_non_null(sent[i]);
	}
	wait_until_asked(before + 3);
	ts_forget(sent[1]);
	for (unsigned i = 3; i-- > 0; i -= i == 2) { /* the last one first */
		q.row.n = i;
		assert_int_equal(ts_receive(sent[i], &q, &a), 0);
		assert_int_equal(a.size, i);
	}
	/* The connection is lost while two are under way. */
	held = true;
	q.method = TS_COMPACT;
	for (unsigned i = 0; i < 2; i++) {
		sent[i] = ts_send(channel_tablets(c), &q);
		assert_non_null(sent[i]);
	}
	wait_until_asked(before + 5);
	assert_int_equal(listen_disconnect(listener, 1), 0);
	assert_int_equal(ts_receive(sent[0], &q, &a), -ANSWER_LOST);
	ts_forget(sent[1]);
	assert_null(ts_send(channel_tablets(c), &q)); /* it does not connect */
	held = false;
	/* The end of a scan does not connect either: a server that does not answer would delay an unmount for minutes. */
	assert_int_equal(listen_allow(listener, 1), 0);
	q.method = TS_SCAN_CLOSE;
	assert_int_equal(ts_call(channel_tablets(c), &q, &a), -UNREACHABLE);
	q.method = TS_READ;
	assert_int_equal(ts_call(channel_tablets(c), &q, &a), 0);
	ts_answer_fini(&a);
	channel_free(c);
	end();
}

/* ---- answers in pieces ---- */

static int take_frame(struct conn *c, struct frame *f)
{
	return 0;
}

static void on_end(struct conn *c, int why)
{
}

static void start(void *conn)
{
	conn_begin(conn);
}

static void send_answer(struct conn *c, uint64_t number, size_t n)
{
	struct buf b = {0};

	assert_int_equal(buf_reserve(&b, n), 0);
	if (n)
		memset(b.p, (int)number, n);
	b.n = n;
	assert_int_equal(conn_send(c, FRAME_ANSWER, FRAME_TABLETS, number, &b), 0);
	buf_fini(&b);
}

/* Receives frames until an answer is whole.  Returns its number. */
static uint64_t receive_answer(int fd, struct frame_reader *r, size_t n)
{
	static uint8_t bytes[1000];
	static struct tfs_bytes in;
	uint64_t number;

	while (frame_read(r, &in) != 1) {
		struct pollfd f = {fd, POLLIN, 0};
		ssize_t got;

		assert_int_equal(poll(&f, 1, 60000), 1);
		got = read(fd, bytes, sizeof(bytes));
		assert_true(got > 0);
		in = tfs_bytes_of(bytes, (size_t)got);
	}
	number = r->frame.number;
	assert_int_equal(r->frame.body.n, n);
	for (size_t i = 0; i < n; i++)
		assert_true(r->frame.body.p[i] == number);
	buf_fini(&r->frame.body);
	return number;
}

/* Over one connection a short answer waits for a piece of each long one in front, not for all of them. */
static void short_before_long(void **state)
{
	enum { LONG = 8 << 20, SHORTER = 3 << 20 };
	static const struct conn_ops ops = {.frame = take_frame, .closed = on_end, .patient = true};
	struct frame_reader r = {.most = FRAME_LARGE_MAX, .joins = true};
	struct conn *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(events_start(), 0);
	assert_int_equal(conn_new(fd[0], NULL, &ops, NULL, &c), 0);
	events_run(start, c);
	send_answer(c, 1, LONG);
	send_answer(c, 2, SHORTER);
	send_answer(c, 3, 100);
	send_answer(c, 4, 0);
	assert_int_equal(receive_answer(fd[1], &r, 100), 3);
	assert_int_equal(receive_answer(fd[1], &r, 0), 4);
	assert_true(conn_unsent(c) > LONG + SHORTER - (2 << 20));
	assert_int_equal(receive_answer(fd[1], &r, SHORTER), 2);
	assert_int_equal(receive_answer(fd[1], &r, LONG), 1);
	assert_int_equal(conn_unsent(c), 0);
	frame_reader_fini(&r);
	conn_close(c, 0);
	conn_put(c);
	events_stop();
	close(fd[1]);
}

/* A peer that takes all but the last piece of each answer leaves the answers in memory, so they still count. */
static void pieces_count_as_a_whole(void **state)
{
	enum { ANSWERS = 64, ANSWER = 2 * FRAME_PIECE, TAKEN = ANSWERS * FRAME_PIECE };
	static const struct conn_ops ops = {.frame = take_frame, .closed = on_end, .patient = true};
	static uint8_t bytes[FRAME_PIECE];
	_Atomic size_t all = 0;
	struct conn *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(events_start(), 0);
	assert_int_equal(conn_new(fd[0], NULL, &ops, NULL, &c), 0);
	conn_bound(c, &all);
	events_run(start, c);
	for (unsigned i = 0; i < ANSWERS; i++)
		send_answer(c, i, ANSWER);
	for (size_t taken = 0; taken < TAKEN; taken += sizeof(bytes))
		assert_int_equal(recv(fd[1], bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_in_range(conn_unsent(c), 1, TAKEN + ANSWERS * 2 * FRAME_HEADER);
	assert_true(all > (ANSWERS - 8) * ANSWER); /* the socket has some */
	for (size_t taken = 0; taken < TAKEN; taken += sizeof(bytes))
		assert_int_equal(recv(fd[1], bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_int_equal(recv(fd[1], bytes, ANSWERS * 2 * FRAME_HEADER, MSG_WAITALL), ANSWERS * 2 * FRAME_HEADER);
	assert_int_equal(conn_unsent(c), 0);
	assert_int_equal(all, 0);
	conn_close(c, 0);
	conn_put(c);
	events_stop();
	close(fd[1]);
}

/* The reason of the first address is not the caller's if the second one answers. */
static void an_address_fails_before_another(void **state)
{
	struct sockaddr_in at;
	socklen_t at_n = sizeof(at);
	struct store_source source;
	struct dialled to = {.fd = -1};
	struct dial *d;
	char text[80], *why = NULL;
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(listen(fd, 1), 0); /* the kernel chooses the port */
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_n), 0);
	snprintf(text, sizeof(text), "tcp://127.0.0.1:1,127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(store_source_parse(text, &source, &why), 0);
	assert_int_equal(dial_new(&source, &(struct dial_options){.ssh = "", .keys = ""}, &d, &why), 0);
	assert_int_equal(dial_connect(d, &to, &why), 0);
	assert_null(why);
	close(to.fd);
	close(fd);
	assert_true(dial_connect(d, &to, &why) < 0);
	assert_non_null(why);
	free(why);
	dial_free(d);
	store_source_fini(&source);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, test_dir_setup, test_dir_teardown)
	const struct CMUnitTest tests[] = {
		T(clients),
		T(later),
		T(short_before_long),
		T(pieces_count_as_a_whole),
		T(an_address_fails_before_another),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
