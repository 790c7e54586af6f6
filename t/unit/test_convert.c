/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of bytes that become counters, in a table that may get a salt at
 * the same time (master/convert.c): death at each
 * file operation of the conversion, by SIGKILL and by power cut, and again
 * in the opening that finishes it; an I/O error at each.  Afterwards each
 * value is the text that it was or its 8 bytes, all of them alike, and
 * those that read like texts themselves are converted once; and each row is
 * there once.
 */
#include "master/convert_format.h"
#include "t/unit/server_lib.h"

#include <sys/wait.h>

static const struct {
	const char *text;
	int64_t value;
} values[] = {
	{"7", 7}, {"12345678", 12345678}, {"-1\n", -1}, {" 0 ", 0}, {"+1234567", 1234567}, {"-9999999", -9999999},
	/* Their 8 bytes read "12345678", "00000000", "-7\n\n\n\n\n\n" and "       9". */
	{"3544952156018063160", 3544952156018063160}, {"3472328296227680304", 3472328296227680304},
	{"3258083893660224010\n", 3258083893660224010}, {" 2314885530818453561", 2314885530818453561},
	{"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN},
};
#define VALUES (sizeof(values) / sizeof(values[0]))

static const char as_counter[] = "families = ( { name = \"f\"; type = \"counter\"; } );";

static const char as_salted_counter[] = "salt = 7; families = ( { name = \"f\"; type = \"counter\"; } );";
static const char *wanted = as_counter;

static int set_schema(struct tfs_table *t)
{
	return tfs_schema_set_text(t, tfs_str(wanted), TFS_NO_TIME, NULL);
}

static int plain(void **state)
{
	wanted = as_counter;
	return setup(state);
}

static int salted(void **state)
{
	wanted = as_salted_counter;
	return setup(state);
}

static void fill(void)
{
	struct tfs_table *t;
	char row[16];

	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < VALUES; i++) {
		struct tfs_mutation *m;

		snprintf(row, sizeof(row), "r%u", i / 3);
		m = tfs_mutation_new(t, tfs_str(row));
		assert_int_equal(tfs_mutation_put(m, "f", tfs_bytes("abc" + i % 3, 1), tfs_at((int64_t)i), tfs_str(values[i].text)), 0);
		assert_int_equal(tfs_mutation_put(m, "f", tfs_bytes("abc" + i % 3, 1), tfs_at((int64_t)i + 100), tfs_str(values[i].text)), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
	}
	tfs_table_close(t);
	close_store(true);
}

static bool is_counter(struct tfs_table *t)
{
	const struct tfs_schema *s;
	bool yes;

	assert_int_equal(tfs_schema_get(t, &s), 0);
	yes = tfs_schema_family(s, "f")->type == TFS_TYPE_COUNTER;
	tfs_schema_put(s);
	return yes;
}

static void expect_rows(struct tfs_table *t)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
	struct tfs_scan *s;
	struct tfs_cell c;
	char row[16];

	assert_int_equal(tfs_scan_new(t, &spec, &s), 0);
	for (unsigned i = 0; i < VALUES / 3; i++) {
		snprintf(row, sizeof(row), "r%u", i);
		assert_int_equal(tfs_scan_next(s, &c), 1);
		assert_int_equal(c.row.size, strlen(row));
		assert_memory_equal(c.row.data, row, c.row.size);
	}
	assert_int_equal(tfs_scan_next(s, &c), 0);
	tfs_scan_free(s);
}

static void expect_values(struct tfs_table *t, bool counters)
{
	for (unsigned i = 0; i < 2 * VALUES; i++) {
		unsigned v = i % VALUES;
		char row[16], p[64] = {0};
		size_t got, n = counters ? 8 : strlen(values[v].text);
		uint8_t be[8];
		int err;

		snprintf(row, sizeof(row), "r%u", v / 3);
		put_be64(be, (uint64_t)values[v].value);
		err = tfs_read(t, tfs_str(row), "f", tfs_bytes("abc" + v % 3, 1), tfs_at((int64_t)(i < VALUES ? v : v + 100)), 0, p,
			       sizeof(p), &got, NULL);
		assert_int_equal(err, 0);
		if (got != n || memcmp(p, counters ? (const char *)be : values[v].text, n))
			print_message("%s of \"%s\" is \"%.*s\"\n", counters ? "the counter" : "the text", values[v].text, (int)got, p);
		assert_int_equal(got, n);
		assert_memory_equal(p, counters ? (const char *)be : values[v].text, n);
	}
}

