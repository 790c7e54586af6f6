/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files to merge, and when a tablet wants a major compaction.
 *
 * The files of one group are ordered by age.  First rule: starting from the
 * newest, files are collected as long as the next one is at most twice as
 * large as all collected ones together; four of them are merged.  Second rule:
 * if a group has more than COMPACT_MOST_FILES, the cheapest window of adjacent
 * files that brings it back to that number is merged.
 *
 * Bounds.  Files: after the second rule a group has at most COMPACT_MOST_FILES.
 * Bytes: a byte that the first rule rewrites is then in a file at least 1.5
 * times as large, because the oldest file of a merge is at most twice as large
 * as the rest together; so the rule rewrites a byte at most log1.5(size /
 * flush) times.  The second rule rarely applies.  If the first finds nothing,
 * then of any four adjacent files one is larger than twice the newer ones of
 * the four together, so sizes triple every three files, and a group of nine
 * files is 27 times its newest.  Then two neighbours are merged that have at
 * most a quarter of all bytes, mostly two small ones.  t/unit/test_policy
 * checks both bounds for thousands of flushes of seven distributions of sizes:
 * never more than eight files, and a byte is written once and 0.45 to 0.7 times
 * for each doubling of size / flush (8 times at 5,000).
 *
 * A file that is in another compaction, or that cannot be read, splits its
 * group, because a merge takes files that are adjacent in age.
 *
 * Major compactions.  Removed cells must be off the disk within a promised
 * time (major_within).  A tablet that may contain any is major-compacted
 * within half of that time since its last one.  The exact time lies in the last
 * quarter of that half and depends on a hash of the tablet's first row, so that
 * tablets made together are not due together.  The other half is for flushing
 * memtables and log (engine/server/storage/logs.c) and for the queue of compactions.
 * At the same time a file of a flush that was never merged gets the codec of its group.
 *
 * Rejected: levels with key ranges.  Tablets are small (128 MiB), so a
 * level would have few files.
 */
#include "engine/compact/compact_internal.h"
#include "engine/tablet/usage.h"

#include <errno.h>
#include <stdlib.h>

enum { WORTH_FILES = 4, RATIO = 2 };
enum { PASSED_PER_CELL = 4 }; /* rewriting a cell costs as much as a scan that passes this number of expired cells */
enum { DEAD_LEAST = 1000 };   /* tombstones; a small tablet is not rewritten for a few removed rows */

/* Chooses the run [from, from+count) of the files of one group, newest first. */
static void compact_choose_run(struct vfile *const *v, unsigned n, unsigned *from, unsigned *count)
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
	if (n <= COMPACT_MOST_FILES)
		return;
	width = n - COMPACT_MOST_FILES + 1;
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

/* Collects the files of group, from v->files[*at] on, up to a file that cannot be merged.  Sets *at to the place after them. */
static unsigned view_group_stretch(const struct view *v, uint16_t group, unsigned *at, struct vfile **out)
{
	unsigned n = 0;

	for (; *at < v->file_count; ++*at) {
		struct vfile *f = v->files[*at];

		if (f->meta.group != group)
			continue;
		if (f->busy || vfile_excluded(f)) {
			++*at;
			break;
		}
		out[n++] = f;
	}
	return n;
}

static bool group_begins(const struct view *v, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (v->files[k]->meta.group == v->files[i]->meta.group)
			return false;
	return true;
}

int compact_pick(const struct view *v, struct file_set *run)
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
			unsigned n = view_group_stretch(v, v->files[i]->meta.group, &at, files), from = 0, count;

			compact_choose_run(files, n, &from, &count);
			for (unsigned k = 0; k < count && !err; k++)
				err = file_set_add(run, files[from + k]);
		}
	}
	free(files);
	if (err)
		file_set_put(run);
	return err;
}

/* Returns true if the rule's age may hide a version of this time. */
static bool rule_has_expired(const struct gc_rule *rule, int64_t oldest, int64_t asof)
{
	int64_t first = gc_expires(rule, 0, oldest), last = gc_expires(rule, UINT64_MAX, oldest);
	bool first_by_age = first != INT64_MIN && first != INT64_MAX, last_by_age = last != INT64_MIN && last != INT64_MAX;

	if (!first_by_age && !last_by_age)
		return true;
	return (first_by_age && first <= asof) || (last_by_age && last <= asof);
}

/* Returns true if the new rules may hide cells that the old ones did not. */
static bool rules_changed(const struct store_schema *old, const struct store_schema *s)
{
	for (unsigned i = 0; old && old != s && i < s->family_count; i++) {
		const struct gc_rule *now = s->families[i].rule;
		const struct store_family *f = store_schema_family(old, s->families[i].id);

		if (f && (gc_max_versions(f->rule) != gc_max_versions(now) || gc_max_age(f->rule) != gc_max_age(now)))
			return true;
	}
	return false;
}

/* Returns true if a rule hides versions by their number alone. */
static bool counts_versions(const struct store_schema *s)
{
	for (unsigned i = 0; i < s->family_count; i++)
		if (s->families[i].rule && gc_expires(s->families[i].rule, UINT64_MAX, 0) == INT64_MIN)
			return true;
	return false;
}

