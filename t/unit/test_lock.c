/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local lock service passes the tests of all implementations, and survives damaged
 * files and journals.  Names on disk are tried, too.  After an I/O error at any file
 * operation the state is that before or after the call.
 */
#include "engine/base/envelope.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/lock.h"
#include "engine/lock/lock_format.h"
#include "engine/lock/local_files.h"
#include "t/lib/file_faults.h"
#include "t/lib/lock_conformance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64];

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_lock.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	return system(cmd);
}

static struct lock_service *opened(void)
{
	struct lock_service *s = NULL;

	assert_int_equal(lock_local_open(dir, &s), 0);
	return s;
}

static struct lock_service *reopened(struct lock_service *s)
{
	lock_service_free(s);
	return opened();
}

static void expect_file(struct lock_service *s, const char *name, const char *want, uint64_t version)
{
	struct buf b = {0};
	uint64_t v = 0;
	int rc = lock_get(s, name, &b, &v);

	if (!want) {
		assert_int_equal(rc, -ENOENT);
	} else {
		assert_int_equal(rc, 0);
		assert_int_equal(b.n, strlen(want));
		assert_memory_equal(b.p, want, b.n);
		assert_int_equal(v, version);
	}
	buf_fini(&b);
}

static int put(struct lock_service *s, const char *name, const char *text, uint64_t expect)
{
	return lock_put(s, name, tfs_str(text), expect, NULL);
}

static void kind_begin(void)
{
	assert_int_equal(setup(NULL), 0);
}

static void kind_end(void)
{
	assert_int_equal(teardown(NULL), 0);
}

static const struct lock_kind local = {.begin = kind_begin, .end = kind_end, .session = opened};
#define lock_conformance_kind &local

/* Names that are special in the directory. */
static void test_names(void **state)
{
	static const char *const bad[] = {"held", "journal"};
	static const char *const good[] = {"a.tmp", "a", "tables/x.tmp", "tables/x", "x.tmp/y.tmp", "tables/held", "tables/journal",
		"...", ".tmp", "tables/.tmp", "-"};
	struct lock_service *s = opened();

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(put(s, bad[i], "v", LOCK_ANY), -EINVAL);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(put(s, good[i], good[i], LOCK_ABSENT), 0);
	/* a temporary file left by a crash is removed, a name that looks like one stays */
	char path[128];
	struct file *f;

	snprintf(path, sizeof path, "%s/tables/x.tmp", dir);
	assert_int_equal(file_open(path, FILE_CREATE, &f), 0);
	file_close(f);
	s = reopened(s);
	assert_int_not_equal(access(path, F_OK), 0);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		expect_file(s, good[i], good[i], 1);
	assert_int_equal(put(s, "x.tmp", "v", LOCK_ANY), -EINVAL); /* a directory has this name */
	lock_service_free(s);
}

/* A file of an earlier version of this program may be larger than a new one. */
static void test_large_file_stays_readable(void **state)
{
	struct lock_step step = {.name = "tables/large", .version = 7};
	uint8_t *large = calloc(1, LOCK_CONTENTS_MAX);
	bool unknown = false;
	struct lock_service *s;
	struct buf b = {0};

	assert_non_null(large);
	step.contents = tfs_bytes_of(large, LOCK_CONTENTS_MAX);
	assert_int_equal(lock_files_change(dir, &step, 1, &unknown), 0);
	s = opened();
	assert_int_equal(lock_get(s, "tables/large", &b, NULL), 0);
	assert_int_equal(b.n, LOCK_CONTENTS_MAX);
	assert_int_equal(put(s, "tables/large", "small", 7), 0);
	expect_file(s, "tables/large", "small", 8);
	lock_service_free(s);
	buf_fini(&b);
	free(large);
}

/* An ephemeral file has no file on disk, and a change of one needs no sync. */
static int fail_any(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return op == FILE_OP_OPEN || op == FILE_OP_READ || op == FILE_OP_LIST ? 0 : -EIO;
}

static void test_ephemeral_is_in_memory(void **state)
{
	const struct lock_op op = {.name = "servers/1", .ephemeral = true, .contents = tfs_str("x"), .expect = LOCK_ABSENT};
	struct lock_service *s = opened();
	char path[128];

	file_set_hook(fail_any, NULL);
	assert_int_equal(lock_multi(s, &op, 1, NULL), 0);
	assert_int_equal(put(s, "servers/1", "y", LOCK_EXISTS), 0);
	file_set_hook(NULL, NULL);
	snprintf(path, sizeof path, "%s/servers", dir);
	assert_int_not_equal(access(path, F_OK), 0);
	lock_service_free(s);
}

