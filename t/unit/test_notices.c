/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices: who is told of which change.  A list of changes is bounded, and names tables when it
 * is full.  A client is told of the rows of others, in the order of numbers, and hears a beat
 * when nothing changes; a user without rights gets tables that it may read.  A client that
 * does not read delays a change once.  A change of a schema waits until the client has
 * dropped what it keeps, and closes the connection of one that does not.
 */
#include "engine/base/clock.h"
#include "engine/base/socket.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/dial.h"
#include "engine/rpc/frame.h"
#include "engine/rpc/listen.h"
#include "engine/rpc/notices.h"
#include "t/unit/dir.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the list ---- */

static struct notice_row row_of(uint32_t table, const char *row, uint16_t family)
{
	return (struct notice_row){table, tfs_str(row), family};
}

static void add(struct notices *l, uint32_t table, const char *row, uint16_t family)
{
	const struct notice_row r = row_of(table, row, family);

	notices_add(l, &r);
}

static void lists(void **state)
{
	struct notices *l = calloc(1, sizeof(*l)), *m = calloc(1, sizeof(*m));
	char row[32], *longest = calloc(1, NOTICE_BYTES + 1);

	assert_true(notice_is_empty(&l->n));
	add(l, 100, "r", 1);
	add(l, 100, "r", 1);
	assert_int_equal(l->n.row_count, 1);
	add(l, 100, "r", 2);
	add(l, 101, "r", 0);
	add(l, 101, "r", 7); /* the whole row is there */
	assert_int_equal(l->n.row_count, 3);
	assert_int_equal(l->n.rows[1].family, 2);
	notices_add_notice(m, &l->n);
	assert_int_equal(m->n.row_count, 3);
	notices_reset(l);
	assert_true(notice_is_empty(&l->n));
	assert_memory_equal(m->n.rows[2].row.p, "r", 1);
	/* Too many rows: their tables. */
	for (unsigned i = 0; i <= NOTICE_ROWS; i++) {
		snprintf(row, sizeof(row), "row %u", i);
		add(l, 100 + i % 2, row, 1);
	}
	assert_int_equal(l->n.row_count, 2);
	assert_int_equal(l->n.rows[0].row.n, 0);
	assert_false(l->n.all);
	/* Too many bytes. */
	notices_reset(l);
	memset(longest, 'x', NOTICE_BYTES);
	add(l, 5, "r", 1);
	add(l, 6, longest, 1);
	assert_int_equal(l->n.row_count, 2);
	assert_int_equal(l->n.rows[1].table, 6);
	assert_int_equal(l->n.rows[1].row.n, 0);
	/* Too many tables: anything. */
	notices_reset(l);
	l->n.schemas = true;
	for (unsigned i = 0; i <= NOTICE_ROWS; i++)
		add(l, i + 1, "r", 1);
	assert_true(l->n.all && l->n.schemas);
	assert_int_equal(l->n.row_count, 0);
	add(l, 1, "r", 1);
	assert_int_equal(l->n.row_count, 0);
	notices_fini(l);
	notices_fini(m);
	free(longest);
	free(l);
	free(m);
}

/* ---- a listener ---- */

static int tablets_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	return bytes_eq(q->rows[0].row, tfs_str("refused")) ? -EACCES : 0;
}

static int master_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	return 0;
}

static int store_call(struct store_service *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	return 0;
}

static const struct tablet_service_ops tablet_ops = {.call = tablets_call};
static const struct master_service_ops master_ops = {.call = master_call};
static const struct store_service_ops store_ops = {.call = store_call};
static struct tablet_service tablets = {.ops = &tablet_ops};
static struct master_service master = {.ops = &master_ops};
static struct store_service store = {.ops = &store_ops};
static struct listener *listener;

/* One side that is told. */
struct side {
	pthread_mutex_t lock;
	pthread_cond_t came;
	struct notices got; /* all since the last take */
	unsigned notices, beats, lost;
	uint64_t number;
	struct channel *channel; /* NULL: this process */
	bool mute;               /* it does not say that it has dropped anything */
};
static struct side here, there;

