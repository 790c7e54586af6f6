/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a script: compilation, declarations, rows, deltas. */
#include "engine/script/worker_lua.h"
#include "engine/script/delta.h"
#include "engine/script/worker_lib.h"
#include "engine/script/worker_output.h"
#include "engine/script/worker_row.h"

#include <lauxlib.h>
#include <stdio.h>

enum { HOOK_EVERY = 1000 };
/* Keys of the registry */
static const char row_function, row_object;

/* ---- errors ---- */

/* The value on the top of the stack as the text of an error. */
static _Noreturn void fail_by_top(struct worker *w)
{
	lua_State *l = w->lua;
	const char *text = lua_isstring(l, -1) ? lua_tostring(l, -1) : NULL;

	worker_check_refusal();

	if (text)
		worker_fail(CHANNEL_FAILED, "%s", text);
	worker_fail(CHANNEL_FAILED, "%.200s: the script raised an error that is a %s", w->name, luaL_typename(l, -1));
}

static int panic(lua_State *l)
{
	fail_by_top(worker_get());
}

/* Names outputs after the local variables of the function that returns. */
static void name_locals(lua_State *l, lua_Debug *ar)
{
	const char *name;

	if (!lua_getinfo(l, "S", ar) || strcmp(ar->what, "main") != 0)
		return;
	for (int i = 1; (name = lua_getlocal(l, ar, i)); i++) {
		output_set_name(l, name);
		lua_pop(l, 1);
	}
}

static void hook(lua_State *l, lua_Debug *ar)
{
	if (ar->event == LUA_HOOKCOUNT) {
		const uint64_t limit = worker_get()->limits.instructions;

		worker_charge(limit < HOOK_EVERY ? limit + 1 : HOOK_EVERY);
		worker_collect_early();
	} else {
		name_locals(l, ar);
	}
}

static void set_hook(struct worker *w, int more)
{
	lua_sethook(w->lua, hook, LUA_MASKCOUNT | more,
		w->limits.instructions < HOOK_EVERY ? (int)w->limits.instructions + 1 : HOOK_EVERY);
}

/* ---- declarations ---- */

struct beginning {
	struct tfs_bytes text;
	const struct tfs_bytes *args;
	unsigned arg_count;
};

static void set_args(lua_State *l, const struct beginning *b)
{
	lua_newtable(l);
	for (unsigned i = 0; i < b->arg_count; i++) {
		const struct tfs_bytes a = b->args[i];
		const uint8_t *equals = a.n ? memchr(a.p, '=', a.n) : NULL;
		const size_t n = equals ? (size_t)(equals - a.p) : a.n;

		lua_pushlstring(l, (const char *)a.p, n);
		lua_pushlstring(l, equals ? (const char *)equals + 1 : "", equals ? a.n - n - 1 : 0);
		lua_rawset(l, -3);
	}
	lua_setglobal(l, "arg");
}

static void load(lua_State *l, struct worker *w, struct tfs_bytes text)
{
	char name[OUTPUT_NAME_MAX + 2];

	snprintf(name, sizeof(name), "=%s", w->name);
	worker_charge(text.n);
	if (luaL_loadbufferx(l, text.n ? (const char *)text.p : "", text.n, name, "t") != LUA_OK)
		lua_error(l);
}

/* An expression becomes a function of r. */
static void load_filter(lua_State *l, struct worker *w, struct tfs_bytes text)
{
	luaL_Buffer b;
	const char *s;
	size_t n;

	luaL_buffinit(l, &b);
	luaL_addstring(&b, "local r = ... return (");
	luaL_addlstring(&b, text.n ? (const char *)text.p : "", text.n);
	luaL_addstring(&b, "\n)");
	luaL_pushresult(&b);
	s = lua_tolstring(l, -1, &n);
	load(l, w, tfs_bytes_of(s, n));
}

static void name_globals(lua_State *l)
{
	lua_pushglobaltable(l);
	lua_pushnil(l);
	while (lua_next(l, -2)) {
		if (lua_type(l, -2) == LUA_TSTRING)
			output_set_name(l, lua_tostring(l, -2));
		lua_pop(l, 1);
	}
	lua_pop(l, 1);
}

