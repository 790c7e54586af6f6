/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging and clipping iterators: order, duplicates, any sequence of seeks and steps,
 * errors, and lazy opening.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/cell/merge.h"
#include "t/lib/xorshift.h"

/* ---- failing allocations ---- */
static long fail_at;
void *__real_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m)
{
	return fail_at > 0 && --fail_at == 0 ? NULL : __real_calloc(n, m);
}

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((xorshift(&rng) >> 16) % n);
}

/* ---- merge ---- */
struct fake {
	struct iter it;
	struct tfs_bytes keys[16];
	int count, at, fail_at;
	int *seeks, *frees;
};

static void fake_show(struct fake *f)
{
	f->it.valid = f->at < f->count;
	f->it.err = 0;
	if (f->at == f->fail_at) {
		f->it.valid = false;
		f->it.err = -EBADMSG;
	} else if (f->it.valid) {
		f->it.key = f->keys[f->at];
		f->it.size = 1;
		f->it.value = tfs_str("v").p;
	}
}

static void fake_seek(struct iter *it, struct tfs_bytes target)
{
	struct fake *f = (struct fake *)it;

	++*f->seeks;
	for (f->at = 0; f->at < f->count && bytes_cmp(f->keys[f->at], target) < 0;)
		f->at++;
	fake_show(f);
}

static void fake_next(struct iter *it)
{
	struct fake *f = (struct fake *)it;

	assert_true(it->valid);
	f->at++;
	fake_show(f);
}

static void fake_free(struct iter *it)
{
	struct fake *f = (struct fake *)it;

	++*f->frees;
	free(f);
}

static const struct iter_ops fake_ops = {fake_seek, fake_next, fake_free};
static const char alphabet[] = "abcdefghijklmnop";

static struct iter *fake_new(uint32_t mask, int fail, int *seeks, int *frees)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->it.ops = &fake_ops;
	f->fail_at = fail;
	f->seeks = seeks;
	f->frees = frees;
	for (int i = 0; i < 16; i++) {
		if (mask >> i & 1)
			f->keys[f->count++] = tfs_bytes_of(alphabet + i, 1);
	}
	return &f->it;
}

static void merge_follows_any_mix_of_seeks_and_steps(void **state)
{
	int seeks = 0, frees = 0, made = 0;

	rng = 42;
	for (int round = 0; round < 4000; round++) {
		struct iter *children[7], *it;
		uint32_t n = rnd(8), all = 0;
		int at = 16;

		for (uint32_t i = 0; i < n; i++) {
			uint32_t mask = rnd(65536) & rnd(65536);

			all |= mask;
			children[i] = fake_new(mask, -1, &seeks, &frees);
			made++;
		}
		assert_int_equal(merge_iter_new(children, n, 0, &it), 0);
		assert_false(it->valid);
		for (int step = 0; step < 40; step++) {
			if (!it->valid || rnd(4) == 0) {
				at = (int)rnd(16);
				iter_seek(it, tfs_bytes_of(alphabet + at, 1));
			} else {
				iter_next(it);
				at++;
			}
			while (at < 16 && !(all >> at & 1))
				at++;
			assert_int_equal(it->valid, at < 16);
			assert_int_equal(it->err, 0);
			if (it->valid)
				assert_true(bytes_eq(it->key, tfs_bytes_of(alphabet + at, 1)));
		}
		iter_free(it);
	}
	assert_int_equal(frees, made);
}