/* ---- deaths ---- */
static struct death {
	uint64_t at;
	bool power;
	uint64_t seed;
	_Atomic bool armed;
} death;

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	uint64_t x = (death.seed * 1000003 + index + 1) * 0x9e3779b97f4a7c15u;

	(void)arg;
	return death.seed == 0 ? 0 : (unsigned)((x >> 33) % ways);
}

static int die_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	(void)arg, (void)op, (void)path, (void)offset, (void)n;
	if (!death.armed || number != death.at)
		return 0;
	if (death.power && file_forget_crash(choose, NULL))
		_exit(3);
	_exit(1);
}

/* Runs fn in a child that dies at its at-th file operation; 0: it came to its end, 1: it died. */
static int dies(void (*fn)(void), uint64_t at, bool power, uint64_t seed)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		death = (struct death){at, power, seed, false};
		if (power && file_forget_start(in_dir("d")))
			_exit(4);
		fn();
		if (power && file_forget_crash(choose, NULL))
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status);
}

static void arm(void)
{
	set_hook(die_at, NULL);
	death.armed = true;
}

static void convert_and_die(void)
{
	struct tfs_table *t;

	hooks.no_flush = true;
	open_store();
	t = open_table("t");
	arm();
	if (set_schema(t))
		_exit(5);
	death.armed = false;
}

static void open_and_die(void)
{
	arm();
	open_store();
	death.armed = false;
}

/* Leftovers of a conversion are a note, not damage. */
static void check_is_clean(void)
{
	const char *build = getenv("BUILD");
	char cmd[900];

	snprintf(cmd, sizeof(cmd), "%s/tabletctl", build ? build : "");
	if (!build || access(cmd, X_OK))
		return;
	snprintf(cmd, sizeof(cmd), "%s/tabletctl check d > said 2>&1 || { cat said; false; }; ! test -e d/lock/convert/16 || grep -q "
		 "'^note: .*convert/16' said", build);
	shell(cmd);
}

static bool look_after(bool answered)
{
	struct tfs_table *t;
	bool counters;

	check_is_clean();
	open_store();
	t = open_table("t");
	counters = is_counter(t);
	assert_true(counters || !answered);
	expect_values(t, counters);
	if (!counters)
		assert_int_equal(set_schema(t), 0);
	expect_values(t, true);
	expect_rows(t);
	assert_false(exists("d/lock/convert/16"));
	tfs_table_close(t);
	close_store(true);
	return counters;
}

static void deaths(bool power)
{
	unsigned before = 0, after = 0;
	bool ended = false;

	fill();
	shell("cp -a d whole");
	for (uint64_t at = 1; !ended; at++) {
		for (uint64_t seed = 0; seed < (power ? 3 : 1); seed++) {
			shell("rm -rf d d.forget && cp -a whole d");
			ended = !dies(convert_and_die, at, power, seed);
			if (look_after(ended))
				after++;
			else
				before++;
		}
	}
	print_message("# %u deaths before the schema's change, %u after it\n", before, after);
	assert_true(before > 5 && after > 5);
}

static void killed(void **state)
{
	(void)state;
	deaths(false);
}

static void power_cut(void **state)
{
	(void)state;
	deaths(true);
}

/* Died in the middle, and again in the openings that would finish it. */
static void killed_again(void **state)
{
	unsigned died = 0;

	(void)state;
	fill();
	shell("cp -a d whole");
	for (uint64_t at = 12; at < 40; at += 3) {
		for (uint64_t again = 20; again < 90; again += 7) {
			shell("rm -rf d && cp -a whole d");
			(void)!dies(convert_and_die, at, false, 0);
			died += (unsigned)dies(open_and_die, again, false, 0);
			died += (unsigned)dies(open_and_die, again + 3, false, 0);
			(void)look_after(false);
		}
	}
	print_message("# %u openings died\n", died);
	assert_true(died > 50);
}

