/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The logs of dead incarnations are replayed in sorted parts by several threads, and
 * reads afterwards agree with a model.  The tablets of one table are cut by rows
 * put into METADATA, with several logs.  A start reports a damaged record.
 */
#include "engine/log/log.h"
#include "t/lib/file_faults.h"
#include "t/unit/server_lib.h"
#include "t/lib/xorshift.h"

enum { TABLETS = 12, ROWS = 300, TABLES = 3, VALUE = 40 };

/* The value that each cell must have; "": absent. */
static char model[TABLES][ROWS][VALUE];

static uint64_t state;
static uint64_t rnd(uint64_t below)
{
	return xorshift(&state) % below;
}

static const char *name_of(unsigned table)
{
	static const char *const names[TABLES] = {"t", "u", "v"};

	return names[table];
}

static const char *row_of(unsigned i)
{
	static char row[16];

	snprintf(row, sizeof(row), "r%03u", i);
	return row;
}

static void cut(const char *name)
{
	struct tablet_service *svc = server_service(hooks.server);
	struct tfs_table *t = open_table(name);

	for (unsigned i = 1; i < TABLETS; i++) {
		struct meta_tablet m = {.table = tfs_table_id(t)};
		const char *end = row_of(i * ROWS / TABLETS);
		struct server_load load;
		struct arena arena = {0};
		struct buf key = {0};
		struct op *ops;
		unsigned count;

		assert_int_equal(server_get_load(hooks.server, &load), 0);
		m.server = load.incarnation;
		assert_int_equal(buf_set(&m.end, end, strlen(end)), 0);
		assert_int_equal(meta_row_key(&key, m.table, false, tfs_str(end)), 0);
		assert_int_equal(meta_ops_new(&m, &arena, &ops, &count), 0);
		assert_int_equal(metadata_mutate(svc, buf_bytes(&key), ops, count), 0);
		meta_tablet_fini(&m);
		arena_fini(&arena);
		buf_fini(&key);
	}
	tfs_table_close(t);
}

/* One of two tables is one tablet, the second table many. */
static void make_store(void)
{
	open_store();
	for (unsigned i = 0; i < TABLES; i++)
		tfs_table_close(make_table(name_of(i)));
	cut("t");
	cut("u");
	close_store(true);
	memset(model, 0, sizeof(model));
	state = 88172645463325252u;
}

static void write_some(unsigned n)
{
	struct tfs_table *t[TABLES];

	for (unsigned i = 0; i < TABLES; i++)
		t[i] = open_table(name_of(i));
	while (n--) {
		unsigned k = (unsigned)rnd(TABLES), i = (unsigned)rnd(ROWS);

		if (rnd(5)) {
			snprintf(model[k][i], VALUE, "%u of %llu", k, (unsigned long long)state);
			assert_int_equal(put(t[k], row_of(i), "f", model[k][i]), 0);
		} else {
			model[k][i][0] = 0;
			assert_int_equal(delete_row(t[k], row_of(i)), 0);
		}
	}
	for (unsigned i = 0; i < TABLES; i++)
		tfs_table_close(t[i]);
}

static void all_is_there(void)
{
	for (unsigned k = 0; k < TABLES; k++) {
		struct tfs_table *t = open_table(name_of(k));

		for (unsigned i = 0; i < ROWS; i++) {
			char value[VALUE] = "";
			size_t got = 0;
			int err =
				tfs_read(t, tfs_str(row_of(i)), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);

			assert_int_equal(err, model[k][i][0] ? 0 : -ENOENT);
			value[got] = 0;
			assert_string_equal(value, model[k][i]);
		}
		tfs_table_close(t);
	}
}

static void flush_one(void)
{
	struct tfs_table *t = open_table("u");

	assert_int_equal(tfs_flush(t), 0);
	tfs_table_close(t);
}

/* Stretches from one record on to all; several dead logs, all unflushed but for one table's. */
static void in_stretches(void **arg)
{
	static const size_t sizes[] = {1, 1000, 5000, 100000, 16u << 20};

	make_store();
	for (unsigned round = 0; round < 2 * sizeof(sizes) / sizeof(sizes[0]); round++) {
		hooks.replay_part_bytes = sizes[round / 2];
		open_store();
		all_is_there();
		write_some(400);
		if (round % 3 == 1)
			flush_one(); /* its redo points advance beyond the other tablets' redo points */
		write_some(100);
		all_is_there();
		close_store(false);
	}
	open_store();
	all_is_there();
	close_store(true);
	open_store();
	all_is_there();
	close_store(true);
}

