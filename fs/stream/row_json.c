/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROW/.row.json and ROW/.row.flat.json: the row as one JSON object (engine/bulk/row_json.h).
 *
 * The WRITE that contains the end of the object replaces the row, because
 * shells ignore the errors of close.  A scratch file that is renamed to .row.json
 * replaces it, too, as editors do.  An object of .row.flat.json, or with "merge": true,
 * changes only the cells that it names.
 *
 * If the object has a sequence, the row is scanned, and its sum compared.  The
 * mutation then checks each family's sum again, under the row's lock in the
 * server.  So no change in between is lost, and the mutation compares the
 * families that the user could read at the time of the read.
 */
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/file/file.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/stream/stream.h"
#include "fs/node/scratch/scratch.h"

#include "engine/bulk/row_json.h"

#include <errno.h>
#include <stdlib.h>

#define MEMORY_ALL (4 * ROW_JSON_MAX)
#define ROW_CELLS_MAX 65536

static _Atomic uint64_t memory_all; /* the bytes of all descriptors' texts */

static bool is_flat(const struct node *file)
{
	return file->kind == NODE_ROW_FLAT;
}

/* ---- replacing the row ---- */

/* A family, as the user sees it. */
struct seen_family {
	bool read, write, has_cells;
	uint64_t sum;
};
struct replacing {
	struct node *file; /* the file that messages name */
	struct node *row;
	struct tfs_table *table; /* the user's */
	const struct tfs_schema *schema;
	struct row_json json;
	struct seen_family *families; /* the families of the schema */
	struct mutation_lines lines;
};

static void replacing_fini(struct replacing *r)
{
	mutation_lines_fini(&r->lines);
	row_json_fini(&r->json);
	free(r->families);
	tfs_schema_put(r->schema);
}

/* Sums the fingerprints of each family. */
static int see_cells(struct replacing *r)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS, .row_from = node_key(r->row), .one_row = true};
	struct tfs_scan *scan = NULL;
	struct tfs_cell c;
	unsigned i = 0;
	int n = tfs_scan_new(r->table, &spec, &scan);

	while (n == 0 && (n = tfs_scan_next(scan, &c)) > 0) {
		while (i < r->schema->family_count && r->schema->families[i].id != c.family_id)
			i++;
		if (i == r->schema->family_count) {
			n = -ECANCELED; /* a family that is newer than the schema */
			break;
		}
		r->families[i].sum += tfs_fingerprint(&c);
		r->families[i].has_cells = true;
		n = 0;
	}
	tfs_scan_free(scan);
	return n;
}

/* Adds a check of each family that the user sees. */
static int add_checks(struct replacing *r)
{
	uint64_t sum = 0;
	int err = see_cells(r);

	for (unsigned i = 0; i < r->schema->family_count; i++)
		sum += r->families[i].sum;
	if (!err && sum != r->json.sequence)
		err = -ECANCELED;
	for (unsigned i = 0; i < r->schema->family_count && !err; i++) {
		if (!r->families[i].read)
			continue;
		err = mutation_lines_push(&r->lines,
			&(struct mutation_line){.verb = MUTATION_CHECK_FAMILY,
				.family = r->schema->families[i].name,
				.by = (int64_t)r->families[i].sum});
	}
	return err;
}

/* Deletes the cells of the families that the user may replace. */
static int add_deletes(struct replacing *r)
{
	bool all = !r->json.has_sequence;
	int err = 0;

	for (unsigned i = 0; i < r->schema->family_count; i++)
		all = all && r->families[i].read && r->families[i].write;
	if (all)
		return mutation_lines_push(&r->lines, &(struct mutation_line){.verb = MUTATION_DELETE});
	for (unsigned i = 0; i < r->schema->family_count && !err; i++) {
		if (!r->families[i].read || !r->families[i].write || (r->json.has_sequence && !r->families[i].has_cells))
			continue;
		err = mutation_lines_push(&r->lines,
			&(struct mutation_line){.verb = MUTATION_DELETE, .family = r->schema->families[i].name, .all = true});
	}
	return err;
}

static int add_cell(struct replacing *r, struct mutation_line *c, size_t number)
{
	const struct tfs_family *f = tfs_name_valid(c->family) ? tfs_schema_family(r->schema, c->family) : NULL;
	const struct seen_family *seen = f ? &r->families[f - r->schema->families] : NULL;
	int err = 0;

	if (!f)
		return refuse(-EINVAL, r->file, NULL, "cell %zu: the table has no such family", number);
	if (!seen->read && !r->json.merge)
		return refuse(-EACCES, r->file, NULL, "cell %zu: no permission for the family %s", number, f->name);
	if (!seen->write && r->json.merge)
		return refuse(-EACCES, r->file, NULL, "cell %zu: the user may not write to the family %s", number, f->name);
	if (!seen->write)
		return 0;
	if (f->type == TFS_TYPE_COUNTER && !c->has_ts && c->verb == MUTATION_SET)
		err = mutation_counter_value(&r->json.arena, &c->value);
	if (err == -EINVAL)
		return refuse(err, r->file, NULL, "cell %zu: a counter is set to one decimal number", number);
	return err ? err : mutation_lines_push(&r->lines, c);
}

