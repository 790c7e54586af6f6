/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts that try to exceed a limit, to catch one, or to reach what they must not: each fails alone, and names its limit and row. */
#include "engine/base/stop.h"
#include "t/unit/script_lib.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { INSTRUCTIONS = 2000000, MEMORY = 8 << 20, TIME_US = 3000000 };
static struct script_pool *pool;

static int begin(void **state)
{
	script_find_program();
	pool = script_pool_of(INSTRUCTIONS, MEMORY, TIME_US, 2);
	return 0;
}

static int end(void **state)
{
	script_pool_free(pool);
	return 0;
}

/* Runs a script over one row.  Returns its error; *why is a text that ends with 0. */
static int run(const char *text, struct buf *why, struct buf *streamed)
{
	struct script_run *r;
	struct script_outputs *o;
	struct buf delta = {0};
	int err = script_start(pool, false, text, &r, why);

	if (!err) {
		err = script_put(r, "row1", "f", "q", 1, "value", why);
		if (!err)
			err = script_run_take(r, &delta, why);
		if (!err && streamed) {
			assert_int_equal(script_outputs_new(1 << 20, &o), 0);
			assert_int_equal(script_outputs_add(o, buf_bytes(&delta), why), 0);
			script_streamed_text(o, streamed);
			script_outputs_free(o);
		}
		script_run_free(r);
	}
	buf_fini(&delta);
	assert_int_equal(buf_u8(why, 0), 0);
	return err;
}

/* Runs the body in row(r). */
static int run_body(const char *body, struct buf *why, struct buf *streamed)
{
	char text[4096];

	snprintf(text, sizeof(text), "local l, n = output.lines(), output.count_by()\nfunction row(r)\n%s\nend", body);
	return run(text, why, streamed);
}

/* After each trap an ordinary script runs. */
static void assert_works(void)
{
	struct buf why = {0}, text = {0};

	assert_int_equal(run_body("l:add(r:get('f:q'))", &why, &text), 0);
	assert_int_equal(buf_u8(&text, 0), 0);
	assert_string_equal((const char *)text.p, "l: value\n");
	buf_fini(&why);
	buf_fini(&text);
}

static void test_limits(void **state)
{
	static const struct {
		const char *body, *limit;
	} traps[] = {
		{"while true do end", "instructions"},
		{"for i = 1, math.maxinteger do end", "instructions"},
		{"while true do pcall(function() while true do end end) end", "instructions"},
		{"xpcall(function() while true do end end, function() return 1 end) l:add('caught')", "instructions"},
		{"local t = {} for i = 1, 1e9 do t[i] = i end", "memory"},
		{"local s = 'x' pcall(function() while true do s = s .. s end end) l:add('caught')", "memory"},
		{"local t = {} pcall(function() for i = 1, 1e9 do t[i] = {} end end) t = nil l:add('caught')", "memory"},
		{"local s = ('x'):rep(1e9)", "memory"},
		{"local s = pcall(string.rep, 'x', 1e9) l:add('caught')", "memory"},
		{"local s = ('x'):rep(1e18, 'y')", "memory"},
		{"for i = 1, 1e9 do local s = ('x'):rep(1000000) end", "instructions"},
		{"local s, t = ('x'):rep(1000), {} for i = 1, 1000 do t[i] = s:rep(100) .. i end", "memory"},
		{"local s, t = ('x'):rep(100000), {} for i = 1, 1000 do t[i] = s end table.concat(t)", "memory"},
		{"local t = {} for i = 1, 10000 do t[i] = '' end while true do table.concat(t) end", "instructions"},
		{"table.move({}, 1, math.maxinteger - 1, 2)", "instructions"},
		{"table.move({}, math.mininteger, -2, 1, {})", "instructions"},
		{"pcall(table.move, {}, 1, 1e15, 2) l:add('caught')", "instructions"},
		{"local t = {} for i = 62, 0, -1 do t[1 << i] = 1 end table.insert(t, 1, 2)", "instructions"},
		{"local t = {} for i = 62, 0, -1 do t[1 << i] = 1 end table.remove(t, 1)", "instructions"},
		{"local t = {} for i = 1, 50000 do t[i] = i end table.sort(t, function() while true do end end)", "instructions"},
		{"local t = {} for i = 1, 50000 do t[i] = i % 7 end pcall(table.sort, t, function(a, b) return true end) while true do end",
			"instructions"},
		{"local function f() return 1 + f() end while true do pcall(f) end", ""},
		{"local function f(...) return f(1, ...) end f()", ""},
		{"for i = 1, 1e9 do string.format('%99.99f', 1e308) end", "instructions"},
		{"re.match(('a'):rep(40), '(a+)+[bc]')", "pattern"},
		{"pcall(re.match, ('a'):rep(40), '(a|a)*[bc]') l:add('caught')", "pattern"},
		{"re.gsub(('a'):rep(100), '', function() while true do end end)", "instructions"},
		{"while true do re.gmatch('', 'x')() end", "instructions"},
		{"local s = ('a'):rep(1000000) while true do n:add_matches(s, 'a') end", "instructions"},
		{"n:add_matches(('a'):rep(40), '(a+)+[bc]')", "pattern"},
		{"for i = 1, 1e9 do re.match('a', 'a' .. i) end", "instructions"},
		{"for i = 1, 1e9 do l:add('line') end", ""},
		{"for i = 1, 1e9 do emit(r, 'f:q', i, 'value') end", ""},
		{"local s = ('x'):rep(1000000) for i = 1, 1e9 do s:len() utf8.len(s) end", "instructions"},
		{"local s = ('1'):rep(1000000) for i = 1, 1e9 do tonumber(s, 10) end", "instructions"},
		{"local s = ('x'):rep(1000000) for i = 1, 1e9 do s:lower() end", "instructions"},
	};

	for (size_t i = 0; i < sizeof(traps) / sizeof(*traps); i++) {
		struct buf why = {0};
		int err = run_body(traps[i].body, &why, NULL);

		if (err != -SCRIPT_LIMIT || !strstr((char *)why.p, "limit") || !strstr((char *)why.p, traps[i].limit) ||
			!strstr((char *)why.p, "\"row1\""))
			fail_msg("%s: %s: %s", traps[i].body, error_text(err), (char *)why.p);
		buf_fini(&why);
		assert_works();
	}
}

