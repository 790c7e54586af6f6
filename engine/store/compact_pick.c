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
 * A file that another compaction has, or that cannot be read, parts its
 * group: runs are adjacent in age, so none reaches across it.
 *
 * Decided against: levels with key ranges.  Tablets are small (128 MiB) and
 * split by load, so a level of ranges within one would hold few files.
 */
#include "engine/store/compact.h"
#include "engine/store/tablet_usage.h"

#include <errno.h>
#include <stdlib.h>

enum { WORTH_FILES = 4, MOST_FILES = 8, RATIO = 2 };
#define HALF_PROMISE_US (INT64_C(12) * 3600 * 1000000)

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

/* The files of group from v->files[*at] on that one run may be chosen of; *at: behind them. */
static unsigned
stretch(const struct view *v, uint16_t group, unsigned *at, struct vfile **out)
{
	unsigned n = 0;

	for (; *at < v->file_count; ++*at) {
		struct vfile *f = v->files[*at];

		if (f->meta.group != group)
			continue;
		if (f->busy || f->damaged) {
			++*at;
			break;
		}
		out[n++] = f;
	}
	return n;
}

static bool
group_begins(const struct view *v, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (v->files[k]->meta.group == v->files[i]->meta.group)
			return false;
	return true;
}

int
compact_pick(const struct view *v, struct file_set *run)
{
	struct vfile **files = calloc(v->file_count + 1u, sizeof(struct vfile *));
	int err = 0;

	if (!files)
		return -ENOMEM;
	*run = (struct file_set){0};
	for (unsigned i = 0; i < v->file_count && !run->n && !err; i++) {
		if (!group_begins(v, i))
			continue;
		for (unsigned at = i; at < v->file_count && !run->n && !err;) {
			unsigned n = stretch(v, v->files[i]->meta.group, &at, files), from = 0, count;

			choose(files, n, &from, &count);
			for (unsigned k = 0; k < count && !err; k++)
				err = file_set_add(run, files[from + k]);
		}
	}
	free(files);
	if (err)
		file_set_put(run, false);
	return err;
}

unsigned
compact_debt(const struct view *v)
{
	unsigned most = 0;

	for (unsigned i = 0; i < v->file_count; i++) {
		unsigned n = 0;

		for (unsigned k = i; k < v->file_count; k++) {
			if (v->files[k]->meta.group != v->files[i]->meta.group)
				continue;
			if (v->files[k]->busy || v->files[k]->damaged)
				break;
			n++;
		}
		if (n > most)
			most = n;
	}
	return most;
}

/* May the rule's age hide a version of this time, at one of the indexes that matter?  In doubt yes. */
static bool
age_is_up(const struct gc_rule *rule, int64_t oldest, int64_t asof)
{
	int64_t first = gc_expires(rule, 0, oldest), last = gc_expires(rule, UINT64_MAX, oldest);
	bool first_by_age = first != INT64_MIN && first != INT64_MAX, last_by_age = last != INT64_MIN && last != INT64_MAX;

	if (!first_by_age && !last_by_age)
		return true;
	return (first_by_age && first <= asof) || (last_by_age && last <= asof);
}

bool
compact_wants_major(const struct view *v, const struct store_schema *s, int64_t last_major_us, int64_t now)
{
	uint64_t cells = 0, tombstones = 0;
	int64_t oldest = INT64_MAX;
	bool stale = false;

	for (unsigned i = 0; i < v->file_count; i++) {
		struct vfile *f = v->files[i];

		if (f->damaged)
			return false; /* it would fail again and again */
		if (f->meta.cells && f->meta.oldest_us < oldest)
			oldest = f->meta.oldest_us;
		cells += f->meta.cells;
		tombstones += f->meta.tombstones;
		stale |= f->clip || (!vfile_empty(f) && vfile_misplaced(f, s)); /* readers of two groups meet it */
		for (unsigned k = 0; k < i; k++)
			stale |= v->files[k]->meta.group == f->meta.group; /* versions that only together are too many */
	}
	if (!v->file_count)
		return false;
	for (unsigned i = 0; i < s->family_count && !stale; i++)
		stale = gc_has_age(s->families[i].rule) && age_is_up(s->families[i].rule, oldest, now - TABLET_SKEW_US);
	if (tombstones && tombstones >= cells / 4 + 1000)
		return true;
	return (stale || tombstones) && now - last_major_us >= HALF_PROMISE_US;
}
