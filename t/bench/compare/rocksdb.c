/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rivals: RocksDB through its C API, in two configurations.
 *
 * "rocksdb" has the defaults (Debian's: Snappy, 4 KiB blocks).  "rocksdb-zstd"
 * follows its tuning guide, with zstd at its default level on every level, as
 * we have it: 16 KiB blocks, index and filters in the cache, pinned for L0, the last
 * format, dynamic level sizes.  Both have the lines' cache, full Bloom filters of 10 bits
 * a key, two background jobs as we have, and two write buffers of 64 MiB, which is as
 * much as our memtables.  A line's write buffer is divided into two.
 */
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <rocksdb/c.h>
#include <stdlib.h>

struct rocks {
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_block_based_table_options_t *table;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write, *write_sync;
};

static int failed(char *error)
{
	if (!error)
		return 0;
	complain("rocksdb: %s", error);
	rocksdb_free(error);
	return -EIO;
}

static void rocks_close(void *db)
{
	struct rocks *r = db;

	if (r->db)
		rocksdb_close(r->db);
	rocksdb_readoptions_destroy(r->read);
	rocksdb_writeoptions_destroy(r->write);
	rocksdb_writeoptions_destroy(r->write_sync);
	rocksdb_options_destroy(r->options);
	rocksdb_block_based_options_destroy(r->table);
	rocksdb_cache_destroy(r->cache);
	free(r);
}

static void tune(struct rocks *r)
{
	rocksdb_block_based_options_set_block_size(r->table, 16 << 10);
	rocksdb_block_based_options_set_format_version(r->table, 5);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(r->table, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(r->table, 1);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(r->options, 1);
	rocksdb_options_set_compression(r->options, rocksdb_zstd_compression);
}

static void *rocks_open(const struct side_options *o, bool tuned)
{
	struct rocks *r = calloc(1, sizeof(*r));
	char *error = NULL;

	if (!r) {
		complain("%s", strerror(ENOMEM));
		return NULL;
	}
	r->options = rocksdb_options_create();
	r->table = rocksdb_block_based_options_create();
	r->cache = rocksdb_cache_create_lru(o->cache_bytes);
	r->read = rocksdb_readoptions_create();
	r->write = rocksdb_writeoptions_create();
	r->write_sync = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(r->write_sync, 1);
	rocksdb_options_set_create_if_missing(r->options, 1);
	rocksdb_options_set_max_background_jobs(r->options, 2);
	rocksdb_block_based_options_set_block_cache(r->table, r->cache);
	/* The options own the filter from here on. */
	rocksdb_block_based_options_set_filter_policy(r->table, rocksdb_filterpolicy_create_bloom_full(10));
	if (tuned)
		tune(r);
	if (o->plain)
		rocksdb_options_set_compression(r->options, rocksdb_no_compression);
	if (o->memtable_bytes)
		rocksdb_options_set_write_buffer_size(r->options, o->memtable_bytes / 2);
	rocksdb_options_set_block_based_table_factory(r->options, r->table);
	if (o->fresh && remove_tree(o->dir)) {
		complain("%s: cannot be removed", o->dir);
		rocks_close(r);
		return NULL;
	}
	r->db = rocksdb_open(r->options, o->dir, &error);
	if (failed(error)) {
		rocks_close(r);
		return NULL;
	}
	return r;
}

static void *plain_open(const struct side_options *o)
{
	return rocks_open(o, false);
}

static void *tuned_open(const struct side_options *o)
{
	return rocks_open(o, true);
}

static int rocks_put(void *db, const char *key, uint64_t number, struct tfs_bytes value, bool sync)
{
	struct rocks *r = db;
	char *error = NULL;

	rocksdb_put(r->db, sync ? r->write_sync : r->write, key, BENCH_KEY_BYTES, (const char *)value.p, value.n, &error);
	return failed(error);
}

static long rocks_get(void *db, const char *key, void *p, size_t n, uint64_t *sum)
{
	struct rocks *r = db;
	char *error = NULL;
	rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned(r->db, r->read, key, BENCH_KEY_BYTES, &error);
	const char *value;
	size_t got;

	(void)p; /* the value is read where it lies */
	if (failed(error))
		return -EIO;
	if (!pinned)
		return -ENOENT;
	value = rocksdb_pinnableslice_value(pinned, &got);
	*sum += feed_touch(value, got);
	rocksdb_pinnableslice_destroy(pinned);
	return (long)got;
}

static int rocks_scan(void *db, const char *from, const char *to, uint64_t limit, uint64_t *cells, uint64_t *sum)
{
	struct rocks *r = db;
	rocksdb_iterator_t *it = rocksdb_create_iterator(r->db, r->read);
	uint64_t n = 0;
	char *error = NULL;

	for (rocksdb_iter_seek(it, from, BENCH_KEY_BYTES); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t key_bytes, value_bytes;
		const char *value, *key = rocksdb_iter_key(it, &key_bytes);

		if (to && memcmp(key, to, BENCH_KEY_BYTES) >= 0)
			break;
		value = rocksdb_iter_value(it, &value_bytes);
		n++;
		*sum += feed_touch(value, value_bytes);
		if (n == limit)
			break;
	}
	rocksdb_iter_get_error(it, &error);
	rocksdb_iter_destroy(it);
	*cells = n;
	return failed(error);
}

static int rocks_compact(void *db)
{
	struct rocks *r = db;

	rocksdb_compact_range(r->db, NULL, 0, NULL, 0);
	return 0;
}

static int rocks_size(const char *dir, uint64_t *bytes)
{
	static const char *const ends[] = {".sst", NULL};

	return sum_files(dir, ends, bytes);
}

const struct side_ops
	side_rocksdb =
		{
			.name = "rocksdb",
			.what = "its defaults (Snappy, 4 KiB blocks, 2 write buffers of 64 MiB), the same cache, 10 Bloom bits, 2 background jobs",
			.open = plain_open,
			.close = rocks_close,
			.put = rocks_put,
			.get = rocks_get,
			.scan = rocks_scan,
			.compact = rocks_compact,
			.size = rocks_size,
},
	side_rocksdb_zstd = {
		.name = "rocksdb-zstd",
		.what = "the same with zstd, 16 KiB blocks, index and filters in the cache, dynamic level sizes",
		.open = tuned_open,
		.close = rocks_close,
		.put = rocks_put,
		.get = rocks_get,
		.scan = rocks_scan,
		.compact = rocks_compact,
		.size = rocks_size,
};