/* Work that no count sees ends at the limit of time. */
static void test_time(void **state)
{
	struct script_pool *whole = pool;
	struct buf why = {0};

	pool = script_pool_of(UINT64_MAX / 2, 64 << 20, 300000, 1);
	assert_int_equal(run_body("local a, b = ('x'):rep(20000000), ('x'):rep(19999999) .. 'x' while true do local c = a == b end",
				 &why, NULL),
		-SCRIPT_LIMIT);
	assert_non_null(strstr((char *)why.p, "processor time (300 ms)"));
	assert_non_null(strstr((char *)why.p, "\"row1\""));
	buf_fini(&why);
	assert_works();
	script_pool_free(pool);
	pool = whole;
}

/* Outputs that grow are bounded by the memory of a run. */
static void test_outputs(void **state)
{
	static const char *const scripts[] = {
		"local o = output.count_by() function row(r) for i = 1, 1e9 do o:add(i) end end",
		"local o = output.sum_by() function row(r) for i = 1, 1e9 do o:add(i, 1.5) end end",
		"local o = output.sample(100000) function row(r) for i = 1, 1e9 do o:add(('x'):rep(1000)) end end",
	};

	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		struct buf why = {0};
		int err = run(scripts[i], &why, NULL);

		if (err != -SCRIPT_LIMIT || !strstr((char *)why.p, "\"row1\""))
			fail_msg("%s: %s: %s", scripts[i], error_text(err), (char *)why.p);
		buf_fini(&why);
	}
	assert_works();
}

/* Errors of a script have one line with the line of the script. */
static void test_errors(void **state)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {
		{"function row(r) end end", "test:1:"},
		{"x = = 1", "test:1: unexpected symbol near '='"},
		{"function row(r) error('bad\\nvalue') end", "test:1: bad?value, row \"row1\""},
		{"function row(r) error({}) end", "test: the script raised an error that is a table, row \"row1\""},
		{"function row(r) error() end", "that is a nil"},
		{"\nfunction row(r)\nlocal x = nil + 1 end", "test:3: attempt to perform arithmetic on a nil value, row \"row1\""},
		{"error('early')", "test:1: early"},
		{"local x = 1", "the script has no function row(r)"},
		{"local n = output.count() n:add() function row(r) end", "outputs are added to in row(r) only"},
		{"function row(r) output.count() end", "outputs are declared outside of row(r)"},
		{"output.top() function row(r) end", "output.top: one number from 1 to 100000 is needed"},
		{"output.top(0) function row(r) end", "output.top: "},
		{"output.quantiles(2) function row(r) end", "a quantile is from 0 to 1"},
		{"output.histogram(2, 1) function row(r) end", "the bounds must rise"},
		{"output.count('a') output.sum('a') function row(r) end", "two outputs have the name a"},
		{"output.count('a\\0b') function row(r) end", "the name of an output"},
		{"local s = output.sum() function row(r) s:add('x') end", "a number is needed"},
		{"local s = output.sum() function row(r) s:add(0/0) end", "NaN"},
		{"local s = output.top(1) function row(r) s:add('x', 0) end", "a positive number is needed"},
		{"local s = output.top(1) function row(r) s.add({}, 0) end", "output expected, got table"},
		{"function row(r) r:get('nocolon') end", "a column is \"family:qualifier\""},
		{"function row(r) r.get('f:q') end", "the row is needed"},
		{"function row(r) return r.value end", "a row has key, get and cells, but no value"},
		{"function row(r) r.key = 1 end", "attempt to index a row value"},
		{"function row(r) re.match('x', '(') end", "the pattern is not valid at byte 1"},
		{"function row(r) re.match('x', '(*UTF)x') end", "the pattern is not valid"},
		{"function row(r) string.format('%p', r) end", "%p"},
		{"function row(r) table.sort({3, 2, 1}, rawequal) end", "needs a Lua function"},
		{"function row(r) table.unpack({}, 1, 1e6) end", "too many results"},
		{"\33Lua", "a binary chunk"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct buf why = {0};
		int err = run(wrong[i].text, &why, NULL);

		if (err != -EINVAL || !strstr((char *)why.p, wrong[i].why) || strchr((char *)why.p, '\n'))
			fail_msg("%s: %s: %s", wrong[i].text, error_text(err), (char *)why.p);
		buf_fini(&why);
	}
	assert_works();
}

