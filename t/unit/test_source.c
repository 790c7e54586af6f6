/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of sources: their kinds, their parts, and what is refused. */
#include "engine/base/source.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_kinds(void **state)
{
	static const struct {
		const char *text;
		enum source_kind kind;
		const char *dir, *host, *again; /* `again` is the result of store_source_text; NULL if it is the text itself */
	} v[] = {
		{"/srv/data", SOURCE_DIR, "/srv/data", NULL, NULL},
		{"/srv/a:b", SOURCE_DIR, "/srv/a:b", NULL, NULL},
		{"/srv/user@host:b", SOURCE_DIR, "/srv/user@host:b", NULL, NULL},
		{"unix:/srv/data", SOURCE_UNIX, "/srv/data", NULL, NULL},
		{"unix:/srv/a:b", SOURCE_UNIX, "/srv/a:b", NULL, NULL},
		{"web1:/srv/data", SOURCE_SSH, "/srv/data", "web1", NULL},
		{"ann@web1:data", SOURCE_SSH, "data", "ann@web1", NULL},
		{"ann@corp@web1.example:/srv/a:b", SOURCE_SSH, "/srv/a:b", "ann@corp@web1.example", NULL},
		{"web1:~/data", SOURCE_SSH, "data", "web1", "web1:data"},
		{"web1:-rf", SOURCE_SSH, "-rf", "web1", NULL},
		{"web1:a b'\"$(x)`\n", SOURCE_SSH, "a b'\"$(x)`\n", "web1", NULL},
		{"[::1]:/srv/data", SOURCE_SSH, "/srv/data", "::1", NULL},
		{"ann@[fe80::1%eth0]:d", SOURCE_SSH, "d", "ann@fe80::1%eth0", NULL},
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		struct store_source s, copy;
		char *why = NULL, *again;

		assert_int_equal(store_source_parse(v[i].text, &s, &why), 0);
		assert_int_equal(s.kind, v[i].kind);
		assert_string_equal(s.dir, v[i].dir);
		assert_string_equal(s.host ? s.host : "", v[i].host ? v[i].host : "");
		assert_int_equal(store_source_is_served(&s), v[i].kind != SOURCE_DIR);
		again = store_source_text(&s);
		assert_string_equal(again, v[i].again ? v[i].again : v[i].text);
		assert_int_equal(store_source_copy(&s, &copy), 0);
		assert_int_equal(copy.kind, s.kind);
		assert_string_equal(copy.dir, s.dir);
		free(again);
		store_source_fini(&copy);
		store_source_fini(&s);
	}
}

static void test_relative(void **state)
{
	struct store_source s;
	char *why = NULL, *text;

	assert_int_equal(store_source_parse("./a:b", &s, &why), 0);
	assert_int_equal(s.kind, SOURCE_DIR);
	text = store_source_text(&s);
	assert_int_equal(text[0], '/');
	assert_string_equal(text + strlen(text) - 6, "/./a:b");
	free(text);
	store_source_fini(&s);
	assert_int_equal(store_source_parse("unix:data", &s, &why), 0);
	text = store_source_text(&s);
	assert_int_equal(strncmp(text, "unix:/", 6), 0);
	assert_string_equal(store_source_directory(&s), "data");
	free(text);
	store_source_fini(&s);
}

static void test_addresses(void **state)
{
	static const char text[] = "tls://web1.example:7070,[::1]:7071,10.0.0.1:65535";
	struct store_source s;
	char *why = NULL, *again;

	assert_int_equal(store_source_parse(text, &s, &why), 0);
	assert_int_equal(s.kind, SOURCE_TLS);
	assert_int_equal(s.address_count, 3);
	assert_string_equal(s.addresses[0].host, "web1.example");
	assert_string_equal(s.addresses[0].port, "7070");
	assert_string_equal(s.addresses[1].host, "::1");
	assert_string_equal(s.addresses[1].port, "7071");
	assert_string_equal(s.addresses[2].port, "65535");
	assert_null(store_source_directory(&s));
	again = store_source_text(&s);
	assert_string_equal(again, text);
	free(again);
	store_source_fini(&s);
	assert_int_equal(store_source_parse("tcp://127.0.0.1:1", &s, &why), 0);
	assert_int_equal(s.kind, SOURCE_TCP);
	store_source_fini(&s);
}

static void test_refused(void **state)
{
	static const char *const v[] = {"", ":", ":/srv", "unix:", "web1:", "-oProxyCommand=x:/srv", "ann@-x:/srv",
		"-ann@web1:/srv", "@web1:/srv", "ann@:/srv", "[::1]x:/srv", "[]:/srv", "[::1:/srv", "a b:/srv", "$(touch x):/srv",
		"a`x`:/srv", "a;x:/srv", "a\nb:/srv", "a'b:/srv", "a*:/srv", "zk://a:1", "tls://", "tls://a",
		"tls://a:", "tls://a:0", "tls://a:65536", "tls://a:1,", "tls://,a:1", "tls://a:1,b", "tls://-a:1", "tls://::1:7",
		"tls://a:1/x", "tls://a:+1", "tls://[::1]:7,[::1]",
		"tcp://1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1"};
	char large[SOURCE_MAX + 2];
	struct store_source s;

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		char *why = NULL;
		int err = store_source_parse(v[i], &s, &why);

		if (err != -EINVAL || !why)
			fail_msg("%s: %d %s", v[i], err, why ? why : "");
		free(why);
	}
	memset(large, 'a', sizeof(large));
	large[sizeof(large) - 1] = 0;
	{
		char *why = NULL;

		assert_int_equal(store_source_parse(large, &s, &why), -EINVAL);
		free(why);
		large[SOURCE_MAX] = 0;
		assert_int_equal(store_source_parse(large, &s, &why), 0);
		store_source_fini(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_relative),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