/* Values larger than a stretch, and larger than one read of the log. */
static void large_values(void **arg)
{
	size_t got;
	uint8_t *value = malloc(3u << 20), *read = malloc(3u << 20);
	struct tfs_table *t;

	for (size_t i = 0; i < 3u << 20; i++)
		value[i] = (uint8_t)(i * 7 + (i >> 9));
	make_store();
	options.log_segment_bytes = 64u << 20;
	options.memtable_bytes = 64u << 20;
	hooks.replay_part_bytes = 1u << 20;
	open_store();
	t = open_table("t");
	for (unsigned i = 0; i < 8; i++) {
		struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(row_of(i * 37)));

		assert_int_equal(
			tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(value + i, (i % 2 ? 3u << 20 : 100u) - 8)), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
	}
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("t");
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(tfs_read(t, tfs_str(row_of(i * 37)), "f", TFS_S("q"), TFS_AUTO, 0, read, 3u << 20, &got, NULL), 0);
		assert_int_equal(got, (i % 2 ? 3u << 20 : 100u) - 8);
		assert_memory_equal(read, value + i, got);
	}
	tfs_table_close(t);
	close_store(true);
	free(value);
	free(read);
}

/* A table dropped after its records were written: they belong to no tablet. */
static void of_a_dropped_table(void **arg)
{
	struct tfs_table *t;

	make_store();
	open_store();
	write_some(300);
	t = open_table("u");
	for (unsigned i = 0; i < ROWS; i++) {
		assert_int_equal(delete_row(t, row_of(i)), 0);
		model[1][i][0] = 0;
	}
	tfs_table_close(t);
	assert_int_equal(tfs_table_drop(store, "u"), 0);
	tfs_table_close(make_table("u")); /* another directory of that name */
	close_store(false);
	open_store();
	all_is_there();
	close_store(true);
}

/* ---- records that are whole, with a batch that is not ---- */
struct forge {
	struct log *log;
	uint64_t bad[2];
};

static int copy_record(void *arg, const struct log_record *r)
{
	struct forge *f = arg;
	struct log_record c = *r;
	uint8_t bad[64] = {1, (uint8_t)r->row_from.n};
	struct log_ticket t;
	int err;

	if (r->lsn == f->bad[0] || r->lsn == f->bad[1]) {
		assert_in_range(r->row_from.n, 1, sizeof(bad) - 3);
		memcpy(bad + 2, r->row_from.p, r->row_from.n);
		bad[2 + r->row_from.n] = 255; /* a cell of no kind */
		c.batch = tfs_bytes_of(bad, 3 + r->row_from.n);
	}
	err = log_submit(f->log, &c, false, &t);
	if (!err)
		err = log_wait(f->log, &t);
	assert_int_equal(t.lsn, r->lsn);
	return err;
}

static void forge_log(unsigned incarnation, uint64_t bad, uint64_t bad_too)
{
	struct forge f = {.bad = {bad, bad_too}};
	struct log_options o = {.incarnation = incarnation, .segment_bytes = 1 << 20};
	char dir[32], forged[600];
	struct log_end end;

	assert_int_equal(task_pool_new("forge", 1, &o.pool), 0);
	snprintf(dir, sizeof(dir), "d/log/%u", incarnation);
	snprintf(forged, sizeof(forged), "%s", in_dir("forged"));
	o.dir = forged;
	assert_int_equal(file_mkdir(forged), 0);
	assert_int_equal(log_new(&o, &f.log), 0);
	assert_int_equal(log_replay(in_dir(dir), 1, copy_record, &f, &end, NULL), 0);
	assert_int_equal(log_free(f.log), 0);
	task_pool_free(o.pool);
	snprintf(forged, sizeof(forged), "rm -r %s && mv forged %s", dir, dir);
	shell(forged);
}

struct seen {
	uint64_t of_user[2000];
	unsigned users;
};

