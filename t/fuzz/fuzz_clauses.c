/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clauses of a scan from any bytes (engine/bulk/clauses.h).  A refusal has a
 * reason.  The bounds of accepted clauses must admit the same keys as a second,
 * plain reading of each clause does.  The clauses, encoded again in another
 * order, must mean the same; given twice, they must be refused.
 */
#include "engine/base/name.h"
#include "engine/bulk/clauses.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)
#define NOW INT64_C(1763715292001044)

static bool has(const struct clauses *c, enum clause k)
{
	return c->given >> k & 1;
}

static bool is_yes(const struct clauses *c, enum clause k)
{
	const struct tfs_bytes v = buf_bytes(&c->value[k]);

	return has(c, k) &&
		(bytes_eq(v, tfs_str("yes")) || bytes_eq(v, tfs_str("true")) || bytes_eq(v, tfs_str("on")) ||
			bytes_eq(v, tfs_str("1")));
}

static bool in_bounds(struct tfs_bytes key, struct tfs_bytes from, bool after, struct tfs_bytes to)
{
	int order = bytes_cmp(key, from);

	return (after ? order > 0 : order >= 0) && (!to.p || bytes_cmp(key, to) < 0);
}

/* Each clause by itself admits the key. */
static bool admits_row(const struct clauses *c, struct tfs_bytes row)
{
	struct tfs_bytes after = buf_bytes(&c->value[CLAUSE_AFTER]);
	bool has_prefix = false; /* one of several */

	for (unsigned i = 0; i < c->spec.key_count; i++)
		has_prefix = has_prefix || bytes_has_prefix(row, c->spec.keys[i].key);
	return (has_prefix || !has(c, CLAUSE_PREFIX) || bytes_has_prefix(row, buf_bytes(&c->value[CLAUSE_PREFIX]))) &&
		(!has(c, CLAUSE_FROM) || bytes_cmp(row, buf_bytes(&c->value[CLAUSE_FROM])) >= 0) &&
		(!has(c, CLAUSE_TO) || !c->value[CLAUSE_TO].n || bytes_cmp(row, buf_bytes(&c->value[CLAUSE_TO])) < 0) &&
		(!has(c, CLAUSE_AFTER) || (c->spec.reverse ? bytes_cmp(row, after) < 0 : bytes_cmp(row, after) > 0));
}

static bool admits_qualifier(const struct clauses *c, struct tfs_bytes q)
{
	return (!has(c, CLAUSE_QPREFIX) || bytes_has_prefix(q, buf_bytes(&c->value[CLAUSE_QPREFIX]))) &&
		(!has(c, CLAUSE_QFROM) || bytes_cmp(q, buf_bytes(&c->value[CLAUSE_QFROM])) >= 0) &&
		(!has(c, CLAUSE_QTO) || bytes_cmp(q, buf_bytes(&c->value[CLAUSE_QTO])) < 0) &&
		(!has(c, CLAUSE_QAFTER) || bytes_cmp(q, buf_bytes(&c->value[CLAUSE_QAFTER])) > 0);
}

static void check_key(const struct clauses *c, struct tfs_bytes key)
{
	const struct tfs_scan_spec *s = &c->spec;

	CHECK(clauses_admit_row(c, key) == admits_row(c, key));
	if (!s->keys)
		CHECK(in_bounds(key, s->row_from, s->row_from_after, s->row_to) == admits_row(c, key));
	CHECK(in_bounds(key, s->qualifier_from, s->qualifier_from_after, s->qualifier_to) == admits_qualifier(c, key));
}

/* Keys at, before and after each value. */
static void check_keys(const struct clauses *c)
{
	struct buf key = {0};

	for (enum clause k = 0; k < CLAUSE_COUNT; k++) {
		struct tfs_bytes value = buf_bytes(&c->value[k]);

		if (!has(c, k))
			continue;
		check_key(c, value);
		check_key(c, tfs_bytes_of(value.p, value.n / 2));
		CHECK(buf_set(&key, value.p, value.n) == 0 && buf_u8(&key, 0) == 0);
		check_key(c, buf_bytes(&key));
		key.p[key.n - 1] = 0xff;
		check_key(c, buf_bytes(&key));
		if (value.n) {
			CHECK(buf_set(&key, value.p, value.n) == 0);
			key.p[key.n - 1]++;
			check_key(c, buf_bytes(&key));
		}
	}
	check_key(c, tfs_bytes_of(NULL, 0));
	check_key(c, tfs_str("\377\377\377"));
	buf_fini(&key);
}

static void check_spec(const struct clauses *c)
{
	const struct tfs_scan_spec *s = &c->spec;

	CHECK(c->given >> CLAUSE_COUNT == 0);
	CHECK(has(c, CLAUSE_LIMIT) == (s->row_limit != 0) && has(c, CLAUSE_QLIMIT) == (s->column_limit != 0));
	CHECK(s->versions != 0 || !(has(c, CLAUSE_VERSIONS) || has(c, CLAUSE_AT)));
	CHECK(s->reverse == is_yes(c, CLAUSE_REVERSE) && s->has_changed == has(c, CLAUSE_CHANGED));
	CHECK(has(c, CLAUSE_FAMILY) == (s->family_count != 0));
	for (size_t i = 0; i < s->family_count; i++)
		CHECK(tfs_name_valid(s->families[i]));
	CHECK(has(c, CLAUSE_ROW) == (s->row_regex.p != NULL) && has(c, CLAUSE_QUALIFIER) == (s->qualifier_regex.p != NULL));
	CHECK(has(c, CLAUSE_SAMPLE) == (s->row_sample != 0) && s->row_sample <= 1000000);
	CHECK(has(c, CLAUSE_WHERE) == (s->row_where.p != NULL));
	CHECK(has(c, CLAUSE_VALUE) == (s->value_regex.p != NULL) && has(c, CLAUSE_VALUE_IS) == (s->value_is.p != NULL));
}

