/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting of entries (usage.h).
 *
 * Queries must be cheap, because metrics and df make them often.  So memtables
 * are counted as they are written.  A file's properties are cached in its vfile
 * when the file is written or on the first query, which opens neither index nor
 * filters.  Only a clipped file is opened, once, to find the offsets of the
 * tablet's part.  Readers use the families of a file to skip it.
 *
 * A block may belong to several families, and a file to several tablets.  Both
 * are divided by position.  The share of x from a to b out of c is
 * x * b / c - x * a / c, with each quotient rounded down.  Each share begins
 * where the previous one ends, so that the shares add up to the whole.  All
 * cells of a file are assumed to have the same size.
 */
#include "engine/tablet/usage.h"

#include <stdlib.h>

#include "engine/tablet/view.h"

/* ---- memtables ---- */

struct mem_family *mem_usage_family(struct mem_usage *u, uint16_t id)
{
	struct mem_family *_Atomic *list = &u->of[id % (sizeof u->of / sizeof u->of[0])];
	struct mem_family *f = atomic_load_explicit(list, memory_order_relaxed);

	while (f && f->id != id)
		f = f->next;
	if (f)
		return f;
	f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->id = id;
	f->next = *list;
	*list = f;
	return f;
}

void mem_usage_fini(struct mem_usage *u)
{
	for (unsigned i = 0; i < sizeof u->of / sizeof u->of[0]; i++) {
		for (struct mem_family *f = u->of[i], *next; f; f = next) {
			next = f->next;
			free(f);
		}
		u->of[i] = NULL;
	}
}

void mem_usage_free(struct mem_usage *u)
{
	if (u)
		mem_usage_fini(u);
	free(u);
}

uint64_t mem_usage_bytes(const struct mem_usage *u)
{
	uint64_t n = 0;

	MEM_USAGE_EACH(f, u)
	n += f->bytes;
	return n;
}

/* ---- files ---- */

static int file_usage_new(const struct props *p, struct file_usage **out)
{
	struct file_usage *u = calloc(1, sizeof *u + p->family_count * sizeof u->families[0]);

	if (!u)
		return -ENOMEM;
	u->raw_bytes = p->raw_bytes;
	u->count = p->family_count;
	if (u->count)
		memcpy(u->families, p->families, u->count * sizeof u->families[0]);
	*out = u;
	return 0;
}

/* Stores u in f, or frees it if another thread has stored one.  Returns the stored one. */
static struct file_usage *vfile_cache_usage(struct vfile *f, struct file_usage *u)
{
	struct file_usage *none = NULL;

	if (atomic_compare_exchange_strong(&f->usage, &none, u))
		return u;
	free(u);
	return none;
}

void vfile_set_usage(struct vfile *f, const struct props *p)
{
	struct file_usage *u;

	if (file_usage_new(p, &u) == 0)
		(void)vfile_cache_usage(f, u);
}

int vfile_usage(struct vfile *f, struct file_usage **out)
{
	struct file_usage *u = atomic_load(&f->usage), *made;
	struct buf blob = {0};
	struct props p;
	int err = 0;

	if (!u) {
		err = sst_properties(f->sst, &blob);
		if (!err)
			err = props_decode(buf_bytes(&blob), &p);
		if (!err) {
			err = file_usage_new(&p, &made);
			props_fini(&p);
		}
		if (!err)
			u = vfile_cache_usage(f, made);
		buf_fini(&blob);
	}
	if (!err)
		*out = u;
	return err;
}

bool vfile_may_have_families(struct vfile *f, const uint16_t *families, unsigned n)
{
	struct file_usage *u;

	if (!families || f->meta.row_deletes || vfile_usage(f, &u))
		return true;
	for (unsigned i = 0; i < u->count; i++)
		for (unsigned k = 0; k < n; k++)
			if (u->families[i].id == families[k])
				return true;
	return false;
}

bool vfile_misplaced(struct vfile *f, const struct store_schema *s)
{
	struct file_usage *u;

	if (vfile_usage(f, &u))
		return false;
	for (unsigned i = 0; i < u->count; i++) {
		const struct store_family *family = store_schema_family(s, u->families[i].id);

		if (u->families[i].id && (!family || family->group != f->meta.group))
			return true;
	}
	return false;
}

int vfile_codec(struct vfile *f)
{
	unsigned codec = atomic_load(&f->codec);
	struct sst_layout l;

	if (!codec && sst_layout(f->sst, &l) == 0) {
		codec = 1 + (unsigned)l.codec;
		atomic_store(&f->codec, codec);
	}
	return (int)codec - 1;
}

uint64_t file_part_share(const struct file_part *p, uint64_t x)
{
	return usage_below(x, p->to, p->whole) - usage_below(x, p->from, p->whole);
}

int vfile_part(struct vfile *f, struct file_usage *u, struct file_part *p)
{
	int err;

	*p = (struct file_part){0, 1, 1};
	if (!f->clip)
		return 0;
	*p = (struct file_part){u->from, u->to, u->whole};
	if (p->whole)
		return 0;
	err = sst_offset_of(f->sst, tfs_bytes_of("\xff\xff\xff\xff", 4), &p->whole); /* above every key */
	p->to = p->whole;
	if (!err && f->from.n)
		err = sst_offset_of(f->sst, buf_bytes(&f->from), &p->from);
	if (!err && f->to.n)
		err = sst_offset_of(f->sst, buf_bytes(&f->to), &p->to);
	if (err)
		return err;
	u->from = p->from; /* needs no lock, because all threads compute the same values */
	u->to = p->to;
	u->whole = p->whole;
	return 0;
}

struct file_part vfile_part_or_whole(struct vfile *f)
{
	const struct file_part whole = {0, 1, 1};
	struct file_usage *u;
	struct file_part p;

	return f->clip && !vfile_usage(f, &u) && !vfile_part(f, u, &p) ? p : whole;
}

void vfile_entries(struct vfile *f, uint64_t *cells, uint64_t *tombstones)
{
	struct file_part p = vfile_part_or_whole(f);

	*cells = file_part_share(&p, f->meta.cells);
	*tombstones = file_part_share(&p, f->meta.tombstones);
}
