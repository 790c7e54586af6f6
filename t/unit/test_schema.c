/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas: the text form and its errors, edits, ids that are never reused, rendered
 * text that parses to the same schema, the encoding and damage to it.
 */
#include "engine/schema/schema.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct schema *fresh(void)
{
	struct schema *s = NULL;

	assert_int_equal(schema_new("webtable", 17, 0, 0, 0755, 1000, &s), 0);
	return s;
}

/* The families of old that s has no more: their number, and the id of the first. */
static unsigned left_out(const struct schema *old, const struct schema *s, uint16_t *first)
{
	const struct tfs_schema *o = schema_public(old), *p = schema_public(s);
	unsigned n = 0, k;

	for (unsigned i = 0; i < o->family_count; i++) {
		for (k = 0; k < p->family_count && p->families[k].id != o->families[i].id; k++)
			;
		if (k == p->family_count && n++ == 0)
			*first = o->families[i].id;
	}
	return n;
}

/* Takes old; gives the new one. */
static struct schema *text_ok(struct schema *old, const char *text, unsigned want_dropped, bool want_allow)
{
	struct schema *s = NULL;
	uint16_t dropped;
	bool allow = !want_allow;
	char *why = NULL;
	int rc = schema_set_text(old, tfs_str(text), 2000, &s, &allow, &why);

	if (rc)
		print_message("%s\n", why ? why : "(no reason)");
	assert_int_equal(rc, 0);
	assert_null(why);
	assert_int_equal(left_out(old, s, &dropped), want_dropped);
	assert_int_equal(allow, want_allow);
	schema_put(old);
	return s;
}

static void refused_bytes(const struct schema *old, struct tfs_bytes text, unsigned line, const char *reason)
{
	struct schema *s = NULL;
	bool allow = false;
	char *why = NULL, want[32];
	int rc = schema_set_text(old, text, 2000, &s, &allow, &why);

	if (rc != -EINVAL)
		print_message("accepted: %.*s\n", (int)(text.n > 200 ? 200 : text.n), (const char *)text.p);
	assert_int_equal(rc, -EINVAL);
	assert_null(s);
	assert_non_null(why);
	snprintf(want, sizeof want, "line %u: ", line);
	if ((line && strncmp(why, want, strlen(want)) != 0) || (reason && !strstr(why, reason))) {
		print_message("%.*s\n -> %s, not line %u %s\n", (int)(text.n > 200 ? 200 : text.n), (const char *)text.p, why, line,
			reason);
		fail();
	}
	free(why);
	/* and without asking for the reason */
	assert_int_equal(schema_set_text(old, text, 2000, &s, &allow, NULL), -EINVAL);
}

static void refused(const char *text, unsigned line, const char *reason)
{
	struct schema *s = fresh();

	refused_bytes(s, tfs_str(text), line, reason);
	schema_put(s);
}

static struct schema *edited(struct schema *old, struct tfs_schema_edit e)
{
	struct schema *s = NULL;
	char *why = NULL;
	int rc = schema_edit(old, &e, 3000, &s, &why);

	if (rc)
		print_message("%d %s\n", rc, why ? why : "(no reason)");
	assert_int_equal(rc, 0);
	assert_true(schema_public(s)->generation > schema_public(old)->generation);
	schema_put(old);
	return s;
}

static void edit_fails(const struct schema *old, struct tfs_schema_edit e, int want)
{
	struct schema *s = NULL;
	char *why = NULL;

	assert_int_equal(schema_edit(old, &e, 3000, &s, &why), want);
	assert_null(s);
	assert_true(why || want != -EINVAL);
	free(why);
}

static const struct tfs_family *family(const struct schema *s, const char *name)
{
	const struct tfs_schema *p = schema_public(s);

	for (unsigned i = 0; i < p->family_count; i++)
		if (strcmp(p->families[i].name, name) == 0)
			return &p->families[i];
	fail_msg("no family %s", name);
	return NULL;
}

static const struct tfs_group *group(const struct schema *s, const char *name)
{
	const struct tfs_schema *p = schema_public(s);

	for (unsigned i = 0; i < p->group_count; i++)
		if (strcmp(p->groups[i].name, name) == 0)
			return &p->groups[i];
	fail_msg("no group %s", name);
	return NULL;
}

/* All but generation, text, time and (not kept by text) the hidden flag. */
static void expect_same(const struct schema *x, const struct schema *y)
{
	const struct tfs_schema *a = schema_public(x), *b = schema_public(y);

	assert_string_equal(a->name, b->name);
	assert_int_equal(a->table_id, b->table_id);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->tablet_size, b->tablet_size);
	assert_int_equal(a->salt, b->salt);
	assert_int_equal(a->mkdir_families, b->mkdir_families);
	assert_int_equal(a->family_count, b->family_count);
	assert_int_equal(a->group_count, b->group_count);
	for (unsigned i = 0; i < a->family_count; i++) {
		const struct tfs_family *f = &a->families[i], *g = &b->families[i];

		assert_string_equal(f->name, g->name);
		assert_string_equal(f->gc, g->gc);
		assert_string_equal(f->group, g->group);
		assert_string_equal(f->acl, g->acl);
		assert_int_equal(f->id, g->id);
		assert_int_equal(f->type, g->type);
		assert_int_equal(f->uid, g->uid);
		assert_int_equal(f->gid, g->gid);
		assert_int_equal(f->mode, g->mode);
		assert_int_equal(f->max_age_us, g->max_age_us);
	}
	for (unsigned i = 0; i < a->group_count; i++) {
		const struct tfs_group *f = &a->groups[i], *g = &b->groups[i];

		assert_string_equal(f->name, g->name);
		assert_string_equal(f->compression, g->compression);
		assert_int_equal(f->id, g->id);
		assert_int_equal(f->level, g->level);
		assert_int_equal(f->block_size, g->block_size);
		assert_int_equal(f->bloom_bits, g->bloom_bits);
		assert_int_equal(f->in_memory, g->in_memory);
	}
}

