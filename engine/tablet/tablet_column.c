/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one column (tablet_column.h).
 *
 * The sources are the memtables, and the files whose range and filters admit
 * the column.  Deletes of the row or of the family are elsewhere in key order.
 * They are read first, and only from memtables and files that have any.  Then
 * the sources are merged.  They are few, so the smallest key is found by
 * comparing all.
 *
 * Within the column the keys are ordered by falling timestamp and, at one
 * timestamp, by falling sequence.  So a delete of the column up to a timestamp
 * precedes every version that it masks.  The first entry at a timestamp
 * replaces all further entries there.
 *
 * A seek to a timestamp must not miss the deletes of the column above it.  They
 * are rare: a memtable counts them, and a file's filter contains the columns
 * that have such deletes.  All other sources can seek.  So a version is found
 * by one seek in each source, even if thousands of others were deleted one by
 * one.
 *
 * A file that cannot be read at its position stays among the sources, marked
 * as damaged.  Its metadata bounds the times and sequences of its entries.
 * damage_may_hide uses them to find the versions that no entry of the file can
 * replace or delete.  The reader returns only those.
 */
#include "engine/tablet/tablet_column.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/msg.h"

enum {
	KIND_AT = CELL_SUFFIX_BYTES - 1,
	TAG = 1,                   /* byte before the column in key; tag and column together are a probe of the filter */
	ABOVE = CELL_SUFFIX_BYTES, /* this number of ff bytes after the column makes a key above all of its cells */
};

struct tfs_bytes colread_column(const struct colread *c)
{
	return tfs_bytes_of(c->key.p + TAG, c->column_len);
}

static inline bool colread_in_column(const struct colread *c, const struct iter *it)
{
	return it && it->valid && it->key.n >= c->column_len + CELL_SUFFIX_BYTES &&
		memcmp(it->key.p, c->key.p + TAG, c->column_len) == 0;
}

/* Called after a step of s->it.  Stores an error of the file in s->damage; returns other errors. */
static int source_moved(struct colsrc *s)
{
	int err = s->it->valid ? 0 : s->it->err;

	s->damage = s->file && is_damage(err) ? err : 0;
	return s->damage ? 0 : err;
}

/*
 * Raises del_seq to the largest visible sequence of the deletes of a row or
 * family.  Their keys begin with the first n bytes of the column, followed by
 * marker_bytes zeros.
 */
static int colread_find_delete(struct colread *c, struct iter *it, size_t n, size_t marker_bytes)
{
	static const uint8_t zeros[4];
	struct tfs_bytes prefix;
	int64_t ts;
	uint64_t seq;
	enum cell_kind kind;
	int err;

	buf_reset(&c->probe);
	if ((err = buf_append(&c->probe, c->key.p + TAG, n)) || (err = buf_append(&c->probe, zeros, marker_bytes)))
		return err;
	prefix = buf_bytes(&c->probe);
	for (iter_seek(it, prefix); it->valid && bytes_has_prefix(it->key, prefix); iter_next(it)) {
		cellkey_suffix(it->key, prefix.n, &ts, &seq, &kind);
		if (seq > c->seq)
			continue;
		if (seq > c->del_seq)
			c->del_seq = seq;
		return 0;
	}
	return it->err;
}

static int colread_find_deletes(struct colread *c, struct iter *it, bool row, bool family)
{
	int err = row ? colread_find_delete(c, it, c->row_len, 4) : 0;

	return family && !err ? colread_find_delete(c, it, c->row_len + 2, 2) : err;
}

static int colread_add_memtable(struct colread *c, struct vmem *m, unsigned number)
{
	struct iter *it;
	int err = 0;

	if (!memtable_count(m->m))
		return 0;
	if (number < COLREAD_MEMTABLES) {
		memtable_iter_init(&c->mem[number], m->m);
		it = &c->mem[number].it;
	} else {
		err = memtable_iter_new(m->m, &it);
	}
	if (err)
		return err;
	err = colread_find_deletes(c, it, m->row_deletes > 0, m->family_deletes > 0);
	if (!err) {
		iter_seek(it, colread_column(c));
		err = it->valid ? 0 : it->err;
	}
	if (!err && colread_in_column(c, it))
		c->src[c->count++] = (struct colsrc){.it = it, .column_deletes = m->column_deletes > 0};
	else
		iter_free(it);
	return err;
}

/*
 * Asks the filter of f for a delete of the row ('R') or family ('F').  Such
 * deletes precede the cells in key order.
 */
static int colread_may_have_delete(struct colread *c, struct vfile *f, char tag, bool *may)
{
	struct buf *b = &c->probe;
	size_t n = tag == 'R' ? c->row_len : c->row_len + 2;
	int err;

	buf_reset(b);
	if ((err = buf_u8(b, (uint8_t)tag)) || (err = buf_append(b, c->key.p + TAG, n)) || (err = buf_append(b, "\xff\xff\xff", 3)))
		return err;
	*may = sst_may_contain(
		f->sst, tfs_bytes_of(b->p + TAG, c->row_len), tfs_bytes_of(b->p + TAG, n + 3), tfs_bytes_of(b->p, TAG + n));
	return 0;
}

