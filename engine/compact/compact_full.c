/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions on a full disk.
 *
 * A major compaction frees the space of removed cells, but first it needs
 * space for everything that stays in the tablet.  If there is less than that,
 * the tablet's files are rewritten one by one (compact_purge), each in its
 * place by age, without the cells that tombstones in newer files delete.  The
 * newer files are read for their tombstones only.  A file from which
 * everything was removed needs no space at all.  So a disk that one tablet
 * has filled can be freed, however little space is left.
 *
 * This drops what a merging compaction of the file with all newer ones would
 * drop, by the same rules (compact_filter.c), so every read returns the same.
 * A tombstone that several files contain stays in each of them.
 *
 * Durable steps: for each file those of a merging compaction (compact.c).
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/cell/merge.h"

bool compact_space(struct tablet *t, enum disk_use use, uint64_t bytes)
{
	uint64_t free_bytes;

	if (t->env->space)
		return t->env->space(t->env->arg, use, bytes);
	return file_free_bytes(t->env->data_dir, &free_bytes) || bytes <= free_bytes;
}

/* Returns bytes * of / all. */
static double part(double bytes, uint64_t of, uint64_t all)
{
	return all ? bytes * (double)of / (double)all : 0;
}

/* compact_count of an iterator, which it takes.  stored: bytes on disk for each byte of keys and values. */
static int count_kept(
	struct tablet *t, const struct run_params *p, struct iter *it, double stored, bool any, uint64_t *kept, bool *all)
{
	enum { CHECK_EVERY = 256 };
	struct filter_entry e;
	struct filter filter;
	uint64_t bytes = 0, read = 0;
	bool goes = false;
	int keep = 1, err;

	filter_init(&filter, &p->rules);
	iter_seek(it, slice_of(NULL, 0));
	for (unsigned n = 1; it->valid && !(any && goes); n++) {
		if (n % CHECK_EVERY == 0) {
			if (p->paced)
				compact_pace(t, (uint64_t)((double)read * stored));
			read = 0;
			if (t->state == TABLET_CLOSING || (p->gives_way && t->split_wanted)) {
				keep = -ECANCELED;
				break;
			}
		}
		read += it->key.n + it->value.n;
		keep = filter_key(&filter, it->key, &e);
		if (keep < 0)
			break;
		if (run_writes(p, it->key)) {
			bytes += keep ? it->key.n + it->value.n : 0;
			goes |= !keep;
		}
		iter_next(it);
	}
	err = keep < 0 ? keep : it->err;
	*kept = bytes;
	*all = !goes;
	filter_fini(&filter);
	iter_free(it);
	return err;
}

int compact_count(struct tablet *t, const struct run_params *p, const struct file_set *in, bool any, uint64_t *kept, bool *all)
{
	uint64_t bytes = 0, raw = 0;
	struct iter *it;
	int err = compact_inputs(in, &it);

	for (unsigned i = 0; i < in->n; i++) {
		bytes += in->v[i]->meta.bytes;
		raw += in->v[i]->meta.raw_bytes;
	}
	return err ? err : count_kept(t, p, it, part(1, bytes, raw), any, kept, all);
}

/* No other tablet uses the file, so removing it from this tablet frees its space. */
static bool is_own(const struct tablet *t, const struct vfile *f)
{
	return f->owned || (t->env->listed && t->env->listed(t->env->arg, &f->meta) == 1);
}

/* Rather too much: a compaction that finds no space at its end was in vain. */
static uint64_t and_some(double bytes)
{
	return bytes > 0 ? (uint64_t)(bytes * 17 / 16) + (64u << 10) : 0;
}

/*
 * One that can wait is estimated by the number of tombstones.  On a full disk
 * that is not exact enough: tombstones do not say how much they delete.  Then
 * space for all of the tablet is needed.
 */
int compact_major_space(struct tablet *t, struct run_params *p, const struct file_set *in)
{
	struct tablet_stats st;
	bool own = true;
	uint64_t bytes;
	enum disk_use use;

	tablet_get_stats(t, &st);
	p->can_wait = p->gives_way && !tablet_disk_full(t);
	if (p->can_wait) {
		uint64_t kept = st.tombstones < st.cells ? st.cells - st.tombstones : 0;

		use = DISK_MERGE;
		bytes = and_some(part((double)st.disk_bytes, kept, st.cells));
	} else {
		for (unsigned i = 0; i < in->n; i++)
			own &= is_own(t, in->v[i]);
		use = own ? DISK_FREES : DISK_PUT;
		bytes = and_some((double)st.disk_bytes);
	}
	return compact_space(t, use, bytes) ? 0 : -ENOSPC;
}

