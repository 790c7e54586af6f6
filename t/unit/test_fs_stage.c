/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs/file/stage: random writes, truncations and extensions give the same bytes as a
 * plain array, in memory and spilled.  The spans cover exactly the written bytes.
 */
#include "fs/file/stage.h"

#include "engine/tabletfs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t seed = 7;
static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

#define SPACE (600 * 1024)

struct plain {
	uint8_t bytes[SPACE];
	uint8_t written[SPACE];
	size_t size;
};

static void compare(struct stage *s, const struct plain *p)
{
	static uint8_t got_bytes[SPACE + 10];
	struct tfs_bytes all;
	size_t got, at = 0;

	assert_int_equal(s->size, p->size);
	assert_int_equal(0, stage_read(s, 0, got_bytes, sizeof(got_bytes), &got));
	assert_int_equal(got, p->size);
	assert_memory_equal(got_bytes, p->bytes, got);
	assert_int_equal(0, stage_bytes(s, &all));
	assert_int_equal(all.n, p->size);
	if (all.n)
		assert_memory_equal(all.p, p->bytes, all.n);
	for (unsigned i = 0; i < s->span_count; i++) {
		assert_true(s->spans[i].begin < s->spans[i].end && s->spans[i].end <= s->size);
		assert_true(i == 0 || s->spans[i].begin > s->spans[i - 1].end);
		for (; at < s->spans[i].begin; at++)
			assert_false(p->written[at]);
		for (; at < s->spans[i].end; at++)
			assert_true(p->written[at]);
	}
	for (; at < p->size; at++)
		assert_false(p->written[at]);
}

static void run(uint32_t space, uint32_t longest, int steps)
{
	static struct plain p;
	static uint8_t data[SPACE];
	struct stage s;

	memset(&p, 0, sizeof(p));
	stage_init(&s);
	for (int i = 0; i < steps; i++) {
		uint32_t at = rnd(space), n = rnd(longest) + 1;

		if (at + n > space)
			n = space - at;
		for (uint32_t j = 0; j < n; j++)
			data[j] = (uint8_t)(rnd(255) + 1);
		switch (rnd(8)) {
		case 0:
			assert_int_equal(0, stage_truncate(&s, at));
			if (at < p.size) {
				memset(p.bytes + at, 0, p.size - at);
				memset(p.written + at, 0, p.size - at);
			}
			p.size = at;
			break;
		case 1:
			assert_int_equal(0, stage_load(&s, at, data, n));
			memcpy(p.bytes + at, data, n);
			if (p.size < at + n)
				p.size = at + n;
			break;
		default:
			assert_int_equal(0, stage_write(&s, at, data, n));
			memcpy(p.bytes + at, data, n);
			memset(p.written + at, 1, n);
			if (p.size < at + n)
				p.size = at + n;
			break;
		}
		if (rnd(8) == 0)
			compare(&s, &p);
		if (rnd(200) == 0) {
			stage_reset(&s);
			memset(&p, 0, sizeof(p));
		}
	}
	compare(&s, &p);
	stage_fini(&s);
	assert_int_equal(stage_memory_used(), 0);
}

static void test_small(void **state)
{
	run(64, 16, 20000);
	run(5000, 300, 5000);
}

static void test_spilled(void **state)
{
	run(SPACE, 20000, 400);
}

static void test_limits(void **state)
{
	struct stage s;
	size_t got = 1;
	char c = 'x';

	stage_init(&s);
	assert_int_equal(-EFBIG, stage_write(&s, TFS_VALUE_MAX, &c, 1));
	assert_int_equal(-EFBIG, stage_write(&s, UINT64_MAX, &c, 1));
	assert_int_equal(-EFBIG, stage_truncate(&s, (uint64_t)TFS_VALUE_MAX + 1));
	assert_int_equal(s.size, 0);
	assert_int_equal(0, stage_write(&s, TFS_VALUE_MAX - 1, &c, 1));
	assert_int_equal(s.size, TFS_VALUE_MAX);
	assert_true(s.fd >= 0);
	assert_int_equal(0, stage_read(&s, TFS_VALUE_MAX, &c, 1, &got));
	assert_int_equal(got, 0);
	stage_fini(&s);
}

