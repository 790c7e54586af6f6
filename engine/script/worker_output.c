/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a script as objects of Lua. */
#include "engine/script/worker_output.h"
#include "engine/base/outcome.h"
#include "engine/script/delta.h"
#include "engine/script/worker.h"
#include "engine/script/worker_re.h"
#include "engine/script/worker_row.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>

#define OUTPUT_TYPE "output"

/* ---- arguments ---- */

static struct script_number to_number(lua_State *l, int arg)
{
	struct script_number n = {0};
	int is_integer;

	if (lua_type(l, arg) == LUA_TSTRING) {
		if (!lua_stringtonumber(l, lua_tostring(l, arg)))
			luaL_argerror(l, arg, "a number is needed, not a text");
		lua_replace(l, arg);
	}
	luaL_checktype(l, arg, LUA_TNUMBER);
	n.i = lua_tointegerx(l, arg, &is_integer);
	if (lua_isinteger(l, arg))
		return n;
	n = (struct script_number){.is_float = true, .d = lua_tonumber(l, arg)};
	if (isnan(n.d))
		luaL_argerror(l, arg, "the number is not a number (NaN)");
	return n;
}

static struct script_number to_count(lua_State *l, int arg, lua_Integer least)
{
	const struct script_number n = {.i = luaL_optinteger(l, arg, 1)};

	luaL_argcheck(l, n.i >= least, arg, "a positive number is needed");
	return n;
}

static struct tfs_bytes to_bytes(lua_State *l, int arg)
{
	size_t n;
	const char *s = luaL_checklstring(l, arg, &n);

	return tfs_bytes_of(s, n);
}

/* ---- add ---- */

static void append_streamed(struct worker *w, struct buf *b, int err)
{
	if (!err)
		err = budget_append(&w->budget, &w->streamed, b->p, b->n);
	buf_fini(b);
	worker_check(err);
}

static int add_to(lua_State *l, struct worker *w, unsigned i)
{
	struct output *o = &w->outputs[i];
	struct buf b = {0};

	switch (o->kind) {
	case OUTPUT_COUNT:
		return output_add_number(o, &w->budget, to_count(l, 2, LUA_MININTEGER));
	case OUTPUT_SUM:
	case OUTPUT_MIN:
	case OUTPUT_MAX:
	case OUTPUT_MEAN:
	case OUTPUT_QUANTILES:
	case OUTPUT_HISTOGRAM:
		return output_add_number(o, &w->budget, to_number(l, 2));
	case OUTPUT_COUNT_BY:
		return output_add_key(o, &w->budget, to_bytes(l, 2), to_count(l, 3, LUA_MININTEGER));
	case OUTPUT_TOP:
		return output_add_key(o, &w->budget, to_bytes(l, 2), to_count(l, 3, 1));
	case OUTPUT_SUM_BY:
		return output_add_key(o, &w->budget, to_bytes(l, 2), to_number(l, 3));
	case OUTPUT_UNIQUE:
		return output_add_key(o, &w->budget, to_bytes(l, 2), (struct script_number){0});
	case OUTPUT_SAMPLE:
		return output_add_sample(
			o, &w->budget, hash64(tfs_bytes_of(w->key.p, w->key.n), w->adds++ * OUTPUTS_MAX + i), to_bytes(l, 2));
	case OUTPUT_LINES:
		append_streamed(w, &b, delta_line(&b, i, to_bytes(l, 2)));
		return 0;
	case OUTPUT_KINDS_END:
	default:
		return -EINVAL;
	}
}

/* The index of the output that is the first argument. */
static unsigned to_output(lua_State *l)
{
	const unsigned *i = luaL_checkudata(l, 1, OUTPUT_TYPE);

	if (!worker_get()->in_row)
		luaL_error(l, "outputs are added to in row(r) only");
	return *i;
}

static void check_added(lua_State *l, const struct output *o, int err)
{
	if (err == -ERANGE)
		luaL_error(l, "the sum of %s is too large", o->name);
	worker_check(err);
}

/* output:add(...) */
static int add(lua_State *l)
{
	struct worker *w = worker_get();
	const unsigned i = to_output(l);

	check_added(l, &w->outputs[i], add_to(l, w, i));
	return 0;
}

static void add_match(lua_State *l, void *output, struct tfs_bytes match)
{
	check_added(l, output, output_add_key(output, &worker_get()->budget, match, (struct script_number){.i = 1}));
}

/* output:add_matches(text, pattern): as add, for what re.gmatch returns, without a string of Lua for each match */
static int add_matches(lua_State *l)
{
	struct output *o = &worker_get()->outputs[to_output(l)];

	if (o->kind != OUTPUT_COUNT_BY && o->kind != OUTPUT_TOP && o->kind != OUTPUT_UNIQUE)
		return luaL_error(l, "output.%s has no add_matches", output_kind_names[o->kind]);
	re_each(l, 2, 3, add_match, o);
	return 0;
}

