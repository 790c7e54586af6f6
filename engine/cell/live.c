/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view of live cells (DESIGN 3.1): walks merged entries in key order and
 * hands out the cells that a reader may see.
 *
 * Because deletes sort before what they mask and each masks only smaller
 * sequence numbers, one pass with three numbers is enough: the greatest
 * sequence of the row's, the family's and the column's deletes met so far
 * (a column delete reaches the timestamps below it, which come later; so
 * its number only grows along the column).  Among the entries of one
 * timestamp the first one not newer than the reader decides, be it a cell or
 * a delete of the version; column deletes among the rest still count.
 *
 * GC rules look at the index of a version among the column's live ones, so
 * every live version is counted before since/until/after filter it.  Rules
 * are monotone: the first hidden version ends the column.
 *
 * Position.  After a cell has been handed out the iterator stays on it, for
 * its value; what to do before the next cell is kept in `pending`.  Passing
 * over entries is done by a few steps and then a seek; from a large cell
 * always by a seek, a step would read a chunk.  A row is always entered at
 * its first key and a family at its first key, where the deletes are, before
 * seeking to the family or qualifier that is wanted.
 *
 * No allocation per cell: the current row and column are kept in buffers
 * that grow to the longest met.
 */
#include "engine/cell/live_internal.h"

#include <errno.h>

#include "engine/base/msg.h"

enum { STEPS_BEFORE_SEEK = 6 };

static int live_damaged(struct live *l, const char *what)
{
	msg_error("store: %s in a cell's entry: key %s", what, Q(l->it->key));
	return -EBADMSG;
}

/* ---- moving ---- */
static bool on_large(const struct iter *it)
{
	size_t n;

	if (it->value.n != 8)
		return false;
	n = cellkey_column_len(it->key);
	return n && it->key.n >= n + CELL_SUFFIX_BYTES && it->key.p[n + CELL_SUFFIX_BYTES - 1] == CELL_LARGE;
}

/* Forward to the first entry >= target. */
static void move_to(struct live *l, struct slice target)
{
	struct iter *it = l->it;

	for (int i = 0; it->valid; i++) {
		if (slice_cmp(it->key, target) >= 0)
			return;
		if (i == STEPS_BEFORE_SEEK || on_large(it)) {
			iter_seek(it, target);
			return;
		}
		iter_next(it);
	}
}

static void move_past_column(struct live *l)
{
	uint8_t *end = l->column.p + l->column.n - 1;

	*end = 0x02; /* an escaped string ends with 00 01 and goes on with 00 FF */
	move_to(l, buf_slice(&l->column));
	*end = 0x01;
}

static void move_past_row(struct live *l)
{
	uint8_t *end = l->row.p + l->row.n - 1;

	*end = 0x02;
	move_to(l, buf_slice(&l->row));
	*end = 0x01;
}

/* Within the current row to the family or, where that is beyond 65535, past the row. */
static int move_to_family(struct live *l, uint32_t family)
{
	int err;

	if (family > UINT16_MAX) {
		move_past_row(l);
		return 0;
	}
	err = buf_set(&l->target, l->row.p, l->row.n);
	if (!err)
		err = buf_be16(&l->target, (uint16_t)family);
	if (!err)
		move_to(l, buf_slice(&l->target));
	return err;
}

/* The first wanted family >= family; UINT32_MAX: none. */
static uint32_t wanted_from(const struct live *l, uint32_t family)
{
	if (!l->families)
		return family;
	for (uint32_t i = 0; i < l->family_count; i++) {
		if (l->families[i] >= family)
			return l->families[i];
	}
	return UINT32_MAX;
}

/* Past the chunks of the large cell (column, ts, seq): by a seek, a step would read one. */
static int move_past_version(struct live *l, int64_t ts, uint64_t seq)
{
	uint8_t suffix[CELL_SUFFIX_BYTES];
	int err;

	put_be64(suffix, ~((uint64_t)ts ^ (UINT64_C(1) << 63)));
	put_be64(suffix + 8, ~seq);
	suffix[16] = CELL_CHUNK + 1;
	err = buf_set(&l->target, l->column.p, l->column.n);
	if (!err)
		err = buf_append(&l->target, suffix, sizeof(suffix));
	if (!err)
		iter_seek(l->it, buf_slice(&l->target));
	return err;
}

