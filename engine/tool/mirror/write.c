/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the target of a mirror.  Mutations wait until there are MIRROR_CHUNK_BYTES of them, or until
 * the caller has no more.  Then
 *	1 the source makes its commits durable, so that the target never has a change which a
 *	  failure of the source's machine takes back
 *	2 the state is checked: another process may have become the mirror
 *	3 a batch applies the mutations, those of one row in their order
 *	4 the target makes them durable, and the caller may save a token
 *
 * All puts and deletes have their timestamps, so a repetition does no harm.
 *
 * A column of a family whose rule counts versions needs more care.  A delete of a version there
 * also deletes the versions that the rule hides at this moment.  If some changes are applied once more,
 * or over a later state of the source, the rule may hide another version than it did in the source.  So
 * writer_column reads the column in the source, and one mutation replaces the target's.  Puts and deletes of
 * whole columns need no such care: the newest N of all versions that were put are the same whatever is repeated.
 */
#include "engine/tool/mirror/mirror.h"

#include "engine/tool/progress.h"

#include <errno.h>
#include <stdlib.h>

enum { OPS_MOST = 32768, BYTES_MOST = 96 << 20 }; /* of a mutation, beyond which it may be split */

static void note_failed(void *arg, struct tfs_bytes row, int err)
{
	struct writer *w = arg;

	if (w->failed)
		return;
	w->failed = err;
	if (buf_set(&w->failed_row, row.p, row.n))
		buf_reset(&w->failed_row);
}

int writer_init(struct mirror *m)
{
	const struct tfs_batch_options o = {.failed = note_failed, .arg = &m->w};
	int err = tfs_batch_new(m->to.table, &o, &m->w.batch);

	return err ? mirror_failed(&m->to, err, NULL) : 0;
}

void writer_drop(struct mirror *m)
{
	struct writer *w = &m->w;

	for (unsigned i = 0; i < w->count; i++)
		tfs_mutation_free(w->v[i]);
	w->count = w->ops = 0;
	w->bytes = w->open_bytes = 0;
	w->open = NULL;
	w->row = tfs_bytes_of(NULL, 0);
	arena_fini(&w->arena);
}

void writer_fini(struct mirror *m)
{
	struct writer *w = &m->w;

	writer_drop(m);
	free(w->v);
	if (w->batch)
		(void)!tfs_batch_close(w->batch);
	buf_fini(&w->failed_row);
	*w = (struct writer){0};
}

/* ---- operations ---- */

static struct tfs_bytes keep(struct writer *w, struct tfs_bytes s)
{
	struct tfs_bytes out;

	if (!arena_dup(&w->arena, s, &out))
		no_memory();
	w->bytes += s.n;
	w->open_bytes += s.n;
	return out;
}

void writer_row(struct mirror *m, struct tfs_bytes row)
{
	m->w.open = NULL;
	m->w.row = keep(&m->w, row);
	m->rows++;
}

int writer_split(struct mirror *m)
{
	struct writer *w = &m->w;
	struct buf row = {0};
	int err;

	if (!w->open || (w->ops < OPS_MOST && w->open_bytes < BYTES_MOST))
		return 0;
	w->open = NULL;
	if (w->bytes < MIRROR_MOST_BYTES)
		return 1;
	if (buf_append_bytes(&row, w->row))
		no_memory();
	err = writer_flush(m);
	w->row = keep(w, buf_bytes(&row));
	buf_fini(&row);
	return err ? err : 1;
}

static struct tfs_mutation *mutation(struct mirror *m)
{
	struct writer *w = &m->w;

	if (!w->open) {
		tool_grow(w->v, w->count);
		w->open = tfs_mutation_new(m->to.table, w->row);
		if (!w->open)
			no_memory();
		w->v[w->count++] = w->open;
		w->ops = 0;
		w->open_bytes = 0;
	}
	w->ops++;
	w->bytes += 64; /* of an operation itself */
	return w->open;
}

static void must(int err)
{
	if (err)
		no_memory();
}

static const char *keep_name(struct writer *w, const char *name)
{
	const char *kept = arena_text(&w->arena, name);

	if (!kept)
		no_memory();
	return kept;
}

void writer_put(struct mirror *m, const char *family, struct tfs_bytes qualifier, int64_t ts, struct tfs_bytes value)
{
	struct tfs_mutation *mu = mutation(m);

	m->cells++;
	must(tfs_mutation_put(mu, keep_name(&m->w, family), keep(&m->w, qualifier), tfs_at(ts), keep(&m->w, value)));
}

void writer_delete(struct mirror *m, const char *family, struct tfs_bytes qualifier, int64_t ts)
{
	struct tfs_mutation *mu = mutation(m);

	m->cells++;
	must(tfs_mutation_delete_version(mu, keep_name(&m->w, family), keep(&m->w, qualifier), ts));
}

