/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SSTable that is open: its descriptor, index, block map and filters, and
 * the idle iterators on it.  The cache bounds how many are open (cache.c).
 * Damaged filters are logged and not used.
 */
#include "engine/base/msg.h"
#include "engine/sstable/cache.h"

#include <errno.h>
#include <stdlib.h>

enum { OPEN_BYTES = 500 + 840 }; /* the memory of an open table in LevelDB and malloc, and of one idle iterator */

void open_table_iter_free(struct sst_iter *it)
{
	ldb_cursor_fini(&it->c);
	walk_fini(&it->walk);
	value_window_fini(&it->window);
	free(it);
}

void open_table_close(struct open_table *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < IDLE_CURSORS; i++) {
		struct sst_iter *it = atomic_load(&t->idle[i]);

		if (it)
			open_table_iter_free(it);
	}
	ldb_table_close(t->ldb);
	bff_filters_fini(&t->filters);
	buf_fini(&t->filter_bytes);
	free(t);
}

/* Damaged filters are logged; the table then has none. */
static int load_filters(struct open_table *t, struct blockfile *b)
{
	const struct bff_section *sec = &blockfile_trailer(b)->section[BFF_FILTERS];
	int err;

	if (sec->bytes == 0)
		return 0;
	err = blockfile_section(b, BFF_FILTERS, &t->filter_bytes);
	if (!err) {
		err = bff_filters_decode(buf_bytes(&t->filter_bytes), blockfile_trailer(b)->partitions, &t->filters);
		if (err == -EBADMSG)
			msg_damage("%s: damaged: filters at offset %llu", blockfile_path(b), (unsigned long long)sec->offset);
	}
	t->has_filters = !err;
	if (err == -EBADMSG) {
		buf_fini(&t->filter_bytes);
		err = 0;
	}
	return err;
}

static size_t weight_of(const struct open_table *t, struct blockfile *b)
{
	const struct bff_map *m = blockfile_map(b);
	size_t w = OPEN_BYTES + sizeof(*t) + blockfile_memory(b) + t->filter_bytes.cap + t->filters.n * sizeof(*t->filters.part);

	if (m->n >= 2) /* the index comes before the footer */
		w += bff_map_raw(m, m->n - 2);
	return w;
}

int open_table_new(struct sst *s, struct open_table **out)
{
	struct open_table *t = calloc(1, sizeof(*t));
	struct blockfile *b = NULL;
	int err;

	if (!t)
		return -ENOMEM;
	t->sst = s;
	err = blockfile_open(s->path, s->bytes, &s->cache->counters, &b);
	if (!err)
		err = load_filters(t, b);
	if (err) {
		blockfile_close(b);
		err = err == -ENOENT ? -EIO : err; /* the file is missing, not the cell */
		goto out;
	}
	err = ldb_table_open(b, sst_lru(s), lru_file_number(s->file), &t->ldb);
	if (err)
		goto out;
	t->weight = weight_of(t, b);
	t->block_bytes = blockfile_data_block_max(b) + 1;
	*out = t;
	t = NULL;
	atomic_fetch_add_explicit(&s->cache->table_opens, 1, memory_order_relaxed);
out:
	open_table_close(t);
	return err;
}
