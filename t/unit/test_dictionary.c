/* SPDX-License-Identifier: Apache-2.0 */
/* zstd-dict: versions of one column, packed dictionaries, training on samples. */
#include "engine/base/msg.h"
#include "engine/sstable/cache.h"
#include "engine/sstable/sstable.h"
#include "t/lib/value.h"
#include "t/unit/dir.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PAGE_MAX = 700 << 10, MIDDLE = 256 << 10 };

static struct sst_cache *cache;
static const void *const unused[] __attribute__((unused)) = {(const void *)contents, (const void *)exists};

static int setup(void **state)
{
	return test_dir_setup(state) || sst_cache_new(8 << 20, 8 << 20, &cache);
}

static int teardown(void **state)
{
	sst_cache_free(cache);
	return test_dir_teardown(state);
}

static uint32_t next(uint32_t *seed)
{
	return (*seed = *seed * 1664525u + 1013904223u) >> 8;
}

/* Words of 3 to 8 letters out of 16,384, to be the same in any order of calls. */
static void make_text(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t at = 0; at < n;) {
		uint32_t word = next(&seed) % 16384, letters = word * 2654435761u, len = 3 + word % 6;

		for (unsigned i = 0; i < len && at < n; i++, letters = letters * 1664525u + 1013904223u)
			p[at++] = (uint8_t)('a' + (letters >> 24) % 26);
		if (at < n)
			p[at++] = ' ';
	}
}

/* Page i in version v (0 the newest): a few words are others in each. */
static void make_page(uint8_t *p, size_t n, uint32_t i, uint32_t v)
{
	make_text(p, n, i * 7919 + 1);
	for (uint32_t k = 1; k <= v; k++) {
		uint32_t seed = i * 31 + k;

		for (unsigned e = 0; e < 3; e++) {
			size_t at = next(&seed) % (n - 20);

			make_text(p + at, 20, next(&seed));
		}
	}
}

struct table {
	size_t page_bytes;
	uint32_t pages, versions;
	bool forget; /* the writer is not told which are versions */
};

static struct tfs_bytes key_of(uint32_t i, uint32_t v, int n)
{
	static char k[64];

	snprintf(k, sizeof(k), "page%06u.v%02u.%04d", i, v, n);
	return tfs_str(k);
}

static uint64_t write_table(const char *name, const struct table *t, enum sst_codec codec)
{
	struct sst_options o = {.codec = codec, .level = 3, .block_bytes = 65536};
	uint8_t *p = malloc(PAGE_MAX);
	struct sst_writer *w;
	uint64_t bytes;

	assert_non_null(p);
	assert_int_equal(sst_writer_new(in_dir(name), &o, &w), 0);
	for (uint32_t i = 0; i < t->pages; i++)
		for (uint32_t v = 0; v < t->versions; v++) {
			const bool again = v && !t->forget;

			make_page(p, t->page_bytes, i, v);
			assert_int_equal(sst_writer_add(w, key_of(i, v, 0), tfs_bytes_of(p, t->page_bytes), again), 0);
		}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	free(p);
	return bytes;
}

/* Every value, forwards and then in an order that meets older versions first. */
static void read_table(const char *name, const struct table *t)
{
	uint8_t *p = malloc(PAGE_MAX);
	struct iter *it;
	struct sst *s;
	uint64_t keys;
	char *why;

	assert_int_equal(sst_verify(in_dir(name), 0, &keys, &why), 0);
	assert_int_equal(sst_new(cache, in_dir(name), false, &s), 0);
	for (unsigned pass = 0; pass < 2; pass++) {
		assert_int_equal(pass ? sst_iter_new(s, &it) : sst_scan_new(s, &it), 0);
		for (uint32_t n = 0; n < t->pages * t->versions; n++) {
			uint32_t i = n / t->versions, v = pass ? t->versions - 1 - n % t->versions : n % t->versions;

			make_page(p, t->page_bytes, i, v);
			iter_seek(it, key_of(i, v, 0));
			assert_true(it->valid && bytes_eq(it->key, key_of(i, v, 0)));
			assert_true(value_is(it, tfs_bytes_of(p, t->page_bytes)));
		}
		iter_free(it);
	}
	sst_put(s);
	free(p);
}

