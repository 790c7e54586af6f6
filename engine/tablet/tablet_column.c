/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one column (tablet_column.h).
 *
 * The sources are the memtables, and the files whose range and filters say
 * that they may hold the column.  Deletes of the row or of the family lie
 * elsewhere in key order: they are looked for first, and only in memtables
 * and files that count any.  Then the sources are walked side by side; they
 * are few, so the least key is found by comparing all.
 *
 * Within the column the keys come by falling timestamp and, at one
 * timestamp, by falling sequence.  So a delete of the column up to T is met
 * before every version it masks, and the largest sequence at a timestamp
 * before those it replaces.
 *
 * To go straight to a timestamp, only deletes of the column above it must be
 * known, and they are rare: a memtable counts them, a file's filter knows
 * the columns that have any.  So a version is found by one seek in each
 * source also where thousands of others were deleted one by one.
 *
 * A file that cannot be read where it stands stays among the sources,
 * damaged: its bounds in time and sequence tell which versions of the others
 * nothing in it could replace or delete (matters), and those are given.
 */
#include "engine/tablet/tablet_column.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/msg.h"

enum {
	KIND_AT = CELL_SUFFIX_BYTES - 1,
	TAG = 1,                   /* before the column in key, so that tag and column are the filter's probe as they stand */
	ABOVE = CELL_SUFFIX_BYTES, /* ff bytes behind a prefix: at or above any timestamp's */
};

static inline struct slice column(const struct colread *c)
{
	return slice_of(c->key.p + TAG, c->column_len);
}

static inline bool in_column(const struct colread *c, const struct iter *it)
{
	return it && it->valid && it->key.n >= c->column_len + CELL_SUFFIX_BYTES &&
		memcmp(it->key.p, c->key.p + TAG, c->column_len) == 0;
}

/* After its iterator was moved: the reader's error, or its own. */
static int moved(struct colsrc *s)
{
	int err = s->it->valid ? 0 : s->it->err;

	s->damage = s->file && is_damage(err) ? err : 0;
	return s->damage ? 0 : err;
}

/* The largest visible sequence of the deletes under this prefix (row+00 00 or row+family+00 00). */
static int find_delete(struct colread *c, struct iter *it, struct slice prefix)
{
	int64_t ts;
	uint64_t seq;
	enum cell_kind kind;

	for (iter_seek(it, prefix); it->valid && slice_has_prefix(it->key, prefix); iter_next(it)) {
		cellkey_suffix(it->key, prefix.n, &ts, &seq, &kind);
		if (seq > c->seq)
			continue;
		if (seq > c->del_seq)
			c->del_seq = seq;
		return 0;
	}
	return it->err;
}

static int find_deletes(struct colread *c, struct iter *it, bool row, bool family)
{
	struct buf *b = &c->probe;
	static const uint8_t zeros[4];
	int err = 0;

	if (row) {
		buf_reset(b);
		if ((err = buf_append(b, c->key.p + TAG, c->row_len)) || (err = buf_append(b, zeros, 4)))
			return err;
		err = find_delete(c, it, buf_slice(b));
	}
	if (family && !err) {
		buf_reset(b);
		if ((err = buf_append(b, c->key.p + TAG, c->row_len + 2)) || (err = buf_append(b, zeros, 2)))
			return err;
		err = find_delete(c, it, buf_slice(b));
	}
	return err;
}

static int add_mem(struct colread *c, struct vmem *m)
{
	struct iter *it;
	bool rows, families;
	int err;

	if (!memtable_count(m->m))
		return 0;
	err = memtable_iter_new(m->m, &it);
	if (err)
		return err;
	rows = m->row_deletes > 0;
	families = m->family_deletes > 0;
	if ((rows || families) && (err = find_deletes(c, it, rows, families)))
		goto out;
	iter_seek(it, column(c));
	if (in_column(c, it)) {
		c->src[c->count++] = (struct colsrc){.it = it, .column_deletes = m->column_deletes > 0};
		return 0;
	}
	err = it->err;
out:
	iter_free(it);
	return err;
}

/* Asks the filter of f for a delete of the row ('R') or family ('F'), which are its first keys. */
static int may_hold_delete(struct colread *c, struct vfile *f, char tag, bool *may)
{
	struct buf *b = &c->probe;
	size_t n = tag == 'R' ? c->row_len : c->row_len + 2;
	int err;

	buf_reset(b);
	if ((err = buf_u8(b, (uint8_t)tag)) || (err = buf_append(b, c->key.p + TAG, n)) || (err = buf_append(b, "\xff\xff\xff", 3)))
		return err;
	*may = sst_may_contain(f->sst, slice_of(b->p + TAG, c->row_len), slice_of(b->p + TAG, n + 3), slice_of(b->p, TAG + n));
	return 0;
}

