/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that write a METADATA row.
 *
 * A column is written as its newest version (maxversions=1 hides the previous
 * one).  An element that leaves a list is a deleted column.  So one mutation is
 * one edit, and a reader decodes the row that meta_tablet_apply makes.
 */
#include "engine/meta/meta.h"
#include "engine/meta/meta_format.h"

#include <errno.h>

#define NO_TIME INT64_MIN /* TFS_NO_TIME stands for the server's clock */

/* After an error the functions that write do nothing. */
struct writer {
	struct arena *arena;
	struct op *ops;
	unsigned count, cap;
	int err;
	struct buf value; /* the value of the column to be written next */
};

/* Returns the next operation, or NULL after an error. */
static struct op *next_op(struct writer *w, enum op_kind kind, enum meta_family family)
{
	if (!w->err && w->count == w->cap) {
		unsigned cap = w->cap ? 2 * w->cap : 16;
		struct op *ops = arena_alloc(w->arena, cap * sizeof *ops);

		if (ops && w->count)
			memcpy(ops, w->ops, w->count * sizeof *ops);
		w->err = ops ? 0 : -ENOMEM;
		w->ops = ops;
		w->cap = cap;
	}
	if (w->err)
		return NULL;
	w->ops[w->count] = (struct op){.kind = kind, .family = (uint16_t)family, .w.truncate_to = UINT64_MAX};
	return &w->ops[w->count++];
}

/* Frees the writer's memory.  Without an error *ops and *count are set. */
static int writer_finish(struct writer *w, struct op **ops, unsigned *count)
{
	buf_fini(&w->value);
	if (w->err)
		return w->err;
	*ops = w->ops;
	*count = w->count;
	return 0;
}

/* `encoded` is the result of encoding the column into w->value. */
static void write_column(struct writer *w, enum meta_family family, struct tfs_bytes qualifier, int encoded)
{
	struct op *op;

	w->err = w->err ? w->err : encoded;
	op = next_op(w, OP_WRITE, family);
	if (op) {
		op->w.place = TFS_AUTO;
		if (!arena_dup(w->arena, qualifier, &op->w.qualifier) || !arena_dup(w->arena, buf_bytes(&w->value), &op->value))
			w->err = -ENOMEM;
	}
	buf_reset(&w->value);
}

static void delete_column(struct writer *w, enum meta_family family, struct tfs_bytes qualifier)
{
	struct op *op = next_op(w, OP_DELETE_COLUMN, family);

	if (op && !arena_dup(w->arena, qualifier, &op->w.qualifier))
		w->err = -ENOMEM;
}

static struct tfs_bytes column_name(enum meta_column c)
{
	return tfs_str(meta_column_names[c]);
}

static void write_u64(struct writer *w, enum meta_column c, uint64_t v)
{
	write_column(w, META_TABLET, column_name(c), meta_u64_encode(v, &w->value));
}

static void write_server(struct writer *w, uint64_t server, uint64_t assignment)
{
	write_column(w, META_TABLET, column_name(C_SERVER), meta_server_encode(server, assignment, &w->value));
}

static void write_bytes(struct writer *w, enum meta_column c, struct tfs_bytes v)
{
	write_column(w, META_TABLET, column_name(c), meta_bytes_encode(v, &w->value));
}

static void write_event(struct writer *w, const char *event)
{
	write_column(w, META_EVENT, tfs_str(""), meta_bytes_encode(tfs_str(event), &w->value));
}

static void write_file(struct writer *w, const struct tablet_file *f)
{
	uint8_t key[META_SST_KEY_BYTES];
	struct tablet_file copy = {0};
	int err = tablet_file_copy(&copy, f);

	if (!err) {
		meta_file_normalise(&copy);
		err = meta_sst_value_encode(&copy, &w->value);
	}
	tablet_file_fini(&copy);
	meta_sst_key_put(key, f);
	write_column(w, META_SST, tfs_bytes_of(key, sizeof key), err);
}

static void write_redo(struct writer *w, const struct redo_point *p)
{
	uint8_t key[META_REDO_KEY_BYTES];

	put_be64(key, p->incarnation);
	write_column(w, META_REDO, tfs_bytes_of(key, sizeof key), meta_u64_encode(p->lsn, &w->value));
}

static void write_tokens(struct writer *w, const struct tablet_token *v, unsigned count)
{
	if (count)
		write_column(w, META_TABLET, column_name(C_TOKENS), meta_tokens_encode(v, count, &w->value));
}

/* All columns except server and merge. */
static void write_all(struct writer *w, const struct meta_tablet *m)
{
	write_bytes(w, C_BEGIN, buf_bytes(&m->begin));
	write_u64(w, C_SEQ, m->seq_mark);
	write_u64(w, C_CLOCK, (uint64_t)m->clock_mark);
	write_u64(w, C_MAJOR, (uint64_t)m->major_us);
	if (m->changes_low_us)
		write_u64(w, C_CHANGES, (uint64_t)m->changes_low_us);
	write_tokens(w, m->tokens, m->token_count);
	for (unsigned i = 0; i < m->file_count; i++)
		write_file(w, &m->files[i]);
	for (unsigned i = 0; i < m->redo_count; i++)
		write_redo(w, &m->redo[i]);
}

