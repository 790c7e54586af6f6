/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames, and peers that do not keep to them.  A frame, or an answer in pieces, arrives whole however its bytes are
 * cut; a header alone allocates nothing.  A listener closes peers that send garbage, half
 * frames, long lengths, others' ids, methods of servers; its honest clients go on.  A peer
 * without rights asks as itself only.
 */
#include "engine/base/socket.h"
#include "engine/meta/meta.h"
#include "engine/rpc/frame.h"
#include "engine/rpc/listen_check.h"
#include "t/unit/wire_lib.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the reader ---- */

static void add_frame(struct buf *b, enum frame_kind kind, enum frame_service service, uint64_t number, const char *body)
{
	uint8_t h[FRAME_HEADER];

	frame_header(h, kind, service, number, (uint32_t)strlen(body));
	assert_int_equal(buf_append(b, h, sizeof(h)), 0);
	assert_int_equal(buf_append(b, body, strlen(body)), 0);
}

static void frames_in_pieces(void **state)
{
	struct buf b = {0};

	add_frame(&b, FRAME_HELLO, 0, 0, "hello");
	add_frame(&b, FRAME_PING, 0, 7, "");
	add_frame(&b, FRAME_REQUEST, FRAME_MASTER, UINT64_MAX, "a request");
	for (size_t piece = 1; piece <= b.n; piece++) {
		struct frame_reader r = {.most = 100};
		unsigned count = 0;

		for (size_t at = 0; at < b.n; at += piece) {
			struct tfs_bytes in = {b.p + at, b.n - at < piece ? b.n - at : piece};

			while (in.n) {
				int got = frame_read(&r, &in);

				assert_true(got == 0 || got == 1);
				if (!got)
					continue;
				count++;
				assert_int_equal(r.frame.kind, count == 1 ? FRAME_HELLO : count == 2 ? FRAME_PING : FRAME_REQUEST);
				assert_true(r.frame.number == (count == 1 ? 0 : count == 2 ? 7 : UINT64_MAX));
				assert_true(bytes_eq(buf_bytes(&r.frame.body),
					tfs_str(count == 1           ? "hello"
							: count == 2 ? ""
								     : "a request")));
				buf_fini(&r.frame.body);
			}
		}
		assert_int_equal(count, 3);
		frame_reader_fini(&r);
	}
	buf_fini(&b);
}

/* A piece of an answer of n bytes, each of which is the number of its answer, of which `at` were sent. */
static void add_piece(struct buf *b, uint8_t number, uint32_t n, uint32_t at)
{
	const uint32_t piece = frame_piece(FRAME_ANSWER, n - at);
	uint8_t h[FRAME_HEADER];

	frame_header(h, FRAME_ANSWER, FRAME_TABLETS, number, n - at);
	assert_int_equal(buf_append(b, h, sizeof(h)), 0);
	assert_int_equal(buf_reserve(b, piece), 0);
	memset(b->p + b->n, number, piece);
	b->n += piece;
}

/* Three answers and a PING between their pieces. */
static void add_answers(struct buf *b)
{
	enum { A = 3 * FRAME_PIECE, B = FRAME_PIECE + 1, C = FRAME_PIECE };

	add_piece(b, 1, A, 0);
	add_piece(b, 2, B, 0);
	add_frame(b, FRAME_PING, 0, 1, "");
	add_piece(b, 1, A, FRAME_PIECE);
	add_piece(b, 3, C, 0);
	add_piece(b, 2, B, FRAME_PIECE);
	add_piece(b, 1, A, 2 * FRAME_PIECE);
}

static void answers_in_pieces(void **state)
{
	static const uint64_t order[] = {1, 3, 2, 1}; /* the number of the PING, then of the whole answers */
	static const size_t cuts[] = {1, 7, FRAME_PIECE - 1, FRAME_PIECE + FRAME_HEADER, 10 * FRAME_PIECE};
	struct buf b = {0};

	add_answers(&b);
	for (unsigned i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		struct frame_reader r = {.most = 3 * FRAME_PIECE, .joins = true};
		unsigned count = 0;
		int got = 0;

		for (size_t at = 0; at < b.n; at += cuts[i]) {
			struct tfs_bytes in = {b.p + at, b.n - at < cuts[i] ? b.n - at : cuts[i]};

			while (in.n && (got = frame_read(&r, &in)) == 1) {
				assert_int_equal(r.frame.number, order[count++]);
				assert_int_equal(r.frame.length, r.frame.body.n);
				for (size_t k = 0; k < r.frame.body.n; k++)
					assert_true(r.frame.body.p[k] == r.frame.number);
				buf_fini(&r.frame.body);
			}
			assert_true(got >= 0);
		}
		assert_int_equal(count, 4);
		assert_true(LIST_EMPTY(&r.parts));
		frame_reader_fini(&r);
	}
	buf_fini(&b);
}

