/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole SSTables: round trips of every codec and shape, filters, pooled iterators, the
 * cache of open tables.
 */
#include "t/unit/sstable_lib.h"
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "t/unit/dir.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct sst_cache *cache;
static const void *const unused[] __attribute__((unused)) = {(const void *)contents};

/* In the place of the collector. */
static void retired(void *arg, const char *path)
{
	assert_int_equal(file_unlink(path), 0);
}

static int setup(void **state)
{
	msg_to_nowhere();
	if (test_dir_setup(state) || sst_cache_new(4 << 20, 8 << 20, &cache))
		return -1;
	sst_cache_on_retired(cache, retired, NULL);
	return 0;
}

static int teardown(void **state)
{
	struct sst_cache_stats st;

	sst_cache_get_stats(cache, &st);
	assert_int_equal(st.tables_open, 0);
	assert_int_equal(st.table_bytes, 0);
	sst_cache_free(cache);
	return test_dir_teardown(state);
}

static struct sst *open_shape(const struct shape *s, const char *name, bool in_memory)
{
	struct sst *t;
	uint64_t bytes = 0, on_disk;

	assert_int_equal(shape_write(s, in_dir(name), &bytes), 0);
	assert_int_equal(file_stat_size(in_dir(name), &on_disk), 0);
	assert_int_equal(bytes, on_disk);
	assert_int_equal(sst_new(cache, in_dir(name), in_memory, &t), 0);
	return t;
}

static void check_all(const struct shape *s, struct sst *t)
{
	struct iter *it, *scan;
	uint32_t i = 0;

	assert_int_equal(sst_scan_new(t, &scan), 0);
	for (iter_seek(scan, tfs_bytes_of("", 0)); scan->valid; iter_next(scan), i++)
		assert_int_equal(shape_at(s, scan, i), 0);
	assert_int_equal(scan->err, 0);
	assert_int_equal(i, s->n);
	iter_free(scan);

	for (uint32_t k = 0, at = 7; k < 200 && s->n; k++, at = (at * 31 + 11) % s->n) {
		assert_int_equal(sst_iter_new(t, &it), 0);
		assert_false(it->valid);
		iter_seek(it, shape_key(s, 2 * at));
		assert_int_equal(shape_at(s, it, at), 0);
		iter_next(it);
		assert_int_equal(at + 1 < s->n ? shape_at(s, it, at + 1) : it->valid || it->err, 0);
		iter_seek(it, shape_key(s, 2 * at + 1)); /* absent: the entry after it */
		assert_int_equal(at + 1 < s->n ? shape_at(s, it, at + 1) : it->valid || it->err, 0);
		iter_free(it);
	}
	assert_int_equal(sst_iter_new(t, &it), 0);
	iter_seek(it, tfs_str("s"));
	assert_false(it->valid);
	assert_int_equal(it->err, 0);
	iter_free(it);
}

static void check_file(const struct shape *s, const char *name)
{
	struct sst *t = open_shape(s, name, false);
	struct sst_layout l;
	struct buf p = {0};
	uint64_t keys = 0, first, end;
	char *why = (char *)1;

	check_all(s, t);
	assert_int_equal(sst_properties(t, &p), 0);
	assert_true(bytes_eq(buf_bytes(&p), tfs_str("the properties")));
	buf_fini(&p);
	assert_int_equal(sst_layout(t, &l), 0);
	assert_int_equal(l.codec, s->o.codec);
	assert_int_equal(l.filter_partitions, s->o.bloom_bits ? (s->n + 65535) / 65536 : 0);
	assert_int_equal(sst_offset_of(t, tfs_bytes_of("", 0), &first), 0);
	assert_int_equal(sst_offset_of(t, tfs_str("zzz"), &end), 0);
	assert_int_equal(first, 0);
	assert_true(end >= first && end < l.file_bytes);
	assert_int_equal(sst_verify(sst_path(t), 0, &keys, &why), 0);
	assert_int_equal(keys, s->n);
	assert_null(why);
	sst_retire(t);
	sst_put(t);
	assert_false(exists(name));
}