/* Opens s->file at the column; s->it is NULL if the file does not contain it. */
static int source_open_file(struct colread *c, struct colsrc *s)
{
	struct tfs_bytes key = colread_column(c), to = tfs_bytes_of(key.p, key.n + ABOVE),
			 probe = tfs_bytes_of(c->key.p, TAG + c->column_len);
	struct vfile *f = s->file;
	struct iter *it;
	bool rows = false, families = false;
	int err;

	if (f->meta.row_deletes && (err = colread_may_have_delete(c, f, 'R', &rows)))
		return err;
	if (f->meta.family_deletes && (err = colread_may_have_delete(c, f, 'F', &families)))
		return err;
	if (rows || families) {
		err = sst_iter_new(f->sst, &it); /* not clipped, because the row is in the tablet */
		if (!err) {
			err = colread_find_deletes(c, it, rows, families);
			iter_free(it);
		}
		if (is_damage(err)) {
			c->unread_err = err;
			c->unread_seq = f->meta.seq_max > c->unread_seq ? f->meta.seq_max : c->unread_seq;
			err = 0;
		}
		if (err)
			return err;
	}
	c->key.p[0] = 'c';
	err = sst_find(f->sst, key, to, probe, &it);
	if (!err && !it)
		return 0;
	if (!err && !colread_in_column(c, it)) {
		msg_damage("%s: damaged: a malformed key: %s", sst_path(f->sst), Q(it->key));
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

static int colread_add_file(struct colread *c, struct vfile *f)
{
	struct tfs_bytes key = colread_column(c);
	struct colsrc *s = &c->src[c->count];

	if (bytes_cmp(key, buf_bytes(&f->first)) < 0 || bytes_cmp(key, buf_bytes(&f->after)) >= 0)
		return 0;
	*s = (struct colsrc){.file = f, .unopened = !f->meta.tombstones};
	c->count++;
	if (!s->unopened)
		return source_open_file(c, s);
	if (!c->unopened++ || f->meta.newest_us > c->unopened_newest_us)
		c->unopened_newest_us = f->meta.newest_us;
	return 0;
}

/* Opens the newest of the unopened files.  There is at least one. */
static int colread_open_next(struct colread *c)
{
	struct colsrc *first = c->src;

	while (!first->unopened || first->file->meta.newest_us != c->unopened_newest_us)
		first++;
	first->unopened = false;
	c->unopened--;
	c->unopened_newest_us = INT64_MIN;
	for (unsigned i = 0; i < c->count; i++)
		if (c->src[i].unopened && c->src[i].file->meta.newest_us > c->unopened_newest_us)
			c->unopened_newest_us = c->src[i].file->meta.newest_us;
	return source_open_file(c, first);
}

/* Sets key to the tag, the column, and ABOVE bytes of ff. */
static int colread_set_key(struct colread *c, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier)
{
	static const uint8_t above[ABOVE] = {[0 ... ABOVE - 1] = 0xff};
	struct buf *b = &c->key;
	int err;

	if (TAG + 2 * (row.n + qualifier.n) + 6 + ABOVE <= sizeof c->inline_key)
		*b = (struct buf){c->inline_key, 0, sizeof c->inline_key}; /* no append will reallocate it */
	if ((err = buf_u8(b, 0)) || (err = cellkey_column_prefix(b, row, family, qualifier)))
		return err;
	c->column_len = b->n - TAG;
	c->row_len = cellkey_row_len(colread_column(c));
	return buf_append(b, above, ABOVE);
}

int colread_open(struct colread *c, struct view *v, uint64_t seq, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier)
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
	err = colread_set_key(c, row, family, qualifier);
	for (unsigned i = 0; i < v->mem_count && !err; i++)
		err = colread_add_memtable(c, v->mems[i], i);
	for (unsigned i = 0; i < v->file_count && !err; i++)
		err = v->mixed && !vfile_may_have_families(v->files[i], &family, 1) ? 0 : colread_add_file(c, v->files[i]);
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

/* Moves to the next entry. */
static int source_step(struct colsrc *s)
{
	iter_next(s->it);
	return source_moved(s);
}

/*
 * Applies a delete of the versions up to ts.  If it masks all versions of a
 * damaged file, that damage no longer matters.
 */
static void colread_column_delete(struct colread *c, int64_t ts, uint64_t seq)
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

/* Reads up to target, within the column, and applies the column deletes before it. */
static int source_walk_to(struct colread *c, struct colsrc *s, struct tfs_bytes target)
{
	int64_t ts;
	uint64_t seq;
	enum cell_kind kind;
	int err;

	while (colread_in_column(c, s->it) && bytes_cmp(s->it->key, target) < 0) {
		cellkey_suffix(s->it->key, c->column_len, &ts, &seq, &kind);
		if (kind == CELL_DELETE_COLUMN)
			colread_column_delete(c, ts, seq);
		if ((err = source_step(s)))
			return err;
	}
	return 0;
}

/* walk: reads the column deletes above ts. */
static int colread_seek(struct colread *c, int64_t ts, bool walk)
{
	struct tfs_bytes target = tfs_bytes_of(c->key.p + TAG, c->column_len + 8);
	int err = 0;

	/* All versions of the remaining unopened files are older than ts. */
	while (c->unopened && c->unopened_newest_us >= ts)
		if ((err = colread_open_next(c)))
			return err;
	put_be64(c->key.p + TAG + c->column_len, cellkey_ts(ts));
	if (ts < c->limit)
		c->limit = ts;
	for (unsigned i = 0; i < c->count && !err; i++) {
		struct colsrc *s = &c->src[i];

		if (!s->damage && !(colread_in_column(c, s->it) && bytes_cmp(s->it->key, target) < 0))
			continue;
		if (s == c->at)
			c->at = NULL;
		if (walk && s->column_deletes) {
			err = source_walk_to(c, s, target); /* a damaged source stays damaged */
			continue;
		}
		if (!s->it)
			err = sst_iter_new(s->file->sst, &s->it);
		if (!err) {
			iter_seek(s->it, target);
			err = source_moved(s);
		} else if (is_damage(err)) {
			err = 0; /* the source stays damaged */
		}
	}
	memset(c->key.p + TAG + c->column_len, 0xff, 8);
	return err;
}

int colread_skip_to(struct colread *c, int64_t ts)
{
	return colread_seek(c, ts, true);
}

int colread_jump_to(struct colread *c, int64_t ts, uint64_t column_del)
{
	if (column_del > c->column_del)
		c->column_del = column_del;
	return colread_seek(c, ts, false);
}

static struct colsrc *colread_least(struct colread *c)
{
	struct colsrc *min = NULL;

	for (unsigned i = 0; i < c->count; i++) {
		struct colsrc *s = &c->src[i];

		if (colread_in_column(c, s->it) && (!min || bytes_cmp(s->it->key, min->it->key) < 0))
			min = s;
	}
	return min;
}

/* Returns the damage if a damaged file may contain a newer version, a replacement or a delete of this version; else 0. */
static int damage_may_hide(const struct colread *c, int64_t ts, uint64_t seq)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct colsrc *s = &c->src[i];

		if (s->damage && (seq <= s->file->meta.seq_max || (ts != c->limit && ts <= s->file->meta.newest_us)))
			return s->damage;
	}
	return seq <= c->unread_seq ? c->unread_err : 0;
}

