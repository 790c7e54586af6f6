/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts from any bytes, in the worker's interpreter with small limits, over two rows.  The first byte says
 * whether the text is a filter.  Each input runs in a child, because the end of a run at a limit is the end of the process.
 * A child that ends otherwise than by a limit or an error of the script is a defect.
 */
#include "engine/script/worker_lua.h"
#include "engine/script/worker_row.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static int take_piece(void *arg, struct tfs_bytes piece)
{
	struct buf *delta = arg;

	return buf_append_bytes(delta, piece);
}

static void add_row(struct worker *w, const char *key, struct tfs_bytes value)
{
	const struct script_cell c = {.family = TFS_S("f"), .qualifier = TFS_S("q"), .ts = 5, .value = value};

	CHECK(budget_append(&w->budget, &w->key, key, strlen(key)) == 0);
	row_add(w, &c);
	row_add(w, &c);
	lua_row(w);
	w->key.n = 0;
}

static void run(struct worker *w, const uint8_t *data, size_t size)
{
	const struct script_limits limits = {.instructions = 100000, .memory = 2 << 20, .time_us = 10000000};
	const struct tfs_bytes arg = TFS_S("key=value");
	struct script_outputs *o;
	struct buf delta = {0}, why = {0};

	worker_begin(&limits);
	memcpy(w->name, "fuzz", 5);
	w->filter = data[0] & 1;
	lua_begin(w, tfs_bytes_of(data + 1, size - 1), &arg, 1);
	for (unsigned i = 0; i < 2; i++) {
		add_row(w, "row", tfs_bytes_of(data, size < 40 ? size : 40));
		buf_reset(&delta);
		CHECK(lua_take(w, take_piece, &delta) == 0);
		if (!w->filter) {
			CHECK(script_outputs_new(16 << 20, &o) == 0);
			CHECK(script_outputs_add(o, buf_bytes(&delta), &why) == 0);
			script_outputs_free(o);
		}
	}
	lua_end(w);
	CHECK(w->budget.used == 0);
	buf_fini(&delta);
	buf_fini(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct shared *s;
	int status = 0;
	pid_t pid;

	if (size < 1 || size > SCRIPT_TEXT_MAX)
		return 0;
	if (!s)
		s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(s != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		worker_get()->shared = s;
		run(worker_get(), data, size);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 1));
	if (WEXITSTATUS(status) == 1)
		CHECK(s->failure.outcome == CHANNEL_FAILED || s->failure.outcome == CHANNEL_AT_LIMIT);
	s->failure.outcome = CHANNEL_RUNS;
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const texts[] = {
		"\0local n = output.count() function row(r) n:add() end",
		"\0local t, u, s = output.top(2), output.unique(), output.sample(2) function row(r) t:add(r.key, 3) u:add(1) s:add(r:get('f:q')) end",
		"\0local a, b, c = output.sum(), output.min(), output.mean() function row(r) a:add(1.5) b:add('7') c:add(math.mininteger) end",
		"\0local q, h, l = output.quantiles(0, 1), output.histogram(1, 2), output.lines('x') function row(r) q:add(1) h:add(-1) l:add(r.key) end",
		"\0local c, s = output.count_by(), output.sum_by() function row(r) for _, x in ipairs(r:cells('f:', '.*')) do c:add(x.value) s:add(x.qualifier, x.timestamp) end end",
		"\0function row(r) emit(r, 'a:b', 1, arg.key) for w in re.gmatch(r:get('f:q'), '(\\w+)(x)?') do emit(w, 'a:', 2, w) end end",
		"\0local l = output.lines() function row(r) l:add(re.gsub('hello', '(l+)', '<%1>')) l:add(table.concat({1, 2}, ',')) "
		"l:add(string.format('%q %5.2f', 'a', 1)) end",
		"\0function row(r) local t = {} for i = 1, 100 do t[i] = i * 7 % 13 end table.sort(t, function(a, b) return a > b end) "
		"table.move(t, 1, 50, 3) table.insert(t, 1, 0) table.remove(t) end",
		"\0function row(r) pcall(error, {}) xpcall(function() error('x') end, tostring) local ok <close> = nil goto out ::out:: end",
		"\0function row(r) string.pack('>I4s2z', 7, 'ab', 'c') utf8.codepoint('\\u{20ac}', 1) ('x'):rep(99):upper():sub(-3):byte(1, -1) end",
		"\1tonumber(r:get('f:q') or 0) > 100 and re.match(r.key, '^r.w$')",
	};

	if (i >= sizeof(texts) / sizeof(*texts))
		return 0;
	*data = (const uint8_t *)texts[i];
	return 1 + strlen(texts[i] + 1);
}
