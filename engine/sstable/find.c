/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads of one table: from the cell cache, else by filter, index and
 * block.
 *
 * A cell found in the file is added to the cell cache when its value is loaded from a
 * unit.  A value that is in the block of keys is added if the block was read for it, or
 * while the cache has space.  A cell is not added if it is the next one
 * after the last cell found: a reader in key order has the block already and
 * does not return.  A cached cell is returned as an iterator on it.  When the
 * caller moves that iterator to older versions or to the chunks of a large
 * value, it continues in the file.
 */
#include "engine/sstable/cache.h"

#include <errno.h>
#include <stdlib.h>

/* ---- filters ---- */
/* The last partition whose first key is <= key, or 0. */
static size_t partition_of(const struct bff_filters *f, struct tfs_bytes key)
{
	size_t lo = 0, hi = f->n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (bytes_cmp(f->part[mid].first, key) <= 0)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static bool filters_match(const struct bff_filters *f, struct tfs_bytes from, struct tfs_bytes to, struct tfs_bytes probe)
{
	uint64_t h;

	if (f->n == 0 || bytes_cmp(from, f->last) > 0)
		return false;
	h = hash64(probe, 0);
	for (size_t i = partition_of(f, from); i < f->n && bytes_cmp(f->part[i].first, to) <= 0; i++)
		if (ldb_filter_match(h, f->part[i].filter))
			return true;
	return false;
}

/* t is pinned. */
static bool may_contain(struct open_table *t, struct tfs_bytes from, struct tfs_bytes to, struct tfs_bytes probe)
{
	struct sst_cache *c = t->sst->cache;
	bool may;

	if (!t->has_filters)
		return true;
	may = filters_match(&t->filters, from, to, probe);
	atomic_fetch_add_explicit(&c->probes, 1, memory_order_relaxed);
	if (!may)
		atomic_fetch_add_explicit(&c->probe_misses, 1, memory_order_relaxed);
	return may;
}

bool sst_may_contain(struct sst *s, struct tfs_bytes from, struct tfs_bytes to, struct tfs_bytes probe)
{
	struct open_table *t;
	bool may;

	if (sst_pin(s, &t))
		return true;
	may = may_contain(t, from, to, probe);
	sst_unpin(s);
	return may;
}

/* ---- a cached cell as an iterator ---- */
struct found_iter {
	struct iter it; /* first */
	struct sst *sst;
	struct lru_entry *cell; /* the current cell, until the iterator is moved */
	struct iter *real;      /* the file's iterator, after that */
};

/* Makes the real iterator.  Returns false if that fails. */
static bool found_open(struct found_iter *f)
{
	int err = f->real ? 0 : sst_iter_new(f->sst, &f->real);

	f->it.valid = false;
	f->it.err = err;
	return !err;
}

static void found_copy(struct found_iter *f)
{
	f->it.key = f->real->key;
	f->it.size = f->real->size;
	f->it.value = f->real->value;
	f->it.valid = f->real->valid;
	f->it.err = f->real->err;
	lru_release(sst_lru(f->sst), f->cell);
	f->cell = NULL;
}

static void found_seek(struct iter *it, struct tfs_bytes target)
{
	struct found_iter *f = (struct found_iter *)it;

	if (!found_open(f))
		return;
	iter_seek(f->real, target);
	found_copy(f);
}

static void found_next(struct iter *it)
{
	struct found_iter *f = (struct found_iter *)it;

	if (!found_open(f))
		return;
	if (f->cell)
		iter_seek(f->real, lru_cell_key(f->cell));
	if (f->real->valid)
		iter_next(f->real);
	found_copy(f);
}

static void found_free(struct iter *it)
{
	struct found_iter *f = (struct found_iter *)it;

	iter_free(f->real);
	lru_release(sst_lru(f->sst), f->cell);
	free(f);
}

static int found_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	return iter_load(((struct found_iter *)it)->real, offset, n, out);
}

static const struct iter_ops found_ops = {found_seek, found_next, found_free, NULL, found_load};

static int found_new(struct sst *s, struct lru_entry *cell, struct iter **out)
{
	struct found_iter *f = malloc(sizeof(*f));

	if (!f) {
		lru_release(sst_lru(s), cell);
		return -ENOMEM;
	}
	*f = (struct found_iter){
		.it = {.ops = &found_ops,
			.key = lru_cell_key(cell),
			.size = lru_cell_value(cell).n,
			.value = lru_cell_value(cell).p,
			.valid = true},
		.sst = s,
		.cell = cell,
	};
	*out = &f->it;
	return 0;
}

/* ---- finding ---- */
int sst_find(struct sst *s, struct tfs_bytes prefix, struct tfs_bytes to, struct tfs_bytes probe, struct iter **out)
{
	struct lru_entry *cell = lru_cell_find(sst_lru(s), s->file, prefix);
	struct ldb_cursor *c;
	struct open_table *t;
	struct iter *it;
	int err;

	if (cell)
		return found_new(s, cell, out);
	err = sst_pin(s, &t);
	if (err)
		return err;
	if (!may_contain(t, prefix, to, probe)) {
		sst_unpin(s);
		*out = NULL;
		return 0;
	}
	atomic_fetch_add_explicit(&s->cache->cell_misses, 1, memory_order_relaxed);
	err = sst_iter_take(s, t, true, &it);
	if (err)
		return err;
	iter_seek(it, prefix);
	if (!it->valid || !bytes_has_prefix(it->key, prefix)) {
		err = it->valid ? 0 : it->err;
		iter_free(it);
		if (!err)
			*out = NULL;
		return err;
	}
	c = (struct ldb_cursor *)it;
	if (!c->rising && it->value)
		lru_cell_add(sst_lru(s), s->file, prefix.n, it->key, tfs_bytes_of(it->value, (size_t)it->size), c->read);
	else if (!c->rising && it->size <= LRU_CELL_MAX)
		((struct sst_iter *)it)->found = prefix.n;
	*out = it;
	return 0;
}