/* Returns the error of reading b, whose last frame is wrong. */
static int read_wrong(struct buf *b, bool joins)
{
	struct frame_reader r = {.most = 3 * FRAME_PIECE, .joins = joins};
	struct tfs_bytes in = buf_bytes(b);
	int got = 0;

	while (in.n && (got = frame_read(&r, &in)) == 1)
		buf_fini(&r.frame.body);
	frame_reader_fini(&r);
	buf_fini(b);
	return got;
}

static void wrong_pieces(void **state)
{
	struct buf b = {0};

	add_piece(&b, 1, 2 * FRAME_PIECE, 0);
	assert_int_equal(read_wrong(&b, false), -EBADMSG); /* no answers come to a server */
	add_piece(&b, 1, 3 * FRAME_PIECE + 1, 0);
	assert_int_equal(read_wrong(&b, true), -EMSGSIZE);
	add_piece(&b, 1, 3 * FRAME_PIECE, 0);
	add_piece(&b, 1, 3 * FRAME_PIECE, 0); /* twice */
	assert_int_equal(read_wrong(&b, true), -EBADMSG);
	add_piece(&b, 1, 3 * FRAME_PIECE, 0);
	add_piece(&b, 1, 10, 0); /* another answer in the place of the rest */
	assert_int_equal(read_wrong(&b, true), -EBADMSG);
	add_piece(&b, 1, 2 * FRAME_PIECE, 0);
	add_piece(&b, 1, 2 * FRAME_PIECE, FRAME_PIECE);
	b.p[FRAME_HEADER + FRAME_PIECE + 4] = FRAME_ANSWER | FRAME_STORE << 4;
	assert_int_equal(read_wrong(&b, true), -EBADMSG);
	add_piece(&b, 1, 2 * FRAME_PIECE, 0); /* the rest does not come */
	assert_int_equal(read_wrong(&b, true), 0);
}

static int read_header(uint32_t length, uint8_t kind, struct frame_reader *r)
{
	uint8_t h[FRAME_HEADER] = {0};
	struct tfs_bytes in = {h, sizeof(h)};

	put_be32(h, length);
	h[4] = kind;
	*r = (struct frame_reader){.most = FRAME_SMALL_MAX};
	return frame_read(r, &in);
}

static void bad_headers(void **state)
{
	struct frame_reader r;

	for (unsigned kind = 0; kind < 256; kind++) {
		const unsigned k = kind & 15, s = kind >> 4;
		const bool carries = k == FRAME_REQUEST || k == FRAME_ANSWER;
		const bool good = k >= FRAME_HELLO && k <= FRAME_NOTICE && (carries ? s >= 1 && s <= 3 : s == 0);

		assert_int_equal(read_header(5, (uint8_t)kind, &r), good ? 0 : -EBADMSG);
	}
	assert_int_equal(read_header(FRAME_SMALL_MAX + 1, FRAME_HELLO, &r), -EMSGSIZE);
	assert_int_equal(read_header(UINT32_MAX, FRAME_HELLO, &r), -EMSGSIZE);
	assert_int_equal(read_header(FRAME_SMALL_MAX, FRAME_HELLO, &r), 0);
	assert_null(r.frame.body.p); /* nothing is allocated for what has not arrived */
}

/* ---- who may ask what ---- */

static struct tfs_user other_user = {.uid = 4321, .gid = 4321};