/* s->file at the column, or s without an iterator when it is not there. */
static int open_file(struct colread *c, struct colsrc *s)
{
	struct slice key = column(c), to = slice_of(key.p, key.n + ABOVE), probe = slice_of(c->key.p, TAG + c->column_len);
	struct vfile *f = s->file;
	struct iter *it;
	bool rows = false, families = false;
	int err;

	if (f->meta.row_deletes && (err = may_hold_delete(c, f, 'R', &rows)))
		return err;
	if (f->meta.family_deletes && (err = may_hold_delete(c, f, 'F', &families)))
		return err;
	if (rows || families) {
		err = sst_iter_new(f->sst, &it); /* the row is within the clip: none needed */
		if (!err) {
			err = find_deletes(c, it, rows, families);
			iter_free(it);
		}
		if (is_damage(err)) {
			c->doubt = err;
			c->doubt_seq = f->meta.seq_max > c->doubt_seq ? f->meta.seq_max : c->doubt_seq;
			err = 0;
		}
		if (err)
			return err;
	}
	c->key.p[0] = 'c';
	err = sst_find(f->sst, key, to, probe, &it);
	if (!err && !it)
		return 0;
	if (!err && !in_column(c, it)) {
		msg_error("%s: damaged: a malformed key: %s", sst_path(f->sst), Q(it->key));
		iter_free(it);
		err = -EBADMSG;
	}
	if (err && !is_damage(err))
		return err;
	s->it = err ? NULL : it;
	s->damage = err;
	s->column_deletes = f->meta.tombstones > f->meta.row_deletes + f->meta.family_deletes;
	if (s->column_deletes) {
		c->key.p[0] = 'C';
		s->column_deletes = sst_may_contain(f->sst, key, to, probe);
	}
	return 0;
}

static int add_file(struct colread *c, struct vfile *f)
{
	struct slice key = column(c);
	struct colsrc *s = &c->src[c->count];

	if (slice_cmp(key, buf_slice(&f->first)) < 0 || slice_cmp(key, buf_slice(&f->after)) >= 0)
		return 0;
	*s = (struct colsrc){.file = f, .waits = !f->meta.tombstones};
	c->count++;
	if (!s->waits)
		return open_file(c, s);
	if (!c->waiting++ || f->meta.newest_us > c->waits_for)
		c->waits_for = f->meta.newest_us;
	return 0;
}

/* Opens the newest of the files that wait, of which there is one. */
static int wake(struct colread *c)
{
	struct colsrc *first = NULL;

	for (unsigned i = 0; i < c->count && !first; i++)
		if (c->src[i].waits && c->src[i].file->meta.newest_us == c->waits_for)
			first = &c->src[i];
	c->waits_for = INT64_MIN;
	c->waiting = 0;
	for (unsigned i = 0; i < c->count; i++) {
		const struct colsrc *s = &c->src[i];

		if (s->waits && s != first) {
			c->waiting++;
			c->waits_for = s->file->meta.newest_us > c->waits_for ? s->file->meta.newest_us : c->waits_for;
		}
	}
	if (!first)
		return -EINVAL;
	first->waits = false;
	return open_file(c, first);
}

/* The column into key, between the tag's place and ff bytes. */
static int set_key(struct colread *c, struct slice row, uint16_t family, struct slice qualifier)
{
	static const uint8_t above[ABOVE] = {[0 ... ABOVE - 1] = 0xff};
	struct buf *b = &c->key;
	int err;

	if (TAG + 2 * (row.n + qualifier.n) + 6 + ABOVE <= sizeof c->inline_key)
		*b = (struct buf){c->inline_key, 0, sizeof c->inline_key}; /* nothing appended to it makes it grow */
	if ((err = buf_u8(b, 0)) || (err = cellkey_column_prefix(b, row, family, qualifier)))
		return err;
	c->column_len = b->n - TAG;
	c->row_len = cellkey_row_len(column(c));
	return buf_append(b, above, ABOVE);
}

