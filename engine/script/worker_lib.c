/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The global functions of scripts.  A list names the functions of Lua that a script can call.
 * Some of them are replaced by functions of this file.
 *
 * The count of Lua's instructions does not see work inside C functions.  Allocations count as work
 * (worker_state.c); a function that works without an allocation is wrapped here, and counts its
 * work before it does it.  Patterns of Lua are absent, because they backtrack inside C for hours.  No text
 * shows an address.
 */
#include "engine/script/worker_lib.h"
#include "engine/script/worker.h"
#include "engine/script/worker_output.h"
#include "engine/script/worker_re.h"

#include <lauxlib.h>
#include <lualib.h>

/* Calls the original function, an upvalue, with all arguments. */
static int call_original(lua_State *l)
{
	lua_pushvalue(l, lua_upvalueindex(1));
	lua_insert(l, 1);
	lua_call(l, lua_gettop(l) - 1, LUA_MULTRET);
	return lua_gettop(l);
}

/* ---- basic ---- */

/* Replaces an argument whose text would be an address. */
static void hide_address(lua_State *l, int arg)
{
	const int type = lua_type(l, arg);

	if (type != LUA_TNIL && type != LUA_TBOOLEAN && type != LUA_TNUMBER && type != LUA_TSTRING) {
		lua_pushstring(l, lua_typename(l, type));
		lua_replace(l, arg);
	}
}

static int safe_tostring(lua_State *l)
{
	luaL_checkany(l, 1);
	hide_address(l, 1);
	luaL_tolstring(l, 1, NULL);
	return 1;
}

/* Functions whose work grows with the length of a text. */
static int by_length(lua_State *l)
{
	size_t n = 0;

	if (lua_type(l, 1) == LUA_TSTRING)
		lua_tolstring(l, 1, &n);
	worker_charge(n / 16);
	if (lua_type(l, 2) == LUA_TSTRING) {
		lua_tolstring(l, 2, &n);
		worker_charge(n / 16);
	}
	return call_original(l);
}

/* ---- string ---- */

static int safe_rep(lua_State *l)
{
	size_t n, between;
	const char *s = luaL_checklstring(l, 1, &n), *separator;
	const lua_Integer count = luaL_checkinteger(l, 2);

	separator = luaL_optlstring(l, 3, "", &between);
	(void)s;
	(void)separator;
	if (count <= 0 || n + between == 0) {
		lua_pushliteral(l, "");
		return 1;
	}
	if ((uint64_t)count > worker_get()->limits.memory / (n + between) + 1)
		worker_check(-ENOMEM);
	worker_charge((uint64_t)count + (uint64_t)count * (n + between) / 64);
	return call_original(l);
}

static int safe_format(lua_State *l)
{
	size_t n;
	const char *s = luaL_checklstring(l, 1, &n), *end = s + n;
	const int count = lua_gettop(l);

	worker_charge(n / 4);
	while (s < end) {
		if (*s++ != '%')
			continue;
		if (s < end && *s == '%') {
			s++;
			continue;
		}
		while (s < end && strchr("-+ #0123456789.", *s) && *s)
			s++;
		if (s < end && *s == 'p')
			return luaL_error(l, "string.format has no %%p here");
	}
	for (int arg = 2; arg <= count; arg++)
		hide_address(l, arg);
	return call_original(l);
}

/* ---- table ---- */

/* Counts the work of a loop from one index to another. */
static void charge_range(lua_Integer from, lua_Integer to)
{
	if (to >= from)
		worker_charge((lua_Unsigned)to - (lua_Unsigned)from);
}

static int safe_concat(lua_State *l)
{
	luaL_checktype(l, 1, LUA_TTABLE);
	charge_range(luaL_optinteger(l, 3, 1), lua_isnoneornil(l, 4) ? (lua_Integer)lua_rawlen(l, 1) : luaL_checkinteger(l, 4));
	return call_original(l);
}

/* table.insert and table.remove: they move the elements behind a position. */
static int safe_shift(lua_State *l)
{
	luaL_checktype(l, 1, LUA_TTABLE);
	if (lua_isinteger(l, 2))
		charge_range(lua_tointeger(l, 2), (lua_Integer)lua_rawlen(l, 1));
	return call_original(l);
}

static int safe_move(lua_State *l)
{
	luaL_checktype(l, 1, LUA_TTABLE);
	charge_range(luaL_checkinteger(l, 2), luaL_checkinteger(l, 3));
	return call_original(l);
}

