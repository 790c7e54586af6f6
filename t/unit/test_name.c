/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/base/name maps the shared vectors in both directions, and random keys survive a
 * round trip.  A mutated vector is refused or is the canonical name of another key.
 */
#include "engine/base/name.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct vector {
	enum name_kind kind;
	struct buf key, path;
	int64_t ts;
};
static struct vector *vectors;
static size_t vector_count;

static void unhex(const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n;) {
		if (p[i] == '/') {
			assert_int_equal(0, buf_u8(out, '/'));
			i++;
			continue;
		}
		char two[3] = {p[i], p[i + 1], 0};

		assert_int_equal(0, buf_u8(out, (uint8_t)strtoul(two, NULL, 16)));
		i += 2;
	}
}

static int load(void **state)
{
	/* make check sets SRC; by hand, the path known at build time is used, from the build directory or the sources. */
	const char *dir = getenv("SRC");
	char path[4096];
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/t/names.tsv", dir ? dir : TFS_SRC);
	f = fopen(path, "r");
	if (!f) {
		print_error("%s: cannot open\n", path);
		return -1;
	}
	while ((n = getline(&line, &cap, f)) > 0) {
		char *field[4] = {line, NULL, NULL, NULL};
		struct vector v = {0};

		if (line[0] == '#')
			continue;
		if (line[n - 1] == '\n')
			line[--n] = 0;
		for (int i = 1; i < 4; i++) {
			field[i] = strchr(field[i - 1], '\t');
			assert_non_null(field[i]);
			*field[i]++ = 0;
		}
		v.kind = strcmp(field[0], "row") == 0 ? NAME_ROW : strcmp(field[0], "newest") == 0 ? NAME_NEWEST : NAME_VERSION;
		unhex(field[1], strlen(field[1]), &v.key);
		if (v.kind == NAME_VERSION)
			v.ts = strtoll(field[2], NULL, 10);
		unhex(field[3], strlen(field[3]), &v.path);
		vectors = realloc(vectors, (vector_count + 1) * sizeof(*vectors));
		vectors[vector_count++] = v;
	}
	free(line);
	fclose(f);
	return vector_count > 300 ? 0 : -1;
}

static int unload(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		buf_fini(&vectors[i].key);
		buf_fini(&vectors[i].path);
	}
	free(vectors);
	return 0;
}

static int decode(enum name_kind want, struct tfs_bytes path, struct buf *key, enum name_kind *kind, int64_t *ts)
{
	*ts = 0;
	*kind = NAME_ROW;
	return want == NAME_ROW ? name_decode_row(path, key) : name_decode_cell(path, key, kind, ts);
}

static void test_vectors(void **state)
{
	struct buf got = {0};

	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *v = &vectors[i];
		enum name_kind kind;
		int64_t ts;

		buf_reset(&got);
		assert_int_equal(0, name_encode(v->kind, buf_bytes(&v->key), v->ts, &got));
		assert_int_equal(got.n, v->path.n);
		assert_memory_equal(got.p, v->path.p, got.n);
		buf_reset(&got);
		assert_int_equal(0, decode(v->kind, buf_bytes(&v->path), &got, &kind, &ts));
		assert_int_equal(kind, v->kind);
		assert_true(bytes_eq(buf_bytes(&got), buf_bytes(&v->key)));
		assert_true(ts == v->ts);
	}
	buf_fini(&got);
}

/* A path is accepted only if its key encodes to it. */
static void refused_or_canonical(enum name_kind want, struct tfs_bytes path)
{
	struct buf key = {0}, again = {0};
	enum name_kind kind;
	int64_t ts;
	int r = decode(want, path, &key, &kind, &ts);

	if (r == 0) {
		assert_int_equal(0, name_encode(kind, buf_bytes(&key), ts, &again));
		assert_true(bytes_eq(buf_bytes(&again), path));
	} else {
		assert_int_equal(r, -ENOENT);
	}
	buf_fini(&key);
	buf_fini(&again);
}