static void rights(void **state)
{
	const struct peer_rights owner = {.user = {.uid = 0}, .owner = true, .client = TS_CLIENT_RANDOM | 5, .peer = 1},
				 user = {.user = {.uid = 1234, .gid = 1234}, .client = TS_CLIENT_RANDOM | 6, .peer = 1235};
	static const enum ts_method of_user_tables[] = {TS_MUTATE, TS_READ, TS_EXISTS, TS_SCAN_OPEN, TS_SCAN_NEXT, TS_SCAN_CLOSE,
		TS_SYNC, TS_FLUSH, TS_COMPACT, TS_PURGE, TS_SPLIT, TS_MERGE, TS_POLL, TS_TABLET_INFO, TS_CHANGES, TS_HELLO};
	static const enum ts_method of_metadata[] = {
		TS_READ, TS_EXISTS, TS_SCAN_OPEN, TS_SCAN_NEXT, TS_SCAN_CLOSE, TS_SYNC, TS_TABLET_INFO, TS_HELLO};
	struct scan_spec large = {.pub.batch_bytes = SIZE_MAX};
	struct ts_request q;
	struct ms_request m;

	for (unsigned method = 0; method < TS_METHODS + 2; method++)
		for (unsigned who = 0; who < 2; who++)
			for (unsigned meta = 0; meta < 2; meta++) {
				const struct peer_rights *p = who ? &user : &owner;
				bool good = false;

				for (unsigned i = 0; i < sizeof(of_user_tables) / sizeof(*of_user_tables) && !meta; i++)
					good = good || of_user_tables[i] == method;
				for (unsigned i = 0; i < sizeof(of_metadata) / sizeof(*of_metadata) && meta; i++)
					good = good || (of_metadata[i] == method && (!who || method == TS_SYNC));
				q = (struct ts_request){.method = (enum ts_method)method,
					.table = meta ? META_TABLE : META_FIRST_USER_TABLE,
					.token.client = p->client};
				assert_int_equal(peer_may_ask_tablets(p, &q), good ? 0 : -EPERM);
				if (good) {
					assert_int_equal(q.peer, p->peer);
					/* A request without a user is the peer's. */
					assert_ptr_equal(q.user, who ? &user.user : NULL);
				}
			}
	/* Another's name, another client's id, a master's term. */
	q = (struct ts_request){.method = TS_READ, .table = 100, .token.client = user.client, .user = &other_user};
	assert_int_equal(peer_may_ask_tablets(&user, &q), -EPERM);
	q.token.client = owner.client;
	assert_int_equal(peer_may_ask_tablets(&owner, &q), 0);
	assert_ptr_equal(q.user, &other_user);
	assert_int_equal(peer_may_ask_tablets(&user, &q), -EBADMSG);
	q.term = 1;
	assert_int_equal(peer_may_ask_tablets(&owner, &q), -EBADMSG);
	q = (struct ts_request){.method = TS_READ, .table = 100};
	assert_int_equal(peer_may_ask_tablets(&owner, &q), -EBADMSG); /* only a caller in the server's process has no id */
	/* The server limits a batch to a small frame, even if a client asks for a larger one. */
	q = (struct ts_request){.method = TS_SCAN_OPEN, .table = 100, .token.client = user.client, .spec = &large};
	assert_int_equal(peer_may_ask_tablets(&user, &q), 0);
	assert_true(large.pub.batch_bytes <= TS_SCAN_BATCH_MAX);
	for (unsigned method = 1; method < MS_METHODS; method++) {
		const bool checked = method == MS_SCHEMA_SET_TEXT || method == MS_SCHEMA_CHANGE;

		m = (struct ms_request){.method = (enum ms_method)method};
		assert_int_equal(peer_may_ask_master(&owner, &m), 0);
		assert_int_equal(peer_may_ask_master(&user, &m), checked ? 0 : -EPERM);
		m.user = &other_user;
		assert_int_equal(peer_may_ask_master(&user, &m), -EPERM);
	}
}

