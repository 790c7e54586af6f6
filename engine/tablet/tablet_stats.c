/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers about a tablet, and about each family in it.
 */
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

/* Counts the entries of the tablet's rows in a shared memtable. */
static int mem_usage_count_shared(struct tablet *t, struct vmem *m, struct mem_usage *u)
{
	struct iter *it;
	int err = tablet_mem_iter(t, m, &it);

	if (err)
		return err;
	for (iter_seek(it, tfs_bytes_of(NULL, 0)); it->valid && !err; iter_next(it)) {
		size_t column_len = cellkey_column_len(it->key);
		struct mem_family *f;
		enum cell_kind kind;
		uint64_t seq;
		int64_t ts;

		cellkey_suffix(it->key, column_len, &ts, &seq, &kind);
		f = mem_usage_family(u, load_be16(it->key.p + cellkey_row_len(it->key)));
		if (!f) {
			err = -ENOMEM;
			break;
		}
		f->cells += kind == CELL_VALUE;
		f->tombstones += kind < CELL_VALUE;
		f->bytes += it->key.n + it->size;
	}
	if (!err)
		err = it->err;
	iter_free(it);
	return err;
}

/* Of a memtable that is shared since a split, changes have no counts of their own: the tablet's part is that of the cells. */
static uint64_t tablet_mem_changes(const struct vmem *m, const struct mem_usage *u)
{
	const uint64_t bytes = m->changes ? memtable_bytes(m->changes) : 0;

	return u == &m->usage ? bytes : usage_below(bytes, mem_usage_bytes(u), mem_usage_bytes(&m->usage));
}

/*
 * Sets *out to the entries by family, and *memory to the bytes, of the tablet's
 * part of memtable i of a view.  The part of a memtable that is shared since a
 * split is counted once and kept in the view.
 */
static int tablet_mem_usage(struct tablet *t, struct view *v, unsigned i, const struct mem_usage **out, uint64_t *memory)
{
	struct vmem *m = v->mems[i];
	struct mem_usage *u = v->parts[i], *none = NULL;
	int err;

	*memory = memtable_bytes(m->m);
	if (!m->shared) {
		*out = &m->usage;
		return 0;
	}
	if (!u) {
		u = calloc(1, sizeof *u);
		err = u ? mem_usage_count_shared(t, m, u) : -ENOMEM;
		if (err) {
			mem_usage_free(u);
			return err;
		}
		if (!atomic_compare_exchange_strong(&v->parts[i], &none, u)) {
			mem_usage_free(u);
			u = none;
		}
	}
	*memory = usage_below(*memory, mem_usage_bytes(u), mem_usage_bytes(&m->usage));
	*out = u;
	return 0;
}

/* ---- the tablet ---- */

static const char *const state_names[] = {
#define X(name, text, error) [TABLET_##name] = text,
	TABLET_STATES(X)
#undef X
};

void tablet_get_stats(struct tablet *t, struct tablet_stats *s)
{
	struct snap snap;
	struct tablet_stats st = {0};

	tablet_enter(t);
	snap_take(t, &snap);
	st.seq = snap.seq;
	st.memtables = snap.view->mem_count;
	st.files = snap.view->file_count;
	st.state = state_names[atomic_load(&t->state)];
	st.flushing = t->flushing;
	st.merging = t->merging;
	st.majoring = t->majoring;
	st.behind = atomic_load(&t->debt) > FILES_FREE;
	for (unsigned i = 0; i < snap.view->mem_count; i++) {
		const struct mem_usage *u;
		uint64_t memory;

		if (tablet_mem_usage(t, snap.view, i, &u, &memory))
			u = &snap.view->mems[i]->usage;
		st.memory_bytes += memory;
		st.changes_memory_bytes += tablet_mem_changes(snap.view->mems[i], u);
		MEM_USAGE_EACH(f, u)
		{
			st.cells += f->cells;
			st.tombstones += f->tombstones;
		}
	}
	for (unsigned i = 0; i < snap.view->file_count; i++) {
		struct vfile *f = snap.view->files[i];
		struct file_part p;

		if (vfile_empty(f))
			continue;
		p = vfile_part_or_whole(f);
		st.disk_bytes += file_part_share(&p, f->meta.bytes);
		st.raw_bytes += file_part_share(&p, f->meta.raw_bytes);
		st.cells += file_part_share(&p, f->meta.cells);
		st.tombstones += file_part_share(&p, f->meta.tombstones);
	}
	/* The rows of a file of changes are not in order, so the tablets that share it count equal parts, until they have merged it. */
	for (unsigned i = snap.view->file_count; i < view_all_files(snap.view); i++)
		if (!vfile_empty(snap.view->files[i]))
			st.changes_disk_bytes += snap.view->files[i]->meta.bytes / sst_shares(snap.view->files[i]->sst);
	snap_put(&snap);
	tablet_leave(t);
	*s = st;
}

