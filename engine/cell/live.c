/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live cells: reads merged entries in key order and returns the cells that a
 * reader may see.
 *
 * Deletes sort before the cells that they mask, and mask only smaller sequence
 * numbers.  So one pass with three numbers is enough: the greatest sequence of
 * the row's, the family's and the column's deletes read so far.  (A column
 * delete applies to the timestamps below it, which follow; so its number only
 * grows along the column.)  Among the entries of one timestamp the first one
 * not newer than the reader decides, whether it is a cell or a delete of the
 * version; column deletes among the rest still count.
 *
 * GC rules depend on the index of a version among the column's live ones, so
 * every live version is counted before since/until/after filter it.  Rules
 * are monotone: the first hidden version ends the column.
 *
 * Position.  The iterator stays on the returned cell, for its value; `pending`
 * is the step before the next cell.  Entries are skipped by a few steps and then a
 * seek.  A row and a family are always entered at their first key, where their deletes are, before
 * a seek to the wanted family or qualifier.
 *
 * Patterns.  A pattern on row keys or qualifiers is compared when the scan has found
 * a live cell there, in a family that it may read.  The time and the bounds of a match
 * can be observed, so a pattern must not see keys that its user may not read.
 *
 * No allocation per cell: the current row and column are in buffers that grow
 * to the longest.
 */
#include "engine/cell/live_internal.h"

#include <errno.h>

#include "engine/base/msg.h"

enum { STEPS_BEFORE_SEEK = 6, SKIPPED_MAX = 1000 };

static int live_damaged(struct live *l, const char *what)
{
	msg_error("store: %s in a cell's entry: key %s", what, Q(l->it->key));
	return -EBADMSG;
}

/* ---- moving ---- */
/* Forward to the first entry >= target. */
static void live_seek(struct live *l, struct tfs_bytes target)
{
	struct iter *it = l->it;

	for (int i = 0; it->valid; i++) {
		if (bytes_cmp(it->key, target) >= 0)
			return;
		if (i == STEPS_BEFORE_SEEK) {
			iter_seek(it, target);
			return;
		}
		iter_next(it);
	}
}

/* prefix: the current row or column, encoded. */
static void live_seek_past(struct live *l, struct buf *prefix)
{
	uint8_t *end = prefix->p + prefix->n - 1;

	*end = 0x02; /* above the end 00 01, below an escaped 00 FF */
	live_seek(l, buf_bytes(prefix));
	*end = 0x01;
}

/* Seeks to this suffix in the current column, without steps. */
static int live_seek_in_column(struct live *l, const uint8_t *suffix, size_t n)
{
	int err = buf_set(&l->target, l->column.p, l->column.n);

	if (!err)
		err = buf_append(&l->target, suffix, n);
	if (!err)
		iter_seek(l->it, buf_bytes(&l->target));
	return err;
}

/* Seeks to the family in the current row, or past the row if there is no such id. */
static int live_seek_family(struct live *l, uint32_t family)
{
	int err;

	if (family > UINT16_MAX) {
		live_seek_past(l, &l->row);
		return 0;
	}
	err = buf_set(&l->target, l->row.p, l->row.n);
	if (!err)
		err = buf_be16(&l->target, (uint16_t)family);
	if (!err)
		live_seek(l, buf_bytes(&l->target));
	return err;
}

/* Returns the first wanted family >= family; UINT32_MAX: none. */
static uint32_t live_wanted_family(const struct live *l, uint32_t family)
{
	const struct scan_spec *s = l->o.spec;
	const uint32_t first = (uint32_t)s->done_family + !s->done_in_family;
	uint32_t least = UINT32_MAX;

	if (l->in_done_row && family < first)
		family = first;
	if (!s->family_ids)
		return family;
	for (uint32_t i = 0; i < s->pub.family_count; i++)
		if (s->family_ids[i] >= family && s->family_ids[i] < least)
			least = s->family_ids[i];
	return least;
}