static void test_new(void **state)
{
	struct schema *s = fresh();
	const struct tfs_schema *p = schema_public(s);

	assert_ptr_equal(schema_of(p), s);
	assert_string_equal(p->name, "webtable");
	assert_int_equal(p->family_count, 0);
	assert_int_equal(p->group_count, 1);
	assert_int_equal(group(s, "default")->block_size, 2 * 1024);
	assert_string_equal(group(s, "default")->compression, "zstd-dict");
	assert_false(p->is_set);
	assert_int_equal(p->tablet_size, 128 << 20);
	assert_int_equal(p->mtime_us, 1000);
	assert_int_equal(strlen(p->text), p->text_size);
	struct schema *again = text_ok(schema_get(s), p->text, 0, false);

	expect_same(s, again);
	schema_put(again);
	schema_put(s);
	assert_int_equal(schema_new(".x", 17, 0, 0, 0755, 0, &s), -EINVAL);
	assert_int_equal(schema_new("", 17, 0, 0, 0755, 0, &s), -EINVAL);
	assert_true(schema_name_valid(tfs_str("a.b-c_9")));
	assert_true(schema_name_valid(tfs_str("0123456789012345678901234567890123456789012345678901234567890123")));
	assert_false(schema_name_valid(tfs_str("01234567890123456789012345678901234567890123456789012345678901234")));
	assert_false(schema_name_valid(tfs_str("-a")));
	assert_false(schema_name_valid(tfs_str("a/b")));
	assert_false(schema_name_valid(tfs_bytes_of("a\0b", 3)));
}

static const char example[] =
	"# the paper's table\n"
	"owner = \"root\"; owner_group = \"root\"; mode = \"0750\";\n"
	"tablet_size = \"128M\";\nsalt = 0;\n"
	"families = (\n"
	"  { name = \"contents\"; gc = \"maxversions=3\"; group = \"pages\"; type = \"bytes\";\n"
	"    owner = \"root\"; owner_group = 12; mode = \"0640\"; acl = \"\"; },\n"
	"  { name = \"anchor\"; gc = \"maxversions=3 or maxage=30d\"; } );\n"
	"groups = (\n"
	"  { name = \"default\"; compression = \"zstd\"; level = 3; block_size = \"64K\"; bloom_bits = 10; in_memory = false; },\n"
	"  { name = \"pages\"; compression = \"zstd-dict\"; level = 9; block_size = 8192; in_memory = true } );\n";

/* The last line of a key of the table counts.  Strings, comments and lists are no settings. */
static void test_last_line_counts(void **state)
{
	struct schema *s = text_ok(fresh(),
		"protect = false; # protect = 1\nfamilies = ( { name = \"a\"; gc = \"\"; } )\nmode = \"0700\" /* x = 1; */ protect = true, mode = \"0711\"\n"
		"protect = true;\nfamilies = ( { name = \"a\"; } ) protect = false",
		0, false);
	assert_string_equal(schema_public(s)->text,
		" # protect = 1\n /* x = 1; */  mode = \"0711\"\nfamilies = ( { name = \"a\"; } ) protect = false");
	assert_false(schema_public(s)->protect);
	assert_int_equal(schema_public(s)->mode, 0711);
	refused_bytes(
		s, tfs_str("mode = \"0700\";\nmode = 5; @include \"/etc/passwd\"\nmode = \"0700\";"), 2, "a string where none");
	refused_bytes(s, tfs_str("salt = 0; salt = 2;\nsalt = 1;"), 2, "salt is 0, or a number from 2 to 255");
	schema_put(s);
}

static void test_example(void **state)
{
	struct schema *s = text_ok(fresh(), example, 0, false);
	const struct tfs_schema *p = schema_public(s);

	assert_string_equal(p->text, example); /* byte for byte, comment included */
	assert_int_equal(p->mtime_us, 2000);
	assert_true(p->is_set);
	assert_int_equal(p->mode, 0750);
	assert_int_equal(p->family_count, 2);
	assert_int_equal(family(s, "contents")->id, 1);
	assert_int_equal(family(s, "contents")->gid, 12);
	assert_int_equal(family(s, "contents")->mode, 0640);
	assert_string_equal(family(s, "contents")->acl, "");
	assert_int_equal(family(s, "contents")->max_age_us, 0);
	assert_int_equal(family(s, "anchor")->id, 2);
	assert_int_equal(family(s, "anchor")->mode, 0644);
	assert_string_equal(family(s, "anchor")->group, "default");
	assert_int_equal(family(s, "anchor")->max_age_us, 30 * 86400 * 1000000ll);
	assert_string_equal(group(s, "pages")->compression, "zstd-dict");
	assert_int_equal(group(s, "pages")->block_size, 8192);
	assert_true(group(s, "pages")->in_memory);
	assert_int_equal(group(s, "pages")->bloom_bits, 10);

	struct store_schema *t = NULL;

	assert_int_equal(schema_store(s, &t), 0);
	assert_int_equal(t->generation, p->generation);
	assert_int_equal(t->family_count, 2);
	assert_int_equal(t->families[0].group, group(s, "pages")->id);
	assert_int_equal(t->families[1].group, t->groups[0].id);
	assert_true(gc_hides(t->families[0].rule, 3, 0, 0));
	assert_false(gc_hides(t->families[0].rule, 2, 0, 0));
	assert_int_equal(t->group_count, 2);
	assert_int_equal(t->groups[1].sst.codec, SST_ZSTD_DICT);
	assert_int_equal(t->groups[1].sst.block_bytes, 8192);
	store_schema_put(t);
	schema_put(s);
}

