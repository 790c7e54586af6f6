/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a store: each file operation fails in turn; files are damaged, missing or
 * foreign; another process is closing the store; many tables.
 */
#include "engine/client/client.h"
#include "engine/lock/local_files.h"
#include "engine/meta/meta_format.h"
#include "engine/schema/schema_internal.h"
#include "t/lib/file_faults.h"
#include "t/unit/server_lib.h"

struct nth {
	_Atomic uint64_t at;
	_Atomic int err;
};

static int fail_nth(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const struct nth *f = arg;

	return number == f->at ? f->err : 0;
}

/* Every file operation of an open fails in turn: one message, nothing held, and the next open finds everything. */
static void open_fails_everywhere(void **state)
{
	static const int errs[] = {-EIO, -ENOSPC};
	unsigned failed = 0;

	for (unsigned fresh = 0; fresh < 2; fresh++) {
		for (uint64_t at = 1;; at++) {
			static struct nth f;
			struct tfs_table *t;
			char *why = NULL;
			int err;

			f.err = errs[at % 2];
			f.at = at;
			if (fresh) {
				assert_true(tree_remove(in_dir("d")));
			} else if (at == 1) {
				open_store();
				t = make_table("t");
				assert_int_equal(put(t, "r", "f", "v"), 0);
				tfs_table_close(t);
				close_store(false);
			}
			set_hook(fail_nth, &f);
			hooks.no_flush = true;
			err = tfs_open_hooked(in_dir("d"), &options, &hooks, &store, &why);
			set_hook(NULL, NULL);
			if (err) {
				failed++;
				assert_non_null(why);
				assert_non_null(strstr(why, in_dir("d")));
				assert_null(strchr(why, '\n'));
				free(why);
				open_store();
			} else {
				assert_null(why);
			}
			if (!fresh) {
				t = open_table("t");
				assert_int_equal(look(t, "r"), 0);
				tfs_table_close(t);
			}
			close_store(false);
			if (!err && at > 400)
				break;
		}
	}
	print_message("%u opens failed\n", failed);
	assert_true(failed > 60);
}

static size_t size_of(const char *path)
{
	uint64_t n;

	assert_int_equal(file_stat_size(path, &n), 0);
	return (size_t)n;
}

/* One bit of an SSTable of METADATA: the store opens, and the file is whole again. */
static void one_bit_of_metadata(void **state)
{
	struct tfs_table *t;
	char path[300];
	FILE *p;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	shell("ls d/sst/1/*.sst > list && cp -a d whole");
	p = fopen(in_dir("list"), "r");
	while (p && fgets(path, sizeof(path), p)) {
		path[strcspn(path, "\n")] = 0;
		for (unsigned i = 0; i < 40; i++) {
			size_t n = size_of(in_dir(path));

			assert_true(put_back("whole", "d"));
			damage(in_dir(path), (long)(i * n / 40));
			assert_false(copies_agree(in_dir(path)));
			open_store();
			assert_true(access(in_dir(path), F_OK) || copies_agree(in_dir(path)));
			t = open_table("t");
			assert_int_equal(look(t, "r"), 0);
			tfs_table_close(t);
			close_store(false);
		}
	}
	fclose(p);
}