static void test_exclusive(void **state)
{
	struct lock_service *s = opened(), *other = NULL;

	assert_int_equal(lock_local_open(dir, &other), -EBUSY);
	assert_null(other);
	lock_service_free(s);
	assert_int_equal(lock_local_open("/nonexistent/dir", &s), -ENOENT);
}

static void write_raw(const char *name, const void *p, size_t n)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static bool is_raw(const char *name, const struct buf *want)
{
	struct buf b = {0};
	char path[128];
	bool same;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	assert_int_equal(file_read_all(path, 1 << 22, &b), 0);
	same = bytes_eq(buf_bytes(&b), buf_bytes(want));
	buf_fini(&b);
	return same;
}

/* One copy damaged: a changed byte, zeroed sectors, a file cut short.  It is read, and written again. */
static void one_copy_damaged(const char *contents)
{
	struct buf bytes = {0}, bad = {0};
	struct lock_service *s = opened();
	size_t n;

	assert_int_equal(lock_file_encode(tfs_str(contents), 7, &bytes), 0);
	n = copies_get(buf_bytes(&bytes), 0, envelope_length).n;
	for (unsigned i = 0; i < 300; i++) {
		size_t at = i * bytes.n / 300, first = bytes.n - n; /* the second one's begin */

		assert_int_equal(buf_set(&bad, bytes.p, bytes.n), 0);
		if (i % 3 == 0)
			bad.p[at] ^= (uint8_t)(1u << i % 8);
		else if (i % 3 == 1)
			memset(bad.p + at / 512 * 512, 0, bad.n - at / 512 * 512 < 512 ? bad.n - at / 512 * 512 : 512);
		else
			bad.n = n + at * (bytes.n - n) / bytes.n;
		if (i == 0) /* all of the first copy */
			memset(bad.p, 0, first);
		write_raw("root", bad.p, bad.n);
		expect_file(s, "root", contents, 7);
		assert_true(is_raw("root", &bytes));
	}
	lock_service_free(s);
	buf_fini(&bytes);
	buf_fini(&bad);
}

/* A sector that cannot be read: from the offset in arg, one page. */
static int bad_page(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const uint64_t at = *(const uint64_t *)arg;

	return op == FILE_OP_READ && (strstr(path, "/root") || strstr(path, "/journal")) && offset < at + 4096 && offset + n > at
		? -EIO
		: 0;
}

static void test_unreadable_copy(void **state)
{
	struct buf bytes = {0}, got = {0};
	struct lock_service *s = opened();

	assert_int_equal(lock_file_encode(tfs_str("contents"), 7, &bytes), 0);
	for (uint64_t at = 0; at <= 4096; at += 4096) {
		write_raw("root", bytes.p, bytes.n);
		file_set_hook(bad_page, &at);
		expect_file(s, "root", "contents", 7);
		file_set_hook(NULL, NULL);
		assert_true(is_raw("root", &bytes));
	}
	/* neither copy is good, and one may become so again: not damaged */
	bytes.p[4096 + 20] ^= 1;
	write_raw("root", bytes.p, bytes.n);
	uint64_t at = 0;

	file_set_hook(bad_page, &at);
	assert_int_equal(lock_get(s, "root", &got, NULL), -EIO);
	file_set_hook(NULL, NULL);
	expect_file(s, "root", "contents", 7);
	lock_service_free(s);
	/* the journal */
	struct lock_step step = {.name = "root", .version = 8, .contents = tfs_str("later")};

	buf_reset(&bytes);
	assert_int_equal(lock_journal_encode(&step, 1, &bytes), 0);
	write_raw("journal", bytes.p, bytes.n);
	file_set_hook(bad_page, &at);
	s = opened();
	file_set_hook(NULL, NULL);
	expect_file(s, "root", "later", 8);
	lock_service_free(s);
	buf_fini(&bytes);
	buf_fini(&got);
}

static void test_one_copy(void **state)
{
	char *large = malloc(20001);

	assert_non_null(large);
	memset(large, 'x', 20000);
	large[20000] = 0;
	one_copy_damaged("contents");
	one_copy_damaged(large);
	large[2 * 4096 - 22] = 0; /* as long as two pages */
	one_copy_damaged(large);
	one_copy_damaged("");
	free(large);
}

