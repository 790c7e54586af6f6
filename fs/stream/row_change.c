/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations of a row that name their cells by keys (stream.h).  The edits
 * that remove something are sorted first.  So each family and column is read
 * once, however many edits name it, and an edit that is part of another edit is
 * left out.
 *
 * The versions that the mutation removes are collected, and the open ones
 * copied, before the store changes.  All this is under the row's lock.  Keys
 * that cannot be read because of damage cannot be open.  Versions that a GC
 * rule hides because of a write are no concern here: they stay open until they
 * are read.
 *
 * A mutation may remove a cell and write it again, as .row.json does with the whole
 * row.  So after the change the store is asked which of the removed columns and
 * versions exist.  The files of cells that exist stay open, as after any write.
 * The other files end.
 */
#include "fs/stream/stream.h"

#include "engine/base/stop.h"
#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/extra.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/node/schema/schema_edit.h"

#include <errno.h>
#include <stdlib.h>

/* A column that loses versions. */
struct removed_column {
	uint16_t id;
	struct node *family; /* counted */
	struct buf qualifier;
	struct versions versions;
	bool whole; /* all versions are removed */
};
struct removal {
	struct removed_column *columns;
	size_t count;
	struct displaced displaced;
};

static void removal_fini(struct removal *r)
{
	for (size_t i = 0; i < r->count; i++) {
		node_put(r->columns[i].family);
		buf_fini(&r->columns[i].qualifier);
		versions_fini(&r->columns[i].versions);
	}
	free(r->columns);
	displaced_fini(&r->displaced);
}

/* The node of a family in the row, in the table's own view; counted. */
static int family_node(struct node *row, uint16_t id, struct node **out)
{
	struct node *own = node_in_table_get(row);
	char key[FAMILY_KEY_BYTES];

	fs_schema_family_key(id, key);
	*out = own ? node_get(own, NODE_FAMILY, tfs_str(key), 0) : NULL;
	node_put(own);
	return *out ? 0 : -ENOMEM;
}

/* The node of the family with this name; counted.  -ENOENT: the family was dropped. */
static int family_named(struct node *row, const char *name, struct node **out)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err = tfs_schema_get(node_store_table(row), &s);

	if (err)
		return err;
	f = tfs_schema_family(s, name);
	err = f ? family_node(row, f->id, out) : -ENOENT;
	tfs_schema_put(s);
	return err;
}

/* Adds a version to the last column, or to a new column. */
static int removal_add(struct removal *r, struct node *row, uint16_t family, struct tfs_bytes qualifier, int64_t ts, bool whole)
{
	struct removed_column *last = r->count ? &r->columns[r->count - 1] : NULL, fresh = {.id = family, .whole = whole};
	int err;

	if (!last || last->id != family || !bytes_eq(buf_bytes(&last->qualifier), qualifier) || last->whole != whole) {
		err = family_node(row, family, &fresh.family);
		if (!err)
			err = buf_append_bytes(&fresh.qualifier, qualifier);
		if (!err)
			err = array_grow(&r->columns, r->count, sizeof(*r->columns));
		if (err) {
			node_put(fresh.family);
			buf_fini(&fresh.qualifier);
			return err;
		}
		last = &r->columns[r->count++];
		*last = fresh;
	}
	err = array_grow(&last->versions.ts, last->versions.n, sizeof(*last->versions.ts));
	if (err)
		return err;
	last->versions.ts[last->versions.n++] = ts;
	return displaced_add(&r->displaced, last->family, qualifier, ts, false);
}

/* The part of the row that a line removes; the narrowest is first. */
enum removes { REMOVES_NOTHING, REMOVES_VERSION, REMOVES_COLUMN, REMOVES_FAMILY, REMOVES_ROW };
static enum removes removes(const struct mutation_line *l)
{
	return l->verb != MUTATION_DELETE ? REMOVES_NOTHING
		: !l->family              ? REMOVES_ROW
		: l->all                  ? REMOVES_FAMILY
		: l->has_ts               ? REMOVES_VERSION
					  : REMOVES_COLUMN;
}

