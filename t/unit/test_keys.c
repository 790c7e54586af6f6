/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of keys, and streams with TLS between two ends in this process.  Each malformed line
 * is refused with its number.  The ends agree only if both have the key, whatever sizes of
 * pieces the socket takes, and what is sent arrives whole.
 */
#include "engine/base/hash.h"
#include "engine/base/socket.h"
#include "engine/rpc/stream.h"
#include "t/unit/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX2 "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* ---- the parser ---- */

static struct keys *parsed(const char *text)
{
	struct keys *k = NULL;
	const char *reason;
	unsigned line;

	assert_int_equal(keys_parse(tfs_str(text), &k, &line, &reason), 0);
	return k;
}

static void good_files(void **state)
{
	struct keys *k = parsed("# keys\n\n  laptop mount " HEX "  \n\tb\tcluster\t" HEX "\n"
				"c-1_x.y@z mount " HEX2 " squash=root anon_uid=7 anon_gid=8 tables=A,b.c,d-e");
	const struct key *c;

	assert_int_equal(keys_count(k), 3);
	assert_string_equal(keys_at(k, 0)->name, "laptop");
	assert_int_equal(keys_at(k, 0)->role, KEY_MOUNT);
	assert_int_equal(keys_at(k, 0)->squash, SQUASH_NONE);
	assert_int_equal(keys_at(k, 0)->anon_uid, KEY_NOBODY);
	assert_int_equal(keys_at(k, 0)->table_count, 0);
	for (unsigned i = 0; i < KEY_SECRET; i++)
		assert_int_equal(keys_at(k, 0)->secret[i], i);
	assert_int_equal(keys_at(k, 1)->role, KEY_CLUSTER);
	c = keys_find(k, tfs_str("c-1_x.y@z"));
	assert_ptr_equal(c, keys_at(k, 2));
	assert_int_equal(c->squash, SQUASH_ROOT);
	assert_int_equal(c->anon_uid, 7);
	assert_int_equal(c->anon_gid, 8);
	assert_int_equal(c->table_count, 3);
	assert_string_equal(c->tables[2], "d-e");
	assert_null(keys_find(k, tfs_str("c")));
	assert_null(keys_find(k, tfs_bytes_of("laptop", 7)));
	assert_true(key_same(c, c));
	assert_false(key_same(keys_at(k, 0), keys_at(k, 1)));
	keys_put(k);
	k = parsed("");
	assert_int_equal(keys_count(k), 0);
	keys_put(k);
}

static void bad_lines(void **state)
{
	static const char *const bad[] = {"a", "a mount", "a mount 00", "a mount " HEX "0", "a root " HEX,
		"a mount " HEX " squash=no", "a mount " HEX " squash", "a mount " HEX " anon_uid=", "a mount " HEX " anon_uid=-1",
		"a mount " HEX " anon_uid=4294967295", "a mount " HEX " anon_uid=1x",
		"a mount " HEX " tables=", "a mount " HEX " tables=a,", "a mount " HEX " tables=.a",
		"a mount " HEX " tables=a tables=b", "a mount " HEX " x=1", "-a mount " HEX, ".a mount " HEX, "a/b mount " HEX,
		"a mount 000102030405060708090A0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "a cluster " HEX " squash=all",
		"a mount " HEX "\na mount " HEX2, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa mount " HEX};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct keys *k = NULL;
		const char *reason = NULL;
		unsigned line = 0;
		char text[1024];

		snprintf(text, sizeof(text), "# first\n%s\nz mount " HEX "\n", bad[i]);
		assert_int_equal(keys_parse(tfs_str(text), &k, &line, &reason), -EINVAL);
		assert_int_equal(line, strchr(bad[i], '\n') ? 3 : 2);
		assert_true(reason && *reason);
		assert_null(k);
	}
}

