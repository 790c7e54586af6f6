/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full disk does not block removals or the next start, and space becomes free again.
 * The disk is simulated: a number of bytes, shared by the store's files, in whole
 * blocks, and another user as the test decides.  A write that does not fit fails
 * with ENOSPC.  Nothing runs in the background unless a test starts it, so the
 * test decides the order of events.
 */
#include "engine/base/clock.h"
#include "t/lib/file_faults.h"
#include "t/unit/server_lib.h"

#include <ftw.h>
#include <sys/stat.h>

enum { BLOCK = 4096, VALUE = 20000, ROWS = 1500 };
#define DISK (UINT64_C(24) << 20)
#define RESERVE_OF_EMPTY (UINT64_C(1) << 20)

static _Atomic uint64_t others;     /* the bytes that other programs use on the disk */
static _Atomic unsigned found_none; /* operations */
static char top[300];
static uint64_t size = DISK;

/* ---- the disk ---- */
static __thread uint64_t sum;

static uint64_t blocks(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static int add_size(const char *path, const struct stat *st, int type, struct FTW *at)
{
	if (type != FTW_NS) /* removed in between */
		sum += type == FTW_F ? blocks((uint64_t)st->st_size) : BLOCK;
	return 0;
}

static uint64_t room(void)
{
	sum = others;
	(void)nftw(top, add_size, 16, FTW_PHYS);
	return sum < size ? size - sum : 0;
}

static int room_of(void *arg, const char *path, uint64_t *bytes)
{
	*bytes = room();
	return 0;
}

static int disk(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint64_t needs = 0, has;
	struct stat st;

	if (op == FILE_OP_CREATE || op == FILE_OP_MKDIR) {
		needs = stat(path, &st) ? BLOCK : 0;
	} else if (op == FILE_OP_WRITE || op == FILE_OP_ALLOCATE) {
		has = stat(path, &st) ? 0 : blocks((uint64_t)st.st_size);
		needs = offset + n > has ? blocks(offset + n) - has : 0;
	}
	if (!needs || needs <= room())
		return 0;
	found_none++;
	return -ENOSPC;
}

/* Other programs leave only these bytes. */
static void others_leave(uint64_t bytes)
{
	uint64_t free = room();

	if (free > bytes)
		others += free - bytes;
}

/* ---- the store ---- */
static const struct space *space(void)
{
	return hooks.server->space;
}

static void begin(void)
{
	int fd;

	others = found_none = 0;
	snprintf(top, sizeof(top), "%s", in_dir("d"));
	options.memtable_bytes = 1 << 20;
	options.log_segment_bytes = 256 << 10;
	file_set_room(room_of, NULL);
	set_hook(disk, NULL);
	open_store();
	close_store(true);
	/* Without a background no reserve is made, but one that exists is used. */
	fd = open(in_dir("d/ballast"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0 && ftruncate(fd, BLOCK) == 0);
	close(fd);
	open_store();
	space_check(hooks.server);
	assert_in_range(space()->reserve, RESERVE_OF_EMPTY < size / 8 ? RESERVE_OF_EMPTY : size / 8 - 4 * BLOCK, RESERVE_OF_EMPTY);
	space_grow(hooks.server, size / 4); /* as the log's task calls it while a store grows */
	assert_in_range(space()->reserve, size / 8 - 4 * BLOCK, size / 8);
	assert_int_equal(space()->bytes, space()->reserve);
}

static void end(void)
{
	set_hook(NULL, NULL);
	close_store(true);
}

static int end_disk(void **state)
{
	file_set_room(NULL, NULL);
	size = DISK;
	return teardown(state);
}

/* As the background would, when it has been asked. */
static void give_back(void)
{
	logs_drop_all(hooks.server);
	space_check(hooks.server);
}

/* ---- the contents: version v of each row, or 0 ---- */
static unsigned have[ROWS];

static void value_of(unsigned row, unsigned version, uint8_t *p)
{
	uint64_t x = row * 1000003u + version;

	for (unsigned i = 0; i < VALUE; i++) { /* nothing that could be compressed */
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
		p[i] = (uint8_t)(x >> 56);
	}
}

static const char *row_name(unsigned row)
{
	static __thread char name[16];

	snprintf(name, sizeof(name), "r%05u", row);
	return name;
}

static int put_row(struct tfs_table *t, unsigned row)
{
	static __thread uint8_t value[VALUE];
	static unsigned versions;
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(row_name(row)));
	int err;

	value_of(row, ++versions, value);
	err = tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(value, VALUE));
	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	if (!err)
		have[row] = versions;
	return err;
}