/* Sorts edits by family.  The edit of a whole family comes before those of its columns, and a column before its versions, newest first. */
static int edit_cmp(const void *x, const void *y)
{
	const struct mutation_line *a = *(const struct mutation_line *const *)x, *b = *(const struct mutation_line *const *)y;
	int c = strcmp(a->family, b->family);

	if (c == 0 && (removes(a) == REMOVES_FAMILY || removes(b) == REMOVES_FAMILY))
		return (removes(b) == REMOVES_FAMILY) - (removes(a) == REMOVES_FAMILY);
	if (c == 0)
		c = bytes_cmp(a->qualifier, b->qualifier);
	if (c == 0)
		c = (removes(b) == REMOVES_COLUMN) - (removes(a) == REMOVES_COLUMN);
	return c ? c : (a->ts < b->ts) - (a->ts > b->ts);
}

/* Returns true if a, which is sorted before b, removes all that b removes. */
static bool edit_includes(const struct mutation_line *a, const struct mutation_line *b)
{
	if (removes(a) == REMOVES_ROW)
		return true;
	if (strcmp(a->family, b->family) != 0)
		return false;
	if (removes(a) == REMOVES_FAMILY)
		return true;
	return bytes_eq(a->qualifier, b->qualifier) && (removes(a) == REMOVES_COLUMN || a->ts == b->ts);
}

/* Sets *out, for free(), to the edits that remove something, without edits that are part of another edit. */
static int removing_edits(const struct mutation_line *edits, unsigned count, const struct mutation_line ***out, unsigned *n)
{
	const struct mutation_line **v = calloc(count + 1u, sizeof(const struct mutation_line *));
	unsigned found = 0, kept = 0;

	if (!v)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		if (removes(&edits[i]) == REMOVES_ROW) {
			v[0] = &edits[i];
			found = 1;
			break;
		}
		if (removes(&edits[i]) >= REMOVES_VERSION)
			v[found++] = &edits[i];
	}
	qsort(v, found, sizeof(const struct mutation_line *), edit_cmp);
	for (unsigned i = 0; i < found; i++)
		if (!kept || !edit_includes(v[kept - 1], v[i]))
			v[kept++] = v[i];
	*out = v;
	*n = kept;
	return 0;
}

/* Adds the versions that an edit removes, or the versions of one column that several edits remove. */
static int removal_add_edits(struct removal *r, struct node *row, const struct mutation_line *const *edits, unsigned count)
{
	const struct mutation_line *e = edits[0];
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_KEYS,
		.row_from = node_key(row),
		.one_row = true,
		.families = &e->family,
		.family_count = removes(e) != REMOVES_ROW,
		.past_damage = true,
		.stop = fs_is_interrupted,
	};
	struct buf after = {0};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	unsigned i = 0;
	int n;

	if (removes(e) == REMOVES_COLUMN || removes(e) == REMOVES_VERSION) {
		n = buf_append_bytes(&after, e->qualifier);
		if (n == 0)
			n = buf_u8(&after, 0);
		if (n)
			goto out;
		spec.qualifier_from = tfs_bytes_of(e->qualifier.n ? e->qualifier.p : (const uint8_t *)"", e->qualifier.n);
		spec.qualifier_to = buf_bytes(&after);
	}
	n = tfs_scan_new(node_store_table(row), &spec, &scan);
	if (n)
		goto out;
	while (i < count && (n = tfs_scan_next(scan, &cell)) > 0) {
		n = 0;
		if (removes(e) == REMOVES_VERSION) {
			while (i < count && edits[i]->ts > cell.ts)
				i++;
			if (i == count || edits[i]->ts != cell.ts)
				continue;
		}
		n = removal_add(r, row, cell.family_id, cell.qualifier, cell.ts, removes(e) != REMOVES_VERSION);
		if (n)
			break;
	}
out:
	tfs_scan_free(scan);
	buf_fini(&after);
	return n == -EBADMSG || n == -EIO ? 0 : n;
}

static bool column_is_stored(struct node *family, struct tfs_bytes qualifier)
{
	struct cell_place p;
	struct tfs_info info;

	cell_place_at(family, qualifier, false, 0, &p);
	return cell_stat(&p, &info) != -ENOENT;
}

