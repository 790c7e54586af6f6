/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting (tablet_usage.h).
 *
 * Asking is cheap, since it is done at every scrape of the metrics and every
 * df: memtables are counted as they are written, and what a file's
 * properties say is kept with the file once it was read (or known from
 * writing it), without opening index and filters.  Only a file that is used
 * in part is opened, once, to see where its part begins and ends.  Which
 * families a file has also tells readers whether it concerns them.
 *
 * Shares.  A block belongs to several families, and a part of a file to one
 * of several tablets.  Both are divided by position: x bytes from a to b out
 * of c are those up to b less those up to a, each rounded down.  What one
 * begins with is what the one before ends with, so shares add up to the
 * whole.  Within a file cells are taken to be evenly large.
 */
#include "engine/tablet/tablet_usage.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/tablet/tablet_impl.h"

/* Of x, what lies below `part` out of `whole`. */
static uint64_t below(uint64_t x, uint64_t part, uint64_t whole)
{
	return part >= whole ? x : (uint64_t)((double)x * ((double)part / (double)whole));
}

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

#define EACH_FAMILY(f, u)                                                                                                          \
	for (unsigned k_ = 0; k_ < sizeof(u)->of / sizeof(u)->of[0]; k_++)                                                         \
		for (const struct mem_family *f = (u)->of[k_]; f; f = f->next)

static uint64_t mem_usage_bytes(const struct mem_usage *u)
{
	uint64_t n = 0;

	EACH_FAMILY(f, u)
	n += f->bytes;
	return n;
}

/* What the tablet's rows have in a memtable that is not its alone. */
static int count_part(struct tablet *t, struct vmem *m, struct mem_usage *u)
{
	struct iter *it;
	int err = tablet_mem_iter(t, m, &it);

	if (err)
		return err;
	for (iter_seek(it, slice_of(NULL, 0)); it->valid && !err; iter_next(it)) {
		size_t column_len = cellkey_column_len(it->key);
		struct mem_family *f;
		enum cell_kind kind;
		uint64_t seq;
		int64_t ts;

		if (!column_len) {
			err = -EBADMSG;
			break;
		}
		cellkey_suffix(it->key, column_len, &ts, &seq, &kind);
		f = mem_usage_family(u, load_be16(it->key.p + cellkey_row_len(it->key)));
		if (!f) {
			err = -ENOMEM;
			break;
		}
		f->cells += kind == CELL_VALUE || kind == CELL_LARGE;
		f->tombstones += kind < CELL_VALUE;
		f->bytes += it->key.n + it->value.n;
	}
	if (!err)
		err = it->err;
	iter_free(it);
	return err;
}

/*
 * Memtable i of a view of the tablet: entries by family, and the memory that
 * is theirs.  A shared one, which siblings flush when they do, is looked
 * through once in each view.
 */
static int mem_usage_of(struct tablet *t, struct view *v, unsigned i, const struct mem_usage **out, uint64_t *held)
{
	struct vmem *m = v->mems[i];
	struct mem_usage *u = v->parts[i], *none = NULL;
	int err;

	*held = memtable_bytes(m->m);
	if (!m->shared) {
		*out = &m->usage;
		return 0;
	}
	if (!u) {
		u = calloc(1, sizeof *u);
		err = u ? count_part(t, m, u) : -ENOMEM;
		if (err) {
			mem_usage_free(u);
			return err;
		}
		if (!atomic_compare_exchange_strong(&v->parts[i], &none, u)) {
			mem_usage_free(u);
			u = none;
		}
	}
	*held = below(*held, mem_usage_bytes(u), mem_usage_bytes(&m->usage));
	*out = u;
	return 0;
}

/* ---- files ---- */

static int usage_of_props(const struct props *p, struct file_usage **out)
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

/* The first one stays; *out is what is there now. */
static struct file_usage *keep(struct vfile *f, struct file_usage *u)
{
	struct file_usage *none = NULL;

	if (atomic_compare_exchange_strong(&f->usage, &none, u))
		return u;
	free(u);
	return none;
}

void file_usage_know(struct vfile *f, const struct props *p)
{
	struct file_usage *u;

	if (usage_of_props(p, &u) == 0)
		(void)keep(f, u);
}

static int file_usage(struct vfile *f, struct file_usage **out)
{
	struct file_usage *u = atomic_load(&f->usage), *made;
	struct buf blob = {0};
	struct props p;
	int err = 0;

	if (!u) {
		err = sst_properties(f->sst, &blob);
		if (!err)
			err = props_decode(buf_slice(&blob), &p);
		if (!err) {
			err = usage_of_props(&p, &made);
			props_fini(&p);
		}
		if (!err)
			u = keep(f, made);
		buf_fini(&blob);
	}
	if (!err)
		*out = u;
	return err;
}

bool vfile_concerns(struct vfile *f, const uint16_t *families, unsigned n)
{
	struct file_usage *u;

	if (!families || f->meta.row_deletes || file_usage(f, &u))
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

	if (file_usage(f, &u))
		return false;
	for (unsigned i = 0; i < u->count; i++) {
		const struct store_family *family = store_schema_family(s, u->families[i].id);

		if (u->families[i].id && (!family || family->group != f->meta.group))
			return true;
	}
	return false;
}

