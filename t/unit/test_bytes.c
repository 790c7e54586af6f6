/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, readers of damaged input, arenas, checksums and the clock. */
#include "engine/base/bytes.h"
#include "engine/base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static bool no_memory;

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_realloc(void *p, size_t n)
{
	return no_memory ? NULL : __real_realloc(p, n);
}

static void test_bytes(void **state)
{
	assert_true(bytes_cmp(tfs_str("a"), tfs_str("ab")) < 0);
	assert_true(bytes_cmp(tfs_str("b"), tfs_str("ab")) > 0);
	assert_true(bytes_cmp(tfs_bytes_of("\x80", 1), tfs_bytes_of("\x7f", 1)) > 0);
	assert_int_equal(bytes_cmp(tfs_bytes_of(NULL, 0), tfs_str("")), 0);
	assert_true(bytes_eq(tfs_bytes_of("a\0b", 3), tfs_bytes_of("a\0b", 3)));
	assert_false(bytes_eq(tfs_bytes_of("a\0b", 3), tfs_bytes_of("a\0c", 3)));
	assert_true(bytes_has_prefix(tfs_str("abc"), tfs_bytes_of(NULL, 0)));
	assert_true(bytes_has_prefix(tfs_str("abc"), tfs_str("ab")));
	assert_false(bytes_has_prefix(tfs_str("a"), tfs_str("ab")));
}

static void test_encodings_round_trip(void **state)
{
	static const uint64_t v[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX >> 1, UINT64_MAX};
	struct buf b = {0};
	struct reader r;
	struct tfs_bytes s;
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	assert_int_equal(buf_u8(&b, 0xfe), 0);
	assert_int_equal(buf_be16(&b, 0x1234), 0);
	assert_int_equal(buf_be32(&b, 0x12345678), 0);
	assert_int_equal(buf_be64(&b, 0x123456789abcdef0), 0);
	assert_memory_equal(b.p, "\xfe\x12\x34\x12\x34\x56\x78\x12\x34\x56\x78\x9a\xbc\xde\xf0", 15);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(buf_varint(&b, v[i]), 0);
	assert_int_equal(buf_lstr(&b, tfs_bytes_of("x\0y", 3)), 0);
	assert_int_equal(buf_lstr(&b, tfs_bytes_of(NULL, 0)), 0);

	r = reader_of(buf_bytes(&b));
	assert_true(get_u8(&r, &u8) && u8 == 0xfe);
	assert_true(get_be16(&r, &u16) && u16 == 0x1234);
	assert_true(get_be32(&r, &u32) && u32 == 0x12345678);
	assert_true(get_be64(&r, &u64) && u64 == 0x123456789abcdef0);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_true(get_varint(&r, &u64) && u64 == v[i]);
	assert_true(get_lstr(&r, &s) && bytes_eq(s, tfs_bytes_of("x\0y", 3)));
	assert_true(get_lstr(&r, &s) && s.n == 0);
	assert_int_equal(reader_left(&r), 0);
	assert_false(get_u8(&r, &u8));
	buf_fini(&b);
	assert_null(b.p);
}

static bool varint_of(const char *p, size_t n, uint64_t *v)
{
	struct reader r = reader_of(tfs_bytes_of(p, n));

	*v = 7;
	return get_varint(&r, v);
}