/* Every byte changed in both copies, and every truncation into the first, is noticed. */
static void test_damage(void **state)
{
	struct buf bytes = {0}, got = {0};
	struct lock_service *s;
	size_t n, second;

	assert_int_equal(lock_file_encode(tfs_str("contents"), 7, &bytes), 0);
	n = copies_get(buf_bytes(&bytes), 0, envelope_length).n;
	second = bytes.n - n;
	s = opened();
	for (size_t i = 0; i < n; i++) {
		bytes.p[i] ^= 0x10;
		bytes.p[second + (i + 5) % n] ^= 0x10;
		write_raw("root", bytes.p, bytes.n);
		int rc = lock_get(s, "root", &got, NULL);

		assert_int_equal(rc, -EBADMSG);
		rc = put(s, "root", "x", LOCK_ANY);
		assert_int_equal(rc, -EBADMSG);
		bytes.p[i] ^= 0x10;
		bytes.p[second + (i + 5) % n] ^= 0x10;
		write_raw("root", bytes.p, i);
		assert_int_equal(lock_get(s, "root", &got, NULL), -EBADMSG);
	}
	write_raw("root", bytes.p, bytes.n);
	expect_file(s, "root", "contents", 7);
	lock_service_free(s);
	/* a damaged file can be removed by a caller that does not read it */
	struct lock_op gone = {.name = "root", .what = LOCK_REMOVE, .expect = LOCK_ANY};

	bytes.p[6] ^= 0x10;
	bytes.p[second + 6] ^= 0x10;
	write_raw("root", bytes.p, bytes.n);
	s = opened();
	assert_int_equal(lock_multi(s, &gone, 1, NULL), 0);
	assert_int_equal(lock_get(s, "root", &got, NULL), -ENOENT);
	lock_service_free(s);
	/* a damaged journal stops the opening: it may be a change that was acknowledged */
	struct lock_step step = {.name = "tables/x", .version = 3, .contents = tfs_str("abc")};

	buf_reset(&bytes);
	assert_int_equal(lock_journal_encode(&step, 1, &bytes), 0);
	n = copies_get(buf_bytes(&bytes), 0, envelope_length).n;
	second = bytes.n - n;
	for (size_t i = 0; i < n; i++) {
		bytes.p[i] ^= 0x40;
		bytes.p[second + i] ^= 0x40;
		write_raw("journal", bytes.p, bytes.n);
		assert_int_equal(lock_local_open(dir, &s), -EBADMSG);
		bytes.p[i] ^= 0x40;
		bytes.p[second + i] ^= 0x40;
	}
	bytes.p[7] ^= 0x40; /* one good copy suffices */
	write_raw("journal", bytes.p, bytes.n);
	s = opened();
	expect_file(s, "tables/x", "abc", 3);
	s = reopened(s);
	expect_file(s, "tables/x", "abc", 3);
	lock_service_free(s);
	buf_fini(&bytes);
	buf_fini(&got);
}

static void test_journal_round_trip(void **state)
{
	struct lock_step in[3] =
		{
			{.name = "a", .version = 1, .contents = tfs_str("x")},
			{.name = "tables/b", .remove = true},
			{.name = "c.tmp", .version = INT64_MAX, .contents = tfs_str("")},
		},
			 *out = NULL;
	struct buf b = {0};
	unsigned n = 0;

	assert_int_equal(lock_journal_encode(in, 3, &b), 0);
	assert_int_equal(lock_journal_decode(buf_bytes(&b), &out, &n), 0);
	assert_int_equal(n, 3);
	for (unsigned i = 0; i < n; i++) {
		assert_string_equal(out[i].name, in[i].name);
		assert_int_equal(out[i].remove, in[i].remove);
		assert_int_equal(out[i].version, in[i].version);
		assert_true(bytes_eq(out[i].contents, in[i].contents));
	}
	free(out);
	buf_fini(&b);
}

/* A checksum that is right does not make every number one: versions that would wrap, or pass for LOCK_ANY; a later format. */
static void test_whole_but_wrong(void **state)
{
	static const uint64_t versions[] = {0, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, LOCK_ANY};
	struct lock_step step = {.name = "a"}, *out;
	struct buf b = {0};
	struct tfs_bytes contents;
	uint64_t version;
	bool whole;
	unsigned n;

	for (unsigned i = 0; i < sizeof versions / sizeof *versions; i++) {
		buf_reset(&b);
		assert_int_equal(lock_file_encode(tfs_str("x"), versions[i], &b), 0);
		assert_int_equal(lock_file_decode(buf_bytes(&b), &contents, &version, &whole), -EBADMSG);
		buf_reset(&b);
		step.version = versions[i];
		assert_int_equal(lock_journal_encode(&step, 1, &b), 0);
		assert_int_equal(lock_journal_decode(buf_bytes(&b), &out, &n), -EBADMSG);
	}
	for (unsigned format = 0; format < 3; format++) {
		buf_reset(&b);
		assert_int_equal(lock_file_encode(tfs_str("x"), 1, &b), 0);
		for (unsigned copy = 0; copy < 2; copy++) {
			struct tfs_bytes one = copies_get(buf_bytes(&b), copy, envelope_length);
			uint8_t *p = b.p + (one.p - b.p);

			put_be16(p + 4, (uint16_t)format);
			put_be32(p + one.n - 4, crc32c(0, p, one.n - 4));
		}
		assert_int_equal(lock_file_decode(buf_bytes(&b), &contents, &version, &whole), format == 1 ? 0 : -EPROTO);
	}
	for (size_t i = 0; i < copies_get(buf_bytes(&b), 0, envelope_length).n; i++)
		assert_int_equal(lock_file_decode(tfs_bytes_of(b.p, i), &contents, &version, &whole), -EBADMSG);
	buf_fini(&b);
}