/* What is absent, and texts that would show addresses. */
static void test_sandbox(void **state)
{
	static const char *const true_things[] = {
		"for _, n in ipairs{'io', 'os', 'debug', 'package', 'require', 'load', 'loadfile', 'dofile', 'loadstring', 'print', 'setmetatable',"
		" 'getmetatable', 'collectgarbage', 'coroutine', 'rawset', 'rawget', '_G', 'warn'} do assert(_ENV[n] == nil, n) end",
		"for _, n in ipairs{'find', 'match', 'gmatch', 'gsub', 'dump'} do assert(string[n] == nil and ('').n == nil, n) end",
		"assert(math.randomseed == nil and utf8.charpattern == nil)",
		"assert(tostring({}) == 'table' and tostring(print) == 'nil' and tostring(row) == 'function' and tostring(r) == 'userdata')",
		"assert(tostring(l) == 'userdata' and tostring(pairs) == 'function')",
		"assert(string.format('%s %s %s', {}, row, r) == 'table function userdata')",
		"for _, f in ipairs{function() return {} .. '' end, function() return {} < {} end, function() r() end, function() return #row end,"
		" function() error({}) end, function() l:add({}) end, function() return r.x end, function() string.format('%d', {}) end}"
		" do local ok, e = pcall(f) assert(not ok and (type(e) == 'table' or not re.find(e, '0x[0-9a-f]{6}')), e) end",
		"assert(('x'):rep(3) == 'xxx' and ('x'):len() == 1 and (''):rep(1e18) == '' and ('x'):rep(-1) == '')",
		"local ok, e = pcall(error, 'x') assert(not ok and e == 'x')",
		"assert(select('#', table.unpack({1, nil, 3}, 1, 3)) == 3 and table.concat({1, 2, 3}, ',') == '1,2,3')",
		"local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) assert(t[1] == 3 and t[3] == 1)",
		"local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) assert(table.remove(t) == 3 and table.remove(t, 1) == 0 and #t == 2)",
		"assert(table.move({1, 2, 3}, 2, 3, 1)[1] == 2 and string.unpack('>I2', string.pack('>I2', 513)) == 513)",
		"local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end assert(deep(1000) == 1000)",
		"assert(math.random(1000000) ~= math.random(1000000) and tostring(1.5) == '1.5' and tostring(nil) == 'nil')",
	};

	for (size_t i = 0; i < sizeof(true_things) / sizeof(*true_things); i++) {
		struct buf why = {0};
		int err = run_body(true_things[i], &why, NULL);

		if (err)
			fail_msg("%s: %s: %s", true_things[i], error_text(err), (char *)why.p);
		buf_fini(&why);
	}
}

/* Garbage does not count against the memory. */
static void test_garbage(void **state)
{
	struct script_pool *whole = pool;
	struct buf why = {0};

	pool = script_pool_of(UINT64_C(1) << 40, 4 << 20, 60000000, 1);
	assert_int_equal(
		run_body(
			"local s = ('x'):rep(1000000) for i = 1, 100 do local t = s .. i end for i = 1, 100000 do local t = {i, i} end",
			&why, NULL),
		0);
	buf_fini(&why);
	script_pool_free(pool);
	pool = whole;
}

/* ---- deaths ---- */

/* Kills the children of this process that are named tabletfs-script. */
static unsigned kill_workers(void)
{
	char path[512], name[64];
	unsigned killed = 0;
	DIR *d = opendir("/proc");
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d))) {
		int parent = 0, pid = atoi(e->d_name);
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		if (pid <= 0 || !(f = fopen(path, "r")))
			continue;
		if (fscanf(f, "%*d (%63[^)]) %*c %d", name, &parent) == 2 && parent == (int)getpid() &&
			strcmp(name, "tabletfs-script") == 0)
			killed += kill(pid, SIGKILL) == 0;
		fclose(f);
	}
	closedir(d);
	return killed;
}

