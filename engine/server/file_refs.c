/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the METADATA rows that list each SSTable.  After a split two tablets
 * list the same file (paper, section 5.2).  Each replaces its part of the file
 * by a compaction, at a time of its own.  The file is removed when no row lists
 * it any more.
 *
 * A row counts if METADATA has it, even if no cell of the file is in the
 * tablet's range.  So no file is removed while METADATA names it.  Loading a
 * tablet, an edit, a split, a merge and a drop change the counts; unloading a
 * tablet does not.
 *
 * If a file cannot be counted because memory is short, all counts are unknown
 * until the next start.  Until then only mark and sweep (files.c) removes files.
 */
#include "engine/server/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#define HASH_NONFATAL_OOM 1 /* uthash's default is to end the process */
#include <uthash.h>

struct file_ref_key {
	uint64_t incarnation, number;
	uint32_t table, zero; /* zero: no padding, because the key is hashed as bytes */
};

struct file_ref {
	UT_hash_handle hh;
	struct file_ref_key key;
	unsigned rows;
	uint64_t bytes;
};

static struct file_ref_key key_of(const struct tablet_file *f)
{
	return (struct file_ref_key){.incarnation = f->incarnation, .number = f->number, .table = f->table};
}

static struct file_ref *find_locked(struct server *s, const struct tablet_file *f)
{
	struct file_ref_key key = key_of(f);
	struct file_ref *ref;

	HASH_FIND(hh, s->file_refs, &key, sizeof(key), ref);
	return ref;
}

static void add_locked(struct server *s, const struct tablet_file *f)
{
	struct file_ref *ref = find_locked(s, f);

	if (!ref) {
		ref = calloc(1, sizeof(*ref));
		if (ref) {
			ref->key = key_of(f);
			ref->bytes = f->bytes;
			HASH_ADD(hh, s->file_refs, key, sizeof(ref->key), ref);
		}
		if (!ref || !ref->hh.tbl) {
			free(ref);
			s->file_refs_lost = true;
			return;
		}
	}
	ref->rows++;
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
		struct file_ref *ref = find_locked(s, &m->files[i]);

		if (!ref || --ref->rows)
			continue;
		HASH_DEL(s->file_refs, ref);
		free(ref);
	}
	mutex_unlock(&s->lock);
}

uint64_t file_refs_bytes(struct server *s)
{
	uint64_t bytes = 0;

	mutex_lock(&s->lock);
	for (const struct file_ref *l = s->file_refs; l; l = l->hh.next)
		bytes += l->bytes;
	mutex_unlock(&s->lock);
	return bytes;
}

unsigned file_refs_count(struct server *s, const struct tablet_file *f)
{
	const struct file_ref *ref;
	unsigned rows;

	mutex_lock(&s->lock);
	ref = find_locked(s, f);
	rows = s->file_refs_lost ? UINT_MAX : ref ? ref->rows : 0;
	mutex_unlock(&s->lock);
	return rows;
}

int file_refs_each(struct server *s, file_ref_fn *fn, void *arg)
{
	struct tablet_file f = {0};
	int err = 0;

	mutex_lock(&s->lock);
	for (struct file_ref *ref = s->file_refs; ref && !err; ref = ref->hh.next) {
		f.table = ref->key.table;
		f.incarnation = ref->key.incarnation;
		f.number = ref->key.number;
		err = fn(arg, &f);
	}
	mutex_unlock(&s->lock);
	return err;
}

void file_refs_free(struct server *s)
{
	struct file_ref *ref, *tmp;

	HASH_ITER(hh, s->file_refs, ref, tmp)
	{
		HASH_DEL(s->file_refs, ref);
		free(ref);
	}
}