/* emit(row, "family:qualifier", timestamp, value): row is the object of the row, or a key */
static int emit(lua_State *l)
{
	struct worker *w = worker_get();
	struct script_cell c = {0};
	struct buf b = {0};

	if (!w->in_row)
		return luaL_error(l, "cells are emitted in row(r) only");
	c.row = row_is_object(l, 1) ? tfs_bytes_of(w->key.p, w->key.n) : to_bytes(l, 1);
	row_column(l, 2, &c.family, &c.qualifier);
	c.ts = luaL_checkinteger(l, 3);
	c.value = to_bytes(l, 4);
	append_streamed(w, &b, delta_cell(&b, &c));
	return 0;
}

/* ---- declarations ---- */

static void check_name(lua_State *l, struct tfs_bytes name)
{
	if (name.n == 0 || name.n > OUTPUT_NAME_MAX || memchr(name.p, 0, name.n))
		luaL_error(l, "the name of an output has from 1 to %d bytes", OUTPUT_NAME_MAX);
	for (size_t i = 0; i < name.n; i++) {
		if (control_length(name.p + i, name.n - i))
			luaL_error(l, "the name of an output has no control characters");
	}
}

static void set_params(lua_State *l, struct output *o)
{
	struct worker *w = worker_get();
	const int count = lua_gettop(l);
	int err;

	if (count > OUTPUT_PARAMS_MAX)
		luaL_error(l, "output.%s has too many numbers", output_kind_names[o->kind]);
	for (int arg = 1; arg <= count; arg++) {
		if (lua_type(l, arg) == LUA_TSTRING) {
			const struct tfs_bytes name = to_bytes(l, arg);

			check_name(l, name);
			memcpy(o->name, name.p, name.n);
			o->name[name.n] = '\0';
			continue;
		}
		if (!o->params) {
			o->params = budget_alloc(&w->budget, (size_t)count * sizeof(*o->params), &err);
			worker_check(err);
		}
		luaL_checktype(l, arg, LUA_TNUMBER);
		o->params[o->param_count++] = to_number(l, arg);
	}
	/* budget_free needs the size. */
	if (o->params && o->param_count < (unsigned)count) {
		void *p = o->params;

		worker_check(
			budget_resize(&w->budget, &p, (size_t)count * sizeof(*o->params), o->param_count * sizeof(*o->params)));
		o->params = p;
	}
}

/* output.KIND([NUMBERS,] [NAME]) */
static int declare(lua_State *l)
{
	struct worker *w = worker_get();
	struct output *o = &w->outputs[w->output_count];
	const char *why;
	unsigned *i;

	if (w->begun)
		return luaL_error(l, "outputs are declared outside of row(r)");
	if (w->output_count == OUTPUTS_MAX)
		return luaL_error(l, "a script has at most %d outputs", OUTPUTS_MAX);
	*o = (struct output){.kind = (enum output_kind)lua_tointeger(l, lua_upvalueindex(1))};
	w->output_count++;
	set_params(l, o);
	why = output_check(o->kind, o->params, o->param_count);
	if (why)
		return luaL_error(l, "output.%s: %s", output_kind_names[o->kind], why);
	i = lua_newuserdatauv(l, sizeof(*i), 0);
	*i = w->output_count - 1;
	luaL_setmetatable(l, OUTPUT_TYPE);
	return 1;
}

void output_push_library(lua_State *l)
{
	luaL_newmetatable(l, OUTPUT_TYPE);
	lua_newtable(l);
	lua_pushcfunction(l, add);
	lua_setfield(l, -2, "add");
	lua_pushcfunction(l, add_matches);
	lua_setfield(l, -2, "add_matches");
	lua_setfield(l, -2, "__index");
	lua_pop(l, 1);
	lua_newtable(l);
	for (int kind = 0; kind < OUTPUT_KINDS_END; kind++) {
		lua_pushinteger(l, kind);
		lua_pushcclosure(l, declare, 1);
		lua_setfield(l, -2, output_kind_names[kind]);
	}
}

void output_push_emit(lua_State *l)
{
	lua_pushcfunction(l, emit);
}

void output_set_name(lua_State *l, const char *name)
{
	struct worker *w = worker_get();
	const unsigned *i = luaL_testudata(l, -1, OUTPUT_TYPE);

	if (i && !w->outputs[*i].name[0] && *name)
		snprintf(w->outputs[*i].name, sizeof(w->outputs[*i].name), "%s", name);
}

void output_end_names(lua_State *l)
{
	struct worker *w = worker_get();

	for (unsigned i = 0; i < w->output_count; i++) {
		if (!w->outputs[i].name[0])
			snprintf(w->outputs[i].name, sizeof(w->outputs[i].name), "%u", i + 1);
		for (unsigned k = 0; k < i; k++) {
			if (strcmp(w->outputs[k].name, w->outputs[i].name) == 0)
				luaL_error(l, "two outputs have the name %s", w->outputs[i].name);
		}
	}
}
