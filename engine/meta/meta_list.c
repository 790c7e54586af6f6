/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a struct meta_tablet: files, redo points and tokens, each in the order of its columns in METADATA. */
#include "engine/meta/meta_format.h"

#include <errno.h>
#include <stdlib.h>

void meta_tablet_fini(struct meta_tablet *m)
{
	for (unsigned i = 0; i < m->file_count; i++)
		tablet_file_fini(&m->files[i]);
	free(m->files);
	free(m->redo);
	tablet_tokens_free(m->tokens, m->token_count);
	buf_fini(&m->begin);
	buf_fini(&m->end);
	if (m->merge) {
		meta_tablet_fini(m->merge);
		free(m->merge);
	}
	*m = (struct meta_tablet){0};
}

int meta_file_order(const struct tablet_file *a, const struct tablet_file *b)
{
	if (a->table != b->table)
		return a->table < b->table ? -1 : 1;
	if (a->incarnation != b->incarnation)
		return a->incarnation < b->incarnation ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return (a->group > b->group) - (a->group < b->group);
}

/* Makes space for an element at `at`.  The lists grow by one element, because they are short and change rarely. */
static int open_gap(void *array, unsigned count, unsigned at, size_t size)
{
	uint8_t *p, *more;

	memcpy(&p, array, sizeof p);
	more = realloc(p, (count + 1) * size);
	if (!more)
		return -ENOMEM;
	memmove(more + (at + 1) * size, more + at * size, (count - at) * size);
	memcpy(array, &more, sizeof more);
	return 0;
}

int meta_files_add(struct meta_tablet *m, struct tablet_file *f, bool replace)
{
	unsigned i = m->file_count;

	while (i && meta_file_order(&m->files[i - 1], f) > 0)
		i--;
	if (i && meta_file_order(&m->files[i - 1], f) == 0) {
		tablet_file_fini(replace ? &m->files[i - 1] : f);
		if (replace)
			m->files[i - 1] = *f;
		return 0;
	}
	if (open_gap(&m->files, m->file_count, i, sizeof *f)) {
		tablet_file_fini(f);
		return -ENOMEM;
	}
	m->files[i] = *f;
	m->file_count++;
	return 0;
}

int meta_redo_add(struct meta_tablet *m, struct redo_point p, bool replace)
{
	unsigned i = m->redo_count;

	while (i && m->redo[i - 1].incarnation > p.incarnation)
		i--;
	if (i && m->redo[i - 1].incarnation == p.incarnation) {
		if (replace)
			m->redo[i - 1] = p;
		return 0;
	}
	if (open_gap(&m->redo, m->redo_count, i, sizeof p))
		return -ENOMEM;
	m->redo[i] = p;
	m->redo_count++;
	return 0;
}

int meta_token_add(struct meta_tablet *m, uint64_t client, uint64_t number, struct tfs_bytes result)
{
	struct tablet_token t = {.client = client, .number = number};
	unsigned i = m->token_count;

	while (i && (m->tokens[i - 1].client > client || (m->tokens[i - 1].client == client && m->tokens[i - 1].number > number)))
		i--;
	if (i && m->tokens[i - 1].client == client && m->tokens[i - 1].number == number)
		return 0;
	if (buf_append_bytes(&t.result, result) || open_gap(&m->tokens, m->token_count, i, sizeof t)) {
		buf_fini(&t.result);
		return -ENOMEM;
	}
	m->tokens[i] = t;
	m->token_count++;
	return 0;
}

struct tablet_file *meta_find_file(const struct meta_tablet *m, const struct tablet_file *f)
{
	/* Incarnation, number and group are unique in a store. */
	for (unsigned i = 0; i < m->file_count; i++) {
		struct tablet_file *g = &m->files[i];

		if (g->incarnation == f->incarnation && g->number == f->number && g->group == f->group)
			return g;
	}
	return NULL;
}

void meta_file_drop(struct meta_tablet *m, struct tablet_file *f)
{
	size_t after = (size_t)(&m->files[m->file_count] - f) - 1;

	tablet_file_fini(f);
	memmove(f, f + 1, after * sizeof *f);
	m->file_count--;
}
