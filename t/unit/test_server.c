/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server and the master behind the public API: what only happens when
 * things meet (drops and writers, first requests, schemas handed out), when
 * METADATA cannot be changed, when the disk is full, and what opening says
 * of a damaged store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/open.h"
#include "engine/server/internal.h"
#include "t/unit/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

static struct open_hooks hooks;
static struct tfs_options options;
static struct tfs_store *store;

/* One hook for good, as background threads may be in it at any time; what it does is changed here. */
static _Atomic(file_hook_fn *) hook_now;
static _Atomic(void *) hook_arg;
static _Atomic uint64_t hook_number;

static int dispatch(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	file_hook_fn *fn = hook_now;

	(void)arg, (void)number;
	return fn ? fn(hook_arg, op, path, offset, n, ++hook_number) : 0;
}

static void set_hook(file_hook_fn *fn, void *arg)
{
	hook_now = NULL;
	hook_arg = arg;
	hook_number = 0;
	hook_now = fn;
}

static int setup(void **state)
{
	hooks = (struct open_hooks){0};
	tfs_options_init(&options);
	options.no_background = true;
	options.block_cache_bytes = options.memtable_bytes = options.table_cache_bytes = 8u << 20;
	options.log_segment_bytes = 1u << 20;
	return test_dir_setup(state);
}

static int teardown(void **state)
{
	set_hook(NULL, NULL);
	return test_dir_teardown(state);
}

static void open_store(void)
{
	char *why = NULL;
	int err = tfs_open_hooked(in_dir("d"), &options, &hooks, &store, &why);

	if (err)
		print_message("open: %s\n", why);
	assert_int_equal(err, 0);
}

static void close_store(bool flush)
{
	hooks.no_flush = !flush;
	assert_int_equal(tfs_close(store), 0);
	store = NULL;
}

static struct tfs_table *open_table(const char *name)
{
	struct tfs_table *t;

	assert_int_equal(tfs_table_open(store, name, &t), 0);
	return t;
}

static int add_family(struct tfs_table *t, const char *name)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .mode = 0644};

	return tfs_schema_change(t, &e, NULL);
}

static int drop_family(struct tfs_table *t, const char *name)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_DROP, .name = name};

	return tfs_schema_change(t, &e, NULL);
}

static struct tfs_table *make_table(const char *name)
{
	struct tfs_table *t;

	assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
	t = open_table(name);
	assert_int_equal(add_family(t, "f"), 0);
	return t;
}

static int put(struct tfs_table *t, const char *row, const char *family, const char *value)
{
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(row));
	int err = tfs_mutation_put(m, family, TFS_S("q"), TFS_AUTO, tfs_str(value));

	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err;
}

static int delete_row(struct tfs_table *t, const char *row)
{
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(row));
	int err = tfs_mutation_delete_row(m);

	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err;
}

static int look(struct tfs_table *t, const char *row)
{
	struct tfs_info info;

	return tfs_stat(t, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info);
}

/* ---- drops and writers ---- */
struct writer {
	pthread_t thread;
	struct tfs_table *table;
	_Atomic bool go, stop;
	_Atomic unsigned acked;
	int last;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;
	char row[16];

	while (!w->go)
		;
	for (unsigned i = 0; !w->stop && i < 40; i++) {
		snprintf(row, sizeof(row), "r%u", i);
		w->last = put(w->table, row, "f", "v");
		if (w->last)
			break;
		w->acked++;
	}
	return NULL;
}

enum victim { TABLE, FAMILY, REPLACED, TYPE, VICTIMS };

static int take_away(enum victim v, struct tfs_table *t)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_TYPE, .name = "f", .value = "counter"};

	switch (v) {
	case TABLE:
		return tfs_table_drop(store, "t");
	case FAMILY:
		return drop_family(t, "f");
	case REPLACED:
		return tfs_table_rename(store, "other", "t", false);
	case TYPE:
		return tfs_schema_change(t, &e, NULL);
	case VICTIMS:
		break;
	}
	return -EINVAL;
}

/*
 * At the moment that takes the table or family away, all having been judged,
 * a writer is let loose and given every chance to be acknowledged.
 */
