/* SPDX-License-Identifier: Apache-2.0 */
/* The row of METADATA that follows from an edit, a split or a merge.  meta_ops.c has the operations that write it. */
#include "engine/meta/meta_format.h"

#include <errno.h>
#include <stdlib.h>

/* What may fail is made first, so that nothing is changed on -ENOMEM. */
int meta_tablet_apply(struct meta_tablet *m, const struct tablet_edit *e)
{
	struct meta_tablet fresh = {0};
	struct tablet_file *f, *room;
	int rc = 0;

	for (unsigned i = 0; i < e->added_count && !rc; i++) {
		struct tablet_file copy = {0};

		rc = tablet_file_copy(&copy, &e->added[i]);
		if (rc)
			break;
		meta_file_normalise(&copy);
		rc = meta_files_add(&fresh, &copy, true);
		if (rc)
			tablet_file_fini(&copy);
	}
	for (unsigned i = 0; e->set_redo && i < e->redo_count && !rc; i++)
		rc = meta_redo_add(&fresh, e->redo[i], true);
	if (!rc && fresh.file_count) {
		room = realloc(m->files, (m->file_count + fresh.file_count) * sizeof *room);
		if (room)
			m->files = room;
		else
			rc = -ENOMEM;
	}
	if (rc) {
		meta_tablet_fini(&fresh);
		return rc;
	}
	for (unsigned i = 0; i < e->removed_count; i++)
		if ((f = meta_find_file(m, &e->removed[i])))
			meta_file_drop(m, f);
	/* two sorted lists, merged from their ends into the room made above; equal ones: the new */
	for (unsigned i = 0; i < fresh.file_count; i++)
		for (unsigned j = 0; j < m->file_count; j++)
			if (meta_file_order(&m->files[j], &fresh.files[i]) == 0)
				meta_file_drop(m, &m->files[j--]);
	for (unsigned to = m->file_count + fresh.file_count, a = m->file_count, b = fresh.file_count; b > 0;) {
		bool from_a = a > 0 && meta_file_order(&m->files[a - 1], &fresh.files[b - 1]) > 0;

		m->files[--to] = from_a ? m->files[--a] : fresh.files[--b];
	}
	m->file_count += fresh.file_count;
	fresh.file_count = 0;
	if (e->set_redo) {
		free(m->redo);
		m->redo = fresh.redo;
		m->redo_count = fresh.redo_count;
		fresh.redo = NULL;
	}
	m->seq_mark = e->seq_mark ? e->seq_mark : m->seq_mark;
	m->clock_mark = e->clock_mark ? e->clock_mark : m->clock_mark;
	m->major_us = e->major_us ? e->major_us : m->major_us;
	meta_tablet_fini(&fresh);
	return 0;
}

int meta_tablet_copy(const struct meta_tablet *from, struct meta_tablet *to)
{
	struct buf b = {0};
	int rc = meta_root_encode(from, &b);

	if (!rc)
		rc = meta_root_decode(buf_slice(&b), to);
	buf_fini(&b);
	return rc;
}

/* An end of no bytes is a row, too: only p NULL means none. */
static int set_end(struct buf *b, struct slice end)
{
	int rc = buf_reserve(b, end.n + 1);

	return rc ? rc : buf_set(b, end.p, end.n);
}

int meta_tablet_lower(const struct meta_tablet *m, struct slice at, struct meta_tablet *lower)
{
	struct meta_tablet l = {0};
	int rc = meta_tablet_copy(m, &l);

	l.last = false;
	if (!rc)
		rc = set_end(&l.end, at);
	for (unsigned i = 0; i < l.file_count && !rc;) {
		struct tablet_file *f = &l.files[i];

		if (slice_cmp(buf_slice(&f->begin), at) >= 0 || slice_cmp(buf_slice(&f->first), at) >= 0) {
			meta_file_drop(&l, f);
			continue;
		}
		if (!f->end.p || slice_cmp(buf_slice(&f->end), at) > 0)
			rc = set_end(&f->end, at);
		i++;
	}
	if (rc) {
		meta_tablet_fini(&l);
		return rc;
	}
	*lower = l;
	return 0;
}