void writer_delete_column(struct mirror *m, const char *family, struct tfs_bytes qualifier)
{
	struct tfs_mutation *mu = mutation(m);

	m->cells++;
	must(tfs_mutation_delete_column(mu, keep_name(&m->w, family), keep(&m->w, qualifier)));
}

void writer_delete_family(struct mirror *m, const char *family)
{
	struct tfs_mutation *mu = mutation(m);

	m->cells++;
	must(tfs_mutation_delete_family(mu, keep_name(&m->w, family)));
}

void writer_delete_row(struct mirror *m)
{
	m->cells++;
	must(tfs_mutation_delete_row(mutation(m)));
}

int writer_put_cell(struct mirror *m, const struct tfs_cell *cell)
{
	struct tfs_bytes value = cell->value;
	size_t got = 0;
	void *whole;
	int err;

	if (value.p || !cell->size) {
		writer_put(m, cell->family, cell->qualifier, cell->ts, value);
		return 0;
	}
	whole = malloc(cell->size);
	if (!whole)
		no_memory();
	err = tfs_read(m->from.table, cell->row, cell->family, cell->qualifier, tfs_at(cell->ts), 0, whole, cell->size, &got, NULL);
	if (!err)
		writer_put(m, cell->family, cell->qualifier, cell->ts, tfs_bytes_of(whole, got));
	free(whole);
	return err && err != -ENOENT ? mirror_failed(&m->from, err, NULL) : 0;
}

int writer_column(struct mirror *m, const char *family, struct tfs_bytes qualifier)
{
	const struct tfs_bytes row = m->w.row;
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS,
		.row_from = row,
		.one_row = true,
		.families = &family,
		.family_count = 1,
		.qualifier_from = qualifier};
	struct buf behind = {0};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	int r, err = 0;

	if (buf_append_bytes(&behind, qualifier) || buf_u8(&behind, 0))
		no_memory();
	spec.qualifier_to = buf_bytes(&behind);
	writer_delete_column(m, family, qualifier);
	r = tfs_scan_new(m->from.table, &spec, &scan);
	while (!r && (r = tfs_scan_next(scan, &cell)) > 0) {
		err = writer_put_cell(m, &cell);
		if (!err)
			err = writer_split(m);
		if (err < 0)
			break;
		r = 0;
	}
	tfs_scan_free(scan);
	buf_fini(&behind);
	if (err < 0)
		return err;
	/* The family or the table was dropped meanwhile: the next round learns of it. */
	return r && r != -EINVAL && r != -ENOENT ? mirror_failed(&m->from, r, NULL) : 0;
}

/* ---- applying ---- */

static int apply_all(struct mirror *m)
{
	struct writer *w = &m->w;
	int err = 0;

	w->failed = 0;
	for (unsigned i = 0; i < w->count && !err; i++)
		err = tfs_batch_add(w->batch, w->v[i]);
	if (err)
		(void)!tfs_batch_flush(w->batch);
	else
		err = tfs_batch_flush(w->batch);
	if (err && w->failed)
		complain("%s: row %s: %s", m->to.path, quoted(buf_bytes(&w->failed_row)), strerror(-w->failed));
	else if (err)
		return mirror_failed(&m->to, err, NULL);
	return err;
}

int writer_flush(struct mirror *m)
{
	int err;

	if (!m->w.count)
		return 0;
	err = tfs_sync(m->from.store);
	if (err)
		return mirror_failed(&m->from, err, NULL);
	err = state_check(m);
	if (!err)
		err = apply_all(m);
	if (!err && (err = tfs_sync(m->to.store)))
		return mirror_failed(&m->to, err, NULL);
	m->bytes += m->w.bytes;
	progress_set(m->bytes, m->compared);
	progress_cells(m->cells, m->rows);
	writer_drop(m);
	return err;
}

int writer_clear(struct mirror *m, const char *family)
{
	const struct tfs_scan_spec spec = {
		.what = TFS_SCAN_ROWS, .families = family ? &family : NULL, .family_count = family != NULL};
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	int r = tfs_scan_new(m->to.table, &spec, &scan), err = 0;

	while (!err && !r && (r = tfs_scan_next(scan, &cell)) > 0) {
		writer_row(m, cell.row);
		if (family)
			writer_delete_family(m, family);
		else
			writer_delete_row(m);
		r = 0;
		if (m->w.bytes >= MIRROR_CHUNK_BYTES)
			err = writer_flush(m);
	}
	tfs_scan_free(scan);
	if (r < 0)
		return mirror_failed(&m->to, r, NULL);
	return err ? err : writer_flush(m);
}