static int let_loose(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct writer *w = arg;

	(void)offset, (void)n, (void)number;
	if ((op != FILE_OP_UNLINK && op != FILE_OP_RENAME) || w->go || !strstr(path, "/lock/"))
		return 0;
	w->go = true;
	for (unsigned i = 0; i < 3000 && !w->acked; i++)
		sched_yield();
	return 0;
}

/* What was acknowledged before something was taken away as empty would be lost: there must be none of it. */
static void drop_and_writers(void **state)
{
	static const int refusals[VICTIMS] = {-ENOTEMPTY, -EBUSY, -ENOTEMPTY, -EBUSY};
	static const int after[VICTIMS] = {-ENOENT, -EINVAL, -ENOENT, 0};
	unsigned taken[VICTIMS] = {0};

	(void)state;
	open_store();
	for (unsigned i = 0; i < 240; i++) {
		enum victim v = i % VICTIMS;
		struct tfs_table *t = make_table("t"), *other = v == REPLACED ? make_table("other") : NULL;
		static struct writer w;
		int err;

		w.table = t;
		w.go = w.stop = false;
		w.acked = 0;
		w.last = 0;
		assert_int_equal(pthread_create(&w.thread, NULL, write_on, &w), 0);
		if (i < 40) {
			set_hook(let_loose, &w);
		} else {
			w.go = true;
			for (volatile unsigned k = (i * 7919) % 900000; k; k--)
				;
		}
		err = take_away(v, t);
		w.stop = w.go = true;
		pthread_join(w.thread, NULL);
		set_hook(NULL, NULL);
		if (err) {
			assert_int_equal(err, refusals[v]);
			assert_true(w.acked > 0);
			assert_int_equal(w.last, 0);
			assert_int_equal(look(t, "r0"), 0);
		} else {
			taken[v]++;
			if (v == TYPE) /* the column lives on, as another type: writes go on */
				assert_int_equal(w.last, 0);
			else
				assert_int_equal(w.acked, 0);
			if (v != TYPE && w.last)
				assert_int_equal(w.last, after[v]);
		}
		tfs_table_close(t);
		if (other)
			tfs_table_close(other);
		for (unsigned k = 0; k < 2; k++) {
			const char *name = k ? "other" : "t";

			if (tfs_table_open(store, name, &t))
				continue;
			for (unsigned r = 0; r < 40; r++) {
				char row[16];

				snprintf(row, sizeof(row), "r%u", r);
				assert_int_equal(delete_row(t, row), 0);
			}
			tfs_table_close(t);
			assert_int_equal(tfs_table_drop(store, name), 0);
		}
	}
	for (unsigned v = 0; v < VICTIMS; v++)
		print_message("taken away %u of 60\n", taken[v]);
	close_store(true);
}

static void *look_once(void *arg)
{
	struct writer *w = arg;

	while (!w->go)
		;
	w->last = look(w->table, "r");
	return NULL;
}

/* Many first requests of one new table: one tablet. */
static void first_requests(void **state)
{
	(void)state;
	open_store();
	for (unsigned i = 0; i < 20; i++) {
		struct tfs_table *t;
		struct writer w[4];
		struct held **list;
		unsigned count;

		assert_int_equal(tfs_table_create(store, "t", 0, 0, 0755), 0);
		t = open_table("t");
		/* A family makes the server know more than a name, but loads nothing. */
		assert_int_equal(add_family(t, "f"), 0);
		for (unsigned k = 0; k < 4; k++) {
			w[k] = (struct writer){.table = t};
			assert_int_equal(pthread_create(&w[k].thread, NULL, look_once, &w[k]), 0);
		}
		for (unsigned k = 0; k < 4; k++)
			w[k].go = true;
		for (unsigned k = 0; k < 4; k++) {
			pthread_join(w[k].thread, NULL);
			assert_int_equal(w[k].last, -ENOENT);
		}
		assert_int_equal(held_list(hooks.server, tfs_table_id(t), &list, &count), 0);
		assert_int_equal(count, 1);
		held_put(list[0]);
		free(list);
		tfs_table_close(t);
		assert_int_equal(tfs_table_drop(store, "t"), 0);
	}
	close_store(true);
}

struct adder {
	pthread_t thread;
	struct tfs_table *table;
	unsigned number;
	int err;
};

static void *add_and_write(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < 30 && !a->err; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%u_%u", a->number, i);
		a->err = add_family(a->table, name);
		if (!a->err)
			a->err = put(a->table, "r", name, "v");
	}
	return NULL;
}