static void every_codec_and_block_size(void **state)
{
	static const uint32_t blocks[] = {1, 4096, 65536, 2 << 20};

	for (unsigned codec = 0; codec < SST_CODECS; codec++)
		for (unsigned b = 0; b < 4 && sst_is_codec(codec); b++) {
			struct shape s = {{(enum sst_codec)codec, 3, blocks[b], 10, false}, 2500, 16, 900, 0};

			check_file(&s, "t.sst");
		}
}

/* A file of two copies, each damaged somewhere else: all of it is read, and it is mended. */
static void two_copies(void **state)
{
	const struct shape s = {
		.o = {.codec = SST_NONE, .block_bytes = 4096, .bloom_bits = 10, .twice = true}, .n = 4000, .value_bytes = 600};
	struct buf was = {0}, now = {0};
	uint64_t bytes, keys;
	struct sst *t;
	size_t n;

	assert_int_equal(shape_write(&s, in_dir("t.sst"), &bytes), 0);
	assert_int_equal(file_read_all(in_dir("t.sst"), bytes, &was), 0);
	n = copies_length(was.n);
	assert_true(n > 1 << 20 && copies_whole(buf_bytes(&was), n));
	for (unsigned i = 0; i < 24; i++) {
		size_t one = i < 12 ? i * 37 * n / 500 : n - 1 - (i - 12) * 11, other = (one + n / 2) % n;
		char *why = NULL;

		assert_int_equal(buf_set(&now, was.p, was.n), 0);
		now.p[one] ^= 0x20;
		if (i % 3)
			now.p[copies_apart(n) + other] ^= 0x04;
		assert_int_equal(file_replace(in_dir("t.sst"), buf_bytes(&now)), 0);
		assert_int_equal(sst_new(cache, in_dir("t.sst"), false, &t), 0);
		check_all(&s, t);
		sst_put(t);
		assert_int_equal(sst_verify(in_dir("t.sst"), 0, &keys, &why), -EBADMSG);
		assert_non_null(strstr(why, "one of its two copies is damaged"));
		free(why);
		sst_mend(in_dir("t.sst"), 0);
		buf_reset(&now);
		assert_int_equal(file_read_all(in_dir("t.sst"), bytes, &now), 0);
		assert_true(bytes_eq(buf_bytes(&now), buf_bytes(&was)));
	}
	buf_fini(&was);
	buf_fini(&now);
}

static void large_keys_and_chunks(void **state)
{
	struct shape long_keys = {{SST_ZSTD, 1, 65536, 10, false}, 50, 65536, 10, 0};
	struct shape large_too = {{SST_LZ4, 0, 65536, 10, false}, 60, 16, 500, 5};
	struct shape only_large = {{SST_ZSTD_DICT, 9, 4096, 0, false}, 20, 16, 0, 1};
	struct sst_layout l;
	struct sst *t;

	check_file(&long_keys, "t.sst");
	check_file(&large_too, "t.sst");
	check_file(&only_large, "t.sst");

	/* 16 keys a block at least: 4 data blocks, metaindex, index, footer; the index stays small */
	t = open_shape(&long_keys, "k.sst", false);
	assert_int_equal(sst_layout(t, &l), 0);
	assert_int_equal(l.blocks, 4 + 3);
	sst_retire(t);
	sst_put(t);
	/* large values have units of their own, of 64 KiB and the rest */
	{
		struct shape large = {{SST_NONE, 0, 65536, 0, false}, 40, 16, 0, 0};
		struct sst_writer *w;
		uint64_t bytes;

		memset(shape_value_bytes, 'x', 100 << 10);
		assert_int_equal(sst_writer_new(in_dir("l.sst"), &large.o, &w), 0);
		for (uint32_t i = 0; i < large.n; i++)
			assert_int_equal(
				sst_writer_add(w, shape_key(&large, i), tfs_bytes_of(shape_value_bytes, 100 << 10), false), 0);
		assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
		sst_writer_free(w);
		assert_int_equal(sst_new(cache, in_dir("l.sst"), false, &t), 0);
		assert_int_equal(sst_layout(t, &l), 0);
		assert_int_equal(l.blocks, 1 + 3);
		assert_int_equal(l.units, 2 * 40);
		sst_put(t);
	}
	/* 12 large values have four units each, and the values before each share one */
	t = open_shape(&large_too, "c.sst", false);
	assert_int_equal(sst_layout(t, &l), 0);
	assert_int_equal(l.blocks, 1 + 3);
	assert_int_equal(l.units, 12 * 4 + 12);
	sst_retire(t);
	sst_put(t);
}

