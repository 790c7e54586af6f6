/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a table to its mirror: both are compared, and the target gets what differs.
 *
 * The target's state has a token from before the copy.  A change that the copy reads
 * at the source is applied once more behind the token, which does no harm (write.c).  So rows may change meanwhile.
 * The copy of a new target finds no cell there and writes all; the copy of an old one writes little.  After each chunk the state has
 * the last whole row of it, so an interrupted copy continues there.
 */
#include "engine/tool/mirror/diff.h"
#include "engine/tool/mirror/mirror.h"
#include "engine/tool/progress.h"

#include <errno.h>

struct copy {
	struct mirror *m;
	struct diff *d;
	struct buf row, qualifier; /* of the last cell */
	char family[TFS_NAME_MAX + 1], pass[TFS_NAME_MAX + 1];
	bool any, split; /* the mutation of the column was split, so it is made the same once more if its rule counts versions */
};

static bool stopped(void *arg)
{
	(void)arg;
	return progress_signal() != 0;
}

/* The end of a column. */
static int end_column(struct copy *c)
{
	int err = 0;

	if (c->split && family_counts(c->m, c->family))
		err = writer_column(c->m, c->family, buf_bytes(&c->qualifier));
	c->split = false;
	return err;
}

/* Before a row: writes the chunk if it is large, and notes the row before. */
static int end_row(struct copy *c, bool last)
{
	struct mirror_state *s = &c->m->s;
	int err;

	if (!c->any || (!last && c->m->w.bytes < MIRROR_CHUNK_BYTES && !progress_signal()))
		return 0;
	err = writer_flush(c->m);
	if (err)
		return err;
	memcpy(s->copied_family, c->pass, sizeof(c->pass));
	if (buf_set(&s->copied_row, c->row.p, c->row.n))
		no_memory();
	err = state_save(c->m);
	return err ? err : progress_signal() ? -EINTR : 0;
}

static int begin_cell(struct copy *c, const struct diff_cell *cell)
{
	const struct tfs_cell *any = diff_any(cell);
	const bool new_row = !c->any || !bytes_eq(any->row, buf_bytes(&c->row)) || strcmp(c->pass, cell->pass) != 0;
	const bool new_column =
		new_row || strcmp(c->family, any->family) != 0 || !bytes_eq(any->qualifier, buf_bytes(&c->qualifier));
	int err = c->any && new_column ? end_column(c) : 0;

	if (!err && new_row)
		err = end_row(c, false);
	if (err)
		return err;
	if (new_row) {
		writer_row(c->m, any->row);
		if (buf_set(&c->row, any->row.p, any->row.n))
			no_memory();
		snprintf(c->pass, sizeof(c->pass), "%s", cell->pass);
	}
	if (new_column) {
		if (!new_row && (err = writer_split(c->m)) < 0)
			return err;
		if (buf_set(&c->qualifier, any->qualifier.p, any->qualifier.n))
			no_memory();
		snprintf(c->family, sizeof(c->family), "%s", any->family);
	}
	c->any = true;
	return 0;
}

static int copy_cell(struct copy *c, const struct diff_cell *cell)
{
	int err = begin_cell(c, cell), split;

	c->m->compared++;
	if (err || cell->kind == DIFF_SAME)
		return err;
	split = writer_split(c->m);
	if (split < 0)
		return split;
	c->split = split || c->split;
	if (cell->kind != DIFF_ONLY_B)
		return writer_put_cell(c->m, cell->a);
	writer_delete(c->m, cell->b->family, cell->b->qualifier, cell->b->ts);
	return 0;
}

static int copy_cells(struct copy *c)
{
	const struct diff_options o = {.a = c->m->from.table,
		.b = c->m->to.table,
		.only_families_of_a = true,
		.after_family = c->m->s.copied_family,
		.after_row = buf_bytes(&c->m->s.copied_row),
		.stop = stopped};
	struct diff_cell cell;
	int r = diff_new(&o, &c->d), err = 0;

	while (!err && !r && (r = diff_next(c->d, &cell)) > 0) {
		err = copy_cell(c, &cell);
		r = 0;
	}
	if (!err && !r && c->any)
		err = end_column(c);
	if (!err && (!r || r == -EINTR))
		err = end_row(c, true);
	if (c->d)
		diff_free(c->d);
	if (!err && r == -EINTR)
		return r;
	/* A family that was dropped meanwhile is no family of the next try. */
	if (!err && r == -EINVAL && families_generation(c->m) != c->m->generation)
		return -EAGAIN;
	return err ? err : r ? mirror_failed(&c->m->from, r, "the copy") : 0;
}

int mirror_copy(struct mirror *m)
{
	struct copy c = {.m = m};
	struct tfs_usage usage;
	int err = -EAGAIN;

	if (!m->s.copied_row.n && place_usage(&m->from, &usage) == 0)
		progress_total(usage.cells, true);
	while (err == -EAGAIN) {
		err = families_follow(m);
		if (!err)
			err = copy_cells(&c);
		buf_fini(&c.row);
		buf_fini(&c.qualifier);
		c = (struct copy){.m = m};
	}
	if (err)
		return err;
	m->s.copying = false;
	*m->s.copied_family = 0;
	buf_reset(&m->s.copied_row);
	progress_total(0, false);
	return state_save(m);
}