static void test_bad_input(void **state)
{
	struct reader r;
	struct tfs_bytes s;
	uint64_t v;
	uint8_t u8;
	uint32_t u32;

	assert_false(varint_of("", 0, &v));
	assert_int_equal(v, 0);
	assert_false(varint_of("\x80", 1, &v));
	assert_false(varint_of("\x80\x00", 2, &v));                                  /* overlong */
	assert_false(varint_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, &v)); /* 65 bits */
	assert_false(varint_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11, &v));
	assert_true(varint_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, &v) && v == UINT64_MAX);

	/* A length beyond the input, and one that would wrap a pointer. */
	r = reader_of(tfs_bytes_of("\x03xy", 3));
	assert_false(get_lstr(&r, &s));
	assert_null(s.p);
	r = reader_of(tfs_bytes_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01xy", 12));
	assert_false(get_lstr(&r, &s));

	/* Bad stays bad, though the next read would fit. */
	r = reader_of(tfs_bytes_of("abc", 3));
	assert_false(get_be32(&r, &u32));
	assert_int_equal(u32, 0);
	assert_true(r.bad);
	assert_false(get_u8(&r, &u8));
	assert_false(get_bytes(&r, 0, &s));

	r = reader_of((struct tfs_bytes){0});
	assert_true(get_bytes(&r, 0, &s));
	assert_false(get_bytes(&r, 1, &s));
}

static void test_failed_append_changes_nothing(void **state)
{
	struct buf b = {0};
	size_t n;

	assert_int_equal(buf_set(&b, "0123456789", 10), 0);
	n = b.cap;
	no_memory = true;
	assert_int_equal(buf_reserve(&b, n), -ENOMEM);
	assert_int_equal(buf_append(&b, (uint8_t[256]){0}, 256), -ENOMEM);
	assert_int_equal(buf_lstr(&b, tfs_bytes_of((uint8_t[256]){0}, 256)), -ENOMEM);
	assert_int_equal(buf_set(&b, (uint8_t[256]){0}, 256), -ENOMEM);
	assert_int_equal(buf_printf(&b, "%300d", 1), -ENOMEM);
	no_memory = false;
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOMEM);
	assert_int_equal(buf_reserve(&b, SIZE_MAX - 5), -ENOMEM);
	assert_true(bytes_eq(buf_bytes(&b), tfs_str("0123456789")));
	assert_int_equal(buf_set(&b, b.p + 3, 4), 0); /* from itself */
	assert_true(bytes_eq(buf_bytes(&b), tfs_str("3456")));
	assert_int_equal(buf_printf(&b, "-%d-%s", 42, "x"), 0);
	assert_true(bytes_eq(buf_bytes(&b), tfs_str("3456-42-x")));
	assert_int_equal(buf_append_bytes(&b, tfs_bytes_of(NULL, 0)), 0);
	buf_fini(&b);
}

static void test_arena(void **state)
{
	struct arena a = {0};
	struct tfs_bytes s;
	uint8_t *v[600];
	void *first;

	for (unsigned round = 0; round < 2; round++) {
		size_t sum = 0;

		for (unsigned i = 0; i < 600; i++) {
			size_t n = i % 100 == 99 ? 100000 : i;

			v[i] = arena_alloc(&a, n);
			assert_non_null(v[i]);
			assert_int_equal((uintptr_t)v[i] % 8, 0);
			memset(v[i], (int)(i & 0xff), n);
			sum += n;
		}
		for (unsigned i = 0; i < 600; i++)
			for (size_t j = 0; j < i; j++)
				assert_int_equal(v[i][j], i & 0xff);
		assert_true(a.used_bytes >= sum && a.used_bytes < sum + 600 * 16);
		arena_reset(&a);
		assert_int_equal(a.used_bytes, 0);
	}
	first = arena_alloc(&a, 8);
	assert_ptr_equal(first, v[0]); /* the first block again */
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX / 2 + 2));
	assert_true(arena_dup(&a, tfs_str("abc"), &s));
	assert_true(bytes_eq(s, tfs_str("abc")));
	assert_true(arena_dup(&a, tfs_bytes_of(NULL, 0), &s));
	assert_int_equal(s.n, 0);
	arena_fini(&a);
	arena_reset(&a);
	arena_fini(&a);
}

