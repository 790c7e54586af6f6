/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded list of changes (notices.h). */
#include "engine/rpc/notices.h"

void notices_fini(struct notices *l)
{
	arena_fini(&l->keys);
	l->n = (struct notice){0};
	l->bytes = 0;
}

void notices_reset(struct notices *l)
{
	arena_reset(&l->keys);
	l->n = (struct notice){.rows = l->rows};
	l->bytes = 0;
}

static bool covers(const struct notice_row *a, const struct notice_row *b)
{
	return a->table == b->table && (!a->row.n || (bytes_eq(a->row, b->row) && (!a->family || a->family == b->family)));
}

static bool has(const struct notices *l, const struct notice_row *row)
{
	for (uint32_t i = 0; i < l->n.row_count; i++)
		if (covers(&l->rows[i], row))
			return true;
	return false;
}

static void add_anything(struct notices *l)
{
	const bool schemas = l->n.schemas;

	notices_reset(l);
	l->n.all = true;
	l->n.schemas = schemas;
}

/* Replaces the rows by their tables. */
static void shorten(struct notices *l)
{
	const uint32_t count = l->n.row_count;

	l->n.row_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct notice_row table = {.table = l->rows[i].table};

		if (!has(l, &table))
			l->rows[l->n.row_count++] = table;
	}
	arena_reset(&l->keys);
	l->bytes = 0;
}

void notices_add(struct notices *l, const struct notice_row *row)
{
	struct notice_row own = *row;

	if (l->n.all || has(l, row))
		return;
	if (l->n.row_count == NOTICE_ROWS || l->bytes + row->row.n > NOTICE_BYTES || !arena_dup(&l->keys, row->row, &own.row)) {
		shorten(l);
		own = (struct notice_row){.table = row->table};
		if (has(l, &own))
			return;
	}
	if (l->n.row_count == NOTICE_ROWS) {
		add_anything(l);
		return;
	}
	l->n.rows = l->rows;
	l->rows[l->n.row_count++] = own;
	l->bytes += own.row.n;
}

void notices_add_notice(struct notices *l, const struct notice *n)
{
	if (n->all)
		add_anything(l);
	l->n.schemas |= n->schemas;
	for (uint32_t i = 0; i < n->row_count; i++)
		notices_add(l, &n->rows[i]);
}