/* ---- errors ---- */
static int put_counter(struct tfs_table *t)
{
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str("new"));
	int err = tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), TFS_S("12345678"));

	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err;
}

/* -ENOENT would be wrong: the last row there is, the last that is moved. */
static int look_at_value(struct tfs_table *t)
{
	struct tfs_info info;

	return tfs_stat(t, TFS_S("r3"), "f", TFS_S("c"), tfs_at(11), &info);
}

struct failing {
	_Atomic uint64_t at, times;
};

static int fail_from(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const struct failing *f = arg;

	(void)op, (void)path, (void)offset, (void)n;
	return number >= f->at && number < f->at + f->times ? -EIO : 0;
}

/*
 * A conversion that an error ends in the middle: no write is taken that
 * would be converted with the rest, until it is finished, by the schema
 * written once more or by the next start.
 */
static void errors(void **state)
{
	static struct failing f;
	unsigned stuck = 0;

	(void)state;
	fill();
	shell("cp -a d whole");
	for (unsigned round = 0; round < 3; round++) {
		/* One error, then the schema again; one, then a new start; an error for good, then a new start. */
		for (uint64_t at = 1; at < 60; at++) {
			struct tfs_table *t;
			bool counters;
			int err, wrote;

			shell("rm -rf d && cp -a whole d");
			open_store();
			t = open_table("t");
			f.at = at;
			f.times = round == 2 ? 1000 : 1;
			set_hook(fail_from, &f);
			err = set_schema(t);
			set_hook(NULL, NULL);
			wrote = put_counter(t);
			if (wrote) {
				assert_int_not_equal(err, 0);
				assert_true(wrote == -EIO || wrote == -EROFS);
				if (round < 2)
					assert_int_equal(delete_row(t, "new"), -EIO);
				stuck++;
			}
			if (round == 0)
				assert_int_equal(set_schema(t), 0);
			tfs_table_close(t);
			close_store(round == 1);
			open_store();
			t = open_table("t");
			counters = is_counter(t);
			assert_true(counters || round > 0);
			expect_values(t, counters);
			assert_int_equal(put_counter(t), 0);
			tfs_table_close(t);
			close_store(false);
		}
	}
	print_message("# %u times no write was taken\n", stuck);
	assert_true(stuck > 4);
}

/*
 * The same with background work: nobody writes the schema again.  Meanwhile
 * nobody is told that a row is not there, by name or by a scan.
 */
static void by_itself(void **state)
{
	static struct failing f;
	static const uint64_t at[] = {16, 22, 28, 34, 40, 46, 52};
	unsigned stuck = 0;

	(void)state;
	fill();
	shell("cp -a d whole");
	options.no_background = false;
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {
		const uint64_t until = monotonic_us() + UINT64_C(60000000);
		struct tfs_table *t, *other;
		int err, seen = 0;

		shell("rm -rf d && cp -a whole d");
		open_store();
		t = open_table("t");
		f.at = at[i];
		f.times = 1 + i % 2; /* or it fails again in the first try */
		set_hook(fail_from, &f);
		err = set_schema(t);
		other = open_table("t"); /* knows the new salt, if there is one */
		if (err && is_counter(other)) {
			struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
			struct tfs_scan *s;
			struct tfs_cell c;
			unsigned rows = 0;

			stuck++;
			while ((seen = look_at_value(other)) == -EIO)
				assert_true(monotonic_us() < until);
			assert_int_equal(seen, 0);
			assert_int_equal(tfs_scan_new(other, &spec, &s), 0);
			while ((err = tfs_scan_next(s, &c)) > 0)
				rows++;
			tfs_scan_free(s);
			assert_int_equal(err, 0);
			assert_int_equal(rows, VALUES / 3);
		}
		set_hook(NULL, NULL);
		if (is_counter(other)) {
			expect_values(other, true);
			expect_rows(other);
			assert_int_equal(put_counter(other), 0);
			assert_false(exists("d/lock/convert/16"));
		}
		tfs_table_close(other);
		tfs_table_close(t);
		close_store(true);
	}
	print_message("# %u times it was ended by itself\n", stuck);
	assert_true(stuck > 0);
}