static void damaged_stores(void **state)
{
	static const char *const files[] = {"lock/root", "lock/incarnation", "lock/store", "lock/tables/t", "FORMAT"};
	struct tfs_table *t;
	char path[300];
	FILE *p;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	assert_true(put_back("d", "whole"));
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "d/%s", files[i]);
		for (unsigned which = 0; which < 2; which++) {
			damage_copies(in_dir(path), which == 0, which == 1);
			assert_false(copies_agree(in_dir(path)));
			open_store();
			assert_true(copies_agree(in_dir(path)));
			t = open_table("t");
			assert_int_equal(look(t, "r"), 0);
			tfs_table_close(t);
			close_store(true);
		}
		damage_copies(in_dir(path), true, true);
		if (strcmp(files[i], "lock/tables/t") == 0) { /* that table alone */
			open_store();
			assert_int_equal(tfs_table_open(store, "t", &t), -EBADMSG);
			close_store(true);
		} else {
			refused(files[i], -EBADMSG);
		}
		assert_true(put_back("whole", "d"));
	}
	shell("rm -r d/log");
	refused("/log", -EBADMSG);
	shell("rm -rf d && cp -a whole d && rm -r d/sst");
	refused("/sst", -EBADMSG);
	/* an SSTable of METADATA: damaged, then missing */
	for (unsigned i = 0; i < 2; i++) {
		assert_true(put_back("whole", "d"));
		shell("ls d/sst/1/*.sst > list");
		p = fopen(in_dir("list"), "r");
		while (p && fgets(path, sizeof(path), p)) {
			path[strcspn(path, "\n")] = 0;
			if (i) {
				unlink(in_dir(path));
				continue;
			}
			damage(in_dir(path), 20);
			damage(in_dir(path), (long)copies_apart((size_of(in_dir(path)) + 1) / 2) + 20);
		}
		fclose(p);
		refused("sst/1/", i ? -EIO : -EBADMSG);
	}
	/* a log that is needed: missing, or damaged in its durable part */
	assert_true(put_back("whole", "d"));
	open_store();
	t = open_table("t");
	for (unsigned i = 0; i < 30; i++) {
		assert_int_equal(put(t, "r", "f", "v2"), 0);
		assert_int_equal(tfs_sync(store), 0);
	}
	tfs_table_close(t);
	close_store(false);
	shell("rm -rf whole && cp -a d whole && rm -r d/log/2");
	refused("log/2", -EBADMSG);
	assert_true(put_back("whole", "d"));
	snprintf(path, sizeof(path), "d/log/2/1.log");
	if (access(in_dir(path), F_OK)) {
		shell("ls d/log/2/* > list");
		p = fopen(in_dir("list"), "r");
		assert_non_null(fgets(path, sizeof(path), p));
		path[strcspn(path, "\n")] = 0;
		fclose(p);
	}
	for (long at = 1500; at < 2500; at += 100) /* some thirty records of about a hundred bytes, all but the last synced */
		damage(in_dir(path), at);
	refused("log/2", -EBADMSG);
}

static void delete_metadata_row(const char *name)
{
	struct tfs_table *t;
	struct buf key = {0};

	open_store();
	t = open_table(name);
	assert_int_equal(meta_row_key(&key, tfs_table_id(t), true, (struct tfs_bytes){NULL, 0}), 0);
	assert_int_equal(metadata_delete(server_service(hooks.server), buf_bytes(&key)), 0);
	buf_fini(&key);
	tfs_table_close(t);
	close_store(false);
}

/* tabletctl check calls it damage too. */
static void check_says(const char *part)
{
	const char *build = getenv("BUILD");
	char cmd[900];

	snprintf(cmd, sizeof(cmd), "%s/tabletctl", build ? build : "");
	if (!build || access(cmd, X_OK))
		return;
	snprintf(cmd, sizeof(cmd),
		"%s/tabletctl check d > said 2>&1; test $? = 1 && grep -q '^damaged: .*%s' said || { cat said; false; }", build,
		part);
	shell(cmd);
}