/* A host vouches for its users, as far as its key is not squashed. */
static void keys(void **state)
{
	const struct key host = {.role = KEY_MOUNT}, no_root = {.squash = SQUASH_ROOT}, one = {.squash = SQUASH_ALL},
			 server = {.role = KEY_CLUSTER};
	const struct tfs_user anon = {.uid = 7, .gid = 8};
	struct peer_rights p = {.user = anon, .key = &host, .store_owner = 99, .client = TS_CLIENT_RANDOM | 5, .peer = 3};
	gid_t groups[] = {5, 0, 6}, many[2000] = {0};
	struct tfs_user root = {0}, user = {.uid = 4321, .gid = 0, .groups = groups, .group_count = 3},
			crowd = {.uid = 4321, .groups = many, .group_count = 2000};
	struct ts_request q = {.method = TS_READ, .table = 100, .length = 1, .token.client = p.client};
	struct ms_request m = {.method = MS_TABLE_CREATE};
	struct ts_request r;

	for (unsigned squash = 0; squash < 3; squash++) {
		p.key = squash == 0 ? &host : squash == 1 ? &no_root : &one;
		r = q;
		assert_int_equal(peer_may_ask_tablets(&p, &r), 0);
		assert_ptr_equal(r.user, &p.user); /* a request without a user is the anonymous user's */
		assert_int_equal(r.peer, 3);
		r.user = &root;
		assert_int_equal(peer_may_ask_tablets(&p, &r), 0);
		assert_ptr_equal(r.user, squash ? &p.user : &root);
		r.user = &user;
		assert_int_equal(peer_may_ask_tablets(&p, &r), 0);
		assert_ptr_equal(r.user, squash == 2 ? &p.user : &user);
		assert_int_equal(groups[1], squash ? 8 : 0);
		assert_int_equal(user.gid, squash ? 8 : 0);
		r.user = &crowd;
		assert_int_equal(peer_may_ask_tablets(&p, &r), -EPERM);
		/* METADATA, methods of servers, a term. */
		r = q;
		r.table = META_TABLE;
		assert_int_equal(peer_may_ask_tablets(&p, &r), -EPERM);
		r = q;
		r.method = TS_LOAD;
		assert_int_equal(peer_may_ask_tablets(&p, &r), -EPERM);
		r = q;
		r.term = 1;
		assert_int_equal(peer_may_ask_tablets(&p, &r), -EBADMSG);
		/* Requests that the master does not check: of the owner of the store. */
		m.user = NULL;
		assert_int_equal(peer_may_ask_master(&p, &m), -EPERM);
		m.user = &user;
		assert_int_equal(peer_may_ask_master(&p, &m), -EPERM);
		m.user = &root;
		assert_int_equal(peer_may_ask_master(&p, &m), squash ? -EPERM : 0);
	}
	user.uid = 99;
	p.key = &no_root;
	m.user = &user;
	assert_int_equal(peer_may_ask_master(&p, &m), 0);
	/* A server may do everything. */
	p.key = &server;
	p.owner = true;
	for (unsigned method = 1; method < TS_METHODS; method++) {
		r = (struct ts_request){.method = (enum ts_method)method, .table = META_TABLE, .term = 1, .token.client = p.client};
		assert_int_equal(peer_may_ask_tablets(&p, &r), 0);
		assert_null(r.user);
	}
}

/* The mount of a host whose root is squashed asks for names itself, and for values on behalf of users. */
static void names_and_values(void **state)
{
	const struct key keys[] = {{.squash = SQUASH_NONE}, {.squash = SQUASH_ROOT}, {.squash = SQUASH_ALL}};
	const struct scan_spec of_keys = {.pub.what = TFS_SCAN_KEYS}, of_rows = {.pub.what = TFS_SCAN_ROWS},
			       of_cells = {.pub.what = TFS_SCAN_CELLS},
			       by_regex = {.pub.what = TFS_SCAN_KEYS, .pub.value_regex = tfs_str("x")},
			       by_value = {.pub.what = TFS_SCAN_ROWS, .pub.value_is = tfs_str("x")};
	static const enum ts_method others[] = {
		TS_MUTATE, TS_SYNC, TS_FLUSH, TS_COMPACT, TS_PURGE, TS_SPLIT, TS_MERGE, TS_POLL, TS_HELLO};
	const struct ts_request asks_names[] = {{.method = TS_EXISTS}, {.method = TS_TABLET_INFO}, {.method = TS_READ},
		{.method = TS_SCAN_OPEN, .spec = &of_keys}, {.method = TS_SCAN_OPEN, .spec = &of_rows}, {.method = TS_SCAN_NEXT},
		{.method = TS_SCAN_CLOSE}};
	const struct ts_request asks_values[] = {{.method = TS_READ, .length = 1}, {.method = TS_SCAN_OPEN},
		{.method = TS_SCAN_OPEN, .spec = &of_cells}, {.method = TS_SCAN_OPEN, .spec = &by_regex},
		{.method = TS_SCAN_OPEN, .spec = &by_value}};
	struct peer_rights p = {.user = {.uid = 7, .gid = 8}, .client = TS_CLIENT_RANDOM | 5, .peer = 3};
	const struct tfs_user root = {0};
	struct ts_request q;

	for (unsigned i = 0; i < 3; i++) {
		p.key = &keys[i];
		for (unsigned k = 0; k < sizeof(asks_names) / sizeof(*asks_names); k++) {
			q = asks_names[k];
			q.table = 100;
			q.token.client = p.client;
			assert_int_equal(peer_may_ask_tablets(&p, &q), 0);
			assert_ptr_equal(q.user, i == 1 ? NULL : &p.user);
			q.user = &root;
			assert_int_equal(peer_may_ask_tablets(&p, &q), 0);
			assert_ptr_equal(q.user, i ? &p.user : &root);
			q.table = META_TABLE;
			q.user = NULL;
			assert_int_equal(peer_may_ask_tablets(&p, &q), -EPERM);
		}
		for (unsigned k = 0; k < sizeof(asks_values) / sizeof(*asks_values); k++) {
			q = asks_values[k];
			q.table = 100;
			q.token.client = p.client;
			assert_int_equal(peer_may_ask_tablets(&p, &q), 0);
			assert_ptr_equal(q.user, &p.user);
		}
		for (unsigned k = 0; k < sizeof(others) / sizeof(*others); k++) {
			q = (struct ts_request){.method = others[k], .table = 100, .token.client = p.client};
			assert_int_equal(peer_may_ask_tablets(&p, &q), 0);
			assert_ptr_equal(q.user, &p.user);
		}
	}
}

