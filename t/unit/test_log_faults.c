/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log with failing and stalled files: acknowledged records are replayed,
 * records that failed are not.
 *
 * Stalls use the file layer's hook and a condition variable: the hook blocks the
 * thread inside its system call until the test releases it.
 */
#include "t/unit/log_lib.h"

/* ---- faults ---- */
enum { FAIL_NTH, FAIL_ALL, FAIL_PATH };
struct fault {
	pthread_mutex_t m;
	pthread_cond_t c;
	unsigned ops;     /* bit set of enum file_op */
	atomic_uint left; /* fails when it reaches 0 */
	atomic_bool on, always;
	int err;
	bool block, blocked, let_go;
	const char *path_end;
	atomic_uint hits;
};

static int fault_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct fault *f = arg;

	if (!atomic_load(&f->on) || !(f->ops >> op & 1))
		return 0;
	if (f->path_end) {
		size_t a = strlen(path), b = strlen(f->path_end);

		if (a < b || strcmp(path + a - b, f->path_end))
			return 0;
	}
	if (!atomic_load(&f->always) && atomic_fetch_sub(&f->left, 1) != 1)
		return 0;
	atomic_fetch_add(&f->hits, 1);
	if (!f->block)
		return f->err;
	pthread_mutex_lock(&f->m);
	f->blocked = true;
	pthread_cond_broadcast(&f->c);
	while (!f->let_go)
		pthread_cond_wait(&f->c, &f->m);
	pthread_mutex_unlock(&f->m);
	return f->err;
}

static void fault_init(struct fault *f, unsigned ops, unsigned nth, int err)
{
	memset(f, 0, sizeof *f);
	pthread_mutex_init(&f->m, NULL);
	pthread_cond_init(&f->c, NULL);
	f->ops = ops;
	atomic_init(&f->left, nth);
	f->err = err;
}

static void await_blocked(struct fault *f)
{
	pthread_mutex_lock(&f->m);
	while (!f->blocked)
		pthread_cond_wait(&f->c, &f->m);
	pthread_mutex_unlock(&f->m);
}

static void let_go(struct fault *f)
{
	pthread_mutex_lock(&f->m);
	f->let_go = true;
	pthread_cond_broadcast(&f->c);
	pthread_mutex_unlock(&f->m);
}

#define OP(x) (1u << FILE_OP_##x)

static void *put_one(void *arg)
{
	struct worker *w = arg;
	struct log_ticket t;

	w->did[0].err = put(w->e, 1000, 200, true, &t);
	w->did[0].lsn = t.lsn;
	return NULL;
}

static void stall(struct env *e, unsigned op, int later_err)
{
	struct worker *w = calloc(1, sizeof *w);
	struct fault f;
	struct seen s;
	struct log_stats st;
	struct buf img = {0};

	fault_init(&f, op, 1, later_err);
	f.block = true;
	start(e, 1 << 20, 20000);
	for (unsigned i = 1; i <= 5; i++)
		must_put(e, i, 100, i == 2);
	file_set_hook(fault_hook, &f);
	f.on = true;
	w->e = e;
	assert_int_equal(pthread_create(&w->thread, NULL, put_one, w), 0);
	await_blocked(&f);
	for (unsigned i = 6; i <= 12; i++)
		must_put(e, i, 100, i % 2);
	log_get_stats(e->log, &st);
	assert_int_equal(st.switches, 1);
	/* The disk's contents while the first writer still hangs: no record is missing or there twice. */
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 13);
	assert_true(has(&s, 1000));
	let_go(&f);
	pthread_join(w->thread, NULL);
	assert_int_equal(w->did[0].err, 0); /* the second writer wrote it */
	must_put(e, 13, 100, true);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 14);
	for (unsigned i = 1; i <= 13; i++)
		assert_true(has(&s, i));
	buf_fini(&img);
	free(w);
	file_set_hook(NULL, NULL);
}

static void test_the_active_writer_stalls_in_write(void **state)
{
	stall(*state, OP(WRITE), 0);
}

static void test_the_active_writer_stalls_in_sync(void **state)
{
	stall(*state, OP(SYNC), 0);
}

static void test_the_active_writer_stalls_and_then_fails(void **state)
{
	stall(*state, OP(WRITE), -EIO);
}

static void test_the_stalled_sync_fails_at_last(void **state)
{
	stall(*state, OP(SYNC), -EIO);
}

static void *put_unsynced(void *arg)
{
	struct worker *w = arg;
	struct log_ticket t;

	w->did[0].err = put(w->e, 1000, 200, false, &t);
	w->did[0].in_doubt = t.in_doubt;
	return NULL;
}