/* ---- a large value ---- */
enum { LARGE_BYTES = (3 << 20) + 17, PIECE_MOST = 64 << 10 };

static uint8_t large_byte(uint64_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

static int large_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	static uint8_t piece[PIECE_MOST];

	assert_in_range(n, 1, PIECE_MOST);
	assert_true(offset <= it->size && n <= it->size - offset);
	for (size_t i = 0; i < n; i++)
		piece[i] = large_byte(offset + i);
	*out = tfs_bytes_of(piece, n);
	return 0;
}

/* The writer takes it by pieces, and a read of a part reads the units of that part. */
static void large_values(void **state)
{
	static const struct iter_ops ops = {.load = large_load};
	struct iter from = {.ops = &ops, .key = tfs_str("large"), .size = LARGE_BYTES};
	static const size_t parts[][2] = {{0, 1}, {LARGE_BYTES - 1, 1}, {65535, 2}, {1 << 20, 128 << 10}, {0, LARGE_BYTES}};
	struct sst_options o = {.codec = SST_ZSTD_DICT, .level = 3};
	uint8_t *p = malloc(LARGE_BYTES);
	struct sst_cache_stats before, after;
	struct sst_writer *w;
	struct iter *it;
	struct sst *t;
	uint64_t bytes;

	assert_non_null(p);
	assert_int_equal(sst_writer_new(in_dir("b.sst"), &o, &w), 0);
	assert_int_equal(sst_writer_add(w, tfs_str("a"), tfs_str("before"), false), 0);
	assert_int_equal(sst_writer_add_from(w, &from, false), 0);
	assert_int_equal(sst_writer_add(w, tfs_str("z"), tfs_str("after"), false), 0);
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	assert_int_equal(sst_new(cache, in_dir("b.sst"), false, &t), 0);
	assert_int_equal(sst_iter_new(t, &it), 0);
	iter_seek(it, tfs_str("b"));
	assert_true(it->valid && bytes_eq(it->key, tfs_str("large")) && it->size == LARGE_BYTES);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		const size_t at = parts[i][0], n = parts[i][1];

		sst_cache_get_stats(cache, &before);
		assert_int_equal(iter_read(it, at, n, p), 0);
		sst_cache_get_stats(cache, &after);
		assert_in_range(after.blocks_read - before.blocks_read, 0, (at + n - 1) / PIECE_MOST - at / PIECE_MOST + 1);
		for (size_t k = 0; k < n; k++)
			assert_true(p[k] == large_byte(at + k));
	}
	iter_next(it);
	assert_true(it->valid && value_is(it, tfs_str("after")));
	iter_free(it);
	sst_put(t);
	free(p);
}

static void empty_table(void **state)
{
	struct shape s = {{SST_ZSTD, 3, 65536, 10, false}, 0, 16, 0, 0};
	struct sst *t;
	struct iter *it;

	check_file(&s, "t.sst");
	t = open_shape(&s, "e.sst", true);
	assert_false(sst_may_contain(t, tfs_bytes_of("", 0), tfs_str("zzz"), tfs_str("every row")));
	assert_int_equal(sst_iter_new(t, &it), 0);
	iter_seek(it, tfs_bytes_of("", 0));
	assert_false(it->valid);
	assert_int_equal(it->err, 0);
	iter_free(it);
	sst_put(t);
}