/* f for no rows outside [begin, end) (end.p NULL: none). *empty: then it holds none. */
static int clip_file(struct tablet_file *f, struct slice begin, struct slice end, bool *empty)
{
	int rc = 0;

	if (slice_cmp(buf_slice(&f->begin), begin) < 0)
		rc = buf_set(&f->begin, begin.p, begin.n);
	if (!rc && end.p && (!f->end.p || slice_cmp(buf_slice(&f->end), end) > 0))
		rc = set_end(&f->end, end);
	*empty = slice_cmp(buf_slice(&f->last), buf_slice(&f->begin)) < 0 ||
		(f->end.p &&
			(slice_cmp(buf_slice(&f->first), buf_slice(&f->end)) >= 0 ||
				slice_cmp(buf_slice(&f->begin), buf_slice(&f->end)) >= 0));
	return rc;
}

static int clip_files(struct meta_tablet *m, struct slice begin, struct slice end)
{
	for (unsigned i = 0; i < m->file_count;) {
		bool empty;
		int rc = clip_file(&m->files[i], begin, end, &empty);

		if (rc)
			return rc;
		if (empty)
			meta_file_drop(m, &m->files[i]);
		else
			i++;
	}
	return 0;
}

static int fold_file(struct meta_tablet *both, const struct tablet_file *f)
{
	struct tablet_file copy = {0}, *g = NULL;
	int rc;

	for (unsigned i = 0; i < both->file_count && !g; i++)
		if (meta_file_order(&both->files[i], f) == 0)
			g = &both->files[i];
	if (g) {
		if (!f->end.p || !slice_eq(buf_slice(&f->end), buf_slice(&g->begin)))
			return -EBUSY;
		return buf_set(&g->begin, f->begin.p, f->begin.n);
	}
	rc = tablet_file_copy(&copy, f);
	if (!rc) {
		rc = meta_files_add(both, &copy, false);
		if (rc)
			tablet_file_fini(&copy);
	}
	return rc;
}

int meta_tablet_fold(const struct meta_tablet *lower, const struct meta_tablet *upper, struct meta_tablet *both)
{
	const struct slice middle = buf_slice(&lower->end), end = upper->last ? (struct slice){NULL, 0} : buf_slice(&upper->end);
	struct meta_tablet l = {0}, m = {0};
	int rc = meta_tablet_copy(lower, &l);

	if (!rc)
		rc = meta_tablet_copy(upper, &m);
	if (!rc)
		rc = clip_files(&l, buf_slice(&lower->begin), middle);
	if (!rc)
		rc = clip_files(&m, middle, end);
	for (unsigned i = 0; i < l.file_count && !rc; i++)
		rc = fold_file(&m, &l.files[i]);
	for (unsigned i = 0; i < l.redo_count && !rc; i++) {
		for (unsigned k = 0; k < m.redo_count; k++)
			if (m.redo[k].incarnation == l.redo[i].incarnation && m.redo[k].lsn > l.redo[i].lsn)
				m.redo[k].lsn = l.redo[i].lsn;
		rc = meta_redo_add(&m, l.redo[i], false);
	}
	for (unsigned i = 0; i < l.token_count && !rc; i++)
		rc = meta_token_add(&m, l.tokens[i].client, l.tokens[i].number, buf_slice(&l.tokens[i].result));
	if (!rc)
		rc = buf_set(&m.begin, lower->begin.p, lower->begin.n);
	m.seq_mark = l.seq_mark > m.seq_mark ? l.seq_mark : m.seq_mark;
	m.clock_mark = l.clock_mark > m.clock_mark ? l.clock_mark : m.clock_mark;
	m.major_us = l.major_us < m.major_us ? l.major_us : m.major_us; /* the promise of whichever waits longer */
	m.unfolded = true;
	meta_tablet_fini(&l);
	if (rc) {
		meta_tablet_fini(&m);
		return rc;
	}
	*both = m;
	return 0;
}

int meta_tablet_settle(struct meta_tablet *m, struct slice before)
{
	struct meta_tablet *lower = m->merge, both = {0};
	int rc = 0;

	if (!lower)
		return 0;
	if (lower->table != m->table || slice_cmp(buf_slice(&lower->begin), buf_slice(&lower->end)) >= 0)
		rc = -EBADMSG;
	else if (slice_eq(before, buf_slice(&lower->begin)))
		rc = meta_tablet_fold(lower, m, &both);
	else /* its row is there, or m was split since; m's begin has moved down by no merge, which would have written another */
		m->stale_merge = true;
	m->merge = NULL;
	meta_tablet_fini(lower);
	free(lower);
	if (!rc && both.unfolded) {
		meta_tablet_fini(m);
		*m = both;
	}
	return rc == -EBUSY ? -EBADMSG : rc;
}
