/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts: their outputs, rows, cells, filters, and merges of partial outputs. */
#include "t/lib/xorshift.h"
#include "t/unit/script_lib.h"

#include <math.h>
#include <poll.h>

static struct script_pool *pool;

static int begin(void **state)
{
	script_find_program();
	pool = script_pool_of(0, 0, 0, 3);
	return 0;
}

static int end(void **state)
{
	script_pool_free(pool);
	return 0;
}

static struct script_run *start(const char *text)
{
	struct script_run *r;
	struct buf why = {0};
	int err = script_start(pool, false, text, &r, &why);

	if (err)
		fail_msg("%s: %.*s", error_text(err), (int)why.n, why.p);
	buf_fini(&why);
	return r;
}

static struct script_run *start_rows(const char *text)
{
	const struct script_text t = {.rows_only = true, .name = TFS_S("test"), .text = tfs_str(text)};
	struct script_run *r;
	struct buf why = {0};

	if (script_run_new(pool, 0, &t, &r, &why))
		fail_msg("%.*s", (int)why.n, why.p);
	buf_fini(&why);
	return r;
}

/* Merges a take into o. */
static void take(struct script_run *r, struct script_outputs *o, struct buf *streamed)
{
	struct buf delta = {0}, why = {0};
	int err = script_run_take(r, &delta, &why);

	if (!err)
		err = script_outputs_add(o, buf_bytes(&delta), &why);
	if (err)
		fail_msg("%s: %.*s", error_text(err), (int)why.n, why.p);
	if (streamed)
		script_streamed_text(o, streamed);
	buf_fini(&delta);
	buf_fini(&why);
}

static void put(struct script_run *r, const char *row, const char *family, const char *qualifier, int64_t ts, const char *value)
{
	struct buf why = {0};

	if (script_put(r, row, family, qualifier, ts, value, &why))
		fail_msg("%.*s", (int)why.n, why.p);
	buf_fini(&why);
}

static void assert_text(struct buf *text, const char *want)
{
	assert_int_equal(buf_u8(text, 0), 0);
	assert_string_equal((const char *)text->p, want);
	buf_fini(text);
}

/* The text of a script that sees three rows, its streamed records and its results. */
static void check(const char *script, const char *want)
{
	struct script_run *r = start(script);
	struct script_outputs *o;
	struct buf text = {0};

	assert_int_equal(script_outputs_new(1 << 20, &o), 0);
	put(r, "a", "stat", "hits", 20, "7");
	put(r, "a", "stat", "hits", 10, "5");
	put(r, "a", "text", "en", 10, "one two  two");
	put(r, "b", "stat", "hits", 10, "-2");
	put(r, "b", "text", "", 10, "");
	put(r, "c", "text", "de", 5, "zwei");
	take(r, o, &text);
	script_results_text(o, &text);
	script_run_free(r);
	script_outputs_free(o);
	assert_text(&text, want);
}

static void test_outputs(void **state)
{
	check("local rows, n = output.count(), output.sum() \n"
	      "local least, most = output.min(), output.max('most')\n"
	      "mean = output.mean()\n"
	      "function row(r) rows:add(); local h = r:get('stat:hits')\n"
	      "if h then n:add(h); least:add(tonumber(h)); most:add(h); mean:add(h) end end",
		"rows  3\nn  5\nleast  -2\nmost  7\nmean  2.5\n");
	check("local by = output.count_by() local len = output.sum_by() local u = output.unique() local top = output.top(1)\n"
	      "function row(r) for _, c in ipairs(r:cells()) do by:add(c.family) len:add(c.family, #c.value) u:add(c.value) top:add(c.qualifier, 2) end end",
		"by stat 3\nby text 3\nlen stat 4\nlen text 16\nu  6\ntop hits 6\n");
	check("local h = output.histogram(-1, 5.5, 6) local q = output.quantiles(0, 0.5, 1)\n"
	      "function row(r) for _, c in ipairs(r:cells('stat:')) do h:add(c.value) q:add(c.value) end end",
		"h -1 1\nh 5.5 1\nh 6 0\nh inf 1\nq 0 -2.0\nq 0.5 5.0\nq 1 7\n");
	check("local l = output.lines() function row(r) l:add(r.key .. arg.key .. arg.n) emit(r, 'x:' .. r.key, 5, 'v') emit('k', 'y:', -1, 3) end",
		"l: avalue3\na/x:a@5=v\nk/y:@-1=3\nl: bvalue3\nb/x:b@5=v\nk/y:@-1=3\nl: cvalue3\nc/x:c@5=v\nk/y:@-1=3\n");
	check("local s = output.sample(5) function row(r) s:add('same') end", "s  same\ns  same\ns  same\n");
	check("output.count() output.sum() local m = output.min() function row(r) end", "1  0\n2  0\n");
}

