/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of METADATA rows that list each SSTable.  After a split two
 * tablets list the same file (paper, section 5.2), and either may compact its
 * part away first.  The file is removed when the last row stops listing it.
 *
 * The rows are counted as METADATA has them, not as tablets use them.  So a
 * file is never removed while METADATA names it, even if none of its cells is
 * in the tablet's range.  Unloading a tablet changes no count; an edit, the
 * end of a split or merge, and a drop do.  A file that could not be counted,
 * because memory was short, is removed by the sweep of the next start.
 */
#include "engine/server/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#define HASH_NONFATAL_OOM 1 /* uthash's default is to end the process */
#include <uthash.h>

struct file_ref_key {
	uint64_t incarnation, number;
	uint32_t table, zero;
};

struct file_ref {
	UT_hash_handle hh;
	struct file_ref_key key;
	unsigned rows;
};

static struct file_ref_key key_of(const struct tablet_file *f)
{
	return (struct file_ref_key){.incarnation = f->incarnation, .number = f->number, .table = f->table};
}

static struct file_ref *find_locked(struct server *s, const struct tablet_file *f)
{
	struct file_ref_key key = key_of(f);
	struct file_ref *l;

	HASH_FIND(hh, s->file_refs, &key, sizeof(key), l);
	return l;
}

static void add_locked(struct server *s, const struct tablet_file *f)
{
	struct file_ref *l = find_locked(s, f);

	if (!l) {
		l = calloc(1, sizeof(*l));
		if (l) {
			l->key = key_of(f);
			HASH_ADD(hh, s->file_refs, key, sizeof(l->key), l);
		}
		if (!l || !l->hh.tbl) {
			free(l);
			s->file_refs_lost = true;
			return;
		}
	}
	l->rows++;
}

void file_refs_add(struct server *s, const struct meta_tablet *m)
{
	mutex_lock(&s->lock);
	for (unsigned i = 0; i < m->file_count; i++)
		add_locked(s, &m->files[i]);
	mutex_unlock(&s->lock);
}

void file_refs_remove(struct server *s, const struct meta_tablet *m)
{
	mutex_lock(&s->lock);
	for (unsigned i = 0; i < m->file_count; i++) {
		struct file_ref *l = find_locked(s, &m->files[i]);

		if (!l || --l->rows)
			continue;
		HASH_DEL(s->file_refs, l);
		free(l);
	}
	mutex_unlock(&s->lock);
}

unsigned file_refs_count(struct server *s, const struct tablet_file *f)
{
	const struct file_ref *l;
	unsigned rows;

	mutex_lock(&s->lock);
	l = find_locked(s, f);
	rows = s->file_refs_lost ? UINT_MAX : l ? l->rows : 0;
	mutex_unlock(&s->lock);
	return rows;
}

int file_refs_each(struct server *s, file_ref_fn *fn, void *arg)
{
	struct tablet_file f = {0};
	int err = 0;

	mutex_lock(&s->lock);
	for (struct file_ref *l = s->file_refs; l && !err; l = l->hh.next) {
		f.table = l->key.table;
		f.incarnation = l->key.incarnation;
		f.number = l->key.number;
		err = fn(arg, &f);
	}
	mutex_unlock(&s->lock);
	return err;
}

void file_refs_free(struct server *s)
{
	struct file_ref *l, *tmp;

	HASH_ITER(hh, s->file_refs, l, tmp)
	{
		HASH_DEL(s->file_refs, l);
		free(l);
	}
}