/* ---- hostile peers ---- */

static int raw(void)
{
	int fd;

	assert_int_equal(socket_connect(in_dir(""), &fd), 0);
	return fd;
}

/* Sends all, as far as the server takes it. */
static void push(int fd, const void *p, size_t n)
{
	struct tfs_bytes b = tfs_bytes_of(p, n);

	while (b.n) {
		int64_t r = socket_send(fd, &b, 1);

		if (r == -EAGAIN) {
			struct pollfd f = {fd, POLLOUT, 0};

			if (poll(&f, 1, 1000) <= 0)
				return;
			continue;
		}
		if (r < 0)
			return;
		b = tfs_bytes_of(b.p + r, b.n - (size_t)r);
	}
}

/* Returns true if the server closes the connection; what it sends is skipped. */
static bool is_closed(int fd)
{
	char bytes[4096];

	for (;;) {
		struct pollfd f = {fd, POLLIN, 0};
		int64_t n;

		if (poll(&f, 1, 5000) <= 0)
			return false;
		n = socket_receive(fd, bytes, sizeof(bytes));
		if (n == -EAGAIN)
			continue;
		if (n <= 0)
			return true;
	}
}

static void push_hello(int fd, const struct hello *h)
{
	struct buf body = {0};
	uint8_t header[FRAME_HEADER];

	assert_int_equal(hello_pack(h, &body), 0);
	frame_header(header, FRAME_HELLO, 0, 0, (uint32_t)body.n);
	push(fd, header, sizeof(header));
	push(fd, body.p, body.n);
	buf_fini(&body);
}

static void push_request(int fd, const struct ts_request *q)
{
	struct buf body = {0};
	uint8_t header[FRAME_HEADER];

	assert_int_equal(ts_request_pack(q, &body), 0);
	frame_header(header, FRAME_REQUEST, FRAME_TABLETS, 1, (uint32_t)body.n);
	push(fd, header, sizeof(header));
	push(fd, body.p, body.n);
	buf_fini(&body);
}

static const struct hello good = {.version = HELLO_VERSION, .client = TS_CLIENT_RANDOM | 77};

static void refused_hello(struct hello h)
{
	int fd = raw();

	push_hello(fd, &h);
	assert_true(is_closed(fd));
	close(fd);
}