/* ---- entering ---- */
static int live_enter_row(struct live *l, size_t row_len)
{
	struct tfs_bytes encoded;
	int err = buf_set(&l->row, l->it->key.p, row_len);

	l->family = 0;
	l->column.n = 0;
	l->row_mask = 0;
	l->row_returned = l->row_admitted = false;
	if (!err) {
		encoded = buf_bytes(&l->row);
		l->in_done_row = l->done_row.n && bytes_eq(encoded, buf_bytes(&l->done_row));
		err = cellkey_unescape(encoded, &l->row_raw, &l->row_bytes);
	}
	if (err)
		l->row.n = 0;
	return err;
}

static void live_enter_family(struct live *l, uint16_t family)
{
	l->family = family;
	l->family_mask = l->row_mask;
	l->column.n = 0;
	l->in_done_family = l->in_done_row && family == l->o.spec->done_family;
	l->columns = l->in_done_family ? l->o.spec->done_columns : 0;
	if (l->rule_family == family)
		return;
	l->known = true;
	l->rule = l->o.rules.rule(l->o.rules.arg, family, &l->known);
	l->max_versions = gc_max_versions(l->rule);
	l->rule_family = family;
}

static int live_enter_column(struct live *l, size_t column_len)
{
	const struct scan_spec *s = l->o.spec;
	size_t at = l->row.n + 2;
	struct tfs_bytes encoded;
	int err = buf_set(&l->column, l->it->key.p, column_len);

	if (!err) {
		encoded = tfs_bytes_of(l->column.p + at, column_len - at);
		err = cellkey_unescape(encoded, &l->qualifier_raw, &l->qualifier);
		l->after_here = s->pub.after_cell && bytes_eq(encoded, buf_bytes(&l->qfrom));
		l->after_ts = s->pub.after_ts;
	}
	if (err) {
		l->column.n = 0;
		return err;
	}
	l->mask = l->family_mask;
	l->has_ts = l->column_admitted = false;
	l->index = 0;
	l->shown = 0;
	l->column_returned = l->in_done_family && bytes_eq(encoded, buf_bytes(&l->done_qualifier));
	if (l->column_returned) {
		if (!l->after_here || s->done_ts < l->after_ts)
			l->after_ts = s->done_ts;
		l->after_here = true;
	}
	return 0;
}

/*
 * Returns 1 if the filters admit row and qualifier of the live cell under the
 * iterator, else 0, with the step past them pending, or -errno.
 */
static int live_filter_key(struct live *l)
{
	const size_t salt = l->o.spec->row_salted && l->row_bytes.n;
	int n = 1;

	if (!l->row_admitted) {
		n = scan_filter_row(l->o.filter, tfs_bytes_of(l->row_bytes.p + salt, l->row_bytes.n - salt));
		if (n > 0 && l->o.check && l->o.check->fn)
			n = l->o.check->fn(l->o.check->arg, l->row_bytes);
		if (n == ROW_CHECK_PAUSE) {
			l->skipped = SKIPPED_MAX;
			n = 0;
		}
		l->row_admitted = n > 0;
		if (n == 0)
			l->pending = MOVE_PAST_ROW;
	}
	if (n > 0 && !l->column_admitted) {
		n = scan_filter_qualifier(l->o.filter, l->qualifier);
		l->column_admitted = n > 0;
		if (n == 0)
			l->pending = MOVE_PAST_COLUMN;
	}
	l->skipped += n == 0;
	return n;
}

/*
 * A scan that begins within a column seeks to its first timestamp if the
 * versions above do not matter: no rule and no limit counts versions, and no
 * delete of the column is among them.  So a listing that is continued in a
 * column of many versions does not read them again each time, and an
 * unreadable block above does not end it.
 */
static int live_skip_to_after(struct live *l)
{
	const struct scan_spec *s = l->o.spec;
	uint8_t suffix[8];

	if (s->pub.versions || gc_expires(l->rule, 0, 0) != gc_expires(l->rule, UINT64_MAX, 0) || !l->o.column_deletes ||
		l->o.column_deletes(l->o.deletes_arg, l->row_bytes, l->family, l->qualifier))
		return 0;
	if (l->after_ts == INT64_MIN) {
		live_seek_past(l, &l->column);
		return 0;
	}
	put_be64(suffix, cellkey_ts(l->after_ts - 1));
	return live_seek_in_column(l, suffix, sizeof(suffix)); /* steps would read the versions above */
}