static void merge_hands_on_errors_and_recovers(void **state)
{
	int seeks = 0, frees = 0;
	struct iter *children[3], *it;

	children[0] = fake_new(0x00ff, -1, &seeks, &frees);
	children[1] = fake_new(0x0f10, 2, &seeks, &frees); /* e, i, then broken at j */
	children[2] = fake_new(0x8000, -1, &seeks, &frees);
	assert_int_equal(merge_iter_new(children, 3, 0, &it), 0);
	iter_seek(it, tfs_str("a"));
	for (int i = 0; i < 8; i++) {
		assert_true(it->valid);
		iter_next(it);
	}
	assert_true(it->valid && it->key.p[0] == 'i');
	iter_next(it);
	assert_false(it->valid);
	assert_int_equal(it->err, -EBADMSG);
	iter_seek(it, tfs_str("j"));
	assert_int_equal(it->err, -EBADMSG);
	iter_seek(it, tfs_str("k"));
	assert_true(it->valid && it->err == 0 && it->key.p[0] == 'k');
	iter_free(it);
	assert_int_equal(frees, 3);

	for (int i = 0; i < 3; i++)
		children[i] = fake_new(1, -1, &seeks, &frees);
	fail_at = 1;
	assert_int_equal(merge_iter_new(children, 3, 0, &it), -ENOMEM);
	fail_at = 0;
	assert_int_equal(frees, 6);
	children[0] = fake_new(1, -1, &seeks, &frees);
	fail_at = 1;
	assert_int_equal(clip_iter_new(children[0], tfs_str("a"), tfs_str("b"), &it), -ENOMEM);
	fail_at = 0;
	assert_int_equal(frees, 7);
}

static void forward_seeks_leave_children_that_are_past_the_target(void **state)
{
	int near = 0, far = 0, frees = 0;
	struct iter *children[2], *it;

	children[0] = fake_new(0x0fff, -1, &near, &frees);
	children[1] = fake_new(0x8000, -1, &far, &frees);
	assert_int_equal(merge_iter_new(children, 2, 0, &it), 0);
	for (int i = 0; i < 12; i++) {
		iter_seek(it, tfs_bytes_of(alphabet + i, 1));
		assert_true(it->valid && it->key.p[0] == (uint8_t)alphabet[i]);
	}
	assert_int_equal(far, 1);
	assert_int_equal(near, 12);
	iter_seek(it, tfs_str("a"));
	assert_true(it->key.p[0] == 'a');
	iter_free(it);
}

static void clips_hold_their_bounds(void **state)
{
	int seeks = 0, frees = 0;

	for (int from = 0; from < 16; from++) {
		for (int to = from; to <= 16; to++) {
			struct iter *it;

			assert_int_equal(clip_iter_new(fake_new(0xbbbb, -1, &seeks, &frees), tfs_bytes_of(alphabet + from, 1),
						 to < 16 ? tfs_bytes_of(alphabet + to, 1) : (struct tfs_bytes){0}, &it),
				0);
			assert_false(it->valid);
			for (int target = 0; target < 16; target++) {
				iter_seek(it, tfs_bytes_of(alphabet + target, 1));
				for (int at = target > from ? target : from; at < to; at++) {
					if (!(0xbbbb >> at & 1))
						continue;
					assert_true(it->valid && it->key.p[0] == (uint8_t)alphabet[at]);
					iter_next(it);
				}
				assert_false(it->valid);
				assert_int_equal(it->err, 0);
			}
			iter_free(it);
		}
	}
	assert_int_equal(frees, 16 * 17 / 2 + 16);
}

static void clips_hand_on_errors_inside_their_bounds_only(void **state)
{
	int seeks = 0, frees = 0;
	struct iter *it;

	assert_int_equal(clip_iter_new(fake_new(0xffff, 3, &seeks, &frees), tfs_str("b"), tfs_str("h"), &it), 0);
	iter_seek(it, tfs_str("a"));
	assert_true(it->valid && it->key.p[0] == 'b');
	iter_next(it);
	iter_next(it);
	assert_false(it->valid);
	assert_int_equal(it->err, -EBADMSG);
	iter_seek(it, tfs_str("h"));
	assert_false(it->valid);
	assert_int_equal(it->err, 0);
	iter_seek(it, tfs_str("e"));
	assert_true(it->valid && it->err == 0);
	iter_free(it);
	assert_int_equal(frees, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merge_follows_any_mix_of_seeks_and_steps),
		cmocka_unit_test(merge_hands_on_errors_and_recovers),
		cmocka_unit_test(forward_seeks_leave_children_that_are_past_the_target),
		cmocka_unit_test(clips_hold_their_bounds),
		cmocka_unit_test(clips_hand_on_errors_inside_their_bounds_only),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