static void count_codec(FILE *f, uint64_t offset, unsigned counts[BFF_CODEC_AGAINST + 1])
{
	uint8_t header[BFF_BLOCK_HEADER_BYTES];

	assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
	assert_int_equal(fread(header, 1, sizeof(header), f), sizeof(header));
	assert_true(header[4] <= BFF_CODEC_AGAINST);
	counts[header[4]]++;
}

/* Units by codec as they are stored. */
static void count_codecs(const char *name, unsigned counts[BFF_CODEC_AGAINST + 1])
{
	FILE *f = fopen(in_dir(name), "rb");
	uint64_t unit = UINT64_MAX;
	struct iter *it;
	struct sst *s;

	assert_non_null(f);
	memset(counts, 0, (BFF_CODEC_AGAINST + 1) * sizeof(*counts));
	assert_int_equal(sst_new(cache, in_dir(name), false, &s), 0);
	assert_int_equal(sst_scan_new(s, &it), 0);
	for (iter_seek(it, tfs_str("")); it->valid; iter_next(it)) {
		const struct value_ref *v = &((struct sst_iter *)it)->c.value;
		uint64_t offset;
		uint32_t stored;

		if (v->place == VALUE_IN_UNIT && v->unit != unit)
			count_codec(f, v->unit, counts);
		for (uint64_t i = 0; v->place == VALUE_LARGE && value_unit(v, i, &offset, &stored); i++)
			count_codec(f, offset, counts);
		unit = v->unit;
	}
	assert_int_equal(it->err, 0);
	iter_free(it);
	sst_put(s);
	fclose(f);
}

/* Three versions take little more than one, at any size of a page, and are read as written. */
static void versions_cost_little(void **state)
{
	static const struct {
		size_t bytes;
		uint32_t pages;
		bool against; /* more than a unit may have */
	} cases[] = {{5000, 100, false}, {50000, 16, false}, {120000, 8, true}, {200000, 6, true}, {MIDDLE, 5, true},
		{MIDDLE + 1, 5, true}, {PAGE_MAX, 3, true}};
	unsigned counts[BFF_CODEC_AGAINST + 1];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct table one = {cases[i].bytes, cases[i].pages, 1, false}, three = one, told_not;
		uint64_t bytes = write_table("1.sst", &one, SST_ZSTD_DICT);

		three.versions = 3;
		assert_true(write_table("3.sst", &three, SST_ZSTD_DICT) < bytes + bytes / 10);
		read_table("3.sst", &three);
		count_codecs("3.sst", counts);
		assert_int_equal(counts[BFF_CODEC_AGAINST] > 0, cases[i].against);
		unlink(in_dir("1.sst"));
		unlink(in_dir("3.sst"));
		if (cases[i].bytes > MIDDLE) {
			told_not = three;
			told_not.forget = true;
			assert_true(write_table("n.sst", &told_not, SST_ZSTD_DICT) > 2 * bytes);
			read_table("n.sst", &told_not);
			unlink(in_dir("n.sst"));
		}
	}
}

/* Only zstd-dict compresses units against each other. */
static void others_have_no_bases(void **state)
{
	struct table t = {MIDDLE, 4, 3, false};
	unsigned counts[BFF_CODEC_AGAINST + 1];

	for (int codec = 0; codec < SST_CODECS; codec++) {
		if (!sst_is_codec((uint32_t)codec))
			continue;
		write_table("c.sst", &t, (enum sst_codec)codec);
		read_table("c.sst", &t);
		count_codecs("c.sst", counts);
		assert_int_equal(counts[BFF_CODEC_AGAINST] > 0, codec == SST_ZSTD_DICT);
		unlink(in_dir("c.sst"));
	}
}