static inline bool live_in_row(const struct live *l, struct tfs_bytes key)
{
	return l->row.n && bytes_has_prefix(key, buf_bytes(&l->row));
}

static inline bool live_in_column(const struct live *l, struct tfs_bytes key)
{
	return l->column.n && bytes_has_prefix(key, buf_bytes(&l->column));
}

static enum live_move live_move_at_end(const struct live *l)
{
	return l->o.spec->pub.reverse ? MOVE_TO_ROW_BEFORE : MOVE_AT_END;
}

/* In a reverse scan: makes the last row before `upper` the row to be read, or sets MOVE_AT_END. */
static int live_to_row_before(struct live *l)
{
	const struct tfs_bytes none = {NULL, 0};
	size_t n;

	l->pending = MOVE_AT_END;
	l->row.n = l->column.n = 0;
	iter_seek_before(l->it, l->upper.n ? buf_bytes(&l->upper) : none);
	if (!l->it->valid)
		return l->it->err;
	n = cellkey_row_len(l->it->key);
	if (n == 0)
		return live_damaged(l, "a malformed key");
	if (bytes_cmp(l->it->key, buf_bytes(&l->start)) < 0)
		return 0;
	if (buf_set(&l->upper, l->it->key.p, n) || buf_set(&l->end, l->upper.p, n))
		return -ENOMEM;
	l->end.p[n - 1] = 0x02; /* the same as in cellkey_row_after() */
	l->skipped++;
	l->pending = MOVE_NONE;
	iter_seek(l->it, buf_bytes(&l->upper));
	return 0;
}

/*
 * The iterator stands on an entry outside the current column.  Returns 1 if it
 * is the first of a wanted column, which is now the current one; 0 if the
 * iterator has moved and the caller must look again; -errno.  At the end
 * pending is MOVE_AT_END.
 */
static int live_enter(struct live *l)
{
	struct tfs_bytes key = l->it->key, q, from;
	size_t column_len;
	uint16_t family;
	uint64_t seq;
	int64_t ts;
	enum cell_kind kind;
	uint32_t wanted;
	int err;

	column_len = cellkey_column_len(key);
	if (column_len == 0 || key.n < column_len + CELL_SUFFIX_BYTES)
		return live_damaged(l, "a malformed key");
	if (!live_in_row(l, key)) {
		if (l->end.n && bytes_cmp(key, buf_bytes(&l->end)) >= 0) {
			l->pending = live_move_at_end(l);
			return 0;
		}
		err = live_enter_row(l, cellkey_row_len(key));
		if (err)
			return err;
	}
	q = tfs_bytes_of(key.p + l->row.n + 2, column_len - l->row.n - 2);
	family = load_be16(key.p + l->row.n);
	cellkey_suffix(key, column_len, &ts, &seq, &kind);
	if (family == 0) {
		if (kind != CELL_DELETE_ROW)
			return live_damaged(l, "an impossible kind");
		if (seq <= l->o.seq && seq > l->row_mask)
			l->row_mask = seq;
		iter_next(l->it);
		return 0;
	}
	if (l->family != family) {
		wanted = live_wanted_family(l, family);
		if (wanted != family)
			return live_seek_family(l, wanted);
		live_enter_family(l, family);
	}
	if (!l->known)
		return live_seek_family(l, (uint32_t)family + 1);
	if (q.p[0] == 0x00 && q.p[1] == 0x00) { /* the marker */
		if (kind != CELL_DELETE_FAMILY)
			return live_damaged(l, "an impossible kind");
		if (seq <= l->o.seq && seq > l->family_mask)
			l->family_mask = seq;
		iter_next(l->it);
		return 0;
	}
	from = buf_bytes(l->in_done_family ? &l->done_qualifier : &l->qfrom);
	if (from.n && bytes_cmp(q, from) < 0) {
		err = buf_set(&l->target, key.p, l->row.n + 2);
		if (!err)
			err = buf_append_bytes(&l->target, from);
		if (!err)
			live_seek(l, buf_bytes(&l->target));
		return err;
	}
	if ((l->qto.n && bytes_cmp(q, buf_bytes(&l->qto)) >= 0) ||
		(l->o.spec->pub.column_limit && l->columns >= l->o.spec->pub.column_limit &&
			!(l->in_done_family && bytes_eq(q, from))))
		return live_seek_family(l, (uint32_t)family + 1);
	err = live_enter_column(l, column_len);
	if (err)
		return err;
	return l->after_here ? live_skip_to_after(l) : 1;
}

