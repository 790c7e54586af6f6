/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files to merge, and when a tablet wants a major compaction.
 *
 * Within one group the files are runs by age.  From the newest on, files of
 * like size are gathered as long as the next is at most twice all gathered
 * so far; four of them are worth a merge, so an entry is rewritten about
 * log4(size) times.  Beyond MOST_FILES the cheapest window that brings the
 * group back to it is merged, whatever its sizes: reads meet a bounded
 * number of files.
 *
 * Decided against: levels with key ranges.  Tablets are small (128 MiB) and
 * split by load, so a level of ranges within one would hold few files.
 */
#include "engine/store/compact.h"

#include <errno.h>
#include <stdlib.h>

enum { WORTH_FILES = 4, MOST_FILES = 8, RATIO = 2 };
#define HALF_PROMISE_US (INT64_C(12) * 3600 * 1000000)

void
file_set_put(struct file_set *s, bool doom)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (doom && s->v[i]->owned)
			sst_doom(s->v[i]->sst);
		vfile_put(s->v[i]);
	}
	free(s->v);
	*s = (struct file_set){0};
}

int
file_set_add(struct file_set *s, struct vfile *f)
{
	struct vfile **v = reallocarray(s->v, s->n + 1u, sizeof(struct vfile *));

	if (!v)
		return -ENOMEM;
	s->v = v;
	v[s->n++] = vfile_get(f);
	return 0;
}

/* Files of one group, newest first: the run [from, from+count). */
static void
choose(struct vfile *const *v, unsigned n, unsigned *from, unsigned *count)
{
	uint64_t sum, best = UINT64_MAX;
	unsigned k, width;

	*count = 0;
	for (unsigned start = 0; start + WORTH_FILES <= n; start++) {
		sum = v[start]->meta.bytes;
		for (k = start + 1; k < n && v[k]->meta.bytes <= RATIO * sum; k++)
			sum += v[k]->meta.bytes;
		if (k - start >= WORTH_FILES) {
			*from = start;
			*count = k - start;
			return;
		}
	}
	if (n <= MOST_FILES)
		return;
	width = n - MOST_FILES + 1;
	for (unsigned start = 0; start + width <= n; start++) {
		sum = 0;
		for (k = start; k < start + width; k++)
			sum += v[k]->meta.bytes;
		if (sum < best) {
			best = sum;
			*from = start;
			*count = width;
		}
	}
}

int
compact_pick(const struct view *v, struct file_set *run)
{
	struct vfile **group = calloc(v->file_count + 1u, sizeof(struct vfile *));
	int err = 0;

	if (!group)
		return -ENOMEM;
	*run = (struct file_set){0};
	for (unsigned i = 0; i < v->file_count && !run->n && !err; i++) {
		unsigned n = 0, from = 0, count;
		bool seen = false;

		for (unsigned k = 0; k < i && !seen; k++)
			seen = v->files[k]->meta.group == v->files[i]->meta.group;
		if (seen)
			continue;
		for (unsigned k = i; k < v->file_count; k++)
			if (v->files[k]->meta.group == v->files[i]->meta.group)
				group[n++] = v->files[k];
		choose(group, n, &from, &count);
		for (unsigned k = 0; k < count && !err; k++)
			err = file_set_add(run, group[from + k]);
	}
	free(group);
	if (err)
		file_set_put(run, false);
	return err;
}

bool
compact_wants_major(const struct view *v, const struct store_schema *s, int64_t last_major_us, int64_t now)
{
	uint64_t cells = 0, tombstones = 0;
	bool stale = false;

	for (unsigned i = 0; i < v->file_count; i++) {
		const struct vfile *f = v->files[i];

		cells += f->meta.cells;
		tombstones += f->meta.tombstones;
		stale |= f->clip;
		for (unsigned k = 0; k < i; k++)
			stale |= v->files[k]->meta.group == f->meta.group; /* versions that only together are too many */
	}
	if (!v->file_count)
		return false;
	for (unsigned i = 0; i < s->family_count; i++)
		stale |= s->families[i].rule && gc_has_age(s->families[i].rule);
	if (tombstones && tombstones >= cells / 4 + 1000)
		return true;
	return (stale || tombstones) && now - last_major_us >= HALF_PROMISE_US;
}
