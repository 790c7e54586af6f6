/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of the commit log are reused: bytes of a file's earlier use are never
 * replayed, wherever a crash or a kill interrupted the new use.  No record is lost
 * if a file cannot be reused.
 */
#include "t/unit/log_lib.h"

#include <sys/stat.h>

enum { SEGMENT = 8192 };

/* Atomic: the log's own threads come to the hook, too. */
static struct {
	_Atomic unsigned ops[FILE_OPS];
	_Atomic enum file_op fail;  /* FILE_OPS if none fails */
	_Atomic unsigned fail_from; /* such operations fail from this number, counted from 1, up to fail_to */
	_Atomic unsigned fail_to;
	_Atomic int err;
} io;

static int count_ops(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	unsigned now = ++io.ops[op];

	return op == io.fail && now >= io.fail_from && now <= io.fail_to ? io.err : 0;
}

static void watch(void)
{
	memset(&io, 0, sizeof io);
	io.fail = FILE_OPS;
	file_set_hook(count_ops, NULL);
}

static int name_one(void *arg, const char *name, bool is_dir)
{
	assert_true(log_segment_parse(name, arg));
	return 0;
}

static uint64_t newest_segment(struct env *e)
{
	uint64_t number = 0; /* names are listed in order */

	assert_int_equal(file_list(e->dir, name_one, &number), 0);
	return number;
}

static char *segment(struct env *e, uint64_t number)
{
	char name[32];

	log_segment_name(name, number);
	return path_join(e->dir, name);
}

/* Records tag.., so few of them synced that nothing is zeroed ahead. */
static uint64_t put_many(struct env *e, uint64_t tag, unsigned n)
{
	for (unsigned i = 1; i <= n; i++, tag++)
		must_put(e, tag, 100 + tag * 37 % 900, i % 4 == 0);
	return tag;
}

static void test_dropped_segments_are_used_again(void **state)
{
	struct env *e = *state;
	uint64_t tag = 1, last;
	struct stat st;
	struct seen s;

	start(e, SEGMENT, 0);
	watch();
	for (unsigned i = 0; i < 60; i++) {
		tag = put_many(e, tag, 20);
		assert_int_equal(log_drop_below(e->log, tag - 10), 0);
		assert_int_equal(replay_from(e->dir, tag - 10, &s), 0);
		holds(&s, tag - 10, tag - 1);
		assert_int_equal(s.last, tag - 1);
		assert_true(files(e) <= 6); /* two used up, and the segment with the last 30 records */
	}
	last = newest_segment(e);
	assert_true(last > 50);
	assert_true(io.ops[FILE_OP_CREATE] <= last / 5);
	assert_true(io.ops[FILE_OP_RENAME] >= last / 5 * 4);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay_from(e->dir, tag - 10, &s), 0);
	holds(&s, tag - 10, tag - 1);
	/* At a clean end nothing of an earlier life, and no spent file, is left. */
	assert_true(files(e) <= 4);
	char *path = segment(e, last);

	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size <= SEGMENT + 1100);
	free(path);
}

/* A log whose active segment, the file *path, is in its second life; *old is how that began. */
static uint64_t second_life(struct env *e, struct buf *old, char **path)
{
	uint64_t tag;

	start(e, SEGMENT, 0);
	tag = put_many(e, 1, 60);
	assert_int_equal(log_drop_below(e->log, tag - 1), 0);
	char *one = segment(e, 1);

	assert_int_equal(file_read_all(one, 1 << 20, old), 0);
	assert_true(old->n >= SEGMENT);
	watch();
	while (!io.ops[FILE_OP_RENAME])
		tag = put_many(e, tag, 4);
	file_set_hook(NULL, NULL);
	*path = segment(e, newest_segment(e));
	free(one);
	return tag;
}

