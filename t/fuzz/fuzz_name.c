/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names from any bytes, in both directions.  The first byte selects the meaning of
 * the rest: 0 the path of a row, 1 of a cell, 2 a row key, 3 a timestamp and a
 * qualifier, 4 the decimal text of a timestamp, 5 two keys, as a varint length
 * and the first, then the second.
 *
 * The key of an accepted path is encoded to this path again, and the path of a key
 * is decoded to this key.  Each directory of the path has a prefix of the key.
 * The seeds are t/names.tsv.
 */
#include "engine/base/name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)
enum target { ROW_PATH, CELL_PATH, ROW_KEY, CELL_KEY, TIMESTAMP, TWO_KEYS, TARGETS };

static bool is_digits(struct tfs_bytes s)
{
	size_t i = s.n && s.p[0] == '-';

	for (; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return true;
}

/* What readdir and lookup ask of a directory on the way to a key. */
static void check_dir(struct tfs_bytes dir, enum name_kind kind, struct tfs_bytes key, struct tfs_bytes path)
{
	struct name_prefix p;
	const uint8_t *at;
	size_t raw_n;

	CHECK(name_parts_valid(dir, &raw_n));
	CHECK(name_prefix_init(dir, kind != NAME_ROW, &p) == 0);
	CHECK(p.raw.n == raw_n);
	at = memrchr(path.p, '@', path.n);
	if (kind != NAME_VERSION || at > dir.p + dir.n) {
		CHECK(bytes_has_prefix(key, buf_bytes(&p.raw)));
	} else {
		/* The directory's own text reaches to the '@' of the version or past it. */
		CHECK(p.split_version && bytes_eq(buf_bytes(&p.qualifier), key));
		CHECK(bytes_has_prefix(buf_bytes(&p.raw), key) && p.raw.p[key.n] == '@');
		CHECK(is_digits(tfs_bytes_of(p.raw.p + key.n + 1, p.raw.n - key.n - 1)));
	}
	name_prefix_fini(&p);
}

/* The components of a canonical path, one after another. */
static void check_path(enum name_kind kind, struct tfs_bytes key, struct tfs_bytes path)
{
	struct tfs_bytes dir = {path.p, 0}, component;
	bool last = false;

	while (!last) {
		CHECK(name_component(path, dir, &component, &last));
		CHECK(component.n >= 1 && component.n <= NAME_LONGEST && component.p[0] != '.');
		CHECK(!memchr(component.p, '/', component.n) && !memchr(component.p, 0, component.n));
		CHECK(name_is_part(component) == !last);
		CHECK(component.p + component.n <= path.p + path.n);
		dir.n = (size_t)(component.p + component.n - path.p);
		if (!last)
			check_dir(dir, kind, key, path);
	}
	CHECK(dir.n == path.n);
	CHECK(!name_component(path, path, &component, &last));
}

static int decode(enum name_kind kind, struct tfs_bytes path, struct buf *key, enum name_kind *got, int64_t *ts)
{
	*got = NAME_ROW;
	*ts = 0;
	return kind == NAME_ROW ? name_decode_row(path, key) : name_decode_cell(path, key, got, ts);
}

static void try_key(enum name_kind kind, struct tfs_bytes key, int64_t ts)
{
	struct buf path = {0}, back = {0};
	enum name_kind got;
	int64_t when;
	int err = name_encode(kind, key, ts, &path);

	CHECK(err == (kind == NAME_ROW && key.n == 0 ? -EINVAL : 0));
	if (err) {
		CHECK(path.n == 0);
	} else {
		check_path(kind, key, buf_bytes(&path));
		CHECK(decode(kind, buf_bytes(&path), &back, &got, &when) == 0);
		CHECK(got == kind && bytes_eq(buf_bytes(&back), key) && (kind != NAME_VERSION || when == ts));
	}
	buf_fini(&path);
	buf_fini(&back);
}

static void try_path(enum name_kind as, struct tfs_bytes path)
{
	struct buf key = {0}, again = {0};
	enum name_kind kind;
	size_t raw_n;
	int64_t ts;
	int err = decode(as, path, &key, &kind, &ts);

	CHECK(err == 0 || err == -ENOENT);
	if (!err) {
		CHECK(name_encode(kind, buf_bytes(&key), ts, &again) == 0);
		CHECK(bytes_eq(buf_bytes(&again), path));
		check_path(kind, buf_bytes(&key), path);
	}
	/* The path is tried as parts, too, because a look-up asks before any key is known. */
	if (name_parts_valid(path, &raw_n)) {
		struct name_prefix p;

		CHECK(name_prefix_init(path, as != NAME_ROW, &p) == 0 && p.raw.n == raw_n);
		name_prefix_fini(&p);
	}
	buf_fini(&key);
	buf_fini(&again);
}

static void try_timestamp(struct tfs_bytes text)
{
	char again[32];
	int64_t ts;

	if (name_parse_ts(text, &ts)) {
		int n = snprintf(again, sizeof(again), "%lld", (long long)ts);

		CHECK(bytes_eq(text, tfs_bytes_of(again, (size_t)n)));
	}
}

static void try_keys(struct tfs_bytes in)
{
	struct reader r = reader_of(in);
	struct tfs_bytes a, b;
	struct buf out = {0};

	if (!get_lstr(&r, &a))
		return;
	b = tfs_bytes_of(r.p, reader_left(&r));
	CHECK(key_after_prefix(a, &out) == 0);
	if (out.n) {
		CHECK(bytes_cmp(a, buf_bytes(&out)) < 0 && !bytes_has_prefix(buf_bytes(&out), a));
		/* What is at or after it never begins with a; what begins with a lies before it. */
		CHECK(bytes_has_prefix(b, a) ? bytes_cmp(b, buf_bytes(&out)) < 0
					     : bytes_cmp(b, a) < 0 || bytes_cmp(b, buf_bytes(&out)) >= 0);
	}
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_bytes rest;

	if (!size)
		return 0;
	rest = tfs_bytes_of(data + 1, size - 1);
	switch ((enum target)(data[0] % TARGETS)) {
	case ROW_PATH:
		try_path(NAME_ROW, rest);
		break;
	case CELL_PATH:
		try_path(NAME_NEWEST, rest);
		break;
	case ROW_KEY:
		try_key(NAME_ROW, rest, 0);
		break;
	case CELL_KEY:
		if (rest.n < 8)
			break;
		try_key(NAME_VERSION, tfs_bytes_of(rest.p + 8, rest.n - 8), (int64_t)load_be64(rest.p));
		try_key(NAME_NEWEST, tfs_bytes_of(rest.p + 8, rest.n - 8), 0);
		break;
	case TIMESTAMP:
		try_timestamp(rest);
		break;
	case TWO_KEYS:
		try_keys(rest);
		break;
	case TARGETS:
		break;
	}
	return 0;
}

/* ---- seeds ---- */
static void unhex(const char *text, struct buf *out)
{
	for (; *text && *text != '\n' && *text != '\t'; text += *text == '/' ? 1 : 2) {
		char two[3] = {text[0], text[1], 0};

		CHECK(buf_u8(out, *text == '/' ? '/' : (uint8_t)strtoul(two, NULL, 16)) == 0);
	}
}

/* The n-th line of names.tsv; NULL: there is none. */
static const char *vector_line(unsigned n)
{
	static struct buf text;
	const char *p;

	if (!text.n) {
		const char *src = getenv("SRC");
		char path[4096];
		FILE *f;
		int c;

		snprintf(path, sizeof(path), "%s/t/names.tsv", src ? src : ".");
		f = fopen(path, "r");
		if (!f) {
			perror(path);
			exit(2);
		}
		while ((c = getc(f)) != EOF)
			CHECK(buf_u8(&text, (uint8_t)c) == 0);
		CHECK(buf_u8(&text, 0) == 0);
		fclose(f);
	}
	p = (const char *)text.p;
	for (; p && n; n--)
		p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
	return p && *p ? p : NULL;
}

/* Two for each vector: its path, and its key. */
static void vector_example(const char *line, bool path, struct buf *b)
{
	const char *key = strchr(line, '\t') + 1, *ts = strchr(key, '\t') + 1, *name = strchr(ts, '\t') + 1;
	bool row = strncmp(line, "row\t", 4) == 0;

	if (path) {
		CHECK(buf_u8(b, row ? ROW_PATH : CELL_PATH) == 0);
		unhex(name, b);
		return;
	}
	CHECK(buf_u8(b, row ? ROW_KEY : CELL_KEY) == 0);
	if (!row)
		CHECK(buf_be64(b, strtoull(ts, NULL, 10)) == 0);
	unhex(key, b);
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const texts[] = {"\4-9223372036854775808", "\0049223372036854775807", "\0040", "\5\1ab", "\5\3abcabd"};
	static struct buf b;
	const char *line;

	*data = NULL;
	if (i < sizeof(texts) / sizeof(texts[0])) {
		*data = (const uint8_t *)texts[i];
		return strlen(texts[i]);
	}
	i -= sizeof(texts) / sizeof(texts[0]);
	buf_reset(&b);
	line = vector_line(i / 2 + 1); /* after its heading */
	if (!line) {
		buf_fini(&b);
		return 0;
	}
	vector_example(line, i % 2, &b);
	*data = b.p;
	return b.n;
}
