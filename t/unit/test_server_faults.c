/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server and the master if METADATA or the lock service cannot be changed, and if
 * the disk is full.
 */
#include "t/unit/server_lib.h"

#include "master/master.h"
#include "t/lib/cluster.h"

/* The root file is written, yet its put says EIO: the next change must find that out, not stop for ever. */
static void root_in_doubt(void **state)
{
	static struct fault f = {.op = FILE_OP_SYNCDIR, .part = "/lock", .err = -EIO};
	struct tfs_table *t;

	open_store();
	t = make_table("a");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	open_store();
	f.times = 1;
	set_hook(fail_some, &f);
	t = open_table("a");
	assert_int_equal(put(t, "r2", "f", "v"), -EIO); /* the first write of METADATA's, and of root's */
	set_hook(NULL, NULL);
	assert_int_equal(f.times, 0);
	assert_int_equal(put(t, "r2", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("a");
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(look(t, "r2"), 0);
	tfs_table_close(t);
	close_store(true);
}

/*
 * A METADATA row that names another server, or this server with another number, is not written to,
 * and users hear of -EIO, not of -TABLET_TAKEN.
 */
static void row_of_another(void **state)
{
	open_store();
	for (unsigned number = 0; number < 2; number++) {
		struct tfs_table *t = make_table(number ? "u" : "t");
		const uint64_t server = number ? hooks.server->o.incarnation : 4711;
		struct arena arena = {0};
		struct meta_tablet now = {0};
		struct buf key = {0};
		uint64_t assignment;
		struct op *ops;
		unsigned count, files;

		assert_int_equal(put(t, "r", "f", "v"), 0);
		assert_int_equal(meta_row_key(&key, tfs_table_id(t), true, (struct tfs_bytes){NULL, 0}), 0);
		assert_int_equal(metadata_read(server_service(hooks.server), buf_bytes(&key), &now), 0);
		assert_int_equal(now.server, hooks.server->o.incarnation);
		files = now.file_count;
		assignment = now.assignment + number;
		assert_int_equal(meta_ops_owner(&now, server, assignment, &arena, &ops, &count), 0);
		assert_int_equal(count, 2);
		assert_int_equal(metadata_mutate(server_service(hooks.server), buf_bytes(&key), ops, count), 0);
		assert_int_equal(tfs_flush(t), -EIO);
		assert_int_equal(put(t, "r2", "f", "v"), -EIO);
		assert_int_equal(look(t, "r"), 0);
		assert_int_equal(metadata_read(server_service(hooks.server), buf_bytes(&key), &now), 0);
		assert_int_equal(now.server, server);
		assert_int_equal(now.assignment, assignment);
		assert_int_equal(now.file_count, files);
		meta_tablet_fini(&now);
		arena_fini(&arena);
		buf_fini(&key);
		tfs_table_close(t);
	}
	close_store(false);
}

/* A drop whose unlink could not be synced, and a file that cannot be read: no write is acknowledged before the outcome is known. */
static void drop_in_doubt(void **state)
{
	static struct fault f = {.op = FILE_OP_SYNCDIR, .part = "/lock/tables", .err = -EIO};
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	assert_int_equal(look(t, "r"), -ENOENT);
	f.times = 5;
	set_hook(fail_some, &f);
	assert_int_equal(tfs_table_drop(store, "t"), -EIO);
	assert_int_equal(put(t, "r", "f", "v"), -EIO);
	f.times = 0;
	assert_int_equal(put(t, "r", "f", "v"), -ENOENT);
	set_hook(NULL, NULL);
	tfs_table_close(t);
	close_store(false);
	open_store();
	assert_int_equal(tfs_table_open(store, "t", &t), -ENOENT);
	close_store(true);
}

/*
 * A drop succeeded, and the server could not check that.  Later writes report that there
 * is no table, not -EIO.
 */
static void drop_missed(void **state)
{
	static struct fault f = {.err = -EIO};
	static const struct {
		enum file_op op;
		const char *part;
	} at[] = {
		{FILE_OP_READ, "/lock/dropped"},
		{FILE_OP_LIST, "/lock/tables"},
	};
	struct tfs_table *t;
	unsigned missed = 0;

	open_store();
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {
		t = make_table("t");
		assert_int_equal(put(t, "r", "f", "v"), 0);
		assert_int_equal(delete_row(t, "r"), 0);
		f.op = at[i].op;
		f.part = at[i].part;
		f.times = 1;
		set_hook(fail_some, &f);
		assert_int_equal(tfs_table_drop(store, "t"), 0);
		set_hook(NULL, NULL);
		missed += f.times == 0;
		assert_int_equal(put(t, "r", "f", "v"), -ENOENT);
		tfs_table_close(t);
	}
	assert_int_equal(missed, 2);
	close_store(true);
	open_store();
	close_store(true);
}

/* ---- an error that looks like something else ---- */

static int try_again(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	_Atomic bool *on = arg;

	return *on ? -EAGAIN : 0;
}

/* The disk returns -EAGAIN: a split or a merge ends with the error.  It is repeated only if a hold stopped it. */
static void told_to_try_again(void **state)
{
	static _Atomic bool on;
	struct tfs_table *t;
	int err;

	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(put(t, (const char[]){(char)('a' + i), 0}, "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(tfs_split(t, TFS_S("b")), 0);
	set_hook(try_again, (void *)&on);
	for (unsigned i = 0; i < 2; i++) {
		on = true;
		err = i ? tfs_merge(t, TFS_S("a")) : tfs_split(t, TFS_S("c"));
		assert_int_equal(err, -EIO);
		on = false;
		tfs_table_close(t);
		close_store(false);
		open_store();
		t = open_table("t");
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(look(t, (const char[]){(char)('a' + k), 0}), 0);
	}
	tfs_table_close(t);
	close_store(true);
}

/* ---- a full disk ---- */
struct full {
	_Atomic bool full;
	_Atomic bool ballast;
};

static int full_disk(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct full *f = arg;

	if ((op == FILE_OP_UNLINK || op == FILE_OP_TRUNCATE) && strstr(path, "/ballast"))
		f->ballast = false;
	if (f->full && f->ballast && (op == FILE_OP_WRITE || op == FILE_OP_CREATE || op == FILE_OP_ALLOCATE))
		return -ENOSPC;
	return 0;
}

/* Giving some of the ballast up takes long enough for another delete to find the disk full. */
static struct {
	struct full full;
	_Atomic bool going;
	_Atomic unsigned refused;
} slow;

static int slow_ballast(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	int err = full_disk(&slow.full, op == FILE_OP_TRUNCATE ? FILE_OP_READ : op, path, offset, n, number);

	if (op == FILE_OP_TRUNCATE && strstr(path, "/ballast")) {
		slow.going = true;
		for (unsigned i = 0; i < 300000 && !slow.refused; i++)
			sched_yield();
		slow.full.ballast = false;
	}
	return err;
}

static void *delete_too(void *arg)
{
	int err;

	while (!slow.going)
		sched_yield();
	err = delete_row(arg, "r2");
	slow.refused += err != 0;
	return (void *)(intptr_t)err;
}

static void deletes_share_the_ballast(void **state)
{
	struct tfs_table *t;
	pthread_t thread;
	void *other;
	int fd;

	open_store();
	close_store(true);
	fd = open(in_dir("d/ballast"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0 && ftruncate(fd, 16 << 20) == 0);
	close(fd);
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(put(t, "r2", "f", "v"), 0);
	slow.full = (struct full){.full = true, .ballast = true};
	assert_int_equal(pthread_create(&thread, NULL, delete_too, t), 0);
	set_hook(slow_ballast, NULL);
	assert_int_equal(delete_row(t, "r"), 0);
	pthread_join(thread, &other);
	set_hook(NULL, NULL);
	assert_int_equal((intptr_t)other, 0);
	tfs_table_close(t);
	close_store(false);
}

/* A ballast file larger than any that we make, sparse say, asks for no more room than ours. */
static void ballast_of_another(void **state)
{
	struct tfs_table *t;
	int fd;

	open_store();
	close_store(true);
	fd = open(in_dir("d/ballast"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0 && ftruncate(fd, INT64_C(1) << 42) == 0);
	close(fd);
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(true);
}

static void ballast(void **state)
{
	static struct full f;
	struct tfs_table *t;
	int fd;

	f = (struct full){.ballast = true};
	open_store();
	close_store(true);
	fd = open(in_dir("d/ballast"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0 && ftruncate(fd, 16 << 20) == 0);
	close(fd);
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	set_hook(full_disk, &f);
	f.full = true;
	assert_int_equal(put(t, "r2", "f", "v"), -ENOSPC);
	assert_int_equal(put(t, "r2", "f", "v"), -ENOSPC);
	assert_true(f.ballast);
	assert_int_equal(delete_row(t, "r"), 0);
	assert_false(f.ballast);
	f.full = false;
	assert_int_equal(put(t, "r3", "f", "v"), 0);
	set_hook(NULL, NULL);
	tfs_table_close(t);
	close_store(false);
	/* So full that it cannot even be opened: the ballast is freed for that too, or nothing could be removed. */
	fd = open(in_dir("d/ballast"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0 && ftruncate(fd, 16 << 20) == 0);
	close(fd);
	f = (struct full){.full = true, .ballast = true};
	set_hook(full_disk, &f);
	open_store();
	assert_false(f.ballast);
	t = open_table("t");
	assert_int_equal(delete_row(t, "r"), 0);
	set_hook(NULL, NULL);
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("t");
	assert_int_equal(look(t, "r"), -ENOENT);
	assert_int_equal(look(t, "r2"), -ENOENT);
	assert_int_equal(look(t, "r3"), 0);
	tfs_table_close(t);
	close_store(true);
}

/*
 * A server that could not read a changed schema reads it again for the next LOAD, instead
 * of refusing the table's tablets for a second.  In turn the last read of the master, of the
 * old server, and of the server that loads fails.
 */
static void schema_unread_once(void **state)
{
	static struct fault f = {.op = FILE_OP_READ, .part = "/lock/tables/t", .err = -EIO};
	const struct server_options o = cluster_options(in_dir("d"));
	static struct cluster c;
	struct tfs_table *t;
	char name[8];

	assert_int_equal(cluster_open(&c, &o, 2), 0);
	assert_int_equal(store_table_make(c.store, "t", "f", &t), 0);
	assert_int_equal(put(t, "a", "f", "v"), 0);
	assert_int_equal(tfs_split(t, tfs_str("m")), 0);
	assert_int_equal(master_move(c.master, tfs_table_id(t), tfs_str("z"), c.servers[1].incarnation), 0);
	for (unsigned i = 1; i <= 3; i++) {
		snprintf(name, sizeof(name), "g%u", i);
		assert_int_equal(add_family(t, name), 0);
		f.times = i;
		set_hook(fail_some, &f);
		assert_int_equal(master_move(c.master, tfs_table_id(t), tfs_str("a"), c.servers[i % 2].incarnation), 0);
		set_hook(NULL, NULL);
		assert_int_equal(f.times, 0);
		assert_int_equal(look(t, "a"), 0);
	}
	tfs_table_close(t);
	cluster_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(schema_unread_once),
		T(root_in_doubt),
		T(row_of_another),
		T(drop_in_doubt),
		T(drop_missed),
		T(told_to_try_again),
		T(ballast),
		T(ballast_of_another),
		T(deletes_share_the_ballast),
	};

	return RUN(tests);
}