/* A part that is missing, old or there twice is not taken for "new", nor for "dropped": nothing is swept for want of it. */
static void missing_parts(void **state)
{
	static const struct {
		const char *command, *part;
	} cases[] = {
		{"rm d/lock/root", "lock/root: missing"},
		{"rm d/lock/root d/lock/ids && rm -r d/lock/tables", "lock/root: missing"},
		{"rm -r d/lock && mkdir d/lock", "lock/incarnation: missing"},
		{"rm d/lock/incarnation", "lock/incarnation: missing"},
		{"cp old/lock/incarnation d/lock/incarnation", "lock/incarnation: an old one"},
		{"rm d/lock/store", "lock/store: missing"},
		{"rm d/lock/ids", "lock/ids"},
		{"rm d/lock/tables/t", "lock/tables"},
		{"rm -r d/lock/tables", "lock/tables"},
		{"mv d/lock/tables/t d/lock/tables/u", "lock/tables/u"},
		{"cp d/lock/tables/t d/lock/tables/u", "lock/tables/u"},
		{"METADATA", "table t"},
	};
	struct tfs_table *t;

	open_store();
	close_store(false);
	shell("cp -a d old");
	for (unsigned round = 0; round < 2; round++) { /* the data in SSTables; in the log alone */
		open_store();
		t = round ? open_table("t") : make_table("t");
		assert_int_equal(put(t, round ? "r2" : "r", "f", "v"), 0);
		tfs_table_close(t);
		close_store(!round);
		assert_true(put_back("d", "whole"));
		for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			bool metadata = strcmp(cases[i].command, "METADATA") == 0;

			if (metadata)
				delete_metadata_row("t");
			else
				shell(cases[i].command);
			refused(cases[i].part, -EBADMSG);
			check_says(cases[i].part);
			/*
			 * All the rest is still there: with the lock service's files again, and a count
			 * that continues, it opens.
			 */
			if (metadata)
				assert_true(put_back("whole", "d"));
			else if (strstr(cases[i].part, "incarnation"))
				assert_true(put_back("whole/lock", "d/lock"));
			else
				shell("cp d/lock/incarnation . && rm -rf d/lock && cp -a whole/lock d/lock && cp incarnation d/lock");
			open_store();
			t = open_table("t");
			assert_int_equal(look(t, "r"), 0);
			assert_int_equal(look(t, round ? "r2" : "r"), 0);
			tfs_table_close(t);
			close_store(false);
			assert_true(put_back("whole", "d"));
		}
	}
}

/* ---- parts that are whole, and lie ---- */

static void forge_file(const char *name, struct tfs_bytes contents)
{
	struct lock_service *locks;

	assert_int_equal(lock_local_open(in_dir("d/lock"), &locks), 0);
	assert_int_equal(lock_put(locks, name, contents, LOCK_ANY, NULL), 0);
	lock_service_free(locks);
}

static void forge_root(uint32_t table, bool last, const char *begin, struct tfs_bytes end, uint64_t server)
{
	struct meta_tablet m = {.table = table, .last = last, .server = server};
	struct buf b = {0};

	assert_int_equal(buf_append_bytes(&m.begin, tfs_str(begin)) || buf_append_bytes(&m.end, end), 0);
	assert_int_equal(meta_root_encode(&m, &b), 0);
	forge_file("root", buf_bytes(&b));
	meta_tablet_fini(&m);
	buf_fini(&b);
}

static void forge_schema(const char *name, uint32_t id)
{
	struct buf b = {0};
	struct schema *s;
	char file[40];

	snprintf(file, sizeof(file), "tables/%s", name);
	assert_int_equal(schema_new(name, id, 0, 0, 0755, 1, &s), 0);
	assert_int_equal(schema_encode(s, &b), 0);
	forge_file(file, buf_bytes(&b));
	schema_put(s);
	buf_fini(&b);
}

