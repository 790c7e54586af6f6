/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The id and the secret of a store: they are made once, damage to one copy does not change
 * them, and a death at any operation of the first opening leaves a store that has them.
 */
#include "engine/lock/identity.h"
#include "engine/lock/lock_format.h"
#include "t/lib/share.h"
#include "t/unit/server_lib.h"

#include <sys/mman.h>
#include <sys/wait.h>

static void key_of(const char *purpose, uint8_t *key)
{
	assert_int_equal(tfs_key(store, purpose, key), 0);
}

static void made_with_the_store(void **state)
{
	uint8_t first[TFS_KEY_BYTES], again[TFS_KEY_BYTES], other[TFS_KEY_BYTES];
	struct stat st;
	struct buf b = {0};

	open_store();
	key_of("a", first);
	key_of("a", again);
	assert_memory_equal(first, again, TFS_KEY_BYTES);
	key_of("b", other);
	assert_memory_not_equal(first, other, TFS_KEY_BYTES);
	close_store(true);
	assert_int_equal(stat(in_dir("d/lock/store"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(file_read_all(in_dir("d/lock/store"), 1 << 20, &b), 0);
	assert_null(memmem(b.p, b.n, first, 8)); /* a key that leaves the process is not the secret */
	assert_null(memmem(b.p, b.n, first + 8, 8));
	buf_fini(&b);
	open_store();
	key_of("a", again);
	assert_memory_equal(first, again, TFS_KEY_BYTES);
	close_store(false);
	shell("mv d one");
	open_store();
	key_of("a", other);
	assert_memory_not_equal(first, other, TFS_KEY_BYTES);
	close_store(false);
}

static void made_once(void **state)
{
	struct lock_identity one, two;
	struct lock_service *locks;

	shell("mkdir l");
	assert_int_equal(lock_local_open(in_dir("l"), &locks), 0);
	assert_int_equal(identity_read(locks, &one), -ENOENT);
	assert_int_equal(identity_make(locks, &one), 0);
	assert_int_equal(identity_make(locks, &two), 0);
	assert_memory_equal(&one, &two, sizeof(one));
	assert_int_equal(identity_read(locks, &two), 0);
	assert_memory_equal(&one, &two, sizeof(one));
	assert_int_equal(lock_put(locks, IDENTITY_FILE, tfs_str("rubbish"), LOCK_ANY, NULL), 0);
	assert_int_equal(identity_make(locks, &two), -EBADMSG); /* and does not make a second identity */
	lock_service_free(locks);
}

/* ---- damage ---- */

static void expect_same(const struct lock_identity *want, const uint8_t *file, size_t n)
{
	struct lock_identity got;
	struct tfs_bytes contents;
	uint64_t version;
	bool whole;

	assert_int_equal(lock_file_decode(tfs_bytes_of(file, n), &contents, &version, &whole), 0);
	assert_int_equal(lock_identity_decode(contents, &got), 0);
	assert_memory_equal(&got, want, sizeof(got));
}

static void one_copy_suffices(void **state)
{
	struct lock_identity want;
	struct buf contents = {0}, file = {0};
	size_t copy;
	uint8_t *p;

	assert_int_equal(identity_draw(&want), 0);
	assert_int_equal(lock_identity_encode(&want, &contents), 0);
	assert_int_equal(lock_file_encode(buf_bytes(&contents), 1, &file), 0);
	copy = file.n - COPIES_APART;
	for (size_t bit = 0; bit < 8 * file.n; bit++) {
		file.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		expect_same(&want, file.p, file.n);
		file.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t n = copy; n < file.n; n++)
		expect_same(&want, file.p, n);
	p = calloc(1, 4 * file.n);
	assert_non_null(p);
	memcpy(p, file.p, file.n);
	for (size_t n = file.n; n < 4 * file.n; n += 7)
		expect_same(&want, p, n);
	free(p);
	buf_fini(&file);
	buf_fini(&contents);
}

/* ---- power cuts while a store is made ---- */

enum { NOTHING, EVERYTHING, SOME, SURVIVALS = SOME + 2 };
static struct shared {
	uint64_t ops;
	bool opened;
	uint8_t key[TFS_KEY_BYTES];
} * sh;
static uint64_t crash_at;
static unsigned survival;

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	return survival < SOME ? survival % ways : (index * 7 + survival * 3 + (unsigned)crash_at) % ways;
}

static int die(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (!sh->opened && __atomic_add_fetch(&sh->ops, 1, __ATOMIC_SEQ_CST) == crash_at)
		_exit(file_forget_crash(choose, NULL) ? 3 : 0);
	return 0;
}

/* Opens a new store and dies at its operation `crash_at`, or when it is open. */
static void child(void)
{
	if (file_forget_start(in_dir("")))
		_exit(4);
	set_hook(die, NULL);
	if (store_open(in_dir("d"), &options, &hooks, &store))
		_exit(5);
	if (tfs_key(store, "k", sh->key))
		_exit(6);
	sh->opened = true;
	_exit(file_forget_crash(choose, NULL) ? 3 : 0);
}

static void crashes(void **state)
{
	uint8_t first[TFS_KEY_BYTES], again[TFS_KEY_BYTES];
	unsigned deaths = 0;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(sh != MAP_FAILED);
	for (crash_at = (unsigned)share_first(); !sh->opened; crash_at += (unsigned)share_step()) {
		for (survival = NOTHING; survival < SURVIVALS; survival++, deaths++) {
			int status;
			pid_t pid;

			memset(sh, 0, sizeof(*sh));
			assert_true(tree_remove(in_dir("d")));
			pid = fork();
			if (pid == 0)
				child();
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			open_store();
			key_of("k", first);
			if (sh->opened)
				assert_memory_equal(first, sh->key, TFS_KEY_BYTES);
			close_store(false);
			open_store();
			key_of("k", again);
			assert_memory_equal(first, again, TFS_KEY_BYTES);
			close_store(false);
		}
	}
	print_message("# %u deaths\n", deaths);
	munmap(sh, sizeof(*sh));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(made_with_the_store),
		T(made_once),
		T(one_copy_suffices),
		T(crashes),
	};

	return RUN(tests);
}