static void callers_mistakes(void **state)
{
	struct sst_options o = {SST_ZSTD, 3, 4096, 10, false};
	struct sst_writer *w, *again = NULL;
	uint8_t *big = calloc(1, (1 << 20) + 1);
	uint64_t bytes, keys = 0;
	char *why;

	assert_int_equal(sst_writer_new(in_dir("w.sst"), &o, &w), 0);
	assert_int_equal(sst_writer_new(in_dir("w.sst"), &o, &again), -EEXIST);
	assert_true(exists("w.sst")); /* the loser does not take the winner's file away */
	assert_int_equal(sst_writer_add(w, tfs_str("b"), tfs_str("1"), false), 0);
	assert_int_equal(sst_writer_add(w, tfs_str("b"), tfs_str("2"), false), -EINVAL);
	assert_int_equal(sst_writer_add(w, tfs_str("a"), tfs_str("2"), false), -EINVAL);
	assert_int_equal(sst_writer_add(w, tfs_bytes_of("", 0), tfs_str("2"), true), -EINVAL);
	assert_int_equal(sst_writer_add(w, tfs_str("c"), tfs_bytes_of("", 0), false), 0);
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of(big, (1 << 20) + 1), &bytes), -EINVAL);
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of(big, 1 << 20), &bytes), 0);
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of(big, 0), &bytes), -EINVAL);
	assert_int_equal(sst_verify(in_dir("w.sst"), 0, &keys, &why), 0);
	assert_int_equal(keys, 2);
	assert_int_equal(sst_writer_add(w, tfs_str("d"), tfs_bytes_of("", 0), false), -EINVAL);
	sst_writer_free(w);
	assert_true(exists("w.sst"));
	o.codec = SST_CODECS;
	assert_int_equal(sst_writer_new(in_dir("x.sst"), &o, &w), -EINVAL);
	o.codec = SST_ZSTD;
	assert_int_equal(sst_writer_new(in_dir("u.sst"), &o, &w), 0);
	sst_writer_free(w); /* unfinished: unlinked */
	assert_false(exists("u.sst"));
	sst_writer_free(NULL);
	free(big);
}

/* 20,000 cells that are like one of 64 pages, in small blocks. */
static uint64_t write_pages(const char *name, enum sst_codec codec)
{
	struct sst_options o = {codec, 3, 4096, 0, false};
	struct sst_writer *w;
	uint64_t bytes = 0;
	char k[16], page[400];

	assert_int_equal(sst_writer_new(in_dir(name), &o, &w), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t like = i * 2654435761u >> 26, seed = like + 1;

		for (unsigned j = 0; j < sizeof(page); j++)
			page[j] = (char)('a' + ((seed = seed * 1664525u + 1013904223u) >> 16) % 26);
		snprintf(page, 16, "%u", i * 7919);
		snprintf(k, sizeof(k), "%08u", i);
		assert_int_equal(sst_writer_add(w, tfs_str(k), tfs_bytes_of(page, sizeof(page)), false), 0);
	}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	return bytes;
}

/* Dictionaries pay on many small blocks alike and are dropped where they do not. */
static void dictionaries(void **state)
{
	uint64_t plain = write_pages("p.sst", SST_ZSTD), dict = write_pages("d.sst", SST_ZSTD_DICT), keys;
	struct sst_options o = {SST_ZSTD_DICT, 3, 65536, 0, false};
	struct sst_writer *w;
	struct sst_layout l;
	struct sst *t;
	uint8_t noise[1000];
	uint32_t seed = 1;
	char *why;

	assert_true(dict < plain / 2);
	assert_int_equal(sst_verify(in_dir("d.sst"), 0, &keys, &why), 0);
	assert_int_equal(keys, 20000);

	/* over 4 MiB of noise: trained on, of no use, and every block raw */
	assert_int_equal(sst_writer_new(in_dir("n.sst"), &o, &w), 0);
	for (uint32_t i = 0; i < 6000; i++) {
		char k[16];

		for (unsigned j = 0; j < sizeof(noise); j++)
			noise[j] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 16);
		snprintf(k, sizeof(k), "%08u", i);
		assert_int_equal(sst_writer_add(w, tfs_str(k), tfs_bytes_of(noise, sizeof(noise)), false), 0);
	}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &plain), 0);
	sst_writer_free(w);
	assert_int_equal(sst_new(cache, in_dir("n.sst"), false, &t), 0);
	assert_int_equal(sst_layout(t, &l), 0);
	assert_true(l.file_bytes < l.raw_bytes + 4096);
	sst_put(t);
}

