/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compaction policy alone: which of thousands of flushes of all sizes it merges,
 * how many files remain, how often a byte is rewritten, the order in which tablets
 * get a worker, and the bound on bytes per second.
 */
#include <math.h>

#include "t/unit/compact_lib.h"

#include "engine/compact/compact_internal.h"

/* ---- files and bytes ---- */

enum sizes { EQUAL, EVEN, HEAVY, TINY_AND_HUGE, FALLING, RISING, WAVES, KINDS_OF_SIZES };
static const char *const kind_names[] = {"equal", "even", "heavy-tailed", "tiny and huge", "falling", "rising", "waves"};

static uint64_t seed;

static double uniform(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(seed >> 11) / (double)(UINT64_C(1) << 53);
}

static uint64_t flush_size(enum sizes kind, unsigned i, unsigned n)
{
	const double mib = 1 << 20;

	switch (kind) {
	case EQUAL:
		return (uint64_t)mib;
	case EVEN:
		return (uint64_t)(mib * (0.1 + 1.9 * uniform()));
	case HEAVY:
		return (uint64_t)(mib * fmin(pow(1 - uniform(), -0.8) * 0.1, 64));
	case TINY_AND_HUGE:
		return uniform() < 0.1 ? (uint64_t)(16 * mib) : 4096;
	case FALLING:
		return (uint64_t)(4 * mib * (n - i) / n) + 1;
	case RISING:
		return (uint64_t)(4 * mib * (i + 1) / n);
	case WAVES:
		return (uint64_t)(mib * pow(2, 4 * sin(i / 7.0)));
	case KINDS_OF_SIZES:
	default:
		abort();
	}
}

struct sim {
	struct view *v;
	uint64_t seq, flushed, written;
	unsigned most;
};

static void sim_add(struct sim *s, uint16_t group, uint64_t bytes, uint64_t seq)
{
	struct vfile *f = calloc(1, sizeof *f);
	struct view *n = view_new(s->v->file_count + 1);

	f->refs = 1;
	f->meta.group = group;
	f->meta.bytes = bytes;
	f->meta.seq_max = seq;
	for (unsigned i = 0; i < s->v->file_count; i++)
		view_add_file(n, s->v->files[i]);
	view_add_file(n, f);
	vfile_put(f);
	view_put(s->v);
	s->v = n;
	s->written += bytes;
}

/* Merges until nothing is to be done, as the background does between two flushes. */
static void sim_merge(struct sim *s)
{
	static const struct file_set none;
	struct file_set run;
	struct view *n;
	uint64_t bytes;

	for (;;) {
		LIB(compact_pick(s->v, &run));
		if (!run.n)
			return;
		bytes = 0;
		for (unsigned i = 0; i < run.n; i++)
			bytes += run.v[i]->meta.bytes;
		n = view_change(s->v, &run, &none);
		view_put(s->v);
		s->v = n;
		sim_add(s, run.v[0]->meta.group, bytes, run.v[0]->meta.seq_max); /* nothing was overwritten, the worst case */
		file_set_put(&run);
	}
}

static void simulate(enum sizes kind, unsigned flushes, unsigned groups)
{
	struct sim s = {.v = view_new(0)};
	double amplification, doublings;

	for (unsigned i = 0; i < flushes; i++) {
		s.seq++;
		for (unsigned g = 0; g < groups; g++) {
			uint64_t bytes = flush_size(kind, i, flushes);

			if (g && uniform() < 0.3)
				continue; /* not every flush has data of every group */
			sim_add(&s, (uint16_t)(g + 1), bytes, s.seq);
			s.flushed += bytes;
		}
		sim_merge(&s);
		for (unsigned g = 0; g < groups; g++) {
			unsigned n = 0;

			for (unsigned k = 0; k < s.v->file_count; k++)
				n += s.v->files[k]->meta.group == g + 1;
			if (n > s.most)
				s.most = n;
		}
		assert_true(view_debt(s.v) <= COMPACT_MOST_FILES);
	}
	amplification = (double)s.written / (double)s.flushed;
	doublings = log2(flushes);
	print_message("# %u flushes, %u groups, %s: at most %u files a group, each byte written %.2f times, %.2f a doubling\n",
		flushes, groups, kind_names[kind], s.most, amplification, amplification / doublings);
	assert_true(s.most <= COMPACT_MOST_FILES);
	assert_true(amplification <= 1 + 0.7 * doublings);
	view_put(s.v);
}

static void bounds(void **state)
{
	static const unsigned flushes[] = {10, 100, 1000, 5000};

	seed = 1;
	for (unsigned k = 0; k < KINDS_OF_SIZES; k++)
		for (unsigned i = 0; i < 4; i++)
			simulate(k, flushes[i], 1 + i % 3);
}

/* ---- whose turn it is ---- */

