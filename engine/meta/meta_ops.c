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

#define NO_TIME INT64_MIN /* TFS_NO_TIME: the server's clock */

struct writer {
	struct arena *arena;
	struct op *ops;
	unsigned count;
	struct buf scratch;
};

static int writer_init(struct writer *w, struct arena *a, size_t most)
{
	*w = (struct writer){.arena = a};
	w->ops = arena_alloc(a, (most ? most : 1) * sizeof *w->ops);
	return w->ops ? 0 : -ENOMEM;
}

/* Frees the scratch memory.  Without an error *ops and *count are set. */
static int writer_finish(struct writer *w, int err, struct op **ops, unsigned *count)
{
	buf_fini(&w->scratch);
	if (err)
		return err;
	*ops = w->ops;
	*count = w->count;
	return 0;
}

/* The value is in scratch. */
static int write_column(struct writer *w, enum meta_family family, struct slice qualifier)
{
	struct op *op = &w->ops[w->count];

	*op = (struct op){
		.kind = OP_WRITE, .family = (uint16_t)family, .ts = {.newest = true, .us = NO_TIME}, .truncate_to = UINT64_MAX};
	if (!arena_dup(w->arena, qualifier, &op->qualifier) || !arena_dup(w->arena, buf_slice(&w->scratch), &op->value))
		return -ENOMEM;
	buf_reset(&w->scratch);
	w->count++;
	return 0;
}

static int delete_column(struct writer *w, enum meta_family family, struct slice qualifier)
{
	struct op *op = &w->ops[w->count];

	*op = (struct op){.kind = OP_DELETE_COLUMN, .family = (uint16_t)family, .truncate_to = UINT64_MAX};
	if (!arena_dup(w->arena, qualifier, &op->qualifier))
		return -ENOMEM;
	w->count++;
	return 0;
}

static int write_u64(struct writer *w, enum meta_column c, uint64_t v)
{
	int err = meta_u64_encode(v, &w->scratch);

	return err ? err : write_column(w, META_TABLET, slice_str(meta_column_names[c]));
}

static int write_server(struct writer *w, uint64_t server, uint64_t assignment)
{
	int err = meta_server_encode(server, assignment, &w->scratch);

	return err ? err : write_column(w, META_TABLET, slice_str(meta_column_names[C_SERVER]));
}

static int write_tokens(struct writer *w, const struct meta_tablet *m)
{
	int err = meta_tokens_encode(m, &w->scratch);

	return err ? err : write_column(w, META_TABLET, slice_str(meta_column_names[C_TOKENS]));
}

static int write_bytes(struct writer *w, enum meta_family family, const char *qualifier, struct slice v)
{
	int err = meta_bytes_encode(v, &w->scratch);

	return err ? err : write_column(w, family, slice_str(qualifier));
}

static int write_file(struct writer *w, const struct tablet_file *f)
{
	uint8_t key[META_SST_KEY_BYTES];
	struct tablet_file copy = {0};
	int err = tablet_file_copy(&copy, f);

	if (err)
		return err;
	meta_file_normalise(&copy);
	meta_sst_key_put(key, &copy);
	err = meta_sst_value_encode(&copy, &w->scratch);
	tablet_file_fini(&copy);
	return err ? err : write_column(w, META_SST, slice_of(key, sizeof key));
}

static int write_redo(struct writer *w, const struct redo_point *p)
{
	uint8_t key[META_REDO_KEY_BYTES];
	int err = meta_u64_encode(p->lsn, &w->scratch);

	put_be64(key, p->incarnation);
	return err ? err : write_column(w, META_REDO, slice_of(key, sizeof key));
}

/* All columns except server and merge. */
static int write_all(struct writer *w, const struct meta_tablet *m)
{
	int err = write_bytes(w, META_TABLET, meta_column_names[C_BEGIN], buf_slice(&m->begin));

	if (!err)
		err = write_u64(w, C_SEQ, m->seq_mark);
	if (!err)
		err = write_u64(w, C_CLOCK, (uint64_t)m->clock_mark);
	if (!err)
		err = write_u64(w, C_MAJOR, (uint64_t)m->major_us);
	if (!err && m->token_count)
		err = write_tokens(w, m);
	for (unsigned i = 0; i < m->file_count && !err; i++)
		err = write_file(w, &m->files[i]);
	for (unsigned i = 0; i < m->redo_count && !err; i++)
		err = write_redo(w, &m->redo[i]);
	return err;
}

int meta_ops_new(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	int err = writer_init(&w, a, 6u + m->file_count + m->redo_count);

	if (err)
		return err;
	err = write_server(&w, m->server, m->assignment);
	if (!err)
		err = write_all(&w, m);
	return writer_finish(&w, err, ops, count);
}