/*
 * Errors that last a little: whether the schema was changed is not known, and
 * when it is asked not to be known either.  Then it turns out that it was or
 * was not, and the table is read and written again in any case; by itself, or
 * when the schema is written again.
 */
static void in_doubt(void **state)
{
	static struct failing f;
	unsigned undone = 0, done = 0;

	(void)state;
	fill();
	shell("cp -a d whole");
	for (unsigned i = 0; i < 80; i++) {
		const uint64_t until = monotonic_us() + UINT64_C(60000000);
		struct tfs_table *t, *other;
		int seen;

		shell("rm -rf d && cp -a whole d");
		options.no_background = i % 2;
		open_store();
		t = open_table("t");
		f.at = 1 + i / 4;
		f.times = i % 4 < 2 ? 4 : 12;
		set_hook(fail_from, &f);
		(void)!set_schema(t);
		set_hook(NULL, NULL);
		other = open_table("t");
		if (look_at_value(other) == -EIO) {
			if (options.no_background)
				assert_int_equal(set_schema(other), 0);
			while ((seen = look_at_value(other)) == -EIO)
				assert_true(monotonic_us() < until);
			assert_int_equal(seen, 0);
			tfs_table_close(other);
			other = open_table("t");
			*(is_counter(other) ? &done : &undone) += 1;
			expect_values(other, is_counter(other));
			expect_rows(other);
		}
		tfs_table_close(other);
		tfs_table_close(t);
		close_store(true);
	}
	print_message("# %u times it was, %u times it was not\n", done, undone);
	assert_true(done > 0 && undone > 0);
}

/* ---- a value that a scan does not give ---- */
#define LARGE 6000000 /* more than the cache of blocks keeps, one in each of its shards at least */

static int fail_read(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct failing *f = arg;

	(void)offset, (void)n, (void)number;
	if (op != FILE_OP_READ || !strstr(path, "/sst/16/"))
		return 0;
	return f->at && --f->at == 0 ? -EIO : 0;
}

static void expect_large(struct tfs_table *t)
{
	static uint8_t p[LARGE + 1];
	uint64_t x = 1;
	size_t got;

	assert_int_equal(tfs_read(t, TFS_S("s"), "f", TFS_S("q"), tfs_at(5), 0, p, sizeof(p), &got, NULL), 0);
	assert_int_equal(got, LARGE);
	for (unsigned i = 0; i < LARGE; i++)
		assert_int_equal(p[i], (uint8_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56));
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(look(t, "t"), 0);
}

static void fill_large(void)
{
	static uint8_t p[LARGE];
	struct tfs_mutation *m;
	struct tfs_table *t;
	uint64_t x = 1;

	for (unsigned i = 0; i < LARGE; i++)
		p[i] = (uint8_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(put(t, "t", "f", "v"), 0);
	m = tfs_mutation_new(t, TFS_S("s"));
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(5), tfs_bytes(p, LARGE)), 0);
	assert_int_equal(tfs_apply(m, 0, NULL), 0);
	tfs_mutation_free(m);
	expect_large(t);
	tfs_table_close(t);
	close_store(true);
}

static int table_salt(struct tfs_table *t)
{
	const struct tfs_schema *s;
	int salt;

	assert_int_equal(tfs_schema_get(t, &s), 0);
	salt = s->salt;
	tfs_schema_put(s);
	return salt;
}

/*
 * Read in pieces for its salted copy: a piece that is damaged refuses the
 * schema, before anything has been moved; an error in between, of each read,
 * is overcome.
 */