static void test_rows(void **state)
{
	check("local l = output.lines()\n"
	      "function row(r) for _, c in ipairs(r:cells('stat:hits')) do l:add(c.family .. c.qualifier .. c.timestamp .. c.value) end\n"
	      "l:add(#r:cells('text:', '[a-e][a-z]') .. #r:cells('text:', 'e') .. #r:cells('nothing:')) end",
		"l: stathits207\nl: stathits105\nl: 100\nl: stathits10-2\nl: 000\nl: 100\n");
	check("local l = output.lines() function row(r) l:add(tostring(r:get('text:')) .. tostring(r:get('stat:hits')) .. tostring(r:get('stat:x'))) end",
		"l: nil7nil\nl: -2nil\nl: nilnilnil\n");
}

static void test_patterns(void **state)
{
	check("local n, l = output.count_by(), output.lines()\n"
	      "function row(r) for w in re.gmatch(r:get('text:en') or '', '\\\\w+') do n:add(w) end\n"
	      "if r.key ~= 'a' then return end\n"
	      "l:add(table.concat({re.match('k=v', '(\\\\w)=(\\\\w)')}, ','))\n"
	      "l:add(table.concat({re.find('abcd', 'c(d)')}, ','))\n"
	      "l:add(re.match('abc', 'b.') .. tostring(re.match('abc', 'x')) .. tostring(re.match('a', '(x)?a')))\n"
	      "l:add(table.concat({re.gsub('hello world', '(o)', '<%1>')}, ','))\n"
	      "l:add(table.concat({re.gsub('abc', 'x*', '-')}, ','))\n"
	      "l:add(table.concat({re.gsub('abc', '[ab]', {a = 'A'})}, ','))\n"
	      "l:add(table.concat({re.gsub('abc', '.', function(c) return re.gsub(c, '.', '%0%0%%') end, 2)}, ','))\n"
	      "l:add(table.concat({re.find('aXa', 'a', -1)}, ',') .. tostring(re.find('a', 'a', 3)))\n"
	      "l:add(tostring(pcall(re.match, 'a', '(')))\n"
	      "for a in re.gmatch('aab', 'a*') do l:add('[' .. a .. ']') end end",
		"l: k,v\nl: 3,4,d\nl: bcnilfalse\nl: hell<o> w<o>rld,2\nl: -a-b-c-,4\nl: Abc,2\nl: aa%bb%c,2\nl: 3,3nil\nl: false\nl: [aa]\nl: []\n"
		"n one 1\nn two 2\n");
	check("local n, m, same, t, u = output.count_by(), output.count_by(), output.count_by(), output.top(1), output.unique()\n"
	      "function row(r) local s = r:get('text:en') or ''\n"
	      "n:add_matches(s, '\\\\w+') m:add_matches(s .. 'ab', 'b*') for b in re.gmatch(s .. 'ab', 'b*') do same:add(b) end\n"
	      "t:add_matches(s, '(x)?t(.)') t:add_matches(s, 't(.)') u:add_matches(s, '.') end",
		"n one 1\nn two 2\nm  15\nm b 3\nsame  15\nsame b 3\nt w 2\nu  6\n");
}