static void refused(enum name_kind want, struct tfs_bytes path)
{
	struct buf key = {0};
	enum name_kind kind;
	int64_t ts;

	assert_int_equal(-ENOENT, decode(want, path, &key, &kind, &ts));
	buf_fini(&key);
}

static void test_mutations(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *v = &vectors[i];
		struct tfs_bytes path = buf_bytes(&v->path);
		size_t step = path.n > 2000 ? 97 : 1;
		struct buf m = {0};

		for (size_t at = 0; at < path.n; at += step) {
			/* one byte changed, dropped, doubled; an escape that is not needed; a split moved */
			assert_int_equal(0, buf_set(&m, path.p, path.n));
			m.p[at] ^= 1;
			refused_or_canonical(v->kind, buf_bytes(&m));
			m.p[at] = '%';
			refused_or_canonical(v->kind, buf_bytes(&m));
			m.p[at] = '/';
			refused_or_canonical(v->kind, buf_bytes(&m));
			buf_reset(&m);
			assert_int_equal(0, buf_append(&m, path.p, at));
			assert_int_equal(0, buf_append(&m, path.p + at + 1, path.n - at - 1));
			refused_or_canonical(v->kind, buf_bytes(&m));
			buf_reset(&m);
			assert_int_equal(0, buf_append(&m, path.p, at + 1));
			assert_int_equal(0, buf_append(&m, path.p + at, path.n - at));
			refused_or_canonical(v->kind, buf_bytes(&m));
			buf_reset(&m);
			assert_int_equal(0, buf_append(&m, path.p, at));
			assert_int_equal(0, buf_printf(&m, "%%%02X", path.p[at]));
			assert_int_equal(0, buf_append(&m, path.p + at + 1, path.n - at - 1));
			refused_or_canonical(v->kind, buf_bytes(&m));
			/* lower-case escapes never stand */
			if (path.p[at] == '%' && at + 2 < path.n && path.p[at + 2] >= 'A' && path.p[at + 2] <= 'F') {
				assert_int_equal(0, buf_set(&m, path.p, path.n));
				m.p[at + 2] |= 0x20;
				refused(v->kind, buf_bytes(&m));
			}
			buf_reset(&m);
			assert_int_equal(0, buf_append(&m, path.p, at));
			assert_int_equal(0, buf_append(&m, "%/", 2));
			assert_int_equal(0, buf_append(&m, path.p + at, path.n - at));
			refused_or_canonical(v->kind, buf_bytes(&m));
		}
		/* An empty component, a path of parts only. */
		assert_int_equal(0, buf_set(&m, path.p, path.n));
		assert_int_equal(0, buf_append(&m, "/", 1));
		refused(v->kind, buf_bytes(&m));
		assert_int_equal(0, buf_set(&m, "/", 1));
		assert_int_equal(0, buf_append(&m, path.p, path.n));
		refused(v->kind, buf_bytes(&m));
		buf_fini(&m);
	}
	refused(NAME_ROW, tfs_str(""));
	refused(NAME_ROW, tfs_str("."));
	refused(NAME_ROW, tfs_str(".a"));
	refused(NAME_ROW, tfs_str("a%"));
	refused(NAME_ROW, tfs_str("%41"));
	refused(NAME_ROW, tfs_str("%2f"));
	refused(NAME_ROW, tfs_str("a%2E"));
	refused(NAME_ROW, tfs_str("a\x01"));
	refused(NAME_ROW, tfs_str("a%40"));
	refused(NAME_NEWEST, tfs_str("q@"));
	refused(NAME_NEWEST, tfs_str("q@-"));
	refused(NAME_NEWEST, tfs_str("q@05"));
	refused(NAME_NEWEST, tfs_str("q@-0"));
	refused(NAME_NEWEST, tfs_str("q@9223372036854775808"));
	refused(NAME_NEWEST, tfs_str("q@-9223372036854775809"));
	refused(NAME_NEWEST, tfs_str("a%40b"));
	refused(NAME_NEWEST, tfs_str("%40@5@"));
}

