/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of scripts, by PCRE2 over bytes.  A match is bounded in steps and memory; a
 * match at a bound ends the run.  Compiled patterns are kept in a table of Lua; it is emptied when it has CACHE_MAX.
 */
#include "engine/script/worker_re.h"
#include "engine/script/worker.h"

#include <lauxlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define PATTERN_TYPE "pattern"
enum { STEPS_MAX = 1000000, DEPTH_MAX = 100000, HEAP_KIB = 16384, PATTERN_MAX = 16384, CACHE_MAX = 200, MATCH_COST = 20 };

struct pattern {
	pcre2_code *code;
	pcre2_match_data *data;
	uint32_t captures;
};

/* ---- memory ---- */

static void *take(size_t n, void *arg)
{
	struct worker *w = worker_get();
	size_t *p;
	int err;

	if (n > w->limits.memory)
		worker_check(-ENOMEM);
	p = budget_alloc(&w->budget, n + 16, &err);
	worker_check(err);
	*p = n + 16;
	return (uint8_t *)p + 16;
}

static void give(void *p, void *arg)
{
	uint8_t *start = (uint8_t *)p - 16;

	if (p)
		budget_free(&worker_get()->budget, start, *(size_t *)(void *)start);
}

/* ---- compiled patterns ---- */

static int pattern_free(lua_State *l)
{
	struct pattern *p = lua_touserdata(l, 1);

	pcre2_match_data_free(p->data);
	pcre2_code_free(p->code);
	*p = (struct pattern){0};
	return 0;
}

static void compile(lua_State *l, struct pattern *p, const char *text, size_t n, bool whole)
{
	pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
	pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
	char why[128];
	PCRE2_SIZE at = 0;
	int err = 0;

	if (context) {
		pcre2_set_max_pattern_length(context, PATTERN_MAX);
		p->code = pcre2_compile((PCRE2_SPTR)text, n,
			PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C |
				(whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL : 0),
			&err, &at, context);
	}
	if (p->code)
		p->data = pcre2_match_data_create_from_pattern(p->code, memory);
	if (p->data)
		pcre2_pattern_info(p->code, PCRE2_INFO_CAPTURECOUNT, &p->captures);
	pcre2_compile_context_free(context);
	pcre2_general_context_free(memory);
	if (!p->data) {
		pcre2_get_error_message(err, (PCRE2_UCHAR *)why, sizeof(why));
		luaL_error(l, "the pattern is not valid at byte %d: %s", (int)at, why);
	}
}

/* Pushes and returns the compiled pattern of an argument. */
static struct pattern *pattern_push(lua_State *l, int arg, bool whole)
{
	size_t n;
	const char *text = luaL_checklstring(l, arg, &n), *cache = whole ? "whole patterns" : "patterns";
	struct pattern *p;
	lua_Integer count;

	luaL_getsubtable(l, LUA_REGISTRYINDEX, cache);
	lua_pushvalue(l, arg);
	if (lua_rawget(l, -2) == LUA_TUSERDATA) {
		lua_remove(l, -2);
		return lua_touserdata(l, -1);
	}
	lua_pop(l, 1);
	worker_charge(n * 16 + 1000);
	count = lua_rawgeti(l, -1, 0) == LUA_TNUMBER ? lua_tointeger(l, -1) : 0;
	lua_pop(l, 1);
	if (count >= CACHE_MAX) {
		lua_pop(l, 1);
		lua_newtable(l);
		lua_pushvalue(l, -1);
		lua_setfield(l, LUA_REGISTRYINDEX, cache);
		count = 0;
	}
	p = lua_newuserdatauv(l, sizeof(*p), 0);
	*p = (struct pattern){0};
	if (luaL_newmetatable(l, PATTERN_TYPE)) {
		lua_pushcfunction(l, pattern_free);
		lua_setfield(l, -2, "__gc");
	}
	lua_setmetatable(l, -2);
	compile(l, p, text, n, whole);
	lua_pushinteger(l, count + 1);
	lua_rawseti(l, -3, 0);
	lua_pushvalue(l, arg);
	lua_pushvalue(l, -2);
	lua_rawset(l, -4);
	lua_remove(l, -2);
	return p;
}

/* As pattern_push, but pushes nothing.  The pattern is valid until the next call. */
static struct pattern *pattern_get(lua_State *l, int arg, bool whole)
{
	struct pattern *p = pattern_push(l, arg, whole);

	lua_pop(l, 1);
	return p;
}

/* ---- matching ---- */

/* The bounds of a match.  They belong to the process, so their memory is in no run's budget. */
static pcre2_match_context *bounds(void)
{
	static pcre2_match_context *context;
	const uint64_t before = worker_get()->budget.used;

	if (!context) {
		pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);

		context = memory ? pcre2_match_context_create(memory) : NULL;
		if (!context)
			worker_check(-ENOMEM);
		pcre2_set_match_limit(context, STEPS_MAX);
		pcre2_set_depth_limit(context, DEPTH_MAX);
		pcre2_set_heap_limit(context, HEAP_KIB);
		worker_get()->budget.used = before;
	}
	return context;
}