/* Whatever part of the new life reached the disk, from the front or only here and there. */
static void test_an_earlier_life_is_not_replayed(void **state)
{
	struct env *e = *state;
	struct buf old = {0}, new = {0};
	struct log_header h;
	struct seen s;
	char *path;
	uint64_t tag = second_life(e, &old, &path), synced = tag - 1, from;

	for (unsigned i = 0; i < 8; i++)
		must_put(e, tag++, 100 + i * 111, false);
	assert_int_equal(file_read_all(path, 1 << 20, &new), 0);
	assert_true(new.n >= old.n);
	assert_int_equal(buf_append(&old, new.p + old.n, new.n - old.n), 0);
	assert_int_equal(log_header_decode(buf_bytes(&new), &h), 0);
	from = h.first_lsn - 5;
	assert_int_equal(log_free(e->log), 0);
	for (size_t cut = 0; cut <= new.n; cut += 8) {
		uint8_t *mix = malloc(new.n);
		int err;

		memcpy(mix, old.p, new.n);
		memcpy(mix, new.p, cut);
		write_image(path, mix, new.n);
		err = replay_from(e->dir, from, &s);
		/* The first record was synced: the records after it state that. */
		if (err)
			assert_int_equal(err, -EBADMSG);
		else
			holds(&s, from, s.last);
		assert_true(cut < LOG_HEADER_BYTES / 2 || s.last >= h.first_lsn - 1);
		assert_true(cut < new.n || s.last == tag - 1);
		/* One hole, where the old bytes are. */
		memcpy(mix, new.p, new.n);
		if (cut + 512 <= new.n)
			memcpy(mix + cut, old.p + cut, 512);
		write_image(path, mix, new.n);
		err = replay_from(e->dir, from, &s);
		assert_true(err == 0 || err == -EBADMSG);
		if (!err)
			holds(&s, from, s.last);
		else
			assert_true(s.last < synced);
		free(mix);
	}
	buf_fini(&old);
	buf_fini(&new);
	free(path);
}

/* A crash may keep the rename without the header, or the header without the rename. */
static void test_rename_and_header_apart(void **state)
{
	struct env *e = *state;
	struct buf old = {0}, new = {0};
	struct seen s;
	char *path, *one = segment(e, 1);
	uint64_t tag = second_life(e, &old, &path), from;
	struct log_header h;
	struct file *f;

	assert_int_equal(file_read_all(path, 1 << 20, &new), 0);
	assert_int_equal(log_header_decode(buf_bytes(&new), &h), 0);
	from = h.first_lsn - 5;
	assert_int_equal(log_free(e->log), 0);
	/* As segment 1 was before it was dropped: a whole header of another number. */
	log_header_encode(old.p, &(struct log_header){h.incarnation, 1, 1, 0, h.salt});
	write_image(path, old.p, old.n);
	assert_int_equal(replay_from(e->dir, from, &s), 0);
	holds(&s, from, h.first_lsn - 1);
	assert_int_equal(file_unlink(path), 0);
	assert_int_equal(file_open(one, FILE_CREATE, &f), 0);
	assert_int_equal(file_pwrite(f, new.p, new.n, 0), 0);
	file_close(f);
	assert_int_equal(replay_from(e->dir, from, &s), 0);
	holds(&s, from, h.first_lsn - 1);
	assert_true(tag > h.first_lsn);
	buf_fini(&old);
	buf_fini(&new);
	free(path);
	free(one);
}

static void test_a_file_that_cannot_be_used_again(void **state)
{
	static const enum file_op ops[] = {FILE_OP_RENAME, FILE_OP_OPEN};
	struct env *e = *state;
	struct log_stats st;
	struct seen s;

	for (unsigned o = 0; o < 2; o++) {
		uint64_t tag;

		start(e, SEGMENT, 0);
		tag = put_many(e, 1, 60);
		assert_int_equal(log_drop_below(e->log, tag - 1), 0);
		watch();
		io.fail = ops[o];
		io.fail_from = 1;
		io.fail_to = 2;
		io.err = -EIO;
		tag = put_many(e, tag, 60);
		assert_true(io.ops[io.fail] >= 2);
		assert_true(io.ops[FILE_OP_CREATE] >= 2);
		file_set_hook(NULL, NULL);
		log_get_stats(e->log, &st);
		assert_int_equal(st.switches, 0);
		assert_int_equal(replay_from(e->dir, 60, &s), 0);
		holds(&s, 60, tag - 1);
		assert_int_equal(log_free(e->log), 0);
		assert_int_equal(replay_from(e->dir, 60, &s), 0);
		holds(&s, 60, tag - 1);
		empty_dir(e->dir);
	}
}