static void test_acl(void **state)
{
	struct schema *s = text_ok(fresh(),
		"families = ( { name = \"f\"; acl = \"g:12:r--,user:7:rw-,u:3:---\"; mode = \"0460\" },"
		" { name = \"g\"; acl = \"g::--x\" } );",
		0, false);
	struct tfs_acl_entry e;
	const char *p;

	/* Without an entry for the owning group this has the mode's digit, whichever was written first. */
	assert_string_equal(family(s, "f")->acl, "u:3:---,u:7:rw-,g::rw-,g:12:r--");
	assert_string_equal(family(s, "g")->acl, "g::--x");
	p = family(s, "f")->acl + strlen("u:3:---,");
	assert_true(tfs_acl_next(&p, &e));
	assert_true(!e.is_group && !e.is_owner && e.id == 7 && e.may == 6);
	assert_true(tfs_acl_next(&p, &e));
	assert_true(e.is_group && e.is_owner && e.may == 6);
	assert_true(tfs_acl_next(&p, &e));
	assert_true(e.is_group && !e.is_owner && e.id == 12 && e.may == 4);
	assert_false(tfs_acl_next(&p, &e));
	/* chmod changes the mask only. */
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = "f", .mode = 0600});
	assert_string_equal(family(s, "f")->acl, "u:3:---,u:7:rw-,g::rw-,g:12:r--");
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ACL, .name = "g", .value = "u:9:r--", .mode = 0640});
	assert_string_equal(family(s, "g")->acl, "u:9:r--,g::r--");
	assert_int_equal(family(s, "g")->mode, 0640);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ACL, .name = "g", .value = "", .mode = 0644});
	assert_string_equal(family(s, "g")->acl, "");
	schema_put(s);
}

static void test_refusals(void **state)
{
	refused("mode = \"0755\";\ncolour = 3;\n", 2, "colour");
	refused("families = ( { name = \"a\"; },\n { name = \"a\"; } );", 2, "twice");
	refused("groups = ( { name = \"a\"; },\n { name = \"a\"; } );", 2, "twice");
	refused("families = ( { gc = \"\"; } );", 1, "name");
	refused("families = ( { name = 3; } );", 1, "name");
	refused("families = ( \"a\" );", 1, "name");
	refused("families = ( { name = \"a b\"; } );", 1, "legal");
	refused("families = ( { name = \"\"; } );", 1, "legal");
	refused("families = ( {\n name = \"a\";\n gc = \"maxversions=x\"; } );", 3, "gc");
	refused("families = ( { name = \"a\";\n group = \"nope\"; } );", 2, "group");
	refused("families = ( { name = \"a\"; type = \"text\"; } );", 1, "type");
	refused("families = ( { name = \"a\"; speed = 1; } );", 1, "speed");
	refused("families = ( { name = \"a\"; mode = 644; } );", 1, "type");
	refused("families = ( { name = \"a\"; mode = \"0999\"; } );", 1, "octal");
	refused("families = ( { name = \"a\"; mode = \"4755\"; } );", 1, "bits");
	refused("families = ( { name = \"a\"; mode = \"\"; } );", 1, "octal");
	refused("families = ( { name = \"a\"; owner = \"no-such-user-here\"; } );", 1, "user");
	refused("families = ( { name = \"a\"; owner = \"4294967295\"; } );", 1, "user");
	refused("families = ( { name = \"a\"; owner = -1; } );", 1, "user");
	refused("families = ( { name = \"a\"; owner_group = \"no-such-group-here\"; } );", 1, "group");
	refused("families = ( { name = \"a\";\n acl = \"u:no-such-user-here:r--\"; } );", 2, "acl");
	refused("families = ( { name = \"a\"; acl = \"g:no-such-group-here:r--\"; } );", 1, "group");
	refused("families = ( { name = \"a\"; acl = \"u::r--\"; } );", 1, "first digit");
	refused("families = ( { name = \"a\"; acl = \"u:1:4\"; } );", 1, "entry");
	refused("families = ( { name = \"a\"; acl = \"u:1:rr-\"; } );", 1, "entry");
	refused("families = ( { name = \"a\"; acl = \"u:1\"; } );", 1, "entry");
	refused("families = ( { name = \"a\"; acl = \"m::r--\"; } );", 1, "entry");
	refused("families = ( { name = \"a\"; acl = \"u:1:r--,\"; } );", 1, "missing");
	refused("families = ( { name = \"a\"; acl = \",u:1:r--\"; } );", 1, "entry");
	refused("families = ( { name = \"a\"; acl = \"u:1:r--,u:1:rw-\"; } );", 1, "twice");
	refused("families = ( { name = \"a\"; acl = \"u:root:r--,user:0:r--\"; } );", 1, "twice");
	refused("families = ( { name = \"a\"; acl = \"u:4294967295:r--\"; } );", 1, "user");
	refused("families = { name = \"a\"; };", 1, "type");
	refused("families = 3;", 1, "type");
	refused("groups = ( { name = \"g\"; level = 0; } );", 1, "level");
	refused("groups = ( { name = \"g\"; level = 20; } );", 1, "level");
	refused("groups = ( { name = \"g\"; level = \"3\"; } );", 1, "type");
	refused("groups = ( { name = \"h\"; },\n { name = \"g\"; level = 4; compression = \"lz4\"; } );", 2, "only zstd");
	refused("groups = ( { name = \"g\"; bloom_bits = 21; } );", 1, "bloom_bits");
	refused("groups = ( { name = \"g\"; bloom_bits = -1; } );", 1, "bloom_bits");
	refused("groups = ( { name = \"g\"; block_size = \"1023\"; } );", 1, "block_size");
	refused("groups = ( { name = \"g\"; block_size = \"5M\"; } );", 1, "block_size");
	refused("groups = ( { name = \"g\"; block_size = \"64KB\"; } );", 1, "block_size");
	refused("groups = ( { name = \"g\"; block_size = \"K\"; } );", 1, "block_size");
	refused("groups = ( { name = \"g\"; in_memory = 1; } );", 1, "type");
	refused("groups = ( { name = \"g\"; in_memory = \"true\"; } );", 1, "type");
	refused("groups = ( { name = \"g\"; compression = \"gzip\"; } );", 1, "compression");
	refused("tablet_size = \"99999999999999999999999999\";", 1, "tablet_size");
	refused("tablet_size = \"1K\";", 1, "tablet_size");
	refused("tablet_size = \"2T\";", 1, "tablet_size");
	refused("tablet_size = 1.5;", 1, "type");
	refused("tablet_size = -134217728;", 1, "tablet_size");
	refused("\ntablet_size = 5000000000;", 2, "too large");
	refused("tablet_size = 0x100000000;", 1, "too large");
	refused("tablet_size = 9999999999999999L;", 1, "too large");
	refused("salt = 1;", 1, "salt");
	refused("salt = -1;", 1, "salt");
	refused("salt = 256;", 1, "salt");
	refused("allow_delete = 1;", 1, "type");
	refused("families = ( { name = \"a\"; gc = \"\"; gc = \"\"; } );", 1, "duplicate");
	refused("mode = ", 2, NULL); /* where the text ends */
	refused("mode = \"0755;", 1, "does not end");
	refused("mode = (\"a\", \"b\") \"c\";", 1, "expected");
	refused("mode \"0755\";", 1, "expected");
	refused("mode = \"0755\", \"0755\";", 1, "expected");
	refused("families = [ 1, \"x\" ];", 1, "expected");
	refused("families = ( \"x\", \"y\" );", 1, "name");
	refused("/* mode", 1, "does not end");
	refused("mode = \"07\\x0055\";", 1, "NUL");
	refused("\xef\xbb\xbfmode = \"0755\";", 1, NULL);
}

