/* SPDX-License-Identifier: Apache-2.0 */
/* A session sees the changes of another session only after lock_sync, and watches are called only after deliver(). */
#include "t/lib/lock_conformance.h"
#include "engine/lock/term.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int lock_conformance_setup(void **state)
{
	const struct lock_kind *k = *state;

	if (k->begin)
		k->begin();
	return 0;
}

int lock_conformance_teardown(void **state)
{
	const struct lock_kind *k = *state;

	if (k->end)
		k->end();
	return 0;
}

static struct lock_service *begin(const struct lock_kind *k)
{
	struct lock_service *s = k->session();

	assert_non_null(s);
	return s;
}

static void deliver(const struct lock_kind *k)
{
	if (k->deliver)
		k->deliver();
}

/* want NULL: there is no such file. */
static void expect_file(struct lock_service *s, const char *name, const char *want, uint64_t version)
{
	struct buf b = {0};
	uint64_t v = 0;
	int err = lock_get(s, name, &b, &v);

	if (!want) {
		assert_int_equal(err, -ENOENT);
	} else {
		assert_int_equal(err, 0);
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

static int put_ephemeral(struct lock_service *s, const char *name, const char *text)
{
	const struct lock_op op = {.name = name, .ephemeral = true, .contents = tfs_str(text), .expect = LOCK_ABSENT};

	return lock_multi(s, &op, 1, NULL);
}

static int term_put(const struct lock_term *t, const char *name, struct tfs_bytes contents, uint64_t expect)
{
	const struct lock_op op = {.name = name, .contents = contents, .expect = expect};

	return lock_term_multi(t, &op, 1);
}

void lock_conformance_compare_and_set(void **state)
{
	struct lock_service *s = begin(*state);
	uint64_t v = 77;

	expect_file(s, "root", NULL, 0);
	assert_int_equal(put(s, "root", "x", 5), -ENOENT);
	assert_int_equal(put(s, "root", "x", LOCK_EXISTS), -ENOENT);
	assert_int_equal(lock_put(s, "root", tfs_str("one"), LOCK_ABSENT, &v), 0);
	assert_int_equal(v, 1);
	assert_int_equal(put(s, "root", "two", LOCK_ABSENT), -EEXIST);
	assert_int_equal(put(s, "root", "two", 2), -VERSION_CHANGED);
	assert_int_equal(lock_put(s, "root", tfs_str("two"), 1, &v), 0);
	assert_int_equal(v, 2);
	assert_int_equal(lock_put(s, "root", tfs_str(""), LOCK_ANY, &v), 0);
	assert_int_equal(v, 3);
	expect_file(s, "root", "", 3);
	assert_int_equal(lock_put(s, "root", tfs_str("four"), LOCK_EXISTS, &v), 0);
	assert_int_equal(v, 4);
	assert_int_equal(lock_remove(s, "root", 3), -VERSION_CHANGED);
	assert_int_equal(lock_remove(s, "root", LOCK_ABSENT), -EEXIST);
	assert_int_equal(lock_remove(s, "root", LOCK_EXISTS), 0);
	assert_int_equal(lock_remove(s, "root", LOCK_EXISTS), -ENOENT);
	assert_int_equal(lock_remove(s, "root", 4), -ENOENT);
	assert_int_equal(lock_remove(s, "root", LOCK_ANY), 0);
	assert_int_equal(lock_remove(s, "root", LOCK_ABSENT), 0);
	assert_int_equal(lock_put(s, "root", tfs_str("again"), LOCK_ANY, &v), 0);
	assert_int_equal(v, 1);
	lock_service_free(s);
}

void lock_conformance_names(void **state)
{
	static const char *const bad[] = {"", "/", "a/", "/a", "a/b/c", ".", "..", "a/..", "a b", "a%", "\xc3\xa9", "a=", "a//b"};
	static const char *const good[] = {"a.tmp", "a", "tables/x.tmp", "tables/x", "x.tmp/y.tmp", "tables/held", "tables/journal",
		"...", ".tmp", "tables/.tmp", "-"};
	struct lock_service *s = begin(*state);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(put(s, bad[i], "v", LOCK_ANY), -EINVAL);
		assert_int_equal(put_ephemeral(s, bad[i], "v"), -EINVAL);
		assert_int_equal(lock_get(s, bad[i], NULL, NULL), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(put(s, good[i], good[i], LOCK_ABSENT), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		expect_file(s, good[i], good[i], 1);
	/* a file and a directory of one name */
	assert_int_equal(put(s, "a/b", "v", LOCK_ANY), -EINVAL);
	assert_int_equal(put(s, "tables", "v", LOCK_ANY), -EINVAL);
	assert_int_equal(put_ephemeral(s, "a/b", "v"), -EINVAL);
	assert_int_equal(put_ephemeral(s, "tables", "v"), -EINVAL);
	assert_int_equal(put_ephemeral(s, "servers/1", "v"), 0);
	assert_int_equal(put(s, "servers", "v", LOCK_ANY), -EINVAL);
	assert_int_equal(put_ephemeral(s, "master", "v"), 0);
	assert_int_equal(put(s, "master/b", "v", LOCK_ANY), -EINVAL);
	lock_service_free(s);
}

static int collect(void *arg, const char *name)
{
	strcat(arg, name);
	strcat(arg, " ");
	return strcmp(name, "stop") == 0 ? 42 : 0;
}

static void expect_list(struct lock_service *s, const char *dir, const char *want)
{
	char got[256] = "";

	assert_int_equal(s->ops->list(s, dir, collect, got), 0);
	assert_string_equal(got, want);
}

void lock_conformance_list(void **state)
{
	struct lock_service *s = begin(*state);
	char got[256] = "";

	expect_list(s, "", "");
	expect_list(s, "tables", "");
	assert_int_equal(put(s, "tables/b", "", LOCK_ANY), 0);
	assert_int_equal(put(s, "tables/a.tmp", "", LOCK_ANY), 0);
	assert_int_equal(put(s, "tables/a.tmp.b", "", LOCK_ANY), 0);
	assert_int_equal(put(s, "tables/a.tmp-b", "", LOCK_ANY), 0);
	assert_int_equal(put(s, "root", "", LOCK_ANY), 0);
	expect_list(s, "tables", "a.tmp a.tmp-b a.tmp.b b ");
	expect_list(s, "", "root tables ");
	assert_int_equal(put_ephemeral(s, "tables/aa", ""), 0);
	assert_int_equal(put_ephemeral(s, "master", ""), 0);
	expect_list(s, "tables", "a.tmp a.tmp-b a.tmp.b aa b ");
	expect_list(s, "", "master root tables ");
	assert_int_equal(put(s, "tables/stop", "", LOCK_ANY), 0);
	assert_int_equal(put(s, "tables/zz", "", LOCK_ANY), 0);
	assert_int_equal(s->ops->list(s, "tables", collect, got), 42);
	assert_null(strstr(got, "zz"));
	expect_list(s, "root", "");
	assert_int_equal(s->ops->list(s, "a/b", collect, got), -EINVAL);
	lock_service_free(s);
}

void lock_conformance_multi(void **state)
{
	struct lock_service *s = begin(*state);
	struct lock_op twice[2] = {{.name = "x", .expect = LOCK_ANY}, {.name = "x/y", .expect = LOCK_ANY}};
	struct lock_op many[LOCK_OPS_MAX + 1] = {{0}};
	struct lock_stat v[3];

	assert_int_equal(put(s, "tables/a", "old", LOCK_ABSENT), 0);
	assert_int_equal(put(s, "tables/b", "b", LOCK_ABSENT), 0);
	struct lock_op ops[3] = {
		{.name = "tables/a", .what = LOCK_REMOVE, .expect = 1},
		{.name = "tables/c", .contents = tfs_str("new"), .expect = LOCK_ABSENT},
		{.name = "tables/b", .contents = tfs_str("bb"), .expect = 2},
	};
	assert_int_equal(lock_multi(s, ops, 3, v), -VERSION_CHANGED);
	expect_file(s, "tables/a", "old", 1);
	expect_file(s, "tables/c", NULL, 0);
	ops[1].expect = LOCK_EXISTS; /* the first operation that fails states the error */
	assert_int_equal(lock_multi(s, ops, 3, v), -ENOENT);
	ops[1].expect = LOCK_ABSENT;
	ops[2].expect = 1;
	assert_int_equal(lock_multi(s, ops, 3, v), 0);
	assert_int_equal(v[0].version, 0);
	assert_int_equal(v[1].version, 1);
	assert_int_equal(v[2].version, 2);
	expect_file(s, "tables/a", NULL, 0);
	expect_file(s, "tables/c", "new", 1);
	expect_file(s, "tables/b", "bb", 2);
	/* twice the same name; nothing; too much */
	assert_int_equal(lock_multi(s, twice, 2, NULL), -EINVAL);
	twice[1].name = "x";
	assert_int_equal(lock_multi(s, twice, 2, NULL), -EINVAL);
	assert_int_equal(lock_multi(s, twice, 0, NULL), -EINVAL);
	for (unsigned i = 0; i <= LOCK_OPS_MAX; i++) {
		static char names[LOCK_OPS_MAX + 1][8];

		snprintf(names[i], sizeof(names[i]), "f%u", i);
		many[i] = (struct lock_op){.name = names[i], .contents = tfs_str("v"), .expect = LOCK_ABSENT};
	}
	assert_int_equal(lock_multi(s, many, LOCK_OPS_MAX + 1, NULL), -EINVAL);
	assert_int_equal(lock_multi(s, many, LOCK_OPS_MAX, NULL), 0);
	lock_service_free(s);
}

void lock_conformance_checks(void **state)
{
	struct lock_service *s = begin(*state);
	struct lock_op ops[2] = {{.name = "term", .what = LOCK_CHECK, .expect = 1},
		{.name = "tables/a", .contents = tfs_str("a"), .expect = LOCK_ANY}};
	struct lock_stat v[2];

	assert_int_equal(lock_multi(s, ops, 2, v), -ENOENT);
	assert_int_equal(put(s, "term", "t", LOCK_ABSENT), 0);
	assert_int_equal(lock_multi(s, ops, 2, v), 0);
	assert_int_equal(v[0].version, 1);
	assert_int_equal(lock_multi(s, ops, 1, NULL), 0);
	expect_file(s, "term", "t", 1);
	assert_int_equal(put(s, "term", "u", 1), 0);
	assert_int_equal(lock_multi(s, ops, 2, v), -VERSION_CHANGED);
	assert_int_equal(lock_multi(s, ops, 1, NULL), -VERSION_CHANGED);
	expect_file(s, "tables/a", "a", 1);
	ops[0].expect = LOCK_EXISTS;
	assert_int_equal(lock_multi(s, ops, 2, v), 0);
	assert_int_equal(v[0].version, 2);
	expect_file(s, "tables/a", "a", 2);
	ops[0].expect = LOCK_ABSENT;
	assert_int_equal(lock_multi(s, ops, 2, v), -EINVAL);
	ops[0].expect = LOCK_ANY;
	assert_int_equal(lock_multi(s, ops, 2, v), -EINVAL);
	/* an ephemeral file can be checked, too */
	ops[0] = (struct lock_op){.name = "servers/7", .what = LOCK_CHECK, .expect = LOCK_EXISTS};
	assert_int_equal(lock_multi(s, ops, 2, v), -ENOENT);
	assert_int_equal(put_ephemeral(s, "servers/7", "7"), 0);
	assert_int_equal(lock_multi(s, ops, 2, v), 0);
	expect_file(s, "servers/7", "7", 1);
	lock_service_free(s);
}

void lock_conformance_sizes(void **state)
{
	struct lock_service *s = begin(*state);
	uint8_t *big = calloc(1, LOCK_FILE_MAX + 1);
	struct buf b = {0};

	assert_non_null(big);
	big[LOCK_FILE_MAX - 1] = 9;
	assert_int_equal(lock_put(s, "big", tfs_bytes_of(big, LOCK_FILE_MAX + 1), LOCK_ANY, NULL), -EFBIG);
	expect_file(s, "big", NULL, 0);
	assert_int_equal(lock_put(s, "big", tfs_bytes_of(big, LOCK_FILE_MAX), LOCK_ANY, NULL), 0);
	assert_int_equal(lock_get(s, "big", &b, NULL), 0);
	assert_true(bytes_eq(buf_bytes(&b), tfs_bytes_of(big, LOCK_FILE_MAX)));
	struct lock_op ops[2] = {{.name = "one", .contents = tfs_bytes_of(big, LOCK_FILE_MAX), .expect = LOCK_ABSENT},
		{.name = "two", .contents = tfs_bytes_of(big, LOCK_MULTI_MAX - LOCK_FILE_MAX + 1), .expect = LOCK_ABSENT}};
	assert_int_equal(lock_multi(s, ops, 2, NULL), -EFBIG);
	expect_file(s, "one", NULL, 0);
	ops[1].contents.n--;
	assert_int_equal(lock_multi(s, ops, 2, NULL), 0);
	buf_fini(&b);
	free(big);
	lock_service_free(s);
}

static int64_t mtime_of(struct lock_service *s, const char *name)
{
	struct lock_stat stat = {0};

	assert_int_equal(s->ops->get(s, name, NULL, &stat), 0);
	return stat.mtime_us;
}

void lock_conformance_ephemeral(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *s = begin(k);
	struct lock_op op = {.name = "servers/1", .ephemeral = true, .contents = tfs_str("x"), .expect = LOCK_ANY};
	struct lock_stat v;

	/* only a put that creates the file makes it ephemeral */
	assert_int_equal(lock_multi(s, &op, 1, NULL), -EINVAL);
	op.expect = LOCK_EXISTS;
	assert_int_equal(lock_multi(s, &op, 1, NULL), -EINVAL);
	op = (struct lock_op){.name = "servers/1", .what = LOCK_REMOVE, .ephemeral = true, .expect = LOCK_ABSENT};
	assert_int_equal(lock_multi(s, &op, 1, NULL), -EINVAL);
	assert_int_equal(put_ephemeral(s, "servers/1", "one"), 0);
	assert_int_equal(put_ephemeral(s, "servers/1", "one"), -EEXIST);
	expect_file(s, "servers/1", "one", 1);
	assert_true(mtime_of(s, "servers/1") > 0);
	/* a heartbeat: it stays ephemeral, and its answer has the service's time */
	op = (struct lock_op){.name = "servers/1", .contents = tfs_str("two"), .expect = LOCK_EXISTS};
	assert_int_equal(lock_multi(s, &op, 1, &v), 0);
	assert_int_equal(v.version, 2);
	assert_true(v.mtime_us >= 0 && v.mtime_us == mtime_of(s, "servers/1"));
	expect_file(s, "servers/1", "two", 2);
	/* it can be removed, and be one of several changes */
	assert_int_equal(lock_remove(s, "servers/1", 2), 0);
	expect_file(s, "servers/1", NULL, 0);
	assert_int_equal(put(s, "term", "1", LOCK_ABSENT), 0);
	struct lock_op elect[2] = {{.name = "master", .ephemeral = true, .contents = tfs_str("m"), .expect = LOCK_ABSENT},
		{.name = "term", .contents = tfs_str("2"), .expect = 7}};
	assert_int_equal(lock_multi(s, elect, 2, NULL), -VERSION_CHANGED);
	expect_file(s, "master", NULL, 0);
	elect[1].expect = 1;
	assert_int_equal(lock_multi(s, elect, 2, NULL), 0);
	expect_file(s, "master", "m", 1);
	assert_int_equal(put_ephemeral(s, "servers/2", "two"), 0);
	assert_int_equal(put(s, "servers/2", "2", LOCK_ANY), 0);
	assert_int_equal(put(s, "servers/3", "stays", LOCK_ABSENT), 0);
	lock_service_free(s);
	/* the end of the session removes them, and nothing else */
	s = begin(k);
	assert_int_equal(lock_sync(s), 0);
	expect_file(s, "master", NULL, 0);
	expect_file(s, "term", "2", 2);
	expect_list(s, "servers", "3 ");
	assert_int_equal(put_ephemeral(s, "master", "n"), 0);
	expect_file(s, "master", "n", 1);
	lock_service_free(s);
}

struct reports {
	char names[256];
};

static void on_change(void *arg, const char *name)
{
	struct reports *w = arg;

	assert_true(strlen(w->names) + strlen(name) + 2 < sizeof(w->names));
	strcat(w->names, name);
	strcat(w->names, " ");
}

void lock_conformance_sessions(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *a, *b;
	struct reports seen = {0};

	a = begin(k);
	b = begin(k);
	assert_int_equal(b->ops->watch(b, "servers/", on_change, &seen), 0);
	assert_int_equal(put_ephemeral(a, "servers/1", "a"), 0);
	assert_int_equal(put_ephemeral(b, "servers/1", "b"), -EEXIST);
	assert_int_equal(lock_sync(b), 0);
	expect_file(b, "servers/1", "a", 1);
	deliver(k);
	assert_non_null(strstr(seen.names, "servers/1 "));
	/* another session may change and remove the file */
	assert_int_equal(put(b, "servers/1", "b", 1), 0);
	assert_int_equal(lock_sync(a), 0);
	expect_file(a, "servers/1", "b", 2);
	deliver(k);
	*seen.names = 0;
	lock_service_free(a);
	deliver(k);
	assert_int_equal(lock_sync(b), 0);
	expect_file(b, "servers/1", NULL, 0);
	assert_non_null(strstr(seen.names, "servers/1 "));
	b->ops->unwatch(b, on_change, &seen);
	lock_service_free(b);
}

void lock_conformance_expired_session(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *a, *b;
	char got[256];

	a = begin(k);
	b = begin(k);
	assert_int_equal(put_ephemeral(a, "servers/1", "a"), 0);
	assert_int_equal(put(a, "root", "r", LOCK_ABSENT), 0);
	k->expire(a);
	assert_int_equal(lock_sync(b), 0);
	expect_file(b, "servers/1", NULL, 0);
	expect_file(b, "root", "r", 1);
	/* a call of a session that has ended changes nothing */
	assert_int_equal(put(a, "root", "late", LOCK_ANY), -SESSION_ENDED);
	assert_int_equal(put_ephemeral(a, "servers/1", "late"), -SESSION_ENDED);
	assert_int_equal(put(a, "servers/1", "late", LOCK_EXISTS), -SESSION_ENDED);
	assert_int_equal(lock_get(a, "root", NULL, NULL), -SESSION_ENDED);
	assert_int_equal(a->ops->list(a, "", collect, got), -SESSION_ENDED);
	assert_int_equal(lock_sync(a), -SESSION_ENDED);
	assert_int_equal(lock_sync(b), 0);
	expect_file(b, "root", "r", 1);
	expect_file(b, "servers/1", NULL, 0);
	lock_service_free(a);
	lock_service_free(b);
}

/* How often the reports name the file. */
static unsigned times_reported(const struct reports *w, const char *name)
{
	unsigned n = 0;

	for (const char *p = w->names; (p = strstr(p, name)); p += strlen(name))
		n++;
	return n;
}

void lock_conformance_watch(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *s = begin(k);
	struct reports a = {0}, b = {0}, c = {0};
	const struct lock_op check = {.name = "root", .what = LOCK_CHECK, .expect = 1};

	assert_int_equal(s->ops->watch(s, "tables/", on_change, &a), 0);
	assert_int_equal(s->ops->watch(s, "root", on_change, &b), 0);
	assert_int_equal(s->ops->watch(s, "root", on_change, &c), 0);
	assert_int_equal(s->ops->watch(s, "tables/", on_change, &c), 0);
	assert_int_equal(s->ops->watch(s, "/", on_change, &c), -EINVAL);
	assert_int_equal(put(s, "tables/t", "x", LOCK_ANY), 0);
	deliver(k);
	assert_true(times_reported(&a, "tables/t ") >= 1);
	assert_true(times_reported(&c, "tables/t ") >= 1);
	assert_int_equal(times_reported(&b, "tables"), 0);
	s->ops->unwatch(s, on_change, &c); /* both of its watches */
	*c.names = 0;
	assert_int_equal(put(s, "root", "x", LOCK_ABSENT), 0);
	deliver(k);
	assert_true(times_reported(&b, "root ") >= 1);
	assert_string_equal(c.names, "");
	/* a change that fails, and a check, report nothing */
	*b.names = 0;
	assert_int_equal(put(s, "root", "x", LOCK_ABSENT), -EEXIST);
	assert_int_equal(lock_multi(s, &check, 1, NULL), 0);
	deliver(k);
	assert_string_equal(b.names, "");
	/* removals and ephemeral files are changes */
	assert_int_equal(lock_remove(s, "root", 1), 0);
	deliver(k);
	assert_true(times_reported(&b, "root ") >= 1);
	*b.names = 0;
	assert_int_equal(put_ephemeral(s, "root", "x"), 0);
	deliver(k);
	assert_true(times_reported(&b, "root ") >= 1);
	s->ops->unwatch(s, on_change, &a);
	*a.names = 0;
	assert_int_equal(put(s, "tables/t", "x", LOCK_ANY), 0);
	deliver(k);
	assert_string_equal(a.names, "");
	s->ops->unwatch(s, on_change, &b);
	lock_service_free(s);
}

static unsigned calls_of(unsigned *calls)
{
	return __atomic_load_n(calls, __ATOMIC_ACQUIRE);
}

static void count_call(void *arg, const char *name)
{
	(void)name;
	__atomic_add_fetch((unsigned *)arg, 1, __ATOMIC_RELEASE);
}

/* A call comes after each change of a file in a watched directory, also of a file that the watch has just found. */
void lock_conformance_watched_directory(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *s = begin(k);
	struct reports seen = {0};
	unsigned calls = 0;

	assert_int_equal(put(s, "tables/old", "1", LOCK_ABSENT), 0);
	assert_int_equal(s->ops->watch(s, "tables/", on_change, &seen), 0);
	assert_int_equal(s->ops->watch(s, "none/", on_change, &seen), 0);
	assert_int_equal(put(s, "tables/old", "2", LOCK_EXISTS), 0);
	deliver(k);
	assert_true(times_reported(&seen, "tables/old ") >= 1);
	*seen.names = 0;
	assert_int_equal(put(s, "tables/old", "3", LOCK_EXISTS), 0);
	assert_int_equal(put(s, "none/a", "1", LOCK_ABSENT), 0);
	deliver(k);
	assert_true(times_reported(&seen, "tables/old ") >= 1);
	assert_true(times_reported(&seen, "none/a ") >= 1);
	*seen.names = 0;
	assert_int_equal(lock_remove(s, "tables/old", LOCK_EXISTS), 0);
	deliver(k);
	assert_true(times_reported(&seen, "tables/old ") >= 1);
	*seen.names = 0;
	assert_int_equal(put(s, "tables/old", "4", LOCK_ABSENT), 0);
	deliver(k);
	assert_true(times_reported(&seen, "tables/old ") >= 1);
	s->ops->unwatch(s, on_change, &seen);
	assert_int_equal(s->ops->watch(s, "tables/", count_call, &calls), 0);
	for (unsigned i = 0; i < 30; i++) {
		char name[16];
		unsigned before = calls_of(&calls);

		snprintf(name, sizeof(name), "tables/%u", i / 3);
		assert_int_equal(put(s, name, "x", LOCK_ANY), 0);
		if (i % 3 || i % 5 == 0)
			deliver(k);
		if (i % 2)
			before = calls_of(&calls);
		assert_int_equal(i % 5 ? put(s, name, "y", LOCK_EXISTS) : lock_remove(s, name, LOCK_EXISTS), 0);
		deliver(k);
		assert_true(calls_of(&calls) > before);
	}
	s->ops->unwatch(s, count_call, &calls);
	lock_service_free(s);
}

/* An ephemeral file of a watched directory is reported when its session ends, also if it was changed before. */
void lock_conformance_watched_life(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *a = begin(k), *b = begin(k);
	struct reports seen = {0};

	assert_int_equal(put_ephemeral(a, "servers/1", "a"), 0);
	assert_int_equal(lock_sync(b), 0);
	assert_int_equal(b->ops->watch(b, "servers/", on_change, &seen), 0);
	assert_int_equal(put_ephemeral(a, "servers/2", "a"), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(put(a, "servers/1", "beat", LOCK_EXISTS), 0);
		assert_int_equal(put(a, "servers/2", "beat", LOCK_EXISTS), 0);
		deliver(k);
	}
	assert_true(times_reported(&seen, "servers/2 ") >= 1);
	*seen.names = 0;
	/* removed, and at once created again */
	assert_int_equal(lock_remove(a, "servers/2", LOCK_EXISTS), 0);
	assert_int_equal(put_ephemeral(a, "servers/2", "again"), 0);
	deliver(k);
	assert_true(times_reported(&seen, "servers/2 ") >= 1);
	*seen.names = 0;
	assert_int_equal(put(a, "servers/2", "beat", LOCK_EXISTS), 0);
	deliver(k);
	*seen.names = 0;
	lock_service_free(a);
	deliver(k);
	assert_true(times_reported(&seen, "servers/1 ") >= 1);
	assert_true(times_reported(&seen, "servers/2 ") >= 1);
	b->ops->unwatch(b, on_change, &seen);
	lock_service_free(b);
}

void lock_conformance_term(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *s = begin(k);
	struct lock_term first = {0}, t = {0};
	struct lock_op many[LOCK_OPS_MAX] = {{0}};
	struct buf b = {0};

	assert_int_equal(lock_term_begin(s, tfs_str("one"), &first), 0);
	assert_int_equal(first.number, 1);
	expect_file(s, "master", "one", 1);
	assert_int_equal(lock_term_begin(s, tfs_str("two"), &t), -EBUSY);
	assert_int_equal(lock_get(s, "term", &b, NULL), 0);
	assert_int_equal(b.n, 8);
	assert_int_equal(load_be64(b.p), 1);
	buf_fini(&b);
	assert_int_equal(term_put(&first, "tables/a", tfs_str("a"), LOCK_ABSENT), 0);
	expect_file(s, "tables/a", "a", 1);
	/* its other errors come from lock_multi */
	assert_int_equal(term_put(&first, "tables/a", tfs_str("b"), LOCK_ABSENT), -EEXIST);
	assert_int_equal(term_put(&first, "tables/a", tfs_str("b"), 4), -VERSION_CHANGED);
	assert_int_equal(term_put(&first, "tables/b", tfs_str("b"), 4), -ENOENT);
	assert_int_equal(lock_term_multi(&first, many, LOCK_OPS_MAX), -EINVAL);
	assert_int_equal(lock_term_multi(&first, many, 0), -EINVAL);
	lock_term_end(&first);
	expect_file(s, "master", NULL, 0);
	lock_service_free(s);
	s = begin(k);
	assert_int_equal(lock_term_begin(s, tfs_str("two"), &t), 0);
	assert_int_equal(t.number, 2);
	expect_file(s, "master", "two", 1);
	first.locks = s;
	/* tables/a was removed and created again: its version proves nothing, the term does */
	assert_int_equal(lock_remove(s, "tables/a", 1), 0);
	assert_int_equal(term_put(&t, "tables/a", tfs_str("new"), LOCK_ABSENT), 0);
	assert_int_equal(term_put(&first, "tables/a", tfs_str("late"), 1), -SESSION_ENDED);
	expect_file(s, "tables/a", "new", 1);
	lock_term_end(&first); /* not the lock of another master */
	expect_file(s, "master", "two", 1);
	lock_service_free(s);
}

/* A master that was paused and replaced wakes up. */
void lock_conformance_former_master(void **state)
{
	const struct lock_kind *k = *state;
	struct lock_service *a, *b;
	struct lock_term first = {0}, second = {0};
	struct reports seen = {0};

	a = begin(k);
	b = begin(k);
	assert_int_equal(lock_term_begin(a, tfs_str("a"), &first), 0);
	assert_int_equal(b->ops->watch(b, "master", on_change, &seen), 0);
	assert_int_equal(lock_term_begin(b, tfs_str("b"), &second), -EBUSY);
	assert_int_equal(term_put(&first, "tables/t", tfs_str("1"), LOCK_ABSENT), 0);
	k->expire(a);
	deliver(k);
	assert_true(times_reported(&seen, "master ") >= 1);
	assert_int_equal(lock_term_begin(b, tfs_str("b"), &second), 0);
	assert_true(second.number > first.number);
	assert_int_equal(term_put(&first, "tables/t", tfs_str("late"), 1), -SESSION_ENDED);
	/* now the session lives, so only the term can tell */
	first.locks = b;
	assert_int_equal(term_put(&first, "tables/t", tfs_str("late"), 1), -SESSION_ENDED);
	assert_int_equal(term_put(&second, "tables/t", tfs_str("2"), 1), 0);
	expect_file(b, "tables/t", "2", 2);
	b->ops->unwatch(b, on_change, &seen);
	lock_service_free(a);
	lock_service_free(b);
}

/* ---- threads; the argument of a watch is freed right after unwatch ---- */

static void *changer(void *arg)
{
	struct lock_service *s = arg;

	for (int i = 0; i < 300; i++) {
		const struct lock_op ops[2] = {{.name = "tables/x", .contents = tfs_str("x"), .expect = LOCK_ANY},
			{.name = "tables/y", .what = i % 2 ? LOCK_REMOVE : LOCK_PUT, .contents = tfs_str("y"), .expect = LOCK_ANY}};

		if (lock_multi(s, ops, i % 3 ? 1 : 2, NULL))
			return s;
	}
	return NULL;
}

static void *watcher(void *arg)
{
	struct lock_service *s = arg;

	for (int i = 0; i < 3000; i++) {
		unsigned *calls = calloc(1, sizeof(*calls));

		if (!calls || s->ops->watch(s, i % 2 ? "tables/" : "tables/y", count_call, calls))
			return s;
		if (i % 3 == 0 && put_ephemeral(s, "master", "m") == 0 && lock_remove(s, "master", 1))
			return s;
		s->ops->unwatch(s, count_call, calls);
		free(calls);
	}
	return NULL;
}

void lock_conformance_threads(void **state)
{
	struct lock_service *s = begin(*state);
	pthread_t t[4];
	void *bad;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, i % 2 ? watcher : changer, s), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(t[i], &bad), 0);
		assert_null(bad);
	}
	lock_service_free(s);
}