/* Called when no version is left.  Returns the damage if a damaged file may contain a live version; else 0. */
static int damage_at_end(const struct colread *c)
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

	if (c->at && (err = source_step(c->at)))
		return err;
	c->at = NULL;
	while ((s = colread_least(c)) || c->unopened) {
		struct iter *it;
		int64_t ts;
		uint64_t seq;
		enum cell_kind kind;

		if (s)
			cellkey_suffix(s->it->key, c->column_len, &ts, &seq, &kind);
		if (c->unopened && (!s || c->unopened_newest_us >= ts)) {
			if ((err = colread_open_next(c)))
				return err;
			continue;
		}
		it = s->it;
		if (seq > c->seq)
			goto next;
		switch (kind) {
		case CELL_DELETE_COLUMN:
			colread_column_delete(c, ts, seq);
			break;
		case CELL_DELETE_VERSION:
			if (c->version_del_ts != ts || seq > c->version_del) {
				c->version_del_ts = ts;
				c->version_del = seq;
			}
			break;
		case CELL_VALUE:
			if (c->any && c->last_ts == ts)
				break;
			if (seq < c->del_seq || seq < c->column_del || (c->version_del_ts == ts && seq < c->version_del))
				break;
			if (!cellkey_commit(it->key, c->column_len, ts, &out->commit_us))
				return -EBADMSG;
			if ((err = damage_may_hide(c, ts, seq)))
				return err;
			out->size = it->size;
			c->any = true;
			c->last_ts = ts;
			c->at = s;
			out->ts = ts;
			out->seq = seq;
			out->index = c->index++;
			return 1;
		case CELL_DELETE_ROW:
		case CELL_DELETE_FAMILY:
			break;
		}
next:
		if ((err = source_step(s)))
			return err;
		if (c->budget && --c->budget == 0)
			return COLREAD_PAUSED;
	}
	return damage_at_end(c);
}

int colread_bytes(struct colread *c, uint64_t offset, void *p, size_t n, size_t *got)
{
	struct iter *it = c->at->it;
	const uint64_t left = offset < it->size ? it->size - offset : 0;
	int err;

	n = n < left ? n : (size_t)left;
	err = iter_read(it, offset, n, p);
	if (!err)
		*got = n;
	return err;
}