/* A comparison in C would not be counted. */
static int safe_sort(lua_State *l)
{
	lua_Unsigned n;
	unsigned depth = 1;

	luaL_checktype(l, 1, LUA_TTABLE);
	if (lua_iscfunction(l, 2))
		return luaL_error(l, "table.sort needs a Lua function");
	n = lua_rawlen(l, 1);
	for (lua_Unsigned k = n; k > 1; k /= 2)
		depth++;
	worker_charge(n > UINT32_MAX ? n : n * depth);
	return call_original(l);
}

static int safe_unpack(lua_State *l)
{
	const lua_Integer from = luaL_optinteger(l, 2, 1);

	luaL_checktype(l, 1, LUA_TTABLE);
	charge_range(from, lua_isnoneornil(l, 3) ? (lua_Integer)lua_rawlen(l, 1) : luaL_checkinteger(l, 3));
	return call_original(l);
}

/* ---- the list ---- */

struct allowed {
	const char *library, *name;
	lua_CFunction wrapped; /* NULL: the function is Lua's; it has the original as upvalue */
};
static const struct allowed allowed[] = {
	{NULL, "assert", NULL},
	{NULL, "error", NULL},
	{NULL, "ipairs", NULL},
	{NULL, "next", NULL},
	{NULL, "pairs", NULL},
	{NULL, "pcall", NULL},
	{NULL, "rawequal", NULL},
	{NULL, "rawlen", NULL},
	{NULL, "select", NULL},
	{NULL, "tonumber", by_length},
	{NULL, "tostring", safe_tostring},
	{NULL, "type", NULL},
	{NULL, "xpcall", NULL},
	{"string", "byte", NULL},
	{"string", "char", NULL},
	{"string", "format", safe_format},
	{"string", "len", NULL},
	{"string", "lower", NULL},
	{"string", "pack", NULL},
	{"string", "packsize", by_length},
	{"string", "rep", safe_rep},
	{"string", "reverse", NULL},
	{"string", "sub", NULL},
	{"string", "unpack", by_length},
	{"string", "upper", NULL},
	{"table", "concat", safe_concat},
	{"table", "insert", safe_shift},
	{"table", "move", safe_move},
	{"table", "pack", NULL},
	{"table", "remove", safe_shift},
	{"table", "sort", safe_sort},
	{"table", "unpack", safe_unpack},
	{"utf8", "char", NULL},
	{"utf8", "codepoint", by_length},
	{"utf8", "codes", NULL},
	{"utf8", "len", by_length},
	{"utf8", "offset", by_length},
};

/* Stack: Lua's globals are at 1, the globals of scripts at 2. */
static void allow(lua_State *l, const struct allowed *a)
{
	if (a->library) {
		lua_getfield(l, 1, a->library);
		luaL_getsubtable(l, 2, a->library);
	} else {
		lua_pushvalue(l, 1);
		lua_pushvalue(l, 2);
	}
	lua_getfield(l, -2, a->name);
	if (a->wrapped)
		lua_pushcclosure(l, a->wrapped, 1);
	lua_setfield(l, -2, a->name);
	lua_pop(l, 2);
}

static void allow_math(lua_State *l)
{
	lua_getfield(l, 1, "math");
	lua_getfield(l, -1, "randomseed");
	lua_pushinteger(l, 1);
	lua_pushinteger(l, 1);
	lua_call(l, 2, 0);
	lua_pushnil(l);
	lua_setfield(l, -2, "randomseed");
	lua_setfield(l, 2, "math");
}

void lib_open(lua_State *l)
{
	static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base}, {LUA_STRLIBNAME, luaopen_string},
		{LUA_TABLIBNAME, luaopen_table}, {LUA_MATHLIBNAME, luaopen_math}, {LUA_UTF8LIBNAME, luaopen_utf8}};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		luaL_requiref(l, libraries[i].name, libraries[i].func, 1);
		lua_pop(l, 1);
	}
	lua_settop(l, 0);
	lua_pushglobaltable(l);
	lua_newtable(l);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
		allow(l, &allowed[i]);
	allow_math(l);
	re_push_library(l);
	lua_setfield(l, 2, "re");
	output_push_library(l);
	lua_setfield(l, 2, "output");
	output_push_emit(l);
	lua_setfield(l, 2, "emit");
	/* Methods of texts: ("x"):len(). */
	lua_pushliteral(l, "");
	lua_getmetatable(l, -1);
	lua_getfield(l, 2, "string");
	lua_setfield(l, -2, "__index");
	lua_pushvalue(l, 2);
	lua_rawseti(l, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
	/* Nothing refers to the other functions any more. */
	lua_pushnil(l);
	lua_setfield(l, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
	lua_settop(l, 0);
}
