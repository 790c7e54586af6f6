/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SSTable's contents against the three places that speak of them: its
 * checksums, its properties, and its column in METADATA.
 *
 * sst_verify reads every block and the order of keys; then one more pass
 * (from the page cache) takes each key apart and counts what the minor or
 * major compaction that made the file must have counted, and asks the
 * filter for each row and column, since a filter that says no to a key that
 * is there hides it.
 */
#include "engine/cell/cellkey.h"
#include "engine/tablet/props_format.h"
#include "engine/tool/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct counted {
	const char *path;
	struct offline_table *table;
	struct sst *s;
	struct props p;    /* counted, not read */
	struct buf column; /* encoded, of the last key */
	size_t row_len;
	struct buf probe, scratch;
	uint64_t keys;
	uint64_t large_left; /* bytes of chunks still to come */
	uint64_t large_seq;
	int64_t large_ts;
	uint32_t next_chunk;
	bool filter_said; /* one complaint a file is enough */
};

static int counted_problem(struct check *c, struct counted *n, struct slice key, const char *what)
{
	struct buf q = {0};
	uint64_t offset = 0;

	if (sst_offset_of(n->s, key, &offset))
		offset = 0;
	report_problem(&c->r, "%s: near offset %" PRIu64 ": key %s: %s", n->path, offset, quoted(&q, key), what);
	buf_fini(&q);
	return 1; /* stop: what follows would only repeat it */
}

static int ask_filter(struct check *c, struct counted *n, struct slice key, const struct cellkey *k, char tag)
{
	int err;

	buf_reset(&n->probe);
	err = cellkey_probe(&n->probe, tag, k->row, k->family, k->qualifier);
	if (err || n->filter_said || sst_may_contain(n->s, key, key, buf_slice(&n->probe)))
		return err;
	n->filter_said = true;
	(void)counted_problem(c, n, key, "the Bloom filter says that it is not there");
	return 0;
}

/* A large value's chunks follow its head without a gap. */
static int count_chunk(struct check *c, struct counted *n, const struct iter *it, const struct cellkey *k)
{
	uint64_t want = n->large_left < CELL_CHUNK_BYTES ? n->large_left : CELL_CHUNK_BYTES;

	if (k->kind != CELL_CHUNK) {
		if (n->large_left)
			return counted_problem(c, n, it->key, "chunks of the large value before it are missing");
		return 0;
	}
	if (!n->large_left || k->chunk != n->next_chunk || k->seq != n->large_seq || k->ts != n->large_ts || it->value.n != want)
		return counted_problem(c, n, it->key, "a chunk that does not fit the large value before it");
	n->large_left -= want;
	n->next_chunk++;
	return 0;
}

static int count_kind(struct check *c, struct counted *n, const struct iter *it, const struct cellkey *k)
{
	struct props *p = &n->p;
	struct props_family *f = props_family(p, k->family);

	if (!f)
		return -ENOMEM;
	p->raw_bytes += it->key.n + it->value.n;
	f->raw_bytes += it->key.n + it->value.n;
	p->seq_min = k->seq < p->seq_min ? k->seq : p->seq_min;
	p->seq_max = k->seq > p->seq_max ? k->seq : p->seq_max;
	switch (k->kind) {
	case CELL_LARGE:
		if (it->value.n != 8)
			return counted_problem(c, n, it->key, "the head of a large value that is not a size");
		n->large_left = load_be64(it->value.p);
		n->large_seq = k->seq;
		n->large_ts = k->ts;
		n->next_chunk = 0;
		__attribute__((fallthrough));
	case CELL_VALUE:
		p->cells++;
		f->cells++;
		p->oldest_us = k->ts < p->oldest_us ? k->ts : p->oldest_us;
		p->newest_us = k->ts > p->newest_us ? k->ts : p->newest_us;
		break;
	case CELL_DELETE_ROW:
	case CELL_DELETE_FAMILY:
	case CELL_DELETE_COLUMN:
	case CELL_DELETE_VERSION:
		p->tombstones++;
		f->tombstones++;
		p->row_deletes += k->kind == CELL_DELETE_ROW;
		p->family_deletes += k->kind == CELL_DELETE_FAMILY;
		break;
	case CELL_CHUNK:
		break;
	}
	return 0;
}