/* A family that was made is there for the next write, whoever else changes the schema meanwhile. */
static void schemas_handed_out_in_order(void **state)
{
	struct adder a[4];
	struct tfs_table *t;
	struct tfs_scan_spec spec = {.what = TFS_SCAN_KEYS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	unsigned cells = 0;

	(void)state;
	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < 4; i++) {
		a[i] = (struct adder){.table = t, .number = i};
		assert_int_equal(pthread_create(&a[i].thread, NULL, add_and_write, &a[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(a[i].thread, NULL);
		assert_int_equal(a[i].err, 0);
	}
	assert_int_equal(tfs_scan_new(t, &spec, &sc), 0);
	while (tfs_scan_next(sc, &c) > 0)
		cells++;
	tfs_scan_free(sc);
	assert_int_equal(cells, 120);
	tfs_table_close(t);
	close_store(true);
}

static unsigned files_in(const char *dir)
{
	DIR *d = opendir(in_dir(dir));
	unsigned n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* A scan open over a drop ends in -ENOENT; the files go when it is freed, and not before. */
static void scan_over_drop(void **state)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .batch_bytes = 1};
	char row[16], sst[64];
	struct tfs_table *t;
	struct tfs_scan *sc;
	struct tfs_cell c;
	int n;

	(void)state;
	open_store();
	t = make_table("t");
	snprintf(sst, sizeof(sst), "d/sst/%u", tfs_table_id(t));
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "r%05u", i);
		assert_int_equal(put(t, row, "f", "some value that makes batches end"), 0);
	}
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(tfs_scan_new(t, &spec, &sc), 0);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "r%05u", i);
		assert_int_equal(delete_row(t, row), 0);
	}
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	assert_true(files_in(sst) > 0);
	do
		n = tfs_scan_next(sc, &c);
	while (n > 0);
	assert_int_equal(n, -ENOENT);
	assert_int_equal(tfs_scan_next(sc, &c), -ENOENT);
	assert_int_equal(look(t, "r00000"), -ENOENT);
	assert_int_equal(put(t, "r", "f", "v"), -ENOENT);
	assert_int_equal(put(t, "r", "unknown", "v"), -ENOENT);
	assert_int_equal(tfs_flush(t), -ENOENT);
	assert_int_equal(files_in(sst), 0);
	assert_int_equal(tfs_close(store), -EBUSY);
	tfs_scan_free(sc);
	assert_int_equal(tfs_close(store), -EBUSY);
	tfs_table_close(t);
	close_store(true);
}

/* ---- METADATA that cannot be changed ---- */
struct fault {
	enum file_op op;
	const char *part;         /* of the path */
	_Atomic unsigned times;   /* left */
	_Atomic unsigned seen;
	int err;
};

static int fail_some(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct fault *f = arg;

	(void)offset, (void)n, (void)number;
	if (op != f->op || !strstr(path, f->part))
		return 0;
	f->seen++;
	if (!f->times)
		return 0;
	f->times--;
	return f->err;
}