/* Rows of a script that reads no cells. */
static void test_rows_only(void **state)
{
	struct script_outputs *o;
	struct buf why = {0}, text = {0};
	struct script_run *r;

	assert_true(script_reads_cells(TFS_S("r:get('a:b')")) && script_reads_cells(TFS_S("#r:cells()")));
	assert_false(script_reads_cells(TFS_S("function row(r) end")) || script_reads_cells(TFS_S("")));
	r = start_rows("local n, l = output.count(), output.lines() function row(r) n:add() l:add(r.key) end");
	assert_int_equal(script_outputs_new(1 << 20, &o), 0);
	for (const char *row = "abc"; *row; row++)
		assert_int_equal(script_run_row(r, tfs_bytes_of(row, 1), &why), 0);
	take(r, o, &text);
	assert_int_equal(buf_u8(&text, 0), 0);
	assert_string_equal((char *)text.p, "l: a\nl: b\nl: c\n");
	script_run_free(r);
	script_outputs_free(o);
	r = start_rows("function row(r) local read = r['ge' .. 't'] end");
	assert_int_equal(script_run_row(r, TFS_S("a"), &why), 0);
	assert_int_equal(script_run_take(r, &text, &why), -EINVAL);
	assert_int_equal(buf_u8(&why, 0), 0);
	assert_non_null(strstr((char *)why.p, "no cells here"));
	script_run_free(r);
	buf_fini(&why);
	buf_fini(&text);
}

static void test_numbers(void **state)
{
	check("local s, t, u = output.sum(), output.sum(), output.sum() function row(r) s:add(math.maxinteger) s:add(-math.maxinteger) s:add(1)\n"
	      "t:add(0.5) t:add(1) u:add('0x10') u:add('1e1') end",
		"s  3\nt  4.5\nu  78.0\n");
}

/* A sum that does not fit is an error, whatever the order. */
static void test_overflow(void **state)
{
	struct script_run *r = start("local s = output.sum() function row(r) s:add(math.maxinteger) end");
	struct script_outputs *o;
	struct script_record record;
	struct buf why = {0};

	assert_int_equal(script_outputs_new(1 << 20, &o), 0);
	put(r, "a", "f", "q", 1, "");
	put(r, "b", "f", "q", 1, "");
	take(r, o, NULL);
	assert_int_equal(script_outputs_result(o, &record, &why), -EINVAL);
	assert_int_equal(buf_u8(&why, 0), 0);
	assert_string_equal((const char *)why.p, "the sum s does not fit into 64 bits");
	buf_fini(&why);
	script_run_free(r);
	script_outputs_free(o);
}

static void test_filter(void **state)
{
	struct script_run *r;
	struct buf why = {0}, delta = {0};

	assert_int_equal(script_start(pool, true, "tonumber(r:get('f:q') or 0) > 1 -- more", &r, &why), 0);
	for (int i = 0; i < 4; i++) {
		char row[2] = {(char)('a' + i), 0}, value[2] = {(char)('0' + i), 0};

		put(r, row, "f", i == 3 ? "x" : "q", 1, value);
	}
	assert_int_equal(script_run_take(r, &delta, &why), 0);
	assert_int_equal(delta.n, 4);
	assert_memory_equal(delta.p, "\0\0\1\0", 4);
	put(r, "z", "f", "q", 1, "9");
	assert_int_equal(script_run_take(r, &delta, &why), 0);
	assert_true(delta.n == 1 && delta.p[0] == 1);
	assert_int_equal(script_run_take(r, &delta, &why), 0);
	assert_int_equal(delta.n, 0);
	script_run_free(r);
	assert_int_equal(script_start(pool, true, "r.key ==", &r, &why), -EINVAL);
	assert_non_null(memmem(why.p, why.n, "test:2:", 7) ? why.p : memmem(why.p, why.n, "test:1:", 7));
	assert_int_equal(script_start(pool, true, "1 end while true do end", &r, &why), -EINVAL);
	buf_fini(&why);
	buf_fini(&delta);
}

/* ---- merges ---- */

static const char all_outputs[] =
	"local a, b, c, d, e = output.count(), output.sum(), output.min(), output.max(), output.mean()\n"
	"local f, g, h, i = output.count_by(), output.sum_by(), output.top(3), output.unique()\n"
	"local j, k, l = output.sample(7), output.quantiles(0.01, 0.5, 0.9, 1), output.histogram(10, 100, 1000)\n"
	"function row(r) local n = math.tointeger(tonumber(r:get('f:n')))\n"
	"a:add() b:add(n) c:add(n) d:add(n) e:add(n) f:add(n % 10) g:add(n % 7, n) h:add(n % 5) i:add(n) j:add(n) k:add(n) l:add(n) end";

/* The number of row i. */
static unsigned number_of(unsigned i)
{
	return i * i % 1999;
}

