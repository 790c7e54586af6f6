/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting (tablet_usage.h).
 *
 * Asking is cheap, since it is done at every scrape of the metrics and every
 * df: memtables are counted as they are written, and what a file's
 * properties say is kept with the file once it was read (or known from
 * writing it), without opening index and filters.  Only a file that is used
 * in part is opened, once, to see where its part begins and ends.
 *
 * Shares.  A block belongs to several families, and a part of a file to one
 * of several tablets.  Both are divided by position: x bytes from a to b out
 * of c are those up to b less those up to a, each rounded down.  What one
 * begins with is what the one before ends with, so shares add up to the
 * whole.  Within a file cells are taken to be evenly large.
 */
#include "engine/store/tablet_usage.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/store/tablet_impl.h"

/* ---- memtables ---- */

struct mem_family *
mem_usage_family(struct mem_usage *u, uint16_t id)
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

void
mem_usage_fini(struct mem_usage *u)
{
	for (unsigned i = 0; i < sizeof u->of / sizeof u->of[0]; i++) {
		for (struct mem_family *f = u->of[i], *next; f; f = next) {
			next = f->next;
			free(f);
		}
		u->of[i] = NULL;
	}
}

/* ---- files ---- */

/* Of x, what lies below `part` out of `whole`. */
static uint64_t
below(uint64_t x, uint64_t part, uint64_t whole)
{
	return part >= whole ? x : (uint64_t)((double)x * ((double)part / (double)whole));
}

/* Where the tablet's part of the file begins and ends, in bytes out of *whole. */
static int
part_of(struct vfile *f, uint64_t *from, uint64_t *to, uint64_t *whole)
{
	uint64_t end;
	int err;

	*from = 0;
	*to = *whole = 1;
	if (!f->clip)
		return 0;
	err = sst_offset_of(f->sst, slice_of("\xff\xff\xff\xff", 4), &end); /* above every key */
	if (!err && f->from.n)
		err = sst_offset_of(f->sst, buf_slice(&f->from), from);
	*to = *whole = end;
	if (!err && f->to.n)
		err = sst_offset_of(f->sst, buf_slice(&f->to), to);
	return err;
}

static int
usage_of_props(struct vfile *f, const struct props *p, struct file_usage **out)
{
	struct file_usage *u = calloc(1, sizeof *u + p->family_count * sizeof u->families[0]);
	uint64_t from, to, whole, raw = 0;
	int err;

	if (!u)
		return -ENOMEM;
	err = part_of(f, &from, &to, &whole);
	if (err) {
		free(u);
		return err;
	}
#define SHARE(x) (below(x, to, whole) - below(x, from, whole))
	u->disk_bytes = SHARE(f->meta.bytes);
	u->raw_bytes = SHARE(p->raw_bytes);
	u->count = p->family_count;
	for (unsigned i = 0; i < u->count; i++) {
		const struct props_family *pf = &p->families[i];
		struct file_family *ff = &u->families[i];

		ff->id = pf->id;
		ff->raw_bytes = SHARE(pf->raw_bytes);
		ff->cells = SHARE(pf->cells);
		ff->tombstones = SHARE(pf->tombstones);
		ff->disk_bytes = below(u->disk_bytes, raw + pf->raw_bytes, p->raw_bytes) - below(u->disk_bytes, raw, p->raw_bytes);
		raw += pf->raw_bytes;
		u->cells += ff->cells;
		u->tombstones += ff->tombstones;
	}
#undef SHARE
	*out = u;
	return 0;
}

/* The first one stays; *out is what is there now. */
static const struct file_usage *
keep(struct vfile *f, struct file_usage *u)
{
	struct file_usage *none = NULL;

	if (atomic_compare_exchange_strong(&f->usage, &none, u))
		return u;
	free(u);
	return none;
}

void
file_usage_know(struct vfile *f, const struct props *p)
{
	struct file_usage *u;

	if (!f->clip && usage_of_props(f, p, &u) == 0)
		(void)keep(f, u);
}