/* Returns the number of captures plus one, or 0 if nothing matches from the offset on.  *at: PCRE2's pairs of offsets. */
static int match(lua_State *l, struct pattern *p, struct tfs_bytes text, size_t from, const size_t **at)
{
	const int n = pcre2_match(p->code, text.n ? (PCRE2_SPTR)text.p : (PCRE2_SPTR) "", text.n, from, 0, p->data, bounds());

	*at = pcre2_get_ovector_pointer(p->data);
	worker_charge(MATCH_COST + (n > 0 && (*at)[1] > from ? (*at)[1] - from : text.n - from) / 16);
	if (n == PCRE2_ERROR_NOMATCH)
		return 0;
	if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_DEPTHLIMIT || n == PCRE2_ERROR_HEAPLIMIT)
		worker_limit("a pattern's steps or memory", STEPS_MAX, " steps");
	if (n == PCRE2_ERROR_NOMEMORY)
		worker_check(-ENOMEM);
	if (n < 0 || (*at)[0] > (*at)[1])
		luaL_error(l, "the pattern cannot be matched (error %d of PCRE2)", n);
	return (int)p->captures + 1;
}

bool re_matches_whole(lua_State *l, int arg, struct tfs_bytes text)
{
	struct pattern *p = pattern_get(l, arg, true);
	const size_t *at;

	return match(l, p, text, 0, &at) > 0;
}

static void push_capture(lua_State *l, struct tfs_bytes text, const size_t *at, int i)
{
	if (at[2 * i] == PCRE2_UNSET)
		lua_pushboolean(l, false);
	else
		lua_pushlstring(l, (const char *)text.p + at[2 * i], at[2 * i + 1] - at[2 * i]);
}

/* Pushes the captures, or the whole match if there are none.  A capture that matched nothing is false. */
static int push_captures(lua_State *l, struct tfs_bytes text, const size_t *at, int n, bool whole)
{
	luaL_checkstack(l, n + 2, "too many captures");
	if (n == 1 && whole)
		push_capture(l, text, at, 0);
	for (int i = 1; i < n; i++)
		push_capture(l, text, at, i);
	return n == 1 ? whole : n - 1;
}

static struct tfs_bytes subject(lua_State *l, int arg)
{
	size_t n;
	const char *s = luaL_checklstring(l, arg, &n);

	return tfs_bytes_of(s, n);
}

/* The offset of the optional argument init, which counts from 1, or from the end if it is negative; above n: none. */
static size_t offset_of(lua_State *l, int arg, size_t n)
{
	const lua_Integer i = luaL_optinteger(l, arg, 1);

	if (i > 0)
		return (lua_Unsigned)i > n + 1 ? n + 1 : (size_t)i - 1;
	return i == 0 || (lua_Unsigned)0 - (lua_Unsigned)i > n ? 0 : n - (size_t)((lua_Unsigned)0 - (lua_Unsigned)i);
}

static int find(lua_State *l, bool places)
{
	const struct tfs_bytes text = subject(l, 1);
	struct pattern *p = pattern_get(l, 2, false);
	const size_t from = offset_of(l, 3, text.n), *at;
	const int n = from > text.n ? 0 : match(l, p, text, from, &at);

	if (!n) {
		lua_pushnil(l);
		return 1;
	}
	if (places) {
		lua_pushinteger(l, (lua_Integer)at[0] + 1);
		lua_pushinteger(l, (lua_Integer)at[1]);
	}
	return push_captures(l, text, at, n, !places) + (places ? 2 : 0);
}

/* re.match(text, pattern [, init]): the captures, or the match; or nil */
static int re_match(lua_State *l)
{
	return find(l, false);
}

/* re.find(text, pattern [, init]): first, last, captures; or nil */
static int re_find(lua_State *l)
{
	return find(l, true);
}

/* The next match from an offset on; an empty match directly after the last match does not count. */
static int next_match(lua_State *l, struct pattern *p, struct tfs_bytes text, size_t from, size_t last, const size_t **at)
{
	while (from <= text.n) {
		const int n = match(l, p, text, from, at);

		if (!n || (*at)[1] != last || (*at)[0] != (*at)[1])
			return n;
		from++;
	}
	return 0;
}

static int gmatch_next(lua_State *l)
{
	size_t n;
	const char *s = lua_tolstring(l, lua_upvalueindex(1), &n);
	const struct tfs_bytes text = tfs_bytes_of(s, n);
	const size_t from = (size_t)lua_tointeger(l, lua_upvalueindex(3)), *at;
	const size_t last = (size_t)lua_tointeger(l, lua_upvalueindex(4));
	const int found = next_match(l, lua_touserdata(l, lua_upvalueindex(2)), text, from, last, &at);

	if (!found)
		return 0;
	lua_pushinteger(l, (lua_Integer)at[1]);
	lua_copy(l, -1, lua_upvalueindex(3));
	lua_replace(l, lua_upvalueindex(4));
	return push_captures(l, text, at, found, true);
}

