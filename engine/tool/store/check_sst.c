/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks an SSTable against its checksums, its properties section, and its
 * entry in METADATA.
 *
 * sst_verify reads every block and checks the order of keys.  A second pass,
 * which reads from the page cache, decodes each key, counts what the
 * compaction that wrote the file must have counted, and asks the Bloom filter
 * for each row and column: a filter that denies a key hides it from readers.
 *
 * Readers of a salted table look for a row after its salt byte, so a row that
 * is stored with another first byte is never found.  All rows of a table's
 * files and logs have the same salt, because a change of the salt takes a new
 * table id.
 */
#include "engine/cell/change_format.h"
#include "engine/client/salt.h"
#include "engine/tool/store/check.h"
#include "engine/tool/progress.h"
#include "engine/tool/store/sst_count.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { SHOWN_KEYS = 256 };

/* ---- counts ---- */

void sst_count_init(struct sst_count *n)
{
	*n = (struct sst_count){
		.p = {.seq_min = UINT64_MAX, .oldest_us = INT64_MAX, .newest_us = INT64_MIN}, .commit_us = INT64_MIN};
}

void sst_count_fini(struct sst_count *n)
{
	props_fini(&n->p);
	buf_fini(&n->column);
	buf_fini(&n->scratch);
}

static int count_kind(struct props *p, const struct cellkey *k, uint64_t bytes)
{
	struct props_family *f = props_family(p, k->family);

	if (!f)
		return -ENOMEM;
	p->raw_bytes += bytes;
	f->raw_bytes += bytes;
	p->seq_min = k->seq < p->seq_min ? k->seq : p->seq_min;
	p->seq_max = k->seq > p->seq_max ? k->seq : p->seq_max;
	if (k->kind == CELL_VALUE) {
		p->cells++;
		f->cells++;
		p->oldest_us = k->ts < p->oldest_us ? k->ts : p->oldest_us;
		p->newest_us = k->ts > p->newest_us ? k->ts : p->newest_us;
	} else {
		p->tombstones++;
		f->tombstones++;
		p->row_deletes += k->kind == CELL_DELETE_ROW;
		p->family_deletes += k->kind == CELL_DELETE_FAMILY;
	}
	return 0;
}

/* A file of changes is in the order of commits, and its times are those of commits (compact_changes.c). */
static int count_change(struct sst_count *n, struct tfs_bytes key, uint64_t value_bytes)
{
	struct props *p = &n->p;
	struct change c;
	uint64_t seq;
	int err = change_decode(key, &c, &seq, &n->scratch);

	if (err)
		return err;
	n->k.row = c.row;
	n->new_row = n->new_column = true;
	if (!n->any || bytes_cmp(c.row, buf_bytes(&p->first)) < 0)
		err = buf_set(&p->first, c.row.p, c.row.n);
	if (!err && (!n->any || bytes_cmp(c.row, buf_bytes(&p->last)) > 0))
		err = buf_set(&p->last, c.row.p, c.row.n);
	n->any = true;
	p->cells++;
	p->raw_bytes += key.n + value_bytes;
	p->seq_min = seq < p->seq_min ? seq : p->seq_min;
	p->seq_max = seq > p->seq_max ? seq : p->seq_max;
	p->oldest_us = c.stamp < p->oldest_us ? c.stamp : p->oldest_us;
	n->commit_us = p->newest_us = c.stamp > p->newest_us ? c.stamp : p->newest_us;
	return err;
}

int sst_count_add(struct sst_count *n, struct tfs_bytes key, uint64_t value_bytes)
{
	size_t row_bytes, column_bytes;
	int err;

	buf_reset(&n->scratch);
	if (n->p.group == TABLET_GROUP_CHANGES)
		return count_change(n, key, value_bytes);
	err = cellkey_decode(key, &n->k, &n->scratch);
	if (err)
		return err;
	row_bytes = cellkey_row_len(key);
	column_bytes = cellkey_column_len(key);
	n->new_row = !n->any || n->row_bytes != row_bytes || memcmp(n->column.p, key.p, row_bytes) != 0;
	n->new_column = n->new_row || n->column.n != column_bytes || memcmp(n->column.p, key.p, column_bytes) != 0;
	if (!n->any)
		err = buf_set(&n->p.first, n->k.row.p, n->k.row.n);
	if (!err && n->new_row)
		err = buf_set(&n->p.last, n->k.row.p, n->k.row.n);
	if (!err && n->new_column)
		err = buf_set(&n->column, key.p, column_bytes);
	n->row_bytes = row_bytes;
	n->any = true;
	if (n->k.kind == CELL_VALUE && n->k.commit > n->commit_us)
		n->commit_us = n->k.commit;
	return err ? err : count_kind(&n->p, &n->k, key.n + value_bytes);
}

