/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage probe over storage that is wrong in one way.  The file layer of
 * this program sits below the engine's.  Paths below "b" belong to a second
 * mount of the directory "a", which shows what it showed before.
 */
#include "engine/base/file.h"
#include "engine/base/file_ops.h"
#include "engine/base/outcome.h"
#include "engine/probe/internal.h"
#include "t/unit/dir.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum wrong {
	RIGHT,
	OLD_SIZE,     /* the size of a path and of a descriptor is as first read */
	OLD_CONTENTS, /* the contents of the names with `part` are as when first opened */
	NO_NEW_NAME,  /* a name that was not found is not found later */
	OLD_NAME,     /* a name that was found is found later */
	OLD_LIST,
	NOT_EXCLUSIVE,
	NEITHER_CREATES,
	OLD_DIRECTORY,
	OWN_LOCK,
	NO_SYNC,
	NO_MARKER,
	IO_ERROR
};
static enum wrong wrong;
static const char *part = "";
static _Atomic unsigned calls; /* threads of the probe count them */

/* What the second mount showed first, by path. */
struct shown {
	char path[600];
	uint64_t bytes;
	bool has_bytes, absent;
};
static struct shown shown[20000];
static unsigned shown_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool is_second(const char *path)
{
	const char *b = in_dir("b/");

	return strncmp(path, b, strlen(b)) == 0;
}

/* The directory that the second mount shows. */
static const char *mounted = "a";

/* The path below that directory: the product follows no link.  Valid until the next call but one of the thread. */
static const char *real(const char *path)
{
	static __thread char paths[2][700];
	static __thread unsigned at;

	if (!is_second(path))
		return path;
	at = !at;
	snprintf(paths[at], sizeof(paths[at]), "%s%s", in_dir(mounted), path + strlen(in_dir("b")));
	return paths[at];
}

static struct shown *shown_of(const char *path)
{
	struct shown *s = NULL;

	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < shown_count && !s; i++)
		if (strcmp(shown[i].path, path) == 0)
			s = &shown[i];
	if (!s) {
		assert_true(shown_count < sizeof(shown) / sizeof(*shown));
		s = &shown[shown_count++];
		*s = (struct shown){0};
		snprintf(s->path, sizeof(s->path), "%s", path);
	}
	pthread_mutex_unlock(&mutex);
	return s;
}

/* The path of a copy that this file makes of a file. */
static const char *copy_of(const char *path)
{
	static __thread char copy[700];

	snprintf(copy, sizeof(copy), "%s/%u", in_dir("copies"), (unsigned)(shown_of(path) - shown));
	return copy;
}

static const char *first_copy(const char *path)
{
	const char *copy = copy_of(path);
	char cmd[1500];

	if (access(copy, F_OK) < 0) {
		snprintf(cmd, sizeof(cmd), "cp '%s' '%s' 2>/dev/null", real(path), copy);
		(void)!system(cmd);
	}
	return access(copy, F_OK) < 0 ? path : copy;
}

static int wrong_open(const char *path, int flags)
{
	int fd;

	if (wrong == IO_ERROR && ++calls == 40)
		return -EIO;
	if (wrong == NO_MARKER && calls > 0 && strstr(path, "marker"))
		return -ENOENT;
	if (wrong == NO_MARKER && strstr(path, "marker"))
		calls++;
	if (wrong == NOT_EXCLUSIVE && strstr(path, "-race"))
		flags &= ~O_EXCL;
	if (wrong == NEITHER_CREATES && strstr(path, "-race"))
		return -EEXIST;
	if (!is_second(path))
		return file_system.open(real(path), flags);
	if (wrong == OLD_CONTENTS && !(flags & O_CREAT) && strstr(path, part))
		return file_system.open(real(first_copy(path)), flags);
	if (wrong == OWN_LOCK && strstr(path, "-lock"))
		return file_system.open(real(first_copy(path)), flags);
	if (wrong == NO_NEW_NAME && !(flags & O_CREAT) && shown_of(path)->absent)
		return -ENOENT;
	if (wrong == OLD_NAME && !(flags & O_CREAT))
		return file_system.open(real(first_copy(path)), flags);
	fd = file_system.open(real(path), flags);
	if (wrong == OLD_DIRECTORY && fd == -ENOENT && (flags & O_CREAT) && strstr(path, "-log/2")) {
		char dead[600];

		snprintf(dead, sizeof(dead), "%.*sdead/2", (int)(strstr(path, "log/2") - path), path);
		fd = file_system.open(real(dead), flags);
	}
	if (fd == -ENOENT)
		shown_of(path)->absent = true;
	return fd;
}