static void put_number(struct script_run *r, unsigned i)
{
	char row[16], value[16];

	snprintf(row, sizeof(row), "row%u", i);
	snprintf(value, sizeof(value), "%u", number_of(i));
	put(r, row, "f", "n", 1, value);
}

/* The partial outputs of random parts of the rows, merged in any order, are those of one run. */
static void test_merges(void **state)
{
	enum { ROWS = 2000, RUNS = 3 };
	struct script_outputs *o;
	struct script_run *r = start(all_outputs), *part[RUNS];
	struct buf whole = {0}, text = {0};

	assert_int_equal(script_outputs_new(4 << 20, &o), 0);
	for (unsigned i = 0; i < ROWS; i++)
		put_number(r, i);
	take(r, o, NULL);
	script_results_text(o, &whole);
	script_outputs_free(o);
	script_run_free(r);
	assert_true(whole.n > 300);
	for (uint64_t seed = 1; seed < 6; seed++) {
		uint64_t x = seed;

		buf_reset(&text);
		assert_int_equal(script_outputs_new(4 << 20, &o), 0);
		for (unsigned k = 0; k < RUNS; k++)
			part[k] = start(all_outputs);
		for (unsigned i = 0; i < ROWS; i++) {
			struct script_run *to = part[xorshift(&x) % RUNS];

			put_number(to, seed % 2 ? i : ROWS - 1 - i);
			if (xorshift(&x) % 100 == 0)
				take(to, o, NULL);
		}
		for (unsigned k = 0; k < RUNS; k++) {
			take(part[k], o, NULL);
			script_run_free(part[k]);
		}
		script_results_text(o, &text);
		script_outputs_free(o);
		assert_int_equal(text.n, whole.n);
		assert_memory_equal(text.p, whole.p, whole.n);
	}
	buf_fini(&whole);
	buf_fini(&text);
}

/* ---- sketches ---- */

static double result_of(struct script_outputs *o, const char *output, const char *key)
{
	struct script_record r;
	struct buf why = {0};
	double d = NAN;

	while (script_outputs_result(o, &r, &why) > 0) {
		if (bytes_eq(r.output, tfs_str(output)) && bytes_eq(r.key, tfs_str(key))) {
			char text[64];

			snprintf(text, sizeof(text), "%.*s", (int)r.value.n, r.value.p);
			d = strtod(text, NULL);
			break;
		}
	}
	buf_fini(&why);
	return d;
}

/* 200,000 keys: the estimates are within the errors that the manual states (of unique: 4 standard errors). */
static void test_sketches(void **state)
{
	struct script_run *r = start(
		"local u, top, q = output.unique(), output.top(2), output.quantiles(0.5, 0.99)\n"
		"function row(r) local from = tonumber(r.key) * 100\n"
		"for i = from, from + 99 do u:add(i) top:add(i) q:add(i * 1.5) if i % 3 == 0 then top:add('often') end end end");
	struct script_outputs *o;
	double often, n;

	assert_int_equal(script_outputs_new(8 << 20, &o), 0);
	for (unsigned i = 0; i < 2000; i++) {
		char row[16];

		snprintf(row, sizeof(row), "%u", i);
		put(r, row, "f", "q", 1, "");
		if (i % 300 == 299)
			take(r, o, NULL);
	}
	take(r, o, NULL);
	n = result_of(o, "u", "");
	assert_true(fabs(n - 200000) < 200000 * 4 * 0.0081);
	often = result_of(o, "top", "often");
	assert_true(often <= 66667 && often >= 66667 - 266667 / 1000 - 1);
	n = result_of(o, "q", "0.5");
	assert_true(n <= 149999 && n > 149999 * 0.996 - 2);
	n = result_of(o, "q", "0.99");
	assert_true(n <= 1.5 * 198000 && n > 1.5 * 198000 * 0.996 - 2);
	script_run_free(r);
	script_outputs_free(o);
}

/* ---- deltas ---- */