static void order(void **state)
{
	static struct tablet t[7];
	struct tablet_env env = {.major_within_us = UINT64_C(604800000000)};
	const uint64_t day = UINT64_C(86400000000);
	uint64_t last = UINT64_MAX;

	for (unsigned i = 0; i < 7; i++) {
		t[i].env = &env;
		t[i].merge_task.run = compact_merge_task;
		t[i].major_task.run = compact_major_task;
	}
	t[0].major_late_us = (int64_t)(7 * day / 2); /* the promise is about to be broken */
	t[1].debt = 13;                              /* slows writers down */
	t[2].debt = 9;                               /* more than reads should meet */
	t[3].debt = 5;
	t[4].debt = 4;
	t[5].major_late_us = (int64_t)(day / 4);
	t[6].major_late_us = 0;
	for (unsigned i = 0; i < 7; i++) {
		bool major = i == 0 || i >= 5;
		uint64_t u = compact_urgency(major ? &t[i].major_task : &t[i].merge_task, 0);

		assert_true(u > 0 && u < last);
		last = u;
		/* whoever waits long enough has his turn */
		assert_true(compact_urgency(&t[6].major_task, UINT64_C(20) * 3600000000) > u);
	}
	env.major_under_way = true;
	assert_int_equal(compact_urgency(&t[0].major_task, day), 0);
	assert_true(compact_urgency(&t[4].merge_task, 0) > 0);
}

/* Major compactions are spread over the last quarter of the half, by place, also after a restart. */
static void spread(void **state)
{
	const uint64_t within = UINT64_C(604800000000);
	unsigned slots[8] = {0};

	for (unsigned i = 0; i < 800; i++) {
		char row[16];
		int64_t after, from = (int64_t)(within / 2 / 4 * 3);
		uint64_t width = within / 2 / 4;

		snprintf(row, sizeof row, "row%u", i);
		after = compact_major_after(16, tfs_str(row), within);
		assert_true(after >= from && after <= (int64_t)(within / 2));
		assert_int_equal(after, compact_major_after(16, tfs_str(row), within));
		slots[(uint64_t)(after - from) * 8 / (width + 1)]++;
	}
	for (unsigned i = 0; i < 8; i++)
		assert_true(slots[i] > 50 && slots[i] < 150);
}

/* ---- the rate ---- */

static void rate(void **state)
{
	static struct lib l;
	uint64_t from, took;

	start(&l, 1);
	from = monotonic_us();
	for (unsigned i = 0; i < 100; i++)
		compact_pace(l.t, 1 << 20); /* no limit is none */
	l.env.compaction_rate = 100 << 20;
	for (unsigned i = 0; i < 60; i++)
		compact_pace(l.t, 1 << 20);
	took = monotonic_us() - from;
	assert_true(took > 350000); /* 0.6 s, minus the part that may be done at once */
	/* Not while a caller waits for it. */
	from = monotonic_us();
	l.t->debt = FILES_FREE + 1;
	compact_pace(l.t, UINT64_C(100) << 30);
	l.t->debt = 0;
	l.env.slowed_us = monotonic_us();
	compact_pace(l.t, UINT64_C(100) << 30);
	l.env.slowed_us = 0;
	l.t->split_wanted = true;
	compact_pace(l.t, UINT64_C(100) << 30);
	l.t->split_wanted = false;
	took = monotonic_us() - from;
	assert_true(took < 900000000); /* less than a quarter of an hour */
	end(&l);
}

/* Files unknown to a start are checked at that rate, too. */
static void rate_of_looking(void **state)
{
	static struct lib l;
	uint64_t number;
	char row[16];

	start(&l, 1);
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof row, "row%u", i);
		LIB(lib_put(&l, row, 2, "q", 1, tfs_str("value")));
	}
	LIB(tablet_flush(l.t));
	lib_stop(&l);
	lib_start(&l);
	assert_int_equal(l.file_count, 1);
	number = l.files[0].number;
	l.env.compaction_rate = UINT64_C(1) << 40; /* no caller waits, but it is counted */
	LIB(compact_major(l.t, true));
	assert_int_equal(l.file_count, 1);
	assert_int_equal(l.files[0].number, number);
	assert_true(l.env.paced_us > 0);
	end(&l);
}

/* On a full disk removed cells are dropped before their time; after an attempt that found no space the next waits. */
static void full_disk(void **state)
{
	const struct op gone = {.kind = OP_DELETE_COLUMN, .family = 2, .w.qualifier = tfs_str("q"), .w.place = {false, INT64_MAX}};
	static const _Atomic bool full = true;
	static struct lib l;
	char row[16];

	start(&l, 1);
	for (unsigned part = 0; part < 2; part++) {
		for (unsigned i = 0; i < 80; i++) {
			snprintf(row, sizeof row, "row%u", i);
			if (part == 0)
				LIB(lib_put(&l, row, 2, "q", 1, tfs_str("value")));
			else if (i % 2)
				LIB(lib_op(&l, row, &gone, NULL));
		}
		LIB(tablet_flush(l.t));
	}
	l.env.major_within_us = UINT64_C(1) << 50; /* its time has not come */
	l.env.disk_full = &full;
	l.t->major_after_us = monotonic_us() + UINT64_C(3600000000);
	compact_major_task(&l.t->major_task);
	assert_int_equal(l.file_count, 2);
	l.t->major_after_us = monotonic_us();
	compact_major_task(&l.t->major_task);
	assert_int_equal(l.file_count, 1);
	end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),
		cmocka_unit_test(order),
		cmocka_unit_test(spread),
		cmocka_unit_test(rate),
		cmocka_unit_test(rate_of_looking),
		cmocka_unit_test(full_disk),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