int meta_ops_new(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w = {.arena = a};

	write_server(&w, m->server, m->assignment);
	write_all(&w, m);
	return writer_finish(&w, ops, count);
}

int meta_ops_split(const struct meta_tablet *lower, const char *event, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w = {.arena = a};
	struct op *op = next_op(&w, OP_CHECK, META_TABLET);

	if (op) {
		op->check = TFS_CHECK_ABSENT;
		op->w.place.when = TFS_NEWEST;
		op->w.qualifier = column_name(C_SERVER);
	}
	write_server(&w, lower->server, lower->assignment);
	write_all(&w, lower);
	write_event(&w, event);
	return writer_finish(&w, ops, count);
}

#define MERGE_MOST (200u * 1024u) /* a scan returns values of up to 256 KiB */

int meta_ops_merge(const struct meta_tablet *lower, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w = {.arena = a};
	struct buf row = {0};

	w.err = meta_root_encode(lower, &row);
	if (!w.err && row.n > MERGE_MOST)
		w.err = -E2BIG;
	write_bytes(&w, C_MERGE, buf_bytes(&row));
	write_bytes(&w, C_BEGIN, buf_bytes(&lower->begin)); /* the hint must not be above the true begin */
	buf_fini(&row);
	return writer_finish(&w, ops, count);
}

/* Step 4 of a merge: writes m as the row's own columns, and deletes the merge column. */
static void write_folded(struct writer *w, const struct meta_tablet *m)
{
	/* Files without rows of their tablet were left out of m.  Their columns must not remain, because the range has grown. */
	(void)next_op(w, OP_DELETE_FAMILY, META_SST);
	write_all(w, m);
	delete_column(w, META_TABLET, column_name(C_MERGE));
}

static bool redo_has(const struct redo_point *v, unsigned count, uint64_t incarnation)
{
	for (unsigned i = 0; i < count; i++)
		if (v[i].incarnation == incarnation)
			return true;
	return false;
}

static void edit_redo(struct writer *w, const struct meta_tablet *old, const struct tablet_edit *e)
{
	uint8_t key[META_REDO_KEY_BYTES];

	for (unsigned i = 0; i < old->redo_count; i++) {
		if (redo_has(e->redo, e->redo_count, old->redo[i].incarnation))
			continue;
		put_be64(key, old->redo[i].incarnation);
		delete_column(w, META_REDO, tfs_bytes_of(key, sizeof key));
	}
	for (unsigned i = 0; i < e->redo_count; i++)
		write_redo(w, &e->redo[i]);
}

static void edit_files(struct writer *w, const struct meta_tablet *old, const struct tablet_edit *e)
{
	uint8_t key[META_SST_KEY_BYTES];

	for (unsigned i = 0; i < e->removed_count; i++) {
		const struct tablet_file *f = meta_find_file(old, &e->removed[i]);

		meta_sst_key_put(key, f ? f : &e->removed[i]);
		delete_column(w, META_SST, tfs_bytes_of(key, sizeof key));
	}
	for (unsigned i = 0; i < e->added_count; i++)
		write_file(w, &e->added[i]);
}

/* Every edit rewrites the begin hint. */
int meta_ops_edit(const struct meta_tablet *old, const struct tablet_edit *e, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w = {.arena = a};

	if (old->unfolded)
		write_folded(&w, old);
	write_bytes(&w, C_BEGIN, buf_bytes(&old->begin));
	if (old->stale_merge)
		delete_column(&w, META_TABLET, column_name(C_MERGE));
	edit_files(&w, old, e);
	if (e->set_redo)
		edit_redo(&w, old, e);
	if (e->set_tokens && !e->token_count)
		delete_column(&w, META_TABLET, column_name(C_TOKENS));
	else if (e->set_tokens)
		write_tokens(&w, e->tokens, e->token_count);
	if (e->seq_mark)
		write_u64(&w, C_SEQ, e->seq_mark);
	if (e->major_us)
		write_u64(&w, C_MAJOR, (uint64_t)e->major_us);
	if (e->set_changes)
		write_u64(&w, C_CHANGES, (uint64_t)e->changes_low_us);
	if (e->event)
		write_event(&w, e->event);
	return writer_finish(&w, ops, count);
}

static void write_owner(struct writer *w, const struct meta_tablet *old, uint64_t server, uint64_t assignment)
{
	write_server(w, old->server, old->assignment);
	if (!w->err) {
		w->ops[0].kind = OP_CHECK;
		w->ops[0].check = TFS_CHECK_VALUE;
	}
	if (old->server != server || old->assignment != assignment)
		write_server(w, server, assignment);
}

int meta_ops_owner(
	const struct meta_tablet *old, uint64_t server, uint64_t assignment, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w = {.arena = a};

	write_owner(&w, old, server, assignment);
	return writer_finish(&w, ops, count);
}

int meta_ops_release(const struct meta_tablet *old, int64_t clock_mark, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w = {.arena = a};

	write_owner(&w, old, 0, old->assignment);
	write_u64(&w, C_CLOCK, (uint64_t)clock_mark);
	return writer_finish(&w, ops, count);
}