/* ---- an I/O error at every operation in turn ---- */
struct fault {
	uint64_t at, seen;
	uint64_t length; /* how many operations in a row fail */
};

static int fail_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct fault *f = arg;

	f->seen++;
	return f->seen >= f->at && f->seen < f->at + f->length ? -EIO : 0;
}

/* 'b' before, 'a' after, or 'x': a mixture. */
static char state_of(struct lock_service *s)
{
	struct buf b = {0};
	uint64_t v = 0;
	bool old = lock_get(s, "tables/old", NULL, &v) == 0, new = lock_get(s, "tables/new", &b, &v) == 0;
	bool root2 = lock_get(s, "root", NULL, &v) == 0 && v == 2;

	buf_fini(&b);
	return old && !new && !root2 ? 'b' : !old &&new &&root2 ? 'a' : 'x';
}

static void faults(uint64_t length)
{
	const struct lock_op ops[3] = {
		{.name = "tables/old", .what = LOCK_REMOVE, .expect = 1},
		{.name = "tables/new", .contents = tfs_str("moved"), .expect = LOCK_ABSENT},
		{.name = "root", .contents = tfs_str("2"), .expect = 1},
	};
	bool done = false;
	int before = 0, after = 0;

	for (uint64_t at = 1; !done; at++) {
		struct lock_service *s;
		struct fault f = {.at = at, .length = length};
		char now;
		int rc;

		assert_int_equal(setup(NULL), 0);
		s = opened();
		assert_int_equal(put(s, "tables/old", "o", LOCK_ABSENT), 0);
		assert_int_equal(put(s, "root", "1", LOCK_ABSENT), 0);
		file_set_hook(fail_at, &f);
		rc = lock_multi(s, ops, 3, NULL);
		done = f.seen < at;
		assert_true(rc == 0 || !done);
		file_set_hook(NULL, NULL);
		now = state_of(s);
		assert_int_not_equal(now, 'x');
		if (rc == 0)
			assert_int_equal(now, 'a');
		before += now == 'b';
		after += now == 'a' && rc;
		/* a state that was seen stays */
		s = reopened(s);
		assert_int_equal(state_of(s), now);
		/* and it works again */
		assert_int_equal(put(s, "tables/more", "m", LOCK_ABSENT), 0);
		lock_service_free(s);
		assert_int_equal(teardown(NULL), 0);
	}
	assert_true(before >= 3 && after >= 3);
}

static void test_io_errors(void **state)
{
	assert_int_equal(teardown(NULL), 0);
	faults(1);
	faults(2);
	faults(1000);
	assert_int_equal(setup(NULL), 0);
}

/* While the disk continues to fail, no answer comes from the half-done state. */
static void test_in_doubt_is_not_shown(void **state)
{
	const struct lock_op ops[2] = {
		{.name = "a", .contents = tfs_str("1"), .expect = LOCK_ABSENT},
		{.name = "b", .contents = tfs_str("2"), .expect = LOCK_ABSENT},
	};

	for (uint64_t at = 1; at < 30; at++) {
		struct lock_service *s = opened();
		struct fault f = {.at = at, .length = UINT64_MAX / 2};
		struct lock_op undo[2] = {{.name = "a", .what = LOCK_REMOVE, .expect = LOCK_ANY},
			{.name = "b", .what = LOCK_REMOVE, .expect = LOCK_ANY}};
		uint64_t v;
		int rc;

		file_set_hook(fail_at, &f);
		rc = lock_multi(s, ops, 2, NULL);
		if (rc)
			assert_int_equal(lock_get(s, "a", NULL, &v), -EIO);
		file_set_hook(NULL, NULL);
		assert_int_equal(lock_get(s, "a", NULL, &v), lock_get(s, "b", NULL, &v));
		assert_int_equal(lock_multi(s, undo, 2, NULL), 0);
		lock_service_free(s);
	}
}