int colread_open(struct colread *c, struct view *v, uint64_t seq, struct slice row, uint16_t family, struct slice qualifier)
{
	int err;

	memset(c, 0, offsetof(struct colread, index) + sizeof c->index);
	c->src = c->inline_src;
	c->seq = seq;
	c->limit = INT64_MAX;
	if (v->mem_count + v->file_count > COLREAD_INLINE) {
		c->src = malloc((v->mem_count + v->file_count) * sizeof *c->src);
		if (!c->src)
			return -ENOMEM;
	}
	err = set_key(c, row, family, qualifier);
	for (unsigned i = 0; i < v->mem_count && !err; i++)
		err = add_mem(c, v->mems[i]);
	for (unsigned i = 0; i < v->file_count && !err; i++)
		err = v->mixed && !vfile_concerns(v->files[i], &family, 1) ? 0 : add_file(c, v->files[i]);
	if (err)
		colread_close(c);
	return err;
}

void colread_close(struct colread *c)
{
	for (unsigned i = 0; i < c->count; i++)
		iter_free(c->src[i].it);
	if (c->src != c->inline_src)
		free(c->src);
	c->src = c->inline_src;
	c->count = 0;
	if (c->key.p != c->inline_key)
		buf_fini(&c->key);
	buf_fini(&c->probe);
}

/* Past the entry that it is on, and past its chunks. */
static int step(struct colread *c, struct colsrc *s)
{
	struct iter *it = s->it;
	uint8_t kind = it->key.p[c->column_len + KIND_AT];
	int err;

	if (kind != CELL_LARGE && kind != CELL_CHUNK) {
		iter_next(it);
	} else {
		buf_reset(&c->probe);
		if ((err = buf_append(&c->probe, it->key.p, c->column_len + KIND_AT)) || (err = buf_u8(&c->probe, CELL_CHUNK + 1)))
			return err;
		iter_seek(it, buf_slice(&c->probe));
	}
	return moved(s);
}

/* Of the versions up to ts, met before them.  Of a damaged file it may leave none that could matter. */
static void column_delete(struct colread *c, int64_t ts, uint64_t seq)
{
	if (seq > c->seq)
		return;
	if (seq > c->column_del)
		c->column_del = seq;
	for (unsigned i = 0; i < c->count; i++) {
		struct colsrc *s = &c->src[i];

		if (s->damage && seq > s->file->meta.seq_max && ts >= s->file->meta.newest_us)
			s->damage = 0;
	}
}

/* To target, within the column, taking note of the column deletes before it. */
static int walk_to(struct colread *c, struct colsrc *s, struct slice target)
{
	int64_t ts;
	uint64_t seq;
	enum cell_kind kind;
	int err;

	while (in_column(c, s->it) && slice_cmp(s->it->key, target) < 0) {
		cellkey_suffix(s->it->key, c->column_len, &ts, &seq, &kind);
		if (kind == CELL_DELETE_COLUMN)
			column_delete(c, ts, seq);
		if ((err = step(c, s)))
			return err;
	}
	return 0;
}

/* walk: over the deletes of the column before it, taking note of them. */
static int go_to(struct colread *c, int64_t ts, bool walk)
{
	struct slice target = slice_of(c->key.p + TAG, c->column_len + 8);
	int err = 0;

	/* In those that go on waiting all lies behind. */
	while (c->waiting && c->waits_for >= ts)
		if ((err = wake(c)))
			return err;
	put_be64(c->key.p + TAG + c->column_len, ~((uint64_t)ts ^ (UINT64_C(1) << 63)));
	if (ts < c->limit)
		c->limit = ts;
	for (unsigned i = 0; i < c->count && !err; i++) {
		struct colsrc *s = &c->src[i];

		if (!s->damage && !(in_column(c, s->it) && slice_cmp(s->it->key, target) < 0))
			continue;
		if (s == c->at)
			c->at = NULL;
		if (walk && s->column_deletes) {
			err = walk_to(c, s, target); /* a damaged one stays so */
			continue;
		}
		if (!s->it)
			err = sst_iter_new(s->file->sst, &s->it);
		if (!err) {
			iter_seek(s->it, target);
			err = moved(s);
		} else if (is_damage(err)) {
			err = 0; /* not one block of it can be read */
		}
	}
	memset(c->key.p + TAG + c->column_len, 0xff, 8);
	return err;
}

int colread_skip_to(struct colread *c, int64_t ts)
{
	return go_to(c, ts, true);
}

int colread_jump_to(struct colread *c, int64_t ts, uint64_t column_del)
{
	if (column_del > c->column_del)
		c->column_del = column_del;
	return go_to(c, ts, false);
}

struct slice colread_column(const struct colread *c)
{
	return column(c);
}

static struct colsrc *least(struct colread *c)
{
	struct colsrc *min = NULL;