/* One failing call, whichever: no caller gets an error, and nothing is lost. */
static void test_every_nth_failure_while_used_again(void **state)
{
	struct env *e = *state;
	struct seen s;
	uint64_t tag;

	for (unsigned op = 0; op < FILE_OPS; op++)
		for (unsigned nth = 1;; nth++) {
			int err = 0;

			start(e, SEGMENT, 0);
			tag = put_many(e, 1, 30);
			watch();
			io.fail = op;
			io.fail_from = io.fail_to = nth;
			io.err = nth % 2 ? -EIO : -ENOSPC;
			for (unsigned i = 0; i < 4; i++) {
				err = err ? err : log_drop_below(e->log, tag - 10);
				tag = put_many(e, tag, 20);
			}
			file_set_hook(NULL, NULL);
			assert_true(!err || op == FILE_OP_UNLINK || op == FILE_OP_OPEN);
			assert_int_equal(log_free(e->log), 0);
			assert_int_equal(replay_from(e->dir, tag - 20, &s), 0);
			holds(&s, tag - 20, tag - 1);
			empty_dir(e->dir);
			if (io.ops[op] < nth)
				break;
		}
}

/* The old file after a switch may be written to by a thread that still hangs in it. */
static void test_an_abandoned_file_is_not_used_again(void **state)
{
	struct env *e = *state;
	uint64_t tag;
	struct seen s;

	start(e, SEGMENT, 0);
	must_put(e, 1, 100, true);
	watch();
	io.fail = FILE_OP_SYNC;
	io.fail_from = io.fail_to = 1;
	io.err = -EIO;
	must_put(e, 2, 100, true);
	watch();
	tag = put_many(e, 3, 8);
	assert_int_equal(log_drop_below(e->log, 3), 0);
	assert_int_equal(io.ops[FILE_OP_UNLINK], 1);
	tag = put_many(e, tag, 40);
	assert_int_equal(io.ops[FILE_OP_RENAME], 0);
	file_set_hook(NULL, NULL);
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(replay_from(e->dir, 3, &s), 0);
	holds(&s, 3, tag - 1);
}

/* Kept files are disk space that others may need. */
static void test_a_full_disk_gets_them_back(void **state)
{
	struct env *e = *state;
	uint64_t tag;
	unsigned n;

	start(e, SEGMENT, 0);
	tag = put_many(e, 1, 60);
	assert_int_equal(log_drop_below(e->log, tag), 0);
	n = files(e);
	assert_int_equal(n, 3);
	log_discard_recycled(e->log);
	assert_int_equal(files(e), 1);
	tag = put_many(e, tag, 60);
	assert_int_equal(log_drop_below(e->log, tag), 0);
	assert_int_equal(files(e), 3);
	watch();
	io.fail = FILE_OP_WRITE;
	io.fail_from = io.fail_to = 1;
	io.err = -ENOSPC;
	must_put(e, tag++, 100, true); /* the second writer's */
	assert_int_equal(files(e), 2); /* the abandoned and its own */
	file_set_hook(NULL, NULL);
	assert_int_equal(log_free(e->log), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_dropped_segments_are_used_again),
		T(test_an_earlier_life_is_not_replayed),
		T(test_rename_and_header_apart),
		T(test_a_file_that_cannot_be_used_again),
		T(test_every_nth_failure_while_used_again),
		T(test_an_abandoned_file_is_not_used_again),
		T(test_a_full_disk_gets_them_back),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
