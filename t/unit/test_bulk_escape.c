/* SPDX-License-Identifier: Apache-2.0 */
/* Escaped byte strings: each kind of byte has its escape, every byte string returns, and malformed escapes are refused. */
#include "engine/bulk/escape.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect_text(struct tfs_bytes bytes, const char *text)
{
	struct buf out = {0}, back = {0};

	assert_int_equal(text_escape(bytes, &out), 0);
	assert_int_equal(out.n, strlen(text));
	assert_memory_equal(out.n ? out.p : (const uint8_t *)"", text, out.n);
	assert_int_equal(text_unescape(buf_bytes(&out), &back), 0);
	assert_true(bytes_eq(buf_bytes(&back), bytes));
	buf_fini(&out);
	buf_fini(&back);
}

static void each_byte_has_its_escape(void **state)
{
	expect_text(tfs_bytes_of("", 0), "");
	expect_text(tfs_str("plain text"), "plain text");
	expect_text(tfs_str("a\tb\nc\rd\\e"), "a\\tb\\nc\\rd\\\\e");
	expect_text(tfs_bytes_of("\0\x01\x1f\x7f", 4), "\\x00\\x01\\x1F\\x7F");
	expect_text(tfs_str("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
	expect_text(tfs_str("\xc3"), "\\xC3");
	expect_text(tfs_str("\xff\xc3\xbc\x80"), "\\xFF\xc3\xbc\\x80");
}

/* Plain bytes are copied eight at a time. */
static void each_byte_among_plain_ones(void **state)
{
	for (int c = 0; c < 256; c++) {
		for (size_t at = 0; at < 20; at++) {
			struct buf alone = {0}, among = {0};
			uint8_t bytes[20];

			memset(bytes, 'a', sizeof bytes);
			bytes[at] = (uint8_t)c;
			assert_int_equal(text_escape(tfs_bytes_of(bytes + at, 1), &alone), 0);
			assert_int_equal(text_escape(tfs_bytes_of(bytes, sizeof bytes), &among), 0);
			assert_int_equal(among.n, sizeof bytes - 1 + alone.n);
			assert_memory_equal(among.p + at, alone.p, alone.n);
			buf_fini(&alone);
			buf_fini(&among);
		}
	}
}

static void random_bytes_return(void **state)
{
	uint8_t bytes[64];
	struct buf out = {0}, back = {0};

	srand(1);
	for (int i = 0; i < 20000; i++) {
		const size_t n = (size_t)rand() % sizeof bytes;

		for (size_t k = 0; k < n; k++)
			bytes[k] = (uint8_t)(rand() % 3 ? rand() : "\\\t\n\rx0"[rand() % 6]);
		buf_reset(&out);
		buf_reset(&back);
		assert_int_equal(text_escape(tfs_bytes_of(bytes, n), &out), 0);
		for (size_t k = 0; k < out.n; k++)
			assert_true(out.p[k] >= 0x20 && out.p[k] != 0x7f);
		assert_int_equal(text_unescape(buf_bytes(&out), &back), 0);
		assert_true(bytes_eq(buf_bytes(&back), tfs_bytes_of(bytes, n)));
	}
	buf_fini(&out);
	buf_fini(&back);
}

static void malformed_escapes_are_refused(void **state)
{
	static const char *const wrong[] = {"\\", "a\\", "\\x", "\\x1", "\\xg0", "\\x0g", "\\q", "\\0", "a\\\\\\"};
	struct buf out = {0};

	assert_int_equal(buf_append(&out, "kept", 4), 0);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(text_unescape(tfs_str(wrong[i]), &out), -EINVAL);
		assert_int_equal(out.n, 4);
	}
	assert_int_equal(text_unescape(tfs_str("\\x4a\\x4A"), &out), 0);
	assert_memory_equal(out.p, "keptJJ", 6);
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_has_its_escape),
		cmocka_unit_test(each_byte_among_plain_ones),
		cmocka_unit_test(random_bytes_return),
		cmocka_unit_test(malformed_escapes_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