/* The tablet's part of a file. */
struct part {
	uint64_t from, to, whole;
};

static uint64_t share(const struct part *p, uint64_t x)
{
	return below(x, p->to, p->whole) - below(x, p->from, p->whole);
}

static int part_of(struct vfile *f, struct file_usage *u, struct part *p)
{
	int err;

	*p = (struct part){0, 1, 1};
	if (!f->clip)
		return 0;
	*p = (struct part){u->from, u->to, u->whole};
	if (p->whole)
		return 0;
	err = sst_offset_of(f->sst, slice_of("\xff\xff\xff\xff", 4), &p->whole); /* above every key */
	p->to = p->whole;
	if (!err && f->from.n)
		err = sst_offset_of(f->sst, buf_slice(&f->from), &p->from);
	if (!err && f->to.n)
		err = sst_offset_of(f->sst, buf_slice(&f->to), &p->to);
	if (err)
		return err;
	u->from = p->from; /* whoever is first: all say the same */
	u->to = p->to;
	u->whole = p->whole;
	return 0;
}

/* One that cannot be read counts as a whole: rather too much than nothing. */
static struct part part_or_whole(struct vfile *f)
{
	const struct part whole = {0, 1, 1};
	struct file_usage *u;
	struct part p;

	return f->clip && !file_usage(f, &u) && !part_of(f, u, &p) ? p : whole;
}

void vfile_entries(struct vfile *f, uint64_t *cells, uint64_t *tombstones)
{
	struct part p = part_or_whole(f);

	*cells = share(&p, f->meta.cells);
	*tombstones = share(&p, f->meta.tombstones);
}

/* ---- the tablet ---- */

static const char *const state_names[] = {
#define X(name, text) [TABLET_##name] = text,
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
	for (unsigned i = 0; i < snap.view->mem_count; i++) {
		const struct mem_usage *u;
		uint64_t held;

		if (mem_usage_of(t, snap.view, i, &u, &held))
			u = &snap.view->mems[i]->usage;
		st.memory_bytes += held;
		EACH_FAMILY(f, u)
		{
			st.cells += f->cells;
			st.tombstones += f->tombstones;
		}
	}
	for (unsigned i = 0; i < snap.view->file_count; i++) {
		struct vfile *f = snap.view->files[i];
		struct part p;

		if (vfile_empty(f))
			continue;
		p = part_or_whole(f);
		st.disk_bytes += share(&p, f->meta.bytes);
		st.raw_bytes += share(&p, f->meta.raw_bytes);
		st.cells += share(&p, f->meta.cells);
		st.tombstones += share(&p, f->meta.tombstones);
	}
	snap_put(&snap);
	tablet_leave(t);
	*s = st;
}

/* The family's entry, in id order, added when new; NULL: out of memory. */
static struct tablet_family *family_of(struct tablet_family **v, unsigned *n, uint16_t id)
{
	unsigned at = *n;
	struct tablet_family *grown;

	while (at > 0 && (*v)[at - 1].id > id)
		at--;
	if (at > 0 && (*v)[at - 1].id == id)
		return &(*v)[at - 1];
	grown = reallocarray(*v, *n + 1u, sizeof *grown);
	if (!grown)
		return NULL;
	*v = grown;
	memmove(grown + at + 1, grown + at, (*n - at) * sizeof *grown);
	grown[at] = (struct tablet_family){.id = id};
	++*n;
	return &grown[at];
}

static int add_memtable(struct tablet *t, struct view *view, unsigned i, struct tablet_family **v, unsigned *n)
{
	const struct mem_usage *u;
	uint64_t all, held, before = 0;
	int err = mem_usage_of(t, view, i, &u, &held);

	if (err)
		return err;
	all = mem_usage_bytes(u);
	EACH_FAMILY(f, u)
	{
		struct tablet_family *to;
		uint64_t after = before + f->bytes;

		if (!f->bytes) /* prepared only */
			continue;
		to = family_of(v, n, f->id);
		if (!to)
			return -ENOMEM;
		to->cells += f->cells;
		to->tombstones += f->tombstones;
		to->memory_bytes += below(held, after, all) - below(held, before, all);
		before = after;
	}
	return 0;
}

static int add_file(struct vfile *f, struct tablet_family **v, unsigned *n)
{
	struct file_usage *u;
	uint64_t disk, raw_all, raw = 0;
	struct part p;
	int err = file_usage(f, &u);

	if (!err)
		err = part_of(f, u, &p);
	if (err)
		return err;
	disk = share(&p, f->meta.bytes);
	raw_all = u->raw_bytes;
	for (unsigned i = 0; i < u->count; i++) {
		const struct props_family *from = &u->families[i];
		struct tablet_family *to = family_of(v, n, from->id);

		if (!to)
			return -ENOMEM;
		to->files++;
		to->raw_bytes += share(&p, from->raw_bytes);
		to->cells += share(&p, from->cells);
		to->tombstones += share(&p, from->tombstones);
		to->disk_bytes += below(disk, raw + from->raw_bytes, raw_all) - below(disk, raw, raw_all);
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
		err = add_memtable(t, snap.view, i, &v, &n);
	for (unsigned i = 0; i < snap.view->file_count && !err; i++)
		if (!vfile_empty(snap.view->files[i]))
			err = add_file(snap.view->files[i], &v, &n);
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