int meta_ops_split(const struct meta_tablet *lower, const char *event, struct arena *a, struct op **ops, unsigned *count)
{
	struct op *columns, *all;
	struct writer w;
	unsigned n;
	int err = meta_ops_new(lower, a, &columns, &n);

	if (!err)
		err = writer_init(&w, a, n + 2u);
	if (err)
		return err;
	all = w.ops;
	all[0] = (struct op){.kind = OP_CHECK,
		.check = OP_CHECK_ABSENT,
		.family = META_TABLET,
		.ts = {.newest = true},
		.truncate_to = UINT64_MAX,
		.qualifier = slice_str(meta_column_names[C_SERVER])};
	memcpy(all + 1, columns, n * sizeof *all);
	w.count = n + 1;
	err = write_bytes(&w, META_EVENT, "", slice_str(event));
	buf_fini(&w.scratch);
	if (err)
		return err;
	*ops = all;
	*count = w.count;
	return 0;
}

#define MERGE_MOST (200u * 1024u) /* a scan returns values of up to 256 KiB */

int meta_ops_merge(const struct meta_tablet *lower, struct arena *a, struct op **ops, unsigned *count)
{
	struct buf row = {0};
	struct writer w;
	int err = writer_init(&w, a, 2);

	if (!err)
		err = meta_root_encode(lower, &row);
	if (!err && row.n > MERGE_MOST)
		err = -E2BIG;
	if (!err)
		err = write_bytes(&w, META_TABLET, meta_column_names[C_MERGE], buf_slice(&row));
	if (!err) /* the hint must not be above the true begin */
		err = write_bytes(&w, META_TABLET, meta_column_names[C_BEGIN], buf_slice(&lower->begin));
	buf_fini(&row);
	return writer_finish(&w, err, ops, count);
}

int meta_ops_fold(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	int err = writer_init(&w, a, 7u + m->file_count + m->redo_count);

	if (err)
		return err;
	/* The fold left out files without rows of their tablet.  Their columns must not remain, because the range has grown. */
	w.ops[w.count++] = (struct op){.kind = OP_DELETE_FAMILY, .family = META_SST, .truncate_to = UINT64_MAX};
	err = write_all(&w, m);
	if (!err)
		err = delete_column(&w, META_TABLET, slice_str(meta_column_names[C_MERGE]));
	return writer_finish(&w, err, ops, count);
}

static bool redo_has(const struct redo_point *v, unsigned count, uint64_t incarnation)
{
	for (unsigned i = 0; i < count; i++)
		if (v[i].incarnation == incarnation)
			return true;
	return false;
}

static int edit_redo(struct writer *w, const struct meta_tablet *old, const struct tablet_edit *e)
{
	uint8_t key[META_REDO_KEY_BYTES];
	int err = 0;

	for (unsigned i = 0; i < old->redo_count && !err; i++) {
		if (redo_has(e->redo, e->redo_count, old->redo[i].incarnation))
			continue;
		put_be64(key, old->redo[i].incarnation);
		err = delete_column(w, META_REDO, slice_of(key, sizeof key));
	}
	for (unsigned i = 0; i < e->redo_count && !err; i++)
		err = write_redo(w, &e->redo[i]);
	return err;
}

static int edit_files(struct writer *w, const struct meta_tablet *old, const struct tablet_edit *e)
{
	uint8_t key[META_SST_KEY_BYTES];
	int err = 0;

	for (unsigned i = 0; i < e->removed_count && !err; i++) {
		const struct tablet_file *f = meta_find_file(old, &e->removed[i]);

		meta_sst_key_put(key, f ? f : &e->removed[i]);
		err = delete_column(w, META_SST, slice_of(key, sizeof key));
	}
	for (unsigned i = 0; i < e->added_count && !err; i++)
		err = write_file(w, &e->added[i]);
	return err;
}

/* Every edit rewrites the begin hint. */
int meta_ops_edit(const struct meta_tablet *old, const struct tablet_edit *e, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	size_t most = 6u + e->added_count + e->removed_count + (e->set_redo ? old->redo_count + e->redo_count : 0);
	int err = writer_init(&w, a, most);

	if (err)
		return err;
	err = write_bytes(&w, META_TABLET, meta_column_names[C_BEGIN], buf_slice(&old->begin));
	if (!err && old->stale_merge)
		err = delete_column(&w, META_TABLET, slice_str(meta_column_names[C_MERGE]));
	if (!err)
		err = edit_files(&w, old, e);
	if (!err && e->set_redo)
		err = edit_redo(&w, old, e);
	if (!err && e->seq_mark)
		err = write_u64(&w, C_SEQ, e->seq_mark);
	if (!err && e->clock_mark)
		err = write_u64(&w, C_CLOCK, (uint64_t)e->clock_mark);
	if (!err && e->major_us)
		err = write_u64(&w, C_MAJOR, (uint64_t)e->major_us);
	if (!err && e->event)
		err = write_bytes(&w, META_EVENT, "", slice_str(e->event));
	return writer_finish(&w, err, ops, count);
}

int meta_ops_owner(const struct meta_tablet *old, uint64_t own, struct arena *a, struct op **ops, unsigned *count)
{
	struct writer w;
	int err = writer_init(&w, a, 2);

	if (err)
		return err;
	err = write_server(&w, old->server, old->assignment);
	if (!err) {
		w.ops[0].kind = OP_CHECK;
		w.ops[0].check = OP_CHECK_VALUE;
		if (old->server != own)
			err = write_server(&w, own, old->assignment);
	}
	return writer_finish(&w, err, ops, count);
}