/* Both writers hang: waiters get an error after twice the stall time, and all is well once the disk is back. */
static void test_both_writers_stall(void **state)
{
	struct env *e = *state;
	struct worker *w = calloc(2, sizeof *w);
	struct fault f;
	struct seen s;
	struct log_ticket t;

	fault_init(&f, OP(WRITE) | OP(SYNC), 0, 0);
	f.block = true;
	f.always = true;
	start(e, 1 << 20, 20000);
	must_put(e, 1, 100, true);
	must_put(e, 2, 100, false);
	file_set_hook(fault_hook, &f);
	f.on = true;
	for (unsigned i = 0; i < 2; i++) {
		w[i].e = e;
		assert_int_equal(pthread_create(&w[i].thread, NULL, put_unsynced, &w[i]), 0);
	}
	await_blocked(&f);
	while (atomic_load(&f.hits) < 2) /* the second is inside the fresh file */
		sched_yield();
	assert_int_equal(put(e, 3, 100, true, &t), -EIO);
	assert_int_equal(put(e, 4, 100, true, &t), -EROFS);
	atomic_store(&f.on, false);
	let_go(&f);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].did[0].err, -EIO);
		assert_true(w[i].did[0].in_doubt);
	}
	while (put(e, 5, 100, true, &t) == -EROFS)
		sched_yield();
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 3);
	assert_int_equal(s.tag[0], 1);
	assert_int_equal(s.tag[1], 2);
	assert_int_equal(s.tag[2], 5);
	free(w);
}

static void test_every_nth_failure_is_survived(void **state)
{
	static const unsigned ops[] = {
		OP(WRITE), OP(SYNC), OP(CREATE), OP(SYNCDIR), OP(WRITE) | OP(SYNC) | OP(CREATE) | OP(SYNCDIR)};
	struct env *e = *state;
	struct fault f;
	struct seen s;

	for (unsigned o = 0; o < 5; o++)
		for (unsigned nth = 1;; nth++) {
			bool sync_failed = false;

			fault_init(&f, ops[o], nth, -EIO);
			start(e, 2048, 0);
			file_set_hook(fault_hook, &f);
			f.on = true;
			for (unsigned i = 1; i <= 16; i++) {
				struct log_ticket t;

				/* The second writer covers one failure. */
				if (put(e, i, 300, i % 3 == 0, &t))
					sync_failed = true;
			}
			if (f.ops == OP(CREATE) || !sync_failed)
				assert_false(sync_failed);
			f.on = false;
			file_set_hook(NULL, NULL);
			assert_int_equal(log_free(e->log), 0);
			assert_int_equal(replay(e, &s), 0);
			holds(&s, 1, 16);
			empty_dir(e->dir);
			if (!f.hits)
				break;
		}
}

/* From the nth on everything fails: errors, then -EROFS; a record that got an error never returns. */
static void test_both_writers_fail_and_recover(void **state)
{
	static const unsigned ops[] = {OP(WRITE), OP(SYNC), OP(SYNCDIR), OP(WRITE) | OP(SYNC) | OP(CREATE)};
	static const int errs[] = {-EIO, -ENOSPC};
	struct env *e = *state;

	for (unsigned o = 0; o < 8; o++) {
		int want = errs[o & 1], tries = 0;
		unsigned op = ops[o / 2];
		struct log_ticket t[6], again;
		struct log_record r;
		uint8_t batch[128];
		struct fault f;
		struct seen s;

		fault_init(&f, op, 0, want);
		f.always = true;
		start(e, 1 << 20, 0);
		must_put(e, 1, 100, true);
		must_put(e, 2, 100, false);
		for (unsigned i = 0; i < 6; i++) {
			fill(&r, batch, 10 + i, 100);
			assert_int_equal(log_submit(e->log, &r, i % 2, &t[i]), 0);
		}
		if (op == OP(SYNCDIR))
			f.ops |= OP(SYNC);
		file_set_hook(fault_hook, &f);
		f.on = true;
		for (unsigned i = 1; i < 6; i += 2) {
			assert_int_equal(log_wait(e->log, &t[i]), want);
			assert_true(t[i].in_doubt);
		}
		assert_int_equal(put(e, 20, 100, false, &again), want == -ENOSPC ? -ENOSPC : -EROFS);
		assert_int_equal(log_sync(e->log), want == -ENOSPC ? -ENOSPC : -EROFS);
		f.on = false;
		while (put(e, 21, 100, true, &again)) {
			assert_true(tries++ < 1000000000);
			sched_yield();
		}
		for (unsigned i = 0; i < 6; i += 2) {
			int got = log_wait(e->log, &t[i]);

			/* Where writes work, unsynced ones were written before the sync failed. */
			assert_int_equal(got, op & OP(WRITE) ? want : 0);
		}
		must_put(e, 22, 100, false);
		assert_int_equal(log_free(e->log), 0);
		assert_int_equal(replay(e, &s), 0);
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(has(&s, 10 + i), i % 2 == 0 && !(op & OP(WRITE)));
		assert_true(has(&s, 1) && has(&s, 2) && has(&s, 21) && has(&s, 22) && !has(&s, 20));
		file_set_hook(NULL, NULL);
		empty_dir(e->dir);
		pthread_mutex_destroy(&f.m);
	}
}