static int delete_one(struct tfs_table *t, unsigned row)
{
	int err = delete_row(t, row_name(row));

	if (!err)
		have[row] = 0;
	return err;
}

static void verify(struct tfs_table *t)
{
	static uint8_t got[VALUE], want[VALUE];

	for (unsigned i = 0; i < ROWS; i++) {
		struct tfs_info info;
		size_t n = 0;
		int err = tfs_read(t, tfs_str(row_name(i)), "f", TFS_S("q"), TFS_AUTO, 0, got, VALUE, &n, &info);

		if (err != (have[i] ? 0 : -ENOENT))
			print_message("row %u, version %u: %d\n", i, have[i], err);
		assert_int_equal(err, have[i] ? 0 : -ENOENT);
		if (!have[i])
			continue;
		value_of(i, have[i], want);
		assert_int_equal(n, VALUE);
		assert_memory_equal(got, want, VALUE);
	}
}

/* Puts until one is refused; all reclaimable space has been reclaimed by then. */
static unsigned fill(struct tfs_table *t, unsigned from)
{
	unsigned n = from, before;

	do {
		before = n;
		while (n < ROWS && put_row(t, n) == 0)
			n++;
		give_back();
	} while (n > before);
	assert_true(n < ROWS);
	return n;
}

static struct tfs_table *empty_table(void)
{
	struct tfs_table *t;

	memset(have, 0, sizeof(have));
	t = make_table("t");
	assert_int_equal(store_no_dictionary(t), 0);
	return t;
}

/* ---- the tests ---- */

/* Nobody else writes: the disk never says no, and the reserve stays. */
static void filled_by_puts(void **state)
{
	struct tfs_table *t;
	unsigned n;

	begin();
	t = empty_table();
	n = fill(t, 0);
	assert_true(n * (uint64_t)VALUE > DISK / 2);
	assert_int_equal(put_row(t, n), -ENOSPC);
	assert_true(space()->full);
	assert_int_equal(found_none, 0);
	assert_int_equal(space()->bytes, space()->reserve);
	/* A writer that continues to put takes no space from one that removes. */
	for (unsigned i = 0; i < n / 2; i++) {
		assert_int_equal(delete_one(t, i), 0);
		for (unsigned k = 0; k < 3; k++)
			(void)!put_row(t, n + k);
		if (i % 50 == 0)
			give_back();
	}
	assert_int_equal(found_none, 0);
	assert_int_equal(tfs_compact(t), 0);
	give_back();
	assert_int_equal(space()->bytes, space()->reserve);
	assert_false(space()->full);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(put_row(t, i), 0);
	verify(t);
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("t");
	verify(t);
	tfs_table_close(t);
	end();
}

/*
 * The first round removes the older half of the rows, so that some files have no row left.  The
 * second round removes every second row.  The disk has no space for a copy of the remaining rows
 * beside the present files.
 */