static void filters(void **state)
{
	struct shape s = {{SST_SNAPPY, 0, 4096, 10, false}, 150000, 16, 0, 0};
	struct sst *t = open_shape(&s, "f.sst", false);
	struct tfs_bytes all = tfs_str("zzz"), none = tfs_bytes_of("", 0);
	uint8_t a[32], b[32];
	struct iter *none_it;
	unsigned wrong = 0;
	struct sst_cache_stats st;

	for (uint32_t i = 0; i < s.n; i += 7) {
		struct tfs_bytes k = shape_key_in(&s, 2 * i, a);

		assert_true(sst_may_contain(t, k, k, k));
		assert_true(sst_may_contain(t, none, all, k));
	}
	for (uint32_t i = 0; i < s.n; i += 7) {
		struct tfs_bytes k = shape_key_in(&s, 2 * i + 1, a);

		wrong += sst_may_contain(t, k, k, k);
	}
	assert_true(wrong < s.n / 7 / 50); /* 2%; 10 bits give 1% */
	assert_true(sst_may_contain(t, none, all, tfs_str("every row")));
	assert_false(sst_may_contain(t, none, tfs_str("a"), tfs_str("every row")));
	assert_false(sst_may_contain(t, tfs_str("s"), all, tfs_str("every row")));
	/* a probe lives in its partition alone ... */
	assert_false(sst_may_contain(t, shape_key_in(&s, 2 * 70000, a), shape_key_in(&s, 2 * 120000, b), shape_key(&s, 0)));
	/* ... and a range over the border finds it on either side */
	assert_true(sst_may_contain(t, shape_key_in(&s, 2 * 65530, a), shape_key_in(&s, 2 * 65540, b), shape_key(&s, 2 * 65535)));
	assert_true(sst_may_contain(t, shape_key_in(&s, 2 * 65530, a), shape_key_in(&s, 2 * 65540, b), shape_key(&s, 2 * 65536)));
	assert_true(
		sst_may_contain(t, shape_key_in(&s, 2 * 65535 + 1, a), shape_key_in(&s, 2 * 65536, b), shape_key(&s, 2 * 65536)));
	sst_cache_get_stats(cache, &st);
	assert_true(st.probes > 40000 && st.probe_misses > 20000);
	assert_int_equal(st.blocks_read, 0); /* no data block was read for a probe */
	sst_put(t);
	/* without filters every answer is maybe */
	s.o.bloom_bits = 0;
	s.n = 10;
	t = open_shape(&s, "nf.sst", false);
	assert_true(sst_may_contain(t, tfs_str("a"), tfs_str("b"), tfs_str("x")));
	sst_put(t);
	/* nor can a file that is not there say no; its absence is not the cell's */
	assert_int_equal(sst_new(cache, in_dir("absent.sst"), false, &t), 0);
	assert_int_equal(sst_iter_new(t, &none_it), -EIO);
	assert_true(sst_may_contain(t, tfs_str("a"), tfs_str("b"), tfs_str("x")));
	sst_put(t);
}

static void writer_partitions(void **state)
{
	struct sst_options o = {SST_NONE, 0, 65536, 10, false};
	struct sst_writer *w;
	struct sst *t;
	uint64_t bytes;
	uint8_t k[8];

	/* one row over two partitions: the caller repeats the row's probe when the number changes */
	assert_int_equal(sst_writer_new(in_dir("r.sst"), &o, &w), 0);
	for (uint32_t i = 0, part = UINT32_MAX; i < 65536 + 10; i++) {
		if (sst_writer_partition(w) != part) {
			part = sst_writer_partition(w);
			assert_int_equal(part, i / 65536);
			assert_int_equal(sst_writer_probe(w, tfs_str("row")), 0);
		}
		put_be64(k, i);
		assert_int_equal(sst_writer_add(w, tfs_bytes_of(k, 8), tfs_bytes_of("", 0), false), 0);
	}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	assert_int_equal(sst_new(cache, in_dir("r.sst"), false, &t), 0);
	put_be64(k, 65540);
	assert_true(sst_may_contain(t, tfs_bytes_of(k, 8), tfs_bytes_of(k, 8), tfs_str("row")));
	assert_false(sst_may_contain(t, tfs_bytes_of(k, 8), tfs_bytes_of(k, 8), tfs_str("other")));
	sst_put(t);
}