/* Both writers fail for long: that is logged the first time, then ever more seldom, and when it is over. */
static void test_what_stays_broken_is_told_of_seldom(void **state)
{
	struct env *e = *state;
	unsigned told = 0, tries = 0;
	struct log_ticket t;
	struct buf ring = {0};
	struct fault f;
	char *at;

	fault_init(&f, OP(CREATE) | OP(SYNC), 0, -EIO);
	f.always = true;
	start_trying(e, 1 << 20, 0, 500);
	must_put(e, 1, 100, true);
	msg_notice("from here on");
	file_set_hook(fault_hook, &f);
	f.on = true;
	assert_int_equal(put(e, 2, 100, true, &t), -EIO);
	while (f.hits < 50)
		sched_yield();
	f.on = false;
	while (put(e, 3, 100, true, &t))
		sched_yield();
	file_set_hook(NULL, NULL);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(msg_ring(&ring), 0);
	assert_int_equal(buf_append(&ring, "", 1), 0);
	at = strstr((char *)ring.p, "from here on");
	assert_non_null(at);
	for (char *line = at; (line = strstr(line, "no fresh file")); line++)
		told++;
	assert_null(strstr(at, ".log: ")); /* nor of the file alone, another file each time */
	at = strstr(at, "fresh file, after ");
	assert_non_null(at);
	assert_int_equal(sscanf(at, "fresh file, after %u tries", &tries), 1);
	assert_true(tries >= 48);
	assert_int_equal(told, 32 - (unsigned)__builtin_clz(tries));
	buf_fini(&ring);
	pthread_mutex_destroy(&f.m);
}

/* A disk on which the first file may grow to `first`, and any other file to a page. */
static struct little_room {
	uint64_t first;
	_Atomic unsigned refused;
	_Atomic bool hold_sync; /* the first sync takes until a write has been refused */
	_Atomic bool syncing;
} little;

static int little_room_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	bool first = strstr(path, "0000000001.log");

	if (op == FILE_OP_SYNC && little.hold_sync) {
		little.syncing = true;
		while (!little.refused)
			sched_yield();
		little.hold_sync = false;
	}
	if (op != FILE_OP_WRITE || offset + n <= (first ? little.first : 4096))
		return 0;
	little.refused++;
	return -ENOSPC;
}

static void *sync_it(void *arg)
{
	return (void *)(intptr_t)log_sync(((struct env *)arg)->log);
}

/* Written records need not be written again where there is no space for them, whether or not a sync is under way. */
static void test_no_room(void **state)
{
	struct env *e = *state;

	for (unsigned with_sync = 0; with_sync < 2; with_sync++) {
		struct log_ticket t;
		pthread_t thread;
		struct seen s;
		void *synced = NULL;

		little = (struct little_room){.first = 60000, .hold_sync = with_sync};
		start(e, 1 << 20, 0);
		file_set_hook(little_room_hook, NULL);
		for (unsigned i = 1; i <= 40; i++)
			must_put(e, i, 1000, false);
		if (with_sync) {
			assert_int_equal(pthread_create(&thread, NULL, sync_it, e), 0);
			while (!little.syncing)
				sched_yield();
		}
		assert_int_equal(put(e, 50, 30000, false, &t), -ENOSPC);
		if (with_sync)
			pthread_join(thread, &synced);
		assert_int_equal((intptr_t)synced, 0);
		assert_int_equal(log_durable_lsn(e->log), 40);
		assert_int_equal(log_try_again(e->log), 0);
		must_put(e, 51, 1000, true);
		file_set_hook(NULL, NULL);
		assert_int_equal(log_free(e->log), 0);
		assert_int_equal(replay(e, &s), 0);
		for (unsigned i = 1; i <= 40; i++)
			assert_true(has(&s, i));
		assert_true(has(&s, 51) && !has(&s, 50));
		empty_dir(e->dir);
	}
}

/* After an fsync error the old file is not synced again: a second success would mean nothing. */
static int no_second_sync(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	unsigned *calls = arg;

	if (op != FILE_OP_SYNC || !strstr(path, "0000000001.log"))
		return 0;
	return (*calls)++ == 0 ? -EIO : 0;
}