void sst_count_probes(const struct sst_count *n, bool again, char tags[5])
{
	if (again || n->new_row)
		*tags++ = 'r';
	if (n->k.kind == CELL_DELETE_ROW)
		*tags++ = 'R';
	else if (n->k.kind == CELL_DELETE_FAMILY)
		*tags++ = 'F';
	else if (again || n->new_column)
		*tags++ = 'c';
	if (n->k.kind == CELL_DELETE_COLUMN)
		*tags++ = 'C';
	*tags = 0;
}

/* ---- the check ---- */

struct check_file {
	const char *path;
	uint64_t keys, seen, half_bytes; /* the progress is measured against the number of keys and half of the file's size */
	struct offline_table *table;
	struct sst *sst;
	struct sst_count count;
	struct buf probe;
	bool filter_reported;
};

void check_salt_of(struct check *c, struct offline_table *t, struct tfs_bytes row)
{
	const uint32_t salt = t ? t->store->salt : 0;
	const struct tfs_bytes plain = row.n > 1 ? tfs_bytes_of(row.p + 1, row.n - 1) : tfs_bytes_of("", 0);

	if (!salt || t->misplaced || (row.n > 1 && row.p[0] == salt_byte(plain, salt)))
		return;
	t->misplaced = true;
	if (row.n < 2)
		report_problem(&c->r, "table %s: row %s is too short for a salted table", t->p->name, quoted(row));
	else
		report_problem(&c->r, "table %s: row %s is stored with salt byte %u in front, not %u: no reader finds it",
			t->p->name, quoted(plain), row.p[0], salt_byte(plain, salt));
}

/* Returns 1, which stops the pass: later problems are likely to have the same cause. */
static int report_key(struct check *c, struct check_file *n, struct tfs_bytes key, const char *what)
{
	uint64_t offset = 0;

	if (sst_offset_of(n->sst, key, &offset))
		offset = 0;
	report_problem(&c->r, "%s: near offset %" PRIu64 ": key %s: %s", n->path, offset, quoted(key), what);
	return 1;
}

/* Reports the first key of the file that the filter denies. */
static int check_filter(struct check *c, struct check_file *n, struct tfs_bytes key)
{
	const struct cellkey *k = &n->count.k;
	char tags[5];
	int err = 0;

	sst_count_probes(&n->count, false, tags);
	for (const char *tag = tags; *tag && !err && !n->filter_reported; tag++) {
		buf_reset(&n->probe);
		err = cellkey_probe(&n->probe, *tag, k->row, k->family, k->qualifier);
		if (err || sst_may_contain(n->sst, key, key, buf_bytes(&n->probe)))
			continue;
		n->filter_reported = true;
		(void)report_key(c, n, key, "the Bloom filter says that it is not there");
	}
	return err;
}

/* Returns 0, 1 after a problem was reported that ends the pass, or -errno. */
static int check_keys(struct check *c, struct check_file *n)
{
	struct iter *it;
	int err = sst_scan_new(n->sst, &it);

	if (err)
		return err;
	for (iter_seek(it, tfs_bytes_of("", 0)); it->valid && !err; iter_next(it)) {
		if (++n->seen % SHOWN_KEYS == 0)
			progress_add(n->half_bytes * SHOWN_KEYS / n->keys);
		err = sst_count_add(&n->count, it->key, it->size);
		if (err == -EBADMSG)
			err = report_key(c, n, it->key, "not a cell key");
		if (!err && n->count.new_row)
			check_salt_of(c, n->table, n->count.k.row);
		if (!err && n->count.p.group != TABLET_GROUP_CHANGES)
			err = check_filter(c, n, it->key);
	}
	if (!err)
		err = it->err;
	iter_free(it);
	return err;
}

/* ---- comparing ---- */

