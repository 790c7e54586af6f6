/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views (view.h): counted lists of memtables and files.
 *
 * A file that a split child shares with its sibling is clipped to the rows in
 * its METADATA column.
 *
 * Rejected: an epoch scheme for readers.  Each read has two short critical
 * sections.  They cost about 40 ns, a tenth of a block lookup.
 */
#include "engine/tablet/view.h"
#include "engine/cell/merge.h"

#include <stdlib.h>

int vmem_new(_Atomic size_t *memory_used, struct vmem **out)
{
	struct vmem *m = calloc(1, sizeof *m);
	int err;

	if (!m)
		return -ENOMEM;
	err = memtable_new(&m->m);
	if (err) {
		free(m);
		return err;
	}
	m->refs = 1;
	m->tablets = 1;
	m->memory_used = memory_used;
	m->fresh = memtable_bytes(m->m);
	m->oldest_us = INT64_MAX;
	*out = m;
	return 0;
}

struct vmem *vmem_get(struct vmem *m)
{
	m->refs++;
	return m;
}

void vmem_freeze(struct vmem *m, _Atomic size_t *sum)
{
	m->frozen = m->accounted;
	m->frozen_sum = sum;
	*sum += m->frozen;
}

size_t vmem_account(struct vmem *m)
{
	size_t bytes = memtable_bytes(m->m) - m->fresh + (m->changes ? memtable_bytes(m->changes) : 0);

	if (bytes > m->accounted) {
		if (m->memory_used)
			*m->memory_used += bytes - m->accounted;
		m->accounted = bytes;
	}
	return bytes;
}

static void vmem_unaccount(struct vmem *m)
{
	if (m->memory_used)
		*m->memory_used -= m->accounted;
	if (m->frozen_sum)
		*m->frozen_sum -= m->frozen;
	m->memory_used = NULL;
	m->frozen_sum = NULL;
}

void vmem_flushed(struct vmem *m)
{
	if (--m->tablets == 0)
		vmem_unaccount(m);
}

void vmem_put(struct vmem *m)
{
	if (!m || --m->refs)
		return;
	vmem_unaccount(m);
	memtable_put(m->m);
	memtable_put(m->changes);
	mem_usage_fini(&m->usage);
	free(m);
}

static void vfile_free(struct vfile *f)
{
	tablet_file_fini(&f->meta);
	if (f->sst)
		sst_share(f->sst, -1);
	sst_put(f->sst);
	buf_fini(&f->from);
	buf_fini(&f->to);
	buf_fini(&f->first);
	buf_fini(&f->after);
	store_schema_put(f->schema);
	free(f->usage);
	free(f);
}

int vfile_new(const struct tablet_env *env, uint32_t table, const struct tablet_file *meta, bool in_memory, struct vfile **out)
{
	struct vfile *f = calloc(1, sizeof *f);
	char *path = NULL;
	bool below, beyond;
	int err = -ENOMEM;

	if (!f)
		return err;
	f->refs = 1;
	if ((err = tablet_file_copy(&f->meta, meta)))
		goto out;
	below = bytes_cmp(buf_bytes(&meta->first), buf_bytes(&meta->begin)) < 0;
	beyond = meta->end.p && bytes_cmp(buf_bytes(&meta->last), buf_bytes(&meta->end)) >= 0;
	f->clip = below || beyond;
	if ((err = cellkey_row_prefix(&f->first, below ? buf_bytes(&meta->begin) : buf_bytes(&meta->first))) ||
		(err = beyond ? cellkey_row_prefix(&f->after, buf_bytes(&meta->end))
			      : cellkey_row_after(&f->after, buf_bytes(&meta->last))) ||
		(below && (err = cellkey_row_prefix(&f->from, buf_bytes(&meta->begin)))) ||
		(beyond && (err = cellkey_row_prefix(&f->to, buf_bytes(&meta->end)))))
		goto out;
	path = tablet_file_path(env->data_dir, meta->table, meta->incarnation, meta->number);
	if (!path) {
		err = -ENOMEM;
		goto out;
	}
	err = sst_new(env->cache, path, in_memory, &f->sst);
	if (err)
		goto out;
	sst_share(f->sst, 1);
	sst_expect_bytes(f->sst, meta->bytes);
	*out = f;
out:
	free(path);
	if (err)
		vfile_free(f);
	return err;
}

