/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rival: a LevelDB database through its C API, with its own defaults
 * (Snappy, 4 KiB blocks, a write buffer of 4 MB) except for the block cache, a
 * Bloom filter of 10 bits as ours, and the write buffer if a line sets it.
 */
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <leveldb/c.h>
#include <stdlib.h>

struct rival {
	leveldb_t *db;
	leveldb_options_t *options;
	leveldb_cache_t *cache;
	leveldb_filterpolicy_t *filter;
	leveldb_readoptions_t *read;
	leveldb_writeoptions_t *write, *write_sync;
};

static int failed(char *error)
{
	if (!error)
		return 0;
	complain("leveldb: %s", error);
	leveldb_free(error);
	return -EIO;
}

static void rival_close(void *db)
{
	struct rival *l = db;

	if (l->db)
		leveldb_close(l->db);
	leveldb_readoptions_destroy(l->read);
	leveldb_writeoptions_destroy(l->write);
	leveldb_writeoptions_destroy(l->write_sync);
	leveldb_options_destroy(l->options);
	leveldb_filterpolicy_destroy(l->filter);
	leveldb_cache_destroy(l->cache);
	free(l);
}

static void *rival_open(const struct side_options *o)
{
	struct rival *l = calloc(1, sizeof(*l));
	char *error = NULL;

	if (!l) {
		complain("%s", strerror(ENOMEM));
		return NULL;
	}
	l->options = leveldb_options_create();
	l->cache = leveldb_cache_create_lru(o->cache_bytes);
	l->filter = leveldb_filterpolicy_create_bloom(10);
	l->read = leveldb_readoptions_create();
	l->write = leveldb_writeoptions_create();
	l->write_sync = leveldb_writeoptions_create();
	leveldb_writeoptions_set_sync(l->write_sync, 1);
	leveldb_options_set_create_if_missing(l->options, 1);
	leveldb_options_set_cache(l->options, l->cache);
	leveldb_options_set_filter_policy(l->options, l->filter);
	if (o->plain)
		leveldb_options_set_compression(l->options, leveldb_no_compression);
	if (o->memtable_bytes)
		leveldb_options_set_write_buffer_size(l->options, o->memtable_bytes);
	if (o->fresh && remove_tree(o->dir)) {
		complain("%s: cannot be removed", o->dir);
		rival_close(l);
		return NULL;
	}
	l->db = leveldb_open(l->options, o->dir, &error);
	if (failed(error)) {
		rival_close(l);
		return NULL;
	}
	return l;
}

static int rival_put(void *db, const char *key, uint64_t number, struct tfs_bytes value, bool sync)
{
	struct rival *l = db;
	char *error = NULL;

	leveldb_put(l->db, sync ? l->write_sync : l->write, key, BENCH_KEY_BYTES, (const char *)value.p, value.n, &error);
	return failed(error);
}

static long rival_get(void *db, const char *key, void *p, size_t n, uint64_t *sum)
{
	struct rival *l = db;
	char *error = NULL, *value;
	size_t got = 0;

	(void)p; /* it makes its own */
	value = leveldb_get(l->db, l->read, key, BENCH_KEY_BYTES, &got, &error);
	if (failed(error))
		return -EIO;
	if (!value)
		return -ENOENT;
	*sum += feed_touch(value, got);
	leveldb_free(value);
	return (long)got;
}

static int rival_scan(void *db, const char *from, const char *to, uint64_t limit, uint64_t *cells, uint64_t *sum)
{
	struct rival *l = db;
	leveldb_iterator_t *it = leveldb_create_iterator(l->db, l->read);
	uint64_t n = 0;
	char *error = NULL;

	for (leveldb_iter_seek(it, from, BENCH_KEY_BYTES); leveldb_iter_valid(it); leveldb_iter_next(it)) {
		size_t key_bytes, value_bytes;
		const char *value, *key = leveldb_iter_key(it, &key_bytes);

		if (to && memcmp(key, to, BENCH_KEY_BYTES) >= 0)
			break;
		value = leveldb_iter_value(it, &value_bytes);
		n++;
		*sum += feed_touch(value, value_bytes);
		if (n == limit)
			break;
	}
	leveldb_iter_get_error(it, &error);
	leveldb_iter_destroy(it);
	*cells = n;
	return failed(error);
}

static int rival_compact(void *db)
{
	struct rival *l = db;

	leveldb_compact_range(l->db, NULL, 0, NULL, 0);
	return 0;
}

static int rival_size(const char *dir, uint64_t *bytes)
{
	static const char *const ends[] = {".ldb", ".sst", NULL};

	return sum_files(dir, ends, bytes);
}

const struct side_ops side_leveldb = {
	.name = "leveldb",
	.what = "its defaults (Snappy, 4 KiB blocks, write buffer 4 MB), the same cache, 10 Bloom bits",
	.open = rival_open,
	.close = rival_close,
	.put = rival_put,
	.get = rival_get,
	.scan = rival_scan,
	.compact = rival_compact,
	.size = rival_size,
};
