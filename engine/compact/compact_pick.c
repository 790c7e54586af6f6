/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files to merge, and when a tablet wants a major compaction.
 *
 * Within one group the files are runs by age.  From the newest on, files of
 * like size are gathered as long as the next is at most twice all gathered
 * so far; four of them are worth a merge.  Beyond COMPACT_MOST_FILES the
 * cheapest window that brings the group back to it is merged, whatever its
 * sizes.
 *
 * What that bounds.  Files: the second rule leaves COMPACT_MOST_FILES of a
 * group, whatever was flushed.  Bytes: whom the first rule rewrites finds
 * himself in a file at least half as large again, since the oldest file of a
 * merge is at most twice the others together; so it rewrites a byte at most
 * log1.5(size / flush) times.  The second rule seldom acts: where the first
 * has nothing to do, of any four files in a row one is larger than twice all
 * newer ones of the four, so three files further back there is three times
 * as much, and nine files are a group 27 times its newest.  Then two
 * neighbours are merged that have a quarter of all bytes at most, mostly two
 * small ones.  t/unit/test_policy has both for thousands of flushes of seven
 * kinds of sizes: never more than eight files, and a byte is written once and
 * 0.45 to 0.7 times for each doubling of size / flush (8 times at 5,000).
 *
 * A file that another compaction has, or that cannot be read, parts its
 * group: runs are adjacent in age, so none reaches across it.
 *
 * Majors.  What was removed is to be off the disk within a promised time
 * (major_within).  A tablet that may hold any of it is major-compacted within
 * half of that since its last one; where in the last quarter of the half is
 * drawn from its place, so that tablets made together are not due together.
 * The other half is for what comes before (memtables and the log are old
 * after a while, engine/server/logs.c) and for waiting one's turn.
 *
 * Decided against: levels with key ranges.  Tablets are small (128 MiB) and
 * split by load, so a level of ranges within one would hold few files.
 */
#include "engine/compact/compact_internal.h"
#include "engine/tablet/usage.h"

#include <errno.h>
#include <stdlib.h>

enum { WORTH_FILES = 4, RATIO = 2 };
enum { DEAD_LEAST = 1000 }; /* tombstones; a small tablet is not rewritten for every few rows that go */

/* Files of one group, newest first: the run [from, from+count). */
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

/* The files of group from v->files[*at] on that one run may be chosen of; *at: behind them. */
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
		file_set_put(run, false);
	return err;
}

/* May the rule's age hide a version of this time, at one of the indexes that matter?  In doubt yes. */
static bool rule_has_expired(const struct gc_rule *rule, int64_t oldest, int64_t asof)
{
	int64_t first = gc_expires(rule, 0, oldest), last = gc_expires(rule, UINT64_MAX, oldest);
	bool first_by_age = first != INT64_MIN && first != INT64_MAX, last_by_age = last != INT64_MIN && last != INT64_MAX;

	if (!first_by_age && !last_by_age)
		return true;
	return (first_by_age && first <= asof) || (last_by_age && last <= asof);
}

/* Cells may have been kept under the old rules that the new ones hide. */
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

/* Does a rule hide versions by their number alone? */
static bool counts_versions(const struct store_schema *s)
{
	for (unsigned i = 0; i < s->family_count; i++)
		if (s->families[i].rule && gc_expires(s->families[i].rule, UINT64_MAX, 0) == INT64_MIN)
			return true;
	return false;
}

bool compact_rules_unknown(const struct vfile *f, const struct store_schema *s)
{
	return !f->schema && !vfile_empty(f) && atomic_load(&f->looked) != s->generation + 1 && counts_versions(s);
}

int64_t compact_major_after(uint32_t table, struct slice begin, uint64_t within_us)
{
	int64_t half = (int64_t)(within_us / 2);

	return half - half / 4 / 1024 * (int64_t)(hash64(begin, table) % 1024);
}

/*
 * Is so much of the tablet deleted that all of it is worth writing anew?  A
 * file that tablets share after a split counts by what is this one's: with
 * all of it, nothing would ever be much.
 */
static bool view_mostly_dead(const struct view *v)
{
	uint64_t cells = 0, tombstones = 0;

	for (unsigned i = 0; i < v->file_count; i++)
		tombstones += v->files[i]->meta.tombstones;
	if (tombstones < DEAD_LEAST) /* nobody need be asked */
		return false;
	tombstones = 0;
	for (unsigned i = 0; i < v->file_count; i++) {
		uint64_t c, d;

		if (vfile_empty(v->files[i]))
			continue;
		vfile_entries(v->files[i], &c, &d);
		cells += c;
		tombstones += d;
	}
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
			return -1; /* it would fail again and again */
		if (f->meta.cells && f->meta.oldest_us < oldest)
			oldest = f->meta.oldest_us;
		tombstones |= f->meta.tombstones > 0;
		stale |= f->clip || rules_changed(f->schema, s) || compact_rules_unknown(f, s);
		for (unsigned k = 0; k < i; k++)
			stale |= v->files[k]->meta.group == f->meta.group; /* versions that only together are too many */
	}
	if (view_mostly_dead(v))
		return late > 0 ? late : 0;
	if (!v->file_count || late < 0)
		return -1;
	for (unsigned i = 0; i < s->family_count && !stale; i++)
		stale = gc_has_age(s->families[i].rule) && rule_has_expired(s->families[i].rule, oldest, collect - TABLET_SKEW_US);
	for (unsigned i = 0; i < v->file_count && !stale; i++) /* last: it may read their properties */
		stale = !vfile_empty(v->files[i]) && vfile_misplaced(v->files[i], s);
	return stale || tombstones ? late : -1;
}

bool compact_frees_space(const struct view *v)
{
	uint64_t cells = 0, dead = 0;
	bool wide = false;

	for (unsigned i = 0; i < v->mem_count; i++) {
		dead += v->mems[i]->tombstones;
		wide |= v->mems[i]->row_deletes || v->mems[i]->family_deletes;
	}
	for (unsigned i = 0; i < v->file_count; i++) {
		struct vfile *f = v->files[i];
		uint64_t c, d;

		if (vfile_excluded(f))
			return false;
		if (vfile_empty(f))
			continue;
		vfile_entries(f, &c, &d);
		cells += c;
		dead += d;
		wide |= f->meta.row_deletes || f->meta.family_deletes;
	}
	return v->file_count && (wide || dead > cells / 8);
}