/* An earlier version stored schemas of up to 960 KiB.  Such a table is served as before; only changes that leave it so large are refused. */
static void large_schema_of_an_earlier_version(void **state)
{
	struct buf b = {0};
	const struct tfs_schema *stored;
	const char *reason;
	struct tfs_table *t;
	struct schema *s;
	uint64_t version;
	bool unknown = false;
	char key[60 << 10];

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	assert_int_equal(lock_files_read(in_dir("d/lock"), "tables/t", &b, &version), 0);
	assert_int_equal(schema_decode_draft(buf_bytes(&b), &s), 0);
	memset(key, 'k', sizeof(key));
	for (unsigned i = 0; i < 15; i++) {
		key[sizeof(key) - 1] = (char)('a' + i);
		assert_int_equal(draft_split(s, tfs_bytes_of(key, sizeof(key)), &reason), 0);
	}
	buf_reset(&b);
	assert_int_equal(schema_encode(s, &b), 0);
	assert_true(b.n > 850 << 10);
	assert_int_equal(
		lock_files_change(in_dir("d/lock"),
			&(struct lock_step){.name = "tables/t", .contents = buf_bytes(&b), .version = version + 1}, 1, &unknown),
		0);
	schema_put(s);
	buf_fini(&b);

	for (unsigned i = 0; i < 2; i++) {
		open_store();
		t = open_table("t");
		assert_int_equal(tfs_schema_get(t, &stored), 0);
		assert_int_equal(stored->split_count, 15);
		tfs_schema_put(stored);
		assert_int_equal(look(t, "r"), 0);
		assert_int_equal(put(t, "r2", "f", "v"), 0);
		assert_int_equal(add_family(t, "g"), -EINVAL);
		assert_int_equal(put(t, "r", "f", "v2"), 0);
		if (i) {
			assert_int_equal(delete_row(t, "r"), 0);
			assert_int_equal(delete_row(t, "r2"), 0);
			assert_int_equal(tfs_table_drop(store, "t"), 0);
		}
		tfs_table_close(t);
		close_store(i == 0);
	}
}

/* A row of METADATA: written through the server, as an edit is. */
static void forge_row(struct meta_tablet *m, struct tfs_bytes end)
{
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;

	open_store();
	assert_int_equal(meta_row_key(&key, m->table, m->last, end), 0);
	assert_int_equal(meta_ops_new(m, &arena, &ops, &count), 0);
	assert_int_equal(metadata_mutate(server_service(hooks.server), buf_bytes(&key), ops, count), 0);
	close_store(false);
	arena_fini(&arena);
	buf_fini(&key);
	meta_tablet_fini(m);
}

static void forge(unsigned which)
{
	struct tablet_file f = {.incarnation = 77, .number = 1, .table = 16, .seq_max = 1};
	const struct tfs_bytes root_end = tfs_bytes_of("\0\0\0\2", 4);
	struct meta_tablet m = {.table = 16, .last = true};

	switch (which) {
	case 0:
		forge_file("ids", tfs_bytes_of("\0\0\0\1", 4));
		break; /* the next table would be METADATA's twin */
	case 1:
		forge_schema("t", META_TABLE);
		break;
	case 2:
		forge_schema("u", 16);
		break;
	case 3:
		forge_root(16, false, "", root_end, 1);
		break;
	case 4:
		forge_root(META_TABLE, true, "", tfs_bytes_of(NULL, 0), 1);
		break;
	case 5:
		forge_root(META_TABLE, false, "a", root_end, 1);
		break;
	case 6:
		forge_root(META_TABLE, false, "", tfs_bytes_of("\0\0\0\3", 4), 1);
		break;
	case 7:
		forge_root(META_TABLE, false, "", root_end, 77);
		break;
	case 8:
		assert_int_equal(meta_redo_add(&m, (struct redo_point){77, 1}, false), 0);
		forge_row(&m, tfs_bytes_of(NULL, 0));
		break;
	case 9:
		assert_int_equal(meta_files_add(&m, &f, false), 0);
		forge_row(&m, tfs_bytes_of(NULL, 0));
		break;
	case 10:
		m.server = 77;
		forge_row(&m, tfs_bytes_of(NULL, 0));
		break;
	case 11: /* a tablet of METADATA that ends within the root tablet */
		m = (struct meta_tablet){.table = META_TABLE};
		forge_row(&m, tfs_bytes_of("\0\0\0\1", 4));
		break;
	default: /* one of no table */
		m = (struct meta_tablet){.table = 0, .last = true};
		forge_row(&m, tfs_bytes_of(NULL, 0));
		break;
	}
}