static void hostile(void **state)
{
	struct ts_request q = {.method = TS_READ, .table = 100, .row = tfs_str("r"), .token.client = good.client};
	uint8_t header[FRAME_HEADER], garbage[5000];
	struct hello h;
	struct channel *c;
	unsigned before;
	int fd;

	begin();
	c = channel_open(9);
	for (unsigned i = 0; i < sizeof(garbage); i++)
		garbage[i] = (uint8_t)(i * 37 + 11);
	fd = raw(); /* garbage in front of a HELLO */
	push(fd, garbage, sizeof(garbage));
	assert_true(is_closed(fd));
	close(fd);
	fd = raw(); /* a request before a HELLO */
	push_request(fd, &q);
	assert_true(is_closed(fd));
	close(fd);
	fd = raw(); /* a length of 4 GiB */
	frame_header(header, FRAME_HELLO, 0, 0, UINT32_MAX);
	push(fd, header, sizeof(header));
	assert_true(is_closed(fd));
	close(fd);
	fd = raw(); /* a large body on a connection for small ones */
	push_hello(fd, &good);
	frame_header(header, FRAME_REQUEST, FRAME_TABLETS, 1, FRAME_SMALL_MAX + 1);
	push(fd, header, sizeof(header));
	assert_true(is_closed(fd));
	close(fd);
	h = good;
	h.version = HELLO_VERSION + 1;
	refused_hello(h);
	h = good;
	h.store = tfs_str("another store's.");
	refused_hello(h);
	h = good;
	h.server = 4;
	refused_hello(h);
	h = good;
	h.client = 3; /* the id of a server */
	refused_hello(h);
	fd = raw(); /* two HELLOs */
	push_hello(fd, &good);
	push_hello(fd, &good);
	assert_true(is_closed(fd));
	close(fd);
	before = asked;
	fd = raw(); /* another client's id in a request */
	push_hello(fd, &good);
	q.token.client = TS_CLIENT_RANDOM | 9;
	push_request(fd, &q);
	assert_true(is_closed(fd));
	close(fd);
	fd = raw(); /* a request that is cut off */
	push_hello(fd, &good);
	frame_header(header, FRAME_REQUEST, FRAME_TABLETS, 1, 1000);
	push(fd, header, sizeof(header));
	push(fd, garbage, 500);
	close(fd);
	fd = raw(); /* a body that is no request */
	push_hello(fd, &good);
	frame_header(header, FRAME_REQUEST, FRAME_TABLETS, 1, 1000);
	push(fd, header, sizeof(header));
	push(fd, garbage, 1000);
	assert_true(is_closed(fd));
	close(fd);
	fd = raw(); /* an answer, and a notice: only servers send them */
	push_hello(fd, &good);
	frame_header(header, FRAME_ANSWER, FRAME_TABLETS, 1, 0);
	push(fd, header, sizeof(header));
	assert_true(is_closed(fd));
	close(fd);
	assert_int_equal(asked, before);
	assert_int_equal(read_row(c, 9, 10), 0);
	channel_free(c);
	end();
}

/* ---- a peer without rights, and its answers ---- */

static int raw_as(uid_t uid)
{
	int fd;

	/* The system call changes the user of this thread only. */
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
	fd = raw();
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	return fd;
}

/* Sends a request, and reads frames until the answer.  Returns its bytes; none: the connection was closed. */
static struct buf ask(int fd, enum frame_service service, struct buf body)
{
	struct frame_reader r = {.most = FRAME_SMALL_MAX};
	uint8_t header[FRAME_HEADER], bytes[4096];
	struct pollfd f = {fd, POLLIN, 0};

	frame_header(header, FRAME_REQUEST, service, 1, (uint32_t)body.n);
	push(fd, header, sizeof(header));
	push(fd, body.p, body.n);
	buf_fini(&body);
	while (poll(&f, 1, 5000) == 1) {
		int64_t n = socket_receive(fd, bytes, sizeof(bytes));
		struct tfs_bytes in = {bytes, n > 0 ? (size_t)n : 0};

		if (n <= 0)
			break;
		while (in.n) {
			if (frame_read(&r, &in) != 1)
				continue;
			if (r.frame.kind == FRAME_ANSWER)
				return r.frame.body;
			buf_fini(&r.frame.body);
		}
	}
	frame_reader_fini(&r);
	return (struct buf){0};
}

static int ask_tablets(int fd, const struct ts_request *q)
{
	struct ts_answer a = {0};
	struct buf b = {0}, answer;
	int err;

	assert_int_equal(ts_request_pack(q, &b), 0);
	answer = ask(fd, FRAME_TABLETS, b);
	if (!answer.n)
		return -ECONNRESET;
	assert_int_equal(ts_answer_unpack(buf_bytes(&answer), q, &a), 0);
	err = a.err;
	ts_answer_fini(&a);
	buf_fini(&answer);
	return err;
}

static int ask_master(int fd, const struct ms_request *q)
{
	struct ms_answer a = {0};
	struct buf b = {0}, answer;
	int err;

	assert_int_equal(ms_request_pack(q, &b), 0);
	answer = ask(fd, FRAME_MASTER, b);
	if (!answer.n)
		return -ECONNRESET;
	assert_int_equal(ms_answer_unpack(buf_bytes(&answer), q, &a), 0);
	err = a.err;
	ms_answer_fini(&a);
	buf_fini(&answer);
	return err;
}