static struct vfile *vfile_get(struct vfile *f)
{
	f->refs++;
	return f;
}

void vfile_put(struct vfile *f)
{
	if (f && --f->refs == 0)
		vfile_free(f);
}

int file_set_add(struct file_set *s, struct vfile *f)
{
	if (array_grow(&s->v, s->n, sizeof(struct vfile *)))
		return -ENOMEM;
	s->v[s->n++] = vfile_get(f);
	return 0;
}

static bool file_set_has(const struct file_set *s, const struct vfile *f)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i] == f)
			return true;
	return false;
}

void file_set_put(struct file_set *s)
{
	for (unsigned i = 0; i < s->n; i++)
		vfile_put(s->v[i]);
	free(s->v);
	*s = (struct file_set){0};
}

struct view *view_new(unsigned files)
{
	struct view *v = calloc(1, sizeof *v + files * sizeof v->files[0]);

	if (v)
		v->refs = 1;
	return v;
}

struct view *view_change(const struct view *v, const struct file_set *without, const struct file_set *with)
{
	struct view *n = view_new(view_all_files(v) + with->n);

	for (unsigned i = 0; n && i < view_all_files(v); i++)
		if (!file_set_has(without, v->files[i]))
			view_add_file(n, v->files[i]);
	for (unsigned i = 0; n && i < with->n; i++)
		view_add_file(n, with->v[i]);
	return n;
}

void view_take_mems(struct view *n, const struct view *v, struct vmem *const *without, unsigned count)
{
	for (unsigned i = 0; i < v->mem_count; i++) {
		unsigned k = 0;

		while (k < count && without[k] != v->mems[i])
			k++;
		if (k == count)
			n->mems[n->mem_count++] = vmem_get(v->mems[i]);
	}
}

struct view *view_get(struct view *v)
{
	v->refs++;
	return v;
}

void view_put(struct view *v)
{
	if (!v || --v->refs)
		return;
	for (unsigned i = 0; i < v->mem_count; i++) {
		vmem_put(v->mems[i]);
		mem_usage_free(v->parts[i]);
	}
	for (unsigned i = 0; i < view_all_files(v); i++)
		vfile_put(v->files[i]);
	free(v);
}

void view_add_file(struct view *v, struct vfile *f)
{
	const bool changes = f->meta.group == TABLET_GROUP_CHANGES;
	const unsigned first = changes ? v->file_count : 0;
	unsigned at = changes ? view_all_files(v) : v->file_count;

	memmove(&v->files[at + 1], &v->files[at], (view_all_files(v) - at) * sizeof(v->files[0]));
	v->file_count += !changes;
	v->change_count += changes;
	v->mixed |= at > 0 && !changes && v->files[0]->meta.group != f->meta.group;
	for (; at > first && v->files[at - 1]->meta.seq_max < f->meta.seq_max; at--)
		v->files[at] = v->files[at - 1];
	v->files[at] = vfile_get(f);
}

int vfile_iter(struct vfile *f, vfile_iter_fn *make, uint64_t limit, int *skipped, struct iter **out)
{
	struct iter *it, *clipped;
	struct tfs_bytes to = f->to.n ? buf_bytes(&f->to) : tfs_bytes_of(NULL, 0);
	int err = make(f->sst, &it);

	if (!err && limit && limit <= UINT32_MAX && f->meta.cells)
		sst_iter_expect(it, limit * (f->meta.raw_bytes / f->meta.cells + 1));
	if (!err && skipped)
		err = skip_damage_iter_new(it, f->sst, skipped, &it);
	if (err)
		return err;
	if (!f->clip) {
		*out = it;
		return 0;
	}
	err = clip_iter_new(it, buf_bytes(&f->from), to, &clipped);
	if (!err)
		*out = clipped;
	return err;
}

bool vfile_empty(const struct vfile *f)
{
	return bytes_cmp(buf_bytes(&f->first), buf_bytes(&f->after)) >= 0;
}

bool vfile_excluded(const struct vfile *f)
{
	uint64_t until = atomic_load(&f->excluded_until_us);

	return until && (until == UINT64_MAX || monotonic_us() < until);
}