static bool same_number(uint64_t a, uint64_t b)
{
	return a == b;
}

static bool same_bytes(struct tfs_bytes a, struct tfs_bytes b)
{
	return !a.p == !b.p && bytes_eq(a, b);
}

/* Both have the same meaning; the bytes of the value of family are changed by the parser. */
static void check_same(const struct clauses *a, const struct clauses *b)
{
	/* Each further where= is in the one value of where. */
	CHECK(a->given == b->given && a->has_age == b->has_age && a->spec.family_count == b->spec.family_count);
	CHECK(a->spec.key_count == b->spec.key_count);
	for (enum clause k = 0; k < CLAUSE_COUNT; k++)
		CHECK((a->spec.keys && k == CLAUSE_PREFIX) || bytes_eq(buf_bytes(&a->value[k]), buf_bytes(&b->value[k])));
#define SAME(kind, number, type, member, stage)                                                                                    \
	CHECK(_Generic(a->spec.member, struct tfs_bytes : same_bytes, default : same_number)(a->spec.member, b->spec.member));
	SCAN_MEMBERS(SAME)
#undef SAME
}

static void encode_prefix(struct tfs_bytes prefix, struct buf *path)
{
	struct buf clause = {0};

	CHECK(buf_printf(&clause, "prefix=") == 0 && buf_append_bytes(&clause, prefix) == 0);
	CHECK((path->n == 0 || path->p[path->n - 1] == '/' || buf_u8(path, '/') == 0) &&
		name_encode(NAME_ROW, buf_bytes(&clause), 0, path) == 0);
	buf_fini(&clause);
}

/* The clauses, in the order of enum clause, as a path. */
static void encode(const struct clauses *c, struct buf *path)
{
	struct buf clause = {0};

	for (enum clause k = 0; k < CLAUSE_COUNT; k++) {
		const struct buf *v = &c->value[k];

		if (!has(c, k))
			continue;
		CHECK(buf_printf(&clause, "%s=", clause_kinds[k].name) == 0 && buf_append(&clause, v->p, v->n) == 0);
		for (size_t i = clause.n - v->n; k == CLAUSE_FAMILY && i < clause.n; i++)
			if (!clause.p[i])
				clause.p[i] = ',';
		if (k == CLAUSE_PREFIX)
			for (unsigned i = 1; i < c->spec.key_count; i++)
				encode_prefix(c->spec.keys[i].key, path);
		CHECK((path->n == 0 || path->p[path->n - 1] == '/' || buf_u8(path, '/') == 0) &&
			name_encode(NAME_ROW, buf_bytes(&clause), 0, path) == 0);
		buf_reset(&clause);
	}
	buf_fini(&clause);
}

static void check_again(const struct clauses *c)
{
	struct clauses again;
	struct buf path = {0};
	const char *why;

	encode(c, &path);
	CHECK(clauses_parse(buf_bytes(&path), NOW, &again, &why) == 0 && !again.partial);
	check_same(c, &again);
	clauses_fini(&again);
	if (c->given & ~(1u << CLAUSE_WHERE | 1u << CLAUSE_PREFIX)) {
		CHECK(buf_u8(&path, '/') == 0);
		encode(c, &path);
		CHECK(clauses_parse(buf_bytes(&path), NOW, &again, &why) == -EINVAL && strstr(why, "twice"));
		clauses_fini(&again);
	}
	buf_fini(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct clauses c;
	const char *why;
	int err = clauses_parse(tfs_bytes_of(data, size), NOW, &c, &why);

	CHECK((err == 0 && !why) || (err == -EINVAL && why && *why));
	if (err == 0) {
		check_spec(&c);
		check_keys(&c);
		check_again(&c);
	}
	clauses_fini(&c);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const texts[] = {
		"prefix=com.cnn./from=com.cnn.a/to=com.cnn.z/after=com.cnn.b/limit=10",
		"reverse=yes/after=m/row=.*\\d/prefix=\377\377",
		"family=f,g/qualifier=q[0-9]/qprefix=q/qfrom=q1/qto=q8/qafter=q2/qlimit=3",
		"since=2026-11-22T10:00:00.25+01:00/until=1763715292001044/versions=2",
		"at=10d/changed=2026-11-22/value=C.N/value-is=a%0Ab%2Fc",
		"where=f:q=1/where=not (f:\"a \"\"b\"\"\" or g:x >= -1.50) and f:z != \"\"/limit=1",
		"prefix=b/prefix=a/sample=0.5%/prefix=ab/to=b1",
		"sample=100%25/prefix=/prefix=\377",
		"since=-5/until=-1/at=1h",
		"reverse=off/after=m",
		"prefix=\377/qprefix=\377\377/qto=/to=/value-is=",
		"prefix=lllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll"
		"lllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll"
		"lllllllllllllllllllll%/llllllllllllll/limit=1",
	};

	*data = NULL;
	if (i >= sizeof(texts) / sizeof(texts[0]))
		return 0;
	*data = (const uint8_t *)texts[i];
	return strlen(texts[i]);
}