static int see(void *arg, const struct log_record *r)
{
	struct seen *s = arg;

	if (r->table != META_TABLE && s->users < 2000)
		s->of_user[s->users++] = r->lsn;
	return 0;
}

/* The start is refused, names the log and the first such record of the stretch, and changes nothing. */
/* METADATA needs older records than the root tablet: the part of the log in memory is too small, so the log is read again. */
static void root_needs_less(void **arg)
{
	struct buf key = {0};
	struct tfs_table *t;
	struct served_tablet *root;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(served_find(hooks.server, META_TABLE, tfs_bytes_of("", 0), &root), 0);
	assert_int_equal(root->kind, KIND_ROOT);
	assert_int_equal(tablet_flush(root->tablet), 0);
	served_put(root);
	assert_int_equal(meta_row_key(&key, tfs_table_id(t), false, tfs_str("m")), 0);
	assert_int_equal(tablets_split(hooks.server, META_TABLE, buf_bytes(&key)), 0);
	buf_fini(&key);
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("t");
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(false);
}

static void damaged_batches(void **arg)
{
	static struct seen seen;
	struct log_end end;
	char part[100];

	make_store();
	open_store();
	write_some(600);
	close_store(false);
	seen.users = 0;
	assert_int_equal(log_replay(in_dir("d/log/2"), 1, see, &seen, &end, NULL), 0);
	assert_true(seen.users > 500);
	assert_true(put_back("d", "whole"));
	for (unsigned i = 0; i < 12; i++) {
		uint64_t bad = seen.of_user[i % 4 ? i * 40 : seen.users - 1],
			 too = seen.of_user[i % 3 ? i * 45 + 3 : seen.users - 2];

		forge_log(2, bad, too);
		hooks.replay_part_bytes = i % 2 ? 16u << 20 : 2000;
		snprintf(part, sizeof(part), "log/2: record %llu: the batch is damaged",
			(unsigned long long)(bad < too ? bad : too));
		refused(part, -EBADMSG);
		assert_true(put_back("whole", "d"));
	}
	open_store();
	all_is_there();
	close_store(true);
}

/* Reads that fail: the log is named, and the next start finds everything. */
static void reads_fail(void **arg)
{
	static struct fault f;

	make_store();
	open_store();
	write_some(600);
	close_store(false);
	for (unsigned i = 1; i < 12; i++) {
		f = (struct fault){.op = i % 2 ? FILE_OP_READ : FILE_OP_OPEN, .part = "/log/2/", .times = 1, .err = -EIO};
		set_hook(fail_some, &f);
		refused("log/2", -EIO);
		set_hook(NULL, NULL);
	}
	open_store();
	all_is_there();
	close_store(true);
}

/* Fails the listing of the tables being dropped, which follows the replay. */
static int fail_drops(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return op == FILE_OP_LIST && strstr(path, "/lock/dropped") ? -EIO : 0;
}

/* Records after a damaged record are lost, which a start accepts.  If it fails later, it does not name them as the cause. */
static void lost_records_are_no_cause(void **arg)
{
	struct tfs_table *t;
	struct buf b = {0};
	uint8_t *at;

	options.sync_interval_us = UINT64_C(3600000000);
	make_store();
	open_store();
	t = open_table("v");
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(put(t, row_of(i), "f", row_of(i)), 0);
	tfs_table_close(t);
	shell("cp -a d killed"); /* before the close syncs the log */
	close_store(false);
	shell("rm -rf d && mv killed d");
	assert_int_equal(file_read_all(in_dir("d/log/2/0000000001.log"), 1 << 22, &b), 0);
	at = memmem(b.p, b.n, "r010", 4);
	assert_non_null(at);
	damage(in_dir("d/log/2/0000000001.log"), at - b.p);
	buf_fini(&b);
	set_hook(fail_drops, NULL);
	refused("d: Input/output error", -EIO);
	set_hook(NULL, NULL);
	open_store();
	t = open_table("v");
	assert_int_equal(look(t, row_of(9)), 0);
	assert_int_equal(look(t, row_of(11)), -ENOENT);
	tfs_table_close(t);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {T(in_stretches), T(large_values), T(of_a_dropped_table), T(root_needs_less),
		T(damaged_batches), T(reads_fail), T(lost_records_are_no_cause)};

	return RUN(tests);
}
