/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the wire: a listener over services that are made up, and channels to it. */
#ifndef T_UNIT_WIRE_LIB_H
#define T_UNIT_WIRE_LIB_H

#include "engine/base/socket.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/listen.h"
#include "t/unit/dir.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOW_S 6 /* longer than a channel bears the silence of a server */
static _Atomic unsigned asked, changed;
static _Atomic int64_t asked_by; /* -1 if there is no user */
static _Atomic bool held;        /* TS_COMPACT waits meanwhile */

static inline int tablets_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct tfs_bytes value = {0};

	asked++;
	asked_by = q->user ? (int64_t)q->user->uid : -1;
	if (q->method == TS_FLUSH)
		sleep(SLOW_S);
	while (q->method == TS_COMPACT && held)
		(void)sched_yield();
	if (q->method == TS_READ)
		a->size = q->row.n;
	if (q->method == TS_READ && q->length && (value.p = arena_alloc(&a->arena, q->length)) != NULL) {
		memset((uint8_t *)(uintptr_t)value.p, 'v', q->length);
		a->got = q->length;
		a->bytes = tfs_bytes_of(value.p, q->length);
	}
	return q->method == TS_EXISTS ? -ENOENT : 0;
}

static inline int master_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	return -EEXIST;
}

static inline int store_call(struct store_service *s, const struct ss_peer *peer, const struct ss_request *q, struct ss_answer *a)
{
	a->total_bytes = 42;
	return 0;
}

static inline void on_changed(void *arg, struct tfs_bytes notice, uint64_t number)
{
	changed++;
}

static const struct tablet_service_ops tablet_ops = {.call = tablets_call};
static const struct master_service_ops master_ops = {.call = master_call};
static const struct store_service_ops store_ops = {.call = store_call};
static struct tablet_service tablets = {.ops = &tablet_ops};
static struct master_service master = {.ops = &master_ops};
static struct store_service store = {.ops = &store_ops};
static struct listener *listener;

static inline void begin(void)
{
	const struct listen_options o = {
		.master = &master, .store = &store, .store_id = tfs_str("the store's id.."), .server = 3, .changed = on_changed};
	FILE *f;
	int fd;

	f = fopen(in_dir("FORMAT"), "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(socket_listen(in_dir(""), 0600, (gid_t)-1, &fd), 0);
	assert_int_equal(listen_new(fd, &tablets, &listener), 0);
	assert_int_equal(listen_start(listener, &o), 0);
	assert_int_equal(listen_watch(listener), 0);
}

static inline void end(void)
{
	listen_free(listener);
	socket_remove(in_dir(""));
}

static inline struct channel *channel_open(uint64_t client)
{
	struct channel_options o = {.client = TS_CLIENT_RANDOM | client, .program = "test", .timeout_us = 60000000};
	const struct store_source at = {.kind = SOURCE_UNIX, .dir = (char *)(uintptr_t)in_dir("")};
	struct channel *c;
	char *why = NULL;

	assert_int_equal(dial_new(&at, &(struct dial_options){.keys = "", .ssh = ""}, &o.dial, &why), 0);
	assert_int_equal(channel_new(&o, &c, &why), 0);
	return c;
}

static inline int read_row(struct channel *c, uint64_t client, size_t n)
{
	struct ts_request q = {
		.method = TS_READ, .table = 100, .token.client = TS_CLIENT_RANDOM | client, .time_left_us = 30000000};
	struct ts_answer a = {0};
	uint8_t *row = calloc(1, n + 1);
	int err;

	q.row = tfs_bytes_of(row, n);
	err = ts_call(channel_tablets(c), &q, &a);
	if (!err)
		assert_int_equal(a.size, n);
	ts_answer_fini(&a);
	free(row);
	return err;
}

#endif