static void compacted_file_by_file(void **state)
{
	for (unsigned stride = 1; stride <= 2; stride++) {
		struct tfs_table *t;
		unsigned n;

		begin();
		t = empty_table();
		n = fill(t, 0);
		for (unsigned i = 0; i < n / 2 * stride; i += stride)
			assert_int_equal(delete_one(t, i), 0);
		assert_int_equal(tfs_compact(t), 0);
		verify(t);
		give_back();
		assert_false(space()->full);
		assert_int_equal(found_none, 0);
		for (unsigned i = n; i < n + n / 4; i++)
			assert_int_equal(put_row(t, i), 0);
		verify(t);
		tfs_table_close(t);
		end();
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

/* Another program fills the disk to the last byte while many writes are unsynced.  Removals, flushes, METADATA and later starts must work. */
static void filled_by_others(void **state)
{
	struct tfs_table *t, *u;
	unsigned n = 300;

	begin();
	t = empty_table();
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(put_row(t, i), 0);
	give_back();
	for (unsigned i = n; i < n + 20; i++)
		assert_int_equal(put_row(t, i), 0);
	others_leave(0);
	while (put_row(t, n + 20) == 0) /* the space that a check has found may be used up */
		;
	have[n + 20] = 0;
	assert_int_equal(delete_one(t, n + 20), 0);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(delete_one(t, i), 0);
	others_leave(0);
	for (unsigned i = 50; i < 100; i++)
		assert_int_equal(delete_one(t, i), 0);
	assert_int_equal(put_row(t, 0), -ENOSPC);
	others_leave(0);
	assert_int_equal(add_family(t, "g"), 0);
	assert_int_equal(drop_family(t, "g"), 0);
	others_leave(0);
	assert_int_equal(tfs_table_create(store, "u", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_open(store, "u", &u), 0);
	tfs_table_close(u);
	assert_int_equal(tfs_table_drop(store, "u"), 0);
	others_leave(0);
	assert_int_equal(tfs_flush(t), 0);
	verify(t);
	tfs_table_close(t);
	for (unsigned i = 0; i < 3; i++) {
		others_leave(0);
		close_store(i == 1);
		others_leave(0);
		open_store();
		t = open_table("t");
		assert_int_equal(put_row(t, 0), -ENOSPC);
		assert_int_equal(delete_one(t, 100 + i), 0);
		verify(t);
		tfs_table_close(t);
	}
	t = open_table("t");
	others = 0;
	give_back();
	assert_int_equal(space()->bytes, space()->reserve);
	assert_int_equal(put_row(t, 0), 0);
	verify(t);
	tfs_table_close(t);
	end();
}

/* Other programs fill a small disk, on which the store's reserve is small. */
static void small_one_filled_by_others(void **state)
{
	struct tfs_table *t;

	size = DISK / 3;
	begin();
	t = empty_table();
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(put_row(t, i % 20), 0);
		if (i == 50)
			give_back();
	}
	others_leave(0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(delete_one(t, i), 0);
	others_leave(0);
	assert_int_equal(add_family(t, "g"), 0);
	tfs_table_close(t);
	for (unsigned i = 0; i < 2; i++) {
		others_leave(0);
		close_store(i == 1);
		others_leave(0);
		open_store();
		t = open_table("t");
		assert_int_equal(put_row(t, 0), -ENOSPC);
		assert_int_equal(delete_one(t, 10 + i), 0);
		verify(t);
		tfs_table_close(t);
	}
	others = 0;
	give_back();
	t = open_table("t");
	assert_int_equal(put_row(t, 0), 0);
	verify(t);
	tfs_table_close(t);
	end();
}

/* With background work no call is needed for it. */
static void goes_on_by_itself(void **state)
{
	uint64_t since;
	struct tfs_table *t;
	unsigned n = 0;

	options.no_background = false;
	begin();
	t = empty_table();
	while (n < ROWS && put_row(t, n) == 0)
		n++;
	assert_true(n * (uint64_t)VALUE > DISK / 2);
	for (unsigned i = 0; i < n; i++)
		if (i % 3)
			assert_int_equal(delete_one(t, i), 0);
	for (since = monotonic_us(); put_row(t, 1);) {
		assert_true(monotonic_us() < since + 60000000);
		sched_yield();
	}
	for (since = monotonic_us(); space()->bytes < space()->reserve;) {
		assert_true(monotonic_us() < since + 60000000);
		sched_yield();
	}
	verify(t);
	tfs_table_close(t);
	end();
}

/* A row delete says nothing of how much it removes. */
static void rows_of_many(void **state)
{
	static uint8_t value[VALUE];
	struct tfs_mutation *m;
	struct tfs_table *t;
	unsigned n = 0;
	int err = 0;

	begin();
	t = empty_table();
	for (unsigned rounds = 0; rounds < 3; rounds++, err = 0) {
		for (; !err && n < ROWS; n += !err) {
			char q[16];

			snprintf(q, sizeof(q), "q%u", n);
			value_of(n, 1, value);
			m = tfs_mutation_new(t, TFS_S("one"));
			assert_int_equal(tfs_mutation_put(m, "f", tfs_str(q), TFS_AUTO, tfs_bytes_of(value, VALUE)), 0);
			err = tfs_apply(m, 0, NULL);
			tfs_mutation_free(m);
		}
		give_back();
	}
	assert_true(n < ROWS);
	assert_int_equal(delete_row(t, "one"), 0);
	assert_int_equal(tfs_compact(t), 0);
	give_back();
	assert_true(room() > DISK / 2);
	assert_int_equal(put_row(t, 1), 0);
	verify(t);
	tfs_table_close(t);
	end();
}

/* Any order of all of it.  Others fill the disk when the reserve is whole, and leave some room after a while. */
static void any_order(void **state)
{
	for (unsigned seed = 1; seed <= 4; seed++) {
		unsigned x = seed, removals = 0, puts = 0, refusals = 0;
		struct tfs_table *t;

		begin();
		t = empty_table();
		for (unsigned i = 0; i < 400; i++) {
			unsigned what, row;
			int err = 0;

			x = x * 1664525 + 1013904223;
			what = x >> 24;
			row = (x >> 8) % 1200;
			if (what < 150) {
				for (unsigned k = 0; k < 8; k++) {
					err = put_row(t, (row + k) % ROWS);
					assert_true(err == 0 || err == -ENOSPC);
					puts += !err;
					refusals += err != 0;
				}
			} else if (what < 220) {
				err = delete_one(t, row);
				removals++;
			} else if (what < 230) {
				err = tfs_flush(t);
				if (err == -ENOSPC && others)
					err = 0;
			} else if (what < 234) {
				err = tfs_compact(t);
				if (err == -ENOSPC)
					err = 0;
			} else if (what < 238) {
				tfs_table_close(t);
				close_store(what & 1);
				open_store();
				t = open_table("t");
			} else if (what < 241) {
				if (others)
					others = 0;
				else if (space()->bytes == space()->reserve)
					others_leave(x % 3 * 10000);
			} else if (what < 245) {
				err = what & 1 ? add_family(t, "g") : drop_family(t, "g");
				if (err == -EEXIST || err == -ENOENT)
					err = 0;
			} else {
				give_back();
			}
			if (err && what >= 150)
				print_message("seed %u, step %u, %u: %d\n", seed, i, what, err);
			if (what >= 150)
				assert_int_equal(err, 0);
		}
		verify(t);
		others = 0;
		give_back();
		for (unsigned i = 0; i < ROWS; i++)
			if (i % 4 && have[i])
				assert_int_equal(delete_one(t, i), 0);
		assert_int_equal(tfs_compact(t), 0);
		give_back();
		assert_int_equal(put_row(t, 0), 0);
		verify(t);
		print_message("# seed %u: %u puts, %u refused, %u removals, %u operations found no room\n", seed, puts, refusals,
			removals, (unsigned)found_none);
		tfs_table_close(t);
		end();
		assert_int_equal(end_disk(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

#define F(f) cmocka_unit_test_setup_teardown(f, setup, end_disk)
int main(void)
{
	const struct CMUnitTest tests[] = {
		F(filled_by_puts),
		F(compacted_file_by_file),
		F(filled_by_others),
		F(small_one_filled_by_others),
		F(goes_on_by_itself),
		F(rows_of_many),
		F(any_order),
	};

	return RUN(tests);
}