static void test_hostile(void **state)
{
	struct schema *s = fresh();
	struct buf b = {0};

	refused("@include \"/etc/passwd\"\n", 1, "@include");
	refused("mode = \"0755\";\n  \t@include \"/etc/passwd\"\n", 2, "@include");
	refused("a = \"\n@include \"/etc/passwd\"\n\";", 2, "@include");
	refused("/*\n@include \"/etc/passwd\"\n*/", 2, "@include");
	refused("/*\n\n*\n@include \"/etc/passwd\"\n*/", 4, "@include");
	refused_bytes(s, tfs_bytes_of("mode = \"0755\";\0x", 16), 1, "NUL");
	refused_bytes(s, tfs_bytes_of("# \xc0\x80\n", 5), 1, "UTF-8");
	refused_bytes(s, tfs_bytes_of("#\n# \xed\xa0\x80\n", 8), 2, "UTF-8");
	refused_bytes(s, tfs_bytes_of("# \xf5\x80\x80\x80\n", 7), 1, "UTF-8");
	refused_bytes(s, tfs_bytes_of("# \xe2\x82", 4), 1, "UTF-8");
	refused_bytes(s, tfs_bytes_of("# \x01\n", 4), 1, "UTF-8");
	/* deep, long, wide */
	for (int i = 0; i < 100000; i++)
		assert_int_equal(buf_append(&b, "a=(", 3), 0);
	refused_bytes(s, tfs_bytes_of(b.p, 60000), 1, "deep");
	refused_bytes(s, buf_bytes(&b), 1, "too long");
	buf_reset(&b);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(buf_printf(&b, "n%d=1;", i), 0);
	refused_bytes(s, buf_bytes(&b), 1, "too many");
	buf_reset(&b);
	assert_int_equal(buf_append(&b, "families=(", 10), 0);
	for (int i = 0; i < 1001; i++)
		assert_int_equal(buf_printf(&b, "%s{name=\"n%d\";}", i ? "," : "", i), 0);
	assert_int_equal(buf_append(&b, ");", 2), 0);
	refused_bytes(s, buf_bytes(&b), 0, "too many families");
	/* long lines of many-byte characters are fine */
	buf_reset(&b);
	assert_int_equal(buf_append(&b, "#", 1), 0);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(buf_append(&b,
					 "\xf0\x9f\x8c\x8d\xc3\xa9"
					 "x",
					 7),
			0);
	assert_int_equal(buf_u8(&b, 0), 0);
	s = text_ok(s, (char *)b.p, 0, false);
	s = text_ok(s, "", 0, false);
	schema_put(s);
	buf_fini(&b);
}