static int wrong_size(const char *path, int fd, uint64_t *bytes)
{
	struct shown *s;
	int err = file_system.size(real(path), fd, bytes);

	if (!is_second(path) || (wrong != OLD_SIZE && wrong != NO_NEW_NAME && wrong != OLD_NAME))
		return err;
	s = shown_of(path);
	if (wrong == OLD_NAME && err == -ENOENT && s->has_bytes)
		err = 0;
	if (wrong == NO_NEW_NAME && s->absent)
		err = -ENOENT;
	s->absent |= err == -ENOENT;
	if (!err && !s->has_bytes)
		s->bytes = *bytes;
	s->has_bytes |= !err;
	if (!err && wrong == OLD_SIZE)
		*bytes = s->bytes;
	return err;
}

static int wrong_sync_dir(const char *path, const char *place)
{
	return wrong == NO_SYNC ? -EINVAL : file_system.sync_dir(real(path), place);
}

static int wrong_list(const char *dir, struct buf *entries, struct buf *names)
{
	static struct buf old_entries, old_names;

	if (wrong != OLD_LIST || !is_second(dir) || strstr(dir, "-log"))
		return file_system.list(real(dir), entries, names);
	if (old_entries.n == 0) {
		assert_int_equal(file_system.list(real(dir), &old_entries, &old_names), 0);
		assert_true(old_entries.n > 0);
	}
	assert_int_equal(buf_append_bytes(entries, buf_bytes(&old_entries)), 0);
	return buf_append_bytes(names, buf_bytes(&old_names));
}

/* The others are the system's. */
static int plain_read(const char *path, int fd, void *p, size_t n, uint64_t offset, size_t *got)
{
	return file_system.read(path, fd, p, n, offset, got);
}
static int plain_write(const char *path, int fd, const struct tfs_bytes *v, unsigned count, uint64_t offset)
{
	return file_system.write(path, fd, v, count, offset);
}
static int plain_sync(const char *path, int fd, const char *place)
{
	return file_system.sync(path, fd, place);
}
static int plain_allocate(const char *path, int fd, uint64_t offset, uint64_t n)
{
	return file_system.allocate(path, fd, offset, n);
}
static int plain_unlink(const char *path)
{
	return file_system.unlink(real(path));
}
static int plain_rename(const char *from, const char *to)
{
	return file_system.rename(real(from), real(to));
}
static int plain_look_up(const char *path, uint64_t *id)
{
	return file_system.look_up(real(path), id);
}
static int plain_mkdir(const char *path)
{
	return file_system.mkdir(real(path));
}
static int plain_rmdir(const char *path)
{
	return file_system.rmdir(real(path));
}
static const struct file_ops wrong_ops = {
	.open = wrong_open,
	.read = plain_read,
	.write = plain_write,
	.size = wrong_size,
	.sync = plain_sync,
	.allocate = plain_allocate,
	.unlink = plain_unlink,
	.rename = plain_rename,
	.look_up = plain_look_up,
	.mkdir = plain_mkdir,
	.rmdir = plain_rmdir,
	.sync_dir = wrong_sync_dir,
	.list = wrong_list,
};
const struct file_ops *const file_ops = &wrong_ops;

static int setup(void **state)
{
	if (test_dir_setup(state))
		return -1;
	wrong = RIGHT;
	shown_count = calls = 0;
	mounted = "a";
	return mkdir(in_dir("a"), 0700) || mkdir(in_dir("copies"), 0700) || symlink("a", in_dir("b"));
}

static struct probe probe_of(const char *one, const char *other)
{
	static char paths[2][600];