static uint64_t seed = 20260131;
static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static void random_key(struct buf *key)
{
	static const char *const hard[] = {"@", "%", ".", "/", "-", "0", "9", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
		"\xc3", "\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x01", "\x7f", "a", "@-", "@5"};
	uint32_t shape = rnd(6), n;

	buf_reset(key);
	n = shape == 0 ? rnd(8) + 1 : shape == 1 ? 240 + rnd(40) : shape == 2 ? 500 + rnd(30) : rnd(60) + 1;
	if (rnd(200) == 0)
		n = 65536;
	while (key->n < n) {
		if (rnd(3) == 0) {
			const char *h = hard[rnd(sizeof(hard) / sizeof(hard[0]))];

			assert_int_equal(0, buf_append(key, h, strlen(h)));
		} else if (rnd(4) == 0) {
			assert_int_equal(0, buf_u8(key, (uint8_t)rnd(256)));
		} else {
			assert_int_equal(0, buf_u8(key, (uint8_t)('a' + rnd(26))));
		}
	}
}

static void test_random(void **state)
{
	struct buf key = {0}, path = {0}, back = {0};
	struct name_prefix prefix;

	for (int i = 0; i < 20000; i++) {
		enum name_kind want = (enum name_kind)rnd(3), kind;
		int64_t ts = (int64_t)(((uint64_t)rnd(1u << 31) << 33) ^ ((uint64_t)rnd(1u << 31) << 7)) >> rnd(63), got_ts;
		struct tfs_bytes rest;

		random_key(&key);
		buf_reset(&path);
		assert_int_equal(0, name_encode(want, buf_bytes(&key), ts, &path));
		assert_int_equal(0, decode(want, buf_bytes(&path), &back, &kind, &got_ts));
		assert_int_equal(kind, want);
		assert_true(bytes_eq(buf_bytes(&key), buf_bytes(&back)));
		if (want == NAME_VERSION)
			assert_true(ts == got_ts);
		/* every component fits, every directory of parts is one, and leads back to the key */
		rest = tfs_bytes_of(path.p, 0);
		for (;;) {
			struct tfs_bytes component;
			size_t raw_n;
			bool last;

			assert_true(name_component(buf_bytes(&path), rest, &component, &last));
			assert_true(component.n > 0 && component.n <= NAME_LONGEST && component.p[0] != '.');
			assert_int_equal(name_is_part(component), !last);
			if (last)
				break;
			rest.n = (size_t)(component.p + component.n - path.p);
			assert_true(name_parts_valid(rest, &raw_n));
			assert_int_equal(0, name_prefix_init(rest, want != NAME_ROW, &prefix));
			assert_int_equal(raw_n, prefix.raw.n);
			if (!bytes_has_prefix(buf_bytes(&key), buf_bytes(&prefix.raw))) {
				assert_true(want == NAME_VERSION && prefix.split_version);
				assert_true(bytes_eq(buf_bytes(&key), buf_bytes(&prefix.qualifier)));
			}
			name_prefix_fini(&prefix);
		}
	}
	buf_fini(&key);
	buf_fini(&path);
	buf_fini(&back);
}

/* Any bytes as a path: refused or canonical, never read past the end. */
static void test_hostile(void **state)
{
	struct buf path = {0};

	for (int i = 0; i < 20000; i++) {
		uint8_t *exact;
		size_t raw_n;

		random_key(&path);
		if (path.n > 3000)
			continue;
		exact = malloc(path.n);
		assert_non_null(exact);
		memcpy(exact, path.p, path.n);
		refused_or_canonical(NAME_ROW, tfs_bytes_of(exact, path.n));
		refused_or_canonical(NAME_NEWEST, tfs_bytes_of(exact, path.n));
		name_parts_valid(tfs_bytes_of(exact, path.n), &raw_n);
		free(exact);
	}
	buf_fini(&path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_hostile),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, load, unload);
}