static void large(void **state)
{
	static struct failing f;
	unsigned before = 0, after = 0;
	bool more = true;
	struct tfs_table *t;

	(void)state;
	wanted = "salt = 7; families = ( { name = \"f\"; } );";
	options.block_cache_bytes = 64 << 10;
	options.memtable_bytes = 64 << 20;
	fill_large();
	shell("cp -a d whole; for i in d/sst/16/*; do printf X | dd of=$i bs=1 seek=3000000 conv=notrunc 2>/dev/null; done");
	open_store();
	t = open_table("t");
	assert_int_equal(set_schema(t), -EBADMSG);
	assert_int_equal(table_salt(t), 0);
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(false);
	options.no_background = false;
	for (unsigned at = 1; more; at += 5) {
		const uint64_t until = monotonic_us() + UINT64_C(60000000);
		int err;

		shell("rm -rf d && cp -a whole d");
		open_store();
		t = open_table("t");
		f.at = at;
		set_hook(fail_read, &f);
		err = set_schema(t);
		set_hook(NULL, NULL);
		tfs_table_close(t);
		t = open_table("t");
		more = !f.at;
		assert_int_equal(err, more ? -EIO : 0);
		before += err && !table_salt(t);
		after += err && table_salt(t);
		while (err && table_salt(t) && (err = look(t, "t")) == -EIO)
			assert_true(monotonic_us() < until);
		assert_true(!err || !table_salt(t));
		expect_large(t);
		tfs_table_close(t);
		close_store(true);
	}
	print_message("# %u reads failed before anything was moved, %u after\n", before, after);
	assert_true(before > 1 && after > 1);
}

/* ---- what cannot be ended ---- */

/* When all has been looked at and found good. */
static int damage_then(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	bool *done = arg;

	(void)offset, (void)n, (void)number;
	if (!*done && op == FILE_OP_CREATE && strstr(path, "/lock/convert/")) {
		*done = true;
		shell("for i in d/sst/16/*; do printf X | dd of=$i bs=1 seek=3000000 conv=notrunc 2>/dev/null; done");
	}
	return 0;
}

static char *status_text(void)
{
	char *p = NULL;

	assert_int_equal(tfs_status(store, &p), 0);
	return p;
}

static int tablet_state(void *arg, const struct tfs_tablet *tablet)
{
	snprintf(arg, 20, "%s", tablet->state);
	return 0;
}

static void expect_refused(struct tfs_table *t, struct tfs_table *other, bool yes)
{
	char *status = status_text(), state[20];

	assert_non_null(strstr(status, yes ? "\ntables_refused 1\n" : "\ntables_refused 0\n"));
	free(status);
	assert_int_equal(tfs_tablets(t, tablet_state, state), 0);
	assert_int_equal(strcmp(state, "converting") == 0, yes);
	assert_int_equal(put(t, "new", "f", "v"), yes ? -EIO : 0);
	assert_int_equal(look(t, "new"), yes ? -EIO : 0);
	assert_int_equal(put(other, "r", "f", "v"), 0);
	assert_int_equal(look(other, "r"), 0);
}

/*
 * The table alone is not to be read or written, over any number of starts,
 * until all of it is given up.
 */