static void test_killed(void **state)
{
	struct script_run *r;
	struct buf why = {0}, delta = {0};
	int err;

	assert_int_equal(script_start(pool, false, "local n = output.count() function row(r) n:add() end", &r, &why), 0);
	assert_int_equal(script_put(r, "a", "f", "q", 1, "", &why), 0);
	assert_true(kill_workers() > 0);
	err = script_run_take(r, &delta, &why);
	assert_int_equal(err, -SCRIPT_DIED);
	assert_int_equal(script_put(r, "a", "f", "q", 1, "", &why), -SCRIPT_DIED);
	assert_int_equal(buf_u8(&why, 0), 0);
	assert_non_null(strstr((char *)why.p, "(signal 9)"));
	script_run_free(r);
	assert_works();
	/* A worker that is killed while it waits for a run */
	(void)kill_workers();
	assert_works();
	buf_fini(&why);
	buf_fini(&delta);
}

static bool asked(void *arg)
{
	return true;
}

/* A user who waits for two of three places, and then has them. */
struct waiting {
	struct script_pool *pool;
	atomic_int err;
};
static void *take_two(void *arg)
{
	struct waiting *w = arg;

	w->err = script_pool_take(w->pool, 8, 2, 2, UINT64_C(60) * 1000000);
	return NULL;
}

/* Places: a user's share, all or none, and in turn. */
static void test_places(void **state)
{
	struct script_pool *p = script_pool_of(0, 0, 0, 3);
	struct waiting w = {.pool = p, .err = 1};
	pthread_t thread;

	assert_int_equal(script_pool_take(p, 7, 4, 3, 0), -EINVAL);
	assert_int_equal(script_pool_take(p, 7, 1, 1, 0), 0);
	assert_int_equal(script_pool_take(p, 7, 1, 1, 0), -EAGAIN);
	assert_int_equal(script_pool_take(p, 8, 1, 1, 0), 0);
	script_pool_give(p, 8, 1);
	assert_int_equal(script_pool_take(p, 8, 2, 1, 0), 0); /* what one request needs is more than the share */
	assert_int_equal(script_pool_take(p, 9, 1, 3, 0), -EAGAIN);
	/* A user who has its share waits, and holds up nobody. */
	assert_int_equal(pthread_create(&thread, NULL, take_two, &w), 0);
	script_pool_give(p, 7, 1);
	assert_int_equal(script_pool_take(p, 7, 1, 3, 0), 0); /* user 8 has its share */
	script_pool_give(p, 8, 2);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.err, 0);
	assert_int_equal(script_pool_take(p, 9, 1, 3, 0), -EAGAIN);
	script_pool_give(p, 8, 2);
	assert_int_equal(script_pool_take(p, 9, 2, 3, 0), 0);
	script_pool_give(p, 9, 2);
	script_pool_give(p, 7, 1);
	script_pool_free(p);
}

/* A run that is not wanted any more ends; so does a wait for a place. */
static void test_stopped(void **state)
{
	struct script_run *r;
	struct buf why = {0}, delta = {0};

	assert_int_equal(script_pool_take(pool, 1, 2, 2, 0), 0);
	assert_int_equal(script_start(pool, false,
				 "function row(r) local a = ('x'):rep(2000000) while true do local c = a .. 1 end end", &r, &why),
		0);
	stop_set(asked, NULL);
	assert_int_equal(script_pool_take(pool, 1, 1, 2, UINT64_MAX / 2), -EINTR);
	assert_int_equal(script_put(r, "a", "f", "q", 1, "", &why), 0);
	assert_true(script_run_take(r, &delta, &why) < 0);
	stop_set(NULL, NULL);
	script_run_free(r);
	script_pool_give(pool, 1, 2);
	buf_fini(&why);
	buf_fini(&delta);
	assert_works();
}

/* Without the program a run fails, and says so. */
static void test_no_program(void **state)
{
	char *before = strdup(getenv("TABLETFS_LIBEXEC"));
	struct script_pool *whole = pool;
	struct buf why = {0};

	pool = script_pool_of(0, 0, 0, 1);
	setenv("TABLETFS_LIBEXEC", "/nowhere", 1);
	assert_int_equal(run_body("", &why, NULL), -SCRIPT_DIED);
	assert_non_null(strstr((char *)why.p, "tabletfs-script"));
	setenv("TABLETFS_LIBEXEC", before, 1);
	assert_works();
	script_pool_free(pool);
	pool = whole;
	free(before);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_sandbox),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_no_program),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("script_traps", tests, begin, end);
}