static int compare_properties(struct check *c, const struct tablet_file *f, struct check_file *n)
{
	struct props *is = &n->count.p, says = {0};
	struct buf blob = {0}, counted = {0};
	int err = sst_properties(n->sst, &blob);

	if (!err)
		err = props_decode(buf_bytes(&blob), &says);
	if (err == -EBADMSG) {
		report_problem(&c->r, "%s: its properties section cannot be decoded", n->path);
		err = 0;
		goto out;
	}
	if (!err && (says.table != f->table || says.group != f->group))
		report_problem(&c->r, "%s: it is of table %u, group %u; METADATA says table %u, group %u", n->path, says.table,
			says.group, f->table, f->group);
	is->table = says.table;
	is->group = says.group;
	if (!err)
		err = props_encode(&counted, is);
	if (!err && !bytes_eq(buf_bytes(&blob), buf_bytes(&counted)))
		report_problem(&c->r, "%s: its properties section does not describe its keys", n->path);
out:
	props_fini(&says);
	buf_fini(&blob);
	buf_fini(&counted);
	return err;
}

static void compare_count(struct check *c, const char *path, const char *what, uint64_t says, uint64_t is)
{
	if (says != is)
		report_problem(&c->r, "%s: METADATA says %" PRIu64 " %s, there are %" PRIu64, path, says, what, is);
}

static void compare_row(struct check *c, const char *path, const char *which, const struct buf *says, const struct buf *is)
{
	report_problem(
		&c->r, "%s: its %s row is %s, METADATA says %s", path, which, quoted(buf_bytes(is)), quoted(buf_bytes(says)));
}

static void compare_listed(struct check *c, const char *path, const struct tablet_file *f, const struct sst_count *count)
{
	const struct props *is = &count->p;

	compare_count(c, path, "cells", f->cells, is->cells);
	compare_count(c, path, "tombstones", f->tombstones, is->tombstones);
	compare_count(c, path, "row deletes", f->row_deletes, is->row_deletes);
	compare_count(c, path, "family deletes", f->family_deletes, is->family_deletes);
	compare_count(c, path, "bytes of keys and values", f->raw_bytes, is->raw_bytes);
	if (is->seq_min < f->seq_min || is->seq_max > f->seq_max)
		report_problem(&c->r, "%s: METADATA says sequence numbers %" PRIu64 "-%" PRIu64 ", they are %" PRIu64 "-%" PRIu64,
			path, f->seq_min, f->seq_max, is->seq_min, is->seq_max);
	if (is->cells && (is->oldest_us < f->oldest_us || is->newest_us > f->newest_us))
		report_problem(&c->r, "%s: METADATA says timestamps %" PRId64 "-%" PRId64 ", they are %" PRId64 "-%" PRId64, path,
			f->oldest_us, f->newest_us, is->oldest_us, is->newest_us);
	if (f->commit_us && count->commit_us > f->commit_us)
		report_problem(&c->r, "%s: METADATA says no cell was committed after %" PRId64 ", one was at %" PRId64, path,
			f->commit_us, count->commit_us);
	if (bytes_cmp(buf_bytes(&is->first), buf_bytes(&f->first)) < 0)
		compare_row(c, path, "first", &f->first, &is->first);
	if (bytes_cmp(buf_bytes(&is->last), buf_bytes(&f->last)) > 0)
		compare_row(c, path, "last", &f->last, &is->last);
}

static int check_contents(struct check *c, const struct tablet_file *f, struct check_file *n)
{
	int err = check_keys(c, n);

	if (!err)
		err = compare_properties(c, f, n);
	if (!err) {
		compare_listed(c, n->path, f, &n->count);
		c->cells += n->count.p.cells;
	}
	return err > 0 ? 0 : err;
}

int check_sst(struct check *c, const struct tablet_file *f, const char *path)
{
	struct check_file n = {.path = path, .table = offline_table(&c->store, f->table), .half_bytes = f->bytes / 2};
	char *why = NULL;
	int err = sst_verify(path, f->bytes, &n.keys, &why);

	if (!err)
		progress_add(n.half_bytes);
	if (err == -EBADMSG || err == -EIO) {
		report_problem(&c->r, "%s", why ? why : path);
		free(why);
		return 0;
	}
	free(why);
	sst_count_init(&n.count);
	n.count.p.group = f->group;
	if (!err)
		err = sst_new(c->store.cache, path, false, &n.sst);
	if (!err)
		err = check_contents(c, f, &n);
	sst_put(n.sst);
	sst_count_fini(&n.count);
	buf_fini(&n.probe);
	if (err == -EBADMSG) {
		report_problem(&c->r, "%s: damaged", path);
		err = 0;
	} else if (err) {
		complain("%s: %s", path, strerror(-err));
	}
	return err;
}