bool compact_rules_unknown(const struct vfile *f, const struct store_schema *s)
{
	return !f->schema && !vfile_empty(f) && atomic_load(&f->checked_generation) != s->generation + 1 && counts_versions(s);
}

bool compact_misplaced(struct vfile *f, const struct store_schema *s)
{
	return !vfile_empty(f) &&
		(vfile_misplaced(f, s) ||
			(codec_is_slow(store_schema_group(s, f->meta.group)->sst.codec) && vfile_codec(f) == SST_LZ4));
}

int64_t compact_major_after(uint32_t table, struct tfs_bytes begin, uint64_t within_us)
{
	int64_t half = (int64_t)(within_us / 2);

	return half - half / 4 / 1024 * (int64_t)(hash64(begin, table) % 1024);
}

/* Counts the entries of all files.  A file that tablets share after a split counts by this tablet's part of it. */
static void view_entries(const struct view *v, uint64_t *cells, uint64_t *tombstones)
{
	*cells = *tombstones = 0;
	for (unsigned i = 0; i < v->file_count; i++) {
		uint64_t c, d;

		if (vfile_empty(v->files[i]))
			continue;
		vfile_entries(v->files[i], &c, &d);
		*cells += c;
		*tombstones += d;
	}
}

/* Returns true if the tablet should be rewritten because a large part of it is deleted. */
static bool view_mostly_dead(const struct view *v)
{
	uint64_t cells, tombstones = 0;

	for (unsigned i = 0; i < v->file_count; i++)
		tombstones += v->files[i]->meta.tombstones;
	if (tombstones < DEAD_LEAST) /* spares computing the parts of shared files */
		return false;
	view_entries(v, &cells, &tombstones);
	return tombstones >= cells / 4 + DEAD_LEAST;
}

int64_t compact_major_late(
	const struct view *v, const struct store_schema *s, int64_t last_major_us, int64_t now, int64_t collect, int64_t after_us)
{
	int64_t late = last_major_us > now ? 0 : now - last_major_us - after_us;
	int64_t oldest = INT64_MAX;
	bool tombstones = false, stale = false;

	for (unsigned i = 0; i < v->file_count; i++) {
		struct vfile *f = v->files[i];

		if (vfile_excluded(f))
			return -1; /* the compaction would fail again */
		if (f->meta.cells && f->meta.oldest_us < oldest)
			oldest = f->meta.oldest_us;
		tombstones |= f->meta.tombstones > 0;
		stale |= f->clip || rules_changed(f->schema, s) || compact_rules_unknown(f, s);
		for (unsigned k = 0; k < i; k++)
			stale |= v->files[k]->meta.group == f->meta.group; /* together they may have too many versions */
	}
	if (view_mostly_dead(v))
		return late > 0 ? late : 0;
	if (!v->file_count || late < 0)
		return -1;
	for (unsigned i = 0; i < s->family_count && !stale; i++)
		stale = gc_has_age(s->families[i].rule) && rule_has_expired(s->families[i].rule, oldest, collect - TABLET_SKEW_US);
	for (unsigned i = 0; i < v->file_count && !stale; i++) /* last: it may read their properties */
		stale = compact_misplaced(v->files[i], s);
	return stale || tombstones ? late : -1;
}

/* Returns true if a major compaction would free space: much was removed, or whole rows and families, whose cells are not counted. */
static bool compact_frees_space(const struct view *v)
{
	uint64_t cells, dead;
	bool wide = false;

	for (unsigned i = 0; i < v->file_count; i++) {
		const struct vfile *f = v->files[i];

		if (vfile_excluded(f))
			return false;
		wide |= !vfile_empty(f) && (f->meta.row_deletes || f->meta.family_deletes);
	}
	view_entries(v, &cells, &dead);
	for (unsigned i = 0; i < v->mem_count; i++) {
		dead += v->mems[i]->tombstones;
		wide |= v->mems[i]->row_deletes || v->mems[i]->family_deletes;
	}
	return v->file_count && (wide || dead > cells / 8);
}

/*
 * Returns true if the expired cells that scans have passed have cost more than a major
 * compaction, which would remove them.
 */
static bool passed_too_many(struct tablet *t, const struct view *v)
{
	uint64_t cells, tombstones, passed = atomic_load(&t->passed);

	if (passed < TABLET_PASSED_LEAST)
		return false;
	for (unsigned i = 0; i < v->file_count; i++)
		if (vfile_excluded(v->files[i]))
			return false;
	view_entries(v, &cells, &tombstones);
	return passed / PASSED_PER_CELL >= cells;
}

bool compact_wants_major(struct tablet *t)
{
	int64_t after = compact_major_after(t->table, buf_bytes(&t->begin), t->env->major_within_us), late;
	struct snap snap;
	int64_t last;

	mutex_lock(&t->lock);
	last = t->major_us;
	mutex_unlock(&t->lock);
	snap_take(t, &snap);
	late = compact_major_late(snap.view, snap.schema, last, clock_now(t->env->clock), clock_collect(t->env->clock), after);
	if (late < 0 && tablet_disk_full(t) && monotonic_us() >= t->major_after_us && compact_frees_space(snap.view))
		late = 0;
	if (late < 0 && passed_too_many(t, snap.view))
		late = 0;
	snap_put(&snap);
	t->major_late_us = late < 0 ? 0 : late;
	return late >= 0;
}