/* Together, stages hold no more memory than they may; the rest spills. */
static void test_memory_bound(void **state)
{
	static uint8_t block[200 * 1024];
	struct stage *s = calloc(400, sizeof(*s));

	assert_non_null(s);
	for (int i = 0; i < 400; i++) {
		stage_init(&s[i]);
		memset(block, i & 255, sizeof(block));
		assert_int_equal(0, stage_write(&s[i], 0, block, sizeof(block)));
		assert_true(stage_memory_used() <= STAGE_MEMORY_ALL);
	}
	for (int i = 0; i < 400; i++) {
		uint8_t c;
		size_t got;

		assert_int_equal(0, stage_read(&s[i], 100000, &c, 1, &got));
		assert_int_equal(c, i & 255);
		stage_fini(&s[i]);
	}
	assert_int_equal(stage_memory_used(), 0);
	free(s);
}

static int set_directory(void **state)
{
	/* The directory does not exist, so the stage uses TMPDIR or /tmp. */
	stage_set_directory("/nonexistent");
	return 0;
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Many spilled at once share descriptors; each keeps its own bytes, grown, cut and used again. */
static void test_shared(void **state)
{
	enum { MANY = 600 };
	static struct stage s[MANY];
	static uint8_t big[STAGE_MEMORY], bytes[STAGE_MEMORY + 2];
	struct stage filler[STAGE_MEMORY_ALL / STAGE_MEMORY];
	int before = open_descriptors();
	struct tfs_bytes all;
	size_t got;

	memset(big, 0x55, sizeof(big));
	for (size_t i = 0; i < sizeof(filler) / sizeof(filler[0]); i++) {
		stage_init(&filler[i]);
		assert_int_equal(0, stage_write(&filler[i], 0, big, sizeof(big)));
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			uint8_t text[40];

			stage_init(&s[i]);
			memset(text, i + round, sizeof(text));
			assert_int_equal(0, stage_write(&s[i], 0, text, sizeof(text)));
			assert_true(s[i].fd >= 0);
		}
		assert_true(open_descriptors() <= before + 2);
		for (int i = 0; i < MANY; i += 7) { /* out of the small slot */
			assert_int_equal(0, stage_write(&s[i], STAGE_MEMORY, "end", 3));
			assert_int_equal(0, stage_truncate(&s[i], STAGE_MEMORY + 1));
		}
		for (int i = 1; i < MANY; i += 7) { /* bytes that were cut off return as zeros */
			assert_int_equal(0, stage_truncate(&s[i], 10));
			assert_int_equal(0, stage_truncate(&s[i], 20));
		}
		for (int i = 0; i < MANY; i++) {
			size_t n = i % 7 == 0 ? STAGE_MEMORY + 1 : i % 7 == 1 ? 20 : 40;

			assert_int_equal(0, stage_read(&s[i], 0, bytes, sizeof(bytes), &got));
			assert_int_equal(got, n);
			for (size_t at = 0; at < 40 && at < n; at++)
				assert_int_equal(bytes[at], i % 7 == 1 && at >= 10 ? 0 : (uint8_t)(i + round));
			for (size_t at = 40; at < n; at++)
				assert_int_equal(bytes[at], at < STAGE_MEMORY ? 0 : 'e');
			assert_int_equal(0, stage_bytes(&s[i], &all));
			assert_int_equal(all.n, n);
			assert_memory_equal(all.p, bytes, n);
		}
		assert_true(open_descriptors() <= before + 2);
		for (int i = 0; i < MANY; i++)
			stage_fini(&s[i]);
	}
	for (size_t i = 0; i < sizeof(filler) / sizeof(filler[0]); i++)
		stage_fini(&filler[i]);
	assert_int_equal(0, stage_memory_used());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_spilled),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_memory_bound),
		cmocka_unit_test(test_shared),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_directory, NULL);
}
