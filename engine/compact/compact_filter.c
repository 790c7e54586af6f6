/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entries a compaction keeps, so that every read returns the same before
 * and after it.
 *
 * Always dropped:
 *	- entries that a delete in the input masks (the delete itself stays
 *	  unless the compaction is major, because it may mask others)
 *	- a delete that a wider one with a larger sequence covers
 *	- all but the largest sequence at one timestamp of a column
 *	- cells of families that the schema does not have: ids are not reused
 *	- versions that age alone hides.  That depends only on their timestamp,
 *	  the rule and the time; versions below them are older
 *
 * Rules that count versions are applied only in three cases: to a freshly
 * frozen memtable, to files whose inputs were all frozen under the current
 * rules, and in a major compaction.  A version counted here as live may be
 * masked by a delete in a newer input that this compaction does not read.  But
 * that delete's mutation was resolved after the freeze, under the same rules,
 * so it also deleted every version that the rules hid.  So a version that is
 * dropped here as hidden is masked there, too.  With other rules, or at an
 * earlier time, it would not be.
 *
 * The hidden versions of a column are its oldest ones: after the first hidden
 * version only deletes of the column are kept.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>

void filter_init(struct filter *f, const struct filter_rules *r)
{
	*f = (struct filter){.rules = *r};
}

void filter_fini(struct filter *f)
{
	buf_fini(&f->last);
}

static void filter_begin_column(struct filter *f)
{
	f->column_del = f->version_del = 0;
	f->any_ts = f->hidden = false;
	f->index = 0;
}

static void filter_begin_family(struct filter *f, uint16_t family)
{
	f->family = family;
	f->rule = store_schema_rule(f->rules.schema, family, &f->family_exists);
	f->age = f->rule ? gc_max_age(f->rule) : 0;
	f->family_del = 0;
}

/* Updates the current row, family and column. */
static int filter_enter(struct filter *f, struct tfs_bytes key, struct filter_entry *e)
{
	size_t row_len, column_len;
	bool new_row;
	int err;

	if (f->last.n && key.n >= f->last.n + CELL_SUFFIX_BYTES && memcmp(key.p, f->last.p, f->last.n) == 0) {
		e->row_len = f->row_len;
		e->column_len = f->last.n;
		e->family = f->family;
		return 0;
	}
	row_len = cellkey_row_len(key);
	column_len = cellkey_column_len(key);
	if (!row_len || !column_len || key.n < column_len + CELL_SUFFIX_BYTES)
		return -EBADMSG;
	new_row = row_len != f->row_len || f->last.n < row_len || memcmp(key.p, f->last.p, row_len) != 0;
	e->row_len = row_len;
	e->column_len = column_len;
	e->family = load_be16(key.p + row_len);
	if (new_row)
		f->row_del = 0;
	if (new_row || !f->last.n || e->family != f->family)
		filter_begin_family(f, e->family);
	filter_begin_column(f);
	err = buf_set(&f->last, key.p, column_len);
	if (err) {
		f->last.n = 0;
		return err;
	}
	f->row_len = row_len;
	return 0;
}

static bool filter_hides(const struct filter *f, int64_t ts)
{
	int64_t edge;

	if (!f->rule)
		return false;
	if (f->rules.counts && gc_hides(f->rule, f->index, ts, f->rules.count_asof))
		return true;
	if (!f->age || __builtin_sub_overflow(f->rules.age_asof, f->age, &edge))
		return false;
	return ts < edge;
}

/* Returns true if a delete of the row, the family or the column that was read so far masks the entry. */
static bool filter_covered(const struct filter *f, uint64_t seq)
{
	return seq < f->row_del || seq < f->family_del || seq < f->column_del;
}

static bool filter_masked(const struct filter *f, int64_t ts, uint64_t seq)
{
	return filter_covered(f, seq) || (f->version_del_ts == ts && seq < f->version_del);
}

static bool filter_keeps_value(struct filter *f, const struct filter_entry *e)
{
	if (f->any_ts && f->last_ts == e->ts)
		return false;
	if (filter_masked(f, e->ts, e->seq))
		return false;
	f->any_ts = true;
	f->last_ts = e->ts;
	if (f->hidden || !f->family_exists || filter_hides(f, e->ts)) {
		f->hidden = true;
		return false;
	}
	f->index++;
	return true;
}

int filter_key(struct filter *f, struct tfs_bytes key, struct filter_entry *e)
{
	bool stays = !f->rules.major;
	int err = filter_enter(f, key, e);

	if (err)
		return err;
	cellkey_suffix(key, e->column_len, &e->ts, &e->seq, &e->kind);
	switch (e->kind) {
	case CELL_DELETE_ROW:
		if (e->seq < f->row_del)
			return 0;
		f->row_del = e->seq;
		return stays;
	case CELL_DELETE_FAMILY:
		if (e->seq < f->row_del || e->seq < f->family_del)
			return 0;
		f->family_del = e->seq;
		return stays && f->family_exists;
	case CELL_DELETE_COLUMN:
		if (filter_covered(f, e->seq)) /* a later delete of one version, at the same timestamp, is narrower */
			return 0;
		f->column_del = e->seq;
		return stays && f->family_exists;
	case CELL_DELETE_VERSION:
		if (filter_masked(f, e->ts, e->seq))
			return 0;
		f->version_del_ts = e->ts;
		f->version_del = e->seq;
		return stays && f->family_exists;
	case CELL_VALUE:
		return filter_keeps_value(f, e);
	}
	return -EBADMSG;
}