static int count_key(struct check *c, struct counted *n, const struct iter *it)
{
	size_t row_len, column_len = cellkey_column_len(it->key);
	bool new_row, new_column;
	struct cellkey k;
	int err = cellkey_decode(it->key, &k, &n->scratch);

	if (err == -EBADMSG)
		return counted_problem(c, n, it->key, "not a cell key");
	if (err)
		return err;
	row_len = cellkey_row_len(it->key);
	new_row = n->row_len != row_len || memcmp(n->column.p, it->key.p, row_len) != 0;
	new_column = new_row || n->column.n != column_len || memcmp(n->column.p, it->key.p, column_len) != 0;
	if (new_row) {
		check_salt_of(c, n->table, k.row);
		if (!n->keys)
			err = buf_append_slice(&n->p.first, k.row);
		if (!err)
			err = buf_set(&n->p.last, k.row.p, k.row.n);
		if (!err)
			err = ask_filter(c, n, it->key, &k, 'r');
	}
	if (!err && k.kind == CELL_DELETE_ROW)
		err = ask_filter(c, n, it->key, &k, 'R');
	else if (!err && k.kind == CELL_DELETE_FAMILY)
		err = ask_filter(c, n, it->key, &k, 'F');
	else if (!err && new_column)
		err = ask_filter(c, n, it->key, &k, 'c');
	if (!err && k.kind == CELL_DELETE_COLUMN)
		err = ask_filter(c, n, it->key, &k, 'C');
	if (!err)
		err = buf_set(&n->column, it->key.p, column_len);
	n->row_len = row_len;
	if (!err)
		err = count_chunk(c, n, it, &k);
	if (!err)
		err = count_kind(c, n, it, &k);
	n->keys++;
	return err;
}

/* One number that two places state differently. */
static void differs(struct check *c, const char *path, const char *where, const char *what, uint64_t says, uint64_t is)
{
	if (says != is)
		report_problem(&c->r, "%s: %s says %" PRIu64 " %s, there are %" PRIu64, path, where, says, what, is);
}

static void compare_properties(struct check *c, const char *path, const struct props *says, const struct props *is)
{
	static const char where[] = "its properties section";

	differs(c, path, where, "cells", says->cells, is->cells);
	differs(c, path, where, "tombstones", says->tombstones, is->tombstones);
	differs(c, path, where, "row deletes", says->row_deletes, is->row_deletes);
	differs(c, path, where, "family deletes", says->family_deletes, is->family_deletes);
	differs(c, path, where, "bytes of keys and values", says->raw_bytes, is->raw_bytes);
	differs(c, path, where, "families", says->family_count, is->family_count);
	for (uint32_t i = 0; i < says->family_count && says->family_count == is->family_count; i++) {
		differs(c, path, where, "as a family's id", says->families[i].id, is->families[i].id);
		differs(c, path, where, "cells in a family", says->families[i].cells, is->families[i].cells);
		differs(c, path, where, "tombstones in a family", says->families[i].tombstones, is->families[i].tombstones);
		differs(c, path, where, "bytes of a family", says->families[i].raw_bytes, is->families[i].raw_bytes);
	}
	if (says->seq_min != is->seq_min || says->seq_max != is->seq_max)
		report_problem(&c->r, "%s: %s says sequence numbers %" PRIu64 "-%" PRIu64 ", they are %" PRIu64 "-%" PRIu64, path,
			where, says->seq_min, says->seq_max, is->seq_min, is->seq_max);
	if (says->oldest_us != is->oldest_us || says->newest_us != is->newest_us)
		report_problem(&c->r, "%s: %s says timestamps %" PRId64 "-%" PRId64 ", they are %" PRId64 "-%" PRId64, path, where,
			says->oldest_us, says->newest_us, is->oldest_us, is->newest_us);
	if (!slice_eq(buf_slice(&says->first), buf_slice(&is->first)) || !slice_eq(buf_slice(&says->last), buf_slice(&is->last)))
		report_problem(&c->r, "%s: its properties section gives other first and last rows than it has", path);
}