/* Makes the pending step. */
static int live_move(struct live *l)
{
	int err = 0;

	switch (l->pending) {
	case MOVE_NONE:
	case MOVE_AT_END:
		return 0;
	case MOVE_NEXT:
		iter_next(l->it);
		break;
	case MOVE_PAST_COLUMN:
		live_seek_past(l, &l->column);
		break;
	case MOVE_PAST_FAMILY:
		err = live_seek_family(l, (uint32_t)l->family + 1);
		break;
	case MOVE_PAST_ROW:
		live_seek_past(l, &l->row);
		break;
	case MOVE_TO_ROW_BEFORE:
		return live_to_row_before(l);
	case MOVE_TO_START:
		iter_seek(l->it, buf_bytes(&l->start));
		break;
	}
	if (!err)
		l->pending = MOVE_NONE;
	return err;
}

/* Returns 1 if the filters admit the cell under the iterator, 0 if not, -errno. */
static int live_filter_cell(struct live *l, const struct live_cell *c)
{
	const struct scan_spec *s = l->o.spec;
	int n = !(s->pub.has_changed && c->commit_us < s->pub.changed_since) && !scan_filter_excludes_size(l->o.filter, c->size);

	if (n && scan_filter_needs_value(l->o.filter, c->size)) {
		struct tfs_bytes value;

		n = iter_value(l->it, &value);
		if (n == 0)
			n = scan_filter_value(l->o.filter, value);
	}
	l->skipped += n == 0;
	return n;
}

/*
 * Reads the entry under the iterator, in the current column.  Returns 1 if it
 * is a live cell that matches, in *c; 0 if not.  Sets pending.
 */
static int live_read_entry(struct live *l, struct live_cell *c)
{
	const struct scan_spec *s = l->o.spec;
	struct iter *it = l->it;
	enum cell_kind kind;
	uint64_t seq;
	int64_t ts, expires, commit;
	bool decided;
	int r;

	if (it->key.n < l->column.n + CELL_SUFFIX_BYTES)
		return live_damaged(l, "a malformed key");
	cellkey_suffix(it->key, l->column.n, &ts, &seq, &kind);
	l->pending = MOVE_NEXT;
	decided = l->has_ts && l->ts == ts;
	if (seq > l->o.seq)
		return 0;
	l->ts = ts;
	l->has_ts = true;
	switch (kind) {
	case CELL_DELETE_COLUMN:
		/* all that follows at this timestamp has a smaller sequence and is masked */
		if (seq > l->mask)
			l->mask = seq;
		return 0;
	case CELL_DELETE_VERSION:
		return 0;
	case CELL_VALUE:
		break;
	case CELL_DELETE_ROW:
	case CELL_DELETE_FAMILY:
	default:
		return live_damaged(l, "an impossible kind");
	}
	if (decided || seq < l->mask)
		return 0;
	expires = gc_expires(l->rule, l->index, ts);
	if (expires != INT64_MAX && expires <= l->o.now) {
		l->passed += expires <= l->o.collect;
		l->pending = MOVE_PAST_COLUMN;
		return 0;
	}
	r = live_filter_key(l);
	if (r <= 0)
		return r;
	if (++l->index >= l->max_versions)
		l->pending = MOVE_PAST_COLUMN;
	if (s->pub.has_times && ts >= s->pub.until && s->pub.until != INT64_MAX)
		return 0;
	if (s->pub.has_times && ts < s->pub.since) {
		l->pending = MOVE_PAST_COLUMN;
		return 0;
	}
	/* versions that an earlier part of the scan returned count */
	if (++l->shown == s->pub.versions)
		l->pending = MOVE_PAST_COLUMN;
	if (l->after_here && ts >= l->after_ts)
		return 0;
	if (!cellkey_commit(it->key, l->column.n, ts, &commit))
		return live_damaged(l, "a malformed key");
	*c = (struct live_cell){
		.row = l->row_bytes,
		.qualifier = l->qualifier,
		.family = l->family,
		.ts = ts,
		.expires_us = expires,
		.commit_us = commit,
		.seq = seq,
		.size = it->size,
		.starts_row = !l->row_returned,
	};
	return live_filter_cell(l, c);
}

