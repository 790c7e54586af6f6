/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of allocated bytes with a limit. */
#ifndef TFS_SCRIPT_BUDGET_H
#define TFS_SCRIPT_BUDGET_H

#include "engine/base/bytes.h"

struct budget {
	uint64_t used, limit;
	void (*make_room)(void);      /* called at the limit, before -SCRIPT_LIMIT; NULL: nothing can be freed */
	void (*worked)(size_t bytes); /* called for each allocation; NULL: nothing */
};

/* Resizes *p from `before` to n bytes; n 0 frees it and sets NULL.  -SCRIPT_LIMIT, -ENOMEM: nothing has changed. */
int budget_resize(struct budget *b, void **p, size_t before, size_t n) TFS_MUST;
/* Frees p, which has n bytes. */
void budget_free(struct budget *b, void *p, size_t n);
/* Returns n zeroed bytes, or NULL and sets *err. */
void *budget_alloc(struct budget *b, size_t n, int *err) TFS_MUST;

/* A growing byte string of a budget. */
struct budget_bytes {
	uint8_t *p;
	size_t n, cap;
};
/* Makes space for n more bytes. */
int budget_reserve(struct budget *b, struct budget_bytes *s, size_t n) TFS_MUST;
int budget_append(struct budget *b, struct budget_bytes *s, const void *p, size_t n) TFS_MUST;
void budget_bytes_free(struct budget *b, struct budget_bytes *s);

#endif