static void on_notice(struct side *s, const struct tfs_bytes *notice, uint64_t number)
{
	struct arena arena = {0};
	struct notice n = {0};

	assert_true(!notice || notice_unpack(*notice, &arena, &n) == 0);
	pthread_mutex_lock(&s->lock);
	s->lost += !notice;
	s->notices += notice && !notice_is_empty(&n);
	s->beats += notice && notice_is_empty(&n);
	s->number = number;
	notices_add_notice(&s->got, &n);
	pthread_cond_broadcast(&s->came);
	pthread_mutex_unlock(&s->lock);
	arena_fini(&arena);
	if (notice && !s->mute && s->channel)
		channel_heard(s->channel, number);
	else if (notice && !s->mute)
		listen_heard(listener, number);
}

static void on_here(void *arg, struct tfs_bytes notice, uint64_t number)
{
	on_notice(&here, &notice, number);
}

static void on_there(void *arg, const struct tfs_bytes *notice, uint64_t number)
{
	on_notice(&there, notice, number);
}

/* Waits until the side was told `notices` times or heard `beats`. */
static void wait_for(struct side *s, unsigned notices, unsigned beats, unsigned lost)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&s->lock);
	while (s->notices < notices || s->beats < beats || s->lost < lost)
		assert_int_equal(pthread_cond_timedwait(&s->came, &s->lock, &until), 0);
	pthread_mutex_unlock(&s->lock);
}

static void forget(struct side *s)
{
	pthread_mutex_lock(&s->lock);
	notices_reset(&s->got);
	s->notices = s->beats = s->lost = 0;
	pthread_mutex_unlock(&s->lock);
}