struct full {
	uint64_t at; /* counts operations that need room; from this operation on the disk has none */
	uint64_t seen;
};

static int full_from(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct full *f = arg;
	bool needs_room = op == FILE_OP_CREATE || op == FILE_OP_WRITE || op == FILE_OP_ALLOCATE || op == FILE_OP_MKDIR;

	return needs_room && ++f->seen >= f->at ? -ENOSPC : 0;
}

/* A disk that is full, from whichever operation on: the change is refused or made as a whole, and reads are answered at once. */
static void test_full_disk(void **state)
{
	const struct lock_op ops[3] = {
		{.name = "tables/a", .contents = tfs_str("1"), .expect = LOCK_ANY},
		{.name = "b", .contents = tfs_str("2"), .expect = LOCK_ANY},
		{.name = "old", .what = LOCK_REMOVE, .expect = LOCK_ANY},
	};
	unsigned refused = 0, made = 0;

	for (uint64_t at = 1; at < 12; at++) {
		struct lock_service *s = opened();
		struct full f = {.at = at};
		struct lock_op undo[3] = {{.name = "tables/a", .what = LOCK_REMOVE, .expect = LOCK_ANY},
			{.name = "b", .what = LOCK_REMOVE, .expect = LOCK_ANY},
			{.name = "old", .what = LOCK_REMOVE, .expect = LOCK_ANY}};
		int rc;

		assert_int_equal(put(s, "old", "0", LOCK_ANY), 0);
		file_set_hook(full_from, &f);
		rc = lock_multi(s, ops, 3, NULL);
		assert_true(rc == 0 || rc == -ENOSPC);
		expect_file(s, "old", rc ? "0" : NULL, 1);
		expect_file(s, "tables/a", rc ? NULL : "1", 1);
		expect_file(s, "b", rc ? NULL : "2", 1);
		refused += rc != 0;
		made += rc == 0;
		file_set_hook(NULL, NULL);
		expect_file(s, "b", rc ? NULL : "2", 1);
		assert_int_equal(lock_multi(s, undo, 3, NULL), 0);
		lock_service_free(s);
	}
	assert_true(refused > 4 && made > 2);
}

static int full_sync_dir(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct full *f = arg;

	return op == FILE_OP_SYNCDIR && ++f->seen == f->at ? -ENOSPC : 0;
}

static bool make_room(void *arg)
{
	++*(unsigned *)arg;
	return true;
}

/*
 * A disk that is full when a directory is synced, before or after the commit.  The change is tried again
 * only if nothing was changed.  Otherwise the second try would find a version that is its own.
 */
static void test_full_after_commit(void **state)
{
	unsigned unknown = 0;

	(void)state;
	for (uint64_t at = 1; at < 12; at++) {
		for (unsigned count = 1; count <= 2; count++) {
			const struct lock_op ops[2] = {{.name = "a", .contents = tfs_str("new"), .expect = 1},
				{.name = "d/b", .contents = tfs_str("new"), .expect = LOCK_ABSENT}};
			struct lock_op undo[2] = {{.name = "a", .what = LOCK_REMOVE, .expect = LOCK_ANY},
				{.name = "d/b", .what = LOCK_REMOVE, .expect = LOCK_ANY}};
			struct lock_service *s = opened();
			struct full f = {.at = at};
			unsigned tries = 0;
			uint64_t v;
			int rc;

			assert_int_equal(put(s, "a", "old", LOCK_ANY), 0);
			lock_local_make_room(s, make_room, &tries);
			file_set_hook(full_sync_dir, &f);
			rc = lock_multi(s, ops, count, NULL);
			file_set_hook(NULL, NULL);
			assert_true(rc == 0 || rc == -EIO);
			assert_int_equal(lock_get(s, "a", NULL, &v), 0);
			assert_true(rc || v == 2);
			if (count == 2)
				assert_int_equal(lock_get(s, "d/b", NULL, NULL), v == 2 ? 0 : -ENOENT);
			unknown += rc != 0;
			assert_int_equal(lock_multi(s, undo, 2, NULL), 0);
			lock_service_free(s);
		}
	}
	assert_true(unknown > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOCK_CONFORMANCE cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_large_file_stays_readable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ephemeral_is_in_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exclusive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unreadable_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
		cmocka_unit_test(test_journal_round_trip),
		cmocka_unit_test(test_whole_but_wrong),
		cmocka_unit_test_setup_teardown(test_io_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_doubt_is_not_shown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_after_commit, setup, teardown),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