static void test_checksums(void **state)
{
	static const uint8_t zeros[32];
	uint8_t b[1000];

	assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(0, zeros, 32), 0x8A9136AA); /* RFC 3720, B.4 */
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i <= sizeof(b); i += 37)
		assert_int_equal(crc32c(crc32c(0, b, i), b + i, sizeof(b) - i), crc32c(0, b, sizeof(b)));
	/* XXH3_64bits of nothing, seed 0, as its specification gives it. */
	assert_true(hash64(tfs_bytes_of(NULL, 0), 0) == 0x2D06800538D394C2);
	assert_true(hash64(tfs_str("a"), 1) != hash64(tfs_str("a"), 2));
	assert_true(hash64(tfs_str("a"), 1) == hash64(tfs_bytes_of("ab", 1), 1));
}

static int64_t test_now;

static int64_t now_of_test(void *arg)
{
	return test_now;
}

static void test_clock(void **state)
{
	struct clock *c = clock_new(now_of_test, NULL);
	int64_t t;

	assert_non_null(c);
	test_now = 1000;
	assert_int_equal(clock_now(c), 1000);
	test_now = 900;
	assert_int_equal(clock_now(c), 900); /* reads follow */
	assert_int_equal(clock_collect(c), 900);
	assert_int_equal(clock_unique(c), 900);
	assert_int_equal(clock_unique(c), 901);
	assert_int_equal(clock_commit(c), 900);
	assert_int_equal(clock_commit(c), 901);
	test_now += 10000000;
	assert_int_equal(clock_unique(c), test_now);
	assert_int_equal(clock_commit(c), test_now);
	test_now -= 5000000;
	assert_int_equal(clock_unique(c), test_now); /* set back */
	assert_int_equal(clock_commit(c), test_now + 5000001);
	test_now = INT64_MAX;
	assert_true(clock_unique(c) == INT64_MAX);
	assert_true(clock_unique(c) == INT64_MAX);
	clock_free(c);

	c = clock_new(NULL, NULL);
	assert_non_null(c);
	t = clock_now(c);
	assert_true(t > (int64_t)1500000000 * 1000000);
	assert_true(clock_now(c) >= t);
	assert_true(monotonic_us() <= monotonic_us());
	clock_free(c);
	clock_free(NULL);
}

/* Nothing is collected by a clock that is not trusted. */
static void test_clock_mark(void **state)
{
	const int64_t day = CLOCK_GAP_US, mark = 1000 * day;
	struct clock *c = clock_new(now_of_test, NULL);
	struct clock_state st;

	assert_non_null(c);
	test_now = mark + day;
	clock_set_mark(c, mark, 0);
	assert_int_equal(clock_collect(c), test_now); /* a day is no gap */
	test_now = mark + 60 * day;
	clock_set_mark(c, mark, 0);
	assert_int_equal(clock_now(c), test_now);
	assert_int_equal(clock_collect(c), mark);
	assert_int_equal(clock_unique(c), test_now);
	clock_get_state(c, &st);
	assert_true(!st.trusted && st.mark_us == mark && st.now_us == test_now && st.left_us > day - 60000000 && st.left_us <= day);
	test_now = mark + 5000; /* it was wrong */
	assert_int_equal(clock_collect(c), test_now);
	assert_int_equal(clock_unique(c), test_now);
	clock_get_state(c, &st);
	assert_true(st.trusted && st.mark_us == test_now);
	test_now += 60 * day; /* while it is mounted */
	assert_int_equal(clock_collect(c), mark + 5000);
	clock_confirm(c);
	assert_int_equal(clock_collect(c), test_now);
	test_now -= 60 * day; /* the mark is wrong: versions that expired by the clock may be removed */
	assert_int_equal(clock_collect(c), test_now);
	clock_get_state(c, &st);
	assert_true(!st.trusted && st.mark_us == test_now + 60 * day);
	clock_confirm(c);
	clock_get_state(c, &st);
	assert_true(st.trusted && st.mark_us == test_now);
	test_now += 60 * day;
	clock_set_mark(c, mark, 61 * day);
	assert_int_equal(clock_collect(c), test_now);
	clock_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_encodings_round_trip),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_failed_append_changes_nothing),
		cmocka_unit_test(test_arena),
		cmocka_unit_test(test_checksums),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_clock_mark),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
