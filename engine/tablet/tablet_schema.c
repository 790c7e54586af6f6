/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference-counted schema of a tablet, and the entries of its file list.
 */
#include "engine/tablet/tablet_impl.h"

#include <stdio.h>
#include <stdlib.h>

struct store_schema *store_schema_get(struct store_schema *s)
{
	__atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

void store_schema_put(struct store_schema *s)
{
	if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (unsigned i = 0; i < s->family_count; i++) {
		gc_free(s->families[i].rule);
		free(s->families[i].name);
	}
	for (unsigned i = 0; i < s->split_count; i++)
		buf_fini(&s->splits[i]);
	free(s->splits);
	free(s->families);
	free(s->groups);
	free(s);
}

const struct store_family *store_schema_family(const struct store_schema *s, uint16_t id)
{
	unsigned lo = 0, hi = s->family_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (s->families[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->family_count && s->families[lo].id == id ? &s->families[lo] : NULL;
}

const struct gc_rule *store_schema_rule(const void *schema, uint16_t family, bool *known)
{
	const struct store_family *f = store_schema_family(schema, family);

	*known = f != NULL;
	return f ? f->rule : NULL;
}

const struct store_group *store_schema_group(const struct store_schema *s, uint16_t id)
{
	for (unsigned i = 0; i < s->group_count; i++)
		if (s->groups[i].id == id)
			return &s->groups[i];
	return &s->groups[0];
}

void tablet_file_fini(struct tablet_file *f)
{
	buf_fini(&f->begin);
	buf_fini(&f->end);
	buf_fini(&f->first);
	buf_fini(&f->last);
}

int tablet_end_copy(struct buf *to, struct tfs_bytes end)
{
	int err = end.p ? buf_reserve(to, end.n + 1) : 0;

	return err ? err : buf_set(to, end.p, end.n);
}

int tablet_file_copy(struct tablet_file *to, const struct tablet_file *from)
{
	struct tablet_file f = *from;
	int err;

	f.begin = f.end = f.first = f.last = (struct buf){0};
	if ((err = buf_append(&f.begin, from->begin.p, from->begin.n)) || (err = tablet_end_copy(&f.end, buf_bytes(&from->end))) ||
		(err = buf_append(&f.first, from->first.p, from->first.n)) ||
		(err = buf_append(&f.last, from->last.p, from->last.n))) {
		tablet_file_fini(&f);
		return err;
	}
	*to = f;
	return 0;
}

char *tablet_file_path(const char *data_dir, uint32_t table, uint64_t incarnation, uint64_t number)
{
	char *path;

	if (asprintf(&path, "%s/sst/%u/%llu-%llu.sst", data_dir, table, (unsigned long long)incarnation,
		    (unsigned long long)number) < 0)
		return NULL;
	return path;
}
