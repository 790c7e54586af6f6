/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels to the servers of a cluster.  A call without a time limit ends when its server has ended, although the
 * server's process still answers others.  Later calls find no server.
 */
#include "engine/base/clock.h"
#include "engine/peers.h"
#include "engine/rpc/listen_impl.h"
#include "t/unit/wire_lib.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/socket.h>

#define HANG_S 60u /* the test ends with a signal if a call does not end */
#define SERVER 3u

static char address[PEER_ADDRESS_MAX];
static _Atomic bool registered; /* the file servers/N exists */

static int address_of(void *arg, uint64_t incarnation, char out[PEER_ADDRESS_MAX])
{
	memcpy(out, address, sizeof(address));
	return registered && incarnation == SERVER ? 0 : -ENOENT;
}

static bool is_registered(void *arg, uint64_t incarnation)
{
	return registered;
}

/* Makes a listener as begin() does, on a port of TCP. */
static void begin_tcp(const char *file)
{
	const struct listen_options o = {
		.master = &master, .store = &store, .store_id = tfs_str("the store's id.."), .server = SERVER};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(at);
	struct keys *keys;
	char *why = NULL;
	FILE *f = fopen(file, "w");
	int fd;

	assert_non_null(f);
	fputs("c cluster 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", f);
	fclose(f);
	assert_int_equal(chmod(file, 0600), 0);
	assert_int_equal(keys_load(file, &keys, NULL, &why), 0);
	assert_int_equal(listen_new(-1, &tablets, &listener), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
	assert_int_equal(listen(fd, 10), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(listen_network(listener, fd, keys), 0);
	keys_put(keys);
	assert_int_equal(listen_start(listener, &o), 0);
}

struct call {
	struct peers *peers;
	pthread_t thread;
	int err;
	_Atomic bool returned;
};

static void *call_without_limit(void *arg)
{
	const struct ts_request q = {.method = TS_COMPACT, .table = 100, .row = tfs_str("r")};
	struct call *c = arg;
	struct ts_answer a = {0};

	c->err = ts_call(peers_connect(c->peers, SERVER), &q, &a);
	ts_answer_fini(&a);
	c->returned = true;
	return NULL;
}

static void a_call_ends_with_its_server(void **state)
{
	char *file = strdup(in_dir("keys"));
	const struct peers_options o = {.address = address_of,
		.kind = SOURCE_TLS,
		.keys = file,
		.channel = {.client = TS_CLIENT_RANDOM | 1, .program = "test", .timeout_us = 30000000}};
	struct call c = {0};

	alarm(HANG_S);
	begin_tcp(file);
	registered = true;
	held = true;
	asked = 0; /* by the test before */
	assert_int_equal(peers_new(&o, &c.peers), 0);
	assert_null(peers_connect(c.peers, SERVER + 1));
	assert_int_equal(pthread_create(&c.thread, NULL, call_without_limit, &c), 0);
	while (!asked)
		(void)sched_yield();
	peers_keep(c.peers, monotonic_us(), is_registered, NULL);
	assert_int_equal(read_row(peers_channel(c.peers, SERVER), 1, 10), 0);
	assert_false(c.returned);

	registered = false;
	peers_keep(c.peers, monotonic_us(), is_registered, NULL);
	assert_int_equal(pthread_join(c.thread, NULL), 0);
	assert_int_equal(c.err, -ANSWER_LOST);
	assert_null(peers_connect(c.peers, SERVER));
	held = false;
	peers_free(c.peers);
	listen_free(listener);
	free(file);
	alarm(0);
}

/* ---- servers that start again under another number each day ---- */

#define RESTARTS 200u
#define LEFT_MOST 1500u /* bytes of each that has ended */

static int number_of(void *arg, uint64_t incarnation, char out[PEER_ADDRESS_MAX])
{
	memcpy(out, address, sizeof(address));
	return incarnation == *(uint64_t *)arg ? 0 : -ENOENT;
}

static bool is_number(void *arg, uint64_t incarnation)
{
	return incarnation == *(uint64_t *)arg;
}

static size_t memory(void)
{
	return mallinfo2().uordblks;
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void restart(struct peers *p, uint64_t *number)
{
	const struct ts_request q = {.method = TS_EXISTS, .table = 100, .row = tfs_str("r")};
	struct ts_answer a = {0};

	listener->o.server = ++*number; /* before the connection */
	assert_int_equal(ts_call(peers_connect(p, *number), &q, &a), -ENOENT);
	ts_answer_fini(&a);
	peers_keep(p, monotonic_us(), is_number, number);
}

static void a_server_that_has_ended_leaves_little(void **state)
{
	char *file = strdup(in_dir("keys"));
	uint64_t number = 0;
	const struct peers_options o = {.address = number_of,
		.arg = &number,
		.kind = SOURCE_TLS,
		.keys = file,
		.channel = {.client = TS_CLIENT_RANDOM | 1, .program = "test", .timeout_us = 30000000}};
	struct peers *p;
	unsigned fds, left;
	size_t before;

	alarm(HANG_S);
	begin_tcp(file);
	assert_int_equal(peers_new(&o, &p), 0);
	for (unsigned i = 0; i < RESTARTS; i++) /* and then nothing is allocated once for all */
		restart(p, &number);
	before = memory();
	fds = descriptors();
	for (unsigned i = 0; i < RESTARTS; i++)
		restart(p, &number);
	for (unsigned i = 0; memory() > before && (memory() - before) / RESTARTS > LEFT_MOST && i < 100; i++)
		(void)usleep(50000); /* connections are closed soon */
	left = memory() > before ? (unsigned)((memory() - before) / RESTARTS) : 0;
	print_message("# a server that has ended leaves %u bytes\n", left);
	assert_in_range(left, 0, LEFT_MOST);
	assert_in_range(descriptors(), 0, fds + 4);
	peers_free(p);
	listen_free(listener);
	free(file);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_server_that_has_ended_leaves_little, test_dir_setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_call_ends_with_its_server, test_dir_setup, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
