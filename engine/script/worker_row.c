/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of a script.  Its cells are an array in the order of the scan, so the cells of a
 * column follow each other.  A look-up begins at the cell that the last one found.
 */
#include "engine/script/worker_row.h"
#include "engine/script/worker_re.h"

#include <lauxlib.h>

#define ROW_TYPE "row"

/* ---- reading ---- */

/* A block of memory of the row's cells; the blocks are a list. */
struct block {
	struct block *next;
	size_t n;
	uint8_t bytes[];
};

static uint8_t *new_block(struct worker *w, uint64_t n)
{
	struct block *b;
	int err;

	if (n > w->limits.memory)
		worker_check(-ENOMEM);
	b = budget_alloc(&w->budget, sizeof(*b) + n, &err);
	worker_check(err);
	b->n = n;
	b->next = w->blocks;
	w->blocks = b;
	return b->bytes;
}

static struct row_cell *new_cell(struct worker *w)
{
	worker_check(budget_reserve(&w->budget, &w->cells, sizeof(struct row_cell)));
	w->cells.n += sizeof(struct row_cell);
	return (struct row_cell *)(void *)w->cells.p + w->cell_count++;
}

static void set_cell(struct worker *w, uint8_t *bytes, const struct channel_cell *head)
{
	*new_cell(w) = (struct row_cell){.ts = head->ts,
		.family = tfs_bytes_of(bytes, head->family),
		.qualifier = tfs_bytes_of(bytes + head->family, head->qualifier),
		.value = tfs_bytes_of(bytes + head->family + head->qualifier, head->value)};
}