/* A long column of small versions, and one whose versions have nothing in common, gain nothing and are whole. */
static void unlike_versions(void **state)
{
	struct sst_options o = {.codec = SST_ZSTD_DICT, .level = 3, .block_bytes = 16384};
	unsigned counts[BFF_CODEC_AGAINST + 1];
	uint32_t seed = 5;
	uint8_t noise[3000];
	struct sst_writer *w;
	struct iter *it;
	struct sst *s;
	uint64_t bytes;

	assert_int_equal(sst_writer_new(in_dir("u.sst"), &o, &w), 0);
	for (uint32_t v = 0; v < 3000; v++) {
		for (unsigned i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)next(&seed);
		assert_int_equal(sst_writer_add(w, key_of(1, 0, (int)v), tfs_bytes_of(noise, sizeof(noise)), v > 0), 0);
	}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	count_codecs("u.sst", counts);
	assert_int_equal(counts[BFF_CODEC_AGAINST], 0);
	assert_int_equal(sst_new(cache, in_dir("u.sst"), false, &s), 0);
	assert_int_equal(sst_iter_new(s, &it), 0);
	seed = 5;
	iter_seek(it, key_of(1, 0, 0));
	for (uint32_t v = 0; v < 3000; v++, iter_next(it)) {
		for (unsigned i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)next(&seed);
		assert_true(it->valid && value_is(it, tfs_bytes_of(noise, sizeof(noise))));
	}
	assert_false(it->valid);
	iter_free(it);
	sst_put(s);
}

/* Sites in sequence: pages of a site have a half in common. */
static uint64_t write_sites(const char *name, const struct sst_sample *sample)
{
	struct sst_options o = {.codec = SST_ZSTD_DICT, .level = 3, .block_bytes = 4096, .sample = sample};
	struct sst_writer *w;
	uint8_t p[1000];
	uint64_t bytes;

	assert_int_equal(sst_writer_new(in_dir(name), &o, &w), 0);
	for (uint32_t i = 0; i < 12000; i++) {
		make_text(p, 600, i / 1500 + 1);
		make_text(p + 600, 400, i + 100);
		assert_int_equal(sst_writer_add(w, key_of(i, 0, 0), tfs_bytes_of(p, sizeof(p)), 0), 0);
	}
	assert_int_equal(sst_writer_finish(w, tfs_bytes_of("", 0), &bytes), 0);
	sst_writer_free(w);
	return bytes;
}

/* A dictionary trained on all of a table fits its end too. */
static void samples(void **state)
{
	struct sst_sample all = {0};
	struct buf unit = {0};
	uint64_t first, second;
	struct blockfile *b;
	struct iter *it;
	struct sst *s;

	first = write_sites("a.sst", NULL);
	assert_int_equal(sst_new(cache, in_dir("a.sst"), false, &s), 0);
	assert_int_equal(sst_iter_new(s, &it), 0);
	iter_seek(it, key_of(0, 0, 0));
	for (unsigned i = 0; it->valid; i++, iter_next(it)) { /* every third of units of four pairs */
		if (i / 4 % 3)
			continue;
		assert_int_equal(buf_append_bytes(&unit, value_of(it)), 0);
		if (i % 4 == 3) {
			assert_int_equal(sst_sample_add(&all, buf_bytes(&unit)), 0);
			buf_reset(&unit);
		}
	}
	iter_free(it);
	buf_fini(&unit);
	sst_put(s);
	all.of_bytes = 12000000;
	second = write_sites("b.sst", &all);
	assert_true(second < first - first / 20);
	/* stored packed: well below its size */
	assert_int_equal(blockfile_open(in_dir("b.sst"), 0, NULL, &b), 0);
	assert_true(blockfile_trailer(b)->section[BFF_DICTIONARY].bytes > 0);
	blockfile_close(b);
	sst_sample_fini(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(versions_cost_little, setup, teardown),
		cmocka_unit_test_setup_teardown(others_have_no_bases, setup, teardown),
		cmocka_unit_test_setup_teardown(unlike_versions, setup, teardown),
		cmocka_unit_test_setup_teardown(samples, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