static void files(void **state)
{
	const char *path = in_dir("keys");
	struct keys *k = NULL;
	struct buf line = {0};
	char *why = NULL;
	bool ends;
	FILE *f = fopen(path, "w");

	assert_int_equal(keys_new_line("a", "mount", "squash=all", &line), 0);
	assert_int_equal(fwrite(line.p, 1, line.n, f), line.n);
	assert_int_equal(fclose(f), 0);
	for (mode_t mode = 0; mode < 0100; mode++) {
		assert_int_equal(chmod(path, 0600 | mode), 0);
		assert_int_equal(keys_load(path, &k, &ends, &why), mode ? -EACCES : 0);
		assert_true(mode ? strstr(why, "0600") != NULL
				 : !why && ends && keys_count(k) == 1 && keys_at(k, 0)->squash == SQUASH_ALL);
		free(why);
		why = NULL;
	}
	keys_put(k);
	assert_int_equal(keys_load(in_dir("none"), &k, NULL, &why), -ENOENT);
	free(why);
	why = NULL;
	assert_int_equal(keys_load("/dev/null", &k, NULL, &why), -EINVAL);
	free(why);
	buf_fini(&line);
}

/* ---- streams ---- */

struct ends {
	struct tls *tls[2]; /* server, client */
	struct stream s[2];
};

static void open_ends(struct ends *e, const char *server, const char *client)
{
	struct keys *k[2] = {parsed(server), parsed(client)};
	const int small = 4096;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		assert_int_equal(i ? tls_client_new(k[i], &e->tls[i]) : tls_server_new(k[i], &e->tls[i]), 0);
		assert_int_equal(stream_init(&e->s[i], fd[i], e->tls[i], i == 0), 0);
		keys_put(k[i]);
	}
}

static void close_ends(struct ends *e)
{
	for (unsigned i = 0; i < 2; i++) {
		stream_fini(&e->s[i]);
		tls_free(e->tls[i]);
	}
}

/* Moves bytes both ways until each end has n of them, or one fails.  Returns 0 or the error. */
static int exchange(struct ends *e, const uint8_t *bytes, size_t n, uint8_t *got[2])
{
	size_t sent[2] = {0}, have[2] = {0};

	while (have[0] < n || have[1] < n)
		for (unsigned i = 0; i < 2; i++) {
			/* The first 13 bytes are a piece of their own, as a frame's header. */
			const size_t head = sent[i] < 13 ? 13 - sent[i] : 0;
			const struct tfs_bytes v[2] = {{bytes + sent[i], head}, {bytes + sent[i] + head, n - sent[i] - head}};
			int64_t r;

			if (sent[i] < n) {
				r = stream_send(&e->s[i], v, 2);
				if (r < 0 && r != -EAGAIN)
					return (int)r;
				sent[i] += r > 0 ? (size_t)r : 0;
			}
			if (have[i] < n) {
				r = stream_receive(&e->s[i], got[i] + have[i], n - have[i]);
				if (r == 0 || (r < 0 && r != -EAGAIN))
					return r ? (int)r : -EPIPE;
				have[i] += r > 0 ? (size_t)r : 0;
			}
		}
	return 0;
}

static void streams(void **state)
{
	static const size_t sizes[] = {14, 1000, 16384, 16385, 300000};
	uint8_t *bytes = malloc(300000), *got[2] = {malloc(300000), malloc(300000)};
	struct ends e;

	assert_int_equal(random_bytes(bytes, 300000), 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		open_ends(&e, "b mount " HEX2 "\na mount " HEX, "a mount " HEX);
		assert_int_equal(exchange(&e, bytes, sizes[i], got), 0);
		assert_memory_equal(got[0], bytes, sizes[i]);
		assert_memory_equal(got[1], bytes, sizes[i]);
		assert_true(bytes_eq(stream_key(&e.s[0]), tfs_str("a")));
		close_ends(&e);
	}
	free(bytes);
	free(got[0]);
	free(got[1]);
}

