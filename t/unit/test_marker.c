/* SPDX-License-Identifier: Apache-2.0 */
/* The marker of a cluster's directory: its making, after a crash at each operation, and each directory that is refused. */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/lock_format.h"
#include "engine/lock/marker.h"
#include "t/lib/file_faults.h"
#include "t/unit/dir.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct lock_service *locks;
static char *why;

static struct lock_service *opened(const char *name)
{
	struct lock_service *s = NULL;

	if (!exists(name))
		assert_int_equal(mkdir(in_dir(name), 0700), 0);
	assert_int_equal(lock_local_open(in_dir(name), &s), 0);
	return s;
}

static int setup(void **state)
{
	msg_to_nowhere();
	if (test_dir_setup(state) || mkdir(in_dir("data"), 0700))
		return -1;
	locks = opened("locks");
	return 0;
}

static int teardown(void **state)
{
	lock_service_free(locks);
	free(why);
	why = NULL;
	file_set_hook(NULL, NULL);
	return test_dir_teardown(state);
}

static uint64_t make(void)
{
	uint64_t id = 0;

	assert_int_equal(marker_make(locks, in_dir("data"), &id, &why), 0);
	assert_true(id != 0);
	return id;
}

static void refused(int err, const char *dir, const char *reason)
{
	uint64_t id = 77;

	assert_int_equal(marker_check(locks, in_dir(dir), &id, &why), err);
	assert_int_equal(id, 77);
	if (!strstr(why, reason))
		fail_msg("%s", why);
}

static void neither_has_one(void **state)
{
	uint64_t id = 77;

	assert_int_equal(marker_check(locks, in_dir("data"), &id, &why), 0);
	assert_int_equal(id, 0);
	assert_int_equal(rmdir(in_dir("data")), 0);
}

static void a_cluster_is_made_once(void **state)
{
	uint64_t made = make(), id;

	assert_true(make() == made);
	assert_int_equal(marker_check(locks, in_dir("data"), &id, &why), 0);
	assert_true(id == made);
	assert_int_equal(marker_look(in_dir("data/cluster"), made), 0);
	assert_int_equal(unlink(in_dir("data/cluster")), 0);
	assert_int_equal(rmdir(in_dir("data")), 0); /* there was no other file */
}

static int stop_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return number >= *(uint64_t *)arg ? -EIO : 0;
}

static void a_crash_at_each_operation(void **state)
{
	uint64_t id, at;
	int err = -EIO;

	for (at = 1; err; at++) {
		lock_service_free(locks);
		assert_int_equal(test_dir_teardown(state), 0);
		assert_int_equal(setup(state), 0);
		file_set_hook(stop_at, &at);
		err = marker_make(locks, in_dir("data"), &id, &why);
		file_set_hook(NULL, NULL);
		lock_service_free(locks);
		locks = opened("locks");
		make();
		assert_int_equal(marker_check(locks, in_dir("data"), &id, &why), 0);
		assert_int_equal(unlink(in_dir("data/cluster")), 0);
		assert_int_equal(rmdir(in_dir("data")), 0);
	}
	assert_true(at > 15);
}

static void two_clusters_do_not_share_a_directory(void **state)
{
	struct lock_service *first = locks, *second = opened("others");
	uint64_t of_first = make(), id;

	locks = second;
	refused(-EXDEV, "data", "of another lock service");
	assert_int_equal(marker_make(second, in_dir("data"), &id, &why), -EXDEV);
	assert_int_equal(mkdir(in_dir("more"), 0700), 0);
	assert_int_equal(marker_make(second, in_dir("more"), &id, &why), 0);
	refused(-EXDEV, "data", "and the lock service to");
	assert_int_equal(marker_look(in_dir("data/cluster"), id), -EXDEV);
	locks = first;
	assert_true(make() == of_first);
	lock_service_free(second);
}

/* The second one comes between the first one's steps 1 and 2. */
static void two_clusters_at_once(void **state)
{
	struct lock_service *second = opened("others");
	uint64_t at = 1, id;

	/* Until the lock service has the file. */
	for (bool has = false; !has; at++) {
		file_set_hook(stop_at, &at);
		assert_true(marker_make(locks, in_dir("data"), &id, &why) < 0);
		file_set_hook(NULL, NULL);
		lock_service_free(locks);
		locks = opened("locks");
		has = lock_get(locks, MARKER_FILE, NULL, NULL) == 0;
		assert_false(exists("data/cluster"));
	}
	assert_int_equal(marker_make(second, in_dir("data"), &id, &why), 0);
	assert_int_equal(marker_make(locks, in_dir("data"), &id, &why), -EXDEV);
	assert_int_equal(marker_check(second, in_dir("data"), &id, &why), 0);
	lock_service_free(second);
}

static void a_directory_without_marker_is_refused(void **state)
{
	uint64_t made = make(), id;

	assert_int_equal(mkdir(in_dir("bare"), 0700), 0);
	refused(-ENODEV, "bare", "not mounted");
	assert_int_equal(marker_make(locks, in_dir("bare"), &id, &why), -ENODEV); /* it was complete */
	assert_int_equal(marker_look(in_dir("bare/cluster"), made), -ENODEV);
	assert_int_equal(rmdir(in_dir("bare")), 0);
	refused(-ENODEV, "none", "not mounted");
}

static void damage(size_t bytes, size_t flip, size_t count)
{
	struct buf b = {0};
	FILE *f;

	assert_int_equal(file_read_all(in_dir("whole"), 1 << 20, &b), 0);
	for (size_t i = 0; i < count; i++)
		b.p[flip + i * COPIES_APART] ^= 1;
	f = fopen(in_dir("data/cluster"), "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(b.p, 1, bytes < b.n ? bytes : b.n, f), bytes < b.n ? bytes : b.n);
	assert_int_equal(fclose(f), 0);
	buf_fini(&b);
}

static void one_good_copy_suffices(void **state)
{
	uint64_t made = make(), id;

	assert_int_equal(link(in_dir("data/cluster"), in_dir("whole")), 0);
	assert_int_equal(unlink(in_dir("data/cluster")), 0);
	for (size_t i = 0; i < LOCK_CLUSTER_BYTES; i++) {
		damage(SIZE_MAX, i, 1);
		assert_int_equal(marker_look(in_dir("data/cluster"), made), 0);
		damage(SIZE_MAX, COPIES_APART + i, 1);
		assert_int_equal(marker_look(in_dir("data/cluster"), made), 0);
		damage(SIZE_MAX, i, 2);
		refused(-EBADMSG, "data", "damaged");
		assert_int_equal(marker_look(in_dir("data/cluster"), made), -EBADMSG);
	}
	damage(LOCK_CLUSTER_BYTES, 0, 0);
	assert_int_equal(marker_check(locks, in_dir("data"), &id, &why), 0);
	damage(LOCK_CLUSTER_BYTES - 1, 0, 0);
	refused(-EBADMSG, "data", "damaged");
	damage(0, 0, 0);
	refused(-EBADMSG, "data", "damaged");
	assert_int_equal(lock_put(locks, MARKER_FILE, tfs_str("nonsense"), LOCK_ANY, NULL), 0);
	refused(-EBADMSG, "data", "lock service's file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(neither_has_one, setup, teardown),
		cmocka_unit_test_setup_teardown(a_cluster_is_made_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_crash_at_each_operation, setup, teardown),
		cmocka_unit_test_setup_teardown(two_clusters_do_not_share_a_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(two_clusters_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_directory_without_marker_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(one_good_copy_suffices, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("marker", tests, NULL, NULL);
}