static void test_ids_never_reused(void **state)
{
	struct schema *s =
		text_ok(fresh(), "families = ( { name = \"a\"; }, { name = \"b\"; } ); groups = ( { name = \"g\"; } );", 0, false);
	struct buf b = {0};
	uint16_t first;
	bool allow;

	assert_int_equal(family(s, "b")->id, 2);
	assert_int_equal(group(s, "g")->id, 1);
	struct schema *t = NULL;

	assert_int_equal(
		schema_set_text(s, tfs_str("families = ( { name = \"c\"; }, { name = \"a\"; } );"), 5, &t, &allow, NULL), 0);
	assert_int_equal(left_out(s, t, &first), 1);
	assert_int_equal(first, 2);
	assert_false(allow);
	schema_put(s);
	s = t;
	assert_int_equal(family(s, "c")->id, 3);
	assert_int_equal(schema_public(s)->families[0].id, 1); /* in id order, not the text's */
	assert_int_equal(schema_public(s)->group_count, 1);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_ADD, .name = "g"});
	assert_int_equal(group(s, "g")->id, 2);
	assert_int_equal(schema_edit(s, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .name = "c"}, 9, &t, NULL), 0);
	assert_int_equal(left_out(s, t, &first), 1);
	assert_int_equal(first, 3);
	schema_put(s);
	/* now through the file */
	assert_int_equal(schema_encode(t, &b), 0);
	schema_put(t);
	assert_int_equal(schema_decode(buf_bytes(&b), &s), 0);
	buf_fini(&b);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "c", .mode = 0600, .uid = 5, .gid = 6});
	assert_int_equal(family(s, "c")->id, 4);
	assert_int_equal(family(s, "c")->uid, 5);
	assert_int_equal(family(s, "c")->mode, 0600);
	/* allow_delete is returned and not stored */
	s = text_ok(s, "families = (); allow_delete = true;", 2, true);
	assert_null(strstr(schema_public(s)->text, "allow_delete"));
	schema_put(s);
}

static void test_renames(void **state)
{
	struct schema *s = text_ok(fresh(), example, 0, false);
	const uint16_t anchor = family(s, "anchor")->id, contents = family(s, "contents")->id, pages = group(s, "pages")->id;
	char ref[8];

	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "anchor", .value = "links"});
	assert_int_equal(family(s, "links")->id, anchor);
	assert_non_null(strstr(schema_public(s)->text, "\"links\""));
	assert_null(strstr(schema_public(s)->text, "anchor"));
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_RENAME, .name = "pages", .value = "html"});
	assert_int_equal(group(s, "html")->id, pages);
	assert_string_equal(family(s, "contents")->group, "html");
	/* by id */
	snprintf(ref, sizeof ref, "#%u", anchor);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = ref, .value = "anchor"});
	assert_int_equal(family(s, "anchor")->id, anchor);
	snprintf(ref, sizeof ref, "#%u", pages);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_RENAME, .name = ref, .value = "pages"});
	assert_int_equal(group(s, "pages")->id, pages);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "anchor", .value = "contents"}, -EEXIST);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "#99", .value = "x"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "#01", .value = "x"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "anchor", .value = "#1"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "anchor", .value = "x\n"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = "anchor"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "#7"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_RENAME, .name = "pages", .value = "default"}, -EEXIST);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_RENAME, .name = "default", .value = "x"}, -EBUSY);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_RENAME, .name = "nope", .value = "x"}, -ENOENT);

	/* by text: two change names; a new one has the name that another left; it is said once, and may be said again */
	s = text_ok(s, "families = ( { name = \"anchor\"; was = \"contents\"; }, { name = \"contents\"; was = \"anchor\"; } );", 0,
		false);
	assert_int_equal(family(s, "anchor")->id, contents);
	assert_int_equal(family(s, "contents")->id, anchor);
	assert_null(strstr(schema_public(s)->text, "was"));
	const char *text = "families = ( { name = \"a\"; was = \"anchor\"; }, { name = \"contents\"; } );"
			   "groups = ( { name = \"g\"; } );";

	s = text_ok(s, text, 0, false);
	s = text_ok(s, text, 0, false);
	assert_int_equal(family(s, "a")->id, contents);
	s = text_ok(s,
		"families = ( { name = \"a\"; }, { name = \"b\"; was = \"a\"; }, { name = \"contents\"; } );"
		"groups = ( { name = \"h\"; was = \"g\"; } );",
		0, false);
	assert_int_equal(family(s, "b")->id, contents);
	assert_true(family(s, "a")->id > anchor && family(s, "a")->id > contents);
	/* left out, though another has its name now */
	s = text_ok(s, "families = ( { name = \"a\"; was = \"b\"; }, { name = \"contents\"; } ); groups = ( { name = \"h\"; } );",
		1, false);
	refused_bytes(s, tfs_str("families = ( { name = \"x\"; was = \"y\"; } );"), 1, "was: there is none");
	refused_bytes(
		s, tfs_str("families = ( { name = \"x\"; was = \"a\"; },\n { name = \"y\"; was = \"a\"; } );"), 1, "was: two");
	refused_bytes(s, tfs_str("families = ( { name = \"x\"; was = 1; } );"), 1,
		"was: not of the right type: a string in quotes is wanted");
	refused_bytes(s, tfs_str("groups = 1;"), 1, "groups: not of the right type: a list in ( ) is wanted");
	refused_bytes(s, tfs_str("salt = \"16\";"), 1, "salt: not of the right type: a whole number is wanted");
	refused_bytes(s, tfs_str("tablet_size = true;"), 1,
		"tablet_size: not of the right type: a string in quotes or a whole number is wanted");
	refused_bytes(s, tfs_str("allow_delete = 1;"), 1, "allow_delete: not of the right type: true or false is wanted");
	refused_bytes(s, tfs_str("families = ( { name = \"contents\"; was = \"z\"; }, { name = \"y\"; was = \"contents\"; } );"), 1,
		"was: there is none");
	refused_bytes(s, tfs_str("groups = ( { name = \"default\"; was = \"h\"; } );"), 1, "default group keeps its name");
	refused_bytes(s, tfs_str("groups = ( { name = \"x\"; was = \"default\"; } );"), 1, "default group keeps its name");
	schema_put(s);
}

