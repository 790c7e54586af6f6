/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A notice of schemas is confirmed when the store has read the schemas again.  While no server gives them, the store
 * repeats the read, and the notice waits.
 */
#include "engine/base/clock.h"
#include "engine/client/client.h"
#include "engine/rpc/hello.h"
#include "t/lib/store.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/msg.h"

/* ---- in the place of the lock service: it has one table ---- */

static struct schema *stored;
static _Atomic int read_err; /* of reads of schemas; 0: they succeed */
static _Atomic unsigned failed_reads;
static _Atomic uint64_t confirmed; /* the last notice */
static _Atomic uint64_t generation_then;
static struct tfs_table *table;

static int fake_get(struct lock_service *l, const char *name, struct buf *contents, struct lock_stat *stat)
{
	(void)l;
	if (strcmp(name, "tables/t") != 0)
		return -ENOENT;
	if (read_err) {
		failed_reads++;
		return read_err;
	}
	*stat = (struct lock_stat){.version = 1};
	buf_reset(contents);
	return schema_encode(stored, contents);
}

static int fake_list(struct lock_service *l, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	(void)l;
	return strcmp(dir, "tables") ? 0 : fn(arg, "t");
}

static int fake_sync(struct lock_service *l)
{
	(void)l;
	return 0;
}

static const struct lock_service_ops lock_ops = {.get = fake_get, .list = fake_list, .sync = fake_sync};
static struct lock_service locks = {&lock_ops};

/* ---- the store ---- */

static uint64_t generation(void)
{
	const struct schema *s = table_schema(table);
	const uint64_t n = schema_public(s)->generation;

	schema_put(s);
	return n;
}

static void heard(void *arg, uint64_t notice)
{
	(void)arg;
	generation_then = generation();
	confirmed = notice;
}

static int closed(void *arg)
{
	(void)arg;
	return 0;
}

static void changes(void *arg, const struct tfs_change *v, unsigned count)
{
	(void)arg, (void)v, (void)count;
}

static void tell(struct tfs_store *s, bool all, uint64_t number)
{
	const struct notice n = {.schemas = true, .all = all};
	struct buf b = {0};
	struct tfs_bytes packed;

	assert_int_equal(notice_pack(&n, &b), 0);
	packed = buf_bytes(&b);
	client_changed(s, &packed, number, true);
	buf_fini(&b);
}

static void wait_until(uint64_t since_us)
{
	assert_true(monotonic_us() < since_us + 60000000);
	sched_yield();
}

static void await_confirmed(uint64_t number)
{
	const uint64_t since = monotonic_us();

	while (confirmed < number)
		wait_until(since);
}

static void add_family(const char *name)
{
	const struct tfs_schema_edit edit = {.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .mode = 0644};
	struct schema *next;

	assert_int_equal(schema_edit(stored, &edit, 1, &next, NULL), 0);
	schema_put(stored);
	stored = next;
}

static void no_server_gives_a_schema(void **state)
{
	static const int errors[] = {-UNREACHABLE, -ANSWER_LOST, -ETIMEDOUT, -EAGAIN, -SESSION_ENDED, -EIO, -ENOMEM};
	struct client_options o = {
		.locks = &locks, .close = closed, .heard = heard, .remote = true, .options.coherence_us = 600000000};
	struct tfs_store *s;
	uint64_t number = 1;

	(void)state;
	assert_int_equal(schema_new("t", 16, 0, 0, 0755, 1, &stored), 0);
	assert_int_equal(client_new(&o, &s), 0);
	assert_int_equal(tfs_table_open(s, "t", &table), 0);
	assert_int_equal(tfs_watch(s, changes, NULL), 0);
	tell(s, true, number);
	await_confirmed(number);
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		const uint64_t before = generation(), since = monotonic_us();
		char name[8];

		snprintf(name, sizeof(name), "f%u", i);
		add_family(name);
		failed_reads = 0;
		read_err = errors[i];
		tell(s, false, ++number);
		while (failed_reads < 2)
			wait_until(since);
		assert_int_equal(confirmed, number - 1);
		assert_int_equal(generation(), before);
		read_err = 0;
		await_confirmed(number);
		assert_int_equal(generation_then, schema_public(stored)->generation);
		assert_int_not_equal(generation_then, before);
	}
	/* A damaged schema stays damaged, and those who change others do not wait for it. */
	read_err = -EBADMSG;
	tell(s, false, ++number);
	await_confirmed(number);
	tfs_unwatch(s);
	tfs_table_close(table);
	assert_int_equal(tfs_close(s), 0);
	schema_put(stored);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(no_server_gives_a_schema)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