static int
file_usage(struct vfile *f, const struct file_usage **out)
{
	const struct file_usage *u = atomic_load(&f->usage);
	struct file_usage *made;
	struct buf blob = {0};
	struct props p;
	int err = 0;

	if (!u) {
		err = sst_properties(f->sst, &blob);
		if (!err)
			err = props_decode(buf_slice(&blob), &p);
		if (!err) {
			err = usage_of_props(f, &p, &made);
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

/* ---- the tablet ---- */

static const char *const state_names[] = {
#define X(name, text) [TABLET_##name] = text,
	TABLET_STATES(X)
#undef X
};

void
tablet_get_stats(struct tablet *t, struct tablet_stats *s)
{
	struct snap snap;
	struct tablet_stats st = {0};

	tablet_enter(t);
	snap_take(t, &snap);
	st.seq = snap.seq;
	st.memtables = snap.view->mem_count;
	st.files = snap.view->file_count;
	st.state = state_names[t->state];
	for (unsigned i = 0; i < snap.view->mem_count; i++) {
		struct vmem *m = snap.view->mems[i];

		st.memory_bytes += memtable_bytes(m->m);
		for (unsigned k = 0; k < sizeof m->usage.of / sizeof m->usage.of[0]; k++) {
			for (struct mem_family *f = m->usage.of[k]; f; f = f->next) {
				st.cells += f->cells;
				st.tombstones += f->tombstones;
			}
		}
	}
	for (unsigned i = 0; i < snap.view->file_count; i++) {
		const struct tablet_file *f = &snap.view->files[i]->meta;
		const struct file_usage *u = NULL;

		if (vfile_empty(snap.view->files[i]))
			continue;
		/* One that cannot be read counts as a whole: rather too much than nothing. */
		if (snap.view->files[i]->clip && file_usage(snap.view->files[i], &u))
			u = NULL;
		st.disk_bytes += u ? u->disk_bytes : f->bytes;
		st.raw_bytes += u ? u->raw_bytes : f->raw_bytes;
		st.cells += u ? u->cells : f->cells;
		st.tombstones += u ? u->tombstones : f->tombstones;
	}
	snap_put(&snap);
	tablet_leave(t);
	*s = st;
}

/* The family's entry, in id order, added when new; NULL: out of memory. */
static struct tablet_family *
family_of(struct tablet_family **v, unsigned *n, uint16_t id)
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

static int
add_memtable(const struct vmem *m, struct tablet_family **v, unsigned *n)
{
	uint64_t all = 0, held = memtable_bytes(m->m), before = 0;

	for (unsigned k = 0; k < sizeof m->usage.of / sizeof m->usage.of[0]; k++)
		for (struct mem_family *f = m->usage.of[k]; f; f = f->next)
			all += f->bytes;
	for (unsigned k = 0; all && k < sizeof m->usage.of / sizeof m->usage.of[0]; k++) {
		for (struct mem_family *f = m->usage.of[k]; f; f = f->next) {
			struct tablet_family *to = family_of(v, n, f->id);
			uint64_t after = before + f->bytes;

			if (!to)
				return -ENOMEM;
			to->cells += f->cells;
			to->tombstones += f->tombstones;
			to->memory_bytes += below(held, after, all) - below(held, before, all);
			before = after;
		}
	}
	return 0;
}

int
tablet_families(struct tablet *t, struct tablet_family **out, unsigned *count)
{
	struct tablet_family *v = NULL, *to;
	const struct file_usage *u;
	struct snap snap;
	unsigned n = 0;
	int err = 0;

	tablet_enter(t);
	snap_take(t, &snap);
	for (unsigned i = 0; i < snap.view->mem_count && !err; i++)
		err = add_memtable(snap.view->mems[i], &v, &n);
	for (unsigned i = 0; i < snap.view->file_count && !err; i++) {
		if (vfile_empty(snap.view->files[i]))
			continue;
		err = file_usage(snap.view->files[i], &u);
		for (unsigned k = 0; !err && k < u->count; k++) {
			to = family_of(&v, &n, u->families[k].id);
			if (!to) {
				err = -ENOMEM;
				break;
			}
			to->files++;
			to->disk_bytes += u->families[k].disk_bytes;
			to->raw_bytes += u->families[k].raw_bytes;
			to->cells += u->families[k].cells;
			to->tombstones += u->families[k].tombstones;
		}
	}
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

int
tablet_family_stats(struct tablet *t, uint16_t family, struct tablet_stats *s)
{
	struct tablet_stats st = {.state = state_names[t->state], .seq = t->published};
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