static void test_a_failed_fsync_is_not_tried_again(void **state)
{
	struct env *e = *state;
	unsigned calls = 0;
	struct seen s;
	char *one = path_join(e->dir, "0000000001.log");

	start(e, 1 << 20, 0);
	must_put(e, 1, 100, false);
	file_set_hook(no_second_sync, &calls);
	must_put(e, 2, 100, true);
	must_put(e, 3, 100, true);
	assert_int_equal(log_sync(e->log), 0);
	assert_int_equal(log_free(e->log), 0);
	file_set_hook(NULL, NULL);
	assert_int_equal(calls, 1);
	/* The new file holds everything: the old one's content no longer matters. */
	write_image(one, (const uint8_t *)"", 0);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 3);
	free(one);
}

/* A kill between the creation of the second file and its header must not cut off records that only the first file has. */
static void test_a_second_file_without_header_cuts_nothing(void **state)
{
	struct env *e = *state;
	struct seen s;
	struct file *f;
	char *two = path_join(e->dir, "0000000002.log");
	uint8_t zero[4096] = {0};

	start(e, 1 << 20, 0);
	for (unsigned i = 1; i <= 5; i++)
		must_put(e, i, 100, i == 2);
	assert_int_equal(file_open(two, FILE_CREATE, &f), 0);
	assert_int_equal(file_pwrite(f, zero, sizeof zero, 0), 0);
	file_close(f);
	assert_int_equal(replay(e, &s), 0);
	holds(&s, 1, 5);
	assert_int_equal(log_free(e->log), 0);
	free(two);
}

/* Its caller holds the tablet's lock: if a disk hung, all else in the tablet would hang too. */
static void test_submit_never_blocks(void **state)
{
	struct env *e = *state;
	uint8_t *batch = malloc(1 << 20);
	struct log_ticket t;
	struct log_record r;
	struct fault f;
	unsigned n = 0;
	int err;

	fault_init(&f, OP(SYNC), 1, 0);
	f.block = true;
	start(e, 256 << 20, 3600000000u);
	file_set_hook(fault_hook, &f);
	f.on = true;
	fill(&r, batch, 1, 1 << 20);
	while ((err = log_submit(e->log, &r, false, &t)) == 0 && ++n < 100)
		assert_int_equal(log_wait(e->log, &t), 0);
	assert_int_equal(err, -EAGAIN);
	assert_in_range(n, 64, 66);
	await_blocked(&f);
	let_go(&f);
	assert_int_equal(log_wait_memory(e->log), 0);
	assert_int_equal(log_submit(e->log, &r, false, &t), 0);
	assert_int_equal(log_wait(e->log, &t), 0);
	file_set_hook(NULL, NULL);
	assert_int_equal(log_free(e->log), 0);
	free(batch);
}

static int slow_sync(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op == FILE_OP_SYNC)
		usleep(*(unsigned *)arg); /* real time is the subject: a sync that takes so long */
	return 0;
}

/* Every sync takes longer than a stall, for either writer: slow, but no record is refused. */
static void test_a_slow_disk_is_not_a_broken_one(void **state)
{
	struct env *e = *state;
	struct worker *w = calloc(4, sizeof *w);
	unsigned takes_us = 450000; /* so long that a busy machine does not make it six stalls */
	struct seen s;

	start(e, 1 << 20, 400000);
	file_set_hook(slow_sync, &takes_us);
	run_workers(w, 4, e, 4);
	file_set_hook(NULL, NULL);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay(e, &s), 0);
	assert_int_equal(s.count, 16);
	check_workers(w, 4, &s);
	free(w);
}

static void test_threads_under_random_faults(void **state)
{
	struct env *e = *state;
	struct worker *w = calloc(4, sizeof *w);
	struct fault f;
	struct seen s;

	for (unsigned round = 0; round < 12; round++) {
		fault_init(&f, OP(WRITE) | OP(SYNC) | OP(SYNCDIR) | OP(CREATE), 20 + round * 17, -EIO);
		start(e, 8192, 0);
		file_set_hook(fault_hook, &f);
		f.on = true;
		run_workers(w, 4, e, 200);
		f.on = false;
		file_set_hook(NULL, NULL);
		assert_int_equal(f.hits, 1);
		assert_int_equal(log_free(e->log), 0);
		assert_int_equal(replay(e, &s), 0);
		check_workers(w, 4, &s);
		empty_dir(e->dir);
	}
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_the_active_writer_stalls_in_write),
		T(test_the_active_writer_stalls_in_sync),
		T(test_the_active_writer_stalls_and_then_fails),
		T(test_the_stalled_sync_fails_at_last),
		T(test_both_writers_stall),
		T(test_every_nth_failure_is_survived),
		T(test_both_writers_fail_and_recover),
		T(test_what_stays_broken_is_told_of_seldom),
		T(test_no_room),
		T(test_a_failed_fsync_is_not_tried_again),
		T(test_a_second_file_without_header_cuts_nothing),
		T(test_submit_never_blocks),
		T(test_a_slow_disk_is_not_a_broken_one),
		T(test_threads_under_random_faults),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