void row_read_key(struct worker *w)
{
	uint64_t n;

	worker_check(ring_read(&w->in, &n, sizeof(n)));
	w->key.n = 0;
	worker_check(n > w->limits.memory ? -ENOMEM : budget_reserve(&w->budget, &w->key, n + 1));
	worker_check(ring_read(&w->in, w->key.p, n));
	w->key.n = n;
	memcpy(w->shared->row, w->key.p, n < CHANNEL_ROW ? n : CHANNEL_ROW);
	w->shared->row_bytes = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void row_read_cell(struct worker *w)
{
	struct channel_cell head;
	uint64_t n;
	uint8_t *bytes;

	worker_check(ring_read(&w->in, &head, sizeof(head)));
	if (head.family > w->limits.memory || head.qualifier > w->limits.memory || head.value > w->limits.memory)
		worker_check(-ENOMEM);
	n = head.family + head.qualifier + head.value;
	bytes = new_block(w, n);
	worker_check(ring_read(&w->in, bytes, n));
	set_cell(w, bytes, &head);
}

void row_add(struct worker *w, const struct script_cell *c)
{
	const struct channel_cell head = {.ts = c->ts, .family = c->family.n, .qualifier = c->qualifier.n, .value = c->value.n};
	uint8_t *bytes = new_block(w, c->family.n + c->qualifier.n + c->value.n);

	if (c->family.n)
		memcpy(bytes, c->family.p, c->family.n);
	if (c->qualifier.n)
		memcpy(bytes + c->family.n, c->qualifier.p, c->qualifier.n);
	if (c->value.n)
		memcpy(bytes + c->family.n + c->qualifier.n, c->value.p, c->value.n);
	set_cell(w, bytes, &head);
}

void row_clear(struct worker *w)
{
	struct block *next;

	for (struct block *b = w->blocks; b; b = next) {
		next = b->next;
		budget_free(&w->budget, b, sizeof(*b) + b->n);
	}
	w->blocks = NULL;
	w->cells.n = 0;
	w->cell_count = w->found = 0;
	w->adds = 0;
}

/* ---- the object ---- */

static struct row_cell *cell_at(const struct worker *w, size_t i)
{
	return (struct row_cell *)(void *)w->cells.p + i;
}

static void check_object(lua_State *l)
{
	if (!row_is_object(l, 1))
		luaL_error(l, "the row is needed: r:get(...), r:cells(...)");
}

void row_column(lua_State *l, int arg, struct tfs_bytes *family, struct tfs_bytes *qualifier)
{
	size_t n;
	const char *s = luaL_checklstring(l, arg, &n), *colon = memchr(s, ':', n);

	if (!colon)
		luaL_argerror(l, arg, "a column is \"family:qualifier\"");
	*family = tfs_bytes_of(s, (size_t)(colon - s));
	*qualifier = tfs_bytes_of(colon + 1, n - (size_t)(colon - s) - 1);
}

/* r:get("family:qualifier"): the newest value, or nil. */
static int row_get(lua_State *l)
{
	struct worker *w = worker_get();
	struct tfs_bytes family, qualifier;
	size_t i = w->found;

	check_object(l);
	row_column(l, 2, &family, &qualifier);
	for (size_t tried = 0; tried < w->cell_count; tried++, i++) {
		const struct row_cell *c;

		if (i == w->cell_count)
			i = 0;
		if (tried % 64 == 63)
			worker_charge(16);
		c = cell_at(w, i);
		if (!bytes_eq(c->qualifier, qualifier) || !bytes_eq(c->family, family))
			continue;
		/* The newest cell is the first of the column. */
		while (i && bytes_eq(cell_at(w, i - 1)->qualifier, qualifier) && bytes_eq(cell_at(w, i - 1)->family, family))
			i--;
		w->found = i;
		lua_pushlstring(l, (const char *)cell_at(w, i)->value.p, cell_at(w, i)->value.n);
		return 1;
	}
	lua_pushnil(l);
	return 1;
}

static void push_cell(lua_State *l, const struct row_cell *c)
{
	lua_createtable(l, 0, 4);
	lua_pushlstring(l, (const char *)c->family.p, c->family.n);
	lua_setfield(l, -2, "family");
	lua_pushlstring(l, (const char *)c->qualifier.p, c->qualifier.n);
	lua_setfield(l, -2, "qualifier");
	lua_pushinteger(l, c->ts);
	lua_setfield(l, -2, "timestamp");
	lua_pushlstring(l, (const char *)c->value.p, c->value.n);
	lua_setfield(l, -2, "value");
}

/* r:cells([COLUMN [, PATTERN]]): all cells, the cells of a family ("family:"), or of a column.  The pattern must match the whole qualifier. */
static int row_cells(lua_State *l)
{
	struct worker *w = worker_get();
	struct tfs_bytes family = {0}, qualifier = {0};
	const bool all = lua_isnoneornil(l, 2), filters = !lua_isnoneornil(l, 3);
	lua_Integer count = 0;

	check_object(l);
	if (!all)
		row_column(l, 2, &family, &qualifier);
	lua_settop(l, 3);
	lua_newtable(l);
	for (size_t i = 0; i < w->cell_count; i++) {
		const struct row_cell *c = cell_at(w, i);

		worker_charge(1);
		if ((!all && !bytes_eq(c->family, family)) || (qualifier.n && !bytes_eq(c->qualifier, qualifier)) ||
			(filters && !re_matches_whole(l, 3, c->qualifier)))
			continue;
		push_cell(l, c);
		lua_rawseti(l, -2, ++count);
	}
	return 1;
}

/* r.key, r.get, r.cells */
static int row_index(lua_State *l)
{
	const struct worker *w = worker_get();
	const char *name = luaL_checkstring(l, 2);

	if (strcmp(name, "key") == 0)
		lua_pushlstring(l, (const char *)w->key.p, w->key.n);
	else if (w->rows_only && (strcmp(name, "get") == 0 || strcmp(name, "cells") == 0))
		return luaL_error(l, "the rows have no cells here, because the text of the script does not have the word %s", name);
	else if (strcmp(name, "get") == 0)
		lua_pushvalue(l, lua_upvalueindex(1));
	else if (strcmp(name, "cells") == 0)
		lua_pushvalue(l, lua_upvalueindex(2));
	else
		return luaL_error(l, "a row has key, get and cells, but no %s", name);
	return 1;
}

bool row_is_object(lua_State *l, int arg)
{
	return luaL_testudata(l, arg, ROW_TYPE);
}

void row_push_object(lua_State *l)
{
	lua_newuserdatauv(l, 0, 0);
	if (luaL_newmetatable(l, ROW_TYPE)) {
		lua_pushcfunction(l, row_get);
		lua_pushcfunction(l, row_cells);
		lua_pushcclosure(l, row_index, 2);
		lua_setfield(l, -2, "__index");
	}
	lua_setmetatable(l, -2);
}