	snprintf(paths[0], sizeof(paths[0]), "%s", in_dir(one));
	snprintf(paths[1], sizeof(paths[1]), "%s", in_dir(other));
	return (struct probe){.dir = {paths[0], paths[1]}, .rounds = 3, .most_us = 60000000};
}

static void assert_empty(const char *dir)
{
	assert_int_equal(rmdir(in_dir(dir)), 0);
	assert_int_equal(mkdir(in_dir(dir), 0700), 0);
}

static void right_storage_is_safe(void **state)
{
	for (unsigned twice = 0; twice < 2; twice++) {
		struct probe p = probe_of("a", twice ? "a" : "b");

		assert_int_equal(probe_run(&p), 0);
		for (unsigned i = 0; i < PROBE_PROPERTIES; i++) {
			if (p.wrong[i])
				fail_msg("%u: %s", i, p.first[i]);
			assert_true(p.tries[i] >= 6);
		}
		assert_int_equal(p.done, 3);
		assert_int_equal(probe_wrong(&p), 0);
		assert_empty("a");
	}
}

static void each_wrong_storage_is_found(void **state)
{
	static const struct {
		enum wrong wrong;
		const char *part, *word;
		enum probe_property property;
	} cases[] = {
		{OLD_SIZE, "", "bytes, not", PROBE_SIZE},
		{OLD_CONTENTS, "-grow", "fewer bytes", PROBE_APPEND},
		{OLD_CONTENTS, "-place", "other bytes", PROBE_OVERWRITE},
		{OLD_CONTENTS, "-moved", "other bytes", PROBE_REPLACE},
		{NO_NEW_NAME, "", "No such file", PROBE_CREATE},
		{NO_NEW_NAME, "", "No such file", PROBE_RENAME},
		{OLD_NAME, "", "it succeeds", PROBE_UNLINK},
		{OLD_NAME, "", "it succeeds", PROBE_RENAME},
		{OLD_LIST, "", "listed", PROBE_LIST},
		{NOT_EXCLUSIVE, "", "both creates succeed", PROBE_EXCLUSIVE},
		{NEITHER_CREATES, "", "both creates fail", PROBE_EXCLUSIVE},
		{OLD_DIRECTORY, "", "it succeeds", PROBE_DIRECTORY},
		{OWN_LOCK, "", "it succeeds", PROBE_LOCK},
		{NO_SYNC, "", "Invalid argument", PROBE_SYNC},
		{NO_MARKER, "", "No such file", PROBE_MOUNT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct probe p = probe_of("a", "b");
		struct buf line = {0};
		char cmd[700];

		wrong = cases[i].wrong;
		part = cases[i].part;
		shown_count = calls = 0;
		assert_int_equal(probe_run(&p), 0);
		wrong = RIGHT;
		if (!p.wrong[cases[i].property] || !strstr(p.first[cases[i].property], cases[i].word))
			fail_msg("case %zu: %u wrong: %s", i, p.wrong[cases[i].property], p.first[cases[i].property]);
		assert_true(probe_wrong(&p) > 0);
		p.kind = PROBE_FUSE;
		assert_int_equal(probe_line(&p, cases[i].property, &line), 0);
		assert_int_equal(buf_u8(&line, 0), 0);
		assert_non_null(strstr((char *)line.p, " tries, the first at "));
		buf_fini(&line);
		assert_empty("a");
		snprintf(cmd, sizeof(cmd), "rm -rf '%s'/*", in_dir("copies"));
		assert_int_equal(system(cmd), 0);
	}
}

/* The name shows another directory, as the directory below a mount that has ended does. */
static void mount_goes(void *arg, unsigned done, unsigned rounds, uint64_t bytes)
{
	if (done > 1)
		return;
	mounted = "copies";
	assert_int_equal(unlink(in_dir("b")), 0);
	assert_int_equal(symlink("copies", in_dir("b")), 0);
}

static void a_mount_that_goes_is_found(void **state)
{
	struct probe p = probe_of("a", "b");

	p.round = mount_goes;
	assert_int_equal(probe_run(&p), 0);
	assert_int_equal(p.done, 3);
	assert_true(p.wrong[PROBE_MOUNT] > 0 && p.wrong[PROBE_MOUNT] < p.tries[PROBE_MOUNT]);
	assert_empty("a");
	assert_empty("copies");
}

static bool at_thirtieth_try(void *arg)
{
	return ++*(unsigned *)arg == 30;
}

static void what_proves_nothing_is_an_error(void **state)
{
	struct probe p = probe_of("a", "b");
	unsigned tries = 0;

	wrong = IO_ERROR;
	assert_int_equal(probe_run(&p), -EIO);
	assert_non_null(strstr(p.failed, "/probe-"));
	wrong = RIGHT;
	assert_empty("a");

	p = probe_of("a", "b");
	p.stop = at_thirtieth_try;
	p.arg = &tries;
	assert_int_equal(probe_run(&p), -ECANCELED);
	assert_int_equal(p.done, 2);
	assert_empty("a");

	p = probe_of("a", "copies"); /* two directories */
	assert_int_equal(probe_run(&p), -EXDEV);
	assert_empty("a");

	p = probe_of("a", "none");
	assert_int_equal(probe_run(&p), -ENOENT);
	assert_string_equal(p.failed, in_dir("none"));
	assert_empty("a");
}

/* ---- a second process is the other side ---- */

struct far {
	struct probe_sides *sides;
	bool lies; /* one answer of a step is stale */
	unsigned which, step;
	unsigned asked, ends_after; /* 0: it does not end */
	bool forgets;
	bool repeats; /* each order comes twice, as after a lost answer */
};

static int far_answers(void *arg, const struct probe_order *order, struct probe_reply *reply)
{
	struct far *x = arg;
	int err;

	if (x->ends_after && ++x->asked > x->ends_after)
		return -UNREACHABLE;
	if (x->forgets && order->which == PROBE_TRY_OVERWRITE && order->step == 3) {
		probe_sides_free(x->sides);
		assert_int_equal(probe_sides_new(in_dir("a"), &x->sides), 0);
	}
	err = probe_sides_do(x->sides, order, reply);
	if (!err && x->repeats) {
		struct probe_reply again = {0};

		assert_int_equal(probe_sides_do(x->sides, order, &again), 0);
		assert_int_equal(again.err, reply->err);
	}
	if (x->lies && order->which == x->which && order->step == x->step)
		*reply = reply->err ? (struct probe_reply){0} : (struct probe_reply){1, "fewer bytes"};
	return err;
}

static struct probe probe_far(struct far *x)
{
	struct probe p = probe_of("a", "a");

	assert_int_equal(probe_sides_new(p.dir[0], &x->sides), 0);
	p.dir[1] = "192.0.2.7:7101:/srv/t";
	p.far = far_answers;
	p.far_arg = x;
	return p;
}

static void another_process_is_the_other_side(void **state)
{
	for (unsigned twice = 0; twice < 2; twice++) {
		struct far x = {.repeats = twice};
		struct probe p = probe_far(&x);

		assert_int_equal(probe_run(&p), 0);
		for (unsigned i = 0; i < PROBE_PROPERTIES; i++) {
			if (p.wrong[i])
				fail_msg("%u: %s", i, p.first[i]);
			assert_true(p.tries[i] >= 6);
		}
		probe_sides_free(x.sides);
		assert_empty("a");
	}
}

static void each_stale_answer_of_it_is_found(void **state)
{
	unsigned found = 0;

	for (unsigned which = 0; which < PROBE_TRIES; which++)
		for (unsigned i = 0; i < probe_step_count(which); i++) {
			const struct probe_step *s = &probe_steps(which)[i];
			struct far x = {.lies = true, .which = which, .step = i};
			struct probe p = probe_far(&x);
			char *why = NULL;

			p.rounds = 1;
			if (s->op >= LOOKS) {
				assert_int_equal(probe_verdict(&p, probe_run(&p), &why), -EOPNOTSUPP);
				assert_true(p.wrong[s->what] > 0);
				assert_non_null(strstr(p.first[s->what], "192.0.2.7:7101:/srv/t/probe-"));
				assert_non_null(strstr(why, "this storage is not safe: "));
				assert_null(strchr(why, '\n'));
				found++;
			}
			free(why);
			probe_sides_free(x.sides);
			assert_empty("a");
		}
	assert_true(found > 40);
}

static void another_process_that_ends_is_no_answer(void **state)
{
	for (unsigned n = 1; n < 60; n += 7) {
		struct far x = {.ends_after = n};
		struct probe p = probe_far(&x);

		assert_int_equal(probe_run(&p), -UNREACHABLE);
		probe_sides_free(x.sides);
		assert_empty("a");
	}
	struct far x = {.forgets = true};
	struct probe p = probe_far(&x);

	assert_int_equal(probe_run(&p), -UNREACHABLE);
	probe_sides_free(x.sides);
	assert_empty("a");
}

static void orders_reach_the_files_of_a_probe_only(void **state)
{
	struct probe_sides *sides;
	struct probe_reply reply;

	assert_int_equal(probe_sides_new(in_dir("a"), &sides), 0);
	assert_int_equal(probe_sides_do(sides, &(struct probe_order){1, 1, PROBE_TRY_ALL, 0}, &reply), -EINVAL);
	assert_int_equal(probe_sides_do(sides, &(struct probe_order){1, 1, UINT32_MAX, 0}, &reply), -EINVAL);
	for (unsigned which = 0; which < PROBE_TRY_ALL; which++) {
		const unsigned n = probe_step_count(which);

		assert_int_equal(probe_sides_do(sides, &(struct probe_order){1, 1, which, n}, &reply), -EINVAL);
		/* No process has made the directory of this probe.  Steps for a file that is not open change nothing. */
		for (unsigned i = 0; i < n; i++) {
			assert_int_equal(probe_sides_do(sides, &(struct probe_order){i, which, which, i}, &reply), 0);
			assert_true(reply.err != 0 || probe_steps(which)[i].op == DEVICE || probe_steps(which)[i].op == CLOSE);
		}
	}
	probe_sides_free(sides);
	assert_empty("a");
}

static void options_of_nfs_show_caches(void **state)
{
#define MOUNT(device, type, options) "36 35 " device " / /srv/t rw,noatime shared:1 - " type " 192.0.2.1:/t " options "\n"
#define SAFE "rw,vers=4.2,hard,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0,lookupcache=none,addr=192.0.2.1"
	static const struct {
		const char *text;
		bool caches;
	} cases[] = {
		{MOUNT("0:50", "nfs4", "rw,vers=4.2,hard,addr=192.0.2.1"), true},
		{MOUNT("0:50", "nfs", "rw,vers=3,hard,addr=192.0.2.1"), true},
		{MOUNT("0:50", "nfs4", SAFE), false},
		{MOUNT("0:50", "nfs4", "rw,noac,lookupcache=none"), false},
		{MOUNT("0:50", "nfs4", "rw,noac,lookupcache=nonesuch"), true},
		{MOUNT("0:50", "nfs4", "rw,noac"), true},
		{MOUNT("0:50", "nfs4", "rw,lookupcache=none"), true},
		{MOUNT("0:50", "nfs4", "rw,acregmin=0,acregmax=0,acdirmin=0,acdirmax=60,lookupcache=none"), true},
		{MOUNT("0:51", "nfs4", "rw"), false},
		{MOUNT("0:50", "ext4", "rw"), false},
		{MOUNT("0:49", "nfs4", "rw") MOUNT("0:50", "nfs4", SAFE), false},
		{MOUNT("0:49", "nfs4", SAFE) MOUNT("0:50", "nfs4", "rw"), true},
		{"", false},
		{"36 35 0:50", false},
		{"36 35 0:50 / / rw -\n36", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (probe_mount_caches(cases[i].text, 0, 50) != cases[i].caches)
			fail_msg("case %zu: %s", i, cases[i].text);
	assert_int_equal(probe_mount_options(in_dir("a"), &(char *){NULL}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(right_storage_is_safe, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(each_wrong_storage_is_found, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_mount_that_goes_is_found, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(what_proves_nothing_is_an_error, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(another_process_is_the_other_side, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(each_stale_answer_of_it_is_found, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(another_process_that_ends_is_no_answer, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(orders_reach_the_files_of_a_probe_only, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(options_of_nfs_show_caches, setup, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