static void wrong_keys(void **state)
{
	static const char *const keys[][2] = {
		{"a mount " HEX, "b mount " HEX}, {"a mount " HEX, "a mount " HEX2}, {"", "a mount " HEX}};
	const struct tfs_bytes plain = tfs_str("GET / HTTP/1.1\r\n\r\n");
	uint8_t bytes[100] = {0}, a[100], b[100], *got[2] = {a, b};
	const struct tfs_bytes more = {bytes, sizeof(bytes)};
	struct stream *failed;
	struct ends e;

	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		open_ends(&e, keys[i][0], keys[i][1]);
		assert_int_equal(exchange(&e, bytes, sizeof(bytes), got), -EKEYREJECTED);
		assert_int_equal(stream_key(&e.s[0]).n, 0);
		/* A sender and a receiver may be two threads: each is told. */
		failed = &e.s[e.s[0].reason ? 0 : 1];
		assert_int_equal(stream_receive(failed, a, sizeof(a)), -EKEYREJECTED);
		assert_int_equal(stream_send(failed, &more, 1), -EKEYREJECTED);
		close_ends(&e);
	}
	/* Clear text meets TLS. */
	open_ends(&e, "a mount " HEX, "a mount " HEX);
	assert_int_equal(socket_send(e.s[1].fd, &plain, 1), plain.n);
	assert_int_equal(stream_receive(&e.s[0], a, sizeof(a)), -EKEYREJECTED);
	assert_non_null(e.s[0].reason);
	close_ends(&e);
}

/* Bytes that are changed on their way are not delivered. */
static void damage(void **state)
{
	uint8_t bytes[1000] = {1}, a[1000], b[1000], record[2000], *got[2] = {a, b};
	const struct tfs_bytes v = {bytes, sizeof(bytes)};
	struct tfs_bytes changed;
	struct ends e;
	int pass[2];
	int64_t n;

	open_ends(&e, "a mount " HEX, "a mount " HEX);
	assert_int_equal(exchange(&e, bytes, sizeof(bytes), got), 0);
	/* From here on, the client's records pass through this test. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pass), 0);
	close(e.s[1].fd);
	e.s[1].fd = pass[0];
	assert_int_equal(stream_send(&e.s[1], &v, 1), sizeof(bytes));
	n = socket_receive(pass[1], record, sizeof(record));
	assert_true(n > 1000);
	close(pass[1]);
	close(e.s[0].fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pass), 0);
	e.s[0].fd = pass[0];
	record[500] ^= 1;
	changed = tfs_bytes_of(record, (size_t)n);
	assert_int_equal(socket_send(pass[1], &changed, 1), n);
	assert_int_equal(stream_receive(&e.s[0], a, sizeof(a)), -EBADMSG);
	close(pass[1]);
	close_ends(&e);
}

/* Bytes arrive behind messages of TLS itself. */
static void updates(void **state)
{
	uint8_t bytes[100] = {2}, a[100], b[100], *got[2] = {a, b};
	const struct tfs_bytes v = {bytes, sizeof(bytes)};
	unsigned turns = 0;
	struct ends e;
	int64_t n;

	open_ends(&e, "a mount " HEX, "a mount " HEX);
	assert_int_equal(exchange(&e, bytes, sizeof(bytes), got), 0);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(SSL_key_update(e.s[1].ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		assert_int_equal(SSL_do_handshake(e.s[1].ssl), 1);
	}
	assert_int_equal(stream_send(&e.s[1], &v, 1), sizeof(bytes));
	while ((n = stream_receive(&e.s[0], a, sizeof(a))) == -EAGAIN)
		assert_true(turns++ < 10);
	assert_int_equal(n, sizeof(bytes));
	assert_int_equal(stream_receive(&e.s[0], a, sizeof(a)), -EAGAIN);
	assert_false(e.s[0].more);
	close_ends(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(good_files), cmocka_unit_test(bad_lines),
		cmocka_unit_test_setup_teardown(files, test_dir_setup, test_dir_teardown), cmocka_unit_test(streams),
		cmocka_unit_test(wrong_keys), cmocka_unit_test(damage), cmocka_unit_test(updates)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