/* A cell is being returned: counts its row and column. */
static void live_count(struct live *l)
{
	l->skipped = 0;
	l->row_returned = true;
	l->columns += !l->column_returned;
	l->column_returned = true;
	if (l->o.spec->pub.what == TFS_SCAN_ROWS)
		l->pending = MOVE_PAST_ROW;
	else if (l->o.spec->pub.what == TFS_SCAN_FAMILIES)
		l->pending = MOVE_PAST_FAMILY;
}

int live_row(const struct live *l, struct buf *out)
{
	return l->row.n && !l->row_returned ? buf_append(out, l->row_bytes.p, l->row_bytes.n) : 0;
}

/* Returns 1 and the row of the next entry, whatever the entry is; 0 at the end, -errno. */
static int live_next_stored_row(struct live *l, struct live_cell *c)
{
	int err = live_move(l);

	if (err || !l->it->valid)
		return err ? err : l->it->err;
	if (l->end.n && bytes_cmp(l->it->key, buf_bytes(&l->end)) >= 0)
		return 0;
	if (!cellkey_row_len(l->it->key))
		return live_damaged(l, "a malformed key");
	err = live_enter_row(l, cellkey_row_len(l->it->key));
	if (err)
		return err;
	l->pending = MOVE_PAST_ROW;
	*c = (struct live_cell){.row = l->row_bytes, .expires_us = INT64_MAX, .starts_row = true};
	return 1;
}

int live_next(struct live *l, struct live_cell *c)
{
	int r;

	if (l->o.spec->pub.what == TFS_SCAN_STORED_ROWS)
		return live_next_stored_row(l, c);
	for (;;) {
		if (l->skipped >= SKIPPED_MAX) {
			l->skipped = 0;
			return LIVE_NONE_YET;
		}
		r = live_move(l);
		if (r)
			return r;
		if (l->pending == MOVE_AT_END)
			return 0;
		if (!l->it->valid && (l->it->err || !l->o.spec->pub.reverse))
			return l->it->err;
		if (!l->it->valid) {
			l->pending = MOVE_TO_ROW_BEFORE;
			continue;
		}
		if (!live_in_column(l, l->it->key)) {
			l->column.n = 0;
			r = live_enter(l);
			if (r < 0)
				return r;
			if (r == 0)
				continue;
		}
		r = live_read_entry(l, c);
		if (r == 0)
			continue;
		if (r < 0)
			return r;
		live_count(l);
		return 1;
	}
}

int live_seek_row(struct live *l, struct tfs_bytes row)
{
	struct buf *to = l->o.spec->pub.reverse ? &l->upper : &l->start;

	l->row.n = l->column.n = 0;
	l->pending = l->o.spec->pub.reverse ? MOVE_TO_ROW_BEFORE : MOVE_TO_START;
	buf_reset(to);
	return l->o.spec->pub.reverse ? cellkey_row_after(to, row) : cellkey_row_prefix(to, row);
}

int live_value(struct live *l, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	return iter_load(l->it, offset, n, out);
}

uint64_t live_passed(struct live *l)
{
	uint64_t n = l->passed;

	l->passed = 0;
	return n;
}