static void for_good(void **state)
{
	struct tfs_table *t, *other;
	bool damaged = false;

	(void)state;
	wanted = "salt = 7; families = ( { name = \"f\"; } );";
	options.block_cache_bytes = 64 << 10;
	options.memtable_bytes = 64 << 20;
	fill_large();
	open_store();
	t = open_table("t");
	other = make_table("other");
	set_hook(damage_then, &damaged);
	assert_int_equal(set_schema(t), -EBADMSG);
	set_hook(NULL, NULL);
	assert_true(damaged);
	for (unsigned i = 0; i < 3; i++) {
		expect_refused(t, other, true);
		assert_int_equal(set_schema(t), -EBADMSG);
		assert_int_equal(tfs_table_drop(store, "t"), -ENOTEMPTY);
		tfs_table_close(t);
		tfs_table_close(other);
		close_store(i == 1);
		options.no_background = i == 1;
		open_store();
		t = open_table("t");
		other = open_table("other");
		assert_int_equal(table_salt(t), 7);
	}
	/* Not a family that stays, nor without saying so. */
	assert_int_equal(tfs_schema_set_text(t, tfs_str("allow_delete = true; families = ( { name = \"f\"; } );"), TFS_NO_TIME, NULL), -EBADMSG);
	assert_int_equal(tfs_schema_set_text(t, tfs_str("families = ( );"), TFS_NO_TIME, NULL), -EBADMSG);
	expect_refused(t, other, true);
	assert_int_equal(tfs_schema_set_text(t, tfs_str("allow_delete = true; families = ( );"), TFS_NO_TIME, NULL), 0);
	assert_false(exists("d/lock/convert/16"));
	assert_int_equal(set_schema(t), 0);
	assert_int_equal(look(t, "r"), -ENOENT);
	expect_refused(t, other, false);
	/* What is damaged is damaged; a table that has no families goes all the same. */
	assert_int_equal(tfs_schema_set_text(t, tfs_str("allow_delete = true; families = ( );"), TFS_NO_TIME, NULL), 0);
	shell("for i in d/sst/16/*; do dd if=/dev/zero of=$i bs=1000 count=5000 conv=notrunc 2>/dev/null; done");
	tfs_table_close(t);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	t = make_table("t");
	assert_int_equal(set_schema(t), 0);
	expect_refused(t, other, false);
	tfs_table_close(t);
	tfs_table_close(other);
	close_store(true);
	check_is_clean();
}

static void file_convert(const char *name, struct slice contents)
{
	struct lock_service *locks;

	assert_int_equal(lock_local_open(in_dir("d/lock"), &locks), 0);
	assert_int_equal(lock_put(locks, name, contents, LOCK_ANY, NULL), 0);
	lock_service_free(locks);
}

/*
 * A conversion under way whose file is whole and makes no sense: the start is
 * refused before a value is touched.  A list that is damaged only at its end
 * must not have let what stands before it be converted.
 */
static void senseless_files(void **state)
{
	static const uint16_t ids[][2] = {{1, 1}, {2, 1}, {0, 1}};
	struct convert_key key = {.family = 1, .row = slice_str("r1"), .qualifier = slice_str("a"), .ts = 5};
	struct buf b = {0};
	struct tfs_table *t;

	(void)state;
	fill();
	shell("cp -a d whole");
	for (unsigned i = 0; i < 6; i++) {
		buf_reset(&b);
		assert_int_equal(convert_head_encode(false, i < 3 ? ids[i] : ids[0], i < 3 ? 2 : 1, &b), 0);
		assert_int_equal(convert_twin_encode(&key, &b), 0);
		key.ts = i == 4 ? 6 : 5; /* newest first; 3: twice the same */
		if (i > 2)
			assert_int_equal(i == 5 ? buf_u8(&b, 0) : convert_twin_encode(&key, &b), 0);
		key.ts = 5;
		file_convert("convert/16", buf_slice(&b));
		refused("convert/16", -EBADMSG);
		shell("cp d/lock/incarnation . && rm -r d/lock && cp -a whole/lock d/lock && cp incarnation d/lock");
		open_store();
		t = open_table("t");
		expect_values(t, false);
		tfs_table_close(t);
		close_store(true);
	}
	/* what is not named as ours are is nobody's */
	file_convert("convert/016", slice_str("x"));
	file_convert("convert/notes", slice_str("x"));
	open_store();
	close_store(true);
	assert_true(exists("d/lock/convert/016"));
	buf_fini(&b);
}

int main(void)
{
#define PLAIN(f) {#f, f, plain, teardown, NULL}
#define SALTED(f) {#f "_salted", f, salted, teardown, NULL}
	const struct CMUnitTest tests[] = {
		PLAIN(killed),        SALTED(killed),       PLAIN(power_cut), SALTED(power_cut), PLAIN(killed_again),
		SALTED(killed_again), PLAIN(errors),        SALTED(errors),   PLAIN(senseless_files),
		PLAIN(by_itself),     SALTED(by_itself),    PLAIN(large),
		PLAIN(for_good),      SALTED(in_doubt),
	};

	return RUN(tests);
}