static int replacing_prepare(struct replacing *r, const struct caller *caller, struct tfs_bytes text)
{
	char why[160];
	int err = row_json_parse(text, is_flat(r->file), &r->json, why);

	if (err == -EINVAL)
		return refuse(err, r->file, NULL, "%s; nothing is applied", why);
	if (!err)
		err = tfs_schema_get(r->table, &r->schema);
	if (err)
		return err;
	if (r->json.count > ROW_CELLS_MAX)
		return refuse(-E2BIG, r->file, NULL, "the object has more than 65,536 cells; nothing is applied");
	r->families = calloc(r->schema->family_count + 1u, sizeof(*r->families));
	if (!r->families)
		return -ENOMEM;
	for (unsigned i = 0; i < r->schema->family_count; i++) {
		r->families[i].read = tfs_may(r->schema, &r->schema->families[i], &caller->user, TFS_MAY_READ);
		r->families[i].write = tfs_may(r->schema, &r->schema->families[i], &caller->user, TFS_MAY_WRITE);
	}
	if (r->json.has_sequence)
		err = add_checks(r);
	if (!err && !r->json.merge)
		err = add_deletes(r);
	for (size_t i = 0; i < r->json.count && !err; i++)
		err = add_cell(r, &r->json.cells[i], i + 1);
	return err;
}

/* Replaces the row by the text of an object. */
static int replace_row(struct node *file, struct node *row, struct tfs_table *table, const struct caller *caller,
	struct tfs_bytes text, struct changes *c)
{
	struct replacing r = {.file = file, .row = row, .table = table};
	int err = replacing_prepare(&r, caller, text);

	if (!err)
		err = row_change(row, table, &r.lines, r.json.merge ? 0 : TFS_APPLY_KEEP, c);
	if (err == -ECANCELED)
		refuse(err, file, NULL, "the row has changed since it was read; nothing is applied");
	replacing_fini(&r);
	return err;
}

/* ---- a descriptor ---- */

struct row_text {
	struct caller *caller;
	struct tfs_table *table; /* the caller's */
	struct buf shown;        /* the text that is read */
	bool rendered, applied;
	size_t read;
	struct buf written;
	struct json_end end;
	uint64_t counted; /* bytes that are counted in memory_all */
};

static int row_json_open(struct sequential *s, int flags)
{
	struct row_text *w = calloc(1, sizeof(*w));
	int err = w && (w->caller = caller_new()) ? 0 : -ENOMEM;

	if (!err)
		err = fs_table_as_caller(w->caller, s->node, &w->table);
	if (err) {
		if (w)
			free(w->caller);
		free(w);
		return err;
	}
	s->state = w;
	return 0;
}

static void row_json_close(struct sequential *s, struct changes *c)
{
	struct row_text *w = s->state;

	atomic_fetch_sub(&memory_all, w->counted);
	tfs_table_close(w->table);
	buf_fini(&w->shown);
	buf_fini(&w->written);
	free(w->caller);
	free(w);
}

/* Counts the memory of the texts. */
static int count_memory(struct row_text *w)
{
	const uint64_t now = w->shown.cap + w->written.cap;

	if (now <= w->counted) {
		atomic_fetch_sub(&memory_all, w->counted - now);
		w->counted = now;
		return 0;
	}
	atomic_fetch_add(&memory_all, now - w->counted);
	w->counted = now;
	return atomic_load(&memory_all) > MEMORY_ALL ? -ENOMEM : 0;
}

static int row_json_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct row_text *w = s->state;
	size_t left;
	int err = 0;

	if (!w->rendered) {
		buf_reset(&w->shown);
		err = row_json_render(w->table, node_key(s->node->parent), is_flat(s->node), &w->shown, NULL);
		if (err == -EFBIG)
			refuse(err, s->node, NULL, "the row's text is longer than 64 MiB: read its cells");
		else if (err == -EAGAIN)
			refuse(err, s->node, NULL, "the row changes too quickly: read its cells");
		if (!err)
			err = count_memory(w);
		w->rendered = !err;
	}
	left = w->shown.n > w->read ? w->shown.n - w->read : 0;
	*got = err ? 0 : n < left ? n : left;
	if (*got)
		memcpy(buf, w->shown.p + w->read, *got);
	w->read += *got;
	return err;
}

static int row_json_seek(struct sequential *s, uint64_t at)
{
	struct row_text *w = s->state;

	w->read = at;
	return 0;
}

static struct tfs_bytes skip_blanks(struct tfs_bytes s)
{
	while (s.n && strchr(" \t\r\n", *s.p) && *s.p)
		s = tfs_bytes_of(s.p + 1, s.n - 1);
	return s;
}