#define STRANGER 4321
static void stranger(void **state)
{
	struct tfs_user claimed = {.uid = 0, .gid = 0};
	struct ts_request q = {.method = TS_READ, .table = 100, .row = tfs_str("r"), .token.client = good.client};
	struct hello taken = {.version = HELLO_VERSION, .client = TS_CLIENT_RANDOM | 9};
	struct channel *c;
	unsigned before;
	int fd;

	if (geteuid() != 0)
		skip();
	begin();
	assert_int_equal(chmod(in_dir(""), 0711), 0);
	assert_int_equal(chmod(in_dir(SOCKET_NAME), 0666), 0);
	c = channel_open(9);
	fd = raw_as(STRANGER);
	push_hello(fd, &good);
	assert_int_equal(ask_tablets(fd, &q), 0);
	assert_int_equal(asked_by, STRANGER); /* a request without a user is the peer's */
	claimed.uid = STRANGER;
	q.user = &claimed;
	assert_int_equal(ask_tablets(fd, &q), 0);
	before = asked;
	claimed.uid = 0;
	assert_int_equal(ask_tablets(fd, &q), -EPERM); /* a request as root */
	q.user = NULL;
	q.table = META_TABLE;
	assert_int_equal(ask_tablets(fd, &q), -EPERM);
	q.method = TS_MUTATE;
	assert_int_equal(ask_tablets(fd, &q), -EPERM);
	for (unsigned method = TS_METHODS - 1; method; method--) {
		static const enum ts_method of_servers[] = {
			TS_LOAD, TS_UNLOAD, TS_BURY, TS_SEAL, TS_SORT, TS_LIST, TS_FILES, TS_COPY_TABLE, TS_BLOCK_WRITES};
		bool listed = false;

		for (unsigned i = 0; i < sizeof(of_servers) / sizeof(*of_servers); i++)
			listed = listed || of_servers[i] == method;
		q = (struct ts_request){
			.method = (enum ts_method)method, .table = 100, .row = tfs_str("r"), .token.client = good.client};
		if (listed)
			assert_int_equal(ask_tablets(fd, &q), -EPERM);
	}
	assert_int_equal(asked, before);
	assert_int_equal(ask_master(fd, &(struct ms_request){.method = MS_TABLE_DROP, .name = "t"}), -EPERM);
	q = (struct ts_request){.method = TS_READ, .table = 100, .row = tfs_str("r"), .token.client = taken.client};
	assert_int_equal(ask_tablets(fd, &q), -ECONNRESET); /* another's id */
	close(fd);
	fd = raw_as(STRANGER);
	push_hello(fd, &taken);
	assert_true(is_closed(fd));
	close(fd);
	assert_int_equal(asked, before);
	assert_int_equal(read_row(c, 9, 10), 0);
	assert_int_equal(asked_by, -1);
	channel_free(c);
	end();
}

/* ---- slow peers, and a slow server ---- */

#define LONG_BYTES ((size_t)65 << 20) /* over a quarter of LISTEN_MEMORY */
static void *flush_large(void *channel)
{
	struct ts_request q = {.method = TS_FLUSH, .table = 100, .token.client = TS_CLIENT_RANDOM | 9, .time_left_us = 60000000};
	struct ts_answer a = {0};
	uint8_t *row = calloc(1, LONG_BYTES);
	intptr_t err = -ANSWER_LOST;

	q.row = tfs_bytes_of(row, LONG_BYTES);
	/* A server that gets no processor for 5 s seems silent.  The router calls again, too. */
	for (unsigned i = 0; i < 10 && err == -ANSWER_LOST; i++) {
		ts_answer_fini(&a);
		err = ts_call(channel_tablets(channel), &q, &a);
	}
	ts_answer_fini(&a);
	free(row);
	return (void *)err;
}

/*
 * Peers that are silent, stop within a frame, or do not read their answers are closed after
 * 10 s.  Meanwhile a channel waits for two long requests, the second of which has no memory
 * before the first has ended.
 */
