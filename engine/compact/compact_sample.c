/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples on which the dictionaries of a major compaction are trained: pieces
 * of its output, from all over the tablet (in a web table the pages of one
 * site are adjacent).
 *
 * A dictionary contains bytes of its samples.  So samples are taken from the
 * output of the compaction's filter: cells that it drops (deleted, replaced,
 * hidden by a rule, or of a dropped family) are in no dictionary.  The filter
 * needs the deletes at a row's beginning, so each piece begins at a row, and
 * no row is in two pieces.
 *
 * Small inputs, and inputs of few rows, have no samples.  Then the writer
 * trains on the beginning of its table.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>
#include <stdlib.h>

enum {
	PIECES = 512,
	PIECE_BYTES = 32 << 10,
	READ_MOST = 16 * PIECE_BYTES, /* bytes read for one piece, most of them dropped */
	SAMPLED_LEAST = 8,            /* a group's samples must have this part of SAMPLE_LEAST_BYTES */
};
#define SAMPLE_LEAST_BYTES (UINT64_C(8) << 20)

static int by_row(const void *a, const void *b)
{
	return bytes_cmp(buf_bytes(a), buf_bytes(b));
}

/* Rows at which blocks of the file begin, evenly spread over the tablet's part of it. */
static int vfile_sample_rows(struct vfile *f, unsigned want, struct buf *rows, unsigned *n)
{
	uint64_t lo = 0, hi = f->meta.bytes;
	struct buf key = {0};
	int err = 0;

	if (f->from.n)
		err = sst_offset_of(f->sst, buf_bytes(&f->from), &lo);
	if (!err && f->to.n)
		err = sst_offset_of(f->sst, buf_bytes(&f->to), &hi);
	for (unsigned i = 0; i < want && !err; i++) {
		buf_reset(&key);
		err = sst_key_near(f->sst, lo + (hi - lo) / want * i, &key);
		if (err || (f->from.n && bytes_cmp(buf_bytes(&key), buf_bytes(&f->from)) < 0) ||
			(f->to.n && bytes_cmp(buf_bytes(&key), buf_bytes(&f->to)) >= 0))
			continue;
		err = buf_set(&rows[*n], key.p, cellkey_row_len(buf_bytes(&key)));
		*n += !err;
	}
	buf_fini(&key);
	return err;
}

static struct group_sample *samples_group(struct samples *s, uint16_t group)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].group == group)
			return &s->v[i];
	if (array_grow(&s->v, s->n, sizeof(*s->v)))
		return NULL;
	s->v[s->n] = (struct group_sample){.group = group};
	return &s->v[s->n++];
}

/* Adds an entry as a block stores it: the key without the prefix that it shares with the last key, and the value. */
static int group_sample_add(struct group_sample *g, struct tfs_bytes key, struct tfs_bytes value, size_t shared, size_t unit_bytes)
{
	int err = buf_append(&g->unit, key.p + shared, key.n - shared);

	if (!err)
		err = buf_append_bytes(&g->unit, value);
	if (err || g->unit.n < unit_bytes)
		return err;
	err = sst_sample_add(&g->sample, buf_bytes(&g->unit));
	buf_reset(&g->unit);
	return err;
}

static size_t shared_bytes(struct tfs_bytes a, struct tfs_bytes b)
{
	size_t n = 0;

	while (n < a.n && n < b.n && a.p[n] == b.p[n])
		n++;
	return n;
}

/*
 * From the row on, the first version of each column: older ones are stored as
 * differences and would add nothing to a dictionary.  *last: the key read last.
 */
