/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of tables: whole blocks, evenly spread over what will be read of
 * them, so that a dictionary knows every part of a table and not only its
 * beginning (the sites of a web table lie one after the other).
 */
#include "engine/sstable/cache.h"
#include <errno.h>
#include <stdlib.h>

struct range {
	size_t from, to; /* data blocks */
	uint64_t bytes;
};

static struct range range_of(struct ldb_table *t, struct slice from, struct slice to)
{
	struct blockfile *b = ldb_table_file(t);
	const struct bff_map *m = blockfile_map(b);
	struct range r = {.to = blockfile_data_blocks(b)};
	int64_t i;

	if (from.n && (i = bff_map_find(m, ldb_table_offset_of(t, from))) >= 0 && (size_t)i < r.to)
		r.from = (size_t)i;
	if (to.n && (i = bff_map_find(m, ldb_table_offset_of(t, to))) >= 0 && (size_t)i < r.to)
		r.to = (size_t)i + 1;
	if (r.to < r.from)
		r.to = r.from;
	r.bytes = m->at[r.to].logical - m->at[r.from].logical;
	return r;
}

int sst_raw_bytes(struct sst *s, struct slice from, struct slice to, uint64_t *bytes)
{
	struct open_table *t;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	*bytes = range_of(t->ldb, from, to).bytes;
	sst_unpin(s);
	return 0;
}

static int add_block(struct sst_sample *sample, struct blockfile *b, size_t i)
{
	const struct bff_place *at = &blockfile_map(b)->at[i];
	size_t n = (size_t)(at[1].logical - at[0].logical);
	uint32_t *lengths = realloc(sample->lengths, (sample->n + 1) * sizeof(*lengths));
	int err;

	if (!lengths)
		return -ENOMEM;
	sample->lengths = lengths;
	err = buf_reserve(&sample->raw, n);
	if (!err)
		err = blockfile_read(b, at[0].logical, n, sample->raw.p + sample->raw.n);
	if (err)
		return err;
	sample->raw.n += n;
	lengths[sample->n++] = (uint32_t)n;
	return 0;
}

int sst_sample_add(struct sst_sample *sample, struct sst *s, struct slice from, struct slice to, uint64_t bytes)
{
	struct open_table *t;
	struct blockfile *b;
	const struct bff_map *m;
	struct range r;
	uint64_t step, next;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	b = ldb_table_file(t->ldb);
	m = blockfile_map(b);
	r = range_of(t->ldb, from, to);
	step = bytes && bytes < r.bytes ? r.bytes / bytes : 1;
	next = m->at[r.from].logical;
	/* After each block as much is passed over as keeps to one in `step` bytes. */
	for (size_t i = r.from; i < r.to && bytes && !err; i++) {
		if (m->at[i].logical < next)
			continue;
		err = add_block(sample, b, i);
		next = m->at[i].logical + (m->at[i + 1].logical - m->at[i].logical) * step;
	}
	sample->of_bytes += r.bytes;
	sst_unpin(s);
	return err;
}

void sst_sample_fini(struct sst_sample *sample)
{
	buf_fini(&sample->raw);
	free(sample->lengths);
	*sample = (struct sst_sample){0};
}