static void forged_parts(void **state)
{
	static const char *const parts[] = {"lock/ids", "lock/tables/t", "lock/tables/u", "lock/root", "lock/root", "lock/root",
		"lock/root", "lock/incarnation", "lock/incarnation", "lock/incarnation", "lock/incarnation", "METADATA: table id 1",
		"METADATA: table id 0"};
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	/* nothing is written, so that no log remains that would show it */
	for (unsigned i = 0; i < 2; i++) {
		open_store();
		close_store(true);
	}
	assert_true(put_back("d", "whole"));
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		forge(i);
		check_says("");
		refused(parts[i], -EBADMSG);
		assert_true(put_back("whole", "d"));
	}
	shell("rm d/lock/incarnation");
	check_says("lock/incarnation: missing");
	refused("lock/incarnation", -EBADMSG);
	forge_file("incarnation", tfs_bytes_of("\0\0\0\0\0\0\0", 8));
	refused("lock/incarnation", -EBADMSG);
	shell("cp whole/lock/incarnation d/lock/incarnation");
	open_store();
	t = open_table("t");
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* Whole SSTables in each other's place: no checksum detects that, and neither table shows cells of the second. */
static void exchanged_files(void **state)
{
	struct tfs_table *t, *u;
	char row[16];

	open_store();
	t = make_table("t");
	u = make_table("u");
	for (unsigned i = 0; i < 20; i++) {
		snprintf(row, sizeof(row), "r%u", i);
		assert_int_equal(put(t, row, "f", "of t"), 0);
		if (i % 2)
			assert_int_equal(put(u, row, "f", "of u, longer, and fewer"), 0);
	}
	tfs_table_close(t);
	tfs_table_close(u);
	close_store(true);
	shell("cp -a d whole && cp d/sst/17/*.sst d/sst/16/*.sst");
	open_store();
	t = open_table("t");
	u = open_table("u");
	assert_int_equal(look(t, "r1"), -EBADMSG);
	assert_int_equal(look(t, "r2"), -EBADMSG);
	assert_int_equal(look(u, "r1"), 0);
	tfs_table_close(t);
	tfs_table_close(u);
	close_store(false);
	shell("rm -rf d && cp -a whole d && for f in d/sst/1/*.sst; do cp d/sst/17/*.sst $f; done");
	refused("sst/1/", -EBADMSG);
}

/* Files that are none of ours stay where they are. */
static void others_files(void **state)
{
	static const char *const files[] = {"sst/16/notes.txt", "sst/16/1-2.sst.bak", "sst/16/1-02.sst", "sst/backup/1-1.sst",
		"sst/016/1-1.sst", "sst/16/-1-1.sst", "log/-1/1.log", "log/keep/1.log", "log/007/1.log", "log/+1/1.log"};
	struct tfs_table *t;
	char cmd[200];

	open_store();
	t = make_table("t");
	assert_int_equal(tfs_table_id(t), 16);
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(cmd, sizeof(cmd), "mkdir -p $(dirname d/%s) && echo mine > d/%s", files[i], files[i]);
		shell(cmd);
	}
	shell("echo stray > d/sst/16/1-99.sst");
	open_store();
	assert_false(exists("d/sst/16/1-99.sst"));
	t = open_table("t");
	assert_int_equal(delete_row(t, "r"), 0);
	tfs_table_close(t);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	close_store(true);
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(cmd, sizeof(cmd), "d/%s", files[i]);
		assert_true(exists(cmd));
	}
}

