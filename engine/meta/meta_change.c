/* SPDX-License-Identifier: Apache-2.0 */
/* The row of METADATA that follows from an edit, a split or a merge.  meta_ops.c has the operations that write it. */
#include "engine/meta/meta_format.h"

#include <errno.h>
#include <stdlib.h>

int meta_tablet_copy(const struct meta_tablet *from, struct meta_tablet *to)
{
	struct buf b = {0};
	int err = meta_root_encode(from, &b);

	if (!err)
		err = meta_root_decode(buf_bytes(&b), to);
	buf_fini(&b);
	return err;
}

static int add_copy(struct meta_tablet *m, const struct tablet_file *f)
{
	struct tablet_file copy = {0};
	int err = tablet_file_copy(&copy, f);

	if (err)
		return err;
	meta_file_normalise(&copy);
	return meta_files_add(m, &copy, true);
}

/* Changes a copy, so that an error changes nothing. */
int meta_tablet_apply(struct meta_tablet *m, const struct tablet_edit *e)
{
	struct meta_tablet next = {0};
	struct tablet_file *f;
	int err = meta_tablet_copy(m, &next);

	for (unsigned i = 0; i < e->removed_count && !err; i++)
		if ((f = meta_find_file(&next, &e->removed[i])))
			meta_file_drop(&next, f);
	for (unsigned i = 0; i < e->added_count && !err; i++)
		err = add_copy(&next, &e->added[i]);
	if (e->set_redo)
		next.redo_count = 0;
	for (unsigned i = 0; e->set_redo && i < e->redo_count && !err; i++)
		err = meta_redo_add(&next, e->redo[i], true);
	if (e->set_tokens) {
		tablet_tokens_free(next.tokens, next.token_count);
		next.tokens = NULL;
		next.token_count = 0;
	}
	for (unsigned i = 0; e->set_tokens && i < e->token_count && !err; i++)
		err = meta_token_add(&next, e->tokens[i].client, e->tokens[i].number, buf_bytes(&e->tokens[i].result));
	if (err) {
		meta_tablet_fini(&next);
		return err;
	}
	next.seq_mark = e->seq_mark ? e->seq_mark : m->seq_mark;
	next.clock_mark = m->clock_mark;
	next.major_us = e->major_us ? e->major_us : m->major_us;
	next.changes_low_us = e->set_changes ? e->changes_low_us : m->changes_low_us;
	next.merge = m->merge;
	next.unfolded = m->unfolded;
	next.stale_merge = m->stale_merge;
	m->merge = NULL;
	meta_tablet_fini(m);
	*m = next;
	return 0;
}

/* Restricts f to [begin, end); end.p NULL: no bound.  *empty is set if f has no row there. */
static int clip_file(struct tablet_file *f, struct tfs_bytes begin, struct tfs_bytes end, bool *empty)
{
	int err = 0;

	if (bytes_cmp(buf_bytes(&f->begin), begin) < 0)
		err = buf_set(&f->begin, begin.p, begin.n);
	if (!err && end.p && (!f->end.p || bytes_cmp(buf_bytes(&f->end), end) > 0))
		err = tablet_end_copy(&f->end, end);
	*empty = bytes_cmp(buf_bytes(&f->last), buf_bytes(&f->begin)) < 0 ||
		(f->end.p &&
			(bytes_cmp(buf_bytes(&f->first), buf_bytes(&f->end)) >= 0 ||
				bytes_cmp(buf_bytes(&f->begin), buf_bytes(&f->end)) >= 0));
	return err;
}

static int clip_files(struct meta_tablet *m, struct tfs_bytes begin, struct tfs_bytes end)
{
	for (unsigned i = 0; i < m->file_count;) {
		bool empty;
		int err = clip_file(&m->files[i], begin, end, &empty);

		if (err)
			return err;
		if (empty)
			meta_file_drop(m, &m->files[i]);
		else
			i++;
	}
	return 0;
}

void meta_drop_changes(struct meta_tablet *m)
{
	m->changes_low_us = 0;
	for (unsigned i = 0; i < m->file_count;)
		if (m->files[i].group == TABLET_GROUP_CHANGES)
			meta_file_drop(m, &m->files[i]);
		else
			i++;
}