static int samples_take_piece(
	const struct run_params *p, struct iter *it, struct tfs_bytes row, struct samples *s, struct buf *last)
{
	struct filter filter;
	struct filter_entry e;
	size_t taken = 0, read = 0;
	bool again = false;
	int keep, err = 0;

	filter_init(&filter, &p->rules);
	for (iter_seek(it, row); it->valid && taken < PIECE_BYTES && read < READ_MOST && !err; iter_next(it)) {
		const struct store_group *to;
		struct group_sample *g;
		struct tfs_bytes value;

		read += it->key.n;
		keep = filter_key(&filter, it->key, &e);
		if (keep < 0)
			err = keep;
		if (keep > 0)
			again = last->n > e.column_len && memcmp(last->p, it->key.p, e.column_len) == 0;
		if (keep > 0 && !again) {
			to = run_group(p, e.family);
			err = iter_load(it, 0, it->size < PIECE_BYTES - taken ? (size_t)it->size : PIECE_BYTES - taken, &value);
			if (err)
				break;
			taken += value.n;
			read += value.n;
			g = to->sst.codec == SST_ZSTD_DICT ? samples_group(s, to->id) : NULL;
			if (g)
				err = group_sample_add(
					g, it->key, value, shared_bytes(buf_bytes(last), it->key), to->sst.block_bytes);
			else if (to->sst.codec == SST_ZSTD_DICT)
				err = -ENOMEM;
		}
		if (!err)
			err = buf_set(last, it->key.p, it->key.n);
	}
	filter_fini(&filter);
	return err ? err : it->valid ? 0 : it->err;
}

static int samples_take_all(const struct run_params *p, struct iter *it, struct buf *rows, unsigned n, struct samples *s)
{
	struct buf last = {0};
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		struct tfs_bytes row = buf_bytes(&rows[i]);

		/* A row that was read for one piece is not read for another piece. */
		if (!last.n || (bytes_cmp(row, buf_bytes(&last)) > 0 && !bytes_has_prefix(buf_bytes(&last), row)))
			err = samples_take_piece(p, it, row, s, &last);
	}
	buf_fini(&last);
	return err;
}

/* Sets of_bytes of each group's samples, and drops a group's samples if they are too few. */
static void samples_finish(struct samples *s, uint64_t raw_bytes, uint64_t least_bytes)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n; i++)
		sum += s->v[i].sample.raw.n;
	for (unsigned i = 0; i < s->n; i++) {
		struct sst_sample *one = &s->v[i].sample;

		buf_fini(&s->v[i].unit);
		if (one->raw.n < least_bytes / SAMPLED_LEAST)
			sst_sample_fini(one);
		else
			one->of_bytes = (uint64_t)((double)raw_bytes * (double)one->raw.n / (double)sum);
	}
}

int samples_take(const struct run_params *p, struct iter *it, struct samples *s)
{
	const struct tablet_env *env = p->t->env;
	const uint64_t least_bytes = env->sample_least_bytes ? env->sample_least_bytes : SAMPLE_LEAST_BYTES;
	struct buf *rows;
	uint64_t raw_bytes = 0;
	unsigned n = 0;
	bool wanted = false;
	int err = 0;

	for (unsigned i = 0; i < p->rules.schema->group_count; i++)
		wanted |= p->rules.schema->groups[i].sst.codec == SST_ZSTD_DICT;
	for (unsigned i = 0; p->in && i < p->in->n; i++)
		raw_bytes += vfile_empty(p->in->v[i]) ? 0 : p->in->v[i]->meta.raw_bytes;
	if (!wanted || !p->rules.major || raw_bytes < least_bytes)
		return 0;
	rows = calloc(PIECES + p->in->n, sizeof *rows);
	if (!rows)
		return -ENOMEM;
	for (unsigned i = 0; i < p->in->n && !err; i++) {
		struct vfile *f = p->in->v[i];

		if (!vfile_empty(f))
			err = vfile_sample_rows(f, (unsigned)(f->meta.raw_bytes * PIECES / raw_bytes) + 1, rows, &n);
	}
	if (!err && n) {
		qsort(rows, n, sizeof *rows, by_row);
		err = samples_take_all(p, it, rows, n, s);
	}
	for (unsigned i = 0; i < n; i++)
		buf_fini(&rows[i]);
	free(rows);
	samples_finish(s, raw_bytes, least_bytes);
	return err;
}

const struct sst_sample *samples_of(const struct samples *s, uint16_t group)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].group == group && s->v[i].sample.raw.n)
			return &s->v[i].sample;
	return NULL;
}

void samples_fini(struct samples *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		buf_fini(&s->v[i].unit);
		sst_sample_fini(&s->v[i].sample);
	}
	free(s->v);
	*s = (struct samples){0};
}