/* Returns the family's entry, and adds it in id order if it is new.  NULL: out of memory. */
static struct tablet_family *tablet_family_entry(struct tablet_family **v, unsigned *n, uint16_t id)
{
	unsigned at = *n;

	while (at > 0 && (*v)[at - 1].id > id)
		at--;
	if (at > 0 && (*v)[at - 1].id == id)
		return &(*v)[at - 1];
	if (array_grow(v, *n, sizeof(**v)))
		return NULL;
	memmove(*v + at + 1, *v + at, ((*n)++ - at) * sizeof(**v));
	(*v)[at] = (struct tablet_family){.id = id};
	return &(*v)[at];
}

static int tablet_family_add_memtable(struct tablet *t, struct view *view, unsigned i, struct tablet_family **v, unsigned *n)
{
	const struct mem_usage *u;
	uint64_t all, memory, before = 0;
	int err = tablet_mem_usage(t, view, i, &u, &memory);

	if (err)
		return err;
	all = mem_usage_bytes(u);
	MEM_USAGE_EACH(f, u)
	{
		struct tablet_family *to;
		uint64_t after = before + f->bytes;

		if (!f->bytes) /* its entries are prepared, but not inserted yet */
			continue;
		to = tablet_family_entry(v, n, f->id);
		if (!to)
			return -ENOMEM;
		to->cells += f->cells;
		to->tombstones += f->tombstones;
		to->memory_bytes += usage_below(memory, after, all) - usage_below(memory, before, all);
		before = after;
	}
	return 0;
}

static int tablet_family_add_file(struct vfile *f, struct tablet_family **v, unsigned *n)
{
	struct file_usage *u;
	uint64_t disk, raw_all, raw = 0;
	struct file_part p;
	int err = vfile_usage(f, &u);

	if (!err)
		err = vfile_part(f, u, &p);
	if (err)
		return err;
	disk = file_part_share(&p, f->meta.bytes);
	raw_all = u->raw_bytes;
	for (unsigned i = 0; i < u->count; i++) {
		const struct props_family *from = &u->families[i];
		struct tablet_family *to = tablet_family_entry(v, n, from->id);

		if (!to)
			return -ENOMEM;
		to->files++;
		to->raw_bytes += file_part_share(&p, from->raw_bytes);
		to->cells += file_part_share(&p, from->cells);
		to->tombstones += file_part_share(&p, from->tombstones);
		to->disk_bytes += usage_below(disk, raw + from->raw_bytes, raw_all) - usage_below(disk, raw, raw_all);
		raw += from->raw_bytes;
	}
	return 0;
}

int tablet_families(struct tablet *t, struct tablet_family **out, unsigned *count)
{
	struct tablet_family *v = NULL;
	struct snap snap;
	unsigned n = 0;
	int err = 0;

	tablet_enter(t);
	snap_take(t, &snap);
	for (unsigned i = 0; i < snap.view->mem_count && !err; i++)
		err = tablet_family_add_memtable(t, snap.view, i, &v, &n);
	for (unsigned i = 0; i < snap.view->file_count && !err; i++)
		if (!vfile_empty(snap.view->files[i]))
			err = tablet_family_add_file(snap.view->files[i], &v, &n);
	snap_put(&snap);
	tablet_leave(t);
	if (err) {
		free(v);
		return err;
	}
	*out = v;
	*count = n;
	return 0;
}

int tablet_family_stats(struct tablet *t, uint16_t family, struct tablet_stats *s)
{
	struct tablet_stats st = {.state = state_names[atomic_load(&t->state)], .seq = t->published};
	struct tablet_family *v;
	unsigned n;
	int err = tablet_families(t, &v, &n);

	if (err)
		return err;
	for (unsigned i = 0; i < n; i++) {
		if (v[i].id != family)
			continue;
		st.files = v[i].files;
		st.disk_bytes = v[i].disk_bytes;
		st.raw_bytes = v[i].raw_bytes;
		st.memory_bytes = v[i].memory_bytes;
		st.cells = v[i].cells;
		st.tombstones = v[i].tombstones;
	}
	free(v);
	*s = st;
	return 0;
}
