/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that count against a limit. */
#include "engine/script/budget.h"
#include "engine/base/outcome.h"

#include <stdlib.h>

static bool exceeds(const struct budget *b, size_t before, size_t n)
{
	return n > before && (b->used > b->limit || n - before > b->limit - b->used);
}

int budget_resize(struct budget *b, void **p, size_t before, size_t n)
{
	void *q;

	if (exceeds(b, before, n) && b->make_room)
		b->make_room();
	if (exceeds(b, before, n))
		return -SCRIPT_LIMIT;
	if (b->worked && n)
		b->worked(n);
	if (n == 0) {
		free(*p);
		q = NULL;
	} else {
		q = realloc(*p, n);
		if (!q)
			return -ENOMEM;
	}
	b->used = b->used - before + n;
	*p = q;
	return 0;
}

void budget_free(struct budget *b, void *p, size_t n)
{
	free(p);
	if (p)
		b->used -= n;
}

void *budget_alloc(struct budget *b, size_t n, int *err)
{
	void *p = NULL;

	*err = budget_resize(b, &p, 0, n);
	if (!*err)
		memset(p, 0, n);
	return p;
}

int budget_reserve(struct budget *b, struct budget_bytes *s, size_t n)
{
	size_t cap = s->cap ? s->cap : 256;
	void *p = s->p;
	int err;

	if (n > SIZE_MAX / 4 - s->n)
		return -ENOMEM;
	while (cap < s->n + n)
		cap += cap / 2;
	if (cap == s->cap)
		return 0;
	err = budget_resize(b, &p, s->cap, cap);
	if (!err) {
		s->p = p;
		s->cap = cap;
	}
	return err;
}

int budget_append(struct budget *b, struct budget_bytes *s, const void *p, size_t n)
{
	int err = budget_reserve(b, s, n);

	if (!err && n) {
		memcpy(s->p + s->n, p, n);
		s->n += n;
	}
	return err;
}

void budget_bytes_free(struct budget *b, struct budget_bytes *s)
{
	budget_free(b, s->p, s->cap);
	*s = (struct budget_bytes){0};
}