static void test_edits(void **state)
{
	struct schema *s = text_ok(fresh(), example, 0, false);

	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_TIME, .mtime_us = -5});
	assert_int_equal(schema_public(s)->mtime_us, -5);
	assert_string_equal(schema_public(s)->text, example);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_HIDE, .flag = true});
	assert_true(schema_public(s)->is_hidden);
	assert_int_equal(schema_public(s)->mtime_us, -5);
	assert_string_equal(schema_public(s)->text, example);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = "anchor", .mode = 0100600});
	assert_int_equal(family(s, "anchor")->mode, 0600);
	assert_string_not_equal(schema_public(s)->text, example);
	assert_int_equal(schema_public(s)->mtime_us, 3000);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "anchor", .uid = 4242, .gid = (gid_t)-1});
	assert_int_equal(family(s, "anchor")->uid, 4242);
	assert_int_equal(family(s, "anchor")->gid, 0);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "anchor", .value = " maxage=1h\n"});
	assert_string_equal(family(s, "anchor")->gc, "maxage=1h");
	assert_int_equal(family(s, "anchor")->max_age_us, 3600 * 1000000ll);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "anchor", .value = "\n"});
	assert_string_equal(family(s, "anchor")->gc, "");
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_TYPE, .name = "anchor", .value = "counter"});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GROUP, .name = "anchor", .value = "pages\n"});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_BLOCK_SIZE, .name = "pages", .value = "1K"});
	assert_int_equal(group(s, "pages")->block_size, 1 << 10);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_BLOCK_SIZE, .name = "pages", .value = "1m"});
	assert_int_equal(group(s, "pages")->block_size, 1 << 20);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_COMPRESSION, .name = "pages", .value = "lz4"});
	assert_int_equal(group(s, "pages")->level, 3); /* was 9 */
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_LEVEL, .name = "pages", .value = "9"}, -EINVAL);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_IN_MEMORY, .name = "pages", .value = "false"});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_LEVEL, .name = "default", .value = "19"});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_BLOOM_BITS, .name = "default", .value = "0"});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 01777});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_OWNER, .uid = (uid_t)-1, .gid = 77});
	assert_int_equal(schema_public(s)->gid, 77);

	/* an edit that changes nothing renders nothing */
	struct schema *same = NULL;

	assert_int_equal(
		schema_edit(s, &(struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 01777}, 9999, &same, NULL), 0);
	assert_int_equal(schema_public(same)->generation, schema_public(s)->generation);
	assert_int_equal(schema_public(same)->mtime_us, 3000);
	schema_put(same);

	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "anchor"}, -EEXIST);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = ".anchor"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .name = "nope"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = "nope"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "anchor", .value = "maxage"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "anchor"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GROUP, .name = "anchor", .value = "nope"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_ADD, .name = "pages"}, -EEXIST);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_DROP, .name = "pages"}, -EBUSY);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_DROP, .name = "default"}, -EBUSY);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_DROP, .name = "nope"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_LEVEL, .name = "nope", .value = "1"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_LEVEL, .name = "pages", .value = "x"}, -EINVAL);
	edit_fails(s, (struct tfs_schema_edit){.op = (enum tfs_schema_op)99, .name = "pages"}, -EINVAL);

	/* the rendered text is the schema */
	struct schema *again = text_ok(schema_get(s), schema_public(s)->text, 0, false);

	expect_same(s, again);
	assert_string_equal(schema_public(again)->text, schema_public(s)->text);
	schema_put(again);
	/* an unset schema: only an explicit act sets it */
	struct schema *u = edited(fresh(), (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644});

	assert_false(schema_public(u)->is_set);
	/* a setting sets it, but families are still made by mkdir of ROW/F; to make one explicitly ends that */
	u = edited(u,
		(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = "maxversions=3", .explicit_act = true});
	assert_true(schema_public(u)->is_set && schema_public(u)->mkdir_families);
	assert_non_null(strstr(schema_public(u)->text, "mkdir_families = true;"));
	again = text_ok(schema_get(u), schema_public(u)->text, 0, false);
	expect_same(u, again);
	schema_put(again);
	u = edited(u, (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "g", .mode = 0644, .explicit_act = true});
	assert_true(schema_public(u)->is_set && !schema_public(u)->mkdir_families);
	assert_int_equal(schema_rename(u, "other", &again), 0);
	assert_string_equal(schema_public(again)->name, "other");
	assert_string_equal(schema_public(again)->text, schema_public(u)->text);
	assert_int_equal(schema_public(again)->generation, schema_public(u)->generation + 1);
	struct schema *none = NULL;

	assert_int_equal(schema_rename(u, "a/b", &none), -EINVAL);
	schema_put(again);
	schema_put(u);
	schema_put(s);
}

/* ---- scripts ---- */

static struct schema *with_script(struct schema *s, const char *name, struct tfs_bytes text, int64_t mtime_us)
{
	return edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_SET, .name = name, .text = text, .mtime_us = mtime_us});
}

static void expect_script(const struct schema *s, const char *name, struct tfs_bytes text, int64_t mtime_us)
{
	const struct tfs_script *x = tfs_schema_script(schema_public(s), name);

	assert_non_null(x);
	assert_string_equal(x->name, name);
	assert_true(bytes_eq(x->text, text));
	assert_int_equal(x->mtime_us, mtime_us);
}