int meta_tablet_lower(const struct meta_tablet *m, struct tfs_bytes at, struct meta_tablet *lower)
{
	struct meta_tablet l = {0};
	int err = meta_tablet_copy(m, &l);

	l.last = false;
	if (!err)
		err = tablet_end_copy(&l.end, at);
	if (!err)
		err = clip_files(&l, tfs_bytes_of("", 0), at);
	if (err) {
		meta_tablet_fini(&l);
		return err;
	}
	*lower = l;
	return 0;
}

static int fold_file(struct meta_tablet *both, const struct tablet_file *f)
{
	struct tablet_file *g = meta_find_file(both, f);

	if (!g)
		return add_copy(both, f);
	/* A change that is in two files is read once, because the two have one key. */
	if (f->group != TABLET_GROUP_CHANGES && (!f->end.p || !bytes_eq(buf_bytes(&f->end), buf_bytes(&g->begin))))
		return -EBUSY;
	return buf_set(&g->begin, f->begin.p, f->begin.n);
}

int meta_tablet_fold(const struct meta_tablet *lower, const struct meta_tablet *upper, struct meta_tablet *both)
{
	const struct tfs_bytes middle = buf_bytes(&lower->end),
			       end = upper->last ? (struct tfs_bytes){NULL, 0} : buf_bytes(&upper->end);
	struct meta_tablet l = {0}, m = {0};
	int err = meta_tablet_copy(lower, &l);

	if (!err)
		err = meta_tablet_copy(upper, &m);
	if (!err)
		err = clip_files(&l, buf_bytes(&lower->begin), middle);
	if (!err)
		err = clip_files(&m, middle, end);
	for (unsigned i = 0; i < l.file_count && !err; i++)
		err = fold_file(&m, &l.files[i]);
	for (unsigned i = 0; i < l.redo_count && !err; i++) {
		for (unsigned k = 0; k < m.redo_count; k++)
			if (m.redo[k].incarnation == l.redo[i].incarnation && m.redo[k].lsn > l.redo[i].lsn)
				m.redo[k].lsn = l.redo[i].lsn;
		err = meta_redo_add(&m, l.redo[i], false);
	}
	for (unsigned i = 0; i < l.token_count && !err; i++)
		err = meta_token_add(&m, l.tokens[i].client, l.tokens[i].number, buf_bytes(&l.tokens[i].result));
	if (!err)
		err = buf_set(&m.begin, lower->begin.p, lower->begin.n);
	m.seq_mark = l.seq_mark > m.seq_mark ? l.seq_mark : m.seq_mark;
	m.clock_mark = l.clock_mark > m.clock_mark ? l.clock_mark : m.clock_mark;
	m.major_us = l.major_us < m.major_us ? l.major_us : m.major_us; /* the older of the two major compactions */
	/* Changes are complete where they are in both. */
	if (!l.changes_low_us || !m.changes_low_us)
		m.changes_low_us = 0;
	else if (l.changes_low_us > m.changes_low_us)
		m.changes_low_us = l.changes_low_us;
	m.unfolded = true;
	meta_tablet_fini(&l);
	if (err) {
		meta_tablet_fini(&m);
		return err;
	}
	*both = m;
	return 0;
}

int meta_tablet_resolve_merge(struct meta_tablet *m, struct tfs_bytes before)
{
	struct meta_tablet *lower = m->merge, both = {0};
	int err = 0;

	if (!lower)
		return 0;
	if (lower->table != m->table || bytes_cmp(buf_bytes(&lower->begin), buf_bytes(&lower->end)) >= 0)
		err = -EBADMSG;
	else if (bytes_eq(before, buf_bytes(&lower->begin)))
		err = meta_tablet_fold(lower, m, &both);
	else
		m->stale_merge = true; /* the lower row was not deleted */
	m->merge = NULL;
	meta_tablet_fini(lower);
	free(lower);
	if (!err && both.unfolded) {
		meta_tablet_fini(m);
		*m = both;
	}
	return err == -EBUSY ? -EBADMSG : err;
}