static void compare_listed(struct check *c, const char *path, const struct tablet_file *f, const struct props *is)
{
	static const char where[] = "METADATA";
	struct buf a = {0}, b = {0};

	differs(c, path, where, "cells", f->cells, is->cells);
	differs(c, path, where, "tombstones", f->tombstones, is->tombstones);
	differs(c, path, where, "row deletes", f->row_deletes, is->row_deletes);
	differs(c, path, where, "family deletes", f->family_deletes, is->family_deletes);
	differs(c, path, where, "bytes of keys and values", f->raw_bytes, is->raw_bytes);
	if (is->seq_min < f->seq_min || is->seq_max > f->seq_max)
		report_problem(&c->r, "%s: METADATA says sequence numbers %" PRIu64 "-%" PRIu64 ", they are %" PRIu64 "-%" PRIu64,
			path, f->seq_min, f->seq_max, is->seq_min, is->seq_max);
	if (is->cells && (is->oldest_us < f->oldest_us || is->newest_us > f->newest_us))
		report_problem(&c->r, "%s: METADATA says timestamps %" PRId64 "-%" PRId64 ", they are %" PRId64 "-%" PRId64, path,
			f->oldest_us, f->newest_us, is->oldest_us, is->newest_us);
	if (slice_cmp(buf_slice(&is->first), buf_slice(&f->first)) < 0)
		report_problem(&c->r, "%s: its first row is %s, METADATA says %s", path, quoted(&a, buf_slice(&is->first)),
			quoted(&b, buf_slice(&f->first)));
	if (slice_cmp(buf_slice(&is->last), buf_slice(&f->last)) > 0)
		report_problem(&c->r, "%s: its last row is %s, METADATA says %s", path, quoted(&a, buf_slice(&is->last)),
			quoted(&b, buf_slice(&f->last)));
	buf_fini(&a);
	buf_fini(&b);
}

static int count(struct check *c, struct counted *n)
{
	struct iter *it;
	int err = sst_scan_new(n->s, &it);

	if (err)
		return err;
	for (iter_seek(it, slice_of("", 0)); it->valid && !err; iter_next(it))
		err = count_key(c, n, it);
	if (!err)
		err = it->err;
	if (!err && n->large_left) {
		report_problem(&c->r, "%s: the last large value's chunks are not all there", n->path);
		err = 1;
	}
	iter_free(it);
	return err;
}

static int check_contents(struct check *c, const struct tablet_file *f, struct counted *n)
{
	struct props says = {0};
	struct buf blob = {0};
	int err = count(c, n);

	if (err > 0)
		return 0; /* said */
	if (!err)
		err = sst_properties(n->s, &blob);
	if (!err) {
		err = props_decode(buf_slice(&blob), &says);
		if (err == -EBADMSG) {
			report_problem(&c->r, "%s: its properties section cannot be decoded", n->path);
			err = 0;
		} else if (!err) {
			if (says.table != f->table || says.group != f->group)
				report_problem(&c->r, "%s: it is of table %u, group %u; METADATA says table %u, group %u", n->path,
					says.table, says.group, f->table, f->group);
			compare_properties(c, n->path, &says, &n->p);
			props_fini(&says);
		}
	}
	if (!err)
		compare_listed(c, n->path, f, &n->p);
	c->cells += n->p.cells;
	buf_fini(&blob);
	return err;
}

int check_sst(struct check *c, const struct tablet_file *f, const char *path)
{
	struct counted n = {.path = path,
		.table = offline_table(&c->store, f->table),
		.p = {.seq_min = UINT64_MAX, .oldest_us = INT64_MAX, .newest_us = INT64_MIN}};
	uint64_t keys;
	char *why = NULL;
	int err = sst_verify(path, &keys, &why);

	if (err == -EBADMSG || err == -EIO) {
		report_problem(&c->r, "%s", why ? why : path);
		free(why);
		return 0;
	}
	free(why);
	if (!err)
		err = sst_new(c->store.cache, path, false, &n.s);
	if (!err)
		err = check_contents(c, f, &n);
	if (n.s)
		sst_put(n.s);
	props_fini(&n.p);
	buf_fini(&n.column);
	buf_fini(&n.probe);
	buf_fini(&n.scratch);
	if (err == -EBADMSG) {
		report_problem(&c->r, "%s: damaged", path);
		err = 0;
	} else if (err) {
		complain("%s: %s", path, strerror(-err));
	}
	return err;
}