static void test_scripts(void **state)
{
	static const uint8_t bytes[] = {0, 255, '\n', 0};
	const struct tfs_bytes any = tfs_bytes_of(bytes, sizeof(bytes));
	struct schema *s = text_ok(fresh(), example, 0, false), *t = NULL;
	const struct tfs_schema *before = schema_public(s);
	struct buf text = {0}, large = {0};
	char name[TFS_SCRIPT_NAME_MAX + 2];

	assert_int_equal(buf_append(&text, before->text, before->text_size), 0);
	s = with_script(s, "b", any, 5);
	s = with_script(s, "c", TFS_S("return"), TFS_NO_TIME);
	s = with_script(s, "a-A_9", TFS_S(""), 7);
	assert_int_equal(schema_public(s)->script_count, 3);
	assert_string_equal(schema_public(s)->scripts[0].name, "a-A_9");
	assert_true(bytes_eq(buf_bytes(&text), tfs_bytes_of(schema_public(s)->text, schema_public(s)->text_size)));
	assert_int_equal(schema_public(s)->mtime_us, 2000);
	s = with_script(s, "c", TFS_S("return 1"), 9);
	expect_script(s, "c", TFS_S("return 1"), 9);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_TIME, .name = "c", .mtime_us = 11});
	/* another text, another name, a snapshot, a clone of it, stricter access */
	s = text_ok(s, "families = ({ name = \"contents\" }, { name = \"anchor\" }, { name = \"language\" });", 0, false);
	assert_int_equal(schema_rename(s, "other", &t), 0);
	schema_put(s);
	assert_int_equal(schema_snapshot(t, "snap", 40, 50, false, &s), 0);
	schema_put(t);
	assert_int_equal(schema_restrict(s, s, false, &t), 0);
	schema_put(s);
	assert_int_equal(schema_table_clone(t, "clone", 41, &s), 0);
	schema_put(t);
	expect_script(s, "a-A_9", TFS_S(""), 7);
	expect_script(s, "b", any, 5);
	expect_script(s, "c", TFS_S("return 1"), 11);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_DROP, .name = "b"});
	assert_null(tfs_schema_script(schema_public(s), "b"));
	assert_int_equal(schema_public(s)->script_count, 2);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_DROP, .name = "b"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_TIME, .name = "b"}, -ENOENT);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_SET}, -EINVAL);
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_DROP, .name = "a-A_9"});
	s = edited(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_DROP, .name = "c"});
	assert_int_equal(schema_public(s)->script_count, 0);
	/* names and sizes */
	memset(name, 'x', sizeof(name));
	name[TFS_SCRIPT_NAME_MAX + 1] = 0;
	for (const char *const *bad = (const char *const[]){"", "a.b", "a b", ".", "\303\244", name, NULL}; *bad; bad++)
		edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_SET, .name = *bad}, -EINVAL);
	name[TFS_SCRIPT_NAME_MAX] = 0;
	assert_int_equal(buf_reserve(&large, TFS_SCRIPT_MAX + 1), 0);
	memset(large.p, 0, TFS_SCRIPT_MAX + 1);
	large.n = TFS_SCRIPT_MAX + 1;
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_SET, .name = "a", .text = buf_bytes(&large)}, -EINVAL);
	large.n--;
	s = with_script(s, name, buf_bytes(&large), 1);
	for (int i = 0; i < 3; i++)
		s = with_script(s, (const char *const[]){"a", "b", "c"}[i], buf_bytes(&large), 1);
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_SET, .name = "d", .text = TFS_S("x")}, -EINVAL);
	s = with_script(s, "a", TFS_S("replaced"), 1);
	s = with_script(s, "d", TFS_S("x"), 1);
	for (int i = 0; i < 64 - 5; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		s = with_script(s, name, TFS_S(""), 1);
	}
	edit_fails(s, (struct tfs_schema_edit){.op = TFS_SCHEMA_SCRIPT_SET, .name = "z"}, -EINVAL);
	buf_fini(&large);
	buf_fini(&text);
	schema_put(s);
}

/* ---- random schemas: rendered, parsed, encoded, decoded ---- */
static uint64_t seed = 88172645463325252ull;

static unsigned rnd(unsigned n)
{
	return (unsigned)(xorshift(&seed) % n);
}

static void random_text(struct buf *b)
{
	static const char *const rules[] = {
		"", "maxversions=3", "maxage=7d", "maxversions=1 or maxage=30m", "(maxversions=2 and maxage=1w) or maxage=9w"};
#define CODEC(upper, ...) SST_##upper,
	static const enum sst_codec codecs[] = {SST_CODEC_LIST(CODEC)};
#undef CODEC
	static const char *const acls[] = {
		"", "u:root:rw-", "g:7:--x,u:4000:r--", "g::r--", "user:1:---,group::rwx,group:0:r--", "u:4294967294:rw-,u:3:r--"};
	unsigned families = rnd(6), groups = rnd(4);

	buf_reset(b);
	assert_int_equal(buf_printf(b, "mode = \"%o\"; owner = %u; tablet_size = \"%uK\";\nfamilies = (", rnd(4096), rnd(3),
				 64 + rnd(100000)),
		0);
	for (unsigned i = 0; i < families; i++)
		assert_int_equal(
			buf_printf(b,
				"%s\n{ name = \"f%u\"; gc = \"%s\"; group = \"%s%u\"; type = \"%s\"; owner = \"%u\"; mode = \"%o\"; acl = \"%s\" }",
				i ? "," : "", i * 7 % 11 + rnd(2) * 100, rules[rnd(5)], groups ? "g" : "default",
				groups ? rnd(groups) : 0, rnd(2) ? "bytes" : "counter", rnd(100000), rnd(512), acls[rnd(6)]),
			0);
	assert_int_equal(buf_printf(b, ");\ngroups = ("), 0);
	for (unsigned i = 0; i < (groups ? groups : 1); i++) {
		const struct sst_codec_kind *codec = &sst_codec_kinds[codecs[rnd(sizeof(codecs) / sizeof(*codecs))]];

		assert_int_equal(
			buf_printf(b,
				"%s\n{ name = \"%s%u\"; compression = \"%s\"; level = %u; block_size = %u; bloom_bits = %u; in_memory = %s }",
				i ? "," : "", groups ? "g" : "default", i, codec->name, codec->levels ? 1 + rnd(19) : 3,
				4096 + rnd(4000000), rnd(21), rnd(2) ? "true" : "false"),
			0);
	}
	assert_int_equal(buf_printf(b, ");\n"), 0);
	assert_int_equal(buf_u8(b, 0), 0);
}