static void test_malformed(void **state)
{
	struct script_run *r = start(all_outputs);
	struct buf delta = {0}, why = {0}, bad = {0};
	struct script_outputs *o;

	put_number(r, 7);
	assert_int_equal(script_run_take(r, &delta, &why), 0);
	script_run_free(r);
	for (size_t n = 0; n < delta.n; n++) {
		assert_int_equal(script_outputs_new(1 << 20, &o), 0);
		assert_int_equal(script_outputs_add(o, tfs_bytes_of(delta.p, n), &why), -EBADMSG);
		script_outputs_free(o);
	}
	/* The delta of another script */
	assert_int_equal(script_outputs_new(1 << 20, &o), 0);
	assert_int_equal(script_outputs_add(o, buf_bytes(&delta), &why), 0);
	r = start("local a = output.count() function row(r) end");
	assert_int_equal(script_run_take(r, &bad, &why), 0);
	assert_int_equal(script_outputs_add(o, buf_bytes(&bad), &why), -EBADMSG);
	script_run_free(r);
	script_outputs_free(o);
	/* Too large for the client */
	assert_int_equal(script_outputs_new(1000, &o), 0);
	assert_int_equal(script_outputs_add(o, buf_bytes(&delta), &why), -SCRIPT_LIMIT);
	script_outputs_free(o);
	buf_fini(&bad);
	buf_fini(&delta);
	buf_fini(&why);
}

/* A value larger than the rings passes in pieces; a run has what it needs again after each row. */
static void test_large(void **state)
{
	struct script_run *r =
		start("local n, l = output.sum(), output.lines() function row(r) local v = r:get('f:q') n:add(#v) l:add(v) end");
	struct script_outputs *o;
	const size_t n = 9 << 20;
	uint8_t *value = malloc(n);
	struct buf delta = {0}, why = {0};
	struct script_record record;

	assert_non_null(value);
	for (size_t i = 0; i < n; i++)
		value[i] = (uint8_t)(i * 7 + i / 1000);
	assert_int_equal(script_outputs_new(1 << 20, &o), 0);
	for (unsigned i = 0; i < 12; i++) {
		const struct script_cell c = {.row = i % 2 ? TFS_S("a") : TFS_S("b"),
			.family = TFS_S("f"),
			.qualifier = TFS_S("q"),
			.value = tfs_bytes_of(value, n)};

		assert_int_equal(script_run_cell(r, &c, &why), 0);
		assert_int_equal(script_run_take(r, &delta, &why), 0);
		assert_int_equal(script_outputs_add(o, buf_bytes(&delta), &why), 0);
		assert_int_equal(script_outputs_streamed(o, &record), 1);
		assert_true(record.kind == SCRIPT_LINE && record.value.n == n && memcmp(record.value.p, value, n) == 0);
		assert_int_equal(script_outputs_streamed(o, &record), 0);
	}
	assert_true(result_of(o, "n", "") == 12.0 * (double)n);
	script_run_free(r);
	script_outputs_free(o);
	buf_fini(&delta);
	buf_fini(&why);
	free(value);
}

/* What waits for a take is told, and a take makes it 0. */
static void test_waiting(void **state)
{
	struct script_run *r = start("local l = output.lines() function row(r) l:add(('x'):rep(100000)) end");
	struct buf delta = {0}, why = {0};

	assert_int_equal(script_run_waiting(r), 0);
	for (unsigned i = 0; i < 40; i++) {
		char row[16];

		snprintf(row, sizeof(row), "%u", i);
		put(r, row, "f", "q", 1, "");
		if (i % 10 == 9) {
			assert_int_equal(script_run_take(r, &delta, &why), 0);
			assert_true(delta.n > 1000000);
			assert_int_equal(script_run_waiting(r), 0);
		}
	}
	script_run_free(r);
	buf_fini(&delta);
	buf_fini(&why);
}

/* A worker serves one run after the other; a run that is left early does no harm. */
static void test_reuse(void **state)
{
	for (unsigned i = 0; i < 30; i++) {
		struct script_run *r = start("leak = (leak or 0) + 1 local n = output.count() function row(r) n:add(leak) end");
		struct script_outputs *o;

		assert_int_equal(script_outputs_new(1 << 20, &o), 0);
		put(r, "a", "f", "q", 1, "");
		if (i % 3) {
			take(r, o, NULL);
			assert_true(result_of(o, "n", "") == 1);
		}
		script_run_free(r);
		script_outputs_free(o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_rows_only),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_merges),
		cmocka_unit_test(test_sketches),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_reuse),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("script", tests, begin, end);
}