	for (unsigned i = 0; i < c->count; i++) {
		struct colsrc *s = &c->src[i];

		if (in_column(c, s->it) && (!min || slice_cmp(s->it->key, min->it->key) < 0))
			min = s;
	}
	return min;
}

/* Could a damaged file hold a version above this one and not passed, or one in its place, or a delete of it? */
static int matters(const struct colread *c, int64_t ts, uint64_t seq)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct colsrc *s = &c->src[i];

		if (s->damage && (seq <= s->file->meta.seq_max || (ts != c->limit && ts <= s->file->meta.newest_us)))
			return s->damage;
	}
	return seq <= c->doubt_seq ? c->doubt : 0;
}

/* Nothing more can be read; could a damaged file hold a version that lives? */
static int at_end(const struct colread *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->src[i].damage && c->del_seq <= c->src[i].file->meta.seq_max)
			return c->src[i].damage;
	return 0;
}

int colread_next(struct colread *c, struct colver *out)
{
	struct colsrc *s;
	int err;

	if (c->at && (err = step(c, c->at)))
		return err;
	c->at = NULL;
	while ((s = least(c)) || c->waiting) {
		const struct iter *it;
		int64_t ts;
		uint64_t seq;
		enum cell_kind kind;

		if (s)
			cellkey_suffix(s->it->key, c->column_len, &ts, &seq, &kind);
		if (c->waiting && (!s || c->waits_for >= ts)) {
			if ((err = wake(c)))
				return err;
			continue;
		}
		it = s->it;
		if (seq > c->seq)
			goto next;
		switch (kind) {
		case CELL_DELETE_COLUMN:
			column_delete(c, ts, seq);
			break;
		case CELL_DELETE_VERSION:
			if (c->version_del_ts != ts || seq > c->version_del) {
				c->version_del_ts = ts;
				c->version_del = seq;
			}
			break;
		case CELL_VALUE:
		case CELL_LARGE:
			if (c->any && c->last_ts == ts)
				break;
			if (seq < c->del_seq || seq < c->column_del || (c->version_del_ts == ts && seq < c->version_del))
				break;
			if ((kind == CELL_LARGE && it->value.n != 8) ||
				!cellkey_commit(it->key, c->column_len, ts, &out->commit_us))
				return -EBADMSG;
			if ((err = matters(c, ts, seq)))
				return err;
			c->any = true;
			c->last_ts = ts;
			c->at = s;
			out->ts = ts;
			out->seq = seq;
			out->index = c->index++;
			out->large = kind == CELL_LARGE;
			out->size = out->large ? load_be64(it->value.p) : it->value.n;
			out->value = out->large ? slice_of(NULL, 0) : it->value;
			return 1;
		case CELL_DELETE_ROW:
		case CELL_DELETE_FAMILY:
		case CELL_CHUNK:
			break; /* a chunk without its head: a masked version's rest */
		}
next:
		if ((err = step(c, s)))
			return err;
		if (c->patience && --c->patience == 0)
			return COLREAD_TIRED;
	}
	return at_end(c);
}

int colread_bytes(struct colread *c, const struct colver *ver, uint64_t offset, void *p, size_t n, size_t *got)
{
	struct iter *it = c->at->it;
	uint8_t *to = p;
	size_t done = 0, head;
	int err;

	if (offset >= ver->size) {
		*got = 0;
		return 0;
	}
	if (n > ver->size - offset)
		n = (size_t)(ver->size - offset);
	if (!ver->large) {
		memcpy(to, it->value.p + offset, n);
		*got = n;
		return 0;
	}
	buf_reset(&c->probe);
	if ((err = buf_append(&c->probe, it->key.p, c->column_len + KIND_AT)) || (err = buf_u8(&c->probe, CELL_CHUNK)))
		return err;
	head = c->probe.n;
	while (done < n) {
		uint64_t at = offset + done;
		size_t skip = at % CELL_CHUNK_BYTES, take;

		c->probe.n = head;
		if ((err = buf_be32(&c->probe, (uint32_t)(at / CELL_CHUNK_BYTES))))
			return err;
		if (done == 0)
			iter_seek(it, buf_slice(&c->probe));
		else
			iter_next(it);
		if (!it->valid && it->err)
			return it->err;
		if (!it->valid || !slice_eq(it->key, buf_slice(&c->probe)) || it->value.n <= skip)
			return -EBADMSG;
		take = it->value.n - skip;
		if (take > n - done)
			take = n - done;
		memcpy(to + done, it->value.p + skip, take);
		done += take;
	}
	*got = done;
	return 0;
}
