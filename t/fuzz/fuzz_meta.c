/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA from any bytes: row keys, columns (the first byte selects one; then the
 * qualifier's length, the qualifier, the value), and the root file, unchanged and
 * with its checksum corrected.  A decoded value is written as operations and as a
 * root file, and both read back the same.
 */
#include "engine/meta/meta_format.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void same_root(const struct meta_tablet *a, const struct meta_tablet *b)
{
	struct buf x = {0}, y = {0};

	CHECK(meta_root_encode(a, &x) == 0 && meta_root_encode(b, &y) == 0);
	CHECK(bytes_eq(buf_bytes(&x), buf_bytes(&y)));
	buf_fini(&x);
	buf_fini(&y);
}

static void write_and_read(const struct meta_tablet *m)
{
	struct meta_tablet back = {.table = m->table, .last = m->last};
	struct arena arena = {0};
	struct buf root = {0};
	struct op *ops;
	unsigned count;

	CHECK(meta_ops_new(m, &arena, &ops, &count) == 0);
	CHECK(buf_set(&back.end, m->end.p, m->end.n) == 0);
	for (unsigned i = 0; i < count; i++) {
		struct tfs_cell c = {
			.family_id = ops[i].family, .qualifier = ops[i].w.qualifier, .value = ops[i].value, .size = ops[i].value.n};

		CHECK(meta_tablet_cell(&back, &c) == 0);
	}
	same_root(m, &back);
	meta_tablet_fini(&back);
	CHECK(meta_root_encode(m, &root) == 0);
	CHECK(meta_root_decode(buf_bytes(&root), &back) == 0);
	same_root(m, &back);
	meta_tablet_fini(&back);
	buf_fini(&root);
	arena_fini(&arena);
}

static void try_root(struct tfs_bytes in)
{
	struct meta_tablet m;

	if (meta_root_decode(in, &m))
		return;
	/* a file's entry is written normalised; files that large are left to the unit test */
	if (in.n < 200000)
		write_and_read(&m);
	meta_tablet_fini(&m);
}

static void try_key(struct tfs_bytes key)
{
	struct buf b = {0};
	struct tfs_bytes end;
	uint32_t table;
	bool last;

	if (!meta_parse_row_key(key, &table, &last, &end))
		return;
	CHECK(meta_row_key(&b, table, last, end) == 0);
	CHECK(bytes_eq(buf_bytes(&b), key));
	buf_fini(&b);
}

static void try_cells(struct tfs_bytes in)
{
	struct meta_tablet m = {0};
	struct reader r = reader_of(in);

	while (reader_left(&r)) {
		struct tfs_cell c = {0};
		uint8_t family;

		if (!get_u8(&r, &family) || !get_lstr(&r, &c.qualifier) || !get_lstr(&r, &c.value))
			break;
		c.family_id = family;
		c.size = c.value.n;
		if (meta_tablet_cell(&m, &c) && family & 0x80)
			break;
	}
	if (in.n < 200000)
		write_and_read(&m);
	meta_tablet_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size + 1);

	CHECK(p);
	try_key(tfs_bytes_of(data, size));
	try_cells(tfs_bytes_of(data, size));
	try_root(tfs_bytes_of(data, size));
	if (size >= 4) {
		memcpy(p, data, size);
		put_be32(p + size - 4, crc32c(0, p, size - 4));
		try_root(tfs_bytes_of(p, size));
	}
	free(p);
	return 0;
}

static void example_tablet(struct meta_tablet *m)
{
	struct tablet_file f = {
		.incarnation = 3, .number = 9, .table = 16, .bytes = 1000, .seq_min = 1, .seq_max = 300, .newest_us = 5};

	*m = (struct meta_tablet){.table = 16, .server = 4, .assignment = 2, .seq_mark = 300, .clock_mark = 7, .major_us = 8};
	CHECK(buf_append(&m->begin, "a", 1) == 0 && buf_append(&m->end, "m", 1) == 0);
	CHECK(buf_append(&f.begin, "a", 1) == 0 && buf_append(&f.end, "m", 1) == 0);
	CHECK(buf_append(&f.first, "com", 3) == 0 && buf_append(&f.last, "lwn", 3) == 0);
	CHECK(meta_files_add(m, &f, true) == 0);
	CHECK(meta_redo_add(m, (struct redo_point){3, 17}, true) == 0);
	CHECK(meta_token_add(m, 1, 2, tfs_str("result")) == 0 && meta_token_add(m, 1, 3, tfs_str("")) == 0);
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	struct arena arena = {0};
	struct meta_tablet m;
	static struct buf b;
	struct op *ops;
	unsigned count;

	if (i > 2)
		return 0;
	buf_reset(&b);
	example_tablet(&m);
	if (i == 0) {
		CHECK(meta_root_encode(&m, &b) == 0);
	} else if (i == 1) {
		CHECK(meta_row_key(&b, 16, false, tfs_str("m")) == 0);
	} else {
		CHECK(meta_ops_new(&m, &arena, &ops, &count) == 0);
		for (unsigned k = 0; k < count; k++)
			CHECK(buf_u8(&b, (uint8_t)ops[k].family) == 0 && buf_lstr(&b, ops[k].w.qualifier) == 0 &&
				buf_lstr(&b, ops[k].value) == 0);
	}
	meta_tablet_fini(&m);
	arena_fini(&arena);
	*data = b.p;
	return b.n;
}