/* ---- one file ---- */

/* f as the child *only of a merge with what may mask cells of it. */
static int masked_iter(const struct view *v, struct vfile *f, const struct iter **only, struct iter **out)
{
	struct iter **kids = calloc(v->file_count + 1u, sizeof(struct iter *));
	unsigned n = 0;
	int err = kids ? vfile_iter(f, sst_scan_new, NULL, &kids[0]) : -ENOMEM;

	n += !err;
	for (unsigned i = 0; i < v->file_count && !err; i++) {
		struct vfile *o = v->files[i];

		if (o == f || !o->meta.tombstones || o->meta.seq_max < f->meta.seq_min || vfile_empty(o) || vfile_left_out(o))
			continue;
		err = vfile_iter(o, sst_scan_new, NULL, &kids[n]);
		n += !err;
	}
	if (err) {
		while (n)
			iter_free(kids[--n]);
	} else {
		*only = kids[0];
		err = merge_iter_new(kids, n, out);
	}
	free(kids);
	return err;
}

static int purge_file(struct tablet *t, const struct snap *snap, struct vfile *f, bool background, bool *did)
{
	struct run_params p = {
		.t = t,
		.schema = snap->schema,
		.one_group = true,
		.group = f->meta.group,
		.freeze_us = f->freeze_us,
		.freeze_schema = f->schema,
		.gives_way = background,
		.paced = background,
		.rules = {.schema = snap->schema, .age_asof = clock_collect(t->env->clock) - TABLET_SKEW_US},
	};
	struct compact_job *j;
	struct iter *it;
	uint64_t kept, bytes;
	bool all;
	int err = masked_iter(snap->view, f, &p.only, &it);

	if (!err)
		err = count_kept(t, &p, it, part(1, f->meta.bytes, f->meta.raw_bytes), false, &kept, &all);
	if (err)
		return is_damage(err) ? 0 : err; /* the others may be read */
	bytes = and_some(part((double)f->meta.bytes, kept, f->meta.raw_bytes));
	if (all || bytes > f->meta.bytes / 8 * 7 || !compact_space(t, DISK_FREES, bytes))
		return 0;
	j = calloc(1, sizeof *j);
	err = j ? masked_iter(snap->view, f, &p.only, &it) : -ENOMEM;
	if (!err && (err = file_set_add(&j->in, f)))
		iter_free(it);
	if (err) {
		compact_job_free(j);
	} else {
		mutex_lock(&t->lock);
		compact_set_busy(t, &j->in, true);
		mutex_unlock(&t->lock);
		err = compact_carry_out(t, &p, j, it);
		*did |= !err;
	}
	return no_space(err) || is_damage(err) ? 0 : err;
}

struct file_name {
	uint64_t incarnation, number;
};

/* The names of what may be purged, the oldest first: those have most of what has been removed. */
static int list_files(struct tablet *t, struct file_name **out, unsigned *count)
{
	struct file_name *v;
	struct snap snap;
	unsigned n = 0;

	snap_take(t, &snap);
	v = calloc(snap.view->file_count + 1u, sizeof *v);
	for (unsigned i = snap.view->file_count; v && i-- > 0;) {
		const struct vfile *f = snap.view->files[i];

		if (!vfile_empty(f) && !vfile_left_out(f) && is_own(t, f))
			v[n++] = (struct file_name){f->meta.incarnation, f->meta.number};
	}
	snap_put(&snap);
	*out = v;
	*count = n;
	return v ? 0 : -ENOMEM;
}

int compact_purge(struct tablet *t, bool background, bool *did)
{
	struct file_name *names = NULL;
	unsigned count = 0;
	int err;

	*did = false;
	if (background && !tablet_disk_full(t))
		return 0;
	err = job_begin(t, &t->merging);
	if (err)
		return err;
	err = compact_settle(t);
	if (!err)
		err = list_files(t, &names, &count);
	for (unsigned k = 0; k < count && !err; k++) {
		struct snap snap; /* for each: what it holds is not unlinked */

		snap_take(t, &snap);
		for (unsigned i = 0; i < snap.view->file_count; i++) {
			struct vfile *f = snap.view->files[i];

			if (f->meta.incarnation == names[k].incarnation && f->meta.number == names[k].number) {
				err = purge_file(t, &snap, f, background, did);
				break;
			}
		}
		snap_put(&snap);
	}
	free(names);
	job_end(t, &t->merging);
	if (*did)
		msg_info("table %u: removed cells were dropped from single files, because there is no space for a major compaction",
			t->table);
	return err;
}