static void test_round_trips(void **state)
{
	struct buf b = {0}, bytes = {0};

	for (int i = 0; i < 300; i++) {
		struct schema *s, *t, *u;

		random_text(&b);
		s = text_ok(fresh(), (const char *)b.p, 0, false);
		schema_set_made(s, rnd(3));
		schema_set_changed(s, rnd(3));
		for (unsigned k = rnd(3); k > 0; k--)
			s = with_script(s, k == 1 ? "one" : "two", tfs_bytes_of(b.p, rnd(60)), (int64_t)rnd(100));
		/* changed and changed back, so that it is rendered */
		t = edited(
			schema_get(s), (struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = schema_public(s)->mode ^ 1});
		t = edited(t, (struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = schema_public(s)->mode});
		expect_same(s, t);
		u = text_ok(schema_get(t), schema_public(t)->text, 0, false);
		expect_same(t, u);
		schema_put(u);
		buf_reset(&bytes);
		assert_int_equal(schema_encode(s, &bytes), 0);
		assert_int_equal(schema_decode(buf_bytes(&bytes), &u), 0);
		expect_same(s, u);
		assert_int_equal(schema_public(s)->generation, schema_public(u)->generation);
		assert_int_equal(schema_public(s)->mtime_us, schema_public(u)->mtime_us);
		assert_int_equal(schema_public(s)->is_set, schema_public(u)->is_set);
		assert_string_equal(schema_public(s)->text, schema_public(u)->text);
		assert_true(schema_made(s) == schema_made(u) && schema_changed(s) == schema_changed(u));
		assert_int_equal(schema_public(s)->script_count, schema_public(u)->script_count);
		for (unsigned k = 0; k < schema_public(s)->script_count; k++) {
			const struct tfs_script *x = &schema_public(s)->scripts[k];

			expect_script(u, x->name, x->text, x->mtime_us);
			expect_script(t, x->name, x->text, x->mtime_us);
		}
		assert_true(schema_made(s) == schema_made(t) && schema_changed(s) == schema_changed(t));
		schema_put(u);
		schema_put(t);
		schema_put(s);
	}
	buf_fini(&b);
	buf_fini(&bytes);
}

static void test_damage(void **state)
{
	struct schema *s = text_ok(fresh(), example, 0, false), *t = NULL;
	struct buf b = {0};

	s = with_script(s, "first", TFS_S("text"), 1);
	s = with_script(s, "second", TFS_S(""), 2);
	schema_set_made(s, 1);
	assert_int_equal(schema_encode(s, &b), 0);
	for (size_t i = 0; i < b.n; i++) {
		b.p[i] ^= 1;
		int rc = schema_decode(buf_bytes(&b), &t);

		assert_int_equal(rc, -EBADMSG);
		b.p[i] ^= 1;
		assert_int_equal(schema_decode(tfs_bytes_of(b.p, i), &t), -EBADMSG);
	}
	/* the checksum made right again: refused, or a schema that encodes to those bytes */
	for (size_t i = 0; i + 4 < b.n; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			struct buf again = {0};

			b.p[i] ^= (uint8_t)(1u << bit);
			put_be32(b.p + b.n - 4, crc32c(0, b.p, b.n - 4));
			if (schema_decode(buf_bytes(&b), &t) == 0) {
				assert_int_equal(schema_encode(t, &again), 0);
				assert_true(bytes_eq(buf_bytes(&again), buf_bytes(&b)));
				schema_put(t);
			}
			buf_fini(&again);
			b.p[i] ^= (uint8_t)(1u << bit);
		}
	}
	buf_fini(&b);
	schema_put(s);
}

/* What more text can end is accepted, and what none can is refused.  Under AddressSanitizer: no parse leaks a string. */
static void test_begins(void **state)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {{"protect = true;\n", 0}, {"quota = \"1", 0}, {"quota = \"1\"\n", 0}, {"quota = \"fast\"", 0},
		{"quota = \"fast\";\n", -EINVAL}, {"protekt = true;\n", -EINVAL}, {"protekt = 5\n", -EINVAL}};
	struct schema *s;

	(void)state;
	assert_int_equal(schema_new("webtable", 17, 0, 0, 0755, 1000, &s), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *why = NULL;
		const int err = schema_text_begins(s, tfs_str(cases[i].text), &why);

		if (err != cases[i].err)
			print_message("# %s: %d\n", cases[i].text, err);
		assert_int_equal(err, cases[i].err);
		assert_int_equal(!why, !err);
		free(why);
	}
	schema_put(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new),
		cmocka_unit_test(test_last_line_counts),
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_acl),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_begins),
		cmocka_unit_test(test_ids_never_reused),
		cmocka_unit_test(test_edits),
		cmocka_unit_test(test_renames),
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_damage),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
