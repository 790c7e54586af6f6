/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a cluster's servers as one.  While a server is silent, the store keeps nothing but schemas, and is told of
 * changed schemas by the other servers; a notice of schemas is confirmed when the store has read them again.
 */
#include "engine/client/client.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/hello.h"
#include "engine/tellers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- in the place of the store and the channels ---- */

static struct {
	unsigned count;
	bool notice, schemas, all, told;
	uint64_t number;
} changed; /* the last call */
static struct {
	unsigned count;
	struct channel *channel;
	uint64_t number;
} confirmed;

void client_changed(struct tfs_store *s, const struct tfs_bytes *notice, uint64_t number, bool told)
{
	struct arena arena = {0};
	struct notice n = {0};

	(void)s;
	assert_true(!notice || notice_unpack(*notice, &arena, &n) == 0);
	changed.count++;
	changed.notice = notice != NULL;
	changed.schemas = n.schemas;
	changed.all = n.all;
	changed.told = told;
	changed.number = number;
	arena_fini(&arena);
}

void channel_heard(struct channel *c, uint64_t notice)
{
	confirmed.count++;
	confirmed.channel = c;
	confirmed.number = notice;
}

int channel_watch(struct channel *c)
{
	(void)c;
	return 0;
}

static int ask(void *arg)
{
	(void)arg;
	return 0;
}

static bool has(void *arg, uint64_t incarnation)
{
	(void)arg;
	(void)incarnation;
	return true;
}

static void ended(void *arg, uint64_t incarnation)
{
	(void)arg;
	(void)incarnation;
	fail();
}

static void tells(struct teller *t, bool schemas, uint64_t number)
{
	const struct notice n = {.schemas = schemas};
	struct buf b = {0};
	struct tfs_bytes packed;

	assert_int_equal(notice_pack(&n, &b), 0);
	packed = buf_bytes(&b);
	tellers_changed(t, &packed, number);
	buf_fini(&b);
}

/* ---- cases ---- */

static void schemas_beside_a_silent_server(void **state)
{
	struct tfs_store *store = (struct tfs_store *)&changed;
	struct channel *one = (struct channel *)&confirmed, *two = (struct channel *)&changed;
	const struct tellers_options o = {60000000, ask, has, ended, NULL};
	struct tellers *s;
	struct teller *a, *b;

	(void)state;
	assert_int_equal(tellers_new(&o, &s), 0);
	a = tellers_add(s, 1);
	b = tellers_add(s, 2);
	tellers_made(a, one);
	tellers_made(b, two);
	assert_int_equal(tellers_watch(s, store), 0);
	tells(a, false, 1);
	assert_false(changed.told);
	tells(b, false, 1);
	assert_true(changed.told && changed.all);

	/* All tell. */
	tells(a, true, 2);
	assert_true(changed.told && changed.schemas);
	assert_int_equal(confirmed.count, 0);
	tellers_heard(s, changed.number);
	assert_int_equal(confirmed.count, 1);
	assert_ptr_equal(confirmed.channel, one);
	assert_int_equal(confirmed.number, 2);

	/* One is lost. */
	tellers_changed(b, NULL, 0);
	assert_false(changed.told);
	assert_false(changed.notice);
	tells(a, true, 3);
	assert_false(changed.told);
	assert_true(changed.notice && changed.schemas);
	assert_int_equal(confirmed.count, 1);
	tellers_heard(s, changed.number);
	assert_int_equal(confirmed.count, 2);
	assert_int_equal(confirmed.number, 3);
	changed.count = 0;
	tells(a, false, 4);
	assert_int_equal(changed.count, 0); /* nothing else is kept */

	/* It is back. */
	tells(b, false, 2);
	assert_true(changed.told && changed.all);
	tellers_stop(s);
	tellers_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schemas_beside_a_silent_server),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
