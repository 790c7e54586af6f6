/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking a whole file past the caches, for tabletctl check: each section,
 * then each stored block by itself in file order (checksum, decompression),
 * then the table through its index (order and number of keys, that no
 * block is missing from the index or named twice, and the unit of each value).
 *
 * The blocks are read twice, the second time mostly from the page cache.  The
 * first pass finds the offset of a damaged block.  The second pass proves that
 * the undamaged blocks have the right contents.
 */
#include "engine/base/file.h"
#include "engine/sstable/binding.h"
#include "engine/sstable/load.h"
#include "engine/sstable/sstable.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static char *damage_describe(const char *path, const char *what, uint64_t offset)
{
	char *s = NULL;

	if (asprintf(&s, "%s: %s at offset %llu", path, what, (unsigned long long)offset) < 0)
		return NULL;
	return s;
}

static int check_sections(struct blockfile *b, char **why)
{
	const struct bff_trailer *t = blockfile_trailer(b);
	struct buf bytes = {0};
	struct bff_filters f = {0};
	int err = 0;

	for (unsigned id = 0; id < BFF_SECTIONS && !err; id++) {
		buf_reset(&bytes);
		err = blockfile_section(b, (enum bff_section_id)id, &bytes);
		if (!err && id == BFF_FILTERS && bytes.n) {
			err = bff_filters_decode(buf_bytes(&bytes), t->partitions, &f);
			bff_filters_fini(&f);
		}
		if (err == -EBADMSG || err == -EIO)
			*why = damage_describe(
				blockfile_path(b), err == -EIO ? "unreadable section" : "damaged section", t->section[id].offset);
	}
	buf_fini(&bytes);
	return err;
}

static int check_blocks(struct blockfile *b, char **why)
{
	const struct bff_map *m = blockfile_map(b);
	struct buf raw = {0};
	bool agree = true;
	int err = 0;

	for (size_t i = 0; i < m->n && !err; i++) {
		size_t n = bff_map_raw(m, i);

		buf_reset(&raw);
		err = buf_reserve(&raw, n);
		if (!err)
			err = blockfile_read(b, m->at[i].logical, n, raw.p);
		if (err == -EBADMSG || err == -EIO)
			*why = damage_describe(
				blockfile_path(b), err == -EIO ? "unreadable block" : "damaged block", m->at[i].physical);
		if (!err)
			err = blockfile_block_agrees(b, i, &agree);
		if (!err && !agree) {
			err = -EBADMSG;
			*why = damage_describe(blockfile_path(b),
				"one of the two copies of a block of keys is damaged, the first is", m->at[i].physical);
		}
	}
	buf_fini(&raw);
	return err;
}

static int check_value(struct blockfile *b, struct value_window *w, const struct value_ref *v, char **why)
{
	struct tfs_bytes part;
	int err = 0;

	for (uint64_t at = 0, n; v->place != VALUE_INLINE && at < v->size && !err; at += n) {
		n = v->size - at < VALUE_UNIT_BYTES ? v->size - at : VALUE_UNIT_BYTES;
		err = value_load(b, w, v, at, (size_t)n, &part);
	}
	if (err == -EBADMSG || err == -EIO)
		*why = damage_describe(
			blockfile_path(b), err == -EIO ? "unreadable value unit" : "damaged value unit", w->units.asked);
	return err;
}

static int check_keys(struct blockfile *b, struct ldb_table *t, uint64_t *keys, char **why)
{
	struct ldb_cursor c = {.table = t};
	struct value_window w = {0};
	struct buf last = {0};
	uint64_t n = 0;
	int err = 0;

	for (ldb_cursor_seek(&c.it, tfs_bytes_of("", 0)); c.it.valid; ldb_cursor_next(&c.it)) {
		if (n && bytes_cmp(c.it.key, buf_bytes(&last)) <= 0) {
			err = -EBADMSG;
			*why = damage_describe(blockfile_path(b), "keys out of order in the block",
				blockfile_physical(b, ldb_table_offset_of(t, c.it.key)));
			goto out;
		}
		err = buf_set(&last, c.it.key.p, c.it.key.n);
		if (!err)
			err = check_value(b, &w, &c.value, why);
		if (err)
			goto out;
		n++;
	}
	err = c.it.err;
	if (!err && n != blockfile_trailer(b)->keys) {
		err = -EBADMSG;
		*why = damage_describe(blockfile_path(b),
			"the index leads to another number of keys than were written; index before",
			blockfile_physical(b, UINT64_MAX));
	}
	if (!err)
		*keys = n;
	else if ((err == -EBADMSG || err == -EIO) && !*why)
		*why = damage_describe(blockfile_path(b), "damaged table structure, index", blockfile_physical(b, UINT64_MAX));
out:
	ldb_cursor_fini(&c);
	value_window_fini(&w);
	buf_fini(&last);
	return err;
}

static int verify(const char *path, uint64_t bytes, uint64_t *keys, char **why)
{
	struct blockfile *b;
	struct ldb_table *t = NULL;
	uint64_t sections;
	bool agree = true;
	int err;

	*why = NULL;
	err = blockfile_open(path, bytes, NULL, &b);
	if (err) {
		uint64_t size = 0;

		if (err == -EBADMSG && sst_is_another(path))
			*why = damage_describe(path, "another SSTable is in its place: trailer", 0);
		else if ((err == -EBADMSG || err == -EIO) && file_stat_size(path, &size) == 0)
			*why = damage_describe(path, "damaged or unreadable trailer, or the block map or dictionary it leads to,",
				size < BFF_TRAILER_BYTES ? 0 : size - BFF_TRAILER_BYTES);
		return err;
	}
	err = check_sections(b, why);
	if (!err)
		err = check_blocks(b, why);
	if (!err)
		err = blockfile_copies_agree(b, &agree);
	if (!err && !agree) {
		err = -EBADMSG;
		*why = damage_describe(path,
			"one of its two copies is damaged; the next mount writes it again from the other;"
			" the second one begins",
			blockfile_file_bytes(b) - blockfile_copy_bytes(b));
	}
	if (err) {
		blockfile_close(b);
		return err;
	}
	sections = blockfile_trailer(b)->section[BFF_DICTIONARY].offset;
	err = ldb_table_open(b, NULL, 0, &t);
	if (err) {
		if (err == -EBADMSG || err == -EIO)
			*why = damage_describe(path, "damaged table footer or index, before the sections,", sections);
		return err;
	}
	err = check_keys(b, t, keys, why);
	ldb_table_close(t);
	return err;
}

int sst_verify(const char *path, uint64_t bytes, uint64_t *keys, char **why)
{
	int err = verify(path, bytes, keys, why);

	return err == -EIO && *why ? -EBADMSG : err; /* a part of the file cannot be read */
}