/* The function for rows of a script that has none.  Such a script can be compiled. */
static int no_row(lua_State *l)
{
	return luaL_error(l, "%s: the script has no function row(r)", worker_get()->name);
}

static void load_script(lua_State *l, struct worker *w, struct tfs_bytes text)
{
	load(l, w, text);
	set_hook(w, LUA_MASKRET);
	lua_call(l, 0, 0);
	set_hook(w, 0);
	name_globals(l);
	output_end_names(l);
	if (lua_getglobal(l, "row") != LUA_TFUNCTION)
		lua_pushcfunction(l, no_row);
}

static int begin_protected(lua_State *l)
{
	struct worker *w = worker_get();
	const struct beginning *b = lua_touserdata(l, 1);

	lib_open(l);
	set_args(l, b);
	set_hook(w, 0);
	if (w->filter)
		load_filter(l, w, b->text);
	else
		load_script(l, w, b->text);
	lua_rawsetp(l, LUA_REGISTRYINDEX, &row_function);
	row_push_object(l);
	lua_rawsetp(l, LUA_REGISTRYINDEX, &row_object);
	return 0;
}

void lua_begin(struct worker *w, struct tfs_bytes text, const struct tfs_bytes *args, unsigned arg_count)
{
	struct beginning b = {.text = text, .args = args, .arg_count = arg_count};

	w->lua = lua_newstate(worker_lua_alloc, NULL);
	if (!w->lua)
		worker_check(-ENOMEM);
	lua_atpanic(w->lua, panic);
	lua_pushcfunction(w->lua, begin_protected);
	lua_pushlightuserdata(w->lua, &b);
	if (lua_pcall(w->lua, 1, 0, 0) != LUA_OK)
		fail_by_top(w);
	lua_settop(w->lua, 0);
	w->begun = true;
}

/* ---- rows ---- */

static size_t waiting(const struct worker *w)
{
	size_t n = w->streamed.n;

	for (unsigned i = 0; i < w->output_count; i++)
		n += output_bytes(&w->outputs[i]);
	return n;
}

void lua_row(struct worker *w)
{
	lua_State *l = w->lua;

	w->used = 0;
	w->in_row = true;
	lua_rawgetp(l, LUA_REGISTRYINDEX, &row_function);
	lua_rawgetp(l, LUA_REGISTRYINDEX, &row_object);
	if (lua_pcall(l, 1, w->filter, 0) != LUA_OK)
		fail_by_top(w);
	w->in_row = false;
	worker_check_refusal();
	if (w->filter) {
		const uint8_t is_true = (uint8_t)lua_toboolean(l, -1);

		worker_check(budget_append(&w->budget, &w->streamed, &is_true, 1));
	}
	lua_settop(l, 0);
	row_clear(w);
	w->used = 0;
	atomic_store(&w->shared->waiting, waiting(w));
}

int lua_take(struct worker *w, int (*write)(void *arg, struct tfs_bytes piece), void *arg)
{
	struct delta_sink sink = {.write = write, .arg = arg};
	int err = 0;

	w->used = 0;
	if (!w->filter) {
		err = delta_begin(&sink, w->outputs, w->output_count);
		for (unsigned i = 0; i < w->output_count && !err; i++) {
			err = delta_output(&sink, &w->outputs[i], i);
			output_clear(&w->outputs[i], &w->budget);
		}
		if (!err)
			err = delta_end(&sink);
		if (!err)
			err = delta_flush(&sink);
	}
	if (!err && w->streamed.n)
		err = write(arg, tfs_bytes_of(w->streamed.p, w->streamed.n));
	budget_bytes_free(&w->budget, &w->streamed);
	buf_fini(&sink.buf);
	atomic_store(&w->shared->waiting, 0);
	return err;
}

void lua_end(struct worker *w)
{
	w->used = 0;
	row_clear(w);
	if (w->lua)
		lua_close(w->lua);
	w->lua = NULL;
	for (unsigned i = 0; i < w->output_count; i++)
		output_free(&w->outputs[i], &w->budget);
	w->output_count = 0;
	budget_bytes_free(&w->budget, &w->streamed);
	budget_bytes_free(&w->budget, &w->key);
	budget_bytes_free(&w->budget, &w->cells);
	w->begun = w->in_row = false;
	w->time_end_us = 0;
}