/* A directory that merely looks like half a store is not taken over; half a store is. */
static void half_made(void **state)
{
	struct tfs_table *t;

	shell("mkdir -p d/log/17 && echo precious > d/log/17/file");
	refused("log", -ENOTEMPTY);
	assert_string_equal(contents("d/log/17/file", NULL), "precious\n");
	assert_true(exists("d/log"));
	shell("rm -rf d && mkdir -p d/lock d/sst && echo x > d/FORMAT.tmp");
	open_store();
	t = make_table("t");
	tfs_table_close(t);
	close_store(true);
	shell("rm -rf d && echo x > d");
	refused("d", -ENOTDIR);
	assert_int_equal(tfs_open("", NULL, &store, NULL), -EINVAL);
	assert_int_equal(tfs_open(NULL, NULL, &store, NULL), -EINVAL);
}

/* Closing stops at its first SSTable until an opening process has read the holder's mark. */
static _Atomic unsigned looked_at_held;

static int close_slowly(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op == FILE_OP_READ && strstr(path, "/lock/held"))
		looked_at_held++;
	while (op == FILE_OP_CREATE && strstr(path, ".sst") && looked_at_held < 2)
		sched_yield();
	return 0;
}

static void *close_in_thread(void *arg)
{
	return (void *)(intptr_t)tfs_close(arg);
}

/* An opening waits while the last user of the store still writes its memory out; while a process uses the store, it is in use. */
static void open_while_closing(void **state)
{
	struct open_hooks others = {0};
	struct tfs_store *other;
	struct tfs_table *t;
	pthread_t thread;
	char *why = NULL;
	void *closed;

	open_store();
	assert_int_equal(tfs_open_hooked(in_dir("d"), &options, &others, &other, &why), -EBUSY);
	assert_non_null(strstr(why, "in use"));
	free(why);
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	looked_at_held = 0;
	set_hook(close_slowly, NULL);
	assert_int_equal(pthread_create(&thread, NULL, close_in_thread, store), 0);
	assert_int_equal(tfs_open_hooked(in_dir("d"), &options, &others, &other, &why), 0);
	pthread_join(thread, &closed);
	set_hook(NULL, NULL);
	assert_int_equal((intptr_t)closed, 0);
	assert_true(looked_at_held >= 2);
	store = other;
	t = open_table("t");
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	assert_int_equal(tfs_close(other), 0);
	open_store(); /* the mark was removed by the process that made it */
	assert_int_equal(tfs_open_hooked(in_dir("d"), &options, &others, &other, NULL), -EBUSY);
	close_store(true);
}

struct reads {
	_Atomic unsigned tables;
};

static int count_reads(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct reads *r = arg;

	if (op == FILE_OP_OPEN && strstr(path, "/lock/tables/"))
		r->tables++;
	return 0;
}

/* Opening reads each table's file once or twice, and an old handle of a dropped table does not cause them all to be read again. */
static void many_tables(void **state)
{
	static struct reads r;
	struct timespec from, to;
	struct tfs_table *t;
	char name[16];

	options.no_background = true;
	open_store();
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
	}
	close_store(true);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	set_hook(count_reads, &r);
	open_store();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	print_message("# 1,000 tables: opened in %ld ms of CPU time\n",
		(to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
	assert_true(r.tables >= 1000 && r.tables <= 2000); /* by the server and by the master */
	t = open_table("t7");
	assert_int_equal(add_family(t, "f"), 0);
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(delete_row(t, "r"), 0);
	r.tables = 0;
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(r.tables, 0);
	assert_int_equal(delete_row(t, "r"), 0);
	assert_int_equal(tfs_table_drop(store, "t7"), 0);
	r.tables = 0;
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(look(t, "r"), -ENOENT);
	assert_int_equal(r.tables, 0);
	tfs_table_close(t);
	set_hook(NULL, NULL);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(open_fails_everywhere),
		T(damaged_stores),
		T(one_bit_of_metadata),
		T(missing_parts),
		T(forged_parts),
		T(large_schema_of_an_earlier_version),
		T(exchanged_files),
		T(others_files),
		T(half_made),
		T(open_while_closing),
		T(many_tables),
	};

	return RUN(tests);
}