static int removal_collect(struct removal *r, struct node *row, const struct mutation_line *edits, unsigned count)
{
	const struct mutation_line **v;
	unsigned n, to;
	int err = removing_edits(edits, count, &v, &n);

	if (err)
		return err;
	for (unsigned i = 0; i < n && !err; i = to) {
		to = i + 1;
		while (removes(v[i]) == REMOVES_VERSION && to < n && removes(v[to]) == REMOVES_VERSION &&
			strcmp(v[i]->family, v[to]->family) == 0 && bytes_eq(v[i]->qualifier, v[to]->qualifier))
			to++;
		err = removal_add_edits(r, row, v + i, to - i);
	}
	free(v);
	return err;
}

/* A column without stored versions may still have writers. */
static int end_writers(struct node *row, const struct mutation_line *e, struct changes *c)
{
	struct node *family;
	int err = family_named(row, e->family, &family);

	if (err)
		return err;
	if (!column_is_stored(family, e->qualifier))
		ofile_end_column(family, e->qualifier, false, c);
	node_put(family);
	return 0;
}

/* puts: the mutation has also written cells. */
static void removal_note(struct removal *r, bool row_too, bool puts, struct changes *c)
{
	for (size_t i = 0; i < r->count; i++) {
		struct removed_column *k = &r->columns[i];
		struct tfs_bytes qualifier = buf_bytes(&k->qualifier);

		if (!row_too)
			made_cell_removed(k->family, qualifier, !k->whole, k->versions.ts[0]);
		versions_changed(c, k->family, qualifier, &k->versions, true);
		dir_time_raise(k->family, c);
		if (k->whole && !(puts && column_is_stored(k->family, qualifier)))
			ofile_end_column(k->family, qualifier, false, c);
	}
	if (puts)
		displaced_keep_stored(&r->displaced);
	displaced_end(&r->displaced, c);
}

static int note_put(struct node *row, const struct mutation_line *e, int64_t ts, struct changes *c)
{
	struct node *family;
	int err = family_named(row, e->family, &family);

	if (err)
		return err;
	extra_cell_added(family);
	cell_changed(c, family, e->qualifier, ts, false, NULL);
	dir_time_raise(family, c);
	node_put(family);
	return 0;
}

static void note_all(struct node *row, const struct mutation_line *edits, unsigned count, const struct tfs_result *results,
	struct removal *r, struct changes *c)
{
	bool row_too = false, puts = false;
	int err = 0;

	for (unsigned i = 0; i < count; i++) {
		row_too = row_too || removes(&edits[i]) == REMOVES_ROW;
		puts = puts || mutation_line_writes(&edits[i]);
	}
	removal_note(r, row_too, puts, c);
	for (unsigned i = 0; i < count && !err; i++) {
		if (mutation_line_writes(&edits[i]))
			err = note_put(row, &edits[i], results[i].ts, c);
		else if (removes(&edits[i]) == REMOVES_COLUMN)
			err = end_writers(row, &edits[i], c);
	}
	if (row_too)
		made_drop_row(row, c);
	dir_time_raise(row, c);
	dir_time_raise(row->parent, c);
	c->entries_first = r->count > 0; /* no process holds a directory's lock during it */
	if (err) {                       /* the family was dropped, or there is no memory to list the changes */
		table_new_epoch(node_table(row));
		changes_table(c, node_table(row));
	}
}

static int apply_locked(struct node *row, struct tfs_mutation *m, struct mutation_lines *l, unsigned flags, struct changes *c)
{
	struct removal r = {0};
	int err = removal_collect(&r, row, l->lines, l->count);

	stop_set(fs_is_interrupted, NULL);
	if (!err)
		err = cells_apply(row, m, flags, l->results, c);
	stop_set(NULL, NULL);
	if (!err)
		note_all(row, l->lines, l->count, l->results, &r, c);
	removal_fini(&r);
	return err;
}

int row_change(struct node *row, struct tfs_table *table, struct mutation_lines *l, unsigned flags, struct changes *c)
{
	struct tfs_mutation *m = NULL;
	struct mutex *lock;
	int err;

	if (!l->count)
		return 0;
	l->results = calloc(l->count, sizeof(*l->results));
	err = l->results ? mutation_lines_make(l, table, node_key(row), &m) : -ENOMEM;
	if (!err)
		err = row_lock_unless_interrupted(row, &lock);
	if (!err) {
		err = apply_locked(row, m, l, flags, c);
		row_unlock(lock);
		made_trim(c);
	}
	tfs_mutation_free(m);
	return err;
}