static void slow(void **state)
{
	enum { SILENT, HALF_HEADER, HALF_BODY, HALF_LARGE, DEAF, PEERS };
	const struct ts_request q = {
		.method = TS_READ, .table = 100, .row = tfs_str("r"), .length = TS_READ_BYTES_MAX, .token.client = good.client};
	struct hello large = good;
	uint8_t header[FRAME_HEADER];
	struct channel *c;
	pthread_t t[2];
	void *err;
	int fd[PEERS];

	large.large = true;
	begin();
	c = channel_open(9);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, flush_large, c), 0);
	for (unsigned i = 0; i < PEERS; i++)
		fd[i] = raw();
	for (unsigned i = HALF_HEADER; i < PEERS; i++)
		push_hello(fd[i], i == HALF_LARGE ? &large : &good);
	frame_header(header, FRAME_REQUEST, FRAME_TABLETS, 1, 1000);
	push(fd[HALF_HEADER], header, 5);
	push(fd[HALF_BODY], header, sizeof(header));
	frame_header(header, FRAME_REQUEST, FRAME_TABLETS, 1, FRAME_LARGE_MAX);
	push(fd[HALF_LARGE], header, sizeof(header));
	for (unsigned i = 0; i < 1000; i++) {
		struct buf body = {0};
		struct tfs_bytes b;

		assert_int_equal(ts_request_pack(&q, &body), 0);
		frame_header(header, FRAME_REQUEST, FRAME_TABLETS, i, (uint32_t)body.n);
		b = tfs_bytes_of(header, sizeof(header));
		if (socket_send(fd[DEAF], &b, 1) != (int64_t)b.n) /* not read any more */
			i = 1000;
		b = buf_bytes(&body);
		if (i < 1000 && socket_send(fd[DEAF], &b, 1) != (int64_t)b.n)
			i = 1000;
		buf_fini(&body);
	}
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(read_row(c, 9, 10), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(t[i], &err), 0);
		assert_int_equal((intptr_t)err, 0);
	}
	for (unsigned i = 0; i < PEERS; i++) {
		assert_true(is_closed(fd[i]));
		close(fd[i]);
	}
	assert_int_equal(read_row(c, 9, 10), 0);
	channel_free(c);
	end();
}

/* More connections than one user may have: the rest is closed, and the first ones work. */
static void crowd(void **state)
{
	static int fds[LISTEN_USER_MAX + 50];
	struct channel *c;
	unsigned open = 0;

	begin();
	c = channel_open(9);
	for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		fds[i] = raw();
		push_hello(fds[i], &good);
	}
	for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		struct pollfd f = {fds[i], POLLIN, 0};
		char byte;

		assert_int_equal(poll(&f, 1, 10000), 1);
		open += socket_receive(fds[i], &byte, 1) == 1;
	}
	assert_in_range(open, LISTEN_USER_MAX / 2, LISTEN_USER_MAX);
	assert_int_equal(read_row(c, 9, 10), 0);
	for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		close(fds[i]);
	channel_free(c);
	end();
}

/* Says HELLO as a user.  Returns true if it is answered. */
static bool greets(int fd, uid_t uid)
{
	const struct hello h = {.version = HELLO_VERSION, .client = TS_CLIENT_RANDOM | uid};
	struct pollfd f = {fd, POLLIN, 0};
	char byte;

	push_hello(fd, &h);
	assert_int_equal(poll(&f, 1, 10000), 1);
	return socket_receive(fd, &byte, 1) == 1;
}

/* Four users with all the connections that they may have: the owner can still connect. */
static void crowds(void **state)
{
	static int fds[4][LISTEN_USER_MAX];
	unsigned open[4] = {0};
	struct channel *c;

	if (geteuid() != 0)
		skip();
	begin();
	assert_int_equal(chmod(in_dir(""), 0711), 0);
	assert_int_equal(chmod(in_dir(SOCKET_NAME), 0666), 0);
	for (unsigned user = 0; user < 4; user++)
		for (unsigned i = 0; i < LISTEN_USER_MAX; i++) {
			fds[user][i] = raw_as(STRANGER + user);
			open[user] += greets(fds[user][i], STRANGER + user);
		}
	assert_int_equal(open[0], LISTEN_USER_MAX);
	assert_int_equal(open[3], 0);
	c = channel_open(9);
	assert_int_equal(read_row(c, 9, 10), 0);
	channel_free(c);
	for (unsigned user = 0; user < 4; user++)
		for (unsigned i = 0; i < LISTEN_USER_MAX; i++)
			close(fds[user][i]);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_in_pieces),
		cmocka_unit_test(answers_in_pieces),
		cmocka_unit_test(wrong_pieces),
		cmocka_unit_test(bad_headers),
		cmocka_unit_test(rights),
		cmocka_unit_test(keys),
		cmocka_unit_test(names_and_values),
		cmocka_unit_test_setup_teardown(hostile, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(stranger, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(slow, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(crowd, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(crowds, test_dir_setup, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