/* ---- entering ---- */
static int live_enter_row(struct live *l, size_t row_len)
{
	struct slice encoded;
	int err = buf_set(&l->row, l->it->key.p, row_len);

	l->in_family = false;
	l->column.n = 0;
	l->row_mask = 0;
	if (!err) {
		encoded = buf_slice(&l->row);
		err = cellkey_unescape(encoded, &l->row_raw, &l->row_slice);
	}
	if (err)
		l->row.n = 0;
	return err;
}

static void enter_family(struct live *l, uint16_t family)
{
	l->in_family = true;
	l->family = family;
	l->family_mask = l->row_mask;
	l->column.n = 0;
	if (l->rule_cached && l->rule_family == family)
		return;
	l->known = true;
	l->rule = l->o.rules.rule(l->o.rules.arg, family, &l->known);
	l->max_versions = gc_max_versions(l->rule);
	l->rule_family = family;
	l->rule_cached = true;
}

static int enter_column(struct live *l, size_t column_len)
{
	size_t at = l->row.n + 2;
	struct slice encoded;
	int err = buf_set(&l->column, l->it->key.p, column_len);

	if (!err) {
		encoded = slice_of(l->column.p + at, column_len - at);
		err = cellkey_unescape(encoded, &l->qualifier_raw, &l->qualifier);
		l->after_here = l->o.spec->after_cell && slice_eq(encoded, buf_slice(&l->qfrom));
	}
	if (err) {
		l->column.n = 0;
		return err;
	}
	l->mask = l->family_mask;
	l->has_ts = false;
	l->index = 0;
	l->shown = 0;
	return 0;
}

/*
 * A scan that begins within a column goes straight to its place where nothing
 * above that counts: no rule looks at how many versions there are, nobody
 * limits them, and no delete of the column lies there.  So a listing that
 * goes on in a column of many versions does not walk them again each time,
 * and what cannot be read of those above does not end it.
 */
static int skip_to_after(struct live *l)
{
	const struct scan_spec *s = l->o.spec;
	uint8_t suffix[8];
	int err;

	if (s->versions || gc_expires(l->rule, 0, 0) != gc_expires(l->rule, UINT64_MAX, 0) || !l->o.column_deletes ||
		l->o.column_deletes(l->o.deletes_arg, l->row_slice, l->family, l->qualifier))
		return 0;
	if (s->after_ts == INT64_MIN) {
		move_past_column(l);
		return 0;
	}
	put_be64(suffix, ~((uint64_t)(s->after_ts - 1) ^ (UINT64_C(1) << 63)));
	err = buf_set(&l->target, l->column.p, l->column.n);
	if (!err)
		err = buf_append(&l->target, suffix, sizeof(suffix));
	if (!err)
		iter_seek(l->it, buf_slice(&l->target)); /* steps would read what is to be passed over */
	return err;
}

static inline bool live_in_row(const struct live *l, struct slice key)
{
	return l->row.n && slice_has_prefix(key, buf_slice(&l->row));
}

static inline bool in_column(const struct live *l, struct slice key)
{
	return l->column.n && slice_has_prefix(key, buf_slice(&l->column));
}

/*
 * The iterator stands on an entry outside the current column.  1: a column
 * has been entered whose entries are wanted, and it stands on the first; 0:
 * moved or taken note of something, look again; -errno.  At the end pending is GO_NOWHERE.
 */
static int enter(struct live *l)
{
	struct slice key = l->it->key, q;
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
		if (l->end.n && slice_cmp(key, buf_slice(&l->end)) >= 0) {
			l->pending = GO_NOWHERE;
			return 0;
		}
		err = live_enter_row(l, cellkey_row_len(key));
		if (err)
			return err;
	}
	q = slice_of(key.p + l->row.n + 2, column_len - l->row.n - 2);
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
	if (!l->in_family || l->family != family) {
		wanted = wanted_from(l, family);
		if (wanted != family)
			return move_to_family(l, wanted);
		enter_family(l, family);
	}
	if (!l->known)
		return move_to_family(l, (uint32_t)family + 1);
	if (q.p[0] == 0x00 && q.p[1] == 0x00) { /* the marker */
		if (kind != CELL_DELETE_FAMILY)
			return live_damaged(l, "an impossible kind");
		if (seq <= l->o.seq && seq > l->family_mask)
			l->family_mask = seq;
		iter_next(l->it);
		return 0;
	}
	if (l->qfrom.n && slice_cmp(q, buf_slice(&l->qfrom)) < 0) {
		err = buf_set(&l->target, key.p, l->row.n + 2);
		if (!err)
			err = buf_append(&l->target, l->qfrom.p, l->qfrom.n);
		if (!err)
			move_to(l, buf_slice(&l->target));
		return err;
	}
	if (l->qto.n && slice_cmp(q, buf_slice(&l->qto)) >= 0)
		return move_to_family(l, (uint32_t)family + 1);
	err = enter_column(l, column_len);
	if (err || !l->after_here)
		return err ? err : 1;
	return skip_to_after(l);
}

