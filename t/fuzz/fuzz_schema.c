/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas from any bytes: as text and as the encoding (as it is, and with
 * its checksum made right).  A text that is accepted keeps its bytes; once
 * touched it renders to a text that parses to the same schema and renders
 * the same again; every schema encodes and decodes to itself.
 */
#include "engine/schema/schema.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void try_encode(const struct schema *s)
{
	struct buf a = {0}, b = {0};
	struct store_schema *t;
	struct schema *back;

	CHECK(schema_encode(s, &a) == 0);
	CHECK(schema_decode(buf_bytes(&a), &back) == 0);
	CHECK(schema_encode(back, &b) == 0);
	CHECK(bytes_eq(buf_bytes(&a), buf_bytes(&b)));
	CHECK(schema_store(s, &t) == 0);
	store_schema_put(t);
	schema_put(back);
	buf_fini(&a);
	buf_fini(&b);
}

static struct schema *with_mode(const struct schema *s, mode_t mode)
{
	const struct tfs_schema_edit e = {.op = TFS_SCHEMA_TABLE_MODE, .mode = mode};
	struct schema *t = NULL;
	int rc = schema_edit(s, &e, 5, &t, NULL);

	CHECK(rc == 0 || rc == -22); /* -EINVAL: rendered, it has become too large */
	return t;
}

/* Changed and changed back, so that it is rendered. */
static struct schema *touched(const struct schema *s)
{
	struct schema *t = with_mode(s, schema_public(s)->mode ^ 1), *u = t ? with_mode(t, schema_public(s)->mode) : NULL;

	schema_put(t);
	return u;
}

static struct schema *from_text(const struct schema *old, struct tfs_bytes text)
{
	struct schema *s = NULL;
	char *why = NULL;
	bool allow;
	int rc = schema_set_text(old, text, 3, &s, &allow, &why);

	CHECK(rc == 0 || rc == -22);
	CHECK((rc == 0) == (s != NULL) && (rc == 0) == (why == NULL));
	if (s && !allow)
		CHECK(bytes_eq(text, tfs_bytes_of(schema_public(s)->text, schema_public(s)->text_size)));
	free(why);
	return s;
}

static void try_text(struct tfs_bytes text)
{
	struct schema *old, *s, *t, *u, *v;

	CHECK(schema_new("t", 16, 0, 0, 0755, 1, &old) == 0);
	s = from_text(old, text);
	if (s) {
		try_encode(s);
		t = touched(s);
		if (t) {
			u = from_text(t, tfs_bytes_of(schema_public(t)->text, schema_public(t)->text_size));
			CHECK(u);
			v = touched(u);
			CHECK(v && strcmp(schema_public(t)->text, schema_public(v)->text) == 0);
			schema_put(v);
			schema_put(u);
			schema_put(t);
		}
		schema_put(s);
	}
	schema_put(old);
}

static void try_bytes(struct tfs_bytes in)
{
	struct schema *s;

	if (schema_decode(in, &s))
		return;
	try_encode(s);
	schema_put(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size + 1);

	CHECK(p);
	try_text(tfs_bytes_of(data, size));
	try_bytes(tfs_bytes_of(data, size));
	if (size >= 4) {
		memcpy(p, data, size);
		put_be32(p + size - 4, crc32c(0, p, size - 4));
		try_bytes(tfs_bytes_of(p, size));
	}
	free(p);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	enum { TEXTS = 5 };
	static const char *const texts[TEXTS] = {
		"owner = \"root\"; owner_group = 3; mode = \"0755\"; tablet_size = \"128M\"; salt = 0;\n"
		"families = ( { name = \"contents\"; gc = \"maxversions=3\"; group = \"pages\"; type = \"bytes\"; mode = \"0640\";\n"
		"  acl = \"\"; }, { name = \"n\"; type = \"counter\"; gc = \"(maxage=30d and maxversions=1) or maxage=9w\" } );\n"
		"groups = ( { name = \"pages\"; compression = \"zstd-dict\"; level = 9; block_size = 65536; bloom_bits = 4; in_memory = true; } );\n",
		"# comment\n/* more */ // and\nfamilies = ( ); groups = ( { name = \"default\"; compression = \"none\" } ); allow_delete = true;\n",
		"tablet_size = 0x8000000;",
		"salt = 200; protect = true; splits = ( \"%C7\", \"\\x41%00\", \"b\\\"%25\\\\\", \"\xc3\xa9\", \".%2F\" );",
		"protect = \"data\"; readonly = true; quota = \"10G\"; changes = \"2d\";"};
	static struct buf b;
	struct schema *old, *s;

	if (i < TEXTS) {
		*data = (const uint8_t *)texts[i];
		return strlen(texts[i]);
	}
	if (i >= 2 * TEXTS)
		return 0;
	CHECK(schema_new("t", 16, 0, 0, 0755, 1, &old) == 0);
	s = from_text(old, tfs_str(texts[i - TEXTS]));
	CHECK(s);
	buf_reset(&b);
	CHECK(schema_encode(s, &b) == 0);
	schema_put(s);
	schema_put(old);
	*data = b.p;
	return b.n;
}