void re_each(lua_State *l, int text_arg, int pattern_arg, void (*fn)(lua_State *l, void *arg, struct tfs_bytes match), void *arg)
{
	const struct tfs_bytes text = subject(l, text_arg);
	struct pattern *p = pattern_push(l, pattern_arg, false);
	size_t from = 0, last = SIZE_MAX;
	const size_t *at;
	int n;

	while ((n = next_match(l, p, text, from, last, &at))) {
		const size_t *part = at + (n > 1 ? 2 : 0);

		from = last = at[1];
		if (part[0] != PCRE2_UNSET)
			fn(l, arg, tfs_bytes_of(text.p + part[0], part[1] - part[0]));
	}
	lua_pop(l, 1);
}

/* re.gmatch(text, pattern): an iterator of what re.match returns */
static int re_gmatch(lua_State *l)
{
	luaL_checkstring(l, 1);
	lua_settop(l, 2);
	(void)pattern_push(l, 2, false);
	lua_replace(l, 2);
	lua_pushinteger(l, 0);
	lua_pushinteger(l, -1);
	lua_pushcclosure(l, gmatch_next, 4);
	return 1;
}

/* Adds a replacement's text: %0 to %9 are captures, %% is a percent sign. */
static void add_text(lua_State *l, luaL_Buffer *b, struct tfs_bytes text, const size_t *at, int n)
{
	size_t length;
	const char *s = lua_tolstring(l, 3, &length);

	for (size_t i = 0; i < length; i++) {
		int k;

		if (s[i] != '%') {
			luaL_addchar(b, s[i]);
			continue;
		}
		i++;
		k = i < length && s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : -1;
		if (i < length && s[i] == '%')
			luaL_addchar(b, '%');
		else if (k < 0 || (k >= n && k != 1))
			luaL_error(l, "a replacement has %%0 to %%9 for captures, and %%%% for a percent sign");
		else if (at[2 * (k < n ? k : 0)] != PCRE2_UNSET)
			luaL_addlstring(b, (const char *)text.p + at[2 * (k < n ? k : 0)],
				at[2 * (k < n ? k : 0) + 1] - at[2 * (k < n ? k : 0)]);
	}
}

static void add_replacement(lua_State *l, luaL_Buffer *b, struct tfs_bytes text, const size_t *at, int n)
{
	const size_t start = at[0], end = at[1];

	switch (lua_type(l, 3)) {
	case LUA_TFUNCTION:
		lua_pushvalue(l, 3);
		lua_call(l, push_captures(l, text, at, n, true), 1);
		break;
	case LUA_TTABLE:
		push_capture(l, text, at, n > 1 ? 1 : 0);
		lua_gettable(l, 3);
		break;
	default:
		add_text(l, b, text, at, n);
		return;
	}
	if (!lua_toboolean(l, -1)) {
		lua_pop(l, 1);
		luaL_addlstring(b, (const char *)text.p + start, end - start);
	} else if (lua_isstring(l, -1)) {
		luaL_addvalue(b);
	} else {
		luaL_error(l, "a replacement must be a string, not a %s", luaL_typename(l, -1));
	}
}

/* re.gsub(text, pattern, replacement [, most]): the text with replacements, and their number */
static int re_gsub(lua_State *l)
{
	const struct tfs_bytes text = subject(l, 1);
	const lua_Integer most = luaL_optinteger(l, 4, LUA_MAXINTEGER);
	size_t from = 0, last = SIZE_MAX;
	lua_Integer count = 0;
	luaL_Buffer b;

	luaL_argexpected(l, lua_isstring(l, 3) || lua_istable(l, 3) || lua_isfunction(l, 3), 3, "string, table or function");
	lua_settop(l, 4);
	luaL_buffinit(l, &b);
	while (count < most) {
		const size_t *at;
		size_t end;
		/* The function may have used other patterns, and so have emptied the cache. */
		const int n = next_match(l, pattern_get(l, 2, false), text, from, last, &at);

		if (!n)
			break;
		luaL_addlstring(&b, (const char *)text.p + from, at[0] - from);
		end = at[1];
		add_replacement(l, &b, text, at, n);
		from = last = end;
		count++;
	}
	if (text.n > from)
		luaL_addlstring(&b, (const char *)text.p + from, text.n - from);
	luaL_pushresult(&b);
	lua_pushinteger(l, count);
	return 2;
}

void re_push_library(lua_State *l)
{
	static const luaL_Reg functions[] = {
		{"match", re_match}, {"find", re_find}, {"gmatch", re_gmatch}, {"gsub", re_gsub}, {NULL, NULL}};

	luaL_newlib(l, functions);
}