/* Pooled iterators: more at once than are kept, each with its own position, still right when taken again. */
static void many_iterators(void **state)
{
	struct shape s = {{SST_ZSTD, 1, 4096, 0, false}, 3000, 16, 100, 0};
	struct sst *t = open_shape(&s, "m.sst", true);
	struct iter *it[12];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 12; i++) {
			assert_int_equal(sst_iter_new(t, &it[i]), 0);
			assert_false(it[i]->valid);
			iter_seek(it[i], shape_key(&s, 2 * (i * 200 + round)));
		}
		for (unsigned i = 0; i < 12; i++) {
			assert_int_equal(shape_at(&s, it[i], i * 200 + round), 0);
			iter_next(it[i]);
			assert_int_equal(shape_at(&s, it[i], i * 200 + round + 1), 0);
		}
		for (unsigned i = 0; i < 12; i++)
			iter_free(it[i]);
	}
	/* an iterator keeps the file after the last put of its owner, and a retired file is reported when it ends */
	assert_int_equal(sst_iter_new(t, &it[0]), 0);
	sst_retire(t);
	sst_put(t);
	assert_true(exists("m.sst"));
	iter_seek(it[0], shape_key(&s, 2 * 2999));
	assert_int_equal(shape_at(&s, it[0], 2999), 0);
	iter_free(it[0]);
	assert_false(exists("m.sst"));
}

/* A scan for compaction leaves nothing in the block cache; an ordinary read does. */
static void scans_displace_nothing(void **state)
{
	struct shape s = {{SST_ZSTD, 1, 4096, 0, false}, 3000, 16, 100, 0};
	struct sst *t = open_shape(&s, "m.sst", false);
	struct sst_cache_stats st;
	struct iter *it;

	assert_int_equal(sst_scan_new(t, &it), 0);
	for (iter_seek(it, tfs_bytes_of("", 0)); it->valid; iter_next(it))
		;
	assert_int_equal(it->err, 0);
	iter_free(it);
	sst_cache_get_stats(cache, &st);
	assert_int_equal(st.block_bytes, 0);
	assert_true(st.blocks_read > 10);
	assert_int_equal(sst_iter_new(t, &it), 0);
	iter_seek(it, tfs_bytes_of("", 0));
	iter_free(it);
	sst_cache_get_stats(cache, &st);
	assert_true(st.block_bytes > 0);
	sst_put(t);
}

/* ---- the cache of open tables ---- */
enum { TABLES = 40 };
static struct shape small = {{SST_ZSTD, 1, 2048, 10, false}, 300, 16, 100, 0};

/* Bounds hold, tables come back, and their blocks are found again. */
static void tables_come_and_go(void **state)
{
	struct sst_cache *c;
	struct sst *t[TABLES];
	struct sst_cache_stats st;
	struct iter *it;
	uint64_t bytes, reads;
	char name[32];

	assert_int_equal(sst_cache_new(32 << 20, 20 << 10, &c), 0);
	for (unsigned i = 0; i < TABLES; i++) {
		snprintf(name, sizeof(name), "%u.sst", i);
		assert_int_equal(shape_write(&small, in_dir(name), &bytes), 0);
		assert_int_equal(sst_new(c, in_dir(name), false, &t[i]), 0);
	}
	for (unsigned round = 0; round < 3; round++) {
		sst_cache_get_stats(c, &st);
		reads = st.blocks_read;
		for (unsigned i = 0; i < TABLES; i++) {
			assert_int_equal(sst_iter_new(t[i], &it), 0);
			iter_seek(it, shape_key(&small, 2 * i));
			assert_true(it->valid && bytes_eq(it->key, shape_key(&small, 2 * i)));
			iter_free(it);
			sst_cache_get_stats(c, &st);
			assert_true(st.table_bytes <= 20 << 10);
			assert_true(st.tables_open >= 1 && st.tables_open < TABLES);
		}
		assert_int_equal(st.blocks_read - reads, round ? 0 : TABLES); /* their blocks stay in the cache */
	}
	assert_int_equal(st.table_opens, 3 * TABLES);
	/* pinned ones stay, past the bound; it holds again after their release */
	{
		struct iter *held[TABLES];

		for (unsigned i = 0; i < TABLES; i++) {
			assert_int_equal(sst_iter_new(t[i], &held[i]), 0);
			iter_seek(held[i], shape_key(&small, 0));
		}
		sst_cache_get_stats(c, &st);
		assert_int_equal(st.tables_open, TABLES);
		for (unsigned i = 0; i < TABLES; i++) {
			iter_next(held[i]);
			assert_int_equal(shape_at(&small, held[i], 1), 0);
			iter_free(held[i]);
		}
		sst_cache_get_stats(c, &st);
		assert_true(st.table_bytes <= 20 << 10);
	}
	for (unsigned i = 0; i < TABLES; i++)
		sst_put(t[i]);
	sst_cache_free(c);
}

