/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a mutation: wherever a text is cut into pieces, its lines, its
 * refusal and the row that results are the same.
 */
#include "engine/bulk/mutation_lines.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tfs_store *store;
static struct tfs_table *table;

static int setup(void **state)
{
	struct tfs_options o;
	char *why = NULL;

	tfs_options_init(&o);
	assert_int_equal(tfs_open("model", &o, &store, &why), 0);
	assert_int_equal(tfs_table_create(store, "t", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_open(store, "t", &table), 0);
	for (const char *f = "fg"; *f; f++)
		assert_int_equal(
			tfs_schema_change(table,
				&(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = (char[2]){*f, 0}, .mode = 0644},
				NULL),
			0);
	return 0;
}

static int teardown(void **state)
{
	tfs_table_close(table);
	return tfs_close(store);
}

static int add(struct mutation_lines *l, const char *text)
{
	return mutation_lines_add(l, table, tfs_str(text));
}

static void each_line_is_read(void **state)
{
	struct mutation_lines l = {0};
	const struct mutation_line *v;

	assert_int_equal(add(&l,
				 "set f:q\tv\\n\nset f:@-5\t\nappend g:a:b\tx\nincrement f:n\t-7\ndelete f:\ndelete f:@\n"
				 "delete f:q@12\ndelete row\ncheck f:a\\x401\tv\ncheck-absent f:\ncheck-match f:q\t.*\ncommit\n"),
		0);
	assert_true(l.complete);
	assert_int_equal(l.count, 11);
	v = l.lines;
	assert_true(v[0].verb == MUTATION_SET && !v[0].has_ts && bytes_eq(v[0].value, tfs_str("v\n")));
	assert_true(v[1].has_ts && v[1].ts == -5 && v[1].qualifier.n == 0 && v[1].value.n == 0);
	assert_true(v[2].verb == MUTATION_APPEND && bytes_eq(v[2].qualifier, tfs_str("a:b")));
	assert_true(v[3].verb == MUTATION_INCREMENT && v[3].by == -7);
	assert_true(v[4].verb == MUTATION_DELETE && v[4].all);
	assert_true(!v[5].all && !v[5].has_ts && v[5].family && v[5].qualifier.n == 0);
	assert_true(v[6].has_ts && v[6].ts == 12 && bytes_eq(v[6].name, tfs_str("f:q")));
	assert_true(!v[7].family);
	assert_true(v[8].verb == MUTATION_CHECK && bytes_eq(v[8].qualifier, tfs_str("a@1")));
	assert_true(v[9].verb == MUTATION_CHECK_ABSENT && v[9].qualifier.n == 0);
	assert_true(v[10].verb == MUTATION_CHECK_MATCH);
	mutation_lines_fini(&l);
}

static void expect_refusal(const char *text, int err, const char *reason)
{
	struct mutation_lines l = {0};

	assert_int_equal(add(&l, text), err);
	if (!bytes_has_prefix(mutation_lines_reason(&l), tfs_str(reason)))
		fail_msg("%s: %.*s", text, (int)mutation_lines_reason(&l).n, (const char *)mutation_lines_reason(&l).p);
	mutation_lines_fini(&l);
}

static void malformed_lines_are_named(void **state)
{
	expect_refusal("set f:q\tv\nset f:q\n", -EINVAL, "line 2: a tab");
	expect_refusal("set\n", -EINVAL, "line 1: a tab");
	expect_refusal("\n", -EINVAL, "line 1: it begins");
	expect_refusal("Set f:q\tv\n", -EINVAL, "line 1: it begins");
	expect_refusal("delete row@1\n", -EINVAL, "line 1: FAMILY:QUALIFIER");
	expect_refusal("set row\tv\n", -EINVAL, "line 1: FAMILY:QUALIFIER");
	expect_refusal("delete h:q\n", -EINVAL, "line 1: the table has no such family");
	expect_refusal("delete #1:q\n", -EINVAL, "line 1: the table has no such family");
	expect_refusal("delete f:q@-\n", -EINVAL, "line 1: the timestamp");
	expect_refusal("delete f:q@9223372036854775808\n", -EINVAL, "line 1: the timestamp");
	expect_refusal("check f:q@1\tv\n", -EINVAL, "line 1: this verb takes no timestamp");
	expect_refusal("increment f:q\t\n", -EINVAL, "line 1: the value");
	expect_refusal("increment f:q\t+1\n", -EINVAL, "line 1: the value");
	expect_refusal("commit\ncommit\n", -EINVAL, "line 1: a mutation ends");
	expect_refusal("set f:q\tv\ncommit\nx", -EINVAL, "line 2: a mutation ends");
	expect_refusal("commitx\n", -EINVAL, "line 1: it begins");
}

/* Adds the text in pieces that end at the bits of `cuts`; appends the answer. */
static int in_pieces(const char *text, uint64_t cuts, struct buf *out)
{
	struct mutation_lines l = {0};
	const size_t n = strlen(text);
	size_t from = 0;
	int err = 0;

	for (size_t i = 1; i <= n && !err; i++) {
		if (i < n && !(cuts >> (i % 64) & 1))
			continue;
		err = mutation_lines_add(&l, table, tfs_bytes_of(text + from, i - from));
		from = i;
	}
	if (!err && l.complete) {
		struct tfs_mutation *m;

		l.results = calloc(l.count + 1u, sizeof(*l.results));
		assert_int_equal(mutation_lines_make(&l, table, TFS_S("row"), &m), 0);
		err = mutation_lines_answer(&l, tfs_apply(m, 0, l.results));
		tfs_mutation_free(m);
	}
	assert_int_equal(buf_append_bytes(out, buf_bytes(&l.answer)), 0);
	mutation_lines_fini(&l);
	return err;
}

static void pieces_do_not_matter(void **state)
{
	static const char *const texts[] = {
		"set f:q@1\tvalue\ndelete f:r\ncheck f:q\tvalue\ncommit\n",
		"set f:q@1\tvalue\ncommit",
		"set f:q@1\tvalue\n",
		"check f:q\tother\ncommit\n",
		"check-absent f:q\nset f:q@1\tv\ncommit\n",
		"set f:q@1\ta\\qb\ncommit\n",
		"set x:q@1\tvalue\ncommit\n",
		"increment f:q\t1\ncommit\n",
	};
	struct buf whole = {0}, pieces = {0};
	uint64_t cuts = 88172645463325252u;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct tfs_mutation *m = tfs_mutation_new(table, TFS_S("row"));
		int err;

		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), TFS_S("value")), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
		buf_reset(&whole);
		err = in_pieces(texts[i], 0, &whole);
		for (int k = 0; k < 300; k++) {
			size_t n = whole.n;

			cuts ^= cuts << 13;
			cuts ^= cuts >> 7;
			cuts ^= cuts << 17;
			buf_reset(&pieces);
			assert_int_equal(in_pieces(texts[i], k ? cuts : UINT64_MAX, &pieces), err);
			/* The time of commit differs. */
			if (n > 10 && memmem(whole.p, n, "committed ", 10))
				n = (size_t)((uint8_t *)memmem(whole.p, n, "committed ", 10) - whole.p) + 10;
			assert_true(bytes_has_prefix(buf_bytes(&pieces), tfs_bytes_of(whole.p, n)));
		}
	}
	buf_fini(&whole);
	buf_fini(&pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_is_read),
		cmocka_unit_test(malformed_lines_are_named),
		cmocka_unit_test(pieces_do_not_matter),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