static void begin(bool watch_here)
{
	const struct listen_options o = {
		.master = &master, .store = &store, .store_id = tfs_str("the store's id.."), .server = 3, .changed = on_here};
	struct channel_options co = {
		.client = TS_CLIENT_RANDOM | 5, .program = "test", .timeout_us = 60000000, .changed = on_there};
	const struct store_source at = {.kind = SOURCE_UNIX, .dir = (char *)(uintptr_t)in_dir("")};
	char *why = NULL;
	FILE *f = fopen(in_dir("FORMAT"), "w");
	int fd;

	assert_non_null(f);
	fclose(f);
	here = there = (struct side){.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
	assert_int_equal(socket_listen(in_dir(""), 0600, (gid_t)-1, &fd), 0);
	assert_int_equal(listen_new(fd, &tablets, &listener), 0);
	assert_int_equal(listen_start(listener, &o), 0);
	if (watch_here)
		assert_int_equal(listen_watch(listener), 0);
	assert_int_equal(dial_new(&at, &(struct dial_options){.keys = ""}, &co.dial, NULL), 0);
	assert_int_equal(channel_new(&co, &there.channel, &why), 0);
	assert_int_equal(channel_watch(there.channel), 0);
	wait_for(&there, 1, 0, 0);
	assert_true(there.got.n.all);
	forget(&there);
}

static void end(void)
{
	struct channel *c = there.channel;

	channel_free(c);
	listen_free(listener);
	notices_fini(&here.got);
	notices_fini(&there.got);
	socket_remove(in_dir(""));
}

/* A mutation of a row, by this process or by the client. */
static void mutate(bool by_client, const char *row, enum op_kind kind, uint16_t family, uint16_t to)
{
	const struct op op = {.kind = kind, .family = family, .to_family = to, .w.base = TFS_BASE_EMPTY};
	const struct row_mutation m = {.row = tfs_str(row), .ops = &op, .op_count = 1, .number = 1};
	struct ts_request q = {.method = TS_MUTATE,
		.table = 100,
		.rows = &m,
		.row_count = 1,
		.token.client = by_client ? TS_CLIENT_RANDOM | 5 : 0};
	struct ts_answer a = {0};

	(void)!ts_call(by_client ? channel_tablets(there.channel) : listen_tablets(listener), &q, &a);
	ts_answer_fini(&a);
}

static void expect(struct side *s, unsigned i, const char *row, uint16_t family)
{
	assert_true(i < s->got.n.row_count);
	assert_int_equal(s->got.n.rows[i].table, 100);
	assert_int_equal(s->got.n.rows[i].family, family);
	assert_true(bytes_eq(s->got.n.rows[i].row, tfs_str(row)));
}

static void told(void **state)
{
	begin(true);
	mutate(false, "r", OP_WRITE, 3, 0);
	wait_for(&there, 1, 0, 0);
	expect(&there, 0, "r", 3);
	forget(&there);
	mutate(true, "s", OP_MOVE, 3, 4);
	expect(&here, 0, "s", 3); /* before the answer */
	expect(&here, 1, "s", 4);
	mutate(true, "s", OP_DELETE_ROW, 3, 0);
	expect(&here, 2, "s", 0);
	assert_int_equal(here.notices, 2);
	mutate(true, "s", OP_CHECK, 3, 0); /* nothing changes */
	mutate(true, "refused", OP_WRITE, 3, 0);
	assert_int_equal(here.got.n.row_count, 3);
	/* Nobody is told of its own changes.  A beat comes without a change. */
	wait_for(&there, 0, 2, 0);
	assert_int_equal(there.notices, 0);
	end();
}

static void schemas(void **state)
{
	uint64_t since;

	begin(true);
	listen_note_schemas(listener, 0);
	assert_true(there.got.n.schemas); /* it was heard before */
	assert_false(here.got.n.schemas);
	listen_note_schemas(listener, TS_CLIENT_RANDOM | 5);
	assert_true(here.got.n.schemas);
	assert_int_equal(there.lost, 0);
	/* A client that does not confirm that it has dropped what it keeps is disconnected. */
	there.mute = true;
	since = monotonic_us();
	listen_note_schemas(listener, 0);
	assert_true(monotonic_us() - since >= 1000000);
	wait_for(&there, 0, 0, 1);
	end();
}

/* ---- a beat that has read the time just before a change ---- */

static _Atomic bool holds;        /* the connections' thread waits in its next read of the time */
static _Atomic bool waits, noted; /* it does; another thread has read the time meanwhile */

uint64_t __real_monotonic_us(void);
uint64_t __wrap_monotonic_us(void);

uint64_t __wrap_monotonic_us(void)
{
	const uint64_t us = __real_monotonic_us();
	char name[16] = "";

	if (!holds)
		return us;
	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (strcmp(name, "wire") != 0) {
		noted = waits;
		return us;
	}
	waits = true;
	for (unsigned i = 0; i < 100 && !noted; i++) /* it may have the lock that the notifying thread needs */
		(void)usleep(5000);
	holds = waits = false;
	return us;
}

static void a_change_during_a_beat(void **state)
{
	begin(false);
	for (unsigned i = 0; i < 6; i++) {
		forget(&there);
		wait_for(&there, 0, 1, 0);
		(void)usleep(50000); /* then the next event is a beat, or one of the connection */
		noted = false;
		holds = true;
		while (holds && !waits)
			(void)sched_yield();
		listen_note_schemas(listener, 0);
		while (holds)
			(void)sched_yield();
		assert_int_equal(there.lost, 0);
	}
	end();
}

/* A client that asks for notices and reads none. */
static int deaf(void)
{
	const struct hello h = {.version = HELLO_VERSION, .client = TS_CLIENT_RANDOM | 77};
	struct buf b = {0}, body = {0};
	uint8_t header[FRAME_HEADER];
	struct tfs_bytes bytes;
	int fd;

	assert_int_equal(socket_connect(in_dir(""), &fd), 0);
	assert_int_equal(hello_pack(&h, &body), 0);
	frame_header(header, FRAME_HELLO, 0, 0, (uint32_t)body.n);
	assert_int_equal(buf_append(&b, header, sizeof(header)), 0);
	assert_int_equal(buf_append_bytes(&b, buf_bytes(&body)), 0);
	frame_header(header, FRAME_NOTICE, 0, 0, 0);
	assert_int_equal(buf_append(&b, header, sizeof(header)), 0);
	bytes = buf_bytes(&b);
	assert_int_equal(socket_send(fd, &bytes, 1), b.n);
	buf_fini(&b);
	buf_fini(&body);
	return fd;
}

static void one_is_deaf(void **state)
{
	uint64_t slow = 0, since;
	char row[60000];
	int fd;

	begin(false);
	fd = deaf();
	memset(row, 'r', sizeof(row) - 1);
	row[sizeof(row) - 1] = 0;
	/* More bytes than socket, connection and queue take. */
	for (unsigned i = 0; i < 200; i++) {
		memcpy(row, &(char[4]){(char)('a' + i / 26 % 26), (char)('a' + i % 26), 'x', 'x'}, 4);
		since = monotonic_us();
		mutate(false, row, OP_WRITE, 3, 0);
		slow += monotonic_us() - since >= 100000;
		wait_for(&there, i + 1, 0, 0); /* the other clients are told */
	}
	assert_in_range(slow, 1, 150); /* not each of 200; others are slow on a busy machine */
	close(fd);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test_setup_teardown(told, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(schemas, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_change_during_a_beat, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(one_is_deaf, test_dir_setup, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