/* The least recently used is closed first. */
static void the_oldest_goes(void **state)
{
	struct sst_cache *c;
	struct sst *t[TABLES];
	struct sst_cache_stats st;
	uint64_t bytes, opens;
	char name[32];
	struct tfs_bytes k = tfs_str("row.000000000000");

	assert_int_equal(sst_cache_new(1 << 20, 40 << 10, &c), 0);
	for (unsigned i = 0; i < TABLES; i++) {
		snprintf(name, sizeof(name), "%u.sst", i);
		assert_int_equal(shape_write(&small, in_dir(name), &bytes), 0);
		assert_int_equal(sst_new(c, in_dir(name), false, &t[i]), 0);
	}
	for (unsigned i = 1; i < TABLES; i++) { /* 0 is used again after each further number */
		assert_true(sst_may_contain(t[i], k, k, k));
		assert_true(sst_may_contain(t[0], k, k, k));
	}
	sst_cache_get_stats(c, &st);
	assert_int_equal(st.table_opens, TABLES);
	opens = st.table_opens;
	assert_true(sst_may_contain(t[0], k, k, k));
	assert_true(sst_may_contain(t[TABLES - 1], k, k, k));
	sst_cache_get_stats(c, &st);
	assert_int_equal(st.table_opens, opens);
	for (unsigned i = 0; i < TABLES; i++)
		sst_put(t[i]);
	sst_cache_free(c);
}

/* ---- many threads ---- */
static struct sst_cache *shared_cache;
static struct sst *shared[TABLES];
static _Atomic unsigned wrong_answers;

static void *reader(void *arg)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg;
	uint8_t k[64];

	for (unsigned i = 0; i < 1500; i++) {
		struct sst *t = shared[(seed = seed * 1664525u + 1013904223u) >> 16 & 7];
		uint32_t at = (seed = seed * 1664525u + 1013904223u) >> 8;
		struct tfs_bytes key;
		struct iter *it;

		if (sst_new(shared_cache, sst_path(t), false, &t)) { /* another reference */
			wrong_answers++;
			continue;
		}
		at %= small.n - 2;
		key = shape_key_in(&small, 2 * at, k);
		if (!sst_may_contain(t, key, key, key) || sst_iter_new(t, &it)) {
			wrong_answers++;
			sst_put(t);
			continue;
		}
		iter_seek(it, key);
		wrong_answers += !it->valid || !bytes_eq(it->key, key);
		iter_next(it);
		wrong_answers += !it->valid || !bytes_eq(it->key, shape_key_in(&small, 2 * at + 2, k));
		iter_free(it);
		sst_put(t);
	}
	return NULL;
}

/* Tables are closed and opened, blocks evicted, all the time under four readers. */
static void readers_and_eviction(void **state)
{
	struct sst_cache *c;
	struct sst_cache_stats st;
	pthread_t th[4];
	uint64_t bytes;
	char name[32];

	assert_int_equal(sst_cache_new(64 << 10, 4 << 10, &c), 0);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "%u.sst", i);
		assert_int_equal(shape_write(&small, in_dir(name), &bytes), 0);
		assert_int_equal(sst_new(c, in_dir(name), i & 1, &shared[i]), 0);
	}
	shared_cache = c;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&th[i], NULL, reader, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	assert_int_equal(wrong_answers, 0);
	sst_cache_get_stats(c, &st);
	assert_true(st.table_opens > 100);
	assert_true(st.table_bytes <= 4 << 10);
	for (unsigned i = 0; i < 8; i++)
		sst_put(shared[i]);
	sst_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_codec_and_block_size, setup, teardown),
		cmocka_unit_test_setup_teardown(two_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(large_keys_and_chunks, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_table, setup, teardown),
		cmocka_unit_test_setup_teardown(large_values, setup, teardown),
		cmocka_unit_test_setup_teardown(callers_mistakes, setup, teardown),
		cmocka_unit_test_setup_teardown(dictionaries, setup, teardown),
		cmocka_unit_test_setup_teardown(filters, setup, teardown),
		cmocka_unit_test_setup_teardown(writer_partitions, setup, teardown),
		cmocka_unit_test_setup_teardown(many_iterators, setup, teardown),
		cmocka_unit_test_setup_teardown(scans_displace_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(tables_come_and_go, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_and_eviction, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