static int row_json_write(struct sequential *s, const void *p, size_t n, struct changes *c)
{
	struct row_text *w = s->state;
	struct tfs_bytes piece = tfs_bytes_of(p, n);
	size_t part;
	int err;

	if (!w->written.n && !w->applied)
		piece = skip_blanks(piece);
	if (!piece.n)
		return 0;
	if (!w->written.n && !w->applied && *piece.p != '{')
		return refuse(-EINVAL, s->node, NULL, "an object of JSON begins with {; nothing is applied");
	if (piece.n > ROW_JSON_MAX - w->written.n)
		return refuse(-EFBIG, s->node, NULL, "a row's text is at most 64 MiB; nothing is applied");
	part = json_end_find(&w->end, piece);
	if (skip_blanks(tfs_bytes_of(piece.p + part, piece.n - part)).n)
		return refuse(-EINVAL, s->node, NULL,
			w->applied ? "it follows the end of the object" : "text follows the object; nothing is applied");
	if (w->applied)
		return 0;
	err = buf_append(&w->written, piece.p, part);
	if (!err)
		err = count_memory(w);
	if (err || !w->end.ended)
		return err;
	w->applied = true;
	w->rendered = false;
	w->read = 0;
	err = replace_row(s->node, s->node->parent, w->table, w->caller, buf_bytes(&w->written), c);
	buf_fini(&w->written);
	return err;
}

static int row_json_flush(struct sequential *s, struct changes *c)
{
	const struct row_text *w = s->state;

	if (!w->written.n || w->applied || s->write_error)
		return 0;
	return refuse(-EINVAL, s->node, NULL, "the object has no end; nothing is applied");
}

static const struct sequential_ops row_json_sequential = {
	.open = row_json_open,
	.read = row_json_read,
	.seek = row_json_seek,
	.write = row_json_write,
	.flush = row_json_flush,
	.close = row_json_close,
};

/* ---- the name ---- */

static int row_json_take_scratch(struct renaming *m)
{
	struct node *row = m->to.parent, *target = node_get(row, m->to.kind, tfs_bytes_of(NULL, 0), 0);
	struct open_file *file = open_file_find(m->source);
	struct tfs_table *table = NULL;
	struct tfs_bytes bytes;
	struct buf text = {0};
	int err = target && file ? 0 : -ENOMEM;

	if (!err && m->noreplace)
		err = -EEXIST;
	if (!err)
		err = fs_table_as_caller(m->caller, row, &table);
	if (!err) {
		mutex_lock(&file->lock);
		open_file_wait(file, &file->shared);
		err = scratch_check_read(file, m->caller);
		if (!err)
			err = file->shared.image.size > ROW_JSON_MAX ? -EFBIG : stage_bytes(&file->shared.image, &bytes);
		if (!err)
			err = buf_append_bytes(&text, bytes);
		mutex_unlock(&file->lock);
	}
	if (err == -EFBIG)
		refuse(err, target, NULL, "a row's text is at most 64 MiB; nothing is applied");
	fs_serve(m->req);
	if (!err)
		err = replace_row(target, row, table, m->caller, buf_bytes(&text), m->c);
	fs_serve(NULL);
	if (!err)
		err = scratch_remove(m->source);
	buf_fini(&text);
	if (table)
		tfs_table_close(table);
	open_file_put(file);
	node_put(target);
	return err;
}

/*
 * Returns the size and time of the text that the asking user would read, because
 * many programs read as many bytes as the size states.  A text that is too long has
 * the size 0; its READ has the reason.
 */
static int row_json_attr(struct node *n, struct stat *st, double *timeout)
{
	struct tfs_table *table;
	struct buf text = {0};
	int64_t commit_us = 0;
	int err = fs_table_as_asker(n, &table);

	if (err)
		return err;
	err = row_json_render(table, node_key(n->parent), is_flat(n), &text, &commit_us);
	tfs_table_close(table);
	if (!err || err == -EFBIG)
		err = row_control_stat(n, err ? 0 : text.n, err ? 0 : commit_us, st);
	buf_fini(&text);
	return err;
}

static int row_json_exists(struct node *n)
{
	return fs.no_open
		? refuse(-EOPNOTSUPP, n, NULL, "a read-only mount has no %s: read the row's cells", kind_ops(n->kind)->fixed_name)
		: 0;
}

#define ROW_JSON_OPS                                                                                                               \
	.traits = KIND_UNCACHED, .attr = row_json_attr, .exists = row_json_exists, .unlink = row_control_unlink,                   \
	.rename = row_control_rename, .take_scratch = row_json_take_scratch, .sequential = &row_json_sequential
const struct node_ops row_json_ops = {ROW_JSON_OPS, .fixed_name = ".row.json"};
const struct node_ops row_flat_ops = {ROW_JSON_OPS, .fixed_name = ".row.flat.json"};