/* Carries out what the last call left to do. */
static int resume(struct live *l)
{
	int err = 0;

	switch (l->pending) {
	case GO_ON:
	case GO_NOWHERE:
		return 0;
	case GO_NEXT:
		iter_next(l->it);
		break;
	case GO_VERSION:
		err = move_past_version(l, l->large_ts, l->large_seq);
		break;
	case GO_COLUMN:
		move_past_column(l);
		break;
	case GO_FAMILY:
		err = move_to_family(l, (uint32_t)l->family + 1);
		break;
	case GO_ROW:
		move_past_row(l);
		break;
	case GO_START:
		iter_seek(l->it, buf_slice(&l->start));
		break;
	}
	if (!err)
		l->pending = GO_ON;
	return err;
}

/*
 * Judges the entry under the iterator, in the current column.  1: it is a
 * live cell that matches, in *c; 0: no, and pending says what comes next.
 */
static int judge(struct live *l, struct live_cell *c)
{
	const struct scan_spec *s = l->o.spec;
	struct iter *it = l->it;
	enum cell_kind kind;
	uint64_t seq, size;
	int64_t ts, expires, commit;
	bool decided;

	if (it->key.n < l->column.n + CELL_SUFFIX_BYTES)
		return live_damaged(l, "a malformed key");
	cellkey_suffix(it->key, l->column.n, &ts, &seq, &kind);
	l->pending = GO_NEXT;
	if (kind == CELL_CHUNK || kind == CELL_LARGE) {
		l->large_ts = ts;
		l->large_seq = seq;
		l->pending = GO_VERSION;
	}
	decided = l->has_ts && l->ts == ts;
	if (seq > l->o.seq)
		return 0;
	l->ts = ts;
	l->has_ts = true;
	switch (kind) {
	case CELL_DELETE_COLUMN:
		/* whatever follows at this timestamp has a smaller sequence and is masked */
		if (seq > l->mask)
			l->mask = seq;
		return 0;
	case CELL_DELETE_VERSION:
	case CELL_CHUNK:
		return 0;
	case CELL_VALUE:
	case CELL_LARGE:
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
		l->pending = GO_COLUMN;
		return 0;
	}
	if (++l->index >= l->max_versions)
		l->pending = GO_COLUMN;
	if (s->has_times && ts >= s->until)
		return 0;
	if (s->has_times && ts < s->since) {
		l->pending = GO_COLUMN;
		return 0;
	}
	/* what an earlier part of the scan has shown counts as shown */
	if (++l->shown == s->versions)
		l->pending = GO_COLUMN;
	if (l->after_here && ts >= s->after_ts)
		return 0;
	if (!cellkey_commit(it->key, l->column.n, ts, &commit))
		return live_damaged(l, "a malformed key");
	size = it->value.n;
	if (kind == CELL_LARGE) {
		if (it->value.n != 8)
			return live_damaged(l, "a bad size");
		size = load_be64(it->value.p);
	}
	*c = (struct live_cell){
		.row = l->row_slice,
		.qualifier = l->qualifier,
		.family = l->family,
		.ts = ts,
		.expires_us = expires,
		.commit_us = commit,
		.seq = seq,
		.size = size,
		.large = kind == CELL_LARGE,
		.value = kind == CELL_LARGE ? (struct slice){0} : it->value,
	};
	return 1;
}

int live_next(struct live *l, struct live_cell *c)
{
	int r;

	for (;;) {
		r = resume(l);
		if (r)
			return r;
		if (l->pending == GO_NOWHERE)
			return 0;
		if (!l->it->valid) {
			if (l->it->err)
				return l->it->err;
			l->pending = GO_NOWHERE;
			return 0;
		}
		if (!in_column(l, l->it->key)) {
			l->column.n = 0;
			r = enter(l);
			if (r < 0)
				return r;
			if (r == 0)
				continue;
		}
		r = judge(l, c);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (l->what == SCAN_ROWS)
			l->pending = GO_ROW;
		else if (l->what == SCAN_FAMILIES)
			l->pending = GO_FAMILY;
		return 1;
	}
}