/* The root file is written, yet its put says EIO: the next change must find that out, not stop for ever. */
static void root_in_doubt(void **state)
{
	static struct fault f = {.op = FILE_OP_SYNCDIR, .part = "/lock", .err = -EIO};
	struct tfs_table *t;

	(void)state;
	open_store();
	t = make_table("a");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	open_store();
	f.times = 1;
	set_hook(fail_some, &f);
	t = open_table("a");
	assert_int_equal(put(t, "r2", "f", "v"), -EIO); /* the first write of METADATA's, and of root's */
	set_hook(NULL, NULL);
	assert_int_equal(f.times, 0);
	assert_int_equal(put(t, "r2", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("a");
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(look(t, "r2"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* A METADATA row that has become another server's is not written to, and users hear of -EIO, not of -ESTALE. */
static void row_of_another(void **state)
{
	struct tfs_table *t;
	struct arena arena = {0};
	struct meta_tablet now = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count, files;

	(void)state;
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(meta_row_key(&key, tfs_table_id(t), true, (struct slice){NULL, 0}), 0);
	assert_int_equal(metadata_read(server_service(hooks.server), buf_slice(&key), &now), 0);
	assert_int_equal(now.server, hooks.server->incarnation);
	files = now.file_count;
	assert_int_equal(meta_ops_owner(&now, 4711, &arena, &ops, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(metadata_mutate(server_service(hooks.server), buf_slice(&key), ops, count), 0);
	assert_int_equal(tfs_flush(t), -EIO);
	assert_int_equal(put(t, "r2", "f", "v"), -EIO);
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(metadata_read(server_service(hooks.server), buf_slice(&key), &now), 0);
	assert_int_equal(now.server, 4711);
	assert_int_equal(now.file_count, files);
	meta_tablet_fini(&now);
	arena_fini(&arena);
	buf_fini(&key);
	tfs_table_close(t);
	close_store(false);
}

/* A drop whose unlink could not be synced, and a file that cannot be read: no write is acknowledged before it is known. */
static void drop_in_doubt(void **state)
{
	static struct fault f = {.op = FILE_OP_SYNCDIR, .part = "/lock", .err = -EIO};
	struct tfs_table *t;

	(void)state;
	open_store();
	t = make_table("t");
	assert_int_equal(look(t, "r"), -ENOENT);
	f.times = 5;
	set_hook(fail_some, &f);
	assert_int_equal(tfs_table_drop(store, "t"), -EIO);
	assert_int_equal(put(t, "r", "f", "v"), -EIO);
	f.times = 0;
	assert_int_equal(put(t, "r", "f", "v"), -ENOENT);
	set_hook(NULL, NULL);
	tfs_table_close(t);
	close_store(false);
	open_store();
	assert_int_equal(tfs_table_open(store, "t", &t), -ENOENT);
	close_store(true);
}

/* ---- a full disk ---- */
struct full {
	_Atomic bool full;
	_Atomic bool ballast;
};

static int full_disk(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct full *f = arg;

	(void)offset, (void)n, (void)number;
	if (op == FILE_OP_UNLINK && strstr(path, "/ballast"))
		f->ballast = false;
	if (f->full && f->ballast && (op == FILE_OP_WRITE || op == FILE_OP_CREATE || op == FILE_OP_ALLOCATE))
		return -ENOSPC;
	return 0;
}

static void ballast(void **state)
{
	static struct full f;
	struct tfs_table *t;
	int fd;

	(void)state;
	f = (struct full){.ballast = true};
	open_store();
	close_store(true);
	fd = open(in_dir("d/ballast"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0 && ftruncate(fd, 16 << 20) == 0);
	close(fd);
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	set_hook(full_disk, &f);
	f.full = true;
	assert_int_equal(put(t, "r2", "f", "v"), -ENOSPC);
	assert_int_equal(put(t, "r2", "f", "v"), -ENOSPC);
	assert_true(f.ballast);
	assert_int_equal(delete_row(t, "r"), 0);
	assert_false(f.ballast);
	f.full = false;
	assert_int_equal(put(t, "r3", "f", "v"), 0);
	set_hook(NULL, NULL);
	tfs_table_close(t);
	close_store(false);
	open_store();
	t = open_table("t");
	assert_int_equal(look(t, "r"), -ENOENT);
	assert_int_equal(look(t, "r2"), -ENOENT);
	assert_int_equal(look(t, "r3"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* ---- opening ---- */
struct nth {
	_Atomic uint64_t at;
	_Atomic int err;
};

static int fail_nth(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	const struct nth *f = arg;

	(void)op, (void)path, (void)offset, (void)n;
	return number == f->at ? f->err : 0;
}

/* Every file operation of an open fails in turn: one message, nothing held, and the next open finds everything. */
static void open_fails_everywhere(void **state)
{
	static const int errs[] = {-EIO, -ENOSPC};
	unsigned failed = 0;

	(void)state;
	for (unsigned fresh = 0; fresh < 2; fresh++) {
		for (uint64_t at = 1;; at++) {
			static struct nth f;
			struct tfs_table *t;
			char *why = NULL, cmd[600];
			int err;

			f.err = errs[at % 2];
			f.at = at;
			if (fresh) {
				snprintf(cmd, sizeof(cmd), "rm -rf '%s'", in_dir("d"));
				assert_int_equal(system(cmd), 0);
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

static void damage(const char *path, long at)
{
	FILE *f = fopen(path, "r+b");
	int c;

	assert_non_null(f);
	assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
	c = fgetc(f);
	assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
	fputc(c ^ 0x5a, f);
	fclose(f);
}

static void refused(const char *part, int expect)
{
	char *why = NULL;
	int err = tfs_open_hooked(in_dir("d"), &options, &hooks, &store, &why);

	if (err != expect)
		print_message("%s damaged: opened with %s: %s\n", part, strerror(-err), why ? why : "");
	assert_int_equal(err, expect);
	assert_non_null(why);
	if (!strstr(why, part))
		print_message("%s is not named in: %s\n", part, why);
	assert_non_null(strstr(why, part));
	free(why);
}

static void shell(const char *command)
{
	char cmd[1500];

	snprintf(cmd, sizeof(cmd), "cd '%s' && %s", in_dir(""), command);
	assert_int_equal(system(cmd), 0);
}

static void damaged_stores(void **state)
{
	static const char *const files[] = {"lock/root", "lock/incarnation", "lock/tables/t", "FORMAT"};
	struct tfs_table *t;
	char path[300];
	FILE *p;

	(void)state;
	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	tfs_table_close(t);
	close_store(true);
	shell("cp -a d whole");
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "d/%s", files[i]);
		damage(in_dir(path), -2);
		refused(files[i], -EBADMSG);
		shell("rm -rf d && cp -a whole d");
	}
	shell("rm -r d/log");
	refused("/log", -EBADMSG);
	shell("rm -rf d && cp -a whole d && rm -r d/sst");
	refused("/sst", -EBADMSG);
	/* an SSTable of METADATA: damaged, then missing */
	for (unsigned i = 0; i < 2; i++) {
		shell("rm -rf d && cp -a whole d");
		shell("ls d/sst/1/*.sst > list");
		p = fopen(in_dir("list"), "r");
		while (p && fgets(path, sizeof(path), p)) {
			path[strcspn(path, "\n")] = 0;
			if (i)
				unlink(in_dir(path));
			else
				damage(in_dir(path), 20);
		}
		fclose(p);
		refused("sst/1/", i ? -EIO : -EBADMSG);
	}
	/* a log that is needed: missing, damaged below what is durable */
	shell("rm -rf d && cp -a whole d");
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
	shell("rm -rf d && cp -a whole d");
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

/* A directory that merely looks like half a store is not taken over; half a store is. */
static void half_made(void **state)
{
	struct tfs_table *t;

	(void)state;
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

/* Closing stops at its first SSTable until somebody who opens has looked at what the holder says. */
static _Atomic unsigned looked_at_held;

static int close_slowly(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	(void)arg, (void)offset, (void)n, (void)number;
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

/* Who opens a store while its last user still writes its memory out waits; while one is using it, it is in use. */
static void open_while_closing(void **state)
{
	struct open_hooks others = {0};
	struct tfs_store *other;
	struct tfs_table *t;
	pthread_t thread;
	char *why = NULL;
	void *closed;

	(void)state;
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
	open_store(); /* the mark has gone with who made it */
	assert_int_equal(tfs_open_hooked(in_dir("d"), &options, &others, &other, NULL), -EBUSY);
	close_store(true);
}

struct reads {
	_Atomic unsigned tables;
};

static int count_reads(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct reads *r = arg;

	(void)offset, (void)n, (void)number;
	if (op == FILE_OP_OPEN && strstr(path, "/lock/tables/"))
		r->tables++;
	return 0;
}

/* Opening reads each table's file once or twice, and an old handle of a dropped table makes nobody read them all again. */
static void many_tables(void **state)
{
	static struct reads r;
	struct tfs_table *t;
	char name[16];

	(void)state;
	options.no_background = true;
	open_store();
	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
	}
	close_store(true);
	set_hook(count_reads, &r);
	open_store();
	assert_true(r.tables >= 300 && r.tables <= 600); /* by the server and by the master */
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
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(drop_and_writers), T(first_requests), T(schemas_handed_out_in_order), T(scan_over_drop), T(root_in_doubt),
		T(row_of_another), T(drop_in_doubt), T(ballast), T(open_fails_everywhere), T(damaged_stores), T(half_made),
		T(open_while_closing), T(many_tables),
	};

	msg_to_nowhere();
	file_set_hook(dispatch, NULL);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