unsigned view_debt(const struct view *v)
{
	unsigned most = 0;

	for (unsigned i = 0; i < v->file_count; i++) {
		unsigned n = 0;

		for (unsigned k = i; k < v->file_count; k++) {
			if (v->files[k]->meta.group != v->files[i]->meta.group)
				continue;
			if (v->files[k]->busy || vfile_excluded(v->files[k]))
				break;
			n++;
		}
		if (n > most)
			most = n;
	}
	return most;
}

static bool file_overlaps(const struct vfile *f, struct tfs_bytes from, struct tfs_bytes to)
{
	return !vfile_empty(f) && bytes_cmp(buf_bytes(&f->after), from) > 0 && (!to.n || bytes_cmp(buf_bytes(&f->first), to) < 0);
}

/* A file that may hide cells of others, by deletes, is always needed. */
static bool file_is_outside(const struct vfile *f, const struct view_times *times)
{
	return f->meta.tombstones == 0 &&
		(f->meta.newest_us < times->since || (times->until != INT64_MAX && f->meta.oldest_us >= times->until));
}

/*
 * Returns true if a cell of f may hide a cell that has the larger sequence number
 * seq_min or the timestamp oldest_us, or is later.
 */
static bool file_may_hide(const struct vfile *f, uint64_t seq_min, int64_t oldest_us, bool counts)
{
	return f->meta.seq_max >= seq_min || (counts && f->meta.newest_us >= oldest_us);
}

/*
 * Marks in skip the files without deletes in which no cell was committed at or
 * after times->changed.  A file is not marked if a cell of it may hide a cell
 * in a memtable, or in a file that is read: by the larger sequence number, at
 * the same timestamp, or as a newer version where versions are counted.
 * Memtables have larger sequence numbers than files.
 */
static void files_unchanged(const struct view *v, const struct view_times *times, bool *skip)
{
	bool again = times->changed != INT64_MIN;

	for (unsigned i = 0; i < v->file_count && again; i++) {
		const struct vfile *f = v->files[i];

		skip[i] = f->meta.tombstones == 0 && f->meta.commit_us && f->meta.commit_us < times->changed;
		for (unsigned k = 0; k < v->mem_count && skip[i]; k++)
			skip[i] = !file_may_hide(f, UINT64_MAX, v->mems[k]->oldest_us, times->counts);
	}
	while (again) {
		again = false;
		for (unsigned i = 0; i < v->file_count; i++) {
			for (unsigned k = 0; k < v->file_count && skip[i]; k++) {
				const struct tablet_file *read = &v->files[k]->meta;

				if (skip[k])
					continue;
				skip[i] = !file_may_hide(v->files[i], read->seq_min, read->oldest_us, times->counts);
				again = again || !skip[i];
			}
		}
	}
}

int view_iter(struct view *v, const struct view_times *times, const uint16_t *families, unsigned family_count,
	struct tfs_bytes from, struct tfs_bytes to, struct tfs_bytes row_probe, uint64_t limit, int *skipped, struct iter **out)
{
	struct iter **sources = calloc(v->mem_count + v->file_count + 1u, sizeof(struct iter *));
	bool *skip = calloc(v->file_count + 1u, sizeof(*skip));
	unsigned n = 0;
	int err = sources && skip ? 0 : -ENOMEM;

	if (err)
		goto out;
	files_unchanged(v, times, skip);
	for (unsigned i = 0; i < v->mem_count && !err; i++) {
		if (!memtable_count(v->mems[i]->m))
			continue;
		err = memtable_iter_new(v->mems[i]->m, &sources[n]);
		n += !err;
	}
	for (unsigned i = 0; i < v->file_count && !err; i++) {
		struct vfile *f = v->files[i];

		if (skip[i] || !file_overlaps(f, from, to) || file_is_outside(f, times) ||
			(v->mixed && !vfile_may_have_families(f, families, family_count)))
			continue;
		if (row_probe.n && !sst_may_contain(f->sst, from, to, row_probe))
			continue;
		err = vfile_iter(f, row_probe.n ? sst_iter_new : sst_walk_new, limit, skipped, &sources[n]);
		n += !err;
		if (skipped && (err == -EBADMSG || err == -EIO || err == -ENOENT)) {
			*skipped = err == -ENOENT ? -EBADMSG : err; /* a missing file counts as damaged */
			err = 0;
		}
	}
	err = merge_iter_new(sources, n, err, out);
out:
	free(skip);
	free(sources);
	return err;
}
